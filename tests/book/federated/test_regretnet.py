"""The auction networks: the oracle computes them owner by owner and layer by layer, in NumPy."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from hdpm_book.federated.partition import draw_bids
from hdpm_book.federated.regretnet import (
    KINDS,
    TRAINED,
    Network,
    allocation,
    forward,
    load_trained,
    run,
    save,
    smooth_allocation,
    sub_bid_values,
)
from hdpm_lib.auctions.bids import Bids, bids
from hdpm_lib.validation import FALSE_ALARM
from tests.support import by_hand, generator, refusals, some_weights, z_limit

SMALL = {kind: Network(kind, owners=3, levels=1 if kind == "RegretNet" else 4, hidden=(7, 5)) for kind in KINDS}
WEIGHTS = some_weights(SMALL["DM-RegretNet"], generator(913))
FORWARD = jax.jit(forward, static_argnums=0)
Array = np.ndarray


def some_markets(network: Network, rng: np.random.Generator, count: int) -> tuple[Bids, Array]:
    truth = draw_bids(rng.integers(10, 2000, (count, network.owners)), rng)
    return truth, truth.full_valuation.sum(-1) * rng.uniform(0.05, 3, count)


def played(network: Network, weights: Any, truth: Bids, budget: Array) -> tuple[Array, Array]:
    values = sub_bid_values(truth.family, truth.rate, truth.privacy_budget, network.levels)
    with jax.enable_x64(True):
        found = FORWARD(network, weights, values, truth.privacy_budget, truth.sizes, budget)
        return np.asarray(found[0]), np.asarray(found[1])


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("kind", KINDS)
def test_forward_is_the_two_networks_and_stays_within_the_budget(kind: str, scale: float) -> None:
    rng, network = generator(900, int(10 * scale)), SMALL[kind]
    weights = some_weights(network, rng, scale)
    truth, budget = some_markets(network, rng, 200)
    probabilities, payments = played(network, weights, truth, budget)
    for k in range(12):
        expected = by_hand(network, weights, truth[k], budget[k])
        np.testing.assert_allclose(probabilities[k], expected[0], rtol=1e-9)
        np.testing.assert_allclose(payments[k], expected[1], rtol=1e-9)
    assert (payments.sum(-1) <= budget * (1 + 1e-12)).all()
    assert (payments >= 0).all() and (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(-1), 1, rtol=1e-12)
    outcome = run(network, weights, truth, budget)
    np.testing.assert_allclose(outcome.payments, payments, rtol=1e-12)
    level = np.arange(network.levels + 1) / network.levels
    sold = level[probabilities.argmax(-1)] if kind == "DM-RegretNet" else probabilities @ level
    np.testing.assert_allclose(outcome.privacy_loss, sold * truth.privacy_budget, rtol=1e-12)
    single = run(network, weights, truth[3], budget[3])
    np.testing.assert_allclose(single.privacy_loss, outcome.privacy_loss[3], rtol=1e-12)


def test_allocations() -> None:
    """Equation 3 takes the first largest probability, and its stand-in is a softmax of the probabilities."""
    z = generator(905).dirichlet(np.ones(5), (40, 3))
    z[0, 0], z[0, 1] = [0.1, 0.4, 0.4, 0.1, 0.0], 0.2  # ties
    network = replace(SMALL["DM-RegretNet"], temperature=0.01)
    with jax.enable_x64(True):
        hard, soft = (np.asarray(rule(network, jnp.asarray(z))) for rule in (allocation, smooth_allocation))
    np.testing.assert_array_equal(hard, np.eye(5)[z.argmax(-1)])
    np.testing.assert_allclose(soft, special.softmax(z / 0.01, axis=-1), rtol=1e-9)
    for rule in (allocation, smooth_allocation):
        assert rule(SMALL["M-RegretNet"], z) is z


def test_outcomes_are_drawn_with_their_probabilities() -> None:
    rng, count = generator(909), 20_000
    network = SMALL["M-RegretNet"]
    weights = {name: w / 3 for name, w in some_weights(network, rng).items()}
    truth, budget = some_markets(network, rng, 1)
    (probabilities,), _ = played(network, weights, truth, budget)
    many = Bids(*(np.repeat(part, count, 0) for part in vars(truth).values()))
    level = run(network, weights, many, np.repeat(budget, count), rng).privacy_loss / many.privacy_budget * 4
    np.testing.assert_allclose(level, np.rint(level), atol=1e-9)
    for own, chances in zip(np.rint(level).astype(int).T, probabilities, strict=True):
        assert stats.chisquare(np.bincount(own, minlength=5), chances * count).pvalue > FALSE_ALARM / 3
    together = np.corrcoef(level.T)[np.triu_indices(3, 1)] * math.sqrt(count)
    assert np.abs(together).max() < z_limit(3)  # owners are drawn apart
    again, never = (run(SMALL["DM-RegretNet"], weights, truth, budget, draws).privacy_loss for draws in (rng, None))
    assert (again == never).all()


@pytest.mark.parametrize("kind", KINDS)
def test_weights_come_back(kind: str, tmp_path: Path) -> None:
    weights = some_weights(SMALL[kind], generator(912))
    save(tmp_path / "one.npz", SMALL[kind], weights)
    network, read = load_trained("one", tmp_path)
    assert network == SMALL[kind]
    for name, array in weights.items():
        assert (read[name] == np.asarray(array).astype(np.float16)).all() and read[name].dtype == np.float32


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    save(tmp_path / "one.npz", SMALL["DM-RegretNet"], WEIGHTS)
    with pytest.raises(FileNotFoundError, match=r"no trained network 'two' in .*, only \['one'\]"):
        load_trained("two", tmp_path)
    whole = (tmp_path / "one.npz").read_bytes()
    start = whole.index(b"allocation.0.slope.npy") + 60
    (tmp_path / "short.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "flipped.npz").write_bytes(whole[:start] + bytes(20) + whole[start + 20 :])
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    for name in ("short", "flipped", "other"):
        with pytest.raises(ValueError, match=f"{name}.npz is damaged or holds no network"):
            load_trained(name, tmp_path)


def test_trained_networks_are_whole_and_small() -> None:
    files = [path for path in TRAINED.glob("*.npz") if path.stem != "menus"]
    assert len(files) >= 8 and sum(path.stat().st_size for path in TRAINED.glob("*.npz")) < 820_000
    for path in files:
        load_trained(path.stem)
        assert path.with_suffix(".json").is_file()


GOOD = bids("linear", [1.0, 1.0, 1.0], 1.0, 10)


def hold(market: Bids, weights: dict[str, Any] = WEIGHTS) -> Any:
    return run(SMALL["DM-RegretNet"], weights, market, 1.0)


def store(weights: dict[str, Any]) -> None:
    save(Path("/nowhere"), SMALL["DM-RegretNet"], weights)


test_bad_input_is_named = refusals(
    (lambda: Network("RegretNet"), "levels must be 1 for RegretNet, got 8"),
    (lambda: Network("M-RegretNet", hidden=(100, 0)), "hidden must be a positive integer, got 0"),
    (lambda: Network("M-RegretNet", hidden=()), r"hidden must name at least one layer, got \(\)"),
    (lambda: hold(bids("linear", [1.0] * 4, 1.0, 10)), "bids are of 4 owners, and the network is for 3"),
    (lambda: hold(replace(GOOD, rate=np.array([1.0, math.nan, 1.0]))), "bids or weights .* not a number"),
    (lambda: hold(GOOD, {}), "weights lack 'allocation.0.slope' of a DM-RegretNet with 4 levels"),
    (lambda: store(WEIGHTS | {"payment.1.offset": np.ones(2)}), r"must have shape \(5,\), got \(2,\)"),
    (lambda: store(WEIGHTS | {"payment.1.offset": np.full(5, np.nan)}), "'payment.1.offset'. must be finite"),
)
