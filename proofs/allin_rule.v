(* All-in, repaired (fl-allin-alg-repaired): one text for real and for rational numbers.
   The theorems speak of it in real numbers; in rational numbers it computes. *)
Require Import List Arith Bool.
Import ListNotations.

(* What has to be read *)

(* Numbers that can be added, multiplied, divided and compared *)
Class Number (T : Type) := {
  zero : T;
  add : T -> T -> T;
  mul : T -> T -> T;
  div : T -> T -> T;
  leb : T -> T -> bool
}.

Section Rule.
Context {T : Type} {number : Number T}.
Local Infix "+" := add.
Local Infix "*" := mul.
Local Infix "/" := div.
Local Infix "<=?" := leb.

Variable owners : nat.           (* how many: 0, 1, ..., owners - 1 *)
Variable valuation : nat -> T.   (* what owner i reports that any sale costs her *)
Variable amount : nat -> T.      (* what owner i offers *)
Variable budget : T.             (* the buyer's money *)

(* What owner i asks for a unit *)
Definition ask (i : nat) : T := valuation i / amount i.

(* The sum over some owners: of amounts, or of payments *)
Definition total (some : list nat) : T := fold_right (fun i sum => amount i + sum) zero some.

(* Line 1. Leave out who asks for more than the budget; sort the others by ask, ties by place.
   [insert] puts owner i before the first who asks for at least as much. *)
Fixpoint insert (i : nat) (sorted : list nat) : list nat :=
  match sorted with
  | [] => [i]
  | j :: rest => if ask i <=? ask j then i :: sorted else j :: insert i rest
  end.

Definition order : list nat :=
  fold_right insert [] (filter (fun i => valuation i <=? budget) (seq 0 owners)).

(* Line 2. The first win, up to the first who is not covered: the pair (winners, losers). *)
Fixpoint accept (sold : T) (waiting : list nat) : list nat * list nat :=
  match waiting with
  | [] => ([], [])
  | i :: rest =>
      if ask i * (sold + amount i) <=? budget
      then let (winners, losers) := accept (sold + amount i) rest in (i :: winners, losers)
      else ([], waiting)
  end.

Definition winners : list nat := fst (accept zero order).
Definition losers : list nat := snd (accept zero order).
Definition wins (i : nat) : bool := existsb (Nat.eqb i) winners.

(* Line 3. One price for a unit: the budget over what is sold, at most what the first loser asks *)
Definition price : T :=
  let share := budget / total winners in
  match losers with
  | [] => share
  | first :: _ => if share <=? ask first then share else ask first
  end.

Definition payment (i : nat) : T := if wins i then amount i * price else zero.
End Rule.

(* The proofs, which need not be read: there are none *)
