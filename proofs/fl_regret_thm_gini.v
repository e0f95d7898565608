(* fl-regret-thm-gini: what independent draws show of a truthful owner. It explains the published
   regret of owners who tell the truth; no claim rests on it alone.

   Where prose and formal statement differ:
   - expectations over two independent outcomes are written as the sums they are;
   - the payment is any number, the same for both draws. *)
Require Import Reals Lra Psatz.
Require Import totals.
Open Scope R_scope.

(* What has to be read *)

(* Levels 0, ..., top of a sale; [chance m] is the probability of level m, [cost m] what it costs. *)

(* The distribution function F at the levels *)
Definition chance_up_to (chance : nat -> R) (level : nat) : R := total (S level) chance.

(* The mean of a function of one outcome, and of two independent ones *)
Definition mean (chance : nat -> R) (top : nat) (value : nat -> R) : R :=
  total (S top) (fun m => chance m * value m).
Definition mean_of_two (chance : nat -> R) (top : nat) (value : nat -> nat -> R) : R :=
  total (S top) (fun m => total (S top) (fun k => chance m * chance k * value m k)).

(* The estimator: the utility of one draw in place of the misreport, less that of another for the
   truth, its positive part, over the expected cost *)
Definition estimator (payment : R) (cost : nat -> R) (expected_cost : R) (lie truth : nat) : R :=
  Rmax 0 ((payment - cost lie) - (payment - cost truth)) / expected_cost.

(* Probabilities, and costs that rise from 0, some of them with a positive probability *)
Definition lottery (chance cost : nat -> R) (top : nat) : Prop :=
  (forall m, (m <= top)%nat -> 0 <= chance m) /\
  chance_up_to chance top = 1 /\
  cost 0%nat = 0 /\
  (forall m, (m < top)%nat -> cost m <= cost (S m)) /\
  0 < mean chance top cost.

(* The Gini coefficient by the distribution function *)
Definition gini (chance cost : nat -> R) (top : nat) : R :=
  let F := chance_up_to chance in
  total top (fun m => (cost (S m) - cost m) * F m * (1 - F m))
  / total top (fun m => (cost (S m) - cost m) * (1 - F m)).

