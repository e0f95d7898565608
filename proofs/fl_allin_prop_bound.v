(** fl-allin-prop-bound: a lower bound for the error of any auction in which nobody loses.  Bears on no claim of the
    paper's; the book measures auctions against it, page federated/allin.
    Beside the prose: the minimum for each owner is stated as any number that is not above the bracket at any h and s, so
    also for the minimum; at s = 0 only h = 0 is meant, where the first term is 0; an owner with the loss 0 has the weight
    0, as the error bound is infinite otherwise. *)
Require Import Reals Lra Lia.
Require Import totals.
Open Scope R_scope.

(* What has to be read *)

(* 8 h^2 / s, and 0 at h = 0 and s = 0 *)
Definition noise_term (h s : R) : R := if Req_EM_T s 0 then 0 else 8 * h ^ 2 / s.

(* h and s that belong to a weight and the square of a loss up to limit *)
Definition fits (limit h s : R) : Prop := 0 <= h /\ 0 <= s <= limit ^ 2 /\ (s = 0 -> h = 0).

(* The bracket, for an owner with the share W and the constant k *)
Definition bracket (mu t nu B W k h s : R) : R := noise_term h s + mu * k * s / B + 2 * t * Rabs (h - W) - nu * h.

(* The error bound, for gradients clipped at 1 *)
Definition error_bound (n : nat) (share loss weight : nat -> R) : R :=
  total n (fun i => noise_term (weight i) (loss i ^ 2)) + total n (fun i => Rabs (weight i - share i)) ^ 2.

(* Losses within the limits whose costs sum to at most B, where a loss x costs owner i at least k i x^2 *)
Definition affordable_losses (n : nat) (limit k loss : nat -> R) (cost : nat -> R -> R) (B : R) : Prop :=
  (forall i, (i < n)%nat -> 0 <= loss i <= limit i) /\
  (forall i x, (i < n)%nat -> 0 <= x <= limit i -> k i * x ^ 2 <= cost i x) /\
  total n (fun i => cost i (loss i)) <= B.

(* For all mu, t >= 0 and nu the error bound is at least nu - t^2 - mu plus the sum of the minima *)
Definition lower_bound_statement : Prop :=
  forall n share limit k loss cost B weight mu t nu lowest,
  0 < B -> (forall i, (i < n)%nat -> 0 <= share i) -> affordable_losses n limit k loss cost B ->
  total n weight = 1 -> (forall i, (i < n)%nat -> loss i = 0 -> weight i = 0) -> 0 <= mu -> 0 <= t ->
  (forall i h s, (i < n)%nat -> fits (limit i) h s -> lowest i <= bracket mu t nu B (share i) (k i) h s) ->
  nu - t ^ 2 - mu + total n lowest <= error_bound n share loss weight.

(* The proofs, which need not be read *)

(* Weights that are not negative *)
Lemma bound_for_weights n share limit k loss cost B weight mu t nu lowest :
  0 < B -> affordable_losses n limit k loss cost B -> total n weight = 1 ->
  (forall i, (i < n)%nat -> 0 <= weight i) -> (forall i, (i < n)%nat -> loss i = 0 -> weight i = 0) -> 0 <= mu -> 0 <= t ->
  (forall i h s, (i < n)%nat -> fits (limit i) h s -> lowest i <= bracket mu t nu B (share i) (k i) h s) ->
  nu - t ^ 2 - mu + total n lowest <= error_bound n share loss weight.
Proof.
  intros B0 (box & dear & pay) one pos zero mu0 t0 low.
  set (y := total n (fun i => Rabs (weight i - share i))).
  assert (all : total n lowest <= total n (fun i => noise_term (weight i) (loss i ^ 2)) + mu / B * total n (fun i => k i * loss i ^ 2) + 2 * t * y - nu).
  { apply Rle_trans with (total n (fun i => bracket mu t nu B (share i) (k i) (weight i) (loss i ^ 2))).
    - apply total_le. intros i hi. apply low; auto. destruct (box i hi). split; [apply pos; auto|]. split.
      + split; [apply pow2_ge_0|apply pow_incr; lra].
      + intros z. apply zero; auto. destruct (Req_dec (loss i) 0) as [|ne]; auto. pose proof (pow_nonzero _ 2 ne). lra.
    - unfold bracket. right. rewrite !total_minus, !total_plus. unfold y.
      rewrite (total_ext n (fun i => mu * k i * loss i ^ 2 / B) (fun i => mu / B * (k i * loss i ^ 2))) by (intros; field; lra).
      rewrite !total_scal, one. ring. }
  assert (paid : mu / B * total n (fun i => k i * loss i ^ 2) <= mu).
  { apply Rle_trans with (mu / B * B); [|right; field; lra]. apply Rmult_le_compat_l; [apply Rmult_le_pos; [auto|left; apply Rinv_0_lt_compat; auto]|].
    eapply Rle_trans; [|exact pay]. apply total_le. intros i hi. apply dear; auto. }
  unfold error_bound. fold y. pose proof (pow2_ge_0 (y - t)). lra.
