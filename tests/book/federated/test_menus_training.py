"""Training of the menus: NumPy and JAX draw the same schedules, soft choices harden, gradients, interruptions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hdpm_book.federated import checkpoints
from hdpm_book.federated.menus_training import (
    FACTORS,
    Settings,
    draw_markets,
    draw_shares,
    loss,
    main,
    run_steps,
    soft_epsilon,
    start,
    train,
    valuation,
)
from hdpm_book.federated.partition import budget_of, draw_bids, draw_sizes
from hdpm_lib.auctions.bids import Bids, unit_valuation
from hdpm_lib.auctions.menus import KNOTS, SHAPES, increments, menus, nothing_sold, public, record_sale
from tests.support import SEED, generator, random_weights

Array = np.ndarray
SHORT = Settings(owners=4, steps=200, batch=24, pool=400)
ARGUMENTS = ["--owners", "4", "--steps", "200", "--batch", "24", "--pool", "400", "--seed", str(SEED)]


def as_tree(market: Bids, budget: Array, factor: Any) -> dict[str, Any]:
    """The same markets for JAX, owners from the largest to the smallest."""
    order = np.argsort(-market.sizes, kind="stable")
    share, family, rate, limit = (
        np.take_along_axis(x, order, -1) for x in (market.shares, market.family, market.rate, market.privacy_budget)
    )
    tree = {"share": share, "family": family, "rate": rate, "limit": limit}
    return tree | {"money": budget / market.sizes.sum(-1), "factor": np.broadcast_to(factor, budget.shape)}


# --- NumPy and JAX ----------------------------------------------------------------------------------------------------


def third_schedule(weights: Any, shares: Any, money: Any, sales: Any, xp: Any) -> Any:
    """What is offered in the third turn after two sales, over the money left."""
    turns, sold = public(weights, shares, xp), nothing_sold(money, xp)
    for k in range(2):
        sold = record_sale(sold, turns.share[..., k], sales[k])
    turn = turns._make(part[..., 2] for part in turns)
    return increments(weights, turn, money, sold, xp) / money[..., None]


@pytest.mark.parametrize(("wide", "tolerance"), [(True, 1e-12), (False, 1e-3)])
def test_both_draw_the_same_schedules(wide: bool, tolerance: float) -> None:
    rng = generator(460)
    shares = -np.sort(-rng.dirichlet(np.full(6, 0.5), 40), -1) + 1e-4
    given = random_weights(rng), shares, np.exp(rng.uniform(-5, 3, 40)), rng.uniform(0, 2, (2, 40))
    with jax.enable_x64(wide):
        cast = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64 if wide else jnp.float32), given)
        ours = np.asarray(jax.jit(lambda *parts: third_schedule(*parts, jnp))(*cast))
    assert np.abs(ours - third_schedule(*given, np)).max() < tolerance


def test_valuations_are_those_of_the_bids() -> None:
    rng = generator(461)
    truth = draw_bids(draw_sizes("IID", 30, rng), rng)
    tree = as_tree(truth, budget_of(truth, 1.0), 1.0)
    epsilon = rng.uniform(0, 2, truth.rate.shape)
    expected = tree["share"] * unit_valuation(tree["family"], tree["rate"], epsilon)
    with jax.enable_x64(True):
        assert np.allclose(valuation(tree, jnp.asarray(epsilon)), expected, rtol=1e-12)


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
    truth = draw_bids(draw_sizes("IID", 12, rng), rng)
    budget = budget_of(truth, 0.5)
    tree, weights = as_tree(truth, budget, 0.5), random_weights(rng)
    soft = jax.jit(soft_epsilon)
    with jax.enable_x64(True):
        w = {name: jnp.asarray(array) for name, array in weights.items()}
        cold, warm = (np.asarray(soft(w, tree, t)) for t in (1e-9, 0.1))
    assert np.allclose(cold, by_levels(weights, tree), atol=1e-6)
    assert np.abs(warm - cold).max() > 0.01  # a soft choice is another one
    order = np.argsort(-truth.sizes, kind="stable")
    exact = np.take_along_axis(menus(truth, budget, weights).privacy_loss, order, -1)
    assert np.abs(exact - cold).mean() < 0.1  # and levels are nearly enough


# --- the loss ---------------------------------------------------------------------------------------------------------


def some_markets(rng: np.random.Generator, factor: float) -> dict[str, Any]:
    truth = draw_bids(draw_sizes("IID", 8, rng), rng)
    return as_tree(truth, budget_of(truth, factor), factor)


@jax.jit
def slope(weights: Any, tree: Any) -> Any:
    return jax.value_and_grad(loss)(weights, tree, 0.05)


def test_gradient_is_that_of_differences() -> None:
    rng = generator(463)
    tree, weights = some_markets(rng, 0.5), random_weights(rng)
    direction, h = {name: rng.standard_normal(array.shape) for name, array in weights.items()}, 1e-7
    with jax.enable_x64(True):
        ends = [slope({name: w + t * direction[name] for name, w in weights.items()}, tree)[0] for t in (-h, h)]
        gradient = slope(weights, tree)[1]
    exact, numeric = (
        sum((np.asarray(gradient[name]) * direction[name]).sum() for name in SHAPES),
        float(ends[1] - ends[0]) / (2 * h),
    )
    assert abs(exact) > 1e-4 and np.isclose(exact, numeric, rtol=1e-4, atol=1e-5)


def test_loss_and_gradient_are_finite_where_next_to_nothing_is_sold() -> None:
    rng = generator(464)
    weights, values = random_weights(rng), []
    for factor in (1e-9, 1e-3, 1.0):
        tree = some_markets(rng, factor) | {"factor": np.ones(8)}
        with jax.enable_x64(True):
            value, gradient = slope(weights, tree)
        assert all(np.isfinite(g).all() for g in gradient.values())
        values.append(float(value))
    assert 1000 > values[0] > values[1] > values[2] > 0


def test_markets_follow_the_laws() -> None:
    shares = draw_shares(SHORT, SEED)
    assert shares.shape == (400, 4) and (np.diff(shares) <= 0).all() and np.allclose(shares.sum(-1), 1, atol=1e-5)
    market = jax.jit(draw_markets, static_argnums=0)(Settings(batch=20_000), shares, jax.random.key(SEED))
    assert np.bincount(market["family"].ravel()).min() > 19_000 and market["family"].max() == 3
    for name, (low, high) in {"rate": (0.5, 1.5), "limit": (0.5, 2.0)}.items():
        assert low <= market[name].min() < low + 1e-3 and high - 1e-3 < market[name].max() <= high
    logs = np.log(market["factor"])
    assert np.isclose(logs.min(), np.log(FACTORS[0]), atol=1e-2) and np.isclose(
        logs.max(), np.log(FACTORS[1]), atol=1e-2
    )
    assert np.unique(market["share"][:, 0]).size > 300


# --- training ---------------------------------------------------------------------------------------------------------


def test_an_interrupted_run_ends_as_one_that_was_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(train(SHORT, SEED))
    assert [int(state["step"]) for state, _ in whole] == [100, 200]

    class Interrupted(checkpoints.tqdm):
        def update(self, n: float = 1) -> None:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(checkpoints, "tqdm", Interrupted)
        main([*ARGUMENTS, "--folder", str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == ["menus.checkpoint"]
    with pytest.raises(ValueError, match="is of other settings"):
        main([*ARGUMENTS, "--seed", str(SEED + 1), "--folder", str(tmp_path)])

    main([*ARGUMENTS, "--folder", str(tmp_path)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["menus.json", "menus.npz"]
    with np.load(tmp_path / "menus.npz") as file:
        assert all(np.array_equal(file[name], whole[-1][0]["weights"][name]) for name in SHAPES)
    about = json.loads((tmp_path / "menus.json").read_text("utf8"))
    assert about["seed"] == SEED and about["settings"]["batch"] == 24 and about["seconds"] > 0
    assert np.allclose(about["log"], [losses.mean() for _, losses in whole], atol=1e-5)

    # the comparison can fail: a resumed run that has forgotten the state of the optimiser ends elsewhere
    forgot = whole[0][0] | {"optimiser": start(SHORT, SEED)["optimiser"]}
    other = run_steps(SHORT, forgot, draw_shares(SHORT, SEED), SEED)[0]["weights"]
    assert not np.array_equal(other["last"], whole[-1][0]["weights"]["last"])


def test_training_lowers_the_loss() -> None:
    (_, first), (_, second) = train(SHORT, SEED)
    assert np.isfinite(first).all() and second.mean() < first[:20].mean()


def test_steps_come_in_whole_rounds() -> None:
    with pytest.raises(ValueError, match="steps must be a multiple of log = 100, got 150"):
        Settings(steps=150)
