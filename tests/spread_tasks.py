"""Tasks that other processes import: one that computes, and some that misbehave."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

Array = np.ndarray


def moments(rng: np.random.Generator, rows: int) -> tuple[Array, int]:
    """Linear algebra large enough for threads, and the process that did it."""
    x = rng.standard_normal((rows, rows))
    return np.linalg.solve(x @ x.T + np.eye(rows), x[0]), os.getpid()


def scaled(rng: np.random.Generator, item: float, factor: float) -> float:
    """Return a draw times an item and what is shared."""
    return factor * item * float(rng.random())


def drawn(rng: np.random.Generator, seconds: float) -> float:
    """Return a draw that takes its time."""
    time.sleep(seconds)
    return float(rng.random())


def dies_once(rng: np.random.Generator, doomed: int, marks: str) -> float:
    """Return a draw; a doomed one kills its process the first time."""
    drawn = float(rng.random())
    mark = Path(marks) / f"{drawn!r}"
    if int(1e6 * drawn) % doomed == 0 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return drawn


def dies_always(rng: np.random.Generator, below: float) -> float:
    """Small draws kill their process whenever they come."""
    drawn = float(rng.random())
    if drawn < below:
        os.kill(os.getpid(), signal.SIGKILL)
    return drawn


class Heavy:
    """What is shared, and counts how often it is sent from this process."""

    sent = 0

    def __getstate__(self) -> dict[str, int]:
        Heavy.sent += 1
        return {}


def weighs(item: int, heavy: Heavy) -> tuple[int, str]:
    """Return an item, and the type of what it is given besides."""
    return item, type(heavy).__name__


def fails(rng: np.random.Generator, above: float) -> float:
    """Draws above some number are an error."""
    drawn = float(rng.random())
    if drawn > above:
        raise ValueError(f"drew {drawn:.3f}")
    return drawn


def threads_of_scipy(_: int) -> list[int]:
    """Numbers of threads of all libraries, those of SciPy among them, which may come only now."""
    import scipy.linalg  # noqa: F401

    return [pool["num_threads"] for pool in threadpool_info()]


def spends(seed: int, record: list[int] | None = None) -> list[float]:
    """Fit three records named by `record`, or release them without names."""
    from hdpm_lib.learners import estimators, ridge

    X = np.zeros((3, 3))
    y = np.zeros(3)
    losses = np.array([0.5, 1.0, 1.5])
    if record is not None:
        return list(estimators.PersonalizedRidge().fit(X, y, epsilon=losses, record=record).coef_)
    mechanism = ridge.output_perturbation(losses, 1.0, features=3)
    return list(mechanism.release(X, y, rng=np.random.default_rng([614, seed])))
