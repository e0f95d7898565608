"""What repeated fits cost, through scikit-learn's own searches, folds, pipelines and threads."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from sklearn import config_context
from sklearn.ensemble import BaggingRegressor
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    StratifiedKFold,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from hdpm_lib import accounts
from hdpm_lib.accounts import Account
from hdpm_lib.learners.estimators import PersonalizedRidge, PrivateLogisticRegression
from tests.support import generator

N = 60
PENALTIES = {"penalty": [0.1, 1.0, 10.0]}


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = generator(601)
    X = rng.random((N, 3)) / 2
    return X, X @ [0.6, -0.4, 0.2], rng.uniform(0.5, 5, N), np.arange(N)


def search() -> GridSearchCV:
    return GridSearchCV(PersonalizedRidge(), PENALTIES, cv=KFold(3, shuffle=True, random_state=0))


@pytest.mark.parametrize("jobs", [1, 2])
def test_grid_search_spends_seven_times(jobs: int) -> None:
    """Three folds, three penalties and the last fit; `guarantee_` shows one of them."""
    X, y, epsilon, record = data()
    with parallel_config("threading", n_jobs=jobs), Account(N) as account:
        found = search().fit(X, y, epsilon=epsilon, record=record)
    assert account.fits == 10
    np.testing.assert_allclose(account.total, 7 * epsilon)
    np.testing.assert_allclose(found.best_estimator_.guarantee_, epsilon)


def test_records_keep_their_losses_in_uneven_folds() -> None:
    X, y, epsilon, record = data()
    folds = [(np.arange(10), np.arange(10, N)), (np.arange(5, 40), np.arange(5))]
    with Account(N) as account:
        cross_val_score(PersonalizedRidge(), X, y, cv=folds, params={"epsilon": epsilon, "record": record})
    times = np.isin(record, folds[0][0]).astype(int) + np.isin(record, folds[1][0])
    assert set(times) == {0, 1, 2}
    np.testing.assert_allclose(account.total, times * epsilon)
    with account:  # goes on
        PersonalizedRidge().fit(X[3:5], y[3:5], epsilon=0.25, record=record[3:5])
    np.testing.assert_allclose(account.total, times * epsilon + np.where(np.isin(record, [3, 4]), 0.25, 0))
    assert account.fits == 3


def test_a_record_that_comes_twice_loses_twice() -> None:
    X, y, epsilon, _ = data()
    with Account(N) as account:
        PersonalizedRidge().fit(X[:3], y[:3], epsilon=epsilon[:3], record=[7, 7, 1])
    np.testing.assert_allclose(account.total[[7, 1]], [epsilon[0] + epsilon[1], epsilon[2]])


def test_other_searches_estimators_and_routing() -> None:
    X, y, epsilon, record = data()
    signs, losses = np.where(y > np.median(y), "yes", "no"), {"epsilon": epsilon, "record": record}
    random = RandomizedSearchCV(PrivateLogisticRegression(), PENALTIES, n_iter=2, cv=KFold(4), random_state=0)
    with Account(N) as account:
        random.fit(X, signs, **losses)
    np.testing.assert_allclose(account.total, (2 * 3 + 1) * epsilon)
    with config_context(enable_metadata_routing=True), Account(N) as account:
        model = PersonalizedRidge().set_fit_request(epsilon=True, record=True)
        cross_validate(make_pipeline(Normalizer(), model), X, y, cv=KFold(5), params=losses)
    np.testing.assert_allclose(account.total, 4 * epsilon)
    named = {f"personalizedridge__{name}": value for name, value in losses.items()}
    with Account(N) as account:
        make_pipeline(Normalizer(), PersonalizedRidge(spacing=2.0**-20)).fit(X, y, **named)
    assert (account.total <= epsilon).all() and account.total == pytest.approx(epsilon, rel=0.01)


def test_what_cannot_be_counted_is_refused() -> None:
    X, y, epsilon, record = data()
    with Account(N) as account:
        for model in (PersonalizedRidge(), PrivateLogisticRegression()):
            with pytest.raises(ValueError, match="record must say which records of the open account the fit sees"):
                model.fit(X, np.where(y > 0.1, 1, -1), epsilon=epsilon)
            assert not hasattr(model, "coef_")
        with pytest.raises(ValueError, match="record must say which records"):
            BaggingRegressor(PersonalizedRidge(), n_estimators=2).fit(X, y)
        with pytest.raises(ValueError, match="random_state = 0 gives each fit the same noise: pass a Generator, or N"):
            PersonalizedRidge(random_state=0).fit(X, y, record=record)
        with pytest.raises(RuntimeError, match="an account is open already"), Account(N):
            pass
        bad: dict[str, Any] = {
            "record must hold 60 whole numbers, got int64 of shape (59,)": record[1:],
            "record must hold 60 whole numbers, got float64 of shape (60,)": record / 1,
            "record must lie from 0 to 59, got 60": record + 1,
            "record must lie from 0 to 59, got -1": record - 1,
        }
        for message, rows in bad.items():
            with pytest.raises(ValueError, match=re.escape(message)):
                PersonalizedRidge().fit(X, y, record=rows)
    assert account.fits == 0 and not account.total.any()
    with pytest.raises(ValueError, match="record is given, but no account is open in this process"):
        PersonalizedRidge().fit(X, y, record=record)
    with pytest.raises(ValueError, match="n_records must be a positive integer, got 0"):
        Account(0)
    PersonalizedRidge().fit(X, y)  # outside of accounts nothing is asked


def test_fits_in_other_processes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, epsilon, record = data()
    refused = "no account is open in this process"
    with Account(N) as account:
        with pytest.raises(ValueError, match=refused):
            Parallel(2)(delayed(PersonalizedRidge().fit)(X, y, epsilon, record) for _ in range(2))
        monkeypatch.setattr(accounts.os, "getpid", lambda: -1)  # a forked process has a copy of the account
        with pytest.raises(ValueError, match=refused):
            PersonalizedRidge().fit(X, y, epsilon=epsilon, record=record)
    assert account.fits == 0


@pytest.mark.parametrize("broken", ["overwrites", "counts no duplicates", "all alike"])
def test_wrong_account_is_caught(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def enter(self: Account, record: Any, losses: np.ndarray, random_state: Any) -> None:
        if broken == "overwrites":
            self.total[record] = losses
        elif broken == "counts no duplicates":
            self.total[record] += losses
        else:
            self.total += losses.max()
        self.fits += 1

    monkeypatch.setattr(accounts.Account, "_enter", enter)
    tests = [test_grid_search_spends_seven_times, test_a_record_that_comes_twice_loses_twice]
    with pytest.raises(AssertionError):
        tests[0](1), tests[1]()


def test_folds_by_label_depend_on_the_data() -> None:
    """Why `Account` asks for KFold: one label moves other records to other folds."""
    X, _, _, _ = data()
    y = np.arange(N) % 3 == 0
    neighbour = np.append(~y[:1], y[1:])

    def moved(folds: Any) -> int:
        pairs = zip(folds.split(X, y), folds.split(X, neighbour), strict=True)
        return sum(len(np.setxor1d(one[1:], two[1:])) for (one, _), (two, _) in pairs)

    assert moved(KFold(3)) == 0 < moved(StratifiedKFold(3))
