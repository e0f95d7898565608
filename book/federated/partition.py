r"""How records are spread over owners: sizes with a long tail, or classes dealt out by a Dirichlet
law.

FL-Market spreads NSL-KDD over 1000 owners and names a power law (IID) and the Dirichlet
distribution (non-IID), without parameters. The published code draws log-normal sizes with
:math:`\sigma=2` and Dirichlet shares with concentration 1/2, and gives everybody ten records; these
are the defaults here.

Throughout, `total` records are spread over `owners`, `least` of them to everybody first; the result
holds whole numbers, one for each owner, that sum to `total`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.auctions.bids import FAMILIES, Bids, bids
from hdpm_lib.validation import (
    check_choice,
    check_count,
    check_finite,
    check_generator,
    check_number,
)

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Records of the train part of NSL-KDD by class: known to everybody.
NSL_KDD_COUNTS = {"Normal": 67_343, "DoS": 45_927, "Probe": 11_656, "R2L": 995, "U2R": 52}
KINDS = ("IID", "Non-IID")
FACTORS = (0.1, 2.0)  # the paper's range of the budget factor
RATES = (0.5, 1.5)  # the paper's range of alpha
PRIVACY_BUDGETS = (0.5, 2.0)  # and of the largest privacy loss that an owner accepts
MOST = 2**53  # records: above, floats do not hold every whole number


def _cut(shares: Array, total: float) -> Integers:
    """Return whole numbers near `total` times the shares of the first owners; exactly `total` where
    the shares sum to 1.
    """
    ends = np.rint(np.cumsum(shares, axis=-1) * total).astype(np.int64)
    return np.diff(ends, axis=-1, prepend=0)


def _check_room(total: int, owners: int, least: int) -> tuple[int, int, int]:
    total = check_count(total, "total", most=MOST)
    owners = check_count(owners, "owners")
    least = check_count(least, "least", 0)
    if owners * least > total:
        raise ValueError(f"total must give {owners} owners {least} records each, got {total}")
    return total, owners, least


def lognormal_sizes(
    total: int, owners: int, rng: np.random.Generator, sigma: float = 2.0, least: int = 10
) -> Integers:
    """Return sizes of data sets with log-normal shares; `sigma`, from 0 to 50, is the standard
    deviation of their logarithms.

    Examples
    --------
    >>> sizes = lognormal_sizes(125_973, 1000, np.random.default_rng(0))
    >>> int(sizes.sum()), int(sizes.min()), bool(np.median(sizes) < sizes.mean() / 3)
    (125973, 10, True)
    """
    check_generator(rng)
    total, owners, least = _check_room(total, owners, least)
    shares = rng.lognormal(0.0, check_number(sigma, "sigma", 0, 50, ends="(]"), owners)
    return least + _cut(shares / shares.sum(), total - least * owners)


def dirichlet_counts(
    class_counts: Mapping[str, int] | ArrayLike,
    owners: int,
    rng: np.random.Generator,
    concentration: float = 0.5,
    extra: int = 10,
) -> Integers:
    """Return records of each class that each owner gets, shape (owners, classes); each column sums
    to its class.

    The shares of every class follow a Dirichlet law over the owners.

    Parameters
    ----------
    class_counts : mapping, or array of shape (classes,)
    concentration : float
        at least 0.05, of the symmetric Dirichlet law: the smaller, the more uneven
    extra : int, records of the largest class that everybody gets first

    Examples
    --------
    >>> counts = dirichlet_counts({"rare": 40, "common": 4000}, 100, np.random.default_rng(0))
    >>> counts.shape, counts.sum(axis=0).tolist(), bool((counts[:, 1] >= 10).all())
    ((100, 2), [40, 4000], True)
    """
    check_generator(rng)
    counts, largest = _check_classes(class_counts, owners, extra)
    alpha = check_number(concentration, "concentration", 0.05, 1e100)
    shares = rng.dirichlet(np.full(owners, alpha), len(counts))
    dealt = np.stack([_cut(row, count) for row, count in zip(shares, counts, strict=True)], axis=-1)
    dealt[:, largest] += extra
    return dealt


def _check_classes(
    class_counts: Mapping[str, int] | ArrayLike, owners: int, extra: int
) -> tuple[Integers, int]:
    """Return records of each class left after `extra` of the largest for everybody, and which class
    that is.
    """
    values = list(class_counts.values()) if isinstance(class_counts, Mapping) else class_counts
    counts = check_finite(values, "class_counts", 1, 0, MOST)
    if (bad := counts != np.rint(counts)).any():
        raise ValueError(f"class_counts must be whole numbers from 0 up, got {counts[bad][0]}")
    whole = counts.astype(np.int64)
    largest = int(np.argmax(counts))
    check_count(owners, "owners")
    whole[largest] -= owners * check_count(extra, "extra", 0)
    if whole[largest] < 0:
        raise ValueError(
            f"class_counts must give {owners} owners {extra} records of the largest class, got"
            f" {counts[largest]:g}"
        )
    return whole, largest


def draw_sizes(
    kind: str, count: int, rng: np.random.Generator, owners: int = 10, of: int = 1000
) -> Integers:
    """Return sizes (count, owners) of the bidders' data sets in `count` auctions.

    In each auction `owners` bid, a random few of the `of` owners of a market of its own. NSL-KDD is
    spread over these by :func:`lognormal_sizes` ("IID") or by :func:`dirichlet_counts` ("Non-IID").

    Notes
    -----
    The owners of a market are exchangeable, so its first few are a random few. For Dirichlet shares
    only the sum of the others' gamma variables is drawn.
    """
    check_generator(rng)
    check_choice(kind, "kind", KINDS)
    total = sum(NSL_KDD_COUNTS.values())
    count = check_count(count, "count")
    of = check_count(of, "of", most=total // 10)
    owners = check_count(owners, "owners", most=of)
    if kind == "IID":
        shares = rng.lognormal(0.0, 2.0, (count, of))
        shares = shares[:, :owners] / shares.sum(axis=1, keepdims=True)
        return 10 + _cut(shares, total - 10 * of)
    classes, _ = _check_classes(NSL_KDD_COUNTS, of, 10)
    sizes = np.full((count, owners), 10, dtype=np.int64)
    for records in classes:
        own = rng.gamma(0.5, size=(count, owners))
        others = rng.gamma(0.5 * (of - owners), size=(count, 1)) if of > owners else 0.0
        sizes += _cut(own / (own.sum(axis=1, keepdims=True) + others), records)
    return sizes


def deal(labels: ArrayLike, counts: ArrayLike, rng: np.random.Generator) -> list[Integers]:
    """Return numbers of rows of a data set for each owner, at random and without repetition.

    Parameters
    ----------
    labels : array of shape (records,)
        Classes of the records as whole numbers; they matter only for counts by class.
    counts : array of shape (n,) or (n, classes)
        Records of each owner, or her records of each class 0, 1, ...

    Examples
    --------
    >>> rows = deal([0, 0, 1, 1, 1], [[1, 1], [1, 2]], np.random.default_rng(0))
    >>> [len(own) for own in rows], sorted(np.concatenate(rows).tolist())
    ([2, 3], [0, 1, 2, 3, 4])
    """
    classes = np.asarray(labels)
    wanted = check_finite(counts, "counts", low=0)
    if classes.ndim != 1 or wanted.ndim not in (1, 2):
        raise ValueError(
            f"labels and counts must have shapes (records,) and (n,), got {classes.shape},"
            f" {wanted.shape}"
        )
    check_generator(rng)
    if (bad := wanted != np.rint(wanted)).any():
        raise ValueError(f"counts must be whole numbers from 0 up, got {wanted[bad].flat[0]}")
    table = wanted.astype(np.int64).reshape(len(wanted), -1)
    pools = [np.arange(len(classes))]
    if wanted.ndim == 2:
        pools = [np.flatnonzero(classes == c) for c in range(table.shape[1])]
    taken = []
    for c, pool in enumerate(pools):
        if (needed := int(table[:, c].sum())) > len(pool):
            of = f" of class {c}" if wanted.ndim == 2 else ""
            raise ValueError(f"counts ask for {needed} records{of}, there are {len(pool)}")
        taken.append(rng.permutation(pool)[:needed])
    owner = np.concatenate([np.repeat(np.arange(len(table)), column) for column in table.T])
    rows = np.concatenate(taken)[np.argsort(owner, kind="stable")]
    return np.split(rows, np.cumsum(table.sum(axis=1))[:-1])


def draw_bids(sizes: ArrayLike, rng: np.random.Generator) -> Bids:
    """Return bids from the paper's laws (Section VI-A) for owners with sizes (..., n).

    Families have equal chances; rates are uniform on [0.5, 1.5], privacy budgets on [0.5, 2]. Sizes
    such as the paper's come from :func:`~hdpm_book.federated.partition.draw_sizes`.
    """
    check_generator(rng)
    shape = check_finite(sizes, "sizes", low=0, ends="()").shape
    family = rng.integers(len(FAMILIES), size=shape)
    return bids(family, rng.uniform(*RATES, shape), rng.uniform(*PRIVACY_BUDGETS, shape), sizes)


def budget_of(truth: Bids, factor: ArrayLike) -> Array:
    r"""Return the paper's way to set the money of an experiment: :math:`B=\bar B\sum_i
    v_i(\bar\varepsilon_i,d_i)`.

    It takes *true* valuations. A buyer who computed it from reports would let every owner raise the
    money by lying. The budget factor :math:`\bar B` is positive, a float or of shape (...); the
    paper draws it from [0.1, 2].
    """
    factors = check_finite(factor, "factor", low=0, ends="()")
    return factors * truth.full_valuation.sum(axis=-1)


def study_markets(count: int = 300, partition: str = "IID") -> tuple[Bids, Array]:
    """Return the markets of the pages: the first `count` of the book's test profiles, at most 2000,
    and budgets.
    """
    check_choice(partition, "partition", KINDS)
    rng = np.random.default_rng({"IID": 20230, "Non-IID": 20231}[partition])
    market = draw_bids(draw_sizes(partition, 2000, rng), rng)
    budget = budget_of(market, rng.uniform(*FACTORS, 2000))
    return market[: check_count(count, "count", most=2000)], budget[:count]
