r"""Federated learning with local privacy: Algorithm 1 of FL-Market, for any auction and any
aggregation.

In a round a few owners are asked. An *auction* says how much privacy loss each of them sells, she
releases the mean gradient of her records, clipped and with Laplace noise, and an *aggregation* says
with which weights the releases are summed. This module knows neither of the two: both are functions
that the caller passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.accounts import charge
from hdpm_lib.learners.gradients import check_labels, clipped, local_gradients, noise_scale
from hdpm_lib.learners.integer_answers import cut, gradient_noise, grid_gradients
from hdpm_lib.noise import grid_step
from hdpm_lib.private import private_floats
from hdpm_lib.validation import check_choice, check_count, check_finite, check_positive

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
_TOLERANCE = 1 + 1e-9  # by how much floating point may exceed a limit


@dataclass(frozen=True)
class Bought:
    """What the auctions of all rounds bought.

    The privacy losses for a round, 0 for an owner who sells nothing, and `payments` have shape
    (rounds, runs, bidders); `budget`, of shape (rounds, runs), is the money that an auction could
    spend.
    """

    privacy_loss: Array
    payments: Array
    budget: Array


# takes the numbers of the bidding owners, shape (rounds, runs, bidders)
Auction = Callable[[Integers], Bought]
# weights from privacy losses and sizes, both of that shape
Aggregation = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Training:
    """What runs of FedSGD went through.

    Attributes
    ----------
    rounds : array of shape (checkpoints,), after how many rounds the paths were noted
    start : array of shape (runs, classes, features)
    signal, noise : dict of arrays of shape (checkpoints, runs, classes, features)
        For each aggregation the sum of all steps so far, without and with nothing but the noise in
        them. For study: to publish the parts is not private.
    privacy_loss : array of shape (runs, owners)
        Sum of the privacy losses that an owner has sold: what the models of *one* aggregation cost
        her. Several share their noise, to be compared; to publish more than one, or one beside
        ``None``, costs more.
    paid, idle : arrays of shape (runs,)
        Money, and rounds in which nobody sold, so that the model stayed as it was.
    received : dict of arrays as in `signal`, optional
        By default, the sum of all steps so far, computed from what was sent and nothing else.
    """

    rounds: Integers
    start: Array
    signal: dict[str, Array] = field(repr=False)
    noise: dict[str, Array] = field(repr=False)
    privacy_loss: Array
    paid: Array
    idle: Integers
    received: dict[str, Array] | None = field(default=None, repr=False)

    def parameters(self, name: str) -> Array:
        """Models of one aggregation at all checkpoints, (checkpoints, runs, classes, features)."""
        steps = (
            self.signal[name] + self.noise[name] if self.received is None else self.received[name]
        )
        return self.start + steps


def fedsgd(
    features: NDArray,
    labels: NDArray,
    owners: Sequence[Sequence[NDArray[np.integer]]],
    privacy_budget: ArrayLike,
    bidders: Integers,
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
    r"""Train models by FedSGD on releases of clipped gradients with Laplace noise: Algorithm 1 of
    the paper.

    It is an error if nobody sells anything in any round, or if an auction breaks a limit: more
    privacy loss than an owner accepts, or payments beyond the budget.

    Parameters
    ----------
    features, labels
        As for :mod:`hdpm_lib.learners.gradients`; gradients are computed in the type of `features`.
    owners : sequence of sequences of integer arrays
        For each run the rows of each of its owners. Who has none sends noise around zero, and
        counts as one record.
    privacy_budget : array of shape (runs, owners), positive
        Largest privacy loss that an owner accepts in a round.
    bidders : integer array of shape (rounds, runs, bidders)
        Who is asked when, as from :func:`hdpm_lib.learners.gradients.draw_bidders`.
    aggregations : dict
        Rules to compare, each training a model of its own on the same owners, purchases and noise.
        ``None`` stands for gradients without noise, weighted by size.
    start : array of shape (classes, features) or (runs, classes, features)
    rng : numpy.random.Generator
        In ideal arithmetic the numbers drawn do not depend on what the auction bought.
    auction : function, optional
        From the bidders of all rounds to a `Bought`, each auction apart from the others; it does
        not see the models. By default everybody sells her privacy budget, without money.
    learning_rate, clip_norm : float, positive, default 0.01 and 1
    every : int, default 10
        Paths are noted at the start, after the first round, each multiple of `every` and the last
        round.
    spacing : float, optional
        A power of two, by default one that fits the privacy losses sold. Clipped gradients are cut
        to multiples of it, and noise on this grid is added, in integers:
        :func:`~hdpm_lib.learners.integer_answers.integer_gradients`.
    arithmetic : {"exact", "ideal"}
        In ideal arithmetic both are floats: for studies.

    Notes
    -----
    A release of loss :math:`\varepsilon` is :math:`\varepsilon`-locally private for the whole data
    of its owner, and losses add up over rounds (`privacy_loss`): :doc:`/book/federated/learning`.
    This holds for what is sent, if random integers are uniform, and all models are computed from
    that alone; in ideal arithmetic it is a theorem about real numbers
    (:doc:`/book/privacy/limits`).

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
    features, labels, w, limits, sizes = _check(
        features, labels, owners, privacy_budget, bidders, start
    )
    check_choice(arithmetic, "arithmetic", ("exact", "ideal"))
    rate = check_positive(learning_rate, "learning_rate")
    noted = _noted(len(bidders), every)
    accepted = np.take_along_axis(limits[None], bidders, axis=2)
    # lines 3 to 5: bids, and the auction with its money, for all rounds
    bought = _everything(accepted) if auction is None else _checked(auction(bidders), accepted)
    privacy_loss = _sold(bought, bidders, limits.shape)
    spacing = (
        None
        if arithmetic == "ideal"
        else _spacing(bought, clip_norm)
        if spacing is None
        else spacing
    )
    # line 7: the weights follow from what was bought
    scale = _noise_scale(bought, clip_norm, spacing)
    records = np.take_along_axis(sizes[None], bidders, axis=2)
    weights, scales = _weights(aggregations, bought.privacy_loss, records, scale)
    charge(
        np.where(
            len(aggregations) == 1 and None not in aggregations.values(), privacy_loss, np.inf
        ),
        rng,
    )
    # sums of the steps: signal, noise, and what was sent, in one
    moved = np.zeros((3, len(aggregations), *w.shape))
    path = [moved.copy()]
    for r, asked in enumerate(bidders):
        models = w + (moved[:2].sum(axis=0) if spacing is None else moved[2])
        for s, own in enumerate(asked):
            # line 6: the model goes out, clipped and perturbed local gradients come back
            gradients = local_gradients(models[:, s], features, labels, [owners[s][i] for i in own])
            share = weights[:, r, s]
            scale = scales[:, r, s]
            released = _release(
                gradients, bought.privacy_loss[r, s], scale, clip_norm, spacing, rng
            )
            # line 8: their weighted sum is delivered, and the buyer takes a step
            for part, total in enumerate(_aggregated(share, scale, *released)):
                moved[part, :, s] -= rate * total
        if r + 1 in noted:
            path.append(moved.copy())
    signal, noise, received = _by_rule(aggregations, path, spacing is not None)
    paid = bought.payments.sum(axis=(0, 2))
    idle = (bought.privacy_loss == 0).all(axis=2).sum(axis=0)
    return Training(np.array(noted), w, signal, noise, privacy_loss, paid, idle, received)


