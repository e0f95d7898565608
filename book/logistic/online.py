"""Experiments of the page on many sellers: rates with and without a cap, the online buyer, what the theorems say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

from hdpm_book.datasets import breast_cancer
from hdpm_book.ledger import FALSE_ALARM
from hdpm_book.logistic.formulas import printed_slack
from hdpm_book.logistic.online_rules import OnlineRule, expected_rule, printed_rule, realised_loss
from hdpm_book.logistic.peer import procure_fast
from hdpm_book.logistic.study import COSTS, misclassified
from hdpm_lib.learners.logistic import objective_perturbation, sharp_slack
from hdpm_lib.markets.costs import virtual_valuation
from hdpm_lib.markets.incentives import reports_to_try, search_misreports
from hdpm_lib.markets.procurement import procure
from hdpm_lib.noise import norm_law
from hdpm_lib.spread import each

Array = NDArray[np.float64]

FROM_ZERO, FROM_ONE = "U[0, 4]", "U[1, 5]"
LAWS = {
    FROM_ZERO: stats.uniform(0, 4),
    FROM_ONE: stats.uniform(1, 4),
    "U[e^-4, 5e^-4]": COSTS,
}
SIZES = 10 ** np.arange(2, 7)


def slope(values: ArrayLike, sizes: ArrayLike) -> float:
    """Slope of the logarithm of the values against that of the number of sellers."""
    return float(np.polyfit(np.log(np.asarray(sizes)), np.log(np.asarray(values, dtype=float)), 1)[0])


# Costs and data


def share_below(law: Any, x: float) -> float:
    """Probability that the virtual cost is at most x."""
    low, high = law.support()
    if x <= low:
        return 0.0
    cost = optimize.brentq(lambda z: float(virtual_valuation(law, z, check=False)) - x, low, high)
    return float(law.cdf(cost))


def cheap_sellers_table() -> pd.DataFrame:
    """Density of the virtual costs at 0, and expected sellers below the least one plus 1/sqrt(m), for each law."""
    rows = {}
    for name, law in LAWS.items():
        p = law.support()[0]
        near = [m * share_below(law, p + m**-0.5) for m in (1e4, 1e8)]
        rows[name] = [f"{share_below(law, 1e-6) / 1e-6:.3f}", *(f"{value:.3g}" for value in near)]
    columns = ["density at 0", "m = 1e4: sellers within 1/√m", "m = 1e8"]
    return pd.DataFrame(rows, index=columns).T.rename_axis("costs")


@dataclass(frozen=True)
class DensityAtZero:
    """J's Lemma IX.1: largest relative error of f_C(0)/2 for smooth laws, and gaps in psi for a density with drops."""

    largest_error: float
    gaps: Array  # at 2^-(j+1), as parts of it

    @property
    def smooth(self) -> bool:
        """Whether the lemma holds for the smooth laws."""
        return self.largest_error < 1e-4

    @property
    def drops(self) -> bool:
        """Whether psi skips an interval at each of the first thirty drops."""
        return bool((self.gaps[:30] > 0).all())


def density_at_zero() -> DensityAtZero:
    """Five smooth laws, and a density that is f[j] on (2^-(j+1), 2^-j], up to a factor."""
    laws = [(stats.uniform(0, q), 1 / (2 * q)) for q in (0.5, 4, 30)]
    laws += [(law, law.pdf(0) / 2) for law in (stats.truncexpon(3), stats.beta(1, 3))]
    off = [abs(share_below(law, 1e-5) / 1e-5 / value - 1) for law, value in laws]
    j = np.arange(60)
    f = 2 - 1 / (j + 1)
    mass = np.cumsum((f * 2.0 ** -(j + 1))[::-1])[::-1]  # of [0, 2^-j]
    gaps = mass[1:] * (1 / f[:-1] - 1 / f[1:]) * 2.0 ** j[1:]
    return DensityAtZero(float(max(off)), gaps)


@dataclass(frozen=True)
class Separability:
    """Whether the breast-cancer records are separable, without and with a constant feature, and by which margin."""

    plain: bool
    with_constant: bool
    margin: float

    @property
    def norm_needed(self) -> float:
        """Norm of the coefficients at which log2(1 + exp(-margin norm)) is one half."""
        return float(np.log(1 / (np.sqrt(2) - 1)) / self.margin)


