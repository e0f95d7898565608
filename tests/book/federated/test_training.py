"""Training of the auction networks: utilities, violations and steps; a training that was interrupted."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hdpm_book.federated import checkpoints, training
from hdpm_book.federated.checkpoints import read_checkpoint, write_checkpoint
from hdpm_book.federated.regretnet import Network, forward, load_trained, smooth_allocation, sub_bid_values
from hdpm_book.federated.reports import Reports, Rule, play
from hdpm_lib.aggregation import error_bound, least_error_weights, size_weights
from hdpm_lib.auctions.bids import Bids
from tests.support import SEED, generator, some_weights

DM = Network("DM-RegretNet", owners=3, levels=4, hidden=(7, 5))
SETTINGS = training.Settings(DM, epochs=3, batches=1, profiles=8, search=2, every=3)  # one for all: compiled once
PLAIN = replace(SETTINGS, determinism=False, adam=False, normalised=False, search=1)
VIOLATIONS, UTILITIES = (jax.jit(f, static_argnums=0) for f in (training.violations, training.lying_utilities))
Array = np.ndarray


def case(kind: str) -> tuple[training.Settings, dict[str, Any], dict[str, Any], Array]:
    """Settings, weights, the markets of one batch and misreports."""
    settings = replace(SETTINGS, network=replace(DM, kind=kind))
    market = {name: x[0] for name, x in training.draw_markets(settings, SEED).items()}
    weights = some_weights(settings.network, generator(920))
    lies = np.array(training.start(settings, SEED)["misreports"][0])
    lies[0] = 0  # one truthful market
    return settings, {name: jnp.asarray(w, jnp.float32) for name, w in weights.items()}, market, lies


def truth_of(market: dict[str, Any]) -> Bids:
    truth = Bids(*(np.asarray(market[name], float) for name in ("family", "rate", "limit", "sizes")))
    return replace(truth, family=np.asarray(market["family"]))


def by_auctions(
    settings: training.Settings, weights: dict[str, Any], market: dict[str, Any], lies: Array
) -> dict[str, Any]:
    """Utilities at misreports, objective and violations, from whole auctions, one for each owner who lies."""
    net, truth, budget = settings.network, truth_of(market), np.asarray(market["budget"], float)
    M, limits, sizes = net.levels, truth.privacy_budget, truth.sizes
    values = np.maximum.accumulate(sub_bid_values(truth.family, truth.rate, limits, M) * np.exp(lies[..., :-2]), -1)
    told = Reports(values, limits * np.exp(-lies[..., -2]), sizes * np.exp(-lies[..., -1]))

    def in_training(weights: Any, truth: Reports, lies: Reports, money: Any) -> tuple[Any, Any]:
        liar = jnp.eye(net.owners, dtype=bool)
        values = jnp.where(liar[..., None], lies.values[:, None], truth.values[:, None])
        limits, sizes = (jnp.where(liar, a[:, None], b[:, None]) for a, b in zip(lies[1:], truth[1:], strict=True))
        probabilities, payments = forward(net, weights, values, limits, sizes, money[:, None])
        own = jnp.einsum("kiim->kim", smooth_allocation(net, probabilities))
        return own, jnp.einsum("kii->ki", payments)

    rule = Rule(M, in_training, in_training, {name: np.asarray(w, float) for name, w in weights.items()})
    open_, lying = play(rule, truth, budget), play(rule, truth, budget, told).utility
    z, cost, honest = open_.outcomes, open_.cost, open_.utility
    epsilon = z @ np.arange(M + 1) / M * limits
    found = {"rgt": np.maximum(lying - honest, 0) / cost, "irv": np.maximum(-honest, 0) / cost}
    objective = -(truth.shares * epsilon).mean()
    if net.kind == "DM-RegretNet":
        found["dav"] = M / (M + 1) - ((z - 1 / (M + 1)) ** 2).sum(-1)
        aggregate = {"opt": least_error_weights, "conv": size_weights}[settings.aggregation]
        objective = error_bound(aggregate(epsilon, sizes), epsilon, sizes).mean()
    return {"lying": lying, "objective": objective} | {name: x.mean(0) for name, x in found.items()}


@pytest.mark.parametrize(
    ("kind", "aggregation"), [("M-RegretNet", "opt"), ("DM-RegretNet", "opt"), ("DM-RegretNet", "conv")]
)
def test_utilities_and_violations(kind: str, aggregation: str) -> None:
    settings, weights, market, lies = case(kind)
    settings = replace(settings, aggregation=aggregation)
    expected = by_auctions(settings, weights, market, lies)
    utilities, lying = UTILITIES(settings.network, weights, market, lies), expected.pop("lying")
    assert (np.abs(utilities - lying) < 1e-4 * (np.abs(lying) + np.asarray(market["sizes"]))).all()
    objective, found = VIOLATIONS(settings, weights, market, lies)
    found |= {"objective": objective}
    assert found.keys() == expected.keys()
    for name, x in expected.items():
        assert (np.abs(x - found[name]) < 2e-3 * (np.abs(x) + 0.1)).all(), name


def test_search_stays_within_reach_and_climbs() -> None:
    settings, weights, market, lies = case("DM-RegretNet")
    found = np.asarray(jax.jit(training.search, static_argnums=0)(replace(settings, search=20), weights, market, lies))
    sizes, most = np.asarray(market["sizes"]), training.REACH * (1 + 1e-6)
    assert np.abs(found[..., :-1]).max() <= most and (found[..., -2:] >= 0).all()
    true = sub_bid_values(market["family"], market["rate"], market["limit"], 4)
    values, limits, told = (np.asarray(x) for x in training.reports(true, market, found))
    assert (np.diff(values, axis=-1) >= 0).all()
    assert (limits <= market["limit"]).all() and (limits > 0).all()
    assert (told <= sizes).all() and (told >= 1 - 1e-5).all()
    gain = np.asarray(UTILITIES(DM, weights, market, found) - UTILITIES(DM, weights, market, lies)) / sizes
    assert gain.mean() > 0 and (gain > 0).mean() > 0.7
    wild = np.asarray(training.allowed(jnp.full((2, 3, 6), 99.0), jnp.ones((2, 3))))
    np.testing.assert_allclose(wild[0, 0], [training.REACH] * 5 + [0], rtol=1e-6)


RHO = {"rgt": 2.0, "irv": 3.0, "dav": 1.0}


def slopes(before: Any, after: Any, h: float, multipliers: Any, rho: dict[str, float]) -> list[tuple[float, float]]:
    """Steps of the largest weights of two layers, and slopes of the Lagrangian there, by differences."""
    market, found = {name: x[0] for name, x in training.draw_markets(SETTINGS, SEED).items()}, []

    def lagrangian(weights: Any) -> float:
        objective, broken = VIOLATIONS(SETTINGS, weights, market, after["misreports"][0])
        value = SETTINGS.network.owners * float(objective)
        for name, x in broken.items():
            value += float(np.dot(multipliers[name], x)) + rho[name] / 2 * float(x.sum()) ** 2
        return value

    for name in ("payment.2.offset", "allocation.1.slope"):
        old, step = before["weights"][name], np.asarray(after["weights"][name] - before["weights"][name])
        place = np.unravel_index(np.argmax(np.abs(step)), step.shape)
        down, up = (lagrangian(before["weights"] | {name: old.at[place].add(x)}) for x in (-h, h))
        found.append((float(step[place]), (up - down) / (2 * h)))
    return found


def test_steps() -> None:
    """Each step goes down the Lagrangian, by finite differences; multipliers follow the batches that are due."""
    markets, rho = training.draw_markets(SETTINGS, SEED), RHO
    before = training.start(SETTINGS, SEED)
    after, _ = training.run_epoch(SETTINGS, before, markets, rho)
    for step, slope in slopes(before, after, 0.03, before["multipliers"], rho):
        assert abs(step) == pytest.approx(SETTINGS.descent, rel=1e-2) and slope * step < 0  # Adam's first step
    other, _ = training.run_epoch(SETTINGS, before, markets, rho | {"dav": 99.0})
    assert any((w != after["weights"][name]).any() for name, w in other["weights"].items())
    two, _ = training.run_epoch(SETTINGS, after, markets, rho)
    three, log = training.run_epoch(SETTINGS, two, markets, rho)
    assert int(three["iteration"]) == 3 and set(log) == {"objective", *rho}
    for name in rho:
        assert (two["multipliers"][name] == 1).all() and (three["multipliers"][name] >= 1).all()
        expected = 1 + rho[name] * float(log[name][0])
        assert float(three["multipliers"][name].mean()) == pytest.approx(expected, rel=1e-5)
        assert float(three["multipliers"][name].std()) > 0


def test_plain_steps() -> None:
    """As printed: the misreports move by gamma times their slope, the weights by psi times the Lagrangian's.

    Here without the penalty for dav, of which that Lagrangian has nothing.
    """
    before, markets = training.start(PLAIN, SEED), training.draw_markets(PLAIN, SEED)
    free, market = before["multipliers"] | {"dav": jnp.zeros(3)}, {name: x[0] for name, x in markets.items()}
    after, same = (training.run_epoch(PLAIN, before, markets, RHO | {"dav": rho})[0] for rho in (1.0, 99.0))
    assert all((w == same["weights"][name]).all() for name, w in after["weights"].items())
    lies, moved = training.allowed(before["misreports"][0], market["sizes"]), after["misreports"][0]
    for coordinate in (0, 4, 5):  # a value, the privacy budget, the size: slopes of the utility of a record
        ends = [
            UTILITIES(DM, before["weights"], market, lies.at[..., coordinate].add(h)) / market["sizes"]
            for h in (-0.02, 0.02)
        ]
        slope, step = (ends[1] - ends[0]) / 0.04, (moved - lies)[..., coordinate]
        inside = np.asarray((moved == training.allowed(moved, market["sizes"])).all(-1) & (step != 0))
        off = np.abs(step / PLAIN.ascent - slope)[inside] / np.abs(slope).max()
        assert inside.sum() > 5 and np.median(off) < 1e-2  # a few stand where two values meet, and have two slopes
    for step, slope in slopes(before, after, 0.01, free, RHO | {"dav": 0.0}):
        assert step == pytest.approx(-PLAIN.descent * slope, rel=0.05)


def test_markets_and_starts() -> None:
    markets = training.draw_markets(SETTINGS, SEED)
    assert markets["rate"].shape == (1, 8, 3) and markets["budget"].shape == (1, 8)
    factor = np.asarray(markets["budget"]) / truth_of(markets).full_valuation.sum(-1)
    assert factor.min() >= 0.1 and factor.max() <= 2 and factor.std() > 0.3
    assert (training.draw_markets(SETTINGS, SEED + 1)["rate"] != markets["rate"]).any()
    assert (training.draw_markets(replace(SETTINGS, partition="Non-IID"), SEED)["sizes"] != markets["sizes"]).any()
    one, other = training.start(SETTINGS, SEED), training.start(SETTINGS, SEED + 1)
    assert (one["weights"]["payment.0.slope"] != other["weights"]["payment.0.slope"]).all()
    assert (one["misreports"] != other["misreports"]).any()


OPTIONS = "--epochs 3 --batches 1 --profiles 8 --search 2 --levels 4".split()


def test_interrupted_training_ends_where_the_other_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of networks as small as those of the other tests, so that nothing compiles again."""
    monkeypatch.setattr(training, "Network", lambda kind, levels=4: replace(DM, kind=kind, levels=levels))
    monkeypatch.setattr(training, "Settings", partial(training.Settings, every=3))
    options = [*OPTIONS, "--seed", str(SEED), "--folder", str(tmp_path)]

    class Interrupted(checkpoints.tqdm):
        def update(self, n: float = 1) -> None:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(checkpoints, "tqdm", Interrupted)
        training.main(["stopped", *options])
    assert [path.name for path in tmp_path.iterdir()] == ["stopped.checkpoint"]
    for name in ("stopped", "whole"):
        training.main([name, *options])
    (_, found), (_, expected) = (load_trained(name, tmp_path) for name in ("stopped", "whole"))
    assert all((found[part] == expected[part]).all() for part in expected)
    record, other = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("whole", "stopped"))
    assert record["log"] == other["log"] and len(record["log"]) == 3
    assert record["settings"]["network"]["levels"] == 4 and record["settings"]["search"] == 2
    assert record["seed"] == SEED and record["versions"]["jax"] == jax.__version__
    assert record["seconds"] > 0 and record["cpu_seconds"] > 0 and record["hardware"] and "commit" in record
    assert not list(tmp_path.glob("*.checkpoint*"))


def test_checkpoints_that_are_refused(tmp_path: Path) -> None:
    state = training.start(SETTINGS, SEED)
    about = {"settings": asdict(SETTINGS), "seed": SEED}
    write_checkpoint(tmp_path / "a", state, about, {"log": [0.1, 0.2]})
    with pytest.raises(ValueError, match=f"a is of other settings, .*'seed': {SEED}.*: name another file"):
        read_checkpoint(tmp_path / "a", state, about | {"seed": SEED + 1})
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:500])
    with pytest.raises(ValueError, match="a is damaged or no checkpoint"):
        read_checkpoint(tmp_path / "a", state, about)
