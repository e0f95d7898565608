"""The data sets: found in a folder, downloaded once by hash, or replaced by a stand-in that says
so.

Looked for in this order: the folder ``HDPM_DATA_DIR`` (files plain or ``.gz``), the cache, the
pinned URL; failing all, a stand-in. ``HDPM_DATA=real`` forbids the stand-in, ``HDPM_DATA=standin``
forces it. Of the two Breast Cancer Wisconsin sets one comes with scikit-learn; the other is looked
for likewise, and then asked of UCI. Both are real or an error.

scikit-learn is imported where it is used: whoever only asks for a source need not wait a second.
"""

from __future__ import annotations

import io
import socket
from importlib import resources
from typing import Literal

import numpy as np
import pandas as pd

from hdpm_book import retrieval, standins
from hdpm_book.retrieval import (
    DataIntegrityError,
    Dataset,
    DataUnavailableError,
    Source,
    StandInWarning,
    noticed,
    sha256,
)
from hdpm_lib.schema import Category, Number, Schema
from hdpm_lib.validation import check_choice, extra

__all__ = [
    "MEDICAL_CHARGES",
    "MEDICAL_FEATURES",
    "DataIntegrityError",
    "DataUnavailableError",
    "Dataset",
    "StandInWarning",
    "breast_cancer",
    "medical_cost",
    "medical_design",
    "nsl_kdd",
    "nsl_kdd_design",
    "nsl_kdd_table",
    "source_of",
]

# What may be known of the medical columns without looking at a row. Whatever lies outside is moved
# to the end.
MEDICAL_FEATURES = Schema(
    [
        # adults up to the age of Medicare, 65: so the column is described by Lantz (2013)
        Number("age", 18, 64),
        # wider than the classes of the WHO, whose outer limits are 16 and 40
        Number("bmi", 10, 60),
        Number("children", 0, 5),  # 5 stands for five and more
        Category("sex", ("female", "male")),
        Category("smoker", ("no", "yes")),
        Category("region", standins.REGIONS),  # of the US, as the provider of the file names them
    ],
    intercept=True,
    clip=True,
)
# A rule, not a finding: charges above 50,000 dollars count as 50,000.
MEDICAL_CHARGES = Schema([Number("charges", 0, 50_000)], clip=True)

NSL_KDD_CLASSES = ("Normal", "DoS", "Probe", "R2L", "U2R")
# httptunnel and worm are filed differently by different authors (U2R, R2L); both are in the test
# part only.
_ATTACKS = {
    "Normal": "normal",
    "DoS": "neptune smurf back teardrop pod land apache2 processtable mailbomb udpstorm worm",
    "Probe": "satan ipsweep portsweep nmap mscan saint",
    "R2L": (
        "warezclient guess_passwd warezmaster imap ftp_write multihop phf spy snmpguess"
        " snmpgetattack httptunnel named sendmail xlock xsnoop"
    ),
    "U2R": "buffer_overflow rootkit loadmodule perl ps xterm sqlattack",
}
ATTACK_CLASS = {attack: label for label, attacks in _ATTACKS.items() for attack in attacks.split()}
NSL_KDD_COLUMNS = tuple(
    """duration protocol_type service flag src_bytes dst_bytes land wrong_fragment urgent hot
    num_failed_logins logged_in num_compromised root_shell su_attempted num_root
    num_file_creations num_shells num_access_files num_outbound_cmds is_host_login
    is_guest_login count srv_count serror_rate srv_serror_rate rerror_rate srv_rerror_rate
    same_srv_rate diff_srv_rate srv_diff_host_rate dst_host_count dst_host_srv_count
    dst_host_same_srv_rate dst_host_diff_srv_rate dst_host_same_src_port_rate
    dst_host_srv_diff_host_rate dst_host_serror_rate dst_host_srv_serror_rate
    dst_host_rerror_rate dst_host_srv_rerror_rate""".split()
)
ORIGINAL_COLUMNS = tuple(
    """clump_thickness cell_size_uniformity cell_shape_uniformity marginal_adhesion
    single_epithelial_cell_size bare_nuclei bland_chromatin normal_nucleoli mitoses""".split()
)
# sha256 of the file's values (missing as 0) and of malignant (0, 1), as little-endian float64:
# UCI's table must match
ORIGINAL_VALUES = "2c0e7697b57afcf55526cb60fbdac01820e1b789a11e79fec4aec458a38c84d0"


