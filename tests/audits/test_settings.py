"""Every learner in every option: does it release what it says, with noise of the law it promises?

Settings follow from signatures: an option of a listed type is tried at all values of its type, a
number at the ones given here, and a new option that nobody tries is an error. Each setting is asked
for releases in batches, one by one, in tables and all at once. Centres, rates and promises are
formulas typed anew; the rest of a release has to be noise of that law, with all its digits if it is
in floats, and never to come back. Tests of one kind share the false-alarm rate. Fits of estimators
are such releases (`tests.learners.test_estimators`), and so are projected ones, before they are.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from hdpm_book.privacy.laws import laplace_law, smallest_p, spherical_law
from hdpm_book.ridge import jorgensen, variants
from hdpm_lib.learners import fedsgd, objective, queries, ridge, weighted_mean
from hdpm_lib.learners.gradients import clipped, local_gradients
from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.validation import FALSE_ALARM
from tests.support import generator

Array = np.ndarray
DRAWS = 400  # of each setting; of the first of each learner 8,000


@dataclass(frozen=True)
class Setting:
    """One way to use a learner.

    `noise` turns releases, in rows, into noise of rate one; `promised` are the losses that people
    are told, `implied` those that follow from weights, rate and a proved constant. `plain` releases
    noise around 0, if it is in floats.
    """

    name: str
    release: Callable[..., Any]  # of rng and size
    noise: Callable[[Array], Array]
    law: Callable[[Array, float], Any] = spherical_law
    promised: Any = None
    implied: Any = None
    plain: Callable[..., Any] | None = None
    draws: int = DRAWS
    again: bool = False  # whether numbers may come back


def alternatives(
    function: Callable[..., Any], values: Mapping[str, Sequence[Any]], apart: str = ""
) -> Iterator[dict]:
    """No option, then each option at each other kind of value, then the first other kinds of all at
    once.
    """
    hints = get_type_hints(function.__init__ if inspect.isclass(function) else function)
    yield {}
    together: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.default is parameter.empty or name in apart.split():
            continue
        kind = hints.get(name)
        kinds = (
            (False, True)
            if kind is bool
            else get_args(kind)
            if get_origin(kind) is Literal
            else values[name]
        )
        usual = "ideal" if name == "arithmetic" else parameter.default  # see `ideal`
        others = [value for value in kinds if value != usual]
        yield from ({name: value} for value in others)
        together[name] = others[0]
    if len(together) > 1:
        yield together


def asked(release: Callable[..., Any], rng: np.random.Generator, draws: int) -> Array:
    """A quarter of the draws in five batches, one by one, in a table, and at once."""
    k = draws // 4
    parts = [release(rng=rng, size=k // 5) for _ in range(5)]
    parts += [np.stack([release(rng=rng) for _ in range(min(k, 50))])]
    parts += [
        np.reshape(release(rng=rng, size=(2, k // 2)), (2 * (k // 2), *np.shape(parts[0])[1:]))
    ]
    return np.concatenate([*parts, release(rng=rng, size=k)])


def batched(many: Callable[[int, np.random.Generator], Array]) -> Callable[..., Array]:
    """A release of any size, from one of so many rows."""

    def release(*, rng: np.random.Generator, size: Any = ()) -> Array:
        found = np.asarray(many(int(np.prod(size)), rng))
        return found[0] if size == () else found.reshape(*np.atleast_1d(size).astype(int), -1)

    return release


def ideal(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, with ideal arithmetic where there is a choice and none was made."""
    there = "arithmetic" in inspect.signature(function).parameters
    return ({"arithmetic": "ideal"} if there else {}) | dict(options)


# --- ridge regression ---------------------------------------------------------------------------

BOUNDS = {"feature_norm": (2.5,), "label_bound": (0.5, 2.0), "norm_bound": (0.3,)}


