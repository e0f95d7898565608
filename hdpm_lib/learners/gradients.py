r"""Gradients of logistic regression that leave their owners: local, clipped, with noise.

They are those of Zheng, Cao, Yoshikawa, Li and Yan (2021), "FL-Market: Trading Private Models in
Federated Learning", arXiv:2106.04384.

The model is multinomial logistic regression: class `c` of a record `x`, whose last feature is the
constant 1, has a probability proportional to :math:`\exp(w_c^\top x)`.

Throughout, `parameters` and `gradients` have shape (..., classes, features); `features`, floats of
shape (records, features), have a last column of ones; `labels`, of shape (records,), are classes 0,
1, ...; and `clip_norm`, the `L` of the paper, is positive.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.private import private_cells, private_floats
from hdpm_lib.validation import check_count, check_finite, check_generator, check_positive

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@np.errstate(under="ignore")
def local_gradients(
    parameters: ArrayLike, features: NDArray, labels: NDArray, owners: Sequence[NDArray[np.integer]]
) -> NDArray:
    """Compute mean gradients of the logistic loss, (owners, models, classes, features).

    The mean is over the records of each owner, zero for an owner without records; `owners` holds
    the rows of each of them. There are several models, `parameters` of shape (models, classes,
    features). Gradients are not clipped, and computed in the type of `features`.

    Examples
    --------
    >>> x, y = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([0, 1])
    >>> local_gradients(np.zeros((1, 2, 2)), x, y, [np.array([0, 1])])[0, 0]
    array([[-0.25,  0.  ],
           [ 0.25,  0.  ]])
    """
    models, table = _models(parameters, features)
    if models.ndim != 3:
        raise ValueError(f"parameters must have 3 dimensions, got shape {models.shape}")
    classes = check_labels(labels, table, models.shape[1])
    return owner_gradients(models, table, classes, owners)


def owner_gradients(
    models: NDArray, features: NDArray, labels: Integers, owners: Sequence[NDArray[np.integer]]
) -> NDArray:
    """Compute :func:`local_gradients` of what was checked, models in the type of features."""
    rows = np.concatenate(owners)
    x = features.take(rows, axis=0)
    counts = np.array([len(rows_of_owner) for rows_of_owner in owners])
    ends = np.cumsum(counts)
    gradients = np.empty((len(owners), *models.shape), dtype=features.dtype)
    # a warning would tell of the data; `clipped` takes what comes
    with np.errstate(over="ignore", invalid="ignore"):
        residual = residuals(models, x, labels[rows])
        residual = residual.reshape(models.shape[0] * models.shape[1], len(rows))  # maybe no rows
        for gradient, start, end in zip(gradients, ends - counts, ends, strict=True):
            out = gradient.reshape(-1, models.shape[-1])
            np.matmul(residual[:, start:end], x[start:end], out=out)
        gradients /= np.maximum(counts, 1).astype(features.dtype)[:, None, None, None]
    return gradients


def residuals(parameters: NDArray, features: NDArray, labels: NDArray) -> NDArray:
    """Return probabilities of the classes less what is true, (models, classes, records).

    Times the features they are gradients of records. Arguments are as in :func:`local_gradients`,
    and not checked.
    """
    models, classes, width = parameters.shape
    share = (parameters.reshape(-1, width) @ features.T).reshape(models, classes, len(labels))
    share -= share.max(axis=1, keepdims=True)
    np.exp(share, out=share)
    share /= share.sum(axis=1, keepdims=True)
    share[:, labels, np.arange(len(labels))] -= 1
    return share


@np.errstate(under="ignore")
def clipped(gradients: NDArray, clip_norm: float) -> NDArray:
    r"""Shorten gradients to an L1 norm of at most `clip_norm`: Eq. (1) of Zheng et al.

    Every array of floats is taken, for an error would tell of the data: a gradient whose norm is
    not finite becomes zero. It is as admissible as any other, so the sensitivity stays.

    Examples
    --------
    >>> clipped(np.array([[3.0, -1.0]]), 2.0)
    array([[ 1.5, -0.5]])
    """
    bound = check_positive(clip_norm, "clip_norm")
    return shortened(check_tables(private_floats(gradients, "gradients")), bound)


def shortened(gradients: NDArray, bound: float) -> NDArray:
    """Compute :func:`clipped` of what was checked."""
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.abs(gradients).sum(axis=(-2, -1), keepdims=True)
        shorter = bound / np.maximum(norms, bound)
    return np.multiply(gradients, shorter, out=np.zeros_like(gradients), where=np.isfinite(norms))


def noise_scale(epsilon: ArrayLike, clip_norm: float) -> Array:
    r"""Return the scale :math:`2L/\varepsilon` of the Laplace noise on a clipped coordinate.

    The privacy losses `epsilon` of one release are not negative; for 0 the scale is infinite:
    nothing can be sent. Two clipped gradients are at most :math:`2L` apart in the L1 norm, whatever
    the data: :doc:`/book/federated/learning`.

    Examples
    --------
    >>> noise_scale([0.5, 2.0], 1.0)
    array([4., 1.])
    """
    eps = check_finite(epsilon, "epsilon", low=0)
    bound = check_positive(clip_norm, "clip_norm")
    with np.errstate(over="ignore"):
        return np.divide(2 * bound, eps, out=np.full(eps.shape, np.inf), where=eps > 0)


def draw_bidders(
    owners: int, bidders: int, rounds: int, runs: int, rng: np.random.Generator
) -> Integers:
    """Draw who is asked in each round, numbers of owners, shape (rounds, runs, bidders).

    Runs are independent markets. In each nobody is asked a second time before everybody was asked
    once. If `bidders` does not divide `owners`, a random few sit out in each pass.

    Examples
    --------
    >>> asked = draw_bidders(6, 2, 4, 1, np.random.default_rng(0))
    >>> sorted(asked[:3].ravel().tolist()), asked.shape
    ([0, 1, 2, 3, 4, 5], (4, 1, 2))
    """
    n = check_count(owners, "owners")
    length = check_count(rounds, "rounds")
    k = check_count(bidders, "bidders", most=n)
    everybody = np.tile(np.arange(n), (check_count(runs, "runs"), 1))
    check_generator(rng)
    rounds_a_pass = n // k
    passes = []
    for _ in range(math.ceil(length / rounds_a_pass)):
        order = rng.permuted(everybody, axis=1)[:, : rounds_a_pass * k]
        passes.append(order.reshape(-1, rounds_a_pass, k))
    return np.concatenate(passes, axis=1)[:, :length].transpose(1, 0, 2)


@np.errstate(under="ignore")
def accuracy(parameters: ArrayLike, features: NDArray, labels: NDArray) -> Array:
    """Return the share of records whose class each model names, shape (...).

    Of classes with equal scores a model names the first.

    Examples
    --------
    >>> float(accuracy(np.eye(2), np.array([[1.0, 0.2], [0.0, 0.1]]), np.array([0, 0])))
    0.5
    """
    w, features = _models(parameters, features)
    check_filled(features)
    classes = check_labels(labels, features, w.shape[-2])
    models = w.reshape(-1, *w.shape[-2:])
    shares = []
    # one wide product takes a third of the time of many
    for chunk in np.array_split(models, len(models) // 32 + 1):
        scores = features @ chunk.reshape(-1, w.shape[-1]).T
        scores = scores.reshape(len(classes), *chunk.shape[:2])
        shares.append((scores.argmax(axis=2) == classes[:, None]).mean(axis=0))
    return np.concatenate(shares).reshape(w.shape[:-2])


def check_filled(features: NDArray) -> None:
    """Refuse private features that are no finite numbers."""
    if not np.isfinite(features).all():
        raise ValueError("features must be finite numbers: fill what is missing by a public rule")


def check_tables(gradients: NDArray) -> NDArray:
    """Return gradients; refuse those that have no classes and features."""
    if gradients.ndim < 2:
        raise ValueError(
            f"gradients must have shape (..., classes, features), got {gradients.shape}"
        )
    return gradients


def _models(parameters: ArrayLike, features: NDArray) -> tuple[NDArray, NDArray]:
    """Check models and features; return both in the type of the features."""
    w = check_finite(parameters, "parameters")
    table = private_floats(features, "features", 2)
    if w.ndim < 2 or w.shape[-1] != table.shape[1]:
        raise ValueError(
            f"parameters must have shape (..., classes, {table.shape[1]}), got {w.shape}"
        )
    return w.astype(table.dtype), table


def check_labels(labels: ArrayLike, features: NDArray, classes: int) -> Integers:
    """Check labels, which are private: one class 0, 1, ... for each row of `features`."""
    numbers = private_cells(labels, "labels", 1)
    if len(numbers) != len(features):
        raise ValueError(
            f"labels must have shape ({len(features)},), one for each row of features, got"
            f" {numbers.shape}"
        )
    whole = numbers.dtype.kind in "iu"
    if not whole:
        numbers = private_floats(numbers, "labels")
    inside = numbers.min() >= 0 and numbers.max() < classes
    if not (inside and (whole or (numbers == np.rint(numbers)).all())):
        what = f"whole numbers from 0 to {classes - 1}"
        raise ValueError(f"labels must be {what}, the classes that `start` or the model has")
    return numbers.astype(np.int64, copy=False)
