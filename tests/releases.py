"""Every learner as one function of data, privacy losses and a generator; and the data sets that its
bounds admit.

A domain gives data sets of `n` records, each in several layouts and types: they are all that a
public bound lets in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from hdpm_book.ridge import variants
from hdpm_book.ridge.jorgensen import sampled_ridge
from hdpm_lib.aggregation import least_error_weights
from hdpm_lib.learners.estimators import PersonalizedRidge, PrivateLogisticRegression
from hdpm_lib.learners.fedsgd import fedsgd
from hdpm_lib.learners.gradients import accuracy, clipped, local_gradients
from hdpm_lib.learners.integer_answers import grid_gradients, integer_gradients, record_steps
from hdpm_lib.learners.objective import eta_within, objective_perturbation
from hdpm_lib.learners.queries import BiasedLaplace, linear_query, nonlinear_query
from hdpm_lib.learners.ridge import output_perturbation
from hdpm_lib.learners.second_moments import second_moments
from hdpm_lib.learners.weighted_mean import WeightedMean
from hdpm_lib.schema import Number, Schema

Array = np.ndarray
Data = tuple[Any, ...]  # of one call
Seen = tuple[Any, list[Any]]  # what is released or fitted, and what only shows itself
Domain = Callable[[np.random.Generator, int], Iterator[Data]]
D = 3
CLASSES = 3
COLUMNS = ("age", "bmi", "children")
# the least positive float and the largest
TINY = 5e-324
HUGE = 1.7976931348623157e308

# --- data sets inside the bounds -----------------------------------------------------------------

# of columns of numbers from 0 to 1
KINDS: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "zero": lambda rng, n: np.zeros(n),
    "minus zero": lambda rng, n: np.full(n, -0.0),
    "one": lambda rng, n: np.ones(n),
    "constant": lambda rng, n: np.full(n, 0.3),
    "denormal": lambda rng, n: np.full(n, TINY),
    "all but one": lambda rng, n: np.append(np.zeros(n - 1), 1.0),
    "bounds": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "next to the bounds": lambda rng, n: rng.choice([TINY, math.nextafter(1, 0), 0.0, 1.0], n),
    "any": lambda rng, n: rng.random(n),
}


def column(rng: np.random.Generator, n: int) -> Array:
    return KINDS[rng.choice(list(KINDS))](rng, n)


def table(rng: np.random.Generator, n: int) -> Array:
    """Columns of any kinds, or of one kind; rows doubled at times."""
    X = np.column_stack(
        [column(rng, n)] * D if rng.random() < 0.3 else [column(rng, n) for _ in range(D)]
    )
    return X[rng.integers(0, n, n)] if rng.random() < 0.3 else X


def presented(array: Array) -> Iterator[Any]:
    """Write the same numbers in other layouts and types, whole ones as integers; 32 bits may round
    them.
    """
    yield array
    yield np.asfortranarray(array)
    yield array[::-1][::-1]
    yield array.tolist()
    yield array.astype(np.float32)
    if (array == np.rint(array)).all():
        yield array.astype(np.int8)


def boxes(rng: np.random.Generator, n: int) -> Iterator[Data]:
    """Features in [0, 1] and labels in [-1, 1]."""
    X = table(rng, n)
    y = (
        rng.choice([-1.0, 1.0]) * column(rng, n)
        if rng.random() < 0.5
        else rng.choice([-1.0, 1.0], n)
    )
    yield from zip(presented(X), presented(y), strict=False)


def short_rows(rng: np.random.Generator, n: int) -> Iterator[Data]:
    """Draw the same with any signs, rows of norm 1 at most."""
    for X, y in boxes(rng, n):
        rows = np.asarray(
            X, dtype=None if np.asarray(X).dtype == np.float32 else float
        ) * rng.choice([-1, 1], (n, 1))
        longest = 1 + 1e-6 * (rows.dtype == np.float32)  # which 32 bits would exceed by rounding
        yield rows / np.maximum(1, longest * np.linalg.norm(rows, axis=1, keepdims=True)), y


def signed(rng: np.random.Generator, n: int) -> Iterator[Data]:
    """Vectors of norm at most 1, and labels -1 and 1, of one class at times."""
    y = rng.choice([-1.0, 1.0], n) if rng.random() < 0.5 else np.full(n, rng.choice([-1.0, 1.0]))
    for X, _ in short_rows(rng, n):
        yield X, y


def only(part: int, domain: Domain) -> Domain:
    """One part of the data."""
    return lambda rng, n: ((data[part],) for data in domain(rng, n))


def numbers(rng: np.random.Generator, n: int) -> Iterator[Data]:
    """Draw a datum in [0, 1] for each individual."""
    yield from zip(presented(column(rng, n)))


def below_zero(rng: np.random.Generator, n: int) -> Iterator[Data]:
    """Draw the same, times a negative weight."""
    yield from ((-weights(n) * np.asarray(d),) for (d,) in numbers(rng, n))


def gradients(rng: np.random.Generator, n: int) -> Iterator[Data]:
    """Any floats at all, one kind everywhere or all mixed."""
    values = [0.0, -0.0, TINY, 1.0, -1e308, HUGE, math.inf, -math.inf, math.nan]
    array = np.full((n, CLASSES, D), rng.choice(values))
    if rng.random() < 0.7:
        array = rng.choice(values, (n, CLASSES, D), p=[0.92, *[0.01] * 8])
    with np.errstate(over="ignore"):
        yield from ((array,), (np.asfortranarray(array),), (array.astype(np.float32),))
    yield (np.full((n, CLASSES, D), 3),)


def shared_out(rng: np.random.Generator, n: int) -> Iterator[Data]:
    """Draw records of any size and class, among owners of whom some have none."""
    for dtype in (np.float64, np.float32):
        top = float(np.finfo(dtype).max)
        X = table(rng, 12) * rng.choice([1.0, 1e-30, -1e20, top])
        y = (
            np.full(12, rng.integers(CLASSES))
            if rng.random() < 0.5
            else rng.integers(0, CLASSES, 12)
        )
        whose = rng.integers(0, n, 12) if rng.random() < 0.7 else np.zeros(12)
        yield (
            np.asarray(X, dtype=dtype, order="F"),
            y,
            [np.flatnonzero(whose == i) for i in range(n)],
        )


# --- learners -----------------------------------------------------------------------------------


def released(made: Any, *data: Any, **options: Any) -> Seen:
    return made.release(*data, **options), [made]


def weights(n: int) -> Array:
    return np.linspace(0.1, 3, n)


def records(
    make: Any, penalty: float = 0.5, project: bool = False, **options: Any
) -> Callable[..., Seen]:
    """Output perturbation."""

    def learn(X: Any, y: Any, epsilon: Array, rng: np.random.Generator, **clip: bool) -> Seen:
        more = {"project": True} if project else {}
        made = make(epsilon, penalty, features=D, **options, **clip)
        return released(made, X, y, rng=rng, **more)

    return learn


def regressor(
    X: Any, y: Any, epsilon: Array, rng: np.random.Generator, clip: bool = False, **options: Any
) -> Seen:
    model = PersonalizedRidge(clip=clip, rng=rng, **options).fit(X, y, epsilon=epsilon)
    return [model, model.predict(X)], []


def classifier(
    X: Any, y: Any, epsilon: Array, rng: np.random.Generator, clip: bool = False, delta: float = 0.0
) -> Seen:
    given: dict[str, Any] = {
        "classes": (-1, 1),
        "feature_norm": 1.0,
        "clip": clip,
        "delta": delta,
        "rng": rng,
    }
    penalty = None if delta > 0 else 3 / epsilon.sum()
    model = PrivateLogisticRegression(penalty, **given).fit(X, y, epsilon=epsilon)
    return [model, model.predict(X), model.decision_function(X)], []


def logistic(X: Any, y: Any, epsilon: Array, rng: np.random.Generator, **options: Any) -> Seen:
    # no slack
    share = epsilon / epsilon.sum()
    penalty = 3 / epsilon.sum()
    eta = eta_within(epsilon, share, penalty)
    made = objective_perturbation(share, eta, penalty, features=D, **options)
    return released(made, X, y, rng=rng)


def answer(make: Any, *more: Callable[[int], Any], **options: Any) -> Callable[..., Seen]:
    """Return a query that promises the losses, with further arguments that follow from the number
    of people.
    """

    def learn(d: Any, epsilon: Array, rng: np.random.Generator, **clip: bool) -> Seen:
        n = len(epsilon)
        most = epsilon.max()
        made = make(epsilon / most, 1 / most, *[part(n) for part in more], **options, **clip)
        return released(made, d, rng=rng)

    return learn


def below(shares: Array, scale: float, q: Array, **options: Any) -> BiasedLaplace:
    return linear_query(shares, scale, weights=-q, **options)


def mean(X: Any, epsilon: Array, rng: np.random.Generator, **options: Any) -> Seen:
    made = WeightedMean(epsilon / epsilon.sum(), epsilon.sum() / 2, np.zeros(D), 1.0, **options)
    return released(made, X, rng=rng)


def sampled(
    X: Any, y: Any, epsilon: Array, rng: np.random.Generator, penalty: float = 0.5, **options: Any
) -> Seen:
    masks = np.ones((2, len(epsilon)))
    if options["size_in_noise"] == "fixed":
        masks[0, ::2] = 0
    return released(sampled_ridge(X, y, epsilon, penalty, 1.0, masks, **options), rng=rng)


def objective(X: Any, y: Any, epsilon: Array, rng: np.random.Generator) -> Seen:
    made = variants.calibrate_objective_perturbation(X, y, epsilon, 2 * D / epsilon.sum())
    return variants.release_objective_perturbation(made, rng=rng, size=3), [made]


def constant(y: Any, epsilon: Array, rng: np.random.Generator) -> Seen:
    return variants.private_constant(y, epsilon, rng=rng), []


def sent(g: Any, epsilon: Array, rng: np.random.Generator, spacing: float = 2.0**-10) -> Seen:
    return integer_gradients(g, np.clip(epsilon, 1e-3, None), 0.7, spacing=spacing, rng=rng), []


def federated(
    x: Any, y: Any, owners: Any, epsilon: Array, rng: np.random.Generator, **options: Any
) -> Seen:
    n = len(owners)
    rules = {"opt": least_error_weights}
    asked = np.tile(np.arange(n), (2, 1, 1))
    losses = np.clip(epsilon, 1e-3, None)[None]
    made = fedsgd(x, y, [owners], losses, asked, rules, np.zeros((CLASSES, D)), rng=rng, **options)
    return made.parameters("opt")[-1], [made]


def shortened(g: Any, epsilon: Array, rng: np.random.Generator) -> Seen:
    short = clipped(g, 0.7)
    assert (np.abs(short).sum((-2, -1)) <= 0.7 * (1 + 1e-6)).all()
    return [short.astype(float), grid_gradients(g, 0.7, 2.0**-10)], []


def local(x: Any, epsilon: Array, rng: np.random.Generator) -> Seen:
    """Return what leaves an owner: her gradients need the noise of `sent`, but any features give
    some.
    """
    n = len(epsilon)
    found = local_gradients(np.zeros((1, CLASSES, D)), x, np.arange(n) % CLASSES, [np.arange(n)])
    return clipped(found, 0.7).astype(float), []


def summed(x: Any, epsilon: Array, rng: np.random.Generator) -> Seen:
    """Return what needs noise, too."""
    y = np.arange(len(epsilon)) % CLASSES
    return [
        record_steps(np.ones((CLASSES, D)), x, y, 0.7, 2.0**-10, norm=norm) for norm in (1, 2)
    ], []


def right(x: Any, y: Any, owners: Any, epsilon: Array, rng: np.random.Generator) -> Seen:
    return accuracy(np.eye(CLASSES), x, y), []


def coded(X: Any, epsilon: Array, rng: np.random.Generator, clip: bool = False) -> Seen:
    made = Schema([Number(name, 0, 1) for name in COLUMNS], clip=clip)
    return made.transform(X), [made]


MODES = {"both": (False, True), "raise": (False,), "silent": (True,)}


class Learner(NamedTuple):
    """A learner, its data, the names of their parts, and what it does with what is outside the
    bounds.
    """

    learn: Callable[..., Seen]
    domain: Domain
    parts: tuple[str, ...] = ("X", "y")
    mode: str = "both"
    noisy: bool = True

    def __call__(
        self, data: Data, epsilon: Array, rng: np.random.Generator, clip: bool = False
    ) -> Seen:
        return self.learn(*data, epsilon, rng, **({"clip": clip} if self.mode == "both" else {}))


RIDGE: list[dict[str, Any]] = [
    {},
    {"project": True},
    {"penalty": 1e-3},
    {"penalty": 1e6},
    {"bound": "paper"},
]
RIDGE += [{"penalty": penalty, "bound": "paper"} for penalty in (1e-3, 1e6)] + [
    {"label_bound": 2.0}
]
# the least that is not lost
FLOATS = [{"arithmetic": "ideal"}, {"norm_bound": 0.4}, {"penalty": D * 2.0**-40}]
SHORT = {"feature_norm": 1.0}
FITS = [{}, {"clip_norm": 0.3}, {"label_bound": 2.0}, {"arithmetic": "ideal"}, {"delta": 0.1}]
SAMPLED = [
    {"size_in_noise": kind, "bound": bound}
    for kind in ("realised", "fixed")
    for bound in ("paper", "sharp")
]
IDEAL = [{}, {"arithmetic": "ideal"}]
labels = only(1, boxes)
tables = only(0, boxes)
balls = only(0, short_rows)
FEATURES = ("features",)
TERMS = ("terms",)
GRADIENTS = ("gradients",)
SHARED = ("features", "labels", "")


def pairs(n: int) -> Array:
    return np.full(n, 2.0)


LEARNERS: dict[str, Learner] = {
    **{
        f"output_perturbation {o}": Learner(records(output_perturbation, **o), boxes)
        for o in RIDGE + FLOATS
    },
    **{
        f"second_moments {o}": Learner(records(second_moments, **o), boxes)
        for o in [*IDEAL, {"label_bound": 2.0}]
    },
    "second_moments, short": Learner(records(second_moments, **SHORT), short_rows),
    **{f"PersonalizedRidge {o}": Learner(partial(regressor, **o), boxes) for o in FITS},
    "output_perturbation, short": Learner(records(output_perturbation, **SHORT), short_rows),
    "PersonalizedRidge, short": Learner(partial(regressor, feature_norm=1.0), short_rows),
    **{f"objective_perturbation {o}": Learner(partial(logistic, **o), signed) for o in IDEAL},
    "PrivateLogisticRegression": Learner(classifier, signed),
    "PrivateLogisticRegression, delta": Learner(partial(classifier, delta=0.1), signed),
    **{f"linear_query {o}": Learner(answer(linear_query, **o), numbers, TERMS) for o in IDEAL},
    "linear_query, many": Learner(answer(linear_query, dimension=D), tables, TERMS),
    "linear_query, below zero": Learner(answer(below, weights), below_zero, TERMS),
    **{
        f"nonlinear_query {o}": Learner(answer(nonlinear_query, np.eye, **o), numbers, TERMS)
        for o in IDEAL
    },
    "BiasedLaplace": Learner(
        answer(BiasedLaplace, lambda n: 2 * np.eye(n), pairs, lambda n: -np.ones(n)), labels, TERMS
    ),
    **{f"WeightedMean {o}": Learner(partial(mean, **o), balls, ("records",)) for o in IDEAL},
    **{f"sampled_ridge {o}": Learner(partial(sampled, **o), boxes, mode="raise") for o in SAMPLED},
    "ridge objective": Learner(objective, boxes, mode="raise"),
    "private_constant": Learner(constant, labels, ("y",), "raise"),
    **{
        f"fedsgd {o}": Learner(partial(federated, **o), shared_out, SHARED, "raise")
        for o in [*IDEAL, {"spacing": 2.0**-10}]
    },
    "integer_gradients": Learner(sent, gradients, GRADIENTS, "silent"),
    "accuracy": Learner(right, shared_out, SHARED, "raise", noisy=False),
    "clipped": Learner(shortened, gradients, GRADIENTS, "silent", noisy=False),
    "local_gradients": Learner(local, tables, FEATURES, "silent", noisy=False),
    "record_steps": Learner(summed, tables, FEATURES, "silent", noisy=False),
    "Schema": Learner(coded, tables, ("X",), noisy=False),
}
EACH = [(name, clip) for name, learner in LEARNERS.items() for clip in MODES[learner.mode]]
NOISY = [name for name, learner in LEARNERS.items() if learner.noisy]


def arrays(found: Any) -> list[Array]:
    """Return what was released or fitted, as arrays."""
    return [
        np.asarray(getattr(part, "coef_", part))
        for part in (found if isinstance(found, list) else [found])
    ]


LOSSES = np.array([0.5, 1.0, 1.5])
X = np.zeros((3, D))
Y = np.zeros(3)
NOTHING: dict[Domain, Data] = {
    signed: (X, np.array([1.0, -1.0, 1.0])),
    gradients: (np.zeros((3, 1, 2)),),
    shared_out: (np.ones((3, D)), np.arange(3), list(np.arange(3)[:, None])),
    **dict.fromkeys((tables, balls), (X,)),
    **dict.fromkeys((numbers, below_zero, labels), (Y,)),
}


def of_nothing(learner: Learner, rng: np.random.Generator) -> Seen:
    """Of three records that tell nothing, with the losses above."""
    return learner(NOTHING.get(learner.domain, (X, Y)), LOSSES, rng)
