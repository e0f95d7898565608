"""Markets of real processes on loopback; skipped, with a notice, where the extra is not installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the extra flower is not installed: no markets of real processes")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

import federation
from hdpm_market import server
from hdpm_owner.owner import Owner
from tests.federation.parts import ask, gap, owner_of, sell, small, wait_for

Shared = tuple[federation.Federation, Path]


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """A federation that all tests of this module share."""
    folder = tmp_path_factory.mktemp("federation")
    owners, test = small(federation, folder / "owners")
    with federation.Federation(folder / "market", owners) as running:
        yield running, test


def lines_of(own: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (own / "ledger.jsonl").read_text().splitlines()]


def test_rounds_of_processes_are_those_of_fedsgd(market: Shared) -> None:
    running, test = market
    found = running.run(test, rounds=2, budget=300.0)
    assert found["refused"] == [] and found["records"] == [60, 40]
    assert all(min(held["loss"]) > 0 and sum(held["paid"]) <= 300 for held in found["rounds"])
    assert gap(found, running.owners, sale=1) <= 1e-12
    for i, own in enumerate(running.owners):
        sale, *released = lines_of(own)
        assert [line["round"] for line in released] == [1, 2]
        assert [line["loss"] for line in released] == sale["losses"] == [held["loss"][i] for held in found["rounds"]]


def test_an_owner_who_is_killed_goes_on_with_her_ledger(market: Shared) -> None:
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


def test_what_the_market_ships_cannot_read_her_data(
    market: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that looks for data where it knows them to be, and reports."""
    running, test = market
    if not federation.apart():
        pytest.skip("not root: what is shipped runs as the user to whom the data belong")
    app = shutil.copytree(federation.APP, tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__"))
    thief = app / "hdpm_market" / "client.py"
    targets = [str(own / name) for own in running.owners for name in ("data.npz", "ledger.jsonl", "terms.toml")]
    theft = THEFT.format(targets=targets) + "    with Client(door"
    thief.write_text(thief.read_text().replace("    with Client(door", theft))
    monkeypatch.setattr(running, "app", app)
    found = running.run(test, rounds=1)
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
    key = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    (trusted := tmp_path / "trusted.yaml").write_text(f"fpk_someone: '{key}'\n")
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


class Post:
    """A grid whose nodes are functions from letters to answers."""

    def __init__(self, nodes: dict[int, Callable[[dict[str, Any]], dict[str, Any]]]) -> None:
        self.nodes = nodes

    def send_and_receive(self, messages: Iterable[Message], **_: Any) -> list[Message]:
        """Carry letters as the client does, but in this process."""
        replies = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = "letter"
            request = json.loads(message.content["ask"]["text"])
            if "model" in message.content:
                request["model"] = message.content["model"]["w"].numpy().tolist()
            answer, content = self.nodes[message.metadata.dst_node_id](request), RecordDict()
            if "gradient" in answer:
                content["gradient"] = ArrayRecord({"g": Array(np.array(answer.pop("gradient"), dtype=float))})
            content["answer"] = ConfigRecord({"text": json.dumps(answer)})
            replies.append(Message(content, reply_to=message))
        return replies


def trained(nodes: dict[int, Any], rounds: int = 2) -> server.Market:
    """A market that was held with these nodes."""
    market = server.Market(list(nodes), rounds, "posted prices", 300.0, learning_rate=2.0, wait=5.0)
    grid, model = Post(nodes), ArrayRecord({"w": Array(np.zeros((2, 3)))})
    market.open(grid)
    for number in range(1, rounds + 1):
        replies = grid.send_and_receive(market.configure_train(number, model, ConfigRecord(), grid))
        model, _ = market.aggregate_train(number, replies)
    return market


NONSENSE = {
    "no bid": {"bid": {"hello": "world"}},
    "a negative rate": {"bid": {"rate": -1.0}},
    "a rate in words": {"bid": {"rate": "dear"}},
    "a name that is none": {"bid": {"name": 7}},
    "a list for a bid": {"bid": {"limit": [1.0, 2.0]}},
    "a gradient of another shape": {"release": {"gradient": [[1.0]]}},
    "a gradient that is no number": {"release": {"gradient": [[float("nan")] * 3] * 2}},
    "no gradient": {"release": {"thanks": True}},
}


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[Owner]]:
    """Two owners, who may be asked though there is no run, in which letters are written."""
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    owners = [owner_of(tmp_path / name, name=name, total=total) for name, total in (("ann", 20.0), ("bea", 4.0))]
    yield owners
    for own in owners:
        own.ledger.close()


@pytest.mark.parametrize("what", NONSENSE)
def test_an_owner_who_answers_nonsense_stops_nobody_else(two: list[Owner], what: str) -> None:
    def spoiled(request: dict[str, Any]) -> dict[str, Any]:
        answer, wrong = two[1].answer(request), NONSENSE[what].get(request["ask"])
        return answer if wrong is None else wrong if request["ask"] == "release" or "hello" in wrong else answer | wrong

    market = trained({1: two[0].answer, 2: spoiled})
    assert market.refused
    for held in market.rounds_held:
        assert np.isfinite(held["model"]).all() and held["loss"][0] > 0
        assert sum(held["loss"][1:]) == sum(held["paid"][1:]) == 0


def test_an_owner_with_nothing_left_declines_and_the_others_sell(two: list[Owner]) -> None:
    ticket = sell(two[1], [1.0] * 4)
    for number in range(1, 5):
        ask(two[1], ticket, number)
    market = trained({1: two[0].answer, 2: two[1].answer})
    assert [one.bid["name"] for one in market.sellers] == ["ann"]
    assert market.refused == ["node 2: nothing is left of a total of 4.0"]


def test_an_unknown_rule_is_named() -> None:
    with pytest.raises(ValueError, match="rule must be one of posted prices, all-in, menus, got first come"):
        server.Market([1], 1, "first come", 1.0, 1.0, 1.0)


def test_the_demonstration_explains_itself() -> None:
    command = [sys.executable, str(federation.APP / "federation.py"), "--help"]
    settings = federation._settings(Path("/nonexistent"))
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=settings)
    assert "--rounds" in done.stdout and "--secure" in done.stdout
