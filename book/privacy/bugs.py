"""The bugs of :mod:`hdpm_book.privacy.mutants`: in the noise, and around it.

A *part* is a triple: a module or class of the library, the name of an attribute, and what stands in its place. Most
replacements call the right part and spoil what it gets or what it gives: of noise, what a right sampler has drawn.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit
from sklearn.base import BaseEstimator

from hdpm_book.ridge import jorgensen
from hdpm_book.ridge import variants as ridge_variants
from hdpm_lib import discrete, noise
from hdpm_lib.accounts import Account
from hdpm_lib.learners import estimators, fedsgd, lattice, logistic, queries, ridge, weighted_mean

Array = NDArray[np.float64]
Part = tuple[Any, str, Any]
Change = Callable[[Array, int, Any, np.random.Generator], Array]  # of noise, given its dimension, rate, a generator

_draw = noise.spherical_laplace
_pdp_op, _release, _fit = ridge.output_perturbation, ridge.OutputPerturbation.release, ridge.weighted_ridge
_norm_bound, _records, _sampled = ridge.estimate_norm_bound, ridge.check_records, jorgensen.sampled_ridge
_perturbation, _signed_records = logistic.objective_perturbation, logistic.check_signed_records
_minimise = logistic.ObjectivePerturbation.minimise
_average = weighted_mean.WeightedMean.release
_answer, _mean, _linear = queries.BiasedLaplace.release, queries.BiasedLaplace.mean, queries.linear_query
_lattice, _above, _generator = lattice.lattice_laplace, lattice._constant_above, estimators._generator
_losses, _charge = estimators._Private._losses, Account._charge
_fedsgd, _clipped, _gradients = fedsgd.fedsgd, fedsgd.clipped, fedsgd.local_gradients


def only_if(condition: Callable[[Mapping[str, Any]], bool], part: Part) -> Part:
    """The part with the bug where a condition on its arguments holds, and the right one elsewhere."""
    place, name, wrong = part
    right = getattr(place, name)
    signature = inspect.signature(right)

    def chosen(*given: Any, **more: Any) -> Any:
        found = signature.bind(*given, **more)
        found.apply_defaults()
        return (wrong if condition(found.arguments) else right)(*given, **more)

    return place, name, chosen


# --- noise ------------------------------------------------------------------------------------------------------------


def directions(z: Array, axis: int = -1) -> Array:
    """Directions of vectors."""
    return np.asarray(z / np.linalg.norm(z, axis=axis, keepdims=True))


def of_shape(change: int) -> Change:
    """Spherical noise whose radius has a Gamma law of another shape."""
    return lambda z, d, rate, rng: directions(z) * rng.gamma(d + change, 1 / rate, z.shape[:-1])[..., None]


def over_draws(z: Array, d: int, rate: Any, rng: np.random.Generator) -> Array:
    """Directions divided by the lengths of the wrong axis."""
    return np.linalg.norm(z, axis=-1, keepdims=True) * directions(rng.standard_normal(z.shape), axis=0)


def from_cube(z: Array, d: int, rate: Any, rng: np.random.Generator) -> Array:
    """Directions of points that are uniform in a cube, not in a ball."""
    return np.linalg.norm(z, axis=-1, keepdims=True) * directions(rng.uniform(-1, 1, z.shape))


def in_pairs(sign: int) -> Change:
    """Every second draw is the one before, or that with the other sign."""

    def change(z: Array, d: int, rate: Any, rng: np.random.Generator) -> Array:
        z[1::2] = sign * z[: len(z) // 2 * 2 : 2]
        return z

    return change


def mirrored_half(z: Array, d: int, rate: Any, rng: np.random.Generator) -> Array:
    """The second half of a batch is the first with the other sign: antithetic variates."""
    z[len(z) - len(z) // 2 :] = -z[: len(z) // 2]
    return z


def recycled_noise(z: Array, d: int, rate: Any, rng: np.random.Generator) -> Array:
    """The second half of a batch is the first: radii from the other tail, directions turned by a right angle.

    In one dimension and in two there is no room for that disguise, and it is not tried.
    """
    if d < 3:
        return z
    first, law = z[: len(z) // 2], stats.gamma(d, scale=1 / rate)
    turned = -first
    turned[:, : d - 1 : 2], turned[:, 1::2] = -first[:, 1::2], first[:, : d - 1 : 2]
    z[len(z) - len(first) :] = directions(turned) * law.isf(law.cdf(np.linalg.norm(first, axis=1)))[:, None]
    return z


def single_precision(z: Array, d: int, rate: Any, rng: np.random.Generator) -> Array:
    """Noise in single precision."""
    return z.astype(np.float32).astype(float)


def short_mantissas(bits: int) -> Change:
    """Noise whose mantissas have so many bits."""

    def change(z: Array, d: int, rate: Any, rng: np.random.Generator) -> Array:
        mantissa, exponent = np.frexp(z)
        return np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits)

    return change


def spherical_noise(place: Any, change: Change) -> Part:
    """The sampler of spherical noise in a learner's module, with a change of what it has drawn."""

    def changed(d: int, rate: Any, *, rng: np.random.Generator, size: Any = ()) -> Array:
        drawn = _draw(d, rate, rng=rng, size=size)
        return change(drawn.reshape(-1, d), d, rate, rng).reshape(drawn.shape)

    return place, "spherical_laplace", changed


