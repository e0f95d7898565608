"""What the library says of a setting of each explorer, and the explorers themselves.

An explorer opens the first page of a paper, the front page, or a recipe:
``explorers.show("contracts")``. Some have a script with the same closed forms; the tests compare
the two. The functions take what a form holds, strings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats
from scipy.special import expit

from hdpm_book.contracts.study import least_total_loss
from hdpm_book.federated.allin import all_in_printed, printed_for_bids
from hdpm_book.logistic import study
from hdpm_book.play.forms import Choice, Explorer, Field, Found, Slider, digits, row
from hdpm_book.privacy.digits import on_grid
from hdpm_book.ridge import jorgensen
from hdpm_lib import noise
from hdpm_lib.auctions import menus
from hdpm_lib.auctions.allin import all_in, all_or_nothing
from hdpm_lib.auctions.bids import bids
from hdpm_lib.auctions.posted_prices import posted_prices
from hdpm_lib.audits import bounds
from hdpm_lib.designs.comparison import law_of
from hdpm_lib.designs.rules import Task
from hdpm_lib.learners import ridge
from hdpm_lib.markets.contracts import least_cost_contract
from hdpm_lib.markets.mechanisms import vcg_contract
from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.markets.procurement_auction import procurement_auction

Array = NDArray[np.float64]
GROUPS = np.array([0.34, 0.43, 0.23])  # of the ridge paper
PENALTIES = 10 ** (np.arange(81) / 20 - 2)


@cache
def _ridge_errors(d: int, lam: float, bound: Any) -> Array:
    """Return, for a total privacy loss of 1, the mean length of the noise, and the mean squared
    errors by the penalty and by the noise.
    """
    second = np.full((d, d), 1 / 4) + np.eye(d) / 12
    truth = np.full(d, 1 / d)
    rate = 1 / ridge.sensitivity_constant(lam, np.sqrt(d), bound)
    off = np.linalg.solve(second + lam * np.eye(d), second @ truth) - truth
    return np.array(
        [d / rate, off @ second @ off, np.trace(second) * noise.coordinate_variance(d, rate)]
    )


def ridge_losses(
    people: str, strict: str, middle: str, lax: str, penalty: str, features: str
) -> Found:
    """Return errors of ridge regressions: features are uniform on the unit cube, a label is the
    mean of its features.

    The penalty acts on the moments of the population, and what is drawn by lot is the number that
    is kept on average.
    """
    n = int(people)
    d = int(features)
    counts = np.rint(GROUPS * n).astype(int)
    limits = np.repeat([float(strict), float(middle), float(lax)], counts)
    most = limits.max()
    kept = jorgensen.inclusion_probabilities(limits, most).sum()
    totals = {
        "the strictest limit for all": len(limits) * limits.min(),
        "people drawn by lot": kept * most,
        "a limit for each": limits.sum(),
        "a limit for each, sharper bound": limits.sum(),
    }

    def errors(name: str, lam: float) -> Array:
        total = totals[name]
        bound = "sharp" if "sharper" in name else "paper"
        return _ridge_errors(d, lam, bound) / np.array([total, 1, total**2])

    found = {name: errors(name, float(penalty)) for name in totals}
    (_, bias, added), strictest = found["a limit for each"], found["the strictest limit for all"][2]
    by_penalty = [sum(errors("a limit for each", lam)[1:]) for lam in PENALTIES]
    sentence = (
        f"With a limit for each, predictions have a mean squared error of {digits(bias + added)}:"
        f" {digits(bias)} because of the penalty, {digits(added)} because of the noise. With the"
        f" strictest limit for all, the noise adds {digits(strictest)}. Without any data the answer"
        f" 0 for everybody has {digits(1 / 4 + 1 / (12 * d))}, the answer one half"
        f" {digits(1 / (12 * d))}; the best penalty,"
        f" {digits(PENALTIES[np.argmin(by_penalty)])}, has {digits(min(by_penalty))}."
    )
    setting = f"{people} people, penalty {penalty}, features: {features}"
    return Found(
        sentence=sentence,
        caption=f"Errors for labels from 0 to 1; {setting}",
        rows=tuple(row(name, *parts, sum(parts[1:])) for name, parts in found.items()),
    )


def contract(valuations: str, power: str, goal: str, error: str, money: str) -> Found:
    """Show mechanism M2 for an error, or for as little error as the money buys."""
    v = np.array(valuations.replace(",", " ").split(), dtype=float)
    r = int(power)
    n = len(v)
    ceiling = 2 * v.max()
    K = float(error) ** 2 * n**2
    if goal == "money":
        top = np.log(n**2 / 4)
        spent = lambda t: vcg_contract(v, np.exp(t), ceiling, power=r).payments.sum() - float(money)  # noqa: E731
        K = float(np.exp(optimize.brentq(spent, top - 18, top, xtol=1e-14)))
    bought = vcg_contract(v, K, ceiling, power=r)
    shares = least_cost_contract(v, K, power=r).shares
    paid = np.where(bought.privacy_loss > 0, bought.payments, 0.0)  # not the rounding that is left
    columns = shares, bought.privacy_loss, v * bought.privacy_loss**r, paid
    loss = "the loss" if r == 1 else f"the loss to the power {r}"
    sentence = (
        f"A mean of {n} numbers from 0 to 1 that is off by at most {digits(np.sqrt(K) / n)} (root"
        f" mean square, whatever the numbers are) costs the buyer {digits(bought.payments.sum())}"
        f" euros. The sellers lose {digits(bought.privacy_loss.sum())} of privacy in all; no"
        f" algorithm manages with less than {digits(float(least_total_loss(n, K)))}."
    )
    return Found(
        sentence=sentence,
        caption=f"Contract M2; a seller's cost in euros is her valuation times {loss}",
        rows=tuple(row(f"{one:.12g}", *numbers) for one, *numbers in zip(v, *columns, strict=True)),
    )


SELLERS = 50
# by the power of the distribution
LAWS = {"0.5": "most of them cheap", "1": "uniform", "2": "most of them dear"}


def purchase(law: str, spread: str, gamma: str) -> Found:
    """Return the market that decides before it sees the data: sellers at the quantiles of a law of
    costs.
    """
    high = float(spread)
    costs_law = (
        stats.uniform(1, high - 1)
        if law == "1"
        else stats.beta(float(law), 1, loc=1, scale=high - 1)
    )
    costs = costs_law.ppf((np.arange(SELLERS) + 0.5) / SELLERS)
    bought = procurement_auction(costs, costs_law, 1.0, 1.0, float(gamma))
    epsilon = bought.privacy_loss
    own = costs * bought.privacy_loss
    paid = bought.payments
    uneven = np.sqrt((bought.weights**2).sum())
    added = 1 / float(bought.eta)
    places = [
        math.floor(share * (SELLERS - 1) + 0.5) for share in (0, 0.1, 0.25, 0.5, 0.75, 0.9, 1)
    ]
    drawn = range(0, SELLERS, 3)
    sentence = (
        f"{(epsilon > 0).sum()} of {SELLERS} sellers are bought, for {digits(paid.sum())} "
        f"euros in all; what they lose costs them {digits(own.sum())} euros. The bound on the "
        f"error is {digits(uneven + added)}: {digits(uneven)} because few data count, "
        f"{digits(added)} because of the noise."
    )
    figure = {
        "x": "cost of a unit of privacy loss (euros)",
        "y": "euros",
        "alt": "Payment to each seller and her own cost, by what a unit of privacy loss "
        "costs her; no payment is below the cost.",
        "curves": [
            _curve(name, costs[drawn], euros[drawn])
            for name, euros in (("payment to her", paid), ("her cost", own))
        ],
    }
    unit = f"a unit of privacy loss costs them 1 to {spread} euros, {LAWS[law]}"
    return Found(
        sentence=sentence,
        caption=f"{SELLERS} sellers; {unit}",
        rows=tuple(row(f"seller {i + 1}", costs[i], epsilon[i], own[i], paid[i]) for i in places),
        figure=figure,
        says={"no payment is below the cost": bool((paid >= own - 1e-9 * paid.max()).all())},
    )


def _curve(name: str, x: Any, y: Any) -> dict[str, Any]:
    """Return a curve of a figure, in as many digits as one sees."""
    return {
        "name": name,
        "points": [[float(f"{a:.4g}"), float(f"{b:.3g}")] for a, b in zip(x, y, strict=True)],
    }


def _steps(name: str, x: Sequence[float], f: Callable[[float], float]) -> dict[str, Any]:
    """Return a curve of a function that is constant but for jumps: it ends where one is, and begins
    anew on the next level.
    """
    points: list[list[float] | None] = []
    for low, high in pairwise(x):
        points.append([low, f(low)])
        if f(low) != f(high):
            left, right = float(low), float(high)
            for _ in range(20):
                middle = (left + right) / 2
                left, right = (middle, right) if f(middle) == f(low) else (left, middle)
            place = float(f"{right:.4g}")
            points += [[place, f(low)], None, [place, f(high)]]
    points.append([x[-1], f(x[-1])])
    shown = [point and [point[0], float(f"{point[1]:.3g}")] for point in points]
    return {"name": name, "points": shown}


SIZES = np.array([120.0, 80, 60, 40, 20, 10])
LIMITS = np.array([1, 1.5, 0.8, 2, 1.2, 1.8])
RATES = np.array([0.7, 0.35, 0.55, 0.45, 0.3, 0.65])
VALUATIONS = 2 * SIZES * LIMITS * RATES


_weights = cache(menus.trained_weights)
RULES: dict[str, tuple[str, Callable[[Any, float], Outcome]]] = {
    "printed": ("All-in as printed", printed_for_bids),
    "repaired": ("All-in repaired", all_in),
    "posted": ("posted prices", posted_prices),
    "menus": ("learned menus", lambda reported, budget: menus.menus(reported, budget, _weights())),
}


def _ends_with(rule: str, who: int, factor: float, budget: float) -> tuple[Outcome, Any]:
    """Return the sale, and the payments less what the losses cost their owners, if one reports a
    multiple of her valuation.
    """
    told = np.where(np.arange(6) == who, factor, 1.0) * RATES
    sold = RULES[rule][1](bids("linear", told, LIMITS, SIZES), budget)
    return sold, sold.payments - 2 * RATES * sold.privacy_loss * SIZES


def auction(rule: str, budget: str, owner: str, factor: str) -> Found:
    """Let six owners bid, one of them a multiple of her valuation."""
    name = RULES[rule][0]
    who = int(owner) - 1
    reported = VALUATIONS * np.where(np.arange(6) == who, float(factor), 1.0)
    (_, honest), (sold, ends) = (
        _ends_with(rule, who, times, float(budget)) for times in (1.0, float(factor))
    )
    gain = ends[who] - honest[who]
    if abs(gain) < 1e-9:
        change = "gains and loses nothing"
    else:
        change = f"{'gains' if gain > 0 else 'loses'} {digits(abs(gain))}"
    columns = reported, sold.privacy_loss, sold.payments, ends
    sentence = (
        f"{name}: the data of owner {owner} are worth {digits(VALUATIONS[who])} euros to her. She"
        f" says {digits(reported[who])} and ends with {digits(ends[who])}; the truth would leave"
        " her with "
        + (
            f"{digits(honest[who])}, too."
            if float(factor) == 1
            else f"{digits(honest[who])}: the lie {change}."
        )
    )
    rows = tuple(
        row(f"owner {i + 1}", *numbers) for i, numbers in enumerate(zip(*columns, strict=True))
    )
    return Found(sentence=sentence, caption=f"{name}, budget {budget} euros", rows=rows)


# whose data are worth 72 to her
LIAR = 3
BUDGET = 140.0
SAID = range(20, 121, 2)


@cache
def _lie(rule: str, said: float) -> tuple[float, float]:
    """Return what she is paid and what she ends with."""
    sold, ends = _ends_with(rule, LIAR, said / VALUATIONS[LIAR], BUDGET)
    return float(sold.payments[LIAR]), float(ends[LIAR])


def _gain(rule: str, said: float) -> float:
    return _lie(rule, said)[1]


def lie(said: str) -> Found:
    """Show the same market at one budget: what owner 4 says, and how she ends in All-in as printed
    and as repaired.
    """
    worth = round(VALUATIONS[LIAR])
    gains = {rule: [_gain(rule, s) for s in SAID] for rule in ("printed", "repaired")}
    truth = SAID.index(worth)

    def told(rule: str) -> str:
        paid, ends = _lie(rule, int(said))
        if not paid:
            return "buys nothing from her"
        change = (
            f"{'gains' if ends > 0 else 'loses'} {digits(abs(ends))}"
            if abs(ends) > 1e-9
            else "gains nothing"
        )
        return f"pays her {digits(paid)} euros: she {change}"

    sentence = (
        f"If she says {said}{', the truth' * (int(said) == worth)}, the auction as printed "
        f"{told('printed')}. "
        f"Repaired, it {told('repaired')}."
    )
    figure = {
        "x": f"what she says (euros); the truth is {worth}",
        "y": "what she gains (euros)",
        "mark": [worth, "truth"],
        "alt": f"What she gains by what she says; her data are worth {worth} euros to "
        "her. As printed some lower report is better than the truth; repaired, nothing is.",
        "curves": [
            _steps(words, SAID, partial(_gain, rule))
            for rule, words in (("printed", "as printed"), ("repaired", "repaired"))
        ],
    }
    says = {
        "As printed some lower report is better than the truth": max(gains["printed"][:truth])
        > gains["printed"][truth] + 1,
        "repaired, nothing is": max(gains["repaired"]) <= gains["repaired"][truth] + 1e-9,
    }
    return Found(sentence=sentence, figure=figure, at=int(said), says=says)


# noise over the noise that the claim needs
BUGS = {"none": 1.0, "tenth": 0.9, "half": 0.5, "third": 1 / 3}
DRAWS = np.random.default_rng(0).laplace(size=256)
NOISES = {"none": "as claimed", "tenth": "a tenth too small", "half": "half", "third": "a third"}
RUNS = 10 ** (np.arange(21) / 5 + 2)


@cache
def _audited(eps: float, bug: str, level: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the loss proved by numbers of runs, and the probability that they reject the claim."""
    true = eps / BUGS[bug]
    # of the runs in which a guess is made: the release is not between the two
    share = (1 + np.exp(-true)) / 2
    counts = np.floor(RUNS + 0.5)
    made = np.floor(share * counts + 0.5)
    proved = [
        bounds.guess_epsilon(k * expit(true), k, n, level)
        for k, n in zip(made, counts, strict=True)
    ]
    rejected = [bounds.power_of_guesses(true, 1.0, int(k), eps, level) for k in made]
    return tuple(max(0.0, float(one)) for one in proved), tuple(map(float, rejected))