def constant(
    penalty: float, R: float, a: float, bound: str, B: float | None = None, total: float = 1.0
) -> float:
    """What a unit of weight moves the estimate at most: as printed, or sharper, which is proved.

    `total` is the largest sum of the weights.
    """
    root = math.sqrt(total)
    if bound == "paper":
        return (
            2
            * R
            / penalty
            * (a + R * (a * root * min(penalty**-0.5, R * root / penalty) if B is None else B))
        )
    s = min(math.sqrt(penalty), R * root)
    return 2 * R / penalty * (a + R * (a * root * s / (s * s + penalty) if B is None else B) / 2)


def ridge_records(
    d: int, n: int, options: Mapping[str, Any], dtype: Any
) -> tuple[Array, Array, Array]:
    """Features, labels, and a norm of the features, within the bounds, or outside if they are
    clipped.
    """
    rng = np.random.default_rng([d, n])
    a = options.get("label_bound", 1.0)
    R = options.get("feature_norm")
    X = rng.random((n, d))
    y = a * rng.uniform(-1, 1, n)
    if R is not None:
        X = (2 * X - 1) * (R / math.sqrt(d))
    size = 1.5 if options.get("clip") else 0.99
    return (
        (size * X).astype(dtype),
        (size * y).astype(dtype),
        np.where(np.arange(n) % 3 == 0, 0.2, 1.0),
    )


def ridge_known(
    X: Array, y: Array, weights: Array, penalty: float, options: Mapping[str, Any]
) -> Array:
    """The estimate, by a factorisation."""
    X = X.astype(float)
    y = y.astype(float)
    R = options.get("feature_norm")
    a = options.get("label_bound", 1.0)
    X = np.clip(X, 0, 1) if R is None else X * np.minimum(1, R / np.linalg.norm(X, axis=1))[:, None]
    root = np.sqrt(weights)
    stacked = np.vstack([root[:, None] * X, math.sqrt(penalty) * np.eye(X.shape[1])])
    return np.linalg.lstsq(
        stacked, np.append(root * np.clip(y, -a, a), np.zeros(X.shape[1])), rcond=None
    )[0]


def ridge_setting(
    function: Any,
    options: dict,
    d: int = 12,
    n: int = 10,
    penalty: float = 1.0,
    dtype: Any = float,
    draws: int = DRAWS,
) -> Setting:
    """Output perturbation."""
    X, y, epsilon = ridge_records(d, n, options, dtype)
    a = options.get("label_bound", 1.0)
    bound = options.get("bound", "sharp")
    B = options.get("norm_bound")
    R = options.get("feature_norm", math.sqrt(d))
    given = ideal(function, options)
    made = function(epsilon, penalty, features=d, **given)
    rate = epsilon.sum() / constant(penalty, R, a, bound, B)
    centre = ridge_known(X, y, epsilon / epsilon.sum(), penalty, options)
    return Setting(
        f"{function.__name__} {options} d={d} n={n} penalty={penalty} {np.dtype(dtype)}",
        partial(made.release, X, y),
        lambda z: rate * (z - centre),
        promised=made.privacy_loss.astype(float),
        implied=float(made.noise_rate)
        * constant(penalty, R, a, bound, B)
        * epsilon
        / epsilon.sum(),
        plain=(partial(made.release, X, 0 * y) if given.get("arithmetic") == "ideal" else None),
        draws=draws,
    )


def ridge_settings() -> Iterator[Setting]:
    """Each option; dimensions, penalties, types."""
    yield ridge_setting(ridge.output_perturbation, {}, d=2)
    for options in alternatives(ridge.output_perturbation, BOUNDS):
        yield ridge_setting(ridge.output_perturbation, options)
    for d, n, penalty in ((1, 10, 1.0), (2, 1, 1.0), (12, 200, 0.01), (12, 10, 1e4)):
        yield ridge_setting(ridge.output_perturbation, {}, d, n, penalty)
    for d in (31, 60):
        yield ridge_setting(ridge.output_perturbation, {}, d, draws=8000)
    yield ridge_setting(
        ridge.output_perturbation, {"bound": "sharp"}, penalty=50.0, dtype=np.float32
    )
    for d, penalty in ((2, 0.5), (31, 40.0)):
        yield ridge_setting(
            ridge.output_perturbation, {"arithmetic": "exact"}, d, penalty=penalty, dtype=np.float32
        )