def seeded_noise(place: Any, seed: Callable[[np.random.Generator], Any]) -> Part:
    """The sampler with a generator of its own in every call."""
    own = lambda d, rate, *, rng, size=(): _draw(d, rate, rng=np.random.default_rng(seed(rng)), size=size)  # noqa: E731
    return place, "spherical_laplace", own


def short_seed(rng: np.random.Generator) -> Any:
    """A seed of eight bits."""
    return rng.integers(2**8)


def seeded(found: dict[str, Any]) -> dict[str, Any]:
    """A generator from a seed of eight bits, in every call."""
    return {"rng": np.random.default_rng(short_seed(found["rng"]))}


def reseeded(z: Array, d: int, rate: Any, rng: np.random.Generator) -> Array:
    """Laplace noise from a seed of eight bits, in every call."""
    return np.random.default_rng(short_seed(rng)).laplace(0, 1 / rate, np.shape(z))


class Tampered(np.random.Generator):
    """A generator with a change of the Laplace variables that it has drawn; the dimension is that of one draw."""

    def __init__(self, rng: np.random.Generator, change: Change) -> None:
        super().__init__(rng.bit_generator)
        self.rng, self.change = rng, change

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """As ``numpy.random.Generator.laplace``."""
        z = self.rng.laplace(loc, scale, size)
        if scale == 0:
            return z
        return self.change(z, int(np.prod(size[1:])), 1 / scale, self.rng)


def answer_noise(change: Change) -> Part:
    """The release of a sum, with a change of its noise."""

    def release(self: Any, terms: Any, *, rng: Any, size: Any = ()) -> Array:
        return _answer(self, terms, rng=Tampered(rng, change), size=size)

    return queries.BiasedLaplace, "release", release


def gradient_noise(change: Change) -> Part:
    """The training that releases gradients, with a change of their noise."""

    def train(*given: Any, rng: Any, **more: Any) -> fedsgd.Training:
        return _fedsgd(*given, rng=Tampered(rng, change), **more)

    return fedsgd, "fedsgd", train


def noise_like_features(*given: Any, rng: Any, **more: Any) -> fedsgd.Training:
    """Training with noise in the type of the features."""
    short = given[0].dtype == np.float32
    return _fedsgd(*given, rng=Tampered(rng, single_precision) if short else rng, **more)


def drawn_once(*given: Any, rng: Any, **more: Any) -> fedsgd.Training:
    """Training with the noise of the first round in every round."""
    runs = given[4].shape[1]
    drawn: list[Array] = []

    def replay(z: Array, d: int, rate: Any, rng: np.random.Generator) -> Array:
        drawn.append(z if len(drawn) < runs else drawn[-runs])
        return drawn[-1]

    return _fedsgd(*given, rng=Tampered(rng, replay), **more)


