(* idea-lem-norm: how long the ridge estimate can be. Claims: pdp-lemmaC1 (a), pdp-lemmaC2 (b),
   pdp-theta-norm-monotone (d).

   Where prose and formal statement differ:
   - the maximum of (c) is written as: rho is one of the values, and no value is above it;
   - some data set attains (c): shown for any number of records and any weights;
   - (d) is for any records, inside the bounds or not. *)
Require Import Reals Lra Psatz.
Require Import totals vectors ridge_estimate.
Open Scope R_scope.

(* What has to be read *)

(* rho is the largest s / (s^2 + penalty) for s from 0 to the root of d. *)
Definition rho_is_the_maximum : Prop :=
  forall d penalty, 0 < penalty ->
  (exists s, 0 <= s <= sqrt (INR d) /\ rho d penalty = s / (s ^ 2 + penalty)) /\
  forall s, 0 <= s <= sqrt (INR d) -> s / (s ^ 2 + penalty) <= rho d penalty.

(* (a), (b), (c): no estimate on records inside the bounds is longer. *)
Definition three_bounds : Prop :=
  forall d n features label weight penalty theta,
  inside_bounds d n features label -> weights n weight -> 0 < penalty ->
  is_estimate d n features label weight penalty theta ->
  norm d theta <= 1 / sqrt penalty /\
  norm d theta <= sqrt (INR d) / penalty /\
  norm d theta <= rho d penalty.

(* Some data set attains (c). *)
Definition attained : Prop :=
  forall d n weight penalty, weights n weight -> 0 < penalty ->
  exists features label theta,
  inside_bounds d n features label /\
  is_estimate d n features label weight penalty theta /\
  norm d theta = rho d penalty.

(* (d) On fixed records the estimate never becomes longer as the penalty grows. *)
Definition shrinks_with_the_penalty : Prop :=
  forall d n features label weight smaller larger theta_smaller theta_larger,
  weights n weight -> 0 < smaller <= larger ->
  is_estimate d n features label weight smaller theta_smaller ->
  is_estimate d n features label weight larger theta_larger ->
  norm d theta_larger <= norm d theta_smaller.

Definition idea_lem_norm_statement : Prop :=
  rho_is_the_maximum /\ three_bounds /\ attained /\ shrinks_with_the_penalty.

(* The proofs, which need not be read *)

(* The root of the penalty, and of d, with their squares *)
Lemma roots d lam : 0 < lam ->
  0 < sqrt lam /\ sqrt lam * sqrt lam = lam /\ 0 <= sqrt (INR d) /\ sqrt (INR d) * sqrt (INR d) = INR d.
Proof.
  intros l0. pose proof (pos_INR d). split; [apply sqrt_lt_R0; auto|].
  split; [apply sqrt_sqrt; lra|]. split; [apply sqrt_pos|apply sqrt_sqrt; auto].
Qed.

Lemma maximum : rho_is_the_maximum.
Proof.
  intros d lam l0. destruct (roots d lam l0) as (t0 & tt & r0 & rr). pose proof (pos_INR d) as d0.
  unfold rho. set (t := sqrt lam) in *. set (r := sqrt (INR d)) in *.
  destruct (Rle_dec lam (INR d)) as [le|gt]; split.
  - exists t. split; [split; [lra|]|].
    + apply Rsqr_incr_0_var; [unfold Rsqr; lra|auto].
    + replace (t ^ 2) with (t * t) by ring. rewrite <- tt. field. lra.
  - intros s hs. apply Rmult_le_reg_r with (2 * t * (s ^ 2 + lam)).
    { pose proof (pow2_ge_0 s). apply Rmult_lt_0_compat; lra. }
    pose proof (pow2_ge_0 s). pose proof (pow2_ge_0 (s - t)).
    replace (s / (s ^ 2 + lam) * (2 * t * (s ^ 2 + lam))) with (2 * t * s) by (field; lra).
    replace (1 / (2 * t) * (2 * t * (s ^ 2 + lam))) with (s ^ 2 + lam) by (field; lra). nra.
  - exists r. split; [lra|]. replace (r ^ 2) with (r * r) by ring. rewrite rr. auto.
  - intros s hs. pose proof (pow2_ge_0 s).
    apply Rmult_le_reg_r with ((INR d + lam) * (s ^ 2 + lam)); [apply Rmult_lt_0_compat; lra|].
    replace (s / (s ^ 2 + lam) * ((INR d + lam) * (s ^ 2 + lam))) with (s * (INR d + lam))
      by (field; lra).
    replace (r / (INR d + lam) * ((INR d + lam) * (s ^ 2 + lam))) with (r * (s ^ 2 + lam))
      by (field; lra).
    (* (r - s)(lam - r s) >= 0 *)
    assert (rs : r * s <= lam) by nra.
    assert (0 <= (r - s) * (lam - r * s)) by (apply Rmult_le_pos; lra). nra.