def sampled_setting(options: dict) -> Setting:
    """Ridge regression on sampled records: noise by the number kept, or by the number expected."""
    X, y, epsilon = ridge_records(5, 6, options, float)
    epsilon[0] = 1.0  # kept for sure
    keep = np.minimum(1, np.expm1(epsilon) / np.expm1(1.0))
    R = options.get("feature_norm", 5**0.5)
    a = options.get("label_bound", 1.0)
    bound = options.get("bound", "paper")
    fixed = options.get("size_in_noise") == "fixed"
    c = constant(1.0, R, a, bound, total=len(epsilon) / keep.sum() if fixed else 1.0)

    @batched
    def release(count: int, rng: np.random.Generator) -> Array:
        masks = jorgensen.draw_masks(epsilon, 1.0, count, rng=rng)
        made = jorgensen.sampled_ridge(X, y, epsilon, 1.0, 1.0, masks, **options)
        kept = np.full(len(masks), keep.sum()) if fixed else masks.sum(1)
        centres = [
            ridge_known(X, y, mask / k, 1.0, options) for mask, k in zip(masks, kept, strict=True)
        ]
        return (made.release(rng=rng) - np.array(centres)) * (kept / c)[:, None]

    return Setting(f"sampled {options}", release, lambda z: z)


def sampled_settings() -> Iterator[Setting]:
    """Each option."""
    yield from map(sampled_setting, alternatives(jorgensen.sampled_ridge, BOUNDS, "norm_bound"))


def variant_settings() -> Iterator[Setting]:
    """The private constant, for ranges of labels within and beyond one."""
    epsilon = np.array([0.2, 1, 1, 0.5, 2, 1])
    for low, high in ((0.0, 1.0), (-2.0, 2.0), (-0.5, 0.1)):
        y = np.linspace(low, high, 6)
        width = high - low
        centre = epsilon @ y / epsilon.sum()
        release = partial(variants.private_constant, y, epsilon, label_range=(low, high))
        rate = epsilon.sum() / width
        yield Setting(
            f"constant {low} {high}",
            release,
            lambda z, c=centre, r=rate: r * (z[:, None] - c),
            laplace_law,
        )


# --- logistic regression ------------------------------------------------------------------------


def slack(epsilon: Array, ratio: Array, clip_norm: float, squared: bool) -> Array:
    """Largest ln(1 + ρ bend) - ε(1 - pull/c)/2 over a fine grid of pulls up to c."""
    pull = clip_norm * np.linspace(0, 1, 4001)[:, None]
    bend = np.ones_like(pull) if squared else pull * (1 - pull)
    return (np.log1p(ratio * bend) - epsilon / 2 * (1 - pull / clip_norm)).max(0)


def pulled(
    a: Array, u: Array, eta: float, penalty: float, clip_norm: float, squared: bool
) -> Callable[[Array], Array]:
    """Noise of rate one that makes coefficients the minimiser, for labels of 1."""
    limits = clip_norm / np.linalg.norm(u, axis=1)

    def noise(w: Array) -> Array:
        pull = 1 - w @ u.T if squared else expit(-w @ u.T)
        if squared or clip_norm < 1:
            pull = np.clip(pull, -limits, limits)
        return eta / 2 / clip_norm * ((a * pull) @ u - penalty * w)

    return noise


def vectors(d: int, m: int, clip: bool, dtype: Any) -> tuple[Array, Array]:
    """Features in the unit ball, or also outside; and as they have to be used."""
    X = np.random.default_rng([d, m]).standard_normal((m, d)) / math.sqrt(d)
    if not clip:
        X *= 0.999 / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    X = X.astype(dtype)
    return X, X.astype(float) / np.maximum(
        1, np.linalg.norm(X.astype(float), axis=1, keepdims=True)
    )


