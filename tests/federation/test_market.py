"""Markets of real processes on loopback; skipped, with a notice, where the extra is not
installed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip(
    "flwr", reason="the extra flower is not installed: no markets of real processes"
)

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

import federation
from hdpm_lib.learners.integer_answers import record_steps
from hdpm_market import server
from hdpm_market.book import Book
from hdpm_owner import ledger, receipts
from hdpm_owner.owner import Owner
from hdpm_owner.signatures import Key, canonical
from hdpm_owner.table import Agreement
from hdpm_owner.terms import Terms
from tests.federation.kills import stop_market
from tests.federation.parts import PLAN, gap, owner_of, people, small, wait_for

Shared = tuple[federation.Federation, Path]


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """A federation that all tests of this module share."""
    with small(tmp_path_factory.mktemp("federation")) as both:
        yield both


def audited(running: federation.Federation) -> list[str]:
    """What receipts of all runs and ledgers do not agree on."""
    rows = [
        row
        for folder in running.folder.glob("run-*")
        if list(folder.iterdir())
        for row in receipts.kept(folder)
    ]
    return receipts.compared(rows, {own.name: ledger.read(own) for own in running.owners})


def test_rounds_of_processes_are_those_of_fedsgd(market: Shared) -> None:
    running, test = market
    folder = running.start_run(test, rounds=2, **PLAN)
    found = running.result(folder)
    assert found["absences"] == [] and found["records"] == [60, 40]
    assert all(min(held["loss"]) > 0 and sum(held["paid"]) <= 300 for held in found["rounds"])
    assert gap(found, running.owners, sale=1) <= 1e-10
    for i, own in enumerate(running.owners):
        sale, *released = ledger.read(own)
        assert [line["round"] for line in released] == [1, 2] and all(
            line["countersignature"] for line in released
        )
        assert (
            [line["loss"] for line in released]
            == list(sale["losses"])
            == [held["loss"][i] for held in found["rounds"]]
        )
    assert audited(running) == []
    paid = sum(row["owed"] for row in receipts.owed(receipts.kept(folder)))
    assert paid == pytest.approx(sum(sum(held["paid"]) for held in found["rounds"]))


def test_what_is_killed_goes_on_and_nobody_is_paid_or_charged_twice(market: Shared) -> None:
    """An owner dies when the sales are agreed, and is started again in the second round; then the
    market dies.
    """
    running, test = market
    ann, bea = running.owners
    before = [len(ledger.read(own)) for own in (ann, bea)]
    folder = running.start_run(test, rounds=5, **PLAN)
    wait_for(
        lambda: all(len(ledger.read(own)) > n for own, n in zip((ann, bea), before, strict=True))
    )
    running.kill("owner-ann")
    wait_for(lambda: len(ledger.read(bea)) == before[1] + 3)
    running.start_owner(ann)
    wait_for(lambda: len(running.rounds(folder)) == 3)
    stop_market(running)
    found = running.result(running.start_run(test, folder, rounds=5, resume=True, **PLAN))
    losses = np.array([held["loss"] for held in found["rounds"]])
    assert (
        len(losses) == 5
        and losses[0, 0] == 0
        and losses[2:, 0].min() > 0
        and losses[:, 1].min() > 0
    )
    paid = np.array([held["paid"] for held in found["rounds"]])
    assert ((paid > 0) == (losses > 0)).all() and audited(running) == []
    assert found["absences"] and {one["name"] for one in found["absences"]} == {"ann"}
    assert gap(found, running.owners, sale=2) <= 1e-10


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
    app = shutil.copytree(
        federation.APP, tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__")
    )
    thief = app / "hdpm_market" / "client.py"
    targets = [
        str(own / name) for own in running.owners for name in ("data.npz", "ledger.sqlite", "key")
    ]
    theft = THEFT.format(targets=targets) + "    with socket.socket(socket.AF_UNIX"
    thief.write_text(thief.read_text().replace("    with socket.socket(socket.AF_UNIX", theft))
    monkeypatch.setattr(running, "app", app)
    found = running.run(test, rounds=1, **PLAN)
    assert len(found["absences"]) == 2 and found["rounds"] == []
    assert all(f"stolen: {['PermissionError'] * 6}" in one["reason"] for one in found["absences"])


def test_over_tls_with_registered_keys(tmp_path: Path) -> None:
    """The same market, encrypted; a node whose key nobody registered is not let in."""
    with small(tmp_path, secure=True) as (running, test):
        found = running.run(test, rounds=1, **PLAN)
        assert gap(found, running.owners, sale=1) <= 1e-10 and found["absences"] == []
        running.kill("node-ann")
        keys = running.folder / "certificates"
        federation.certificates.make(keys / "other", ["ann"])
        shutil.copy(keys / "other" / "ann.key", keys / "ann.key")
        running.start_supernode(running.owners[0])
        said = running.folder / "logs" / "superlink.log"
        wait_for(lambda: "Attempted to register SuperNode with public key" in said.read_text())
        again = (
            (running.folder / "logs" / "node-ann.log")
            .read_text()
            .split("Starting Flower SuperNode")[2]
        )
        assert "SuperNode ID" not in again


def test_a_node_that_trusts_a_few_takes_no_unsigned_app(tmp_path: Path) -> None:
    """``--trusted-entities``: signatures come from Flower's hub only, so that a market of one's own
    is refused.
    """
    key = (
        Ed25519PrivateKey.generate()
        .public_key()
        .public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        .decode()
    )
    (trusted := tmp_path / "trusted.yaml").write_text(f"fpk_someone: '{key}'\n")
    with small(tmp_path, trusted=trusted) as (running, test):
        found = running.run(test, rounds=1, **PLAN)
        assert found["rounds"] == [] and len(found["absences"]) == 2
        assert "could not be verified" in (running.folder / "logs" / "node-ann.log").read_text()
    assert all(ledger.read(own) == [] for own in running.owners)


def test_in_simulation(tmp_path: Path) -> None:
    """Flower's own processes, by Ray: the same models."""
    pytest.importorskip("ray", reason="the extra simulation is not installed: no simulated markets")
    with small(tmp_path, simulated=True) as (running, test):
        found = running.run(test, rounds=2, **PLAN)
    assert found["absences"] == [] and gap(found, running.owners, sale=1) <= 1e-10


