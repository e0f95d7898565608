r"""Twenty public mechanisms, correct and broken ones, on which audits are compared.

The list, with settings and neighbours, is that of DP-Sniper (Bichsel et al., S&P 2021), which took
most of it from StatDP (Ding et al., CCS 2018): *noisy maximum* and *histogram* are algorithms 5 to
10 there, *SVT 1* to *6* algorithms 1 to 6 of Lyu, Su and Li (VLDB 2017). The code is our own, from
the definitions.

``python -m hdpm_book.privacy.benchmark`` audits them all and stores what it finds in
``data/studies``; a study that was interrupted goes on after its last row. Throughout, a mechanism
takes answers to queries, shape (k,), a generator and a number of releases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hdpm_book import records
from hdpm_book.records import STUDIES, Study, collect
from hdpm_lib.audits.black_box import Audit, audit
from hdpm_lib.audits.bounds import guess_epsilon, guess_p_value
from hdpm_lib.audits.pairs import Pair, patterns
from hdpm_lib.validation import FALSE_ALARM

Array = NDArray[np.float64]
Generator = np.random.Generator
EPSILON = 0.1

# --- adding noise --------------------------------------------------------------------------------


def laplace(answers: Array, *, rng: Generator, size: int, scale: float = 1 / EPSILON) -> Array:
    """Release each answer with Laplace noise: also the histograms."""
    return answers + rng.laplace(0, scale, (size, len(answers)))


def repeated(answers: Array, *, rng: Generator, size: int, times: int, scale: float) -> Array:
    """Release one answer many times, each with noise of its own."""
    return answers[0] + rng.laplace(0, scale, (size, times))


def prefix_sums(answers: Array, *, rng: Generator, size: int) -> Array:
    """Release sums of the first, of the first two, ... noisy answers."""
    return np.cumsum(laplace(answers, rng=rng, size=size), axis=1)


def geometric(answers: Array, *, rng: Generator, size: int, most: int = 5) -> NDArray[np.int64]:
    """Release a count in 0..most, by whole numbers only: algorithm GeoSample of Balcer and Vadhan
    (2018).
    """
    k = math.ceil(math.log(2 / EPSILON))
    c = int(answers[0])
    two = 2**k
    more = 2**k + 1
    total = (2 * two + 1) * more ** (most - 1)
    below = [two ** (c - z) * more ** (most - c + z) for z in range(c)]
    above = [total - two ** (z - c + 1) * more ** (most - 1 - z + c) for z in range(c, most)]
    return np.searchsorted([*below, *above], rng.integers(1, total, size, endpoint=True))


def rounded(answers: Array, *, rng: Generator, size: int, mechanism: Callable[..., Any]) -> Any:
    """Release multiples of 2^-20: the algorithm is judged, not the last digits of floating-point
    numbers.
    """
    found = mechanism(answers, rng=rng, size=size)
    return found if isinstance(found, list) else np.rint(found * 2.0**20) / 2.0**20


# --- the largest answer -------------------------------------------------------------------------


def noisy_maximum(answers: Array, *, rng: Generator, size: int, noise: str, give: str) -> Array:
    """Return the place of the largest noisy answer, or, which is wrong, its value; noise of scale
    2/ε.
    """
    noisy = answers + getattr(rng, noise)(size=(size, len(answers))) * 2 / EPSILON
    return np.asarray(noisy.argmax(1) if give == "place" else noisy.max(1))


# --- sparse vector technique --------------------------------------------------------------------


def svt(
    answers: Array,
    *,
    rng: Generator,
    size: int,
    threshold: float,
    share: float = 0.5,
    factor: float | None,
    stop: int | None,
    fresh: bool = False,
    give: str = "flags",
    epsilon: float = EPSILON,
) -> Array:
    """Tell which answers are above a noisy threshold, until `stop` of them were.

    Noise of scale 1/ε₁ on the threshold, ε₁ being a `share` of ε, and of scale `factor`/ε₂ on the
    answers (None: none); with `fresh` the threshold gets new noise, of scale c/ε₁, after each. 1
    for above, 0 for below, -1 once it has stopped; `give` "values" gives noisy answers for 1, and
    -1000 and -2000 for the others.
    """
    k = len(answers)
    first = share * epsilon
    second = (1 - share) * epsilon
    noisy = np.broadcast_to(answers, (size, k))
    if factor is not None:
        noisy = noisy + rng.laplace(0, factor / second, (size, k))
    bar = threshold + rng.laplace(0, (stop if fresh and stop else 1) / first, size)
    found = np.empty((size, k))
    seen = np.zeros(size, dtype=int)
    for j in range(k):
        above = noisy[:, j] >= bar
        stopped = seen == stop
        found[:, j] = (
            np.where(stopped, -1, above)
            if give == "flags"
            else np.where(above, noisy[:, j], -1000.0)
        )
        if give == "values":
            found[stopped, j] = -2000.0
        seen += above & ~stopped
        if fresh and stop:
            bar = np.where(above, threshold + rng.laplace(0, stop / first, size), bar)
    return found


def svt_pair(answers: Array, *, rng: Generator, size: int) -> Array:
    """Run SVT 3 and SVT 4 on the same answers, c = 2."""
    three = svt(answers, rng=rng, size=size, threshold=1.0, factor=2.0, stop=2, give="values")
    four = svt(answers, rng=rng, size=size, threshold=1.0, share=0.25, factor=1.0, stop=2)
    return np.hstack([three, four])


def numerical_svt(answers: Array, *, rng: Generator, size: int, stop: int = 2) -> Array:
    """Release answers above a noisy threshold with noise of their own, else 0; -1000 after `stop`
    (Wang et al., PLDI 2019).
    """
    k = len(answers)
    third = EPSILON / 3
    bar = 1.0 + rng.laplace(0, 1 / third, (size, 1))
    above = answers + rng.laplace(0, 2 * stop / third, (size, k)) >= bar
    given = np.where(above, answers + rng.laplace(0, stop / third, (size, k)), 0.0)
    before: Array = np.cumsum(above, axis=1) - above
    return np.where(before >= stop, -1000.0, given)


# --- randomised response ------------------------------------------------------------------------


def rappor(
    answers: Array, *, rng: Generator, size: int, flip: float, again: tuple[float, float] | None
) -> Array:
    """Release bits of a Bloom filter of 20 bits, four of which a value sets, answered at random
    (Erlingsson et al., 2014).

    A bit is replaced by a fair coin with probability `flip`, and the result r then by 1 with
    probability again[r]. The first two values share no bit: no pair of values is further apart.
    """
    bits = np.zeros(20)
    bits[4 * int(answers[0]) % 20 + np.arange(4)] = 1
    coins = rng.integers(0, 2, (size, 20))
    kept = np.where(rng.random((size, 20)) < flip, coins, bits)
    return (
        kept
        if again is None
        else (rng.random((size, 20)) < np.where(kept, again[1], again[0])).astype(float)
    )


# --- the list -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """A mechanism of the benchmark.

    Attributes
    ----------
    name : str
    mechanism : callable
    answers : int
        Number of answers it takes.
    alone : bool
        Whether neighbours differ in one answer only.
    claim : float
        The loss that is claimed.
    true : float
        Largest loss of the pairs searched, or infinity; NaN where no formula is known.
    broken : bool
        Whether the claim is false.
    """

    name: str
    mechanism: Callable[..., Any]
    answers: int
    alone: bool
    claim: float
    true: float
    broken: bool = False

    @property
    def pairs(self) -> list[Pair]:
        """Pairs that are searched."""
        # the first two move one answer
        return patterns(np.ones(self.answers))[: 2 if self.alone else None]


def _filter_loss(flip: float, zero: float, one: float) -> float:
    """Return the loss of two values whose four bits are all different: eight bits at once."""
    high = (1 - flip / 2) * one + flip / 2 * zero
    low = flip / 2 * one + (1 - flip / 2) * zero
    return 4 * math.log(high * (1 - low) / (low * (1 - high)))


_place = partial(noisy_maximum, give="place")
_value = partial(noisy_maximum, give="value")
BENCHMARK = (
    Entry("Laplace", laplace, 1, True, 0.1, 0.1),
    Entry("truncated geometric", geometric, 1, True, math.log1p(2.0**-3), math.log1p(2.0**-3)),
    Entry("noisy histogram 1", laplace, 5, True, 0.1, 0.1),
    Entry("noisy histogram 2", partial(laplace, scale=EPSILON), 5, True, 0.1, 10.0, True),
    Entry("noisy maximum 1", partial(_place, noise="laplace"), 5, False, 0.1, 0.1),
    Entry("noisy maximum 2", partial(_place, noise="standard_exponential"), 5, False, 0.1, 0.1),
    Entry("noisy maximum 3", partial(_value, noise="laplace"), 5, False, 0.1, 0.25, True),
    Entry(
        "noisy maximum 4",
        partial(_value, noise="standard_exponential"),
        5,
        False,
        0.1,
        math.inf,
        True,
    ),
    Entry("SVT 1", partial(svt, threshold=0.5, factor=2.0, stop=1), 10, False, 0.1, 0.1),
    Entry(
        "SVT 2", partial(svt, threshold=1.0, factor=2.0, stop=1, fresh=True), 10, False, 0.1, 0.1
    ),
    Entry(
        "SVT 3",
        partial(svt, threshold=1.0, factor=1.0, stop=1, give="values"),
        10,
        False,
        0.1,
        math.nan,
        True,
    ),
    Entry(
        "SVT 4",
        partial(svt, threshold=1.0, share=0.25, factor=1.0, stop=1),
        10,
        False,
        0.1,
        0.175,
        True,
    ),
    Entry(
        "SVT 5", partial(svt, threshold=1.0, factor=None, stop=None), 10, False, 0.1, math.inf, True
    ),
    Entry(
        "SVT 6", partial(svt, threshold=1.0, factor=1.0, stop=None), 10, False, 0.1, math.nan, True
    ),
    Entry(
        "RAPPOR",
        partial(rappor, flip=0.75, again=(0.45, 0.55)),
        1,
        True,
        *2 * (_filter_loss(0.75, 0.45, 0.55),),
    ),
    Entry(
        "one-time RAPPOR",
        partial(rappor, flip=0.95, again=None),
        1,
        True,
        *2 * (_filter_loss(0.95, 0.0, 1.0),),
    ),
    Entry("Laplace in parallel", partial(repeated, times=20, scale=200.0), 1, True, 0.1, 0.1),
    Entry("SVT 3 and 4 in parallel", svt_pair, 10, False, 0.2, math.nan, True),
    Entry("prefix sums", prefix_sums, 10, False, 0.1, 1.0, True),
    Entry("numerical SVT", numerical_svt, 10, False, 0.1, 0.1),
)


def find(name: str) -> Entry:
    """Return the mechanism of that name, or a `LookupError`."""
    for entry in BENCHMARK:
        if entry.name == name:
            return entry
    raise LookupError(f"no mechanism {name!r} in the benchmark")


# of the final test, and of the bounds that are compared
RUNS = 1_000_000
CONFIDENCE = 0.9


def bound(entry: Entry, runs: int = RUNS, seed: int = 0) -> Audit:
    """Run the audit whose bound is compared: all runs are made, and rules are chosen for the
    confidence 0.9.
    """
    options: dict[str, Any] = {"level": 1 - CONFIDENCE, "early": False, "time_limit": None}
    return audit(
        partial(rounded, mechanism=entry.mechanism),
        np.ones(entry.answers),
        "search",
        entry.claim,
        among=entry.pairs,
        runs=runs,
        seed=seed,
        **options,
    )


def measure(name: str, runs: int) -> dict[str, Any]:
    """Return a row of the study: the bound at confidence 0.9, and the decision at the level one in
    a million.
    """
    found = bound(find(name), runs)
    last = found.looks[-1]
    return {
        "mechanism": name,
        "runs": runs,
        "training": found.training,
        "pair": found.pair,
        "event": found.event,
        "made": last.made,
        "right": last.right,
        "sides": last.sides,
        "seconds": round(found.seconds, 1),
    }


STORED = Path(str(resources.files("hdpm_book.data")))
STUDY = "audit-benchmark"
MORE = 2 * RUNS  # a hundredth of the runs of the others, for mechanisms whose best event is rare
RARE = ("noisy maximum 3", "SVT 3", "SVT 4", "SVT 6")


def main() -> None:
    """Audit every mechanism of the list; store what comes."""
    jobs, row, about = study()
    collect(STUDIES, STUDY, jobs, row, about, "numpy", "scipy", "scikit-learn")


def study() -> Study:
    """Return the mechanisms, and how one is audited."""
    jobs = [(entry.name, RUNS) for entry in BENCHMARK] + [(name, MORE) for name in RARE]
    about = {"command": "python -m hdpm_book.privacy.benchmark", "confidence": CONFIDENCE}
    return jobs, measure, about


@cache
def recorded() -> pd.DataFrame:
    """Return what the stored study found: a row for each mechanism and number of runs, with the
    bound at confidence 0.9.
    """
    rows = pd.DataFrame(records.recorded(STUDY)["rows"])
    rows["bound"] = [
        max(0.0, float(guess_epsilon(row.right, row.made, row.runs, 1 - CONFIDENCE)))
        for row in rows.itertuples()
    ]
    return rows.set_index(["mechanism", "runs"])


def compared() -> pd.DataFrame:
    """Return bounds at confidence 0.9, ours from the stored study and printed ones, in words; and
    who is rejected for good.
    """
    printed = pd.read_csv(STORED / "published" / "dp-sniper" / "benchmark.csv").set_index(
        "mechanism"
    )
    found = recorded()
    rows = {}
    for entry in BENCHMARK:
        one = found.loc[entry.name, RUNS]
        other = printed.loc[entry.name]
        p = guess_p_value(int(one.right), int(one.made), RUNS, entry.claim, sides=int(one.sides))
        rows[entry.name] = {
            "broken": "broken" if entry.broken else "correct",
            "claim": round(entry.claim, 3),
            "loss": round(entry.true, 3),
            "ours": round(one["bound"], 3),
            "twice": (
                round(found.loc[entry.name, MORE]["bound"], 3) if entry.name in RARE else math.nan
            ),
            "DP-Sniper": other["dp_sniper"],
            "StatDP": other["statdp"],
            "rejected": "yes" if p <= FALSE_ALARM else "no",
        }
    return pd.DataFrame(rows).T.sort_values("broken", kind="stable")


if __name__ == "__main__":
    main()
