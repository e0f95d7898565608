"""Biased Laplace answers: errors and losses by enumeration of all databases of a few points."""

from __future__ import annotations

import functools
import itertools
import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hdpm_lib.learners.queries import BiasedLaplace, linear_query, nonlinear_query
from hdpm_lib.markets.contracts import least_cost_contract
from tests.bench.case import in_turn
from tests.support import generator, refusals

SIZES = [(1, 1), (2, 1), (4, 1), (6, 1), (1, 2), (3, 2), (1, 3), (2, 3)]  # individuals, coordinates
CASES = [(n, m, seed) for n, m in SIZES for seed in range(5)]


def case(n: int, m: int, seed: int) -> tuple[np.ndarray, float, np.ndarray]:
    """Shares (now and then 0 or 1), a scale, and weights of both signs."""
    rng = generator(71, n, m, seed)
    shares = np.clip(rng.uniform(-0.3, 1.3, n), 0, 1)
    return (
        shares,
        float(10 ** rng.uniform(-1, 1)),
        rng.choice([-1, 1], n) * 10 ** rng.uniform(-1, 1, n),
    )


@functools.cache
def databases(n: int, m: int) -> np.ndarray:
    """All databases of data that are corners of the box or one point inside it: shape (n, g, ...,
    g, m).
    """
    inside = generator(72, n, m).uniform(0, 1, (n, 1, m))
    corners = np.array(list(itertools.product((0.0, 1.0), repeat=m)))
    values = np.concatenate([np.broadcast_to(corners, (n, *corners.shape)), inside], axis=1)
    index = np.indices((values.shape[1],) * n)
    return np.stack([values[k][index[k]] for k in range(n)])


def weighted(weights: np.ndarray, data: np.ndarray) -> np.ndarray:
    """The terms of the query, on every database."""
    return weights.reshape(-1, *[1] * (data.ndim - 1)) * data


def laplace_privacy_losses(
    answers: np.ndarray, scale: float, *, vector: bool = False
) -> np.ndarray:
    """The largest L1 distance of two answers that differ along an individual's axis only, over the
    scale.
    """
    x = answers if vector else answers[..., None]
    found = []
    for axis in range(x.ndim - 1):
        rows = np.moveaxis(x, axis, 0)
        found.append(
            max(np.abs(rows[k + 1 :] - rows[k]).sum(-1).max() for k in range(len(rows) - 1))
        )
    return np.array(found) / scale


def answer(shares: np.ndarray, weights: np.ndarray, data: np.ndarray) -> np.ndarray:
    """The paper's answer before noise, term by term: share of the datum, half of the rest."""
    return np.sum(
        [q * (a * d + (1 - a) / 2) for a, q, d in zip(shares, weights, data, strict=True)], axis=0
    )


