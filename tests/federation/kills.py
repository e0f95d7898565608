"""Kill owners, SuperNodes, the market and the SuperLink at random moments: ``python -m
tests.federation.kills``, in `make nightly`.

Whatever dies, and a SuperNode that hangs, is started again as `flower/README.md` says. At the end
ledgers and receipts must tell the same, nobody is paid twice, and each death has cost an owner at
most one release that no receipt tells of. Exit status 1 if not.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np

import federation
from hdpm_owner import audit, ledger, receipts
from tests.federation.parts import PLAN, small

SHARES = (0.4, 0.2, 0.2, 0.2)
HANGS = 120.0  # seconds after which an owner who gives no answer has a SuperNode that hangs


def stop_market(running: federation.Federation) -> None:
    """SIGKILL to the process of the market that runs; its run is given up."""
    group = str(running.processes["superlink"].pid)
    subprocess.run(["pkill", "-9", "-g", group, "-x", "flwr-serverapp"], check=False)
    time.sleep(5)  # a SuperNode that is at work when its run is given up may hang (flwr 1.41)
    for run in running.unfinished():
        with suppress(RuntimeError):  # it has ended meanwhile
            running.flwr("stop", run, "market")


def unanswered(run: Path) -> set[str]:
    """Owners whom a market reports with "no answer", and has not paid since."""
    state = receipts.state(run)
    found = {one["name"]: one for one in state.get("absences", [])}
    for held in receipts.rounds(run):
        for one, paid in zip(state["roster"].values(), held["paid"], strict=False):
            if paid and found.get(one["name"], held)["round"] < held["round"]:
                del found[one["name"]]
    return {name for name, one in found.items() if one["reason"].startswith("no answer")}


def revive(running: federation.Federation, run: Path, heard: dict[str, float]) -> None:
    """Start the SuperNodes again that have ended: with the SuperLink, or killed, and then refused
    for some time because the SuperLink takes them for alive; and those that hang. `heard` tells
    when the owners last were not silent.
    """
    silent = unanswered(run) if running.rounds(run) else set()
    for own in running.owners:
        if own.name not in silent:
            heard[own.name] = time.monotonic()
        hangs = time.monotonic() - heard.setdefault(own.name, time.monotonic()) > HANGS
        if hangs or running.processes[f"node-{own.name}"].poll() is not None:
            print(f"the SuperNode of {own.name} {'hangs' if hangs else 'has ended'}", flush=True)
            del heard[own.name]
            running.kill(f"node-{own.name}")
            running.start_supernode(own)


def main(number: int = 50) -> int:
    """Kill so many times; exit status 1 if something is wrong."""
    rng = np.random.default_rng(0)
    # rounds enough that the market does not end before the last kill
    plan = PLAN | {"wait": 60.0, "rounds": 3 * number, "quorum": 2, "budget": 3000.0}
    heard: dict[str, float] = {}
    done = Counter[str]()
    with tempfile.TemporaryDirectory() as place, small(Path(place), 3) as (running, test):
        run = running.start_run(test, **plan)
        for _ in range(number):
            time.sleep(rng.uniform(1, 12))
            revive(running, run, heard)
            if (run / "found.json").exists():
                break
            what = str(rng.choice(["owner", "SuperNode", "market", "SuperLink"], p=SHARES))
            done[what] += 1
            own = running.owners[rng.integers(3)]
            print(
                f"kill {done.total()}: {what}, after {len(running.rounds(run))} rounds", flush=True
            )
            if what == "owner":
                running.kill(f"owner-{own.name}")
                time.sleep(rng.uniform(0, 3))
                running.start_owner(own)
            elif what == "SuperNode":
                os.killpg(running.processes[f"node-{own.name}"].pid, signal.SIGKILL)
            else:
                if what == "SuperLink":
                    running.kill("superlink")
                    running._start_superlink()
                    revive(running, run, heard)
                stop_market(running)
                if not (run / "found.json").exists():
                    running.start_run(test, run, resume=True, **plan)
                before = len(running.rounds(run))
                # a slow machine would never hold a round
                federation.wait_for(lambda before=before: len(running.rounds(run)) > before, 90)
        end = time.monotonic() + 1800
        while not federation.wait_for((run / "found.json").exists, 5) and time.monotonic() < end:
            revive(running, run, heard)
        found = running.result(run, 60)
        rows = receipts.kept(run)
        ledgers = {own.name: ledger.read(own) for own in running.owners}
        told = json.loads(json.dumps(ledgers))
        cells = audit.audit([receipts.Book.read(run)], told, models=True)
    wrong = [str(one) for one in audit.wrong(cells)]
    entries = [row for book in ledgers.values() for row in book["entries"]]
    lost = sum(row["entry"] == "release" for row in entries) - len(rows)
    paid = np.array([held["paid"] for held in found["rounds"]])
    unpaid = sum(row["owed"] for row in receipts.owed(rows)) - paid.sum()
    sellers = Counter((paid > 0).sum(axis=1).tolist())
    print(
        f"killed {dict(done)}, {len(paid)} rounds, by number of sellers {dict(sellers)}, the last"
        f" by {(paid[-1] > 0).sum()}, {lost} releases lost, {unpaid:g} unpaid, {wrong}"
    )
    print("the last absences:", *found["absences"][-5:], sep="\n")
    good = (
        done.total() == number
        and 0 <= lost <= 2 * done.total()
        and abs(unpaid) < 1e-3
        and (paid[-5:] > 0).any(0).all()
    )
    return int(bool(wrong) or not good)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
