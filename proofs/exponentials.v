(** The exponential function lies below its chords.  Used by other files. *)
Require Import Reals Lra.
Open Scope R_scope.

(* The proofs, which need not be read *)

Lemma chord x z : 0 <= z <= 1 -> exp (x * z) <= 1 + (exp x - 1) * z.
Proof.
  intros hz. pose proof (exp_ineq1_le (x - x * z)) as a. pose proof (exp_ineq1_le (- (x * z))) as b.
  pose proof (exp_pos (x * z)) as p.
  assert (ea : exp x = exp (x * z) * exp (x - x * z)) by (rewrite <- exp_plus; f_equal; ring).
  assert (eb : 1 = exp (x * z) * exp (- (x * z))) by (rewrite <- exp_plus; replace (x * z + - (x * z)) with 0 by ring; rewrite exp_0; auto).
  pose proof (Rmult_le_compat_l (exp (x * z)) _ _ ltac:(lra) a) as fa. rewrite <- ea in fa.
  pose proof (Rmult_le_compat_l (exp (x * z)) _ _ ltac:(lra) b) as fb. rewrite <- eb in fb.
  assert (z * (exp (x * z) * (1 + (x - x * z))) <= z * exp x) by (apply Rmult_le_compat_l; lra).
  assert ((1 - z) * (exp (x * z) * (1 + - (x * z))) <= (1 - z) * 1) by (apply Rmult_le_compat_l; lra). lra.
Qed.

Lemma chord_strict x z : 0 < z < 1 -> x <> 0 -> exp (x * z) < 1 + (exp x - 1) * z.
Proof.
  intros hz x0. pose proof (exp_ineq1_le (x - x * z)) as a.
  assert (n : - (x * z) <> 0) by (apply Ropp_neq_0_compat, Rmult_integral_contrapositive; split; lra).
  pose proof (exp_ineq1 (- (x * z)) n) as b. pose proof (exp_pos (x * z)) as p.
  assert (ea : exp x = exp (x * z) * exp (x - x * z)) by (rewrite <- exp_plus; f_equal; ring).
  assert (eb : 1 = exp (x * z) * exp (- (x * z))) by (rewrite <- exp_plus; replace (x * z + - (x * z)) with 0 by ring; rewrite exp_0; auto).
  pose proof (Rmult_le_compat_l (exp (x * z)) _ _ ltac:(lra) a) as fa. rewrite <- ea in fa.
  pose proof (Rmult_lt_compat_l (exp (x * z)) _ _ ltac:(lra) b) as fb. rewrite <- eb in fb.
  assert (z * (exp (x * z) * (1 + (x - x * z))) <= z * exp x) by (apply Rmult_le_compat_l; lra).
  assert ((1 - z) * (exp (x * z) * (1 + - (x * z))) < (1 - z) * 1) by (apply Rmult_lt_compat_l; lra). lra.
Qed.
