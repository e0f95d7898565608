"""What repeated fits cost, through scikit-learn's own searches, folds, pipelines and threads."""

from __future__ import annotations

import ast
import copy
import hashlib
import math
import multiprocessing
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config
from joblib.externals.loky import get_reusable_executor
from sklearn import config_context
from sklearn.ensemble import BaggingRegressor
from sklearn.model_selection import GridSearchCV, KFold, RandomizedSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from hdpm_book.logistic import joint_objective as joint
from hdpm_book.ridge import jorgensen, variants
from hdpm_lib import accounts
from hdpm_lib.accounts import Account, records
from hdpm_lib.aggregation import size_weights
from hdpm_lib.gaussian import gaussian_delta, gaussian_epsilon, largest_mu
from hdpm_lib.learners import queries, ridge
from hdpm_lib.learners.estimators import PersonalizedRidge, PrivateLogisticRegression
from hdpm_lib.learners.fedsgd import fedsgd
from hdpm_lib.learners.weighted_mean import WeightedMean
from tests import releases, spread_tasks
from tests.releases import LEARNERS, NOISY
from tests.support import generator

LOOKS_AT = ["book", "hdpm_lib"]
N = 60
SETTINGS = {"clip_norm": [0.1, 0.3, 1.0]}


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = generator(601)
    X = rng.random((N, 3)) / 2
    return X, X @ [0.6, -0.4, 0.2], rng.uniform(0.5, 5, N), np.arange(N)


@pytest.mark.parametrize("jobs", [1, 2])
def test_grid_search_spends_seven_times(jobs: int) -> None:
    """Three folds, three penalties and the last fit; `privacy_loss_` shows one of them. Then the
    limit is reached.
    """
    X, y, epsilon, record = data()
    search = GridSearchCV(PersonalizedRidge(), SETTINGS, cv=KFold(3, shuffle=True, random_state=0))
    with parallel_config("threading", n_jobs=jobs), Account(N, limit=7 * epsilon) as account:
        found = search.fit(X, y, epsilon=epsilon, record=record)
        with pytest.raises(ValueError, match="would be exceeded"):
            PersonalizedRidge().fit(X[:1], y[:1], epsilon=0.1, record=[0])
    assert account.releases == 10
    np.testing.assert_allclose(account.total, 7 * epsilon)
    np.testing.assert_allclose(found.best_estimator_.privacy_loss_, epsilon)


def test_other_searches_estimators_and_routing() -> None:
    X, y, epsilon, record = data()
    signs = np.where(y > np.median(y), "yes", "no")
    losses = {"epsilon": epsilon, "record": record}
    random = RandomizedSearchCV(
        PrivateLogisticRegression(classes=("no", "yes")),
        SETTINGS,
        n_iter=2,
        cv=KFold(4),
        random_state=0,
    )
    with Account(N) as account:
        random.fit(X, signs, **losses)
    np.testing.assert_allclose(account.total, (2 * 3 + 1) * epsilon)
    with config_context(enable_metadata_routing=True), Account(N) as account:
        model = PersonalizedRidge().set_fit_request(epsilon=True, record=True)
        cross_validate(make_pipeline(Normalizer(), model), X, y, cv=KFold(5), params=losses)
    np.testing.assert_allclose(account.total, 4 * epsilon)
    named = {f"personalizedridge__{name}": value for name, value in losses.items()}
    with Account(N) as account:
        make_pipeline(Normalizer(), PersonalizedRidge()).fit(X, y, **named)
    np.testing.assert_allclose(account.total, epsilon)


