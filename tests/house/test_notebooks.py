"""Pages as notebooks (``book/_ext/notebooks.py``): built from a small book with one of everything,
read, and run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import execution
import launch
import nbformat
import notebooks
import pytest
import yaml
from nbclient import NotebookClient
from nbconvert import ScriptExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from package import project, wheel_name
from packaging.requirements import Requirement

from tests.site import check

LOOKS_AT = [
    "_config.yml",
    "_toc.yml",
    "book",
    "conf.py",
    "hdpm_lib/validation.py",
    "pyproject.toml",
]
ROOT = Path(__file__).resolve().parents[2]
HEAD = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---
"""
PAGE = r"""
(top)=
# Costs *and* $\mathbb{E}$

See {doc}`other`, {doc}`prose`, {prf:ref}`thm-a`, {eq}`eq-a`, {numref}`fig-a`, {numref}`fig-b`,
{cite:t}`who` and {term}`Costs <cost>`, [the web](https://example.org). It costs 5$, * is a star.

```{figure} dot.svg
:alt: A dot
:name: fig-a

One dot.
```

:::{prf:theorem} Nobody loses
:label: thm-a

For $|x|$ in $\mathbb{R}$:

$$
a &= \lVert x_{\varepsilon}\rVert \\
  &= 1
$$ (eq-a)

1. first
2. second
:::

```{prf:proof}
Clear.
```

| symbol | meaning |
|---|---|
| $\|x\|$ | `a\|b` |

```{code-cell} python3
:tags: [hide-input]
from IPython.display import HTML
from hdpm_book.ledger import decide
from hdpm_book.notebook import glue
glue("count", "17")
glue("form", HTML('<form></form><p class="hdpm-winner">It says: <b>12.3</b></p>'))
```

````{exercise-start} Try
:label: ex-pr-idea-1
````
How much?
````{exercise-end}
````
````{solution-start} ex-pr-idea-1
````
So much:

```{code-cell} python3
decide("pdp-table01", "nothing", printed=False)
```

and no more.
````{solution-end}
````

## Below

```{code-cell} python3
---
mystnb:
  figure: {caption: A line., name: fig-b}
---
"a figure"
```

````{dropdown} More
```python
x = 1
```
````

```{note}
Take note.
```

There are {glue:text}`count` claims.

```{glue} form
```

```{eval-rst}
| a line
```
"""


@dataclass(frozen=True)
class Built:
    """The notebooks of the small book, and what its build said."""

    root: Path
    said: str

    @property
    def folder(self) -> Path:
        return self.root / "_build" / "notebooks"

    def read(self, name: str = "page") -> nbformat.NotebookNode:
        return nbformat.read(self.folder / "book" / f"{name}.ipynb", as_version=4)

    def text(self) -> str:
        return "\n\n".join(
            cell.source for cell in self.read().cells if cell.cell_type == "markdown"
        )


def build(root: Path) -> str:
    command = [sys.executable, str(root / "book" / "_ext" / "notebooks.py")]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"}
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    root = tmp_path_factory.mktemp("notebooks")
    (root / "book" / "_ext").mkdir(parents=True)
    (root / "data").mkdir()
    for name in "dependencies execution exercises notebooks numbering package page targets".split():
        shutil.copy(ROOT / "book" / "_ext" / f"{name}.py", root / "book" / "_ext")
    for name in ("conf.py", "pyproject.toml"):
        shutil.copy(ROOT / name, root)
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf8"))
    config["sphinx"] = {
        "local_extensions": dict.fromkeys(
            ("execution", "exercises", "notebooks", "numbering"), "book/_ext"
        ),
        "config": {
            "bibtex_reference_style": "author_year",
            "exercise_style": "solution_follow_exercise",
        },
        "extra_extensions": ["sphinx_proof", "sphinx_exercise", "numpydoc"],
    }
    sections = [{"file": f"book/{name}"} for name in ("other", "prose")]
    first = {"file": "book/page", "title": "1. One", "sections": sections}
    texts = {
        "_config.yml": yaml.safe_dump(config),
        "_toc.yml": yaml.safe_dump(
            {"format": "jb-book", "root": "book/index", "chapters": [first]}
        ),
        "book/index.md": "# Tiny\n\n```{bibliography}\n```\n",
        "book/page.md": HEAD + PAGE,
        "book/other.md": HEAD + "# Other\n\n```{code-cell} python3\n1\n```\n",
        "book/prose.md": "# Prose\n\n```{glossary}\ncost\n  What it is worth.\n```\n",
        "book/dot.svg": "<svg/>",
        "book/references.bib": (
            "@book{who, author={Ann Who}, title={It}, year={2020}, publisher={X}}"
        ),
    }
    for name, text in texts.items():
        (root / name).write_text(text, encoding="utf8")
    run = execution.read(root / "book" / "other.md")
    run.cells[-1].outputs = [new_output("execute_result", {"text/plain": "1"})]
    execution.store(execution.kept_at(root / "book" / "other.md", root), run)
    return Built(root, build(root))


