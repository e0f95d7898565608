r"""What the page on the optimal procurement runs: searches for lies, solvers side by side, T's two examples.

Costs are drawn from the laws `LAWS`; `scale` is always :math:`(\mu,\sigma,\gamma)`. Every draw has a seed of its own,
so that each function gives the same numbers whenever it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from scipy import integrate, optimize, stats

from hdpm_book import plots
from hdpm_book.ledger import FALSE_ALARM
from hdpm_book.logistic.joint_objective import alternate, joint_objective
from hdpm_book.logistic.peer import conic_search, count_minima, gradient_and_grid, procure_fast
from hdpm_book.logistic.study import COSTS
from hdpm_lib.markets import incentives
from hdpm_lib.markets.costs import virtual_valuation
from hdpm_lib.markets.outcome import Purchase
from hdpm_lib.markets.procurement import procure
from hdpm_lib.markets.procurement_auction import procurement_auction
from hdpm_lib.spread import each

Array = NDArray[np.float64]
Scale = tuple[float, float, float]

LOW = float(np.exp(-4))
PAPER_LAW = COSTS  # on [e^-4, 5e^-4]
UNIT = stats.uniform(0, 1)
LAWS = {
    "uniform on [e^-4, 5e^-4], the paper's": PAPER_LAW,
    "uniform on [0, 4]": stats.uniform(0, 4),
    "F(c) = c^2 on [0, 1]": stats.powerlaw(2),
    "exponential, cut off at 3": stats.truncexpon(3),
}
TYPES = np.array([0.2, 0.6, 1.0])  # the three costs of the small market
CROWD = np.append(0.001, np.ones(200))  # one seller nearly free, two hundred equal ones


def _draw(m: int, *seed: int) -> Array:
    """Costs from the paper's law."""
    return np.asarray(PAPER_LAW.rvs(m, random_state=np.random.default_rng(seed)))


def diagram() -> Figure:
    """The game: who reports, pays, hands over data and publishes, in the order of J's first list."""
    fig, ax = plots.subplots()
    ax.set(xlim=(0, 10), ylim=(0, 6))
    ax.axis("off")
    box = {"boxstyle": "round,pad=0.5", "facecolor": "none", "edgecolor": "#2387C9"}
    for x, y, text in ((1.6, 1, "sellers"), (1.6, 5, "platform"), (8.2, 5, "public")):
        ax.text(x, y, text, ha="center", va="center", bbox=box)
    arrow = {"arrowstyle": "->", "color": "#808080", "linewidth": 1.4}
    for at, start, end in ((0.9, 1.7, 4.3), (1.6, 4.3, 1.7), (2.3, 1.7, 4.3)):
        ax.annotate("", (at, end), (at, start), arrowprops=arrow)
    ax.annotate("", (7.2, 5), (3.1, 5), arrowprops=arrow)
    for left, height, number in ((0.5, 3, "1"), (1.75, 3, "2"), (2.45, 3, "3"), (5, 5.2, "4")):
        ax.text(left, height, number)
    steps = "1  reported costs", "2  privacy losses, payments", "3  data", "4  model"
    for k, text in enumerate(steps):
        ax.text(4.2, 3.6 - 0.8 * k, text)
    return fig  # type: ignore[no-any-return]


# --- which payments fail ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rules:
    """Four payment rules in one market of twenty sellers where noise is dear."""

    table: pd.DataFrame
    costs: float
    """Sum of the sellers' costs."""
    losers_without_jump: int
    times_extended: float
    """What the buyer pays with virtual costs carried on, over what she pays by J's Eq. (8)."""

    @property
    def shortcuts_fail(self) -> bool:
        """Without the jump everybody loses, and with virtual costs carried on the buyer pays more than twice."""
        return self.losers_without_jump == 20 and self.times_extended > 2


