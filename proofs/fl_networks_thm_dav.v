(** fl-networks-thm-dav: what dav can be.  Bears on the claims flm-dav and flm-problem4 (their corrections), page
    federated/networks.
    Beside the prose: a network is any function from bids to numbers, of which the softmax is taken, as in the paper; the
    mean over bids is any mean of bounded functions that gives 1 for 1, keeps factors that are not negative, does not
    fall, and is above a number for what is above it everywhere; expectations are such means (as upper integrals also of
    functions that are not measurable).  With M = 0 there is one outcome only, and all is trivial. *)
Require Import Reals Lra Lia.
Require Import totals exponentials.
Open Scope R_scope.

(* What has to be read *)

(* The outcomes are 0, ..., M.  z is in the simplex: not negative, with the sum 1 *)
Definition simplex (M : nat) (z : nat -> R) : Prop := (forall m, (m <= M)%nat -> 0 <= z m) /\ total (S M) z = 1.

(* One-hot: one entry is 1, the others are 0 *)
Definition one_hot (M : nat) (z : nat -> R) : Prop :=
  exists hot, (hot <= M)%nat /\ forall m, (m <= M)%nat -> z m = if Nat.eqb m hot then 1 else 0.

(* The softmax of z / tau *)
Definition softmax (M : nat) (tau : R) (z : nat -> R) (m : nat) : R :=
  exp (z m / tau) / total (S M) (fun k => exp (z k / tau)).

(* The squared distance from the uniform vector, and the sum of squares *)
Definition distance (M : nat) (z : nat -> R) : R := total (S M) (fun m => (z m - 1 / (INR M + 1)) ^ 2).
Definition squares (M : nat) (z : nat -> R) : R := total (S M) (fun m => z m ^ 2).

(* delta of M and tau *)
Definition delta (M : nat) (tau : R) : R := 1 - (exp (2 / tau) + INR M) / (exp (1 / tau) + INR M) ^ 2.

(* The distance is at most M / (M + 1), exactly at one-hot vectors; but for the softmax of z / tau, 1 less the sum of
   squares is at least delta, exactly at one-hot z, and delta is positive *)
Definition what_dav_can_be_statement : Prop :=
  forall M tau z, (1 <= M)%nat -> 0 < tau -> simplex M z ->
  distance M z <= INR M / (INR M + 1) /\
  (distance M z = INR M / (INR M + 1) <-> one_hot M z) /\
  delta M tau <= 1 - squares M (softmax M tau z) /\
  (1 - squares M (softmax M tau z) = delta M tau <-> one_hot M z) /\
  0 < delta M tau.

(* A network gives M + 1 numbers for each bid; its allocation is their softmax *)
Definition allocation {Bids : Type} (M : nat) (network : Bids -> nat -> R) (b : Bids) : nat -> R := softmax M 1 (network b).

