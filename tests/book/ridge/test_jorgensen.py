"""The sampling baseline: who is kept, what the loss averages over, and which noise makes it private."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.linear_model import Ridge

from hdpm_book.ridge import jorgensen
from hdpm_book.ridge.jorgensen import all_masks, draw_masks, inclusion_probabilities, sampled_ridge
from hdpm_book.ridge.moments import QuadraticLoss
from hdpm_lib.validation import FALSE_ALARM
from tests.support import Check, generator, objections, z_check

EPSILON = np.array([0.05, 0.3, 0.7, 1.0, 1.4])

# --- who is kept ------------------------------------------------------------------------------------------------------


def test_inclusion_formula() -> None:
    found = inclusion_probabilities(EPSILON, 1.0)
    expected = [(math.e**eps - 1) / (math.e - 1) for eps in (0.05, 0.3, 0.7)]
    np.testing.assert_allclose(found[:3], expected, rtol=1e-12)
    assert (found[3:] == 1).all()  # at the threshold and above


def test_inclusion_spends_exactly_what_is_accepted() -> None:
    """Sampling at p turns t into ln(1 + p (e^t - 1)), which has to be the smaller of epsilon and t."""
    rng = generator(51)
    for t in (0.01, 0.8, 5.0):
        epsilon = rng.uniform(0.001, 2 * t, 200)
        amplified = np.log1p(inclusion_probabilities(epsilon, t) * math.expm1(t))
        np.testing.assert_allclose(amplified, np.minimum(epsilon, t), rtol=1e-10)
        wrong = np.log1p(np.minimum(1, epsilon / t) * math.expm1(t))  # the share of the threshold keeps too many
        assert (wrong > np.minimum(epsilon, t) + 1e-9).any()


def test_inclusion_limits() -> None:
    assert (inclusion_probabilities(EPSILON, 0.05) == 1).all()  # everybody accepts at least the threshold
    np.testing.assert_allclose(inclusion_probabilities([1e-9, 3e-9], 4e-9), [0.25, 0.75], rtol=1e-6)
    np.testing.assert_allclose(inclusion_probabilities([990.0, 1000.0, 2000.0], 1000.0), [math.exp(-10), 1, 1])
    assert (np.diff(inclusion_probabilities(EPSILON, 2.0)) > 0).all()


def mask_checks(draw: Callable[..., np.ndarray], size: int = 20_000) -> list[Check]:
    """How often each record, and each pair of records, is kept: exact binomial limits."""
    masks = draw(EPSILON, 1.5, size, rng=generator(52))
    assert masks.shape == (size, 5) and set(np.unique(masks)) == {0.0, 1.0}
    keep = (np.exp(EPSILON) - 1) / (math.exp(1.5) - 1)
    events = [*itertools.combinations(range(5), 1), *itertools.combinations(range(5), 2)]
    tail = FALSE_ALARM / len(events) / 2
    checks = []
    for event in events:
        law = stats.binom(size, keep[list(event)].prod())
        count = masks[:, list(event)].all(1).sum()
        checks.append(
            Check(f"record{'s' * (len(event) > 1)} {event}", size, float(count), law.ppf(tail), law.isf(tail))
        )
    return checks


class Fixed(np.random.Generator):
    """A generator whose uniform numbers all have the same value."""

    def __init__(self, value: float) -> None:
        super().__init__(np.random.PCG64(0))
        self.value = value

    def random(self, size: Any = None, **_: Any) -> Any:
        return np.full(size, self.value)


def test_a_record_is_kept_below_its_probability_to_the_last_digit() -> None:
    share = float(inclusion_probabilities([0.3], 1.0)[0])
    assert draw_masks([0.3], 1.0, 2, rng=Fixed(math.nextafter(share, 0))).tolist() == [[1.0], [1.0]]
    assert draw_masks([0.3], 1.0, 2, rng=Fixed(share)).tolist() == [[0.0], [0.0]]


def test_masks_have_the_right_frequencies() -> None:
    assert objections(mask_checks(draw_masks)) == []


@pytest.mark.parametrize(
    ("mutant", "pairs_only"),
    [
        (lambda eps, t, size, rng: (rng.random((size, 5)) < eps / t).astype(float), False),
        (lambda eps, t, size, rng: draw_masks(0.95 * eps, t, size, rng=rng), False),
        (lambda eps, t, size, rng: 1 - draw_masks(eps, t, size, rng=rng), False),
        (lambda eps, t, size, rng: (rng.random((size, 1)) < inclusion_probabilities(eps, t)).astype(float), True),
    ],
    ids=["share of the threshold", "5 % less", "the others", "one coin for all"],
)
def test_wrong_masks_are_caught(mutant: Callable[..., np.ndarray], pairs_only: bool) -> None:
    found = objections(mask_checks(mutant))
    assert found and all(line.startswith("records") for line in found) == pairs_only


def by_enumeration(epsilon: np.ndarray, t: float) -> dict[tuple[float, ...], float]:
    """Every subset with its probability, one record after the other."""
    keep = [1.0 if eps >= t else (math.exp(eps) - 1) / (math.exp(t) - 1) for eps in epsilon]
    found = {}
    for mask in itertools.product((0.0, 1.0), repeat=len(epsilon)):
        chance = math.prod(p if kept else 1 - p for kept, p in zip(mask, keep, strict=True))
        if chance > 0:
            found[mask] = chance
    return found


@pytest.mark.parametrize("t", [0.05, 0.5, 2.0])
def test_all_masks(t: float) -> None:
    masks, probability = all_masks(EPSILON, t)
    expected = by_enumeration(EPSILON, t)
    assert {tuple(mask) for mask in masks} == set(expected) and len(masks) == len(expected)
    np.testing.assert_allclose(probability, [expected[tuple(mask)] for mask in masks], rtol=1e-10)
    assert probability.sum() == pytest.approx(1)


def excess(keep: Callable[[np.ndarray, float], np.ndarray]) -> float:
    """Largest relative excess of t times the expected sample size over the sum of min(epsilon, t)."""
    rng, worst = generator(53), -np.inf
    for _ in range(2000):
        epsilon = rng.gamma(rng.uniform(0.2, 3), rng.uniform(0.1, 2), rng.integers(1, 20)) + 1e-6
        t = rng.choice([epsilon.max(), epsilon.mean(), rng.uniform(0.01, 3)])
        total = np.minimum(epsilon, t).sum()
        assert total <= epsilon.sum() * (1 + 1e-12)
        worst = max(worst, t * keep(epsilon, t).sum() / total - 1)
    return float(worst)


def test_sampling_never_has_more_budget_than_weighting() -> None:
    """By convexity of e^x - 1: t E[n_s] <= sum min(epsilon_i, t) <= sum epsilon_i, equal if all are at least t."""
    assert excess(inclusion_probabilities) <= 1e-12
    assert excess(lambda eps, t: np.sqrt(inclusion_probabilities(eps, t))) > 0.01  # keeps too many
    assert 0.5 * inclusion_probabilities(EPSILON[2:], 0.5).sum() == np.minimum(EPSILON[2:], 0.5).sum()


# --- the loss ---------------------------------------------------------------------------------------------------------


def small(n: int = 4, d: int = 2) -> tuple[np.ndarray, np.ndarray, QuadraticLoss]:
    rng = generator(54)
    return rng.random((n, d)), rng.uniform(-1, 1, n), QuadraticLoss.of(rng.random((9, d)), rng.uniform(-1, 1, 9))


def each_set(masks: np.ndarray, penalty: float, t: float, size: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the test loss for each set: scikit-learn's fit, the closed forms typed anew."""
    X, y, loss = small()
    d = X.shape[1]
    means, variances = [], []
    for mask in masks:
        m = mask.sum() if size is None else size
        if mask.any():
            theta = Ridge(alpha=penalty, fit_intercept=False).fit(X, y, sample_weight=mask / m).coef_
        else:
            theta = np.zeros(d)
        W = 1.0 if size is None else len(y) / size
        B = math.sqrt(W) * min(1 / math.sqrt(penalty), math.sqrt(d * W) / penalty)
        unit = (d + 1) * (2 * math.sqrt(d) / penalty * (1 + math.sqrt(d) * B) / (t * m)) ** 2  # variance by coordinate
        A = loss.second
        g = 2 * (A @ theta - loss.cross)
        means.append(theta @ A @ theta - 2 * loss.cross @ theta + loss.label_square + np.trace(A) * unit)
        fourth = (np.trace(A) ** 2 + 2 * np.trace(A @ A)) * unit**2 * (d + 3) / (d + 1)
        variances.append(fourth + g @ g * unit - (np.trace(A) * unit) ** 2)
    return np.array(means), np.array(variances)


