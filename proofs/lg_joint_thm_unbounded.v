(** lg-joint-thm-unbounded: the joint objective near eta = 0.  Bears on the claims anjarlekar-j-eq17-surrogate
    (corrected), anjarlekar-t-eq3, page logistic/joint.
    Beside the prose: R is one of the two forms, the length of a or its square; "bounded below" and "infimum minus
    infinity" are over all eta > 0, weights (at most cap, some exist) and w; records have length at most 1; beta > 0; the
    virtual costs psi may have any sign in part 1 and are not negative in part 2, as the page's are. *)
Require Import Reals Lra Lia.
Require Import totals vectors.
Open Scope R_scope.

(* What has to be read *)

(* Vectors, their inner product dot and length norm are those of vectors.v *)

(* The data: m records of n features, multiplied by their labels y = 1 or -1; the length of a record is at most 1 *)
Definition records (m n : nat) (signed : nat -> vector) : Prop :=
  forall i, (i < m)%nat -> norm n (signed i) <= 1.

(* The weights: not negative, with the sum 1, and at most cap *)
Definition weights (m : nat) (cap : R) (a : nat -> R) : Prop :=
  (forall i, (i < m)%nat -> 0 <= a i <= cap) /\ total m a = 1.

(* The two forms of R(a): J has the square of the length, T the length *)
Definition regulariser (squared : bool) (m : nat) (a : vector) : R :=
  if squared then norm m a ^ 2 else norm m a.

(* The constants of the problem *)
Record problem := { sellers : nat; features : nat; signed : nat -> vector; noise : vector; virtual_cost : nat -> R;
  cap : R; penalty : R; mu : R; sigma : R; gamma : R; u : R -> R; squared : bool }.

(* The joint objective *)
Definition objective (p : problem) (w : vector) (a : nat -> R) (eta : R) : R :=
  total (sellers p) (fun i => a i * ln (1 + exp (- dot (features p) w (signed p i))))
  + 2 * dot (features p) (noise p) w / eta
  + penalty p / 2 * norm (features p) w ^ 2
  + mu p * regulariser (squared p) (sellers p) a
  + sigma p / eta
  + gamma p * total (sellers p) (fun i => virtual_cost p i * u p (a i * eta)).

(* The constants are allowed: b is not 0, u is not negative and never falls, some weights exist *)
Definition allowed (p : problem) : Prop :=
  records (sellers p) (features p) (signed p) /\ 0 < norm (features p) (noise p) /\
  0 < penalty p /\ 0 <= mu p /\ 0 <= sigma p /\ 0 <= gamma p /\
  (forall x, 0 <= x -> 0 <= u p x) /\ (forall x y, 0 <= x -> x <= y -> u p x <= u p y) /\
  exists a, weights (sellers p) (cap p) a.

(* Over all w the infimum is minus infinity *)
Definition unbounded_statement : Prop :=
  forall p, allowed p -> forall bound, exists w a eta,
  weights (sellers p) (cap p) a /\ 0 < eta /\ objective p w a eta < bound.

(* Over the ball of radius beta it is bounded below if and only if sigma >= 2 beta times the length of b *)
Definition bounded_on_the_ball_statement : Prop :=
  forall p beta, allowed p -> 0 < beta -> (forall i, (i < sellers p)%nat -> 0 <= virtual_cost p i) ->
  ((exists bound, forall w a eta, norm (features p) w <= beta -> weights (sellers p) (cap p) a -> 0 < eta ->
      bound <= objective p w a eta) <->
   2 * beta * norm (features p) (noise p) <= sigma p).

(* The proofs, which need not be read *)

(* The loss of a record of length at most 1 *)
Lemma loss_bounds t c : Rabs t <= c -> 0 <= ln (1 + exp (- t)) <= ln 2 + c.
Proof.
  intros h. pose proof (exp_pos (- t)). split.
  - rewrite <- ln_1. left. apply ln_increasing; lra.
  - assert (c0 : 0 <= c) by (pose proof (Rabs_pos t); lra).
    rewrite <- (ln_exp c) at 1. rewrite <- ln_mult by (try apply exp_pos; lra).
    assert (e1 : exp (- t) <= exp c).
    { destruct (Req_dec (- t) c) as [->|ne]; [lra|left; apply exp_increasing]. pose proof (Rle_abs (- t)). rewrite Rabs_Ropp in H0. lra. }
    assert (e2 : 1 <= exp c).
    { rewrite <- exp_0. destruct (Req_dec 0 c) as [<-|ne]; [lra|left; apply exp_increasing; lra]. }
    destruct (Req_dec (1 + exp (- t)) (2 * exp c)) as [->|ne]; [lra|left; apply ln_increasing; lra].
Qed.

Lemma losses_bound p w a : allowed p -> weights (sellers p) (cap p) a ->
  0 <= total (sellers p) (fun i => a i * ln (1 + exp (- dot (features p) w (signed p i)))) <= ln 2 + norm (features p) w.
Proof.
  intros (rec & _) (box & one).
  assert (each : forall i, (i < sellers p)%nat ->
    0 <= ln (1 + exp (- dot (features p) w (signed p i))) <= ln 2 + norm (features p) w).
  { intros i hi. apply loss_bounds. eapply Rle_trans; [apply cauchy|]. rewrite <- (Rmult_1_r (norm (features p) w)) at 2.
    apply Rmult_le_compat_l; [apply norm_pos|apply rec; auto]. }
  split.
  - apply total_nonneg. intros i hi. apply Rmult_le_pos; [apply box; auto|apply each; auto].
  - apply Rle_trans with (total (sellers p) (fun i => (ln 2 + norm (features p) w) * a i)).
    + apply total_le. intros i hi. rewrite (Rmult_comm _ (a i)). apply Rmult_le_compat_l; [apply box; auto|apply each; auto].
    + rewrite total_scal, one. lra.
Qed.

(* The payments are at most a constant while eta <= 1 *)
Lemma weight_at_most_1 m cap a i : weights m cap a -> (i < m)%nat -> a i <= 1.
Proof. intros (box & one) hi. rewrite <- one. apply total_term; auto. intros. apply box; auto. Qed.

Lemma payments_bound p a : allowed p -> weights (sellers p) (cap p) a -> exists P, forall eta, 0 < eta <= 1 ->
  gamma p * total (sellers p) (fun i => virtual_cost p i * u p (a i * eta)) <= P.
Proof.
  intros (_ & _ & _ & _ & _ & g0 & u0 & um & _) wa.
  exists (gamma p * total (sellers p) (fun i => Rabs (virtual_cost p i) * u p 1)). intros eta he. apply Rmult_le_compat_l; auto.
  apply total_le. intros i hi. pose proof wa as (box & _). pose proof (weight_at_most_1 _ _ _ i wa hi) as a1.
  assert (x0 : 0 <= a i * eta) by (apply Rmult_le_pos; [apply box; auto|lra]).
  assert (x1 : a i * eta <= 1) by (rewrite <- (Rmult_1_r 1); apply Rmult_le_compat; try lra; apply box; auto).
  pose proof (u0 _ x0). pose proof (um _ _ x0 x1).
  pose proof (Rle_abs (virtual_cost p i)). pose proof (Rabs_pos (virtual_cost p i)). nra.
Qed.

(* - c / x^2 + d / x + e falls below every bound as x goes to 0 *)
Lemma quadratic_falls c d e bound : 0 < c -> 0 <= d -> exists x, 0 < x <= 1 /\ - c / x ^ 2 + d / x + e < bound.
Proof.
  intros c0 d0. set (y := 1 + (d + Rabs (e - bound)) / c). pose proof (Rabs_pos (e - bound)) as p.
  assert (y1 : 1 <= y). { unfold y. assert (0 <= (d + Rabs (e - bound)) / c) by (apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; auto]). lra. }
  exists (/ y). split.
  - split; [apply Rinv_0_lt_compat; lra|]. rewrite <- Rinv_1. apply Rinv_le_contravar; lra.
  - replace (- c / (/ y) ^ 2 + d / / y + e) with (y * (d - c * y) + e) by (field; lra).
    assert (q : d - c * y = - c - Rabs (e - bound)) by (unfold y; field; lra). rewrite q.
    pose proof (Rle_abs (e - bound)). nra.
