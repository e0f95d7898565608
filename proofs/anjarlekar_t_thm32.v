(** anjarlekar-t-thm32 (T's Theorem 3.2) read as printed is false: paid the virtual cost of what they sell, sellers gain by
    lies.  Bears on the claim anjarlekar-t-thm32, page logistic/market.
    Beside the prose: the virtual cost is that of the report, as on the page, or, as T's closing sentence has it, of the
    true cost, which no buyer knows; both are refuted.  The reading under which the theorem holds, in the mean, is not
    refuted here; u is the identity, and costs are uniform on [0, 1], so that F(c) = c, f(c) = 1 and the virtual cost is
    2 c. *)
Require Import QArith Qminmax.
Open Scope Q_scope.

(* What has to be read *)

(* The virtual cost c + F(c) / f(c) of uniform costs on [0, 1] *)
Definition virtual_cost (c : Q) : Q := c + c / 1.

(* A purchase that never rises with the reported cost *)
Definition bought (report : Q) : Q := Qmax (1 - 2 * report) 0.

(* What a seller has who is paid the virtual cost of the report for each unit that it sells *)
Definition utility (cost report : Q) : Q := virtual_cost report * bought report - cost * bought report.

(* The same with the virtual cost of the true cost, which no buyer knows *)
Definition utility_true_cost (cost report : Q) : Q := virtual_cost cost * bought report - cost * bought report.

(* Incentive compatible: no report is better than the truth *)
Definition incentive_compatible (utility : Q -> Q -> Q) : Prop :=
  forall cost report, 0 <= cost <= 1 -> 0 <= report <= 1 -> utility cost report <= utility cost cost.

(* The purchase never rises.  A seller with the cost 1/5 has 3/25 by the truth and 4/25 by the report 3/10; paid the virtual
   cost of the true cost, 3/25 by the truth and 1/5 by the report 0 *)
Definition virtual_costs_are_no_payments : Prop :=
  (forall c c', c <= c' -> bought c' <= bought c) /\
  utility (1 # 5) (1 # 5) == 3 # 25 /\ utility (1 # 5) (3 # 10) == 4 # 25 /\ ~ incentive_compatible utility /\
  utility_true_cost (1 # 5) (1 # 5) == 3 # 25 /\ utility_true_cost (1 # 5) 0 == 1 # 5 /\
  ~ incentive_compatible utility_true_cost.

(* The proofs, which need not be read *)

Theorem paid_virtual_costs_lies_gain : virtual_costs_are_no_payments.
Proof.
  split; [|split; [|split; [|split; [|split; [|split]]]]].
  - intros c c' le. unfold bought. apply Q.max_le_compat_r. apply Qplus_le_r. apply Qopp_le_compat.
    apply Qmult_le_l; [reflexivity|auto].
  - vm_compute. reflexivity.
  - vm_compute. reflexivity.
  - intros ic. specialize (ic (1 # 5) (3 # 10)). apply (Qlt_not_le (utility (1 # 5) (1 # 5)) (utility (1 # 5) (3 # 10))).
    + vm_compute. reflexivity.
    + apply ic; split; vm_compute; discriminate.
  - vm_compute. reflexivity.
  - vm_compute. reflexivity.
  - intros ic. specialize (ic (1 # 5) 0). apply (Qlt_not_le (utility_true_cost (1 # 5) (1 # 5)) (utility_true_cost (1 # 5) 0)).
    + vm_compute. reflexivity.
    + apply ic; split; vm_compute; discriminate.
Qed.

Print Assumptions paid_virtual_costs_lies_gain.
