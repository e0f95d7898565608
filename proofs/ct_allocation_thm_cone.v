(** ct-allocation-thm-cone: the least-cost problem as a convex program with one second-order cone.  Bears on the claims
    khalili-eq10-problem, khalili-thm5, khalili-alg1 and khalili-thm6 (their oracle), page contracts/allocation.
    Beside the prose: W is the infimum, so that nothing is assumed about the minimum being attained; that a minimum is
    attained in one problem if and only if in the other is stated beside it.  The cost may differ from seller to
    seller in any way.  K below n^2 / 4 is not needed; at or above it both values are right, too. *)
Require Import Reals Lra Lia.
Require Import totals.
Open Scope R_scope.

(* What has to be read *)

(* A cost that is convex and does not fall in the loss, for each of n sellers *)
Definition convex_cost (n : nat) (cost : nat -> R -> R) : Prop :=
  forall k, (k < n)%nat ->
    (forall x y, 0 <= x <= y -> cost k x <= cost k y) /\
    (forall x y t, 0 <= x -> 0 <= y -> 0 <= t <= 1 ->
       cost k (t * x + (1 - t) * y) <= t * cost k x + (1 - t) * cost k y).

(* The total cost of the losses *)
Definition total_cost (n : nat) (cost : nat -> R -> R) (loss : nat -> R) : R := total n (fun k => cost k (loss k)).

(* Problem (10): shares and a noise scale with the error K *)
Definition contract (n : nat) (K : R) (share : nat -> R) (scale : R) : Prop :=
  (forall k, (k < n)%nat -> 0 <= share k <= 1) /\ 0 < scale /\
  (total n (fun k => 1 - share k) / 2) ^ 2 + 2 * scale ^ 2 = K.

(* The costs that contracts have *)
Definition cost_of_a_contract (n : nat) (K : R) (cost : nat -> R -> R) (w : R) : Prop :=
  exists share scale, contract n K share scale /\ w = total_cost n cost (fun k => share k / scale).

(* The length of a vector of two numbers *)
Definition length_of_two (p q : R) : R := sqrt (p ^ 2 + q ^ 2).

(* The constraints of the program: the box and the cone *)
Definition in_the_cone (n : nat) (K : R) (loss : nat -> R) (y : R) : Prop :=
  (forall k, (k < n)%nat -> 0 <= loss k <= y) /\
  length_of_two ((INR n * y - total n loss) / 2) (sqrt 2) <= sqrt K * y.

(* The costs that points of the program have *)
Definition cost_in_the_cone (n : nat) (K : R) (cost : nat -> R -> R) (w : R) : Prop :=
  exists loss y, in_the_cone n K loss y /\ w = total_cost n cost loss.

(* W is the greatest number that no cost is below; and it is the minimum if it is a cost *)
Definition value (costs : R -> Prop) (W : R) : Prop :=
  (forall w, costs w -> W <= w) /\ forall W', (forall w, costs w -> W' <= w) -> W' <= W.

(* Both problems have the same value, attained or not *)
Definition same_value_statement : Prop :=
  forall n K cost W, 0 < K -> convex_cost n cost ->
  (value (cost_of_a_contract n K cost) W <-> value (cost_in_the_cone n K cost) W) /\
  (value (cost_of_a_contract n K cost) W ->
     (cost_of_a_contract n K cost W <-> cost_in_the_cone n K cost W)).

