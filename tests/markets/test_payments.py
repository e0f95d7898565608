"""Payment rules on cases with known answers, and the meter of incentives on lies that were planted
for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hdpm_lib.markets import payments, procurement_auction, quadrature
from hdpm_lib.markets.incentives import Incentives, reports_to_try, search_misreports
from hdpm_lib.markets.payments import (
    envelope_payments,
    step_payments,
    vcg_payments,
    with_own_report,
)
from tests.support import generator

Market = tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]


def second_price() -> Market:
    """Buy one unit from the cheapest seller."""
    return lambda c: np.eye(c.shape[-1])[c.argmin(-1)], lambda c: c.min(-1)


def cobb_douglas(weights: np.ndarray) -> Market:
    """Buy amounts x with prod x_i^w_i = 1 at least cost: the cost shares are the weights."""

    def least(c: np.ndarray) -> np.ndarray:
        return np.exp((weights * np.log(c / weights)).sum(-1))

    return lambda c: weights * least(c)[..., None] / c, least


def ball(n: int) -> Market:
    """Choose amounts in the unit ball around (1, ..., 1)."""
    return (
        lambda c: 1 - c / np.linalg.norm(c, axis=-1, keepdims=True),
        lambda c: c.sum(-1) - np.linalg.norm(c, axis=-1),
    )


def test_with_own_report() -> None:
    found = with_own_report(np.array([1.0, 2.0, 3.0]), [7.0, 8.0, 9.0])
    np.testing.assert_array_equal(found, [[7, 2, 3], [1, 8, 3], [1, 2, 9]])
    np.testing.assert_array_equal(with_own_report(np.array([1.0, 2.0]), 5.0), [[5, 2], [1, 5]])
    batch = np.arange(6.0).reshape(3, 1, 2)
    own = np.arange(8.0).reshape(4, 2) + 10
    found = with_own_report(batch, own)
    assert found.shape == (3, 4, 2, 2)
    np.testing.assert_array_equal(found[2, 1], with_own_report(batch[2, 0], own[1]))


@pytest.mark.parametrize("n", [1, 2, 6])
def test_second_price(n: int) -> None:
    """The cheapest gets the second price, or the ceiling if she is alone."""
    rng = generator(61, n)
    for _ in range(5):
        c = 4 * rng.random(n)
        expected = np.zeros(n)
        expected[c.argmin()] = np.sort(np.append(c, 4.0))[1]
        np.testing.assert_allclose(vcg_payments(c, 4.0, *second_price()), expected, rtol=1e-14)
        np.testing.assert_allclose(
            envelope_payments(c, 4.0, second_price()[0]), expected, rtol=1e-8
        )


@pytest.mark.parametrize(
    ("reports", "price"), [([1.0, 1.005], 1.005), ([0.3304, 0.3334], 0.3334), ([0.0, 0.004], 0.004)]
)
def test_a_narrow_step_is_found(reports: list[float], price: float) -> None:
    """Beside one's own report, where no node but the first sees it."""
    paid = envelope_payments(reports, 10.0, second_price()[0])
    np.testing.assert_allclose(paid, [price, 0.0], rtol=1e-8)


@pytest.mark.parametrize("n", [2, 3, 6, 20])
def test_second_prices_of_random_markets_are_found(n: int) -> None:
    rng = generator(69, n)
    for _ in range(100):
        c = 10 * rng.random(n)
        paid = envelope_payments(c, 10.0, second_price()[0])
        assert paid.max() == pytest.approx(np.sort(c)[1], rel=1e-8)


def test_a_staircase_is_found_step_by_step() -> None:
    """As the sum has it that knows where the steps are; some are narrower than a thousandth."""
    rng = generator(70)
    edges = np.concatenate([[0.0], np.sort(rng.random(40)), [0.5 + 1e-7, 0.5, 1.0]])
    edges.sort()
    heights = np.append(np.sort(rng.random(len(edges) - 1))[::-1], 0.0)

    def stairs(c: np.ndarray) -> np.ndarray:
        return heights[np.searchsorted(edges, c, side="right") - 1]

    reports = [0.2, 0.5, 0.93]
    paid = envelope_payments(reports, 1.0, stairs)
    np.testing.assert_allclose(paid, step_payments(reports, edges, stairs), rtol=1e-8)


