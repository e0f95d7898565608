(* idea-lem-rank: the difference of two squares u u' - v v' has at most the operator norm of the
   larger. The sharper constant of idea-thm-sensitivity rests on it; no claim of a paper does.

   Where prose and formal statement differ: a matrix has at most the operator norm c if it makes no
   vector z longer than c times its length; (u u' - v v') z is written out as (u.z) u - (v.z) v. *)
Require Import Reals Lra Psatz.
Require Import totals vectors.
Open Scope R_scope.

(* What has to be read *)

Definition idea_lem_rank_statement : Prop :=
  forall d (u v z : nat -> R),
  norm d (fun k => dot d u z * u k - dot d v z * v k)
  <= Rmax (norm d u ^ 2) (norm d v ^ 2) * norm d z.

(* The proofs, which need not be read *)

Theorem idea_lem_rank : idea_lem_rank_statement.
Proof.
  intros d u v z. set (p := fun k => dot d u z * u k - dot d v z * v k).
  assert (pp : dot d p p = dot d u p * dot d u z - dot d v p * dot d v z).
  { transitivity (dot d p (fun k => dot d u z * u k + - dot d v z * v k)).
    - apply total_ext. intros k _. unfold p. lra.
    - rewrite (dot_lin d p (fun k => dot d u z * u k) v), (dot_scale d p u).
      rewrite (dot_comm d p u), (dot_comm d p v). lra. }
  set (D := Rmax (norm d u ^ 2) (norm d v ^ 2)).
  assert (D0 : 0 <= D).
  { apply Rle_trans with (norm d u ^ 2); [rewrite norm_square; apply dot_pos|apply Rmax_l]. }
  pose proof (two_squares d u v p z D D0) as b.
  assert (hu : dot d u u <= D) by (rewrite <- norm_square; apply Rmax_l).
  assert (hv : dot d v v <= D) by (rewrite <- norm_square; apply Rmax_r).
  specialize (b hu hv). rewrite <- pp in b.
  pose proof (Rle_abs (dot d p p)). rewrite <- (norm_sq d p) in *.
  pose proof (norm_pos d p). pose proof (norm_pos d z).
  destruct (Req_dec (norm d p) 0) as [e|ne]; [rewrite e; nra|].
  apply Rmult_le_reg_l with (norm d p); [lra|]. nra.
Qed.

(* The statement has no hypotheses. *)
Print Assumptions idea_lem_rank.
