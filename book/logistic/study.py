r"""The breast-cancer market of the logistic papers: the split, what each market could buy, the
choice by validation.

A *candidate* is one setting of a market: weights :math:`a`, a rate :math:`\eta` and what is paid.
It depends on the reported costs and on nothing else. Each is tried with penalties
:math:`\Lambda=\text{ratio}/\eta`: from the ratio 2 on the slack of every seller is 0, so that she
loses exactly what she was paid for.

Throughout there are `m` sellers; `costs` has shape (m,), a grid of any kind is a vector of positive
numbers, and `unit_noise`, of shape (draws, n), is spherical Laplace noise of rate one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.spatial import ConvexHull
from sklearn.utils import check_consistent_length

from hdpm_book.logistic.formulas import printed_slack
from hdpm_book.logistic.joint_objective import JointObjective, alternate, joint_objective
from hdpm_lib.learners.objective import minimisers, sharp_slack
from hdpm_lib.markets.payments import check_reports
from hdpm_lib.markets.procurement_auction import procurement_auction
from hdpm_lib.validation import check_count, check_finite, check_generator

Array = NDArray[np.float64]

COSTS = stats.uniform(np.exp(-4), 4 * np.exp(-4))  # c ~ U[e^-4, 5 e^-4]
# shares of the records; the rest is to test on
SELLERS = 0.6
PUBLIC = 0.2


@dataclass(frozen=True)
class Parts:
    """Records of the sellers, public ones and ones to test on, with labels -1 and 1, on one scale.

    Sellers' rows have norm at most 1; `shortened` counts those that were shortened to it.
    """

    X_train: Array
    y_train: Array
    X_public: Array
    y_public: Array
    X_test: Array
    y_test: Array
    shortened: int


def public_scale_split(
    X: ArrayLike, y: ArrayLike, *, rng: np.random.Generator, sizes: tuple[int, int] | None = None
) -> Parts:
    """Split at random into sellers, public and test records, scaled by the public ones alone.

    Features have mean 0 and variance 1 on the public records, and are divided by the largest norm
    there. Sellers' rows that are longer are shortened, so that no bound rests on a private record.

    Parameters
    ----------
    sizes : tuple of two ints, optional
        Numbers of sellers and of public records; by default 60 % and 20 % of all. The rest is to
        test on.

    Raises
    ------
    ValueError
        Also for too few records, and for a feature that is constant on the public ones.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 3)); parts = public_scale_split(X, np.sign(X[:, 0]), rng=rng)
    >>> longest = np.linalg.norm(parts.X_train, axis=1).max()
    >>> parts.X_train.shape, parts.X_public.shape, bool(longest <= 1)
    ((60, 3), (20, 3), True)
    """
    features = check_finite(X, "X", 2)
    labels = check_finite(y, "y", 1)
    if (n := len(features)) != len(labels):
        raise ValueError(f"X has {n} records and y has {len(labels)}")
    if (odd := np.abs(labels) != 1).any():
        raise ValueError(f"labels must be -1 or 1, got y[{np.argmax(odd)}] = {labels[odd][0]}")
    sellers, known = sizes or (
        round(SELLERS * n),
        round((SELLERS + PUBLIC) * n) - round(SELLERS * n),
    )
    if not min(sellers, known) > 0 or sellers + known >= n:
        raise ValueError(
            f"X has {n} records: too few for {sellers} sellers, {known} public ones and some to"
            " test on"
        )
    train, public, test = np.split(check_generator(rng).permutation(n), [sellers, sellers + known])
    centre = features[public].mean(0)
    spread = features[public].std(0)
    if not (spread > 0).all():
        raise ValueError(
            f"X[:, {np.argmin(spread)}] is constant on the public records: leave it out"
        )
    scaled = (features - centre) / spread
    scaled /= np.linalg.norm(scaled[public], axis=1).max()
    norms = np.linalg.norm(scaled[train], axis=1, keepdims=True)
    rows = scaled[train] / np.maximum(norms, 1)
    shortened = int((norms > 1).sum())
    return Parts(
        rows, labels[train], scaled[public], labels[public], scaled[test], labels[test], shortened
    )


@dataclass(frozen=True)
class Candidates:
    """What a market could buy, one row a setting: weights (k, m), rates (k,), payments (k,) to all
    sellers together.
    """

    settings: pd.DataFrame
    weights: Array
    eta: Array
    payments: Array

    @classmethod
    def grid(
        cls,
        names: Sequence[str],
        axes: Sequence[Array],
        weights: Array,
        eta: Array,
        payments: Array,
    ) -> Candidates:
        """Combine two axes of a grid, of lengths j and l, and arrays of shape (j, m), (j, l) and
        (j, l).
        """
        settings = pd.MultiIndex.from_product(axes, names=names).to_frame(index=False)
        return cls(
            settings, np.repeat(weights, len(axes[1]), axis=0), eta.ravel(), payments.ravel()
        )


def _grid(values: ArrayLike, name: str) -> Array:
    return check_finite(values, name, 1, 0, ends="()")


def optimal_candidates(
    costs: ArrayLike, law: Any, kappas: ArrayLike, scales: ArrayLike
) -> Candidates:
    r"""Return Algorithm 2 and its truthful payments for every pair of the two numbers that it
    depends on.

    Parameters
    ----------
    costs, law
        As for :func:`hdpm_lib.markets.procurement_auction.procurement_auction`.
    kappas : array of shape (j,)
        Values of :math:`\kappa=\sigma\gamma/\mu^2`: larger means fewer sellers.
    scales : array of shape (l,)
        Values of :math:`s=\sqrt{\sigma/\gamma}`: larger means less noise.

    Returns
    -------
    Candidates with j l rows

    Notes
    -----
    Why these two suffice: :doc:`/book/logistic/cancer`.

    Examples
    --------
    >>> found = optimal_candidates([0.02, 0.05], COSTS, [1.0], [10.0, 20.0])
    >>> bool(np.isclose(found.payments[1], 2 * found.payments[0]))
    True
    """
    kappa = _grid(kappas, "kappas")
    scale = _grid(scales, "scales")
    check_finite(costs, "costs", 1)
    bought = [procurement_auction(costs, law, 1.0, k, 1.0) for k in kappa]
    unit = scale / np.sqrt(kappa)[:, None]
    weights = np.array([b.weights for b in bought])
    eta, paid = np.array([[b.eta, b.payments.sum()] for b in bought]).T
    return Candidates.grid(
        ("kappa", "scale"), (kappa, scale), weights, eta[:, None] * unit, paid[:, None] * unit
    )


def posted_candidates(costs: ArrayLike, prices: ArrayLike, totals: ArrayLike) -> Candidates:
    """Take it or leave it: a price for a unit of privacy loss, and the same loss for all who
    accept.

    A seller accepts a price that is not below her cost, and then loses ``total / m``. There is a
    row for each total and each price that somebody accepts, and an error if nobody accepts any.

    Examples
    --------
    >>> # two sellers, a loss of 10 each
    >>> posted_candidates([1.0, 2.0, 3.0], [0.5, 2.5], [30.0]).payments
    array([50.])
    """
    c = _grid(costs, "costs")
    price = _grid(prices, "prices")
    total = _grid(totals, "totals")
    if not len(price := price[price >= c.min()]):
        raise ValueError(f"prices are all below the smallest cost {c.min():.6g}: nobody accepts")
    accepts = c <= price[:, None]
    number = accepts.sum(1, keepdims=True)
    eta = number * total / len(c)
    return Candidates.grid(
        ("price", "total"), (price, total), accepts / number, eta, price[:, None] * eta
    )


def cheapest_candidates(
    costs: ArrayLike, ceiling: float, counts: Sequence[int], totals: ArrayLike
) -> Candidates:
    r"""Return the model without :math:`\mu` and :math:`\sigma`: equal losses of the cheapest, at a
    floor on their sum.

    The proxy loss is then linear in the weights, and rises with :math:`\eta`. Each seller is paid
    her loss times the next higher cost, or the ceiling.

    Parameters
    ----------
    costs, ceiling : array of shape (m,), float
        Positive; no cost can be above the ceiling.
    counts : sequence of j ints
        Sellers to buy from, 1 to m: 1 without a cap, else the number that the cap on the weights
        asks for.
    totals : array of shape (l,)
        Floors on :math:`\eta`, which are reached.

    Returns
    -------
    Candidates with j l rows

    Examples
    --------
    >>> cheapest_candidates([3.0, 1.0, 2.0], 5.0, [1, 3], [6.0]).payments
    array([12., 30.])
    """
    c, top = check_reports(_grid(costs, "costs"), ceiling, "costs")
    total = _grid(totals, "totals")
    number = np.array([check_count(k, "counts") for k in counts])
    if (number > len(c)).any():
        raise ValueError(
            f"counts must be at most the number of sellers {len(c)}, got {number.max()}"
        )
    order = np.argsort(c, kind="stable")
    weights = (np.argsort(order) < number[:, None]) / number[:, None]
    price = np.append(c[order], top)[number][:, None]
    eta = np.tile(total, (len(number), 1))
    return Candidates.grid(("count", "total"), (number, total), weights, eta, price * total)


def handed_out(offer: Candidates, costs: Array, order: Array) -> Candidates:
    """Return the same purchases with the cheapest cost at the first record of `order`, the next
    cheapest at the second, and so on.

    Parameters
    ----------
    offer : Candidates
        What is bought from the sellers with these costs.
    costs : array of shape (m,)
    order : integer array of shape (m,)
        The records, each once.
    """
    owner = np.empty(len(costs), dtype=int)
    owner[order] = np.argsort(costs, kind="stable")
    return replace(offer, weights=offer.weights[:, owner])


def misclassified(coefficients: ArrayLike, X: ArrayLike, y: ArrayLike) -> Array:
    """Return the share of records on the wrong side, or on the line, for coefficients of shape
    (..., n).
    """
    w = check_finite(coefficients, "coefficients")
    features = check_finite(X, "X", 2)
    labels = check_finite(y, "y", 1)
    check_consistent_length(features, labels)
    if w.shape[-1:] != features.shape[1:]:
        raise ValueError(f"coefficients must have shape (..., {features.shape[1]}), got {w.shape}")
    margins = w @ features.T * labels
    return np.asarray((margins <= 0).mean(-1))


def candidate_errors(
    parts: Parts, candidates: Candidates, ratios: ArrayLike, unit_noise: ArrayLike
) -> tuple[Array, Array]:
    r"""Return errors of the models released under each candidate and penalty, on public and on test
    records.

    Parameters
    ----------
    parts, candidates
    ratios : array of shape (r,)
        Penalties are ``ratio / eta``.
    unit_noise
        The same for every candidate; the objective's is ``2 / eta`` times it.

    Returns
    -------
    tuple of two arrays of shape (k, r), means over the draws
    """
    ratio = _grid(ratios, "ratios")
    b = check_finite(unit_noise, "unit_noise", 2)
    released = np.empty((len(candidates.eta), len(ratio), *b.shape))
    before = now = np.zeros(released.shape[1:])
    for k, (weights, eta) in enumerate(zip(candidates.weights, candidates.eta, strict=True)):
        # along eta the models move nearly on a line, which says where to start
        before, now = now, 2 * now - before
        for j, r in enumerate(ratio):
            now[j] = minimisers(parts.X_train, parts.y_train, weights, r / eta, 2 * b / eta, now[j])
        released[k] = now
    public, test = _errors(parts, released)
    return public.mean(-1), test.mean(-1)


def _errors(parts: Parts, coefficients: Array) -> tuple[Array, Array]:
    """Return errors on public and on test records."""
    return (
        misclassified(coefficients, parts.X_public, parts.y_public),
        misclassified(coefficients, parts.X_test, parts.y_test),
    )


def tuned(
    candidates: Candidates, ratios: ArrayLike, public: ArrayLike, test: ArrayLike, gammas: ArrayLike
) -> pd.DataFrame:
    """Return for each gamma the setting of least public error plus gamma times payments, and what
    it does and buys.

    Parameters
    ----------
    candidates, ratios, public, test
        Of, for and from :func:`candidate_errors`; the public errors pick.
    gammas : array of shape (g,)

    Returns
    -------
    DataFrame with g rows
        `error` and `overall` are on test records, `epsilon`, `printed_slack` and `slack` are the
        largest of all sellers, `sellers` is the number bought from; `row` and `column` name the
        setting.
    """
    ratio = _grid(ratios, "ratios")
    lines = []
    seen, found = (
        check_finite(x, name, 2, 0, 1) for x, name in ((public, "public"), (test, "test"))
    )
    if not seen.shape == found.shape == (len(candidates.eta), len(ratio)):
        shape = f"({len(candidates.eta)}, {len(ratio)})"
        got = f"{seen.shape} and {found.shape}"
        raise ValueError(
            f"public and test must have the shape {shape} of candidates and ratios, got {got}"
        )
    for gamma in _grid(gammas, "gammas"):
        row, column = np.unravel_index(
            np.argmin(seen + gamma * candidates.payments[:, None]), seen.shape
        )
        a = candidates.weights[row]
        eta = candidates.eta[row]
        paid = candidates.payments[row]
        penalty = ratio[column] / eta
        line = {
            "gamma": gamma,
            "error": found[row, column],
            "payments": paid,
            "public": seen[row, column],
        }
        line |= {
            "overall": line["error"] + gamma * paid,
            "epsilon": eta * a.max(),
            "sellers": (a > 0).sum(),
        }
        line |= {
            "printed_slack": printed_slack(a, penalty).max(),
            "slack": sharp_slack(eta * a, a, penalty).max(),
        }
        line |= {"penalty": penalty, "row": row, "column": column}
        lines.append(line | candidates.settings.iloc[row].to_dict())
    return pd.DataFrame(lines).set_index("gamma")


def joint_ends(
    parts: Parts,
    virtual_costs: ArrayLike,
    unit_noise: ArrayLike,
    *,
    penalties: ArrayLike,
    mus: ArrayLike,
    totals: ArrayLike,
    gammas: ArrayLike,
    cap: float | None = None,
) -> Array:
    r"""Tell where the joint rule, Eq. (17) of the journal version, ends at every setting and every
    fixed eta.

    Parameters
    ----------
    parts, unit_noise
    virtual_costs : array of shape (m,)
        Not negative.
    penalties, mus, totals, gammas : arrays of shape (p,), (u,), (t,) and (g,)
        `mus` may be 0; `totals` are values of eta.
    cap : float, optional
        Largest weight, at least 1/m.

    Returns
    -------
    array of shape (4, draws, p, u, t, g)
        The objective less :math:`\sigma/\eta`, which moves nothing at a fixed eta; errors on public
        and on test records; :math:`\sum_i\psi_i\epsilon_i`, which the payments of Theorem III.3
        equal on average over the costs.
    """
    psi = check_finite(virtual_costs, "virtual_costs", 1)
    draws = check_finite(unit_noise, "unit_noise", 2)
    penalty = _grid(penalties, "penalties")
    eta = _grid(totals, "totals")
    gamma = _grid(gammas, "gammas")
    mu = check_finite(mus, "mus", 1, 0)
    shape = len(draws), len(penalty), len(mu), len(eta), len(gamma)
    found = np.empty((4, *shape))
    coefficients = np.empty((*shape, parts.X_train.shape[1]))
    scale = {"penalty": 1.0, "mu": 0.0, "sigma": 0.0, "gamma": 0.0}
    checked = joint_objective(
        parts.X_train, parts.y_train, draws[0], psi, squared=True, cap=cap, **scale
    )
    rates = np.broadcast_to(eta, (len(draws), len(eta)))
    for p, u in np.ndindex(len(penalty), len(mu)):
        lam, evenness = float(penalty[p]), float(mu[u])
        rule = replace(checked, unit_noise=draws[:, None], penalty=lam, mu=evenness)
        weights: Array | None = None
        w: ArrayLike = 0.0
        for g, price in enumerate(gamma):  # each from the end of the one before
            end = alternate(
                replace(rule, gamma=float(price)),
                rates,
                start_weights=weights,
                guess=w,
                tolerance=1e-4,
            )
            weights, w = end.weights, end.coefficients
            coefficients[:, p, u, :, g] = w
            found[::3, :, p, u, :, g] = end.value, end.epsilon @ psi
    found[1:3] = _errors(parts, coefficients)
    return found


def joint_choice(
    ends: ArrayLike, *, totals: ArrayLike, sigmas: ArrayLike, gammas: ArrayLike
) -> tuple[Array, Array]:
    r"""Test errors and payments of the joint rule: eta by the objective, the rest by validation.

    Parameters
    ----------
    ends, totals, gammas
        From and as for :func:`joint_ends`; a part of the last axis but one moves the ends of the
        grid of eta.
    sigmas : array of shape (s,)
        Not negative.

    Returns
    -------
    tuple of two arrays of shape (g,), means over the draws
        For each gamma at the penalty, :math:`\mu` and :math:`\sigma` of least mean public error
        plus gamma times payments. In each draw eta is what minimises the objective.
    """
    (value, *measured), gamma = np.asarray(ends, dtype=float), np.asarray(gammas, dtype=float)
    over_eta = np.divide.outer(np.asarray(sigmas, dtype=float), np.asarray(totals, dtype=float))
    best = (value[:, :, :, None] + over_eta[..., None]).argmin(-2)[..., None, :]
    public, test, paid = (
        np.take_along_axis(part[:, :, :, None], best, -2)[..., 0, :].mean(0).reshape(-1, len(gamma))
        for part in measured
    )
    chosen = (public + gamma * paid).argmin(0), np.arange(len(gamma))
    return test[chosen], paid[chosen]


# --- three sellers of the joint rule, for its page and the front page ---------------------------

POINTS = np.unique(np.r_[np.linspace(-40, 40, 8001), np.linspace(-2, 2, 40001)])  # coefficients
# y x of the three sellers: the label of the last is flipped
BEFORE = (-1.0, -1.0, -1.0)
AFTER = (-1.0, -1.0, 1.0)


def three_sellers(signed: Sequence[float], **options: Any) -> JointObjective:
    """Return the joint objective of three sellers with signed records y x; no noise, which only
    tilts it.
    """
    settings = {"penalty": 0.3, "mu": 0.3, "sigma": 0.0, "gamma": 0.0} | options
    return joint_objective(np.reshape(signed, (3, 1)), np.ones(3), [0.0], np.zeros(3), **settings)


class JointLaw(NamedTuple):
    """Exact law of the coefficient that the joint rule releases, on the grid `POINTS`, for a rate
    of 2.

    `G` is what is left of the objective at the best weights; `hull` are the vertices of its convex
    hull, and `mass` their probabilities.
    """

    G: Array
    hull: NDArray[np.intp]
    mass: Array


def joint_law(signed: Sequence[float], rate: float = 2.0, **options: Any) -> JointLaw:
    """Return G on the grid, its convex hull, and the noise that leads to each vertex."""
    f = three_sellers(signed, **options)
    G = f.value(POINTS[:, None], f.best_weights(f.losses(POINTS[:, None]), rate), rate)
    below = ConvexHull(np.c_[POINTS, G])
    hull = np.unique(below.simplices[below.equations[:, 1] < 0])
    cuts = -rate / 2 * np.diff(G[hull]) / np.diff(POINTS[hull])  # the b between two vertices
    mass = -np.diff(stats.laplace.cdf(np.r_[np.inf, cuts, -np.inf]))
    return JointLaw(G, hull, mass)
