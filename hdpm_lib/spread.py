r"""Many independent tasks, here, on all cores, or on a cluster, with the same results to the bit.

A study is a function of each of some items. If it draws, task `k` gets the child `k` of one seed,
whoever runs it and when: its result depends on the study and its number alone. Results come back in
the order of the tasks, so that sums of floats over them are the same, too; and every process
computes on one thread, for on two linear algebra may round in another way. Where tasks run is a
matter of the reader, not of the study: :func:`use` says it once for all of them.

A task goes out, and is stored when it is done, as one *block*: it should take a tenth of a second
or more.
"""

from __future__ import annotations

import inspect
import itertools
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from joblib.externals.loky.process_executor import TerminatedWorkerError
from threadpoolctl import ThreadpoolController
from tqdm import tqdm

from hdpm_lib.validation import check_count, check_ordered, extra

# from what is shared, a task's number and its item to the number and the result
Run = Callable[[tuple[Any, ...], int, Any], tuple[int, Any]]

_place: Any = 1  # a number of processes, or the client of a cluster


def use(place: Any = 1) -> Any:
    """Say where tasks run from now on.

    Parameters
    ----------
    place : int, str or distributed.Client, default 1
        A number of processes of this machine: 1 is a plain loop in this one, -1 takes all cores. Or
        the address of a Dask scheduler, ``"tcp://..."``, whose workers have the same packages and,
        for studies on data, the same ``HDPM_DATA_DIR``.

    Returns
    -------
    int or distributed.Client
        The place where they ran before.

    Examples
    --------
    >>> before = use(2)
    >>> use(before)
    2
    """
    global _place
    if isinstance(place, str):
        with extra("cluster"):
            from distributed import Client

        place = Client(place)
    before = _place
    _place = place
    return before


def width() -> int:
    """Return how many tasks run at a time."""
    if isinstance(_place, int):
        return int(joblib.effective_n_jobs(_place))
    return sum(_place.nthreads().values())


