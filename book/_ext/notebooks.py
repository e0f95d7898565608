"""Every page with code as a notebook of its own cells and plain Markdown, for JupyterLab, VS Code
or Colab as they are.

The Markdown is made from the resolved page: boxes, numbers, citations and links are those of the
site. It needs no extension: a theorem is a quotation with a bold title, a solution is folded. Cells
carry what they printed when the page was last run. The first one installs the book from the site's
wheel if it is not there, and whatever else the cells import, and lets the notebook explore
(``HDPM_MODE``, see ``hdpm_book.ledger``).

The build of the site writes the notebooks for its download buttons. ``make notebooks`` runs this
file, which builds nothing else and executes nothing, into ``_build/notebooks``.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import mimetypes
import posixpath
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from html import escape
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import execution
import nbformat
from dependencies import Sources
from docutils import nodes
from myst_nb.core.read import read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from package import project, wheel_name
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.errors import PycodeError, SphinxError
from sphinx.locale import admonitionlabels
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging
from sphinx.util.docutils import docutils_namespace, patch_docutils
from sphinx_exercise.nodes import exercise_enumerable_node, solution_node
from targets import Targets

from hdpm_book.exercises import exercises

LOGGER = logging.getLogger(__name__)
Piece = str | nodes.container | nbformat.NotebookNode
# what programs ask of a notebook that is to become a script
PYTHON = {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"}
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
HIDDEN = {"hide-input", "remove-input", "hide-cell", "remove-cell"}
FIRST = """import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

# Change any number: verdicts may change with it, and nothing stops.
os.environ.setdefault("HDPM_MODE", "explore")


class Missing(Exception):
    def _render_traceback_(self):  # shown as one sentence
        return [str(self)]


# what this page imports besides the library of the book
needs = {needs}
there = {{str(one.name).lower() for one in importlib.metadata.distributions()}}
missing = [needs[name] for name in needs if name not in there]
if importlib.util.find_spec("hdpm_book") is None:
{wheel}
    missing = [f"hdpm-lib @ {{wheel}}", *needs.values()]

if missing:
    print("Installing what this page imports, once: one to three minutes.", flush=True)
    command = [sys.executable, "-m", "pip", "install", "-q", *missing]
    pip = subprocess.run(command, capture_output=True, text=True)
    if pip.returncode:
        raise Missing(f"pip could not install it. {{pip.stderr}}")
    importlib.invalidate_caches()"""
CHECK = """from hdpm_book.exercises import check

check(..., "{label}")  # your answer in place of the dots"""
# Where the wheel may be: beside the notebook, or where the site has it.
HERE = """    places = Path("{name}"), Path("{up}{name}")
    wheel = next((path.resolve().as_uri() for path in places if path.exists()), None)
    if wheel is None:
        raise Missing(
            "Put {name}, from the front page of the site, beside this notebook, "
            "and run this cell again."
        )"""


# --- Markdown -----------------------------------------------------------------------------------


def joined(blocks: Iterable[str]) -> str:
    """One block of several."""
    return "\n\n".join(block for block in blocks if block)


def quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def listed(mark: str, text: str) -> str:
    return mark + re.sub(r"\n(?!\n)", "\n" + " " * len(mark), text)


def folded(title: str, text: str) -> str:
    return f"<details>\n<summary>{title}</summary>\n\n{text}\n\n</details>"


def anchors(names: Iterable[str]) -> str:
    """Places that links lead to."""
    return "".join(f'<a id="{name}"></a>' for name in names)


def is_cell(node: nodes.Node) -> bool:
    """Whether this is a code cell of the page, with its outputs."""
    return isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"


