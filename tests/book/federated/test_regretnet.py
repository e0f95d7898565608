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
    expected_epsilon,
    expected_value,
    features,
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


@pytest.mark.parametrize("kind", KINDS)
def test_forward_is_the_two_networks(kind: str) -> None:
    rng, network = generator(900), SMALL[kind]
    weights = some_weights(network, rng)
    truth, budget = some_markets(network, rng, 12)
    probabilities, payments = played(network, weights, truth, budget)
    for k in range(12):
        expected = by_hand(network, weights, truth[k], budget[k])
        np.testing.assert_allclose(probabilities[k], expected[0], rtol=1e-9)
        np.testing.assert_allclose(payments[k], expected[1], rtol=1e-9)
    outcome = run(network, weights, truth, budget)
    np.testing.assert_allclose(outcome.payments, payments, rtol=1e-12)
    grid = np.arange(network.levels + 1) / network.levels
    if kind == "DM-RegretNet":
        np.testing.assert_allclose(
            outcome.privacy_loss, grid[probabilities.argmax(-1)] * truth.privacy_budget, rtol=1e-15
        )
    else:
        np.testing.assert_allclose(outcome.privacy_loss, (probabilities @ grid) * truth.privacy_budget, rtol=1e-12)
    single = run(network, weights, truth[3], budget[3])
    np.testing.assert_allclose(single.privacy_loss, outcome.privacy_loss[3], rtol=1e-12)


