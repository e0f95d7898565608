"""The checks of the page on the accuracy bound object to what is broken on purpose."""

from __future__ import annotations

import pytest

from hdpm_book.logistic import risk


def test_a_wrong_quantile_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert risk.noise_length(20_000).holds
    right = risk.survival_inverse
    monkeypatch.setattr(risk, "survival_inverse", lambda tail, n: 0.9 * right(tail, n))
    assert not risk.noise_length(20_000).holds


def test_weights_that_help_nobody_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = risk.choices(sets=6)
    assert found.z > found.limit
    assert found.always_larger
    monkeypatch.setattr(risk, "choose_weights", lambda eps, ratio: (0 * eps + 1 / len(eps), len(eps) * eps.min() / 2))
    assert not risk.choices(sets=6).always_larger


def test_a_step_the_wrong_way_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert risk.monotone(3).holds
    right = risk.procure
    monkeypatch.setattr(risk, "procure", lambda psi, mu, sigma, gamma: right(psi, mu, 1 / sigma, gamma))
    assert not risk.monotone(3).holds
