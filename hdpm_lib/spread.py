r"""Many independent tasks, here, on all cores, or on a cluster, with the same results to the last bit.

A study is a number of tasks that differ in their random numbers, or in an item of a list as well. Task `k` gets the
child `k` of one seed, whoever runs it and when, so that its result depends on nothing but the seed and its number.
Results come back in the order of the tasks: sums of floats over them are the same, too. One thread computes in every
process, for with two of them linear algebra may round in another way.

Tasks go out in *blocks*, which should take a tenth of a second or more. With a folder each block that is done is stored
there, and a study that was killed goes on where it was.

Where the blocks run is a matter of the reader, not of the study: :func:`use` says it once for all studies.
"""

from __future__ import annotations

import inspect
import itertools
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NoReturn

import joblib
import numpy as np
from joblib.externals.loky.process_executor import TerminatedWorkerError
from threadpoolctl import ThreadpoolController
from tqdm import tqdm

from hdpm_lib.validation import check_count, extra

Task = Callable[..., Any]  # of a generator, and of what all tasks share
Block = tuple[int, list[Any]]  # number and results
Items = dict[int, list[tuple[Any, ...]]]  # of the tasks of each block
Run = Callable[[int, list[tuple[Any, ...]]], Block]
AHEAD = 2  # blocks that a cluster holds for each worker, the one in work included: what is shared goes with each
DEATHS = 3  # of workers, one after the other and without a block between them, until a study gives up

_place: int | str | Any = 1


def use(place: int | str | Any = 1) -> None:
    """Say where blocks run from now on: number of processes on this machine, or the address of a Dask scheduler.

    Parameters
    ----------
    place : int, str or distributed.Client, default 1
        1 is a plain loop in this process; -1 takes all cores; ``"tcp://..."`` is a scheduler that runs already, whose
        workers have the same packages and, for studies on data, the same ``HDPM_DATA_DIR``.
    """
    global _place
    if isinstance(place, str):
        with extra("cluster"):
            from distributed import Client

        place = Client(place)
    elif isinstance(place, int) and (isinstance(place, bool) or place == 0):
        raise ValueError(f"place must be a number of processes, an address or a client, got {place}")
    _place = place


def place() -> int | Any:
    """Where blocks run: a number of processes, or the client of a cluster."""
    return _place


def width() -> int:
    """How many blocks run at a time."""
    here = place()
    return int(joblib.effective_n_jobs(here)) if isinstance(here, int) else sum(here.nthreads().values())


def spread(
    task: Task,
    seed: int,
    tasks: int | Sequence[Any],
    *,
    shared: tuple[Any, ...] = (),
    block: int = 1,
    combine: Callable[[list[Any]], Any] | None = None,
    folder: str | os.PathLike[str] | None = None,
    title: str = "",
) -> list[Any]:
    """Results of the tasks, in their order, or of the blocks of them.

    Parameters
    ----------
    task : callable, of a numpy.random.Generator, of its item if there are items, and of what is `shared`
        It stands in a module that workers can import.
    seed : int
    tasks : int, or a sequence of an item for each task
    shared : tuple, further arguments, the same for all tasks
    block : int, tasks that go out together
    combine : callable, optional
        From the results of a block to what is kept of it, so that memory and traffic stay small.
    folder : path, optional
        Where blocks are stored when they are done. One that holds blocks of another study is refused.
    title : str, of the progress bar, which is shown on a terminal only

    Examples
    --------
    >>> [int(x) for x in spread(np.random.Generator.integers, 0, 4, shared=(10,), block=2)]
    [8, 6, 6, 8]
    """
    items = [()] * check_count(tasks, "tasks") if isinstance(tasks, int) else [(item,) for item in tasks]
    size = check_count(block, "block")
    blocks = range(-(-len(items) // size))
    parts = {k: items[k * size : (k + 1) * size] for k in blocks}
    run = partial(_run, task, check_count(seed, "seed", 0), len(items), size, shared, combine)
    store = None
    if folder is not None:
        store = _Store(Path(folder), _name(task, (combine, *shared), seed, items, size), len(blocks))
    done = {} if store is None else store.read()
    with tqdm(total=len(blocks), initial=len(done), desc=title or None, unit="block", disable=None) as bar:
        for number, results in _finished(run, {k: parts[k] for k in blocks if k not in done}):
            done[number] = results
            if store is not None:
                store.write(number, results)
            bar.update()
    return [result for number in blocks for result in done[number]]


def each(
    function: Callable[..., Any],
    items: Iterable[Any],
    *shared: Any,
    folder: str | os.PathLike[str] | None = None,
    title: str = "",
) -> list[Any]:
    """The function of each item, and of what is shared: :func:`spread` for what draws nothing, or has its own seeds.

    Examples
    --------
    >>> each(pow, [2, 3, 4], 2)
    [4, 9, 16]
    """
    return spread(_without_stream, 0, list(items), shared=(function, *shared), folder=folder, title=title)


def _without_stream(_: np.random.Generator, item: Any, function: Callable[..., Any], *shared: Any) -> Any:
    return function(item, *shared)


def _run(
    task: Task,
    seed: int,
    tasks: int,
    size: int,
    shared: tuple[Any, ...],
    combine: Callable[[list[Any]], Any] | None,
    number: int,
    items: list[tuple[Any, ...]],
) -> Block:
    """One block, on one thread."""
    with (pools := _pools(len(sys.modules))).limit(limits=1):
        if busy := [pool for pool in pools.lib_controllers if pool.num_threads != 1]:
            raise RuntimeError(f"threads of {busy[0].filepath} cannot be set to one: results would differ in last bits")
        results = []
        for k, item in enumerate(items, number * size):
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(k,)))
            try:
                results.append(task(rng, *item, *shared))
            except Exception as error:
                failed = BadTask if isinstance(error, ValueError) else TaskError
                raise failed(f"task {k} of {tasks} (seed {seed}) failed: {type(error).__name__}: {error}") from error
        alone = all(pool.num_threads == 1 for pool in _pools(len(sys.modules)).lib_controllers)
    if not alone:  # a task imported a library with threads: once more, with all that there is on one thread
        return _run(task, seed, tasks, size, shared, combine, number, items)
    return number, results if combine is None else [combine(results)]


