(** Vectors of d entries: inner product and length, and what the proofs need of them.  Used by other files. *)
Require Import Reals Lra Psatz.
Require Import totals.
Open Scope R_scope.

(* What has to be read *)

(* A vector: the first d values of a function are its entries *)
Definition vector := nat -> R.

(* The inner product *)
Definition dot (d : nat) (u v : vector) : R := total d (fun k => u k * v k).

(* The length *)
Definition norm (d : nat) (v : vector) : R := sqrt (dot d v v).

(* The proofs, which need not be read *)

Section Vectors.
Variable d : nat.
Local Notation dot := (dot d).
Local Notation norm := (norm d).

Lemma dot_comm u v : dot u v = dot v u.
Proof. apply total_ext. intros; lra. Qed.
Lemma dot_lin u v w s : dot u (fun k => v k + s * w k) = dot u v + s * dot u w.
Proof. unfold vectors.dot. rewrite <- total_scal, <- total_plus. apply total_ext. intros; lra. Qed.
Lemma dot_pos v : 0 <= dot v v.
Proof. apply total_nonneg. intros; nra. Qed.
Lemma norm_pos v : 0 <= norm v.
Proof. apply sqrt_pos. Qed.
Lemma norm_sq v : norm v * norm v = dot v v.
Proof. apply sqrt_sqrt, dot_pos. Qed.
Lemma norm_square v : norm v ^ 2 = dot v v.
Proof. rewrite <- norm_sq. ring. Qed.
Lemma norm_ext u v : (forall k, (k < d)%nat -> u k = v k) -> norm u = norm v.
Proof. intros e. unfold vectors.norm. f_equal. apply total_ext. intros k hk. rewrite e; auto. Qed.
Lemma dot_sq u v s : dot (fun k => u k + s * v k) (fun k => u k + s * v k)
  = dot u u + 2 * s * dot u v + s * s * dot v v.
Proof. rewrite dot_lin, (dot_comm _ u), (dot_comm _ v), !dot_lin, (dot_comm v u). lra. Qed.

Lemma cauchy_sq u v : dot u v * dot u v <= dot u u * dot v v.
Proof.
  destruct (Req_dec (dot v v) 0) as [z|ne].
  - assert (h : forall s, 0 <= dot u u + 2 * s * dot u v).
    { intros s. pose proof (dot_pos (fun k => u k + s * v k)) as p. rewrite dot_sq, z in p. lra. }
    assert (dot u v = 0); [|nra].
    pose proof (h (- (dot u u + 1) / (2 * dot u v))). destruct (Req_dec (dot u v) 0) as [|nz]; auto.
    exfalso. replace (2 * (- (dot u u + 1) / (2 * dot u v)) * dot u v) with (- (dot u u + 1)) in H by (field; auto). lra.
  - pose proof (dot_pos v). pose proof (dot_pos (fun k => u k + (- dot u v / dot v v) * v k)) as p.
    rewrite dot_sq in p.
    replace (dot u u + 2 * (- dot u v / dot v v) * dot u v + - dot u v / dot v v * (- dot u v / dot v v) * dot v v)
      with ((dot u u * dot v v - dot u v * dot u v) / dot v v) in p by (field; auto).
    apply (Rmult_le_compat_r (dot v v)) in p; [|lra].
    replace ((dot u u * dot v v - dot u v * dot u v) / dot v v * dot v v)
      with (dot u u * dot v v - dot u v * dot u v) in p by (field; auto). lra.
Qed.

Lemma cauchy u v : Rabs (dot u v) <= norm u * norm v.
Proof.
  pose proof (cauchy_sq u v). rewrite <- (norm_sq u), <- (norm_sq v) in H.
  pose proof (norm_pos u). pose proof (norm_pos v).
  apply Rsqr_incr_0_var; [|nra]. rewrite <- Rsqr_abs. unfold Rsqr. nra.
Qed.

Lemma zero_dot u v : norm v = 0 -> dot u v = 0.
Proof.
  intros z. pose proof (cauchy u v) as c. rewrite z, Rmult_0_r in c.
  revert c. unfold Rabs. destruct (Rcase_abs _); intros; lra.
Qed.

Lemma dot_scale u v s : dot u (fun k => s * v k) = s * dot u v.
Proof. unfold vectors.dot. rewrite <- total_scal. apply total_ext. intros; lra. Qed.

