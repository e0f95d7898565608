"""Audit what Flower's own noise releases against its labels: ``python -m tests.noise_labels``, for
the page on noise labels.

The installed LocalDpMod and fixed-clipping strategy are called with messages as a node and a server
have them. Two updates at the two ends of what clipping leaves are neighbours: one replaces the
other. Many releases are coordinates of one call whose clipping norm has grown with their number, so
that it shortens nothing and the noise stays as it is. With one seed these are the releases of as
many calls, as a test says.
"""

# ruff: noqa: NPY002

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import log, nan, sqrt
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp.mod import LocalDpMod
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.supercore.privacy_accounting import SamplingMethod
from flwr.supercore.task_identity import TaskIdentity

from hdpm_lib.audits.black_box import audit
from hdpm_lib.gaussian import gaussian_epsilon, largest_mu
from hdpm_lib.learners.gradients import accuracy
from hdpm_lib.learners.integer_answers import record_steps
from hdpm_owner.table import Agreement, Table, read_table
from tests.demonstration import PROMISE, tables

STUDY = Path(__file__).resolve().parents[1] / "data" / "studies" / "flower_labels.json"
GRID = 2.0**-20  # of clipped gradients
# OTHERS: the updates of the owners who are not replaced
CLIP = 1.0
DELTA = 1e-5
OTHERS = 0.25
# sensitivity over clipping norm
LOCAL = [(times, epsilon) for epsilon in (1.0, 4.0, 10.0) for times in (1.0, 2.0)]
# ten owners' records; updates that far apart
CENTRAL = [((1,) * 10, 1.0), ((1,) * 10, 2.0), ((9,) + (1,) * 9, 2.0)]
Release = Callable[[float, int], np.ndarray]


def letters(updates: Iterable[np.ndarray], records: Iterable[int]) -> tuple[Message, list[Message]]:
    """Return a message that asks for an update of a model of zeros, and the owners' replies."""
    with mock.patch.multiple(TaskIdentity, _run_id=1, _task_id=1, _node_id=1):
        sent = [RecordDict({"arrays": ArrayRecord({"w": Array(update)})}) for update in updates]
        zeros = RecordDict(
            {"arrays": ArrayRecord({"w": Array(np.zeros_like(sent[0]["arrays"]["w"].numpy()))})}
        )
        asked = Message(zeros, dst_node_id=1, message_type="train")
        asked.metadata.__dict__["_message_id"] = "letter"
        for content, number in zip(sent, records, strict=True):
            content["metrics"] = MetricRecord({"num-examples": number})
        return asked, [Message(content, reply_to=asked) for content in sent]


def local(value: float, size: int, *, sensitivity: float, epsilon: float) -> np.ndarray:
    """Releases of an owner whose update is `value`, by the mod."""
    return through(LocalDpMod(CLIP * size, sensitivity, epsilon, DELTA), np.full(size, value))


def through(mod: LocalDpMod, update: np.ndarray) -> np.ndarray:
    """Return what the mod lets out of an owner's update."""
    asked, (reply,) = letters([update], [1])
    context: Any = Context(1, 1, {}, RecordDict(), {})
    return mod(asked, context, lambda *_: reply).content["arrays"]["w"].numpy()


def central(
    value: float, size: int, *, multiplier: float, records: tuple[int, ...], accountant: Any = None
) -> np.ndarray:
    """Releases of a server to which the first owner sends `value`, by the strategy."""
    updates = [np.full(size, value)] + [np.full(size, OTHERS)] * (len(records) - 1)
    return aggregated(multiplier / size, CLIP * size, updates, records, accountant)


def aggregated(
    multiplier: float,
    clip: float,
    updates: Sequence[np.ndarray],
    records: Sequence[int],
    accountant: Any = None,
) -> np.ndarray:
    """Return what the strategy makes of the owners' updates."""
    strategy = DifferentialPrivacyServerSideFixedClipping(
        FedAvg(), multiplier, clip, len(updates), accountant=accountant
    )
    strategy._pending_events[1] = None  # of a round that was configured
    asked, replies = letters(updates, records)
    strategy.current_arrays = asked.content["arrays"]
    return strategy.aggregate_train(1, replies)[0]["w"].numpy()


def local_sd(sensitivity: float, epsilon: float) -> float:
    """Return the standard deviation by the mod's formula."""
    return sensitivity * sqrt(2 * log(1.25 / DELTA)) / epsilon