class Markdown:
    """What the nodes of a page are in Markdown; a method for each type of node, named after it or a
    class above it.

    Parameters
    ----------
    app : Sphinx
    docname : str
        The page.
    site : str
        Where the site is, seen from the notebook.
    """

    def __init__(self, app: Any, docname: str, site: str) -> None:
        self.docname = docname
        self.site = site
        self.source = Path(app.srcdir)
        self.numbers = app.env.toc_fignumbers.get(docname, {})
        self.numbered = app.config.numfig_format
        # one that is downloaded has no other page beside it: its links lead to a list at its end
        alone = app.builder.name == "html" and not app.config.html_baseurl
        self.targets = Targets(app.env, docname) if alone else None

    def __call__(self, node: nodes.Node) -> str:
        for kind in type(node).__mro__:
            if visit := getattr(self, f"visit_{kind.__name__}", None):
                return str(visit(node))
        LOGGER.warning("notebooks: no Markdown for <%s>", node.tagname, location=node)
        return self.blocks(node)

    def inline(self, node: nodes.Element) -> str:
        return "".join(map(self, node.children))

    def blocks(self, node: nodes.Element) -> str:
        return joined(map(self, node.children))

    def nothing(self, node: nodes.Node) -> str:
        return ""

    def number(self, kind: str, node: nodes.Element) -> str:
        """Return the number that Sphinx gave to a box, figure, table or formula, or nothing."""
        numbers = self.numbers.get(kind, {})
        return next(
            (".".join(map(str, numbers[name])) for name in node["ids"] if name in numbers), ""
        )

    def address(self, uri: str) -> str:
        """Where a link of the site leads from the notebook: to a notebook if it can, else to the
        site.
        """
        parts = urlsplit(uri)
        if parts.scheme or parts.netloc or not parts.path:
            return uri
        folder = posixpath.dirname(self.docname)
        path = posixpath.normpath(posixpath.join(folder, parts.path))
        if (page := path.removesuffix(".html")) in with_code(self.source):
            path = posixpath.relpath(f"{page}.ipynb", folder or ".")
        else:
            path = self.site + path
        return path + uri.removeprefix(parts.path)

    # pages, and boxes that hold cells

    def pieces(self, node: nodes.Element, level: int = 0) -> Iterator[Piece]:
        """Blocks of Markdown and code cells, in order; after an exercise, one for the answer."""
        for child in node.children:
            if is_cell(child):
                yield child
                yield from map(self, child.findall(nodes.figure))
            elif isinstance(child, nodes.section):
                yield from self.pieces(child, level + 1)
            elif isinstance(child, nodes.title):
                yield f"{'#' * level} {self.inline(child)}{anchors(node['ids'][1:])}"
            elif any(child.findall(is_cell)):
                yield from self.opened(child)
            elif text := self(child):
                yield text
                if isinstance(child, exercise_enumerable_node) and child["label"] in exercises():
                    code = CHECK.format(label=child["label"])
                    yield new_code_cell(code, metadata={"tags": ["answer"]})

    def opened(self, box: nodes.Element) -> Iterator[Piece]:
        """Part a box at its code cells, which Markdown cannot hold."""
        titles = itertools.chain([self.title(box)], itertools.repeat("…"))
        for is_text, parts in itertools.groupby(
            self.pieces(box[-1]), lambda part: isinstance(part, str)
        ):
            if is_text:
                yield self.box(box, next(titles), joined(parts))
            else:
                yield from parts

    def title(self, box: nodes.Element) -> str:
        """Kind, number and name of a box."""
        name = (
            self.inline(box[0]).strip()
            if isinstance(box[0], nodes.title)
            else admonitionlabels[box.tagname]
        )
        if "realtype" in box:
            number = self.number(box["countertype"], box)
            return f"**{box['realtype'].title()} {number}** {name}".strip()
        if isinstance(box, exercise_enumerable_node):
            return f"**{self.numbered['exercise'] % self.number('exercise', box)}** {name}".strip()
        return name if isinstance(box, solution_node) else f"**{name}**"

    def box(self, box: nodes.Element, title: str, text: str) -> str:
        if isinstance(box, solution_node):
            return folded(title, text)
        return quoted(joined([anchors(box["ids"]) + title, text]))

    # boxes

    def visit_Admonition(self, node: nodes.Element) -> str:
        content = node.children[isinstance(node[0], nodes.title) :]
        return self.box(node, self.title(node), joined(map(self, content)))

    def visit_proof_node(self, node: nodes.Element) -> str:
        return quoted(self.blocks(node[0]).replace("Proof.", "*Proof.*", 1))

    def visit_dropdown_main(self, node: nodes.Element) -> str:
        title, *content = node.children
        words = next(
            part for part in title.findall(nodes.inline) if "sd-summary-text" in part["classes"]
        )
        return folded(self.inline(words), joined(map(self, content)))

    def visit_block_quote(self, node: nodes.Element) -> str:
        return quoted(self.blocks(node))

    # formulas, figures, tables

    def visit_math(self, node: nodes.Element) -> str:
        return f"${self.tex(node)}$"

    def visit_math_block(self, node: nodes.Element) -> str:
        tex = self.tex(node)
        number = self.number("displaymath", node)
        if r"\\" in re.sub(r"\\begin\{(\w+\*?)\}.*?\\end\{\1\}", "", tex):
            tex = rf"\begin{{aligned}}{tex}\end{{aligned}}"
        tag = rf" \tag{{{number}}}" if number else ""
        return f"{anchors(node['ids'])}$${tex}{tag}$$"

    def tex(self, node: nodes.Element) -> str:
        """Write a formula in one line: in a quotation, a second would begin with ``>``."""
        return " ".join(node.astext().split())

    def visit_figure(self, node: nodes.Element) -> str:
        shown = [
            child
            for child in node.children
            if isinstance(child, nodes.image | nodes.caption | nodes.legend)
        ]
        return anchors(node["ids"]) + joined(map(self, shown))

    def visit_image(self, node: nodes.Element) -> str:
        kind, _ = mimetypes.guess_type(node["uri"])
        content = base64.b64encode((self.source / node["uri"]).read_bytes()).decode()
        return f'<img alt="{escape(node.get("alt", ""))}" src="data:{kind};base64,{content}">'

    def visit_caption(self, node: nodes.Element) -> str:
        number = self.number("figure", node.parent)
        return (f"**{self.numbered['figure'] % number}** " if number else "") + self.inline(node)

    def visit_table(self, node: nodes.Element) -> str:
        rows = [[self.entry(entry) for entry in row.children] for row in node.findall(nodes.row)]
        if not any(node.findall(nodes.thead)):
            rows.insert(0, [""] * len(rows[0]))
        rows.insert(1, ["---"] * len(rows[0]))
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)

    def entry(self, node: nodes.Element) -> str:
        text = self.blocks(node).replace("\n\n", "<br>").replace("\n", " ")
        bars = {r"\|": r"\Vert ", "|": r"\vert "}
        text = re.sub(
            r"\$[^$]+\$", lambda tex: re.sub(r"\\?\|", lambda bar: bars[bar[0]], tex[0]), text
        )
        return text.replace("|", r"\|")

    # text

    def visit_Text(self, node: nodes.Text) -> str:
        return re.sub(r"[\\`*$~]|(?<!\w)_|_(?!\w)|<(?=[\w/!])", r"\\\g<0>", node.astext())

    def visit_paragraph(self, node: nodes.Element) -> str:
        return re.sub(r"(?m)^(\d*)((?<!\d)[-+#>]|(?<=\d)[.)](?=\s))", r"\1\\\2", self.inline(node))

    def visit_literal(self, node: nodes.Element) -> str:
        fence = "``" if "`" in node.astext() else "`"
        return f"{fence}{node.astext()}{fence}"

    def visit_literal_block(self, node: nodes.Element) -> str:
        language = node.get("language", "")
        shown = "" if language in ("default", "none") else language
        return f"```{shown}\n{node.astext().rstrip()}\n```"

    def visit_reference(self, node: nodes.Element) -> str:
        words = self.inline(node)
        address = f"#{node['refid']}" if "refid" in node else self.address(node["refuri"])
        if self.targets and (place := self.targets.place(node.get("refuri", ""), words, address)):
            address = f"#{place}"
        return f"[{words}]({address})"

    def visit_download_reference(self, node: nodes.Element) -> str:
        return f"[{self.inline(node)}]({self.site}_downloads/{node['filename']})"

    def visit_emphasis(self, node: nodes.Element) -> str:
        return f"*{self.inline(node)}*"

    def visit_strong(self, node: nodes.Element) -> str:
        return f"**{self.inline(node)}**"

    def visit_raw(self, node: nodes.Element) -> str:
        # it needs the site's scripts: what it says first, and where it is
        if "<form" in node.astext():
            said = re.findall(r'<p class="hdpm-winner"[^>]*>(.*?)</p>', node.astext())
            return joined([*said, f"[Try it on the site.]({self.site}{self.docname}.html)"])
        link = re.compile(r'(?<= href=")[^"]+')
        return (
            link.sub(lambda found: self.address(found[0]), node.astext())
            if "html" in node["format"]
            else ""
        )

    def visit_bullet_list(self, node: nodes.Element) -> str:
        return self.items(node, itertools.repeat("- "))

    def visit_enumerated_list(self, node: nodes.Element) -> str:
        return self.items(node, (f"{number}. " for number in itertools.count(node.get("start", 1))))

    def items(self, node: nodes.Element, marks: Iterable[str]) -> str:
        texts = [anchors(item["ids"]) + self.blocks(item) for item in node.children]
        space = "\n\n" if any("\n\n" in text for text in texts) else "\n"
        return space.join(listed(mark, text) for mark, text in zip(marks, texts, strict=False))

    def visit_definition_list(self, node: nodes.Element) -> str:
        return "\n".join(
            listed("- ", f"**{self.inline(term)}**: {self.blocks(words)}")
            for term, words in node.children
        )

    def visit_container(self, node: nodes.Element) -> str:
        text = self.blocks(node)
        return f"**{text}**" if node.get("design_component") == "card-title" else text

    visit_document = visit_section = visit_compound = blocks
    visit_inline = visit_PassthroughTextElement = inline
    visit_rubric = visit_sd_tab_label = visit_strong
    visit_Invisible = visit_toctree = visit_sd_tab_input = visit_system_message = nothing


