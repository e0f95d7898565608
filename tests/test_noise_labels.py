"""Flower's own noise, as it is installed: what the page on noise labels says of it."""

# ruff: noqa: NPY002

from __future__ import annotations

import json
import logging
from functools import partial

import numpy as np
import pytest

pytest.importorskip(
    "flwr", reason="the extra flower is not installed: its noise labels are not audited"
)

from tests import noise_labels as labels

LOCAL = partial(labels.local, sensitivity=1.0, epsilon=2.0)
CENTRAL = partial(labels.central, multiplier=2.0, records=(3, 1))
SETTINGS = [(LOCAL, labels.local_sd(1.0, 2.0), 1.0), (CENTRAL, 1.0, 0.75 + labels.OTHERS / 4)]


@pytest.fixture(autouse=True)
def quiet_and_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.root.manager, "disable", logging.WARNING)
    np.random.seed(3)


@pytest.mark.parametrize(("release", "sd", "mean"), SETTINGS)
def test_the_noise_is_as_documented(release: labels.Release, sd: float, mean: float) -> None:
    found = release(1.0, 40_000)
    assert found.std() == pytest.approx(sd, rel=0.02)
    assert abs(found.mean() - mean) < 5 * sd / 200


@pytest.mark.parametrize(("release", "sd", "mean"), SETTINGS)
def test_coordinates_of_a_call_are_releases_of_as_many(
    release: labels.Release, sd: float, mean: float
) -> None:
    together = release(1.0, 50)
    _ = np.random.seed(3)
    one_by_one = np.concatenate([release(1.0, 1) for _ in range(50)])
    np.testing.assert_allclose(together, one_by_one, rtol=0, atol=1e-12)


def test_what_is_stored_comes_again() -> None:
    stored = json.loads(labels.STUDY.read_text("utf8"))
    assert labels.odd_cases() == stored["odd cases"]
    assert all(abs(row["sd"] / row["sd by the formula"] - 1) < 0.005 for row in stored["rows"])
    release = partial(labels.central, multiplier=1.0, records=(9, 1))
    assert labels.row(release, 0.5, 2 * 0.9, stored["rows"][-1]["promised"], 10_000)["found"]
