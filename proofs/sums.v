(* Sums of n numbers, and what is true of them. *)
Require Import Reals Lra Psatz.
Open Scope R_scope.

(* What has to be read *)

(* f 0 + f 1 + ... + f (n - 1) *)
Fixpoint sum (n : nat) (f : nat -> R) : R :=
  match n with
  | O => 0
  | S m => sum m f + f m
  end.

(* The proofs, which need not be read *)

Lemma sum_le n f g : (forall i, (i < n)%nat -> f i <= g i) -> sum n f <= sum n g.
Proof.
  induction n as [|n IH]; intros H; simpl; [lra|].
  assert (sum n f <= sum n g) by (apply IH; intros; apply H; lia).
  specialize (H n ltac:(lia)). lra.
Qed.

Lemma sum_eq n f g : (forall i, (i < n)%nat -> f i = g i) -> sum n f = sum n g.
Proof.
  induction n as [|n IH]; intros H; simpl; [lra|].
  rewrite IH by (intros; apply H; lia). rewrite (H n) by lia. lra.
Qed.

Lemma sum_plus n f g : sum n (fun i => f i + g i) = sum n f + sum n g.
Proof. induction n as [|n IH]; simpl; [lra|]. rewrite IH. lra. Qed.

Lemma sum_scale n c f : sum n (fun i => c * f i) = c * sum n f.
Proof. induction n as [|n IH]; simpl; [lra|]. rewrite IH. lra. Qed.

Lemma sum_zero n : sum n (fun _ => 0) = 0.
Proof. induction n as [|n IH]; simpl; [lra|]. rewrite IH. lra. Qed.

Lemma sum_pos n f : (forall i, (i < n)%nat -> 0 <= f i) -> 0 <= sum n f.
Proof. intros H. rewrite <- (sum_zero n). apply sum_le; auto. Qed.

(* No summand is above a sum of numbers that are not negative *)
Lemma sum_one n f i : (forall k, (k < n)%nat -> 0 <= f k) -> (i < n)%nat -> f i <= sum n f.
Proof.
  induction n as [|n IH]; intros H hi; [lia|]. simpl.
  assert (0 <= sum n f) by (apply sum_pos; intros; apply H; lia).
  pose proof (H n ltac:(lia)). destruct (Nat.eq_dec i n) as [->|]; [lra|].
  assert (f i <= sum n f) by (apply IH; [intros; apply H; lia|lia]). lra.
Qed.

(* Summands that are not above others, with a sum that is not below, are equal *)
Lemma sum_tight n f g : (forall i, (i < n)%nat -> f i <= g i) -> sum n g <= sum n f ->
  forall i, (i < n)%nat -> f i = g i.
Proof.
  intros H e i hi.
  assert (gap : g i - f i <= sum n (fun i => g i + -1 * f i)).
  { replace (g i - f i) with (g i + -1 * f i) by lra.
    apply (sum_one n (fun i => g i + -1 * f i)); auto.
    intros k hk. specialize (H k hk). lra. }
  rewrite sum_plus, sum_scale in gap. specialize (H i hi). lra.
Qed.

(* The same, where summand i may be anything *)
Lemma sum_change n f g i : (i < n)%nat ->
  (forall k, (k < n)%nat -> k <> i -> f k <= g k) -> sum n f - f i <= sum n g - g i.
Proof.
  induction n as [|n IH]; intros hi H; [lia|]. simpl. destruct (Nat.eq_dec i n) as [->|ne].
  - assert (sum n f <= sum n g) by (apply sum_le; intros; apply H; lia). lra.
  - assert (sum n f - f i <= sum n g - g i) by (apply IH; [lia|intros; apply H; lia]).
    specialize (H n ltac:(lia) ltac:(lia)). lra.
Qed.
