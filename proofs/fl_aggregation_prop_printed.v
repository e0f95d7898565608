(** fl-aggregation-prop-printed: when FL-Market's Problem 3 is the right one.  Bears on the claims flm-prop1, flm-problem3
    and flm-alg2-optaggr (corrected), page federated/aggregation.
    Beside the prose: q_i is 8 L^2 over the variance, which is the page's eps_i^2 / D for Laplace noise; Problems 1 and 3
    and their market are those of flm_prop1.v; that theta_- is the only root of its equation is stated, too. *)
Require Import Reals Lra Lia FunctionalExtensionality.
Require Import totals maxima flm_prop1.
Open Scope R_scope.

(* What has to be read *)

(* q, the precision of a seller's gradient *)
Definition precision (variance : nat -> R) (L : R) (i : nat) : R := 8 * L ^ 2 / variance i.

(* The share of those who do not sell: S_0 *)
Definition idle_share (k : nat) (share : nat -> R) : R := 1 - total k share.

(* P_+ and P_- over the k sellers *)
Definition raised (k : nat) (share q : nat -> R) (x : R) : R := total k (fun i => Rmax 0 (x * q i - share i)).
Definition lowered (k : nat) (share q : nat -> R) (x : R) : R := total k (fun i => Rmax 0 (share i - x * q i)).

(* theta_+ for theta_- = x: x + P_+(x) / 2 less a quarter of what Problem 3 forgets *)
Definition upper3 (k : nat) (share q : nat -> R) (x : R) : R := x + raised k share q x / 2 - idle_share k share / 4.

(* The equation for theta_- *)
Definition root3 (k : nat) (share q : nat -> R) (x : R) : Prop :=
  0 < x /\ raised k share q x - idle_share k share - lowered k share q (upper3 k share q x) = 0.

(* (x, y) is a solution of Problem 3 *)
Definition solution3 (k : nat) (share variance : nat -> R) (L : R) (x y : nat -> R) : Prop :=
  constraints3 k share x y /\
  forall x' y', constraints3 k share x' y' -> objective3 k variance L x y <= objective3 k variance L x' y'.

(* Weights that solve Problem 1 *)
Definition solves1 (n k : nat) (share variance : nat -> R) (L : R) (weight : nat -> R) : Prop :=
  weights n k weight /\
  forall other, weights n k other -> error_bound n share variance L weight <= error_bound n share variance L other.

(* Problem 3 has one solution; its weights have the form of the theorem, with one theta_-; and they solve Problem 1 if and
   only if everybody sells, or no seller has a weight below her share *)
Definition printed_problem_statement : Prop :=
  forall n k share variance L, market n k share variance L ->
  let q := precision variance L in
  exists x y theta,
  solution3 k share variance L x y /\
  (forall x' y', solution3 k share variance L x' y' -> forall i, (i < k)%nat -> x' i = x i /\ y' i = y i) /\
  root3 k share q theta /\ (forall other, root3 k share q other -> other = theta) /\
  (forall i, (i < k)%nat -> x i = Rmax (theta * q i) (Rmin (share i) (upper3 k share q theta * q i))) /\
  (solves1 n k share variance L (filled k x) <-> (k = n \/ forall i, (i < k)%nat -> share i <= x i)).

(* The proofs, which need not be read *)

(* Both problems at once: c is added to the sum of differences, 0 in Problem 3 and S_0 in Problem 1 *)
Section Both.
Variables (k : nat) (W q : nat -> R) (S0 c : R).
Hypothesis k1 : (1 <= k)%nat.
Hypothesis q0 : forall i, (i < k)%nat -> 0 < q i.
Hypothesis W0 : forall i, (i < k)%nat -> 0 < W i.
Hypothesis W1 : total k W = 1 - S0.
Hypothesis c0 : 0 <= c <= S0.
Let up := raised k W q.
Let down := lowered k W q.
Definition top (x : R) : R := x + up x / 2 - (S0 - c) / 4.
Definition excess (x : R) : R := up x - S0 - down (top x).
Definition best (x : R) (i : nat) : R := Rmax (x * q i) (Rmin (W i) (top x * q i)).
Definition err (w : nat -> R) : R := total k (fun i => 8 * w i ^ 2 / q i) + (total k (fun i => Rabs (w i - W i)) + c) ^ 2.

Lemma up_ge0 x : 0 <= up x.
Proof. apply total_nonneg. intros. cases; lra. Qed.
Lemma down_ge0 x : 0 <= down x.
Proof. apply total_nonneg. intros. cases; lra. Qed.
Lemma up_mono x y : x <= y -> up x <= up y.
Proof. intros l. apply total_le. intros i hi. pose proof (q0 i hi). cases; nra. Qed.
Lemma down_mono x y : x <= y -> down y <= down x.
Proof. intros l. apply total_le. intros i hi. pose proof (q0 i hi). cases; nra. Qed.

Lemma one_root x y : excess x = 0 -> excess y = 0 -> x < y -> False.
Proof.
  unfold excess. intros hx hy l. pose proof (up_mono x y ltac:(lra)) as p.
  assert (t : top x < top y) by (unfold top; lra). pose proof (down_mono _ _ (Rlt_le _ _ t)) as m.
  assert (ep : up y <= up x) by lra. assert (em : down (top x) <= down (top y)) by lra.
  assert (e1 : forall i, (i < k)%nat -> Rmax 0 (x * q i - W i) = Rmax 0 (y * q i - W i)).
  { apply total_same; auto. intros i hi. pose proof (q0 i hi). cases; nra. }
  assert (e2 : forall i, (i < k)%nat -> Rmax 0 (W i - top y * q i) = Rmax 0 (W i - top x * q i)).
  { apply total_same; auto. intros i hi. pose proof (q0 i hi). cases; nra. }
  (* so nobody is raised at y, and nobody lowered at top x: P_+ = 0 = S_0, and top x = x + c / 4 = x *)
  assert (none : forall i, (i < k)%nat -> y * q i <= W i /\ W i <= top x * q i).
  { intros i hi. pose proof (q0 i hi). pose proof (e1 i hi) as a. pose proof (e2 i hi) as b. split; [revert a|revert b]; cases; nra. }
  assert (u0 : up x = 0).
  { unfold up, raised. rewrite (total_ext k _ (fun _ => 0)), total_const; [lra|]. intros i hi. pose proof (none i hi). pose proof (q0 i hi). cases; nra. }
  pose proof (down_ge0 (top x)). assert (S0 = 0) by lra.
  destruct (none 0%nat ltac:(lia)) as [a b]. pose proof (q0 0%nat ltac:(lia)). unfold top in b. rewrite u0 in b.
  replace c with 0 in b by lra. rewrite H0 in b. nra.
Qed.

Lemma excess_continuous : continuity excess.
Proof.
  assert (cu : continuity up).
  { intros x. apply (total_continuous k (fun i x => Rmax 0 (x * q i - W i))). intros i _. apply (max_continuous (fun x => x * q i - W i)). reg. }
  assert (cd : continuity down).
  { intros x. apply (total_continuous k (fun i x => Rmax 0 (W i - x * q i))). intros i _. apply (max_continuous (fun x => W i - x * q i)). reg. }
  unfold excess. apply (continuity_minus (fun x => up x - S0) (fun x => down (top x))).
  - apply (continuity_minus up (fun _ => S0)); auto. apply continuity_const; intros ? ?; auto.
  - apply (continuity_comp top down); auto. unfold top.
    apply (continuity_minus (fun x => x + up x / 2) (fun _ => (S0 - c) / 4)); [|apply continuity_const; intros ? ?; auto].
    apply (continuity_plus (fun x => x) (fun x => up x / 2)); [intros x; reg|].
    apply (continuity_mult up (fun _ => / 2)); auto. apply continuity_const; intros ? ?; auto.
Qed.

Lemma root_exists : exists x, 0 < x /\ excess x = 0.
Proof.
  assert (S1 : S0 < 1).
  { pose proof (total_pos k W 0%nat ltac:(intros; left; apply W0; auto) ltac:(lia) ltac:(apply W0; lia)). lra. }
  assert (z : excess 0 < 0).
  { assert (p : up 0 = 0).
    { unfold up, raised. rewrite (total_ext k _ (fun _ => 0)), total_const; [lra|]. intros i hi. pose proof (W0 i hi). cases; lra. }
    unfold excess. rewrite p. assert (0 < down (top 0)); [|lra]. unfold top. rewrite p.
    apply total_pos with 0%nat; [intros; cases; lra|lia|]. pose proof (W0 0%nat ltac:(lia)). pose proof (q0 0%nat ltac:(lia)).
    assert (0 <= (S0 - c) / 4 * q 0%nat) by (apply Rmult_le_pos; lra). cases; lra. }
  set (y := total k (fun i => W i / q i) + 2 / q 0%nat).
  assert (term : forall i, (i < k)%nat -> 0 <= W i / q i) by (intros i hi; left; apply Rdiv_lt_0_compat; auto).
  assert (two : 0 < 2 / q 0%nat) by (apply Rdiv_lt_0_compat; [lra|apply q0; lia]).
  assert (big : forall i, (i < k)%nat -> W i <= y * q i).
  { intros i hi. pose proof (total_term k _ i term hi). pose proof (q0 i hi).
    replace (W i) with (W i / q i * q i) by (field; lra). unfold y. nra. }
  assert (big0 : W 0%nat + 2 <= y * q 0%nat).
  { pose proof (total_term k _ 0%nat term ltac:(lia)). pose proof (q0 0%nat ltac:(lia)).
    replace (W 0%nat + 2) with ((W 0%nat / q 0%nat + 2 / q 0%nat) * q 0%nat) by (field; lra). unfold y. nra. }
  assert (p2 : 2 <= up y).
  { apply Rle_trans with (Rmax 0 (y * q 0%nat - W 0%nat)); [cases; lra|].
    apply (total_term k (fun i => Rmax 0 (y * q i - W i)) 0%nat); [intros; cases; lra|lia]. }
  assert (ym : down (top y) = 0).
  { unfold down, lowered. rewrite (total_ext k _ (fun _ => 0)), total_const; [lra|]. intros i hi. pose proof (big i hi). pose proof (q0 i hi).
    assert (y <= top y) by (unfold top; lra). cases; nra. }
  assert (hy : 0 < excess y) by (unfold excess; lra).
  assert (y0 : 0 < y) by (unfold y; pose proof (total_nonneg k _ term); lra).
  destruct (IVT excess 0 y excess_continuous y0 z hy) as (x & bx & hx).
  exists x. split; auto. destruct (Req_dec x 0) as [e|ne]; [rewrite e in hx; lra|lra].
Qed.

Section Root.
Variable x : R.
Hypothesis x0 : 0 < x.
Hypothesis hx : excess x = 0.

Lemma top_above : x <= top x.
Proof. pose proof (down_ge0 (top x)). unfold excess in hx. unfold top in *. lra. Qed.

Lemma best_sums : total k (best x) = 1 /\ total k (fun i => Rabs (best x i - W i)) = 2 * up x - S0.
Proof.
  pose proof top_above as t. unfold excess in hx. split.
  - rewrite (total_ext k _ (fun i => W i + (Rmax 0 (x * q i - W i) - Rmax 0 (W i - top x * q i)))).
    + rewrite total_plus, total_minus. fold (raised k W q x). fold (lowered k W q (top x)). fold (up x) (down (top x)). lra.
    + intros i hi. pose proof (q0 i hi). pose proof (W0 i hi). assert (x * q i <= top x * q i) by nra. unfold best. cases; lra.
  - rewrite (total_ext k _ (fun i => Rmax 0 (x * q i - W i) + Rmax 0 (W i - top x * q i))).
    + rewrite total_plus. fold (raised k W q x). fold (lowered k W q (top x)). fold (up x) (down (top x)). lra.
    + intros i hi. pose proof (q0 i hi). pose proof (W0 i hi). assert (x * q i <= top x * q i) by nra. unfold best. cases; lra.
Qed.

Lemma best_least w : total k w = 1 -> err (best x) + total k (fun i => 8 * (w i - best x i) ^ 2 / q i) <= err w.
Proof.
  intros w1. destruct best_sums as [b1 bd]. pose proof top_above as t.
  set (d := 2 * up x - S0 + c). assert (d4 : d = 4 * (top x - x)) by (unfold d, top; field).
  set (T := total k (fun i => Rabs (w i - W i))).
  assert (point : forall i, (i < k)%nat ->
    (8 * best x i ^ 2 / q i + 2 * d * Rabs (best x i - W i)) + (8 * (w i - best x i) ^ 2 / q i + 8 * (x + top x) * (w i - best x i))
    <= 8 * w i ^ 2 / q i + 2 * d * Rabs (w i - W i)).
  { intros i hi. pose proof (q0 i hi) as qi.
    assert (e : best x i / q i = Rmax x (Rmin (W i / q i) (top x))).
    { apply Rmult_eq_reg_r with (q i); [|lra]. replace (best x i / q i * q i) with (best x i) by (field; lra). unfold best.
      assert (f : W i = W i / q i * q i) by (field; lra). set (v := W i / q i) in *. rewrite f. cases; nra. }
    pose proof (one_owner x (top x) (W i / q i) (w i / q i) (best x i / q i) t e) as o.
    assert (ab : forall a, Rabs (a - W i) = q i * Rabs (a / q i - W i / q i)).
    { intros a. replace (a - W i) with (q i * (a / q i - W i / q i)) by (field; lra). rewrite Rabs_mult, (Rabs_right (q i)); lra. }
    rewrite !ab. set (m := w i / q i) in *. set (l := best x i / q i) in *.
    replace (w i) with (m * q i) by (unfold m; field; lra). replace (best x i) with (l * q i) by (unfold l; field; lra).
    replace (8 * (l * q i) ^ 2 / q i) with (q i * (8 * l ^ 2)) by (field; lra).
    replace (8 * (m * q i) ^ 2 / q i) with (q i * (8 * m ^ 2)) by (field; lra).
    replace (8 * (m * q i - l * q i) ^ 2 / q i) with (q i * (8 * (m - l) ^ 2)) by (field; lra).
    rewrite d4. apply (Rmult_le_compat_l (q i)) in o; lra. }
  pose proof (total_le k _ _ point) as all. rewrite !total_plus, !total_scal, total_minus, w1, b1, bd in all.
  fold T in all. unfold err. rewrite bd. fold T.
  assert (sq : d ^ 2 + 2 * d * (T + c - d) <= (T + c) ^ 2) by (pose proof (pow2_ge_0 (T + c - d)); lra).
  replace (2 * up x - S0) with (d - c) in * by (unfold d; ring). replace (d - c + c) with d by ring. lra.
Qed.

Lemma best_only w : total k w = 1 -> err w <= err (best x) -> forall i, (i < k)%nat -> w i = best x i.
Proof.
  intros w1 le. pose proof (best_least w w1) as h.
  assert (z : forall i, (i < k)%nat -> 0 = 8 * (w i - best x i) ^ 2 / q i).
  { apply (total_same k (fun _ => 0)).
    - intros i hi. apply Rmult_le_pos; [pose proof (pow2_ge_0 (w i - best x i)); lra|left; apply Rinv_0_lt_compat; auto].
    - rewrite total_const. lra. }
  intros i hi. specialize (z i hi). pose proof (q0 i hi).
  apply (Rmult_eq_compat_r (q i)) in z. replace (8 * (w i - best x i) ^ 2 / q i * q i) with (8 * (w i - best x i) ^ 2) in z by (field; lra).
  destruct (Req_dec (w i - best x i) 0) as [|ne]; [lra|]. pose proof (pow_nonzero _ 2 ne). lra.
Qed.

Lemma best_positive i : (i < k)%nat -> 0 < best x i.
Proof. intros hi. apply Rlt_le_trans with (x * q i); [apply Rmult_lt_0_compat; auto|apply Rmax_l]. Qed.
End Root.
End Both.

Lemma objective3_is k variance L x y : objective3 k variance L x y = 1 / 2 * (total k (fun i => variance i * x i ^ 2) + L ^ 2 * total k y ^ 2).
Proof.
  unfold objective3. f_equal. f_equal. rewrite (total_ext k (fun i => total k (fun j => L ^ 2 * y i * y j)) (fun i => (L ^ 2 * total k y) * y i)).
  - rewrite total_scal. ring.
  - intros i hi. rewrite (total_scal k (L ^ 2 * y i) y). ring.
Qed.

Theorem printed_problem : printed_problem_statement.
Proof.
  intros n k W variance L (kn & L0 & Wpos & Wsum & vpos). cbv zeta. set (q := precision variance L). set (S0 := idle_share k W).
  assert (L2 : 0 < L ^ 2) by (apply pow_lt; auto).
  assert (q0 : forall i, (i < k)%nat -> 0 < q i) by (intros i hi; apply Rdiv_lt_0_compat; [lra|apply vpos; auto]).
  assert (W0 : forall i, (i < k)%nat -> 0 < W i) by (intros; apply Wpos; lia).
  assert (W1 : total k W = 1 - S0) by (unfold S0, idle_share; ring).
  assert (S0rest : S0 = total (n - k) (fun j => W (k + j)%nat)) by (unfold S0, idle_share; rewrite <- Wsum, (total_split n k W) by lia; ring).
  assert (S0pos : 0 <= S0) by (rewrite S0rest; apply total_nonneg; intros; left; apply Wpos; lia).
  assert (vq : forall i, (i < k)%nat -> variance i = L ^ 2 * (8 / q i)).
  { intros i hi. unfold q, precision. pose proof (vpos i hi). field. split; lra. }
  assert (squares : forall w, total k (fun i => variance i * w i ^ 2) = L ^ 2 * total k (fun i => 8 * w i ^ 2 / q i)).
  { intros w. rewrite <- total_scal. apply total_ext. intros i hi. rewrite (vq i hi). pose proof (q0 i hi). field. lra. }
  (* the objectives *)
  assert (obj3 : forall w y, objective3 k variance L w y = L ^ 2 / 2 * (total k (fun i => 8 * w i ^ 2 / q i) + total k y ^ 2)).
  { intros w y. rewrite objective3_is, squares. field. }
  assert (obj1 : forall w, weights n k w -> error_bound n W variance L w = L ^ 2 * err k W q S0 w).
  { intros w (_ & _ & zero). unfold error_bound, err.
    rewrite (total_split n k (fun i => w i ^ 2 * variance i)), (total_split n k (fun i => Rabs (w i - W i) * L)) by lia.
    rewrite (total_ext (n - k) (fun j => w (k + j)%nat ^ 2 * variance (k + j)%nat) (fun _ => 0)), total_const
      by (intros j hj; rewrite zero by lia; ring).
    rewrite (total_ext (n - k) (fun j => Rabs (w (k + j)%nat - W (k + j)%nat) * L) (fun j => L * W (k + j)%nat)).
    - rewrite total_scal, <- S0rest.
      rewrite (total_ext k (fun i => w i ^ 2 * variance i) (fun i => variance i * w i ^ 2)) by (intros; ring). rewrite squares.
      rewrite (total_ext k (fun i => Rabs (w i - W i) * L) (fun i => L * Rabs (w i - W i))) by (intros; ring). rewrite total_scal. ring.
    - intros j hj. rewrite zero by lia. pose proof (Wpos (k + j)%nat ltac:(lia)). rewrite Rabs_left by lra. ring. }
  destruct (root_exists k W q S0 0 ltac:(lia) q0 W0 W1 ltac:(lra)) as (t3 & t30 & r3).
  destruct (root_exists k W q S0 S0 ltac:(lia) q0 W0 W1 ltac:(lra)) as (t1 & t10 & r1).
  set (b3 := best k W q S0 0 t3). set (b1 := best k W q S0 S0 t1). set (y3 := fun i => Rabs (b3 i - W i)).
  destruct (best_sums k W q S0 0 q0 W0 W1 ltac:(lra) t3 r3) as [s3 d3]. fold b3 in s3, d3.
  destruct (best_sums k W q S0 S0 q0 W0 W1 ltac:(lra) t1 r1) as [s1 d1]. fold b1 in s1, d1.
  assert (top3 : forall x, upper3 k W q x = top k W q S0 0 x) by (intros; unfold upper3, top, S0; field).
  assert (roots : forall x, root3 k W q x <-> 0 < x /\ excess k W q S0 0 x = 0).
  { intros x. unfold root3, excess. rewrite top3. reflexivity. }
  (* y is at least the sum of differences *)
  assert (above : forall w y, constraints3 k W w y -> (forall i, (i < k)%nat -> Rabs (w i - W i) <= y i) /\
    L ^ 2 / 2 * err k W q 0 w <= objective3 k variance L w y /\
    (objective3 k variance L w y <= L ^ 2 / 2 * err k W q 0 w -> forall i, (i < k)%nat -> Rabs (w i - W i) = y i)).
  { intros w y (_ & bounds). assert (each : forall i, (i < k)%nat -> Rabs (w i - W i) <= y i).
    { intros i hi. destruct (bounds i hi). apply Rabs_le. lra. }
    split; auto. rewrite obj3. unfold err. rewrite Rplus_0_r. set (T := total k (fun i => Rabs (w i - W i))).
    assert (T0 : 0 <= T) by (apply total_nonneg; intros; apply Rabs_pos).
    assert (le : T <= total k y) by (apply total_le; auto). assert (sq : T ^ 2 <= total k y ^ 2) by (apply pow_incr; lra).
    split.
    - apply Rmult_le_compat_l; lra.
    - intros back. assert (total k y ^ 2 <= T ^ 2) by (apply Rmult_le_reg_l with (L ^ 2 / 2); lra).
      apply total_same; auto. fold T. nra. }
  assert (admissible3 : constraints3 k W b3 y3).
  { split; auto. intros i hi. unfold y3. split; [apply Rle_abs|]. rewrite <- Rabs_Ropp. apply Rle_abs. }
  assert (value3 : objective3 k variance L b3 y3 = L ^ 2 / 2 * err k W q 0 b3) by (rewrite obj3; unfold err, y3; rewrite Rplus_0_r; reflexivity).
  assert (half : 0 < L ^ 2 / 2) by lra.
  assert (least3 : forall w, total k w = 1 -> err k W q 0 b3 <= err k W q 0 w).
  { intros w w1. pose proof (best_least k W q S0 0 q0 W0 W1 ltac:(lra) t3 r3 w w1) as h. fold b3 in h.
    assert (0 <= total k (fun i => 8 * (w i - b3 i) ^ 2 / q i)); [|lra]. apply total_nonneg. intros i hi.
    apply Rmult_le_pos; [pose proof (pow2_ge_0 (w i - b3 i)); lra|left; apply Rinv_0_lt_compat; auto]. }
  assert (least1 : forall w, total k w = 1 -> err k W q S0 b1 <= err k W q S0 w).
  { intros w w1. pose proof (best_least k W q S0 S0 q0 W0 W1 ltac:(lra) t1 r1 w w1) as h. fold b1 in h.
    assert (0 <= total k (fun i => 8 * (w i - b1 i) ^ 2 / q i)); [|lra]. apply total_nonneg. intros i hi.
    apply Rmult_le_pos; [pose proof (pow2_ge_0 (w i - b1 i)); lra|left; apply Rinv_0_lt_compat; auto]. }
  exists b3, y3, t3. split; [|split; [|split; [|split; [|split]]]].
  - split; auto. intros x' y' adm. destruct (above x' y' adm) as (_ & low & _). rewrite value3.
    eapply Rle_trans; [|exact low]. apply Rmult_le_compat_l; [lra|]. apply least3. apply adm.
  - intros x' y' (adm & best'). destruct (above x' y' adm) as (_ & low & same).
    pose proof (best' b3 y3 admissible3) as le. rewrite value3 in le.
    pose proof (least3 x' (proj1 adm)) as l3.
    assert (err k W q 0 x' <= err k W q 0 b3) by (apply Rmult_le_reg_l with (L ^ 2 / 2); lra).
    pose proof (best_only k W q S0 0 q0 W0 W1 ltac:(lra) t3 r3 x' (proj1 adm) H) as eq. fold b3 in eq.
    assert (ey : forall i, (i < k)%nat -> Rabs (x' i - W i) = y' i).
    { apply same. eapply Rle_trans; [exact le|]. apply Rmult_le_compat_l; lra. }
    intros i hi. split; [apply eq; auto|]. rewrite <- (ey i hi), (eq i hi). reflexivity.
  - apply roots. auto.
  - intros other h. apply roots in h. destruct h as [o0 ro]. destruct (Rtotal_order other t3) as [lt|[e|gt]]; auto; exfalso.
    + apply (one_root k W q S0 0 ltac:(lia) q0 ltac:(lra) other t3); auto.
    + apply (one_root k W q S0 0 ltac:(lia) q0 ltac:(lra) t3 other); auto.
  - intros i hi. rewrite top3. reflexivity.
  - (* Problem 1 *)
    assert (fill : forall w, total k w = 1 -> (forall i, (i < k)%nat -> 0 <= w i) -> weights n k (filled k w)).
    { intros w w1 wp. split; [|split].
      - intros i hi. unfold filled. destruct (Nat.ltb_spec i k); [apply wp; auto|lra].
      - rewrite (total_split n k) by lia. rewrite (total_ext k _ w), (total_ext (n - k) _ (fun _ => 0)), total_const; [lra| |].
        + intros j hj. unfold filled. destruct (Nat.ltb_spec (k + j) k); [lia|reflexivity].
        + intros i hi. unfold filled. destruct (Nat.ltb_spec i k); [reflexivity|lia].
      - intros i hi. unfold filled. destruct (Nat.ltb_spec i k); [lia|reflexivity]. }
    assert (same_err : forall c w, err k W q c (filled k w) = err k W q c w).
    { intros c w. assert (e : forall i, (i < k)%nat -> filled k w i = w i) by (intros i hi; unfold filled; destruct (Nat.ltb_spec i k); [reflexivity|lia]).
      unfold err. f_equal; [apply total_ext; intros i hi; rewrite e by auto; reflexivity|].
      f_equal. f_equal. apply total_ext. intros i hi. rewrite e by auto. reflexivity. }
    assert (w3 : weights n k (filled k b3)) by (apply fill; auto; intros; left; apply best_positive; auto).
    assert (wb1 : weights n k (filled k b1)) by (apply fill; auto; intros; left; apply best_positive; auto).
    assert (ksum : forall w, weights n k w -> total k w = 1).
    { intros w (_ & w1 & zero). rewrite (total_split n k) in w1 by lia. rewrite (total_ext (n - k) _ (fun _ => 0)), total_const in w1; [lra|].
      intros j hj. apply zero. lia. }
    assert (iff : solves1 n k W variance L (filled k b3) <-> forall i, (i < k)%nat -> b3 i = b1 i).
    { split.
      - intros (_ & least). specialize (least (filled k b1) wb1). rewrite !obj1, !same_err in least by auto.
        apply (best_only k W q S0 S0 q0 W0 W1 ltac:(lra) t1 r1 b3 s3). fold b1. apply Rmult_le_reg_l with (L ^ 2); lra.
      - intros e. split; auto. intros w hw. rewrite !obj1, same_err by auto. apply Rmult_le_compat_l; [lra|].
        replace (err k W q S0 b3) with (err k W q S0 b1); [apply least1; apply ksum; auto|].
        unfold err. f_equal; [apply total_ext; intros i hi; rewrite e by auto; reflexivity|].
        f_equal. f_equal. apply total_ext. intros i hi. rewrite e by auto. reflexivity. }
    rewrite iff. clear iff.
    pose proof (top_above k W q S0 0 ltac:(lra) t3 r3) as ta3. pose proof (top_above k W q S0 S0 ltac:(lra) t1 r1) as ta1.
    split.
    + intros e. destruct (Req_dec S0 0) as [z|nz].
      { left. destruct (Nat.eq_dec k n) as [|ne]; auto. exfalso. rewrite S0rest in z.
        assert (0 < total (n - k) (fun j => W (k + j)%nat)); [|lra].
        apply total_pos with 0%nat; [intros; left; apply Wpos; lia|lia|apply Wpos; lia]. }
      right. intros j hj. apply Rnot_lt_le. intros lowj.
      (* somebody is above her share *)
      assert (raise : S0 <= raised k W q t3).
      { pose proof (down_ge0 k W q (top k W q S0 0 t3)). unfold excess in r3. lra. }
      assert (some : exists i, (i < k)%nat /\ W i < t3 * q i).
      { destruct (total_some k (fun i => Rmax 0 (t3 * q i - W i)) ltac:(unfold raised in raise; lra)) as (i & hi & p).
        exists i. split; [exact hi|]. revert p. cases; lra. }
      destruct some as (i & hi & above_i). pose proof (q0 i hi) as qi.
      pose proof (e i hi) as ei. unfold b3, b1, best in ei.
      assert (t3 = t1).
      { assert (left3 : Rmax (t3 * q i) (Rmin (W i) (top k W q S0 0 t3 * q i)) = t3 * q i).
        { apply Rmax_left. eapply Rle_trans; [apply Rmin_l|lra]. }
        rewrite left3 in ei. assert (t1 * q i = t3 * q i); [|apply Rmult_eq_reg_r with (q i); lra].
        revert ei. cases; lra. }
      subst t1. pose proof (q0 j hj) as qj. pose proof (e j hj) as ej. unfold b3, b1, best in ej, lowj.
      assert (gap : top k W q S0 S0 t3 = top k W q S0 0 t3 + S0 / 4) by (unfold top; field).
      assert (t3 * q j <= top k W q S0 0 t3 * q j) by (apply Rmult_le_compat_r; lra).
      assert (top k W q S0 0 t3 * q j < top k W q S0 S0 t3 * q j) by (apply Rmult_lt_compat_r; lra).
      revert ej lowj. cases; lra.
    + intros h.
      assert (same_root : excess k W q S0 S0 t3 = 0).
      { destruct h as [e|noone].
        - assert (S0 = 0) by (rewrite S0rest, e, Nat.sub_diag; reflexivity). rewrite H in *. exact r3.
        - assert (d30 : lowered k W q (top k W q S0 0 t3) = 0).
          { unfold lowered. rewrite (total_ext k _ (fun _ => 0)), total_const; [lra|]. intros i hi. specialize (noone i hi). unfold b3, best in noone.
            pose proof (q0 i hi). assert (t3 * q i <= top k W q S0 0 t3 * q i) by (apply Rmult_le_compat_r; lra).
            revert noone. cases; intros; lra. }
          assert (d10 : lowered k W q (top k W q S0 S0 t3) = 0).
          { pose proof (down_ge0 k W q (top k W q S0 S0 t3)).
            assert (lowered k W q (top k W q S0 S0 t3) <= lowered k W q (top k W q S0 0 t3)) by (apply down_mono; auto; unfold top; lra). lra. }
          unfold excess in *. lra. }
      assert (tt : t3 = t1).
      { destruct (Rtotal_order t3 t1) as [lt|[e|gt]]; auto; exfalso.
        - apply (one_root k W q S0 S0 ltac:(lia) q0 ltac:(lra) t3 t1); auto.
        - apply (one_root k W q S0 S0 ltac:(lia) q0 ltac:(lra) t1 t3); auto. }
      intros i hi. unfold b3, b1. rewrite <- tt. destruct h as [e|noone].
      * assert (S0 = 0) by (rewrite S0rest, e, Nat.sub_diag; reflexivity). rewrite H. reflexivity.
      * specialize (noone i hi). unfold b3, best in noone |- *. pose proof (q0 i hi).
        assert (t3 * q i <= top k W q S0 0 t3 * q i) by (apply Rmult_le_compat_r; lra).
        assert (top k W q S0 0 t3 * q i <= top k W q S0 S0 t3 * q i) by (apply Rmult_le_compat_r; [lra|unfold top; lra]).
        revert noone. cases; intros; lra.
Qed.

(* The market of flm_prop1.v meets the hypotheses *)
Example three_owners : market 3 2 (three (3 / 10) (3 / 10) (4 / 10)) (three 1 100 1) 1.
Proof.
  split; [lia|]. split; [lra|]. split; [|split; [simpl; lra|]].
  - intros [|[|[|i]]] h; simpl; try lra; lia.
  - intros [|[|i]] h; simpl; try lra; lia.
Qed.

Print Assumptions printed_problem.
