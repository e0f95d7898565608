r"""RegretNet, M-RegretNet and DM-RegretNet: auctions of privacy that are neural networks.

Each is two networks with the same input and `tanh` layers. The allocation network ends in a softmax over `M` + 1
outcomes of each owner, to sell nothing or to sell at the level :math:`m\bar\epsilon_i/M`; the payment network in a
softmax over `n` + 1 fractions of the budget, the first of which stays with the buyer. *RegretNet* has one level,
*M-RegretNet* several; both draw the outcome. *DM-RegretNet* takes the most probable one instead (Eq. 3), and in
training a smooth stand-in for it (Alg. 3).

Weights are a dict of arrays, apart from the :class:`Network`. The functions before :func:`run` work under ``jit``,
``vmap`` and ``grad`` and check nothing; it and what follows check their input. Throughout, privacy budgets and sizes
are of shape (..., n), `values` (valuations of one record at the sub-bids, not negative) of shape (..., n, M), and
probabilities of the outcomes, or `outcomes`, of shape (..., n, M + 1).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hdpm_book.federated.checkpoints import DAMAGED
from hdpm_lib.auctions.bids import Bids, check_budget, unit_valuation
from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.validation import check_choice, check_count, check_generator, check_positive, extra

with extra("book"):
    import jax
    import jax.numpy as jnp


Weights = dict[str, Any]
KINDS = ("RegretNet", "M-RegretNet", "DM-RegretNet")
TRAINED = Path(str(resources.files("hdpm_book.data"))) / "networks"
LEAST = 1e-6  # added to a value before its logarithm


@dataclass(frozen=True)
class Network:
    """The shape of an auction network.

    Attributes
    ----------
    kind : {"RegretNet", "M-RegretNet", "DM-RegretNet"}
    owners, levels : int, bidders `n` (a network serves no other number) and sub-bids `M` (1 for RegretNet)
    hidden : tuple of int, nodes of the hidden layers, in both networks
    temperature : float, positive, smoothing of the stand-in for the largest probability; the paper gives none
    """

    kind: str
    owners: int = 10
    levels: int = 8
    hidden: tuple[int, ...] = (100, 100)
    temperature: float = 1 / 8

    def __post_init__(self) -> None:
        check_choice(self.kind, "kind", KINDS)
        for name, counts in (("owners", (self.owners,)), ("levels", (self.levels,)), ("hidden", self.hidden)):
            for count in counts:
                check_count(count, name)
        check_positive(self.temperature, "temperature")
        if not self.hidden:
            raise ValueError("hidden must name at least one layer, got ()")
        if self.kind == "RegretNet" and self.levels != 1:
            raise ValueError(f"levels must be 1 for RegretNet, got {self.levels}: more levels are M-RegretNet")

    @property
    def inputs(self) -> int:
        """Number of inputs: values, privacy budget and size of each owner, and the budget."""
        return self.owners * (self.levels + 2) + 1

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights, by name."""
        found: dict[str, tuple[int, ...]] = {}
        for part, last in (("allocation", self.owners * (self.levels + 1)), ("payment", self.owners + 1)):
            for layer, (into, out) in enumerate(pairwise((self.inputs, *self.hidden, last))):
                found |= {f"{part}.{layer}.slope": (into, out), f"{part}.{layer}.offset": (out,)}
        return found


@partial(jax.jit, static_argnums=0)
def init(network: Network, key: Any) -> Weights:
    """Weights before training by Glorot's uniform law, offsets 0; `key` is a JAX key such as ``jax.random.key(0)``."""
    glorot = jax.nn.initializers.glorot_uniform()
    keys = dict(zip(network.shapes, jax.random.split(key, len(network.shapes)), strict=True))
    return {name: glorot(keys[name], s) if len(s) == 2 else jnp.zeros(s) for name, s in network.shapes.items()}


def sub_bid_values(family: Any, rate: Any, privacy_budget: Any, levels: int) -> Any:
    r"""Valuations of one record at the sub-bids, :math:`v_i(m\bar\epsilon_i/M)/d_i` for `m` from 1 to `M` = `levels`.

    Arguments as in :class:`~hdpm_lib.auctions.bids.Bids`; the result is NumPy's if all of them are, otherwise JAX's.

    Examples
    --------
    >>> sub_bid_values(np.array([1]), np.array([0.5]), np.array([2.0]), 4)
    array([[0.125, 0.5  , 1.125, 2.   ]])
    """
    family, rate, limit = family[..., None], rate[..., None], privacy_budget[..., None]
    xp = jnp if any(isinstance(part, jax.Array) for part in (family, rate, limit)) else np
    return unit_valuation(family, rate, limit * (xp.arange(1, levels + 1) / levels), xp)


