"""Six problems on which private learners are compared at equal losses, and what diffprivlib and
Opacus reach on them.

``python -m hdpm_book.use.rivals diffprivlib PYTHON`` records the former in
``data/studies/rivals.json``. PYTHON is an interpreter with diffprivlib 0.6.6, which needs a
scikit-learn below 1.7 and so an environment of its own: ``pip install diffprivlib==0.6.6
scikit-learn==1.6.1``.

``python -m hdpm_book.use.rivals opacus PYTHON`` records the latter in
``data/studies/rivals_with_delta.json``; it took an hour of a busy machine. PYTHON is an interpreter
with Opacus 1.6: ``pip install opacus==1.6.0 torch==2.14.1``, some gigabytes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes

from hdpm_book import datasets
from hdpm_book.records import STUDIES, provenance, store

Array = NDArray[np.float64]

LOSSES = (0.3, 1.0, 3.0, 10.0)
FITS = 20  # at each loss
DELTA = 1e-6  # far below one over the number of people
CHARGES = 50_000  # dollars, at which medical costs are capped


@dataclass(frozen=True)
class Problem:
    """Records of one data set, three quarters to learn from.

    Attributes
    ----------
    X, X_test : arrays of shape (n, d)
        Features in [0, 1], by declared ranges.
    y, y_test : arrays of shape (n,)
        Labels in [-1, 1]; of a classifier -1 and 1.
    classes : bool
        Whether labels are classes.
    """

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    classes: bool


def drawn(n: int, d: int, skew: float, explained: float, classes: bool) -> tuple[Array, Array]:
    """Return records of a linear law; a skew of 1 is uniform, larger ones crowd at one end."""
    rng = np.random.default_rng([n, d])
    X = rng.beta(1, skew, (n, d))
    signal = (X - X.mean(0)) @ rng.normal(size=d)
    signal *= np.sqrt(explained) / signal.std()
    y = signal + np.sqrt(1 - explained) * rng.normal(size=n)
    return X, np.sign(y) if classes else np.clip(y / 3, -1, 1)


def scaled(X: Array) -> Array:
    """Scale columns to [0, 1], by ranges taken for declared here, by all learners alike."""
    return (X - X.min(0)) / np.ptp(X, axis=0)


def medical() -> tuple[Array, Array]:
    """Return medical costs by declared ranges, one column less for each category."""
    table = datasets.medical_cost()
    X, _, names = datasets.medical_design(table)
    left_out = ("female", "smoker_no", "northeast", "intercept")
    kept = [place for place, name in enumerate(names) if name not in left_out]
    return X[:, kept], np.clip(2 * table.labels / CHARGES - 1, -1, 1)


def problems() -> dict[str, Problem]:
    """Return the six problems, by name."""
    diabetes, progression = load_diabetes(return_X_y=True)
    cancer = datasets.breast_cancer()
    measured = scaled(np.asarray(cancer.features, float))
    malignant = np.where(cancer.labels == "malignant", 1.0, -1.0)
    sets = {
        "medical costs": medical(),
        "diabetes": (scaled(diabetes), 2 * scaled(progression[:, None])[:, 0] - 1),
        "drawn, 5,000 x 5": drawn(5000, 5, 1.0, 0.8, False),
        "drawn, 30,000 x 10, skew": drawn(30_000, 10, 3.0, 0.5, False),
        "breast cancer": (measured, malignant),
        "drawn classes, 5,000 x 5": drawn(5000, 5, 2.0, 0.7, True),
    }
    split = {}
    for name, (X, y) in sets.items():
        classes = set(y) == {-1.0, 1.0}
        order = np.random.default_rng(len(y)).permutation(len(y))
        learn, test = np.split(order, [3 * len(y) // 4])
        split[name] = Problem(X[learn], y[learn], X[test], y[test], classes)
    return split


def error(problem: Problem, scores: Array) -> Array:
    """Return the error of scores of shape (fits, n): over the labels' variance, or share of wrong
    classes.
    """
    if problem.classes:
        return np.asarray((np.where(scores > 0, 1, -1) != problem.y_test).mean(1))
    wrong = (np.clip(scores, -1, 1) - problem.y_test) ** 2
    return np.asarray(wrong.mean(1) / problem.y_test.var())


def fits_of(problem: Problem) -> int:
    """Tell how many fits tell enough: with many records one is nearly like another."""
    return FITS if len(problem.y) < 2000 else FITS // 4


# Both run under another interpreter, which has no library of ours.
DIFFPRIVLIB = """
import sys, warnings
import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression

warnings.simplefilter("ignore")
given = np.load(sys.argv[1])
X, y, X_test = given["X"], given["y"], given["X_test"]
epsilon = float(given["epsilon"])
scores = []
for seed in range(int(given["fits"])):
    if given["classes"]:
        norm = np.sqrt(X.shape[1]) / 2
        model = LogisticRegression(epsilon=epsilon, data_norm=norm, random_state=seed)
        scores.append(model.fit(X - 0.5, y).decision_function(X_test - 0.5))
    else:
        bounds = {"bounds_X": (0, 1), "bounds_y": (-1, 1)}
        model = LinearRegression(epsilon=epsilon, random_state=seed, **bounds)
        scores.append(model.fit(X, y).predict(X_test))
