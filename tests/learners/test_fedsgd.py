"""FedSGD with local privacy: gradients, plain loops, releases on a lattice, what they lose,
accounting and limits.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from hdpm_book.federated.partition import deal, lognormal_sizes
from hdpm_lib.aggregation import least_error_weights, size_weights
from hdpm_lib.learners import fedsgd as module
from hdpm_lib.learners import integer_answers
from hdpm_lib.learners.fedsgd import Training, fedsgd
from hdpm_lib.learners.gradients import (
    accuracy,
    clipped,
    draw_bidders,
    local_gradients,
    noise_scale,
)
from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.validation import FALSE_ALARM
from tests.support import generator, law_of, p_value

CLASSES = 3
WIDTH = 4


def records(rng: np.random.Generator, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    return np.column_stack([rng.random((n, WIDTH - 1)), np.ones(n)]), rng.integers(CLASSES, size=n)


def market(
    rng: np.random.Generator, runs: int = 2, owners: int = 6
) -> tuple[np.ndarray, np.ndarray, list, np.ndarray]:
    """Records, labels, partitions and privacy budgets."""
    x, y = records(rng)
    parts = [
        deal(y, lognormal_sizes(len(y), owners, rng, sigma=1.0, least=2), rng) for _ in range(runs)
    ]
    return x, y, parts, rng.uniform(0.5, 2.0, (runs, owners))


def loss(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    return float(-special.log_softmax(x @ w.T, axis=1)[np.arange(len(y)), y].mean())


def by_differences(w: np.ndarray, x: np.ndarray, y: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Gradient of the mean loss by central differences."""
    slopes = [
        (loss(w + step * unit, x, y) - loss(w - step * unit, x, y)) / (2 * step)
        for unit in np.eye(w.size).reshape(-1, *w.shape)
    ]
    return np.reshape(slopes, w.shape)


# --- gradients ----------------------------------------------------------------------------------


@pytest.mark.parametrize("clip_norm", [0.01, 0.3, 5.0])
def test_clip(clip_norm: float) -> None:
    """Eq. (1): never longer than L in the L1 norm, the direction kept, and shorter gradients left
    alone.
    """
    raw = (
        generator(4).standard_normal((50, 2, CLASSES, WIDTH))
        * np.geomspace(1e-3, 10, 50)[:, None, None, None]
    )
    short = clipped(raw, clip_norm)
    norms = np.abs(raw).sum((-2, -1))
    kept = np.abs(short).sum((-2, -1))
    np.testing.assert_allclose(kept, np.minimum(norms, clip_norm))
    np.testing.assert_allclose(short * norms[..., None, None], raw * kept[..., None, None])
    assert (short[norms <= clip_norm] == raw[norms <= clip_norm]).all()
    assert (clipped(np.zeros((1, 2, 2)), clip_norm) == 0).all()
    assert noise_scale([0.0, 0.5], clip_norm).tolist() == [math.inf, 4 * clip_norm]


# --- FedSGD -------------------------------------------------------------------------------------


def test_all_owners_without_noise_make_the_centralised_step() -> None:
    rng = generator(5)
    x, y = records(rng)
    parts = [deal(y, lognormal_sizes(60, 7, rng, least=1), rng)]
    w = rng.standard_normal((CLASSES, WIDTH))
    arms = {"by size": None, "wrong": lambda e, d: np.full(d.shape, 1 / 7)}
    limits = np.full((1, 7), 1e9)
    asked = np.arange(7)[None, None]
    run = fedsgd(x, y, parts, limits, asked, arms, w, rng=rng, learning_rate=0.3, clip_norm=50)
    step = w - 0.3 * by_differences(w, x, y)
    np.testing.assert_allclose(run.parameters("by size")[-1, 0], step, atol=1e-8)
    # sizes differ, so equal weights do not give it
    assert np.abs(run.parameters("wrong")[-1, 0] - step).max() > 1e-4