def alone_error(network: Network, forward_of: Callable[..., Any]) -> float:
    """Largest difference from one whole auction for each owner who lies, over the largest payment."""
    rng = generator(914)
    truth, budget = some_markets(network, rng, 20)
    weights = some_weights(network, rng)
    with jax.enable_x64(True):
        true = sub_bid_values(truth.family, truth.rate, truth.privacy_budget, network.levels)
        told = Reports(true, truth.privacy_budget, 1.0 * truth.sizes)
        shape = truth.sizes.shape
        lies = Reports(*(x * rng.uniform(0.2, 3, (*shape, 1) if x.ndim == 3 else shape) for x in told))
        doubles = {name: jnp.asarray(w, float) for name, w in weights.items()}
        expected = alone(partial(forward, network), doubles, parts(truth), lies, jnp.asarray(budget))
        found = forward_of(network, doubles, told, lies, budget)
        return max(float(jnp.abs(a - b).max() / b.max()) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("kind", SMALL)
def test_one_liar_is_one_auction_each(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = SMALL[kind]
    assert alone_error(network, forward_alone) < 1e-12
    with monkeypatch.context() as patch:  # the mean size as if nobody lied
        patch.setattr(jnp, "log1p", lambda x: 0 * x)
        assert alone_error(network, forward_alone) > 1e-3


def test_scale_of_money_and_records() -> None:
    """Inputs are logarithms: another currency shifts some, and twice the records with twice the money change none."""
    network = SMALL["M-RegretNet"]
    rng = generator(901)
    truth, budget = some_markets(network, rng, 4)
    values = sub_bid_values(truth.family, truth.rate, truth.privacy_budget, network.levels)
    with jax.enable_x64(True):
        x = np.asarray(features(values, truth.privacy_budget, truth.sizes, budget))
        larger = np.asarray(features(values, truth.privacy_budget, 2 * truth.sizes, 2 * budget))
        dearer = np.asarray(features(100 * values, truth.privacy_budget, truth.sizes, 100 * budget))
    assert x.shape == (4, network.inputs)
    np.testing.assert_allclose(larger, x, atol=1e-12)
    shifted = np.tile([*[True] * network.levels, False, False], network.owners)
    np.testing.assert_allclose((dearer - x)[:, :-1][:, ~shifted], 0, atol=1e-12)
    np.testing.assert_allclose((dearer - x)[:, -1], math.log(100))
    assert np.abs((dearer - x)[:, :-1][:, shifted] - math.log(100)).max() < 1e-2  # but for what is added to a value


def test_values_of_sub_bids() -> None:
    rng = generator(902)
    truth = draw_bids(rng.integers(10, 100, (6, 5)), rng)
    values = sub_bid_values(truth.family, truth.rate, truth.privacy_budget, 3)
    for m in (1, 2, 3):
        expected = truth.valuation(m * truth.privacy_budget / 3) / truth.sizes
        np.testing.assert_allclose(values[..., m - 1], expected, rtol=1e-14)
    for given in (jnp.asarray(truth.family), truth.family):  # either of the arguments decides
        other = sub_bid_values(given, truth.rate, jnp.asarray(truth.privacy_budget), 3)
        assert isinstance(other, jax.Array)
        np.testing.assert_allclose(other, values, rtol=1e-5)


def spent(payments: Array, budget: Array) -> float:
    return float((payments.sum(-1) / budget).max())


def test_payments_stay_within_the_budget_for_any_weights() -> None:
    worst, broken = 0.0, 0.0
    for kind, network in SMALL.items():
        for scale in (0.1, 1.0, 30.0):
            rng = generator(903, KINDS.index(kind), int(10 * scale))
            weights = some_weights(network, rng, scale)
            truth, budget = some_markets(network, rng, 200)
            probabilities, payments = played(network, weights, truth, budget)
            worst = max(worst, spent(payments, budget))
            broken = max(broken, spent(payments / payments.mean(-1, keepdims=True) * budget[:, None] / 2, budget))
            assert (payments >= 0).all() and (probabilities >= 0).all()
            np.testing.assert_allclose(probabilities.sum(-1), 1, rtol=1e-12)
    assert worst <= 1 + 1e-12 < broken


def test_one_level_is_a_sigmoid() -> None:
    """RegretNet and M-RegretNet with one level are one network, and one output for each owner would do."""
    rng = generator(904)
    network = SMALL["RegretNet"]
    weights = some_weights(network, rng)
    truth, budget = some_markets(network, rng, 20)
    probabilities, payments = played(network, weights, truth, budget)
    assert probabilities.shape == (20, 3, 2)
    other = played(Network("M-RegretNet", owners=3, levels=1, hidden=(7, 5)), weights, truth, budget)
    assert (other[0] == probabilities).all() and (other[1] == payments).all()
    layer = {part: weights[f"allocation.2.{part}"] for part in ("slope", "offset")}
    single = weights | {f"allocation.2.{part}": w - np.roll(w, 1, -1) for part, w in layer.items()}
    for owner in range(3):  # the difference of her two outputs as the only one
        single["allocation.2.slope"][:, 2 * owner] = single["allocation.2.offset"][2 * owner] = 0
    found, _ = played(network, single, truth, budget)
    np.testing.assert_allclose(found, probabilities, rtol=1e-9)


def allocation_errors(rule: Callable[[Network, Any], Any], rng: np.random.Generator) -> int:
    """Owners whose outcome is not one-hot at the first largest probability."""
    network, wrong = SMALL["DM-RegretNet"], 0
    z = rng.dirichlet(np.ones(5), (40, 3))
    z[0, 0] = [0.1, 0.4, 0.4, 0.1, 0.0]  # a tie
    z[0, 1] = 0.2
    for row, found in zip(z.reshape(-1, 5), np.asarray(rule(network, jnp.asarray(z))).reshape(-1, 5), strict=True):
        largest = max(range(5), key=lambda m: (np.float32(row[m]), -m))
        wrong += not all(found[m] == (m == largest) for m in range(5))
    return wrong


def test_allocation_is_equation_3() -> None:
    assert allocation_errors(allocation, generator(905)) == 0
    winning = lambda net, z: allocation(net, z.at[..., 0].set(0))  # the zero level left out  # noqa: E731
    assert allocation_errors(winning, generator(905)) > 0
    z = jnp.asarray(generator(906).dirichlet(np.ones(5), 3))
    assert allocation(SMALL["M-RegretNet"], z) is z and smooth_allocation(SMALL["M-RegretNet"], z) is z


def test_soft_allocation() -> None:
    rng = generator(907)
    z = rng.dirichlet(np.ones(5), (500, 3))
    for tau in (1.0, 0.125, 0.01):
        network = replace(SMALL["DM-RegretNet"], temperature=tau)
        with jax.enable_x64(True):
            soft = np.asarray(smooth_allocation(network, jnp.asarray(z)))
            hard = np.asarray(allocation(network, jnp.asarray(z)))
        np.testing.assert_allclose(soft, special.softmax(z / tau, axis=-1), rtol=1e-9)
        assert soft.max() <= 1 / (1 + 4 * math.exp(-1 / tau))
        ranked = np.sort(z, axis=-1)
        gap = (ranked[..., -1] - ranked[..., -2]) / tau
        assert (np.abs(soft - hard).max(-1) <= 4 * np.exp(-gap) + 1e-12).all()


def test_means_over_outcomes() -> None:
    rng = generator(908)
    outcomes, limits = rng.dirichlet(np.ones(5), (6, 3)), rng.uniform(0.5, 2, (6, 3))
    values, sizes = rng.uniform(0, 9, (6, 3, 4)), rng.uniform(1, 99, (6, 3))
    epsilon = sum(outcomes[..., m] * m / 4 * limits for m in range(5))
    cost = sum(outcomes[..., m] * values[..., m - 1] * sizes for m in range(1, 5))
    np.testing.assert_allclose(expected_epsilon(outcomes, limits), epsilon, rtol=1e-5)
    np.testing.assert_allclose(expected_value(outcomes, values, sizes), cost, rtol=1e-5)


def draws_chi2(truth: Array, draws: Array) -> float:
    """p-value of levels (draws, n) against their probabilities (n, M + 1)."""
    expected = len(draws) * truth
    seen = np.stack([(draws == m).sum(0) for m in range(truth.shape[-1])], -1)
    return float(stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), truth.shape[0] * (truth.shape[1] - 1)))


