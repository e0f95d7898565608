(** ct-idea-thm-groups: what no algorithm can go below.  Bears on the claims khalili-thm1 and
    khalili-thm1-log-growth, page contracts/answer.
    Beside the prose: the law of an answer is given by its means of square functions a + b x + c x^2 (any law with a
    second moment has them, and an accurate answer has one).  Privacy is asked for square functions that are never
    negative: if Pr[A(D) in S] <= e^eps Pr[A(D') in S] for all sets, the means of all functions that are never negative
    are in this relation, by one integral.  So less is asked here than in the prose.  The loss of a seller is any
    number with which the algorithm is private. *)
Require Import Reals Lra Lia List Arith.
Require Import totals ct_idea_prop_group.
Import ListNotations.
Open Scope R_scope.

(* What has to be read *)

(* f x = a + b x + c x^2, and never negative *)
Definition square_function (f : R -> R) : Prop := exists a b c, forall x, f x = a + b * x + c * x ^ 2.
Definition never_negative (f : R -> R) : Prop := forall x, 0 <= f x.

(* mean f is the mean of f of the answer; the law is that of a random number *)
Record law (mean : (R -> R) -> R) : Prop := {
  mean_of_one : mean (fun _ => 1) = 1;
  mean_linear : forall s f t g, square_function f -> square_function g ->
    mean (fun x => s * f x + t * g x) = s * mean f + t * mean g;
  mean_positive : forall f, square_function f -> never_negative f -> 0 <= mean f;
  mean_extensional : forall f g, (forall x, f x = g x) -> mean f = mean g
}.

(* The square functions that are never negative, as the events of ct_idea_prop_group.v *)
Definition test := { f : R -> R | square_function f /\ never_negative f }.

(* An algorithm for n sellers: on each database the answer has a law; it is accurate for the sum, and private *)
Record accurate_algorithm (n : nat) (K : R) (mean : database -> (R -> R) -> R) (loss : nat -> R) : Prop := {
  laws : forall d, data_allowed d -> law (mean d);
  accurate : forall d, data_allowed d -> mean d (fun x => (x - total n d) ^ 2) <= K;
  losses : forall i, (i < n)%nat -> private (fun d (f : test) => mean d (proj1_sig f)) i (loss i)
}.

(* A group of m of n sellers *)
Definition group_of (n m : nat) (group : list nat) : Prop :=
  NoDup group /\ length group = m /\ forall i, In i group -> (i < n)%nat.

(* The inverse of the hyperbolic cosine, and B_m *)
Definition arcosh (x : R) : R := ln (x + sqrt (x ^ 2 - 1)).
Definition bound (K : R) (m : nat) : R := 2 * arcosh (INR m / (2 * sqrt K)).

(* Every group of m > 2 sqrt K sellers loses at least B_m > 0, and all together lose n / m times that *)
Definition no_algorithm_below_statement : Prop :=
  forall n K mean loss, 0 < K -> accurate_algorithm n K mean loss ->
  forall m, 2 * sqrt K < INR m ->
  0 < bound K m /\
  (forall group, group_of n m group -> bound K m <= group_loss loss group) /\
  ((m <= n)%nat -> INR n / INR m * bound K m <= total n loss).

(* cosh of half the bound is m / (2 sqrt K), so that arcosh is what its name says *)
Definition arcosh_statement : Prop := forall x, 1 <= x -> 0 <= arcosh x /\ cosh (arcosh x) = x.

(* The proofs, which need not be read *)

Theorem arcosh_right : arcosh_statement.
Proof.
  intros x h. unfold arcosh. assert (p : 0 <= x ^ 2 - 1) by nra. pose proof (sqrt_pos (x ^ 2 - 1)) as s0.
  pose proof (sqrt_sqrt (x ^ 2 - 1) p) as ss. set (s := sqrt (x ^ 2 - 1)) in *. split.
  - rewrite <- ln_1. destruct (Req_dec (x + s) 1) as [->|ne]; [lra|]. left. apply ln_increasing; lra.
  - unfold cosh. rewrite exp_Ropp, exp_ln by lra.
    replace (/ (x + s)) with (x - s); [field|]. apply Rmult_eq_reg_r with (x + s); [|lra]. rewrite Rinv_l by lra. nra.
Qed.

Lemma expect mean a b c : law mean ->
  mean (fun x => a + b * x + c * x ^ 2) = a + b * mean (fun x => x) + c * mean (fun x => x ^ 2).
Proof.
  intros [t l _ e].
  assert (q1 : square_function (fun _ => 1)) by (exists 1, 0, 0; intros; ring).
  assert (qx : square_function (fun x => x)) by (exists 0, 1, 0; intros; ring).
  assert (qs : square_function (fun x => x ^ 2)) by (exists 0, 0, 1; intros; ring).
  assert (q : square_function (fun x => a * 1 + b * x)) by (exists a, b, 0; intros; ring).
  rewrite (e _ (fun x => 1 * (a * 1 + b * x) + c * x ^ 2)) by (intros; ring).
  rewrite (l 1 (fun x => a * 1 + b * x) c (fun x => x ^ 2)); auto.
  rewrite (l a (fun _ => 1) b (fun x => x)); auto. rewrite t. ring.
Qed.

(* Two laws that differ by a factor of q at most, one with the mean square K about 0, the other about m *)
Lemma two_laws (P0 P1 : (R -> R) -> R) (m K q : R) : law P0 -> law P1 -> 1 < q ->
  (forall f, square_function f -> never_negative f -> P1 f <= q * P0 f /\ P0 f <= q * P1 f) ->
  P0 (fun x => (x - 0) ^ 2) <= K -> P1 (fun x => (x - m) ^ 2) <= K ->
  m ^ 2 * q / (q + 1) ^ 2 <= K.
Proof.
  intros l0 l1 e1 loss a0 a1. set (c := m ^ 2 * q / (q + 1) ^ 2).
  (* two square functions that are not negative *)
  set (f := fun x => (q * (x ^ 2 - c) + ((x - m) ^ 2 - c))).
  set (g := fun x => ((x ^ 2 - c) + q * ((x - m) ^ 2 - c))).
  assert (cq : c * (q + 1) = m ^ 2 * q / (q + 1)) by (unfold c; field; lra).
  assert (ff : forall x, f x = (m ^ 2 - c * (q + 1)) + (-2 * m) * x + (q + 1) * x ^ 2) by (intros; unfold f; ring).
  assert (gg : forall x, g x = (q * m ^ 2 - c * (q + 1)) + (-2 * q * m) * x + (q + 1) * x ^ 2) by (intros; unfold g; ring).
  assert (f0 : forall x, 0 <= f x).
  { intros x. rewrite ff, cq. replace (m ^ 2 - m ^ 2 * q / (q + 1) + -2 * m * x + (q + 1) * x ^ 2)
      with (((q + 1) * x - m) ^ 2 / (q + 1)) by (field; lra).
    apply Rmult_le_pos; [apply pow2_ge_0|left; apply Rinv_0_lt_compat; lra]. }
  assert (g0 : forall x, 0 <= g x).
  { intros x. rewrite gg, cq. replace (q * m ^ 2 - m ^ 2 * q / (q + 1) + -2 * q * m * x + (q + 1) * x ^ 2)
      with (((q + 1) * x - q * m) ^ 2 / (q + 1)) by (field; lra).
    apply Rmult_le_pos; [apply pow2_ge_0|left; apply Rinv_0_lt_compat; lra]. }
  destruct (loss f) as [lf _]; [eexists _, _, _; exact ff|exact f0|].
  destruct (loss g) as [_ lg]; [eexists _, _, _; exact gg|exact g0|].
  rewrite (mean_extensional _ l0 _ _ ff), (mean_extensional _ l1 _ _ ff), !expect in lf by auto.
  rewrite (mean_extensional _ l0 _ _ gg), (mean_extensional _ l1 _ _ gg), !expect in lg by auto.
  rewrite (mean_extensional _ l0 _ (fun x => 0 + 0 * x + 1 * x ^ 2)), expect in a0 by (auto; intros; ring).
  rewrite (mean_extensional _ l1 _ (fun x => m ^ 2 + (-2 * m) * x + 1 * x ^ 2)), expect in a1 by (auto; intros; ring).
  set (A0 := P0 (fun x => x)) in *. set (A1 := P1 (fun x => x)) in *.
  set (S0 := P0 (fun x => x ^ 2)) in *. set (S1 := P1 (fun x => x ^ 2)) in *.
  assert ((q * q - 1) * (2 * c) <= (q * q - 1) * (S0 + (m ^ 2 + -2 * m * A1 + S1))) by lra.
  apply Rmult_le_reg_l in H; [lra|nra].
Qed.

(* All of a group hold 0, or all hold 1; the others hold 0 *)
Definition all_hold (group : list nat) (x : R) : database := fun i => if in_dec Nat.eq_dec i group then x else 0.

Lemma all_hold_total n group x : NoDup group -> (forall i, In i group -> (i < n)%nat) ->
  total n (all_hold group x) = INR (length group) * x.
Proof.
  revert group. induction group as [|i group IH]; intros distinct inside.
  - simpl. rewrite (total_ext n _ (fun _ => 0)), total_const; [lra|]. intros j _. reflexivity.
  - inversion distinct as [|? ? out distinct']; subst.
    assert (split : forall j, all_hold (i :: group) x j = all_hold group x j + (if Nat.eq_dec j i then x else 0)).
    { intros j. unfold all_hold. destruct (in_dec Nat.eq_dec j (i :: group)) as [a|a], (in_dec Nat.eq_dec j group) as [b|b],
        (Nat.eq_dec j i) as [c|c]; subst; try lra; exfalso; simpl in *; intuition congruence. }
    rewrite (total_ext n _ _ (fun j _ => split j)), total_plus, IH by (auto; intros; apply inside; simpl; auto).
    assert (one : forall k, (i < k)%nat -> total k (fun j => if Nat.eq_dec j i then x else 0) = x).
    { intros k. induction k as [|k IHk]; intros h; [lia|]. simpl. destruct (Nat.eq_dec k i) as [->|ne].
      - rewrite (total_ext i _ (fun _ => 0)), total_const; [lra|]. intros j hj. destruct (Nat.eq_dec j i); [lia|reflexivity].
      - rewrite IHk by lia. lra. }
    rewrite one by (apply inside; simpl; auto). cbn [length]. rewrite S_INR. lra.
Qed.

Lemma group_bound n K mean loss group : 0 < K -> accurate_algorithm n K mean loss ->
  NoDup group -> (forall i, In i group -> (i < n)%nat) -> 2 * sqrt K < INR (length group) ->
  0 < bound K (length group) /\ bound K (length group) <= group_loss loss group.
Proof.
  intros K0 [laws accurate losses] distinct inside large. set (m := INR (length group)) in *.
  pose proof (sqrt_lt_R0 K K0) as sK. pose proof (sqrt_sqrt K ltac:(lra)) as ss.
  set (x := m / (2 * sqrt K)).
  assert (x1 : 1 < x).
  { unfold x. apply Rmult_lt_reg_r with (2 * sqrt K); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  destruct (arcosh_right x ltac:(lra)) as [a0 ch]. set (a := arcosh x) in *.
  assert (ax : bound K (length group) = 2 * a) by reflexivity. rewrite ax.
  assert (apos : 0 < a).
  { destruct a0 as [|z]; auto. rewrite <- z, cosh_0 in ch. lra. }
  split; [lra|]. apply Rnot_lt_le. intros less.
  set (L := (Rmax 0 (group_loss loss group) + 2 * a) / 2).
  assert (between : group_loss loss group < L /\ 0 < L /\ L < 2 * a).
  { unfold L. pose proof (Rmax_l 0 (group_loss loss group)). pose proof (Rmax_r 0 (group_loss loss group)).
    assert (Rmax 0 (group_loss loss group) < 2 * a) by (apply Rmax_lub_lt; lra). lra. }
  destruct between as (below & L0 & La).
  assert (ok : forall y, 0 <= y <= 1 -> data_allowed (all_hold group y)).
  { intros y hy i. unfold all_hold. destruct (in_dec _ _ _); lra. }
  assert (differ : forall y y', differ_only_in group (all_hold group y) (all_hold group y')).
  { intros y y' i h. unfold all_hold. destruct (in_dec Nat.eq_dec i group); [contradiction|reflexivity]. }
  assert (factor : forall y y' f, 0 <= y <= 1 -> 0 <= y' <= 1 -> square_function f -> never_negative f ->
    mean (all_hold group y) f <= exp L * mean (all_hold group y') f).
  { intros y y' f hy hy' sq nn.
    apply Rle_trans with (exp (group_loss loss group) * mean (all_hold group y') f).
    - apply (groups test (fun d (f : test) => mean d (proj1_sig f)) loss group (all_hold group y) (all_hold group y')
        (exist _ f (conj sq nn))); auto.
    - apply Rmult_le_compat_r; [apply (mean_positive _ (laws _ (ok y' hy'))); auto|]. left. apply exp_increasing. auto. }
  assert (q1 : 1 < exp L) by (rewrite <- exp_0; apply exp_increasing; auto).
  pose proof (accurate _ (ok 0 ltac:(lra))) as e0. pose proof (accurate _ (ok 1 ltac:(lra))) as e1.
  rewrite all_hold_total in e0, e1 by auto. rewrite Rmult_0_r in e0. rewrite Rmult_1_r in e1. fold m in e1.
  assert (both : forall f, square_function f -> never_negative f ->
    mean (all_hold group 1) f <= exp L * mean (all_hold group 0) f /\ mean (all_hold group 0) f <= exp L * mean (all_hold group 1) f).
  { intros f sq nn. split; apply factor; try assumption; lra. }
  pose proof (two_laws (mean (all_hold group 0)) (mean (all_hold group 1)) m K (exp L)
    (laws _ (ok 0 ltac:(lra))) (laws _ (ok 1 ltac:(lra))) q1 both e0 e1) as main.
  (* so m / (2 sqrt K) is at most cosh (L / 2), which is below cosh a *)
  set (w := exp (L / 2)). set (z := exp a). assert (w1 : 1 < w) by (unfold w; rewrite <- exp_0; apply exp_increasing; lra).
  assert (wz : w < z) by (apply exp_increasing; lra).
  assert (qw : exp L = w * w) by (unfold w; rewrite <- exp_plus; f_equal; field).
  assert (chz : (z + / z) / 2 = x) by (rewrite <- ch; unfold cosh, z; rewrite exp_Ropp; reflexivity).
  assert (lower : (w + / w) / 2 < x).
  { rewrite <- chz. assert (0 < (z - w) * (1 - / (w * z))).
    { apply Rmult_lt_0_compat; [lra|]. assert (/ (w * z) < / 1) by (apply Rinv_lt_contravar; nra). lra. }
    replace ((z - w) * (1 - / (w * z))) with ((z + / z) - (w + / w)) in H by (field; lra). lra. }
  assert (mx : m = x * (2 * sqrt K)) by (unfold x; field; lra).
  rewrite qw in main. replace (m ^ 2 * (w * w) / (w * w + 1) ^ 2) with (m ^ 2 / (w + / w) ^ 2) in main
    by (field; repeat split; nra).
  assert (wi : 0 < w + / w) by (assert (0 < / w) by (apply Rinv_0_lt_compat; lra); lra).
  assert (m ^ 2 <= K * (w + / w) ^ 2).
  { apply (Rmult_le_compat_r ((w + / w) ^ 2)) in main; [|apply pow2_ge_0].
    replace (m ^ 2 / (w + / w) ^ 2 * (w + / w) ^ 2) with (m ^ 2) in main by (field; nra). exact main. }
  assert (m ^ 2 = 4 * K * x ^ 2) by (rewrite mx; rewrite <- ss at 2; ring).
  assert (4 * x ^ 2 <= (w + / w) ^ 2) by (apply Rmult_le_reg_l with K; lra).
  nra.
Qed.

(* Consecutive sellers, around the circle: i, i + 1, ..., i + m - 1 *)
Definition circle (n m i : nat) : list nat := map (fun j => (i + j) mod n)%nat (seq 0 m).

Lemma distinct_images {A B : Type} (f : A -> B) l : (forall a b, In a l -> In b l -> f a = f b -> a = b) ->
  NoDup l -> NoDup (map f l).
Proof.
  induction l as [|a l IH]; intros inj d; simpl; [constructor|]. inversion d as [|? ? out d']; subst. constructor.
  - intros h. apply in_map_iff in h. destruct h as (b & e & hb). apply out.
    replace a with b by (apply inj; simpl; auto). auto.
  - apply IH; auto. intros b c hb hc. apply inj; simpl; auto.
Qed.

Lemma circle_group n m i : (m <= n)%nat -> (0 < n)%nat -> group_of n m (circle n m i).
Proof.
  intros mn n0. split; [|split].
  - unfold circle. apply distinct_images; [|apply seq_NoDup].
    intros a b ha hb e. apply in_seq in ha. apply in_seq in hb.
    assert (h : forall p q, (p < n)%nat -> (q < n)%nat -> (p <= q)%nat -> ((i + p) mod n = (i + q) mod n)%nat -> p = q).
    { intros p q hp hq pq eq. pose proof (Nat.div_mod (i + p) n ltac:(lia)) as d1. pose proof (Nat.div_mod (i + q) n ltac:(lia)) as d2.
      rewrite eq in d1. assert (q - p = n * ((i + q) / n - (i + p) / n))%nat.
      { rewrite Nat.mul_sub_distr_l. lia. }
      destruct ((i + q) / n - (i + p) / n)%nat as [|k] eqn:ek; [lia|]. exfalso. rewrite Nat.mul_succ_r in H. lia. }
    destruct (Nat.le_ge_cases a b) as [le|le]; [apply h; auto; lia|symmetry; apply h; auto; lia].
  - unfold circle. rewrite map_length, seq_length. reflexivity.
  - intros j hj. unfold circle in hj. apply in_map_iff in hj. destruct hj as (k & <- & _). apply Nat.mod_upper_bound. lia.
Qed.

(* A sum around the circle does not depend on where it starts *)
Lemma total_shift n j f : (0 < n)%nat -> total n (fun i => f ((i + j) mod n)%nat) = total n f.
Proof.
  intros n0. set (r := (j mod n)%nat). assert (rn : (r < n)%nat) by (apply Nat.mod_upper_bound; lia).
  rewrite (total_ext n _ (fun i => f ((i + r) mod n)%nat)).
  2:{ intros i _. f_equal. unfold r. rewrite Nat.add_mod_idemp_r by lia. reflexivity. }
  rewrite (total_split n (n - r)) by lia. replace (n - (n - r))%nat with r by lia.
  rewrite (total_ext (n - r) _ (fun i => f (r + i)%nat)) by (intros i hi; f_equal; rewrite Nat.mod_small by lia; lia).
  rewrite (total_ext r _ f).
  - rewrite (total_split n r f) by lia. lra.
  - intros i hi. f_equal. replace (n - r + i + r)%nat with (i + 1 * n)%nat by lia. rewrite Nat.mod_add by lia. apply Nat.mod_small. lia.
Qed.

Lemma circles_total n loss : (0 < n)%nat -> forall m start,
  total n (fun i => group_loss loss (map (fun j => (i + j) mod n)%nat (seq start m))) = INR m * total n loss.
Proof.
  intros n0. induction m as [|m IH]; intros start.
  - simpl. rewrite total_const. lra.
  - transitivity (total n (fun i => loss ((i + start) mod n)%nat +
      group_loss loss (map (fun j => (i + j) mod n)%nat (seq (S start) m)))); [apply total_ext; intros; reflexivity|].
    rewrite (total_plus n (fun i => loss ((i + start) mod n)%nat)
      (fun i => group_loss loss (map (fun j => (i + j) mod n)%nat (seq (S start) m)))).
    rewrite IH, (total_shift n start loss n0), S_INR. lra.
Qed.

Theorem no_algorithm_below : no_algorithm_below_statement.
Proof.
  intros n K mean loss K0 alg m large.
  assert (positive : 0 < bound K m).
  { pose proof (sqrt_lt_R0 K K0). unfold bound. set (x := INR m / (2 * sqrt K)).
    assert (x1 : 1 < x).
    { unfold x. apply Rmult_lt_reg_r with (2 * sqrt K); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
    destruct (arcosh_right x ltac:(lra)) as [[a0|a0] ch]; [lra|]. rewrite <- a0, cosh_0 in ch. lra. }
  split; [exact positive|]. split.
  - intros group (distinct & size & inside).
    pose proof (group_bound n K mean loss group K0 alg distinct inside) as h. rewrite size in h. apply h. auto.
  - intros mn. pose proof (sqrt_lt_R0 K K0) as sK.
    assert (m0 : 0 < INR m) by lra. assert (n0 : (0 < n)%nat).
    { destruct n; [|lia]. assert (m = 0)%nat by lia. subst. simpl in m0. lra. }
    apply Rmult_le_reg_l with (INR m); auto.
    replace (INR m * (INR n / INR m * bound K m)) with (INR n * bound K m) by (field; lra).
    rewrite <- (circles_total n loss n0 m 0), <- total_const. apply total_le. intros i hi.
    destruct (circle_group n m i mn n0) as (distinct & size & inside). fold (circle n m i).
    pose proof (group_bound n K mean loss (circle n m i) K0 alg distinct inside) as h. rewrite size in h. apply h. auto.
Qed.

(* One seller with the datum x: 3/4 with the probability 1/4 + x/2, and 1/4 otherwise.  This is accurate for K = 3/16 and
   private with the loss ln 3, and one seller is more than 2 sqrt K. *)
Example coin_for_one_seller :
  accurate_algorithm 1 (3 / 16) (fun d f => (1 / 4 + d 0%nat / 2) * f (3 / 4) + (3 / 4 - d 0%nat / 2) * f (1 / 4)) (fun _ => ln 3) /\
  2 * sqrt (3 / 16) < INR 1.
Proof.
  split.
  - split.
    + intros d ok. specialize (ok 0%nat). split.
      * lra.
      * intros. ring.
      * intros f _ nn. pose proof (nn (3 / 4)). pose proof (nn (1 / 4)).
        apply Rplus_le_le_0_compat; apply Rmult_le_pos; lra.
      * intros f g e. rewrite !e. reflexivity.
    + intros d ok. specialize (ok 0%nat). simpl. nra.
    + intros i _ d d' s ok ok' _. specialize (ok 0%nat). specialize (ok' 0%nat). rewrite exp_ln by lra.
      set (f := proj1_sig s). assert (nn : never_negative f) by apply (proj2_sig s). pose proof (nn (3 / 4)). pose proof (nn (1 / 4)).
      assert ((1 / 4 + d 0%nat / 2) * f (3 / 4) <= 3 * (1 / 4 + d' 0%nat / 2) * f (3 / 4)) by (apply Rmult_le_compat_r; lra).
      assert ((3 / 4 - d 0%nat / 2) * f (1 / 4) <= 3 * (3 / 4 - d' 0%nat / 2) * f (1 / 4)) by (apply Rmult_le_compat_r; lra).
      lra.
  - simpl. assert (sqrt (3 / 16) < sqrt (1 / 4)) by (apply sqrt_lt_1; lra).
    replace (1 / 4) with (1 / 2 * (1 / 2)) in H by lra. rewrite sqrt_square in H by lra. lra.
Qed.

Print Assumptions arcosh_right. Print Assumptions no_algorithm_below.