@pytest.mark.parametrize(
    ("rule", "dtype"), [(least_error_weights, np.float64), (size_weights, np.float32)]
)
def test_fedsgd_equals_plain_loops(rule: Any, dtype: type) -> None:
    """Algorithm 1, one owner and one run after the other: owners come back, sell part or nothing,
    or nobody sells.

    Gradients take the type of the features; the noise must not, as its gaps would show.
    """
    rng = generator(6)
    x, y, parts, limits = market(rng)
    bidders = draw_bidders(6, 2, 8, 2, rng)
    rate = 0.1
    bound = 0.7
    shares = rng.choice([0.0, 0.4, 1.0], size=(2, 6))
    shares[0, bidders[1, 0]] = 0
    shares[1, 3] = 1

    def auction(bidders: np.ndarray) -> Outcome:
        sold = np.array([np.take_along_axis(shares * limits, asked, 1) for asked in bidders])
        return Outcome(sold, np.ones(bidders.shape))

    w = rng.standard_normal((CLASSES, WIDTH))
    plain = generator(7)
    run = fedsgd(
        x.astype(dtype),
        y,
        parts,
        limits,
        bidders,
        {"rule": rule, "same": rule, "free": None},
        w,
        rng=generator(7),
        auction=auction,
        learning_rate=rate,
        clip_norm=bound,
        every=3,
        arithmetic="ideal",
    )
    models = [np.array([w] * 2)]
    noisy = [np.zeros((2, *w.shape))]
    spent = np.zeros((2, 6))
    idle = np.zeros(2)
    for asked in bidders:
        after = models[-1].copy()
        noise = noisy[-1].copy()
        for s, own in enumerate(asked):
            up, down = plain.standard_exponential((2, len(own), *w.shape))
            noises = up - down
            eps = (shares * limits)[s, own]
            spent[s, own] += eps  # privacy losses of one owner add up
            idle[s] += not eps.any()
            if not eps.any():
                continue
            weights = rule(eps[None], np.array([[len(parts[s][i]) for i in own]], float))[0]
            for i, e, share, drawn in zip(own, eps, weights, noises, strict=True):
                if e > 0:
                    gradient = by_differences(models[-1][s], x[parts[s][i]], y[parts[s][i]])
                    gradient *= min(1, bound / np.abs(gradient).sum())
                    after[s] -= rate * share * (gradient + 2 * bound / e * drawn)
                    noise[s] -= rate * share * 2 * bound / e * drawn
        models.append(after)
        noisy.append(noise)
    assert run.rounds.tolist() == [0, 1, 3, 6, 8]
    tolerance = 1e-7 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(
        run.parameters("rule"), [models[r] for r in run.rounds], atol=tolerance
    )
    np.testing.assert_allclose(
        run.noise["rule"], [noisy[r] for r in run.rounds], rtol=1e-12, atol=1e-12
    )
    assert (run.parameters("rule") == w + (run.signal["rule"] + run.noise["rule"])).all()
    assert (run.parameters("rule") == run.parameters("same")).all()  # arms share noise
    assert run.parameters("rule").dtype == np.float64 and (run.noise["free"] == 0).all()
    np.testing.assert_allclose(run.privacy_loss, spent)
    assert idle[0] >= 1 and run.paid.tolist() == [16.0, 16.0]
    assert "signal=..., noise=..." in repr(run)


@pytest.mark.parametrize(
    ("owners", "bidders", "rounds"), [(12, 3, 11), (7, 3, 9), (5, 5, 3), (4, 1, 1)]
)
def test_everybody_is_asked_once_before_anybody_twice(
    owners: int, bidders: int, rounds: int
) -> None:
    asked, again, other = (
        draw_bidders(owners, bidders, rounds, 50, generator(k)) for k in (11, 11, 12)
    )
    assert (
        asked.shape == (rounds, 50, bidders) and (asked == again).all() and (asked != other).any()
    )
    each = owners // bidders
    for start in range(0, rounds, each):
        once = np.sort(asked[start : start + each].transpose(1, 0, 2).reshape(50, -1), axis=1)
        assert (np.diff(once, axis=1) > 0).all() and (once >= 0).all() and (once < owners).all()


def test_first_bidder_is_anybody() -> None:
    n = 20_000
    counts = np.bincount(draw_bidders(8, 2, 1, n, generator(12))[0, :, 0], minlength=8)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


# --- on a lattice -------------------------------------------------------------------------------

SPACING = 2.0**-6


def alone(n: int) -> dict[str, Any]:
    """A rule for each of n owners that takes hers alone."""
    return {
        f"owner {i}": lambda e, d, i=i: np.broadcast_to(np.eye(n)[i], e.shape) for i in range(n)
    }


def train_on_grid(
    levels: np.ndarray, spacing: float | None, runs: int = 15, **options: Any
) -> Training:
    rng = generator(17)
    x, y = records(rng, 8)
    parts = [[np.array([2 * i, 2 * i + 1]) for i in range(4)] for _ in range(runs)]
    asked = np.tile(np.arange(4), (20, runs, 1))
    return fedsgd(
        x,
        y,
        parts,
        np.tile(levels, (runs, 1)),
        asked,
        alone(4),
        np.zeros((CLASSES, WIDTH)),
        rng=rng,
        learning_rate=1.0,
        clip_norm=0.8,
        every=1,
        spacing=spacing,
        **options,
    )


