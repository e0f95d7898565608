"""Markets of real processes on loopback; skipped, with a notice, where the extra is not installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the extra flower is not installed: no markets of real processes")

import federation
from hdpm_book.beyond.federations import gap, small, wait_for
from hdpm_market import server


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[federation.Federation, Path]]:
    """A federation that all tests of this module share."""
    folder = tmp_path_factory.mktemp("federation")
    owners, test = small(federation, folder / "owners")
    with federation.Federation(folder / "market", owners) as running:
        yield running, test


def lines_of(own: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (own / "ledger.jsonl").read_text().splitlines()]


def test_rounds_of_processes_are_those_of_fedsgd(market: tuple[federation.Federation, Path]) -> None:
    running, test = market
    found = running.run(test, rounds=2, budget=300.0)
    assert found["refused"] == [] and found["records"] == [60, 40]
    assert all(min(held["loss"]) > 0 and sum(held["paid"]) <= 300 for held in found["rounds"])
    assert gap(found, running.owners, sale=1) <= 1e-12
    for i, own in enumerate(running.owners):
        sale, *released = lines_of(own)
        assert [line["round"] for line in released] == [1, 2]
        assert [line["loss"] for line in released] == sale["losses"] == [held["loss"][i] for held in found["rounds"]]


def test_an_owner_who_is_killed_goes_on_with_her_ledger(market: tuple[federation.Federation, Path]) -> None:
    """She dies when the sales are agreed, and is started again in the second round."""
    running, test = market
    ann, bea = running.owners
    before = [len(lines_of(own)) for own in (ann, bea)]
    out = running.start_run(test, rounds=3, budget=300.0)
    wait_for(lambda: all(len(lines_of(own)) > n for own, n in zip((ann, bea), before, strict=True)))
    running.kill("owner-ann")
    wait_for(lambda: len(lines_of(bea)) == before[1] + 3)
    running.start_owner(ann)
    found = running.result(out)
    losses = np.array([held["loss"] for held in found["rounds"]])
    assert losses[0, 0] == 0 and losses[2, 0] > 0 and losses[:, 1].min() > 0
    paid = np.array([held["paid"] for held in found["rounds"]])
    assert ((paid > 0) == (losses > 0)).all()
    assert gap(found, running.owners, sale=2) <= 1e-12
    counted = {line["round"] for line in lines_of(ann)[before[0] + 1 :]}
    assert counted >= set(np.flatnonzero(losses[:, 0]) + 1)


THEFT = """
    tried = []
    for file in {targets!r}:
        try:
            tried.append(len(open(file, "rb").read()))
        except OSError as error:
            tried.append(type(error).__name__)
    return {{"refused": f"stolen: {{tried}}"}}
"""


def test_what_the_market_ships_cannot_read_her_data(market: tuple[federation.Federation, Path], tmp_path: Path) -> None:
    """A client that looks for data where it knows them to be, and reports."""
    running, test = market
    if not federation.apart():
        pytest.skip("not root: what is shipped runs as the user to whom the data belong")
    app = shutil.copytree(federation.APP, tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__"))
    thief = app / "hdpm_market" / "client.py"
    targets = [str(own / name) for own in running.owners for name in ("data.npz", "ledger.jsonl", "terms.toml")]
    text = thief.read_text().replace("    with Client(door", THEFT.format(targets=targets) + "    with Client(door")
    thief.write_text(text)
    running.app, own_app = app, running.app
    try:
        found = running.run(test, rounds=1)
    finally:
        running.app = own_app
    assert len(found["refused"]) == 2 and found["rounds"] == []
    assert all(f"stolen: {['PermissionError'] * 6}" in said for said in found["refused"])


def test_over_tls_with_registered_keys(tmp_path: Path) -> None:
    """The same market, encrypted; a node whose key nobody registered is not let in."""
    owners, test = small(federation, tmp_path / "owners")
    with federation.Federation(tmp_path / "market", owners, secure=True) as running:
        found = running.run(test, rounds=1, budget=300.0)
        assert gap(found, owners, sale=1) <= 1e-12 and found["refused"] == []
        running.kill("node-ann")
        keys = running.folder / "certificates"
        federation.certificates.make(keys / "other", ["ann"])
        shutil.copy(keys / "other" / "ann.key", keys / "ann.key")
        running.start_supernode(owners[0])
        said = running.folder / "logs" / "superlink.log"
        wait_for(lambda: "Attempted to register SuperNode with public key" in said.read_text())
        again = (running.folder / "logs" / "node-ann.log").read_text().split("Starting Flower SuperNode")[2]
        assert "SuperNode ID" not in again


def test_a_node_that_trusts_a_few_takes_no_unsigned_app(tmp_path: Path) -> None:
    """``--trusted-entities``: signatures come from Flower's hub only, so that a market of one's own is refused."""
    owners, test = small(federation, tmp_path / "owners")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    trusted = tmp_path / "trusted.yaml"
    trusted.write_text(f"fpk_someone: '{(tmp_path / 'key.pub').read_text().strip()}'\n")
    with federation.Federation(tmp_path / "market", owners, trusted=trusted) as running:
        found = running.run(test, rounds=1)
        assert found["rounds"] == [] and len(found["refused"]) == 2
        assert "could not be verified" in (running.folder / "logs" / "node-ann.log").read_text()
    assert all((own / "ledger.jsonl").read_text() == "" for own in owners)


def test_in_simulation(tmp_path: Path) -> None:
    """Flower's own processes, by Ray: the same models."""
    pytest.importorskip("ray", reason="the extra simulation is not installed: no simulated markets")
    owners, test = small(federation, tmp_path / "owners")
    with federation.Federation(tmp_path / "market", owners, simulated=True) as running:
        found = running.run(test, rounds=2, budget=300.0)
    assert found["refused"] == [] and gap(found, owners, sale=1) <= 1e-12


# --- the market's side, without processes -----------------------------------------------------------------------------


def test_an_unknown_rule_is_named() -> None:
    with pytest.raises(ValueError, match="rule must be one of posted prices, all-in, menus, got first come"):
        server.Market([1], 1, "first come", 1.0, 1.0, 1.0)


def test_the_demonstration_explains_itself() -> None:
    done = subprocess.run(
        [sys.executable, str(federation.APP / "federation.py"), "--help"],
        capture_output=True, text=True, check=True, env=federation._settings(Path("/nonexistent")),
    )  # fmt: skip
    assert "--rounds" in done.stdout and "--secure" in done.stdout