def test_outcomes_are_drawn_with_their_probabilities() -> None:
    rng = generator(909)
    network = SMALL["M-RegretNet"]
    weights = {name: w / 3 for name, w in some_weights(network, rng).items()}
    truth, budget = some_markets(network, rng, 1)
    (probabilities,), _ = played(network, weights, truth, budget)
    many = Bids(*(np.repeat(getattr(truth, part), 20_000, 0) for part in ("family", "rate", "privacy_budget", "sizes")))
    outcome = run(network, weights, many, np.repeat(budget, 20_000), rng)
    level = outcome.privacy_loss / many.privacy_budget * network.levels
    np.testing.assert_allclose(level, np.rint(level), atol=1e-9)
    assert draws_chi2(probabilities, np.rint(level)) > FALSE_ALARM
    assert draws_chi2(probabilities[:, [1, 0, 2, 3, 4]], np.rint(level)) < FALSE_ALARM
    together = np.corrcoef(level.T)[np.triu_indices(3, 1)] * math.sqrt(20_000)
    assert np.abs(together).max() < z_limit(3)  # owners are drawn apart
    again = run(SMALL["DM-RegretNet"], weights, truth, budget, rng)
    assert (again.privacy_loss == run(SMALL["DM-RegretNet"], weights, truth, budget).privacy_loss).all()


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


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_weights_come_back(kind: str, tmp_path: Path) -> None:
    weights = some_weights(SMALL[kind], generator(912))
    save(tmp_path / "one.npz", SMALL[kind], weights)
    network, read = load_trained("one", tmp_path)
    assert network == SMALL[kind]
    for name, array in weights.items():
        assert (read[name] == np.asarray(array).astype(np.float16)).all() and read[name].dtype == np.float32


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    network = SMALL["DM-RegretNet"]
    weights = some_weights(network, generator(913))
    save(tmp_path / "one.npz", network, weights)
    with pytest.raises(FileNotFoundError, match=r"no trained network 'two' in .*, only \['one'\]"):
        load_trained("two", tmp_path)
    whole = (tmp_path / "one.npz").read_bytes()
    for name, damaged in {"short": whole[: len(whole) // 2], "empty": b"", "text": b"weights"}.items():
        (tmp_path / f"{name}.npz").write_bytes(damaged)
        with pytest.raises(ValueError, match=f"{name}.npz is damaged or holds no network"):
            load_trained(name, tmp_path)
    start = whole.index(b"allocation.0.slope.npy") + 60
    (tmp_path / "flipped.npz").write_bytes(whole[:start] + bytes(20) + whole[start + 20 :])
    with pytest.raises(ValueError, match=r"flipped.npz is damaged"):
        load_trained("flipped", tmp_path)
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    with pytest.raises(ValueError, match=r"other.npz is damaged or holds no network"):
        load_trained("other", tmp_path)
    missing = {name: w for name, w in weights.items() if name != "payment.1.offset"}
    with pytest.raises(ValueError, match=r"weights lack 'payment.1.offset' of a DM-RegretNet with 4 levels"):
        save(tmp_path / "two.npz", network, missing)
    with pytest.raises(ValueError, match=r"weights\['payment.1.offset'\] must have shape \(5,\), got \(2,\)"):
        save(tmp_path / "two.npz", network, weights | {"payment.1.offset": np.ones(2)})
    with pytest.raises(ValueError, match=r"weights\['payment.1.offset'\] must be finite"):
        save(tmp_path / "two.npz", network, weights | {"payment.1.offset": np.full(5, np.nan)})


def test_trained_networks() -> None:
    files = sorted(path for path in TRAINED.glob("*.npz") if path.stem != "menus")
    assert {"dm-opt-iid", "dm-conv-iid", "m-iid", "regretnet-iid"} <= {path.stem for path in files}
    assert sum(path.stat().st_size for path in TRAINED.glob("*.npz")) < 820_000
    for path in files:
        network, weights = load_trained(path.stem)
        truth, budget = some_markets(network, generator(911), 50)
        outcome = run(network, weights, truth, budget)
        assert spent(outcome.payments, budget) <= 1 and (outcome.privacy_loss <= truth.privacy_budget).all()
        assert path.with_suffix(".json").is_file()


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "RegretNet"}, "levels must be 1 for RegretNet, got 8"),
        ({"hidden": (100, 0)}, "hidden must be a positive integer, got 0"),
        ({"hidden": ()}, r"hidden must name at least one layer, got \(\)"),
    ],
)
def test_bad_network(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Network(**{"kind": "M-RegretNet"} | options)


def test_bad_input() -> None:
    network = SMALL["DM-RegretNet"]
    weights = some_weights(network, generator(913))
    good = bids("linear", [1.0, 1.0, 1.0], 1.0, 10)
    with pytest.raises(ValueError, match="bids are of 4 owners, and the network is for 3"):
        run(network, weights, bids("linear", [1.0] * 4, 1.0, 10), 1.0)
    with pytest.raises(ValueError, match="bids or weights hold something that is not a number"):
        run(network, weights, replace(good, rate=np.array([1.0, math.nan, 1.0])), 1.0)
    with pytest.raises(ValueError, match="bids or weights hold something that is not a number"):
        run(network, weights, replace(good, rate=np.array([1.0, -1.0, 1.0])), 1.0)
    with pytest.raises(ValueError, match=r"weights lack 'allocation.0.slope'"):
        run(network, {}, good, 1.0)
