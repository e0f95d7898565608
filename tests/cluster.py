"""A scheduler and workers on this machine, and studies that are killed on the way."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hdpm_lib import spread
from hdpm_lib.validation import extra
from tests import spread_tasks

PATIENCE = 60  # seconds


@contextmanager
def on_cluster(address: str) -> Iterator[Any]:
    """Blocks run on the workers of a scheduler; gives the client."""
    with extra("cluster"):
        from distributed import Client

    with Client(address) as client:
        before = spread.use(client)
        try:
            yield client
        finally:
            spread.use(before)


# Dask's nannies make workers hand freed memory back to the system at once, which costs programs with large arrays up to
# half of their time. These two settings let them keep it, as any other process does.
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "1000000000", "MALLOC_MMAP_THRESHOLD_": "1000000000"}


@contextmanager
def two_workers() -> Iterator[str]:
    """Address of a scheduler with two workers of one thread each, all processes of their own, on loopback."""
    with extra("cluster"):
        from distributed import Client

    dask, loopback = [sys.executable, "-m", "dask"], ["--host", "127.0.0.1", "--no-dashboard"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        file = ["--scheduler-file", str(folder / "scheduler.json")]
        worker = [*dask, "worker", *file, *loopback, "--nthreads", "1", "--memory-limit", "2GiB"]
        commands = [[*dask, "scheduler", *file, *loopback, "--port", "0"]]
        commands += [[*worker, "--local-directory", str(folder / str(k))] for k in range(2)]
        with (folder / "log").open("wb") as log:
            options: Any = {"stdout": log, "stderr": log, "start_new_session": True, "env": os.environ | KEEP_MEMORY}
            started = [subprocess.Popen(command, **options) for command in commands]
            try:
                address = _address(folder / "scheduler.json")
                with Client(address, timeout=PATIENCE) as client:
                    client.wait_for_workers(2, timeout=PATIENCE)
                yield address
            finally:
                for process in started:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()


def _address(file: Path) -> str:
    """Where the scheduler listens, when it has said so."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            return str(json.loads(file.read_text("utf8"))["address"])
        except (OSError, ValueError):
            time.sleep(0.05)
    raise TimeoutError("the scheduler did not start within a minute")


@contextmanager
def local_cluster() -> Iterator[str]:
    """Address of Dask's own cluster of two processes, started from this one."""
    with extra("cluster"):
        import dask
        from distributed import LocalCluster

    options: dict[str, Any] = {"threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    settings = {f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in KEEP_MEMORY.items()}
    with dask.config.set(settings), LocalCluster(n_workers=2, **options) as cluster:
        yield str(cluster.scheduler_address)


# --- studies that are killed ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Killed:
    """What happened: the error, blocks in the folder in the end, and whether all that is kept is right."""

    happened: str
    kept: int
    same: bool


def study(folder: str | Path, tasks: int) -> list[float]:
    """Draws that take their time, with a folder of blocks."""
    return spread.each(spread_tasks.slow, [0.01] * tasks, seed=19, folder=folder)


def draws(tasks: int) -> list[float]:
    """What such a study gives if nobody dies."""
    return [float(np.random.default_rng(np.random.SeedSequence(19, spawn_key=(k,))).random()) for k in range(tasks)]


def _kept(folder: Path) -> dict[int, Any]:
    """Results that are stored, by their numbers."""
    return {int(file.stem[6:]): pickle.loads(file.read_bytes()) for file in folder.glob("block-*.pickle")}


def attempt(tasks: int, watch: Callable[[Path], None]) -> Killed:
    """Run such a study where blocks run now, while `watch` does something to it."""
    with tempfile.TemporaryDirectory() as name:
        folder, happened = Path(name), "finished"
        watcher = threading.Thread(target=watch, args=(folder,))
        watcher.start()
        try:
            study(folder, tasks)
        except RuntimeError as error:
            happened = str(error)
        watcher.join()
        blocks, plain = _kept(folder), draws(tasks)
        return Killed(happened, len(blocks), all(found == plain[number] for number, found in blocks.items()))


def resumed(tasks: int, blocks: int, place: str) -> Killed:
    """Start a study in a process of its own, kill it with SIGKILL after some blocks, and go on with its folder here."""
    with tempfile.TemporaryDirectory() as name:
        code = f"from tests import cluster as m; m.spread.use({place!r}); m.study({name!r}, {tasks})"
        started = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stderr=subprocess.DEVNULL)
        try:
            _wait_for(Path(name), blocks)
        finally:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()
        kept = len(_kept(Path(name)))
        with on_cluster(place):
            return Killed("resumed", kept, study(name, tasks) == draws(tasks))


def kill(process: int, folder: Path) -> None:
    """SIGKILL, when some blocks are done."""
    _wait_for(folder, 5)
    os.kill(process, signal.SIGKILL)


def _wait_for(folder: Path, blocks: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while len(list(folder.glob("block-*.pickle"))) < blocks:
        if time.monotonic() > deadline:
            raise TimeoutError(f"fewer than {blocks} blocks in {PATIENCE} seconds")
        time.sleep(0.01)