(* The estimator has the mean E max(0, C - C') / E C; that is the Gini coefficient; with two levels it
   is 1 less the chance of a sale; it lies between the chance of no sale and that of no full sale. *)
Definition fl_regret_thm_gini_statement : Prop :=
  forall chance cost top payment,
  lottery chance cost top ->
  let gap := mean_of_two chance top (fun m k => Rmax 0 (cost m - cost k)) in
  let bias := mean_of_two chance top (fun truth lie =>
    estimator payment cost (mean chance top cost) lie truth) in
  bias = gap / mean chance top cost /\
  bias = gini chance cost top /\
  (top = 1%nat -> bias = 1 - chance 1%nat) /\
  chance 0%nat <= bias <= 1 - chance top.

(* The proofs, which need not be read *)

Section Gini.
Variables (z v : nat -> R).           (* probability and cost of level m *)
Definition F (m : nat) : R := total (S m) z.
Definition average M : R := total (S M) (fun m => z m * v m).
(* E max(0, C - C') for independent C, C' *)
Definition mean_gap M : R := total (S M) (fun m => total (S M) (fun k => z m * z k * Rmax 0 (v m - v k))).

Lemma abel M : total (S M) (fun k => z k * (v (S M) - v k)) = total (S M) (fun m => (v (S m) - v m) * F m).
Proof.
  induction M as [|M IH]; [unfold F; simpl; lra|].
  set (n := S M) in *. change (total (S n) (fun m => (v (S m) - v m) * F m)) with
    (total n (fun m => (v (S m) - v m) * F m) + (v (S n) - v n) * F n).
  rewrite <- IH. change (F n) with (total n z + z n).
  change (total (S n) (fun k => z k * (v (S n) - v k))) with (total n (fun k => z k * (v (S n) - v k)) + z n * (v (S n) - v n)).
  rewrite (total_ext n _ (fun k => z k * (v n - v k) + (v (S n) - v n) * z k)) by (intros; lra).
  rewrite total_plus, total_scal. lra.
Qed.

Lemma rises M : (forall k, (k < M)%nat -> v k <= v (S k)) -> forall k, (k <= M)%nat -> v k <= v M.
Proof.
  induction M as [|M IH]; intros up k hk; [replace k with O by lia; lra|].
  destruct (Nat.eq_dec k (S M)) as [->|]; [lra|].
  apply Rle_trans with (v M); [apply IH; [intros; apply up; lia|lia]|apply up; lia].
Qed.

Lemma gap_step M : (forall k, (k < M)%nat -> v k <= v (S k)) ->
  mean_gap M = total M (fun m => (v (S m) - v m) * F m * (F M - F m)).
Proof.
  induction M as [|M IH]; intros up.
  - unfold mean_gap; simpl. unfold Rmax. destruct (Rle_dec _ _); lra.
  - set (n := S M). assert (e : mean_gap n = mean_gap M + z n * total n (fun k => z k * (v n - v k))).
    { unfold mean_gap. fold n. change (total (S n) (fun m => total (S n) (fun k => z m * z k * Rmax 0 (v m - v k)))) with
        (total n (fun m => total n (fun k => z m * z k * Rmax 0 (v m - v k)) + z m * z n * Rmax 0 (v m - v n))
         + (total n (fun k => z n * z k * Rmax 0 (v n - v k)) + z n * z n * Rmax 0 (v n - v n))).
      rewrite total_plus, <- total_scal.
      rewrite (total_ext n (fun m => z m * z n * Rmax 0 (v m - v n)) (fun _ => 0 * 0)).
      2: { intros i hi. rewrite Rmax_left; [lra|]. pose proof (rises n up i ltac:(lia)). lra. }
      rewrite (total_ext n (fun k => z n * z k * Rmax 0 (v n - v k)) (fun k => z n * (z k * (v n - v k)))).
      2: { intros i hi. rewrite Rmax_right; [lra|]. pose proof (rises n up i ltac:(lia)). lra. }
      rewrite (Rmax_left 0 (v n - v n)) by lra. rewrite (total_scal n 0). lra. }
    rewrite e, IH by (intros; apply up; lia). unfold n at 2 3. rewrite abel. fold n. rewrite <- total_scal.
    change (total n (fun m => (v (S m) - v m) * F m * (F n - F m))) with
      (total M (fun m => (v (S m) - v m) * F m * (F n - F m)) + (v n - v M) * F M * (F n - F M)).
    change (total n (fun i => z n * ((v (S i) - v i) * F i))) with
      (total M (fun i => z n * ((v (S i) - v i) * F i)) + z n * ((v n - v M) * F M)).
    assert (fn : F n = F M + z n) by reflexivity. rewrite fn.
    rewrite (total_ext M (fun m => (v (S m) - v m) * F m * (F M + z n - F m))
      (fun m => (v (S m) - v m) * F m * (F M - F m) + z n * ((v (S m) - v m) * F m))) by (intros; lra).
    rewrite total_plus. lra.
Qed.

Lemma mean_step M : v 0%nat = 0 -> average M = total M (fun m => (v (S m) - v m) * (F M - F m)).
Proof.
  intros v0. destruct M as [|M]; [unfold average; simpl; rewrite v0; lra|].
  pose proof (abel M) as a. set (n := S M) in *.
  rewrite (total_ext n (fun k => z k * (v n - v k)) (fun k => v n * z k + -1 * (z k * v k))) in a by (intros; lra).
  rewrite total_plus, !total_scal in a.
  rewrite (total_ext n _ (fun m => F n * (v (S m) - v m) + -1 * ((v (S m) - v m) * F m))) by (intros; lra).
  rewrite total_plus, !total_scal, <- a.
  assert (tel : forall k, total k (fun m => v (S m) - v m) = v k) by
    (induction k as [|k IHk]; simpl; [lra|rewrite IHk; lra]).
  rewrite tel. unfold average, F. change (total (S n) z) with (total n z + z n).
  change (total (S n) (fun m => z m * v m)) with (total n (fun m => z m * v m) + z n * v n). lra.
Qed.

Lemma coefficient M : (forall k, (k <= M)%nat -> 0 <= z k) -> F M = 1 -> v 0%nat = 0 ->
  (forall k, (k < M)%nat -> v k <= v (S k)) -> 0 < average M ->
  mean_gap M / average M = total M (fun m => (v (S m) - v m) * F m * (1 - F m)) / total M (fun m => (v (S m) - v m) * (1 - F m))
  /\ z 0%nat <= mean_gap M / average M <= 1 - z M.
Proof.
  intros z0 one v0 up pos. rewrite gap_step, mean_step in * by auto. rewrite one in *. split; [reflexivity|].
  assert (Fup : forall a b, (a <= b)%nat -> (b <= M)%nat -> F a <= F b).
  { induction b as [|b IH]; intros ha hb; [replace a with O by lia; lra|].
    destruct (Nat.eq_dec a (S b)) as [->|]; [lra|]. specialize (IH ltac:(lia) ltac:(lia)).
    specialize (z0 (S b) hb). change (F (S b)) with (F b + z (S b)). lra. }
  assert (lo : forall m, (m < M)%nat -> z 0%nat <= F m).
  { intros m hm. replace (z 0%nat) with (F 0) by (unfold F; simpl; lra). apply Fup; lia. }
  assert (hi : forall m, (m < M)%nat -> F m <= 1 - z M).
  { intros m hm. destruct M as [|K]; [lia|]. change (F (S K)) with (F K + z (S K)) in one.
    pose proof (Fup m K ltac:(lia) ltac:(lia)). lra. }
  assert (w : forall m, (m < M)%nat -> 0 <= (v (S m) - v m) * (1 - F m)).
  { intros m hm. specialize (up m hm). specialize (hi m hm). specialize (z0 M ltac:(lia)). apply Rmult_le_pos; lra. }
  set (E := total M (fun m => (v (S m) - v m) * (1 - F m))) in *.
  split; apply Rmult_le_reg_r with E; auto.
  - replace (total M (fun m => (v (S m) - v m) * F m * (1 - F m)) / E * E) with
      (total M (fun m => (v (S m) - v m) * F m * (1 - F m))) by (field; lra).
    unfold E. rewrite <- total_scal. apply total_le. intros m hm. specialize (w m hm). specialize (lo m hm). nra.
  - replace (total M (fun m => (v (S m) - v m) * F m * (1 - F m)) / E * E) with
      (total M (fun m => (v (S m) - v m) * F m * (1 - F m))) by (field; lra).
    unfold E. rewrite <- total_scal. apply total_le. intros m hm. specialize (w m hm). specialize (hi m hm). nra.
Qed.
End Gini.

Theorem fl_regret_thm_gini : fl_regret_thm_gini_statement.
Proof.
  intros chance cost top payment (z0 & one & v0 & up & pos). cbv zeta.
  set (bias := mean_of_two _ _ _). set (gap := mean_of_two _ _ _).
  assert (e : bias = gap / mean chance top cost).
  { unfold bias, gap, mean_of_two, estimator. unfold Rdiv. rewrite (Rmult_comm (total _ _)).
    rewrite <- total_scal. apply total_ext. intros i hi.
    rewrite <- total_scal. apply total_ext. intros k hk.
    replace (payment - cost k - (payment - cost i)) with (cost i - cost k) by lra. ring. }
  destruct (coefficient chance cost top z0 one v0 up pos) as [f b].
  change (mean_gap chance cost top) with gap in *.
  change (average chance cost top) with (mean chance top cost) in *.
  rewrite <- e in f, b.
  split; [exact e|]. split; [exact f|]. split; [|exact b].
  intros ->. rewrite f. unfold chance_up_to in one. simpl in one.
  unfold mean in pos. simpl in pos. rewrite v0 in pos. unfold F. simpl. rewrite v0.
  assert (chance 1%nat * cost 1%nat <> 0) by lra.
  assert (cost 1%nat <> 0) by (intros z; rewrite z, Rmult_0_r in *; auto).
  assert (chance 1%nat <> 0) by (intros z; rewrite z, Rmult_0_l in *; auto).
  replace (chance 0%nat) with (1 - chance 1%nat) by lra. field. lra.
Qed.

(* The hypotheses can be met: three levels of equal chance, which cost 0, 1 and 3. *)
Example three_levels :
  lottery (fun _ => 1 / 3) (fun m => match m with O => 0 | S O => 1 | _ => 3 end) 2.
Proof.
  split; [intros; lra|]. split; [unfold chance_up_to; simpl; lra|]. split; [reflexivity|].
  split; [|unfold mean; simpl; lra].
  intros [|[|m]] hm; simpl; lra.
Qed.

Print Assumptions fl_regret_thm_gini.
