"""Codings of the medical records, penalties from public facts, the attack on ranges; and the experiments on limits."""

from __future__ import annotations

import functools
import json
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import train_test_split

from hdpm_book import datasets
from hdpm_book.ridge import beyond, limits
from hdpm_book.ridge.beyond import Coding
from hdpm_book.ridge.study import SPLIT_SEED
from hdpm_lib.learners.ridge import weighted_ridge
from hdpm_lib.schema import Category, Number, Schema


@functools.cache
def medical() -> datasets.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", datasets.StandInWarning)
        return datasets.medical_cost()


@functools.cache
def coded() -> dict[str, Coding]:
    return beyond.codings(medical())


def test_codings_keep_their_bounds() -> None:
    squares = {"paper": 12, "one-hot norm": 7, "centred label": 7, "centred features": 3, "declared ranges": 3}
    assert list(coded()) == list(squares)
    for name, c in coded().items():
        norms = np.linalg.norm(c.X, axis=1)
        assert norms.max() <= squares[name] ** 0.5 * (1 + 1e-12) and len(norms) == 1070
        assert c.feature_norm is None or c.feature_norm**2 == pytest.approx(squares[name])
        assert np.abs(c.y).max() <= c.label_bound and c.label_bound == (
            1 if squares[name] == 12 or "hot" in name else 0.5
        )
        beyond.output_loss(c, np.ones(1070), 1.0, np.random.default_rng(0), 1)  # nothing is refused


def test_test_losses_are_squared_errors_in_dollars_over_the_range_of_charges() -> None:
    charges = medical().labels
    _, left = train_test_split(charges, test_size=0.2, random_state=SPLIT_SEED)
    for c in coded().values():
        theta = np.zeros(c.X.shape[1])
        theta[-1] = 0.1  # a constant
        end = np.ptp(charges) if c.unit == 1 else 50_000
        low = charges.min() if c.unit == 1 else 0.0
        dollars = low + end * (0.1 + (c.label_bound == 0.5) * 0.5)
        assert c.loss(theta) == pytest.approx(((left - dollars) ** 2).mean() / np.ptp(charges) ** 2, rel=1e-9)


def test_least_squares_is_the_same_in_all_codings_of_the_same_ranges() -> None:
    losses = [c.loss(weighted_ridge(c.X, c.y, np.full(1070, 1 / 1070), 1e-11)) for c in coded().values()]
    np.testing.assert_allclose(losses[:4], losses[0], rtol=1e-6)


def test_private_constant_against_its_draws() -> None:
    rng = np.random.default_rng(1)
    for c in (coded()["paper"], coded()["declared ranges"]):
        eps = np.full(1070, 0.01)
        found = beyond.constant_loss(c, eps, 1.0, rng, 200_000)
        theta = np.zeros(c.X.shape[1])
        theta[-1] = c.y.mean()
        exact = c.loss(theta) + c.unit * 2 / eps.sum() ** 2  # Laplace noise on a label of width 1
        assert found == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("name", [name for name in beyond.METHODS if "capped" not in name])
def test_without_noise_every_method_is_ridge_regression(name: str) -> None:
    for c in coded().values():
        eps = np.full(1070, 1e6)
        found = beyond.METHODS[name](c, eps, 0.3, np.random.default_rng(2), 20)
        assert found == pytest.approx(c.loss(weighted_ridge(c.X, c.y, eps / eps.sum(), 0.3)), rel=1e-3)


def test_capped_weights_are_those_of_capped_privacy_losses() -> None:
    c, eps = coded()["declared ranges"], np.linspace(0.1, 1.0, 1070)
    capped = beyond.capped_loss(c, eps, 0.3, np.random.default_rng(5), 30)
    direct, uncapped = (
        beyond.output_loss(c, e, 0.3, np.random.default_rng(5), 30) for e in (np.minimum(eps, 0.6), eps)
    )
    assert capped == direct != uncapped


SMALL = Schema([Number("age", 18, 64), Category("sex", ("f", "m")), Category("region", ("n", "s", "w"))])


def test_public_losses_trade_noise_against_the_pull_of_the_penalty() -> None:
    penalties = (0.05, 0.2, 0.8, 3.0)
    exact, usual, coarse = (
        beyond.public_losses(SMALL, 0.5, np.full(300, eps), penalties, worlds=8) for eps in (1e4, 1.0, 0.2)
    )
    assert (np.diff(exact) > 0).all() and [usual.argmin(), coarse.argmin()] == [1, 2]
    assert (usual > exact).all() and (coarse > usual).all()
    other = beyond.public_losses(SMALL, 5.0, np.full(300, 1.0), penalties, worlds=8)
    np.testing.assert_allclose(other, 100 * usual, rtol=1e-6)  # other units, no other penalty