Lemma dot_scale_left s u v : dot (fun k => s * u k) v = s * dot u v.
Proof. rewrite dot_comm, dot_scale, dot_comm. reflexivity. Qed.

Lemma norm_scale s v : norm (fun k => s * v k) = Rabs s * norm v.
Proof.
  unfold vectors.norm. rewrite dot_scale, dot_scale_left, <- Rmult_assoc. change (s * s) with (Rsqr s).
  rewrite sqrt_mult, sqrt_Rsqr_abs; auto; [apply Rle_0_sqr|apply dot_pos].
Qed.

Lemma norm_triangle u v : norm (fun k => u k + v k) <= norm u + norm v.
Proof.
  pose proof (norm_pos u). pose proof (norm_pos v). apply Rsqr_incr_0_var; [|lra]. unfold Rsqr.
  assert (e : dot (fun k => u k + v k) (fun k => u k + v k) = dot u u + 2 * 1 * dot u v + 1 * 1 * dot v v).
  { rewrite <- dot_sq. apply total_ext. intros; ring. }
  rewrite norm_sq, e, <- !norm_sq. pose proof (cauchy u v). pose proof (Rle_abs (dot u v)). lra.
Qed.

Lemma norm_between t u v : norm (fun k => t * u k + (1 - t) * v k) ^ 2
  = t * norm u ^ 2 + (1 - t) * norm v ^ 2 - t * (1 - t) * norm (fun k => u k - v k) ^ 2.
Proof.
  rewrite !norm_square. unfold vectors.dot. rewrite <- !total_scal, <- total_plus, <- total_minus.
  apply total_ext. intros; ring.
Qed.

Lemma norm_const a : 0 <= a -> norm (fun _ => a) = a * sqrt (INR d).
Proof.
  intros a0. assert (e : dot (fun _ => a) (fun _ => a) = a * a * INR d).
  { unfold vectors.dot. induction d as [|m IH]; [simpl; lra|]. rewrite S_INR. simpl. rewrite IH. lra. }
  unfold vectors.norm. rewrite e, sqrt_mult; [|nra|apply pos_INR]. rewrite sqrt_square; auto.
Qed.
(* |p' (x x' - y y') v| <= D |p| |v| *)
Lemma two_squares (x y p v : nat -> R) D : 0 <= D -> dot x x <= D -> dot y y <= D ->
  Rabs (dot x p * dot x v - dot y p * dot y v) <= D * (norm p * norm v).
Proof.
  intros D0 hx hy.
  assert (quad : forall z, Rabs (dot x z * dot x z - dot y z * dot y z) <= D * dot z z).
  { intros z. pose proof (cauchy_sq x z). pose proof (cauchy_sq y z). pose proof (dot_pos z).
    apply Rabs_le. split; nra. }
  assert (am : forall s, 0 < s -> Rabs (dot x p * dot x v - dot y p * dot y v)
               <= D / 2 * (dot p p / s + s * dot v v)).
  { intros s s0. pose proof (quad (fun k => p k + s * v k)) as h1. pose proof (quad (fun k => p k + (- s) * v k)) as h2.
    rewrite dot_sq, !dot_lin in h1, h2.
    assert (Rabs (4 * s * (dot x p * dot x v - dot y p * dot y v)) <= 2 * D * (dot p p + s * s * dot v v)).
    { revert h1 h2. unfold Rabs. repeat destruct (Rcase_abs _); intros; lra. }
    rewrite Rabs_mult, (Rabs_right (4 * s)) in H by lra.
    apply Rmult_le_reg_l with (4 * s); [lra|]. eapply Rle_trans; [exact H|]. right. field. lra. }
  pose proof (norm_pos p). pose proof (norm_pos v).
  destruct (Req_dec (norm p) 0) as [zp|np].
  { rewrite !(zero_dot _ _ zp), zp. replace (0 * dot x v - 0 * dot y v) with 0 by ring. rewrite Rabs_R0. lra. }
  destruct (Req_dec (norm v) 0) as [zv|nv].
  { rewrite !(zero_dot _ _ zv), zv. replace (dot x p * 0 - dot y p * 0) with 0 by ring. rewrite Rabs_R0. lra. }
  eapply Rle_trans; [apply (am (norm p / norm v))|].
  - apply Rmult_lt_0_compat; [lra|apply Rinv_0_lt_compat; lra].
  - rewrite <- !norm_sq. right. field. lra.
Qed.
End Vectors.
