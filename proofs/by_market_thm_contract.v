(** by-market-thm-contract: a contract is a shrunk weighted mean.  Bears on what the page beyond/market says of Khalili's
    answer.
    Beside the prose: x_i - 1/2 is x_i there.  Lap(b) is b times a standard draw, on every draw of it.  Here a_i / b
    and w_i eta are only equal numbers; that they are losses is ct-idea-thm-biased and by-market-def-mean. *)
Require Import Reals Lra Lia.
Require Import totals.
Open Scope R_scope.

(* What has to be read *)

(* The biased answer with shares a, data x and Laplace noise of scale b: on the standard draw z the noise is b z *)
Definition biased_answer (n : nat) (a x : nat -> R) (b z : R) : R :=
  INR n / 2 + total n (fun i => a i * (x i - 1 / 2)) + b * z.

(* The shrunk weighted mean, n / 2 + n W [sum of w_i (x_i - 1/2) + Lap(1 / eta)], on the same draw *)
Definition shrunk_mean (n : nat) (W : R) (w x : nat -> R) (eta z : R) : R :=
  INR n / 2 + INR n * W * (total n (fun i => w i * (x i - 1 / 2)) + 1 / eta * z).

(* With W, w and eta of the theorem they are equal on every draw; the weights sum to 1 and W is between 0 and 1; each
   loss a_i / b is w_i eta; and the answer is Khalili's sum of a_i x_i + (1 - a_i) / 2 with this noise *)
Definition contract_is_shrunk_mean_statement : Prop :=
  forall n a x b, (forall i, (i < n)%nat -> 0 <= a i <= 1) -> 0 < total n a -> 0 < b ->
  let W := 1 / INR n * total n a in
  let w i := a i / (INR n * W) in
  let eta := INR n * W / b in
  (forall z, biased_answer n a x b z = shrunk_mean n W w x eta z) /\
  (forall z, biased_answer n a x b z = total n (fun i => a i * x i + (1 - a i) / 2) + b * z) /\
  0 < W <= 1 /\ total n w = 1 /\
  forall i, (i < n)%nat -> 0 <= w i /\ a i / b = w i * eta.

(* The proofs, which need not be read *)

Theorem contract_is_shrunk_mean : contract_is_shrunk_mean_statement.
Proof.
  intros n a x b box S0 b0 W w eta. set (S := total n a) in *.
  assert (n0 : 0 < INR n).
  { destruct n as [|n]; [unfold S in S0; simpl in S0; lra|]. apply lt_0_INR. lia. }
  assert (nW : INR n * W = S) by (unfold W; field; lra).
  split; [|split; [|split; [|split]]].
  - intros z. unfold biased_answer, shrunk_mean, eta. rewrite nW.
    assert (e : total n (fun i => w i * (x i - 1 / 2)) = total n (fun i => a i * (x i - 1 / 2)) / S).
    { rewrite <- total_div. apply total_ext. intros i _. unfold w. rewrite nW. field. lra. }
    rewrite e. field. lra.
  - intros z. unfold biased_answer. f_equal.
    rewrite (total_ext n (fun i => a i * x i + (1 - a i) / 2) (fun i => 1 / 2 + a i * (x i - 1 / 2))) by (intros; field).
    rewrite total_plus, total_const. field.
  - split; [apply Rmult_lt_0_compat; [apply Rdiv_lt_0_compat; lra|auto]|].
    apply Rmult_le_reg_l with (INR n); auto. rewrite nW. unfold S. rewrite <- total_const. apply total_le. intros i hi. apply box; auto.
  - unfold w. rewrite nW, total_div. fold S. field. lra.
  - intros i hi. unfold w, eta. rewrite nW. split; [apply Rmult_le_pos; [apply box; auto|left; apply Rinv_0_lt_compat; auto]|field; lra].
Qed.

(* Two sellers with the shares 1 and 1/2 *)
Example two_shares : 0 < total 2 (fun i => 1 / (INR i + 1)).
Proof. simpl. lra. Qed.

Print Assumptions contract_is_shrunk_mean.