@pytest.mark.parametrize("nodes", [payments.NODES, procurement_auction.NODES])
def test_what_nodes_do_not_foresee_is_more_than_the_error(nodes: int) -> None:
    """Of a drop, wherever it lies in a panel."""
    at, weight, foresee = quadrature.lobatto(nodes)
    halves = np.append(at, 1 + at) / 2
    for drop in np.linspace(1e-9, 1 - 1e-9, 5001):
        coarse = (at < drop) * 1.0
        fine = (halves < drop) * 1.0
        unforeseen = np.abs(fine - coarse @ foresee) @ weight
        assert abs(fine @ weight - drop) < unforeseen and unforeseen > 0.02


@pytest.mark.parametrize("n", [2, 5])
def test_vcg_is_envelope(n: int) -> None:
    rng = generator(62, n)
    for market in (cobb_douglas(rng.dirichlet(np.full(n, 5.0))), ball(n)):
        for _ in range(3):
            c = 0.01 + rng.random(n)
            vcg = vcg_payments(c, 2.0, *market)
            envelope = envelope_payments(c, 2.0, market[0], tolerance=1e-8)
            np.testing.assert_allclose(envelope, vcg, rtol=1e-6, atol=1e-6 * vcg.max())
            assert (vcg >= c * market[0](c[None])[0] * (1 - 1e-12)).all()


def test_envelope_has_the_known_integral() -> None:
    """x = (1 - c)^2 sells for c (1 - c)^2 + (1 - c)^3 / 3 each; for two others a constant is added
    or not at all.
    """
    c = np.array([0.0, 0.3, 0.9, 1.0])
    paid = envelope_payments(c, 1.0, lambda reports: (1 - reports) ** 2, tolerance=1e-12)
    np.testing.assert_allclose(paid, c * (1 - c) ** 2 + (1 - c) ** 3 / 3, rtol=1e-11)
    np.testing.assert_allclose(envelope_payments([2.0, 5.0], 5.0, np.ones_like), 5.0, rtol=1e-12)
    np.testing.assert_array_equal(envelope_payments([2.0, 5.0], 5.0, np.zeros_like), 0.0)


def test_step_payments_are_vcg_payments_on_the_steps() -> None:
    """Reports rounded to the middle of their cell: a step rule, whose integral quadrature finds as
    well.
    """
    edges = np.linspace(0, 1, 9)
    rng = generator(67)
    middles = (edges[1:] + edges[:-1]) / 2
    for _ in range(4):
        rule, _ = cobb_douglas(rng.dirichlet([2, 2]))
        reports = rng.random(2)

        def rounded(c: np.ndarray, rule: Any = rule) -> np.ndarray:
            return rule(middles[np.minimum(np.searchsorted(edges, c, side="right") - 1, 7)])

        found = step_payments(reports, edges, rounded)
        np.testing.assert_allclose(
            found, envelope_payments(reports, 1.0, rounded, tolerance=1e-6), rtol=1e-4
        )
        # that rule has no steps
        assert (np.abs(step_payments(reports, edges, rule) / found - 1) > 1e-4).any()
    paid = step_payments([0.1], [0.0, 1 / 3, 1.0], lambda c: (c < 1 / 3) * 1.0)
    assert paid.dtype == np.float64 and paid[0] == pytest.approx(1 / 3, rel=1e-14)


