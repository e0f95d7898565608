(* idea-thm-sensitivity: how far one record moves the ridge estimate, with the ridge paper's constant
   (its Theorem C.4) and the sharper one. Claim: pdp-thmC4.

   Where prose and formal statement differ: nowhere. *)
Require Import Reals Lra Psatz.
Require Import totals vectors ridge_estimate idea_lem_norm.
Open Scope R_scope.

(* What has to be read *)

(* B(lambda) of the ridge paper *)
Definition printed_norm_bound (d : nat) (penalty : R) : R :=
  Rmin (1 / sqrt penalty) (sqrt (INR d) / penalty).

(* The two constants c *)
Definition printed_constant (d : nat) (penalty : R) : R :=
  2 * sqrt (INR d) / penalty * (1 + sqrt (INR d) * printed_norm_bound d penalty).
Definition sharper_constant (d : nat) (penalty : R) : R :=
  2 * sqrt (INR d) / penalty * (1 + 1 / 2 * sqrt (INR d) * rho d penalty).

(* Two data sets inside the bounds differ in record i alone. Their estimates, with the same weights,
   lie no further apart than the constant times the weight of that record. *)
Definition idea_thm_sensitivity_statement : Prop :=
  forall d n features other_features label other_label weight penalty theta other_theta i,
  inside_bounds d n features label ->
  inside_bounds d n other_features other_label ->
  (i < n)%nat ->
  (forall k, (k < n)%nat -> k <> i ->
    other_label k = label k /\ forall j, (j < d)%nat -> other_features k j = features k j) ->
  weights n weight -> 0 < penalty ->
  is_estimate d n features label weight penalty theta ->
  is_estimate d n other_features other_label weight penalty other_theta ->
  let distance := norm d (fun j => theta j - other_theta j) in
  distance <= printed_constant d penalty * weight i /\
  distance <= sharper_constant d penalty * weight i.

(* The proofs, which need not be read *)

