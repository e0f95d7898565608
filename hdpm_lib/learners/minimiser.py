r"""The minimiser of an objective with noise, in floats and enclosed in balls.

The objective of coefficients `w`, for records :math:`x_i` of norm at most 1, weights :math:`a_i`
and noise `b`,

.. math:: \sum_i a_i\ell_i(w^\top x_i)+b^\top w+\frac\Lambda2\lVert w\rVert^2,

is strongly convex: its minimiser is no farther from any point than the norm of the gradient there,
over :math:`\Lambda`. So any point is the centre of a ball that holds the minimiser, once the
gradient is enclosed; Newton's method only finds good points.

Losses :math:`\ell_i` of a score are logistic or half a square, and are clipped: beyond a slope they
go on as straight lines. The *pull* of a record is minus the slope of its loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from flint import arb, arb_mat, ctx
from numpy.typing import NDArray
from scipy.special import expit

from hdpm_lib.exact import BITS, GRID, balls, grid_points, spherical, weighted_products

Array = NDArray[np.float64]

# of the gradient's norm at the minimiser, relative to the noise if that is above 1
TOLERANCE = 1e-10
EPS = float(np.finfo(float).eps)  # what the last digit of 1 is worth
NEWTON_STEPS = 200  # five times what the worst of the tests needs


# --- losses -------------------------------------------------------------------------------------


class Losses(Protocol):
    """Losses of records, of shape (m, n), as functions of their scores, of shape (..., m)."""

    @property
    def rows(self) -> Array:
        """Features, by whose products with the coefficients the scores are made."""

    @property
    def lipschitz(self) -> float:
        """How much a pull changes with a score at most."""

    def pull(self, scores: Array) -> Array:
        """Return minus the slopes."""

    def bend(self, scores: Array) -> Array:
        """Return the second derivatives; where a line begins, 0."""

    def long_pull(self, scores: NDArray[np.longdouble]) -> Array:
        """Return the pulls, each within two roundings and what `scores` are off."""

    def pull_balls(self, scores: list[arb]) -> list[arb]:
        """Return the pulls, enclosed."""

    def bend_balls(self, scores: list[arb]) -> list[arb]:
        """Return about what the second derivatives are."""


@dataclass(frozen=True, eq=False)
class Logistic:
    r"""Logistic losses :math:`\ln(1+e^{-s})` of records times their labels.

    `limits`, of shape (m,), are the largest pulls; from 1 on they clip nothing.
    """

    rows: Array
    limits: Array
    lipschitz = 0.25

    def pull(self, scores: Array) -> Array:
        """See :class:`Losses`."""
        return np.minimum(expit(-scores), self.limits)

    def bend(self, scores: Array) -> Array:
        """See :class:`Losses`."""
        chance = expit(scores)
        return np.where(expit(-scores) < self.limits, chance * (1 - chance), 0.0)

    def long_pull(self, scores: NDArray[np.longdouble]) -> Array:
        """See :class:`Losses`."""
        # beyond 200 chances are 0 or 1, but for less than the bound
        near = np.clip(scores.astype(float), -200, 200)
        beyond = np.where(np.abs(near) < 200, (scores - near).astype(float), 0)
        chances = np.array([float(1 / (1 + arb(score).exp())) for score in near.tolist()])
        chances -= chances * (1 - chances) * beyond
        return np.minimum(chances, self.limits)

    def pull_balls(self, scores: list[arb]) -> list[arb]:
        """See :class:`Losses`."""
        pulls = []
        for score, limit in zip(scores, self.limits.tolist(), strict=True):
            pull = _chance(score)
            if limit < 1:
                pull = pull.min(arb(limit))
            pulls.append(pull)
        return pulls

    def bend_balls(self, scores: list[arb]) -> list[arb]:
        """See :class:`Losses`."""
        bends = []
        for score, limit in zip(scores, self.limits.tolist(), strict=True):
            chance = _chance(score)
            clipped = not chance.mid() < limit
            bends.append(arb(0) if clipped else chance * (1 - chance))
        return bends


@dataclass(frozen=True, eq=False)
class Squared:
    """Halves of squares of residuals, `labels` less scores, clipped: Huber's losses.

    `limits`, of shape (m,), are the largest pulls.
    """

    rows: Array
    labels: Array
    limits: Array
    lipschitz = 1.0

    def pull(self, scores: Array) -> Array:
        """See :class:`Losses`."""
        return np.clip(self.labels - scores, -self.limits, self.limits)

    def bend(self, scores: Array) -> Array:
        """See :class:`Losses`."""
        return (np.abs(self.labels - scores) < self.limits).astype(float)

    def long_pull(self, scores: NDArray[np.longdouble]) -> Array:
        """See :class:`Losses`."""
        residuals = self.labels - scores
        return np.clip(residuals, -self.limits, self.limits).astype(float)

    def pull_balls(self, scores: list[arb]) -> list[arb]:
        """See :class:`Losses`."""
        pulls = []
        for label, score, limit in zip(
            self.labels.tolist(), scores, self.limits.tolist(), strict=True
        ):
            residual = arb(label) - score
            pulls.append(residual.min(arb(limit)).max(-arb(limit)))
        return pulls

    def bend_balls(self, scores: list[arb]) -> list[arb]:
        """See :class:`Losses`."""
        return [arb(bend) for bend in self.bend(_middles(scores)).tolist()]


# --- floats -------------------------------------------------------------------------------------


def newton(losses: Losses, weights: Array, noise: Array, penalty: float, start: Array) -> Array:
    """Minimise for rows of noise, by Newton's method with a line search where it is needed.

    `noise` and `start` have the shape (k, n); there is one row of `weights`, or k.
    """
    w = start.copy()
    n = noise.shape[1]
    features = losses.rows
    weights = np.broadcast_to(weights, (len(w), len(features)))
    accuracy = TOLERANCE * np.maximum(1, np.linalg.norm(noise, axis=1))

    def gradient(w: Array, rows: NDArray[np.intp]) -> Array:
        pull = weights[rows] * losses.pull(w @ features.T)
        return noise[rows] + penalty * w - pull @ features

    active = np.arange(len(w))
    slope = gradient(w, active)
    for _ in range(NEWTON_STEPS):
        curvature = weights[active] * losses.bend(w[active] @ features.T)
        bend = penalty + curvature.sum(1)
        # what the last digit of w is worth
        rounding = 4 * n * EPS * bend * np.linalg.norm(w[active], axis=1)
        size = np.linalg.norm(slope, axis=1)
        going = size > np.maximum(accuracy[active], rounding)
        if not going.any():
            break
        active = active[going]
        slope = slope[going]
        size = size[going]
        # never singular
        diagonal = np.maximum(penalty, 4 * n * EPS * bend[going])
        hessian = (features.T * curvature[going][:, None, :]) @ features
        hessian += diagonal[:, None, None] * np.eye(n)
        step = np.linalg.solve(hessian, slope[..., None])[..., 0]
        slope = gradient(w[active] - step, active)
        bad = ~(np.linalg.norm(slope, axis=1) <= 0.75 * size)
        if bad.any():
            row = active[bad]
            length = _step_length(losses, weights[row], noise[row], penalty, w[row], step[bad])
            step[bad] *= length[:, None]
            slope[bad] = gradient(w[row] - step[bad], row)
        w[active] -= step
    return w


def _step_length(
    losses: Losses, weights: Array, noise: Array, penalty: float, w: Array, step: Array
) -> Array:
    """Return the part of each step back, at most 1, that lowers the objective most, by halving."""
    scores = w @ losses.rows.T
    moves = step @ losses.rows.T
    first = ((noise + penalty * w) * step).sum(1)
    second = penalty * (step * step).sum(1)
    low = np.zeros(len(w))
    high = np.ones(len(w))
    for _ in range(60):
        middle = (low + high) / 2
        pull = (weights * losses.pull(scores - middle[:, None] * moves) * moves).sum(1)
        too_far = first - middle * second < pull
        low = np.where(too_far, low, middle)
        high = np.where(too_far, middle, high)
    return high


# --- balls --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Enclosure:
    """A function from enclosures of uniform numbers to those of the minimiser.

    Records lie on a grid.

    Attributes
    ----------
    losses : Losses
        Of records on the grid: ``rows`` are whole numbers over `GRID`, of norm at most 1
        (:func:`hdpm_lib.exact.on_grid`).
    largest : float
        The largest pull times the norm of a record.
    weights : array of shape (m,)
        Weights of the records, positive.
    penalty, rate : float
        Public numbers: the penalty, and the rate of the noise.
    step : float
        Step of the grid of the release: balls much smaller decide.
    """

    losses: Losses
    largest: float
    weights: Array
    penalty: float
    rate: float
    step: float

    def __call__(self, uniforms: list[arb]) -> list[arb]:
        """Enclose the minimiser, with the precision that is set."""
        noise = spherical(uniforms, self.losses.rows.shape[1], self.rate)
        point = self._minimiser(_middles(noise))
        if ctx.prec > BITS[0]:
            return self._by_balls(point, noise)
        quick = self._by_floats(point, noise)
        if grid_points(quick, self.step) is not None:
            return quick
        # finer balls of the same bits may decide
        return self._by_balls(point, noise)

    @cached_property
    def _steps(self) -> NDArray[np.int64]:
        """The records in steps of the grid."""
        return (self.losses.rows * GRID).astype(np.int64)

    @cached_property
    def _long(self) -> NDArray[np.longdouble]:
        """The records as long floats."""
        return self.losses.rows.astype(np.longdouble)

    @cached_property
    def _rows(self) -> arb_mat:
        """The records as balls of radius 0."""
        return balls(self.losses.rows)

    def _minimiser(self, noise: Array) -> Array:
        """Return what floats take for the minimiser."""
        with np.errstate(all="ignore"):
            start = np.zeros((1, len(noise)))
            point = newton(self.losses, self.weights, noise[None], self.penalty, start)[0]
            rows = self.losses.rows
            pull = (self.weights * self.losses.pull(rows @ point)) @ rows
            point = point - self._step_back(point, noise + self.penalty * point - pull)
        return np.where(np.isfinite(point), point, 0)

    def _step_back(self, point: Array, slope: Array) -> Array:
        """Compute Newton's step back from a point, with the curvature of floats."""
        with np.errstate(all="ignore"):
            rows = self.losses.rows
            curvature = (rows.T * (self.weights * self.losses.bend(rows @ point))) @ rows
            n = len(point)
            # never singular
            bend = max(self.penalty, 4 * n * EPS * (self.penalty + np.trace(curvature)))
            return np.linalg.solve(curvature + bend * np.eye(n), slope)

    # with products of floats, whose error is bounded before they are computed

    @np.errstate(all="ignore")
    def _by_floats(self, point: Array, noise: list[arb]) -> list[arb]:
        """Enclose the minimiser in a ball about a point near `point`."""
        radius = arb("inf")
        if not 2.0**-900 < self.weights.sum() < 2.0**900:
            # the products of floats may over- or underflow
            return [arb(x, radius) for x in point.tolist()]
        while True:
            slope, error = self._rough_slopes(point, noise)
            before = radius
            radius = ((_norm(slope) + error) / self.penalty).abs_upper()
            if radius < self.step * 2.0**-12 or not radius < before / 2:
                break
            moved = point - self._step_back(point, _middles(slope))
            if not np.isfinite(moved).all():
                break
            point = moved
        return [arb(x, radius) for x in point.tolist()]

    def _rough_slopes(self, point: Array, noise: list[arb]) -> tuple[list[arb], float]:
        r"""Compute the gradient at a point but for an error, and a bound on the norm of that.

        A product of `n` floats is wrong by less than :math:`nu` (and a little) times that of the
        sizes, whatever the order of its sums, `u` being half of their last digit's worth: so
        scores, in long floats, are by less than :math:`nu\lVert w\rVert`, and pulls by that times
        `lipschitz`; so is the difference of a label and a score. What long floats hold beyond
        floats moves a chance by its slope times that, but for its square. A pull, at most `largest`
        over the norm of the record, is rounded twice and its product with the weight once, and the
        sum over the records is exact but for products that are cut. The bound is twice what this
        needs, for its own rounding.
        """
        m, n = self.losses.rows.shape
        pulls = self.weights * self.losses.long_pull(self._long @ point)
        back, unit = weighted_products(pulls, self._steps, np.ones((m, 1), dtype=np.int64))
        long = self.losses.lipschitz * n * np.linalg.norm(point) * np.finfo(np.longdouble).eps
        error = self.weights.sum() * (3 * EPS * self.largest + long) + 2 * m * unit
        scale = arb(unit) / GRID
        slope = [
            b + arb(self.penalty) * x - scale * pull
            for b, x, pull in zip(noise, point.tolist(), back.entries(), strict=True)
        ]
        return slope, float(error)

    # with balls throughout

    def _by_balls(self, point: Array, noise: list[arb]) -> list[arb]:
        """Enclose the minimiser in a ball about a point near `point`."""
        w = [arb(x) for x in point.tolist()]
        radius = arb("inf")
        bits = ctx.prec
        for _ in range(NEWTON_STEPS):
            slope = self._slopes(w, noise)
            before = radius
            radius = (_norm(slope) / self.penalty).abs_upper()
            if radius < self.step * 2.0**-30:  # close enough
                break
            # with the curvature of floats, while that goes fast
            if ctx.prec == bits and radius < before / 2:
                move = self._step_back(_middles(w), _middles(slope))
                if np.isfinite(move).all():
                    w = [(x - arb(y)).mid() for x, y in zip(w, move.tolist(), strict=True)]
                    continue
            # then with all digits, and with more of them: so that what rounds `w` does not count
            # beside what is not known of the noise
            ctx.prec = 2 * bits
            lower = self._lower(w, slope, noise)
            if lower is None:
                break
            w = lower
        else:  # the last step moved `w`, and the ball is to be about where it is now
            radius = (_norm(self._slopes(w, noise)) / self.penalty).abs_upper()
        ctx.prec = bits
        return [x + arb(0, radius) for x in w]

    def _slopes(self, w: list[arb], noise: list[arb]) -> list[arb]:
        """Enclose the gradient at `w`."""
        scores = (self._rows * arb_mat(len(w), 1, w)).entries()
        pulls = self.losses.pull_balls(scores)
        weighted = [arb(a) * pull for a, pull in zip(self.weights.tolist(), pulls, strict=True)]
        back = (self._rows.transpose() * arb_mat(len(weighted), 1, weighted)).entries()
        return [b + arb(self.penalty) * x - pull for b, x, pull in zip(noise, w, back, strict=True)]

    def _lower(self, w: list[arb], slope: list[arb], noise: list[arb]) -> list[arb] | None:
        """Find a point of lower objective, or None if `w` is as good as the noise is known."""
        try:
            move = self._newton_step(w, slope)
        except ZeroDivisionError:  # singular at this precision
            return None
        if not _dot(slope, move) > 0:
            return None
        low = arb(0)
        high = arb(1)
        length = arb(1)
        for _ in range(ctx.prec):
            moved = [(x - length * y).mid() for x, y in zip(w, move, strict=True)]
            after = self._slopes(moved, noise)
            if _norm(after) < 0.75 * _norm(slope):
                break
            if _dot(after, move) > 0:
                low = length
            else:
                high = length
            length = (low + high) / 2
        return moved

    def _newton_step(self, w: list[arb], slope: list[arb]) -> list[arb]:
        """Compute Newton's step back from `w`, with all digits."""
        n = len(w)
        scores = (self._rows * arb_mat(n, 1, w)).entries()
        bends = self.losses.bend_balls(scores)
        bent_rows = []
        for a, bend, row in zip(self.weights.tolist(), bends, self._rows.table(), strict=True):
            curvature = arb(a) * bend
            bent_rows.append([curvature * x for x in row])
        hessian = self._rows.transpose() * arb_mat(bent_rows)
        for i in range(n):
            hessian[i, i] += self.penalty
        return hessian.mid().solve(arb_mat(n, 1, slope).mid()).mid().entries()


def _chance(margin: arb) -> arb:
    """Enclose the logistic function of minus a margin; far out in a ball at 0 or 1."""
    near = arb(0, 1) * arb(2) ** -ctx.prec
    if margin > 2 * ctx.prec:
        return near
    if margin < -2 * ctx.prec:
        return 1 + near
    chance = 1 / (1 + margin.exp())
    return chance if chance.is_finite() else arb(0.5, 0.5)


def _middles(values: list[arb]) -> Array:
    """Return the middles of balls as floats."""
    return np.array([float(value.mid()) for value in values])


def _dot(values: list[arb], others: list[arb]) -> arb:
    """Return the inner product."""
    return sum((x * y for x, y in zip(values, others, strict=True)), arb(0))


def _norm(values: list[arb]) -> arb:
    """Return an upper end of the norm."""
    return _dot(values, values).abs_upper().sqrt()
