(** Reports of all owners or sellers, one of them replaced.  Used by other files. *)
Require Import Reals Arith.
Open Scope R_scope.

(* What has to be read *)

(* The reports of all with that of owner i replaced *)
Definition with_own {T} (reports : nat -> T) (i : nat) (own : T) : nat -> T :=
  fun k => if Nat.eqb k i then own else reports k.

(* A profile of valuations, and that those of n sellers are between 0 and top *)
Definition profile := nat -> R.
Definition in_range (n : nat) (top : R) (v : profile) : Prop := forall i, (i < n)%nat -> 0 <= v i <= top.

(* The proofs, which need not be read *)

Lemma own_same {T} (f : nat -> T) i a : with_own f i a i = a.
Proof. unfold with_own. rewrite Nat.eqb_refl. auto. Qed.

Lemma own_other {T} (f : nat -> T) i a k : k <> i -> with_own f i a k = f k.
Proof. intros h. unfold with_own. apply Nat.eqb_neq in h. rewrite h. auto. Qed.

Lemma own_in_range n top v i r : in_range n top v -> 0 <= r <= top -> in_range n top (with_own v i r).
Proof. intros h hr j hj. unfold with_own. destruct (Nat.eqb j i); auto. Qed.