Section Two.
Variables (d n : nat) (X X' : nat -> nat -> R) (y y' w : nat -> R) (lam : R) (th th' : nat -> R).
Variable i : nat.
Hypothesis inside : inside_bounds d n X y.
Hypothesis inside' : inside_bounds d n X' y'.
Hypothesis wts : weights n w.
Hypothesis l0 : 0 < lam.
Hypothesis min : is_estimate d n X y w lam th.
Hypothesis min' : is_estimate d n X' y' w lam th'.
Hypothesis here : (i < n)%nat.
Hypothesis same : forall k, (k < n)%nat -> k <> i ->
  y' k = y k /\ forall j, (j < d)%nat -> X' k j = X k j.

Lemma sensitivity :
  norm d (fun k => th k - th' k) <= sharper_constant d lam * w i.
Proof.
  set (v := fun k => th k + -1 * th' k).
  replace (norm d (fun k => th k - th' k)) with (norm d v).
  2: { unfold norm. f_equal. unfold dot. apply total_ext. intros k _. unfold v. lra. }
  pose proof (first_order d n X y w lam wts th v (Rlt_le _ _ l0) min) as f.
  pose proof (first_order d n X' y' w lam wts th' v (Rlt_le _ _ l0) min') as f'.
  unfold slope in f, f'. unfold sharper_constant.
  assert (vv : dot d v v = dot d th v + -1 * dot d th' v).
  { rewrite (dot_comm d th), (dot_comm d th'). unfold v at 2. apply dot_lin. }
  pose proof wts as [w0 w1]. pose proof (w0 i here) as wi.
  destruct (inside_norm d n X y i inside here) as [xi yi]. destruct (inside_norm d n X' y' i inside' here) as [xi' yi'].
  assert (sp : forall k, dot d (X' k) th' = dot d (X' k) th + -1 * dot d (X' k) v).
  { intros k. unfold v. rewrite dot_lin. lra. }
  (* all terms but the i-th only help *)
  pose proof (total_change n (fun k => w k * (dot d (X' k) th' - y' k) * dot d (X' k) v)
     (fun k => w k * (dot d (X k) th - y k) * dot d (X k) v) i here) as ch.
  cbv beta in ch. lapply ch; [clear ch; intros ch|].
  2: { intros k hk ki. destruct (same k hk ki) as [ey ex].
       assert (ed : forall u, dot d (X' k) u = dot d (X k) u)
         by (intros u; apply total_ext; intros j hj; rewrite ex; auto).
       rewrite ey, (sp k), !ed. specialize (w0 k hk).
       assert (0 <= w k * (dot d (X k) v * dot d (X k) v)) by (apply Rmult_le_pos; [auto|nra]). lra. }
  rewrite (sp i) in ch.
  set (a := dot d (X i) th) in *. set (b := dot d (X i) v) in *.
  set (a' := dot d (X' i) th) in *. set (b' := dot d (X' i) v) in *.
  assert (D0 := pos_INR d).
  pose proof (two_squares d (X i) (X' i) th v (INR d) D0 xi xi') as sq. fold a b a' b' in sq.
  assert (cb : forall u, dot d u u <= INR d -> Rabs (dot d u v) <= sqrt (INR d) * norm d v).
  { intros u hu. eapply Rle_trans; [apply cauchy|]. apply Rmult_le_compat_r; [apply norm_pos|].
    apply sqrt_le_1; auto. apply dot_pos. }
  pose proof (cb _ xi) as c1. pose proof (cb _ xi') as c2. fold b in c1. fold b' in c2.
  pose proof (bounded d n X y w lam th inside wts l0 min) as nb.
  pose proof (norm_pos d v) as v0. pose proof (norm_pos d th) as t0. pose proof (norm_sq d v) as v2.
  set (r := sqrt (INR d)) in *. assert (rr : r * r = INR d) by (apply sqrt_sqrt; auto).
  assert (r0 : 0 <= r) by apply sqrt_pos.
  assert (main : lam * (norm d v * norm d v) <= w i * (INR d * (norm d th * norm d v) + 2 * (r * norm d v))).
  { rewrite v2, vv.
    assert (lam * (dot d th v + -1 * dot d th' v) <= w i * ((a' * b' - a * b) + (y i * b - y' i * b'))).
    { assert (0 <= w i * (b' * b')) by (apply Rmult_le_pos; [auto|nra]). lra. }
    eapply Rle_trans; [exact H|]. apply Rmult_le_compat_l; [auto|].
    assert (y i * b <= Rabs b) by (unfold Rabs; destruct (Rcase_abs b); nra).
    assert (- (y' i * b') <= Rabs b') by (unfold Rabs; destruct (Rcase_abs b'); nra).
    assert (a' * b' - a * b <= Rabs (a * b - a' * b')) by (unfold Rabs; destruct (Rcase_abs _); lra).
    lra. }
  destruct (Req_dec (norm d v) 0) as [z|nz].
  { rewrite z. apply Rmult_le_pos; [|auto]. apply Rmult_le_pos.
    - apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; auto].
    - assert (0 <= rho d lam) by lra. nra. }
  assert (lin : lam * norm d v <= w i * (INR d * rho d lam + 2 * r)).
  { apply Rmult_le_reg_r with (norm d v); [lra|].
    assert (w i * (INR d * (norm d th * norm d v)) <= w i * (INR d * (rho d lam * norm d v))).
    { apply Rmult_le_compat_l; [auto|]. apply Rmult_le_compat_l; [auto|]. apply Rmult_le_compat_r; auto. }
    lra. }
  apply Rmult_le_reg_l with lam; [auto|]. eapply Rle_trans; [exact lin|]. right. rewrite <- rr. field. lra.
Qed.
End Two.

Lemma sharper_is_smaller d lam : 0 < lam -> sharper_constant d lam <= printed_constant d lam.
Proof.
  intros l0. destruct (roots d lam l0) as (t0 & tt & r0 & rr).
  assert (half : 1 / 2 * rho d lam <= printed_norm_bound d lam).
  { destruct (rho_small d lam l0) as [h1 h2].
    assert (0 <= rho d lam).
    { destruct (maximum d lam l0) as [_ up]. specialize (up 0 ltac:(lra)).
      unfold Rdiv in up. rewrite Rmult_0_l in up. auto. }
    unfold printed_norm_bound. apply Rmin_glb; lra. }
  unfold sharper_constant, printed_constant. apply Rmult_le_compat_l.
  - apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; auto].
  - apply Rplus_le_compat_l. rewrite (Rmult_comm (1 / 2)), Rmult_assoc. apply Rmult_le_compat_l; auto.
Qed.

Theorem idea_thm_sensitivity : idea_thm_sensitivity_statement.
Proof.
  intros d n X X' y y' w lam th th' i inside inside' here same wts l0 min min' distance.
  pose proof (sensitivity d n X X' y y' w lam th th' i inside inside' wts l0 min min' here same) as s.
  fold distance in s. split; [|exact s].
  eapply Rle_trans; [exact s|]. apply Rmult_le_compat_r; [apply wts; auto|].
  apply sharper_is_smaller; auto.
Qed.

(* The hypotheses can be met: one record, and the same with another label. By ridge_estimate both
   have an estimate. *)
Example two_labels : exists theta other_theta,
  inside_bounds 1 1 (fun _ _ => 1) (fun _ => 1) /\ inside_bounds 1 1 (fun _ _ => 1) (fun _ => -1) /\
  weights 1 (fun _ => 1) /\
  is_estimate 1 1 (fun _ _ => 1) (fun _ => 1) (fun _ => 1) 1 theta /\
  is_estimate 1 1 (fun _ _ => 1) (fun _ => -1) (fun _ => 1) 1 other_theta.
Proof.
  destruct one_record as [inside wts].
  destruct (ridge_estimate 1%nat 1%nat (fun _ _ => 1) (fun _ => 1) (fun _ => 1) 1 wts Rlt_0_1) as (th & h & _).
  destruct (ridge_estimate 1%nat 1%nat (fun _ _ => 1) (fun _ => -1) (fun _ => 1) 1 wts Rlt_0_1) as (u & g & _).
  exists th, u. split; [auto|]. split; [|auto].
  intros k _. split; [intros; lra|lra].
Qed.

Print Assumptions idea_thm_sensitivity.
