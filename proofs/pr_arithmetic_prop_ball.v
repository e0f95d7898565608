(** pr-arithmetic-prop-ball: how far the minimiser can be.  Bears on what the library promises of its logistic models, page
    privacy/arithmetic.
    Beside the prose: the gradient at w is the vector whose product with each direction is the derivative of F from w in
    that direction; G need not be differentiable elsewhere. *)
Require Import Reals Lra Lia.
Require Import totals vectors idea_lem_two.
Open Scope R_scope.

(* What has to be read *)

(* Vectors of n numbers, their inner product dot and length norm are those of vectors.v *)

(* A convex function of vectors that looks at their n entries only *)
Definition convex (n : nat) (G : vector -> R) : Prop :=
  (forall x y, (forall k, (k < n)%nat -> x k = y k) -> G x = G y) /\
  forall x y t, 0 <= t <= 1 -> G (fun k => t * x k + (1 - t) * y k) <= t * G x + (1 - t) * G y.

(* F is the sum of G and the penalty *)
Definition penalised (n : nat) (G : vector -> R) (penalty : R) (w : vector) : R := G w + penalty / 2 * norm n w ^ 2.

(* The gradient of F at w *)
Definition gradient_at (n : nat) (F : vector -> R) (w gradient : vector) : Prop :=
  forall d, derivable_pt_lim (fun t => F (fun k => w k + t * d k)) 0 (dot n gradient d).

(* The minimiser is within the length of the gradient over the penalty *)
Definition ball_statement : Prop :=
  forall n G penalty minimiser w gradient, convex n G -> 0 < penalty ->
  (forall other, penalised n G penalty minimiser <= penalised n G penalty other) ->
  gradient_at n (penalised n G penalty) w gradient ->
  norm n (fun k => w k - minimiser k) <= norm n gradient / penalty.

(* The proofs, which need not be read *)

(* F is strongly convex by the penalty *)
Lemma strongly n G penalty : convex n G -> strongly_convex n penalty (penalised n G penalty).
Proof.
  intros (ext & conv) x y t ht. unfold penalised.
  assert (mixed : forall k, between x y t k = t * y k + (1 - t) * x k) by (intros; unfold between; ring).
  rewrite (ext _ _ (fun k _ => mixed k)). specialize (conv y x t ht).
  replace (norm n (between x y t)) with (norm n (fun k => t * y k + (1 - t) * x k)) by (apply norm_ext; auto).
  rewrite norm_between. lra.
Qed.

(* That w minimises F - F, which has no slope: the penalty bounds how far the term - F moves the minimiser *)
Theorem ball : ball_statement.
Proof.
  intros n G penalty m w g conv p least grad. set (F := penalised n G penalty) in *.
  replace (norm n g) with (norm n (fun k => -1 * g k)) by (rewrite norm_scale, Rabs_left by lra; ring).
  apply (idea_lem_two n penalty F (fun v => - F v)); auto.
  - apply strongly. exact conv.
  - intros other. lra.
  - intros d. rewrite dot_scale_left. replace (-1 * dot n g d) with (- dot n g d) by ring.
    apply (derivable_pt_lim_opp (fun t => F (fun k => w k + t * d k))). apply grad.
Qed.

(* The function 0 is convex *)
Example zero_is_convex : convex 3 (fun _ => 0).
Proof. split; intros; lra. Qed.

Print Assumptions ball.