def payment_rules() -> Rules:
    """J's Eq. (8), its two shortcuts and virtual costs: totals, sellers who lose by taking part, who gain by a lie."""
    scale, top, c = (10.0, 100.0, 0.01), 5 * LOW, _draw(20, 9)
    deal = procurement_auction(c, PAPER_LAW, *scale)
    plain, psi = c * deal.privacy_loss, 2 * c - LOW
    edge, beyond = np.empty(20), np.empty(20)
    for i in range(20):
        rest = np.delete(psi, i)
        edge[i] = procure(np.append(rest, 2 * top - LOW), *scale).privacy_loss[-1]
        beyond[i] = procure(rest, *scale).error - deal.error
    rules = {
        "J's (8), up to the largest cost": deal.payments,
        "without the jump there": deal.payments - top * edge,
        "virtual costs carried on beyond": plain + beyond / (2 * scale[2]),  # the value formula, up to infinity
        "virtual cost times epsilon": psi * deal.privacy_loss,
    }
    lies = _gains_by_lies(c, scale)
    rows = {
        name: {
            "paid in all": f"{t.sum():.2f}",
            "lose by taking part": f"{(t < plain - 1e-12).sum()} of 20",
            "gain by a lie": f"{lies[int(name.startswith('virtual cost times'))]} of 20",
        }
        for name, t in rules.items()
    }
    _, without, extended, _ = rules.values()
    losers, times = int((without < plain).sum()), float(extended.sum() / deal.payments.sum())
    return Rules(pd.DataFrame(rows).T, float(plain.sum()), losers, times)


def _gains_by_lies(c: Array, scale: Scale) -> tuple[int, int]:
    """How many sellers gain by a small lie under the integral (less what no report of theirs moves), and psi eps."""
    by_integral, by_virtual = 0, 0
    for i in range(len(c)):
        utilities = []
        for step in (0.0, -1e-4, 1e-4):
            reports = c.copy()
            reports[i] = np.clip(c[i] + step, LOW, 5 * LOW)
            deal = procurement_auction(reports, PAPER_LAW, *scale)
            sold = deal.privacy_loss[i]
            utilities.append([deal.payments[i] - c[i] * sold, (2 * reports[i] - LOW - c[i]) * sold])
        better = np.max(utilities[1:], axis=0) - utilities[0] > 1e-9
        by_integral, by_virtual = by_integral + int(better[0]), by_virtual + int(better[1])
    return by_integral, by_virtual


@dataclass(frozen=True)
class Understated:
    """One of 100 sellers after another reports the lowest cost."""

    cost: float
    """True cost of the seller who fares worst."""
    worst: float
    """What she then bears."""
    losers: int
    losers_at_truth: int


def understated() -> Understated:
    """What sellers bear who report the lowest cost, under J's Eq. (8)."""
    c, scale = _draw(100, 8), (1, 1, 1)
    borne = np.empty(100)
    for i in range(100):
        reports = c.copy()
        reports[i] = LOW
        deal = procurement_auction(reports, PAPER_LAW, *scale)
        borne[i] = c[i] * deal.privacy_loss[i] - deal.payments[i]
    truth = procurement_auction(c, PAPER_LAW, *scale)
    i = int(np.argmax(borne))
    at_truth = c * truth.privacy_loss - truth.payments
    return Understated(float(c[i]), float(borne[i]), int((borne > 0).sum()), int((at_truth > 0).sum()))


@dataclass(frozen=True)
class VirtualPayments:
    """Who gains by a lie if she is paid her virtual cost times what she sells."""

    table: pd.DataFrame
    tried: int
    upwards: float
    """Share that gains by exaggerating."""
    all_gain: bool


def virtual_payments() -> VirtualPayments:
    """Search for lies under virtual costs as payments, in four markets of the paper's law."""
    rows, sold, up, down = {}, 0, 0, 0
    for m, seed in ((50, 1), (50, 2), (50, 3), (455, 4)):
        c = _draw(m, 10, seed)
        start = procure(2 * c - LOW, 1, 1, 1)
        sellers, more, less = np.flatnonzero(start.privacy_loss > 0)[:60], 0, 0
        for i in sellers:
            near = c[i] + np.array([-1e-5, 0, 1e-5])
            reports = np.concatenate([near, np.linspace(LOW, (start.cutoff + LOW) / 2, 10)])
            utility = _virtual_utilities(c, i, np.maximum(reports, LOW))
            better = utility > utility[1] * (1 + 1e-10)
            more += int(better[reports > c[i]].any())
            less += int(better[reports < c[i]].any() and not better[reports > c[i]].any())
        rows[f"m = {m}, draw {seed}"] = {"bought, tried": len(sellers), "gain upwards": more, "only downwards": less}
        sold, up, down = sold + len(sellers), up + more, down + less
    return VirtualPayments(pd.DataFrame(rows).T, sold, up / sold, up + down == sold)


