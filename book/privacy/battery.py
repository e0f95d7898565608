r"""All checks of one learner at once, and what they say of a mutant of :mod:`hdpm_book.privacy.mutants`.

Seven checks look at each setting of the learner (:mod:`hdpm_book.privacy.benches`) in different ways.

- *budget*: the promise, from the learner's own numbers by formulas typed anew.
- *meter*: the exact loss between neighbours, most of them tight instances, at the rate or scale it states.
- *noise law*: the law of the noise in a release, once an estimate computed apart is taken out.
- *bit test*: right guesses of a random bit, from releases alone.
- *centre*: the part without noise, and the rate and the promises that are told, against another computation.
- *repeats*: noise that comes back, with either sign.
- *grid*: noise that has fewer digits than a double.

A check never sees which bug is there. The levels of noise law, bit test and grid come from `FALSE_ALARM` in
:mod:`hdpm_lib.validation`, shared by all settings of a learner; the other checks draw hardly anything at random and are
exact but for rounding. An error of the learner is an objection as well, as every setting is within its bounds.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hdpm_book.privacy import (
    benches_estimators,
    benches_gradients,
    benches_logistic,
    benches_means,
    benches_ridge,
    benches_sums,
    benches_variants,
)
from hdpm_book.privacy.benches import LOOKS, Setting, missing_digits
from hdpm_book.privacy.laws import smallest_p
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
from hdpm_book.records import provenance
from hdpm_lib.spread import each
from hdpm_lib.validation import FALSE_ALARM, check_choice

Generator = np.random.Generator

DRAWS = LOOKS  # of the noise law, one after the other, until it objects
LEVEL = FALSE_ALARM / 4  # of one look of the noise law or the bit test: no learner has more
STUDY = Path(str(resources.files("hdpm_book.data") / "studies" / "mutants.json"))
ROUNDING = 1e-9  # by how much a ratio may exceed 1
EXACT = {BUDGET: 1 + ROUNDING, METER: 1 + ROUNDING, CENTRE: 1.0}

_SETTINGS: dict[str, Sequence[Callable[[], list[Setting]]]] = {
    "ridge": (benches_ridge.output_settings,),
    "sampling": (benches_ridge.sampled_settings,),
    "variants": (benches_variants.moment_settings, benches_variants.constant_settings),
    "lattice": (benches_variants.lattice_settings,),
    "logistic": (benches_logistic.settings,),
    "sum": (benches_sums.settings,),
    "mean": (benches_means.settings,),
    "gradients": (benches_gradients.settings,),
    "integers": (benches_sums.whole_settings, benches_gradients.whole_settings),
    "estimators": (benches_estimators.settings,),
}


@cache
def settings(learner: str) -> tuple[Setting, ...]:
    """All settings of a learner, one of `hdpm_book.privacy.mutants.LEARNERS`."""
    check_choice(learner, "learner", LEARNERS)
    return tuple(setting for made in _SETTINGS[learner] for setting in made())


@dataclass(frozen=True)
class Report:
    """What the checks found.

    Attributes
    ----------
    learner : str
    budget, meter, centre : float
        Largest of all settings: ratios of a loss to its promise, as the numbers imply it and as the meter found it; and
        errors of what is not noise, in units of what is allowed.
    p_values, bits : dict
        Of the noise law, by numbers of draws, and of the bit test, by numbers of runs: the smallest p-value times the
        number of settings.
    repeats : int
        Draws that came back.
    digits : float
        Smallest p-value of the digits that noise lacks, times the number of settings.
    where : dict
        For each check the setting in which it found most.
    """

    learner: str
    budget: float
    meter: float
    centre: float
    p_values: Mapping[int, float]
    bits: Mapping[int, float]
    repeats: int
    digits: float
    where: Mapping[str, str] = field(default_factory=dict)

    @property
    def needed(self) -> dict[str, int]:
        """Checks that object, with the number of draws or runs that it took; 0 for those that need none."""
        drawn = [n for n, p in self.p_values.items() if p < LEVEL]
        guessed = [n for n, p in self.bits.items() if p < LEVEL]
        found = {
            BUDGET: 0 if self.budget > EXACT[BUDGET] else None,
            METER: 0 if self.meter > EXACT[METER] else None,
            LAW: drawn[0] if drawn else None,
            BITS: guessed[0] if guessed else None,
            CENTRE: 0 if self.centre > EXACT[CENTRE] else None,
            REPEATS: DRAWS[0] if self.repeats else None,
            GRID: DRAWS[0] if self.digits < FALSE_ALARM else None,
        }
        return {check: draws for check in CHECKS if (draws := found[check]) is not None}


def run(mutant: Mutant, *, rng: Generator, checks: Collection[str] = CHECKS) -> Report:
    """What the checks, all or some, say of a mutant.

    Examples
    --------
    >>> from hdpm_book.privacy.mutants import find_mutant
    >>> run(find_mutant("sum", "scale 1/b"), rng=np.random.default_rng(0)).needed
    {'noise law': 100, 'bit test': 1000}
    """
    with mutant.apply():
        return audit_learner(mutant.learner, rng=rng, checks=checks)


def audit_learner(learner: str, *, rng: Generator, checks: Collection[str] = CHECKS) -> Report:
    """What the checks say of a learner, one of `hdpm_book.privacy.mutants.LEARNERS`, as it is at present.

    A check that has objected looks at no further setting; one that is not asked for finds nothing.

    Examples
    --------
    >>> audit_learner("sum", rng=np.random.default_rng(0)).needed
    {}
    """
    each, where = settings(learner), dict[str, str]()
    exact = {check: _largest(each if check in checks else (), check, where) for check in EXACT}
    p_values, repeats = _laws(each if {LAW, REPEATS} & set(checks) else (), rng, where)
    bits = _bits(each if BITS in checks else (), rng, where)
    digits = _digits(each if GRID in checks else (), rng, where)
    return Report(learner, exact[BUDGET], exact[METER], exact[CENTRE], p_values, bits, repeats, digits, where)


def objection(learner: str, *, rng: Generator) -> tuple[str, str] | None:
    """The first check of a learner that objects, the quick ones before the others, and in which setting; or None."""
    for checks in ((BUDGET,), (CENTRE,), (METER,), (GRID,), (LAW, REPEATS), (BITS,)):
        found = audit_learner(learner, rng=rng, checks=checks)
        if found.needed:
            check = next(iter(found.needed))
            return check, found.where.get(check, "")
    return None


def _largest(each: Sequence[Setting], check: str, where: dict[str, str]) -> float:
    """The largest number that an exact check finds in any setting; infinite for an error, or what is no number."""
    largest = 0.0
    for setting in each:
        if (look := getattr(setting, check)) is None:
            continue
        value = _tried(look, np.inf) / (setting.tolerance if check == CENTRE else 1.0)
        if not value <= largest:
            largest, where[check] = (np.inf if np.isnan(value) else value), setting.name
        if largest > EXACT[check]:
            break
    return float(largest)


def _tried(look: Callable[..., Any], otherwise: float, *given: Any) -> Any:
    """What a look gives, or for an error the number that objects; warnings do not count."""
    try:
        with np.errstate(all="ignore"):
            return look(*given)
    except Exception:
        return otherwise


def _laws(each: Sequence[Setting], rng: Generator, where: dict[str, str]) -> tuple[dict[int, float], int]:
    """P-values of the noise law by numbers of draws, and draws of each setting's first look that came back."""
    counts = sorted({draws for setting in each if setting.noise is not None for draws in setting.draws})
    found, repeats = dict.fromkeys(counts, 1.0), 0
    for draws in counts:
        looking = [setting for setting in each if setting.noise is not None and draws in setting.draws]
        for setting in looking:

            def look(setting: Setting = setting, draws: int = draws) -> tuple[float, int]:
                assert setting.noise is not None and setting.law is not None
                noise = setting.noise(draws, rng)
                return smallest_p(setting.law(noise)), _again(noise, setting.digits) if setting.repeats else 0

            result = _tried(look, np.nan)
            p, again = result if isinstance(result, tuple) else (0.0, 0)
            if again and not repeats:
                where[REPEATS] = setting.name
            repeats += again
            if p * len(looking) < found[draws]:
                found[draws] = p * len(looking)
                where[LAW] = setting.name
            if found[draws] < LEVEL:
                break
        if found[draws] < LEVEL:
            return {n: found[n] for n in counts if n <= draws}, repeats
    return found, repeats


