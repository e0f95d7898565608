(** ct-mechanisms-thm-vcg (Khalili's Theorem 8): M2 is a VCG mechanism.  Bears on the claim khalili-thm8,
    page contracts/mechanisms.
    Beside the prose: "almost everywhere" is stated as: but for the points of one sequence.  Reports and valuations are
    between 0 and top.  The loss vectors that the accuracy allows are any set.  Losses are not negative, so l
    may be taken as 0 below 0; l is never negative.  Derivatives are meant inside the range.  Of the imported files the
    statement needs totals.v and profiles.v only. *)
Require Import Reals Lra Lia Arith Cantor.
From Coquelicot Require Import Coquelicot.
Require Import totals profiles monotone_integral lg_market_thm_monotone lg_market_thm_values.
Open Scope R_scope.

(* What has to be read *)

(* The total cost of the losses e *)
Definition total_cost (n : nat) (l : R -> R) (v : profile) (e : nat -> R) : R := total n (fun j => v j * l (e j)).

(* h v is a loss vector of least total cost, among those that the accuracy allows *)
Definition least_cost_losses (n : nat) (top : R) (l : R -> R) (allows : (nat -> R) -> Prop) (h : profile -> nat -> R) : Prop :=
  forall v, in_range n top v ->
  allows (h v) /\ forall e, allows e -> total_cost n l v (h v) <= total_cost n l v e.

(* W *)
Definition least_cost (n : nat) (l : R -> R) (h : profile -> nat -> R) (v : profile) : R := total_cost n l v (h v).

(* The payment of Khalili's Eq. (15): her cost, and the integral of l h_i over her reports up to top *)
Definition payment (l : R -> R) (top : R) (h : profile -> nat -> R) (v : profile) (i : nat) : R :=
  v i * l (h v i) + RInt (fun s => l (h (with_own v i s) i)) (v i) top.

(* Truth is a best report at every profile; nobody loses by it *)
Definition incentive_compatible (n : nat) (top : R) (l : R -> R) (h pay : profile -> nat -> R) : Prop :=
  forall v i r, in_range n top v -> (i < n)%nat -> 0 <= r <= top ->
  pay (with_own v i r) i - v i * l (h (with_own v i r) i) <= pay v i - v i * l (h v i).
Definition individually_rational (n : nat) (top : R) (l : R -> R) (h pay : profile -> nat -> R) : Prop :=
  forall v i, in_range n top v -> (i < n)%nat -> 0 <= pay v i - v i * l (h v i).

(* 1: W as a function of one valuation *)
Definition concave_least_cost_statement : Prop :=
  forall n top l allows h v i, 0 <= top -> (forall x, 0 <= l x) -> least_cost_losses n top l allows h ->
  in_range n top v -> (i < n)%nat ->
  let W := fun s => least_cost n l h (with_own v i s) in
  let sold := fun s => l (h (with_own v i s) i) in
  (forall s s' t, 0 <= s <= top -> 0 <= s' <= top -> 0 <= t <= 1 -> t * W s + (1 - t) * W s' <= W (t * s + (1 - t) * s')) /\
  (forall s slope, 0 < s < top -> derivable_pt_lim W s slope -> slope = sold s) /\
  (exists points : nat -> R, forall s, 0 < s < top -> (forall k, s <> points k) -> derivable_pt_lim W s (sold s)) /\
  (forall s s', 0 <= s -> s <= s' -> s' <= top -> sold s' <= sold s).

(* 2: the payment without an integral; 3: IC and IR, with the least payments *)
Definition vcg_statement : Prop :=
  forall n top l allows h, 0 <= top -> (forall x, 0 <= l x) -> least_cost_losses n top l allows h ->
  (forall v i, in_range n top v -> (i < n)%nat ->
     ex_RInt (fun s => l (h (with_own v i s) i)) (v i) top /\
     payment l top h v i
       = least_cost n l h (with_own v i top) - total n (fun j => if Nat.eqb j i then 0 else v j * l (h v j))) /\
  incentive_compatible n top l h (payment l top h) /\
  individually_rational n top l h (payment l top h) /\
  forall pay, incentive_compatible n top l h pay -> individually_rational n top l h pay ->
    forall v i, in_range n top v -> (i < n)%nat -> payment l top h v i <= pay v i.

(* The proofs, which need not be read *)

(* All fractions, one for each number *)
Definition fraction (k : nat) : R :=
  let (a, rest) := of_nat k in let (b, c) := of_nat rest in (INR a - INR b) / (INR c + 1).

Lemma fraction_between u w : u < w -> exists k, u < fraction k < w.
Proof.
  intros lt. destruct (archimed (/ (w - u))) as [big _].
  assert (q : 0 < / (w - u)) by (apply Rinv_0_lt_compat; lra).
  set (c := Z.to_nat (up (/ (w - u)))).
  assert (ec : INR c = IZR (up (/ (w - u)))).
  { unfold c. rewrite INR_IZR_INZ, Z2Nat.id; auto. apply le_IZR. lra. }
  assert (room : 1 < (w - u) * (INR c + 1)).
  { rewrite ec. apply Rmult_lt_reg_l with (/ (w - u)); auto. rewrite Rmult_1_r, <- Rmult_assoc, Rinv_l, Rmult_1_l by lra. lra. }
  assert (c0 : 0 < INR c + 1) by (pose proof (pos_INR c); lra).
  set (z := up (u * (INR c + 1))). destruct (archimed (u * (INR c + 1))) as [z1 z2]. fold z in z1, z2.
  assert (ez : INR (Z.to_nat z) - INR (Z.to_nat (- z)) = IZR z).
  { destruct (Z.le_ge_cases 0 z) as [p|p].
    - rewrite (INR_IZR_INZ (Z.to_nat z)), Z2Nat.id by auto. replace (Z.to_nat (- z)) with 0%nat by lia. simpl. lra.
    - rewrite (INR_IZR_INZ (Z.to_nat (- z))), Z2Nat.id by lia. replace (Z.to_nat z) with 0%nat by lia. rewrite opp_IZR. simpl. lra. }
  exists (to_nat (Z.to_nat z, to_nat (Z.to_nat (- z), c))). unfold fraction. rewrite !cancel_of_to, ez.
  split; apply Rmult_lt_reg_r with (INR c + 1); auto; unfold Rdiv; rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra; lra.
Qed.

(* A function that lies below its lines of slope x, where x does not rise, has the derivative x but for one sequence *)
Section Derivative.
Variables (V x : R -> R) (top : R).
Hypothesis top0 : 0 <= top.
Hypothesis line : forall s s', 0 <= s <= top -> 0 <= s' <= top -> V s' <= V s + x s * (s' - s).
Hypothesis falls : forall s s', 0 <= s -> s <= s' -> s' <= top -> x s' <= x s.

