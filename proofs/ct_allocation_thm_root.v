(** ct-allocation-thm-root (our repair of Khalili's Theorems 5 and 6 and of Algorithm 1): the least-cost contract.
    Bears on the claims khalili-thm5, khalili-alg1, khalili-thm6 (corrected), page contracts/allocation.
    Beside the prose: b is stated as the positive number with b^2 = K C / (2 M); a share with the valuation 0, for which
    theta / v is infinite, is 1; "the optimum" is stated as least cost and, for r > 1, as the only contract that has it;
    for r = 1 a contract has the least cost if and only if it has the shares of the last sentence. *)
Require Import Reals Ranalysis5 Lra Lia.
Require Import totals maxima.
Open Scope R_scope.

(* What has to be read *)

(* x to the power s, for x >= 0, with 0 to the power s = 0 *)
Definition power (x s : R) : R := if Rle_dec x 0 then 0 else Rpower x s.

(* How many of n sellers have a valuation above theta, and how many one of at least theta *)
Definition number_above (n : nat) (valuation : nat -> R) (theta : R) : R :=
  total n (fun k => if Rlt_dec theta (valuation k) then 1 else 0).
Definition number_from (n : nat) (valuation : nat -> R) (theta : R) : R :=
  total n (fun k => if Rle_dec theta (valuation k) then 1 else 0).

(* The market: valuations, and an agreed error K with more than 2 sqrt K positive valuations *)
Definition market (n : nat) (valuation : nat -> R) (K : R) : Prop :=
  (forall k, (k < n)%nat -> 0 <= valuation k) /\ 0 < K /\ 2 * sqrt K < number_above n valuation 0.

(* What the shares leave out: T *)
Definition left_out (n : nat) (share : nat -> R) : R := total n (fun k => 1 - share k).

(* The contracts of problem (10): shares and a noise scale with the error K *)
Definition contract (n : nat) (K : R) (share : nat -> R) (scale : R) : Prop :=
  (forall k, (k < n)%nat -> 0 <= share k <= 1) /\ 0 < scale /\ (left_out n share / 2) ^ 2 + 2 * scale ^ 2 = K.

(* The total cost of a contract: seller k loses share / scale, which costs her valuation times its power r *)
Definition cost (n : nat) (valuation : nat -> R) (r : R) (share : nat -> R) (scale : R) : R :=
  total n (fun k => valuation k * power (share k / scale) r).

(* A contract of least cost *)
Definition optimal (n : nat) (valuation : nat -> R) (K r : R) (share : nat -> R) (scale : R) : Prop :=
  contract n K share scale /\
  forall share' scale', contract n K share' scale' ->
    cost n valuation r share scale <= cost n valuation r share' scale'.

(* M(theta) *)
Definition capped_sum (n : nat) (valuation : nat -> R) (theta : R) : R :=
  total n (fun k => Rmin (valuation k) theta).

(* The share min(1, (theta / v)^(1 / (r - 1))), and the equation for theta *)
Definition best_share (r theta v : R) : R := if Rle_dec v theta then 1 else power (theta / v) (1 / (r - 1)).
Definition root (n : nat) (valuation : nat -> R) (K r theta : R) : Prop :=
  0 < theta /\
  total n (fun k => if Rlt_dec theta (valuation k) then 1 - power (theta / valuation k) (1 / (r - 1)) else 0)
    = 4 * K * theta / capped_sum n valuation theta.

(* For r > 1: one root; its shares and scale are the one optimum, and its cost is W *)
Definition least_cost_contract_statement : Prop :=
  forall n valuation K r, market n valuation K -> 1 < r ->
  exists theta, root n valuation K r theta /\ (forall theta', root n valuation K r theta' -> theta' = theta) /\
  let M := capped_sum n valuation theta in
  let share := fun k => best_share r theta (valuation k) in
  let C := total n (fun k => valuation k * power (share k) r) in
  exists scale, scale ^ 2 = K * C / (2 * M) /\
    optimal n valuation K r share scale /\
    (forall share' scale', optimal n valuation K r share' scale' ->
       scale' = scale /\ forall k, (k < n)%nat -> share' k = share k) /\
    cost n valuation r share scale = 2 * M / K * Rpower scale (2 - r) /\
    (r = 2 -> cost n valuation r share scale = 2 / K * M).

(* The equation for r = 1: the left side is any number between the two counts *)
Definition linear_root (n : nat) (valuation : nat -> R) (K theta : R) : Prop :=
  0 < theta /\
  number_above n valuation theta <= 4 * K * theta / capped_sum n valuation theta <= number_from n valuation theta.

(* Sellers below theta get the share 1, those above it 0, and all together leave out the right side of the equation *)
Definition linear_shares (n : nat) (valuation : nat -> R) (K theta : R) (share : nat -> R) : Prop :=
  (forall k, (k < n)%nat -> valuation k < theta -> share k = 1) /\
  (forall k, (k < n)%nat -> theta < valuation k -> share k = 0) /\
  left_out n share = 4 * K * theta / capped_sum n valuation theta.

(* For r = 1: one root; there are contracts with its shares, and they are those of least cost *)
Definition least_cost_contract_linear_statement : Prop :=
  forall n valuation K, market n valuation K ->
  exists theta, linear_root n valuation K theta /\
  (forall theta', linear_root n valuation K theta' -> theta' = theta) /\
  let M := capped_sum n valuation theta in
  (exists share scale, contract n K share scale /\ linear_shares n valuation K theta share) /\
  forall share scale, contract n K share scale ->
    (optimal n valuation K 1 share scale <-> linear_shares n valuation K theta share) /\
    (linear_shares n valuation K theta share ->
       scale ^ 2 = K * total n (fun k => valuation k * power (share k) 1) / (2 * M) /\
       cost n valuation 1 share scale = 2 * M / K * Rpower scale (2 - 1)).

(* The proofs, which need not be read *)

Lemma power_pos x s : 0 < x -> power x s = Rpower x s.
Proof. intros h. unfold power. destruct (Rle_dec x 0); [lra|reflexivity]. Qed.

Lemma power_0 s : power 0 s = 0.
Proof. unfold power. destruct (Rle_dec 0 0); lra. Qed.

Lemma power_ge0 x s : 0 <= power x s.
Proof. unfold power. destruct (Rle_dec x 0); [lra|]. left. apply exp_pos. Qed.

Lemma power_1 x : 0 <= x -> power x 1 = x.
Proof.
  intros h. unfold power. destruct (Rle_dec x 0); [lra|]. apply Rpower_1. lra.
Qed.

(* A power above 1 lies above its tangents, strictly but at the point of contact *)
Lemma bernoulli r x : 1 < r -> x <> 0 -> 1 + r * (exp x - 1) < exp (r * x).
Proof.
  intros hr hx. pose proof (exp_ineq1 ((r - 1) * x)) as h1. pose proof (exp_ineq1 (- x)) as h2.
  assert ((r - 1) * x <> 0) by (apply Rmult_integral_contrapositive; split; lra).
  specialize (h1 H). specialize (h2 ltac:(lra)). pose proof (exp_pos x) as p.
  assert (e1 : exp (r * x) = exp x * exp ((r - 1) * x)) by (rewrite <- exp_plus; f_equal; ring).
  assert (e2 : exp x * exp (- x) = 1) by (rewrite <- exp_plus; replace (x + - x) with 0 by ring; apply exp_0).
  pose proof (Rmult_lt_compat_l (exp x) _ _ p h1) as q1. rewrite <- e1 in q1.
  pose proof (Rmult_lt_compat_l (exp x) _ _ p h2) as q2. rewrite e2 in q2.
  assert ((r - 1) * (exp x * (1 + - x)) < (r - 1) * 1) by (apply Rmult_lt_compat_l; lra).
  lra.
Qed.

Lemma tangent r x y : 1 < r -> 0 < y -> 0 <= x -> x <> y ->
  power y r + r * power y (r - 1) * (x - y) < power x r.
Proof.
  intros hr hy hx ne. rewrite !(power_pos y) by auto.
  assert (py : Rpower y r = y * Rpower y (r - 1)).
  { rewrite <- (Rpower_1 y) at 2 by auto. rewrite <- Rpower_plus. f_equal. ring. }
  assert (p0 : 0 < Rpower y (r - 1)) by apply exp_pos.
  destruct (Req_dec x 0) as [->|x0].
  - rewrite power_0, py.
    assert (0 < (r - 1) * (y * Rpower y (r - 1))) by (apply Rmult_lt_0_compat; [lra|apply Rmult_lt_0_compat; auto]). lra.
  - rewrite power_pos by lra.
    assert (ln x - ln y <> 0).
    { intros e. apply ne. apply ln_inv; lra. }
    pose proof (bernoulli r (ln x - ln y) hr H) as b.
    assert (e1 : exp (ln x - ln y) = x / y).
    { unfold Rminus. rewrite exp_plus, exp_Ropp, !exp_ln by lra. reflexivity. }
    assert (e2 : exp (r * (ln x - ln y)) * Rpower y r = Rpower x r).
    { unfold Rpower. rewrite <- exp_plus. f_equal. ring. }
    rewrite <- e2, py, e1 in *.
    replace (y * Rpower y (r - 1) + r * Rpower y (r - 1) * (x - y))
      with ((1 + r * (x / y - 1)) * (y * Rpower y (r - 1))) by (field; lra).
    apply Rmult_lt_compat_r; [apply Rmult_lt_0_compat; auto|auto].
Qed.

(* Two points of the cone: a form of the Cauchy-Schwarz inequality *)
Lemma cone u y u' y' K : 0 < K -> 0 < y -> 0 < y' -> u ^ 2 + 2 = K * y ^ 2 -> u' ^ 2 + 2 = K * y' ^ 2 ->
  u * u' + 2 <= K * y * y' /\ (K * y * y' <= u * u' + 2 -> u' = u /\ y' = y).
Proof.
  intros K0 y0 y1 e e'. 
  assert (p : 0 < K * y * y') by (apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat; auto|auto]).
  assert (sq : (K * y * y') ^ 2 = (u * u' + 2) ^ 2 + 2 * (u - u') ^ 2).
  { replace ((K * y * y') ^ 2) with ((K * y ^ 2) * (K * y' ^ 2)) by ring. rewrite <- e, <- e'. ring. }
  pose proof (pow2_ge_0 (u - u')) as q.
  split.
  - destruct (Rle_dec (u * u' + 2) 0) as [n|n]; [lra|]. apply Rnot_lt_le. intros lt.
    assert ((K * y * y') ^ 2 < (u * u' + 2) ^ 2) by nra. lra.
  - intros le. assert ((K * y * y') ^ 2 <= (u * u' + 2) ^ 2) by nra.
    assert (z : (u - u') ^ 2 = 0) by lra.
    assert (uu : u - u' = 0). { destruct (Req_dec (u - u') 0) as [|n]; auto. pose proof (pow_nonzero (u - u') 2 n). lra. }
    split; [lra|]. replace u' with u in e' by lra.
    assert (f : K * (y ^ 2 - y' ^ 2) = 0) by lra.
    apply Rmult_integral in f. destruct f; [lra|]. nra.
Qed.

Section Optimum.
Variables (n : nat) (valuation : nat -> R) (K r theta : R) (share : nat -> R) (scale : R).
Hypothesis K0 : 0 < K.
Hypothesis theta0 : 0 < theta.
Hypothesis admissible : contract n K share scale.
Let M := capped_sum n valuation theta.
Hypothesis M0 : 0 < M.
Let T := left_out n share.
Hypothesis equation : T = 4 * K * theta / M.
Hypothesis capped : forall k, (k < n)%nat -> valuation k < theta -> share k = 1.
(* slope k times r is the derivative of seller k's cost at her loss *)
Variables (slope : nat -> R) (Y : R).
Hypothesis Y0 : 0 < Y.
Hypothesis r1 : 1 <= r.
Hypothesis convex : forall k x, (k < n)%nat -> 0 <= x ->
  valuation k * power (share k / scale) r + r * slope k * (x - share k / scale) <= valuation k * power x r.
Hypothesis steep : forall k, (k < n)%nat -> Rmin (valuation k) theta * Y <= slope k.
Hypothesis at_share : forall k, (k < n)%nat -> slope k * (share k / scale) = Rmin (valuation k) theta * Y * (share k / scale).

Let floor_cost (e : nat -> R) (y : R) (k : nat) : R := theta * (e k - y) + Rmin (valuation k) theta * y.

Lemma floor_total e y : total n (floor_cost e y) = M * y - theta * total n (fun k => y - e k).
Proof.
  unfold floor_cost, M, capped_sum.
  rewrite (total_ext n _ (fun k => y * Rmin (valuation k) theta - theta * (y - e k))) by (intros; ring).
  rewrite total_minus, !total_scal. ring.
Qed.

Lemma gap_left (a : nat -> R) s : 0 < s -> total n (fun k => 1 / s - a k / s) = left_out n a / s.
Proof.
  intros h. unfold left_out. rewrite <- total_div. apply total_ext. intros. field. lra.
Qed.

Lemma scales a s : contract n K a s -> (left_out n a / s / 2) ^ 2 + 2 = K * (1 / s) ^ 2.
Proof.
  intros (_ & h & e). rewrite <- e. field. lra.
Qed.

Lemma optimum a s : contract n K a s ->
  cost n valuation r share scale <= cost n valuation r a s /\
  (cost n valuation r a s <= cost n valuation r share scale ->
     s = scale /\ (forall k, (k < n)%nat -> valuation k < theta -> a k = 1) /\
     (forall k, (k < n)%nat -> slope k * (a k / s) = Rmin (valuation k) theta * Y * (a k / s)) /\
     (forall k, (k < n)%nat ->
        valuation k * power (share k / scale) r + r * slope k * (a k / s - share k / scale) = valuation k * power (a k / s) r)).
Proof.
  intros adm. pose proof adm as (box & s0 & _). pose proof admissible as (box0 & scale0 & _).
  pose proof (scales _ _ adm) as c1. pose proof (scales _ _ admissible) as c0. fold T in c0.
  set (y := 1 / scale) in *. set (y' := 1 / s) in *.
  assert (y0 : 0 < y) by (apply Rdiv_lt_0_compat; lra). assert (y1 : 0 < y') by (apply Rdiv_lt_0_compat; lra).
  set (u := T / scale / 2) in *. set (u' := left_out n a / s / 2) in *.
  assert (T0 : 0 < T) by (rewrite equation; apply Rdiv_lt_0_compat; auto; nra).
  assert (u0 : 0 < u) by (unfold u; apply Rdiv_lt_0_compat; [apply Rdiv_lt_0_compat; lra|lra]).
  destruct (cone u y u' y' K K0 y0 y1 c0 c1) as [cauchy only].
  assert (uM : u * M = 2 * theta * K * y) by (unfold u, y; rewrite equation; field; lra).
  (* the four lists of numbers between the two costs *)
  set (e := fun k => share k / scale). set (e' := fun k => a k / s).
  assert (e0 : forall k, (k < n)%nat -> 0 <= e k <= y).
  { intros k hk. destruct (box0 k hk). unfold e, y. split; [apply Rmult_le_pos; [auto|left; apply Rinv_0_lt_compat; auto]|].
    apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; auto|auto]. }
  assert (e1 : forall k, (k < n)%nat -> 0 <= e' k <= y').
  { intros k hk. destruct (box k hk). unfold e', y'. split; [apply Rmult_le_pos; [auto|left; apply Rinv_0_lt_compat; auto]|].
    apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; auto|auto]. }
  set (f0 := fun k => valuation k * power (e' k) r).
  set (f1 := fun k => valuation k * power (e k) r + r * slope k * (e' k - e k)).
  set (f2 := fun k => valuation k * power (e k) r + r * (Rmin (valuation k) theta * Y * e' k - slope k * e k)).
  set (f3 := fun k => valuation k * power (e k) r + r * (Y * floor_cost e' y' k - slope k * e k)).
  assert (s01 : forall k, (k < n)%nat -> f1 k <= f0 k) by (intros k hk; apply convex; [auto|apply e1; auto]).
  assert (s12 : forall k, (k < n)%nat -> f2 k <= f1 k).
  { intros k hk. unfold f1, f2. pose proof (steep k hk). destruct (e1 k hk).
    assert (Rmin (valuation k) theta * Y * e' k <= slope k * e' k) by (apply Rmult_le_compat_r; auto). nra. }
  assert (s23 : forall k, (k < n)%nat -> f3 k <= f2 k).
  { intros k hk. unfold f2, f3, floor_cost. pose proof (Rmin_r (valuation k) theta). destruct (e1 k hk).
    assert (0 <= (theta - Rmin (valuation k) theta) * (y' - e' k)) by (apply Rmult_le_pos; lra).
    assert (0 <= r * (Y * ((theta - Rmin (valuation k) theta) * (y' - e' k))))
      by (apply Rmult_le_pos; [lra|apply Rmult_le_pos; lra]). lra. }
  assert (own : forall k, (k < n)%nat -> slope k * e k = Y * floor_cost e y k).
  { intros k hk. pose proof (at_share k hk) as h. change (share k / scale) with (e k) in h. rewrite h. unfold floor_cost.
    destruct (Rlt_dec (valuation k) theta) as [lt|nlt].
    - assert (ey : e k = y) by (unfold e, y; rewrite (capped k hk lt); reflexivity). rewrite ey. ring.
    - rewrite Rmin_right by lra. ring. }
  assert (total3 : total n f3 = cost n valuation r share scale
      + r * Y * ((M * y' - 2 * theta * u') - (M * y - 2 * theta * u))).
  { unfold f3. rewrite total_plus, total_scal, total_minus, total_scal.
    rewrite (total_ext n (fun k => slope k * e k) (fun k => Y * floor_cost e y k)) by auto.
    rewrite total_scal, !floor_total. unfold e, e', y, y'. rewrite !gap_left by auto.
    fold T. unfold cost, u, u', y, y'. field. lra. }
  assert (better : M * y - 2 * theta * u <= M * y' - 2 * theta * u').
  { apply Rmult_le_reg_l with u; auto.
    assert (theta * (u * u' + 2) <= theta * (K * y * y')) by (apply Rmult_le_compat_l; lra).
    assert (theta * u ^ 2 = theta * (K * y ^ 2 - 2)) by (f_equal; lra).
    assert (u * M * y = 2 * theta * K * y * y) by (rewrite uM; reflexivity).
    assert (u * M * y' = 2 * theta * K * y * y') by (rewrite uM; reflexivity). lra. }
  assert (rY : 0 < r * Y) by (apply Rmult_lt_0_compat; lra).
  assert (t01 : total n f1 <= total n f0) by (apply total_le; auto).
  assert (t12 : total n f2 <= total n f1) by (apply total_le; auto).
  assert (t23 : total n f3 <= total n f2) by (apply total_le; auto).
  assert (up : 0 <= r * Y * ((M * y' - 2 * theta * u') - (M * y - 2 * theta * u))) by (apply Rmult_le_pos; lra).
  change (cost n valuation r a s) with (total n f0). split; [lra|]. intros least.
  assert (z : r * Y * ((M * y' - 2 * theta * u') - (M * y - 2 * theta * u)) <= 0) by lra.
  assert (z' : M * y' - 2 * theta * u' <= M * y - 2 * theta * u).
  { apply Rnot_lt_le. intros lt. assert (0 < r * Y * ((M * y' - 2 * theta * u') - (M * y - 2 * theta * u)))
      by (apply Rmult_lt_0_compat; lra). lra. }
  assert (only' : K * y * y' <= u * u' + 2).
  { assert (u * (M * y' - 2 * theta * u') <= u * (M * y - 2 * theta * u)) by (apply Rmult_le_compat_l; lra).
    assert (theta * u ^ 2 = theta * (K * y ^ 2 - 2)) by (f_equal; lra).
    assert (u * M * y = 2 * theta * K * y * y) by (rewrite uM; reflexivity).
    assert (u * M * y' = 2 * theta * K * y * y') by (rewrite uM; reflexivity).
    apply Rmult_le_reg_l with theta; auto. lra. }
  destruct (only only') as [_ yy].
  assert (ss : s = scale).
  { unfold y, y' in yy. rewrite <- (Rinv_inv s), <- (Rinv_inv scale). f_equal. unfold Rdiv in yy. lra. }
  pose proof (total_same n f1 f0 s01 ltac:(lra)) as same01.
  pose proof (total_same n f2 f1 s12 ltac:(lra)) as same12.
  pose proof (total_same n f3 f2 s23 ltac:(lra)) as same23.
  split; [auto|]. split; [|split].
  - intros k hk lt. specialize (same23 k hk). unfold f3, f2, floor_cost in same23. rewrite Rmin_left in same23 by lra.
    assert (r * Y * ((theta - valuation k) * (y' - e' k)) = 0) by lra.
    apply Rmult_integral in H. destruct H; [lra|]. apply Rmult_integral in H. destruct H; [lra|].
    unfold e', y' in H. assert (a k / s = 1 / s) by lra. apply (Rmult_eq_reg_r (/ s)); [|apply Rinv_neq_0_compat; lra].
    unfold Rdiv in H0. lra.
  - intros k hk. specialize (same12 k hk). unfold f2, f1 in same12. fold (e' k).
    assert (r * (Rmin (valuation k) theta * Y * e' k - slope k * e' k) = 0) by lra.
    apply Rmult_integral in H. destruct H; lra.
  - intros k hk. exact (same01 k hk).
Qed.

(* The two formulas *)
Lemma formulas : (forall k, (k < n)%nat -> valuation k * power (share k) r = Rmin (valuation k) theta * share k) ->
  scale ^ 2 = K * total n (fun k => valuation k * power (share k) r) / (2 * M) /\
  total n (fun k => valuation k * power (share k) r) = 2 * M * scale ^ 2 / K.
Proof.
  intros own. pose proof admissible as (box & s0 & e). fold T in e.
  assert (C : total n (fun k => valuation k * power (share k) r) = M - theta * T).
  { rewrite (total_ext n _ (fun k => Rmin (valuation k) theta - theta * (1 - share k))).
    - rewrite total_minus, total_scal. reflexivity.
    - intros k hk. rewrite own by auto. destruct (Rlt_dec (valuation k) theta) as [lt|nlt].
      + rewrite (capped k hk lt). ring.
      + rewrite Rmin_right by lra. ring. }
  rewrite C. assert (q : theta * T = T ^ 2 * M / (4 * K)) by (rewrite equation; field; lra).
  assert (sq : 2 * scale ^ 2 = K - T ^ 2 / 4) by lra.
  rewrite q. split.
  - apply Rmult_eq_reg_l with 2; [|lra]. rewrite sq. field. lra.
  - replace (2 * M * scale ^ 2 / K) with (M * (2 * scale ^ 2) / K) by (field; lra). rewrite sq. field. lra.
Qed.
End Optimum.

(* Between a number and the next valuation there is a gap *)
Lemma gap n (valuation : nat -> R) s : exists eps, 0 < eps /\ forall k, (k < n)%nat ->
  (valuation k < s -> valuation k <= s - eps) /\ (s < valuation k -> s + eps <= valuation k).
Proof.
  induction n as [|n IH]; [exists 1; split; [lra|intros; lia]|].
  destruct IH as (eps & e0 & h).
  set (d := if Req_EM_T (valuation n) s then 1 else Rabs (valuation n - s)).
  assert (d0 : 0 < d). { unfold d. destruct (Req_EM_T _ _); [lra|]. apply Rabs_pos_lt. lra. }
  exists (Rmin eps d). split; [apply Rmin_glb_lt; auto|].
  pose proof (Rmin_l eps d). pose proof (Rmin_r eps d).
  intros k hk. destruct (Nat.eq_dec k n) as [->|ne].
  - unfold d in *. destruct (Req_EM_T (valuation n) s); [lra|].
    split; intros; [rewrite Rabs_left in * by lra|rewrite Rabs_right in * by lra]; lra.
  - destruct (h k ltac:(lia)). split; intros; [assert (valuation k <= s - eps) by auto|assert (s + eps <= valuation k) by auto]; lra.
Qed.

Lemma bounded n (valuation : nat -> R) : exists V, 0 < V /\ forall k, (k < n)%nat -> valuation k <= V.
Proof.
  induction n as [|n (V & V0 & h)]; [exists 1; split; [lra|intros; lia]|].
  exists (Rmax V (valuation n)). split; [eapply Rlt_le_trans; [exact V0|apply Rmax_l]|].
  intros k hk. destruct (Nat.eq_dec k n) as [->|ne]; [apply Rmax_r|].
  eapply Rle_trans; [apply h; lia|apply Rmax_l].
Qed.

Section Root.
Variables (n : nat) (valuation : nat -> R) (K : R).
Hypothesis given : market n valuation K.
Let m := number_above n valuation 0.
Let M := capped_sum n valuation.

Lemma m_square : 4 * K < m ^ 2.
Proof.
  destruct given as (_ & K0 & h). fold m in h. pose proof (sqrt_lt_R0 K K0). pose proof (sqrt_sqrt K ltac:(lra)).
  assert ((2 * sqrt K) ^ 2 < m ^ 2) by nra. nra.
Qed.

Lemma K_positive : 0 < K. Proof. apply given. Qed.

Lemma m_positive : 0 < m.
Proof. destruct given as (_ & K0 & h). fold m in h. pose proof (sqrt_lt_R0 K K0). lra. Qed.

Lemma someone : exists k, (k < n)%nat /\ 0 < valuation k.
Proof.
  destruct (total_some n _ m_positive) as (k & hk & p). exists k. split; [exact hk|]. revert p.
  destruct (Rlt_dec 0 (valuation k)); [auto|lra].
Qed.

Lemma min_ge0 theta k : 0 < theta -> (k < n)%nat -> 0 <= Rmin (valuation k) theta.
Proof. intros t hk. apply Rmin_glb; [apply given; auto|lra]. Qed.

Lemma M_positive theta : 0 < theta -> 0 < M theta.
Proof.
  intros t. destruct someone as (k & hk & p). unfold M, capped_sum.
  apply total_pos with k; auto; [intros; apply min_ge0; auto|apply Rmin_glb_lt; auto].
Qed.

Lemma M_rises s t : s <= t -> M s <= M t.
Proof. intros le. apply total_le. intros k hk. apply Rle_min_compat_l. auto. Qed.

(* theta / M(theta) does not fall *)
Lemma ratio_rises s t : 0 < s -> s < t -> s * M t <= t * M s.
Proof.
  intros s0 lt. unfold M, capped_sum. rewrite <- !total_scal. apply total_le. intros k hk.
  pose proof (proj1 given k hk). 
  destruct (Rle_dec (valuation k) s); [rewrite !Rmin_left by lra; apply Rmult_le_compat_r; lra|].
  rewrite (Rmin_right _ s) by lra. pose proof (Rmin_r (valuation k) t). nra.
Qed.

Lemma right_rises s t : 0 < s -> s < t -> 4 * K * s / M s <= 4 * K * t / M t.
Proof.
  intros s0 lt. pose proof (ratio_rises s t s0 lt). pose proof (M_positive s s0). pose proof (M_positive t ltac:(lra)).
  pose proof K_positive. apply Rmult_le_reg_r with (M s * M t); [apply Rmult_lt_0_compat; auto|].
  replace (4 * K * s / M s * (M s * M t)) with (4 * K * (s * M t)) by (field; lra).
  replace (4 * K * t / M t * (M s * M t)) with (4 * K * (t * M s)) by (field; lra).
  apply Rmult_le_compat_l; lra.
Qed.

Lemma right_positive s : 0 < s -> 0 < 4 * K * s / M s.
Proof. intros h. pose proof K_positive. apply Rdiv_lt_0_compat; [nra|apply M_positive; auto]. Qed.

(* Below the least positive valuation M is m theta *)
Lemma M_below theta : 0 < theta -> (forall k, (k < n)%nat -> 0 < valuation k -> theta <= valuation k) -> M theta = m * theta.
Proof.
  intros t low. unfold M, capped_sum, m, number_above. rewrite Rmult_comm, <- total_scal. apply total_ext. intros k hk.
  destruct (Rlt_dec 0 (valuation k)) as [p|p]; [rewrite Rmin_right by auto; ring|].
  pose proof (proj1 given k hk). rewrite Rmin_left by lra. lra.
Qed.

Lemma from_below theta : 0 < theta -> (forall k, (k < n)%nat -> 0 < valuation k -> theta <= valuation k) ->
  number_from n valuation theta = m.
Proof.
  intros t low. apply total_ext. intros k hk. pose proof (proj1 given k hk).
  destruct (Rlt_dec 0 (valuation k)) as [p|p], (Rle_dec theta (valuation k)) as [q|q]; auto; [|lra].
  exfalso. apply q. auto.
Qed.

Lemma M_from theta : 0 < theta -> theta * number_from n valuation theta <= M theta.
Proof.
  intros t. unfold number_from, M, capped_sum. rewrite <- total_scal. apply total_le. intros k hk.
  destruct (Rle_dec theta (valuation k)); [rewrite Rmin_right by auto; lra|]. rewrite Rmult_0_r. apply min_ge0; auto.
Qed.

(* At a linear root something is bought: M - theta * (what is left out) is positive *)
Lemma from_strict theta : 0 < theta -> 4 * K * theta / M theta <= number_from n valuation theta ->
  theta * (4 * K * theta / M theta) < M theta.
Proof.
  intros t le. pose proof (M_from theta t) as f. pose proof (M_positive theta t) as p. pose proof K_positive.
  set (R0 := 4 * K * theta / M theta) in *.
  assert (R0M : R0 * M theta = 4 * K * theta) by (unfold R0; field; lra).
  destruct (Rlt_dec (theta * R0) (M theta)) as [|no]; auto. exfalso.
  assert (e : M theta = theta * number_from n valuation theta).
  { assert (theta * R0 <= theta * number_from n valuation theta) by (apply Rmult_le_compat_l; lra). lra. }
  assert (low : forall k, (k < n)%nat -> 0 < valuation k -> theta <= valuation k).
  { intros k hk pk. apply Rnot_lt_le. intros lt.
    assert (theta * number_from n valuation theta < M theta); [|lra].
    unfold number_from, M, capped_sum. rewrite <- total_scal. apply total_lt with k; auto.
    - intros j hj. destruct (Rle_dec theta (valuation j)); [rewrite Rmin_right by auto; lra|].
      rewrite Rmult_0_r. apply min_ge0; auto.
    - destruct (Rle_dec theta (valuation k)); [lra|]. rewrite Rmult_0_r. apply Rmin_glb_lt; auto. }
  pose proof (from_below theta t low) as fm. rewrite fm in *. pose proof m_square. pose proof m_positive.
  assert (mm : R0 * (m * theta) = 4 * K * theta) by (rewrite <- (M_below theta t low); auto).
  assert (Rm : R0 = m).
  { apply Rle_antisym; auto. apply Rmult_le_reg_l with theta; lra. }
  rewrite Rm in mm. assert (square : m ^ 2 * theta = 4 * K * theta) by lra. apply Rmult_eq_reg_r in square; lra.
Qed.

Lemma linear_unique s t : linear_root n valuation K s -> linear_root n valuation K t -> ~ s < t.
Proof.
  intros (s0 & as_ & fs) (t0 & at_ & ft) lt.
  pose proof (right_rises s t s0 lt) as rise. fold (M s) in *. fold (M t) in *.
  assert (between : number_from n valuation t <= number_above n valuation s).
  { apply total_le. intros k hk. destruct (Rle_dec t (valuation k)), (Rlt_dec s (valuation k)); lra. }
  assert (same : 4 * K * s / M s = 4 * K * t / M t) by lra.
  pose proof (M_positive s s0) as ps. pose proof (M_positive t t0) as pt. pose proof K_positive.
  assert (cross : t * M s <= s * M t).
  { apply (Rmult_eq_compat_r (M s * M t)) in same.
    replace (4 * K * s / M s * (M s * M t)) with (4 * K * (s * M t)) in same by (field; lra).
    replace (4 * K * t / M t * (M s * M t)) with (4 * K * (t * M s)) in same by (field; lra).
    apply Rmult_eq_reg_l in same; lra. }
  assert (low : forall k, (k < n)%nat -> 0 < valuation k -> s <= valuation k).
  { intros k hk pk. apply Rnot_lt_le. intros below.
    assert (s * M t < t * M s); [|lra]. unfold M, capped_sum. rewrite <- !total_scal. apply total_lt with k; auto.
    - intros j hj. pose proof (proj1 given j hj).
      destruct (Rle_dec (valuation j) s); [rewrite !Rmin_left by lra; apply Rmult_le_compat_r; lra|].
      rewrite (Rmin_right _ s) by lra. pose proof (Rmin_r (valuation j) t). nra.
    - rewrite !Rmin_left by lra. apply Rmult_lt_compat_r; lra. }
  pose proof (from_strict s s0 fs) as strict. fold (M s) in strict.
  rewrite (from_below s s0 low) in fs.
  pose proof (M_below s s0 low) as Ms. pose proof m_square. pose proof m_positive.
  assert (R0 : 4 * K * s / M s = 4 * K / m) by (rewrite Ms; field; lra).
  assert (at_least : m <= 4 * K / m).
  { rewrite <- R0. eapply Rle_trans; [|exact as_].
    (* nobody is at s: else M rises by less than s to t *)
    replace m with (number_from n valuation s) by (apply from_below; auto).
    apply total_le. intros k hk. destruct (Rle_dec s (valuation k)) as [a|a], (Rlt_dec s (valuation k)) as [b|b]; try lra.
    exfalso. assert (s * M t < t * M s); [|lra]. unfold M, capped_sum. rewrite <- !total_scal. apply total_lt with k; auto.
    - intros j hj. pose proof (proj1 given j hj).
      destruct (Rle_dec (valuation j) s); [rewrite !Rmin_left by lra; apply Rmult_le_compat_r; lra|].
      rewrite (Rmin_right _ s) by lra. pose proof (Rmin_r (valuation j) t). nra.
    - rewrite !Rmin_left by lra. apply Rmult_lt_compat_r; lra. }
  apply (Rmult_le_compat_r m) in at_least; [|lra]. replace (4 * K / m * m) with (4 * K) in at_least by (field; lra). lra.
Qed.

Lemma linear_exists : exists theta, linear_root n valuation K theta.
Proof.
  pose proof K_positive. pose proof m_square. pose proof m_positive.
  destruct (gap n valuation 0) as (low & low0 & lowest).
  destruct (bounded n valuation) as (V & V0 & top).
  set (E := fun t => 0 < t /\ 4 * K * t <= number_from n valuation t * M t).
  assert (lowE : E low).
  { split; auto. assert (h : forall k, (k < n)%nat -> 0 < valuation k -> low <= valuation k)
      by (intros k hk p; destruct (lowest k hk); lra || (assert (0 + low <= valuation k) by auto; lra)).
    rewrite from_below, M_below by auto. nra. }
  destruct (completeness E) as (s & up & least).
  - exists V. intros t (t0 & h). apply Rnot_lt_le. intros lt.
    assert (none : number_from n valuation t = 0).
    { unfold number_from. rewrite (total_ext n _ (fun _ => 0)), total_const; [lra|].
      intros k hk. pose proof (top k hk). destruct (Rle_dec t (valuation k)); lra. }
    rewrite none in h. nra.
  - exists low. auto.
  - assert (s0 : 0 < s) by (pose proof (up low lowE); lra).
    exists s. split; auto. pose proof (M_positive s s0) as p. fold (M s).
    destruct (gap n valuation s) as (eps & e0 & near). split.
    + apply Rnot_lt_le. intros lt. apply (Rmult_lt_compat_r (M s)) in lt; auto.
      replace (4 * K * s / M s * M s) with (4 * K * s) in lt by (field; lra).
      set (room := (number_above n valuation s * M s - 4 * K * s) / (4 * K)).
      assert (room0 : 0 < room) by (apply Rdiv_lt_0_compat; lra).
      set (t := s + Rmin eps room). assert (t1 : s < t) by (unfold t; pose proof (Rmin_glb_lt eps room 0 e0 room0); lra).
      assert (t2 : t <= s + eps) by (unfold t; pose proof (Rmin_l eps room); lra).
      assert (t3 : t <= s + room) by (unfold t; pose proof (Rmin_r eps room); lra).
      assert (inE : E t).
      { split; [lra|].
        assert (number_above n valuation s <= number_from n valuation t).
        { apply total_le. intros k hk. destruct (near k hk).
          destruct (Rlt_dec s (valuation k)) as [q|q], (Rle_dec t (valuation k)) as [q'|q']; lra. }
        assert (4 * K * t <= number_above n valuation s * M s).
        { apply Rle_trans with (4 * K * (s + room)); [apply Rmult_le_compat_l; lra|]. right. unfold room. field. lra. }
        assert (0 <= number_above n valuation s).
        { apply total_nonneg. intros. destruct (Rlt_dec _ _); lra. }
        pose proof (M_rises s t ltac:(lra)).
        assert (number_above n valuation s * M s <= number_from n valuation t * M t) by (apply Rmult_le_compat; lra). lra. }
      pose proof (up t inE). lra.
    + apply Rnot_lt_le. intros lt. apply (Rmult_lt_compat_r (M s)) in lt; auto.
      replace (4 * K * s / M s * M s) with (4 * K * s) in lt by (field; lra).
      set (room := (4 * K * s - number_from n valuation s * M s) / (4 * K)).
      assert (room0 : 0 < room) by (apply Rdiv_lt_0_compat; lra).
      set (t := s - Rmin eps room). assert (t1 : t < s) by (unfold t; pose proof (Rmin_glb_lt eps room 0 e0 room0); lra).
      assert (t2 : s - eps <= t) by (unfold t; pose proof (Rmin_l eps room); lra).
      assert (t3 : s - room <= t) by (unfold t; pose proof (Rmin_r eps room); lra).
      assert (s <= t); [|lra]. apply least. intros z (z0 & hz). apply Rnot_lt_le. intros tz.
      pose proof (up z (conj z0 hz)) as zs.
      assert (number_from n valuation z <= number_from n valuation s).
      { apply total_le. intros k hk. destruct (near k hk).
        destruct (Rle_dec z (valuation k)) as [q|q], (Rle_dec s (valuation k)) as [q'|q']; lra. }
      assert (0 <= number_from n valuation z).
      { apply total_nonneg. intros. destruct (Rle_dec _ _); lra. }
      pose proof (M_rises z s ltac:(lra)). pose proof (M_positive z z0).
      assert (number_from n valuation z * M z <= number_from n valuation s * M s) by (apply Rmult_le_compat; lra).
      assert (4 * K * (s - room) < 4 * K * z) by (apply Rmult_lt_compat_l; lra).
      assert (4 * K * (s - room) = number_from n valuation s * M s) by (unfold room; field; lra). lra.
Qed.
End Root.

Lemma power_one s : power 1 s = 1.
Proof. rewrite power_pos by lra. unfold Rpower. rewrite ln_1, Rmult_0_r. apply exp_0. Qed.

Lemma power_lt x y s : 0 < x -> x < y -> 0 < s -> power x s < power y s.
Proof.
  intros x0 lt s0. rewrite !power_pos by lra. unfold Rpower. apply exp_increasing.
  apply Rmult_lt_compat_l; auto. apply ln_increasing; auto.
Qed.

Lemma power_div a b s : 0 <= a -> 0 < b -> power (a / b) s = power a s * Rpower b (- s).
Proof.
  intros a0 b0. destruct (Req_dec a 0) as [->|ne]; [unfold Rdiv; rewrite Rmult_0_l, power_0; ring|].
  rewrite !power_pos by (auto; try (apply Rdiv_lt_0_compat); lra). unfold Rpower, Rdiv.
  rewrite ln_mult, ln_Rinv, <- exp_plus by (auto; try (apply Rinv_0_lt_compat); lra). f_equal. ring.
Qed.

Lemma power_split x s : 0 < x -> power x s = x * power x (s - 1).
Proof.
  intros h. rewrite !power_pos by auto. rewrite <- (Rpower_1 x) at 2 by auto. rewrite <- Rpower_plus. f_equal. ring.
Qed.

Section Solution.
Variables (n : nat) (valuation : nat -> R) (K : R).
Hypothesis given : market n valuation K.
Let M := capped_sum n valuation.

Lemma contract_exists theta share : 0 < theta -> (forall k, (k < n)%nat -> 0 <= share k <= 1) ->
  left_out n share = 4 * K * theta / M theta -> theta * left_out n share < M theta ->
  exists scale, contract n K share scale.
Proof.
  intros t0 box e lt. pose proof (K_positive n valuation K given). pose proof (M_positive n valuation K given theta t0) as p.
  fold M in p. set (T := left_out n share) in *.
  assert (T0 : 0 < T) by (rewrite e; apply Rdiv_lt_0_compat; nra).
  assert (eq : 4 * K - T ^ 2 = T * (M theta - theta * T) / theta).
  { assert (T * M theta = 4 * K * theta) by (rewrite e; field; lra).
    replace (T * (M theta - theta * T) / theta) with ((T * M theta) / theta - T ^ 2) by (field; lra). rewrite H0. field. lra. }
  assert (pos : 0 < 4 * K - T ^ 2).
  { rewrite eq. apply Rdiv_lt_0_compat; auto. apply Rmult_lt_0_compat; lra. }
  exists (sqrt ((K - T ^ 2 / 4) / 2)). split; auto. split; [apply sqrt_lt_R0; lra|]. fold T.
  rewrite pow2_sqrt by lra. field.
Qed.

(* The formula for the cost *)
Lemma cost_formula r share scale theta : 1 <= r -> 0 < theta -> contract n K share scale ->
  total n (fun k => valuation k * power (share k) r) = 2 * M theta * scale ^ 2 / K ->
  cost n valuation r share scale = 2 * M theta / K * Rpower scale (2 - r).
Proof.
  intros r1 t0 (box & s0 & _) C. unfold cost.
  rewrite (total_ext n _ (fun k => Rpower scale (- r) * (valuation k * power (share k) r))).
  - rewrite total_scal, C. replace (2 - r) with (INR 2 + - r) by (simpl; ring). rewrite Rpower_plus, Rpower_pow by auto.
    unfold Rdiv. ring.
  - intros k hk. rewrite power_div by (auto; apply box; auto). ring.
Qed.

Section Power.
Variable r : R.
Hypothesis r1 : 1 < r.
Let p := 1 / (r - 1).
Let side (theta : R) (k : nat) : R :=
  if Rlt_dec theta (valuation k) then 1 - power (theta / valuation k) p else 0.

Lemma p_positive : 0 < p. Proof. apply Rdiv_lt_0_compat; lra. Qed.

Lemma side_ge0 theta k : 0 < theta -> 0 <= side theta k.
Proof.
  intros t. unfold side. destruct (Rlt_dec _ _) as [lt|]; [|lra].
  assert (power (theta / valuation k) p < power 1 p).
  { apply power_lt; [apply Rdiv_lt_0_compat; lra| |apply p_positive].
    apply Rmult_lt_reg_r with (valuation k); [lra|]. field_simplify; lra. }
  rewrite power_one in H. lra.
Qed.

Lemma side_falls s t k : 0 < s -> s < t -> side t k <= side s k /\ (0 < side s k -> side t k < side s k).
Proof.
  intros s0 lt. pose proof (side_ge0 s k s0) as g. unfold side in *.
  destruct (Rlt_dec s (valuation k)) as [a|a], (Rlt_dec t (valuation k)) as [b|b]; try (split; intros; lra).
  assert (power (s / valuation k) p < power (t / valuation k) p).
  { apply power_lt; [apply Rdiv_lt_0_compat; lra| |apply p_positive].
    apply Rmult_lt_compat_r; [apply Rinv_0_lt_compat; lra|auto]. }
  split; intros; lra.
Qed.

Lemma root_unique s t : root n valuation K r s -> root n valuation K r t -> ~ s < t.
Proof.
  intros (s0 & es) (t0 & et) lt. fold p in es, et. fold (side s) in es. fold (side t) in et.
  pose proof (right_rises n valuation K given s t s0 lt). pose proof (right_positive n valuation K given s s0).
  change (total n (side s) = 4 * K * s / capped_sum n valuation s) in es.
  change (total n (side t) = 4 * K * t / capped_sum n valuation t) in et.
  destruct (total_some n (side s) ltac:(lra)) as (k & hk & pk).
  assert (total n (side t) < total n (side s)).
  { apply total_lt with k; auto; [intros; apply side_falls; auto|apply side_falls; auto]. }
  lra.
Qed.

(* The two sides as continuous functions *)
Let smooth (k : nat) (theta : R) : R :=
  if Rlt_dec 0 (valuation k) then Rmax 0 (1 - Rpower (theta / valuation k) p) else 0.

Lemma smooth_side theta k : 0 < theta -> smooth k theta = side theta k.
Proof.
  intros t. unfold smooth, side. destruct (Rlt_dec 0 (valuation k)) as [v0|v0], (Rlt_dec theta (valuation k)) as [lt|ge]; try lra.
  - pose proof (side_ge0 theta k t) as g. unfold side in g. destruct (Rlt_dec _ _); [|lra].
    rewrite power_pos in * by (apply Rdiv_lt_0_compat; lra). apply Rmax_right. lra.
  - assert (power 1 p <= power (theta / valuation k) p).
    { destruct (Req_dec theta (valuation k)) as [->|ne]; [right; f_equal; field; lra|left].
      apply power_lt; [lra| |apply p_positive]. apply Rmult_lt_reg_r with (valuation k); [lra|]. field_simplify; lra. }
    rewrite power_one, power_pos in H by (apply Rdiv_lt_0_compat; lra). apply Rmax_left. lra.
Qed.

Let excess (theta : R) : R := 4 * K * theta - M theta * total n (fun k => smooth k theta).

Lemma excess_is theta : 0 < theta -> excess theta = 4 * K * theta - M theta * total n (side theta).
Proof.
  intros t. unfold excess. f_equal. f_equal. apply total_ext. intros. apply smooth_side. auto.
Qed.

Lemma excess_continuous x : 0 < x -> continuity_pt excess x.
Proof.
  intros x0. apply continuity_pt_minus.
  - apply derivable_continuous_pt. reg.
  - apply continuity_pt_mult; apply total_continuous; intros k hk.
    + apply (min_continuous (fun _ => valuation k) (fun t => t)); reg.
    + unfold smooth. destruct (Rlt_dec 0 (valuation k)) as [v0|]; [|apply continuity_pt_const; intros ? ?; reflexivity].
      assert (c : continuity_pt (fun t => 1 - Rpower (t / valuation k) p) x).
      { apply continuity_pt_minus; [apply continuity_pt_const; intros ? ?; reflexivity|]. unfold Rpower.
        apply (continuity_pt_comp (fun t => p * ln (t / valuation k)) exp); [|apply derivable_continuous_pt; apply derivable_pt_exp].
        apply continuity_pt_mult; [apply continuity_pt_const; intros ? ?; reflexivity|].
        apply (continuity_pt_comp (fun t => t / valuation k) ln); [apply derivable_continuous_pt; reg|].
        apply derivable_continuous_pt. exists (/ (x / valuation k)). apply derivable_pt_lim_ln. apply Rdiv_lt_0_compat; auto. }
      apply (max_continuous (fun t => 1 - Rpower (t / valuation k) p)). exact c.
Qed.

Lemma root_exists : exists theta, root n valuation K r theta.
Proof.
  pose proof (K_positive n valuation K given) as K0. pose proof (m_square n valuation K given) as msq.
  pose proof (m_positive n valuation K given) as m0. set (m := number_above n valuation 0) in *.
  destruct (gap n valuation 0) as (low & low0 & lowest).
  destruct (bounded n valuation) as (V & V0 & top).
  assert (low' : forall k, (k < n)%nat -> 0 < valuation k -> low <= valuation k).
  { intros k hk q. destruct (lowest k hk) as [_ h]. specialize (h q). lra. }
  assert (u0 : 0 < 4 * K / m ^ 2) by (apply Rdiv_lt_0_compat; nra).
  assert (u1 : 4 * K / m ^ 2 < 1) by (apply Rmult_lt_reg_r with (m ^ 2); [nra|field_simplify; lra]).
  set (eta := (1 - 4 * K / m ^ 2) / 2). assert (eta01 : 0 < eta < 1) by (unfold eta; lra).
  set (lo := low * Rpower eta (/ p)). pose proof p_positive as p0.
  assert (f1 : Rpower eta (/ p) < 1).
  { rewrite <- (power_one (/ p)), <- power_pos by lra. apply power_lt; try lra. apply Rinv_0_lt_compat; auto. }
  assert (f0 : 0 < Rpower eta (/ p)) by apply exp_pos.
  assert (lo0 : 0 < lo) by (apply Rmult_lt_0_compat; auto).
  assert (lo1 : lo < low) by (unfold lo; rewrite <- (Rmult_1_r low) at 2; apply Rmult_lt_compat_l; auto).
  assert (atlo : excess lo < 0).
  { rewrite excess_is by auto. unfold M. rewrite (M_below n valuation K given lo lo0) by (intros; pose proof (low' k H H0); lra). fold m.
    assert (many : m * (1 - eta) <= total n (side lo)).
    { unfold m, number_above. rewrite Rmult_comm, <- total_scal. apply total_le. intros k hk.
      destruct (Rlt_dec 0 (valuation k)) as [q|q]; [|rewrite Rmult_0_r; apply side_ge0; auto].
      pose proof (low' k hk q). unfold side. destruct (Rlt_dec lo (valuation k)); [|lra].
      assert (power (lo / valuation k) p <= eta).
      { apply Rle_trans with (power (lo / low) p).
        - destruct (Req_dec low (valuation k)) as [e|e]; [right; f_equal; rewrite e; reflexivity|left].
          apply power_lt; auto; [apply Rdiv_lt_0_compat; lra|].
          apply Rmult_lt_compat_l; auto. apply Rinv_lt_contravar; [apply Rmult_lt_0_compat; lra|lra].
        - right. replace (lo / low) with (Rpower eta (/ p)) by (unfold lo; field; lra).
          rewrite power_pos by auto. rewrite Rpower_mult, Rinv_l, Rpower_1 by lra. reflexivity. }
      lra. }
    assert (m * lo * (m * (1 - eta)) <= m * lo * total n (side lo)) by (apply Rmult_le_compat_l; [apply Rmult_le_pos; lra|auto]).
    assert (4 * K < m ^ 2 * (1 - eta)).
    { unfold eta. replace (m ^ 2 * (1 - (1 - 4 * K / m ^ 2) / 2)) with ((m ^ 2 + 4 * K) / 2) by (field; lra). lra. }
    assert (4 * K * lo < m ^ 2 * (1 - eta) * lo) by (apply Rmult_lt_compat_r; auto).
    replace (m * lo * (m * (1 - eta))) with (m ^ 2 * (1 - eta) * lo) in H by ring. lra. }
  set (hi := V + low).
  assert (athi : 0 < excess hi).
  { rewrite excess_is by (unfold hi; lra). rewrite (total_ext n (side hi) (fun _ => 0)).
    - rewrite total_const. assert (0 < 4 * K * hi) by (unfold hi; nra). lra.
    - intros k hk. unfold side. pose proof (top k hk). destruct (Rlt_dec hi (valuation k)); [unfold hi in *; lra|reflexivity]. }
  destruct (IVT_interv excess lo hi) as (theta & between & zero); auto.
  - intros a ha. apply excess_continuous. lra.
  - unfold hi. lra.
  - exists theta. assert (t0 : 0 < theta) by lra. split; auto. rewrite excess_is in zero by auto.
    fold p. change (total n (side theta) = 4 * K * theta / M theta).
    pose proof (M_positive n valuation K given theta t0) as q. fold M in q.
    apply Rmult_eq_reg_l with (M theta); [|lra]. replace (M theta * (4 * K * theta / M theta)) with (4 * K * theta) by (field; lra).
    lra.
Qed.

Lemma best_in theta k : 0 < theta -> 0 < best_share r theta (valuation k) <= 1.
Proof.
  intros t0. unfold best_share. destruct (Rle_dec _ _) as [|gt]; [lra|]. fold p.
  pose proof (side_ge0 theta k t0) as g. unfold side in g. destruct (Rlt_dec _ _); [|lra].
  split; [|lra]. rewrite power_pos by (apply Rdiv_lt_0_compat; lra). apply exp_pos.
Qed.

Lemma best_left_out theta : left_out n (fun k => best_share r theta (valuation k)) = total n (side theta).
Proof.
  apply total_ext. intros k hk. unfold side, best_share. fold p.
  destruct (Rle_dec (valuation k) theta), (Rlt_dec theta (valuation k)); lra.
Qed.

(* The marginal cost at the best share *)
Lemma best_marginal theta k : 0 < theta ->
  valuation k * power (best_share r theta (valuation k)) (r - 1) = Rmin (valuation k) theta.
Proof.
  intros t0. unfold best_share. destruct (Rle_dec _ _) as [|gt]; [rewrite power_one, Rmin_left by auto; ring|].
  rewrite Rmin_right by lra. assert (q : 0 < theta / valuation k) by (apply Rdiv_lt_0_compat; lra).
  rewrite (power_pos (theta / valuation k)) by auto. rewrite power_pos by apply exp_pos. rewrite Rpower_mult.
  replace (1 / (r - 1) * (r - 1)) with 1 by (field; lra). rewrite Rpower_1 by auto. field. lra.
Qed.
End Power.
End Solution.

Theorem least_cost_contract : least_cost_contract_statement.
Proof.
  intros n valuation K r given r1. pose proof (K_positive n valuation K given) as K0.
  destruct (root_exists n valuation K given r r1) as (theta & isroot). exists theta. split; auto.
  split.
  { intros theta' h. destruct (Rtotal_order theta' theta) as [lt|[e|gt]]; auto; exfalso;
      [apply (root_unique n valuation K given r r1 theta' theta)|apply (root_unique n valuation K given r r1 theta theta')]; auto. }
  destruct isroot as (t0 & equation). cbv zeta.
  set (share := fun k => best_share r theta (valuation k)).
  pose proof (M_positive n valuation K given theta t0) as M0. set (M := capped_sum n valuation theta) in *.
  assert (T : left_out n share = 4 * K * theta / M) by (rewrite <- equation; apply best_left_out).
  assert (box : forall k, 0 < share k <= 1) by (intros; apply best_in; auto).
  assert (bought : M - theta * left_out n share = total n (fun k => Rmin (valuation k) theta * share k)).
  { unfold M, capped_sum, left_out. rewrite <- total_scal, <- total_minus. apply total_ext. intros k hk.
    unfold share, best_share. destruct (Rle_dec (valuation k) theta); [rewrite Rmin_left by auto; ring|].
    rewrite Rmin_right by lra. ring. }
  assert (lt : theta * left_out n share < M).
  { destruct (someone n valuation K given) as (k & hk & pk).
    assert (0 < total n (fun k => Rmin (valuation k) theta * share k)); [|lra]. apply total_pos with k; auto.
    - intros j hj. apply Rmult_le_pos; [apply (min_ge0 n valuation K given); auto|left; apply box].
    - apply Rmult_lt_0_compat; [apply Rmin_glb_lt; auto|apply box]. }
  destruct (contract_exists n valuation K given theta share t0) as (scale & adm); auto.
  { intros k hk. pose proof (box k). lra. }
  pose proof adm as (_ & s0 & _).
  assert (capped : forall k, (k < n)%nat -> valuation k < theta -> share k = 1).
  { intros k hk h. unfold share, best_share. destruct (Rle_dec (valuation k) theta); [reflexivity|lra]. }
  set (Y := Rpower scale (- (r - 1))). assert (Y0 : 0 < Y) by apply exp_pos.
  set (slope := fun k => Rmin (valuation k) theta * Y).
  assert (e0 : forall k, 0 < share k / scale) by (intros; apply Rdiv_lt_0_compat; [apply box|auto]).
  assert (sl : forall k, slope k = valuation k * power (share k / scale) (r - 1)).
  { intros k. rewrite power_div by (auto; left; apply box). fold Y. unfold slope.
    rewrite <- (best_marginal valuation r r1 theta k t0). unfold share. ring. }
  assert (strict : forall k x, (k < n)%nat -> 0 <= x -> 0 < valuation k -> x <> share k / scale ->
    valuation k * power (share k / scale) r + r * slope k * (x - share k / scale) < valuation k * power x r).
  { intros k x hk x0 v0 ne. pose proof (tangent r x (share k / scale) r1 (e0 k) x0 ne). rewrite sl.
    replace (valuation k * power (share k / scale) r + r * (valuation k * power (share k / scale) (r - 1)) * (x - share k / scale))
      with (valuation k * (power (share k / scale) r + r * power (share k / scale) (r - 1) * (x - share k / scale))) by ring.
    apply Rmult_lt_compat_l; auto. }
  assert (convex : forall k x, (k < n)%nat -> 0 <= x ->
    valuation k * power (share k / scale) r + r * slope k * (x - share k / scale) <= valuation k * power x r).
  { intros k x hk x0. destruct (Req_dec x (share k / scale)) as [->|ne]; [right; ring|].
    destruct (proj1 given k hk) as [v0|v0]; [left; auto|]. rewrite sl, <- v0. right. ring. }
  pose proof (optimum n valuation K r theta share scale K0 t0 adm M0 T capped slope Y Y0 (Rlt_le _ _ r1) convex
    ltac:(intros; unfold slope; lra) ltac:(intros; reflexivity)) as opt.
  assert (own : forall k, (k < n)%nat -> valuation k * power (share k) r = Rmin (valuation k) theta * share k).
  { intros k hk. rewrite power_split by apply box. rewrite <- (best_marginal valuation r r1 theta k t0). unfold share. ring. }
  destruct (formulas n valuation K r theta share scale K0 adm M0 T capped own) as [fb fc].
  pose proof (cost_formula n valuation K r share scale theta (Rlt_le _ _ r1) t0 adm fc) as fw. fold M in fw, fb.
  exists scale. split; [exact fb|]. split; [|split; [|split]].
  - split; [exact adm|]. intros a s h. apply (opt a s h).
  - intros a s (h & best). destruct (opt a s h) as [_ same]. destruct (same (best share scale adm)) as (e & ones & _ & eq).
    split; auto. intros k hk. destruct (Rlt_dec (valuation k) theta) as [l|l]; [rewrite ones, capped by auto; reflexivity|].
    destruct (Req_dec (a k / s) (share k / scale)) as [q|q].
    + rewrite e in q. apply (Rmult_eq_reg_r (/ scale)); [exact q|apply Rinv_neq_0_compat; lra].
    + exfalso. specialize (eq k hk). pose proof (strict k (a k / s) hk) as st.
      assert (0 <= a k / s).
      { apply Rmult_le_pos; [apply h; auto|left; apply Rinv_0_lt_compat; apply h]. }
      specialize (st H ltac:(lra) q). lra.
  - exact fw.
  - intros e. rewrite fw, e. replace (2 - 2) with 0 by ring. unfold Rpower. rewrite Rmult_0_l, exp_0. field. lra.
Qed.

Theorem least_cost_contract_linear : least_cost_contract_linear_statement.
Proof.
  intros n valuation K given. pose proof (K_positive n valuation K given) as K0.
  destruct (linear_exists n valuation K given) as (theta & isroot). exists theta. split; auto. split.
  { intros theta' h. destruct (Rtotal_order theta' theta) as [lt|[e|gt]]; auto; exfalso;
      [apply (linear_unique n valuation K given theta' theta)|apply (linear_unique n valuation K given theta theta')]; auto. }
  destruct isroot as (t0 & above & from). cbv zeta.
  pose proof (M_positive n valuation K given theta t0) as M0. set (M := capped_sum n valuation theta) in *.
  assert (lt : theta * (4 * K * theta / M) < M) by (apply (from_strict n valuation K given); auto).
  set (T := 4 * K * theta / M) in *.
  (* every contract with these shares has least cost *)
  assert (core : forall share scale, contract n K share scale -> linear_shares n valuation K theta share ->
    (forall a s, contract n K a s -> cost n valuation 1 share scale <= cost n valuation 1 a s /\
      (cost n valuation 1 a s <= cost n valuation 1 share scale -> s = scale /\ linear_shares n valuation K theta a)) /\
    scale ^ 2 = K * total n (fun k => valuation k * power (share k) 1) / (2 * M) /\
    cost n valuation 1 share scale = 2 * M / K * Rpower scale (2 - 1)).
  { intros share scale adm (ones & zeros & left). pose proof adm as (box & s0 & e).
    assert (pw : forall x, 0 <= x -> power x 1 = x) by (intros; apply power_1; auto).
    assert (ge : forall k, (k < n)%nat -> 0 <= share k / scale).
    { intros k hk. apply Rmult_le_pos; [apply box; auto|left; apply Rinv_0_lt_compat; auto]. }
    assert (opt := optimum n valuation K 1 theta share scale K0 t0 adm M0 left ones valuation 1 Rlt_0_1 (Rle_refl 1)
      ltac:(intros k x hk x0; rewrite !pw by auto; lra)
      ltac:(intros; rewrite Rmult_1_r; apply Rmin_l)
      ltac:(intros k hk; destruct (Rlt_dec theta (valuation k)) as [g|g];
        [rewrite (zeros k hk g); unfold Rdiv; ring|rewrite Rmin_left by lra; ring])).
    split.
    - intros a s h. destruct (opt a s h) as [le same]. split; auto. intros eq. destruct (same eq) as (es & o & z & _).
      split; auto. pose proof h as (boxa & sa & ea). split; [exact o|]. split.
      + intros k hk g. specialize (z k hk). rewrite Rmin_right in z by lra.
        assert ((valuation k - theta) * (a k / s) = 0) by lra. apply Rmult_integral in H. destruct H; [lra|].
        apply (Rmult_eq_reg_r (/ s)); [unfold Rdiv in H; lra|apply Rinv_neq_0_compat; lra].
      + rewrite <- left. subst s.
        assert (0 <= left_out n a) by (apply total_nonneg; intros i hi; pose proof (boxa i hi); lra).
        assert (0 <= left_out n share) by (apply total_nonneg; intros i hi; pose proof (box i hi); lra).
        assert ((left_out n a - left_out n share) * (left_out n a + left_out n share) = 0) by lra.
        apply Rmult_integral in H1. destruct H1; lra.
    - destruct (formulas n valuation K 1 theta share scale K0 adm M0 left ones) as [fb fc].
      + intros k hk. rewrite pw by (apply box; auto).
        destruct (Rlt_dec theta (valuation k)) as [g|g]; [rewrite (zeros k hk g); ring|rewrite Rmin_left by lra; ring].
      + split; [exact fb|]. apply (cost_formula n valuation K 1 share scale theta (Rle_refl 1) t0 adm fc). }
  assert (exist : exists share scale, contract n K share scale /\ linear_shares n valuation K theta share).
  { set (na := number_above n valuation theta) in *. set (nf := number_from n valuation theta) in *.
    set (phi := if Req_EM_T nf na then 0 else (nf - T) / (nf - na)).
    set (share := fun k => if Rlt_dec theta (valuation k) then 0 else if Rlt_dec (valuation k) theta then 1 else phi).
    assert (phi01 : 0 <= phi <= 1).
    { unfold phi. destruct (Req_EM_T nf na); [lra|]. assert (0 < nf - na) by lra.
      split; [apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; auto]|].
      apply Rmult_le_reg_r with (nf - na); auto. field_simplify; lra. }
    assert (left : left_out n share = T).
    { transitivity (na + (1 - phi) * (nf - na)).
      - unfold left_out, na, nf, number_above, number_from. rewrite <- total_minus, <- total_scal, <- total_plus.
        apply total_ext. intros k hk. unfold share.
        destruct (Rlt_dec theta (valuation k)), (Rlt_dec (valuation k) theta), (Rle_dec theta (valuation k)); lra.
      - unfold phi. destruct (Req_EM_T nf na) as [e|e]; [lra|field; lra]. }
    destruct (contract_exists n valuation K given theta share t0) as (scale & adm); auto.
    - intros k hk. unfold share. repeat destruct (Rlt_dec _ _); lra.
    - fold M. rewrite left. exact lt.
    - exists share, scale. split; auto. split; [|split; [|exact left]].
      + intros k hk l. unfold share. destruct (Rlt_dec theta (valuation k)); [lra|]. destruct (Rlt_dec _ _); lra.
      + intros k hk l. unfold share. destruct (Rlt_dec theta (valuation k)); lra. }
  split; [exact exist|]. intros share scale adm. split.
  - split.
    + intros (_ & best). destruct exist as (share0 & scale0 & adm0 & lin0).
      destruct (core share0 scale0 adm0 lin0) as [opt _]. apply (opt share scale adm). apply best. auto.
    + intros lin. split; auto. intros a s h. apply (core share scale adm lin). auto.
  - intros lin. apply (core share scale adm lin).
Qed.

(* Two sellers with the valuations 1 and 2, K = 1/4 (the paper's example): the hypotheses hold *)
Example two_sellers : market 2 (fun k => INR k + 1) (1 / 4).
Proof.
  split; [|split; [lra|]].
  - intros k hk. pose proof (pos_INR k). lra.
  - assert (sqrt (1 / 4) = 1 / 2) by (replace (1 / 4) with ((1 / 2) * (1 / 2)) by lra; apply sqrt_square; lra).
    unfold number_above. simpl. destruct (Rlt_dec 0 (0 + 1)), (Rlt_dec 0 (1 + 1)); lra.
Qed.

Print Assumptions least_cost_contract. Print Assumptions least_cost_contract_linear.
