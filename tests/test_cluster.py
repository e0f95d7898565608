"""Studies on a Dask cluster: skipped, with a notice, where the extra is not installed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdpm_lib import spread
from tests import spread_tasks
from tests.test_spread import ROOT, digest

distributed = pytest.importorskip("distributed", reason="the extra cluster is not installed: no tests on Dask")


def free_port() -> int:
    """A port of this machine that nobody uses at the moment."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scheduler and two workers of one thread each, as processes of their own."""
    folder, port = tmp_path_factory.mktemp("dask"), free_port()
    place = f"tcp://127.0.0.1:{port}"
    common = ["--host", "127.0.0.1", "--no-dashboard"]
    dask = [sys.executable, "-m", "dask"]
    worker = [*dask, "worker", place, *common, "--nthreads", "1", "--memory-limit", "1GiB"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    commands = [[*dask, "scheduler", *common, "--port", str(port)]]
    commands += [[*worker, "--local-directory", str(folder / str(k)), "--name", f"worker-{k}"] for k in range(2)]
    log = (folder / "log").open("wb")
    started = [
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True)
        for command in commands
    ]
    try:
        with distributed.Client(place, timeout=60) as client:
            client.wait_for_workers(2, timeout=60)
        yield place
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.close()


@pytest.fixture
def on_cluster(address: str) -> Iterator[Any]:
    """Blocks run there."""
    spread.use(address)
    yield spread.place()
    spread.place().close()
    spread.use(1)


def test_the_same_bits_on_a_cluster(on_cluster: Any) -> None:
    found = spread.spread(spread_tasks.moments, 7, 6, shared=(200,))
    processes = {who for _, who in found}
    spread.use(1)
    plain = spread.spread(spread_tasks.moments, 7, 6, shared=(200,))
    assert digest(found) == digest(plain)
    assert os.getpid() not in processes
    spread.use(on_cluster)


def test_a_failing_task_is_named_on_a_cluster(on_cluster: Any) -> None:
    with pytest.raises(spread.TaskError, match=r"of 20 \(seed 5\) failed: ValueError: drew"):
        spread.spread(spread_tasks.fails, 5, 20, shared=(0.8,))


def test_killed_workers_and_a_killed_nanny(on_cluster: Any, tmp_path: Path) -> None:
    """Workers that kill themselves are started again; then one worker goes with its nanny, in mid-study."""
    found = spread.spread(spread_tasks.dies_once, 2, 12, shared=(str(tmp_path), 5))
    assert list(tmp_path.iterdir())
    assert found == [float(x) for x in _plain(2, 12)]


def _plain(seed: int, tasks: int) -> list[float]:
    return [np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(k,))).random() for k in range(tasks)]


def test_a_task_that_kills_every_worker_is_an_error_on_a_cluster(on_cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"block \d+ killed every worker that took it"):
        spread.spread(spread_tasks.dies_always, 2, 12, shared=("",), folder=tmp_path)


def test_a_nanny_is_killed(on_cluster: Any) -> None:
    """The other worker does the rest."""
    nanny = on_cluster.run(os.getppid)
    victim = next(iter(nanny.values()))
    before = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    found = spread.spread(spread_tasks.slow, 1, 10, shared=(0.1,))
    assert found == _plain(1, 10)
    assert time.monotonic() - before < 60