(* The points below which x is above the number r *)
Definition above (r s : R) : Prop := s = 0 \/ 0 <= s <= top /\ r < x s.

Lemma above_bound r : bound (above r).
Proof. exists top. intros s [->|[h _]]; lra. Qed.
Lemma above_some r : exists s, above r s.
Proof. exists 0. left. reflexivity. Qed.
Definition last_above (r : R) : R := proj1_sig (completeness (above r) (above_bound r) (above_some r)).

Lemma last_above_lub r : is_lub (above r) (last_above r).
Proof. unfold last_above. destruct (completeness _ _ _). auto. Qed.

Lemma derivative s : 0 < s < top -> (forall k, s <> last_above (fraction k)) -> derivable_pt_lim V s (x s).
Proof.
  intros hs off eps eps0.
  assert (left : exists t, 0 <= t < s /\ x t < x s + eps).
  { apply Classical_Prop.NNPP. intros none. destruct (fraction_between (x s) (x s + eps) ltac:(lra)) as (k & h1 & h2).
    apply (off k). apply (is_lub_u (above (fraction k))); [|apply last_above_lub]. split.
    - intros t [->|[ht r]]; [lra|]. apply Rnot_lt_le. intros lt. pose proof (falls s t ltac:(lra) ltac:(lra) ltac:(lra)). lra.
    - intros b ub. apply Rnot_lt_le. intros lt. set (t := (Rmax 0 b + s) / 2).
      assert (m : 0 <= Rmax 0 b < s) by (split; [apply Rmax_l|apply Rmax_lub_lt; lra]).
      assert (at_ : above (fraction k) t).
      { right. split; [unfold t; lra|]. apply Rnot_le_lt. intros le. apply none. exists t. split; [unfold t; lra|lra]. }
      pose proof (ub t at_). pose proof (Rmax_r 0 b). unfold t in *. lra. }
  assert (right : exists t, s < t <= top /\ x s - eps < x t).
  { apply Classical_Prop.NNPP. intros none. destruct (fraction_between (x s - eps) (x s) ltac:(lra)) as (k & h1 & h2).
    apply (off k). apply (is_lub_u (above (fraction k))); [|apply last_above_lub]. split.
    - intros t [->|[ht r]]; [lra|]. apply Rnot_lt_le. intros lt. apply none. exists t. split; [lra|lra].
    - intros b ub. apply ub. right. split; [lra|auto]. }
  destruct left as (a & ha & xa). destruct right as (b & hb & xb).
  assert (d0 : 0 < Rmin (s - a) (b - s)) by (apply Rmin_glb_lt; lra). exists (mkposreal _ d0). intros h h0 small. simpl in small.
  pose proof (Rmin_l (s - a) (b - s)). pose proof (Rmin_r (s - a) (b - s)). apply Rabs_def2 in small.
  pose proof (line s (s + h) ltac:(lra) ltac:(lra)) as up. pose proof (line (s + h) s ltac:(lra) ltac:(lra)) as down.
  replace ((V (s + h) - V s) / h - x s) with ((V (s + h) - V s - x s * h) / h) by (field; auto).
  assert (xh : Rabs (x (s + h) - x s) < eps).
  { destruct (Rle_dec 0 h).
    - pose proof (falls s (s + h) ltac:(lra) ltac:(lra) ltac:(lra)). pose proof (falls (s + h) b ltac:(lra) ltac:(lra) ltac:(lra)). apply Rabs_def1; lra.
    - pose proof (falls (s + h) s ltac:(lra) ltac:(lra) ltac:(lra)). pose proof (falls a (s + h) ltac:(lra) ltac:(lra) ltac:(lra)). apply Rabs_def1; lra. }
  unfold Rdiv. rewrite Rabs_mult, Rabs_inv. assert (ah : 0 < Rabs h) by (apply Rabs_pos_lt; auto).
  apply Rmult_lt_reg_r with (Rabs h); auto. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
  apply Rle_lt_trans with (Rabs (x (s + h) - x s) * Rabs h); [|apply Rmult_lt_compat_r; auto].
  rewrite <- Rabs_mult. rewrite Rabs_left1 by lra.
  apply Rle_trans with (- ((x (s + h) - x s) * h)); [lra|]. rewrite <- Rabs_Ropp. apply Rle_abs.