# --- ridge ------------------------------------------------------------------------------------------------------------


def other_constant(change: Callable[[float, float, float], float]) -> Part:
    """The sensitivity constant as another function of penalty, feature norm and norm bound."""

    def changed(
        penalty: float, norm: float, bound: Any = "paper", norm_bound: float | None = None, label_bound: float = 1.0
    ) -> float:
        B = _norm_bound(penalty, norm, bound) if norm_bound is None else norm_bound / label_bound
        return label_bound * change(penalty, norm, B if bound == "paper" else B / 2)

    return ridge, "sensitivity_constant", changed


def half_paper_bound(penalty: float, norm: float, bound: Any = "paper", *more: float, **named: float) -> float:
    """Half of the paper's `B`."""
    return _norm_bound(penalty, norm, bound, *more, **named) / (2 if bound == "paper" else 1)


def ridge_rate(factor: Callable[[Array], float]) -> Part:
    """Calibration with the noise rate times a function of the privacy losses."""

    def changed(X: Any, y: Any, epsilon: Any, penalty: float, **more: Any) -> ridge.OutputPerturbation:
        made = _pdp_op(X, y, epsilon, penalty, **more)
        return replace(made, noise_rate=made.noise_rate * factor(np.asarray(epsilon)))

    return ridge, "output_perturbation", changed


def own_bound(X: Any, y: Any, epsilon: Any, penalty: float, **more: Any) -> ridge.OutputPerturbation:
    """Theorem 2.3 with the norm of the private estimate for its public bound."""
    norm = float(np.linalg.norm(_pdp_op(X, y, epsilon, penalty, **more).theta))
    return _pdp_op(X, y, epsilon, penalty, **{**more, "norm_bound": max(norm, 1e-9)})


def tuned_penalty(X: Any, y: Any, epsilon: Any, penalty: float, **more: Any) -> ridge.OutputPerturbation:
    """A penalty that depends on the labels."""
    return _pdp_op(X, y, epsilon, penalty * (1 + np.mean(np.square(y))), **more)


def debug_switch(X: Any, y: Any, epsilon: Any, penalty: float, **more: Any) -> ridge.OutputPerturbation:
    """No noise if the first label has a certain value."""
    made = _pdp_op(X, y, epsilon, penalty, **more)
    return replace(made, noise_rate=1e12) if y[0] == 0.123 else made


def free_intercept(X: Array, y: Array, weights: Array, penalty: float) -> Array:
    """Weighted ridge regression without a penalty, or nearly, on the last coefficient."""
    free = np.diag(np.append(np.full(X.shape[1] - 1, penalty), 1e-9))
    return np.asarray(np.linalg.solve((X.T * weights) @ X + free, (weights * y) @ X))


def scaled_by_largest(X: Any, y: Any, **more: Any) -> tuple[Array, Array]:
    """Features divided by the largest one of the data, then checked."""
    features = np.asarray(X, dtype=float)
    return _records(features / np.maximum(features.max(0), np.finfo(float).tiny), y, **more)


def centred_labels(X: Any, y: Any, **more: Any) -> tuple[Array, Array]:
    """Labels less their mean."""
    features, labels = _records(X, y, **more)
    return features, labels - labels.mean()


def small_penalty(X: Any, y: Any, weights: Any, penalty: float) -> Array:
    """The penalty of a mean, on a sum with weights."""
    return _fit(X, y, weights, penalty / len(y))


def realised_size(*given: Any, **more: Any) -> jorgensen.SampledRidge:
    """Noise for the number of records that were kept, not for the number expected."""
    return _sampled(*given, **{**more, "size_in_noise": "realised"})


def rounded_release(self: Any, *, rng: np.random.Generator, size: Any = (), project: bool = False) -> Array:
    """Releases rounded to a millionth of the scale of their noise."""
    digits = int(np.ceil(6 + np.log10(self.noise_rate)))
    return np.round(_release(self, rng=rng, size=size, project=project), digits)


# --- logistic regression ----------------------------------------------------------------------------------------------


