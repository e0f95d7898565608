(** lg-market-thm-values: payments by values.  Bears on the claims anjarlekar-j-lemmaIII2, anjarlekar-j-alg2 and
    anjarlekar-t-ex-appendixC, page logistic/market.
    Beside the prose: the payment is that of the page's Eq. (eq-lg-market-envelope), c eps(c) plus the Riemann integral
    of eps over her own reports from c to the largest cost; that the integral exists is part of the statement.  V and
    the choice of the minimiser are those of lg_market_thm_monotone.v.  gamma and the slope are positive; that the virtual
    cost of a uniform law has the slope 2 is not stated. *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
Require Import totals monotone_integral lg_market_thm_monotone.
Open Scope R_scope.

(* What has to be read *)

(* What is bought of seller i at her cost c, when her virtual cost is affine: psi(c) = start + slope c *)
Definition bought_at (choice : R -> purchase) (i : nat) (start slope c : R) : R := choice (start + slope * c) i.

(* The payment is c eps plus a difference of two values of V over gamma slope, wherever the minimiser jumps *)
Definition payments_by_values_statement : Prop :=
  forall n possible g gamma psi i choice start slope lowest largest,
  (i < n)%nat -> 0 < gamma -> 0 < slope ->
  fixed_choice n possible g gamma psi i (start + slope * lowest) (start + slope * largest) choice ->
  let V := least n g gamma psi i choice in
  let eps := bought_at choice i start slope in
  forall c, lowest <= c <= largest ->
  ex_RInt eps c largest /\
  c * eps c + RInt eps c largest
    = c * eps c + (V (start + slope * largest) - V (start + slope * c)) / (gamma * slope).

(* The proofs, which need not be read *)

Theorem payments_by_values : payments_by_values_statement.
Proof.
  intros n possible g gamma psi i choice start slope lowest largest hi gamma0 slope0 fixed V eps c hc.
  destruct (minimisers_never_rise n possible g gamma psi i _ _ choice hi gamma0 fixed) as (_ & line & _ & falls & _).
  fold V in line.
  assert (inside : forall p, lowest <= p -> p <= largest -> start + slope * lowest <= start + slope * p <= start + slope * largest).
  { intros p h1 h2. split; apply Rplus_le_compat_l, Rmult_le_compat_l; lra. }
  set (U := fun p => - V (start + slope * p) / (gamma * slope)).
  assert (gs : 0 < gamma * slope) by (apply Rmult_lt_0_compat; auto).
  assert (I : is_RInt eps c largest (U c - U largest)).
  { apply monotone_integral; [| |lra].
    - intros p r h1 h2 h3.
      pose proof (line (start + slope * p) (start + slope * r) (inside p ltac:(lra) ltac:(lra)) (inside r ltac:(lra) ltac:(lra))) as up.
      pose proof (line (start + slope * r) (start + slope * p) (inside r ltac:(lra) ltac:(lra)) (inside p ltac:(lra) ltac:(lra))) as down.
      assert (e : U p - U r = (V (start + slope * r) - V (start + slope * p)) / (gamma * slope)) by (unfold U; field; lra).
      rewrite e. unfold eps, bought_at.
      split; apply Rmult_le_reg_r with (gamma * slope); auto; unfold Rdiv; rewrite ?Rmult_assoc, ?Rinv_l, ?Rmult_1_r by lra; lra.
    - intros p r h1 h2 h3. apply falls; [apply inside; lra| |apply inside; lra].
      apply Rplus_le_compat_l, Rmult_le_compat_l; lra. }
  split; [exists (U c - U largest); exact I|]. rewrite (is_RInt_unique _ _ _ _ I). unfold U. field. lra.
Qed.

(* One seller, the loss (1 - e)^2, gamma 1 and psi(c) = 2 c for costs from 0 to 1 (uniform costs) *)
Example uniform_costs :
  fixed_choice 1 (fun _ => True) (fun e => (1 - e 0%nat) ^ 2) 1 (fun _ => 0) 0 (0 + 2 * 0) (0 + 2 * 1) (fun z _ => 1 - z / 2).
Proof. replace (0 + 2 * 0) with 0 by ring. replace (0 + 2 * 1) with 2 by ring. exact one_seller. Qed.

Print Assumptions payments_by_values.
