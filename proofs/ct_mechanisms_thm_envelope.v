(* ct-mechanisms-thm-envelope: which payments make truth the best report. Claim:
   khalili-thm13-envelope.

   Where prose and formal statement differ: nowhere. Others' reports are fixed, so the seller's sale
   and payment are functions of her own report; that they are finite is that they are real numbers. *)
Require Import Reals Lra.
From Coquelicot Require Import Coquelicot.
Require Import monotone_integral.
Open Scope R_scope.

(* What has to be read *)

(* For the report s she sells [sold s] and is paid [paid s]. Utility of the truthful: *)
Definition truthful_utility (sold paid : R -> R) (valuation : R) : R :=
  paid valuation - valuation * sold valuation.

(* No type between 0 and the highest gains by another report. *)
Definition truth_is_best (sold paid : R -> R) (highest : R) : Prop :=
  forall valuation report, 0 <= valuation <= highest -> 0 <= report <= highest ->
  paid report - valuation * sold report <= truthful_utility sold paid valuation.

(* 1. What is sold never rises with the report. *)
Definition never_rises (sold : R -> R) (highest : R) : Prop :=
  forall low high, 0 <= low -> low <= high -> high <= highest -> sold high <= sold low.

(* 2. The envelope. is_RInt f a b I: the Riemann integral of f from a to b exists, and is I. *)
Definition envelope (sold paid : R -> R) (highest : R) : Prop :=
  forall valuation, 0 <= valuation <= highest ->
  is_RInt sold valuation highest
    (truthful_utility sold paid valuation - truthful_utility sold paid highest).

Definition ct_mechanisms_thm_envelope_statement : Prop :=
  forall (sold paid : R -> R) highest, 0 <= highest ->
  (truth_is_best sold paid highest <-> never_rises sold highest /\ envelope sold paid highest).

(* The proofs, which need not be read *)

Section Envelope.
Variables (x t : R -> R) (vmax : R).
Hypothesis vmax0 : 0 <= vmax.
Let U := truthful_utility x t.
Let truthful := truth_is_best x t vmax.
Let falling := never_rises x vmax.
Let env := envelope x t vmax.

Lemma squeeze : truthful -> forall p r, 0 <= p -> p <= r -> r <= vmax ->
  (r - p) * x r <= U p - U r <= (r - p) * x p.
Proof.
  intros T p r h1 h2 h3. pose proof (T p r ltac:(lra) ltac:(lra)). pose proof (T r p ltac:(lra) ltac:(lra)).
  unfold U, truthful_utility in *. lra.
Qed.

Lemma falls : truthful -> falling.
Proof.
  intros T v s h1 h2 h3. pose proof (squeeze T v s h1 h2 h3).
  destruct (Req_dec v s) as [->|]; [lra|]. nra.
Qed.

Lemma both_ways : truthful <-> falling /\ env.
Proof.
  split.
  - intros T. split; [apply falls; auto|]. intros v [v0 v1].
    change (is_RInt x v vmax (U v - U vmax)).
    apply monotone_integral; [| |lra].
    + intros p r h1 h2 h3. apply squeeze; auto; lra.
    + intros p r h1 h2 h3. apply falls; auto; lra.
  - intros [F E] v s hv hs.
    assert (I : is_RInt x v s (U v - U s)).
    { replace (U v - U s) with (@plus R_NormedModule (U v - U vmax) (@opp R_NormedModule (U s - U vmax)))
        by (unfold plus, opp; simpl; lra).
      apply (@is_RInt_Chasles R_NormedModule x v vmax s); [apply E; auto|].
      apply (@is_RInt_swap R_NormedModule), E; auto. }
    enough (U s + (s - v) * x s <= U v) by (unfold U, truthful_utility in *; lra).
    destruct (Rle_dec v s) as [l|l].
    + assert ((s - v) * x s <= U v - U s); [|lra].
      apply (is_RInt_le (fun _ => x s) x v s); auto; [exact (@is_RInt_const R_NormedModule v s (x s))|].
      intros y hy. apply F; lra.
    + apply (@is_RInt_swap R_NormedModule) in I.
      assert (@opp R_NormedModule (U v - U s) <= (v - s) * x s); [|unfold opp in *; simpl in *; lra].
      apply (is_RInt_le x (fun _ => x s) s v); auto; [lra|exact (@is_RInt_const R_NormedModule s v (x s))|].
      intros y hy. apply F; lra.
Qed.
End Envelope.

Theorem ct_mechanisms_thm_envelope : ct_mechanisms_thm_envelope_statement.
Proof. intros x t vmax v0. apply both_ways; auto. Qed.

(* The hypothesis, and both sides, can be met: who sells 1 - s at the report s is paid 1/2 - s^2/2. *)
Example linear_sale : truth_is_best (fun s => 1 - s) (fun s => (1 - s ^ 2) / 2) 1.
Proof. intros v s hv hs. unfold truthful_utility. pose proof (pow2_ge_0 (v - s)). nra. Qed.

Print Assumptions ct_mechanisms_thm_envelope.
