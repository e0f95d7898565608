r"""What the page :doc:`/book/beyond/machines` runs: studies in four places, studies that are killed, and a long one.

``python -m hdpm_book.beyond.machines`` starts a scheduler and workers on this machine, kills them and the studies, and
stores in ``data/studies`` what came of it. It needs the extra ``cluster`` and five minutes of one core, two of
which go to the long audit. The page shows the stored record, and runs small studies anew.

What is audited are noisy gradients in integers, as :func:`~hdpm_lib.learners.integer_answers.integer_gradients` sends
them. The owner's clipped gradient is :math:`Le_1` or :math:`-Le_1`, where :math:`e_1` is the first of ``SHAPE``
coordinates and :math:`L` the largest norm, ``STEPS`` grid steps: no two gradients are further apart. Beyond both ends
the two likelihoods differ by the factor :math:`e^\varepsilon` exactly, so there, and only there, the coin is guessed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize

from hdpm_book import plots
from hdpm_book.records import provenance
from hdpm_book.ridge.study import DEFAULT, N_TRAIN, Draw, monte_carlo, synthetic_split
from hdpm_lib import spread
from hdpm_lib.aggregation import least_error_weights
from hdpm_lib.audits.bounds import guess_epsilon, guess_p_value, power_of_guesses
from hdpm_lib.learners.fedsgd import fedsgd
from hdpm_lib.learners.gradients import draw_bidders
from hdpm_lib.learners.integer_answers import cut, gradient_noise, grid_gradients
from hdpm_lib.validation import FALSE_ALARM, extra

with extra("book"):
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
STUDY = Path(str(resources.files("hdpm_book.data") / "studies" / "machines.json"))

# --- three studies ----------------------------------------------------------------------------------------------------

LOSS = 1.0  # what is claimed
STEPS = 1024  # grid steps of the longest gradient
SHAPE = (5, 4)  # classes and features


def right_guesses(
    rng: np.random.Generator, runs: int, shape: tuple[int, int] = SHAPE, steps: int = STEPS, loss: float = LOSS
) -> Integers:
    """Guesses made and right ones, of so many releases by one owner; noise is drawn for a `loss`, claimed or not."""
    spacing, ends = 1 / steps, np.zeros((2, *shape))
    ends[:, 0, 0] = -1, 1
    bits = rng.integers(0, 2, runs)
    noise = gradient_noise([loss], (runs, *shape), 1.0, spacing, rng=rng)[0]
    sent = cut(grid_gradients(ends, 1.0, spacing)[bits] + noise)[:, 0, 0]
    guessed = np.abs(sent) >= steps
    return np.array([guessed.sum(), (guessed & ((sent > 0) == bits)).sum()])


def ridge_losses(rng: np.random.Generator, runs: int) -> Array:
    """Mean and standard deviation of the test losses of fresh people, by so many runs, as in the ridge paper."""
    draw = Draw.of(synthetic_split(rng), DEFAULT.draw(N_TRAIN, rng=rng))
    found = monte_carlo(draw, 100.0, rng=rng, runs=runs)
    return np.array([[cell.mean, cell.std] for cell in found.values()])


def federated(rng: np.random.Generator, rounds: int, records: int = 20_000, features: int = 120) -> Array:
    """The model after so many rounds of FedSGD with ten owners, on made-up records of five classes."""
    X, labels = rng.standard_normal((records, features)), rng.integers(5, size=records)
    X[:, :5] += 2 * np.eye(5)[labels]
    owners = [np.array_split(rng.permutation(records), 10)]
    asked = draw_bidders(10, 10, rounds, 1, rng)
    limits, start = rng.uniform(50, 100, (1, 10)), np.zeros((5, features))
    run = fedsgd(
        X,
        labels,
        owners,
        limits,
        asked,
        {"OptAggr": least_error_weights},
        start,
        rng=rng,
        learning_rate=1.0,
        arithmetic="ideal",
    )
    return run.parameters("OptAggr")[-1]


AUDIT = "random-bit audit"
STUDIES: dict[str, tuple[Callable[..., Any], int]] = {
    "ridge Monte Carlo": (ridge_losses, 100_000),
    AUDIT: (right_guesses, 125_000),
    "federated training": (federated, 60),
}
TASKS = 8


def run(name: str, size: int | None = None, tasks: int = TASKS) -> list[Any]:
    """Results of one of ``STUDIES``, in its stored size or another one, where :func:`hdpm_lib.spread.use` says."""
    task, usual = STUDIES[name]
    return spread.each(task, [size or usual] * tasks, seed=18)


def digest(results: Sequence[Any]) -> str:
    """SHA-256 of the bits of all results."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(one).tobytes() for one in results)).hexdigest()


