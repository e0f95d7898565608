"""The auction networks: the oracle computes them owner by owner and layer by layer, in NumPy."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from hdpm_book.federated import regretnet
from hdpm_book.federated.partition import draw_bids
from hdpm_book.federated.regretnet import (
    HIDDEN,
    KINDS,
    OWNERS,
    Network,
    certain,
    inputs,
    load_trained,
    run,
    save,
    shapes,
    smooth,
    sub_bid_values,
    untrained,
)
from hdpm_lib.auctions.bids import Bids, bids
from hdpm_lib.validation import FALSE_ALARM
from tests.support import by_hand, generator, refusals, some_network, z_limit

Array = np.ndarray


def some_markets(network: Network, rng: np.random.Generator, count: int) -> tuple[Bids, Array]:
    truth = draw_bids(rng.integers(10, 2000, (count, network.owners)), rng)
    return truth, truth.full_valuation.sum(-1) * rng.uniform(0.05, 3, count)


def played(network: Network, truth: Bids, budget: Array, xp: Any = np) -> tuple[Array, Array]:
    with jax.enable_x64(True):
        given = truth.family, truth.rate, truth.privacy_budget
        values = sub_bid_values(*map(xp.asarray, given), network.levels, xp)
        reports = (xp.asarray(x) for x in (truth.privacy_budget, 1.0 * truth.sizes, budget))
        found = regretnet.forward(network.weights, values, *reports, xp)
        return np.asarray(found[0]), np.asarray(found[1])


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("kind", KINDS)
def test_forward_is_the_two_networks_and_stays_within_the_budget(kind: str, scale: float) -> None:
    rng = generator(900, int(10 * scale))
    network = some_network(kind, rng, scale)
    truth, budget = some_markets(network, rng, 200)
    family, rate, privacy_budget, sizes = (part.copy() for part in vars(truth).values())
    sizes[0] = 50, 50, 800  # of the owners that are looked at, all are alike
    family[1], rate[1], privacy_budget[1] = 2, 1.0, 1.5
    truth = Bids(family, rate, privacy_budget, sizes)
    chances, payments = played(network, truth, budget)
    for k in range(12):
        for found, expected in zip(
            (chances[k], payments[k]), by_hand(network, truth[k], budget[k]), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-300)
    for found, other in zip((chances, payments), played(network, truth, budget, jnp), strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-9, atol=1e-300)
    assert (payments.sum(-1) <= budget * (1 + 1e-12)).all()
    assert (payments >= 0).all() and (chances >= 0).all()
    np.testing.assert_allclose(chances.sum(-1), 1, rtol=1e-12)
    outcome = run(network, truth, budget)
    level = np.arange(network.levels + 1) / network.levels
    np.testing.assert_allclose(outcome.payments, payments, rtol=1e-12)
    sold = level[1:][chances[..., 1:].argmax(-1)] if kind == "DM-RegretNet" else chances @ level
    np.testing.assert_allclose(outcome.privacy_loss, sold * truth.privacy_budget, rtol=1e-12)
    single = run(network, truth[3], budget[3])
    np.testing.assert_allclose(single.privacy_loss, outcome.privacy_loss[3], rtol=1e-12)


def test_the_scale_of_the_inputs() -> None:
    """Units of money cancel, and so do those of size; of the sizes all but the last make the
    scale.
    """
    rng = generator(902)
    values = rng.uniform(0, 9, (6, 4, 2))
    limits = rng.uniform(1, 2, (6, 4))
    sizes = rng.uniform(10, 99, (6, 4))
    money = rng.uniform(50, 500, 6)
    seen = inputs(values, limits, sizes, money)
    assert seen.shape == (6, 4 * 4 + 1)
    told = seen[:, :-1].reshape(6, 4, 4)
    for k in range(6):
        for own in (told[k, :, :2].ravel(), told[k, :3, 2], told[k, :3, 3]):
            assert np.ptp(own) == pytest.approx(1) and own.sum() == pytest.approx(0, abs=1e-12)
        # the scale of the values is that of money
        line = stats.linregress(values[k].ravel(), told[k, :, :2].ravel())
        assert seen[k, -1] == pytest.approx(line.intercept + line.slope * money[k] / sizes[k].sum())
    np.testing.assert_allclose(
        inputs(7 * values, 3 * limits, 5 * sizes, 35 * money), seen, atol=1e-12
    )
    larger = sizes.copy()
    larger[:, 3] = 1e4
    moved = (
        np.abs(inputs(values, limits, larger, money * larger.sum(-1) / sizes.sum(-1)) - seen) > 1e-9
    )
    assert moved.any(0).nonzero()[0].tolist() == [4 * 3 + 3]  # nothing but her own size
    flat = inputs(np.full((4, 2), 2.5), np.ones(4), np.array([20.0, 20, 20, 500]), np.array(7.0))
    assert not flat.any()


def test_allocations() -> None:
    """The first most probable level, even where nothing is more probable; training sees a softmax
    of the levels.
    """
    z = generator(905).dirichlet(np.ones(5), (40, 3))
    # ties; mostly nothing
    z[0, 0], z[0, 1], z[0, 2] = [0.1, 0.4, 0.4, 0.1, 0.0], 0.2, [0.9, 0.01, 0.02, 0.05, 0.02]
    for xp in (np, jnp):
        with jax.enable_x64(True):
            hard = np.asarray(certain(xp.asarray(z), xp))
            soft = np.asarray(smooth(xp.asarray(z), 0.01, xp))
        np.testing.assert_array_equal(hard, np.eye(5)[1 + z[..., 1:].argmax(-1)])
        assert hard[0].argmax(-1).tolist() == [1, 1, 3]
        np.testing.assert_allclose(
            soft[..., 1:], special.softmax(z[..., 1:] / 0.01, axis=-1), rtol=1e-9
        )
        assert not soft[..., 0].any()


def drawn_as_they_should_be() -> None:
    rng = generator(909)
    count = 20_000
    network = some_network("M-RegretNet", rng, 0.3)
    truth, budget = some_markets(network, rng, 1)
    (chances,), _ = played(network, truth, budget)
    many = Bids(*(np.repeat(part, count, 0) for part in vars(truth).values()))
    level = run(network, many, np.repeat(budget, count), rng).privacy_loss / many.privacy_budget * 4
    np.testing.assert_allclose(level, np.rint(level), atol=1e-9)
    for own, expected in zip(np.rint(level).astype(int).T, chances, strict=True):
        assert (
            stats.chisquare(np.bincount(own, minlength=5), expected * count).pvalue
            > FALSE_ALARM / 3
        )
    together = np.corrcoef(level.T)[np.triu_indices(3, 1)] * math.sqrt(count)
    assert np.abs(together).max() < z_limit(3)  # owners are drawn apart


def test_outcomes_are_drawn_with_their_probabilities() -> None:
    drawn_as_they_should_be()
    network = some_network("DM-RegretNet", generator(910))
    truth, budget = some_markets(network, generator(911), 5)
    again, never = (run(network, truth, budget, rng).privacy_loss for rng in (generator(0), None))
    assert (again == never).all()


Fault = Callable[[Any], Any]
WRONG: dict[str, tuple[str, Fault]] = {
    "the last owner counts": (
        "inputs",
        lambda f: lambda v, e, d, b, xp: f(v, e, xp.roll(d, 1, -1), b, xp),
    ),
    "money is not for a record": (
        "inputs",
        lambda f: lambda v, e, d, b, xp: f(v, e, d, b * d.sum(-1), xp),
    ),
    "softmax over all owners": ("softmax", lambda f: lambda x, xp: f(x, xp) / len(x)),
    "another order of the outcomes": ("softmax", lambda f: lambda x, xp: xp.roll(f(x, xp), 1, -1)),
    "no largest level": ("certain", lambda f: lambda chances, *xp: f(-chances, *xp)),
}


@pytest.mark.parametrize("name", WRONG)
def test_broken_networks_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, fault = WRONG[name]
    monkeypatch.setattr(regretnet, place, fault(getattr(regretnet, place)))
    with pytest.raises(AssertionError):
        test_forward_is_the_two_networks_and_stays_within_the_budget("DM-RegretNet", 1.0)


def test_broken_draws_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_for_all(chances: Array, rng: np.random.Generator) -> Array:
        return (rng.random((len(chances), 1, 1)) > chances.cumsum(-1)[..., :-1]).sum(-1)

    draw = regretnet.draw
    for wrong in (one_for_all, lambda chances, rng: draw(chances**1.1, rng)):
        monkeypatch.setattr(regretnet, "draw", wrong)
        with pytest.raises(AssertionError):
            drawn_as_they_should_be()


@pytest.mark.parametrize("kind", KINDS)
def test_weights_come_back(kind: str, tmp_path: Path) -> None:
    network = some_network(kind, generator(912))._replace(temperature=0.3)
    save(tmp_path / "one", network, {"settings": {"K": 64}})
    read = load_trained("one", tmp_path)
    assert (read.kind, read.temperature, read.owners, read.levels) == (kind, 0.3, 3, network.levels)
    for part, layers in network.weights.items():
        for found, expected in zip(read.weights[part], layers, strict=True):
            for one, other in zip(found, expected, strict=True):
                assert (one == other.astype(np.float16)).all() and one.dtype == np.float64
    assert json.loads((tmp_path / "one.json").read_text("utf8"))["settings"] == {"K": 64}
    with pytest.raises(FileNotFoundError, match=r"no trained network 'two' in .*, only \['one'\]"):
        load_trained("two", tmp_path)


@pytest.mark.parametrize(("levels", "kind"), [(1, "RegretNet"), (8, "M-RegretNet")])
def test_untrained_networks(levels: int, kind: str) -> None:
    network = untrained(levels, 3)
    assert (network.kind, network.levels, network.owners) == (kind, levels, OWNERS)
    for part, layers in network.weights.items():
        assert [slope.shape for slope, _ in layers] == shapes(levels)[part] and len(layers) == len(
            HIDDEN
        ) + 1
        for slope, offset in layers:
            assert not offset.any() and slope.std() == pytest.approx(
                math.sqrt(2 / sum(slope.shape)), rel=0.1
            )
    assert (untrained(levels, 4).weights["payment"][0][0] != network.weights["payment"][0][0]).all()


GOOD = bids("linear", [1.0, 1.0, 1.0], 1.0, 10)
NETWORK = some_network("M-RegretNet", generator(914))


def spoilt() -> Network:
    weights = NETWORK.weights | {
        "payment": (*NETWORK.weights["payment"][:3], (np.full((5, 4), np.nan), np.zeros(4)))
    }
    return NETWORK._replace(weights=weights)


test_bad_input_is_named = refusals(
    (
        lambda: run(NETWORK, bids("linear", [1.0] * 4, 1.0, 10), 1.0),
        "bids are of 4 owners, and the network is for 3",
    ),
    (lambda: run(NETWORK, GOOD, -1.0), "budget must .* -1"),
    (lambda: run(NETWORK, GOOD, 1.0, 5), "rng must be a Generator.* got 5"),  # type: ignore[arg-type]
    (
        lambda: run(NETWORK, replace(GOOD, rate=np.array([1.0, math.nan, 1.0])), 1.0),
        "bids or weights .* not a number",
    ),
    (lambda: run(spoilt(), GOOD, 1.0), "bids or weights .* not a number"),
)
