"""What a source comes to: definitions of the library and of the book, by name.

A module is taken apart into the statements that define its names and those that run when it is
imported. A source comes to what it names, to what that names in turn, and to what runs in every
module that is imported on the way. Where a module is used as a thing, or asked for a name that it
does not define, all of it counts. So a changed function is a change for those who may call it and
for nobody else, and a docstring or a comment for nobody.

Names count wherever they stand: one that a function gives to a variable of its own counts as the
module's. What is called by a name put together at run time is not seen.
"""

from __future__ import annotations

import ast
import doctest
import hashlib
import pickle
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

PACKAGES = {"hdpm_lib": "hdpm_lib", "hdpm_owner": "flower/hdpm_owner", "hdpm_book": "book"}
# What tests import besides.
BESIDE = {"tests": "tests", "hdpm_market": "flower/hdpm_market"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
KEPT = 2000  # sources taken apart; a session comes to about half as many
LOADED = ""  # stands for the statements that run when a module is imported
Place = tuple[str, str]
"""A module, and a name that it defines or `LOADED`."""


def modules(root: Path, packages: Mapping[str, str] = PACKAGES) -> dict[str, Path]:
    """Modules of packages by name."""
    found = {}
    for package, folder in packages.items():
        for path in (root / folder).rglob("*.py"):
            parts = path.relative_to(root / folder).with_suffix("").parts
            if not any(part.startswith((".", "_")) and part != "__init__" for part in parts):
                found[".".join((package, *parts)).removesuffix(".__init__")] = path
    return found


@dataclass
class Part:
    """Statements of a module: what they do, and what they name."""

    code: bytes = b""
    own: set[str] = field(default_factory=set)
    """Names without an import: those of the module among them."""
    foreign: set[str] = field(default_factory=set)
    """Names that begin with an import, dotted, from the module on."""
    loads: set[str] = field(default_factory=set)
    """What is imported on the way: modules, some with a name in them."""
    words: set[str] = field(default_factory=set)
    """Texts without a space."""

    def add(self, statement: ast.stmt, imported: Mapping[str, str]) -> None:
        """Take one more statement, in a module that imports some names."""
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            self.code = hashlib.sha256(self.code + ast.dump(statement).encode()).digest()
        imports = list(_imports(statement))
        self.loads |= {loaded for _, _, loaded in imports}
        known = {**imported, **{name: meaning for name, meaning, _ in imports}}
        for node in _leaves(statement):
            if isinstance(node, str):
                start, dot, rest = node.partition(".")
                if start in known:
                    self.foreign.add(known[start] + dot + rest)
                else:
                    self.own.add(start)
            elif " " not in node.value:
                self.words.add(node.value)

    @cached_property
    def digest(self) -> bytes:
        """What the statements do, and what stands behind the names in them."""
        return hashlib.sha256(repr([self.code, sorted(self.foreign)]).encode()).digest()


def _imports(statement: ast.stmt) -> Iterator[tuple[str, str, str]]:
    """Imports anywhere in a statement: the name that each gives, what this stands for, and what is
    loaded.
    """
    for node in ast.walk(statement):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                yield alias.asname or top, alias.name if alias.asname else top, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield alias.asname or alias.name, name, name


def _leaves(node: ast.AST) -> Iterator[str | ast.Constant]:
    """Names in a statement, each as long as it is written, as ``plots.show``; and its texts."""
    parts: list[str] = []
    start = node
    while isinstance(start, ast.Attribute):
        parts.append(start.attr)
        start = start.value
    if isinstance(start, ast.Name):
        yield ".".join([start.id, *reversed(parts)])
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _leaves(child)


def _bound(target: ast.AST) -> set[str]:
    """Names that an assignment gives; none if it changes a part of something."""
    if isinstance(target, ast.Name):
        return {target.id}
    if isinstance(target, ast.Tuple | ast.List):
        return set().union(*map(_bound, target.elts))
    return set()


class Module:
    """A source taken apart: parts by the names that they define, and ``LOADED``; and the examples
    in its docstrings, which are tests: code and what it prints.
    """

    def __init__(self, source: str) -> None:
        module = ast.parse(source)
        self.examples: list[tuple[str, str]] = []
        for node in ast.walk(module):
            if isinstance(node, DOCUMENTED) and ">>>" in (text := ast.get_docstring(node) or ""):
                examples = doctest.DocTestParser().get_examples(text)
                self.examples += [(example.source, example.want) for example in examples]
            if isinstance(statements := getattr(node, "body", None), list):
                statements[:] = filter(_does_something, statements)
        body = module.body
        self.imports: dict[str, str] = {}
        for statement in body:
            if not _is_definition(statement):
                self.imports |= {name: meaning for name, meaning, _ in _imports(statement)}
        self.parts = {LOADED: Part()}
        for statement in body:
            for name in sorted(self._defines(statement)):  # the same in every process
                self.parts.setdefault(name, Part()).add(statement, self.imports)
        self.looks_at = _looked_at(body)

    def _defines(self, statement: ast.stmt) -> set[str]:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                marks = [name for node in statement.decorator_list for name in _leaves(node)]
                # it registers itself with what is defined here
                with_others = {str(name).partition(".")[0] for name in marks} & self.parts.keys()
                return {statement.name} | with_others
            case ast.Assign(targets=targets) if all(map(_bound, targets)):
                return set().union(*map(_bound, targets))
            case ast.AnnAssign(target=ast.Name(id=name)):
                return {name}
            case ast.If(test=test) if ast.unparse(test) == "__name__ == '__main__'":
                return set()
        return {LOADED}


def _looked_at(body: list[ast.stmt]) -> list[str] | None:
    """Files and folders that tests say they look at: ``LOOKS_AT = ["_toc.yml", "book/_ext"]``."""
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="LOOKS_AT")], value=value):
                return list(ast.literal_eval(value))
    return None


