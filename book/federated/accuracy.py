"""Accuracy of models trained by FedSGD on what the learned auctions buy, run by run, at the settings of Figure 9.

``python -m hdpm_book.federated.accuracy`` trains on NSL-KDD, with the same owners, bids, money, noise and start for
every auction, and stores the accuracies in ``data/studies``. An interrupted study goes on after the last run.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdpm_book import datasets
from hdpm_book.federated import RECORDED
from hdpm_book.federated.meters import AGGREGATIONS
from hdpm_book.federated.partition import KINDS, budget_of
from hdpm_book.federated.regretnet import Network, Weights, load_trained, run
from hdpm_book.federated.study import bids_of, people
from hdpm_book.federated.training import FACTORS
from hdpm_book.records import Row, collect
from hdpm_lib.learners.fedsgd import Bought, fedsgd
from hdpm_lib.learners.gradients import accuracy, draw_bidders

NETWORKS = {  # trained for each of the two laws of the sizes
    "IID": {"RegretNet": "regretnet-iid", "M-RegretNet": "m-short-iid", "DM-RegretNet": "dm-opt-iid"},
    "Non-IID": {"RegretNet": "regretnet-niid", "M-RegretNet": "m-short-niid", "DM-RegretNet": "dm-opt-niid"},
}
Data = tuple[NDArray, NDArray, NDArray, NDArray]


def accuracies(
    data: Data, partition: str, networks: dict[str, tuple[Network, Weights]], seed: int, owners: int = 1000
) -> dict[str, float]:
    """Accuracies at the end of one run of 100 rounds with ten bidders, for each network and rule of aggregation.

    They go by names such as ``"DM-RegretNet, OptAggr"``.

    Parameters
    ----------
    data : tuple
        Features and labels to train on and to test with, as from :func:`~hdpm_book.datasets.nsl_kdd_design`.
    partition : {"IID", "Non-IID"}
    networks : dict
        Networks and weights for ten bidders, by name.
    seed : int
        Of owners, bids, money, start and noise, which all networks and rules share.

    """
    X, y, X_test, y_test = data
    rng = np.random.default_rng([seed, KINDS.index(partition)])
    rows, bids = people(y, partition, 1, rng, owners)
    asked = draw_bidders(owners, 10, 100, 1, rng)
    bidding = bids_of(bids, asked)
    money = budget_of(bidding, rng.uniform(*FACTORS, asked.shape[:2]))
    start = rng.uniform(-1, 1, (y.max() + 1, X.shape[1])) / np.sqrt(X.shape[1] - 1)
    limits, found = bids.privacy_budget, {}
    for name, network in networks.items():
        sold = run(*network, bidding, money, np.random.default_rng([seed, 2]))
        auction, noise = (
            partial(_bought, Bought(sold.privacy_loss, sold.payments, money)),
            np.random.default_rng([seed, 3]),
        )
        train = partial(fedsgd, X, y, rows, limits, asked, AGGREGATIONS, start, arithmetic="ideal")
        ended = train(rng=noise, every=100, auction=auction)
        for rule in AGGREGATIONS:
            found[f"{name}, {rule}"] = round(float(accuracy(ended.parameters(rule)[-1], X_test, y_test)[0]), 5)
    return found


def _bought(made: Bought, _: NDArray) -> Bought:
    """An auction that was held before."""
    return made


def main(arguments: list[str] | None = None) -> None:
    """Command line: run and store."""
    parser = argparse.ArgumentParser(prog="python -m hdpm_book.federated.accuracy", description=main.__doc__)
    parser.add_argument("--runs", type=int, default=500, help="for each law of the sizes; default: %(default)s")
    parser.add_argument("--folder", type=Path, default=RECORDED)
    given = parser.parse_args(arguments)
    train, test = datasets.nsl_kdd("train"), datasets.nsl_kdd("test")
    data = datasets.nsl_kdd_design(train, test)
    loaded = {kind: {name: load_trained(file) for name, file in NETWORKS[kind].items()} for kind in NETWORKS}

    def row(kind: str, seed: int) -> Row:
        return {"sizes": kind, "seed": seed} | accuracies(data, kind, loaded[kind], seed)

    jobs = [(kind, seed) for seed in range(given.runs) for kind in NETWORKS]
    about = {"networks": NETWORKS, "data": train.source, "runs": given.runs}
    collect(given.folder, "accuracy", jobs, row, about, "jax", "numpy")


if __name__ == "__main__":
    main()
