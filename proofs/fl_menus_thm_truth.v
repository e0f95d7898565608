(** fl-menus-thm-truth: sequential menus.  Bears on no claim of the paper's; it is an auction of the book's, page
    federated/menus.
    Beside the prose: the schedule of an owner is any function of her place, what was sold before and the money left
    (sizes, order and the network's weights are fixed, and so part of it) that is continuous, as linear ones between
    knots are; ties are broken by the report and the offer alone.  Definitions are in offers.v. *)
Require Import Reals Lra Lia List.
Require Import offers.
Import ListNotations.
Open Scope R_scope.

(* What has to be read *)

(* A schedule, from 0 to 2: nondecreasing, 0 at 0, at most the money left at 2, continuous *)
Definition schedule (p : R -> R) (left : R) : Prop :=
  (forall x, continuity_pt p x) /\ p 0 = 0 /\ (forall x y, 0 <= x -> x <= y -> y <= 2 -> p x <= p y) /\ p 2 <= left.

(* The menus that schedules make: losses up to 2 at the prices of the schedule *)
Definition menus (schedules : nat -> list sale -> R -> R -> R) : offers :=
  fun k past left => {| largest := 2; price := schedules k past left |}.

(* Truth is a best report, whatever the others report; the truthful do not lose; payments sum to at most B *)
Definition sequential_menus_statement : Prop :=
  forall schedules choose B, 0 <= B ->
  (forall k past left, 0 <= left -> schedule (schedules k past left) left) ->
  picks_the_best choose (menus schedules) ->
  truth_is_best choose (menus schedules) B /\
  truthful_does_not_lose choose (menus schedules) B /\
  within_the_budget choose (menus schedules) B.

(* There are such rules: for every schedule and report some loss is best *)
Definition some_loss_is_best_statement : Prop :=
  forall p left r, schedule p left -> possible r -> exists x, best r {| largest := 2; price := p |} x.

(* The proofs, which need not be read *)

Theorem sequential_menus : sequential_menus_statement.
Proof.
  intros schedules choose B B0 ok picks.
  assert (fair : affordable (menus schedules)).
  { intros k past left l0. destruct (ok k past left l0) as (cont & p0 & up & top). cbn [menus largest price].
    split; auto. split; auto. split; [lra|]. intros x (h1 & h2).
    pose proof (up 0 x ltac:(lra) h1 h2). pose proof (up x 2 h1 h2 ltac:(lra)). lra. }
  split; [|split]; [apply truth_best|apply no_loss|apply in_budget]; auto.
Qed.

Theorem some_loss_is_best : some_loss_is_best_statement.
Proof. intros p left r (cont & _) ok. apply best_exists; simpl; auto. lra. Qed.

(* A schedule that pays half of what is left for the loss 2, in proportion *)
Example half_of_what_is_left left : 0 <= left -> schedule (fun x => left / 4 * x) left.
Proof.
  intros l0. split; [|split; [lra|split; [|lra]]].
  - intros x. apply derivable_continuous_pt. apply derivable_pt_scal. apply derivable_pt_id.
  - intros x y h1 h2 h3. apply Rmult_le_compat_l; lra.
Qed.

Print Assumptions sequential_menus. Print Assumptions some_loss_is_best.
