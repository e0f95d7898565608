(** lg-risk-thm-weights: least excess risk.  Bears on the claims about J's Eq. (3) and the choice of a and eta, page
    logistic/risk.
    Beside the prose: the least and the largest of the privacy losses are two numbers, low and high, between which all
    losses lie; each is some seller's loss.  mu > 0 and sigma >= 0. *)
Require Import Reals Ranalysis5 Lra Lia.
Require Import totals maxima vectors.
Open Scope R_scope.

(* What has to be read *)

(* The length norm of a vector is that of vectors.v *)

(* The privacy losses of m sellers are positive, the least is low and the largest is high *)
Definition losses (m : nat) (epsilon : nat -> R) (low high : R) : Prop :=
  0 < low /\ (forall i, (i < m)%nat -> low <= epsilon i <= high) /\
  (exists i, (i < m)%nat /\ epsilon i = low) /\ (exists i, (i < m)%nat /\ epsilon i = high).

(* Weights a and a rate eta that keep the losses *)
Definition feasible (m : nat) (epsilon a : nat -> R) (eta : R) : Prop :=
  0 < eta /\ total m a = 1 /\ forall i, (i < m)%nat -> 0 <= a i /\ a i * eta <= epsilon i.

(* The excess risk *)
Definition excess_risk (m : nat) (mu sigma : R) (a : nat -> R) (eta : R) : R := mu * norm m a + sigma / eta.

(* q for a threshold tau, and g *)
Definition cut (epsilon : nat -> R) (tau : R) (i : nat) : R := Rmin (epsilon i) tau.
Definition g (m : nat) (epsilon : nat -> R) (tau : R) : R :=
  total m (fun i => cut epsilon tau i * (tau - cut epsilon tau i)) / norm m (cut epsilon tau).

(* tau is the root of g = sigma / mu, or the largest loss if g stays below *)
Definition threshold (m : nat) (epsilon : nat -> R) (low high mu sigma tau : R) : Prop :=
  (low <= tau <= high /\ g m epsilon tau = sigma / mu) \/ (tau = high /\ g m epsilon high < sigma / mu).

(* There is one threshold; its weights and rate have the least excess risk; g is 0 at low, and rises strictly from there *)
Definition least_excess_risk_statement : Prop :=
  forall m epsilon low high mu sigma, losses m epsilon low high -> 0 < mu -> 0 <= sigma ->
  (exists tau, threshold m epsilon low high mu sigma tau) /\
  (forall tau tau', threshold m epsilon low high mu sigma tau -> threshold m epsilon low high mu sigma tau' -> tau = tau') /\
  (forall tau, threshold m epsilon low high mu sigma tau ->
     let q := cut epsilon tau in
     let eta := total m q in
     feasible m epsilon (fun i => q i / eta) eta /\
     forall a eta', feasible m epsilon a eta' ->
       excess_risk m mu sigma (fun i => q i / eta) eta <= excess_risk m mu sigma a eta') /\
  g m epsilon low = 0 /\
  (forall tau tau', low <= tau -> tau < tau' -> g m epsilon tau < g m epsilon tau').

(* The proofs, which need not be read *)

Section Risk.
Variables (m : nat) (epsilon : nat -> R) (low high : R).
Hypothesis given : losses m epsilon low high.
Let q := cut epsilon.

Lemma q_positive tau i : 0 < tau -> (i < m)%nat -> 0 < q tau i.
Proof. intros t hi. destruct given as (l0 & box & _). pose proof (box i hi). unfold q, cut. apply Rmin_glb_lt; lra. Qed.

Lemma someone : exists i, (i < m)%nat.
Proof. destruct given as (_ & _ & (i & hi & _) & _). exists i. auto. Qed.

Lemma norm_positive tau : 0 < tau -> 0 < norm m (q tau).
Proof.
  intros t. apply sqrt_lt_R0. destruct someone as (i & hi). apply total_pos with i; auto.
  - intros. apply Rle_0_sqr.
  - pose proof (q_positive tau i t hi). apply Rmult_lt_0_compat; auto.
Qed.

Lemma q_total_positive tau : 0 < tau -> 0 < total m (q tau).
Proof.
  intros t. destruct someone as (i & hi). apply total_pos with i; auto; [intros; left; apply q_positive; auto|apply q_positive; auto].
Qed.

Let top (tau : R) : R := total m (fun i => q tau i * (tau - q tau i)).

Lemma top_ge0 tau : 0 < tau -> 0 <= top tau.
Proof.
  intros t. apply total_nonneg. intros i hi. pose proof (q_positive tau i t hi). pose proof (Rmin_r (epsilon i) tau).
  apply Rmult_le_pos; [lra|unfold q, cut; lra].
Qed.

Lemma g_low : g m epsilon low = 0.
Proof.
  unfold g. destruct given as (l0 & box & _).
  rewrite (total_ext m _ (fun _ => 0)), total_const; [unfold Rdiv; ring|]. intros i hi. destruct (box i hi).
  unfold cut. rewrite Rmin_right by auto. ring.
Qed.

Lemma g_rises tau tau' : low <= tau -> tau < tau' -> g m epsilon tau < g m epsilon tau'.
Proof.
  intros h lt. destruct given as (l0 & box & (k & hk & ek) & _).
  assert (t0 : 0 < tau) by lra. set (s := tau' / tau). assert (s1 : 1 < s) by (apply Rmult_lt_reg_r with tau; auto; unfold s; field_simplify; lra).
  assert (st : s * tau = tau') by (unfold s; field; lra).
  pose proof (norm_positive tau t0) as d0. pose proof (norm_positive tau' ltac:(lra)) as d1.
  assert (dd : norm m (q tau') <= s * norm m (q tau)).
  { rewrite <- (Rabs_right s) by lra. rewrite <- norm_scale. apply sqrt_le_1_alt. apply total_le. intros i hi.
    pose proof (q_positive tau' i ltac:(lra) hi). pose proof (q_positive tau i t0 hi).
    assert (q tau' i <= s * q tau i).
    { unfold q, cut. destruct (box i hi). destruct (Rle_dec (epsilon i) tau).
      - rewrite (Rmin_left _ tau), Rmin_left by lra. nra.
      - rewrite (Rmin_right _ tau) by lra. rewrite st. apply Rmin_r. }
    apply Rmult_le_compat; lra. }
  assert (tt : s * top tau < top tau').
  { unfold top. rewrite <- total_scal. apply total_lt with k; auto.
    - intros i hi. destruct (box i hi). unfold q, cut. destruct (Rle_dec (epsilon i) tau).
      + rewrite !Rmin_left by lra. rewrite <- st. assert (0 <= epsilon i * epsilon i * (s - 1)) by (apply Rmult_le_pos; nra). lra.
      + rewrite (Rmin_right _ tau) by lra. rewrite Rminus_eq_0, !Rmult_0_r.
        pose proof (Rmin_r (epsilon i) tau'). apply Rmult_le_pos; [apply Rmin_glb; lra|lra].
    - destruct (box k hk). unfold q, cut. rewrite ek. rewrite !Rmin_left by lra. rewrite <- st.
      assert (0 < low * low * (s - 1)) by (apply Rmult_lt_0_compat; [nra|lra]). lra. }
  pose proof (top_ge0 tau t0). change (top tau / norm m (q tau) < top tau' / norm m (q tau')).
  apply Rle_lt_trans with (s * top tau / norm m (q tau')).
  - apply Rmult_le_reg_r with (norm m (q tau) * norm m (q tau')); [apply Rmult_lt_0_compat; auto|].
    replace (top tau / norm m (q tau) * (norm m (q tau) * norm m (q tau'))) with (top tau * norm m (q tau')) by (field; lra).
    replace (s * top tau / norm m (q tau') * (norm m (q tau) * norm m (q tau'))) with (top tau * (s * norm m (q tau))) by (field; lra).
    apply Rmult_le_compat_l; auto.
  - apply Rmult_lt_compat_r; [apply Rinv_0_lt_compat; auto|auto].
Qed.

Lemma cut_continuous i x : continuity_pt (fun tau => q tau i) x.
Proof.
  apply (min_continuous (fun _ => epsilon i) (fun tau => tau)); reg.
Qed.

Lemma g_continuous x : 0 < x -> continuity_pt (g m epsilon) x.
Proof.
  intros x0. unfold g.
  apply (continuity_pt_div (fun tau => total m (fun i => q tau i * (tau - q tau i))) (fun tau => norm m (q tau))).
  - apply (total_continuous m (fun i tau => q tau i * (tau - q tau i))). intros i _.
    apply continuity_pt_mult; [apply cut_continuous|]. apply continuity_pt_minus; [apply derivable_continuous_pt; reg|apply cut_continuous].
  - unfold norm. apply (continuity_pt_comp (fun tau => dot m (q tau) (q tau)) sqrt).
    + apply (total_continuous m (fun i tau => q tau i * q tau i)). intros i _. apply continuity_pt_mult; apply cut_continuous.
    + apply continuity_pt_sqrt. apply dot_pos.
  - pose proof (norm_positive x x0). lra.
Qed.

Lemma low_high : low <= high.
Proof. destruct given as (_ & box & (i & hi & _) & _). pose proof (box i hi). lra. Qed.

Lemma threshold_exists mu sigma : 0 < mu -> 0 <= sigma -> exists tau, threshold m epsilon low high mu sigma tau.
Proof.
  intros mu0 s0. pose proof low_high as lh. destruct given as (l0 & _). set (r := sigma / mu).
  assert (r0 : 0 <= r) by (apply Rmult_le_pos; [auto|left; apply Rinv_0_lt_compat; auto]).
  destruct (Rlt_dec (g m epsilon high) r) as [below|above]; [exists high; right; auto|].
  destruct (Req_dec (g m epsilon high) r) as [e|ne]; [exists high; left; split; [lra|auto]|].
  destruct (Req_dec r 0) as [z|nz]; [exists low; left; split; [lra|rewrite g_low; fold r; lra]|].
  assert (llh : low < high) by (destruct (Req_dec low high) as [e|]; [pose proof g_low as gl; rewrite e in gl; lra|lra]).
  destruct (IVT_interv (fun tau => g m epsilon tau - r) low high) as (tau & between & zero).
  - intros a ha. apply continuity_pt_minus; [apply g_continuous; lra|apply continuity_pt_const; intros ? ?; reflexivity].
  - exact llh.
  - rewrite g_low. lra.
  - lra.
  - exists tau. left. split; [lra|fold r; lra].
Qed.

Lemma threshold_unique mu sigma tau tau' : threshold m epsilon low high mu sigma tau -> threshold m epsilon low high mu sigma tau' -> ~ tau < tau'.
Proof.
  intros [((l & h) & e)|(e & b)] [((l' & h') & e')|(e' & b')] lt; pose proof low_high.
  - pose proof (g_rises tau tau' l lt). lra.
  - pose proof (g_rises tau tau' l lt). rewrite e' in *. lra.
  - lra.
  - lra.
Qed.

Lemma least mu sigma tau : 0 < mu -> 0 <= sigma -> threshold m epsilon low high mu sigma tau ->
  feasible m epsilon (fun i => q tau i / total m (q tau)) (total m (q tau)) /\
  forall a eta, feasible m epsilon a eta ->
    excess_risk m mu sigma (fun i => q tau i / total m (q tau)) (total m (q tau)) <= excess_risk m mu sigma a eta.
Proof.
  intros mu0 s0 thr. pose proof low_high as lh. destruct given as (l0 & box & _).
  assert (t0 : 0 < tau) by (destruct thr as [((l & h) & _)|(e & _)]; lra).
  pose proof (q_total_positive tau t0) as S0. set (S := total m (q tau)) in *. pose proof (norm_positive tau t0) as D0. set (D := norm m (q tau)) in *.
  split.
  - split; auto. split; [rewrite total_div; fold S; field; lra|]. intros i hi. split.
    + left. apply Rdiv_lt_0_compat; auto. apply q_positive; auto.
    + replace (q tau i / S * S) with (q tau i) by (field; lra). apply Rmin_l.
  - intros a eta (eta0 & one & fea). unfold excess_risk.
    set (q' := fun i => eta * a i).
    assert (total' : total m q' = eta) by (unfold q'; rewrite total_scal, one; ring).
    assert (l1 : norm m (fun i => q tau i / S) = D / S).
    { replace (fun i => q tau i / S) with (fun i => / S * q tau i) by (apply FunctionalExtensionality.functional_extensionality; intros; unfold Rdiv; ring).
      rewrite norm_scale, Rabs_right by (left; apply Rinv_0_lt_compat; auto). unfold D, Rdiv. ring. }
    assert (l2 : norm m q' = eta * norm m a) by (unfold q'; rewrite norm_scale, Rabs_right by lra; reflexivity).
    rewrite l1. set (r := (mu * D + sigma) / S).
    replace (mu * (D / S) + sigma / S) with r by (unfold r; field; lra).
    (* zeta *)
    set (zeta := r * D / mu).
    assert (each : forall i, (i < m)%nat -> 0 <= (q' i - q tau i) * (q tau i - zeta)).
    { assert (topD : total m (fun i => q tau i * (tau - q tau i)) = tau * S - D ^ 2).
      { unfold D, S. rewrite norm_square. unfold dot. rewrite <- total_scal, <- total_minus. apply total_ext. intros. ring. }
      assert (gD : g m epsilon tau * D = tau * S - D ^ 2).
      { unfold g. fold (q tau). fold D. rewrite topD. field. lra. }
      assert (zD : zeta * S = D * (D + sigma / mu)) by (unfold zeta, r; field; lra).
      intros i hi. destruct (fea i hi) as [a0 ae]. destruct (box i hi) as [el eh].
      assert (q'e : q' i <= epsilon i) by (unfold q'; lra).
      destruct thr as [((l & h) & e)|(e & b)].
      - assert (zt : zeta = tau). { apply Rmult_eq_reg_r with S; [|lra]. rewrite zD. rewrite e in gD. lra. }
        rewrite zt. unfold q, cut. destruct (Rle_dec (epsilon i) tau); [rewrite Rmin_left by auto; nra|rewrite Rmin_right by lra; lra].
      - assert (zh : high <= zeta).
        { apply Rmult_le_reg_r with S; auto. rewrite zD. rewrite <- e in b. assert (g m epsilon tau * D < sigma / mu * D) by (apply Rmult_lt_compat_r; auto).
          rewrite <- e. lra. }
        unfold q, cut. rewrite e, Rmin_left by auto. nra. }
    assert (sum : 0 <= total m (fun i => (q' i - q tau i) * (q tau i - zeta))) by (apply total_nonneg; auto).
    assert (expand : total m (fun i => (q' i - q tau i) * (q tau i - zeta)) = dot m q' (q tau) - zeta * eta - D ^ 2 + zeta * S).
    { unfold D, S. rewrite norm_square. rewrite <- total' at 1. unfold dot. rewrite <- !total_scal, <- !total_minus, <- total_plus.
      apply total_ext. intros. ring. }
    pose proof (cauchy m q' (q tau)) as c. pose proof (Rle_abs (dot m q' (q tau))) as ab. fold D in c.
    (* so mu times the length of q' plus sigma is at least r eta *)
    assert (main : r * eta <= mu * (eta * norm m a) + sigma).
    { rewrite <- l2. apply Rmult_le_reg_r with D; auto.
      assert (z1 : zeta * eta * mu = r * eta * D) by (unfold zeta; field; lra).
      assert (z2 : zeta * S * mu = D * (mu * D + sigma)) by (unfold zeta, r; field; lra).
      assert (0 <= mu * (dot m q' (q tau) - zeta * eta - D ^ 2 + zeta * S)) by (apply Rmult_le_pos; lra).
      assert (mu * dot m q' (q tau) <= mu * (norm m q' * D)) by (apply Rmult_le_compat_l; lra). lra. }
    apply Rmult_le_reg_r with eta; auto. replace ((mu * norm m a + sigma / eta) * eta) with (mu * (eta * norm m a) + sigma) by (field; lra). auto.
Qed.
End Risk.

Theorem least_excess_risk : least_excess_risk_statement.
Proof.
  intros m epsilon low high mu sigma given mu0 s0. split; [apply threshold_exists; auto|]. split; [|split; [|split]].
  - intros tau tau' h h'. destruct (Rtotal_order tau tau') as [lt|[e|gt]]; auto; exfalso;
      [apply (threshold_unique m epsilon low high given mu sigma tau tau')|apply (threshold_unique m epsilon low high given mu sigma tau' tau)]; auto.
  - intros tau thr. apply (least m epsilon low high given mu sigma tau mu0 s0 thr).
  - apply (g_low m epsilon low high given).
  - intros tau tau' h lt. apply (g_rises m epsilon low high given); auto.
Qed.

(* Two sellers with the losses 1 and 2 *)
Example two_sellers : losses 2 (fun i => INR i + 1) 1 2.
Proof.
  split; [lra|]. split; [|split; [exists 0%nat|exists 1%nat]; split; try lia; simpl; lra].
  intros [|[|i]] hi; [simpl; lra|simpl; lra|lia].
Qed.

Print Assumptions least_excess_risk.