def features(values: Any, privacy_budget: Any, sizes: Any, budget: Any) -> Any:
    """What the networks see, (..., n (M + 2) + 1), from the arguments of :func:`forward`.

    Logarithms of the values, of the privacy budgets, of the sizes over their mean, and of the budget for each record:
    owner by owner, the budget last. The paper names the inputs, but not their scale.
    """
    total = sizes.sum(-1)
    flat = _bids(values, privacy_budget, sizes * sizes.shape[-1] / total[..., None]).reshape(*values.shape[:-2], -1)
    return jnp.concatenate([flat, jnp.log(budget / total)[..., None]], -1)


def _bids(values: Any, privacy_budget: Any, sizes: Any) -> Any:
    """Logarithms of the bids, (..., n, M + 2)."""
    return jnp.concatenate([jnp.log(values + LEAST), jnp.log(jnp.stack([privacy_budget, sizes], -1))], -1)


def forward(
    network: Network, weights: Weights, values: Any, privacy_budget: Any, sizes: Any, budget: Any
) -> tuple[Any, Any]:
    """Probabilities of the outcomes, the first of selling nothing, and payments (..., n) for what is reported.

    Payments do not depend on what is drawn. Their sum is below the budget: they are fractions of a softmax with one
    more entry. Privacy budgets, sizes and the budget are positive.
    """
    # 1. Values of the sub-bids, privacy budgets, sizes, and the money
    x = features(values, privacy_budget, sizes, budget)

    def outputs(part: str) -> Any:
        nodes = _hidden(network, weights, part, _layer(weights, part, 0, x))
        return _layer(weights, part, len(network.hidden), nodes)

    # 2. Allocation network: the chances of each owner's outcomes
    scores = outputs("allocation").reshape((*x.shape[:-1], network.owners, network.levels + 1))
    chances = jax.nn.softmax(scores, -1)

    # 3. Payment network: fractions of the money, the first for the buyer
    fractions = jax.nn.softmax(outputs("payment"), -1)
    return chances, fractions[..., 1:] * budget[..., None]


def _layer(weights: Weights, part: str, layer: int, x: Any) -> Any:
    return x @ weights[f"{part}.{layer}.slope"] + weights[f"{part}.{layer}.offset"]


def _hidden(network: Network, weights: Weights, part: str, x: Any) -> Any:
    """The last hidden nodes of one of the two networks, from what enters the first."""
    for layer in range(1, len(network.hidden)):
        x = _layer(weights, part, layer, jnp.tanh(x))
    return jnp.tanh(x)


def forward_alone(
    network: Network, weights: Weights, truth: tuple[Any, Any, Any], lies: tuple[Any, Any, Any], budget: Any
) -> tuple[Any, Any]:
    """:func:`forward` for each owner in the auction in which she alone makes her report of `lies`, the others `truth`.

    Both are values, privacy budgets and sizes; probabilities (..., n, M + 1) and payments (..., n) are her own. What
    enters the first nodes of these `n` auctions differs by her own bid and by the mean size only.
    """
    n, classes, last = network.owners, network.levels + 1, len(network.hidden)

    # 1. What the truth says, by how much her bid differs from it, and the mean size
    x, own = features(*truth, budget), _bids(*lies) - _bids(*truth)
    larger = jnp.log1p((lies[2] - truth[2]) / truth[2].sum(-1, keepdims=True))[..., None]

    def hidden(part: str) -> Any:
        by_bid = weights[f"{part}.0.slope"][:-1].reshape(n, classes + 1, -1)
        by_mean = by_bid[:, -1].sum(0) + weights[f"{part}.0.slope"][-1]
        entering = _layer(weights, part, 0, x)[..., None, :] + jnp.einsum("...im,imh->...ih", own, by_bid)
        return _hidden(network, weights, part, entering - larger * by_mean)

    # 2. Allocation network: the chances of her outcomes
    slope = weights[f"allocation.{last}.slope"].reshape(-1, n, classes)
    scores = jnp.einsum("...ih,him->...im", hidden("allocation"), slope)
    chances = jax.nn.softmax(scores + weights[f"allocation.{last}.offset"].reshape(n, classes), -1)

    # 3. Payment network: her fraction of the money
    fractions = jax.nn.softmax(_layer(weights, "payment", last, hidden("payment")), -1)
    return chances, jnp.einsum("...ii->...i", fractions[..., 1:]) * budget[..., None]


def allocation(network: Network, probabilities: Any) -> Any:
    """Outcomes: one-hot at the first largest probability for DM-RegretNet (Eq. 3), else as given."""
    if network.kind != "DM-RegretNet":
        return probabilities
    return jax.nn.one_hot(jnp.argmax(probabilities, -1), network.levels + 1, dtype=probabilities.dtype)


