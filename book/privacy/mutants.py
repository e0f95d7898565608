r"""Learners with a bug put in on purpose: they tell which check of privacy sees what.

Each mutant replaces one attribute of the library while it is applied, so that the learner's own release runs with it.
Most do harm. Harmless ones change what is released but not what anybody loses, and no check of privacy may object to
them. Of a few no check sees anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from unittest import mock

import numpy as np

from hdpm_book.privacy import bugs
from hdpm_book.privacy.bugs import Part, only_if
from hdpm_lib.learners import fedsgd, jorgensen, logistic, queries, ridge

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
     (ridge, "pdp_op", bugs.own_bound)),
    ("penalty tuned on labels", (METER,), "the size of the noise tells of the data",
     (ridge, "pdp_op", bugs.tuned_penalty)),
    ("Gamma shape d − 1 for d > 30", (LAW,), "near the estimate the ratio is unbounded",
     only_if(lambda g: g["dimension"] > 30, _noise(bugs.of_shape(-1)))),
    ("float32 noise one by one", (GRID,), "low digits betray the estimate",
     only_if(lambda g: g["size"] == (), _noise(bugs.single_precision))),
    ("noise of 30 bits", (GRID,), "low digits betray the estimate", _noise(bugs.short_mantissas(30))),
    ("release rounded", HARMLESS, "post-processing", (ridge.OutputPerturbation, "release", bugs.rounded_release)),
    ("debug switch left in", UNSEEN, "acts if the first label is 0.123: never tried",
     (ridge, "pdp_op", bugs.debug_switch)),
)

_SAMPLING: tuple[Row, ...] = (
    ("sample size in noise", (METER,), "the size of the noise tells how many were sampled",
     (jorgensen, "sampled_ridge", bugs.realised_size)),
)

_noise, _other = partial(bugs.spherical_noise, logistic), bugs.other_perturbation
_LOGISTIC: tuple[Row, ...] = (
    ("rate η, not η/2", (LAW,), "the noise part of the loss doubles", _noise(lambda z, *_: z / 2)),
    ("rate η if Λ < 0.05", (LAW,), "the noise part of the loss doubles",
     only_if(lambda g: g["self"].penalty < 0.05, bugs.release_at_rate(2))),
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
    ("rounds counted once", (BUDGET,), "she is told the loss of one round",
     (fedsgd, "fedsgd", bugs.counted_once)),
    ("overflow guard", UNSEEN, "acts on norms above a million: never tried",
     (fedsgd, "clipped", bugs.overflow_guard)),
)
# fmt: on

_ROWS = {
    "ridge": _RIDGE,
    "sampling": _SAMPLING,
    "logistic": _LOGISTIC,
    "sum": _SUM,
    "gradients": _GRADIENTS,
}
MUTANTS = tuple(
    Mutant(learner, name, caught is not HARMLESS, caught or (), why, part)
    for learner in LEARNERS
    for name, caught, why, part in _ROWS.get(learner, ())
)


def find_mutant(learner: str, name: str) -> Mutant:
    """The mutant of that learner and name, or a `LookupError`."""
    for mutant in MUTANTS:
        if (mutant.learner, mutant.name) == (learner, name):
            return mutant
    raise LookupError(f"no mutant {name!r} of the learner {learner!r}")
