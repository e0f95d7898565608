(** fl-learning-thm-release: the loss of a release of a clipped gradient.  Bears on the claim flm-record-level,
    page federated/learning.
    Beside the prose: a model is any function from data sets to gradients of D entries whose sizes sum to at most L; a
    data set is a list of records of any kind.  The page's proof has a stronger example, a softmax model. *)
Require Import Reals Lra Lia List.
Require Import totals noise_laws.
Import ListNotations.
Open Scope R_scope.

(* What has to be read *)

(* A clipped gradient: the sizes of its D entries sum to at most L *)
Definition clipped (D : nat) (L : R) (g : nat -> R) : Prop := total D (fun k => Rabs (g k)) <= L.

(* The product of f k over k = 0, ..., D - 1 *)
Fixpoint product_of (D : nat) (f : nat -> R) : R :=
  match D with
  | O => 1
  | S k => product_of k f * f k
  end.

(* The density of the release x: independent Laplace noise of scale 2 L / epsilon at each entry of the gradient *)
Definition release (D : nat) (L epsilon : R) (g x : nat -> R) : R := product_of D (fun k => laplace (2 * L / epsilon) (g k) (x k)).

(* Two data sets of the same size that differ in one record only *)
Definition one_record {Record : Type} (data other : list Record) : Prop :=
  exists before after r r', data = before ++ r :: after /\ other = before ++ r' :: after.

(* For any two data sets the logarithm of the ratio of the densities is at most epsilon in size at every release; and
   there are a model, two data sets that differ in one record only, and a release with equality *)
Definition loss_of_a_release_statement : Prop :=
  forall D L epsilon, (1 <= D)%nat -> 0 < L -> 0 < epsilon ->
  (forall (Record : Type) (model : list Record -> nat -> R) data other x, (forall d, clipped D L (model d)) ->
     Rabs (ln (release D L epsilon (model data) x / release D L epsilon (model other) x)) <= epsilon) /\
  exists (model : list bool -> nat -> R) data other x, (forall d, clipped D L (model d)) /\ one_record data other /\
     Rabs (ln (release D L epsilon (model data) x / release D L epsilon (model other) x)) = epsilon.

(* The proofs, which need not be read *)

Lemma release_positive D L epsilon g x : 0 < 2 * L / epsilon -> 0 < release D L epsilon g x.
Proof.
  intros h. unfold release. induction D as [|D IH]; simpl; [lra|]. apply Rmult_lt_0_compat; [exact IH|apply laplace_positive; auto].
Qed.

(* The logarithm of the ratio, entry by entry *)
Lemma log_ratio D L epsilon g g' x : 0 < L -> 0 < epsilon ->
  ln (release D L epsilon g x / release D L epsilon g' x)
  = total D (fun k => (Rabs (x k - g' k) - Rabs (x k - g k)) * (epsilon / (2 * L))).
Proof.
  intros L0 e0. assert (b0 : 0 < 2 * L / epsilon) by (apply Rdiv_lt_0_compat; lra).
  induction D as [|D IH].
  - unfold release. simpl. unfold Rdiv. rewrite Rinv_1, Rmult_1_r. apply ln_1.
  - cbn [total]. rewrite <- IH. unfold release in *. cbn [product_of].
    pose proof (release_positive D L epsilon g x b0) as p1. pose proof (release_positive D L epsilon g' x b0) as p2. unfold release in p1, p2.
    set (P := product_of D (fun k => laplace (2 * L / epsilon) (g k) (x k))) in *.
    set (P' := product_of D (fun k => laplace (2 * L / epsilon) (g' k) (x k))) in *.
    pose proof (laplace_positive (2 * L / epsilon) (g D) (x D) b0). pose proof (laplace_positive (2 * L / epsilon) (g' D) (x D) b0).
    replace (P * laplace (2 * L / epsilon) (g D) (x D) / (P' * laplace (2 * L / epsilon) (g' D) (x D)))
      with (P / P' * (laplace (2 * L / epsilon) (g D) (x D) / laplace (2 * L / epsilon) (g' D) (x D))) by (field; lra).
    rewrite ln_mult by (apply Rdiv_lt_0_compat; auto). f_equal. unfold laplace.
    set (c := 1 / (2 * (2 * L / epsilon))). assert (c0 : 0 < c) by (apply Rdiv_lt_0_compat; lra).
    set (A := Rabs (x D - g D) / (2 * L / epsilon)). set (B := Rabs (x D - g' D) / (2 * L / epsilon)).
    pose proof (exp_pos (- A)). pose proof (exp_pos (- B)).
    replace (c * exp (- A) / (c * exp (- B))) with (exp (- A + - - B)) by (rewrite exp_plus, (exp_Ropp (- B)); field; lra).
    rewrite ln_exp. unfold A, B. field. lra.
Qed.

Lemma log_ratio_bound D L epsilon g g' x : 0 < L -> 0 < epsilon -> clipped D L g -> clipped D L g' ->
  ln (release D L epsilon g x / release D L epsilon g' x) <= epsilon.
Proof.
  intros L0 e0 cg cg'. rewrite log_ratio by auto. assert (s : 0 < epsilon / (2 * L)) by (apply Rdiv_lt_0_compat; lra).
  apply Rle_trans with (total D (fun k => epsilon / (2 * L) * (Rabs (g k) + Rabs (g' k)))).
  - apply total_le. intros k _. rewrite (Rmult_comm _ (epsilon / (2 * L))). apply Rmult_le_compat_l; [lra|].
    pose proof (Rabs_triang (x k - g k) (g k - g' k)) as t. replace (x k - g k + (g k - g' k)) with (x k - g' k) in t by ring.
    pose proof (Rabs_triang (g k) (- g' k)) as t'. rewrite Rabs_Ropp in t'. unfold Rminus in *. lra.
  - rewrite total_scal, total_plus. unfold clipped in *.
    apply Rle_trans with (epsilon / (2 * L) * (2 * L)); [apply Rmult_le_compat_l; lra|right; field; lra].
Qed.

Theorem loss_of_a_release : loss_of_a_release_statement.
Proof.
  intros D L epsilon D1 L0 e0. assert (b0 : 0 < 2 * L / epsilon) by (apply Rdiv_lt_0_compat; lra). split.
  - intros Record model data other x clip.
    pose proof (log_ratio_bound D L epsilon (model data) (model other) x L0 e0 (clip data) (clip other)) as up.
    pose proof (log_ratio_bound D L epsilon (model other) (model data) x L0 e0 (clip other) (clip data)) as down.
    pose proof (release_positive D L epsilon (model data) x b0). pose proof (release_positive D L epsilon (model other) x b0).
    apply Rabs_le. split; [|exact up].
    replace (release D L epsilon (model data) x / release D L epsilon (model other) x)
      with (/ (release D L epsilon (model other) x / release D L epsilon (model data) x)) by (field; lra).
    rewrite ln_Rinv by (apply Rdiv_lt_0_compat; auto). lra.
  - (* one record: its gradient is L or - L in the first entry *)
    set (model := fun (d : list bool) (k : nat) => if Nat.eqb k 0 then (if hd true d then L else - L) else 0).
    exists model, [true], [false], (fun k => if Nat.eqb k 0 then L else 0).
    assert (first : forall f, total D (fun k => if Nat.eqb k 0 then f else 0) = f).
    { intros f. destruct D as [|D']; [lia|]. clear -D1. induction D' as [|D' IH]; [simpl; ring|].
      change (total (S D') (fun k => if Nat.eqb k 0 then f else 0) + (if Nat.eqb (S D') 0 then f else 0) = f). rewrite IH by lia. simpl. ring. }
    split; [|split].
    + intros d. unfold clipped, model. rewrite (total_ext D _ (fun k => if Nat.eqb k 0 then L else 0)); [rewrite first; lra|].
      intros k _. destruct (Nat.eqb k 0); [|apply Rabs_R0]. destruct (hd true d); [apply Rabs_right|rewrite Rabs_left]; lra.
    + exists [], [], true, false. split; reflexivity.
    + rewrite log_ratio by auto.
      rewrite (total_ext D _ (fun k => if Nat.eqb k 0 then epsilon else 0)); [rewrite first; apply Rabs_right; lra|].
      intros k _. unfold model. simpl. destruct (Nat.eqb k 0).
      * rewrite Rminus_eq_0, Rabs_R0, Rabs_right by lra. field. lra.
      * ring.
Qed.

(* A model of two entries *)
Example a_clipped_gradient : clipped 2 1 (fun k => if Nat.eqb k 0 then 1 / 2 else - (1 / 2)).
Proof. unfold clipped. simpl. rewrite Rabs_right, Rabs_left by lra. lra. Qed.

Print Assumptions loss_of_a_release.
