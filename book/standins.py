"""Stand-ins for the real data sets: tables of the same schema, drawn from published laws and coarse
statistics.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd

REGIONS = ("northeast", "northwest", "southeast", "southwest")
BMI_STEP = np.array([0.095, 0.095, 0.11, 0.1])  # bmi is an integer times its region's step
CATEGORICAL = ("protocol_type", "service", "flag")
# Columns with tails over several powers of ten: their means and their gaps are taken on the scale
# of log(1 + value).
LOG_SCALE = frozenset(
    """duration src_bytes dst_bytes hot num_compromised num_root num_file_creations count
    srv_count""".split()
)
MIN_ROWS = 10  # no published number describes fewer rows than this

# Number of children (0 to 5) by age band; the bands begin at 18, 20, 26, 36, 46 and 56.
_AGE_BANDS = (20, 26, 36, 46, 56)
_CHILDREN = np.array(
    [
        [0.74, 0.14, 0.08, 0.02, 0.01, 0.01],
        [0.58, 0.17, 0.12, 0.09, 0.02, 0.02],
        [0.30, 0.31, 0.22, 0.14, 0.02, 0.01],
        [0.25, 0.28, 0.29, 0.13, 0.02, 0.03],
        [0.30, 0.31, 0.19, 0.17, 0.02, 0.01],
        [0.66, 0.14, 0.09, 0.09, 0.02, 0.00],
    ]
)


def medical_base_charge(features: pd.DataFrame) -> np.ndarray:
    """Charge in dollars that the Medical Cost file's law gives before any surcharge.

    Parameters
    ----------
    features : DataFrame
        Columns ``age`` (years), ``sex``, ``bmi``, ``children``, ``smoker`` and ``region``.

    Returns
    -------
    ndarray, shape (n,)
        Base charge of each row.

    Notes
    -----
    The Medical Cost file (B. Lantz, *Machine Learning with R*, 2013) is simulated: 1220 of its 1338
    charges equal this formula, the other 118 exceed it by a roughly normal surcharge. Read off the
    file; printed by none of the papers.

    Examples
    --------
    >>> row = dict(age=40, sex="male", bmi=31.0, children=2, smoker="yes", region="northeast")
    >>> medical_base_charge(pd.DataFrame([row])).round(2).tolist()
    [38843.89]
    """
    age = features["age"]
    bmi = features["bmi"]
    region = features["region"]
    smoking = 1500 + 489 * bmi + 15000 * (bmi > 30)
    charge = 1072 + 3.363 * age**2 + 589 * features["children"] + 1.39 * bmi
    charge = charge - 489 * (features["sex"] == "male") + smoking * (features["smoker"] == "yes")
    charge = charge - 200 * (region == "northwest") - 583 * region.isin(["southeast", "southwest"])
    return charge.to_numpy(float)


def medical_cost(seed: int = 0) -> pd.DataFrame:
    """Draw a stand-in for the Medical Cost file: 1338 rows of its seven columns.

    Parameters
    ----------
    seed : int
        Seed of the draw; 0 is the stand-in that `hdpm_book.datasets.medical_cost` hands out.

    Returns
    -------
    DataFrame
        Columns age, sex, bmi, children, smoker, region, charges (dollars).

    Notes
    -----
    Charges follow the file's own law (`medical_base_charge`, plus a surcharge for about one row in
    eleven); ages, families, smokers and body-mass indices follow its marginals and the dependences
    that show in it.

    Examples
    --------
    >>> medical_cost().shape
    (1338, 7)
    """
    rng = np.random.default_rng(seed)
    n = 1338
    ages = np.arange(18, 65)
    weight = np.interp(ages, [20, 28, 34, 39, 45, 54, 59, 64], [28.5, 28, 26, 25, 29, 28, 25, 22])
    weight[:2] = 68.5  # 18 and 19 are more than twice as frequent as any other age
    age = rng.choice(ages, n, p=weight / weight.sum())
    male = rng.random(n) < 0.505
    region = rng.choice(4, n, p=np.array([324, 325, 364, 325]) / 1338)
    smoker = rng.random(n) < np.where(male, 0.235, 0.174)
    up_to = np.cumsum(_CHILDREN, axis=1)[np.searchsorted(_AGE_BANDS, age, side="right"), :5]
    children = (rng.random(n)[:, None] > up_to).sum(axis=1)
    steps = np.clip(np.rint(286.3 + 0.4975 * age + rng.normal(0, 57.7, n)), 160, 510)
    frame = pd.DataFrame(
        {
            "age": age,
            "sex": np.where(male, "male", "female"),
            "bmi": np.round(steps * BMI_STEP[region], 3),
            "children": children,
            "smoker": np.where(smoker, "yes", "no"),
            "region": np.array(REGIONS)[region],
        }
    )
    surcharge = np.where(rng.random(n) < 0.088, np.clip(rng.normal(14500, 4900, n), 2300, 26000), 0)
    frame["charges"] = np.round(medical_base_charge(frame) + surcharge, 5)
    return frame


@cache
def nsl_kdd_statistics() -> dict[str, Any]:
    """Read the published coarse statistics of NSL-KDD that the stand-in is drawn from.

    Returns
    -------
    dict
        ``columns`` (the 41 features in order), ``protocol_of`` and ``flags`` (the public schema:
        services with their usual protocol, and connection flags), and for ``train`` and ``test`` a
        list of cells. A cell holds ``class``, ``attack``, ``n`` (rows), ``combos`` (rows
        ``[protocol, service, flag, count]``), ``other`` (rows of rarer combinations) and
        ``numeric``: per column, runs of neighbouring values ``[count, mean, several]``, where
        ``several`` is 0 if the run holds one value only. A column that is missing is 0 in the whole
        cell.

    Notes
    -----
    Made from the real files by :mod:`hdpm_book.nsl_kdd_statistics`. No count is under 10; a mean is
    over 10 rows or more and rounded to two significant digits (three where all its values are the
    same).
    """
    packed = resources.files("hdpm_book.data").joinpath("nslkdd-standin.json.gz").read_bytes()
    statistics: dict[str, Any] = json.loads(gzip.decompress(packed))
    return statistics


def _draw_column(
    name: str, runs: list[list[float]], n: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw n values of one numeric column from its runs; inside a run of several values the draw is
    uniform.
    """
    count, middle, several = np.array(runs, float).T
    if name in LOG_SCALE:
        middle = np.log1p(middle)
    # a run of several values reaches half-way to its nearer neighbour, as far up as down, so that
    # its mean is kept; the first and the last run stay at their means, for nothing published says
    # how far they reach
    gap = np.r_[0.0, np.diff(middle) / 2, 0.0]
    reach = several * np.minimum(gap[1:], gap[:-1])
    highest = 1.0 if name.endswith("_rate") else np.inf
    reach = np.minimum(reach, np.minimum(middle, highest - middle))
    run = np.searchsorted(np.cumsum(count)[:-1] / count.sum(), rng.random(n), side="right")
    value = middle[run] + reach[run] * rng.uniform(-1, 1, n)
    if name.endswith("_rate"):
        return np.round(value, 2)
    if name in LOG_SCALE:
        value = np.expm1(value)
    # random rounding keeps the mean of a rare 0/1 column, which nearest rounding would turn into 0
    return np.floor(value + rng.random(n))


