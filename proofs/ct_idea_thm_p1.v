(** ct-idea-thm-p1 (Khalili's Theorem 4): equal losses.  Bears on the claim khalili-thm4, page contracts/answer.
    Beside the prose: "the solution" is stated as admissible, of least loss, and the only one of least loss. *)
Require Import Reals Lra Lia.
Require Import totals.
Open Scope R_scope.

(* What has to be read *)

(* The numbers of the theorem, for n sellers and the error K *)
Definition best_share (n K : R) : R := 1 - 4 * K / n ^ 2.
Definition best_scale (n K : R) : R := sqrt (K / 2 - 2 * K ^ 2 / n ^ 2).
Definition best_loss (n K : R) : R := 1 / n * sqrt ((2 * n ^ 2 - 8 * K) / K).

(* The constraints if all sellers have the same share *)
Definition equal_shares (n K share scale : R) : Prop :=
  (n * (1 - share) / 2) ^ 2 + 2 * scale ^ 2 = K /\ 0 <= share <= 1 /\ 0 < scale.

(* The error of any shares and a scale *)
Definition error (n : nat) (share : nat -> R) (scale : R) : R :=
  (total n (fun i => (1 - share i) / 2)) ^ 2 + 2 * scale ^ 2.

(* The solution: it meets the constraints, no other loss is smaller, and no other share and scale have this loss *)
Definition equal_losses_statement : Prop :=
  forall (n : nat) (K : R), 0 < K < INR n ^ 2 / 4 ->
  equal_shares (INR n) K (best_share (INR n) K) (best_scale (INR n) K) /\
  best_share (INR n) K / best_scale (INR n) K = best_loss (INR n) K /\
  forall share scale, equal_shares (INR n) K share scale ->
    best_loss (INR n) K <= share / scale /\
    (share / scale = best_loss (INR n) K -> share = best_share (INR n) K /\ scale = best_scale (INR n) K).

(* No shares whatever, equal or not, and no error up to K give a smaller total loss *)
Definition no_smaller_total_statement : Prop :=
  forall (n : nat) (K : R) share scale, 0 < K < INR n ^ 2 / 4 ->
  (forall i, (i < n)%nat -> 0 <= share i <= 1) -> 0 < scale -> error n share scale <= K ->
  INR n * best_loss (INR n) K <= total n (fun i => share i / scale).

(* The proofs, which need not be read *)

(* From the total t of the shares: the inequality, and when it is an equality *)
Lemma core n K t b : 0 < n -> 0 < K < n ^ 2 / 4 -> 0 <= t -> 0 < b -> ((n - t) / 2) ^ 2 + 2 * b ^ 2 <= K ->
  n * best_loss n K <= t / b /\
  (t / b <= n * best_loss n K -> n * (n - t) = 4 * K /\ ((n - t) / 2) ^ 2 + 2 * b ^ 2 = K).
Proof.
  intros n0 HK t0 b0 e. set (L := n * best_loss n K).
  assert (Lis : L = sqrt ((2 * n ^ 2 - 8 * K) / K)) by (unfold L, best_loss; field; lra).
  assert (arg : 0 < (2 * n ^ 2 - 8 * K) / K) by (apply Rdiv_lt_0_compat; lra).
  assert (L0 : 0 < L) by (rewrite Lis; apply sqrt_lt_R0; auto).
  assert (L2 : L ^ 2 * K = 2 * n ^ 2 - 8 * K) by (rewrite Lis, pow2_sqrt by lra; field; lra).
  assert (id : t ^ 2 * K - (n ^ 2 - 4 * K) * (K - ((n - t) / 2) ^ 2) = (n * (n - t) / 2 - 2 * K) ^ 2) by field.
  pose proof (pow2_ge_0 (n * (n - t) / 2 - 2 * K)) as sq.
  assert (m : (n ^ 2 - 4 * K) * (2 * b ^ 2) <= (n ^ 2 - 4 * K) * (K - ((n - t) / 2) ^ 2)) by (apply Rmult_le_compat_l; lra).
  assert (scaled : L ^ 2 * K * b ^ 2 <= t ^ 2 * K) by (rewrite L2; lra).
  assert (Lb : L * b <= t).
  { assert ((L * b) ^ 2 <= t ^ 2). { apply Rmult_le_reg_r with K; [lra|]. replace ((L * b) ^ 2 * K) with (L ^ 2 * K * b ^ 2) by ring. auto. }
    apply Rnot_lt_le. intros lt. assert (0 < L * b) by (apply Rmult_lt_0_compat; auto). nra. }
  split.
  - apply Rmult_le_reg_r with b; auto. replace (t / b * b) with t by (field; lra). auto.
  - intros le. assert (t <= L * b). { apply (Rmult_le_compat_r b) in le; [|lra]. replace (t / b * b) with t in le by (field; lra). auto. }
    assert (eq : t = L * b) by lra. assert (t ^ 2 * K = L ^ 2 * K * b ^ 2) by (rewrite eq; ring). rewrite L2 in H0.
    assert (z : (n * (n - t) / 2 - 2 * K) ^ 2 = 0) by lra.
    assert (w : n * (n - t) / 2 - 2 * K = 0).
    { destruct (Req_dec (n * (n - t) / 2 - 2 * K) 0) as [|ne]; auto. pose proof (pow_nonzero _ 2 ne). lra. }
    split; [lra|]. apply Rmult_eq_reg_l with (n ^ 2 - 4 * K); lra.
Qed.

Lemma sellers_positive n K : 0 < K < INR n ^ 2 / 4 -> 0 < INR n.
Proof. intros HK. pose proof (pos_INR n). destruct (Req_dec (INR n) 0) as [z|]; [rewrite z in HK|]; lra. Qed.

Theorem equal_losses : equal_losses_statement.
Proof.
  intros k K HK. pose proof (sellers_positive k K HK) as n0. set (n := INR k) in *. clearbody n.
  assert (u : 0 < K / n ^ 2 < 1 / 4).
  { split; [apply Rdiv_lt_0_compat; [lra|nra]|]. apply Rmult_lt_reg_r with (n ^ 2); [nra|]. field_simplify; nra. }
  assert (b2 : K / 2 - 2 * K ^ 2 / n ^ 2 = K / 2 * (1 - 4 * (K / n ^ 2))) by (field; lra).
  assert (p : 0 < K / 2 - 2 * K ^ 2 / n ^ 2) by nra.
  assert (a0 : 0 < best_share n K <= 1) by (unfold best_share; lra).
  assert (b0 : 0 < best_scale n K) by (apply sqrt_lt_R0; auto).
  assert (sq : best_scale n K ^ 2 = K / 2 - 2 * K ^ 2 / n ^ 2) by (apply pow2_sqrt; lra).
  assert (meets : equal_shares n K (best_share n K) (best_scale n K)).
  { split; [|split; [lra|auto]]. rewrite sq. unfold best_share. field. lra. }
  split; [exact meets|]. split.
  - unfold best_loss. replace (best_share n K / best_scale n K) with (1 / n * (n * best_share n K / best_scale n K)) by (field; lra).
    f_equal. symmetry. apply Rsqr_inj; [apply sqrt_pos| |].
    + left. apply Rdiv_lt_0_compat; [apply Rmult_lt_0_compat; lra|auto].
    + rewrite Rsqr_sqrt by (left; apply Rdiv_lt_0_compat; lra).
      unfold Rsqr. replace (n * best_share n K / best_scale n K * (n * best_share n K / best_scale n K))
        with (n ^ 2 * best_share n K ^ 2 / best_scale n K ^ 2) by (field; lra).
      rewrite sq. unfold best_share. field. repeat split; nra.
  - intros a b (e & ha & hb).
    destruct (core n K (n * a) b n0 HK ltac:(apply Rmult_le_pos; lra) hb) as [le same].
    { replace ((n - n * a) / 2) with (n * (1 - a) / 2) by field. lra. }
    assert (q : n * a / b = n * (a / b)) by (field; lra). rewrite q in *.
    split; [apply Rmult_le_reg_l with n; auto|]. intros eq. rewrite eq in same. destruct (same ltac:(lra)) as [s1 s2].
    assert (as_ : a = best_share n K).
    { unfold best_share. apply Rmult_eq_reg_l with (n * n); [|nra]. replace (n * n * (1 - 4 * K / n ^ 2)) with (n * n - 4 * K) by (field; lra). lra. }
    split; auto. destruct meets as [m _]. rewrite <- as_ in m.
    assert ((b - best_scale n K) * (b + best_scale n K) = 0) by lra. apply Rmult_integral in H. destruct H; lra.
Qed.

Theorem no_smaller_total : no_smaller_total_statement.
Proof.
  intros n K share scale HK box s0 e. pose proof (sellers_positive n K HK) as n0. rewrite total_div.
  apply (core (INR n) K (total n share) scale n0 HK); auto; [apply total_nonneg; intros; apply box; auto|].
  unfold error in e. rewrite total_div, total_minus, total_const in e. replace (INR n * 1) with (INR n) in e by ring. auto.
Qed.

(* Ten sellers and the error 1 *)
Example ten_sellers : 0 < 1 < INR 10 ^ 2 / 4.
Proof. simpl. lra. Qed.

Print Assumptions equal_losses. Print Assumptions no_smaller_total.
