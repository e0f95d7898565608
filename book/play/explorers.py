"""What the library says of a setting of each paper's explorer, and the explorers themselves.

An explorer opens the first page of a paper: ``explorers.show("contracts")``. Its script has the same closed forms; the
tests compare the two. The functions take what a form holds, strings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy import optimize, stats
from scipy.special import expit

from hdpm_book.contracts.study import least_total_loss
from hdpm_book.federated.allin import printed_for_bids
from hdpm_book.play.forms import Choice, Explorer, Field, Found, Slider, digits, row
from hdpm_book.privacy.digits import on_grid
from hdpm_book.ridge import jorgensen
from hdpm_lib import noise
from hdpm_lib.auctions import menus
from hdpm_lib.auctions.allin import all_in
from hdpm_lib.auctions.bids import bids
from hdpm_lib.auctions.posted_prices import posted_prices
from hdpm_lib.audits import bounds
from hdpm_lib.learners import ridge
from hdpm_lib.markets.contracts import least_cost_contract
from hdpm_lib.markets.mechanisms import vcg_contract
from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.markets.procurement_auction import procurement_auction

GROUPS = np.array([0.34, 0.43, 0.23])  # of the ridge paper


def ridge_losses(people: str, strict: str, middle: str, lax: str, penalty: str, features: str) -> Found:
    """Errors of ridge regressions: features are uniform on the unit cube, a label is the mean of its features.

    The penalty acts on the moments of the population, and what is drawn by lot is the number that is kept on average.
    """
    n, lam, d = int(people), float(penalty), int(features)
    counts = np.rint(GROUPS * n).astype(int)
    limits = np.repeat([float(strict), float(middle), float(lax)], counts)
    c, most = ridge.sensitivity_constant(lam, np.sqrt(d)), limits.max()
    kept = jorgensen.inclusion_probabilities(limits, most).sum()
    rates = {
        "the strictest for all": np.full(len(limits), limits.min()).sum() / c,
        "drawn by lot": kept * most / c,
        "her own limit": limits.sum() / c,
        "her own, sharper bound": limits.sum() / ridge.sensitivity_constant(lam, np.sqrt(d), "sharp"),
    }
    second = np.full((d, d), 1 / 4) + np.eye(d) / 12
    truth = np.full(d, 1 / d)
    off = np.linalg.solve(second + lam * np.eye(d), second @ truth) - truth
    bias = off @ second @ off
    added = {name: np.trace(second) * float(noise.coordinate_variance(d, rate)) for name, rate in rates.items()}
    ratio = added["the strictest for all"] / added["her own limit"]
    return Found(
        f"With a limit for each the noise adds {digits(added['her own limit'])} to the error, "
        + (
            f"{digits(ratio)} times less than if all are treated as the strictest."
            if ratio > 1
            else "as much as if all are treated as the strictest."
        ),
        f"{people} people, penalty {penalty}, {features} features",
        [row(name, rate, d / rate, bias, added[name], bias + added[name]) for name, rate in rates.items()],
    )


def contract(valuations: str, goal: str, error: str, money: str, power: str) -> Found:
    """Mechanism M2 for an error, or for as little error as the money buys."""
    v, r = np.array(valuations.replace(",", " ").split(), dtype=float), int(power)
    n, ceiling = len(v), 2 * v.max()
    K = float(error) ** 2 * n**2
    if goal == "money":
        top = np.log(n**2 / 4)
        spent = lambda t: vcg_contract(v, np.exp(t), ceiling, power=r).payments.sum() - float(money)  # noqa: E731
        K = float(np.exp(optimize.brentq(spent, top - 18, top, xtol=1e-14)))
    bought, shares = vcg_contract(v, K, ceiling, power=r), least_cost_contract(v, K, power=r).shares
    paid = np.where(bought.privacy_loss > 0, bought.payments, 0.0)  # not the rounding that is left
    columns = shares, bought.privacy_loss, v * bought.privacy_loss**r, paid
    loss = "the loss" if r == 1 else f"the loss to the power {r}"
    return Found(
        f"An error of {digits(np.sqrt(K) / n)} a seller costs {digits(bought.payments.sum())}; they lose "
        f"{digits(bought.privacy_loss.sum())} of privacy in all, and no algorithm makes do with less than "
        f"{digits(float(least_total_loss(n, K)))}.",
        f"Contract M2, cost v times {loss}",
        [row(f"{one:.12g}", *numbers) for one, *numbers in zip(v, *columns, strict=True)],
    )


LAWS = {"0.5": "most of them cheap", "1": "uniform", "2": "most of them dear"}  # by the power of the distribution


def purchase(sellers: str, law: str, spread: str, gamma: str) -> Found:
    """The market that decides before it sees the data: sellers at the quantiles of a law of costs."""
    m, high = int(sellers), float(spread)
    costs_law = stats.uniform(1, high - 1) if law == "1" else stats.beta(float(law), 1, loc=1, scale=high - 1)
    costs = costs_law.ppf((np.arange(m) + 0.5) / m)
    bought = procurement_auction(costs, costs_law, 1.0, 1.0, float(gamma))
    epsilon, own = bought.privacy_loss, costs * bought.privacy_loss
    places = [math.floor(share * (m - 1) + 0.5) for share in (0, 0.1, 0.25, 0.5, 0.75, 0.9, 1)]
    return Found(
        f"{(epsilon > 0).sum()} of {m} sellers are bought, for {digits(bought.payments.sum())} in all; what they lose "
        f"costs them {digits(own.sum())}.",
        f"{m} sellers, costs from 1 to {spread}, {LAWS[law]}; money weighs {gamma}",
        [row(f"seller {i + 1}", costs[i], epsilon[i], own[i], bought.payments[i]) for i in places],
    )


SIZES = np.array([120.0, 80, 60, 40, 20, 10])
LIMITS, RATES = np.array([1, 1.5, 0.8, 2, 1.2, 1.8]), np.array([0.7, 0.35, 0.55, 0.45, 0.3, 0.65])


_weights = cache(menus.trained_weights)
RULES: dict[str, tuple[str, Callable[[Any, float], Outcome]]] = {
    "printed": ("All-in as printed", printed_for_bids),
    "repaired": ("All-in repaired", all_in),
    "posted": ("posted prices", posted_prices),
    "menus": ("learned menus", lambda reported, budget: menus.menus(reported, budget, _weights())),
}


def auction(rule: str, owner: str, factor: str, budget: str) -> Found:
    """Six owners bid, one of them a multiple of her valuation."""
    name, sell = RULES[rule]
    who = int(owner) - 1

    def gains(times: float) -> tuple[Outcome, Any]:
        told = RATES.copy()
        told[who] *= times
        sold = sell(bids("linear", told, LIMITS, SIZES), float(budget))
        return sold, sold.payments - 2 * RATES * sold.privacy_loss * SIZES

    (_, honest), (sold, found) = gains(1.0), gains(float(factor))
    gain = found[who] - honest[who]
    reported = 2 * SIZES * LIMITS * RATES * np.where(np.arange(6) == who, float(factor), 1.0)
    columns = reported, sold.privacy_loss, sold.payments, found
    change = f"{'gains' if gain > 0 else 'loses'} {digits(abs(gain))}"
    return Found(
        f"{name}: the report changes nothing for owner {owner}, who gains {digits(honest[who])}."
        if abs(gain) < 1e-9
        else f"{name}: owner {owner} {change} by reporting {factor} times her valuation.",
        f"{name}, budget {budget}",
        [row(f"owner {i + 1}", *numbers) for i, numbers in enumerate(zip(*columns, strict=True))],
    )


BUGS = {"none": 1.0, "tenth": 0.9, "half": 0.5, "third": 1 / 3}  # noise over the noise that the claim needs
DRAWS = np.random.default_rng(0).laplace(size=256)
NOISES = {"none": "as claimed", "tenth": "a tenth too small", "half": "half", "third": "a third"}
VIEWS = {"proved": "what the runs prove", "power": "how often the claim falls", "densities": "both densities"}


def audit(claim: str, bug: str, runs: str, alarms: str, view: str = "proved") -> Found:
    """What guesses prove of an answer of 0 or 1 with Laplace noise, and what its last digits give away.

    The script draws what `view` names; sentence and table are those of every view.
    """
    eps, level = float(claim), 1 / float(alarms)
    true = eps / BUGS[bug]
    share = (1 + np.exp(-true)) / 2  # of the runs in which a guess is made: the release is not between the two

    def proved(count: int) -> float:
        made = math.floor(share * count + 0.5)
        return max(0.0, float(bounds.guess_epsilon(made * expit(true), made, count, level)))

    def rejected(count: int) -> float:
        made = math.floor(share * count + 0.5)
        return bounds.power_of_guesses(true, 1.0, made, eps, level)

    betrayed = (~on_grid(DRAWS / true, 1.0)).sum()
    return Found(
        f"The release loses {digits(true)}, {digits(eps)} is claimed: {runs} runs prove {digits(proved(int(runs)))} "
        f"and reject the claim with probability {digits(rejected(int(runs)))}. "
        f"Its last digits alone give {betrayed} of {len(DRAWS)} releases of the answer 0 away.",
        f"By the number of runs, false alarms once in {alarms}",
        [row(str(count), proved(count), rejected(count)) for count in (100, 1000, 10_000, 100_000, 1_000_000)],
    )


# --- the explorers ---------------------------------------------------------------------------------------------------


def _same(values: str) -> dict[str, str]:
    return {value: value for value in values.split()}


def _network() -> dict[str, Any]:
    """Knots and weights of the learned menus."""
    weights = {name: np.asarray(part, dtype=np.float32) for name, part in _weights().items()}
    return {"knots": menus.KNOTS.tolist(), "weights": {name: _short(part) for name, part in weights.items()}}


def _short(weights: Any) -> Any:
    """Single-precision numbers in the fewest digits that give them back."""
    return [_short(part) for part in weights] if weights.ndim else float(str(weights))


EXPLORERS = {
    one.name: one
    for one in (
        Explorer(
            "ridge",
            "Ridge regression of three groups of people",
            ("method", "rate of the noise", "its mean length", "error by the penalty", "by the noise", "both"),
            (
                Choice("people", "People", "100", _same("100 1000 10000")),
                Choice("features", "Features", "3", _same("1 3 10")),
                Slider("strict", "Limit of the strict third (34 %)", "-1", (-2, 0.5), 0.1, log=True),
                Slider("middle", "Limit of the middle (43 %)", "-0.3", (-2, 0.5), 0.1, log=True),
                Slider("lax", "Limit of the others (23 %)", "0", (-2, 0.5), 0.1, log=True),
                Slider("penalty", "Penalty", "0.5", (-1, 3), 0.1, log=True),
            ),
            ridge_losses,
        ),
        Explorer(
            "contracts",
            "Sellers under contract",
            ("valuation", "share of her datum", "privacy loss", "her cost", "payment"),
            (
                Field("valuations", "Valuations of the sellers", "1, 2, 4, 8, 16"),
                Choice("power", "Cost grows with the loss", "1", {"1": "itself", "2": "squared", "3": "cubed"}),
                Choice("goal", "Given is", "error", {"error": "the error", "money": "the money"}),
                Slider("error", "Error a seller", "-0.6", (-1.7, -0.31), 0.01, log=True),
                Slider("money", "Money", "2", (-1, 4), 0.1, log=True),
            ),
            contract,
        ),
        Explorer(
            "logistic",
            "A market that decides before it sees the data",
            ("seller", "cost", "privacy loss", "her cost in all", "payment"),
            (
                Choice("sellers", "Sellers", "50", _same("10 50 100")),
                Choice("law", "Costs", "1", LAWS),
                Slider("spread", "Costs from 1 up to", "0.5", (0.1, 2), 0.1, log=True),
                Slider("gamma", "Weight of money against error", "-1", (-4, 1), 0.1, log=True),
            ),
            purchase,
        ),
        Explorer(
            "auction",
            "Six owners bid",
            ("owner", "valuation reported", "privacy loss sold", "payment", "gain"),
            (
                Choice("rule", "Auction", "printed", {name: words for name, (words, _) in RULES.items()}),
                Slider("budget", "Budget", "140", (20, 400), 5),
                Choice("owner", "Who may lie", "4", _same("1 2 3 4 5 6")),
                Slider("factor", "Her report over her valuation", "0.75", (0.05, 2.5), 0.05),
            ),
            auction,
            _network,
        ),
        Explorer(
            "privacy",
            "An answer with Laplace noise, audited",
            ("runs", "loss proved", "probability that the claim is rejected"),
            (
                Choice("claim", "Loss claimed", "1", _same("0.1 0.5 1 2")),
                Choice("bug", "Noise", "half", NOISES),
                Choice("runs", "Runs", "10000", _same("100 1000 10000 100000 1000000")),
                Choice("alarms", "False alarms once in", "1000", _same("20 1000 1000000")),
                Choice("view", "Show", "proved", VIEWS),
            ),
            audit,
            DRAWS.tolist,
        ),
    )
}  # fmt: skip


def show(name: str) -> Explorer:
    """The explorer of that name.

    Examples
    --------
    >>> show("auction").found.sentence
    'All-in as printed: owner 4 gains 35.7 by reporting 0.75 times her valuation.'
    """
    return EXPLORERS[name]
