"""The breast-cancer market: who may see which record, what each market buys and pays, models, and
the choice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from hdpm_book.logistic import study
from hdpm_book.logistic.joint_objective import alternate, joint_objective
from hdpm_book.logistic.study import COSTS, Candidates, Parts
from hdpm_lib.markets.costs import virtual_valuation
from hdpm_lib.markets.incentives import reports_to_try, search_misreports
from hdpm_lib.markets.procurement_auction import procurement_auction
from hdpm_lib.noise import spherical_laplace
from tests.support import generator, refusals

HIGH = COSTS.support()[1]


def records(n: int = 120, d: int = 4, key: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = generator(700, key)
    X = rng.standard_normal((n, d)) * rng.uniform(0.1, 10, d) + rng.uniform(-3, 3, d)
    return X, np.where((X - X.mean(0)) / X.std(0) @ rng.standard_normal(d) > 0, 1.0, -1.0)


def test_split_parts_the_records() -> None:
    """Each into one part, with its label; means, spread and the largest norm are those of public
    records alone.
    """
    X, y = records()
    train, public, test = np.split(generator(702).permutation(len(y)), [72, 96])  # 60 % and 20 %
    X[train[:5]] *= 1000
    scaled = (X - X[public].mean(0)) / X[public].std(0)
    scaled /= np.linalg.norm(scaled[public], axis=1).max()
    norms = np.linalg.norm(scaled[train], axis=1, keepdims=True)
    parts = study.public_scale_split(X, y, rng=generator(702))
    assert parts.shortened == (norms > 1).sum() >= 5
    for name, part, rows in (
        ("train", train, scaled[train] / np.maximum(norms, 1)),
        ("public", public, scaled[public]),
        ("test", test, scaled[test]),
    ):
        np.testing.assert_allclose(getattr(parts, f"X_{name}"), rows, rtol=1e-12)
        np.testing.assert_array_equal(getattr(parts, f"y_{name}"), y[part])
    fewer = study.public_scale_split(X, y, rng=generator(702), sizes=(10, 24))
    assert [len(part) for part in (fewer.y_train, fewer.y_public, fewer.y_test)] == [10, 24, 86]
    np.testing.assert_array_equal(fewer.y_train, parts.y_train[:10])


def test_two_numbers_are_enough() -> None:
    """Algorithm 2 for any mu, sigma and gamma, on a grid."""
    assert COSTS.support() == pytest.approx((np.exp(-4), 5 * np.exp(-4)))  # those of the papers
    rng = generator(710)
    for _ in range(60):
        c = COSTS.rvs(int(rng.integers(2, 30)), random_state=rng)
        mu, sigma, gamma = 10 ** rng.uniform(-2, 2, 3)
        kappa = sigma * gamma / mu**2
        ratio = np.sqrt(sigma / gamma)
        found = study.optimal_candidates(c, COSTS, [0.1, kappa], [3.0, ratio, 300.0])
        assert found.settings.to_dict("list") == {
            "kappa": [0.1] * 3 + [kappa] * 3,
            "scale": [3.0, ratio, 300.0] * 2,
        }
        deal = procurement_auction(c, COSTS, mu, sigma, gamma)
        eta = found.eta[4]
        np.testing.assert_allclose(
            found.weights[4] * eta, deal.privacy_loss, rtol=1e-9, atol=1e-9 * eta
        )
        np.testing.assert_allclose(found.weights.sum(1), 1)
        assert found.payments[4] == pytest.approx(deal.payments.sum(), rel=1e-9)


@pytest.mark.parametrize(
    "make",
    [
        lambda c: study.posted_candidates(c, [0.06, HIGH], [10.0]),  # the first price is always met
        lambda c: study.cheapest_candidates(c, HIGH, [3], [10.0]),
        lambda c: study.cheapest_candidates(c, HIGH, [6], [10.0]),
    ],
    ids=["posted", "third", "everybody"],
)
def test_simple_markets_are_truthful(make: Callable[[np.ndarray], Candidates]) -> None:
    def mechanism(profiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Amounts and payments: all are paid the same for a unit."""
        sold = [
            (f.weights[0] * f.eta[0], f.weights[0] * f.payments[0]) for f in map(make, profiles)
        ]
        return np.moveaxis(sold, 1, 0)

    for key in range(5):
        c = np.append([0.02, 0.03], COSTS.rvs(4, random_state=generator(720, key)))
        tries = [np.maximum(t, 1e-6) for t in reports_to_try(c, HIGH, grid=21)]
        found = search_misreports(mechanism, c, tries, refine=False)
        assert found.gain.max() <= 1e-12 * found.payment.max() and found.utility.min() >= -1e-12