@pytest.mark.parametrize(
    "markdown",
    [
        "# Costs *and* $\\mathbb{E}$",
        (
            "See [Other](other.ipynb), [Prose](../../html/book/prose.html), [Theorem 1.1](#thm-a),"
            " [(1.1)](#equation-eq-a), [Fig. 1.1](#fig-a), [Fig. 1.2](#fig-b),\nWho"
            " [[2020](../../html/book/index.html#"
        ),
        (
            "[Costs](../../html/book/prose.html#term-cost), [the web](https://example.org). It"
            " costs 5\\$, \\* is a star."
        ),
        (
            '<a id="fig-a"></a><img alt="A dot" src="data:image/svg+xml;base64,PHN2Zy8+">\n\n**Fig.'
            " 1.1** One dot."
        ),
        '> <a id="thm-a"></a>**Theorem 1.1** (Nobody loses)\n>\n> For $|x|$ in $\\mathbb{R}$:',
        r"$$\begin{aligned}a &= \lVert x_{\varepsilon}\rVert \\ &= 1\end{aligned} \tag{1.1}$$",
        "> 1. first\n> 2. second",
        "> *Proof.* Clear.",
        "| symbol | meaning |\n| --- | --- |\n| $\\vert x\\vert $ | `a\\|b` |",
        '> <a id="ex-pr-idea-1"></a>**Exercise 1.1** (Try)\n>\n> How much?\n>\n> *Checked in'
        " the notebook:* the t that gives a loss of 1.",
        "<details>\n<summary>Solution</summary>\n\nSo much:\n\n</details>",
        "<details>\n<summary>…</summary>\n\nand no more.\n\n</details>",
        '<a id="fig-b"></a>**Fig. 1.2** A line.',
        "<details>\n<summary>More</summary>\n\n```python\nx = 1\n```\n\n</details>",
        "> **Note**\n>\n> Take note.",
    ],
)
def test_every_kind_of_text_is_plain_markdown(built: Built, markdown: str) -> None:
    assert markdown in built.text()


def test_notebooks_are_whole_and_what_is_broken_is_found(built: Built, tmp_path: Path) -> None:
    assert check.broken_notebooks(built.folder, built.root) == []
    shutil.copytree(built.folder / "book", tmp_path / "book")
    (tmp_path / "book" / "page.ipynb").unlink()
    nb = built.read("other")
    nb.cells += [
        new_code_cell("2"),
        new_markdown_cell("See {doc}`page`"),
        new_markdown_cell(":::{note}\n:::"),
    ]
    nbformat.write(nb, tmp_path / "book" / "other.ipynb")
    found = check.broken_notebooks(tmp_path, built.root)
    other = [
        "book/other: other code than its page",
        "book/other: MyST: {doc}`",
        "book/other: MyST: :::",
    ]
    assert found == [*other, "book/page: no notebook"]


def test_cells_are_folded_as_on_the_site_and_carry_what_they_last_printed(built: Built) -> None:
    first, hidden, answer, solution, shown = execution.code_cells(built.read())
    assert answer.metadata == {"tags": ["answer"]} and 'check(..., "ex-pr-idea-1")' in answer.source
    assert first.source.startswith(notebooks.FIRST.partition("{")[0])
    assert hidden.metadata == {"tags": ["hide-input"], "jupyter": {"source_hidden": True}}
    assert solution.metadata == {"jupyter": {"source_hidden": True, "outputs_hidden": True}}
    assert shown.metadata == {} and not shown.outputs
    assert built.read("other").cells[-1].outputs[0].data == {"text/plain": "1"}


def test_binder_opens_a_notebook_that_is_built(built: Built) -> None:
    _, opened = launch.binder("https://github.com/us/book", "book/page").split("lab/tree/")
    assert (built.root / opened).exists()


def test_what_has_no_markdown_is_a_warning(built: Built) -> None:
    assert "page.md" in built.said and "no Markdown for <line_block>" in built.said
    assert "a line" in built.text()  # its words stay


