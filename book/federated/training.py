"""Training of the auction networks: Problem 4 by the augmented Lagrangian of FL-Market's Appendix A, in JAX.

In one iteration, on a batch of `K` markets, each owner searches her best misreport by `J` steps of gradient ascent, the
others being truthful; then the weights take one step down the Lagrangian (:doc:`/book/federated/networks`). It punishes
regret, violation of individual rationality and distance from a deterministic allocation. For RegretNet and M-RegretNet
the negated privacy loss stands for the error bound, and the last of the three is left out.

What the paper does not say is chosen here: Adam for the step; misreports as logarithms of multipliers of the values of
the sub-bids (monotone along the sub-bids, from 1/20 to 20), of the privacy budget (from 1/20 to 1) and of the size
(down to one record); steps of the same length for everybody; the search goes on where it stopped an epoch ago.

``python -m hdpm_book.federated.training --help`` trains a network and records how.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hdpm_book.federated.aggregation_jax import least_error
from hdpm_book.federated.checkpoints import train_and_store
from hdpm_book.federated.partition import KINDS as PARTITIONS
from hdpm_book.federated.partition import budget_of, draw_bids, draw_sizes
from hdpm_book.federated.regretnet import (
    KINDS,
    TRAINED,
    Network,
    expected_epsilon,
    expected_value,
    forward,
    forward_alone,
    init,
    save,
    smooth_allocation,
    sub_bid_values,
)
from hdpm_book.federated.reports import Reports
from hdpm_lib.validation import check_choice, check_count, check_flag, check_positive, extra

with extra("book"):
    import jax
    import jax.numpy as jnp
    import optax


FACTORS = (0.1, 2.0)  # the paper's range of the budget factor
REACH = float(np.log(20))  # of a misreport
CHUNK = 64  # markets whose misreports are searched together on a processor: what its cache holds
VIOLATIONS = ("rgt", "irv", "dav")  # regret, loss by taking part, distance from a deterministic allocation
Tree = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """How a network is trained; the defaults are the paper's.

    Attributes
    ----------
    network : Network
    partition : {"IID", "Non-IID"}, law of the sizes
    aggregation : {"opt", "conv"}, whose error DM-RegretNet minimises; the other kinds do not look at it
    epochs, batches, profiles : int, passes through the data, `T` and `K`
    search : int, steps `J` of the search for misreports
    every : int, iterations `Q` between updates of the multipliers
    ascent, descent : float, step lengths gamma and psi
    determinism : bool, whether DM-RegretNet is penalised for dav; without, to see what that does
    adam, normalised : bool
        Whether weights step by Adam, and misreports by steps of one length. Without: plain gradient steps, as printed.
    """

    network: Network
    partition: str = "IID"
    aggregation: str = "opt"
    epochs: int = 50
    batches: int = 100
    profiles: int = 1024
    search: int = 100
    every: int = 10
    ascent: float = 0.1
    descent: float = 0.001
    determinism: bool = True
    adam: bool = True
    normalised: bool = True

    def __post_init__(self) -> None:
        for name in ("determinism", "adam", "normalised"):
            check_flag(getattr(self, name), name)
        check_choice(self.partition, "partition", PARTITIONS)
        check_choice(self.aggregation, "aggregation", ("opt", "conv"))
        for name in ("epochs", "batches", "profiles", "search", "every"):
            check_count(getattr(self, name), name)
        for name in ("ascent", "descent"):
            check_positive(getattr(self, name), name)


def descent_of(settings: Settings) -> optax.GradientTransformation:
    """The rule by which the weights step."""
    return (optax.adam if settings.adam else optax.sgd)(settings.descent)


def draw_markets(settings: Settings, seed: int) -> Tree:
    """Bids and budgets to train on: arrays of shape (T, K, n), and (T, K) for the budgets, in float32."""
    seed = check_count(seed, "seed", 0)
    rng = np.random.default_rng([seed, 1])
    shape = settings.batches, settings.profiles, settings.network.owners
    sizes = draw_sizes(settings.partition, shape[0] * shape[1], rng, owners=shape[2])
    truth = draw_bids(sizes.reshape(shape), rng)
    money = budget_of(truth, rng.uniform(*FACTORS, shape[:2]))
    found = {"rate": truth.rate, "limit": truth.privacy_budget, "sizes": truth.sizes, "budget": money}
    return {"family": jnp.asarray(truth.family)} | {name: jnp.asarray(x, jnp.float32) for name, x in found.items()}


def start(settings: Settings, seed: int) -> Tree:
    """State before the first iteration: weights, optimiser, multipliers, misreports, number of iterations."""
    seed = check_count(seed, "seed", 0)
    net = settings.network
    weights = init(net, jax.random.key(seed))
    shape = settings.batches, settings.profiles, net.owners, net.levels + 2
    misreports = np.random.default_rng([seed, 2]).uniform(0, 1, shape)
    misreports[..., :-2] = 2 * misreports[..., :-2] - 1
    return {
        "weights": weights,
        "optimiser": descent_of(settings).init(weights),
        "multipliers": {name: jnp.ones(net.owners) for name in VIOLATIONS},
        "misreports": jnp.asarray(misreports, jnp.float32),
        "iteration": jnp.zeros((), jnp.int32),
    }


def reports(values: Any, market: Tree, misreports: Any) -> Reports:
    """What misreports (..., n, M + 2) make of the truth; `values` are the true ones."""
    told = jax.lax.cummax(values * jnp.exp(misreports[..., :-2]), axis=values.ndim - 1)
    limits, sizes = market["limit"] * jnp.exp(-misreports[..., -2]), market["sizes"] * jnp.exp(-misreports[..., -1])
    return Reports(told, limits, sizes)


def allowed(misreports: Any, sizes: Any) -> Any:
    """The nearest misreports within reach: privacy budget and size are never exaggerated."""
    down = jnp.clip(misreports[..., -2:], 0, jnp.stack([jnp.full(sizes.shape, REACH), jnp.log(sizes)], -1))
    return jnp.concatenate([jnp.clip(misreports[..., :-2], -REACH, REACH), down], -1)


def lying_utilities(network: Network, weights: Tree, market: Tree, misreports: Any) -> Any:
    """Utility (..., n) of each owner who alone misreports, with the allocation of training; truth for zeros."""
    family, rate, limit, sizes = (market[name] for name in ("family", "rate", "limit", "sizes"))
    truth = Reports(sub_bid_values(family, rate, limit, network.levels), limit, sizes)
    lies = reports(truth.values, market, misreports)
    probabilities, payments = forward_alone(network, weights, truth, lies, market["budget"])
    values = sub_bid_values(family, rate, lies.privacy_budget, network.levels)
    return payments - expected_value(smooth_allocation(network, probabilities), values, lies.sizes)


def search(settings: Settings, weights: Tree, market: Tree, misreports: Any) -> Any:
    """Misreports after `J` steps of ascent in the utility of a record, in `K` markets.

    Normalised, all steps are of one length: `ascent` in the root mean square of the coordinates.
    """

    def climb(alone: tuple[Tree, Any]) -> Any:
        market, lies = alone

        def total(lies: Any) -> Any:
            gains = lying_utilities(settings.network, weights, market, lies)
            return (gains / market["sizes"]).sum()

        def step(lies: Any, _: None) -> tuple[Any, None]:
            slope = jax.grad(total)(lies)
            norm = jnp.sqrt((slope**2).mean(-1, keepdims=True)) + 1e-12
            length = norm if settings.normalised else 1.0
            return allowed(lies + settings.ascent * slope / length, market["sizes"]), None

        return jax.lax.scan(step, allowed(lies, market["sizes"]), length=settings.search)[0]

    together = CHUNK if jax.default_backend() == "cpu" else settings.profiles
    return jax.lax.map(climb, (market, misreports), batch_size=min(together, settings.profiles))


def violations(settings: Settings, weights: Tree, market: Tree, misreports: Any) -> tuple[Any, Tree]:
    """Objective of a batch, and what breaks the constraints: for each owner the mean over the markets."""
    net, limit, sizes = settings.network, market["limit"], market["sizes"]
    values = sub_bid_values(market["family"], market["rate"], limit, net.levels)
    probabilities, payments = forward(net, weights, values, limit, sizes, market["budget"])
    outcomes = smooth_allocation(net, probabilities)
    cost = expected_value(outcomes, values, sizes)
    utility = payments - cost
    gain = lying_utilities(net, weights, market, misreports) - utility
    found = {"rgt": jax.nn.relu(gain) / cost, "irv": jax.nn.relu(-utility) / cost}
    epsilon, shares = expected_epsilon(outcomes, limit), sizes / sizes.sum(-1, keepdims=True)
    if net.kind != "DM-RegretNet":
        objective = -(shares * epsilon).mean()
    else:
        uniform = 1 / (net.levels + 1)
        found["dav"] = net.levels * uniform - ((outcomes - uniform) ** 2).sum(-1)
        opt = settings.aggregation == "opt"
        objective = (least_error(epsilon, shares) if opt else 8 * ((shares / epsilon) ** 2).sum(-1)).mean()
    return objective, {name: x.mean(0) for name, x in found.items()}


def _lagrangian(
    settings: Settings, rho: Tree, weights: Tree, multipliers: Tree, market: Tree, lies: Any
) -> tuple[Any, tuple[Any, Tree]]:
    """The augmented Lagrangian; and its objective and violations."""
    objective, found = violations(settings, weights, market, lies)
    value = settings.network.owners * objective
    for name, x in found.items():
        if name != "dav" or settings.determinism:
            value += multipliers[name] @ x + rho[name] / 2 * x.sum() ** 2
    return value, (objective, found)


@partial(jax.jit, static_argnums=0)
def run_epoch(settings: Settings, state: Tree, markets: Tree, rho: Tree) -> tuple[Tree, Tree]:
    """All batches once: the new state, and for each iteration the objective and the mean violations over the owners."""
    rule = descent_of(settings)
    down = jax.grad(partial(_lagrangian, settings, rho), has_aux=True)

    def iteration(now: Tree, batch: tuple[Tree, Any]) -> tuple[Tree, tuple[Any, Tree]]:
        market, lies = batch

        # 1. Every owner's best misreport, the others being truthful
        lies = search(settings, now["weights"], market, lies)

        # 2. One step down the augmented Lagrangian
        slopes, (objective, found) = down(now["weights"], now["multipliers"], market, lies)
        updates, optimiser = rule.update(slopes, now["optimiser"])
        weights = optax.apply_updates(now["weights"], updates)

        # 3. Every Q iterations the multipliers grow by the violations
        count = now["iteration"] + 1
        due = count % settings.every == 0
        multipliers = dict(now["multipliers"])
        for name, x in found.items():
            multipliers[name] = multipliers[name] + jnp.where(due, rho[name], 0) * x

        log = {"objective": objective} | {name: x.mean() for name, x in found.items()}
        parts = {"weights": weights, "optimiser": optimiser, "multipliers": multipliers}
        return parts | {"iteration": count}, (lies, log)

    now = {name: part for name, part in state.items() if name != "misreports"}
    now, (lies, log) = jax.lax.scan(iteration, now, (markets, state["misreports"]))
    return now | {"misreports": lies}, log


def train(settings: Settings, seed: int, state: Tree | None = None) -> Iterator[tuple[Tree, Tree]]:
    """Train epoch by epoch, or go on from a `state` that an earlier epoch with the same settings and seed gave.

    Yields
    ------
    state : dict, with ``state["weights"]``
    log : dict of arrays of shape (T,)
        By iteration: ``objective`` (error bound or negated privacy loss) and mean violations.
    """
    markets = draw_markets(settings, seed)
    state = start(settings, seed) if state is None else state
    for epoch in range(int(state["iteration"]) // settings.batches, settings.epochs):
        rho = dict.fromkeys(VIOLATIONS, 1.0 + epoch) | {"dav": 1.0}
        state, log = run_epoch(settings, state, markets, rho)
        yield state, log


def main(arguments: list[str] | None = None) -> None:
    """Command line: train, go on from a checkpoint if there is one, and store weights and provenance."""
    parser = argparse.ArgumentParser(prog="python -m hdpm_book.federated.training", description=main.__doc__)
    parser.add_argument("name", help="of the files to write, such as dm-opt-iid")
    parser.add_argument("--kind", choices=KINDS, default="DM-RegretNet")
    parser.add_argument("--levels", type=int, help="M; 8, or 1 for RegretNet")
    defaults = Settings(Network("DM-RegretNet"))
    for field in ("partition", "aggregation", "epochs", "batches", "profiles", "search"):
        value = getattr(defaults, field)
        parser.add_argument(f"--{field}", type=type(value), default=value, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=TRAINED, help="for the results and the checkpoint")
    given = vars(parser.parse_args(arguments))
    name, kind, levels, seed, folder = (given.pop(key) for key in ("name", "kind", "levels", "seed", "folder"))
    settings = Settings(Network(kind, levels=levels or (1 if kind == "RegretNet" else 8)), **given)
    train_and_store(
        folder,
        name,
        {"settings": asdict(settings), "seed": seed},
        start(settings, seed),
        partial(train, settings, seed),
        lambda log: {key: round(float(values.mean()), 6) for key, values in log.items()},
        lambda path, weights: save(path, settings.network, weights),
        settings.epochs,
    )


if __name__ == "__main__":
    main()