def test_what_the_simple_markets_buy() -> None:
    c = np.array([0.05, 0.02, 0.03, 0.08])
    posted = study.posted_candidates(c, [0.01, 0.03, 0.08], [4.0, 40.0])
    assert posted.settings.price.tolist() == [0.03, 0.03, 0.08, 0.08]  # nobody accepts 0.01
    np.testing.assert_allclose(
        posted.weights * posted.eta[:, None], [[0, 1, 1, 0], [0, 10, 10, 0], [1] * 4, [10] * 4]
    )
    np.testing.assert_allclose(posted.payments, [0.06, 0.6, 0.32, 3.2])
    cheapest = study.cheapest_candidates(c, 0.1, [1, 3, 4], [6.0])
    np.testing.assert_allclose(cheapest.weights * 6, [[0, 6, 0, 0], [2, 2, 2, 0], [1.5] * 4])
    np.testing.assert_allclose(cheapest.payments, [0.18, 0.48, 0.6])


def example(key: int = 0) -> tuple[Parts, Candidates, np.ndarray]:
    rng = generator(730, key)
    parts = study.public_scale_split(*records(80, 3, key), rng=rng)
    costs = COSTS.rvs(len(parts.y_train), random_state=rng)
    found = study.optimal_candidates(costs, COSTS, [0.1, 10.0], [10.0, 100.0])
    return parts, found, spherical_laplace(3, 1.0, rng=rng, size=4)


def test_errors_are_those_of_the_released_models() -> None:
    """Against models of another optimiser, record by record."""
    for key in range(2):
        parts, found, noise = example(key)
        errors = study.candidate_errors(parts, found, [2.0, 50.0], noise)
        signed = parts.y_train[:, None] * parts.X_train
        sides = ((parts.X_public, parts.y_public), (parts.X_test, parts.y_test))
        for (k, j), ratio in zip(
            np.ndindex(len(found.eta), 2), [2.0, 50.0] * len(found.eta), strict=True
        ):
            a = found.weights[k]
            eta = found.eta[k]
            wrong = []
            for b in noise:

                def loss(w: np.ndarray, Z: Any, a: Any, eta: float, ratio: float, b: Any) -> float:
                    return float(
                        a @ np.logaddexp(0, -Z @ w) + 2 * b @ w / eta + ratio / eta / 2 * w @ w
                    )

                args = (signed, a, eta, ratio, b)
                w = optimize.minimize(
                    loss, np.zeros(3), args, method="BFGS", options={"gtol": 1e-9}
                ).x
                wrong.append([(np.sign(X @ w) != y).mean() for X, y in sides])
            np.testing.assert_allclose(
                [side[k, j] for side in errors], np.mean(wrong, axis=0), atol=1e-9
            )


def test_a_record_on_the_line_is_wrong() -> None:
    X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    y = np.array([1.0, 1.0, 1.0])
    np.testing.assert_allclose(study.misclassified([[1.0, 0.0], [1.0, 2.0]], X, y), [2 / 3, 1 / 3])


GAMMAS = np.geomspace(1e-8, 1e2, 41)


def test_choice_is_the_least_and_is_described() -> None:
    """So along gamma payments do not rise and the public error does not fall, whatever the errors
    are.
    """
    _, found, _ = example()
    public, test = generator(741).random((2, len(found.eta), 2))
    table = study.tuned(found, [0.01, 50.0], public, test, GAMMAS)
    assert (np.diff(table.payments) <= 0).all() and (np.diff(table.public) >= 0).all()
    for gamma, line in table.iterrows():
        row = int(line.row)
        column = int(line.column)
        assert line.public + gamma * line.payments == pytest.approx(
            (public + gamma * found.payments[:, None]).min()
        )
        assert (line.error, line.public) == (test[row, column], public[row, column])
        assert line.overall == pytest.approx(line.error + gamma * line.payments)
        eps = found.weights[row] * found.eta[row]
        assert (line.epsilon, line.sellers) == (pytest.approx(eps.max()), (eps > 0).sum())
        assert line.penalty == pytest.approx((0.01, 50.0)[column] / found.eta[row])
        assert line.printed_slack == pytest.approx(
            2 * np.log1p(found.weights[row].max() / line.penalty)
        )
        assert (line.slack == 0) == (column == 1)  # the ratio 2 is where the slack ends
        assert tuple(found.settings.iloc[row]) == (line.kappa, line.scale)


