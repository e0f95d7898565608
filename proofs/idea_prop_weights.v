(** idea-prop-weights: the ridge paper's weights allow the least noise.  Bears on the claims about the paper's weights,
    page ridge/guarantee.
    Beside the prose: the rate eta and the constant c are positive; privacy losses are not negative, and not all 0.
    Weights may be negative: none of them allows more either. *)
Require Import Reals Lra Lia.
Require Import totals.
Open Scope R_scope.

(* What has to be read *)

(* Weights with the sum 1, and a rate that keeps everybody's privacy loss *)
Definition keeps_the_losses (n : nat) (c : R) (loss weight : nat -> R) (rate : R) : Prop :=
  total n weight = 1 /\ 0 < rate /\ forall i, (i < n)%nat -> rate * c * weight i <= loss i.

(* The largest rate is S / c, and only the weights loss / S allow it *)
Definition least_noise_statement : Prop :=
  forall n c loss, 0 < c -> (forall i, (i < n)%nat -> 0 <= loss i) -> 0 < total n loss ->
  let S := total n loss in
  keeps_the_losses n c loss (fun i => loss i / S) (S / c) /\
  forall weight rate, keeps_the_losses n c loss weight rate ->
    rate <= S / c /\ (rate = S / c -> forall i, (i < n)%nat -> weight i = loss i / S).

(* The proofs, which need not be read *)

Theorem least_noise : least_noise_statement.
Proof.
  intros n c loss c0 pos S0 S. fold S in S0. split.
  - split; [rewrite total_div; fold S; field; lra|]. split; [apply Rdiv_lt_0_compat; auto|].
    intros i hi. right. field. lra.
  - intros weight rate (one & r0 & keep).
    assert (sum : rate * c = total n (fun i => rate * c * weight i)) by (rewrite total_scal, one; ring).
    assert (le : rate * c <= S) by (rewrite sum; apply total_le; auto).
    split; [apply Rmult_le_reg_r with c; auto; replace (S / c * c) with S by (field; lra); auto|].
    intros e i hi. assert (rc : rate * c = S) by (rewrite e; field; lra).
    pose proof (total_same n (fun i => rate * c * weight i) loss keep ltac:(fold S; lra) i hi) as same. cbv beta in same.
    rewrite rc in same. rewrite <- same. field. lra.
Qed.

(* Two people who accept 1 and 2 *)
Example two_people : 0 < total 2 (fun i => INR i + 1).
Proof. simpl. lra. Qed.

Print Assumptions least_noise.