def test_many_sellers_are_not_all_replaced_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Profiles come in blocks of rows, and give the same payments."""
    rng = generator(68)
    c = 0.01 + rng.random(40)
    rule, least = cobb_douglas(rng.dirichlet(np.full(40, 5.0)))
    whole = vcg_payments(c, 2.0, rule, least), envelope_payments(c, 2.0, rule)
    rows = list[int]()

    def watched(function: Callable[[np.ndarray], np.ndarray]) -> Any:
        return lambda reports: rows.append(len(reports)) or function(reports)

    monkeypatch.setattr(payments, "CELLS", 280)
    blocks = (
        vcg_payments(c, 2.0, watched(rule), watched(least)),
        envelope_payments(c, 2.0, watched(rule)),
    )
    assert max(rows) == 7
    for one, other in zip(whole, blocks, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


# --- the meter ----------------------------------------------------------------------------------


@pytest.mark.parametrize("refine", [True, False])
def test_pay_as_bid(refine: bool) -> None:
    """Everybody asks the ceiling: the gain is what is left up to it. A fixed price tempts nobody,
    and may be a loss.
    """
    c = np.array([0.2, 0.5, 1.0])
    x = np.array([1.0, 3.0, 2.0])
    found = search_misreports(
        lambda s: (x + 0 * s, x * s), c, reports_to_try(c, 1.0), refine=refine
    )
    np.testing.assert_array_equal(found.report[:2], 1.0)
    np.testing.assert_allclose(found.gain[:2], (1 - c[:2]) * x[:2], rtol=1e-15)
    assert found.gain[2] < 0 and found.relative_gain == pytest.approx(1.5 / 2)
    np.testing.assert_array_equal(found.utility, 0.0)
    np.testing.assert_array_equal(found.payment, x * c)
    fixed = search_misreports(
        lambda s: (x + 0 * s, x / 2 + 0 * s), c, reports_to_try(c, 1.0), refine=refine
    )
    np.testing.assert_allclose(fixed.utility, (0.5 - c) * x)
    np.testing.assert_array_equal(fixed.gain, 0.0)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_refining_is_the_same_in_any_unit_of_money(unit: float) -> None:
    """Paid what they report, sellers of an amount exp(-c) do best with a unit above their costs."""
    costs = np.array([0.2, 0.5])
    found = search_misreports(
        lambda c: (np.exp(-c / unit), c * np.exp(-c / unit)),
        costs * unit,
        [np.linspace(0, 3, 8) * unit] * 2,
    )
    np.testing.assert_allclose(found.gain / unit, np.exp(-1 - costs), rtol=1e-8)
    np.testing.assert_allclose(found.report / unit, 1 + costs, rtol=1e-4)


def test_refining_finds_the_interior() -> None:
    """The best report 0.3217 is on no grid; of one report each, the gain may be a loss."""
    c = np.array([0.6, 0.1])

    def mechanism(reports: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros_like(reports), 1 - (reports - 0.3217) ** 2

    tries = reports_to_try(c, 1.0, grid=11)
    coarse, fine = (
        search_misreports(mechanism, c, tries, refine=refine) for refine in (False, True)
    )
    np.testing.assert_allclose(fine.gain, (c - 0.3217) ** 2, atol=1e-10)
    np.testing.assert_allclose(fine.report, 0.3217, atol=1e-5)
    np.testing.assert_allclose(coarse.report, 0.3, atol=1e-12)
    assert (coarse.gain < fine.gain - 1e-4).all() and fine.tried > coarse.tried == sum(
        map(len, tries)
    )
    single = search_misreports(mechanism, c, [[0.5], [0.5]])
    np.testing.assert_allclose(single.gain, 1 - (0.5 - 0.3217) ** 2 - (1 - (c - 0.3217) ** 2))


def test_reports_to_try() -> None:
    c = np.array([0.0, 0.25, 2.0, 0.25])
    found = reports_to_try(c, 2.0, grid=5)
    for own, tries in zip(c, found, strict=True):
        assert (
            (np.diff(tries) > 0).all()
            and own not in tries
            and tries.min() >= 0
            and tries.max() <= 2
        )
        expected = {*np.linspace(0, 2, 5), *c, 2e-7, 0.25 - 2e-7, 0.25 + 2e-7, 2 - 2e-7} - {own}
        np.testing.assert_allclose(tries, sorted(expected), rtol=1e-14)
    told = reports_to_try([0.2, 0.7], 1.0, special=[[0.123456], [0.5]])  # which no grid hits
    assert {0.123456 - 1e-7, 0.123456, 0.123456 + 1e-7} < set(told[0]) and len(told[0]) > 101


def test_gain_where_nothing_is_paid() -> None:
    nothing = Incentives(np.array([0.0, 0.5]), np.zeros(2), np.zeros(2), np.zeros(2), 2)
    assert nothing.relative_gain == 0.5


# --- what is refused ----------------------------------------------------------------------------


def holed(reports: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Not-a-number compares with nothing: a search that passed over it would call such a mechanism
    truthful.
    """
    return np.zeros_like(reports), np.where(reports == 0.5, np.nan, 0.0)


