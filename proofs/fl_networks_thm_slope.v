(** fl-networks-thm-slope: dav is a slope.  Bears on the claim flm-dav (what it measures), page federated/networks.
    Beside the prose: the derivative of the outcome by the network's output is measured by the sum of the sizes of all
    partial derivatives; the mean over bids is any mean that keeps factors.  Definitions are in
    fl_networks_thm_dav.v. *)
Require Import Reals Lra Lia.
Require Import totals fl_networks_thm_dav.
Open Scope R_scope.

(* What has to be read *)

(* z with x in place of entry k *)
Definition with_entry (z : nat -> R) (k : nat) (x : R) : nat -> R := fun j => if Nat.eqb j k then x else z j.

(* slope m k is the partial derivative of entry m of the softmax of z / tau by entry k of z *)
Definition partial_derivatives (M : nat) (tau : R) (z : nat -> R) (slope : nat -> nat -> R) : Prop :=
  forall m k, (m <= M)%nat -> (k <= M)%nat ->
  derivable_pt_lim (fun x => softmax M tau (with_entry z k x) m) (z k) (slope m k).

(* The sizes of all partial derivatives together *)
Definition sensitivity (M : nat) (slope : nat -> nat -> R) : R :=
  total (S M) (fun m => total (S M) (fun k => Rabs (slope m k))).

(* All partial derivatives exist, and their sizes sum to 2 / tau times 1 less the sum of squares *)
Definition softmax_slopes_statement : Prop :=
  forall M tau z, 0 < tau ->
  (exists slope, partial_derivatives M tau z slope) /\
  forall slope, partial_derivatives M tau z slope ->
    sensitivity M slope = 2 / tau * (1 - squares M (softmax M tau z)).

(* So dav is tau / 2 times the mean of these sizes *)
Definition dav_is_a_slope_statement : Prop :=
  forall (Bids : Type) (mean : (Bids -> R) -> R) M tau (network : Bids -> nat -> R) (slope : Bids -> nat -> nat -> R),
  (forall f g, (forall b, f b = g b) -> mean f = mean g) -> (forall f c, mean (fun b => c * f b) = c * mean f) ->
  0 < tau -> (forall b, partial_derivatives M tau (allocation M network b) (slope b)) ->
  dav mean M tau network = tau / 2 * mean (fun b => sensitivity M (slope b)).

(* The proofs, which need not be read *)

Section Slope.
Variables (M : nat) (tau : R) (z : nat -> R).
Hypothesis tau0 : 0 < tau.
Let p := softmax M tau z.
Let A := total (S M) (fun k => exp (z k / tau)).

Lemma A_positive : 0 < A.
Proof. apply total_pos with 0%nat; [intros; left; apply exp_pos|lia|apply exp_pos]. Qed.

Lemma others k x : (k <= M)%nat ->
  total (S M) (fun j => exp (with_entry z k x j / tau)) = (A - exp (z k / tau)) + exp (x / tau).
Proof.
  intros hk. rewrite (total_ext (S M) _ (fun j => if Nat.eqb j k then exp (x / tau) else exp (z j / tau))).
  - rewrite total_with by lia. fold A. ring.
  - intros j _. unfold with_entry. destruct (Nat.eqb j k); reflexivity.
Qed.

Lemma exp_slope x : derivable_pt_lim (fun y => exp (y / tau)) x (exp (x / tau) / tau).
Proof.
  replace (exp (x / tau) / tau) with (exp (x / tau) * (1 / tau)) by (field; lra).
  apply (derivable_pt_lim_comp (fun y => y / tau) exp); [|apply derivable_pt_lim_exp].
  unfold Rdiv. replace (1 * / tau) with (1 * / tau + x * 0) by ring.
  apply (derivable_pt_lim_mult id (fun _ => / tau)); [apply derivable_pt_lim_id|apply derivable_pt_lim_const].
Qed.

