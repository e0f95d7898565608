"""What three owners learn for a record's loss, beside a rival and Flower's own noise: ``python -m
tests.federated_learning``, which the page on owners shows.

The rival is the usual way to protect a record: each client trains by DP-SGD on her own records, and
models are averaged. Rates, and what else is chosen, are chosen on drawn tables, alike for all.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from math import lgamma, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from example import make
from scipy.optimize import brentq
from scipy.special import logsumexp

from hdpm_lib.gaussian import largest_mu
from hdpm_lib.learners.gradients import accuracy
from hdpm_owner.choice import Part, chosen, clipped_sum, drawn, scaled, trained, tried
from hdpm_owner.table import Agreement, read_table
from tests import demonstration

STUDY = Path(__file__).resolve().parents[1] / "data" / "studies" / "federated_learning.json"
DELTA = 1e-5
ROUNDS = 10
SAMPLED, STEPS = 0.02, 50  # of the rival: share of the records in a step, steps of a round
RATES = (0.3, 1.0, 3.0, 10.0)  # of the rival
SEEDS = 10


def sampled_epsilon(sd: float, steps: int, share: float, delta: float) -> float:
    """Epsilon of so many sums over Poisson samples with noise of `sd` clipping norms, a record more
    or less: Mironov, Talwar and Zhang 2019, and the conversion of Balle et al. 2020.
    """
    found = []
    for order in range(2, 200):
        k = np.arange(order + 1)
        choose = lgamma(order + 1) - np.array([lgamma(j + 1) + lgamma(order - j + 1) for j in k])
        terms = choose + k * log(share) + (order - k) * log(1 - share) + k * (k - 1) / (2 * sd**2)
        lost = steps * float(logsumexp(terms)) / (order - 1)
        found.append(lost + log((order - 1) / order) - (log(delta) + log(order)) / (order - 1))
    return min(found)


def rival(
    parts: Sequence[Part],
    classes: int,
    epsilon: float,
    rate: float,
    rng: np.random.Generator,
    times: float = 1.0,
) -> np.ndarray:
    """Train the model of DP-SGD in clients, whose models are averaged after each round; of tables
    that are so many times smaller with so much less noise.
    """
    total = ROUNDS * STEPS
    sd = brentq(lambda s: sampled_epsilon(s, total, SAMPLED, DELTA) - epsilon, 0.3, 50)
    sizes = np.array([len(y) for _, y in parts])
    norms = [np.sqrt((x**2).sum(axis=1)) for x, _ in parts]
    w = np.zeros((classes, parts[0][0].shape[1]))
    for _ in range(ROUNDS):
        models = []
        for (x, y), length in zip(parts, norms, strict=True):
            local = w.copy()
            for _ in range(STEPS):
                some = rng.random(len(y)) < SAMPLED
                noisy = clipped_sum(local, (x[some], y[some]), length[some])
                noisy += rng.normal(0, sd / times, w.shape)
                local -= rate * noisy / (SAMPLED * len(y))
            models.append(local)
        w = np.average(models, axis=0, weights=sizes)
    return w


def best_rate(agreed: Agreement, sizes: Sequence[int], epsilon: float) -> float:
    """Return the rate of the rival that is best on drawn tables."""
    small, times = scaled(sizes)
    tables = [drawn(agreed, small, seed) for seed in range(4)]

    def mean(rate: float) -> float:
        rng = np.random.default_rng(0)
        models = [(rival(p, len(agreed.classes), epsilon, rate, rng, times), t) for p, t in tables]
        return float(np.mean([accuracy(w, *test) for w, test in models]))

    return max(RATES, key=mean)


def rows_of(data: str, agreed: Agreement, parts: list[Part], test: Part) -> list[dict[str, Any]]:
    """All learners on some data."""
    classes, sizes = len(agreed.classes), [len(y) for _, y in parts]
    found = []

    def row(what: str, epsilon: float | None, models: Sequence[np.ndarray], **more: Any) -> None:
        right = [float(accuracy(w, *test)) for w in models]
        told = {"data": data, "what": what, "epsilon": epsilon}
        told |= {"accuracy": round(float(np.mean(right)), 4)}
        if len(right) > 1:  # the standard error of that mean
            told["error"] = round(float(np.std(right, ddof=1)) / sqrt(len(right)), 4)
        found.append(told | more)
        print(found[-1], flush=True)

    row("always one class", None, [constant(test, classes, parts[0][0].shape[1])])
    seeds = [np.random.default_rng(seed) for seed in range(SEEDS)]
    for epsilon in (8.0, 1.0):
        mu = float(largest_mu(epsilon, DELTA))
        settings = list(tried(agreed, sizes, epsilon, DELTA, [ROUNDS]))
        best = chosen(settings)
        single = chosen([one for one in settings if one.local_steps == 1])
        if epsilon == 8:
            of = trained(parts, classes, 0.0, *best[:3], seeds[0])
            row("market, no noise", None, [of], local_steps=best[1], rate=best[2])
        for what, one in (("market", best), ("market, one step a round", single)):
            models = [trained(parts, classes, mu, *one[:3], rng) for rng in seeds]
            row(what, epsilon, models, local_steps=one.local_steps, rate=one.learning_rate)
        rate = best_rate(agreed, sizes, epsilon)
        models = [rival(parts, classes, epsilon, rate, rng) for rng in seeds]
        row("DP-SGD in clients, averaged", epsilon, models, local_steps=STEPS, rate=rate)
    return found


def constant(test: Part, classes: int, width: int) -> np.ndarray:
    """Return the model that always names the most frequent class."""
    w = np.zeros((classes, width))
    w[np.bincount(test[1], minlength=classes).argmax(), -1] = 1.0
    return w


def main() -> None:
    """Run all, and store it."""
    from hdpm_book.records import provenance, store

    logging.disable(logging.WARNING)
    began = time.process_time()
    record = provenance("numpy", "scipy") | {"command": "python -m tests.federated_learning"}
    record |= {"delta": DELTA, "rounds": ROUNDS, "owners": 3, "seeds": SEEDS, "rows": []}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        subprocess.run([sys.executable, make.__file__, str(folder / "hospitals")], check=True)
        frames, _, _ = demonstration.tables(folder / "NSL-KDD")
        for name, frame in zip(("ann", "bea", "cem"), frames, strict=True):
            frame.to_csv(folder / "NSL-KDD" / f"{name}.csv", index=False)
        for data in ("hospitals", "NSL-KDD"):
            agreed = Agreement.read(folder / data / "schema.toml")
            read = [
                read_table(folder / data / f"{name}.csv", agreed)
                for name in ("ann", "bea", "cem", "test")
            ]
            *parts, test = ((one.features, one.labels) for one in read)
            record["rows"] += rows_of(data, agreed, parts, test)
    record["cpu_seconds"] = round(time.process_time() - began, 1)
    store(STUDY, record)


if __name__ == "__main__":
    main()