def _virtual_utilities(c: Array, i: int, reports: Array) -> Array:
    """Utilities of seller i under payments `psi(report) eps`."""
    profiles = np.tile(2 * c - LOW, (len(reports), 1))
    profiles[:, i] = 2 * reports - LOW
    eps = np.array([procure(row, 1, 1, 1).privacy_loss[i] for row in profiles])
    return np.asarray((2 * reports - LOW - c[i]) * eps)


# --- the optimal mechanism --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SmallMarket:
    """Two sellers with three equally likely costs each: least expected objective, found freely and by J's Eq. (10)."""

    free: float
    theory: float

    @property
    def agrees(self) -> bool:
        """Equal to 1e-7, and the free search is not below."""
        return abs(self.free - self.theory) < 1e-7 * self.theory and self.free > self.theory * (1 - 1e-8)


def small_market(mu: float = 1.0, sigma: float = 1.0, gamma: float = 0.5) -> SmallMarket:
    """A general solver chooses all purchases and payments under J's Eqs. (6) and (7) at the truth, nothing else."""

    def buyer(z: Array) -> float:
        """J's Eq. (5); z holds eps and t by [seller, own cost, the other's cost]."""
        (first, second), t = z.reshape(2, 2, 3, 3)
        eta, norm = first + second.T, np.hypot(first, second.T)
        return float(((mu * norm + sigma) / eta).mean() + gamma * t.sum() / 9)

    def slack(z: Array) -> Array:
        """Not negative if J's Eqs. (6) and (7) hold: [seller, cost, report, the other's cost]."""
        eps, t = z.reshape(2, 2, 3, 3)
        utility = t[:, None] - TYPES[:, None, None] * eps[:, None]
        truth = utility[:, range(3), range(3)]
        return np.append((truth[:, :, None] - utility).ravel(), truth.ravel())

    rules = optimize.LinearConstraint(np.array([slack(row) for row in np.eye(36)]).T, 0)
    given: dict[str, Any] = {"constraints": rules, "bounds": [(1e-9, None)] * 36}
    given |= {"method": "SLSQP", "options": {"maxiter": 500, "ftol": 1e-12}}
    starts = np.random.default_rng(1).uniform(0.5, 2, (3, 36))
    values = [optimize.minimize(buyer, start, **given).fun for start in starts]
    psi = TYPES + 0.4 * np.arange(3)
    theory = np.mean([procure([p, q], mu, sigma, gamma).error for p in psi for q in psi])
    return SmallMarket(float(min(values)), float(theory))


def instances(seed: int, count: int, largest: int = 12) -> Iterator[tuple[Array, Scale]]:
    """Virtual costs of four shapes (one with a few very cheap sellers), and scales."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        m = int(rng.integers(2, largest + 1))
        cheap = np.where(rng.random(m) < 0.3, 0.02, 1.0) * rng.uniform(0.9, 1.1, m)
        shapes = (rng.random(m) + 1e-3, rng.exponential(size=m) + 1e-3, np.exp(rng.normal(size=m)), cheap)
        mu, sigma, gamma = 10 ** rng.uniform(-1, 1, 3)
        yield shapes[k % 4], (float(mu), float(sigma), float(gamma))


@dataclass(frozen=True)
class Solved:
    """The exact purchase on random instances, against its equations and a conic solver with a search along the rate."""

    instances: int
    several: int
    """Instances with several local minima."""
    fast: int
    """Instances on which the fast solver ends at the global minimum."""
    equations: float
    """Largest residual of J's Eqs. (13) and (14), relative to their largest term."""
    conditions: float
    """Largest residual of J's two first-order conditions."""
    conic: float
    """Largest relative difference to the conic search."""


def solved(count: int = 320) -> Solved:
    """Solve random instances in all ways."""
    several, fast, equations, conditions, conic = 0, 0, [], [], []
    for psi, scale in instances(2, count):
        best = procure(psi, *scale)
        equations.append(residuals(best, psi, *scale))
        conditions.append(_first_order(best.privacy_loss, best.eta, scale[2] * best.cutoff, psi, scale))
        conic.append(conic_search(psi, *scale, starts=8).error / best.error - 1)
        several += count_minima(psi, *scale) > 1
        fast += procure_fast(psi, *scale).error / best.error - 1 < 1e-12
    return Solved(count, several, fast, *(float(np.abs(part).max()) for part in (equations, conditions, conic)))


