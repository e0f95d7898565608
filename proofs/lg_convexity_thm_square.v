(** lg-convexity-thm-square (J's Theorem VIII.1, first part): convex by a square.  Bears on the claims
    anjarlekar-j-thmVIII1 and anjarlekar-t-thm41, page logistic/joint.
    Beside the prose: J's objective has linear payments, as its Eq. (17) prints them; eta > 0 is fixed.  "The square of the
    operator norm is at most B" is stated as: the squares of the products of the records with any vector sum to at most
    B times the square of its length.  Penalty and mu are positive. *)
Require Import Reals Lra Lia.
Require Import totals exponentials vectors.
Open Scope R_scope.

(* What has to be read *)

(* Vectors, their inner product dot and length norm are those of vectors.v *)

(* The problem: m sellers with n features; each record is multiplied by its label, 1 or -1 *)
Record problem := { sellers : nat; features : nat; signed : nat -> vector; noise : vector; virtual_cost : nat -> R;
  penalty : R; mu : R; sigma : R; gamma : R; eta : R }.

(* Records have length at most 1; eta, the penalty and mu are positive *)
Definition allowed (p : problem) : Prop :=
  (forall i, (i < sellers p)%nat -> norm (features p) (signed p i) <= 1) /\ 0 < eta p /\ 0 < penalty p /\ 0 < mu p.

(* J's objective *)
Definition objective (p : problem) (w : vector) (a : nat -> R) : R :=
  total (sellers p) (fun i => a i * ln (1 + exp (- dot (features p) w (signed p i))))
  + 2 * dot (features p) (noise p) w / eta p
  + penalty p / 2 * norm (features p) w ^ 2
  + mu p * norm (sellers p) a ^ 2
  + sigma p / eta p
  + gamma p * eta p * total (sellers p) (fun i => a i * virtual_cost p i).

(* Weights that are not negative *)
Definition not_negative (m : nat) (a : nat -> R) : Prop := forall i, (i < m)%nat -> 0 <= a i.

(* Two points (w, a) and (w', a') differ *)
Definition differ (p : problem) (w : vector) (a : nat -> R) (w' : vector) (a' : nat -> R) : Prop :=
  (exists k, (k < features p)%nat /\ w k <> w' k) \/ (exists i, (i < sellers p)%nat /\ a i <> a' i).

(* The point at t of the way from x' to x *)
Definition between (t : R) (x x' : nat -> R) : nat -> R := fun k => t * x k + (1 - t) * x' k.

(* Strictly convex in (w, a) on a >= 0 *)
Definition strictly_convex (p : problem) : Prop :=
  forall w a w' a' t, not_negative (sellers p) a -> not_negative (sellers p) a' -> differ p w a w' a' -> 0 < t < 1 ->
  objective p (between t w w') (between t a a') < t * objective p w a + (1 - t) * objective p w' a'.

(* Not convex on a >= 0: halfway between two points it is above the mean; the two weights may have the same sum *)
Definition not_convex (p : problem) (same_sum : bool) : Prop :=
  exists w a w' a', not_negative (sellers p) a /\ not_negative (sellers p) a' /\
    (same_sum = true -> total (sellers p) a = total (sellers p) a') /\
    1 / 2 * objective p w a + (1 - 1 / 2) * objective p w' a' < objective p (between (1 / 2) w w') (between (1 / 2) a a').

(* The square of the operator norm of the records is at most B *)
Definition operator_norm_squared_at_most (p : problem) (B : R) : Prop :=
  forall d, total (sellers p) (fun i => dot (features p) d (signed p i) ^ 2) <= B * norm (features p) d ^ 2.

(* Strictly convex if 2 penalty mu is at least the square of the operator norm, and so if it is at least m *)
Definition convex_by_a_square_statement : Prop :=
  forall p, allowed p ->
  (operator_norm_squared_at_most p (2 * penalty p * mu p) -> strictly_convex p) /\
  (INR (sellers p) <= 2 * penalty p * mu p -> strictly_convex p).

(* Below m it is not convex for some data, whatever the other constants; for even m also along weights of the same sum *)
Definition sharp_statement : Prop :=
  forall m penalty0 mu0 eta0 sigma0 gamma0 noise0 virtual_cost0, (1 <= m)%nat ->
  0 < penalty0 -> 0 < mu0 -> 0 < eta0 -> 2 * penalty0 * mu0 < INR m ->
  let made n s := {| sellers := m; features := n; signed := s; noise := noise0; virtual_cost := virtual_cost0;
    penalty := penalty0; mu := mu0; sigma := sigma0; gamma := gamma0; eta := eta0 |} in
  (exists n s, allowed (made n s) /\ not_convex (made n s) false) /\
  (Nat.Even m -> exists n s, allowed (made n s) /\ not_convex (made n s) true).

(* The proofs, which need not be read *)

(* The loss lies above its tangents; the slope is - pull c with 0 < pull c < 1 *)
Definition loss (x : R) : R := ln (1 + exp (- x)).
Definition pull (c : R) : R := exp (- c) / (1 + exp (- c)).

Lemma pull_bounds c : 0 < pull c < 1.
Proof.
  unfold pull. pose proof (exp_pos (- c)). split; [apply Rdiv_lt_0_compat; lra|].
  apply Rmult_lt_reg_r with (1 + exp (- c)); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.

Lemma loss_tangent x c : loss c - pull c * (x - c) <= loss x.
Proof.
  unfold loss. pose proof (pull_bounds c) as p. pose proof (exp_pos (- c)). pose proof (exp_pos (- x)).
  pose proof (chord (- (x - c)) (pull c) ltac:(lra)) as h.
  assert (e : 1 + (exp (- (x - c)) - 1) * pull c = (1 + exp (- x)) / (1 + exp (- c))).
  { replace (- (x - c)) with (- x + - - c) by ring. rewrite exp_plus, (exp_Ropp (- c)). unfold pull. field. lra. }
  rewrite e in h. apply Rplus_le_reg_r with (- ln (1 + exp (- c))).
  replace (ln (1 + exp (- c)) - pull c * (x - c) + - ln (1 + exp (- c))) with (- (x - c) * pull c) by ring.
  rewrite <- (ln_exp (- (x - c) * pull c)).
  replace (ln (1 + exp (- x)) + - ln (1 + exp (- c))) with (ln ((1 + exp (- x)) / (1 + exp (- c))))
    by (unfold Rdiv; rewrite ln_mult, ln_Rinv; try lra; apply Rinv_0_lt_compat; lra).
  destruct h as [lt|eq]; [left; apply ln_increasing; [apply exp_pos|auto]|right; rewrite eq; reflexivity].
Qed.

Lemma dot_between n t x x' y : dot n (between t x x') y = t * dot n x y + (1 - t) * dot n x' y.
Proof. unfold dot, between. rewrite <- !total_scal, <- total_plus. apply total_ext. intros. ring. Qed.

Lemma norm_zero n x : norm n x = 0 -> forall k, (k < n)%nat -> x k = 0.
Proof.
  intros z k hk. assert (p : dot n x x = 0) by (rewrite <- norm_square, z; ring).
  pose proof (total_same n (fun _ => 0) (fun k => x k * x k) ltac:(intros; apply Rle_0_sqr) ltac:(rewrite total_const; fold (dot n x x); lra) k hk) as s.
  cbv beta in s. symmetry in s. apply Rmult_integral in s. destruct s; auto.
Qed.

(* The difference between the mean and the value between, without the losses *)
Lemma objective_gap p w a w' a' t :
  t * objective p w a + (1 - t) * objective p w' a' - objective p (between t w w') (between t a a')
  = total (sellers p) (fun i => t * (a i * loss (dot (features p) w (signed p i))) + (1 - t) * (a' i * loss (dot (features p) w' (signed p i)))
      - between t a a' i * loss (dot (features p) (between t w w') (signed p i)))
    + t * (1 - t) * (penalty p / 2 * norm (features p) (fun k => w k - w' k) ^ 2 + mu p * norm (sellers p) (fun i => a i - a' i) ^ 2).
