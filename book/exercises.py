"""Exercises whose answer a notebook checks.

``data/exercises.yaml`` has an entry for each exercise that asks for a number or a word: what the
answer is, a wrong one that lies near, and a hint. The solution on the page computes the answer and
checks it too, so that the entry cannot be wrong.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from hdpm_lib.validation import extra

with extra("book"):
    import yaml

RIGHT = "Right."


@dataclass(frozen=True)
class Exercise:
    """What the answer to an exercise is.

    Parameters
    ----------
    id : str
        Its label on its page.
    asks : str
        What the answer is to be, in words.
    answer : float, list of float or str
        The answer.
    slip : float, list of float or str
        An answer that a slip leads to, which is wrong.
    hint : str
        What to think of.
    within : float, default 0.01
        By which part a number may be off.
    """

    id: str
    asks: str
    answer: Any
    slip: Any
    hint: str
    within: float = 0.01

    def says(self, answer: Any) -> str:
        """Return what an answer is told: that it is right, or a hint.

        Parameters
        ----------
        answer : float, array_like or str
            The answer, or ``...``.

        Returns
        -------
        str
            One or two sentences.

        Examples
        --------
        >>> toss = Exercise("ex-toss", "the chance of two heads", 0.25, 0.5, "Multiply.")
        >>> toss.says(1 / 4), toss.says(1 / 2)
        ('Right.', 'Not yet. Multiply.')
        >>> toss.says(...)
        'Put the chance of two heads in place of the dots, and run this cell again.'
        >>> toss.says("a quarter")
        'Not yet: a number is asked for, the chance of two heads.'
        """
        if answer is ...:
            return f"Put {self.asks} in place of the dots, and run this cell again."
        if isinstance(self.answer, str):
            right = str(answer).strip().lower() == self.answer.lower()
            return RIGHT if right else f"Not yet. {self.hint}"
        wanted = np.asarray(self.answer, dtype=float)
        kind = f"{wanted.size} numbers are" if wanted.ndim else "a number is"
        try:
            given = np.asarray(answer, dtype=float)
        except (TypeError, ValueError):
            given = np.empty(0)
        if given.shape != wanted.shape:
            return f"Not yet: {kind} asked for, {self.asks}."
        right = np.allclose(given, wanted, rtol=self.within, atol=1e-9)
        return RIGHT if right else f"Not yet. {self.hint}"


@cache
def exercises() -> dict[str, Exercise]:
    """Return all exercises with an answer, by their labels.

    Returns
    -------
    dict of str to Exercise
        In the order of the file.

    Examples
    --------
    >>> exercises()["ex-pr-idea-1"].asks
    'the t that gives a loss of 1'
    """
    text = (resources.files("hdpm_book.data") / "exercises.yaml").read_text(encoding="utf8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return {entry["id"]: Exercise(**entry) for entry in yaml.load(text, Loader=loader)}


def check(answer: Any, exercise: str) -> None:
    """Say whether an answer to an exercise is right, or give a hint.

    Parameters
    ----------
    answer : float, array_like or str
        Your answer: a number, several, or a word.
    exercise : str
        The label of the exercise.

    Raises
    ------
    LookupError
        If there is no exercise of that name; the message suggests the nearest.

    Examples
    --------
    >>> check(0.4621, "ex-pr-idea-1")
    Right.
    """
    known = exercises()
    if exercise not in known:
        near = difflib.get_close_matches(str(exercise), known, 1, 0.5)
        raise LookupError(
            f"no exercise {exercise!r} has an answer"
            + "".join(f"; did you mean {name}?" for name in near)
        )
    print(known[exercise].says(answer))
