"""Studies in blocks: the same bits everywhere, blocks that are kept, workers that die, tasks that fail."""

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

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def here() -> Iterator[None]:
    """Every test begins and ends in this process."""
    spread.use(1)
    yield
    spread.use(1)


def digest(results: list[Any]) -> str:
    """Of the bits of the arrays."""
    return hashlib.sha256(b"".join(np.asarray(x).tobytes() for x, _ in results)).hexdigest()


def test_the_same_bits_in_this_process_and_in_others() -> None:
    plain = spread.spread(spread_tasks.moments, 7, 6, shared=(200,))
    for processes, block in ((1, 4), (2, 1), (2, 3)):
        spread.use(processes)
        found = spread.spread(spread_tasks.moments, 7, 6, shared=(200,), block=block)
        assert digest(found) == digest(plain)
        assert (os.getpid() in {who for _, who in found}) == (processes == 1)
    assert digest(spread.spread(spread_tasks.moments, 8, 6, shared=(200,))) != digest(plain)


def test_tasks_have_streams_of_their_own() -> None:
    drawn = spread.spread(np.random.Generator.random, 3, 50)
    assert len(set(drawn)) == 50
    assert drawn[:10] == spread.spread(np.random.Generator.random, 3, 10)


def test_tasks_may_have_items() -> None:
    """An item does not change the stream of a task."""
    for processes in (1, 2):
        spread.use(processes)
        found = spread.spread(spread_tasks.scaled, 3, [1.0, 10.0, 100.0], shared=(2.0,), block=2)
        plain = spread.spread(np.random.Generator.random, 3, 3)
        assert found == [2.0 * scale * x for scale, x in zip((1.0, 10.0, 100.0), plain, strict=True)]


def test_blocks_are_combined() -> None:
    plain = spread.spread(np.random.Generator.random, 3, 10)
    sums = spread.spread(np.random.Generator.random, 3, 10, block=4, combine=sum)
    assert sums == [sum(plain[:4]), sum(plain[4:8]), sum(plain[8:])]


def test_more_than_one_thread_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = SimpleNamespace(num_threads=2, filepath="libslow.so")
    pools = SimpleNamespace(limit=lambda limits: nullcontext(), lib_controllers=[stuck])
    monkeypatch.setattr(spread, "_pools", lambda modules: pools)
    with pytest.raises(RuntimeError, match=r"threads of libslow\.so cannot be set to one"):
        spread.spread(np.random.Generator.random, 0, 2)


def test_libraries_that_come_later_are_set_to_one_thread() -> None:
    """A task that imports what has threads is done again, on one."""
    code = "from hdpm_lib import spread; from tests import spread_tasks as t; import sys; "
    code += "assert 'scipy.linalg' not in sys.modules; print(spread.spread(t.threads_of_scipy, 0, 2))"
    environment = (
        os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "2") | {"PYTHONPATH": str(ROOT)}
    )
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    first, second = ast.literal_eval(ran.stdout)
    assert first == second == [1] * len(first) and first


def test_a_failing_task_is_named() -> None:
    drawn = spread.spread(np.random.Generator.random, 5, 20)
    first = next(k for k, x in enumerate(drawn) if x > 0.8)
    with pytest.raises(spread.TaskError, match=rf"task {first} of 20 \(seed 5\) failed: ValueError: drew"):
        spread.spread(spread_tasks.fails, 5, 20, shared=(0.8,))
    spread.use(2)
    with pytest.raises(spread.TaskError, match=r"of 20 \(seed 5\) failed: ValueError: drew"):
        spread.spread(spread_tasks.fails, 5, 20, shared=(0.8,))


# --- blocks that are kept ---------------------------------------------------------------------------------------------


def test_blocks_before_a_failure_are_kept(tmp_path: Path) -> None:
    drawn = spread.spread(np.random.Generator.random, 5, 20)
    first = next(k for k, x in enumerate(drawn) if x > 0.8)
    with pytest.raises(spread.TaskError):
        spread.spread(spread_tasks.fails, 5, 20, shared=(0.8,), folder=tmp_path)
    assert len(list(tmp_path.glob("block-*.pickle"))) == first


