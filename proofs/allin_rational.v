(* Rational numbers, in which the rule of All-in computes. *)
Require Import QArith.
Require Import allin_rule.

(* What has to be read *)

(* The rule of allin_rule.v, in rational numbers; Qred takes a fraction to lowest terms *)
#[global] Instance rational : Number Q := {|
  zero := 0%Q;
  add a b := Qred (a + b);
  mul a b := Qred (a * b);
  div a b := Qred (a / b);
  leb := Qle_bool
|}.

(* The proofs, which need not be read: there are none *)