Qed.
End Derivative.

Section VCG.
Variables (n : nat) (top : R) (l : R -> R) (allows : (nat -> R) -> Prop) (h : profile -> nat -> R).
Hypothesis top0 : 0 <= top.
Hypothesis l0 : forall x, 0 <= l x.
Hypothesis least : least_cost_losses n top l allows h.

Section Seller.
Variables (v : profile) (i : nat).
Hypothesis ok : in_range n top v.
Hypothesis hi : (i < n)%nat.
Let W (s : R) : R := least_cost n l h (with_own v i s).
Let sold (s : R) : R := l (h (with_own v i s) i).

(* The purchases of lg_market_thm_monotone.v are here the costs l of the losses *)
Let possible (p : purchase) : Prop := exists e, allows e /\ p = fun j => l (e j).
Let choice (s : R) : purchase := fun j => l (h (with_own v i s) j).

Lemma chosen : fixed_choice n possible (fun _ => 0) 1 v i 0 top choice.
Proof.
  intros s hs. pose proof (own_in_range n top v i s ok hs) as os. destruct (least _ os) as [adm best]. split.
  - exists (h (with_own v i s)). split; auto.
  - intros other (e & he & ->). specialize (best e he). unfold objective.
    rewrite !Rplus_0_l, !Rmult_1_l. exact best.
