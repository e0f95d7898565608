(** ct-mechanisms-thm-constant (Khalili's Theorems 7 and 9): constant rules.  Bears on the claims khalili-thm7 (with its
    correction) and khalili-thm9, page contracts/mechanisms.
    Beside the prose: "increasing" is read as not falling, with l(0) >= 0 so that no loss has a negative cost; the loss
    of M1 is that of ct_idea_thm_p1.v; where totals are compared the largest valuation is positive. *)
Require Import Reals Lra Lia.
Require Import totals profiles ct_idea_thm_p1.
Open Scope R_scope.

(* What has to be read *)

(* The cost of a loss is the valuation times l of the loss; l does not fall, and is not negative *)
Definition cost_function (l : R -> R) : Prop := 0 <= l 0 /\ forall x y, 0 <= x -> x <= y -> l x <= l y.

(* Payments for the constant loss eps: truth is a best report, whatever the others report *)
Definition incentive_compatible (n : nat) (top : R) (l : R -> R) (eps : R) (pay : profile -> nat -> R) : Prop :=
  forall v i r, in_range n top v -> (i < n)%nat -> 0 <= r <= top ->
  pay (with_own v i r) i - v i * l eps <= pay v i - v i * l eps.

(* At the truth nobody's utility is negative *)
Definition individually_rational (n : nat) (top : R) (l : R -> R) (eps : R) (pay : profile -> nat -> R) : Prop :=
  forall v i, in_range n top v -> (i < n)%nat -> 0 <= pay v i - v i * l eps.

(* IC and IR with the least payments: no others with both properties pay any seller less at any profile *)
Definition least_payments (n : nat) (top : R) (l : R -> R) (eps : R) (pay : profile -> nat -> R) : Prop :=
  incentive_compatible n top l eps pay /\ individually_rational n top l eps pay /\
  forall pay', incentive_compatible n top l eps pay' -> individually_rational n top l eps pay' ->
    forall v i, in_range n top v -> (i < n)%nat -> pay v i <= pay' v i.

(* They are the least if and only if every seller is paid top times l eps *)
Definition constant_rule_statement : Prop :=
  forall n top l eps pay, 0 <= top -> cost_function l -> 0 <= eps ->
  (least_payments n top l eps pay <-> forall v i, in_range n top v -> (i < n)%nat -> pay v i = top * l eps).

(* M1 sells the loss of Theorem 4, M3 the loss sqrt (2 / K) of the unbiased answer; what they pay in total *)
Definition pays (n : nat) (top : R) (l : R -> R) (eps : R) : R := total n (fun _ => top * l eps).
Definition M1 (n : nat) (top K : R) (l : R -> R) : R := pays n top l (best_loss (INR n) K).
Definition M3 (n : nat) (top K : R) (l : R -> R) : R := pays n top l (sqrt (2 / K)).

Definition totals_statement : Prop :=
  forall n top K l, cost_function l -> 0 < top -> 0 < K < INR n ^ 2 / 4 ->
  M1 n top K l = INR n * top * l (best_loss (INR n) K) /\
  M3 n top K l = INR n * top * l (sqrt (2 / K)) /\
  M1 n top K l <= M3 n top K l /\
  ((forall x y, 0 <= x -> x < y -> l x < l y) -> M1 n top K l < M3 n top K l).

(* Theorem 7's last equality, top l(eps) = (top / n) sqrt ((2 n^2 - 8 K) / K) for all l, is false: for squares the total
   is n top (2 / K - 8 / n^2); two sellers, K = 1/3 and top 1 have l(eps) = 4, and the printed number is 2 *)
Definition printed_form_statement : Prop :=
  (forall n top K, 0 < K < INR n ^ 2 / 4 ->
     M1 n top K (fun x => x ^ 2) = INR n * top * (2 / K - 8 / INR n ^ 2)) /\
  best_loss 2 (1 / 3) ^ 2 = 4 /\ 1 / 2 * sqrt ((2 * 2 ^ 2 - 8 * (1 / 3)) / (1 / 3)) = 2.

(* The proofs, which need not be read *)

Theorem constant_rule : constant_rule_statement.
Proof.
  intros n top l eps pay top0 (l0 & up) eps0.
  assert (le0 : 0 <= l eps) by (pose proof (up 0 eps ltac:(lra) eps0); lra).
  (* payments with both properties are at least top l eps *)
  assert (low : forall pay', incentive_compatible n top l eps pay' -> individually_rational n top l eps pay' ->
    forall v i, in_range n top v -> (i < n)%nat -> top * l eps <= pay' v i).
  { intros pay' ic ir v i hv hi. pose proof (ic v i top hv hi ltac:(lra)).
    pose proof (ir (with_own v i top) i (own_in_range n top v i top hv ltac:(lra)) hi). rewrite own_same in H0. lra. }
  assert (flat : forall p : profile -> nat -> R, (forall v i, in_range n top v -> (i < n)%nat -> p v i = top * l eps) ->
    incentive_compatible n top l eps p /\ individually_rational n top l eps p).
  { intros p e. split.
    - intros v i r hv hi hr. rewrite !e by (auto; apply own_in_range; auto). lra.
    - intros v i hv hi. rewrite e by auto. destruct (hv i hi).
      assert (v i * l eps <= top * l eps) by (apply Rmult_le_compat_r; auto). lra. }
  split.
  - intros (ic & ir & least) v i hv hi. apply Rle_antisym; [|apply low; auto].
    destruct (flat (fun _ _ => top * l eps) ltac:(reflexivity)) as [ic' ir']. apply (least _ ic' ir' v i hv hi).
  - intros e. destruct (flat pay e) as [ic ir]. split; auto. split; auto.
    intros pay' ic' ir' v i hv hi. rewrite e by auto. apply low; auto.
Qed.

Lemma best_loss_square n K : 0 < n -> 0 < K < n ^ 2 / 4 -> 0 < best_loss n K /\ best_loss n K ^ 2 = 2 / K - 8 / n ^ 2.
Proof.
  intros n0 HK. unfold best_loss. assert (p : 0 < (2 * n ^ 2 - 8 * K) / K) by (apply Rdiv_lt_0_compat; lra). split.
  - apply Rmult_lt_0_compat; [apply Rdiv_lt_0_compat; lra|apply sqrt_lt_R0; auto].
  - rewrite Rpow_mult_distr, pow2_sqrt by lra. field. split; lra.
Qed.

Theorem totals_of_M1_and_M3 : totals_statement.
Proof.
  intros n top K l (l0 & up) top0 HK. pose proof (sellers_positive n K HK) as n0.
  destruct (best_loss_square (INR n) K n0 HK) as [b0 bsq].
  assert (less : best_loss (INR n) K < sqrt (2 / K)).
  { rewrite <- (sqrt_pow2 (best_loss (INR n) K)) by lra. apply sqrt_lt_1.
    - apply pow2_ge_0.
    - left. apply Rdiv_lt_0_compat; lra.
    - rewrite bsq. assert (0 < 8 / INR n ^ 2) by (apply Rdiv_lt_0_compat; [lra|nra]). lra. }
  unfold M1, M3, pays. rewrite !total_const. split; [ring|]. split; [ring|]. split.
  - apply Rmult_le_compat_l; [lra|]. apply Rmult_le_compat_l; [lra|]. apply up; lra.
  - intros strict. apply Rmult_lt_compat_l; auto. apply Rmult_lt_compat_l; auto. apply strict; lra.
Qed.

Theorem printed_form : printed_form_statement.
Proof.
  split; [|split].
  - intros n top K HK. pose proof (sellers_positive n K HK) as n0. unfold M1, pays. rewrite total_const.
    destruct (best_loss_square (INR n) K n0 HK) as [_ ->]. ring.
  - destruct (best_loss_square 2 (1 / 3)) as [_ ->]; lra.
  - replace ((2 * 2 ^ 2 - 8 * (1 / 3)) / (1 / 3)) with (4 * 4) by field. rewrite sqrt_square by lra. field.
Qed.

(* Ten sellers, K = 1, top 1 and squares *)
Example ten_sellers_squares : cost_function (fun x => x ^ 2) /\ 0 < 1 < INR 10 ^ 2 / 4.
Proof. split; [split; [lra|intros; apply pow_incr; lra]|simpl; lra]. Qed.

Print Assumptions constant_rule. Print Assumptions totals_of_M1_and_M3. Print Assumptions printed_form.
