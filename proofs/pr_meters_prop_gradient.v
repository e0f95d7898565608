(** pr-meters-prop-gradient: clipped gradients.  Bears on what the meters of page privacy/meters say of an owner.
    Beside the prose: the loss at a release is the logarithm of the ratio of the two densities; "against the worst gradient
    the loss is" is stated as: at most this at every release against every clipped gradient, and this at one against one.
    The density of a release is that of fl_learning_thm_release.v.  A gradient has at least one entry. *)
Require Import Reals Lra Lia.
Require Import totals noise_laws fl_learning_thm_release.
Open Scope R_scope.

(* What has to be read *)

(* The sum of the sizes of the D entries *)
Definition sizes (D : nat) (g : nat -> R) : R := total D (fun k => Rabs (g k)).

(* The loss at the release x of the gradient g against g' *)
Definition loss_at (D : nat) (L epsilon : R) (g g' x : nat -> R) : R := ln (release D L epsilon g x / release D L epsilon g' x).

(* worst is the largest loss at any release against any clipped gradient, and attained *)
Definition worst_loss (D : nat) (L epsilon : R) (g : nat -> R) (worst : R) : Prop :=
  (forall g' x, clipped D L g' -> loss_at D L epsilon g g' x <= worst) /\
  exists g' x, clipped D L g' /\ loss_at D L epsilon g g' x = worst.

(* It is epsilon (sizes + L) / (2 L): all of epsilon if the gradient was clipped, and half of it if it is 0 *)
Definition clipped_gradients_statement : Prop :=
  forall D L epsilon g, (1 <= D)%nat -> 0 < L -> 0 < epsilon -> clipped D L g ->
  worst_loss D L epsilon g (epsilon * (sizes D g + L) / (2 * L)) /\
  (sizes D g = L -> worst_loss D L epsilon g epsilon) /\
  ((forall k, (k < D)%nat -> g k = 0) -> worst_loss D L epsilon g (epsilon / 2)).

(* The proofs, which need not be read *)

Lemma worst D L epsilon g : (1 <= D)%nat -> 0 < L -> 0 < epsilon -> clipped D L g ->
  worst_loss D L epsilon g (epsilon * (sizes D g + L) / (2 * L)).
Proof.
  intros D1 L0 e0 cg. assert (s : 0 < epsilon / (2 * L)) by (apply Rdiv_lt_0_compat; lra). split.
  - intros g' x cg'. unfold loss_at. rewrite log_ratio by auto.
    apply Rle_trans with (total D (fun k => epsilon / (2 * L) * (Rabs (g k) + Rabs (g' k)))).
    + apply total_le. intros k _. rewrite (Rmult_comm _ (epsilon / (2 * L))). apply Rmult_le_compat_l; [lra|].
      pose proof (Rabs_triang (x k - g k) (g k - g' k)) as t. replace (x k - g k + (g k - g' k)) with (x k - g' k) in t by ring.
      pose proof (Rabs_triang (g k) (- g' k)) as t'. rewrite Rabs_Ropp in t'. unfold Rminus in *. lra.
    + rewrite total_scal, total_plus. unfold clipped in *. fold (sizes D g).
      replace (epsilon * (sizes D g + L) / (2 * L)) with (epsilon / (2 * L) * (sizes D g + L)) by (field; lra).
      apply Rmult_le_compat_l; lra.
  - assert (sg : 0 <= sizes D g) by (apply total_nonneg; intros; apply Rabs_pos).
    destruct (Req_dec (sizes D g) 0) as [z|nz].
    + (* g = 0: any gradient of length L *)
      assert (g0 : forall k, (k < D)%nat -> g k = 0).
      { intros k hk. pose proof (total_term D (fun k => Rabs (g k)) k ltac:(intros; apply Rabs_pos) hk) as t. fold (sizes D g) in t. cbv beta in t.
        pose proof (Rabs_pos (g k)). destruct (Req_dec (g k) 0) as [|ne]; auto. pose proof (Rabs_pos_lt _ ne). lra. }
      assert (first : forall f, total D (fun k => if Nat.eqb k 0 then f else 0) = f).
      { intros f. destruct D as [|D']; [lia|]. clear -D1. induction D' as [|D' IH]; [simpl; ring|].
        change (total (S D') (fun k => if Nat.eqb k 0 then f else 0) + (if Nat.eqb (S D') 0 then f else 0) = f). rewrite IH by lia. simpl. ring. }
      exists (fun k => if Nat.eqb k 0 then L else 0), g. split.
      * unfold clipped. rewrite (total_ext D _ (fun k => if Nat.eqb k 0 then L else 0)); [rewrite first; lra|].
        intros k _. destruct (Nat.eqb k 0); [apply Rabs_right; lra|apply Rabs_R0].
      * unfold loss_at. rewrite log_ratio, z by auto.
        rewrite (total_ext D _ (fun k => if Nat.eqb k 0 then epsilon / 2 else 0)); [rewrite first; field; lra|].
        intros k hk. rewrite (g0 k hk). destruct (Nat.eqb k 0).
        -- rewrite (Rabs_left (0 - L)), Rabs_right by lra. field. lra.
        -- ring.
    + exists (fun k => - (L / sizes D g) * g k), g. assert (r : 0 < L / sizes D g) by (apply Rdiv_lt_0_compat; lra). split.
      * unfold clipped. rewrite (total_ext D _ (fun k => L / sizes D g * Rabs (g k))).
        -- rewrite total_scal. fold (sizes D g). right. field. lra.
        -- intros k _. rewrite Rabs_mult, Rabs_left by lra. ring.
      * unfold loss_at. rewrite log_ratio by auto.
        rewrite (total_ext D _ (fun k => epsilon / (2 * L) * (1 + L / sizes D g) * Rabs (g k))).
        -- rewrite total_scal. fold (sizes D g). field. lra.
        -- intros k _. replace (g k - - (L / sizes D g) * g k) with ((1 + L / sizes D g) * g k) by ring.
           rewrite Rminus_eq_0, Rabs_R0, Rabs_mult, (Rabs_right (1 + L / sizes D g)) by lra. ring.
Qed.

Theorem clipped_gradients : clipped_gradients_statement.
Proof.
  intros D L epsilon g D1 L0 e0 cg. pose proof (worst D L epsilon g D1 L0 e0 cg) as w. split; [exact w|]. split.
  - intros e. rewrite e in w. replace (epsilon * (L + L) / (2 * L)) with epsilon in w by (field; lra). exact w.
  - intros z. assert (s : sizes D g = 0).
    { unfold sizes. rewrite (total_ext D _ (fun _ => 0)), total_const; [lra|]. intros k hk. rewrite (z k hk). apply Rabs_R0. }
    rewrite s in w. replace (epsilon * (0 + L) / (2 * L)) with (epsilon / 2) in w by (field; lra). exact w.
Qed.

(* The gradient of fl_learning_thm_release.v *)
Example two_entries : clipped 2 1 (fun k => if Nat.eqb k 0 then 1 / 2 else - (1 / 2)).
Proof. exact a_clipped_gradient. Qed.

Print Assumptions clipped_gradients.