def audit(claim: str, bug: str, runs: str, alarms: str) -> Found:
    """Return what guesses prove of an answer of 0 or 1 with Laplace noise, and what its last digits
    give away.
    """
    eps = float(claim)
    true = eps / BUGS[bug]
    proved, rejected = _audited(eps, bug, 1 / float(alarms))
    table = {f"{RUNS[i]:.0f}": (proved[i], rejected[i]) for i in range(0, len(RUNS), 5)}
    betrayed = (~on_grid(DRAWS / true, 1.0)).sum()
    flat = RUNS[[0, -1]]
    sentence = (
        f"The release loses {digits(true)}, {digits(eps)} is claimed: {runs} runs prove "
        f"{digits(table[runs][0])} and reject the claim with probability {digits(table[runs][1])}. "
        f"Noise in floats betrays more: of {len(DRAWS)} releases of the answer 0, {betrayed} end "
        "in digits that no release of the answer 1 can have."
    )
    figure = {
        "x": "runs",
        "y": "privacy loss",
        "log": "x",
        "alt": "The loss that the runs prove never falls with their number and stays below "
        "the true loss; this and the loss claimed are level lines.",
        "curves": [
            _curve("proved by the runs", RUNS, proved),
            _curve("true loss", flat, [true, true]),
            _curve("loss claimed", flat, [eps, eps]),
        ],
    }
    says = {
        "never falls with their number": bool((np.diff(proved) >= 0).all()),
        "stays below the true loss": max(proved) < true,
    }
    return Found(
        sentence=sentence,
        caption=f"By the number of runs, false alarms once in {alarms}",
        rows=tuple(row(count, *numbers) for count, numbers in table.items()),
        figure=figure,
        at=int(runs),
        says=says,
    )


