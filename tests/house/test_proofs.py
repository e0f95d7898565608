"""The files that Rocq checks: each is of a label or a claim, stands on its page, rests on what the
table says, and has something wrong to plant. ``make proofs`` has Rocq check them; the rule of
All-in that they speak of pays what the library pays.
"""

from __future__ import annotations

import doctest
import random
import re
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import indexes
import numpy as np
import proved
import pytest

from hdpm_book import ledger
from hdpm_lib.auctions.allin import all_or_nothing
from tests import proofs

LOOKS_AT = ["book", "data/claims", "proofs", "tests/proofs.py"]
ROOT = Path(__file__).resolve().parents[2]
FILES = proved.read()
RESULTS = [name for name, proof in FILES.items() if proof.is_result]
PAGES = {
    path: path.read_text(encoding="utf8")
    for path in (ROOT / "book").rglob("*.md")
    if "_ext" not in path.parts
}
needs_rocq = pytest.mark.skipif(shutil.which("coqc") is None, reason=proofs.INSTALL)


def test_examples() -> None:
    for module in (proved, proofs):
        assert doctest.testmod(module).failed == 0 < doctest.testmod(module).attempted


# --- what the files say -------------------------------------------------------------------------


def file_complaints(proof: proved.Proof) -> list[str]:
    """Find what a file lacks: its two parts, statements in the first, axioms printed at the end."""
    found = [f"has the word {word}" for word in proofs.unproved(proof.text)]
    for mark in (proved.READ, proved.PROOFS):
        if proof.text.count(mark) != 1 and (proof.is_result or proof.statement):
            found.append(f"has not once: {mark}")
    proven = re.findall(r"(?m)^Theorem (\w+)", proof.text)
    found += [f"does not print axioms: {name}" for name in proven if name not in proof.theorems]
    if not proof.is_result:
        return found
    if not proof.theorems:
        found.append("has no theorem")
    for name in proof.theorems:
        stated = re.search(rf"(?m)^Theorem {name} : (\w+)\.$", proof.text)
        if stated is None or f"Definition {stated[1]} : Prop :=" not in proof.statement:
            found.append(f"does not state above the proofs: {name}")
    return found


@pytest.mark.parametrize("name", FILES)
def test_file_says_first_what_has_to_be_read(name: str) -> None:
    assert file_complaints(FILES[name]) == []


GOOD = """(* x-thm-y: two. Claim: none. *)
(* What has to be read *)
Definition two : Prop := 1 + 1 = 2.
(* The proofs, which need not be read *)
Theorem sum : two.
Proof. reflexivity. (* no Axiom (* is *) Admitted *) Qed.
Print Assumptions sum.
"""


@pytest.mark.parametrize(
    ("text", "to", "complaint"),
    [
        ("reflexivity.", "Admitted.", "has the word Admitted"),
        ("Theorem sum", "Axiom more : False.\nTheorem sum", "has the word Axiom"),
        ("Print Assumptions sum.", "", "does not print axioms: sum"),
        ("Definition two : Prop := 1 + 1 = 2.\n", "", "does not state above the proofs: sum"),
        ("(* What has to be read *)", "", "has not once: (* What has to be read"),
    ],
)
def test_a_bad_file_is_found(text: str, to: str, complaint: str) -> None:
    assert file_complaints(proved.Proof("x_thm_y", GOOD)) == []
    bad = GOOD.replace(text, to)
    assert complaint in file_complaints(proved.Proof("x_thm_y", bad))


# --- labels, claims, pages and axioms -----------------------------------------------------------


def test_each_result_is_of_a_label_or_a_claim_and_stands_on_its_page() -> None:
    claims = {claim.id: claim.page for claim in ledger.load()}
    complaints = []
    for name in RESULTS:
        label = FILES[name].label
        shown = [path for path, text in PAGES.items() if label in proved.SHOWN.findall(text)]
        boxes = [path for path, text in PAGES.items() if label in dict(indexes.theorems(text))] or [
            ROOT / "book" / f"{claims.get(label, 'nowhere')}.md"
        ]
        if shown != boxes:
            complaints.append(f"{label} is shown on {shown}, not on {boxes}")
    assert RESULTS and complaints == []


def test_pages_show_no_other_files() -> None:
    shown = [label for text in PAGES.values() for label in proved.SHOWN.findall(text)]
    assert sorted(shown) == sorted(FILES[name].label for name in RESULTS)


def test_the_table_of_axioms_has_each_file_with_theorems() -> None:
    table = proved.axioms()
    assert list(table) == [name for name, proof in FILES.items() if proof.theorems]
    assert {axiom for axioms in table.values() for axiom in axioms} <= proved.AXIOMS.keys()


def test_each_result_has_something_wrong_to_plant() -> None:
    faults = proofs.wrong_statements()
    for fault in faults:
        assert FILES[fault["file"].removesuffix(".v")].text.count(fault["from"]) == 1, fault
    broken = {fault["breaks"].removesuffix(".v") for fault in faults}
    assert set(RESULTS) <= broken <= FILES.keys()


