"""What to guess from: scores of releases and thresholds, learned from training runs.

A *score* ranks releases by how much they speak for the second of two data sets. Four kinds are
tried: a column's number itself; how often a cell came from either data set; a logistic regression
on the cells of all columns and of differences of neighbouring ones; and boosted trees. One half of
the training runs teaches the scores, the other one proposes thresholds for frequent and for rare
guesses: those with the largest lower bound to be expected from the test. The place of the
last binary digit of each number is a score as well, and is counted together with the number: a sum
of floating-point numbers has digits that tell its terms apart (:doc:`/book/privacy/arithmetic`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from hdpm_lib.audits.bounds import guess_epsilon
from hdpm_lib.audits.outcomes import (
    ABSENT,
    Array,
    Codes,
    Column,
    Outcomes,
    cells,
    learn_columns,
    shown,
)

Bits = NDArray[np.bool_]

DIGIT = "the place of the last binary digit"

_BINS = 64  # intervals of a column alone
_COARSE = 12  # and beside others
_MOST_CELLS = 20_000  # of all columns together, to be counted
_SINGLE = 64  # columns that are scores by themselves
_LEARNERS = 100_000  # runs that teach a classifier, at most
_QUICK = 10_000  # at most where many pairs are searched
_LEAST = 1000  # at least
_CELLS = 3_000_000  # of runs and columns that teach a classifier
_COLUMNS = 300  # that trees learn from
_TAILS = 48  # thresholds tried on each side
_FEWEST = 20  # training runs beyond the outermost
_FEW = 64  # kinds of releases, of which counts tell all
# of the share of guesses: a rule of each is proposed
_BANDS = np.array([0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4])
# a share of right guesses is taken to be the lower end at this level of what was seen
_CAUTION = 0.05


class Score(Protocol):
    """A ranking of releases."""

    def values(self, seen: Outcomes) -> Array:
        """Of shape (runs,), NaN for releases unlike any in training."""

    def words(self, low: float, high: float) -> tuple[str, str]:
        """What it means that a value is at most `low`, and at least `high`."""


@dataclass(frozen=True)
class Value:
    """The number in a column."""

    column: int
    name: str

    def values(self, seen: Outcomes) -> Array:
        """See :class:`Score`."""
        numbers, labels = seen.column(self.column)
        return numbers if labels is None else np.where(labels == None, numbers, np.nan)  # noqa: E711

    def words(self, low: float, high: float) -> tuple[str, str]:
        """See :class:`Score`."""
        return f"{self.name} is at most {shown(low)}", f"{self.name} is at least {shown(high)}"


@dataclass(frozen=True)
class Digits:
    """A score of the number in a column and the place of its last binary digit."""

    column: int
    score: Score

    def values(self, seen: Outcomes) -> Array:
        """See :class:`Score`."""
        return self.score.values(last_digits(seen, self.column))

    def words(self, low: float, high: float) -> tuple[str, str]:
        """See :class:`Score`."""
        return self.score.words(low, high)


@dataclass(frozen=True, eq=False)
class Counts:
    """Log ratio of how often the cell of a release came from either data set."""

    columns: Sequence[Column]
    names: Sequence[str]
    keys: Codes
    ratios: Array

    def values(self, seen: Outcomes) -> Array:
        """See :class:`Score`."""
        keys = _keys(self.columns, cells(self.columns, seen))
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.ratios[place], np.nan)

    def words(self, low: float, high: float) -> tuple[str, str]:
        """See :class:`Score`."""
        return self._cells(self.ratios <= low), self._cells(self.ratios >= high)

    def _cells(self, which: Bits) -> str:
        """Some cells in words, those that tell most first."""
        order = np.argsort(-np.abs(self.ratios[which]), kind="stable")
        found = [self._cell(int(key)) for key in self.keys[which][order[:2]]]
        return "; or ".join(found) + (
            f"; or {which.sum() - 2} cells more" if which.sum() > 2 else ""
        )

    def _cell(self, key: int) -> str:
        """A cell in words."""
        codes = []
        for column in self.columns[::-1]:
            key, code = divmod(key, column.count)
            codes.append(code)
        parts = [(column, code) for column, code in zip(self.columns, codes[::-1], strict=True)]
        exact = [column.exact(code) for column, code in parts]
        exact = [value for value in exact if value != ABSENT]
        if len(parts) > 1 and None not in exact:
            return f"the output is ({', '.join(map(str, exact))})"
        return " and ".join(
            column.words(code, name) for (column, code), name in zip(parts, self.names, strict=True)
        )


@dataclass(frozen=True)
class Learned:
    """Log odds of the second data set by a classifier of what `table` makes of releases."""

    name: str
    table: Any
    classifier: Any

    def values(self, seen: Outcomes) -> Array:
        """See :class:`Score`."""
        odds = self.classifier.decision_function(self.table(seen))
        return np.asarray(odds, dtype=float)

    def words(self, low: float, high: float) -> tuple[str, str]:
        """See :class:`Score`."""
        ends = f"at most {np.exp(low):.4g}", f"at least {np.exp(high):.4g}"
        return f"{self.name} gives odds of {ends[0]}", f"{self.name} gives odds of {ends[1]}"


def last_digits(seen: Outcomes, column: int) -> Outcomes:
    """The numbers of a column, and the exponents of their lowest set bits; of 0, one above all.

    Examples
    --------
    >>> from hdpm_lib.audits.outcomes import outcomes
    >>> last_digits(outcomes([0.5, 6.0, 0.0]), 0).numbers.tolist()
    [[0.5, -1.0], [6.0, 1.0], [0.0, 1024.0]]
    """
    numbers = seen.numbers[:, [column, column]]
    mantissa, exponent = np.frexp(numbers[:, 1])
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(float))[1] + exponent - 54
    numbers[:, 1] = np.where(whole == 0, 1024.0, lowest)
    labels = None if seen.labels is None else seen.labels[:, [column, column]]
    return Outcomes(numbers, labels, seen.forms)


def _keys(columns: Sequence[Column], codes: Codes) -> Codes:
    """One number for the cells of all columns together."""
    keys = np.zeros(len(codes), dtype=np.int64)
    for column, code in zip(columns, codes.T, strict=True):
        keys = keys * column.count + code
    return keys


def _with_differences(seen: Outcomes) -> Outcomes:
    """All columns, and after them the differences of neighbouring ones."""
    numbers = np.hstack([seen.numbers, np.diff(seen.numbers, axis=1)])
    if seen.labels is None:
        return Outcomes(numbers, None, seen.forms)
    odd = seen.labels != None  # noqa: E711
    between = np.full((len(odd), odd.shape[1] - 1), None, dtype=object)
    between[odd[:, 1:] | odd[:, :-1]] = "label"
    return Outcomes(numbers, np.hstack([seen.labels, between]), seen.forms)


def learn_scores(
    seen: Outcomes, bits: Bits, names: Sequence[str], quick: bool = False
) -> Iterator[Score]:
    """Scores from training runs and their bits, the simplest first; `quick` ones only, if asked.

    Nothing is left to learn where releases are of few kinds. `names` are those of the columns.
    """
    count = len(names)
    vary = [j for j in range(count) if (seen.numbers[:, j] != seen.numbers[0, j]).any()][:_SINGLE]
    for j in vary:
        yield Value(j, names[j])
    counted = _counts(seen, bits, names)
    if counted is not None:
        yield counted
        if len(counted.keys) <= _FEW and not any(len(column.edges) for column in counted.columns):
            return
    most = min(_QUICK if quick else _LEARNERS, _CELLS // count)
    if count > 1 and min(len(seen), most) >= _LEAST:
        yield _additive(seen[:most], bits[:most])
        if not quick and count <= _COLUMNS:
            yield _boosted(seen[:most], bits[:most])
    for j in vary:
        pair = last_digits(seen[:_LEARNERS], j)
        both = [names[j], f"{DIGIT} of {names[j]}"]
        yield Digits(j, Value(1, both[1]))
        if not quick and (counted := _counts(pair, bits[:_LEARNERS], both)) is not None:
            yield Digits(j, counted)


def _counts(seen: Outcomes, bits: Bits, names: Sequence[str]) -> Counts | None:
    """Counts in the finest of three grids whose cells are not too many for the runs."""
    for bins in (_BINS, _COARSE, 2):
        columns = learn_columns(seen, bins)
        if sum(np.log2(column.count) for column in columns) > 62:
            continue
        keys, place = np.unique(_keys(columns, cells(columns, seen)), return_inverse=True)
        if len(keys) <= min(_MOST_CELLS, len(seen) / 4):
            one, zero = (np.bincount(place, which, len(keys)) for which in (bits, ~bits))
            return Counts(columns, names, keys, np.log((one + 0.5) / (zero + 0.5)))
    return None


def _additive(seen: Outcomes, bits: Bits) -> Learned:
    columns = learn_columns(_with_differences(seen), _COARSE)
    table = lambda runs: cells(columns, _with_differences(runs))  # noqa: E731
    model = make_pipeline(
        OneHotEncoder(handle_unknown="ignore"), LogisticRegression(C=1.0, tol=1e-3, max_iter=200)
    )
    return Learned("a logistic regression on cells", table, model.fit(table(seen), bits))


def _boosted(seen: Outcomes, bits: Bits) -> Learned:
    columns = None if seen.labels is None else learn_columns(seen, 1)

    def table(runs: Outcomes) -> Array:
        numbers = _with_differences(runs).numbers
        return numbers if columns is None else np.hstack([numbers, cells(columns, runs)])

    model = HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=15, early_stopping=False, random_state=0
    )
    return Learned("boosted trees", table, model.fit(table(seen), bits))


class Goal(NamedTuple):
    """The test for which a rule is chosen: its runs, its level, and the delta of the claim."""

    runs: int
    level: float
    delta: float


class Ends(NamedTuple):
    """Thresholds of a score, and what is guessed beyond them.

    A guess is made where the score is at most `low` or at least `high`; infinite if there is none
    on that side. `low_bit` and `high_bit` are the guesses: whether the release is of the second
    data set.
    """

    low: float
    high: float
    low_bit: bool
    high_bit: bool

    @property
    def sides(self) -> int:
        """Whether both data sets are ever guessed."""
        used = [
            bit
            for bit, end in ((self.low_bit, self.low), (self.high_bit, self.high))
            if np.isfinite(end)
        ]
        return max(1, len(set(used)))

    def guesses(self, values: Array, bits: Bits) -> tuple[int, int]:
        """Guesses made, and right ones, from the scores of releases."""
        below = values <= self.low
        above = values >= self.high
        right = np.count_nonzero(bits[below] == self.low_bit) + np.count_nonzero(
            bits[above] == self.high_bit
        )
        return int(np.count_nonzero(below) + np.count_nonzero(above)), int(right)


@dataclass(frozen=True)
class Rule:
    """When to guess what.

    Attributes
    ----------
    score : Score
    columns, form : int, bool
        How many columns of a release it looks at, and whether at its form.
    ends : Ends
    guessed : float
        Share of the training runs in which a guess was made.
    promise : float
        Lower bound on the privacy loss that is expected from the test.
    """

    score: Score
    columns: int
    form: bool
    ends: Ends
    guessed: float
    promise: float

    @property
    def words(self) -> str:
        """The rule in words."""
        low, high, *bits = self.ends
        texts = zip(self.score.words(low, high), bits, (low, high), strict=True)
        return ", ".join(
            f"{('first', 'second')[b]} data set if {text}"
            for text, b, end in texts
            if np.isfinite(end)
        )


def count_guesses(rules: Sequence[Rule], seen: Outcomes, bits: Bits) -> NDArray[np.int64]:
    """Guesses made and right ones of rules learned from the same releases, shape (rules, 2)."""
    wide = seen.with_columns(rules[0].columns, rules[0].form)
    scores = {id(rule.score): rule.score for rule in rules}
    values = {key: score.values(wide) for key, score in scores.items()}
    return np.array([rule.ends.guesses(values[id(rule.score)], bits) for rule in rules])


def promised(made: Array, right: Array, seen: int, sides: Any, goal: Goal) -> Array:
    """Lower bound to be expected of the test, from guesses made and right ones in `seen` runs."""
    made = np.minimum(made, seen)  # thresholds that cross count some runs twice, and are not used
    wrong = np.maximum(made - right, 0)
    # less luck
    cautious = np.where(made > 0, stats.beta.ppf(_CAUTION, np.maximum(right, 1e-9), wrong + 1), 0.0)
    expected = made / seen * goal.runs
    two = guess_epsilon(cautious * expected, expected, goal.runs, goal.level, goal.delta, 2)
    if not goal.delta:  # sides do not matter
        return two
    one = guess_epsilon(cautious * expected, expected, goal.runs, goal.level, goal.delta, 1)
    return np.where(np.equal(sides, 1), one, two)


def best_rules(
    score: Score, seen: Outcomes, bits: Bits, goal: Goal, form: bool = False
) -> list[Rule]:
    """The thresholds that promise most, for each band of how often a guess is made.

    There is none if all scores are the same. The last column is the form if `form`.
    """
    values = score.values(seen)
    known = np.isfinite(values)
    if known.sum() < 2 or (values[known] == values[known][0]).all():
        return []
    found = tails(values[known], bits[known])
    one_sided = (
        (found.low_bits[:, None] == found.high_bits)
        | np.isinf(found.lows)[:, None]
        | np.isinf(found.highs)
    )
    promise = np.full(one_sided.shape, -np.inf)
    fit = found.apart & (found.made > 0)
    promise[fit] = promised(
        found.made[fit], found.right[fit], len(seen), np.where(one_sided, 1, 2)[fit], goal
    )
    band = np.searchsorted(-_BANDS, -found.made / len(seen))
    rules = []
    for number in range(len(_BANDS) + 1):
        inside = np.where(band == number, promise, -np.inf)
        i, j = np.unravel_index(int(np.argmax(inside)), inside.shape)
        if np.isfinite(inside[i, j]):
            share = float(found.made[i, j] / len(seen))
            columns = seen.numbers.shape[1] - form
            promises = float(inside[i, j])
            rules.append(Rule(score, columns, form, found.ends(i, j), share, promises))
    return rules


def propose(seen: Outcomes, bits: Bits, goal: Goal, *, quick: bool = False) -> list[Rule]:
    """Rules of all scores, those of the simplest first; `quick` tries fewer scores.

    There is none if all releases are the same, or if nothing of them comes back.
    """
    half = len(seen) // 2
    count = seen.numbers.shape[1]
    names = ["the output"] if count == 1 else [f"output[{j}]" for j in range(count)]
    form = bool((seen.forms != seen.forms[:1]).any())
    if form:
        seen = seen.with_columns(count, form)
        names.append("its form")
    return [
        rule
        for score in learn_scores(seen[:half], bits[:half], names, quick)
        for rule in best_rules(score, seen[half:], bits[half:], goal, form)
    ]


@dataclass(frozen=True, eq=False)
class Tails:
    """Thresholds that may be set to scores, and what would be guessed beyond them.

    Attributes
    ----------
    lows, highs : arrays of shape (k,), the last of each is infinite: no run is beyond it
    low_bits, high_bits : arrays of shape (k,), the more frequent bit beyond each
    made, right : arrays of shape (k, k), of guesses for each pair of a low and a high one
    apart : array of shape (k, k), whether no run is beyond both
    """

    lows: Array
    highs: Array
    low_bits: Bits
    high_bits: Bits
    made: Array
    right: Array
    apart: Bits

    def ends(self, i: np.int64, j: np.int64) -> Ends:
        """A pair of thresholds."""
        return Ends(
            float(self.lows[i]),
            float(self.highs[j]),
            bool(self.low_bits[i]),
            bool(self.high_bits[j]),
        )


def tails(values: Array, bits: Bits) -> Tails:
    """Thresholds for finite scores of shape (runs,), at ever more runs from either end."""
    order = np.argsort(values)
    n = len(values)
    ranked = values[order]
    ones = np.concatenate([[0], np.cumsum(bits[order])])
    counts = np.geomspace(min(_FEWEST, 1 + n // 8), n, _TAILS).astype(int)
    lows = np.append(ranked[counts - 1], -np.inf)
    highs = np.append(ranked[n - counts], np.inf)
    below = np.searchsorted(ranked, lows, "right")
    above = n - np.searchsorted(ranked, highs, "left")
    low_ones = ones[below]
    high_ones = ones[n] - ones[n - above]
    right = np.maximum(low_ones, below - low_ones)[:, None] + np.maximum(
        high_ones, above - high_ones
    )
    made = (below[:, None] + above).astype(float)
    apart = lows[:, None] < highs
    return Tails(lows, highs, 2 * low_ones > below, 2 * high_ones >= above, made, right, apart)