def test_what_cannot_be_counted_is_refused() -> None:
    X, y, epsilon, record = data()
    with Account(N) as account:
        for model in (PersonalizedRidge(), PrivateLogisticRegression(classes=(-1, 1))):
            with pytest.raises(
                ValueError, match="record must say which records of the open account the fit sees"
            ):
                model.fit(X, np.where(y > 0.1, 1, -1), epsilon=epsilon)
            assert not hasattr(model, "coef_")
        with pytest.raises(ValueError, match="record must say which records"):
            BaggingRegressor(PersonalizedRidge(), n_estimators=2).fit(X, y)
        with pytest.raises(
            ValueError,
            match="rng = 0 gives each fit the same noise: pass a Generator, or N",
        ):
            PersonalizedRidge(rng=0).fit(X, y, record=record)
        with pytest.raises(RuntimeError, match="an account is open already"), Account(N):
            pass
        for rows, message in (
            (record[1:], "record must hold 60 whole numbers, got int64 of shape (59,)"),
            (record / 1, "record must hold 60 whole numbers, got float64 of shape (60,)"),
            (record + 1, "record must lie from 0 to 59, got 60"),
            (record - 1, "record must lie from 0 to 59, got -1"),
            (np.ma.array(record, mask=record == 7), "record must hold whole numbers, got a masked"),
        ):
            with pytest.raises((TypeError, ValueError), match=re.escape(message)):
                PersonalizedRidge().fit(X, y, record=rows)
    assert account.releases == 0 and not account.total.any()
    with pytest.raises(ValueError, match="record is given, but no account is open"):
        PersonalizedRidge().fit(X, y, record=record)
    with pytest.raises(ValueError, match="n_records must be a positive integer, got 0"):
        Account(0)
    PersonalizedRidge().fit(X, y)  # outside of accounts nothing is asked


# --- every release ------------------------------------------------------------------------------

THREE = releases.LOSSES
ZEROS = releases.X
NONE = releases.Y
RIDGE = ridge.output_perturbation(THREE, 1.0, features=ZEROS.shape[1])
BATCHES = {"six": ((2, 3), 6), "none": (0, 0)}  # sizes, and how many releases
# and losses, if they are not those that are shown
RELEASES: dict[str, tuple[Callable[..., Any], Any]] = {
    **{
        name: (
            partial(releases.of_nothing, LEARNERS[name]),
            THREE if name in ("integer_gradients", "private_constant") else None,
        )
        for name in NOISY
        if "penalty" not in name and not name.startswith("P")  # estimators are told their records
    },
    **{
        f"ridge, {how}": (partial(RIDGE.release, ZEROS, NONE, size=size), k * THREE)
        for how, (size, k) in BATCHES.items()
    },
    "own": (lambda rng: (accounts.charge(THREE, rng, 2), rng.laplace(size=2)), 2 * THREE),
}


@pytest.mark.parametrize("name", RELEASES)
def test_every_release_is_charged_and_refused_before_its_noise(name: str) -> None:
    """Once, with its losses; over the limit, or if it repeats noise, not a number is drawn."""
    draw, losses = RELEASES[name]
    with Account(3) as account:
        made = draw(rng=(rng := generator(602)))
    if losses is None:
        losses = account.releases * np.ravel(made[1][0].privacy_loss).astype(float)
        rounds = 2 if "fedsgd" in name else account.releases
        known = not any(word in name for word in ("realised", "BiasedLaplace", "many", "below"))
        assert not known or (losses <= rounds * THREE * (1 + 1e-12)).all()
    np.testing.assert_allclose(account.total, losses, rtol=1e-12)
    if not losses.any():
        return
    before = generator(603)
    state = str(before.bit_generator.state)
    with (
        Account(3, limit=losses * (1 - 1e-6)) as account,
        pytest.raises(
            ValueError,
            match=r"limit = \S+ of record 0 would be exceeded: 0 is spent, and this release",
        ),
    ):
        draw(rng=before)
    assert (
        str(before.bit_generator.state) == state
        and account.releases == 0
        and not account.total.any()
    )
    with Account(3, limit=2 * losses) as account:
        draw(rng=before)
        with pytest.raises(ValueError, match="rng is in a state that noise was drawn from before"):
            draw(rng=generator(603))
        draw(rng=rng)
        with pytest.raises(ValueError, match="would be exceeded"):
            draw(rng=rng)
    np.testing.assert_allclose(account.total, 2 * losses, rtol=1e-12)