def _noted(rounds: int, every: int) -> list[int]:
    """After how many rounds the paths are noted."""
    return sorted({1, rounds}.union(range(0, rounds + 1, check_count(every, "every"))))


def _everything(accepted: Array) -> Bought:
    """Everybody sells her privacy budget, without money."""
    return Bought(accepted, np.zeros(accepted.shape), np.zeros(accepted.shape[:2]))


def _sold(bought: Bought, bidders: Integers, shape: tuple[int, ...]) -> Array:
    """Sums of the losses that owners have sold, of shape (runs, owners); an error if there are
    none.
    """
    privacy_loss = np.zeros(shape)
    np.add.at(privacy_loss, (np.arange(shape[0])[:, None], bidders), bought.privacy_loss)
    if not privacy_loss.any():
        raise ValueError("privacy_loss is 0 for every bidder in every round: nobody sells anything")
    return privacy_loss


def _spacing(bought: Bought, clip_norm: float) -> float:
    """Spacing for what was bought: fine beside the least noise, coarse enough for the most."""
    bound = check_positive(clip_norm, "clip_norm")
    sold = bought.privacy_loss[bought.privacy_loss > 0]
    return grid_step(bound * max(2 / sold.max(), 2.0**-8), bound * min(64 / sold.min(), 2.0**43))


def _noise_scale(bought: Bought, clip_norm: float, spacing: float | None) -> Array:
    """Scale of the noise, 0 for who sends nothing; with a spacing, noise comes in units of the
    gradients.
    """
    scale = 1.0 if spacing is not None else noise_scale(bought.privacy_loss, clip_norm)
    return np.where(bought.privacy_loss > 0, scale, 0.0)


def _release(
    gradients: NDArray,
    epsilon: Array,
    scales: Array,
    clip_norm: float,
    spacing: float | None,
    rng: np.random.Generator,
) -> tuple[NDArray, ...]:
    """Clipped gradients and noise of scale 1, of shapes (owners, ...); with a spacing also what
    each rule receives.
    """
    if spacing is None:
        return clipped(gradients, clip_norm), rng.laplace(
            size=(len(gradients), *gradients.shape[2:])
        )
    steps = grid_gradients(gradients, clip_norm, spacing)
    drawn = gradient_noise(epsilon, gradients.shape[2:], clip_norm, spacing, rng=rng)
    added = scales.T.astype(np.int64)[..., None, None] * drawn[:, None]
    return spacing * steps, spacing * drawn, spacing * cut(steps + added).astype(float)


