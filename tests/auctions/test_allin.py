"""All-in as printed and repaired: against exact arithmetic, and against every lie that could
matter; meters of lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from hdpm_book.federated.allin import all_in_printed, printed_for_bids
from hdpm_book.federated.partition import budget_of, draw_bids
from hdpm_book.records import page_functions
from hdpm_lib.auctions.allin import all_in, all_or_nothing
from hdpm_lib.auctions.bids import Bids
from hdpm_lib.auctions.incentives import gains, utility
from hdpm_lib.markets.outcome import Outcome
from tests.support import generator

LOOKS_AT = ["book/federated/allin.md"]
PAGE = page_functions("federated/allin", "single_minded_gains")
single_minded_gains = PAGE["single_minded_gains"]
Array = np.ndarray
Exact = Sequence[Fraction]


def wins(sale: Outcome) -> Array:
    return sale.privacy_loss > 0


# --- the rules in exact arithmetic, one auction at a time ---------------------------------------


def exact_all_in(v: Exact, x: Exact, budget: Fraction, stop: bool) -> list[Fraction]:
    """Payments of Algorithm 4; 0 for losers."""
    winners: list[int] = []
    for i in sorted(range(len(v)), key=lambda i: v[i] / x[i]):
        if v[i] / x[i] <= budget / sum(x[j] for j in [*winners, i]):
            winners.append(i)
        elif stop:
            break
    return [
        budget * x[i] / sum(x[j] for j in winners) if i in winners else Fraction(0)
        for i in range(len(v))
    ]


def exact_winners(v: Exact, x: Exact, budget: Fraction) -> list[int]:
    """Those ahead of the first owner who is not covered, when whoever asks for more than the budget
    is left out.
    """
    winners: list[int] = []
    for i in sorted((i for i in range(len(v)) if v[i] <= budget), key=lambda i: v[i] / x[i]):
        if v[i] / x[i] > budget / sum(x[j] for j in [*winners, i]):
            break
        winners.append(i)
    return winners


def exact_payment(i: int, v: Exact, x: Exact, budget: Fraction) -> Fraction:
    """Of the repaired rule, literally: a winner's amount times the highest unit valuation below
    which she wins.

    Tried just below every unit valuation at which anything may change for her.
    """
    if i not in exact_winners(v, x, budget):
        return Fraction(0)
    held = x[i]
    points = [budget / x[i]]
    for j in sorted(
        (j for j in range(len(v)) if j != i and v[j] <= budget), key=lambda j: v[j] / x[j]
    ):
        held += x[j]
        points += [v[j] / x[j], budget / held]
    below = 1 - Fraction(1, 10**15)
    wins = [
        p for p in points if i in exact_winners([*v[:i], p * below * x[i], *v[i + 1 :]], x, budget)
    ]
    return x[i] * max(wins, default=Fraction(0))


def small_market(rng: np.random.Generator) -> tuple[list[Fraction], list[Fraction], Fraction]:
    """Small integers, so that ties, exact breakpoints and valuations of all the budget are
    frequent.
    """
    n = int(rng.integers(1, 6))
    v = rng.integers(0, 9, n).tolist()
    x = rng.integers(1, 9, n).tolist()
    return [*map(Fraction, v)], [*map(Fraction, x)], Fraction(int(rng.integers(1, 31)))


def test_rules_are_those_of_exact_arithmetic() -> None:
    rng = generator(400)
    several = 0
    for _ in range(1000):
        v, x, budget = small_market(rng)
        numbers = [float(k) for k in v], [float(k) for k in x], float(budget)
        for stop in (False, True):
            sale = all_in_printed(*numbers, stop=stop)
            paid = exact_all_in(v, x, budget, stop)
            assert sale.payments == pytest.approx([float(p) for p in paid], rel=1e-14)
            assert (wins(sale) == [p > 0 for p in paid]).all()
            assert sum(paid) in (0, budget) and all(
                p == 0 or p >= cost for p, cost in zip(paid, v, strict=True)
            )
        sale = all_or_nothing(*numbers)
        paid = [exact_payment(i, v, x, budget) for i in range(len(v))]
        assert sale.payments == pytest.approx([float(p) for p in paid], rel=1e-14)
        assert (wins(sale) == [p > 0 for p in paid]).all()
        several += wins(sale).sum() > 1
    assert several > 130


# --- incentives ---------------------------------------------------------------------------------


def markets(
    rng: np.random.Generator, count: int, n: int, whole: bool
) -> tuple[Array, Array, Array]:
    if whole:
        return *(rng.integers(1, 9, (2, count, n)) * 1.0), rng.integers(1, 31, count) * 1.0
    v = rng.lognormal(0, 1, (count, n))
    x = rng.lognormal(0, 1, (count, n))
    return v, x, rng.uniform(0.1, 2, count) * v.sum(-1)


def worst_lies(
    rule: Callable[..., Outcome], v: Array, x: Array, budget: Array, rng: np.random.Generator
) -> Array:
    """Largest gain of every owner over joint lies: amounts down, valuations at, below and above
    each breakpoint.
    """
    best = np.full(v.shape, -np.inf)
    behind = np.take_along_axis(x, np.argsort(v / x, axis=-1, kind="stable"), -1).cumsum(-1)
    for part in (1.0, 0.5, rng.uniform(0.02, 1, v.shape)):
        amount = x * part
        points = []
        for j in range(v.shape[-1]):
            alone = budget[:, None] / behind[:, [j]] + 0 * v
            points += [(v / x)[:, [j]] + 0 * v, alone, budget[:, None] / (behind[:, [j]] + amount)]
        units = np.stack(points)
        others = [0 * v, v / x, rng.uniform(0, 3) * v / x]
        units = np.concatenate([units, units * (1 - 1e-9), units * (1 + 1e-9), others])
        best = np.maximum(
            best, single_minded_gains(rule, v, x, (units * amount, amount), budget).max(0)
        )
    return best


def test_repaired_rule_is_truthful_rational_and_feasible() -> None:
    """In 4,000 markets; the next test finds what is wrong with the printed rule by the same
    lies.
    """
    rng = generator(401, 0)
    for n in (2, 3, 4, 5):
        for whole in (True, False):
            v, x, budget = markets(rng, 500, n, whole)
            sale = all_or_nothing(v, x, budget)
            rounding = budget[:, None] * 1e-12
            assert (worst_lies(all_or_nothing, v, x, budget, rng) <= rounding).all()
            assert (sale.payments - np.where(wins(sale), v, 0) >= -rounding).all()
            assert (sale.payments.sum(-1) <= budget * (1 + 1e-12)).all()


def test_payments_never_exceed_the_budget() -> None:
    """In exact arithmetic, and so in whatever order floats are added."""
    rng = generator(402)
    touched = 0
    for k in range(4000):
        n = int(rng.integers(1, 8)) if k % 20 else 3000
        x = rng.integers(1, 20, n) * 1.0 if k % 2 else rng.lognormal(0, 1, n)
        v = np.zeros(n) if k % 4 else rng.lognormal(0, 1, n)
        budget = float(rng.integers(1, 31)) if k % 3 else rng.uniform(1e-3, 1e3)
        sale = all_or_nothing(v, x, budget)
        paid = sum(map(Fraction, sale.payments.tolist()))
        assert paid <= Fraction(budget)
        assert max(np.sum(sale.payments), sum(sale.payments)) <= budget
        touched += paid > Fraction(budget) * (1 - Fraction(1, 10**11))
    assert touched > 3000
    assert all_or_nothing([0, 0, 0], [6, 8, 1], 6.0).payments.sum() <= 6.0


def test_only_losers_who_ask_for_less_gain_from_the_printed_rule() -> None:
    rng = generator(403)
    for n in (2, 3, 5):
        v, x, budget = markets(rng, 600, n, False)
        for stop in (False, True):
            rule = partial(all_in_printed, stop=stop)
            gain = worst_lies(rule, v, x, budget, rng)
            won = wins(rule(v, x, budget))
            assert (gain[won] <= 1e-9).all() and (gain[~won] > 1e-6).sum() > 12
            # V at least the truth, amount at most the truth
            for part in (1.0, rng.uniform(0.01, 1, v.shape)):
                lies = (
                    v * (1 + rng.exponential(1, (20, *v.shape))),
                    np.broadcast_to(x * part, (20, *v.shape)),
                )
                assert (
                    single_minded_gains(rule, v, x, lies, budget) <= 1e-12 * budget[:, None]
                ).all()
                assert (
                    single_minded_gains(rule, v, x, (v, x * part), budget)
                    <= 1e-12 * budget[:, None]
                ).all()
            # who asks for less or offers more still wins
            for i, own in enumerate(np.eye(n, dtype=bool)):
                better = v * rng.uniform(0, 1, v.shape), x * (1 + rng.exponential(1, v.shape))
                again = rule(
                    np.where(own, better[0], v),
                    np.where(own, rng.choice([x, better[1]]), x),
                    budget,
                )
                assert wins(again)[won[:, i], i].all()


def test_splitting_does_not_pay_and_agreement_does() -> None:
    """Several names of one owner gain nothing from the repaired rule; several owners may."""
    rng = generator(405)
    tried = 0
    for n in (1, 2, 4):
        v, x, budget = markets(rng, 4000, n, False)
        honest = all_or_nothing(v, x, budget)
        cuts = np.sort(rng.uniform(0, 1, (len(v), 2)), axis=-1)
        names = (
            np.diff(np.concatenate([0 * cuts[:, :1], cuts, 0 * cuts[:, :1] + 1], axis=-1), axis=-1)
            * x[:, :1]
        )
        unit = np.where(
            rng.random(names.shape) < 0.5, v[:, :1] / x[:, :1], rng.lognormal(0, 1, names.shape)
        )
        split = all_or_nothing(np.c_[unit * names, v[:, 1:]], np.c_[names, x[:, 1:]], budget)
        told = split.payments[:, :3].sum(-1) - np.where(wins(split)[:, :3].any(-1), v[:, 0], 0)
        assert (
            told
            <= honest.payments[:, 0] - np.where(wins(honest)[:, 0], v[:, 0], 0) + 1e-12 * budget
        ).all()
        tried += wins(split)[:, :3].any(-1).sum()
    assert tried > 3000
    pair = (
        all_or_nothing([1.0, 2.0], [100.0, 100.0], 300.0),
        all_or_nothing([1.0, 299.0], [100.0, 100.0], 300.0),
    )
    # the second asks for more, and the first is paid more
    assert pair[0].payments[0] < pair[1].payments[0]


# --- bids of four families, and the meters ------------------------------------------------------


def test_single_minded_sells_whole_privacy_budgets() -> None:
    rng = generator(406)
    truth = draw_bids(rng.integers(1, 200, (50, 6)), rng)
    budget = budget_of(truth, 0.4)
    for rule, auction in ((all_or_nothing, all_in), (all_in_printed, printed_for_bids)):
        outcome = auction(truth, budget)
        sale = rule(truth.full_valuation, truth.sizes * truth.privacy_budget, budget)
        assert (outcome.privacy_loss == np.where(wins(sale), truth.privacy_budget, 0)).all()
        assert (outcome.payments == sale.payments).all()
        assert (utility(truth, outcome) >= -1e-12 * budget[:, None]).all()
        assert all(
            (auction(truth[k], budget[k]).payments == outcome.payments[k]).all() for k in range(50)
        )


def test_meters_are_the_definition() -> None:
    rng = generator(407)

    def odd(reports: Bids, budget: Array) -> Outcome:  # every report matters to everybody
        pull = reports.rate.sum(-1, keepdims=True) * (1 + reports.family) + reports.sizes
        return Outcome(
            reports.privacy_budget * 0.7, budget[..., None] * pull / pull.sum(-1, keepdims=True)
        )

    truth = draw_bids(rng.integers(1, 50, (4, 3)), rng)
    lies = draw_bids(rng.integers(1, 50, (5, 4, 3)), rng)
    budget = rng.uniform(1, 9, 4)
    measured = gains(odd, truth, lies, budget)
    honest = utility(truth, odd(truth, budget))
    assert measured.dtype == float and measured.shape == (5, 4, 3)
    assert np.isinf(measured).any() and np.isfinite(measured).any()
    v, x = rng.lognormal(0, 1, (2, 4, 3))
    said = v * rng.uniform(0, 2, (5, 4, 3)), x * rng.uniform(0.3, 1.2, (5, 4, 3))
    single = single_minded_gains(all_in_printed, v, x, said, budget)
    for c, k, i in np.ndindex(5, 4, 3):
        parts = []
        for name in ("family", "rate", "privacy_budget", "sizes"):
            part = getattr(truth, name)[k].copy()
            part[i] = getattr(lies, name)[c, k, i]
            parts.append(part)
        reports = Bids(*parts)
        own = utility(
            truth[k],
            odd(reports, budget[k]),
            np.where(np.arange(3) == i, reports.sizes, truth.sizes[k]),
        )
        assert measured[c, k, i] == pytest.approx(own[i] - honest[k, i])
        values = v[k].copy()
        amounts = x[k].copy()
        values[i], amounts[i] = said[0][c, k, i], said[1][c, k, i]
        sales = all_in_printed(v[k], x[k], budget[k]), all_in_printed(values, amounts, budget[k])
        told = (
            sales[1].payments[i] - v[k, i] * wins(sales[1])[i] if amounts[i] <= x[k, i] else -np.inf
        )
        assert single[c, k, i] == pytest.approx(
            told - sales[0].payments[i] + v[k, i] * wins(sales[0])[i]
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ([1.0, 2.0], [1.0, 1.0, 1.0], 1.0),
            r"must have shape \(..., n\), n >= 1, got \(2,\) and \(3,\)",
        ),
        ((1.0, 1.0, 1.0), r"n >= 1, got \(\) and \(\)"),
        (
            ([[1.0], [2.0]], [1.0], [1.0, 1.0, 1.0]),
            r"must fit, got shapes \(2, 1\), \(1,\) and \(3,\)",
        ),
    ],
)
def test_bad_input(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        all_or_nothing(*arguments)
