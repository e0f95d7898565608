"""Lay out the pages: ``python -m tests.format_chapters [--write]``.

ruff lays out the code cells, as it does modules. Header, options of cells and fences are written as
jupytext writes them, so that a page that is saved in JupyterLab, in VS Code or by the command
``jupytext`` changes only where its reader has changed it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import jupytext
import nbformat

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 88  # cells are read on phones
# fence, options (": key" lines or a block between "---"), code, fence
CELL = re.compile(
    r"(^```\{code-cell\}[^\n]*\n(?:---\n.*?\n---\n|(?::[^\n]*\n)*)\n*)(.*?)(^```$)", re.S | re.M
)
RUFF = [sys.executable, "-m", "ruff"]
# of cells: imports stand where they are used, and a last line may be a value
NOT_ASKED = "E402,E501,B018,D401"
# Of a header jupytext keeps what is named. The kernel is left out, as each editor writes its name
# and the order of its parts otherwise; that the language is Python is enough to find one.
NAMED = ("description", "keywords", "hdpm")
ALWAYS = ("language_info.name", "-kernelspec", "-jupytext.text_representation.jupytext_version")


def as_saved(page: str) -> str:
    """Return a page with a jupytext header as jupytext saves it; another page as it is.

    The order of keys is alphabetical, as in a notebook on disk. The language of the fences has the
    name that the kernel of Python gives it in JupyterLab.
    """
    if "\njupytext:\n" not in page:
        return page
    nb = jupytext.reads(page, fmt="md:myst")
    others = nb.metadata.keys() - {*NAMED, "jupytext", "kernelspec", "language_info"}
    kept = ",".join([*NAMED, *sorted(others), *ALWAYS])
    nb.metadata["jupytext"]["notebook_metadata_filter"] = kept
    nb.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    on_disk = nbformat.reads(nbformat.writes(nb), as_version=4)
    return str(jupytext.writes(on_disk, fmt="md:myst"))


def reformat(pages: list[str]) -> list[str]:
    """Return pages with every code cell as ruff lays it out, and all else as jupytext does."""
    cells = [cell[2] for page in pages for cell in CELL.finditer(page)]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"cell_{k}.py" for k in range(len(cells))]
        for file, code in zip(files, cells, strict=True):
            file.write_text(code, encoding="utf8")
        # all at once
        subprocess.run([*RUFF, "format", "--quiet", f"--line-length={WIDTH}", folder], check=True)
        formatted = iter([file.read_text(encoding="utf8") for file in files])
    return [
        as_saved(CELL.sub(lambda cell: cell[1] + next(formatted) + cell[3], page)) for page in pages
    ]


def checked(pages: dict[str, str]) -> int:
    """Return the exit status of ruff's checks of the code of each page as one program, by names of
    files.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, page in pages.items():
            cells = [cell[2] for cell in CELL.finditer(page)]
            # after imports
            gaps = ["\n\n" if re.match("def |class |@", cell) else "\n" for cell in cells]
            code = "".join(f"{gap}# %%\n{cell}" for gap, cell in zip(gaps, cells, strict=True))
            (Path(folder) / f"{name.replace('/', '_')}.py").write_text(code, encoding="utf8")
        config = f"--config={ROOT / 'pyproject.toml'}"
        command = [*RUFF, "check", "--quiet", config, f"--ignore={NOT_ASKED}", "--no-cache", folder]
        return subprocess.run(command, check=False).returncode


def not_ignored(paths: Iterable[Path]) -> list[Path]:
    """Those of the files that are no copies of an editor's, sorted."""
    return sorted(path for path in paths if ".ipynb_checkpoints" not in path.parts)


def main(write: bool) -> int:
    """Format all pages, or name those that are not formatted, and check their code; 0 if all is
    well.
    """
    names = [
        path.relative_to(ROOT).as_posix() for path in not_ignored((ROOT / "book").rglob("*.md"))
    ]
    pages = {name: (ROOT / name).read_text(encoding="utf8") for name in names}
    changed = {
        name: new
        for name, new in zip(names, reformat([*pages.values()]), strict=True)
        if new != pages[name]
    }
    for name, new in changed.items():
        print(f"{'formatted' if write else 'not formatted'}: {name}")
        if write:
            (ROOT / name).write_text(new, encoding="utf8")
    return 0 if write else len(changed) + checked(pages)


if __name__ == "__main__":
    sys.exit(main("--write" in sys.argv[1:]))
