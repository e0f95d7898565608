"""Small networks of ours, for where the published ones cannot be had: trained by the cells of the
page.

``python -m hdpm_book.federated.training`` runs the cells of :doc:`/book/federated/networks` up to
the function that trains, trains a RegretNet, an M-RegretNet and a DM-RegretNet, and stores them
with how they came about.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from hdpm_book.federated.regretnet import KINDS, TRAINED, Network, save
from hdpm_book.notebook import MODE
from hdpm_book.records import provenance

PAGE = Path(__file__).with_name("networks.md")
SETTINGS = {"seed": 0, "epochs": 20, "K": 64, "T": 16}


def page_functions(last: str = "def train(") -> dict[str, Any]:
    """What the page defines up to the cell that holds `last`."""
    import jupytext  # of the environment that builds the book

    os.environ[MODE] = "explore"
    space: dict[str, Any] = {}
    for cell in jupytext.read(PAGE).cells:
        if cell.cell_type == "code":
            exec(cell.source, space)
            if last in cell.source:
                break
    return space


def main() -> None:
    """Train and store."""
    train = page_functions()["train"]
    for kind in KINDS:
        levels = 1 if kind == "RegretNet" else 8
        *_, (weights, log) = train(kind, levels, **SETTINGS)
        arrays = {
            part: tuple((np.asarray(a), np.asarray(b)) for a, b in layers)
            for part, layers in weights.items()
        }
        about = provenance("jax", "jaxlib", "optax", "numpy") | {
            "settings": SETTINGS,
            "last epoch": log,
        }
        save(TRAINED / kind.lower(), Network(kind, arrays), about)


if __name__ == "__main__":
    main()