Qed.

Lemma linear_falls c e bound : 0 < c -> exists x, 0 < x <= 1 /\ - c / x + e < bound.
Proof.
  intros c0. set (y := 1 + Rabs (e - bound) / c). pose proof (Rabs_pos (e - bound)) as p.
  assert (y1 : 1 <= y). { unfold y. assert (0 <= Rabs (e - bound) / c) by (apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; auto]). lra. }
  exists (/ y). split.
  - split; [apply Rinv_0_lt_compat; lra|]. rewrite <- Rinv_1. apply Rinv_le_contravar; lra.
  - replace (- c / / y + e) with (- (c * y) + e) by (field; lra).
    assert (q : c * y = c + Rabs (e - bound)) by (unfold y; field; lra). rewrite q. pose proof (Rle_abs (e - bound)). lra.
Qed.

Theorem unbounded : unbounded_statement.
Proof.
  intros p ok bound. pose proof ok as (_ & b0 & pen & m0 & s0 & g0 & u0 & um & a & wa).
  destruct (payments_bound p a ok wa) as (P & pay).
  set (B := norm (features p) (noise p)) in *. set (L := penalty p) in *.
  destruct (quadratic_falls (2 * B ^ 2 / L) (2 * B / L + sigma p) (ln 2 + mu p * regulariser (squared p) (sellers p) a + P) bound)
    as (eta & he & low).
  - apply Rdiv_lt_0_compat; [|auto]. assert (0 < B ^ 2) by (apply pow_lt; auto). lra.
  - assert (0 < 2 * B / L) by (apply Rdiv_lt_0_compat; lra). lra.
  - set (w := fun k => - (2 / (L * eta)) * noise p k). exists w, a, eta. split; auto. split; [lra|].
    assert (s : 0 < 2 / (L * eta)) by (apply Rdiv_lt_0_compat; [lra|apply Rmult_lt_0_compat; lra]).
    assert (lw : norm (features p) w = 2 / (L * eta) * B).
    { unfold w. rewrite norm_scale, Rabs_left by lra. unfold B. ring. }
    assert (bw : dot (features p) (noise p) w = - (2 / (L * eta)) * B ^ 2).
    { unfold w. rewrite dot_comm, dot_scale_left. unfold B. rewrite norm_square. ring. }
    pose proof (losses_bound p w a ok wa) as [_ lb]. pose proof (pay eta he) as pb.
    unfold objective. fold L. rewrite bw. rewrite lw in *.
    assert (e1 : 2 * (- (2 / (L * eta)) * B ^ 2) / eta + L / 2 * (2 / (L * eta) * B) ^ 2 = - (2 * B ^ 2 / L) / eta ^ 2) by (field; lra).
    assert (e2 : 2 / (L * eta) * B + sigma p / eta = (2 * B / L + sigma p) / eta) by (field; lra). lra.
