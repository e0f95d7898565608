(** ct-idea-thm-biased (Khalili's Theorems 2 and 3, Eq. (4)): the two answers.  Bears on the claims khalili-thm2,
    khalili-thm3 and khalili-eq4-bias-bound, page contracts/answer.
    Beside the prose: probabilities are integrals of the density, for any integral as in noise_laws.v; means are means of
    square functions, as in ct_idea_thm_groups.v, and of the noise only its mean 0 and its variance 2 b^2 are used, which
    Laplace noise of scale b has.  That the loss is attained is stated of the densities: their ratio is e^(a_i / b) at all
    outcomes from some number on, which have a positive probability, so no smaller loss will do. *)
Require Import Reals Lra Lia.
Require Import totals noise_laws ct_idea_thm_groups.
Open Scope R_scope.

(* What has to be read *)

(* The data of n sellers, between 0 and 1; two databases that differ in seller i only *)
Definition data_of (n : nat) (d : nat -> R) : Prop := forall i, (i < n)%nat -> 0 <= d i <= 1.
Definition neighbours (n i : nat) (d d' : nat -> R) : Prop :=
  data_of n d /\ data_of n d' /\ forall j, (j < n)%nat -> j <> i -> d j = d' j.

(* The answer before noise, and its density with Laplace noise of scale b *)
Definition center (n : nat) (share d : nat -> R) : R := total n (fun i => share i * d i + (1 - share i) / 2).
Definition answer (n : nat) (share : nat -> R) (b : R) (d : nat -> R) : R -> R := laplace b (center n share d).

(* The mean of f (answer), where mean is over the noise; the sum that is asked for *)
Definition mean_of_answer (mean : (R -> R) -> R) n share d (f : R -> R) : R := mean (fun z => f (center n share d + z)).
Definition noise_of_scale (mean : (R -> R) -> R) (b : R) : Prop :=
  law mean /\ mean (fun z => z) = 0 /\ mean (fun z => z ^ 2) = 2 * b ^ 2.

(* What the shares leave out, halved *)
Definition missing (n : nat) (share : nat -> R) : R := total n (fun i => (1 - share i) / 2).

(* Seller i loses share i / b, and no less: two databases attain it at all outcomes from some number on.  Bias and error
   are bounded, and both bounds are attained on one database. *)
Definition biased_answer_statement : Prop :=
  forall n share b, (forall i, (i < n)%nat -> 0 <= share i <= 1) -> 0 < b ->
  (forall finite I i, integral finite I -> (forall d, finite (answer n share b d)) -> (i < n)%nat ->
     private_mechanism I (answer n share b) (neighbours n i) (share i / b)) /\
  (forall i, (i < n)%nat -> exists d d' from, neighbours n i d d' /\
     forall x, from <= x -> answer n share b d x = exp (share i / b) * answer n share b d' x) /\
  forall mean, noise_of_scale mean b ->
  (forall d, data_of n d ->
     Rabs (mean_of_answer mean n share d (fun x => x) - total n d) <= missing n share /\
     mean_of_answer mean n share d (fun x => (x - total n d) ^ 2) <= missing n share ^ 2 + 2 * b ^ 2) /\
  exists d, data_of n d /\
     Rabs (mean_of_answer mean n share d (fun x => x) - total n d) = missing n share /\
     mean_of_answer mean n share d (fun x => (x - total n d) ^ 2) = missing n share ^ 2 + 2 * b ^ 2.

(* The unbiased answer has the shares 1: it is 1 / b private for everybody, and accurate for 2 b^2 *)
Definition unbiased_answer_statement : Prop :=
  forall n b, 0 < b ->
  (forall finite I i, integral finite I -> (forall d, finite (answer n (fun _ => 1) b d)) -> (i < n)%nat ->
     private_mechanism I (answer n (fun _ => 1) b) (neighbours n i) (1 / b)) /\
  forall mean d, noise_of_scale mean b -> data_of n d ->
    mean_of_answer mean n (fun _ => 1) d (fun x => (x - total n d) ^ 2) <= 2 * b ^ 2.

(* The proofs, which need not be read *)

(* The mean and the mean square of a number plus noise *)
Lemma mean_shift mean b c : noise_of_scale mean b ->
  mean (fun z => c + z) = c /\ mean (fun z => (c + z) ^ 2) = c ^ 2 + 2 * b ^ 2.
Proof.
  intros (l & m1 & m2). split.
  - rewrite (mean_extensional _ l _ (fun z => c + 1 * z + 0 * z ^ 2)), expect by (auto; intros; ring). rewrite m1. ring.
  - rewrite (mean_extensional _ l _ (fun z => c ^ 2 + (2 * c) * z + 1 * z ^ 2)), expect by (auto; intros; ring). rewrite m1, m2. ring.
Qed.

Lemma center_change n share i d d' : (i < n)%nat -> neighbours n i d d' -> center n share d - center n share d' = share i * (d i - d' i).
Proof.
  intros hi (_ & _ & same). unfold center.
  rewrite (total_one n i (fun i => share i * d i + (1 - share i) / 2) (fun i => share i * d' i + (1 - share i) / 2)); [ring|auto|].
  intros j hj ne. rewrite same by auto. reflexivity.
Qed.

Lemma bias n share d : center n share d - total n d = total n (fun i => (1 - share i) * (1 / 2 - d i)).
Proof. unfold center. rewrite <- total_minus. apply total_ext. intros. field. Qed.

Lemma bias_bound n share d : (forall i, (i < n)%nat -> 0 <= share i <= 1) -> data_of n d ->
  Rabs (center n share d - total n d) <= missing n share.
Proof.
  intros hs hd. rewrite bias. unfold missing. apply Rabs_le. split.
  - replace (- total n (fun i => (1 - share i) / 2)) with (total n (fun i => -1 * ((1 - share i) / 2))) by (rewrite total_scal; ring).
    apply total_le. intros i hi. pose proof (hs i hi). pose proof (hd i hi). nra.
  - apply total_le. intros i hi. pose proof (hs i hi). pose proof (hd i hi). nra.
Qed.

Theorem biased_answer : biased_answer_statement.
Proof.
  intros n share b hs b0. split; [|split].
  - intros finite I i int fin hi. apply (private_by_density finite); auto; [intros; left; apply laplace_positive; auto|].
    intros d d' x nb. eapply Rle_trans; [apply (laplace_ratio b (center n share d) (center n share d') x b0)|].
    apply Rmult_le_compat_r; [left; apply laplace_positive; auto|]. apply exp_le.
    apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; auto|]. rewrite (center_change n share i d d' hi nb).
    destruct nb as (ok & ok' & _). pose proof (ok i hi). pose proof (ok' i hi). pose proof (hs i hi).
    rewrite Rabs_mult, (Rabs_right (share i)) by lra. assert (Rabs (d i - d' i) <= 1) by (apply Rabs_le; lra). nra.
  - intros i hi. set (d := fun j => if Nat.eqb j i then 1 else 0). exists d, (fun _ => 0), (center n share d).
    assert (nb : neighbours n i d (fun _ => 0)).
    { split; [|split].
      - intros j _. unfold d. destruct (Nat.eqb j i); lra.
      - intros j _. lra.
      - intros j _ ne. unfold d. rewrite (proj2 (Nat.eqb_neq j i) ne). reflexivity. }
    split; auto. intros x hx. pose proof (center_change n share i d _ hi nb) as ch. unfold d in ch at 2. rewrite Nat.eqb_refl in ch.
    pose proof (hs i hi). replace (share i / b) with (Rabs (center n share d - center n share (fun _ => 0)) / b)
      by (rewrite ch; rewrite Rabs_right by lra; f_equal; ring).
    apply laplace_attained; auto. lra.
  - intros mean noise. split.
    + intros d hd. pose proof (bias_bound n share d hs hd) as bb. unfold mean_of_answer.
      destruct (mean_shift mean b (center n share d) noise) as [-> _]. split; auto.
      rewrite (mean_extensional _ (proj1 noise) _ (fun z => ((center n share d - total n d) + z) ^ 2)) by (intros; ring).
      destruct (mean_shift mean b (center n share d - total n d) noise) as [_ ->].
      apply Rplus_le_compat_r. rewrite <- (pow2_abs (center n share d - total n d)). apply pow_incr. split; [apply Rabs_pos|auto].
    + exists (fun _ => 0). assert (z : center n share (fun _ => 0) - total n (fun _ => 0) = missing n share).
      { rewrite bias. apply total_ext. intros. field. }
      split; [intros i _; lra|]. unfold mean_of_answer. destruct (mean_shift mean b (center n share (fun _ => 0)) noise) as [-> _].
      rewrite z. split; [apply Rabs_right; apply Rle_ge; apply total_nonneg; intros i hi; pose proof (hs i hi); lra|].
      rewrite (mean_extensional _ (proj1 noise) _ (fun z => ((center n share (fun _ => 0) - total n (fun _ => 0)) + z) ^ 2)) by (intros; ring).
      destruct (mean_shift mean b (center n share (fun _ => 0) - total n (fun _ => 0)) noise) as [_ ->]. rewrite z. reflexivity.
Qed.

Theorem unbiased_answer : unbiased_answer_statement.
Proof.
  intros n b b0. destruct (biased_answer n (fun _ => 1) b ltac:(intros; lra) b0) as (priv & _ & acc). split; [intros; apply (priv finite); auto|].
  intros mean d noise hd. destruct (acc mean noise) as [up _]. destruct (up d hd) as [_ h].
  assert (missing n (fun _ => 1) = 0) by (unfold missing; rewrite (total_ext n _ (fun _ => 0)), total_const; [lra|intros; field]).
  rewrite H in h. lra.
Qed.

(* There are integrals, and means with these moments: noise that is b sqrt 2 or - b sqrt 2 with probability 1/2 each *)
Example an_integral : integral (fun _ => True) (fun f : R -> R => f 0 + f 1).
Proof. split; intros; auto; [pose proof (H 0); pose proof (H 1); lra|ring]. Qed.
Example two_values : noise_of_scale (fun f => (f (sqrt 2) + f (- sqrt 2)) / 2) 1.
Proof.
  pose proof (sqrt_sqrt 2 ltac:(lra)). split; [split|split]; intros; try (unfold Rdiv; ring); try lra.
  - pose proof (H1 (sqrt 2)). pose proof (H1 (- sqrt 2)). lra.
  - rewrite !H0. reflexivity.
Qed.

Print Assumptions biased_answer. Print Assumptions unbiased_answer.