COSTS = {  # of a unit of privacy loss, in euros: shares of people, and the ends of their intervals
    "even": ("1 to 5 euros, evenly", ([1.0], [1.0, 5.0])),
    "groups": ("half 1 to 2, half 5 to 10 euros", ([0.5, 0.0, 0.5], [1.0, 2.0, 5.0, 10.0])),
    "few": ("most 1 to 2, one in five up to 20", ([0.8, 0.2], [1.0, 2.0, 20.0])),
    "log": (
        "log-normal, half below 2, up to 44",
        (
            [0.05] * 20,
            stats.lognorm(1, scale=2).ppf(np.linspace(0.001, 0.999, 21)).round(2).tolist(),
        ),
    ),
}
ANSWERS = {  # between 0 and 1, with the variance that the plan supposes
    "spread": ("spread over a scale", Task()),
    "yes": ("yes or no", Task(variance=1 / 4)),
}
PASTED = "2, 1.5, 4, 1, 3, 8, 2.5, 1.2, 2, 5, 1.8, 3.5"


def _plan(budget: float, quotes: Array, task: Task) -> tuple[int, float, float, float]:
    """Return people taken, the loss asked of each, and the errors of sampling and of the noise.

    With `k` people taken, the largest loss that the money covers is best, and the payments are
    those of one posted price: each gets the `k`-th part of the money. What is left to choose is
    `k`.
    """
    k = np.arange(1, len(quotes) + 1)
    squares = task.variance / k + task.noise * (quotes / budget) ** 2
    last = np.argmax(squares <= squares.min() * (1 + 1e-12))  # the first of a tie
    loss = budget / (k[last] * quotes[last])
    sale = all_or_nothing(loss * quotes, np.full(len(quotes), loss), budget * (1 + 1e-12))
    taken = (sale.privacy_loss > 0).sum()
    noise = np.sqrt(task.noise) / sale.privacy_loss.sum()
    return int(taken), float(loss), np.sqrt(task.variance / taken), float(noise)


