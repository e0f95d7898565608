"""The cases: functions of the library, by wing, with their input and what a user would call
instead.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import optimize, stats
from sklearn.linear_model import LogisticRegression, Ridge

from hdpm_book.contracts.study import conic_power
from hdpm_book.federated.allin import all_in_printed
from hdpm_book.federated.partition import budget_of, draw_bids
from hdpm_book.logistic.peer import conic_search
from hdpm_lib.aggregation import error_bound, least_error_weights, size_weights
from hdpm_lib.auctions.allin import all_or_nothing
from hdpm_lib.auctions.menus import menus, trained_weights
from hdpm_lib.auctions.posted_prices import posted_prices
from hdpm_lib.audits.black_box import audit
from hdpm_lib.audits.meters import privacy_losses
from hdpm_lib.designs.comparison import compare_markets
from hdpm_lib.designs.rules import Task
from hdpm_lib.discrete import discrete_laplace
from hdpm_lib.learners.estimators import PersonalizedRidge, PrivateLogisticRegression
from hdpm_lib.learners.fedsgd import fedsgd
from hdpm_lib.learners.gradients import draw_bidders
from hdpm_lib.learners.integer_answers import integer_gradients
from hdpm_lib.learners.objective import objective_perturbation
from hdpm_lib.learners.queries import linear_query, nonlinear_query
from hdpm_lib.learners.ridge import output_perturbation
from hdpm_lib.learners.weighted_mean import weighted_mean
from hdpm_lib.markets.contracts import equal_loss_contract, least_cost_contract
from hdpm_lib.markets.costs import virtual_valuation
from hdpm_lib.markets.error_minimising import error_minimising
from hdpm_lib.markets.fair_query import fair_query
from hdpm_lib.markets.incentives import reports_to_try, search_misreports
from hdpm_lib.markets.local_menu import local_menu
from hdpm_lib.markets.mechanisms import equal_loss_pricing, myerson_contract, vcg_contract
from hdpm_lib.markets.payments import envelope_payments, vcg_payments
from hdpm_lib.markets.procurement import procure
from hdpm_lib.markets.procurement_auction import procurement_auction
from hdpm_lib.noise import spherical_laplace
from tests.bench.aggregation import conic_weights
from tests.bench.case import SIZES, Arguments, Array, Case, Generator, Peer, measure

FEW = (10, 100, 300, 1_000, 3_000)  # of what is quadratic
SQUARE = "a table of n x n numbers"  # why these end
RECORDS = "records"
OF_TEN = ("markets of ten", "owners, ten a market")
FEATURES = (5, 10, 50)

# --- weights for unequal noise, and noise itself -------------------------------------------------


def batch(n: int, rng: Generator) -> Arguments:
    """Losses as FL-Market's auctions with eight levels buy them, sizes lognormal."""
    shape = n // 10, 10
    losses = rng.uniform(0.5, 2, shape) * rng.integers(1, 9, shape) / 8
    return losses, np.maximum(10, rng.lognormal(3, 2, shape))


def draws(
    law: Callable[..., Any], variant: str, *parameters: float, peer: Peer | None = None
) -> Case:
    """Return the case of so many draws of a noise with these parameters."""
    call = lambda rng, n: law(*parameters, rng=rng, size=n)  # noqa: E731
    return Case(law, lambda n, rng: (rng, n), call, variant, "draws", peer=peer)


def by_numpy(rng: Generator, n: int) -> Array:
    """Draw the difference of two geometric numbers: the same law but for rounding."""
    p = -math.expm1(-1 / 1000)
    return rng.geometric(p, n) - rng.geometric(p, n)


WEIGHTS = Peer(
    "Clarabel",
    lambda epsilon, sizes: conic_weights(epsilon, sizes / sizes.sum()),
    1_000,
    lambda given, ours, theirs: error_bound(theirs, *given) / error_bound(ours, *given) - 1,
    "relative excess of the bound",
)
GROUND = (
    Case(
        least_error_weights,
        lambda n, rng: (rng.uniform(0.5, 2, n), rng.lognormal(3, 2, n)),
        None,
        "one market",
        "owners",
        peer=WEIGHTS,
    ),
    Case(least_error_weights, batch, None, *OF_TEN),
    draws(spherical_laplace, "12 dimensions", 12, 2.0),
    draws(
        discrete_laplace,
        "scale 1000",
        1000,
        peer=Peer("NumPy's geometric numbers, not exact", by_numpy, 100_000),
    ),
)

