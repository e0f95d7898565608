"""Many short trainings of the auction networks, measured: how results depend on the seed and on the number of levels.

``python -m hdpm_book.federated.study levels`` trains ten M-RegretNets for each `M` of the paper's Figure 10,
``... seeds`` ten DM-RegretNets, and ten without the penalty for dav, ``... trading`` M-RegretNets by two schedules,
``... plain`` DM-RegretNets by the plain steps that the paper prints, ``... size`` all three networks with more markets
in a batch, longer searches for misreports, and more batches.
Weights are not kept; what is measured goes into ``data/studies``. A study that was interrupted goes on after the last
network.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_book.federated import RECORDED
from hdpm_book.federated.meters import error_of_valid, metrics
from hdpm_book.federated.partition import (
    KINDS,
    budget_of,
    deal,
    dirichlet_counts,
    draw_bids,
    draw_sizes,
    lognormal_sizes,
)
from hdpm_book.federated.regretnet import Network, Weights, run
from hdpm_book.federated.training import FACTORS, Settings, train
from hdpm_book.records import Row, collect
from hdpm_lib.auctions.bids import Bids
from hdpm_lib.validation import check_choice, check_count, check_finite, extra

with extra("book"):
    import jax

PACKAGES = ("jax", "jaxlib", "optax", "numpy")
SHORT = partial(Settings, batches=8, profiles=128, search=5)
PRINTED = partial(Settings, profiles=128, search=5)  # the printed schedule of 100 batches, or its first epochs
PLAIN = partial(PRINTED, Network("DM-RegretNet"), profiles=64, adam=False)
SMALL = partial(Settings, batches=8, profiles=64, search=5)
SIZES: tuple[dict[str, Any], ...] = (
    {"profiles": 16}, {}, {"profiles": 256}, {"profiles": 1024},
    {"search": 1}, {"search": 25}, {"search": 100},
    {"batches": 32}, {"batches": 100}, {"profiles": 256, "search": 25},
)  # fmt: skip
THREE = (Network("RegretNet", levels=1), Network("M-RegretNet"), Network("DM-RegretNet"))
STUDIES = {  # with the number of seeds
    "levels": ([SHORT(Network("M-RegretNet", levels=M)) for M in (1, 2, 4, 8, 16)], 10),
    "seeds": ([SHORT(Network("DM-RegretNet"), determinism=penalised) for penalised in (True, False)], 10),
    "trading": ([SHORT(Network("M-RegretNet")), PRINTED(Network("M-RegretNet"), epochs=8)], 10),
    "plain": ([PLAIN(epochs=5, normalised=False), PLAIN(epochs=15)], 4),
    "size": ([SMALL(network, **size) for size in SIZES for network in THREE], 5),
}
VALUATION = ("family", "rate")


def study_markets(count: int = 300, partition: str = "IID") -> tuple[Bids, np.ndarray]:
    """The markets of the studies: the first of the book's test profiles, and budgets."""
    check_choice(partition, "partition", ("IID", "Non-IID"))
    rng = np.random.default_rng({"IID": 20230, "Non-IID": 20231}[partition])
    market = draw_bids(draw_sizes(partition, 2000, rng), rng)
    budget = budget_of(market, rng.uniform(*FACTORS, 2000))
    return market[: check_count(count, "count")], budget[:count]


def people(
    labels: NDArray[Any], law: str, runs: int, rng: np.random.Generator, owners: int = 1000, least: int = 10
) -> tuple[list[list[NDArray[np.int64]]], Bids]:
    """Owners of independent runs, by the laws of the published code: the records of each, and bids (runs, owners)."""
    check_choice(law, "law", KINDS)
    if law == "IID":
        counts = [lognormal_sizes(len(labels), owners, rng, least=least) for _ in range(runs)]
    else:
        counts = [dirichlet_counts(np.bincount(labels), owners, rng, extra=least) for _ in range(runs)]
    rows = [deal(labels, count, rng) for count in counts]
    return rows, draw_bids([[len(own) for own in market] for market in rows], rng)


def bids_of(bids: Bids, asked: NDArray[np.int64]) -> Bids:
    """Bids of those who are asked, of shape (rounds, runs, bidders)."""
    return Bids(*(np.take_along_axis(part[None], asked, axis=2) for part in vars(bids).values()))


