"""What the arguments of every public function are: by name, and for each function where its range is another."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import stats

from hdpm_lib import (
    auctions,
    audit_ridge,
    audit_sampled,
    bids,
    contracts_exact,
    estimators,
    integer_answers,
    jorgensen,
    lattice,
    logistic,
    logistic_joint,
    losses,
    mechanism_study,
    menus,
    menus_training,
    populations,
    procurement,
    queries,
    regretnet,
    regretnet_reports,
    regretnet_training,
    ridge,
    ridge_study,
    ridge_variants,
    schema,
)
from hdpm_lib.aggregation import opt_aggr
from hdpm_lib.audit_noise import laplace_law
from hdpm_lib.audit_sampled import BitTest
from hdpm_lib.procurement_online import OnlineRule
from tests.strategies import Array, Choice, Count, Flag, Generator, Kind, Made, Number, Scene, Size

REAL_LOW = Number(-np.inf, np.inf, at=(-1.0, 1.0))
POSITIVE, NOT_NEGATIVE, REAL = Number(), Number(ends="[)"), Number(-np.inf, np.inf, at=(-2.0, 2.0))
SHARE = Number(0, 1, "()", at=(0.1, 0.9))
SEED, RNG, SIZE, FLAG = Count(0, at=(0, 3)), Generator(), Size(), Flag()
LEVEL = Number(0, 1, "()", at=(1e-6, 0.1))


def positive(shape: str = "n", at: tuple[float, float] = (0.1, 2.0), **more: Any) -> Array:
    return Array(shape, 0, np.inf, "()", at, **more)


def not_negative(shape: str = "n", at: tuple[float, float] = (0.0, 2.0), **more: Any) -> Array:
    return Array(shape, 0, np.inf, "[)", at, **more)


def unit(shape: str = "n", at: tuple[float, float] = (0.0, 1.0), **more: Any) -> Array:
    return Array(shape, 0, 1, "[]", at, **more)


def real(shape: str = "n", at: tuple[float, float] = (-2.0, 2.0), **more: Any) -> Array:
    return Array(shape, at=at, **more)


def signs(shape: str = "n") -> Kind:
    """Labels -1 and 1, both of them there."""

    def make(s: Scene) -> np.ndarray:
        y = np.array([s.draw(st.sampled_from([-1.0, 1.0])) for _ in range(s.length(shape))])
        y[:2] = -1, 1
        return y

    return Signs(shape, make)


class Signs(Array):
    def __init__(self, shape: str, make: Callable[[Scene], np.ndarray]) -> None:
        super().__init__(shape, -1, 1, "[]", (-1.0, 1.0))
        self.make = make

    def good(self, scene: Scene) -> np.ndarray:
        return self.make(scene)


class Simplex(Array):
    """Weights that sum to 1."""

    def good(self, scene: Scene) -> np.ndarray:
        w = super().good(Scene(scene.draw, False, scene.lengths))
        return w / w.sum()


def simplex(shape: str = "n") -> Array:
    return Simplex(shape, 0, np.inf, "[)", (0.1, 1.0))


class Short(Array):
    """Rows of norm at most 1."""

    def good(self, scene: Scene) -> np.ndarray:
        x = super().good(scene)
        return x / np.sqrt(x.shape[-1])


def short(shape: str = "nd") -> Array:
    return Short(shape, -1, 1, "[]", (-1.0, 1.0))


def from_list(*values: Any) -> Made:
    return Made(lambda s: s.draw(st.sampled_from(values)))


# --- objects ----------------------------------------------------------------------------------------------------------


def _array(s: Scene, kind: Kind) -> Any:
    return kind.good(s)


def market(s: Scene, letters: str = "n") -> bids.Bids:
    shape = [s.length(letter) for letter in letters]
    families = s.draw(st.lists(st.integers(0, 3), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    rate, sizes = (positive(letters, at).good(s) for at in ((0.5, 1.5), (1.0, 50.0)))
    privacy_budget = positive(letters, (0.5, 2.0)).good(Scene(s.draw, False, s.lengths))  # exponentials have a limit
    return bids.bids(np.reshape(families, shape), rate, privacy_budget, sizes)


def outcome(s: Scene) -> Any:
    return auctions.single_minded(s.once("market", lambda: market(s)), 20.0)


def law(s: Scene) -> Any:
    return s.draw(st.sampled_from([stats.uniform(0, 4), stats.beta(2, 2, 0, 4), stats.uniform(0, 10)]))


LAW = Made(
    law, (("None", None), ("a string", "uniform"), ("unbounded", stats.norm()), ("negative", stats.uniform(-1, 2)))
)


def linear(s: Scene) -> queries.BiasedLaplace:
    return queries.linear_query(unit().good(s), POSITIVE.good(s))


def whole_sum(s: Scene) -> integer_answers.IntegerSum:
    return integer_answers.integer_sum(unit(at=(0.5, 1.0)).good(s), 1.0, levels=8)


def perturbed(s: Scene) -> logistic.ObjectivePerturbation:
    return logistic.objective_perturbation(short().good(s), signs().good(s), simplex().good(s), 2.0, 0.5)


def joint(s: Scene) -> logistic_joint.JointObjective:
    numbers = {name: POSITIVE.good(s) for name in ("penalty", "mu", "sigma", "gamma")}
    data = short().good(s), signs().good(s), Array("d", at=(-0.01, 0.01)).good(s), positive().good(s)
    return logistic_joint.joint_objective(*data, **numbers, squared=FLAG.good(s), radius=1.0)


def split(s: Scene) -> populations.Split:
    return populations.linear_population(6, 4, 2, rng=RNG.good(s))


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
    return contracts_exact.principle2(positive().good(s), 0.1, power=2)


def network(s: Scene) -> regretnet.Network:
    return s.once("network", lambda: regretnet.Network("M-RegretNet", s.length("n"), 2, (4,)))


def weights_of(s: Scene) -> Any:
    import jax

    return regretnet.init(network(s), jax.random.key(0))


def rule(s: Scene) -> regretnet_reports.Rule:
    return regretnet_reports.learned(network(s), weights_of(s))


def played(s: Scene) -> regretnet_reports.Played:
    truth = s.once("market", lambda: market(s))
    return regretnet_reports.play(rule(s), truth, 20.0)


def reports(s: Scene) -> regretnet_reports.Reports:
    return regretnet_reports.misreport(s.once("market", lambda: market(s)), 2, scale=0.5)


def menu_weights(s: Scene) -> Any:
    return menus.random_weights(np.random.default_rng(0))


def menu_settings(s: Scene) -> menus_training.Settings:
    return menus_training.Settings(owners=2, steps=2, batch=4, pool=8, log=2)


def net_settings(s: Scene) -> regretnet_training.Settings:
    net = regretnet.Network("M-RegretNet", 2, 2, (4,))
    return regretnet_training.Settings(net, epochs=1, batches=2, profiles=2, search=2)


def sampled(s: Scene) -> jorgensen.SampledRidge:
    masks = np.ones((2, s.length("n")))
    return jorgensen.sampled_ridge(unit("nd").good(s), unit().good(s), positive().good(s), 1.0, 1.0, masks)


def lattice_model(s: Scene) -> lattice.LatticeRidge:
    return lattice.lattice_ridge(unit("nd").good(s), unit().good(s), positive().good(s), 1.0)


def plain_model(s: Scene) -> ridge.OutputPerturbation:
    return ridge.pdp_op(unit("nd").good(s), unit().good(s), positive().good(s), 1.0)


def quadratic(s: Scene) -> losses.QuadraticLoss:
    return losses.QuadraticLoss.of(unit("nd").good(s), unit().good(s))


def lists(make: Callable[[Scene], Any]) -> Made:
    """One thing for each seller."""
    return Made(lambda s: [make(s) for _ in range(s.length("n"))])


BUDGET = positive("", (5.0, 50.0), batch=True)
TRUTH = Made(lambda s: s.once("market", lambda: market(s)))

# --- by name ----------------------------------------------------------------------------------------------------------

BY_NAME: dict[str, Kind] = {
    "X": unit("nd"),
    "y": Array("n", -1, 1, at=(-1.0, 1.0)),
    "epsilon": positive(),
    "weights": not_negative(at=(0.1, 2.0)),
    "valuations": not_negative(at=(0.1, 2.0), batch=True),
    "virtual_costs": positive(),
    "costs": not_negative(at=(0.1, 3.9)),
    "sizes": positive(at=(1.0, 50.0), batch=True),
    "shares": unit(),
    "amounts": positive(batch=True),
    "budget": BUDGET,
    "bids": TRUTH,
    "truth": TRUTH,
    "market": TRUTH,
    "lies": TRUTH,
    "law": LAW,
    "rng": RNG,
    "size": SIZE,
    "power": Number(1, np.inf, "[)", at=(1.0, 4.0)),
    "max_mse": Number(at=(0.01, 2.0)),
    "ceiling": Number(at=(4.0, 10.0)),
    "cap": Number(0, 1, "(]", at=(0.99, 1.0)),
    "dimension": Count(),
    "n": Count(),
    "m": Count(at=(2, 5)),
    "coordinates": Count(),
    "noise_rate": POSITIVE,
    "bound": Choice(("paper", "sharp")),
    "feature_norm": Number(at=(2.0, 3.0)),
    "norm_bound": POSITIVE,
    "tol": Number(at=(1e-9, 1e-3)),
    "level": LEVEL,
    "train": SHARE,
    "digits": Count(0, at=(3, 9)),
    "spacing": from_list(2.0**-10, 2.0**-4),
    "seed": SEED,
    "network": Made(network),
    "settings": Made(net_settings),
    "rule": Made(rule),
    "coefficients": real("d", batch=True),
    "noise": real("d", batch=True),
    "theta": real("d", batch=True),
    "resolution": Count(2, at=(2, 64)),
    "labels": Made(lambda s: np.array([s.draw(st.integers(0, 1)) for _ in range(s.length("n"))])),
    "features": real("nd"),
    "gradients": real("ncd"),
    "reports": not_negative(at=(0.0, 4.0)),
    "terms": unit(),
    "data": unit(),
    "owners": Count(),
    "draws": Count(at=(1, 50)),
    "partition": Choice(("IID", "Non-IID")),
    "delta": Number(0, 1, "()", at=(0.01, 0.3)),
    "delta_noise": Number(0, 1, "()", at=(0.01, 0.3)),
    "claim": NOT_NEGATIVE,
    "runs": Count(100, at=(100, 300)),
    "fraction": Number(0, 1, "(]", at=(0.3, 1.0)),
    "masks": Count(0, at=(0, 3)),
    "medical": Made(lambda s: None),
    "groups": Made(lambda s: populations.PrivacyGroups()),
    "draw": Made(draw_of),
    "row": Made(row),
    "spec": Made(lambda s: ridge_study.published(1)),
    "split": Made(split),
    "number": Count(1, 14, at=(1, 14)),
    "moments": Made(moments),
    "objective": Made(joint),
    "iterations": Count(at=(1, 20)),
    "tolerance": Number(at=(1e-6, 1e-3)),
    "step": Number(at=(0.01, 0.1)),
    "allocation": Made(allocation),
    "label_bound": Number(at=(1.0, 2.0)),
}
for name in "penalty eta mu sigma gamma scale rate clip_norm threshold step".split():
    BY_NAME.setdefault(name, POSITIVE)

# --- more kinds and objects -------------------------------------------------------------------------------------------


class Whole(Array):
    """Whole numbers."""

    def bad(self, scene: Scene) -> list[tuple[str, Any]]:
        return [*super().bad(scene), ("halves", self.good(scene) + 0.5)]


class Symmetric(Array):
    """A symmetric matrix."""

    def good(self, scene: Scene) -> np.ndarray:
        matrix = super().good(scene)
        return matrix + matrix.T


class Rational(Kind):
    """A positive fraction."""

    def good(self, scene: Scene) -> Fraction:
        return Fraction(scene.draw(st.integers(1, 9)), scene.draw(st.integers(1, 9)))

    def bad(self, scene: Scene) -> list[tuple[str, Any]]:
        return [
            ("None", None),
            ("a string", "1"),
            ("a float", 0.5),
            ("zero", Fraction(0)),
            ("negative", Fraction(-1, 2)),
            ("True", True),
        ]


CLASSES = BY_NAME["labels"]


def normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal(n)


def first_price(c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.ones_like(c), c


def cheapest(c: np.ndarray) -> np.ndarray:
    return (c == c.min(-1, keepdims=True)).astype(float)


def rest(s: Scene) -> audit_ridge.Rest:
    features, w = unit("nd").good(s), simplex().good(s)
    moment = (features.T * w) @ features + np.eye(features.shape[1])
    return audit_ridge.Rest.of(features, BY_NAME["y"].good(s), w, moment)


def same_joint(s: Scene) -> logistic_joint.JointObjective:
    return s.once("objective", lambda: joint(s))


def deterministic(s: Scene) -> regretnet.Network:
    return s.once("network", lambda: regretnet.Network("DM-RegretNet", s.length("n"), 2, (4,)))


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


# --- where a function's range is another ------------------------------------------------------------------------------

OBJECTS: dict[str, Callable[[Scene], Any]] = {
    "audit_ridge.Rest": lambda s: rest(s),
    "schema.Category": lambda s: schema.Category("smoker", ("yes", "no")),
    "schema.Number": lambda s: schema.Number("age", 0, 100),
    "schema.Schema": lambda s: schema.Schema([schema.Number("age", 0, 100), schema.Category("smoker", ("yes", "no"))]),
    "audit_sampled.BitTest": lambda s: BitTest(200, np.array([50]), np.array([40]), 1.0),
    "bids.Bids": lambda s: s.once("market", lambda: market(s)),
    "estimators.PersonalizedRidge": lambda s: ridge_model(s),
    "estimators.PrivateLogisticRegression": lambda s: logistic_model(s),
    "integer_answers.IntegerSum": whole_sum,
    "jorgensen.SampledRidge": sampled,
    "lattice.LatticeRidge": lattice_model,
    "logistic.ObjectivePerturbation": perturbed,
    "logistic_joint.JointObjective": joint,
    "losses.QuadraticLoss": quadratic,
    "populations.PrivacyGroups": lambda s: populations.PrivacyGroups(),
    "procurement_online.OnlineRule": lambda s: OnlineRule(1.0, 2.0),
    "queries.BiasedLaplace": linear,
    "regretnet_reports.Played": played,
    "ridge.OutputPerturbation": plain_model,
    "ridge_study.Table": lambda s: ridge_study.published(1),
}
VALUES = {"valuations": not_negative(at=(0.1, 3.9), batch=True), "ceiling": Number(at=(4.0, 10.0))}
ONE = {"valuations": not_negative(at=(0.5, 2.0)), "max_mse": Number(at=(0.01, 0.2))}
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
SPECIAL: dict[str, dict[str, Kind]] = {
    **dict.fromkeys(
        ("aggregation.conv_aggr", "aggregation.opt_aggr", "aggregation.opt_aggr_printed"),
        BATCH_EPS := {"epsilon": BATCH["epsilon"]},
    ),
    **dict.fromkeys(("aggregation.weights_jacobian", "aggregation.least_error_gradient"), BATCH_EPS),
    "aggregation.error_bound": BATCH,
    "aggregation_jax.opt_aggr": {"shares": simplex()},
    "aggregation_jax.least_error": {"shares": simplex()},
    "auctions.gains": {"auction": Made(lambda s: auctions.single_minded)},
    "auctions.single_minded": {"rule": Made(lambda s: auctions.all_in_repaired)},
    "auctions.single_minded_gains": {
        "rule": Made(lambda s: auctions.all_in),
        "lies": Made(lambda s: (positive().good(s), positive().good(s))),
    },
    "audit.gradient_privacy_losses": {
        "gradients": real("ncd", batch=True),
        "epsilon": not_negative(batch=True),
        "neighbours": real("ncd", batch=True),
    },
    "audit.laplace_privacy_losses": {"answers": real("kkk", batch=True)},
    "audit.ridge_pair_loss": {"theta_neighbour": real("d", batch=True)},
    "audit.ridge_privacy_losses": {"restarts": Count(0, at=(0, 2))},
    "audit.ridge_corner_losses": {"X": real("nd"), "y": real(at=(-1.0, 1.0)), "corners": real("kd")},
    "audit_ridge.Rest.take": {"i": from_list(0)},
    "audit.sum_privacy_losses": {"mechanism": Made(linear)},
    "audit_battery.audit_learner": {"learner": Choice(("sum",))},
    "audit_benches.in_calls": {
        "release": Made(lambda s: lambda rng, size: rng.random(size)),
        "draws": Count(10, at=(10, 99)),
    },
    "audit_instances.gradient_ends": {"classes": Count(), "features": Count()},
    "audit_instances.logistic_ends": {
        "epsilon": POSITIVE,
        "ratio": POSITIVE,
        "m": Count(2, at=(2, 5)),
        "penalty": Number(at=(1e-7, 1e-3)),
    },
    "audit_instances.ridge_ends": {"d": Count(), "own": POSITIVE},
    "audit_logistic.output_log_density": {"mechanism": Made(perturbed)},
    "audit_logistic.search_pairs": {
        "epsilon": positive("k"),
        "ratio": positive("k"),
        "others": Count(at=(1, 3)),
        "steps": Count(at=(1, 20)),
    },
    "audit_logistic.tight_pair": {"epsilon": POSITIVE, "ratio": POSITIVE, "penalty": Number(at=(1e-7, 1e-3))},
    "audit_logistic.worst_losses": {"mechanism": Made(perturbed)},
    "audit_noise.laplace_law": {"noise": real("ND")},
    "audit_noise.spherical_law": {"noise": real("ND")},
    "audit_noise.logistic_noise": {"X": real("nd"), "y": real(), "released": real("d", batch=True)},
    "audit_noise.ridge_noise": {"X": real("nd"), "y": real(), "released": real("d", batch=True)},
    "audit_noise.smallest_p": {"tests": Made(lambda s: laplace_law(real("ND").good(s), 1.0))},
    "audit_power.event": {"loss": POSITIVE, "claim": POSITIVE},
    "audit_power.exponent": {"frequency": unit(batch="scalar")},
    "audit_power.exposed_excess": {
        "claim": POSITIVE,
        "power": SHARE,
        "sellers": Count(),
        "runs": Count(100, at=(300, 3000)),
    },
    "audit_power.power": {"claim": POSITIVE, "true": POSITIVE, "sellers": Count(), "scores": Count()},
    "audit_power.rate_resolution": {
        "draws": Array("n", 1, np.inf, "[)", (1.0, 100.0), "scalar", True),
        "dimension": Array("n", 1, np.inf, "[)", (1.0, 9.0), "scalar", True),
        "power": SHARE,
    },
    "audit_ridge.Rest.of": {
        "features": unit("nd"),
        "labels": BY_NAME["y"],
        "w": simplex(),
        "moment": Made(lambda s: 4.0 * np.eye(s.length("d"))),
    },
    "audit_ridge.Rest.solve": {"v": real("nd")},
    "audit_ridge.Rest.displacement": {"v": unit("nd"), "label": BY_NAME["y"]},
    "audit_ridge.best_corners": {
        "rest": Made(lambda s: rest(s)),
        "ends": Made(lambda s: np.ones((2, s.length("n"), s.length("d")))),
        "signs": Made(lambda s: np.ones((2, s.length("n")))),
    },
    "audit_ridge.best_inside": {
        "rest": Made(lambda s: rest(s)),
        "ends": Made(lambda s: np.full((2, s.length("n"), s.length("d")), 0.5)),
        "signs": Made(lambda s: np.array([[1.0], [-1.0]]) * np.ones(s.length("n"))),
    },
    "audit_sampled.bit_test": {
        "release": Made(lambda s: audit_sampled.either(normal, normal)),
        "scores": Made(lambda s: [lambda x: x]),
    },
    "audit_sampled.either": {"first": Made(lambda s: normal), "second": Made(lambda s: normal)},
    "audit_sampled.holm": {"p_values": unit()},
    "audit_sampled.log_ratio": {"first": real("d", batch="scalar"), "second": real("d", batch="scalar")},
    "bids.Bids.valuation": {"epsilon": not_negative(batch=True)},
    "bids.bids": {
        "family": Array("n", 0, 3, "[]", (0, 3), "scalar", True),
        "rate": positive(batch="scalar"),
        "privacy_budget": positive(batch="scalar"),
        "sizes": positive(batch="scalar"),
    },
    "bids.budget_of": {"factor": BUDGET},
    "bids.unit_valuation": {
        "family": Made(lambda s: np.zeros(s.length("n"), int)),
        "rate": positive(),
        "epsilon": not_negative(),
    },
    "bids.utility": {"outcome": Made(outcome), "delivered_sizes": not_negative(at=(0.5, 1.0), batch=True)},
    "breast_cancer.breast_cancer": {"variant": Choice(("diagnostic",)), "source": Choice(("auto",))},
    "contracts.check_valuations": {"ceiling": Number(at=(4.0, 9.0))},
    "contracts.kkt_residual": {"valuations": not_negative(at=(0.5, 2.0), batch=True), "max_mse": Number(at=(0.1, 0.1))},
    "contracts.zero_loss": {"shape": Made(lambda s: (s.length("n"),)), "total_range": POSITIVE},
    "contracts_conic.conic_convex": CONVEX
    | {
        "cost": Made(lambda s: lambda x: x**2),
        "slope": Made(lambda s: lambda x: 2 * x),
        "n": Made(lambda s: s.length("n")),
        "tol": Number(at=(1e-6, 1e-5)),
    },
    "contracts_conic.conic_power": CONIC | {"valuations": not_negative(at=(0.1, 2.0))},
    "contracts_exact.one_root": {
        "top": from_list(1.0),
        "m": positive(at=(2.0, 3.0)),
        "s": positive(),
        "B": positive(),
        "max_mse": Number(at=(0.01, 0.1)),
        "power": Number(1, at=(1.5, 4.0)),
    },
    "contracts_bounds.total_loss_bound": {"max_mse": MSE},
    "contracts_bounds.least_total_loss": {"max_mse": MSE},
    "contracts_bounds.staircase_loss": {"max_mse": MSE},
    "contracts_bounds.group_loss_bound": {
        "width": positive(batch="scalar"),
        "max_mse": positive(at=(0.01, 2.0), batch="scalar"),
    },
    "contracts_bounds.staircase_mse": {"epsilon": positive(batch="scalar")},
    "contracts_exact.scaled_root": {
        "m": positive(at=(2.0, 3.0)),
        "before": positive(),
        "point": positive(),
        "B": positive(),
        "max_mse": Number(at=(0.01, 0.1)),
        "power": Number(1, at=(1.5, 4.0)),
    },
    "contracts_exact.largest_valuation": {"total_range": POSITIVE},
    "contracts_exact.ratio_power": {"ratio": unit()},
    "contracts_exact.suffix_weights": {"u": Made(lambda s: np.sort(positive().good(s))), "q": positive()},
    "contracts_exact.principle2": {"ranges": positive()},
    "contracts_printed.theorem5_terms": ONE,
    "contracts_printed.theorem5": ONE
    | {"bracket": Choice(("floor", "ceiling")), "scale": Choice(("printed", "accuracy"))},
    "contracts_printed.algorithm1": ONE
    | {
        "valuations": positive(at=(0.5, 2.0)),
        "exponent": Choice(("root", "as read")),
        "go_to": Choice(("line 5", "line 6")),
        "bracket": Choice(("floor", "ceiling")),
        "power": Number(1, np.inf, "()", at=(1.5, 4.0)),
    },
    "costs.virtual_valuation": UNDER_LAW,
    "costs.ironed_virtual_valuation": UNDER_LAW,
    "datasets.nsl_kdd": {"part": Choice(("test",))},
    "datasets.nsl_kdd_table": {"part": Choice(("test",))},
    "datasets.source_of": {"name": Choice(("medical_cost",))},
    "discrete.acceptance": {"dimension": Count(at=(1, 50))},
    "discrete.bernoulli_exp": {
        "numerator": Whole("n", 0, 9, "[]", (0, 9), "scalar", True),
        "denominator": Count(1, at=(9, 20)),
    },
    "discrete.discrete_laplace": {"scale": Rational()},
    "discrete.lattice_laplace": {"rate": Rational(), "dimension": Count(1, 50, at=(1, 4))},
    "discrete.lattice_law": {"rate": Rational(), "reach": Count(at=(1, 4))},
    "discrete.proposal_scale": {"rate": Rational(), "d": Count(1, 50)},
    "discrete.root_above": {"square": Rational(), "denominator": Count()},
    "estimators.PersonalizedRidge.fit": {"epsilon": positive(batch="scalar"), "record": from_list(None)},
    "estimators.PrivateLogisticRegression.fit": SIGNED
    | {"epsilon": positive(batch="scalar"), "record": from_list(None)},
    "estimators.PrivateLogisticRegression.predict": {"X": real("nd")},
    "estimators.PersonalizedRidge.predict": {"X": real("nd")},
    "estimators.PrivateLogisticRegression.decision_function": {"X": real("nd")},
    "excess_risk.choose_weights": {"sigma_over_mu": Number(ends="[)", infinite=True)},
    "excess_risk.printed_constants": {"log_base": Number(1, at=(2.0, 10.0))},
    "excess_risk.survival_inverse": {"probability": SHARE},
    "excess_risk.weights_for_losses": {"losses": real()},
    "federated.accuracy": {"parameters": real("kCd", batch=True), "labels": CLASSES},
    "federated.check_labels": {"labels": CLASSES, "classes": Count(2, at=(2, 3))},
    "federated.clipped": ANY,
    "federated.draw_bidders": {
        "owners": Count(at=(3, 6)),
        "bidders": Count(at=(1, 3)),
        "rounds": Count(),
        "runs": Count(),
    },
    "federated.local_gradients": {
        "features": Array("nd", at=(-2.0, 2.0), nan=True),
        "parameters": real("kCd"),
        "labels": CLASSES,
        "owners": Made(lambda s: [np.arange(s.length("n")), np.array([0])]),
    },
    "federated.noise_scale": {"epsilon": not_negative(batch="scalar")},
    "federated_study.fedsgd": {
        "labels": CLASSES,
        "owners": Made(lambda s: [[np.arange(s.length("n")), np.array([0])]]),
        "privacy_budget": positive("12"),
        "bidders": Made(lambda s: np.array([[[0]], [[1]]])),
        "aggregations": Made(lambda s: {"opt": opt_aggr, "none": None}),
        "start": real("Cd", batch=True),
        "auction": Made(lambda s: None),
        "learning_rate": POSITIVE,
        "every": Count(),
    },
    "floating_point.attack": {"possible": Made(lambda s: np.ones((2, 2, s.length("n")), bool)), "scores": real("2n")},
    "floating_point.could_be": {"outputs": real(batch="scalar"), "loc": REAL, "scale": Number(at=(0.5, 3.0))},
    "floating_point.laplace_attack": {
        "answers": from_list((0.0, 1.0)),
        "epsilon": POSITIVE,
        "draws": Count(at=(10, 50)),
    },
    "floating_point.model_holds": {"loc": REAL},
    "floating_point.numpy_laplace": {"uniform": Array("n", 0, 1, "()", (0.1, 0.9), "scalar"), "loc": REAL},
    "floating_point.on_grid": {
        "outputs": real(batch="scalar"),
        "centre": real(batch="scalar"),
        "noise": from_list(np.float64, np.float32),
    },
    "full_information.dual_value": {
        "multipliers": not_negative("3"),
        "shares": simplex(),
        "largest": positive(),
        "costs": positive(),
    },
    "incentives.reports_to_try": {
        "types": not_negative(at=(0.0, 4.0)),
        "grid": Count(2, at=(2, 9)),
        "special": lists(lambda s: [0.5]),
    },
    "incentives.search_misreports": {
        "mechanism": Made(lambda s: first_price),
        "types": real(batch=True),
        "candidates": lists(lambda s: positive().good(s)),
        "cost": Made(lambda s: lambda true, amount: true * amount),
    },
    "integer_answers.IntegerSum": {
        "weights": Whole("n", at=(-3, 3), whole=True),
        "levels": Count(at=(1, 9)),
        "scale": Rational(),
        "unit": from_list(Fraction(1, 2)),
        "offset": from_list(Fraction(1, 2)),
    },
    "integer_answers.IntegerSum.release": {"data": unit()},
    "integer_answers.IntegerSum.answer": {"released": real(at=(-9.0, 9.0), batch="scalar")},
    "integer_answers.integer_sum": {
        "shares": unit(at=(0.1, 1.0)),
        "weights": real(at=(0.5, 2.0)),
        "levels": Count(at=(1, 1024)),
    },
    "integer_answers.grid_gradients": ANY | {"clip_norm": Number(at=(0.1, 3.0))},
    "integer_answers.gradient_noise": {
        "epsilon": not_negative(at=(0.1, 2.0)),
        "shape": from_list((2, 2)),
        "clip_norm": Number(at=(0.1, 3.0)),
    },
    "integer_answers.integer_gradients": {
        "gradients": Array("ncd", at=(-2.0, 2.0), infinite=True, nan=True),
        "clip_norm": Number(at=(0.1, 3.0)),
    },
    "integer_answers.cut": {"noisy": Made(lambda s: np.array([1, -(2**60)]))},
    "integer_answers.power_of_two": {"value": from_list(0.5, 2.0), "name": from_list("value")},
    "joint_solvers.alternate": {
        "start_weights": simplex(),
        "iterations": Count(at=(2000, 2000)),
        "objective": Made(same_joint),
    },
    "joint_solvers.descend_weights": {
        "start": Made(lambda s: (np.zeros(s.length("d")), simplex().good(s))),
        "objective": Made(same_joint),
    },
    "joint_solvers.descend_logs": {
        "start": Made(lambda s: (np.zeros(s.length("d")), simplex().good(s))),
        "objective": Made(same_joint),
    },
    "joint_solvers.project_log_simplex": {"z": real()},
    "jorgensen.SampledRidge.loss": {"test_loss": Made(quadratic), "penalty": NOT_NEGATIVE},
    "jorgensen.SampledRidge.log_density": {
        "points": real("d", batch=True),
        "probability": Simplex("2", 0, 1, "[]", (0.1, 1.0)),
    },
    "jorgensen.sampled_ridge": {
        "masks": Made(lambda s: np.ones((2, s.length("n")))),
        "size_in_noise": Choice(("realised", "fixed")),
    },
    "lattice.constant_above": {"penalty": Rational(), "square": Rational()},
    "lattice.exact_solve": {"matrix": from_list([[2, 1], [1, 3]]), "vector": from_list([1, 0])},
    "lattice.grid_records": {
        "features": unit("nd"),
        "labels": BY_NAME["y"],
        "square": Made(lambda s: Fraction(s.length("d"))),
    },
    "lattice.integer_shares": {"losses": Made(lambda s: [Fraction(1, 3), Fraction(1, 2)])},
    "lattice.lattice_ridge": {"spacing": from_list(2.0**-20, 2.0**-10)},
    "ledger.badge": {"verdict": Choice(("reproduced", "refuted")), "label": from_list("word")},
    "ledger.get": {"claim_id": from_list("pdp-table01")},
    "ledger.load": {"paper": from_list("pdp-ridge", None)},
    "ledger.verdict": dict.fromkeys(("printed", "corrected", "reading"), from_list(None, True, False)),
    "logistic.printed_slack": {"weights": not_negative(batch="scalar")},
    "logistic.sharp_slack": {"epsilon": not_negative(batch="scalar"), "weights": not_negative(batch="scalar")},
    "logistic.eta_within": {
        "epsilon": positive(at=(2.0, 3.0)),
        "weights": not_negative(at=(0.1, 0.5)),
        "penalty": Number(at=(0.5, 2.0)),
    },
    "logistic.ObjectivePerturbation.minimise": {"start": real("d", batch=True)},
    "logistic.objective_perturbation": SIGNED,
    "logistic_joint.JointObjective.best_coefficients": {"start": real("d"), "weights": simplex()},
    "logistic_joint.JointObjective.best_eta": {"coefficients": real("d"), "weights": simplex()},
    "logistic_joint.JointObjective.best_weights": {"losses": not_negative(batch=True), "eta": POSITIVE},
    "logistic_joint.JointObjective.gradient": JOINT,
    "logistic_joint.JointObjective.hessian": JOINT,
    "logistic_joint.JointObjective.value": JOINT,
    "logistic_joint.joint_objective": SIGNED
    | {
        "unit_noise": real("d"),
        "virtual_costs": not_negative(),
        "radius": POSITIVE,
        "mu": NOT_NEGATIVE,
        "sigma": NOT_NEGATIVE,
        "gamma": NOT_NEGATIVE,
    },
    "logistic_joint.water_filling": {
        "levels": real(batch=True),
        "curvature": positive(batch="scalar"),
        "cap": Number(0, 1, "(]", at=(0.6, 1.0)),
    },
    "losses.QuadraticLoss.of": {"X": real("nd"), "y": real()},
    "losses.QuadraticLoss.under_noise": {
        "noise_rate": positive("", batch="scalar"),
        "penalty": not_negative("", batch="scalar"),
    },
    "mechanism_study.Candidates.grid": {
        "names": from_list(("a", "b")),
        "axes": Made(lambda s: [np.ones(2), np.ones(3)]),
        "weights": Made(lambda s: np.ones((2, 4))),
        "eta": Made(lambda s: np.ones((2, 3))),
        "payments": Made(lambda s: np.ones((2, 3))),
    },
    "mechanism_study.public_scale_split": {"X": real("Nd"), "y": signs("N")},
    "mechanism_study.optimal_candidates": {
        "costs": positive(at=(0.1, 3.9)),
        "kappas": positive("k"),
        "scales": positive("q"),
    },
    "mechanism_study.posted_candidates": {
        "costs": positive(at=(0.1, 1.0)),
        "prices": positive("k", (1.0, 2.0)),
        "totals": positive("q"),
    },
    "mechanism_study.cheapest_candidates": {
        "costs": positive(),
        "ceiling": Number(at=(4.0, 9.0)),
        "counts": from_list([1, 2]),
        "totals": positive("q"),
    },
    "mechanism_study.misclassified": {"X": real("nd"), "y": real()},
    "mechanism_study.candidate_errors": {
        "parts": Made(lambda s: parts(s)),
        "candidates": Made(lambda s: candidates(s)),
        "ratios": positive("q"),
        "unit_noise": real("kd"),
    },
    "mechanism_study.tuned": {
        "candidates": Made(lambda s: candidates(s)),
        "ratios": positive("k"),
        "public": unit("2k"),
        "test": unit("2k"),
        "gammas": positive("q"),
    },
    "mechanisms.m1": VALUES,
    "mechanisms.m2": VALUES,
    "mechanisms.m3": VALUES,
    "mechanisms.pivot_costs": VALUES,
    "mechanisms.break_points": VALUES | {"valuations": not_negative(at=(0.1, 3.9))},
    "mechanisms.virtual_pricing": {"valuations": Array("n", 0, 10, "[]", (0.1, 3.9))},
    "menus.choose": {"prices": Made(lambda s: np.multiply.outer(np.ones(s.length("n")), menus.KNOTS))},
    "menus.menus": {"weights": Made(menu_weights)},
    "menus.schedules": {"weights": Made(menu_weights)},
    "menus.check_weights": {"weights": Made(menu_weights)},
    "menus.nothing_sold": {"money": positive(), "xp": from_list(np)},
    "menus.public": {"weights": Made(menu_weights), "shares": simplex(), "xp": from_list(np)},
    "menus.record_sale": {
        "sold": Made(lambda s: menus.nothing_sold(np.ones(1), np)),
        "share": SHARE,
        "epsilon": POSITIVE,
    },
    "menus.random_weights": {"scale": NOT_NEGATIVE},
    "menus_training.Settings": {
        "steps": Count(at=(4, 4)),
        "batch": Count(),
        "pool": Count(),
        "log": Count(at=(2, 2)),
        "hot": POSITIVE,
        "cold": POSITIVE,
    },
    **{f"menus_training.{name}": {"settings": Made(menu_settings)} for name in ("draw_shares", "start", "optimiser")},
    "menus_training.train": {"settings": Made(menu_settings), "state": from_list(None)},
    "noise.spherical_laplace": {"rate": positive("", batch="scalar")},
    "noise.coordinate_variance": {"rate": positive(batch="scalar")},
    "noise.log_density": {"z": real("d", batch=True)},
    "noise.quadratic_form_moments": {
        "matrix": Symmetric("dd", batch=True),
        "linear": real("d", batch=True),
        "rate": positive("", batch="scalar"),
    },
    "partition.lognormal_sizes": SPREAD | {"sigma": POSITIVE},
    "partition.power_law_sizes": SPREAD | {"exponent": Number(1, at=(1.5, 4.0))},
    "partition.dirichlet_counts": {
        "owners": SPREAD["owners"],
        "class_counts": Whole("k", 0, np.inf, "[)", (100, 500), whole=True),
        "concentration": POSITIVE,
        "extra": Count(0, at=(0, 9)),
    },
    "partition.draw_sizes": {
        "kind": Choice(("IID", "Non-IID")),
        "count": Count(at=(1, 3)),
        "owners": Count(at=(1, 4)),
        "of": Count(at=(5, 50)),
    },
    "partition.deal": {"labels": CLASSES, "counts": Whole("2", 0, np.inf, "[)", (0, 1), whole=True, batch=True)},
    "payments.vcg_payments": {"rule": Made(lambda s: cheapest), "least_cost": Made(lambda s: lambda c: c.min(-1))},
    "payments.envelope_payments": {"rule": Made(lambda s: lambda c: 1 / (1 + c)), "tolerance": Number(at=(1e-9, 1e-6))},
    "payments.step_payments": {
        "edges": Made(lambda s: np.array([0.0, 1.0, 5.0])),
        "rule": Made(lambda s: lambda c: (c < 1) * 1.0),
    },
    "payments.with_own_report": {"own": not_negative()},
    "populations.PrivacyGroups": {
        "f_c": Number(0, 1, "[]", at=(0.1, 0.4)),
        "f_m": Number(0, 1, "[]", at=(0.1, 0.5)),
        "eps_c": Number(at=(0.01, 0.1)),
        "eps_m": Number(at=(0.15, 0.5)),
        "eps_l": Number(at=(0.6, 2.0)),
    },
    "populations.PrivacyGroups.counts": {"n": Count(0, at=(0, 9))},
    "populations.PrivacyGroups.draw": {"n": Count(0, at=(0, 9))},
    "populations.linear_population": {"n_train": Count(), "n_test": Count()},
    "posted_prices.best_sale": {
        "family": Made(lambda s: np.zeros(s.length("n"), int)),
        "rate": positive(),
        "privacy_budget": positive(),
        "price": positive(),
        "cap": positive(),
    },
    "procurement.proxy_loss": {"weights": simplex()},
    "procurement.residuals": {
        "found": Made(lambda s: procurement.procure([0.2, 1.2], 1.0, 1.0, 0.1)),
        "virtual_costs": from_list([0.2, 1.2]),
    },
    "procurement_online.OnlineRule": {"cutoff": POSITIVE, "slope": POSITIVE},
    "procurement_online.OnlineRule.epsilon": {"virtual_costs": not_negative(batch="scalar", infinite=True)},
    "procurement_online.OnlineRule.payments": {"costs": not_negative(at=(0.1, 3.9))},
    "procurement_online.printed_rule": {"density_at_zero": POSITIVE},
    "procurement_online.realised_loss": {
        "rule": Made(lambda s: OnlineRule(3.0, 2.0)),
        "virtual_costs": not_negative(at=(0.1, 2.0), batch=True, infinite=True),
    },
    "procurement_path.pieces": {"psi": Made(lambda s: np.sort(positive().good(s)))},
    "procurement_path.sums": {
        "psi": Made(lambda s: np.sort(positive("3").good(s))),
        "p": from_list(np.array([0])),
        "q": from_list(np.array([2])),
    },
    "procurement_peer.conic_search": {"starts": Count(2, at=(2, 16))},
    "procurement_peer.gradient_and_grid": {
        "largest_eta": POSITIVE,
        "points": Count(at=(1, 5)),
        "virtual_costs": not_negative(at=(0.1, 2.0)),
    },
    "procurement_peer.project_capped_simplex": {"points": real()},
    "queries.BiasedLaplace": {"scale": SCALE, "sensitivity": not_negative("nk"), "ranges": positive(), "lower": real()},
    "queries.linear_query": {"scale": SCALE, "weights": real(at=(0.5, 2.0))},
    "queries.nonlinear_query": {"scale": SCALE, "sensitivity": not_negative("nk")},
    "queries.terms_on_grid": {
        "functions": Made(lambda s: [lambda d: d[0]]),
        "n": Count(at=(1, 3)),
        "points": Count(2, at=(2, 4)),
    },
    "queries.sensitivity_on_grid": {"values": real("qkk", batch=True)},
    "regretnet.Network": {
        "kind": Choice(("M-RegretNet", "DM-RegretNet")),
        "levels": Count(),
        "hidden": from_list((4,), (3, 3)),
        "temperature": POSITIVE,
    },
    "regretnet.check_weights": {"weights": Made(weights_of)},
    "regretnet.run": {"weights": Made(weights_of)},
    "regretnet.load_trained": {"name": from_list("dm-opt-iid"), "folder": Made(lambda s: regretnet.TRAINED)},
    "regretnet_meters.estimate": {"top": real("kn", batch=True), "bottom": not_negative("kn", (0.1, 1.0), batch=True)},
    "regretnet_meters.error_of_valid": {
        "epsilon": not_negative("kn"),
        "sizes": positive("kn"),
        "aggregation": Choice(("OptAggr", "ConvAggr")),
    },
    "regretnet_meters.ir_violation": {"truth": Made(played)},
    "regretnet_meters.refuse": {"outcome": Made(outcome)},
    "regretnet_meters.regret": {"steps": Count(0, at=(0, 2)), "reach": Number(1, at=(1.5, 3.0), infinite=True)},
    "regretnet_meters.metrics": {
        "weights": Made(weights_of),
        "market": Made(lambda s: market(s, "kn")),
        "steps": Count(0, at=(0, 1)),
        "printed_steps": Count(0, at=(0, 1)),
    },
    "regretnet_reports.Played.relative": {"money": not_negative(batch=True)},
    "regretnet_reports.learned": {"weights": Made(weights_of)},
    "regretnet_reports.misreport": {
        "levels": Count(),
        "scale": NOT_NEGATIVE,
        "family": Choice(("linear", "quadratic")),
        "step": Count(1, at=(1, 1)),
        "budget_share": POSITIVE,
        "size_share": POSITIVE,
    },
    "regretnet_reports.play": {"lies": Made(reports)},
    "regretnet_search.noise_floor": {
        "outcomes": not_negative(at=(0.0, 1.0), batch=True),
        "costs": not_negative(batch=True),
    },
    "regretnet_search.printed_regret": {"truth": Made(played), "lie": Made(played)},
    "regretnet_search.printed_search": {"steps": Count(0, at=(0, 2)), "clamp": Choice(("none", "sub-bids", "owners"))},
    "regretnet_search.search": {"steps": Count(0, at=(0, 2)), "reach": Number(1, at=(1.5, 3.0), infinite=True)},
    "regretnet_search.structured": {"levels": Count()},
    "regretnet_study.common_share": {"levels": Array("kn", 0, np.inf, "[)", (0, 4), whole=True)},
    "regretnet_study.heard": {
        "network": Made(lambda s: deterministic(s)),
        "weights": Made(weights_of),
        "market": Made(lambda s: market(s, "kn")),
        "parts": from_list(["rate"], ["sizes", "family"]),
    },
    "regretnet_study.study_markets": {"count": Count()},
    "regretnet_training.Settings": {
        "aggregation": Choice(("opt", "conv")),
        **dict.fromkeys(("epochs", "batches", "profiles", "search", "every"), Count()),
        "ascent": POSITIVE,
        "descent": POSITIVE,
    },
    "regretnet_training.train": {"state": from_list(None)},
    "ridge.estimate_norm_bound": {"total_weight": POSITIVE},
    "ridge.pdp_op": {"norm_bound": POSITIVE},
    "ridge.project_on_ball": VECTORS | {"radius": POSITIVE},
    "ridge.weighted_ridge": {
        "penalty": not_negative("", (0.1, 2.0), batch="scalar"),
        "X": real("nd"),
        "y": real(),
        "weights": not_negative(at=(0.1, 2.0), batch=True),
    },
    "ridge_calibration.implied_total": {
        "printed": Number(-np.inf, np.inf, at=(0.1, 3.0)),
        "column": Choice(("reg_pdp_op", "unreg_pdp_op")),
    },
    "ridge_calibration.standardised_totals": {
        "n": Count(at=(80, 80)),
        "draws": Made(lambda s: [draw_of(s)] * len(ridge_study.published(1).printed)),
    },
    "ridge_calibration.agreement": {
        "number": Count(1, 14, at=(1, 1)),
        "ratios": Made(lambda s: [ridge_study.published(1).printed * 0 + 1]),
        "scores": Made(lambda s: [np.zeros(len(ridge_study.published(1).printed))]),
        "false_alarm": LEVEL,
    },
    "accounts.charge": {"record": from_list(None), "losses": positive(), "random_state": from_list(None)},
    "populations.PrivacyGroups.total": {"n": Count(0, at=(0, 9))},
    "ridge_study.Draw.of": {"epsilon": positive()},
    "ridge_calibration.set_noise": {"draws": Made(lambda s: [draw_of(s)] * len(ridge_study.published(1).printed))},
    "ridge_study.Simulated.of": {"losses": real()},
    "ridge_study.cells": {"draw": Made(draw_of), "masks": Count(0, at=(0, 3))},
    "ridge_study.monte_carlo": {"runs": Count(2, at=(2, 9))},
    "ridge_study.table": {
        "draws": Made(lambda s: [draw_of(s)] * len(ridge_study.published(1).printed)),
        "masks": Count(0, at=(0, 3)),
    },
    "ridge_variants.calibrate_objective_perturbation": VARIANT,
    "ridge_variants.release_sufficient_statistics": {"moments": Made(statistics)},
    "ridge_variants.objective_perturbation_log_density": {
        "theta": Array("1", at=(-0.2, 0.2), batch=True),
        "multiplier": from_list(None),
    },
    "ridge_variants.private_constant": {"label_range": from_list((-1.0, 1.0), (-2.0, 3.0))},
    "schema.Category": {"name": from_list("smoker"), "levels": from_list(("yes", "no"), ("a", "b", "c"))},
    "schema.Category.encode": {"values": from_list(["yes", "no", "maybe"])},
    "schema.Number": {"name": from_list("age"), "low": REAL_LOW, "high": Number(-np.inf, np.inf, at=(2.0, 3.0))},
    "schema.Number.encode": {"values": real()},
    "schema.Schema.transform": {"X": from_list([[30, "yes"], [40, "no"]])},
    "schema.Schema.inverse_transform": {
        "self": Made(lambda s: schema.Schema([schema.Number("age", 0, 100)], intercept=False)),
        "X": real("n1"),
    },
    "schema.Schema.fit": {"X": from_list(None), "y": from_list(None)},
    "schema.Schema.get_feature_names_out": {"input_features": from_list(None)},
    "standins.nsl_kdd": {"part": Choice(("test",))},
}
ALWAYS = {
    "sensitivity",
    "top",
    "log",
    "owners",
    "rng",
    "spacing",
    "steps",
    "search",
    "network",
    "batch",
    "epochs",
    "draws",
    "printed_steps",
    "of",
    "least",
    "iterations",
    "restarts",
}
ALIASES: dict[str, tuple[str, ...]] = {"X": ("features", "records"), "y": ("labels", "records"), "v": ("valuations",)}
INFINITE: set[str] = {
    "auctions.gains",
    "bids.utility",
    "auctions.single_minded_gains",
    "aggregation.error_bound",
    "federated.noise_scale",
    "regretnet_reports.play",
    "procurement_path.pieces",
}
SCIKIT = "scikit-learn's own checks of X and y, in its words, which its tests of estimators want"
EXEMPT = {
    (f"estimators.{name}", argument): SCIKIT
    for argument in ("X", "y")
    for name in (
        "PersonalizedRidge.fit",
        "PersonalizedRidge.predict",
        "PrivateLogisticRegression.fit",
        "PrivateLogisticRegression.predict",
        "PrivateLogisticRegression.decision_function",
    )
}
NAN: set[str] = {
    "contracts_printed.theorem5",
    "contracts_printed.algorithm1",
    "ridge_calibration.implied_total",
    "contracts_exact.one_root",
    "contracts_exact.scaled_root",
    "regretnet_meters.error_of_valid",
}
ERRORS: dict[str, str] = {
    "contracts_conic.conic_power": "the conic solver stopped with status",
    "floating_point.laplace_attack": "scale is too small beside outputs",
    "logistic_joint.JointObjective.best_eta": "the objective falls without bound",
    "estimators.PrivateLogisticRegression.fit": "penalty = .* must exceed",
    "ledger.verdict": ".",
    "mechanism_study.public_scale_split": "is constant on the public records",
}
PAGE = "experiments of one page, which runs them"
CHECK = "a check itself: tests out of range run through it"
PAGE = "experiments of one page, which runs them"
CHECK = "a check itself: tests out of range run through it"
ENGINE = "part of a function that has checked"
FEW = {
    "mechanisms.virtual_pricing",
    "mechanism_study.optimal_candidates",
    "regretnet_meters.metrics",
    "regretnet_meters.regret",
    "regretnet_study.heard",
    "aggregation_jax.least_error",
    "aggregation_jax.opt_aggr",
    "regretnet_search.printed_search",
    "regretnet_search.search",
}
TRACED = "runs inside JAX, where a number has no value yet to check; its callers check"
NAMED = "an unknown name is a LookupError, which its own tests cover"
INNER: dict[str, str] = {
    **dict.fromkeys(
        """accounts.charge contracts_exact.one_root contracts_exact.ratio_power contracts_exact.suffix_weights
        audit_ridge.Rest.of audit_ridge.Rest.solve schema.Number.encode schema.Category.encode
        audit_ridge.Rest.take contracts_exact.scaled_root contracts_exact.largest_valuation
        audit_ridge.Rest.displacement audit_ridge.best_corners audit_ridge.best_inside procurement_path.pieces
        procurement_path.sums lattice.grid_records lattice.integer_shares lattice.constant_above
        lattice.exact_solve discrete.root_above discrete.proposal_scale full_information.dual_value
        posted_prices.best_sale bids.unit_valuation procurement.proxy_loss procurement.residuals
        integer_answers.cut integer_answers.power_of_two payments.with_own_report contracts.zero_loss
        audit_benches.in_calls audit_noise.smallest_p menus.public menus.nothing_sold menus.record_sale
        ridge_calibration.effective_sample_budget ridge_study.Simulated.of ridge_study.Draw.of
        logistic_joint.JointObjective.gradient logistic_joint.JointObjective.hessian
        logistic_joint.JointObjective.value logistic_joint.JointObjective.best_coefficients
        logistic_joint.JointObjective.best_eta logistic_joint.JointObjective.losses
        logistic_joint.JointObjective.over_eta logistic_joint.JointObjective.best_weights""".split(),
        ENGINE,
    ),
    **dict.fromkeys("aggregation_jax.opt_aggr aggregation_jax.least_error".split(), TRACED),
    **dict.fromkeys("ledger.badge ledger.get ledger.load ledger.verdict regretnet.load_trained".split(), NAMED),
}
LEFT_OUT: dict[str, str] = {
    "mutant_noise": "broken on purpose",
    "mutant_parts": "broken on purpose",
    "mutants": "installs what is broken on purpose",
    "validation": "the checks themselves: every test out of range is one of theirs",
    "plots": "draws; the pages look at it",
    "retrieval": "files and the network",
    "checkpoints": "files",
    "claims": "files",
    "breast_cancer": "files",
    "optional": "imports and displays",
    **dict.fromkeys(
        "ridge_caveats ridge_recoded contracts_study mechanism_study.joint_choice mechanism_study.joint_ends".split(),
        PAGE,
    ),
    "accuracy_study": PAGE,
    "payments.check_reports": CHECK,
    "contracts.check_valuations": CHECK,
    "bids.check_budget": CHECK,
    "federated.check_labels": CHECK,
    "menus.check_weights": CHECK,
    "regretnet.check_weights": CHECK,
    "costs.check_regular": CHECK,
    "contracts.check_power": CHECK,
    "contracts.check_cost": CHECK,
    "costs.check_law": CHECK,
    "datasets": "files",
    "standins": "draws 22,544 rows",
    "audit_battery": "minutes",
    **dict.fromkeys("regretnet_training.main menus_training.main regretnet_study.main".split(), "a command line"),
    **dict.fromkeys(
        """regretnet.init regretnet.sub_bid_values regretnet.features regretnet.forward regretnet.allocation
        regretnet.smooth_allocation regretnet.expected_epsilon regretnet.expected_value regretnet_reports.alone
        regretnet_reports.parts regretnet_reports.true_costs regretnet_reports.mean_cost
        regretnet_training.reports regretnet_training.allowed regretnet_training.lying_utilities
        regretnet_training.search regretnet_training.violations regretnet_training.run_epoch menus.increments
        menus_training.draw_markets menus_training.valuation menus_training.soft_epsilon menus_training.loss
        menus_training.run_steps""".split(),
        TRACED,
    ),
    "regretnet.save": "files",
    "regretnet_study.measure": "trains a network",
    "ledger.decide": NAMED,
    "ledger.judge": NAMED,
    "federated_study.Training.parameters": "reads an entry",
    **dict.fromkeys(
        """ridge_calibration.Pool.draw ridge_calibration.Pool.match_cells ridge_calibration.Pool.match_path
        ridge_calibration.calibrated_draws ridge_calibration.matching_epsilon""".split(),
        "minutes",
    ),
}


def scene(name: str, draw: Any, wide: bool = False) -> Scene:
    """A scene for calls of a function; JAX compiles anew for each length, so that its functions have one."""
    return Scene(draw, wide, {"n": 2, "k": 2} if name.startswith(("regretnet", "aggregation_jax")) else {})


def infinite(name: str) -> bool:
    return name in INFINITE