def test_training_in_integers() -> None:
    """Signals and noise are multiples of the spacing; gradients are short enough; noise has the law
    on the integers.
    """
    levels = np.array([2.0, 4.0, 16.0, 4.0])
    run = train_on_grid(levels, SPACING)
    most = math.floor(Fraction(0.8) / Fraction(SPACING))
    for name, eps in zip(alone(4), levels.tolist(), strict=True):
        signal, noise = (np.diff(path[name], axis=0) / SPACING for path in (run.signal, run.noise))
        assert (signal % 1 == 0).all() and (noise % 1 == 0).all()
        assert 0 < np.abs(signal).sum(axis=(-2, -1)).max() <= most
        scale = Fraction(2 * most) / Fraction(eps)
        drawn = noise.astype(int).reshape(-1, 1)
        assert p_value(drawn, *law_of(scale, math.ceil(60 * scale))) > FALSE_ALARM
        assert p_value(drawn, *law_of(scale / 2, math.ceil(60 * scale))) < FALSE_ALARM
    np.testing.assert_allclose(run.privacy_loss, 20 * np.tile(levels, (15, 1)))


def test_all_digits_of_a_fine_grid_are_sent() -> None:
    """Numbers of 45 bits: what was received is the sum of gradients and noise, and the models are
    made of it.
    """
    run = train_on_grid(np.array([2.0, 4.0, 16.0, 4.0]), 2.0**-40)
    for name, received in run.received.items():
        assert (received == run.signal[name] + run.noise[name]).all()
        assert all((path[1:] % 2.0**-36 != 0).mean() > 0.8 for path in (received, run.noise[name]))
        assert (run.parameters(name) == run.start + received).all()


def test_training_on_a_fine_grid_is_training() -> None:
    """With next to no noise, cutting to the grid is all that is left between the two."""
    loud = np.full(4, 1e9)
    kinds = [(2.0**-30, "exact"), (None, "exact"), (None, "ideal")]
    *fine, real = (train_on_grid(loud, spacing, runs=2, arithmetic=kind) for spacing, kind in kinds)
    for name in alone(4):
        for trained in fine:
            np.testing.assert_allclose(trained.parameters(name), real.parameters(name), atol=1e-6)


@pytest.mark.parametrize("least", [1e-11, 1e-3, 1.0, 1e9])
def test_spacing_by_default_fits_what_was_sold(least: float) -> None:
    """Fine beside the least noise, whatever losses are sold together; every step sent is a multiple
    of it.
    """
    run = train_on_grid(np.array([least, 1.0, 4.0, 4.0]), None, runs=2)
    step = module._grid(np.array([least, 4.0, max(least, 4.0)]), 0.8, None)[0]
    assert np.log2(step) % 1 == 0 and 2.0**-40 * 0.8 <= step <= 0.8
    assert step <= max(2.0**-30 * 1.6 / 4, 64 * 0.8 / least * 2.0**-43)
    assert all(
        (run.noise[name] % step == 0).all() and run.received is not None for name in alone(4)
    )


