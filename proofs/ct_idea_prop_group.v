(** ct-idea-prop-group: the losses of a group add up.  Bears on the claim khalili-group-privacy, page contracts/answer.
    Beside the prose: nothing is assumed of probabilities, so S may stand for sets of outcomes or for anything else to
    which an algorithm gives a number; a group is a list of different sellers; a database has a datum for every whole
    number, and an algorithm for n sellers is one that looks at the first n only. *)
Require Import Reals Lra Lia List FunctionalExtensionality.
Import ListNotations.
Open Scope R_scope.

(* What has to be read *)

(* A database: the datum of each seller *)
Definition database := nat -> R.

(* Every datum is between 0 and 1 *)
Definition data_allowed (d : database) : Prop := forall i, 0 <= d i <= 1.

(* d and d' differ in the data of these sellers only *)
Definition differ_only_in (group : list nat) (d d' : database) : Prop := forall i, ~ In i group -> d i = d' i.

(* chance d s is the probability that the answer on the database d is in s *)
Definition private {Event : Type} (chance : database -> Event -> R) (seller : nat) (loss : R) : Prop :=
  forall d d' s, data_allowed d -> data_allowed d' -> differ_only_in [seller] d d' ->
  chance d s <= exp loss * chance d' s.

(* The sum of the losses of a group *)
Definition group_loss (loss : nat -> R) (group : list nat) : R := fold_right (fun i sum => loss i + sum) 0 group.

Definition groups_statement : Prop :=
  forall (Event : Type) (chance : database -> Event -> R) (loss : nat -> R) (group : list nat) d d' s,
  (forall i, In i group -> private chance i (loss i)) -> NoDup group ->
  data_allowed d -> data_allowed d' -> differ_only_in group d d' ->
  chance d s <= exp (group_loss loss group) * chance d' s.

(* The proofs, which need not be read *)

Theorem groups : groups_statement.
Proof.
  intros Event chance loss group d d' s. revert d. induction group as [|i group IH]; intros d priv distinct ok ok' differ.
  - replace d with d' by (apply functional_extensionality; intros j; symmetry; apply differ; simpl; auto).
    simpl. rewrite exp_0. lra.
  - inversion distinct as [|? ? out distinct']; subst.
    set (d1 := fun j => if Nat.eq_dec j i then d' i else d j).
    assert (ok1 : data_allowed d1) by (intros j; unfold d1; destruct (Nat.eq_dec j i); [apply ok'|apply ok]).
    assert (step : chance d s <= exp (loss i) * chance d1 s).
    { apply priv; simpl; auto. intros j h. unfold d1. destruct (Nat.eq_dec j i) as [->|]; [exfalso; apply h; simpl; auto|reflexivity]. }
    assert (rest : chance d1 s <= exp (group_loss loss group) * chance d' s).
    { apply IH; auto; [intros; apply priv; simpl; auto|]. intros j h. unfold d1.
      destruct (Nat.eq_dec j i) as [->|ne]; [reflexivity|]. apply differ. intros [e|e]; [apply ne; auto|auto]. }
    simpl. rewrite exp_plus, Rmult_assoc. eapply Rle_trans; [exact step|].
    apply Rmult_le_compat_l; [left; apply exp_pos|exact rest].
Qed.

(* An answer that is 0 whatever the data is private with the loss 0 for everybody *)
Example constant_answer i : private (fun _ (s : R -> bool) => if s 0 then 1 else 0) i 0.
Proof. intros d d' s _ _ _. rewrite exp_0. destruct (s 0); lra. Qed.

Print Assumptions groups.