def smooth_allocation(network: Network, probabilities: Any) -> Any:
    r"""What training sees: :math:`\operatorname{softmax}(z_i/\tau)` for DM-RegretNet (Alg. 3), else as given."""
    if network.kind != "DM-RegretNet":
        return probabilities
    return jax.nn.softmax(probabilities / network.temperature, -1)


def expected_epsilon(outcomes: Any, privacy_budget: Any) -> Any:
    """Mean privacy losses (..., n) when outcomes are shares or probabilities of the levels."""
    levels = outcomes.shape[-1] - 1
    return (outcomes[..., 1:] * (jnp.arange(1, levels + 1) / levels)).sum(-1) * privacy_budget


def expected_value(outcomes: Any, values: Any, sizes: Any) -> Any:
    """Mean valuations (..., n) of what is sold, in money."""
    return (outcomes[..., 1:] * values).sum(-1) * sizes


_forward = partial(jax.jit, static_argnums=0)(forward)


def run(
    network: Network, weights: Weights, bids: Bids, budget: ArrayLike, rng: np.random.Generator | None = None
) -> Outcome:
    """Hold the auction, in float64.

    The outcomes of RegretNet and M-RegretNet are drawn by `rng`; without it `epsilon` is their mean. DM-RegretNet draws
    nothing.

    Examples
    --------
    >>> from hdpm_lib.auctions.bids import bids
    >>> network = Network("DM-RegretNet", owners=2)
    >>> market = bids(["linear", "quadratic"], [1.0, 1.0], [1.0, 2.0], [50, 100])
    >>> outcome = run(network, init(network, jax.random.key(0)), market, 300.0)
    >>> outcome.privacy_loss * 8 / market.privacy_budget % 1, outcome.payments.sum() < 300
    (array([0., 0.]), np.True_)
    """
    check_weights(network, weights)
    money = check_budget(budget, bids)
    if rng is not None:
        check_generator(rng)
    if (owners := bids.sizes.shape[-1]) != network.owners:
        raise ValueError(f"bids are of {owners} owners, and the network is for {network.owners}")
    values = sub_bid_values(bids.family, bids.rate, bids.privacy_budget, network.levels)
    with jax.enable_x64(True):
        double = {name: jnp.asarray(w, jnp.float64) for name, w in weights.items()}
        probabilities, fractions = _forward(network, double, values, bids.privacy_budget, 1.0 * bids.sizes, money)
        outcomes, payments = np.asarray(allocation(network, probabilities)), np.asarray(fractions)
    if not (np.isfinite(outcomes).all() and np.isfinite(payments).all()):
        raise ValueError("bids or weights hold something that is not a number")
    if rng is not None and network.kind != "DM-RegretNet":
        level = (rng.random((*outcomes.shape[:-1], 1)) > outcomes.cumsum(-1)[..., :-1]).sum(-1)
        outcomes = np.eye(network.levels + 1)[level]
    share = outcomes @ (np.arange(network.levels + 1) / network.levels)
    return Outcome(share * bids.privacy_budget, payments)


def check_weights(network: Network, weights: Weights) -> None:
    """A ValueError that names the first array that is missing, of another shape than the network's, or not finite."""
    for name, shape in network.shapes.items():
        if name not in weights:
            raise ValueError(f"weights lack {name!r} of a {network.kind} with {network.levels} levels")
        if np.shape(weights[name]) != shape:
            raise ValueError(f"weights[{name!r}] must have shape {shape}, got {np.shape(weights[name])}")
        if not np.isfinite(np.asarray(weights[name], dtype=float)).all():
            raise ValueError(f"weights[{name!r}] must be finite")


def save(path: Path, network: Network, weights: Weights) -> None:
    """Write a network and its weights, rounded to float16, into one file; errors as of :func:`check_weights`."""
    check_weights(network, weights)
    arrays: dict[str, Any] = {name: np.asarray(weights[name], dtype=np.float16) for name in network.shapes}
    np.savez_compressed(path, **arrays | {field: np.array(value) for field, value in asdict(network).items()})


def load_trained(name: str, folder: Path = TRAINED) -> tuple[Network, Weights]:
    """A network that :func:`save` wrote, and its weights in float32; of those trained for this book by default.

    A FileNotFoundError names the files that are there; a damaged one raises a ValueError.
    """
    path = folder / f"{name}.npz"
    if not path.is_file():
        there = sorted(file.stem for file in folder.glob("*.npz"))
        raise FileNotFoundError(f"no trained network {name!r} in {folder}, only {there}")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            read = dict(arrays)
        fields = {field: read.pop(field).tolist() for field in Network.__dataclass_fields__}
    except DAMAGED as error:
        raise ValueError(f"{path} is damaged or holds no network: {error}") from error
    network = Network(**fields | {"hidden": tuple(fields["hidden"])})
    weights = {name: array.astype(np.float32) for name, array in read.items()}
    check_weights(network, weights)
    return network, weights
