"""Owners who are lied to, owners who die, and a market of processes beside the same market in one process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from hdpm_lib.aggregation import least_error_weights
from hdpm_lib.learners import fedsgd as fedsgd_module
from hdpm_lib.learners.integer_answers import gradient_noise
from hdpm_owner.owner import Owner, Terms, stream

Answer = dict[str, Any]
Array = NDArray[np.float64]
Row = dict[str, Any]

# --- an owner, asked in this process ----------------------------------------------------------------------------------

TERMS = Terms("ann", "linear", rate=1.0, limit=1.0, total=3.0, classes=2, features=3)
MODEL = ((0.0, 0.0, 0.0), (0.1, 0.0, -0.1))


def owner_of(folder: Path, **changes: Any) -> Owner:
    """An owner of forty records, in a folder that is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    terms = {name: value for name, value in (vars(TERMS) | changes).items() if value is not None}
    (folder / "terms.toml").write_text("".join(f"{name} = {json.dumps(x)}\n" for name, x in terms.items()), "utf8")
    if not (folder / "data.npz").exists():
        rng = np.random.default_rng(0)
        np.savez(folder / "data.npz", features=rng.random((40, 3)), labels=rng.integers(2, size=40))
    return Owner(folder)


def sell(owner: Owner, losses: Sequence[float], payment: float = 1e6) -> str:
    """Sell these losses to a market that pays well; the ticket."""
    ticket = owner.answer({"ask": "bid", "rounds": len(losses)})["ticket"]
    terms = {"ticket": ticket, "records": owner.records, "losses": list(losses), "payments": [payment] * len(losses)}
    assert owner.answer({"ask": "sale"} | terms) == {"sold": ticket}
    return ticket


def ask(owner: Owner, ticket: str, round: int, loss: float = 1.0, model: Any = MODEL) -> Answer:
    """Ask for the release of a round."""
    return owner.answer({"ask": "release", "ticket": ticket, "round": round, "loss": loss, "model": model})


# What a market may try that has bought a loss of 1 in round 1 and nothing in round 2, and the answer that counts.
LIES: dict[str, Callable[[Owner, str], Answer]] = {
    "asks twice, at another model": lambda own, t: (ask(own, t, 1), ask(own, t, 1, model=[[1.0] * 3] * 2))[1],
    "asks twice, with the same letter": lambda own, t: (ask(own, t, 1), ask(own, t, 1))[1],
    "asks for more than was sold": lambda own, t: ask(own, t, 1, 1.5),
    "says that less was sold": lambda own, t: ask(own, t, 1, 0.5),
    "asks in a round in which nothing was sold": lambda own, t: ask(own, t, 2, 0.0),
    "asks in a round after the last": lambda own, t: ask(own, t, 3),
    "asks in round 0": lambda own, t: ask(own, t, 0),
    "invents a ticket": lambda own, t: ask(own, "0" * 32, 1),
    "comes with the ticket of a sale that a later one closed": lambda own, t: (sell(own, [1.0]), ask(own, t, 1))[1],
    "offers the same sale twice": lambda own, t: _offer(own, t, {}),
    "counts her with fewer records": lambda own, t: _offer(own, None, {"records": 4}),
    "offers more than she bid": lambda own, t: _offer(own, None, {"losses": [1.0, 1.25]}),
    "pays less than her cost": lambda own, t: _offer(own, None, {"payments": [1e6, 79.0]}),
    "pays what is no number": lambda own, t: _offer(own, None, {"payments": [float("nan"), 1e6]}),
    "buys a negative loss": lambda own, t: _offer(own, None, {"losses": [1.0, -1.0]}),
    "forgets a payment": lambda own, t: _offer(own, None, {"payments": [1e6]}),
    "buys a loss too small for her noise": lambda own, t: _offer(own, None, {"losses": [1.0, 1e-12]}),
    "sends a model of another shape": lambda own, t: ask(own, t, 1, model=[[0.0] * 4] * 2),
    "sends a model that is no number": lambda own, t: ask(own, t, 1, model=[[float("nan")] * 3] * 2),
    "asks for her data": lambda own, t: own.answer({"ask": "data"}),
    "tells her which seed to use": lambda own, t: own.answer({"ask": "bid", "rounds": 1, "seed": 1}),
    "asks in no words": lambda own, t: own.answer(None),
}


def _offer(owner: Owner, ticket: str | None, changes: Answer) -> Answer:
    ticket = ticket or owner.answer({"ask": "bid", "rounds": 2})["ticket"]
    offer = {"ticket": ticket, "records": owner.records, "losses": [1.0, 1.0], "payments": [1e6, 80.0]}
    return owner.answer({"ask": "sale"} | offer | changes)


# --- death at any moment ----------------------------------------------------------------------------------------------


