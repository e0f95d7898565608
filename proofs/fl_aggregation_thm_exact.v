(* fl-aggregation-thm-exact: the weights of least error. Claim: flm-alg2-optaggr (its correction).

   Where prose and formal statement differ:
   - the owners who sell are those of positive privacy loss, in any order; the prose puts them first;
   - the weights of the prose are not negative; here the minimiser is compared with all weights of
     sum 1, also negative ones, so the theorem says more. *)
Require Import Reals Lra Psatz List FunctionalExtensionality.
Require Import totals maxima.
Open Scope R_scope.

(* What has to be read *)

(* A number for owners who sell, 0 for the others *)
Definition if_sells (epsilon : nat -> R) (i : nat) (a : R) : R :=
  if Rlt_dec 0 (epsilon i) then a else 0.

(* q: the square of a privacy loss over the length of the gradient *)
Definition precision (epsilon : nat -> R) (D : R) (i : nat) : R := epsilon i ^ 2 / D.

(* Privacy losses of n owners (0: she does not sell) and their shares of the records; L bounds the
   norm of a gradient, D is its length. Somebody sells. *)
Definition market (n : nat) (epsilon share : nat -> R) (L D : R) : Prop :=
  0 < L /\ 0 < D /\
  (forall i, (i < n)%nat -> 0 <= epsilon i /\ 0 < share i) /\
  total n share = 1 /\
  exists i, (i < n)%nat /\ 0 < epsilon i.

(* The error bound of some weights: ERR *)
Definition error_bound (n : nat) (epsilon share : nat -> R) (L D : R) (weight : nat -> R) : R :=
  L ^ 2 * (total n (fun i => if_sells epsilon i (8 * weight i ^ 2 / precision epsilon D i))
           + (total n (fun i => Rabs (weight i - share i))) ^ 2).

(* Weights sum to 1, and who sells nothing has none. *)
Definition admissible (n : nat) (epsilon weight : nat -> R) : Prop :=
  total n weight = 1 /\ forall i, (i < n)%nat -> epsilon i = 0 -> weight i = 0.

(* The share of those who do not sell: S_0 *)
Definition idle_share (n : nat) (epsilon share : nat -> R) : R :=
  total n (fun i => share i - if_sells epsilon i (share i)).

(* P_+ and P_- *)
Definition raised (n : nat) (epsilon share : nat -> R) (D x : R) : R :=
  total n (fun i => if_sells epsilon i (Rmax 0 (x * precision epsilon D i - share i))).
Definition lowered (n : nat) (epsilon share : nat -> R) (D x : R) : R :=
  total n (fun i => if_sells epsilon i (Rmax 0 (share i - x * precision epsilon D i))).

(* theta_+, if theta_- is x *)
Definition upper (n : nat) (epsilon share : nat -> R) (D x : R) : R :=
  x + raised n epsilon share D x / 2.

(* h, whose root is sought *)
Definition excess (n : nat) (epsilon share : nat -> R) (D x : R) : R :=
  raised n epsilon share D x - idle_share n epsilon share
  - lowered n epsilon share D (upper n epsilon share D x).

(* The weights of the theorem, if theta_- is x *)
Definition best (n : nat) (epsilon share : nat -> R) (D x : R) (i : nat) : R :=
  if_sells epsilon i
    (Rmax (x * precision epsilon D i)
          (Rmin (share i) (upper n epsilon share D x * precision epsilon D i))).

(* There is exactly one positive root; its weights are admissible and positive for all who sell, they
   have the least error bound, and no others do. *)
Definition fl_aggregation_thm_exact_statement : Prop :=
  forall n epsilon share L D,
  market n epsilon share L D ->
  exists root,
  (0 < root /\ excess n epsilon share D root = 0) /\
  (forall other, 0 < other -> excess n epsilon share D other = 0 -> other = root) /\
  admissible n epsilon (best n epsilon share D root) /\
  (forall i, (i < n)%nat -> 0 < epsilon i -> 0 < best n epsilon share D root i) /\
  forall weight, admissible n epsilon weight ->
    error_bound n epsilon share L D (best n epsilon share D root)
      <= error_bound n epsilon share L D weight /\
    (error_bound n epsilon share L D weight
       = error_bound n epsilon share L D (best n epsilon share D root) ->
     forall i, (i < n)%nat -> weight i = best n epsilon share D root i).

