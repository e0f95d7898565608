"""Federations of real processes: compared with the same market in one process, and killed part by part.

``python -m hdpm_book.beyond.federations``, in a checkout and with the extras ``flower`` and ``simulation``, stores what
happened in ``data/studies`` for the page :doc:`/book/beyond/owners`; about ten minutes, or less for some parts.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from hdpm_book.beyond.owners import STUDY
from hdpm_book.records import provenance
from hdpm_lib.aggregation import least_error_weights
from hdpm_lib.learners import fedsgd as fedsgd_module
from hdpm_lib.learners.integer_answers import gradient_noise
from hdpm_owner.owner import Terms, stream

Array = NDArray[np.float64]
Row = dict[str, Any]
FLOWER = Path(__file__).resolve().parents[2] / "flower"

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


def releases(own: Path) -> list[Row]:
    """The lines of an owner's ledger that are releases."""
    lines = [json.loads(line) for line in (own / "ledger.jsonl").read_text("utf8").splitlines()]
    return [line for line in lines if line["entry"] == "release"]


def wait_for(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    """Until a condition holds; an error if it does not within some time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"nothing happened within {seconds:g} s")
        time.sleep(0.05)


# --- the record -------------------------------------------------------------------------------------------------------


def small(federation: Any, folder: Path) -> tuple[list[Path], Path]:
    """Two owners with seeds and a hundred records, and test data of the market."""
    rng, owners = np.random.default_rng(5), []
    for i, (name, n) in enumerate((("ann", 60), ("bea", 40))):
        terms = Terms(name, ("linear", "quadratic")[i], 1.0, 2.0, 20.0, classes=2, features=3, seed=10 + i)
        owners.append(federation.prepare(folder, terms, rng.random((n, 3)), rng.integers(2, size=n)))
    np.savez(folder / "test.npz", features=rng.random((50, 3)), labels=rng.integers(2, size=50))
    return owners, folder / "test.npz"


def compared(federation: Any, folder: Path) -> list[Row]:
    """Markets in several ways, and how far their models are from those of one process."""
    rows = []
    ways: dict[str, tuple[Row, Row]] = {
        "posted prices": ({}, {}),
        "repaired All-in": ({}, {"rule": "all-in"}),
        "learned menus": ({}, {"rule": "menus"}),
        "posted prices, TLS and registered keys": ({"secure": True}, {}),
        "posted prices, Flower's simulation": ({"simulated": True}, {}),
    }
    for number, (name, (how, config)) in enumerate(ways.items()):
        owners, test = small(federation, folder / f"owners-{number}")
        with federation.Federation(folder / f"market-{number}", owners, **how) as running:
            found = running.run(test, rounds=3, budget=300.0, **config)
        rows.append({"market": name, "rounds": len(found["rounds"]), "gap": gap(found, owners, 1)} | _seconds(found))
    return rows


def _all_sent(owners: Sequence[Path]) -> bool:
    return all(map(releases, owners))


def _seconds(found: Row) -> Row:
    return {"seconds a round": round(float(np.mean([held["seconds"] for held in found["rounds"]])), 1)}


def killed(federation: Any, folder: Path) -> list[Row]:
    """Parts of a market killed in mid-run, and what became of it."""
    rows = []
    for number, (name, kill) in enumerate(KILLS.items()):
        owners, test = small(federation, folder / f"owners-{number}")
        with federation.Federation(folder / f"market-{number}", owners) as running:
            out = running.start_run(test, rounds=4, budget=300.0, wait=20.0)
            wait_for(partial(_all_sent, owners))
            kill(running, owners)
            found = running.result(out)
        arrived = np.array([held["loss"] for held in found["rounds"]])
        sent = [sum(line["loss"] for line in releases(own)) for own in owners]
        rows.append(
            {
                "killed": name,
                "rounds held": len(found["rounds"]),
                "without her": int((arrived[:, 0] == 0).sum()),
                "longest round, s": round(max(held["seconds"] for held in found["rounds"]), 1),
                "her ledger, rounds": len(releases(owners[0])),
                "never too little": bool((arrived.sum(axis=0) <= np.array(sent) * (1 + 1e-12)).all()),
                "gap": gap(found, owners, 1),
            }
        )
    return rows


def _kill_owner(running: Any, owners: Sequence[Path]) -> None:
    """Her process dies, and is started again when the other has sent another round."""
    running.kill(f"owner-{owners[0].name}")
    there = len(releases(owners[1]))
    wait_for(lambda: len(releases(owners[1])) > there)
    running.start_owner(owners[0])


def _kill_messenger(running: Any, owners: Sequence[Path]) -> None:
    """The process in which what the market ships is run, as soon as the next one is there."""
    group = running.processes[f"node-{owners[0].name}"].pid
    wait_for(lambda: not _messengers(group))
    wait_for(lambda: bool(_messengers(group)))
    for process in _messengers(group):
        os.kill(process, signal.SIGKILL)


def _messengers(group: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            if b"flwr-clientapp" in command and os.getpgid(int(entry.name)) == group:
                found.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _kill_supernode(running: Any, owners: Sequence[Path]) -> None:
    running.kill(f"node-{owners[0].name}")


KILLS: dict[str, Callable[[Any, Sequence[Path]], None]] = {
    "nothing": lambda running, owners: None,
    "her process, started again": _kill_owner,
    "the market's client at her": _kill_messenger,
    "her SuperNode, for good": _kill_supernode,
}


def trained(federation: Any, folder: Path) -> Row:
    """The demonstration: three owners, ten rounds, and what their own ledgers say."""
    owners, test = federation.shards(folder / "owners")
    with federation.Federation(folder / "market", owners) as running:
        found = running.run(test, rounds=10, budget=federation.BUDGET)
    ledgers = []
    for own, records in zip(owners, found["records"], strict=True):
        terms, lines = tomllib.loads((own / "terms.toml").read_text("utf8")), releases(own)
        told = {"owner": own.name, "records": records, "rounds": len(lines)}
        told |= {"lost": float(sum(Fraction(line["loss"]) for line in lines))}
        ledgers.append(told | {name: terms[name] for name in ("limit", "total")})
    return found | {"ledgers": ledgers}


PARTS: dict[str, Callable[[Any, Path], Any]] = {"training": trained, "runs": compared, "kills": killed}


def main(arguments: list[str] | None = None) -> None:
    """Command line: make the record anew, or some parts of it."""
    parser = argparse.ArgumentParser(prog="python -m hdpm_book.beyond.federations", description=main.__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help=f"of {', '.join(PARTS)}; default: all")
    parts = parser.parse_args(arguments).parts or list(PARTS)
    sys.path.insert(0, str(FLOWER))
    import federation

    found = json.loads(STUDY.read_text("utf8")) if STUDY.exists() else {}
    for name in parts:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = PARTS[name](federation, Path(folder))
        found |= provenance("flwr", "numpy")
        STUDY.write_text(json.dumps(found, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
