(** pr-arithmetic-prop-ball: how far the minimiser can be.  Bears on what the library promises of its logistic models, page
    privacy/arithmetic.
    Beside the prose: the gradient at w is the vector whose product with each direction is the derivative of F from w in
    that direction; G need not be differentiable elsewhere. *)
Require Import Reals Lra Lia.
Require Import totals feature_vectors.
Open Scope R_scope.

(* What has to be read *)

(* Vectors of n numbers, their product and length are those of feature_vectors.v *)

(* A convex function of vectors that looks at their n entries only *)
Definition convex (n : nat) (G : vector -> R) : Prop :=
  (forall x y, (forall k, (k < n)%nat -> x k = y k) -> G x = G y) /\
  forall x y t, 0 <= t <= 1 -> G (fun k => t * x k + (1 - t) * y k) <= t * G x + (1 - t) * G y.

(* F is the sum of G and the penalty *)
Definition penalised (n : nat) (G : vector -> R) (penalty : R) (w : vector) : R := G w + penalty / 2 * length n w ^ 2.

(* The gradient of F at w *)
Definition gradient_at (n : nat) (F : vector -> R) (w gradient : vector) : Prop :=
  forall d, derivable_pt_lim (fun t => F (fun k => w k + t * d k)) 0 (product n gradient d).

(* The minimiser is within the length of the gradient over the penalty *)
Definition ball_statement : Prop :=
  forall n G penalty minimiser w gradient, convex n G -> 0 < penalty ->
  (forall other, penalised n G penalty minimiser <= penalised n G penalty other) ->
  gradient_at n (penalised n G penalty) w gradient ->
  length n (fun k => w k - minimiser k) <= length n gradient / penalty.

(* The proofs, which need not be read *)

(* F is convex by at least the penalty *)
Lemma strongly n G penalty x y t : convex n G -> 0 < penalty -> 0 <= t <= 1 ->
  penalised n G penalty (fun k => t * x k + (1 - t) * y k)
    <= t * penalised n G penalty x + (1 - t) * penalised n G penalty y - penalty / 2 * (t * (1 - t)) * length n (fun k => x k - y k) ^ 2.
Proof.
  intros (_ & conv) p ht. specialize (conv x y t ht). unfold penalised.
  assert (e : length n (fun k => t * x k + (1 - t) * y k) ^ 2
    = t * length n x ^ 2 + (1 - t) * length n y ^ 2 - t * (1 - t) * length n (fun k => x k - y k) ^ 2).
  { rewrite !length_square. unfold product. rewrite <- !total_scal, <- total_plus, <- total_minus. apply total_ext. intros. ring. }
  rewrite e. lra.
Qed.

Lemma penalised_ext n G penalty x y : convex n G -> (forall k, (k < n)%nat -> x k = y k) -> penalised n G penalty x = penalised n G penalty y.
Proof.
  intros (ext & _) e. unfold penalised. rewrite (ext x y e). f_equal. f_equal. rewrite !length_square. unfold product.
  apply total_ext. intros k hk. rewrite (e k hk). reflexivity.
Qed.