# --- learners: a fit and a release, by the number of records -------------------------------------

D = 10  # features, where no other number is said
PENALTY = 1.0  # weight


def records(n: int, rng: Generator, features: int = D) -> Arguments:
    X = rng.random((n, features))
    y = X @ np.linspace(-0.2, 0.2, features) + rng.normal(0, 0.1, n)
    return X, np.clip(y, -1, 1), rng.uniform(0.1, 1, n), rng


def fit(learner: Callable[..., Any], *constants: float) -> Callable[..., Any]:
    """Fit and release, with these constants."""

    def release(X: Array, y: Array, epsilon: Array, rng: Generator) -> object:
        return learner(epsilon, *constants, features=X.shape[1]).release(X, y, rng=rng)

    return release


# which is true of the small ones
warnings.filterwarnings("ignore", "the fit will be mostly noise")


def ridge(X: Array, y: Array, epsilon: Array, _: Generator) -> object:
    """Fit the estimator as it is."""
    return PersonalizedRidge().fit(X, y, epsilon=epsilon)


def ridge_in_floats(X: Array, y: Array, epsilon: Array, _: Generator) -> object:
    return PersonalizedRidge(arithmetic="ideal").fit(X, y, epsilon=epsilon)


def public_ridge(X: Array, y: Array, epsilon: Array, _: Generator) -> object:
    """Fit what scikit-learn offers by default."""
    return Ridge().fit(X, y, sample_weight=epsilon)


def plain_fit(X: Array, y: Array, epsilon: Array, rng: Generator) -> Array:
    """Fit the same by scikit-learn, and noise of some rate."""
    model = Ridge(alpha=PENALTY, fit_intercept=False).fit(
        X, y, sample_weight=epsilon / epsilon.sum()
    )
    direction = rng.standard_normal(D)
    return np.asarray(model.coef_ + rng.gamma(D, 0.1) * direction / np.linalg.norm(direction))


def signed(n: int, rng: Generator, features: int = D) -> Arguments:
    X = rng.uniform(-1, 1, (n, features)) / np.sqrt(features)
    y = np.where(X @ np.linspace(-1, 2, features) + rng.normal(0, 0.1, n) > 0, 1.0, -1.0)
    weights = rng.uniform(0.5, 1.5, n)
    return X, y, weights / weights.sum(), rng


def plain_logistic(X: Array, y: Array, weights: Array, _: Generator) -> Array:
    """Fit the same objective without noise."""
    return np.asarray(
        LogisticRegression(C=100.0, fit_intercept=False).fit(X, y, sample_weight=weights).coef_
    )


def classifier(X: Array, y: Array, weights: Array, _: Generator) -> object:
    """Fit the estimator as it is, with losses of 1 on average."""
    model = PrivateLogisticRegression(classes=(-1.0, 1.0), feature_norm=1.0)
    return model.fit(X, y, epsilon=weights * len(weights))


def public_classifier(X: Array, y: Array, weights: Array, _: Generator) -> object:
    """Fit what scikit-learn offers by default."""
    return LogisticRegression().fit(X, y, sample_weight=weights * len(weights))


def balls(n: int, rng: Generator) -> Arguments:
    X, _, weights, _ = signed(n, rng)
    return X, weights, rng


def shares(n: int, rng: Generator) -> Arguments:
    return rng.random(n), rng.random(n), rng


def summed(s: Array, x: Array, rng: Generator) -> Array:
    """Return a query and its release."""
    return linear_query(s, 10.0).release(x, rng=rng)


def gradients(n: int, rng: Generator) -> Arguments:
    return rng.normal(0, 0.01, (n, 5, 20)), rng.uniform(0.5, 2, n), rng


def noisy_gradients(table: Array, epsilon: Array, rng: Generator) -> Array:
    """Answer the same with floats: clipped to an L1 norm of 1, and Laplace noise."""
    norms = np.abs(table).sum((1, 2), keepdims=True)
    return np.asarray(
        table / np.maximum(norms, 1) + rng.laplace(0, (2 / epsilon)[:, None, None], table.shape)
    )


