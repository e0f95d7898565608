"""The library for readers of the site: its wheel lies beside the pages, and ``{install}`` says how
to install it, ``{install} owner`` with an extra. Beside it lies what a market runs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import hdpm_lib

# Made in a checkout by those who build, test or run: no part of the project.
MADE = ("_build", "build", "dist", "*.egg-info", ".git", ".venv", ".hypothesis", ".*_cache")
IGNORED = shutil.ignore_patterns(*MADE, "__pycache__", "cache", "node_modules")


def build_wheel(root: Path, folder: Path) -> Path:
    """Build the wheel of the project in `root` into a folder, without a trace in the project."""
    return build("wheel", root, folder)


def build_sdist(root: Path, folder: Path) -> Path:
    """Build the source distribution: all of the project, as ``MANIFEST.in`` lists it."""
    return build("sdist", root, folder)


def build(kind: str, root: Path, folder: Path) -> Path:
    """Build a ``wheel`` or an ``sdist`` from a copy of the project in `root`."""
    with tempfile.TemporaryDirectory() as name:
        source = shutil.copytree(root, Path(name, "source"), ignore=IGNORED)
        code = f"from setuptools import build_meta; print(build_meta.build_{kind}({str(folder)!r}))"
        made = subprocess.run(
            [sys.executable, "-c", code], cwd=source, capture_output=True, text=True, check=True
        )
    return folder / made.stdout.split()[-1]


def pack_market(root: Path, folder: Path) -> Path:
    """Put what a market runs, with how to run it, into ``flower.zip`` in a folder."""
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(root / "flower", Path(name, "flower"), ignore=IGNORED)
        return Path(shutil.make_archive(str(folder / "flower"), "zip", name))


def project(root: Path) -> dict[str, Any]:
    """Read what ``pyproject.toml`` says of the project."""
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf8"))["project"]


def wheel_name(root: Path) -> str:
    """Name of the wheel's file."""
    name = project(root)["name"].replace("-", "_")
    return f"{name}-{hdpm_lib.__version__}-py3-none-any.whl"


class InstallDirective(SphinxDirective):
    """``{install}``: a link to the wheel, and the command; with names of extras, also for these."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = wheel_name(Path(self.env.srcdir))
        link = "../" * self.env.docname.count("/") + name
        wanted = f"hdpm-lib[{self.arguments[0]}] @ " if self.arguments else ""
        # on paper an address on the disk of whoever printed it is of no use
        published = "" if self.config.html_baseurl else " d-print-none"
        html = (
            f'<p class="hdpm-install{published}">Python library: <code>pip install "{wanted}'
            f'<a href="{link}" download>{name}</a>"</code></p>'
            # the address of the wheel, wherever the site lies, so that the line works as it stands
            "<script>(() => { const a = document.currentScript.previousElementSibling"
            ".querySelector('a'); a.textContent = a.href; })();</script>"
        )
        return [nodes.raw("", html, format="html")]


def put_files(app: Any, error: Exception | None) -> None:
    """Put the wheel into the site, and the market's part of a federation; and a file that tells
    GitHub Pages to leave out no folder whose name begins with ``_``.
    """
    if not error and app.builder.format == "html":
        build_wheel(Path(app.srcdir), Path(app.outdir))
        pack_market(Path(app.srcdir), Path(app.outdir))
        Path(app.outdir, ".nojekyll").touch()


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_directive("install", InstallDirective)
    app.connect("build-finished", put_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