Lemma slopes : partial_derivatives M tau z (fun m k => p m * ((if Nat.eqb m k then 1 else 0) - p k) / tau).
Proof.
  intros m k hm hk. pose proof A_positive as A0. set (B := A - exp (z k / tau)).
  set (num := fun x => if Nat.eqb m k then exp (x / tau) else exp (z m / tau)).
  set (den := fun x => B + exp (x / tau)).
  assert (den0 : den (z k) = A) by (unfold den, B; ring).
  assert (dn : derivable_pt_lim num (z k) (if Nat.eqb m k then exp (z k / tau) / tau else 0)).
  { unfold num. destruct (Nat.eqb m k); [apply exp_slope|apply derivable_pt_lim_const]. }
  assert (dd : derivable_pt_lim den (z k) (exp (z k / tau) / tau)).
  { unfold den. replace (exp (z k / tau) / tau) with (0 + exp (z k / tau) / tau) by ring.
    apply (derivable_pt_lim_plus (fun _ => B)); [apply derivable_pt_lim_const|apply exp_slope]. }
  pose proof (derivable_pt_lim_div num den (z k) _ _ dn dd ltac:(rewrite den0; lra)) as d.
  assert (value : (num / den)%F = fun x => softmax M tau (with_entry z k x) m).
  { unfold div_fct, softmax, num, den, B. apply FunctionalExtensionality.functional_extensionality. intros x.
    rewrite others by auto. f_equal. unfold with_entry. destruct (Nat.eqb m k); reflexivity. }
  rewrite value in d. replace (p m * ((if Nat.eqb m k then 1 else 0) - p k) / tau) with
    (((if Nat.eqb m k then exp (z k / tau) / tau else 0) * den (z k) - exp (z k / tau) / tau * num (z k)) / Rsqr (den (z k))); auto.
  rewrite den0. unfold num, p, softmax. fold A. unfold Rsqr.
  destruct (Nat.eqb_spec m k) as [->|ne]; field; lra.
Qed.

Lemma p_simplex : simplex M p.
Proof. apply softmax_simplex. Qed.

Lemma sizes : sensitivity M (fun m k => p m * ((if Nat.eqb m k then 1 else 0) - p k) / tau) = 2 / tau * (1 - squares M p).
Proof.
  destruct p_simplex as [pos one]. unfold sensitivity.
  rewrite (total_ext _ _ (fun m => 2 / tau * (p m - p m ^ 2))).
  - rewrite total_scal, total_minus, one. reflexivity.
  - intros m hm. pose proof (pos m ltac:(lia)) as pm.
    assert (le1 : p m <= 1) by (apply (simplex_le1 M p m p_simplex); lia).
    rewrite (total_ext _ _ (fun k => p m / tau * p k + (if Nat.eqb k m then 1 * (p m / tau * (1 - 2 * p m)) else 0 * (p m / tau * (1 - 2 * p m))))).
    + rewrite total_plus, total_scal, one, (one_hot_total M m ltac:(lia) (fun v => v * (p m / tau * (1 - 2 * p m)))). field. lra.
    + intros k hk. pose proof (pos k ltac:(lia)) as pk. assert (t : 0 < / tau) by (apply Rinv_0_lt_compat; auto).
      rewrite (Nat.eqb_sym k m). destruct (Nat.eqb_spec m k) as [<-|ne].
      * rewrite Rabs_right; [field; lra|]. apply Rle_ge. unfold Rdiv. apply Rmult_le_pos; [apply Rmult_le_pos; lra|lra].
      * rewrite Rabs_left1; [field; lra|]. unfold Rdiv.
        assert (0 <= p m * p k * / tau) by (apply Rmult_le_pos; [apply Rmult_le_pos; auto|lra]). lra.
Qed.
End Slope.

Theorem softmax_slopes : softmax_slopes_statement.
Proof.
  intros M tau z t. split; [eexists; apply slopes; auto|]. intros slope h.
  rewrite <- (sizes M tau z t). unfold sensitivity. apply total_ext. intros m hm. apply total_ext. intros k hk. f_equal.
  apply (uniqueness_limite (fun x => softmax M tau (with_entry z k x) m) (z k)); [apply h; lia|apply slopes; auto; lia].
Qed.

Theorem dav_is_a_slope : dav_is_a_slope_statement.
Proof.
  intros Bids mean M tau network slope ext scal t h. rewrite <- scal. unfold dav. apply ext. intros b.
  destruct (softmax_slopes M tau (allocation M network b) t) as [_ s]. rewrite (s (slope b) (h b)).
  rewrite distance_is by apply softmax_simplex. pose proof (pos_INR M). field. lra.
Qed.

(* For tau = 1 and two outcomes *)
Example two_entries : exists slope, partial_derivatives 1%nat 1 (fun _ => 0) slope.
Proof. apply (softmax_slopes 1%nat 1 (fun _ => 0)). lra. Qed.

Print Assumptions softmax_slopes. Print Assumptions dav_is_a_slope.
