"""Noisy descent: the promise against likelihood ratios of all that it releases on the way, with
each of its constants spoilt in turn; the exact release step by step; the estimators' `delta`.
"""

from __future__ import annotations

import math
import pickle
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from hdpm_lib import Account, PersonalizedRidge, PrivateLogisticRegression, privacy_losses
from hdpm_lib.gaussian import gaussian_epsilon, largest_mu
from hdpm_lib.learners import estimators, settings
from hdpm_lib.learners import noisy_descent as module
from hdpm_lib.learners.noisy_descent import NoisyDescent, noisy_descent
from hdpm_lib.learners.objective import minimisers
from tests.learners.test_clipped import records
from tests.learners.test_estimators import against_the_policy, by_hand
from tests.learners.test_second_moments import problem as second_moments_problem
from tests.learners.test_settings import reference_population
from tests.support import generator, refusals

Array = np.ndarray
LOOKS_AT = ["hdpm_lib.learners.noisy_descent", "hdpm_lib.learners.settings"]
LOSSES = ["logistic", "squared"]
DELTA = 1e-6
EPSILONS = np.array([0.1, 1.0, 3.0])


# --- the promise --------------------------------------------------------------------------------


def clipped_gradient(x: Array, y: float, theta: Array, loss: str, clip_norm: float) -> Array:
    """Gradients of one record's loss at coefficients of shape (k, n), cut to a length."""
    score = theta @ x
    slope = score - y if loss == "squared" else -y / (1 + np.exp(y * score))
    gradient = slope[:, None] * x
    length = np.linalg.norm(gradient, axis=1, keepdims=True)
    return gradient * np.minimum(1, clip_norm / np.maximum(length, 1e-300))


def log_ratios(
    made: NoisyDescent, X: Array, y: Array, other: tuple[Array, float], who: int, **spoil: Any
) -> tuple[Array, Array]:
    """Logarithms of likelihood ratios of transcripts if one record is replaced, and how far the
    sums of a transcript are moved, in standard deviations of the noise.

    `spoil` says by what a constant of the release is wrong.
    """
    runs = 4000
    rng = generator(3800)
    m, n = X.shape
    weights = spoil.get("weights", made.mu / made.mu.max())
    noise = spoil.get("noise", 1.0) * 2 * made.clip_norm * math.sqrt(made.steps) / made.mu.max()
    theta = np.zeros((runs, n))
    velocity = np.zeros((runs, n))
    ratio = np.zeros(runs)
    squares = np.zeros(runs)
    for _ in range(made.steps):
        total = np.zeros((runs, n))
        for i in range(m):
            gradient = clipped_gradient(X[i], y[i], theta, made.loss, made.clip_norm)
            total += weights[i] * gradient
        before = clipped_gradient(X[who], y[who], theta, made.loss, made.clip_norm)
        after = clipped_gradient(other[0], other[1], theta, made.loss, made.clip_norm)
        moved = weights[who] * (after - before) / noise
        z = rng.standard_normal((runs, n))
        ratio += (moved * z).sum(axis=1) - (moved**2).sum(axis=1) / 2
        squares += (moved**2).sum(axis=1)
        mean = (total + noise * z) / weights.sum()
        velocity = made.momentum * velocity - made.learning_rate * mean
        theta = theta + velocity
    return ratio, np.sqrt(squares)


def problem(n: int, loss: Any) -> tuple[NoisyDescent, Array, Array]:
    """Three sellers, five steps, and coefficients that stay near 0: all opposite labels are cut."""
    X = np.array([[0.6, 0.8], [0.8, -0.6], [-1.0, 0.0]])[:, :n]
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    made = noisy_descent(
        largest_mu(EPSILONS, DELTA),
        DELTA,
        features=n,
        learning_rate=1e-3,
        momentum=0.5,
        steps=5,
        loss=loss,
        clip_norm=0.2,
    )
    return made, X, np.array([1.0, -1.0, 1.0])


