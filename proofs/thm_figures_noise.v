(** thm-figures-noise: sampling never has the larger budget on average.  Bears on the claims about the ridge paper's
    Tables 13 and 14 and its comparison with sampling, page ridge/figures.
    Beside the prose: all privacy losses are positive (with a loss of 0 the first step is an equality for her, too); the
    mean is over the number kept, each record kept independently with its own chance, computed record by record. *)
Require Import Reals Lra Lia.
Require Import totals exponentials.
Open Scope R_scope.

(* What has to be read *)

(* The chance that a record with this loss is kept at the threshold t *)
Definition chance (t loss : R) : R := Rmin 1 ((exp loss - 1) / (exp t - 1)).

(* The mean of f (number kept), where record i of n is kept with the chance p i, independently of the others *)
Fixpoint mean_over_kept (n : nat) (p : nat -> R) (f : nat -> R) : R :=
  match n with
  | O => f 0%nat
  | S k => p k * mean_over_kept k p (fun kept => f (S kept)) + (1 - p k) * mean_over_kept k p f
  end.

(* Both steps, with their cases of equality; and the mean noise power *)
Definition sampling_statement : Prop :=
  forall n loss t, (forall i, (i < n)%nat -> 0 < loss i) -> 0 < t -> (exists i, (i < n)%nat /\ t <= loss i) ->
  let p := fun i => chance t (loss i) in
  let kept := mean_over_kept n p INR in
  let least := total n (fun i => Rmin (loss i) t) in
  t * kept <= least /\ least <= total n loss /\
  (t * kept = least <-> forall i, (i < n)%nat -> t <= loss i) /\
  (least = total n loss <-> forall i, (i < n)%nat -> loss i <= t) /\
  (t * kept = least /\ least = total n loss <-> forall i, (i < n)%nat -> loss i = t) /\
  / (total n loss) ^ 2 <= mean_over_kept n p (fun number => / (t * INR number) ^ 2).

(* The proofs, which need not be read *)

Lemma mean_ext n p : forall f g, (forall c, f c = g c) -> mean_over_kept n p f = mean_over_kept n p g.
Proof. induction n as [|n IH]; intros f g e; simpl; [apply e|]. rewrite (IH f g e), (IH _ _ (fun c => e (S c))). reflexivity. Qed.

Lemma mean_linear n p : forall a f b, mean_over_kept n p (fun c => a * f c + b) = a * mean_over_kept n p f + b.
Proof.
  induction n as [|n IH]; intros a f b; simpl; [reflexivity|]. rewrite (IH a (fun c => f (S c)) b), IH. ring.
Qed.

Lemma mean_number n p : forall a, mean_over_kept n p (fun c => INR c + a) = total n p + a.
Proof.
  induction n as [|n IH]; intros a; [simpl; lra|]. cbn [mean_over_kept total]. rewrite IH.
  rewrite (mean_ext n p _ (fun c => INR c + (a + 1))) by (intros; rewrite S_INR; ring). rewrite IH. ring.
Qed.

Lemma mean_le n p : (forall i, (i < n)%nat -> 0 <= p i <= 1) -> forall f g, (forall c, f c <= g c) ->
  mean_over_kept n p f <= mean_over_kept n p g.
Proof.
  induction n as [|n IH]; intros hp f g h; simpl; [apply h|]. pose proof (hp n ltac:(lia)).
  pose proof (IH ltac:(intros; apply hp; lia) (fun c => f (S c)) (fun c => g (S c)) (fun c => h (S c))).
  pose proof (IH ltac:(intros; apply hp; lia) f g h).
  assert (p n * mean_over_kept n p (fun c => f (S c)) <= p n * mean_over_kept n p (fun c => g (S c))) by (apply Rmult_le_compat_l; lra).
  assert ((1 - p n) * mean_over_kept n p f <= (1 - p n) * mean_over_kept n p g) by (apply Rmult_le_compat_l; lra). lra.
