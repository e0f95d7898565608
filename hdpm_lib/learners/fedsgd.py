r"""Federated learning with local privacy: FedSGD, for any auction and any aggregation.

This is Algorithm 1 of Zheng, Cao, Yoshikawa, Li and Yan (2021), "FL-Market: Trading Private Models
in Federated Learning", arXiv:2106.04384. In a round a few owners are asked. An *auction* says how
much privacy loss each of them sells, she releases the mean gradient of her records, clipped and
with Laplace noise, and an *aggregation* says with which weights the releases are summed. This
module knows neither of the two: both are functions that the caller passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.accounts import charge
from hdpm_lib.frozen import Frozen
from hdpm_lib.learners.gradients import (
    check_filled,
    check_labels,
    noise_scale,
    owner_gradients,
    shortened,
)
from hdpm_lib.learners.integer_answers import (
    cut,
    gradient_noise,
    longest_gradient,
    noise_scales,
    whole_steps,
)
from hdpm_lib.noise import grid_step
from hdpm_lib.private import private_doubles, private_floats
from hdpm_lib.validation import (
    check_choice,
    check_count,
    check_finite,
    check_generator,
    check_numeric,
    check_positive,
)

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
# From the numbers of the bidding owners, shape (rounds, runs, bidders), to what they sell: an
# Outcome, or whatever has its `privacy_loss` and `payments`, of that shape.
Auction = Callable[[Integers], Any]
# Weights from privacy losses and sizes, both of that shape.
Aggregation = Callable[[Array, Array], Array]
_TOLERANCE = 1 + 1e-9  # by how much floating point may exceed a limit


@dataclass(frozen=True, eq=False, repr=False)
class Training(Frozen):
    """Paths of runs of FedSGD.

    Parameters
    ----------
    rounds : array of int, shape (checkpoints,)
        After how many rounds the paths were noted.
    start : array of shape (runs, classes, features)
        Models before the first round.
    signal : dict of arrays of shape (checkpoints, runs, classes, features)
        For each aggregation the sum of all steps so far, without noise. For study: to publish it is
        not private.
    noise : dict of arrays as in `signal`
        The same sums with nothing but the noise in them; not private either.
    privacy_loss : array of shape (runs, owners)
        Sum of the privacy losses that an owner has sold: what the models of *one* aggregation cost
        her. Several share their noise, to be compared; to publish more than one, or one beside
        ``None``, costs more.
    paid : array of shape (runs,)
        Payments to all owners in all rounds.
    received : dict of arrays as in `signal`, optional
        The sum of all steps so far, computed from what was sent and nothing else; None in ideal
        arithmetic.

    Examples
    --------
    >>> x = np.array([[1.0, 1.0], [0.0, 1.0]])
    >>> asked = np.zeros((3, 1, 1), int)
    >>> rows = [[np.array([0, 1])]]
    >>> rng = np.random.default_rng(0)
    >>> made = fedsgd(x, [0, 1], rows, [[2.0]], asked, {"all": None}, np.zeros((2, 2)), rng=rng)
    >>> made.rounds, made.parameters("all").shape
    (array([0, 1, 3]), (3, 1, 2, 2))
    """

    rounds: Integers
    start: Array
    signal: dict[str, Array] = field(repr=False)
    noise: dict[str, Array] = field(repr=False)
    privacy_loss: Array
    paid: Array
    received: dict[str, Array] | None = field(default=None, repr=False)

    def parameters(self, name: str) -> Array:
        """Return the models of one aggregation at all checkpoints.

        Parameters
        ----------
        name : str
            Of the aggregation.

        Returns
        -------
        array of shape (checkpoints, runs, classes, features)
            The last entry holds the models that were learned. The models of one aggregation may be
            published.
        """
        if self.received is None:
            return self.start + (self.signal[name] + self.noise[name])
        return self.start + self.received[name]


@np.errstate(under="ignore")
def fedsgd(
    features: NDArray,
    labels: NDArray,
    owners: Sequence[Sequence[NDArray[np.integer]]],
    privacy_budget: ArrayLike,
    bidders: ArrayLike,
    aggregations: Mapping[str, Aggregation | None],
    start: ArrayLike,
    *,
    rng: np.random.Generator,
    auction: Auction | None = None,
    learning_rate: float = 0.01,
    clip_norm: float = 1.0,
    every: int = 10,
    spacing: float | None = None,
    arithmetic: Literal["exact", "ideal"] = "exact",
) -> Training:
    r"""Train models by FedSGD on releases of clipped gradients with Laplace noise.

    Parameters
    ----------
    features : array of float, shape (records, d)
        Features of all records, private, the last of them the constant 1. Gradients are computed in
        their type.
    labels : array of shape (records,)
        Classes 0, 1, ... of the records, private.
    owners : sequence of sequences of arrays of int
        For each run the rows of each of its owners. Who has none sends noise around zero, and
        counts as one record.
    privacy_budget : array of shape (runs, owners)
        Largest privacy loss that an owner accepts in a round, positive.
    bidders : array of int, shape (rounds, runs, bidders)
        Who is asked when, as from :func:`hdpm_lib.learners.gradients.draw_bidders`.
    aggregations : dict
        Rules to compare, by name, each training a model of its own on the same owners, purchases
        and noise. A rule gives weights from privacy losses and numbers of records, all of shape
        (rounds, runs, bidders). ``None`` stands for gradients without noise, weighted by size.
    start : array of shape (classes, d) or (runs, classes, d)
        Parameters of the first model.
    rng : numpy.random.Generator
        Source of the noise. In ideal arithmetic the numbers drawn do not depend on what the auction
        bought.
    auction : function, optional
        From `bidders` to what they sell: an :class:`~hdpm_lib.markets.outcome.Outcome`, or whatever
        has its `privacy_loss` and `payments`, both of that shape. Each auction is apart from the
        others and does not see the models. By default everybody sells her privacy budget, without
        money.
    learning_rate : float, default 0.01
        Length of a step in units of the gradient, positive.
    clip_norm : float, default 1
        Largest L1 norm of a gradient, positive; longer ones are shortened to it.
    every : int, default 10
        Paths are noted at the start, after the first round, each multiple of `every` and the last
        round.
    spacing : float, optional
        A power of two, by default one that fits the privacy losses sold. Clipped gradients are cut
        to multiples of it, and noise on this grid is added, in integers, as by
        :func:`~hdpm_lib.learners.integer_answers.integer_gradients`.
    arithmetic : {"exact", "ideal"}, default "exact"
        In ideal arithmetic gradients and noise are floats: for studies.

    Returns
    -------
    Training
        The paths of all models, with privacy losses and payments.

    Raises
    ------
    ValueError
        If nobody sells anything in any round, or if an auction takes more privacy loss than an
        owner accepts or asks her for money.

    Notes
    -----
    Algorithm 1 of Zheng et al. A release of loss :math:`\varepsilon` is
    :math:`\varepsilon`-locally private for the whole data of its owner, and losses add up over
    rounds (`privacy_loss`): :doc:`/book/federated/learning`. This holds for what is sent, if random
    integers are uniform, and all models are computed from that alone; in ideal arithmetic it is a
    theorem about real numbers (:doc:`/book/privacy/limits`). Public: all but features and labels.

    References
    ----------
    Zheng, Cao, Yoshikawa, Li and Yan (2021), "FL-Market: Trading Private Models in Federated
    Learning", arXiv:2106.04384.

    Examples
    --------
    >>> x = np.array([[1.0, 1.0], [0.0, 1.0]])
    >>> y = np.array([0, 1])
    >>> rows = [[np.array([0, 1])]]
    >>> asked = np.zeros((3, 1, 1), int)
    >>> rng = np.random.default_rng(0)
    >>> learners = {"no noise": None}
    >>> fedsgd(x, y, rows, [[2.0]], asked, learners, np.zeros((2, 2)), rng=rng).privacy_loss
    array([[6.]])
    """
    check_choice(arithmetic, "arithmetic", ("exact", "ideal"))
    rate = check_positive(learning_rate, "learning_rate")
    bound = check_positive(clip_norm, "clip_norm")
    x = private_floats(features, "features", 2)
    check_filled(x)
    limits = check_finite(privacy_budget, "privacy_budget", 2, 0, ends="()")
    asked = _check_bidders(bidders, *limits.shape)
    sizes = _check_owners(owners, limits.shape, len(x))
    w = _check_start(start, len(limits), x.shape[1])
    y = check_labels(labels, x, w.shape[1])
    rounds = len(asked)
    noted = {1, rounds}
    noted.update(range(0, rounds + 1, check_count(every, "every")))
    # Lines 3 to 5: bids, and the auction with its money, for all rounds.
    accepted = np.take_along_axis(limits[None], asked, axis=2)
    records = np.take_along_axis(sizes[None], asked, axis=2)
    losses, payments = _sale(auction, asked, accepted)
    sold = np.zeros(limits.shape)
    np.add.at(sold, (np.arange(len(limits))[:, None], asked), losses)
    if not sold.any():
        raise ValueError("privacy_loss is 0 for every bidder in every round: nobody sells anything")
    grid: _Grid | None = None
    if arithmetic == "exact":
        grid = _grid(losses, bound, spacing)
        scale = np.where(losses > 0, 1.0, 0.0)  # noise comes in units of the grid
    else:
        scale = np.where(losses > 0, noise_scale(losses, bound), 0.0)
    # Line 7: the weights follow from what was bought.
    weights, scales = _weights(aggregations, losses, records, scale)
    private = len(aggregations) == 1 and None not in aggregations.values()
    charge(sold if private else np.full(sold.shape, np.inf), check_generator(rng))
    # Sums of the steps: signal, noise, and on a grid what was received.
    parts = 2 if grid is None else 3
    moved = np.zeros((parts, len(aggregations), *w.shape))
    path = [moved.copy()]
    for r, here in enumerate(asked):
        models = w + (moved[0] + moved[1] if grid is None else moved[2])
        for s, numbers in enumerate(here):
            # Line 6: the model goes out, clipped and perturbed local gradients come back.
            rows = [owners[s][i] for i in numbers]
            gradients = owner_gradients(models[:, s].astype(x.dtype), x, y, rows)
            sent = _release(gradients, scales[:, r, s], bound, grid, (r, s), rng)
            # Line 8: their weighted sum is delivered, and the buyer takes a step.
            moved[:, :, s] -= rate * _aggregated(weights[:, r, s], scales[:, r, s], sent)
        if r + 1 in noted:
            path.append(moved.copy())
    # part, aggregation, checkpoint, run, classes, features
    paths = np.moveaxis(np.array(path), 0, 2)
    del path  # as long as that, and there will be a copy
    return Training(
        rounds=np.array(sorted(noted)),
        start=w,
        signal=dict(zip(aggregations, paths[0], strict=True)),
        noise=dict(zip(aggregations, paths[1], strict=True)),
        privacy_loss=sold,
        paid=payments.sum(axis=(0, 2)),
        received=None if grid is None else dict(zip(aggregations, paths[2], strict=True)),
    )


# --- releases -----------------------------------------------------------------------------------


class _Grid(NamedTuple):
    """The grid of exact releases.

    Attributes
    ----------
    spacing : float
        Its step.
    longest : int
        Longest gradient in steps.
    scales : int array of shape (2, rounds, runs, bidders)
        Noise scales in steps: numerators and denominators.
    """

    spacing: float
    longest: int
    scales: NDArray[np.int64]


class _Sent(NamedTuple):
    """Messages of the owners of one round and run, owners first.

    Attributes
    ----------
    gradients : array of shape (owners, rules, classes, features)
        Clipped gradients.
    noise : array of shape (owners, classes, features)
        For all rules, in units of the noise scales.
    received : array of shape (owners, rules, classes, features), or None
        Both together, on a grid.
    """

    gradients: NDArray
    noise: NDArray
    received: NDArray | None


def _grid(losses: Array, clip_norm: float, spacing: float | None) -> _Grid:
    """Choose the grid, and the noise on it.

    By default the spacing fits what was bought: it is fine beside the least noise, and coarse
    enough for the most.
    """
    if spacing is None:
        sold = losses[losses > 0]
        spread = clip_norm * max(2 / sold.max(), 2.0**-8)
        spacing = grid_step(spread, clip_norm * min(64 / sold.min(), 2.0**43))
    longest = longest_gradient(clip_norm, spacing)
    scales = noise_scales([Fraction(loss) for loss in losses.ravel().tolist()], longest, spacing)
    return _Grid(float(spacing), longest, np.reshape(scales, (2, *losses.shape)))


def _release(
    gradients: NDArray,
    scales: Array,
    clip_norm: float,
    grid: _Grid | None,
    place: tuple[int, int],
    rng: np.random.Generator,
) -> _Sent:
    """Clip the gradients of one `place`, a round and a run, and draw noise for them."""
    if grid is None:
        # their difference is Laplace's, in half the time
        noise, less = rng.standard_exponential((2, len(gradients), *gradients.shape[2:]))
        noise -= less
        return _Sent(shortened(gradients, clip_norm), noise, None)
    doubles = private_doubles(gradients, "gradients")
    steps = whole_steps(doubles, clip_norm, grid.spacing, grid.longest)
    drawn = gradient_noise(grid.scales[:, *place], gradients.shape[2:], rng)
    added = scales.T.astype(np.int64)[..., None, None] * drawn[:, None]
    received = grid.spacing * cut(steps + added).astype(float)
    return _Sent(grid.spacing * steps, grid.spacing * drawn, received)


def _aggregated(weights: Array, scales: Array, sent: _Sent) -> Array:
    """Sum what was sent over the owners for each rule, shape (parts, rules, classes, features).

    The parts are gradients, noise, and on a grid both as they were received.
    """
    parts = [
        np.einsum("an,na...->a...", weights, sent.gradients),
        np.tensordot(weights * scales, sent.noise, axes=1),
    ]
    if sent.received is not None:
        parts.append(np.einsum("an,na...->a...", weights, sent.received))
    return np.stack(parts)


def _weights(
    rules: Mapping[str, Aggregation | None], epsilon: Array, sizes: Array, scale: Array
) -> tuple[Array, Array]:
    """Return weights and noise scales of shape (aggregations, rounds, runs, bidders).

    Who sends nothing has weight 0.
    """
    weights = []
    scales = []
    for rule in rules.values():
        if rule is None:
            weights.append(sizes / sizes.sum(axis=-1, keepdims=True))
            scales.append(0 * scale)
        else:
            weights.append(np.where(epsilon > 0, rule(epsilon, sizes), 0.0))
            scales.append(scale)
    return np.array(weights), np.array(scales)


# --- checks -------------------------------------------------------------------------------------


def _check_bidders(bidders: ArrayLike, runs: int, owners: int) -> Integers:
    """Check the numbers of different owners, for each round and run."""
    asked = check_numeric(bidders, "bidders")
    if asked.ndim != 3 or asked.dtype.kind not in "iu" or asked.size == 0 or asked.shape[1] != runs:
        raise ValueError(
            f"bidders must be whole numbers of shape (rounds, {runs}, bidders), as privacy_budget"
            f" has {runs} runs, got {asked.dtype} of shape {asked.shape}"
        )
    ascending = np.sort(asked, axis=-1)
    inside = ascending.min() >= 0 and ascending.max() < owners
    if not inside or (np.diff(ascending, axis=-1) == 0).any():
        raise ValueError(f"bidders must be different owners 0 to {owners - 1} in each round")
    return asked


def _check_owners(owners: Sequence, shape: tuple[int, ...], n: int) -> Array:
    """Count how many of the `n` records owners have, at least 1, shape (runs, owners)."""
    if len(owners) != shape[0] or any(len(run) != shape[1] for run in owners):
        raise ValueError(
            f"owners must have {shape[0]} runs of {shape[1]} owners, as privacy_budget has"
        )
    rows = np.concatenate([rows_of_owner for run in owners for rows_of_owner in run])
    outside = (rows < 0) | (rows >= n)
    if outside.any():
        raise ValueError(f"owners must hold rows of the {n} records, got {rows[outside][0]}")
    counts = []
    for run in owners:
        counts.append([max(len(rows_of_owner), 1) for rows_of_owner in run])
    return np.array(counts, dtype=float)


def _check_start(start: ArrayLike, runs: int, width: int) -> Array:
    """Return the models of all runs, shape (runs, classes, features)."""
    w = check_finite(start, "start")
    if w.ndim not in (2, 3) or w.shape[-1] != width or (w.ndim == 3 and len(w) != runs):
        raise ValueError(
            f"start must have shape (classes, {width}), for {runs} runs or all, got {w.shape}"
        )
    return np.broadcast_to(w, (runs, *w.shape[-2:]))


def _sale(auction: Auction | None, asked: Integers, accepted: Array) -> tuple[Array, Array]:
    """Return the privacy losses that are sold, within all limits, and payments."""
    if auction is None:
        return accepted, np.zeros(accepted.shape)
    sale = auction(asked)
    losses = check_finite(sale.privacy_loss, "privacy_loss", None, 0)
    payments = check_finite(sale.payments, "payments", None, 0)
    if losses.shape != accepted.shape or payments.shape != accepted.shape:
        raise ValueError(
            f"auction must buy from bidders of shape {accepted.shape}, got privacy_loss"
            f" {losses.shape} and payments {payments.shape}"
        )
    above = losses > accepted * _TOLERANCE
    if above.any():
        raise ValueError(
            f"round {np.argwhere(above)[0, 0] + 1}: privacy_loss = {losses[above][0]} of an owner"
            f" who accepts at most {accepted[above][0]}"
        )
    return np.minimum(losses, accepted), payments