(* dav in the paper's form: the mean over bids of M / (M + 1) less the distance of the softmax of z / tau *)
Definition dav {Bids : Type} (mean : (Bids -> R) -> R) (M : nat) (tau : R) (network : Bids -> nat -> R) : R :=
  mean (fun b => INR M / (INR M + 1) - distance M (softmax M tau (allocation M network b))).

(* What is asked of a mean, of bounded functions only *)
Definition bounded {Bids : Type} (f : Bids -> R) : Prop := exists top, forall b, Rabs (f b) <= top.
Definition is_mean {Bids : Type} (mean : (Bids -> R) -> R) : Prop :=
  mean (fun _ => 1) = 1 /\ (forall f c, bounded f -> 0 <= c -> mean (fun b => c * f b) = c * mean f) /\
  (forall f g, bounded f -> bounded g -> (forall b, f b <= g b) -> mean f <= mean g) /\
  (forall f c, bounded f -> (forall b, c < f b) -> c < mean f).

(* delta is the infimum of dav over all networks, and no network attains it *)
Definition infimum_of_dav_statement : Prop :=
  forall (Bids : Type) (mean : (Bids -> R) -> R) M tau, (1 <= M)%nat -> 0 < tau -> is_mean mean ->
  (forall network, delta M tau < dav mean M tau network) /\
  (forall room, 0 < room -> exists network, dav mean M tau network < delta M tau + room).

(* The proofs, which need not be read *)

Lemma distance_is M z : total (S M) z = 1 -> distance M z = squares M z - 1 / (INR M + 1).
Proof.
  intros one. unfold distance, squares. pose proof (pos_INR M).
  rewrite (total_ext _ _ (fun m => z m ^ 2 - (2 / (INR M + 1) * z m - (1 / (INR M + 1)) ^ 2))) by (intros; field; lra).
  rewrite total_minus, total_minus, total_scal, one, total_const, S_INR. field. lra.
Qed.

Lemma simplex_le1 M z m : simplex M z -> (m <= M)%nat -> 0 <= z m <= 1.
Proof.
  intros (pos & one) hm. split; [apply pos; auto|]. rewrite <- one. apply total_term; [intros; apply pos; lia|lia].
Qed.

Lemma one_hot_total M hot : (hot <= M)%nat -> forall f, total (S M) (fun m => if Nat.eqb m hot then f 1 else f 0) = f 1 + INR M * f 0.
Proof.
  intros h f. rewrite (total_with (S M) hot (f 1) (fun _ => f 0)) by lia. rewrite total_const, S_INR. ring.
Qed.

(* Numbers d >= 0 with the sum D: the squares sum to at most D^2 *)
Lemma squares_below n d : (forall i, (i < n)%nat -> 0 <= d i) -> total n (fun i => d i ^ 2) <= total n d ^ 2 /\
  (total n (fun i => d i ^ 2) = total n d ^ 2 -> forall i, (i < n)%nat -> d i = 0 \/ d i = total n d).
Proof.
  intros pos. set (D := total n d).
  assert (e : D ^ 2 = total n (fun i => d i * D)).
  { rewrite (total_ext n _ (fun i => D * d i)) by (intros; ring). rewrite total_scal. fold D. ring. }
  assert (each : forall i, (i < n)%nat -> d i ^ 2 <= d i * D).
  { intros i hi. pose proof (total_term n d i pos hi). fold D in H. pose proof (pos i hi). nra. }
  rewrite e. split; [apply total_le; auto|]. intros eq i hi.
  pose proof (total_same n _ _ each (Req_le _ _ (eq_sym eq)) i hi). cbv beta in H.
  assert (d i * (D - d i) = 0) by lra. apply Rmult_integral in H0. destruct H0; [left; auto|right; lra].
Qed.

Section Softmax.
Variables (M : nat) (tau : R) (z : nat -> R).
Hypothesis M1 : (1 <= M)%nat.
Hypothesis tau0 : 0 < tau.
Hypothesis inside : simplex M z.
Let E := exp (1 / tau).
Let d (m : nat) : R := exp (z m / tau) - 1.
Let D := total (S M) d.

Lemma E_above_1 : 1 < E.
Proof. unfold E. rewrite <- exp_0 at 1. apply exp_increasing. apply Rdiv_lt_0_compat; lra. Qed.

Lemma M_at_least_1 : 1 <= INR M.
Proof. apply (le_INR 1). auto. Qed.

Lemma d_bounds m : (m <= M)%nat -> 0 <= d m <= (E - 1) * z m.
Proof.
  intros hm. pose proof (simplex_le1 M z m inside hm) as h. unfold d. split.
  - pose proof (exp_ineq1_le (z m / tau)). assert (0 <= z m / tau) by (apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; auto]). lra.
  - pose proof (chord (1 / tau) (z m) h) as c. replace (1 / tau * z m) with (z m / tau) in c by (field; lra). fold E in c. lra.
Qed.

Lemma D_bounds : 0 <= D <= E - 1.
Proof.
  split; [apply total_nonneg; intros; apply d_bounds; lia|].
  apply Rle_trans with (total (S M) (fun m => (E - 1) * z m)); [apply total_le; intros; apply d_bounds; lia|].
  rewrite total_scal. destruct inside as [_ ->]. lra.