Qed.

(* If somebody is kept for sure, the number 0 does not count *)
Lemma mean_le_sure n p k : (forall i, (i < n)%nat -> 0 <= p i <= 1) -> (k < n)%nat -> p k = 1 ->
  forall f g, (forall c, f (S c) <= g (S c)) -> mean_over_kept n p f <= mean_over_kept n p g.
Proof.
  induction n as [|n IH]; intros hp kn sure f g h; [lia|]. simpl. pose proof (hp n ltac:(lia)).
  pose proof (mean_le n p ltac:(intros; apply hp; lia) (fun c => f (S c)) (fun c => g (S c)) h) as up.
  assert (a : p n * mean_over_kept n p (fun c => f (S c)) <= p n * mean_over_kept n p (fun c => g (S c))) by (apply Rmult_le_compat_l; lra).
  destruct (Nat.eq_dec k n) as [->|ne]; [rewrite sure in *; lra|].
  pose proof (IH ltac:(intros; apply hp; lia) ltac:(lia) sure f g h).
  assert ((1 - p n) * mean_over_kept n p f <= (1 - p n) * mean_over_kept n p g) by (apply Rmult_le_compat_l; lra). lra.
Qed.

Section Chance.
Variables (t loss : R).
Hypothesis t0 : 0 < t.
Hypothesis l0 : 0 < loss.

Lemma exp_gap x : 0 < x -> 0 < exp x - 1.
Proof. intros h. pose proof (exp_ineq1_le x). lra. Qed.

Lemma chance_large : t <= loss -> chance t loss = 1.
Proof.
  intros h. unfold chance. apply Rmin_left. pose proof (exp_gap t t0). apply Rmult_le_reg_r with (exp t - 1); auto.
  unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. destruct (Req_dec t loss) as [->|ne]; [lra|].
  assert (exp t < exp loss) by (apply exp_increasing; lra). lra.
Qed.

Lemma chance_small : loss < t -> t * chance t loss < loss.
Proof.
  intros h. pose proof (exp_gap t t0). unfold chance.
  assert (z : 0 < loss / t < 1) by (split; [apply Rdiv_lt_0_compat; auto|apply Rmult_lt_reg_r with t; auto; field_simplify; lra]).
  pose proof (chord_strict t (loss / t) z ltac:(lra)) as c. replace (t * (loss / t)) with loss in c by (field; lra).
  apply Rle_lt_trans with (t * ((exp loss - 1) / (exp t - 1))); [apply Rmult_le_compat_l; [lra|apply Rmin_r]|].
  apply Rmult_lt_reg_r with ((exp t - 1) / t); [apply Rdiv_lt_0_compat; auto|].
  replace (t * ((exp loss - 1) / (exp t - 1)) * ((exp t - 1) / t)) with (exp loss - 1) by (field; lra).
  replace (loss * ((exp t - 1) / t)) with ((exp t - 1) * (loss / t)) by (field; lra). lra.
Qed.

Lemma chance_bounds : 0 <= chance t loss <= 1.
Proof.
  unfold chance. pose proof (exp_gap t t0). pose proof (exp_gap loss l0).
  split; [apply Rmin_glb; [lra|left; apply Rdiv_lt_0_compat; lra]|apply Rmin_l].
Qed.
End Chance.

