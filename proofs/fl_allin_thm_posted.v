(** fl-allin-thm-posted: posted prices.  Bears on no claim of the paper's; it is an auction of the book's, page
    federated/allin.
    Beside the prose: the price and the cap of an owner are any functions of her place, what was bought before and the
    money left (sizes, order and budget are public and fixed); for her d records together the cap must not exceed the
    money left, which the algorithm's cap B_i / N_i does not.  "Up to cap / price" needs a positive price; in the
    algorithm it is positive whenever money is left, and with B > 0 money is left for every owner; where none is left take
    any positive price and the cap 0.  Ties are broken by the report and the offer alone.  Definitions are in offers.v. *)
Require Import Reals Lra Lia List.
Require Import totals offers.
Import ListNotations.
Open Scope R_scope.

(* What has to be read *)

(* What is fixed before an owner bids: the price of one record and one unit of loss, and the cap on what she can earn with
   one record, given her place, what was bought before, and the money left *)
Record posted := { unit_price : nat -> list sale -> R -> R; cap : nat -> list sale -> R -> R }.

(* The offer to the owner at place k with d k records: losses up to cap / price, at d k times the price a unit *)
Definition posted_offers (d : nat -> R) (rule : posted) : offers :=
  fun k past left =>
    {| largest := cap rule k past left / unit_price rule k past left;
       price := fun x => d k * unit_price rule k past left * x |}.

(* Prices are positive, and the cap for all her records is not above the money left *)
Definition payable (d : nat -> R) (rule : posted) : Prop :=
  forall k past left, 0 <= left ->
  0 < d k /\ 0 < unit_price rule k past left /\ 0 <= cap rule k past left /\ d k * cap rule k past left <= left.

(* Truth is a best report, whatever the others report; the truthful do not lose; payments sum to at most B *)
Definition posted_prices_statement : Prop :=
  forall d rule choose B, 0 <= B -> payable d rule -> picks_the_best choose (posted_offers d rule) ->
  truth_is_best choose (posted_offers d rule) B /\
  truthful_does_not_lose choose (posted_offers d rule) B /\
  within_the_budget choose (posted_offers d rule) B.

(* The algorithm's cap: the money left over the records of the owners from place k on, of n *)
Definition algorithm_cap (n : nat) (d : nat -> R) (k : nat) (left : R) : R := left / total (n - k) (fun j => d (k + j)%nat).
Definition algorithm_cap_statement : Prop :=
  forall n d k left, (forall j, 0 < d j) -> (k < n)%nat -> 0 <= left ->
  0 <= algorithm_cap n d k left /\ d k * algorithm_cap n d k left <= left.

(* There are such rules: for every price, cap and report some loss is best *)
Definition some_loss_is_best_statement : Prop :=
  forall d rule k past left r, 0 <= left -> payable d rule -> possible r ->
  exists x, best r (posted_offers d rule k past left) x.

(* The proofs, which need not be read *)

Lemma linear_continuous a x : continuity_pt (fun y => a * y) x.
Proof. apply derivable_continuous_pt. apply derivable_pt_scal. apply derivable_pt_id. Qed.

Lemma posted_affordable d rule : payable d rule -> affordable (posted_offers d rule).
Proof.
  intros ok k past left l0. destruct (ok k past left l0) as (d0 & p0 & c0 & enough). cbn [posted_offers largest price].
  set (p := unit_price rule k past left) in *. set (c := cap rule k past left) in *.
  split; [intros; apply linear_continuous|]. split; [ring|].
  split; [apply Rmult_le_pos; [auto|left; apply Rinv_0_lt_compat; auto]|]. intros x (h1 & h2).
  assert (p * x <= c). { apply (Rmult_le_compat_l p) in h2; [|lra]. replace (p * (c / p)) with c in h2 by (field; lra). auto. }
  assert (0 <= p * x) by (apply Rmult_le_pos; lra).
  replace (d k * p * x) with (d k * (p * x)) by ring. split; [apply Rmult_le_pos; lra|].
  apply Rle_trans with (d k * c); [apply Rmult_le_compat_l; lra|auto].
Qed.

Theorem posted_prices : posted_prices_statement.
Proof.
  intros d rule choose B B0 ok picks. pose proof (posted_affordable d rule ok).
  split; [|split]; [apply truth_best|apply no_loss|apply in_budget]; auto.
Qed.

Theorem algorithm_cap_payable : algorithm_cap_statement.
Proof.
  intros n d k left dpos kn l0. unfold algorithm_cap. set (N := total (n - k) (fun j => d (k + j)%nat)).
  assert (dN : d k <= N).
  { pose proof (total_term (n - k) (fun j => d (k + j)%nat) 0%nat ltac:(intros; left; apply dpos) ltac:(lia)) as h.
    cbv beta in h. rewrite Nat.add_0_r in h. exact h. }
  pose proof (dpos k). assert (q : 0 <= left / N) by (apply Rmult_le_pos; [auto|left; apply Rinv_0_lt_compat; lra]).
  split; auto. apply Rle_trans with (N * (left / N)); [apply Rmult_le_compat_r; auto|right; field; lra].
Qed.

Theorem some_loss_is_best : some_loss_is_best_statement.
Proof.
  intros d rule k past left r l0 ok okr. destruct (posted_affordable d rule ok k past left l0) as (c & _ & large & _).
  apply best_exists; auto.
Qed.

(* Two owners with 3 and 1 records, the price 1 and half of what is left over 3 as the cap *)
Example two_owners : payable (fun k => if Nat.eqb k 0 then 3 else 1) {| unit_price := fun _ _ _ => 1; cap := fun _ _ left => left / 6 |}.
Proof. intros k past left l0. simpl. destruct (Nat.eqb k 0); lra. Qed.

Print Assumptions posted_prices. Print Assumptions algorithm_cap_payable. Print Assumptions some_loss_is_best.
