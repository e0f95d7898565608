"""The formatter of chapters' cells changes code and nothing else, and sees what is not
formatted.
"""

from __future__ import annotations

from tests.format_chapters import ROOT, checked, not_ignored, reformat

LOOKS_AT = ["README.md", "pyproject.toml"]
PAGE = """---
hdpm: {data: [x]}
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


def test_only_code_cells_change_and_only_once() -> None:
    formatted = PAGE.replace("x=  1", "x = 1").replace("{'a':1}", '{"a": 1}')
    assert reformat([PAGE, formatted]) == [formatted] * 2


def test_code_of_a_page_is_checked() -> None:
    assert checked({"book/a": PAGE}) == 0
    assert checked({"book/a": PAGE, "book/b": PAGE.replace("x=  1", "import os")}) != 0


def test_copies_that_an_editor_keeps_are_not_pages() -> None:
    page = ROOT / "README.md"
    copy = ROOT / "book" / ".ipynb_checkpoints" / "index-checkpoint.md"
    assert not_ignored([page, copy]) == [page]
