r"""RegretNet, M-RegretNet and DM-RegretNet: auctions of privacy that are neural networks.

Each is two networks with the same input and three layers of 100 `tanh` nodes. The allocation
network ends in a softmax over `M` + 1 outcomes of each owner, to sell nothing or to sell at the
level :math:`m\bar\epsilon_i/M`; the payment network in a softmax over `n` + 1 fractions of the
budget, the first of which stays with the buyer. *RegretNet* has one level, *M-RegretNet* several;
both draw the outcome. *DM-RegretNet* takes the most probable level. As in the published code it
never sells nothing, which the paper's Eq. (3) allows.

Shapes and the scale of the inputs are those of the published networks
(:mod:`hdpm_book.federated.published`): values and money are shifted by the mean and divided by the
range of the values in the auction, privacy budgets and sizes by mean and range **of all owners but
the last**.

Privacy budgets and sizes are of shape (..., n), `values` (valuations of one record at the levels)
of shape (..., n, M), probabilities of the outcomes, or `outcomes`, of shape (..., n, M + 1). What
takes `xp`, which is ``numpy`` or ``jax.numpy``, checks nothing and works under ``jit`` and
``grad``.
"""

from __future__ import annotations

import json
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hdpm_book.records import store
from hdpm_lib.auctions.bids import Bids, check_budget, unit_valuation
from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.validation import check_generator

Weights = dict[str, tuple[tuple[Any, Any], ...]]
KINDS = ("RegretNet", "M-RegretNet", "DM-RegretNet")
OWNERS = 10
HIDDEN = (100, 100, 100)
TRAINED = Path(str(resources.files("hdpm_book.data"))) / "networks"


class Network(NamedTuple):
    """An auction network.

    Attributes
    ----------
    kind : {"RegretNet", "M-RegretNet", "DM-RegretNet"}
    weights : dict
        For ``"allocation"`` and ``"payment"`` the layers from first to last: slopes (into, out) and
        offsets (out,).
    temperature : float, positive
        The paper's :math:`\\tau` in the smooth stand-in for the most probable level.
    """

    kind: str
    weights: Weights
    temperature: float = 1 / 8

    @property
    def owners(self) -> int:
        """Number of bidders, `n`; a network serves no other."""
        return len(self.weights["payment"][-1][1]) - 1

    @property
    def levels(self) -> int:
        """Number of levels, `M`."""
        return len(self.weights["allocation"][-1][1]) // self.owners - 1


def shapes(levels: int, owners: int = OWNERS) -> dict[str, list[tuple[int, int]]]:
    """Return shapes of the slopes, layer by layer, of the allocation and of the payment network."""
    ends = {"allocation": owners * (levels + 1), "payment": owners + 1}
    return {
        part: list(pairwise((owners * (levels + 2) + 1, *HIDDEN, last)))
        for part, last in ends.items()
    }


def untrained(levels: int, seed: int | list[int], kind: str = "") -> Network:
    """Return a network before training: slopes by Glorot's uniform law, offsets 0."""
    rng = np.random.default_rng(seed)
    weights: Weights = {
        part: tuple(
            (rng.uniform(-1, 1, shape) * np.sqrt(6 / sum(shape)), np.zeros(shape[1]))
            for shape in layers
        )
        for part, layers in shapes(levels).items()
    }
    return Network(kind or ("RegretNet" if levels == 1 else "M-RegretNet"), weights)


def sub_bid_values(family: Any, rate: Any, privacy_budget: Any, levels: int, xp: Any = np) -> Any:
    r"""Return valuations of one record at the levels, :math:`v_i(m\bar\epsilon_i/M)/d_i` for `m`
    from 1 to `M` = `levels`.

    Arguments as in :class:`~hdpm_lib.auctions.bids.Bids`.

    Examples
    --------
    >>> sub_bid_values(np.array([1]), np.array([0.5]), np.array([2.0]), 4)
    array([[0.125, 0.5  , 1.125, 2.   ]])
    """
    share = xp.arange(1, levels + 1) / levels
    return unit_valuation(family[..., None], rate[..., None], privacy_budget[..., None] * share, xp)


def inputs(values: Any, privacy_budget: Any, sizes: Any, budget: Any, xp: Any = np) -> Any:
    """Return what both networks see, (..., n (M + 2) + 1): values, privacy budget and size by
    owner, money at the end.
    """

    def scaled(x: Any, of: Any) -> Any:
        span = of.max(-1, keepdims=True) - of.min(-1, keepdims=True)
        return xp.where(span > 0, (x - of.mean(-1, keepdims=True)) / xp.where(span > 0, span, 1), 0)

    told = values.reshape(*values.shape[:-2], -1)
    seen = scaled(told, told).reshape(values.shape)
    bids = [seen, *(scaled(x, x[..., :-1])[..., None] for x in (privacy_budget, sizes))]
    money = scaled((budget / sizes.sum(-1))[..., None], told)
    return xp.concatenate([xp.concatenate(bids, -1).reshape(*told.shape[:-1], -1), money], -1)