def test_every_learner_that_draws_noise_charges() -> None:
    """What calls a sampler, or a release, stands in the list above, but for noise alone."""
    found = set()
    moved = [Path(module.__file__ or "") for module in (jorgensen, variants, joint)]
    for file in [*sorted(Path(accounts.__file__).parent.rglob("*.py")), *moved]:
        for node in ast.walk(ast.parse(file.read_text("utf8"))):
            if isinstance(node, ast.FunctionDef):
                calls = {
                    ast.unparse(c.func).split(".")[-1]
                    for c in ast.walk(node)
                    if isinstance(c, ast.Call)
                }
                if calls & {
                    "spherical_laplace",
                    "released",
                    "with_noise",
                    "discrete_laplace",
                    "draw_laplace",
                    "laplace",
                    "gradient_noise",
                }:
                    found.add(
                        f"{file.stem}.{node.name}"
                        + ("" if "charge" in calls else " charges nothing")
                    )
    alone = {
        "exact.with_noise",
        "fedsgd._release",
        "integer_answers.gradient_noise",
        "discrete.discrete_laplace",
        "noisy_descent._exact",  # as the next, a part of a release, which charges
        "noisy_descent.gradient",
    }
    assert found and {name.split()[0] for name in found if name.endswith("nothing")} == alone


def test_copies_of_generators_are_caught_and_a_copy_that_moved_on_is_not() -> None:
    rng = generator(604)
    with Account(3) as account:
        twins = [
            copy.deepcopy(rng),
            pickle.loads(pickle.dumps(rng)),
            np.random.Generator(copy.copy(rng.bit_generator)),
        ]
        RIDGE.release(ZEROS, NONE, rng=rng)
        for twin in [*twins, generator(604)]:
            with pytest.raises(ValueError, match="rng is in a state"):
                RIDGE.release(ZEROS, NONE, rng=twin)
        twins[0].random()
        RIDGE.release(ZEROS, NONE, rng=twins[0])
        old = np.random.Generator(np.random.MT19937(5))  # whose state is a table
        RIDGE.release(ZEROS, NONE, rng=old)
        with pytest.raises(ValueError, match="rng is in a state"):
            RIDGE.release(ZEROS, NONE, rng=np.random.Generator(np.random.MT19937(5)))
        RIDGE.release(ZEROS, NONE, rng=old)
        RIDGE.release(ZEROS, NONE, rng=np.random.Generator(np.random.MT19937(6)))  # another table
        asked: dict[str, Any] = {"epsilon": THREE, "record": [0, 1, 2]}
        for kind in (np.random.RandomState, np.random.default_rng):
            PersonalizedRidge(rng=kind(0)).fit(ZEROS, NONE, **asked)
            with pytest.raises(ValueError, match="rng is in a state"):
                PersonalizedRidge(rng=kind(0)).fit(ZEROS, NONE, **asked)
    assert account.releases == 7


def test_the_record_over_its_limit_is_named() -> None:
    for who in (2, 0):
        with (
            Account(3, limit=1.0),
            pytest.raises(ValueError, match=rf"limit = 1 of record {who} would be exceeded"),
        ):
            accounts.charge(np.where(np.arange(3) == who, 2.0, 0.5), generator(605))


def test_what_promises_nothing_is_refused() -> None:
    for losses in ([math.inf, math.inf], [0.5, math.inf], [math.nan, 0.5]):
        with Account(2), pytest.raises(ValueError, match="promises nothing"):
            accounts.charge(losses, generator(91))
    objective = joint.joint_objective(
        ZEROS, NONE + 1, np.ones(3), NONE, penalty=1, mu=1, sigma=1, gamma=1
    )
    asked = np.zeros((1, 1, 1), dtype=int)
    owners = [[np.array([0])]]
    with Account(1) as account:
        for rules in (
            {"conv": size_weights, "none": None},
            {"one": size_weights, "two": size_weights},
            {"none": None},
        ):
            with pytest.raises(ValueError, match="this release promises nothing"):
                fedsgd(
                    ZEROS[:1],
                    [0],
                    owners,
                    [[1.0]],
                    asked,
                    rules,
                    np.zeros((2, 3)),
                    rng=generator(605),
                )
        with pytest.raises(ValueError, match="this release promises nothing"):
            joint.alternate(objective, 1.0)
    assert not account.total.any()


