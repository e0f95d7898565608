"""What the arguments of every public function are: by name, and for each function where its range
is another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import stats

from hdpm_lib import accounts, schema
from hdpm_lib.aggregation import least_error_weights
from hdpm_lib.auctions import allin, bids, menus
from hdpm_lib.audits import one_run
from hdpm_lib.learners import (
    estimators,
    noisy_descent,
    objective,
    queries,
    ridge,
    second_moments,
    weighted_mean,
)
from hdpm_lib.markets import contracts
from tests.strategies import (
    NONE,
    RATIONAL,
    RNG,
    SIZE,
    Array,
    Kind,
    Number,
    Scene,
    choice,
    count,
    not_negative,
    one_of,
    positive,
    real,
    short,
    signs,
    simplex,
    unit,
)

POSITIVE = Number()
NOT_NEGATIVE = Number(ends="[)")
ANY = Number(-np.inf, np.inf, at=(-1.0, 1.0))
SHARE = Number(0, 1, "()", at=(0.1, 0.9))

# --- objects -------------------------------------------------------------------------------------


def market(s: Scene) -> bids.Bids:
    n = s.length("n")
    families = s.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    rate = positive(at=(0.5, 1.5)).good(s)
    sizes = positive(at=(1.0, 50.0)).good(s)
    privacy_budget = positive(at=(0.5, 2.0)).good(s.tame())  # exponentials have a limit
    return bids.bids(families, rate, privacy_budget, sizes)


def perturbed(s: Scene) -> objective.ObjectivePerturbation:
    return objective.objective_perturbation(simplex().good(s), 2.0, 0.5, features=s.length("d"))


def descent(s: Scene) -> noisy_descent.NoisyDescent:
    return noisy_descent.noisy_descent(
        simplex().good(s), 1e-6, features=s.length("d"), learning_rate=0.5, steps=3
    )


def plain_model(s: Scene) -> ridge.OutputPerturbation:
    return ridge.output_perturbation(positive().good(s), 1.0, features=s.length("d"))


def moments(s: Scene) -> second_moments.SecondMoments:
    return second_moments.second_moments(positive().good(s), features=s.length("d"))


def charged(s: Scene) -> accounts.Account:
    with accounts.Account(s.length("n")) as account:
        accounts.charge(not_negative().good(s), np.random.default_rng(), mu=not_negative().good(s))
    return account


def regressor(s: Scene) -> estimators.PersonalizedRidge:
    return estimators.PersonalizedRidge(rng=0).fit(unit("nd").good(s), unit().good(s))


def classifier(s: Scene) -> estimators.PrivateLogisticRegression:
    return estimators.PrivateLogisticRegression(classes=(-1, 1), rng=0).fit(
        unit("nd").good(s), signs().good(s)
    )


def first_price(c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.ones_like(c), c


def cheapest(c: np.ndarray) -> np.ndarray:
    return (c == c.min(-1, keepdims=True)).astype(float)


BIDS = Kind(lambda s: s.once("market", lambda: market(s)))
AGE = schema.Number("age", 0, 100)
OBJECTS: dict[str, Callable[[Scene], Any]] = {
    "accounts.Account": charged,
    "schema.Schema": lambda s: schema.Schema([AGE, schema.Category("smoker", ("yes", "no"))]),
    "auctions.bids.Bids": BIDS.good,
    "audits.one_run.OneRunAudit": lambda s: one_run.audit_one_run(
        real().good(s), np.arange(s.length("n")) % 2 == 0, POSITIVE.good(s)
    ),
    "learners.estimators.PersonalizedRidge": regressor,
    "learners.estimators.PrivateLogisticRegression": classifier,
    "learners.noisy_descent.NoisyDescent": descent,
    "learners.objective.ObjectivePerturbation": perturbed,
    "learners.queries.BiasedLaplace": lambda s: queries.linear_query(
        unit().good(s), POSITIVE.good(s)
    ),
    "learners.weighted_mean.WeightedMean": lambda s: weighted_mean.WeightedMean(
        simplex().good(s), POSITIVE.good(s), np.zeros(s.length("d")), 10.0
    ),
    "learners.ridge.OutputPerturbation": plain_model,
    "learners.second_moments.NoisyMoments": lambda s: moments(s).release_moments(
        unit("nd").good(s), unit().good(s), rng=np.random.default_rng(0)
    ),
    "learners.second_moments.SecondMoments": moments,
}

# --- by name -------------------------------------------------------------------------------------


def by_word(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry for each word of the keys."""
    return {word: entry for words, entry in table.items() for word in words.split()}