Theorem ball : ball_statement.
Proof.
  intros n G penalty m w g conv p least grad. set (F := penalised n G penalty) in *.
  set (D := length n (fun k => w k - m k)). pose proof (length_ge0 n (fun k => w k - m k)) as D0. fold D in D0.
  (* above the minimum by at least the penalty times half of the square *)
  assert (above : F m + penalty / 2 * D ^ 2 <= F w).
  { apply Rnot_lt_le. intros lt. set (gap := F m + penalty / 2 * D ^ 2 - F w). assert (g0 : 0 < gap) by (unfold gap; lra).
    set (c := penalty / 2 * D ^ 2). assert (c0 : 0 <= c) by (apply Rmult_le_pos; [lra|apply pow2_ge_0]).
    set (t := gap / (2 * (gap + c))). assert (t01 : 0 < t <= 1 / 2).
    { unfold t. split; [apply Rdiv_lt_0_compat; lra|]. apply Rmult_le_reg_r with (2 * (gap + c)); [lra|].
      unfold Rdiv at 1. rewrite Rmult_assoc, Rinv_l by lra. lra. }
    pose proof (strongly n G penalty w m t conv p ltac:(lra)) as s. fold F D in s.
    pose proof (least (fun k => t * w k + (1 - t) * m k)) as l. fold F in l.
    assert (0 <= t * (F w - F m - c * (1 - t))) by (unfold c; lra).
    assert (0 <= F w - F m - c * (1 - t)) by (apply Rmult_le_reg_l with t; lra).
    assert (c * t < gap).
    { unfold t. apply Rmult_lt_reg_r with (2 * (gap + c)); [lra|].
      replace (c * (gap / (2 * (gap + c))) * (2 * (gap + c))) with (c * gap) by (field; lra). nra. }
    unfold gap in *. fold c in H1. lra. }
  (* the slope from w towards the minimiser *)
  set (d := fun k => m k - w k).
  assert (slope : product n g d <= F m - F w - penalty / 2 * D ^ 2).
  { apply Rnot_lt_le. intros lt. set (c := penalty / 2 * D ^ 2) in *. assert (c0 : 0 <= c) by (apply Rmult_le_pos; [lra|apply pow2_ge_0]).
    set (gap := product n g d - (F m - F w - c)). assert (g0 : 0 < gap) by (unfold gap; lra).
    destruct (grad d (gap / 2) ltac:(lra)) as ([delta delta0] & h). simpl in h.
    set (t := Rmin (delta / 2) (Rmin (1 / 2) (gap / (4 * (c + 1))))).
    assert (q0 : 0 < gap / (4 * (c + 1))) by (apply Rdiv_lt_0_compat; lra).
    assert (t0 : 0 < t) by (unfold t; repeat apply Rmin_glb_lt; lra).
    assert (t1 : t <= delta / 2) by apply Rmin_l.
    assert (t2 : t <= 1 / 2) by (unfold t; eapply Rle_trans; [apply Rmin_r|apply Rmin_l]).
    assert (t3 : t <= gap / (4 * (c + 1))) by (unfold t; eapply Rle_trans; [apply Rmin_r|apply Rmin_r]).
    specialize (h t ltac:(lra) ltac:(rewrite Rabs_right; lra)). rewrite Rplus_0_l in h. apply Rabs_def2 in h. destruct h as [_ h].
    pose proof (strongly n G penalty m w t conv p ltac:(lra)) as s. fold F in s.
    assert (same : F (fun k => t * m k + (1 - t) * w k) = F (fun k => w k + t * d k)).
    { apply penalised_ext; auto. intros k _. unfold d. ring. }
    assert (zero : F (fun k => w k + 0 * d k) = F w) by (apply penalised_ext; auto; intros; ring).
    assert (back : length n (fun k => m k - w k) ^ 2 = D ^ 2).
    { unfold D. rewrite !length_square. unfold product. apply total_ext. intros. ring. }
    rewrite same, back in s. rewrite zero in h.
    assert (quotient : (F (fun k => w k + t * d k) - F w) / t <= F m - F w - c * (1 - t)).
    { apply Rmult_le_reg_r with t; auto. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. unfold c. lra. }
    assert (c * t <= gap / 4).
    { apply Rle_trans with ((c + 1) * (gap / (4 * (c + 1)))); [apply Rmult_le_compat; lra|right; field; lra]. }
    unfold gap in *. lra. }
  assert (main : penalty * D ^ 2 <= - product n g d) by lra.
  pose proof (cauchy n g d) as cs. pose proof (Rle_abs (- product n g d)) as ab. rewrite Rabs_Ropp in ab.
  assert (ld : length n d = D).
  { unfold D, length. f_equal. unfold product, d. apply total_ext. intros. ring. }
  rewrite ld in cs. destruct (Req_dec D 0) as [z|nz].
  - rewrite z. apply Rmult_le_pos; [apply length_ge0|left; apply Rinv_0_lt_compat; auto].
  - apply Rmult_le_reg_r with (penalty * D); [apply Rmult_lt_0_compat; lra|].
    replace (length n g / penalty * (penalty * D)) with (length n g * D) by (field; lra).
    replace (D * (penalty * D)) with (penalty * D ^ 2) by ring. lra.
Qed.

(* The function 0 is convex *)
Example zero_is_convex : convex 3 (fun _ => 0).
Proof. split; intros; lra. Qed.

Print Assumptions ball.