def rehearsed() -> pd.DataFrame:
    """The three studies, small, in this process and on two: whether all bits are the same; of the audit the digest.

    What is computed with floats may differ between processors and between versions of NumPy; the audit uses integers
    alone.
    """
    rows = {}
    for name, (size, tasks) in {"ridge Monte Carlo": (2000, 4), AUDIT: (5000, 4), "federated training": (5, 4)}.items():
        found = []
        for processes in (1, 2):
            with on_processes(processes):
                found.append(digest(run(name, size, tasks)))
        rows[name] = {"same bits": found[0] == found[1], "digest": found[0][:12] if name == AUDIT else ""}
    return pd.DataFrame(rows).T


# --- places -----------------------------------------------------------------------------------------------------------


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
def local_cluster(workers: int = 2, memory: Mapping[str, str] = KEEP_MEMORY) -> Iterator[str]:
    """Address of Dask's own cluster of processes, started from this one, with these settings of their memory."""
    with extra("cluster"):
        import dask
        from distributed import LocalCluster

    options: dict[str, Any] = {"threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    settings = {f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in memory.items()}
    with dask.config.set(settings), LocalCluster(n_workers=workers, **options) as cluster:
        yield str(cluster.scheduler_address)


# --- studies that are killed ------------------------------------------------------------------------------------------

PART = 10_000  # runs before, and after, the moment at which a task may die


def victim(rng: np.random.Generator, number: int, doomed: int, deaths: int, marks: str) -> Integers:
    """Counts of :func:`right_guesses`; the process dies in the middle of one task, as often as is said.

    Each start leaves a mark in a folder.
    """
    folder = Path(marks)
    (folder / f"{number}-{uuid.uuid4().hex}").touch()
    first = right_guesses(rng, PART)
    if number == doomed and len(list(folder.glob(f"{number}-*"))) <= deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    return first + right_guesses(rng, PART)


def victims(folder: str, tasks: int, doomed: int = -1, deaths: int = 1) -> list[Integers]:
    """A study of such tasks, with a folder of blocks and one of marks in `folder`."""
    marks = Path(folder) / "marks"
    marks.mkdir(parents=True, exist_ok=True)
    return spread.each(victim, range(tasks), doomed, deaths, str(marks), seed=19, folder=Path(folder) / "blocks")


@dataclass(frozen=True)
class Killed:
    """What was killed and what happened.

    Attributes
    ----------
    what, happened : str
    tasks, kept, again : int
        All tasks; blocks in the folder when the study stopped, or at its end; and tasks that were begun more than once.
    same : bool, whether the results, or those that were kept, have the bits of a run without deaths
    seconds : float
    """

    what: str
    happened: str
    tasks: int
    kept: int
    again: int
    same: bool
    seconds: float


def _kept(folder: Path) -> dict[int, Any]:
    """Results that are stored, by their numbers."""
    return {int(file.stem[6:]): pickle.loads(file.read_bytes()) for file in (folder / "blocks").glob("block-*.pickle")}


def _again(folder: Path) -> int:
    """Tasks that were begun more than once."""
    begun = [file.name.partition("-")[0] for file in (folder / "marks").iterdir()]
    return len({number for number in begun if begun.count(number) > 1})


@cache
def _undisturbed(tasks: int) -> list[Integers]:
    """What the tasks give if nobody dies."""
    with tempfile.TemporaryDirectory() as folder, on_processes(1):
        return victims(folder, tasks)


def attempt(
    what: str, tasks: int, doomed: int = -1, deaths: int = 1, watch: Callable[[Path], None] | None = None
) -> Killed:
    """Run such a study where blocks run now, while `watch` does something to it, and say what happened."""
    plain = _undisturbed(tasks)
    with tempfile.TemporaryDirectory() as name:
        folder, began, happened = Path(name), time.monotonic(), "finished"
        watcher = threading.Thread(target=watch, args=(folder,)) if watch else None
        if watcher:
            watcher.start()
        try:
            victims(name, tasks, doomed, deaths)
        except RuntimeError as error:
            happened = str(error)
        seconds = round(time.monotonic() - began, 1)
        if watcher:
            watcher.join()
        blocks = _kept(folder)
        same = all(np.array_equal(found, plain[number]) for number, found in blocks.items())
        return Killed(what, happened, tasks, len(blocks), _again(folder), same, seconds)


def _wait_for(folder: Path, blocks: int, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while len(list((folder / "blocks").glob("block-*.pickle"))) < blocks:
        if time.monotonic() > deadline:
            raise TimeoutError(f"fewer than {blocks} blocks in {seconds} seconds")
        time.sleep(0.01)


def resumed(tasks: int = 12, blocks: int = 4, place: int | str = 1) -> Killed:
    """Start a study in a process of its own, kill it with SIGKILL after some blocks, and go on with its folder here.

    `place` is where its blocks run, before and after.
    """
    plain = _undisturbed(tasks)
    with tempfile.TemporaryDirectory() as name:
        folder, began = Path(name), time.monotonic()
        code = f"from hdpm_book.beyond import machines as m; m.spread.use({place!r}); m.victims({name!r}, {tasks})"
        study = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stderr=subprocess.DEVNULL)
        try:
            _wait_for(folder, blocks)
        finally:
            os.killpg(study.pid, signal.SIGKILL)
            study.wait()
        kept = len(_kept(folder))
        with on_cluster(place) if isinstance(place, str) else on_processes(place):
            found = victims(name, tasks)
        seconds = round(time.monotonic() - began, 1)
        where = "on a cluster" if isinstance(place, str) else f"{place} process{'es' * (place > 1)}"
        same = digest(found) == digest(plain)
        return Killed(f"the whole study, {where}", "resumed", tasks, kept, _again(folder), same, seconds)


def _kill_all(tasks: int = 40) -> list[Killed]:
    """Everything that can be killed."""
    poison: dict[str, Any] = {"doomed": 7, "deaths": 99}
    found = []
    with on_processes(2):
        found.append(attempt("a loky worker, in a task", tasks, doomed=7))
        found.append(attempt("every loky worker with task 7", tasks, **poison))
    found += [resumed(tasks, 10), resumed(tasks, 10, 2)]
    with two_workers() as address:
        with on_cluster(address) as client:
            found.append(attempt("a Dask worker, in a task", tasks, doomed=7))
            found.append(attempt("every Dask worker with task 7", tasks, **poison))
        found.append(resumed(tasks, 10, address))
        with on_cluster(address) as client:
            client.wait_for_workers(2, timeout=60)  # they may be starting again
            nanny = next(iter(client.run(os.getppid).values()))
            found.append(attempt("a nanny, with its worker", tasks, watch=lambda folder: kill(nanny, folder)))
            scheduler = int(client.run_on_scheduler(os.getpid))
            found.append(attempt("the scheduler", tasks, watch=lambda folder: kill(scheduler, folder)))
    return found


def kill(process: int, folder: Path) -> None:
    """SIGKILL, when some blocks are done."""
    _wait_for(folder, 5)
    os.kill(process, signal.SIGKILL)


# --- threads and blocks -----------------------------------------------------------------------------------------------


def _threads(count: int, spread_out: bool) -> str:
    """Digest of the federated study in a process that starts with so many BLAS threads, through spread or in a loop."""
    loop = "[m.federated(np.random.default_rng(np.random.SeedSequence(18, spawn_key=(k,))), 10) for k in range(2)]"
    found = "m.run('federated training', 10, 2)" if spread_out else loop
    code = f"import numpy as np; from hdpm_book.beyond import machines as m; print(m.digest({found}))"
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(count))
    ran = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | threads, capture_output=True, text=True, check=True
    )
    return ran.stdout.strip()


