(** fl-aggregation-thm-bound: the error bound is attained.  Bears on the claims flm-problem1 and flm-err-decomposition
    (their corrections) and flm-zero-eps-zero-weight, page federated/aggregation.
    Beside the prose: the mean is a linear rule for all functions of what is drawn; an expectation can be extended so
    to the functions that have none.  Of independent noise with mean 0 only this is used, that products of two owners'
    noise have mean 0; nothing is asked of the noise of an owner with the weight 0. *)
Require Import Reals Lra Lia.
Require Import totals vectors.
Open Scope R_scope.

(* What has to be read *)

(* Vectors and their inner product dot are those of vectors.v.  The sum of the sizes of the D entries of a gradient *)
Definition sum_of_sizes (D : nat) (g : vector) : R := total D (fun k => Rabs (g k)).

(* A mean over what is drawn *)
Record linear_mean {Draw : Type} (mean : (Draw -> R) -> R) : Prop := {
  mean_of_one : mean (fun _ => 1) = 1;
  mean_of_sum : forall f g, mean (fun x => f x + g x) = mean f + mean g;
  mean_of_multiple : forall s f, mean (fun x => s * f x) = s * mean f
}.

(* Owner i's noise on the draw x is the vector noise i x: mean 0, independent of the others', mean square variance i *)
Definition independent_noise {Draw : Type} (n D : nat) (mean : (Draw -> R) -> R) (weight : nat -> R)
    (noise : nat -> Draw -> vector) (variance : nat -> R) : Prop :=
  forall i, (i < n)%nat -> weight i <> 0 ->
  (forall k, (k < D)%nat -> mean (fun x => noise i x k) = 0) /\
  (forall j k, (j < n)%nat -> weight j <> 0 -> j <> i -> (k < D)%nat -> mean (fun x => noise i x k * noise j x k) = 0) /\
  mean (fun x => dot D (noise i x) (noise i x)) = variance i.

(* The released sum of noisy gradients less the true average, and its mean square *)
Definition error_vector {Draw : Type} (n : nat) (share weight : nat -> R) (gradient : nat -> vector)
    (noise : nat -> Draw -> vector) (x : Draw) : vector :=
  fun k => total n (fun i => weight i * (gradient i k + noise i x k)) - total n (fun i => share i * gradient i k).
Definition mean_square {Draw : Type} (n D : nat) (mean : (Draw -> R) -> R) share weight gradient noise : R :=
  mean (fun x => dot D (error_vector n share weight gradient noise x) (error_vector n share weight gradient noise x)).

(* ERR, the supremum over all clipped gradients, is the formula, and gradients attain it *)
Definition bound_is_attained_statement : Prop :=
  forall (Draw : Type) n D mean share weight (noise : nat -> Draw -> vector) variance L, (1 <= D)%nat -> 0 < L ->
  linear_mean mean -> independent_noise n D mean weight noise variance ->
  let formula := total n (fun i => weight i ^ 2 * variance i) + L ^ 2 * total n (fun i => Rabs (weight i - share i)) ^ 2 in
  let clipped gradient := forall i, (i < n)%nat -> sum_of_sizes D (gradient i) <= L in
  (forall gradient, clipped gradient -> mean_square n D mean share weight gradient noise <= formula) /\
  exists gradient, clipped gradient /\ mean_square n D mean share weight gradient noise = formula.

