"""Operators for Cosmic Ray: ways in which privacy breaks although no operator and no number has
changed.

Each replaces one piece of source by another. They are a provider of Cosmic Ray's, ``hdpm``, once
this module is loaded.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import cosmic_ray.plugins
from cosmic_ray.operators.operator import Example, Operator
from parso.python.tree import Name

DRAWS = (
    "spherical_laplace laplace discrete_laplace draw_laplace gradient_noise released with_noise"
    " standard_normal standard_gamma gamma exponential random integers normal permutation choice"
    " uniform shuffle _coins _uncut _geometric"
).split()
DATA = "X y records terms data gradients value features labels costs bids valuations".split()
BOUNDS = "feature_norm label_bound norm_bound clip_norm radius low high spacing centre".split()
OTHERS = {
    "minimum": "maximum",
    "maximum": "minimum",
    "min": "max",
    "max": "min",
    "floor": "ceil",
    "ceil": "floor",
    "any": "all",
    "all": "any",
    "zeros": "ones",
    "ones": "zeros",
    "cumsum": "cumprod",
    "sum": "prod",
    "argmin": "argmax",
    "argmax": "argmin",
    "less": "greater",
    "sqrt": "square",
    "square": "sqrt",
    "exp": "expm1",
    "log": "log1p",
    "log1p": "log",
    "expm1": "exp",
    "sort": "flip",
    "abs": "negative",
    "argsort": "ravel",
}
SEED = "np.random.default_rng(0)"
EIGHT_BITS = "np.random.default_rng(rng.integers(256))"
Place = tuple[tuple[int, int], tuple[int, int]]


def code_of(node: Any) -> str:
    """Source of a node, without what stands before it."""
    return str(node.get_code(include_prefix=False))


def called(node: Any) -> str:
    """Return the name of the function that a node calls with its last part, or nothing."""
    if node.type not in ("atom_expr", "power") or not code_of(node).endswith(")"):
        return ""
    last = node.children[-1]
    if last.type != "trailer" or last.children[0].value != "(":
        return ""
    name = node.children[-2]
    name = name.children[-1] if name.type == "trailer" else name
    return name.value if name.type == "name" else ""


def arguments(node: Any) -> list[Any]:
    """Arguments of the last call of a node, without the commas."""
    inner = node.children[-1].children[1:-1]
    inner = inner[0].children if inner and inner[0].type == "arglist" else inner
    return [part for part in inner if code_of(part) != ","]


def replaced(node: Any, *changes: tuple[Any, str]) -> str:
    """Source of a node with other texts for some of the nodes in it."""
    new = {id(old): text for old, text in changes}

    def source(part: Any) -> str:
        if id(part) in new:
            return str(part.get_first_leaf().prefix) + new[id(part)]
        return (
            "".join(map(source, part.children))
            if hasattr(part, "children")
            else str(part.get_code())
        )

    return source(node)[len(node.get_first_leaf().prefix) :]


class Replacer(Operator):
    """An operator that offers texts to stand for a node."""

    shown: tuple[tuple[str, str], ...] = ()

    def texts(self, node: Any) -> Iterator[str]:
        """Texts that may stand in the place of a node."""
        raise NotImplementedError

    def mutation_positions(self, node: Any) -> Iterator[Place]:
        """One place for each text."""
        return (
            (node.start_pos, node.end_pos) for text in self.texts(node) if text != code_of(node)
        )

    def mutate(self, node: Any, index: int) -> Any:
        """Return the node with one of the texts."""
        text = [text for text in self.texts(node) if text != code_of(node)][index]
        return Name(text, node.start_pos, prefix=node.get_first_leaf().prefix)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Return what the tests of the operators try."""
        return tuple(Example(before, after) for before, after in cls.shown)


class SinglePrecision(Replacer):
    """Random numbers, or a result, in 32 bits."""

    shown = (
        ("z = rng.laplace(0, b)", "z = np.float32(rng.laplace(0, b))"),
        ("def f():\n    return a * b", "def f():\n    return np.float32(a * b)"),
    )

    def texts(self, node: Any) -> Iterator[str]:
        result = node.type in ("term", "arith_expr") and node.parent.type == "return_stmt"
        if called(node) in DRAWS or result:
            yield f"np.float32({code_of(node)})"


