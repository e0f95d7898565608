"""Costs tied to the data: errors against drawn data, crossings, bills, and learners that keep what was promised."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from hdpm_book import datasets
from hdpm_book.beyond import data, tied
from hdpm_lib.designs.rules import Deal, Market, algorithm2, m1_released
from hdpm_lib.learners.logistic import objective_perturbation
from hdpm_lib.noise import spherical_laplace
from tests.support import Check, generator, mean_z, objections, z_check


def cube(u: np.ndarray) -> np.ndarray:
    """Quantile function of skewed records in [0, 1], of mean 1/4 and variance 1/7 - 1/16."""
    return np.asarray(u) ** 3


def small(name: str, budget: float, seed: int, released: bool = False) -> tuple[Deal, np.ndarray]:
    costs = data.LAW.ppf(generator(1700, seed).random((3, 60)))
    market = Market(data.TASK, data.LAW, budget)
    return (m1_released if released else data.DESIGNS[data.SHOWN[name]])(market, costs), costs


# --- records given costs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("r", [-0.7, 0.0, 0.4, 1.0])
def test_normal_records_given_costs(r: float) -> None:
    ranks = np.array([0.1, 0.3, 0.5, 0.9])
    mean, variance = tied.record_given_cost(stats.norm.ppf, r, ranks)
    np.testing.assert_allclose(mean, r * stats.norm.ppf(ranks), atol=2e-3)
    np.testing.assert_allclose(variance, 1 - r**2, atol=0.01)  # the grid cuts the tails


@pytest.mark.parametrize("r", [-0.6, 0.3, 0.9])
def test_moments_add_up_to_those_of_a_record(r: float) -> None:
    ranks = (np.arange(5000) + 0.5) / 5000
    mean, variance = tied.record_given_cost(cube, r, ranks)
    assert mean.mean() == pytest.approx(1 / 4, abs=1e-3)
    assert variance.mean() + mean.var() == pytest.approx(1 / 7 - 1 / 16, rel=0.01)


def drawn_z(deal: Deal, costs: np.ndarray, r: float, error: np.ndarray, runs: int, seed: int) -> np.ndarray:
    """Scores of the simulated squared errors of each draw of costs against those claimed."""
    rng, n = generator(1701, seed), costs.shape[-1]
    scores = stats.norm.ppf(data.LAW.cdf(costs))
    rates = np.sqrt(2 / deal.noise)
    W = tied.readers_factor(deal, data.TASK)
    squares = []
    for k, score in enumerate(scores):
        x = cube(stats.norm.cdf(r * score + np.sqrt(1 - r**2) * rng.standard_normal((runs, n))))
        seen = (x - 0.5) @ deal.weights[k] + spherical_laplace(1, rates[k], rng=rng, size=runs)[:, 0]
        squares.append((0.25 + W[k] * seen) ** 2)
    return mean_z(np.array(squares).T, error)


CASES = [
    (name, budget, r, released)
    for name, budget, released in (
        ("Algorithm 2", 20.0, False),
        ("everyone at the top", 100.0, False),
        ("M2, shrunk", 20.0, False),
        ("", 60.0, True),
    )
    for r in (-0.6, 0.0, 0.5)
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_error_is_that_of_drawn_records(case: int) -> None:
    """20,000 draws of the records of each of three draws of costs; false-alarm rate 1e-6 over all 36."""
    name, budget, r, released = CASES[case]
    deal, costs = small(name, budget, case, released)
    error = tied.tied_error(deal, costs, data.LAW, cube, 0.5, r, data.TASK)
    z = drawn_z(deal, costs, r, error, 20_000, case)
    looks = 3 * len(CASES)
    assert objections(z_check(f"{name} r={r}", 20_000, float(one), looks) for one in z) == []
    if r == -0.6 and name == "Algorithm 2":  # the other direction, and no shrinkage, are seen
        others = replace(deal, shrink=np.ones(3))
        for wrong in (
            tied.tied_error(deal, costs, data.LAW, cube, 0.5, -r, data.TASK),
            tied.tied_error(others, costs, data.LAW, cube, 0.5, r, data.TASK),
        ):
            seen = drawn_z(deal, costs, r, wrong, 20_000, case)
            assert objections(z_check("wrong", 20_000, float(one), looks) for one in seen) != []


def test_nothing_bought_costs_the_distance() -> None:
    nothing = Deal(np.zeros((2, 5)), weights=np.zeros((2, 5)), noise=np.full(2, np.inf), money=np.zeros(2))
    costs = np.full((2, 5), 3.0)
    error = tied.tied_error(nothing, costs, data.LAW, cube, 0.5, 0.5, data.TASK)
    np.testing.assert_allclose(error, (tied.mean_record(cube) - 0.5) ** 2)


# --- crossings --------------------------------------------------------------------------------------------------------


def test_errors_are_equal_at_the_crossing() -> None:
    one = data.bought(cube, 3, ["Algorithm 2", "everyone at the top"], 3)
    for sign in (1, -1):
        r = sign * one.crossing(100.0, sign=sign)
        ends = [one.error(100.0, name, r) for name in ("Algorithm 2", "everyone at the top")]
        assert ends[0] == pytest.approx(ends[1], rel=0.01) and 0.05 < abs(r) < 0.6
    assert np.isnan(data._root(lambda size: size - 2))


def test_formula_is_exact_for_normal_records() -> None:
    """Without shrinkage: the two mean errors agree at the correlation of the formula."""

    def normal(u: np.ndarray) -> np.ndarray:
        return 0.5 + 0.2 * stats.norm.ppf(u)

    plain = data.bought(normal, 4, ["Algorithm 2", "everyone at the top"], 6)
    deals = {key: replace(deal, shrink=np.ones(6)) for key, deal in plain.deals.items()}
    one = replace(plain, deals=deals)
    for P in data.BUDGETS:
        r = one.normal_crossing(P)
        # everyone at the top has the error of an ordinary sample on average over all costs, not of six draws
        top = deals[P, "everyone at the top"]
        level = 0.04 / data.SELLERS + top.noise.mean()
        assert one.squares(P, "Algorithm 2", r).mean() == pytest.approx(level, rel=0.02)


def test_dependence_of_a_part_against_drawn_records() -> None:
    """40,000 draws of the records of one draw of costs; false-alarm rate 1e-6."""
    one = data.bought(cube, 5, ["Algorithm 2", "everyone at the top"], 1)
    rng, part, runs, found = generator(1702), 0.3, 4000, []
    ranks = data.LAW.cdf(one.costs[0])
    for name in ("Algorithm 2", "everyone at the top"):
        deal, squares = one.deals[100.0, name], []
        W = tied.readers_factor(deal, data.TASK)[0]
        for _ in range(10):
            u = np.where(rng.random((runs, len(ranks))) < part, 1 - ranks, rng.random((runs, len(ranks))))
            noise = rng.laplace(0, np.sqrt(deal.noise[0] / 2), runs)
            squares.append((W * ((cube(u) - 0.5) @ deal.weights[0] + noise) + 0.25) ** 2)
        found.append(np.concatenate(squares))
    z = mean_z(found[0] - found[1], data.mixed_gap(one, 100.0, False, part))
    assert objections([z_check("mixed", 10 * runs, float(z), 1)]) == []
    wrong = mean_z(found[0] - found[1], data.mixed_gap(one, 100.0, True, part))
    assert objections([z_check("mixed, wrong way", 10 * runs, float(wrong), 1)]) != []


def test_menu_is_worse_with_money_in_one_direction_only() -> None:
    parts = data.menu_parts(cube, 6).map(float)
    errors = {r: parts.loc[r]["error"].to_numpy() for r in ("0.6", "-0.6")}
    plain = {r: parts.loc[r]["error with W = 1"].to_numpy() for r in ("0.6", "-0.6")}
    assert (np.diff(errors["0.6"]) > 0).all() and (np.diff(errors["-0.6"]) < 0).all()
    assert all((np.diff(values) < 0).all() for values in plain.values())


# --- reweighting ------------------------------------------------------------------------------------------------------


def bill_check(found: data.Bills) -> Check:
    return z_check("bills", 300, found.deviation, found.comparisons)


def test_bills_are_those_of_the_theorem() -> None:
    """300 draws of 1000 costs; false-alarm rate 1e-6."""
    assert objections([bill_check(data.bills(300))]) == []


def test_biased_weights_have_another_bill() -> None:
    def cheap_ones(costs: np.ndarray, power: float, rng: np.random.Generator) -> np.ndarray:
        bought = rng.random(costs.shape) < costs**-power
        return bought / np.maximum(bought.sum(-1, keepdims=True), 1)  # equal weights of those who are bought

    assert objections([bill_check(data.bills(300, buy=cheap_ones))]) != []


def test_weights_are_unbiased_at_every_cost() -> None:
    """Mean weight in ten intervals of costs, 400 draws; false-alarm rate 1e-6."""
    rng = generator(1703)
    costs = data.LAW.ppf(rng.random((400, 1000)))
    for power in (0.5, 1.0):
        weights = 1000 * data.horvitz_thompson(costs, power, rng)
        cells = [weights[(costs >= low) & (costs < low + 0.4)] for low in np.arange(1, 5, 0.4)]
        assert objections(z_check("cell", cell.size, float(mean_z(cell, 1.0)), 20) for cell in cells) == []


@pytest.mark.parametrize("strata", [2, 5])
def test_strata_by_simulation(strata: int) -> None:
    """The rule of the exercise: its bill is that of a fixed rate, its noise smaller, and its weights unbiased."""
    psi = data.LAW.ppf((np.arange(200_000) + 0.5) / 200_000) * 2 - 1
    means = psi.reshape(strata, -1).mean(1)
    rates = means ** (-1 / 3)
    rates *= 5 / (rates * means).mean()  # the mean virtual cost is 5, and the fixed rate 1
    assert (rates * means).mean() == pytest.approx(5)
    assert (rates**-2.0).mean() == pytest.approx(data.strata_noise(strata), rel=1e-6)
    for change in (0.9, 1.1):  # other rates at the same bill are worse
        other = rates * np.r_[change, np.ones(strata - 1)]
        other *= 5 / (other * means).mean()
        assert (other**-2.0).mean() > data.strata_noise(strata)


def test_variance_within_strata() -> None:
    assert data.share_within(cube, 1, 0.5) == pytest.approx(1.0)
    assert data.share_within(stats.norm.ppf, 2, 1.0) == pytest.approx(1 - 2 / np.pi, abs=0.01)
    uniform = data.share_within(lambda u: u, 10, 1.0)
    assert uniform == pytest.approx(0.01, abs=0.002)


def test_sampling_afterwards_is_unbiased_and_better() -> None:
    """2,000 markets of 200 sellers, records that follow their costs: false-alarm rate 1e-6."""
    rng, n, k = generator(1710), 200, 4
    ranks = rng.random((2000, n))
    stratum = (k * ranks).astype(int)
    counts = (stratum[..., None] == np.arange(k)).sum(1)
    weights = 1 / (k * np.take_along_axis(counts, stratum, 1))
    cells = [n * weights[stratum[:, 0] == j, 0] for j in range(k)]  # of one seller: the others' depend on hers
    assert objections(z_check("weight", cell.size, float(mean_z(cell, 1.0)), k) for cell in cells) == []
    x = cube(ranks)
    errors = [((w * x).sum(-1) - 0.25) ** 2 for w in (weights, np.full_like(weights, 1 / n))]
    assert errors[0].mean() / errors[1].mean() == pytest.approx(data.share_within(cube, k, 1.0), rel=0.15)


# --- learners ---------------------------------------------------------------------------------------------------------


def test_scaling_looks_at_public_records_only(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data._cancer()
    first = data.split(generator(1704))
    order = generator(1704).permutation(len(y))
    other = X.copy()
    other[order[0]] *= 3.0  # one seller's
    monkeypatch.setattr(data, "_cancer", lambda: (other, y))
    second = data.split(generator(1704))
    assert np.array_equal(first.X[1:], second.X[1:]) and not np.array_equal(first.X[0], second.X[0])
    np.testing.assert_allclose(np.linalg.norm(first.X, axis=1), 1)
    assert first.X.shape == (426, 30) and len(first.y_test) == 100


def test_model_keeps_every_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    records, rng = data.split(generator(1705)), generator(1706)
    costs = data.LAW.ppf(rng.random((1, data.BUYERS)))
    kept = []

    def watched(*args: object, **more: object) -> object:
        made = objective_perturbation(*args, **more)  # type: ignore[arg-type]
        kept.append(made.privacy_loss)
        return made

    monkeypatch.setattr(data, "objective_perturbation", watched)
    for P in (30.0, 1000.0):
        epsilon = algorithm2(Market(data.CANCER, data.LAW, P), costs).privacy_loss[0]
        for ratio in (0.5, 2.0, 32.0):
            data.model(records, epsilon, ratio, rng)
            assert (kept[-1] <= epsilon[epsilon > 0] * (1 + 1e-9)).all()
            assert kept[-1].max() > 0.9 * epsilon.max() or ratio < 2


def test_large_penalties_are_half_a_statistic() -> None:
    """The coefficients times twice the penalty are the statistic with noise of a quarter of the total as rate."""
    records, rng = data.split(generator(1707)), generator(1708)
    epsilon = rng.random(data.BUYERS)
    total, penalty = epsilon.sum(), 1e7
    learner = objective_perturbation(records.X, records.y, epsilon / total, total, penalty, clip=True)
    noise = spherical_laplace(30, total / 2, rng=rng)
    mean = (epsilon / total) @ (records.y[:, None] * records.X)
    np.testing.assert_allclose(2 * penalty * learner.minimise(noise), mean - 2 * noise, atol=1e-6)


def test_tied_costs_have_their_correlation_and_law() -> None:
    """20,000 sellers; false-alarm rate 1e-6."""
    rng = generator(1709)
    values = rng.exponential(size=20_000)
    for r in (-0.5, 0.0, 0.9):
        costs = data.tied_costs(values, r, rng)
        scores = [stats.norm.ppf((stats.rankdata(v) - 0.5) / len(v)) for v in (values, costs)]
        z = (np.arctanh(np.corrcoef(scores)[0, 1]) - np.arctanh(r)) * np.sqrt(len(values))
        assert objections([z_check("correlation", len(values), float(z), 3)]) == []
        assert stats.kstest(costs, data.LAW.cdf).statistic < 0.03
    assert (np.diff(data.tied_costs(np.arange(5.0), 1.0, rng)) > 0).all()
    assert len(set(data.tied_costs(np.ones(5), 1.0, rng))) == 5  # ties at random


def test_winners_need_three_standard_errors() -> None:
    P, spread = len(data.CANCER_BUDGETS), np.tile([-0.01, 0.01], 8)
    zero = np.zeros((P, 16))
    gaps = np.array([0.1, 0.1, 0.001, -0.001, -0.1, -0.1])[:, None] + spread
    learned = data.Learners(zero, gaps, zero, *[np.ones(P)] * 4)
    assert learned.better(1) == [30, 100] and learned.better(-1) == [3000, 10_000]
    M = len(data.MEDICAL_BUDGETS)
    losses = np.linspace(0.1, -0.1, M)[:, None] + np.tile([-0.001, 0.001], 8)
    found = data.Regression(np.zeros((M, 16)), losses, losses + 1, *[np.ones(M)] * 3)
    assert found.wins(losses) == data.MEDICAL_BUDGETS[M // 2 + 1] and found.wins(losses + 1) == np.inf


def test_constant_tends_to_the_variance_and_recoding_helps() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", datasets.StandInWarning)
        dataset = datasets.medical_cost()
    found = data.regression(dataset, splits=4)
    unit = (50_000 / data.LARGEST_CHARGE) ** 2
    best = (dataset.labels / 50_000).var() * unit  # no constant does better on average
    assert (found.constant.mean(1) > 0.8 * best).all() and found.constant[-1].mean() < 1.2 * best
    assert (np.diff(found.recoded.mean(1)) < 0).all()
    assert (found.recoded < found.box).all()
