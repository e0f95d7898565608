"""Find what a source depends on, file by file.

A source depends on the modules that it imports, anywhere in it, and on those that its texts name,
as the target of a patch or code that another process runs; on what these depend on in turn; and on
the files that any of them names. Of a module the syntax tree counts, without docstrings and
comments; of a page that is named without its suffix, its code; of other files every byte. Of the
ledger and of the exercises an entry counts for those who name it.

A file is not seen that is named by a text put together at run time. ``python -m tests.reads``
compares this with the files that tests and pages open.
"""

from __future__ import annotations

import ast
import doctest
import hashlib
import os
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

# jsonschema asks for it when imported, and it takes a second to make ready checks of addresses
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
import nbformat  # noqa: E402
from myst_nb.core.read import read_myst_markdown_notebook  # noqa: E402
from myst_parser.config.main import MdParserConfig  # noqa: E402

PACKAGES = {"hdpm_lib": "hdpm_lib", "hdpm_owner": "flower/hdpm_owner", "hdpm_book": "book"}
# What tests import besides.
BESIDE = {"tests": "tests", "hdpm_market": "flower/hdpm_market"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
MODULE = re.compile(r"\b(?:hdpm_\w+|tests)(?:\.\w+)+")
PASSING = ("_build", "__pycache__", "node_modules", "cache")  # folders that nothing depends on
# Files of entries: the module that reads them, and its names that give all of them.
ENTRIES = {
    "claims": ("hdpm_book.ledger", ("CLAIMS", "load", "read")),
    "exercises.yaml": ("hdpm_book.exercises", ("exercises",)),
}


def modules(root: Path, packages: Mapping[str, str] = PACKAGES) -> dict[str, Path]:
    """Return the modules of packages by name."""
    found = {}
    for package, folder in packages.items():
        for path in (root / folder).rglob("*.py"):
            parts = path.relative_to(root / folder).with_suffix("").parts
            if not any(part.startswith((".", "_")) and part != "__init__" for part in parts):
                found[".".join((package, *parts)).removesuffix(".__init__")] = path
    return found


def files(place: Path) -> list[Path]:
    """Return a file, or all below a folder but for what is hidden, built, installed or fetched."""
    if place.is_file():
        return [place]
    found = []
    for folder, inside, names in os.walk(place):
        inside[:] = [name for name in inside if name[0] != "." and name not in PASSING]
        found += [Path(folder, name) for name in names if name[0] != "."]
    return sorted(found, key=str)


def read(path: Path) -> nbformat.NotebookNode:
    """Read a chapter exactly as the book does, so that both compute the same key for the cache."""
    return read_myst_markdown_notebook(
        path.read_text(encoding="utf8"), config=MdParserConfig(), path=str(path)
    )


def code_cells(page: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """Return the cells of a page that hold code, in order."""
    return [cell for cell in page.cells if cell.cell_type == "code"]


def python(page: nbformat.NotebookNode) -> str:
    """Return all code of a page; lines that only a notebook understands do nothing."""
    code = "\n".join(cell.source for cell in code_cells(page))
    return re.sub(r"(?m)^([ \t]*)[%!].*$", r"\1pass", code)


class Source(ast.NodeVisitor):
    """A source: a digest of what it does, and what it names.

    Parameters
    ----------
    code : str
        The source. Docstrings, comments and layout do not count.
    """

    def __init__(self, code: str) -> None:
        tree = ast.parse(code)
        self.examples: list[doctest.Example] = []
        """Examples in docstrings, which are tests."""
        for node in ast.walk(tree):
            if isinstance(node, DOCUMENTED) and (words := ast.get_docstring(node)) is not None:
                node.body = node.body[1:]
                if ">>>" in words:
                    self.examples += doctest.DocTestParser().get_examples(words)
        self.digest = hashlib.sha256(ast.dump(tree).encode()).digest()
        self.names: set[str] = set()
        """Dotted names that begin with something imported; ``hdpm_lib.*`` for all of a package."""
        self.texts: set[str] = set()
        self._imported: dict[str, str] = {}
        self.visit(tree)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.names.add(alias.name)
            top = alias.name.partition(".")[0]
            self._imported[alias.asname or top] = alias.name if alias.asname else top

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            self.names.add(name)
            self._imported[alias.asname or alias.name] = name

    def visit_Attribute(self, node: ast.Attribute) -> None:
        parts = [node.attr]
        start = node.value
        while isinstance(start, ast.Attribute):
            parts.append(start.attr)
            start = start.value
        if not isinstance(start, ast.Name):
            self.visit(start)
        elif start.id in self._imported:
            self.names.add(".".join([self._imported[start.id], *reversed(parts)]))

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self._imported:  # the thing itself: whatever is in it may be asked for
            self.names.add(f"{self._imported[node.id]}.*")

    def visit_Constant(self, node: ast.Constant) -> None:
        if not isinstance(node.value, str):
            return
        self.texts.add(node.value)
        self.names.update(MODULE.findall(node.value))
        if "import " in node.value:
            try:
                inner = Source(node.value)
            except SyntaxError:
                return  # no code
            self.names |= inner.names
            self.texts |= inner.texts


source = cache(Source)


class Sources:
    """The files of a repository, as they are when they are first looked at.

    Parameters
    ----------
    root : Path
        The repository.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.there = modules(root, PACKAGES | BESIDE)
        for folder in ("book/_ext", "flower"):
            for path in (root / folder).glob("*.py"):
                self.there[path.stem] = path
        self._public = _public_names(root)
        self._code: dict[str, str] = {}
        self._next: dict[str, set[str]] = {}
        self._contents: dict[Path, bytes] = {}
        self._entries: dict[Path, list[tuple[str, str]]] = {}
        inside = [place for place in (root / "data").iterdir() if place.name not in PASSING]
        self._folders = [*inside, root / "hdpm_lib" / "trained"]
        self._named: dict[str, list[Path]] = {}
        for path in files(root):
            self._named.setdefault(path.name, []).append(path)

    def code(self, name: str) -> str:
        """Return the code of a module or page, by name."""
        if name not in self._code:
            path = self.there[name]
            is_page = path.suffix == ".md"
            self._code[name] = python(read(path)) if is_page else path.read_text(encoding="utf8")
        return self._code[name]

    def _leads_to(self, name: str) -> set[str]:
        """Return the modules in a dotted name: packages on the way are imported too."""
        parts = name.split(".")
        if public := self._public.get(".".join(parts[:2])):
            parts = public.split(".")
        found = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
        if parts[-1] == "*":
            package = ".".join(parts[:-1]) + "."
            found |= {other for other in self.there if other.startswith(package)}
        return found & self.there.keys()

    def _after(self, code: str) -> set[str]:
        """Return the modules and pages that a source names."""
        if code not in self._next:
            found = set()
            for name in source(code).names:
                found |= self._leads_to(name)
            for text in source(code).texts:
                page = self.root / "book" / f"{text}.md"
                if "/" in text and len(text) < 80 and page.exists():
                    self.there[text] = page
                    found.add(text)
            self._next[code] = found
        return self._next[code]

    def reached(self, *codes: str) -> set[str]:
        """Return the modules and pages that sources depend on."""
        found: set[str] = set()
        ahead = list(codes)
        while ahead:
            new = self._after(ahead.pop()) - found
            found |= new
            ahead += map(self.code, new)
        return found

    def names(self, *codes: str) -> set[str]:
        """Return the dotted names in sources and in all that they depend on."""
        every = [*codes, *map(self.code, self.reached(*codes))]
        return set().union(*(source(code).names for code in every))

    def digest(self, *codes: str) -> str:
        """Return a digest of sources, and of all that they depend on."""
        every = {f"code {number}": source(code) for number, code in enumerate(codes)}
        for name in sorted(self.reached(*codes)):
            every[name] = source(self.code(name))
        found = hashlib.sha256(repr(sys.version_info[:2]).encode())
        for name, one in every.items():
            found.update(name.encode() + one.digest)
        for place in self._places(every.values()):
            found.update(place.name.encode())
            if place.name in ENTRIES:
                found.update(self._entries_named(place, every).encode())
            else:
                found.update(self.content(place))
        return found.hexdigest()

    def _places(self, sources: Iterable[Source]) -> list[Path]:
        """Return the files that sources name, and folders of data whose name is in a text."""
        found = set()
        for text in set().union(*(one.texts for one in sources)):
            if " " not in text:
                found |= {place for place in self._folders if place.name in text}
                same_name = self._named.get(text.rpartition("/")[2], [])
                found |= {path for path in same_name if path.as_posix().endswith(text)}
        return sorted(found)

    def _entries_named(self, place: Path, sources: Mapping[str, Source]) -> str:
        """Return the entries that sources name, or begin to name; all, if one of them reads all."""
        if place not in self._entries:
            self._entries[place] = []
            for file in files(place):
                for entry in re.split(r"(?m)^(?=- )", file.read_text(encoding="utf8"))[1:]:
                    name = re.search(r"\bid: *([\w-]+)", entry)
                    self._entries[place].append((name[1] if name else "", entry))
        entries = self._entries[place]
        home, readers = ENTRIES[place.name]
        texts: set[str] = set()
        for module, one in sources.items():
            if module == home:
                continue  # its texts, names of papers among them, name no entry
            reads_all = not one.names.isdisjoint(f"{home}.{name}" for name in readers)
            if reads_all or any(place.name in text for text in one.texts):
                return repr(entries)
            texts |= one.texts
        beginnings = tuple(text for text in texts if len(text) > 3)
        return repr([e for name, e in entries if name in texts or name.startswith(beginnings)])

    def content(self, *places: Path) -> bytes:
        """Return a digest of files, or of all below folders; of modules, of what they do."""
        found = hashlib.sha256()
        for place in places:
            if place not in self._contents:
                inside = hashlib.sha256()
                for file in files(place):
                    content = file.read_bytes()
                    if file.suffix == ".py":
                        content = source(content.decode()).digest
                    inside.update(f"{file.relative_to(place)}\0{len(content)}\0".encode() + content)
                self._contents[place] = inside.digest()
            found.update(self._contents[place])
        return found.digest()


def _public_names(root: Path) -> dict[str, str]:
    """Return the names of the face of the library, with where they are defined."""
    found = {}
    stub = root / "hdpm_lib" / "__init__.pyi"
    statements = ast.parse(stub.read_text(encoding="utf8")).body if stub.exists() else []
    for statement in statements:
        if isinstance(statement, ast.ImportFrom) and statement.module:
            for alias in statement.names:
                found[f"hdpm_lib.{alias.name}"] = f"hdpm_lib.{statement.module}.{alias.name}"
    return found
