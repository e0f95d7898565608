(* idea-lem-two: how far a further term moves a minimiser. Claim: pdp-lemmaC3.

   Where prose and formal statement differ:
   - the gradient of g at one point is by its derivatives in every direction, which is weaker than
     differentiability, so the theorem says more; that G is differentiable is not needed;
   - G and g take any numbers k -> v k, also those beyond the first d: a function of d variables is
     one that does not look at them. *)
Require Import Reals Lra Psatz FunctionalExtensionality.
Require Import totals vectors.
Open Scope R_scope.

(* What has to be read *)

(* The point on the line from one point to another: the first at t = 0, the second at t = 1 *)
Definition between (from to : nat -> R) (t : R) : nat -> R := fun k => from k + t * (to k - from k).

(* G is gamma-strongly convex: on each such line it lies below the chord, by gamma/2 t (1 - t) times
   the squared distance. *)
Definition strongly_convex (d : nat) (gamma : R) (G : (nat -> R) -> R) : Prop :=
  forall from to t, 0 <= t <= 1 ->
  G (between from to t)
  <= (1 - t) * G from + t * G to - gamma / 2 * t * (1 - t) * norm d (fun k => to k - from k) ^ 2.

Definition minimises (G : (nat -> R) -> R) (point : nat -> R) : Prop :=
  forall other, G point <= G other.

(* The derivative of g at a point, in every direction, is the inner product with the gradient. *)
Definition has_gradient (d : nat) (g : (nat -> R) -> R) (point gradient : nat -> R) : Prop :=
  forall direction,
  derivable_pt_lim (fun t => g (fun k => point k + t * direction k)) 0 (dot d gradient direction).

Definition idea_lem_two_statement : Prop :=
  forall d gamma (G g : (nat -> R) -> R) (theta_1 theta_2 gradient : nat -> R),
  0 < gamma ->
  strongly_convex d gamma G ->
  minimises G theta_2 ->
  minimises (fun theta => G theta + g theta) theta_1 ->
  has_gradient d g theta_1 gradient ->
  norm d (fun k => theta_1 k - theta_2 k) <= norm d gradient / gamma.

(* The proofs, which need not be read *)

(* A function with f 0 <= f t + b t + c t^2 just right of 0 has a slope of at least -b at 0. *)
Lemma slope_from_right f l b c : derivable_pt_lim f 0 l -> 0 <= c ->
  (forall t, 0 < t <= 1 -> f 0 <= f t + b * t + c * t * t) -> - b <= l.
Proof.
  intros der c0 right. apply Rnot_lt_le. intros lt.
  set (eps := (- b - l) / 2). assert (e0 : 0 < eps) by (unfold eps; lra).
  destruct (der eps e0) as [delta close].
  set (t := Rmin (delta / 2) (Rmin 1 (eps / (2 * (c + 1))))).
  pose proof (cond_pos delta) as d0.
  assert (q0 : 0 < eps / (2 * (c + 1))).
  { unfold Rdiv. apply Rmult_lt_0_compat; [auto|apply Rinv_0_lt_compat; lra]. }
  assert (t0 : 0 < t) by (unfold t; repeat apply Rmin_glb_lt; lra).
  assert (td : t <= delta / 2) by apply Rmin_l.
  assert (t1 : t <= 1) by (eapply Rle_trans; [apply Rmin_r|apply Rmin_l]).
  assert (te : t <= eps / (2 * (c + 1))) by (eapply Rle_trans; [apply Rmin_r|apply Rmin_r]).
  assert (ct : c * t <= eps / 2).
  { apply Rle_trans with ((c + 1) * (eps / (2 * (c + 1)))); [nra|]. right. field. lra. }
  specialize (close t ltac:(lra)). rewrite Rabs_right in close by lra. specialize (close ltac:(lra)).
  rewrite Rplus_0_l in close. apply Rabs_def2 in close. destruct close as [up _].
  specialize (right t ltac:(lra)).
  assert (h : (f t - f 0) / t * t < (l + eps) * t) by (apply Rmult_lt_compat_r; lra).
  replace ((f t - f 0) / t * t) with (f t - f 0) in h by (field; lra).
  assert (c * t * t <= eps / 2 * t) by (apply Rmult_le_compat_r; lra).
  assert (- b * t <= (l + eps + eps / 2) * t) by lra.
  assert (- b <= l + eps + eps / 2) by (apply Rmult_le_reg_r with t; lra).
  unfold eps in *. lra.
Qed.