LAWS = stats.uniform(0, 4), stats.beta(2, 2, 0, 4), stats.uniform(0, 10)
NO_LAWS = ("a string", "uniform"), ("unbounded", stats.norm()), ("negative", stats.uniform(-1, 2))
LOSSES = not_negative(at=(0.1, 2.0), batch=True)
SQUARE = Array("", 0, at=(0.1, 2.0), batch="scalar", infinite=True)
ANYTHING = Array("ncd", at=(-2.0, 2.0), batch=True, infinite=True, nan=True)
CLIP_NORM = Number(0, 1, "(]", at=(0.1, 1.0))  # of logistic losses
BY_NAME: dict[str, Any] = by_word(
    {
        """noise_rate norm_bound penalty eta mu sigma gamma scale rate clip_norm radius
        variance noise learning_rate total_weight worth distance""": POSITIVE,
        "level": Number(0, 1, "()", at=(1e-6, 0.1)),
        "power": Number(1, np.inf, "[)", at=(1.0, 4.0)),
        "cap": Number(0, 1, "(]", at=(0.99, 1.0)),
        "delta": Number(0, 1, "[)", at=(0.0, 0.3)),
        "sides norm": count(1, 2, at=(1, 2)),
        "max_mse": Number(at=(0.01, 2.0)),
        "ceiling": Number(at=(4.0, 10.0)),
        "tolerance": Number(at=(1e-9, 1e-6)),
        "feature_norm": Number(at=(2.0, 3.0)),
        "label_bound": Number(at=(1.0, 2.0)),
        "low": ANY,
        "high": Number(-np.inf, np.inf, at=(2.0, 3.0)),
        "dimension n coordinates runs rounds every": count(),
        "restarts": count(0, at=(0, 2)),
        "grid": count(2, at=(2, 9)),
        "rng": RNG,
        "size": SIZE,
        "bound": choice("paper", "sharp"),
        "arithmetic": choice("exact", "ideal"),
        "loss": choice("logistic", "squared"),
        "product": POSITIVE,
        "spacing": one_of((2.0**-10, 2.0**-4)),
        "record input_features": one_of((None,)),
        "X": unit("nd"),
        "y": Array("n", -1, 1, at=(-1.0, 1.0)),
        "shares terms data p_values": unit(),
        "epsilon virtual_costs ranges": positive(),
        "weights": not_negative(at=(0.1, 2.0)),
        "sensitivity": not_negative("nk"),
        "valuations": not_negative(at=(0.1, 3.9), batch=True),
        "costs": not_negative(at=(0.1, 3.9)),
        "delivered_sizes": not_negative(at=(0.5, 1.0), batch=True),
        "v": Array("n", 0, 10, "[]", (0.1, 3.9), batch="scalar"),
        "family": Array("n", 0, 3, "[]", (0, 3), "scalar", True),
        "reports types": not_negative(at=(0.0, 4.0)),
        "sizes": positive(at=(1.0, 50.0), batch=True),
        "amounts": positive(batch=True),
        "budget": positive("", (5.0, 50.0), batch=True),
        "error": SQUARE,
        "answers lower": real(),
        "released": real(at=(-9.0, 9.0), batch="scalar"),
        "coefficients start theta theta_neighbour z": real("d", batch=True),
        "centre": real("d"),
        "features records": real("nd"),
        "gradients": ANYTHING,
        "labels": Kind(
            lambda s: np.array([s.draw(st.integers(0, 1)) for _ in range(s.length("n"))])
        ),
        "law": one_of(LAWS, NONE, *NO_LAWS),
        "rule": one_of((contracts.equal_loss_contract,)),
        "bids truth lies": BIDS,
        "name": one_of(("age",)),
        "levels": one_of((("yes", "no"), ("a", "b", "c"))),
        "unit offset": one_of((Fraction(1, 2),)),
    }
)

