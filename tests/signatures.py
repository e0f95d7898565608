"""What the arguments of every public function are: by name, and for each function where its range is another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import stats

from hdpm_book.logistic import study as mechanism_study
from hdpm_book.ridge import study as ridge_study
from hdpm_lib import noise, schema
from hdpm_lib.aggregation import opt_aggr
from hdpm_lib.auctions import allin, bids, menus, menus_training, networks, training
from hdpm_lib.auctions import reports as auction_reports
from hdpm_lib.audits import guesses, listed
from hdpm_lib.audits import ridge as audit_ridge
from hdpm_lib.audits.guesses import BitTest
from hdpm_lib.audits.laws import laplace_law
from hdpm_lib.learners import (
    estimators,
    integer_answers,
    jorgensen,
    lattice,
    logistic,
    queries,
    ridge,
    ridge_variants,
    weighted_mean,
)
from hdpm_lib.learners import joint as logistic_joint
from hdpm_lib.markets import contracts, procurement
from hdpm_lib.markets.online import OnlineRule
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
    Simplex,
    Size,
    Symmetric,
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
    return allin.single_minded(s.once("market", lambda: market(s)), 20.0)


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


def statistics(s: Scene) -> ridge_variants.WeightedMoments:
    return ridge_variants.calibrate_sufficient_statistics(unit("nd").good(s), unit().good(s), positive().good(s), 1.0)


def allocation(s: Scene) -> Any:
    return contracts.principle2(positive().good(s), 0.1, power=2)


def network(s: Scene) -> networks.Network:
    return s.once("network", lambda: networks.Network("M-RegretNet", s.length("n"), 2, (4,)))


def weights_of(s: Scene) -> Any:
    import jax

    return networks.init(network(s), jax.random.key(0))


def rule(s: Scene) -> auction_reports.Rule:
    return auction_reports.learned(network(s), weights_of(s))


def played(s: Scene) -> auction_reports.Played:
    truth = s.once("market", lambda: market(s))
    return auction_reports.play(rule(s), truth, 20.0)


def reports_of(s: Scene) -> auction_reports.Reports:
    return auction_reports.misreport(s.once("market", lambda: market(s)), 2, scale=0.5)


def menu_weights(s: Scene) -> Any:
    return menus.random_weights(np.random.default_rng(0))


def menu_settings(s: Scene) -> menus_training.Settings:
    return menus_training.Settings(owners=2, steps=2, batch=4, pool=8, log=2)


def net_settings(s: Scene) -> training.Settings:
    net = networks.Network("M-RegretNet", 2, 2, (4,))
    return training.Settings(net, epochs=1, batches=2, profiles=2, search=2)


def sampled(s: Scene) -> jorgensen.SampledRidge:
    masks = np.ones((2, s.length("n")))
    return jorgensen.sampled_ridge(unit("nd").good(s), unit().good(s), positive().good(s), 1.0, 1.0, masks)


def lattice_model(s: Scene) -> lattice.LatticeRidge:
    return lattice.lattice_ridge(unit("nd").good(s), unit().good(s), positive().good(s), 1.0)


def coins(s: Scene) -> listed.ExactLaw:
    return listed.exact_law(lambda rng: int((rng.integers(2, size=3) > 0).sum()))


def plain_model(s: Scene) -> ridge.OutputPerturbation:
    return ridge.pdp_op(unit("nd").good(s), unit().good(s), positive().good(s), 1.0)


def quadratic(s: Scene) -> noise.QuadraticLoss:
    return noise.QuadraticLoss.of(unit("nd").good(s), unit().good(s))


def normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal(n)


def first_price(c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.ones_like(c), c


def cheapest(c: np.ndarray) -> np.ndarray:
    return (c == c.min(-1, keepdims=True)).astype(float)


def rest(s: Scene) -> audit_ridge.Rest:
    return audit_ridge.Rest.of(unit("nd").good(s), BY_NAME["y"].good(s), simplex().good(s), 1.0)


def same_joint(s: Scene) -> logistic_joint.JointObjective:
    return s.once("objective", lambda: objective_of(s))


def deterministic(s: Scene) -> networks.Network:
    return s.once("network", lambda: networks.Network("DM-RegretNet", s.length("n"), 2, (4,)))


def parts(s: Scene) -> mechanism_study.Parts:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, s.length("d")))
    return s.once("parts", lambda: mechanism_study.public_scale_split(x, np.where(x[:, 0] > 0, 1.0, -1.0), rng=rng))


def candidates(s: Scene) -> mechanism_study.Candidates:
    return s.once("candidates", lambda: mechanism_study.posted_candidates(np.linspace(0.1, 1, 12), [2.0], [3.0, 4.0]))


def ridge_model(s: Scene) -> estimators.PersonalizedRidge:
    return estimators.PersonalizedRidge(random_state=0).fit(unit("nd").good(s), unit().good(s))


def logistic_model(s: Scene) -> estimators.PrivateLogisticRegression:
    return estimators.PrivateLogisticRegression(random_state=0).fit(short().good(s), signs().good(s))


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
    "audits.guesses.BitTest": lambda s: BitTest(200, np.array([50]), np.array([40]), 1.0),
    "auctions.bids.Bids": lambda s: s.once("market", lambda: market(s)),
    "learners.estimators.PersonalizedRidge": ridge_model,
    "learners.estimators.PrivateLogisticRegression": logistic_model,
    "learners.integer_answers.IntegerSum": whole_sum,
    "learners.jorgensen.SampledRidge": sampled,
    "learners.lattice.LatticeRidge": lattice_model,
    "learners.logistic.ObjectivePerturbation": perturbed,
    "learners.joint.JointObjective": objective_of,
    "noise.QuadraticLoss": quadratic,
    "book.ridge.study.PrivacyGroups": lambda s: ridge_study.PrivacyGroups(),
    "markets.online.OnlineRule": lambda s: OnlineRule(1.0, 2.0),
    "learners.queries.BiasedLaplace": linear,
    "learners.weighted_mean.WeightedMean": weighted,
    "auctions.reports.Played": played,
    "learners.ridge.OutputPerturbation": plain_model,
    "book.ridge.study.Table": lambda s: ridge_study.published(1),
}
VALUES = {"valuations": not_negative(at=(0.1, 3.9), batch=True), "ceiling": Number(at=(4.0, 10.0))}
ONE = {"valuations": not_negative(at=(0.5, 2.0)), "max_mse": Number(at=(0.01, 0.2))}
SQUARE = Array("", 0, at=(0.1, 2.0), batch="scalar", infinite=True)
FACTOR = Array("", 0, 1, at=(0.1, 0.9), batch="scalar")
SHARED = not_negative(at=(0.1, 0.9), batch=True)
UNDER_LAW = {"v": Array("n", 0, 10, "[]", (0.1, 3.9), batch="scalar")}
SIGNED = {"X": short(), "y": signs()}
BATCH = {"epsilon": not_negative(at=(0.1, 2.0), batch=True), "weights": real(at=(0.1, 1.0), batch=True)}
JOINT = {"coefficients": real("d"), "weights": simplex(), "eta": POSITIVE}
SPREAD = {"total": Count(at=(100, 500)), "owners": Count(at=(1, 5)), "least": Count(0, at=(0, 10))}
MSE = positive(at=(0.01, 2.0), batch="scalar")
SCALE = Number(ends="[)")
VECTORS = {"theta": real("nd", batch=True)}
CONIC = {
    "sensitivity": not_negative("qn", (0.1, 1.0)),
    "ranges": positive("q"),
    "valuations": positive(),
    "max_mse": Number(at=(0.01, 0.2)),
}
CONVEX = {name: CONIC[name] for name in ("sensitivity", "ranges", "max_mse")}
VARIANT = {"epsilon": positive(at=(40.0, 60.0)), "penalty": Number(at=(1.0, 3.0))}
ANY = {"gradients": Array("ncd", at=(-2.0, 2.0), batch=True, infinite=True, nan=True)}
RANGES: dict[str, dict[str, Kind]] = {  # of one function, or of several
    """aggregation.conv_aggr aggregation.opt_aggr aggregation.opt_aggr_printed aggregation.weights_jacobian
    aggregation.least_error_gradient""": of(epsilon=BATCH["epsilon"]),
    "aggregation_jax.opt_aggr aggregation_jax.least_error": of(shares=simplex()),
    "audits.laws.laplace_law audits.laws.spherical_law": of(noise=real("ND")),
    """audits.laws.logistic_noise
    audits.laws.ridge_noise""": of(X=real("nd"), y=real(), released=real("d", batch=True)),
    "audits.logistic.output_log_density audits.logistic.worst_losses": of(mechanism=Made(perturbed)),
    "markets.costs.virtual_valuation markets.costs.ironed_virtual_valuation": UNDER_LAW,
    """markets.contracts_bounds.total_loss_bound markets.contracts_bounds.least_total_loss
    markets.contracts_bounds.staircase_loss""": of(max_mse=MSE),
    """learners.estimators.PersonalizedRidge.predict learners.estimators.PrivateLogisticRegression.predict
    learners.estimators.PrivateLogisticRegression.decision_function""": of(X=real("nd")),
    """learners.joint.JointObjective.gradient learners.joint.JointObjective.hessian
    learners.joint.JointObjective.value""": JOINT,
    "markets.mechanisms.m1 markets.mechanisms.m2 markets.mechanisms.m3 markets.mechanisms.pivot_costs": VALUES,
    "auctions.menus.menus auctions.menus.schedules auctions.menus.serve": of(weights=Made(menu_weights)),
    "auctions.networks.run auctions.reports.learned": of(weights=Made(weights_of)),
    """book.ridge.study.PrivacyGroups.counts book.ridge.study.PrivacyGroups.draw
    book.ridge.study.PrivacyGroups.total""": of(n=Count(0, at=(0, 9))),
    """auctions.menus_training.draw_shares auctions.menus_training.start
    auctions.menus_training.optimiser""": of(settings=Made(menu_settings)),
    "aggregation.error_bound": BATCH,
    "auctions.allin.gains": of(auction=from_list(allin.single_minded)),
    "auctions.allin.single_minded": of(rule=from_list(allin.all_in_repaired)),
    "auctions.allin.single_minded_gains": of(
        rule=from_list(allin.all_in), lies=Made(lambda s: (positive().good(s), positive().good(s)))
    ),
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
    "audits.sums.gradient_privacy_losses": of(
        gradients=real("ncd", batch=True), epsilon=not_negative(batch=True), neighbours=real("ncd", batch=True)
    ),
    "audits.sums.laplace_privacy_losses": of(answers=real("kkk", batch=True)),
    "audits.ridge.ridge_pair_loss": of(theta_neighbour=real("d", batch=True)),
    "audits.ridge.ridge_privacy_losses": of(restarts=Count(0, at=(0, 2))),
    "audits.ridge.ridge_corner_losses": of(X=real("nd"), y=real(at=(-1.0, 1.0)), corners=real("kd")),
    "audits.ridge.Rest.take": of(i=from_list(0)),
    "audits.sums.sum_privacy_losses": of(mechanism=Made(linear)),
    "audits.instances.gradient_ends": of(classes=Count(), features=Count()),
    "audits.instances.logistic_ends": of(epsilon=POSITIVE, ratio=POSITIVE, m=Count(2, at=(2, 5))),
    "audits.instances.ridge_ends": of(d=Count(), own=POSITIVE),
    "audits.logistic.search_pairs": of(
        epsilon=positive("k"), ratio=positive("k"), others=Count(at=(1, 3)), steps=Count(at=(1, 20))
    ),
    "audits.logistic.tight_pair": of(epsilon=POSITIVE, ratio=POSITIVE, penalty=Number(at=(1e-7, 1e-3))),
    "audits.laws.smallest_p": of(tests=Made(lambda s: laplace_law(real("ND").good(s), 1.0))),
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
    "audits.bounds.power_of_guesses": of(
        **CLAIM, true=NOT_NEGATIVE, guessed=Number(0, 1, "[]", at=(0.1, 0.9)), runs=Count()
    ),
    "audits.bounds.detectable": of(**CLAIM, power=SHARE, guessed=Number(0, 1, "[]", at=(0.1, 0.9)), runs=Count()),
    "audits.pairs.patterns": of(answers=real("n"), alone=FLAG),
    "audits.guesses.event": of(loss=POSITIVE, claim=POSITIVE),
    "audits.guesses.exponent": of(frequency=unit(batch="scalar")),
    "audits.guesses.exposed_excess": of(
        claim=POSITIVE, power=SHARE, sellers=Count(), scores=Count(), runs=Count(100, at=(300, 3000))
    ),
    "audits.guesses.power": of(claim=POSITIVE, true=POSITIVE, sellers=Count(), scores=Count()),
    "audits.laws.rate_resolution": of(
        draws=Array("n", 1, np.inf, "[)", (1.0, 100.0), "scalar", True),
        dimension=Array("n", 1, np.inf, "[)", (1.0, 9.0), "scalar", True),
    ),
    "audits.ridge.Rest.of": of(X=real("nd"), y=real(at=(-1.0, 1.0))),
    "audits.ridge.Rest.solve": of(v=real("nd")),
    "audits.ridge.Rest.displacement": of(v=unit("nd"), label=BY_NAME["y"]),
    "audits.ridge.best_corners": of(
        rest=Made(rest),
        ends=Made(lambda s: np.ones((2, s.length("n"), s.length("d")))),
        signs=Made(lambda s: np.ones((2, s.length("n")))),
    ),
    "audits.ridge.best_inside": of(
        rest=Made(rest),
        ends=Made(lambda s: np.full((2, s.length("n"), s.length("d")), 0.5)),
        signs=Made(lambda s: np.array([[1.0], [-1.0]]) * np.ones(s.length("n"))),
    ),
    "audits.guesses.bit_test": of(
        release=Made(lambda s: guesses.either(normal, normal)), scores=Made(lambda s: [lambda x: x])
    ),
    "audits.guesses.either": of(first=from_list(normal), second=from_list(normal)),
    "audits.guesses.holm": of(p_values=unit()),
    "audits.guesses.log_ratio": of(first=real("d", batch="scalar"), second=real("d", batch="scalar")),
    "auctions.bids.Bids.valuation": of(epsilon=not_negative(batch=True)),
    "auctions.bids.bids": of(
        family=Array("n", 0, 3, "[]", (0, 3), "scalar", True),
        rate=positive(batch="scalar"),
        privacy_budget=positive(batch="scalar"),
        sizes=positive(batch="scalar"),
    ),
    "auctions.bids.budget_of": of(factor=BUDGET),
    "auctions.bids.unit_valuation": of(
        family=Made(lambda s: np.zeros(s.length("n"), int)), rate=positive(), epsilon=not_negative(), xp=from_list(np)
    ),
    "auctions.bids.utility": of(outcome=Made(outcome), delivered_sizes=not_negative(at=(0.5, 1.0), batch=True)),
    "markets.contracts.kkt_residual": of(
        valuations=not_negative(at=(0.5, 2.0), batch=True), max_mse=Number(at=(0.1, 0.1))
    ),
    "markets.contracts_conic.conic_convex": CONVEX
    | of(
        cost=from_list(lambda x: x**2),
        slope=from_list(lambda x: 2 * x),
        n=Made(lambda s: s.length("n")),
    ),
    "markets.contracts_conic.conic_power": CONIC | of(valuations=not_negative(at=(0.1, 2.0))),
    "markets.contracts.one_root": of(
        top=from_list(1.0),
        m=positive(at=(2.0, 3.0)),
        s=positive(),
        B=positive(),
        max_mse=Number(at=(0.01, 0.1)),
        power=Number(1, at=(1.5, 4.0)),
    ),
    "markets.contracts_bounds.group_loss_bound": of(
        width=positive(batch="scalar"), max_mse=positive(at=(0.01, 2.0), batch="scalar")
    ),
    "markets.contracts_bounds.staircase_mse": of(epsilon=positive(batch="scalar")),
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
    "markets.contracts.principle2": of(ranges=positive()),
    "markets.contracts_printed.theorem5_terms": ONE,
    "markets.contracts_printed.theorem5": ONE
    | of(bracket=Choice(("floor", "ceiling")), scale=Choice(("printed", "accuracy"))),
    "markets.contracts_printed.algorithm1": ONE
    | of(
        valuations=positive(at=(0.5, 2.0)),
        exponent=Choice(("root", "as read")),
        go_to=Choice(("line 5", "line 6")),
        bracket=Choice(("floor", "ceiling")),
        power=Number(1, np.inf, "()", at=(1.5, 4.0)),
    ),
    "discrete.acceptance": of(dimension=Count(at=(1, 50))),
    "discrete.discrete_laplace": of(scale=Rational()),
    "discrete.lattice_laplace": of(rate=Rational(), dimension=Count(1, 50, at=(1, 4))),
    "discrete.lattice_law": of(rate=Rational(), reach=Count(at=(1, 4))),
    "discrete.proposal_scale": of(rate=Rational(), d=Count(1, 50)),
    "discrete.root_above": of(square=Rational(), denominator=Count()),
    "learners.estimators.PersonalizedRidge.fit": of(epsilon=positive(batch="scalar"), record=from_list(None)),
    "learners.estimators.PrivateLogisticRegression.fit": SIGNED
    | of(epsilon=positive(batch="scalar"), record=from_list(None)),
    "learners.excess_risk.choose_weights": of(sigma_over_mu=Number(ends="[)", infinite=True)),
    "learners.excess_risk.printed_constants": of(log_base=Number(1, at=(2.0, 10.0))),
    "learners.excess_risk.survival_inverse": of(probability=SHARE),
    "learners.excess_risk.weights_for_losses": of(losses=real()),
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
        aggregations=Made(lambda s: {"opt": opt_aggr, "none": None}),
        start=real("Cd", batch=True),
        auction=from_list(None),
        learning_rate=POSITIVE,
        every=Count(),
    ),
    "audits.listed.exact_law": of(
        release=from_list(lambda rng: rng.integers(3), lambda rng: rng.integers(1, 3, size=2)),
        least=Made(lambda s: Fraction(1, 50), (("a float", 0.1), ("one", Fraction(1)), ("negative", Fraction(-1, 9)))),
    ),
    "audits.listed.proved_loss": of(first=Made(coins), second=Made(coins)),
    "audits.listed.farthest_moves": of(learn=from_list(lambda d: (sum(d), 1)), domains=from_list([[0, 1]] * 2)),
    "audits.digits.attack": of(possible=Made(lambda s: np.ones((2, 2, s.length("n")), bool)), scores=real("2n")),
    "audits.digits.could_be": of(outputs=real(batch="scalar"), loc=REAL, scale=Number(at=(0.5, 3.0))),
    "audits.digits.laplace_attack": of(answers=from_list((0.0, 1.0)), epsilon=POSITIVE, draws=Count(at=(10, 50))),
    "audits.digits.model_holds": of(loc=REAL),
    "audits.digits.numpy_laplace": of(uniform=Array("n", 0, 1, "()", (0.1, 0.9), "scalar"), loc=REAL),
    "audits.digits.on_grid": of(
        outputs=real(batch="scalar"), centre=real(batch="scalar"), noise=from_list(np.float64, np.float32)
    ),
    "auctions.lower_bound.dual_value": of(
        multipliers=not_negative("3"), shares=simplex(), largest=positive(), costs=positive()
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
    "learners.joint.alternate": of(start_weights=simplex(), objective=Made(same_joint)),
    "learners.joint.descend_weights": of(
        start=Made(lambda s: (np.zeros(s.length("d")), simplex().good(s))), objective=Made(same_joint)
    ),
    "learners.joint.descend_logs": of(
        start=Made(lambda s: (np.zeros(s.length("d")), simplex().good(s))), objective=Made(same_joint)
    ),
    "learners.joint.project_log_simplex": of(z=real()),
    "learners.jorgensen.SampledRidge.loss": of(test_loss=Made(quadratic), penalty=NOT_NEGATIVE),
    "learners.jorgensen.SampledRidge.log_density": of(
        points=real("d", batch=True), probability=Simplex("2", 0, 1, "[]", (0.1, 1.0))
    ),
    "learners.jorgensen.sampled_ridge": of(
        masks=Made(lambda s: np.ones((2, s.length("n")))), size_in_noise=Choice(("realised", "fixed"))
    ),
    "learners.lattice.lattice_ridge": of(spacing=from_list(2.0**-20, 2.0**-10)),
    "book.ledger.badge": of(verdict=Choice(("reproduced", "refuted")), label=from_list("word")),
    "book.ledger.get": of(claim_id=from_list("pdp-table01"), folder=from_list(None)),
    "book.ledger.markup": of(words=from_list("let $a<b$")),
    "book.ledger.load": of(paper=from_list("pdp-ridge", None), folder=from_list(None)),
    "book.ledger.verdict": dict.fromkeys(("printed", "corrected", "reading"), from_list(None, True, False)),
    "learners.logistic.printed_slack": of(weights=not_negative(batch="scalar")),
    "learners.logistic.sharp_slack": of(epsilon=not_negative(batch="scalar"), weights=not_negative(batch="scalar")),
    "learners.logistic.eta_within": of(
        epsilon=positive(at=(2.0, 3.0)), weights=not_negative(at=(0.1, 0.5)), penalty=Number(at=(0.5, 2.0))
    ),
    "learners.logistic.ObjectivePerturbation.minimise": of(start=real("d", batch=True)),
    "learners.logistic.objective_perturbation": SIGNED,
    "learners.joint.JointObjective.best_coefficients": of(start=real("d"), weights=simplex()),
    "learners.joint.JointObjective.best_eta": of(coefficients=real("d"), weights=simplex()),
    "learners.joint.JointObjective.best_weights": of(losses=not_negative(batch=True)),
    "learners.joint.joint_objective": SIGNED
    | of(
        unit_noise=real("d"),
        virtual_costs=not_negative(),
        radius=POSITIVE,
        mu=NOT_NEGATIVE,
        sigma=NOT_NEGATIVE,
        gamma=NOT_NEGATIVE,
    ),
    "learners.joint.water_filling": of(
        levels=real(batch=True), curvature=positive(batch="scalar"), cap=Number(0, 1, "(]", at=(0.6, 1.0))
    ),
    "noise.QuadraticLoss.of": of(X=real("nd"), y=real()),
    "noise.QuadraticLoss.under_noise": of(
        noise_rate=positive("", batch="scalar"), penalty=not_negative("", batch="scalar")
    ),
    "book.logistic.study.Candidates.grid": of(
        names=from_list(("a", "b")),
        axes=Made(lambda s: [np.ones(2), np.ones(3)]),
        weights=Made(lambda s: np.ones((2, 4))),
        eta=Made(lambda s: np.ones((2, 3))),
        payments=Made(lambda s: np.ones((2, 3))),
    ),
    "book.logistic.study.public_scale_split": of(X=real("Nd"), y=signs("N")),
    "book.logistic.study.optimal_candidates": of(
        costs=positive(at=(0.1, 3.9)), kappas=positive("k"), scales=positive("q")
    ),
    "book.logistic.study.posted_candidates": of(
        costs=positive(at=(0.1, 1.0)), prices=positive("k", (1.0, 2.0)), totals=positive("q")
    ),
    "book.logistic.study.cheapest_candidates": of(
        costs=positive(), ceiling=Number(at=(4.0, 9.0)), counts=from_list([1, 2]), totals=positive("q")
    ),
    "book.logistic.study.misclassified": of(X=real("nd"), y=real()),
    "book.logistic.study.candidate_errors": of(
        parts=Made(parts), candidates=Made(candidates), ratios=positive("q"), unit_noise=real("kd")
    ),
    "book.logistic.study.tuned": of(
        candidates=Made(candidates), ratios=positive("k"), public=unit("2k"), test=unit("2k"), gammas=positive("q")
    ),
    "markets.mechanisms.break_points": VALUES | of(valuations=not_negative(at=(0.1, 3.9))),
    "markets.mechanisms.virtual_pricing": of(valuations=Array("n", 0, 10, "[]", (0.1, 3.9))),
    "auctions.menus.choose": of(prices=Made(lambda s: np.multiply.outer(np.ones(s.length("n")), menus.KNOTS))),
    "auctions.menus.nothing_sold": of(money=positive(), xp=from_list(np)),
    "auctions.menus.public": of(weights=Made(menu_weights), shares=simplex(), xp=from_list(np)),
    "auctions.menus.record_sale": of(
        sold=Made(lambda s: menus.nothing_sold(np.ones(1), np)), share=SHARE, epsilon=POSITIVE
    ),
    "auctions.menus.random_weights": of(scale=NOT_NEGATIVE),
    "auctions.menus_training.Settings": of(
        steps=Count(at=(4, 4)), batch=Count(), pool=Count(), log=Count(at=(2, 2)), hot=POSITIVE, cold=POSITIVE
    ),
    "auctions.menus_training.train": of(settings=Made(menu_settings), state=from_list(None)),
    "noise.spherical_laplace": of(rate=positive("", batch="scalar")),
    "noise.coordinate_variance": of(rate=positive(batch="scalar")),
    "noise.log_density": of(z=real("d", batch=True)),
    "noise.quadratic_form_moments": of(
        matrix=Symmetric("dd", batch=True), linear=real("d", batch=True), rate=positive("", batch="scalar")
    ),
    "auctions.partition.lognormal_sizes": SPREAD | of(sigma=POSITIVE),
    "auctions.partition.power_law_sizes": SPREAD | of(exponent=Number(1, at=(1.5, 4.0))),
    "auctions.partition.dirichlet_counts": of(
        owners=SPREAD["owners"],
        class_counts=Whole("k", 0, np.inf, "[)", (100, 500), whole=True),
        concentration=POSITIVE,
        extra=Count(0, at=(0, 9)),
    ),
    "auctions.partition.draw_sizes": of(kind=Choice(("IID", "Non-IID")), count=Count(at=(1, 3)), of=Count(at=(5, 50))),
    "auctions.partition.deal": of(labels=CLASSES, counts=Whole("2", 0, np.inf, "[)", (0, 1), whole=True, batch=True)),
    "markets.payments.vcg_payments": of(rule=from_list(cheapest), least_cost=from_list(lambda c: c.min(-1))),
    "markets.payments.envelope_payments": of(rule=from_list(lambda c: 1 / (1 + c)), tolerance=Number(at=(1e-9, 1e-6))),
    "markets.payments.step_payments": of(
        edges=Made(lambda s: np.array([0.0, 1.0, 5.0])), rule=from_list(lambda c: (c < 1) * 1.0)
    ),
    "markets.payments.with_own_report": of(own=not_negative()),
    "book.ridge.study.PrivacyGroups": of(
        f_c=Number(0, 1, "[]", at=(0.1, 0.4)),
        f_m=Number(0, 1, "[]", at=(0.1, 0.5)),
        eps_c=Number(at=(0.01, 0.1)),
        eps_m=Number(at=(0.15, 0.5)),
        eps_l=Number(at=(0.6, 2.0)),
    ),
    "book.ridge.study.linear_population": of(n_train=Count(), n_test=Count()),
    "auctions.posted_prices.best_sale": of(
        family=Made(lambda s: np.zeros(s.length("n"), int)),
        rate=positive(),
        privacy_budget=positive(),
        price=positive(),
        cap=positive(),
    ),
    """markets.master_curves.auction_curve markets.master_curves.posted_curve
    markets.master_curves.local_curve""": of(
        wanted=Array("n", 0, 1, "()", (0.01, 0.99), "scalar"), h=Number(1, ends="[)", at=(1.0, 9.0))
    ),
    "markets.master_curves.cheapest_records": of(
        virtual_costs=positive(batch=True), records=Number(1, at=(1.0, 1.9), ends="[)")
    ),
    "markets.procurement.proxy_loss": of(weights=simplex()),
    "markets.procurement.residuals": of(
        found=Made(lambda s: procurement.procure([0.2, 1.2], 1.0, 1.0, 0.1)), virtual_costs=from_list([0.2, 1.2])
    ),
    "markets.online.OnlineRule": of(cutoff=POSITIVE, slope=POSITIVE),
    "markets.online.OnlineRule.epsilon": of(virtual_costs=not_negative(batch="scalar", infinite=True)),
    "markets.online.printed_rule": of(density_at_zero=POSITIVE),
    "markets.online.realised_loss": of(
        rule=Made(lambda s: OnlineRule(3.0, 2.0)), virtual_costs=not_negative(at=(0.1, 2.0), batch=True, infinite=True)
    ),
    "book.logistic.peer.conic_search": of(starts=Count(2, at=(2, 16))),
    "book.logistic.peer.gradient_and_grid": of(
        largest_eta=POSITIVE, points=Count(at=(1, 5)), virtual_costs=not_negative(at=(0.1, 2.0))
    ),
    "learners.queries.BiasedLaplace": of(scale=SCALE, sensitivity=not_negative("nk"), ranges=positive(), lower=real()),
    "learners.queries.linear_query": of(scale=SCALE, weights=real(at=(0.5, 2.0))),
    "learners.queries.nonlinear_query": of(scale=SCALE, sensitivity=not_negative("nk")),
    "learners.queries.terms_on_grid": of(
        functions=Made(lambda s: [lambda d: d[0]]), n=Count(at=(1, 3)), points=Count(2, at=(2, 4))
    ),
    "learners.queries.sensitivity_on_grid": of(values=real("qkk", batch=True)),
    "auctions.networks.Network": of(
        kind=Choice(("M-RegretNet", "DM-RegretNet")),
        levels=Count(),
        hidden=from_list((4,), (3, 3)),
        temperature=POSITIVE,
    ),
    "auctions.networks.load_trained": of(name=from_list("dm-opt-iid"), folder=from_list(networks.TRAINED)),
    "auctions.meters.estimate": of(top=real("kn", batch=True), bottom=not_negative("kn", (0.1, 1.0), batch=True)),
    "auctions.meters.error_of_valid": of(
        epsilon=not_negative("kn"), sizes=positive("kn"), aggregation=Choice(("OptAggr", "ConvAggr"))
    ),
    "auctions.meters.ir_violation": of(truth=Made(played)),
    "auctions.meters.refuse": of(outcome=Made(outcome)),
    "auctions.meters.regret": of(steps=Count(0, at=(0, 2)), reach=Number(1, at=(1.5, 3.0), infinite=True)),
    "auctions.meters.metrics": of(
        weights=Made(weights_of),
        market=Made(lambda s: market(s, "kn")),
        steps=Count(0, at=(0, 1)),
        printed_steps=Count(0, at=(0, 1)),
    ),
    "auctions.reports.Played.relative": of(money=not_negative(batch=True)),
    "auctions.reports.misreport": of(
        levels=Count(),
        scale=NOT_NEGATIVE,
        family=Choice(("linear", "quadratic")),
        step=Count(1, at=(1, 1)),
        budget_share=POSITIVE,
        size_share=POSITIVE,
    ),
    "auctions.reports.play": of(lies=Made(reports_of)),
    "auctions.meters.noise_floor": of(outcomes=not_negative(at=(0.0, 1.0), batch=True), costs=not_negative(batch=True)),
    "auctions.meters.printed_regret": of(truth=Made(played), lie=Made(played)),
    "auctions.reports.printed_search": of(steps=Count(0, at=(0, 2)), clamp=Choice(("none", "sub-bids", "owners"))),
    "auctions.reports.search": of(steps=Count(0, at=(0, 2)), reach=Number(1, at=(1.5, 3.0), infinite=True)),
    "auctions.reports.structured": of(levels=Count()),
    "book.federated.study.common_share": of(levels=Array("kn", 0, np.inf, "[)", (0, 4), whole=True)),
    "book.federated.study.heard": of(
        network=Made(deterministic),
        weights=Made(weights_of),
        market=Made(lambda s: market(s, "kn")),
        parts=from_list(["rate"], ["sizes", "family"]),
    ),
    "book.federated.study.study_markets": of(count=Count()),
    "auctions.training.Settings": {
        "aggregation": Choice(("opt", "conv")),
        **dict.fromkeys(("epochs", "batches", "profiles", "search", "every"), Count()),
        "ascent": POSITIVE,
        "descent": POSITIVE,
    },
    "auctions.training.train": of(state=from_list(None)),
    "learners.ridge.estimate_norm_bound": of(total_weight=POSITIVE),
    "learners.ridge.project_on_ball": VECTORS | of(radius=POSITIVE),
    "learners.ridge.weighted_ridge": of(
        penalty=not_negative("", (0.1, 2.0), batch="scalar"),
        X=real("nd"),
        y=real(),
        weights=not_negative(at=(0.1, 2.0), batch=True),
    ),
    "book.ridge.calibration.implied_total": of(
        printed=Number(-np.inf, np.inf, at=(0.1, 3.0)), column=Choice(("reg_pdp_op", "unreg_pdp_op"))
    ),
    "book.ridge.calibration.standardised_totals": of(
        n=Count(at=(80, 80)), draws=Made(lambda s: [draw_of(s)] * len(ridge_study.published(1).printed))
    ),
    "book.ridge.calibration.agreement": of(
        number=Count(1, 14, at=(1, 1)),
        ratios=Made(lambda s: [ridge_study.published(1).printed * 0 + 1]),
        scores=Made(lambda s: [np.zeros(len(ridge_study.published(1).printed))]),
        false_alarm=LEVEL,
    ),
    "accounts.charge": of(record=from_list(None), losses=positive(), random_state=from_list(None)),
    "book.ridge.calibration.set_noise": of(draws=Made(lambda s: [draw_of(s)] * len(ridge_study.published(1).printed))),
    "book.ridge.study.Simulated.of": of(losses=real()),
    "book.ridge.study.cells": of(draw=Made(draw_of)),
    "book.ridge.study.monte_carlo": of(runs=Count(2, at=(2, 9))),
    "book.ridge.study.table": of(draws=Made(lambda s: [draw_of(s)] * len(ridge_study.published(1).printed))),
    "learners.ridge_variants.calibrate_objective_perturbation": VARIANT,
    "learners.ridge_variants.release_sufficient_statistics": of(moments=Made(statistics)),
    "learners.ridge_variants.objective_perturbation_log_density": of(
        theta=Array("1", at=(-0.2, 0.2), batch=True), multiplier=from_list(None)
    ),
    "learners.ridge_variants.private_constant": of(label_range=from_list((-1.0, 1.0), (-2.0, 3.0))),
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
    """auctions.allin.gains auctions.bids.Bids.valuation auctions.bids.utility auctions.allin.single_minded_gains
    aggregation.error_bound learners.gradients.noise_scale auctions.reports.play audits.bounds.guess_epsilon
    audits.bounds.detectable markets.online.realised_loss""".split()
)
NAN = set(
    """markets.contracts_printed.theorem5 markets.contracts_printed.algorithm1 book.ridge.calibration.implied_total
    markets.contracts.one_root markets.contracts.scaled_root auctions.meters.error_of_valid""".split()
)
SCIKIT = "scikit-learn's own checks of X and y, in its words, which its tests of estimators want"
EXEMPT = {
    (f"learners.estimators.{name}", argument): SCIKIT
    for argument in ("X", "y")
    for name in (
        "PersonalizedRidge.fit",
        "PersonalizedRidge.predict",
        "PrivateLogisticRegression.fit",
        "PrivateLogisticRegression.predict",
        "PrivateLogisticRegression.decision_function",
    )
}
ERRORS: dict[str, str] = {
    "designs.comparison.law_of": "costs must differ",
    "markets.contracts_conic.conic_convex": "the conic solver stopped with status",
    "markets.contracts_conic.conic_power": "the conic solver stopped with status",
    "audits.guesses.exposed_excess": "expose no excess of claim",
    "audits.digits.laplace_attack": "scale is too small beside outputs",
    "learners.joint.JointObjective.best_eta": "the objective falls without bound",
    "learners.estimators.PrivateLogisticRegression.fit": "penalty = .* must exceed",
    "book.ledger.verdict": ".",
    "book.logistic.study.public_scale_split": "is constant on the public records",
}
FEW = set(
    """markets.mechanisms.virtual_pricing book.logistic.study.optimal_candidates auctions.meters.metrics
    auctions.meters.regret book.federated.study.heard aggregation_jax.least_error aggregation_jax.opt_aggr
    auctions.reports.printed_search auctions.reports.search""".split()
)

# --- what is not tried, and why: functions, classes or modules by reason ----------------------------------------------

ENGINE = "part of a function that has checked"
TRACED = "runs inside JAX, where a number has no value yet to check; its callers check"
NAMED = "an unknown name is a LookupError, which its own tests cover"


def by_reason(places: Mapping[str, str]) -> dict[str, str]:
    """The reason of each place."""
    return {place: reason for reason, named in places.items() for place in named.split()}


INNER = by_reason(  # not out of range
    {
        ENGINE: """
            accounts.charge audits.laws.smallest_p audits.ridge.Rest.displacement
            audits.ridge.Rest.solve audits.ridge.Rest.take audits.ridge.best_corners audits.ridge.best_inside
            auctions.bids.unit_valuation auctions.lower_bound.dual_value auctions.menus.nothing_sold
            auctions.menus.public auctions.menus.record_sale auctions.posted_prices.best_sale
            book.ridge.calibration.effective_sample_budget book.ridge.study.Draw.of
            book.ridge.study.Simulated.of discrete.proposal_scale discrete.root_above learners.integer_answers.cut
            learners.integer_answers.power_of_two learners.joint.JointObjective.best_coefficients
            learners.joint.JointObjective.best_eta learners.joint.JointObjective.best_weights
            learners.joint.JointObjective.gradient learners.joint.JointObjective.hessian
            learners.joint.JointObjective.losses learners.joint.JointObjective.over_eta
            learners.joint.JointObjective.value
            markets.contracts.largest_valuation
            markets.contracts.one_root markets.contracts.ratio_power markets.contracts.scaled_root
            markets.contracts.suffix_weights markets.payments.with_own_report
            markets.procurement.proxy_loss markets.procurement.residuals
            schema.Category.encode schema.Number.encode""",
        TRACED: "aggregation_jax.opt_aggr aggregation_jax.least_error",
        NAMED: """
            book.ledger.badge book.ledger.get book.ledger.load book.ledger.markup book.ledger.verdict
            auctions.networks.load_trained""",
    }
)
LEFT_OUT = by_reason(  # not driven at all
    {
        "broken on purpose": "book.privacy.bugs",
        "the checks themselves: every test out of range is one of theirs": "validation",
        "a check itself: tests out of range run through it": """
            auctions.bids.check_budget auctions.menus.check_weights auctions.networks.check_weights
            learners.gradients.check_labels markets.contracts.check_cost markets.contracts.check_power
            markets.contracts.check_valuations markets.costs.check_law markets.costs.check_regular
            markets.payments.check_reports""",
        "starts processes; its own tests drive it": "spread",
        "draws; the pages look at it": "book.plots book.front",
        "what a form holds, as text: compared with its script in a browser": "book.play.explorers book.play.forms",
        "files and the network": "book.retrieval",
        "the machine": "book.records",
        "files": """
            auctions.checkpoints auctions.networks.save book.datasets book.nsl_kdd_statistics
            book.ledger.read""",
        "imports and displays": "validation.extra book.notebook.display",
        "a command line": "auctions.training.main auctions.menus_training.main book.federated.study.main",
        "reads an entry": "learners.fedsgd.Training.parameters",
        "trains a network": "book.federated.study.measure",
        "draws 22,544 rows": "book.standins",
        "parts of the audit of any mechanism, which checks what it is given": """
            audits.outcomes audits.scores audits.sources audits.pairs.same audits.guesses.tails""",
        "a whole market: their own tests drive them": """
            designs.rules designs.comparison.compare_markets designs.comparison.errors designs.comparison.Comparison""",
        "any mechanism and any data: its own tests drive it": "audits.black_box audits.pairs.replacements",
        "minutes": """
            book.privacy.battery book.privacy.benches book.privacy.benches_estimators book.privacy.benches_gradients
            book.privacy.benches_logistic book.privacy.benches_means book.privacy.benches_ridge
            book.privacy.benches_sums
            book.privacy.benches_variants book.privacy.coverage book.privacy.mutation book.privacy.pairs
            book.privacy.releases book.ridge.calibration.Pool.draw book.ridge.calibration.Pool.match_cells
            book.ridge.calibration.Pool.match_path book.ridge.calibration.calibrated_draws
            book.ridge.calibration.matching_epsilon""",
        "experiments of one page, which runs them": """
            book.beyond
            book.contracts.study book.federated.accuracy book.logistic.study.joint_choice
            book.logistic.study.joint_ends""",
        ENGINE: """
            markets.contracts.least_cost_contract markets.contracts_conic.solve_cone markets.procurement.count_while
            markets.procurement.smallest_root""",
        NAMED: "book.ledger.decide book.ledger.judge",
        TRACED: """
            auctions.menus.increments auctions.menus_training.draw_markets auctions.menus_training.loss
            auctions.menus_training.run_steps auctions.menus_training.soft_epsilon auctions.menus_training.valuation
            auctions.networks.allocation auctions.networks.expected_epsilon auctions.networks.expected_value
            auctions.networks.features auctions.networks.forward auctions.networks.forward_alone auctions.networks.init
            auctions.networks.smooth_allocation auctions.networks.sub_bid_values auctions.reports.alone
            auctions.reports.mean_cost auctions.reports.parts auctions.reports.true_costs auctions.training.allowed
            auctions.training.lying_utilities auctions.training.reports auctions.training.run_epoch
            auctions.training.search auctions.training.violations""",
    }
)


JAX = tuple(f"auctions.{name}." for name in "networks training reports meters".split())


def scene(name: str, draw: Any, wide: bool = False) -> Scene:
    """A scene for calls of a function; slow ones and those that JAX compiles anew for each length have one length."""
    return Scene(draw, wide, {"n": 2, "k": 2} if name in FEW or name.startswith(JAX) else {})


def infinite(name: str) -> bool:
    return name in INFINITE
