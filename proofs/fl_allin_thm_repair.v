(* fl-allin-thm-repair: the repaired All-in is truthful, nobody truthful loses, the budget holds,
   and several names gain nothing. Claim: flm-prop2 (its correction).

   Where prose and formal statement differ:
   - ties go to the owner who stands first (the prose: to any order fixed before; number the owners
     in that order);
   - a name that does not bid is a name that asks for more than the budget: line 1 of the rule
     leaves both out alike;
   - only what the names that win sell has to be within her own amount, whatever the others of them
     offer: the theorem assumes less than the prose;
   - records are real numbers, so whole numbers too;
   - numbers are exact: the library's floats are another matter (proofs/README.md). *)
Require Import Reals Lra Psatz List Arith Bool Sorted Permutation.
Require Import profiles allin_rule.
Import ListNotations.
Open Scope R_scope.

(* What has to be read *)

(* The rule of allin_rule.v, in real numbers *)
#[global] Instance real : Number R := {|
  zero := 0;
  add := Rplus;
  mul := Rmult;
  div := Rdiv;
  leb := fun a b => if Rle_dec a b then true else false
|}.

(* An owner offers all her records with her whole privacy budget. *)
Definition offer (records privacy_budget : nat -> R) : nat -> R :=
  fun i => records i * privacy_budget i.

(* What owners may report and a buyer may have *)
Definition market (owners : nat) (valuation records privacy_budget : nat -> R) (budget : R) : Prop :=
  0 < budget /\
  forall i, (i < owners)%nat -> 0 <= valuation i /\ 0 < records i /\ 0 < privacy_budget i.

(* What owner i has from the auction of these reports, if any sale costs her [cost] *)
Definition utility (owners : nat) (valuation records privacy_budget : nat -> R) (budget : R)
    (i : nat) (cost : R) : R :=
  let amount := offer records privacy_budget in
  if wins owners valuation amount budget i
  then payment owners valuation amount budget i - cost
  else 0.

(* 1. Owner i, whose truth is valuation i, records i and privacy_budget i, has no more from saying
   anything else; she cannot sell more records, or accept more privacy loss, than she has. *)
Definition truth_is_best : Prop :=
  forall owners valuation records privacy_budget budget i said_valuation said_records said_privacy,
  market owners valuation records privacy_budget budget ->
  (i < owners)%nat ->
  0 <= said_valuation ->
  0 < said_records <= records i ->
  0 < said_privacy <= privacy_budget i ->
  utility owners (with_own valuation i said_valuation) (with_own records i said_records)
    (with_own privacy_budget i said_privacy) budget i (valuation i)
  <= utility owners valuation records privacy_budget budget i (valuation i).

(* 2. A truthful owner does not lose, *)
Definition truthful_does_not_lose : Prop :=
  forall owners valuation records privacy_budget budget i,
  market owners valuation records privacy_budget budget ->
  0 <= utility owners valuation records privacy_budget budget i (valuation i).

(* and payments sum to at most the budget. *)
Definition payments_within_budget : Prop :=
  forall owners valuation records privacy_budget budget,
  market owners valuation records privacy_budget budget ->
  total (payment owners valuation (offer records privacy_budget) budget) (seq 0 owners) <= budget.

(* What she has who bids under the names that are hers, if any sale costs her [cost] *)
Definition names_utility (owners : nat) (valuation records privacy_budget : nat -> R) (budget : R)
    (hers : nat -> bool) (cost : R) : R :=
  let amount := offer records privacy_budget in
  match filter hers (winners owners valuation amount budget) with
  | [] => 0
  | sold => total (payment owners valuation amount budget) sold - cost
  end.

(* 3. An owner could bid truthfully as i, her other names left out (they ask for more than the
   budget). She has no more from any other reports of her names, if those of them that win sell at
   most her own amount together, and all others report the same as before. *)
Definition several_names_gain_nothing : Prop :=
  forall owners valuation records privacy_budget budget i hers
    said_valuation said_records said_privacy,
  market owners valuation records privacy_budget budget ->
  market owners said_valuation said_records said_privacy budget ->
  (i < owners)%nat ->
  hers i = true ->
  (forall k, hers k = true -> k <> i -> budget < valuation k) ->
  (forall k, hers k = false -> said_valuation k = valuation k /\
    said_records k = records k /\ said_privacy k = privacy_budget k) ->
  total (offer said_records said_privacy)
    (filter hers (winners owners said_valuation (offer said_records said_privacy) budget))
  <= offer records privacy_budget i ->
  names_utility owners said_valuation said_records said_privacy budget hers (valuation i)
  <= utility owners valuation records privacy_budget budget i (valuation i).

Definition fl_allin_thm_repair_statement : Prop :=
  truth_is_best /\ truthful_does_not_lose /\ payments_within_budget /\ several_names_gain_nothing.

(* The proofs, which need not be read *)

Lemma lebP (a b : R) : reflect (a <= b) (leb a b).
Proof. simpl; destruct (Rle_dec a b); constructor; auto. Qed.

(* Sums over lists without repetition *)
Lemma total_cons x i l : total x (i :: l) = x i + total x l.
Proof. reflexivity. Qed.

Lemma total_nil x : total x [] = 0.
Proof. reflexivity. Qed.

Lemma total_app x l1 l2 : total x (l1 ++ l2) = total x l1 + total x l2.
Proof.
  induction l1 as [|i l1 IH]; [rewrite ?total_nil; simpl; lra|].
  rewrite <- app_comm_cons, !total_cons, IH. lra.
Qed.

