"""Dataclasses that hold arrays: what they keep is their own, and stays."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hdpm_lib
from hdpm_lib.auctions.bids import bids
from hdpm_lib.frozen import Frozen
from hdpm_lib.learners.fedsgd import Training
from hdpm_lib.learners.second_moments import second_moments
from hdpm_lib.markets.mechanisms import vcg_contract
from hdpm_lib.markets.outcome import Outcome

LOOKS_AT = ["hdpm_lib"]
ARRAYS = "Array|Bits|Codes|Labels|Indices|Integers|Mask"  # names of types in the library


def dataclasses_of_the_library() -> Iterator[type]:
    for info in pkgutil.walk_packages(hdpm_lib.__path__, "hdpm_lib."):
        module = importlib.import_module(info.name)
        for thing in vars(module).values():
            own = inspect.isclass(thing) and thing.__module__ == module.__name__
            if own and dataclasses.is_dataclass(thing):
                yield thing


def compares_arrays(kind: type) -> bool:
    """Whether ``==`` would ask for the truth value of an array."""
    held = any(re.search(ARRAYS, str(field.type)) for field in dataclasses.fields(kind))
    return held and kind.__eq__ is not object.__eq__


@dataclasses.dataclass(frozen=True)
class Compared:
    weights: NDArray[np.float64]


def test_no_dataclass_compares_arrays() -> None:
    found = list(dataclasses_of_the_library())
    assert len(found) > 20 and [kind for kind in found if compares_arrays(kind)] == []
    assert compares_arrays(Compared)


def test_a_buffer_that_is_used_again_changes_no_mechanism() -> None:
    buffer = np.empty(3)
    made = []
    for loss in (4.0, 2.0, 1.0):
        buffer[:] = loss
        made.append(second_moments(buffer, features=1))
    assert sum(mechanism.privacy_loss[0] for mechanism in made) == 7


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_cannot_be_written_to_either(way: Callable[[Any], Any]) -> None:
    made = way(vcg_contract([1.0, 2.0], 0.25, 10.0, power=1))
    with pytest.raises(ValueError, match="read-only"):
        made.payments[0] = 0


def test_arrays_in_a_dict_are_kept_as_well() -> None:
    paths = {"opt": np.zeros((1, 1, 2, 2))}
    made = Training(
        np.zeros(1, int), np.zeros((1, 2, 2)), paths, paths, np.ones((1, 1)), np.ones(1)
    )
    paths["opt"][:] = 1
    assert not made.signal["opt"].any() and not made.signal["opt"].flags.writeable


def test_results_compare_and_can_be_members() -> None:
    """By what they are, as two data sets do: a question of their numbers is one of arrays."""
    first, second = (vcg_contract([1.0, 2.0], 0.25, 10.0, power=1) for _ in range(2))
    assert first == first and first != second and first in [first] and len({first, second}) == 2


def test_numbers_are_shown_as_python_shows_them() -> None:
    assert repr(Outcome([1.0], cost=np.float64(2.5))) == (
        "Outcome(privacy_loss=array([1.]), payments=None, cost=2.5, error=None)"
    )
    assert "np." not in repr(bids("linear", [1.0, 2.0], 1.0, 3)[0])


def test_moments_without_noise_are_not_shown() -> None:
    """With one record they are her datum; those that were released are anybody's."""
    mechanism = second_moments([5.0], features=1)
    given = [[0.7318]], [0.2]
    private = mechanism.without_noise(*given)
    assert (
        repr(private)
        == str(private)
        == ("NoisyMoments(matrix=..., cross=..., noise_sd=0.0, unit=1.0)")
    )
    released = mechanism.release_moments(*given, rng=np.random.default_rng(0))
    assert repr(released.matrix) in repr(released)


def test_the_base_alone_holds_nothing() -> None:
    assert repr(Frozen()) == "Frozen()" and Frozen() != Frozen()
