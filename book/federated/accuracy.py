"""Accuracy of models trained by FedSGD on what auctions buy, run by run, at the settings of
FL-Market's Figure 9.

``python -m hdpm_book.federated.accuracy`` trains on NSL-KDD, with the same owners, bids, money,
noise and start for every auction, and stores the accuracies in ``data/studies``. An interrupted
study goes on after the last run.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpm_book import datasets, retrieval
from hdpm_book.federated.meters import AGGREGATIONS
from hdpm_book.federated.partition import FACTORS, KINDS, budget_of
from hdpm_book.federated.published import networks as published_networks
from hdpm_book.federated.regretnet import Network, run
from hdpm_book.records import STUDIES, Row, Study, collect, page_functions
from hdpm_lib.auctions.posted_prices import posted_prices
from hdpm_lib.learners.fedsgd import fedsgd
from hdpm_lib.learners.gradients import accuracy, draw_bidders

Data = tuple[NDArray, NDArray, NDArray, NDArray]
CELLS = ("sigma", "concentration", "people", "bids_of")


def accuracies(
    data: Data, partition: str, networks: dict[str, Network], seed: int, owners: int = 1000
) -> dict[str, float]:
    """Return accuracies at the end of one run of 100 rounds with ten bidders, for each auction and
    rule of aggregation.

    They go by names such as ``"DM + OptAggr, OptAggr"``. Auctions are the networks, posted prices
    and *everything sold*: no auction can buy more.

    Parameters
    ----------
    data : tuple
        Features and labels to train on and to test with, as from
        :func:`~hdpm_book.datasets.nsl_kdd_design`.
    partition : {"IID", "Non-IID"}
    networks : dict
        For ten bidders, by name.
    seed : int
        Of owners, bids, money, start and noise, which all auctions and rules share.

    """
    X, y, X_test, y_test = data
    rng = np.random.default_rng([seed, KINDS.index(partition)])
    page = page_functions("federated/learning", *CELLS)
    rows, bids = page["people"](y, partition, 1, rng, owners)
    asked = draw_bidders(owners, 10, 100, 1, rng)
    bidding = page["bids_of"](bids, asked)
    money = budget_of(bidding, rng.uniform(*FACTORS, asked.shape[:2]))
    start = rng.uniform(-1, 1, (y.max() + 1, X.shape[1])) / np.sqrt(X.shape[1] - 1)
    sales = {
        name: run(network, bidding, money, np.random.default_rng([seed, 2]))
        for name, network in networks.items()
    } | {"posted prices": posted_prices(bidding, money)}
    auctions = {name: partial(_held, sale) for name, sale in sales.items()}
    train = partial(
        fedsgd,
        X,
        y,
        rows,
        bids.privacy_budget,
        asked,
        AGGREGATIONS,
        start,
        arithmetic="ideal",
        every=100,
    )
    found = {}
    for name, auction in (auctions | {"everything sold": None}).items():
        ended = train(rng=np.random.default_rng([seed, 3]), auction=auction)
        for rule in AGGREGATIONS:
            found[f"{name}, {rule}"] = round(
                float(accuracy(ended.parameters(rule)[-1], X_test, y_test)[0]), 5
            )
    return found


def _held(sale: Any, _: NDArray) -> Any:
    """Return what was sold in an auction that was held before."""
    return sale


def main(arguments: list[str] | None = None) -> None:
    """Run and store, from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m hdpm_book.federated.accuracy", description=main.__doc__
    )
    parser.add_argument(
        "--runs", type=int, default=300, help="for each law of the sizes; default: %(default)s"
    )
    parser.add_argument("--folder", type=Path, default=STUDIES)
    given = parser.parse_args(arguments)
    jobs, row, about = study(given.runs)
    collect(given.folder, "accuracy", jobs, row, about, "numpy")


def study(runs: int = 300) -> Study:
    """Return the runs, and how one is made."""
    retrieval.real("fl_market_networks")  # an error without them: nothing of stand-ins is recorded
    train = datasets.nsl_kdd("train")
    test = datasets.nsl_kdd("test")
    data = datasets.nsl_kdd_design(train, test)
    loaded = {kind: published_networks(kind) for kind in KINDS}

    def row(kind: str, seed: int) -> Row:
        return {"sizes": kind, "seed": seed} | accuracies(data, kind, loaded[kind], seed)

    jobs = [(kind, seed) for seed in range(runs) for kind in KINDS]
    about: Row = {"command": "python -m hdpm_book.federated.accuracy", "data": train.source}
    return jobs, row, about | {"runs": runs}


if __name__ == "__main__":
    main()
