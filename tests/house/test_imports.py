"""What it costs to import: light names of the library leave the heavy packages alone, and the library all of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("scipy.stats", "scipy.optimize", "scipy.integrate", "sklearn", "pandas", "joblib", "matplotlib", "jax")
LIGHT = """
    output_perturbation spherical_laplace discrete_laplace lattice_laplace fedsgd integer_gradients integer_sum
    objective_perturbation linear_query nonlinear_query WeightedMean least_error_weights size_weights error_bound
    Account procure equal_loss_contract least_cost_contract vcg_contract myerson_contract procurement_auction
    error_minimising all_in posted_prices
""".split()
CALLS = """
hdpm_lib.output_perturbation(np.full((50, 2), 0.5), np.full(50, 0.5), np.ones(50), 1.0)
hdpm_lib.least_error_weights([1.0, 2.0], [1, 1])
hdpm_lib.procure([0.2, 1.2], 1.0, 1.0, 0.1)"""


def loaded(code: str) -> set[str]:
    """Which of NumPy and the heavy packages a new process has loaded after some code."""
    ask = f"import sys, hdpm_lib\n{code}\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    return {"numpy", *HEAVY} & set(run.stdout.split())


def test_the_library_loads_nothing_before_it_is_used() -> None:
    assert loaded("") == set()


@pytest.mark.parametrize("name", LIGHT)
def test_light_names_load_nothing_heavy(name: str) -> None:
    assert loaded(f"hdpm_lib.{name}") == {"numpy"}


def test_calls_load_nothing_heavy_either() -> None:
    assert loaded(f"import numpy as np{CALLS}") == {"numpy"}


def test_heavy_packages_are_found() -> None:
    assert "sklearn" in loaded("hdpm_lib.PersonalizedRidge")
