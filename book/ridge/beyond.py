r"""Beyond the ridge paper: medical records recoded by a public schema, public penalties, ranges from the data.

A test loss is always the mean squared error on the true charges, in the paper's units: the range of all charges is 1.

Throughout, `dataset` is that of :func:`hdpm_book.datasets.medical_cost`; `epsilon`, or `eps`, has shape (n,);
`corners`, of shape (k, d), are those of a schema of the features; and `label_bound` is `a`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.spatial.distance import pdist
from sklearn.model_selection import train_test_split

from hdpm_book.datasets import MEDICAL_CHARGES, MEDICAL_FEATURES, Dataset, medical_design
from hdpm_book.ridge.jorgensen import draw_masks, sampled_ridge
from hdpm_book.ridge.moments import QuadraticLoss
from hdpm_book.ridge.study import DEFAULT, SPLIT_SEED
from hdpm_book.ridge.variants import (
    calibrate_objective_perturbation,
    calibrate_sufficient_statistics,
    objective_perturbation_log_density,
    private_constant,
    release_objective_perturbation,
    release_sufficient_statistics,
)
from hdpm_lib.audits.meters import PrivacyLosses
from hdpm_lib.audits.ridge import Rest, hull_bound, ridge_pair_loss
from hdpm_lib.learners.ridge import output_perturbation, sensitivity_constant
from hdpm_lib.noise import spherical_laplace
from hdpm_lib.schema import Number, Schema

Array = NDArray[np.float64]
Rng = np.random.Generator
PENALTIES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Coding:
    """Records to train on, the test loss, and the public bounds that set the noise.

    Attributes
    ----------
    X, y : array of shape (n, d), (n,)
    test_loss : QuadraticLoss
        Of test records with their true charges, in units of `y`.
    unit : float
        Turns that loss into the paper's units.
    label_bound : float
        `a`.
    feature_norm : float or None
        `R`; none for the box.
    """

    X: Array
    y: Array
    test_loss: QuadraticLoss
    unit: float
    label_bound: float
    feature_norm: float | None

    @property
    def bounds(self) -> dict[str, Any]:
        """The bounds as a mechanism takes them."""
        return {"feature_norm": self.feature_norm, "label_bound": self.label_bound}

    def loss(self, theta: Array) -> float:
        """Mean test loss of estimates of shape (..., d), in the paper's units."""
        return float(self.unit * self.test_loss(theta).mean())


def codings(dataset: Dataset) -> dict[str, Coding]:
    """Five codings of the medical records, from the paper's to the declared schema, with the paper's split.

    All but the last take ranges from the data, as the paper does.
    """
    X, y, _ = medical_design(dataset, ranges="data")
    width = float(np.ptp(dataset.labels))
    found = Schema(
        [
            Number(c.name, dataset.features[c.name].min(), dataset.features[c.name].max())
            if isinstance(c, Number)
            else c
            for c in MEDICAL_FEATURES.columns
        ],
        out_of_range="clip",
    )

    def coded(X: Array, y: Array, true: Array, unit: float, a: float, R: float | None) -> Coding:
        kept, left, y_kept, _, _, y_left = train_test_split(X, y, true, test_size=0.2, random_state=SPLIT_SEED)
        return Coding(kept, y_kept, QuadraticLoss.of(left, y_left), unit, a, R)

    centred, declared = y - 0.5, MEDICAL_CHARGES.transform(dataset.labels[:, None])[:, 0]
    middle, end = MEDICAL_CHARGES.inverse_transform([[0.0], [0.5]])[:, 0]
    cap = 2 * (end - middle)
    true = (dataset.labels - middle) / cap
    tables = [schema.transform(dataset.features) for schema in (found, MEDICAL_FEATURES)]
    norm = MEDICAL_FEATURES.feature_norm
    return {
        "paper": coded(X, y, y, 1.0, 1.0, None),
        "one-hot norm": coded(X, y, y, 1.0, 1.0, np.sqrt(7)),
        "centred label": coded(X, centred, centred, 1.0, 0.5, np.sqrt(7)),
        "centred features": coded(tables[0], centred, centred, 1.0, 0.5, norm),
        "declared ranges": coded(tables[1], declared, true, (cap / width) ** 2, 0.5, norm),
    }