def separability() -> Separability:
    """Linear programs; the margin is the distance of 0 from the convex hull of the signed records."""
    data, separable = breast_cancer(), []
    y = np.where(data.labels == "malignant", 1.0, -1.0)
    Z = data.features.to_numpy(float)
    Z = (Z - Z.mean(0)) / Z.std(0)
    for signed in (Z, np.column_stack([Z, np.ones(len(Z))])):
        signed = y[:, None] * signed / np.linalg.norm(signed, axis=1).max()
        bounds = {"A_ub": -signed, "b_ub": -np.ones(len(signed)), "bounds": (None, None)}
        separable.append(bool(optimize.linprog(np.zeros(signed.shape[1]), **bounds).status == 0))
    hull = np.vstack([signed.T, np.ones(len(signed))])
    part, _ = optimize.nnls(hull, np.append(np.zeros(signed.shape[1]), 1.0))
    w = (part / part.sum()) @ signed
    margin = float((signed @ w).min() / np.linalg.norm(w))
    if not np.isclose(margin, np.linalg.norm(w), rtol=1e-6):  # the two bounds meet
        raise RuntimeError(f"the hull is {np.linalg.norm(w):.3g} from 0, the margin is {margin:.3g}")
    return Separability(separable[0], separable[1], margin)


# Many markets


def cheap_sellers(
    law: Any, m: int, rule: OnlineRule, rng: np.random.Generator, came: float = 1.0
) -> tuple[Array, bool]:
    """Virtual costs of those among m sellers whose cost is not far above the cutoff, and whether these are all."""
    low, high = law.support()
    reach = (20 if m < 50_000 else 2) / np.sqrt(came)
    share = law.cdf(min(high, low + reach * (rule.cutoff - low)))
    quantiles = rng.uniform(0, share, rng.binomial(m, share))
    return virtual_valuation(law, law.ppf(quantiles), check=False), bool(share == 1)


@dataclass(frozen=True)
class Markets:
    """Random markets of one size: arrays with an entry for each."""

    loss: Array  # of the offline buyer
    online: Array
    eta: Array
    cutoff: Array
    bought: Array
    largest: Array  # weight

    @property
    def ratio(self) -> Array:
        """Competitive ratio: online loss over offline loss."""
        return self.online / self.loss

    def median(self, name: str) -> float:
        """Median of one of the arrays."""
        return float(np.median(getattr(self, name)))