# --- where a function's range is another ---------------------------------------------------------

FACTOR = Array("", 0, 1, at=(0.1, 0.9), batch="scalar")
GUESSED = {"epsilon": NOT_NEGATIVE, "guessed": unit(batch="scalar")}
SIGNED = {"X": short(), "y": signs()}
GUESSES = {
    "right": count(0, at=(0, 10)),
    "made": count(0, at=(10, 50)),
    "canaries": count(1, at=(50, 300)),
}
RANGES: dict[str, dict[str, Any]] = {  # of one function, or of several
    "accounts.Account.epsilon": {"delta": SHARE},
    "aggregation.size_weights aggregation.least_error_weights": {"epsilon": LOSSES},
    "aggregation.error_bound": {"epsilon": LOSSES, "weights": real(at=(0.1, 1.0), batch=True)},
    "audits.objective.worst_losses": SIGNED | {"mechanism": Kind(perturbed)},
    "audits.bounds.most_right audits.bounds.power_of_guesses": GUESSED | {"true": NOT_NEGATIVE},
    "audits.bounds.detectable": {
        "epsilon": NOT_NEGATIVE,
        "power": SHARE,
        "guessed": Number(0, 1, "[]", at=(0.1, 0.9)),
    },
    "audits.bounds.guess_p_value": {
        "epsilon": NOT_NEGATIVE,
        "right": count(0, at=(0, 10)),
        "made": count(0, at=(10, 50)),
        "runs": count(1, at=(100, 300)),
    },
    "audits.bounds.guess_epsilon": {
        "right": not_negative(at=(0, 10), batch="scalar"),
        "made": not_negative(at=(10, 50), batch="scalar"),
        "runs": Number(at=(100.0, 300.0)),
    },
    "audits.one_run.audit_one_run": {
        "scores": real(),
        "included": Kind(
            lambda s: np.arange(s.length("n")) % 2 == 0,
            [NONE, ("numbers", np.array([0.0, 1.0])), ("strings", np.array(["no", "yes"]))],
        ),
        "epsilon": not_negative(batch="scalar"),
        "guesses": one_of(
            (None, 1, 2, [2, 1]), ("none", []), ("half", 1.5), ("zero", [0]), ("too many", 99)
        ),
    },
    "audits.one_run.one_run_p_value": GUESSES | {"epsilon": NOT_NEGATIVE},
    "audits.one_run.one_run_epsilon": GUESSES,
    "audits.one_run.OneRunAudit.epsilon_lower": {"confidence": SHARE},
    "auctions.incentives.gains": {"auction": one_of((allin.all_in,))},
    "auctions.bids.Bids.valuation": {"epsilon": not_negative(batch=True)},
    "auctions.bids.bids": {"rate privacy_budget sizes": positive(batch="scalar")},
    "auctions.incentives.utility": {"outcome": Kind(lambda s: allin.all_in(BIDS.good(s), 20.0))},
    "auctions.menus.menus auctions.menus.serve": {
        "weights": Kind(lambda s: menus.trained_weights())
    },
    "auctions.menus.choose": {
        "prices": Kind(lambda s: np.multiply.outer(np.ones(s.length("n")), menus.KNOTS))
    },
    "discrete.discrete_laplace": {"scale": RATIONAL},
    "gaussian.gaussian_mu": {"sensitivity": LOSSES, "sd": positive(batch=True)},
    "gaussian.discrete_gaussian_mu": {
        "sensitivity": LOSSES,
        "sd": Array("n", 3, np.inf, "()", (3.1, 50.0), True),
    },
    "gaussian.gaussian_delta gaussian.gaussian_epsilon gaussian.largest_mu": {
        "epsilon": not_negative(at=(1.0, 9.0), batch=True),
        "delta": Array("n", 0, 1, "()", (1e-9, 0.9), True),
        "mu": LOSSES,
        "pure": not_negative(at=(0.0, 1.0), batch=True),
    },
    "learners.estimators.PersonalizedRidge.fit": {
        "epsilon": not_negative(at=(0.1, 3.0), batch="scalar")
    },
    "learners.estimators.PrivateLogisticRegression.fit": {
        "y": signs(),
        "epsilon": not_negative(at=(0.1, 3.0), batch="scalar"),
    },
    "learners.ridge.output_perturbation learners.second_moments.second_moments": {
        "epsilon": not_negative(at=(0.1, 3.0)),
        "features": count(),
    },
    """learners.estimators.PersonalizedRidge.predict
    learners.estimators.PrivateLogisticRegression.predict
    learners.estimators.PrivateLogisticRegression.decision_function
    learners.estimators.PrivateLogisticRegression.predict_proba""": {"X": real("nd")},
    "learners.gradients.accuracy": {"parameters": real("kCd", batch=True)},
    "learners.gradients.draw_bidders": {"owners": count(at=(3, 6)), "bidders": count(at=(1, 3))},
    "learners.gradients.local_gradients": {
        "features": Array("nd", at=(-2.0, 2.0), nan=True),
        "parameters": real("kCd"),
        "owners": Kind(lambda s: [np.arange(s.length("n")), np.array([0])]),
    },
    "learners.gradients.noise_scale markets.local_menu.information": {
        "epsilon": not_negative(batch="scalar")
    },
    "learners.fedsgd.fedsgd": {
        "owners": Kind(lambda s: [[np.arange(s.length("n")), np.array([0])]]),
        "privacy_budget": positive("12"),
        "bidders": Kind(lambda s: np.array([[[0]], [[1]]])),
        "aggregations": Kind(lambda s: {"opt": least_error_weights, "none": None}),
        "start": real("Cd", batch=True),
        "auction": one_of((None,)),
    },
    "learners.integer_answers.record_steps": {
        "parameters": real("Cd"),
        "features": Array("nd", at=(-2.0, 2.0), infinite=True, nan=True),
    },
    "learners.integer_answers.integer_gradients": {
        "gradients": Array("ncd", at=(-2.0, 2.0), infinite=True, nan=True)
    },
    "learners.noisy_descent.NoisyDescent.release": SIGNED,
    "learners.noisy_descent.NoisyDescent.loss_of_releases": {"releases": count()},
    "learners.noisy_descent.noisy_descent": {
        "mu": not_negative(at=(0.1, 3.0)),
        "delta": SHARE,
        "features": count(),
        "momentum": Number(0, 1, "[)", at=(0.1, 0.9)),
        "steps": count(),
        "clip_norm": CLIP_NORM,
    },
    "learners.objective.sharp_slack": {
        "epsilon weights": not_negative(batch="scalar"),
        "clip_norm": CLIP_NORM,
    },
    "learners.objective.weights_within": {
        "epsilon": not_negative(at=(0.1, 3.0)),
        "clip_norm": CLIP_NORM,
    },
    "learners.objective.eta_within": {
        "epsilon": positive(at=(2.0, 3.0)),
        "weights": not_negative(at=(0.1, 0.5)),
        "penalty": Number(at=(0.5, 2.0)),
        "clip_norm": CLIP_NORM,
    },
    "learners.objective.ObjectivePerturbation.release": SIGNED,
    "learners.objective.objective_perturbation": {"features": count(), "clip_norm": CLIP_NORM},
    "learners.objective.weighted_logistic": SIGNED | {"noise": real("d", batch=True)},
    "learners.queries.BiasedLaplace learners.queries.linear_query"
    " learners.queries.nonlinear_query": {
        "scale": NOT_NEGATIVE,
        "weights": real(at=(0.5, 2.0)),
    },
    "learners.ridge.project_on_ball": {"theta": real("nd", batch=True)},
    "learners.ridge.weighted_ridge": {
        "penalty": not_negative("", (0.1, 2.0), batch="scalar"),
        "X": real("nd"),
        "y": real(),
        "weights": not_negative(at=(0.1, 2.0), batch=True),
    },
    "learners.weighted_mean.WeightedMean learners.weighted_mean.weighted_mean": {
        "epsilon": not_negative(at=(0.1, 3.0)),
        "weights": simplex(),
        "shrink": Number(0, 1, "[]", at=(0.1, 0.9)),
    },
    "learners.weighted_mean.population_error": {"distance": NOT_NEGATIVE, "shrink": FACTOR},
    """learners.weighted_mean.best_worst_shrink learners.weighted_mean.sampling_error
    learners.weighted_mean.worst_error""": {
        "weights": not_negative(at=(0.1, 0.9), batch=True),
        "noise": SQUARE,
        "variance": NOT_NEGATIVE,
        "shrink": FACTOR,
    },
    "markets.error_minimising.error_minimising": {"virtual_costs": positive(batch=True)},
    "markets.fair_query.fair_query": {
        "costs": not_negative(at=(0.1, 3.9), batch=True),
        "budget": POSITIVE,
    },
    "markets.incentives.reports_to_try": {"special": Kind(lambda s: [[0.5]] * s.length("n"))},
    "markets.incentives.search_misreports": {
        "mechanism": one_of((first_price,)),
        "types": real(),
        "candidates": Kind(lambda s: [positive().good(s) for _ in range(s.length("n"))]),
    },
    "markets.local_menu.local_menu": {"virtual_costs": positive(batch="scalar")},
    "markets.mechanisms.myerson_contract": {"valuations": Array("n", 0, 10, "[]", (0.1, 3.9))},
    "markets.payments.vcg_payments": {
        "rule": one_of((cheapest,)),
        "least_cost": one_of((lambda c: c.min(-1),)),
    },
    "markets.payments.envelope_payments": {"rule": one_of((lambda c: 1 / (1 + c),))},
    "markets.payments.step_payments": {
        "edges": Kind(lambda s: np.array([0.0, 1.0, 5.0])),
        "rule": one_of((lambda c: (c < 1) * 1.0,)),
    },
    "noise.spherical_laplace": {"noise_rate": positive("", batch="scalar")},
    "noise.coordinate_variance": {"noise_rate": positive(batch="scalar")},
    "schema.Schema.transform": {"X": one_of(([[30, "yes"], [40, "no"]],))},
    "schema.Schema.inverse_transform": {
        "self": Kind(lambda s: schema.Schema([AGE])),
        "X": real("n1"),
    },
    "schema.Schema.fit": {"X y": one_of((None,))},
}
SPECIAL = {name: by_word(table) for name, table in by_word(RANGES).items()}
ALWAYS = set("sensitivity top owners rng spacing steps restarts".split())
ALIASES: dict[str, tuple[str, ...]] = {
    "X": ("features", "records"),
    "y": ("labels", "records"),
    "v": ("valuations",),
    "costs": ("virtual_costs",),
}
INFINITE = set(
    """auctions.incentives.gains auctions.bids.Bids.valuation auctions.incentives.utility
    aggregation.error_bound learners.gradients.noise_scale audits.bounds.guess_epsilon
    audits.bounds.detectable markets.incentives.search_misreports""".split()
)
# in learners and the meters of regression: text that reads as a number is one
PRIVATE = set("X y terms data records features gradients".split())
ERRORS: dict[str, str] = {
    "designs.comparison.law_of": "costs must differ",
    "learners.estimators.PrivateLogisticRegression.fit": "penalty = .* must exceed",
}
FEW = {"markets.mechanisms.myerson_contract"}