def deaths(place: Path) -> dict[str, int]:
    """Kill an owner at every line of a round in turn, the last first; start her again and ask for the same round.

    Found: the `lines` of her code in a round; how often releases of one round were had `twice`; how many deaths `lost`
    a round, which is counted though nobody got it. The process that calls this must have one thread.
    """
    lines, twice, lost, step = 0, 0, 0, 10**9  # at first to the end
    while step > 0:
        folder = place / str(step)
        owner = owner_of(folder, seed=3)  # which makes each round run the same lines
        ticket = sell(owner, [1.0])
        owner.ledger.close()
        out, ran = _round_in_a_child(folder, ticket, step)
        owner = Owner(folder)
        counted, again = owner.ledger.spent == 1, "gradient" in ask(owner, ticket, 1)
        owner.ledger.close()
        twice, lost = twice + (out and again), lost + (counted and not out)
        lines = lines or ran
        step = min(step - 1, lines)
    return {"lines": lines, "twice": twice, "lost": lost}


def _round_in_a_child(folder: Path, ticket: str, step: int) -> tuple[bool, int]:
    """Ask in a forked child that is killed at its `step`-th line: whether the answer was out, and lines run."""
    here, there = Pipe(duplex=False)
    if child := os.fork():
        there.close()
        os.waitpid(child, 0)
        try:
            answer, lines = json.loads(here.recv_bytes())
        except EOFError:
            return False, step
        finally:
            here.close()
        return "gradient" in answer, lines
    lines = 0

    def killer(frame: Any, event: str, _: Any) -> Any:
        nonlocal lines
        if "hdpm_owner" not in Path(frame.f_code.co_filename).parts:
            return None  # the library touches no disk
        if event == "line":
            lines += 1
            if lines == step:
                os.kill(os.getpid(), signal.SIGKILL)
        return killer

    owner = Owner(folder)
    sys.settrace(killer)
    answer = ask(owner, ticket, 1)
    sys.settrace(None)
    there.send_bytes(json.dumps([answer, lines]).encode())
    os._exit(0)


def deaths_in_a_process(place: Path) -> dict[str, int]:
    """:func:`deaths`, in a process that may fork."""
    code = "import sys, json, pathlib; from tests.federation.parts import deaths; "
    code += "print(json.dumps(deaths(pathlib.Path(sys.argv[1]))))"
    command = [sys.executable, "-c", code, str(place)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout)


# --- the same market in one process -----------------------------------------------------------------------------------


def gap(found: Row, owners: Sequence[Path], sale: int, learning_rate: float = 2.0) -> float:
    """Largest difference between the models of a market of processes and those of ``fedsgd`` in this one.

    The owners' noise comes from the same streams, of the `sale`-th sale of each; privacy losses are of what arrived.
    """
    terms = [tomllib.loads((own / "terms.toml").read_text("utf8")) for own in owners]
    assert [one["name"] for one in terms] == found["names"]
    parts = [np.load(own / "data.npz") for own in owners]
    features, labels = (np.concatenate([part[name] for part in parts]) for name in ("features", "labels"))
    ends = np.cumsum([len(part["labels"]) for part in parts])
    losses, paid = (np.array([held[name] for held in found["rounds"]])[:, None] for name in ("loss", "paid"))
    number = iter(range(1, len(losses) + 1))

    def noise(epsilon: Array, *grid: Any, rng: np.random.Generator) -> NDArray[np.int64]:
        now = next(number)
        streams = [stream(one["seed"], sale, now) for one in terms]
        return np.concatenate([gradient_noise([e], *grid, rng=own) for e, own in zip(epsilon, streams, strict=True)])

    with mock.patch.object(fedsgd_module, "gradient_noise", noise):
        trained = fedsgd_module.fedsgd(
            features,
            labels,
            [np.split(np.arange(ends[-1]), ends[:-1])],
            [[one["limit"] for one in terms]],
            np.tile(np.arange(len(terms)), (len(losses), 1, 1)),
            {"OptAggr": least_error_weights},
            np.zeros((terms[0]["classes"], features.shape[1])),
            rng=np.random.default_rng(0),
            auction=lambda _: fedsgd_module.Bought(losses, paid, paid.sum(axis=2)),
            learning_rate=learning_rate,
            every=1,
            spacing=Terms.spacing,
        )
    models = np.array([held["model"] for held in found["rounds"]])
    return float(np.abs(trained.parameters("OptAggr")[1:, 0] - models).max())


def wait_for(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    """Until a condition holds; an error if it does not within some time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"nothing happened within {seconds:g} s")
        time.sleep(0.05)


def small(federation: Any, folder: Path) -> tuple[list[Path], Path]:
    """Two owners with seeds and a hundred records, and test data of the market."""
    rng, owners = np.random.default_rng(5), []
    for i, (name, n) in enumerate((("ann", 60), ("bea", 40))):
        terms = Terms(name, ("linear", "quadratic")[i], 1.0, 2.0, 20.0, classes=2, features=3, seed=10 + i)
        owners.append(federation.prepare(folder, terms, rng.random((n, 3)), rng.integers(2, size=n)))
    np.savez(folder / "test.npz", features=rng.random((50, 3)), labels=rng.integers(2, size=50))
    return owners, folder / "test.npz"
