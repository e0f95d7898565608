(** ct-idea-thm-bound (Khalili's Theorem 1): the total loss of an accurate answer.  Bears on the claim khalili-thm1,
    page contracts/answer.
    Beside the prose: algorithms, laws and losses are those of ct_idea_thm_groups.v. *)
Require Import Reals Lra Lia List Arith.
Require Import totals ct_idea_prop_group ct_idea_thm_groups.
Import ListNotations.
Open Scope R_scope.

(* What has to be read *)

(* How many of n sellers have a positive loss *)
Definition with_positive_loss (n : nat) (loss : nat -> R) : R :=
  total n (fun i => if Rlt_dec 0 (loss i) then 1 else 0).

(* The total loss is at least ln ((n - sqrt K)^2 / K) > 0; and all but m - 1 sellers have a positive loss *)
Definition total_loss_statement : Prop :=
  forall n K mean loss, 0 < K -> accurate_algorithm n K mean loss ->
  (K < INR n ^ 2 / 4 ->
     0 < ln ((INR n - sqrt K) ^ 2 / K) /\ ln ((INR n - sqrt K) ^ 2 / K) <= total n loss) /\
  (forall m, (m <= n)%nat -> K < INR m ^ 2 / 4 -> INR n - INR m + 1 <= with_positive_loss n loss).

(* The proofs, which need not be read *)

Lemma enough K m : 0 < K -> K < INR m ^ 2 / 4 -> 2 * sqrt K < INR m.
Proof.
  intros K0 h. pose proof (sqrt_lt_R0 K K0). pose proof (sqrt_sqrt K ltac:(lra)). pose proof (pos_INR m). nra.
Qed.

(* The sellers below k without a positive loss *)
Fixpoint lossless (loss : nat -> R) (k : nat) : list nat :=
  match k with
  | O => []
  | S j => if Rlt_dec 0 (loss j) then lossless loss j else j :: lossless loss j
  end.

Lemma lossless_below loss k i : In i (lossless loss k) -> (i < k)%nat.
Proof.
  induction k as [|k IH]; simpl; [intros []|]. destruct (Rlt_dec 0 (loss k)); intros h; [specialize (IH h); lia|].
  destruct h as [<-|h]; [lia|specialize (IH h); lia].
Qed.

Lemma lossless_distinct loss k : NoDup (lossless loss k).
Proof.
  induction k as [|k IH]; simpl; [constructor|]. destruct (Rlt_dec 0 (loss k)); auto. constructor; auto.
  intros h. apply lossless_below in h. lia.
Qed.

Lemma lossless_count loss k : INR (length (lossless loss k)) = INR k - with_positive_loss k loss.
Proof.
  unfold with_positive_loss. induction k as [|k IH]; [simpl; lra|]. cbn [total lossless]. rewrite S_INR.
  destruct (Rlt_dec 0 (loss k)); [rewrite IH; lra|]. cbn [length]. rewrite S_INR, IH. lra.
Qed.

Lemma lossless_loss loss k : group_loss loss (lossless loss k) <= 0.
Proof.
  induction k as [|k IH]; simpl; [lra|]. destruct (Rlt_dec 0 (loss k)); auto. simpl. lra.
Qed.

Theorem total_loss : total_loss_statement.
Proof.
  intros n K mean loss K0 alg. split.
  - intros h. pose proof (enough K n K0 h) as large. destruct (no_algorithm_below n K mean loss K0 alg n large) as (_ & _ & all).
    specialize (all (le_n n)). pose proof (sqrt_lt_R0 K K0) as sK. pose proof (sqrt_sqrt K ltac:(lra)) as ss.
    replace (INR n / INR n * bound K n) with (bound K n) in all by (field; lra).
    set (s := sqrt K) in *. set (u := INR n / (2 * s)).
    assert (nu : INR n = u * (2 * s)) by (unfold u; field; lra).
    assert (u1 : 1 < u). { apply Rmult_lt_reg_r with (2 * s); lra. }
    assert (square : (INR n - s) ^ 2 / K = (2 * u - 1) * (2 * u - 1)) by (rewrite nu, <- ss; field; lra).
    rewrite square, ln_mult by lra.
    assert (0 < ln (2 * u - 1)) by (rewrite <- ln_1; apply ln_increasing; lra). split; [lra|].
    assert (root : u - 1 < sqrt (u ^ 2 - 1)).
    { rewrite <- (sqrt_pow2 (u - 1)) by lra. apply sqrt_lt_1; [apply pow2_ge_0|nra|nra]. }
    assert (b : bound K n = 2 * ln (u + sqrt (u ^ 2 - 1))) by reflexivity. rewrite b in all.
    assert (ln (2 * u - 1) < ln (u + sqrt (u ^ 2 - 1))) by (apply ln_increasing; lra). lra.
  - intros m mn h. pose proof (enough K m K0 h) as large. apply Rnot_lt_le. intros few.
    pose proof (lossless_count loss n) as count. set (free := lossless loss n) in *.
    assert (many : (m <= length free)%nat).
    { apply INR_le. apply Rnot_lt_le. intros lt.
      assert (S (length free) <= m)%nat by (apply INR_lt in lt; lia). apply le_INR in H. rewrite S_INR in H. lra. }
    assert (large' : 2 * sqrt K < INR (length free)) by (apply le_INR in many; lra).
    destruct (no_algorithm_below n K mean loss K0 alg (length free) large') as (positive & group & _).
    specialize (group free). pose proof (lossless_loss loss n) as none. fold free in none.
    assert (bound K (length free) <= group_loss loss free); [|lra]. apply group.
    split; [apply lossless_distinct|]. split; [reflexivity|]. intros i hi. apply lossless_below in hi. exact hi.
Qed.

(* The coin of ct_idea_thm_groups.v meets the hypotheses: one seller, K = 3/16 *)
Example coin_again :
  (exists mean loss, accurate_algorithm 1 (3 / 16) mean loss) /\ 3 / 16 < INR 1 ^ 2 / 4.
Proof. split; [eexists _, _; apply coin_for_one_seller|simpl; lra]. Qed.

Print Assumptions total_loss.