def federation(n: int, rng: Generator) -> Arguments:
    """Ten owners, ten rounds of all."""
    X = rng.standard_normal((n, 20))
    labels = rng.integers(5, size=n)
    return (
        X,
        labels,
        [np.array_split(rng.permutation(n), 10)],
        draw_bidders(10, 10, 10, 1, rng),
        rng,
    )


def ten_rounds(
    X: Array, labels: Array, owners: list[list[Array]], asked: Array, rng: Generator
) -> object:
    limits = np.full((1, 10), 5.0)
    rule = {"equal": size_weights}
    begin = np.zeros((5, 20))
    return fedsgd(X, labels, owners, limits, asked, rule, begin, rng=rng)


FLOATS = Peer("the same in floats, arithmetic='ideal'", ridge_in_floats, 100_000)
PUBLIC_RIDGE = Peer("scikit-learn's Ridge, not private", public_ridge, 100_000)
PUBLIC_CLASSIFIER = Peer(
    "scikit-learn's LogisticRegression, not private", public_classifier, 10_000
)
RIDGE = Peer("scikit-learn's Ridge and NumPy's noise, no guarantee", plain_fit, 100_000)
LOGISTIC = Peer("scikit-learn's LogisticRegression, not private", plain_logistic, 100_000)
SUM = Peer("NumPy's sum and Laplace noise", lambda s, x, rng: s @ x + rng.laplace(0, 10.0), 100_000)
LEARNERS = (
    Case(
        output_perturbation, records, fit(output_perturbation, PENALTY), counts=RECORDS, peer=RIDGE
    ),
    *(
        Case(
            PersonalizedRidge,
            partial(records, features=features),
            ridge,
            f"by default, {features} features",
            RECORDS,
            peer=PUBLIC_RIDGE,
        )
        for features in FEATURES
    ),
    Case(PersonalizedRidge, records, ridge, "beside floats", RECORDS, peer=FLOATS),
    *(
        Case(
            PrivateLogisticRegression,
            partial(signed, features=features),
            classifier,
            f"by default, {features} features",
            RECORDS,
            peer=PUBLIC_CLASSIFIER,
        )
        for features in FEATURES
    ),
    Case(
        objective_perturbation,
        signed,
        fit(objective_perturbation, 10.0, 0.01),
        counts=RECORDS,
        peer=LOGISTIC,
    ),
    Case(
        weighted_mean,
        balls,
        lambda X, weights, rng: weighted_mean(20 * weights, np.zeros(D), 1.0).release(X, rng=rng),
        counts=RECORDS,
    ),
    Case(linear_query, shares, summed, "", RECORDS, (*SIZES[:-1], 200_000, SIZES[-1]), SUM),
    Case(
        nonlinear_query,
        lambda n, rng: (rng.random(n), rng.random((n, n))),
        lambda s, table: nonlinear_query(s, 10.0, table).privacy_loss,
        counts="records, as many terms",
        sizes=FEW,
        ends=SQUARE,
    ),
    Case(
        integer_gradients,
        gradients,
        lambda table, e, rng: integer_gradients(table, e, 1.0, spacing=2.0**-10, rng=rng),
        "100 coordinates, in integers",
        "owners",
        SIZES[:-1],
        Peer("the same in floats with NumPy", noisy_gradients, 1_000),
        "a gigabyte of gradients",
    ),
    Case(fedsgd, federation, ten_rounds, "ten owners, ten rounds", RECORDS),
)

# --- markets: contracts, procurement and their payments, by the number of sellers ----------------

POWER = {"power": 2.0}  # of a cost v eps^2
LAW = stats.uniform(1, 4)  # of costs
EXPONENTIAL = stats.truncexpon(4, loc=1, scale=1)
SCALE = (1.0, 1.0, 0.01)  # mu, sigma, gamma of a procurement
TASK = 1 / 12, 2.0  # variance, and noise at loss 1


def contract(n: int, rng: Generator) -> Arguments:
    return rng.random(n), n**2 / 16


def uniform(n: int, rng: Generator) -> Arguments:
    return (rng.random(n),)


def prices(n: int, rng: Generator) -> Arguments:
    return (rng.uniform(1, 9, n),)


def virtual(n: int, rng: Generator) -> Arguments:
    return (virtual_valuation(LAW, LAW.rvs(n, random_state=rng), check=False),)