(* The proofs, which need not be read *)

Section Bound.
Variables (n : nat) (q W : nat -> R).
(* q i = eps_i^2 / D, 0 if owner i sells nothing; W i: her share *)
Hypothesis q0 : forall i, (i < n)%nat -> 0 <= q i.
Hypothesis W0 : forall i, (i < n)%nat -> 0 < W i.
Hypothesis W1 : total n W = 1.
Hypothesis somebody : exists i, (i < n)%nat /\ 0 < q i.

(* a for owners who sell, 0 for the others *)
Definition on (i : nat) (a : R) : R := if Rlt_dec 0 (q i) then a else 0.

(* The error bound divided by L^2, and the weights that it is for *)
Definition err (w : nat -> R) : R :=
  total n (fun i => on i (8 * w i ^ 2 / q i)) + (total n (fun i => Rabs (w i - W i))) ^ 2.
Definition allowed (w : nat -> R) : Prop :=
  total n w = 1 /\ forall i, (i < n)%nat -> q i = 0 -> w i = 0.

Definition S0 : R := total n (fun i => W i - on i (W i)).
Definition Pplus (x : R) : R := total n (fun i => on i (Rmax 0 (x * q i - W i))).
Definition Pminus (x : R) : R := total n (fun i => on i (Rmax 0 (W i - x * q i))).
Definition top (x : R) : R := x + Pplus x / 2.
Definition h (x : R) : R := Pplus x - S0 - Pminus (top x).
Definition best_of (x : R) (i : nat) : R := on i (Rmax (x * q i) (Rmin (W i) (top x * q i))).

Ltac cases := unfold on in *; maxima.cases.

Lemma Pplus_pos x : 0 <= Pplus x.
Proof. apply total_nonneg. intros. cases; lra. Qed.

Lemma Pplus_mono x y : x <= y -> Pplus x <= Pplus y.
Proof. intros l. apply total_le. intros i hi. cases; nra. Qed.

Lemma Pminus_mono x y : x <= y -> Pminus y <= Pminus x.
Proof. intros l. apply total_le. intros i hi. cases; nra. Qed.

