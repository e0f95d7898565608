"""The sampling baseline: who is kept, what the loss averages over, and which noise makes it
private.
"""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hdpm_book.ridge import jorgensen
from hdpm_book.ridge.jorgensen import all_masks, draw_masks, inclusion_probabilities, sampled_ridge
from hdpm_book.ridge.moments import QuadraticLoss
from hdpm_lib.validation import FALSE_ALARM
from tests.support import generator, p_value

EPSILON = np.array([0.05, 0.3, 0.7, 1.0, 1.4])


def test_inclusion_spends_exactly_what_is_accepted() -> None:
    """Sampling at p turns t into ln(1 + p (e^t - 1)), which has to be the smaller of epsilon and
    t.
    """
    rng = generator(51)
    for t in (0.01, 0.8, 5.0):
        epsilon = rng.uniform(0.001, 2 * t, 200)
        keep = inclusion_probabilities(epsilon, t)
        np.testing.assert_allclose(
            np.log1p(keep * math.expm1(t)), np.minimum(epsilon, t), rtol=1e-10
        )
    np.testing.assert_allclose(inclusion_probabilities([1e-9, 3e-9], 4e-9), [0.25, 0.75], rtol=1e-6)
    np.testing.assert_allclose(
        inclusion_probabilities([990.0, 1000.0, 2000.0], 1000.0), [math.exp(-10), 1, 1]
    )


@pytest.mark.parametrize("t", [0.05, 0.5, 2.0])
def test_all_masks(t: float) -> None:
    """Each once; and every group is kept with the product of its members' probabilities, which
    fixes the law.
    """
    masks, probability = all_masks(EPSILON, t)
    assert len(np.unique(masks, axis=0)) == len(masks) == 2 ** (t > EPSILON).sum()
    keep = np.minimum(np.expm1(EPSILON) / math.expm1(t), 1)
    for chosen in itertools.product((False, True), repeat=5):
        group = np.array(chosen)
        assert probability @ masks[:, group].all(1) == pytest.approx(keep[group].prod(), rel=1e-10)


def test_masks_are_drawn_with_their_probabilities() -> None:
    rng = generator(52)
    law = all_masks(EPSILON, 1.5)
    assert p_value(draw_masks(EPSILON, 1.5, 20_000, rng=rng), *law) > FALSE_ALARM
    assert p_value(draw_masks(0.95 * EPSILON, 1.5, 20_000, rng=rng), *law) < FALSE_ALARM


def small(n: int = 4, d: int = 2) -> tuple[np.ndarray, np.ndarray, QuadraticLoss]:
    rng = generator(54)
    return (
        rng.random((n, d)),
        rng.uniform(-1, 1, n),
        QuadraticLoss.of(rng.random((9, d)), rng.uniform(-1, 1, 9)),
    )


def test_loss_over_all_sets() -> None:
    """Eight equally likely sets, whose estimates and rates, and moments one by one, have tests of
    their own.
    """
    X, y, loss = small()
    masks = np.array([[*mask, 1.0] for mask in itertools.product((0.0, 1.0), repeat=3)])
    found = sampled_ridge(X, y, [0.5, 0.5, 0.5, 1.2], 20.0, 1.2, masks)
    assert found.sample_size.tolist() == masks.sum(1).tolist()
    each = loss.under_noise(found.theta, found.noise_rate)
    moments = found.loss(loss)
    means = each.mean
    variances = each.variance
    assert moments.mean == pytest.approx(means.mean(), rel=1e-10)
    total = variances.mean() + means.var()
    assert moments.variance == pytest.approx(total, rel=1e-10)
    spread = variances + (means - means.mean()) ** 2
    assert moments.mean_error == pytest.approx(means.std() / math.sqrt(8))
    # to first order
    assert moments.std_error == pytest.approx(spread.std() / math.sqrt(8) / (2 * math.sqrt(total)))
    shrunk = loss.under_noise(found.theta, found.noise_rate, np.full(8, 0.8))
    assert found.loss(loss, 0.8).mean == pytest.approx(shrunk.mean.mean())