def test_what_a_reader_needs_comes_first() -> None:
    names = [proof.name for proof in proved.to_read(FILES["idea_thm_sensitivity"], FILES)]
    assert names == ["totals", "vectors", "ridge_estimate", "idea_thm_sensitivity"]
    assert proved.lines(FILES["flm_prop2"].statement) < 60


# --- Rocq ---------------------------------------------------------------------------------------


@needs_rocq
@pytest.mark.parametrize(
    ("text", "to", "rests"),
    [
        ("", "", []),
        ("reflexivity. (* no Axiom (* is *) Admitted *) Qed.", "Admitted.", ["sum"]),
        ("Theorem sum", "Variable sure : two.\nTheorem sum", ["sure"]),
    ],
    ids=["good", "admitted", "assumed"],
)
def test_rocq_says_what_a_file_rests_on(
    tmp_path: Path, text: str, to: str, rests: list[str]
) -> None:
    bad = GOOD.replace(text, to) if text else GOOD
    if rests == ["sure"]:
        bad = bad.replace("reflexivity.", "exact sure.")
    planted = {"x_thm_y": proved.Proof("x_thm_y", bad)}
    proofs.build(["x_thm_y"], planted, tmp_path)
    complaints = proofs.complaints(planted, tmp_path)
    assert [words for words in complaints if "rests on" in words] == [
        f"x_thm_y.v rests on {axiom}" for axiom in rests
    ]


@needs_rocq
def test_a_wrong_statement_that_can_be_proved_is_found(tmp_path: Path) -> None:
    planted = {"x_thm_y": proved.Proof("x_thm_y", GOOD)}
    proofs.build(["x_thm_y"], planted, tmp_path / "proofs")
    fault = {"file": "x_thm_y.v", "from": "1 + 1 = 2", "breaks": "x_thm_y.v"}
    said = [
        proofs.survives(fault | {"to": to}, planted, tmp_path / "proofs")
        for to in ("1 + 1 = 3", "2 = 2", "1 + 1 = two two")
    ]
    assert said[0] is None
    assert "is proved with '2 = 2'" in str(said[1]) and "is no statement" in str(said[2])


def fraction(number: Fraction) -> str:
    """Write a fraction for Rocq."""
    return f"({number.numerator} # {number.denominator})"


def auctions(count: int) -> list[tuple[list[Fraction], list[Fraction], Fraction]]:
    """Draw valuations, amounts and budgets that floats hold exactly, with ties and zeros."""
    rng = random.Random(7)
    drawn = []
    for _ in range(count):
        n = rng.randint(1, 7)
        valuations = [Fraction(rng.randint(0, 12), rng.choice([1, 2, 4])) for _ in range(n)]
        amounts = [Fraction(rng.randint(1, 8), rng.choice([1, 2, 4])) for _ in range(n)]
        drawn.append((valuations, amounts, Fraction(rng.randint(1, 60), 4)))
    return drawn


def paid_by_rocq(
    drawn: list[tuple[list[Fraction], list[Fraction], Fraction]],
) -> list[list[Fraction]]:
    """Have Rocq compute the payments of the rule that the theorems speak of."""
    lines = ["Require Import QArith List allin_computes.", "Import ListNotations."]
    lines += ["Open Scope Q_scope.", "Set Printing Width 100000."]
    for valuations, amounts, budget in drawn:
        v = "; ".join(map(fraction, valuations))
        x = "; ".join(map(fraction, amounts))
        run = f"run [{v}] [{x}] {fraction(budget)}"
        # numerators and denominators: Rocq prints some fractions in another base
        lines.append(f"Compute map (fun q => (Qnum q, Zpos (Qden q))) ({run}).")
    proofs.build(["allin_computes"], FILES)
    case = proofs.BUILD / "drawn_auctions.v"
    case.write_text("\n".join(lines), encoding="utf8")
    command = ["coqc", case.name]
    printed = subprocess.run(command, cwd=case.parent, capture_output=True, text=True, check=True)
    paid = []
    for found in re.findall(r"= \[(.*?)\]", printed.stdout, re.DOTALL):
        pairs = re.findall(r"\((-?\d+), (\d+)\)", found.replace("%Z", "").replace("%positive", ""))
        paid.append([Fraction(int(top), int(bottom)) for top, bottom in pairs])
    return paid


@needs_rocq
def test_the_rule_of_the_theorem_is_the_rule_of_the_library() -> None:
    count = 2000
    drawn = auctions(count)
    exact = paid_by_rocq(drawn)
    assert len(exact) == count
    ties, zeros, alone, winners = 0, 0, 0, 0
    for (valuations, amounts, budget), payments in zip(drawn, exact, strict=True):
        sale = all_or_nothing(np.array(valuations, float), np.array(amounts, float), float(budget))
        # the library keeps some last digits of the budget
        assert np.allclose(sale.payments, np.array(payments, float), rtol=0, atol=1e-13 * budget)
        assert sum(payments) <= budget
        asks = [v / x for v, x in zip(valuations, amounts, strict=True)]
        ties += len(set(asks)) < len(asks)
        zeros += 0 in valuations
        alone += len(asks) == 1
        winners += int((sale.privacy_loss > 0).sum())
    assert min(ties, zeros, alone) > 100 and winners > count