Qed.

Lemma softmax_squares :
  squares M (softmax M tau z) = (INR M + 1 + 2 * D + total (S M) (fun m => d m ^ 2)) / (INR M + 1 + D) ^ 2.
Proof.
  pose proof D_bounds. pose proof M_at_least_1.
  assert (A : total (S M) (fun k => exp (z k / tau)) = INR M + 1 + D).
  { unfold D, d. rewrite total_minus, total_const, S_INR. ring. }
  unfold squares, softmax. rewrite A.
  rewrite (total_ext _ _ (fun m => (1 + 2 * d m + d m ^ 2) / (INR M + 1 + D) ^ 2)) by (intros; unfold d; field; lra).
  rewrite total_div, !total_plus, total_scal, total_const, S_INR. fold D. f_equal. ring.
Qed.

Let y := 1 + D.
Lemma difference : (E ^ 2 + INR M) * (y + INR M) ^ 2 - (y ^ 2 + INR M) * (E + INR M) ^ 2
  = INR M * (E - y) * ((E * (y - 1) + y * (E - 1)) + INR M * (E + y - 2)).
Proof. ring. Qed.

Lemma softmax_bound : squares M (softmax M tau z) <= (E ^ 2 + INR M) / (E + INR M) ^ 2 /\
  (squares M (softmax M tau z) = (E ^ 2 + INR M) / (E + INR M) ^ 2 -> one_hot M z).
