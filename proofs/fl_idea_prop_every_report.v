(** fl-idea-prop-every-report: individual rationality for every report cannot be had.  Bears on the claim
    flm-truthfulness-ir-bf (corrected), page federated/market.
    Beside the prose: the auction is any function of all reports and the money, deterministic; "buys anything" means a
    privacy loss above 0.  The second part is the remark below the proposition: a valuation reported too low does harm
    as well, within the true limit. *)
Require Import Reals Lra.
Open Scope R_scope.

(* What has to be read *)

(* A bid: what a privacy loss costs the owner, the largest loss that she accepts, and her number of records *)
Record bid := { valuation : R -> R; limit : R; records : nat }.

(* A bid that an owner may truly have: nothing costs nothing, more does not cost less, the limit is positive *)
Definition possible (b : bid) : Prop :=
  valuation b 0 = 0 /\ (forall x y, 0 <= x <= y -> valuation b x <= valuation b y) /\ 0 < limit b /\
  (1 <= records b)%nat.

(* What an owner has in the end: an amount of money, or minus infinity *)
Inductive worth := amount (money : R) | minus_infinity.

(* The utility of an owner with this true bid who is sold this loss and paid this amount *)
Definition utility (truth : bid) (sold paid : R) : worth :=
  if Rle_dec sold (limit truth) then amount (paid - valuation truth sold) else minus_infinity.

Definition below_zero (w : worth) : Prop :=
  match w with
  | amount money => money < 0
  | minus_infinity => True
  end.

(* An auction turns the reports of all owners and the money into losses and payments *)
Record auction := { sold : (nat -> bid) -> R -> nat -> R; paid : (nat -> bid) -> R -> nat -> R }.

(* If an auction buys anything at all, some owner with some true bid ends below 0 by some report: here by the report
   that some reports hold, and with a true bid that has as many records as she says *)
Definition not_for_every_report_statement : Prop :=
  forall (a : auction) (reports : nat -> bid) (money : R) (owner : nat),
  possible (reports owner) -> 0 < sold a reports money owner ->
  exists truth, possible truth /\ records truth = records (reports owner) /\
    below_zero (utility truth (sold a reports money owner) (paid a reports money owner)).

(* The same with a true limit that admits what is sold, so that the utility is a number *)
Definition too_low_a_valuation_statement : Prop :=
  forall (a : auction) (reports : nat -> bid) (money : R) (owner : nat),
  possible (reports owner) -> 0 < sold a reports money owner ->
  exists truth, possible truth /\ records truth = records (reports owner) /\
    sold a reports money owner <= limit truth /\
    below_zero (utility truth (sold a reports money owner) (paid a reports money owner)).

(* The proofs, which need not be read *)

Theorem not_for_every_report : not_for_every_report_statement.
Proof.
  intros a reports money owner [_ [_ [_ some]]] positive. set (s := sold a reports money owner) in *.
  exists {| valuation := fun x => x; limit := s / 2; records := records (reports owner) |}.
  split; [unfold possible; simpl; repeat split; auto; intros; lra|]. split; [reflexivity|].
  unfold utility. simpl. destruct (Rle_dec s (s / 2)); simpl; [lra|exact I].
Qed.

Theorem too_low_a_valuation : too_low_a_valuation_statement.
Proof.
  intros a reports money owner [_ [_ [_ some]]] positive. set (s := sold a reports money owner) in *.
  set (p := paid a reports money owner). set (slope := (Rabs p + 1) / s).
  assert (slope0 : 0 < slope).
  { unfold slope. apply Rmult_lt_0_compat; [pose proof (Rabs_pos p); lra|apply Rinv_0_lt_compat; auto]. }
  exists {| valuation := fun x => slope * x; limit := s; records := records (reports owner) |}.
  split; [unfold possible; simpl; repeat split; auto; [lra|intros x y h; apply Rmult_le_compat_l; lra]|].
  split; [reflexivity|]. split; [simpl; lra|].
  unfold utility. simpl. destruct (Rle_dec s s) as [_|no]; [simpl|lra].
  replace (slope * s) with (Rabs p + 1) by (unfold slope; field; lra). pose proof (Rle_abs p). lra.
Qed.

(* An auction that buys: it sells everybody's limit for 1 *)
Example buys : exists (a : auction) (reports : nat -> bid), possible (reports 0%nat) /\ 0 < sold a reports 10 0%nat.
Proof.
  exists {| sold := fun r _ i => limit (r i); paid := fun _ _ _ => 1 |},
    (fun _ => {| valuation := fun x => 2 * x; limit := 3; records := 5 |}).
  split; [unfold possible; simpl; repeat split; intros; lra || auto with arith|simpl; lra].
Qed.

Print Assumptions not_for_every_report. Print Assumptions too_low_a_valuation.
