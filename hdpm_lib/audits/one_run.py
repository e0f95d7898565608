r"""An audit of a training that runs once: coins decide which of many planted records are in it.

To train a model a thousand times for an audit is often too dear. Steinke, Nasr and Jagielski (2023,
"Privacy Auditing with One (1) Training Run", NeurIPS, arXiv:2305.08846) train once. Of `m` planted
records, the *canaries*, each is in the training or not, by a fair coin of its own. The auditor
computes a score of each canary from the model, guesses "in" for the highest scores and "out" for
the lowest, and abstains between them. Too many right guesses refute the promise.

**Theorem.** Let the coins be fair and independent, and let the training be
:math:`(\varepsilon,\delta)`-private between any two settings of the coins that differ in one of
them. Let `W` of `r` guesses be right, where `r` is fixed and guesses are made without looking at
the coins. Let `B` be binomial, of `r` draws with probability
:math:`p=e^\varepsilon/(1+e^\varepsilon)`. With :math:`f=\Pr[B\ge v]`, for :math:`1\le v\le r`,

.. math:: \Pr[W\ge v]\le f+m\delta\,\frac{f(1-f)}{v\Pr[B=v]}.

**Proof.** Let :math:`\pi_j=\Pr[W=j]`. Turn the coin of canary `i` and keep the output of the
training: a right guess about `i` becomes wrong, and one guess less is right. The two data sets are
neighbours, so for every set `J` of numbers

.. math:: \Pr[\text{guess }i\text{ right},W\in J]
   \le e^\varepsilon\Pr[\text{guess }i\text{ wrong},W+1\in J]+\delta.

Add this up over `i`: with :math:`u_j=j\pi_j-e^\varepsilon(r-j+1)\pi_{j-1}` we have
:math:`\sum_{j\in J}u_j\le m\delta` for every `J`, so the positive :math:`u_j` add up to at most
:math:`m\delta`. Stein's equation of the binomial law,

.. math:: jy_j-e^\varepsilon(r-j)y_{j+1}=1[j\ge v]-f,\qquad j=0,\dots,r,

is solved by :math:`y_j=f\Pr[B<j]/(j\Pr[B=j])` up to `v`, which rises, and by
:math:`y_j=(1-f)\Pr[B\ge j]/(j\Pr[B=j])` from `v` on, which falls. Take the mean of the equation
over the law of `W`: :math:`\Pr[W\ge v]-f=\sum_jy_ju_j\le y_vm\delta`.

For :math:`\delta=0` this is the theorem of the paper. For other :math:`\delta` the paper's
correction is :math:`2m\delta\max_i(\Pr[B\ge v-i]-f)/i`. The one above cannot be made smaller, for
some training attains it (the tests find it by a linear program); where :math:`f\le1/2`, it is at
most half of the paper's in all cases that the tests try.

**Personal promises.** Let canary `i` have a claim :math:`\varepsilon_i` of its own, and
:math:`p_i=e^{\varepsilon_i}/(1+e^{\varepsilon_i})`. The p-value of "each canary keeps its claim" is
the probability that of independent guesses, right with probability :math:`p_i` each, as many are
right as were found (the tail of a Poisson binomial law, over the canaries that were guessed), plus
:math:`\delta\sum_i(1-p_i)` over all canaries. Proof: given the guesses, learn one by one which of
them are right. In the step of guess `i` the conditional probability to reject, under independent
guesses, moves by :math:`(x_i-p_i)D_i`, where :math:`x_i` is 1 if the guess is right and
:math:`D_i`, in [0, 1], depends on the guesses and the steps before. Turn coin `i` as above: the
mean of this is at most :math:`(1-p_i)\delta`.

**Which neighbours.** If a canary whose coin says "out" is left out, the promise is for one record
more or less. If another record takes its place, the promise is for one record replaced. A mechanism
that promises :math:`(\varepsilon,\delta)` of the first kind promises
:math:`(2\varepsilon,(1+e^\varepsilon)\delta)` of the second. Coins are independent: to take exactly
half of the canaries is not admitted.

**How many guesses.** The numbers of guesses are settled before anybody looks at the coins. Where
several are tried, each has the same share of the level, and the union bound holds for all of them.
By default they are all canaries, a half, a quarter, an eighth and a sixteenth. All canaries are
best where the score has two values. With Laplace noise about a half of the scores tell as much as
they ever can; normal noise tells most in the few scores far out. With 10,000 canaries the five
shares cost about 2 % of the bound for randomised response and Laplace noise.

One training proves less than many: of a true loss of 1 about 0.8 with 1,000 canaries and 0.9 with
10,000, where each canary has a coordinate of its own. A small bound proves nothing, for a better
score may find more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats
from scipy.special import expit

from hdpm_lib.audits.bounds import guess_epsilon
from hdpm_lib.frozen import Frozen
from hdpm_lib.validation import (
    FALSE_ALARM,
    check_count,
    check_finite,
    check_generator,
    check_number,
)

Array = NDArray[np.float64]
Bits = NDArray[np.bool_]
Integers = NDArray[np.int64]

_SIZES = 5  # numbers of guesses that are tried by default: all canaries, a half, a quarter, ...
_FEWEST = 10  # guesses of the smallest of them
_MOST = 10_000_000  # canaries


@dataclass(frozen=True, eq=False, repr=False)
class OneRunAudit(Frozen):
    """Result of guesses about one training, in numbers; as a string in words.

    Parameters
    ----------
    canaries : int
        Planted records, those that were left out among them.
    made, right : array of int, shape (sizes,)
        Numbers of guesses that were tried, and of right ones.
    epsilon : float, or array of shape (canaries,)
        The claim, or that of each canary.
    delta : float
        Of the claim.
    level : float
        Probability of a false alarm.
    p_values : array of shape (sizes,)
        Smallest level at which each of these numbers alone rejects the claim.

    Examples
    --------
    >>> found = audit_one_run(np.arange(40.0), np.arange(40) >= 20, epsilon=1.0, level=0.01)
    >>> print(found)
    violation found: claimed epsilon = 1, 40 canaries in one training
      test     40 of 40 guesses were right: p = 1.1e-05, level 0.01
      bound    the loss exceeds 2.422 at confidence 0.9, 1.876 at confidence 0.99
    """

    canaries: int
    made: Integers
    right: Integers
    epsilon: float | Array
    delta: float
    level: float
    p_values: Array

    @property
    def p_value(self) -> float:
        """Smallest level at which the claim is rejected, all numbers of guesses together."""
        return min(1.0, len(self.p_values) * float(self.p_values.min()))

    @property
    def found(self) -> bool:
        """True if a violation was found."""
        return self.p_value <= self.level

    def epsilon_lower(self, confidence: float = 1 - FALSE_ALARM) -> float:
        """Return a loss that the training exceeds, at the delta of the claim.

        Parameters
        ----------
        confidence : float, default 1 - 1e-6
            Probability in (0, 1) that this is so.

        Returns
        -------
        float
            The bound; 0 if the guesses prove nothing. At least one canary loses more: with personal
            claims nothing is said of the others.

        Examples
        --------
        >>> found = audit_one_run(np.arange(40.0), np.arange(40) >= 20, epsilon=1.0)
        >>> round(found.epsilon_lower(0.95), 3)
        2.228
        """
        wrong = 1 - check_number(confidence, "confidence", 0, 1, ends="()")
        share = wrong / len(self.made)
        bounds = []
        for right, made in zip(self.right.tolist(), self.made.tolist(), strict=True):
            bounds.append(_epsilon(right, made, self.canaries, share, self.delta))
        return max(bounds)

    def __str__(self) -> str:
        claim = _claim_in_words(self.epsilon)
        if self.delta:
            claim += f", delta = {self.delta:.3g}"
        verdict = "violation found" if self.found else "no violation found"
        k = int(np.argmin(self.p_values))
        guesses = f"{self.right[k]:,} of {self.made[k]:,} guesses were right"
        bounds = []
        for confidence in (0.9, 1 - self.level):
            bound = self.epsilon_lower(confidence)
            bounds.append(f"{bound:.4g} at confidence {confidence:.12g}")
        lines = [
            f"{verdict}: claimed {claim}, {self.canaries:,} canaries in one training",
            f"  test     {guesses}: p = {self.p_value:.2g}, level {self.level:.2g}",
            f"  bound    the loss exceeds {', '.join(bounds)}",
        ]
        return "\n".join(lines)


def plant_canaries(
    train: Callable[[Any, np.random.Generator], Any],
    data: Any,
    canaries: Any,
    score: Callable[[Any, Any], ArrayLike],
    *,
    rng: np.random.Generator,
    instead: Any = None,
) -> tuple[Array, Bits]:
    """Train once with canaries that fair coins choose, and score all of them.

    Parameters
    ----------
    train : function
        ``train(data, rng)`` returns a model: all that somebody sees of the training, such as the
        parameters after each step. It is called once.
    data : array of shape (n, ...), or tuple of such arrays
        Records that are in the training anyhow, along the first axis; the parts of a tuple, such as
        features and labels, belong together.
    canaries : array of shape (m, ...), or tuple of such arrays
        Records to plant, shaped as those of `data`. They stand behind these, in order.
    score : function
        ``score(model, canaries)`` returns a number for each canary, shape (m,), larger where it
        seems to be in the training.
    rng : numpy.random.Generator
        Source of the coins, and then of the training.
    instead : array or tuple as `canaries`, optional
        Records in the places of canaries whose coins say no: the promise is then that one record
        may be replaced. By default such a canary is left out.

    Returns
    -------
    tuple of array of float and array of bool, both of shape (m,)
        Scores, and which canaries were in: what :func:`audit_one_run` takes.

    Raises
    ------
    ValueError
        If parts have different numbers of records.

    Notes
    -----
    The score must come from the model and from what is known of the canaries. Whoever computes it
    from the coins audits nothing.

    References
    ----------
    Steinke, Nasr, Jagielski (2023), Privacy Auditing with One (1) Training Run, NeurIPS.

    Examples
    --------
    A sum of one-hot records with Laplace noise of scale 1 loses 1 for a record more or less.

    >>> def noisy_sum(data, rng):
    ...     return data.sum(axis=0) + rng.laplace(0, 1, data.shape[1])
    >>> def score(model, canaries):
    ...     return canaries @ model
    >>> rng = np.random.default_rng(0)
    >>> no_others = np.zeros((0, 1000))
    >>> scores, included = plant_canaries(noisy_sum, no_others, np.eye(1000), score, rng=rng)
    >>> found = audit_one_run(scores, included, epsilon=0.2)
    >>> found.found, round(found.epsilon_lower(0.95), 2)
    (True, 0.68)
    """
    parts = _parts(canaries, "canaries")
    others = _parts(data, "data")
    if len(others) != len(parts):
        raise ValueError(f"data must have {len(parts)} parts like canaries, got {len(others)}")
    m = check_count(len(parts[0]), "canaries", most=_MOST)
    included = check_generator(rng).random(m) < 0.5
    planted = []
    if instead is None:
        for part in parts:
            planted.append(part[included])
    else:
        counterparts = _parts(instead, "instead")
        if [part.shape for part in counterparts] != [part.shape for part in parts]:
            raise ValueError("instead must have the shape of canaries, in all parts")
        for part, counterpart in zip(parts, counterparts, strict=True):
            here = included.reshape(m, *[1] * (part.ndim - 1))
            planted.append(np.where(here, part, counterpart))
    joined = []
    for old, new in zip(others, planted, strict=True):
        joined.append(np.concatenate([old, new]))
    model = train(tuple(joined) if isinstance(data, tuple) else joined[0], rng)
    scores = check_finite(score(model, canaries), "scores", 1)
    if len(scores) != m:
        raise ValueError(f"scores must have shape ({m},), one for each canary, got {scores.shape}")
    return scores, included


def audit_one_run(
    scores: ArrayLike,
    included: ArrayLike,
    epsilon: float | ArrayLike,
    delta: float = 0.0,
    *,
    guesses: int | Sequence[int] | None = None,
    level: float = FALSE_ALARM,
) -> OneRunAudit:
    r"""Audit a promise of privacy by the scores of canaries in one training.

    Parameters
    ----------
    scores : array of shape (m,)
        One for each canary, larger where it seems to be in the training; computed without the
        coins. Of equal scores the first canary counts as the larger.
    included : array of bool, shape (m,)
        The coins: which canaries were in the training. Each of them fair, and independent of the
        others.
    epsilon : float, or array of shape (m,)
        The claim, not negative; an array has one for each canary.
    delta : float, default 0
        In [0, 1): the claim is :math:`(\varepsilon,\delta)`-differential privacy.
    guesses : int or sequence of int, optional
        Numbers of guesses to try, from 1 to `m`, settled before anybody looks at `included`. Half
        of them say "in", of the highest scores, and half say "out", of the lowest; of an odd number
        one more says "in". By default all canaries, a half, a quarter, an eighth and a sixteenth of
        them, as long as these are ten.
    level : float, default 1e-6
        Probability of a false alarm in (0, 1), all numbers of guesses together.

    Returns
    -------
    OneRunAudit
        Print it, or ask for ``found``, ``p_value``, ``epsilon_lower(confidence)``.

    Raises
    ------
    ValueError
        If the coins cannot have been fair: so many or so few in come with a probability of at most
        one in a million.

    Notes
    -----
    The theorem of Steinke, Nasr and Jagielski, with a sharper correction for `delta`; head of
    :mod:`hdpm_lib.audits.one_run`. It assumes fair and independent coins, and nothing of the
    training, the canaries or the scores. Neighbours are two settings that differ in one coin: one
    record more or less if canaries are left out, one replaced if others take their places. The
    union bound pays for several numbers of guesses. Nothing is private here: who audits knows the
    coins.

    References
    ----------
    Steinke, Nasr, Jagielski (2023), Privacy Auditing with One (1) Training Run, NeurIPS,
    arXiv:2305.08846.

    Examples
    --------
    Randomised response tells a coin with a loss of 2, and claims 1.

    >>> rng = np.random.default_rng(0)
    >>> included = rng.random(1000) < 0.5
    >>> kept = rng.random(1000) < 1 / (1 + np.exp(-2))
    >>> scores = np.where(kept, included, ~included).astype(float)
    >>> found = audit_one_run(scores, included, epsilon=1.0)
    >>> found.found, round(found.epsilon_lower(0.95), 2)
    (True, 1.83)

    A promise for each canary:

    >>> promises = np.where(np.arange(1000) < 500, 0.5, 2.0)
    >>> audit_one_run(scores, included, promises).found
    True
    """
    values = check_finite(scores, "scores", 1)
    m = check_count(len(values), "scores", most=_MOST)
    coins = _check_coins(included, m)
    claims = check_finite(epsilon, "epsilon", low=0)
    if claims.ndim and claims.shape != (m,):
        raise ValueError(
            f"epsilon must be one number, or one for each of {m} canaries, got {claims.shape}"
        )
    free = check_number(delta, "delta", 0, 1, ends="[)")
    most = check_number(level, "level", 0, 1, ends="()")
    sizes = _check_sizes(guesses, m)
    personal = claims.ndim == 1 and claims.min() < claims.max()
    order = np.argsort(-values, kind="stable")
    right = []
    p_values = []
    for made in sizes:
        # the first half says "in"
        said_in = order[: (made + 1) // 2]
        said_out = order[m - made // 2 :]
        count = int(coins[said_in].sum() + (~coins[said_out]).sum())
        if personal:
            guessed = np.concatenate([said_in, said_out])
            p_values.append(_personal_p_value(count, claims[guessed], claims, free))
        else:
            p_values.append(_p_value(count, made, m, float(claims.flat[0]), free))
        right.append(count)
    return OneRunAudit(
        canaries=m,
        made=np.array(sizes),
        right=np.array(right),
        epsilon=claims if claims.ndim else float(claims),
        delta=free,
        level=most,
        p_values=np.array(p_values),
    )


def one_run_p_value(
    right: int, made: int, canaries: int, epsilon: float, delta: float = 0.0
) -> float:
    """Return the smallest level at which right guesses about one training reject a claim.

    Parameters
    ----------
    right, made : int
        Right guesses, and all guesses, in a number that was settled before.
    canaries : int
        Coins, those without a guess among them; at most ten million.
    epsilon : float
        The claim, not negative.
    delta : float, default 0
        Of the claim, in [0, 1).

    Returns
    -------
    float
        The p-value, at most 1.

    Notes
    -----
    The theorem in the head of :mod:`hdpm_lib.audits.one_run`: the claim is one for a record more or
    less if canaries are left out, and for one replaced if others take their places.

    References
    ----------
    Steinke, Nasr, Jagielski (2023), Privacy Auditing with One (1) Training Run, NeurIPS.

    Examples
    --------
    >>> round(one_run_p_value(75, 100, 1000, 0.7), 3)
    0.049
    >>> round(one_run_p_value(75, 100, 1000, 0.7, delta=1e-4), 3)
    0.052
    """
    n = check_count(canaries, "canaries", 1, _MOST)
    r = check_count(made, "made", 0, n)
    v = check_count(right, "right", 0, r)
    claim = check_number(epsilon, "epsilon", 0)
    return _p_value(v, r, n, claim, check_number(delta, "delta", 0, 1, ends="[)"))


def one_run_epsilon(
    right: int, made: int, canaries: int, level: float, delta: float = 0.0
) -> float:
    """Return a lower bound on the loss of a training by right guesses about its canaries.

    Parameters
    ----------
    right, made : int
        Right guesses, and all guesses, in a number that was settled before.
    canaries : int
        Coins, those without a guess among them; at most ten million.
    level : float
        Probability in (0, 1) that the bound is too high.
    delta : float, default 0
        At which the loss is bounded, in [0, 1).

    Returns
    -------
    float
        The bound; 0 if the guesses prove nothing.

    Notes
    -----
    The largest claim that :func:`one_run_p_value` rejects. Where several numbers of guesses are
    tried, each has a share of the level: :func:`audit_one_run`.

    References
    ----------
    Steinke, Nasr, Jagielski (2023), Privacy Auditing with One (1) Training Run, NeurIPS: the
    numbers of the example are those of its Appendix D, where the bound is 0.673.

    Examples
    --------
    >>> round(one_run_epsilon(75, 100, 1000, 0.05, delta=1e-4), 3)
    0.695
    """
    n = check_count(canaries, "canaries", 1, _MOST)
    r = check_count(made, "made", 0, n)
    v = check_count(right, "right", 0, r)
    wrong = check_number(level, "level", 0, 1, ends="()")
    return _epsilon(v, r, n, wrong, check_number(delta, "delta", 0, 1, ends="[)"))


# --- laws ---------------------------------------------------------------------------------------


def _p_value(right: int, made: int, canaries: int, epsilon: float, delta: float) -> float:
    """Return the bound of the theorem."""
    if right == 0:
        return 1.0
    # in wrong guesses, whose probability keeps its digits where the claim is large
    wrong = made - right
    q = expit(-epsilon)
    tail = float(stats.binom.cdf(wrong, made, q))
    if delta == 0:
        return tail
    point = float(stats.binom.pmf(wrong, made, q))
    if point > 1e-290:
        ratio = tail / point
    elif tail > 0.5:
        return 1.0
    else:
        # beyond the floats: each further probability is at most so many times the last one
        step = wrong / (right + 1) * np.exp(min(epsilon, 700.0))
        ratio = 1 / (1 - step)
    rest = float(stats.binom.sf(wrong, made, q))
    return min(1.0, tail + canaries * delta * ratio * rest / right)


def _epsilon(right: int, made: int, canaries: int, level: float, delta: float) -> float:
    """Return the largest claim that is rejected."""
    if made == 0:
        return 0.0
    pure = max(0.0, float(guess_epsilon(right, made, canaries, level)))
    if delta == 0:
        return pure

    def above(epsilon: float) -> float:
        return _p_value(right, made, canaries, epsilon, delta) - level

    if above(0.0) >= 0:
        return 0.0
    root = float(optimize.brentq(above, 0.0, pure + 1.0, xtol=1e-9))
    return max(0.0, root - 2e-9)  # too low by its tolerance, rather than too high


def _personal_p_value(right: int, guessed: Array, claims: Array, delta: float) -> float:
    """Return the tail of a Poisson binomial, with what delta adds.

    The claims are those of the canaries that were guessed, and of all.
    """
    # in wrong guesses, and no more of them than there are
    wrong = len(guessed) - right
    law = np.zeros(wrong + 1)
    law[0] = 1.0
    for q in expit(-guessed):
        law[1:] = (1 - q) * law[1:] + q * law[:-1]
        law[0] *= 1 - q
    free = delta * float(expit(-claims).sum())
    return min(1.0, float(law.sum()) + free)


# --- checks -------------------------------------------------------------------------------------


def _check_coins(included: ArrayLike, m: int) -> Bits:
    """Return the coins, if they can have been fair."""
    coins = np.asarray(included)
    if coins.dtype != bool or coins.shape != (m,):
        raise ValueError(
            f"included must be booleans of the shape of scores, ({m},), got {coins.dtype} of shape"
            f" {coins.shape}"
        )
    count = int(coins.sum())
    if 2 * stats.binom.cdf(min(count, m - count), m, 0.5) <= FALSE_ALARM:
        raise ValueError(
            f"included must come of fair coins, one for each canary, got {count} of {m}"
        )
    return coins


def _check_sizes(guesses: int | Sequence[int] | None, m: int) -> list[int]:
    """Return the numbers of guesses, the default ones if none are given."""
    if guesses is None:
        sizes = [m]
        while len(sizes) < _SIZES and sizes[-1] // 2 >= _FEWEST:
            sizes.append(sizes[-1] // 2)
        return sizes
    sizes = []
    for size in np.atleast_1d(np.asarray(guesses)).tolist():
        sizes.append(check_count(size, "guesses", 1, m))
    if not sizes:
        raise ValueError("guesses must be numbers of guesses, got none")
    return sizes


def _parts(records: Any, name: str) -> list[NDArray[Any]]:
    """Return the parts of records, each of them with as many."""
    parts = []
    for part in records if isinstance(records, tuple) else (records,):
        parts.append(np.asarray(part))
    if not parts or any(part.ndim == 0 for part in parts):
        raise ValueError(f"{name} must be arrays of records along the first axis")
    if len({len(part) for part in parts}) > 1:
        raise ValueError(f"{name} must have as many records in each part")
    return parts


def _claim_in_words(epsilon: float | Array) -> str:
    """Return the claim, or the range of the claims."""
    if np.ndim(epsilon) == 0:
        return f"epsilon = {epsilon:.6g}"
    return f"epsilon from {np.min(epsilon):.6g} to {np.max(epsilon):.6g}"