# --- mechanisms: the mean test loss of one draw of privacy losses -----------------------------------------------------


def output_loss(
    c: Coding, eps: Array, penalty: float, rng: Rng, size: int, *, project: bool = True, **more: Any
) -> float:
    """Output perturbation; without projection in closed form."""
    m = output_perturbation(c.X, c.y, eps, penalty, **{"bound": "sharp", **more}, **c.bounds)
    if not project:
        return float(c.unit * c.test_loss.under_noise(m.theta, m.noise_rate).mean)
    return c.loss(m.release(rng=rng, size=size, project=True))


def as_printed_loss(c: Coding, eps: Array, penalty: float, rng: Rng, size: int) -> float:
    """Output perturbation as the paper has it."""
    return output_loss(c, eps, penalty, rng, size, project=False, bound="paper")


def objective_loss(c: Coding, eps: Array, penalty: float, rng: Rng, size: int) -> float:
    """Objective perturbation."""
    made = calibrate_objective_perturbation(c.X, c.y, eps, penalty, **c.bounds)
    return c.loss(release_objective_perturbation(made, rng=rng, size=size))


def moments_loss(c: Coding, eps: Array, penalty: float, rng: Rng, size: int) -> float:
    """Perturbed moments."""
    made = calibrate_sufficient_statistics(c.X, c.y, eps, penalty, **c.bounds)
    return c.loss(release_sufficient_statistics(made, rng=rng, size=size))