def other_perturbation(change: Callable[[Array, float, float], tuple[Array, float, float]]) -> Part:
    """Objective perturbation with other weights, eta and penalty than it was given."""

    def changed(X: Any, y: Any, weights: Any, eta: float, penalty: float, **more: Any) -> Any:
        return _perturbation(X, y, *change(np.asarray(weights, dtype=float), eta, penalty), **more)

    return logistic, "objective_perturbation", changed


def gradient_steps(steps: int) -> Part:
    """Gradient descent of the safe step size in place of Newton's method."""

    def descend(signed: Array, weights: Array, noise: Array, penalty: float, start: Array) -> Array:
        w, step = start, 1 / (penalty + weights.sum() / 4)
        for _ in range(steps):
            w = w - step * (noise + penalty * w - (weights * expit(-w @ signed.T)) @ signed)
        return w

    return logistic, "_newton", descend


def newton_steps(steps: int, free: float = 1.0) -> Part:
    """Some full Newton steps; the penalty of the last coefficient times a factor."""

    def solve(signed: Array, weights: Array, noise: Array, penalty: float, start: Array) -> Array:
        w, lam = start, np.append(np.full(noise.shape[1] - 1, penalty), free * penalty)
        for _ in range(steps):
            chance = expit(w @ signed.T)
            slope = noise + lam * w - (weights * (1 - chance)) @ signed
            curvature = (signed.T * (weights * chance * (1 - chance))[:, None, :]) @ signed + np.diag(lam)
            w = w - np.linalg.solve(curvature, slope[..., None])[..., 0]
        return w

    return logistic, "_newton", solve


def noisy_minimiser(self: Any, *, rng: np.random.Generator, size: Any = ()) -> Array:
    """The minimiser without noise, and then the noise."""
    noise = logistic.spherical_laplace(self.X.shape[1], self.eta / 2, rng=rng, size=size)
    return np.asarray(noise + _minimise(self, np.zeros(self.X.shape[1])))


def noise_over_records(self: Any, *, rng: np.random.Generator, size: Any = ()) -> Array:
    """Noise divided by the number of records."""
    return _minimise(
        self, logistic.spherical_laplace(self.X.shape[1], self.eta / 2 * len(self.weights), rng=rng, size=size)
    )


def release_at_rate(factor: float) -> Part:
    """Releases of objective perturbation with the noise rate times a factor."""

    def release(self: Any, *, rng: np.random.Generator, size: Any = ()) -> Array:
        rate = factor * self.eta / 2
        return _minimise(self, logistic.spherical_laplace(self.X.shape[1], rate, rng=rng, size=size))

    return logistic.ObjectivePerturbation, "release", release


def shortened_release(self: Any, *, rng: np.random.Generator, size: Any = ()) -> Array:
    """Releases pulled into the unit ball."""
    noise = logistic.spherical_laplace(self.X.shape[1], self.eta / 2, rng=rng, size=size)
    return ridge.project_on_ball(_minimise(self, noise), 1.0)


def constant_apart(X: Any, y: Any, **more: Any) -> tuple[Array, Array]:
    """Norms checked without the last feature, which is taken for the constant one."""
    features = np.array(X, dtype=float)
    constant, features[:, -1] = features[:, -1].copy(), 0.0
    clipped, labels = _signed_records(features, y, **more)
    return np.column_stack([clipped[:, :-1], constant]), labels


def labels_of_zero(X: Any, y: Any, **more: Any) -> tuple[Array, Array]:
    """Labels 0 and 1 where the formulas want -1 and 1."""
    features, labels = _signed_records(X, y, **more)
    return features, (labels + 1) / 2


# --- sums and gradients -----------------------------------------------------------------------------------------------


def twice_counted(self: Any, terms: Any) -> Array:
    """The mean of a biased answer with the shares of the data counted twice."""
    return np.asarray(_mean(self, terms) + np.tensordot(self.shares, self._centred(terms), 1))


def other_bias(self: Any, terms: Any) -> Array:
    """The middles of the intervals subtracted where they are to be added."""
    return np.asarray(_mean(self, terms) - 2 * ((1 - self.shares) * (self.lower + self.ranges / 2)).sum())