def markets(law: Any, m: int, rule: OnlineRule, draws: int, seed: int, came: float = 1.0) -> Markets:
    """Both buyers in random markets; all constants are 1, and a part `came` of the m sellers comes."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(draws):
        psi, everybody = cheap_sellers(law, round(came * m), rule, rng, came)
        best = procure(psi, 1, 1, 1)
        if not (everybody or best.cutoff < psi.max()):
            raise RuntimeError(f"the cutoff, {best.cutoff:.3g}, is beyond the sellers drawn, up to {psi.max():.3g}")
        online = realised_loss(rule, psi, 1, 1, 1)
        a = best.weights
        rows.append((best.error, online, best.eta, best.cutoff, (a > 0).sum(), a.max()))
    return Markets(*np.array(rows, dtype=float).T)


@dataclass(frozen=True)
class Growth:
    """200 markets of each size from 100 to a million, for one law of the costs."""

    sizes: NDArray[np.intp]
    runs: list[Markets]

    def medians(self, name: str) -> Array:
        """Medians by size."""
        return np.array([run.median(name) for run in self.runs])

    def slope(self, name: str) -> float:
        """Slope of the log of the median against log m, from m = 1000 on."""
        return slope(self.medians(name)[1:], self.sizes[1:])

    @property
    def largest_loss_of_privacy(self) -> Array:
        """Median eta times median largest weight, by size."""
        return self.medians("eta") * self.medians("largest")

    @property
    def quartiles(self) -> Array:
        """Quartiles of the competitive ratio less 1, of shape (3, sizes)."""
        return np.array([np.quantile(run.ratio - 1, [0.25, 0.5, 0.75]) for run in self.runs]).T


def printed(m: int) -> OnlineRule:
    """Algorithm 3 for U[0, 4] and constants 1."""
    return printed_rule(m, 1 / 8, 1, 1, 1)


def growth() -> dict[str, Growth]:
    """The printed rule for costs from 0, the expected one for costs from 1."""
    runs = each(_markets_of_size, [(name, int(m)) for name in (FROM_ZERO, FROM_ONE) for m in SIZES])
    return {FROM_ZERO: Growth(SIZES, runs[: len(SIZES)]), FROM_ONE: Growth(SIZES, runs[len(SIZES) :])}


def _markets_of_size(job: tuple[str, int]) -> Markets:
    """200 markets for one law and number of sellers."""
    name, m = job
    if name == FROM_ZERO:
        return markets(LAWS[name], m, printed(m), 200, 1)
    return markets(LAWS[name], m, expected_rule(LAWS[name], m, 1, 1, 1), 200, 2)


@dataclass(frozen=True)
class Rates:
    """Medians against the theorem for q = 1, and how far the losses of a million sellers are from its constant."""

    table: pd.DataFrame
    ends: Array  # 5 % and 95 % quantiles of loss over theorem
    root_ratio: tuple[float, float]  # cutoff over the printed one, at 1e3 and 1e6

    @property
    def near_constant(self) -> bool:
        """Whether nine in ten losses are within a tenth of the constant."""
        return bool((abs(self.ends - 1) < 0.1).all())


def rates(found: Growth) -> Rates:
    """For U[0, 4]."""
    theta = 1 / np.sqrt(found.sizes / 8)
    exact = 4 * np.sqrt(theta / 3)
    loss, eta, cutoff = (found.medians(name) for name in ("loss", "eta", "cutoff"))
    table = pd.DataFrame(
        {
            "loss": loss.round(3),
            "÷ theorem": (loss / exact).round(3),
            "θ ÷ θₘ": (cutoff / theta).round(3),
            "η ÷ theorem": (eta / np.sqrt(3 / theta)).round(3),
            "bought": found.medians("bought").astype(int),
            "m max a": (found.sizes * found.medians("largest")).astype(int),
            "max ε": found.largest_loss_of_privacy.round(2),
        },
        index=pd.Index([f"{m:,}" for m in found.sizes], name="m"),
    )
    ends = np.quantile(found.runs[-1].loss, [0.05, 0.95]) / exact[-1]
    return Rates(table, ends, (float(cutoff[1] / theta[1]), float(cutoff[-1] / theta[-1])))


@dataclass(frozen=True)
class Vanishing:
    """A density like c^k at 0: slope of the loss, the theorem's, the loss at a million over its constant; a cap."""

    slope: float
    theorem: float
    ratio: float
    with_cap: float  # what the loss of large markets stays above with the cap 10/m


def vanishing_density(k: int) -> Vanishing:
    """150 markets of each of three sizes."""
    law, q, sizes = stats.powerlaw(k + 1, scale=4), k + 1, np.array([10**4, 10**5, 10**6])
    A = (q / (4 * (q + 1))) ** q
    rules = [expected_rule(law, int(m), 1, 1, 1) for m in sizes]
    losses = [markets(law, int(m), rule, 150, k).median("loss") for m, rule in zip(sizes, rules, strict=True)]
    theta = (q * (q + 1) / (2 * A * sizes)) ** (1 / (q + 1))
    exact = 2 * (1 + 1 / q) * np.sqrt(theta * q / (q + 2))
    cheapest = virtual_valuation(law, law.ppf((np.arange(10_000) + 0.5) / 100_000), check=False)
    with_cap = float(2 * np.sqrt(cheapest.mean()))
    return Vanishing(slope(losses, sizes), -1 / (2 * (k + 2)), float(losses[-1] / exact[-1]), with_cap)


