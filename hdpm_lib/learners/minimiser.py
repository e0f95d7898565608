r"""The minimiser of a logistic objective with noise, in floats and enclosed in balls.

The objective of coefficients `w`, for records :math:`y_ix_i` of norm at most 1, weights
:math:`a_i` and noise `b`,

.. math:: \sum_i a_i\ln\bigl(1+e^{-y_iw^\top x_i}\bigr)+b^\top w+\frac\Lambda2\lVert w\rVert^2,

is strongly convex: its minimiser is no farther from any point than the norm of the gradient there,
over :math:`\Lambda`. So any point is the centre of a ball that holds the minimiser, once the
gradient is enclosed; Newton's method only finds good points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb, arb_mat, ctx
from numpy.typing import NDArray
from scipy.special import expit

from hdpm_lib.exact import BITS, GRID, balls, cells, moments, spherical

Array = NDArray[np.float64]

# of the gradient's norm at the minimiser, relative to the noise if that is above 1
TOLERANCE = 1e-10
EPS = float(np.finfo(float).eps)  # what the last digit of 1 is worth
NEWTON_STEPS = 200  # five times what the worst of the tests needs


# --- floats -------------------------------------------------------------------------------------


def newton(signed: Array, weights: Array, noise: Array, penalty: float, start: Array) -> Array:
    """Minimisers for rows of noise, by Newton's method with a line search where it is needed.

    `signed`, of shape (m, n), holds the records times their labels, `noise` and `start` have the
    shape (k, n); there is one row of `weights`, or k.
    """
    w = start.copy()
    n = noise.shape[1]
    weights = np.broadcast_to(weights, (len(w), len(signed)))
    accuracy = TOLERANCE * np.maximum(1, np.linalg.norm(noise, axis=1))

    def gradient(w: Array, rows: NDArray[np.intp]) -> Array:
        return noise[rows] + penalty * w - (weights[rows] * expit(-w @ signed.T)) @ signed

    active = np.arange(len(w))
    slope = gradient(w, active)
    for _ in range(NEWTON_STEPS):
        chance = expit(w[active] @ signed.T)
        curvature = weights[active] * chance * (1 - chance)
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
        diagonal = np.maximum(penalty, 4 * n * EPS * bend[going])[:, None, None] * np.eye(n)
        hessian = (signed.T * curvature[going][:, None, :]) @ signed + diagonal
        step = np.linalg.solve(hessian, slope[..., None])[..., 0]
        slope = gradient(w[active] - step, active)
        bad = ~(np.linalg.norm(slope, axis=1) <= 0.75 * size)
        if bad.any():
            row = active[bad]
            length = _step_length(signed, weights[row], noise[row], penalty, w[row], step[bad])
            step[bad] *= length[:, None]
            slope[bad] = gradient(w[row] - step[bad], row)
        w[active] -= step
    return w


def _step_length(
    signed: Array, weights: Array, noise: Array, penalty: float, w: Array, step: Array
) -> Array:
    """The part, at most 1, of each step back that lowers the objective most, by halving."""
    margins = w @ signed.T
    moves = step @ signed.T
    first = ((noise + penalty * w) * step).sum(1)
    second = penalty * (step * step).sum(1)
    low = np.zeros(len(w))
    high = np.ones(len(w))
    for _ in range(60):
        middle = (low + high) / 2
        pull = (weights * expit(middle[:, None] * moves - margins) * moves).sum(1)
        too_far = first - middle * second < pull
        low = np.where(too_far, low, middle)
        high = np.where(too_far, middle, high)
    return high


# --- balls --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Enclosure:
    """From enclosures of uniform numbers to those of the minimiser, for records on a grid.

    Attributes
    ----------
    steps : array of integers, of shape (m, n)
        Records times labels, in steps of ``1 / GRID``, of norm at most `GRID`
        (:func:`hdpm_lib.exact.on_grid`).
    weights : array of shape (m,)
        Weights of the records, positive.
    penalty, rate : float
        Public numbers: the penalty, and the rate of the noise.
    step : float
        Step of the grid of the release: balls much smaller decide.
    """

    steps: NDArray[np.int64]
    weights: Array
    penalty: float
    rate: float
    step: float

    def __call__(self, uniforms: list[arb]) -> list[arb]:
        noise = spherical(uniforms, self.steps.shape[1], self.rate)
        point = self._minimiser(_middles(noise))
        if ctx.prec == BITS[0]:
            with np.errstate(all="ignore"):
                quick, radius = self._by_floats(point, noise)
            about = [arb(x, radius) for x in quick.tolist()]
            if cells(about, self.step) is not None:  # else finer balls of the same bits may decide
                return about
        centre, radius = self._by_balls(point, noise)
        return [x + arb(0, radius) for x in centre]

    @cached_property
    def _floats(self) -> Array:
        """The records, without a rounding."""
        return self.steps / GRID

    @cached_property
    def _long(self) -> NDArray[np.longdouble]:
        """The same, as long floats."""
        return self._floats.astype(np.longdouble)

    @cached_property
    def _rows(self) -> arb_mat:
        """The records as balls of radius 0."""
        return balls(self._floats)

    def _minimiser(self, noise: Array) -> Array:
        """What floats take for the minimiser."""
        with np.errstate(all="ignore"):
            start = np.zeros((1, len(noise)))
            point = newton(self._floats, self.weights, noise[None], self.penalty, start)[0]
            pull = (self.weights * expit(-self._floats @ point)) @ self._floats
            point = point - self._step_back(point, noise + self.penalty * point - pull)
        return np.where(np.isfinite(point), point, 0)

    def _step_back(self, point: Array, slope: Array) -> Array:
        """Newton's step back from a point, with the curvature of floats."""
        with np.errstate(all="ignore"):
            chance = expit(self._floats @ point)
            curvature = (self._floats.T * (self.weights * chance * (1 - chance))) @ self._floats
            n = len(point)
            # never singular
            bend = max(self.penalty, 4 * n * EPS * (self.penalty + np.trace(curvature)))
            return np.linalg.solve(curvature + bend * np.eye(n), slope)

    # with products of floats, whose error is bounded before they are computed

    def _by_floats(self, point: Array, noise: list[arb]) -> tuple[Array, arb]:
        """A point, and the radius of a ball about it that holds the minimiser."""
        radius = arb("inf")
        if not 2.0**-900 < self.weights.sum() < 2.0**900:
            return point, radius
        while True:
            slope, error = self._rough_slopes(point, noise)
            before = radius
            radius = ((_norm(slope) + error) / self.penalty).abs_upper()
            if radius < self.step * 2.0**-12 or not radius < before / 2:
                return point, radius
            moved = point - self._step_back(point, _middles(slope))
            if not np.isfinite(moved).all():
                return point, radius
            point = moved

    def _rough_slopes(self, point: Array, noise: list[arb]) -> tuple[list[arb], float]:
        r"""The gradient at a point but for an error, and a bound on the norm of that.

        A product of `n` floats is wrong by less than :math:`nu` (and a little) times that of the
        sizes, whatever the order of its sums, `u` being half of their last digit's worth: so
        margins, in long floats, are by less than :math:`nu\lVert w\rVert`, and chances by a quarter
        of that. What long floats hold beyond floats moves a chance by its slope times that, but for
        its square. A chance is rounded twice and its product with the weight once, and the sum over
        the records is exact but for weights that are cut. The bound is twice what this needs, for
        its own rounding.
        """
        m, n = self.steps.shape
        margins = self._long @ point
        # beyond 200 chances are 0 or 1, but for less than the bound
        near = np.clip(margins.astype(float), -200, 200)
        beyond = np.where(np.abs(near) < 200, (margins - near).astype(float), 0)
        chances = np.array([float(1 / (1 + arb(margin).exp())) for margin in near.tolist()])
        chances -= chances * (1 - chances) * beyond
        pulls = self.weights * chances
        back, unit = moments(pulls, self.steps, np.ones((m, 1), dtype=np.int64))
        long = n * np.linalg.norm(point) / 4 * np.finfo(np.longdouble).eps
        error = self.weights.sum() * (3 * EPS + long) + 2 * m * unit
        scale = arb(unit) / GRID
        slope = [
            b + arb(self.penalty) * x - scale * pull
            for b, x, pull in zip(noise, point.tolist(), back.entries(), strict=True)
        ]
        return slope, float(error)

    # with balls throughout

    def _by_balls(self, point: Array, noise: list[arb]) -> tuple[list[arb], arb]:
        """A point, and the radius of a ball about it that holds the minimiser."""
        w = [arb(x) for x in point.tolist()]
        radius = arb("inf")
        bits = ctx.prec
        for _ in range(NEWTON_STEPS):
            slope = self._slopes(w, noise)
            before = radius
            radius = (_norm(slope) / self.penalty).abs_upper()
            if radius < self.step * 2.0**-30:  # close enough
                break
            # with the curvature of floats, while that goes fast; then with all digits
            quick = ctx.prec == bits and bool(radius < before / 2)
            move = self._step_back(_middles(w), _middles(slope)) if quick else np.array(np.nan)
            if np.isfinite(move).all():
                w = [(x - arb(y)).mid() for x, y in zip(w, move.tolist(), strict=True)]
                continue
            # so that what rounds `w` does not count beside what is not known of the noise
            ctx.prec = 2 * bits
            if (lower := self._lower(w, slope, noise)) is None:
                break
            w = lower
        else:  # the last step moved `w`, and the ball is to be about where it is now
            radius = (_norm(self._slopes(w, noise)) / self.penalty).abs_upper()
        ctx.prec = bits
        return w, radius

    def _chances(self, w: list[arb]) -> list[arb]:
        return [_chance(margin) for margin in (self._rows * arb_mat(len(w), 1, w)).entries()]

    def _slopes(self, w: list[arb], noise: list[arb]) -> list[arb]:
        """The gradient at `w`, enclosed."""
        pulls = [arb(a) * p for a, p in zip(self.weights.tolist(), self._chances(w), strict=True)]
        back = (self._rows.transpose() * arb_mat(len(pulls), 1, pulls)).entries()
        return [b + arb(self.penalty) * x - pull for b, x, pull in zip(noise, w, back, strict=True)]

    def _lower(self, w: list[arb], slope: list[arb], noise: list[arb]) -> list[arb] | None:
        """A point of lower objective, or None if `w` is as good as the noise is known."""
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
            low, high = (length, high) if _dot(after, move) > 0 else (low, length)
            length = (low + high) / 2
        return moved

    def _newton_step(self, w: list[arb], slope: list[arb]) -> list[arb]:
        """Newton's step back from `w`, with all digits."""
        n = len(w)
        bends = [
            arb(a) * p * (1 - p)
            for a, p in zip(self.weights.tolist(), self._chances(w), strict=True)
        ]
        bent = arb_mat(
            [[bend * x for x in row] for bend, row in zip(bends, self._rows.table(), strict=True)]
        )
        diagonal = arb_mat(n, n, [arb(self.penalty) * (i == j) for i in range(n) for j in range(n)])
        hessian = self._rows.transpose() * bent + diagonal
        return hessian.mid().solve(arb_mat(n, 1, slope).mid()).mid().entries()


def _chance(margin: arb) -> arb:
    """The logistic function of minus a margin; far out a ball at 0 or 1, for lack of digits."""
    near = arb(0, 1) * arb(2) ** -ctx.prec
    if margin > 2 * ctx.prec:
        return near
    if margin < -2 * ctx.prec:
        return 1 + near
    chance = 1 / (1 + margin.exp())
    return chance if chance.is_finite() else arb(0.5, 0.5)


def _middles(values: list[arb]) -> Array:
    return np.array([float(value.mid()) for value in values])


def _dot(values: list[arb], others: list[arb]) -> arb:
    return sum((x * y for x, y in zip(values, others, strict=True)), arb(0))


def _norm(values: list[arb]) -> arb:
    """An upper end of the norm."""
    return _dot(values, values).abs_upper().sqrt()
