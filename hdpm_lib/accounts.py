"""What repeated fits cost: the privacy losses of each record, added up over all fits that saw it."""

from __future__ import annotations

import os
import threading
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.validation import check_count

Array = NDArray[np.float64]
_open: list[Account] = []


class Account:
    """The total privacy loss of each record in all fits of a ``with`` block, which may be entered again, to go on.

    In the block every fit of :class:`~hdpm_lib.learners.estimators.PersonalizedRidge` and
    :class:`~hdpm_lib.learners.estimators.PrivateLogisticRegression` must be told which records it sees, by `record`:
    numbers from 0 to ``n_records - 1`` that scikit-learn cuts for each fit as it cuts the rows.

    Attributes
    ----------
    total : array of shape (n_records,)
        Sum of ``guarantee_`` over the fits that saw a record: what all of them together may tell of it.
    fits : int

    Notes
    -----
    Losses add up (basic composition), also where a fit was chosen after looking at earlier ones. Who is in which fit
    must not depend on the data: split with ``KFold``, not with ``StratifiedKFold``, which goes by the labels and is
    scikit-learn's default for classifiers.

    **Scores are not counted, and are not private** (:doc:`/book/privacy/limits`), nor is ``best_params_``: the total
    covers a chosen model only if it was scored on records that need no protection, as with ``cv=[(private, public)]``.

    Refused, because they cannot be counted: a seed as `random_state`, as fits with the same noise tell more than the
    sum, and fits in other processes; several jobs may be threads, ``joblib.parallel_config("threading")``.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV, KFold
    >>> from hdpm_lib.learners.estimators import PersonalizedRidge
    >>> X = np.linspace(0, 1, 300)[:, None]
    >>> search = GridSearchCV(PersonalizedRidge(), {"penalty": [0.01, 0.1, 1.0]}, cv=KFold(3))
    >>> with Account(300) as account:
    ...     _ = search.fit(X, X[:, 0], record=np.arange(300))
    >>> account.fits, np.unique(account.total.round(6))   # each record is in 2 of 3 folds, 3 times, and in the last fit
    (10, array([7.]))
    """

    def __init__(self, n_records: int) -> None:
        self.total: Array = np.zeros(check_count(n_records, "n_records"))
        self.fits = 0
        self._lock = threading.Lock()
        self._process = os.getpid()

    def __enter__(self) -> Account:
        if _open:
            raise RuntimeError("an account is open already, and only one can be")
        _open.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _open.remove(self)

    def _enter(self, record: ArrayLike, losses: Array, random_state: Any) -> None:
        rows = np.asarray(record)
        if rows.shape != losses.shape or rows.dtype.kind not in "iu":
            raise ValueError(f"record must hold {len(losses)} whole numbers, got {rows.dtype} of shape {rows.shape}")
        if (outside := (rows < 0) | (rows >= len(self.total))).any():
            raise ValueError(f"record must lie from 0 to {len(self.total) - 1}, got {rows[outside][0]}")
        if isinstance(random_state, Integral):
            raise ValueError(f"random_state = {random_state} gives each fit the same noise: pass a Generator, or None")
        with self._lock:
            np.add.at(self.total, rows, losses)
            self.fits += 1


def charge(record: ArrayLike | None, losses: Array, random_state: Any) -> None:
    """Enter a fit in the account that is open in this process, if there is one; to call before anything is released."""
    account = next((one for one in _open if one._process == os.getpid()), None)
    if record is None:
        if account is not None:
            raise ValueError("record must say which records of the open account the fit sees")
    elif account is None:
        raise ValueError("record is given, but no account is open in this process: open one, and use threads")
    else:
        account._enter(record, losses, random_state)