def shares_of_promises(n: int, loss: Any, **spoil: Any) -> Array:
    """What opposite labels tell over what was promised, for each seller."""
    made, X, y = problem(n, loss)
    shares = []
    for who in range(3):
        ratio, moved = log_ratios(made, X, y, (X[who], -y[who]), who, **spoil)
        # the ratios follow a normal law that is moved by half its variance
        spread = moved.max()
        assert stats.kstest(ratio, stats.norm(-(spread**2) / 2, spread).cdf).pvalue > 1e-6
        shares.append(spread / made.mu[who])
    return np.array(shares)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n", [1, 2])
def test_opposite_labels_tell_what_was_promised_and_no_more(n: int, loss: str) -> None:
    made, X, y = problem(n, loss)
    np.testing.assert_allclose(shares_of_promises(n, loss), 1.0, rtol=1e-12)
    ratio, moved = log_ratios(made, X, y, (X[2], -y[2]), 2)
    assert abs(ratio.std() / made.mu[2] - 1) < 5 / math.sqrt(2 * len(ratio))
    np.testing.assert_allclose(gaussian_epsilon(DELTA, moved.max()), EPSILONS[2], rtol=1e-8)
    np.testing.assert_allclose(made.privacy_loss, EPSILONS, rtol=1e-8)
    np.testing.assert_allclose(made.loss_of_releases(9), gaussian_epsilon(DELTA, 3 * made.mu))


@pytest.mark.parametrize("loss", LOSSES)
def test_no_pair_of_records_tells_more(loss: Any) -> None:
    rng = generator(3801)
    for trial in range(60):
        n = 1 + trial % 3
        X, y = records(3, n, loss, rng)
        others, labels = records(1, n, loss, rng)
        made = noisy_descent(
            rng.choice([0.05, 1.0, 4.0], 3),
            DELTA,
            features=n,
            learning_rate=10 ** rng.uniform(-3, 0),
            momentum=rng.uniform(0, 0.9),
            steps=int(rng.integers(1, 6)),
            loss=loss,
            clip_norm=rng.choice([0.05, 0.3, 1.0]),
        )
        for who in range(3):
            _, moved = log_ratios(made, X, y, (others[0], float(labels[0])), who)
            assert moved.max() <= made.mu[who] * (1 + 1e-12)


@pytest.mark.parametrize(
    "spoil",
    [
        {"noise": 0.5},  # a sensitivity of the clip norm, not twice that
        {"noise": 1 / math.sqrt(5)},  # of a single step
        {"weights": np.array([1.0, 1.0, 1.0])},
        {"weights": np.sqrt(EPSILONS / 3.0)},
    ],
)
def test_a_wrong_constant_breaks_a_promise(spoil: dict[str, Any]) -> None:
    assert shares_of_promises(2, "squared", **spoil).max() > 1.05


@pytest.mark.parametrize("arithmetic", ["exact", "ideal"])
def test_noise_of_a_step_is_the_promised_one(arithmetic: Any) -> None:
    """One step from 0 releases one noisy sum: its mean and its spread are those of the proof."""
    made, X, y = problem(2, "squared")
    made = noisy_descent(
        made.mu,
        DELTA,
        features=2,
        learning_rate=1.0,
        steps=1,
        loss="squared",
        clip_norm=0.2,
        arithmetic=arithmetic,
    )
    size = 4000
    found = made.release(X, y, rng=generator(3802), size=size)
    middle = made.weights @ (0.2 * y[:, None] * X)
    noise = (found - middle) / (0.4 / made.mu.sum())
    for column in noise.T:
        assert stats.kstest(column, stats.norm().cdf).pvalue > 1e-6
    assert abs(np.corrcoef(noise.T)[0, 1]) < 5 / math.sqrt(size)


# --- the exact release --------------------------------------------------------------------------


def test_exact_release_is_the_ideal_one_on_its_grid() -> None:
    """Step by step, record by record, from the same bits: the coefficients are the same floats."""
    rng = generator(3803)
    for trial in range(6):
        loss: Any = LOSSES[trial % 2]
        n = 1 + trial % 3
        X, y = records(7, n, loss, rng)
        mu = rng.choice([0.0, 0.3, 2.0], 7) + np.eye(7)[0]
        made = noisy_descent(
            mu,
            DELTA,
            features=n,
            learning_rate=0.7,
            momentum=0.4,
            steps=4,
            loss=loss,
            clip_norm=0.3,
        )
        found = made.release(X, y, rng=np.random.default_rng(trial))
        by_hand = reference(made, X, y, np.random.default_rng(trial))
        np.testing.assert_array_equal(found, by_hand)


