"""Small networks of ours, for where the published ones cannot be had: trained by the cells of the
page.

``python -m hdpm_book.federated.training`` trains a RegretNet, an M-RegretNet and a DM-RegretNet by
the functions of :doc:`/book/federated/training`, and stores them with how they came about.
"""

from __future__ import annotations

import time

import numpy as np

from hdpm_book.federated.regretnet import KINDS, TRAINED, Network, save
from hdpm_book.records import page_functions, provenance

CELLS = (
    "smooth",
    "told",
    "lying",
    "objective_of",
    "violations",
    "rules",
    "downhill",
    "ascent",
    "reach",
    "PENALTIES",
    "slopes_of",
    "batch_of",
    "train",
)
SETTINGS = {"seed": 0, "epochs": 20, "K": 64, "T": 16}


def main() -> None:
    """Train and store."""
    made = provenance("jax", "jaxlib", "optax", "numpy")
    made |= {"command": "python -m hdpm_book.federated.training"}
    train = page_functions("federated/training", *CELLS)["train"]
    for kind in KINDS:
        began = time.process_time()
        levels = 1 if kind == "RegretNet" else 8
        *_, (weights, log) = train(kind, levels, **SETTINGS)
        arrays = {
            part: tuple((np.asarray(a), np.asarray(b)) for a, b in layers)
            for part, layers in weights.items()
        }
        about = made | {"settings": SETTINGS, "last epoch": log}
        about |= {"cpu_seconds": round(time.process_time() - began, 1)}
        save(TRAINED / kind.lower(), Network(kind, arrays), about)


if __name__ == "__main__":
    main()