# --- what is not tried, and why: functions, classes or modules by reason -------------------------

LEFT_OUT = {
    "the checks themselves: every test out of range is one of theirs": (
        """private validation auctions.bids.check_budget auctions.menus.check_weights
        learners.gradients.check_filled learners.gradients.check_labels
        learners.gradients.check_tables markets.contracts.check_cost
        learners.objective.check_loss
        markets.contracts.check_power markets.contracts.check_valuations
        markets.costs.check_law markets.costs.check_regular markets.payments.check_reports
        markets.procurement.check_market"""
    ),
    "of scikit-learn, which takes what predict takes: check_estimator drives it": (
        "learners.estimators.PrivateLogisticRegression.score"
    ),
    "processes, files, blocks and entries: their own tests drive them": (
        """
        spread accounts.Account.load accounts.records learners.fedsgd.Training.parameters"""
    ),
    "any mechanism and any data, or a whole market: their own tests drive them": (
        """audits.outcomes audits.scores audits.sources audits.black_box
        audits.meters.privacy_losses audits.one_run.plant_canaries audits.pairs.replacements
        designs.rules
        designs.comparison.compare_markets designs.comparison.errors
        designs.comparison.tied_errors"""
    ),
    "part of a function that has checked, and that is tried": (
        """accounts.charge bisection.count_while auctions.bids.unit_valuation
        auctions.bids.Bids.in_order
        auctions.menus.nothing_sold auctions.menus.Place.at auctions.menus.places
        auctions.menus.record_sale
        auctions.posted_prices.best_sale audits.ridge.Rest audits.ridge.ball_search
        audits.ridge.best_corners
        audits.ridge.corner_search audits.ridge.hull_bound exact.balls exact.grid_points
        exact.weighted_products exact.Uniforms.enclosed exact.inner_products exact.on_grid
        exact.released exact.with_noise
        exact.normals exact.normal_uniforms
        exact.spherical exact.spherical_uniforms learners.minimiser learners.gradients.residuals
        learners.gradients.owner_gradients learners.gradients.shortened
        learners.integer_answers.cut learners.integer_answers.gradient_noise
        learners.integer_answers.longest_gradient learners.integer_answers.noise_scales
        learners.integer_answers.whole_steps learners.objective.minimisers
        learners.ridge.constant_of learners.ridge.estimate
        learners.second_moments.noise_penalty
        learners.objective.inside_of learners.objective.losses_of learners.settings
        learners.ridge.norm_bound_of learners.ridge.weights_of discrete.draw_laplace
        markets.contracts.largest_valuation markets.contracts.one_root
        markets.contracts.ratio_power markets.contracts.scaled_root
        markets.contracts.solved_contract markets.contracts.suffix_weights
        markets.costs.affine_slope
        markets.payments.with_own_report markets.procurement.cheapest markets.quadrature
        markets.procurement.local_minima markets.procurement.piece_sums
        markets.procurement.pieces_of markets.procurement.purchase
        markets.procurement.settle markets.procurement.smallest_root noise.grid_step
        schema.Category.encode schema.Number.encode"""
    ),
    "made by rules, and converts what they give: tests/markets/test_outcome.py": (
        "markets.outcome.Outcome"
    ),
    "runs inside JAX, where a number has no value yet to check; its callers check": (
        "auctions.menus.increments"
    ),
}


def scene(name: str, draw: Any, wide: bool = False) -> Scene:
    """Draw a scene for calls of a function; slow ones have one length."""
    return Scene(draw, wide, {"n": 2, "k": 2} if name in FEW else {})
