"""The published networks, measured on more profiles than a page has time for.

``python -m hdpm_book.federated.study`` measures the eight networks of Table I and the hundred of
Figure 10 by the published procedure and over the lottery, and stores what it finds in
``data/studies/published.json``. An interrupted study goes on after the last network; without the
published files there is none.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from hdpm_book import retrieval
from hdpm_book.federated.meters import Array, Estimate, estimate, over_cost
from hdpm_book.federated.partition import (
    FACTORS,
    KINDS,
    budget_of,
    draw_bids,
    draw_sizes,
    study_markets,
)
from hdpm_book.federated.published import FILES, LEVELS, instances, networks
from hdpm_book.federated.regretnet import Network
from hdpm_book.federated.reports import Rule, learned, play, search
from hdpm_book.records import STUDIES, Row, Study, collect, page_functions
from hdpm_lib.auctions.bids import Bids

PROFILES = {"table": 2000, "levels": 1000}  # by the published procedure
SEARCHED = {"table": 200, "levels": 60}  # by ours
STEPS = (0, 10, 25)
CELLS = ("published_regret", "gini", "printed_search", "ir_violation", "as_published")
REACH = 20.0  # how far misreports may leave the truth, as a factor


def fresh_markets(count: int, law: str, seed: int) -> tuple[Bids, Array]:
    """Return profiles by the paper's laws, and budgets."""
    rng = np.random.default_rng([seed, KINDS.index(law)])
    market = draw_bids(draw_sizes(law, count, rng), rng)
    return market, budget_of(market, rng.uniform(*FACTORS, count))


def as_published(rule: Rule, market: Bids, money: Array, rng: np.random.Generator) -> Any:
    """Return what the page on regret measures."""
    cells = page_functions("federated/regret", *CELLS)
    lies = cells["printed_search"](rule, market, money, clamp="owners", rng=rng)
    return cells["as_published"](rule, market, money, lies)


def plain(found: dict[str, Estimate]) -> Row:
    """Return values and standard errors as they are stored."""
    return {key: [round(x, 5) for x in value] for key, value in found.items()}


def searched(
    network: Network, law: str, count: int, steps: tuple[int, ...]
) -> tuple[dict[int, Array], Array]:
    """Measure gains of the best misreports found, by length of the search, and what the truth
    costs; shape (k, n).
    """
    rule, (market, money) = learned(network), study_markets(count, law)
    gains, _ = search(rule, market, money, steps=steps, reach=REACH)
    return dict(zip(steps, gains, strict=True)), play(rule, market, money).cost


def lead(a: tuple[Array, Array], b: tuple[Array, Array], sums: bool) -> float:
    """Return the regret of `a` less that of `b` on the same profiles, in standard errors; each has
    gains and costs (k, n).

    By the quotient of all gains and all costs, or by the mean of quotients, of owners who sell.
    """
    value = 0.0
    spread = np.zeros(len(a[0]))
    for sign, (gain, cost) in ((1, a), (-1, b)):
        sells = cost > 0
        up, down = (
            (gain, cost) if sums else (np.where(sells, gain / np.where(sells, cost, 1), 0), sells)
        )
        ratio = up.sum() / down.sum()
        value += sign * ratio
        spread = spread + sign * (up - ratio * down).sum(-1) / down.sum(-1).mean()
    return float(value / (spread.std(ddof=1) / np.sqrt(len(spread))))


def table(law: str) -> Row:
    """Return the rows of Table I for one law of the sizes, and the leads of DM-RegretNet in our
    search, in standard errors.
    """
    market, money = fresh_markets(PROFILES["table"], law, 1)
    row: Row = {"which": "table", "law": law, "networks": {}, "leads": []}
    seen = {}
    for name, network in networks(law).items():
        found = plain(as_published(learned(network), market, money, np.random.default_rng(2)))
        gains, cost = seen[name] = searched(network, law, SEARCHED["table"], STEPS)
        row["networks"][name] = found | plain(
            {f"search {k}": over_cost(gain, cost) for k, gain in gains.items()}
        )
    for dm, other, steps, sums in product(list(FILES)[2:], list(FILES)[:2], STEPS, (False, True)):
        a, b = ((gains[steps], cost) for gains, cost in (seen[dm], seen[other]))
        row["leads"].append(
            {"of": dm, "over": other, "steps": steps, "sums": sums, "z": round(lead(a, b, sums), 2)}
        )
    return row


def levels(law: str, M: int) -> Row:
    """Return the ten networks of Figure 10 with `M` levels, for one law of the sizes."""
    market, money = fresh_markets(PROFILES["levels"], law, 1)
    row: Row = {"which": "levels", "law": law, "levels": M, "networks": []}
    for k, network in enumerate(instances(law)[M]):
        found = as_published(learned(network), market, money, np.random.default_rng([2, k]))
        gains, cost = searched(network, law, SEARCHED["levels"], (0,))
        full = study_markets(SEARCHED["levels"], law)[0].full_valuation
        found |= {"search 0": over_cost(gains[0], cost), "over full": estimate(gains[0] / full)}
        row["networks"].append(plain(found))
    return row


def measure(which: str, *job: Any) -> Row:
    """Return a row of the study."""
    return table(*job) if which == "table" else levels(*job)


def main(arguments: list[str] | None = None) -> None:
    """Measure and store, from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m hdpm_book.federated.study", description=main.__doc__
    )
    parser.add_argument("--folder", type=Path, default=STUDIES)
    given = parser.parse_args(arguments)
    jobs, row, about = study()
    collect(given.folder, "published", jobs, row, about, "jax", "jaxlib", "optax", "numpy")


def study() -> Study:
    """Return the networks to measure, and how one is."""
    for name in ("fl_market_networks", "fl_market_instances"):
        retrieval.real(name)  # an error without them: nothing of stand-ins is recorded
    jobs: list[tuple[Any, ...]] = [("table", law) for law in KINDS]
    jobs += [("levels", law, M) for law, M in product(KINDS, LEVELS)]
    about: Row = {"command": "python -m hdpm_book.federated.study"}
    about |= {"profiles": PROFILES, "searched": SEARCHED, "steps": STEPS, "reach": REACH}
    return jobs, measure, about


if __name__ == "__main__":
    main()
