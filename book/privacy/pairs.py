"""Every pair of neighbours of small domains, for the mechanisms that compute in whole numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from hdpm_book.privacy.listed import farthest_moves
from hdpm_book.privacy.mutants import LEARNERS, MUTANTS, Mutant
from hdpm_lib.learners import integer_answers, lattice
from hdpm_lib.validation import check_choice

LISTED = tuple(learner for learner in LEARNERS if learner in ("lattice", "integers"))


@dataclass(frozen=True)
class Pairs:
    """What the list of one setting says.

    Attributes
    ----------
    name : str
    data_sets, pairs : int
    share : float
        The largest loss of any pair over what is promised to whose record is replaced; infinite if noise tells of data.
    """

    name: str
    data_sets: int
    pairs: int
    share: float


def sums() -> Iterator[Pairs]:
    """Weighted sums of three data, with options; clipped data lie outside their interval too, or are no numbers."""
    shares = [1.0, 0.5, 0.25]
    inside, outside = [0.0, 0.3, 0.5, 1.0], [-2.0, 0.0, 0.3, 1.0, 7.0, math.nan]
    ways: dict[str, dict[str, Any]] = {
        "sum": {},
        "sum, weights": {"weights": (1.0, -2.0, 0.3)},
        "sum, one level": {"levels": 1},
        "sum, coarse": {"levels": 3, "spacing": 2.0**-5},
        "sum, clip": {"weights": (1.0, -2.0, 0.3), "levels": 7, "clip": True},
    }
    for name, options in ways.items():
        made = integer_answers.integer_sum(shares, 0.3, **options)
        values = outside if "clip" in options else inside

        def total(data: tuple[Any, ...], made: integer_answers.IntegerSum = made) -> tuple[int, Fraction]:
            return made.sum(np.array(data)), made.scale

        moves = farthest_moves(total, [values] * 3)
        exact = [Fraction(abs(q)) for q in options.get("weights", (1.0,) * 3)]
        real = [Fraction(a) * q / Fraction(0.3) for a, q in zip(shares, exact, strict=True)]
        most = [min(told, real_) for told, real_ in zip(made.privacy_loss, real, strict=True)]
        lost = [Fraction(far) / made.scale for far in moves.farthest]
        yield _pairs(name, moves, max((x / y for x, y in zip(lost, most, strict=True)), default=Fraction(0)))


def gradients() -> Iterator[Pairs]:
    """All gradients of three coordinates, long, short and not finite; the noise is for twice the clip norm in steps."""
    for clip_norm, spacing in ((1.0, 0.125), (1.0, 2.0**-20), (0.3, 0.0625)):
        values = list(itertools.product([-5.0, -0.3, 0.0, 0.11, 0.3, 5.0, math.inf], repeat=3))
        most = math.floor(Fraction(clip_norm) / Fraction(spacing))

        def steps(data: tuple[Any, ...], clip_norm: float = clip_norm, spacing: float = spacing) -> tuple[Any, int]:
            return integer_answers.grid_gradients([data[0]], clip_norm, spacing), 0

        moves = farthest_moves(steps, [values])
        yield _pairs(
            f"gradient, clip norm {clip_norm:g}, spacing {spacing:.3g}", moves, Fraction(moves.farthest[0], 2 * most)
        )


def lattices() -> Iterator[Pairs]:
    """Ridge regressions of two or three records in one dimension and two."""
    epsilon = [0.5, 2.0, 1.0]
    ways: tuple[tuple[str, int, int, float, dict[str, Any]], ...] = (
        ("lattice", 3, 1, 2000.0, {}),
        ("lattice, penalty 1", 2, 2, 1.0, {}),
        ("lattice, sharp bound", 2, 2, 50.0, {"bound": "sharp"}),
        ("lattice, small penalty", 2, 2, 0.05, {"bound": "sharp"}),
        ("lattice, bounds", 2, 2, 500.0, {"feature_norm": 1.5, "label_bound": 2.0}),
        ("lattice, clip", 2, 1, 500.0, {"clip": True}),
        ("lattice, coarse", 2, 1, 1.0, {"spacing": 0.125}),
    )
    for name, n, d, penalty, options in ways:
        size = float(options.get("feature_norm", 1.0))
        ends = (
            [0.0, size / 2, size] if d == 1 else [-size / 1.5, size / 1.5] if "feature_norm" in options else [0.0, 1.0]
        )
        a = float(options.get("label_bound", 1.0))
        labels = [-3.0, -a, 0.0, a] if options.get("clip") else [-a, 0.0, a]
        values = list(itertools.product(itertools.product(ends, repeat=d), labels))

        def point(
            data: tuple[Any, ...], penalty: float = penalty, options: dict[str, Any] = options
        ) -> tuple[Any, tuple[Any, ...]]:
            X, y = [x for x, _ in data], [label for _, label in data]
            made = lattice.lattice_ridge(X, y, epsilon[: len(y)], penalty, **options)
            return made.point, (made.rate, *made.privacy_loss.tolist())

        moves = farthest_moves(point, [values] * n, euclidean=True)
        noise: Any = next(iter(moves.noises))
        most = [min(x, y) for x, y in zip(noise[1:], epsilon, strict=False)]
        lost = [float(noise[0]) * math.sqrt(far) for far in moves.farthest]
        yield _pairs(name, moves, Fraction(max(x / y for x, y in zip(lost, most, strict=True))))


def _pairs(name: str, moves: Any, share: Fraction) -> Pairs:
    return Pairs(name, moves.data_sets, moves.pairs, float(share) if len(moves.noises) == 1 else math.inf)


def listed(learner: str) -> list[Pairs]:
    """The lists of a learner, one of `LISTED`, as it is at present."""
    check_choice(learner, "learner", LISTED)
    return list(lattices()) if learner == "lattice" else [*sums(), *gradients()]


def table() -> pd.DataFrame:
    """Every list: numbers of data sets and of pairs, and the largest share of a promise."""
    rows = {
        one.name: {"data sets": f"{one.data_sets:,}", "pairs": f"{one.pairs:,}", "largest share": f"{one.share:.4f}"}
        for learner in LISTED
        for one in listed(learner)
    }
    return pd.DataFrame(rows).T


def objecting() -> list[Mutant]:
    """The mutants to which a list objects: some pair loses more than was promised, or cannot be computed."""
    found = []
    for mutant in (mutant for mutant in MUTANTS if mutant.learner in LISTED):
        with mutant.apply(), np.errstate(invalid="ignore"):
            try:
                broken = any(not one.share <= 1 + 1e-12 for one in listed(mutant.learner))
            except Exception:
                broken = True
        if broken:
            found.append(mutant)
    return found