np.savez(sys.argv[2], scores=scores)
"""

# The first batch, number of epochs and rate are those of the example that Opacus shows first, its
# MNIST; an accountant, weights to start from and the reduction of losses are left as they are.
BATCHES = ((64, 10), (512, 20))  # records in a batch, epochs
RATES = (0.1, 0.5, 2.0)
OPACUS = """
import sys, warnings
import numpy as np
import torch
from opacus import PrivacyEngine
from opacus.accountants.utils import get_noise_multiplier
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
torch.set_num_threads(1)
given = np.load(sys.argv[1])
X, X_test = (torch.tensor(given[name] - 0.5, dtype=torch.float32) for name in ("X", "X_test"))
y = torch.tensor(given["y"], dtype=torch.float32)[:, None]
criterion = torch.nn.MSELoss()
if given["classes"]:
    y = (y + 1) / 2
    criterion = torch.nn.BCEWithLogitsLoss()
delta, epochs = float(given["delta"]), int(given["epochs"])
batch = min(int(given["batch"]), len(y))
loader = DataLoader(TensorDataset(X, y), batch_size=batch)
noise = get_noise_multiplier(
    target_epsilon=float(given["epsilon"]),
    target_delta=delta,
    sample_rate=1 / len(loader),
    epochs=epochs,
    accountant="prv",
)
scores, spent = [], []
for rate in given["rates"]:
    for seed in range(int(given["fits"])):
        torch.manual_seed(seed)
        model = torch.nn.Linear(X.shape[1], 1)
        engine = PrivacyEngine()
        private, optimizer, batches = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=float(rate)),
            data_loader=loader,
            noise_multiplier=noise,
            max_grad_norm=1.0,
        )
        for _ in range(epochs):
            for features, labels in batches:
                optimizer.zero_grad()
                criterion(private(features), labels).backward()
                optimizer.step()
        scores.append(model(X_test).detach().numpy()[:, 0])
    spent.append(engine.get_epsilon(delta))
np.savez(sys.argv[2], scores=scores, spent=spent, noise=noise)
"""


def told(python: str, program: str, **given: Any) -> dict[str, Array]:
    """Return what a program says to arrays, under another interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        question = Path(folder) / "given.npz"
        answer = Path(folder) / "answer.npz"
        np.savez(question, **given)
        subprocess.run([python, "-c", program, question, answer], check=True)
        with np.load(answer) as found:
            return dict(found)


def records_of(problem: Problem) -> dict[str, Any]:
    """Return what a rival is told of a problem: not the labels that test it."""
    known = {name: getattr(problem, name) for name in ("X", "y", "X_test", "classes")}
    return known | {"fits": fits_of(problem)}


def versions_of(python: str, *packages: str) -> str:
    """Return versions of packages under another interpreter."""
    program = "import sys\nfrom importlib.metadata import version\nprint(version(sys.argv[1]))"
    found = []
    for name in packages:
        asked = [python, "-c", program, name]
        said = subprocess.run(asked, check=True, capture_output=True, text=True)
        found.append(f"{name} {said.stdout.strip()}")
    return ", ".join(found)


def about(rival: str, python: str, *packages: str) -> dict[str, Any]:
    """Tell where a record comes from."""
    command = {"command": f"python -m hdpm_book.use.rivals {rival} PYTHON"}
    versions = {"rival": versions_of(python, *packages)}
    return provenance("numpy", "scikit-learn") | command | versions


def record_diffprivlib(python: str) -> None:
    """Fit all problems at all losses by diffprivlib, and store the errors."""
    record = about("diffprivlib", python, "diffprivlib", "scikit-learn")
    rows = []
    for name, problem in problems().items():
        known = records_of(problem) | {"fits": FITS}
        for epsilon in LOSSES:
            found = told(python, DIFFPRIVLIB, epsilon=epsilon, **known)
            errors = error(problem, found["scores"])
            rows.append({"problem": name, "epsilon": epsilon, "errors": errors.round(6).tolist()})
    store(STUDIES / "rivals.json", record | {"rows": rows})


def record_opacus(python: str) -> None:
    """Fit all problems at all losses and a delta by Opacus, and store the errors by settings."""
    record = about("opacus", python, "opacus", "torch")
    began = time.monotonic()
    rows = []
    for name, problem in problems().items():
        known = records_of(problem) | {"delta": DELTA, "rates": RATES}
        for epsilon in LOSSES:
            for batch, epochs in BATCHES:
                found = told(python, OPACUS, epsilon=epsilon, batch=batch, epochs=epochs, **known)
                errors = error(problem, found["scores"]).reshape(len(RATES), -1)
                for rate, spent, some in zip(RATES, found["spent"], errors, strict=True):
                    row = {"problem": name, "epsilon": epsilon, "batch": batch, "epochs": epochs}
                    row |= {"rate": rate, "spent": round(float(spent), 6)}
                    rows.append(row | {"errors": some.round(6).tolist()})
    record |= {"delta": DELTA, "seconds": round(time.monotonic() - began), "rows": rows}
    store(STUDIES / "rivals_with_delta.json", record)


if __name__ == "__main__":
    {"diffprivlib": record_diffprivlib, "opacus": record_opacus}[sys.argv[1]](sys.argv[2])
