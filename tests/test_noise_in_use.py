"""The noise as the learners use it: what they release, less an estimate computed apart, at the rate of the paper.

Theorem 2.1 of the ridge paper: rate = lambda S / (2 sqrt(d) (1 + sqrt(d) B)), S the sum of the privacy losses and
B = min(1/sqrt(lambda), sqrt(d)/lambda). Every setting is tested against the whole law, and the mutants show that an
error in the noise, in the rate, in the weights or in the fit does not pass.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from hdpm_book.ridge import jorgensen, variants
from hdpm_book.ridge.jorgensen import draw_masks, inclusion_probabilities, sampled_ridge
from hdpm_lib import noise
from hdpm_lib.learners import logistic, ridge
from hdpm_lib.learners.estimators import PersonalizedRidge, PrivateLogisticRegression
from hdpm_lib.learners.queries import linear_query
from hdpm_lib.learners.ridge import OutputPerturbation, output_perturbation
from hdpm_lib.noise import spherical_laplace
from tests.support import Check, generator, law_checks, objections, rate_as_scale, times


def rate_of(total: float, penalty: float, d: int, bound: str = "paper", B: float | None = None) -> float:
    """The formulas, typed anew: of the paper, and with the sharper bound of the book."""
    root = math.sqrt(d)
    if bound == "paper":
        B = min(1 / math.sqrt(penalty), root / penalty) if B is None else B
        return penalty * total / (2 * root * (1 + root * B))
    B = (1 / (2 * math.sqrt(penalty)) if penalty <= d else root / (d + penalty)) if B is None else B
    return penalty * total / (2 * root * (1 + root * B / 2))


def fit(X: np.ndarray, y: np.ndarray, weights: np.ndarray, penalty: float) -> np.ndarray:
    """The weighted ridge estimate by scikit-learn."""
    model = Ridge(alpha=penalty, fit_intercept=False, solver="cholesky")
    return model.fit(X, y, sample_weight=weights).coef_


@dataclass(frozen=True)
class Setting:
    n: int
    d: int
    penalty: float
    epsilon: float  # privacy losses are spread around it
    bound: str = "paper"
    spill: float = 0.0  # how far records lie outside the bounds; they are then clipped
    norm_bound: float | None = None
    feature_norm: float | None = None

    @property
    def draws(self) -> int:
        return max(2000, 20_000 // self.d // 1000 * 1000)

    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rng = generator(11, self.n, self.d)
        X = np.column_stack([rng.random((self.n, self.d - 1)), np.ones(self.n)])  # the last column is an intercept
        y = np.clip(X @ rng.uniform(-1, 1, self.d) / self.d + rng.uniform(-0.6, 0.6, self.n), -1, 1)
        epsilon = self.epsilon * rng.choice([0.2, 1, 3], self.n)
        if self.feature_norm is not None:
            X *= self.feature_norm / np.sqrt(self.d)
        return X * (1 + self.spill), y * (1 + self.spill), epsilon

    def learn(self) -> OutputPerturbation:
        X, y, epsilon = self.data()
        options: dict[str, Any] = {"norm_bound": self.norm_bound, "feature_norm": self.feature_norm}
        return output_perturbation(X, y, epsilon, self.penalty, bound=self.bound, clip=self.spill > 0, **options)  # type: ignore[arg-type]

    def expected(self) -> tuple[np.ndarray, float]:
        """Estimate and rate, by other means."""
        X, y, epsilon = self.data()
        theta = fit(np.clip(X, 0, 1), np.clip(y, -1, 1), epsilon / epsilon.sum(), self.penalty)
        d = self.d if self.feature_norm is None else self.feature_norm**2  # the formulas know d as a squared norm only
        return theta, rate_of(epsilon.sum(), self.penalty, d, self.bound, self.norm_bound)


GRID = [
    Setting(*values)  # type: ignore[arg-type]
    for values in itertools.product(
        (20, 200, 2000), (1, 2, 12, 30), (0.01, 1.0, 12.0, 1e4), (0.01, 0.1, 3.0), ("paper", "sharp")
    )
]
MORE = [
    Setting(200, 3, 1.0, 0.5, spill=0.5),
    Setting(200, 3, 1.0, 0.5, "sharp", norm_bound=0.3),
    Setting(200, 12, 0.1, 0.5, norm_bound=1.5),
    Setting(200, 12, 0.1, 0.5, "sharp", feature_norm=2.5),
    Setting(200, 12, 30.0, 0.5, feature_norm=2.5),
]
LOOKS = len(GRID) + len(MORE) + 10


def setting_checks(setting: Setting) -> list[Check]:
    mechanism, rng = setting.learn(), generator(12, GRID.index(setting) if setting in GRID else len(GRID))
    theta, rate = setting.expected()
    return law_checks(lambda k: rate * (mechanism.release(rng=rng, size=k) - theta), setting.draws, LOOKS)


@pytest.mark.parametrize("n", [20, 200, 2000])
@pytest.mark.parametrize("d", [1, 2, 12, 30])
def test_noise_over_penalty_and_epsilon(n: int, d: int) -> None:
    settings = [setting for setting in GRID if (setting.n, setting.d) == (n, d)]
    assert len(settings) == 24
    for setting in settings:
        assert objections(setting_checks(setting)) == [], setting


@pytest.mark.parametrize("setting", MORE, ids=str)
def test_noise_with_options(setting: Setting) -> None:
    assert objections(setting_checks(setting)) == []


@pytest.mark.parametrize("d", [1, 12])
def test_ten_times_the_privacy_loss_is_a_tenth_of_the_noise(d: int) -> None:
    """The same generator gives the same noise but for its scale; nothing else may depend on the scale of epsilon."""
    small, large = Setting(200, d, 1.0, 0.05), Setting(200, d, 1.0, 0.5)
    noise = [s.learn().release(rng=generator(13), size=100) - s.expected()[0] for s in (small, large)]
    np.testing.assert_allclose(noise[0], 10 * noise[1], rtol=1e-6, atol=1e-8)


def constant_mutant(change: Callable[[float, float, float], float]) -> Any:
    """`sensitivity_constant` replaced by a function of penalty, feature norm and the norm bound in use."""

    def constant(
        penalty: float, feature_norm: float, bound: Any = "paper", norm_bound: float | None = None, *_: float
    ) -> float:
        B = ridge.estimate_norm_bound(penalty, feature_norm, bound) if norm_bound is None else norm_bound
        return change(penalty, feature_norm, B if bound == "paper" else B / 2)

    return constant


def unpenalised_intercept(X: Any, y: Any, weights: Any, penalty: Any) -> np.ndarray:
    features = np.asarray(X)
    penalties = np.append(np.full(features.shape[1] - 1, penalty), 0.0)
    return np.linalg.solve((features.T * weights) @ features + np.diag(penalties), (weights * y) @ features)


def always_the_same(d: int, rate: Any, *, rng: Any, size: Any = ()) -> np.ndarray:
    return spherical_laplace(d, rate, rng=np.random.default_rng(0), size=size)


weighted_ridge = ridge.weighted_ridge
MUTANTS: dict[str, tuple[str, Any]] = {
    "half the noise": ("spherical_laplace", times(0.5)),
    "noise 10 % small": ("spherical_laplace", times(0.9)),
    "rate passed as scale": ("spherical_laplace", rate_as_scale),
    "no noise in one coordinate": (
        "spherical_laplace",
        lambda d, rate, **more: spherical_laplace(d, rate, **more) * (np.arange(d) > 0),
    ),
    "factor 2 lost": ("sensitivity_constant", constant_mutant(lambda p, r, B: r / p * (1 + r * B))),
    "B omitted": ("sensitivity_constant", constant_mutant(lambda p, r, B: 2 * r / p)),
    "sqrt(d) taken for 1": ("sensitivity_constant", constant_mutant(lambda p, r, B: 2 / p * (1 + B))),
    "d taken for sqrt(d)": ("sensitivity_constant", constant_mutant(lambda p, r, B: 2 * r**2 / p * (1 + r**2 * B))),
    "penalty not in the rate": ("sensitivity_constant", constant_mutant(lambda p, r, B: 2 * r * (1 + r * B))),
    "B does not switch": ("estimate_norm_bound", lambda penalty, *rest: penalty**-0.5),
    "weights not normalised": ("personalized_weights", lambda eps: np.asarray(eps)),
    "uniform weights, personalised rate": ("personalized_weights", lambda eps: np.full(len(eps), 1 / len(eps))),
    "penalty over n in the fit": ("weighted_ridge", lambda X, y, w, p: weighted_ridge(X, y, w, p / len(y))),
    "intercept not penalised": ("weighted_ridge", unpenalised_intercept),
    "labels lose their sign": ("weighted_ridge", lambda X, y, w, p: weighted_ridge(X, np.abs(y), w, p)),
}
FEW = [Setting(200, d, penalty, 3.0, bound) for d in (2, 12) for penalty in (1.0, 1e4) for bound in ("paper", "sharp")]


def few_objections() -> list[str]:
    return [line for setting in FEW for line in objections(setting_checks(setting))]


@pytest.mark.parametrize("name", MUTANTS)
def test_broken_learner_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert few_objections() == []
    monkeypatch.setattr(ridge, *MUTANTS[name])
    assert few_objections() != []


def test_records_that_are_not_clipped_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ridge, "check_records", lambda X, y, **_: (X, y))
    assert objections(setting_checks(replace(MORE[0], epsilon=5.0))) != []


# --- consecutive releases ---------------------------------------------------------------------------------------------


def alternate(*makers: Callable[[], np.ndarray]) -> Callable[[int], np.ndarray]:
    """Draws that take turns, so that `law_checks` compares each release with the next one."""
    turn = itertools.cycle(makers)
    return lambda k: np.stack([next(turn)() for _ in range(k)])


def one_by_one(n_runs: int = 4000) -> list[Check]:
    """Releases one at a time, in turn of two mechanisms that share a generator."""
    rng, makers = generator(14), []
    for setting in (Setting(20, 2, 1.0, 0.1), Setting(20, 2, 12.0, 3.0)):
        (theta, rate), mechanism = setting.expected(), setting.learn()
        makers.append(lambda t=theta, r=rate, m=mechanism: r * (m.release(rng=rng) - t))
    return law_checks(alternate(*makers), n_runs, LOOKS)


def batch_by_batch(n_runs: int = 8000) -> list[Check]:
    """Two batches, laid side by side."""
    setting, rng = Setting(20, 2, 1.0, 0.1), generator(15)
    (theta, rate), mechanism = setting.expected(), setting.learn()
    both = np.stack([mechanism.release(rng=rng, size=n_runs // 2) for _ in range(2)], axis=1)
    return law_checks(lambda k: rate * (both.reshape(-1, 2)[:k] - theta), n_runs, LOOKS)


@pytest.mark.parametrize("releases", [one_by_one, batch_by_batch])
def test_releases_share_no_noise(releases: Callable[[], list[Check]], monkeypatch: pytest.MonkeyPatch) -> None:
    assert objections(releases()) == []
    monkeypatch.setattr(ridge, "spherical_laplace", always_the_same)
    assert any("consecutive" in line for line in objections(releases()))


def test_every_release_of_a_batch_differs() -> None:
    for size in (1000, (10, 100)):
        batch = Setting(20, 3, 1.0, 1.0).learn().release(rng=generator(16), size=size).reshape(-1, 3)
        assert len(np.unique(batch, axis=0)) == 1000 and np.unique(batch).size == 3000


# --- the other learners -----------------------------------------------------------------------------------------------


def fits(random_state: Callable[[], Any], n_runs: int = 2000, **options: Any) -> list[Check]:
    setting = Setting(20, 2, 1.0, 3.0, **{"bound": "sharp"} | options)
    (X, y, epsilon), (theta, rate) = setting.data(), setting.expected()
    model = PersonalizedRidge(penalty=1.0, project=False, **options)

    def coefficients() -> np.ndarray:
        return model.set_params(random_state=random_state()).fit(X, y, epsilon=epsilon).coef_

    return law_checks(alternate(lambda: rate * (coefficients() - theta)), n_runs, LOOKS)


def test_noise_of_the_estimator() -> None:
    seeds = itertools.count()
    state = np.random.RandomState(generator(17).integers(2**32))
    assert objections(fits(lambda: next(seeds))) == []
    assert objections(fits(lambda: state)) == []
    assert objections(fits(lambda: None, bound="paper")) == []
    assert objections(fits(lambda: None, feature_norm=1.1)) == []
    assert any("consecutive" in line for line in objections(fits(lambda: 5)))  # a fixed seed repeats its noise


@pytest.mark.parametrize("options", [{}, {"bound": "paper"}, {"feature_norm": 1.1}, {"arithmetic": "ideal"}], ids=str)
def test_fit_by_default_is_the_nearest_point_of_the_ball(options: dict[str, Any]) -> None:
    """What `fit` publishes, `project` being on: the same draw as without it, moved to the ball of the estimates."""
    X, y, epsilon = Setting(20, 2, 1.0, 0.3).data()
    X *= 1.1 / np.sqrt(2)
    norm = options.get("feature_norm", np.sqrt(2))
    radius, outside = max(s / (s**2 + 1) for s in np.linspace(0, norm, 1001)), 0
    for seed in range(60):
        kept, free = (
            PersonalizedRidge(project=p, random_state=seed, **options).fit(X, y, epsilon).coef_ for p in (True, False)
        )
        far = np.linalg.norm(free) > radius
        expected = radius * free / np.linalg.norm(free) if far else free
        np.testing.assert_allclose(kept, expected, rtol=1e-5)
        outside += far
    assert 6 < outside < 60


def classifier_checks(penalty: float, n_runs: int) -> list[Check]:
    """Noise of fits of the classifier, read off the stationarity of what it publishes, at the rate eta / 2."""
    rng = generator(22)
    X, epsilon = rng.uniform(-0.5, 0.5, (30, 2)), rng.uniform(2, 6, 30)
    y, a, total = np.where(X @ [1.0, 2.0] > 0, 1, -1), epsilon / epsilon.sum(), epsilon.sum()

    def noise() -> np.ndarray:
        w = PrivateLogisticRegression(penalty, classes=(-1, 1)).fit(X, y, epsilon=epsilon).coef_[0]
        return total / 2 * ((a * y / (1 + np.exp(y * (X @ w)))) @ X - penalty * w)

    return law_checks(alternate(noise), n_runs, LOOKS)


@pytest.mark.parametrize("penalty", [0.1, 0.04])  # with either the slack is 0, and eta the sum of epsilon
def test_noise_of_the_classifier(penalty: float, monkeypatch: pytest.MonkeyPatch) -> None:
    assert objections(classifier_checks(penalty, 1500)) == []
    monkeypatch.setattr(logistic, "spherical_laplace", times(0.5))  # the rate eta in place of eta / 2
    assert objections(classifier_checks(penalty, 200)) != []


def few_digits(noise: Callable[[np.random.Generator], np.ndarray]) -> int:
    """How many of 50 draws are numbers of 32 bits, but for the rounding of a sum: of others about one in 2**27 is."""
    drawn = np.array([np.ravel(noise(generator(19, k)))[0] for k in range(50)])
    return int((np.abs(drawn - drawn.astype(np.float32)) <= 1e-15).sum())


def single_releases() -> dict[str, Callable[[np.random.Generator], np.ndarray]]:
    """The noise of releases one at a time, as users call them."""
    X, y, epsilon = Setting(20, 2, 1.0, 0.3).data()
    theta = fit(X, y, epsilon / epsilon.sum(), 1.0)
    sums, mean = linear_query(np.ones(20), 1.0, arithmetic="ideal"), epsilon @ y / epsilon.sum()
    model = PersonalizedRidge(project=False, arithmetic="ideal")
    return {
        "spherical_laplace": lambda rng: noise.spherical_laplace(2, 1.0, rng=rng),
        "output_perturbation": lambda rng: (
            output_perturbation(X, y, epsilon, 1.0, arithmetic="ideal").release(rng=rng) - theta
        ),
        "PersonalizedRidge": lambda rng: model.set_params(random_state=rng).fit(X, y, epsilon).coef_ - theta,
        "private_constant": lambda rng: variants.private_constant(y, epsilon, rng=rng) - mean,
        "linear_query": lambda rng: sums.release(X[:, 0], rng=rng) - X[:, 0].sum(),
    }


def test_single_releases_have_all_their_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {name: few_digits(draw) for name, draw in single_releases().items()} == dict.fromkeys(single_releases(), 0)

    def short(d: int, rate: Any, *, rng: np.random.Generator, size: Any = ()) -> np.ndarray:
        drawn = spherical_laplace(d, rate, rng=rng, size=size)
        return drawn.astype(np.float32) if size == () else drawn

    monkeypatch.setattr(noise, "spherical_laplace", short)
    monkeypatch.setattr(ridge, "spherical_laplace", short)
    found = single_releases()
    assert (
        min(few_digits(found[name]) for name in ("spherical_laplace", "output_perturbation", "PersonalizedRidge")) == 50
    )


def test_single_releases_with_a_norm_bound() -> None:
    """Theorem 2.3 as users call it: one release at a time, and its law."""
    setting, rng = Setting(20, 2, 1.0, 3.0, "sharp", norm_bound=0.3), generator(20)
    mechanism, (theta, rate) = setting.learn(), setting.expected()
    assert objections(law_checks(alternate(lambda: rate * (mechanism.release(rng=rng) - theta)), 2000, LOOKS)) == []
    mechanism = replace(setting, epsilon=0.5).learn()
    free, kept = (mechanism.release(rng=generator(21), size=2000, project=p) for p in (False, True))
    norms = np.linalg.norm(free, axis=1)
    np.testing.assert_allclose(kept, free * np.minimum(1, 0.3 / norms)[:, None])
    assert 20 < (norms > 0.3).sum() < 2000


@pytest.mark.parametrize("size_in_noise", ["realised", "fixed"])
@pytest.mark.parametrize("penalty", [0.3, 50.0])
def test_noise_of_jorgensen_sampling(size_in_noise: Any, penalty: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, runs = generator(18), 4000
    X, y, epsilon = rng.random((6, 3)), rng.uniform(-1, 1, 6), np.array([0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
    masks = draw_masks(epsilon, 1.0, runs, rng=rng)  # the last record is kept for sure
    release = sampled_ridge(X, y, epsilon, penalty, 1.0, masks, size_in_noise=size_in_noise)
    known = ((np.exp(epsilon) - 1) / (math.e - 1)).sum()
    assert inclusion_probabilities(epsilon, 1.0).sum() == pytest.approx(known)
    theta, rate = np.empty((runs, 3)), np.empty(runs)
    for mask in np.unique(masks, axis=0):
        same, size = (masks == mask).all(1), mask.sum() if size_in_noise == "realised" else known
        theta[same] = fit(X, y, mask / size, penalty)
        total = 1.0 if size_in_noise == "realised" else 6 / known  # largest sum of weights
        B = math.sqrt(total) * min(1 / math.sqrt(penalty), math.sqrt(3 * total) / penalty)
        rate[same] = rate_of(size, penalty, 3, B=B)

    def checks() -> list[Check]:
        noise = release.release(rng=rng) - theta
        return law_checks(lambda k: rate[:k, None] * noise[:k], runs, LOOKS)

    assert objections(checks()) == []
    monkeypatch.setattr(jorgensen, "spherical_laplace", times(0.8))
    assert objections(checks()) != []