def test_records_say_whom_a_release_is_about() -> None:
    with Account(5) as account:
        with pytest.raises(
            ValueError, match="a release about 3 of 5 records needs their numbers: with records"
        ):
            RIDGE.release(ZEROS, NONE, rng=generator(606))
        with records([4, 0, 4]):
            RIDGE.release(ZEROS, NONE, rng=generator(606))
            with records([1, 2, 3]):
                RIDGE.release(ZEROS, NONE, rng=generator(607))
        with pytest.raises(ValueError, match="needs their numbers"):
            RIDGE.release(ZEROS, NONE, rng=generator(608))
    np.testing.assert_allclose(account.total, [1.0, 0.5, 1.0, 1.5, 2.0])
    with pytest.raises(ValueError, match="record is given, but no account is open"), records([0]):
        pass


@pytest.mark.parametrize(
    ("losses", "error", "message"),
    [
        ([-1.0], ValueError, "losses must be finite and not negative, got -1.0"),
        ([Fraction(-1, 2)], ValueError, "losses must be finite and not negative, got -0.5"),
        (["1"], TypeError, "losses must be real numbers, got dtype <U1"),
        ([1j], TypeError, "losses must be real numbers, got dtype complex128"),
        ([True], TypeError, "losses must be real numbers, got dtype bool"),
        ([None], TypeError, "losses must be real numbers, got dtype object"),
    ],
    ids=str,
)
def test_no_charge_gives_budget_back(
    losses: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    file = tmp_path / "spent"
    with Account(1, limit=1, file=file) as account:
        accounts.charge([1], rng := generator(633))
        before = file.read_bytes(), str(rng.bit_generator.state)
        for given in (losses, lambda: losses):
            with pytest.raises(error, match=f"^{re.escape(message)}"):
                accounts.charge(given, rng)
    assert (file.read_bytes(), str(rng.bit_generator.state)) == before
    assert account.total == [1] and account.releases == 1


def test_arguments_are_checked_before_anything_is_charged() -> None:
    means = WeightedMean([1.0], 1.0, np.zeros(1), 1.0)
    with Account(1) as account:
        for mechanism, given in ((queries.linear_query([1.0], 1.0), [2.0]), (means, [[2.0]])):
            with pytest.raises(ValueError, match="lie in"):
                mechanism.release(given, rng=generator(615))  # type: ignore[attr-defined]
            with pytest.raises(TypeError, match="rng must be a Generator"):
                mechanism.release(0 * np.array(given), rng=None)  # type: ignore[attr-defined]
            with pytest.raises(ValueError, match="size must be"):
                mechanism.release(0 * np.array(given), rng=generator(615), size=-1)  # type: ignore[attr-defined]
    assert account.releases == 0


def test_limits_are_kept_in_threads() -> None:
    sum_of_one = queries.linear_query([1.0], 10.0)
    barrier = threading.Barrier(8)

    def spend() -> int:
        rng = np.random.default_rng()
        done = 0
        barrier.wait()
        for _ in range(50):
            with suppress(ValueError):
                sum_of_one.release([0.5], rng=rng)
                done += 1
        return done

    with Account(1, limit=15.05) as account, ThreadPoolExecutor(8) as pool:
        done = sum(future.result() for future in [pool.submit(spend) for _ in range(8)])
    assert done == account.releases == 150
    for bad in (-1.0, [1.0, 2.0], np.nan):
        with pytest.raises(ValueError, match="limit must be"):
            Account(1, limit=bad)


def test_threads_share_a_generator() -> None:
    """None is refused, whoever comes between the charge of another and its noise."""
    rng = generator(634)
    sums = queries.linear_query([1.0], 1.0)
    barrier = threading.Barrier(8)

    def release() -> list[float]:
        barrier.wait()
        return [float(sums.release([0.5], rng=rng)) for _ in range(50)]

    with Account(1) as account, ThreadPoolExecutor(8) as pool:
        found = [x for part in [pool.submit(release) for _ in range(8)] for x in part.result()]
        for _ in range(2):  # nobody has drawn in between
            accounts.charge([1.0], rng)
            pool.submit(accounts.charge, [1.0], rng).result()
    assert account.releases == 404 and len(set(found)) == 400


def test_a_generator_of_one_thread_is_left_as_it_is() -> None:
    """A seed gives the same release with and without an account, and no charge counts twice."""
    sums = queries.linear_query([1.0], 1.0)
    with Account(1):
        inside = sums.release([0.5], rng=generator(635))
        accounts.charge([1.0], rng := generator(636))
        with pytest.raises(ValueError, match="rng is in a state that noise was drawn from before"):
            accounts.charge([1.0], rng)
    assert inside == sums.release([0.5], rng=generator(635))


# --- Gaussian noise -----------------------------------------------------------------------------

NO_LOSS = np.zeros(3)


def test_gaussian_releases_add_up_in_squares_beside_pure_ones() -> None:
    with Account(3) as account:
        accounts.charge(NO_LOSS, rng := generator(620), mu=[0.3, 0.0, 1.2])
        rng.random()
        accounts.charge(NO_LOSS, rng, 4, mu=0.2)
        assert not account.total.any() and account.releases == 5
        RIDGE.release(ZEROS, NONE, rng=generator(628))
        rng.random()
        with records([2, 0, 2]):
            accounts.charge(NO_LOSS, rng, mu=[0.5, 0.1, 0.7])
    squares = np.array([0.09 + 0.16 + 0.01, 0.16, 1.44 + 0.16 + 0.25 + 0.49])
    np.testing.assert_allclose(account.mu, np.sqrt(squares))
    np.testing.assert_allclose(account.total, THREE)
    np.testing.assert_allclose(
        account.epsilon(1e-5), gaussian_epsilon(1e-5, np.sqrt(squares), THREE), rtol=1e-9
    )
    np.testing.assert_allclose(
        gaussian_delta(account.epsilon(1e-5), account.mu, account.total), 1e-5, rtol=1e-9
    )


@pytest.mark.parametrize("pure", [0.0, 0.5])
def test_a_limit_at_a_delta_refuses_the_first_release_over_it(pure: float) -> None:
    """As many as the formula allows for the record that loses most, and then nothing is charged or
    drawn.
    """
    limit = np.array([4.0, 2.0, 3.0])
    delta = 1e-5
    each = 0.15
    allowed = int(np.argmax(gaussian_delta(2.0, each * np.sqrt(np.arange(1, 1000)), pure) > delta))
    assert 3 < allowed < 30
    rng = generator(621)
    with Account(3, limit=limit, delta=delta) as account:
        accounts.charge([pure] * 3, rng)
        for _ in range(allowed):
            rng.random()
            accounts.charge(NO_LOSS, rng, mu=each)
        rng.random()
        said = (
            "limit = 2 of record 1 would be exceeded: .* besides mu = .*, and 0.15, at delta ="
            " 1e-05"
        )
        for size in (1, 100):
            with pytest.raises(ValueError, match=said if size == 1 else "would be exceeded"):
                accounts.charge(NO_LOSS, rng, size, mu=each)
        with pytest.raises(ValueError, match="would be exceeded"):
            accounts.charge([2.0] * 3, rng)  # a pure one that is too much beside the Gaussian ones
        assert account.releases == allowed + 1
        np.testing.assert_allclose(account.mu, each * math.sqrt(allowed))
        np.testing.assert_allclose(account.total, pure)
        with records([0, 2]):
            accounts.charge([0, 0], rng, mu=each)
    assert (
        account.mu[0] == account.mu[2] > account.mu[1] and (account.epsilon(delta) <= limit).all()
    )


def test_all_of_a_limit_can_be_spent_on_one_release() -> None:
    most = largest_mu([0.5, 1.0, 8.0], 1e-6)
    with Account(3, limit=[0.5, 1.0, 8.0], delta=1e-6) as account:
        with pytest.raises(ValueError, match="would be exceeded"):
            accounts.charge(NO_LOSS, generator(622), mu=most * (1 + 1e-6))
        accounts.charge(NO_LOSS, generator(622), mu=most)
    np.testing.assert_allclose(account.epsilon(1e-6), [0.5, 1.0, 8.0])


def test_a_limit_without_delta_refuses_gaussian_noise() -> None:
    """However little it tells: where its delta is no float above 0, too."""
    with Account(3, limit=100.0) as account:
        for mu in (5.0, 1.0, 1e-3):
            with pytest.raises(ValueError, match="limit = 100 of record 0 would be exceeded"):
                accounts.charge(NO_LOSS, generator(623), mu=mu)
        RIDGE.release(ZEROS, NONE, rng=generator(623))
    assert account.releases == 1 and not account.mu.any()
    for bad in (-1e-9, 1.0, math.nan):
        with pytest.raises(ValueError, match="delta must"):
            Account(3, delta=bad)
    with Account(3) as account:
        for wrong in (-1.0, math.nan):
            with pytest.raises(ValueError, match="mu must be finite and not negative"):
                accounts.charge(NO_LOSS, generator(624), mu=wrong)
        for lost in (1e-170, 1e200):  # whose squares floats do not hold
            with pytest.raises(ValueError, match="mu must have a size from 1e-100"):
                accounts.charge(NO_LOSS, generator(624), mu=lost)
    assert account.releases == 0


def test_a_file_keeps_gaussian_releases_and_delta(tmp_path: Path) -> None:
    with Account(3, limit=4.0, delta=1e-5, file=tmp_path / "spent") as account:
        accounts.charge(THREE, generator(625), mu=[0.1, 0.2, 0.3])
    loaded = Account.load(tmp_path / "spent")
    assert (
        loaded.delta == 1e-5 and (loaded.mu == account.mu).all() and (loaded.total == THREE).all()
    )
    with loaded:
        accounts.charge(NO_LOSS, generator(626), mu=0.4)
        with pytest.raises(ValueError, match="would be exceeded"):
            accounts.charge(NO_LOSS, generator(627), mu=2.0)
    np.testing.assert_allclose(account.mu, np.sqrt([0.17, 0.2, 0.25]))  # of the file
    np.testing.assert_allclose(account.epsilon(1e-5), gaussian_epsilon(1e-5, account.mu, THREE))


# --- files and processes ------------------------------------------------------------------------


def test_an_account_goes_on_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "spent.json"
    with Account(3, limit=2 * THREE, file=file) as account:
        RIDGE.release(ZEROS, NONE, rng=generator(609))
    loaded = Account.load(file)
    assert (
        loaded.releases == 1
        and (loaded.total == account.total).all()
        and (loaded.limit == 2 * THREE).all()
    )
    with loaded:
        with pytest.raises(ValueError, match="rng is in a state"):  # the same script once more
            RIDGE.release(ZEROS, NONE, rng=generator(609))
        RIDGE.release(ZEROS, NONE, rng=generator(610))
        with pytest.raises(ValueError, match="would be exceeded"):
            RIDGE.release(ZEROS, NONE, rng=generator(611))
    np.testing.assert_allclose(account.total, 2 * THREE)  # of the file
    assert os.listdir(tmp_path) == ["spent.json"]
    Account(2, limit=0.5, file=tmp_path / "small.json")
    assert (Account.load(tmp_path / "small.json").limit == 0.5).all()
    with pytest.raises(FileExistsError, match=r"spent\.json"):
        Account(3, file=file)
    with pytest.raises(FileNotFoundError, match=r"other\.json"):
        Account.load(tmp_path / "other.json")
    whole = file.read_bytes()
    for damaged in (b"", whole[:-1], whole[:70], b"\xff" * 100, b"0" + whole[1:]):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"spent\.json holds no account, or is damaged"):
            Account.load(file)
        with pytest.raises(ValueError, match="damaged"), account:
            RIDGE.release(ZEROS, NONE, rng=generator(612))
    for place in range(0, len(whole), 7):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        file.write_bytes(flipped)
        with pytest.raises(ValueError, match=r"holds no account, or is damaged"):
            Account.load(file)
    other = b'{"total": [-1.0], "limit": null, "releases": 1, "states": []}'
    file.write_bytes(hashlib.sha256(other).hexdigest().encode() + b"\n" + other)
    with pytest.raises(ValueError, match="holds no account, or is damaged"):
        Account.load(file)