def logistic_setting(
    options: dict,
    d: int = 5,
    m: int = 20,
    eta: float = 6.0,
    penalty: float = 0.1,
    one: bool = False,
    **more: Any,
) -> Setting:
    """Objective perturbation: the noise is what makes a release the minimiser."""
    dtype = more.pop("dtype", float)
    X, known = vectors(d, m, options.get("clip", False), dtype)
    y = np.resize([1.0, -1.0], m)
    a = np.random.default_rng(m).dirichlet(np.ones(m))
    if one:  # all labels the same, and somebody who sells nothing
        y[:], a[0] = 1.0, 0.0
        a /= a.sum()
    given = ideal(objective.objective_perturbation, options)
    made = objective.objective_perturbation(a, eta, penalty, features=d, **given)
    u = y[:, None] * known
    zero = objective.objective_perturbation([0.5, 0.5], 2.0, 1.0, features=d, **given)
    kind = options.get("clip_norm", 1.0), options.get("loss") == "squared"
    return Setting(
        f"objective {options} d={d} m={m} eta={eta} penalty={penalty} {np.dtype(dtype)} {one}",
        partial(made.release, X, y.astype(dtype)),
        pulled(a, u, eta, penalty, *kind),
        promised=made.privacy_loss[a > 0] * (1 + 1e-6),  # the error of the grid
        implied=(a * eta + slack(a * eta, a / penalty, *kind))[a > 0],
        plain=(
            partial(zero.release, np.zeros((2, d), dtype), [1.0, -1.0])
            if given["arithmetic"] == "ideal"
            else None
        ),
        **more,
    )


def logistic_settings() -> Iterator[Setting]:
    """Each option; penalties on both sides of every branch; sizes and types."""
    yield logistic_setting({}, d=2)
    for options in alternatives(objective.objective_perturbation, {"clip_norm": (0.3,)}):
        yield logistic_setting(options)
    for penalty, eta in (
        (0.001, 6.0),
        (0.02, 6.0),
        (0.04, 60.0),
        (1.0, 1.0),
        (100.0, 0.3),
        (0.5, 300.0),
    ):
        yield logistic_setting({}, penalty=penalty, eta=eta)
    for d, m in ((1, 20), (2, 1), (12, 60), (31, 8), (60, 8)):
        yield logistic_setting({}, d, m)
    for d in (31, 60):  # noise so large that records do not count, and there is nothing to solve
        yield logistic_setting({}, d, 8, eta=1e-90, draws=8000)
    yield logistic_setting({}, one=True, penalty=0.3)
    for clip in ({}, {"clip": True}):
        yield logistic_setting(clip, dtype=np.float32)


# --- sums and means -----------------------------------------------------------------------------

WEIGHTS = (1.0, -2.0, 0.3)


def linear_setting(options: dict, scale: float = 2.0, n: int = 3, dtype: Any = float) -> Setting:
    """A weighted sum of data in [0, 1]."""
    m = options.get("dimension", 1)
    shares = np.resize([1.0, 0.5, 0.25], n)
    q = np.array(options.get("weights", np.ones(n)))
    data = np.random.default_rng([n, m]).random((n, m))
    if options.get("clip"):
        data = 3 * data - 1
        data[-1, 0] = np.nan
    terms = (q[:, None] * data).astype(dtype)
    known = np.where(np.isnan(data), 0.5, np.clip(terms.astype(float) / q[:, None], 0, 1))
    centre = (shares * q) @ known + ((1 - shares) * q / 2).sum()
    given = ideal(queries.linear_query, options)
    made = queries.linear_query(shares, scale, **given)
    at_zero = queries.linear_query(np.ones(n), scale, **{**given, "weights": np.ones(n)})
    zero = np.zeros((n, m), dtype)
    return Setting(
        f"sum {options} scale={scale} n={n} {np.dtype(dtype)}",
        partial(made.release, terms if m > 1 else terms[:, 0]),
        lambda z: (z.reshape(len(z), m) - centre) / scale,
        laplace_law,
        made.privacy_loss,
        m * shares * np.abs(q) / scale,
        (
            partial(at_zero.release, zero if m > 1 else zero[:, 0])
            if given["arithmetic"] == "ideal"
            else None
        ),
    )