@pytest.mark.parametrize("size_in_noise", ["realised", "fixed"])
def test_loss_over_all_sets(size_in_noise: Any) -> None:
    """Three records kept with probability one half, one for sure: eight equally likely sets, all of them given."""
    X, y, loss = small()
    t, half = 1.2, math.log1p(0.5 * math.expm1(1.2))
    masks = np.array([[*mask, 1.0] for mask in itertools.product((0.0, 1.0), repeat=3)])
    found = sampled_ridge(X, y, [half, half, half, t], 20.0, t, masks, size_in_noise=size_in_noise)
    assert found.sample_size.tolist() == masks.sum(1).tolist()
    means, variances = each_set(masks, 20.0, t, None if size_in_noise == "realised" else 2.5)
    moments = found.loss(loss)
    assert moments.mean == pytest.approx(means.mean(), rel=1e-10)
    total = variances.mean() + means.var()
    assert moments.variance == pytest.approx(total, rel=1e-10)
    assert variances.mean() != pytest.approx(total, rel=1e-9)  # both parts of the law of total variance count
    regularised = found.loss(loss, 0.8)
    each = [loss.under_noise(theta, rate, 0.8).mean for theta, rate in zip(found.theta, found.noise_rate, strict=True)]
    assert regularised.mean == pytest.approx(np.mean(each)) and regularised.mean > moments.mean


