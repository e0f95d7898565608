"""Training of the menus: soft choices in JAX harden to those in NumPy, gradients, interruptions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hdpm_book.federated import checkpoints, menus_training
from hdpm_book.federated.partition import budget_of, draw_bids, draw_sizes
from hdpm_lib.auctions.bids import Bids, unit_valuation
from hdpm_lib.auctions.menus import KNOTS, SHAPES, increments, menus, nothing_sold, public, record_sale
from tests.support import SEED, generator, random_weights

Array = np.ndarray
SHORT = menus_training.Settings(owners=2, steps=200, batch=24, pool=400)
ARGUMENTS = ["--owners", "2", "--steps", "200", "--batch", "24", "--pool", "400", "--seed", str(SEED)]


def some_markets(rng: np.random.Generator, count: int, factor: float) -> tuple[Bids, Array, dict[str, Any]]:
    """Markets and money; and the same for JAX, owners from the largest to the smallest."""
    truth = draw_bids(draw_sizes("IID", count, rng), rng)
    budget, order = budget_of(truth, factor), np.argsort(-truth.sizes, kind="stable")
    tree = {"share": truth.shares, "family": truth.family, "rate": truth.rate, "limit": truth.privacy_budget}
    tree = {name: np.take_along_axis(x, order, -1) for name, x in tree.items()}
    return truth, budget, tree | {"money": budget / truth.sizes.sum(-1), "factor": np.full(count, factor)}


def by_levels(weights: Any, tree: dict[str, Any]) -> Array:
    """Owner by owner the best of the levels of the soft choice: what is sold at temperature 0."""
    levels = np.sort(np.concatenate([KNOTS[1:], (KNOTS[1:] + KNOTS[:-1]) / 2]))
    epsilon = np.zeros(tree["share"].shape)
    for k in range(len(epsilon)):
        money, sold = tree["money"][k], nothing_sold(np.zeros(()), np)
        turns = public(weights, tree["share"][k], np)
        for i in range(epsilon.shape[1]):
            turn = turns._make(part[i] for part in turns)
            prices = np.append(0, np.cumsum(increments(weights, turn, np.array(money), sold, np)))
            points = np.append(0, np.append(levels[levels <= tree["limit"][k, i]], tree["limit"][k, i]))
            paid = np.interp(points, KNOTS, prices)
            cost = tree["share"][k, i] * unit_valuation(tree["family"][k, i], tree["rate"][k, i], points)
            best = int(np.argmax(paid - cost))
            epsilon[k, i], money = points[best], money - paid[best]
            sold = record_sale(sold, turn.share, epsilon[k, i])
    return epsilon


def test_soft_choices_harden() -> None:
    rng = generator(462)
    truth, budget, tree = some_markets(rng, 12, 0.1)
    weights, soft = random_weights(rng, 0.1), jax.jit(menus_training.soft_epsilon)  # many sell
    with jax.enable_x64(True):
        w = {name: jnp.asarray(array) for name, array in weights.items()}
        cold, warm = (np.asarray(soft(w, tree, t)) for t in (1e-9, 0.1))
    assert np.allclose(cold, by_levels(weights, tree), atol=1e-6)
    assert np.abs(warm - cold).max() > 0.01  # a soft choice is another one
    order = np.argsort(-truth.sizes, kind="stable")
    exact = np.take_along_axis(menus(truth, budget, weights).privacy_loss, order, -1)
    assert np.abs(exact - cold).mean() < 0.1  # and levels are nearly enough


@jax.jit
def slope(weights: Any, tree: Any) -> Any:
    return jax.value_and_grad(menus_training.loss)(weights, tree, 0.05)


def test_gradient_is_that_of_differences() -> None:
    rng = generator(463)
    weights, (_, _, tree) = random_weights(rng), some_markets(rng, 8, 0.5)
    direction, h = {name: rng.standard_normal(array.shape) for name, array in weights.items()}, 1e-7
    with jax.enable_x64(True):
        ends = [slope({name: w + t * direction[name] for name, w in weights.items()}, tree)[0] for t in (-h, h)]
        gradient = slope(weights, tree)[1]
    exact = sum((np.asarray(gradient[name]) * direction[name]).sum() for name in SHAPES)
    assert abs(exact) > 1e-4 and np.isclose(exact, float(ends[1] - ends[0]) / (2 * h), rtol=1e-4, atol=1e-5)


def test_loss_and_gradient_are_finite_where_next_to_nothing_is_sold() -> None:
    rng = generator(464)
    weights, values = random_weights(rng), []
    for factor in (1e-9, 1e-3, 1.0):
        _, _, tree = some_markets(rng, 8, factor)
        with jax.enable_x64(True):
            value, gradient = slope(weights, tree | {"factor": np.ones(8)})
        assert all(np.isfinite(g).all() for g in gradient.values())
        values.append(float(value))
    assert 1000 > values[0] > values[1] > values[2] > 0


def test_markets_follow_the_laws() -> None:
    shares = menus_training.draw_shares(SHORT, SEED)
    assert shares.shape == (400, 2) and (np.diff(shares) <= 0).all() and np.allclose(shares.sum(-1), 1, atol=1e-5)
    market = jax.jit(menus_training.draw_markets, static_argnums=0)(
        menus_training.Settings(batch=40_000), shares, jax.random.key(SEED)
    )
    assert np.bincount(market["family"].ravel()).min() > 19_000 and market["family"].max() == 3
    found = {"rate": market["rate"], "limit": market["limit"], "factor": np.log(market["factor"])}
    ends = {"rate": (0.5, 1.5, 1e-3), "limit": (0.5, 2.0, 1e-3), "factor": (*np.log(menus_training.FACTORS), 1e-2)}
    for name, (low, high, gap) in ends.items():
        assert low - 1e-6 <= found[name].min() < low + gap and high - gap < found[name].max() <= high + 1e-6
    assert np.unique(market["share"][:, 0]).size > 300


def test_an_interrupted_run_ends_as_one_that_was_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(menus_training.train(SHORT, SEED))
    (first, early), (last, late) = whole
    assert (int(first["step"]), int(last["step"])) == (100, 200)
    with pytest.raises(ValueError, match="steps must be a multiple of log = 100, got 150"):
        replace(SHORT, steps=150)
    market = menus_training.draw_markets(
        replace(SHORT, batch=400), menus_training.draw_shares(SHORT, SEED), jax.random.key(SEED)
    )
    ends = (menus_training.start(SHORT, SEED)["weights"], last["weights"])
    before, after = map(jax.jit(lambda weights: menus_training.loss(weights, market, 0.05)), ends)
    assert np.isfinite([early, late]).all() and after < before

    class Interrupted(checkpoints.tqdm):
        def update(self, n: float = 1) -> None:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(checkpoints, "tqdm", Interrupted)
        menus_training.main([*ARGUMENTS, "--folder", str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == ["menus.checkpoint"]
    menus_training.main([*ARGUMENTS, "--folder", str(tmp_path)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["menus.json", "menus.npz"]
    with np.load(tmp_path / "menus.npz") as file:
        assert all(np.array_equal(file[name], last["weights"][name]) for name in SHAPES)
    about = json.loads((tmp_path / "menus.json").read_text("utf8"))
    assert about["seed"] == SEED and about["settings"]["batch"] == 24 and about["seconds"] > 0
    assert np.allclose(about["log"], [losses.mean() for _, losses in whole], atol=1e-5)
