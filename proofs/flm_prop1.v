(** flm-prop1 (FL-Market's Proposition 1) as printed is false: Problem 3 is not equivalent to Problem 1.  Bears on the
    claims flm-prop1, flm-problem3 and flm-alg2-optaggr (corrected), page federated/aggregation.
    Beside the prose: the error bound of Problem 1 is taken in the form of the paper's decomposition (claim
    flm-err-decomposition).  That Problem 3 is convex is right, and is not meant here.  "Equivalent" is read as: the
    weights that Problem 3 gives have the least error bound; that the two least values differ as well is not stated.  The
    paper prints no formula for the variances: those here are 1 and 100, as of two privacy losses in the ratio 10 to 1. *)
Require Import Reals Lra Lia.
Require Import totals.
Open Scope R_scope.

(* What has to be read *)

(* The market: n owners with the shares W of the data and variances, of whom the first k sell; gradients are cut at L *)
Definition market (n k : nat) (share variance : nat -> R) (L : R) : Prop :=
  (1 <= k <= n)%nat /\ 0 < L /\ (forall i, (i < n)%nat -> 0 < share i) /\ total n share = 1 /\
  (forall i, (i < k)%nat -> 0 < variance i).

(* Weights for which the error bound is finite: they sum to 1, and who sells nothing has none *)
Definition weights (n k : nat) (weight : nat -> R) : Prop :=
  (forall i, (i < n)%nat -> 0 <= weight i) /\ total n weight = 1 /\ (forall i, (k <= i)%nat -> weight i = 0).

(* The objective of Problem 1 *)
Definition error_bound (n : nat) (share variance : nat -> R) (L : R) (weight : nat -> R) : R :=
  total n (fun i => weight i ^ 2 * variance i) + (total n (fun i => Rabs (weight i - share i) * L)) ^ 2.

(* Problem 3: its objective, and its constraints on the weights x of the sellers and the variables y *)
Definition objective3 (k : nat) (variance : nat -> R) (L : R) (x y : nat -> R) : R :=
  1 / 2 * (total k (fun i => variance i * x i ^ 2) + total k (fun i => total k (fun j => L ^ 2 * y i * y j))).
Definition constraints3 (k : nat) (share x y : nat -> R) : Prop :=
  total k x = 1 /\ forall i, (i < k)%nat -> x i - share i <= y i /\ - (x i - share i) <= y i.

(* x with some y is a solution of Problem 3 *)
Definition solves3 (k : nat) (share variance : nat -> R) (L : R) (x : nat -> R) : Prop :=
  exists y, constraints3 k share x y /\
    forall x' y', constraints3 k share x' y' -> objective3 k variance L x y <= objective3 k variance L x' y'.

(* The weight of an owner is that of Problem 3, or 0 if she does not sell *)
Definition filled (k : nat) (x : nat -> R) (i : nat) : R := if Nat.ltb i k then x i else 0.

(* A market, the weights that Problem 3 gives in it, and weights with a smaller error bound *)
Definition problem3_is_not_problem1 : Prop :=
  exists n k share variance L x better,
    market n k share variance L /\
    solves3 k share variance L x /\ weights n k (filled k x) /\
    weights n k better /\
    error_bound n share variance L better < error_bound n share variance L (filled k x).

(* The proofs, which need not be read *)

(* A function given by its first three values *)
Definition three (p q r : R) (i : nat) : R := match i with 0%nat => p | 1%nat => q | 2%nat => r | _ => 0 end.

Theorem proposition1_is_false : problem3_is_not_problem1.
Proof.
  exists 3%nat, 2%nat, (three (3 / 10) (3 / 10) (4 / 10)), (three 1 100 1), 1, (three (34 / 35) (1 / 35) 0),
    (three (506 / 525) (19 / 525) 0).
  split; [|split; [|split; [|split]]].
  - split; [lia|]. split; [lra|]. split; [|split; [simpl; lra|]].
    + intros [|[|[|i]]] h; simpl; try lra; lia.
    + intros [|[|i]] h; simpl; try lra; lia.
  - exists (three (34 / 35 - 3 / 10) (3 / 10 - 1 / 35) 0). split.
    + split; [simpl; lra|]. intros [|[|i]] h; simpl; try lra; lia.
    + intros x y [sum bounds]. unfold objective3. cbn [total] in *.
      pose proof (bounds 0%nat ltac:(lia)). pose proof (bounds 1%nat ltac:(lia)). clear bounds.
      cbn [three] in *.
      set (x0 := x 0%nat) in *. set (x1 := x 1%nat) in *. set (y0 := y 0%nat) in *. set (y1 := y 1%nat) in *.
      assert (e : x0 = 1 - x1) by lra. rewrite e in *.
      assert (s : 1 - 2 * x1 <= y0 + y1) by lra. assert (p : 0 <= y0 + y1) by lra.
      assert (q : (33 / 35) ^ 2 + 2 * (33 / 35) * (y0 + y1 - 33 / 35) <= (y0 + y1) ^ 2)
        by (pose proof (pow2_ge_0 (y0 + y1 - 33 / 35)); nra).
      pose proof (pow2_ge_0 (x1 - 1 / 35)). nra.
  - unfold weights, filled. split; [|split].
    + intros [|[|[|i]]] h; simpl; lra.
    + simpl. lra.
    + intros i h. replace (Nat.ltb i 2) with false by (symmetry; apply Nat.ltb_ge; lia). reflexivity.
  - split; [|split].
    + intros [|[|[|i]]] h; simpl; lra.
    + simpl. lra.
    + intros [|[|[|i]]] h; try lia; reflexivity.
  - unfold error_bound, filled. cbn [total three Nat.ltb Nat.leb].
    rewrite (Rabs_right (506 / 525 - 3 / 10)), (Rabs_left (19 / 525 - 3 / 10)), (Rabs_left (0 - 4 / 10)),
      (Rabs_right (34 / 35 - 3 / 10)), (Rabs_left (1 / 35 - 3 / 10)) by lra.
    lra.
Qed.

Print Assumptions proposition1_is_false.
