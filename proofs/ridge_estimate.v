(* Ridge regression with weights: the estimate of the ridge paper, and that there is exactly one. *)
Require Import Reals Lra Psatz.
Require Import totals vectors.
Open Scope R_scope.

(* What has to be read *)

(* n records of d features and a label each, inside the bounds *)
Definition inside_bounds (d n : nat) (features : nat -> nat -> R) (label : nat -> R) : Prop :=
  forall i, (i < n)%nat ->
  (forall k, (k < d)%nat -> 0 <= features i k <= 1) /\ -1 <= label i <= 1.

(* Weights are not negative and sum to 1. *)
Definition weights (n : nat) (weight : nat -> R) : Prop :=
  (forall i, (i < n)%nat -> 0 <= weight i) /\ total n weight = 1.

(* The weighted sum of squared errors, and the penalty *)
Definition objective (d n : nat) (features : nat -> nat -> R) (label weight : nat -> R)
    (penalty : R) (theta : nat -> R) : R :=
  total n (fun i => weight i * (label i - dot d (features i) theta) ^ 2) + penalty * norm d theta ^ 2.

(* The estimate minimises it. *)
Definition is_estimate (d n : nat) (features : nat -> nat -> R) (label weight : nat -> R)
    (penalty : R) (theta : nat -> R) : Prop :=
  forall other, objective d n features label weight penalty theta
                <= objective d n features label weight penalty other.

(* rho, the sharper bound on its length, by the two cases *)
Definition rho (d : nat) (penalty : R) : R :=
  if Rle_dec penalty (INR d) then 1 / (2 * sqrt penalty) else sqrt (INR d) / (INR d + penalty).

(* There is an estimate, and two have the same d entries. *)
Definition ridge_estimate_statement : Prop :=
  forall d n features label weight penalty,
  weights n weight -> 0 < penalty ->
  exists theta, is_estimate d n features label weight penalty theta /\
  forall other, is_estimate d n features label weight penalty other ->
  forall k, (k < d)%nat -> other k = theta k.

(* The proofs, which need not be read *)

Lemma inside_norm d n X y i : inside_bounds d n X y -> (i < n)%nat ->
  dot d (X i) (X i) <= INR d /\ -1 <= y i <= 1.
Proof.
  intros ok hi. destruct (ok i hi) as [box yi]. split; [|auto]. clear - box. unfold dot.
  induction d as [|m IH]; [simpl; lra|]. rewrite S_INR. simpl.
  specialize (IH (fun k hk => box k (Nat.lt_lt_succ_r _ _ hk))).
  pose proof (box m (Nat.lt_succ_diag_r m)). nra.
Qed.

Section Estimate.
Variables (d n : nat) (X : nat -> nat -> R) (y w : nat -> R) (lam : R).
Hypothesis wts : weights n w.

(* Half the derivative of the objective at th in the direction v *)
Definition slope (th v : nat -> R) : R :=
  total n (fun i => w i * (dot d (X i) th - y i) * dot d (X i) v) + lam * dot d th v.

Definition curvature (v : nat -> R) : R :=
  total n (fun i => w i * (dot d (X i) v * dot d (X i) v)) + lam * dot d v v.

Lemma curvature_pos v : 0 <= lam -> lam * dot d v v <= curvature v.
Proof.
  intros l0. unfold curvature. destruct wts as [w0 _].
  assert (0 <= total n (fun i => w i * (dot d (X i) v * dot d (X i) v))).
  { apply total_nonneg. intros i hi. specialize (w0 i hi). apply Rmult_le_pos; [auto|nra]. }
  lra.
Qed.

Lemma along th v s : objective d n X y w lam (fun k => th k + s * v k)
  = objective d n X y w lam th + 2 * s * slope th v + s * s * curvature v.
Proof.
  unfold objective. rewrite !norm_square, dot_sq.
  assert (q : total n (fun i => w i * (y i - dot d (X i) (fun k => th k + s * v k)) ^ 2)
    = total n (fun i => w i * (y i - dot d (X i) th) ^ 2)
      + (2 * s * total n (fun i => w i * (dot d (X i) th - y i) * dot d (X i) v)
         + s * s * total n (fun i => w i * (dot d (X i) v * dot d (X i) v)))).
  { rewrite <- !total_scal, <- !total_plus. apply total_ext. intros i hi. rewrite dot_lin. ring. }
  rewrite q. unfold slope, curvature. ring.
