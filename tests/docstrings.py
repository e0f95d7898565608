"""numpydoc's own validator over the library: ``python -m tests.docstrings [part of a name ...]``.

What the face exports, and the classes that it returns, describe everything; other names may leave
a section out, but what stands there is right.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from typing import Any

from numpydoc.validate import validate

import hdpm_lib

# Text starts and ends beside the quotes; a summary is a noun or a sentence; an extended summary and
# a list of relatives are for those who need them.
STYLE = {"GL01", "GL02", "GL03", "ES01", "SS05", "SA01", "SA04"}
LEFT_OUT = {"PR01", "RT01", "YD01", "EX01", "GL08"}


def defined(module: str) -> Iterator[tuple[str, Any]]:
    """Functions and classes that a module defines, and the public methods of its classes."""
    for name, found in vars(importlib.import_module(module)).items():
        if name.startswith("_") or getattr(found, "__module__", None) != module:
            continue
        if inspect.isfunction(found):
            yield name, found
        elif inspect.isclass(found):
            yield name, found
            for method, value in vars(found).items():
                if not method.startswith("_") and inspect.isfunction(value):
                    yield f"{name}.{method}", value


def public() -> set[str]:
    """Names that stand in the face of the library, and the classes that they return."""
    names = set()
    for name in hdpm_lib.__all__:
        found = getattr(hdpm_lib, name)
        if inspect.ismodule(found):
            continue
        names.add(f"{found.__module__}.{found.__name__}")
        returned = inspect.get_annotations(found).get("return") if callable(found) else None
        if isinstance(returned, str) and returned.isidentifier():
            names.add(f"{found.__module__}.{returned}")
    return names


def complaints(parts: list[str]) -> Iterator[str]:
    """Return what the validator says, a line each."""
    face = public()
    for module in pkgutil.walk_packages(hdpm_lib.__path__, "hdpm_lib."):
        for name, documented in defined(module.name):
            path = f"{module.name}.{name}"
            if parts and not any(part in path for part in parts):
                continue
            owner = path if path in face else path.rpartition(".")[0]
            allowed = STYLE if owner in face else STYLE | LEFT_OUT
            if inspect.isfunction(documented) and "." in name:
                allowed = allowed | {"EX01"}  # a method: its class has the example
            for code, message in validate(path)["errors"]:
                if code not in allowed:
                    yield f"{path}: {code} {message}"


if __name__ == "__main__":
    found = list(complaints(sys.argv[1:]))
    print(*found, f"{len(found)} complaints of numpydoc", sep="\n")
    sys.exit(bool(found))