def test_density_of_a_release() -> None:
    X, y, _ = small(3, 1)
    masks, probability = all_masks([0.2, 0.5, 1.0], 1.0)
    release = sampled_ridge(X, y, [0.2, 0.5, 1.0], 0.5, 1.0, masks)
    points = np.linspace(-30, 30, 42).reshape(2, 21, 1) / release.noise_rate.min()
    laws = [
        stats.laplace(t[0], 1 / r) for t, r in zip(release.theta, release.noise_rate, strict=True)
    ]
    direct = sum(p * law.pdf(points[..., 0]) for p, law in zip(probability, laws, strict=True))
    np.testing.assert_allclose(release.log_density(points, probability), np.log(direct), rtol=1e-6)


def sampling_loss(pair: Any, epsilon: Any, penalty: float, t: float, **options: Any) -> float:
    """Largest absolute log density ratio for d = 1, by enumeration, where it can peak: at the
    kinks, and on a grid.
    """
    masks, probability = all_masks(epsilon, t)
    ends = [sampled_ridge(*data, epsilon, penalty, t, masks, **options) for data in pair]
    far = 60 / min(end.noise_rate.min() for end in ends)
    points = np.concatenate([*(end.theta for end in ends), np.linspace(-far, far, 201)[:, None]])
    logs = [end.log_density(points, probability) for end in ends]
    return float(np.abs(logs[0] - logs[1]).max())


def worst_share(size_in_noise: str, a: float | None = None, count: int = 150) -> float:
    """Largest loss over what was accepted, among hostile small cases in the box.

    With `a`, for features of any sign, a feature norm, and that label bound.
    """
    rng = generator(56)
    worst = 0.0
    for i in range(count):
        n = int(rng.integers(2, 5))
        R = 10 ** rng.uniform(-1, 1)
        scale = a or 1.0
        X = rng.integers(0, 2, (n, 1)) * 1.0 if a is None else rng.choice([-R, R, 0.3 * R], (n, 1))
        y = rng.choice([-scale, scale], n)
        epsilon = rng.choice([0.05, 0.3, 1.0], n)
        other = X.copy(), np.append(-y[0], y[1:])
        other[0][0] *= rng.choice([1.0, rng.random() if a is None else -1.0])
        options: dict[str, Any] = {} if a is None else {"feature_norm": R, "label_bound": a}
        penalty = 10.0 ** rng.uniform(-2, 4) * (1.0 if a is None else R**2)
        options |= {"bound": ("paper", "sharp")[i % 2], "size_in_noise": size_in_noise}
        worst = max(
            worst,
            sampling_loss(((X, y), other), epsilon, penalty, epsilon.max(), **options) / epsilon[0],
        )
    return worst


@pytest.mark.parametrize("a", [None, 0.2, 1.0, 6.0])
def test_fixed_size_is_private(a: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0.5 < worst_share("fixed", a) <= 1 + 1e-9
    assert a is not None or worst_share("realised") > 1.2  # which is not private
    # the label bound forgotten, or half of all
    right = jorgensen.sensitivity_constant
    wrong = a or 2.0
    monkeypatch.setattr(jorgensen, "sensitivity_constant", lambda *args: right(*args) / wrong)
    assert (worst_share("fixed", a) > 1.1) == (wrong > 1)


def test_what_is_refused_and_what_is_not() -> None:
    X, y, _ = small()
    good: dict[str, Any] = {
        "X": X,
        "y": y,
        "epsilon": [0.5, 0.5, 0.5, 0.6],
        "penalty": 1.0,
        "threshold": 0.9,
    }
    for change, message in (
        (
            {"masks": [[1, 1, 1, 1], [0, 0, 0, 0]]},
            "masks[1] keeps no record: the realised size cannot set the noise",
        ),
        ({"masks": np.ones((2, 3))}, "masks must have shape (m, 4), got (2, 3)"),
        ({"epsilon": [1.0, 1.0]}, "epsilon has 2 entries for 4 records"),
        (
            {"size_in_noise": "realized"},
            "size_in_noise must be 'realised' or 'fixed', got 'realized'",
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            sampled_ridge(**good | {"masks": np.ones((2, 4))} | change)
    found = sampled_ridge(**good, masks=np.zeros((1, 4)), size_in_noise="fixed")  # an empty set
    assert (found.theta == 0).all() and found.noise_rate[0] > 0