def nonlinear_setting(options: dict) -> Setting:
    """Two terms that both people can move."""
    shares = np.array([0.5, 1.0])
    scale = 2.0
    sensitivity = np.array([[1.0, 1 / 3], [0.0, 1.0]])
    given = ideal(queries.nonlinear_query, options)
    made = queries.nonlinear_query(shares, scale, sensitivity, **given)
    data = np.array([-0.5, np.nan]) if options.get("clip") else np.array([0.3, 0.8])
    known = np.array([0.0, 0.5]) if options.get("clip") else data
    centre = shares @ known + ((1 - shares) / 2).sum()
    return Setting(
        f"nonlinear {options}",
        partial(made.release, data),
        lambda z: (z[:, None] - centre) / scale,
        laplace_law,
        made.privacy_loss,
        shares @ sensitivity / scale,
    )


def mean_setting(options: dict, d: int = 2, n: int = 3, dtype: Any = float) -> Setting:
    """A weighted mean of records in a ball around a point that is not the origin."""
    radius = 2.0
    rate = 1.5
    w = 0.9 ** np.arange(n) / (0.9 ** np.arange(n)).sum()
    middle = np.linspace(-0.5, 1.0, d)
    shrink = options.get("shrink", 1.0)
    apart = np.random.default_rng([n, d]).standard_normal((n, d))
    apart *= 0.9 * radius / np.linalg.norm(apart, axis=1, keepdims=True)
    known = apart.copy()
    if options.get("clip"):
        known[0] *= 1 / 0.9
        apart[0], apart[1, 0], known[1, 0] = 3 * known[0], np.nan, 0.0
    given = ideal(weighted_mean.WeightedMean, options)
    made = weighted_mean.WeightedMean(w, rate, middle, radius, **given)
    records = (middle + apart).astype(dtype)
    known = known if dtype is float else records.astype(float) - middle
    centre = middle + shrink * (w @ known)
    at_zero = weighted_mean.WeightedMean(w, rate, np.zeros(d), radius, **given)
    return Setting(
        f"mean {options} d={d} n={n} {np.dtype(dtype)}",
        partial(made.release, records),
        lambda z: (z - centre) / shrink * rate,
        promised=made.privacy_loss,
        implied=2 * radius * rate * w,
        plain=(
            partial(at_zero.release, np.zeros((n, d), dtype))
            if given["arithmetic"] == "ideal"
            else None
        ),
        draws=8000 if d == 12 else DRAWS,
    )


def answer_settings() -> Iterator[Setting]:
    """Sums and means: each option; sizes, scales and types."""
    for options in alternatives(
        queries.linear_query, {"weights": (WEIGHTS,), "dimension": (2, 12)}
    ):
        yield linear_setting(options)
    for more in ({"n": 1}, {"n": 40}, {"scale": 0.25}, {"scale": 40.0}, {"dtype": np.float32}):
        yield linear_setting({}, **more)
    yield from map(nonlinear_setting, alternatives(queries.nonlinear_query, {}))
    for options in alternatives(weighted_mean.WeightedMean, {"shrink": (0.4,)}):
        yield mean_setting(options)
    for more in ({"d": 1}, {"d": 12}, {"n": 1}, {"n": 40}, {"dtype": np.float32}):
        yield mean_setting({}, **more)


# --- gradients ----------------------------------------------------------------------------------


def half(bidders: Array) -> Outcome:
    """An auction that buys a half from everybody, for a payment of one unit each."""
    return Outcome(np.full(bidders.shape, 0.5), np.ones(bidders.shape))