def survey(money: str, people: str, answers: str, costs: str, pasted: str) -> Found:
    """Return the plan of All-in, repaired, for people at the quantiles of a law of costs: one loss
    for all who are taken.
    """
    n = int(people)
    budget = float(money)
    if costs == "pasted":
        law = law_of(np.array(pasted.replace(",", " ").split(), dtype=float))
    else:
        shares, ends = COSTS[costs][1]
        law = stats.rv_histogram((np.array(shares), np.array(ends)), density=False)
    quotes = law.ppf((np.arange(n) + 0.5) / n)
    task = ANSWERS[answers][1]
    taken, loss, sampling, added = _plan(budget, quotes, task)
    half, error, twice = (np.hypot(*_plan(part * budget, quotes, task)[2:]) for part in (0.5, 1, 2))
    everybody = np.sqrt(task.variance / n)
    guess = np.sqrt(Task().distance)
    odds = (
        f"the odds about one answer change {digits(np.exp(loss))}-fold at most"
        if loss < 10
        else "that protects nobody"
    )
    verdict = (
        f"That is no better than the guess 0.5 without any data, {digits(guess)}."
        if error > guess
        else f"Half the money would make it {digits(half)}, twice the money {digits(twice)}."
    )
    who = f"all {taken}" if taken == n else f"the {taken} who ask least"
    sentence = (
        f"Ask all {people} people what a privacy loss of {digits(loss)} would cost them ({odds})."
        f" When all have named a price, expect to take {who}, and to pay each"
        f" {digits(budget / taken)} euros."
        f" The mean is then off by {digits(error)} on a scale from 0 to 1 (root mean square)."
        f" {verdict}"
    )
    rows = (
        ("this plan", f"{taken}", *map(digits, (sampling, added, error))),
        ("the same people without noise", f"{taken}", *map(digits, (sampling, 0, sampling))),
        ("all people without noise", people, *map(digits, (everybody, 0, everybody))),
    )
    return Found(
        sentence=sentence,
        caption=f"{people} people, {money} euros; errors are root mean squares",
        rows=rows,
    )


