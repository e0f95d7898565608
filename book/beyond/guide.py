"""Markets of many kinds, and what advice is worth in them: what the page :doc:`/book/beyond/guide`
runs and records.

``python -m hdpm_book.beyond.guide`` buys by every design in two sets of markets, one from which the
advice was derived and a fresh one, and stores in ``data/studies`` what was promised and what came.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from hdpm_book import records
from hdpm_book.beyond.tied import tied_error
from hdpm_book.records import STUDIES, Row, Study, collect
from hdpm_lib.designs.comparison import law_of, tied_errors
from hdpm_lib.designs.rules import DESIGNS, Deal, Market, Task

Array = NDArray[np.float64]
Quantile = Callable[[Array], Array]
AUCTION = "error-minimising auction"
M2 = "contracts, M2 as released"
MENU = "local menu"
OFFERED = [name for name in DESIGNS if name != "costs known"]
NOTHING = "nothing is bought"

# --- costs ---------------------------------------------------------------------------------------

# Shares of unconcerned, circumspect, wary and alarmed users (Sheehan, 2002), and amounts around the
# medians of 7 euros for an item of the browsing history and of 25 for age or address (Carrascal and
# others, 2013).
ASKED = stats.rv_histogram(
    (np.array([0.16, 0.38, 0.43, 0.03]), np.array([0.5, 2.0, 12.0, 38.0, 100.0])), density=False
)


def _pareto(tail: float, ceiling: float) -> Any:
    """Return Pareto costs from 1 on, cut at a ceiling."""
    ranks = np.linspace(0, 1, 201)
    edges = (1 - ranks * (1 - ceiling**-tail)) ** (-1 / tail)
    return stats.rv_histogram((np.full(200, 1.0), edges), density=False)


COSTS: dict[str, Callable[[np.random.Generator], Any]] = {
    "uniform": lambda rng: stats.uniform(1, np.exp(rng.uniform(np.log(1.5), np.log(30))) - 1),
    "exponential": lambda rng: stats.truncexpon(b=rng.uniform(4, 8), loc=rng.uniform(0.05, 1)),
    "lognormal": lambda rng: law_of(rng.lognormal(0, rng.uniform(0.4, 1.2), 200)),
    "two groups": lambda rng: stats.rv_histogram(
        (np.array([10.0, 1.0, 9.0]), np.cumsum([1.0, 0.5, rng.uniform(2, 15), 1.0])), density=False
    ),
    "Pareto, cut": lambda rng: _pareto(rng.uniform(1.1, 2.5), rng.uniform(10, 50)),
    "asked in surveys": lambda rng: ASKED,
}
RECORDS: dict[str, Quantile] = {  # quantile functions of numbers in [0, 1]
    "few large": stats.beta(0.75, 2.87).ppf,
    "few small": stats.beta(2.87, 0.75).ppf,
    "a little low": stats.beta(2, 3).ppf,
    "low": lambda u: 0.6 * u,
    "near the middle": lambda u: 0.3 + 0.5 * u,
}

# --- markets -------------------------------------------------------------------------------------


def market(law: str, tied: bool, rng: np.random.Generator) -> dict[str, Any]:
    """Return a market at random, and the buyer's guesses of the variance and the squared distance,
    each within a factor of two.
    """
    costs = COSTS[law](rng)
    n = int(np.exp(rng.uniform(np.log(10), np.log(1000))))
    records = RECORDS[list(RECORDS)[rng.integers(len(RECORDS))]]
    x = records((np.arange(4000) + 0.5) / 4000)
    guess = np.exp2(rng.uniform(-1, 1, 2))
    return {
        "costs": costs,
        "n": n,
        # a mean loss of .02 to 3
        "budget": float(costs.mean() * n * np.exp(rng.uniform(np.log(0.02), np.log(3)))),
        "correlation": rng.uniform(-1, 1) if tied else 0.0,
        "records": records,
        "side": float(np.sign(x.mean() - 0.5)),
        "task": Task(float(x.var() * guess[0]), float((x.mean() - 0.5) ** 2 * guess[1])),
    }


def bought(found: dict[str, Any], rng: np.random.Generator, draws: int = 15) -> pd.DataFrame:
    """Return, for each design, and for buying nothing, the error that the buyer expects and the
    error that comes.
    """
    law = found["costs"]
    task = found["task"]
    r = found["correlation"]
    costs = np.asarray(law.ppf(rng.random((draws, found["n"]))))
    ranks = np.asarray(law.cdf(costs))
    rows = {}
    for name in [*OFFERED, NOTHING]:
        none = np.zeros_like(costs)
        if name == NOTHING:
            deal = Deal(none, weights=none, noise=np.full(draws, np.inf), money=np.zeros(draws))
        else:
            deal = DESIGNS[name](Market(task, law, found["budget"]), costs)
        expected = tied_errors(deal, ranks, task, task, r * found["side"])
        came = tied_error(deal, costs, law, found["records"], 0.5, r, task)
        rows[name] = {
            "expected": float(np.sqrt(expected.mean())),
            "came": float(np.sqrt(came.mean())),
        }
    return pd.DataFrame(rows).T


def advised(table: pd.DataFrame, tied: bool) -> str:
    """Follow the guide: independent costs, the auction; tied ones, the design that expects the
    least error.
    """
    return str(table["expected"].idxmin()) if tied else AUCTION


def regret(job: tuple[int, int]) -> dict[str, Any]:
    """Try one market of a set: what was advised, and its error over the best one offered."""
    seed, k = job
    rng = np.random.default_rng([seed, k])
    laws = list(COSTS)
    law = laws[k % len(laws)]
    tied = bool(k // len(laws) % 2)
    found = market(law, tied, rng)
    table = bought(found, rng)
    name = advised(table, tied)
    best = table["came"].min()
    return {
        "law": law,
        "tied": tied,
        "n": found["n"],
        "budget": found["budget"],
        "correlation": found["correlation"],
        "advised": name,
        "best": str(table["came"].idxmin()),
        "regret": float(table.loc[name, "came"] / best),
        "posted": float(table.loc["one posted price", "came"] / best),
        "all-in": float(table.loc["hard budget, All-in repaired", "came"] / best),
        "M2": float(table.loc["contracts, M2 shrunk by the buyer", "came"] / best),
        "nothing": float(table.loc[NOTHING, "came"] / best),
        "local": float(table.loc[MENU, "came"] / best),
    }


SETS = {"derived on": (1, 240), "fresh": (2, 720)}


def main() -> None:
    """Store both sets."""
    jobs, row, about = study()
    collect(STUDIES, "guide", jobs, row, about, "numpy", "scipy")


def study() -> Study:
    """Return the markets of both sets, and what is stored of one."""

    def row(name: str, seed: int, k: int) -> Row:
        found = {"set": name} | regret((seed, k))
        for key, value in found.items():
            if isinstance(value, float):
                found[key] = float(f"{value:.5g}")
        return found

    jobs = [(name, seed, k) for name, (seed, count) in SETS.items() for k in range(count)]
    return jobs, row, {"command": "python -m hdpm_book.beyond.guide", "sets": SETS}


@cache
def recorded() -> pd.DataFrame:
    """Return the stored markets, in rows."""
    return pd.DataFrame(records.recorded("guide")["rows"])


if __name__ == "__main__":
    main()
