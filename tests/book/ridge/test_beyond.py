"""Penalties from public facts, and what the page beyond the ridge paper says of declared caps."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from hdpm_book.ridge import study
from hdpm_lib.schema import Category, Number, Schema

SMALL = Schema([Number("age", 18, 64), Category("sex", ("f", "m")), Category("region", ("n", "s", "w"))])


def test_public_losses_trade_noise_against_the_pull_of_the_penalty() -> None:
    penalties = (0.05, 0.2, 0.8, 3.0)
    exact, usual, coarse = (
        study.public_losses(SMALL, 0.5, np.full(300, eps), penalties, worlds=8) for eps in (1e4, 1.0, 0.2)
    )
    assert (np.diff(exact) > 0).all() and [usual.argmin(), coarse.argmin()] == [1, 2]
    assert (usual > exact).all() and (coarse > usual).all()
    other = study.public_losses(SMALL, 5.0, np.full(300, 1.0), penalties, worlds=8)
    np.testing.assert_allclose(other, 100 * usual, rtol=1e-6)  # other units, no other penalty


def test_rows_of_a_world_are_inside_the_schema() -> None:
    rows = study._uniform_rows(SMALL, 2000, np.random.default_rng(3))
    assert SMALL.transform(rows).shape == (2000, 6)  # refused otherwise
    assert rows["age"].between(18, 20).any() and set(rows["region"]) == {"n", "s", "w"}


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
