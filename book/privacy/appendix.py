"""What only a sceptic asks: thousands of pairs that try to lose more than promised, and audits of the audits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize

from hdpm_book.logistic.pairs import NeighbourPairs, search_pairs
from hdpm_book.privacy.instances import tight_pair
from hdpm_book.privacy.meters import Bound, gradient_privacy_losses
from hdpm_lib.audits.meters import PrivacyLosses, privacy_losses
from hdpm_lib.audits.ridge import Rest, corner_search, ridge_pair_loss
from hdpm_lib.learners.queries import linear_query
from hdpm_lib.learners.ridge import OutputPerturbation, output_perturbation

Array = NDArray[np.float64]
Generator = np.random.Generator

# --- pairs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tried:
    """Shares of the promise that pairs of data sets lose, by the way in which they were made."""

    shares: dict[str, Array]

    def table(self) -> pd.DataFrame:
        """Number of pairs, median and largest share."""
        rows = {
            name: {"pairs": f"{len(v):,}", "median share": f"{np.median(v):.2f}", "largest share": f"{v.max():.3f}"}
            for name, v in self.shares.items()
        }
        return pd.DataFrame(rows).T

    def above(self, learner: str) -> tuple[int, int]:
        """Pairs of a learner, and those of them above the promise by more than rounding."""
        v = np.concatenate([shares for name, shares in self.shares.items() if name.startswith(learner)])
        return len(v), int((v > 1 + 1e-9).sum())


def all_pairs(rng: Generator) -> Tried:
    """Random pairs of all learners, and pairs made as bad as possible."""
    bounds: tuple[Bound, ...] = ("paper", "sharp")
    return Tried(
        {
            "sum": sum_pairs(rng),
            "ridge, random": np.concatenate([ridge_pairs(rng, bound) for bound in bounds]),
            "ridge, searched": np.concatenate([ridge_searched(rng, bound) for bound in bounds]),
            "logistic, random": np.concatenate([logistic_pairs(rng, n) for n in (1, 2, 3)]),
            "logistic, walks": np.concatenate([logistic_walks(rng, n) for n in (1, 2, 3)]),
            "logistic, near tight": near_tight(rng),
            "gradients, random": gradient_pairs(rng, antipodes=False),
            "gradients, antipodes": gradient_pairs(rng, antipodes=True),
        }
    )


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


def ridge_pairs(rng: Generator, bound: Bound) -> Array:
    """Shares of 1,500 random pairs, both fitted by the learner."""
    shares = []
    for k in range(1500):
        n, d = (int(size) for size in rng.integers(1, (12, 6)))
        X, y, eps = ridge_data(rng, n, d, k % 4)
        X2, y2, i, lam = X.copy(), y.copy(), k % n, 10 ** rng.uniform(-2, 4)
        X2[i], y2[i] = rng.random(d).round(k % 2), -y[i]
        one, two = (output_perturbation(*data, eps, lam, bound=bound) for data in ((X, y), (X2, y2)))
        shares.append(ridge_pair_loss(one.theta, two.theta, one.noise_rate) / eps[i])
    return np.array(shares)


def ridge_searched(rng: Generator, bound: Bound) -> Array:
    """Shares of the worst pairs found for all records of 112 data sets."""
    shares = []
    for n, d in ((1, 1), (2, 2), (3, 6), (10, 3), (50, 4), (60, 2), (60, 12)):
        for kind in range(4):
            for lam in (0.01, 1.0, 50.0, 1e4):
                X, y, eps = ridge_data(rng, n, d, kind)
                m, meter = (
                    output_perturbation(X, y, eps, lam, bound=bound),
                    losses_inside if n * d <= 20 else privacy_losses,
                )
                shares.append(meter(m, X, y, restarts=2, rng=rng).found / eps)
    return np.concatenate(shares)


def _ball(rng: Generator, *shape: int) -> Array:
    """Vectors along the last axis, those longer than 1 shortened."""
    u = rng.normal(size=shape)
    return np.asarray(u / np.maximum(1, np.linalg.norm(u, axis=-1, keepdims=True)))


def logistic_pairs(rng: Generator, n: int) -> Array:
    """Shares of 2,000 random pairs with three other records, in `n` dimensions."""
    a = rng.dirichlet(np.ones(4), 2000)
    eta, penalty = 10 ** rng.uniform([[0.0], [-2.0]], [[1.5], [0.5]], (2, 2000))
    w = rng.normal(size=(2000, n)) * 10 ** rng.uniform(-1, 1, (2000, 1))
    records = _ball(rng, 2000, n), _ball(rng, 2000, n), _ball(rng, 2000, 3, n)
    pairs = NeighbourPairs(*records, a[:, 0], a[:, 1:], eta, penalty, w)
    return np.asarray(np.abs(pairs.loss) / pairs.privacy_loss)


def logistic_walks(rng: Generator, n: int) -> Array:
    """Shares at the ends of 200 random walks that make them as large as they can, in `n` dimensions."""
    eps, ratio = 10 ** rng.uniform([[-1.5], [-2.0]], [[1.5], [2.0]], (2, 200))
    pairs = search_pairs(eps, ratio, dimension=n, rng=rng)
    return np.asarray(np.abs(pairs.loss) / pairs.privacy_loss)


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
        pairs = NeighbourPairs(first, second, other[:, None], own, others, eta, lam, w)
        shares.append(np.abs(pairs.loss) / pairs.privacy_loss)
    return np.concatenate(shares)


def _moved(u: Array, size: Array, rng: Generator) -> Array:
    u = u * (1 + size * rng.normal(size=(500, 2))) + 0.1 * size * rng.normal(size=(500, 2))
    return np.asarray(u / np.maximum(1, np.linalg.norm(u, axis=1, keepdims=True)))


def gradient_pairs(rng: Generator, *, antipodes: bool) -> Array:
    """Shares of 5,000 pairs of gradients of all lengths, the other one random or the worst."""
    g, other = rng.normal(size=(2, 5000, 2, 5)) * 10 ** rng.uniform(-2, 2, (2, 5000, 1, 1))
    eps = 10 ** rng.uniform(-1, 1, 5000)
    return np.asarray(gradient_privacy_losses(g, eps, 0.7, neighbours=None if antipodes else other) / eps)


# --- inside the box ---------------------------------------------------------------------------------------------------


def losses_inside(mechanism: OutputPerturbation, X: Array, y: Array, *, restarts: int, rng: Generator) -> PrivacyLosses:
    """What ``privacy_losses`` finds, or more: the inside of the box is searched too, from as many starts."""
    upper = privacy_losses(mechanism, X, y, restarts=0, rng=rng).at_most
    rest = Rest.of(X, y, mechanism.weights, mechanism.penalty)
    found, *corners = corner_search(rest, restarts, rng)
    for start in range(restarts + 1):
        begin = corners if start == 0 else (rng.random((2, *X.shape)), rng.choice([-1.0, 1.0], (2, len(y))))
        found = np.maximum(found, best_inside(rest, *begin))
    return PrivacyLosses(mechanism.noise_rate * found, upper)


def best_inside(rest: Rest, ends: Array, signs: Array) -> Array:
    """Distances that L-BFGS reaches inside the box, the labels as they are; arguments as for ``best_corners``.

    One problem for all records, as the logarithms of their distances add up. The gradient is exact.
    """
    w = rest.weights

    def distances(v: Array) -> tuple[Array, Array]:
        one, two = rest.displacement(v, signs)
        return one - two, np.maximum(((one - two) ** 2).sum(1), np.finfo(float).tiny)

    def negative(free: Array) -> tuple[float, Array]:
        v = free.reshape(ends.shape)
        apart, squares = distances(v)
        towards = apart / squares[:, None] * np.array([1.0, -1.0])[:, None, None]
        g, back = rest.solve(v), rest.solve(towards)
        residual, grown = signs - (v * rest.theta).sum(-1), 1 + w * (v * g).sum(-1)
        along = (towards * g).sum(-1)
        slope = -along[..., None] * rest.theta + residual[..., None] * back
        slope -= (2 * w * residual * along / grown)[..., None] * g
        return float(-np.log(squares).sum() / 2), -((w / grown)[..., None] * slope).ravel()

    found = optimize.minimize(negative, ends.ravel(), jac=True, bounds=[(0, 1)] * ends.size, method="L-BFGS-B")
    return np.asarray(np.sqrt(distances(found.x.reshape(ends.shape))[1]))


@dataclass(frozen=True)
class InsideGain:
    """What a search inside the box finds beyond one at its corners: the largest factor, for each size of data."""

    gains: dict[str, float]
    within_upper_end: bool


def inside_gain() -> InsideGain:
    """Search small data sets at corners, and inside the box as well."""
    gains, holds = {}, True
    for n, d, count, restarts in ((3, 2, 12, 10), (12, 2, 12, 10), (60, 12, 3, 4)):
        gain = []
        for k in range(count):
            rng = np.random.default_rng([8, n, k])
            X, y = rng.random((n, d)), rng.uniform(-1, 1, n)
            m = output_perturbation(X, y, rng.dirichlet(np.ones(n)), 10 ** rng.uniform(-3, 0))
            corners, inside = (
                meter(m, X, y, restarts=restarts, rng=np.random.default_rng(9))
                for meter in (privacy_losses, losses_inside)
            )
            gain.append(float((inside.found / corners.found).max()))
            holds &= bool((inside.found <= inside.at_most * (1 + 1e-9)).all())
        gains[f"{count} data sets of {n} records, {d} features"] = max(gain)
    return InsideGain(gains, holds)