def medical_cost() -> Dataset:
    """Return Medical Cost: 1338 insured persons with age, sex, bmi, children, smoker and region.

    Returns
    -------
    Dataset
        Labels are the yearly charges in dollars.

    Raises
    ------
    DataIntegrityError
        If a file is found whose hash is wrong.
    DataUnavailableError
        If ``HDPM_DATA=real`` and the file cannot be had.

    Notes
    -----
    B. Lantz, *Machine Learning with R* (Packt, 2013); the licence is not stated for certain. The
    file is itself simulated (see :func:`~hdpm_book.standins.medical_base_charge`), so it says
    nothing about actual patients. The rows of the stand-in follow the same law.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore", StandInWarning)  # a stand-in is fine here
    >>> medical_cost().names
    ('age', 'sex', 'bmi', 'children', 'smoker', 'region')
    """
    found = retrieval.real_or_none("medical_cost")
    frame = standins.medical_cost() if found is None else pd.read_csv(io.BytesIO(found[0]["all"]))
    source: Source = "stand-in" if found is None else found[1]
    digest = None if found is None else sha256(found[0]["all"])
    features = frame.drop(columns="charges")
    return noticed(
        Dataset(
            "Medical Cost",
            features,
            frame["charges"].to_numpy(float),
            tuple(features),
            source,
            digest,
        )
    )