def row(
    release: Release, sd: float, moved: float, promised: float, runs: int, apart: float = 2.0
) -> dict[str, Any]:
    """Noise, exact loss and verdicts, where updates `apart` clipping norms apart move the release
    by `moved`.
    """

    def rounded(value: float, size: int) -> np.ndarray:
        return np.round(release(value, size), 3)

    end = apart * CLIP / 2
    asked = {"runs": runs, "seed": 1, "time_limit": None}
    found, raw = (audit(one, end, -end, promised, DELTA, **asked) for one in (rounded, release))
    told = {
        "promised": promised,
        "exact": float(gaussian_epsilon(DELTA, moved / sd)),
        "at least": found.epsilon_lower(),
    }
    told |= {
        "found": bool(found.found),
        "undecided": found.undecided,
        "found in the last digits": bool(raw.found),
    }
    return told | {"sd": float(release(CLIP, 1_000_000).std()), "sd by the formula": sd}


def trained(
    kind: str, owners: Sequence[Table], test: Table, rounds: int, clip: float = 1.0
) -> float:
    """Accuracy of a training in which an owner's update is protected with what the promise
    allows in all.
    """
    # mu of a round
    each = float(largest_mu(PROMISE["epsilon"], PROMISE["delta"])) / sqrt(rounds)
    # by which noise is as large as that needs
    epsilon = sqrt(2 * log(1.25 / DELTA)) * each
    multiplier = 2 / each
    w = np.zeros((int(test.labels.max()) + 1, test.features.shape[1]))
    for _ in range(rounds):
        steps = (
            record_steps(w, own.features, own.labels, clip, GRID) * GRID / len(own.labels)
            for own in owners
        )
        updates = [-step.ravel() for step in steps]
        if kind == "local":
            mod = partial(LocalDpMod, clip, 2 * clip, epsilon, DELTA)
            w += np.mean([through(mod(), update) for update in updates], axis=0).reshape(w.shape)
        else:
            w += aggregated(multiplier, clip, updates, (1,) * len(updates)).reshape(w.shape)
    return float(accuracy(w, test.features, test.labels))


def odd_cases() -> dict[str, Any]:
    """Return what comes of updates that are zeros or not numbers, of a seed, and of unequal weights
    under an accountant.
    """
    one = partial(local, size=1, sensitivity=1.0, epsilon=1.0)
    np.random.seed(1)
    first = one(CLIP)
    np.random.seed(1)
    again = one(CLIP)
    config = SimpleNamespace(sampling_method=SamplingMethod.NO_AMPLIFICATION)
    unequal = partial(
        central, CLIP, 1, multiplier=1.0, records=(9, 1), accountant=SimpleNamespace(config=config)
    )
    return {
        "zeros": outcome(partial(one, 0.0)),
        "nan": outcome(partial(one, nan)),
        "a seed repeats the noise": bool(first == again),
        "unequal weights, accountant": outcome(unequal),
    }


def outcome(call: Callable[[], np.ndarray]) -> str:
    """Return what a call gives, or the error."""
    try:
        return str(call())
    except (ZeroDivisionError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def main() -> None:
    """Command line."""
    from hdpm_book.records import provenance, store

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4_000_000)
    runs = parser.parse_args().runs
    logging.disable(logging.WARNING)  # each release is told of
    np.random.seed(1)  # from whose generator the noise comes
    began = time.process_time()
    record = provenance("flwr", "numpy", "scipy") | {
        "command": "python -m tests.noise_labels",
        "runs": runs,
    }
    record |= {"clip": CLIP, "delta": DELTA, "rows": []}
    for times, epsilon in LOCAL:
        release = partial(local, sensitivity=times * CLIP, epsilon=epsilon)
        sd = local_sd(times * CLIP, epsilon)
        told = row(release, sd, 2 * CLIP, epsilon, runs)
        record["rows"].append({"what": "local", "sensitivity": times * CLIP, **told})
    # what a noise multiplier of 1 is worth if a sum moves by CLIP
    promised = float(gaussian_epsilon(DELTA, 1.0))
    for records, apart in CENTRAL:
        share = records[0] / sum(records)
        release = partial(central, multiplier=1.0, records=records)
        told = row(release, CLIP / len(records), share * apart * CLIP, promised, runs // 4, apart)
        record["rows"].append({"what": "central", "apart": apart, "share": share, **told})
    record["odd cases"] = odd_cases()
    with tempfile.TemporaryDirectory() as folder:
        parts, schema, file = tables(Path(folder))
        agreed = Agreement.read(schema)
        test = read_table(file, agreed)
        owners = []
        for part in parts:
            part.to_csv(Path(folder) / "part.csv", index=False)
            owners.append(read_table(Path(folder) / "part.csv", agreed))
        record |= {"rounds": 10, "trainings": 10} | PROMISE
        for kind in ("local", "central"):
            found = [
                trained(kind, owners, test, record["rounds"]) for _ in range(record["trainings"])
            ]
            record[f"accuracy, {kind}"] = np.quantile(found, [0, 0.5, 1]).round(3).tolist()
    record["cpu_seconds"] = round(time.process_time() - began, 1)
    store(STUDY, record)


if __name__ == "__main__":
    main()
