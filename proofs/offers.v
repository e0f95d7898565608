(** Owners who are served one after the other, each with an offer that does not depend on her report.  Shared by
    fl_menus_thm_truth.v and fl_allin_thm_posted.v. *)
Require Import Reals Lra Lia List.
Import ListNotations.
Open Scope R_scope.

(* What has to be read *)

(* What an owner reports, or truly has: the cost of each privacy loss, and the largest loss that she accepts *)
Record report := { valuation : R -> R; privacy_budget : R }.

(* Costs are continuous, nothing costs nothing, and the privacy budget is not negative *)
Definition possible (r : report) : Prop :=
  (forall x, continuity_pt (valuation r) x) /\ valuation r 0 = 0 /\ 0 <= privacy_budget r.

(* An offer: the losses up to a largest one, which may be bought of her, and the price of each *)
Record offer := { largest : R; price : R -> R }.

(* A sale: a loss and what is paid for it *)
Definition sale := (R * R)%type.

(* The losses that an owner with this report can sell, and one that is best for the report *)
Definition can_sell (r : report) (o : offer) (x : R) : Prop := 0 <= x <= privacy_budget r /\ x <= largest o.
Definition best (r : report) (o : offer) (x : R) : Prop :=
  can_sell r o x /\ forall y, can_sell r o y -> price o y - valuation r y <= price o x - valuation r x.

(* offers k past left is the offer to the owner at place k: it depends on her place, on what was sold before, and on the
   money left.  Sizes and the order are public and fixed, and so part of "offers". *)
Definition offers := nat -> list sale -> R -> offer.

(* With money left, prices are continuous, nothing is paid for nothing, and no price is negative or above what is left *)
Definition affordable (menu : offers) : Prop :=
  forall k past left, 0 <= left ->
  (forall x, continuity_pt (price (menu k past left)) x) /\
  price (menu k past left) 0 = 0 /\ 0 <= largest (menu k past left) /\
  forall x, 0 <= x <= largest (menu k past left) -> 0 <= price (menu k past left) x <= left.

(* choose r o is the loss that the rule sells for the report r on the offer o: one that is best for the report *)
Definition picks_the_best (choose : report -> offer -> R) (menu : offers) : Prop :=
  forall r k past left, possible r -> 0 <= left -> best r (menu k past left) (choose r (menu k past left)).

(* Serve the owners from place k on, with this past and this money *)
Fixpoint serve (choose : report -> offer -> R) (menu : offers) (k : nat) (past : list sale) (left : R)
    (reports : list report) : list sale :=
  match reports with
  | [] => []
  | r :: others =>
      let o := menu k past left in
      let sold := choose r o in
      (sold, price o sold) :: serve choose menu (S k) (past ++ [(sold, price o sold)]) (left - price o sold) others
  end.

(* What the owner at the place after [before] sells, if she reports r *)
Definition sale_of choose menu B before r after : sale :=
  nth (length before) (serve choose menu 0 [] B (before ++ r :: after)) (0, 0).

(* What a sale is worth to an owner: money, or minus infinity if it is beyond her privacy budget *)
Inductive worth := amount (money : R) | minus_infinity.
Definition utility (truth : report) (s : sale) : worth :=
  if Rle_dec (fst s) (privacy_budget truth) then amount (snd s - valuation truth (fst s)) else minus_infinity.