# --- notebooks ----------------------------------------------------------------------------------


@cache
def with_code(root: Path) -> frozenset[str]:
    """Pages that become notebooks."""
    pages = [
        path for path in execution.pages(root) if "{code-cell}" in path.read_text(encoding="utf8")
    ]
    return frozenset(
        path.relative_to(root).with_suffix("").as_posix()
        for path in pages
        if execution.is_chapter(path)
    )


def needs(root: Path, code: str) -> dict[str, str]:
    """Return what some code imports, itself or through the project's modules, of what the extras
    for readers install: requirements by name.
    """
    offered = {}
    for extra in ("book", "owner"):
        for line in project(root)["optional-dependencies"][extra]:
            offered[canonicalize_name(Requirement(line).name)] = line
    imported = {name.partition(".")[0] for name in sources(root).names(code)}
    installed_by = metadata.packages_distributions()
    names = {canonicalize_name(name) for top in imported for name in installed_by.get(top, ())}
    return {name: offered[name] for name in sorted(names & offered.keys())}


def first_cell(app: Any, docname: str, code: str) -> str:
    """Return the cell that a notebook starts with, before others with this code."""
    root = Path(app.srcdir)
    name = wheel_name(root)
    up = "../" * (docname.count("/") + 1)
    if base := app.config.html_baseurl:
        wheel = f'    wheel = "{base.rstrip("/")}/{name}"'
    else:
        wheel = HERE.format(name=name, up=up)
    return FIRST.format(wheel=wheel, needs=json.dumps(needs(root, code), indent=4))