def _again(noise: Any, digits: int) -> int:
    """How many rows of noise stood before, with either sign; single numbers may if there are many."""
    draws, d = noise.shape
    if draws > 1000 or (d == 1 and draws > DRAWS[0]):
        return 0
    sizes = np.abs(noise) / np.abs(noise).mean()
    return draws - len(np.unique(np.round(sizes, digits if d > 1 else 12), axis=0))


def _bits(each: Sequence[Setting], rng: Generator, where: dict[str, str]) -> dict[int, float]:
    """P-values of the bit test by numbers of runs."""
    counts = sorted({runs for setting in each if setting.bits is not None for runs in setting.runs})
    found = dict.fromkeys(counts, 1.0)
    for runs in counts:
        looking = [setting for setting in each if setting.bits is not None and runs in setting.runs]
        for setting in looking:
            tests = _tried(setting.bits, np.nan, runs, rng)  # type: ignore[arg-type]
            p = len(tests) * min(test.p_value for test in tests) if isinstance(tests, list) else 0.0
            if p * len(looking) < found[runs]:
                found[runs] = p * len(looking)
                where[BITS] = setting.name
            if found[runs] < LEVEL:
                break
        if found[runs] < LEVEL:
            return {n: found[n] for n in counts if n <= runs}
    return found


