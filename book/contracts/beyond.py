"""What the page :doc:`/book/contracts/beyond` runs: profiles and laws that make M2 dearer than M1, and known laws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from hdpm_book.contracts.printed import unbiased_pricing
from hdpm_book.contracts.study import m1_total, m2_total
from hdpm_book.ledger import FALSE_ALARM
from hdpm_lib.markets.contracts import least_cost_contract
from hdpm_lib.markets.costs import ironed_virtual_valuation, virtual_valuation
from hdpm_lib.markets.mechanisms import equal_loss_pricing, vcg_contract

Array = NDArray[np.float64]

LAWS: dict[str, Any] = {
    "U[0.25, 1]": stats.uniform(0.25, 0.75),
    "U[0.5, 1]": stats.uniform(0.5, 0.5),
    "U[0.75, 1]": stats.uniform(0.75, 0.25),
    "exponential, cut": stats.truncexpon(5, scale=0.2),
    "Beta(2, 2)": stats.beta(2, 2),
    "Beta(5, 2)": stats.beta(5, 2),
    "Beta(1, 3)": stats.beta(1, 3),
    "uniform (power law, k = 1)": stats.uniform(0, 1),
    "power law, k = 3": stats.beta(3, 1),
}
ACCURACIES = (0.5, 2, 5, 10, 20)  # of ten sellers, whose limit is 25


# --- when M2 is dearer than M1 ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GapCheck:
    """The formula for M2 - M1 with sellers at 0 and at the ceiling."""

    cases: int
    agrees: bool  # to 1e-12 of M1


def gap_check() -> GapCheck:
    """2 to 12 sellers, every number at 0, three accuracies."""
    errors = []
    for n in range(2, 13):
        for z in range(1, n):
            m, v = n - z, np.r_[np.zeros(z), np.ones(n - z)]
            for K in np.array([0.3, 0.6, 0.9]) * m**2 / 4:
                theory = 8 * z * (z - 1) / (n * m * (m + 1))
                found = vcg_contract(v, K, 1.0, power=2).payments.sum() - m1_total(n, K)
                errors.append(abs(found - theory) / m1_total(n, K))
    return GapCheck(len(errors), max(errors) < 1e-12)


def mean_ratios(n: int, max_mse: Array, top: Array) -> Array:
    """E[M2] / M1 for each accuracy (rows) and each probability of the ceiling (columns), else valuation 0."""
    at_top = np.arange(n + 1)
    least = np.maximum(2 * at_top / max_mse[:, None] - 8 / np.maximum(at_top, 1), 0)
    least = np.c_[least, np.zeros(len(max_mse))]  # W_0 .. W_n, and one that is not used
    z = n - at_top
    paid = z * least[:, 1:] - (z - 1) * least[:, :-1]
    return np.asarray(paid @ stats.binom.pmf(at_top[:, None], n, top) / least[:, n : n + 1])


def mean_ratio_of_mechanism(max_mse: float, top: float) -> float:
    """The same for ten sellers, by running the mechanism on all profiles."""
    exact = stats.binom.pmf(np.arange(11), 10, top) @ m2_total(np.tri(11, 10, -1), max_mse)
    return float(exact / m1_total(10, max_mse))


def dearest() -> pd.DataFrame:
    """How much dearer M2 is than M1: in the worst draw of zeros and ones, and on average under a two-point law."""
    rows = {}
    for n in (2, 3, 10, 50, 200, 1000):
        m = np.arange(1, n)
        bound = (n * (2 * m + 1) / ((m + 1) * (n + m))).max()
        K, top = m**2 / 4, np.geomspace(1 / n, 0.999, 400)
        ratios = mean_ratios(n, K, top)
        k, j = np.unravel_index(ratios.argmax(), ratios.shape)
        rows[f"{n}"] = {
            "in one draw": f"{bound:.3f}",
            "on average": f"{ratios.max():.4f}",
            "at accuracy K": f"{K[k]:g}",
            "chance of the ceiling": f"{top[j]:.3f}",
        }
    return pd.DataFrame(rows).T.rename_axis("sellers")


def largest_with_two(rng: np.random.Generator) -> float:
    """Largest M2 / M1 in random markets of two sellers, three powers."""
    largest = 0.0
    for r in (1.5, 2, 3):
        for K in rng.uniform(0.01, 1, 20):
            v = rng.random((200, 2)) ** rng.choice([0.3, 1, 2])
            paid = vcg_contract(v, K, 1.0, power=r).payments.sum(-1)
            largest = max(largest, float((paid / equal_loss_pricing(v, K, 1.0, power=r).payments.sum(-1)).max()))
    return largest


# --- known laws -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LawSavings:
    """Saving of the best mechanism over M2, in percent of M2's mean payment."""

    table: pd.DataFrame
    cells: int  # in which two ways of measuring it are compared
    deviation: float  # largest, in standard errors
    needed: float  # what would be an alarm


