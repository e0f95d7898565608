r"""Learners with a bug put in on purpose: they tell which check of privacy sees what.

Each mutant replaces one attribute of the library while it is applied, so that the learner's own release runs with it.
Most do harm. Harmless ones change what is released but not what anybody loses, and no check of privacy may object to
them. Of a few no check sees anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from unittest import mock

import numpy as np

from hdpm_book.privacy import bugs
from hdpm_book.privacy.bugs import Part, only_if
from hdpm_book.ridge import jorgensen
from hdpm_book.ridge import variants as ridge_variants
from hdpm_lib.accounts import Account
from hdpm_lib.learners import estimators, fedsgd, integer_answers, lattice, logistic, queries, ridge, weighted_mean

BUDGET, METER, LAW, BITS = "budget", "meter", "noise law", "bit test"
CENTRE, REPEATS, GRID = "centre", "repeats", "grid"
CHECKS = (BUDGET, METER, LAW, BITS, CENTRE, REPEATS, GRID)
PRIVACY = (BUDGET, METER, BITS)
"""Checks that object only to a loss above the promise; the others object to whatever is not as specified."""

LEARNERS = (
    "ridge",
    "sampling",
    "variants",
    "lattice",
    "logistic",
    "sum",
    "mean",
    "gradients",
    "integers",
    "estimators",
)


@dataclass(frozen=True)
class Mutant:
    """A bug.

    Attributes
    ----------
    learner : str
        One of `LEARNERS`.
    name : str
    harm : bool
        Whether somebody may lose more than she was promised, or the proof of the promise does not apply.
    caught_by : tuple of str
        Checks that have to object: none for a harmless mutant, nor for one that nothing catches.
    why : str
        What goes wrong; why it does no harm; why nothing catches it.
    part : tuple of (object, str, object)
        A module or class, its attribute, and what stands in its place.
    """

    learner: str
    name: str
    harm: bool
    caught_by: tuple[str, ...]
    why: str
    part: Part

    @contextmanager
    def apply(self) -> Iterator[None]:
        """Have the bug in the library for as long as the context lasts.

        Examples
        --------
        >>> with find_mutant("ridge", "factor 2 lost").apply():
        ...     ridge.sensitivity_constant(1.0, 3.0)
        12.0
        >>> ridge.sensitivity_constant(1.0, 3.0)
        24.0
        """
        with mock.patch.object(*self.part):
            yield


HARMLESS, UNSEEN = None, ()
Row = tuple[str, tuple[str, ...] | None, str, Part]  # name, checks that have to object, why, part

# fmt: off
_noise, _rate, _constant = partial(bugs.spherical_noise, ridge), bugs.ridge_rate, bugs.other_constant
_RIDGE: tuple[Row, ...] = (
    ("Gamma shape d − 1", (LAW, BITS), "near the estimate the ratio is unbounded",
     _noise(bugs.of_shape(-1))),
    ("Gamma shape d + 1", (LAW,), "near the estimate the ratio is unbounded",
     _noise(bugs.of_shape(1))),
    ("rate taken for scale", (LAW,), "too little noise wherever the rate is below 1",
     _noise(lambda z, d, r, rng: r * r * z)),
    ("normalised over draws", (LAW, BITS), "vectors are divided by the length of a column", _noise(bugs.over_draws)),
    ("positive coordinates", (LAW, BITS), "outputs on the other side rule a data set out",
     _noise(lambda z, *_: np.abs(z))),
    ("direction from a cube", (LAW,), "near the estimate the density depends on the direction too",
     _noise(bugs.from_cube)),
    ("Laplace per coordinate", (LAW, BITS), "costs up to √d times as much",
     _noise(lambda z, d, r, rng: rng.laplace(0, 1 / r, z.shape))),
    ("Gaussian noise", (LAW,), "far out the ratio is unbounded",
     _noise(lambda z, d, r, rng: (d + 1) ** 0.5 / r * rng.standard_normal(z.shape))),
    ("same seed every call", (REPEATS, LAW), "the difference of two releases has no noise",
     bugs.seeded_noise(ridge, lambda rng: 0)),
    ("float32 noise", (GRID,), "low digits betray the estimate", _noise(bugs.single_precision)),
    ("noise 10 % too small", (LAW,), "everybody loses 1/9 more", _noise(lambda z, *_: 0.9 * z)),
    ("noise 2 % too small", (LAW,), "everybody loses 1/49 more", _noise(lambda z, *_: 0.98 * z)),
    ("noise 0.1 % too small", UNSEEN, "would need over a million draws",
     _noise(lambda z, *_: 0.999 * z)),
    ("noise reused, disguised", UNSEEN, "no test knows how draws follow from others",
     _noise(bugs.recycled_noise)),
    ("factor 2 lost", (BUDGET, METER), "everybody loses twice as much", _constant(lambda p, r, B: r / p * (1 + r * B))),
    ("B left out", (BUDGET,), "harms where the penalty is small", _constant(lambda p, r, B: 2 * r / p)),
    ("√d taken for 1", (BUDGET, METER), "harms in many dimensions", _constant(lambda p, r, B: 2 / p * (1 + B))),
    ("penalty left out", (BUDGET,), "harms at penalties below 1", _constant(lambda p, r, B: 2 * r * (1 + r * B))),
    ("d taken for √d", HARMLESS, "the noise only grows", _constant(lambda p, r, B: 2 * r**2 / p * (1 + r**2 * B))),
    ("B of the paper halved", HARMLESS, "the sharp constant, proved, is smaller still",
     (ridge, "estimate_norm_bound", bugs.half_paper_bound)),
    ("weights not normalised", (BUDGET, METER), "they sum to Σε; harms where that is above 1",
     (ridge, "personalized_weights", np.asarray)),
    ("equal weights", (BUDGET, METER), "everybody loses the mean of all ε",
     (ridge, "personalized_weights", lambda eps: np.full(len(eps), 1 / len(eps)))),
    ("rate from n max ε", (BUDGET, METER), "all lose more, unless all accept the same",
     _rate(lambda eps: eps.max() / eps.mean())),
    ("penalty over n", (METER, CENTRE), "records move the estimate up to n times as far",
     (ridge, "weighted_ridge", bugs.small_penalty)),
    ("free intercept", (METER, CENTRE), "the bound on what one record moves is gone",
     (ridge, "weighted_ridge", bugs.free_intercept)),
    ("records not clipped", (METER,), "a record outside the bounds moves more",
     (ridge, "check_records", lambda X, y, **_: (np.asarray(X), np.asarray(y)))),
    ("scaled by largest", (METER,), "one record rescales all others",
     (ridge, "check_records", bugs.scaled_by_largest)),
    ("labels centred", (METER,), "one label moves all others", (ridge, "check_records", bugs.centred_labels)),
    ("B from the estimate", (METER,), "the size of the noise tells of the data",
     (ridge, "output_perturbation", bugs.own_bound)),
    ("penalty tuned on labels", (METER,), "the size of the noise tells of the data",
     (ridge, "output_perturbation", bugs.tuned_penalty)),
    ("Gamma shape d − 1 for d > 30", (LAW,), "near the estimate the ratio is unbounded",
     only_if(lambda g: g["dimension"] > 30, _noise(bugs.of_shape(-1)))),
    ("float32 noise one by one", (GRID,), "low digits betray the estimate",
     only_if(lambda g: g["size"] == (), _noise(bugs.single_precision))),
    ("noise of 30 bits", (GRID,), "low digits betray the estimate", _noise(bugs.short_mantissas(30))),
    ("factor 2 lost, sharp bound", (BUDGET, METER), "everybody loses twice as much",
     only_if(lambda g: g["bound"] == "sharp", _constant(lambda p, r, B: r / p * (1 + r * B)))),
    ("B of large penalties for all", (BUDGET,), "harms where the penalty is below R²",
     only_if(lambda g: g["bound"] == "sharp", (ridge, "estimate_norm_bound", bugs.large_penalties))),
    ("given norm bound halved", (BUDGET,), "the estimate may be twice as long",
     bugs.changed_call(ridge, "sensitivity_constant",
                       lambda g: {"norm_bound": g["norm_bound"] and g["norm_bound"] / 2})),
    ("label bound above 1 forgotten", (BUDGET, METER), "larger labels move the estimate more",
     bugs.changed_call(ridge, "sensitivity_constant", lambda g: {"label_bound": min(1.0, g["label_bound"])})),
    ("features counted up to 30", (BUDGET, METER), "harms where there are more",
     bugs.many_features(30)),
    ("labels not clipped", (METER,), "a label outside the bounds moves more",
     (ridge, "check_records", bugs.labels_not_clipped)),
    ("clipped by coordinate", (METER,), "the norm may be √d times as large",
     (ridge, "check_records", bugs.clipped_by_coordinate)),
    ("ball: drawn until inside", (CENTRE, LAW), "how often one has to draw depends on the data",
     (ridge.OutputPerturbation, "release", bugs.redrawn_inside)),
    ("ball of the estimate's size", (CENTRE, LAW), "its radius tells of the data",
     (ridge.OutputPerturbation, "release", bugs.own_ball)),
    ("ball around the estimate", (CENTRE,), "its middle is the estimate",
     (ridge.OutputPerturbation, "release", bugs.ball_around_estimate)),
    ("ball: half the noise", (LAW,), "everybody loses twice as much", bugs.quiet_ball()),
    ("one by one: draw kept", (REPEATS,), "the difference of two releases has no noise", bugs.kept_draw()),
    ("seeds of 8 bits", (REPEATS,), "one seed in 256 gives the same noise", bugs.seeded_noise(ridge, bugs.short_seed)),
    ("table: rows share noise", (REPEATS,), "two releases have the same noise",
     (ridge, "spherical_laplace", bugs.shared_rows)),
    ("release rounded", HARMLESS, "post-processing", (ridge.OutputPerturbation, "release", bugs.rounded_release)),
    ("debug switch left in", UNSEEN, "acts if the first label is 0.123: never tried",
     (ridge, "output_perturbation", bugs.debug_switch)),
)

_SAMPLING: tuple[Row, ...] = (
    ("sample size in noise", (METER,), "the size of the noise tells how many were sampled",
     (jorgensen, "sampled_ridge", bugs.realised_size)),
    ("rate of the kept records", (METER, LAW), "the size of the noise tells how many were sampled",
     bugs.changed_result(jorgensen, "sampled_ridge", bugs.rate_of_kept)),
    ("weights said to sum to 1", (BUDGET, LAW), "they sum to as much as n/m",
     bugs.changed_call(jorgensen, "estimate_norm_bound", lambda g: {"total_weight": 1.0})),
    ("kept in proportion to ε", (CENTRE,), "small ε are kept too often",
     (jorgensen, "inclusion_probabilities", bugs.in_proportion)),
    ("seeds of 8 bits", (REPEATS,), "one seed in 256 gives the same noise",
     bugs.seeded_noise(jorgensen, bugs.short_seed)),
    ("sets share noise", (REPEATS, LAW), "the difference of two releases has no noise",
     (jorgensen.SampledRidge, "release", bugs.shared_sets)),
    ("noise 10 % too small", (LAW,), "everybody loses 1/9 more",
     bugs.spherical_noise(jorgensen, lambda z, *_: 0.9 * z)),
)

_VARIANTS: tuple[Row, ...] = (
    ("curvature forgotten", (BUDGET,), "the Jacobian costs R²/λ",
     bugs.changed_result(ridge_variants, "calibrate_objective_perturbation", bugs.whole_promise)),
    ("ball twice as large", (CENTRE,), "gradients are longer than the noise is for",
     bugs.changed_result(ridge_variants, "_moments", bugs.larger_ball)),
    ("R² for R⁴ in moments", (BUDGET,), "with a norm bound above 1 records move more",
     only_if(bugs.given("feature_norm"),
             bugs.changed_result(ridge_variants, "calibrate_sufficient_statistics", bugs.second_power))),
    ("second moments bare", (LAW,), "they tell of the features",
     bugs.spherical_noise(ridge_variants, bugs.bare_second_moments)),
    ("large labels, small noise", (CENTRE,), "the noise is for labels up to 1",
     bugs.changed_result(ridge_variants, "calibrate_sufficient_statistics",
                         lambda made, _: replace(made, label_bound=min(1.0, made.label_bound)))),
    ("objective: noise halved", (LAW,), "the noise part of the loss doubles",
     only_if(lambda g: g["dimension"] in (3, 12), bugs.spherical_noise(ridge_variants, lambda z, *_: z / 2))),
    ("seeds of 8 bits", (REPEATS,), "one seed in 256 gives the same noise",
     bugs.seeded_noise(ridge_variants, bugs.short_seed)),
    ("range taken for 1", (LAW, BITS), "wider labels move the mean more",
     bugs.constant_noise(lambda z, d, width, rng: z / width)),
    ("float32 constant one by one", (GRID,), "low digits betray the mean",
     only_if(lambda g: g["size"] == (), bugs.constant_noise(bugs.single_precision))),
    ("labels not checked", (METER,), "a label outside the range moves more",
     (ridge_variants, "check_inside", lambda value, *_, **__: np.asarray(value, dtype=float))),
    ("noise of other sign", HARMLESS, "the law is symmetric",
     bugs.spherical_noise(ridge_variants, lambda z, *_: -z)),
)

_LATTICE: tuple[Row, ...] = (
    ("rounding not counted", (BUDGET, LAW), "the estimate moves up to √d steps more",
     only_if(lambda g: isinstance(g["square"], int), (lattice, "root_above", lambda square, _: Fraction(0)))),
    ("seeds of 8 bits", (REPEATS,), "one seed in 256 gives the same noise",
     bugs.changed_call(lattice, "lattice_laplace", bugs.seeded)),
    ("even steps", (LAW,), "odd distances rule a data set out", bugs.lattice_noise(lambda z, *_: 2 * z)),
    ("rate doubled", (LAW,), "everybody loses twice as much",
     bugs.changed_call(lattice, "lattice_laplace", lambda g: {"rate": 2 * g["rate"]})),
    ("coordinates on their own", (LAW,), "costs up to √d times as much", bugs.lattice_noise(bugs.by_coordinate)),
    ("first coordinate bare", (LAW,), "it tells of the data", bugs.lattice_noise(bugs.first_bare)),
    ("B of large penalties for all", (BUDGET,), "harms where the penalty is below R²",
     (lattice, "_constant_above", bugs.one_branch)),
    ("label bound above 1 forgotten", (BUDGET, METER), "larger labels move the estimate more",
     bugs.changed_call(lattice, "_constant_above", lambda g: {"label_bound": min(Fraction(1), g["label_bound"])})),
    ("labels not clipped", (METER,), "a label outside the bounds moves more",
     (lattice, "check_records", bugs.labels_not_clipped)),
    ("noise in floats beside it", (CENTRE,), "off the lattice digits betray the estimate",
     bugs.changed_result(lattice.LatticeRidge, "release", lambda released, _: released * (1 + 2.0**-50))),
    ("noise of other sign", HARMLESS, "the law is symmetric", bugs.lattice_noise(lambda z, *_: -z)),
)

_noise, _other = partial(bugs.spherical_noise, logistic), bugs.other_perturbation
_LOGISTIC: tuple[Row, ...] = (
    ("rate η, not η/2", (LAW,), "the noise part of the loss doubles", _noise(lambda z, *_: z / 2)),
    ("rate η if Λ < 0.05", (LAW,), "the noise part of the loss doubles",
     only_if(lambda g: g["self"].penalty < 0.05, bugs.release_at_rate(2))),
    ("rate η one by one", (LAW,), "the noise part of the loss doubles",
     only_if(lambda g: g["size"] == (), bugs.release_at_rate(2))),
    ("rate 0.75 η if Λ > 10", (LAW,), "the noise part grows by half",
     only_if(lambda g: g["self"].penalty > 10, bugs.release_at_rate(1.5))),
    ("one class: rate η", (LAW,), "which data there are shows in the noise",
     only_if(lambda g: abs(g["self"].y.sum()) == len(g["self"].y), bugs.release_at_rate(2))),
    ("Gamma shape d − 1 for d > 30", (LAW,), "near the noiseless output the ratio is unbounded",
     only_if(lambda g: g["dimension"] > 30, _noise(bugs.of_shape(-1)))),
    ("largest noise halved", (LAW,), "where noise is all that counts",
     bugs.changed_result(logistic, "_newton", bugs.far_halved)),
    ("clipped by largest feature", (CENTRE,), "norms up to √d stay",
     (logistic, "check_signed_records", bugs.largest_feature)),
    ("η of the mean promise", (BUDGET,), "who accepts less loses more than that",
     (logistic, "eta_within", lambda eps, a, p: float(np.sum(eps) / np.sum(a)))),
    ("2 Newton steps for d > 30", (CENTRE,), "the proof needs the minimiser",
     only_if(lambda g: g["noise"].shape[1] > 30, bugs.newton_steps(2))),
    ("2/η taken for rate", (LAW,), "too little noise wherever η is below 2",
     _noise(lambda z, d, r, rng: r * r * z)),
    ("noise divided by m", (LAW,), "the noise of a mean, where there is none",
     (logistic.ObjectivePerturbation, "release", bugs.noise_over_records)),
    ("draws mirrored", (REPEATS, LAW), "two releases together have hardly any noise",
     _noise(bugs.in_pairs(-1))),
    ("half batch mirrored", (REPEATS,), "two releases together have hardly any noise",
     _noise(bugs.mirrored_half)),
    ("seed of 32 bits", UNSEEN, "the law is right; all seeds can be tried",
     bugs.seeded_noise(logistic, lambda rng: rng.integers(2**32))),
    ("noise of other sign", HARMLESS, "the law is symmetric", _noise(lambda z, *_: -z)),
    ("noise on the minimiser", (LAW,), "another mechanism, whose sensitivity nobody bounded",
     (logistic.ObjectivePerturbation, "release", bugs.noisy_minimiser)),
    ("weights ε, not ε/Σε", (BUDGET, METER, BITS), "harms where Σε is above 1",
     _other(lambda a, eta, p: (eta * a, eta, p))),
    ("equal weights", (BUDGET, METER), "everybody loses the mean of all ε",
     _other(lambda a, eta, p: (np.full(len(a), 1 / len(a)), eta, p))),
    ("logarithm to base 2", (BUDGET, METER), "all weights grow by 1/ln 2",
     _other(lambda a, eta, p: (a / np.log(2), eta, p))),
    ("penalty divided by m", (BUDGET, METER), "the slack grows", _other(lambda a, eta, p: (a, eta, p / len(a)))),
    ("penalty not halved", HARMLESS, "the slack falls with the penalty",
     _other(lambda a, eta, p: (a, eta, 2 * p))),
    ("slack forgotten", (BUDGET,), "promises are exceeded by the slack",
     (logistic, "eta_within", lambda eps, a, p: float(np.min(np.divide(eps, a))))),
    ("norms not clipped", (METER,), "a longer record pulls harder",
     (logistic, "check_signed_records", lambda X, y, **_: (np.asarray(X), np.asarray(y)))),
    ("constant feature apart", (METER,), "the norm is not 1 with the constant in",
     (logistic, "check_signed_records", bugs.constant_apart)),
    ("labels 0 and 1", HARMLESS, "record by record; an empty one is allowed",
     (logistic, "check_signed_records", bugs.labels_of_zero)),
    ("release shortened", HARMLESS, "post-processing",
     (logistic.ObjectivePerturbation, "release", bugs.shortened_release)),
    ("5 gradient steps", (CENTRE,), "the proof needs the minimiser", bugs.gradient_steps(5)),
    ("20 gradient steps", (CENTRE,), "the proof needs the minimiser", bugs.gradient_steps(20)),
    ("2 Newton steps", (CENTRE,), "the proof needs the minimiser", bugs.newton_steps(2)),
    ("free intercept", (CENTRE, LAW), "a hundredth of the penalty: the slack grows",
     bugs.newton_steps(50, free=0.01)),
)

_answer = bugs.answer_noise
_SUM: tuple[Row, ...] = (
    ("b taken for deviation", (LAW, BITS), "everybody loses √2 times as much", _answer(lambda z, *_: z / 2**0.5)),
    ("scale 1/b", (LAW, BITS), "too little noise wherever b is above 1", _answer(lambda z, d, r, rng: r * r * z)),
    ("noise divided by n", (LAW, BITS), "everybody loses n times as much",
     (queries.BiasedLaplace, "release", bugs.noise_of_mean)),
    ("noise 10 % too small", (LAW,), "everybody loses 1/9 more", _answer(lambda z, *_: 0.9 * z)),
    ("noise on one side", (LAW, BITS), "outputs below the answer rule it out", _answer(lambda z, *_: np.abs(z))),
    ("every draw used twice", (REPEATS, LAW), "the difference of two releases has no noise",
     _answer(bugs.in_pairs(1))),
    ("float32 noise", (GRID,), "low digits betray the answer", _answer(bugs.single_precision)),
    ("seeds of 8 bits", (REPEATS,), "one seed in 256 gives the same noise", _answer(bugs.reseeded)),
    ("one noise for all coordinates", (LAW,), "their differences have no noise",
     _answer(lambda z, d, *_: z[..., :1] + 0 * z if d > 1 else z)),
    ("noise cut at 50", (LAW,), "outputs beyond rule an answer out", _answer(lambda z, *_: np.clip(z, -50, 50))),
    ("float32 noise one by one", (GRID,), "low digits betray the answer",
     only_if(lambda g: g["size"] == (), _answer(bugs.single_precision))),
    ("coordinates not clipped", (CENTRE,), "a datum outside its interval moves more",
     only_if(lambda g: g["clip"] and np.ndim(g["value"]) > 1,
             (queries, "check_inside", lambda value, *_, **__: np.nan_to_num(value)))),
    ("a person's other terms", (BUDGET,), "she is told what one of her terms costs",
     bugs.changed_call(queries, "nonlinear_query", lambda g: {"sensitivity": np.diag(np.diag(g["sensitivity"]))})),
    ("noise off centre", HARMLESS, "a shift that everybody knows", _answer(lambda z, d, r, rng: z + 0.5 / r)),
    ("noise scaled by spread", (LAW, BITS), "the size of the noise tells of the data",
     (queries.BiasedLaplace, "release", bugs.scale_of_data)),
    ("shares counted twice", (METER, BITS), "everybody loses twice as much",
     (queries.BiasedLaplace, "mean", bugs.twice_counted)),
    ("bias of other sign", HARMLESS, "a shift that everybody knows",
     (queries.BiasedLaplace, "mean", bugs.other_bias)),
    ("data not checked", (METER,), "a datum outside its interval moves more",
     (queries, "check_inside", lambda value, *_, **__: np.asarray(value))),
    ("weights not counted", (BUDGET,), "she is told less than she loses",
     (queries, "linear_query", bugs.unit_sensitivity)),
    ("one coordinate counted", (BUDGET,), "she is told the loss of one of them",
     (queries.BiasedLaplace, "privacy_loss", property(lambda self: self.shares @ self.sensitivity / self.scale))),
    ("answer clamped", HARMLESS, "post-processing", (queries.BiasedLaplace, "release", bugs.clamped_answers)),
)

_MEANS: tuple[Row, ...] = (
    ("noise 10 % too small", (LAW,), "everybody loses 1/9 more",
     bugs.spherical_noise(weighted_mean, lambda z, *_: 0.9 * z)),
    ("noise from a cube", (LAW,), "differences along a diagonal cost more",
     bugs.spherical_noise(weighted_mean, bugs.from_cube)),
    ("every draw used twice", (REPEATS, LAW), "the difference of two releases has no noise",
     bugs.spherical_noise(weighted_mean, bugs.in_pairs(1))),
    ("float32 noise", (GRID,), "low digits betray the answer",
     bugs.spherical_noise(weighted_mean, bugs.single_precision)),
    ("seeds of 8 bits", (REPEATS,), "one seed in 256 gives the same noise",
     bugs.seeded_noise(weighted_mean, bugs.short_seed)),
    ("radius for diameter", (BUDGET,), "everybody is told half of what she loses",
     (weighted_mean.WeightedMean, "privacy_loss", property(lambda self: self.radius * self.rate * self.weights))),
    ("shrunk loss", (BUDGET,), "shrinking is post-processing and saves nobody anything",
     (weighted_mean.WeightedMean, "privacy_loss",
      property(lambda self: 2 * self.shrink * self.radius * self.rate * self.weights))),
    ("records not checked", (METER,), "a record outside the ball moves more",
     (weighted_mean, "check_ball", lambda records, name, centre, radius, *, clip: np.nan_to_num(records - centre))),
    ("clipped by coordinates", (METER, CENTRE), "a cube is wider than its ball",
     (weighted_mean, "check_ball",
      lambda records, name, centre, radius, *, clip: np.clip(np.nan_to_num(records - centre), -radius, radius))),
    ("centre forgotten", HARMLESS, "a shift that everybody knows",
     (weighted_mean.WeightedMean, "release", bugs.without_centre)),
)

_upload, _clip = bugs.gradient_noise, bugs.clip_by
_GRADIENTS: tuple[Row, ...] = (
    ("clipped in L2", (METER, BITS), "costs up to √D times as much",
     _clip(lambda g: np.linalg.norm(g, axis=(-2, -1), keepdims=True))),
    ("clipped by class", (METER,), "costs as many times as much as there are classes",
     _clip(lambda g: np.abs(g).sum(-1, keepdims=True))),
    ("clipped by value", (METER,), "costs up to D times as much", _clip(np.abs)),
    ("not clipped", (METER, BITS), "no bound at all", _clip(lambda g: np.zeros(1))),
    ("stretched to norm L", HARMLESS, "norm L is allowed",
     (fedsgd, "clipped", bugs.stretched_gradients)),
    ("sum, not mean", HARMLESS, "clipping bounds that as well",
     (fedsgd, "local_gradients", bugs.summed_gradients)),
    ("scale L/ε", (BUDGET, LAW, BITS), "everybody loses twice as much",
     (fedsgd, "noise_scale", lambda eps, L: L / np.asarray(eps))),
    ("scale 8L²/ε²", (BUDGET, LAW), "the variance; harms where ε is above 4L",
     (fedsgd, "noise_scale", lambda eps, L: 8 * L**2 / np.square(eps))),
    ("noise 10 % too small", (LAW,), "everybody loses 1/9 more", _upload(lambda z, *_: 0.9 * z)),
    ("noise over the owners", (LAW, BITS), "each divides it by the number of all", _upload(lambda z, *_: z / len(z))),
    ("Gaussian noise", (LAW,), "far out the ratio is unbounded",
     _upload(lambda z, d, r, rng: 2**0.5 * rng.standard_normal(z.shape))),
    ("one number for all", (LAW,), "differences of coordinates have no noise",
     _upload(lambda z, *_: z[..., :1, :1] + 0 * z)),
    ("same noise every round", (REPEATS,), "differences of rounds have no noise",
     (fedsgd, "fedsgd", bugs.drawn_once)),
    ("float32 noise", (GRID,), "low digits betray the gradient", _upload(bugs.single_precision)),
    ("noise like float32 features", (GRID,), "low digits betray the gradient",
     (fedsgd, "fedsgd", bugs.noise_like_features)),
    ("clip norm taken for 1", (BUDGET, LAW), "harms where it is larger",
     (fedsgd, "noise_scale", lambda eps, L: 2 / np.asarray(eps))),
    ("auction: half the noise", (LAW,), "noise for what was accepted, not for what was sold",
     only_if(bugs.given("auction"), _upload(lambda z, *_: z / 2))),
    ("many classes: clipped by class", (METER,), "the norm may be as many times as large",
     (fedsgd, "clipped", bugs.clipped_by_class)),
    ("seeds of 8 bits", (REPEATS,), "one seed in 256 gives the same noise", _upload(bugs.reseeded)),
    ("noise over the records", (LAW,), "each divides it by the number of her records",
     (fedsgd, "fedsgd", bugs.by_rows)),
    ("own starts: noise returns", (REPEATS,), "differences of runs have no noise",
     only_if(lambda g: np.ndim(g["start"]) == 3, (fedsgd, "fedsgd", bugs.seeded_training))),
    ("rounds counted once", (BUDGET,), "she is told the loss of one round",
     (fedsgd, "fedsgd", bugs.counted_once)),
    ("overflow guard", UNSEEN, "acts on norms above a million: never tried",
     (fedsgd, "clipped", bugs.overflow_guard)),
)
_losses = bugs.changed_call
_INTEGERS: tuple[Row, ...] = (
    ("scale cut to whole steps", (BUDGET,), "less noise than promised",
     (integer_answers, "_scale_above", lambda value: Fraction(max(1, math.floor(value))))),
    ("0 counts twice", (LAW,), "the right answer comes too often",
     (integer_answers, "discrete_laplace", bugs.twice_zero)),
    ("noise on one side", (LAW,), "outputs below the answer rule it out",
     bugs.changed_result(integer_answers, "discrete_laplace", lambda z, _: np.abs(z))),
    ("seeds of 8 bits", (REPEATS,), "one seed in 256 gives the same noise",
     bugs.changed_call(integer_answers, "discrete_laplace", bugs.seeded)),
    ("even steps", (LAW,), "odd distances rule an answer out",
     bugs.changed_result(integer_answers, "discrete_laplace", lambda z, _: 2 * z)),
    ("levels not counted", (BUDGET,), "she is told the loss of one step",
     (integer_answers.IntegerSum, "privacy_loss",
      property(lambda self: np.abs(self.weights).astype(object) / self.scale))),
    ("data not clipped", (METER,), "a datum outside its interval moves more",
     only_if(lambda g: g["clip"], (integer_answers, "check_inside", lambda value, *_, **__: np.asarray(value)))),
    ("gradients rounded, not cut", (BUDGET,), "the norm may exceed the clip norm",
     (integer_answers, "grid_gradients", bugs.rounded_gradients)),
    ("noise of the first owner", (LAW,), "others accept less",
     _losses(integer_answers, "_noise", lambda g: {"losses": [max(g["losses"])] * len(g["losses"])})),
    ("scale M/ε", (LAW,), "everybody loses twice as much",
     _losses(integer_answers, "_noise", lambda g: {"losses": [2 * loss for loss in g["losses"]]})),
    ("one number for all", (LAW,), "differences of coordinates have no noise",
     bugs.changed_result(integer_answers, "_noise", lambda z, _: z[..., :1, :1] + 0 * z)),
    ("weights lose their sign", HARMLESS, "another query, at the same cost",
     _losses(integer_answers, "integer_sum",
             lambda g: {"weights": None if g["weights"] is None else np.abs(g["weights"])})),
)

_ESTIMATORS: tuple[Row, ...] = (
    ("noise from the global state", (REPEATS,), "whoever sets it knows the noise",
     (estimators, "_generator", bugs.global_state)),
    ("seeds of 4 bits", (REPEATS,), "one seed in sixteen gives the same noise",
     (estimators, "_generator", bugs.few_seeds)),
    ("clone with the same noise", (LAW,), "the difference of two fits has no noise",
     (estimators._Private, "__sklearn_clone__", bugs.copied)),
    ("own ε for each ignored", (BUDGET,), "who accepts less than the parameter loses more",
     (estimators._Private, "_losses", bugs.parameter_first)),
    ("one ε for all doubled", (LAW,), "everybody loses twice as much",
     (estimators._Private, "_losses", bugs.doubled_number)),
    ("account charged half", (BUDGET,), "the total says less than was spent",
     (Account, "_charge", bugs.half_charged)),
    ("spacing: noise in floats", (CENTRE,), "off the lattice digits betray the estimate",
     (estimators, "lattice_ridge", bugs.float_mechanism)),
    ("clip: divided by the longest", (CENTRE,), "one record rescales all others",
     bugs.changed_call(estimators, "objective_perturbation", bugs.scaled_by_longest)),
    ("slack forgotten", (BUDGET,), "promises are exceeded by the slack",
     (estimators, "eta_within", lambda eps, a, p: float(np.min(np.divide(eps, a))))),
    ("printed bound for all", HARMLESS, "the noise only grows",
     bugs.changed_call(estimators, "output_perturbation", lambda g: {"bound": "paper"})),
)
# fmt: on

_ROWS = {
    "ridge": _RIDGE,
    "sampling": _SAMPLING,
    "variants": _VARIANTS,
    "lattice": _LATTICE,
    "logistic": _LOGISTIC,
    "sum": _SUM,
    "mean": _MEANS,
    "gradients": _GRADIENTS,
    "integers": _INTEGERS,
    "estimators": _ESTIMATORS,
}
MUTANTS = tuple(
    Mutant(learner, name, caught is not HARMLESS, caught or (), why, part)
    for learner in LEARNERS
    for name, caught, why, part in _ROWS[learner]
)


def find_mutant(learner: str, name: str) -> Mutant:
    """The mutant of that learner and name, or a `LookupError`."""
    for mutant in MUTANTS:
        if (mutant.learner, mutant.name) == (learner, name):
            return mutant
    raise LookupError(f"no mutant {name!r} of the learner {learner!r}")
