"""Training of the menus: soft choices in JAX harden to those in NumPy, gradients, runs that go
on.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hdpm_book.federated import menus_training
from hdpm_book.federated.partition import budget_of, draw_bids, draw_sizes
from hdpm_lib.auctions.bids import Bids, bids
from hdpm_lib.auctions.menus import SHAPES, menus
from tests.support import SEED, generator, random_weights

Array = np.ndarray
SHORT = menus_training.Settings(owners=2, steps=200, batch=24, pool=400)
ARGUMENTS = [
    "--owners",
    "2",
    "--steps",
    "200",
    "--batch",
    "24",
    "--pool",
    "400",
    "--seed",
    str(SEED),
]


def some_markets(
    rng: np.random.Generator, count: int, factor: float, linear: bool = False
) -> tuple[Bids, Array, dict[str, Any]]:
    """Markets and money; and the same for JAX, owners from the largest to the smallest."""
    truth = draw_bids(draw_sizes("IID", count, rng), rng)
    if linear:
        truth = bids("linear", truth.rate, truth.privacy_budget, truth.sizes)
    budget = budget_of(truth, factor)
    order = np.argsort(-truth.sizes, kind="stable")
    tree = {
        "share": truth.shares,
        "family": truth.family,
        "rate": truth.rate,
        "limit": truth.privacy_budget,
    }
    tree = {name: np.take_along_axis(x, order, -1) for name, x in tree.items()}
    return (
        truth,
        budget,
        tree | {"money": budget / truth.sizes.sum(-1), "factor": np.full(count, factor)},
    )


@pytest.mark.parametrize("linear", [True, False])
def test_soft_choices_harden(linear: bool) -> None:
    """To the exact ones where costs are linear, so that a knot or the privacy budget is best; else
    nearly.
    """
    rng = generator(462)
    truth, budget, tree = some_markets(rng, 12, 0.1, linear)
    # many sell
    weights = random_weights(rng, 0.1)
    soft = jax.jit(menus_training.soft_epsilon)
    with jax.enable_x64(True):
        w = {name: jnp.asarray(array) for name, array in weights.items()}
        cold, warm = (np.asarray(soft(w, tree, t)) for t in (1e-9, 0.1))
    order = np.argsort(-truth.sizes, kind="stable")
    exact = np.take_along_axis(menus(truth, budget, weights).privacy_loss, order, -1)
    assert (exact > 0).mean() > 0.2
    assert np.abs(exact - cold).max() < 1e-6 if linear else np.abs(exact - cold).mean() < 0.1
    assert np.abs(warm - cold).max() > 0.01  # a soft choice is another one


@jax.jit
def slope(weights: Any, tree: Any) -> Any:
    return jax.value_and_grad(menus_training.loss)(weights, tree, 0.05)


def test_loss_and_gradient_are_finite_where_next_to_nothing_is_sold() -> None:
    rng = generator(464)
    weights = random_weights(rng)
    values = []
    for factor in (1e-9, 1e-3, 1.0):
        _, _, tree = some_markets(rng, 8, factor)
        with jax.enable_x64(True):
            value, gradient = slope(weights, tree | {"factor": np.ones(8)})
        assert all(np.isfinite(g).all() for g in gradient.values())
        values.append(float(value))
    assert 1000 > values[0] > values[1] > values[2] > 0


def test_markets_follow_the_laws() -> None:
    shares = menus_training.draw_shares(SHORT, SEED)
    assert (
        shares.shape == (400, 2)
        and (np.diff(shares) <= 0).all()
        and np.allclose(shares.sum(-1), 1, atol=1e-5)
    )
    market = jax.jit(menus_training.draw_markets, static_argnums=0)(
        menus_training.Settings(batch=40_000), shares, jax.random.key(SEED)
    )
    assert np.bincount(market["family"].ravel()).min() > 19_000 and market["family"].max() == 3
    found = {"rate": market["rate"], "limit": market["limit"], "factor": np.log(market["factor"])}
    ends = {
        "rate": (0.5, 1.5, 1e-3),
        "limit": (0.5, 2.0, 1e-3),
        "factor": (*np.log(menus_training.FACTORS), 1e-2),
    }
    for name, (low, high, gap) in ends.items():
        assert (
            low - 1e-6 <= found[name].min() < low + gap
            and high - gap < found[name].max() <= high + 1e-6
        )
    assert np.unique(market["share"][:, 0]).size > 300


def test_a_run_that_goes_on_ends_as_one_without_a_stop(tmp_path: Path) -> None:
    (first, early), (last, late) = menus_training.train(SHORT, SEED)
    assert (int(first["step"]), int(last["step"])) == (100, 200)
    ((again, losses),) = menus_training.train(SHORT, SEED, first)
    assert jax.tree.all(jax.tree.map(np.array_equal, (again, losses), (last, late)))
    market = menus_training.draw_markets(
        replace(SHORT, batch=400), menus_training.draw_shares(SHORT, SEED), jax.random.key(SEED)
    )
    ends = (menus_training.start(SHORT, SEED)["weights"], last["weights"])
    before, after = map(jax.jit(lambda weights: menus_training.loss(weights, market, 0.05)), ends)
    assert np.isfinite([early, late]).all() and after < before
    menus_training.main([*ARGUMENTS, "--folder", str(tmp_path)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["menus.json", "menus.npz"]
    with np.load(tmp_path / "menus.npz") as file:
        assert all(np.array_equal(file[name], last["weights"][name]) for name in SHAPES)
    about = json.loads((tmp_path / "menus.json").read_text("utf8"))
    assert about["seed"] == SEED and about["settings"]["batch"] == 24
    assert np.allclose(about["log"], [early.mean(), late.mean()], atol=1e-5)
    with pytest.raises(ValueError, match="steps must be a multiple of log = 100, got 150"):
        replace(SHORT, steps=150)