def cheapest_half(reports: Array) -> Array:
    """One unit from each of the cheaper half."""
    return (reports < np.median(reports, axis=-1, keepdims=True)) * 1.0


def bought(law: Any, variant: str, shares: float | None = None) -> Case:
    """Run the auction that knows the law of costs; with a cap of so many equal shares."""

    def call(costs: Array) -> object:
        cap = shares and shares / len(costs)
        return procurement_auction(costs, law, *SCALE, cap=cap)

    return Case(procurement_auction, lambda n, rng: (law.rvs(n, random_state=rng),), call, variant)


def optimal(law: Any, variant: str) -> Case:
    """Contracts under a law of valuations, with payments."""
    return Case(
        myerson_contract,
        lambda n, rng: (law.rvs(n, random_state=rng), n**2 / 16),
        lambda v, K: myerson_contract(v, K, law, **POWER),
        variant,
    )


def by_slsqp(psi: Array) -> float:
    """Find the least loss by SciPy's solver from equal weights, over weights and the total."""
    n = len(psi)

    def loss(x: Array) -> float:
        return float(
            TASK[0] * (x[:n] ** 2).sum() + TASK[1] / x[n] ** 2 + 0.01 * x[n] * (x[:n] @ psi)
        )

    bounds = [(0, 1)] * n + [(1e-6, None)]
    sums = {"type": "eq", "fun": lambda x: x[:n].sum() - 1}
    how = {"method": "SLSQP", "options": {"maxiter": 1000, "ftol": 1e-12}}
    return float(
        optimize.minimize(loss, [1 / n] * n + [1.0], bounds=bounds, constraints=[sums], **how).fun
    )


def searched(c: Array) -> object:
    """All lies in a first price."""
    return search_misreports(
        lambda reports: (np.ones_like(reports), reports), c, reports_to_try(c, 1.0)
    )


COST = (lambda _, ours, theirs: theirs.cost / ours.cost - 1), "relative excess of the cost"
LOSS = (lambda _, ours, theirs: theirs.error / ours.error - 1), "relative excess of the loss"
CLARABEL = Peer("Clarabel", lambda v, K: conic_power(v, K, **POWER), 1_000, *COST)
SEARCH = Peer(
    "Clarabel, and a search from 4 rates",
    lambda psi: conic_search(psi, *SCALE, cap=3 / len(psi), starts=4),
    1_000,
    *LOSS,
)
SLSQP = Peer("SciPy's SLSQP", by_slsqp, 100, lambda _, ours, least: least / ours.error - 1, LOSS[1])
MARKETS = (
    Case(equal_loss_contract, lambda n, rng: (n, n**2 / 16)),
    Case(
        least_cost_contract,
        contract,
        lambda v, K: least_cost_contract(v, K, **POWER),
        peer=CLARABEL,
    ),
    Case(equal_loss_pricing, contract, lambda v, K: equal_loss_pricing(v, K, 1.0, **POWER)),
    Case(vcg_contract, contract, lambda v, K: vcg_contract(v, K, 1.0, **POWER), "all payments"),
    optimal(stats.uniform(0, 1), "uniform valuations"),
    optimal(stats.beta(2, 2), "valuations of a bell-shaped law"),
    Case(
        vcg_payments,
        uniform,
        lambda c: vcg_payments(c, 1.0, cheapest_half, lambda r: (r * cheapest_half(r)).sum(-1)),
        "any rule",
        sizes=FEW,
        ends=SQUARE,
    ),
    Case(
        envelope_payments,
        uniform,
        lambda c: envelope_payments(c, 1.0, lambda reports: np.exp(-reports)),
        "any rule",
        sizes=FEW[:-1],
        ends=SQUARE,
    ),
    Case(procure, virtual, lambda psi: procure(psi, *SCALE)),
    Case(
        procure,
        virtual,
        lambda psi: procure(psi, *SCALE, cap=3 / len(psi)),
        "with a cap",
        peer=SEARCH,
    ),
    bought(LAW, "uniform costs"),
    bought(EXPONENTIAL, "exponential costs"),
    bought(LAW, "uniform costs, with a cap", 3.0),
    bought(EXPONENTIAL, "exponential costs, with a cap", 3.0),
    Case(error_minimising, prices, lambda psi: error_minimising(psi, *TASK, 0.01), peer=SLSQP),
    Case(fair_query, lambda n, rng: (*prices(n, rng), 2.0)),
    Case(local_menu, prices, lambda psi: local_menu(psi, *TASK, 100.0)),
    Case(
        search_misreports,
        uniform,
        searched,
        "of a first price",
        sizes=(10, 30, 100, 300),
        ends="n squared runs of the market",
    ),
)

