"""The local menu against a grid of losses, and against purchases of all sellers together."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from hdpm_lib.markets.local_menu import information, local_menu
from tests.support import generator

Array = np.ndarray


def test_no_other_loss_is_worth_more() -> None:
    """Of 200,001 losses, to any of 200 sellers."""
    rng = generator(1730)
    for _ in range(20):
        psi, (variance, noise, worth) = (
            np.exp(rng.normal(0, 1.5, 10)),
            np.exp(rng.normal(0, 1.5, 3)),
        )
        grid = np.linspace(0, 40 * np.sqrt(noise / variance), 200_001)
        sold = local_menu(psi, variance, noise, worth).privacy_loss
        ours = worth * information(sold, variance, noise) - psi * sold
        told = information(grid, variance, noise)
        np.testing.assert_allclose(told[1:], 1 / (variance + noise / grid[1:] ** 2))
        for p, own in zip(psi, ours, strict=True):
            assert (worth * told - p * grid).max() <= own + 1e-9 * worth / variance


def test_no_joint_purchase_tells_more_for_the_money() -> None:
    """SLSQP from 20 starts, over the losses of four sellers at the bill of the menu."""
    rng = generator(1731)
    psi = np.array([1.0, 1.3, 1.7, 2.5])
    variance = 0.2
    noise = 2.0
    sold = local_menu(psi, variance, noise, 9.0).privacy_loss
    told = information(sold, variance, noise).sum()
    bill = psi @ sold
    assert (sold > 0).sum() == 4
    for _ in range(20):
        start = rng.uniform(0, 2, 4) * sold.mean()
        found = optimize.minimize(
            lambda e: -information(np.maximum(e, 0), variance, noise).sum(),
            start,
            method="SLSQP",
            bounds=[(0, None)] * 4,
            constraints={"type": "ineq", "fun": lambda e: bill - psi @ e},
        )
        assert -found.fun <= told * (1 + 1e-6)


def test_nobody_sells_less_than_the_least_loss() -> None:
    variance = 0.3
    noise = 2.0
    least = np.sqrt(noise / variance)
    edge = 5.0 / (2 * np.sqrt(variance * noise))  # the virtual cost up to which somebody sells
    sold = local_menu([edge * (1 - 1e-9), edge * (1 + 1e-9)], variance, noise, 5.0).privacy_loss
    assert sold == pytest.approx([least, 0], rel=1e-3)
    assert local_menu([1.0], 1.0, 1.0, 2.0).privacy_loss == [1.0]  # at the edge itself
    sold = local_menu(np.geomspace(1e-12, 1e12, 500), variance, noise, 5.0).privacy_loss
    assert ((sold == 0) | (sold >= least * (1 - 1e-9))).all()
    assert (np.diff(sold) <= 0).all()