(* The first is not better than the second *)
Definition not_better (w w' : worth) : Prop :=
  match w, w' with
  | minus_infinity, _ => True
  | amount _, minus_infinity => False
  | amount x, amount y => x <= y
  end.

(* Whatever the others report, no report is better than the truth *)
Definition truth_is_best choose menu B : Prop :=
  forall before after truth lie,
  Forall possible before -> possible truth -> possible lie ->
  not_better (utility truth (sale_of choose menu B before lie after)) (utility truth (sale_of choose menu B before truth after)).

(* Whatever the others report, an owner who reports the truth does not lose *)
Definition truthful_does_not_lose choose menu B : Prop :=
  forall before after truth, Forall possible before -> possible truth ->
  not_better (amount 0) (utility truth (sale_of choose menu B before truth after)).

(* The payments sum to at most B *)
Definition within_the_budget choose menu B : Prop :=
  forall reports, Forall possible reports ->
  fold_right (fun s sum => snd s + sum) 0 (serve choose menu 0 [] B reports) <= B.

(* The proofs, which need not be read *)

Section Served.
Variables (choose : report -> offer -> R) (menu : offers).
Hypothesis fair : affordable menu.
Hypothesis picks : picks_the_best choose menu.

Lemma price_bounds r k past left : possible r -> 0 <= left ->
  0 <= price (menu k past left) (choose r (menu k past left)) <= left.
Proof.
  intros pr l0. destruct (picks r k past left pr l0) as ((h1 & h2) & _). apply (fair k past left l0). lra.
Qed.

(* The offer to an owner does not depend on her report *)
Lemma served before : forall k past left, Forall possible before -> 0 <= left -> exists past' left', 0 <= left' /\
  forall r after, nth (length before) (serve choose menu k past left (before ++ r :: after)) (0, 0)
    = (choose r (menu (k + length before)%nat past' left'), price (menu (k + length before)%nat past' left') (choose r (menu (k + length before)%nat past' left'))).
Proof.
  induction before as [|b before IH]; intros k past left ok l0.
  - exists past, left. split; auto. intros r after. simpl. rewrite Nat.add_0_r. reflexivity.
  - inversion ok as [|? ? okb ok']; subst. pose proof (price_bounds b k past left okb l0).
    destruct (IH (S k) (past ++ [(choose b (menu k past left), price (menu k past left) (choose b (menu k past left)))])
      (left - price (menu k past left) (choose b (menu k past left))) ok' ltac:(lra)) as (past' & left' & l1 & eq).
    exists past', left'. split; auto. intros r after. simpl. rewrite eq. simpl.
    replace (k + S (length before))%nat with (S (k + length before)) by lia. reflexivity.
Qed.

Lemma truth_best B : 0 <= B -> truth_is_best choose menu B.
Proof.
  intros B0 before after truth lie okb okt okl. unfold sale_of.
  destruct (served before 0 [] B okb B0) as (past & left & l0 & eq). rewrite !eq. set (o := menu _ past left).
  destruct (picks truth (0 + length before)%nat past left okt l0) as (can & top). fold o in can, top.
  destruct (picks lie (0 + length before)%nat past left okl l0) as (can' & _). fold o in can'.
  unfold utility. simpl fst. simpl snd. destruct (Rle_dec (choose lie o) (privacy_budget truth)) as [inside|]; [|exact I].
  destruct (Rle_dec (choose truth o) (privacy_budget truth)) as [_|no]; [|destruct can; lra].
  simpl. apply top. destruct can'. split; lra.
Qed.

Lemma no_loss B : 0 <= B -> truthful_does_not_lose choose menu B.
Proof.
  intros B0 before after truth okb okt. unfold sale_of.
  destruct (served before 0 [] B okb B0) as (past & left & l0 & eq). rewrite !eq. set (o := menu _ past left).
  destruct (picks truth (0 + length before)%nat past left okt l0) as (can & top). fold o in can, top.
  unfold utility. simpl fst. simpl snd.
  destruct (Rle_dec (choose truth o) (privacy_budget truth)) as [_|no]; [|destruct can; lra].
  destruct okt as (_ & v0 & b0). destruct (fair (0 + length before)%nat past left l0) as (_ & p0 & large & _). fold o in p0, large.
  assert (z : price o 0 - valuation truth 0 <= price o (choose truth o) - valuation truth (choose truth o)) by (apply top; split; lra).
  simpl. lra.
Qed.

Lemma payments : forall reports k past left, Forall possible reports -> 0 <= left ->
  fold_right (fun s sum => snd s + sum) 0 (serve choose menu k past left reports) <= left.
Proof.
  induction reports as [|r others IH]; intros k past left ok l0; simpl; [lra|].
  inversion ok as [|? ? okr ok']; subst. pose proof (price_bounds r k past left okr l0).
  specialize (IH (S k) (past ++ [(choose r (menu k past left), price (menu k past left) (choose r (menu k past left)))])
    (left - price (menu k past left) (choose r (menu k past left))) ok' ltac:(lra)). lra.
Qed.

Lemma in_budget B : 0 <= B -> within_the_budget choose menu B.
Proof. intros B0 reports ok. apply payments; auto. Qed.
End Served.

(* A loss that is best exists, whatever the report and the offer *)
Lemma best_exists r o : possible r -> (forall x, continuity_pt (price o) x) -> 0 <= largest o -> exists x, best r o x.
Proof.
  intros (cont & _ & b0) contp l0. set (top := Rmin (privacy_budget r) (largest o)).
  assert (t0 : 0 <= top) by (apply Rmin_glb; auto).
  destruct (continuity_ab_maj (fun x => price o x - valuation r x) 0 top t0) as (x & most & hx).
  - intros c _. apply continuity_pt_minus; auto.
  - pose proof (Rmin_l (privacy_budget r) (largest o)). pose proof (Rmin_r (privacy_budget r) (largest o)). fold top in H, H0.
    exists x. split; [split; lra|]. intros y (h1 & h2). apply most. split; [lra|]. apply Rmin_glb; lra.
Qed.
