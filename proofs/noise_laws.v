(** Laws with densities, privacy, and additive noise.  Shared by several files.
    An integral is any rule that gives numbers to some functions that are not negative (those with a finite integral),
    keeps factors and does not fall: the Lebesgue integral is one (as an upper integral also for sets that are not
    measurable), sums are others. *)
Require Import Reals Lra.
Open Scope R_scope.

(* What has to be read *)

(* An integral over outcomes, and the functions for which it is finite *)
Record integral {Outcome : Type} (finite : (Outcome -> R) -> Prop) (I : (Outcome -> R) -> R) : Prop := {
  smaller_is_finite : forall f g, (forall x, 0 <= f x <= g x) -> finite g -> finite f;
  multiple_is_finite : forall s f, 0 <= s -> finite f -> finite (fun x => s * f x);
  does_not_fall : forall f g, (forall x, 0 <= f x <= g x) -> finite g -> I f <= I g;
  keeps_factors : forall s f, 0 <= s -> (forall x, 0 <= f x) -> finite f -> I (fun x => s * f x) = s * I f
}.

(* A set of outcomes is given by its indicator, 1 inside and 0 outside *)
Definition is_set {Outcome : Type} (indicator : Outcome -> R) : Prop := forall x, indicator x = 0 \/ indicator x = 1.

(* The probability of a set under a density *)
Definition chance {Outcome : Type} (I : (Outcome -> R) -> R) (density : Outcome -> R) (set : Outcome -> R) : R :=
  I (fun x => set x * density x).

(* A mechanism gives each database a density of its output; it is private with the loss epsilon between neighbours, if the
   chances of every set differ by a factor of at most exp epsilon *)
Definition private_mechanism {Data Outcome : Type} (I : (Outcome -> R) -> R) (density : Data -> Outcome -> R)
    (neighbours : Data -> Data -> Prop) (epsilon : R) : Prop :=
  forall d d' set, neighbours d d' -> is_set set -> chance I (density d) set <= exp epsilon * chance I (density d') set.

(* The loss between two densities: the logarithm of their ratio is at most L at every outcome, and L at one *)
Definition loss_between {Outcome : Type} (f f' : Outcome -> R) (L : R) : Prop :=
  (forall x, f x <= exp L * f' x) /\ exists x, f x = exp L * f' x /\ 0 < f' x.

(* The density of Laplace noise of scale b around c *)
Definition laplace (b c x : R) : R := 1 / (2 * b) * exp (- (Rabs (x - c) / b)).

(* The proofs, which need not be read *)

Lemma private_by_density {Data Outcome : Type} finite (I : (Outcome -> R) -> R) (density : Data -> Outcome -> R)
    (neighbours : Data -> Data -> Prop) epsilon :
  integral finite I -> (forall d, finite (density d)) -> (forall d x, 0 <= density d x) ->
  (forall d d' x, neighbours d d' -> density d x <= exp epsilon * density d' x) ->
  private_mechanism I density neighbours epsilon.
Proof.
  intros [small mult mono scal] fin pos ratio d d' set nb s. unfold chance. pose proof (exp_pos epsilon).
  assert (inside : forall d x, 0 <= set x * density d x <= density d x).
  { intros e x. specialize (pos e x). destruct (s x) as [-> | ->]; lra. }
  assert (f' : finite (fun x => set x * density d' x)) by (apply (small _ (density d')); auto).
  rewrite <- scal; [|lra|intros x; apply inside|auto].
  apply mono; [|apply mult; [lra|auto]]. intros x. specialize (ratio d d' x nb). specialize (pos d x). destruct (s x) as [-> | ->]; lra.
Qed.

Lemma laplace_positive b c x : 0 < b -> 0 < laplace b c x.
Proof. intros h. apply Rmult_lt_0_compat; [apply Rdiv_lt_0_compat; lra|apply exp_pos]. Qed.

Lemma exp_le x y : x <= y -> exp x <= exp y.
Proof. intros h. destruct (Req_dec x y) as [->|ne]; [lra|left; apply exp_increasing; lra]. Qed.

Lemma laplace_ratio b c c' x : 0 < b -> laplace b c x <= exp (Rabs (c - c') / b) * laplace b c' x.
Proof.
  intros h. unfold laplace. assert (p : 0 < 1 / (2 * b)) by (apply Rdiv_lt_0_compat; lra).
  replace (exp (Rabs (c - c') / b) * (1 / (2 * b) * exp (- (Rabs (x - c') / b))))
    with (1 / (2 * b) * exp (Rabs (c - c') / b + - (Rabs (x - c') / b))) by (rewrite exp_plus; ring).
  apply Rmult_le_compat_l; [lra|]. apply exp_le.
  assert (Rabs (x - c') <= Rabs (x - c) + Rabs (c - c')).
  { replace (x - c') with ((x - c) + (c - c')) by ring. apply Rabs_triang. }
  assert (i : 0 < / b) by (apply Rinv_0_lt_compat; auto). unfold Rdiv.
  assert (Rabs (x - c') * / b <= (Rabs (x - c) + Rabs (c - c')) * / b) by (apply Rmult_le_compat_r; lra). lra.
Qed.

(* Beyond the nearer centre the ratio is attained *)
Lemma laplace_attained b c c' x : 0 < b -> c' <= c -> c <= x -> laplace b c x = exp (Rabs (c - c') / b) * laplace b c' x.
Proof.
  intros h le lx. unfold laplace. rewrite !Rabs_right by lra.
  replace (exp ((c - c') / b) * (1 / (2 * b) * exp (- ((x - c') / b)))) with (1 / (2 * b) * exp ((c - c') / b + - ((x - c') / b))) by (rewrite exp_plus; ring).
  f_equal. f_equal. field. lra.
Qed.

Lemma laplace_loss b c c' : 0 < b -> loss_between (laplace b c) (laplace b c') (Rabs (c - c') / b).
Proof.
  intros h. split; [intros; apply laplace_ratio; auto|]. exists c. split; [|apply laplace_positive; auto].
  unfold laplace. rewrite Rminus_eq_0, Rabs_R0.
  replace (exp (Rabs (c - c') / b) * (1 / (2 * b) * exp (- (Rabs (c - c') / b))))
    with (1 / (2 * b) * exp (Rabs (c - c') / b + - (Rabs (c - c') / b))) by (rewrite exp_plus; ring).
  rewrite Rplus_opp_r. unfold Rdiv at 2. rewrite Rmult_0_l, Ropp_0. reflexivity.
Qed.