sources = cache(Sources)


def run(app: Any, docname: str) -> nbformat.NotebookNode:
    """Return a page with the outputs of its last run; without, where that is another page's or
    none.
    """
    path = Path(app.env.doc2path(docname))
    if app.config.nb_execution_mode == "off":
        root = Path(app.srcdir)
        return execution.last_run(path, root, sources(root))
    from jupyter_cache import get_cache

    return get_cache(app.config.nb_execution_cache_path).merge_match_into_notebook(
        execution.read(path)
    )[1]


def notebook(app: Any, doctree: nodes.document, docname: str, site: str) -> nbformat.NotebookNode:
    """Make a notebook of a page."""
    page = run(app, docname)
    ahead = [index for index, cell in enumerate(page.cells) if cell.cell_type == "code"]
    markdown = Markdown(app, docname, site)
    cells = []
    for piece in itertools.chain(markdown.pieces(doctree), [None]):
        if isinstance(piece, nbformat.NotebookNode):
            cells.append(piece)
        # a cell; before it, and at the end, those that the site does not show
        elif not isinstance(piece, str):
            last = piece["cell_index"] if piece else len(page.cells)
            within = piece.parent.parent if piece else None
            while ahead and ahead[0] <= last:
                cells.append(code_cell(page.cells[ahead.pop(0)], isinstance(within, solution_node)))
        elif piece.startswith("#") or cells[-1].cell_type == "code":
            cells.append(new_markdown_cell(piece))
        else:
            cells[-1].source += f"\n\n{piece}"
        if len(cells) == 1:
            cells.append(new_code_cell())  # what the first one installs, the others say
    if markdown.targets and (listed := markdown.targets.markdown()):
        cells.append(new_markdown_cell(listed))
    code = execution.python(new_notebook(cells=cells))
    cells[1].source = first_cell(app, docname, code)
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    return new_notebook(
        cells=cells,
        metadata={"kernelspec": KERNEL, "language_info": PYTHON},
    )