Qed.

Lemma objective_ext u v : (forall k, (k < d)%nat -> u k = v k) ->
  objective d n X y w lam u = objective d n X y w lam v.
Proof.
  intros e. unfold objective. rewrite !norm_square.
  assert (h : forall a, dot d a u = dot d a v)
    by (intros a; apply total_ext; intros k hk; rewrite e; auto).
  f_equal; [|f_equal].
  - apply total_ext. intros i _. rewrite h. auto.
  - apply total_ext. intros k hk. rewrite e; auto.
Qed.

(* The estimate has no slope in any direction, *)
Lemma first_order th v : 0 <= lam -> is_estimate d n X y w lam th -> slope th v = 0.
Proof.
  intros l0 min. set (g := slope th v). set (h := curvature v).
  assert (h0 : 0 <= h).
  { unfold h. pose proof (curvature_pos v l0). pose proof (dot_pos d v). nra. }
  assert (e : forall s, 0 <= 2 * s * g + s * s * h).
  { intros s. pose proof (min (fun k => th k + s * v k)) as m. rewrite along in m.
    unfold g, h. lra. }
  specialize (e (- g / (h + 1))).
  replace (2 * (- g / (h + 1)) * g + - g / (h + 1) * (- g / (h + 1)) * h)
    with (- (g * g * (h + 2)) / ((h + 1) * (h + 1))) in e by (field; lra).
  apply (Rmult_le_compat_r ((h + 1) * (h + 1))) in e; [|nra].
  replace (- (g * g * (h + 2)) / ((h + 1) * (h + 1)) * ((h + 1) * (h + 1)))
    with (- (g * g * (h + 2))) in e by (field; lra).
  nra.
Qed.

(* and what has none is the estimate. *)
Lemma estimate_from_slope th : 0 <= lam -> (forall v, slope th v = 0) ->
  forall other, objective d n X y w lam th + lam * dot d (fun k => other k + -1 * th k)
    (fun k => other k + -1 * th k) <= objective d n X y w lam other.
Proof.
  intros l0 flat other. set (v := fun k => other k + -1 * th k).
  rewrite (objective_ext other (fun k => th k + 1 * v k)) by (intros; unfold v; lra).
  rewrite along, flat. pose proof (curvature_pos v l0). lra.
Qed.

(* The normal equations with the first m records, for any right side b: solvable, one record more at
   a time. *)
Lemma normal_equations : 0 < lam -> forall m, (m <= n)%nat -> forall b : nat -> R,
  exists z, forall k, total m (fun i => w i * dot d (X i) z * X i k) + lam * z k = b k.
Proof.
  intros l0 m. induction m as [|m IH]; intros hm b.
  - exists (fun k => b k / lam). intros k. simpl. field. lra.
  - destruct (IH ltac:(lia) b) as [u hu]. destruct (IH ltac:(lia) (X m)) as [p hp].
    destruct wts as [w0 _]. pose proof (w0 m ltac:(lia)) as wm.
    (* x.p >= 0, as p solves the equations with x on the right *)
    assert (split : forall j, dot d p (fun k => total j (fun i => w i * dot d (X i) p * X i k))
              = total j (fun i => w i * (dot d (X i) p * dot d (X i) p))).
    { induction j as [|j IHj].
      - simpl. unfold dot. rewrite (total_ext d _ (fun _ => 0)); [apply total_zero|intros; simpl; lra].
      - simpl. rewrite (dot_lin d p (fun k => total j (fun i => w i * dot d (X i) p * X i k)) (X j)).
        rewrite IHj, (dot_comm d p (X j)). ring. }
    assert (xp : 0 <= dot d (X m) p).
    { rewrite dot_comm.
      replace (dot d p (X m))
        with (dot d p (fun k => total m (fun i => w i * dot d (X i) p * X i k) + lam * p k))
        by (apply total_ext; intros k _; rewrite hp; auto).
      rewrite (dot_lin d p (fun k => total m (fun i => w i * dot d (X i) p * X i k)) p lam), split.
      pose proof (dot_pos d p).
      assert (0 <= total m (fun i => w i * (dot d (X i) p * dot d (X i) p))).
      { apply total_nonneg. intros i hi. specialize (w0 i ltac:(lia)). apply Rmult_le_pos; [auto|nra]. }
      nra. }
    assert (den : 0 < 1 + w m * dot d (X m) p) by nra.
    set (c := w m * dot d (X m) u / (1 + w m * dot d (X m) p)).
    exists (fun k => u k + - c * p k). intros k. simpl.
    rewrite dot_lin.
    rewrite (total_ext m _ (fun i => w i * dot d (X i) u * X i k + - c * (w i * dot d (X i) p * X i k)))
      by (intros i hi; rewrite dot_lin; ring).
    rewrite total_plus, total_scal.
    replace (total m (fun i => w i * dot d (X i) u * X i k)) with (b k - lam * u k)
      by (rewrite <- (hu k); ring).
    replace (total m (fun i => w i * dot d (X i) p * X i k)) with (X m k - lam * p k)
      by (rewrite <- (hp k); ring).
    assert (e : w m * (dot d (X m) u + - c * dot d (X m) p) = c) by (unfold c; field; lra).
    rewrite e. ring.