Proof.
  pose proof E_above_1 as E1. pose proof M_at_least_1 as Mone. pose proof D_bounds as Db.
  destruct (squares_below (S M) d) as [sq only]; [intros; apply d_bounds; lia|]. fold D in sq, only.
  assert (y1 : 1 <= y <= E) by (unfold y; lra).
  assert (bracket : 0 < (E * (y - 1) + y * (E - 1)) + INR M * (E + y - 2)).
  { assert (0 <= E * (y - 1)) by (apply Rmult_le_pos; lra). assert (0 < y * (E - 1)) by (apply Rmult_lt_0_compat; lra).
    assert (0 <= INR M * (E + y - 2)) by (apply Rmult_le_pos; lra). lra. }
  assert (p1 : 0 < (y + INR M) ^ 2) by (apply pow_lt; lra). assert (p2 : 0 < (E + INR M) ^ 2) by (apply pow_lt; lra).
  assert (first : squares M (softmax M tau z) <= (y ^ 2 + INR M) / (y + INR M) ^ 2).
  { rewrite softmax_squares. replace (INR M + 1 + D) with (y + INR M) by (unfold y; ring).
    apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; auto|]. unfold y. lra. }
  assert (second : (y ^ 2 + INR M) / (y + INR M) ^ 2 <= (E ^ 2 + INR M) / (E + INR M) ^ 2).
  { apply Rmult_le_reg_r with ((y + INR M) ^ 2 * (E + INR M) ^ 2); [apply Rmult_lt_0_compat; auto|].
    replace ((y ^ 2 + INR M) / (y + INR M) ^ 2 * ((y + INR M) ^ 2 * (E + INR M) ^ 2)) with ((y ^ 2 + INR M) * (E + INR M) ^ 2) by (field; lra).
    replace ((E ^ 2 + INR M) / (E + INR M) ^ 2 * ((y + INR M) ^ 2 * (E + INR M) ^ 2)) with ((E ^ 2 + INR M) * (y + INR M) ^ 2) by (field; lra).
    pose proof difference. assert (0 <= INR M * (E - y) * ((E * (y - 1) + y * (E - 1)) + INR M * (E + y - 2)))
      by (apply Rmult_le_pos; [apply Rmult_le_pos; lra|lra]). lra. }
  split; [lra|]. intros eq.
  assert (yE : y = E).
  { assert (e : (y ^ 2 + INR M) / (y + INR M) ^ 2 = (E ^ 2 + INR M) / (E + INR M) ^ 2) by lra.
    apply (Rmult_eq_compat_r ((y + INR M) ^ 2 * (E + INR M) ^ 2)) in e.
    replace ((y ^ 2 + INR M) / (y + INR M) ^ 2 * ((y + INR M) ^ 2 * (E + INR M) ^ 2)) with ((y ^ 2 + INR M) * (E + INR M) ^ 2) in e by (field; lra).
    replace ((E ^ 2 + INR M) / (E + INR M) ^ 2 * ((y + INR M) ^ 2 * (E + INR M) ^ 2)) with ((E ^ 2 + INR M) * (y + INR M) ^ 2) in e by (field; lra).
    pose proof difference as df. rewrite e, Rminus_eq_0 in df. symmetry in df.
    apply Rmult_integral in df. destruct df as [df|df]; [|lra]. apply Rmult_integral in df. destruct df; lra. }
  assert (DE : D = E - 1) by (unfold y in yE; lra).
  assert (all : total (S M) (fun m => d m ^ 2) = D ^ 2).
  { rewrite softmax_squares in eq. replace (INR M + 1 + D) with (E + INR M) in eq by (rewrite DE; ring).
    apply (Rmult_eq_compat_r ((E + INR M) ^ 2)) in eq.
    unfold Rdiv in eq. rewrite !Rmult_assoc, Rinv_l, !Rmult_1_r in eq by lra. rewrite DE in *. lra. }
  specialize (only all).
  assert (some : exists hot, (hot < S M)%nat /\ d hot = D).
  { destruct (total_some (S M) d ltac:(fold D; lra)) as (hot & hh & p). exists hot. split; [exact hh|].
    destruct (only hot hh) as [zero|e]; [lra|exact e]. }
  destruct some as (hot & hh & eh). exists hot. split; [lia|].
  (* z hot is 1, so the others are 0 *)
  assert (z1 : z hot = 1).
  { pose proof (d_bounds hot ltac:(lia)) as b. pose proof (simplex_le1 M z hot inside ltac:(lia)).
    assert (E - 1 <= (E - 1) * z hot) by lra. assert (1 <= z hot); [|lra]. apply Rmult_le_reg_l with (E - 1); lra. }
  intros m hm. destruct (Nat.eqb_spec m hot) as [->|ne]; auto.
  assert (two : z m + z hot <= total (S M) z).
  { assert (g : forall n f p q, (forall i, (i < n)%nat -> 0 <= f i) -> (p < n)%nat -> (q < n)%nat -> p <> q -> f p + f q <= total n f).
    { induction n as [|n IH]; intros f p q pos hp hq pq; [lia|]. simpl.
      destruct (Nat.eq_dec p n) as [->|np]; [|destruct (Nat.eq_dec q n) as [->|nq]].
      - pose proof (total_term n f q ltac:(intros; apply pos; lia) ltac:(lia)). lra.
      - pose proof (total_term n f p ltac:(intros; apply pos; lia) ltac:(lia)). lra.
      - pose proof (IH f p q ltac:(intros; apply pos; lia) ltac:(lia) ltac:(lia) pq). pose proof (pos n ltac:(lia)). lra. }
    apply g; auto; try lia. intros i hi. apply (proj1 inside). lia. }
  destruct inside as [pos one]. rewrite one in two. pose proof (pos m hm). lra.
Qed.
End Softmax.

Lemma delta_is M tau : 0 < tau -> delta M tau = 1 - (exp (1 / tau) ^ 2 + INR M) / (exp (1 / tau) + INR M) ^ 2.
Proof.
  intros t. unfold delta. replace (exp (2 / tau)) with (exp (1 / tau) ^ 2); auto.
  replace (2 / tau) with (1 / tau + 1 / tau) by (field; lra). rewrite exp_plus. ring.
Qed.

Lemma one_hot_squares M tau z : 0 < tau -> one_hot M z ->
  squares M (softmax M tau z) = (exp (1 / tau) ^ 2 + INR M) / (exp (1 / tau) + INR M) ^ 2.
