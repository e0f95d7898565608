"""What was set as a goal for one machine, and what it takes: on this checkout and, beside it, on another one.

Only what both have is imported here, inside the functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.bench.case import spent

MILLION = 1_000_000
STEPS = 5  # of the ascent, timed together


@dataclass(frozen=True)
class Goal:
    """A piece of work with a goal."""

    work: str
    goal: float
    unit: str
    value: Callable[[], float]  # a number in the unit: measured once, after a call that warms up


def warm(call: Callable[[], Any]) -> float:
    """Seconds of the processor of a call after another one; of several if they are short."""
    first = spent(call)
    return spent(call, max(1, min(5, int(0.2 / max(first, 1e-6)))))


def sorts(call: Callable[[], Any]) -> float:
    """In units of one sort of a million random floats: half of the sorts before, half after."""
    floats = np.random.default_rng(0).random(MILLION)
    spent(lambda: np.argsort(floats))
    before = spent(lambda: np.argsort(floats), 2)
    own = warm(call)
    return own / ((before + spent(lambda: np.argsort(floats), 2)) / 2)


def contracts() -> float:
    from hdpm_lib.markets.contracts import least_cost_contract

    v = np.random.default_rng(1).random(MILLION)
    return sorts(lambda: least_cost_contract(v, MILLION**2 / 16, power=2.0))


def weights() -> float:
    from hdpm_lib.aggregation import least_error_weights

    rng = np.random.default_rng(2)
    epsilon, sizes = rng.uniform(0.5, 2, MILLION), rng.lognormal(3, 2, MILLION)
    return sorts(lambda: least_error_weights(epsilon, sizes))


def pivots() -> float:
    from hdpm_lib.markets.mechanisms import vcg_contract

    v = np.random.default_rng(3).random(MILLION)
    return sorts(lambda: vcg_contract(v, MILLION**2 / 16, 1.0, power=2.0))


def _paid(law: Any) -> float:
    from hdpm_lib.markets.procurement_auction import procurement_auction

    costs = law.rvs(455, random_state=np.random.default_rng(0))
    return warm(lambda: procurement_auction(costs, law, 1.0, 1 / float(np.median(costs)), 1.0))


def _general() -> Any:
    """A normal law cut to [1, 5]; of 455 sellers 19 are bought."""
    from scipy import stats

    return stats.truncnorm(-2, 2, loc=3, scale=1)


def general_law() -> float:
    return _paid(_general())


def by_uniform_law() -> float:
    from scipy import stats

    return _paid(_general()) / _paid(stats.uniform(1, 3))


def ascent() -> float:
    import jax

    from hdpm_book.federated import training
    from hdpm_book.federated.regretnet import Network

    settings = training.Settings(Network("DM-RegretNet"), batches=1, profiles=1024, search=STEPS)
    state = training.start(settings, 0)
    market = jax.tree.map(lambda part: part[0], training.draw_markets(settings, 0))
    climb = jax.jit(lambda *given: training.search(settings, *given))
    return warm(lambda: climb(state["weights"], market, state["misreports"][0]).block_until_ready()) / STEPS


IMPORT = "import hdpm_lib; hdpm_lib.output_perturbation([[0.0], [1.0]], [0.0, 1.0], [0.1, 0.5], penalty=1.0)"


def start() -> float:
    """Of a whole process."""
    import os
    import subprocess
    import sys

    subprocess.run([sys.executable, "-P", "-c", IMPORT], check=True)  # files are read, bytecode is written
    before = os.times()
    subprocess.run([sys.executable, "-P", "-c", IMPORT], check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


SORTS, SECONDS = "argsorts", "s"
GOALS = (
    Goal("contracts, n = 10⁶", 1.5, SORTS, contracts),
    Goal("OptAggr, n = 10⁶", 1.5, SORTS, weights),
    Goal("all M2 payments, n = 10⁶", 10, SORTS, pivots),
    Goal("payments of a general law, m = 455, few bought", 0.3, SECONDS, general_law),
    Goal("the same, over the uniform law", 10, "times", by_uniform_law),
    Goal("regret search, K = 1024, one ascent step", 0.05, SECONDS, ascent),
    Goal("import hdpm_lib and one learner", 0.3, SECONDS, start),
)
