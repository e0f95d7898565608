(** Vectors of n numbers: product and length.  Used by other files. *)
Require Import Reals Lra Lia.
Require Import totals.
Open Scope R_scope.

(* What has to be read *)

(* Vectors of n numbers: product and length *)
Definition vector := nat -> R.
Definition product (n : nat) (x y : vector) : R := total n (fun k => x k * y k).
Definition length (n : nat) (x : vector) : R := sqrt (product n x x).

(* The proofs, which need not be read *)

Lemma product_self n x : 0 <= product n x x.
Proof. apply total_nonneg. intros. apply Rle_0_sqr. Qed.

Lemma length_square n x : length n x ^ 2 = product n x x.
Proof. unfold length. rewrite pow2_sqrt; auto. apply product_self. Qed.

Lemma length_ge0 n x : 0 <= length n x.
Proof. apply sqrt_pos. Qed.

Lemma product_scal n s x y : product n (fun k => s * x k) y = s * product n x y.
Proof. unfold product. rewrite <- total_scal. apply total_ext. intros. ring. Qed.

Lemma product_comm n x y : product n x y = product n y x.
Proof. apply total_ext. intros. ring. Qed.

Lemma length_scal n s x : length n (fun k => s * x k) = Rabs s * length n x.
Proof.
  unfold length. rewrite product_scal, product_comm, product_scal.
  replace (s * (s * product n x x)) with (Rsqr s * product n x x) by (unfold Rsqr; ring).
  rewrite sqrt_mult, sqrt_Rsqr_abs; auto; [apply Rle_0_sqr|apply product_self].
Qed.

Lemma cauchy n x y : Rabs (product n x y) <= length n x * length n y.
Proof.
  unfold length. rewrite <- sqrt_mult by apply product_self. rewrite <- sqrt_Rsqr_abs. apply sqrt_le_1_alt. unfold Rsqr.
  set (X := product n x x). set (Y := product n y y). set (Z := product n x y).
  assert (q : forall s, 0 <= X + 2 * s * Z + s * s * Y).
  { intros s. unfold X, Y, Z. replace (product n x x + 2 * s * product n x y + s * s * product n y y)
      with (total n (fun k => (x k + s * y k) * (x k + s * y k))); [apply total_nonneg; intros; apply Rle_0_sqr|].
    unfold product. rewrite <- !total_scal, <- !total_plus. apply total_ext. intros. ring. }
  assert (X0 : 0 <= X) by apply product_self. assert (Y0 : 0 <= Y) by apply product_self.
  destruct (Req_dec Y 0) as [z|nz].
  - rewrite z in *. destruct (Req_dec Z 0) as [->|nz]; [lra|]. exfalso.
    specialize (q (- (X + 1) / (2 * Z))). replace (2 * (- (X + 1) / (2 * Z)) * Z) with (- (X + 1)) in q by (field; auto). lra.
  - specialize (q (- Z / Y)). apply (Rmult_le_compat_r Y) in q; auto.
    replace ((X + 2 * (- Z / Y) * Z + - Z / Y * (- Z / Y) * Y) * Y) with (X * Y - Z * Z) in q by (field; auto). lra.
Qed.
