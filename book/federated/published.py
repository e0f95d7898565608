"""The networks that FL-Market's authors trained, read without PyTorch; or networks of ours, where
theirs are not there.

The files lie where the paper's second footnote says; the pages cite them by commit
(``data/datasets.yaml``). Each is a zip of a pickle and of raw float32 numbers. The pickle is read
by an unpickler that knows four names and refuses every other, after the hash of the file.

In the files "nothing" is the last outcome and the buyer's fraction the last one of the money; here
both are the first, as the paper numbers them.
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpm_book import retrieval
from hdpm_book.federated.regretnet import HIDDEN, Network, Weights, load_trained, untrained
from hdpm_lib.validation import check_choice

LAWS = {"IID": "iid", "Non-IID": "niid"}
FILES = {
    "RegretNet": "reg",
    "M-RegretNet": "8-reg",
    "DM + ConvAggr": "dm-reg_convl",
    "DM + OptAggr": "dm-reg_opt",
}
STANDINS = {name: (name if name[0] != "D" else "DM-RegretNet").lower() for name in FILES}
LEVELS = (1, 2, 4, 8, 16)
INSTANCES = 10
FLOAT = np.dtype("<f4")


def _tensor(
    storage: NDArray[Any], offset: int, shape: Sequence[int], strides: Sequence[int], *_: Any
) -> NDArray[Any]:
    """Return a tensor of a storage, which has to hold it row by row, as PyTorch writes weights."""
    size = math.prod(shape)
    if tuple(strides) != tuple(math.prod(shape[k + 1 :]) for k in range(len(shape))):
        raise pickle.UnpicklingError(f"a tensor of shape {tuple(shape)} is not stored row by row")
    if min((offset, *shape)) < 0 or offset + size > len(storage):
        raise pickle.UnpicklingError(
            f"a tensor of shape {tuple(shape)} is not inside its {len(storage)} numbers"
        )
    return storage[offset : offset + size].reshape(shape)


ADMITTED = {
    ("collections", "OrderedDict"): OrderedDict,
    ("argparse", "Namespace"): SimpleNamespace,
    ("torch", "FloatStorage"): FLOAT,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
}


class _Reader(pickle.Unpickler):
    """An unpickler for files of PyTorch that hold settings and float32 tensors, and nothing that
    could act.
    """

    def __init__(self, archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(io.BytesIO(archive.read(f"{folder}/data.pkl")))
        self.archive = archive
        self.folder = folder

    def find_class(self, module: str, name: str) -> Any:
        """Find one of the four names."""
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(
                f"{module}.{name} is not among what a trained network needs: it is refused"
            )
        return ADMITTED[module, name]

    def persistent_load(self, pid: Any) -> NDArray[Any]:
        """Return the numbers of a tensor, from the file beside the pickle."""
        _, kind, key, _, count = pid
        raw = self.archive.read(f"{self.folder}/data/{key}")
        if kind is not FLOAT or len(raw) != count * FLOAT.itemsize:
            raise pickle.UnpicklingError(
                f"storage {key} does not hold {count} numbers of type float32"
            )
        return np.frombuffer(raw, FLOAT)


def read(raw: bytes) -> tuple[Network, dict[str, Any]]:
    """Return a network and the settings of its training, from the bytes of a file.

    Raises
    ------
    pickle.UnpicklingError
        If the file asks for anything but the four names, or holds tensors in another order or
        beyond their storage.
    """
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        (pickled,) = (name for name in archive.namelist() if name.endswith("data.pkl"))
        found = _Reader(archive, pickled.rpartition("/")[0]).load()
    arch = found["arch"]
    settings = vars(found["args"])
    weights: Weights = {}
    for part in ("allocation", "payment"):
        layers = [f"module.{part}_head.{2 * layer}" for layer in range(len(HIDDEN) + 1)]
        arrays = [
            [found["state_dict"][f"{layer}.{x}"].astype(float) for x in ("weight", "bias")]
            for layer in layers
        ]
        # what is sold by owner, what is paid by fraction: the last becomes the first
        shape = (arch["n_agents"], -1) if part == "allocation" else (1, -1)
        arrays[-1] = [
            np.roll(x.reshape(*shape, *x.shape[1:]), 1, axis=1).reshape(x.shape) for x in arrays[-1]
        ]
        weights[part] = tuple((slope.T, offset) for slope, offset in arrays)
    kind = "RegretNet" if arch["n_items"] == 1 else "M-RegretNet"
    if settings["a_activation"] == "deterministic":
        kind = "DM-RegretNet"
    return Network(kind, weights, settings["smoothing"]), settings


def _files(name: str, what: str) -> dict[str, bytes] | None:
    """Return the raw files of a data set; or None, and then a notice that says what stands in."""
    found = retrieval.real_or_none(name)
    if found is None:
        _notice(what)
    return found and found[0]


@cache
def _notice(what: str) -> None:
    """Say it once on a page, which may ask for networks many times."""
    retrieval.notify(
        f"FL-Market's trained networks are not there. These results use {what}, of the same shape."
    )


def networks(law: str) -> dict[str, Network]:
    """Return RegretNet, M-RegretNet, and DM-RegretNet trained for either rule of aggregation, for
    one law of the sizes.

    Where the published files cannot be had, small networks of ours take their place, the same for
    both laws.

    Parameters
    ----------
    law : {"IID", "Non-IID"}
    """
    check_choice(law, "law", tuple(LAWS))
    files = _files("fl_market_networks", "small networks that were trained for this book")
    if files is None:
        return {name: load_trained(standin) for name, standin in STANDINS.items()}
    return {name: read(files[f"{stem}_nslkdd_{LAWS[law]}.pt"])[0] for name, stem in FILES.items()}


def stored_settings(law: str) -> dict[str, dict[str, Any]]:
    """Return the settings stored in the files of :func:`networks`; empty for stand-ins."""
    check_choice(law, "law", tuple(LAWS))
    files = _files("fl_market_networks", "small networks that were trained for this book")
    return (
        {name: read(files[f"{stem}_nslkdd_{LAWS[law]}.pt"])[1] for name, stem in FILES.items()}
        if files
        else {}
    )


def instances(law: str) -> dict[int, list[Network]]:
    """Return ten lotteries for each number of levels of Figure 10, for one law of the sizes;
    untrained ones as a stand-in.
    """
    check_choice(law, "law", tuple(LAWS))
    several = _files("fl_market_instances", "networks without any training")
    first = _files("fl_market_networks", "networks without any training") if several else None
    if several is None or first is None:
        return {M: [untrained(M, [M, seed]) for seed in range(INSTANCES)] for M in LEVELS}
    every = first | several
    end = f"nslkdd_{LAWS[law]}"
    found = {}
    for M in LEVELS:
        short = "" if M == 1 else f"{M}-"
        ending = "nslkdd_nidd" if (M, law) == (16, "Non-IID") else end  # so it is spelt there
        stem = f"{short}regretnet_{ending}/{short}reg_{end}"
        names = [f"{stem}.pt", *(f"{stem}_{k}.pt" for k in range(1, INSTANCES))]
        if M in (1, 8):
            names[0] = f"{short}reg_{end}.pt"
        found[M] = [read(every[name])[0] for name in names]
    return found