(* With any weight other than 0 held fixed the formula grows beyond all bounds as this owner's variance does *)
Definition grows_beyond_all_bounds_statement : Prop :=
  forall n share weight variance L i height, (i < n)%nat -> weight i <> 0 -> (forall k, (k < n)%nat -> 0 <= variance k) ->
  exists large, forall larger, large <= larger ->
  let raised k := if Nat.eqb k i then larger else variance k in
  height <= total n (fun k => weight k ^ 2 * raised k) + L ^ 2 * total n (fun k => Rabs (weight k - share k)) ^ 2.

(* The proofs, which need not be read *)

Lemma norm_of_sum D n c g : norm D (fun k => total n (fun i => c i * g i k)) <= total n (fun i => Rabs (c i) * norm D (g i)).
Proof.
  induction n as [|n IH]; simpl.
  - unfold norm, dot. rewrite (total_ext D _ (fun _ => 0)), total_const, Rmult_0_r, sqrt_0; [lra|intros; ring].
  - eapply Rle_trans; [apply (norm_triangle D (fun k => total n (fun i => c i * g i k)) (fun k => c n * g n k))|].
    rewrite norm_scale. lra.
Qed.

Lemma norm_below_sizes D g : norm D g <= sum_of_sizes D g.
Proof.
  apply Rsqr_incr_0_var; [|apply total_nonneg; intros; apply Rabs_pos]. unfold Rsqr.
  replace (norm D g * norm D g) with (norm D g ^ 2) by ring. rewrite norm_square. unfold dot, sum_of_sizes.
  induction D as [|D IH]; simpl; [lra|]. assert (s : 0 <= total D (fun k => Rabs (g k))) by (apply total_nonneg; intros; apply Rabs_pos).
  pose proof (Rabs_pos (g D)). assert (g D * g D = Rabs (g D) * Rabs (g D)) by (rewrite <- Rabs_mult; symmetry; apply Rabs_pos_eq; apply Rle_0_sqr).
  nra.
Qed.

Section Means.
Variables (Draw : Type) (mean : (Draw -> R) -> R).
Hypothesis linear : linear_mean mean.

Lemma mean_ext f g : (forall x, f x = g x) -> mean f = mean g.
Proof. intros e. f_equal. apply FunctionalExtensionality.functional_extensionality. exact e. Qed.

Lemma mean_const s : mean (fun _ => s) = s.
Proof.
  rewrite (mean_ext _ (fun _ => s * 1)) by (intros; ring). rewrite (mean_of_multiple _ linear), (mean_of_one _ linear). ring.
Qed.

Lemma mean_total n (f : nat -> Draw -> R) : mean (fun x => total n (fun i => f i x)) = total n (fun i => mean (f i)).
Proof.
  induction n as [|n IH]; simpl; [apply mean_const|]. rewrite (mean_of_sum _ linear), IH. reflexivity.
Qed.

(* One coordinate: z i is owner i's noise in it *)
Lemma mean_of_square n (weight : nat -> R) (z : nat -> Draw -> R) b :
  (forall i, (i < n)%nat -> weight i <> 0 -> mean (z i) = 0) ->
  (forall i j, (i < n)%nat -> (j < n)%nat -> weight i <> 0 -> weight j <> 0 -> j <> i -> mean (fun x => z i x * z j x) = 0) ->
  mean (fun x => (total n (fun i => weight i * z i x) + b) ^ 2) = total n (fun i => weight i ^ 2 * mean (fun x => z i x ^ 2)) + b ^ 2.
Proof.
  induction n as [|n IH]; intros zero product0.
  - simpl. rewrite (mean_ext _ (fun _ => b * (b * 1))) by (intros; ring). rewrite mean_const. ring.
  - cbn [total].
    rewrite (mean_ext _ (fun x => (total n (fun i => weight i * z i x) + b) ^ 2
      + (2 * (weight n * (z n x * (total n (fun i => weight i * z i x) + b))) + weight n ^ 2 * z n x ^ 2))) by (intros; ring).
    rewrite !(mean_of_sum _ linear), !(mean_of_multiple _ linear), IH by (intros; auto).
    assert (cross : weight n * mean (fun x => z n x * (total n (fun i => weight i * z i x) + b)) = 0).
    { destruct (Req_dec (weight n) 0) as [->|ne]; [ring|].
      rewrite (mean_ext _ (fun x => total n (fun i => weight i * (z n x * z i x)) + b * z n x)).
      - rewrite (mean_of_sum _ linear), (mean_of_multiple _ linear), mean_total, (zero n) by auto.
        rewrite (total_ext n _ (fun _ => 0)), total_const; [ring|]. intros i hi. rewrite (mean_of_multiple _ linear).
        destruct (Req_dec (weight i) 0) as [->|nei]; [ring|]. rewrite product0 by (auto; lia). ring.
      - intros x. rewrite Rmult_plus_distr_l, <- total_scal. f_equal; [|ring]. apply total_ext. intros. ring. }
    rewrite cross. ring.
Qed.
End Means.

Theorem bound_is_attained : bound_is_attained_statement.
Proof.
  intros Draw n D mean share weight noise variance L D1 L0 linear ind formula clipped.
  (* the mean square, exactly *)
  assert (value : forall gradient, mean_square n D mean share weight gradient noise
    = total n (fun i => weight i ^ 2 * variance i) + norm D (fun k => total n (fun i => (weight i - share i) * gradient i k)) ^ 2).
  { intros gradient. unfold mean_square. set (b := fun k => total n (fun i => (weight i - share i) * gradient i k)).
    rewrite (mean_ext Draw mean _ (fun x => total D (fun k => (total n (fun i => weight i * noise i x k) + b k) ^ 2))).
    - rewrite (mean_total Draw mean linear D (fun k x => (total n (fun i => weight i * noise i x k) + b k) ^ 2)).
      rewrite (total_ext D _ (fun k => total n (fun i => weight i ^ 2 * mean (fun x => noise i x k ^ 2)) + b k ^ 2)).
      + rewrite total_plus. f_equal.
        * assert (swap : forall m, total D (fun k => total m (fun i => weight i ^ 2 * mean (fun x => noise i x k ^ 2)))
            = total m (fun i => weight i ^ 2 * total D (fun k => mean (fun x => noise i x k ^ 2)))).
          { induction m as [|m IH]; cbn [total]; [rewrite total_const; ring|]. rewrite total_plus, IH, total_scal. reflexivity. }
          rewrite swap. apply total_ext. intros i hi. destruct (Req_dec (weight i) 0) as [->|ne]; [ring|].
          destruct (ind i hi ne) as (_ & _ & v). rewrite <- v. unfold dot.
          rewrite (mean_total Draw mean linear D (fun k x => noise i x k * noise i x k)). f_equal. apply total_ext.
          intros k hk. apply mean_ext. intros. ring.
        * rewrite norm_square. unfold dot. apply total_ext. intros. ring.
      + intros k hk. apply (mean_of_square Draw mean linear n weight (fun i x => noise i x k) (b k)).
        * intros i hi ne. apply (ind i hi ne). auto.
        * intros i j hi hj nei nej ne. destruct (ind i hi nei) as (_ & p & _). apply p; auto.
    - intros x. unfold dot. apply total_ext. intros k hk.
      assert (e : error_vector n share weight gradient noise x k = total n (fun i => weight i * noise i x k) + b k).
      { unfold error_vector, b. rewrite <- total_minus, <- total_plus. apply total_ext. intros. ring. }
      rewrite e. ring. }
  split.
  - intros gradient clip. rewrite value. unfold formula. apply Rplus_le_compat_l.
    rewrite <- Rpow_mult_distr. apply pow_incr. split; [apply norm_pos|].
    eapply Rle_trans; [apply norm_of_sum|]. rewrite <- total_scal. apply total_le. intros i hi.
    rewrite Rmult_comm. apply Rmult_le_compat_r; [apply Rabs_pos|]. eapply Rle_trans; [apply norm_below_sizes|apply clip; auto].
  - set (sign := fun i => if Rle_dec 0 (weight i - share i) then 1 else -1).
    exists (fun i k => if Nat.eqb k 0 then L * sign i else 0).
    assert (first : forall f, total D (fun k => if Nat.eqb k 0 then f else 0) = f).
    { intros f. rewrite (total_with D 0 f (fun _ => 0)), total_zero by lia. ring. }
    split.
    + intros i hi. unfold sum_of_sizes. rewrite (total_ext D _ (fun k => if Nat.eqb k 0 then L else 0)); [rewrite first; lra|].
      intros k _. destruct (Nat.eqb k 0); [|apply Rabs_R0]. unfold sign. destruct (Rle_dec _ _); [rewrite Rabs_right|rewrite Rabs_left]; lra.
    + rewrite value. unfold formula. f_equal. rewrite norm_square. unfold dot.
      set (A := total n (fun i => Rabs (weight i - share i))).
      rewrite (total_ext D _ (fun k => if Nat.eqb k 0 then (L * A) * (L * A) else 0)); [rewrite first; ring|].
      intros k _. destruct (Nat.eqb k 0).
      * assert (e : total n (fun i => (weight i - share i) * (L * sign i)) = L * A).
        { unfold A. rewrite <- total_scal. apply total_ext. intros i _. unfold sign. destruct (Rle_dec _ _); [rewrite Rabs_right|rewrite Rabs_left]; lra. }
        rewrite e. reflexivity.
      * rewrite (total_ext n _ (fun _ => 0)), total_const; [ring|intros; ring].
Qed.

Theorem grows_beyond_all_bounds : grows_beyond_all_bounds_statement.
Proof.
  intros n share weight variance L i height hi ne pos.
  assert (p : 0 < weight i ^ 2) by (apply Rlt_0_sqr in ne; unfold Rsqr in ne; simpl; lra).
  exists (Rmax 0 (height / weight i ^ 2)). intros larger le raised.
  pose proof (Rmax_l 0 (height / weight i ^ 2)). pose proof (Rmax_r 0 (height / weight i ^ 2)).
  assert (weight i ^ 2 * raised i <= total n (fun k => weight k ^ 2 * raised k)).
  { apply (total_term n (fun k => weight k ^ 2 * raised k)); auto. intros k hk. apply Rmult_le_pos; [apply pow2_ge_0|].
    unfold raised. destruct (Nat.eqb k i); [lra|auto]. }
  unfold raised at 1 in H1. rewrite Nat.eqb_refl in H1.
  assert (height <= weight i ^ 2 * larger).
  { replace height with (weight i ^ 2 * (height / weight i ^ 2)) by (field; auto). apply Rmult_le_compat_l; lra. }
  assert (0 <= L ^ 2 * total n (fun k => Rabs (weight k - share k)) ^ 2) by (apply Rmult_le_pos; apply pow2_ge_0). lra.
Qed.

(* One owner and one coordinate: the noise is 1 or - 1 with probability 1/2 each *)
Example a_fair_sign :
  linear_mean (fun f : bool -> R => (f true + f false) / 2) /\
  independent_noise 1%nat 1%nat (fun f : bool -> R => (f true + f false) / 2) (fun _ => 1) (fun _ x _ => if x then 1 else -1) (fun _ => 1).
Proof.
  split; [split; intros; field|]. intros i hi _. split; [|split].
  - intros; field.
  - intros j k hj _ ne _. lia.
  - unfold dot. simpl. field.
Qed.

Print Assumptions bound_is_attained. Print Assumptions grows_beyond_all_bounds.