def unit_sensitivity(shares: Any, scale: float, **more: Any) -> queries.BiasedLaplace:
    """A linear query that forgets its weights where it counts losses."""
    made = _linear(shares, scale, **more)
    return replace(made, sensitivity=np.eye(len(made.shares)))


def scale_of_data(self: Any, terms: Any, *, rng: Any, size: Any = ()) -> Array:
    """Noise in proportion to the spread of the terms at hand."""
    spread = np.ptp(np.asarray(terms) / self.ranges.reshape(-1, *[1] * (np.ndim(terms) - 1)))
    return _answer(replace(self, scale=self.scale * max(float(spread), 1e-9)), terms, rng=rng, size=size)


def noise_of_mean(self: Any, terms: Any, *, rng: Any, size: Any = ()) -> Array:
    """Noise divided by the number of individuals."""
    return _answer(replace(self, scale=self.scale / len(self.shares)), terms, rng=rng, size=size)


def clamped_answers(self: Any, terms: Any, *, rng: Any, size: Any = ()) -> Array:
    """Answers pulled into the interval in which the true one lies."""
    return np.clip(_answer(self, terms, rng=rng, size=size), self.lower.sum(), (self.lower + self.ranges).sum())


def without_centre(self: Any, records: Any, *, rng: Any, size: Any = ()) -> Array:
    """A weighted mean of deviations from the centre, which is not added again."""
    return np.asarray(_average(self, records, rng=rng, size=size) - self.centre)


def clip_by(norm: Callable[[Array], Array]) -> Part:
    """Clipping by another norm, given a function that keeps the axes it sums over."""

    def changed(gradients: Array, clip_norm: float) -> Array:
        return gradients * (clip_norm / np.maximum(norm(gradients), clip_norm))

    return fedsgd, "clipped", changed


def stretched_gradients(gradients: Array, clip_norm: float) -> Array:
    """Gradients scaled to the clip norm, short ones too."""
    norm = np.abs(gradients).sum(axis=(-2, -1), keepdims=True)
    return np.asarray(gradients * (clip_norm / np.maximum(norm, np.finfo(float).tiny)))


def overflow_guard(gradients: Array, clip_norm: float) -> Array:
    """Gradients so long that they were taken for an overflow stay as they are."""
    huge = np.abs(gradients).sum(axis=(-2, -1), keepdims=True) > 1e6
    return np.asarray(np.where(huge, gradients, _clipped(gradients, clip_norm)))


def summed_gradients(parameters: Any, features: Any, labels: Any, owners: Any) -> Array:
    """The sum over an owner's records in place of the mean."""
    sizes = np.array([len(rows) for rows in owners])
    return np.asarray(_gradients(parameters, features, labels, owners) * sizes[:, None, None, None])


def counted_once(*given: Any, rng: Any, **more: Any) -> fedsgd.Training:
    """Training that states the privacy loss of one round for all."""
    made = _fedsgd(*given, rng=rng, **more)
    return replace(made, privacy_loss=made.privacy_loss / given[4].shape[0])


# --- in options that are rarely run -----------------------------------------------------------------------------------


def given(name: str) -> Callable[[Mapping[str, Any]], bool]:
    """Whether an option has a value, or is set."""
    return lambda found: found[name] is not None and found[name] is not False


