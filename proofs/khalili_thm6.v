(** khalili-thm6 and khalili-alg1 (Khalili's Theorem 6 and Algorithm 1) as printed are false: for the cost v eps^2
    Algorithm 1 does not find the least cost.  Bears on the claims khalili-thm6 and khalili-alg1 (corrected), page
    contracts/allocation.
    Beside the prose: the power is 2, where the exponents r - 1 and 1 / (r - 1), which print confuses, are the same and
    all numbers are rational.  We let the search try every pair (i, j), from i = 1 on; so the refutation does not
    depend on how the printed range is rounded, nor on which line is meant by "go to line 5": each of these readings
    tries some of our pairs.  Contracts whose scale would be the root of a negative number are not tried. *)
Require Import QArith List.
Import ListNotations.
Open Scope Q_scope.

(* What has to be read *)

(* The sum of a list, and a number of sellers as a rational number *)
Definition sum (l : list Q) : Q := fold_right Qplus 0 l.
Definition number (k : nat) : Q := inject_Z (Z.of_nat k).

(* Line 22: the scale that the accuracy K leaves to these shares, squared *)
Definition scale_squared (K : Q) (shares : list Q) : Q :=
  (1 # 2) * (K - (sum (map (fun share => (1 - share) / 2) shares)) ^ 2).

(* Line 23 for r = 2: the total cost, the sum of v_k (a_k / b)^2 *)
Definition cost (K : Q) (valuations shares : list Q) : Q :=
  sum (map (fun pair => fst pair * snd pair ^ 2) (combine valuations shares)) / scale_squared K shares.

(* Lines 14 and 15: the number a for the pair (i, j) *)
Definition free_share (K : Q) (valuations : list Q) (i j : nat) : Q :=
  let left := number (length valuations - j) in
  let between := firstn (i - j) (skipn j valuations) in
  let A := sum (map (fun v => nth j valuations 0 / v) between) in
  (left ^ 2 - 4 * K) / (A * left).

(* Lines 7 to 21: the shares for the pair (i, j), or nothing if a is not between 0 and 1 *)
Definition shares_tried (K : Q) (valuations : list Q) (i j : nat) : list (list Q) :=
  let n := length valuations in
  let ones := repeat 1 j in
  let zeros := repeat 0 (n - i) in
  let between := firstn (i - j) (skipn j valuations) in
  let a := free_share K valuations i j in
  if Nat.ltb j i then
    if (Qle_bool 0 a && Qle_bool a 1)%bool
    then [ones ++ map (fun v => nth j valuations 0 / v * a) between ++ zeros]
    else []
  else [ones ++ zeros].

(* Line 2, and all pairs of lines 5 and 6 *)
Definition all_tried (K : Q) (valuations : list Q) : list (list Q) :=
  let n := length valuations in
  repeat 1 n ::
  flat_map (fun i => flat_map (fun j => shares_tried K valuations i j) (seq 0 (i + 1))) (seq 1 n).

(* A contract of Khalili's problem (10): shares between 0 and 1, and the accuracy leaves a scale *)
Definition admissible (K : Q) (valuations shares : list Q) : Prop :=
  length shares = length valuations /\ (forall share, In share shares -> 0 <= share <= 1) /\ 0 < scale_squared K shares.

(* The valuations are 1/10 and 10 and the error is 1/10.  Whatever Algorithm 1 tries costs more than a contract that
   it does not try. *)
Definition algorithm1_misses_the_least_cost : Prop :=
  let valuations := [1 # 10; 10] in
  let K := 1 # 10 in
  exists better, admissible K valuations better /\
    forall tried, In tried (all_tried K valuations) -> 0 < scale_squared K tried ->
      cost K valuations better < cost K valuations tried.

(* The proofs, which need not be read *)

Theorem algorithm1_is_not_optimal : algorithm1_misses_the_least_cost.
Proof.
  exists [1; 606 # 1000]. split.
  - split; [reflexivity|]. split; [|vm_compute; reflexivity].
    intros share [<-|[<-|[]]]; split; vm_compute; discriminate.
  - assert (all : forallb (fun tried => orb (Qle_bool (scale_squared (1 # 10) tried) 0)
      (negb (Qle_bool (cost (1 # 10) [1 # 10; 10] tried) (cost (1 # 10) [1 # 10; 10] [1; 606 # 1000]))))
      (all_tried (1 # 10) [1 # 10; 10]) = true) by (vm_compute; reflexivity).
    intros tried here positive. rewrite forallb_forall in all. specialize (all tried here).
    apply Bool.orb_prop in all. destruct all as [no|yes].
    + apply Qle_bool_iff in no. apply Qle_not_lt in no. contradiction.
    + apply Bool.negb_true_iff in yes. apply Qnot_le_lt. intros no. apply Qle_bool_iff in no.
      rewrite no in yes. discriminate.
Qed.

(* It does try the contract with the share 3/5 for seller 2, at the cost 370/3 *)
Example tries_three_fifths :
  existsb (fun tried => (Qeq_bool (nth 0 tried 0) 1 && Qeq_bool (nth 1 tried 0) (3 # 5))%bool)
    (all_tried (1 # 10) [1 # 10; 10]) = true /\
  cost (1 # 10) [1 # 10; 10] [1; 3 # 5] == 370 # 3.
Proof. split; vm_compute; reflexivity. Qed.

Print Assumptions algorithm1_is_not_optimal.