Proof.
  unfold objective. rewrite (norm_between _ t w w' : norm _ (between t w w') ^ 2 = _).
  rewrite (norm_between _ t a a' : norm _ (between t a a') ^ 2 = _).
  rewrite (dot_comm _ (noise p) (between t w w')), dot_between, !(dot_comm _ _ (noise p)).
  rewrite total_minus, total_plus, !total_scal.
  assert (lin : total (sellers p) (fun i => between t a a' i * virtual_cost p i)
    = t * total (sellers p) (fun i => a i * virtual_cost p i) + (1 - t) * total (sellers p) (fun i => a' i * virtual_cost p i)).
  { rewrite <- !total_scal, <- total_plus. apply total_ext. intros. unfold between. ring. }
  rewrite lin. unfold loss. unfold Rdiv. ring.
Qed.

Lemma convex_core p : allowed p -> operator_norm_squared_at_most p (2 * penalty p * mu p) -> strictly_convex p.
Proof.
  intros (rec & e0 & L0 & m0) op w a w' a' t na na' df ht.
  set (n := features p) in *. set (m := sellers p) in *.
  set (d := fun k => w k - w' k). set (v := fun i => a i - a' i).
  set (pd := fun i => pull (dot n (between t w w') (signed p i)) * dot n d (signed p i)).
  (* the losses: at least t (1 - t) times minus the mixed term *)
  assert (low : t * (1 - t) * - dot m v pd <= total m (fun i => t * (a i * loss (dot n w (signed p i)))
      + (1 - t) * (a' i * loss (dot n w' (signed p i))) - between t a a' i * loss (dot n (between t w w') (signed p i)))).
  { replace (t * (1 - t) * - dot m v pd) with (total m (fun i => - (t * (1 - t)) * (v i * pd i))) by (rewrite total_scal; unfold dot; ring).
    apply total_le. intros i hi. set (c := dot n (between t w w') (signed p i)).
    pose proof (loss_tangent (dot n w (signed p i)) c) as t1. pose proof (loss_tangent (dot n w' (signed p i)) c) as t2.
    assert (dd : dot n d (signed p i) = dot n w (signed p i) - dot n w' (signed p i)).
    { unfold dot, d. rewrite <- total_minus. apply total_ext. intros. ring. }
    assert (cc : c = t * dot n w (signed p i) + (1 - t) * dot n w' (signed p i)) by apply dot_between.
    unfold pd, v. fold c. clearbody c. unfold between. rewrite dd. set (x := dot n w (signed p i)) in *. set (x' := dot n w' (signed p i)) in *.
    replace (x - c) with ((1 - t) * (x - x')) in t1 by (rewrite cc; ring). replace (x' - c) with (- t * (x - x')) in t2 by (rewrite cc; ring).
    pose proof (na i hi). pose proof (na' i hi).
    assert (t * (a i * (loss c - pull c * ((1 - t) * (x - x')))) <= t * (a i * loss x)) by (apply Rmult_le_compat_l; [lra|apply Rmult_le_compat_l; lra]).
    assert ((1 - t) * (a' i * (loss c - pull c * (- t * (x - x')))) <= (1 - t) * (a' i * loss x')) by (apply Rmult_le_compat_l; [lra|apply Rmult_le_compat_l; lra]).
    lra. }
  pose proof (objective_gap p w a w' a' t) as gap. fold n m d v in gap.
  assert (tt : 0 < t * (1 - t)) by (apply Rmult_lt_0_compat; lra).
  enough (0 < - dot m v pd + (penalty p / 2 * norm n d ^ 2 + mu p * norm m v ^ 2)).
  { assert (0 < t * (1 - t) * (- dot m v pd + (penalty p / 2 * norm n d ^ 2 + mu p * norm m v ^ 2))) by (apply Rmult_lt_0_compat; auto). lra. }
  pose proof (norm_pos n d) as ld. pose proof (norm_pos m v) as lv.
  pose proof (cauchy m v pd) as cs. pose proof (Rle_abs (dot m v pd)) as ab. pose proof (norm_pos m pd) as lp.
  (* pd is shorter than the products with d *)
  set (xd := fun i => dot n d (signed p i)).
  assert (short : norm m pd ^ 2 <= norm m xd ^ 2 /\ (norm m xd ^ 2 <= norm m pd ^ 2 -> norm m xd = 0)).
  { rewrite !norm_square. assert (each : forall i, (i < m)%nat -> pd i * pd i <= xd i * xd i).
    { intros i hi. unfold pd, xd. pose proof (pull_bounds (dot n (between t w w') (signed p i))) as pb.
      set (q := pull _) in *. set (z := dot n d (signed p i)).
      assert (q * q <= 1) by nra. assert (0 <= (1 - q * q) * (z * z)) by (apply Rmult_le_pos; [lra|apply Rle_0_sqr]). lra. }
    split; [apply total_le; auto|]. intros back. unfold norm.
    replace (dot m xd xd) with 0; [apply sqrt_0|]. symmetry. unfold dot. rewrite (total_ext m _ (fun _ => 0)), total_const; [lra|].
    intros i hi. pose proof (total_same m _ _ each back i hi) as s. cbv beta in s. unfold pd, xd in *.
    pose proof (pull_bounds (dot n (between t w w') (signed p i))) as pb. set (q := pull _) in *. set (z := dot n d (signed p i)) in *.
    assert (0 < 1 - q * q) by nra. assert ((1 - q * q) * (z * z) = 0) by lra. apply Rmult_integral in H0. destruct H0; lra. }
  assert (opd : norm m xd ^ 2 <= 2 * penalty p * mu p * norm n d ^ 2).
  { specialize (op d). fold n m in op. rewrite (norm_square m xd). unfold dot.
    rewrite (total_ext m _ (fun i => dot n d (signed p i) ^ 2)) by (intros; unfold xd; ring). exact op. }
  set (x := norm m pd) in *. set (D := norm n d) in *. set (V := norm m v) in *.
  assert (main : x * V <= penalty p / 2 * D ^ 2 + mu p * V ^ 2 /\
    (x * V = penalty p / 2 * D ^ 2 + mu p * V ^ 2 -> norm m xd ^ 2 <= x ^ 2 \/ V = 0)).
  { assert (sq : 4 * mu p * (penalty p / 2 * D ^ 2 + mu p * V ^ 2) - 4 * mu p * (x * V) = (2 * mu p * V - x) ^ 2 + (2 * penalty p * mu p * D ^ 2 - x ^ 2)) by field.
    pose proof (pow2_ge_0 (2 * mu p * V - x)). split.
    - apply Rmult_le_reg_l with (4 * mu p); lra.
    - intros eq. left. rewrite eq in sq. lra. }
  destruct main as [le strict].
  assert (dot m v pd <= x * V) by lra.
  destruct (Req_dec (x * V) (penalty p / 2 * D ^ 2 + mu p * V ^ 2)) as [eq|ne]; [|lra].
  assert (zero : x * V = 0).
  { destruct (strict eq) as [back|V0]; [|rewrite V0; ring].
    assert (xz : norm m xd = 0) by (apply short; auto). assert (x ^ 2 <= 0) by (rewrite xz in short; lra).
    assert (x = 0) by nra. rewrite H1. ring. }
  rewrite zero in eq. assert (p1 : 0 <= penalty p / 2 * D ^ 2) by (apply Rmult_le_pos; [lra|apply pow2_ge_0]).
  assert (p2 : 0 <= mu p * V ^ 2) by (apply Rmult_le_pos; [lra|apply pow2_ge_0]).
  assert (D0 : D = 0). { assert (penalty p / 2 * D ^ 2 = 0) by lra. apply Rmult_integral in H0. destruct H0; [lra|]. nra. }
  assert (V0 : V = 0). { assert (mu p * V ^ 2 = 0) by lra. apply Rmult_integral in H0. destruct H0; [lra|]. nra. }
  exfalso. destruct df as [(k & hk & ne)|(i & hi & ne)].
  - apply ne. pose proof (norm_zero n d D0 k hk) as z. unfold d in z. lra.
  - apply ne. pose proof (norm_zero m v V0 i hi) as z. unfold v in z. lra.
Qed.

Theorem convex_by_a_square : convex_by_a_square_statement.
Proof.
  intros p ok. split; [apply convex_core; auto|]. intros large. apply convex_core; auto. intros d.
  apply Rle_trans with (INR (sellers p) * norm (features p) d ^ 2); [|apply Rmult_le_compat_r; [apply pow2_ge_0|auto]].
  rewrite <- total_const. apply total_le. intros i hi. destruct ok as (rec & _).
  pose proof (cauchy (features p) d (signed p i)) as c. pose proof (rec i hi). pose proof (norm_pos (features p) d).
  pose proof (norm_pos (features p) (signed p i)).
  rewrite <- (Rabs_pos_eq (dot (features p) d (signed p i) ^ 2)) by apply pow2_ge_0. rewrite <- RPow_abs.
  apply pow_incr. split; [apply Rabs_pos|]. nra.
Qed.

(* For x <= - h the loss is - x, but for at most exp (- h) *)
Lemma loss_far x : - x <= loss x <= - x + exp x.
Proof.
  unfold loss. pose proof (exp_pos (- x)). pose proof (exp_pos x). split.
  - rewrite <- (ln_exp (- x)) at 1. left. apply ln_increasing; lra.
  - assert (e : 1 + exp (- x) = exp (- x) * (1 + exp x)).
    { assert (exp (- x) * exp x = 1) by (rewrite <- exp_plus; replace (- x + x) with 0 by ring; apply exp_0). lra. }
    rewrite e, ln_mult, ln_exp by lra. apply Rplus_le_compat_l. 
    rewrite <- (ln_exp (exp x)) at 2. pose proof (exp_ineq1_le (exp x)).
    destruct (Req_dec (1 + exp x) (exp (exp x))) as [->|ne]; [lra|left; apply ln_increasing; lra].
Qed.

(* The construction: all products with w are - h, those with d are c (b i) for signs b; the weights are v (1 + b i) and
   v (1 - b i) *)
Section Sharp.
Variables (p : problem) (w d : vector) (b : nat -> R) (c h : R).
Let m := sellers p.
Let n := features p.
Hypothesis ok : allowed p.
Hypothesis c01 : 0 < c <= 1.
Hypothesis signs : forall i, (i < m)%nat -> b i = 1 \/ b i = -1.
Hypothesis products_w : forall i, (i < m)%nat -> dot n w (signed p i) = - h.
Hypothesis products_d : forall i, (i < m)%nat -> dot n d (signed p i) = c * b i.
Hypothesis d1 : dot n d d = 1.
Let v := c / (2 * mu p).
Hypothesis far : INR m * v * exp (c - h) < INR m * c ^ 2 / (4 * mu p) - penalty p / 2.

Lemma construction same : (same = true -> total m b = 0) -> not_convex p same.
Proof.
  intros hs. pose proof ok as (_ & e0 & L0 & m0).
  assert (v0 : 0 < v) by (apply Rdiv_lt_0_compat; lra).
  exists (fun k => w k + d k), (fun i => v + v * b i), (fun k => w k - d k), (fun i => v - v * b i).
  split; [intros i hi; destruct (signs i hi) as [-> | ->]; lra|]. split; [intros i hi; destruct (signs i hi) as [-> | ->]; lra|].
  split.
  - intros s. fold m. rewrite total_plus, total_minus, total_scal, (hs s). lra.
  - pose proof (objective_gap p (fun k => w k + d k) (fun i => v + v * b i) (fun k => w k - d k) (fun i => v - v * b i) (1 / 2)) as gap.
    fold m n in gap. cbv beta in gap.
    assert (l1 : norm n (fun k => w k + d k - (w k - d k)) ^ 2 = 4).
    { rewrite norm_square. unfold dot. rewrite (total_ext n _ (fun k => 4 * (d k * d k))) by (intros; ring).
      rewrite total_scal. fold (dot n d d). rewrite d1. ring. }
    assert (l2 : norm m (fun i => v + v * b i - (v - v * b i)) ^ 2 = 4 * v ^ 2 * INR m).
    { rewrite norm_square. unfold dot. rewrite (total_ext m _ (fun _ => 4 * v ^ 2)), total_const; [ring|].
      intros i hi. destruct (signs i hi) as [-> | ->]; ring. }
    rewrite l1, l2 in gap.
    assert (sums : total m (fun i => 1 / 2 * ((v + v * b i) * loss (dot n (fun k => w k + d k) (signed p i)))
        + (1 - 1 / 2) * ((v - v * b i) * loss (dot n (fun k => w k - d k) (signed p i)))
        - between (1 / 2) (fun i => v + v * b i) (fun i => v - v * b i) i
          * loss (dot n (between (1 / 2) (fun k => w k + d k) (fun k => w k - d k)) (signed p i)))
      <= total m (fun _ => v * (exp (c - h) - c))).
    { apply total_le. intros i hi.
      assert (p1 : dot n (fun k => w k + d k) (signed p i) = - h + c * b i).
      { rewrite <- (products_w i hi), <- (products_d i hi). unfold dot. rewrite <- total_plus. apply total_ext. intros. ring. }
      assert (p2 : dot n (fun k => w k - d k) (signed p i) = - h - c * b i).
      { rewrite <- (products_w i hi), <- (products_d i hi). unfold dot. rewrite <- total_minus. apply total_ext. intros. ring. }
      rewrite dot_between, p1, p2. unfold between.
      replace (1 / 2 * (- h + c * b i) + (1 - 1 / 2) * (- h - c * b i)) with (- h) by field.
      replace (1 / 2 * (v + v * b i) + (1 - 1 / 2) * (v - v * b i)) with v by field.
      pose proof (loss_far (- h)) as [lo _].
      assert (vlo : v * - - h <= v * loss (- h)) by (apply Rmult_le_compat_l; lra).
      destruct (signs i hi) as [e|e]; rewrite e.
      - pose proof (loss_far (- h + c * 1)) as [_ up]. replace (exp (- h + c * 1)) with (exp (c - h)) in up by (f_equal; ring).
        assert (v * loss (- h + c * 1) <= v * (- (- h + c * 1) + exp (c - h))) by (apply Rmult_le_compat_l; lra). lra.
      - pose proof (loss_far (- h - c * -1)) as [_ up]. replace (exp (- h - c * -1)) with (exp (c - h)) in up by (f_equal; ring).
        assert (v * loss (- h - c * -1) <= v * (- (- h - c * -1) + exp (c - h))) by (apply Rmult_le_compat_l; lra). lra. }
    rewrite total_const in sums.
    assert (v2 : mu p * v ^ 2 = c * v / 2) by (unfold v; field; lra).
    assert (cv : c * v = c ^ 2 / (2 * mu p)) by (unfold v; field; lra).
    assert (INR m * c ^ 2 / (4 * mu p) = INR m * (c * v) / 2) by (rewrite cv; field; lra).
    assert (total_gap : 1 / 2 * (1 - 1 / 2) * (penalty p / 2 * 4 + mu p * (4 * v ^ 2 * INR m)) = penalty p / 2 + INR m * (c * v) / 2).
    { replace (1 / 2 * (1 - 1 / 2) * (penalty p / 2 * 4 + mu p * (4 * v ^ 2 * INR m))) with (penalty p / 2 + INR m * (mu p * v ^ 2)) by field.
      rewrite v2. field. }
    rewrite total_gap in gap. lra.
Qed.
End Sharp.

(* A number h that is far enough *)
Lemma far_enough x room c : 0 < x -> 0 < room -> exists h, x * exp (c - h) < room.
Proof.
  intros x0 r0. exists (c - ln (room / (2 * x))). replace (c - (c - ln (room / (2 * x)))) with (ln (room / (2 * x))) by ring.
  rewrite exp_ln by (apply Rdiv_lt_0_compat; lra). replace (x * (room / (2 * x))) with (room / 2) by (field; lra). lra.
Qed.

Theorem sharp : sharp_statement.
Proof.
  intros m L mu0 eta0 sigma0 gamma0 noise0 vc m1 L0 mu00 e0 small made.
  assert (mi : 1 <= INR m) by (apply (le_INR 1); auto). split.
  - (* one feature, all records 1 *)
    exists 1%nat, (fun _ _ => 1).
    assert (ok : allowed (made 1%nat (fun _ _ => 1))).
    { split; [|simpl; auto]. intros i hi. unfold norm, dot. simpl. replace (0 + 1 * 1) with 1 by ring. rewrite sqrt_1. lra. }
    split; auto.
    destruct (far_enough (INR m * (1 / (2 * mu0))) (INR m * 1 ^ 2 / (4 * mu0) - L / 2) 1) as (h & far).
    + apply Rmult_lt_0_compat; [lra|apply Rdiv_lt_0_compat; lra].
    + apply Rmult_lt_reg_r with (4 * mu0); [lra|]. rewrite Rmult_0_l.
      replace ((INR m * 1 ^ 2 / (4 * mu0) - L / 2) * (4 * mu0)) with (INR m - 2 * L * mu0) by (field; lra). lra.
    + apply (construction (made 1%nat (fun _ _ => 1)) (fun _ => - h) (fun _ => 1) (fun _ => 1) 1 h ok).
      * lra.
      * intros; left; reflexivity.
      * intros; unfold dot; simpl; ring.
      * intros; unfold dot; simpl; ring.
      * unfold dot; simpl; ring.
      * exact far.
      * discriminate.
  - (* two features, half of the records of each sign *)
    intros (j & mj). set (rho := 2 * L * mu0 / INR m).
    assert (r01 : 0 < rho < 1).
    { unfold rho. split; [apply Rdiv_lt_0_compat; [apply Rmult_lt_0_compat; lra|lra]|].
      apply Rmult_lt_reg_r with (INR m); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
    set (c := (1 + rho) / 2). assert (c01 : 0 < c < 1) by (unfold c; lra).
    assert (c2 : rho < c ^ 2) by (unfold c; nra).
    set (b := fun i => if Nat.even i then 1 else -1).
    set (s := fun (i k : nat) => if Nat.eqb k 0 then c * b i else - (1 - c)).
    assert (bsq : forall i, b i * b i = 1) by (intros; unfold b; destruct (Nat.even i); ring).
    assert (ok : allowed (made 2%nat s)).
    { split; [|simpl; auto]. intros i hi. unfold norm. rewrite <- sqrt_1. apply sqrt_le_1_alt. unfold dot. simpl. unfold s. simpl.
      replace (0 + c * b i * (c * b i) + - (1 - c) * - (1 - c)) with (c ^ 2 * (b i * b i) + (1 - c) ^ 2) by ring. rewrite bsq. nra. }
    exists 2%nat, s. split; auto.
    destruct (far_enough (INR m * (c / (2 * mu0))) (INR m * c ^ 2 / (4 * mu0) - L / 2) c) as (h & far).
    + apply Rmult_lt_0_compat; [lra|apply Rdiv_lt_0_compat; lra].
    + apply Rmult_lt_reg_r with (4 * mu0); [lra|]. rewrite Rmult_0_l.
      replace ((INR m * c ^ 2 / (4 * mu0) - L / 2) * (4 * mu0)) with (INR m * c ^ 2 - 2 * L * mu0) by (field; lra).
      assert (2 * L * mu0 = rho * INR m) by (unfold rho; field; lra). rewrite H. nra.
    + apply (construction (made 2%nat s) (fun k => if Nat.eqb k 0 then 0 else h / (1 - c)) (fun k => if Nat.eqb k 0 then 1 else 0) b c h ok).
      * lra.
      * intros i hi. unfold b. destruct (Nat.even i); auto.
      * intros i hi. unfold dot, s. simpl. field. lra.
      * intros i hi. unfold dot, s. simpl. ring.
      * unfold dot. simpl. ring.
      * exact far.
      * intros _. cbn [sellers made]. rewrite mj. clear.
        assert (two : forall l, total (2 * l)%nat b = 0).
        { induction l as [|l IH]; [reflexivity|]. replace (2 * S l)%nat with (S (S (2 * l))) by lia. cbn [total]. rewrite IH.
          unfold b. rewrite Nat.even_succ, <- Nat.negb_even. replace (Nat.even (2 * l)) with true; [simpl; lra|].
          symmetry. apply Nat.even_spec. exists l. reflexivity. }
        apply two.
Qed.

(* Two sellers with one feature, penalty 1 and mu 1: 2 penalty mu is at least m *)
Example two_sellers : allowed {| sellers := 2; features := 1; signed := fun _ _ => 1; noise := fun _ => 0; virtual_cost := fun _ => 1;
  penalty := 1; mu := 1; sigma := 1; gamma := 1; eta := 1 |} /\ INR 2 <= 2 * 1 * 1.
Proof.
  split; [|simpl; lra]. split; [|simpl; lra]. intros i _. unfold norm, dot. simpl. replace (0 + 1 * 1) with 1 by ring. rewrite sqrt_1. lra.
Qed.

Print Assumptions convex_by_a_square. Print Assumptions sharp.