def _aggregated(
    weights: Array, scales: Array, sent: NDArray, noise: NDArray, noisy: NDArray | None = None
) -> list:
    """Weighted sums over the owners for each rule: of gradients, of noise, and of both as they were
    received.
    """
    sums = [
        np.einsum("an,na...->a...", weights, sent),
        np.tensordot(weights * scales, noise, axes=1),
    ]
    return sums if noisy is None else [*sums, np.einsum("an,na...->a...", weights, noisy)]


def _by_rule(
    rules: Mapping[str, Aggregation | None], path: list[Array], kept: bool
) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array] | None]:
    """Signal, noise and, if `kept`, what was received: dicts of arrays (checkpoints, runs, classes,
    features).
    """
    # part, aggregation, checkpoint, run, classes, features
    parts = np.moveaxis(np.array(path), 0, 2)
    signal, noise, received = (dict(zip(rules, part, strict=True)) for part in parts)
    return signal, noise, received if kept else None


def _check(
    features: NDArray,
    labels: NDArray,
    owners: Sequence,
    privacy_budget: ArrayLike,
    bidders: Integers,
    start: ArrayLike,
) -> tuple[NDArray, Integers, Array, Array, Array]:
    """Features, labels, starting points of all runs, privacy budgets and sizes."""
    features = private_floats(features, "features", 2)
    if not np.isfinite(features).all():
        raise ValueError("features must be finite numbers: fill what is missing by a public rule")
    if bidders.ndim != 3 or bidders.dtype.kind not in "iu" or bidders.size == 0:
        raise ValueError(
            "bidders must be whole numbers of shape (rounds, runs, bidders), got shape"
            f" {bidders.shape}"
        )
    runs = bidders.shape[1]
    w = check_finite(start, "start", np.ndim(start))
    if w.ndim not in (2, 3) or w.shape[-1] != features.shape[1] or (w.ndim == 3 and len(w) != runs):
        raise ValueError(
            f"start must have shape (classes, {features.shape[1]}), for {runs} runs or all, got"
            f" {w.shape}"
        )
    labels = check_labels(labels, features, w.shape[-2])
    limits = check_finite(privacy_budget, "privacy_budget", 2, 0, ends="()")
    sizes = [[max(len(rows), 1) for rows in own] for own in owners]
    if [len(own) for own in sizes] != [limits.shape[1]] * runs or len(limits) != runs:
        raise ValueError(
            f"owners must have {runs} runs of {limits.shape[1]} owners, as privacy_budget has"
        )
    for own in owners:
        rows = np.concatenate(own)
        if (outside := (rows < 0) | (rows >= len(features))).any():
            raise ValueError(
                f"owners must hold rows of the {len(features)} records, got {rows[outside][0]}"
            )
    among = np.sort(bidders, axis=-1)
    if (
        (among < 0).any()
        or (among >= limits.shape[1]).any()
        or (np.diff(among, axis=-1) == 0).any()
    ):
        raise ValueError(
            f"bidders must be different owners 0 to {limits.shape[1] - 1} in each round"
        )
    return (
        features,
        labels,
        np.broadcast_to(w, (runs, *w.shape[-2:])),
        limits,
        np.array(sizes, dtype=float),
    )


def _weights(
    rules: Mapping[str, Aggregation | None], epsilon: Array, sizes: Array, scale: Array
) -> tuple[Array, Array]:
    """Weights and noise scales of shape (aggregations, rounds, runs, bidders); who sends nothing
    has weight 0.
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


def _checked(bought: Bought, accepted: Array) -> Bought:
    """What was bought as arrays of floats, within all limits."""
    parts = bought.privacy_loss, bought.payments, bought.budget
    losses, payments, budget = (np.asarray(part, dtype=float) for part in parts)
    if (
        losses.shape != accepted.shape
        or payments.shape != accepted.shape
        or budget.shape != accepted.shape[:2]
    ):
        raise ValueError(
            f"auction must buy from bidders of shape {accepted.shape}, got privacy_loss"
            f" {losses.shape}"
        )
    if (bad := ~((losses >= 0) & (losses <= accepted * _TOLERANCE))).any():
        most = f"an owner who accepts at most {accepted[bad][0]}"
        raise ValueError(f"round {_first(bad)}: privacy_loss = {losses[bad][0]} of {most}")
    if (
        bad := ~((payments >= 0).all(axis=2) & (payments.sum(axis=2) <= budget * _TOLERANCE))
    ).any():
        raise ValueError(
            f"round {_first(bad)}: payments {payments[bad][0]} with a budget of {budget[bad][0]}"
        )
    return Bought(np.minimum(losses, accepted), payments, budget)


def _first(bad: NDArray[np.bool_]) -> int:
    return int(np.argwhere(bad)[0, 0]) + 1
