"""Studies on a Dask cluster: skipped, with a notice, where the extra is not installed.

joblib 1.5 has a backend for Dask, which was tried in place of ours. With one thread left it runs
tasks in the calling process, so that a task that kills its worker kills the study; a worker that
dies as data are sent out ends it with a KeyError; errors do not name the block.
"""

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

import pytest

from hdpm_lib import spread
from tests import spread_tasks
from tests.test_spread import digest, draws, kept, kill_study, wait_for

distributed = pytest.importorskip(
    "distributed", reason="the extra cluster is not installed: no tests on Dask"
)


@contextmanager
def two_workers() -> Iterator[str]:
    """Address of a scheduler with two workers of one thread each, all processes of their own, on
    loopback.
    """
    dask = [sys.executable, "-m", "dask"]
    loopback = ["--host", "127.0.0.1", "--no-dashboard"]
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        file = f"{folder}/scheduler.json"
        started = []
        worker = [
            *dask,
            "worker",
            "--scheduler-file",
            file,
            *loopback,
            "--nthreads",
            "1",
            "--memory-limit",
            "2GiB",
        ]
        commands = [[*dask, "scheduler", "--scheduler-file", file, *loopback, "--port", "0"]]
        commands += [[*worker, "--local-directory", f"{folder}/{k}"] for k in range(2)]
        try:
            for command in commands:
                quiet = subprocess.DEVNULL
                started.append(
                    subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True)
                )
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


def test_the_same_bits_on_a_cluster(on_cluster: Any) -> None:
    found = spread.each(spread_tasks.moments, [200] * 6, seed=7)
    assert os.getpid() not in {who for _, who in found}
    spread.use(1)
    assert digest(found) == digest(spread.each(spread_tasks.moments, [200] * 6, seed=7))


def test_what_is_shared_is_sent_once(on_cluster: Any) -> None:
    before = spread_tasks.Heavy.sent
    found = spread.each(spread_tasks.weighs, range(30), spread_tasks.Heavy())
    assert found == [(k, "Heavy") for k in range(30)]
    assert spread_tasks.Heavy.sent == before + 1


def test_a_failing_task_is_named_on_a_cluster(on_cluster: Any) -> None:
    with pytest.raises(ValueError, match=r"drew .*\n?in task \d+ of 20 \(seed 5\)"):
        spread.each(spread_tasks.fails, [0.8] * 20, seed=5)


def test_workers_that_are_killed_are_replaced_on_a_cluster(on_cluster: Any, tmp_path: Path) -> None:
    found = spread.each(spread_tasks.dies_once, [5] * 12, str(tmp_path), seed=2)
    assert list(tmp_path.iterdir())
    assert found == draws(2, 12)


def test_a_task_that_kills_every_worker_is_an_error_on_a_cluster(
    on_cluster: Any, tmp_path: Path
) -> None:
    with pytest.raises(RuntimeError, match=r"block \d+ was lost with every worker that took it"):
        spread.each(spread_tasks.dies_always, [0.25] * 12, seed=2, folder=tmp_path)


def test_a_worker_dies_between_finishing_and_gathering(
    on_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block that was finished is so no longer, and Dask computes it once more."""
    killed = list[int]()

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
    assert spread.each(spread_tasks.drawn, [0.1] * 10, seed=1) == draws(1, 10)
    assert killed


def test_a_nanny_is_killed(on_cluster: Any) -> None:
    """The other worker does the rest."""
    on_cluster.wait_for_workers(2, timeout=60)  # they may be starting again
    victim = next(iter(on_cluster.run(os.getppid).values()))
    os.kill(victim, signal.SIGKILL)
    assert spread.each(spread_tasks.drawn, [0.1] * 10, seed=1) == draws(1, 10)


def test_a_study_whose_client_is_killed_goes_on(
    on_cluster: Any, address: str, tmp_path: Path
) -> None:
    assert 3 <= kill_study(address, tmp_path, 3) < 20
    assert spread.each(spread_tasks.drawn, [0.1] * 20, seed=1, folder=tmp_path) == draws(1, 20)


def test_a_scheduler_is_killed(tmp_path: Path) -> None:
    """An error, and the blocks that were done are kept."""
    with two_workers() as place, running_on(place) as client:
        scheduler = client.run_on_scheduler(os.getpid)

        def kill() -> None:
            wait_for(tmp_path, 5)
            os.kill(scheduler, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(RuntimeError, match="the scheduler"):
            spread.each(spread_tasks.drawn, [0.01] * 40, seed=1, folder=tmp_path)
        killer.join()
    assert 5 <= len(kept(tmp_path)) < 40
    assert kept(tmp_path).items() <= dict(enumerate(draws(1, 40))).items()


def test_a_scheduler_is_lost_while_a_result_is_fetched(
    on_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_: Any, **__: Any) -> None:
        raise distributed.comm.CommClosedError("stream is closed")

    monkeypatch.setattr(distributed.Future, "result", closed)
    with pytest.raises(RuntimeError, match="the scheduler was lost, with block 0"):
        spread.each(spread_tasks.moments, [10], seed=8)