def each(
    function: Callable[..., Any],
    items: Iterable[Any],
    *shared: Any,
    seed: int | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> list[Any]:
    """Call a function of each item, and of what is shared.

    Parameters
    ----------
    function : callable
        Of an item and of what is `shared`; with a seed, of a numpy.random.Generator before them. It
        stands in a module that workers can import. An error of it is raised here, with the number
        of the task and the seed as a note: ``SeedSequence(seed, spawn_key=(number,))`` repeats it.
    items : iterable
        One for each task. Their order is that of the tasks, so that a set is refused.
    *shared
        Arguments of each task after its item. They are sent to each worker once.
    seed : int, optional
        Not negative; without one tasks get no generator.
    folder : path, optional
        Folder in which results are stored when they are done: a study that was killed goes on with
        them. One of another study is refused.

    Returns
    -------
    list
        Results in the order of the items.

    Examples
    --------
    >>> each(pow, [2, 3, 4], 2)
    [4, 9, 16]
    >>> [int(x) for x in each(np.random.Generator.integers, [10, 10, 1000], seed=0)]
    [8, 6, 656]
    """
    given = list(check_ordered(items, "items"))
    if seed is not None:
        seed = check_count(seed, "seed", 0)
    run = partial(_run, function, seed, len(given))
    done: dict[int, Any] = {}
    if folder is not None:
        done = _opened(Path(folder), _name(function, shared, seed, given))
    left = {k: item for k, item in enumerate(given) if k not in done}
    place = _on_processes if isinstance(_place, int) else _on_cluster
    with tqdm(total=len(given), initial=len(done), disable=None) as bar:
        for k, result in place(run, shared, left):
            done[k] = result
            if folder is not None:
                _write(Path(folder) / f"block-{k:06d}.pickle", pickle.dumps(result))
            bar.update()
    return [done[k] for k in range(len(given))]


def _run(
    function: Any, seed: int | None, total: int, shared: tuple[Any, ...], k: int, item: Any
) -> tuple[int, Any]:
    """Run one task on one thread."""
    while True:
        pools = _pools(len(sys.modules))
        with pools.limit(limits=1):
            busy = _busy(pools)
            if busy:
                raise RuntimeError(
                    f"threads of {busy[0].filepath} cannot be set to one: results would differ in"
                    " last bits"
                )
            result = _result(function, seed, total, shared, k, item)
            busy = _busy(_pools(len(sys.modules)))
        if not busy:
            return k, result
        # it imported a library with threads: once more, with all that there is on one thread


def _result(
    function: Any, seed: int | None, total: int, shared: tuple[Any, ...], k: int, item: Any
) -> Any:
    """Call the function of one task, with a generator of its own if there is a seed."""
    note = f"in task {k} of {total}"
    arguments = [item, *shared]
    if seed is not None:
        note += f" (seed {seed})"
        sequence = np.random.SeedSequence(seed, spawn_key=(k,))
        arguments.insert(0, np.random.default_rng(sequence))
    try:
        return function(*arguments)
    except Exception as error:
        error.add_note(note)
        raise


def _busy(pools: ThreadpoolController) -> list[Any]:
    """Return the libraries that run on more than one thread."""
    return [pool for pool in pools.lib_controllers if pool.num_threads != 1]


@lru_cache(1)
def _pools(_: int) -> ThreadpoolController:
    """Find the libraries with threads.

    To find them takes milliseconds: it is done again when there are more modules.
    """
    return ThreadpoolController()


def _on_processes(
    run: Run, shared: tuple[Any, ...], left: dict[int, Any]
) -> Iterator[tuple[int, Any]]:
    """Run tasks here, or by joblib and loky.

    If a worker is killed, what is left is asked for again, until three die in a row.
    """
    if _place == 1:
        for k, item in left.items():
            yield run(shared, k, item)
        return
    deaths = 0
    while left:
        workers = joblib.Parallel(
            _place, backend="loky", return_as="generator_unordered", batch_size=1
        )
        calls = [joblib.delayed(run)(shared, k, item) for k, item in left.items()]
        try:
            for k, result in workers(calls):
                del left[k]
                deaths = 0
                yield k, result
        except TerminatedWorkerError as error:
            deaths += 1
            if deaths == 3:
                blocks = ", ".join(map(str, left))
                raise RuntimeError(
                    f"workers died {deaths} times without finishing a block; not done are blocks"
                    f" {blocks}: does a task need more memory than there is?"
                ) from error


def _on_cluster(
    run: Run, shared: tuple[Any, ...], left: dict[int, Any]
) -> Iterator[tuple[int, Any]]:
    """Run tasks on the workers of a Dask cluster.

    It repeats the tasks of workers that die, also before a result is fetched.
    """
    from distributed import KilledWorker, as_completed
    from distributed.comm import CommClosedError

    waiting = iter(left.items())
    sent = dict[Any, int]()
    coming = as_completed()
    most = 2 * max(1, width())  # tasks on their way
    # once to each worker, not with each task; a task itself, which Dask repeats if all of them die,
    # whereas what is scattered would be lost
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph")
        held = _place.submit(partial(tuple, shared), pure=False)
    try:
        while True:
            for k, item in itertools.islice(waiting, most - len(sent)):
                future = _place.submit(run, held, k, item, pure=False)
                sent[future] = k
                coming.add(future)
            if not sent:
                return
            future = next(coming)
            k = sent[future]
            result = future.result()
            del sent[future]
            yield result
    except KilledWorker as error:
        raise RuntimeError(
            f"block {k} was lost with every worker that took it: it, or a block beside it, kills"
            f" them: {error}"
        ) from error
    except (CancelledError, CommClosedError) as error:
        # the second if it went while a result was fetched
        raise RuntimeError(f"the scheduler was lost, with block {k} and others: {error}") from error
    finally:
        _place.cancel(list(sent))


def _name(function: Any, shared: tuple[Any, ...], *numbers: Any) -> str:
    """Name a study: by its functions, and what they are given, not by where it runs."""
    routines = [value for value in (function, *shared) if inspect.isroutine(value)]
    names = " ".join(f"{_module(routine)}.{routine.__qualname__}" for routine in routines)
    data = [value for value in shared if not callable(value)]
    return f"{names} {joblib.hash((data, numbers))}"


def _module(function: Any) -> str:
    """Name the module of a function, also if Python was started with it (``python -m``)."""
    name = str(function.__module__)
    if name == "__main__":
        spec = getattr(sys.modules[name], "__spec__", None)
        if spec:
            return str(spec.name)
    return name


def _opened(folder: Path, study: str) -> dict[int, Any]:
    """Read the results in a folder, which is made if need be; refuse those of another study."""
    folder.mkdir(parents=True, exist_ok=True)
    label = folder / "study.txt"
    done = {}
    if label.is_file() and label.read_text("utf8") != study:
        raise ValueError(
            f"folder {folder} holds blocks of another study: {label.read_text('utf8')}"
        )
    _write(label, study.encode())
    for file in folder.glob("block-*.pickle"):
        try:
            done[int(file.stem[6:])] = pickle.loads(file.read_bytes())
        except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, ValueError) as error:
            raise ValueError(f"{file} is damaged: delete it, and its task runs again") from error
    return done


def _write(file: Path, content: bytes) -> None:
    """Write in one step, so that whoever comes after a crash finds all of it or nothing."""
    unfinished = file.with_suffix(".part")
    unfinished.write_bytes(content)
    unfinished.replace(file)