def test_what_an_account_hands_out_is_no_way_in(tmp_path: Path) -> None:
    """Whoever computes with its limit neither lowers nor lifts it."""
    given = np.full(3, 4.0)
    for file in (None, tmp_path / "spent"):
        with Account(3, limit=given, file=file) as account:
            RIDGE.release(ZEROS, NONE, rng=generator(640))
            given[:] = 9.0
            left: Any = account.limit
            left -= account.total
            for name in ("limit", "delta", "total", "mu", "releases"):
                with pytest.raises(AttributeError):
                    setattr(account, name, 9.0)
        np.testing.assert_array_equal(account.limit, np.full(3, 4.0))  # type: ignore[arg-type]
        np.testing.assert_array_equal(left, 4 - THREE)
        given[:] = 4.0


def test_two_names_of_a_file_are_one_account(tmp_path: Path) -> None:
    """A symbolic link to a file or to a folder; a second name proper is refused."""
    file = tmp_path / "there" / "spent"
    file.parent.mkdir()
    (tmp_path / "link").symlink_to(file)
    (tmp_path / "folder").symlink_to(file.parent)
    with Account(3, limit=THREE * 3, file=tmp_path / "link"):
        RIDGE.release(ZEROS, NONE, rng=generator(641))
    names = [file, tmp_path / "link", tmp_path / "folder" / "spent"]
    for k, name in enumerate(names):
        loaded = Account.load(name)
        with loaded:
            if k < 2:
                RIDGE.release(ZEROS, NONE, rng=generator(642, k))
            else:
                with pytest.raises(ValueError, match="would be exceeded"):
                    RIDGE.release(ZEROS, NONE, rng=generator(642, k))
        assert loaded.releases == min(k + 2, 3)
    assert names[1].is_symlink() and len({Account.load(name).releases for name in names}) == 1
    os.link(file, tmp_path / "second")
    for name in (file, tmp_path / "second"):
        with pytest.raises(ValueError, match="has a second name, under which its content would no"):
            Account.load(name)