def capped_losses() -> pd.DataFrame:
    """Median losses for U[0, 4] with the caps 3/m and 10/m, a row for each, and the limit."""
    rng, rows = np.random.default_rng(3), {}
    for m, draws in zip(SIZES[:4], (30, 30, 10, 3), strict=True):
        psi = rng.uniform(0, 8, (draws, m))
        rows[m] = [np.median([procure(row, 1, 1, 1, cap=k / m).error for row in psi]) for k in (3, 10)]
    table = pd.DataFrame(rows, index=["k = 3", "k = 10"])
    return table.assign(limit=4 / np.sqrt([3, 10]))


def slack_by_own_weight() -> pd.DataFrame:
    """What the cheapest seller loses on top of her loss, by three bounds, as the market grows; penalty 0.01."""
    rows, penalty = {}, 0.01
    for m in (10**4, 10**6, 10**8, 10**10):
        rng = np.random.default_rng(4)
        best = procure(cheap_sellers(LAWS[FROM_ZERO], m, printed(m), rng)[0], 1, 1, 1)
        a, eps = best.weights.max(), best.privacy_loss.max()
        rows[f"1e{round(np.log10(m))}"] = {
            "η Λ": best.eta * penalty,
            "largest ε": eps,
            "slack with k = 10": 2 * np.log1p(10 / (m * penalty)),
            "2 ln(1 + a/Λ)": float(printed_slack(a, penalty)),
            "sharp slack": float(sharp_slack(eps, a, penalty)),
        }
    return pd.DataFrame(rows).T.rename_axis("m")


# The online buyer


@dataclass(frozen=True)
class Algorithm3:
    """The printed rule against the expected one, against misreports, and its mean payment."""

    largest_difference: float  # in cutoff or slope, relative, over 100 settings
    misreports: int
    gain: float  # of the best of them, relative
    identity: float  # mean payment over mean of epsilon psi, less 1
    refusal: str  # of the library for U[1, 5]

    @property
    def solves(self) -> bool:
        """Whether it solves J's Eqs. (13) and (14) in expectation within 1e-9."""
        return self.largest_difference < 1e-9

    @property
    def truthful(self) -> bool:
        """Whether no misreport gains."""
        return self.gain < 1e-9

    @property
    def right(self) -> bool:
        """Whether it is right where it is defined: solves, truthful, and pays virtual costs on average."""
        return self.solves and self.truthful and abs(self.identity) < 1e-6


def algorithm_3() -> Algorithm3:
    """Check Algorithm 3 where it is defined."""
    rng, off, law = np.random.default_rng(5), [], LAWS[FROM_ZERO]
    for _ in range(100):
        top, (mu, sigma, gamma) = 10 ** rng.uniform(-2, 2), 10 ** rng.uniform(-1, 1, 3)
        m = int(2 * mu**2 / (sigma * gamma * top) * 10 ** rng.uniform(0, 6)) + 1
        a = printed_rule(m, 1 / (2 * top), mu, sigma, gamma)
        b = expected_rule(stats.uniform(0, top), m, mu, sigma, gamma)
        off += [abs(a.cutoff / b.cutoff - 1), abs(a.slope / b.slope - 1)]
    rule, types = printed(100), np.array([0.01, 0.06, 0.1, 0.14, 0.5])

    def menu(costs: Array) -> tuple[Array, Array]:
        return rule.epsilon(2 * costs), rule.payments(costs.ravel(), law).reshape(costs.shape)

    lies = search_misreports(menu, types, reports_to_try(types, 4.0, grid=41))
    costs = (np.arange(400_000) + 0.5) / 100_000  # quantiles of U[0, 4]
    owed = (rule.epsilon(2 * costs) * 2 * costs).mean()
    identity = rule.payments(costs, law).mean() / owed - 1
    try:
        refusal = str(printed_rule(100, 0.0, 1, 1, 1))
    except ValueError as error:
        refusal = str(error)
    return Algorithm3(float(max(off)), int(lies.tried), float(lies.relative_gain), float(identity), refusal)


@dataclass(frozen=True)
class Competition:
    """The printed rule for U[0, 4] against the offline buyer: a million sellers, and a hundred."""

    median: float  # competitive ratio at a million
    mean: float
    upper: float  # bound of the mean at the false-alarm rate
    nobody: float  # share of markets of 100 sellers in which nobody is bought
    nobody_by_formula: float


