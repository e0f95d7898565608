(** Sums over the owners (sellers, records) 0, 1, ..., n - 1, and what the proofs need of them. *)
Require Import Reals Lra Lia.
Open Scope R_scope.

(* What has to be read *)

(* The sum of f i over i = 0, 1, ..., n - 1 *)
Fixpoint total (n : nat) (f : nat -> R) : R :=
  match n with
  | O => 0
  | S k => total k f + f k
  end.

(* The proofs, which need not be read *)

Lemma total_ext n f g : (forall i, (i < n)%nat -> f i = g i) -> total n f = total n g.
Proof.
  induction n as [|n IH]; intros h; simpl; [reflexivity|].
  rewrite IH by (intros; apply h; lia). rewrite h by lia. reflexivity.
Qed.

Lemma total_plus n f g : total n (fun i => f i + g i) = total n f + total n g.
Proof. induction n as [|n IH]; simpl; [lra|]. rewrite IH. lra. Qed.

Lemma total_minus n f g : total n (fun i => f i - g i) = total n f - total n g.
Proof. induction n as [|n IH]; simpl; [lra|]. rewrite IH. lra. Qed.

Lemma total_scal n s f : total n (fun i => s * f i) = s * total n f.
Proof. induction n as [|n IH]; simpl; [lra|]. rewrite IH. lra. Qed.

Lemma total_div n s f : total n (fun i => f i / s) = total n f / s.
Proof. induction n as [|n IH]; simpl; [unfold Rdiv; lra|]. rewrite IH. unfold Rdiv. lra. Qed.

Lemma total_const n s : total n (fun _ => s) = INR n * s.
Proof. induction n as [|n IH]; [simpl; lra|]. cbn [total]. rewrite IH, S_INR. lra. Qed.

Lemma total_le n f g : (forall i, (i < n)%nat -> f i <= g i) -> total n f <= total n g.
Proof.
  induction n as [|n IH]; intros h; simpl; [lra|].
  pose proof (h n ltac:(lia)). assert (total n f <= total n g) by (apply IH; intros; apply h; lia). lra.
Qed.

Lemma total_nonneg n f : (forall i, (i < n)%nat -> 0 <= f i) -> 0 <= total n f.
Proof.
  intros h. replace 0 with (total n (fun _ => 0)) by (rewrite total_const; lra). apply total_le; auto.
Qed.

Lemma total_lt n f g k : (forall i, (i < n)%nat -> f i <= g i) -> (k < n)%nat -> f k < g k -> total n f < total n g.
Proof.
  induction n as [|n IH]; intros h kn lt; simpl; [lia|].
  pose proof (h n ltac:(lia)).
  destruct (Nat.eq_dec k n) as [->|ne].
  - assert (total n f <= total n g) by (apply total_le; intros; apply h; lia). lra.
  - assert (total n f < total n g) by (apply IH; [intros; apply h; lia|lia|auto]). lra.
Qed.

Lemma total_pos n f k : (forall i, (i < n)%nat -> 0 <= f i) -> (k < n)%nat -> 0 < f k -> 0 < total n f.
Proof.
  intros h kn lt. replace 0 with (total n (fun _ => 0)) by (rewrite total_const; lra).
  apply total_lt with k; auto.
Qed.

(* Where one sum is below another term by term, and the sums are equal, so are the terms *)
Lemma total_same n f g : (forall i, (i < n)%nat -> f i <= g i) -> total n g <= total n f ->
  forall i, (i < n)%nat -> f i = g i.
Proof.
  intros h e i hi. destruct (Req_dec (f i) (g i)) as [|ne]; auto.
  pose proof (h i hi). pose proof (total_lt n f g i h hi ltac:(lra)). lra.
Qed.

Lemma total_term n f k : (forall i, (i < n)%nat -> 0 <= f i) -> (k < n)%nat -> f k <= total n f.
Proof.
  induction n as [|n IH]; intros h kn; simpl; [lia|].
  assert (0 <= total n f) by (apply total_nonneg; intros; apply h; lia).
  destruct (Nat.eq_dec k n) as [->|ne]; [lra|].
  assert (f k <= total n f) by (apply IH; [intros; apply h; lia|lia]).
  pose proof (h n ltac:(lia)). lra.
Qed.

Lemma total_zero n : total n (fun _ => 0) = 0.
Proof. rewrite total_const. lra. Qed.

(* Where all terms but one are not above others, so is the sum without that one *)
Lemma total_change n f g i : (i < n)%nat ->
  (forall k, (k < n)%nat -> k <> i -> f k <= g k) -> total n f - f i <= total n g - g i.
Proof.
  induction n as [|n IH]; intros hi h; [lia|]. simpl. destruct (Nat.eq_dec i n) as [->|ne].
  - assert (total n f <= total n g) by (apply total_le; intros; apply h; lia). lra.
  - assert (total n f - f i <= total n g - g i) by (apply IH; [lia|intros; apply h; lia]).
    specialize (h n ltac:(lia) ltac:(lia)). lra.
Qed.

(* Where all terms but one are those of others, the sums differ by what that one does *)
Lemma total_one n i f g : (i < n)%nat -> (forall k, (k < n)%nat -> k <> i -> f k = g k) ->
  total n f - total n g = f i - g i.
Proof.
  intros hi same.
  pose proof (total_change n f g i hi (fun k hk ne => Req_le _ _ (same k hk ne))).
  pose proof (total_change n g f i hi (fun k hk ne => Req_le _ _ (eq_sym (same k hk ne)))). lra.
Qed.

Lemma total_with n i a f : (i < n)%nat -> total n (fun k => if Nat.eqb k i then a else f k) = total n f - f i + a.
Proof.
  intros hi. pose proof (total_one n i (fun k => if Nat.eqb k i then a else f k) f hi) as e.
  cbv beta in e. rewrite Nat.eqb_refl in e.
  assert (total n (fun k => if Nat.eqb k i then a else f k) - total n f = a - f i); [|lra].
  apply e. intros k _ ne. rewrite (proj2 (Nat.eqb_neq k i) ne). reflexivity.
Qed.

(* The first k terms, and those that are left *)
Lemma total_split n k f : (k <= n)%nat -> total n f = total k f + total (n - k) (fun j => f (k + j)%nat).
Proof.
  induction n as [|n IH]; intros h; [replace k with 0%nat by lia; simpl; lra|].
  destruct (Nat.eq_dec k (S n)) as [->|ne]; [rewrite Nat.sub_diag; simpl; lra|].
  replace (S n - k)%nat with (S (n - k)) by lia. simpl. rewrite IH by lia.
  replace (k + (n - k))%nat with n by lia. lra.
Qed.

(* Where a sum is positive, so is one of its terms *)
Lemma total_some n f : 0 < total n f -> exists i, (i < n)%nat /\ 0 < f i.
Proof.
  induction n as [|n IH]; simpl; intros p; [lra|].
  destruct (Rlt_dec 0 (f n)) as [h|h]; [exists n; split; [lia|exact h]|].
  destruct IH as (i & hi & h'); [lra|]. exists i. split; [lia|exact h'].
Qed.

Lemma total_continuous n (f : nat -> R -> R) x : (forall k, (k < n)%nat -> continuity_pt (f k) x) ->
  continuity_pt (fun y => total n (fun k => f k y)) x.
Proof.
  induction n as [|n IH]; intros h; simpl.
  - apply continuity_pt_const. intros ? ?. reflexivity.
  - apply continuity_pt_plus; [apply IH; intros; apply h; lia|apply h; lia].
Qed.