def common_share(levels: ArrayLike) -> float:
    """How often an owner sells at the most common level of her position, the mean over the positions.

    It is 1 if what is sold does not depend on the bids.

    Parameters
    ----------
    levels : array of shape (k, n)
        Levels 0 to `M` that were sold in `k` markets; whole numbers up to rounding.

    Examples
    --------
    >>> common_share([[8, 0], [8, 1], [8, 1], [8, 8]])
    0.75
    """
    sold = np.rint(check_finite(levels, "levels", 2, 0)).astype(int)
    return float(np.mean([np.unique(column, return_counts=True)[1].max() for column in sold.T]) / len(sold))


def heard(network: Network, weights: Weights, market: Bids, budget: ArrayLike, parts: Sequence[str]) -> float:
    """How often an owner's own report changes the level that DM-RegretNet buys from her, as a share of all owners.

    Parameters
    ----------
    market : Bids
        Of shape (k, n).
    parts : sequence of str
        Fields of the bid to replace, one owner at a time, by those of the owner at the same place in the market before;
        all else stays, and so does the budget.

    """
    for part in parts:
        check_choice(part, "parts", tuple(Bids.__dataclass_fields__))
    before, changed = run(network, weights, market, budget).privacy_loss / market.privacy_budget, []
    for owner in range(network.owners):
        new = {part: getattr(market, part).copy() for part in parts}
        for values in new.values():
            values[:, owner] = np.roll(values[:, owner], 1)
        other = replace(market, **new)
        after = run(network, weights, other, budget).privacy_loss / other.privacy_budget
        changed.append(np.abs(after - before)[:, owner] > 0.5 / network.levels)
    return float(np.mean(changed))


def measure(settings: Settings, seed: int, market: Bids, budget: ArrayLike) -> Row:
    """Train one network and measure it.

    The row has kind, levels, seed, seconds of the processor, means of the last epoch, and as pairs of value and error
    the :func:`~hdpm_book.federated.meters.metrics` and the error bound of the valid draws; for DM-RegretNet also mean
    and standard deviation of the level sold at each position, :func:`common_share`, and how far valuations are
    :func:`heard`. If the weights are not numbers any more, it ends with the seconds.
    """
    began, net = time.process_time(), settings.network
    *_, (state, log) = train(settings, seed)
    jax.block_until_ready(state)  # JAX comes back before it has computed
    row = {"kind": net.kind, "levels": net.levels, "seed": seed, "determinism": settings.determinism}
    row["cpu_seconds"] = round(time.process_time() - began, 1)
    if not all(np.isfinite(w).all() for w in state["weights"].values()):
        return row
    row["log"] = {name: round(float(values.mean()), 4) for name, values in log.items()}
    found = metrics(net, state["weights"], market, budget, rng=np.random.default_rng(seed))
    row["metrics"] = {name: [round(x, 5) for x in value] for name, value in found.items()}
    drawn = run(net, state["weights"], market, budget, np.random.default_rng(seed)).privacy_loss
    row["error"] = [round(x, 4) for x in error_of_valid(drawn, market.sizes)[0]]
    if net.kind == "DM-RegretNet":
        levels = net.levels * run(net, state["weights"], market, budget).privacy_loss / market.privacy_budget
        row["common_share"] = round(common_share(levels), 4)
        row["heard"] = round(heard(net, state["weights"], market, budget, VALUATION), 4)
        row["mean"], row["deviation"] = levels.mean(0).round(2).tolist(), levels.std(0).round(2).tolist()
    return row


def main(arguments: list[str] | None = None) -> None:
    """Command line: run a study and store what it finds."""
    parser = argparse.ArgumentParser(prog="python -m hdpm_book.federated.study", description=main.__doc__)
    parser.add_argument("study", choices=sorted(STUDIES))
    parser.add_argument("--folder", type=Path, default=RECORDED)
    given = parser.parse_args(arguments)
    settings, seeds = STUDIES[given.study]
    markets = {one.partition: study_markets(partition=one.partition) for one in settings}

    def row(which: int, seed: int) -> Row:
        one = settings[which]
        return {"setting": which} | measure(one, seed, *markets[one.partition])

    jobs = [(which, seed) for which in range(len(settings)) for seed in range(seeds)]
    about = {"settings": [asdict(one) for one in settings], "test_markets": len(markets[settings[0].partition][1])}
    collect(given.folder, given.study, jobs, row, about, *PACKAGES)


if __name__ == "__main__":
    main()