def law_savings() -> LawSavings:
    """Ten sellers; by the lemma, or from the payments where the virtual valuation is not bounded."""
    rows, lemma = {}, []
    for name, law in LAWS.items():
        heavy = name.startswith("Beta")
        draws = 20_000 if heavy else 4000
        v = law.rvs((draws, 10), random_state=np.random.default_rng(6))
        phi, row, errors = virtual_valuation(law, v), {}, []
        for K in ACCURACIES:
            ours, best = vcg_contract(v, K, 1.0, power=2), least_cost_contract(phi, K, power=2).cost
            paid, lost = ours.payments.sum(-1), (phi * ours.privacy_loss**2).sum(-1) - best
            if heavy:
                lost = paid - best
            else:
                gap = paid - best - lost
                lemma.append(gap.mean() / gap.std() * np.sqrt(draws))
            saving = lost.mean() / paid.mean()
            errors.append((lost - saving * paid).std() / paid.mean() / np.sqrt(draws))
            one_digit = f"{float(f'{100 * saving:.1g}'):g}"
            row[f"K = {K}"] = one_digit if heavy else f"{round(100 * saving, 2) + 0.0:.2f}"
        row["standard error up to"] = f"{100 * max(errors):.1g}" if max(errors) > 1e-9 else "exact"
        rows[name] = row
    needed = float(stats.norm.isf(FALSE_ALARM / 2 / len(lemma)))
    return LawSavings(pd.DataFrame(rows).T, len(lemma), float(np.abs(lemma).max()), needed)


def two_groups() -> Any:
    """The law of six modest sellers in ten, three demanding ones, few in between; an irregular one."""
    return stats.rv_histogram(([6.0, 1.0, 3.0], [0.0, 0.2, 0.7, 1.0]), density=False)


def ironed_savings(draws: int = 10_000) -> pd.DataFrame:
    """The same for the irregular law, with the bound that ignores the irregularity."""
    law, rows = two_groups(), {}
    v = law.rvs(size=(draws, 10), random_state=np.random.default_rng(7))
    raw, ironed = v + law.cdf(v) / law.pdf(v), ironed_virtual_valuation(law, v)
    for K in ACCURACIES:
        paid = vcg_contract(v, K, 1.0, power=2).payments.sum(-1)
        best, bound = (least_cost_contract(phi, K, power=2).cost for phi in (ironed, raw))
        saving = 1 - best.mean() / paid.mean()
        error = (paid - best - saving * paid).std() / paid.mean() / np.sqrt(draws)
        rows[f"K = {K}"] = {
            "M2": f"{paid.mean():.3g}",
            "ironed": f"{best.mean():.3g}",
            "bound": f"{bound.mean():.3g}",
            "saving (error)": f"{saving:.1%} ({error:.1%})",
        }
    return pd.DataFrame(rows).T


def price_curves(max_mse: Array, draws: int = 5000) -> dict[str, Array]:
    """Mean payments of four mechanisms over the least cost; ten sellers with the cut exponential law."""
    law = LAWS["exponential, cut"]
    v = law.rvs((draws, 10), random_state=np.random.default_rng(12))
    phi, rows = virtual_valuation(law, v), []
    for K in max_mse:
        paid = vcg_contract(v, K, 1.0, power=2).payments.sum(-1).mean()
        best, least = (least_cost_contract(w, K, power=2).cost.mean() for w in (phi, v))
        rows.append([paid, best, m1_total(10, K), unbiased_pricing(v[0], K, 1.0, power=2).payments.sum(), least])
    curves = np.array(rows).T
    return dict(zip(["M2", "law known", "M1", "M3", "valuations known"], curves / curves[-1], strict=True))


def wrong_law(draws: int = 10_000) -> pd.DataFrame:
    """Mean payment over M2's for pairs of a true and a believed law (rows, columns), K = 5."""
    names = ["uniform (power law, k = 1)", "exponential, cut", "Beta(2, 2)"]
    rows = {}
    for name in names:
        v = LAWS[name].rvs((draws, 10), random_state=np.random.default_rng(14))
        phi = virtual_valuation(LAWS[name], v)
        sold = {b: least_cost_contract(virtual_valuation(LAWS[b], v), 5, power=2).privacy_loss ** 2 for b in names}
        mean = {b: (phi * x).sum(-1).mean() for b, x in sold.items()}
        rows[f"true: {name}"] = {f"believed: {b}": mean[b] / mean[names[0]] - 1 for b in names[1:]}
    return pd.DataFrame(rows).T