def _does_something(statement: ast.stmt) -> bool:
    """Whether a statement is more than a docstring or another constant that stands alone."""
    return not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))


def _is_definition(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


class Sources:
    """All modules there are, and where their names lead, as they are when this is made.

    Parameters
    ----------
    root : Path
        The repository.
    """

    def __init__(self, root: Path) -> None:
        self.there = modules(root, PACKAGES | BESIDE)
        for path in (root / "book" / "_ext").glob("*.py"):
            self.there[path.stem] = path
        self.contents: dict[Path, bytes] = {}
        """Digests of files and folders, as they were read first."""
        self.entries: dict[Path, list[dict[str, Any]]] = {}
        """What is in files of entries."""
        made_by = hashlib.sha256(Path(__file__).read_bytes() + sys.version.encode()).hexdigest()
        self._file = root / "_build" / f"apart.{made_by[:16]}.pickle"
        self._apart: dict[str, Module] = {}
        if self._file.exists():
            self._apart = pickle.loads(self._file.read_bytes())
        self._is_kept = True
        self._modules: dict[str, Module] = {}
        self._reached: dict[str, dict[Place, Part]] = {}
        self._next: dict[Place, set[Place]] = {}
        self._public = {}  # names of the face of the library, and where they are defined
        if (stub := root / "hdpm_lib" / "__init__.pyi").exists():
            for statement in ast.parse(stub.read_text(encoding="utf8")).body:
                if isinstance(statement, ast.ImportFrom) and statement.module:
                    for alias in statement.names:
                        name = f"hdpm_lib.{statement.module}.{alias.name}"
                        self._public[f"hdpm_lib.{alias.name}"] = name

    def taken_apart(self, source: str) -> Module:
        """A source taken apart, now or in an earlier session: what comes of it is in its text."""
        key = hashlib.sha256(source.encode()).hexdigest()
        if (found := self._apart.pop(key, None)) is None:
            found = Module(source)
            self._is_kept = False
        self._apart[key] = found  # the last of all
        return found

    def keep(self) -> None:
        """Keep for the next session what has been taken apart."""
        if self._is_kept:
            return
        self._file.parent.mkdir(exist_ok=True)
        for old in self._file.parent.glob("apart.*.pickle"):
            old.unlink(missing_ok=True)
        part = self._file.with_suffix(".part")
        part.write_bytes(pickle.dumps(dict(list(self._apart.items())[-KEPT:])))
        part.replace(self._file)
        self._is_kept = True

    def module(self, name: str) -> Module:
        """A module by its name."""
        if name not in self._modules:
            self._modules[name] = self.taken_apart(self.there[name].read_text(encoding="utf8"))
        return self._modules[name]

    def _split(self, name: str) -> tuple[str, list[str]]:
        """The module in a dotted name, and the rest of it; no module in a foreign one."""
        parts = name.split(".")
        if public := self._public.get(".".join(parts[:2])):
            parts = public.split(".") + parts[2:]
        for length in range(len(parts), 0, -1):
            if (module := ".".join(parts[:length])) in self.there:
                return module, parts[length:]
        return "", parts

    def places(self, name: str) -> set[Place]:
        """Where a dotted name leads."""
        module, rest = self._split(name)
        if not module:
            return set()
        known = self.module(module)
        if rest and rest[0] in known.parts:
            return {(module, rest[0])}
        if rest and rest[0] in known.imports:
            return self.places(".".join([known.imports[rest[0]], *rest[1:]]))
        return {(module, part) for part in known.parts}

    def _from(self, part: Part, module: Module, name: str) -> set[Place]:
        """Where a part of a module leads, which has a name or none."""
        found = {(name, own) for own in part.own & module.parts.keys() if name}
        for dotted in part.foreign:
            found |= self.places(dotted)
        for word in part.words:  # a patch names what it puts something in the place of
            if word.startswith("hdpm_") and "." in word:
                found |= self.places(word)
        for loaded in part.loads:
            parts = self._split(loaded)[0].split(".")
            # packages on the way are imported too
            names = (".".join(parts[:length]) for length in range(1, len(parts) + 1))
            found |= {(one, LOADED) for one in names if one in self.there}
        return found

    def _after(self, place: Place) -> set[Place]:
        if place not in self._next:
            name, part = place
            module = self.module(name)
            self._next[place] = self._from(module.parts[part], module, name) | {(name, LOADED)}
        return self._next[place]

    def reached(self, source: str) -> dict[Place, Part]:
        """All that a source comes to, with what it does."""
        if source not in self._reached:
            module = self.taken_apart(source)
            ahead = set().union(*(self._from(part, module, "") for part in module.parts.values()))
            found: dict[Place, Part] = {}
            while ahead:
                place = ahead.pop()
                found[place] = self.module(place[0]).parts[place[1]]
                ahead |= self._after(place) - found.keys()
            self._reached[source] = dict(sorted(found.items()))
        return self._reached[source]
