"""Finding real files: a reader's folder, the cache, the pinned URL. What is not the pinned file is
never used.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd

from hdpm_book.notebook import display, in_notebook
from hdpm_lib.validation import extra

with extra("book"):
    import yaml

T = TypeVar("T")
Found = Literal["local", "downloaded"]
Source = Literal["local", "downloaded", "stand-in", "scikit-learn", "uci"]

TIMEOUT = 10.0  # seconds to wait for a server's answer, and for each piece of it
ABANDONED = 3600.0  # seconds after which nobody goes on with a download
_failures: dict[str, Exception] = {}  # of network work in this process, by what was asked


def _registry() -> dict[str, Any]:
    """Return the data sets by name. Files of one with a folder have the same path there, in the
    cache and at its URL.
    """
    found = yaml.safe_load(
        resources.files("hdpm_book.data").joinpath("datasets.yaml").read_text("utf-8")
    )
    for entry in found.values():
        if folder := entry.get("folder"):
            for path, file in entry["files"].items():
                file |= {"name": f"{folder}/{path}", "url": entry["url"] + path}
    return dict(found)


REGISTRY = _registry()


class DataIntegrityError(ValueError):
    """Data are there but are not the pinned ones; they are never used."""


class DataUnavailableError(RuntimeError):
    """The real data cannot be had and no stand-in may take their place."""


class StandInWarning(UserWarning):
    """A stand-in takes the place of real data that could not be had."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """One data set and where it came from.

    Attributes
    ----------
    title : str
        Its name in prose.
    features : DataFrame, shape (n, d)
        Raw columns.
    labels : ndarray, shape (n,)
        What is predicted.
    names : tuple of str
        Feature names, the columns of `features`.
    source : {"local", "downloaded", "stand-in", "scikit-learn", "uci"}
        Where the rows came from; "downloaded" whether now or earlier, into the cache.
    sha256 : str or None
        Hash of the raw bytes used; None for a stand-in and for tables fetched by `ucimlrepo`.
    """

    title: str
    features: pd.DataFrame
    labels: np.ndarray
    names: tuple[str, ...]
    source: Source
    sha256: str | None

    @property
    def notice(self) -> str:
        """Sentence to show above results that rest on a stand-in; empty for real data."""
        if self.source != "stand-in":
            return ""
        return (
            f"These results use a stand-in for the {self.title} data: the same columns, size and"
            " law, but no real row. They are close to those of the real data, not equal to them."
        )


class Notice:
    """A notice that stands on the page of a notebook, above the results it is about."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        """Return the text itself."""
        return self.text

    def _repr_html_(self) -> str:
        return (
            '<div class="admonition warning"><p class="admonition-title">Stand-in'
            f" data</p><p>{self.text}</p></div>"
        )


def noticed(dataset: Dataset) -> Dataset:
    """Return the same data set; in a notebook its notice, if it has one, is displayed."""
    notify(dataset.notice)
    return dataset


def notify(text: str) -> None:
    """Display a notice in a notebook, if there is anything to say."""
    if text and in_notebook():
        display(Notice(text))


def mode() -> str:
    """Return what ``HDPM_DATA`` asks for: "auto", "real" or "standin"."""
    asked = os.environ.get("HDPM_DATA") or "auto"
    if asked not in ("auto", "real", "standin"):
        raise ValueError(
            f"HDPM_DATA={asked!r} is not one of auto, real, standin: change or unset it"
        )
    return asked


def sha256(raw: bytes) -> str:
    """Return the hash of raw bytes, as the registry gives it."""
    return hashlib.sha256(raw).hexdigest()


def _pooch() -> Any:
    """Return pooch, loaded late and quietly: it loads tqdm, which warns in a notebook without
    widgets.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pooch
    return pooch


def cache_folder() -> Path:
    """Return the folder of downloads: ``data/cache`` of a checkout, else the user's cache."""
    checkout = Path(__file__).parents[1]
    inside = (checkout / "pyproject.toml").is_file() and (
        checkout / "data" / "datasets.yaml"
    ).is_file()
    if inside:
        return checkout / "data" / "cache"
    return Path(_pooch().os_cache("hdpm_lib"))


