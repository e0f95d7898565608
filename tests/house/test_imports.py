"""What it costs to import: light names of the library leave the heavy packages alone, and the
library all of them.
"""

from __future__ import annotations

import subprocess
import sys

LOOKS_AT = ["hdpm_lib"]
HEAVY = (
    "scipy.stats",
    "scipy.optimize",
    "scipy.integrate",
    "sklearn",
    "pandas",
    "joblib",
    "matplotlib",
    "jax",
)
LIGHT = """output_perturbation spherical_laplace discrete_laplace fedsgd integer_gradients
objective_perturbation linear_query nonlinear_query weighted_mean least_error_weights
size_weights error_bound Account procure equal_loss_contract least_cost_contract vcg_contract
myerson_contract procurement_auction error_minimising all_in posted_prices""".split()
CALLS = """
hdpm_lib.output_perturbation(np.ones(50), 1.0, features=2)
hdpm_lib.least_error_weights([1.0, 2.0], [1, 1])
hdpm_lib.procure([0.2, 1.2], 1.0, 1.0, 0.1)"""


def loaded(code: str) -> set[str]:
    """Which of NumPy and the heavy packages a new process has loaded after some code."""
    ask = f"import sys, hdpm_lib\n{code}\nprint(*sys.modules)"
    return {"numpy", *HEAVY} & set(
        subprocess.check_output([sys.executable, "-c", ask], text=True).split()
    )


def test_the_library_loads_nothing_before_it_is_used() -> None:
    assert loaded("") == set()


def test_light_names_and_calls_load_nothing_heavy() -> None:
    """Each in turn, so that the first that does is named."""
    steps = [*(f"hdpm_lib.{name}" for name in LIGHT), f"import numpy as np{CALLS}"]
    said = "".join(
        f"{step}\nassert not {set(HEAVY)} & set(sys.modules), {step!r}\n" for step in steps
    )
    assert loaded(said) == {"numpy"}


def test_heavy_packages_are_found() -> None:
    assert "sklearn" in loaded("hdpm_lib.PersonalizedRidge")