Qed.

Lemma value s : lg_market_thm_monotone.least n (fun _ => 0) 1 v i choice s = W s.
Proof. unfold lg_market_thm_monotone.least, objective. rewrite Rplus_0_l, Rmult_1_l. reflexivity. Qed.

Lemma facts :
  (forall s s' t, 0 <= s <= top -> 0 <= s' <= top -> 0 <= t <= 1 -> t * W s + (1 - t) * W s' <= W (t * s + (1 - t) * s')) /\
  (forall s s', 0 <= s <= top -> 0 <= s' <= top -> W s' <= W s + sold s * (s' - s)) /\
  (forall s slope, 0 < s < top -> derivable_pt_lim W s slope -> slope = sold s) /\
  (forall s s', 0 <= s -> s <= s' -> s' <= top -> sold s' <= sold s).
Proof.
  destruct (minimisers_never_rise n possible (fun _ => 0) 1 v i 0 top choice hi Rlt_0_1 chosen) as (conc & line & der & falls & _).
  cbv zeta in *. split; [|split; [|split]].
  - intros s s' t h1 h2 h3. specialize (conc s s' t h1 h2 h3). rewrite !value in conc. exact conc.
  - intros s s' h1 h2. specialize (line s s' h1 h2). rewrite !value in line. unfold choice in line. fold (sold s) in line. lra.
  - intros s slope h1 h2. replace (sold s) with (1 * choice s i) by (unfold sold, choice; ring). apply der; auto.
    intros eps e0. destruct (h2 eps e0) as (delta & hd). exists delta. intros z z0 zs. rewrite !value. apply hd; auto.
  - exact falls.
Qed.

Lemma same_profile : with_own v i (v i) = v.
Proof. apply FunctionalExtensionality.functional_extensionality. intros j. unfold with_own. destruct (Nat.eqb_spec j i) as [->|]; reflexivity. Qed.

Lemma integral : is_RInt sold (v i) top (W top - W (v i)).
Proof.
  destruct facts as (_ & line & _ & falls). pose proof (ok i hi).
  replace (W top - W (v i)) with ((fun s => - W s) (v i) - (fun s => - W s) top) by ring.
  apply (monotone_integral (v i) top sold (fun s => - W s)); [| |lra].
  - intros p r h1 h2 h3. pose proof (line p r ltac:(lra) ltac:(lra)). pose proof (line r p ltac:(lra) ltac:(lra)). lra.
  - intros p r h1 h2 h3. apply falls; lra.
Qed.

Lemma others : total n (fun j => if Nat.eqb j i then 0 else v j * l (h v j)) = least_cost n l h v - v i * l (h v i).
Proof.
  rewrite total_with by exact hi. unfold least_cost, total_cost. ring.
Qed.

Lemma payment_is : payment l top h v i = W top - (least_cost n l h v - v i * l (h v i)).
Proof.
  unfold payment. fold sold. rewrite (is_RInt_unique _ _ _ _ integral). unfold W at 2. rewrite same_profile. ring.
Qed.
End Seller.

Lemma with_own_twice (v : profile) i r s : with_own (with_own v i r) i s = with_own v i s.
Proof. apply FunctionalExtensionality.functional_extensionality. intros j. unfold with_own. destruct (Nat.eqb j i); reflexivity. Qed.