RULE, LEAST = second_price()
TWO = [0.2, 0.5]
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: vcg_payments([0.5, 1.5], 1.0, RULE, LEAST), "reports must lie in [0, 1], got 1.5"),
    (lambda: envelope_payments([0.5, 1.5], 1.0, RULE), "reports must lie in [0, 1], got 1.5"),
    (
        lambda: vcg_payments(TWO, 1.0, lambda c: c + np.inf, LEAST),
        "rule must give finite amounts, got",
    ),
    (
        lambda: envelope_payments(TWO, 1.0, lambda c: c[0]),
        "rule must map reports of shape (1, 2) to numbers of shape (1, 2), got float64 of shape"
        " (2,)",
    ),
    (
        lambda: vcg_payments(TWO, 1.0, RULE, lambda c: 1.0),
        "least_cost must map reports of shape (2, 2) to numbers of shape (2,), got",
    ),
    (lambda: step_payments(TWO, [0.0, 1.0], None), "rule must be callable, got None"),
    (lambda: vcg_payments(TWO, 1.0, RULE, 3), "least_cost must be callable, got 3"),
    (
        lambda: search_misreports(lambda c: c, TWO, [[0.1]] * 2),
        "mechanism must give amounts and payments of shape (1, 2), got float64 of shape (1, 2)",
    ),
    (lambda: search_misreports(3, TWO, [[0.1]] * 2), "mechanism must be callable, got 3"),
    (lambda: search_misreports(holed, TWO, None), "candidates must be a list with an array"),
    (lambda: reports_to_try(TWO, 1.0, special=None), "special must be a list with an array"),
    (
        lambda: step_payments(TWO, [0.0, 1.0], lambda c: c + np.inf),
        "rule must give finite amounts, got",
    ),
    (
        lambda: step_payments([0.2], [0.5, 1.0], RULE),
        "reports must lie in [0.5, 1] (between the edges), got 0.2",
    ),
    (
        lambda: step_payments([1.2], [0.5, 1.0], RULE),
        "reports must lie in [0.5, 1] (between the edges), got 1.2",
    ),
    (
        lambda: step_payments([0.2], [1.0], RULE),
        "edges must be at least two numbers that do not fall, got [1.]",
    ),
    (
        lambda: step_payments([0.2], [0.0, 0.9, 0.5], RULE),
        "edges must be at least two numbers that do not fall, got",
    ),
    (lambda: reports_to_try([0.5, 1.5], 1.0), "types must lie in [0, 1], got 1.5"),
    (
        lambda: reports_to_try(TWO, 1.0, special=[[0.1]]),
        "one set of reports for each of 2 sellers, got 1",
    ),
    (
        lambda: search_misreports(holed, TWO, [[0.1]] * 3),
        "misreports for each of 2 sellers, got [1, 1, 1]",
    ),
    (
        lambda: search_misreports(holed, TWO, [[0.1], []]),
        "misreports for each of 2 sellers, got [1, 0]",
    ),
    (
        lambda: search_misreports(holed, [0.2, 0.7], [[0.1], [0.5]]),
        "gives seller 1 no utility (not a number) at her",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refusals(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        call()


def test_quadrature_that_fails_is_reported() -> None:
    rng = generator(65)
    with pytest.raises(RuntimeError, match=r"the payment of seller 0 did not settle to 1e-09"):
        envelope_payments([0.2], 1.0, lambda reports: rng.random(reports.shape))