# --- the market's side, without processes -------------------------------------------------------

Node = Callable[[dict[str, Any]], Any]
Hire = Callable[..., Owner]


class Post:
    """A grid whose nodes are functions from letters to answers, or to the content of a reply as it
    is.
    """

    def __init__(self, nodes: dict[int, Node]) -> None:
        self.nodes = nodes

    def get_node_ids(self) -> list[int]:
        """Who is online."""
        return list(self.nodes)

    def send_and_receive(self, messages: Iterable[Message], **_: Any) -> list[Message]:
        """Carry letters as the client does, but in this process."""
        replies = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = "letter"
            request = dict(message.content["letter"])
            if "model" in message.content:
                request["model"] = message.content["model"]["w"].numpy().tolist()
            answer = self.nodes[message.metadata.dst_node_id](request)
            if isinstance(answer, dict):
                content = RecordDict()
                if "steps" in answer:
                    content["steps"] = ArrayRecord({"s": Array(np.array(answer.pop("steps")))})
                content["answer"] = ConfigRecord({"text": json.dumps(answer)})
                answer = content
            if answer is not None:  # no answer at all
                replies.append(Message(answer, reply_to=message))
        return replies


@pytest.fixture
def hire(hire: Hire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hire:
    """Owners who approve of a market that is held in this process; letters may be written though
    there is no run.
    """
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    return partial(hire, key=Key(tmp_path / "key").public)


@pytest.fixture
def two(hire: Hire) -> list[Owner]:
    return [hire("ann", epsilon=20.0), hire("bea", epsilon=4.0)]


def held(
    nodes: dict[int, Node],
    place: Path,
    rounds: int = 2,
    until: int | None = None,
    resume: bool = False,
    **plan: Any,
) -> server.Market:
    """A market that was held with these nodes, up to some round, or goes on there."""
    agreed = Agreement.read(place / "ann" / "schema.toml")
    chosen = server.Plan(rounds, **PLAN | {"wait": 5.0} | plan)
    market = server.Market(list(nodes), chosen, agreed, Key(place / "key"), Book(place / "book"))
    grid = Post(nodes)
    market.resume(grid) if resume else market.open(grid)
    for _ in range(market.done, rounds if until is None else until):
        letters = market.configure_train(1, ArrayRecord(), ConfigRecord(), grid)
        market.aggregate_train(1, grid.send_and_receive(letters))
        market.configure_evaluate(1, ArrayRecord(), ConfigRecord(), grid)
    return market


def text(content: Any) -> RecordDict:
    """A reply that carries a text, or something else, in its place."""
    return RecordDict({"answer": ConfigRecord({"text": content})})


def resigned(own: Owner, answer: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A bid with changes that its owner has signed."""
    text = canonical(json.loads(answer["bid"]) | changes)
    return {"bid": text, "signature": own.key.sign(text)}


BIDS = [
    {"rate": -1.0},
    {"rate": "dear"},
    {"name": 7},
    {"limit": [1.0, 2.0]},
    {"clip_norm": 9.0},
    {"schema": "0"},
]
ANSWERS: dict[str, Any] = {
    "a refusal": text(json.dumps({"refused": "nothing is left"})),
    "an object that is no bid": {"hello": "world"},
    "a text": text(json.dumps("refused, sorry")),
    "a number": text("5"),
    "no JSON": text("{"),
    "endless brackets": text("[" * 100_000),
    "a number for a text": text(5),
    "ten million characters": text("x" * 10**7),
    "nothing in the reply": RecordDict(),
    "an error": Error(0, "out of memory"),
    "silence": None,
}
RELEASES: dict[str, dict[str, Any]] = {
    "of another shape": {"steps": [[1]]},
    "of floats": {"steps": [[0.5] * 3] * 2},
    "of words": {"steps": [["a"] * 3] * 2},
    "beyond what noise explains": {"steps": [[2**50] * 3] * 2},
    "of the most negative number": {"steps": [[-(2**63)] * 3] * 2},
    "that was made up": {"steps": [[7] * 3] * 2},
    "with another signature": {"signature": "00" * 64},
    "with another receipt": {"receipt": "00" * 64},
}
Spoil = Callable[[Owner, dict[str, Any]], Any]
NONE: dict[tuple[str, str], Spoil] = {
    ("bid", str(change)): partial(resigned, **change) for change in BIDS
}
for what, change in RELEASES.items():
    NONE["release", what] = lambda own, answer, change=change: answer | change
for when, (what, one) in product(("always", "release"), ANSWERS.items()):
    NONE[when, what] = lambda own, answer, one=one: one


@pytest.mark.parametrize(("when", "what"), NONE)
def test_an_answer_that_is_none_stops_nobody_else(
    two: list[Owner], tmp_path: Path, when: str, what: str
) -> None:
    """Nothing of hers counts, why is known, and the others' market is held."""
    ann, bea = two

    def spoilt(request: dict[str, Any]) -> Any:
        answer = bea.open_letter(request)
        return (
            NONE[when, what](bea, answer)
            if when in ("always", json.loads(request["text"])["ask"])
            else answer
        )

    market = held({1: ann.open_letter, 2: spoilt}, tmp_path)
    assert {one["reason"] != "" for one in market.absences} == {True}
    for one in market.book.rounds:
        assert np.isfinite(one["model"]).all() and np.abs(one["model"]).max() > 0
        assert one["loss"][0] > 0 and sum(one["loss"][1:]) == sum(one["paid"][1:]) == 0
    assert {
        json.loads(row["receipt"])["owner"] for row in receipts.kept(Path(market.book.folder))
    } == {"ann"}


def test_of_two_nodes_with_one_name_neither_is_taken(two: list[Owner], tmp_path: Path) -> None:
    ann, bea = two
    third = owner_of(tmp_path / "third", key=Key(tmp_path / "key").public, name="bea")
    market = held(dict(enumerate(own.open_letter for own in (ann, bea, third))), tmp_path)
    third.ledger.close()
    assert [one.bid["name"] for one in market.sellers] == ["ann"]
    assert [one["reason"] for one in market.absences] == ["2 nodes have the name bea"] * 2


def test_a_market_that_died_anywhere_goes_on_as_if_it_had_not(
    two: list[Owner], tmp_path: Path
) -> None:
    """After a round, and after a round was asked for and before it was written down; nodes have
    other numbers then.
    """
    ann, bea = two
    first = held({1: ann.open_letter, 2: bea.open_letter}, tmp_path, rounds=4, until=1)
    letters = first.configure_train(1, ArrayRecord(), ConfigRecord(), Post({}))
    lost = Post({1: ann.open_letter, 2: bea.open_letter}).send_and_receive(letters)
    assert len(lost) == 2 and ann.ledger.number == 3
    first.book.close()
    again = held({7: bea.open_letter, 8: ann.open_letter}, tmp_path, rounds=4, resume=True)
    rows = receipts.kept(tmp_path / "book")
    assert len(rows) == 8 and again.absences == [] and ann.ledger.number == bea.ledger.number == 5
    assert (
        receipts.compared(
            rows, {own.terms.name: ledger.read(tmp_path / own.terms.name) for own in two}
        )
        == []
    )
    with pytest.raises(ValueError, match="has another plan"):
        held({7: bea.open_letter, 8: ann.open_letter}, tmp_path, rounds=5, resume=True)


def test_who_comes_back_at_another_node_is_asked_again(two: list[Owner], tmp_path: Path) -> None:
    ann, bea = two
    nodes: dict[int, Node] = {1: ann.open_letter, 2: bea.open_letter}
    market = held(nodes, tmp_path, rounds=4, until=1)
    grid = Post(nodes | {2: lambda _: None})
    for _ in range(3):
        letters = market.configure_train(1, ArrayRecord(), ConfigRecord(), grid)
        market.aggregate_train(1, grid.send_and_receive(letters))
        grid = Post({1: ann.open_letter, 9: bea.open_letter})
    losses = np.array([one["loss"] for one in market.book.rounds])
    assert ((losses > 0) == [[True, True], [True, False], [True, True], [True, True]]).all()
    assert {one["name"] for one in market.absences} == {"bea"}


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_where_a_record_is_protected_a_step_is_that_of_all_records(
    hire: Hire, tmp_path: Path, noise: str
) -> None:
    """With a loss so large that noise is small: the mean of all records' clipped gradients."""
    rng = np.random.default_rng(2)
    kind = {"unit": "record", "noise": noise}
    terms = kind | {"epsilon": 1e7, "delta": 1e-5, "limit": 2e3}
    owners = [hire(name, people(n, rng), **terms) for name, n in (("ann", 30), ("bea", 70))]
    market = held(
        {k: own.open_letter for k, own in enumerate(owners)}, tmp_path, rounds=1, budget=1e9, **kind
    )
    x, y = (
        np.concatenate([getattr(own, part) for own in owners]) for part in ("_features", "_labels")
    )
    steps = record_steps(
        np.zeros((2, 3)), x, y, 1.0, Terms.spacing, norm=2 if noise == "gaussian" else 1
    )
    assert np.allclose(market.model, -2.0 * steps * Terms.spacing / 100, atol=2e-3)


def test_one_liar_moves_a_robust_market_less(hire: Hire, tmp_path: Path) -> None:
    """Five owners of the same law, one of whom has turned all labels and sends long gradients."""
    rng = np.random.default_rng(3)
    owners = []
    kind = {"unit": "record", "noise": "gaussian"}
    terms = kind | {"epsilon": 1e4, "delta": 1e-5, "limit": 50.0}
    for name in ("ann", "bea", "cem", "dan", "eve"):
        rows = people(200, rng)
        rows["ill"] = np.where((rows["a"] > 0.5) == (name != "eve"), "yes", "no")
        owners.append(hire(name, rows, **terms))
    owners[4]._features *= 50
    nodes = {k: own.open_letter for k, own in enumerate(owners)}
    slopes = []
    for aggregate in ("least error", "trimmed mean", "krum"):
        shutil.rmtree(tmp_path / "book", ignore_errors=True)
        market = held(nodes, tmp_path, rounds=3, aggregate=aggregate, liars=1, budget=1e9, **kind)
        assert not market.absences
        slopes.append(market.model[1, 0] - market.model[0, 0])
    assert min(slopes[1:]) > max(slopes[0], 0.1)  # who is ill has a large value of a


@pytest.mark.parametrize("part", ["rule", "aggregate"])
def test_an_unknown_rule_is_named(part: str) -> None:
    with pytest.raises(ValueError, match=f"{part} must be one of .*, got first come"):
        server.Plan(1, **{part: "first come"})