def loss_checks(draw: Callable[..., np.ndarray], size: int = 50_000) -> list[Check]:
    """The loss averaged over drawn sets against all sets with their probabilities."""
    X, y, loss = small()
    epsilon, t = np.array([0.2, 0.5, 0.9, 1.2]), 1.2
    expected = by_enumeration(epsilon, t)
    masks, chance = np.array(list(expected)), np.array(list(expected.values()))
    means, variances = each_set(masks, 0.8, t, None)
    mean = chance @ means
    spread = variances + (means - mean) ** 2
    found = sampled_ridge(X, y, epsilon, 0.8, t, draw(epsilon, t, size, rng=generator(55))).loss(loss)
    errors = [math.sqrt(chance @ (x - chance @ x) ** 2 / size) for x in (means, spread)]
    return [
        z_check("mean", size, float(found.mean - mean) / errors[0], 2),
        z_check("variance", size, float(found.variance - chance @ spread) / errors[1], 2),
        Check("standard error", size, float(found.mean_error / errors[0]), 0.95, 1.05),
        Check("error of std", size, float(2 * found.std * found.std_error / errors[1]), 0.95, 1.05),
    ]


def test_loss_over_drawn_sets() -> None:
    assert objections(loss_checks(draw_masks)) == []
    everybody = objections(loss_checks(lambda eps, t, size, rng: np.ones((size, 4))))
    assert {line.split(":")[0] for line in everybody} == {"mean", "variance", "standard error", "error of std"}


# --- densities and privacy --------------------------------------------------------------------------------------------


def test_density_of_a_release() -> None:
    X, y, _ = small(3, 1)
    masks, probability = all_masks([0.2, 0.5, 1.0], 1.0)
    release = sampled_ridge(X, y, [0.2, 0.5, 1.0], 0.5, 1.0, masks)
    laws = [stats.laplace(t[0], 1 / r) for t, r in zip(release.theta, release.noise_rate, strict=True)]
    point = 0.37
    direct = sum(p * law.pdf(point) for p, law in zip(probability, laws, strict=True))
    assert release.log_density([point], probability) == pytest.approx(math.log(direct))
    assert release.log_density(np.zeros((2, 5, 1)), probability).shape == (2, 5)
    ends = 60 / release.noise_rate.min()
    kinks = np.sort(release.theta[:, 0])
    whole = sum(
        integrate.quad(lambda z: math.exp(release.log_density([z], probability)), a, b)[0]
        for a, b in itertools.pairwise([-ends, *kinks, ends])
    )
    assert whole == pytest.approx(1, abs=1e-6)


def sampling_loss(pair: Any, epsilon: Any, penalty: float, t: float, points: Any = None, **options: Any) -> float:
    """Largest absolute log density ratio at `points`, by enumeration; by default, for d = 1, where it can peak."""
    masks, probability = all_masks(epsilon, t)
    ends = [sampled_ridge(*data, epsilon, penalty, t, masks, **options) for data in pair]
    if points is None:  # the kinks, and a grid
        kinks = np.concatenate([end.theta for end in ends])
        far = 60 / min(end.noise_rate.min() for end in ends)
        points = np.concatenate([kinks, np.linspace(-far, far, 201)[:, None]])
    logs = [end.log_density(points, probability) for end in ends]
    return float(np.abs(logs[0] - logs[1]).max())


def worst_share(size_in_noise: str, count: int = 300) -> float:
    """Largest loss over what was accepted, among random and hostile small cases."""
    rng, worst = generator(56), 0.0
    for i in range(count):
        n = int(rng.integers(2, 5))
        X, y = rng.integers(0, 2, (n, 1)) * 1.0, rng.choice([-1.0, 1.0], n)
        epsilon = np.append(rng.choice([0.3, 1.0], n - 1), rng.choice([0.05, 0.3]))
        pair = []
        for record in ((1.0, 1.0), (rng.random(), rng.uniform(-1, 1)) if i % 2 else (1.0, -1.0)):
            X[-1], y[-1] = record
            pair.append((X.copy(), y.copy()))
        bound, penalty = rng.choice(["paper", "sharp"]), 10.0 ** rng.uniform(-2, 4)
        loss = sampling_loss(pair, epsilon, penalty, epsilon.max(), size_in_noise=size_in_noise, bound=bound)
        worst = max(worst, loss / epsilon[-1])
    return worst


