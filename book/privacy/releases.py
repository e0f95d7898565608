r"""What the learners release at fixed seeds, in settings drawn at random from all options that they have.

Two versions of the library are compared by it, bit for bit: :mod:`hdpm_book.privacy.faults` does so with random faults.
Of every setting there is what is *released*, what is *told* with it (guarantees, rates), and whether an error came;
settings with data or arguments outside the bounds stand apart, as there errors are right.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from hdpm_book.ridge import jorgensen, variants
from hdpm_lib.accounts import Account
from hdpm_lib.aggregation import least_error_weights, size_weights
from hdpm_lib.discrete import discrete_laplace, lattice_laplace
from hdpm_lib.learners import estimators, logistic, queries, ridge
from hdpm_lib.learners.fedsgd import Bought, fedsgd
from hdpm_lib.learners.gradients import clipped, draw_bidders, local_gradients, noise_scale
from hdpm_lib.learners.integer_answers import gradient_noise, integer_gradients, integer_sum
from hdpm_lib.learners.lattice import lattice_ridge
from hdpm_lib.noise import spherical_laplace

Generator = np.random.Generator
Outcome = tuple[list[Any], list[Any]]  # released, told
Scene = Callable[[Generator, bool], Outcome]  # of a generator that picks the setting; inside the bounds, or outside
SIZES: tuple[Any, ...] = ((), 1, 3, (2, 2), 0)
DIMENSIONS = (1, 2, 3, 12, 31)
PENALTIES = (1e-3, 0.04, 0.3, 1.0, 5.0, 40.0, 1e4)


def _pick(rng: Generator, values: Sequence[Any]) -> Any:
    return values[int(rng.integers(len(values)))]


def _noise(rng: Generator) -> Generator:
    return np.random.default_rng(rng.integers(2**32))


def _records(rng: Generator, inside: bool, ridge_options: bool = True) -> tuple[Any, Any, NDArray, dict[str, Any]]:
    """Records in one of several types, privacy losses, and options of ridge regression that fit them."""
    n, d = int(_pick(rng, (1, 2, 7, 40))), int(_pick(rng, DIMENSIONS))
    X, y = rng.random((n, d)), rng.uniform(-1, 1, n)
    if rng.random() < 0.3:
        X, y = np.rint(X), np.where(y < 0, -1.0, 1.0)
    label_bound, norm = float(_pick(rng, (1.0, 1.0, 0.5, 3.0))), _pick(rng, (None, None, 0.7, 2.0))
    if norm is not None:
        X = (2 * X - 1) / max(1.0, float(np.linalg.norm(2 * X - 1, axis=1).max())) * norm * (1 - 1e-6)
    y = y * label_bound
    if not inside:
        X[0], y[-1] = 3 * X[0] + 0.4, _pick(rng, (1.0, 1.7)) * y[-1] + 0.1
    kind = _pick(rng, (np.float64, np.float64, np.float32, list))
    if kind is np.float32 and inside:
        X, y = (X * (1 - 1e-6)).astype(np.float32), (y * (1 - 1e-6)).astype(np.float32)
    elif kind is list:
        X, y = X.tolist(), y.tolist()
    epsilon = rng.uniform(0.02, 2.0, n) * _pick(rng, (1.0, 1.0, 0.05))
    return X, y, epsilon, {"feature_norm": norm, "label_bound": label_bound} if ridge_options else {}


def _ridge(rng: Generator, inside: bool) -> Outcome:
    X, y, epsilon, options = _records(rng, inside)
    options["bound"] = bound = _pick(rng, ("paper", "sharp"))
    if rng.random() < 0.3:
        options["norm_bound"] = float(_pick(rng, (0.3, 2.0)))
    made = ridge.output_perturbation(X, y, epsilon, float(_pick(rng, PENALTIES)), clip=rng.random() < 0.5, **options)
    source, project = _noise(rng), rng.random() < 0.5
    out = [made.release(rng=source, size=size, project=project) for size in SIZES]
    if not inside and rng.random() < 0.3:
        ridge.output_perturbation(np.zeros((1, 1)), [0.0], [1.0], 1.0, bound=_pick(rng, ("Paper", "none")))
    floor = ridge.output_perturbation(np.clip(X, 0, 1), np.clip(y, -1, 1), np.full_like(epsilon, epsilon.min()), 1.0)
    told = [made.privacy_loss, made.noise_rate, made.radius, made.weights, made.theta]
    told += [ridge.estimate_norm_bound(0.5, 2.0), ridge.sensitivity_constant(0.5, 2.0, bound)]
    return [*out, floor.release(rng=source)], told


def _logistic(rng: Generator, inside: bool) -> Outcome:
    n, d = int(_pick(rng, (1, 2, 7, 40))), int(_pick(rng, DIMENSIONS))
    X = rng.standard_normal((n, d)) * _pick(rng, (0.05, 1.0))
    X /= np.maximum(1, (1 + 1e-6) * np.linalg.norm(X, axis=1, keepdims=True))
    y = rng.choice([-1.0, 1.0], n)
    a = rng.dirichlet(np.ones(n)) * _pick(rng, (1.0, 3.0)) * (rng.random(n) < 0.8)
    a[0] += 0.1
    if not inside:
        X[0] *= 5 / np.linalg.norm(X[0])
    X = X.astype(_pick(rng, (np.float64, np.float32)))
    penalty, clip = float(_pick(rng, (1e-3, 0.02, 0.06, 0.4, 2.0, 100.0))), bool(rng.random() < 0.5)
    eta = float(_pick(rng, (0.2, 3.0, 40.0)))
    told: list[Any] = []
    if rng.random() < 0.5:
        eta = logistic.eta_within(a * eta + np.log1p(a / penalty), a, penalty)
        told.append(eta)
    made = logistic.objective_perturbation(X, y, a, eta, penalty, clip=clip)
    source = _noise(rng)
    out = [made.release(rng=source, size=size) for size in SIZES]
    out.append(made.minimise(_pick(rng, (1.0, 1e-3, 1e5, 1e120)) * source.standard_normal((2, d))))
    return out, [*told, made.privacy_loss, made.eta, made.penalty]


def _sum(rng: Generator, inside: bool) -> Outcome:
    n, m = int(_pick(rng, (1, 3, 9))), int(_pick(rng, (1, 1, 2, 5)))
    shares, q = rng.random(n) * (rng.random(n) < 0.8), rng.uniform(0.2, 2.0, n) * rng.choice([-1, 1], n)
    weights = _pick(rng, (None, q))
    clip, source = bool(rng.random() < 0.5), _noise(rng)
    data = rng.random((n, m)[: 1 + (m > 1)])
    if not inside:
        shares[0] = _pick(rng, (shares[0], shares[0], 1.5, -0.1))
        data[0] = _pick(rng, (1.5, -0.2, np.nan))
    scale, terms = float(_pick(rng, (0.3, 1.0, 20.0))), (data.T * (1.0 if weights is None else weights)).T
    made = queries.linear_query(shares, scale, weights=weights, dimension=m, clip=clip)
    out = [made.release(terms, rng=source, size=size) for size in SIZES]
    other = queries.nonlinear_query(shares, scale, rng.random((n, 2)), clip=clip)
    if m == 1:
        out.append(other.release(data, rng=source))
    return out, [made.privacy_loss, made.scale, other.privacy_loss]


def _gradients(rng: Generator, inside: bool) -> Outcome:
    classes, width = int(_pick(rng, (1, 2, 5))), int(_pick(rng, (1, 3, 30)))
    kind = _pick(rng, (np.float64, np.float32))
    given = (_pick(rng, (1e-3, 1.0, 300.0)) * rng.standard_normal((4, classes, width))).astype(kind)
    if rng.random() < 0.3:
        given[0, 0, 0] = _pick(rng, (np.nan, np.inf, 1e30))
    bound, epsilon = float(_pick(rng, (0.5, 1.0, 3.0))), rng.uniform(0.1, 4.0, 4)
    X = np.append(rng.random((6, width - 1)), np.ones((6, 1)), axis=1).astype(kind)
    owners = [np.array([0, 1, 2]), np.array([], dtype=int), np.array([4]), np.array([1, 5])]
    labels = rng.integers(0, classes, 6)
    if not inside:
        labels[0] = _pick(rng, (classes, -1))
    models = rng.standard_normal((2, classes, width))
    spacing = 2.0 ** -int(_pick(rng, (4, 10, 20)))
    sent = integer_gradients(given, epsilon.tolist(), bound, spacing=spacing, rng=_noise(rng))
    drawn = gradient_noise([*epsilon[:2], 0.0, Fraction(1, 3)], (2, width), bound, spacing, rng=_noise(rng))
    scale = noise_scale(np.append(epsilon, 0.0), bound)
    return [clipped(given, bound), local_gradients(models, X, labels, owners), sent, drawn], [scale]


def _training(rng: Generator, inside: bool) -> Outcome:
    classes, width, owners, rounds, runs = 3, int(_pick(rng, (1, 4))), 5, 4, 2
    kind = _pick(rng, (np.float64, np.float32))
    X = np.append(3 * rng.random((20, width - 1)), np.ones((20, 1)), axis=1).astype(kind)
    y = rng.integers(0, classes, 20)
    rows = [np.array_split(rng.permutation(20)[: int(_pick(rng, (3, 20)))], owners) for _ in range(runs)]
    budget = rng.uniform(0.2, 3.0, (runs, owners))
    asked = draw_bidders(owners, int(_pick(rng, (1, 2, 5))), rounds, runs, _noise(rng))
    share = rng.random(asked.shape) * (rng.random(asked.shape) < 0.7) * (1.0 if inside else 1.5)

    def auction(bidders: NDArray) -> Bought:
        sold = share * np.take_along_axis(budget[None], bidders, axis=2)
        return Bought(sold, 2 * sold, 2 * sold.sum(2) + 0.1)

    rules = (
        {"opt": least_error_weights, "conv": size_weights}
        if rng.random() < 0.5
        else {"conv": size_weights, "none": None}
    )
    options = {
        "auction": _pick(rng, (None, auction)) if inside else auction,
        "learning_rate": float(_pick(rng, (0.01, 0.5))),
        "clip_norm": float(_pick(rng, (0.05, 1.0, 4.0))),
        "every": int(_pick(rng, (1, 3, 10))),
        "spacing": _pick(rng, (None, None, 2.0**-10, 2.0**-20)),
    }
    start = rng.standard_normal((runs, classes, width)[int(rng.integers(2)) :])
    if not inside and rng.random() < 0.5:
        share = np.minimum(share, 1.0)
        X[0, 0], y[0] = [(np.nan, 0), (np.inf, 0), (0.5, -1), (0.5, classes)][int(rng.integers(4))]
    made = fedsgd(X, y, rows, budget, asked, rules, start, rng=_noise(rng), **options)
    out = [made.parameters(name) for name in rules] + [made.noise[name] for name in rules]
    return out, [made.privacy_loss, made.paid, made.idle, made.rounds]


def _sampled(rng: Generator, inside: bool) -> Outcome:
    X, y, epsilon, options = _records(rng, inside)
    options["bound"] = _pick(rng, ("paper", "sharp"))
    threshold = float(_pick(rng, (epsilon.max(), epsilon.mean(), 0.5)))
    masks = jorgensen.draw_masks(epsilon, threshold, 6, rng=_noise(rng))
    keep = jorgensen.inclusion_probabilities(epsilon, threshold)
    told: list[Any] = [keep]
    if len(epsilon) < 8:
        told += jorgensen.all_masks(epsilon, threshold)
    size = _pick(rng, ("realised", "fixed") if inside else ("realised", "fixed", "Fixed"))
    if size == "realised":
        masks = np.vstack([masks[masks.sum(1) > 0], np.ones(len(epsilon))])
    penalty = float(_pick(rng, PENALTIES[2:]))
    made = jorgensen.sampled_ridge(X, y, epsilon, penalty, threshold, masks, size_in_noise=size, **options)
    told += [made.noise_rate, made.sample_size, made.theta]
    if len(masks) < 8:
        told.append(made.log_density(np.zeros((1, made.theta.shape[1])), np.full(len(masks), 1 / len(masks))))
    return [masks, made.release(rng=_noise(rng))], told


def _variants(rng: Generator, inside: bool) -> Outcome:
    X, y, epsilon, options = _records(rng, inside)
    penalty, total = float(_pick(rng, PENALTIES[1:])), epsilon.sum()
    norm = np.sqrt(np.shape(X)[1]) if options["feature_norm"] is None else options["feature_norm"]
    out: list[Any] = []
    told: list[Any] = []
    source = _noise(rng)
    made = variants.calibrate_sufficient_statistics(X, y, epsilon, penalty, **options)
    out += [variants.release_sufficient_statistics(made, rng=source, size=size) for size in SIZES]
    told += [made.noise_rate, made.radius]
    enough = epsilon * max(1.0, 1.5 * norm**2 / penalty / total)
    other = variants.calibrate_objective_perturbation(X, y, enough, penalty, **options)
    out += [variants.release_objective_perturbation(other, rng=source, size=size) for size in SIZES]
    told += [other.noise_rate, other.radius, other.second, other.cross]
    low, high = -options["label_bound"], options["label_bound"] * float(_pick(rng, (1.0, 2.0)))
    out += [variants.private_constant(y, epsilon, label_range=(low, high), rng=source, size=size) for size in SIZES]
    return out, told


def _integers(rng: Generator, inside: bool) -> Outcome:
    n = int(_pick(rng, (1, 3, 9)))
    shares, q = rng.random(n), rng.uniform(0.2, 2.0, n) * rng.choice([-1, 1], n)
    data = rng.random(n)
    if not inside:
        data[0] = _pick(rng, (1.5, -0.2, np.nan))
    options: dict[str, Any] = {
        "levels": int(_pick(rng, (1, 2**10, 2**34))),
        "spacing": 2.0 ** -int(_pick(rng, (12, 30, 44))),
    }
    if rng.random() < 0.3:
        options = {}
    scale = float(_pick(rng, (0.3, 1.0, 20.0)))
    made = integer_sum(shares, scale, weights=_pick(rng, (None, q)), clip=bool(rng.random() < 0.5), **options)
    source = _noise(rng)
    out: list[Any] = [made.release(data, rng=source, size=size) for size in SIZES]
    return [*out, made.answer(out[2])], [*map(float, made.privacy_loss), float(made.scale)]


def _lattice(rng: Generator, inside: bool) -> Outcome:
    X, y, epsilon, options = _records(rng, inside)
    X, y, epsilon = np.asarray(X)[:7, :5], np.asarray(y)[:7], epsilon[:7]
    options |= {"bound": _pick(rng, ("paper", "sharp")), "spacing": 2.0 ** -int(_pick(rng, (10, 20, 35)))}
    made = lattice_ridge(X, y, epsilon, float(_pick(rng, PENALTIES[1:])), clip=bool(rng.random() < 0.5), **options)
    source, project = _noise(rng), bool(rng.random() < 0.5)
    out = [made.release(rng=source, size=size, project=project) for size in SIZES]
    plain = lattice_ridge(np.clip(X, 0, 1), np.clip(y, -1, 1), epsilon, 1.0)
    return [*out, plain.release(rng=source)], [
        made.privacy_loss,
        made.noise_rate,
        made.radius,
        made.weights,
        made.point,
    ]


def _estimated(rng: Generator, inside: bool) -> Outcome:
    X, y, epsilon, options = _records(rng, inside)
    X, y, epsilon = np.asarray(X)[:, :5], np.asarray(y), _pick(rng, (epsilon, None, 0.7))
    out_of_range, own = _pick(rng, ("raise", "clip")), float(_pick(rng, (0.5, 2.0)))
    options |= {"bound": _pick(rng, ("paper", "sharp")), "project": bool(rng.random() < 0.5), "epsilon": own}
    options |= {"arithmetic": _pick(rng, ("ideal", "ideal", "lattice")), "out_of_range": out_of_range}
    seed = int(rng.integers(2**31))
    source = _pick(rng, (seed, np.random.default_rng(seed), np.random.RandomState(seed)))
    model = estimators.PersonalizedRidge(float(_pick(rng, PENALTIES[2:])), random_state=source, **options)
    fits = [model.fit(X, y, epsilon).coef_, model.fit(X, y, epsilon).coef_]
    fits += [one.fit(X, y, epsilon).coef_ for one in (clone(model), clone(model))]
    out, told = [*fits, model.predict(X)], [model.privacy_loss_, model.noise_rate_, model.weights_]
    with Account(2 * len(y)) as account:
        open_model = estimators.PersonalizedRidge(epsilon=own, project=False, out_of_range="clip")
        free = [open_model.fit(X, y, record=np.arange(len(y))).coef_ for _ in range(2)]
        closed = estimators.PrivateLogisticRegression(5.0, classes=(0, 1))
        closed.fit(np.zeros((len(y), 1)), np.zeros(len(y), dtype=int), record=np.arange(len(y)) + len(y))
    told += [account.total, account.releases, bool((free[0] == free[1]).any())]
    labels = np.where(np.arange(len(y)) % 2 == 0, "no", "yes")
    vectors = X / np.maximum(1, 1.001 * np.linalg.norm(X, axis=1, keepdims=True)) * (1.0 if inside else 3.0)
    classes = _pick(rng, (("no", "yes"), ("yes", "no")))
    classifier = estimators.PrivateLogisticRegression(
        float(_pick(rng, (0.6, 5.0))), epsilon=own, classes=classes, out_of_range=out_of_range, random_state=source
    )
    if inside and len(y) > 1 and rng.random() < 0.3:
        classifier.classes = None
    elif not inside:
        labels[0] = _pick(rng, ("no", "neither"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "classes is not given")
        classifier.fit(vectors, labels, epsilon)
    out += [classifier.coef_, classifier.predict(vectors), classifier.decision_function(vectors)]
    return out, [*told, classifier.privacy_loss_, classifier.eta_, classifier.weights_]


def _drawn(rng: Generator, inside: bool) -> Outcome:
    d, source = int(_pick(rng, (*DIMENSIONS, 60))), _noise(rng)
    rate = float(_pick(rng, (1e-3, 1.0, 50.0))) * (1.0 if inside else -1.0)
    out: list[Any] = [spherical_laplace(d, rate, rng=source, size=size) for size in SIZES]
    out.append(spherical_laplace(d, rate * np.array([1.0, 2.0]), rng=source, size=2))
    scale = Fraction(int(rng.integers(1, 50)), int(rng.integers(1, 50)))
    wide = _pick(rng, (scale, Fraction(2**40 + 1, 3), 7, Fraction(2**60)))
    out += [discrete_laplace(wide, rng=source, size=size) for size in (*SIZES, 200)]
    flat = int(_pick(rng, (1, 2, 5, 8)))
    slow = _pick(rng, (1 / scale, Fraction(1, 2**20), Fraction(3, 2**45)))
    return [*out, *(lattice_laplace(flat, slow, rng=source, size=size) for size in (*SIZES, 40))], []


SCENES: dict[str, tuple[Scene, int]] = {  # with the number of settings
    "noise": (_drawn, 30),
    "ridge": (_ridge, 200),
    "logistic": (_logistic, 120),
    "queries": (_sum, 150),
    "gradients": (_gradients, 80),
    "fedsgd": (_training, 60),
    "jorgensen": (_sampled, 120),
    "variants": (_variants, 100),
    "integer_answers": (_integers, 80),
    "lattice": (_lattice, 60),
    "estimators": (_estimated, 80),
}


@dataclass(frozen=True)
class Seen:
    """What one setting gave.

    Attributes
    ----------
    inside : bool, whether all data and arguments lay inside their bounds
    released, told : list of arrays, empty after an error
    error : str, the error, or nothing
    said : tuple of str, warnings
    """

    inside: bool
    released: list[NDArray]
    told: list[NDArray]
    error: str
    said: tuple[str, ...]


def observe(names: Sequence[str] = tuple(SCENES)) -> Iterator[Seen]:
    """What all settings of these scenes give, in order; every fourth setting lies outside the bounds."""
    for name in names:
        scene, count = SCENES[name]
        for number in range(count):
            inside, released, told, error = number % 4 != 3, [], [], ""
            rng = np.random.default_rng([list(SCENES).index(name), number])
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                try:
                    released, told = ([np.asarray(part) for part in parts] for parts in scene(rng, inside))
                except Exception as wrong:
                    error = f"{type(wrong).__name__}: {wrong}"
            yield Seen(inside, released, told, error, tuple(str(one.message) for one in heard))


EFFECTS = ("release", "refusal", "promise", "bounds", "text", "rounding", "none")
"""How two versions differ at most: in what is released; in that data inside the bounds are refused; in what is told
with a release; in that data outside are taken; in texts and warnings; in last digits; or in nothing."""


def difference(right: Iterable[Seen], other: Iterable[Seen]) -> str:
    """The first of `EFFECTS` by which the second version differs from the first."""
    worst = len(EFFECTS) - 1
    for a, b in zip(right, other, strict=True):
        if (worst := min(worst, EFFECTS.index(_one(a, b)))) == 0:
            break
    return EFFECTS[worst]


def _one(right: Seen, other: Seen) -> str:
    if right.error or other.error:
        if right.error and other.error:
            return "none" if right.error == other.error else "text"
        if right.inside:
            return "refusal" if other.error else "promise"
        return "text" if other.error else "bounds"
    for effect, first, second in (("release", right.released, other.released), ("promise", right.told, other.told)):
        if not all(map(_close, first, second)):
            return effect
    if right.said != other.said:
        return "text"
    return "none" if all(map(_same, right.released + right.told, other.released + other.told)) else "rounding"


def _same(a: NDArray, b: NDArray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


def _close(a: NDArray, b: NDArray) -> bool:
    if a.dtype.kind not in "fiu" or b.dtype.kind not in "fiu":
        return _same(a, b)
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-9, atol=0, equal_nan=True))
