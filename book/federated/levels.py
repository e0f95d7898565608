"""What small DM-RegretNets sell if the error of their training counts the levels as printed, or as
in the published code.

``python -m hdpm_book.federated.levels`` trains by the cells of :doc:`/book/federated/training` and
stores the sales in ``data/studies/levels.json``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from hdpm_book.federated.partition import study_markets
from hdpm_book.federated.regretnet import Network, play
from hdpm_book.federated.training import CELLS, SETTINGS
from hdpm_book.records import STUDIES, Row, Study, collect, page_functions
from hdpm_lib.aggregation import error_bound, least_error_weights

M = 8
COUNTED = {
    "print": np.arange(M + 1) / M,
    "published code": np.append(0.0, 1 / np.arange(M, 0.0, -1)),
}
"""The part of the privacy budget that the error takes at each level, 0 first."""


def sales(counted: str, seed: int) -> Row:
    """Return shares of the levels, by Eq. (3), and the mean error bound where somebody sells."""
    train = page_functions("federated/training", *CELLS)["train"]
    settings = SETTINGS | {"seed": seed, "counted": COUNTED[counted]}
    *_, (weights, _) = train("DM-RegretNet", M, **settings)
    arrays = {
        part: tuple((np.asarray(a, float), np.asarray(b, float)) for a, b in layers)
        for part, layers in weights.items()
    }
    market, money = study_markets(500, "IID")
    level = play(Network("M-RegretNet", arrays), market, money)[0].argmax(-1)
    loss = level / M * market.privacy_budget
    error = error_bound(least_error_weights(loss, market.sizes), loss, market.sizes)
    shares = np.bincount(level.ravel(), minlength=M + 1) / level.size
    return {
        "counted": counted,
        "seed": seed,
        "sold": [round(float(share), 4) for share in shares],
        "error": round(float(error[np.isfinite(error)].mean()), 4),
    }


def main(arguments: list[str] | None = None) -> None:
    """Train and store, from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m hdpm_book.federated.levels", description=main.__doc__
    )
    parser.add_argument("--seeds", type=int, default=6, help="for each count; default: %(default)s")
    parser.add_argument("--folder", type=Path, default=STUDIES)
    given = parser.parse_args(arguments)
    jobs, row, about = study(given.seeds)
    collect(given.folder, "levels", jobs, row, about, "jax", "jaxlib", "optax", "numpy")


def study(seeds: int = 6) -> Study:
    """Return the trainings, and what one gives."""
    jobs = [(counted, seed) for counted in COUNTED for seed in range(seeds)]
    about: Row = {"command": "python -m hdpm_book.federated.levels", "seeds": seeds}
    return jobs, sales, about | {"settings": {x: SETTINGS[x] for x in ("epochs", "K", "T")}}


if __name__ == "__main__":
    main()