def test_noise_of_all_owners_comes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One batch for those who are asked, and each has the scale of her own privacy loss."""
    draw = integer_answers.draw_laplace
    batches = []

    def spy(t: np.ndarray, s: np.ndarray, *rest: Any) -> np.ndarray:
        batches.append(t / s)
        return draw(t, s, *rest)

    monkeypatch.setattr(integer_answers, "draw_laplace", spy)
    levels = np.array([2.0, 4.0, 16.0, 4.0])
    train_on_grid(levels, SPACING, runs=3)
    most = math.floor(Fraction(0.8) / Fraction(SPACING))
    assert len(batches) == 20 * 3
    for scales in batches:
        np.testing.assert_allclose(scales, np.repeat(2 * most / levels, CLASSES * WIDTH))


def models_from(shift: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[np.ndarray], np.ndarray]:
    """All models that owners receive, and those of the result, if that part of what is sent counts
    as noise.
    """
    rng = generator(19)
    steps = integer_answers.whole_steps
    x, y = records(rng, 8)
    received = []

    def spy(parameters: np.ndarray, *data: Any) -> np.ndarray:
        received.append(np.array(parameters))
        return np.zeros((4, *parameters.shape))

    moved = generator(20).integers(-9, 9, (CLASSES, WIDTH)) * shift
    drawn = iter(generator(21).integers(-999, 999, (20, 4, CLASSES, WIDTH)))
    monkeypatch.setattr(module, "owner_gradients", spy)
    monkeypatch.setattr(module, "whole_steps", lambda g, *rest: steps(g, *rest) + moved)
    monkeypatch.setattr(module, "gradient_noise", lambda *given: next(drawn) - moved)
    run = fedsgd(
        x,
        y,
        [[np.array([2 * i, 2 * i + 1]) for i in range(4)]],
        np.ones((1, 4)),
        np.tile(np.arange(4), (20, 1, 1)),
        {"third": lambda e, d: np.array([0.1, 0.2, 0.3, 0.4]) * np.ones(e.shape)},
        np.full((CLASSES, WIDTH), 0.1),
        rng=rng,
        learning_rate=0.01,
        every=1,
        spacing=SPACING,
    )
    return received, run.parameters("third")


def test_models_depend_on_what_was_sent_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit by bit: which part of it was a gradient and which noise leaves no trace in rounding."""
    (models, result), (others, other) = models_from(0, monkeypatch), models_from(1, monkeypatch)
    assert len(models) == 20 and len({m.tobytes() for m in models}) == 20
    assert all(m.tobytes() == o.tobytes() for m, o in zip(models, others, strict=True))
    assert result.tobytes() == other.tobytes()
    monkeypatch.setattr(
        Training, "parameters", lambda self, name: self.start + self.signal[name] + self.noise[name]
    )
    assert models_from(0, monkeypatch)[1].tobytes() != models_from(1, monkeypatch)[1].tobytes()


# --- accuracy -----------------------------------------------------------------------------------


def test_accuracy_by_counting() -> None:
    rng = generator(15)
    x, y = records(rng, 40)
    w = rng.standard_normal((2, 5, CLASSES, WIDTH))
    w[0, 0] = 0  # all scores equal: the first class is named
    counted = [
        [np.mean([int(np.argmax(m @ r)) == c for r, c in zip(x, y, strict=True)]) for m in row]
        for row in w
    ]
    np.testing.assert_allclose(accuracy(w, x, y), counted)
    assert accuracy(w[0, 1], x, y) == pytest.approx(counted[0][1])


def test_owner_without_records_counts_as_one_with_a_gradient_of_zero() -> None:
    x = np.array([[1.0, 1.0], [0.0, 1.0]])
    y = np.array([0, 1])
    nothing = np.array([], dtype=int)
    gradients = local_gradients(np.zeros((1, 2, 2)), x, y, [nothing, np.array([0]), nothing])
    assert (gradients[[0, 2]] == 0).all() and (gradients[1] != 0).all()
    asked = np.array([[[0, 1]]])
    own = np.array([0, 1, 0])
    run = fedsgd(
        x,
        y,
        [[nothing, own]],
        [[1.0, 1.0]],
        asked,
        {"a": size_weights},
        np.zeros((2, 2)),
        rng=generator(),
        every=1,
    )
    short = clipped(local_gradients(np.zeros((1, 2, 2)), x, y, [own])[0], 1.0)
    np.testing.assert_allclose(run.signal["a"][-1], -0.01 * 0.75 * short)  # three of four records
    assert (run.noise["a"][-1] != 0).all()


def test_nobody_who_is_asked_has_records() -> None:
    nothing = [np.array([], dtype=int)] * 2
    run = train(owners=[nothing], privacy_budget=[[1.0, 2.0]], bidders=np.array([[[0, 1]]]))
    assert run.noise["opt"][-1].any() and not run.signal["opt"][-1].any()


# --- bad input ----------------------------------------------------------------------------------


def good() -> dict[str, Any]:
    x, y, parts, limits = market(generator(16))
    return {
        "features": x,
        "labels": y,
        "owners": parts,
        "privacy_budget": limits,
        "bidders": draw_bidders(6, 2, 3, 2, generator(16)),
        "aggregations": {"opt": least_error_weights},
        "start": np.zeros((CLASSES, WIDTH)),
        "rng": generator(16),
    }


def train(**changes: Any) -> Training:
    return fedsgd(**good() | changes)


def spoilt(name: str, index: Any, value: float) -> np.ndarray:
    array = np.array(good()[name])
    array[index] = value
    return array