def test_an_older_copy_of_a_file_is_refused_while_somebody_knows(tmp_path: Path) -> None:
    file = tmp_path / "spent"
    old = tmp_path / "old"
    rng = generator(630)
    with Account(3, limit=2 * THREE, file=file) as account:
        RIDGE.release(ZEROS, NONE, rng=rng)
        shutil.copy(file, old)
        RIDGE.release(ZEROS, NONE, rng=rng)
        newer = file.read_bytes()
        old.replace(file)
        with pytest.raises(ValueError, match="spent is older than what is known of it here"):
            RIDGE.release(ZEROS, NONE, rng=rng)
        with pytest.raises(ValueError, match="older"):
            _ = account.total
        Account(3, file=tmp_path / "another")
        (tmp_path / "another").replace(file)
        with pytest.raises(ValueError, match="older than what is known of it here, or of another"):
            RIDGE.release(ZEROS, NONE, rng=rng)
        file.write_bytes(newer)
        with pytest.raises(ValueError, match="would be exceeded"):
            RIDGE.release(ZEROS, NONE, rng=rng)
    np.testing.assert_allclose(account.total, 2 * THREE)


def test_a_file_is_read_when_another_has_changed_it_and_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many records there are, a look at an account reads a line; equal numbers are one."""
    n = 10**6
    file = tmp_path / "spent"
    account = Account(n, limit=5.0, file=file)
    assert file.stat().st_size < 1100
    with account:
        accounts.charge(np.linspace(0, 1, n), generator(631))
    assert file.stat().st_size < 8 * n + 1100
    with monkeypatch.context() as patched:
        patched.setattr(np, "load", None)
        assert account.total[-1] == 1 and account.releases == 1
    with Account.load(file):
        accounts.charge(np.full(n, 2.0), generator(632))
    np.testing.assert_array_equal(account.total, 2 + np.linspace(0, 1, n))
    assert account.limit is not None and (account.limit == 5).all() and account.releases == 2


def test_a_thread_that_looks_while_a_file_is_written_undoes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Account._write

    def looked_at(self: Account, *given: Any) -> None:
        looker = threading.Thread(target=lambda: self.total)
        looker.start()
        looker.join(0.2)
        write(self, *given)

    with Account(3, file=tmp_path / "spent") as account:
        monkeypatch.setattr(Account, "_write", looked_at)
        RIDGE.release(ZEROS, NONE, rng=generator(616))
    assert account.releases == Account.load(tmp_path / "spent").releases == 1


def test_what_cannot_be_written_is_not_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "spent"
    rng = generator(613)
    state = str(rng.bit_generator.state)
    with Account(3, file=file) as account, monkeypatch.context() as broken:
        broken.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            RIDGE.release(ZEROS, NONE, rng=rng)
    assert str(rng.bit_generator.state) == state
    assert account.releases == 0 and not account.total.any() and Account.load(file).releases == 0


def test_other_processes_are_counted_in_a_file_or_refused(tmp_path: Path) -> None:
    """Those that a block has started, in later blocks too; between blocks they are free.

    And a fork that leaves the block closes nothing. All from a fresh process: here others may have
    started threads.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        pool.submit(_fork_leaves).result()
        for how in ("fork", "spawn", "forkserver", "loky"):
            pool.submit(_counted_or_refused, how, tmp_path).result()