def competition(found: Growth) -> Competition:
    """From the runs of :func:`growth`."""
    ratio = found.runs[-1].ratio
    upper = ratio.mean() + stats.norm.isf(FALSE_ALARM) * ratio.std() / np.sqrt(len(ratio))
    nobody = np.isinf(found.runs[0].online).mean()
    never = float(np.exp(silence(100)))
    return Competition(float(np.median(ratio)), float(ratio.mean()), float(upper), float(nobody), never)


def cheap_ones_suffice() -> bool:
    """Whether a market of a million sellers and its cheap sellers alone have the same loss."""
    psi = np.random.default_rng(6).uniform(0, 8, 10**6)
    whole = [procure_fast(psi + low, 1, 1, 1).error for low in (0, 1)]
    cheap = [procure(psi[psi < 0.1] + low, 1, 1, 1).error for low in (0, 1)]
    return bool(np.allclose(whole, cheap, rtol=1e-12))


def ratio_if_fewer_come(x: ArrayLike) -> Array:
    """Competitive ratio if a part x of the sellers planned for comes, for a positive density at 0."""
    part = np.asarray(x, dtype=float)
    return np.asarray((2 * part**-0.5 + 1 / part + part) / (4 * part**-0.25))


def fewer_come() -> pd.DataFrame:
    """Median ratio of 150 markets planned for a million sellers, and the formula."""
    parts, m = np.array([1.0, 0.8, 0.5, 0.25, 0.1]), 10**6
    seen = [markets(LAWS[FROM_ZERO], m, printed(m), 150, 7, came=xi).median("ratio") for xi in parts]
    return pd.DataFrame({"ratio": seen, "formula": ratio_if_fewer_come(parts)}, index=pd.Index(parts, name="ξ"))


# What J's Theorems IV.5 and V.1 say


def records(count: int, rng: np.random.Generator, margin: float = 0.1) -> tuple[Array, Array]:
    """Points on the unit sphere of five dimensions, separated along the first axis, and their sides."""
    side, depth = rng.choice([-1.0, 1.0], count), rng.uniform(margin, 1, count)
    rest = rng.normal(size=(count, 4))
    rest *= np.sqrt(1 - depth**2)[:, None] / np.linalg.norm(rest, axis=1)[:, None]
    return np.column_stack([side * depth, rest]), side


@dataclass(frozen=True)
class Releases:
    """Released models: error, expected payments and norm of each."""

    error: Array
    paid: Array
    norm: Array

    @property
    def objective(self) -> float:
        """Median of error plus payments."""
        return float(np.median(self.error + self.paid))

    @property
    def bound(self) -> Array:
        """The theorems' bound without its slack."""
        return np.log2(1 + np.exp(-0.1 * self.norm))

    @property
    def above(self) -> float:
        """Share of the releases above the bound by 0.1 or more."""
        return float((self.error + self.paid >= self.bound + 0.1).mean())


def releases(law: Any, m: int, draws: int, seed: int, online: bool) -> Releases:
    """Five releases in each of some markets, with margin 0.1, penalty 0.01 and constants 1."""
    rng, rows = np.random.default_rng(seed), []
    X_test, y_test = records(5000, rng)
    rule = expected_rule(law, m, 1, 1, 1)
    for _ in range(draws):
        psi, _ = cheap_sellers(law, m, rule, rng)
        eps = rule.epsilon(psi) if online else procure(psi, 1, 1, 1).privacy_loss
        X, y = records(int((eps > 0).sum()), rng)
        eta = eps.sum()
        w = objective_perturbation(X, y, eps[eps > 0] / eta, eta, 0.01).release(rng=rng, size=5)
        rows.append(np.array([misclassified(w, X_test, y_test), np.full(5, eps @ psi), np.linalg.norm(w, axis=1)]))
    return Releases(*np.concatenate(rows, axis=1))


def watched() -> dict[tuple[str, int], Releases]:
    """Releases for U[0, 4], offline and online, from ten thousand, a million and a hundred million sellers."""
    kinds = {"offline": False, "online": True}
    return {
        (name, m): releases(LAWS[FROM_ZERO], m, 30, 8, online)
        for name, online in kinds.items()
        for m in (10**4, 10**6, 10**8)
    }