Qed.

Lemma dot_sum j f v : dot d (fun k => total j (fun i => f i * X i k)) v
  = total j (fun i => f i * dot d (X i) v).
Proof.
  rewrite dot_comm. induction j as [|j IH].
  - simpl. unfold dot. rewrite (total_ext d _ (fun _ => 0)); [apply total_zero|intros; simpl; lra].
  - simpl. rewrite (dot_lin d v (fun k => total j (fun i => f i * X i k)) (X j)), IH.
    rewrite (dot_comm d v (X j)). ring.
Qed.

Lemma no_slope : 0 < lam -> exists th, forall v, slope th v = 0.
Proof.
  intros l0.
  destruct (normal_equations l0 n (le_n n) (fun k => total n (fun i => w i * y i * X i k))) as [th h].
  exists th. intros v. unfold slope.
  assert (e : dot d (fun k => total n (fun i => w i * dot d (X i) th * X i k) + lam * th k) v
    = dot d (fun k => total n (fun i => w i * y i * X i k)) v)
    by (apply total_ext; intros k _; rewrite h; auto).
  rewrite dot_comm, (dot_lin d v (fun k => total n (fun i => w i * dot d (X i) th * X i k)) th lam) in e.
  rewrite dot_comm, (dot_sum n (fun i => w i * dot d (X i) th)), (dot_sum n (fun i => w i * y i)) in e.
  rewrite (dot_comm d v th) in e.
  rewrite (total_ext n _ (fun i => w i * dot d (X i) th * dot d (X i) v
    + -1 * (w i * y i * dot d (X i) v))) by (intros; ring).
  rewrite total_plus, total_scal. lra.
Qed.
End Estimate.

Theorem ridge_estimate : ridge_estimate_statement.
Proof.
  intros d n X y w lam wts l0. destruct (no_slope d n X y w lam wts l0) as [th flat].
  pose proof (estimate_from_slope d n X y w lam wts th (Rlt_le _ _ l0) flat) as least.
  exists th. split.
  - intros other. specialize (least other).
    pose proof (dot_pos d (fun k => other k + -1 * th k)). nra.
  - intros other min. specialize (least other). specialize (min th).
    set (v := fun k => other k + -1 * th k) in *.
    assert (z : dot d v v <= 0) by nra. intros k hk.
    assert (s : v k * v k <= dot d v v).
    { apply (total_term d (fun k => v k * v k)); auto. intros; nra. }
    assert (v k = 0) by nra. unfold v in *. lra.
Qed.

(* The hypotheses can be met: one record. *)
Example one_record : inside_bounds 1 1 (fun _ _ => 1) (fun _ => 1) /\ weights 1 (fun _ => 1).
Proof.
  split; [intros i _; split; [intros; lra|lra]|]. split; [intros; lra|simpl; lra].
Qed.

Print Assumptions ridge_estimate.