def reference(made: NoisyDescent, X: Array, y: Array, rng: np.random.Generator) -> Array:
    """The release: sums of Python's whole numbers, and noise in floats, rounded to the grid."""
    n = made.features
    mu_max = made.mu.max()
    theta = np.zeros(n)
    velocity = np.zeros(n)
    way = []
    for _ in range(made.steps):
        total = [0] * n
        for x, label, mu in zip(X, y, made.mu, strict=True):
            whole = [int(math.trunc(value * 2**30) / 2**15) for value in x.tolist()]
            norm = max(1, math.isqrt(max(0, sum(k * k for k in whole) - 1)) + 1)
            limit = math.floor(mu / mu_max * 2**38) // norm
            score = float(np.array(whole) * 2.0**-15 @ theta)
            if made.loss == "squared":
                pull = label - score
            else:
                pull = label / (1 + math.exp(label * score))
            scaled = round(
                Fraction(pull) * Fraction(mu / mu_max) * 2**23 / Fraction(made.clip_norm)
            )
            pulled = max(-limit, min(limit, scaled))
            total = [t + pulled * k for t, k in zip(total, whole, strict=True)]
        uniforms = np.frombuffer(rng.bytes(12 * 2 * -(-n // 2)), dtype="u1").reshape(-1, 12)
        normal = []
        for first, second in uniforms.reshape(-1, 2, 12):
            u = (int.from_bytes(first.tobytes(), "big") + 0.5) / 2**96
            v = (int.from_bytes(second.tobytes(), "big") + 0.5) / 2**96
            length = math.sqrt(-2 * math.log(u))
            normal += [length * math.sin(2 * math.pi * v), length * math.cos(2 * math.pi * v)]
        noise = 2 * 2.0**38 * math.sqrt(made.steps) / mu_max
        noisy = [t + noise * z for t, z in zip(total, normal[:n], strict=True)]
        whole_cells = np.array([math.floor(value / made.step + 0.5) for value in noisy])
        gradient = -made._unit * (made.step * whole_cells)
        velocity = made.momentum * velocity - made.learning_rate * gradient
        theta = theta + velocity
        way.append(theta)
    return np.mean(way[-max(1, round(0.3 * made.steps)) :], axis=0)


def whole_sums(made: NoisyDescent, X: Array, y: Array) -> module.WholeSums:
    return made._whole_sums(*made._inside(X, y))


@pytest.mark.parametrize("loss", LOSSES)
def test_no_record_adds_more_than_its_bound(loss: Any) -> None:
    rng = generator(3804)
    m = 100_000
    for n in (1, 3, 10):
        X, y = records(m, n, loss, rng)
        X[: m // 2] /= np.maximum(np.linalg.norm(X[: m // 2], axis=1, keepdims=True), 1e-9)
        X[m // 3 : m // 2] *= 10 ** rng.uniform(-6, 0, (m // 2 - m // 3, 1))
        mu = 10 ** rng.uniform(-12, 1, m)
        made = noisy_descent(
            mu, DELTA, features=n, learning_rate=1.0, loss=loss, clip_norm=0.1, clip=True
        )
        sums = whole_sums(made, X, y)
        rows = sums.losses.rows * 2.0**15
        largest = [math.floor(w * 2**38) for w in (mu / mu.max()).tolist()]
        for theta in (np.zeros(n), 10 * rng.standard_normal(n), 1e50 * rng.standard_normal(n)):
            pulls = sums._whole_pulls(theta)
            assert (rows == np.rint(rows)).all() and (pulls == np.rint(pulls)).all()
            squares = (rows.astype(np.int64) ** 2).sum(axis=1).tolist()
            for pull, square, bound in zip(pulls.tolist(), squares, largest, strict=True):
                assert int(pull) ** 2 * square <= bound**2
        # many reach nearly all of it
        shares = np.abs(pulls) * np.sqrt(squares) / np.maximum(largest, 1)
        assert np.quantile(shares, 0.9) > 0.99


def test_sums_are_exact_for_any_number_of_records() -> None:
    """All at one corner, each with the longest vector: the sum of floats alone would round."""
    n = 4
    m = 3 * module.ADDED + 5
    x = np.array([0.5, -0.5, 0.5, 0.5])
    made = noisy_descent(
        np.ones(m), DELTA, features=n, learning_rate=1.0, loss="squared", clip_norm=0.3
    )
    sums = whole_sums(made, np.tile(x, (m, 1)), np.ones(m))
    rows = (sums.losses.rows[0] * 2**15).astype(int).tolist()
    pull = int(sums._whole_pulls(np.zeros(n))[0])
    assert pull * 2**15 == 2**38
    assert sums(np.zeros(n)) == [m * pull * k for k in rows]
    assert module.ADDED * 2**module.SUM_BITS <= 2**53


# --- what is learnt -----------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("arithmetic", ["exact", "ideal"])
def test_without_noise_it_comes_to_the_minimiser(loss: Any, arithmetic: Any) -> None:
    rng = generator(3805)
    X, y = records(400, 3, loss, rng)
    mu = rng.choice([1e11, 2e11], 400)
    made = noisy_descent(
        mu,
        DELTA,
        features=3,
        learning_rate=2.0 if loss == "squared" else 8.0,
        momentum=0.5,
        steps=600,
        loss=loss,
        clip_norm=0.3,
        arithmetic=arithmetic,
    )
    found = made.release(X, y, rng=rng)
    best = minimisers(X, y, made.weights, 1e-9, np.zeros(3), 0.0, loss, 0.3)
    np.testing.assert_allclose(found, best, atol=2e-3 if arithmetic == "exact" else 1e-6)
    np.testing.assert_allclose(made._without_noise(X, y), best, atol=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("arithmetic", ["exact", "ideal"])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_data_set_inside_the_bounds_gives_numbers(loss: Any, arithmetic: Any) -> None:
    """Records that are all 0, all at one corner, or one; wild noise, and hardly any."""
    rng = generator(3806)
    for trial in range(24):
        n = int(rng.integers(1, 4))
        m = [1, 5][trial % 2]
        X = [np.zeros((m, n)), np.tile(np.eye(n)[0], (m, 1)), -np.tile(np.eye(n)[0], (m, 1))]
        y = [np.ones(m), -np.ones(m)][trial % 2]
        made = noisy_descent(
            np.full(m, [1e-90, 1e-3, 1.0, 1e9][trial % 4]),
            DELTA,
            features=n,
            learning_rate=2.0 if loss == "squared" else 12.0,
            momentum=[0.0, 0.97][trial % 2],
            steps=50,
            loss=loss,
            clip_norm=[1e-3, 1.0][trial // 2 % 2],
            arithmetic=arithmetic,
        )
        with np.errstate(all="raise", under="ignore"):
            found = made.release(X[trial % 3], y, rng=rng, size=(2, 1))
        assert found.shape == (2, 1, n) and np.isfinite(found).all()


def made_of(**changed: Any) -> Any:
    given: dict[str, Any] = {"features": 1, "learning_rate": 0.5} | changed
    return lambda: noisy_descent(given.pop("mu", [1.0]), given.pop("delta", 1e-6), **given)


test_refusals = refusals(
    (made_of(mu=[0.0, 0.0]), "mu must have one number a record, and not all 0"),
    (made_of(mu=1.0), "mu must have one number a record"),
    (made_of(delta=0.0), "delta must lie in"),
    (made_of(momentum=1.0), "momentum must lie in"),
    (made_of(clip_norm=1.5), "clip_norm must lie in"),
    (made_of(mu=[1e-99], learning_rate=1e99), "floats end"),
    (made_of(steps=0), "steps"),
    (made_of(loss="hinge"), "loss must be"),
    (lambda: made_of()().release([[0.5]], [0.5], rng=generator(0)), "no label but -1 and 1"),
    (lambda: made_of()().release([[1.5]], [1.0], rng=generator(0)), "rows of norm at most 1"),
)


# --- settings -----------------------------------------------------------------------------------


def wrong(p: Any, found: Array) -> float:
    """Mean error of releases: over the variance of labels, or the share of wrong classes."""
    X, y, classes = p
    scores = X @ found.T
    if classes:
        return float((np.where(scores > 0, 1, -1) != y[:, None]).mean())
    return float(((np.clip(scores, -1, 1) - y[:, None]) ** 2).mean() / y.var())


def regrets_of(k: int, classes: bool) -> tuple[float, float]:
    """The error of the settings on a drawn problem over that of the best of some in hindsight, and
    the error without a clip, each as a logarithm.
    """
    rng = generator(3810, k)
    rows, y, losses, norm = second_moments_problem(rng)
    n = min(len(losses), 3000)
    rows = rows / norm
    if classes:
        y = np.where(y > np.quantile(y, rng.uniform(0.3, 0.8)), 1.0, -1.0)
    loss: Any = "logistic" if classes else "squared"
    mu = largest_mu(losses[:n], DELTA)
    total = float(mu.sum())
    time = settings.stopping_time(loss, rows.shape[1], n, total)
    clip_norm = settings.descent_clip_norm(loss, total)

    def error(more_time: float, clip_norm: float) -> float:
        rate, momentum = settings.rate_and_momentum(loss, more_time * time)
        made = noisy_descent(
            mu,
            DELTA,
            features=rows.shape[1],
            learning_rate=rate,
            momentum=momentum,
            loss=loss,
            clip_norm=clip_norm,
            clip=True,
            arithmetic="ideal",
        )
        found = made.release(rows[:n], y[:n], rng=rng, size=4)
        return wrong((rows[-1000:], y[-1000:], classes), found) + 1e-3

    by_default = error(1.0, clip_norm)
    best = by_default
    for more_time in (0.25, 1.0, 4.0):
        for more_clip in (0.5, 1.0, 2.0):
            best = min(best, error(more_time, min(1.0, more_clip * clip_norm)))
    return math.log(by_default / best), math.log(error(1.0, 1.0) / best)


@pytest.mark.parametrize("classes", [False, True])
def test_settings_are_near_the_best_in_hindsight(classes: bool) -> None:
    """Of ten settings, picked by the test records and by the noise; without a clip they are not."""
    found = np.array([regrets_of(k, classes) for k in range(14)])
    regrets, without_clip = found.T
    assert np.median(regrets) < 0.1 and regrets.mean() < 0.2
    assert without_clip.mean() > regrets.mean() + 0.05


@pytest.mark.parametrize("loss", LOSSES)
def test_settings_are_stable_at_every_total(loss: Any) -> None:
    """The learning rate times the largest curvature is below what momentum admits."""
    for total in np.geomspace(1e-9, 1e9, 200):
        time = settings.stopping_time(loss, 5, 1000, total)
        rate, momentum = settings.rate_and_momentum(loss, time)
        assert 0 <= momentum < 1
        assert (
            rate * settings.CURVATURE[loss] <= 2 * (1 + momentum) * (1 - 1e-12)
            or rate == 2 / (settings.CURVATURE[loss])
        )
        assert rate * settings.STEPS / (1 - momentum) == pytest.approx(time)


@pytest.mark.parametrize(
    ("n", "d", "loss"), [(1000, 3, 0.3), (1000, 10, 1.0), (1000, 10, 3.0), (3000, 30, 1.0)]
)
def test_expected_error_is_that_of_its_population(n: int, d: int, loss: float) -> None:
    found = []
    for k in range(20):
        rng = generator(3811, n, d, k)
        X, y = reference_population(n + 2000, d, rng)
        model = PersonalizedRidge(epsilon=loss, delta=DELTA, arithmetic="ideal", clip=True)
        model.fit(X[:n], y[:n])
        found.append(((model.predict(X[n:]) - y[n:]) ** 2).mean() / y[n:].var())
    standard_error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - model.expected_error_) < 0.02 + 5 * standard_error
    assert 0.75 < model.expected_error_ < 1


def test_wandering_is_that_of_a_drawn_process() -> None:
    """In steps: variance of the mean of the last 30 %."""
    steps = 1000
    for x in (1e-6, 1e-4, 0.5, 5.0, 50.0):
        # the mean is linear in the noises, with these factors
        falls = (1 - x / steps) ** np.arange(steps)
        factors = np.zeros(steps)
        for end in range(700, steps):
            factors[: end + 1] += falls[: end + 1][::-1] / 300
        by_steps = (factors**2).sum() / steps
        assert settings._wandering(x) == pytest.approx(by_steps, rel=0.04)


# --- estimators ---------------------------------------------------------------------------------


def data(n: int = 300) -> tuple[Array, Array, Array]:
    rng = generator(3820)
    X = rng.random((n, 3))
    epsilon = rng.uniform(0.5, 5, n)
    epsilon[:5] = 0
    return X, X @ [0.6, -0.4, 0.2], epsilon


@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"clip_norm": 0.2}])
def test_regressor_is_one_release_of_the_mechanism(options: dict[str, Any]) -> None:
    X, y, epsilon = data()
    model = PersonalizedRidge(delta=DELTA, rng=1, label_bound=2.0, **options)
    model.fit(X, 2 * y, epsilon=epsilon)
    coded, norm, middle = by_hand(model, X)
    mu = np.where(epsilon > 0, largest_mu(epsilon, DELTA), 0) * (1 - 2.0**-29)
    d = coded.shape[1]
    time = settings.stopping_time("squared", d, 295, mu.sum())
    rate, momentum = settings.rate_and_momentum("squared", time)
    made = noisy_descent(
        mu,
        DELTA,
        features=d,
        learning_rate=rate,
        momentum=momentum,
        loss="squared",
        clip_norm=model.clip_norm or settings.descent_clip_norm("squared", mu.sum()),
        clip=True,
    )
    found = made.release(coded / norm, y, rng=estimators._generator(1)) * 2 / norm
    np.testing.assert_allclose(model.coef_, found[:3])
    constant = coded[0, 3] * found[3] if model.fit_intercept else 0.0
    assert model.intercept_ == pytest.approx(constant - middle * model.coef_.sum())
    assert model.delta_ == DELTA and model.clip_norm_ == made.clip_norm
    np.testing.assert_allclose(model.mu_, mu)
    np.testing.assert_allclose(model.weights_, mu / mu.sum())
    np.testing.assert_allclose(model.privacy_loss_, epsilon, rtol=1e-8)
    assert (model.privacy_loss_ <= epsilon).all() and not model.mu_.flags.writeable
    assert not hasattr(model, "eta_") and not hasattr(model, "penalty_")


@pytest.mark.parametrize("fits", [1, 3, 5])
def test_classes_share_what_is_told_of_a_record(fits: int) -> None:
    X, _, epsilon = data()
    k = 2 if fits == 1 else fits
    y = np.arange(300) % k
    model = PrivateLogisticRegression(classes=range(k), delta=DELTA, rng=generator(3821))
    with Account(300, limit=epsilon * (1 + 1e-12), delta=DELTA) as account:
        model.fit(X, y, epsilon=epsilon, record=np.arange(300))
        assert account.releases == fits
        with pytest.raises(ValueError, match="would be exceeded"):
            model.fit(X, y, epsilon=epsilon, record=np.arange(300))
        assert account.releases == fits
    np.testing.assert_allclose(account.mu, model.mu_)
    assert not account.total.any()
    np.testing.assert_allclose(account.epsilon(DELTA), epsilon, rtol=1e-8)
    np.testing.assert_allclose(model.privacy_loss_, epsilon, rtol=1e-8)
    assert model.coef_.shape == (fits, 3)


@pytest.mark.parametrize("learner", [PersonalizedRidge, PrivateLogisticRegression])
def test_an_account_counts_both_kinds_together(learner: Any) -> None:
    X, y, epsilon = data()
    given: dict[str, Any] = {"rng": generator(3822)}
    if learner is PrivateLogisticRegression:
        given["classes"] = (0, 1)
        y = (y > 0.2).astype(int)
    record = np.arange(300)
    with Account(300, delta=1e-5) as account:
        learner(**given).fit(X, y, epsilon=epsilon, record=record)
        model = learner(delta=DELTA, **given).fit(X, y, epsilon=epsilon, record=record)
    np.testing.assert_allclose(account.total, epsilon)
    np.testing.assert_allclose(account.mu, model.mu_)
    assert (account.epsilon(DELTA)[5:] > epsilon[5:]).all()
    refused = pytest.raises(ValueError, match="no limit: open an Account with a delta")
    with Account(300, limit=100.0) as account, refused:
        learner(delta=DELTA, **given).fit(X, y, epsilon=epsilon, record=record)
    assert account.releases == 0


def test_an_earlier_fit_leaves_nothing_behind() -> None:
    X, y, epsilon = data()
    model = PersonalizedRidge(rng=0).fit(X, y, epsilon=epsilon)
    assert model.delta_ == 0 and not hasattr(model, "mu_")
    before = model.noise_margin()
    model.set_params(delta=DELTA)
    np.testing.assert_array_equal(model.noise_margin(), before)  # of the fit, not of the parameter
    model.rng = 0
    model.fit(X, y, epsilon=epsilon)
    assert not hasattr(model, "eta_") and not hasattr(model, "penalty_")
    with pytest.raises(ValueError, match="noise_margin is known for delta = 0 alone"):
        model.noise_margin()
    with pytest.raises(TypeError, match="mechanism must be a model with delta = 0"):
        privacy_losses(model, X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    assert copy.rng is None and clone(model).delta == DELTA
    model.set_params(delta=0.0, rng=0).fit(X, y, epsilon=epsilon)
    np.testing.assert_array_equal(model.noise_margin(), before)
    assert not hasattr(model, "mu_")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("learner", [PersonalizedRidge, PrivateLogisticRegression])
def test_every_data_set_is_fitted_in_silence(learner: Any) -> None:
    rng = generator(3823)
    for n in (1, 40):
        for x in (np.zeros(2), np.ones(2), np.array([0.0, 1.0]), np.full(2, 5e-324)):
            for label in (0, 1):
                given: dict[str, Any] = {"epsilon": 900.0, "delta": DELTA, "rng": rng}
                if learner is PrivateLogisticRegression:
                    given["classes"] = (0, 1)
                for intercept in (True, False):
                    model = learner(fit_intercept=intercept, **given)
                    model.fit(np.tile(x, (n, 1)), np.full(n, label))
                    assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()


@pytest.mark.parametrize("learner", [PersonalizedRidge, PrivateLogisticRegression])
def test_plain_fit_is_the_descent_without_noise(learner: Any) -> None:
    X, y, _ = data()
    given: dict[str, Any] = {"delta": DELTA, "clip_norm": 0.5}
    if learner is PrivateLogisticRegression:
        given["classes"] = (0, 1)
        y = (y > 0.2).astype(int)
    with pytest.warns(UserWarning, match="not private"):
        plain = learner(epsilon="not private", **given).fit(X, y)
    assert np.isinf(plain.privacy_loss_).all() and np.isinf(plain.mu_).all()
    losses = np.full(300, estimators.TAME)
    noisy = learner(**given).fit(X, y, epsilon=losses)
    found = noisy.predict(X) if learner is PersonalizedRidge else noisy.decision_function(X)
    best = plain.predict(X) if learner is PersonalizedRidge else plain.decision_function(X)
    assert np.corrcoef(found, best)[0, 1] > 0.97


def test_a_hopeless_fit_says_so_before_it_spends() -> None:
    X, y, _ = data(30)
    with Account(30, delta=DELTA) as account, warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="mostly noise: of the labels' variance at most"):
            PersonalizedRidge(delta=DELTA).fit(X, y, epsilon=0.1, record=np.arange(30))
        with pytest.raises(UserWarning, match="mostly noise: it is longer than"):
            PrivateLogisticRegression(delta=DELTA, classes=(0, 1)).fit(
                X, y > 0.2, epsilon=0.1, record=np.arange(30)
            )
    assert account.releases == 0


@pytest.mark.filterwarnings("ignore:classes is not given:UserWarning")
@parametrize_with_checks(
    [
        PersonalizedRidge(clip=True, delta=0.3, epsilon=9.0, rng=0),
        PrivateLogisticRegression(clip=True, delta=0.3, epsilon=9.0, rng=0),
    ],
    expected_failed_checks=against_the_policy,
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def fit(**options: Any) -> Any:
    return lambda: PersonalizedRidge(**options).fit([[0.5]], [0.5])


test_bad_options = refusals(
    (fit(delta=1e-6, penalty=1.0), "penalty = 1.0 is for delta = 0"),
    (fit(delta=-0.1), "delta must lie in"),
    (fit(delta=1.0), "delta must lie in"),
    (fit(delta="small"), "delta must"),
)
