(* The rule of fl-allin-thm-repair computes in rational numbers, and pays there what it pays in real
   numbers. tests/house/test_proofs.py compares [run] with hdpm_lib.auctions.allin. *)
Require Import QArith Qreals Reals Lra List Arith Bool.
Require Import allin_rule allin_rational fl_allin_thm_repair.
Import ListNotations.

(* What has to be read *)

(* The payments of an auction whose reports are lists *)
Definition run (valuation amount : list Q) (budget : Q) : list Q :=
  map (payment (length valuation) (fun i => nth i valuation 0%Q) (fun i => nth i amount 0%Q) budget)
    (seq 0 (length valuation)).

(* Q2R: a rational number as a real one. Both rules pay the same. *)
Definition allin_computes_statement : Prop :=
  forall owners (valuation amount : nat -> Q) (budget : Q) i,
  Q2R (payment owners valuation amount budget i)
  = payment owners (fun k => Q2R (valuation k)) (fun k => Q2R (amount k)) (Q2R budget) i.

(* The proofs, which need not be read *)

Lemma Q2R_red a : Q2R (Qred a) = Q2R a.
Proof. apply Qeq_eqR, Qred_correct. Qed.

Lemma Q2R_divide a b : Q2R (a / b) = (Q2R a / Q2R b)%R.
Proof.
  destruct (Qeq_dec b 0) as [h|h]; [|apply Q2R_div; auto].
  rewrite (Qeq_eqR _ _ h), RMicromega.Q2R_0. unfold Rdiv, Qdiv. rewrite Rinv_0, Rmult_0_r.
  rewrite (Qeq_eqR (a * / b) 0), RMicromega.Q2R_0; auto. rewrite h. unfold Qinv; simpl. ring.
Qed.

Lemma Q2R_leb a b : leb a b = leb (Q2R a) (Q2R b).
Proof.
  cbn [leb rational real]. destruct (Rle_dec (Q2R a) (Q2R b)) as [h|h].
  - apply Qle_bool_iff, Rle_Qle; auto.
  - apply not_true_is_false. rewrite Qle_bool_iff. intros h'. apply h, Qle_Rle; auto.
Qed.

Section Transfer.
Variables (n : nat) (V x : nat -> Q) (B : Q).
Let V_ i := Q2R (V i). Let x_ i := Q2R (x i). Let B_ := Q2R B.

Lemma ask_Q i : Q2R (ask V x i) = ask V_ x_ i.
Proof. unfold ask; cbn [div rational real]. rewrite Q2R_red, Q2R_divide. reflexivity. Qed.

Lemma total_Q l : Q2R (total x l) = total x_ l.
Proof.
  induction l as [|i l IH]; [apply RMicromega.Q2R_0|].
  rewrite total_cons, <- IH. change (total x (i :: l)) with (Qred (x i + total x l)).
  rewrite Q2R_red, Q2R_plus. reflexivity.
Qed.

Lemma insert_Q i l : insert V x i l = insert V_ x_ i l.
Proof. induction l as [|j l IH]; [reflexivity|]. cbn [insert]. rewrite Q2R_leb, !ask_Q, IH. reflexivity. Qed.

Lemma order_Q : order n V x B = order n V_ x_ B_.
Proof.
  unfold order.
  rewrite (filter_ext (fun i => leb (V i) B) (fun i => leb (V_ i) B_)) by (intros; apply Q2R_leb).
  induction (filter _ _) as [|i l IH]; [reflexivity|]. simpl. rewrite IH. apply insert_Q.
Qed.

Lemma accept_Q l : forall sold, accept V x B sold l = accept V_ x_ B_ (Q2R sold) l.
Proof.
  induction l as [|i l IH]; intros sold; [reflexivity|]. cbn [accept]. rewrite IH, Q2R_leb.
  cbn [add mul rational real]. rewrite !Q2R_red, Q2R_mult, Q2R_red, Q2R_plus, ask_Q. reflexivity.
Qed.

Lemma winners_Q : winners n V x B = winners n V_ x_ B_.
Proof. unfold winners. rewrite accept_Q, order_Q. cbn [zero rational]. rewrite RMicromega.Q2R_0. reflexivity. Qed.

Lemma losers_Q : losers n V x B = losers n V_ x_ B_.
Proof. unfold losers. rewrite accept_Q, order_Q. cbn [zero rational]. rewrite RMicromega.Q2R_0. reflexivity. Qed.

Lemma payment_Q i : Q2R (payment n V x B i) = payment n V_ x_ B_ i.
Proof.
  unfold payment, wins, price. rewrite winners_Q, losers_Q. destruct (existsb _ _).
  2: apply RMicromega.Q2R_0.
  assert (s : Q2R (div B (total x (winners n V_ x_ B_))) = div B_ (total x_ (winners n V_ x_ B_))).
  { cbn [div rational real]. rewrite Q2R_red, Q2R_divide, total_Q. reflexivity. }
  cbn [mul rational]. rewrite Q2R_red, Q2R_mult. cbn [mul real]. f_equal.
  destruct (losers n V_ x_ B_) as [|j r]; [exact s|]. rewrite Q2R_leb, s, ask_Q.
  destruct (leb _ _); [exact s|apply ask_Q].
Qed.
End Transfer.


Theorem allin_computes : allin_computes_statement.
Proof. intros n V x B i. apply payment_Q. Qed.

Open Scope Q_scope.

(* The example of the library's docstring *)
Example docstring : run [1; 2; 4] [1; 1; 1] 10 = [4; 4; 0].
Proof. vm_compute. reflexivity. Qed.

(* The lie that pays under the printed rule brings 1 here, for what costs her 2 *)
Example repaired_truth : run [100; 2] [100; 1] 100 = [100; 0].
Proof. vm_compute. reflexivity. Qed.
Example repaired_lie : run [100; 1 # 2] [100; 1] 100 = [0; 1].
Proof. vm_compute. reflexivity. Qed.

(* An amount above the truth would pay: 8 for her one unit, 10 for two that she does not have.
   So the theorem needs that nobody can sell more than she has. *)
Example own_amount : run [1; 8] [1; 1] 10 = [8; 0].
Proof. vm_compute. reflexivity. Qed.
Example more_than_own : run [1; 8] [2; 1] 10 = [10; 0].
Proof. vm_compute. reflexivity. Qed.

Print Assumptions allin_computes.