(* The program is convex: between two of its points all points belong to it, and cost at most what lies between *)
Definition convex_program_statement : Prop :=
  forall n K cost loss y loss' y' t, 0 < K -> convex_cost n cost -> 0 <= t <= 1 ->
  in_the_cone n K loss y -> in_the_cone n K loss' y' ->
  let between := fun k => t * loss k + (1 - t) * loss' k in
  in_the_cone n K between (t * y + (1 - t) * y') /\
  total_cost n cost between <= t * total_cost n cost loss + (1 - t) * total_cost n cost loss'.

(* The proofs, which need not be read *)

Lemma cone_square n K loss y : 0 < K ->
  length_of_two ((INR n * y - total n loss) / 2) (sqrt 2) <= sqrt K * y <->
  0 < y /\ ((INR n * y - total n loss) / 2) ^ 2 + 2 <= K * y ^ 2.
Proof.
  intros K0. unfold length_of_two. rewrite pow2_sqrt by lra. set (u := (INR n * y - total n loss) / 2).
  pose proof (sqrt_lt_R0 K K0) as sK. pose proof (sqrt_sqrt K ltac:(lra)) as ss. pose proof (pow2_ge_0 u).
  assert (p : 0 < sqrt (u ^ 2 + 2)) by (apply sqrt_lt_R0; lra).
  pose proof (sqrt_sqrt (u ^ 2 + 2) ltac:(lra)) as su. split.
  - intros le. assert (y0 : 0 < y).
    { apply Rnot_le_lt. intros no. assert (sqrt K * y <= 0) by nra. lra. }
    split; auto. replace (K * y ^ 2) with ((sqrt K * y) * (sqrt K * y)) by (replace K with (sqrt K * sqrt K) at 3 by auto; ring).
    eapply Rle_trans; [right; symmetry; exact su|]. apply Rmult_le_compat; lra.
  - intros (y0 & le). apply Rsqr_incr_0_var; [|left; apply Rmult_lt_0_compat; auto]. unfold Rsqr. rewrite su.
    replace (sqrt K * y * (sqrt K * y)) with ((sqrt K * sqrt K) * y ^ 2) by ring. rewrite ss. auto.
Qed.

Lemma div_ge0 x y : 0 <= x -> 0 < y -> 0 <= x / y.
Proof. intros. apply Rmult_le_pos; auto. left. apply Rinv_0_lt_compat. auto. Qed.

Lemma contract_in_cone n K cost w : 0 < K -> cost_of_a_contract n K cost w -> cost_in_the_cone n K cost w.
Proof.
  intros K0 (share & scale & (box & s0 & e) & ->). exists (fun k => share k / scale), (1 / scale). split; [|reflexivity]. split.
  - intros k hk. destruct (box k hk). split; [apply div_ge0; auto|].
    apply Rmult_le_compat_r; auto. left. apply Rinv_0_lt_compat. auto.
  - apply cone_square; auto. split; [apply Rdiv_lt_0_compat; lra|]. right.
    rewrite total_minus, total_const in e. rewrite total_div, <- e. field. lra.
Qed.

Lemma cone_has_contract n K cost w : 0 < K -> convex_cost n cost -> cost_in_the_cone n K cost w ->
  exists w', cost_of_a_contract n K cost w' /\ w' <= w.
Proof.
  intros K0 conv (loss & y & (box & len) & ->). apply cone_square in len; auto. destruct len as (y0 & len).
  set (share := fun k => loss k / y). set (T := total n (fun k => 1 - share k)).
  assert (Ty : INR n * y - total n loss = T * y).
  { unfold T, share. rewrite total_minus, total_const, total_div. field. lra. }
  assert (room : 2 / y ^ 2 <= K - T ^ 2 / 4).
  { rewrite Ty in len. apply Rmult_le_reg_r with (y ^ 2); [nra|]. field_simplify; [|lra]. 
    replace ((T * y / 2) ^ 2) with (T ^ 2 * y ^ 2 / 4) in len by field. lra. }
  assert (room0 : 0 < 2 / y ^ 2) by (apply Rdiv_lt_0_compat; [lra|nra]).
  set (scale := sqrt ((K - T ^ 2 / 4) / 2)).
  assert (s0 : 0 < scale) by (apply sqrt_lt_R0; lra).
  assert (sq : scale ^ 2 = (K - T ^ 2 / 4) / 2) by (apply pow2_sqrt; lra).
  assert (sy : 1 <= scale * y).
  { apply Rsqr_incr_0_var; [|left; apply Rmult_lt_0_compat; auto]. unfold Rsqr.
    replace (scale * y * (scale * y)) with (scale ^ 2 * y ^ 2) by ring. rewrite sq.
    apply Rle_trans with (2 / y ^ 2 / 2 * y ^ 2); [right; field; lra|]. apply Rmult_le_compat_r; [nra|lra]. }
  exists (total_cost n cost (fun k => share k / scale)). split.
  - exists share, scale. split; [|reflexivity]. split; [|split; auto].
    + intros k hk. destruct (box k hk). unfold share. split; [apply div_ge0; auto|].
      apply Rmult_le_reg_r with y; auto. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
    + fold T. rewrite sq. field.
  - apply total_le. intros k hk. apply conv; auto. destruct (box k hk) as [l0 ly]. unfold share.
    split; [apply div_ge0; auto; apply div_ge0; auto|].
    replace (loss k / y / scale) with (loss k / (scale * y)) by (field; lra).
    apply Rmult_le_reg_r with (scale * y); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra.
    rewrite Rmult_1_r. rewrite <- (Rmult_1_r (loss k)) at 1. apply Rmult_le_compat_l; auto.
Qed.

Theorem same_value : same_value_statement.
Proof.
  intros n K cost W K0 conv.
  assert (below : forall V, (forall w, cost_of_a_contract n K cost w -> V <= w) <-> (forall w, cost_in_the_cone n K cost w -> V <= w)).
  { intros V. split; intros h w c; [|apply h, contract_in_cone; auto].
    destruct (cone_has_contract n K cost w K0 conv c) as (w' & c' & le). specialize (h w' c'). lra. }
  split.
  - unfold value. split; intros [low great]; (split; [apply below; auto|intros V h; apply great, below; auto]).
  - intros [low great]. split; [apply contract_in_cone; auto|]. intros c.
    destruct (cone_has_contract n K cost W K0 conv c) as (w' & c' & le). pose proof (low w' c').
    replace W with w' by lra. auto.
Qed.

Theorem convex_program : convex_program_statement.
Proof.
  intros n K cost loss y loss' y' t K0 conv ht (box & len) (box' & len') between. split; [split|].
  - intros k hk. destruct (box k hk), (box' k hk). unfold between. split.
    + assert (0 <= t * loss k) by (apply Rmult_le_pos; lra). assert (0 <= (1 - t) * loss' k) by (apply Rmult_le_pos; lra). lra.
    + assert (t * loss k <= t * y) by (apply Rmult_le_compat_l; lra).
      assert ((1 - t) * loss' k <= (1 - t) * y') by (apply Rmult_le_compat_l; lra). lra.
  - apply cone_square in len; auto. apply cone_square in len'; auto. apply cone_square; auto.
    destruct len as (y0 & len). destruct len' as (y1 & len').
    assert (sum : total n between = t * total n loss + (1 - t) * total n loss') by (unfold between; rewrite total_plus, !total_scal; reflexivity).
    rewrite sum. set (u := (INR n * y - total n loss) / 2) in *. set (u' := (INR n * y' - total n loss') / 2) in *.
    replace ((INR n * (t * y + (1 - t) * y') - (t * total n loss + (1 - t) * total n loss')) / 2) with (t * u + (1 - t) * u')
      by (unfold u, u'; field).
    assert (mixed : u * u' + 2 <= K * y * y').
    { assert (p : 0 < K * y * y') by (apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat; auto|auto]).
      destruct (Rle_dec (u * u' + 2) 0) as [|no]; [lra|].
      assert ((u * u' + 2) ^ 2 <= (K * y * y') ^ 2).
      { apply Rle_trans with ((u ^ 2 + 2) * (u' ^ 2 + 2)); [pose proof (pow2_ge_0 (u - u')); nra|].
        replace ((K * y * y') ^ 2) with ((K * y ^ 2) * (K * y' ^ 2)) by ring.
        pose proof (pow2_ge_0 u). pose proof (pow2_ge_0 u'). apply Rmult_le_compat; lra. }
      apply Rnot_lt_le. intros lt. nra. }
    split.
    + destruct (Req_dec t 0) as [->|n0]; [lra|]. assert (0 < t * y) by (apply Rmult_lt_0_compat; lra).
      assert (0 <= (1 - t) * y') by (apply Rmult_le_pos; lra). lra.
    + assert (t ^ 2 * (u ^ 2 + 2) <= t ^ 2 * (K * y ^ 2)) by (apply Rmult_le_compat_l; [apply pow2_ge_0|lra]).
      assert ((1 - t) ^ 2 * (u' ^ 2 + 2) <= (1 - t) ^ 2 * (K * y' ^ 2)) by (apply Rmult_le_compat_l; [apply pow2_ge_0|lra]).
      assert (2 * t * (1 - t) * (u * u' + 2) <= 2 * t * (1 - t) * (K * y * y')).
      { apply Rmult_le_compat_l; auto. apply Rmult_le_pos; lra. }
      lra.
  - unfold total_cost, between. rewrite <- !total_scal, <- total_plus. apply total_le. intros k hk.
    apply conv; auto; [apply box|apply box']; auto.
Qed.

(* The cost v_k times the loss is convex and does not fall *)
Example linear_cost : convex_cost 3 (fun k x => INR k * x).
Proof. intros k hk. pose proof (pos_INR k). split; intros; [apply Rmult_le_compat_l; lra|lra]. Qed.

Print Assumptions same_value. Print Assumptions convex_program.
