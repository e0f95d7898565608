"""What the page :doc:`/book/beyond/curves` runs: the master curves, drawn markets, random laws, other randomisers.

Losses are in units of the loss at which noise and record are equally spread, money in that loss times the smallest
cost, as in :mod:`hdpm_book.beyond.master_curves`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize

from hdpm_book.beyond.master_curves import auction_curve, cheapest_records, local_curve, posted_curve
from hdpm_lib.markets.local_menu import local_menu

Array = NDArray[np.float64]
SPREADS = (1.5, 2.0, 5.0, 20.0, 1000.0)
_LOG_LOSSES = np.linspace(0, np.log(1e6), 40_000)
_LOG_SLOPES = np.log(2) + _LOG_LOSSES - 2 * np.log1p(np.exp(2 * _LOG_LOSSES))  # of the information of a local report


def _sold(ratio: Array) -> Array:
    """The loss at which one more unit of it brings `ratio` records, by a table; nothing above 1/2."""
    found = np.exp(np.interp(-np.log(ratio), -_LOG_SLOPES, _LOG_LOSSES))
    return np.where(ratio <= 0.5, found, 0.0)


def _information(epsilon: Array) -> Array:
    """Effective records of local reports with Laplace noise."""
    return epsilon**2 / (1 + epsilon**2)


# --- the curves -------------------------------------------------------------------------------------------------------


def master(h: float = 5.0, points: int = 61) -> tuple[Array, dict[str, Array]]:
    """Sellers per record wanted, from 1.05 to 1000, and the four curves."""
    sellers = np.geomspace(1.05, 1000, points)
    found = {
        "costs known": auction_curve(1 / sellers, h, known=True),
        "optimal auction": auction_curve(1 / sellers, h),
        "one posted price": posted_curve(1 / sellers, h),
        "local menu (over N)": local_curve(1 / sellers, h),
    }
    return sellers, {name: curve.payment for name, curve in found.items()}


def at_some_markets(h: float = 5.0) -> pd.DataFrame:
    """The curves at six sizes of the market, and what the auction buys."""
    sellers = np.array([1.5, 10 / 3, 10, 100 / 3, 100, 1000])
    auction = auction_curve(1 / sellers, h)
    columns = {
        "costs known": auction_curve(1 / sellers, h, known=True).payment,
        "auction": auction.payment,
        "posted price": posted_curve(1 / sellers, h).payment,
        "local, over N": local_curve(1 / sellers, h).payment,
    }
    table = pd.DataFrame(columns, index=[f"{k:.4g}" for k in sellers]).map("{:.4f}".format)
    table["share bought"] = [f"{share:.0%}" for share in auction.bought]
    table["rents"] = [f"{share:.0%}" for share in auction.rents]
    return table.rename_axis("n / N")


@dataclass(frozen=True)
class Drawn:
    """Closed forms against means over drawn markets."""

    table: pd.DataFrame
    compared: int
    worst: float
    """Largest difference, in standard errors."""


def drawn(h: float = 5.0) -> Drawn:
    """Costs drawn; each market buys N records exactly, but the local one, whose menu is posted before the draw."""
    rows, scores = {}, []
    for n, N, draws in ((300, 100, 400), (1000, 100, 400), (1000, 600, 400), (3000, 300, 150)):
        costs = 1 + (h - 1) * np.random.default_rng([1, n, N]).random((draws, n))
        auction = cheapest_records(2 * costs - 1, N)
        plan = posted_curve(N / n, h)
        k = round(float(plan.bought) * n)
        price = np.partition(costs, k, axis=1)[:, k] if k < n else np.full(draws, h)  # the first who is not bought
        menu = local_curve(N / n, h)
        samples = {
            "auction": (auction.payment, float(auction_curve(N / n, h).payment) * np.sqrt(N)),
            "sellers bought": ((auction.privacy_loss > 0).sum(1), float(auction_curve(N / n, h).bought) * n),
            "costs known": (
                cheapest_records(costs, N).payment,
                float(auction_curve(N / n, h, known=True).payment) * np.sqrt(N),
            ),
            "posted price": (price / np.sqrt(1 / N - 1 / k), float(plan.payment) * np.sqrt(N)),
        }
        if menu.bought < 1:
            worth = 2 * (1 + 2 * (h - 1) * float(menu.bought))
            epsilon = local_menu(2 * costs - 1, 1.0, 1.0, worth).privacy_loss
            paid = (worth * _information(epsilon) + epsilon) / 2  # the menu's price list
            samples["local menu"] = (paid.sum(1), float(menu.payment) * N)
            samples["local records"] = (_information(epsilon).sum(1), float(N))
        row = {}
        for name, (sample, theory) in samples.items():
            error = sample.std(ddof=1) / np.sqrt(draws)
            if error > 0:
                scores.append((sample.mean() - theory) / error)
            row[name] = f"{sample.mean():.2f} ({error:.2f}) / {theory:.2f}"
        rows[f"{n}, {N}, {draws}"] = row
    return Drawn(pd.DataFrame(rows).fillna("everybody sells"), len(scores), float(np.abs(scores).max()))


@dataclass(frozen=True)
class Revenue:
    """Payments that make the truth a best report, against virtual costs."""

    paid: float
    error: float
    gap: float
    """Difference of the two means, in standard errors."""
    curve: float


def revenue(n: int = 60, N: int = 6, draws: int = 3000, h: float = 5.0) -> Revenue:
    """Pay each seller her cost and half of what her presence saves in virtual costs: the envelope payment."""
    costs = 1 + (h - 1) * np.random.default_rng(2).random((draws, n))
    psi, paid = 2 * costs - 1, np.empty(draws)
    found = cheapest_records(psi, N)
    for draw in range(draws):
        away = np.where(np.eye(n, dtype=bool), 2 * h - 1, psi[draw])  # each in turn reports the largest cost
        saved = cheapest_records(away, N).payment - found.payment[draw]
        paid[draw] = found.privacy_loss[draw] @ costs[draw] + saved.sum() / 2
    gap = paid - found.payment
    return Revenue(
        float(paid.mean()),
        float(paid.std() / np.sqrt(draws)),
        float(gap.mean() / gap.std() * np.sqrt(draws)),
        float(auction_curve(N / n, h).payment) * np.sqrt(N),
    )


# --- one posted price, and incentives ---------------------------------------------------------------------------------


def largest_ratios() -> pd.DataFrame:
    """Largest ratios over a fine grid of N/n: posted price over auction, and auction over costs known."""
    edge = np.geomspace(1e-6, 0.5, 3000)
    wanted = np.concatenate([edge, 1 - edge[::-1]])
    rows = {}
    for h in SPREADS:
        auction = auction_curve(wanted, h).payment
        posted = posted_curve(wanted, h).payment / auction
        asked = auction / auction_curve(wanted, h, known=True).payment
        rows[f"{h:g}"] = {
            "posted / auction": f"{posted.max():.3f}",
            "at N/n": f"{wanted[posted.argmax()]:.2f}",
            "auction / known": f"{asked.max():.3f}",
            "2h/(1+h)": f"{2 * h / (1 + h):.3f}",
        }
    return pd.DataFrame(rows).T.rename_axis("h")


def small_markets(h: float = 1000.0, draws: int = 4000) -> pd.DataFrame:
    """One price for the k cheapest, set by the next one, over the auction: mean payments in small markets."""
    rows = {}
    for n in (5, 10, 20, 100, 1000):
        costs = 1 + (h - 1) * np.random.default_rng([3, n]).random((draws if n < 1000 else draws // 4, n))
        row = {}
        for share in (0.1, 0.3, 0.5):
            N, k = share * n, np.arange(n) + 1
            if N < 1:
                continue
            auction, k = cheapest_records(2 * costs - 1, N).payment, k[k > N]
            price = 1 + (h - 1) * np.minimum((k + 1) / (n + 1), 1)  # mean of the first cost that is not bought
            ratio = (price / np.sqrt(1 / N - 1 / k)).min() / auction.mean()
            row[f"N/n = {share}"] = f"{ratio:.3f} ({ratio * auction.std() / auction.mean() / len(auction) ** 0.5:.3f})"
        rows[f"{n}"] = row
    return pd.DataFrame(rows).T.sort_index(axis=1).fillna("").rename_axis("sellers")


@dataclass(frozen=True)
class StepLaws:
    """Regular laws whose virtual cost is a step function of the quantile.

    Attributes
    ----------
    virtual_costs, masses : arrays of shape (laws, steps); the costs rise along the steps, the masses sum to 1
    wanted : array of shape (laws,), N/n
    """

    virtual_costs: Array
    masses: Array
    wanted: Array

    def auction(self) -> Array:
        """Payment of the optimal auction over the root of N."""
        psi, mass, share = self.virtual_costs, self.masses, self.wanted[:, None]
        upto, total = mass.cumsum(1), (mass * psi).cumsum(1)
        enough = upto > share
        cutoff = np.where(enough, total / np.where(enough, upto - share, 1), np.inf).min(1, keepdims=True)
        sold = mass * np.maximum(cutoff - psi, 0)
        return np.sqrt(cutoff[:, 0] * (sold * psi).sum(1) / sold.sum(1))

    def posted(self) -> Array:
        """Payment of the best posted price over the root of N: on each step the best share that takes it, exactly."""
        psi, mass, share = self.virtual_costs, self.masses, self.wanted[:, None]
        end = mass.cumsum(1)
        below = (mass * psi).cumsum(1) - end * psi  # up to F on this step the virtual costs add up to below + psi F
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = 1 / (2 / share + psi / below)
        inside = np.clip(np.where((below < 0) & (inside > 0), inside, 1), np.maximum(end - mass, share), end)
        best = np.full(len(psi), np.inf)
        for F in (inside, end):
            able = share * (1 + 1e-12) < F
            cost = (below / F + psi) / np.sqrt(np.where(able, 1 - share / F, 1))
            best = np.minimum(best, np.where(able, cost, np.inf).min(1))
        return best

    def local(self) -> Array:
        """Payment of the local menu over N: the worth of a record by bisection, one step of the law sells in part."""
        psi, mass, share = self.virtual_costs, self.masses, self.wanted
        low, high = np.log(psi[:, 0]), np.log(1e3 * psi[:, -1] / (1 - share) ** 2)

        def bought(worth: Array) -> tuple[Array, Array]:
            epsilon = _sold(psi / np.exp(worth)[:, None])
            return (mass * _information(epsilon)).sum(1), (mass * psi * epsilon).sum(1)

        for _ in range(70):
            middle = (low + high) / 2
            short = bought(middle)[0] < share
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        records, payment = bought(low)
        return np.asarray((payment + np.exp(low) * (share - records)) / share)


def random_laws(count: int = 2000, seed: int = 4) -> StepLaws:
    """Two to eight steps of uniform masses; jumps of very unequal heights; half of N/n just above the end of a step."""
    rng, most = np.random.default_rng(seed), 8
    steps = rng.integers(2, most + 1, count)
    there = np.arange(most) < steps[:, None]
    masses = np.where(there, rng.exponential(size=(count, most)), 0)
    masses /= masses.sum(1, keepdims=True)
    jumps = rng.gamma(0.3, size=(count, most)) * 10 ** rng.uniform(-3, 3, (count, most))
    jumps[:, 0] += 1e-6
    psi = np.where(there, jumps, 0).cumsum(1)
    step = (rng.random(count) * (steps - 1)).astype(int)  # not the last
    above = masses.cumsum(1)[np.arange(count), step] * (1 + 10 ** rng.uniform(-4, -0.5, count))
    return StepLaws(
        psi, masses, np.where(rng.random(count) < 0.5, np.minimum(above, 0.99), rng.uniform(0.01, 0.99, count))
    )


@dataclass(frozen=True)
class RandomLaws:
    """Ratios on random regular laws."""

    laws: int
    posted: float
    """Largest posted price over auction."""
    above: int
    """Laws in which it exceeds 9/8."""
    trust: tuple[float, float]
    """Least and largest local over central payment, over the root of N."""


def on_random_laws(count: int = 2000, seed: int = 4) -> RandomLaws:
    """The three purchases under each law."""
    laws = random_laws(count, seed)
    auction = laws.auction()
    posted, trust = laws.posted() / auction, laws.local() / auction
    return RandomLaws(count, float(posted.max()), int((posted > 9 / 8).sum()), (float(trust.min()), float(trust.max())))


def two_steps() -> pd.DataFrame:
    """Half of the sellers almost free, half dear; N/n slightly above one half."""
    rows = {}
    for gap in (0.1, 0.03, 0.01, 0.003, 0.0001):
        share = 0.5 + gap
        law = StepLaws(np.array([[1e-9, 1.0]]), np.array([[0.5, 0.5]]), np.array([share]))
        rows[f"{share:g}"] = {
            "posted / auction": f"{(law.posted() / law.auction()).item():.3f}",
            "formula": f"{2 * np.sqrt((1 - share) / share):.3f}",
            "trust, over root N": f"{(law.local() / law.auction()).item():.3f}",
            "its formula": f"{2 * np.sqrt(gap * (1 - share) / (0.5 * share)):.3f}",
        }
    return pd.DataFrame(rows).T.rename_axis("N/n")


# --- trust ------------------------------------------------------------------------------------------------------------


def trust(points: int = 61) -> tuple[Array, dict[str, Array]]:
    """Sellers per record wanted, and what a local market pays over a central one, over the root of N."""
    sellers = np.geomspace(1.02, 1000, points)
    spreads = (1.0, 1.5, 5.0, 1000.0)
    return sellers, {
        f"h = {h:g}": local_curve(1 / sellers, h).payment / auction_curve(1 / sellers, h).payment for h in spreads
    }


def trust_range() -> tuple[float, float]:
    """Least and largest value of that over spreads of the costs and markets of all sizes."""
    edge = np.geomspace(1e-5, 0.5, 200)
    wanted = np.concatenate([edge, 1 - edge[::-1]])
    ratios = [local_curve(wanted, h).payment / auction_curve(wanted, h).payment for h in (1.0, *SPREADS, 1e6)]
    return float(np.min(ratios)), float(np.max(ratios))


@dataclass(frozen=True)
class Lots:
    """Three equal sellers, 1.45 records: what is paid without lots and with them."""

    loss: float
    """Of each, if all three sell the same."""
    three: float
    two_and_a_bit: float
    """Two sell the loss 1, the third what is missing."""
    lots: float
    """Two sell the loss 1, the third with probability 0.9."""


def lots(N: float = 1.45) -> Lots:
    """Totals of the losses of local reports with Laplace noise."""
    alone = [float(np.sqrt(share / (1 - share))) for share in (N / 3, N - 1)]
    return Lots(alone[0], 3 * alone[0], 2 + alone[1], 2 * N)


def piecewise_variance(x: Array, epsilon: float) -> Array:
    """Variance of a report of x in [-1, 1] by the piecewise mechanism, from its density."""
    half = np.exp(epsilon / 2)
    reach = (half + 1) / (half - 1)
    left = (reach + 1) / 2 * x - (reach - 1) / 2
    right = left + reach - 1
    high = (half**2 - half) / (2 * half + 2)  # the density near x; elsewhere exp(-epsilon) times that
    low = high / half**2
    second = ((right**3 - left**3) * (high - low) + 2 * reach**3 * low) / 3
    first = (right**2 - left**2) * (high - low) / 2
    mass = (right - left) * (high - low) + 2 * reach * low
    if not (np.allclose(mass, 1) and np.allclose(first, x)):
        raise RuntimeError("the density does not integrate to 1, or its mean is not x")
    return second - x**2


def _cheapest_record(variance: Callable[[float], float], tau2: float) -> tuple[float, float]:
    """Least loss per effective record over epsilon_0, and the loss that attains it."""
    found = optimize.minimize_scalar(
        lambda e: e * (1 + variance(e) / tau2), bounds=(0.05, 60), method="bounded", options={"xatol": 1e-9}
    )
    return float(found.fun / np.sqrt(2 / tau2)), float(found.x)


def randomisers() -> pd.DataFrame:
    """Records in [0, 1]: loss per effective record, over epsilon_0, of three randomisers, and of the best possible."""
    data = {"fair bits": (0.5, 0.25), "uniform": (0.5, 1 / 12), "mean 0.2, variance 0.036": (0.2, 0.036)}
    rows = {}
    for name, (mean, tau2) in data.items():
        ends = np.array([1.0, 0.0])
        spread = (2 * mean - 1) ** 2 + 4 * tau2  # mean square of 2x - 1; the variance is linear in the square

        def piecewise(e: float, spread: float = spread, ends: Array = ends) -> float:
            top, middle = piecewise_variance(ends, e)
            return float(middle + spread * (top - middle)) / 4

        bits = name == "fair bits"
        distance = 1.0 if bits else tau2 + max(mean, 1 - mean) ** 2  # mean square distance to the farther end, at least

        def best(e: float, distance: float = distance) -> float:
            return float(distance / (4 * np.sinh(e / 2) ** 2))

        choices = {"Laplace": lambda e: 2 / e**2, "piecewise": piecewise, "lower bound": best}
        row = {}
        for choice, variance in choices.items():
            factor, loss = _cheapest_record(variance, tau2)
            row[choice] = f"{factor:.2f} ({loss:.1f})"
        flips, loss = _cheapest_record(lambda e: np.exp(e) / np.expm1(e) ** 2, tau2)
        row["flipped bits"] = f"{flips:.2f} ({loss:.1f})" if bits else ""
        rows[name] = row
    order = ["Laplace", "piecewise", "flipped bits", "lower bound"]
    return pd.DataFrame(rows).T[order].rename_axis("data in [0, 1]")


# --- caps, and a common loss ------------------------------------------------------------------------------------------


def caps() -> pd.DataFrame:
    """Equal costs, and a cap on the losses: the local payment over the central one, twice."""
    rows = {}
    for u, n, N in ((1.0, 200, 100), (1.0, 1000, 100), (0.5, 500, 100), (0.5, 2000, 100), (0.1, 20_000, 100)):
        sellers = N * (1 + 1 / u**2)
        central = cheapest_records(np.ones(n), N)
        local = sellers * u
        rows[f"cap {u:g}, n = {n}"] = {
            "sellers needed": f"{sellers:.0f}",
            "local / central": f"{local / float(central.payment):.3f}",
            "formula": f"{(u + 1 / u) * np.sqrt(N * (1 - N / n)):.3f}",
            "largest central loss": f"{central.privacy_loss.max():.4f}",
        }
    return pd.DataFrame(rows).T


@dataclass(frozen=True)
class Common:
    """Losses bought by the auction, and a learner that takes one loss for all."""

    bought: float
    best: float
    """Best total of a common loss over what was bought, mean over the draws."""
    half: float
    """The same at half of the largest loss."""
    error: float
    """Standard error of the latter."""
    records: float
    """Effective records left, of those paid for, with the threshold that leaves most."""


def common(n: int, N: int, draws: int = 300, h: float = 5.0) -> Common:
    """All sellers with a loss of at least a threshold are used at the threshold, the others not at all."""
    costs = 1 + (h - 1) * np.random.default_rng([5, n, N]).random((draws, n))
    epsilon = -np.sort(-cheapest_records(2 * costs - 1, N).privacy_loss, axis=1)
    used = np.arange(1, n + 1)
    total = epsilon * used  # with the k-th largest as threshold
    records = total**2 / (1 + total**2 / used)
    top = epsilon[:, :1] / 2
    half = (top * (epsilon >= top).sum(1, keepdims=True))[:, 0] / epsilon.sum(1)
    return Common(
        float((epsilon > 0).sum(1).mean()),
        float((total.max(1) / epsilon.sum(1)).mean()),
        float(half.mean()),
        float(half.std(ddof=1) / np.sqrt(draws)),
        float((records.max(1) / N).mean()),
    )
