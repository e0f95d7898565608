(** ct-idea-prop-weights: weighted queries.  Bears on the claim khalili-def3-query (its correction), page
    contracts/answer.
    Beside the prose: as in ct_idea_thm_biased.v for probabilities and for the noise. *)
Require Import Reals Lra Lia.
Require Import totals noise_laws ct_idea_thm_groups ct_idea_thm_biased.
Open Scope R_scope.

(* What has to be read *)

(* The query with the weights q, the answer before noise, and its density *)
Definition weighted_query (n : nat) (q d : nat -> R) : R := total n (fun i => q i * d i).
Definition weighted_center (n : nat) (q share d : nat -> R) : R := total n (fun i => q i * (share i * d i + (1 - share i) / 2)).
Definition weighted_answer (n : nat) (q share : nat -> R) (b : R) (d : nat -> R) : R -> R := laplace b (weighted_center n q share d).

(* Accurate for K: the mean squared error is at most K on every database *)
Definition accurate_for (mean : (R -> R) -> R) n q share (K : R) : Prop :=
  forall d, data_of n d -> mean (fun z => (weighted_center n q share d + z - weighted_query n q d) ^ 2) <= K.

(* It is share |q| / b private for seller i, and accurate for K if and only if the formula is at most K *)
Definition weighted_queries_statement : Prop :=
  forall n q share b, (forall i, (i < n)%nat -> 0 <= share i <= 1) -> 0 < b ->
  (forall finite I i, integral finite I -> (forall d, finite (weighted_answer n q share b d)) -> (i < n)%nat ->
     private_mechanism I (weighted_answer n q share b) (neighbours n i) (share i * Rabs (q i) / b)) /\
  forall mean K, noise_of_scale mean b ->
    (accurate_for mean n q share K <-> total n (fun i => Rabs (q i) * (1 - share i) / 2) ^ 2 + 2 * b ^ 2 <= K).

(* The proofs, which need not be read *)

Theorem weighted_queries : weighted_queries_statement.
Proof.
  intros n q share b hs b0. split.
  - intros finite I i int fin hi. apply (private_by_density finite); auto; [intros; left; apply laplace_positive; auto|].
    intros d d' x nb. eapply Rle_trans; [apply (laplace_ratio b _ (weighted_center n q share d') x b0)|].
    apply Rmult_le_compat_r; [left; apply laplace_positive; auto|]. apply exp_le.
    apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; auto|]. unfold weighted_center.
    destruct nb as (ok & ok' & same).
    rewrite (total_one n i (fun i => q i * (share i * d i + (1 - share i) / 2)) (fun i => q i * (share i * d' i + (1 - share i) / 2)) hi)
      by (intros j hj ne; rewrite same by auto; reflexivity).
    pose proof (ok i hi). pose proof (ok' i hi). pose proof (hs i hi).
    replace (q i * (share i * d i + (1 - share i) / 2) - q i * (share i * d' i + (1 - share i) / 2)) with (share i * (q i * (d i - d' i))) by ring.
    rewrite Rabs_mult, (Rabs_right (share i)), Rabs_mult by lra. apply Rmult_le_compat_l; [lra|].
    assert (Rabs (d i - d' i) <= 1) by (apply Rabs_le; lra). pose proof (Rabs_pos (q i)). nra.
  - intros mean K noise.
    assert (value : forall d, mean (fun z => (weighted_center n q share d + z - weighted_query n q d) ^ 2)
      = total n (fun i => q i * ((1 - share i) * (1 / 2 - d i))) ^ 2 + 2 * b ^ 2).
    { intros d. set (bias := weighted_center n q share d - weighted_query n q d).
      rewrite (mean_extensional _ (proj1 noise) _ (fun z => (bias + z) ^ 2)) by (intros; unfold bias; ring).
      destruct (mean_shift mean b bias noise) as [_ ->]. f_equal. f_equal. unfold bias, weighted_center, weighted_query.
      rewrite <- total_minus. apply total_ext. intros. field. }
    split.
    + (* the data 0 where the weight is not negative, and 1 elsewhere *)
      intros acc. set (d := fun i => if Rle_dec 0 (q i) then 0 else 1).
      assert (hd : data_of n d) by (intros i _; unfold d; destruct (Rle_dec 0 (q i)); lra).
      specialize (acc d hd). rewrite value in acc.
      rewrite (total_ext n _ (fun i => q i * ((1 - share i) * (1 / 2 - d i)))); auto.
      intros i _. unfold d. destruct (Rle_dec 0 (q i)); [rewrite Rabs_right by lra|rewrite Rabs_left by lra]; field.
    + intros le d hd. rewrite value. eapply Rle_trans; [|exact le]. apply Rplus_le_compat_r.
      rewrite <- (pow2_abs (total n (fun i => q i * ((1 - share i) * (1 / 2 - d i))))). apply pow_incr. split; [apply Rabs_pos|].
      apply Rabs_le.
      assert (each : forall i, (i < n)%nat -> Rabs (q i * ((1 - share i) * (1 / 2 - d i))) <= Rabs (q i) * (1 - share i) / 2).
      { intros i hi. pose proof (hs i hi). pose proof (hd i hi). rewrite !Rabs_mult, (Rabs_right (1 - share i)) by lra.
        assert (Rabs (1 / 2 - d i) <= 1 / 2) by (apply Rabs_le; lra). pose proof (Rabs_pos (q i)).
        replace (Rabs (q i) * (1 - share i) / 2) with (Rabs (q i) * ((1 - share i) * (1 / 2))) by field.
        apply Rmult_le_compat_l; auto. apply Rmult_le_compat_l; lra. }
      split.
      * replace (- total n (fun i => Rabs (q i) * (1 - share i) / 2)) with (total n (fun i => -1 * (Rabs (q i) * (1 - share i) / 2))) by (rewrite total_scal; ring).
        apply total_le. intros i hi. pose proof (each i hi) as a. apply Rabs_le_between in a || (pose proof (Rle_abs (- (q i * ((1 - share i) * (1 / 2 - d i))))) as bb; rewrite Rabs_Ropp in bb). lra.
      * apply total_le. intros i hi. pose proof (each i hi). pose proof (Rle_abs (q i * ((1 - share i) * (1 / 2 - d i)))). lra.
Qed.

(* Noise with two values meets the hypothesis: two_values in ct_idea_thm_biased.v *)
Example some_noise : noise_of_scale (fun f => (f (sqrt 2) + f (- sqrt 2)) / 2) 1.
Proof. exact two_values. Qed.

Print Assumptions weighted_queries.
