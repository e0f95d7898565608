"""Training of the auction networks: utilities, violations and steps against loops; a training that was interrupted."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hdpm_book.federated import checkpoints, training
from hdpm_book.federated.checkpoints import provenance, read_checkpoint, write_checkpoint
from hdpm_book.federated.regretnet import KINDS, Network, load_trained, sub_bid_values
from hdpm_book.federated.training import (
    REACH,
    Settings,
    allowed,
    draw_markets,
    lying_utilities,
    main,
    reports,
    run_epoch,
    search,
    start,
    violations,
)
from hdpm_lib.aggregation import error_bound, least_error_weights, size_weights
from hdpm_lib.auctions.bids import Bids
from tests.support import SEED, by_hand, generator, some_weights

DM = Network("DM-RegretNet", owners=3, levels=4, hidden=(7, 5))
SETTINGS = Settings(DM, epochs=3, batches=1, profiles=8, search=2, every=3)  # one for all: compiled once
PLAIN = replace(SETTINGS, determinism=False, adam=False, normalised=False, search=1)
NETWORKS = {kind: replace(DM, kind=kind, levels=1 if kind == "RegretNet" else 4) for kind in KINDS}
VIOLATIONS, UTILITIES = (jax.jit(f, static_argnums=0) for f in (violations, lying_utilities))
Array = np.ndarray


def case(kind: str, *key: int) -> tuple[Settings, dict[str, Any], dict[str, Any], Array]:
    """Settings, weights, the markets of one batch and misreports."""
    settings = replace(SETTINGS, network=NETWORKS[kind])
    market = {name: x[0] for name, x in draw_markets(settings, SEED).items()}
    weights = some_weights(settings.network, generator(920, *key))
    lies = np.array(start(settings, SEED)["misreports"][0])
    lies[0] = 0  # one truthful market
    return settings, {name: jnp.asarray(w, jnp.float32) for name, w in weights.items()}, market, lies


def soft(network: Network, z: Array) -> Array:
    powers = np.exp(z / network.temperature)
    return powers / powers.sum(-1, keepdims=True) if network.kind == "DM-RegretNet" else z


class Reported:
    """Bids of one market in which one owner misreports, in the form that the oracle `by_hand` reads."""

    def __init__(self, truth: Bids, owner: int, lie: Array, levels: int) -> None:
        self.sizes, self.privacy_budget = truth.sizes.copy(), truth.privacy_budget.copy()
        values = sub_bid_values(truth.family, truth.rate, truth.privacy_budget, levels)
        values[owner] = np.maximum.accumulate(values[owner] * np.exp(lie[:-2]))
        self.privacy_budget[owner] *= math.exp(-lie[-2])
        self.sizes[owner] *= math.exp(-lie[-1])
        self.values, self.levels = values, levels

    def valuation(self, epsilon: Array) -> Array:
        """Of a vector with one level m eps-bar / M, the others 0."""
        i = int(np.argmax(epsilon))
        m = round(self.levels * epsilon[i] / self.privacy_budget[i])
        return np.eye(len(epsilon))[i] * self.values[i, m - 1] * self.sizes


def by_loops(settings: Settings, weights: dict[str, Array], market: dict[str, Array], lies: Array) -> dict[str, Array]:
    """Utilities at misreports and at the truth, objective and violations, market by market and owner by owner."""
    net, grid = settings.network, np.arange(1, settings.network.levels + 1) / settings.network.levels
    truth = Bids(*(np.asarray(market[name], float) for name in ("family", "rate", "limit", "sizes")))
    truth = replace(truth, family=np.asarray(market["family"]))
    K, n = truth.rate.shape
    lying, honest, cost, dav, epsilon = (np.zeros((K, n)) for _ in range(5))
    for k in range(K):
        for i in [*range(n), -1]:
            told = Reported(truth[k], i, lies[k, i] if i >= 0 else np.zeros(net.levels + 2), net.levels)
            z, payments = by_hand(net, weights, told, float(market["budget"][k]))  # type: ignore[arg-type]
            z = soft(net, z)
            true = np.array([truth[k].valuation(m * told.privacy_budget) / truth[k].sizes for m in grid]).T
            utility = payments - (z[:, 1:] * true).sum(-1) * told.sizes
            if i >= 0:
                lying[k, i] = utility[i]
            else:
                honest[k], cost[k] = utility, (z[:, 1:] * true).sum(-1) * truth[k].sizes
                dav[k] = net.levels / (net.levels + 1) - ((z - 1 / (net.levels + 1)) ** 2).sum(-1)
                epsilon[k] = z[:, 1:] @ grid * truth[k].privacy_budget
    found = {"rgt": np.maximum(lying - honest, 0) / cost, "irv": np.maximum(-honest, 0) / cost}
    if net.kind == "DM-RegretNet":
        found["dav"] = dav
        rule = {"opt": least_error_weights, "conv": size_weights}[settings.aggregation]
        objective = error_bound(rule(epsilon, truth.sizes), epsilon, truth.sizes).mean()
    else:
        objective = -(truth.shares * epsilon).sum() / (K * n)
    return {"lying": lying, "honest": honest, "objective": objective} | {name: x.mean(0) for name, x in found.items()}


def utilities_error(kind: str, utilities_of: Callable[..., Any] = UTILITIES) -> float:
    """Largest relative error of the utilities at misreports."""
    settings, weights, market, lies = case(kind)
    utilities = utilities_of(settings.network, weights, market, lies)
    expected = by_loops(settings, {name: np.asarray(w, float) for name, w in weights.items()}, market, lies)
    assert (expected["lying"][0] == expected["honest"][0]).all()
    scale = np.abs(expected["lying"]) + np.asarray(market["sizes"])
    return float(np.abs((utilities - expected["lying"]) / scale).max())


@pytest.mark.parametrize("kind", ["RegretNet", "DM-RegretNet"])
def test_utilities_and_violations(kind: str) -> None:
    assert utilities_error(kind) < 1e-4
    settings, weights, market, lies = case(kind)
    doubles = {name: np.asarray(w, float) for name, w in weights.items()}
    for aggregation in ("opt", "conv") if kind == "DM-RegretNet" else ("opt",):
        chosen = replace(settings, aggregation=aggregation)
        objective, parts = VIOLATIONS(chosen, weights, market, lies)
        expected = by_loops(chosen, doubles, market, lies)
        assert parts.keys() == {"rgt", "irv"} | ({"dav"} if kind == "DM-RegretNet" else set())
        for name, x in ({"objective": objective} | parts).items():
            assert (np.abs(x - expected[name]) < 2e-3 * (np.abs(expected[name]) + 0.1)).all(), name


def test_wrong_utilities_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any) -> Any:
        return lying_utilities(*given)  # a function of its own: JAX keeps what it has compiled

    with monkeypatch.context() as patch:  # monotone along the owners
        patch.setattr(jax.lax, "cummax", lambda x, axis: jnp.maximum.accumulate(x, axis=axis - 1))
        assert utilities_error("M-RegretNet", jax.jit(partial(broken), static_argnums=0)) > 1e-2
    with monkeypatch.context() as patch:  # the cost of all that she has, not of what she reports
        right = training.expected_value
        patch.setattr(training, "expected_value", lambda z, values, sizes: right(z, values, 99 + 0 * sizes))
        assert utilities_error("M-RegretNet", jax.jit(partial(broken), static_argnums=0)) > 1e-2


def test_search_stays_within_reach_and_climbs() -> None:
    settings, weights, market, lies = case("DM-RegretNet")
    longer = replace(settings, search=20)
    found = np.asarray(jax.jit(search, static_argnums=0)(longer, weights, market, lies))
    sizes = np.asarray(market["sizes"])
    assert np.abs(found[..., :-2]).max() <= REACH * (1 + 1e-6)
    assert (found[..., -2:] >= 0).all() and found[..., -2].max() <= REACH * (1 + 1e-6)
    assert (found[..., -1] <= np.log(sizes) * (1 + 1e-6)).all()
    values, limits, told = (np.asarray(x) for x in reports(sub_bid_values(
        market["family"], market["rate"], market["limit"], 4), market, found))  # fmt: skip
    assert (np.diff(values, axis=-1) >= 0).all()
    assert (limits <= market["limit"]).all() and (limits > 0).all()
    assert (told <= sizes).all() and (told >= 1 - 1e-5).all()
    gain = np.asarray(UTILITIES(DM, weights, market, found) - UTILITIES(DM, weights, market, lies)) / sizes
    assert gain.mean() > 0 and (gain > 0).mean() > 0.7
    wild = np.asarray(allowed(jnp.full((2, 3, 6), 99.0), jnp.ones((2, 3))))
    np.testing.assert_allclose(wild[0, 0], [REACH] * 5 + [0], rtol=1e-6)


def lagrangian(weights: Any, multipliers: Any, market: Any, lies: Any, rho: dict[str, float]) -> float:
    objective, found = VIOLATIONS(SETTINGS, weights, market, lies)
    value = SETTINGS.network.owners * float(objective)
    for name, x in found.items():
        value += float(np.dot(multipliers[name], x)) + rho[name] / 2 * float(x.sum()) ** 2
    return value


def test_steps() -> None:
    """Each step goes down the Lagrangian, by finite differences; multipliers follow the batches that are due."""
    markets, rho = draw_markets(SETTINGS, SEED), {"rgt": 2.0, "irv": 3.0, "dav": 1.0}
    market = {name: x[0] for name, x in markets.items()}
    before = start(SETTINGS, SEED)
    after, _ = run_epoch(SETTINGS, before, markets, rho)
    for name in ("payment.2.offset", "allocation.1.slope"):
        old, step = before["weights"][name], np.asarray(after["weights"][name] - before["weights"][name])
        place = np.unravel_index(np.argmax(np.abs(step)), step.shape)
        down, up = (
            lagrangian(before["weights"] | {name: old.at[place].add(h)}, before["multipliers"], market, lies, rho)
            for lies, h in ((after["misreports"][0], -0.03), (after["misreports"][0], 0.03))
        )
        assert abs(step[place]) == pytest.approx(SETTINGS.descent, rel=1e-2)  # Adam's first step
        assert (up - down) * step[place] < 0
    two, _ = run_epoch(SETTINGS, after, markets, rho)
    three, log = run_epoch(SETTINGS, two, markets, rho)
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
    plain, before, rho = PLAIN, start(PLAIN, SEED), {"rgt": 2.0, "irv": 3.0, "dav": 1.0}
    free = before["multipliers"] | {"dav": jnp.zeros(3)}
    market = {name: x[0] for name, x in draw_markets(plain, SEED).items()}
    after, _ = run_epoch(plain, before, {name: x[None] for name, x in market.items()}, rho)
    lies, moved = allowed(before["misreports"][0], market["sizes"]), after["misreports"][0]
    for coordinate in (0, 4, 5):  # a value, the privacy budget, the size: slopes of the utility of a record
        ends = [
            UTILITIES(DM, before["weights"], market, lies.at[..., coordinate].add(h)) / market["sizes"]
            for h in (-0.02, 0.02)
        ]
        slope, step = (ends[1] - ends[0]) / 0.04, (moved - lies)[..., coordinate]
        inside = np.asarray((moved == allowed(moved, market["sizes"])).all(-1) & (step != 0))
        off = np.abs(step / plain.ascent - slope)[inside] / np.abs(slope).max()
        assert inside.sum() > 5 and np.median(off) < 1e-2  # a few stand where two values meet, and have two slopes
    for name in ("payment.2.offset", "allocation.1.slope"):
        old, step = before["weights"][name], np.asarray(after["weights"][name] - before["weights"][name])
        place = np.unravel_index(np.argmax(np.abs(step)), step.shape)
        down, up = (
            lagrangian(before["weights"] | {name: old.at[place].add(h)}, free, market, moved, rho | {"dav": 0.0})
            for h in (-0.01, 0.01)
        )
        assert step[place] == pytest.approx(-plain.descent * (up - down) / 0.02, rel=0.05)


@pytest.mark.parametrize("settings", [SETTINGS, PLAIN])
def test_penalty_for_dav(settings: Settings) -> None:
    markets, state = draw_markets(settings, SEED), start(settings, SEED)
    low, high = (run_epoch(settings, state, markets, {"rgt": 1.0, "irv": 1.0, "dav": rho})[0] for rho in (1.0, 99.0))
    same = [bool((w == high["weights"][name]).all()) for name, w in low["weights"].items()]
    assert all(same) != settings.determinism


def test_markets_and_starts() -> None:
    markets = draw_markets(SETTINGS, SEED)
    assert markets["rate"].shape == (1, 8, 3) and markets["budget"].shape == (1, 8)
    truth = Bids(*(np.asarray(markets[name], float) for name in ("family", "rate", "limit", "sizes")))
    factor = np.asarray(markets["budget"]) / replace(truth, family=np.asarray(markets["family"])).full_valuation.sum(-1)
    assert factor.min() >= 0.1 and factor.max() <= 2 and factor.std() > 0.3
    assert (draw_markets(SETTINGS, SEED)["rate"] == markets["rate"]).all()
    assert (draw_markets(SETTINGS, SEED + 1)["rate"] != markets["rate"]).any()
    assert (draw_markets(replace(SETTINGS, partition="Non-IID"), SEED)["sizes"] != markets["sizes"]).any()
    one, other = start(SETTINGS, SEED), start(SETTINGS, SEED + 1)
    assert (one["weights"]["payment.0.slope"] != other["weights"]["payment.0.slope"]).all()
    assert (one["misreports"] != other["misreports"]).any()


# --- the command line, checkpoints ------------------------------------------------------------------------------------

OPTIONS = "--epochs 3 --batches 1 --profiles 8 --search 2 --levels 4".split()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line trains networks as small as those of the other tests, so that nothing compiles again."""
    monkeypatch.setattr(training, "Network", lambda kind, levels=4: replace(NETWORKS[kind], levels=levels))
    monkeypatch.setattr(
        Settings.__init__, "__defaults__", ("IID", "opt", 50, 100, 1024, 100, 3, 0.1, 0.001, True, True, True)
    )