def test_rows_of_a_world_are_inside_the_schema() -> None:
    rows = beyond._uniform_rows(SMALL, 2000, np.random.default_rng(3))
    assert SMALL.transform(rows).shape == (2000, 6)  # refused otherwise
    assert rows["age"].between(18, 20).any() and set(rows["region"]) == {"n", "s", "w"}


def test_ranges_from_the_data_break_the_promise_and_declared_ones_keep_it() -> None:
    found = beyond.range_attack(medical())
    assert found["data"].min().min() > 1 and found["declared"].max().max() < 1
    assert found.shape == (6, 4)


def test_wrong_noise_is_seen_at_the_corners() -> None:
    rng = np.random.default_rng(4)
    right = [beyond.objective_pair_losses(60, schema=SMALL, label_bound=a, rng=rng) for a in (0.5, 4.0)]
    assert 0.8 < max(right) <= 1
    for options in (
        {"label_bound": 0.5, "power": 2},
        {"label_bound": 4.0, "power": 0},
        {"label_bound": 1, "faster": 2},
    ):
        assert beyond.objective_pair_losses(60, schema=SMALL, rng=rng, **options) > 1.5  # type: ignore[arg-type]
    c, corners = coded()["declared ranges"], beyond.corners_of(datasets.MEDICAL_FEATURES)[::16]
    few = Coding(c.X[:40], c.y[:40], c.test_loss, c.unit, c.label_bound, c.feature_norm)
    eps = np.linspace(0.5, 2, 40)
    low, high = beyond.corner_shares(few, eps, 1000.0, corners)
    assert 0.9 < low <= high <= 1 < beyond.corner_shares(few, eps, 1000.0, corners, power=2)[0]
    assert 0.05 < beyond.objective_meter(few, eps, 1.0, corners, pairs=5, rng=rng) <= 1


def test_paired_differences() -> None:
    rows = {"a": np.array([1.0, 3.0]), "b": np.array([1.0, 2.0])}
    table = beyond.paired(rows, "b")
    assert table["test loss"].tolist() == ["2.0000 ± 1.0000", "1.5000 ± 0.5000"]
    assert table["less b"].tolist() == ["0.5000 ± 0.5000", ""]


# --- caveats ----------------------------------------------------------------------------------------------------------


def test_caveats() -> None:
    covered, uncovered = limits.norm_bound_losses(800, rng=np.random.default_rng(1))
    assert covered <= 1 + 1e-9 < uncovered
    described = [limits.flip_loss(lam, 1, 0.1) for lam in (1.0, 100.0, 1e4)]
    np.testing.assert_allclose(described, [0.00965, 0.6689, 0.9955], rtol=1e-3)
    assert limits.flip_loss(1e4, 1, 0.1, size_in_noise="fixed") < 0.1
    gap, variance = limits.sampling_gap(seeds=1)
    assert isinstance(gap, pd.DataFrame) and variance < 1e-4
    np.testing.assert_allclose(gap.sum(axis=1), 1)
    zero = limits.against_zero(np.array([1.0, 100.0, 500.0]), draws=20)
    assert len(zero) == 20 and 0.5 < zero["ratio"].median() < 2


@pytest.mark.parametrize("kind", ["real", "stand-in"])
def test_the_page_says_from_which_cap_on_a_constant_is_better(kind: str) -> None:
    """Twenty splits for each of five ranges: signs of the mean differences on both sides of the page's sentence."""
    root = Path(__file__).resolve().parents[3]
    printed = json.loads((root / f"tests/refs/ridge/beyond.{kind}.json").read_text(encoding="utf8")).values()
    tables = [out["text/plain"] for cell in printed for out in cell["output"] if "text/plain" in out]
    lines = [line for table in tables if "by ranges and cap" in table[0] for line in table]
    gaps = np.array([re.findall(r"([+-]0\.\d{3}) ±", line) for line in lines[1:] if "±" in line], dtype=float)
    assert gaps.shape == (5, 5) and (gaps[:, :3] < 0).all() and (gaps[:, 3:] > 0).all()
    page = (root / "book/ridge/beyond.md").read_text(encoding="utf8")
    assert "**From 150,000 on" in page and 'caps |= {f"{cap:,}": cap for cap in (100_000, 150_000, 200_000)}' in page
