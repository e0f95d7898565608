r"""Regression in which every record keeps its own (:math:`\varepsilon_i`, :math:`\delta`), by noisy
gradient descent.

Record :math:`i` has :math:`\mu_i`, the largest that :math:`(\varepsilon_i,\delta)` allows
(:func:`hdpm_lib.gaussian.largest_mu`), and the weight :math:`w_i=\mu_i/\max_j\mu_j`. From
:math:`\theta_0=v_0=0` on, each of `T` steps looks at all records:

.. math::

    g_t=\frac1{\sum_iw_i}\Bigl(\sum_iw_ir_{ti}x_i+s\,N_t\Bigr),\qquad
    s=\frac{2c\sqrt T}{\max_j\mu_j},\qquad v_{t+1}=\beta v_t-\alpha g_t,\qquad
    \theta_{t+1}=\theta_t+v_{t+1}.

The :math:`r_{ti}` are the slopes at :math:`\theta_t` of losses of scores
:math:`\theta_t^\top x_i`: logistic, for labels -1 and 1, or halves of squares, for labels in
[-1, 1]. They are *clipped* so that no gradient :math:`r_{ti}x_i` is longer than `c`, the clip norm.
The :math:`N_t` are standard normal vectors, :math:`\alpha` is the learning rate and :math:`\beta`
the momentum of the heavy ball (Polyak 1964). Released is the mean of the last three tenths of the
:math:`\theta_t`; all of them may be, as the promise is one about all.

*Theorem.* What a release tells of record `i` is told by a normal variable that is moved by
:math:`\mu_i` standard deviations, at most; so the record keeps :math:`(\varepsilon_i,\delta)`.

*Proof.* :math:`\theta_t` is a function of earlier noisy sums and of public numbers. Given it,
another record in place of one moves the sum by
:math:`w_i\lVert r_{ti}x_i-r'_{ti}x'_i\rVert\le2cw_i`, which the noise of step `t` hides up to
:math:`2cw_i/s=\mu_i/\sqrt T`. Steps that are chosen after earlier ones add up in squares (Dong,
Roth and Su 2022, Corollary 3.3): `T` of them to :math:`\mu_i`. What is computed from noisy sums and
public numbers tells no more. The last part is the definition of :math:`\mu_i`. ∎

No smaller number is true for all data: of :math:`(x,1)` and :math:`(x,-1)`, with an `x` of norm 1,
both are clipped where :math:`c<1/2` and the score is near 0, and the sum moves by :math:`2cw_i`. Of
all weights that keep the promises, these have the least noise for their sum: it is
:math:`2c\sqrt T\max_i(w_i/\mu_i)/\sum_iw_i`, at least :math:`2c\sqrt T/\sum_i\mu_i`, and equal to
it here.

*Certain to the last digit* is each noisy sum. Features are whole steps of :math:`2^{-15}`, cut
towards 0. A clipped slope times weight is a whole number, at most :math:`\lfloor C_i/\lceil\lVert
x_i\rVert\rceil\rfloor` with the norm in steps and :math:`C_i=\lfloor2^{38}w_i\rfloor`; so a record
adds a vector of whole numbers that is no longer than :math:`C_i`, whatever floats made of its
slope. Floats add up :math:`2^{15}` of these without rounding, and whole numbers of Python the rest.
The normal noise comes from balls (:mod:`hdpm_lib.exact`) and is by a trifle larger, for what floats
round of public numbers. The next :math:`\theta` is computed in floats from the released sum, so
that its errors tell nothing.

Public: the numbers of records and of features, and all that a mechanism is made of. Neighbours
differ in one record, replaced by any other inside the bounds. The whole vector :math:`x_i`, a
constant feature included, has norm at most 1. There are `m` records and `n` features.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.accounts import charge
from hdpm_lib.exact import MARGIN, normal_uniforms, normals, on_grid, released
from hdpm_lib.frozen import Frozen
from hdpm_lib.gaussian import gaussian_epsilon
from hdpm_lib.learners.minimiser import Losses
from hdpm_lib.learners.objective import Loss, check_loss, inside_of, losses_of
from hdpm_lib.learners.settings import AVERAGED, STEPS
from hdpm_lib.noise import grid_step
from hdpm_lib.validation import (
    check_choice,
    check_count,
    check_flag,
    check_generator,
    check_number,
    check_positive,
    check_size,
    check_squared,
)

Array = NDArray[np.float64]

FEATURE_BITS = 15  # a feature is in whole steps of 2**-15
SUM_BITS = 38  # the gradient of a record of full weight is at most 2**38 steps long
ADDED = 2**15  # records whose whole numbers floats add up without rounding
FARTHEST = 1e200  # a coefficient over the clip norm, for floats to hold all that is computed


@dataclass(frozen=True, eq=False, repr=False)
class NoisyDescent(Frozen):
    """Calibrated noisy gradient descent; made by :func:`noisy_descent`.

    Parameters
    ----------
    mu : array of shape (m,)
        How far a release may move each record, in standard deviations, not negative.
    delta : float
        At which `privacy_loss` is told.
    features : int
        Number of features `n`.
    learning_rate : float
        The learning rate.
    momentum : float, default 0.0
        The momentum.
    steps : int, default 200
        Number of steps.
    loss : {"logistic", "squared"}, default "logistic"
        Loss of a record in the objective.
    clip_norm : float, default 1.0
        How long the gradient of a record is at most.
    clip : bool, default False
        Move records outside the bounds onto them, in silence, instead of refusing them.
    arithmetic : {"exact", "ideal"}, default "exact"
        Arithmetic of noisy sums.

    Examples
    --------
    >>> model = noisy_descent([0.1, 0.3], 1e-6, features=1, learning_rate=0.1)
    >>> model.weights, model.privacy_loss.round(3)
    (array([0.25, 0.75]), array([0.397, 1.292]))
    """

    mu: Array
    delta: float
    features: int
    learning_rate: float
    momentum: float = 0.0
    steps: int = STEPS
    loss: Loss = "logistic"
    clip_norm: float = 1.0
    clip: bool = False
    arithmetic: Literal["exact", "ideal"] = "exact"

    @property
    def weights(self) -> Array:
        """Weights of the records, in proportion to `mu`, with sum 1, shape (m,)."""
        return self.mu / self.mu.sum()

    @property
    def privacy_loss(self) -> Array:
        """Proved epsilon of each record at `delta`, shape (m,)."""
        return self.loss_of_releases(1)

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise on each coordinate of a step's mean gradient."""
        return 2 * self.clip_norm * math.sqrt(self.steps) / float(self.mu.sum())

    @np.errstate(under="ignore")
    def loss_of_releases(self, releases: int) -> Array:
        """Return the epsilon of each record at `delta` of several releases together, shape (m,).

        Parameters
        ----------
        releases : int
            How many there are, positive.

        Returns
        -------
        array of shape (m,)
            Less than the sum of the privacy losses of as many single ones.

        Examples
        --------
        >>> model = noisy_descent([0.1, 0.3], 1e-6, features=1, learning_rate=0.1)
        >>> model.loss_of_releases(4).round(3)
        array([0.834, 2.756])
        """
        spread = math.sqrt(check_count(releases, "releases"))
        different, places = np.unique(self.mu, return_inverse=True)
        losses = np.zeros(len(different))
        used = different > 0
        losses[used] = gaussian_epsilon(self.delta, spread * different[used])
        return losses[places]

    @np.errstate(under="ignore")
    def release(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        rng: np.random.Generator,
        size: int | tuple[int, ...] = (),
    ) -> Array:
        r"""Release coefficients; each release spends every `mu` again.

        Parameters
        ----------
        X : array of shape (m, n)
            Features, private, each row of norm at most 1, a constant feature included.
        y : array of shape (m,)
            Labels, private, -1 or 1; with squared losses in [-1, 1].
        rng : numpy.random.Generator
            Source of the noise; one seeded without entropy is predictable
            (:doc:`/book/privacy/limits`).
        size : int or tuple of int, default ()
            How many releases; one by default.

        Returns
        -------
        array of shape (\*size, n)
            Coefficients.
        """
        features, labels = self._inside(X, y)
        shape = check_size(size)
        charge(lambda: np.zeros(len(self.mu)), check_generator(rng), size, mu=self.mu)
        if self.arithmetic == "ideal":
            gradient = self._ideal(features, labels, self.noise_sd, rng)
        else:
            gradient = self._exact(features, labels, rng)
        coefficients = np.zeros((math.prod(shape), self.features))
        for k in range(len(coefficients)):
            coefficients[k] = self._descend(gradient)
        return coefficients.reshape(*shape, self.features)

    def _inside(self, X: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
        """Check records: inside the bounds, and of the shape that the mechanism was made for."""
        shape = len(self.mu), self.features
        return inside_of(self.loss, X, y, clip=self.clip, shape=shape)

    def _descend(self, gradient: Callable[[Array], Array]) -> Array:
        """Go the way that gradients show; return the mean of the last coefficients."""
        theta = np.zeros(self.features)
        velocity = np.zeros(self.features)
        last = max(1, round(AVERAGED * self.steps))
        total = np.zeros(self.features)
        for step in range(self.steps):
            velocity = self.momentum * velocity - self.learning_rate * gradient(theta)
            theta = theta + velocity
            if step >= self.steps - last:
                total += theta
        return total / last

    def _without_noise(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Return coefficients without noise: not private."""
        features, labels = self._inside(X, y)
        gradient = self._ideal(features, labels, 0.0, np.random.default_rng())
        return self._descend(gradient)

    def _ideal(
        self, X: Array, y: Array, noise_sd: float, rng: np.random.Generator
    ) -> Callable[[Array], Array]:
        """Return the noisy mean gradient as a function of coefficients, in floats."""
        used = self.mu > 0
        losses = losses_of(X[used], y[used], self.loss, self.clip_norm)
        weights = self.weights[used]

        def gradient(theta: Array) -> Array:
            pull = weights * losses.pull(losses.rows @ theta)
            return noise_sd * rng.standard_normal(self.features) - pull @ losses.rows

        return gradient

    def _exact(self, X: Array, y: Array, rng: np.random.Generator) -> Callable[[Array], Array]:
        """Return the noisy mean gradient as a function of coefficients, from released numbers."""
        sums = self._whole_sums(X, y)
        unit = self._unit
        noise_sd = arb(self.noise_sd / unit) * (1 + arb(MARGIN))
        count = normal_uniforms(self.features)
        step = self.step

        def gradient(theta: Array) -> Array:
            known = [arb(total) for total in sums(theta)]

            def enclose(uniforms: list[arb]) -> list[arb]:
                noise = normals(uniforms, self.features)
                return [x + noise_sd * z for x, z in zip(known, noise, strict=True)]

            return -unit * released(enclose, self.features, count, step, rng=rng)

        return gradient

    @property
    def _unit(self) -> float:
        """Worth of a whole step of a sum in a mean gradient."""
        return self.clip_norm * 2.0**-SUM_BITS * float(self.mu.max() / self.mu.sum())

    @property
    def step(self) -> float:
        """Step of the grid of exact noisy sums, in whole steps: about 2**-10 of the noise."""
        noise_sd = self.noise_sd / self._unit
        return grid_step(2.0**20 * noise_sd, self.clip_norm / self._unit + 32 * noise_sd)

    def _whole_sums(self, X: Array, y: Array) -> WholeSums:
        """Make the sums of clipped pulls of records on a grid."""
        used = self.mu > 0
        # the same grid as in other releases, but coarser; cut towards 0, so that norms stay within
        rows = np.trunc(on_grid(X[used], 1.0, ball=True) / 2.0 ** (30 - FEATURE_BITS))
        labels = y[used]
        losses = losses_of(rows * 2.0**-FEATURE_BITS, labels, self.loss, self.clip_norm)
        weights = self.mu[used] / self.mu.max()
        # a square root of a whole number below 2**52 rounds up across no other whole number
        norms = np.maximum(1.0, np.ceil(np.sqrt((rows * rows).sum(axis=1))))
        limits = np.floor(np.floor(weights * 2.0**SUM_BITS) / norms)
        scales = weights * (2.0 ** (SUM_BITS - FEATURE_BITS) / self.clip_norm)
        return WholeSums(losses, scales, limits)


@dataclass(frozen=True, eq=False, repr=False)
class WholeSums:
    """Sums of clipped pulls of records, in whole steps, without any error.

    Parameters
    ----------
    losses : Losses
        Of records whose features are whole numbers of steps of 2**-15.
    scales : array of shape (m,)
        Steps that a pull of 1 is worth.
    limits : array of shape (m,)
        The largest pull in steps, a whole number: times the norm of the record's features, in
        steps, at most 2**38.
    """

    losses: Losses
    scales: Array
    limits: Array

    def __call__(self, theta: Array) -> list[int]:
        """Return the sums at some coefficients."""
        pulls = self._whole_pulls(theta)
        total = np.zeros(len(theta), dtype=object)
        for start in range(0, len(pulls), ADDED):
            rows = slice(start, start + ADDED)
            part = (pulls[rows] @ self.losses.rows[rows]) * 2.0**FEATURE_BITS
            total += part.astype(np.int64).astype(object)
        return list(total)

    def _whole_pulls(self, theta: Array) -> Array:
        """Return weighted pulls at coefficients, each a function of its record and of these."""
        pulls = self.losses.pull(self.losses.rows @ theta)
        return np.clip(np.rint(pulls * self.scales), -self.limits, self.limits)


def noisy_descent(
    mu: ArrayLike,
    delta: float,
    *,
    features: int,
    learning_rate: float,
    momentum: float = 0.0,
    steps: int = STEPS,
    loss: Loss = "logistic",
    clip_norm: float = 1.0,
    clip: bool = False,
    arithmetic: Literal["exact", "ideal"] = "exact",
) -> NoisyDescent:
    r"""Calibrate weighted regression, logistic or of squares, by noisy gradient descent.

    Parameters
    ----------
    mu : array of shape (m,)
        How far a release may move each record, in standard deviations: what
        :func:`~hdpm_lib.gaussian.largest_mu` gives for a promise (:math:`\varepsilon_i`,
        :math:`\delta`). Not negative, and not all 0: 0 leaves a record out.
    delta : float
        The :math:`\delta` at which `privacy_loss` is told, in (0, 1).
    features : int
        Number of features, positive, a constant one included.
    learning_rate : float
        The learning rate :math:`\alpha`, positive. Descent is stable where it times the curvature,
        at most 1 for squared losses and 1/4 for logistic ones, is below :math:`2(1+\beta)`.
    momentum : float, default 0.0
        The momentum :math:`\beta`, in [0, 1).
    steps : int, default 200
        Number of steps `T`, positive. More of them cost time, and no privacy.
    loss : {"logistic", "squared"}, default "logistic"
        Loss of a record in the objective: :math:`\ln(1+e^{-y\theta^\top x})` for labels -1 and 1,
        or :math:`\frac12(y-\theta^\top x)^2` for labels in [-1, 1].
    clip_norm : float, default 1.0
        How long the gradient of a record is at most, :math:`c`, positive: where it would be longer
        the loss goes on as a straight line. For logistic losses at most 1, which clips nothing.
        Noise is in proportion to it.
    clip : bool, default False
        Shorten vectors of norm above 1, and take logistic labels that are neither for -1 and others
        for the nearest bound, in silence, instead of refusing them.
    arithmetic : {"exact", "ideal"}, default "exact"
        Certain to the last digit, or floats, for studies.

    Returns
    -------
    NoisyDescent
        Its `privacy_loss` says what each record loses, its `release` takes the records and gives
        private coefficients.

    Notes
    -----
    Neighbours: one record replaced by any other inside the bounds. All records are looked at in
    each step: a sample would have to stay secret. :func:`~hdpm_lib.learners.settings.stopping_time`
    and what stands beside it give the settings that the estimators use.

    References
    ----------
    Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and Zhang (2016), "Deep Learning with
    Differential Privacy": descent with clipped gradients and Gaussian noise. Dong, Roth and Su
    (2022), "Gaussian Differential Privacy": what its steps lose together. Polyak (1964), "Some
    methods of speeding up the convergence of iteration methods".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (100, 2)); y = np.sign(X @ [1.0, 2.0])
    >>> model = noisy_descent(np.full(100, 0.5), 1e-6, features=2, learning_rate=1.0)
    >>> model.release(X, y, rng=rng).shape, float(model.privacy_loss.max().round(3))
    ((2,), 2.254)
    """
    check_choice(arithmetic, "arithmetic", ("exact", "ideal"))
    check_flag(clip, "clip")
    far = check_squared(mu, "mu")
    if far.ndim != 1 or not (far > 0).any():
        raise ValueError(f"mu must have one number a record, and not all 0, got shape {far.shape}")
    at = check_number(delta, "delta", 0, 1, ends="()")
    n = check_count(features, "features")
    rate = check_positive(learning_rate, "learning_rate")
    kept = check_number(momentum, "momentum", 0, 1, ends="[)")
    count = check_count(steps, "steps")
    c = check_loss(loss, clip_norm)
    made = NoisyDescent(far, at, n, rate, kept, count, loss, c, clip, arithmetic)
    # about how far coefficients go at most
    reach = rate * count / (1 - kept) * (c + 100 * made.noise_sd)
    if not max(reach, reach / c, 1 / c, made.noise_sd / c) < FARTHEST:
        raise ValueError(
            f"learning_rate * steps / (1 - momentum) = {rate * count / (1 - kept):.3g} with"
            f" noise of size {made.noise_sd:.3g} and clip_norm = {c:.3g} needs other units: floats"
            " end"
        )
    if arithmetic == "exact":
        _ = made.step  # its error now, from public numbers
    return made