def by_threads() -> dict[str, str]:
    """Digests by numbers of threads, in a loop and through spread."""
    return {
        f"{threads} threads, {'spread' if spread_out else 'loop'}": _threads(threads, spread_out)
        for spread_out in (False, True)
        for threads in (1, 2)
    }


SIZES, ALL, TRIES = (1_000, 10_000, 100_000, 1_000_000), 1_000_000, 6
LOOP = "plain loop"


def nothing(rng: np.random.Generator, number: int) -> None:
    """A task that does nothing."""


def _seconds(way: Callable[..., object], *given: Any) -> float:
    """Wall clock, the least of some tries."""
    found = []
    for _ in range(TRIES):
        began = time.perf_counter()
        way(*given)
        found.append(time.perf_counter() - began)
    return min(found)


def _loop(size: int) -> None:
    """``ALL`` runs of an audit of one coordinate, without spread."""
    for k in range(ALL // size):
        right_guesses(np.random.default_rng(np.random.SeedSequence(20, spawn_key=(k,))), size, (1, 1))


def _spread_out(size: int) -> None:
    """The same through spread; or 300 blocks that do nothing."""
    if size:
        spread.each(right_guesses, [size] * (ALL // size), (1, 1), seed=20)
    else:
        spread.each(nothing, range(300), seed=20)


def _block_times(place: str) -> list[dict[str, Any]]:
    """Seconds of a block by its runs, where blocks run now."""
    spread.each(right_guesses, [1000] * 2, (1, 1), seed=20)  # imports
    times = {size: _seconds(_spread_out, size) / (ALL // size if size else 300) for size in (0, *SIZES)}
    return [{"place": place, "runs": size, "seconds": seconds} for size, seconds in times.items()]


def _overhead() -> list[dict[str, Any]]:
    """In a loop, in this process, and on one worker of a Dask cluster."""
    found = [{"place": LOOP, "runs": size, "seconds": _seconds(_loop, size) * size / ALL} for size in SIZES]
    found += _block_times("in process")
    with local_cluster(1) as address, on_cluster(address):
        return found + _block_times("Dask worker")


def least_seconds(tries: int = 10) -> float:
    """Seconds of the processor for 100,000 runs, the least of some tries."""
    rng, found = np.random.default_rng(0), []
    for _ in range(tries):
        began = time.process_time()
        right_guesses(rng, 100_000)
        found.append(time.process_time() - began)
    return min(found)


def _memory() -> dict[str, float]:
    """What :func:`least_seconds` finds in processes with different settings of their memory."""
    with extra("cluster"):
        import dask
        import distributed  # noqa: F401  # with its configuration
    dasks = {name: str(value) for name, value in dask.config.get("distributed.nanny.pre-spawn-environ").items()}
    command = [sys.executable, "-c", "from hdpm_book.beyond import machines as m; print(m.least_seconds())"]
    rows = {}
    for name, settings in {"as usual": {}, "as Dask sets it": dasks, "kept": dasks | KEEP_MEMORY}.items():
        ran = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=True)
        rows[name] = round(float(ran.stdout), 3)
    return rows


# --- a long audit -----------------------------------------------------------------------------------------------------

RUNS, AT_ONCE, IN_BLOCK = 10**9, 10**4, 10**6  # runs of the whole audit, that one stream draws, and of a block


def timed_guesses(number: int) -> tuple[int, int, float]:
    """Guesses made and right ones in a block, whose streams follow those of the blocks before, and seconds."""
    began, streams = time.process_time(), IN_BLOCK // AT_ONCE
    children = [np.random.SeedSequence(21, spawn_key=(k,)) for k in range(number * streams, (number + 1) * streams)]
    made, right = np.sum([right_guesses(np.random.default_rng(one), AT_ONCE) for one in children], axis=0).tolist()
    return made, right, round(time.process_time() - began, 4)


def long_audit(folder: str, runs: int = RUNS) -> Any:
    """Counts and seconds of all blocks of an audit; the folder keeps those that are done."""
    return spread.each(timed_guesses, range(runs // IN_BLOCK), folder=folder)


def _some_minutes(seconds: float) -> list[tuple[int, int, float]]:
    """Blocks of the audit of 10^9 runs that one process does in so many seconds, after which it is killed."""
    with tempfile.TemporaryDirectory() as name:
        code = f"from hdpm_book.beyond import machines as m; m.long_audit({name + '/blocks'!r})"
        study = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stderr=subprocess.DEVNULL)
        try:
            _wait_for(Path(name), 1)
            time.sleep(seconds)
        finally:
            os.killpg(study.pid, signal.SIGKILL)
            study.wait()
        return [block for _, block in sorted(_kept(Path(name)).items())]


def guessed_share(loss: float = LOSS, steps: int = STEPS) -> tuple[float, float]:
    """Probabilities that a guess is made, and that it is right if it is made, for noise drawn for a loss."""
    step = loss / (2 * steps)  # the rate of the noise, by steps
    beyond = 1 / (1 + math.exp(-step))  # noise of 0 or more
    far = beyond * math.exp(-loss)  # beyond the other end
    return beyond + far, beyond / (beyond + far)


@dataclass(frozen=True)
class Audit:
    """The blocks of the audit that were run.

    Attributes
    ----------
    made, right : int arrays of shape (blocks,)
    seconds : array of shape (blocks,), of the processor
    """

    made: Integers
    right: Integers
    seconds: Array

    @property
    def runs(self) -> Integers:
        """Runs up to the end of each block."""
        return IN_BLOCK * np.arange(1, len(self.made) + 1)

    def bounds(self) -> Array:
        """Lower bounds on the privacy loss after each block, each too high with the book's false-alarm rate."""
        made, right = np.cumsum(self.made), np.cumsum(self.right)
        return np.array([bound_of(*counts) for counts in zip(right, made, self.runs, strict=True)])

    @property
    def p_value(self) -> float:
        """Of the claim, after all blocks."""
        return guess_p_value(int(self.right.sum()), int(self.made.sum()), int(self.runs[-1]), LOSS)

    def hours(self) -> dict[str, float]:
        """Time of one core for all runs, extrapolated from the mean block, and from the 10 % and 90 % quantiles."""
        blocks, (low, high) = RUNS / IN_BLOCK, np.quantile(self.seconds, [0.1, 0.9])
        return {
            name: float(s * blocks / 3600) for name, s in (("mean", self.seconds.mean()), ("low", low), ("high", high))
        }


def bound_of(right: float, made: float, runs: float) -> float:
    """Lower bound on the loss from sums of counts."""
    return float(guess_epsilon(right, made, runs, FALSE_ALARM))


def expected_bound(runs: float) -> float:
    """The bound at the expected counts of a mechanism that loses what it claims."""
    share, right = guessed_share()
    return bound_of(share * right * runs, share * runs, runs)


def _power(loss: float, runs: float, steps: int = STEPS) -> float:
    """Probability that so many runs reject the claim, for noise drawn for a loss."""
    share, _ = guessed_share(loss, steps)
    return power_of_guesses(loss, share, round(runs), LOSS, FALSE_ALARM)


def exposed(runs: int) -> float:
    """Smallest loss that so many runs expose with probability 0.9."""
    return float(optimize.brentq(lambda loss: _power(loss, runs) - 0.9, LOSS, 2 * LOSS, xtol=1e-9))


def runs_needed(steps: int, power: float = 0.9) -> int:
    """Runs that expose, with this probability, a scale of ``2 steps - 1`` grid steps where it should be ``2 steps``."""
    loss = LOSS * 2 * steps / (2 * steps - 1)
    ends = math.log(100), math.log(1e13)
    return round(math.exp(optimize.brentq(lambda x: _power(loss, math.exp(x), steps) - power, *ends, xtol=1e-4)))


def figure(audit: Audit) -> Figure:
    """Claim less bound against the runs: measured, and expected up to all runs."""
    drawn, axes = plots.subplots()
    grid = np.geomspace(1e6, RUNS, 13)
    measured, expected = LOSS - audit.bounds(), LOSS - np.array([expected_bound(n) for n in grid])
    plots.lines(axes, grid, {"expected": expected}, log="xy")
    style = plots.STYLES[1]
    axes.plot(audit.runs, measured, label="measured", **style | {"marker": "", "linestyle": "-"})
    axes.legend()
    axes.set(xlabel="runs", ylabel="claim − lower bound")
    return drawn


# --- the order of sums ------------------------------------------------------------------------------------------------


def sums_by_order(orders: int = 1000) -> dict[str, int]:
    """How many different sums come of the same blocks in so many orders of arrival: of counts, and of mean losses."""
    counts, losses = run(AUDIT, 1000, 20), np.array(run("ridge Monte Carlo", 200, 20))[:, 0, 0]
    rng = np.random.default_rng(22)
    arrivals = [rng.permutation(20) for _ in range(orders)]
    return {
        "counts": len({sum(int(counts[k][1]) for k in order) for order in arrivals}),
        "losses": len({sum(float(losses[k]) for k in order) for order in arrivals}),
    }


# --- the record -------------------------------------------------------------------------------------------------------


def _bits() -> list[dict[str, Any]]:
    """Seconds and digests of the three studies in four places."""
    rows = []

    def note(place: str) -> None:
        for name in STUDIES:
            run(name, 10, 2)  # imports
            began = time.perf_counter()
            found = digest(run(name))
            rows.append({"study": name, "place": place, "seconds": time.perf_counter() - began, "digest": found})

    for place, processes in (("in process", 1), ("loky, 2 processes", 2)):
        with on_processes(processes):
            note(place)
    for place, cluster in (("Dask LocalCluster", local_cluster()), ("scheduler, 2 workers", two_workers())):
        with cluster as address, on_cluster(address):
            note(place)
    return rows


MINUTES = 2.0  # that the long audit runs
PARTS: dict[str, Callable[[], Any]] = {
    "bits": _bits,
    "threads": by_threads,
    "kills": lambda: [asdict(one) for one in _kill_all()],
    "overhead": _overhead,
    "memory": _memory,
    "audit": lambda: _some_minutes(60 * MINUTES),
}


def main(arguments: list[str] | None = None) -> None:
    """Command line: run everything, or some parts anew, and store what came of it."""
    parser = argparse.ArgumentParser(prog="python -m hdpm_book.beyond.machines", description=main.__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parts = parser.parse_args(arguments).parts or list(PARTS)
    record = json.loads(STUDY.read_text("utf8")) if STUDY.is_file() else {}
    for part in parts:
        began = sum(os.times()[:4])  # of this process and of those that it started
        found = PARTS[part]()
        made = {"cpu_seconds": round(sum(os.times()[:4]) - began), "found": found}
        record[part] = provenance("numpy", "scipy", "joblib", "dask", "distributed") | made
    STUDY.write_text(json.dumps(record, indent=1) + "\n", encoding="utf8")


@cache
def record() -> dict[str, Any]:
    """What :func:`main` stored: for each part what was `found`, and where and when."""
    found: dict[str, Any] = json.loads(STUDY.read_text("utf8"))
    return found


def recorded(part: str) -> Any:
    """What was found."""
    return record()[part]["found"]


def recorded_audit() -> Audit:
    """The blocks of the long audit that were run."""
    made, right, seconds = zip(*recorded("audit"), strict=True)
    return Audit(np.array(made), np.array(right), np.array(seconds))


def bits() -> pd.DataFrame:
    """Seconds of the stored studies in four places, and the first digits of the digest if it is the same in all."""
    found = pd.DataFrame(recorded("bits"))
    table = found.pivot(index="study", columns="place", values="seconds")
    table = table.loc[found["study"].unique(), found["place"].unique()].map("{:.1f} s".format)
    digests = found.groupby("study")["digest"].agg(lambda some: some.iloc[0][:8] if some.nunique() == 1 else "differ")
    short = {"loky, 2 processes": "loky, 2", "Dask LocalCluster": "LocalCluster", "scheduler, 2 workers": "scheduler"}
    return table.rename(columns=short).assign(digest=digests).rename_axis(None, axis=1)


def kills() -> pd.DataFrame:
    """What was killed in the stored run, and what happened."""
    rows = pd.DataFrame(recorded("kills")).set_index("what")
    return pd.DataFrame(
        {
            "what happened": rows["happened"].str.split(r": (?:Attempted|_run)", regex=True).str[0],
            "blocks kept": [f"{kept} of {tasks}" for kept, tasks in zip(rows["kept"], rows["tasks"], strict=True)],
            "begun twice": rows["again"],
            "same bits": np.where(rows["same"], "yes", "no"),
        }
    ).rename_axis("killed")


def overhead() -> pd.DataFrame:
    """Stored milliseconds of a block, by its runs and by place."""
    rows = pd.DataFrame(recorded("overhead"))
    table = (1000 * rows.pivot(index="runs", columns="place", values="seconds")).loc[:, rows["place"].unique()]
    table.index = pd.Index([f"{runs:,}" if runs else "does nothing" for runs in table.index], name="runs a block")
    return table.map(lambda x: "" if np.isnan(x) else f"{x:.3g}").rename_axis(None, axis=1)


def per_block(place: str) -> float:
    """Stored seconds of a block that does nothing."""
    rows = pd.DataFrame(recorded("overhead"))
    return float(rows[(rows["place"] == place) & (rows["runs"] == 0)]["seconds"].iloc[0])


if __name__ == "__main__":
    main()