@pytest.mark.parametrize("cap", [None, 0.1])
def test_joint_rule_against_a_search_with_everything_inside(cap: float | None) -> None:
    """Eta, penalty, mu and sigma by a plain loop over objectives that hold sigma, without and with
    a cap.
    """
    X, y = records()
    parts = study.public_scale_split(X, y, rng=generator(710))
    costs = COSTS.rvs(len(parts.y_train), random_state=generator(711))
    psi = virtual_valuation(COSTS, costs)
    noise = spherical_laplace(4, 1.0, rng=generator(712), size=2)
    grids = {"totals": [5.0, 50.0, 500.0], "gammas": [1e-4, 1e-2, 1.0]}
    sigmas = [1.0, 100.0]
    mus = [0.5, 5.0]
    penalties = [0.1, 1.0]
    ends = study.joint_ends(parts, psi, noise, penalties=penalties, mus=mus, cap=cap, **grids)  # type: ignore[arg-type]
    errors, paid = study.joint_choice(ends, sigmas=sigmas, **grids)  # type: ignore[arg-type]
    settings = list(itertools.product(penalties, mus, sigmas))
    sides = ((parts.X_public, parts.y_public), (parts.X_test, parts.y_test))
    # by setting, gamma, draw and eta: value, both errors, what is spent
    found = np.empty((len(settings), 3, 2, 3, 4))
    for (s, setting), (k, b) in itertools.product(enumerate(settings), enumerate(noise)):
        scale = dict(zip(("penalty", "mu", "sigma"), setting, strict=True))
        for t, eta in enumerate(grids["totals"]):
            weights = None
            for g, gamma in enumerate(grids["gammas"]):
                rule = joint_objective(
                    parts.X_train,
                    parts.y_train,
                    b,
                    psi,
                    gamma=gamma,
                    squared=True,
                    cap=cap,
                    **scale,
                )
                end = alternate(rule, eta, start_weights=weights, tolerance=1e-4)
                weights = end.weights
                wrong = [study.misclassified(end.coefficients, *side) for side in sides]
                found[s, g, k, t] = end.value, *wrong, end.epsilon @ psi
    for g, gamma in enumerate(grids["gammas"]):
        tried = []
        for ends_of_setting in found[:, g].tolist():
            _, seen, new, spent = np.mean([min(line) for line in ends_of_setting], axis=0)
            tried.append((seen + gamma * spent, new, spent))
        _, new, spent = min(tried)
        assert errors[g] == pytest.approx(new)
        assert paid[g] == pytest.approx(spent, rel=1e-4)  # to the tolerance of the alternation


ROWS, LABELS = records()


def split_of(
    X: np.ndarray = ROWS, y: np.ndarray = LABELS, sizes: tuple[int, int] | None = None
) -> Parts:
    return study.public_scale_split(X, y, rng=generator(704), sizes=sizes)


test_what_is_refused = refusals(
    (lambda: split_of(y=LABELS * 2), r"-1 or 1, got y\[0\]"),
    (lambda: split_of(X=ROWS * [1, 1, 0, 1]), r"X\[:, 2\] is constant on the public records"),
    (
        lambda: split_of(X=ROWS[:1], y=LABELS[:1]),
        "X has 1 records: too few for 1 sellers, 0 public ones",
    ),
    (
        lambda: split_of(sizes=(96, 24)),
        "too few for 96 sellers, 24 public ones and some to test on",
    ),
    (lambda: study.optimal_candidates([0.2], COSTS, [1.0], [1.0]), "got 0.2"),
    (
        lambda: study.posted_candidates([1.0], [0.5], [1.0]),
        "below the smallest cost 1: nobody accepts",
    ),
    (lambda: study.cheapest_candidates([1.0], 0.5, [1], [1.0]), "got 1.0"),
    (
        lambda: study.cheapest_candidates([1.0], 2.0, [2], [1.0]),
        "at most the number of sellers 1, got 2",
    ),
    (
        lambda: study.cheapest_candidates([1.0], 2.0, [0], [1.0]),
        "counts must be a positive integer, got 0",
    ),
    (
        lambda: study.candidate_errors(*example()[:2], [2.0], np.ones((4, 2))),
        "noise must be finite, of shape",
    ),
)