def _first_order(eps: Array, eta: float, multiplier: float, psi: Array, scale: Scale) -> float:
    """How far J's two conditions, as printed, are from holding."""
    mu, sigma, gamma = scale
    norm = np.linalg.norm(eps)
    first = np.maximum(multiplier - gamma * psi, 0) * norm * eta / mu
    second = (sigma + mu * norm) / eta**2
    return float(np.max([np.abs(first - eps).max() / eps.max(), abs(second / multiplier - 1)]))


@dataclass(frozen=True)
class Path:
    """Stationary points of J's Eq. (11) along the cutoff, for one seller nearly free and two hundred equal ones."""

    rate: Array
    loss: Array
    roots: pd.DataFrame
    """Cutoff, sellers bought, rate and loss at each root of J's Eq. (14)."""


def path(scale: Scale = (1.0, 1.0, 0.01)) -> Path:
    """The path of all cutoffs, with the rate at which each is best, and the roots of J's Eq. (14)."""

    def at(theta: float) -> tuple[float, float, float, float]:
        """Rate, loss at this rate, loss at the best rate, and what J's Eq. (14) puts to 0."""
        mu, sigma, gamma = scale
        d = np.maximum(theta - CROWD, 0)
        a, price = d / d.sum(), float(d @ CROWD / d.sum())
        rate, norm = mu / (gamma * np.linalg.norm(d)), mu * np.linalg.norm(a)
        here = norm + sigma / rate + gamma * rate * price
        best = norm + 2 * np.sqrt(sigma * gamma * price)
        return float(rate), float(here), float(best), float(price - sigma * gamma / mu**2 * (d @ d))

    thetas = np.exp(np.linspace(np.log(0.02), np.log(20), 4001))
    found = np.array([at(theta) for theta in thetas])
    turns = thetas[:-1][np.diff(np.sign(found[:, 3])) != 0]
    roots = [optimize.brentq(lambda t: at(t)[3], t, 1.01 * t) for t in turns]
    rows = [(t, int((t > CROWD).sum()), at(t)[0], at(t)[2]) for t in roots]
    table = pd.DataFrame(rows, columns=["cutoff", "bought from", "rate", "loss"])
    return Path(found[:, 0], found[:, 1], table)


def rival_counts() -> pd.DataFrame:
    """How often J's Eq. (11) has several local minima, by law of the costs and size of the market."""
    table: dict[str, dict[str, str]] = {}
    for k, (name, law) in enumerate({**LAWS, "uniform on [1, 5]": stats.uniform(1, 4)}.items()):
        rng, table[name] = np.random.default_rng([3, k]), {}
        for m in (10, 50, 455):
            count = 0
            for _ in range(300):
                psi = virtual_valuation(law, law.rvs(m, random_state=rng), check=False)
                count += count_minima(psi, *10 ** rng.uniform(-2, 2, 3)) > 1
            table[name][f"m = {m}"] = f"{count} of 300"
    return pd.DataFrame(table).T


@dataclass(frozen=True)
class Capped:
    """Capped purchases on random instances."""

    kept: int
    """Instances of which no privacy loss is above k times the average."""
    binds: int
    instances: int
    conic: float
    """Largest relative difference to the conic search."""
    largest: dict[float, float]
    """Largest privacy loss by gamma, in one market."""
    conditions: Array
    """Residuals of J's two first-order conditions in the instances where the cap binds."""


def capped(count: int = 100) -> Capped:
    """Solve with a cap, and see how far the cap bounds anybody's privacy loss."""
    ratios, conic, conditions = [], [], []
    for number, (psi, scale) in enumerate(instances(4, count)):
        cap = min(np.random.default_rng(number).uniform(1, 4) / len(psi), 0.99)
        best = procure(psi, *scale, cap=cap)
        conic.append(conic_search(psi, *scale, cap=cap, starts=8).error / best.error - 1)
        ratios.append(best.privacy_loss.max() / (cap * len(psi) * best.privacy_loss.mean()))
        multiplier = float(scale[1] + scale[0] * np.linalg.norm(best.privacy_loss)) / best.eta**2
        conditions.append(_first_order(best.privacy_loss, best.eta, multiplier, psi, scale))
    ratio, psi = np.array(ratios), np.linspace(0.1, 1, 20)
    largest = {g: float(procure(psi, 1, 1, g, cap=3 / 20).privacy_loss.max()) for g in (1e-2, 1e-4, 1e-6)}
    binds = ratio > 1 - 1e-9
    off = np.array(conditions)[binds]
    return Capped(int((ratio <= 1 + 1e-12).sum()), int(binds.sum()), count, float(np.abs(conic).max()), largest, off)