class Seeded(Replacer):
    """A generator of its own, always the same or one of 256, in place of the one that is given."""

    shown = (("f(a, rng=rng)", f"f(a, rng={SEED})"), ("rng.random(3)", f"{SEED}.random(3)"))

    def texts(self, node: Any) -> Iterator[str]:
        for source in (SEED, EIGHT_BITS):
            if node.type == "argument" and code_of(node) == "rng=rng":
                yield f"rng={source}"
            elif (
                node.type == "atom_expr"
                and called(node)
                and code_of(node).startswith(("rng.", "self.rng."))
            ):
                yield source + code_of(node)[code_of(node).index("rng.") + 3 :]


class Kept(Replacer):
    """A draw, or what a function of the module gives, that is made once for each shape and used
    again.
    """

    keep = "(lambda v: globals().setdefault(f'kept{type(v)}{np.shape(v)}', v))"
    shown = (("z = rng.laplace(0, b)", f"z = {keep}(rng.laplace(0, b))"),)

    def texts(self, node: Any) -> Iterator[str]:
        plain = (
            node.type == "atom_expr" and len(node.children) == 2 and node.children[0].type == "name"
        )
        own = plain and node.parent.type in ("expr_stmt", "return_stmt", "term", "arith_expr")
        if called(node) in DRAWS or (
            own and called(node) and not called(node).startswith("check_")
        ):
            yield f"{self.keep}({code_of(node)})"


class BoundFromData(Replacer):
    """The largest number in the data for a public bound."""

    shown = (
        (
            "def f(X, radius):\n    return g(radius)",
            "def f(X, radius):\n    return g(float(np.abs(X).max()))",
        ),
    )

    def texts(self, node: Any) -> Iterator[str]:
        if (
            node.type != "name"
            or node.value not in BOUNDS
            or node.is_definition()
            or node.parent.type == "param"
        ):
            return
        attribute = node.parent.type == "trailer" and node.parent.children[0].value == "."
        if attribute or (node.parent.type == "argument" and node.parent.children[0] is node):
            return
        function = node.search_ancestor("funcdef")
        names = [p.name.value for p in function.get_params()] if function is not None else []
        for name in DATA:
            if name in names:
                yield f"float(np.abs({name}).max())"


class Exchanged(Replacer):
    """Two arguments of a call exchanged."""

    shown = (("f(a, b)", "f(b, a)"),)

    def texts(self, node: Any) -> Iterator[str]:
        if called(node) and not re.match(
            r"check_|isinstance|zip|range|getattr|enumerate|\w*Error", called(node)
        ):
            given = [a for a in arguments(node) if a.type != "argument"]
            for one, two in itertools.pairwise(given):
                yield replaced(node, (one, code_of(two)), (two, code_of(one)))


class LeftOut(Replacer):
    """A step that is not made, or an argument by name that is not given."""

    shown = (("x += 1", "pass"), ("f(a, clip=b)", "f(a)"))

    def texts(self, node: Any) -> Iterator[str]:
        operator = (
            code_of(node.children[1])
            if node.type == "expr_stmt" and len(node.children) == 3
            else ""
        )
        alone = (
            node.parent is not None
            and node.parent.type == "simple_stmt"
            and node.parent.children[0] is node
        )
        if (operator.endswith("=") and operator != "=") or (alone and called(node)):
            yield "pass"
        if called(node) and not called(node).startswith("check_"):
            for argument in arguments(node):
                if argument.type == "argument" and not code_of(argument).startswith(
                    ("rng=", "strict=", "dtype=", "*")
                ):
                    text = replaced(node, (argument, "\0"))
                    yield re.sub(r",\s*\0|\0,?\s*", "", text)


class OtherFunction(Replacer):
    """One function of NumPy or Python for another."""

    shown = (("np.minimum(a, b)", "np.maximum(a, b)"), ("a.any()", "a.all()"))

    def texts(self, node: Any) -> Iterator[str]:
        if node.type == "name" and node.value in OTHERS:
            trailer = node.parent if node.parent.type == "trailer" else node
            after = trailer.get_next_sibling()
            if after is not None and after.type == "trailer" and after.children[0].value == "(":
                yield OTHERS[node.value]


OPERATORS = {
    c.__name__: c
    for c in (SinglePrecision, Seeded, Kept, BoundFromData, Exchanged, LeftOut, OtherFunction)
}
cosmic_ray.plugins.OPERATOR_PROVIDERS["hdpm"] = OPERATORS
