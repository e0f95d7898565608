"""The tests of the page on the private classifier object to a learner that is broken on purpose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hdpm_book.logistic import idea
from hdpm_lib.learners.logistic import objective_perturbation


def test_the_learner_passes() -> None:
    found = idea.as_printed(4)
    assert found.solved
    assert found.lawful


def test_small_noise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        idea,
        "_noise_tests",
        lambda model, released, test=idea._noise_tests: test(replace(model, eta=0.7 * model.eta), released),
    )
    assert not idea.as_printed(4).lawful


def test_another_penalty_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def halved(X: Any, y: Any, weights: Any, eta: float, penalty: float) -> Any:
        model = objective_perturbation(X, y, weights, eta, penalty)
        monkeypatch.setattr(
            type(model),
            "minimise",
            lambda self, noise, start=0.0: plain(replace(self, penalty=self.penalty / 2), noise, start),
        )
        return model

    plain = idea.ObjectivePerturbation.minimise
    monkeypatch.setattr(idea, "objective_perturbation", halved)
    assert not idea.as_printed(4).solved