def training_setting(
    options: dict,
    d: int = 3,
    classes: int = 2,
    rows: int = 1,
    dtype: Any = float,
    own_start: bool = False,
) -> Setting:
    """The first of two rounds of training, of as many models as are asked for, each with one owner
    of equal records.
    """
    clip = options.get("clip_norm", 1.0)
    epsilon = 0.8
    x = np.linspace(0.5, 2, d).astype(dtype)
    label = classes - 1
    sold = 0.5 if "auction" in options else epsilon
    given = {"learning_rate": 2.0**-20, "every": 1, **ideal(fedsgd.fedsgd, options)}
    if "spacing" in options:
        del given["arithmetic"]
    features = np.tile(x, (rows, 1))
    labels = np.full(rows, label)

    @batched
    def release(runs: int, rng: np.random.Generator) -> Array:
        start = np.zeros((runs, classes, d) if own_start else (classes, d))
        market = (
            [[np.arange(rows)]] * runs,
            np.full((runs, 1), epsilon),
            np.zeros((2, runs, 1), dtype=int),
        )
        equal = {"all": lambda eps, sizes: np.ones(eps.shape)}
        run = fedsgd.fedsgd(features, labels, *market, equal, start, rng=rng, **given)
        np.testing.assert_allclose(run.privacy_loss, 2 * sold, rtol=1e-6)
        models = run.parameters("all")
        return ((models[0] - models[1]) / given["learning_rate"]).reshape(runs, classes * d)

    owner = np.array([label]), [np.array([0])]
    gradient = local_gradients(np.zeros((1, classes, d)), x[None].astype(float), *owner)[0, 0]
    grid = options.get("spacing", 0.0)
    spread = generator(613)

    def noise(z: Array) -> Array:
        within = grid * spread.uniform(-0.5, 0.5, z.shape)  # each whole number spread over its step
        return (z - clipped(gradient, clip).ravel() + within) * sold / (2 * clip)

    name = f"training {options} d={d} classes={classes} rows={rows} {np.dtype(dtype)} {own_start}"
    return Setting(name, release, noise, laplace_law, again="spacing" in options)


def training_settings() -> Iterator[Setting]:
    """Each option of training; features, classes, records, types, starts."""
    values = {
        "auction": (half,),
        "learning_rate": (2.0**-10,),
        "clip_norm": (3.0, 0.5),
        "spacing": (2.0**-20,),
    }
    yield from map(training_setting, alternatives(fedsgd.fedsgd, values, "every arithmetic"))
    for more in (
        {"d": 1},
        {"d": 20},
        {"classes": 3},
        {"rows": 3},
        {"dtype": np.float32},
        {"own_start": True},
    ):
        yield training_setting({}, **more)
    yield training_setting({"auction": half, "clip_norm": 2.0}, dtype=np.float32)


# --- tests --------------------------------------------------------------------------------------

MAKERS = (
    ridge_settings,
    sampled_settings,
    variant_settings,
    logistic_settings,
    answer_settings,
    training_settings,
)
named = attrgetter("__name__")


@cache
def settings(maker: Callable[[], Iterator[Setting]]) -> tuple[Setting, ...]:
    """All settings that a maker has."""
    return tuple(maker())


@pytest.mark.parametrize("maker", MAKERS, ids=named)
def test_noise_has_the_law_and_never_comes_back(maker: Callable[[], Iterator[Setting]]) -> None:
    found = settings(maker)
    for number, setting in enumerate(found):
        rng = generator(601, MAKERS.index(maker), number)
        draws = 8000 if number == 0 and setting.draws == DRAWS else setting.draws
        released = asked(setting.release, rng, draws)
        z = np.asarray(setting.noise(released), dtype=float).reshape(len(released), -1)
        assert smallest_p(setting.law(z, 1.0)) > FALSE_ALARM / len(MAKERS) / len(found), (
            setting.name
        )
        if not setting.again:
            few = np.round(np.abs(z[-1000:]), 8)
            assert len(np.unique(few, axis=0)) == len(few), setting.name