Proof.
  intros t (hot & hh & e). set (E := exp (1 / tau)). assert (E0 : 0 < E) by apply exp_pos. pose proof (pos_INR M).
  assert (A : total (S M) (fun k => exp (z k / tau)) = E + INR M).
  { rewrite (total_ext _ _ (fun m => if Nat.eqb m hot then exp (1 / tau) else exp (0 / tau))).
    - rewrite (one_hot_total M hot hh (fun v => exp (v / tau))). unfold Rdiv at 2. rewrite Rmult_0_l, exp_0. fold E. ring.
    - intros m hm. rewrite e by lia. destruct (Nat.eqb m hot); reflexivity. }
  unfold squares, softmax. rewrite A.
  rewrite (total_ext _ _ (fun m => (if Nat.eqb m hot then exp (1 / tau) ^ 2 else exp (0 / tau) ^ 2) / (E + INR M) ^ 2)).
  - rewrite total_div, (one_hot_total M hot hh (fun v => exp (v / tau) ^ 2)). unfold Rdiv at 3. rewrite Rmult_0_l, exp_0. fold E. f_equal. ring.
  - intros m hm. rewrite e by lia. destruct (Nat.eqb m hot); field; lra.
Qed.

Lemma delta_positive M tau : (1 <= M)%nat -> 0 < tau -> 0 < delta M tau.
Proof.
  intros M1 t. rewrite delta_is by auto. set (E := exp (1 / tau)).
  assert (E1 : 1 < E) by (unfold E; rewrite <- exp_0 at 1; apply exp_increasing; apply Rdiv_lt_0_compat; lra).
  pose proof (le_INR 1 M M1) as m1. simpl in m1. assert (p : 0 < (E + INR M) ^ 2) by (apply pow_lt; lra).
  assert ((E ^ 2 + INR M) / (E + INR M) ^ 2 < 1); [|lra]. apply Rmult_lt_reg_r with ((E + INR M) ^ 2); auto.
  unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. nra.
Qed.