def code_cell(cell: nbformat.NotebookNode, within_solution: bool) -> nbformat.NotebookNode:
    """Copy a cell of the page, folded where the site hides it."""
    tags = cell.metadata.get("tags", [])
    folds = {
        "source_hidden": within_solution or bool(HIDDEN & {*tags}),
        "outputs_hidden": within_solution,
    }
    metadata = {"tags": tags} if tags else {}
    if any(folds.values()):
        metadata["jupyter"] = {name: True for name, folds_it in folds.items() if folds_it}
    outputs = cell.get("outputs", [])
    number = cell.get("execution_count")
    return new_code_cell(cell.source, metadata=metadata, outputs=outputs, execution_count=number)


def digest(nb: nbformat.NotebookNode) -> str:
    """Compute a mark of the cells of a notebook, whatever they have printed."""
    return hashlib.sha256(
        "".join(f"{cell.cell_type}\0{cell.source}\0" for cell in nb.cells).encode()
    ).hexdigest()[:16]


def is_changed(nb: nbformat.NotebookNode) -> bool:
    """Whether its reader has changed a notebook."""
    return nb.metadata.get("hdpm") != {"page": digest(nb)}


def kept(path: Path) -> Path:
    """Find a free name for a notebook that its reader has changed: ``page-changed``, then
    ``page-changed-2``, and so on.
    """
    ends = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    return next(
        name for end in ends if not (name := path.with_stem(f"{path.stem}-changed{end}")).exists()
    )