Qed.

Section One.
Variables (d n : nat) (X : nat -> nat -> R) (y w : nat -> R) (lam : R) (th : nat -> R).
Hypothesis inside : inside_bounds d n X y.
Hypothesis wts : weights n w.
Hypothesis l0 : 0 < lam.
Hypothesis min : is_estimate d n X y w lam th.

(* lam |th|^2 is the weighted sum of y a - a^2, where a is x.th *)
Lemma energy c : (forall i, (i < n)%nat ->
    y i * dot d (X i) th - dot d (X i) th * dot d (X i) th <= c) ->
  lam * (norm d th * norm d th) <= c.
Proof.
  intros H. pose proof (first_order d n X y w lam wts th th (Rlt_le _ _ l0) min) as f.
  unfold slope in f. rewrite norm_sq. destruct wts as [w0 w1].
  assert (s : total n (fun i => -1 * (w i * (dot d (X i) th - y i) * dot d (X i) th))
              <= total n (fun i => c * w i)).
  { apply total_le. intros i hi. specialize (H i hi). specialize (w0 i hi). nra. }
  rewrite !total_scal, w1 in s. lra.
Qed.

Lemma bounded : norm d th <= rho d lam.
Proof.
  pose proof (norm_pos d th) as t0. set (t := norm d th) in *.
  destruct (roots d lam l0) as (sl0 & sl & sd0 & sd).
  assert (quarter : lam * (t * t) <= 1 / 4).
  { apply energy. intros i hi. destruct (inside_norm d n X y i inside hi) as [_ yi].
    set (a := dot d (X i) th). pose proof (Rle_0_sqr (a - y i / 2)) as p. unfold Rsqr in p.
    assert (0 <= (1 - y i) * (1 + y i)) by (apply Rmult_le_pos; lra). lra. }
  assert (half : sqrt lam * t <= 1 / 2).
  { apply Rsqr_incr_0_var; [unfold Rsqr; nra|lra]. }
  unfold rho. destruct (Rle_dec lam (INR d)) as [l|l].
  - apply Rmult_le_reg_l with (2 * sqrt lam); [lra|].
    replace (2 * sqrt lam * (1 / (2 * sqrt lam))) with 1 by (field; lra). lra.
  - pose proof (pos_INR d) as d0. set (D := INR d) in *. set (r := sqrt D) in *.
    assert (rl : r < sqrt lam) by (apply sqrt_lt_1; lra).
    assert (m2 : r * t <= 1 / 2) by nra.
    assert (e : lam * (t * t) <= r * t - (r * t) * (r * t)).
    { apply energy. intros i hi. destruct (inside_norm d n X y i inside hi) as [xi yi].
      set (a := dot d (X i) th).
      assert (c : Rabs a <= r * t).
      { eapply Rle_trans; [apply cauchy|]. apply Rmult_le_compat_r; [auto|].
        apply sqrt_le_1; auto. apply dot_pos. }
      assert (y i * a <= Rabs a) by (unfold Rabs; destruct (Rcase_abs a); nra).
      assert (a * a = Rabs a * Rabs a) by (unfold Rabs; destruct (Rcase_abs a); nra).
      pose proof (Rabs_pos a). nra. }
    destruct (Req_dec t 0) as [z|nz].
    { rewrite z. apply Rmult_le_pos; [auto|left; apply Rinv_0_lt_compat; lra]. }
    assert (lam * t <= r - D * t).
    { apply Rmult_le_reg_r with t; [lra|]. nra. }
    apply Rmult_le_reg_r with (D + lam); [lra|].
    replace (r / (D + lam) * (D + lam)) with r by (field; lra). lra.
Qed.
End One.

(* rho is at most (a) and at most (b) *)
Lemma rho_small d lam : 0 < lam -> rho d lam <= 1 / sqrt lam /\ rho d lam <= sqrt (INR d) / lam.
Proof.
  intros l0. destruct (roots d lam l0) as (t0 & tt & r0 & rr).
  destruct (maximum d lam l0) as [(s & [s0 s1] & e) _]. rewrite e.
  set (t := sqrt lam) in *. set (r := sqrt (INR d)) in *. pose proof (pow2_ge_0 s).
  split.
  - apply Rmult_le_reg_r with (t * (s ^ 2 + lam)); [apply Rmult_lt_0_compat; lra|].
    replace (s / (s ^ 2 + lam) * (t * (s ^ 2 + lam))) with (s * t) by (field; lra).
    replace (1 / t * (t * (s ^ 2 + lam))) with (s ^ 2 + lam) by (field; lra).
    pose proof (pow2_ge_0 (s - t)). nra.
  - apply Rmult_le_reg_r with (lam * (s ^ 2 + lam)); [apply Rmult_lt_0_compat; lra|].
    replace (s / (s ^ 2 + lam) * (lam * (s ^ 2 + lam))) with (s * lam) by (field; lra).
    replace (r / lam * (lam * (s ^ 2 + lam))) with (r * (s ^ 2 + lam)) by (field; lra).
    assert (0 <= r * s ^ 2) by (apply Rmult_le_pos; auto). nra.
