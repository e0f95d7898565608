"""Studies on a Dask cluster: skipped, with a notice, where the extra is not installed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from hdpm_lib import spread
from tests import spread_tasks
from tests.test_spread import ROOT, digest, kept, wait_for

distributed = pytest.importorskip("distributed", reason="the extra cluster is not installed: no tests on Dask")


@contextmanager
def two_workers() -> Iterator[str]:
    """Address of a scheduler with two workers of one thread each, all processes of their own, on loopback."""
    dask, loopback = [sys.executable, "-m", "dask"], ["--host", "127.0.0.1", "--no-dashboard"]
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        file, started = f"{folder}/scheduler.json", []
        worker = [*dask, "worker", "--scheduler-file", file, *loopback, "--nthreads", "1", "--memory-limit", "2GiB"]
        commands = [[*dask, "scheduler", "--scheduler-file", file, *loopback, "--port", "0"]]
        commands += [[*worker, "--local-directory", f"{folder}/{k}"] for k in range(2)]
        try:
            for command in commands:
                quiet = subprocess.DEVNULL
                started.append(subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True))
            with distributed.Client(scheduler_file=file, timeout=60) as client:
                client.wait_for_workers(2, timeout=60)
                address = client.scheduler.address
            yield address
        finally:
            for process in started:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextmanager
def running_on(address: str) -> Iterator[Any]:
    """Blocks run on the workers of a scheduler; gives the client."""
    with distributed.Client(address) as client:
        before = spread.use(client)
        try:
            yield client
        finally:
            spread.use(before)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with two_workers() as place:
        yield place


@pytest.fixture
def on_cluster(address: str) -> Iterator[Any]:
    with running_on(address) as client:
        yield client


def draws(seed: int, tasks: int) -> list[float]:
    """What a study gives if nobody dies."""
    return [np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(k,))).random() for k in range(tasks)]


def test_the_same_bits_on_a_cluster(on_cluster: Any) -> None:
    found = spread.each(spread_tasks.moments, [200] * 6, seed=7)
    processes = {who for _, who in found}
    spread.use(1)
    plain = spread.each(spread_tasks.moments, [200] * 6, seed=7)
    assert digest(found) == digest(plain)
    assert os.getpid() not in processes
    spread.use(on_cluster)


def test_a_failing_task_is_named_on_a_cluster(on_cluster: Any) -> None:
    with pytest.raises(ValueError, match=r"drew .*\n?in task \d+ of 20 \(seed 5\)"):
        spread.each(spread_tasks.fails, [0.8] * 20, seed=5)


def test_killed_workers_and_a_killed_nanny(on_cluster: Any, tmp_path: Path) -> None:
    """Workers that kill themselves are started again; then one worker goes with its nanny, in mid-study."""
    found = spread.each(spread_tasks.dies_once, [5] * 12, str(tmp_path), seed=2)
    assert list(tmp_path.iterdir())
    assert found == draws(2, 12)


def test_a_task_that_kills_every_worker_is_an_error_on_a_cluster(on_cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"block \d+ was lost with every worker that took it"):
        spread.each(spread_tasks.dies_always, [0.25] * 12, seed=2, folder=tmp_path)


def test_a_worker_dies_between_finishing_and_gathering(on_cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that was finished is so no longer, and Dask computes it once more."""
    killed = []

    class Late(distributed.as_completed):  # type: ignore[name-defined, misc]
        def __next__(self) -> Any:
            got = super().__next__()
            future = got[0] if isinstance(got, tuple) else got
            if not killed:
                (holder,) = on_cluster.who_has([future])[future.key]
                killed.append(on_cluster.run(os.getpid, workers=[holder])[holder])
                os.kill(killed[0], signal.SIGKILL)
                deadline = time.monotonic() + 60
                while future.status == "finished" and time.monotonic() < deadline:
                    time.sleep(0.005)
                assert future.status != "finished"
            return got

    on_cluster.wait_for_workers(2, timeout=60)
    monkeypatch.setattr(distributed, "as_completed", Late)
    assert spread.each(spread_tasks.slow, [0.1] * 10, seed=1) == draws(1, 10)
    assert killed


def test_a_nanny_is_killed(on_cluster: Any) -> None:
    """The other worker does the rest."""
    on_cluster.wait_for_workers(2, timeout=60)  # they may be starting again
    nanny = on_cluster.run(os.getppid)
    victim = next(iter(nanny.values()))
    before = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    found = spread.each(spread_tasks.slow, [0.1] * 10, seed=1)
    assert found == draws(1, 10)
    assert time.monotonic() - before < 60


def test_the_same_bits_on_the_cluster_of_one_process() -> None:
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(n_workers=2, **options) as started, running_on(started.scheduler_address):
        found = spread.each(spread_tasks.moments, [100] * 3, seed=8)
    assert digest(found) == digest(spread.each(spread_tasks.moments, [100] * 3, seed=8))


def test_a_study_whose_client_is_killed_goes_on(address: str, tmp_path: Path) -> None:
    code = f"from hdpm_lib import spread; from tests import spread_tasks; spread.use({address!r}); "
    code += f"spread.each(spread_tasks.slow, [0.01] * 30, seed=1, folder={str(tmp_path)!r})"
    study = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stderr=subprocess.DEVNULL, cwd=ROOT)
    wait_for(tmp_path, 3)
    os.killpg(study.pid, signal.SIGKILL)
    study.wait()
    assert 3 <= len(kept(tmp_path)) < 30
    with running_on(address):
        assert spread.each(spread_tasks.slow, [0.01] * 30, seed=1, folder=tmp_path) == draws(1, 30)


def test_a_scheduler_is_killed(tmp_path: Path) -> None:
    """An error, and the blocks that were done are kept."""
    with two_workers() as place, running_on(place) as client:
        scheduler = client.run_on_scheduler(os.getpid)
        killer = threading.Thread(target=lambda: (wait_for(tmp_path, 5), os.kill(scheduler, signal.SIGKILL)))
        killer.start()
        with pytest.raises(RuntimeError, match="the scheduler"):
            spread.each(spread_tasks.slow, [0.01] * 40, seed=1, folder=tmp_path)
        killer.join()
    found, right = kept(tmp_path), draws(1, 40)
    assert 5 <= len(found) < 40 and all(value == right[k] for k, value in found.items())


def test_a_scheduler_is_lost_while_a_result_is_fetched(on_cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: Any, **__: Any) -> None:
        raise distributed.comm.CommClosedError("stream is closed")

    monkeypatch.setattr(distributed.Future, "result", closed)
    with pytest.raises(RuntimeError, match="the scheduler was lost, with block 0"):
        spread.each(spread_tasks.moments, [10], seed=8)
