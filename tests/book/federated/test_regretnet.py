"""The auction networks: the oracle computes them owner by owner and layer by layer, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
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
    forward_alone,
    init,
    load_trained,
    run,
    save,
    smooth_allocation,
    sub_bid_values,
)
from hdpm_book.federated.reports import Reports, alone, parts
from hdpm_lib.auctions.bids import Bids, bids
from hdpm_lib.validation import FALSE_ALARM
from tests.support import by_hand, generator, some_weights, z_limit

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


def test_one_liar_is_one_auction_each() -> None:
    rng, network = generator(914), SMALL["M-RegretNet"]
    truth, budget = some_markets(network, rng, 20)
    with jax.enable_x64(True):
        weights = {name: jnp.asarray(w, float) for name, w in some_weights(network, rng).items()}
        true = sub_bid_values(truth.family, truth.rate, truth.privacy_budget, network.levels)
        told = Reports(true, truth.privacy_budget, 1.0 * truth.sizes)
        lies = Reports(*(x * rng.uniform(0.2, 3, x.shape[:2] + (1,) * (x.ndim - 2)) for x in told))
        expected = jax.jit(partial(alone, partial(forward, network)))(weights, parts(truth), lies, jnp.asarray(budget))
        for a, b in zip(jax.jit(partial(forward_alone, network))(weights, told, lies, budget), expected, strict=True):
            assert float(jnp.abs(a - b).max() / b.max()) < 1e-12


def test_values_of_sub_bids() -> None:
    rng = generator(902)
    truth = draw_bids(rng.integers(10, 100, (6, 5)), rng)
    family, rate, limit = truth.family, truth.rate, truth.privacy_budget
    values = sub_bid_values(family, rate, limit, 3)
    for m in (1, 2, 3):
        np.testing.assert_allclose(values[..., m - 1], truth.valuation(m * limit / 3) / truth.sizes, rtol=1e-14)
    for given in ((jnp.asarray(family), rate, limit), (family, rate, jnp.asarray(limit))):  # one of JAX's decides
        found = sub_bid_values(*given, 3)
        assert isinstance(found, jax.Array)
        np.testing.assert_allclose(found, values, rtol=1e-5)


def test_allocations() -> None:
    """Equation 3 takes the first largest probability, and its stand-in is a softmax of the probabilities."""
    z = generator(905).dirichlet(np.ones(5), (40, 3))
    z[0, 0], z[0, 1] = [0.1, 0.4, 0.4, 0.1, 0.0], 0.2  # ties
    for tau in (1.0, 0.125, 0.01):
        network = replace(SMALL["DM-RegretNet"], temperature=tau)
        with jax.enable_x64(True):
            hard, soft = (np.asarray(rule(network, jnp.asarray(z))) for rule in (allocation, smooth_allocation))
        for row, found in zip(z.reshape(-1, 5), hard.reshape(-1, 5), strict=True):
            assert found.tolist() == np.eye(5)[max(range(5), key=lambda m, row=row: (row[m], -m))].tolist()
        np.testing.assert_allclose(soft, special.softmax(z / tau, axis=-1), rtol=1e-9)
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


def test_gradients_are_finite() -> None:
    rng, network = generator(910), SMALL["DM-RegretNet"]
    weights = {name: jnp.asarray(w, jnp.float32) for name, w in some_weights(network, rng, 0.1).items()}
    truth, budget = some_markets(network, rng, 8)
    values = sub_bid_values(truth.family, truth.rate, truth.privacy_budget, network.levels)

    def total(values: Any, limits: Any, sizes: Any) -> Any:
        probabilities, payments = forward(network, weights, values, limits, sizes, jnp.asarray(budget))
        return smooth_allocation(network, probabilities)[..., 1:].sum() + payments.sum()

    slopes = jax.jit(jax.grad(total, argnums=(0, 1, 2)))(values * 0, truth.privacy_budget, truth.sizes)
    assert all(np.isfinite(slope).all() and np.abs(slope).max() > 0 for slope in slopes)


def test_weights_before_training() -> None:
    network = SMALL["DM-RegretNet"]
    weights, others = (init(network, jax.random.key(seed)) for seed in (0, 1))
    assert {name: w.shape for name, w in weights.items()} == network.shapes
    assert sum(w.size for w in weights.values()) == 2 * (19 * 7 + 7 + 7 * 5 + 5) + 6 * (15 + 4)
    for name, w in weights.items():
        assert (np.abs(w).max() <= math.sqrt(6 / sum(w.shape))) if w.ndim == 2 else not w.any()
        assert w.ndim == 1 or (w != others[name]).mean() > 0.99


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
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    whole = (tmp_path / "one.npz").read_bytes()
    start = whole.index(b"allocation.0.slope.npy") + 60
    files = {"short": whole[: len(whole) // 2], "empty": b"", "text": b"weights"}
    files |= {
        "flipped": whole[:start] + bytes(20) + whole[start + 20 :],
        "other": (tmp_path / "other.npz").read_bytes(),
    }
    for name, damaged in files.items():
        (tmp_path / f"{name}.npz").write_bytes(damaged)
        with pytest.raises(ValueError, match=f"{name}.npz is damaged or holds no network"):
            load_trained(name, tmp_path)


def test_trained_networks() -> None:
    files = sorted(path for path in TRAINED.glob("*.npz") if path.stem != "menus")
    assert {"dm-opt-iid", "dm-conv-iid", "m-iid", "regretnet-iid"} <= {path.stem for path in files}
    assert sum(path.stat().st_size for path in TRAINED.glob("*.npz")) < 820_000
    for path in files:
        network, weights = load_trained(path.stem)
        truth, budget = some_markets(network, generator(911), 50)
        outcome = run(network, weights, truth, budget)
        assert (outcome.payments.sum(-1) <= budget).all() and (outcome.privacy_loss <= truth.privacy_budget).all()
        assert path.with_suffix(".json").is_file()


GOOD = bids("linear", [1.0, 1.0, 1.0], 1.0, 10)


def hold(market: Bids, weights: dict[str, Any] = WEIGHTS) -> Any:
    return run(SMALL["DM-RegretNet"], weights, market, 1.0)


def store(weights: dict[str, Any]) -> None:
    save(Path("/nowhere"), SMALL["DM-RegretNet"], weights)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Network("RegretNet"), "levels must be 1 for RegretNet, got 8"),
        (lambda: Network("M-RegretNet", hidden=(100, 0)), "hidden must be a positive integer, got 0"),
        (lambda: Network("M-RegretNet", hidden=()), r"hidden must name at least one layer, got \(\)"),
        (lambda: hold(bids("linear", [1.0] * 4, 1.0, 10)), "bids are of 4 owners, and the network is for 3"),
        (lambda: hold(replace(GOOD, rate=np.array([1.0, math.nan, 1.0]))), "bids or weights .* not a number"),
        (lambda: hold(replace(GOOD, rate=np.array([1.0, -1.0, 1.0]))), "bids or weights .* not a number"),
        (lambda: hold(GOOD, {}), "weights lack 'allocation.0.slope' of a DM-RegretNet with 4 levels"),
        (lambda: store({}), "weights lack 'allocation.0.slope'"),
        (lambda: store(WEIGHTS | {"payment.1.offset": np.ones(2)}), r"must have shape \(5,\), got \(2,\)"),
        (lambda: store(WEIGHTS | {"payment.1.offset": np.full(5, np.nan)}), "'payment.1.offset'. must be finite"),
    ],
)
def test_bad_input_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