Lemma total_pos x l : (forall i, In i l -> 0 < x i) -> 0 <= total x l.
Proof.
  induction l as [|i l IH]; intros H; [simpl; lra|].
  rewrite total_cons. specialize (IH (fun k hk => H k (or_intror hk))).
  specialize (H i (or_introl eq_refl)). lra.
Qed.

Lemma total_incl x l1 : forall l2, NoDup l1 -> incl l1 l2 ->
  (forall i, In i l2 -> 0 < x i) -> total x l1 <= total x l2.
Proof.
  induction l1 as [|i l1 IH]; intros l2 nd inc pos.
  - apply total_pos; auto.
  - inversion nd; subst. destruct (in_split i l2 (inc i (or_introl eq_refl))) as (a & b & ->).
    assert (total x l1 <= total x (a ++ b)).
    { apply IH; auto.
      - intros k hk. specialize (inc k (or_intror hk)). rewrite in_app_iff in *. simpl in inc.
        destruct inc as [|[->|]]; tauto.
      - intros k hk. apply pos. rewrite in_app_iff in *. simpl. tauto. }
    rewrite total_app in *. rewrite !total_cons. lra.
Qed.

Lemma total_ext x x' l : (forall i, In i l -> x i = x' i) -> total x l = total x' l.
Proof.
  induction l as [|i l IH]; intros H; [reflexivity|].
  rewrite !total_cons, (H i), IH; simpl; auto. intros k hk; apply H; simpl; auto.
Qed.

Section Facts.
Variables (n : nat) (V x : nat -> R) (B : R).
Hypothesis money : 0 < B.
Hypothesis values : forall i, (i < n)%nat -> 0 <= V i.
Hypothesis amounts : forall i, (i < n)%nat -> 0 < x i.

(* i stands before j, or is j *)
Definition upto i j := ask V x i < ask V x j \/ ask V x i = ask V x j /\ (i <= j)%nat.

Lemma upto_ask i j : upto i j -> ask V x i <= ask V x j.
Proof. unfold upto; lra. Qed.

Lemma insert_in i l k : In k (insert V x i l) <-> k = i \/ In k l.
Proof.
  induction l as [|j l IH]; [simpl; intuition congruence|].
  cbn [insert]. destruct (lebP (ask V x i) (ask V x j)); simpl; rewrite ?IH; intuition congruence.
Qed.

Lemma insert_sorted i l : (forall k, In k l -> (i < k)%nat) -> NoDup l ->
  StronglySorted upto l -> StronglySorted upto (insert V x i l) /\ NoDup (insert V x i l).
Proof.
  induction l as [|j l IH]; intros lt nd ss.
  - simpl. split; repeat constructor; auto.
  - inversion ss as [|? ? sl fa]; subst. inversion nd; subst. rewrite Forall_forall in fa.
    cbn [insert]. destruct (lebP (ask V x i) (ask V x j)) as [h|h].
    + split; constructor; auto.
      * rewrite Forall_forall. intros k [<-|hk].
        -- specialize (lt j (or_introl eq_refl)). unfold upto.
           destruct (Req_dec (ask V x i) (ask V x j)); [right; split; [auto|lia]|left; lra].
        -- specialize (lt k (or_intror hk)). pose proof (upto_ask _ _ (fa k hk)). unfold upto.
           destruct (Req_dec (ask V x i) (ask V x k)); [right; split; [auto|lia]|left; lra].
      * intros hi. specialize (lt i hi). lia.
    + destruct IH as [s d]; auto. { intros k hk; apply lt; simpl; auto. }
      split; constructor; auto.
      * rewrite Forall_forall. intros k hk. rewrite insert_in in hk. destruct hk as [->|hk]; auto.
        unfold upto; lra.
      * rewrite insert_in. intros [->|]; auto. specialize (lt i (or_introl eq_refl)). lia.
Qed.

Lemma sort_facts : forall m s, let l := fold_right (insert V x) [] (filter (fun i => leb (V i) B) (seq s m)) in
  StronglySorted upto l /\ NoDup l /\ forall k, In k l <-> (s <= k < s + m)%nat /\ V k <= B.
Proof.
  induction m as [|m IH]; intros s.
  - simpl. repeat split; try constructor; try tauto; lia.
  - cbn [seq filter]. specialize (IH (S s)). cbv zeta in *. destruct IH as (ss & nd & mem).
    destruct (lebP (V s) B) as [h|h].
    + cbn [fold_right]. edestruct insert_sorted as [s' d']; [|exact nd|exact ss|].
      { intros k hk. apply mem in hk. instantiate (1 := s). lia. }
      split; [|split]; auto. intros k. rewrite insert_in, mem. split.
      * intros [->|[]]; split; auto; lia.
      * intros []. destruct (Nat.eq_dec k s); [auto|right; split; auto; lia].
    + split; [|split]; auto. intros k. rewrite mem. split; intros [h1 h2]; split; auto; try lia.
      destruct (Nat.eq_dec k s); [subst; contradiction|lia].
Qed.

Lemma accept_facts : forall l sold W L, accept V x B sold l = (W, L) ->
  0 <= sold -> StronglySorted upto l -> (forall i, In i l -> 0 <= ask V x i /\ 0 < x i) ->
  l = W ++ L /\ (forall w, In w W -> ask V x w * (sold + total x W) <= B) /\
  (forall j r, L = j :: r -> B < ask V x j * (sold + total x W + x j)).