def test_an_exported_notebook_runs_anywhere_and_explores(built: Built, tmp_path: Path) -> None:
    nb = built.read()
    cell = next(cell for cell in nb.cells if "check(..." in cell.source)
    nb.cells.append(new_code_cell(cell.source.replace("...", "0.6321")))
    NotebookClient(nb, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = json.dumps([cell.get("outputs") for cell in nb.cells])
    assert "this run finds refuted (ledger: reproduced)" in printed
    assert "Put the t that gives a loss of 1 in place of the dots" in printed
    assert "Not yet. A cheat says" in printed


def stranger(built: Built) -> str:
    """The first cell, for who has nothing installed."""
    return str(built.read().cells[1].source).replace("hdpm_book", "not_installed")


def requirement(name: str) -> str:
    """What is asked for to have a distribution that the book needs."""
    lines = project(ROOT)["optional-dependencies"]["book"]
    return next(line for line in lines if Requirement(line).name == name)


def pip_asked(code: str, folder: Path, path: Path) -> tuple[list[str], str]:
    """What the first cell asks of pip, in whose place a program in `path` stands, and prints."""
    (path / "pip.py").write_text(
        "import json, sys\nprint('Collecting')\njson.dump(sys.argv[3:], open('asked', 'w'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(path)},
        check=True,
        capture_output=True,
        text=True,
    )
    asked = folder / "asked"
    return json.loads(asked.read_text()) if asked.exists() else [], done.stdout


def test_the_first_cell_installs_the_wheel_beside_the_notebook_or_on_its_site(
    built: Built, tmp_path: Path
) -> None:
    name = wheel_name(built.root)
    folder = tmp_path / "_sources" / "book"
    folder.mkdir(parents=True)
    for place in (tmp_path, folder):
        (place / name).touch()
        asked, said = pip_asked(stranger(built), folder, tmp_path)
        assert asked == [f"hdpm-lib @ {(place / name).as_uri()}", requirement("ipython")]
        assert said == "Installing what this page imports, once: one to three minutes.\n"


def test_the_first_cell_brings_what_an_installed_library_lacks(
    built: Built, tmp_path: Path
) -> None:
    code = str(built.read().cells[1].source)
    assert pip_asked(code, tmp_path, tmp_path) == ([], "")  # all is here
    bare = """import importlib.metadata
every = list(importlib.metadata.distributions())
importlib.metadata.distributions = lambda: [one for one in every if one.name != "ipython"]
"""
    assert pip_asked(bare + code, tmp_path, tmp_path)[0] == [requirement("ipython")]


def test_the_first_cell_says_why_pip_fails(built: Built, tmp_path: Path) -> None:
    (tmp_path / wheel_name(built.root)).touch()
    (tmp_path / "pip.py").write_text("raise SystemExit('There is no network')", encoding="utf8")
    command = [sys.executable, "-c", stranger(built)]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "Missing: pip could not install it. There is no network" in done.stderr


def test_the_first_cell_finds_the_wheel_at_the_address_of_the_site() -> None:
    app = SimpleNamespace(srcdir=ROOT, config=SimpleNamespace(html_baseurl="https://example.org/"))
    cell = notebooks.first_cell(app, "book/ridge/idea", "")
    assert f'wheel = "https://example.org/{wheel_name(ROOT)}"' in cell


def test_a_notebook_needs_what_its_page_imports_alone() -> None:
    """JAX is 350 MB, and few pages train; keys are of owners; some pages need the library alone."""
    needs = {}
    for path in filter(execution.is_chapter, execution.pages(ROOT)):
        code = execution.python(execution.read(path))
        needs[path.relative_to(ROOT / "book").as_posix()] = notebooks.needs(ROOT, code)
    trained = {f"federated/{name}.md" for name in ("networks", "training", "regret", "menus")}
    assert {page for page, found in needs.items() if "jax" in found} == trained
    owners = {page for page, found in needs.items() if "cryptography" in found}
    assert owners == {"use/owner.md", "use/machines.md"} and needs["use/pipeline.md"] == {}
    assert needs["ridge/guarantee.md"]["matplotlib"] == requirement("matplotlib")


def test_a_notebook_becomes_a_script(built: Built) -> None:
    text, about = ScriptExporter().from_notebook_node(built.read())
    assert about["output_extension"] == ".py"
    compile(text, "page.py", "exec")


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (
            "",
            (
                "Put {wheel}, from the front page of the site, beside this notebook, and run this"
                " cell again."
            ),
        ),
        (
            (
                "import os\nos.environ['HDPM_MODE'] = 'explore'\nfrom hdpm_book.notebook import"
                " require\nsellers = 1\nrequire(sellers > 1, f'sellers must be 2 or more, got"
                " {sellers}')"
            ),
            "sellers must be 2 or more, got 1. Change it, and run the page from there.",
        ),
    ],
)
def test_what_a_notebook_cannot_do_is_one_sentence(
    built: Built, tmp_path: Path, code: str, sentence: str
) -> None:
    nb = new_notebook(cells=[new_code_cell(code or stranger(built))])
    NotebookClient(
        nb, timeout=60, allow_errors=True, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    (output,) = nb.cells[0].outputs
    assert output.traceback == [sentence.format(wheel=wheel_name(built.root))]


def test_what_a_page_puts_into_its_text_is_there_though_nothing_was_run(built: Built) -> None:
    assert "There are 17 claims." in built.text()
    assert "It says: <b>12.3</b> [Try it on the site.](../../html/book/page.html)" in " ".join(
        built.text().split()
    )
    pages = [
        text
        for page in execution.pages(ROOT)
        if "{glue" in (text := page.read_text(encoding="utf8"))
    ]
    for text in pages:
        printed = json.dumps([cell.get("outputs") for cell in notebooks.unrun(text).cells])
        glued = len(re.findall(r"^glue\(", text, re.M))
        assert printed.count("scrapbook") == glued > 0 and "‹" not in printed


def test_what_a_page_puts_into_its_text_is_of_its_last_run(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = shutil.copytree(built.root, tmp_path / "book")
    path = root / "book" / "page.md"
    run = execution.read(path)
    first = execution.code_cells(run)[0]
    first.outputs = [
        new_output("stream", text="words"),
        *(
            new_output(
                "display_data",
                {"text/plain": words},
                metadata={"scrapbook": {"name": name, "mime_prefix": ""}},
            )
            for name, words in (("count", "'304'"), ("form", "a form"))
        ),
    ]
    execution.store(execution.kept_at(path, root), run)
    monkeypatch.setattr(execution, "ROOT", root)
    monkeypatch.setattr(notebooks, "executed", None)
    page = notebooks.unrun(path.read_text(encoding="utf8"))
    assert execution.code_cells(page)[0].outputs == first.outputs[1:]


def test_one_page_is_built_from_its_last_run(built: Built) -> None:
    script = str(built.root / "book" / "_ext" / "page.py")

    def run(page: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, script, page]
        return subprocess.run(command, cwd=built.root, capture_output=True, text=True)

    done = run("book/other.md")
    assert done.returncode == 0, done.stderr
    site = built.root / "_build" / "page"
    assert done.stdout.splitlines()[-1] == str(site / "book" / "other.html")
    assert '<span class="mi">1</span>' in (shown := (site / "book" / "other.html").read_text())
    assert "cell_output" in shown and not (site / "book" / "prose.html").exists()
    wrong = run("book/others.md")
    assert wrong.returncode == 2 and "PAGE must be a page of _toc.yml" in wrong.stdout


def test_a_reader_keeps_what_she_changed(built: Built, tmp_path: Path) -> None:
    path = tmp_path / "other.ipynb"

    def now(page: str, mine: str = "") -> dict[str, str]:
        """What there is after a build of the page, and after a reader's change before it."""
        if mine:
            nb = nbformat.read(path, as_version=4)
            nb.cells[-1].source = mine
            nbformat.write(nb, path)
        notebooks.save(new_notebook(cells=[new_code_cell(page)]), path)
        return {
            file.stem: nbformat.read(file, as_version=4).cells[-1].source
            for file in tmp_path.iterdir()
        }

    assert now("1") == {"other": "1"}
    assert now("1", mine="2") == {"other": "2"}  # the page is as it was
    assert now("3") == {"other": "3", "other-changed": "2"}
    assert now("5", mine="4") == {"other": "5", "other-changed": "2", "other-changed-2": "4"}
    own = Built(shutil.copytree(built.root, tmp_path / "book"), "")
    page, gone, mine = (own.folder / "book" / f"{name}.ipynb" for name in ("page", "gone", "other"))
    shutil.copy(page, gone)
    nb = own.read("other")
    nb.cells[-1].source = "2"
    nbformat.write(nb, mine)
    build(own.root)
    assert not gone.exists() and own.read("other").cells[-1].source == "2"