def errors(shares: np.ndarray, scale: float, weights: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Mean squared error on every database, averaged over coordinates."""
    distance = answer(shares, weights, data) - np.sum(
        [q * d for q, d in zip(weights, data, strict=True)], axis=0
    )
    return (distance**2).mean(-1) + stats.laplace(scale=scale).var()


# --- accuracy -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "m", "seed"), CASES)
def test_worst_error_by_enumeration(n: int, m: int, seed: int) -> None:
    (shares, scale, weights), data = case(n, m, seed), databases(n, m)
    mechanism = linear_query(shares, scale, weights=weights, dimension=m)
    terms = weighted(weights, data)
    np.testing.assert_allclose(
        mechanism.mean(terms), answer(shares, weights, data), rtol=0, atol=1e-12
    )
    found = errors(shares, scale, weights, data)
    np.testing.assert_allclose(
        mechanism.bias(terms), answer(shares, weights, data) - terms.sum(0), rtol=0, atol=1e-12
    )
    assert found.max() == pytest.approx(mechanism.worst_case_mse, rel=1e-12)
    for sign in (-1, 1):  # attained where all terms are at the same end
        ends = np.where(sign * weights > 0, 1.0, 0.0)[:, None] * np.ones(m)
        assert errors(shares, scale, weights, ends) == pytest.approx(
            mechanism.worst_case_mse, rel=1e-12
        )


def test_special_cases() -> None:
    """Principle 1 at n = 2 and K = 1/4, and the constant: the printed loss, no loss."""
    equal = linear_query([0.75, 0.75], math.sqrt(1.5) / 4)
    assert equal.worst_case_mse == pytest.approx(
        0.25
    ) and equal.privacy_loss.tolist() == pytest.approx([6**0.5] * 2)
    constant = linear_query([0, 0, 0], 0)
    assert constant.worst_case_mse == 1.5**2 and constant.privacy_loss.tolist() == [0, 0, 0]
    assert constant.release([0, 1, 0.3], rng=generator(), size=4).tolist() == [1.5] * 4


# --- privacy ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "m", "seed"), CASES)
def test_losses_by_enumeration(n: int, m: int, seed: int) -> None:
    """Exact: a linear query attains m a |q| / b, and no pair of databases loses more."""
    shares, scale, weights = case(n, m, seed)
    promised = linear_query(shares, scale, weights=weights, dimension=m).privacy_loss
    np.testing.assert_allclose(promised, m * shares * np.abs(weights) / scale, rtol=1e-12)
    means = answer(shares, weights, databases(n, m))
    measured = laplace_privacy_losses(means, scale, vector=True)
    np.testing.assert_allclose(measured, promised, rtol=1e-10, atol=1e-12)
    if m == 1:
        np.testing.assert_allclose(
            laplace_privacy_losses(means[..., 0], scale), measured, rtol=1e-12
        )


@pytest.mark.parametrize("seed", range(5))
def test_group_privacy(seed: int) -> None:
    """Losses add up over those who differ, with equality where all their terms move to the same
    other end.
    """
    (shares, scale, weights), rng = case(5, 1, seed), generator(75, seed)
    mechanism = linear_query(shares, scale, weights=weights)
    line = np.linspace(-np.abs(weights).sum() - 1, np.abs(weights).sum() + 1, 2001)
    for size, extreme in itertools.product(range(1, 6), (False, True)):
        group = rng.choice(5, size, replace=False)
        data = np.repeat(rng.random((5, 1)), 2, axis=1)
        data[group] = (
            (weights[group, None] > 0) == [False, True] if extreme else rng.random((size, 2))
        )
        one, other = stats.laplace.logpdf(
            line, mechanism.mean(weighted(weights, data))[:, None], scale
        )
        loss = np.abs(one - other).max()
        limit = mechanism.privacy_loss[group].sum()
        if extreme or limit == 0:
            assert loss == pytest.approx(limit, rel=1e-10, abs=1e-12)
        else:
            assert loss < limit * (1 - 1e-6)


def test_a_vector_of_sensitivities_is_a_diagonal() -> None:
    shares, scale, weights = case(6, 1, 3)
    query = linear_query(shares, scale, weights=weights, dimension=3)
    table = BiasedLaplace(shares, scale, np.diag(abs(weights)), query.ranges, query.lower, 3)
    assert query.sensitivity.shape == (6,) and table.sensitivity.shape == (6, 6)
    assert (query.privacy_loss == table.privacy_loss).all()
    with pytest.raises(
        ValueError, match=r"sensitivity must have 2 dimension.*, got shape \(1, 1, 1\)"
    ):
        nonlinear_query([1.0], 1.0, [[[1.0]]])


def test_memory_grows_as_the_sellers_do() -> None:
    """A table of 200,000 times 200,000 would take 300 GB."""
    n = 200_000
    tracemalloc.start()
    query = linear_query(np.full(n, 0.5), 2.0, weights=np.full(n, -0.25))
    losses = query.privacy_loss
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 100 * n and losses.shape == (n,) and losses[0] == 0.0625


def test_a_release_takes_the_time_of_a_few_sorts() -> None:
    """As lists of balls, one by one, 100,000 sellers took as long as 60 sorts of them."""
    n = 100_000
    query = linear_query(np.linspace(0, 1, n), 2.0)
    data = generator(76).random(n)
    own, sort = in_turn(lambda: query.release(data, rng=generator(77)), lambda: np.argsort(data))
    assert own < 20 * sort


@pytest.mark.parametrize("arithmetic", ["exact", "ideal"])
@pytest.mark.parametrize(
    ("lower", "length"), [(1e16, 3.0), (-1e16, 3.0), (1e9, 1e-7), (1e16, 5.0), (2.0**53 - 1, 3.0)]
)
def test_promises_hold_far_from_zero(lower: float, length: float, arithmetic: Any) -> None:
    """Floats lie so far apart there that neither middles nor ends of intervals are among them."""
    share = 0.75
    query = BiasedLaplace(
        [share], 1.0, [length], [length], [lower], clip=True, arithmetic=arithmetic
    )
    near = lower + np.linspace(-4, 4, 81) * max(length, np.spacing(abs(lower)))
    terms = np.concatenate([near, [-np.inf, np.inf, np.nan, 0.0, 1e300]])[None]
    bias = query.bias(terms)  # a quarter of what is left of the terms: they lie close enough
    assert np.ptp(bias) <= (1 - share) * length
    assert np.abs(bias).max() ** 2 + 2 <= query.worst_case_mse


# --- non-linear queries -------------------------------------------------------------------------


@pytest.mark.parametrize("shares", [(1.0, 1.0), (0.4, 1.0), (0.0, 0.7), (0.3, 0.2), (0.0, 0.0)])
def test_theorem_10_bounds_example_1(shares: tuple[float, float]) -> None:
    """The page has its sensitivities, and random queries: `khalili-ex1-setup`, `khalili-thm10`."""
    (a1, a2), b, (d1, d2) = shares, 0.3, np.indices((41, 41)) / 40
    terms = np.stack([d1 / (1 + d2**2), 1 / (1 + d1**2)])
    mechanism = nonlinear_query(shares, b, [[1, 0.5], [0.5, 0]])
    np.testing.assert_allclose(mechanism.privacy_loss, [(a1 + a2 / 2) / b, a1 / 2 / b])  # (27)
    assert mechanism.worst_case_mse == pytest.approx(((2 - a1 - a2) / 2) ** 2 + 2 * b**2)
    means = a1 * terms[0] + a2 * terms[1] + (1 - a1) / 2 + (1 - a2) / 2
    np.testing.assert_allclose(mechanism.mean(terms), means, atol=1e-12)
    error = (means - terms.sum(0)) ** 2 + 2 * b**2
    np.testing.assert_allclose(mechanism.bias(terms) ** 2 + 2 * b**2, error, atol=1e-12)
    assert error.max() <= mechanism.worst_case_mse + 1e-12
    assert (laplace_privacy_losses(means, b) <= mechanism.privacy_loss + 1e-12).all()


# --- what is refused ----------------------------------------------------------------------------


RNG = generator()
REFUSED = "^terms must lie in their intervals: scale by public bounds, or clip$"
ONE = BiasedLaplace(np.ones(1), 1.0, np.ones((1, 1)), np.ones(1), np.zeros(1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: linear_query([0.0, 0.5], 0.0),
            r"scale must be positive .*every share 0\), got 0$",
        ),
        (
            lambda: linear_query([0.5], 1.0, weights=[0.0]),
            r"weights must not be 0 .*, got weights\[0\] = 0\.0",
        ),
        (lambda: nonlinear_query([1, 1], 1.0, [[1.0]]), "sensitivity has 1 rows for 2 shares"),
        (lambda: ONE.mean([2.0]), REFUSED),
        (lambda: linear_query([1], 1.0, weights=[-1]).bias([0.5]), REFUSED),
        (
            lambda: linear_query([1, 1], 1.0, dimension=2).release(
                [[0, 0], [0, -3]], rng=generator()
            ),
            REFUSED,
        ),
        (lambda: nonlinear_query([1.0], 1.0, [[1.0]]).mean([1.5]), REFUSED),
        (lambda: ONE.mean(0.5), r"terms must have 1 rows, .*, got shape \(\)"),
        (lambda: ONE.release([0.5, 0.5], rng=RNG), r"terms must have 1 rows, .*, got shape \(2,\)"),
        (
            lambda: linear_query([1], 1.0, dimension=3).release([[0.5, 0.5]], rng=RNG),
            r"terms must have shape \(1, 3\), got \(1, 2\)",
        ),
        (
            lambda: linear_query([1, 1], 1.0, dimension=3).release([0.5, 0.5], rng=RNG),
            "with rows of one length",
        ),
    ],
)
def test_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


test_absurd_bounds_are_refused_without_the_data = refusals(
    *(
        (
            functools.partial(linear_query, [1.0, 0.5], b, weights=q, arithmetic=kind),
            "weights must have a size from 1e-100 to 1e[+]100: take other units",
        )
        for q in ([1.7e308, 1.7e308], [1.7e308, -1.7e308], [1e300, 1.0], [1e-200, 1.0])
        for b in (1.0, 1e90)
        for kind in ("exact", "ideal")
    ),
    (
        lambda: BiasedLaplace([1.0], 1.0, [3.0], [3.0], [1.79e308], arithmetic="ideal"),
        r"lower must have a size .* got 1\.79e\+308",
    ),
)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("arithmetic", ["exact", "ideal"])
def test_large_bounds_give_right_answers_in_silence(arithmetic: Any) -> None:
    query = linear_query([1.0, 0.5], 1e80, weights=[1e99, -1e99], arithmetic=arithmetic)
    for first, answer in ((1e99, 0.25e99), (0.5e99, 0.0)):
        found = query.release([first, -first], rng=generator(72))
        assert found == pytest.approx(answer, abs=1e86)


@pytest.mark.parametrize("arithmetic", ["exact", "ideal"])
def test_nobody_who_sells_is_released_as_a_constant(arithmetic: Any) -> None:
    query = linear_query([0.0, 0.0], 1.0, arithmetic=arithmetic)
    assert (query.privacy_loss == 0).all()
    released = query.release([0.3, 0.9], rng=generator(71), size=3)
    assert released.shape == (3,) and len(np.unique(released)) == 3


def test_an_answer_keeps_what_the_contract_says() -> None:
    contract = least_cost_contract([1.0, 2.0, 4.0], 0.5, power=2)
    answer = linear_query(contract.shares, contract.scale)
    np.testing.assert_allclose(answer.privacy_loss, contract.privacy_loss)
    assert answer.worst_case_mse == pytest.approx(contract.error)
