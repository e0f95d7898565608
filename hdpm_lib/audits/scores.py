"""Rules of guessing: scores of releases and thresholds, learned from training runs.

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
    cell_codes,
    learn_columns,
    number_text,
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
        """Score releases, shape (runs,); NaN for those unlike any in training."""

    def words(self, low: float, high: float) -> tuple[str, str]:
        """Say in words that a value is at most `low`, and that it is at least `high`."""


@dataclass(frozen=True)
class Value:
    """The number in a column."""

    column: int
    name: str

    def values(self, seen: Outcomes) -> Array:
        """See :class:`Score`."""
        numbers, labels = seen.column(self.column)
        if labels is None:
            return numbers
        return np.where(labels == None, numbers, np.nan)  # noqa: E711

    def words(self, low: float, high: float) -> tuple[str, str]:
        """See :class:`Score`."""
        at_most = f"{self.name} is at most {number_text(low)}"
        at_least = f"{self.name} is at least {number_text(high)}"
        return at_most, at_least


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
        keys = _keys(self.columns, cell_codes(self.columns, seen))
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.ratios[place], np.nan)

    def words(self, low: float, high: float) -> tuple[str, str]:
        """See :class:`Score`."""
        return self._cells(self.ratios <= low), self._cells(self.ratios >= high)

    def _cells(self, which: Bits) -> str:
        """Say some cells in words, those that tell most first."""
        order = np.argsort(-np.abs(self.ratios[which]), kind="stable")
        texts = [self._cell(int(key)) for key in self.keys[which][order[:2]]]
        if len(order) > 2:
            texts.append(f"{len(order) - 2} cells more")
        return "; or ".join(texts)

    def _cell(self, key: int) -> str:
        """Say a cell in words."""
        texts = []
        values = []
        for column, code, name in zip(self.columns, self._codes(key), self.names, strict=True):
            texts.append(column.words(code, name))
            value = column.exact(code)
            if value != ABSENT:
                values.append(value)
        if len(texts) > 1 and None not in values:
            return f"the output is ({', '.join(map(str, values))})"
        return " and ".join(texts)

    def _codes(self, key: int) -> list[int]:
        """Take the one number of a cell apart into the codes of its columns, see `_keys`."""
        codes = []
        for column in reversed(self.columns):
            key, code = divmod(key, column.count)
            codes.append(code)
        return codes[::-1]


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
        odds = f"{self.name} gives odds of"
        return f"{odds} at most {np.exp(low):.4g}", f"{odds} at least {np.exp(high):.4g}"


def last_digits(seen: Outcomes, column: int) -> Outcomes:
    """Return the numbers of a column and the exponents of their lowest set bits.

    The exponent of 0 is above all others.

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
    """Return one number for the cells of all columns together."""
    keys = np.zeros(len(codes), dtype=np.int64)
    for column, code in zip(columns, codes.T, strict=True):
        keys = keys * column.count + code
    return keys


def _with_differences(seen: Outcomes) -> Outcomes:
    """Return all columns, and after them the differences of neighbouring ones."""
    numbers = np.hstack([seen.numbers, np.diff(seen.numbers, axis=1)])
    if seen.labels is None:
        return Outcomes(numbers, None, seen.forms)
    labelled = seen.labels != None  # noqa: E711
    between = np.full(labelled[:, 1:].shape, None, dtype=object)
    between[labelled[:, 1:] | labelled[:, :-1]] = "label"
    return Outcomes(numbers, np.hstack([seen.labels, between]), seen.forms)


