"""What the arguments of every public function are: by name, and for each function where its range is another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import stats

from hdpm_book.federated import regretnet as networks
from hdpm_book.federated import reports as auction_reports
from hdpm_book.federated import training
from hdpm_book.logistic import joint_objective as logistic_joint
from hdpm_book.logistic import study as mechanism_study
from hdpm_book.ridge import study as ridge_study
from hdpm_book.ridge import variants as ridge_variants
from hdpm_lib import schema
from hdpm_lib.aggregation import least_error_weights
from hdpm_lib.auctions import allin, bids, menus
from hdpm_lib.audits import ridge as audit_ridge
from hdpm_lib.learners import estimators, integer_answers, lattice, logistic, queries, ridge, weighted_mean
from hdpm_lib.markets import contracts
from tests.strategies import (
    Array,
    Choice,
    Count,
    Flag,
    Generator,
    Kind,
    Made,
    Number,
    Rational,
    Scene,
    Size,
    Whole,
    from_list,
    lists,
    not_negative,
    positive,
    real,
    short,
    signs,
    simplex,
    unit,
)

REAL_LOW = Number(-np.inf, np.inf, at=(-1.0, 1.0))
POSITIVE, NOT_NEGATIVE, REAL = Number(), Number(ends="[)"), Number(-np.inf, np.inf, at=(-2.0, 2.0))
SHARE = Number(0, 1, "()", at=(0.1, 0.9))
SEED, RNG, SIZE, FLAG = Count(0, at=(0, 3)), Generator(), Size(), Flag()
LEVEL = Number(0, 1, "()", at=(1e-6, 0.1))
CLAIM = {"epsilon": NOT_NEGATIVE, "delta": Number(0, 1, "[)", at=(0.0, 0.3)), "sides": Count(1, 2, at=(1, 2))}

# --- objects ----------------------------------------------------------------------------------------------------------


def market(s: Scene, letters: str = "n") -> bids.Bids:
    shape = [s.length(letter) for letter in letters]
    families = s.draw(st.lists(st.integers(0, 3), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    rate, sizes = (positive(letters, at).good(s) for at in ((0.5, 1.5), (1.0, 50.0)))
    privacy_budget = positive(letters, (0.5, 2.0)).good(Scene(s.draw, False, s.lengths))  # exponentials have a limit
    return bids.bids(np.reshape(families, shape), rate, privacy_budget, sizes)


def outcome(s: Scene) -> Any:
    return allin.all_in(s.once("market", lambda: market(s)), 20.0)


def law(s: Scene) -> Any:
    return s.draw(st.sampled_from([stats.uniform(0, 4), stats.beta(2, 2, 0, 4), stats.uniform(0, 10)]))


LAW = Made(
    law, (("None", None), ("a string", "uniform"), ("unbounded", stats.norm()), ("negative", stats.uniform(-1, 2)))
)


def linear(s: Scene) -> queries.BiasedLaplace:
    return queries.linear_query(unit().good(s), POSITIVE.good(s))


def weighted(s: Scene) -> weighted_mean.WeightedMean:
    return weighted_mean.WeightedMean(simplex().good(s), POSITIVE.good(s), np.zeros(s.length("d")), 10.0)


def whole_sum(s: Scene) -> integer_answers.IntegerSum:
    return integer_answers.integer_sum(unit(at=(0.5, 1.0)).good(s), 1.0, levels=8)


def perturbed(s: Scene) -> logistic.ObjectivePerturbation:
    return logistic.objective_perturbation(short().good(s), signs().good(s), simplex().good(s), 2.0, 0.5)


def objective_of(s: Scene) -> logistic_joint.JointObjective:
    numbers = {name: POSITIVE.good(s) for name in ("penalty", "mu", "sigma", "gamma")}
    data = short().good(s), signs().good(s), Array("d", at=(-0.01, 0.01)).good(s), positive().good(s)
    return logistic_joint.joint_objective(*data, **numbers, squared=FLAG.good(s), radius=1.0)


def split(s: Scene) -> ridge_study.Split:
    return ridge_study.linear_population(6, 4, 2, rng=RNG.good(s))


def row(s: Scene) -> ridge_study.Row:
    return next(ridge_study.published(1).rows())


def draw_of(s: Scene) -> ridge_study.Draw:
    return ridge_study.Draw.of(split(s), np.array([0.2, 0.5, 1.0, 0.4, 0.3, 0.9]))


def moments(s: Scene) -> ridge_variants.WeightedMoments:
    x, y = unit().good(s), unit("n").good(s)
    return ridge_variants.calibrate_objective_perturbation(x[:, None], y, np.full(len(x), 50.0), 1.0)


def allocation(s: Scene) -> Any:
    return contracts.least_cost_contract(positive().good(s), 0.1, power=2)


def network(s: Scene) -> networks.Network:
    return s.once("network", lambda: networks.Network("M-RegretNet", s.length("n"), 2, (4,)))


def weights_of(s: Scene) -> Any:
    import jax

    return networks.init(network(s), jax.random.key(0))


def rule(s: Scene) -> auction_reports.Rule:
    return auction_reports.learned(network(s), weights_of(s))


def menu_weights(s: Scene) -> Any:
    return menus.trained_weights()


def net_settings(s: Scene) -> training.Settings:
    net = networks.Network("M-RegretNet", 2, 2, (4,))
    return training.Settings(net, epochs=1, batches=2, profiles=2, search=2)


def lattice_model(s: Scene) -> lattice.LatticeRidge:
    return lattice.lattice_ridge(unit("nd").good(s), unit().good(s), positive().good(s), 1.0)


def plain_model(s: Scene) -> ridge.OutputPerturbation:
    return ridge.output_perturbation(unit("nd").good(s), unit().good(s), positive().good(s), 1.0)


def first_price(c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.ones_like(c), c


def cheapest(c: np.ndarray) -> np.ndarray:
    return (c == c.min(-1, keepdims=True)).astype(float)


def rest(s: Scene) -> audit_ridge.Rest:
    return audit_ridge.Rest.of(unit("nd").good(s), BY_NAME["y"].good(s), simplex().good(s), 1.0)


def parts(s: Scene) -> mechanism_study.Parts:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, s.length("d")))
    return s.once("parts", lambda: mechanism_study.public_scale_split(x, np.where(x[:, 0] > 0, 1.0, -1.0), rng=rng))


def candidates(s: Scene) -> mechanism_study.Candidates:
    return s.once("candidates", lambda: mechanism_study.posted_candidates(np.linspace(0.1, 1, 12), [2.0], [3.0, 4.0]))


def ridge_model(s: Scene) -> estimators.PersonalizedRidge:
    return estimators.PersonalizedRidge(random_state=0).fit(unit("nd").good(s), unit().good(s))


def logistic_model(s: Scene) -> estimators.PrivateLogisticRegression:
    return estimators.PrivateLogisticRegression(classes=(-1, 1), random_state=0).fit(short().good(s), signs().good(s))


BUDGET = positive("", (5.0, 50.0), batch=True)
TRUTH = Made(lambda s: s.once("market", lambda: market(s)))
CLASSES = Made(lambda s: np.array([s.draw(st.integers(0, 1)) for _ in range(s.length("n"))]))

# --- by name ----------------------------------------------------------------------------------------------------------


def by_word(table: Mapping[str, Any]) -> dict[str, Any]:
    """An entry for each word of the keys."""
    return {word: entry for words, entry in table.items() for word in words.split()}


BY_NAME: dict[str, Kind] = by_word(
    {
        "noise_rate norm_bound penalty eta mu sigma gamma scale rate clip_norm threshold": POSITIVE,
        "claim": NOT_NEGATIVE,
        "train": SHARE,
        "level": LEVEL,
        "power": Number(1, np.inf, "[)", at=(1.0, 4.0)),
        "cap": Number(0, 1, "(]", at=(0.99, 1.0)),
        "fraction": Number(0, 1, "(]", at=(0.3, 1.0)),
        "delta delta_noise": Number(0, 1, "()", at=(0.01, 0.3)),
        "max_mse": Number(at=(0.01, 2.0)),
        "ceiling": Number(at=(4.0, 10.0)),
        "feature_norm": Number(at=(2.0, 3.0)),
        "label_bound": Number(at=(1.0, 2.0)),
        "step": Number(at=(0.01, 0.1)),
        "tol": Number(at=(1e-9, 1e-3)),
        "tolerance": Number(at=(1e-6, 1e-3)),
        "dimension n coordinates owners": Count(),
        "m": Count(at=(2, 5)),
        "draws": Count(at=(1, 50)),
        "iterations": Count(at=(1, 20)),
        "runs": Count(100, at=(100, 300)),
        "resolution": Count(2, at=(2, 64)),
        "number": Count(1, 14, at=(1, 14)),
        "digits": Count(0, at=(3, 9)),
        "masks": Count(0, at=(0, 3)),
        "seed": SEED,
        "rng": RNG,
        "size": SIZE,
        "bound": Choice(("paper", "sharp")),
        "arithmetic": Choice(("lattice", "ideal")),
        "partition": Choice(("IID", "Non-IID")),
        "spacing": from_list(2.0**-10, 2.0**-4),
        "medical": from_list(None),
        "X": unit("nd"),
        "y": Array("n", -1, 1, at=(-1.0, 1.0)),
        "shares terms data": unit(),
        "epsilon virtual_costs": positive(),
        "weights": not_negative(at=(0.1, 2.0)),
        "valuations": not_negative(at=(0.1, 2.0), batch=True),
        "costs": not_negative(at=(0.1, 3.9)),
        "reports": not_negative(at=(0.0, 4.0)),
        "sizes": positive(at=(1.0, 50.0), batch=True),
        "amounts": positive(batch=True),
        "budget": BUDGET,
        "coefficients noise theta": real("d", batch=True),
        "features": real("nd"),
        "gradients": real("ncd"),
        "labels": CLASSES,
        "law": LAW,
        "bids truth market lies": TRUTH,
        "network": Made(network),
        "rule": Made(rule),
        "settings": Made(net_settings),
        "groups": Made(lambda s: ridge_study.PrivacyGroups()),
        "draw": Made(draw_of),
        "row": Made(row),
        "spec": Made(lambda s: ridge_study.published(1)),
        "split": Made(split),
        "moments": Made(moments),
        "objective": Made(objective_of),
        "allocation": Made(allocation),
    }
)

# --- where a function's range is another ------------------------------------------------------------------------------


def of(**kinds: Kind) -> dict[str, Kind]:
    return kinds


OBJECTS: dict[str, Callable[[Scene], Any]] = {
    "audits.ridge.Rest": rest,
    "schema.Category": lambda s: schema.Category("smoker", ("yes", "no")),
    "schema.Number": lambda s: schema.Number("age", 0, 100),
    "schema.Schema": lambda s: schema.Schema([schema.Number("age", 0, 100), schema.Category("smoker", ("yes", "no"))]),
    "auctions.bids.Bids": lambda s: s.once("market", lambda: market(s)),
    "learners.estimators.PersonalizedRidge": ridge_model,
    "learners.estimators.PrivateLogisticRegression": logistic_model,
    "learners.integer_answers.IntegerSum": whole_sum,
    "learners.lattice.LatticeRidge": lattice_model,
    "learners.logistic.ObjectivePerturbation": perturbed,
    "learners.queries.BiasedLaplace": linear,
    "learners.weighted_mean.WeightedMean": weighted,
    "learners.ridge.OutputPerturbation": plain_model,
}
VALUES = {"valuations": not_negative(at=(0.1, 3.9), batch=True), "ceiling": Number(at=(4.0, 10.0))}
SQUARE = Array("", 0, at=(0.1, 2.0), batch="scalar", infinite=True)
FACTOR = Array("", 0, 1, at=(0.1, 0.9), batch="scalar")
SHARED = not_negative(at=(0.1, 0.9), batch=True)
UNDER_LAW = {"v": Array("n", 0, 10, "[]", (0.1, 3.9), batch="scalar")}
SIGNED = {"X": short(), "y": signs()}
BATCH = {"epsilon": not_negative(at=(0.1, 2.0), batch=True), "weights": real(at=(0.1, 1.0), batch=True)}
SCALE = Number(ends="[)")
VECTORS = {"theta": real("nd", batch=True)}
ANY = {"gradients": Array("ncd", at=(-2.0, 2.0), batch=True, infinite=True, nan=True)}
RANGES: dict[str, dict[str, Kind]] = {  # of one function, or of several
    "aggregation.size_weights aggregation.least_error_weights": of(epsilon=BATCH["epsilon"]),
    "audits.logistic.worst_losses": of(mechanism=Made(perturbed)),
    "markets.costs.virtual_valuation markets.costs.ironed_virtual_valuation": UNDER_LAW,
    """learners.estimators.PersonalizedRidge.predict learners.estimators.PrivateLogisticRegression.predict
    learners.estimators.PrivateLogisticRegression.decision_function""": of(X=real("nd")),
    """markets.mechanisms.equal_loss_pricing markets.mechanisms.vcg_contract
    markets.mechanisms.pivot_costs""": VALUES,
    "markets.mechanisms.paid_at_ceiling": VALUES | of(rule=from_list(contracts.equal_loss_contract)),
    "auctions.menus.menus auctions.menus.serve": of(weights=Made(menu_weights)),
    "aggregation.error_bound": BATCH,
    "auctions.allin.gains": of(auction=from_list(allin.all_in)),
    "markets.fair_query.fair_query": of(costs=not_negative(at=(0.1, 3.9), batch=True), budget=POSITIVE),
    "markets.error_minimising.error_minimising": of(
        virtual_costs=positive(batch=True), noise=POSITIVE, variance=POSITIVE
    ),
    "markets.local_menu.local_menu": of(
        virtual_costs=positive(batch="scalar"), noise=POSITIVE, variance=POSITIVE, worth=POSITIVE
    ),
    "markets.local_menu.information": of(epsilon=not_negative(batch="scalar"), noise=POSITIVE, variance=POSITIVE),
    "designs.comparison.law_of": of(costs=Array("n", 0, np.inf, "[)", (0.1, 3.9))),
    "learners.weighted_mean.WeightedMean.release": of(records=real("nd")),
    "learners.weighted_mean.best_shrink": of(error=SQUARE, distance=POSITIVE),
    "learners.weighted_mean.best_worst_shrink": of(weights=SHARED, noise=SQUARE, radius=POSITIVE),
    "learners.weighted_mean.population_error": of(error=SQUARE, distance=NOT_NEGATIVE, shrink=FACTOR),
    "learners.weighted_mean.sampling_error": of(weights=SHARED, noise=SQUARE, variance=NOT_NEGATIVE),
    "learners.weighted_mean.worst_error": of(weights=SHARED, noise=SQUARE, radius=POSITIVE, shrink=FACTOR),
    "learners.weighted_mean.WeightedMean": of(
        weights=simplex(), centre=real("d"), radius=POSITIVE, shrink=Number(0, 1, "[]", at=(0.1, 0.9))
    ),
    "audits.ridge.ridge_pair_loss": of(theta_neighbour=real("d", batch=True)),
    "audits.bounds.holm": of(p_values=unit()),
    "audits.ridge.worst_losses": of(mechanism=Made(plain_model), X=unit("nd"), restarts=Count(0, at=(0, 2))),
    "audits.bounds.most_right": of(**CLAIM, guessed=unit(batch="scalar")),
    "audits.bounds.guess_p_value": of(
        **CLAIM, right=Count(0, at=(0, 10)), made=Count(0, at=(10, 50)), runs=Count(1, at=(100, 300))
    ),
    "audits.bounds.guess_epsilon": of(
        delta=CLAIM["delta"],
        sides=CLAIM["sides"],
        right=not_negative(at=(0, 10), batch="scalar"),
        made=not_negative(at=(10, 50), batch="scalar"),
        runs=Number(at=(100.0, 300.0)),
    ),
    "audits.bounds.power_of_guesses": of(**CLAIM, true=NOT_NEGATIVE, guessed=unit(batch="scalar"), runs=Count()),
    "audits.bounds.detectable": of(**CLAIM, power=SHARE, guessed=Number(0, 1, "[]", at=(0.1, 0.9)), runs=Count()),
    "audits.pairs.patterns": of(answers=real("n")),
    "audits.ridge.corner_search": of(rest=Made(rest), restarts=Count(0, at=(0, 2))),
    "audits.ridge.Rest.of": of(X=real("nd"), y=real(at=(-1.0, 1.0))),
    "audits.ridge.Rest.solve": of(v=real("nd")),
    "audits.ridge.Rest.displacement": of(v=unit("nd"), label=BY_NAME["y"]),
    "audits.ridge.best_corners": of(
        rest=Made(rest),
        ends=Made(lambda s: np.ones((2, s.length("n"), s.length("d")))),
        signs=Made(lambda s: np.ones((2, s.length("n")))),
    ),
    "auctions.bids.Bids.valuation": of(epsilon=not_negative(batch=True)),
    "auctions.bids.bids": of(
        family=Array("n", 0, 3, "[]", (0, 3), "scalar", True),
        rate=positive(batch="scalar"),
        privacy_budget=positive(batch="scalar"),
        sizes=positive(batch="scalar"),
    ),
    "auctions.bids.unit_valuation": of(
        family=Made(lambda s: np.zeros(s.length("n"), int)), rate=positive(), epsilon=not_negative(), xp=from_list(np)
    ),
    "auctions.bids.utility": of(outcome=Made(outcome), delivered_sizes=not_negative(at=(0.5, 1.0), batch=True)),
    "markets.contracts.one_root": of(
        top=from_list(1.0),
        m=positive(at=(2.0, 3.0)),
        s=positive(),
        B=positive(),
        max_mse=Number(at=(0.01, 0.1)),
        power=Number(1, at=(1.5, 4.0)),
    ),
    "markets.contracts.scaled_root": of(
        m=positive(at=(2.0, 3.0)),
        before=positive(),
        point=positive(),
        B=positive(),
        max_mse=Number(at=(0.01, 0.1)),
        power=Number(1, at=(1.5, 4.0)),
    ),
    "markets.contracts.largest_valuation": of(total_range=POSITIVE),
    "markets.contracts.ratio_power": of(ratio=unit()),
    "markets.contracts.suffix_weights": of(u=Made(lambda s: np.sort(positive().good(s))), q=positive()),
    "markets.contracts.least_cost_contract": of(ranges=positive()),
    "discrete.acceptance": of(dimension=Count(at=(1, 50))),
    "discrete.discrete_laplace": of(scale=Rational()),
    "discrete.lattice_laplace": of(rate=Rational(), dimension=Count(1, 50, at=(1, 4))),
    "discrete.proposal_scale": of(rate=Rational(), d=Count(1, 50)),
    "discrete.root_above": of(square=Rational(), denominator=Count()),
    "learners.estimators.PersonalizedRidge.fit": of(epsilon=positive(batch="scalar"), record=from_list(None)),
    "learners.estimators.PrivateLogisticRegression.fit": SIGNED
    | of(epsilon=positive(batch="scalar"), record=from_list(None)),
    "learners.gradients.accuracy": of(parameters=real("kCd", batch=True), labels=CLASSES),
    "learners.gradients.clipped": ANY,
    "learners.gradients.draw_bidders": of(
        owners=Count(at=(3, 6)), bidders=Count(at=(1, 3)), rounds=Count(), runs=Count()
    ),
    "learners.gradients.local_gradients": of(
        features=Array("nd", at=(-2.0, 2.0), nan=True),
        parameters=real("kCd"),
        labels=CLASSES,
        owners=Made(lambda s: [np.arange(s.length("n")), np.array([0])]),
    ),
    "learners.gradients.noise_scale": of(epsilon=not_negative(batch="scalar")),
    "learners.fedsgd.fedsgd": of(
        labels=CLASSES,
        owners=Made(lambda s: [[np.arange(s.length("n")), np.array([0])]]),
        privacy_budget=positive("12"),
        bidders=Made(lambda s: np.array([[[0]], [[1]]])),
        aggregations=Made(lambda s: {"opt": least_error_weights, "none": None}),
        start=real("Cd", batch=True),
        auction=from_list(None),
        learning_rate=POSITIVE,
        every=Count(),
    ),
    "markets.incentives.reports_to_try": of(
        types=not_negative(at=(0.0, 4.0)), grid=Count(2, at=(2, 9)), special=lists(lambda s: [0.5])
    ),
    "markets.incentives.search_misreports": of(
        mechanism=from_list(first_price),
        types=real(),
        candidates=lists(lambda s: positive().good(s)),
    ),
    "learners.integer_answers.IntegerSum": of(
        weights=Whole("n", at=(-3, 3), whole=True),
        levels=Count(at=(1, 9)),
        scale=Rational(),
        unit=from_list(Fraction(1, 2)),
        offset=from_list(Fraction(1, 2)),
    ),
    "learners.integer_answers.IntegerSum.answer": of(released=real(at=(-9.0, 9.0), batch="scalar")),
    "learners.integer_answers.integer_sum": of(
        shares=unit(at=(0.1, 1.0)), weights=real(at=(0.5, 2.0)), levels=Count(at=(1, 1024))
    ),
    "learners.integer_answers.grid_gradients": ANY | of(clip_norm=Number(at=(0.1, 3.0))),
    "learners.integer_answers.gradient_noise": of(epsilon=not_negative(at=(0.1, 2.0)), shape=from_list((2, 2))),
    "learners.integer_answers.integer_gradients": of(gradients=Array("ncd", at=(-2.0, 2.0), infinite=True, nan=True)),
    "learners.integer_answers.cut": of(noisy=Made(lambda s: np.array([1, -(2**60)]))),
    "learners.integer_answers.power_of_two": of(value=from_list(0.5, 2.0), name=from_list("value")),
    "learners.lattice.lattice_ridge": of(spacing=from_list(2.0**-20, 2.0**-10)),
    "learners.logistic.sharp_slack": of(epsilon=not_negative(batch="scalar"), weights=not_negative(batch="scalar")),
    "learners.logistic.eta_within": of(
        epsilon=positive(at=(2.0, 3.0)), weights=not_negative(at=(0.1, 0.5)), penalty=Number(at=(0.5, 2.0))
    ),
    "learners.logistic.ObjectivePerturbation.minimise": of(start=real("d", batch=True)),
    "learners.logistic.objective_perturbation": SIGNED | of(arithmetic=Choice(("rounded", "ideal"))),
    "learners.ridge.output_perturbation": of(arithmetic=Choice(("rounded", "ideal"))),
    "markets.mechanisms.myerson_contract": of(valuations=Array("n", 0, 10, "[]", (0.1, 3.9))),
    "auctions.menus.choose": of(prices=Made(lambda s: np.multiply.outer(np.ones(s.length("n")), menus.KNOTS))),
    "auctions.menus.nothing_sold": of(money=positive(), xp=from_list(np)),
    "auctions.menus.public": of(weights=Made(menu_weights), shares=simplex(), xp=from_list(np)),
    "auctions.menus.record_sale": of(
        sold=Made(lambda s: menus.nothing_sold(np.ones(1), np)), share=SHARE, epsilon=POSITIVE
    ),
    "noise.spherical_laplace": of(rate=positive("", batch="scalar")),
    "noise.coordinate_variance": of(rate=positive(batch="scalar")),
    "noise.log_density": of(z=real("d", batch=True)),
    "markets.payments.vcg_payments": of(rule=from_list(cheapest), least_cost=from_list(lambda c: c.min(-1))),
    "markets.payments.envelope_payments": of(rule=from_list(lambda c: 1 / (1 + c)), tolerance=Number(at=(1e-9, 1e-6))),
    "markets.payments.step_payments": of(
        edges=Made(lambda s: np.array([0.0, 1.0, 5.0])), rule=from_list(lambda c: (c < 1) * 1.0)
    ),
    "markets.payments.with_own_report": of(own=not_negative()),
    "auctions.posted_prices.best_sale": of(
        family=Made(lambda s: np.zeros(s.length("n"), int)),
        rate=positive(),
        privacy_budget=positive(),
        price=positive(),
        cap=positive(),
    ),
    "learners.queries.BiasedLaplace": of(scale=SCALE, sensitivity=not_negative("nk"), ranges=positive(), lower=real()),
    "learners.queries.linear_query": of(scale=SCALE, weights=real(at=(0.5, 2.0))),
    "learners.queries.nonlinear_query": of(scale=SCALE, sensitivity=not_negative("nk")),
    "learners.ridge.estimate_norm_bound": of(total_weight=POSITIVE),
    "learners.ridge.project_on_ball": VECTORS | of(radius=POSITIVE),
    "learners.ridge.weighted_ridge": of(
        penalty=not_negative("", (0.1, 2.0), batch="scalar"),
        X=real("nd"),
        y=real(),
        weights=not_negative(at=(0.1, 2.0), batch=True),
    ),
    "accounts.charge": of(losses=positive()),
    "noise.lattice_step": of(scale=POSITIVE, reach=POSITIVE),
    "noise.rounded": of(values=real(batch="scalar"), scale=POSITIVE, reach=POSITIVE),
    "schema.Category": of(name=from_list("smoker"), levels=from_list(("yes", "no"), ("a", "b", "c"))),
    "schema.Category.encode": of(values=from_list(["yes", "no", "maybe"])),
    "schema.Number": of(name=from_list("age"), low=REAL_LOW, high=Number(-np.inf, np.inf, at=(2.0, 3.0))),
    "schema.Number.encode": of(values=real()),
    "schema.Schema.transform": of(X=from_list([[30, "yes"], [40, "no"]])),
    "schema.Schema.inverse_transform": of(
        self=Made(lambda s: schema.Schema([schema.Number("age", 0, 100)], intercept=False)), X=real("n1")
    ),
    "schema.Schema.fit": of(X=from_list(None), y=from_list(None)),
    "schema.Schema.get_feature_names_out": of(input_features=from_list(None)),
}
SPECIAL = by_word(RANGES)
ALWAYS = set(
    """sensitivity top log owners rng spacing steps search network batch epochs draws printed_steps of least iterations
    restarts""".split()
)
ALIASES: dict[str, tuple[str, ...]] = {"X": ("features", "records"), "y": ("labels", "records"), "v": ("valuations",)}
INFINITE = set(
    """auctions.allin.gains auctions.bids.Bids.valuation auctions.bids.utility
    aggregation.error_bound learners.gradients.noise_scale audits.bounds.guess_epsilon
    audits.bounds.detectable""".split()
)
NAN = set("""markets.contracts.one_root markets.contracts.scaled_root""".split())
PRIVATE = set("X y terms data records features gradients".split())  # in learners: text that reads as a number is one
ERRORS: dict[str, str] = {
    "designs.comparison.law_of": "costs must differ",
    "learners.estimators.PrivateLogisticRegression.fit": "penalty = .* must exceed",
}
FEW = set("""markets.mechanisms.myerson_contract""".split())

# --- what is not tried, and why: functions, classes or modules by reason ----------------------------------------------

ENGINE = "part of a function that has checked"
TRACED = "runs inside JAX, where a number has no value yet to check; its callers check"


def by_reason(places: Mapping[str, str]) -> dict[str, str]:
    """The reason of each place."""
    return {place: reason for reason, named in places.items() for place in named.split()}


INNER = by_reason(  # not out of range
    {
        ENGINE: """
            accounts.charge audits.ridge.Rest.displacement audits.ridge.Rest.solve
            audits.ridge.best_corners audits.ridge.corner_search audits.ridge.Rest.of auctions.bids.unit_valuation
            auctions.menus.nothing_sold auctions.menus.public auctions.menus.record_sale
            auctions.posted_prices.best_sale discrete.proposal_scale discrete.root_above learners.integer_answers.cut
            learners.integer_answers.power_of_two markets.contracts.largest_valuation markets.contracts.one_root
            markets.contracts.ratio_power markets.contracts.scaled_root markets.contracts.suffix_weights
            markets.payments.with_own_report noise.lattice_step noise.rounded
            schema.Category.encode schema.Number.encode""",
    }
)
LEFT_OUT = by_reason(  # not driven at all
    {
        "the checks themselves: every test out of range is one of theirs": "validation",
        "a check itself: tests out of range run through it": """
            auctions.bids.check_budget auctions.menus.check_weights learners.gradients.check_labels
            markets.contracts.check_cost markets.contracts.check_power markets.contracts.check_valuations
            markets.costs.check_law markets.costs.check_regular markets.payments.check_reports
            markets.procurement.check_market""",
        "starts processes; its own tests drive it": "spread",
        "files": "accounts.Account.load",
        "imports and displays": "validation.extra",
        "a block for releases: tests of accounts drive it": "accounts.records",
        "reads an entry": "learners.fedsgd.Training.parameters",
        "parts of the audit of any mechanism, which checks what it is given": """
            audits.outcomes audits.scores audits.sources""",
        "a whole market: their own tests drive them": """
            designs.rules designs.comparison.compare_markets designs.comparison.errors
            designs.comparison.tied_errors""",
        "any mechanism and any data: its own tests drive it": """
            audits.black_box audits.meters.privacy_losses audits.pairs.replacements""",
        ENGINE: """
            audits.ridge.hull_bound markets.contracts.solved_contract
            aggregation.count_while markets.procurement.local_minima markets.procurement.purchase
            markets.procurement.cheapest markets.procurement.settle markets.procurement.smallest_root""",
        TRACED: "auctions.menus.increments",
    }
)


def scene(name: str, draw: Any, wide: bool = False) -> Scene:
    """A scene for calls of a function; slow ones have one length."""
    return Scene(draw, wide, {"n": 2, "k": 2} if name in FEW else {})


def infinite(name: str) -> bool:
    return name in INFINITE
