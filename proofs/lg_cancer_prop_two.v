(** lg-cancer-prop-two: three constants, two numbers.  Bears on the claims about mu, sigma and gamma in J's and T's
    experiments, page logistic/cancer.
    Beside the prose: the payment is one seller's, the others' reports fixed; "depends only through kappa and phi" is
    stated as: with the same kappa a purchase solves the one problem if and only if the purchase with eta times phi' / phi
    solves the other, and payments take that factor.  Where several purchases solve, the choice is kept.  Costs times s are
    drawn from the law stretched by s.  mu, sigma, gamma and the factor are positive. *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
Require Import totals vectors.
Open Scope R_scope.

(* What has to be read *)

(* The length norm of a vector is that of vectors.v.  The proxy loss of Algorithm 2, step 1 *)
Definition proxy (m : nat) (mu sigma gamma : R) (psi a : nat -> R) (eta : R) : R :=
  mu * norm m a + sigma / eta + gamma * eta * total m (fun i => a i * psi i).

(* The purchase (a, eta) minimises it among the allowed weights and all eta > 0 *)
Definition solves (m : nat) (allowed : (nat -> R) -> Prop) (mu sigma gamma : R) (psi a : nat -> R) (eta : R) : Prop :=
  allowed a /\ 0 < eta /\
  forall a' eta', allowed a' -> 0 < eta' -> proxy m mu sigma gamma psi a eta <= proxy m mu sigma gamma psi a' eta'.

(* The two numbers *)
Definition kappa (mu sigma gamma : R) : R := sigma * gamma / mu ^ 2.
Definition phi (sigma gamma : R) : R := sqrt (sigma / gamma).

(* The payment of a seller of cost c, if eps is what is bought at each of her reports, and the largest cost is high *)
Definition pays (eps : R -> R) (high c t : R) : Prop := is_RInt eps c high (t - c * eps c).

(* The virtual cost of a seller of cost c, if costs have the distribution function F and the density f *)
Definition virtual_cost (F f : R -> R) (c : R) : R := c + F c / f c.

(* The purchases at the reports of seller i from c to the largest cost high, where a report z has the virtual cost zeta z
   and the others' virtual costs are psi: the weights a z and the rate eta z *)
Definition purchases (m : nat) (allowed : (nat -> R) -> Prop) (mu sigma gamma : R) (psi : nat -> R) (i : nat) (zeta : R -> R)
    (c high : R) (a : R -> nat -> R) (eta : R -> R) : Prop :=
  forall z, c <= z <= high -> solves m allowed mu sigma gamma (fun j => if Nat.eqb j i then zeta z else psi j) (a z) (eta z).

(* Same kappa: the weights are the same, eta and all payments are proportional to phi *)
Definition two_numbers_statement : Prop :=
  forall m allowed mu sigma gamma mu' sigma' gamma' psi, 0 < mu -> 0 < sigma -> 0 < gamma -> 0 < mu' -> 0 < sigma' -> 0 < gamma' ->
  kappa mu sigma gamma = kappa mu' sigma' gamma' ->
  let factor := phi sigma' gamma' / phi sigma gamma in
  (forall a eta, solves m allowed mu sigma gamma psi a eta <-> solves m allowed mu' sigma' gamma' psi a (factor * eta)) /\
  (forall i zeta a eta c high t,
     purchases m allowed mu sigma gamma psi i zeta c high a eta -> pays (fun z => a z i * eta z) high c t ->
     purchases m allowed mu' sigma' gamma' psi i zeta c high a (fun z => factor * eta z) /\
     pays (fun z => a z i * (factor * eta z)) high c (factor * t)).

(* All costs times s and gamma over s: virtual costs take the factor s, as their law is stretched; weights and eta stay, and
   gamma times each payment *)
Definition relabelling_statement : Prop :=
  forall m allowed mu sigma gamma psi s, 0 < s ->
  (forall F f c, f c <> 0 -> virtual_cost (fun z => F (z / s)) (fun z => f (z / s) / s) (s * c) = s * virtual_cost F f c) /\
  (forall a eta, solves m allowed mu sigma gamma psi a eta <-> solves m allowed mu sigma (gamma / s) (fun i => s * psi i) a eta) /\
  (forall i zeta a eta c high t,
     purchases m allowed mu sigma gamma psi i zeta c high a eta -> pays (fun z => a z i * eta z) high c t ->
     purchases m allowed mu sigma (gamma / s) (fun j => s * psi j) i (fun z => s * zeta (z / s)) (s * c) (s * high)
       (fun z => a (z / s)) (fun z => eta (z / s)) /\
     pays (fun z => a (z / s) i * eta (z / s)) (s * high) (s * c) (s * t) /\ gamma / s * (s * t) = gamma * t).

(* The proofs, which need not be read *)

Lemma scaled m mu sigma gamma mu' sigma' gamma' psi a eta : 0 < mu -> 0 < sigma -> 0 < gamma -> 0 < mu' -> 0 < sigma' -> 0 < gamma' -> 0 < eta ->
  kappa mu sigma gamma = kappa mu' sigma' gamma' ->
  proxy m mu' sigma' gamma' psi a (phi sigma' gamma' / phi sigma gamma * eta) = mu' / mu * proxy m mu sigma gamma psi a eta.
Proof.
  intros m0 s0 g0 m1 s1 g1 e0 same. unfold phi.
  assert (q0 : 0 < sigma / gamma) by (apply Rdiv_lt_0_compat; auto). assert (q1 : 0 < sigma' / gamma') by (apply Rdiv_lt_0_compat; auto).
  set (u := sqrt (sigma / gamma)). set (u' := sqrt (sigma' / gamma')).
  assert (u0 : 0 < u) by (apply sqrt_lt_R0; auto). assert (u1 : 0 < u') by (apply sqrt_lt_R0; auto).
  assert (su : sigma = gamma * u ^ 2) by (unfold u; rewrite pow2_sqrt by lra; field; lra).
  assert (su' : sigma' = gamma' * u' ^ 2) by (unfold u'; rewrite pow2_sqrt by lra; field; lra).
  (* kappa is the square of gamma u / mu *)
  assert (root : gamma * u / mu = gamma' * u' / mu').
  { assert (k : (gamma * u / mu) ^ 2 = (gamma' * u' / mu') ^ 2).
    { unfold kappa in same. rewrite su, su' in same. replace ((gamma * u / mu) ^ 2) with (gamma * u ^ 2 * gamma / mu ^ 2) by (field; lra).
      replace ((gamma' * u' / mu') ^ 2) with (gamma' * u' ^ 2 * gamma' / mu' ^ 2) by (field; lra). exact same. }
    assert (0 < gamma * u / mu) by (apply Rdiv_lt_0_compat; [apply Rmult_lt_0_compat|]; auto).
    assert (0 < gamma' * u' / mu') by (apply Rdiv_lt_0_compat; [apply Rmult_lt_0_compat|]; auto).
    assert ((gamma * u / mu - gamma' * u' / mu') * (gamma * u / mu + gamma' * u' / mu') = 0) by lra.
    apply Rmult_integral in H1. destruct H1; lra. }
  assert (g : gamma' * u' = mu' / mu * (gamma * u)).
  { apply Rmult_eq_reg_r with (/ mu'); [|apply Rinv_neq_0_compat; lra]. replace (mu' / mu * (gamma * u) * / mu') with (gamma * u / mu) by (field; lra).
    rewrite root. reflexivity. }
  unfold proxy.
  assert (t1 : sigma' / (u' / u * eta) = mu' / mu * (sigma / eta)).
  { rewrite su, su'. replace (gamma' * u' ^ 2 / (u' / u * eta)) with (gamma' * u' * u / eta) by (field; lra). rewrite g. field. lra. }
  assert (t2 : gamma' * (u' / u * eta) = mu' / mu * (gamma * eta)).
  { replace (gamma' * (u' / u * eta)) with (gamma' * u' * eta / u) by (field; lra). rewrite g. field. lra. }
  rewrite t1, t2. field. lra.
Qed.

Lemma one_way m allowed mu sigma gamma mu' sigma' gamma' psi a eta : 0 < mu -> 0 < sigma -> 0 < gamma -> 0 < mu' -> 0 < sigma' -> 0 < gamma' ->
  kappa mu sigma gamma = kappa mu' sigma' gamma' ->
  solves m allowed mu sigma gamma psi a eta -> solves m allowed mu' sigma' gamma' psi a (phi sigma' gamma' / phi sigma gamma * eta).
Proof.
  intros m0 s0 g0 m1 s1 g1 same (ok & e0 & least).
  assert (f0 : 0 < phi sigma gamma) by (apply sqrt_lt_R0, Rdiv_lt_0_compat; auto).
  assert (f1 : 0 < phi sigma' gamma') by (apply sqrt_lt_R0, Rdiv_lt_0_compat; auto).
  set (factor := phi sigma' gamma' / phi sigma gamma). assert (f : 0 < factor) by (apply Rdiv_lt_0_compat; auto).
  split; auto. split; [apply Rmult_lt_0_compat; auto|]. intros a' eta' ok' e1.
  replace eta' with (factor * (eta' / factor)) by (field; lra). assert (e2 : 0 < eta' / factor) by (apply Rdiv_lt_0_compat; auto).
  unfold factor. rewrite (scaled m mu sigma gamma mu' sigma' gamma' psi a eta), (scaled m mu sigma gamma mu' sigma' gamma' psi a') by auto.
  apply Rmult_le_compat_l; [left; apply Rdiv_lt_0_compat; auto|apply least; auto].
Qed.

Theorem two_numbers : two_numbers_statement.
Proof.
  intros m allowed mu sigma gamma mu' sigma' gamma' psi m0 s0 g0 m1 s1 g1 same factor.
  assert (f0 : 0 < phi sigma gamma) by (apply sqrt_lt_R0, Rdiv_lt_0_compat; auto).
  assert (f1 : 0 < phi sigma' gamma') by (apply sqrt_lt_R0, Rdiv_lt_0_compat; auto). split.
  - intros a eta. split; [apply one_way; auto|]. intros h.
    pose proof (one_way m allowed mu' sigma' gamma' mu sigma gamma psi a _ m1 s1 g1 m0 s0 g0 (eq_sym same) h) as back.
    replace (phi sigma gamma / phi sigma' gamma' * (factor * eta)) with eta in back by (unfold factor; field; lra). exact back.
  - intros i zeta a eta c high t bought h. split; [intros z hz; apply (one_way m allowed mu sigma gamma); auto|].
    set (eps := fun z => a z i * eta z) in h. unfold pays in *. apply (is_RInt_ext (fun z => scal factor (eps z))).
    { intros z _. unfold eps, scal; simpl; unfold mult; simpl. ring. }
    replace (factor * t - c * (a c i * (factor * eta c))) with (scal factor (t - c * eps c)) by (unfold eps, scal; simpl; unfold mult; simpl; ring).
    apply (is_RInt_scal eps). exact h.
Qed.

Lemma relabelled m mu sigma gamma psi a eta s : 0 < s -> proxy m mu sigma (gamma / s) (fun i => s * psi i) a eta = proxy m mu sigma gamma psi a eta.
Proof.
  intros s0. unfold proxy. rewrite (total_ext m (fun i => a i * (s * psi i)) (fun i => s * (a i * psi i))) by (intros; ring).
  rewrite total_scal. set (X := total m (fun i => a i * psi i)).
  replace (gamma / s * eta * (s * X)) with (gamma * eta * X) by (field; lra). reflexivity.
Qed.

Lemma same_solution m allowed mu sigma gamma psi s a eta : 0 < s ->
  (solves m allowed mu sigma gamma psi a eta <-> solves m allowed mu sigma (gamma / s) (fun i => s * psi i) a eta).
Proof.
  intros s0. unfold solves. split; intros (ok & e0 & least); split; auto; split; auto; intros a' eta' ok' e1.
  - rewrite !relabelled by auto. apply least; auto.
  - rewrite <- (relabelled m mu sigma gamma psi a eta s), <- (relabelled m mu sigma gamma psi a' eta' s) by auto. apply least; auto.
Qed.

Theorem relabelling : relabelling_statement.
Proof.
  intros m allowed mu sigma gamma psi s s0. split; [|split].
  - intros F f c ne. unfold virtual_cost. replace (s * c / s) with c by (field; lra). field. lra.
  - intros a eta. apply same_solution. auto.
  - intros i zeta a eta c high t bought h. split; [|split; [|field; lra]].
    { intros z hz. assert (e : z = s * (z / s)) by (field; lra).
      assert (own : c <= z / s <= high) by (rewrite e in hz; destruct hz; split; apply Rmult_le_reg_l with s; lra).
      pose proof (proj1 (same_solution _ _ _ _ _ _ s _ _ s0) (bought _ own)) as there.
      replace (fun j => if Nat.eqb j i then s * zeta (z / s) else s * psi j)
        with (fun j => s * (if Nat.eqb j i then zeta (z / s) else psi j)); [exact there|].
      apply FunctionalExtensionality.functional_extensionality. intros j. destruct (Nat.eqb j i); reflexivity. }
    set (eps := fun z => a z i * eta z) in h. change (pays (fun z => eps (z / s)) (s * high) (s * c) (s * t)). unfold pays in *.
    replace (s * c / s) with c by (field; lra).
    apply is_RInt_ext with (f := fun z => scal s (scal (/ s) (eps (/ s * z + 0)))).
    { intros z _. unfold scal; simpl; unfold mult; simpl. replace (/ s * z + 0) with (z / s) by (field; lra). field. lra. }
    replace (s * t - s * c * eps c) with (scal s (t - c * eps c)) by (unfold scal; simpl; unfold mult; simpl; ring).
    apply (is_RInt_scal (fun z => scal (/ s) (eps (/ s * z + 0)))).
    apply (is_RInt_comp_lin eps (/ s) 0 (s * c) (s * high)).
    replace (/ s * (s * c) + 0) with c by (field; lra). replace (/ s * (s * high) + 0) with high by (field; lra). exact h.
Qed.

(* Two settings with the same kappa: those of the page, (1/2, 100, 1/1000) and (5, 1000, 1/100) *)
Example same_kappa : kappa (1 / 2) 100 (1 / 1000) = kappa 5 1000 (1 / 100).
Proof. unfold kappa. field. Qed.

Print Assumptions two_numbers. Print Assumptions relabelling.
