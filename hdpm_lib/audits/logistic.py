r"""Exact meter of the privacy loss of logistic regression by objective perturbation.

Write :math:`u_j=y_jx_j`; nothing else of a record enters. The noise that makes :math:`w` the
minimiser is :math:`b(w)=\sum_ja_j\sigma(-w^\top u_j)u_j-\Lambda w`, and the Hessian there is
:math:`H(w)=\sum_ja_js_ju_ju_j^\top+\Lambda I` with :math:`s_j=\sigma(w^\top u_j)\sigma(-w^\top
u_j)`. So released coefficients have the density :math:`h(b(w))\det H(w)`, with the density
:math:`h` of the noise, and the loss between two data sets at an output is a formula
(:doc:`/book/privacy/meters`).

The worst record and the worst output are searched for, from below: that nothing above a guarantee
is found does not prove it.

Throughout, a `mechanism` has `m` sellers and records of `n` features, and `coefficients` are
released ones, of shape (..., n).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from hdpm_lib.learners.logistic import ObjectivePerturbation
from hdpm_lib.validation import check_finite

Array = NDArray[np.float64]

# of the search for the worst record
TURNS = 61
NORMS = 16
ZOOMS = 20


def worst_losses(mechanism: ObjectivePerturbation, coefficients: ArrayLike) -> Array:
    r"""Search, at each output, the two records of each seller that it tells apart best, the others
    being as they are.

    The exact losses between the records found, shape (..., m), are lower ends of the worst losses.
    The log density is a constant plus a function of her record, so that the two are searched one by
    one, each in two planes. In one and two dimensions these are the whole ball.
    """
    w = check_finite(coefficients, "coefficients")
    n = mechanism.X.shape[1]
    if w.shape[-1:] != (n,):
        raise ValueError(f"coefficients must have shape (..., {n}), got {w.shape}")
    signed = mechanism.y[:, None] * mechanism.X
    rows = [_worst_at(signed, mechanism, one) for one in w.reshape(-1, w.shape[-1])]
    return np.reshape(rows, (*w.shape[:-1], len(signed)))


def _worst_at(signed: Array, mechanism: ObjectivePerturbation, w: Array) -> Array:
    """The worst losses at one output."""
    a = mechanism.weights
    lam = mechanism.penalty
    size = np.linalg.norm(w)
    n = len(w)
    z = signed @ w
    rest = _without_each((a * expit(-z))[:, None] * signed) - lam * w
    curvatures = (a * expit(z) * expit(-z))[:, None, None] * signed[:, :, None] * signed[:, None, :]
    inverse = np.linalg.inv(_without_each(curvatures) + lam * np.eye(n))
    flat = np.linalg.matrix_power(lam * inverse, 6).sum(-1)
    first = w / size if size > 0 else np.eye(n)[0]
    fine = max(np.arcsinh(size), 1e-3)
    length = np.linalg.norm(rest, axis=1)
    ends = []
    for direction in (rest, flat):
        second = direction - (direction @ first)[:, None] * first
        across, scale = (
            np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (second, direction)
        )
        # 0: there is none
        second = np.where(across > 1e-9 * scale, second / np.maximum(across, 1e-300), 0.0)
        plane = np.stack([np.broadcast_to(first, rest.shape), second], axis=-1)
        form = np.swapaxes(plane, 1, 2) @ inverse @ plane
        inside = (rest[:, None] @ plane)[:, 0]

        def phi(turn: Array, norm: Array, second: Array, form: Array, inside: Array) -> Array:
            """Log density less that of an empty record, for records in polar coordinates (last
            axis: sellers).
            """
            # closest together where margins are moderate
            cosine = np.sinh(fine * (np.abs(turn) - 1)) / np.sinh(fine)
            t = norm * cosine
            pull = a * expit(-size * norm * cosine)
            v = norm * np.sign(turn) * np.sqrt(np.maximum(1 - cosine**2, 0)) * second.any(1)
            square = t * t * form[:, 0, 0] + 2 * t * v * form[:, 0, 1] + v * v * form[:, 1, 1]
            squares = pull * (t * (2 * inside[:, 0] + pull * t) + v * (2 * inside[:, 1] + pull * v))
            longer = squares / np.maximum(
                length + np.sqrt(np.maximum(length**2 + squares, 0)), 1e-300
            )
            return np.asarray(
                np.log1p(pull * expit(size * t) * square) - mechanism.eta / 2 * longer
            )

        ends.append(
            [
                _largest(sign, partial(phi, second=second, form=form, inside=inside), len(a))
                for sign in (1, -1)
            ]
        )
    return np.asarray(np.max(ends, axis=0).sum(0))


def _largest(sign: int, function: Callable[[Array, Array], Array], size: int) -> Array:
    """Largest values of many functions, times a sign, on [-2, 2] x [0, 1]: a grid, then finer ones
    around the best.
    """
    each = np.arange(size)
    x = np.zeros(size)
    y = np.full(size, 0.5)
    across = np.linspace(-2, 2, TURNS)
    down = np.linspace(-0.5, 0.5, NORMS)
    for _ in range(ZOOMS):
        rows = (x + across[:, None, None] + 2) % 4 - 2
        columns = np.clip(y + down[:, None], 0, 1)
        values = sign * function(rows, columns)
        i, j = np.divmod(values.reshape(-1, size).argmax(0), len(down))
        x = rows[i, 0, each]
        y = columns[j, each]
        best = values[i, j, each]
        across, down = (np.linspace(-1, 1, 5) * (grid[1] - grid[0]) for grid in (across, down))
    return np.asarray(best)


def _without_each(values: Array) -> Array:
    """Sums over the first axis that leave one entry out, from both sides: no difference is
    taken.
    """
    none = np.zeros_like(values[:1])
    before = np.cumsum(np.concatenate([none, values[:-1]]), axis=0)
    return np.asarray(before + np.cumsum(np.concatenate([none, values[:0:-1]]), axis=0)[::-1])
