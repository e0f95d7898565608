"""A page that is opened as a notebook, edited and saved is the same page but for the edit, in each
of the ways to do so. The pages stand in a folder of their own, as somebody has them who downloaded
one: no file of settings of this project is near.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import re
from collections.abc import Callable
from pathlib import Path

import execution
import jupytext.cli
import nbformat
import pytest
from nbformat.v4 import new_output

LOOKS_AT = ["_toc.yml", "book", ".vscode"]
ROOT = Path(__file__).resolve().parents[2]
# What is added to the last cell of text and of code.
EDITS = {"markdown": "\n\nA sentence of its reader.", "code": "\n# a line of its reader"}
# What an editor with a running kernel writes into the notebook.
OF_THE_KERNEL = {
    "kernelspec": {"name": "python3", "display_name": "of its reader", "language": "python"},
    "language_info": {
        "name": "python",
        "version": "3.12.1",
        "mimetype": "text/x-python",
        "codemirror_mode": {"name": "ipython", "version": 3},
        "pygments_lexer": "ipython3",
        "nbconvert_exporter": "python",
        "file_extension": ".py",
    },
}


def edit(nb: nbformat.NotebookNode) -> None:
    """Run the last cell of code, and add to it and to the last cell of text."""
    nb.metadata.update(nbformat.from_dict(OF_THE_KERNEL))
    for kind, words in EDITS.items():
        for cell in [cell for cell in nb.cells if cell.cell_type == kind][-1:]:
            cell.source += words
            if kind == "code":
                cell.execution_count = 3
                cell.outputs = [new_output("stream", text="1")]


def edit_file(path: Path) -> None:
    """Edit a notebook on disk."""
    nb = nbformat.from_dict(json.loads(path.read_text(encoding="utf8")))
    edit(nb)
    path.write_text(json.dumps(nb), encoding="utf8")


def unasked(before: str, after: str) -> list[str]:
    """Return the lines in which a page differs but for the edit, which must be there."""
    asked = ["markdown", "code"] if "{code-cell}" in before else ["markdown"]
    for kind in asked:
        if EDITS[kind] not in after:
            return [f"the edit is lost: {EDITS[kind]}"]
        after = after.replace(EDITS[kind], "", 1)
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), n=0)
    return list(lines) if before != after else []


# --- the ways -----------------------------------------------------------------------------------


def by_functions(paths: list[Path]) -> None:
    """Use the functions of jupytext, as a script does."""
    for path in paths:
        nb = jupytext.read(path)
        edit(nb)
        jupytext.write(nb, path)


def run_jupytext(*arguments: str | Path) -> None:
    """Run the command ``jupytext``, in this process, as it takes seconds to begin."""
    assert jupytext.cli.jupytext(["--quiet", *map(str, arguments)]) == 0


def by_command(paths: list[Path]) -> None:
    """Use the command of jupytext: a page becomes a notebook and a page again."""
    run_jupytext("--to", "ipynb", *paths)
    for path in paths:
        edit_file(path.with_suffix(".ipynb"))
    chapters = [path.with_suffix(".ipynb") for path in paths if execution.is_chapter(path)]
    others = [path.with_suffix(".ipynb") for path in paths if not execution.is_chapter(path)]
    run_jupytext("--to", "md:myst", *chapters)
    run_jupytext("--to", "md", *others)


def in_vs_code(paths: list[Path], formats: str | None = None) -> None:
    """Pair each page with a notebook and bring them in line, as ``jupytext --sync`` does.

    VS Code has no reader of its own: its extension Jupytext Sync runs ``python -m jupytext
    --set-formats FORMATS page.md`` when a page is first opened as a notebook, with the formats of
    ``.vscode/settings.json``, VS Code edits the notebook, and each time that one is saved the
    extension runs ``python -m jupytext --sync page.ipynb``. The pair stays in the header.
    """
    formats = formats or house_formats()
    run_jupytext("--set-formats", formats, *paths)
    for path in paths:
        edit_file(path.with_suffix(".ipynb"))
    run_jupytext("--sync", *(path.with_suffix(".ipynb") for path in paths))
    for path in paths:
        text = path.read_text(encoding="utf8")
        path.write_text(text.replace(f"  formats: {formats}\n", "", 1), encoding="utf8")


def house_formats() -> str:
    """Return the formats of a pair that VS Code is told to use for pages."""
    settings = (ROOT / ".vscode" / "settings.json").read_text(encoding="utf8")
    without_comments = re.sub(r"(?m)^ *//.*$", "", settings)
    return str(json.loads(without_comments)["jupytextSync.defaultFormats"][".md"])


def in_jupyterlab(paths: list[Path]) -> None:
    """Open and save each page by the server of JupyterLab with the extension of jupytext, started
    in the page's folder.
    """
    from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

    manager_class = jupytext.build_async_jupytext_contents_manager_class(AsyncLargeFileManager)

    async def open_and_save(path: Path) -> None:
        manager = manager_class(root_dir=str(path.parent))
        model = await manager.get(path.name, type="notebook")
        nb = nbformat.from_dict(json.loads(json.dumps(model["content"])))  # through the browser
        edit(nb)
        model = {"type": "notebook", "format": "json", "content": json.loads(json.dumps(nb))}
        await manager.save(model, path.name)

    for path in paths:
        asyncio.run(open_and_save(path))


# --- all pages ----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def nothing_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the signatures of notebooks out of the user's folder."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))


@pytest.mark.parametrize("way", [by_functions, by_command, in_vs_code, in_jupyterlab])
def test_a_page_that_is_edited_as_a_notebook_changes_only_there(
    tmp_path: Path, way: Callable[[list[Path]], None]
) -> None:
    pages = execution.pages(ROOT)
    if way is in_vs_code:  # others have no cells, and are not opened as notebooks there
        pages = [page for page in pages if execution.is_chapter(page)]
    before = {page: page.read_text(encoding="utf8") for page in pages}
    copies = {page: tmp_path / page.relative_to(ROOT) for page in pages}
    for page, copy in copies.items():
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(before[page], encoding="utf8")
    way([*copies.values()])
    found = {
        str(page.relative_to(ROOT)): unasked(before[page], copy.read_text(encoding="utf8"))
        for page, copy in copies.items()
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_page_that_does_not_say_what_to_keep_is_found(tmp_path: Path) -> None:
    page = (ROOT / "book" / "ridge" / "tables.md").read_text(encoding="utf8")
    page = re.sub("  notebook_metadata_filter: .*\n", "", page)
    path = tmp_path / "page.md"
    path.write_text(page, encoding="utf8")
    by_functions([path])
    lost = unasked(page, path.read_text(encoding="utf8"))
    assert "-  data: [medical_cost]\n" in lost
    assert any(line.startswith("-description: ") for line in lost)


def test_the_formats_that_vs_code_would_use_untold_are_found(tmp_path: Path) -> None:
    page = (ROOT / "book" / "ridge" / "tables.md").read_text(encoding="utf8")
    path = tmp_path / "page.md"
    path.write_text(page, encoding="utf8")
    in_vs_code([path], "ipynb,md:markdown")
    assert "-```{code-cell} ipython3\n" in unasked(page, path.read_text(encoding="utf8"))


def test_an_edit_that_is_lost_is_found() -> None:
    assert unasked("# A\n", "# A\n") == ["the edit is lost: \n\nA sentence of its reader."]