Theorem idea_lem_two : idea_lem_two_statement.
Proof.
  intros d gamma G g th1 th2 grad g0 convex min2 min1 der.
  set (w := fun k => th2 k - th1 k).
  assert (n2 : norm d (fun k => th1 k - th2 k) = norm d w).
  { unfold norm. f_equal. apply total_ext. intros k _. unfold w. ring. }
  rewrite n2. set (a := norm d w). pose proof (norm_pos d w) as a0. fold a in a0.
  (* G grows away from its minimiser *)
  assert (grow : G th2 + gamma / 2 * a ^ 2 <= G th1).
  { apply Rnot_lt_le. intros lt. set (e := G th2 + gamma / 2 * a ^ 2 - G th1).
    destruct (Req_dec a 0) as [z|nz].
    { rewrite z in *. pose proof (min2 th1). lra. }
    assert (ga : 0 < gamma / 2 * a ^ 2) by (apply Rmult_lt_0_compat; [lra|nra]).
    set (s := Rmin (1 / 2) (e / (gamma * a ^ 2))).
    assert (q0 : 0 < e / (gamma * a ^ 2)).
    { unfold Rdiv. apply Rmult_lt_0_compat; [unfold e; lra|apply Rinv_0_lt_compat; lra]. }
    assert (s0 : 0 < s) by (unfold s; apply Rmin_glb_lt; lra).
    assert (s1 : s <= 1 / 2) by apply Rmin_l.
    assert (s2 : s * (gamma * a ^ 2) <= e).
    { replace e with (e / (gamma * a ^ 2) * (gamma * a ^ 2)) by (field; lra).
      apply Rmult_le_compat_r; [lra|apply Rmin_r]. }
    pose proof (convex th1 th2 (1 - s) ltac:(lra)) as c. fold w a in c.
    pose proof (min2 (between th1 th2 (1 - s))) as m.
    assert (h : G th2 <= G th1 - gamma / 2 * (1 - s) * a ^ 2).
    { apply Rmult_le_reg_l with s; [auto|]. lra. }
    unfold e in *. lra. }
  (* towards theta_2, g falls no faster than G rises *)
  assert (slope : gamma * a ^ 2 <= dot d grad w).
  { replace (gamma * a ^ 2) with (- (G th2 - G th1 - gamma / 2 * a ^ 2) - (G th1 - G th2 - gamma / 2 * a ^ 2)) by lra.
    apply Rle_trans with (- (G th2 - G th1 - gamma / 2 * a ^ 2)); [lra|].
    apply (slope_from_right _ _ _ (gamma / 2 * a ^ 2) (der w)).
    - apply Rmult_le_pos; [lra|apply pow2_ge_0].
    - intros t [t0 t1].
      pose proof (convex th1 th2 t ltac:(lra)) as c. fold w a in c.
      pose proof (min1 (between th1 th2 t)) as m. cbv beta in m.
      change (fun k => th1 k + t * w k) with (between th1 th2 t).
      replace (fun k => th1 k + 0 * w k) with th1
        by (apply functional_extensionality; intros; ring).
      lra. }
  pose proof (cauchy d grad w) as cs. fold a in cs. pose proof (Rle_abs (dot d grad w)).
  pose proof (norm_pos d grad).
  destruct (Req_dec a 0) as [z|nz].
  { rewrite z. apply Rmult_le_pos; [auto|left; apply Rinv_0_lt_compat; auto]. }
  apply Rmult_le_reg_r with (gamma * a); [apply Rmult_lt_0_compat; lra|].
  replace (norm d grad / gamma * (gamma * a)) with (norm d grad * a) by (field; lra). lra.
Qed.

(* The hypotheses can be met: G is theta^2 and g is -2 theta in one dimension; theta_2 is 0, theta_1
   is 1, the gradient -2, and the distance is the bound. *)
Example parabola :
  let G := fun theta : nat -> R => theta 0%nat ^ 2 in
  let g := fun theta : nat -> R => -2 * theta 0%nat in
  strongly_convex 1 2 G /\ minimises G (fun _ => 0) /\
  minimises (fun theta => G theta + g theta) (fun _ => 1) /\
  has_gradient 1 g (fun _ => 1) (fun _ => -2).
Proof.
  cbv zeta. split; [|split; [|split]].
  - intros u v t ht. unfold between. rewrite <- Rsqr_pow2 with (x := norm _ _). unfold Rsqr.
    rewrite norm_sq. unfold dot. simpl. nra.
  - intros v. nra.
  - intros v. cbv beta. pose proof (pow2_ge_0 (v 0%nat - 1)). nra.
  - intros v. unfold dot. simpl.
    replace (0 + -2 * v 0%nat) with (-2 * v 0%nat) by ring.
    intros eps e0. exists (mkposreal 1 Rlt_0_1). intros h h0 _.
    replace ((-2 * (1 + (0 + h) * v 0%nat) - -2 * (1 + 0 * v 0%nat)) / h - -2 * v 0%nat) with 0
      by (field; auto).
    rewrite Rabs_R0. auto.
Qed.

Print Assumptions idea_lem_two.