def _read(path: Path, file: dict[str, Any]) -> bytes:
    """Read the raw bytes of a stored file, checked."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            # one more than there should be: a longer file has another hash
            raw = stream.read(file["bytes"] + 1)
        found = hashlib.sha256(raw).hexdigest()
    except (OSError, EOFError, zlib.error) as error:
        found = f"none, for it cannot be read ({error})"
        raw = b""
    if found != file["sha256"]:
        raise DataIntegrityError(
            f"{path} is not the pinned {file['name']}: expected sha256 {file['sha256']} of the raw"
            f" bytes, found {found}. It is not used: delete or replace it"
        )
    return raw


def stored(file: dict[str, Any]) -> tuple[bytes, Found] | None:
    """Return the file from the reader's folder or the cache."""
    places: list[tuple[Path, Found]] = [(cache_folder(), "downloaded")]
    if folder := os.environ.get("HDPM_DATA_DIR"):
        if not Path(folder).expanduser().is_dir():
            raise FileNotFoundError(
                f"HDPM_DATA_DIR={folder!r} is not a folder: correct or unset it"
            )
        places.insert(0, (Path(folder).expanduser(), "local"))
    for place, source in places:
        for path in (place / file["name"], place / f"{file['name']}.gz"):
            if os.path.lexists(path):
                return _read(path, file), source
    return None


def _remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of pooch in a folder that killed downloads have left.

    Another process may be downloading: what it writes is newer than an hour.
    """
    for file in folder.glob("tmp" + 8 * "[a-z0-9_]"):
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > ABANDONED:
                file.unlink()


def once(key: str, task: Callable[[], T]) -> T:
    """Return the result of network work that is not tried again in this process after it has
    failed.
    """
    if key in _failures:
        raise _failures[key].with_traceback(None)
    try:
        return task()
    except Exception as error:
        _failures[key] = error
        raise


def download(files: list[dict[str, Any]]) -> None:
    """Put files into the cache; pooch checks the hash before it moves one there."""
    pooch = _pooch()
    from tqdm import tqdm  # which pooch loads as well

    pooch.get_logger().setLevel("WARNING")  # else every page that downloads shows where to
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        why = (
            f"downloads cannot be kept, for the cache folder {folder} is not writable:"
            f" {error.strerror}"
        )
        raise PermissionError(why) from error
    by_http = pooch.HTTPDownloader(timeout=TIMEOUT)
    for file in tqdm(files, "downloading", disable=None if len(files) > 2 else True):
        place = folder / file["name"]
        pooch.retrieve(
            file["url"], "sha256:" + file["sha256"], place.name, place.parent, downloader=by_http
        )


def real(name: str) -> tuple[dict[str, bytes], Found]:
    """Return raw bytes of a data set's files, by part: either all are real or none is used.

    Parameters
    ----------
    name : str
        Key of the registry ``data/datasets.yaml``.

    Returns
    -------
    dict of bytes, and "local" or "downloaded"

    Raises
    ------
    DataIntegrityError
        If a file in the folder or the cache is not the pinned one.
    DataUnavailableError
        If a file is nowhere.
    """
    files: dict[str, dict[str, Any]] = REGISTRY[name]["files"]
    for folder in {(cache_folder() / file["name"]).parent for file in files.values()}:
        _remove_leftovers(folder)
    found = {part: stored(file) for part, file in files.items()}
    missing = [file for part, file in files.items() if found[part] is None]
    if missing:
        try:
            once(name, lambda: download(missing))
        except Exception as error:
            few = missing[:2]
            more = f" and {len(missing) - 2} more" if len(missing) > 2 else ""
            names, urls = (
                " and ".join(file[key] for file in few) + more for key in ("name", "url")
            )
            raise DataUnavailableError(
                f"{name}: {names} cannot be had ({type(error).__name__}: {error}). Put what is"
                f" missing into a folder and name the folder in HDPM_DATA_DIR; it is at {urls}"
            ) from error
        found = {part: stored(file) for part, file in files.items()}
    pairs = {part: pair for part, pair in found.items() if pair is not None}
    local = all(source == "local" for _, source in pairs.values())
    return {part: raw for part, (raw, _) in pairs.items()}, "local" if local else "downloaded"


def real_or_none(name: str) -> tuple[dict[str, bytes], Found] | None:
    """Return raw files as in `real`, or None when a stand-in is to take their place
    (`StandInWarning` unless asked for).
    """
    if mode() == "standin":
        return None
    try:
        return real(name)
    except DataUnavailableError as error:
        if mode() == "real":
            raise
        # a notebook shows the notice of the data set instead, in its place on the page
        if not in_notebook():
            warnings.warn(f"a stand-in is used: {error}", StandInWarning, stacklevel=3)
        return None