def grid_errors(m: int = 500, scale: Scale = (1.0, 1.0, 0.01)) -> pd.DataFrame:
    """The paper's search along a grid of rates against the exact purchase: loss and largest error of a purchase."""
    psi = virtual_valuation(PAPER_LAW, _draw(m, 5))
    best = procure(psi, *scale)
    found = {"procure_fast": procure_fast(psi, *scale)} | {
        f"gradient, {name}": gradient_and_grid(psi, *scale, largest_eta=top * best.eta, points=points)
        for name, top, points in (("101 rates", 2, 101), ("1001 rates", 2, 1001), ("the best rate", 1, 1))
    }
    found["conic + search"] = conic_search(psi, *scale, starts=8)
    rows = {}
    for name, other in found.items():
        gap, error = other.error / best.error - 1, np.abs(other.privacy_loss - best.privacy_loss).max()
        shown = f"{gap:.0e}" if abs(gap) > 1e-9 else "below 1e-9"
        rows[name] = {"excess loss": shown, "largest error of eps": f"{error / best.privacy_loss.max():.1%}"}
    return pd.DataFrame(rows).T


# --- payments ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Jump:
    """A seller whose report moves the purchase to another branch."""

    report: float
    before: float
    after: float
    by_values: float
    by_integral: float


def jump(own: float = 0.005, scale: Scale = (1.0, 1.0, 0.3)) -> Jump:
    """One cheap seller beside forty of cost one half: where her sale jumps, and her payment in two ways."""
    others = np.full(40, 0.5)

    def bought(z: float) -> float:
        return float(procure(2 * np.append(z, others), *scale).privacy_loss[0])

    left, right = own, 0.1
    while right - left > 1e-12:
        middle = (left + right) / 2
        left, right = (middle, right) if bought(middle) > 1 else (left, middle)
    leave = 1.0 if bought(1.0) > 0 else optimize.brentq(lambda z: bought(z) - 1e-9, right, 1)
    parts = ((own, left), (right, leave), (leave, 1.0))
    by_integral = own * bought(own) + sum(integrate.quad(bought, *ends, epsrel=1e-10)[0] for ends in parts)
    paid = procurement_auction(np.append(own, others), UNIT, *scale).payments[0]
    return Jump(left, bought(left), bought(right), float(paid), float(by_integral))


@dataclass(frozen=True)
class Misreports:
    """What a search over misreports found under J's Eq. (8), relative to the largest payment."""

    tried: int
    gain: float
    least: float
    """Least utility of a truthful seller."""
    scans: int
    rises: int
    """Scans along one's own report in which the purchase rises somewhere."""

    @property
    def truthful(self) -> bool:
        """Nobody gains by a lie or loses at the truth, and no purchase rises."""
        return self.gain < 1e-7 and self.least > -1e-7 and self.rises == 0


def misreports() -> Misreports:
    """Markets of three and four sellers under each law: each seller in turn reports a grid, and points near the others.

    Under the last law mu is large, so that everybody is bought even at the largest cost, and the virtual cost is not
    affine, so that payments are integrated numerically.
    """
    found = each(_misreports_of_law, range(len(LAWS)))
    runs = [run for of_law, _, _ in found for run in of_law]
    gain = max(run.relative_gain for run in runs)
    least = min(float((run.utility / run.payment.max()).min()) for run in runs)
    scans, rises = (sum(one[k] for one in found) for k in (1, 2))
    return Misreports(sum(run.tried for run in runs), gain, least, scans, rises)


def _misreports_of_law(number: int) -> tuple[list[incentives.Incentives], int, int]:
    """Searches under one law, sellers whose purchase was followed along their reports, and how often it rose."""
    law = list(LAWS.values())[number]
    runs, scans, rises = [], 0, 0
    rng, affine, (bottom, top) = np.random.default_rng([6, number]), number < 3, law.support()
    for m in (3, 4) if affine else (3,):
        c = law.rvs(m, random_state=rng)
        scale = (1.0, 1.0, float(10 ** rng.uniform(-2, 0))) if affine else (10.0, 1.0, 0.1)
        grids = incentives.reports_to_try(c, top, grid=21 if affine else 9)
        tries = [grid[(grid >= bottom) & (grid > 1e-6 * top)] for grid in grids]
        runs.append(_searched(law, scale, c, tries))
        rises += sum(_rises(law, scale, c, i) for i in range(m))
        scans += m
    return runs, scans, rises