@lru_cache(1)
def _pools(_: int) -> ThreadpoolController:
    """Libraries with threads. To find them takes milliseconds: it is done again when there are more modules."""
    return ThreadpoolController()


class TaskError(RuntimeError):
    """A task failed. The message has its number, with which ``SeedSequence(seed, spawn_key=(number,))`` repeats it."""


class BadTask(TaskError, ValueError):
    """A task failed with a `ValueError`, and this is one, too."""


# --- places -----------------------------------------------------------------------------------------------------------


def _finished(run: Run, blocks: Items) -> Iterator[Block]:
    """Blocks with their results, as they come."""
    if _place == 1:
        yield from itertools.starmap(run, blocks.items())
    elif isinstance(_place, int):
        yield from _on_processes(run, blocks, _place)
    else:
        yield from _on_cluster(run, blocks, _place)


def _on_processes(run: Run, blocks: Items, processes: int) -> Iterator[Block]:
    """On this machine, by joblib and loky. If a worker is killed, what is left is asked for again."""
    left, deaths = dict(blocks), 0
    while left:
        workers = joblib.Parallel(processes, backend="loky", return_as="generator_unordered", batch_size=1)
        try:
            for number, results in workers(joblib.delayed(run)(*one) for one in list(left.items())):
                del left[number]
                deaths = 0
                yield number, results
        except TerminatedWorkerError as error:
            deaths += 1
            if deaths >= DEATHS:
                raise RuntimeError(
                    f"workers died {deaths} times without finishing a block; not done are blocks {_some(left)}: does a "
                    "task need more memory than there is?"
                ) from error


def _on_cluster(run: Run, blocks: Items, client: Any) -> Iterator[Block]:
    """On the workers of a Dask cluster, which repeats the blocks of those that die."""
    with extra("cluster"):
        from distributed import as_completed

    waiting, sent, most = iter(blocks.items()), dict[Any, int](), AHEAD * max(1, width())
    coming = as_completed(with_results=True, raise_errors=False)
    try:
        while True:
            for number, items in itertools.islice(waiting, most - len(sent)):
                future = client.submit(run, number, items, pure=False)
                sent[future] = number
                coming.add(future)
            if not sent:
                return
            future, found = next(coming)
            if future.status != "finished":
                _raise(future, sent[future])
            del sent[future]
            yield found
    finally:
        client.cancel(list(sent))


def _raise(future: Any, number: int) -> NoReturn:
    """The error of a block that a cluster did not finish."""
    with extra("cluster"):
        from distributed import KilledWorker
    try:
        future.result()
    except KilledWorker as error:
        what = f"block {number} was lost with every worker that took it: it, or a block beside it, kills them"
        raise RuntimeError(f"{what}: {error}") from error
    except CancelledError as error:
        raise RuntimeError(f"the scheduler was lost, with block {number} and others: {error}") from error
    raise RuntimeError(f"block {number} is {future.status}")


def _some(blocks: Any) -> str:
    numbers = [str(k) for k in blocks]
    return ", ".join(numbers[:5]) + (f" and {len(numbers) - 5} more" if len(numbers) > 5 else "")


# --- blocks that are done ---------------------------------------------------------------------------------------------


def _name(task: Task, shared: tuple[Any, ...], *numbers: Any) -> str:
    """What a study is: the names of its functions, and what they are given; not where it runs."""
    parts = [part for part in shared if not callable(part)]
    names = [f"{_module(part)}.{part.__qualname__}" for part in (task, *shared) if inspect.isroutine(part)]
    return f"{' '.join(names)} {joblib.hash((parts, numbers))}"


def _module(function: Any) -> str:
    """Where a function is defined, also if that module is the one that Python was started with (``python -m``)."""
    spec = getattr(sys.modules["__main__"], "__spec__", None) if function.__module__ == "__main__" else None
    return spec.name if spec else str(function.__module__)


class _Store:
    """A folder with a file for each block that is done, written at once or not at all."""

    def __init__(self, folder: Path, study: str, blocks: int) -> None:
        self.folder, self.blocks = folder, blocks
        folder.mkdir(parents=True, exist_ok=True)
        label = folder / "study.txt"
        if label.is_file() and label.read_text("utf8") != study:
            raise ValueError(f"folder {folder} holds blocks of another study: {label.read_text('utf8')}")
        _write(label, study.encode())

    def _file(self, number: int) -> Path:
        return self.folder / f"block-{number:06d}.pickle"

    def read(self) -> dict[int, list[Any]]:
        """The blocks that are there."""
        found = {}
        for number in range(self.blocks):
            if self._file(number).is_file():
                try:
                    found[number] = pickle.loads(self._file(number).read_bytes())
                except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, ValueError) as error:
                    raise ValueError(f"{self._file(number)} is damaged: delete it, and its tasks run again") from error
        return found

    def write(self, number: int, results: list[Any]) -> None:
        _write(self._file(number), pickle.dumps(results))


def _write(file: Path, content: bytes) -> None:
    """In one step, so that a reader, or whoever comes after a crash, finds all of it or nothing."""
    part = file.with_suffix(".part")
    with part.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(file)