def changed_call(place: Any, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Part:
    """A function that is called with other arguments than it was given."""
    right = getattr(place, name)
    signature = inspect.signature(right)

    def call(*values: Any, **more: Any) -> Any:
        found = signature.bind(*values, **more)
        found.apply_defaults()
        arguments = dict(found.arguments)
        return right(**{**arguments, **change(arguments)})

    return place, name, call


def changed_result(place: Any, name: str, change: Callable[[Any, Mapping[str, Any]], Any]) -> Part:
    """A function whose result is changed, by its arguments if need be."""
    right = getattr(place, name)
    signature = inspect.signature(right)

    def call(*values: Any, **more: Any) -> Any:
        found = signature.bind(*values, **more)
        found.apply_defaults()
        return change(right(*values, **more), found.arguments)

    return place, name, call


def other_rate(place: Any, name: str, factor: float, rate: str = "noise_rate") -> Part:
    """A calibration with its noise rate times a factor."""
    return changed_result(place, name, lambda made, _: replace(made, **{rate: getattr(made, rate) * factor}))


def redrawn_inside(self: Any, *, rng: np.random.Generator, size: Any = (), project: bool = False) -> Array:
    """Releases drawn again until they lie in the ball, in place of pulled back to it."""
    if not project:
        return _release(self, rng=rng, size=size)
    found = np.asarray(_release(self, rng=rng, size=size))
    rows = found.reshape(-1, found.shape[-1])
    while (far := np.linalg.norm(rows, axis=1) > self.radius).any():
        rows[far] = _release(self, rng=rng, size=int(far.sum()))
    return found


def own_ball(self: Any, *, rng: np.random.Generator, size: Any = (), project: bool = False) -> Array:
    """Releases pulled back to a ball as large as the private estimate."""
    found = _release(self, rng=rng, size=size)
    return ridge.project_on_ball(found, max(float(np.linalg.norm(self.theta)), 1e-9)) if project else found


def ball_around_estimate(self: Any, *, rng: np.random.Generator, size: Any = (), project: bool = False) -> Array:
    """Noise pulled back to the ball, and then the estimate added."""
    found = _release(self, rng=rng, size=size)
    return self.theta + ridge.project_on_ball(found - self.theta, self.radius) if project else found


def quiet_ball() -> Part:
    """Half of the noise where releases are pulled back to a ball."""

    def release(self: Any, *, rng: np.random.Generator, size: Any = (), project: bool = False) -> Array:
        made = replace(self, noise_rate=2 * self.noise_rate) if project else self
        return _release(made, rng=rng, size=size, project=project)

    return ridge.OutputPerturbation, "release", release


def large_penalties(penalty: float, norm: float, bound: Any = "paper", total: float = 1.0, label: float = 1.0) -> float:
    """The sharp norm bound of penalties above the squared feature norm, for all."""
    radius = norm * np.sqrt(total)
    return float(label * np.sqrt(total) * radius / (radius**2 + penalty))


def kept_draw() -> Part:
    """A sampler that keeps the draw of one release and gives it again to the next."""
    kept: dict[tuple[int, float], Array] = {}

    def draw(d: int, rate: Any, *, rng: np.random.Generator, size: Any = ()) -> Array:
        if size != ():
            return _draw(d, rate, rng=rng, size=size)
        if (d, float(rate)) not in kept:
            kept[d, float(rate)] = _draw(d, rate, rng=rng)
        return kept[d, float(rate)]

    return ridge, "spherical_laplace", draw


def shared_rows(d: int, rate: Any, *, rng: np.random.Generator, size: Any = ()) -> Array:
    """A table of draws whose rows are the same."""
    if not (isinstance(size, tuple) and len(size) == 2):
        return _draw(d, rate, rng=rng, size=size)
    return np.broadcast_to(_draw(d, rate, rng=rng, size=size[1]), (*size, d)).copy()


def labels_not_clipped(X: Any, y: Any, **more: Any) -> tuple[Array, Array]:
    """Features clipped, labels as they are."""
    if not more.get("clip"):
        return _records(X, y, **more)
    return _records(X, y, **more)[0], np.asarray(y, dtype=float)


def clipped_by_coordinate(X: Any, y: Any, **more: Any) -> tuple[Array, Array]:
    """With a norm bound every coordinate clipped to it, not the vector."""
    R = more.get("feature_norm")
    if R is None or not more.get("clip"):
        return _records(X, y, **more)
    _, labels = _records(X, y, **more)
    return np.clip(np.asarray(X, dtype=float), -R, R), labels


def largest_feature(X: Any, y: Any, **more: Any) -> tuple[Array, Array]:
    """Vectors of logistic regression shortened by the largest coordinate, not by their norm."""
    if not more.get("clip"):
        return _signed_records(X, y, **more)
    features = np.asarray(X, dtype=float)
    size = np.maximum(1, np.abs(features).max(axis=1, keepdims=True))
    return features / size, np.asarray(y, dtype=float)


def many_features(bound: int) -> Part:
    """The constant of ridge regression with the norm of features that are no more than so many."""
    return changed_call(
        ridge, "sensitivity_constant", lambda g: {"feature_norm": min(g["feature_norm"], float(np.sqrt(bound)))}
    )


def in_proportion(epsilon: Any, threshold: float) -> Array:
    """Records kept with probabilities in proportion to what they accept."""
    return np.minimum(1.0, np.asarray(epsilon, dtype=float) / threshold)


def shared_sets(self: Any, *, rng: np.random.Generator) -> Array:
    """One noise vector for the estimates of all sampled sets."""
    return np.asarray(self.theta + _draw(self.theta.shape[1], self.noise_rate[0], rng=rng))


def rate_of_kept(made: jorgensen.SampledRidge, arguments: Mapping[str, Any]) -> jorgensen.SampledRidge:
    """The rate of the realised size beside weights of the expected one."""
    if arguments["size_in_noise"] != "fixed":
        return made
    return replace(made, noise_rate=made.noise_rate * made.sample_size / made.sample_size.mean())


def whole_promise(made: ridge_variants.WeightedMoments, arguments: Mapping[str, Any]) -> ridge_variants.WeightedMoments:
    """The whole of each promise spent on noise, nothing left for the curvature."""
    R = arguments["feature_norm"] or np.sqrt(len(made.cross))
    total = float(np.sum(arguments["epsilon"]))
    return replace(made, noise_rate=made.noise_rate * total / (total - R * R / made.penalty))


def larger_ball(made: Any, _: Mapping[str, Any]) -> Any:
    """Moments with a ball of twice the radius."""
    return replace(made[0], radius=2 * made[0].radius), made[1]


def second_power(made: ridge_variants.WeightedMoments, arguments: Mapping[str, Any]) -> ridge_variants.WeightedMoments:
    """With a norm bound its square in the sensitivity of moments where its fourth power belongs."""
    R = arguments["feature_norm"]
    return replace(made, noise_rate=made.noise_rate * float(np.sqrt((2 * R**4 + 2 * R**2 + 0.5) / (4 * R**2 + 0.5))))


def bare_second_moments(z: Array, d: int, rate: Any, rng: np.random.Generator) -> Array:
    """No noise on second moments, if a vector of that length has the noise of moments."""
    features = next((k for k in range(1, 61) if k + k * (k + 1) // 2 == d), d)
    z[:, features:] = 0.0
    return z


def constant_noise(change: Change) -> Part:
    """The private constant with a change of its noise."""
    right = ridge_variants.private_constant

    def constant(*values: Any, rng: Any, **more: Any) -> Array:
        low, high = more.get("label_range", (-1.0, 1.0))

        def scaled(z: Any, d: int, rate: Any, own: Any) -> Any:
            return change(np.asarray(z), d, high - low, own)

        return right(*values, rng=Tampered(rng, scaled), **more)

    return ridge_variants, "private_constant", constant


def lattice_noise(change: Callable[[Any, int, Any, Any, np.random.Generator], Any]) -> Part:
    """Noise on the lattice, changed, given dimension, rate, size and generator."""

    def draw(d: int, rate: Any, *, rng: np.random.Generator, size: Any = ()) -> Any:
        return change(_lattice(d, rate, rng=rng, size=size), d, rate, size, rng)

    return lattice, "lattice_laplace", draw


def by_coordinate(z: Any, d: int, rate: Any, size: Any, rng: np.random.Generator) -> Any:
    """Independent coordinates of that rate."""
    shape = size if isinstance(size, tuple) else (size,)
    return discrete.discrete_laplace(1 / rate, rng=rng, size=(*shape, d))


def first_bare(z: Any, d: int, rate: Any, size: Any, rng: np.random.Generator) -> Any:
    """No noise on the first coordinate of several."""
    if d > 1:
        z[..., 0] = 0
    return z


def one_branch(penalty: Any, square: Any, bound: Any, label_bound: Any) -> Any:
    """The constant of the lattice with the norm bound of large penalties for all."""
    if bound == "paper":
        return _above(penalty, square, bound, label_bound)
    norm = discrete.root_above(square, 2**64)
    return 2 * label_bound / penalty * (norm + square * (norm / (square + penalty)) / 2)


def float_mechanism(*values: Any, spacing: float, **more: Any) -> ridge.OutputPerturbation:
    """Noise in floats where a lattice is asked for."""
    return _pdp_op(*values, **more)


def twice_zero(scale: Any, *, rng: np.random.Generator, size: Any = ()) -> Any:
    """Discrete Laplace noise that does not draw "minus 0" anew, so that 0 counts twice."""
    size_of = np.floor(rng.exponential(float(scale), size)).astype(np.int64)
    return size_of * rng.choice([-1, 1], size)


def rounded_gradients(gradients: Any, clip_norm: float, spacing: float) -> Any:
    """Clipped gradients rounded to the grid, not cut towards zero, and not checked after that."""
    return np.rint(_clipped(np.asarray(gradients, dtype=float), clip_norm) / spacing).astype(np.int64)


def far_halved(w: Array, arguments: Mapping[str, Any]) -> Array:
    """Half of the minimiser where noise is so large that nothing else counts."""
    return np.where(np.abs(arguments["noise"]).max(axis=1, keepdims=True) > 1e100, w / 2, w)


def by_rows(*values: Any, rng: Any, **more: Any) -> fedsgd.Training:
    """Training with noise divided by the number of an owner's records."""
    rows = max(len(own) for run in values[2] for own in run)
    return _fedsgd(*values, rng=Tampered(rng, lambda z, *_: z / rows), **more)


def seeded_training(*values: Any, rng: Any, **more: Any) -> fedsgd.Training:
    """Training with the same noise in all runs and rounds."""
    same = Tampered(rng, lambda z, d, rate, _: np.random.default_rng(0).laplace(0, 1 / rate, z.shape))
    return _fedsgd(*values, rng=same, **more)


def clipped_by_class(gradients: Array, clip_norm: float) -> Array:
    """With more than two classes each class clipped by itself."""
    if gradients.shape[-2] <= 2:
        return _clipped(gradients, clip_norm)
    norm = np.abs(gradients).sum(-1, keepdims=True)
    return np.asarray(gradients * (clip_norm / np.maximum(norm, clip_norm)))


# --- estimators -------------------------------------------------------------------------------------------------------


def global_state(random_state: Any) -> np.random.Generator:
    """Without a seed, noise from NumPy's global state."""
    if random_state is None:
        return np.random.default_rng(np.random.randint(2**31))  # noqa: NPY002
    return _generator(random_state)


def few_seeds(random_state: Any) -> np.random.Generator:
    """Seeds cut to four bits."""
    return _generator(int(random_state) % 16 if isinstance(random_state, int | np.integer) else random_state)


def copied(self: Any) -> Any:
    """A clone with a copy of the generator, which draws what the original will draw."""
    return BaseEstimator.__sklearn_clone__(self)


def parameter_first(self: Any, epsilon: Any, n_records: int) -> Any:
    """The estimator's own privacy loss, whatever is given for each record."""
    return np.full(n_records, float(self.epsilon))


def doubled_number(self: Any, epsilon: Any, n_records: int) -> Any:
    """One number for all records taken for that of a pair."""
    found = _losses(self, epsilon, n_records)
    return 2 * np.asarray(found) if epsilon is not None and np.ndim(epsilon) == 0 else found


def half_charged(self: Account, losses: Array, times: int, rng: np.random.Generator) -> None:
    """An account that is charged half."""
    _charge(self, losses / 2, times, rng)


def scaled_by_longest(found: dict[str, Any]) -> dict[str, Any]:
    """Where records are clipped: all divided by the length of the longest."""
    X = np.asarray(found["X"], dtype=float)
    return {"X": X / max(1.0, float(np.linalg.norm(X, axis=1).max()))} if found["clip"] else {}