def medical_design(
    dataset: Dataset, ranges: Literal["declared", "data"] = "declared"
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return features and labels in [0, 1] for ridge regression on Medical Cost, in the coding of
    the ridge paper.

    Parameters
    ----------
    dataset : Dataset
        From `medical_cost`.
    ranges : {"declared", "data"}
        Ends that stand for 0 and 1. ``"declared"``: those of `MEDICAL_FEATURES` and
        `MEDICAL_CHARGES`, which are known without the data; values outside are moved to the ends.
        ``"data"``: the least and largest values of all rows, as in the paper. **Nothing that is
        computed from the latter is private**: one record moves all others.

    Returns
    -------
    X : ndarray, shape (n, 12)
        Age, bmi and children, scaled; sex, smoker and region one-hot (2 + 2 + 4); a last column of
        ones.
    y : ndarray, shape (n,)
        Charges, scaled.
    names : tuple of str
        The twelve columns.

    Raises
    ------
    ValueError
        If the data set is another one, or `ranges` is neither.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore", StandInWarning)  # a stand-in is fine here
    >>> X, y, names = medical_design(medical_cost())
    >>> X.shape, bool(X.max() <= 1), names[-1]
    ((1338, 12), True, 'intercept')
    """
    from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

    if dataset.title != "Medical Cost":
        raise ValueError(f"dataset is {dataset.title!r}: pass what medical_cost() returns")
    check_choice(ranges, "ranges", ("declared", "data"))
    columns = [
        c for c in (*MEDICAL_FEATURES.columns, *MEDICAL_CHARGES.columns) if isinstance(c, Number)
    ]
    table = dataset.features.assign(charges=dataset.labels)[[c.name for c in columns]]
    ends = table if ranges == "data" else pd.DataFrame({c.name: [c.low, c.high] for c in columns})
    scaled = MinMaxScaler(clip=True).fit(ends).transform(table)
    levels = [list(c.levels) for c in MEDICAL_FEATURES.columns if isinstance(c, Category)]
    one_hot = OneHotEncoder(categories=levels, sparse_output=False)
    coded = one_hot.fit_transform(dataset.features[["sex", "smoker", "region"]].astype(object))
    X = np.column_stack([scaled[:, :-1], coded, np.ones(len(scaled))])
    names = (
        "age",
        "bmi",
        "children",
        "female",
        "male",
        "smoker_no",
        "smoker_yes",
        *standins.REGIONS,
        "intercept",
    )
    return X, scaled[:, -1].copy(), names


def nsl_kdd(part: Literal["train", "test"] = "train") -> Dataset:
    """Return NSL-KDD: connections of a network with 41 features, to be told apart as normal or one
    of four kinds of attack.

    Parameters
    ----------
    part : {"train", "test"}
        125,973 or 22,544 connections; the test part holds 17 attacks that the train part does not.

    Returns
    -------
    Dataset
        Labels are class names: Normal, DoS, Probe, R2L, U2R. Features are raw (38 numbers;
        protocol_type, service and flag are text: 3, 70 and 11 levels in the train part).

    Raises
    ------
    ValueError
        If `part` is neither.
    DataIntegrityError
        If a file is found whose hash is wrong.
    DataUnavailableError
        If ``HDPM_DATA=real`` and the files cannot be had.

    Notes
    -----
    M. Tavallaee, E. Bagheri, W. Lu, A. Ghorbani, "A Detailed Analysis of the KDD CUP 99 Data Set",
    IEEE CISDA 2009; no licence was found. Attack names and difficulty levels (which are not
    features) are in `nsl_kdd_table`. Both parts are real or both are stand-ins. The stand-in is
    described in :func:`~hdpm_book.standins.nsl_kdd`.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore", StandInWarning)  # a stand-in is fine here
    >>> test = nsl_kdd("test")
    >>> test.features.shape, int((test.labels == "DoS").sum())
    ((22544, 41), 7460)
    """
    check_choice(part, "part", ("train", "test"))
    found = retrieval.real_or_none("nsl_kdd")
    if found is None:
        features, labels = standins.nsl_kdd(part)
        return noticed(Dataset("NSL-KDD", features, labels, NSL_KDD_COLUMNS, "stand-in", None))
    raw = found[0][part]
    frame = _read_nsl_kdd(raw)
    labels = frame["attack"].map(ATTACK_CLASS).to_numpy(str)
    return noticed(
        Dataset(
            "NSL-KDD", frame[list(NSL_KDD_COLUMNS)], labels, NSL_KDD_COLUMNS, found[1], sha256(raw)
        )
    )


def nsl_kdd_design(
    train: Dataset, test: Dataset
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return features in [0, 1] and numbered classes for logistic regression on NSL-KDD.

    Parameters
    ----------
    train, test : Dataset
        From `nsl_kdd`; ranges of numbers are taken from the train part and have to be treated as
        public.

    Returns
    -------
    X : ndarray of float32, shape (n, 123)
        38 numbers, min-max scaled; protocol_type, service, flag one-hot (3 + 70 + 11 public
        levels); then ones.
    y : ndarray of int, shape (n,)
        Place of the class in ``NSL_KDD_CLASSES``.
    X_test, y_test : ndarray
        The same of the test part, numbers moved into the ranges.

    Raises
    ------
    ValueError
        If they are not the two parts of NSL-KDD.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore", StandInWarning)  # a stand-in is fine here
    >>> X, y, X_test, y_test = nsl_kdd_design(nsl_kdd("train"), nsl_kdd("test"))
    >>> X.shape, X_test.shape, int((y_test == 1).sum())
    ((125973, 123), (22544, 123), 7460)
    """
    from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

    for dataset, rows in ((train, 125_973), (test, 22_544)):
        if dataset.title != "NSL-KDD" or len(dataset.labels) != rows:
            raise ValueError(
                f"got {len(dataset.labels)} rows of {dataset.title!r}: pass both parts from"
                " nsl_kdd()"
            )
    schema = standins.nsl_kdd_statistics()
    numbers = [c for c in NSL_KDD_COLUMNS if c not in standins.CATEGORICAL]
    levels = [
        sorted(set(schema["protocol_of"].values())),
        sorted(schema["protocol_of"]),
        sorted(schema["flags"]),
    ]
    one_hot = OneHotEncoder(categories=levels, sparse_output=False, dtype=np.float32)
    scaler = MinMaxScaler(clip=True).fit(train.features[numbers])
    result = []
    for part in (train, test):
        coded = one_hot.fit_transform(part.features[list(standins.CATEGORICAL)].astype(object))
        scaled = scaler.transform(part.features[numbers]).astype(np.float32)
        result.append(np.column_stack([scaled, coded, np.ones(len(scaled), dtype=np.float32)]))
    y, y_test = (
        np.array([NSL_KDD_CLASSES.index(label) for label in part.labels]) for part in (train, test)
    )
    return result[0], y, result[1], y_test


def nsl_kdd_table(part: Literal["train", "test"] = "train") -> pd.DataFrame:
    """Return one real file of NSL-KDD with all its 43 columns, which has no stand-in.

    Parameters
    ----------
    part : {"train", "test"}
        Which file.

    Returns
    -------
    DataFrame
        The 41 features, ``attack`` (a key of `ATTACK_CLASS`) and ``difficulty`` (0 to 21; not a
        feature).

    Raises
    ------
    ValueError
        If `part` is neither.
    DataIntegrityError, DataUnavailableError
        If a file is not the pinned one, or cannot be had.

    Examples
    --------
    >>> ATTACK_CLASS["neptune"], len(ATTACK_CLASS)
    ('DoS', 40)
    """
    check_choice(part, "part", ("train", "test"))
    if retrieval.mode() == "standin":
        raise DataUnavailableError(
            "nsl_kdd_table has no stand-in: unset HDPM_DATA=standin or use nsl_kdd"
        )
    return _read_nsl_kdd(retrieval.real("nsl_kdd")[0][part])


def _read_nsl_kdd(raw: bytes) -> pd.DataFrame:
    return pd.read_csv(
        io.BytesIO(raw), header=None, names=[*NSL_KDD_COLUMNS, "attack", "difficulty"]
    )


def breast_cancer(
    variant: Literal["diagnostic", "original"] = "diagnostic",
    source: Literal["auto", "uci"] = "auto",
) -> Dataset:
    """Return Breast Cancer Wisconsin: 569 tumours with 30 measurements, or 699 with 9 grades from 1
    to 10.

    Parameters
    ----------
    variant : {"diagnostic", "original"}
        UCI data set 17 or 15.
    source : {"auto", "uci"}
        "auto": scikit-learn's copy of the diagnostic one, which is always there; folder, cache,
        pinned URL, then UCI for the original one. "uci": only the package `ucimlrepo`, which asks
        the UCI repository.

    Returns
    -------
    Dataset
        Labels are "malignant" and "benign". In the original, 16 values of ``bare_nuclei`` are
        missing (NaN).

    Raises
    ------
    ValueError
        If an argument has another value.
    DataIntegrityError
        If a file's hash is wrong, or UCI's table differs from scikit-learn's (diagnostic) or from
        the pinned file.
    DataUnavailableError
        If UCI cannot be asked, or the original is nowhere. There is no stand-in.

    Notes
    -----
    W. H. Wolberg, W. N. Street, O. L. Mangasarian (1995); W. H. Wolberg, O. L. Mangasarian (1992),
    University of Wisconsin Hospitals, Madison. Both CC BY 4.0, as UCI states for donated sets.

    Examples
    --------
    >>> data = breast_cancer()
    >>> data.features.shape, int((data.labels == "benign").sum()), data.source
    ((569, 30), 357, 'scikit-learn')
    """
    from sklearn.datasets import load_breast_cancer

    check_choice(variant, "variant", ("diagnostic", "original"))
    check_choice(source, "source", ("auto", "uci"))
    retrieval.mode()  # a wrong HDPM_DATA is an error here too
    if variant == "original":
        return _original(source)
    bunch = load_breast_cancer(as_frame=True)
    labels = bunch.target_names[bunch.target.to_numpy()].astype(str)
    names = tuple(map(str, bunch.feature_names))
    if source == "auto":
        raw = resources.files(bunch.data_module).joinpath(bunch.filename).read_bytes()
        return Dataset(
            "Breast Cancer (Diagnostic)", bunch.data, labels, names, "scikit-learn", sha256(raw)
        )
    values, malignant = _from_uci(17)
    if not (
        np.array_equal(values, bunch.data) and np.array_equal(malignant, labels == "malignant")
    ):
        raise DataIntegrityError(
            "UCI's data set 17 differs from scikit-learn's copy: use source='auto'"
        )
    return Dataset("Breast Cancer (Diagnostic)", bunch.data, labels, names, "uci", None)


def _from_uci(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return values and whether malignant, as the UCI repository answers now."""

    def ask() -> tuple[np.ndarray, np.ndarray]:
        with extra("book"):
            from ucimlrepo import fetch_ucirepo

        before = socket.getdefaulttimeout()
        socket.setdefaulttimeout(retrieval.TIMEOUT)  # it has none of its own
        try:
            data = fetch_ucirepo(id=number).data
        finally:
            socket.setdefaulttimeout(before)
        values = data.features.apply(pd.to_numeric, errors="coerce").to_numpy(float)
        return values, data.targets.iloc[:, 0].isin(["M", 4]).to_numpy()

    try:
        return retrieval.once(f"uci {number}", ask)
    except ImportError as error:
        raise DataUnavailableError(f"UCI cannot be asked: {error}") from error
    except Exception as error:
        raise DataUnavailableError(
            f"UCI data set {number} cannot be had ({type(error).__name__}: {error})"
        ) from error


def _original(source: Literal["auto", "uci"]) -> Dataset:
    """Return the original variant, from files or from UCI."""
    if retrieval.mode() == "standin":
        raise DataUnavailableError(
            "breast_cancer('original') has no stand-in: unset HDPM_DATA=standin"
        )
    absent = ""
    if source == "auto":
        try:
            found, place = retrieval.real("breast_cancer_original")
            table = pd.read_csv(io.BytesIO(found["all"]), header=None, na_values="?").to_numpy(
                float
            )
            return _original_dataset(table[:, 1:-1], table[:, -1] == 4, place, sha256(found["all"]))
        except DataUnavailableError as error:
            absent = f"{error}; and "
    try:
        values, malignant = _from_uci(15)
    except DataUnavailableError as error:
        raise DataUnavailableError(f"{absent}{error}") from error
    table = np.nan_to_num(np.column_stack([values, malignant]))
    if sha256(table.astype("<f8").tobytes()) != ORIGINAL_VALUES:
        raise DataIntegrityError("UCI's data set 15 differs from the pinned file: it is not used")
    return _original_dataset(values, malignant, "uci", None)


def _original_dataset(
    values: np.ndarray, malignant: np.ndarray, source: Source, digest: str | None
) -> Dataset:
    features = pd.DataFrame(values, columns=list(ORIGINAL_COLUMNS))
    features = features.astype(
        {name: "int64" for name in ORIGINAL_COLUMNS if name != "bare_nuclei"}
    )
    labels = np.where(malignant, "malignant", "benign")
    return Dataset("Breast Cancer (Original)", features, labels, ORIGINAL_COLUMNS, source, digest)


def source_of(
    name: Literal["medical_cost", "nsl_kdd", "breast_cancer_original"],
) -> Literal["real", "stand-in"]:
    """Say what a data set's function would use now; downloads what is missing, so that a later call
    agrees.

    Parameters
    ----------
    name : {"medical_cost", "nsl_kdd", "breast_cancer_original"}
        Which data set.

    Returns
    -------
    {"real", "stand-in"}
        For breast_cancer_original, which has no stand-in, "stand-in" means that calling for it is
        an error.

    Raises
    ------
    ValueError
        If the name is another one.
    DataIntegrityError, DataUnavailableError
        As the data set's function does.

    Examples
    --------
    >>> source_of("medical_cost") in ("real", "stand-in")
    True
    """
    if name not in retrieval.REGISTRY:
        raise ValueError(f"name={name!r} is not one of {', '.join(retrieval.REGISTRY)}")
    if retrieval.mode() == "standin":
        return "stand-in"
    try:
        if name == "breast_cancer_original":
            _original("auto")
        else:
            retrieval.real(name)
    except DataUnavailableError:
        if retrieval.mode() == "real":
            raise
        return "stand-in"
    return "real"
