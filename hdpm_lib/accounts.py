"""What releases cost in all: the privacy losses of each record, added up over everything that is
released about it.

Every learner of the library calls :func:`charge` when it releases: estimators, mechanisms and
functions alike. A mechanism of your own is counted if it does so, too. Where no account is open,
nothing happens.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.gaussian import gaussian_delta, gaussian_epsilon
from hdpm_lib.validation import check_count, check_finite, check_generator, check_number, check_size

Array = NDArray[np.float64]
# environment variable: files that are there while a process above this one has an account open
MARKS = "HDPM_ACCOUNTS"
_marks: list[str] = []  # of the processes above this one, and last its own
_open: list[Account] = []
_rows: ContextVar[ArrayLike | None] = ContextVar("rows", default=None)


class Account:
    """The total privacy loss of each record in all releases of a ``with`` block, which may be
    entered again, to go on.

    A release of n privacy losses is charged to n records, before it draws its noise: to those of
    :func:`records`, else to all in their order, and it is an error if they are not n. Estimators
    are told by the argument `record` of ``fit``, which scikit-learn cuts for each fit as it cuts
    the rows. Releases of a `size` are as many.

    Parameters
    ----------
    n_records : int
    limit : float or array of shape (n_records,), not negative, optional
        The most that a record may lose. What would exceed it, by more than a part in 10**9, is an
        error: nothing is released, and nothing charged.
    delta : float in [0, 1), default 0
        With releases of Gaussian noise, the limit is on the epsilon at this delta, of all releases
        together (:mod:`~hdpm_lib.gaussian`). With 0 a limit refuses them.
    file : path, optional
        Of a new file, on a local disk, that holds the account and is on disk before anything is
        released; :meth:`load` goes on with it. An old copy of it forgets what came later. Not on
        Windows.

    Attributes
    ----------
    total : array of shape (n_records,)
        Sum of the privacy losses of all releases that saw a record: what they together may tell of
        it.
    mu : array of shape (n_records,)
        What Gaussian releases tell besides. ``epsilon(delta)`` is the loss of both.
    releases : int
    limit : array of shape (n_records,), or None

    Notes
    -----
    Losses add up (basic composition), also where a release was chosen after looking at earlier
    ones. Who is in which fit must not depend on the data: split with ``KFold``, not with
    ``StratifiedKFold``, which goes by the labels and is scikit-learn's default for classifiers. An
    error after the charge leaves it charged.

    **Scores are not counted, and are not private** (:doc:`/book/privacy/limits`), nor is
    ``best_params_``: the total covers a chosen model only if it was scored on records that need no
    protection, as with ``cv=[(private, public)]``.

    Refused, because it cannot be counted: an integer as `random_state`, or a generator in a state
    that noise was drawn from before, such as an equal or a copied one; and what promises nothing,
    such as several models of :func:`~hdpm_lib.learners.fedsgd.fedsgd` on the same noise. A copy
    that has drawn a number in between is **not** noticed, though it may repeat noise.

    Threads share an account (:func:`records` holds in its own). A process that this one has
    started, by fork or anew, before the block or in it, charges the `file`; without one its
    releases are errors. **Not** noticed are processes that do not inherit the environment or come
    from before `hdpm_lib` was imported, such as Dask's workers.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV, KFold
    >>> from hdpm_lib.learners.estimators import PersonalizedRidge
    >>> X = np.linspace(0, 1, 300)[:, None]
    >>> search = GridSearchCV(PersonalizedRidge(), {"penalty": [0.01, 0.1, 1.0]}, cv=KFold(3))
    >>> with Account(300, limit=10) as account:
    ...     _ = search.fit(X, X[:, 0], record=np.arange(300))
    >>> # each is in 2 of 3 folds, 3 times, and in the last fit
    >>> account.releases, np.unique(account.total.round(6))
    (10, array([7.]))
    """

    def __init__(
        self,
        n_records: int,
        *,
        limit: ArrayLike | None = None,
        delta: float = 0.0,
        file: str | os.PathLike[str] | None = None,
    ) -> None:
        n = check_count(n_records, "n_records")
        most = None if limit is None else check_finite(limit, "limit", low=0)
        if most is not None and most.shape not in ((), (n,)):
            raise ValueError(f"limit must be one number, or {n} of them, got shape {most.shape}")
        self.limit = None if most is None else np.full(n, most)
        self.delta = check_number(delta, "delta", 0, 1, ends="[)")
        self._total = np.zeros(n)
        self._squares = np.zeros(n)
        self._releases = 0
        self._states = set[str]()
        self._lock = threading.Lock()
        self._file = None if file is None else Path(file).absolute()
        if self._file is not None:
            self._file.open("xb").close()
            self._write()

    @classmethod
    def load(cls, file: str | os.PathLike[str]) -> Account:
        """The account that is kept there; an error if there is none, or if it is damaged."""
        account = cls(1)
        account._file = Path(file).absolute()
        account._read()
        return account

    @property
    def total(self) -> Array:
        with self._lock:
            self._read()
            return self._total.copy()

    @property
    def mu(self) -> Array:
        with self._lock:
            self._read()
            return np.sqrt(self._squares)

    def epsilon(self, delta: float) -> Array:
        """The epsilon of each record, shape (n_records,), at a delta in (0, 1)."""
        with self._lock:
            self._read()
            return gaussian_epsilon(delta, np.sqrt(self._squares), self._total)

    @property
    def releases(self) -> int:
        with self._lock:
            self._read()
            return self._releases

    def __enter__(self) -> Account:
        if _account() is not None:
            raise RuntimeError("an account is open already, and only one can be")
        Path(_marks[-1]).write_text(str(self._file or ""), "utf8")
        _open.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        Path(_marks[-1]).unlink(missing_ok=True)
        _open.clear()

    def _charge(self, losses: Array, times: int, rng: np.random.Generator, squares: Array) -> None:
        n = len(self._total)
        record = _rows.get()
        if record is None and len(losses) != n:
            raise ValueError(
                f"a release about {len(losses)} of {n} records needs their numbers: with"
                " records(...)"
            )
        rows = np.arange(n) if record is None else np.asarray(record)
        if rows.shape != losses.shape or rows.dtype.kind not in "iu":
            raise ValueError(
                f"record must hold {len(losses)} whole numbers, got {rows.dtype} of shape"
                f" {rows.shape}"
            )
        if (outside := (rows < 0) | (rows >= n)).any():
            raise ValueError(f"record must lie from 0 to {n - 1}, got {rows[outside][0]}")
        state = json.dumps(rng.bit_generator.state, default=lambda part: part.tolist()).encode()
        cost = times * np.bincount(rows, losses, n)
        drawn = hashlib.sha256(state).hexdigest()[:32]
        more = times * np.bincount(rows, squares, n)
        with self._lock, nullcontext() if self._file is None else _alone(self._file.parent):
            self._read()
            if drawn in self._states:
                raise ValueError(
                    "rng is in a state that noise was drawn from before, which this release would"
                    " repeat"
                )
            if self.limit is not None and (over := self._over(cost, more)).any():
                k = int(over.argmax())
                spent = f"{self._total[k]:g} is spent, and this release costs {cost[k]:g}"
                if self._squares[k] + more[k] > 0:
                    spent += (
                        f"; besides mu = {math.sqrt(self._squares[k]):g}, and"
                        f" {math.sqrt(more[k]):g}"
                    )
                    spent += f", at delta = {self.delta:g}"
                raise ValueError(
                    f"limit = {self.limit[k]:g} of record {k} would be exceeded: {spent}"
                )
            self._total, self._squares = self._total + cost, self._squares + more
            self._releases += times
            self._states.add(drawn)
            self._write()

    def _over(self, cost: NDArray[Any], more: NDArray[Any]) -> NDArray[np.bool_]:
        """Which records would exceed their limits."""
        total = self._total + cost
        squares = self._squares + more
        limit = np.asarray(self.limit) * (1 + 1e-9)
        # it underflows
        more_than = (gaussian_delta(limit, np.sqrt(squares), total) > self.delta) | (
            self.delta == 0
        )
        return np.where(squares > 0, more_than, total > limit)

    def _read(self) -> None:
        """Take what the file holds."""
        if self._file is None:
            return
        told, _, kept = self._file.read_bytes().partition(b"\n")
        try:
            if hashlib.sha256(kept).hexdigest().encode() != told:
                raise ValueError("its checksum is another one")
            found = json.loads(kept)
            total = check_finite(found["total"], "total", 1, 0)
            most = found["limit"]
            self.limit = (
                None if most is None else np.full(total.shape, check_finite(most, "limit", 1, 0))
            )
            self._squares = check_finite(found["squares"], "squares", 1, 0)
            self.delta = check_number(found["delta"], "delta", 0, 1, ends="[)")
            self._total = total
            self._releases = int(found["releases"])
            self._states = set(found["states"])
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{self._file} holds no account, or is damaged: {error}") from error

    def _write(self) -> None:
        if self._file is not None:
            limit = None if self.limit is None else self.limit.tolist()
            found: dict[str, Any] = {
                "total": self._total.tolist(),
                "squares": self._squares.tolist(),
            }
            found |= {"limit": limit, "delta": self.delta, "releases": self._releases}
            kept = json.dumps(found | {"states": sorted(self._states)}).encode()
            part = self._file.with_suffix(".part")
            with part.open("wb") as stream:
                stream.write(hashlib.sha256(kept).hexdigest().encode() + b"\n" + kept)
                stream.flush()
                os.fsync(stream.fileno())
            # in one step: whoever comes after a crash finds all of it or what was there
            part.replace(self._file)


def charge(
    losses: Any, rng: Any = None, size: int | tuple[int, ...] = (), *, mu: ArrayLike = 0.0
) -> None:
    """Charge a release to the account that is open, if there is one, or raise an error.

    To call when arguments are checked, and before noise is drawn: with one privacy loss for each
    record, or a function that gives them, the generator of the noise, and how many releases there
    are; for Gaussian noise with losses of 0, and `mu`, a number or one for each record
    (:func:`~hdpm_lib.gaussian.gaussian_mu`).

    Examples
    --------
    >>> with Account(2) as account, records([1]):
    ...     charge([0.5], np.random.default_rng())
    >>> account.total
    array([0. , 0.5])
    """
    if (account := _account()) is not None:
        lost = np.ravel(np.asarray(losses() if callable(losses) else losses, dtype=float))
        with np.errstate(over="ignore"):
            squares = np.broadcast_to(np.square(check_finite(mu, "mu", low=0)), lost.shape)
        if not (np.isfinite(lost).all() and np.isfinite(squares).all()):
            raise ValueError("this release promises nothing, so that no account can count it")
        if times := math.prod(check_size(size)):
            account._charge(lost, times, check_generator(rng), squares)


@contextmanager
def records(record: ArrayLike | None, random_state: Any = None) -> Iterator[None]:
    """In this block, releases are about these records of the open account: numbers from 0, in the
    order of the data.

    Estimators call it with the arguments of a fit; they must be told `record` if, and only if, an
    account is open.

    Examples
    --------
    >>> from hdpm_lib.learners.queries import linear_query
    >>> with Account(3) as account, records([0, 2]):
    ...     answer = linear_query([1.0, 0.5], 2.0).release([0.3, 0.9], rng=np.random.default_rng())
    >>> account.total
    array([0.5 , 0.  , 0.25])
    """
    account = _account()
    if record is None and account is not None:
        raise ValueError("record must say which records of the open account the fit sees")
    if record is not None and account is None:
        raise ValueError("record is given, but no account is open")
    if account is not None and isinstance(random_state, Integral):
        raise ValueError(
            f"random_state = {random_state} gives each fit the same noise: pass a Generator, or"
            " None"
        )
    before = _rows.set(record)
    try:
        yield
    finally:
        _rows.reset(before)


# --- processes ----------------------------------------------------------------------------------


def _account() -> Account | None:
    """The account that is open here, or in a process that has started this one."""
    if _open:
        return _open[0]
    for mark in _marks[:-1]:
        try:
            file = Path(mark).read_text("utf8")
        except FileNotFoundError:
            continue
        if not file:
            raise RuntimeError(
                "an account is open in another process, which cannot count this one: give it a file"
            )
        return Account.load(file)
    return None


def _begin() -> None:
    """Name the file that will be there while this process has an account open, for those it starts
    from now on.
    """
    _open.clear()  # a forked process has a copy
    own = os.path.join(tempfile.gettempdir(), f"hdpm-account-{uuid.uuid4().hex}")
    _marks[:] = [*filter(None, os.environ.get(MARKS, "").split(os.pathsep)), own]
    os.environ[MARKS] = os.pathsep.join(_marks)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes, and leave it when what was done to it is on disk."""
    import fcntl  # not on Windows

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
        os.fsync(handle)
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)  # a process forked meanwhile has the handle, too
        os.close(handle)


_begin()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin)
