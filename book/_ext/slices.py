"""The statements of a page that the decision of a claim rests on, and what they call.

A statement matters if it sets, changes in place or calls a method of a name that a later statement
needs. Pages keep what they compute in plain names: so this finds all that a verdict rests on, and
leaves out figures and tables.
"""

from __future__ import annotations

import ast
import builtins
import functools
import symtable
from collections.abc import Iterable

from hdpm_book.ledger import load

SHOWING = ("print", "plots", "ax")  # calls of these show something, and change nothing


def decided(statement: ast.stmt) -> set[str]:
    """Return the claims that a statement decides: one, or those that a loop goes through."""
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    if not any(ast.unparse(call.func) == "decide" for call in calls):
        return set()
    words = {node.value for node in ast.walk(statement) if isinstance(node, ast.Constant)}
    return {claim.id for claim in load() if claim.id in words}


def shows(statement: ast.stmt) -> bool:
    """Whether a statement prints, draws or decides."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and ast.unparse(call.func).partition(".")[0] in SHOWING:
        return True
    return bool(decided(statement))


class _Generators(ast.NodeTransformer):
    """Write comprehensions as generators, which have a scope of their own in every Python; since
    3.12 the names inside a comprehension count as those of the code around it.
    """

    def _generator(self, node: ast.ListComp | ast.SetComp) -> ast.GeneratorExp:
        self.generic_visit(node)
        return ast.GeneratorExp(node.elt, node.generators)

    visit_ListComp = visit_SetComp = _generator

    def visit_DictComp(self, node: ast.DictComp) -> ast.GeneratorExp:
        self.generic_visit(node)
        pair = ast.Tuple([node.key, node.value], ast.Load())
        return ast.GeneratorExp(pair, node.generators)


def names_of(statement: ast.AST) -> symtable.SymbolTable:
    """Return the names of a statement and of the scopes in it, the same in every Python."""
    return _names_of(ast.unparse(statement))


@functools.lru_cache(None)
def _names_of(code: str) -> symtable.SymbolTable:
    plain = ast.unparse(_Generators().visit(ast.parse(code)))
    return symtable.symtable(plain, "page", "exec")


def read(table: symtable.SymbolTable) -> set[str]:
    """Names of the page that code reads: not those of a function, a comprehension or a lambda
    within.

    Python's table does not count what ``x += 1`` reads: :func:`rests_on` adds it.
    """
    own = table.get_type() == "module"
    found = {
        s.get_name() for s in table.get_symbols() if s.is_referenced() and (own or s.is_global())
    }
    return found.union(*map(read, table.get_children()))


def rests_on(*block: ast.AST) -> set[str]:
    """Names that statements, one after the other, read and do not bind before."""
    names: set[str] = set()
    for part in reversed(block):
        if isinstance(part, ast.Assign | ast.FunctionDef | ast.Import | ast.ImportFrom):
            names -= sets(part)  # what was there before is gone
        if isinstance(part, ast.For):
            targets = {node.id for node in ast.walk(part.target) if isinstance(node, ast.Name)}
            names |= rests_on(part.iter) | rests_on(*part.body, *part.orelse) - targets
        else:
            names |= read(names_of(part))
            added = [node.target for node in ast.walk(part) if isinstance(node, ast.AugAssign)]
            names |= {target.id for target in added if isinstance(target, ast.Name)} & sets(part)
    return names


def sets(statement: ast.stmt) -> set[str]:
    """Names that a statement binds."""
    table = names_of(statement)
    return {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()}


def changes(statement: ast.stmt) -> set[str]:
    """Names whose value a statement changes in place, or may change as it calls a method."""
    found = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found |= {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            inner: ast.expr = node.func.value
            while isinstance(inner, ast.Subscript | ast.Attribute):
                inner = inner.value
            found |= {inner.id} if isinstance(inner, ast.Name) else set()
    for loop in ast.walk(statement):
        if isinstance(loop, ast.For) and any(
            isinstance(n, ast.Name) and n.id in found for n in ast.walk(loop.target)
        ):
            # what it goes through
            found |= {node.id for node in ast.walk(loop.iter) if isinstance(node, ast.Name)}
    return found & rests_on(statement) - set(dir(builtins))


def needed(page: list[ast.stmt], claim: str) -> list[ast.stmt]:
    """Return what the decision of a claim rests on, and the decision, in order."""
    *_, last = [k for k, statement in enumerate(page) if claim in decided(statement)]
    imported = set().union(*(sets(s) for s in page if isinstance(s, ast.Import | ast.ImportFrom)))
    names = rests_on(page[last])
    kept = [page[last]]
    for statement in reversed(page[:last]):
        bound = sets(statement)
        if (bound | changes(statement) - imported) & names and not shows(statement):
            kept.append(statement)
            if isinstance(statement, ast.Assign | ast.FunctionDef | ast.Import | ast.ImportFrom):
                names -= bound
            names |= rests_on(statement)
    return kept[::-1]


def called(statements: Iterable[ast.stmt], package: str) -> list[str]:
    """Dotted names of what statements use of a package, by what those among them import.

    Examples
    --------
    >>> page = "from hdpm_lib import noise, spread\\nx = noise.laplace(1)"
    >>> called(ast.parse(page).body, "hdpm_lib")
    ['hdpm_lib.noise.laplace']
    """
    origin: dict[str, str] = {}
    found = set()
    for statement in statements:
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                origin[alias.asname or alias.name] = f"{statement.module}.{alias.name}"
            continue
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                top = alias.name.partition(".")[0]
                origin[alias.asname or top] = alias.name if alias.asname else top
            continue
        inside = {id(node.value) for node in ast.walk(statement) if isinstance(node, ast.Attribute)}
        for node in ast.walk(statement):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                name, end = node.value.id, f".{node.attr}"
            elif isinstance(node, ast.Name) and id(node) not in inside:
                name, end = node.id, ""
            else:
                continue
            if name in origin and f"{origin[name]}.".startswith(f"{package}."):
                found.add(origin[name] + end)
    return sorted(found)