Proof.
  induction l as [|i l IH]; intros sold W L run s0 ss pos.
  - inversion run; subst. simpl. intuition discriminate.
  - cbn [accept] in run. inversion ss as [|? ? sl fa]; subst. rewrite Forall_forall in fa.
    destruct (pos i (or_introl eq_refl)) as [ui xi].
    destruct (lebP (mul (ask V x i) (add sold (x i))) B) as [h|h].
    + destruct (accept V x B (add sold (x i)) l) as [W' L'] eqn:e. inversion run; subst.
      cbn [add mul real] in *.
      destruct (IH _ _ _ e) as (-> & cov & fst_);
        [lra|auto|intros; apply pos; simpl; auto|].
      split; [reflexivity|]. rewrite total_cons. split.
      * intros w [<-|hw].
        -- destruct W' as [|w' W']; [rewrite total_nil; lra|].
           specialize (cov w' (or_introl eq_refl)).
           pose proof (upto_ask _ _ (fa w' (or_introl eq_refl))).
           assert (0 <= total x (w' :: W')).
           { apply total_pos. intros k hk. apply pos. right. apply in_or_app. left; exact hk. }
           nra.
        -- specialize (cov w hw). lra.
      * intros j r ->. specialize (fst_ j r eq_refl). lra.
    + inversion run; subst. cbn [add mul real] in *. split; [reflexivity|]. split; [simpl; tauto|].
      intros j r [= <- <-]. rewrite total_nil. lra.
Qed.

Lemma sorted_app l1 l2 : StronglySorted upto (l1 ++ l2) ->
  (forall a b, In a l1 -> In b l2 -> upto a b) /\ StronglySorted upto l2.
Proof.
  induction l1 as [|i l1 IH]; simpl; intros ss; [tauto|].
  inversion ss as [|? ? sl fa]; subst. rewrite Forall_forall in fa. destruct (IH sl) as [h1 h2].
  split; auto. intros a b [<-|ha] hb; auto. apply fa. apply in_or_app; auto.
Qed.

Let W := winners n V x B.
Let L := losers n V x B.

Lemma ask_pos i : (i < n)%nat -> 0 <= ask V x i.
Proof.
  intros h. unfold ask; simpl. apply Rmult_le_pos; auto.
  apply Rlt_le, Rinv_0_lt_compat; auto.
Qed.

Lemma ask_amount i : (i < n)%nat -> ask V x i * x i = V i.
Proof. intros h. unfold ask; simpl. field. specialize (amounts i h); lra. Qed.

Lemma facts :
  NoDup (W ++ L) /\ (forall k, In k (W ++ L) <-> (k < n)%nat /\ V k <= B) /\
  (forall w, In w W -> ask V x w * total x W <= B) /\
  (forall j r, L = j :: r -> B < ask V x j * (total x W + x j)) /\
  (forall a b, In a W -> In b L -> upto a b) /\
  (forall j r k, L = j :: r -> In k L -> upto j k).
Proof.
  destruct (sort_facts n 0) as (ss & nd & mem). fold (order n V x B) in *.
  unfold W, L, winners, losers.
  destruct (accept V x B zero (order n V x B)) as [W' L'] eqn:e. simpl fst; simpl snd.
  destruct (accept_facts _ _ _ _ e) as (eq & cov & fl); auto. { simpl; lra. }
  { intros i hi. rewrite mem in hi. split; [apply ask_pos|apply amounts]; lia. }
  rewrite eq in *. destruct (sorted_app _ _ ss) as [h1 h2].
  assert (z : forall t, zero + t = t) by (intros; simpl; lra). 
  split; [auto|]. split; [intros k; rewrite mem; intuition lia|].
  split; [intros w hw; specialize (cov w hw); rewrite z in cov; auto|].
  split; [intros j r hj; specialize (fl j r hj); rewrite z in fl; auto|].
  split; [auto|]. intros j r k -> [<-|hk].
  - right; split; auto.
  - inversion h2 as [|? ? sl fa]; subst. rewrite Forall_forall in fa. auto.
Qed.
End Facts.

(* The same in amounts, which is all that the rule looks at *)
Definition amounts_ok (n : nat) (V x : nat -> R) (B : R) : Prop :=
  0 < B /\ forall i, (i < n)%nat -> 0 <= V i /\ 0 < x i.

Definition worth (n : nat) (V x : nat -> R) (B : R) (i : nat) (cost : R) : R :=
  if wins n V x B i then payment n V x B i - cost else 0.

Lemma winsP n V x B i : reflect (In i (winners n V x B)) (wins n V x B i).
Proof.
  unfold wins. destruct (existsb _ _) eqn:e; constructor.
  - apply existsb_exists in e. destruct e as (k & hk & ek). apply Nat.eqb_eq in ek. subst; auto.
  - intros h. enough (existsb (Nat.eqb i) (winners n V x B) = true) by congruence.
    apply existsb_exists. exists i. split; auto. apply Nat.eqb_refl.
Qed.

Lemma NoDup_parts (l1 l2 : list nat) : NoDup (l1 ++ l2) ->
  NoDup l1 /\ forall k, In k l2 -> ~ In k l1.
Proof.
  induction l1 as [|i l1 IH]; simpl; intros nd; [split; [constructor|tauto]|].
  inversion nd as [|? ? out nd']; subst. destruct (IH nd') as [d s]. rewrite in_app_iff in out.
  split; [constructor; tauto|]. intros k hk [->|h]; [tauto|apply (s k hk h)].
Qed.

(* Everything that the theorems need of one auction with some winner. *)
Section Auction.
Variables (n : nat) (V x : nat -> R) (B : R).
Hypothesis ok : amounts_ok n V x B.
Let W := winners n V x B.
Let L := losers n V x B.
Let p := price n V x B.

Lemma auction :
  NoDup (W ++ L) /\ (forall k, In k (W ++ L) <-> (k < n)%nat /\ V k <= B) /\
  (forall w, In w W -> 0 < total x W /\ ask V x w * total x W <= B /\ p * total x W <= B /\
                       ask V x w <= p /\
                       (p * total x W = B \/ exists j r, L = j :: r /\ p = ask V x j)) /\
  (forall r, In r L -> p <= ask V x r) /\
  (forall j r, L = j :: r -> B < ask V x j * (total x W + x j)) /\
  (forall a b, In a W -> In b L -> ask V x a <= ask V x b) /\
  (forall j r k, L = j :: r -> In k L -> ask V x j <= ask V x k).
Proof.
  destruct ok as [money owners].
  destruct (facts n V x B) as (nd & mem & cov & fl & wl & jl); try (intros; apply owners; auto).
  fold W L in nd, mem, cov, fl, wl, jl.
  split; [auto|]. split; [auto|].
  split; [|split; [|split; [auto|split]]].
  - intros w hw.
    assert (K : 0 < total x W).
    { assert (hn : (w < n)%nat) by (apply mem, in_or_app; auto).
      assert (total x [w] <= total x W).
      { apply total_incl; [repeat constructor; simpl; tauto|intros k [<-|[]]; auto|].
        intros k hk. apply owners, mem, in_or_app; auto. }
      rewrite total_cons, total_nil in *. destruct (owners w hn). lra. }
    assert (share : B / total x W * total x W = B) by (field; lra).
    specialize (cov w hw). split; [auto|]. split; [auto|].
    assert (le : ask V x w <= B / total x W) by (apply Rmult_le_reg_r with (total x W); lra).
    unfold p, price. fold W L. destruct L as [|j r] eqn:e.
    + cbn [div real]. split; [lra|]. split; [lra|left; lra].
    + specialize (wl w j hw (or_introl eq_refl)). apply upto_ask in wl.
      destruct (lebP (div B (total x W)) (ask V x j)) as [h|h]; cbn [div real] in *.
      * split; [lra|]. split; [lra|left; lra].
      * split; [nra|]. split; [lra|right; eauto].
  - intros k hk. unfold p, price. fold W L. destruct L as [|j r] eqn:e; [destruct hk|].
    specialize (jl j r k eq_refl hk). apply upto_ask in jl.
    destruct (lebP (div B (total x W)) (ask V x j)) as [h|h]; lra.
  - intros. apply upto_ask; auto.
  - intros. apply upto_ask; eauto.
Qed.
End Auction.


Section TwoAuctions.
Variables (n : nat) (V x V' x' : nat -> R) (B : R) (i : nat).
Hypothesis ok : amounts_ok n V x B.
Hypothesis ok' : amounts_ok n V' x' B.
Hypothesis here : (i < n)%nat.
Hypothesis sameV : forall k, k <> i -> V' k = V k.
Hypothesis samex : forall k, k <> i -> x' k = x k.

Lemma same_ask k : k <> i -> ask V' x' k = ask V x k.
Proof. intros h. unfold ask. rewrite sameV, samex; auto. Qed.

Lemma same_total l : ~ In i l -> total x' l = total x l.
Proof. intros h. apply total_ext. intros k hk. apply samex. congruence. Qed.

(* Who wins with x' at the price p' also wins with more, for less. *)
Lemma wins_below : In i (winners n V' x' B) -> x' i <= x i -> V i < x' i * price n V' x' B ->
  In i (winners n V x B).
Proof.
  intros hi more less.
  destruct (auction n V x B ok) as (nd & mem & _ & _ & fl & wl & jl).
  destruct (auction n V' x' B ok') as (nd' & mem' & cov' & pl' & _).
  set (W := winners n V x B) in *. set (W' := winners n V' x' B) in *.
  set (p := price n V x B) in *. set (p' := price n V' x' B) in *.
  set (L := losers n V x B) in *. set (L' := losers n V' x' B) in *.
  destruct (cov' i hi) as (K' & _ & pK' & ap' & _).
  destruct ok as [money owners]. destruct ok' as [_ owners'].
  destruct (owners i here) as [Vi xi]. destruct (owners' i here) as [Vi' xi'].
  assert (posW' : forall k, In k W' -> 0 < x' k)
    by (intros k hk; apply owners', mem', in_or_app; auto).
  assert (p0 : 0 < p') by nra.
  assert (sub : forall l, NoDup l -> incl l W' -> p' * total x' l <= B).
  { intros l d s. pose proof (total_incl x' l W' d s posW').  nra. }
  assert (VB : V i <= B).
  { assert (h : p' * total x' [i] <= B).
    { apply sub; [repeat constructor; simpl; tauto|intros k [<-|[]]; auto]. }
    rewrite total_cons, total_nil in h. lra. }
  assert (ai : ask V x i * x i = V i) by (unfold ask; simpl; field; lra).
  assert (a0 : 0 <= ask V x i) by nra.
  assert (ap : ask V x i < p') by nra.
  assert (cheap : forall k, In k (W ++ L) -> k <> i -> ask V x k <= ask V x i -> In k W').
  { intros k hk ki le. apply mem in hk. rewrite <- (sameV k ki) in hk. apply mem' in hk.
    apply in_app_or in hk. destruct hk as [|hk]; auto. exfalso.
    specialize (pl' k hk). rewrite same_ask in pl'; auto. lra. }
  assert (hWL : In i (W ++ L)) by (apply mem; auto).
  apply in_app_or in hWL. destruct hWL as [|hL]; auto. exfalso.
  destruct (NoDup_parts _ _ nd) as [ndW iW].
  assert (WW' : incl W W').
  { intros w hw. apply cheap; [apply in_or_app; auto|intros ->; apply (iW i); auto|auto]. }
  assert (WK : 0 <= total x W).
  { apply total_pos. intros k hk. apply owners, mem, in_or_app; auto. }
  destruct L as [|j r] eqn:eL; [destruct hL|].
  specialize (fl j r eq_refl). specialize (jl j r i eq_refl hL).
  assert (jW : ~ In j W) by (apply iW; simpl; auto).
  assert (jl_ : In j (W ++ j :: r)) by (apply in_or_app; simpl; auto).
  destruct (Nat.eq_dec j i) as [->|ji].
  - assert (h : p' * total x' (i :: W) <= B).
    { apply sub; [constructor; auto|intros k [<-|hk]; auto]. }
    rewrite total_cons, same_total in h; auto. nra.
  - assert (h : p' * total x' (j :: W) <= B).
    { apply sub; [constructor; auto|intros k [<-|hk]; auto]. }
    rewrite total_cons, same_total, samex in h; auto.
    assert (0 < x j) by (apply owners, mem; auto). nra.
Qed.

(* Who wins with the price p loses if she asks for more, for the same amount. *)
Lemma loses_above : In i (winners n V x B) -> x' i = x i -> x i * price n V x B < V' i ->
  ~ In i (winners n V' x' B).
Proof.
  intros hi eqx high hi'.
  destruct (auction n V x B ok) as (nd & mem & cov & _ & fl & _).
  destruct (auction n V' x' B ok') as (nd' & mem' & cov' & _ & _ & wl' & _).
  set (W := winners n V x B) in *. set (W' := winners n V' x' B) in *.
  set (p := price n V x B) in *. set (p' := price n V' x' B) in *.
  set (L := losers n V x B) in *. set (L' := losers n V' x' B) in *.
  destruct (cov i hi) as (K & _ & pK & _ & which). destruct (cov' i hi') as (K' & aK' & _).
  destruct ok as [money owners]. destruct ok' as [_ owners'].
  destruct (owners i here) as [Vi xi].
  assert (ai : ask V' x' i * x i = V' i) by (unfold ask; simpl; rewrite eqx; field; lra).
  assert (ap : p < ask V' x' i) by nra.
  assert (a0 : 0 <= ask V' x' i) by (destruct (owners' i here); nra).
  assert (tot : forall l, total x' l = total x l).
  { intros l. apply total_ext. intros k _. destruct (Nat.eq_dec k i) as [->|]; auto. }
  rewrite tot in *.
  assert (posW' : forall k, In k W' -> 0 < x k).
  { intros k hk. apply owners, mem', in_or_app; auto. }
  assert (cheap : forall k, In k (W ++ L) -> ask V x k <= p -> In k W').
  { intros k hk le. destruct (Nat.eq_dec k i) as [->|ki]; auto.
    apply mem in hk. rewrite <- (sameV k ki) in hk. apply mem' in hk.
    apply in_app_or in hk. destruct hk as [|hk]; auto. exfalso.
    specialize (wl' i k hi' hk). rewrite (same_ask k ki) in wl'. lra. }
  destruct (NoDup_parts _ _ nd) as [ndW iW].
  assert (WW' : incl W W').
  { intros w hw. apply cheap; [apply in_or_app; auto|apply cov; auto]. }
  destruct which as [e|(j & r & e & ej)].
  - pose proof (total_incl x W W' ndW WW' posW') as h. nra.
  - specialize (fl j r e). rewrite e in *.
    assert (jW : ~ In j W) by (apply iW; simpl; auto).
    assert (h : total x (j :: W) <= total x W').
    { apply total_incl; auto; [constructor; auto|].
      intros k [<-|hk]; auto. apply cheap; [apply in_or_app; simpl; auto|lra]. }
    rewrite total_cons in h.
    assert (0 < x j) by (apply owners, mem, in_or_app; simpl; auto). nra.
Qed.
End TwoAuctions.

(* Payments sum to at most B. *)
Lemma budget_feasible n V x B : amounts_ok n V x B ->
  total (payment n V x B) (seq 0 n) <= B.
Proof.
  intros ok. destruct (auction n V x B ok) as (nd & mem & cov & _).
  set (W := winners n V x B) in *. set (p := price n V x B) in *.
  destruct (NoDup_parts _ _ nd) as [ndW _].
  assert (inc : incl W (seq 0 n)).
  { intros w hw. apply in_seq. simpl. assert (w < n)%nat by (apply mem, in_or_app; auto). lia. }
  assert (split : forall l, NoDup l -> exists l', NoDup l' /\ incl l' W /\ 
     (forall k, In k l' -> In k l) /\ total (payment n V x B) l = p * total x l').
  { induction l as [|i l IH]; intros d.
    - exists []. rewrite !total_nil. repeat split; try constructor; try (intros k []); lra.
    - inversion d; subst. destruct IH as (l' & d' & s' & b' & e'); auto.
      rewrite total_cons, e'. unfold payment at 1. destruct (winsP n V x B i) as [h|h].
      + exists (i :: l'). rewrite total_cons. cbn [mul real]. fold p. repeat split; [constructor; auto| | |lra].
        * intros k [<-|hk]; auto.
        * intros k [<-|hk]; simpl; auto.
      + exists l'. cbn [zero real]. repeat split; simpl; auto; lra. }
  destruct (split (seq 0 n) (seq_NoDup n 0)) as (l & d & s & _ & ->).
  destruct ok as [money owners].
  assert (posW : forall k, In k W -> 0 < x k) by (intros k hk; apply owners, mem, in_or_app; auto).
  destruct l as [|w l]; [rewrite total_nil; lra|].
  pose proof (total_incl x _ W d s posW). destruct (cov w (s w (or_introl eq_refl))) as (K & _ & pK & ap & _).
  assert (hw : (w < n)%nat) by (apply mem, in_or_app; left; apply s; simpl; auto).
  destruct (owners w hw).
  assert (0 <= ask V x w).
  { unfold ask; cbn [div real]. apply Rmult_le_pos; auto. apply Rlt_le, Rinv_0_lt_compat; auto. }
  nra.
Qed.

(* Who wins is paid at least what she reports. *)
Lemma individually_rational n V x B i : amounts_ok n V x B ->
  wins n V x B i = true -> V i <= payment n V x B i.
Proof.
  intros ok hi. unfold payment. rewrite hi. destruct (winsP n V x B i) as [h|]; [|discriminate].
  destruct (auction n V x B ok) as (nd & mem & cov & _). destruct ok as [money owners].
  assert (hn : (i < n)%nat) by (apply mem, in_or_app; auto). destruct (owners i hn).
  destruct (cov i h) as (_ & _ & _ & ap & _). cbn [mul real].
  assert (ai : ask V x i * x i = V i) by (unfold ask; simpl; field; lra). nra.
Qed.

Lemma truthful n V x V' x' B i : amounts_ok n V x B -> amounts_ok n V' x' B -> (i < n)%nat ->
  (forall k, k <> i -> V' k = V k) -> (forall k, k <> i -> x' k = x k) -> x' i <= x i ->
  worth n V' x' B i (V i) <= worth n V x B i (V i).
Proof.
  intros ok ok' here sV sx less.
  pose proof (wins_below n V x V' x' B i ok ok' here sV sx) as below.
  assert (honest : 0 <= worth n V x B i (V i)).
  { unfold worth. destruct (wins n V x B i) eqn:e; [|lra].
    pose proof (individually_rational n V x B i ok e). lra. }
  unfold worth at 1. destruct (winsP n V' x' B i) as [h'|]; [|auto].
  assert (pay' : payment n V' x' B i = x' i * price n V' x' B).
  { unfold payment. destruct (winsP n V' x' B i); [auto|contradiction]. }
  rewrite pay'. unfold worth in *. destruct (winsP n V x B i) as [h|h].
  - assert (pay : payment n V x B i = x i * price n V x B).
    { unfold payment. destruct (winsP n V x B i); [auto|contradiction]. }
    rewrite pay. apply Rplus_le_compat_r. apply Rnot_lt_le. intros lt.
    (* a valuation between the two thresholds would both win and lose *)
    set (m := (x i * price n V x B + x' i * price n V' x' B) / 2).
    assert (m0 : 0 <= m).
    { pose proof (individually_rational n V x B i ok) as ir. rewrite pay in ir.
      destruct (winsP n V x B i); [|contradiction]. specialize (ir eq_refl).
      destruct ok as [_ owners]. destruct (owners i here). unfold m. lra. }
    destruct ok as [money owners]. destruct (owners i here) as [Vi xi].
    assert (okm : amounts_ok n (with_own V i m) x B).
    { split; auto. intros k hk. unfold with_own. destruct (Nat.eqb k i); auto.
      split; auto. apply owners; auto. }
    assert (sm : forall k, k <> i -> with_own V i m k = V k) by (intros; apply own_other; auto).
    apply (loses_above n V x (with_own V i m) x B i (conj money owners) okm here sm); auto.
    + rewrite own_same. unfold m. lra.
    + apply (wins_below n (with_own V i m) x V' x' B i okm ok' here).
      * intros k hk. rewrite sm, sV; auto.
      * auto.
      * auto.
      * auto.
      * rewrite own_same. unfold m. lra.
  - apply Rnot_lt_le. intros lt. apply h, below; auto. lra.
Qed.

Section Names.
Variables (n : nat) (V x V' x' : nat -> R) (B : R) (i : nat) (mine : nat -> bool).
Hypothesis ok : amounts_ok n V x B.
Hypothesis ok' : amounts_ok n V' x' B.
Hypothesis here : (i < n)%nat.
Hypothesis me : mine i = true.
Hypothesis absent : forall k, mine k = true -> k <> i -> B < V k.
Hypothesis sameV : forall k, mine k = false -> V' k = V k.
Hypothesis samex : forall k, mine k = false -> x' k = x k.
Let sold := filter mine (winners n V' x' B).

Lemma names_below : sold <> [] -> total x' sold <= x i -> V i < total x' sold * price n V' x' B ->
  In i (winners n V x B).
Proof.
  intros some more less.
  destruct (auction n V x B ok) as (nd & mem & _ & _ & fl & wl & jl).
  destruct (auction n V' x' B ok') as (nd' & mem' & cov' & pl' & _).
  unfold sold in *. clear sold.
  set (W := winners n V x B) in *. set (W' := winners n V' x' B) in *.
  set (p' := price n V' x' B) in *. set (y := total x' (filter mine W')) in *.
  set (L := losers n V x B) in *. set (L' := losers n V' x' B) in *.
  destruct ok as [money owners]. destruct ok' as [_ owners'].
  destruct (owners i here) as [Vi xi].
  assert (posW' : forall k, In k W' -> 0 < x' k)
    by (intros k hk; apply owners', mem', in_or_app; auto).
  assert (hw : exists w, In w W') .
  { destruct W' as [|w r]; [exfalso; apply some; reflexivity|exists w; simpl; auto]. }
  destruct hw as [w hw]. destruct (cov' w hw) as (K' & _ & pK' & _).
  assert (y0 : 0 <= y).
  { apply total_pos. intros k hk. apply filter_In in hk. apply posW', hk. }
  assert (p0 : 0 < p') by nra.
  destruct (NoDup_parts _ _ nd) as [ndW iW]. destruct (NoDup_parts _ _ nd') as [ndW' _].
  (* what her names sell and any others among the winners' *)
  assert (sub : forall l, NoDup l -> incl l W' -> (forall k, In k l -> mine k = false) ->
                p' * (y + total x l) <= B).
  { intros l d s no. assert (h : total x' (filter mine W' ++ l) <= total x' W').
    { apply total_incl; auto.
      - clear - d no ndW'.
        assert (df : NoDup (filter mine W')) by (apply NoDup_filter; auto).
        assert (m : forall k, In k (filter mine W') -> mine k = true) by (intros k hk; apply filter_In in hk; tauto).
        induction (filter mine W') as [|a f IH]; simpl; auto. inversion df; subst.
        constructor; [|apply IH; auto; intros; apply m; simpl; auto].
        rewrite in_app_iff. intros [|h]; auto. specialize (no a h). rewrite (m a) in no; simpl; auto. discriminate.
      - intros k hk. apply in_app_or in hk. destruct hk as [hk|]; auto. apply filter_In in hk. tauto. }
    rewrite total_app in h. fold y in h.
    rewrite (total_ext x' x l) in h by (intros; apply samex; auto). nra. }
  assert (VB : V i <= B).
  { specialize (sub [] ltac:(constructor) ltac:(intros k []) ltac:(intros k [])).
    rewrite total_nil in sub. lra. }
  assert (ai : ask V x i * x i = V i) by (unfold ask; simpl; field; lra).
  assert (a0 : 0 <= ask V x i) by nra.
  assert (ap : ask V x i < p') by nra.
  assert (others : forall k, In k (W ++ L) -> k <> i -> mine k = false).
  { intros k hk ki. destruct (mine k) eqn:e; auto. apply mem in hk. specialize (absent k e ki). lra. }
  assert (cheap : forall k, In k (W ++ L) -> k <> i -> ask V x k <= ask V x i -> In k W').
  { intros k hk ki le. pose proof (others k hk ki) as no. apply mem in hk. rewrite <- (sameV k no) in hk. apply mem' in hk.
    apply in_app_or in hk. destruct hk as [|hk]; auto. exfalso.
    specialize (pl' k hk). unfold ask in pl'. rewrite (sameV k no), (samex k no) in pl'. fold (ask V x k) in pl'. lra. }
  assert (hWL : In i (W ++ L)) by (apply mem; auto).
  apply in_app_or in hWL. destruct hWL as [|hL]; auto. exfalso.
  assert (Wi : forall w, In w W -> w <> i) by (intros a ha ->; apply (iW i); auto).
  assert (WW' : incl W W').
  { intros a ha. apply cheap; [apply in_or_app; auto|auto|auto]. }
  assert (WK : 0 <= total x W).
  { apply total_pos. intros k hk. apply owners, mem, in_or_app; auto. }
  assert (Wno : forall k, In k W -> mine k = false) by (intros k hk; apply others; auto; apply in_or_app; auto).
  destruct L as [|j r] eqn:eL; [destruct hL|].
  specialize (fl j r eq_refl). specialize (jl j r i eq_refl hL).
  assert (jW : ~ In j W) by (apply iW; simpl; auto).
  assert (jl_ : In j (W ++ j :: r)) by (apply in_or_app; simpl; auto).
  destruct (Nat.eq_dec j i) as [->|ji].
  - specialize (sub W ndW WW' Wno). nra.
  - assert (h : p' * (y + total x (j :: W)) <= B).
    { apply sub; [constructor; auto|intros k [<-|hk]; auto|intros k [<-|hk]; auto]. }
    rewrite total_cons in h. assert (0 < x j) by (apply owners, mem; auto). nra.
Qed.
End Names.

Lemma no_gain_by_names n V x V' x' B i mine :
  amounts_ok n V x B -> amounts_ok n V' x' B -> (i < n)%nat -> mine i = true ->
  (forall k, mine k = true -> k <> i -> B < V k) ->
  (forall k, mine k = false -> V' k = V k /\ x' k = x k) ->
  let sold := filter mine (winners n V' x' B) in
  total x' sold <= x i -> sold <> [] ->
  total (payment n V' x' B) sold - V i <= worth n V x B i (V i).
Proof.
  intros ok ok' here me absent same sold0 more some. subst sold0.
  assert (paid : forall l, incl l (winners n V' x' B) -> total (payment n V' x' B) l = total x' l * price n V' x' B).
  { induction l as [|k l IH]; intros s; [rewrite !total_nil; lra|].
    rewrite !total_cons, IH by (intros a ha; apply s; simpl; auto).
    unfold payment. destruct (winsP n V' x' B k) as [|h]; [cbn [mul real]; lra|].
    exfalso; apply h, s; simpl; auto. }
  rewrite paid by (intros k hk; apply filter_In in hk; tauto).
  set (y := total x' (filter mine (winners n V' x' B))) in *.
  assert (honest : 0 <= worth n V x B i (V i)).
  { unfold worth. destruct (wins n V x B i) eqn:e; [|lra].
    pose proof (individually_rational n V x B i ok e). lra. }
  unfold worth in *. destruct (winsP n V x B i) as [h|h].
  - assert (pay : payment n V x B i = x i * price n V x B).
    { unfold payment. destruct (winsP n V x B i); [auto|contradiction]. }
    rewrite pay in *. apply Rplus_le_compat_r. apply Rnot_lt_le. intros lt.
    set (m := (x i * price n V x B + y * price n V' x' B) / 2).
    pose proof ok as [money owners]. destruct (owners i here) as [Vi xi].
    assert (okm : amounts_ok n (with_own V i m) x B).
    { split; auto. intros k hk. destruct (Nat.eq_dec k i) as [->|ki].
      - rewrite own_same. split; auto. unfold m; lra.
      - rewrite own_other; auto. }
    apply (loses_above n V x (with_own V i m) x B i ok okm here); auto.
    + intros; apply own_other; auto.
    + rewrite own_same. unfold m. lra.
    + apply (names_below n (with_own V i m) x V' x' B i mine okm ok' here); auto.
      * intros k hk ki. rewrite own_other; auto.
      * intros k hk. rewrite own_other; [apply same; auto|congruence].
      * intros k hk. apply same; auto.
      * rewrite own_same. fold y. unfold m. lra.
  - apply Rnot_lt_le. intros lt. apply h.
    apply (names_below n V x V' x' B i mine ok ok' here); auto.
    + intros k hk; apply same; auto.
    + intros k hk; apply same; auto.
    + fold y. lra.
Qed.
Definition names_worth n V x B mine cost : R :=
  match filter mine (winners n V x B) with
  | [] => 0
  | sold => total (payment n V x B) sold - cost
  end.

Lemma several_names n V x V' x' B i mine :
  amounts_ok n V x B -> amounts_ok n V' x' B -> (i < n)%nat -> mine i = true ->
  (forall k, mine k = true -> k <> i -> B < V k) ->
  (forall k, mine k = false -> V' k = V k /\ x' k = x k) ->
  total x' (filter mine (winners n V' x' B)) <= x i ->
  names_worth n V' x' B mine (V i) <= worth n V x B i (V i).
Proof.
  intros ok ok' here me absent same more.
  pose proof (no_gain_by_names n V x V' x' B i mine ok ok' here me absent same more) as g.
  unfold names_worth. destruct (filter mine (winners n V' x' B)) as [|w l]; [|apply g; discriminate].
  unfold worth. destruct (wins n V x B i) eqn:e; [|lra].
  pose proof (individually_rational n V x B i ok e). lra.
Qed.

(* From amounts to records and privacy budgets *)
Lemma market_amounts n V r e B : market n V r e B -> amounts_ok n V (offer r e) B.
Proof.
  intros [money ok]. split; [auto|]. intros i hi. destruct (ok i hi) as (v0 & r0 & e0).
  split; [auto|]. unfold offer. apply Rmult_lt_0_compat; auto.
Qed.

Theorem fl_allin_thm_repair : fl_allin_thm_repair_statement.
Proof.
  split; [|split; [|split]].
  - intros n V r e B i v r' e' ok here v0 [r0 r1] [e0 e1].
    assert (ok' : market n (with_own V i v) (with_own r i r') (with_own e i e') B).
    { destruct ok as [money ok]. split; [auto|]. intros k hk.
      unfold with_own. destruct (Nat.eqb_spec k i) as [->|ki]; auto. }
    apply market_amounts in ok. apply market_amounts in ok'.
    apply (truthful n V (offer r e) (with_own V i v) (offer (with_own r i r') (with_own e i e')) B i);
      auto.
    + intros k hk. apply own_other; auto.
    + intros k hk. unfold offer. rewrite !own_other; auto.
    + unfold offer. rewrite !own_same. apply Rmult_le_compat; lra.
  - intros n V r e B i ok. apply market_amounts in ok. unfold utility.
    destruct (wins n V (offer r e) B i) eqn:h; [|lra].
    pose proof (individually_rational n V (offer r e) B i ok h). lra.
  - intros n V r e B ok. apply budget_feasible, market_amounts; auto.
  - intros n V r e B i hers V' r' e' ok ok' here me absent same less.
    apply market_amounts in ok. apply market_amounts in ok'.
    apply (several_names n V (offer r e) V' (offer r' e') B i hers); auto.
    intros k hk. destruct (same k hk) as (hv & hr & he). split; [auto|].
    unfold offer. rewrite hr, he. auto.
Qed.

(* The hypotheses can be met. Two owners: *)
Example some_market : market 2 (fun i => INR i + 1) (fun _ => 1) (fun _ => 1) 10.
Proof. split; [lra|]. intros i _. pose proof (pos_INR i). lra. Qed.

(* Two names of one owner, who bids truthfully under the first, and under both with half her records *)
Example two_names :
  let truth := fun i => if Nat.eqb i 0 then 1 else 11 in
  let hers := fun _ => true in
  market 2 truth (fun _ => 1) (fun _ => 1) 10 /\
  market 2 (fun _ => 1) (fun _ => 1 / 2) (fun _ => 1) 10 /\
  (forall k, hers k = true -> k <> 0%nat -> 10 < truth k) /\
  total (offer (fun _ => 1 / 2) (fun _ => 1))
    (filter hers (winners 2 (fun _ => 1) (offer (fun _ => 1 / 2) (fun _ => 1)) 10)) <= 1 * 1.
Proof.
  cbv zeta.
  assert (ok : market 2 (fun _ => 1) (fun _ => 1 / 2) (fun _ => 1) 10)
    by (split; [lra|intros; lra]).
  split; [split; [lra|intros i _; destruct (Nat.eqb i 0); lra]|]. split; [exact ok|]. split.
  - intros k _ hk. apply Nat.eqb_neq in hk. rewrite hk. lra.
  - apply market_amounts in ok. destruct (auction _ _ _ _ ok) as (nd & mem & _).
    set (W := winners _ _ _ _) in *. destruct (NoDup_parts _ _ nd) as [ndW _].
    apply Rle_trans with (total (offer (fun _ => 1 / 2) (fun _ => 1)) [0; 1]%nat).
    + apply total_incl; [apply NoDup_filter; auto| |intros; unfold offer; lra].
      intros k hk. apply filter_In in hk. destruct hk as [hk _].
      assert (hn : (k < 2)%nat) by (apply mem, in_or_app; auto).
      destruct k as [|[|k]]; simpl; auto. lia.
    + unfold offer. rewrite !total_cons, total_nil. lra.
Qed.

Print Assumptions fl_allin_thm_repair.
