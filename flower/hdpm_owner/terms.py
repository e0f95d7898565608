"""What an owner has decided, in ``terms.toml``: what is protected and how, and how much she may
lose.
"""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass, fields
from fractions import Fraction
from math import inf, sqrt
from pathlib import Path
from typing import Any

from flint import arb, ctx, fmpq

from hdpm_lib.auctions.bids import FAMILIES
from hdpm_lib.exact import ALONE, BITS
from hdpm_lib.gaussian import gaussian_epsilon
from hdpm_lib.validation import check_choice, check_number, check_positive
from hdpm_owner.shapes import check_name

UNITS = ("record", "owner")
NOISES = ("gaussian", "laplace")
ROUNDS = 10_000  # of one sale, at most
_TOLD = 120.0  # a mu by so much above sqrt(2 epsilon) has a delta within 1e-300 of 1


class Refusal(ValueError):
    """What she does not do, and why, in words that depend on nothing private."""


@dataclass(frozen=True)
class Spent:
    """What releases have cost, exactly: pure losses, and squares of ``mu`` of Gaussian noise."""

    pure: Fraction = Fraction(0)
    squares: Fraction = Fraction(0)

    @classmethod
    def of(cls, noise: str, loss: float, times: int = 1) -> Spent:
        """Return some releases of the same loss: epsilon for Laplace noise, ``mu`` for Gaussian
        noise.
        """
        exact = Fraction(loss)
        return cls(squares=times * exact**2) if noise == "gaussian" else cls(pure=times * exact)

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.pure + other.pure, self.squares + other.squares)

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.pure - other.pure, self.squares - other.squares)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon at which all of it is (epsilon, delta)-private."""
        if not self.squares:
            return float(self.pure)
        if not delta:
            return inf
        return float(gaussian_epsilon(delta, sqrt(self.squares), float(self.pure)))

    def within(self, epsilon: float, delta: float) -> bool:
        """Decide whether all of it is certainly (epsilon, delta)-private.

        What no number of digits decides counts as more than that.
        """
        if not self.squares or self.pure > epsilon:
            return self.pure <= epsilon
        with ALONE:
            for bits in BITS:
                with ctx.workprec(bits):
                    loss = self._delta(Fraction(epsilon))
                    if loss <= delta:
                        return True
                    if loss > delta:
                        return False
        return False

    def _delta(self, epsilon: Fraction) -> arb:
        """Enclose the delta at an epsilon, by the second formula of :mod:`hdpm_lib.gaussian`."""
        mu = _ball(self.squares).sqrt()
        truth = 1 / (1 + (-_ball(self.pure)).exp())
        nearer = _gaussian_delta(_ball(epsilon - self.pure), mu)
        farther = _gaussian_delta(_ball(epsilon + self.pure), mu)
        return truth * nearer + (1 - truth) * farther

    def share(self, noise: str, rounds: int, epsilon: float, delta: float) -> float:
        """Return the largest loss of which so many more stay within (epsilon, delta), or 0.

        It is the last float that :meth:`within` lets pass, so that no release which was sold is
        refused for a rounding. Where next to nothing is left, it may be less in its last digits.
        """

        def stays(loss: float) -> bool:
            return (self + Spent.of(noise, loss, rounds)).within(epsilon, delta)

        low = 0.0
        high = epsilon if noise == "laplace" else sqrt(2 * epsilon) + _TOLD
        if stays(high):
            return high
        for _ in range(120):  # halvings
            middle = (low + high) / 2
            if not low < middle < high:
                break
            if stays(middle):
                low = middle
            else:
                high = middle
        return low


def _ball(number: Fraction) -> arb:
    """Enclose a fraction in a ball."""
    return arb(fmpq(number.numerator, number.denominator))


def _gaussian_delta(epsilon: arb, mu: arb) -> arb:
    """Enclose the first formula of :mod:`hdpm_lib.gaussian`."""
    root = arb(2).sqrt()
    gained = ((epsilon / mu - mu / 2) / root).erfc() / 2
    allowed = ((epsilon / mu + mu / 2) / root).erfc() / 2
    return gained - epsilon.exp() * allowed


@dataclass(frozen=True)
class Approved:
    """A market that she sells to.

    Attributes
    ----------
    name, key : str, of its charter; the key is public
    charter : str, the hash of it
    epsilon : float, the most that its key may buy, in all its markets, at the delta of her terms
    money : float, the most that it may promise her in all: what is never paid is lost
    rehearsal : bool
    """

    name: str
    key: str
    charter: str
    epsilon: float = inf
    money: float = inf
    rehearsal: bool = False


@dataclass(frozen=True)
class Terms:
    """Her terms.

    Attributes
    ----------
    name : str
    family, rate : her cost of privacy, as in :class:`~hdpm_lib.auctions.bids.Bids`
    epsilon, delta : float
        What all releases together may lose, over all rounds, markets and restarts. Laplace noise
        needs no delta.
    unit : {"record", "owner"}
        What takes another's place in a neighbour: one row of her table, or all of it.
    noise : {"gaussian", "laplace"}
        A loss, in a bid, a sale or a receipt, is ``mu`` or epsilon.
    limit : float, largest loss in a round
    clip_norm, spacing : float, as in :mod:`hdpm_lib.learners.integer_answers`
    keep : float, hours for which what she has sold waits for the rounds of that sale
    seed : int, optional
        For tests only: who knows it can take the Laplace noise off what she sends. By default the
        system's entropy.
    """

    name: str
    family: str
    rate: float
    epsilon: float
    delta: float = 0.0
    unit: str = "record"
    noise: str = "gaussian"
    limit: float = inf
    clip_norm: float = 1.0
    spacing: float = 2.0**-20
    keep: float = 24.0
    seed: int | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        for name, known in (("family", FAMILIES), ("unit", UNITS), ("noise", NOISES)):
            check_choice(getattr(self, name), name, known)
        for name in ("rate", "epsilon", "clip_norm", "spacing", "keep"):
            check_positive(getattr(self, name), name)
        if self.limit != inf:
            check_positive(self.limit, "limit")
        check_number(self.delta, "delta", 0, 1, ends="[)")
        if self.noise == "gaussian" and self.delta == 0:
            raise ValueError("delta must be positive with Gaussian noise, 1e-5 for instance, got 0")
        if self.noise == "gaussian" and self.seed is not None:
            raise ValueError("seed must not be given with Gaussian noise, which OpenDP draws")

    @classmethod
    def read(cls, file: Path) -> Terms:
        """Terms from a TOML file."""
        try:
            return cls.parse(file.read_bytes(), file)
        except FileNotFoundError:
            raise ValueError(f"{file} is not there: hdpm-owner init makes it") from None

    @classmethod
    def parse(cls, text: bytes, file: Path) -> Terms:
        """Terms from what stands, or is to stand, in a file."""
        try:
            content: dict[str, Any] = tomllib.loads(text.decode("utf-8-sig"))
            if "markets" in content:
                raise ValueError("markets are joined: hdpm-owner join, and no part of the terms")
            known = [one.name for one in fields(cls)]
            for name in content:
                if name not in known:
                    near = difflib.get_close_matches(name, known, 1)
                    meant = f": did you mean {near[0]}?" if near else ""
                    raise ValueError(f"there is no such part {name!r}{meant}")
            return cls(**content)
        except (AttributeError, RecursionError, TypeError, ValueError) as error:
            raise ValueError(f"{file}: {error}") from None