Qed.

(* All records are one of equal features a and the label 1. *)
Lemma attains : attained.
Proof.
  intros d n w lam wts l0. destruct (roots d lam l0) as (t0 & tt & r0 & rr).
  destruct (maximum d lam l0) as [(s & [s0 s1] & e) _]. pose proof (pow2_ge_0 s).
  set (r := sqrt (INR d)) in *.
  assert (a_ : exists a, 0 <= a <= 1 /\ a * r = s).
  { destruct (Req_dec r 0) as [z|nz]; [exists 0; split; lra|]. exists (s / r).
    assert (i0 : 0 < / r) by (apply Rinv_0_lt_compat; lra).
    split; [split|field; auto].
    - apply Rmult_le_pos; lra.
    - apply Rmult_le_reg_r with r; [lra|]. replace (s / r * r) with s by (field; auto). lra. }
  destruct a_ as (a & a01 & ar).
  set (b := a / (s ^ 2 + lam)).
  assert (b0 : 0 <= b).
  { unfold b. apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; lra]. }
  exists (fun _ _ => a), (fun _ => 1), (fun _ => b). split; [|split].
  - intros i hi. split; [intros; auto|lra].
  - intros other.
    assert (flat : forall v, slope d n (fun _ _ => a) (fun _ => 1) w lam (fun _ => b) v = 0).
    { intros v. unfold slope.
      assert (q : forall c v, dot d (fun _ => c) v = c * total d v)
        by (intros; unfold dot; apply total_scal).
      rewrite (total_ext n _ (fun i => (dot d (fun _ => a) (fun _ => b) - 1) * dot d (fun _ => a) v * w i))
        by (intros; ring).
      rewrite total_scal, (proj2 wts), !q.
      assert (db : total d (fun _ => b) = INR d * b).
      { clear. induction d as [|m IH]; [simpl; lra|]. rewrite S_INR. simpl. rewrite IH. ring. }
      rewrite db.
      assert (s2 : a * (INR d * b) = s ^ 2 / (s ^ 2 + lam)).
      { rewrite <- rr, <- ar. unfold b. rewrite <- ar. field. rewrite ar. lra. }
      rewrite s2. unfold b. field. lra. }
    pose proof (estimate_from_slope d n (fun _ _ => a) (fun _ => 1) w lam wts (fun _ => b)
      (Rlt_le _ _ l0) flat other) as least.
    pose proof (dot_pos d (fun k => other k + -1 * b)). cbv beta in *. nra.
  - rewrite norm_const by auto. fold r. rewrite e. unfold b.
    transitivity (a * r / (s ^ 2 + lam)); [field; lra|rewrite ar; auto].
Qed.

Lemma shrinks : shrinks_with_the_penalty.
Proof.
  intros d n X y w l1 l2 u v wts [l0 le] min1 min2.
  pose proof (min1 v) as h1. pose proof (min2 u) as h2. unfold objective in h1, h2.
  pose proof (norm_pos d u). pose proof (norm_pos d v).
  destruct (Req_dec l1 l2) as [->|ne].
  - (* one penalty, one estimate *)
    destruct (ridge_estimate d n X y w l2 wts ltac:(lra)) as (th & _ & same).
    right. apply norm_ext. intros k hk. rewrite (same u min1 k hk), (same v min2 k hk). auto.
  - assert (sq : norm d v ^ 2 <= norm d u ^ 2).
    { apply Rmult_le_reg_l with (l2 - l1); [lra|]. lra. }
    apply Rsqr_incr_0_var; [unfold Rsqr; nra|auto].
Qed.

Theorem idea_lem_norm : idea_lem_norm_statement.
Proof.
  split; [exact maximum|]. split; [|split; [exact attains|exact shrinks]].
  intros d n X y w lam th inside wts l0 min.
  pose proof (bounded d n X y w lam th inside wts l0 min).
  destruct (rho_small d lam l0). split; [lra|]. split; lra.
Qed.

(* The hypotheses can be met: by ridge_estimate there is an estimate on every data set, as on one
   record inside the bounds. *)
Example an_estimate : exists theta,
  inside_bounds 1 1 (fun _ _ => 1) (fun _ => 1) /\ weights 1 (fun _ => 1) /\
  is_estimate 1 1 (fun _ _ => 1) (fun _ => 1) (fun _ => 1) 1 theta.
Proof.
  destruct one_record as [inside wts].
  destruct (ridge_estimate 1%nat 1%nat (fun _ _ => 1) (fun _ => 1) (fun _ => 1) 1 wts Rlt_0_1) as (th & h & _).
  exists th. auto.
Qed.

Print Assumptions idea_lem_norm.
