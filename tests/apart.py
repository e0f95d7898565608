"""Programs in forks of one Python that has imported what they need.

Each has modules, a folder and an environment of its own, as if Python had been started for it; but
what takes seconds to import is imported once for all of them. Several run side by side.
"""

from __future__ import annotations

import multiprocessing
import os
import pkgutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

PATIENCE = 300  # seconds for one program
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    "pytest nbformat.v4 jupyter_client ipykernel.kernelspec jupyter_cache myst_nb.sphinx_"
    " sphinx.cmd.build sphinx_external_toc sphinx_book_theme".split()
)


@dataclass(frozen=True)
class Ended:
    """Exit status of a program, and all that it printed."""

    status: int
    printed: str


@dataclass(frozen=True)
class Running:
    """A program on its way."""

    process: BaseProcess
    said: Path

    def end(self) -> Ended:
        """Wait for it."""
        self.process.join(PATIENCE)
        status = self.process.exitcode
        printed = self.said.read_text(encoding="utf8")
        if status is None:
            self.process.kill()
            raise TimeoutError(f"still running after {PATIENCE} s:\n{printed}")
        self.said.unlink()
        return Ended(status, printed)


def start(
    program: str, *arguments: str, folder: Path, environment: Mapping[str, str] = os.environ
) -> Running:
    """Start a program, named as in an entry point (``module:function``), in a folder."""
    file, said = tempfile.mkstemp()
    os.close(file)
    process = _context.Process(
        target=_run, args=(program, arguments, folder, dict(environment), said)
    )
    process.start()
    return Running(process, Path(said))


def _run(
    program: str, arguments: tuple[str, ...], folder: Path, environment: dict[str, str], said: str
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    printed = os.open(said, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(printed, stream)
    installed = [path for path in sys.path if Path(path).is_relative_to(sys.prefix)]
    sys.path[:] = [
        str(folder),
        *(path for path in sys.path if Path(path).is_relative_to(sys.base_prefix)),
        *installed,
    ]
    _forget_ours()
    sys.argv = [program, *arguments]
    sys.exit(pkgutil.resolve_name(program)())


def _forget_ours() -> None:
    """Leave the modules that are not installed to the folder: the one server of forks may have
    imported ours for somebody else.
    """
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and not any(Path(file).is_relative_to(p) for p in (sys.prefix, sys.base_prefix)):
            del sys.modules[name]
