"""Theorems, figures, tables, equations and exercises are numbered by chapter: Theorem 3.4 is the
fourth of chapter 3.

A chapter is an entry of the table of contents whose title begins with its number; its pages
continue one another's numbers. So a number of the book, with its dot, does not look like a paper's.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import yaml


def chapters(contents: dict[str, Any]) -> dict[str, int]:
    """Return the number of the chapter of each page in a table of contents.

    Examples
    --------
    >>> first = {"file": "a", "title": "3. Contracts", "sections": [{"file": "b"}]}
    >>> chapters({"chapters": [first, {"file": "c"}]})
    {'a': 3, 'b': 3}
    """
    found = {}

    def walk(entry: dict[str, Any], number: int) -> None:
        title = re.match(r"\d+", entry.get("title", ""))
        number = int(title[0]) if title else number
        if number:
            found[entry["file"]] = number
        for below in entry.get("sections", ()):
            walk(below, number)

    for entry in contents.get("chapters", ()):
        walk(entry, 0)
    return found


def renumber(app: Any, env: Any) -> list[str]:
    """Give what Sphinx numbered through the whole book its number in the chapter; all pages have to
    be written.
    """
    contents = yaml.safe_load((Path(app.srcdir) / "_toc.yml").read_text(encoding="utf8"))
    chapter = chapters(contents)
    count = Counter[tuple[int, str]]()
    for docname, kinds in env.toc_fignumbers.items():  # in the order of the contents
        for kind, numbers in kinds.items():
            for name in numbers:
                key = chapter.get(docname, 0), kind
                count[key] += 1
                numbers[name] = (key[0], count[key]) if key[0] else (count[key],)
    return sorted(env.toc_fignumbers)


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx, after its own numbering."""
    app.connect("env-get-updated", renumber, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