def softmax(scores: Any, xp: Any = np) -> Any:
    """Return the softmax over the last axis."""
    powers = xp.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def forward(
    weights: Weights, values: Any, privacy_budget: Any, sizes: Any, budget: Any, xp: Any = np
) -> tuple[Any, Any]:
    """Return probabilities of the outcomes, the first of selling nothing, and payments (..., n) for
    what is reported.

    Payments do not depend on what is drawn. Their sum is below the budget: they are fractions of a
    softmax with one more entry. Privacy budgets, sizes and the budget are positive.
    """
    found = {}
    told = inputs(values, privacy_budget, sizes, budget, xp)
    for part, layers in weights.items():
        x = told
        for slope, offset in layers[:-1]:
            x = xp.tanh(x @ slope + offset)
        found[part] = x @ layers[-1][0] + layers[-1][1]
    chances = softmax(found["allocation"].reshape(*sizes.shape, -1), xp)
    return chances, softmax(found["payment"], xp)[..., 1:] * budget[..., None]


def certain(chances: Any, xp: Any = np) -> Any:
    """Decide as DM-RegretNet in use: 1 at the most probable level, of those above 0."""
    best = chances[..., 1:].argmax(-1) + 1
    return xp.asarray(best[..., None] == xp.arange(chances.shape[-1]), chances.dtype)


def smooth(chances: Any, temperature: float, xp: Any = np) -> Any:
    r"""Decide as DM-RegretNet in training: :math:`\operatorname{softmax}(z_i/\tau)` over the levels
    above 0.
    """
    return xp.concatenate(
        [xp.zeros_like(chances[..., :1]), softmax(chances[..., 1:] / temperature, xp)], -1
    )


def play(network: Network, bids: Bids, budget: ArrayLike) -> tuple[Any, Any]:
    """Return probabilities of the outcomes (DM-RegretNet's are 0 and 1) and payments when all
    report the truth, checked.
    """
    money = check_budget(budget, bids)
    if (owners := bids.sizes.shape[-1]) != network.owners:
        raise ValueError(f"bids are of {owners} owners, and the network is for {network.owners}")
    values = sub_bid_values(bids.family, bids.rate, bids.privacy_budget, network.levels)
    chances, payments = forward(
        network.weights, values, bids.privacy_budget, 1.0 * bids.sizes, money
    )
    if not all(np.isfinite(x).all() for x in (values, bids.sizes, chances, payments)):
        raise ValueError("bids or weights hold something that is not a number")
    return certain(chances) if network.kind == "DM-RegretNet" else chances, payments


def run(
    network: Network, bids: Bids, budget: ArrayLike, rng: np.random.Generator | None = None
) -> Outcome:
    """Hold the auction.

    The outcomes of RegretNet and M-RegretNet are drawn by `rng`; without it the privacy losses are
    their means. DM-RegretNet draws nothing.

    Examples
    --------
    >>> from hdpm_lib.auctions.bids import bids
    >>> market = bids(["linear", "quadratic"] * 5, 1.0, [1.0, 2.0] * 5, [50, 100] * 5)
    >>> outcome = run(untrained(8, 0, "DM-RegretNet"), market, 300.0)
    >>> (outcome.privacy_loss * 8 / market.privacy_budget % 1).max(), outcome.payments.sum() < 300
    (np.float64(0.0), np.True_)
    """
    outcomes, payments = play(network, bids, budget)
    if rng is not None and network.kind != "DM-RegretNet":
        outcomes = np.eye(network.levels + 1)[draw(outcomes, rng)]
    return Outcome(outcomes @ np.linspace(0, 1, network.levels + 1) * bids.privacy_budget, payments)


def draw(chances: Any, rng: np.random.Generator) -> Any:
    """Return levels (..., n) that a lottery picks."""
    check_generator(rng)
    return (rng.random((*chances.shape[:-1], 1)) > chances.cumsum(-1)[..., :-1]).sum(-1)


def save(path: Path, network: Network, about: dict[str, Any]) -> None:
    """Write a network, rounded to float16, and beside it how it came about."""
    arrays: dict[str, Any] = {
        f"{part}.{layer}.{what}": np.asarray(array, np.float16)
        for part, layers in network.weights.items()
        for layer, pair in enumerate(layers)
        for what, array in zip(("slope", "offset"), pair, strict=True)
    }
    np.savez_compressed(path.with_suffix(".npz"), **arrays)
    about = {"kind": network.kind, "temperature": network.temperature} | about
    store(path.with_suffix(".json"), about)


def load_trained(name: str, folder: Path = TRAINED) -> Network:
    """Load a network that :func:`save` wrote; of those trained for this book by default.

    A FileNotFoundError names the files that are there.
    """
    path = folder / f"{name}.npz"
    if not path.is_file():
        there = sorted(file.stem for file in folder.glob("*.npz"))
        raise FileNotFoundError(f"no trained network {name!r} in {folder}, only {there}")
    about = json.loads(path.with_suffix(".json").read_text("utf8"))
    with np.load(path, allow_pickle=False) as arrays:
        weights: Weights = {
            part: tuple(
                (
                    arrays[f"{part}.{layer}.slope"].astype(float),
                    arrays[f"{part}.{layer}.offset"].astype(float),
                )
                for layer in range(len(HIDDEN) + 1)
            )
            for part in ("allocation", "payment")
        }
    return Network(about["kind"], weights, about["temperature"])
