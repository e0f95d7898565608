"""Checks at the public boundary: bad input gets an error that names the argument and the value."""

from __future__ import annotations

import warnings
from fractions import Fraction
from numbers import Rational

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


class ClipWarning(UserWarning):
    """Records outside the public bounds were moved onto them."""


def check_finite(value: ArrayLike, name: str, ndim: int) -> Array:
    """A non-empty, finite float array with that many dimensions, or an error that names `name` and the value."""
    array = np.asarray(value, dtype=float)
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name} is empty (shape {array.shape})")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)].flat[0]}")
    return array


def check_rational(value: Rational | int, name: str) -> Fraction:
    """A positive rational as a fraction, or an error that names `name` and the value; floats are refused."""
    if not isinstance(value, Rational) or value <= 0:
        raise ValueError(f"{name} must be a positive Fraction or integer, got {value!r}")
    return Fraction(int(value.numerator), int(value.denominator))


def check_epsilon(epsilon: ArrayLike, n_records: int | None = None) -> Array:
    """Privacy losses as a vector.

    Parameters
    ----------
    epsilon : array of shape (n,)
        Accepted privacy losses, positive and finite.
    n_records : int, optional
        Length it must have.

    Returns
    -------
    array of shape (n,)

    Raises
    ------
    ValueError
        Naming the offending value and its index.
    """
    eps = np.asarray(epsilon, dtype=float)
    if eps.ndim != 1 or eps.size == 0:
        raise ValueError(f"epsilon must be a non-empty vector, got shape {eps.shape}")
    if (bad := ~(np.isfinite(eps) & (eps > 0))).any():
        i = int(np.argmax(bad))
        raise ValueError(f"epsilon must be positive and finite, got epsilon[{i}] = {eps[i]}")
    if n_records is not None and eps.size != n_records:
        raise ValueError(f"epsilon has {eps.size} entries for {n_records} records")
    return eps


def check_positive(value: float, name: str) -> float:
    """A positive, finite float, or an error that names `name` and the value."""
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return float(value)


def check_count(value: float, name: str, least: int = 1) -> int:
    """An integer of at least `least`, or an error that names `name` and the value."""
    if not (np.isfinite(value) and value == int(value) and value >= least):
        kind = "a positive integer" if least == 1 else f"an integer of at least {least}"
        raise ValueError(f"{name} must be {kind}, got {value}")
    return int(value)


def check_penalty(penalty: float) -> float:
    """The ridge penalty as a positive float, or an error that names the value."""
    return check_positive(penalty, "penalty")


def check_cap(cap: float | None, m: int) -> float:
    """The largest admissible one of `m` weights that sum to 1: `cap`, or 1 for None; an error if it is out of range."""
    top = 1.0 if cap is None else float(cap)
    if not (1 - 1e-12) / m <= top <= 1:
        raise ValueError(f"cap must lie in [1/m, 1] = [{1 / m:.6g}, 1], got {cap}")
    return max(top, 1 / m)


def check_choice(value: str, name: str, choices: tuple[str, ...]) -> None:
    """An error that names `name` and the value if it is none of `choices`: a misspelt option must not pick another."""
    if value not in choices:
        raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}")


def check_records(
    X: ArrayLike, y: ArrayLike, *, feature_norm: float | None = None, clip: bool = False
) -> tuple[Array, Array]:
    r"""Records inside the bounds that every guarantee rests on: features in [0, 1], labels in [-1, 1].

    Parameters
    ----------
    X : array of shape (n, d)
        Features.
    y : array of shape (n,)
        Labels.
    feature_norm : float, optional
        Public bound on the Euclidean norm of a feature vector, at most :math:`\sqrt d` (which the box implies).
    clip : bool, default False
        Move records outside onto the bounds instead of refusing them, and say once how many.

    Returns
    -------
    tuple of arrays
        `X` and `y` as floats.

    Raises
    ------
    ValueError
        On empty or non-finite data, lengths that differ, or (without `clip`) values outside, naming the first.

    Warns
    -----
    ClipWarning
        With `clip`, when records were moved.
    """
    features, labels = check_finite(X, "X", 2), check_finite(y, "y", 1)
    if len(features) != len(labels):
        raise ValueError(f"X has {len(features)} records and y has {len(labels)}")
    bounded, label = np.clip(features, 0, 1), np.clip(labels, -1, 1)
    if feature_norm is not None:
        norms = np.linalg.norm(bounded, axis=1, keepdims=True)
        over = norms > feature_norm * (1 + 1e-12)
        bounded = np.where(over, bounded * (feature_norm / np.maximum(norms, feature_norm)), bounded)
    moved = (bounded != features).any(axis=1) | (label != labels)
    if not moved.any():
        return features, labels
    if clip:
        warnings.warn(f"clipped {moved.sum()} of {len(moved)} records to the public bounds", ClipWarning, stacklevel=3)
        return bounded, label
    i = int(np.argmax(moved))
    if label[i] != labels[i]:
        raise ValueError(f"labels must lie in [-1, 1], got y[{i}] = {labels[i]}; scale with public bounds or clip")
    j = int(np.argmax((features[i] < 0) | (features[i] > 1)))
    if not 0 <= features[i, j] <= 1:
        raise ValueError(f"features must lie in [0, 1], got X[{i}, {j}] = {features[i, j]}; scale or clip")
    raise ValueError(f"norm of X[{i}] is {np.linalg.norm(features[i]):.6g}, above feature_norm = {feature_norm}")


def check_signed_records(X: ArrayLike, y: ArrayLike, *, clip: bool = False) -> tuple[Array, Array]:
    """Records inside the bounds that the guarantee rests on: norms at most 1, labels -1 or 1.

    Parameters
    ----------
    X : array of shape (m, n)
        Features, the constant one included if there is one.
    y : array of shape (m,)
        Labels, each -1 or 1, both present.
    clip : bool, default False
        Shorten longer vectors to norm 1 instead of refusing them, and say once how many.

    Returns
    -------
    tuple of arrays
        `X` and `y` as floats.

    Raises
    ------
    ValueError
        On empty or non-finite data, lengths that differ, other labels, a single class, or (without `clip`) a norm
        above 1, naming the first.

    Warns
    -----
    ClipWarning
        With `clip`, when vectors were shortened.
    """
    features, labels = check_finite(X, "X", 2), check_finite(y, "y", 1)
    if len(features) != len(labels):
        raise ValueError(f"X has {len(features)} records and y has {len(labels)}")
    if (odd := np.abs(labels) != 1).any():
        raise ValueError(f"labels must be -1 or 1, got y[{np.argmax(odd)}] = {labels[odd][0]}")
    if (labels == labels[0]).all():
        raise ValueError(f"labels must hold both classes, got only {labels[0]:g}")
    norms = np.linalg.norm(features, axis=1)
    if not (over := norms > 1 + 1e-12).any():
        return features, labels
    if not clip:
        i = int(np.argmax(over))
        raise ValueError(f"norm of X[{i}] is {norms[i]:.6g}, above 1: scale by a public bound or clip")
    warnings.warn(f"clipped {over.sum()} of {len(over)} records to norm 1", ClipWarning, stacklevel=3)
    return features / np.maximum(norms, 1)[:, None], labels
