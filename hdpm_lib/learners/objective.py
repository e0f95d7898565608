r"""Regression in which every record keeps its own privacy loss, by perturbing the objective.

Record :math:`i` has the weight :math:`a_i`. The released coefficients minimise

.. math:: \sum_i a_i\ell_c(w;x_i,y_i)+b'^\top w+\frac\Lambda2\lVert w\rVert^2,

where the noise :math:`b'` is spherical Laplace of rate :math:`\eta/2c`. The loss is logistic,
:math:`\ln(1+e^{-y_iw^\top x_i})`, for labels -1 and 1, or squared,
:math:`\frac12(y_i-w^\top x_i)^2`, for labels in [-1, 1]; and it is *clipped*: where its gradient
would be longer than `c`, the clip norm, it goes on as a straight line. A squared loss is then
Huber's. One record loses at most :math:`\epsilon_i=a_i\eta` through the noise, and a slack through
the curvature of the objective (:doc:`/book/logistic/guarantee`).

*Proof.* The density of the release at `w` is that of the noise which makes `w` the minimiser, minus
the gradient of the rest, times the determinant of the Hessian. Another record in place of one moves
that gradient by :math:`2a_ic` at most, which changes the density of the noise by a factor of
:math:`e^{a_i\eta}` at most, and the determinant by one of :math:`1+a_i\kappa/\Lambda`, where
:math:`\kappa` bounds second derivatives. These exist but where lines begin, in a set of measure 0;
the map from noise to minimiser and its inverse are Lipschitz, so that densities may be compared
there all the same. ∎

With a clip norm of 1 the logistic loss is as it is, and this is Algorithm 1 of Anjarlekar, Etesami
and Srikant, "Striking a Balance: An Optimal Mechanism Design for Heterogenous Differentially
Private Data Acquisition for Logistic Regression", 2024; the mechanism is Chaudhuri, Monteleoni and
Sarwate's, 2011.

The minimiser is over all of space and exact, the logarithm is natural, and weights, rate, clip norm
and penalty do not depend on the data: without any of these the guarantee does not hold. The whole
vector :math:`x_i`, a constant feature included, has norm at most 1; nothing else is asked of the
records, which may all be of one class. By default the guarantee holds for the program, to the last
digit (:mod:`hdpm_lib.exact`, :doc:`/book/privacy/limits`).

Public: the numbers of records and of features, weights, rate, clip norm and penalty; a mechanism is
made of these alone.

Throughout there are `m` records and `n` features. `weights`, of shape (m,), are not negative and
not all 0; `epsilon` holds the :math:`\epsilon_i`, not negative; `eta`, `clip_norm`, `c`, and
`penalty`, :math:`\Lambda`, are positive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.accounts import charge
from hdpm_lib.exact import GRID, MARGIN, on_grid, released, spherical_uniforms
from hdpm_lib.frozen import Frozen
from hdpm_lib.learners.minimiser import Enclosure, Logistic, Losses, Squared, newton
from hdpm_lib.learners.settings import CURVATURE
from hdpm_lib.noise import coordinate_variance, grid_step, norm_law, spherical_laplace
from hdpm_lib.private import check_records, check_signed_records
from hdpm_lib.validation import (
    check_choice,
    check_count,
    check_finite,
    check_flag,
    check_generator,
    check_losses,
    check_number,
    check_numeric,
    check_positive,
)

Array = NDArray[np.float64]
Loss = Literal["logistic", "squared"]

CHUNK = 4_000_000  # entries of the largest temporary array
COARSER = 2.0**5  # steps of the grid than what floats of such coefficients are off by
LONGEST = 1e200  # pull of a record whose features are all 0


@dataclass(frozen=True, eq=False, repr=False)
class ObjectivePerturbation(Frozen):
    """Calibrated objective perturbation; made by :func:`objective_perturbation`.

    Parameters
    ----------
    weights : array of shape (m,)
        Weights of the records, not negative.
    eta : float
        Twice the rate of the noise, times the clip norm.
    penalty : float
        The penalty of the squared norm.
    features : int
        Number of features `n`.
    loss : {"logistic", "squared"}, default "logistic"
        Loss of a record in the objective.
    clip_norm : float, default 1.0
        How long the gradient of a record is at most.
    clip : bool, default False
        Move records outside the bounds onto them, in silence, instead of refusing them.
    arithmetic : {"exact", "ideal"}, default "exact"
        Arithmetic of a release.

    Examples
    --------
    >>> model = objective_perturbation([0.5, 0.5], 2.0, 1.0, features=1)
    >>> model.privacy_loss, round(model.noise_margin(), 2)
    (array([1., 1.]), 3.0)
    """

    weights: Array
    eta: float
    penalty: float
    features: int
    loss: Loss = "logistic"
    clip_norm: float = 1.0
    clip: bool = False
    arithmetic: Literal["exact", "ideal"] = "exact"

    @property
    def noise_rate(self) -> float:
        """Rate of the spherical Laplace noise."""
        return self.eta / 2 / self.clip_norm

    @property
    def epsilon(self) -> Array:
        """Noise part of each privacy loss, weight times eta, shape (m,)."""
        return self.weights * self.eta

    @property
    def slack(self) -> Array:
        """Loss that the curvature adds at most, :func:`sharp_slack`, shape (m,)."""
        return sharp_slack(
            self.epsilon, self.weights, self.penalty, loss=self.loss, clip_norm=self.clip_norm
        )

    @property
    def privacy_loss(self) -> Array:
        """Proved privacy loss of each record, shape (m,): noise part plus slack."""
        return self.epsilon + self.slack

    @property
    def step(self) -> float:
        """Step of the grid on which exact releases lie: so wide that floats mostly decide."""
        total = float(self.weights.sum())
        spread = self.features / self.noise_rate
        noise = spread / (self.penalty + total * CURVATURE[self.loss])
        reach = (total * self.clip_norm + 32 * spread) / self.penalty
        return grid_step(2**4 * noise, COARSER * reach)

    @property
    def noise_sd(self) -> float:
        r"""Bound on the root mean square of the noise's effect on the coefficients.

        The minimiser moves by at most :math:`\lVert b'\rVert/\Lambda`, as far as it moves if all
        records are 0: how far on these records is private.
        """
        variance = self.features * coordinate_variance(self.features, self.noise_rate)
        return float(np.sqrt(variance)) / self.penalty

    def noise_margin(self, level: float = 0.95) -> float:
        """Return how far noise moves the coefficients at most, in the norm, with a probability.

        Parameters
        ----------
        level : float, default 0.95
            The probability, between 0 and 1, or more than that: see :attr:`noise_sd`.

        Returns
        -------
        float
            Radius of a ball around the released coefficients, for the minimiser without noise; so
            scores move by at most it times the norm of a feature vector.
        """
        share = check_number(level, "level", 0, 1, ends="()")
        return float(norm_law(self.features, self.noise_rate).ppf(share)) / self.penalty

    @np.errstate(under="ignore")
    def release(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        rng: np.random.Generator,
        size: int | tuple[int, ...] = (),
    ) -> Array:
        r"""Release coefficients; each release spends every loss again.

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
            Coefficients, multiples of `step` unless the arithmetic is ideal.
        """
        features, labels = self._inside(X, y)
        charge(lambda: self.privacy_loss, check_generator(rng), size)
        n = self.features
        if self.arithmetic == "ideal":
            noise = spherical_laplace(n, self.noise_rate, rng=rng, size=size)  # step 2: b'
            return self._minimisers(features, labels, noise)
        enclose = self._enclosure(features, labels)
        return released(enclose, n, spherical_uniforms(n), self.step, rng=rng, size=size)

    def _without_noise(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Return coefficients without noise: not private."""
        features, labels = self._inside(X, y)
        return self._minimisers(features, labels, np.zeros(self.features))

    def _minimisers(self, features: Array, labels: Array, noise: Array) -> Array:
        """Compute the minimisers for rows of noise in floats."""
        return minimisers(
            features,
            labels,
            self.weights,
            self.penalty,
            noise,
            loss=self.loss,
            clip_norm=self.clip_norm,
        )

    def _inside(self, X: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
        """Check records: inside the bounds, and of the shape that the mechanism was made for."""
        shape = len(self.weights), self.features
        return inside_of(self.loss, X, y, clip=self.clip, shape=shape)

    def _enclosure(self, X: Array, y: Array) -> Enclosure:
        """Make what encloses the minimiser, for records on a grid (:mod:`hdpm_lib.exact`)."""
        used = self.weights > 0
        rows = on_grid(X[used], 1.0, ball=True) / GRID
        labels = on_grid(y[used], 1.0) / GRID
        losses = losses_of(rows, labels, self.loss, self.clip_norm)
        rate = self.noise_rate * (1 - MARGIN)
        return Enclosure(losses, self.clip_norm, self.weights[used], self.penalty, rate, self.step)


def inside_of(
    loss: Loss, X: ArrayLike, y: ArrayLike, *, clip: bool, shape: tuple[int, int]
) -> tuple[Array, Array]:
    """Return records inside the bounds that a loss has, of that shape."""
    if loss == "squared":
        return check_records(X, y, feature_norm=1.0, clip=clip, shape=shape)
    return check_signed_records(X, y, clip=clip, shape=shape)


def losses_of(X: Array, y: Array, loss: Loss, clip_norm: float) -> Losses:
    """Return the clipped losses of records.

    A limit is so much below clip norm over norm that no rounding makes a gradient longer than the
    clip norm.
    """
    norms = np.linalg.norm(X, axis=1)
    limits = np.full(len(X), LONGEST)
    np.divide(clip_norm * (1 - MARGIN), norms, out=limits, where=norms > 0)
    if loss == "squared":
        return Squared(X, y, np.minimum(limits, LONGEST))
    if clip_norm >= 1:  # which clips nothing
        limits = np.full(len(X), np.inf)
    return Logistic(y[:, None] * X, limits)


@np.errstate(under="ignore")
def weighted_logistic(
    X: ArrayLike,
    y: ArrayLike,
    weights: ArrayLike,
    penalty: float,
    noise: ArrayLike | None = None,
    start: ArrayLike = 0.0,
    *,
    clip: bool = False,
) -> Array:
    """Minimise the objective for given noise, or without any, in floats: not private.

    Newton's method ends where the gradient has a norm of at most 1e-10, relative to the noise if
    that is above 1, or what rounding of the minimiser leaves.

    Parameters
    ----------
    X : array of shape (m, n)
        Features, each row of norm at most 1.
    y : array of shape (m,)
        Labels, -1 or 1.
    weights : array of shape (m,)
        Weights of the records, not negative and not all 0.
    penalty : float
        The penalty of the squared norm, positive.
    noise : array of shape (..., n), optional
        Noise vectors, finite; without any, zeros.
    start : array that broadcasts to the shape of the noise, default 0
        Start of Newton's method.
    clip : bool, default False
        Shorten vectors of norm above 1, and take labels that are neither for -1, in silence,
        instead of refusing them.

    Returns
    -------
    array of shape (..., n)
        The minimiser for each row of noise.

    Examples
    --------
    >>> weighted_logistic([[0.5], [-0.5]], [1, -1], [0.5, 0.5], 1.0).round(4)
    array([0.2353])
    """
    a = _check_weights(weights)
    lam = check_positive(penalty, "penalty")
    features, labels = check_signed_records(X, y, clip=check_flag(clip, "clip"))
    if len(a) != len(labels):
        raise ValueError(f"weights has {len(a)} entries for {len(labels)} records")
    b: NDArray = np.zeros(features.shape[1])
    if noise is not None:
        b = check_numeric(noise, "noise")
    if np.isfinite(b).all() and b.size:  # else the error below
        check_finite(b, "noise")
        check_finite(b / lam, "noise / penalty")
    check_finite(check_finite(start, "start") * lam, "start * penalty")
    return minimisers(features, labels, a, lam, b, start)


def minimisers(
    X: Array,
    y: Array,
    weights: Array,
    penalty: float,
    noise: ArrayLike,
    start: ArrayLike = 0.0,
    loss: Loss = "logistic",
    clip_norm: float = 1.0,
) -> Array:
    """Minimise the objective for records that were checked. No error depends on them.

    There is one row of weights, or one for each row of noise, of shape (..., m).
    """
    n = X.shape[1]
    b = np.asarray(check_numeric(noise, "noise"), dtype=float)
    if b.shape[-1:] != (n,) or not np.isfinite(b).all():
        raise ValueError(f"noise must be finite, of shape (..., {n}), got shape {b.shape}")
    begin = check_finite(start, "start")
    if begin.ndim and begin.shape[-1:] != (n,):
        raise ValueError(f"start must have shape (..., {n}), got {begin.shape}")
    rows = b.reshape(-1, n)
    used = (weights > 0).reshape(-1, len(X)).any(0)
    losses = losses_of(X[used], y[used], loss, clip_norm)
    m = len(losses.rows)
    a = np.broadcast_to(weights[..., used], (*b.shape[:-1], m)).reshape(len(rows), m)
    first = np.broadcast_to(begin, b.shape).reshape(-1, n)
    size = max(1, CHUNK // max(losses.rows.size, 1))
    minima = np.empty(rows.shape)
    for k in range(0, len(rows), size):
        chunk = slice(k, k + size)
        minima[chunk] = newton(losses, a[chunk], rows[chunk], penalty, first[chunk])
    return minima.reshape(b.shape)


def objective_perturbation(
    weights: ArrayLike,
    eta: float,
    penalty: float,
    *,
    features: int,
    loss: Loss = "logistic",
    clip_norm: float = 1.0,
    clip: bool = False,
    arithmetic: Literal["exact", "ideal"] = "exact",
) -> ObjectivePerturbation:
    r"""Calibrate weighted regression, logistic or of squares, by objective perturbation.

    Parameters
    ----------
    weights : array of shape (m,)
        Weights :math:`a_i`, not negative and not all 0, chosen without the data. The paper's sum to
        1; the guarantee does not need it.
    eta : float
        Twice the rate of the noise, times the clip norm, positive: record `i` loses :math:`a_i\eta`
        through the noise. :func:`eta_within` gives the largest that keeps given promises.
    penalty : float
        The penalty :math:`\Lambda`, positive.
    features : int
        Number of features, positive, a constant one included.
    loss : {"logistic", "squared"}, default "logistic"
        Loss of a record in the objective: :math:`\ln(1+e^{-yw^\top x})` for labels -1 and 1, or
        :math:`\frac12(y-w^\top x)^2` for labels in [-1, 1].
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
    ObjectivePerturbation
        Its `privacy_loss` says what each record loses, its `release` takes the records and gives
        private coefficients.

    Notes
    -----
    Neighbours: one record replaced by any other inside the bounds. The logistic model without
    noise, which is private, is :func:`weighted_logistic`. A loss with logarithms to base 2 is this
    one with the weights :math:`a_i/\ln2`, and loses accordingly more. From :math:`\eta\Lambda=2` on
    logistic losses that are not clipped have no slack.

    A clipped squared loss is that of Huber (1964, "Robust estimation of a location parameter", The
    Annals of Mathematical Statistics 35): far from a label the fit follows, like a median, the
    number of records and not how far they are. Where labels are skewed or in two groups it is
    therefore biased, and the more so the smaller the clip norm.

    References
    ----------
    Anjarlekar, Etesami and Srikant (2024), Algorithm 1 and Proposition 1; Chaudhuri, Monteleoni and
    Sarwate (2011), Algorithm 2.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (100, 2)); y = np.sign(X @ [1.0, 2.0])
    >>> model = objective_perturbation(np.full(100, 0.01), 200.0, 0.01, features=2)
    >>> model.release(X, y, rng=rng).shape, float(model.privacy_loss.max())
    ((2,), 2.0)
    """
    check_choice(arithmetic, "arithmetic", ("exact", "ideal"))
    check_flag(clip, "clip")
    a = _check_weights(weights)
    rate = check_positive(eta, "eta")
    lam = check_positive(penalty, "penalty")
    n = check_count(features, "features")
    c = check_loss(loss, clip_norm)
    check_finite(a * rate, "weights * eta", 1, 0)
    check_positive(rate / 2 / c, "half of eta over clip_norm")
    check_positive(2 * n * c / rate / lam, "2 * features * clip_norm / (eta * penalty)")
    made = ObjectivePerturbation(a, rate, lam, n, loss, c, clip, arithmetic)
    if arithmetic == "exact":
        _ = made.step  # its error now, from public numbers
    return made


def check_loss(loss: Loss, clip_norm: float) -> float:
    """Return the clip norm as a float, in the range that the kind of loss has."""
    check_choice(loss, "loss", ("logistic", "squared"))
    if loss == "squared":
        return check_positive(clip_norm, "clip_norm")
    return check_number(
        clip_norm, "clip_norm", 0, 1, ends="(]", why="no logistic gradient is longer than 1"
    )


def _check_weights(weights: ArrayLike) -> Array:
    """Return weights as floats: not negative, and not all 0."""
    a = check_finite(weights, "weights", 1)
    if (a < 0).any() or not (a > 0).any():
        raise ValueError(f"weights must not be negative, and not all 0, got {a.min()}")
    check_positive(a.sum(), "the sum of weights")
    return a


def sharp_slack(
    epsilon: ArrayLike,
    weights: ArrayLike,
    penalty: float,
    *,
    loss: Loss = "logistic",
    clip_norm: float = 1.0,
) -> Array:
    r"""Return what the curvature of the objective adds at most to each privacy loss.

    It is the smallest slack that depends on the noise part and on weight over penalty alone. With
    :math:`\rho_i=a_i/\Lambda` it is, for squared losses, :math:`\ln(1+\rho_i)`, and for logistic
    ones

    .. math::

        \Delta_i=\max_{1-c\le q\le1}
        \Bigl[\ln\bigl(1+\rho_iq(1-q)\bigr)-\tfrac{\epsilon_i}{2c}(q-1+c)\Bigr],

    at most :math:`\ln(1+\rho_i/4)`; without a clip it is 0 exactly when :math:`\eta\Lambda\ge2`:
    :doc:`/book/logistic/guarantee`.

    Parameters
    ----------
    epsilon : array that broadcasts with `weights`
        Noise parts :math:`\epsilon_i=a_i\eta`, not negative.
    weights : array that broadcasts with `epsilon`
        Weights :math:`a_i`, not negative.
    penalty : float
        The penalty :math:`\Lambda`, positive.
    loss : {"logistic", "squared"}, default "logistic"
        Loss of a record in the objective.
    clip_norm : float, default 1.0
        How long the gradient of a record is at most, positive; for logistic losses at most 1.

    Returns
    -------
    array of the common shape
        Slacks, not negative, to add to `epsilon`.

    Notes
    -----
    A record pulls with :math:`1-q` at most, and bends the objective by :math:`a_iq(1-q)` at most
    where it does; the other one pulls with `c`, the other way. A squared loss bends as much just
    before its line begins, where it pulls with `c`, as anywhere.

    Examples
    --------
    >>> sharp_slack([0.1, 1.0], [0.01, 0.01], 0.01).round(4)
    array([0.1989, 0.0485])
    """
    c = check_loss(loss, clip_norm)
    half = check_finite(epsilon, "epsilon", low=0) / 2 / c
    rho = check_finite(weights, "weights", low=0) / check_positive(penalty, "penalty")
    try:
        shape = np.broadcast_shapes(half.shape, rho.shape)
    except ValueError:
        raise ValueError(
            f"epsilon and weights must broadcast, got shapes {half.shape} and {rho.shape}"
        ) from None
    if loss == "squared":
        return np.asarray(np.log1p(rho) + 0 * half)
    gap = 1 - np.divide(half, rho, out=np.ones(shape), where=rho > half)
    root = (2 + half) * np.sqrt(1 - 4 * gap * (half / (2 + half)) / (2 + half))
    q = 2 * gap / (2 + half + root)
    q = np.maximum(q, 1 - c)
    return np.asarray(np.log1p(rho * q * (1 - q)) - half * (q - (1 - c)))


def eta_within(
    epsilon: ArrayLike,
    weights: ArrayLike,
    penalty: float,
    *,
    loss: Loss = "logistic",
    clip_norm: float = 1.0,
) -> float:
    r"""Return the largest :math:`\eta` with which no record loses more than it was promised.

    It is at most :math:`\min_i\epsilon_i/a_i`, and, for logistic losses that are not clipped, equal
    to it if it times the penalty is 2 or more.

    Parameters
    ----------
    epsilon : array of shape (m,)
        Promises: the most that each record loses in all, slack included; positive where the weight
        is.
    weights : array of shape (m,)
        Weights :math:`a_i`, not negative and not all 0.
    penalty : float
        The penalty :math:`\Lambda`, positive.
    loss : {"logistic", "squared"}, default "logistic"
        Loss of a record in the objective.
    clip_norm : float, default 1.0
        How long the gradient of a record is at most, positive; for logistic losses at most 1.

    Returns
    -------
    float
        The `eta` of :func:`objective_perturbation`.

    Raises
    ------
    ValueError
        If the slack alone, at most :math:`\ln(1+a_i/(4\Lambda))` or, for squared losses,
        :math:`\ln(1+a_i/\Lambda)`, exceeds a promise: it names the penalty that is needed.

    Examples
    --------
    >>> eta_within([1.0, 3.0], [0.25, 0.75], 1.0)
    4.0
    """
    c = check_loss(loss, clip_norm)
    # the largest curvature of a loss before its line begins
    if loss == "squared":
        curvature = 1.0
    elif c > 0.5:
        curvature = 0.25
    else:
        curvature = c * (1 - c)
    eps, a, lam = _check_promises(epsilon, weights, penalty, curvature)

    def kept(eta: float) -> bool:
        slack = sharp_slack(a * eta, a, lam, loss=loss, clip_norm=c)
        return bool((a * eta + slack <= eps * (1 + 1e-15)).all())

    with np.errstate(over="ignore"):  # of weights that are next to 0
        top = float((eps / a).min())
    if kept(top):
        return top
    low = 0.0  # keeps every promise
    high = top
    middle = top / 2
    while low < middle < high:  # down to neighbouring floats
        if kept(middle):
            low = middle
        else:
            high = middle
        middle = (low + high) / 2
    return low


def weights_within(
    epsilon: ArrayLike, product: float, *, loss: Loss = "logistic", clip_norm: float = 1.0
) -> tuple[Array, float]:
    r"""Find weights and :math:`\eta` with which every record loses just what it was promised.

    Weights in proportion to promises leave some of these unused, as slacks are not in proportion.

    Parameters
    ----------
    epsilon : array of shape (m,), or Outcome
        Promises: the most that each record loses in all, slack included, not negative: 0 leaves it
        out.
    product : float
        The :math:`\eta\Lambda` that the mechanism will have, positive: the penalty follows.
    loss : {"logistic", "squared"}, default "logistic"
        Loss of a record in the objective.
    clip_norm : float, default 1.0
        How long the gradient of a record is at most, positive; for logistic losses at most 1.

    Returns
    -------
    weights : array of shape (m,)
        Not negative, with sum 1.
    eta : float
        The `eta` of :func:`objective_perturbation`, whose penalty is `product` over it.

    Notes
    -----
    The noise part `b` of a promise solves :math:`b+\Delta(b,b/\eta\Lambda)=\varepsilon`, where
    :math:`\Delta` is :func:`sharp_slack`; noise parts sum to :math:`\eta`.

    Examples
    --------
    >>> weights, eta = weights_within([0.5, 2.0], 3.0, loss="squared")
    >>> model = objective_perturbation(weights, eta, 3.0 / eta, features=1, loss="squared")
    >>> model.epsilon.round(3), model.privacy_loss.round(9)
    (array([0.381, 1.577]), array([0.5, 2. ]))
    """
    c = check_loss(loss, clip_norm)
    total = check_positive(product, "product")
    promises, places = np.unique(check_losses(epsilon), return_inverse=True)
    # From below: a noise part and its slack grow together less than in proportion, so that no step
    # goes beyond the promise. Seldom more than twenty are needed.
    parts = promises / (1 + 1 / total)
    for _ in range(300):
        slack = sharp_slack(parts, parts, total, loss=loss, clip_norm=c)
        factor = np.ones_like(parts)
        np.divide(promises, parts + slack, out=factor, where=parts > 0)
        grown = parts * factor
        done = bool((grown <= parts * (1 + 2.0**-51)).all())
        parts = np.maximum(parts, grown)
        if done:
            break
    noise_parts = parts[places]
    eta = check_positive(float(noise_parts.sum()), "the noise part of epsilon at this product")
    return noise_parts / eta, eta


def _check_promises(
    epsilon: ArrayLike, weights: ArrayLike, penalty: float, curvature: float
) -> tuple[Array, Array, float]:
    """Return promises and weights of the records that count, and the penalty.

    It is an error if no noise keeps every promise, with losses of so much curvature.
    """
    eps = check_finite(epsilon, "epsilon", 1)
    a = _check_weights(weights)
    lam = check_positive(penalty, "penalty")
    if len(eps) != len(a):
        raise ValueError(f"epsilon has {len(eps)} entries for {len(a)} weights")
    broken = (a > 0) & ~(eps > 0)
    if broken.any():
        i = int(np.argmax(broken))
        raise ValueError(
            f"epsilon[{i}] = {eps[i]} allows no positive weight, got weights[{i}] = {a[i]}"
        )
    eps = eps[a > 0]
    a = a[a > 0]
    with np.errstate(over="ignore"):
        needed = float((a * curvature / np.expm1(eps)).max())
    if lam <= needed:
        raise ValueError(
            f"penalty = {lam:g} gives some record a slack above its epsilon: it must exceed"
            f" {needed:.6g}"
        )
    return eps, a, lam
