(** pr-idea-thm-norm: the exact loss of additive noise.  Bears on every claim about an exact loss, page privacy/idea.
    Beside the prose: the loss between D and D' is that of the page's definition, the largest logarithm of the ratio of the
    two densities; vectors are elements of any set with a difference and a norm that obey the rules used: the norm of
    x - z is at most that of x - y plus that of y - z, it is the same for x - y and y - x, and 0 for x - x. *)
Require Import Reals Lra.
Require Import noise_laws.
Open Scope R_scope.

(* What has to be read *)

(* distance x y stands for the norm of x - y *)
Definition of_a_norm {Vector : Type} (distance : Vector -> Vector -> R) : Prop :=
  (forall x y z, distance x z <= distance x y + distance y z) /\
  (forall x y, distance x y = distance y x) /\ (forall x, distance x x = 0).

(* The density of theta + Z at x, where Z has a density proportional to exp (- rate times norm) *)
Definition density {Vector : Type} (distance : Vector -> Vector -> R) (factor rate : R) (theta x : Vector) : R :=
  factor * exp (- (rate * distance x theta)).

(* The loss between D and D' is exactly rate times the norm of theta(D) - theta(D') *)
Definition exact_loss_statement : Prop :=
  forall (Data Vector : Type) (distance : Vector -> Vector -> R) (theta : Data -> Vector) factor rate,
  of_a_norm distance -> 0 < factor -> 0 < rate ->
  forall d d', loss_between (density distance factor rate (theta d)) (density distance factor rate (theta d'))
    (rate * distance (theta d) (theta d')).

(* The proofs, which need not be read *)

Theorem exact_loss : exact_loss_statement.
Proof.
  intros Data Vector distance theta factor rate (tri & sym & zero) f0 r0 d d'. split.
  - intros x. unfold density.
    replace (exp (rate * distance (theta d) (theta d')) * (factor * exp (- (rate * distance x (theta d')))))
      with (factor * exp (rate * distance (theta d) (theta d') + - (rate * distance x (theta d')))) by (rewrite exp_plus; ring).
    apply Rmult_le_compat_l; [lra|]. apply exp_le. pose proof (tri x (theta d) (theta d')).
    assert (rate * distance x (theta d') <= rate * (distance x (theta d) + distance (theta d) (theta d'))) by (apply Rmult_le_compat_l; lra). lra.
  - exists (theta d). unfold density. rewrite zero, Rmult_0_r, Ropp_0. split; [|apply Rmult_lt_0_compat; [auto|apply exp_pos]].
    replace (exp (rate * distance (theta d) (theta d')) * (factor * exp (- (rate * distance (theta d) (theta d')))))
      with (factor * exp (rate * distance (theta d) (theta d') + - (rate * distance (theta d) (theta d')))) by (rewrite exp_plus; ring).
    rewrite Rplus_opp_r. reflexivity.
Qed.

(* The real numbers *)
Example real_numbers : of_a_norm (fun x y => Rabs (x - y)).
Proof.
  split; [|split].
  - intros x y z. replace (x - z) with ((x - y) + (y - z)) by ring. apply Rabs_triang.
  - intros. apply Rabs_minus_sym.
  - intros. rewrite Rminus_eq_0. apply Rabs_R0.
Qed.

Print Assumptions exact_loss.