Lemma pays_truth : incentive_compatible n top l h (payment l top h).
Proof.
  intros v i r ok hi hr. pose proof (own_in_range n top v i r ok hr) as okr.
  rewrite (payment_is (with_own v i r) i okr hi), (payment_is v i ok hi), with_own_twice, own_same.
  destruct (facts v i ok hi) as (_ & line & _ & _). cbv zeta in line.
  pose proof (ok i hi). pose proof (line r (v i) hr ltac:(lra)) as h1. rewrite same_profile in h1. lra.
Qed.

Lemma pays_cost : individually_rational n top l h (payment l top h).
Proof.
  intros v i ok hi. rewrite (payment_is v i ok hi). destruct (facts v i ok hi) as (_ & line & _ & _). cbv zeta in line.
  pose proof (ok i hi). pose proof (line top (v i) ltac:(lra) ltac:(lra)) as h1. rewrite same_profile in h1.
  assert (0 <= l (h (with_own v i top) i) * (top - v i)) by (apply Rmult_le_pos; [auto|lra]). lra.
Qed.

Lemma pays_least pay : incentive_compatible n top l h pay -> individually_rational n top l h pay ->
  forall v i, in_range n top v -> (i < n)%nat -> payment l top h v i <= pay v i.
Proof.
  intros ic ir v i ok hi. pose proof (ok i hi) as vi. destruct (facts v i ok hi) as (_ & _ & _ & falls). cbv zeta in falls.
  set (sold := fun s => l (h (with_own v i s) i)) in *. set (U := fun s => pay (with_own v i s) i - s * sold s).
  assert (truth : forall p r, 0 <= p <= top -> 0 <= r <= top -> pay (with_own v i r) i - p * sold r <= U p).
  { intros p r hp hr. pose proof (ic (with_own v i p) i r (own_in_range n top v i p ok hp) hi hr) as t.
    rewrite with_own_twice, own_same in t. exact t. }
  assert (I : is_RInt sold (v i) top (U (v i) - U top)).
  { apply (monotone_integral (v i) top sold U); [| |lra].
    - intros p r h1 h2 h3. pose proof (truth p r ltac:(lra) ltac:(lra)). pose proof (truth r p ltac:(lra) ltac:(lra)). unfold U in *. lra.
    - intros p r h1 h2 h3. apply falls; lra. }
  pose proof (ir (with_own v i top) i (own_in_range n top v i top ok ltac:(lra)) hi) as top_ir. rewrite own_same in top_ir.
  unfold payment. fold sold. rewrite (is_RInt_unique _ _ _ _ I). unfold U. rewrite same_profile. unfold sold at 1. rewrite same_profile.
  fold (sold top) in top_ir. lra.
Qed.
End VCG.

Theorem concave_least_cost : concave_least_cost_statement.
Proof.
  intros n top l allows h v i top0 l0 least ok hi W sold.
  destruct (facts n top l allows h least v i ok hi) as (conc & line & der & falls).
  split; [exact conc|]. split; [exact der|]. split; [|exact falls].
  exists (fun k => last_above sold top top0 (fraction k)). intros s hs off.
  apply (derivative W sold top top0 line falls s hs off).
Qed.

Theorem vcg : vcg_statement.
Proof.
  intros n top l allows h top0 l0 least. split; [|split; [|split]].
  - intros v i ok hi. split.
    + eexists. eapply integral; eauto.
    + erewrite payment_is by eauto. rewrite others by auto. reflexivity.
  - eapply pays_truth; eauto.
  - eapply pays_cost; eauto.
  - intros pay ic ir. eapply pays_least; eauto.
Qed.

(* One loss vector: everybody loses 1 *)
Example one_vector : least_cost_losses 3 1 (fun x => x ^ 2) (fun e => forall j, e j = 1) (fun _ _ => 1).
Proof. intros v _. split; [reflexivity|]. intros e he. right. apply total_ext. intros j _. rewrite he. reflexivity. Qed.

Print Assumptions concave_least_cost. Print Assumptions vcg.
