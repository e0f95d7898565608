"""Three ways to one cell of the ridge paper's medical tables, and Tables 1 to 10 whole. Run by ``make bench``.

The cell: mean unregularised test loss of PDP-OP over 10,000 noise draws at penalty 1, 1070 training records, 12
features. The plain way fits scikit-learn's Ridge anew in every run, as a direct script would; it is timed on 500 runs
and scaled to 10,000. Times are medians over repeats.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import train_test_split

from hdpm_book.datasets import StandInWarning, medical_cost, medical_design
from hdpm_book.ridge import study
from hdpm_book.ridge.study import Split
from hdpm_lib.learners.ridge import OutputPerturbation, pdp_op
from hdpm_lib.noise import Moments, QuadraticLoss
from tests.bench.clock import timed

PENALTY = 1.0
PLAIN_RUNS = 500


def medical() -> tuple[Split, str]:
    """The medical records, split as in the paper, and where they come from."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StandInWarning)
        data = medical_cost()
    X, y, _ = medical_design(data, ranges="data")
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=study.SPLIT_SEED)
    return Split(X_train, y_train, X_test, y_test), data.source


def plain_losses(split: Split, epsilon: np.ndarray, rate: float, runs: int, rng: np.random.Generator) -> np.ndarray:
    """One fit, one noise vector, one loss at a time."""
    d, losses = split.X_train.shape[1], []
    for _ in range(runs):
        model = Ridge(alpha=PENALTY, fit_intercept=False)
        model.fit(split.X_train, split.y_train, sample_weight=epsilon / epsilon.sum())
        direction = rng.standard_normal(d)
        theta = model.coef_ + rng.gamma(d, 1 / rate) * direction / np.linalg.norm(direction)
        losses.append(mean_squared_error(split.y_test, split.X_test @ theta))
    return np.array(losses)


def batched_losses(split: Split, epsilon: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    """One fit, all noise vectors at once."""
    mechanism = pdp_op(split.X_train, split.y_train, epsilon, PENALTY)
    return QuadraticLoss.of(split.X_test, split.y_test)(mechanism.release(rng=rng, size=runs))


def closed_form(split: Split, epsilon: np.ndarray) -> Moments:
    """One fit and no noise at all."""
    mechanism: OutputPerturbation = pdp_op(split.X_train, split.y_train, epsilon, PENALTY)
    return QuadraticLoss.of(split.X_test, split.y_test).under_noise(mechanism.theta, mechanism.noise_rate)


def tables(split: Split, rng: np.random.Generator) -> int:
    """Every cell of Tables 1 to 10 from one fresh draw; returns how many."""
    count = 0
    for number in range(1, 11):
        spec = study.published(number)
        count += study.table(spec, study.fresh_draws(spec, rng, split)).size
    return count


def main() -> None:
    rng = np.random.default_rng(0)
    split, source = medical()
    epsilon = study.DEFAULT.draw(len(split.y_train), rng=rng)
    rate = pdp_op(split.X_train, split.y_train, epsilon, PENALTY).noise_rate
    part, plain = timed(lambda: plain_losses(split, epsilon, rate, PLAIN_RUNS, rng))
    loop = part * study.RUNS / PLAIN_RUNS
    batch, losses = timed(lambda: batched_losses(split, epsilon, study.RUNS, rng))
    exact, moments = timed(lambda: closed_form(split, epsilon))
    whole, count = timed(lambda: tables(split, rng))

    n, d = split.X_train.shape
    print(f"One cell of Table 2: n={n}, d={d}, penalty {PENALTY:g}, {study.RUNS:,} runs; medical records: {source}.")
    print(f"Medians over five calls or more; the loop is timed on {PLAIN_RUNS} fits and scaled to {study.RUNS:,}.")
    print(f"{'':34}{'seconds':>10}{'times faster':>14}{'mean loss':>11}{'std. error':>12}")
    for name, seconds, found in (
        ("loop of scikit-learn fits (scaled)", loop, plain),
        ("batched Monte Carlo", batch, losses),
    ):
        error = found.std() / len(found) ** 0.5
        print(f"{name:34}{seconds:10.4f}{loop / seconds:14,.0f}{found.mean():11.4f}{error:12.4f}")
    print(f"{'closed form':34}{exact:10.4f}{loop / exact:14,.0f}{float(moments.mean):11.4f}{0:12.4f}")
    print(f"The closed form is {batch / exact:,.1f} times as fast as batched Monte Carlo.")
    print(f"Tables 1 to 10 in closed form, {count} cells: {whole:.3f} s.")
