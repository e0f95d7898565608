r"""Federated learning with local privacy: Algorithm 1 of FL-Market, for any auction and any aggregation.

In a round a few owners are asked. An *auction* says how much privacy loss each of them sells, she releases the mean
gradient of her records, clipped and with Laplace noise, and an *aggregation* says with which weights the releases are
summed. This module knows neither of the two: both are functions that the caller passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.learners.gradients import check_labels, clipped, local_gradients, noise_scale
from hdpm_lib.learners.integer_answers import cut, gradient_noise, grid_gradients
from hdpm_lib.validation import check_count, check_finite, check_numeric, check_positive

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
_TOLERANCE = 1 + 1e-9  # by how much floating point may exceed a limit


@dataclass(frozen=True)
class Sale:
    """What the auctions of all rounds bought.

    The privacy losses for a round, 0 for an owner who sells nothing, and `payments` have shape (rounds, runs, bidders);
    `budget`, of shape (rounds, runs), is the money that an auction could spend.
    """

    epsilon: Array
    payments: Array
    budget: Array


Auction = Callable[[Integers], Sale]  # takes the numbers of the bidding owners, shape (rounds, runs, bidders)
Aggregation = Callable[[Array, Array], Array]  # weights from privacy losses and sizes, both of that shape


@dataclass(frozen=True)
class Training:
    """What runs of FedSGD went through.

    Attributes
    ----------
    rounds : array of shape (checkpoints,), after how many rounds the paths were noted
    start : array of shape (runs, classes, features)
    signal, noise : dict of arrays of shape (checkpoints, runs, classes, features)
        For each aggregation the sum of all steps so far, without and with nothing but the noise in them. For study: to
        publish the parts is not private.
    spent : array of shape (runs, owners)
        Sum of the privacy losses that an owner has sold: what the models of *one* aggregation cost her. Several share
        their noise, to be compared; to publish more than one, or one beside ``None``, costs more.
    paid, idle : arrays of shape (runs,)
        Money, and rounds in which nobody sold, so that the model stayed as it was.
    received : dict of arrays as in `signal`, optional
        With a spacing, the sum of all steps so far, computed from what was sent and nothing else.
    """

    rounds: Integers
    start: Array
    signal: dict[str, Array]
    noise: dict[str, Array]
    spent: Array
    paid: Array
    idle: Integers
    received: dict[str, Array] | None = None

    def parameters(self, name: str) -> Array:
        """Models of one aggregation at all checkpoints, (checkpoints, runs, classes, features)."""
        steps = self.signal[name] + self.noise[name] if self.received is None else self.received[name]
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
) -> Training:
    r"""Train models by FedSGD on releases of clipped gradients with Laplace noise: Algorithm 1 of the paper.

    It is an error if nobody sells anything in any round, or if an auction breaks a limit: more privacy loss than an
    owner accepts, or payments beyond the budget.

    Parameters
    ----------
    features, labels
        As for :mod:`hdpm_lib.learners.gradients`; gradients are computed in the type of `features`.
    owners : sequence of sequences of integer arrays
        For each run the rows of each of its owners. Who has none sends noise around zero, and counts as one record.
    privacy_budget : array of shape (runs, owners), positive
        Largest privacy loss that an owner accepts in a round.
    bidders : integer array of shape (rounds, runs, bidders)
        Who is asked when, as from :func:`hdpm_lib.learners.gradients.draw_bidders`.
    aggregations : dict
        Rules to compare, each training a model of its own on the same owners, purchases and noise. ``None`` stands for
        gradients without noise, weighted by size.
    start : array of shape (classes, features) or (runs, classes, features)
    rng : numpy.random.Generator
        Without `spacing` the numbers drawn do not depend on what the auction bought.
    auction : function, optional
        From the bidders of all rounds to a `Sale`, each auction apart from the others; it does not see the models. By
        default everybody sells her privacy budget, without money.
    learning_rate, clip_norm : float, positive, default 0.01 and 1
    every : int, default 10
        Paths are noted at the start, after the first round, each multiple of `every` and the last round.
    spacing : float, optional
        A power of two. Clipped gradients are cut to multiples of it, and noise on the same grid is added, both in
        integers: :func:`~hdpm_lib.learners.integer_answers.integer_gradients`. By default both are floats.

    Notes
    -----
    A release of loss :math:`\varepsilon` is :math:`\varepsilon`-locally private for the whole data of its owner, and
    losses add up over rounds (`spent`): :doc:`/book/federated/learning`. With floats this is a theorem about real
    numbers; with `spacing` it holds for what is sent, if random integers are uniform, and all models are computed from
    that alone (:doc:`/book/privacy/limits`).

    Examples
    --------
    >>> x, y, asked = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([0, 1]), np.zeros((3, 1, 1), int)
    >>> rows, rng = [[np.array([0, 1])]], np.random.default_rng(0)
    >>> fedsgd(x, y, rows, [[2.0]], asked, {"no noise": None}, np.zeros((2, 2)), rng=rng).spent
    array([[6.]])
    """
    w, limits, sizes = _check(features, labels, owners, privacy_budget, bidders, start)
    rate, noted = check_positive(learning_rate, "learning_rate"), _noted(len(bidders), every)
    accepted = np.take_along_axis(limits[None], bidders, axis=2)
    # lines 3 to 5: bids, and the auction with its money, for all rounds
    sale = _everything(accepted) if auction is None else _checked(auction(bidders), accepted)
    spent = _spent(sale, bidders, limits.shape)
    # line 7: the weights follow from what was bought
    scale = _noise_scale(sale, clip_norm, spacing)
    records = np.take_along_axis(sizes[None], bidders, axis=2)
    weights, scales = _weights(aggregations, sale.epsilon, records, scale)
    # sums of the steps: signal, noise, and what was sent, in one
    moved = np.zeros((3, len(aggregations), *w.shape))
    path = [moved.copy()]
    for r, asked in enumerate(bidders):
        models = w + (moved[:2].sum(axis=0) if spacing is None else moved[2])
        for s, own in enumerate(asked):
            # line 6: the model goes out, clipped and perturbed local gradients come back
            gradients = local_gradients(models[:, s], features, labels, [owners[s][i] for i in own])
            share, scale = weights[:, r, s], scales[:, r, s]
            released = _release(gradients, sale.epsilon[r, s], scale, clip_norm, spacing, rng)
            # line 8: their weighted sum is delivered, and the buyer takes a step
            for part, total in enumerate(_aggregated(share, scale, *released)):
                moved[part, :, s] -= rate * total
        if r + 1 in noted:
            path.append(moved.copy())
    signal, noise, received = _by_rule(aggregations, path, spacing is not None)
    paid, idle = sale.payments.sum(axis=(0, 2)), (sale.epsilon == 0).all(axis=2).sum(axis=0)
    return Training(np.array(noted), w, signal, noise, spent, paid, idle, received)


def _noted(rounds: int, every: int) -> list[int]:
    """After how many rounds the paths are noted."""
    return sorted({1, rounds}.union(range(0, rounds + 1, check_count(every, "every"))))


def _everything(accepted: Array) -> Sale:
    """Everybody sells her privacy budget, without money."""
    return Sale(accepted, np.zeros(accepted.shape), np.zeros(accepted.shape[:2]))


def _spent(sale: Sale, bidders: Integers, shape: tuple[int, ...]) -> Array:
    """Sums of the losses that owners have sold, of shape (runs, owners); an error if there are none."""
    spent = np.zeros(shape)
    np.add.at(spent, (np.arange(shape[0])[:, None], bidders), sale.epsilon)
    if not spent.any():
        raise ValueError("epsilon is 0 for every bidder in every round: nobody sells anything")
    return spent


def _noise_scale(sale: Sale, clip_norm: float, spacing: float | None) -> Array:
    """Scale of the noise, 0 for who sends nothing; with a spacing, noise comes in units of the gradients."""
    return np.where(sale.epsilon > 0, noise_scale(sale.epsilon, clip_norm) if spacing is None else 1.0, 0.0)


def _release(
    gradients: NDArray, epsilon: Array, scales: Array, clip_norm: float, spacing: float | None, rng: np.random.Generator
) -> tuple[NDArray, ...]:
    """Clipped gradients and noise of scale 1, of shapes (owners, ...); with a spacing also what each rule receives."""
    if spacing is None:
        return clipped(gradients, clip_norm), rng.laplace(size=(len(gradients), *gradients.shape[2:]))
    steps = grid_gradients(gradients, clip_norm, spacing)
    drawn = gradient_noise(epsilon, gradients.shape[2:], clip_norm, spacing, rng=rng)
    added = scales.T.astype(np.int64)[..., None, None] * drawn[:, None]
    return spacing * steps, spacing * drawn, spacing * cut(steps + added).astype(float)


def _aggregated(weights: Array, scales: Array, sent: NDArray, noise: NDArray, noisy: NDArray | None = None) -> list:
    """Weighted sums over the owners for each rule: of gradients, of noise, and of both as they were received."""
    sums = [np.einsum("an,na...->a...", weights, sent), np.tensordot(weights * scales, noise, axes=1)]
    return sums if noisy is None else [*sums, np.einsum("an,na...->a...", weights, noisy)]


def _by_rule(
    rules: Mapping[str, Aggregation | None], path: list[Array], kept: bool
) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array] | None]:
    """Signal, noise and, if `kept`, what was received: dicts of arrays (checkpoints, runs, classes, features)."""
    parts = np.moveaxis(np.array(path), 0, 2)  # part, aggregation, checkpoint, run, classes, features
    signal, noise, received = (dict(zip(rules, part, strict=True)) for part in parts)
    return signal, noise, received if kept else None


def _check(
    features: NDArray, labels: NDArray, owners: Sequence, privacy_budget: ArrayLike, bidders: Integers, start: ArrayLike
) -> tuple[Array, Array, Array]:
    """Starting points of all runs, privacy budgets and sizes."""
    table = check_numeric(features, "features")
    if table.ndim != 2 or not table.size or table.dtype.kind != "f" or not np.isfinite(table).all():
        raise ValueError(f"features must be a finite table of floats, got {table.dtype} of shape {table.shape}")
    if bidders.ndim != 3 or bidders.dtype.kind not in "iu" or bidders.size == 0:
        raise ValueError(f"bidders must be whole numbers of shape (rounds, runs, bidders), got shape {bidders.shape}")
    runs, w = bidders.shape[1], check_finite(start, "start", np.ndim(start))
    if w.ndim not in (2, 3) or w.shape[-1] != features.shape[1] or (w.ndim == 3 and len(w) != runs):
        raise ValueError(f"start must have shape (classes, {features.shape[1]}), for {runs} runs or all, got {w.shape}")
    check_labels(labels, features, w.shape[-2])
    limits = check_finite(privacy_budget, "privacy_budget", 2, 0, ends="()")
    sizes = [[max(len(rows), 1) for rows in own] for own in owners]
    if [len(own) for own in sizes] != [limits.shape[1]] * runs or len(limits) != runs:
        raise ValueError(f"owners must have {runs} runs of {limits.shape[1]} owners, as privacy_budget has")
    for own in owners:
        rows = np.concatenate(own)
        if (outside := (rows < 0) | (rows >= len(features))).any():
            raise ValueError(f"owners must hold rows of the {len(features)} records, got {rows[outside][0]}")
    among = np.sort(bidders, axis=-1)
    if (among < 0).any() or (among >= limits.shape[1]).any() or (np.diff(among, axis=-1) == 0).any():
        raise ValueError(f"bidders must be different owners 0 to {limits.shape[1] - 1} in each round")
    return np.broadcast_to(w, (runs, *w.shape[-2:])), limits, np.array(sizes, dtype=float)


def _weights(
    rules: Mapping[str, Aggregation | None], epsilon: Array, sizes: Array, scale: Array
) -> tuple[Array, Array]:
    """Weights and noise scales of shape (aggregations, rounds, runs, bidders); who sends nothing has weight 0."""
    weights, scales = [], []
    for rule in rules.values():
        if rule is None:
            weights.append(sizes / sizes.sum(axis=-1, keepdims=True))
            scales.append(0 * scale)
        else:
            weights.append(np.where(epsilon > 0, rule(epsilon, sizes), 0.0))
            scales.append(scale)
    return np.array(weights), np.array(scales)


def _checked(sale: Sale, accepted: Array) -> Sale:
    """The sale as arrays of floats, within all limits."""
    epsilon, payments, budget = (np.asarray(part, dtype=float) for part in (sale.epsilon, sale.payments, sale.budget))
    if epsilon.shape != accepted.shape or payments.shape != accepted.shape or budget.shape != accepted.shape[:2]:
        raise ValueError(f"auction must sell for bidders of shape {accepted.shape}, got epsilon {epsilon.shape}")
    if (bad := ~((epsilon >= 0) & (epsilon <= accepted * _TOLERANCE))).any():
        most = f"an owner who accepts at most {accepted[bad][0]}"
        raise ValueError(f"round {_first(bad)}: epsilon = {epsilon[bad][0]} of {most}")
    if (bad := ~((payments >= 0).all(axis=2) & (payments.sum(axis=2) <= budget * _TOLERANCE))).any():
        raise ValueError(f"round {_first(bad)}: payments {payments[bad][0]} with a budget of {budget[bad][0]}")
    return Sale(np.minimum(epsilon, accepted), payments, budget)


def _first(bad: NDArray[np.bool_]) -> int:
    return int(np.argwhere(bad)[0, 0]) + 1