def learn_scores(
    seen: Outcomes, bits: Bits, names: Sequence[str], quick: bool = False
) -> Iterator[Score]:
    """Learn scores from training runs and their bits, the simplest first; `quick` ones if asked.

    Nothing is left to learn where releases are of few kinds. `names` are those of the columns.
    """
    count = len(names)
    first = seen.numbers[0]
    varying = [j for j in range(count) if (seen.numbers[:, j] != first[j]).any()]
    varying = varying[:_SINGLE]
    for j in varying:
        yield Value(j, names[j])
    counted = _counts(seen, bits, names)
    if counted is not None:
        yield counted
        intervals = sum(len(column.edges) for column in counted.columns)
        if len(counted.keys) <= _FEW and not intervals:
            return
    most = min(_QUICK if quick else _LEARNERS, _CELLS // count)
    if count > 1 and min(len(seen), most) >= _LEAST:
        yield _additive(seen[:most], bits[:most])
        if not quick and count <= _COLUMNS:
            yield _boosted(seen[:most], bits[:most])
    for j in varying:
        digit = f"{DIGIT} of {names[j]}"
        yield Digits(j, Value(1, digit))
        if quick:
            continue
        number_and_digit = last_digits(seen[:_LEARNERS], j)
        counted = _counts(number_and_digit, bits[:_LEARNERS], [names[j], digit])
        if counted is not None:
            yield Digits(j, counted)


def _counts(seen: Outcomes, bits: Bits, names: Sequence[str]) -> Counts | None:
    """Count in the finest of three grids whose cells are not too many for the runs."""
    for bins in (_BINS, _COARSE, 2):
        columns = learn_columns(seen, bins)
        if sum(np.log2(column.count) for column in columns) > 62:
            continue
        keys, place = np.unique(_keys(columns, cell_codes(columns, seen)), return_inverse=True)
        if len(keys) <= min(_MOST_CELLS, len(seen) / 4):
            of_second = np.bincount(place, bits, len(keys))
            of_first = np.bincount(place, ~bits, len(keys))
            return Counts(columns, names, keys, np.log((of_second + 0.5) / (of_first + 0.5)))
    return None


def _additive(seen: Outcomes, bits: Bits) -> Learned:
    """Learn a logistic regression on the cells of all columns and their differences."""
    columns = learn_columns(_with_differences(seen), _COARSE)

    def table(runs: Outcomes) -> Codes:
        return cell_codes(columns, _with_differences(runs))

    model = make_pipeline(
        OneHotEncoder(handle_unknown="ignore"), LogisticRegression(C=1.0, tol=1e-3, max_iter=200)
    )
    return Learned("a logistic regression on cells", table, model.fit(table(seen), bits))


def _boosted(seen: Outcomes, bits: Bits) -> Learned:
    """Learn boosted trees on the numbers, their differences, and the labels if there are any."""
    columns = None if seen.labels is None else learn_columns(seen, 1)

    def table(runs: Outcomes) -> Array:
        numbers = _with_differences(runs).numbers
        if columns is None:
            return numbers
        return np.hstack([numbers, cell_codes(columns, runs)])

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
        """Number of data sets that are ever guessed, at least 1."""
        both = np.isfinite(self.low) and np.isfinite(self.high)
        return 2 if both and self.low_bit != self.high_bit else 1

    def guesses(self, values: Array, bits: Bits) -> tuple[int, int]:
        """Count the guesses made, and right ones, from the scores of releases."""
        below = values <= self.low
        above = values >= self.high
        made = np.count_nonzero(below) + np.count_nonzero(above)
        right_below = np.count_nonzero(bits[below] == self.low_bit)
        right_above = np.count_nonzero(bits[above] == self.high_bit)
        return int(made), int(right_below + right_above)


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
    expected_bound : float
        Lower bound on the privacy loss that is expected from the test.
    """

    score: Score
    columns: int
    form: bool
    ends: Ends
    guessed: float
    expected_bound: float

    @property
    def words(self) -> str:
        """The rule in words."""
        ends = self.ends
        names = {False: "first", True: "second"}
        if_low, if_high = self.score.words(ends.low, ends.high)
        texts = []
        if np.isfinite(ends.low):
            texts.append(f"{names[ends.low_bit]} data set if {if_low}")
        if np.isfinite(ends.high):
            texts.append(f"{names[ends.high_bit]} data set if {if_high}")
        return ", ".join(texts)


def count_guesses(rules: Sequence[Rule], seen: Outcomes, bits: Bits) -> NDArray[np.int64]:
    """Count guesses made, and right ones, by rules of the same training, shape (rules, 2)."""
    wide = seen.with_columns(rules[0].columns, rules[0].form)
    values: dict[int, Array] = {}  # by the identity of a score, which several rules share
    counts = []
    for rule in rules:
        key = id(rule.score)
        if key not in values:
            values[key] = rule.score.values(wide)
        counts.append(rule.ends.guesses(values[key], bits))
    return np.array(counts)


def expected_bound(made: Array, right: Array, runs: int, sides: Any, goal: Goal) -> Array:
    """Return the lower bound to be expected of the test.

    It follows from the guesses `made` and the `right` ones in so many `runs`. Their share is not
    taken as it is, which may be luck, but at the lower end of its confidence interval.
    """
    made = np.minimum(made, runs)  # thresholds that cross count some runs twice, and are not used
    wrong = np.maximum(made - right, 0)
    lower_end = stats.beta.ppf(_CAUTION, np.maximum(right, 1e-9), wrong + 1)
    share = np.where(made > 0, lower_end, 0.0)
    expected_made = made / runs * goal.runs
    expected_right = share * expected_made
    two_sided = guess_epsilon(expected_right, expected_made, goal.runs, goal.level, goal.delta, 2)
    if not goal.delta:  # sides do not matter
        return two_sided
    one_sided = guess_epsilon(expected_right, expected_made, goal.runs, goal.level, goal.delta, 1)
    return np.where(np.equal(sides, 1), one_sided, two_sided)


def best_rules(
    score: Score, seen: Outcomes, bits: Bits, goal: Goal, form: bool = False
) -> list[Rule]:
    """Choose the thresholds with the largest expected bound, for each band of shares guessed.

    There are none if all scores are the same. The last column is the form if `form`.
    """
    values = score.values(seen)
    known = np.isfinite(values)
    if known.sum() < 2 or (values[known] == values[known][0]).all():
        return []
    pairs = tails(values[known], bits[known])
    usable = pairs.apart & (pairs.made > 0)
    bound = np.full(usable.shape, -np.inf)
    bound[usable] = expected_bound(
        pairs.made[usable], pairs.right[usable], len(seen), pairs.sides[usable], goal
    )
    share = pairs.made / len(seen)
    band = np.searchsorted(-_BANDS, -share)
    rules = []
    for number in range(len(_BANDS) + 1):
        inside = np.where(band == number, bound, -np.inf)
        i, j = np.unravel_index(int(np.argmax(inside)), inside.shape)
        if np.isfinite(inside[i, j]):
            columns = seen.numbers.shape[1] - form
            best = Rule(
                score, columns, form, pairs.ends(i, j), float(share[i, j]), float(inside[i, j])
            )
            rules.append(best)
    return rules


def propose(seen: Outcomes, bits: Bits, goal: Goal, *, quick: bool = False) -> list[Rule]:
    """Propose rules of all scores, those of the simplest first; `quick` tries fewer scores.

    There are none if all releases are the same, or if nothing of them comes back.
    """
    half = len(seen) // 2
    count = seen.numbers.shape[1]
    names = ["the output"] if count == 1 else [f"output[{j}]" for j in range(count)]
    form = bool((seen.forms != seen.forms[:1]).any())
    if form:
        seen = seen.with_columns(count, form)
        names.append("its form")
    rules = []
    for score in learn_scores(seen[:half], bits[:half], names, quick):
        rules += best_rules(score, seen[half:], bits[half:], goal, form)
    return rules


@dataclass(frozen=True, eq=False)
class Tails:
    """Pairs of thresholds that may be set to scores, and what would be guessed beyond them.

    Attributes
    ----------
    lows, highs : arrays of shape (k,), the last of each is infinite: no run is beyond it
    low_bits, high_bits : arrays of shape (k,), the more frequent bit beyond each
    made, right : arrays of shape (k, k), of guesses for each pair of a low and a high one
    apart : array of shape (k, k), True if no run is beyond both
    """

    lows: Array
    highs: Array
    low_bits: Bits
    high_bits: Bits
    made: Array
    right: Array
    apart: Bits

    @property
    def sides(self) -> Array:
        """For each pair the number of data sets that are guessed, shape (k, k)."""
        same_bit = self.low_bits[:, None] == self.high_bits
        one_end = np.isinf(self.lows)[:, None] | np.isinf(self.highs)
        return np.where(same_bit | one_end, 1, 2)

    def ends(self, i: np.int64, j: np.int64) -> Ends:
        """Return one pair of thresholds."""
        return Ends(
            float(self.lows[i]),
            float(self.highs[j]),
            bool(self.low_bits[i]),
            bool(self.high_bits[j]),
        )


def tails(values: Array, bits: Bits) -> Tails:
    """Set thresholds for finite scores of shape (runs,), at ever more runs from either end."""
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
    right_below = np.maximum(low_ones, below - low_ones)
    right_above = np.maximum(high_ones, above - high_ones)
    right = right_below[:, None] + right_above
    made = (below[:, None] + above).astype(float)
    apart = lows[:, None] < highs
    return Tails(lows, highs, 2 * low_ones > below, 2 * high_ones >= above, made, right, apart)
