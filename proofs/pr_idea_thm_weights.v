(** pr-idea-thm-weights: re-weighting.  Bears on the claims about weights in proportion to promises in three papers, page
    privacy/idea.
    Beside the prose: probabilities are integrals of the density, for any integral as in noise_laws.v; norms are as in
    pr_idea_thm_norm.v; "needs as little noise" means: allows a rate as large; omega and the sum A are positive;
    promises are not negative, and not all 0; weights may be negative. *)
Require Import Reals Lra Lia.
Require Import totals noise_laws pr_idea_thm_norm.
Open Scope R_scope.

(* What has to be read *)

(* Replacing the record of seller i moves the answer by at most weight i times omega *)
Definition moves_at_most {Data Vector : Type} (n : nat) (distance : Vector -> Vector -> R) (answer : Data -> Vector)
    (neighbours : nat -> Data -> Data -> Prop) (weight : nat -> R) (omega : R) : Prop :=
  forall i d d', (i < n)%nat -> neighbours i d d' -> distance (answer d) (answer d') <= weight i * omega.

(* By this bound the rate keeps the promises *)
Definition keeps (n : nat) (omega : R) (weight promise : nat -> R) (rate : R) : Prop :=
  0 < rate /\ forall i, (i < n)%nat -> rate * omega * weight i <= promise i.

(* Seller i loses at most rate omega weight_i; weights in proportion to the promises keep all of them at the rate S over
   omega A, and among weights of the same sum A only they do *)
Definition reweighting_statement : Prop :=
  (forall (Data Vector : Type) n distance (answer : Data -> Vector) neighbours weight omega factor rate finite I i,
     of_a_norm distance -> moves_at_most n distance answer neighbours weight omega -> 0 < factor -> 0 < rate -> (i < n)%nat ->
     integral finite I -> (forall d, finite (density distance factor rate (answer d))) ->
     private_mechanism I (fun d => density distance factor rate (answer d)) (neighbours i) (rate * omega * weight i)) /\
  (forall n omega A promise, 0 < omega -> 0 < A -> (forall i, (i < n)%nat -> 0 <= promise i) -> 0 < total n promise ->
     let S := total n promise in
     keeps n omega (fun i => A * promise i / S) promise (S / (omega * A)) /\
     total n (fun i => A * promise i / S) = A /\
     forall weight rate, total n weight = A -> keeps n omega weight promise rate ->
       rate <= S / (omega * A) /\
       (rate = S / (omega * A) -> forall i, (i < n)%nat -> weight i = A * promise i / S)).

(* The proofs, which need not be read *)

Theorem reweighting : reweighting_statement.
Proof.
  split.
  - intros Data Vector n distance answer nb weight omega factor rate finite I i norm moves f0 r0 hi int fin.
    assert (pos : forall d x, 0 < density distance factor rate (answer d) x) by (intros; apply Rmult_lt_0_compat; [auto|apply exp_pos]).
    apply (private_by_density finite); auto; [intros; left; apply pos|].
    intros d d' x h. destruct (exact_loss Data Vector distance answer factor rate norm f0 r0 d d') as [le _].
    eapply Rle_trans; [apply le|]. apply Rmult_le_compat_r; [left; apply pos|]. apply exp_le.
    rewrite Rmult_assoc, (Rmult_comm omega). apply Rmult_le_compat_l; [lra|]. apply (moves i d d' hi h).
  - intros n omega A promise o0 A0 pos S0 S. fold S in S0. assert (oA : 0 < omega * A) by (apply Rmult_lt_0_compat; auto).
    assert (sum : total n (fun i => A * promise i / S) = A) by (rewrite total_div, total_scal; fold S; field; lra).
    split; [|split; [exact sum|]].
    + split; [apply Rdiv_lt_0_compat; auto|]. intros i hi. right. field. lra.
    + intros weight rate one (r0 & keep).
      assert (le : rate * omega * A <= S) by (rewrite <- one, <- total_scal; apply total_le; auto).
      split.
      * apply Rmult_le_reg_r with (omega * A); auto. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
      * intros e i hi. assert (ro : rate * omega = S / A) by (rewrite e; field; lra).
        assert (all : total n (fun i => rate * omega * weight i) = S) by (rewrite total_scal, one, ro; field; lra).
        pose proof (total_same n (fun i => rate * omega * weight i) promise keep ltac:(fold S; lra) i hi) as same. cbv beta in same.
        rewrite <- same, ro. field. lra.
Qed.

(* Real numbers; two sellers who move the answer by their weights *)
Example two_sellers : moves_at_most 2 (fun x y => Rabs (x - y)) (fun d : bool => if d then 1 else 0) (fun _ _ _ => True) (fun _ => 1) 1.
Proof. intros i [|] [|] _ _; rewrite ?Rminus_eq_0, ?Rabs_R0; try lra; [rewrite Rabs_right|rewrite Rabs_left]; lra. Qed.

Print Assumptions reweighting.
