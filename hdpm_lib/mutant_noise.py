"""Noise with a bug in it, for :mod:`hdpm_lib.mutants`: changes of what a right sampler has drawn.

A *part* is a triple: a module or class of the library, the name of an attribute, and what stands in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from hdpm_lib import federated_study, noise, queries

Array = NDArray[np.float64]
Part = tuple[Any, str, Any]
Change = Callable[[Array, int, Any, np.random.Generator], Array]  # of noise, given its dimension, rate, a generator

_draw, _answer, _fedsgd = noise.spherical_laplace, queries.BiasedLaplace.release, federated_study.fedsgd


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
    """The second half of a batch is the first: radii from the other tail, directions turned by a right angle."""
    first, law = z[: len(z) // 2], stats.gamma(d, scale=1 / rate)
    turned = -first
    turned[:, : d - 1 : 2], turned[:, 1::2] = -first[:, 1::2], first[:, : d - 1 : 2]
    z[len(z) - len(first) :] = directions(turned) * law.isf(law.cdf(np.linalg.norm(first, axis=1)))[:, None]
    return z


def single_precision(z: Array, d: int, rate: Any, rng: np.random.Generator) -> Array:
    """Noise in single precision."""
    return z.astype(np.float32).astype(float)


def spherical_noise(place: Any, change: Change) -> Part:
    """The sampler of spherical noise in a learner's module, with a change of what it has drawn."""
    changed = lambda d, rate, *, rng, size=(): change(_draw(d, rate, rng=rng, size=size), d, rate, rng)  # noqa: E731
    return place, "spherical_laplace", changed


def seeded_noise(place: Any, seed: Callable[[np.random.Generator], Any]) -> Part:
    """The sampler with a generator of its own in every call."""
    own = lambda d, rate, *, rng, size=(): _draw(d, rate, rng=np.random.default_rng(seed(rng)), size=size)  # noqa: E731
    return place, "spherical_laplace", own


class Tampered(np.random.Generator):
    """A generator with a change of the Laplace variables that it has drawn; the dimension is that of one draw."""

    def __init__(self, rng: np.random.Generator, change: Change) -> None:
        super().__init__(rng.bit_generator)
        self.rng, self.change = rng, change

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """As ``numpy.random.Generator.laplace``."""
        z = self.rng.laplace(loc, scale, size)
        return self.change(z, int(np.prod(size[1:])), 1 / scale, self.rng)


def answer_noise(change: Change) -> Part:
    """The release of a sum, with a change of its noise."""

    def release(self: Any, terms: Any, *, rng: Any, size: Any = ()) -> Array:
        return _answer(self, terms, rng=Tampered(rng, change), size=size)

    return queries.BiasedLaplace, "release", release


def gradient_noise(change: Change) -> Part:
    """The training that releases gradients, with a change of their noise."""

    def train(*given: Any, rng: Any, **more: Any) -> federated_study.Training:
        return _fedsgd(*given, rng=Tampered(rng, change), **more)

    return federated_study, "fedsgd", train


def drawn_once(*given: Any, rng: Any, **more: Any) -> federated_study.Training:
    """Training with the noise of the first round in every round."""
    runs = given[4].shape[1]
    drawn: list[Array] = []

    def replay(z: Array, d: int, rate: Any, rng: np.random.Generator) -> Array:
        drawn.append(z if len(drawn) < runs else drawn[-runs])
        return drawn[-1]

    return _fedsgd(*given, rng=Tampered(rng, replay), **more)