Qed.

Theorem bounded_on_the_ball : bounded_on_the_ball_statement.
Proof.
  intros p beta ok beta0 psi0. pose proof ok as (_ & b0 & pen & m0 & s0 & g0 & u0 & um & a0 & wa0).
  set (B := norm (features p) (noise p)) in *. split.
  - intros (bound & above). apply Rnot_lt_le. intros small.
    destruct (payments_bound p a0 ok wa0) as (P & pay).
    set (w := fun k => - (beta / B) * noise p k).
    assert (s : 0 < beta / B) by (apply Rdiv_lt_0_compat; auto).
    assert (lw : norm (features p) w = beta).
    { unfold w. rewrite norm_scale, Rabs_left by lra. fold B. field. lra. }
    assert (bw : dot (features p) (noise p) w = - beta * B).
    { unfold w. rewrite dot_comm, dot_scale_left, <- norm_square. fold B. field. lra. }
    destruct (linear_falls (2 * beta * B - sigma p) (ln 2 + beta + penalty p / 2 * beta ^ 2 + mu p * regulariser (squared p) (sellers p) a0 + P) bound)
      as (eta & he & low); [lra|].
    specialize (above w a0 eta ltac:(lra) wa0 ltac:(lra)).
    pose proof (losses_bound p w a0 ok wa0) as [_ lb]. pose proof (pay eta he) as pb.
    unfold objective in above. rewrite bw, lw in *.
    assert (e : 2 * (- beta * B) / eta + sigma p / eta = - (2 * beta * B - sigma p) / eta) by (field; lra). lra.
  - intros large. exists 0. intros w a eta lw wa eta0.
    pose proof (losses_bound p w a ok wa) as [lb _]. unfold objective.
    assert (t1 : 0 <= penalty p / 2 * norm (features p) w ^ 2) by (apply Rmult_le_pos; [lra|apply pow2_ge_0]).
    assert (t2 : 0 <= mu p * regulariser (squared p) (sellers p) a).
    { apply Rmult_le_pos; auto. unfold regulariser. destruct (squared p); [apply pow2_ge_0|apply norm_pos]. }
    assert (t3 : 0 <= gamma p * total (sellers p) (fun i => virtual_cost p i * u p (a i * eta))).
    { apply Rmult_le_pos; auto. apply total_nonneg. intros i hi. apply Rmult_le_pos; auto.
      apply u0. destruct wa as (box & _). apply Rmult_le_pos; [apply box; auto|lra]. }
    assert (t4 : 0 <= 2 * dot (features p) (noise p) w / eta + sigma p / eta).
    { replace (2 * dot (features p) (noise p) w / eta + sigma p / eta) with ((sigma p + 2 * dot (features p) (noise p) w) / eta) by (field; lra).
      apply Rmult_le_pos; [|left; apply Rinv_0_lt_compat; auto].
      pose proof (cauchy (features p) (noise p) w) as c. fold B in c.
      assert (B * norm (features p) w <= B * beta) by (apply Rmult_le_compat_l; lra).
      assert (- dot (features p) (noise p) w <= Rabs (dot (features p) (noise p) w))
        by (rewrite <- Rabs_Ropp; apply Rle_abs). lra. }
    lra.
Qed.

(* Two sellers with one feature: the page's form with equal weights is allowed *)
Example two_sellers : allowed {| sellers := 2; features := 1; signed := fun _ _ => 1; noise := fun _ => 1;
  virtual_cost := fun _ => 1; cap := 1; penalty := 1; mu := 1; sigma := 1; gamma := 1; u := fun x => x; squared := true |}.
Proof.
  unfold allowed, records, weights, norm, dot. simpl. replace (0 + 1 * 1) with 1 by ring. rewrite sqrt_1.
  split; [intros; lra|]. do 5 (split; [lra|]). split; [intros; lra|]. split; [intros; lra|].
  exists (fun _ => 1 / 2). split; [intros; lra|lra].
Qed.

Print Assumptions unbounded. Print Assumptions bounded_on_the_ball.