(* h has exactly one root above 0 *)
Lemma one_root x y : h x = 0 -> h y = 0 -> x < y -> False.
Proof.
  unfold h. intros hx hy l. destruct somebody as (i & hi & qi).
  pose proof (Pplus_mono x y ltac:(lra)) as p.
  assert (t : top x <= top y) by (unfold top; lra).
  pose proof (Pminus_mono _ _ t) as m.
  assert (ep : Pplus x = Pplus y) by lra. assert (em : Pminus (top y) = Pminus (top x)) by lra.
  pose proof (total_same n _ _ (fun k hk => ltac:(cases; specialize (q0 k hk); nra) :
    on k (Rmax 0 (x * q k - W k)) <= on k (Rmax 0 (y * q k - W k))) ltac:(unfold Pplus in *; lra) i hi) as e1.
  assert (t' : top x < top y) by (unfold top in *; lra).
  pose proof (total_same n _ _ (fun k hk => ltac:(cases; specialize (q0 k hk); nra) :
    on k (Rmax 0 (W k - top y * q k)) <= on k (Rmax 0 (W k - top x * q k))) ltac:(unfold Pminus in *; lra) i hi) as e2.
  assert (ly : y * q i <= W i). { revert e1. cases; nra. }
  assert (lx : W i <= top x * q i). { revert e2. cases; nra. }
  (* if P+ vanishes, top x = x *)
  assert (z : forall k, (k < n)%nat -> on k (Rmax 0 (x * q k - W k)) = 0).
  { intros k hk.
    pose proof (total_same n _ _ (fun k hk => ltac:(cases; specialize (q0 k hk); nra) :
    on k (Rmax 0 (x * q k - W k)) <= on k (Rmax 0 (y * q k - W k))) ltac:(unfold Pplus in *; lra) k hk) as e3.
    revert e3. cases; nra. }
  assert (Pplus x = 0) by (unfold Pplus; rewrite (total_ext n _ (fun _ => 0)); [apply total_zero|auto]).
  unfold top in lx. nra.
Qed.

Lemma cont_on i f x : continuity_pt f x -> continuity_pt (fun y => on i (f y)) x.
Proof. unfold on. intros c. destruct (Rlt_dec 0 (q i)); auto. apply continuity_pt_const; intros ? ?; auto. Qed.

Lemma cont_P : continuity Pplus /\ continuity Pminus.
Proof.
  split; intros x.
  - apply (total_continuous n (fun i x => on i (Rmax 0 (x * q i - W i)))). intros i _.
    apply (cont_on i (fun x => Rmax 0 (x * q i - W i))), (max_continuous (fun x => x * q i - W i)). reg.
  - apply (total_continuous n (fun i x => on i (Rmax 0 (W i - x * q i)))). intros i _.
    apply (cont_on i (fun x => Rmax 0 (W i - x * q i))), (max_continuous (fun x => W i - x * q i)). reg.
Qed.

Lemma cont_h : continuity h.
Proof.
  destruct cont_P as [cp cm]. unfold h.
  apply (continuity_minus (fun x => Pplus x - S0) (fun x => Pminus (top x))).
  - apply (continuity_minus Pplus (fun _ => S0)); auto. apply continuity_const; intros ? ?; auto.
  - apply (continuity_comp top Pminus); auto. unfold top.
    apply (continuity_plus (fun x => x) (fun x => Pplus x / 2)); [intros x; reg|].
    apply (continuity_mult Pplus (fun _ => / 2)); auto. apply continuity_const; intros ? ?; auto.
Qed.

Lemma exactly_one_root : exists x, (0 < x /\ h x = 0) /\ forall y, 0 < y /\ h y = 0 -> y = x.
Proof.
  assert (z : h 0 = -1).
  { assert (p : Pplus 0 = 0).
    { unfold Pplus. rewrite (total_ext n _ (fun _ => 0)); [apply total_zero|].
      intros i hi. specialize (W0 i hi). cases; lra. }
    unfold h, top. rewrite p. replace (0 + 0 / 2) with 0 by lra. unfold Pminus, S0.
    assert (total n (fun i => W i - on i (W i)) + total n (fun i => on i (Rmax 0 (W i - 0 * q i))) = 1).
    { rewrite <- total_plus, <- W1. apply total_ext. intros i hi. specialize (W0 i hi). cases; lra. }
    lra. }
  destruct somebody as (i & hi & qi).
  set (y := total n (fun i => on i (W i / q i)) + 2 / q i).
  assert (term : forall k, (k < n)%nat -> 0 <= on k (W k / q k)).
  { intros k hk. specialize (W0 k hk). cases; [|lra]. apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; lra]. }
  assert (two : 0 < 2 / q i) by (apply Rmult_lt_0_compat; [lra|apply Rinv_0_lt_compat; lra]).
  assert (big : forall k, (k < n)%nat -> 0 < q k -> W k <= y * q k).
  { intros k hk qk. pose proof (total_term n _ k term hk) as s. unfold on at 1 in s.
    destruct (Rlt_dec 0 (q k)); [|lra].
    replace (W k) with (W k / q k * q k) by (field; lra). unfold y. nra. }
  assert (bigi : W i + 2 <= y * q i).
  { pose proof (total_term n _ i term hi) as s. unfold on at 1 in s.
    destruct (Rlt_dec 0 (q i)); [|lra].
    replace (W i + 2) with ((W i / q i + 2 / q i) * q i) by (field; lra). unfold y. nra. }
  assert (S1 : S0 <= 1).
  { unfold S0. rewrite <- W1. apply total_le. intros k hk. specialize (W0 k hk). cases; lra. }
  assert (p2 : 2 <= Pplus y).
  { apply Rle_trans with (on i (Rmax 0 (y * q i - W i))); [cases; lra|].
    apply (total_term n (fun i => on i (Rmax 0 (y * q i - W i)))); auto. intros. cases; lra. }
  assert (ym : Pminus (top y) = 0).
  { unfold Pminus. rewrite (total_ext n _ (fun _ => 0)); [apply total_zero|]. intros k hk.
    assert (y <= top y) by (unfold top; lra). specialize (big k hk). cases; try lra; nra. }
  assert (hy : 0 < h y) by (unfold h; lra).
  assert (y0 : 0 <= y). { unfold y. pose proof (total_nonneg n _ term). lra. }
  destruct (IVT_cor h 0 y cont_h y0 ltac:(nra)) as (x & bx & hx).
  assert (x0 : 0 < x). { destruct (Req_dec x 0) as [->|]; lra. }
  exists x. split; auto. intros y' [_ hy']. destruct (Rtotal_order y' x) as [l|[e|l]]; auto; exfalso.
  - apply (one_root y' x); auto.
  - apply (one_root x y'); auto.
Qed.

Section Root.
Variable x : R.
Hypothesis x0 : 0 < x.
Hypothesis hx : h x = 0.

Lemma best_sum : total n (best_of x) = 1 /\ total n (fun i => Rabs (best_of x i - W i)) = 2 * Pplus x.
Proof.
  pose proof (Pplus_pos x) as pp. assert (t : x <= top x) by (unfold top; lra).
  unfold h in hx. split.
  - assert (e : total n (best_of x) = total n (fun i => (W i + -1 * (W i - on i (W i))) + (on i (Rmax 0 (x * q i - W i))
      + -1 * on i (Rmax 0 (W i - top x * q i))))).
    { apply total_ext. intros i hi. unfold best_of. specialize (W0 i hi). specialize (q0 i hi).
      assert (x * q i <= top x * q i) by nra. cases; lra. }
    rewrite !total_plus, !total_scal in e. fold S0 (Pplus x) (Pminus (top x)) in e. lra.
  - assert (e : total n (fun i => Rabs (best_of x i - W i)) = total n (fun i => (W i - on i (W i)) + (on i (Rmax 0 (x * q i - W i))
      + on i (Rmax 0 (W i - top x * q i))))).
    { apply total_ext. intros i hi. unfold best_of. specialize (W0 i hi). specialize (q0 i hi).
      assert (x * q i <= top x * q i) by nra. cases; lra. }
    rewrite !total_plus in e. fold S0 (Pplus x) (Pminus (top x)) in e. lra.
Qed.

Lemma best_allowed :
  allowed (best_of x) /\ forall i, (i < n)%nat -> 0 < q i -> 0 < best_of x i.
Proof.
  split; [split; [apply best_sum|]|].
  - intros i hi z. unfold best_of, on. rewrite z. destruct (Rlt_dec 0 0); lra.
  - intros i hi qi. unfold best_of, on. destruct (Rlt_dec 0 (q i)); [|lra].
    apply Rlt_le_trans with (x * q i); [nra|apply Rmax_l].
Qed.

(* It has the least error bound, and it alone *)
Lemma best_optimal w : allowed w ->
  err (best_of x) <= err w /\ (err w = err (best_of x) -> forall i, (i < n)%nat -> w i = best_of x i).
Proof.
  intros [w1 wz]. destruct best_sum as [b1 bd]. destruct best_allowed as [[_ bz] _].
  pose proof (Pplus_pos x) as pp. assert (t : x <= top x) by (unfold top; lra).
  set (d := 2 * Pplus x) in *. assert (d4 : d = 4 * (top x - x)) by (unfold d, top; lra).
  set (D := total n (fun i => Rabs (w i - W i))).
  assert (point : forall i, (i < n)%nat ->
    (on i (8 * best_of x i ^ 2 / q i) + 2 * d * Rabs (best_of x i - W i)) +
      (on i (8 * (w i - best_of x i) ^ 2 / q i) + 8 * (x + top x) * (w i + -1 * best_of x i))
    <= on i (8 * w i ^ 2 / q i) + 2 * d * Rabs (w i - W i)).
  { intros i hi. specialize (q0 i hi). destruct (Rlt_dec 0 (q i)) as [qi|].
    2: { assert (z : q i = 0) by lra. rewrite (wz i hi z), (bz i hi z). cases; lra. }
    pose proof (one_owner x (top x) (W i / q i) (w i / q i) (best_of x i / q i) t) as o.
    assert (e : best_of x i / q i = Rmax x (Rmin (W i / q i) (top x))).
    { unfold best_of, on. destruct (Rlt_dec 0 (q i)); [|lra].
      apply Rmult_eq_reg_r with (q i); [|lra].
      replace (Rmax (x * q i) (Rmin (W i) (top x * q i)) / q i * q i) with (Rmax (x * q i) (Rmin (W i) (top x * q i))) by (field; lra).
      assert (f : W i = W i / q i * q i) by (field; lra).
      set (v := W i / q i) in *. rewrite f. cases; nra. }
    specialize (o e).
    assert (ab : forall a, Rabs (a - W i) = q i * Rabs (a / q i - W i / q i)).
    { intros a. replace (a - W i) with (q i * (a / q i - W i / q i)) by (field; lra).
      rewrite Rabs_mult, (Rabs_right (q i)); lra. }
    rewrite !ab. unfold on. destruct (Rlt_dec 0 (q i)); [|lra].
    set (m := w i / q i) in *. set (l := best_of x i / q i) in *.
    replace (w i) with (m * q i) by (unfold m; field; lra).
    replace (best_of x i) with (l * q i) by (unfold l; field; lra).
    replace (8 * (l * q i) ^ 2 / q i) with (q i * (8 * l ^ 2)) by (field; lra).
    replace (8 * (m * q i) ^ 2 / q i) with (q i * (8 * m ^ 2)) by (field; lra).
    replace (8 * (m * q i - l * q i) ^ 2 / q i) with (q i * (8 * (m - l) ^ 2)) by (field; lra).
    rewrite d4. apply (Rmult_le_compat_l (q i)) in o; lra. }
  pose proof (total_le n _ _ point) as whole.
  rewrite !total_plus, !total_scal, !total_plus, !total_scal in whole.
  assert (sq : 0 <= total n (fun i => on i (8 * (w i - best_of x i) ^ 2 / q i))).
  { apply total_nonneg. intros i hi. unfold on. destruct (Rlt_dec 0 (q i)); [|lra].
    apply Rmult_le_pos; [pose proof (pow2_ge_0 (w i - best_of x i)); lra|left; apply Rinv_0_lt_compat; lra]. }
  unfold err. rewrite bd. fold D in whole |- *. rewrite bd, w1, b1 in whole.
  pose proof (pow2_ge_0 (D - d)) as sd.
  split; [lra|]. intros e i hi.
  assert (z : total n (fun i => on i (8 * (w i - best_of x i) ^ 2 / q i)) <= total n (fun _ => 0)).
  { rewrite total_zero. lra. }
  assert (zi := total_same n (fun _ => 0) _ (fun k hk => ltac:(unfold on; destruct (Rlt_dec 0 (q k));
    [apply Rmult_le_pos; [pose proof (pow2_ge_0 (w k - best_of x k)); lra|left; apply Rinv_0_lt_compat; lra]|lra]) : 0 <= on k (8 * (w k - best_of x k) ^ 2 / q k)) z i hi).
  cbv beta in zi. unfold on in zi. destruct (Rlt_dec 0 (q i)) as [qi|].
  - assert (8 * (w i - best_of x i) ^ 2 = 0).
    { transitivity (8 * (w i - best_of x i) ^ 2 / q i * q i); [field; lra|]. rewrite <- zi. ring. }
    nra.
  - specialize (q0 i hi). assert (q i = 0) by lra. rewrite wz, bz; auto.
Qed.
End Root.
End Bound.

(* From privacy losses to q, the square over D *)
Lemma same_sells epsilon D i a : 0 < D -> 0 <= epsilon i ->
  if_sells epsilon i a = on (precision epsilon D) i a.
Proof.
  intros D0 e0. unfold if_sells, on, precision.
  assert (d0 : 0 < / D) by (apply Rinv_0_lt_compat; auto).
  destruct (Rlt_dec 0 (epsilon i)) as [h|h]; destruct (Rlt_dec 0 (epsilon i ^ 2 / D)) as [k|k]; auto.
  - exfalso. apply k. unfold Rdiv. apply Rmult_lt_0_compat; nra.
  - exfalso. replace (epsilon i) with 0 in k by lra. unfold Rdiv in k. lra.
Qed.

Theorem fl_aggregation_thm_exact : fl_aggregation_thm_exact_statement.
Proof.
  intros n epsilon share L D (L0 & D0 & each & one & somebody).
  set (q := precision epsilon D).
  assert (d0 : 0 < / D) by (apply Rinv_0_lt_compat; auto).
  assert (q0 : forall i, (i < n)%nat -> 0 <= q i).
  { intros i hi. unfold q, precision, Rdiv. destruct (each i hi). apply Rmult_le_pos; nra. }
  assert (W0 : forall i, (i < n)%nat -> 0 < share i) by (intros i hi; apply each; auto).
  assert (some : exists i, (i < n)%nat /\ 0 < q i).
  { destruct somebody as (i & hi & ei). exists i. split; auto.
    unfold q, precision, Rdiv. apply Rmult_lt_0_compat; nra. }
  assert (sells : forall i a, (i < n)%nat -> if_sells epsilon i a = on q i a).
  { intros i a hi. apply same_sells; auto. apply each; auto. }
  assert (P : forall x, raised n epsilon share D x = Pplus n q share x).
  { intros x. apply total_ext. intros i hi. apply sells; auto. }
  assert (M : forall x, lowered n epsilon share D x = Pminus n q share x).
  { intros x. apply total_ext. intros i hi. apply sells; auto. }
  assert (Z : idle_share n epsilon share = S0 n q share).
  { apply total_ext. intros i hi. rewrite sells; auto. }
  assert (U : forall x, upper n epsilon share D x = top n q share x).
  { intros x. unfold upper, top. rewrite P. auto. }
  assert (H : forall x, excess n epsilon share D x = h n q share x).
  { intros x. unfold excess, h. rewrite P, Z, U, M. auto. }
  assert (Bst : forall x i, (i < n)%nat -> best n epsilon share D x i = best_of n q share x i).
  { intros x i hi. unfold best, best_of. rewrite sells, U; auto. }
  assert (E : forall w, error_bound n epsilon share L D w = L ^ 2 * err n q share w).
  { intros w. unfold error_bound, err. f_equal. f_equal. apply total_ext. intros i hi. apply sells; auto. }
  assert (A : forall w, admissible n epsilon w -> allowed n q w).
  { intros w [w1 w0]. split; auto. intros i hi z. apply w0; auto. destruct (each i hi) as [e _].
    destruct (Rlt_dec 0 (epsilon i)) as [l|l]; [|lra]. exfalso.
    assert (0 < q i) by (unfold q, precision, Rdiv; apply Rmult_lt_0_compat; nra). lra. }
  destruct (exactly_one_root n q share q0 W0 one some) as (x & [x0 hx] & only).
  assert (eb : err n q share (best n epsilon share D x) = err n q share (best_of n q share x)).
  { unfold err. f_equal; [|f_equal]; apply total_ext; intros i hi; rewrite Bst; auto. }
  destruct (best_allowed n q share q0 W0 one x x0 hx) as [[s z] pos].
  exists x. split; [rewrite H; auto|]. split; [|split; [|split]].
  - intros y y0 hy. apply only. rewrite <- H. auto.
  - split.
    + rewrite <- s. apply total_ext. intros i hi. apply Bst; auto.
    + intros i hi ei. rewrite Bst; auto. apply z; auto. unfold q, precision. rewrite ei.
      unfold Rdiv. ring.
  - intros i hi ei. rewrite Bst; auto. apply pos; auto.
    unfold q, precision, Rdiv. apply Rmult_lt_0_compat; nra.
  - intros w hw. destruct (best_optimal n q share q0 W0 one x x0 hx w (A w hw)) as [least unique].
    rewrite !E, eb. assert (l0 : 0 < L ^ 2) by nra. split.
    + apply Rmult_le_compat_l; lra.
    + intros e i hi. rewrite Bst; auto. apply unique; auto. apply Rmult_eq_reg_l with (L ^ 2); lra.
Qed.

(* The hypotheses can be met: three owners, of whom the last does not sell. *)
Example three_owners :
  market 3 (fun i => if Nat.eqb i 2 then 0 else 1) (fun _ => 1 / 3) 1 10.
Proof.
  split; [lra|]. split; [lra|]. split; [intros i _; destruct (Nat.eqb i 2); lra|].
  split; [simpl; lra|]. exists 0%nat. simpl. split; [lia|lra].
Qed.

Print Assumptions fl_aggregation_thm_exact.
