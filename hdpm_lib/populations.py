"""The made-up people of the ridge paper: privacy requirements in three groups, and noiseless linear data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpm_lib.validation import check_count, check_generator, check_number

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PrivacyGroups:
    r"""Conservatives, pragmatists and liberals (Section 3 of the ridge paper, "Choice of Privacy Budgets").

    Attributes
    ----------
    f_c, f_m : float, default 0.34, 0.43
        Shares of conservatives and pragmatists; the rest are liberals.
    eps_c, eps_m, eps_l : float, default 0.01, 0.2, 1.0
        Conservatives draw their privacy loss uniformly from [eps_c, eps_m], pragmatists from [eps_m, eps_l], liberals
        accept eps_l.

    Raises
    ------
    ValueError
        If shares or levels are out of order.

    Examples
    --------
    >>> PrivacyGroups().counts(80)
    (27, 34, 19)
    >>> round(PrivacyGroups().mean(), 4)
    0.5237
    """

    f_c: float = 0.34
    f_m: float = 0.43
    eps_c: float = 0.01
    eps_m: float = 0.2
    eps_l: float = 1.0

    def __post_init__(self) -> None:
        """Refuse shares that are no shares and levels out of order."""
        for name in ("f_c", "f_m", "eps_c", "eps_m", "eps_l"):
            check_number(getattr(self, name), name)
        if not (self.f_c >= 0 and self.f_m >= 0 and self.f_c + self.f_m <= 1 + 1e-12):
            raise ValueError(f"f_c and f_m must be shares with a sum of at most 1, got {self.f_c} and {self.f_m}")
        if not 0 < self.eps_c <= self.eps_m <= self.eps_l:
            raise ValueError(f"need 0 < eps_c <= eps_m <= eps_l, got {self.eps_c}, {self.eps_m}, {self.eps_l}")

    def counts(self, n: int) -> tuple[int, int, int]:
        """People in each group: shares cut down to whole numbers, the remainder liberal.

        The paper does not say how it rounds; this rule fits its tables best.
        """
        n = check_count(n, "n", 0)
        c, m = int(self.f_c * n), int(self.f_m * n)
        return c, m, n - c - m

    def mean(self) -> float:
        """Expected privacy loss of a person drawn at random with exact shares."""
        c, m = (self.eps_c + self.eps_m) / 2, (self.eps_m + self.eps_l) / 2
        return self.f_c * c + self.f_m * m + (1 - self.f_c - self.f_m) * self.eps_l

    def total(self, n: int) -> tuple[float, float]:
        """Mean and standard deviation of the sum of the privacy losses of `n` people.

        Examples
        --------
        >>> mean, std = PrivacyGroups().total(80)
        >>> round(mean, 3), round(std, 3)
        (42.235, 1.376)
        """
        c, m, liberals = self.counts(n)
        mean = c * (self.eps_c + self.eps_m) / 2 + m * (self.eps_m + self.eps_l) / 2 + liberals * self.eps_l
        variance = (c * (self.eps_m - self.eps_c) ** 2 + m * (self.eps_l - self.eps_m) ** 2) / 12
        return mean, variance**0.5

    def draw(self, n: int, *, rng: np.random.Generator) -> Array:
        """Privacy losses of `n` people in random order, shape (n,)."""
        check_generator(rng)
        c, m, liberals = self.counts(n)
        parts = [rng.uniform(self.eps_c, self.eps_m, c), rng.uniform(self.eps_m, self.eps_l, m)]
        return rng.permutation(np.concatenate([*parts, np.full(liberals, self.eps_l)]))


@dataclass(frozen=True)
class Split:
    """Records to train and to test on.

    Attributes
    ----------
    X_train, X_test : array of shape (n, d), (n_test, d)
    y_train, y_test : array of shape (n,), (n_test,)
    """

    X_train: Array
    y_train: Array
    X_test: Array
    y_test: Array


def linear_population(n_train: int, n_test: int, dimension: int, *, rng: np.random.Generator) -> Split:
    r"""Noiseless data :math:`y=x^\top\theta^*/\sqrt d`, `x` uniform on the cube, :math:`\theta^*` on the sphere.

    Parameters
    ----------
    n_train, n_test, dimension : int
        Sizes; the paper's "n = 100" is 80 records to train and 20 to test on.
    rng : numpy.random.Generator

    Returns
    -------
    Split
        Labels lie in [-1, 1] by Cauchy-Schwarz.

    Examples
    --------
    >>> split = linear_population(80, 20, 30, rng=np.random.default_rng(0))
    >>> split.X_train.shape, bool(abs(split.y_train).max() <= 1)
    ((80, 30), True)
    """
    n_train, n_test = check_count(n_train, "n_train"), check_count(n_test, "n_test")
    dimension, rng = check_count(dimension, "dimension"), check_generator(rng)
    direction = rng.standard_normal(dimension)
    direction /= np.linalg.norm(direction)
    X = rng.random((n_train + n_test, dimension))
    y = X @ direction / np.sqrt(dimension)
    return Split(X[:n_train], y[:n_train], X[n_train:], y[n_train:])