@pytest.mark.parametrize("maker", [ridge_settings, logistic_settings, answer_settings], ids=named)
def test_promises_are_kept_and_used_up(maker: Callable[[], Iterator[Setting]]) -> None:
    told = [setting for setting in settings(maker) if setting.promised is not None]
    shares = {setting.name: float(np.max(setting.implied / setting.promised)) for setting in told}
    assert all(0.99 < share <= 1 + 1e-9 for share in shares.values()), shares


def missing_digits(noise: Array) -> float:
    """P-value of the zeros that end the binary digits of numbers: each further one has a chance of
    one half.
    """
    mantissa = np.abs(np.ldexp(np.frexp(noise.ravel())[0], 53)).astype(np.int64)
    lowest = np.where(mantissa > 0, mantissa & -mantissa, 2**53)
    return float(stats.nbinom.sf(np.log2(lowest.astype(float)).sum() - 1, mantissa.size, 0.5))


@pytest.mark.parametrize("maker", MAKERS, ids=named)
def test_noise_in_floats_has_all_its_digits(maker: Callable[[], Iterator[Setting]]) -> None:
    found = [setting for setting in settings(maker) if setting.plain is not None]
    for number, setting in enumerate(found):
        assert setting.plain is not None
        z = asked(setting.plain, generator(602, MAKERS.index(maker), number), 80)
        for part in np.split(z[: len(z) // 4 * 4], 4):  # each way to ask by itself
            assert missing_digits(part) > FALSE_ALARM / 4 / len(MAKERS) / len(found), setting.name


def test_missing_digits_sees_short_numbers() -> None:
    z = generator(603).standard_normal((100, 3))
    assert missing_digits(z) > FALSE_ALARM and missing_digits(z.astype(np.float32)) < 1e-100
    assert (
        missing_digits(np.round(z * 2**40) / 2**40) < 1e-100
        and missing_digits(np.zeros(40)) < 1e-100
    )


def slower(
    minimise: Any, X: Any, y: Any, a: Any, penalty: float, noise: Array, **kind: Any
) -> Array:
    return minimise(X, y, a, penalty, noise * (0.75 if penalty > 10 else 1), **kind)


WRONG: dict[str, tuple[Any, str, Callable[..., Any], Callable[[], Iterator[Setting]]]] = {
    "5 % too small": (
        ridge,
        "spherical_laplace",
        lambda f, *a, **k: 0.95 * f(*a, **k),
        ridge_settings,
    ),
    "the same for each call": (
        ridge,
        "spherical_laplace",
        lambda f, *a, rng, **k: f(*a, rng=generator(604), **k),
        ridge_settings,
    ),
    "wrong above thirty features": (
        ridge,
        "spherical_laplace",
        lambda f, d, rate, **k: f(d, rate, **k) * (0.5 if d > 30 else 1),
        ridge_settings,
    ),
    "another rate at large penalties": (
        objective,
        "minimisers",
        slower,
        logistic_settings,
    ),
    "terms exchanged": (
        queries.BiasedLaplace,
        "_centred",
        lambda f, *a: np.roll(f(*a), 1, -1),
        answer_settings,
    ),
    "half the noise in an auction": (
        fedsgd,
        "noise_scale",
        lambda f, eps, norm: f(eps, norm) / (2 if np.max(eps) == 0.5 else 1),
        training_settings,
    ),
}


def wrapped(wrong: Callable[..., Any], right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given, **more: wrong(right, *given, **more)


@pytest.mark.parametrize("name", WRONG)
def test_a_bug_in_one_setting_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, attribute, wrong, maker = WRONG[name]
    monkeypatch.setattr(place, attribute, wrapped(wrong, getattr(place, attribute)))
    settings.cache_clear()
    try:
        with pytest.raises(AssertionError):
            test_noise_has_the_law_and_never_comes_back(maker)
    finally:
        settings.cache_clear()
