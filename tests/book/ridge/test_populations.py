"""The made-up people and data of the ridge paper."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from hdpm_book.ridge.study import PrivacyGroups, linear_population
from tests.support import Check, generator, ks_check, mean_z, objections, z_check, z_limit

GROUPS = PrivacyGroups(f_c=0.54, f_m=0.37, eps_c=0.02, eps_m=0.5, eps_l=1.5)


@pytest.mark.parametrize(
    ("groups", "n", "counts"),
    [
        (PrivacyGroups(), 80, (27, 34, 19)),  # 27.2, 34.4
        (PrivacyGroups(), 1070, (363, 460, 247)),
        (GROUPS, 80, (43, 29, 8)),
        (GROUPS, 1, (0, 0, 1)),
        (PrivacyGroups(0.0, 1.0), 5, (0, 5, 0)),
        (PrivacyGroups(0.0, 0.0), 5, (0, 0, 5)),
    ],
)
def test_counts(groups: PrivacyGroups, n: int, counts: tuple[int, int, int]) -> None:
    assert groups.counts(n) == counts and sum(counts) == n


def test_draws_lie_in_the_ranges_of_their_groups() -> None:
    epsilon = np.sort(GROUPS.draw(1000, rng=generator(81)))
    conservative, pragmatic, liberal = np.split(epsilon, [540, 910])
    assert conservative.min() >= 0.02 and conservative.max() <= 0.5
    assert pragmatic.min() >= 0.5 and pragmatic.max() <= 1.5 and (liberal == 1.5).all()
    uniform = [ks_check("c", conservative, stats.uniform(0.02, 0.48).cdf, 2)]
    uniform.append(ks_check("m", pragmatic, stats.uniform(0.5, 1.0).cdf, 2))
    assert objections(uniform) == []
    assert objections([ks_check("wrong range", conservative, stats.uniform(0.02, 0.98).cdf, 2)]) != []


def test_draws_come_in_random_order() -> None:
    """The first hundred are a fair sample: the number of liberals among them is hypergeometric."""
    epsilon = GROUPS.draw(1000, rng=generator(82))
    law, first = stats.hypergeom(1000, 90, 500), int((epsilon[:500] == 1.5).sum())
    tail = stats.norm.sf(z_limit())
    assert law.ppf(tail) <= first <= law.isf(tail)
    assert not law.ppf(tail) <= int((np.sort(epsilon)[:500] == 1.5).sum()) <= law.isf(tail)


def test_moments_of_the_sum() -> None:
    rng, n = generator(87), 4000
    sums = np.array([GROUPS.draw(83, rng=rng).sum() for _ in range(n)])
    mean, std = GROUPS.total(83)
    checks = [z_check("mean", n, float(mean_z(sums, mean)), 2)]
    checks.append(z_check("variance", n, float(mean_z((sums - mean) ** 2, std**2)), 2))
    assert objections(checks) == []
    assert objections([z_check("std", n, float(mean_z((sums - mean) ** 2, (1.2 * std) ** 2)), 2)]) != []


def mean_check(mean: Callable[[PrivacyGroups], float]) -> Check:
    rng, n = generator(83), 4000
    groups = PrivacyGroups(f_c=0.5, f_m=0.3)  # whole numbers of 200 people: nothing is cut down
    means = np.array([groups.draw(200, rng=rng).mean() for _ in range(n)])
    return z_check("mean", n, float(mean_z(means, mean(groups))), 1)


def test_mean() -> None:
    assert objections([mean_check(PrivacyGroups.mean)]) == []
    assert objections([mean_check(lambda g: g.f_c * g.eps_c + g.f_m * g.eps_m + (1 - g.f_c - g.f_m) * g.eps_l)]) != []
    assert PrivacyGroups(1.0, 0.0, 0.2, 0.4).mean() == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"f_c": -0.1}, "f_c and f_m must be shares with a sum of at most 1, got -0.1 and 0.43"),
        ({"f_c": 0.6, "f_m": 0.5}, "got 0.6 and 0.5"),
        ({"f_m": math.nan}, "f_m must be finite, got nan"),
        ({"eps_c": 0.0}, "need 0 < eps_c <= eps_m <= eps_l, got 0.0, 0.2, 1.0"),
        ({"eps_m": 2.0}, "got 0.01, 2.0, 1.0"),
        ({"eps_l": math.nan}, "eps_l must be finite, got nan"),
    ],
)
def test_groups_out_of_order(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        PrivacyGroups(**options)


@pytest.mark.parametrize("d", [1, 5, 30])
def test_linear_data_are_noiseless_and_inside_the_bounds(d: int) -> None:
    split = linear_population(60, 20, d, rng=generator(84, d))
    X, y = np.vstack([split.X_train, split.X_test]), np.concatenate([split.y_train, split.y_test])
    assert split.X_train.shape == (60, d) and split.y_test.shape == (20,)
    assert X.min() >= 0 and X.max() <= 1 and np.abs(y).max() <= 1
    direction = np.linalg.lstsq(X, y, rcond=None)[0] * math.sqrt(d)
    np.testing.assert_allclose(X @ direction / math.sqrt(d), y, atol=1e-12)
    assert np.linalg.norm(direction) == pytest.approx(1)


def test_linear_data_follow_their_law() -> None:
    """Features uniform; the hidden direction uniform on the sphere, and another one in every draw."""
    rng, n, signs, features = generator(85), 3000, [], []
    for _ in range(n):
        split = linear_population(4, 1, 3, rng=rng)
        signs.append(np.linalg.lstsq(split.X_train, split.y_train, rcond=None)[0] * math.sqrt(3))
        features.append(split.X_test[0])
    directions = np.array(signs)
    checks = [ks_check(f"direction {j}", directions[:, j], stats.uniform(-1, 2).cdf, 6) for j in range(3)]  # Archimedes
    checks += [ks_check(f"feature {j}", np.array(features)[:, j], stats.uniform(0, 1).cdf, 6) for j in range(3)]
    assert objections(checks) == []
    assert objections([ks_check("positive", np.abs(directions[:, 0]), stats.uniform(-1, 2).cdf, 6)]) != []
