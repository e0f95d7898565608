"""Studies in blocks: the same bits everywhere, blocks that are kept, workers that die, tasks that
fail.
"""

from __future__ import annotations

import ast
import hashlib
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hdpm_lib import spread
from tests import spread_tasks

LOOKS_AT = ["hdpm_lib/accounts.py", "hdpm_lib/spread.py", "tests/spread_tasks.py"]
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def here() -> Iterator[None]:
    """Every test begins and ends in this process."""
    spread.use(1)
    yield
    spread.use(1)


def plain(seed: int, tasks: int, **options: Any) -> list[float]:
    """A draw of each task."""
    return spread.each(spread_tasks.drawn, [0.0] * tasks, seed=seed, **options)


def draws(seed: int, tasks: int) -> list[float]:
    """What a study of draws gives, wherever it runs and whoever dies."""
    return [
        np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(k,))).random()
        for k in range(tasks)
    ]


def digest(results: list[Any]) -> str:
    """Of the bits of the arrays."""
    return hashlib.sha256(b"".join(np.asarray(x).tobytes() for x, _ in results)).hexdigest()


def kept(folder: Path) -> dict[int, Any]:
    """Results that are stored, by their numbers."""
    return {
        int(file.stem[6:]): pickle.loads(file.read_bytes())
        for file in folder.glob("block-*.pickle")
    }


def wait_for(folder: Path, blocks: int) -> None:
    deadline = time.monotonic() + 60
    while len(list(folder.glob("block-*.pickle"))) < blocks and time.monotonic() < deadline:
        time.sleep(0.01)


def kill_study(place: int | str, folder: Path, blocks: int) -> int:
    """SIGKILL of a whole study of twenty tasks when so many blocks are kept; how many are."""
    code = (
        "from hdpm_lib import spread; from tests.spread_tasks import drawn;"
        f" spread.use({place!r}); "
    )
    code += f"spread.each(drawn, [0.1] * 20, seed=1, folder={str(folder)!r})"
    study = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL
    )
    wait_for(folder, blocks)
    os.killpg(study.pid, signal.SIGKILL)
    study.wait()
    return len(kept(folder))


def ran(arguments: list[str], cwd: Path = ROOT, **variables: str) -> str:
    """What a Python of its own prints."""
    environment = os.environ | {"PYTHONPATH": f"{cwd}{os.pathsep}{ROOT}"} | variables
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, env=environment, cwd=cwd, capture_output=True, text=True, check=True, timeout=120
    ).stdout


def test_the_same_bits_in_this_process_and_in_others() -> None:
    plain = spread.each(spread_tasks.moments, [200] * 6, seed=7)
    for processes in (1, 2):
        spread.use(processes)
        found = spread.each(spread_tasks.moments, [200] * 6, seed=7)
        assert digest(found) == digest(plain)
        assert (os.getpid() in {who for _, who in found}) == (processes == 1)
    assert digest(spread.each(spread_tasks.moments, [200] * 6, seed=8)) != digest(plain)


def test_tasks_have_streams_of_their_own() -> None:
    assert plain(3, 50) == draws(3, 50) and len(set(plain(3, 50))) == 50


def test_items_and_what_is_shared() -> None:
    """They do not change the stream of a task; without a seed there is none."""
    for processes in (1, 2):
        spread.use(processes)
        found = spread.each(spread_tasks.scaled, [1.0, 10.0, 100.0], 2.0, seed=3)
        assert found == [
            2.0 * scale * x for scale, x in zip((1.0, 10.0, 100.0), plain(3, 3), strict=True)
        ]
        assert spread.each(pow, iter([2, 3]), 2) == [4, 9] and spread.each(pow, [], 2) == []


def test_more_than_one_thread_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = SimpleNamespace(num_threads=2, filepath="libslow.so")
    pools = SimpleNamespace(limit=lambda limits: nullcontext(), lib_controllers=[stuck])
    monkeypatch.setattr(spread, "_pools", lambda modules: pools)
    with pytest.raises(RuntimeError, match=r"threads of libslow\.so cannot be set to one"):
        plain(0, 2)


