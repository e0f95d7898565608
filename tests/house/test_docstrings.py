"""The check of docstrings, ``python -m tests.docstrings``, sees what is missing."""

from __future__ import annotations

import inspect

import pytest

from hdpm_lib.gaussian import gaussian_delta
from tests.docstrings import complaints

NAME = "hdpm_lib.gaussian.gaussian_delta"


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("Parameters", "Warns", "PR01"),
        ("Returns", "Warns", "RT01"),
        ("Examples", "Warns", "EX01"),
        ("epsilon :", "other :", "PR02"),
    ],
)
def test_what_a_docstring_lacks_is_seen(
    old: str, new: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = inspect.getdoc(gaussian_delta) or ""  # without indent, which Python 3.13 leaves out
    assert not list(complaints([NAME])) and old in text
    heads = {f"{old}\n{'-' * len(old)}": f"{new}\n{'-' * len(new)}", old: new}
    full = next(head for head in heads if head in text)
    monkeypatch.setattr(gaussian_delta, "__doc__", text.replace(full, heads[full], 1))
    assert any(f"{NAME}: {code}" in said for said in complaints([NAME]))