def test_a_folder_is_for_one_study(tmp_path: Path) -> None:
    found = spread.spread(np.random.Generator.random, 5, 8, block=2, folder=tmp_path)
    stamps = [file.stat().st_mtime_ns for file in sorted(tmp_path.glob("block-*"))]
    assert spread.spread(np.random.Generator.random, 5, 8, block=2, folder=tmp_path) == found
    assert [file.stat().st_mtime_ns for file in sorted(tmp_path.glob("block-*"))] == stamps
    for other in ({"seed": 6}, {"tasks": 9}, {"block": 4}, {"task": np.random.Generator.standard_normal}):
        given: dict[str, Any] = {"task": np.random.Generator.random, "seed": 5, "tasks": 8, "block": 2} | other
        with pytest.raises(ValueError, match="holds blocks of another study"):
            spread.spread(**given, folder=tmp_path)
    first = tmp_path / "block-000000.pickle"
    first.write_bytes(pickle.dumps([0.0, 0.0]))  # what is there is taken
    assert spread.spread(np.random.Generator.random, 5, 8, block=2, folder=tmp_path)[:2] == [0.0, 0.0]


def test_a_damaged_block_is_named(tmp_path: Path) -> None:
    spread.spread(np.random.Generator.random, 5, 3, folder=tmp_path)
    (tmp_path / "block-000001.pickle").write_bytes(b"no pickle")
    with pytest.raises(ValueError, match=r"block-000001\.pickle is damaged: delete it"):
        spread.spread(np.random.Generator.random, 5, 3, folder=tmp_path)
    with pytest.raises(ValueError, match="holds blocks of another study"):
        spread.spread(np.random.Generator.random, 5, 3, folder=tmp_path, combine=sum)


def test_a_study_begun_by_a_command_goes_on_elsewhere(tmp_path: Path) -> None:
    """Where its task's module was ``__main__``."""
    lines = ["from hdpm_lib import spread", "def task(rng): return rng.random()"]
    lines += ["def main(): print(spread.spread(task, 1, 4, folder='blocks'))", "if __name__ == '__main__': main()"]
    (tmp_path / "begun.py").write_text("\n".join(lines))
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    said = set()
    for command in (["-m", "begun"], ["-c", "import begun; begun.main()"]):
        ran = subprocess.run(
            [sys.executable, *command], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        said.add(ran.stdout)
    assert said == {f"{spread.spread(np.random.Generator.random, 1, 4)}\n"}


STUDY = """
import sys
from hdpm_lib import spread
from tests import spread_tasks
if __name__ == "__main__":
    spread.use(int(sys.argv[2]))
    print(spread.spread(spread_tasks.slow, 1, 20, shared=(0.3,), folder=sys.argv[1]))
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_a_study_that_is_killed_goes_on(tmp_path: Path, processes: int) -> None:
    """SIGKILL of the whole study, twice, at times that it does not choose."""
    script, folder = tmp_path / "study.py", tmp_path / "blocks"
    script.write_text(STUDY)
    command = [sys.executable, str(script), str(folder), str(processes)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    before = 0
    for _ in range(2):
        study = subprocess.Popen(command, env=environment, cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while len(list(folder.glob("block-*.pickle"))) < before + 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(study.pid, signal.SIGKILL)
        study.wait()
        kept = len(list(folder.glob("block-*.pickle")))
        assert before + 2 <= kept < 20
        before = kept
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == str(spread.spread(spread_tasks.slow, 1, 20, shared=(0.0,)))


# --- workers that die -------------------------------------------------------------------------------------------------


def test_workers_that_are_killed_are_replaced(tmp_path: Path) -> None:
    spread.use(2)
    found = spread.spread(spread_tasks.dies_once, 2, 12, shared=(str(tmp_path), 5))
    assert list(tmp_path.iterdir())  # somebody died
    assert found == spread.spread(np.random.Generator.random, 2, 12)


def test_a_task_that_kills_every_worker_is_an_error(tmp_path: Path) -> None:
    spread.use(2)
    blocks = tmp_path / "blocks"
    with pytest.raises(RuntimeError, match="workers died 3 times without finishing a block; not done are blocks"):
        spread.spread(spread_tasks.dies_always, 2, 12, shared=("",), folder=blocks)
    drawn = spread.spread(np.random.Generator.random, 2, 12)
    kept = {int(file.stem[6:]): pickle.loads(file.read_bytes()) for file in blocks.glob("block-*.pickle")}
    assert kept and all(value == [drawn[k]] for k, value in kept.items())


@pytest.mark.parametrize("place", [0, True])
def test_places_that_are_none(place: Any) -> None:
    with pytest.raises(ValueError, match="place must be"):
        spread.use(place)