def watched_table(seen: dict[tuple[str, int], Releases]) -> pd.DataFrame:
    """Medians of the releases, and the share of them above the bound by 0.1 or more."""
    rows = {}
    for (name, m), run in seen.items():
        rows[f"{name}, m = 1e{round(np.log10(m))}"] = {
            "error": np.median(run.error),
            "payments": np.median(run.paid),
            "objective": run.objective,
            "norm": np.median(run.norm),
            "bound": np.median(run.bound),
            "share above bound + 0.1": run.above,
        }
    return pd.DataFrame(rows).T.round(2)


def chosen(exponent: ArrayLike, beta: float, nu: float, n: int = 30) -> tuple[Array, Array, Array, Array]:
    """The delta, delta', mu and rate of decay that the proof of IV.5 chooses at m = 10^exponent."""
    E2, root = 4 * 8**0.25, 10 ** (np.asarray(exponent, dtype=float) / 4)
    L = np.sqrt(2 / 3) / (E2 * np.logaddexp(0, beta)) * nu * root
    mu = np.sqrt(3) * nu * root / E2 + beta / np.log(2)
    radius = mu**2 / ((6 * L / np.sqrt(2) + 1) * 2 * beta)
    return np.exp(-L), norm_law(n, 0.5).sf(radius), mu, L / (nu * root)


@dataclass(frozen=True)
class ProofChoices:
    """From how many sellers on the proof's own choices say something; sizes are exponents of 10."""

    table: pd.DataFrame
    payments_above: float  # from where on expected payments exceed 1 + nu with the cap 10/m, beta = 1


def proof_choices() -> ProofChoices:
    """Sizes from a hundred to 10^20."""
    grid, rows = np.arange(2, 20, 0.01), {}
    for beta, nu in ((1.0, 0.1), (5.0, 0.1), (5.0, 0.5)):
        delta, noise, _, decay = chosen(grid, beta, nu)
        rows[f"β = {beta:g}, ν = {nu}"] = {
            "δ + 2δ′ < 1 from m =": f"10^{grid[np.argmax(delta + 2 * noise < 1)]:.1f}",
            "δ ≤ 0.466 from m =": f"10^{grid[np.argmax(delta <= 0.466)]:.1f}",
            "exponent of δ": f"{decay[0]:.3f}",
            "claimed": f"{1 / (2 * beta):g}",
        }
    over = chosen(grid, 1.0, 0.1)[2] * np.sqrt(0.4) > 1 + 0.1  # the mean virtual cost is 4/10 with the cap 10/m
    return ProofChoices(pd.DataFrame(rows).T, float(grid[np.argmax(over)]))


# A bounded budget


def budget(psi: Array, target: float, cap: float | None = None) -> float:
    """Expected payments of the optimum whose excess risk is the target."""

    def found(log_gamma: float) -> Any:
        return procure(psi, 1, 1, np.exp(log_gamma), cap=cap)

    def gap(log_gamma: float) -> float:
        best = found(log_gamma)
        return float(np.linalg.norm(best.weights) + 1 / best.eta - target)

    return float(found(optimize.brentq(gap, -20, 12, xtol=1e-6)).privacy_loss @ psi)


def payments_for_a_risk(sizes: Sequence[int] = (100, 1000, 10_000)) -> pd.DataFrame:
    """Median expected payments for an excess risk of 1/2, of five markets a size, and the limit."""
    needed: dict[str, list[float]] = {FROM_ZERO: [], "U[0, 4], cap 10/m": [], FROM_ONE: []}
    for m in sizes:
        for seed in range(5):
            psi = np.random.default_rng([10, seed]).uniform(0, 8, m)
            needed[FROM_ZERO].append(budget(psi, 0.5))
            needed["U[0, 4], cap 10/m"].append(budget(psi, 0.5, 10 / m))
            needed[FROM_ONE].append(budget(psi + 1, 0.5))
    rows = {name: np.median(np.reshape(values, (len(sizes), 5)), axis=1) for name, values in needed.items()}
    return pd.DataFrame(rows, index=sizes).T.assign(limit=[0, 0.8, 2])


