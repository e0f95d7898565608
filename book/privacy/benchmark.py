r"""Twenty mechanisms, correct and broken ones, on which audits are compared; and seven for approximate privacy.

The list, with settings and neighbours, is that of DP-Sniper (Bichsel et al., S&P 2021), which took most of it from
StatDP (Ding et al., CCS 2018): *noisy maximum* and *histogram* are algorithms 5 to 10 there, *SVT 1* to *6* algorithms
1 to 6 of Lyu, Su and Li (VLDB 2017). The code is our own, from the definitions.

``python -m hdpm_book.privacy.benchmark`` audits them all and stores what it finds in ``data/studies``; a study that was
interrupted goes on after its last row. Throughout, a mechanism takes answers to queries, shape (k,), a generator and a
number of releases.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial, reduce
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize, stats

from hdpm_book.privacy.guesses import event
from hdpm_book.records import collect
from hdpm_lib.audits.black_box import Audit, audit
from hdpm_lib.audits.bounds import guess_epsilon, guess_p_value, power_of_guesses
from hdpm_lib.audits.pairs import Pair, patterns
from hdpm_lib.validation import FALSE_ALARM

Array = NDArray[np.float64]
Generator = np.random.Generator
EPSILON = 0.1

# --- adding noise -----------------------------------------------------------------------------------------------------


def laplace(answers: Array, *, rng: Generator, size: int, scale: float = 1 / EPSILON) -> Array:
    """Each answer with Laplace noise: also the histograms."""
    return answers + rng.laplace(0, scale, (size, len(answers)))


def repeated(answers: Array, *, rng: Generator, size: int, times: int, scale: float) -> Array:
    """One answer released many times, each with noise of its own."""
    return answers[0] + rng.laplace(0, scale, (size, times))


def prefix_sums(answers: Array, *, rng: Generator, size: int) -> Array:
    """Sums of the first, of the first two, ... noisy answers."""
    return np.cumsum(laplace(answers, rng=rng, size=size), axis=1)


def geometric(answers: Array, *, rng: Generator, size: int, most: int = 5) -> NDArray[np.int64]:
    """A count in 0..most, by whole numbers only: algorithm GeoSample of Balcer and Vadhan (2018)."""
    k, c = math.ceil(math.log(2 / EPSILON)), int(answers[0])
    two, more = 2**k, 2**k + 1
    total = (2 * two + 1) * more ** (most - 1)
    below = [two ** (c - z) * more ** (most - c + z) for z in range(c)]
    above = [total - two ** (z - c + 1) * more ** (most - 1 - z + c) for z in range(c, most)]
    return np.searchsorted([*below, *above], rng.integers(1, total, size, endpoint=True))


def rounded(answers: Array, *, rng: Generator, size: int, mechanism: Callable[..., Any]) -> Any:
    """Releases in multiples of 2^-20: the algorithm is judged, not the last digits of floating-point numbers."""
    found = mechanism(answers, rng=rng, size=size)
    return found if isinstance(found, list) else np.rint(found * 2.0**20) / 2.0**20


# --- the largest answer -----------------------------------------------------------------------------------------------


def noisy_maximum(answers: Array, *, rng: Generator, size: int, noise: str, give: str) -> Array:
    """The place of the largest noisy answer, or, which is wrong, its value; noise of scale 2/ε."""
    noisy = answers + getattr(rng, noise)(size=(size, len(answers))) * 2 / EPSILON
    return np.asarray(noisy.argmax(1) if give == "place" else noisy.max(1))


# --- sparse vector technique ------------------------------------------------------------------------------------------


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
    """Which answers are above a noisy threshold, until `stop` of them were.

    Noise of scale 1/ε₁ on the threshold, ε₁ being a `share` of ε, and of scale `factor`/ε₂ on the answers (None: none);
    with `fresh` the threshold gets new noise, of scale c/ε₁, after each. 1 for above, 0 for below, -1 once it has
    stopped; `give` "values" gives noisy answers for 1, and -1000 and -2000 for the others.
    """
    k, first, second = len(answers), share * epsilon, (1 - share) * epsilon
    noisy = np.broadcast_to(answers, (size, k))
    if factor is not None:
        noisy = noisy + rng.laplace(0, factor / second, (size, k))
    bar = threshold + rng.laplace(0, (stop if fresh and stop else 1) / first, size)
    found, seen = np.empty((size, k)), np.zeros(size, dtype=int)
    for j in range(k):
        above, stopped = noisy[:, j] >= bar, seen == stop
        found[:, j] = np.where(stopped, -1, above) if give == "flags" else np.where(above, noisy[:, j], -1000.0)
        if give == "values":
            found[stopped, j] = -2000.0
        seen += above & ~stopped
        if fresh and stop:
            bar = np.where(above, threshold + rng.laplace(0, stop / first, size), bar)
    return found


def svt_pair(answers: Array, *, rng: Generator, size: int) -> Array:
    """SVT 3 and SVT 4 on the same answers, c = 2."""
    three = svt(answers, rng=rng, size=size, threshold=1.0, factor=2.0, stop=2, give="values")
    four = svt(answers, rng=rng, size=size, threshold=1.0, share=0.25, factor=1.0, stop=2)
    return np.hstack([three, four])


def numerical_svt(answers: Array, *, rng: Generator, size: int, stop: int = 2) -> Array:
    """Answers above a noisy threshold with noise of their own, else 0; -1000 after `stop` (Wang et al., PLDI 2019)."""
    k, third = len(answers), EPSILON / 3
    bar = 1.0 + rng.laplace(0, 1 / third, (size, 1))
    above = answers + rng.laplace(0, 2 * stop / third, (size, k)) >= bar
    given = np.where(above, answers + rng.laplace(0, stop / third, (size, k)), 0.0)
    before: Array = np.cumsum(above, axis=1) - above
    return np.where(before >= stop, -1000.0, given)


# --- randomised response ----------------------------------------------------------------------------------------------


def rappor(answers: Array, *, rng: Generator, size: int, flip: float, again: tuple[float, float] | None) -> Array:
    """Bits of a Bloom filter of 20 bits, four of which a value sets, answered at random (Erlingsson et al., 2014).

    A bit is replaced by a fair coin with probability `flip`, and the result r then by 1 with probability again[r].
    The first two values share no bit: no pair of values is further apart.
    """
    bits = np.zeros(20)
    bits[4 * int(answers[0]) % 20 + np.arange(4)] = 1
    coins = rng.integers(0, 2, (size, 20))
    kept = np.where(rng.random((size, 20)) < flip, coins, bits)
    return kept if again is None else (rng.random((size, 20)) < np.where(kept, again[1], again[0])).astype(float)


# --- the list ---------------------------------------------------------------------------------------------------------


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
        return patterns(np.ones(self.answers))[: 2 if self.alone else None]  # the first two move one answer


def _filter_loss(flip: float, zero: float, one: float) -> float:
    """Loss of two values whose four bits are all different: eight bits at once."""
    high = (1 - flip / 2) * one + flip / 2 * zero
    low = flip / 2 * one + (1 - flip / 2) * zero
    return 4 * math.log(high * (1 - low) / (low * (1 - high)))


_place, _value = partial(noisy_maximum, give="place"), partial(noisy_maximum, give="value")
BENCHMARK = (
    Entry("Laplace", laplace, 1, True, 0.1, 0.1),
    Entry("truncated geometric", geometric, 1, True, math.log1p(2.0**-3), math.log1p(2.0**-3)),
    Entry("noisy histogram 1", laplace, 5, True, 0.1, 0.1),
    Entry("noisy histogram 2", partial(laplace, scale=EPSILON), 5, True, 0.1, 10.0, True),
    Entry("noisy maximum 1", partial(_place, noise="laplace"), 5, False, 0.1, 0.1),
    Entry("noisy maximum 2", partial(_place, noise="standard_exponential"), 5, False, 0.1, 0.1),
    Entry("noisy maximum 3", partial(_value, noise="laplace"), 5, False, 0.1, 0.25, True),
    Entry("noisy maximum 4", partial(_value, noise="standard_exponential"), 5, False, 0.1, math.inf, True),
    Entry("SVT 1", partial(svt, threshold=0.5, factor=2.0, stop=1), 10, False, 0.1, 0.1),
    Entry("SVT 2", partial(svt, threshold=1.0, factor=2.0, stop=1, fresh=True), 10, False, 0.1, 0.1),
    Entry("SVT 3", partial(svt, threshold=1.0, factor=1.0, stop=1, give="values"), 10, False, 0.1, math.nan, True),
    Entry("SVT 4", partial(svt, threshold=1.0, share=0.25, factor=1.0, stop=1), 10, False, 0.1, 0.175, True),
    Entry("SVT 5", partial(svt, threshold=1.0, factor=None, stop=None), 10, False, 0.1, math.inf, True),
    Entry("SVT 6", partial(svt, threshold=1.0, factor=1.0, stop=None), 10, False, 0.1, math.nan, True),
    Entry("RAPPOR", partial(rappor, flip=0.75, again=(0.45, 0.55)), 1, True, *2 * (_filter_loss(0.75, 0.45, 0.55),)),
    Entry("one-time RAPPOR", partial(rappor, flip=0.95, again=None), 1, True, *2 * (_filter_loss(0.95, 0.0, 1.0),)),
    Entry("Laplace in parallel", partial(repeated, times=20, scale=200.0), 1, True, 0.1, 0.1),
    Entry("SVT 3 and 4 in parallel", svt_pair, 10, False, 0.2, math.nan, True),
    Entry("prefix sums", prefix_sums, 10, False, 0.1, 1.0, True),
    Entry("numerical SVT", numerical_svt, 10, False, 0.1, 0.1),
)


def find(name: str) -> Entry:
    """The mechanism of that name, or a `LookupError`."""
    for entry in BENCHMARK:
        if entry.name == name:
            return entry
    raise LookupError(f"no mechanism {name!r} in the benchmark")


RUNS, CONFIDENCE = 1_000_000, 0.9  # of the final test, and of the bounds that are compared


def bound(entry: Entry, runs: int = RUNS, seed: int = 0) -> Audit:
    """The audit whose bound is compared: all runs are made, and rules are chosen for the confidence 0.9."""
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
    """A row of the study: the bound at confidence 0.9, and the decision at the level one in a million."""
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
        "sides": found.sides,
        "seconds": round(found.seconds, 1),
    }


STORED = Path(str(resources.files("hdpm_book.data")))
STUDY = "audit-benchmark"
MORE = 2 * RUNS  # a hundredth of the runs of the others, for mechanisms whose best event is rare
RARE = ("noisy maximum 3", "SVT 3", "SVT 4", "SVT 6")


def main() -> None:
    """Audit every mechanism of the benchmark, then measure false alarms and power; store what comes."""
    jobs = [(entry.name, RUNS) for entry in BENCHMARK] + [(name, MORE) for name in RARE]
    folder, packages = STORED / "studies", ("numpy", "scipy", "scikit-learn")
    collect(folder, STUDY, jobs, measure, {"confidence": CONFIDENCE}, *packages)
    collect(folder, ALARMS, [(name, block) for name in CORRECT for block in range(20)], alarms, {}, *packages)
    collect(folder, POWER, [(claim, block) for claim in CLAIMS for block in range(4)], measured_power, {}, *packages)


@cache
def recorded() -> pd.DataFrame:
    """What the stored study found: a row for each mechanism and number of runs, with the bound at confidence 0.9."""
    rows = pd.DataFrame(json.loads((STORED / "studies" / f"{STUDY}.json").read_text("utf8"))["rows"])
    rows["bound"] = [
        max(0.0, float(guess_epsilon(row.right, row.made, row.runs, 1 - CONFIDENCE))) for row in rows.itertuples()
    ]
    return rows.set_index(["mechanism", "runs"])


def compared() -> pd.DataFrame:
    """Bounds at confidence 0.9: ours, those of DP-Sniper and StatDP, and the most that our runs can give.

    Ours are from the stored study, for some mechanisms also with twice the runs.
    """
    printed = pd.read_csv(STORED / "published" / "dp-sniper" / "benchmark.csv").set_index("mechanism")
    found, rows = recorded(), {}
    for entry in BENCHMARK:
        one, other = found.loc[entry.name, RUNS], printed.loc[entry.name]
        rows[entry.name] = {
            "broken": entry.broken,
            "loss": entry.true,
            "at most": attainable(entry, RUNS),
            "ours": one["bound"],
            "twice": found.loc[entry.name, MORE]["bound"] if entry.name in RARE else math.nan,
            "DP-Sniper": other["dp_sniper"],
            "StatDP": other["statdp"],
            "seconds": one["seconds"],
            "DP-Sniper, s": other["dp_sniper_seconds"],
            "StatDP, s": other["statdp_seconds"],
        }
    return pd.DataFrame(rows).T


def decisions() -> dict[str, tuple[int, int]]:
    """How many mechanisms the stored runs reject at the level of the book, of correct and of broken ones."""
    found = recorded().xs(RUNS, level="runs")
    rejected = {
        e.name: guess_p_value(int(r.right), int(r.made), RUNS, e.claim, sides=int(r.sides)) <= FALSE_ALARM
        for e in BENCHMARK
        for r in [found.loc[e.name]]
    }
    kinds = {"correct": [e for e in BENCHMARK if not e.broken], "broken": [e for e in BENCHMARK if e.broken]}
    return {kind: (sum(rejected[e.name] for e in some), len(some)) for kind, some in kinds.items()}


# --- false alarms and power -------------------------------------------------------------------------------------------

ALARMS, POWER = "audit-alarms", "audit-power"
LEVELS, CLAIMS, COUNTED = (0.05, 0.01, 0.001), (0.1, 0.5, 1.0, 3.0), 100_000


def two_answers(answers: Array, *, rng: Generator, size: int) -> list[str]:
    """Randomised response at the loss 1."""
    return np.where((rng.random(size) < 1 / (1 + math.e)) == (answers[0] < 1), "yes", "no").tolist()


def gauss(answers: Array, *, rng: Generator, size: int, sigma: float) -> Array:
    """An answer with normal noise."""
    return answers[0] + sigma * rng.standard_normal(size)


def gauss_delta(sigma: float, epsilon: float) -> float:
    """Smallest delta of normal noise for answers one apart (Balle and Wang, 2018)."""
    ends = stats.norm.cdf(np.array([0.5, -0.5]) / sigma - epsilon * sigma)
    return float(ends[0] - math.exp(epsilon) * ends[1])


CORRECT: dict[str, tuple[Callable[..., Any], float, float]] = {
    "Laplace, loss 1": (partial(laplace, scale=1.0), 1.0, 0.0),
    "randomised response, loss 1": (two_answers, 1.0, 0.0),
    "normal noise, loss 0.5 and its delta": (partial(gauss, sigma=1.0), 0.5, gauss_delta(1.0, 0.5)),
    "histogram of three, loss 1": (partial(laplace, scale=1.0), 1.0, 0.0),
}
"""Mechanisms that lose exactly what is claimed, with loss and delta."""


def alarms(name: str, block: int) -> dict[str, Any]:
    """How often audits of a correct mechanism object, at three levels; 2,000 runs each, the classifiers included."""
    mechanism, epsilon, delta = CORRECT[name]
    base, audits = (np.zeros(3), 10) if "three" in name else (np.zeros(1), 100)  # classifiers take their time
    options: dict[str, Any] = {"runs": 2000, "level": LEVELS[0], "early": False, "time_limit": None}
    seeds = range(audits * block, audits * (block + 1))
    mechanism, first, second = partial(rounded, mechanism=mechanism), base, base + np.eye(len(base))[0]
    found = np.array([audit(mechanism, first, second, epsilon, delta, seed=seed, **options).p_value for seed in seeds])
    return {"mechanism": name, "audits": audits, "counts": [int((found <= level).sum()) for level in LEVELS]}


def measured_power(claim: float, block: int, audits: int = 25) -> dict[str, Any]:
    """How often a loss is found that exact binomials say is found with probability 0.9, by 100,000 runs."""
    excess = _exposed(claim)
    mechanism = partial(rounded, mechanism=partial(laplace, scale=1 / (claim * (1 + excess))))
    seeds = range(audits * block, audits * (block + 1))
    options: dict[str, Any] = {"runs": COUNTED, "early": False, "time_limit": None}
    found = [audit(mechanism, np.zeros(1), np.ones(1), claim, seed=seed, **options).found for seed in seeds]
    return {"claim": claim, "excess": excess, "audits": audits, "found": int(np.sum(found))}


def _exposed(claim: float) -> float:
    """Relative excess of Laplace noise that the best event exposes with probability 0.9 in 100,000 runs."""

    def short(excess: float) -> float:
        made, right = event(claim * (1 + excess), claim)
        true = float(np.log(right / (1 - right)))
        return power_of_guesses(true, made, COUNTED, claim, FALSE_ALARM) - 0.9

    return float(optimize.brentq(short, 1e-3, 2.0, xtol=1e-4))


def false_alarms() -> pd.DataFrame:
    """Share of p-values up to each level in the stored audits of correct mechanisms."""
    rows = pd.DataFrame(json.loads((STORED / "studies" / f"{ALARMS}.json").read_text("utf8"))["rows"])
    total = rows.groupby("mechanism", sort=False)["audits"].sum()
    counts = rows.groupby("mechanism", sort=False)["counts"].apply(lambda some: np.sum(some.tolist(), axis=0))
    found = {name: [f"{count / total[name]:.4f}" for count in counts[name]] for name in total.index}
    frame = pd.DataFrame(found, index=[f"p ≤ {level:g}" for level in LEVELS]).T
    return frame.assign(audits=total)


def power() -> pd.DataFrame:
    """Share of the stored audits that found what exact binomials say is found with probability 0.9."""
    rows = pd.DataFrame(json.loads((STORED / "studies" / f"{POWER}.json").read_text("utf8"))["rows"])
    total = rows.groupby("claim").agg({"excess": "first", "audits": "sum", "found": "sum"})
    return pd.DataFrame(
        {"excess, %": 100 * total["excess"], "binomial": 0.9, "found": total["found"] / total["audits"]}
    )


# --- approximate privacy ----------------------------------------------------------------------------------------------


def _sampled(answers: Array, *, rng: Generator, size: int, random: bool) -> Array:
    """A sum of half of the records, drawn at random or always the first ones, with Laplace noise of scale 1."""
    kept = rng.random((size, len(answers))) < 0.5 if random else np.arange(len(answers)) < len(answers) / 2
    return (answers * kept).sum(-1) + rng.laplace(0, 1, size)


def _sigma(epsilon: float, delta: float) -> float:
    """The smallest sigma of normal noise for the claim."""
    return float(optimize.brentq(lambda sigma: gauss_delta(sigma, epsilon) - delta, 0.01, 100))


def approximate() -> pd.DataFrame:
    """Claims with a delta, right and wrong ones, and what the audit says of them."""
    amplified = math.log1p(0.5 * math.expm1(1.0))
    classical = lambda epsilon, delta: math.sqrt(2 * math.log(1.25 / delta)) / epsilon  # noqa: E731
    cases: dict[str, tuple[partial[Any], float, float]] = {
        "normal noise, exact sigma": (partial(gauss, sigma=_sigma(1, 0.05)), 1, 0.05),
        "sigma 5 % too small": (partial(gauss, sigma=0.95 * _sigma(1, 0.05)), 1, 0.05),
        "sigma 10 % too small": (partial(gauss, sigma=0.9 * _sigma(1, 0.05)), 1, 0.05),
        "classical sigma": (partial(gauss, sigma=classical(0.5, 0.05)), 0.5, 0.05),
        "classical sigma, loss above 1": (partial(gauss, sigma=classical(8, 0.05)), 8, 0.05),
        "random half, amplified claim": (partial(_sampled, random=True), amplified, 0),
        "first half, amplified claim": (partial(_sampled, random=False), amplified, 0),
    }
    rows = {}
    for name, (mechanism, epsilon, delta) in cases.items():
        runs = 5 * RUNS if epsilon > 1 else RUNS  # at a large loss the wrong guesses are rare
        judged, other = partial(rounded, mechanism=mechanism), np.eye(2)[0]
        found = audit(judged, np.zeros(2), other, epsilon, delta, runs=runs, seed=0, time_limit=None)
        true = gauss_delta(mechanism.keywords["sigma"], epsilon) if delta else math.nan
        rows[name] = {
            "loss": epsilon, "delta": delta, "true delta": true, "p": found.p_value, "violation": found.found,
            "loss above, at 0.9": found.epsilon_lower(0.9),
        }  # fmt: skip
    return pd.DataFrame(rows).T


def allowed_wrong(runs: int, epsilon: float = 8.0, delta: float = 0.05) -> float:
    """Wrong guesses that the claim allows where all outputs above the best threshold are guessed, classical sigma."""
    sigma = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    right = stats.norm.cdf(0.5 / sigma - epsilon * sigma) / 2  # in a run
    return runs * (right - delta / 2) * math.exp(-epsilon)


# --- the most that so many runs can give ------------------------------------------------------------------------------


def best_bound(first: Array, second: Array, runs: int) -> float:
    """Bound at confidence 0.9 of the best event, at the expected counts, from the probabilities of all outcomes."""
    first, second = (law[first + second > 0] / law.sum() for law in (first, second))
    with np.errstate(divide="ignore"):
        order = np.argsort(np.log(second) - np.log(first), kind="stable")
    if len(order) > 600:  # outcomes of like ratio count as one
        parts = np.array_split(order, 600)
        first, second = (np.array([law[part].sum() for part in parts]) for law in (first, second))
        order = np.arange(600)
    below = [np.concatenate([[0.0], np.cumsum(law[order])]) for law in (first, second)]
    right = (below[0][:, None] + 1 - below[1]) / 2  # guess the first data set below, the second one above
    wrong = (below[1][:, None] + 1 - below[0]) / 2
    allowed = np.tri(len(below[0]), dtype=bool).T & (right > 0)
    made = np.clip((right + wrong)[allowed], 0, 1) * runs  # rounding
    found = guess_epsilon(np.clip(right[allowed] * runs, 0, made), made, runs, 1 - CONFIDENCE)
    return float(found.max())


def attainable(entry: Entry, runs: int) -> float:
    """The most that a test can be expected to prove in so many runs on any of the pairs; NaN if it is not computed.

    From the exact law of the outcome: sums over all of them, or cells so fine that no bound changes by 0.001.
    """
    law = _LAWS.get(entry.name)
    if law is None:
        return math.nan
    pairs = [p for p in entry.pairs if law is not _law_of_sums or p.words == "all answers up"]  # the furthest apart
    return max(best_bound(law(p.first), law(p.second), runs) for p in pairs)


_FINE = np.linspace(-400, 400, 40_001)  # for numbers whose noise has a scale of 20


def _law_of_maximum(answers: Array, noise: Any) -> Array:
    """Probabilities of fine cells for the largest noisy answer."""
    return np.diff(np.prod([noise.cdf(_FINE, loc=a, scale=20.0) for a in answers], axis=0), prepend=0.0, append=1.0)


def _law_of_flags(answers: Array, share: float, scale: float, stops: bool) -> Array:
    """Probabilities of all series of flags, by quadrature over the noise of the threshold 1."""
    width, nodes, weights = 1 / (share * EPSILON), *np.polynomial.legendre.leggauss(40)
    ends = np.concatenate([-np.geomspace(40, 0.05, 12), [0], np.geomspace(0.05, 40, 12)]) * width
    middle, half = (ends[1:] + ends[:-1]) / 2, np.diff(ends) / 2
    bar = (middle[:, None] + half[:, None] * nodes).ravel()
    mass = (half[:, None] * weights).ravel() * stats.laplace.pdf(bar, scale=width)
    below = np.array([stats.laplace.cdf(bar + 1 - a, scale=scale) for a in answers])
    if not stops:
        series = itertools.product((False, True), repeat=len(answers))
        return np.array([mass @ np.prod(np.where(np.array(s)[:, None], 1 - below, below), axis=0) for s in series])
    before = np.cumprod(np.vstack([np.ones_like(bar), below]), axis=0)
    return np.append((before[:-1] * (1 - below)) @ mass, before[-1] @ mass)


def _law_of_values(answers: Array) -> Array:
    """Probabilities of which answer is the first above the noisy threshold 1, and of fine cells for its noisy value."""
    bar = 1 + _FINE
    before = stats.laplace.pdf(_FINE, scale=20.0) * (_FINE[1] - _FINE[0])
    parts, none = [], before
    for a in answers:
        cell = np.diff(stats.laplace.cdf(bar, loc=a, scale=20.0))
        parts.append(((np.cumsum(none)[:-1]) * cell).reshape(-1, 50).sum(1))
        none = none * stats.laplace.cdf(bar, loc=a, scale=20.0)
    return np.append(np.concatenate(parts), none.sum())


def _law_of_sums(answers: Array) -> Array:
    """Probabilities of ten noisy answers, all 1 or all 2, grouped by their log ratio in fine steps."""
    points = np.concatenate([[-np.inf], np.linspace(1, 2, 201), [np.inf]])
    each = np.diff(stats.laplace.cdf(points, loc=answers[0], scale=1 / EPSILON))
    return reduce(np.convolve, 10 * [each])


_LAWS: dict[str, Callable[[Array], Array]] = {
    "noisy maximum 3": partial(_law_of_maximum, noise=stats.laplace),
    "noisy maximum 4": partial(_law_of_maximum, noise=stats.expon),
    "SVT 3": _law_of_values,
    "SVT 4": partial(_law_of_flags, share=0.25, scale=1 / 0.075, stops=True),
    "prefix sums": _law_of_sums,
    "SVT 6": partial(_law_of_flags, share=0.5, scale=20.0, stops=False),
}


if __name__ == "__main__":
    main()
