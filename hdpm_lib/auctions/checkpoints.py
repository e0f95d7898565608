"""States of a training that is interrupted and goes on, and the circumstances under which a result was computed."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import zipfile
import zlib
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from hdpm_lib.optional import extra

with extra("learned"):
    import jax
    import jax.numpy as jnp


Tree = dict[str, Any]
DAMAGED = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)  # what a broken file raises


def write_checkpoint(path: Path, state: Tree, about: Tree, record: Tree) -> None:
    """Write a state of JAX arrays in one piece: an interruption leaves the checkpoint before it.

    Parameters
    ----------
    path : Path
    state : dict
        Tree of arrays.
    about : dict
        Settings: a checkpoint is read again only with the same. Goes into JSON, as `record` does.
    record : dict
        What was logged so far.
    """
    leaves: Tree = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        np.savez(file, **leaves | {"about": np.array(json.dumps({"about": about, "record": record}))})
    os.replace(part, path)


def read_checkpoint(path: Path, like: Tree, about: Tree) -> tuple[Tree, Tree]:
    """Read what :func:`write_checkpoint` wrote.

    Parameters
    ----------
    path : Path
    like : dict
        A state of the same structure.
    about : dict
        Settings that must be those of the checkpoint.

    Returns
    -------
    tuple of dicts
        State and record.

    Raises
    ------
    ValueError
        If the file is damaged, or of other settings.
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
