"""Training of the learned menus, on markets drawn afresh at every step.

An owner's best point of a schedule jumps as the schedule changes, so that it has no useful
gradient. In training she chooses softly, at a temperature that falls during the run
(:doc:`/book/federated/menus`). Nothing rests on this: :mod:`hdpm_lib.auctions.menus` lets her
choose exactly.

``python -m hdpm_book.federated.menus_training`` repeats the recorded run, about two minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hdpm_book.federated.aggregation_jax import least_error
from hdpm_book.federated.partition import KINDS, PRIVACY_BUDGETS, RATES, draw_sizes
from hdpm_book.records import provenance
from hdpm_lib.auctions.bids import FAMILIES, unit_valuation
from hdpm_lib.auctions.menus import (
    KNOTS,
    SHAPES,
    TRAINED,
    WIDTHS,
    increments,
    nothing_sold,
    places,
    record_sale,
)
from hdpm_lib.validation import check_choice, check_count, check_positive, extra

with extra("book"):
    import jax
    import jax.numpy as jnp
    import optax
    from jax import lax
    from tqdm import tqdm


Tree = dict[str, Any]
# more than the paper's range of the budget factor: little money is where training is needed
FACTORS = (0.05, 2.2)
_ALARM = 40.0  # error bound beyond which its logarithm counts
_LEVELS = np.sort(np.concatenate([KNOTS[1:], (KNOTS[1:] + KNOTS[:-1]) / 2]))
_ON_LEVELS = np.clip((_LEVELS[:, None] - KNOTS[:-1]) / WIDTHS, 0, 1).T


@dataclass(frozen=True)
class Settings:
    """How menus are trained; the defaults are those of the recorded run.

    Attributes
    ----------
    partition : {"IID", "Non-IID"}, law of the sizes
    owners : int, bidders of a market
    steps : int, updates of the weights, a multiple of `log`
    batch : int, markets of a step
    pool : int, profiles of sizes, from which markets are drawn
    log : int, steps between two entries of the log
    rate : float, first learning rate of Adam; it falls to a fiftieth along a cosine
    hot, cold : float, first temperature, and that from four fifths of the run on
    """

    partition: str = "IID"
    owners: int = 10
    steps: int = 12_000
    batch: int = 512
    pool: int = 40_000
    log: int = 100
    rate: float = 5e-3
    hot: float = 0.08
    cold: float = 0.006

    def __post_init__(self) -> None:
        check_choice(self.partition, "partition", KINDS)
        for name in ("owners", "steps", "batch", "pool", "log"):
            check_count(getattr(self, name), name)
        for name in ("rate", "hot", "cold"):
            check_positive(getattr(self, name), name)
        if self.steps % self.log:
            raise ValueError(f"steps must be a multiple of log = {self.log}, got {self.steps}")


def draw_shares(settings: Settings, seed: int) -> Any:
    """Shares to train on, each profile from the largest to the smallest: an array of shape
    (profiles, n) in float32.
    """
    seed = check_count(seed, "seed", 0)
    sizes = draw_sizes(
        settings.partition, settings.pool, np.random.default_rng([seed, 1]), owners=settings.owners
    )
    ordered = -np.sort(-sizes, axis=-1)
    return jnp.asarray(ordered / ordered.sum(-1, keepdims=True), jnp.float32)


def start(settings: Settings, seed: int) -> Tree:
    """State before the first step; the last layer is 0, so that training starts from one and the
    same rule of thumb.
    """
    seed = check_count(seed, "seed", 0)
    rng = np.random.default_rng([seed, 0])
    weights = {
        name: rng.standard_normal(shape) / math.sqrt(shape[0])
        if len(shape) == 2
        else np.zeros(shape)
        for name, shape in SHAPES.items()
    }
    weights |= {"last": np.zeros(SHAPES["last"]), "exponent": np.array(0.8)}
    first = {name: jnp.asarray(array, jnp.float32) for name, array in weights.items()}
    return {
        "weights": first,
        "optimiser": optimiser(settings).init(first),
        "step": jnp.asarray(0, jnp.int32),
    }


def optimiser(settings: Settings) -> Any:
    """Adam with clipped gradients and a falling rate."""
    rate = optax.cosine_decay_schedule(settings.rate, settings.steps, 0.02)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate, b2=0.99))


def draw_markets(settings: Settings, shares: Any, key: Any) -> Tree:
    """Markets of one step, sizes drawn from `shares`, types and factors afresh; money is per record
    of the market.
    """
    n = shares.shape[-1]
    uniform = jax.random.uniform(key, (settings.batch, 3 * n + 2))
    family, rate, limit = (uniform[:, k * n : (k + 1) * n] for k in range(3))
    low, high = (math.log(factor) for factor in FACTORS)
    market = {
        "share": shares[(len(shares) * uniform[:, -2]).astype(int)],
        "family": (len(FAMILIES) * family).astype(int),
        "rate": RATES[0] + (RATES[1] - RATES[0]) * rate,
        "limit": PRIVACY_BUDGETS[0] + (PRIVACY_BUDGETS[1] - PRIVACY_BUDGETS[0]) * limit,
        "factor": jnp.exp(low + (high - low) * uniform[:, -1]),
    }
    return market | {"money": market["factor"] * valuation(market, market["limit"]).sum(-1)}


def valuation(market: Tree, epsilon: Any) -> Any:
    """Cost of privacy losses (..., n) per record of the market."""
    return unit_valuation(market["family"], market["share"] * market["rate"], epsilon, jnp)


def soft_epsilon(weights: Tree, market: Tree, temperature: Any) -> Any:
    r"""Privacy losses (..., n) sold when owners choose softly.

    They choose among the knots, the points half-way and their privacy budget, with weights
    :math:`\exp(u/(Tp(2)))` for the utility `u` there and :math:`p(2)`, the most that they are
    offered.
    """
    limit = market["limit"][..., None]
    knots = (KNOTS[:-1], WIDTHS, _LEVELS, _ON_LEVELS)
    starts, widths, fixed, ramps = (x.astype(limit.dtype) for x in knots)
    levels = jnp.broadcast_to(fixed, (*limit.shape[:-1], len(fixed)))
    levels = jnp.concatenate([levels, limit], -1)
    wide = {name: market[name][..., None] for name in ("share", "rate", "family")}
    cost = jnp.where(levels <= limit, valuation(wide, levels), 1e6)
    on_limit = jnp.clip((limit - starts) / widths, 0, 1)
    turns = places(weights, market["share"], jnp)
    owner = market["share"].ndim - 1
    rows = jax.tree.map(lambda x: jnp.moveaxis(x, owner, 0), (turns, levels, cost, on_limit))

    def turn(state: tuple[Any, Any], row: Any) -> tuple[tuple[Any, Any], Any]:
        (money, sold), (own, levels, cost, on_limit) = state, row
        steps = increments(weights, own, money, sold, jnp)
        price = jnp.concatenate([steps @ ramps, (steps * on_limit).sum(-1, keepdims=True)], -1)
        heat = temperature * steps.sum(-1, keepdims=True) + 1e-12
        utility = jnp.concatenate([jnp.zeros_like(heat), (price - cost) / heat], -1)
        chances = jax.nn.softmax(utility, -1)[..., 1:]
        epsilon = (chances * levels).sum(-1)
        paid = (chances * price).sum(-1)
        return (money - paid, record_sale(sold, own.share, epsilon)), epsilon

    epsilon = lax.scan(turn, (market["money"], nothing_sold(market["money"], jnp)), rows)[1]
    return jnp.moveaxis(epsilon, 0, -1)


def loss(weights: Tree, market: Tree, temperature: Any) -> Any:
    """Mean error bound, weighted so that every budget factor matters alike; above 40 it grows like
    a logarithm.

    A privacy loss of 0.001 is added to all: gradients stay finite where next to nothing is sold.
    """
    error = least_error(soft_epsilon(weights, market, temperature) + 1e-3, market["share"])
    tamed = jnp.where(
        error > _ALARM, _ALARM * (1 + jnp.log(jnp.maximum(error, _ALARM) / _ALARM)), error
    )
    return (tamed / (1 + 0.45 / market["factor"])).mean()


@partial(jax.jit, static_argnums=0)
def run_steps(settings: Settings, state: Tree, shares: Any, seed: Any) -> tuple[Tree, Any]:
    """The state after ``settings.log`` more steps, and their losses; a step draws from its number
    and the seed only.
    """

    def update(state: Tree, _: None) -> tuple[Tree, Any]:
        step = state["step"]
        weights = state["weights"]
        market = draw_markets(settings, shares, jax.random.fold_in(jax.random.key(seed), step))
        progress = jnp.minimum(step / (0.8 * settings.steps), 1.0)
        temperature = settings.hot * (settings.cold / settings.hot) ** progress
        value, gradient = jax.value_and_grad(loss)(weights, market, temperature)
        change, memory = optimiser(settings).update(gradient, state["optimiser"], weights)
        return {
            "weights": optax.apply_updates(weights, change),
            "optimiser": memory,
            "step": step + 1,
        }, value

    return lax.scan(update, state, None, settings.log)


def train(settings: Settings, seed: int, state: Tree | None = None) -> Iterator[tuple[Tree, Any]]:
    """Train from the start, or go on from a `state` that was yielded earlier with the same settings
    and seed.

    Yields
    ------
    state : dict, with ``state["weights"]``
    losses : array of shape (log,), of the steps since the last
    """
    seed = check_count(seed, "seed", 0)
    shares = draw_shares(settings, seed)
    state = start(settings, seed) if state is None else state
    while int(state["step"]) < settings.steps:
        state, losses = run_steps(settings, state, shares, seed)
        yield state, losses


def main(arguments: list[str] | None = None) -> None:
    """Command line: train, and store weights and how they came about."""
    parser = argparse.ArgumentParser(
        prog="python -m hdpm_book.federated.menus_training", description=main.__doc__
    )
    defaults = Settings()
    for field in ("partition", "owners", "steps", "batch", "pool"):
        value = getattr(defaults, field)
        parser.add_argument(
            f"--{field}", type=type(value), default=value, help="default: %(default)s"
        )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=TRAINED, help="for menus.npz and menus.json")
    given = vars(parser.parse_args(arguments))
    seed = given.pop("seed")
    folder = given.pop("folder")
    settings = Settings(**given)
    began = time.process_time()
    log = []
    for now, losses in tqdm(
        train(settings, seed), total=settings.steps // settings.log, disable=None
    ):
        state = now
        log.append(round(float(losses.mean()), 5))
    arrays: Tree = {name: np.asarray(state["weights"][name]) for name in SHAPES}
    np.savez_compressed(folder / "menus.npz", **arrays)
    seconds = {"cpu_seconds": round(time.process_time() - began, 1)}
    about = provenance("jax", "jaxlib", "optax", "numpy") | {
        "settings": asdict(settings),
        "seed": seed,
    }
    (folder / "menus.json").write_text(
        json.dumps(about | seconds | {"log": log}, indent=1) + "\n", encoding="utf8"
    )


if __name__ == "__main__":
    main()
