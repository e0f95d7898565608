(** idea-thm-privacy (the ridge paper's Lemma C.5 and Theorem 2.1): personal privacy of PDP-OP.  Bears on the claims
    pdp-lemmaC5 and pdp-thm21, page ridge/guarantee.
    Beside the prose: probabilities are integrals of the density, for any integral as in noise_laws.v; that the noise of
    rate eta has a density proportional to exp (- eta times length) is its definition on the page.  Data sets, estimates,
    the length norm and the two constants are those of idea_thm_sensitivity.v and the files that it names.  There is at least
    one feature. *)
Require Import Reals Lra Lia.
Require Import totals vectors ridge_estimate idea_thm_sensitivity noise_laws.
Open Scope R_scope.

(* What has to be read *)

(* A data set: the features and the labels *)
Definition data_set := ((nat -> nat -> R) * (nat -> R))%type.

(* Two data sets of n records inside the bounds that agree in every record but record i *)
Definition i_neighbours (d n i : nat) (data other : data_set) : Prop :=
  inside_bounds d n (fst data) (snd data) /\ inside_bounds d n (fst other) (snd other) /\
  forall k, (k < n)%nat -> k <> i ->
    snd other k = snd data k /\ forall j, (j < d)%nat -> fst other k j = fst data k j.

(* The estimate of each data set inside the bounds *)
Definition estimates (d n : nat) (weight : nat -> R) (penalty : R) (theta : data_set -> nat -> R) : Prop :=
  forall data, inside_bounds d n (fst data) (snd data) ->
  is_estimate d n (fst data) (snd data) weight penalty (theta data).

(* The density of what PDP-OP releases: the estimate plus noise of the rate eta *)
Definition release (d : nat) (factor eta : R) (theta : data_set -> nat -> R) (data : data_set) (x : nat -> R) : R :=
  factor * exp (- (eta * norm d (fun j => x j - theta data j))).

(* With the rate eta the loss of person i is at most eta c w_i, for both constants c *)
Definition privacy_statement : Prop :=
  forall d n weight penalty theta factor eta finite I i,
  weights n weight -> 0 < penalty -> estimates d n weight penalty theta -> 0 < factor -> 0 < eta -> (i < n)%nat ->
  integral finite I -> (forall data, finite (release d factor eta theta data)) ->
  private_mechanism I (release d factor eta theta) (i_neighbours d n i) (eta * printed_constant d penalty * weight i) /\
  private_mechanism I (release d factor eta theta) (i_neighbours d n i) (eta * sharper_constant d penalty * weight i).

(* With the weights epsilon / S and the rate S / c that is epsilon_i *)
Definition personal_privacy_statement : Prop :=
  forall d n epsilon penalty theta factor finite I i c,
  (forall k, (k < n)%nat -> 0 <= epsilon k) -> 0 < total n epsilon -> 0 < penalty -> (1 <= d)%nat ->
  c = printed_constant d penalty \/ c = sharper_constant d penalty ->
  let S := total n epsilon in
  let weight k := epsilon k / S in
  estimates d n weight penalty theta -> 0 < factor -> (i < n)%nat ->
  integral finite I -> (forall data, finite (release d factor (S / c) theta data)) ->
  private_mechanism I (release d factor (S / c) theta) (i_neighbours d n i) (epsilon i).

(* The proofs, which need not be read *)

Lemma distance_triangle d u v w : norm d (fun j => u j - w j) <= norm d (fun j => u j - v j) + norm d (fun j => v j - w j).
Proof.
  replace (norm d (fun j => u j - w j)) with (norm d (fun j => (u j - v j) + (v j - w j)))
    by (apply norm_ext; intros; ring).
  apply (norm_triangle d (fun j => u j - v j)).
Qed.

Lemma release_positive d factor eta theta data x : 0 < factor -> 0 < release d factor eta theta data x.
Proof. intros h. apply Rmult_lt_0_compat; [auto|apply exp_pos]. Qed.

Lemma release_ratio d factor eta theta data other loss x : 0 < factor -> 0 < eta ->
  eta * norm d (fun j => theta data j - theta other j) <= loss ->
  release d factor eta theta data x <= exp loss * release d factor eta theta other x.
Proof.
  intros f0 e0 le. unfold release.
  replace (exp loss * (factor * exp (- (eta * norm d (fun j => x j - theta other j)))))
    with (factor * exp (loss + - (eta * norm d (fun j => x j - theta other j)))) by (rewrite exp_plus; ring).
  apply Rmult_le_compat_l; [lra|]. apply exp_le. pose proof (distance_triangle d x (theta data) (theta other)).
  assert (eta * norm d (fun j => x j - theta other j) <= eta * (norm d (fun j => x j - theta data j) + norm d (fun j => theta data j - theta other j)))
    by (apply Rmult_le_compat_l; lra). lra.
Qed.

Theorem privacy : privacy_statement.
Proof.
  intros d n weight penalty theta factor eta finite I i hw pen est f0 e0 hi int fin.
  assert (moves : forall data other, i_neighbours d n i data other ->
    norm d (fun j => theta data j - theta other j) <= printed_constant d penalty * weight i /\
    norm d (fun j => theta data j - theta other j) <= sharper_constant d penalty * weight i).
  { intros data other (ok & ok' & same).
    apply (idea_thm_sensitivity d n (fst data) (fst other) (snd data) (snd other) weight penalty (theta data) (theta other) i); auto. }
  split; apply (private_by_density finite); auto; try (intros; left; apply release_positive; auto);
    intros data other x nb; apply release_ratio; auto; rewrite Rmult_assoc; apply Rmult_le_compat_l; try lra; apply (moves data other nb).
Qed.

Lemma constants_positive d penalty : (1 <= d)%nat -> 0 < penalty -> 0 < printed_constant d penalty /\ 0 < sharper_constant d penalty.
Proof.
  intros d1 pen. assert (D0 : 0 < INR d) by (apply lt_0_INR; lia). pose proof (sqrt_lt_R0 (INR d) D0) as s0. pose proof (sqrt_lt_R0 penalty pen) as p0.
  assert (front : 0 < 2 * sqrt (INR d) / penalty) by (apply Rdiv_lt_0_compat; lra).
  assert (b0 : 0 < printed_norm_bound d penalty).
  { apply Rmin_glb_lt; [apply Rdiv_lt_0_compat; lra|apply Rdiv_lt_0_compat; lra]. }
  assert (r0 : 0 < rho d penalty).
  { unfold rho. destruct (Rle_dec penalty (INR d)); [apply Rdiv_lt_0_compat; lra|apply Rdiv_lt_0_compat; lra]. }
  unfold printed_constant, sharper_constant. split; apply Rmult_lt_0_compat; auto.
  - assert (0 < sqrt (INR d) * printed_norm_bound d penalty) by (apply Rmult_lt_0_compat; auto). lra.
  - assert (0 < 1 / 2 * sqrt (INR d) * rho d penalty) by (apply Rmult_lt_0_compat; [lra|auto]). lra.
Qed.

Theorem personal_privacy : personal_privacy_statement.
Proof.
  intros d n epsilon penalty theta factor finite I i c pos S0 pen d1 const S weight est f0 hi int fin. fold S in S0.
  destruct (constants_positive d penalty d1 pen) as [p0 s0].
  assert (c0 : 0 < c) by (destruct const; subst; auto). assert (eta0 : 0 < S / c) by (apply Rdiv_lt_0_compat; auto).
  assert (hw : weights n weight).
  { split; [intros k hk; apply Rmult_le_pos; [apply pos; auto|left; apply Rinv_0_lt_compat; auto]|].
    assert (e : total n weight = / S * total n epsilon).
    { rewrite <- total_scal. apply total_ext. intros k hk. unfold weight, Rdiv. ring. }
    rewrite e. fold S. field. lra. }
  destruct (privacy d n weight penalty theta factor (S / c) finite I i hw pen est f0 eta0 hi int fin) as [a b].
  replace (epsilon i) with (S / c * c * weight i) by (unfold weight; field; lra).
  destruct const as [e|e]; [rewrite <- e in a; exact a|rewrite <- e in b; exact b].
Qed.

(* Estimates exist, whatever the data: ridge_estimate.v; weights of two people who accept 1 and 2 *)
Example weights_of_two : weights 2 (fun k => (INR k + 1) / total 2 (fun k => INR k + 1)).
Proof. split; [intros k _; pose proof (pos_INR k); simpl; apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; lra]|simpl; field]. Qed.

Print Assumptions privacy. Print Assumptions personal_privacy.
