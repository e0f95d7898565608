(** khalili-thm5 (Khalili's Theorem 5, Eq. (11)) as printed is false: with its shares and its scale the answer is
    less accurate than agreed.  Bears on the claim khalili-thm5 (corrected) and on the page contracts/allocation.
    Beside the prose: the scale is stated by its square, so that all numbers are rational; the numbers s are computed
    for every index: rounded up, the printed range would leave s_1, and so seller 1's share, undefined here; the printed
    scale does not use it, and no share of seller 1 brings the error below 23/50.  Valuations are given in rising order,
    as the theorem asks. *)
Require Import QArith List.
Import ListNotations.
Open Scope Q_scope.

(* What has to be read *)

(* The sum of a list *)
Definition sum (l : list Q) : Q := fold_right Qplus 0 l.

(* s_{i+1} of the seller whose valuation is v; [before] are the i valuations below hers *)
Definition printed_s (sellers K : Q) (before : list Q) (v : Q) : Q :=
  let rest := sellers - inject_Z (Z.of_nat (length before)) in
  rest - 4 * K * v / (rest * v + sum before).

(* Is the number at most 0? *)
Definition not_positive (s : Q) : bool := Qle_bool s 0.

(* How many sellers come before the first s that is not positive: the paper's m *)
Fixpoint printed_m (sellers K : Q) (before rest : list Q) : nat :=
  match rest with
  | [] => length before
  | v :: others =>
      if not_positive (printed_s sellers K before v) then length before
      else printed_m sellers K (before ++ [v]) others
  end.

(* The share of seller m, min(s_m, 1) *)
Definition last_share (sellers K : Q) (valuations : list Q) (m : nat) : Q :=
  let s := printed_s sellers K (firstn (m - 1) valuations) (nth (m - 1) valuations 0) in
  if Qle_bool s 1 then s else 1.

(* Theorem 5's shares: 1 for the first m - 1, min(s_m, 1) for seller m, 0 for the others *)
Definition printed_shares (K : Q) (valuations : list Q) : list Q :=
  let n := length valuations in
  let sellers := inject_Z (Z.of_nat n) in
  let m := printed_m sellers K [] valuations in
  repeat 1 (m - 1) ++ last_share sellers K valuations m :: repeat 0 (n - m).

(* Theorem 5's scale, squared *)
Definition printed_scale_squared (K : Q) (valuations : list Q) : Q :=
  let sellers := inject_Z (Z.of_nat (length valuations)) in
  let m := printed_m sellers K [] valuations in
  let v := nth (m - 1) valuations 0 in
  let before := firstn (m - 1) valuations in
  let rest := sellers - inject_Z (Z.of_nat (m - 1)) in
  (1 # 2) * (K - (2 * K * v / (rest * v + sum before)) ^ 2).

(* The largest mean squared error of an answer with these shares and this scale *)
Definition worst_error (shares : list Q) (scale_squared : Q) : Q :=
  (sum (map (fun share => (1 - share) / 2) shares)) ^ 2 + 2 * scale_squared.

(* Two sellers with the valuations 1/10 and 1 and the agreed error 3/10 (below n^2/4 = 1): seller 1 gives all, seller 2
   nothing, and the error of the printed contract is 23/50.  The corrected scale, from the shares, has 3/10. *)
Definition printed_theorem5_misses_the_accuracy : Prop :=
  let valuations := [1 # 10; 1] in
  let K := 3 # 10 in
  let shares := printed_shares K valuations in
  shares = [1; 0] /\
  printed_scale_squared K valuations > 0 /\
  worst_error shares (printed_scale_squared K valuations) == 23 # 50 /\
  ~ worst_error shares (printed_scale_squared K valuations) == K /\
  worst_error shares ((1 # 2) * (K - (sum (map (fun share => (1 - share) / 2) shares)) ^ 2)) == K.

(* The proofs, which need not be read *)

Theorem printed_theorem5_is_false : printed_theorem5_misses_the_accuracy.
Proof. repeat split; vm_compute; try reflexivity; discriminate. Qed.

(* Where s_m is not above 1 the printed scale is right: the paper's worked example, v = (1, 2), K = 1/4 *)
Example worked_example :
  let shares := printed_shares (1 # 4) [1; 2] in
  length shares = 2%nat /\ nth 0 shares 0 == 1 /\ nth 1 shares 0 == 1 # 3 /\
  worst_error shares (printed_scale_squared (1 # 4) [1; 2]) == 1 # 4.
Proof. repeat split; vm_compute; reflexivity. Qed.

Print Assumptions printed_theorem5_is_false.