Theorem sampling : sampling_statement.
Proof.
  intros n loss t pos t0 (k & kn & kt) p kept least.
  assert (number : kept = total n p).
  { unfold kept. rewrite (mean_ext n p INR (fun c => INR c + 0)) by (intros; ring). rewrite mean_number. ring. }
  assert (each : forall i, (i < n)%nat -> t * p i <= Rmin (loss i) t).
  { intros i hi. unfold p. destruct (Rle_dec t (loss i)) as [l|l].
    - rewrite chance_large, Rmin_right by auto. lra.
    - rewrite Rmin_left by lra. left. apply chance_small; auto; lra. }
  assert (first : t * kept <= least) by (rewrite number, <- total_scal; apply total_le; auto).
  assert (second : least <= total n loss) by (apply total_le; intros; apply Rmin_l).
  assert (eq1 : t * kept = least <-> forall i, (i < n)%nat -> t <= loss i).
  { rewrite number, <- total_scal. split.
    - intros e i hi. pose proof (total_same n _ _ each ltac:(fold least; lra) i hi) as s. cbv beta in s.
      apply Rnot_lt_le. intros lt. unfold p in s. pose proof (chance_small t (loss i) t0 (pos i hi) lt). rewrite Rmin_left in s by lra. lra.
    - intros all. apply total_ext. intros i hi. unfold p. rewrite chance_large, Rmin_right by auto. lra. }
  assert (eq2 : least = total n loss <-> forall i, (i < n)%nat -> loss i <= t).
  { split.
    - intros e i hi. pose proof (total_same n (fun i => Rmin (loss i) t) loss ltac:(intros; apply Rmin_l) ltac:(fold least; lra) i hi) as s.
      cbv beta in s. rewrite <- s. apply Rmin_r.
    - intros all. apply total_ext. intros i hi. apply Rmin_left; auto. }
  split; [exact first|]. split; [exact second|]. split; [exact eq1|]. split; [exact eq2|]. split.
  - rewrite eq1, eq2. split; [intros (a & b) i hi; apply Rle_antisym; auto|]. intros e. split; intros i hi; rewrite e by auto; lra.
  - (* Jensen's inequality by the tangent at the mean *)
    assert (hp : forall i, (i < n)%nat -> 0 <= p i <= 1) by (intros; apply chance_bounds; auto).
    assert (sure : p k = 1) by (apply chance_large; auto).
    assert (m1 : 1 <= kept) by (rewrite number, <- sure; apply total_term; auto; intros; apply hp; auto).
    set (m := kept) in *.
    apply Rle_trans with (/ (t * m) ^ 2).
    { apply Rinv_le_contravar; [apply pow_lt; apply Rmult_lt_0_compat; lra|]. apply pow_incr.
      split; [apply Rmult_le_pos; lra|lra]. }
    apply Rle_trans with (mean_over_kept n p (fun c => - (2 / (t ^ 2 * m ^ 3)) * INR c + 3 / (t ^ 2 * m ^ 2))).
    + rewrite mean_linear. fold kept. fold m. right. field. lra.
    + apply (mean_le_sure n p k hp kn sure). intros c.
      assert (c1 : 1 <= INR (S c)) by (rewrite S_INR; pose proof (pos_INR c); lra). set (x := INR (S c)) in *.
      apply Rmult_le_reg_r with (t ^ 2 * m ^ 3 * x ^ 2); [apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat|]; apply pow_lt; lra|].
      replace ((- (2 / (t ^ 2 * m ^ 3)) * x + 3 / (t ^ 2 * m ^ 2)) * (t ^ 2 * m ^ 3 * x ^ 2)) with (- 2 * x ^ 3 + 3 * m * x ^ 2) by (field; lra).
      replace (/ (t * x) ^ 2 * (t ^ 2 * m ^ 3 * x ^ 2)) with (m ^ 3) by (field; lra).
      assert (0 <= (x - m) ^ 2 * (2 * x + m)) by (apply Rmult_le_pos; [apply pow2_ge_0|lra]). lra.
Qed.

(* Two people with the losses 1 and 2, and the threshold 2 *)
Example two_people : (forall i, (i < 2)%nat -> 0 < INR i + 1) /\ exists i, (i < 2)%nat /\ 2 <= INR i + 1.
Proof. split; [intros i _; pose proof (pos_INR i); lra|exists 1%nat; split; [lia|simpl; lra]]. Qed.

Print Assumptions sampling.
