"""The directive ``{code-of}``: a function of the library as it stands in the source of this build.

A page writes the algorithm of a paper in a box and lets the code that does it follow::

    ```{code-of} hdpm_lib.learners.ridge.output_perturbation
    ```

Shown is the function without docstring and annotations, under a line that links to its reference.
Of folded cells in a row, those that show nothing are folded with the next one: a page begins with
one word *Code*, not with one for what it imports as well.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import subprocess
import sys
import textwrap
from typing import Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

LINE = 80  # what a page is wide enough for


def named(path: str) -> Any:
    """Return the function or method with a dotted name.

    Examples
    --------
    >>> named("hdpm_lib.learners.ridge.output_perturbation").__name__
    'output_perturbation'
    >>> named("hdpm_lib.learners.ridge.pdp_po")
    Traceback (most recent call last):
    LookupError: hdpm_lib.learners.ridge has no pdp_po
    """
    parts = path.split(".")
    for k in range(len(parts) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        for end, name in enumerate(parts[k:], k):
            if not hasattr(found, name):
                raise LookupError(f"{'.'.join(parts[:end])} has no {name}")
            found = getattr(found, name)
        return found
    raise LookupError(f"no module for {path}")


def code_of(function: Any) -> str:
    """Source of a function: its name and arguments, then its body without the docstring, in lines
    that fit a page.

    Examples
    --------
    >>> print(code_of(code_of).splitlines()[0])
    def code_of(function):
    """
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    (tree,) = ast.parse(source).body
    if not isinstance(tree, ast.FunctionDef):
        raise LookupError(f"{function!r} is no function")
    arguments = tree.args
    for argument in ast.walk(arguments):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    start = tree.body[0].lineno - 1 if ast.get_docstring(tree) is None else tree.body[0].end_lineno
    body = textwrap.dedent("\n".join(source.splitlines()[start:])).strip("\n")
    shown = f"def {tree.name}({ast.unparse(arguments)}):\n{textwrap.indent(body, ' ' * 4)}\n"
    command = [
        sys.executable,
        "-m",
        "ruff",
        "format",
        "--isolated",
        "--line-length",
        str(LINE),
        "-",
    ]
    return subprocess.run(
        command, input=shown, capture_output=True, text=True, check=True
    ).stdout.rstrip("\n")


class CodeOf(SphinxDirective):
    """Show the function whose dotted name is the argument."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        path = self.arguments[0]
        try:
            function = named(path)
            code = code_of(function)
        except LookupError as error:
            raise self.error(f"code-of: {error}") from None
        self.env.note_dependency(inspect.getsourcefile(inspect.unwrap(function)))
        block = nodes.literal_block(code, code, language="python", classes=["hdpm-code-of"])
        module = path.split(f".{function.__qualname__}")[0]
        name = function.__qualname__
        private = f"`{name}` of {{mod}}`{module}`"  # which has no entry in the reference
        words, messages = self.state.inline_text(
            private if "_" in name[:1] else f"{{func}}`{path}`", self.lineno
        )
        return [
            nodes.container("", nodes.paragraph("", "", *words), block, classes=["hdpm-code"]),
            *messages,
        ]


class OneFold(SphinxPostTransform):
    """Put the code of a folded cell without output before that of a folded cell that follows at
    once.
    """

    default_priority = 198  # before myst-nb folds them
    formats = ("html",)

    def run(self, **_: Any) -> None:
        folded = [
            cell
            for cell in self.document.findall(nodes.container)
            if cell.get("hide_mode") == "input"
        ]
        for cell, after in itertools.pairwise(folded):
            if len(cell) == 1 and after is cell.next_node(descend=False, siblings=True):
                code, more = (next(part.findall(nodes.literal_block)) for part in (cell, after))
                text = f"{code.astext()}\n\n{more.astext()}"
                more.rawsource = text
                more.children = []
                more += nodes.Text(text)
                cell.parent.remove(cell)


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("code-of", CodeOf)
    app.add_post_transform(OneFold)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