class Silent:
    """A progress bar that is not shown, and stops the training after some epochs."""

    def __init__(self, stop: int = 0) -> None:
        self.left = stop

    def __call__(self, **_: Any) -> Silent:
        return self

    __enter__ = __call__

    def __exit__(self, *_: object) -> None: ...
    def set_postfix_str(self, _: object) -> None: ...

    def update(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def weights_of(name: str, folder: Path) -> dict[str, Array]:
    return load_trained(name, folder)[1]


@pytest.mark.usefixtures("small")
def test_interrupted_training_ends_where_the_other_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    options = [*OPTIONS, "--seed", str(SEED), "--folder", str(tmp_path)]
    monkeypatch.setattr(checkpoints, "tqdm", Silent())
    main(["whole", *options])
    for stop in (1, 2):
        name = f"stopped{stop}"
        monkeypatch.setattr(checkpoints, "tqdm", Silent(stop))
        with pytest.raises(KeyboardInterrupt):
            main([name, *options])
        assert (tmp_path / f"{name}.checkpoint").is_file() and not (tmp_path / f"{name}.npz").exists()
        monkeypatch.setattr(checkpoints, "tqdm", Silent())
        main([name, *options])
        found, expected = weights_of(name, tmp_path), weights_of("whole", tmp_path)
        assert all((found[part] == expected[part]).all() for part in expected)
    record, other = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("whole", "stopped1"))
    assert record["log"] == other["log"] and len(record["log"]) == 3
    assert record["settings"]["network"]["levels"] == 4 and record["settings"]["search"] == 2
    assert record["seed"] == SEED and record["versions"]["jax"] == jax.__version__
    assert record["seconds"] > 0 and record["cpu_seconds"] > 0 and record["hardware"] and "commit" in record
    assert not list(tmp_path.glob("*.checkpoint*"))