def _digits(each: Sequence[Setting], rng: Generator, where: dict[str, str]) -> float:
    """The p-value of missing digits."""
    looking, found = [setting for setting in each if setting.plain is not None], 1.0
    for setting in looking:

        def look(setting: Setting = setting) -> float:
            assert setting.plain is not None
            return missing_digits(setting.plain(DRAWS[0], rng))

        if (p := len(looking) * _tried(look, 0.0)) < found:
            found, where[GRID] = p, setting.name
        if found < FALSE_ALARM:
            break
    return found


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


def survey(*, every: bool = False) -> Survey:
    """Run the checks on every mutant: those that must object, or must not, or with `every` all, which takes minutes."""
    return Survey(tuple(each(_needed, range(len(MUTANTS)), every)))


def _needed(k: int, every: bool) -> dict[str, int]:
    """What a mutant needs to be caught; it has a seed of its own."""
    mutant = MUTANTS[k]
    checks = CHECKS if every else mutant.caught_by or (CHECKS if mutant.harm else PRIVACY)
    return run(mutant, rng=np.random.default_rng([2, k]), checks=checks).needed


def recorded() -> Survey:
    """What all checks said of every mutant when ``python -m hdpm_book.privacy.battery`` was last run."""
    found = json.loads(STUDY.read_text("utf8"))["needed"]
    if list(found) != [_title(mutant) for mutant in MUTANTS]:
        raise LookupError(f"{STUDY.name} is about other mutants: run python -m hdpm_book.privacy.battery")
    return Survey(tuple(found.values()))


def _title(mutant: Mutant) -> str:
    return f"{mutant.learner}: {mutant.name}"


def main() -> None:
    """Command line: run all checks on every mutant, and store what they say."""
    began = time.process_time()
    needed = dict(zip(map(_title, MUTANTS), survey(every=True).needed, strict=True))
    record = provenance("numpy", "scipy") | {
        "command": "python -m hdpm_book.privacy.battery",
        "cpu_seconds": round(time.process_time() - began),
        "needed": needed,
    }
    STUDY.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf8")


SHORT = dict(zip(CHECKS, "budget meter law bits centre repeats grid".split(), strict=True))


def _words(found: Mapping[str, int], checks: Iterable[str]) -> str:
    """Checks in a word each, those that draw with the number that they needed."""
    count = {0: "", 1000: " 10³", 10_000: " 10⁴", 100_000: " 10⁵"}
    return ", ".join(SHORT[c] + count.get(found[c], f" {found[c]}") for c in checks)


if __name__ == "__main__":
    main()