Qed.

Theorem lower_bound : lower_bound_statement.
Proof.
  intros n share limit k loss cost B weight mu t nu lowest B0 shares aff one zero mu0 t0 low.
  (* 0 for negative weights, and the others scaled down *)
  set (plus := fun i => Rmax 0 (weight i)). set (P := total n plus).
  assert (P1 : 1 <= P) by (rewrite <- one; apply total_le; intros; apply Rmax_r).
  set (w := fun i => plus i / P).
  assert (pl : forall i, 0 <= plus i) by (intros; apply Rmax_l).
  assert (wp : forall i, 0 <= w i <= plus i).
  { intros i. unfold w. split; [apply Rmult_le_pos; [auto|left; apply Rinv_0_lt_compat; lra]|].
    apply Rmult_le_reg_r with P; [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. pose proof (pl i). nra. }
  apply Rle_trans with (error_bound n share loss w).
  - apply (bound_for_weights n share limit k loss cost B w mu t nu lowest); auto.
    + unfold w. rewrite total_div. fold P. field. lra.
    + intros i _. apply wp.
    + intros i hi z. unfold w, plus. rewrite (zero i hi z), Rmax_left by lra. unfold Rdiv. ring.
  - assert (square : forall i, w i ^ 2 <= weight i ^ 2).
    { intros i. pose proof (wp i). apply Rle_trans with (plus i ^ 2); [apply pow_incr; auto|].
      unfold plus. destruct (Rle_dec 0 (weight i)); [rewrite Rmax_right by auto; lra|rewrite Rmax_left by lra; pose proof (pow2_ge_0 (weight i)); lra]. }
    unfold error_bound. apply Rplus_le_compat.
    + apply total_le. intros i hi. unfold noise_term. destruct (Req_EM_T (loss i ^ 2) 0); [lra|].
      assert (0 < loss i ^ 2) by (pose proof (pow2_ge_0 (loss i)); lra). pose proof (square i).
      apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; auto|lra].
    + apply pow_incr. split; [apply total_nonneg; intros; apply Rabs_pos|].
      (* scaling down costs P - 1, which the negative weights had cost *)
      assert (a : total n (fun i => Rabs (w i - share i)) <= total n (fun i => Rabs (plus i - share i)) + (P - 1)).
      { replace (P - 1) with (total n (fun i => plus i - w i)).
        - rewrite <- total_plus. apply total_le. intros i _. pose proof (wp i).
          replace (w i - share i) with ((plus i - share i) + (w i - plus i)) by ring. eapply Rle_trans; [apply Rabs_triang|].
          rewrite (Rabs_left1 (w i - plus i)) by lra. lra.
        - rewrite total_minus. unfold w. rewrite total_div. fold P. field. lra. }
      assert (b : total n (fun i => Rabs (plus i - share i)) + (P - 1) <= total n (fun i => Rabs (weight i - share i))).
      { replace (P - 1) with (total n (fun i => plus i - weight i)) by (rewrite total_minus, one; reflexivity).
        rewrite <- total_plus. apply total_le. intros i hi. pose proof (shares i hi). unfold plus.
        destruct (Rle_dec 0 (weight i)); [rewrite Rmax_right by auto; lra|].
        rewrite Rmax_left by lra. rewrite (Rabs_left1 (0 - share i)), (Rabs_left1 (weight i - share i)) by lra. lra. }
      lra.
Qed.

(* One owner who sells the loss 1 at the cost 1 *)
Example one_owner : affordable_losses 1 (fun _ => 1) (fun _ => 1) (fun _ => 1) (fun _ x => x ^ 2) 1.
Proof. split; [intros; lra|]. split; [intros; lra|simpl; lra]. Qed.

Print Assumptions lower_bound.