def save(nb: nbformat.NotebookNode, path: Path) -> None:
    """Write a notebook unless it is there already; one that its reader has changed is kept beside a
    newer one.
    """
    nb.metadata["hdpm"] = {"page": digest(nb)}
    if path.exists():
        old = nbformat.read(path, as_version=4)
        if old.metadata.get("hdpm") == nb.metadata["hdpm"]:
            return
        if is_changed(old):
            path.replace(kept(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nb, path)


# --- builds -------------------------------------------------------------------------------------


class NotebookBuilder(StandaloneHTMLBuilder):
    """Resolves the pages as for the site, and writes nothing but notebooks."""

    name = "notebooks"

    def get_outdated_docs(self) -> list[str]:
        return sorted(with_code(Path(self.srcdir)))

    def write(self, *_: Any) -> None:
        for docname in self.get_outdated_docs():
            self.env.get_and_resolve_doctree(docname, self)

    def finish(self) -> None:
        folder = Path(self.outdir).parent / "notebooks"
        there = {folder / f"{docname}.ipynb" for docname in self.get_outdated_docs()}
        for path in {*folder.rglob("*.ipynb")} - there:  # of pages that are gone
            if not is_changed(nbformat.read(path, as_version=4)):
                path.unlink()
        (Path(self.outdir) / "_static").mkdir(exist_ok=True)  # extensions put something there


def write(app: Any, doctree: nodes.document, docname: str) -> None:
    """Write the notebook of a page."""
    if docname in with_code(Path(app.srcdir)):
        folder, site = {"notebooks": ("../notebooks", "../html/"), "html": ("_sources", "../")}[
            app.builder.name
        ]
        site = app.config.html_baseurl or "../" * docname.count("/") + site
        path = Path(app.outdir) / folder / f"{docname}.ipynb"
        if app.builder.name == "html":  # nobody edits these
            path.unlink(missing_ok=True)
        save(notebook(app, doctree, docname, site), path)


def offer(app: Any, pagename: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Let the download button of a page offer its notebook."""
    if pagename in with_code(Path(app.srcdir)):
        context["ipynb_source"] = f"{pagename}.ipynb"


def unrun(text: str) -> nbformat.NotebookNode:
    """Read a page and put a word in the place of each figure, as nothing has drawn it.

    What a page puts into its text is of its last run; if there is none, the cells are run until all
    is there.
    """
    page = read_myst_markdown_notebook(text, config=MdParserConfig(), add_source_map=True)
    code = execution.code_cells(page)
    for cell in code:
        if "figure" in cell.metadata.get("mystnb", {}):
            cell.outputs = [new_output("display_data", {"text/plain": "figure"})]
    if keys := {*re.findall(r"\{glue(?::\w+)?\}[ `]*([\w-]+)", text)}:
        root = execution.ROOT
        path = next(
            path for path in execution.pages(root) if path.read_text(encoding="utf8") == text
        )
        last = execution.stored(execution.kept_at(path, root, sources(root)))
        code[0].outputs += glued(execution.code_cells(last) if last else executed(page), keys)
    return page


def executed(page: nbformat.NotebookNode) -> Iterator[nbformat.NotebookNode]:
    """Run the cells of a page, and yield each."""
    client = NotebookClient(
        new_notebook(metadata=page.metadata), resources={"metadata": {"path": str(execution.ROOT)}}
    )
    with client.setup_kernel():
        for number, cell in enumerate(execution.code_cells(page)):
            client.nb.cells.append(new_code_cell(cell.source))
            yield client.execute_cell(client.nb.cells[-1], number)


def glued(cells: Iterable[nbformat.NotebookNode], keys: set[str]) -> list[nbformat.NotebookNode]:
    """Return what the cells of a page put into its text under some names."""
    found: dict[str, nbformat.NotebookNode] = {}
    for cell in cells:
        found |= {
            out.metadata.scrapbook.name: out
            for out in cell.outputs
            if "scrapbook" in out.get("metadata", {})
        }
        if keys <= found.keys():
            break
    for output in found.values():
        if "text/html" in output.data:
            output.data.pop("text/plain", None)  # which would come first
    return [*found.values()]


def main() -> int:
    """Build the notebooks without running a cell."""
    root = execution.ROOT
    out = root / "_build" / ".notebooks"
    settings = {
        "autosummary_generate": False,
        "nb_execution_mode": "off",
        "nitpicky": True,
        "nb_custom_formats": {".md": "notebooks.unrun"},
        "nb_mime_priority_overrides": [
            ("notebooks", "text/plain", 0),
            ("notebooks", "text/html", 1),
        ],
    }
    try:
        with patch_docutils(root), docutils_namespace():
            app = Sphinx(root, root, out, out / "doctrees", "notebooks", settings, status=None)
            app.build()
    except SphinxError as error:
        print(error, file=sys.stderr)
        return 1
    return app.statuscode


def leave_out_docstrings(app: Any) -> None:
    """Notebooks link to functions and classes of the library; what stands under their names, and
    attributes, which are read from sources, are on the site alone.
    """
    if app.builder.name != "notebooks":
        return
    for event in ("autodoc-process-docstring", "autodoc-process-signature"):
        for listener in list(app.events.listeners[event]):
            if listener.handler.__module__ == "numpydoc.numpydoc":
                app.disconnect(listener.id)
    app.connect("autodoc-process-docstring", lambda *about: about[-1].clear())
    ModuleAnalyzer.for_module = unread


def unread(name: str) -> None:
    """In place of the sources of a module, which Sphinx does without."""
    raise PycodeError(name)


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_builder(NotebookBuilder)
    app.connect("doctree-resolved", write, priority=900)
    app.connect("html-page-context", offer)
    app.connect("builder-inited", leave_out_docstrings)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    sys.exit(main())
