r"""Random faults in the source of the learners: what can be replaced there, and how a fault is planted.

A *fault* replaces one piece of a function that a release or its promise runs through: an operator, a comparison, a
constant, a branch, a function, an argument, a dtype, a seed, or a call by one that remembers its first answer. The
module is compiled anew in a process of its own, with the fault in its syntax tree, so that whatever runs there runs
with it; a tool such as mutmut or cosmic-ray runs unit tests and nothing else, and knows no dtypes, seeds or caches.
"""

from __future__ import annotations

import ast
import builtins
import copy
import importlib.util
import sys
import types
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

EACH, FIRST = 36, 26  # faults in a module; of these, those that were drawn before gaps in the checks were closed
LIBRARY = ("hdpm_lib", "hdpm_book", "tests", "conftest", "execution")  # what is imported anew, with a fault

MODULES: dict[str, tuple[str, ...]] = {  # and the functions that stay as they are, as no release runs through them
    "learners.ridge": (),
    "learners.logistic": (),
    "learners.queries": ("worst_case_mse", "bias"),
    "learners.gradients": ("draw_bidders", "accuracy"),
    "learners.fedsgd": (),
    "ridge.jorgensen": ("loss",),
    "ridge.variants": (),
    "learners.integer_answers": (),
    "learners.lattice": (),
    "learners.estimators": ("private_pipeline", "__sklearn_tags__", "__init__"),
    "noise": ("norm_law", "coordinate_variance", "log_density"),
    "discrete": (),
}
KINDS = ("operator", "comparison", "constant", "branch", "function", "argument", "dtype", "seed", "cache")


@dataclass(frozen=True)
class Fault:
    """One replacement in the source.

    Attributes
    ----------
    module : str
        Below ``hdpm_lib``, or ``hdpm_book`` for the paper's variants of ridge regression.
    function : str
    kind : str, one of `KINDS`
    before, after : str, what stood there and what stands there now
    number : int
        Which of the places in the function where this is possible.
    """

    module: str
    function: str
    kind: str
    before: str
    after: str
    number: int = 0

    @property
    def name(self) -> str:
        """Short and unique."""
        place = f" ({self.number + 1})" if self.number else ""
        return f"{self.module}.{self.function}: {self.before} → {self.after}{place}"


# --- what can be replaced ---------------------------------------------------------------------------------------------