def _searched(law: Any, scale: Scale, c: Array, tries: list[Array]) -> incentives.Incentives:
    """The search of one market."""

    def outcome(reports: Array) -> tuple[Array, Array]:
        deals = [procurement_auction(row, law, *scale) for row in reports]
        return np.array([deal.privacy_loss for deal in deals]), np.array([deal.payments for deal in deals])

    return incentives.search_misreports(outcome, c, tries, refine=False)


def _rises(law: Any, scale: Scale, c: Array, i: int) -> bool:
    """Does what seller i sells rise anywhere in her own report?"""
    bottom, top = law.support()
    profiles = np.tile(c, (80, 1))
    profiles[:, i] = np.linspace(bottom + 1e-3 * top, top, 80)
    amounts = np.array([procure(row, *scale).privacy_loss[i] for row in virtual_valuation(law, profiles, check=False)])
    return bool((np.diff(amounts) > 1e-9 * amounts.max()).any())


@dataclass(frozen=True)
class Identity:
    """Mean payments against mean virtual costs, J's Eq. (9)."""

    table: pd.DataFrame
    worst: float
    """Largest difference, in standard errors."""
    limit: float


def identity() -> Identity:
    """Draw markets from each law, buy and pay."""
    rows, scores = {}, []
    for name, draws in zip(LAWS, each(_deals_of_law, range(len(LAWS))), strict=True):
        paid, virtual, plain = np.transpose(draws)
        gap = paid - virtual
        scores.append(float(gap.mean() / gap.std() * np.sqrt(len(gap))))
        rows[name] = {
            "mean payments": f"{paid.mean():.3g}",
            "mean virtual costs": f"{virtual.mean():.3g}",
            "difference in s.e.": f"{scores[-1]:.1f}",
            "payments / costs": f"{paid.mean() / plain.mean():.2f}",
        }
    limit = float(stats.t.isf(FALSE_ALARM / 2 / len(scores), 59))
    return Identity(pd.DataFrame(rows).T, max(map(abs, scores)), limit)


def _deals_of_law(number: int) -> list[list[float]]:
    """Payments, virtual costs and costs of what is bought, in markets of one law."""
    law, rng, draws = list(LAWS.values())[number], np.random.default_rng([7, number]), []
    m, count, mu = (12, 120, 1.0) if number < 3 else (3, 60, 10.0)
    for _ in range(count):
        c = law.rvs(m, random_state=rng)
        deal = procurement_auction(c, law, mu, 1.0, 0.1)
        virtual = virtual_valuation(law, c, check=False) @ deal.privacy_loss
        draws.append([deal.payments.sum(), virtual, c @ deal.privacy_loss])
    return draws


def other_losses() -> dict[str, float]:
    """Largest gain by a lie if a buyer with another loss minimises it exactly over a grid of two sellers' purchases."""
    grid, costs = np.linspace(0, 3, 61), np.linspace(0, 1, 41)
    first, second = np.meshgrid(grid, grid, indexing="ij")
    losses = {
        "square": (2 - first - 0.5 * second) ** 2,
        "hinge": np.maximum(1 - 0.4 * first - 0.7 * second, 0) + 0.1 * np.cos(3 * second),
        "noise": 1 / (0.1 + first + second),
    }

    def sold(loss: Array, own: float, other: float) -> float:
        """What seller 1 sells, with psi = 2c."""
        total = loss + 0.5 * (2 * own * first + 2 * other * second)
        return float(grid[np.unravel_index(np.argmin(total), total.shape)[0]])

    gains = {}
    for name, loss in losses.items():
        worst = -np.inf
        for other in (0.1, 0.45, 0.9):
            x = np.array([sold(loss, own, other) for own in costs])
            t = costs * x + 0.025 * np.append(np.cumsum(x[:0:-1])[::-1], 0)  # sums above
            utility = t - np.outer(costs, x)  # [true cost, report]
            worst = max(worst, float((utility - np.diag(utility)[:, None]).max()))
        gains[name] = worst
    return gains