# --- auctions of FL-Market: by the number of owners, in one market or in many --------------------


def offers(n: int, rng: Generator) -> Arguments:
    """Valuations and losses of one market, and money for about half of it."""
    amounts = rng.uniform(0.5, 2, n)
    valuations = amounts * rng.uniform(0.5, 1.5, n)
    return valuations, amounts, 0.5 * float(valuations.sum())


def one_market(n: int, rng: Generator) -> Arguments:
    """Draw bids by the paper's laws, with a budget factor of one half."""
    return _market((n,), rng)


def of_ten(n: int, rng: Generator) -> Arguments:
    """Draw the same in markets of ten."""
    return _market((n // 10, 10), rng)


def _market(shape: tuple[int, ...], rng: Generator) -> Arguments:
    bids = draw_bids(np.maximum(10, rng.lognormal(3, 2, shape)), rng)
    return bids, np.asarray(budget_of(bids, 0.5))


def offered(bids: Any, money: Array) -> object:
    """Load the menus that come with the library."""
    return menus(bids, money, trained_weights())


AUCTIONS = (
    Case(
        all_or_nothing,
        offers,
        counts="owners",
        peer=Peer("All-in as printed", all_in_printed, 10_000),
    ),
    Case(posted_prices, one_market, None, "one market", "owners"),
    Case(posted_prices, of_ten, None, *OF_TEN),
    Case(menus, one_market, offered, "one market", "owners"),
    Case(menus, of_ten, offered, *OF_TEN),
)

# --- audits, by the number of runs or records ----------------------------------------------------

DATA = np.zeros(10)
NEIGHBOUR = np.eye(10)[0]


def noisy_mean(data: Array, rng: Generator, size: int) -> Array:
    """Laplace noise as it should be for a loss of 1."""
    return np.round(data.mean() + rng.laplace(0, 1 / len(data), size), 6)


def one_noisy_mean(data: Array, rng: Generator) -> float:
    """Return a release a call."""
    return float(noisy_mean(data, rng, 1)[0])


def audited(mechanism: Callable[..., Any], variant: str) -> Case:
    """Run the audit as it is, by the runs that it may take."""
    return Case(
        audit,
        lambda n, rng: (n,),
        lambda runs: audit(mechanism, DATA, NEIGHBOUR, 1.0, runs=runs),
        variant,
        "runs",
        SIZES[2:],
    )


def a_sum(n: int, rng: Generator) -> Arguments:
    return linear_query(rng.random(n), 1.0), rng.random(n)


def fits(n: int, rng: Generator) -> Arguments:
    X = rng.random((n, 4))
    y = rng.uniform(-1, 1, n)
    return output_perturbation(np.ones(n), 1.0, features=4), X, y, rng


def own_losses(mechanism: Any, X: Array, y: Array, rng: Generator) -> object:
    return privacy_losses(mechanism, X, y, rng=rng)


AUDITS = (
    audited(noisy_mean, "a Laplace mechanism that takes size"),
    audited(one_noisy_mean, "a Laplace mechanism, a release a call"),
    Case(privacy_losses, fits, own_losses, "ridge regression, four features", RECORDS),
    Case(privacy_losses, a_sum, None, "a sum", "individuals"),
)

# --- all designs at the same money, by the number of sellers -------------------------------------


def compared(n: int) -> object:
    return compare_markets(LAW, Task(), 0.2 * n, sellers=n)


DESIGNS = (
    Case(compare_markets, lambda n, rng: (n,), compared, "by default", sizes=(10, 30, *SIZES[1:])),
)
WINGS = {
    "ground": GROUND,
    "learners": LEARNERS,
    "markets": MARKETS,
    "auctions": AUCTIONS,
    "audits": AUDITS,
    "designs": DESIGNS,
}


def row(place: tuple[str, int]) -> dict[str, Any]:
    """Measure one case of a wing, in a process that may have been spawned."""
    wing, number = place
    return {"wing": wing} | measure(WINGS[wing][number])
