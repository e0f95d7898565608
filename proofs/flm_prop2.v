(* flm-prop2: FL-Market's Proposition 2 says that All-in, its Algorithm 4, is truthful,
   individually rational and budget feasible. The last two are right and are not meant here; truthful
   it is not: with V = (100, 2), amounts (100, 1) and the budget 100 the second owner has 0 from the
   truth and 98 from the lie 1/2. Claim: flm-prop2, whose verdict is "corrected".

   Where prose and formal statement differ:
   - the box passes over an owner who is not covered, the text may mean a stop: both are refuted;
   - the paper leaves ties open; there are none here;
   - rational numbers are enough to refute a statement on real ones. *)
Require Import QArith List Arith Bool.
Require Import profiles allin_rule allin_rational.
Import ListNotations.
Open Scope Q_scope.

(* What has to be read *)

(* Lines 2 and 3 of Algorithm 4: take the owners in the order of their asks, each if the budget over
   all that is taken, hers with it, covers her ask. Who is not covered ends it (stop = true), or is
   passed over (stop = false). *)
Fixpoint take (stop : bool) (valuation amount : nat -> Q) (budget sold : Q) (waiting : list nat)
    : list nat :=
  match waiting with
  | [] => []
  | i :: rest =>
      if Qle_bool (ask valuation amount i) (budget / (sold + amount i))
      then i :: take stop valuation amount budget (sold + amount i) rest
      else if stop then [] else take stop valuation amount budget sold rest
  end.

(* Line 1: the owners in the order of their asks *)
Definition printed_winners (stop : bool) (owners : nat) (valuation amount : nat -> Q) (budget : Q)
    : list nat :=
  take stop valuation amount budget 0 (fold_right (insert valuation amount) [] (seq 0 owners)).

(* Winners share the whole budget by their amounts. What owner i has, if a sale costs her [cost]: *)
Definition printed_utility (stop : bool) (owners : nat) (valuation amount : nat -> Q) (budget : Q)
    (i : nat) (cost : Q) : Q :=
  let winners := printed_winners stop owners valuation amount budget in
  if existsb (Nat.eqb i) winners
  then Qred (amount i * (budget / total amount winners) - cost)
  else 0.

(* Proposition 2, its first part, on the valuation alone: no lie brings more than the truth. *)
Definition truthful_as_printed (stop : bool) : Prop :=
  forall owners valuation amount budget i lie,
  0 < budget ->
  (forall k, (k < owners)%nat -> 0 < valuation k /\ 0 < amount k) ->
  (i < owners)%nat ->
  0 < lie ->
  printed_utility stop owners (with_own valuation i lie) amount budget i (valuation i)
  <= printed_utility stop owners valuation amount budget i (valuation i).

(* The owners of the counterexample: a list as a function of places *)
Definition list_of (numbers : list Q) (i : nat) : Q := nth i numbers 0.
Definition valuations := list_of [100; 2].
Definition amounts := list_of [100; 1].

Definition flm_prop2_statement : Prop :=
  (forall stop,
    printed_utility stop 2 valuations amounts 100 1 2 = 0 /\
    printed_utility stop 2 (with_own valuations 1 (1 # 2)) amounts 100 1 2 = 98) /\
  ~ truthful_as_printed true /\
  ~ truthful_as_printed false.

(* The proofs, which need not be read *)

Lemma numbers : forall stop,
  printed_utility stop 2 valuations amounts 100 1 2 = 0 /\
  printed_utility stop 2 (with_own valuations 1 (1 # 2)) amounts 100 1 2 = 98.
Proof. intros []; split; vm_compute; reflexivity. Qed.

Lemma refuted stop : ~ truthful_as_printed stop.
Proof.
  intros claim. destruct (numbers stop) as [truth lie].
  assert (h : 98 <= 0).
  { rewrite <- lie, <- truth. apply (claim 2%nat valuations amounts 100 1%nat (1 # 2)).
    - reflexivity.
    - intros [|[|k]] hk; [split; reflexivity|split; reflexivity|].
      exfalso. apply (Nat.nlt_0_r k). do 2 apply Nat.succ_lt_mono in hk. exact hk.
    - repeat constructor.
    - reflexivity. }
  apply (Qle_not_lt _ _ h). reflexivity.
Qed.

Theorem flm_prop2 : flm_prop2_statement.
Proof. split; [exact numbers|split; apply refuted]. Qed.

Print Assumptions flm_prop2.