# --- T's examples -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Records:
    """Sixty records with labels -1 and 1, and costs from the paper's law."""

    X: Array
    y: Array
    costs: Array


def records() -> Records:
    """Gaussian records in the unit ball, labelled by a line through the origin."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(60, 3))
    X /= np.linalg.norm(X, axis=1).max()
    y = np.where(X @ [3, -2, 1] > 0, 1.0, -1.0)
    return Records(X, y, np.asarray(PAPER_LAW.rvs(60, random_state=rng)))


def joint_purchase(data: Records, virtual_costs: ArrayLike, mu: float, sigma: float, gamma: float) -> Array:
    """Weights of T's purchase, which looks at the records, at the rate 60 and for one noise vector."""
    b = np.array([2.0, -1.0, 1.0])
    rule = joint_objective(data.X, data.y, b, virtual_costs, penalty=0.1, mu=mu, sigma=sigma, gamma=gamma)
    return alternate(rule, 60.0).weights


def sold_with_labels(deal: Callable[[Records], ArrayLike], data: Records) -> tuple[Array, Array]:
    """A deal, an entry for each seller, before and after the label of the second is flipped."""
    flipped = data.y.copy()
    flipped[1] *= -1
    before, after = (np.asarray(deal(replace(data, y=labels))) for labels in (data.y, flipped))
    return before, after


@dataclass(frozen=True)
class Variances:
    """m^2 times the variance of the weights, by half-width of the costs at a fixed mean."""

    widths: Array
    curves: dict[str, Array]
    least_step: float
    """Smallest mean rise from one half-width to the next, in standard errors."""
    limit: float


def variances(data: Records, runs: int = 36) -> Variances:
    """Weights of Algorithm 2 and of T's purchase; the same uniform numbers for all half-widths."""
    mean, widths = 3 * LOW, np.array([0, 0.0225, 0.045])

    def weights_of(psi: Array, mu: float, kind: str) -> Array:
        if kind == "Algorithm 2":
            return procure(psi, mu, 100.0, 1.0).weights
        return joint_purchase(data, psi, mu, 100, 1.0)

    curves, steps = {}, []
    for kind, mu in (("Algorithm 2", 1.0), ("T", 1.0), ("T", 10.0)):
        values = np.empty((runs, len(widths)))
        for run in range(runs):
            u = np.random.default_rng([12, run]).uniform(-1, 1, 60)
            values[run] = [60**2 * np.var(weights_of(mean + h * (2 * u + 1), mu, kind)) for h in widths]
        change = np.diff(values, axis=1)
        curves[f"{kind}, mu = {mu:g}"] = values.mean(0)
        steps.append((change.mean(0) / change.std(0, ddof=1) * np.sqrt(runs)).min())
    return Variances(widths, curves, float(min(steps)), float(stats.t.isf(FALSE_ALARM / 6, runs - 1)))


def appendix_c() -> pd.DataFrame:
    """T's two sellers: records (1, 1) and (-1, -1), costs 0.1 and 0.6, uniform law; by Algorithm 2 at three scales."""
    rows, costs = {}, np.array([0.1, 0.6])
    for mu, gamma in ((1.0, 1.0), (1.0, 0.1), (10.0, 1.0)):
        deal = procurement_auction(costs, UNIT, mu, 1.0, gamma)
        psi = virtual_valuation(UNIT, costs)
        rows[f"mu = {mu:g}, gamma = {gamma:g}"] = {
            "a": np.round(deal.weights, 4),
            "eta": f"{deal.eta:.4f}",
            "eps": np.round(deal.privacy_loss, 4),
            "t": np.round(deal.payments, 4),
            "psi eps": np.round(psi * deal.privacy_loss, 4),
        }
    return pd.DataFrame(rows)


def residuals(found: Purchase, virtual_costs: ArrayLike, mu: float, sigma: float, gamma: float) -> tuple[float, float]:
    """How far Eqs. (13) and (14) are from holding without a cap, each relative to its largest term."""
    multiplier = gamma * found.cutoff
    u = np.maximum(multiplier - gamma * np.asarray(virtual_costs, dtype=float), 0)
    square, total = u @ u, u.sum()
    printed = mu * u / (np.sqrt(square) * total)
    eq13 = np.abs(found.privacy_loss - printed).max() / printed.max()
    return float(eq13), float(abs(multiplier - sigma / mu**2 * square - square / total) / multiplier)
