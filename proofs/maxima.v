(** The larger and the smaller of two numbers: cases, continuity, and what one owner's weight adds to an error bound.
    Used by other files. *)
Require Import Reals Lra FunctionalExtensionality.
Open Scope R_scope.

(* The proofs, which need not be read *)

Ltac plain a := lazymatch a with context [Rle_dec _ _] => fail | context [Rcase_abs _] => fail | _ => idtac end.
Ltac cases := unfold Rmax, Rmin, Rabs in *;
  repeat match goal with
  | |- context [Rlt_dec ?a ?b] => destruct (Rlt_dec a b)
  | |- context [Rle_dec ?a ?b] => plain a; plain b; destruct (Rle_dec a b)
  | |- context [Rcase_abs ?a] => plain a; destruct (Rcase_abs a)
  end.

Lemma max_continuous f x : continuity_pt f x -> continuity_pt (fun y => Rmax 0 (f y)) x.
Proof.
  intros h. replace (fun y => Rmax 0 (f y)) with (fun y => (f y + Rabs (f y)) * / 2)
    by (apply functional_extensionality; intros; cases; lra).
  apply continuity_pt_mult; [|apply continuity_pt_const; intros ? ?; reflexivity].
  apply continuity_pt_plus; [exact h|]. apply (continuity_pt_comp f Rabs); [exact h|apply Rcontinuity_abs].
Qed.

Lemma min_continuous f g x : continuity_pt f x -> continuity_pt g x -> continuity_pt (fun y => Rmin (f y) (g y)) x.
Proof.
  intros hf hg. replace (fun y => Rmin (f y) (g y)) with (fun y => f y - Rmax 0 (f y - g y))
    by (apply functional_extensionality; intros; cases; lra).
  apply continuity_pt_minus; [exact hf|]. apply (max_continuous (fun y => f y - g y)).
  apply continuity_pt_minus; auto.
Qed.

(* A weight l between the thresholds x and t, as near to the share w as they let it, beside another weight m *)
Lemma one_owner (x t w m l : R) : x <= t -> l = Rmax x (Rmin w t) ->
  8 * l ^ 2 + 8 * (t - x) * Rabs (l - w) + 8 * (m - l) ^ 2 + 8 * (x + t) * (m - l)
    <= 8 * m ^ 2 + 8 * (t - x) * Rabs (m - w).
Proof. intros. subst l. cases; nra. Qed.
