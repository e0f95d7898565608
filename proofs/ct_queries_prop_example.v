(** ct-queries-prop-example: the query of Khalili's Example 1.  Bears on the claim khalili-ex1-tight-sensitivity,
    page contracts/queries.
    Beside the prose: "can move by exactly 1/2" is stated as: by at most 1/2 at all data, and by 1/2 at some. *)
Require Import Reals Lra Psatz.
Open Scope R_scope.

(* What has to be read *)

(* The query of two data between 0 and 1 *)
Definition Q (d1 d2 : R) : R := d1 / (1 + d2 ^ 2) + 1 / (1 + d1 ^ 2).
Definition datum (d : R) : Prop := 0 <= d <= 1.

(* Q is between 1 and 3/2, and each seller can move it by exactly 1/2 *)
Definition example_statement : Prop :=
  (forall d1 d2, datum d1 -> datum d2 -> 1 <= Q d1 d2 <= 3 / 2) /\
  (forall d1 d1' d2, datum d1 -> datum d1' -> datum d2 -> Rabs (Q d1 d2 - Q d1' d2) <= 1 / 2) /\
  (exists d1 d1' d2, datum d1 /\ datum d1' /\ datum d2 /\ Rabs (Q d1 d2 - Q d1' d2) = 1 / 2) /\
  (forall d1 d2 d2', datum d1 -> datum d2 -> datum d2' -> Rabs (Q d1 d2 - Q d1 d2') <= 1 / 2) /\
  (exists d1 d2 d2', datum d1 /\ datum d2 /\ datum d2' /\ Rabs (Q d1 d2 - Q d1 d2') = 1 / 2).

(* The proofs, which need not be read *)

Lemma range d1 d2 : datum d1 -> datum d2 -> 1 <= Q d1 d2 <= 3 / 2.
Proof.
  intros h1 h2. unfold datum, Q in *. assert (p1 : 1 <= 1 + d1 ^ 2) by nra. assert (p2 : 1 <= 1 + d2 ^ 2 <= 2) by nra.
  assert (a : d1 / 2 <= d1 / (1 + d2 ^ 2) <= d1).
  { split.
    - apply Rmult_le_compat_l; [lra|]. apply Rinv_le_contravar; lra.
    - apply Rmult_le_reg_r with (1 + d2 ^ 2); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. nra. }
  split.
  - assert (1 <= d1 / 2 + 1 / (1 + d1 ^ 2)); [|lra]. apply Rmult_le_reg_r with (2 * (1 + d1 ^ 2)); [lra|].
    replace ((d1 / 2 + 1 / (1 + d1 ^ 2)) * (2 * (1 + d1 ^ 2))) with (d1 * (1 + d1 ^ 2) + 2) by (field; lra).
    assert (0 <= d1 * (1 - d1) ^ 2) by (apply Rmult_le_pos; [lra|apply pow2_ge_0]). lra.
  - assert (d1 + 1 / (1 + d1 ^ 2) <= 3 / 2); [|lra]. apply Rmult_le_reg_r with (2 * (1 + d1 ^ 2)); [lra|].
    replace ((d1 + 1 / (1 + d1 ^ 2)) * (2 * (1 + d1 ^ 2))) with (2 * d1 * (1 + d1 ^ 2) + 2) by (field; lra).
    assert (0 <= (1 - d1) * (2 * d1 ^ 2 - d1 + 1)) by (apply Rmult_le_pos; nra). lra.
Qed.

Theorem example_of_a_query : example_statement.
Proof.
  split; [exact range|]. split; [|split; [|split]].
  - intros d1 d1' d2 h1 h1' h2. pose proof (range d1 d2 h1 h2). pose proof (range d1' d2 h1' h2). apply Rabs_le. lra.
  - exists 1, 0, 0. unfold datum, Q. repeat (split; [lra|]). rewrite Rabs_right; [field|lra].
  - intros d1 d2 d2' h1 h2 h2'. pose proof (range d1 d2 h1 h2). pose proof (range d1 d2' h1 h2'). apply Rabs_le. lra.
  - exists 1, 0, 1. unfold datum, Q. repeat (split; [lra|]). rewrite Rabs_right; [field|lra].
Qed.

(* At the data 1 and 0 *)
Example largest : Q 1 0 = 3 / 2.
Proof. unfold Q. field. Qed.

Print Assumptions example_of_a_query.
