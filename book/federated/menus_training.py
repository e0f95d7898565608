"""The recorded run of the learned menus: the cells of the page, with more steps.

``python -m hdpm_book.federated.menus_training`` trains by the functions of
:doc:`/book/federated/menus` for about two minutes, and stores the weights with how they came about.
Nothing rests on how they did: :mod:`hdpm_lib.auctions.menus` lets owners choose exactly.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from hdpm_book.records import page_functions, provenance, store
from hdpm_lib.auctions.menus import TRAINED

CELLS = (
    "costs",
    "draw_markets",
    "levels",
    "pieces",
    "soft_losses",
    "loss",
    "first_weights",
    "train",
)
SETTINGS = {"partition": "IID", "owners": 10, "steps": 12_000, "batch": 512, "pool": 40_000}
SETTINGS |= {"rate": 5e-3, "hot": 0.08, "cold": 0.006}
LOG = 100  # steps between two entries of the log


def main(folder: Path = Path(str(TRAINED))) -> None:
    """Train and store."""
    about = provenance("jax", "jaxlib", "optax", "numpy", folder=folder)
    about |= {"command": "python -m hdpm_book.federated.menus_training"}
    train = page_functions("federated/menus", *CELLS)["train"]
    began = time.process_time()
    weights, losses = train(**SETTINGS, seed=0)
    seconds = round(time.process_time() - began, 1)
    arrays = {name: array.astype(np.float32) for name, array in weights.items()}
    np.savez_compressed(folder / "menus.npz", **arrays)  # type: ignore[arg-type]
    log = losses.reshape(-1, LOG).mean(1).astype(float).round(5).tolist()
    about |= {"settings": SETTINGS | {"log": LOG}, "seed": 0, "cpu_seconds": seconds, "log": log}
    store(folder / "menus.json", about)


if __name__ == "__main__":
    main()