def payments_online() -> pd.DataFrame:
    """Median payments by J's Eq. (8) of the online buyer, all constants 1, from 100 to a million sellers."""
    rows = {}
    for name in (FROM_ZERO, FROM_ONE):
        law, paid, rng = LAWS[name], [], np.random.default_rng(12)
        for m in SIZES:
            rule = expected_rule(law, int(m), 1, 1, 1)
            for _ in range(20):
                costs = (cheap_sellers(law, int(m), rule, rng)[0] + law.support()[0]) / 2
                paid.append(rule.payments(costs, law).sum())
        rows[name] = np.median(np.reshape(paid, (len(SIZES), 20)), axis=1)
    return pd.DataFrame(rows, index=SIZES).T


# T's theorem


@dataclass(frozen=True)
class OlderTheorem:
    """T's Theorem 3.4 in an example: its bound, what the surrogate comes to, and what it cannot reach."""

    bound: float
    half: float  # without the factor 2, as in T's Eq. (29)
    choice: Array  # surrogate at the proof's choice, m = 1e3, 1e6, 1e9
    best: Array  # at the best weights and eta
    crowd: Array  # m times the weights of the proof
    lowest: float  # limit with the best beta
    with_cap: float  # limit at the proof's beta with the cap 10/m

    @property
    def table(self) -> pd.DataFrame:
        """By the number of sellers."""
        rows = {"proof's choice": self.choice, "best weights and η": self.best, "m times the weights": self.crowd}
        return pd.DataFrame(rows, index=["m = 1e3", "m = 1e6", "m = 1e9"]).T


def older_theorem(gamma: float = 1e-4, noise: float = 5.0, margin: float = 0.1, sigma: float = 1.0) -> OlderTheorem:
    """Costs from U[1, 5], so that the least virtual cost is 1."""
    beta = 1 / np.sqrt(gamma)
    total = sigma + 2 * beta * noise
    eta, error = np.sqrt(total / gamma), np.log2(1 + np.exp(-margin * beta))
    bound = error + 2 * np.sqrt(sigma * gamma + 2 * noise * np.sqrt(gamma))
    choice, best, crowd = [], [], []
    for m in (10**3, 10**6, 10**9):
        width, rng = m ** (-1 / 3), np.random.default_rng([11, m])
        psi = 1 + rng.uniform(0, width, rng.binomial(m, width / 8))  # the N cheapest
        choice.append(error + len(psi) ** -0.5 + total / eta + gamma * eta * psi.mean())
        best.append(error + procure(psi, 1, total, gamma).error)
        crowd.append(m / len(psi))

    def surrogate(radius: ArrayLike, price: float = 1.0) -> Array:
        """The limit for the best weights and eta, when a unit costs `price`."""
        norm = np.asarray(radius, dtype=float)
        fit = np.log2(1 + np.exp(-margin * norm))
        return np.asarray(fit + 2 * np.sqrt((sigma + 2 * norm * noise) * gamma * price))

    half, lowest = error + (bound - error) / 2, surrogate(np.arange(1, 500)).min()
    with_cap = surrogate(beta, price=1.4)  # the mean of the cheapest tenth of [1, 9]
    runs = np.array([choice, best, crowd], dtype=float)
    return OlderTheorem(float(bound), float(half), runs[0], runs[1], runs[2], float(lowest), float(with_cap))


def range_of_use(noise: float, sigma: float, margin: float) -> float:
    """Largest psi_min gamma for which T's bound is below 1; for any margin it is below that for an infinite one."""

    def excess(root: float) -> float:
        cost = 2 * np.sqrt(sigma * root**2 + 2 * noise * root)
        return float(np.log1p(np.exp(-margin / root)) + cost - 1)

    return float(optimize.brentq(excess, 1e-9, 1) ** 2)


def silence(m: int) -> float:
    """Log of the probability that the online buyer of U[0, 4] buys from nobody."""
    return float(m * np.log1p(-printed(m).cutoff / 8))
