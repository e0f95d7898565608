"""The formatter lays out code cells as ruff does and the rest of a page as jupytext does, and sees
what is not laid out.
"""

from __future__ import annotations

from tests.format_chapters import ROOT, checked, not_ignored, reformat

LOOKS_AT = ["README.md", "pyproject.toml"]
PAGE = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
hdpm: {data: [x]}
note: "kept"
description: "What: a sentence"
---
text  with   spaces, `x=1`

```{code-cell} python3
:tags: [nbval-check-output]
x=  1
```

```{code-cell} python3
---
tags: [hide-input]
mystnb:
  figure: {caption: "a  b"}
---

y = {'a':1}
```

```python
not=a cell
```
"""
KEPT = (
    "description,keywords,hdpm,note,language_info.name,-kernelspec,"
    "-jupytext.text_representation.jupytext_version"
)
LAID_OUT = """---
description: 'What: a sentence'
hdpm:
  data: [x]
jupytext:
  notebook_metadata_filter: KEPT
  text_representation:
    extension: .md
    format_name: myst
    format_version: 0.13
language_info:
  name: python
note: kept
---

text  with   spaces, `x=1`

```{code-cell} ipython3
:tags: [nbval-check-output]

x = 1
```

```{code-cell} ipython3
---
mystnb:
  figure:
    caption: a  b
tags: [hide-input]
---
y = {"a": 1}
```

```python
not=a cell
```
""".replace("KEPT", KEPT)


def test_a_page_is_laid_out_once() -> None:
    assert reformat([PAGE, LAID_OUT]) == [LAID_OUT] * 2


def test_a_page_without_a_jupytext_header_keeps_its_own_layout() -> None:
    prose = '---\ndescription: "One"\n---\n# One\n\n\n* two\n'
    assert reformat([prose]) == [prose]


def test_code_of_a_page_is_checked() -> None:
    assert checked({"book/a": PAGE}) == 0
    assert checked({"book/a": PAGE, "book/b": PAGE.replace("x=  1", "import os")}) != 0


def test_copies_that_an_editor_keeps_are_not_pages() -> None:
    page = ROOT / "README.md"
    copy = ROOT / "book" / ".ipynb_checkpoints" / "index-checkpoint.md"
    assert not_ignored([page, copy]) == [page]