# --- what is watched ----------------------------------------------------------------------------

STUDENTS = 60
COINS = np.random.default_rng(4).integers(0, 2, (STUDENTS, 2)).astype(bool)  # heads
ORDER = np.random.default_rng(5).permutation(STUDENTS)


def coins(cheats: str, students: str) -> Found:
    """Let students toss two coins each: heads on the first, and she tells the truth, else the
    second coin answers.
    """
    asked = int(students)
    cheated = int(cheats) > ORDER
    truthful, second = COINS.T
    yes = np.where(truthful, cheated, second)
    dots: dict[tuple[bool, bool], list[list[float]]] = {}
    height = {True: 0, False: 0}
    for k, (heard, told) in enumerate(zip(yes, truthful, strict=True)):
        place = height[bool(heard)]
        height[bool(heard)] += 1
        x = (0 if heard else 1) + 0.12 * (place % 4) - 0.18
        dots.setdefault((bool(heard), bool(told)), []).append([round(x, 2), place // 4 + 1, k + 1])
    said = int(yes[:asked].sum())
    share = 2 * said / max(asked, 1) - 0.5
    # by the coins an answer has the variance 3/16, and the share is doubled
    spread = np.sqrt(4 * 3 / 16 / max(asked, 1))
    names = {
        (True, True): "yes, the truth",
        (True, False): "yes, by the coin",
        (False, True): "no, the truth",
        (False, False): "no, by the coin",
    }
    sentence = (
        f"{said} of {asked} say yes: {digits(100 * said / asked)} %. Twice this, less 50 %, is the "
        f"estimated share of cheats: {digits(100 * share)} %, with a standard error of "
        f"{digits(100 * spread)} points by the coins. In truth {int(cheats)} of {STUDENTS} cheated."
        if asked
        else "Nobody has been asked yet."
    )
    figure = {
        "x": "what is heard",
        "names": {"0": "yes", "1": "no"},
        "y": "rows of four students",
        "range": [0, 1 + max(len(part) for part in dots.values()) / 2],
        "across": [-0.4, 1.6],
        "alt": "A dot for each student, in one pile for yes and one for no; colours tell who "
        "told the truth, which only the students know.",
        "curves": [{"name": names[key], "dots": dots.get(key, [])} for key in names],
    }
    says = {
        "A dot for each student, in one pile for yes and one for no": (
            sum(len(part) for part in dots.values()) == STUDENTS
            and {heard for heard, _ in dots} == {True, False}
        )
    }
    return Found(sentence=sentence, figure=figure, at=asked, says=says)


RESPONDENTS = 200
ANSWER = 0.6  # their mean without noise


def noisy(loss: str, draws: str) -> Found:
    """Show the same mean, released again and again with Laplace noise for a loss each."""
    count = int(draws)
    scale = 1 / (RESPONDENTS * float(loss))
    released = ANSWER + scale * np.random.default_rng(6).laplace(size=100)
    seen = released[:count]
    height: dict[int, int] = {}
    dots = []
    for k, value in enumerate(released):
        cell = int(np.floor((value - ANSWER) / (scale / 2) + 0.5))
        height[cell] = height.get(cell, 0) + 1
        dots.append([float(f"{ANSWER + cell * scale / 2:.4g}"), height[cell], k + 1])
    off = np.abs(seen - ANSWER)
    sentence = (
        f"Releases: {count}, off by {digits(float(np.median(off)))} in the median and by "
        f"{digits(off.max())} at most. Together they cost a loss of {digits(count * float(loss))}, "
        f"and their mean is off by {digits(abs(seen.mean() - ANSWER))}."
    )
    figure = {
        "x": f"released mean of {RESPONDENTS} answers",
        "y": "releases",
        "mark": [ANSWER, "answer"],
        "across": [ANSWER - 8 * scale, ANSWER + 8 * scale],
        "range": [0, max(height.values()) + 1],
        "alt": "A dot for each release, piled up around the answer without noise, which a line "
        "marks.",
        "curves": [{"name": f"a release at a loss of {float(loss):g}", "dots": dots}],
    }
    says = {
        "A dot for each release": len(dots) == len(released),
        "piled up around the answer without noise": bool(
            np.abs(np.median(released) - ANSWER) < scale / 2
        ),
    }
    return Found(sentence=sentence, figure=figure, at=count, says=says)


ARRIVALS = 60
FIRST_COSTS = np.random.default_rng(7).uniform(0, 4, ARRIVALS)  # for which psi is twice the cost


def arrivals(sellers: str) -> Found:
    """Let sellers come one by one, and answer each at once by the fixed menu of Algorithm 3."""
    m = ARRIVALS
    come = int(sellers)
    gamma = 0.05
    density = m / 8  # m times the density of the virtual costs at 0
    level = (gamma / density) ** 0.5
    below = np.maximum(level / gamma - 2 * FIRST_COSTS, 0)  # under the cutoff
    slope = 2 * 3**0.5 * gamma**2.5 / (density**1.5 * level**3.5)
    loss = slope * below
    paid = FIRST_COSTS * loss + slope * below**2 / 4
    cutoff = level / gamma
    bought = loss > 0
    offline = procurement_auction(FIRST_COSTS, stats.uniform(0, 4), 1.0, 1.0, gamma)

    def proxy(epsilon: Array) -> float:
        total = epsilon.sum()
        return float(
            np.sqrt(epsilon @ epsilon) / total + 1 / total + gamma * 2 * FIRST_COSTS @ epsilon
        )

    dots = [
        [[k + 1, float(f"{FIRST_COSTS[k]:.3g}"), k + 1] for k in range(m) if bought[k] == taken]
        for taken in (True, False)
    ]
    now = (
        f"buys a loss of {digits(loss[come - 1])} for {digits(paid[come - 1])} euros"
        if come and bought[come - 1]
        else "buys nothing"
    )
    said = (
        f"Seller {come} asks {digits(FIRST_COSTS[come - 1])} euros a unit: the menu {now}, "
        "whoever comes later. "
        if come
        else "Nobody has come yet; the menu is fixed. "
    )
    after = (
        f"When all {m} have come, {int(bought.sum())} have sold. The proxy loss is "
        f"{digits(proxy(loss))}; a buyer who waits for all has "
        f"{digits(proxy(offline.privacy_loss))}."
    )
    figure = {
        "x": "sellers in the order in which they come",
        "y": "cost of a unit (euros)",
        "across": [0, m + 1],
        "range": [0, 4],
        "alt": "A dot for each seller who has come, by what she asks; those below the cutoff, "
        "a level line, sell.",
        "curves": [
            {"name": "sells", "dots": dots[0]},
            {"name": "does not", "dots": dots[1]},
            _curve("cutoff", [0, m + 1], [cutoff / 2, cutoff / 2]),
        ],
    }
    says = {
        "those below the cutoff, a level line, sell": bool(
            ((cutoff / 2 > FIRST_COSTS) == bought).all()
        )
    }
    return Found(sentence=said + after, figure=figure, at=come, says=says)


FLIPS = [round(-1 + 0.1 * k, 1) for k in range(21)]


@cache
def _valley(record: float) -> tuple[Array, Array, float, float]:
    """Return G and its hull where they are drawn, and the ends of the widest chord."""
    law = study.joint_law((-1.0, -1.0, record), squared=True)
    hull = np.interp(study.POINTS, study.POINTS[law.hull], law.G[law.hull])
    thin = np.searchsorted(study.POINTS, np.linspace(-2, 2, 41))
    ends = study.POINTS[law.hull]
    k = np.diff(ends).argmax()
    return law.G[thin], hull[thin], float(ends[k]), float(ends[k + 1])


def valley(record: str) -> Found:
    """Return the joint objective of three sellers while the record of the third goes from one label
    to the other.
    """
    G, hull, low, high = _valley(float(record))
    x = np.linspace(-2, 2, 41)
    chord = high - low > 0.05
    where = (
        f"Between {digits(low)} and {digits(high)} the hull is a chord below the objective: no "
        "noise ever leads there."
        if chord
        else "The objective is its own hull: noise can lead to every coefficient."
    )
    label = {-1.0: ", as before the flip", 1.0: ", as after it"}.get(float(record), "")
    figure = {
        "x": "coefficient w",
        "y": "objective without noise, G",
        "range": [0.4, 2.2],
        "alt": "The joint objective at its best weights against the coefficient, and its "
        "convex hull, which is nowhere above it.",
        "curves": [_curve("G", x, G), _curve("its convex hull", x, hull)],
    }
    return Found(
        sentence=f"Seller 3 has the record {float(record):g}{label}. {where}",
        figure=figure,
        says={"is nowhere above it": bool((hull <= G + 1e-9).all())},
    )


def covered(rule: str, budget: str, said: str) -> Found:
    """Show All-in with a stop: bars of owners in the order of what they ask for a unit, under what
    the money covers.
    """
    money = float(budget)
    amounts = SIZES * LIMITS
    told = np.where(np.arange(6) == LIAR, float(said), VALUATIONS)
    if rule == "printed":
        sale = all_in_printed(told, amounts, money, stop=True)
    else:
        sale = all_or_nothing(told, amounts, money)
    wins = sale.privacy_loss > 0
    paid = sale.payments * (1 + 1e-12)  # before they are rounded down to the budget
    order = np.argsort(told / amounts, kind="stable")
    ends = float(paid[LIAR]) - VALUATIONS[LIAR] * wins[LIAR]
    names = ", ".join(f"{i + 1}" for i in order if wins[i])
    gain = f"she ends with {digits(ends)}" if wins[LIAR] else "she sells nothing"
    sentence = (
        f"{'As printed' if rule == 'printed' else 'Repaired'}, {budget} euros buy from owners "
        f"{names}. Owner 4, to whom hers are worth {VALUATIONS[LIAR]:.0f}, asks {said}: {gain}."
    )
    return Found(
        sentence=sentence,
        caption=f"Owners in the order of what they ask for a unit, budget {budget} euros",
        rows=tuple(row(f"owner {i + 1}", told[i] / amounts[i], amounts[i], paid[i]) for i in order),
    )


# --- the explorers ------------------------------------------------------------------------------


def _same(values: str) -> dict[str, str]:
    return {value: value for value in values.split()}


def _network() -> dict[str, Any]:
    """Return knots and weights of the learned menus."""
    weights = {name: np.asarray(part, dtype=np.float32) for name, part in _weights().items()}
    return {
        "knots": menus.KNOTS.tolist(),
        "weights": {name: _short(part) for name, part in weights.items()},
    }


def _short(weights: Any) -> Any:
    """Return single-precision numbers in the fewest digits that give them back."""
    return [_short(part) for part in weights] if weights.ndim else float(str(weights))


def _knots() -> dict[str, Any]:
    """Return the laws of costs by their quantiles: probabilities, and costs."""
    return {
        name: [np.cumsum([0, *shares]).tolist(), ends]
        for name, (_, (shares, ends)) in COSTS.items()
    }


EXPLORERS = {
    one.name: one
    for one in (
        Explorer(
            "ridge",
            "Ridge regression of three groups of people",
            (
                "method",
                "mean length of the noise",
                "error: of the penalty",
                "of the noise",
                "in all",
            ),
            (
                Choice("people", "People", "100", _same("100 1000 10000")),
                Slider(
                    "strict", "Limit of the strict third (34 %)", "-1", (-2, 0.5), 0.1, log=True
                ),
                Slider("middle", "Limit of the middle (43 %)", "-0.3", (-2, 0.5), 0.1, log=True),
                Slider("lax", "Limit of the others (23 %)", "0", (-2, 0.5), 0.1, log=True),
                Slider("penalty", "Penalty", "0.5", (-2, 2), 0.1, log=True),
                Choice("features", "Features", "3", _same("1 3 10")),
            ),
            ridge_losses,
            {
                "a strict third": "",
                "all alike": "strict=-0.3&lax=-0.3",
                "a third far stricter": "strict=-2",
                "a hundred times as many people": "people=10000",
            },
            script="ridge",
        ),
        Explorer(
            "contracts",
            "Sellers under contract",
            (
                "valuation",
                "share of her number",
                "privacy loss",
                "her cost (euros)",
                "payment (euros)",
            ),
            (
                Field("valuations", "Valuations of the sellers (euros)", "1, 2, 4, 8, 16"),
                Choice(
                    "power",
                    "A seller's cost is her valuation times",
                    "1",
                    {"1": "the loss", "2": "the loss squared", "3": "the loss cubed"},
                ),
                Choice("goal", "You fix", "error", {"error": "the error", "money": "the money"}),
                Slider(
                    "error",
                    "Error of the mean",
                    "-0.6",
                    (-1.7, -0.31),
                    0.01,
                    log=True,
                    when="goal=error",
                ),
                Slider("money", "Money (euros)", "2", (-1, 4), 0.1, log=True, when="goal=money"),
            ),
            contract,
            {
                "five sellers": "",
                "one dear seller": "valuations=1, 1, 1, 1, 50",
                "a small error": "error=-1.5",
                "ten euros to spend": "goal=money&money=1",
            },
            script="contracts",
        ),
        Explorer(
            "logistic",
            "A market that decides before it sees the data",
            (
                "seller",
                "cost of a unit (euros)",
                "privacy loss",
                "her cost in all (euros)",
                "payment (euros)",
            ),
            (
                Choice("law", "Costs", "1", LAWS),
                Choice("spread", "Costs from 1 up to (euros)", "3", _same("3 10 100")),
                Slider("gamma", "Weight of a euro against error", "-1", (-4, 1), 0.5, log=True),
            ),
            purchase,
            {
                "costs from 1 to 3 euros": "",
                "error counts more": "gamma=-3",
                "money counts more": "gamma=0",
                "most are dear": "law=2&spread=10",
            },
        ),
        Explorer(
            "auction",
            "Six owners bid",
            (
                "owner",
                "valuation reported (euros)",
                "privacy loss sold",
                "payment (euros)",
                "she ends with (euros)",
            ),
            (
                Choice(
                    "rule",
                    "Auction",
                    "printed",
                    {name: words for name, (words, _) in RULES.items()},
                ),
                Slider("budget", "Budget (euros)", "140", (20, 400), 5),
                Choice("owner", "Who may lie", "4", _same("1 2 3 4 5 6")),
                Slider("factor", "Her report, times the truth", "0.75", (0.05, 2.5), 0.05),
            ),
            auction,
            {
                "a lie that pays": "",
                "the same lie, repaired": "rule=repaired",
                "asking too much": "owner=2&factor=1.5",
                "posted prices": "rule=posted",
                "learned menus": "rule=menus",
            },
            script="auction",
            data=_network,
        ),
        Explorer(
            "lie",
            "What should she say?",
            (),
            (
                Slider(
                    "said",
                    "Six people sell data. To one of them, hers are worth 72 euros: she says so."
                    " Find her a better answer.",
                    "72",
                    (SAID[0], SAID[-1]),
                    2,
                ),
            ),
            lie,
            depth=1,
        ),
        Explorer(
            "coins",
            "Sixty students and their coins",
            (),
            (
                Choice(
                    "cheats",
                    "Cheats among them",
                    "20",
                    {n: f"{n} of {STUDENTS}" for n in ("10", "20", "40")},
                ),
                Slider("students", "Students asked", "60", (0, STUDENTS), 1, play=True),
            ),
            coins,
        ),
        Explorer(
            "noisy",
            "One answer, released again and again",
            (),
            (
                Choice("loss", "Privacy loss of a release", "0.1", _same("0.02 0.1 0.5")),
                Slider("draws", "Releases", "1", (1, 100), 1, play=True),
            ),
            noisy,
            {"once": "", "ten times": "draws=10", "a hundred times": "draws=100"},
        ),
        Explorer(
            "arrivals",
            "Sellers who come one by one",
            (),
            (Slider("sellers", "Sellers who have come", "60", (0, ARRIVALS), 1, play=True),),
            arrivals,
        ),
        Explorer(
            "valley",
            "The joint objective while a label flips",
            (),
            (Slider("record", "Record of seller 3", "-1", (-1, 1), 0.1, play=True),),
            valley,
        ),
        Explorer(
            "covered",
            "All-in, owner by owner",
            ("owner", "asks for a unit (euros)", "units", "payment (euros)"),
            (
                Choice(
                    "rule", "All-in", "printed", {"printed": "as printed", "repaired": "repaired"}
                ),
                Slider("budget", "Budget (euros)", "140", (130, 400), 5),
                Slider("said", "What owner 4 asks for all (euros)", "72", (20, 120), 2),
            ),
            covered,
            {
                "the truth": "",
                "a lie that pays": "said=54",
                "the same lie, repaired": "said=54&rule=repaired",
                "more money": "budget=300",
            },
            script="auction",
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
            ),
            audit,
            {
                "half the noise": "",
                "an honest release": "bug=none",
                "a small fault": "bug=tenth",
                "a small fault, more runs": "bug=tenth&runs=100000",
            },
        ),
        Explorer(
            "survey",
            "A survey within a budget",
            ("plan", "people taken", "error: of sampling", "of the noise", "in all"),
            (
                Field("money", "Money (euros)", "100", keys="decimal"),
                Field("people", "People to ask", "200", keys="numeric"),
                Choice(
                    "answers",
                    "Their answers",
                    "spread",
                    {name: words for name, (words, _) in ANSWERS.items()},
                ),
                Choice(
                    "costs",
                    "A unit of privacy loss costs them",
                    "even",
                    {name: words for name, (words, _) in COSTS.items()} | {"pasted": "as pasted"},
                ),
                Field("pasted", "Costs that people quoted (euros)", PASTED, when="costs=pasted"),
            ),
            survey,
            {
                "200 people, 100 euros": "",
                "a class": "money=50&people=30",
                "a panel": "money=5000&people=2000",
                "costs from others": "costs=pasted",
            },
            script="survey",
            data=_knots,
        ),
    )
}


def show(name: str) -> Explorer:
    """Return the explorer of that name.

    Examples
    --------
    >>> show("lie").find("54").sentence[:74]
    'If she says 54, the auction as printed pays her 108 euros: she gains 35.7.'
    """
    return EXPLORERS[name]
