(** The Riemann integral of a function that never rises, from a squeeze of its increments.  Used by other files. *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
Open Scope R_scope.

(* The proofs, which need not be read *)

Section Squeeze.
Variables (a b : R) (x U : R -> R).
Hypothesis squeeze : forall p r, a <= p -> p <= r -> r <= b -> (r - p) * x r <= U p - U r <= (r - p) * x p.
Hypothesis falls : forall p r, a <= p -> p <= r -> r <= b -> x r <= x p.

Lemma riemann : forall (ptd : SF_seq) (d : R), pointed_subdiv ptd ->
  seq_step (SF_lx ptd) <= d -> a <= SF_h ptd -> seq.last (SF_h ptd) (SF_lx ptd) <= b ->
  let e := seq.last (SF_h ptd) (SF_lx ptd) in
  SF_h ptd <= e /\ Rabs (Riemann_sum x ptd - (U (SF_h ptd) - U e)) <= d * (x (SF_h ptd) - x e).
Proof.
  intros ptd. apply (SF_cons_ind (T := R)) with (s := ptd); clear ptd.
  - intros p d _ _ _ _. cbn. split; [lra|]. unfold zero; simpl. rewrite Rabs_right; lra.
  - intros [p c] s IH d ps step h0 h1.
    assert (pcr : p <= c <= SF_h s).
    { specialize (ps O). destruct s as [h l]. apply ps. unfold SF_size; simpl; lia. }
    rewrite Riemann_sum_cons. specialize (IH d (ptd_cons _ _ ps)).
    assert (el : seq.last (SF_h (SF_cons (p, c) s)) (SF_lx (SF_cons (p, c) s)) = seq.last (SF_h s) (SF_lx s))
      by (destruct s; reflexivity).
    rewrite el in *. cbv zeta. change (SF_h (SF_cons (p, c) s)) with p in *. simpl fst; simpl snd.
    assert (st : seq_step (SF_lx (SF_cons (p, c) s)) = Rmax (Rabs (SF_h s - p)) (seq_step (SF_lx s)))
      by (destruct s; reflexivity).
    rewrite st in step. pose proof (Rmax_l (Rabs (SF_h s - p)) (seq_step (SF_lx s))).
    pose proof (Rmax_r (Rabs (SF_h s - p)) (seq_step (SF_lx s))).
    destruct IH as [l near]; [lra|lra|lra|]. set (e := seq.last (SF_h s) (SF_lx s)) in *. set (r := SF_h s) in *.
    split; [lra|]. rewrite Rabs_right in * by lra.
    pose proof (squeeze p r ltac:(lra) ltac:(lra) ltac:(lra)).
    pose proof (falls p c ltac:(lra) ltac:(lra) ltac:(lra)).
    pose proof (falls c r ltac:(lra) ltac:(lra) ltac:(lra)).
    unfold plus, scal; simpl; unfold mult; simpl.
    apply Rabs_le_between in near. apply Rabs_le_between.
    assert ((r - p) * (x p - x r) <= d * (x p - x r)) by (apply Rmult_le_compat_r; lra).
    assert ((r - p) * x c <= (r - p) * x p) by (apply Rmult_le_compat_l; lra).
    assert ((r - p) * x r <= (r - p) * x c) by (apply Rmult_le_compat_l; lra).
    lra.
Qed.

Lemma monotone_integral : a <= b -> is_RInt x a b (U a - U b).
Proof.
  intros ab. destruct (Req_dec a b) as [->|ne].
  { replace (U b - U b) with (@zero R_NormedModule) by (unfold zero; simpl; lra). apply (is_RInt_point x b). }
  apply filterlim_locally. intros eps. unfold Riemann_fine, within, locally_dist.
  assert (g : 0 <= x a - x b) by (pose proof (falls a b ltac:(lra) ab ltac:(lra)); lra).
  assert (dp : 0 < eps / (x a - x b + 1)).
  { apply Rmult_lt_0_compat; [apply cond_pos|apply Rinv_0_lt_compat; lra]. }
  exists (mkposreal _ dp). intros ptd step (pd & hh & hl). simpl in step.
  rewrite Rmin_left in hh by lra. rewrite Rmax_right in hl by lra.
  destruct (riemann ptd _ pd (Rlt_le _ _ step)) as [_ near]; [rewrite hh; lra|rewrite hl; lra|].
  rewrite hl, hh in near. rewrite sign_eq_1 by lra.
  unfold ball; simpl; unfold AbsRing_ball, abs, minus, plus, opp, scal; simpl. unfold mult; simpl.
  rewrite Rmult_1_l. eapply Rle_lt_trans; [exact near|].
  apply Rmult_lt_reg_r with (x a - x b + 1); [lra|].
  replace (eps / (x a - x b + 1) * (x a - x b) * (x a - x b + 1)) with (eps * (x a - x b)) by (field; lra).
  pose proof (cond_pos eps). nra.
Qed.
End Squeeze.