def test_libraries_that_come_later_are_set_to_one_thread() -> None:
    """A task that imports what has threads is done again, on one."""
    code = "from hdpm_lib import spread; from tests import spread_tasks as t; import sys; "
    code += (
        "assert 'scipy.linalg' not in sys.modules; print(spread.each(t.threads_of_scipy, range(2)))"
    )
    first, second = ast.literal_eval(
        ran(["-c", code], OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2")
    )
    assert first == second == [1] * len(first) and first


def test_a_failing_task_is_named_and_blocks_before_it_are_kept(tmp_path: Path) -> None:
    first = next(k for k, x in enumerate(plain(5, 20)) if x > 0.8)
    with pytest.raises(ValueError, match=rf"drew .*\nin task {first} of 20 \(seed 5\)$"):
        spread.each(spread_tasks.fails, [0.8] * 20, seed=5, folder=tmp_path)
    assert len(list(tmp_path.glob("block-*.pickle"))) == first
    spread.use(2)
    with pytest.raises(ValueError, match=r"drew .*\nin task \d+ of 20 \(seed 5\)$"):
        spread.each(spread_tasks.fails, [0.8] * 20, seed=5)
    with pytest.raises(TypeError, match=r"\nin task \d of 2$"):
        spread.each(pow, ["a", "b"], 2)


# --- blocks that are kept -----------------------------------------------------------------------


def test_a_folder_is_for_one_study(tmp_path: Path) -> None:
    """What is there is taken, unless it is of another study, or damaged."""
    found = plain(5, 8, folder=tmp_path)
    for function, tasks, seed, shared in (
        (spread_tasks.scaled, 8, 5, (1.0,)),
        (spread_tasks.drawn, 9, 5, ()),
        (spread_tasks.drawn, 8, 6, ()),
        (spread_tasks.drawn, 8, 5, (sum,)),
    ):
        with pytest.raises(ValueError, match="holds blocks of another study"):
            spread.each(function, [0.0] * tasks, *shared, seed=seed, folder=tmp_path)
    (tmp_path / "block-000000.pickle").write_bytes(pickle.dumps(0.0))
    assert plain(5, 8, folder=tmp_path) == [0.0, *found[1:]]
    (tmp_path / "block-000001.pickle").write_bytes(b"no pickle")
    with pytest.raises(ValueError, match=r"block-000001\.pickle is damaged: delete it"):
        plain(5, 8, folder=tmp_path)


BEGUN = """
from hdpm_lib import spread
def task(rng, _): return rng.random()
def main(): print(spread.each(task, range(4), seed=1, folder="blocks"))
if __name__ == "__main__": main()
"""


def test_a_study_begun_by_a_command_goes_on_elsewhere(tmp_path: Path) -> None:
    """Where its task's module was ``__main__``."""
    (tmp_path / "begun.py").write_text(BEGUN)
    for command in (["-m", "begun"], ["-c", "import begun; begun.main()"]):
        assert ran(command, tmp_path) == f"{plain(1, 4)}\n"


@pytest.mark.parametrize("processes", [1, 2])
def test_a_study_that_is_killed_goes_on(tmp_path: Path, processes: int) -> None:
    """Twice, at times that it does not choose."""
    first = kill_study(processes, tmp_path, 2)
    assert first >= 2 and first + 2 <= kill_study(processes, tmp_path, first + 2) < 20
    assert spread.each(spread_tasks.drawn, [0.1] * 20, seed=1, folder=tmp_path) == draws(1, 20)


# --- workers that die ---------------------------------------------------------------------------


def test_workers_that_are_killed_are_replaced(tmp_path: Path) -> None:
    spread.use(2)
    found = spread.each(spread_tasks.dies_once, [5] * 12, str(tmp_path), seed=2)
    assert list(tmp_path.iterdir())  # somebody died
    assert found == draws(2, 12)


def test_a_task_that_kills_every_worker_is_an_error(tmp_path: Path) -> None:
    spread.use(2)
    blocks = tmp_path / "blocks"
    with pytest.raises(
        RuntimeError, match="workers died 3 times without finishing a block; not done are blocks"
    ):
        spread.each(spread_tasks.dies_always, [0.25] * 12, seed=2, folder=blocks)
    assert kept(blocks).items() <= dict(enumerate(draws(2, 12))).items() and kept(blocks)
