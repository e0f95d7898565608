"""Kill owners, the market and the SuperLink at random moments: ``python -m
tests.federation.kills``, in `make nightly`.

Whatever dies is started again as `flower/README.md` says. At the end ledgers and receipts must tell
the same, nobody is paid twice, and each death has cost an owner at most one release that no receipt
tells of. Exit status 1 if not.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
from tqdm import tqdm

import federation
from hdpm_owner import ledger, receipts
from tests.federation.parts import PLAN, small


def stop_market(running: federation.Federation) -> None:
    """SIGKILL to the process of the market that runs; its run is given up."""
    group = str(running.processes["superlink"].pid)
    subprocess.run(["pkill", "-9", "-g", group, "-x", "flwr-serverapp"], check=False)
    time.sleep(5)  # a SuperNode that is at work when its run is given up may hang (flwr 1.41)
    for one in json.loads(running.flwr("list", "market", "--format", "json"))["runs"]:
        if not one["status"].startswith("finished"):
            with suppress(RuntimeError):  # it has ended meanwhile
                running.flwr("stop", one["run-id"], "market")


def restart_superlink(running: federation.Federation) -> None:
    """SIGKILL to the SuperLink, which has a database; SuperNodes that end with it are started
    again.
    """
    running.kill("superlink")
    running._start_superlink()
    for own in running.owners:
        if running.processes[f"node-{own.name}"].poll() is not None:
            running.kill(f"node-{own.name}")
            running.start_supernode(own)


def main(number: int = 50, rounds: int = 60) -> int:
    """Kill so many times; exit status 1 if something is wrong."""
    rng = np.random.default_rng(0)
    plan = PLAN | {"wait": 20.0, "rounds": rounds}
    done = Counter[str]()
    with tempfile.TemporaryDirectory() as place, small(Path(place)) as (running, test):
        run = running.start_run(test, **plan)
        for _ in tqdm(range(number), unit="kill"):
            time.sleep(rng.uniform(1, 12))
            if (run / "found.json").exists():
                break
            what = ("owner", "market", "SuperLink")[rng.choice(3, p=[0.5, 0.3, 0.2])]
            done[what] += 1
            if what == "owner":
                own = running.owners[rng.integers(2)]
                running.kill(f"owner-{own.name}")
                time.sleep(rng.uniform(0, 3))
                running.start_owner(own)
                continue
            if what == "SuperLink":
                restart_superlink(running)
            stop_market(running)
            if not (run / "found.json").exists():
                running.start_run(test, run, resume=True, **plan)
        found = running.result(run, 1200)
        rows = receipts.kept(run)
        ledgers = {own.name: ledger.read(own) for own in running.owners}
    wrong = [line for line in receipts.compared(rows, ledgers) if "have no receipt" not in line]
    lost = sum(row["entry"] == "release" for entries in ledgers.values() for row in entries) - len(
        rows
    )
    unpaid = sum(row["owed"] for row in receipts.owed(rows)) - sum(
        sum(held["paid"]) for held in found["rounds"]
    )
    print(
        f"killed {dict(done)}, {len(found['rounds'])} rounds, {lost} releases lost, {unpaid:g}"
        f" unpaid, {wrong}"
    )
    return int(bool(wrong) or not 0 <= lost <= 2 * done.total() or abs(unpaid) > 1e-3)


if __name__ == "__main__":
    sys.exit(main())