def test_fixed_size_is_private_and_realised_size_is_not() -> None:
    assert 0.5 < worst_share("fixed") <= 1 + 1e-9
    assert worst_share("realised") > 1.2


def test_broken_fixed_size_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = jorgensen.sensitivity_constant
    monkeypatch.setattr(jorgensen, "sensitivity_constant", lambda *args: right(*args) / 2)
    assert worst_share("fixed", 100) > 1


def signed_share(a: float, count: int = 60) -> float:
    """As `worst_share` with a fixed size, for features of any sign, a feature norm and the label bound `a`."""
    rng, worst = generator(57), 0.0
    for _ in range(count):
        n, R, penalty = int(rng.integers(1, 5)), 10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-2, 2)
        X, y = rng.choice([-R, R, 0.3 * R], (n, 1)), rng.choice([-a, a], n)
        other = np.vstack([rng.choice([1.0, -1.0]) * X[:1], X[1:]]), np.append(-y[:1], y[1:])
        epsilon = rng.uniform(0.01, 1, n)
        options = {"size_in_noise": "fixed", "feature_norm": R, "label_bound": a}
        options |= {"bound": rng.choice(["paper", "sharp"])}
        loss = sampling_loss(((X, y), other), epsilon, R**2 * penalty, 1.0, **options)
        worst = max(worst, loss / epsilon[0])
    return worst


@pytest.mark.parametrize("a", [0.2, 1.0, 6.0])
def test_fixed_size_with_signs_and_a_label_bound(a: float, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0.5 < signed_share(a) <= 1 + 1e-9
    right = jorgensen.sensitivity_constant
    monkeypatch.setattr(jorgensen, "sensitivity_constant", lambda *args: right(*args) / a)  # the bound forgotten
    assert (signed_share(a) > 1.5) == (a > 1)


def constructed(penalty: float, sure: int = 1, own: float = 0.1, d: int = 30, **options: Any) -> float:
    """The instance on which the realised sample size gives a record away; the worst output lies on this ray."""
    X, epsilon = np.zeros((sure + 1, d)), np.append(np.ones(sure), own)
    X[-1] = 1
    pair = [(X, np.append(np.zeros(sure), label)) for label in (1.0, -1.0)]
    masks, _ = all_masks(epsilon, 1.0)
    end = sampled_ridge(*pair[0], epsilon, penalty, 1.0, masks, **options).theta[-1]
    return sampling_loss(pair, epsilon, penalty, 1.0, np.linspace(0, 2, 2001)[:, None] * end, **options)


def test_realised_size_leaks_on_the_constructed_instance_and_fixed_size_does_not() -> None:
    found = [constructed(penalty) for penalty in (1, 100, 1e4)]
    np.testing.assert_allclose(found, [0.00965, 0.6689, 0.9955], rtol=1e-3)
    assert max(constructed(penalty, size_in_noise="fixed") for penalty in (1, 100, 1e4)) < 0.1
    assert max(constructed(penalty, sure=40, own=0.01) for penalty in (1, 100)) < 0.01 < constructed(1e4, 40, 0.01)


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"masks": [[1, 1, 1, 1], [0, 0, 0, 0]]}, "masks[1] keeps no record: the realised size cannot set the noise"),
        ({"masks": np.ones((2, 3))}, "masks must have shape (m, 4), got (2, 3)"),
        ({"epsilon": [1.0, 1.0]}, "epsilon has 2 entries for 4 records"),
        ({"size_in_noise": "realized"}, "size_in_noise must be 'realised' or 'fixed', got 'realized'"),
        ({"X": np.full((4, 2), 1.5)}, "X must lie in [0, 1]"),
        ({"y": [0.0, 0.0, 2.0, 0.0]}, "y must lie in [-1, 1]"),
    ],
)
def test_bad_input(change: dict[str, Any], message: str) -> None:
    X, y, _ = small()
    good = {"X": X, "y": y, "epsilon": [1.0] * 4, "penalty": 1.0, "threshold": 1.0, "masks": np.ones((2, 4))}
    with pytest.raises(ValueError, match=re.escape(message)):
        sampled_ridge(**{**good, **change})


def test_an_empty_set_is_allowed_with_a_fixed_size() -> None:
    X, y, _ = small()
    found = sampled_ridge(X, y, [0.5, 0.5, 0.5, 0.6], 1.0, 0.9, np.zeros((1, 4)), size_in_noise="fixed")
    assert (found.theta == 0).all() and found.noise_rate[0] > 0
