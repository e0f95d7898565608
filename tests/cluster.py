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
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hdpm_lib import spread
from hdpm_lib.validation import extra


@contextmanager
def on_processes(processes: int) -> Iterator[None]:
    """Blocks run on so many processes of this machine."""
    before = spread.use(processes)
    try:
        yield
    finally:
        spread.use(before)


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
                with Client(address, timeout=60) as client:
                    client.wait_for_workers(2, timeout=60)
                yield address
            finally:
                for process in started:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()


def _address(file: Path) -> str:
    """Where the scheduler listens, when it has said so."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            return str(json.loads(file.read_text("utf8"))["address"])
        except (OSError, ValueError):
            time.sleep(0.05)
    raise TimeoutError("the scheduler did not start within a minute")


@contextmanager
def local_cluster(workers: int = 2, memory: dict[str, str] = KEEP_MEMORY) -> Iterator[str]:
    """Address of Dask's own cluster of processes, started from this one, with these settings of their memory."""
    with extra("cluster"):
        import dask
        from distributed import LocalCluster

    options: dict[str, Any] = {"threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    settings = {f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in memory.items()}
    with dask.config.set(settings), LocalCluster(n_workers=workers, **options) as cluster:
        yield str(cluster.scheduler_address)


# --- studies that are killed ------------------------------------------------------------------------------------------


def victim(rng: np.random.Generator, number: int, doomed: int, deaths: int, marks: str) -> int:
    """A sum of integers; the process dies in the middle of one task, as often as is said.

    Each start leaves a mark in a folder.
    """
    folder = Path(marks)
    (folder / f"{number}-{uuid.uuid4().hex}").touch()
    first = rng.integers(2**40, size=10_000).sum()
    if number == doomed and len(list(folder.glob(f"{number}-*"))) <= deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    return int(first + rng.integers(2**40, size=10_000).sum())


def victims(folder: str, tasks: int, doomed: int = -1, deaths: int = 1) -> list[int]:
    """A study of such tasks, with a folder of blocks and one of marks in `folder`."""
    marks = Path(folder) / "marks"
    marks.mkdir(parents=True, exist_ok=True)
    return spread.each(victim, range(tasks), doomed, deaths, str(marks), seed=19, folder=Path(folder) / "blocks")


@dataclass(frozen=True)
class Killed:
    """What happened: the error, blocks in the folder in the end, and whether all that is kept is right."""

    happened: str
    kept: int
    same: bool


def _kept(folder: Path) -> dict[int, Any]:
    """Results that are stored, by their numbers."""
    return {int(file.stem[6:]): pickle.loads(file.read_bytes()) for file in (folder / "blocks").glob("block-*.pickle")}


@cache
def _undisturbed(tasks: int) -> list[int]:
    """What the tasks give if nobody dies."""
    with tempfile.TemporaryDirectory() as folder, on_processes(1):
        return victims(folder, tasks)


def attempt(tasks: int, watch: Callable[[Path], None]) -> Killed:
    """Run such a study where blocks run now, while `watch` does something to it."""
    plain = _undisturbed(tasks)
    with tempfile.TemporaryDirectory() as name:
        folder, happened = Path(name), "finished"
        watcher = threading.Thread(target=watch, args=(folder,))
        watcher.start()
        try:
            victims(name, tasks)
        except RuntimeError as error:
            happened = str(error)
        watcher.join()
        blocks = _kept(folder)
        return Killed(happened, len(blocks), all(found == plain[number] for number, found in blocks.items()))


def _wait_for(folder: Path, blocks: int, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while len(list((folder / "blocks").glob("block-*.pickle"))) < blocks:
        if time.monotonic() > deadline:
            raise TimeoutError(f"fewer than {blocks} blocks in {seconds} seconds")
        time.sleep(0.01)


def resumed(tasks: int, blocks: int, place: int | str) -> Killed:
    """Start a study in a process of its own, kill it with SIGKILL after some blocks, and go on with its folder here.

    `place` is where its blocks run, before and after.
    """
    plain = _undisturbed(tasks)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code = f"from tests import cluster as m; m.spread.use({place!r}); m.victims({name!r}, {tasks})"
        study = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stderr=subprocess.DEVNULL)
        try:
            _wait_for(folder, blocks)
        finally:
            os.killpg(study.pid, signal.SIGKILL)
            study.wait()
        kept = len(_kept(folder))
        with on_cluster(place) if isinstance(place, str) else on_processes(place):
            found = victims(name, tasks)
        return Killed("resumed", kept, found == plain)


def kill(process: int, folder: Path) -> None:
    """SIGKILL, when some blocks are done."""
    _wait_for(folder, 5)
    os.kill(process, signal.SIGKILL)
