"""What it costs to import: light modules of the library leave the heavy packages alone."""

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


def loaded(code: str) -> list[str]:
    """The heavy packages that a new process has loaded after some code."""
    ask = f"{code}\nimport sys; print(*(name for name in {HEAVY} if name in sys.modules))"
    run = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    return run.stdout.split()


@pytest.mark.parametrize("name", LIGHT)
def test_light_names_load_nothing_heavy(name: str) -> None:
    assert loaded(f"import hdpm_lib; hdpm_lib.{name}") == []


def test_calls_load_nothing_heavy_either() -> None:
    """A learner, noise and weights, not only their import."""
    learner = "hdpm_lib.output_perturbation(np.full((50, 2), 0.5), np.full(50, 0.5), np.ones(50), 1.0)"
    weights = "hdpm_lib.least_error_weights([1.0, 2.0], [1, 1])"
    for call in (learner, weights, "hdpm_lib.procure([0.2, 1.2], 1.0, 1.0, 0.1)"):
        assert loaded(f"import numpy as np, hdpm_lib\n{call}") == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import scipy.stats", "scipy.stats"),
        ("import hdpm_lib.noise\nhdpm_lib.noise.norm_law(2, 1.0)", "scipy.stats"),
        ("import hdpm_lib; hdpm_lib.PersonalizedRidge", "sklearn"),
    ],
)
def test_heavy_packages_are_found(code: str, found: str) -> None:
    assert found in loaded(code)
