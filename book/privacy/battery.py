r"""All checks of one learner at once, and what they say of a mutant of :mod:`hdpm_book.privacy.mutants`.

Seven checks look at the learner in different ways.

- *budget*: the promise, from the learner's own numbers by formulas typed anew.
- *meter*: the exact loss between neighbours, most of them tight instances, at the rate or scale it states.
- *noise law*: the law of the noise in a release, once an estimate computed apart is taken out.
- *bit test*: right guesses of a random bit, from releases alone.
- *centre*: the part without noise, against another computation.
- *repeats*: noise that comes back, with either sign.
- *grid*: noise that has fewer digits than a double.

A check never sees which bug is there. The levels of noise law and bit test come from `FALSE_ALARM` in
:mod:`hdpm_book.ledger`; the other checks draw hardly anything at random and are exact but for rounding.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hdpm_book.privacy.benches import GRADIENTS_BENCH, LOGISTIC_BENCH, RIDGE_BENCH, SUM_BENCH
from hdpm_book.privacy.mutants import (
    BITS,
    BUDGET,
    CENTRE,
    CHECKS,
    GRID,
    LAW,
    LEARNERS,
    METER,
    MUTANTS,
    PRIVACY,
    REPEATS,
    Mutant,
)
from hdpm_lib.audits.digits import on_grid
from hdpm_lib.audits.laws import smallest_p
from hdpm_lib.validation import FALSE_ALARM, check_choice

Generator = np.random.Generator

BENCHES = dict(zip(LEARNERS, (RIDGE_BENCH, LOGISTIC_BENCH, SUM_BENCH, GRADIENTS_BENCH), strict=True))
DRAWS = (100, 1000, 10_000)  # of the noise law, one after the other, until it objects
ROUNDING = 1e-9  # by how much a ratio may exceed 1
CENTRE_LIMIT = 1e-6  # of the error of the part without noise, in units of the noise


@dataclass(frozen=True)
class Report:
    """What the checks found.

    Attributes
    ----------
    learner : str
    budget, meter : float
        Largest ratio of a loss to its promise: what the numbers imply, and what the meter found.
    centre : float
        Error of the part without noise, times the noise rate.
    p_values : dict
        Of the noise law, by numbers of draws.
    bits : dict
        P-values of the bit tests, by numbers of runs.
    repeats, single : int
        Of a hundred draws, those that came back, and those in single precision.
    """

    learner: str
    budget: float
    meter: float
    centre: float
    p_values: Mapping[int, float]
    bits: Mapping[int, float]
    repeats: int
    single: int

    @property
    def needed(self) -> dict[str, int]:
        """Checks that object, with the number of draws or runs that it took; 0 for those that need none."""
        drawn = [n for n, p in self.p_values.items() if p < FALSE_ALARM / len(DRAWS)]
        guessed = [n for n, p in self.bits.items() if p < FALSE_ALARM / len(BENCHES[self.learner].runs)]
        found = {
            BUDGET: 0 if self.budget > 1 + ROUNDING else None,
            METER: 0 if self.meter > 1 + ROUNDING else None,
            LAW: drawn[0] if drawn else None,
            BITS: guessed[0] if guessed else None,
            CENTRE: 0 if self.centre > CENTRE_LIMIT else None,
            REPEATS: DRAWS[0] if self.repeats else None,
            GRID: DRAWS[0] if self.single else None,
        }
        return {check: draws for check in CHECKS if (draws := found[check]) is not None}


def run(mutant: Mutant, *, rng: Generator) -> Report:
    """What the checks say of a mutant.

    Examples
    --------
    >>> from hdpm_book.privacy.mutants import find_mutant
    >>> run(find_mutant("sum", "scale 1/b"), rng=np.random.default_rng(0)).needed
    {'noise law': 100, 'bit test': 1000}
    """
    with mutant.apply():
        return audit_learner(mutant.learner, rng=rng)


def audit_learner(learner: str, *, rng: Generator) -> Report:
    """What the checks say of a learner, one of `hdpm_book.privacy.mutants.LEARNERS`, as it is at present.

    Examples
    --------
    >>> audit_learner("sum", rng=np.random.default_rng(0)).needed
    {}
    """
    check_choice(learner, "learner", tuple(BENCHES))
    bench, p_values = BENCHES[learner], {}
    for draws in DRAWS:
        noise = bench.noise(draws, rng)
        p_values[draws] = smallest_p(bench.law(noise))
        if draws == DRAWS[0]:
            sizes = np.abs(noise) / np.abs(noise).mean()
            repeats = draws - len(np.unique(np.round(sizes, 9), axis=0))
        if p_values[draws] < FALSE_ALARM / len(DRAWS):
            break
    bits = {}
    for runs in bench.runs:
        tests = bench.bits(runs, rng)
        bits[runs] = min(1.0, len(tests) * min(test.p_value for test in tests))
        if bits[runs] < FALSE_ALARM / len(bench.runs):
            break
    plain = bench.plain(DRAWS[0], rng)
    single = int(on_grid(plain, 0.0, np.float32).all(axis=1).sum())
    exact = bench.budget(), bench.meter(), bench.centre()
    return Report(learner, *exact, p_values, bits, repeats, single)


@dataclass(frozen=True)
class Survey:
    """What the checks found in all mutants: for each the checks that object, with the draws they needed."""

    needed: tuple[Mapping[str, int], ...]

    @property
    def seen(self) -> list[tuple[Mutant, Mapping[str, int]]]:
        """Harmful mutants that have to be caught."""
        return [(m, found) for m, found in zip(MUTANTS, self.needed, strict=True) if m.caught_by]

    @property
    def harmless(self) -> list[tuple[Mutant, Mapping[str, int]]]:
        """Mutants that do no harm."""
        return [(m, found) for m, found in zip(MUTANTS, self.needed, strict=True) if not m.harm]

    @property
    def unseen(self) -> list[tuple[Mutant, Mapping[str, int]]]:
        """Harmful mutants that nothing is expected to catch."""
        return [(m, found) for m, found in zip(MUTANTS, self.needed, strict=True) if m.harm and not m.caught_by]

    def counts(self) -> dict[str, tuple[int, int]]:
        """Of each kind of mutant: those for which the checks say what the catalogue says, and all."""
        right = {
            "harmful, caught by every check that had to": [set(m.caught_by) <= set(found) for m, found in self.seen],
            "harmless, no check of privacy objects": [not set(found) & set(PRIVACY) for _, found in self.harmless],
            "harmful, passed as expected": [not found for _, found in self.unseen],
        }
        return {kind: (sum(values), len(values)) for kind, values in right.items()}

    def table(self, learner: str) -> pd.DataFrame:
        """All mutants of a learner, the checks that have to object, with the draws they needed, and the others."""
        rows = {
            m.name: {
                "caught by": _words(found, m.caught_by) or "nothing" * m.harm,
                "harm": "yes" if m.harm else "no",
                "also object": _words(found, [c for c in found if c not in m.caught_by]),
            }
            for m, found in zip(MUTANTS, self.needed, strict=True)
            if m.learner == learner
        }
        return pd.DataFrame(rows).T.sort_values("harm", ascending=False, kind="stable")

    def groups(self) -> pd.Series:
        """Sets of checks that object together to a harmful mutant, and for how many they do."""
        sets = pd.Series([tuple(found) for _, found in self.seen]).value_counts()
        return sets.loc[sorted(sets.index, key=lambda group: (len(group), [CHECKS.index(c) for c in group]))]

    def by_check(self) -> pd.DataFrame:
        """Of the harmful mutants: caught, missed, and caught by no other check."""
        rows = {}
        for check in CHECKS:
            caught = [found for _, found in self.seen if check in found]
            alone = sum(len(found) == 1 for found in caught)
            rows[check] = {"catches": len(caught), "misses": len(self.seen) - len(caught), "alone": alone}
        return pd.DataFrame(rows).T

    def best_sets(self) -> pd.DataFrame:
        """The set of checks of each size that catches most, and how many."""
        rows = {}
        for size in range(1, len(CHECKS) + 1):
            best = max(itertools.combinations(CHECKS, size), key=self._caught)
            rows[size] = {"catches": self._caught(best), "checks": ", ".join(best)}
        return pd.DataFrame(rows).T.rename_axis("size")

    def _caught(self, group: tuple[str, ...]) -> int:
        return sum(bool(set(group) & set(found)) for _, found in self.seen)


def survey() -> Survey:
    """Run all checks on every mutant."""
    return Survey(tuple(run(mutant, rng=np.random.default_rng([2, k])).needed for k, mutant in enumerate(MUTANTS)))


SHORT = dict(zip(CHECKS, "budget meter law bits centre repeats grid".split(), strict=True))


def _words(found: Mapping[str, int], checks: Iterable[str]) -> str:
    """Checks in a word each, those that draw with the number that they needed."""
    count = {0: "", 1000: " 10³", 10_000: " 10⁴", 100_000: " 10⁵"}
    return ", ".join(SHORT[c] + count.get(found[c], f" {found[c]}") for c in checks)