Theorem what_dav_can_be : what_dav_can_be_statement.
Proof.
  intros M tau z M1 t inside. pose proof (softmax_bound M tau z M1 t inside) as [bound only].
  pose proof (le_INR 1 M M1) as m1. simpl in m1.
  assert (sq : squares M z <= 1 /\ (squares M z = 1 -> one_hot M z)).
  { assert (each : forall m, (m < S M)%nat -> z m ^ 2 <= z m) by (intros m hm; pose proof (simplex_le1 M z m inside ltac:(lia)); nra).
    destruct inside as [pos one]. split; [rewrite <- one; apply total_le; auto|]. intros eq.
    assert (bits : forall m, (m < S M)%nat -> z m = 0 \/ z m = 1).
    { intros m hm. pose proof (total_same (S M) _ _ each ltac:(unfold squares in eq; lra) m hm) as s. cbv beta in s.
      assert (z m * (1 - z m) = 0) by lra. apply Rmult_integral in H. destruct H; [left; auto|right; lra]. }
    destruct (squares_below (S M) z ltac:(intros; apply pos; lia)) as [_ same].
    destruct (total_some (S M) z ltac:(lra)) as (hot & hh & p).
    assert (z1 : z hot = 1) by (destruct (bits hot hh) as [zero|e]; [lra|exact e]). exists hot. split; [lia|]. intros m hm.
    destruct (Nat.eqb_spec m hot) as [->|ne]; auto. destruct (bits m ltac:(lia)) as [|z1']; auto. exfalso.
    assert (2 <= total (S M) z); [|lra].
    replace 2 with (total (S M) (fun i => if Nat.eqb i hot then 1 else 0) + total (S M) (fun i => if Nat.eqb i m then 1 else 0)).
    - rewrite <- total_plus. apply total_le. intros i hi. pose proof (pos i ltac:(lia)) as pi.
      destruct (Nat.eqb_spec i hot) as [eh|], (Nat.eqb_spec i m) as [em|]; try lra; subst; try lra. exfalso. auto.
    - rewrite (one_hot_total M hot ltac:(lia) (fun x => x)), (one_hot_total M m hm (fun x => x)). lra. }
  destruct sq as [sq1 sq2]. rewrite distance_is by apply inside.
  assert (e1 : INR M / (INR M + 1) = 1 - 1 / (INR M + 1)) by (field; lra).
  rewrite delta_is by auto. split; [lra|]. split; [|split; [lra|split]].
  - split; [intros; apply sq2; lra|]. intros (hot & hh & e). unfold squares.
    rewrite (total_ext _ _ (fun m => if Nat.eqb m hot then 1 ^ 2 else 0 ^ 2)).
    + rewrite (one_hot_total M hot hh (fun x => x ^ 2)). lra.
    + intros m hm. rewrite e by lia. destruct (Nat.eqb m hot); reflexivity.
  - split; [intros; apply only; lra|]. intros oh. rewrite (one_hot_squares M tau z t oh). lra.
  - rewrite <- delta_is by auto. apply delta_positive; auto.
Qed.

Lemma softmax_simplex M tau z : simplex M (softmax M tau z).
Proof.
  set (A := total (S M) (fun k => exp (z k / tau))).
  assert (A0 : 0 < A).
  { apply total_pos with 0%nat; [intros; left; apply exp_pos|lia|apply exp_pos]. }
  split.
  - intros m hm. left. apply Rdiv_lt_0_compat; [apply exp_pos|exact A0].
  - unfold softmax. rewrite total_div. fold A. field. lra.
Qed.

Theorem infimum_of_dav : infimum_of_dav_statement.
Proof.
  intros Bids mean M tau M1 t (m1 & ms & mono & strict).
  pose proof (le_INR 1 M M1) as mi. simpl in mi.
  assert (rewritten : forall z, INR M / (INR M + 1) - distance M (softmax M tau z) = 1 - squares M (softmax M tau z)).
  { intros z. rewrite distance_is by apply softmax_simplex. field. lra. }
  assert (within : forall (network : Bids -> nat -> R),
    bounded (fun b => INR M / (INR M + 1) - distance M (softmax M tau (allocation M network b)))).
  { intros network. exists 1. intros b. rewrite rewritten.
    pose proof (softmax_simplex M tau (allocation M network b)) as s. destruct (what_dav_can_be M tau _ M1 t s) as (up & _).
    rewrite distance_is in up by apply s. replace (INR M / (INR M + 1)) with (1 - 1 / (INR M + 1)) in up by (field; lra).
    assert (0 <= squares M (softmax M tau (allocation M network b))) by (apply total_nonneg; intros; apply pow2_ge_0).
    apply Rabs_le. lra. }
  split.
  - intros network. apply strict; [apply within|]. intros b. rewrite rewritten.
    pose proof (softmax_simplex M 1 (network b)) as s. fold (allocation M network b) in s.
    destruct (what_dav_can_be M tau (allocation M network b) M1 t s) as (_ & _ & low & eq & _).
    destruct (Req_dec (1 - squares M (softmax M tau (allocation M network b))) (delta M tau)) as [e|ne]; [|lra].
    exfalso. apply eq in e. destruct e as (hot & hh & e).
    (* some entry would be 0, but a softmax is positive *)
    assert (other : exists m, (m <= M)%nat /\ m <> hot) by (destruct hot; [exists 1%nat|exists 0%nat]; lia).
    destruct other as (m & hm & ne). specialize (e m hm). rewrite (proj2 (Nat.eqb_neq m hot) ne) in e.
    assert (0 < allocation M network b m); [|lra]. unfold allocation, softmax. apply Rdiv_lt_0_compat; [apply exp_pos|].
    apply total_pos with 0%nat; [intros; left; apply exp_pos|lia|apply exp_pos].
  - intros room room0. set (c := 2 * (INR M + 1) / tau). assert (c0 : 0 < c) by (apply Rdiv_lt_0_compat; lra).
    set (s := c / room). assert (s0 : 0 < s) by (apply Rdiv_lt_0_compat; auto).
    set (logit := fun m => if Nat.eqb m 0 then s else 0). exists (fun _ => logit).
    set (eta := 1 / (exp s + INR M)). assert (es : 1 + s <= exp s) by apply exp_ineq1_le.
    assert (eta0 : 0 < eta) by (apply Rdiv_lt_0_compat; lra).
    assert (small : c * eta < room).
    { unfold eta. apply Rmult_lt_reg_r with (exp s + INR M); [lra|]. unfold Rdiv. rewrite Rmult_1_l, Rmult_assoc, Rinv_l by lra.
      assert (c = room * s) by (unfold s; field; lra). rewrite H at 1. nra. }
    (* the allocation: eta but for the first outcome *)
    assert (z0 : forall m, (m < S M)%nat -> softmax M 1 logit m = if Nat.eqb m 0 then 1 - INR M * eta else eta).
    { assert (A : total (S M) (fun k => exp (logit k / 1)) = exp s + INR M).
      { rewrite (total_ext _ _ (fun m => if Nat.eqb m 0 then exp (s * 1) else exp (s * 0))).
        - rewrite (one_hot_total M 0 ltac:(lia) (fun v => exp (s * v))). rewrite Rmult_1_r, Rmult_0_r, exp_0. ring.
        - intros m _. unfold logit. destruct (Nat.eqb m 0); f_equal; field. }
      intros m _. unfold softmax. rewrite A. unfold logit, eta. destruct (Nat.eqb m 0).
      - replace (s / 1) with s by field. field. lra.
      - replace (0 / 1) with 0 by field. rewrite exp_0. reflexivity. }
    set (z := softmax M 1 logit) in *. set (E := exp (1 / tau)). assert (E0 : 0 < E) by apply exp_pos.
    set (u := exp (- (INR M * eta) / tau)). set (w := exp (eta / tau)).
    assert (u0 : 0 < u) by apply exp_pos. assert (w0 : 0 < w) by apply exp_pos.
    assert (first : exp ((1 - INR M * eta) / tau) = E * u).
    { unfold E, u. rewrite <- exp_plus. f_equal. field. lra. }
    assert (uw : u <= 1 /\ 1 <= w).
    { split; [unfold u|unfold w].
      - pose proof (exp_ineq1_le (INR M * eta / tau)) as h. replace (- (INR M * eta) / tau) with (- (INR M * eta / tau)) by (field; lra).
        rewrite exp_Ropp. assert (0 <= INR M * eta / tau) by (apply Rmult_le_pos; [nra|left; apply Rinv_0_lt_compat; auto]).
        rewrite <- Rinv_1. apply Rinv_le_contravar; lra.
      - pose proof (exp_ineq1_le (eta / tau)) as h. assert (0 < eta / tau) by (apply Rdiv_lt_0_compat; auto). lra. }
    assert (A : total (S M) (fun k => exp (z k / tau)) = E * u + INR M * w).
    { rewrite (total_ext _ _ (fun m => if Nat.eqb m 0 then (1 * (E * u) + (1 - 1) * w) else (0 * (E * u) + (1 - 0) * w))).
      - rewrite (one_hot_total M 0 ltac:(lia) (fun v => v * (E * u) + (1 - v) * w)). ring.
      - intros m hm. rewrite z0 by auto. destruct (Nat.eqb m 0); [rewrite first; ring|unfold w; ring]. }
    assert (Q : squares M (softmax M tau z) = ((E * u) ^ 2 + INR M * w ^ 2) / (E * u + INR M * w) ^ 2).
    { assert (Apos : 0 < E * u + INR M * w) by (assert (0 < E * u) by (apply Rmult_lt_0_compat; auto); nra).
      unfold squares, softmax. rewrite A.
      rewrite (total_ext _ _ (fun m => (if Nat.eqb m 0 then (1 * (E * u) ^ 2 + (1 - 1) * w ^ 2) else (0 * (E * u) ^ 2 + (1 - 0) * w ^ 2)) / (E * u + INR M * w) ^ 2)).
      - rewrite total_div, (one_hot_total M 0 ltac:(lia) (fun v => v * (E * u) ^ 2 + (1 - v) * w ^ 2)). f_equal. ring.
      - intros m hm. rewrite z0 by auto. destruct (Nat.eqb m 0); [rewrite first|fold w]; field; lra. }
    set (r0 := (E ^ 2 + INR M) / (E + INR M) ^ 2).
    assert (p2 : 0 < (E + INR M) ^ 2) by (apply pow_lt; lra).
    assert (r01 : 0 < r0 <= 1).
    { split; [apply Rdiv_lt_0_compat; nra|]. pose proof (delta_positive M tau M1 t) as dp. rewrite delta_is in dp by auto. fold E r0 in dp. lra. }
    assert (close : r0 * (u ^ 2 / w ^ 2) <= squares M (softmax M tau z)).
    { rewrite Q. unfold r0. assert (Apos : 0 < E * u + INR M * w) by (assert (0 < E * u) by (apply Rmult_lt_0_compat; auto); nra).
      replace ((E ^ 2 + INR M) / (E + INR M) ^ 2 * (u ^ 2 / w ^ 2)) with ((E ^ 2 + INR M) * u ^ 2 / ((E + INR M) * w) ^ 2)
        by (field; split; lra).
      apply Rmult_le_compat.
      - apply Rmult_le_pos; [nra|apply pow2_ge_0].
      - left. apply Rinv_0_lt_compat. apply pow_lt. nra.
      - assert (u ^ 2 <= w ^ 2) by (apply pow_incr; lra). nra.
      - apply Rinv_le_contravar; [apply pow_lt; auto|]. apply pow_incr. split; [lra|]. nra. }
    assert (uw2 : 1 - c * eta <= u ^ 2 / w ^ 2).
    { replace (u ^ 2 / w ^ 2) with (exp (- (c * eta))).
      - pose proof (exp_ineq1_le (- (c * eta))). lra.
      - unfold u, w. unfold Rdiv at 1. rewrite <- !Rpower_pow by apply exp_pos. unfold Rpower. rewrite !ln_exp, <- exp_Ropp, <- exp_plus.
        f_equal. unfold c. simpl INR. field. lra. }
    assert (dz : 1 - squares M (softmax M tau z) <= delta M tau + c * eta).
    { rewrite delta_is by auto. fold E r0. assert (r0 * (1 - c * eta) <= r0 * (u ^ 2 / w ^ 2)) by (apply Rmult_le_compat_l; lra).
      assert (r0 * (c * eta) <= 1 * (c * eta)) by (apply Rmult_le_compat_r; [apply Rmult_le_pos; lra|lra]). lra. }
    apply Rle_lt_trans with (delta M tau + c * eta); [|lra].
    unfold dav. apply Rle_trans with (mean (fun _ => (delta M tau + c * eta) * 1)).
    + apply mono; [apply within| |].
      { exists (Rabs ((delta M tau + c * eta) * 1)). intros _. lra. }
      intros b. rewrite rewritten. unfold allocation. fold z. lra.
    + rewrite ms, m1; [lra|exists 1; intros _; rewrite Rabs_R1; lra|].
      pose proof (delta_positive M tau M1 t). assert (0 <= c * eta) by (apply Rmult_le_pos; lra). lra.
Qed.

(* Two outcomes; the vector (1/3, 2/3); the mean over one bid *)
Example two_outcomes : simplex 1 (fun m => if Nat.eqb m 0 then 1 / 3 else 2 / 3).
Proof. split; [intros m _; destruct (Nat.eqb m 0); lra|simpl; lra]. Qed.
Example one_bid : is_mean (fun f : unit -> R => f tt).
Proof. repeat split; auto. Qed.

Print Assumptions what_dav_can_be. Print Assumptions infimum_of_dav.
