"""Training of the menus, by the cells of the page: soft choices in JAX harden to those in NumPy,
gradients, and what the recorded run stores.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hdpm_book.federated import menus_training
from hdpm_book.federated.partition import budget_of, draw_bids, draw_sizes
from hdpm_book.records import page_functions
from hdpm_lib.auctions.bids import Bids, bids
from hdpm_lib.auctions.menus import SHAPES, menus
from tests.support import SEED, generator, random_weights

Array = np.ndarray
LOOKS_AT = ["book/federated/menus.md"]
PAGE = page_functions("federated/menus", *menus_training.CELLS)


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
    soft = jax.jit(PAGE["soft_losses"])
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
    return jax.value_and_grad(PAGE["loss"])(weights, tree, 0.05)


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
    drawn = generator(466).random((400, 2))
    shares = jnp.asarray(-np.sort(-drawn / drawn.sum(-1, keepdims=True)))
    draw = jax.jit(PAGE["draw_markets"], static_argnums=1)
    market = draw(shares, 40_000, jax.random.key(SEED))
    assert np.bincount(market["family"].ravel()).min() > 19_000 and market["family"].max() == 3
    found = {"rate": market["rate"], "limit": market["limit"], "factor": np.log(market["factor"])}
    ends = {
        "rate": (0.5, 1.5, 1e-3),
        "limit": (0.5, 2.0, 1e-3),
        "factor": (np.log(0.05), np.log(2.2), 1e-2),
    }
    for name, (low, high, gap) in ends.items():
        assert (
            low - 1e-6 <= found[name].min() < low + gap
            and high - gap < found[name].max() <= high + 1e-6
        )
    assert np.unique(market["share"][:, 0]).size > 300


def test_the_recorded_run_stores_what_it_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two owners, 200 steps; the loss falls."""
    short = {"partition": "IID", "owners": 2, "steps": 200, "batch": 24, "pool": 400}
    monkeypatch.setattr(menus_training, "SETTINGS", short)
    menus_training.main(tmp_path)
    weights, losses = PAGE["train"](**short, seed=0)
    assert np.isfinite(losses).all() and losses[-50:].mean() < losses[:50].mean()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["menus.json", "menus.npz"]
    with np.load(tmp_path / "menus.npz") as file:
        assert all(np.array_equal(file[name], weights[name]) for name in SHAPES)
    about = json.loads((tmp_path / "menus.json").read_text("utf8"))
    assert about["settings"] == short | {"log": 100} and about["seed"] == 0
    assert np.allclose(about["log"], [losses[:100].mean(), losses[100:].mean()], atol=1e-5)
