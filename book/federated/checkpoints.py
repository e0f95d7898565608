"""Trainings that may be interrupted and go on, and the circumstances under which a result was computed."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from hdpm_lib.validation import extra

with extra("book"):
    import jax
    import jax.numpy as jnp
    from tqdm import tqdm


Tree = dict[str, Any]
DAMAGED = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)  # what a broken file raises


def train_and_store(
    folder: Path,
    name: str,
    about: Tree,
    state: Tree,
    train: Callable[[Tree], Iterator[tuple[Tree, Any]]],
    entry: Callable[[Any], Any],
    save: Callable[[Path, Tree], None],
    rounds: int,
) -> None:
    """Train, from a checkpoint if there is one, and store weights and how they came about.

    Parameters
    ----------
    folder, name
        Results are ``NAME.npz`` and ``NAME.json``; ``NAME.checkpoint`` is deleted at the end.
    about : dict
        Settings and seed, for JSON: a checkpoint of others is refused.
    state : dict
        Before the first round: a tree of JAX arrays with ``state["weights"]``.
    train : callable
        From a state to an iterator over the rounds that are left: the state after each, and its log.
    entry : callable, from the log of a round to what of it is recorded
    save : callable, writes weights into a file
    rounds : int, all rounds, those of the checkpoint among them
    """
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = folder / f"{name}.checkpoint"
    record: Tree = {"seconds": 0.0, "cpu_seconds": 0.0, "log": []}
    if checkpoint.is_file():
        state, record = read_checkpoint(checkpoint, state, about)
    wall, cpu = time.monotonic(), time.process_time()
    with tqdm(total=rounds, initial=len(record["log"]), desc=name, unit="round") as bar:
        for state, log in train(state):  # noqa: B020 - the generator has its own
            record["log"].append(entry(log))
            record["seconds"] = round(record["seconds"] + time.monotonic() - wall, 3)
            record["cpu_seconds"] = round(record["cpu_seconds"] + time.process_time() - cpu, 3)
            wall, cpu = time.monotonic(), time.process_time()
            write_checkpoint(checkpoint, state, about, record)
            bar.set_postfix_str(str(record["log"][-1]))
            bar.update()
    save(folder / f"{name}.npz", state["weights"])
    text = json.dumps(provenance() | about | record, indent=1)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf8")
    checkpoint.unlink()


def write_checkpoint(path: Path, state: Tree, about: Tree, record: Tree) -> None:
    """Write a state and what was logged so far in one piece: an interruption leaves the checkpoint before it."""
    leaves: Tree = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        np.savez(file, **leaves | {"about": np.array(json.dumps({"about": about, "record": record}))})
    os.replace(part, path)


def read_checkpoint(path: Path, like: Tree, about: Tree) -> tuple[Tree, Tree]:
    """State, of the structure of `like`, and record that :func:`write_checkpoint` wrote.

    A file that is damaged, or of other settings than `about`, is refused with a ValueError.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            read = dict(arrays)
        stored = json.loads(read.pop("about").item())
        leaves = [jnp.asarray(read[f"leaf{i}"]) for i in range(len(jax.tree.leaves(like)))]
    except DAMAGED as error:
        raise ValueError(f"{path} is damaged or no checkpoint: {error}") from error
    if stored["about"] != json.loads(json.dumps(about)):
        raise ValueError(f"{path} is of other settings, {stored['about']}: name another file")
    return jax.tree.unflatten(jax.tree.structure(like), leaves), stored["record"]


def provenance() -> Tree:
    """Machine, commit and versions: what is stored beside numbers that took long."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    try:
        lines = Path("/proc/cpuinfo").read_text("utf8").splitlines()
    except OSError:
        lines = []
    processor = next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine()
    )
    versions = {name: metadata.version(name) for name in ("jax", "jaxlib", "optax", "numpy")}
    return {
        "hardware": f"{processor}, {os.cpu_count()} cores, {jax.default_backend()}",
        "commit": commit.stdout.strip(),
        "versions": {"python": platform.python_version()} | versions,
    }