BAD: list[tuple[dict[str, Any], str]] = [
    ({"labels": spoilt("labels", 5, 7)}, "labels must be whole numbers from 0 to 2, the classes"),
    ({"labels": np.zeros(59, int)}, r"labels must have shape \(60,\), .*, got \(59,\)"),
    ({"start": np.zeros((3, 3))}, r"start must have shape \(classes, 4\)"),
    ({"owners": [part[:5] for part in good()["owners"]]}, "owners must have 2 runs of 6 owners"),
    (
        {"owners": [[*own[:5], np.array([60])] for own in good()["owners"]]},
        "rows of the 60 records, got 60",
    ),
    ({"bidders": spoilt("bidders", (0, 0, 0), 6)}, "different owners 0 to 5"),
    ({"bidders": np.zeros((3, 2, 2), int)}, "different owners 0 to 5"),
    ({"bidders": [[0, 1]]}, r"bidders must be whole numbers .* got int64 of shape \(1, 2\)"),
    ({"bidders": np.zeros((3, 1, 2), int)}, r"as privacy_budget has 2 runs, got .* \(3, 1, 2\)"),
    (
        {"bidders": np.zeros((3, 2), int)},
        r"bidders must be whole numbers of shape .* shape \(3, 2\)",
    ),
    (
        {"bidders": np.zeros((0, 2, 2), int)},
        r"bidders must be whole numbers .* shape \(0, 2, 2\)",
    ),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_bad_input(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(**changes)


def test_bidders_in_lists_are_bidders() -> None:
    asked = good()["bidders"]
    found, lists = (train(bidders=given).parameters("opt") for given in (asked, asked.tolist()))
    assert (found == lists).all()


SHAPE = (3, 2, 2)
ACCEPTED = good()["privacy_budget"][1, good()["bidders"][1, 1, 1]]  # by the last bidder of round 2


def purchase(privacy_loss: float = 0.1, payments: float = 0.0, **of_one: float) -> Outcome:
    """The same in three rounds, but for what is given of one bid of round 2."""
    bought = {
        "privacy_loss": np.full(SHAPE, privacy_loss),
        "payments": np.full(SHAPE, payments),
    }
    for name, value in of_one.items():
        bought[name.removesuffix("_of_one")].reshape(3, -1)[1, -1] = value
    return Outcome(**bought)


@pytest.mark.parametrize(
    ("bought", "message"),
    [
        (
            purchase(privacy_loss_of_one=ACCEPTED * (1 + 1e-6)),
            f"round 2: privacy_loss = .* at most {ACCEPTED}",
        ),
        (purchase(privacy_loss_of_one=-0.1), r"privacy_loss must .* not negative, got -0\.1"),
        (purchase(privacy_loss_of_one=math.nan), "privacy_loss must be finite .* got nan"),
        (purchase(payments=0.4, payments_of_one=-0.1), r"payments must .* not negative, got -0\.1"),
        (purchase(payments_of_one=math.nan), "payments must be finite .* got nan"),
        (
            Outcome(np.ones((2, 2)), np.zeros(SHAPE)),
            r"of shape \(3, 2, 2\), got privacy_loss \(2, 2\)",
        ),
        (Outcome(np.ones(SHAPE), np.zeros(2)), r"shape \(3, 2, 2\), got .* payments \(2,\)"),
        (Outcome(np.ones(SHAPE)), "payments must be an array of numbers, got None"),
        (purchase(privacy_loss=0.0), "privacy_loss is 0 for every bidder in every round"),
    ],
)
def test_auction_that_breaks_a_limit(bought: Outcome, message: str) -> None:
    assert train(auction=lambda asked: purchase(payments=0.5)).paid.tolist() == [3, 3]
    with pytest.raises((ValueError, TypeError), match=message):
        train(auction=lambda asked: bought)


def test_bidders_and_accuracy_refuse_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="bidders must be an integer from 1 to 5, got 6"):
        draw_bidders(5, 6, 1, 1, rng=generator())
    with pytest.raises(
        ValueError, match=rf"parameters must have shape \(..., classes, {WIDTH}\), got \({WIDTH},\)"
    ):
        accuracy(np.zeros(WIDTH), np.ones((2, WIDTH)), np.array([0, 0]))
    with pytest.raises(
        ValueError, match=r"gradients must have shape \(..., classes, features\), got \(3,\)"
    ):
        clipped(np.zeros(3), 1.0)
    with pytest.raises(ValueError, match="labels must be whole numbers from 0 to 2, the classes"):
        accuracy(np.zeros((CLASSES, WIDTH)), np.ones((2, WIDTH)), np.array([0, 3]))
