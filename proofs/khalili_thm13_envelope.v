(** khalili-thm13-envelope (Khalili's Theorem 13) as printed is false: its second condition, on the utility after any
    report, fails for a truthful mechanism.  Bears on the claim khalili-thm13-envelope, page contracts/mechanisms; the
    corrected statement is ct_mechanisms_thm_envelope.v.
    Beside the prose: one seller (or the others' reports fixed), valuations from 0 to 1.  The mechanism is M1 with l = 1:
    the same is sold at every report and paid 1.  It is stated for every y, so for any "arbitrary function". *)
Require Import Reals Lra.
From Coquelicot Require Import Coquelicot.
Open Scope R_scope.

(* What has to be read *)

(* For the report s she sells x s (the paper's l of f) and is paid t s; her utility with the valuation v *)
Definition utility (x t : R -> R) (v s : R) : R := t s - v * x s.

(* Truth is a best report for valuations and reports from 0 to 1 *)
Definition truthful (x t : R -> R) : Prop :=
  forall v s, 0 <= v <= 1 -> 0 <= s <= 1 -> utility x t v s <= utility x t v v.

(* The printed conditions: x does not rise, and the utility after the report s is y less the integral of x up to s *)
Definition printed_conditions (x t : R -> R) (y : R) : Prop :=
  (forall s s', 0 <= s -> s <= s' -> s' <= 1 -> x s' <= x s) /\
  (forall v s, 0 <= v <= 1 -> 0 <= s <= 1 -> utility x t v s = y - RInt x 0 s).

(* "If and only if" fails: a truthful mechanism meets the printed conditions for no y, and no mechanism that sells anything
   at some report meets them, truthful or not *)
Definition printed_envelope_fails : Prop :=
  (exists x t, truthful x t /\ forall y, ~ printed_conditions x t y) /\
  (forall x t y s, 0 <= s <= 1 -> x s <> 0 -> ~ printed_conditions x t y).

(* The proofs, which need not be read *)

Theorem printed_envelope_is_false : printed_envelope_fails.
Proof.
  assert (none : forall x t y s, 0 <= s <= 1 -> x s <> 0 -> ~ printed_conditions x t y).
  { intros x t y s hs ne (_ & h). apply ne. pose proof (h 0 s ltac:(lra) hs). pose proof (h 1 s ltac:(lra) hs).
    unfold utility in *. lra. }
  split; [|exact none]. exists (fun _ => 1), (fun _ => 1). split; [intros v s _ _; unfold utility; lra|].
  intros y. apply (none _ _ _ 0); lra.
Qed.

Print Assumptions printed_envelope_is_false.
