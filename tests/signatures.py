"""What the arguments of every public function are: by name, and for each function where its range is another."""

from __future__ import annotations

from collections.abc import Callable
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
from hdpm_lib.audits import guesses
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
)
from hdpm_lib.learners import joint as logistic_joint
from hdpm_lib.markets import contracts, procurement
from hdpm_lib.markets.online import OnlineRule
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
    return allin.single_minded(s.once("market", lambda: market(s)), 20.0)


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


def plain_model(s: Scene) -> ridge.OutputPerturbation:
    return ridge.pdp_op(unit("nd").good(s), unit().good(s), positive().good(s), 1.0)


def quadratic(s: Scene) -> noise.QuadraticLoss:
    return noise.QuadraticLoss.of(unit("nd").good(s), unit().good(s))


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
    "groups": Made(lambda s: ridge_study.PrivacyGroups()),
    "draw": Made(draw_of),
    "row": Made(row),
    "spec": Made(lambda s: ridge_study.published(1)),
    "split": Made(split),
    "number": Count(1, 14, at=(1, 14)),
    "moments": Made(moments),
    "objective": Made(objective_of),
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


# --- where a function's range is another ------------------------------------------------------------------------------

OBJECTS: dict[str, Callable[[Scene], Any]] = {
    "audits.ridge.Rest": lambda s: rest(s),
    "schema.Category": lambda s: schema.Category("smoker", ("yes", "no")),
    "schema.Number": lambda s: schema.Number("age", 0, 100),
    "schema.Schema": lambda s: schema.Schema([schema.Number("age", 0, 100), schema.Category("smoker", ("yes", "no"))]),
    "audits.guesses.BitTest": lambda s: BitTest(200, np.array([50]), np.array([40]), 1.0),
    "auctions.bids.Bids": lambda s: s.once("market", lambda: market(s)),
    "learners.estimators.PersonalizedRidge": lambda s: ridge_model(s),
    "learners.estimators.PrivateLogisticRegression": lambda s: logistic_model(s),
    "learners.integer_answers.IntegerSum": whole_sum,
    "learners.jorgensen.SampledRidge": sampled,
    "learners.lattice.LatticeRidge": lattice_model,
    "learners.logistic.ObjectivePerturbation": perturbed,
    "learners.joint.JointObjective": objective_of,
    "noise.QuadraticLoss": quadratic,
    "book.ridge.study.PrivacyGroups": lambda s: ridge_study.PrivacyGroups(),
    "markets.online.OnlineRule": lambda s: OnlineRule(1.0, 2.0),
    "learners.queries.BiasedLaplace": linear,
    "auctions.reports.Played": played,
    "learners.ridge.OutputPerturbation": plain_model,
    "book.ridge.study.Table": lambda s: ridge_study.published(1),
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
    "auctions.allin.gains": {"auction": Made(lambda s: allin.single_minded)},
    "auctions.allin.single_minded": {"rule": Made(lambda s: allin.all_in_repaired)},
    "auctions.allin.single_minded_gains": {
        "rule": Made(lambda s: allin.all_in),
        "lies": Made(lambda s: (positive().good(s), positive().good(s))),
    },
    "audits.sums.gradient_privacy_losses": {
        "gradients": real("ncd", batch=True),
        "epsilon": not_negative(batch=True),
        "neighbours": real("ncd", batch=True),
    },
    "audits.sums.laplace_privacy_losses": {"answers": real("kkk", batch=True)},
    "audits.ridge.ridge_pair_loss": {"theta_neighbour": real("d", batch=True)},
    "audits.ridge.ridge_privacy_losses": {"restarts": Count(0, at=(0, 2))},
    "audits.ridge.ridge_corner_losses": {"X": real("nd"), "y": real(at=(-1.0, 1.0)), "corners": real("kd")},
    "audits.ridge.Rest.take": {"i": from_list(0)},
    "audits.sums.sum_privacy_losses": {"mechanism": Made(linear)},
    "book.privacy.battery.audit_learner": {"learner": Choice(("sum",))},
    "book.privacy.benches.in_calls": {
        "release": Made(lambda s: lambda rng, size: rng.random(size)),
        "draws": Count(10, at=(10, 99)),
    },
    "audits.instances.gradient_ends": {"classes": Count(), "features": Count()},
    "audits.instances.logistic_ends": {"epsilon": POSITIVE, "ratio": POSITIVE, "m": Count(2, at=(2, 5))},
    "audits.instances.ridge_ends": {"d": Count(), "own": POSITIVE},
    "audits.logistic.output_log_density": {"mechanism": Made(perturbed)},
    "audits.logistic.search_pairs": {
        "epsilon": positive("k"),
        "ratio": positive("k"),
        "others": Count(at=(1, 3)),
        "steps": Count(at=(1, 20)),
    },
    "audits.logistic.tight_pair": {"epsilon": POSITIVE, "ratio": POSITIVE, "penalty": Number(at=(1e-7, 1e-3))},
    "audits.logistic.worst_losses": {"mechanism": Made(perturbed)},
    "audits.laws.laplace_law": {"noise": real("ND")},
    "audits.laws.spherical_law": {"noise": real("ND")},
    "audits.laws.logistic_noise": {"X": real("nd"), "y": real(), "released": real("d", batch=True)},
    "audits.laws.ridge_noise": {"X": real("nd"), "y": real(), "released": real("d", batch=True)},
    "audits.laws.smallest_p": {"tests": Made(lambda s: laplace_law(real("ND").good(s), 1.0))},
    "audits.guesses.event": {"loss": POSITIVE, "claim": POSITIVE},
    "audits.guesses.exponent": {"frequency": unit(batch="scalar")},
    "audits.guesses.exposed_excess": {
        "claim": POSITIVE,
        "power": SHARE,
        "sellers": Count(),
        "scores": Count(),
        "runs": Count(100, at=(300, 3000)),
    },
    "audits.guesses.power": {"claim": POSITIVE, "true": POSITIVE, "sellers": Count(), "scores": Count()},
    "audits.laws.rate_resolution": {
        "draws": Array("n", 1, np.inf, "[)", (1.0, 100.0), "scalar", True),
        "dimension": Array("n", 1, np.inf, "[)", (1.0, 9.0), "scalar", True),
    },
    "audits.ridge.Rest.of": {"X": real("nd"), "y": real(at=(-1.0, 1.0))},
    "audits.ridge.Rest.solve": {"v": real("nd")},
    "audits.ridge.Rest.displacement": {"v": unit("nd"), "label": BY_NAME["y"]},
    "audits.ridge.best_corners": {
        "rest": Made(lambda s: rest(s)),
        "ends": Made(lambda s: np.ones((2, s.length("n"), s.length("d")))),
        "signs": Made(lambda s: np.ones((2, s.length("n")))),
    },
    "audits.ridge.best_inside": {
        "rest": Made(lambda s: rest(s)),
        "ends": Made(lambda s: np.full((2, s.length("n"), s.length("d")), 0.5)),
        "signs": Made(lambda s: np.array([[1.0], [-1.0]]) * np.ones(s.length("n"))),
    },
    "audits.guesses.bit_test": {
        "release": Made(lambda s: guesses.either(normal, normal)),
        "scores": Made(lambda s: [lambda x: x]),
    },
    "audits.guesses.either": {"first": Made(lambda s: normal), "second": Made(lambda s: normal)},
    "audits.guesses.holm": {"p_values": unit()},
    "audits.guesses.log_ratio": {"first": real("d", batch="scalar"), "second": real("d", batch="scalar")},
    "auctions.bids.Bids.valuation": {"epsilon": not_negative(batch=True)},
    "auctions.bids.bids": {
        "family": Array("n", 0, 3, "[]", (0, 3), "scalar", True),
        "rate": positive(batch="scalar"),
        "privacy_budget": positive(batch="scalar"),
        "sizes": positive(batch="scalar"),
    },
    "auctions.bids.budget_of": {"factor": BUDGET},
    "auctions.bids.unit_valuation": {
        "family": Made(lambda s: np.zeros(s.length("n"), int)),
        "rate": positive(),
        "epsilon": not_negative(),
    },
    "auctions.bids.utility": {"outcome": Made(outcome), "delivered_sizes": not_negative(at=(0.5, 1.0), batch=True)},
    "book.datasets.breast_cancer": {"variant": Choice(("diagnostic",)), "source": Choice(("auto",))},
    "markets.contracts.check_valuations": {"ceiling": Number(at=(4.0, 9.0))},
    "markets.contracts.kkt_residual": {
        "valuations": not_negative(at=(0.5, 2.0), batch=True),
        "max_mse": Number(at=(0.1, 0.1)),
    },
    "markets.contracts.zero_loss": {"shape": Made(lambda s: (s.length("n"),)), "total_range": POSITIVE},
    "markets.contracts_conic.conic_convex": CONVEX
    | {
        "cost": Made(lambda s: lambda x: x**2),
        "slope": Made(lambda s: lambda x: 2 * x),
        "n": Made(lambda s: s.length("n")),
        "tol": Number(at=(1e-6, 1e-5)),
    },
    "markets.contracts_conic.conic_power": CONIC | {"valuations": not_negative(at=(0.1, 2.0))},
    "markets.contracts.one_root": {
        "top": from_list(1.0),
        "m": positive(at=(2.0, 3.0)),
        "s": positive(),
        "B": positive(),
        "max_mse": Number(at=(0.01, 0.1)),
        "power": Number(1, at=(1.5, 4.0)),
    },
    "markets.contracts_bounds.total_loss_bound": {"max_mse": MSE},
    "markets.contracts_bounds.least_total_loss": {"max_mse": MSE},
    "markets.contracts_bounds.staircase_loss": {"max_mse": MSE},
    "markets.contracts_bounds.group_loss_bound": {
        "width": positive(batch="scalar"),
        "max_mse": positive(at=(0.01, 2.0), batch="scalar"),
    },
    "markets.contracts_bounds.staircase_mse": {"epsilon": positive(batch="scalar")},
    "markets.contracts.scaled_root": {
        "m": positive(at=(2.0, 3.0)),
        "before": positive(),
        "point": positive(),
        "B": positive(),
        "max_mse": Number(at=(0.01, 0.1)),
        "power": Number(1, at=(1.5, 4.0)),
    },
    "markets.contracts.largest_valuation": {"total_range": POSITIVE},
    "markets.contracts.ratio_power": {"ratio": unit()},
    "markets.contracts.suffix_weights": {"u": Made(lambda s: np.sort(positive().good(s))), "q": positive()},
    "markets.contracts.principle2": {"ranges": positive()},
    "markets.contracts_printed.theorem5_terms": ONE,
    "markets.contracts_printed.theorem5": ONE
    | {"bracket": Choice(("floor", "ceiling")), "scale": Choice(("printed", "accuracy"))},
    "markets.contracts_printed.algorithm1": ONE
    | {
        "valuations": positive(at=(0.5, 2.0)),
        "exponent": Choice(("root", "as read")),
        "go_to": Choice(("line 5", "line 6")),
        "bracket": Choice(("floor", "ceiling")),
        "power": Number(1, np.inf, "()", at=(1.5, 4.0)),
    },
    "markets.costs.virtual_valuation": UNDER_LAW,
    "markets.costs.ironed_virtual_valuation": UNDER_LAW,
    "book.datasets.nsl_kdd": {"part": Choice(("test",))},
    "book.datasets.nsl_kdd_table": {"part": Choice(("test",))},
    "book.datasets.source_of": {"name": Choice(("medical_cost",))},
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
    "learners.estimators.PersonalizedRidge.fit": {"epsilon": positive(batch="scalar"), "record": from_list(None)},
    "learners.estimators.PrivateLogisticRegression.fit": SIGNED
    | {"epsilon": positive(batch="scalar"), "record": from_list(None)},
    "learners.estimators.PrivateLogisticRegression.predict": {"X": real("nd")},
    "learners.estimators.PersonalizedRidge.predict": {"X": real("nd")},
    "learners.estimators.PrivateLogisticRegression.decision_function": {"X": real("nd")},
    "learners.excess_risk.choose_weights": {"sigma_over_mu": Number(ends="[)", infinite=True)},
    "learners.excess_risk.printed_constants": {"log_base": Number(1, at=(2.0, 10.0))},
    "learners.excess_risk.survival_inverse": {"probability": SHARE},
    "learners.excess_risk.weights_for_losses": {"losses": real()},
    "learners.gradients.accuracy": {"parameters": real("kCd", batch=True), "labels": CLASSES},
    "learners.gradients.check_labels": {"labels": CLASSES, "classes": Count(2, at=(2, 3))},
    "learners.gradients.clipped": ANY,
    "learners.gradients.draw_bidders": {
        "owners": Count(at=(3, 6)),
        "bidders": Count(at=(1, 3)),
        "rounds": Count(),
        "runs": Count(),
    },
    "learners.gradients.local_gradients": {
        "features": Array("nd", at=(-2.0, 2.0), nan=True),
        "parameters": real("kCd"),
        "labels": CLASSES,
        "owners": Made(lambda s: [np.arange(s.length("n")), np.array([0])]),
    },
    "learners.gradients.noise_scale": {"epsilon": not_negative(batch="scalar")},
    "learners.fedsgd.fedsgd": {
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
    "audits.digits.attack": {"possible": Made(lambda s: np.ones((2, 2, s.length("n")), bool)), "scores": real("2n")},
    "audits.digits.could_be": {"outputs": real(batch="scalar"), "loc": REAL, "scale": Number(at=(0.5, 3.0))},
    "audits.digits.laplace_attack": {
        "answers": from_list((0.0, 1.0)),
        "epsilon": POSITIVE,
        "draws": Count(at=(10, 50)),
    },
    "audits.digits.model_holds": {"loc": REAL},
    "audits.digits.numpy_laplace": {"uniform": Array("n", 0, 1, "()", (0.1, 0.9), "scalar"), "loc": REAL},
    "audits.digits.on_grid": {
        "outputs": real(batch="scalar"),
        "centre": real(batch="scalar"),
        "noise": from_list(np.float64, np.float32),
    },
    "auctions.lower_bound.dual_value": {
        "multipliers": not_negative("3"),
        "shares": simplex(),
        "largest": positive(),
        "costs": positive(),
    },
    "markets.incentives.reports_to_try": {
        "types": not_negative(at=(0.0, 4.0)),
        "grid": Count(2, at=(2, 9)),
        "special": lists(lambda s: [0.5]),
    },
    "markets.incentives.search_misreports": {
        "mechanism": Made(lambda s: first_price),
        "types": real(batch=True),
        "candidates": lists(lambda s: positive().good(s)),
        "cost": Made(lambda s: lambda true, amount: true * amount),
    },
    "learners.integer_answers.IntegerSum": {
        "weights": Whole("n", at=(-3, 3), whole=True),
        "levels": Count(at=(1, 9)),
        "scale": Rational(),
        "unit": from_list(Fraction(1, 2)),
        "offset": from_list(Fraction(1, 2)),
    },
    "learners.integer_answers.IntegerSum.release": {"data": unit()},
    "learners.integer_answers.IntegerSum.answer": {"released": real(at=(-9.0, 9.0), batch="scalar")},
    "learners.integer_answers.integer_sum": {
        "shares": unit(at=(0.1, 1.0)),
        "weights": real(at=(0.5, 2.0)),
        "levels": Count(at=(1, 1024)),
    },
    "learners.integer_answers.grid_gradients": ANY | {"clip_norm": Number(at=(0.1, 3.0))},
    "learners.integer_answers.gradient_noise": {
        "epsilon": not_negative(at=(0.1, 2.0)),
        "shape": from_list((2, 2)),
        "clip_norm": Number(at=(0.1, 3.0)),
    },
    "learners.integer_answers.integer_gradients": {
        "gradients": Array("ncd", at=(-2.0, 2.0), infinite=True, nan=True),
        "clip_norm": Number(at=(0.1, 3.0)),
    },
    "learners.integer_answers.cut": {"noisy": Made(lambda s: np.array([1, -(2**60)]))},
    "learners.integer_answers.power_of_two": {"value": from_list(0.5, 2.0), "name": from_list("value")},
    "learners.joint.alternate": {
        "start_weights": simplex(),
        "iterations": Count(at=(2000, 2000)),
        "objective": Made(same_joint),
    },
    "learners.joint.descend_weights": {
        "start": Made(lambda s: (np.zeros(s.length("d")), simplex().good(s))),
        "objective": Made(same_joint),
    },
    "learners.joint.descend_logs": {
        "start": Made(lambda s: (np.zeros(s.length("d")), simplex().good(s))),
        "objective": Made(same_joint),
    },
    "learners.joint.project_log_simplex": {"z": real()},
    "learners.jorgensen.SampledRidge.loss": {"test_loss": Made(quadratic), "penalty": NOT_NEGATIVE},
    "learners.jorgensen.SampledRidge.log_density": {
        "points": real("d", batch=True),
        "probability": Simplex("2", 0, 1, "[]", (0.1, 1.0)),
    },
    "learners.jorgensen.sampled_ridge": {
        "masks": Made(lambda s: np.ones((2, s.length("n")))),
        "size_in_noise": Choice(("realised", "fixed")),
    },
    "learners.lattice.constant_above": {"penalty": Rational(), "square": Rational()},
    "learners.lattice.exact_solve": {"matrix": from_list([[2, 1], [1, 3]]), "vector": from_list([1, 0])},
    "learners.lattice.grid_records": {
        "features": unit("nd"),
        "labels": BY_NAME["y"],
        "square": Made(lambda s: Fraction(s.length("d"))),
    },
    "learners.lattice.integer_shares": {"losses": Made(lambda s: [Fraction(1, 3), Fraction(1, 2)])},
    "learners.lattice.lattice_ridge": {"spacing": from_list(2.0**-20, 2.0**-10)},
    "book.ledger.badge": {"verdict": Choice(("reproduced", "refuted")), "label": from_list("word")},
    "book.ledger.get": {"claim_id": from_list("pdp-table01")},
    "book.ledger.load": {"paper": from_list("pdp-ridge", None)},
    "book.ledger.verdict": dict.fromkeys(("printed", "corrected", "reading"), from_list(None, True, False)),
    "learners.logistic.printed_slack": {"weights": not_negative(batch="scalar")},
    "learners.logistic.sharp_slack": {"epsilon": not_negative(batch="scalar"), "weights": not_negative(batch="scalar")},
    "learners.logistic.eta_within": {
        "epsilon": positive(at=(2.0, 3.0)),
        "weights": not_negative(at=(0.1, 0.5)),
        "penalty": Number(at=(0.5, 2.0)),
    },
    "learners.logistic.ObjectivePerturbation.minimise": {"start": real("d", batch=True)},
    "learners.logistic.objective_perturbation": SIGNED,
    "learners.joint.JointObjective.best_coefficients": {"start": real("d"), "weights": simplex()},
    "learners.joint.JointObjective.best_eta": {"coefficients": real("d"), "weights": simplex()},
    "learners.joint.JointObjective.best_weights": {"losses": not_negative(batch=True), "eta": POSITIVE},
    "learners.joint.JointObjective.gradient": JOINT,
    "learners.joint.JointObjective.hessian": JOINT,
    "learners.joint.JointObjective.value": JOINT,
    "learners.joint.joint_objective": SIGNED
    | {
        "unit_noise": real("d"),
        "virtual_costs": not_negative(),
        "radius": POSITIVE,
        "mu": NOT_NEGATIVE,
        "sigma": NOT_NEGATIVE,
        "gamma": NOT_NEGATIVE,
    },
    "learners.joint.water_filling": {
        "levels": real(batch=True),
        "curvature": positive(batch="scalar"),
        "cap": Number(0, 1, "(]", at=(0.6, 1.0)),
    },
    "noise.QuadraticLoss.of": {"X": real("nd"), "y": real()},
    "noise.QuadraticLoss.under_noise": {
        "noise_rate": positive("", batch="scalar"),
        "penalty": not_negative("", batch="scalar"),
    },
    "book.logistic.study.Candidates.grid": {
        "names": from_list(("a", "b")),
        "axes": Made(lambda s: [np.ones(2), np.ones(3)]),
        "weights": Made(lambda s: np.ones((2, 4))),
        "eta": Made(lambda s: np.ones((2, 3))),
        "payments": Made(lambda s: np.ones((2, 3))),
    },
    "book.logistic.study.public_scale_split": {"X": real("Nd"), "y": signs("N")},
    "book.logistic.study.optimal_candidates": {
        "costs": positive(at=(0.1, 3.9)),
        "kappas": positive("k"),
        "scales": positive("q"),
    },
    "book.logistic.study.posted_candidates": {
        "costs": positive(at=(0.1, 1.0)),
        "prices": positive("k", (1.0, 2.0)),
        "totals": positive("q"),
    },
    "book.logistic.study.cheapest_candidates": {
        "costs": positive(),
        "ceiling": Number(at=(4.0, 9.0)),
        "counts": from_list([1, 2]),
        "totals": positive("q"),
    },
    "book.logistic.study.misclassified": {"X": real("nd"), "y": real()},
    "book.logistic.study.candidate_errors": {
        "parts": Made(lambda s: parts(s)),
        "candidates": Made(lambda s: candidates(s)),
        "ratios": positive("q"),
        "unit_noise": real("kd"),
    },
    "book.logistic.study.tuned": {
        "candidates": Made(lambda s: candidates(s)),
        "ratios": positive("k"),
        "public": unit("2k"),
        "test": unit("2k"),
        "gammas": positive("q"),
    },
    "markets.mechanisms.m1": VALUES,
    "markets.mechanisms.m2": VALUES,
    "markets.mechanisms.m3": VALUES,
    "markets.mechanisms.pivot_costs": VALUES,
    "markets.mechanisms.break_points": VALUES | {"valuations": not_negative(at=(0.1, 3.9))},
    "markets.mechanisms.virtual_pricing": {"valuations": Array("n", 0, 10, "[]", (0.1, 3.9))},
    "auctions.menus.choose": {"prices": Made(lambda s: np.multiply.outer(np.ones(s.length("n")), menus.KNOTS))},
    "auctions.menus.menus": {"weights": Made(menu_weights)},
    "auctions.menus.schedules": {"weights": Made(menu_weights)},
    "auctions.menus.check_weights": {"weights": Made(menu_weights)},
    "auctions.menus.nothing_sold": {"money": positive(), "xp": from_list(np)},
    "auctions.menus.public": {"weights": Made(menu_weights), "shares": simplex(), "xp": from_list(np)},
    "auctions.menus.record_sale": {
        "sold": Made(lambda s: menus.nothing_sold(np.ones(1), np)),
        "share": SHARE,
        "epsilon": POSITIVE,
    },
    "auctions.menus.random_weights": {"scale": NOT_NEGATIVE},
    "auctions.menus_training.Settings": {
        "steps": Count(at=(4, 4)),
        "batch": Count(),
        "pool": Count(),
        "log": Count(at=(2, 2)),
        "hot": POSITIVE,
        "cold": POSITIVE,
    },
    **{f"menus_training.{name}": {"settings": Made(menu_settings)} for name in ("draw_shares", "start", "optimiser")},
    "auctions.menus_training.train": {"settings": Made(menu_settings), "state": from_list(None)},
    "noise.spherical_laplace": {"rate": positive("", batch="scalar")},
    "noise.coordinate_variance": {"rate": positive(batch="scalar")},
    "noise.log_density": {"z": real("d", batch=True)},
    "noise.quadratic_form_moments": {
        "matrix": Symmetric("dd", batch=True),
        "linear": real("d", batch=True),
        "rate": positive("", batch="scalar"),
    },
    "auctions.partition.lognormal_sizes": SPREAD | {"sigma": POSITIVE},
    "auctions.partition.power_law_sizes": SPREAD | {"exponent": Number(1, at=(1.5, 4.0))},
    "auctions.partition.dirichlet_counts": {
        "owners": SPREAD["owners"],
        "class_counts": Whole("k", 0, np.inf, "[)", (100, 500), whole=True),
        "concentration": POSITIVE,
        "extra": Count(0, at=(0, 9)),
    },
    "auctions.partition.draw_sizes": {
        "kind": Choice(("IID", "Non-IID")),
        "count": Count(at=(1, 3)),
        "owners": Count(at=(1, 4)),
        "of": Count(at=(5, 50)),
    },
    "auctions.partition.deal": {
        "labels": CLASSES,
        "counts": Whole("2", 0, np.inf, "[)", (0, 1), whole=True, batch=True),
    },
    "markets.payments.vcg_payments": {
        "rule": Made(lambda s: cheapest),
        "least_cost": Made(lambda s: lambda c: c.min(-1)),
    },
    "markets.payments.envelope_payments": {
        "rule": Made(lambda s: lambda c: 1 / (1 + c)),
        "tolerance": Number(at=(1e-9, 1e-6)),
    },
    "markets.payments.step_payments": {
        "edges": Made(lambda s: np.array([0.0, 1.0, 5.0])),
        "rule": Made(lambda s: lambda c: (c < 1) * 1.0),
    },
    "markets.payments.with_own_report": {"own": not_negative()},
    "book.ridge.study.PrivacyGroups": {
        "f_c": Number(0, 1, "[]", at=(0.1, 0.4)),
        "f_m": Number(0, 1, "[]", at=(0.1, 0.5)),
        "eps_c": Number(at=(0.01, 0.1)),
        "eps_m": Number(at=(0.15, 0.5)),
        "eps_l": Number(at=(0.6, 2.0)),
    },
    "book.ridge.study.PrivacyGroups.counts": {"n": Count(0, at=(0, 9))},
    "book.ridge.study.PrivacyGroups.draw": {"n": Count(0, at=(0, 9))},
    "book.ridge.study.linear_population": {"n_train": Count(), "n_test": Count()},
    "auctions.posted_prices.best_sale": {
        "family": Made(lambda s: np.zeros(s.length("n"), int)),
        "rate": positive(),
        "privacy_budget": positive(),
        "price": positive(),
        "cap": positive(),
    },
    "markets.procurement.proxy_loss": {"weights": simplex()},
    "markets.procurement.residuals": {
        "found": Made(lambda s: procurement.procure([0.2, 1.2], 1.0, 1.0, 0.1)),
        "virtual_costs": from_list([0.2, 1.2]),
    },
    "markets.online.OnlineRule": {"cutoff": POSITIVE, "slope": POSITIVE},
    "markets.online.OnlineRule.epsilon": {"virtual_costs": not_negative(batch="scalar", infinite=True)},
    "markets.online.OnlineRule.payments": {"costs": not_negative(at=(0.1, 3.9))},
    "markets.online.printed_rule": {"density_at_zero": POSITIVE},
    "markets.online.realised_loss": {
        "rule": Made(lambda s: OnlineRule(3.0, 2.0)),
        "virtual_costs": not_negative(at=(0.1, 2.0), batch=True, infinite=True),
    },
    "markets.procurement.pieces": {"psi": Made(lambda s: np.sort(positive().good(s)))},
    "markets.procurement.sums": {
        "psi": Made(lambda s: np.sort(positive("3").good(s))),
        "p": from_list(np.array([0])),
        "q": from_list(np.array([2])),
    },
    "book.logistic.peer.conic_search": {"starts": Count(2, at=(2, 16))},
    "book.logistic.peer.gradient_and_grid": {
        "largest_eta": POSITIVE,
        "points": Count(at=(1, 5)),
        "virtual_costs": not_negative(at=(0.1, 2.0)),
    },
    "book.logistic.peer.project_capped_simplex": {"points": real()},
    "learners.queries.BiasedLaplace": {
        "scale": SCALE,
        "sensitivity": not_negative("nk"),
        "ranges": positive(),
        "lower": real(),
    },
    "learners.queries.linear_query": {"scale": SCALE, "weights": real(at=(0.5, 2.0))},
    "learners.queries.nonlinear_query": {"scale": SCALE, "sensitivity": not_negative("nk")},
    "learners.queries.terms_on_grid": {
        "functions": Made(lambda s: [lambda d: d[0]]),
        "n": Count(at=(1, 3)),
        "points": Count(2, at=(2, 4)),
    },
    "learners.queries.sensitivity_on_grid": {"values": real("qkk", batch=True)},
    "auctions.networks.Network": {
        "kind": Choice(("M-RegretNet", "DM-RegretNet")),
        "levels": Count(),
        "hidden": from_list((4,), (3, 3)),
        "temperature": POSITIVE,
    },
    "auctions.networks.check_weights": {"weights": Made(weights_of)},
    "auctions.networks.run": {"weights": Made(weights_of)},
    "auctions.networks.load_trained": {"name": from_list("dm-opt-iid"), "folder": Made(lambda s: networks.TRAINED)},
    "auctions.meters.estimate": {"top": real("kn", batch=True), "bottom": not_negative("kn", (0.1, 1.0), batch=True)},
    "auctions.meters.error_of_valid": {
        "epsilon": not_negative("kn"),
        "sizes": positive("kn"),
        "aggregation": Choice(("OptAggr", "ConvAggr")),
    },
    "auctions.meters.ir_violation": {"truth": Made(played)},
    "auctions.meters.refuse": {"outcome": Made(outcome)},
    "auctions.meters.regret": {"steps": Count(0, at=(0, 2)), "reach": Number(1, at=(1.5, 3.0), infinite=True)},
    "auctions.meters.metrics": {
        "weights": Made(weights_of),
        "market": Made(lambda s: market(s, "kn")),
        "steps": Count(0, at=(0, 1)),
        "printed_steps": Count(0, at=(0, 1)),
    },
    "auctions.reports.Played.relative": {"money": not_negative(batch=True)},
    "auctions.reports.learned": {"weights": Made(weights_of)},
    "auctions.reports.misreport": {
        "levels": Count(),
        "scale": NOT_NEGATIVE,
        "family": Choice(("linear", "quadratic")),
        "step": Count(1, at=(1, 1)),
        "budget_share": POSITIVE,
        "size_share": POSITIVE,
    },
    "auctions.reports.play": {"lies": Made(reports_of)},
    "auctions.misreports.noise_floor": {
        "outcomes": not_negative(at=(0.0, 1.0), batch=True),
        "costs": not_negative(batch=True),
    },
    "auctions.misreports.printed_regret": {"truth": Made(played), "lie": Made(played)},
    "auctions.misreports.printed_search": {
        "steps": Count(0, at=(0, 2)),
        "clamp": Choice(("none", "sub-bids", "owners")),
    },
    "auctions.misreports.search": {"steps": Count(0, at=(0, 2)), "reach": Number(1, at=(1.5, 3.0), infinite=True)},
    "auctions.misreports.structured": {"levels": Count()},
    "book.federated.study.common_share": {"levels": Array("kn", 0, np.inf, "[)", (0, 4), whole=True)},
    "book.federated.study.heard": {
        "network": Made(lambda s: deterministic(s)),
        "weights": Made(weights_of),
        "market": Made(lambda s: market(s, "kn")),
        "parts": from_list(["rate"], ["sizes", "family"]),
    },
    "book.federated.study.study_markets": {"count": Count()},
    "auctions.training.Settings": {
        "aggregation": Choice(("opt", "conv")),
        **dict.fromkeys(("epochs", "batches", "profiles", "search", "every"), Count()),
        "ascent": POSITIVE,
        "descent": POSITIVE,
    },
    "auctions.training.train": {"state": from_list(None)},
    "learners.ridge.estimate_norm_bound": {"total_weight": POSITIVE},
    "learners.ridge.pdp_op": {"norm_bound": POSITIVE},
    "learners.ridge.project_on_ball": VECTORS | {"radius": POSITIVE},
    "learners.ridge.weighted_ridge": {
        "penalty": not_negative("", (0.1, 2.0), batch="scalar"),
        "X": real("nd"),
        "y": real(),
        "weights": not_negative(at=(0.1, 2.0), batch=True),
    },
    "book.ridge.calibration.implied_total": {
        "printed": Number(-np.inf, np.inf, at=(0.1, 3.0)),
        "column": Choice(("reg_pdp_op", "unreg_pdp_op")),
    },
    "book.ridge.calibration.standardised_totals": {
        "n": Count(at=(80, 80)),
        "draws": Made(lambda s: [draw_of(s)] * len(ridge_study.published(1).printed)),
    },
    "book.ridge.calibration.agreement": {
        "number": Count(1, 14, at=(1, 1)),
        "ratios": Made(lambda s: [ridge_study.published(1).printed * 0 + 1]),
        "scores": Made(lambda s: [np.zeros(len(ridge_study.published(1).printed))]),
        "false_alarm": LEVEL,
    },
    "accounts.charge": {"record": from_list(None), "losses": positive(), "random_state": from_list(None)},
    "book.ridge.study.PrivacyGroups.total": {"n": Count(0, at=(0, 9))},
    "book.ridge.study.Draw.of": {"epsilon": positive()},
    "book.ridge.calibration.set_noise": {"draws": Made(lambda s: [draw_of(s)] * len(ridge_study.published(1).printed))},
    "book.ridge.study.Simulated.of": {"losses": real()},
    "book.ridge.study.cells": {"draw": Made(draw_of), "masks": Count(0, at=(0, 3))},
    "book.ridge.study.monte_carlo": {"runs": Count(2, at=(2, 9))},
    "book.ridge.study.table": {
        "draws": Made(lambda s: [draw_of(s)] * len(ridge_study.published(1).printed)),
        "masks": Count(0, at=(0, 3)),
    },
    "learners.ridge_variants.calibrate_objective_perturbation": VARIANT,
    "learners.ridge_variants.release_sufficient_statistics": {"moments": Made(statistics)},
    "learners.ridge_variants.objective_perturbation_log_density": {
        "theta": Array("1", at=(-0.2, 0.2), batch=True),
        "multiplier": from_list(None),
    },
    "learners.ridge_variants.private_constant": {"label_range": from_list((-1.0, 1.0), (-2.0, 3.0))},
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
    "book.standins.nsl_kdd": {"part": Choice(("test",))},
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
    "auctions.allin.gains",
    "auctions.bids.utility",
    "auctions.allin.single_minded_gains",
    "aggregation.error_bound",
    "learners.gradients.noise_scale",
    "auctions.reports.play",
    "markets.procurement.pieces",
}
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
NAN: set[str] = {
    "markets.contracts_printed.theorem5",
    "markets.contracts_printed.algorithm1",
    "book.ridge.calibration.implied_total",
    "markets.contracts.one_root",
    "markets.contracts.scaled_root",
    "auctions.meters.error_of_valid",
}
ERRORS: dict[str, str] = {
    "markets.contracts_conic.conic_power": "the conic solver stopped with status",
    "audits.digits.laplace_attack": "scale is too small beside outputs",
    "audits.guesses.exposed_excess": "expose no excess of claim",
    "learners.joint.JointObjective.best_eta": "the objective falls without bound",
    "learners.estimators.PrivateLogisticRegression.fit": "penalty = .* must exceed",
    "book.ledger.verdict": ".",
    "book.logistic.study.public_scale_split": "is constant on the public records",
}
PAGE = "experiments of one page, which runs them"
CHECK = "a check itself: tests out of range run through it"
PAGE = "experiments of one page, which runs them"
CHECK = "a check itself: tests out of range run through it"
ENGINE = "part of a function that has checked"
FEW = {
    "markets.mechanisms.virtual_pricing",
    "book.logistic.study.optimal_candidates",
    "auctions.meters.metrics",
    "auctions.meters.regret",
    "book.federated.study.heard",
    "aggregation_jax.least_error",
    "aggregation_jax.opt_aggr",
    "auctions.misreports.printed_search",
    "auctions.misreports.search",
}
TRACED = "runs inside JAX, where a number has no value yet to check; its callers check"
NAMED = "an unknown name is a LookupError, which its own tests cover"
INNER: dict[str, str] = {
    **dict.fromkeys(
        """accounts.charge markets.contracts.one_root markets.contracts.ratio_power markets.contracts.suffix_weights
        audits.ridge.Rest.solve schema.Number.encode schema.Category.encode
        audits.ridge.Rest.take markets.contracts.scaled_root markets.contracts.largest_valuation
        audits.ridge.Rest.displacement audits.ridge.best_corners audits.ridge.best_inside
        markets.procurement.pieces markets.procurement.sums learners.lattice.grid_records
        learners.lattice.integer_shares learners.lattice.constant_above learners.lattice.exact_solve
        discrete.root_above discrete.proposal_scale auctions.lower_bound.dual_value
        auctions.posted_prices.best_sale auctions.bids.unit_valuation markets.procurement.proxy_loss
        markets.procurement.residuals learners.integer_answers.cut learners.integer_answers.power_of_two
        markets.payments.with_own_report markets.contracts.zero_loss book.privacy.benches.in_calls
        audits.laws.smallest_p auctions.menus.public auctions.menus.nothing_sold auctions.menus.record_sale
        book.ridge.calibration.effective_sample_budget book.ridge.study.Simulated.of book.ridge.study.Draw.of
        learners.joint.JointObjective.gradient learners.joint.JointObjective.hessian
        learners.joint.JointObjective.value learners.joint.JointObjective.best_coefficients
        learners.joint.JointObjective.best_eta learners.joint.JointObjective.losses
        learners.joint.JointObjective.over_eta learners.joint.JointObjective.best_weights""".split(),
        ENGINE,
    ),
    **dict.fromkeys("aggregation_jax.opt_aggr aggregation_jax.least_error".split(), TRACED),
    **dict.fromkeys(
        """book.ledger.badge
        book.ledger.get book.ledger.load book.ledger.verdict auctions.networks.load_trained""".split(),
        NAMED,
    ),
}
LEFT_OUT: dict[str, str] = {
    "book.privacy.bugs": "broken on purpose",
    "book.privacy.mutants": "installs what is broken on purpose",
    "validation": "the checks themselves: every test out of range is one of theirs",
    "book.plots": "draws; the pages look at it",
    "book.retrieval": "files and the network",
    "auctions.checkpoints": "files",
    "book.ledger.read": "files",
    "book.ledger.Claim": "files",
    "optional": "imports and displays",
    **dict.fromkeys(
        """book.ridge.caveats book.ridge.recoded book.contracts.study book.logistic.study.joint_choice
        book.logistic.study.joint_ends""".split(),
        PAGE,
    ),
    "book.federated.accuracy": PAGE,
    "markets.payments.check_reports": CHECK,
    "markets.contracts.check_valuations": CHECK,
    "auctions.bids.check_budget": CHECK,
    "learners.gradients.check_labels": CHECK,
    "auctions.menus.check_weights": CHECK,
    "auctions.networks.check_weights": CHECK,
    "markets.costs.check_regular": CHECK,
    "markets.contracts.check_power": CHECK,
    "markets.contracts.check_cost": CHECK,
    "markets.costs.check_law": CHECK,
    "book.datasets": "files",
    "book.standins": "draws 22,544 rows",
    "book.privacy.battery": "minutes",
    **dict.fromkeys(
        """auctions.training.main auctions.menus_training.main book.federated.study.main""".split(), "a command line"
    ),
    **dict.fromkeys(
        """auctions.networks.init auctions.networks.sub_bid_values auctions.networks.features
        auctions.networks.forward auctions.networks.allocation auctions.networks.smooth_allocation
        auctions.networks.expected_epsilon auctions.networks.expected_value auctions.reports.alone
        auctions.reports.parts auctions.reports.true_costs auctions.reports.mean_cost auctions.training.reports
        auctions.training.allowed auctions.training.lying_utilities auctions.training.search
        auctions.training.violations auctions.training.run_epoch auctions.menus.increments
        auctions.menus_training.draw_markets auctions.menus_training.valuation
        auctions.menus_training.soft_epsilon auctions.menus_training.loss auctions.menus_training.run_steps""".split(),
        TRACED,
    ),
    "auctions.networks.save": "files",
    "book.federated.study.measure": "trains a network",
    "book.ledger.decide": NAMED,
    "book.ledger.judge": NAMED,
    "learners.fedsgd.Training.parameters": "reads an entry",
    **dict.fromkeys(
        """book.ridge.calibration.Pool.draw book.ridge.calibration.Pool.match_cells
        book.ridge.calibration.Pool.match_path book.ridge.calibration.calibrated_draws
        book.ridge.calibration.matching_epsilon""".split(),
        "minutes",
    ),
}


JAX = tuple(f"auctions.{name}." for name in "networks training reports misreports meters".split())


def scene(name: str, draw: Any, wide: bool = False) -> Scene:
    """A scene for calls of a function; JAX compiles anew for each length, so that its functions have one."""
    return Scene(draw, wide, {"n": 2, "k": 2} if name.startswith((*JAX, "aggregation_jax.")) else {})


def infinite(name: str) -> bool:
    return name in INFINITE
