(** pr-meters-prop-sum: the biased sum.  Bears on the claims about single sellers' losses in Khalili's answer, page
    privacy/meters.
    Beside the prose: the loss between two data is the largest logarithm of the ratio of the two densities, as in
    noise_laws.v. *)
Require Import Reals Lra Lia.
Require Import totals noise_laws ct_idea_thm_biased.
Open Scope R_scope.

(* What has to be read *)

(* The answer before noise: shares a, weights q and fillers c *)
Definition biased_sum (n : nat) (share q filler x : nat -> R) : R :=
  total n (fun k => share k * q k * x k + (1 - share k) * filler k).

(* The data with y in place of seller i's *)
Definition with_datum (x : nat -> R) (i : nat) (y : R) : nat -> R := fun k => if Nat.eqb k i then y else x k.

(* The loss between two data of seller i, exactly; and the worst pair is 0 and 1 *)
Definition biased_sum_statement : Prop :=
  forall n share q filler x b i y y', (i < n)%nat -> 0 <= share i <= 1 -> 0 < b ->
  let density z := laplace b (biased_sum n share q filler (with_datum x i z)) in
  let loss z z' := share i * Rabs (q i) * Rabs (z - z') / b in
  loss_between (density y) (density y') (loss y y') /\
  (0 <= y <= 1 -> 0 <= y' <= 1 -> loss y y' <= loss 0 1).

(* The proofs, which need not be read *)

Theorem biased_sum_loss : biased_sum_statement.
Proof.
  intros n share q filler x b i y y' hi hs b0 density loss.
  assert (change : biased_sum n share q filler (with_datum x i y) - biased_sum n share q filler (with_datum x i y') = share i * (q i * (y - y'))).
  { unfold biased_sum.
    rewrite (total_one n i (fun k => share k * q k * with_datum x i y k + (1 - share k) * filler k)
      (fun k => share k * q k * with_datum x i y' k + (1 - share k) * filler k) hi).
    - unfold with_datum. rewrite Nat.eqb_refl. ring.
    - intros j _ ne. unfold with_datum. rewrite (proj2 (Nat.eqb_neq j i) ne). reflexivity. }
  split.
  - replace (loss y y') with (Rabs (biased_sum n share q filler (with_datum x i y) - biased_sum n share q filler (with_datum x i y')) / b).
    + apply laplace_loss. auto.
    + rewrite change. unfold loss. rewrite !Rabs_mult, (Rabs_right (share i)) by lra. f_equal. ring.
  - intros h h'. unfold loss. apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; auto|].
    apply Rmult_le_compat_l; [apply Rmult_le_pos; [lra|apply Rabs_pos]|].
    rewrite (Rabs_left (0 - 1)) by lra. apply Rabs_le. lra.
Qed.

(* Any numbers meet the hypotheses, for instance one seller with the share 1/2 and the scale 1 *)
Example one_seller : (0 < 1)%nat /\ 0 <= 1 / 2 <= 1 /\ 0 < 1.
Proof. split; [lia|lra]. Qed.

Print Assumptions biased_sum_loss.
