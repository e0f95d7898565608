(** lg-risk-prop-monotone: what the factor of a term does.  Bears on the claims about mu, sigma, gamma and Lambda that
    the page logistic/risk and the pages after it decide with it.
    Beside the prose: z is an element of any set, g and h are any functions on it. *)
Require Import Reals Lra.
Open Scope R_scope.

(* What has to be read *)

(* z minimises g + r h among what is possible *)
Definition minimises {Z : Type} (possible : Z -> Prop) (g h : Z -> R) (r : R) (z : Z) : Prop :=
  possible z /\ forall other, possible other -> g z + r * h z <= g other + r * h other.

(* With a larger factor the minimiser has no larger h, and, if the smaller factor is not negative, no smaller g *)
Definition factor_of_a_term_statement : Prop :=
  forall (Z : Type) (possible : Z -> Prop) (g h : Z -> R) r r' z z',
  minimises possible g h r z -> minimises possible g h r' z' -> r < r' ->
  h z' <= h z /\ (0 <= r -> g z <= g z').

(* The proofs, which need not be read *)

Theorem factor_of_a_term : factor_of_a_term_statement.
Proof.
  intros Z possible g h r r' z z' (pz & mz) (pz' & mz') lt. specialize (mz z' pz'). specialize (mz' z pz).
  assert (less : h z' <= h z).
  { apply Rnot_lt_le. intros up. assert (0 < (r' - r) * (h z' - h z)) by (apply Rmult_lt_0_compat; lra). lra. }
  split; auto. intros r0. assert (0 <= r * (h z - h z')) by (apply Rmult_le_pos; lra). lra.
Qed.

(* On two points *)
Example two_points : minimises (fun _ : bool => True) (fun b => if b then 1 else 0) (fun b => if b then 0 else 1) 0 false /\
  minimises (fun _ : bool => True) (fun b => if b then 1 else 0) (fun b => if b then 0 else 1) 2 true.
Proof. split; (split; [exact I|intros [|] _; lra]). Qed.

Print Assumptions factor_of_a_term.
