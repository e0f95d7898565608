(** anjarlekar-j-eq7-ir and anjarlekar-t-eq4-7: individual rationality as printed, for every report.  With J's payments
    it holds only where the seller sells the same at every report below the largest cost.  Bears on the claims
    anjarlekar-j-eq7-ir (corrected) and anjarlekar-t-eq4-7, page logistic/market.
    Beside the prose: one seller, the others' reports fixed; J's payment (8) in the form of the page's Eq.
    (eq-lg-market-envelope), with the integral up to the largest cost.  For T read u(eps) for eps. *)
Require Import Reals Lra.
From Coquelicot Require Import Coquelicot.
Open Scope R_scope.

(* What has to be read *)

(* What a seller of cost c has to bear who reports c', where the report sells eps c' and is paid for by t *)
Definition cost (eps t : R -> R) (c c' : R) : R := c * eps c' - t c'.

(* J's payments for purchases that never rise, for costs from low to high *)
Definition never_rises (eps : R -> R) (low high : R) : Prop :=
  forall c c', low <= c -> c <= c' -> c' <= high -> eps c' <= eps c.
Definition printed_payments (eps t : R -> R) (low high : R) : Prop :=
  forall c, low <= c <= high -> is_RInt eps c high (t c - c * eps c).

(* Individual rationality as printed: for all costs and all reports; and as corrected: at the truthful report *)
Definition rational_for_every_report eps t low high : Prop :=
  forall c c', low <= c <= high -> low <= c' <= high -> cost eps t c c' <= 0.
Definition rational_at_the_truth eps t low high : Prop := forall c, low <= c <= high -> cost eps t c c <= 0.

(* As corrected it always holds; as printed it holds only if all reports below the highest sell the same *)
Definition printed_rationality_statement : Prop :=
  forall eps t low high, low < high -> (forall c, low <= c <= high -> 0 <= eps c) ->
  never_rises eps low high -> printed_payments eps t low high ->
  rational_at_the_truth eps t low high /\
  (rational_for_every_report eps t low high -> forall c c', low <= c < high -> low <= c' < high -> eps c = eps c').

(* An example with numbers: costs from 0 to 1, the purchase 1 - c, so the payment (1 - c^2) / 2; the report 0 of a seller
   with the cost 1 costs her 1/2 *)
Definition one_lie_statement : Prop :=
  let eps := fun c => 1 - c in
  let t := fun c => (1 - c ^ 2) / 2 in
  never_rises eps 0 1 /\ printed_payments eps t 0 1 /\ cost eps t 1 0 = 1 / 2.

(* The proofs, which need not be read *)

Theorem printed_rationality : printed_rationality_statement.
Proof.
  intros eps t low high lh pos falls pay. split.
  - intros c hc. pose proof (pay c hc) as I. unfold cost.
    assert (0 <= t c - c * eps c); [|lra].
    apply (is_RInt_le (fun _ => 0) eps c high); auto; [lra| |intros x hx; apply pos; lra].
    assert (z : is_RInt (fun _ => 0) c high (scal (high - c) 0)) by exact (@is_RInt_const R_NormedModule c high 0).
    unfold scal in z; simpl in z; unfold mult in z; simpl in z. rewrite Rmult_0_r in z. exact z.
  - intros rational.
    assert (up : forall c c', low <= c -> c <= c' -> c' < high -> eps c <= eps c').
    { intros c c' h1 h2 h3. destruct (Req_dec c c') as [->|ne]; [lra|].
      pose proof (rational high c ltac:(lra) ltac:(lra)) as r. unfold cost in r.
      pose proof (pay c ltac:(lra)) as I. pose proof (pay c' ltac:(lra)) as I'.
      assert (J : is_RInt eps c c' ((t c - c * eps c) - (t c' - c' * eps c'))).
      { replace ((t c - c * eps c) - (t c' - c' * eps c'))
          with (@plus R_NormedModule (t c - c * eps c) (@opp R_NormedModule (t c' - c' * eps c'))) by (unfold plus, opp; simpl; lra).
        apply (@is_RInt_Chasles R_NormedModule eps c high c'); [exact I|]. apply (@is_RInt_swap R_NormedModule). exact I'. }
      assert (a : (t c - c * eps c) - (t c' - c' * eps c') <= (c' - c) * eps c).
      { apply (is_RInt_le eps (fun _ => eps c) c c'); auto; [exact (@is_RInt_const R_NormedModule c c' (eps c))|].
        intros x hx. apply falls; lra. }
      assert (b : t c' - c' * eps c' <= (high - c') * eps c').
      { apply (is_RInt_le eps (fun _ => eps c') c' high); auto; [lra|exact (@is_RInt_const R_NormedModule c' high (eps c'))|].
        intros x hx. apply falls; lra. }
      assert ((high - c') * eps c <= (high - c') * eps c') by lra.
      apply Rmult_le_reg_l with (high - c'); lra. }
    intros c c' hc hc'. destruct (Rle_dec c c') as [le|ge].
    + apply Rle_antisym; [apply up; lra|apply falls; lra].
    + apply Rle_antisym; [apply falls; lra|apply up; lra].
Qed.

Theorem one_lie : one_lie_statement.
Proof.
  split; [|split].
  - intros c c' h1 h2 h3. lra.
  - intros c hc. 
    replace ((1 - c ^ 2) / 2 - c * (1 - c)) with (minus (1 - 1 ^ 2 / 2) (c - c ^ 2 / 2)) by (unfold minus, plus, opp; simpl; field).
    apply (is_RInt_derive (fun x => x - x ^ 2 / 2) (fun x => 1 - x)).
    + intros x _. auto_derive; [exact I|]. field.
    + intros x _. apply continuity_pt_filterlim. apply derivable_continuous_pt. reg.
  - unfold cost. lra.
Qed.

Print Assumptions printed_rationality. Print Assumptions one_lie.