def sampling_loss(c: Coding, eps: Array, penalty: float, rng: Rng, size: int) -> float:
    """The repaired sampling baseline, sharper constant."""
    masks = draw_masks(eps, eps.max(), max(1, size // 10), rng=rng)
    options: dict[str, Any] = {"size_in_noise": "fixed", "bound": "sharp"}
    m = sampled_ridge(c.X, c.y, eps, penalty, eps.max(), masks, **options, **c.bounds)
    return float(c.unit * c.test_loss.under_noise(m.theta, m.noise_rate).mean.mean())


def capped_loss(c: Coding, eps: Array, penalty: float, rng: Rng, size: int) -> float:
    """Output perturbation that uses no more than 0.6 of a privacy loss: large weights waste the other records."""
    return output_loss(c, np.minimum(eps, 0.6), penalty, rng, size)


def strictest_loss(c: Coding, eps: Array, penalty: float, rng: Rng, size: int) -> float:
    """Output perturbation that gives everybody the least of the privacy losses."""
    return output_loss(c, np.full_like(eps, eps.min()), penalty, rng, size)


def constant_loss(c: Coding, eps: Array, penalty: float, rng: Rng, size: int) -> float:
    """The private mean label; the penalty is not used."""
    low = 0.0 if c.label_bound == 1 else -0.5
    guess = private_constant(c.y, eps, label_range=(low, low + 1), rng=rng, size=size)
    error = c.test_loss.label_square - 2 * guess * c.test_loss.cross[-1] + guess**2  # the intercept comes last
    return float(c.unit * np.mean(error))


Method = Callable[[Coding, Array, float, Rng, int], float]
METHODS: dict[str, Method] = {
    "PDP-OP, as printed": as_printed_loss,
    "PDP-OP, sharper, projected": output_loss,
    "the same, weights capped": capped_loss,
    "objective": objective_loss,
    "moments": moments_loss,
    "sampling, repaired": sampling_loss,
    "non-personalised, projected": strictest_loss,
}


def draws(n: int, count: int) -> list[Array]:
    """Privacy losses of `n` people in the paper's groups, drawn `count` times."""
    return [DEFAULT.draw(n, rng=np.random.default_rng(seed)) for seed in range(count)]


def mean_losses(method: Method, coding: Coding, epsilons: list[Array], penalty: float, size: int = 200) -> Array:
    """Mean test loss over `size` releases for each draw of privacy losses, with the same seeds for every method."""
    pairs = enumerate(epsilons)
    return np.array([method(coding, eps, penalty, np.random.default_rng([7, k]), size) for k, eps in pairs])


def all_losses(coded: dict[str, Coding], epsilons: list[Array], size: int = 200) -> dict[tuple[str, str], Array]:
    """Losses of every method in every coding, each of shape (number of `PENALTIES`, number of draws)."""
    return {
        (name, label): np.array([mean_losses(method, c, epsilons, penalty, size) for penalty in PENALTIES])
        for name, method in METHODS.items()
        for label, c in coded.items()
    }


def paired(rows: dict[str, Array], reference: str) -> pd.DataFrame:
    """Mean and standard error of losses over the draws, and of their difference from those of the row `reference`."""

    def text(values: Array) -> str:
        return f"{values.mean():.4f} ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}"

    less = {name: "" if name == reference else text(values - rows[reference]) for name, values in rows.items()}
    return pd.DataFrame({"test loss": {k: text(v) for k, v in rows.items()}, f"less {reference}": less})


def corner_shares(
    coding: Coding, epsilon: Array, penalty: float, corners: Array, *, units: float = 1.0, power: float = 1.0
) -> tuple[float, float]:
    """Largest share of epsilon that output perturbation spends: found at corners of the schema, and proved at most.

    Labels and their bound are multiplied by `units`. The noise grows with that `power` of the bound: a fault unless it
    is 1.
    """
    y, a = units * coding.y, units * coding.label_bound
    m = output_perturbation(
        coding.X, y, epsilon, penalty, bound="sharp", feature_norm=coding.feature_norm, label_bound=a
    )
    rate = m.noise_rate * a ** (1 - power)
    losses = ridge_corner_losses(coding.X, y, m.weights, penalty, rate, corners, label_bound=a)
    return float((losses.found / epsilon).max()), float((losses.at_most / epsilon).max())


# --- a penalty from public facts --------------------------------------------------------------------------------------


def public_losses(
    schema: Schema, label_bound: float, epsilon: Array, penalties: tuple[float, ...], *, worlds: int = 40
) -> Array:
    r"""Mean excess loss of objective perturbation for each penalty, in made-up worlds that the schema allows.

    In a world features are independent and uniform on the schema; labels are :math:`x^\top\theta`, with `theta` in a
    random direction and as long as the label bound permits: the largest label at a corner is `a`. No record is looked
    at, so a penalty that is best here is a public number.
    """
    corners, found = corners_of(schema), np.zeros(len(penalties))
    bounds: dict[str, Any] = {"feature_norm": schema.feature_norm, "label_bound": label_bound}
    for world in range(worlds):
        rng = np.random.default_rng([0, world])
        X, other = (schema.transform(_uniform_rows(schema, n, rng)) for n in (len(epsilon), 4000))
        theta = rng.standard_normal(X.shape[1])
        theta *= label_bound / np.abs(corners @ theta).max()
        for k, penalty in enumerate(penalties):
            made = calibrate_objective_perturbation(
                X, np.clip(X @ theta, -label_bound, label_bound), epsilon, penalty, **bounds
            )
            apart = release_objective_perturbation(made, rng=np.random.default_rng([1, world]), size=200) - theta
            found[k] += ((apart @ (other.T @ other / len(other))) * apart).sum(-1).mean() / worlds
    return found


def public_penalty(epsilon: Array) -> float:
    """The penalty that is best in made-up worlds inside the declared schema of the medical records."""
    losses = public_losses(MEDICAL_FEATURES, MEDICAL_CHARGES.feature_norm, epsilon, PENALTIES)
    return PENALTIES[int(np.argmin(losses))]


def _uniform_rows(schema: Schema, n: int, rng: Rng) -> pd.DataFrame:
    """Rows with independent columns, uniform on what was declared."""
    columns = {
        c.name: rng.uniform(c.low, c.high, n) if isinstance(c, Number) else rng.choice(np.array(c.levels), n)
        for c in schema.columns
    }
    return pd.DataFrame(columns)


# --- the comparison ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """Every method in every coding at every penalty, for 20 draws of privacy losses.

    Attributes
    ----------
    coded : dict of Coding
    epsilons : list of arrays
    losses : dict, by method and coding, of arrays (number of `PENALTIES`, number of draws)
    constants : array, losses of the private constant in the declared ranges
    ends : tuple, draws with the least and the largest sum of privacy losses
    public : list of arrays, for these two the losses in made-up worlds, by penalty
    """

    coded: dict[str, Coding]
    epsilons: list[Array]
    losses: dict[tuple[str, str], Array]
    constants: Array
    ends: tuple[int, int]
    public: list[Array]

    @property
    def penalty(self) -> float:
        """The penalty chosen in public, at the least sum of privacy losses."""
        return PENALTIES[int(np.argmin(self.public[0]))]

    def at(self, method: str, coding: str, penalty: float) -> Array:
        """Losses of a method at one penalty, by draw."""
        return self.losses[method, coding][PENALTIES.index(penalty)]

    def curves(self) -> dict[str, Array]:
        """Mean losses against the penalty, as printed and with noise in the objective, for the page's figure."""
        found = {"PDP-OP, as printed": self.losses["PDP-OP, as printed", "paper"].mean(1)}
        for label in ("centred label", "centred features", "declared ranges"):
            found[f"objective noise, {label}"] = self.losses["objective", label].mean(1)
        return found

    def best(self) -> pd.DataFrame:
        """Least loss over the penalties and the penalty that has it, by method and coding."""
        table = {}
        for name in METHODS:
            cells = [self.losses[name, label].mean(1) for label in self.coded]
            table[name] = [f"{c.min():.3g} ({PENALTIES[c.argmin()]:g})" for c in cells]
        means = [mean_losses(constant_loss, c, self.epsilons, 1.0).mean() for c in self.coded.values()]
        table["private constant"] = [f"{mean:.3g}" for mean in means]
        return pd.DataFrame(table, index=["paper", "one-hot", "label", "features", "declared"]).T

    def public_choice(self) -> pd.DataFrame:
        """Loss over the least one by penalty, in made-up worlds and on the true charges."""
        near = slice(PENALTIES.index(0.1), PENALTIES.index(0.8) + 1)
        rows = {
            f"made-up worlds, sum of ε {self.epsilons[index].sum():.0f}": values / values.min()
            for values, index in zip(self.public, self.ends, strict=True)
        }
        true = self.losses["objective", "declared ranges"].mean(1)
        rows["true charges"] = true / true.min()
        table = pd.DataFrame({name: row[near] for name, row in rows.items()}, index=PENALTIES[near]).T
        return table.map("{:.2f}".format)


def comparison(dataset: Dataset, count: int = 20) -> Comparison:
    """Run every method in every coding, and choose a penalty in public."""
    coded = codings(dataset)
    epsilons = draws(len(coded["paper"].y), count)
    losses = all_losses(coded, epsilons)
    constants = mean_losses(constant_loss, coded["declared ranges"], epsilons, 1.0)
    low, high = np.argsort([e.sum() for e in epsilons])[[0, -1]]
    bound = MEDICAL_CHARGES.feature_norm
    public = [public_losses(MEDICAL_FEATURES, bound, epsilons[k], PENALTIES) for k in (low, high)]
    return Comparison(coded, epsilons, losses, constants, (int(low), int(high)), public)


@dataclass(frozen=True)
class BetterMechanisms:
    """Whether better mechanisms help beside re-weighting.

    Attributes
    ----------
    printed, sharper, moments, objective : float, losses at penalty 1 in the paper's coding
    recoded, constant : float, losses of noise in the objective, records recoded, and of a private constant
    ahead, needed : float, smallest of three paired gaps in standard errors, and what chance would give
    """

    printed: float
    sharper: float
    moments: float
    objective: float
    recoded: float
    constant: float
    ahead: float
    needed: float

    @property
    def helps(self) -> bool:
        """Whether every gap is beyond chance."""
        return bool(self.ahead > self.needed)


def better_mechanisms(run: Comparison, false_alarm: float) -> BetterMechanisms:
    """Noise in the objective and in the moments against output noise, and recoded against a private constant."""
    recoded = run.at("objective", "declared ranges", run.penalty)
    pairs = {"objective": "PDP-OP, sharper, projected", "moments": "PDP-OP, as printed"}
    gaps = [run.at(worse, "paper", 1.0) - run.at(better, "paper", 1.0) for better, worse in pairs.items()]
    gaps.append(run.constants - recoded)
    ahead = min(v.mean() / v.std(ddof=1) * np.sqrt(len(v)) for v in gaps)
    needed = stats.t.isf(false_alarm / len(gaps), len(run.epsilons) - 1)
    names = ("PDP-OP, as printed", "PDP-OP, sharper, projected", "moments", "objective")
    printed, sharper, moments, objective = (float(run.at(name, "paper", 1.0).mean()) for name in names)
    means = float(recoded.mean()), float(run.constants.mean())
    return BetterMechanisms(printed, sharper, moments, objective, *means, float(ahead), float(needed))


def several_models(run: Comparison, count: int) -> tuple[float, float]:
    """Loss at penalty 0.3 if that many models are wanted: noise in each estimate, and once in the moments."""
    coding, rng, each = run.coded["declared ranges"], np.random.default_rng(9), run.epsilons[0] / count
    separate = output_loss(coding, each, 0.3, rng, 500)
    return separate, moments_loss(coding, run.epsilons[0], 0.3, rng, 500)


def advantage_over_strictest(run: Comparison) -> tuple[float, float]:
    """Median loss of the non-personalised baseline over that of PDP-OP, penalty 1: as printed, and both projected."""
    ratios = []
    for project in (False, True):
        options: dict[str, Any] = {"project": project, "bound": "paper"}
        personal, strict = (
            np.median([output_loss(run.coded["paper"], e, 1.0, np.random.default_rng(8), 500, **options) for e in many])
            for many in (run.epsilons, [np.full_like(e, e.min()) for e in run.epsilons])
        )
        ratios.append(float(strict / personal))
    return ratios[0], ratios[1]


def sensitivities() -> pd.DataFrame:
    """The sharper sensitivity constant as the two bounds fall, at three penalties."""
    rows = {
        f"R² = {square}, a = {bound:g}": [
            sensitivity_constant(v, square**0.5, "sharp", label_bound=bound) for v in (0.2, 1, 5)
        ]
        for square, bound in ((12, 1), (7, 1), (7, 0.5), (3, 0.5))
    }
    return pd.DataFrame(rows, index=["λ = 0.2", "λ = 1", "λ = 5"]).T.map("{:.3g}".format)


def corner_meter(coding: Coding, epsilon: Array) -> pd.DataFrame:
    """Largest loss over epsilon of output perturbation on the recoded records: found, and proved at most."""
    corners, rows = corners_of(MEDICAL_FEATURES), {}
    for penalty in (0.2, 1.0, 1000.0):
        found, at_most = corner_shares(coding, epsilon, penalty, corners)
        rows[f"λ = {penalty:g}"] = [found, at_most]
    return pd.DataFrame(rows, index=["found", "at most"]).T.round(3)


def corner_faults(coding: Coding, epsilon: Array) -> pd.DataFrame:
    """The same found at penalty 1000, if the noise grows with a wrong power of the label bound."""
    corners, a, rows = corners_of(MEDICAL_FEATURES), MEDICAL_CHARGES.feature_norm, {}
    for units in (1, 8):
        rows[f"a = {units * a:g}"] = [
            corner_shares(coding, epsilon, 1000.0, corners, units=units, power=power)[0] for power in (0, 1, 2)
        ]
    return pd.DataFrame(rows, index=["forgotten", "right", "squared"]).T.round(2)


def objective_meters(coding: Coding, epsilon: Array, penalty: float) -> pd.Series:
    """Largest loss over epsilon of noise in the objective, in random pairs, on the records, and with three faults."""

    def pairs(**change: Any) -> float:
        options = {"schema": MEDICAL_FEATURES, "label_bound": 0.5, **change}
        return objective_pair_losses(300, **options, rng=np.random.default_rng(6))

    corners, rng = corners_of(MEDICAL_FEATURES), np.random.default_rng(7)
    return pd.Series(
        {
            "random pairs": pairs(),
            "the same, labels in other units": pairs(label_bound=4.0),
            "the medical records": objective_meter(coding, epsilon, penalty, corners, rng=rng),
            "fault: half the noise": pairs(faster=2.0),
            "fault: a squared": pairs(power=2),
            "fault: a forgotten": pairs(label_bound=4.0, power=0),
        }
    )


# --- what goes wrong: ranges from the data ----------------------------------------------------------------------------


def range_attack(dataset: Dataset, epsilon: float = 0.01) -> pd.DataFrame:
    """Exact loss over `epsilon` of the person with the highest charge, who accepts that little, if her charge changes.

    A row for each constant and penalty; columns by the ranges and by her new charge, the smallest or twice hers.
    """
    charges = dataset.labels
    kept, _ = train_test_split(np.arange(len(charges)), test_size=0.2, random_state=SPLIT_SEED)
    her = int(charges[kept].argmax())
    eps = DEFAULT.draw(len(kept), rng=np.random.default_rng(0))
    eps[her] = epsilon
    settings: dict[str, dict[str, Any]] = {"paper": {}, "sharper": {"bound": "sharp"}}
    settings["sharper, one-hot"] = {"bound": "sharp", "feature_norm": 7**0.5}
    found: dict[tuple[str, str], dict[str, float]] = {}
    for ranges in ("data", "declared"):
        for what, charge in (("smallest", charges.min()), ("twice hers", 2 * charges[kept[her]])):
            changed = charges.copy()
            changed[kept[her]] = charge
            both = [medical_design(replace(dataset, labels=y), ranges) for y in (charges, changed)]  # type: ignore[arg-type]
            for name, options in settings.items():
                for penalty in (1.0, 5.0):
                    one, two = (output_perturbation(X[kept], y[kept], eps, penalty, **options) for X, y, _ in both)
                    loss = float(ridge_pair_loss(one.theta, two.theta, one.noise_rate))
                    found.setdefault((ranges, what), {})[f"{name}, λ = {penalty:g}"] = loss / epsilon
    return pd.DataFrame(found)


# --- the proof of objective perturbation, tried -----------------------------------------------------------------------


def objective_pair_losses(
    trials: int, *, schema: Schema, label_bound: float, power: float = 1.0, faster: float = 1.0, rng: Rng
) -> float:
    """Largest loss over epsilon of objective perturbation in random pairs of neighbours at corners of a schema.

    Labels are plus or minus `label_bound`. Each pair is compared at 40 outputs inside the ball and 40 on its boundary.

    Parameters
    ----------
    power : float, default 1
        Calibrate as if the noise had to grow with that power of the label bound: a fault unless it is 1.
    faster : float, default 1
        Multiplies the noise rate: a fault if above 1.
    """
    corners, R, worst = corners_of(schema), schema.feature_norm, 0.0
    for _ in range(trials):
        n, penalty = int(rng.integers(2, 9)), R**2 * 10 ** rng.uniform(-1, 4)
        X, y = corners[rng.integers(len(corners), size=n)], rng.choice([-label_bound, label_bound], n)
        eps = rng.random(n) + 0.01
        eps *= R**2 / penalty * (1 + 10 ** rng.uniform(-1, 3)) / eps.sum()
        X_other, y_other = X.copy(), y.copy()
        y_other[0] *= -1
        if rng.random() < 0.5:
            X_other[0] = corners[rng.integers(len(corners))]
        pair = [
            calibrate_objective_perturbation(*data, eps, penalty, feature_norm=R, label_bound=label_bound)
            for data in ((X, y), (X_other, y_other))
        ]
        pair = [replace(m, noise_rate=faster * m.noise_rate * label_bound ** (1 - power)) for m in pair]
        sphere = spherical_laplace(X.shape[1], 1.0, rng=rng, size=40)
        sphere *= pair[0].radius / np.linalg.norm(sphere, axis=1, keepdims=True)
        for theta, nu in ((sphere * rng.random((40, 1)), None), (sphere, 10 ** rng.uniform(-2, 2, 40))):
            a, b = (objective_perturbation_log_density(m, theta, nu) for m in pair)
            worst = max(worst, float(np.abs(a - b).max() / eps[0]))
    return worst


def objective_meter(
    coding: Coding, epsilon: Array, penalty: float, corners: Array, *, pairs: int = 30, rng: Rng
) -> float:
    """Largest loss over epsilon of objective perturbation on a data set, for its strictest, middle and freest records.

    Each of these records is given the values of two corners, with labels at the bounds. So many `pairs` for each are
    compared at 40 releases of the mechanism and 40 outputs spread over the ball.
    """
    worst = 0.0
    for i in np.argsort(epsilon)[[0, len(epsilon) // 2, -1]]:
        for _ in range(pairs):
            X, y, made = coding.X.copy(), coding.y.copy(), []
            for sign in (1, -1):
                X[i], y[i] = corners[rng.integers(len(corners))], sign * coding.label_bound
                made.append(calibrate_objective_perturbation(X, y, epsilon, penalty, **coding.bounds))
            released = release_objective_perturbation(made[0], rng=rng, size=40)
            outputs = np.vstack([released, released * rng.random((40, 1)) * made[0].radius])
            one, two = (objective_perturbation_log_density(m, outputs) for m in made)
            worst = max(worst, float(np.abs(one - two).max() / epsilon[i]))
    return worst


def corners_of(schema: Schema) -> Array:
    """All codes of rows whose numbers are at their ends, shape (k, number of coded features)."""
    each = [*(column.corners for column in schema.columns), *([np.ones((1, 1))] * schema.intercept)]
    return np.array([np.concatenate(row) for row in itertools.product(*each)])


def ridge_corner_losses(
    X: Array,
    y: Array,
    weights: Array,
    penalty: float,
    noise_rate: float,
    corners: Array,
    *,
    label_bound: float = 1.0,
) -> PrivacyLosses:
    r"""The worst pair of corners for every record: nothing is left out, nothing is drawn.

    Here ``at_most`` covers the whole convex hull of the corners: the norm and the residual that it rests on are convex.

    Parameters
    ----------
    corners : array of shape (k, d)
        Feature vectors a record can take, such as :func:`corners_of`; with each of them the label
        is :math:`\pm` `label_bound`. Time and memory for a record grow with :math:`k^2`.
    label_bound : float, default 1
        `a`, the public bound on the absolute value of a label.
    """
    rest = Rest.of(X, y, weights, penalty)
    v, signs = np.repeat(corners, 2, axis=0)[:, None], np.tile([label_bound, -label_bound], len(corners))[:, None]
    found = np.array([pdist(_alone(rest, i).displacement(v, signs)[:, 0]).max() for i in range(len(rest.theta))])
    residual, square = label_bound + np.abs(rest.theta @ corners.T).max(1), float((corners**2).sum(1).max())
    return PrivacyLosses(noise_rate * found, noise_rate * hull_bound(rest, residual, square))


def _alone(rest: Rest, i: int) -> Rest:
    """What is left without record `i`, and no other row."""
    rows = {name: getattr(rest, name)[i : i + 1] for name in ("theta", "weights", "own", "gap", "floor")}
    return replace(rest, **rows)
