"""Six problems on which private learners are compared at equal losses, and what diffprivlib reaches
on them.

``python -m hdpm_book.use.rivals PYTHON`` records the latter in ``data/studies/rivals.json``. PYTHON
is an interpreter with diffprivlib 0.6.6, which needs a scikit-learn below 1.7 and so an environment
of its own: ``pip install diffprivlib==0.6.6 scikit-learn==1.6.1``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes

from hdpm_book import datasets
from hdpm_book.records import provenance

Array = NDArray[np.float64]

RECORDED = Path(str(resources.files("hdpm_book.data") / "studies" / "rivals.json"))
LOSSES = (0.3, 1.0, 3.0, 10.0)
FITS = 20  # at each loss
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
    """Records of a linear law; a skew of 1 is uniform, larger ones crowd at one end."""
    rng = np.random.default_rng([n, d])
    X = rng.beta(1, skew, (n, d))
    signal = (X - X.mean(0)) @ rng.normal(size=d)
    signal *= np.sqrt(explained) / signal.std()
    y = signal + np.sqrt(1 - explained) * rng.normal(size=n)
    return X, np.sign(y) if classes else np.clip(y / 3, -1, 1)


def scaled(X: Array) -> Array:
    """Columns to [0, 1], by ranges that are taken for declared here, by all learners alike."""
    return (X - X.min(0)) / np.ptp(X, axis=0)


def medical() -> tuple[Array, Array]:
    """Medical costs by declared ranges, one column less for each category."""
    table = datasets.medical_cost()
    X, _, names = datasets.medical_design(table)
    left_out = ("female", "smoker_no", "northeast", "intercept")
    kept = [place for place, name in enumerate(names) if name not in left_out]
    return X[:, kept], np.clip(2 * table.labels / CHARGES - 1, -1, 1)


def problems() -> dict[str, Problem]:
    """The six problems, by name."""
    diabetes, progression = load_diabetes(return_X_y=True)
    cancer = datasets.breast_cancer()
    sets = {
        "medical costs": (*medical(), False),
        "diabetes": (scaled(diabetes), 2 * scaled(progression[:, None])[:, 0] - 1, False),
        "drawn, 5,000 x 5": (*drawn(5000, 5, 1.0, 0.8, False), False),
        "drawn, 30,000 x 10, skew": (*drawn(30_000, 10, 3.0, 0.5, False), False),
        "breast cancer": (
            scaled(np.asarray(cancer.features, float)),
            np.where(cancer.labels == "malignant", 1.0, -1.0),
            True,
        ),
        "drawn classes, 5,000 x 5": (*drawn(5000, 5, 2.0, 0.7, True), True),
    }
    split = {}
    for name, (X, y, classes) in sets.items():
        order = np.random.default_rng(len(y)).permutation(len(y))
        learn, test = np.split(order, [3 * len(y) // 4])
        split[name] = Problem(X[learn], y[learn], X[test], y[test], classes)
    return split


def error(problem: Problem, scores: Array) -> Array:
    """Error of scores of shape (fits, n): over the labels' variance, or share of wrong classes."""
    if problem.classes:
        return np.asarray((np.where(scores > 0, 1, -1) != problem.y_test).mean(1))
    wrong = (np.clip(scores, -1, 1) - problem.y_test) ** 2
    return np.asarray(wrong.mean(1) / problem.y_test.var())


# Runs under the other interpreter, which has no library of ours.
FIT = """
import sys, warnings
import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression

warnings.simplefilter("ignore")
X, y, X_test, classes, epsilon, fits = np.load(sys.argv[1], allow_pickle=True)["given"]
scores = []
for seed in range(fits):
    if classes:
        norm = np.sqrt(X.shape[1]) / 2
        model = LogisticRegression(epsilon=epsilon, data_norm=norm, random_state=seed)
        scores.append(model.fit(X - 0.5, y).decision_function(X_test - 0.5))
    else:
        bounds = {"bounds_X": (0, 1), "bounds_y": (-1, 1)}
        model = LinearRegression(epsilon=epsilon, random_state=seed, **bounds)
        scores.append(model.fit(X, y).predict(X_test))
np.save(sys.argv[2], np.array(scores))
"""


def record(python: str) -> None:
    """Fit all problems at all losses by diffprivlib, and store the errors."""
    rows = []
    scratch = RECORDED.with_suffix(".npz")
    answer = RECORDED.with_suffix(".npy")
    for name, problem in problems().items():
        for epsilon in LOSSES:
            given = np.empty(6, dtype=object)
            given[:] = [problem.X, problem.y, problem.X_test, problem.classes, epsilon, FITS]
            np.savez(scratch, given=given)
            subprocess.run([python, "-c", FIT, scratch, answer], check=True)
            errors = error(problem, np.load(answer))
            rows.append({"problem": name, "epsilon": epsilon, "errors": errors.round(6).tolist()})
            scratch.unlink()
            answer.unlink()
    about = provenance("numpy", "scikit-learn") | {"rival": "diffprivlib 0.6.6, scikit-learn 1.6.1"}
    RECORDED.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    record(sys.argv[1])