@pytest.mark.usefixtures("small")
def test_training_that_cannot_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    options = [*OPTIONS, "--folder", str(tmp_path)]
    monkeypatch.setattr(checkpoints, "tqdm", Silent(1))
    with pytest.raises(KeyboardInterrupt):
        main(["one", *options])
    path = tmp_path / "one.checkpoint"
    with pytest.raises(ValueError, match=r"one.checkpoint is of other settings, .*'seed': 0.*: name another file"):
        main(["one", *options, "--seed", "1"])
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ValueError, match=r"one.checkpoint is damaged or no checkpoint"):
        main(["one", *options])


def test_checkpoint_keeps_every_bit(tmp_path: Path) -> None:
    state = start(SETTINGS, SEED)
    about = {"settings": asdict(SETTINGS), "seed": SEED}
    write_checkpoint(tmp_path / "a", state, about, {"log": [0.1]})
    write_checkpoint(tmp_path / "a", state, about, {"log": [0.1, 0.2]})
    found, record = read_checkpoint(tmp_path / "a", start(SETTINGS, SEED + 1), about)
    assert record == {"log": [0.1, 0.2]} and jax.tree.structure(found) == jax.tree.structure(state)
    assert jax.tree.all(jax.tree.map(lambda a, b: (a == b).all() and a.dtype == b.dtype, found, state))
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert json.loads(json.dumps(provenance())) == provenance()


def test_paper_settings() -> None:
    """Appendix A prints T K = 102,400 profiles, and the defaults are its other numbers."""
    paper = Settings(Network("DM-RegretNet"))
    assert paper.batches * paper.profiles == 102_400 and paper.network.hidden == (100, 100) and paper.epochs == 50
    assert (paper.search, paper.every, paper.ascent, paper.descent) == (100, 10, 0.1, 0.001)
