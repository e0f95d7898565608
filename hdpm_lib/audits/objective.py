r"""Actual losses of records by a perturbed objective, at an output.

The mechanism is that of :mod:`hdpm_lib.learners.objective`. Let record `j` pull with :math:`p_j`,
minus the slope of its loss at the score :math:`w^\top u_j`, and :math:`s_j` be the second
derivative there; of logistic losses :math:`u_j=y_jx_j`, of squared ones :math:`u_j=x_j`. The noise
that makes :math:`w` the minimiser is :math:`b(w)=\sum_ja_jp_ju_j-\Lambda w`, and the Hessian there
is :math:`H(w)=\sum_ja_js_ju_ju_j^\top+\Lambda I`. So released coefficients have the density
:math:`h(b(w))\det H(w)`, with the density :math:`h` of the noise, and the loss between two data
sets at an output is a formula (:doc:`/book/privacy/meters`).

The worst record and the worst output are searched for, from below: that nothing above a guarantee
is found does not prove it.

Throughout, a `mechanism` has `m` sellers and records of `n` features, `X` and `y`, and
`coefficients` are released ones, of shape (..., n).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from hdpm_lib.learners.minimiser import Losses
from hdpm_lib.learners.objective import ObjectivePerturbation, losses_of
from hdpm_lib.validation import check_finite

Array = NDArray[np.float64]

# of the search for the worst record: directions and norms of its grid, and how often that is made
# finer
TURNS = 61
NORMS = 16
ZOOMS = 20


def worst_losses(
    mechanism: ObjectivePerturbation, X: ArrayLike, y: ArrayLike, coefficients: ArrayLike
) -> Array:
    r"""Search, at each output, the two records of each seller that it tells apart best.

    Parameters
    ----------
    mechanism : ObjectivePerturbation
        The mechanism.
    X : array of shape (m, n)
        Features of all sellers; the others' are as they are.
    y : array of shape (m,)
        Labels.
    coefficients : array of shape (..., n)
        Outputs.

    Returns
    -------
    array of shape (..., m)
        Exact losses between the records found: lower ends of the worst losses.

    Notes
    -----
    The log density is a constant plus a function of her record, so that the two are searched one by
    one, each in two planes. In one and two dimensions these are the whole ball.
    """
    w = check_finite(coefficients, "coefficients")
    n = mechanism.features
    if w.shape[-1:] != (n,):
        raise ValueError(f"coefficients must have shape (..., {n}), got {w.shape}")
    features, labels = mechanism._inside(X, y)
    losses = losses_of(features, labels, mechanism.loss, mechanism.clip_norm)
    rows = [_worst_at(losses, mechanism, output) for output in w.reshape(-1, n)]
    return np.reshape(rows, (*w.shape[:-1], len(features)))


def _worst_at(losses: Losses, mechanism: ObjectivePerturbation, w: Array) -> Array:
    """Search the worst losses at one output."""
    a = mechanism.weights
    n = len(w)
    rows = losses.rows
    scores = rows @ w
    pulls = (a * losses.pull(scores))[:, None] * rows
    curvatures = (a * losses.bend(scores))[:, None, None] * rows[:, :, None] * rows[:, None, :]
    # without each seller: the noise, the inverse curvature, and about where that is largest
    noise = _without_each(pulls) - mechanism.penalty * w
    inverse = np.linalg.inv(_without_each(curvatures) + mechanism.penalty * np.eye(n))
    flat = np.linalg.matrix_power(mechanism.penalty * inverse, 6).sum(-1)

    size = float(np.linalg.norm(w))
    first = w / size if size > 0 else np.eye(n)[0]
    highest = np.full(len(a), -np.inf)  # log density, and minus the lowest
    lowest = np.full(len(a), -np.inf)
    for direction in (noise, flat):
        axes = _plane(first, direction)
        gain = partial(
            _gain,
            mechanism=mechanism,
            size=size,
            length=np.linalg.norm(noise, axis=1),
            noise=(noise[:, None] @ axes)[:, 0],
            inverse=np.swapaxes(axes, 1, 2) @ inverse @ axes,
        )
        highest = np.maximum(highest, _largest(partial(gain, 1), len(a)))
        lowest = np.maximum(lowest, _largest(partial(gain, -1), len(a)))
    return np.asarray(highest + lowest)


def _plane(first: Array, direction: Array) -> Array:
    """Return two axes for each seller, shape (m, n, 2), that span the plane of two directions.

    The second axis is 0 where both are the same.
    """
    second = direction - (direction @ first)[:, None] * first
    across = np.linalg.norm(second, axis=1, keepdims=True)
    length = np.linalg.norm(direction, axis=1, keepdims=True)
    second = np.where(across > 1e-9 * length, second / np.maximum(across, 1e-300), 0.0)
    return np.stack([np.broadcast_to(first, second.shape), second], axis=-1)


def _gain(
    sign: int,
    turn: Array,
    norm: Array,
    *,
    mechanism: ObjectivePerturbation,
    size: float,
    length: Array,
    noise: Array,
    inverse: Array,
) -> Array:
    """Return the log density less that of an empty record, times a sign, at the best labels.

    Records of each seller lie in a plane of her own, in polar coordinates from the direction of the
    output (last axis: sellers), which has the norm `size`. Without the seller the noise has the
    norm `length`, and noise and inverse curvature, seen in the plane, are `noise`, of shape (m, 2),
    and `inverse`, of shape (m, 2, 2).
    """
    # turns are closest together where margins are moderate
    fine = max(np.arcsinh(size), 1e-3)
    cosine = np.sinh(fine * (np.abs(turn) - 1)) / np.sinh(fine)
    sine = np.sign(turn) * np.sqrt(np.maximum(1 - cosine**2, 0))
    t = norm * cosine
    v = norm * sine * (inverse[:, 1, 1] > 0)  # 0 where there is no second axis
    a = mechanism.weights
    form = t * t * inverse[:, 0, 0] + 2 * t * v * inverse[:, 0, 1] + v * v * inverse[:, 1, 1]
    form *= a
    along = t * noise[:, 0] + v * noise[:, 1]
    square = t * t + v * v

    def density(pull: Array, bend: Array) -> Array:
        # how much longer she makes the noise: no difference of long norms is taken
        squares = a * pull * (2 * along + a * pull * square)
        norms = length + np.sqrt(np.maximum(length**2 + squares, 0))
        longer = squares / np.maximum(norms, 1e-300)
        return np.asarray(np.log1p(bend * form) - mechanism.noise_rate * longer)

    score = size * t
    limit = mechanism.clip_norm / np.maximum(np.sqrt(square), 1e-300)
    if mechanism.loss == "logistic":
        pull = expit(-score)
        bend = pull * expit(score)
        if mechanism.clip_norm < 1:
            bend = np.where(pull < limit, bend, 0.0)
            pull = np.minimum(pull, limit)
        return sign * density(pull, bend)
    # residuals that labels in [-1, 1] allow
    low = -1 - score
    high = 1 - score
    least = np.clip(low, -limit, limit)
    most = np.clip(high, -limit, limit)
    if sign > 0:  # shortest noise, and curvature, which a residual just below the limit has
        best = -along / np.maximum(a * square, 1e-300)
        return density(np.clip(best, least, most), (least < most).astype(float))
    at_low = density(least, (np.abs(low) < limit).astype(float))
    at_high = density(most, (np.abs(high) < limit).astype(float))
    return np.maximum(-at_low, -at_high)


def _largest(function: Callable[[Array, Array], Array], size: int) -> Array:
    """Search the largest values of many functions on [-2, 2] x [0, 1].

    They are looked for on a grid, then on finer ones around the best.
    """
    functions = np.arange(size)
    x = np.zeros(size)
    y = np.full(size, 0.5)
    across = np.linspace(-2, 2, TURNS)
    down = np.linspace(-0.5, 0.5, NORMS)
    for _ in range(ZOOMS):
        rows = (x + across[:, None, None] + 2) % 4 - 2
        columns = np.clip(y + down[:, None], 0, 1)
        values = function(rows, columns)
        i, j = np.divmod(values.reshape(-1, size).argmax(0), len(down))
        x = rows[i, 0, functions]
        y = columns[j, functions]
        best = values[i, j, functions]
        across = np.linspace(-1, 1, 5) * (across[1] - across[0])
        down = np.linspace(-1, 1, 5) * (down[1] - down[0])
    return np.asarray(best)


def _without_each(values: Array) -> Array:
    """Sum over the first axis without each entry, from both sides: no difference is taken."""
    none = np.zeros_like(values[:1])
    before = np.cumsum(np.concatenate([none, values[:-1]]), axis=0)
    after = np.cumsum(np.concatenate([none, values[:0:-1]]), axis=0)[::-1]
    return np.asarray(before + after)
