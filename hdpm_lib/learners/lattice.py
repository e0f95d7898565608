"""Ridge regression with noise on a lattice: its guarantees hold for the program, not for reals only.

Records are put on a public grid, the weighted regression is solved in integers, its solution is rounded to a lattice of
a public spacing, and :func:`~hdpm_lib.discrete.lattice_laplace` adds noise on the same lattice. No step before the
release rounds unawares, so no error of floating-point numbers has to be bounded. The guarantee is proved in
:doc:`/book/privacy/arithmetic`; what is still assumed, such as uniform random integers, is in
:doc:`/book/privacy/limits`. Arguments are those of :mod:`~hdpm_lib.learners.ridge`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from operator import mul

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.accounts import charge
from hdpm_lib.discrete import lattice_laplace, proposal_scale, root_above
from hdpm_lib.learners.integer_answers import MOST, cut, power_of_two
from hdpm_lib.learners.ridge import Bound, estimate_norm_bound, project_on_ball, sensitivity_constant
from hdpm_lib.noise import lattice_step
from hdpm_lib.validation import check_choice, check_epsilon, check_flag, check_penalty, check_records

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
_GRID = 2**20  # steps of the records from 0 to 1
_ROOT = 2**64  # denominator of upper ends of square roots


@dataclass(frozen=True)
class LatticeRidge:
    r"""A calibrated output perturbation on a lattice, ready to release (:doc:`/book/privacy/limits`).

    Attributes
    ----------
    point : int64 array of shape (d,)
        The estimate before noise, in steps of the lattice. It is private: never publish it.
    rate : Fraction
        Noise rate for one step: probabilities are proportional to :math:`e^{-\text{rate}\lVert k\rVert_2}`.
    spacing : float, the step, a power of two
    weights : array of shape (n,)
    privacy_loss : array of shape (n,), the privacy loss of each record by one release, rounded up
    radius : float, a public bound on the norm of the estimate
    """

    point: Integers = field(repr=False)
    rate: Fraction
    spacing: float
    weights: Array
    privacy_loss: Array
    radius: float

    @property
    def noise_rate(self) -> float:
        """Noise rate in the units of the estimate, to compare with that of spherical noise."""
        return float(self.rate / Fraction(self.spacing))

    def release(self, *, rng: np.random.Generator, size: int | tuple[int, ...] = (), project: bool = False) -> Array:
        r"""Noisy estimates that may be published; each one spends the whole privacy loss.

        Shape (\*size, d): multiples of `spacing`, without rounding, cut at :math:`\pm2^{53}` of them. `project` pulls
        those outside the public ball back onto it: free post-processing, but off the lattice.
        """
        check_flag(project, "project")
        charge(lambda: self.privacy_loss, rng, size)
        noise = lattice_laplace(len(self.point), self.rate, rng=rng, size=size)
        noisy = self.spacing * cut(self.point + noise).astype(float)
        return project_on_ball(noisy, self.radius) if project else noisy


def lattice_ridge(
    X: ArrayLike,
    y: ArrayLike,
    epsilon: ArrayLike,
    penalty: float,
    *,
    spacing: float | None = None,
    bound: Bound = "paper",
    feature_norm: float | None = None,
    label_bound: float = 1.0,
    clip: bool = False,
) -> LatticeRidge:
    r"""Output perturbation as :func:`~hdpm_lib.learners.ridge.output_perturbation`, in integers and with noise on a
    lattice.

    Records are used in steps of :math:`2^{-20}`, cut towards zero. The lattice has the step `spacing`, `g`, a power of
    two; it is an error if that is too small for noise of the rate needed in floats. By default it follows from the
    public numbers, and costs a billionth of the rate. The result has ``privacy_loss <= epsilon``, exactly.

    Notes
    -----
    With the weights :math:`w_i` and the constant `c` of :func:`~hdpm_lib.learners.ridge.output_perturbation`, a release
    of the rate
    :math:`\tau=\min_i\varepsilon_i/(c\,w_i/g+\sqrt d)` for a step has the privacy losses
    :math:`\tau\,(c\,w_i/g+\sqrt d)\le\varepsilon_i`. In units of the estimate that is its rate divided by
    :math:`1+g\sqrt d\,S/(c\min_i\varepsilon_i)`. Floats are fractions, so that the estimate solves a linear system of
    integers; it is rounded to the nearest step, halves upwards. Square roots in `c` and :math:`\sqrt d` are rounded up,
    :math:`\tau` down. Assumed are uniform random integers, and the rest of :doc:`/book/privacy/limits`.

    Examples
    --------
    >>> mechanism = lattice_ridge([[0.0], [1.0]], [0.0, 1.0], [0.1, 0.5], penalty=1.0)
    >>> mechanism.privacy_loss.round(4).tolist(), bool((mechanism.privacy_loss <= [0.1, 0.5]).all())
    ([0.1, 0.5], True)
    """
    check_choice(bound, "bound", ("paper", "sharp"))
    features, labels = check_records(X, y, feature_norm=feature_norm, label_bound=label_bound, clip=clip)
    d = features.shape[1]
    different, which = np.unique(check_epsilon(epsilon, len(labels)), return_inverse=True)
    losses, counts = [Fraction(e) for e in different.tolist()], np.bincount(which).tolist()
    lam, norm = Fraction(check_penalty(penalty)), math.sqrt(d) if feature_norm is None else float(feature_norm)
    square = Fraction(d) if feature_norm is None else Fraction(norm) ** 2
    # The noise: what a record can move, in steps, is at most `moves` times its loss, plus a rounding
    total, least = sum(map(mul, losses, counts)), min(losses)
    radius = estimate_norm_bound(float(lam), norm, "sharp", 1.0, label_bound)
    if spacing is None:
        move = sensitivity_constant(float(lam), norm, bound, None, label_bound) / float(total)
        spacing = lattice_step(move * float(least) / math.sqrt(d), radius + 32 * d * move)
    step = power_of_two(spacing, "spacing")
    moves = _constant_above(lam, square, bound, Fraction(float(label_bound))) / (total * step)
    rounding = root_above(d, _ROOT)
    rate = _cut(least / (moves * least + rounding))
    if Fraction(radius) + 32 * d * step / rate > MOST * step:  # multiples must be floats
        raise ValueError(f"spacing must be larger for noise of the rate {float(rate):.3g} a step, got {spacing}")
    proposal_scale(d, rate)  # its errors now, from public numbers, and not once the data are in
    slope, rest = rate * moves, rate * rounding
    privacy_loss = np.array([_float_above(slope * loss + rest) for loss in losses])[which]

    # The estimate
    shares = _integer_shares(losses)[which]
    xs, ys = _grid_records(features, labels, square)
    weighted = xs * shares[:, None]
    matrix = (weighted.T @ xs) * lam.denominator
    matrix[np.diag_indices(d)] += lam.numerator * _GRID**2 * sum(shares)
    numerators, denominator = _exact_solve(matrix.tolist(), ((weighted.T @ ys) * lam.denominator).tolist())
    point = [math.floor(Fraction(numerator, denominator) / step + Fraction(1, 2)) for numerator in numerators]
    weights = np.array([float(loss / total) for loss in losses])[which]
    return LatticeRidge(np.array(point, dtype=np.int64), rate, float(spacing), weights, privacy_loss, radius)


def _constant_above(penalty: Fraction, square: Fraction, bound: Bound, label_bound: Fraction) -> Fraction:
    """The `c` of :func:`~hdpm_lib.learners.ridge.sensitivity_constant` for a squared feature norm, rounded up."""
    norm, inverse_root = root_above(square, _ROOT), root_above(1 / penalty, _ROOT)
    if bound == "paper":
        return 2 * label_bound / penalty * (norm + square * min(inverse_root, norm / penalty))
    estimate = inverse_root / 2 if penalty <= square else norm / (square + penalty)
    return 2 * label_bound / penalty * (norm + square * estimate / 2)


def _cut(value: Fraction) -> Fraction:
    """A rational with few digits, below `value` by at most a part in 2**52."""
    power = math.floor(value).bit_length() if value >= 1 else -math.floor(1 / value).bit_length()
    unit = Fraction(2) ** (power - 53)
    return math.floor(value / unit) * unit


def _float_above(value: Fraction) -> float:
    """The least float that is not below `value`."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def _integer_shares(losses: Sequence[Fraction]) -> NDArray:
    """Integers in proportion to the losses, exactly."""
    denominator = math.lcm(*(loss.denominator for loss in losses))
    shares = [int(loss * denominator) for loss in losses]
    common = math.gcd(*shares)
    return np.array([share // common for share in shares], dtype=object)


def _grid_records(features: Array, labels: Array, square: Fraction) -> tuple[NDArray, NDArray]:
    """Records in grid steps, as Python integers; squared norms of features are then at most `square`, exactly."""
    xs, ys = (np.frompyfunc(lambda value: int(value * _GRID), 1, 1)(part) for part in (features, labels))
    limit = math.floor(square * _GRID**2)
    lengths = (xs * xs).sum(axis=1)
    for i in np.flatnonzero(lengths > limit):  # floats have let too long a vector pass
        xs[i] = abs(xs[i]) * math.isqrt(limit) // (math.isqrt(lengths[i]) + 1) * np.sign(xs[i])
    return xs, ys


def _exact_solve(matrix: Sequence[Sequence[int]], vector: Sequence[int]) -> tuple[list[int], int]:
    """Solution of a positive definite system of integers (Bareiss): numerators, and their common denominator."""
    rows = [[*map(int, row), int(b)] for row, b in zip(matrix, vector, strict=True)]
    n, before = len(rows), 1
    for k in range(n - 1):
        pivot = rows[k]
        for row in rows[k + 1 :]:
            first = row[k]
            for j in range(k + 1, n + 1):
                row[j] = (row[j] * pivot[k] - first * pivot[j]) // before
        before = pivot[k]
    denominator, found = rows[-1][n - 1], [0] * n
    for k in reversed(range(n)):
        rest = sum(a * x for a, x in zip(rows[k][k + 1 : n], found[k + 1 :], strict=True))
        found[k] = (denominator * rows[k][n] - rest) // rows[k][k]
    return found, denominator