_OPERATORS: dict[type[ast.AST], tuple[type[Any], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
}
_COMPARISONS: dict[type[ast.AST], tuple[type[Any], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
}
_FUNCTIONS = {
    "minimum": "maximum", "maximum": "minimum", "min": "max", "max": "min", "floor": "ceil", "ceil": "floor",
    "any": "all", "all": "any", "sum": "mean", "sqrt": "abs", "exp": "expm1", "expm1": "exp", "log1p": "log",
    "trunc": "rint", "rint": "trunc", "argmax": "argmin", "argmin": "argmax", "ones": "zeros", "zeros": "ones",
    "clipped": "np.asarray", "zeros_like": "ones_like", "isqrt": "sqrt", "numerator": "denominator",
    "denominator": "numerator", "eigh": "eig", "cumsum": "cumprod", "lcm": "gcd", "gcd": "lcm",
}  # fmt: skip
_DRAWS = frozenset(
    """laplace gamma standard_normal integers random spherical_laplace discrete_laplace lattice_laplace gradient_noise
    permuted _uncut _noise release""".split()
)
_SEEDED = ("np.random.default_rng(0)", "np.random.default_rng(rng.integers(2**8))")
_KEPT = "_kept"  # in a module with a cache: what a place gave first, for each shape


def _places(function: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Nodes of a function whose children may be replaced: parent, field and index; no texts of errors, no types."""
    for field, value in ast.iter_fields(function):
        if field in ("decorator_list", "returns", "annotation", "type_params", "arg"):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Raise | ast.JoinedStr | ast.ClassDef):
                continue
            if isinstance(child, ast.FunctionDef) and field == "body" and not isinstance(function, ast.FunctionDef):
                continue
            yield function, field, index
            yield from _places(child)


def _replacements(node: Any) -> Iterator[tuple[str, Any]]:
    """Kinds and nodes that may stand in its place."""
    if isinstance(node, ast.BinOp):
        for other in _OPERATORS.get(type(node.op), ()):
            yield "operator", ast.BinOp(node.left, other(), node.right)
    elif isinstance(node, ast.AugAssign):
        for other in _OPERATORS.get(type(node.op), ()):
            yield "operator", ast.AugAssign(node.target, other(), node.value)
        yield "branch", ast.Pass()
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        yield "operator", node.operand
    elif isinstance(node, ast.Compare):
        for k, op in enumerate(node.ops):
            for other in _COMPARISONS.get(type(op), ()):
                yield (
                    "comparison",
                    ast.Compare(node.left, [*node.ops[:k], other(), *node.ops[k + 1 :]], node.comparators),
                )
    elif isinstance(node, ast.Constant):
        yield from (("constant", ast.Constant(value)) for value in _other_constants(node.value))
    elif isinstance(node, ast.If):
        for test in (ast.Constant(True), ast.Constant(False), ast.UnaryOp(ast.Not(), node.test)):
            yield "branch", ast.If(test, node.body, node.orelse)
    elif isinstance(node, ast.IfExp):
        yield from (("branch", part) for part in (node.body, node.orelse))
    elif isinstance(node, ast.BoolOp):
        joined = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "branch", ast.BoolOp(joined, node.values)
        yield "branch", node.values[0]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "branch", ast.Pass()
    elif isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        if isinstance(node.ctx, ast.Load) and name in _FUNCTIONS:
            new = _FUNCTIONS[name]
            renamed = (
                ast.Name(new, ast.Load()) if isinstance(node, ast.Name) else ast.Attribute(node.value, new, ast.Load())
            )
            yield "function", _expression(new) if "." in new else renamed
        if ast.unparse(node) in ("np.int64", "np.float64"):
            yield "dtype", _expression(ast.unparse(node).replace("64", "32"))
    elif isinstance(node, ast.keyword) and ast.unparse(node) in ("dtype=float",):
        yield "dtype", ast.keyword("dtype", _expression("np.float32"))
    if isinstance(node, ast.Call):
        yield from _other_calls(node)
    if isinstance(node, ast.Assign | ast.Return) and isinstance(node.value, ast.BinOp):
        single = copy.copy(node)
        single.value = ast.Call(_expression("np.float32"), [node.value], [])
        yield "dtype", single


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _other_constants(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1, 2 * value] if value else [1]
    return [2 * value, 0.9 * value] if isinstance(value, float) else []


def _other_calls(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    """Calls with other arguments, in single precision, with a generator of their own, or made only once."""
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called.startswith("check_") or called in ("zip", "enumerate", "isinstance", "range", "getattr"):
        return
    plain = not any(isinstance(argument, ast.Starred) for argument in node.args)
    for k in range(len(node.args) - 1 if plain else 0):
        swapped = [*node.args[:k], node.args[k + 1], node.args[k], *node.args[k + 2 :]]
        if ast.unparse(node.args[k]) != ast.unparse(node.args[k + 1]):
            yield "argument", ast.Call(node.func, swapped, node.keywords)
    for k, keyword in enumerate(node.keywords):
        if keyword.arg not in (None, "rng", "dtype", "out", "keepdims", "strict"):
            yield "argument", ast.Call(node.func, node.args, [*node.keywords[:k], *node.keywords[k + 1 :]])
    if called in _DRAWS:
        text = ast.unparse(node)
        yield "dtype", _expression(f"np.asarray({text}, dtype=np.float32).astype(float)")
    for source in _SEEDED:
        for k, keyword in enumerate(node.keywords):
            if keyword.arg == "rng":
                seeded = ast.keyword("rng", _expression(source))
                yield "seed", ast.Call(node.func, node.args, [*node.keywords[:k], seeded, *node.keywords[k + 1 :]])
        if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "rng":
            yield (
                "seed",
                ast.Call(
                    ast.Attribute(_expression(source), node.func.attr, ast.Load()),
                    node.args,
                    node.keywords,
                ),
            )
        for k, argument in enumerate(node.args):
            if ast.unparse(argument) in ("rng", "check_generator(rng)"):
                new = _expression(source)
                yield "seed", ast.Call(node.func, [*node.args[:k], new, *node.args[k + 1 :]], node.keywords)
    if called == "default_rng":
        yield "seed", _expression("np.random.default_rng(0)")
    own = isinstance(node.func, ast.Name) and not called.startswith("_") and called.islower()
    if called in _DRAWS or (own and called not in dir(builtins)):
        yield "cache", ast.Call(ast.Name(_KEPT, ast.Load()), [node], [])


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in tree.body:
        yield from (part for part in (node, *getattr(node, "body", [])) if isinstance(part, ast.FunctionDef))


def _variants(module: str, tree: ast.Module) -> Iterator[tuple[Fault, tuple[ast.AST, str, int | None], ast.AST]]:
    """All faults of a module, with the place and what may stand there."""
    seen: Counter[Fault] = Counter()
    for function in _functions(tree):
        if function.name in MODULES[module]:
            continue
        for place in _places(function):
            parent, field, index = place
            node = getattr(parent, field) if index is None else getattr(parent, field)[index]
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue  # a docstring
            for kind, new in _replacements(node):
                before, after = (_words(ast.unparse(n)) for n in (node, new))
                if before == after:
                    continue
                one = Fault(module, function.name, kind, before, after)
                yield Fault(module, function.name, kind, before, after, seen[one]), place, new
                seen[one] += 1


def _words(code: str) -> str:
    """The first line of a piece of code."""
    return code.splitlines()[0].removesuffix(":")


def full_name(module: str) -> str:
    """Of a module, one of `MODULES`."""
    return f"{'hdpm_book' if module.startswith('ridge.') else 'hdpm_lib'}.{module}"


def source_of(module: str) -> tuple[str, str]:
    """Path and text of a module of the library."""
    found = importlib.util.find_spec(full_name(module))
    assert found is not None and found.origin is not None
    return found.origin, Path(found.origin).read_text("utf8")


def possible(module: str) -> list[Fault]:
    """All faults of a module, one of `MODULES`."""
    return [fault for fault, *_ in _variants(module, ast.parse(source_of(module)[1]))]


def drawn(each: int = EACH) -> list[Fault]:
    """Random faults, that many in each module and as evenly over the kinds as there are places; modules take turns."""
    chosen = []
    for number, module in enumerate(MODULES):
        faults, ranks = possible(module), Counter[str]()
        order = []
        for k in np.random.default_rng([3, number]).permutation(len(faults)):
            kind = faults[k].kind
            order.append((ranks[kind], KINDS.index(kind), faults[k]))
            ranks[kind] += 1
        order.sort(key=lambda entry: entry[:2])
        chosen += [(rank, number, fault) for rank, (*_, fault) in enumerate(order[:each])]
    return [fault for *_, fault in sorted(chosen, key=lambda entry: entry[:2])]


# --- planting ---------------------------------------------------------------------------------------------------------


class _First:
    """What a place gave first, for each shape: a cache that forgets to look at the arguments."""

    def __init__(self) -> None:
        self.kept: dict[Any, Any] = {}

    def __call__(self, value: Any) -> Any:
        return self.kept.setdefault((type(value), np.shape(value) if isinstance(value, np.ndarray) else ()), value)


def plant(fault: Fault) -> None:
    """Have the fault in this process, in a library that is imported anew; a `LookupError` if its place is gone.

    Whatever was imported of the library before stays as it was: use it in a process of its own.
    """
    path, text = source_of(fault.module)
    tree = ast.parse(text)
    here = [(place, new) for found, place, new in _variants(fault.module, tree) if found == fault]
    if not here:
        raise LookupError(f"there is no place any more for {fault.name!r}")
    (parent, field, index), new = here[0]
    if index is None:
        setattr(parent, field, new)
    else:
        getattr(parent, field)[index] = new
    code = compile(ast.fix_missing_locations(tree), path, "exec")
    for name in [name for name in sys.modules if name.partition(".")[0] in LIBRARY]:
        del sys.modules[name]
    name = full_name(fault.module)
    above = importlib.import_module(name.rpartition(".")[0])
    module = types.ModuleType(name)
    module.__dict__.update(__file__=path, __package__=name.rpartition(".")[0], **{_KEPT: _First()})
    sys.modules[name] = module
    exec(code, module.__dict__)
    setattr(above, name.rpartition(".")[2], module)
