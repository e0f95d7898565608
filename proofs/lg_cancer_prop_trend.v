(** lg-cancer-prop-trend: validation forces the trend.  Bears on the claim anjarlekar-t-fig2, page logistic/cancer.
    Beside the prose: settings are elements of any set; "along gamma" is for gamma >= 0. *)
Require Import Reals Lra.
Require Import lg_risk_prop_monotone.
Open Scope R_scope.

(* What has to be read *)

(* choice gamma is a setting of the set that minimises the validation error plus gamma times the payments *)
Definition chosen_by_validation {Setting : Type} (set : Setting -> Prop) (validation_error payments : Setting -> R)
    (choice : R -> Setting) : Prop :=
  forall gamma, 0 <= gamma -> set (choice gamma) /\
    forall other, set other -> validation_error (choice gamma) + gamma * payments (choice gamma)
                               <= validation_error other + gamma * payments other.

(* Along gamma the chosen payments never rise and the chosen validation errors never fall *)
Definition trend_statement : Prop :=
  forall (Setting : Type) (set : Setting -> Prop) validation_error payments choice,
  chosen_by_validation set validation_error payments choice ->
  forall gamma gamma', 0 <= gamma -> gamma <= gamma' ->
    payments (choice gamma') <= payments (choice gamma) /\
    validation_error (choice gamma) <= validation_error (choice gamma').

(* The proofs, which need not be read *)

Theorem trend : trend_statement.
Proof.
  intros Setting set v t choice best gamma gamma' h0 h. destruct (Req_dec gamma gamma') as [->|ne]; [split; lra|].
  destruct (factor_of_a_term Setting set v t gamma gamma' (choice gamma) (choice gamma')) as [a b];
    [apply best; lra|apply best; lra|lra|split; auto].
Qed.

(* One setting only is always chosen *)
Example one_setting : chosen_by_validation (fun _ : unit => True) (fun _ => 1) (fun _ => 2) (fun _ => tt).
Proof. intros gamma _. split; [exact I|intros; lra]. Qed.

Print Assumptions trend.
