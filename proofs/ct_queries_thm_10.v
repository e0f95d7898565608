(** ct-queries-thm-10 (Khalili's Theorem 10): privacy and accuracy of a query of several terms.  Bears on the claim
    khalili-thm10, page contracts/queries.
    Beside the prose: as in ct_idea_thm_biased.v for probabilities and for the noise; change k is any number that term k
    changes by at most between neighbours, so also the largest. *)
Require Import Reals Lra Lia.
Require Import totals noise_laws ct_idea_thm_groups ct_idea_thm_biased.
Open Scope R_scope.

(* What has to be read *)

(* The terms f k of the query, for databases of any kind *)
Definition terms_allowed {Data : Type} (terms : nat) (f : nat -> Data -> R) : Prop :=
  forall k d, (k < terms)%nat -> 0 <= f k d <= 1.

(* Between neighbours in seller j term k changes by at most change k *)
Definition changes_at_most {Data : Type} (terms : nat) (f : nat -> Data -> R) (neighbours_in_j : Data -> Data -> Prop) (change : nat -> R) : Prop :=
  forall k d d', (k < terms)%nat -> neighbours_in_j d d' -> Rabs (f k d - f k d') <= change k.

(* The query, the answer before noise, and its density *)
Definition query {Data : Type} (terms : nat) (f : nat -> Data -> R) (d : Data) : R := total terms (fun k => f k d).
Definition before_noise {Data : Type} (terms : nat) (f : nat -> Data -> R) (share : nat -> R) (d : Data) : R :=
  total terms (fun k => share k * f k d + (1 - share k) / 2).
Definition answer_density {Data : Type} terms (f : nat -> Data -> R) share b (d : Data) : R -> R := laplace b (before_noise terms f share d).

(* Seller j loses at most the sum of share times change, over b; the error is at most the sum's half squared plus 2 b^2 *)
Definition terms_statement : Prop :=
  forall (Data : Type) terms (f : nat -> Data -> R) share b, terms_allowed terms f ->
  (forall k, (k < terms)%nat -> 0 <= share k <= 1) -> 0 < b ->
  (forall finite I neighbours_in_j change, integral finite I -> (forall d, finite (answer_density terms f share b d)) ->
     changes_at_most terms f neighbours_in_j change ->
     private_mechanism I (answer_density terms f share b) neighbours_in_j (total terms (fun k => share k * change k) / b)) /\
  forall mean d, noise_of_scale mean b ->
     mean (fun z => (before_noise terms f share d + z - query terms f d) ^ 2)
       <= total terms (fun k => (1 - share k) / 2) ^ 2 + 2 * b ^ 2.

(* The proofs, which need not be read *)

Lemma total_abs n f : Rabs (total n f) <= total n (fun i => Rabs (f i)).
Proof. induction n as [|n IH]; simpl; [rewrite Rabs_R0; lra|]. eapply Rle_trans; [apply Rabs_triang|lra]. Qed.

Theorem terms_of_a_query : terms_statement.
Proof.
  intros Data terms f share b ok hs b0. split.
  - intros finite I nb change int fin ch. apply (private_by_density finite); auto; [intros; left; apply laplace_positive; auto|].
    intros d d' x h. eapply Rle_trans; [apply (laplace_ratio b _ (before_noise terms f share d') x b0)|].
    apply Rmult_le_compat_r; [left; apply laplace_positive; auto|]. apply exp_le.
    apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; auto|].
    unfold before_noise. rewrite <- total_minus. eapply Rle_trans; [apply total_abs|]. apply total_le. intros k hk.
    replace (share k * f k d + (1 - share k) / 2 - (share k * f k d' + (1 - share k) / 2)) with (share k * (f k d - f k d')) by ring.
    pose proof (hs k hk). rewrite Rabs_mult, (Rabs_right (share k)) by lra. apply Rmult_le_compat_l; [lra|apply ch; auto].
  - intros mean d noise. set (bias := before_noise terms f share d - query terms f d).
    rewrite (mean_extensional _ (proj1 noise) _ (fun z => (bias + z) ^ 2)) by (intros; unfold bias; ring).
    destruct (mean_shift mean b bias noise) as [_ ->]. apply Rplus_le_compat_r. rewrite <- (pow2_abs bias). apply pow_incr.
    split; [apply Rabs_pos|]. unfold bias, before_noise, query. rewrite <- total_minus. eapply Rle_trans; [apply total_abs|].
    apply total_le. intros k hk. pose proof (hs k hk). pose proof (ok k d hk).
    replace (share k * f k d + (1 - share k) / 2 - f k d) with ((1 - share k) * (1 / 2 - f k d)) by field.
    rewrite Rabs_mult, (Rabs_right (1 - share k)) by lra. assert (Rabs (1 / 2 - f k d) <= 1 / 2) by (apply Rabs_le; lra). nra.
Qed.

(* One term, a number between 0 and 1 *)
Example one_term : terms_allowed 1 (fun (_ : nat) (d : bool) => if d then 1 else 0) /\
  changes_at_most 1 (fun (_ : nat) (d : bool) => if d then 1 else 0) (fun _ _ => True) (fun _ => 1).
Proof. split; [intros k [|] _; lra|intros k [|] [|] _ _; rewrite ?Rminus_eq_0, ?Rabs_R0; try lra; [rewrite Rabs_right|rewrite Rabs_left]; lra]. Qed.

Print Assumptions terms_of_a_query.