def nsl_kdd(part: str = "train", seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Draw a stand-in for one part of NSL-KDD, of the same size and the same class counts as the
    real file.

    Parameters
    ----------
    part : {"train", "test"}
        Which file to stand in for (125,973 or 22,544 rows).
    seed : int
        Seed of the draw; 0 is the stand-in that `hdpm_book.datasets.nsl_kdd` hands out.

    Returns
    -------
    features : DataFrame, shape (n, 41)
        Columns and types as in the real file.
    classes : ndarray of str, shape (n,)
        Normal, DoS, Probe, R2L or U2R.

    Notes
    -----
    Within a cell (about one attack, flag and service) columns are drawn independently, so only
    dependence between cells is kept; byte counts have shorter tails than the real ones.

    Examples
    --------
    >>> features, classes = nsl_kdd("test")
    >>> features.shape, int((classes == "U2R").sum())
    ((22544, 41), 67)
    """
    statistics = nsl_kdd_statistics()
    services = np.array(list(statistics["protocol_of"]))
    flags = np.array(statistics["flags"])
    protocols = np.array(list(statistics["protocol_of"].values()))
    cells = statistics[part]
    rng = np.random.default_rng(seed)
    total = sum(cell["n"] for cell in cells)
    columns: dict[str, np.ndarray] = {
        name: np.empty(total, object) if name in CATEGORICAL else np.zeros(total)
        for name in statistics["columns"]
    }
    classes = np.empty(total, "U6")
    start = 0
    for cell in cells:
        n = cell["n"]
        rows = slice(start, start + n)
        start += n
        classes[rows] = cell["class"]
        counts = np.array([*(combo[3] for combo in cell["combos"]), cell["other"]], float)
        pick = np.searchsorted(np.cumsum(counts)[:-1] / counts.sum(), rng.random(n), side="right")
        # rare combinations: any service with its usual protocol, any flag
        service = rng.integers(len(services), size=n)
        redrawn = np.array(
            [protocols[service], services[service], flags[rng.integers(len(flags), size=n)]], object
        )
        kept = np.array([combo[:3] for combo in cell["combos"]] + [[""] * 3], object)[pick].T
        for name, values in zip(
            CATEGORICAL, np.where(pick == len(counts) - 1, redrawn, kept), strict=True
        ):
            columns[name][rows] = values
        for name, runs in cell["numeric"].items():
            columns[name][rows] = _draw_column(name, runs, n, rng)
    order = rng.permutation(total)
    frame = pd.DataFrame({name: values[order] for name, values in columns.items()})
    whole = {
        name: "int64" for name in columns if name not in CATEGORICAL and not name.endswith("_rate")
    }
    return frame.astype(whole | dict.fromkeys(CATEGORICAL, "str")), classes[order]
