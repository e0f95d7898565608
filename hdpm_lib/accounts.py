"""Accounts of releases: the losses of each record, over everything that is released about it.

Every learner of the library calls :func:`charge` when it releases: estimators, mechanisms and
functions alike. A mechanism of your own is counted if it does so, too. Nothing happens if no
account is open.
"""

from __future__ import annotations

import hashlib
import io
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
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.gaussian import gaussian_delta, gaussian_epsilon
from hdpm_lib.validation import (
    check_count,
    check_finite,
    check_generator,
    check_number,
    check_size,
    check_squared,
    is_real,
)

Array = NDArray[np.float64]
# environment variable: a file that is there while the process above this one has an account open
MARK = "HDPM_ACCOUNT"
# in the order in which they stand in an account's file
PARTS = ("records", "releases", "delta", "limit", "total", "squares", "states")
_name = uuid.uuid4().hex
# by the process that has opened it: a forked one has a copy
_open: dict[int, Account] = {}
# by the lock of a generator, which takes no weak reference itself: the thread that charges for its
# noise, or None if there are several
_threads: WeakKeyDictionary[Any, int | None] = WeakKeyDictionary()
_rows: ContextVar[ArrayLike | None] = ContextVar("rows", default=None)


class Account:
    """The total privacy loss of each record in all releases of a ``with`` block.

    The block may be entered again, to go on. A release of n privacy losses is charged to n records,
    before it draws its noise: to those of :func:`records`, else to all in their order, and it is an
    error if they are not n. Estimators are told by the argument `record` of ``fit``, which
    scikit-learn cuts for each fit as it cuts the rows. Releases of a `size` are as many.

    Parameters
    ----------
    n_records : int
        Number of records that releases are about, positive.
    limit : float or array of shape (n_records,), optional
        The most that a record may lose, not negative. It is an error to exceed it by more than a
        part in 10**9: nothing is released, and nothing charged.
    delta : float, default 0.0
        Public, in [0, 1). With releases of Gaussian noise, the limit is on the epsilon at this
        delta, of all releases together (:mod:`~hdpm_lib.gaussian`). With 0 a limit refuses them.
    file : path, optional
        Of a new file, on a local disk, that holds the account and is on disk before anything is
        released; :meth:`load` goes on with it. Not on Windows.

    Attributes
    ----------
    total : array of shape (n_records,)
        Sum of the privacy losses of all releases that saw a record: what they together may tell of
        it.
    mu : array of shape (n_records,)
        Loss by Gaussian releases, in standard deviations. ``epsilon(delta)`` is the loss of both.
    releases : int
        How many there were.
    limit : array of shape (n_records,), or None
        As given.
    delta : float
        As given.

    Notes
    -----
    Losses add up (basic composition), also where a release was chosen after looking at earlier
    ones. Who is in which fit must not depend on the data: split with ``KFold``, not with
    ``StratifiedKFold``, which goes by the labels and is scikit-learn's default for classifiers. An
    error after the charge leaves it charged.

    **Scores are not counted, and are not private** (:doc:`/book/privacy/limits`), nor is
    ``best_params_``: the total covers a chosen model only if it was scored on records that need no
    protection, as with ``cv=[(private, public)]``.

    *Noise.* Refused, because it cannot be counted: an integer as the `rng` of an estimator, or a
    generator in a state that noise was drawn from before, such as an equal or a copied one; and
    what promises nothing, such as several models of :func:`~hdpm_lib.learners.fedsgd.fedsgd` on the
    same noise. A copy that has drawn a number in between is **not** noticed, though it may repeat
    noise.

    *Threads* share an account (:func:`records` holds in its own), and may share a generator: each
    charge then draws a number from it, to find a state of its own. So do not set its state back.

    *Processes* that are started in the block, by fork or anew, and those that they start, charge
    the `file`; without one their releases are errors. So do workers that were started since the
    first block, for the environment variable by which they find an account stays. **Not** noticed
    are processes that were there before the first block, such as workers that joblib or a pool
    keeps, those of a fork server that was, and those that do not inherit the environment, such as
    Dask's workers: start them in the block.

    *The file* is replaced in one step at each charge; a symbolic link to it stays one. One that is
    damaged is refused, and so is one with a second name (a hard link), which would keep the older
    content, and an older copy in its place, while a process lives that knows the newer one. An
    older copy that nobody remembers forgets what came later.

    References
    ----------
    Dwork and Roth (2014), "The Algorithmic Foundations of Differential Privacy", Theorem 3.16:
    losses add up. Rogers, Roth, Ullman and Vadhan (2016), "Privacy Odometers and Filters": also
    where they are chosen on the way.

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
        self._limit: Array | None = None
        if limit is not None:
            most = check_finite(limit, "limit", low=0)
            if most.shape not in ((), (n,)):
                raise ValueError(
                    f"limit must be one number, or {n} of them, got shape {most.shape}"
                )
            self._limit = np.full(n, most)
        self._delta = check_number(delta, "delta", 0, 1, ends="[)")
        self._total = np.zeros(n)
        self._squares = np.zeros(n)
        self._releases = 0
        self._states = set[bytes]()
        self._lock = threading.Lock()
        self._file: Path | None = None
        # the first line and the size of the file as it was read or written here last
        self._known: tuple[bytes, int] | None = None
        if file is not None:
            # without links: a link that is replaced would be a second account
            self._file = Path(file).resolve()
            self._file.open("xb").close()
            self._write(self._file, self._total, self._squares, 0, [])

    @classmethod
    def load(cls, file: str | os.PathLike[str]) -> Account:
        """Open the account that is kept in a file.

        Parameters
        ----------
        file : path
            The file.

        Returns
        -------
        Account
            With all that was charged; no block of it is entered.

        Raises
        ------
        FileNotFoundError
            If there is none.
        ValueError
            If the file is damaged.

        Examples
        --------
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Account(2, file=f"{folder}/spent"):
        ...         charge([0.5, 1.0], np.random.default_rng())
        ...     Account.load(f"{folder}/spent").total
        array([0.5, 1. ])
        """
        account = cls(1)
        account._file = Path(file).resolve()
        account._read()
        return account

    @property
    def limit(self) -> Array | None:
        """The most that each record may lose, shape (n_records,), as given; None without one."""
        with self._lock:
            self._read()
            return None if self._limit is None else self._limit.copy()

    @property
    def delta(self) -> float:
        """The delta at which the limit holds, as given."""
        with self._lock:
            self._read()
            return self._delta

    @property
    def total(self) -> Array:
        """Sum of the privacy losses of each record, shape (n_records,)."""
        with self._lock:
            self._read()
            return self._total.copy()

    @property
    def mu(self) -> Array:
        """Loss of each record by Gaussian releases, in standard deviations, shape (n_records,)."""
        with self._lock:
            self._read()
            return np.sqrt(self._squares)

    @property
    def releases(self) -> int:
        """How many there were."""
        with self._lock:
            self._read()
            return self._releases

    def epsilon(self, delta: float) -> Array:
        """Return the epsilon of each record at a delta, of all releases together.

        Parameters
        ----------
        delta : float
            Public, in (0, 1).

        Returns
        -------
        array of shape (n_records,)
            Without Gaussian releases it is at most `total`.

        Examples
        --------
        >>> with Account(2) as account:
        ...     charge([0.0, 0.0], np.random.default_rng(), mu=[0.5, 1.0])
        >>> account.epsilon(1e-5).round(2)
        array([1.99, 4.38])
        """
        with self._lock:
            self._read()
            return gaussian_epsilon(delta, np.sqrt(self._squares), self._total)

    def __enter__(self) -> Account:
        if _account() is not None:
            raise RuntimeError("an account is open already, and only one can be")
        mark = _mark()
        mark.write_text(str(self._file or ""), "utf8")
        self._outer = os.environ.get(MARK, "")
        os.environ[MARK] = str(mark)
        _open[os.getpid()] = self
        return self

    def __exit__(self, *_: object) -> None:
        if _open.pop(os.getpid(), None) is None:
            return  # a forked process leaves the block, and its parent has not
        _mark().unlink(missing_ok=True)
        # else it stays: processes that are started now are there when the next block begins
        if self._outer:
            os.environ[MARK] = self._outer

    @np.errstate(over="ignore")  # sums beyond floats are infinite, and above every limit
    def _charge(self, losses: Array, times: int, rng: np.random.Generator, squares: Array) -> None:
        """Charge so many releases, each with these losses, or raise an error."""
        cost = times * self._by_record(losses)
        more = times * self._by_record(squares)
        alone = nullcontext() if self._file is None else _alone(self._file.parent)
        with self._lock, alone:
            self._read()
            drawn = _state(rng.bit_generator)
            if drawn in self._states:
                raise ValueError(
                    "rng is in a state that noise was drawn from before, which this release would"
                    " repeat"
                )
            self._check_limit(cost, more)
            total = self._total + cost
            summed = self._squares + more
            releases = self._releases + times
            if self._file is not None:
                self._write(self._file, total, summed, releases, [*self._states, drawn])
            self._total = total
            self._squares = summed
            self._releases = releases
            self._states.add(drawn)

    def _by_record(self, values: Array) -> Array:
        """Sum one value for each row over the rows of each record."""
        n = len(self._total)
        record = _rows.get()
        if record is None:
            if len(values) == n:
                return values
            raise ValueError(
                f"a release about {len(values)} of {n} records needs their numbers: with"
                " records(...)"
            )
        if np.ma.isMaskedArray(record):
            raise TypeError("record must hold whole numbers, got a masked array")
        rows = np.asarray(record)
        if rows.shape != values.shape or rows.dtype.kind not in "iu":
            raise ValueError(
                f"record must hold {len(values)} whole numbers, got {rows.dtype} of shape"
                f" {rows.shape}"
            )
        outside = (rows < 0) | (rows >= n)
        if outside.any():
            raise ValueError(f"record must lie from 0 to {n - 1}, got {rows[outside][0]}")
        return np.asarray(np.bincount(rows, values, n), dtype=float)

    def _check_limit(self, cost: Array, more: Array) -> None:
        """Refuse a release by which a record would lose more than its limit."""
        if self._limit is None:
            return
        total = self._total + cost
        squares = self._squares + more
        limit = self._limit * (1 + 1e-9)
        over = total > limit
        noisy = (squares > 0) & ~over
        if noisy.any() and self._delta == 0:
            over[noisy] = True  # even where the delta of Gaussian noise underflows to 0
        elif noisy.any():
            delta = gaussian_delta(limit[noisy], np.sqrt(squares[noisy]), total[noisy])
            over[noisy] = delta > self._delta
        if not over.any():
            return
        k = int(over.argmax())
        spent = f"{self._total[k]:g} is spent, and this release costs {cost[k]:g}"
        if squares[k] > 0:
            gaussian = f"mu = {math.sqrt(self._squares[k]):g}, and {math.sqrt(more[k]):g}"
            spent += f"; besides {gaussian}, at delta = {self._delta:g}"
            if self._delta == 0:
                spent += ", where Gaussian noise has no limit: open an Account with a delta"
        raise ValueError(f"limit = {self._limit[k]:g} of record {k} would be exceeded: {spent}")

    def _read(self) -> None:
        """Take what the file holds, unless it is what was read or written here last."""
        if self._file is None:
            return
        with self._file.open("rb") as stream:
            status = os.fstat(stream.fileno())
            if status.st_nlink > 1:
                raise ValueError(
                    f"{self._file} has a second name, under which its content would not change:"
                    " remove one of them"
                )
            first = stream.readline()
            if (first, status.st_size) == self._known:
                return
            content = stream.read()
        if first != _first_line(content):
            raise ValueError(f"{self._file} holds no account, or is damaged")
        self._take(content)
        self._known = (first, status.st_size)

    def _take(self, content: bytes) -> None:
        """Take the numbers of an account from the content of its file."""
        stream = io.BytesIO(content)
        parts = {name: np.load(stream) for name in PARTS}
        states = set(map(bytes, parts["states"]))
        if not self._states <= states:
            raise ValueError(
                f"{self._file} is older than what is known of it here, or of another account:"
                " releases are missing that were charged to it"
            )
        n = int(parts["records"])
        self._limit = np.full(n, parts["limit"]) if parts["limit"].size else None
        self._delta = float(parts["delta"])
        self._total = np.full(n, parts["total"])
        self._squares = np.full(n, parts["squares"])
        self._releases = int(parts["releases"])
        self._states = states

    def _write(
        self, file: Path, total: Array, squares: Array, releases: int, states: list[bytes]
    ) -> None:
        """Replace the file, and see to it that it is on disk."""
        parts: dict[str, Any] = {
            "records": len(total),
            "releases": releases,
            "delta": self._delta,
            "limit": np.zeros(0) if self._limit is None else _shortest(self._limit),
            "total": _shortest(total),
            "squares": _shortest(squares),
            "states": np.frombuffer(b"".join(states), np.uint8).reshape(-1, 16),
        }
        stream = io.BytesIO()
        for name in PARTS:
            np.save(stream, parts[name])
        content = stream.getbuffer()
        first = _first_line(content)
        unfinished = file.with_name(f"{file.name}.part")
        with unfinished.open("wb") as out:
            out.write(first)
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        # in one step: whoever comes after a crash finds all of it or what was there
        unfinished.replace(file)
        self._known = (first, len(first) + len(content))


def _first_line(content: bytes | memoryview) -> bytes:
    """Return the line that stands before this content: whatever is damaged, it is another one."""
    return f"account of hdpm_lib, sha256 {hashlib.sha256(content).hexdigest()}\n".encode()


def _shortest(values: Array) -> Array:
    """Return one value where all are equal, else all."""
    if (values == values[0]).all():
        return values[:1]
    return values


def charge(
    losses: Any, rng: Any = None, size: int | tuple[int, ...] = (), *, mu: ArrayLike = 0.0
) -> None:
    """Charge a release to the account that is open, if there is one, or raise an error.

    Call it when arguments are checked, and before noise is drawn.

    Parameters
    ----------
    losses : array of shape (n,), or callable
        One privacy loss for each record, not negative, or a function that gives them and is called
        if an account is open.
    rng : numpy.random.Generator
        Source of the noise.
    size : int or tuple of int, default ()
        How many releases there are, as a shape.
    mu : float or array of shape (n,), default 0.0
        For Gaussian noise, with losses of 0: what :func:`~hdpm_lib.gaussian.gaussian_mu` gives.

    Examples
    --------
    >>> with Account(2) as account, records([1]):
    ...     charge([0.5], np.random.default_rng())
    >>> account.total
    array([0. , 0.5])
    """
    account = _account()
    if account is None:
        return
    if callable(losses):
        losses = losses()
    given = np.ravel(np.asarray(losses))
    if given.dtype.kind not in "iuf" and not all(map(is_real, given)):
        raise TypeError(f"losses must be real numbers, got dtype {given.dtype}")
    lost = given.astype(float)
    squares = np.broadcast_to(np.square(check_squared(mu, "mu")), lost.shape)
    if not np.isfinite(lost).all():
        raise ValueError("this release promises nothing, so that no account can count it")
    check_finite(lost, "losses", low=0)
    times = math.prod(check_size(size))
    if times:
        account._charge(lost, times, check_generator(rng), squares)


@contextmanager
def records(record: ArrayLike | None, rng: Any = None) -> Iterator[None]:
    """Say for a block which records of the open account its releases are about.

    Estimators call it with the arguments of a fit; they must be told `record` if, and only if, an
    account is open.

    Parameters
    ----------
    record : array of shape (n,), or None
        Numbers of records, integers from 0, in the order of the data that are released.
    rng : optional
        Source of the noise. An integer is an error if an account is open: it gives each fit the
        same noise.

    Yields
    ------
    None
        There is nothing to bind.

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
    if account is not None and isinstance(rng, Integral):
        raise ValueError(f"rng = {rng} gives each fit the same noise: pass a Generator, or None")
    before = _rows.set(record)
    try:
        yield
    finally:
        _rows.reset(before)


# --- processes ----------------------------------------------------------------------------------


def _account() -> Account | None:
    """Find the account that is open here, or in the process that has started this one."""
    if os.getpid() in _open:
        return _open[os.getpid()]
    try:
        file = Path(os.environ[MARK]).read_text("utf8")
    except (KeyError, FileNotFoundError):
        return None
    if not file:
        raise RuntimeError(
            "an account is open in another process, which cannot count this one: give it a file"
        )
    return Account.load(file)


def _mark() -> Path:
    """Name the file that is there while this process has an account open."""
    return Path(tempfile.gettempdir(), f"hdpm-account-{_name}-{os.getpid()}")


def _state(bits: np.random.BitGenerator) -> bytes:
    """Return a digest of the state that noise will be drawn from."""
    here = threading.get_ident()
    if _threads.setdefault(bits.lock, here) != here:
        _threads[bits.lock] = None
        bits.random_raw(output=False)  # another may have charged this state, and not drawn yet
    state = json.dumps(bits.state, default=lambda table: table.tolist())
    return hashlib.sha256(state.encode()).digest()[:16]


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
