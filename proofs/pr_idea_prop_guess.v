(** pr-idea-prop-guess: what the promise is worth.  Bears on what every page says a privacy loss means, page privacy/idea.
    Beside the prose: what the observer sees is that the output is in some set, as small as one likes; a guess is the set of
    outputs at which D is guessed (coins of the observer's own can be part of the output).  Of probabilities only this is
    used, that those of a set and of its complement sum to 1. *)
Require Import Reals Lra.
Open Scope R_scope.

(* What has to be read *)

(* A law gives each set of outputs its probability *)
Definition law {Output : Type} (chance : (Output -> bool) -> R) : Prop :=
  forall s, 0 <= chance s /\ chance s + chance (fun x => negb (s x)) = 1.

(* The laws of the output on D and on D' differ by a factor of at most exp epsilon, both ways *)
Definition private_between {Output : Type} (chance chance' : (Output -> bool) -> R) (epsilon : R) : Prop :=
  forall s, chance s <= exp epsilon * chance' s /\ chance' s <= exp epsilon * chance s.

(* The odds of D against D' after the output was seen in s, by Bayes' rule, if they were odds before *)
Definition odds_after {Output : Type} (chance chance' : (Output -> bool) -> R) (odds : R) (s : Output -> bool) : R :=
  odds * chance s / chance' s.

(* The probability that a guess is right, if a fair coin chose between D and D'; D is guessed at the outputs in s *)
Definition right_guess {Output : Type} (chance chance' : (Output -> bool) -> R) (s : Output -> bool) : R :=
  1 / 2 * chance s + 1 / 2 * chance' (fun x => negb (s x)).

(* The odds change by a factor between exp (- epsilon) and exp epsilon; a guess is right with probability at most
   exp epsilon / (1 + exp epsilon) *)
Definition worth_of_the_promise_statement : Prop :=
  forall (Output : Type) (chance chance' : (Output -> bool) -> R) epsilon, law chance -> law chance' ->
  private_between chance chance' epsilon ->
  (forall odds s, 0 < odds -> 0 < chance' s ->
     exp (- epsilon) * odds <= odds_after chance chance' odds s <= exp epsilon * odds) /\
  (forall s, right_guess chance chance' s <= exp epsilon / (1 + exp epsilon)).

(* The proofs, which need not be read *)

Theorem worth_of_the_promise : worth_of_the_promise_statement.
Proof.
  intros Output p p' epsilon l l' priv. pose proof (exp_pos epsilon) as e0. split.
  - intros odds s o0 s0. destruct (priv s) as [up down]. unfold odds_after. split; apply Rmult_le_reg_r with (p' s); auto.
    + replace (odds * p s / p' s * p' s) with (odds * p s) by (field; lra).
      rewrite exp_Ropp. apply Rmult_le_reg_l with (exp epsilon); auto.
      replace (exp epsilon * (/ exp epsilon * odds * p' s)) with (odds * p' s) by (field; lra).
      replace (exp epsilon * (odds * p s)) with (odds * (exp epsilon * p s)) by ring. apply Rmult_le_compat_l; lra.
    + replace (odds * p s / p' s * p' s) with (odds * p s) by (field; lra).
      replace (exp epsilon * odds * p' s) with (odds * (exp epsilon * p' s)) by ring. apply Rmult_le_compat_l; lra.
  - intros s. unfold right_guess. destruct (l s) as [_ one]. destruct (l' s) as [_ one']. destruct (priv s) as [up _].
    destruct (priv (fun x => negb (s x))) as [_ down].
    apply Rmult_le_reg_r with (1 + exp epsilon); [lra|]. replace (exp epsilon / (1 + exp epsilon) * (1 + exp epsilon)) with (exp epsilon) by (field; lra).
    set (a := p s) in *. set (b := p' (fun x => negb (s x))) in *. set (c := p (fun x => negb (s x))) in *. set (d := p' s) in *.
    replace c with (1 - a) in * by lra. replace d with (1 - b) in * by lra. lra.
Qed.

(* A coin that says the truth with probability 3/4: the loss is ln 3 *)
Example a_coin :
  let on := fun s : bool -> bool => (if s true then 3 / 4 else 0) + (if s false then 1 / 4 else 0) in
  let off := fun s : bool -> bool => (if s true then 1 / 4 else 0) + (if s false then 3 / 4 else 0) in
  law on /\ law off /\ private_between on off (ln 3).
Proof.
  simpl. split; [|split]; intros s; rewrite ?exp_ln by lra; destruct (s true), (s false); simpl; lra.
Qed.

Print Assumptions worth_of_the_promise.
