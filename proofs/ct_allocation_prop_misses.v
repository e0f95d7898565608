(** ct-allocation-prop-misses: when Khalili's Algorithm 1 misses.  Bears on the claims khalili-alg1 and khalili-thm6
    (corrected), page contracts/allocation.
    Beside the prose: the best reading is the page's: line 6 for line 5 in line 19, the exponent 1 / (r - 1), rounding down
    in line 5, and on to the next j where the valuation is 0.  The algorithm keeps the cheapest contract that it tries; so
    it misses if none of them is optimal.  The theorem's root theta and "optimal" are those of ct_allocation_thm_root.v. *)
Require Import Reals Lra Lia.
Require Import totals ct_allocation_thm_root.
Open Scope R_scope.

(* What has to be read *)

(* Valuations in rising order: line 4 *)
Definition sorted (n : nat) (valuation : nat -> R) : Prop :=
  forall i k, (i <= k)%nat -> (k < n)%nat -> valuation i <= valuation k.

(* Lines 14 and 15, with the exponent 1 / (r - 1): the share x of seller j (counted from 0) for the pair (i, j) *)
Definition ratio (r : R) (valuation : nat -> R) (j k : nat) : R := power (valuation j / valuation k) (1 / (r - 1)).
Definition line_15 (n : nat) (K r : R) (valuation : nat -> R) (i j : nat) : R :=
  (INR (n - j) ^ 2 - 4 * K) / (total (i - j) (fun l => ratio r valuation j (j + l)) * INR (n - j)).

(* Lines 7 to 21: the shares for the pair (i, j); the first j sellers give all, those from i on nothing *)
Definition shares_of (n : nat) (K r : R) (valuation : nat -> R) (i j : nat) (share : nat -> R) : Prop :=
  forall k, (k < n)%nat -> share k =
    if Nat.ltb k j then 1 else if Nat.ltb k i then ratio r valuation j k * line_15 n K r valuation i j else 0.

(* Lines 5, 6, 13, 16 and 19: the pairs (i, j) for which shares are tried *)
Definition tried (n : nat) (K r : R) (valuation : nat -> R) (share : nat -> R) : Prop :=
  exists i j, (j <= i)%nat /\ (i <= n)%nat /\ INR n - 2 * sqrt K < INR i /\
    ((j < i)%nat -> 0 < valuation j /\ 0 <= line_15 n K r valuation i j <= 1) /\
    shares_of n K r valuation i j share.

(* Algorithm 1 misses the least cost: no shares that it tries (those of line 2 are those of i = j = n) are optimal *)
Definition misses (n : nat) (K r : R) (valuation : nat -> R) : Prop :=
  ~ exists share scale, tried n K r valuation share /\ optimal n valuation K r share scale.

(* It misses if and only if some seller has a positive valuation below the root *)
Definition when_it_misses_statement : Prop :=
  forall n valuation K r theta, market n valuation K -> sorted n valuation -> 1 < r -> root n valuation K r theta ->
  (misses n K r valuation <-> exists k, (k < n)%nat /\ 0 < valuation k < theta).

(* The proofs, which need not be read *)

Lemma power_product a b s : 0 < a -> 0 < b -> power a s * power b s = power (a * b) s.
Proof.
  intros a0 b0. rewrite !power_pos by (auto; apply Rmult_lt_0_compat; auto). unfold Rpower.
  rewrite ln_mult, <- exp_plus by auto. f_equal. ring.
Qed.

Section Misses.
Variables (n : nat) (valuation : nat -> R) (K r theta : R).
Hypothesis given : market n valuation K.
Hypothesis order : sorted n valuation.
Hypothesis r1 : 1 < r.
Hypothesis isroot : root n valuation K r theta.
Let s := 1 / (r - 1).
Let best (k : nat) : R := best_share r theta (valuation k).
Let M := capped_sum n valuation theta.

Lemma s_positive : 0 < s. Proof. apply Rdiv_lt_0_compat; lra. Qed.
Lemma theta_positive : 0 < theta. Proof. apply isroot. Qed.
Lemma K_is_positive : 0 < K. Proof. apply given. Qed.
Lemma M_is_positive : 0 < M. Proof. apply (M_positive n valuation K given). apply theta_positive. Qed.

Lemma best_bounds k : 0 < best k <= 1.
Proof. apply best_in; auto. apply theta_positive. Qed.

Lemma best_above k : theta <= valuation k -> best k = power (theta / valuation k) s.
Proof.
  intros h. unfold best, best_share. pose proof theta_positive. destruct (Rle_dec (valuation k) theta); auto.
  replace (theta / valuation k) with 1 by (field_simplify_eq; lra). symmetry. apply power_one.
Qed.

Lemma best_below k : valuation k <= theta -> best k = 1.
Proof. intros h. unfold best, best_share. destruct (Rle_dec (valuation k) theta); [reflexivity|lra]. Qed.

Lemma best_one k : best k = 1 -> valuation k <= theta.
Proof.
  intros e. apply Rnot_lt_le. intros lt. pose proof theta_positive. rewrite best_above in e by lra.
  assert (power (theta / valuation k) s < power 1 s); [|rewrite power_one in *; lra].
  apply power_lt; [apply Rdiv_lt_0_compat; lra| |apply s_positive].
  apply Rmult_lt_reg_r with (valuation k); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.

Lemma best_left : left_out n best = 4 * K * theta / M.
Proof. destruct isroot as (_ & e). unfold M. rewrite <- e. apply best_left_out. Qed.

(* The shares of the theorem are optimal, and only they *)
Lemma the_optimum : exists scale, optimal n valuation K r best scale /\
  forall share scale', optimal n valuation K r share scale' -> forall k, (k < n)%nat -> share k = best k.
Proof.
  destruct (least_cost_contract n valuation K r given r1) as (theta' & _ & only & scale & _ & opt & unique & _).
  rewrite <- (only theta isroot) in *. exists scale. split; [exact opt|]. intros share scale' h. apply (unique share scale' h).
Qed.

(* Seller j's ratio times her share is the share of a later seller *)
Lemma ratio_best j k : theta <= valuation j -> valuation j <= valuation k -> ratio r valuation j k * best j = best k.
Proof.
  intros h1 h2. pose proof theta_positive. rewrite (best_above j), (best_above k) by lra. unfold ratio. fold s.
  rewrite power_product by (apply Rdiv_lt_0_compat; lra). f_equal. field. lra.
Qed.

Lemma finds : ~ (exists k, (k < n)%nat /\ 0 < valuation k < theta) -> exists share scale, tried n K r valuation share /\ optimal n valuation K r share scale.
Proof.
  intros none. destruct the_optimum as (scale & opt & _). exists best, scale. split; auto.
  pose proof theta_positive as t0. pose proof K_is_positive as K0. pose proof M_is_positive as M0.
  (* j: the number of sellers with the valuation 0 *)
  assert (zeros : forall m, (m <= n)%nat -> exists j, (j <= m)%nat /\ (forall k, (k < j)%nat -> valuation k = 0) /\ (forall k, (j <= k)%nat -> (k < m)%nat -> 0 < valuation k)).
  { induction m as [|m IH]; intros le; [exists 0%nat; split; [lia|split; intros; lia]|].
    destruct IH as (j & jm & z & p); [lia|]. destruct (Req_dec (valuation m) 0) as [e|ne].
    - assert (j = m).
      { destruct (Nat.eq_dec j m) as [|nj]; auto. pose proof (p (m - 1)%nat ltac:(lia) ltac:(lia)). pose proof (order (m - 1)%nat m ltac:(lia) ltac:(lia)). lra. }
      subst j. exists (S m). split; [lia|]. split; [|intros; lia]. intros k hk. destruct (Nat.eq_dec k m) as [->|]; [auto|apply z; lia].
    - exists j. split; [lia|]. split; auto. intros k h1 h2. destruct (Nat.eq_dec k m) as [->|]; [|apply p; lia].
      pose proof (proj1 given m ltac:(lia)). lra. }
  destruct (zeros n (le_n n)) as (j & jn & z & p).
  assert (j < n)%nat as jlt.
  { destruct (Nat.eq_dec j n) as [->|]; [|lia]. destruct (someone n valuation K given) as (k & hk & pk). rewrite z in pk by auto. lra. }
  assert (above : forall k, (j <= k)%nat -> (k < n)%nat -> theta <= valuation k).
  { intros k h1 h2. apply Rnot_lt_le. intros lt. apply none. exists k. split; auto. }
  set (N := INR (n - j)). assert (N0 : 0 < N) by (unfold N; apply lt_0_INR; lia).
  set (A := total (n - j) (fun l => ratio r valuation j (j + l))).
  assert (Apos : 0 < A).
  { apply total_pos with 0%nat; [intros; apply power_ge0|lia|]. unfold ratio. rewrite Nat.add_0_r. pose proof (p j ltac:(lia) jlt).
    rewrite power_pos by (apply Rdiv_lt_0_compat; auto). apply exp_pos. }
  (* what is left out *)
  assert (T1 : left_out n best = N - A * best j).
  { unfold left_out. rewrite (total_split n j) by lia. rewrite (total_ext j _ (fun _ => 0)), total_const, Rmult_0_r, Rplus_0_l.
    - rewrite (total_ext (n - j) _ (fun l => 1 - best j * ratio r valuation j (j + l))).
      + rewrite total_minus, total_const, total_scal. fold N A. ring.
      + intros l hl. rewrite <- (ratio_best j (j + l)%nat); [ring|apply above; lia|apply order; lia].
    - intros k hk. rewrite best_below; [lra|]. rewrite z by auto. lra. }
  assert (MN : M = N * theta).
  { unfold M, capped_sum. rewrite (total_split n j) by lia. rewrite (total_ext j _ (fun _ => 0)), (total_ext (n - j) _ (fun _ => theta)), !total_const.
    - fold N. ring.
    - intros l hl. apply Rmin_right. apply above; lia.
    - intros k hk. rewrite z by auto. apply Rmin_left. lra. }
  assert (x : line_15 n K r valuation n j = best j).
  { unfold line_15. fold A N. pose proof best_left as T2. rewrite T1, MN in T2.
    apply Rmult_eq_reg_r with (A * N); [|apply Rmult_integral_contrapositive; split; lra].
    unfold Rdiv at 1. rewrite Rmult_assoc, Rinv_l by (apply Rmult_integral_contrapositive; split; lra).
    replace (4 * K * theta / (N * theta)) with (4 * K / N) in T2 by (field; lra).
    replace (best j * (A * N)) with ((A * best j) * N) by ring. replace (A * best j) with (N - 4 * K / N) by lra. field. lra. }
  exists n, j. split; [lia|]. split; [lia|]. split; [pose proof (sqrt_lt_R0 K K0); lra|]. split.
  - intros _. rewrite x. pose proof (best_bounds j). split; [apply p; lia|lra].
  - intros k hk. rewrite x. destruct (Nat.ltb_spec k j) as [lt|ge]; [apply best_below; rewrite z by auto; lra|].
    destruct (Nat.ltb_spec k n); [|lia]. rewrite ratio_best; [reflexivity|apply above; lia|apply order; lia].
Qed.

Lemma cannot_find : (exists k, (k < n)%nat /\ 0 < valuation k < theta) -> misses n K r valuation.
Proof.
  intros (k0 & hk0 & low0 & low1) (share & scale & (i & j & ji & iN & _ & line & shares) & opt).
  destruct the_optimum as (_ & _ & unique). pose proof (unique share scale opt) as e. clear unique.
  pose proof theta_positive as t0. pose proof K_is_positive as K0. pose proof M_is_positive as M0.
  (* nobody has the share 0, so i = n *)
  assert (iN' : i = n).
  { destruct (Nat.eq_dec i n) as [|ne]; auto. exfalso. pose proof (shares (n - 1)%nat ltac:(lia)) as sh. rewrite e in sh by lia.
    replace (n - 1 <? j)%nat with false in sh by (symmetry; apply Nat.ltb_ge; lia).
    replace (n - 1 <? i)%nat with false in sh by (symmetry; apply Nat.ltb_ge; lia). pose proof (best_bounds (n - 1)). lra. }
  subst i.
  (* somebody has a share below 1 *)
  assert (T0 : 0 < left_out n best) by (rewrite best_left; apply Rdiv_lt_0_compat; [nra|auto]).
  assert (some : exists k, (k < n)%nat /\ best k < 1).
  { assert (h : forall m, 0 < total m (fun k => 1 - best k) -> exists k, (k < m)%nat /\ best k < 1).
    { induction m as [|m IH]; intros q; simpl in q; [lra|]. destruct (Rlt_dec (best m) 1) as [y|no]; [exists m; split; [lia|auto]|].
      pose proof (best_bounds m). destruct IH as (k & hk & b); [lra|]. exists k. split; [lia|auto]. }
    apply h. exact T0. }
  destruct some as (k1 & hk1 & b1).
  assert (jk1 : (j <= k1)%nat).
  { apply Nat.nlt_ge. intros lt. pose proof (shares k1 hk1) as sh. rewrite e in sh by auto.
    rewrite (proj2 (Nat.ltb_lt k1 j) lt) in sh. lra. }
  assert (jn : (j < n)%nat) by lia. destruct (line jn) as (vj & x01). set (x := line_15 n K r valuation n j) in *.
  assert (later : forall k, (j <= k)%nat -> (k < n)%nat -> best k = ratio r valuation j k * x).
  { intros k h1 h2. rewrite <- (e k h2), (shares k h2). rewrite (proj2 (Nat.ltb_ge k j) h1), (proj2 (Nat.ltb_lt k n) h2). reflexivity. }
  assert (earlier : forall k, (k < j)%nat -> best k = 1).
  { intros k h. rewrite <- (e k ltac:(lia)), (shares k ltac:(lia)). rewrite (proj2 (Nat.ltb_lt k j) h). reflexivity. }
  assert (xj : best j = x).
  { rewrite (later j (le_n j) jn). unfold ratio. replace (valuation j / valuation j) with 1 by (field; lra). rewrite power_one. ring. }
  assert (above1 : theta < valuation k1).
  { apply Rnot_le_lt. intros le. rewrite best_below in b1 by auto. lra. }
  destruct (Rlt_dec (valuation j) theta) as [below|ge].
  - (* x = 1, and seller k1 would get too little *)
    rewrite best_below in xj by lra. pose proof (later k1 jk1 hk1) as l1. rewrite <- xj, Rmult_1_r, best_above in l1 by lra.
    unfold ratio in l1. fold s in l1.
    assert (power (valuation j / valuation k1) s < power (theta / valuation k1) s); [|lra].
    apply power_lt; [apply Rdiv_lt_0_compat; lra| |apply s_positive].
    apply Rmult_lt_compat_r; [apply Rinv_0_lt_compat; lra|lra].
  - (* line 15 forgets what the first sellers cost *)
    assert (k0j : (k0 < j)%nat).
    { apply Nat.nle_gt. intros le. pose proof (order j k0 le hk0). lra. }
    set (N := INR (n - j)). assert (N0 : 0 < N) by (unfold N; apply lt_0_INR; lia).
    set (A := total (n - j) (fun l => ratio r valuation j (j + l))).
    assert (Apos : 0 < A).
    { apply total_pos with 0%nat; [intros; apply power_ge0|lia|]. unfold ratio. rewrite Nat.add_0_r.
      rewrite power_pos by (apply Rdiv_lt_0_compat; auto). apply exp_pos. }
    assert (T1 : left_out n best = N - A * x).
    { unfold left_out. rewrite (total_split n j) by lia. rewrite (total_ext j _ (fun _ => 0)), total_const, Rmult_0_r, Rplus_0_l.
      - rewrite (total_ext (n - j) _ (fun l => 1 - x * ratio r valuation j (j + l))).
        + rewrite total_minus, total_const, total_scal. fold N A. ring.
        + intros l hl. rewrite (later (j + l)%nat) by lia. ring.
      - intros k hk. rewrite earlier by auto. lra. }
    assert (Ax : A * x = N - 4 * K / N) by (unfold x, line_15; fold A N; field; lra).
    assert (MN : N * theta < M).
    { unfold M, capped_sum. rewrite (total_split n j) by lia.
      assert (0 < total j (fun k => Rmin (valuation k) theta)).
      { apply total_pos with k0; [intros k hk; apply (min_ge0 n valuation K given); [auto|lia]|auto|apply Rmin_glb_lt; auto]. }
      rewrite (total_ext (n - j) _ (fun _ => theta)), total_const; [fold N; lra|].
      intros l hl. apply Rmin_right. pose proof (order j (j + l)%nat ltac:(lia) ltac:(lia)). lra. }
    pose proof best_left as T2. rewrite T1, Ax in T2.
    assert (4 * K * theta / M < 4 * K / N); [|lra].
    apply Rmult_lt_reg_r with (M * N); [apply Rmult_lt_0_compat; auto|].
    replace (4 * K * theta / M * (M * N)) with (4 * K * (N * theta)) by (field; lra).
    replace (4 * K / N * (M * N)) with (4 * K * M) by (field; lra). apply Rmult_lt_compat_l; lra.
Qed.
End Misses.

Theorem when_it_misses : when_it_misses_statement.
Proof.
  intros n valuation K r theta given order r1 isroot. split.
  - intros miss. apply Classical_Prop.NNPP. intros none. apply miss. apply (finds n valuation K r theta); auto.
  - apply (cannot_find n valuation K r theta); auto.
Qed.

(* The two sellers of ct_allocation_thm_root.v *)
Example two_in_order : market 2%nat (fun k => INR k + 1) (1 / 4) /\ sorted 2%nat (fun k => INR k + 1) /\
  exists theta, root 2%nat (fun k => INR k + 1) (1 / 4) 2 theta.
Proof.
  split; [exact two_sellers|]. split; [intros i k h _; apply le_INR in h; lra|].
  destruct (least_cost_contract 2%nat (fun k => INR k + 1) (1 / 4) 2 two_sellers ltac:(lra)) as (theta & h & _). exists theta. exact h.
Qed.

Print Assumptions when_it_misses.
