(** lg-market-thm-monotone: exact minimisers never rise.  Bears on the claims anjarlekar-j-thmIII3 and
    anjarlekar-j-lemmaIII2 (the purchase meets the lemma's missing condition), page logistic/market.
    Beside the prose: purchases may be restricted to any set; virtual costs of seller i range over an interval; "slope"
    is stated as the slope of a line that touches V from above, and as the derivative wherever V has one.  gamma
    is positive. *)
Require Import Reals Lra Lia.
Require Import totals profiles.
Open Scope R_scope.

(* What has to be read *)

(* A purchase is a list of amounts, one for each of n sellers *)
Definition purchase := nat -> R.

(* What the buyer minimises *)
Definition objective (n : nat) (g : purchase -> R) (gamma : R) (psi : nat -> R) (bought : purchase) : R :=
  g bought + gamma * total n (fun j => psi j * bought j).

(* The purchase is a global minimiser among the purchases that are possible *)
Definition minimiser n (possible : purchase -> Prop) g gamma psi (bought : purchase) : Prop :=
  possible bought /\
  forall other, possible other -> objective n g gamma psi bought <= objective n g gamma psi other.

(* A fixed choice of a minimiser for each virtual cost zeta of seller i between low and high, the others' fixed *)
Definition fixed_choice n possible g gamma psi i low high (choice : R -> purchase) : Prop :=
  forall zeta, low <= zeta <= high -> minimiser n possible g gamma (with_own psi i zeta) (choice zeta).

(* V: the minimum as a function of seller i's virtual cost *)
Definition least n g gamma psi i (choice : R -> purchase) (zeta : R) : R :=
  objective n g gamma (with_own psi i zeta) (choice zeta).

(* V is concave; gamma times what is bought of seller i is its slope, and its derivative where it has one; what is bought
   of her never rises with her virtual cost; and not with her cost, if the virtual cost increases in it *)
Definition minimisers_never_rise_statement : Prop :=
  forall n possible g gamma psi i low high choice, (i < n)%nat -> 0 < gamma ->
  fixed_choice n possible g gamma psi i low high choice ->
  let V := least n g gamma psi i choice in
  (forall z z' t, low <= z <= high -> low <= z' <= high -> 0 <= t <= 1 ->
     t * V z + (1 - t) * V z' <= V (t * z + (1 - t) * z')) /\
  (forall z z', low <= z <= high -> low <= z' <= high -> V z' <= V z + gamma * choice z i * (z' - z)) /\
  (forall z slope, low < z < high -> derivable_pt_lim V z slope -> slope = gamma * choice z i) /\
  (forall z z', low <= z -> z <= z' -> z' <= high -> choice z' i <= choice z i) /\
  (forall virtual_cost : R -> R, (forall c c', c < c' -> virtual_cost c < virtual_cost c') ->
     forall c c', c <= c' -> low <= virtual_cost c -> virtual_cost c' <= high ->
     choice (virtual_cost c') i <= choice (virtual_cost c) i).

(* The proofs, which need not be read *)

(* The objective is a line in seller i's virtual cost *)
Lemma line n g gamma psi i z z' bought : (i < n)%nat ->
  objective n g gamma (with_own psi i z') bought = objective n g gamma (with_own psi i z) bought + gamma * bought i * (z' - z).
Proof.
  intros hi. unfold objective.
  assert (e : total n (fun j => with_own psi i z' j * bought j) - total n (fun j => with_own psi i z j * bought j)
      = bought i * (z' - z)).
  { rewrite (total_one n i _ _ hi).
    - unfold with_own. rewrite Nat.eqb_refl. ring.
    - intros j _ ne. unfold with_own. rewrite (proj2 (Nat.eqb_neq j i) ne). reflexivity. }
  replace (gamma * bought i * (z' - z)) with (gamma * (bought i * (z' - z))) by ring. rewrite <- e. ring.
Qed.

Theorem minimisers_never_rise : minimisers_never_rise_statement.
Proof.
  intros n possible g gamma psi i low high choice hi gamma0 fixed V.
  assert (slope : forall z z', low <= z <= high -> low <= z' <= high -> V z' <= V z + gamma * choice z i * (z' - z)).
  { intros z z' hz hz'. unfold V, least. rewrite <- line by auto.
    apply (fixed z' hz'). apply (fixed z hz). }
  assert (falls : forall z z', low <= z -> z <= z' -> z' <= high -> choice z' i <= choice z i).
  { intros z z' h1 h2 h3. destruct (Req_dec z z') as [->|ne]; [lra|].
    pose proof (slope z z' ltac:(lra) ltac:(lra)). pose proof (slope z' z ltac:(lra) ltac:(lra)).
    apply Rnot_lt_le. intros up. pose proof (Rmult_lt_0_compat (gamma * (z' - z)) (choice z' i - choice z i)).
    assert (0 < gamma * (z' - z)) by (apply Rmult_lt_0_compat; lra). lra. }
  split; [|split; [|split; [|split]]]; auto.
  - intros z z' t hz hz' ht. set (m := t * z + (1 - t) * z').
    assert (hm : low <= m <= high).
    { unfold m. assert (0 <= t * (z - low)) by (apply Rmult_le_pos; lra). assert (0 <= t * (high - z)) by (apply Rmult_le_pos; lra).
      assert (0 <= (1 - t) * (z' - low)) by (apply Rmult_le_pos; lra). assert (0 <= (1 - t) * (high - z')) by (apply Rmult_le_pos; lra). lra. }
    pose proof (slope m z hm hz). pose proof (slope m z' hm hz').
    assert (t * V z <= t * (V m + gamma * choice m i * (z - m))) by (apply Rmult_le_compat_l; lra).
    assert ((1 - t) * V z' <= (1 - t) * (V m + gamma * choice m i * (z' - m))) by (apply Rmult_le_compat_l; lra).
    assert (t * (gamma * choice m i * (z - m)) + (1 - t) * (gamma * choice m i * (z' - m)) = 0) by (unfold m; ring). lra.
  - intros z l hz d. apply cond_eq. intros eps e0. destruct (d eps e0) as ([delta delta0] & h). simpl in h.
    set (s := Rmin (delta / 2) (Rmin (z - low) (high - z))).
    assert (s0 : 0 < s) by (unfold s; repeat apply Rmin_glb_lt; lra).
    assert (s1 : s <= delta / 2) by apply Rmin_l.
    assert (s2 : s <= z - low) by (unfold s; eapply Rle_trans; [apply Rmin_r|apply Rmin_l]).
    assert (s3 : s <= high - z) by (unfold s; eapply Rle_trans; [apply Rmin_r|apply Rmin_r]).
    pose proof (h s ltac:(lra) ltac:(rewrite Rabs_right; lra)) as up.
    pose proof (h (- s) ltac:(lra) ltac:(rewrite Rabs_left; lra)) as down.
    pose proof (slope z (z + s) ltac:(lra) ltac:(lra)) as lu. pose proof (slope z (z + - s) ltac:(lra) ltac:(lra)) as ld.
    assert (qu : (V (z + s) - V z) / s <= gamma * choice z i).
    { apply Rmult_le_reg_r with s; auto. field_simplify; lra. }
    assert (qd : gamma * choice z i <= (V (z + - s) - V z) / - s).
    { replace ((V (z + - s) - V z) / - s) with ((V z - V (z + - s)) / s) by (field; lra).
      apply Rmult_le_reg_r with s; auto. field_simplify; lra. }
    apply Rabs_def2 in up. apply Rabs_def2 in down. apply Rabs_def1; lra.
  - intros psi_i inc c c' le h1 h2. apply falls; auto.
    destruct (Req_dec c c') as [->|ne]; [lra|left; apply inc; lra].
Qed.

(* One seller, the loss (1 - e)^2 and the factor 1: she sells 1 - zeta / 2 *)
Example one_seller : fixed_choice 1 (fun _ => True) (fun e => (1 - e 0%nat) ^ 2) 1 (fun _ => 0) 0 0 2 (fun z _ => 1 - z / 2).
Proof.
  intros z hz. split; [exact I|]. intros other _. unfold objective, with_own. simpl.
  pose proof (pow2_ge_0 (other 0%nat - (1 - z / 2))). nra.
Qed.

Print Assumptions minimisers_never_rise.
