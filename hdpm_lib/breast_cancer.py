"""The two Breast Cancer Wisconsin sets: scikit-learn's copy of one, files or UCI for the other."""

from __future__ import annotations

import io
import time
from importlib import resources
from typing import Literal

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

from hdpm_lib import retrieval
from hdpm_lib.optional import extra
from hdpm_lib.retrieval import DataIntegrityError, Dataset, DataUnavailableError, Source, sha256

ORIGINAL_COLUMNS = tuple(
    """clump_thickness cell_size_uniformity cell_shape_uniformity marginal_adhesion single_epithelial_cell_size
    bare_nuclei bland_chromatin normal_nucleoli mitoses""".split()
)
# sha256 of the file's values (missing as 0) and of malignant (0, 1), as little-endian float64: UCI's table must match
ORIGINAL_VALUES = "2c0e7697b57afcf55526cb60fbdac01820e1b789a11e79fec4aec458a38c84d0"


def breast_cancer(
    variant: Literal["diagnostic", "original"] = "diagnostic", source: Literal["auto", "uci"] = "auto"
) -> Dataset:
    """Breast Cancer Wisconsin: 569 tumours with 30 measurements, or 699 with 9 grades from 1 to 10.

    Parameters
    ----------
    variant : {"diagnostic", "original"}
        UCI data set 17 or 15.
    source : {"auto", "uci"}
        "auto": scikit-learn's copy of the diagnostic one, which is always there; folder, cache, pinned URL, then UCI
        for the original one. "uci": only the package `ucimlrepo`, which asks the UCI repository.

    Returns
    -------
    Dataset
        Labels are "malignant" and "benign". In the original, 16 values of ``bare_nuclei`` are missing (NaN).

    Raises
    ------
    ValueError
        If an argument has another value.
    DataIntegrityError
        If a file's hash is wrong, or UCI's table differs from scikit-learn's (diagnostic) or from the pinned file.
    DataUnavailableError
        If UCI cannot be asked, or the original is nowhere. There is no stand-in.

    Notes
    -----
    W. H. Wolberg, W. N. Street, O. L. Mangasarian (1995); W. H. Wolberg, O. L. Mangasarian (1992), University of
    Wisconsin Hospitals, Madison. Both CC BY 4.0, as UCI states for donated sets.

    Examples
    --------
    >>> data = breast_cancer()
    >>> data.features.shape, int((data.labels == "benign").sum()), data.source
    ((569, 30), 357, 'scikit-learn')
    """
    if variant not in ("diagnostic", "original") or source not in ("auto", "uci"):
        raise ValueError(
            f"variant={variant!r}, source={source!r}: variant is 'diagnostic' or 'original', source 'auto' or 'uci'"
        )
    retrieval.mode()  # a wrong HDPM_DATA is an error here too
    if variant == "original":
        return original(source)
    bunch = load_breast_cancer(as_frame=True)
    labels = bunch.target_names[bunch.target.to_numpy()].astype(str)
    names = tuple(map(str, bunch.feature_names))
    if source == "auto":
        raw = resources.files(bunch.data_module).joinpath(bunch.filename).read_bytes()
        return Dataset("Breast Cancer (Diagnostic)", bunch.data, labels, names, "scikit-learn", sha256(raw))
    values, malignant = _from_uci(17, time.monotonic() + retrieval.DEADLINE)
    if not (np.array_equal(values, bunch.data) and np.array_equal(malignant, labels == "malignant")):
        raise DataIntegrityError("UCI's data set 17 differs from scikit-learn's copy: use source='auto'")
    return Dataset("Breast Cancer (Diagnostic)", bunch.data, labels, names, "uci", None)


def _from_uci(number: int, until: float) -> tuple[np.ndarray, np.ndarray]:
    """Values and whether malignant, as the UCI repository answers now."""

    def ask() -> tuple[np.ndarray, np.ndarray]:
        with extra("uci"):
            from ucimlrepo import fetch_ucirepo

        data = fetch_ucirepo(id=number).data
        values = data.features.apply(pd.to_numeric, errors="coerce").to_numpy(float)
        return values, data.targets.iloc[:, 0].isin(["M", 4]).to_numpy()

    try:
        # it has no time limit of its own
        return retrieval.once(f"uci {number}", lambda: retrieval.before(until, ask))
    except ImportError as error:
        raise DataUnavailableError(f"UCI cannot be asked: {error}") from error
    except Exception as error:
        raise DataUnavailableError(f"UCI data set {number} cannot be had ({type(error).__name__}: {error})") from error


def original(source: Literal["auto", "uci"]) -> Dataset:
    """The original variant, from files or from UCI, within one deadline."""
    if retrieval.mode() == "standin":
        raise DataUnavailableError("breast_cancer('original') has no stand-in: unset HDPM_DATA=standin")
    until, absent = time.monotonic() + retrieval.DEADLINE, ""
    if source == "auto":
        try:
            found, place = retrieval.real("breast_cancer_original", until)
            table = pd.read_csv(io.BytesIO(found["all"]), header=None, na_values="?").to_numpy(float)
            return _original_dataset(table[:, 1:-1], table[:, -1] == 4, place, sha256(found["all"]))
        except DataUnavailableError as error:
            absent = f"{error}; and "
    try:
        values, malignant = _from_uci(15, until)
    except DataUnavailableError as error:
        raise DataUnavailableError(f"{absent}{error}") from error
    table = np.nan_to_num(np.column_stack([values, malignant]))
    if sha256(table.astype("<f8").tobytes()) != ORIGINAL_VALUES:
        raise DataIntegrityError("UCI's data set 15 differs from the pinned file: it is not used")
    return _original_dataset(values, malignant, "uci", None)


def _original_dataset(values: np.ndarray, malignant: np.ndarray, source: Source, digest: str | None) -> Dataset:
    features = pd.DataFrame(values, columns=list(ORIGINAL_COLUMNS))
    features = features.astype({name: "int64" for name in ORIGINAL_COLUMNS if name != "bare_nuclei"})
    labels = np.where(malignant, "malignant", "benign")
    return Dataset("Breast Cancer (Original)", features, labels, ORIGINAL_COLUMNS, source, digest)