def _counted_or_refused(how: str, tmp_path: Path) -> None:
    workers = 1 + (how == "fork")
    context = multiprocessing.get_context(None if how == "loky" else how)
    with Account(3) as account:
        pool = get_reusable_executor(2) if how == "loky" else ProcessPoolExecutor(workers, context)
        for tasks in ((0,), (1, [0, 1, 2])):
            said = "nothing"
            try:
                pool.submit(spread_tasks.spends, *tasks).result()
            except RuntimeError as error:
                said = str(error)
            assert said.startswith("an account is open in another process, which cannot count this")
    assert [len(found) for found in pool.map(spread_tasks.spends, range(4))] == [3] * 4
    with Account(3, file=tmp_path / how) as kept:
        [*pool.map(spread_tasks.spends, range(20))]
        pool.submit(spread_tasks.spends, 0, [0, 0, 2]).result()
        with pytest.raises(ValueError, match="rng is in a state"):
            pool.submit(spread_tasks.spends, 3).result()
    assert [len(found) for found in pool.map(spread_tasks.spends, range(4))] == [3] * 4
    pool.shutdown()
    assert account.releases == 0 and kept.releases == 21
    np.testing.assert_allclose(kept.total, 20 * THREE + [1.5, 0, 1.5])


def test_processes_from_before_the_first_block_are_not_noticed() -> None:
    """As the docstring says: nothing tells them. Those between two blocks are."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(_charged_to_older_pools).result() == [0, "refused"]


def _charged_to_older_pools() -> list[Any]:
    """How many releases are charged of a pool before the first block, and of one after it."""
    os.environ.pop(accounts.MARK, None)  # of the process that has started this one
    found: list[Any] = []
    for _ in range(2):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            pool.submit(spread_tasks.spends, 0).result()
            with Account(3) as account:
                try:
                    pool.submit(spread_tasks.spends, 1).result()
                    found.append(account.releases)
                except RuntimeError:
                    found.append("refused")
    return found


def test_an_import_changes_nothing_and_a_block_leaves_one_variable() -> None:
    """By which processes that are started later find the next block: it names no file that is."""
    code = """
import os
os.environ.pop("HDPM_ACCOUNT", None)
before = dict(os.environ)
hooks = []
os.register_at_fork = lambda **given: hooks.extend(hook.__module__ for hook in given.values())
import hdpm_lib.accounts as a
assert dict(os.environ) == before
with a.Account(1):
    mark = os.environ[a.MARK]
    assert os.path.exists(mark)
assert dict(os.environ) == before | {a.MARK: mark} and not os.path.exists(mark)
assert a.__name__ not in hooks
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_process_of_a_process_is_refused() -> None:
    code = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', sys.argv[1]]))"
    inner = "from numpy.random import default_rng; from hdpm_lib import linear_query as q\n"
    inner += "q([1], 1).release([0], rng=default_rng())"
    command = [sys.executable, "-c", code, inner]
    with Account(1):
        ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode and "an account is open in another process" in ran.stderr
    assert subprocess.run(command).returncode == 0


def _fork_leaves() -> None:
    sums = queries.linear_query([1.0], 1.0)
    with Account(1) as account:
        if (child := os.fork()) == 0:
            account.__exit__()
            try:
                sums.release([0.5], rng=np.random.default_rng())
            except RuntimeError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        sums.release([0.5], rng=np.random.default_rng())
    assert account.releases == 1
