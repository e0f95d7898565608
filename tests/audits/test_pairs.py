"""Thousands of pairs of data sets, random ones and the worst that a search can make: none loses more than promised."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hdpm_book.logistic.pairs import NeighbourPairs, search_pairs, tight_pair
from hdpm_lib.audits.meters import privacy_losses
from hdpm_lib.audits.ridge import ridge_pair_loss
from hdpm_lib.learners.gradients import clipped, noise_scale
from hdpm_lib.learners.queries import linear_query
from hdpm_lib.learners.ridge import output_perturbation
from tests.audits.inside import losses_inside
from tests.support import generator

Array = np.ndarray
Generator = np.random.Generator
BOUNDS: tuple[Any, ...] = ("paper", "sharp")


def sum_pairs(rng: Generator) -> Array:
    """Shares of 6,000 pairs: 100 queries with random weights, 60 databases each, half of them at the ends."""
    shares = []
    for _ in range(100):
        n = int(rng.integers(1, 12))
        q = rng.choice([-1.0, 1.0], n) * 10 ** rng.uniform(-1, 1, n)
        query = linear_query(rng.random(n), 10 ** rng.uniform(-1, 1), weights=q)
        data, who, each = rng.random((n, 60)), rng.integers(0, n, 60), np.arange(60)
        data[:, ::2] = data[:, ::2].round()
        turned = data.copy()
        turned[who, each] = np.where(each % 2, rng.random(60), 1 - data[who, each])
        apart = query.mean(q[:, None] * data) - query.mean(q[:, None] * turned)
        shares.append(np.abs(apart) / query.scale / query.privacy_loss[who])
    return np.concatenate(shares)


def ridge_data(rng: Generator, n: int, d: int, kind: int) -> tuple[Array, Array, Array]:
    """Records and what they accept: of any values, at corners, nearly all empty, or all alike."""
    X, y = rng.random((n, d)), rng.uniform(-1, 1, n)
    if kind == 1:
        X, y = X.round(), np.sign(y)
    elif kind == 2:
        X[n // 4 :] = 0
    elif kind == 3:
        X[:] = X[0]
    return X, y, 10 ** rng.uniform(-2, 0.5, n)


def ridge_pairs(rng: Generator) -> Array:
    """Shares of 3,000 random pairs, both fitted by the learner."""
    shares = []
    for bound, k in itertools.product(BOUNDS, range(1500)):
        n, d = (int(size) for size in rng.integers(1, (12, 6)))
        X, y, eps = ridge_data(rng, n, d, k % 4)
        X2, y2, i, lam = X.copy(), y.copy(), k % n, 10 ** rng.uniform(-2, 4)
        X2[i], y2[i] = rng.random(d).round(k % 2), -y[i]
        one, two = (output_perturbation(*data, eps, lam, bound=bound) for data in ((X, y), (X2, y2)))
        shares.append(ridge_pair_loss(one.theta, two.theta, one.noise_rate) / eps[i])
    return np.array(shares)


def ridge_searched(rng: Generator) -> Array:
    """Shares of the worst pairs found for all records of 224 data sets."""
    shares, sizes = [], ((1, 1), (2, 2), (3, 6), (10, 3), (50, 4), (60, 2), (60, 12))
    for bound, (n, d), kind, lam in itertools.product(BOUNDS, sizes, range(4), (0.01, 1.0, 50.0, 1e4)):
        X, y, eps = ridge_data(rng, n, d, kind)
        m, meter = output_perturbation(X, y, eps, lam, bound=bound), losses_inside if n * d <= 20 else privacy_losses
        shares.append(meter(m, X, y, restarts=2, rng=rng).found / eps)
    return np.concatenate(shares)


def _ball(rng: Generator, *shape: int) -> Array:
    """Vectors along the last axis, those longer than 1 shortened."""
    u = rng.normal(size=shape)
    return np.asarray(u / np.maximum(1, np.linalg.norm(u, axis=-1, keepdims=True)))


def logistic_pairs(rng: Generator) -> Array:
    """Shares of 6,000 random pairs with three other records, in one to three dimensions."""
    shares = []
    for n in (1, 2, 3):
        a = rng.dirichlet(np.ones(4), 2000)
        eta, penalty = 10 ** rng.uniform([[0.0], [-2.0]], [[1.5], [0.5]], (2, 2000))
        w = rng.normal(size=(2000, n)) * 10 ** rng.uniform(-1, 1, (2000, 1))
        records = _ball(rng, 2000, n), _ball(rng, 2000, n), _ball(rng, 2000, 3, n)
        shares.append(used_up(NeighbourPairs(*records, a[:, 0], a[:, 1:], eta, penalty, w)))
    return np.concatenate(shares)


def used_up(pairs: NeighbourPairs) -> Array:
    return np.asarray(np.abs(pairs.loss) / pairs.privacy_loss)


def logistic_walks(rng: Generator) -> Array:
    """Shares at the ends of 600 random walks that make them as large as they can, in one to three dimensions."""
    shares = []
    for n in (1, 2, 3):
        eps, ratio = 10 ** rng.uniform([[-1.5], [-2.0]], [[1.5], [2.0]], (2, 200))
        shares.append(used_up(search_pairs(eps, ratio, dimension=n, rng=rng)))
    return np.concatenate(shares)


def near_tight(rng: Generator) -> Array:
    """Shares of 3,000 pairs around six tight ones, the others having 1,000 times her weight."""
    shares = []
    for eps, ratio in ((0.1, 0.01), (0.1, 3.0), (1.0, 0.4), (1.0, 3.0), (10.0, 0.4), (10.0, 30.0)):
        pair, size = tight_pair(eps, ratio, penalty=1e-3 / ratio), 10 ** rng.uniform(-5, -0.5, (500, 1))
        records = (_moved(u, size, rng) for u in (pair.record, pair.replacement, pair.others[0]))
        first, second, other = records
        numbers = (pair.weight, pair.other_weights, pair.eta, pair.penalty)
        own, others, eta, lam = (np.broadcast_to(v, (500, *v.shape)) for v in numbers)
        w = pair.coefficients * (1 + size * rng.normal(size=(500, 1)))
        shares.append(used_up(NeighbourPairs(first, second, other[:, None], own, others, eta, lam, w)))
    return np.concatenate(shares)


def _moved(u: Array, size: Array, rng: Generator) -> Array:
    u = u * (1 + size * rng.normal(size=(500, 2))) + 0.1 * size * rng.normal(size=(500, 2))
    return np.asarray(u / np.maximum(1, np.linalg.norm(u, axis=1, keepdims=True)))


def gradient_pairs(rng: Generator) -> Array:
    """Shares of 10,000 pairs of gradients of all lengths, the other one random or the worst."""
    g, other = rng.normal(size=(2, 5000, 2, 5)) * 10 ** rng.uniform(-2, 2, (2, 5000, 1, 1))
    eps = 10 ** rng.uniform(-1, 1, 5000)
    apart = [np.abs(clipped(g, 0.7) - clipped(x, 0.7)).sum((-2, -1)) for x in (other, -100 * g)]
    return np.asarray(apart / noise_scale(eps, 0.7) / eps).ravel()


KINDS: dict[str, tuple[Callable[[Generator], Array], float]] = {  # with the largest share that has to be met
    "sum": (sum_pairs, 0.999),
    "ridge, random": (ridge_pairs, 0.7),
    "ridge, searched": (ridge_searched, 0.99),
    "logistic, random": (logistic_pairs, 0.3),
    "logistic, walks": (logistic_walks, 0.9),
    "logistic, near tight": (near_tight, 0.99),
    "gradients": (gradient_pairs, 0.999),
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_pair_loses_more_than_promised(kind: str) -> None:
    make, met = KINDS[kind]
    shares = make(generator(95, list(KINDS).index(kind)))
    assert met < shares.max() <= 1 + 1e-9
