"""What sources depend on (``book/_ext/dependencies.py``), held against Python itself."""

from __future__ import annotations

import ast
import doctest
import importlib
import json
import random
import subprocess
import sys
from pathlib import Path

import execution
import pytest
from dependencies import Sources, files, source

from tests import reads

ROOT = Path(__file__).resolve().parents[2]
IMPORTS = """
import json, sys

for code in json.load(sys.stdin):
    for name in [name for name in sys.modules if name.startswith("hdpm_")]:
        del sys.modules[name]
    exec(code, {})
    print(json.dumps([name for name in sys.modules if name.startswith("hdpm_")]))
"""


def test_closure_holds_all_that_the_imports_of_a_page_load() -> None:
    """Python's own answer: what is loaded when the import statements of a page have run."""
    pages = {}
    ours = []
    for path in filter(execution.is_chapter, execution.pages(ROOT)):
        code = pages[path] = execution.python(execution.read(path))
        imports = [
            ast.unparse(n)
            for n in ast.walk(ast.parse(code))
            if isinstance(n, ast.Import | ast.ImportFrom)
        ]
        ours.append("\n".join(line for line in imports if "hdpm_" in line))
    run = subprocess.check_output(
        [sys.executable, "-c", IMPORTS], input=json.dumps(ours), text=True
    )
    sources = Sources(ROOT)
    for (page, code), said in zip(pages.items(), run.splitlines(), strict=True):
        loaded = {name for name in json.loads(said) if name in sources.there}
        assert loaded <= sources.reached(code), page


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import hdpm_lib as hdpm\nhdpm.audit(1)", "hdpm_lib.audits.black_box"),
        ("import hdpm_lib\nhdpm_lib.audits.meters.privacy_losses", "hdpm_lib.audits.meters"),
        ("import hdpm_lib\nvars(hdpm_lib)", "hdpm_lib.learners.ridge"),
        ("from hdpm_lib import audits\ngetattr(audits, name)", "hdpm_lib.audits.one_run"),
        ("def f():\n    from hdpm_lib import noise", "hdpm_lib.noise"),
        ("patch.setattr('hdpm_lib.noise.laplace', None)", "hdpm_lib.noise"),
        ("run('-c', 'import os; from hdpm_lib import spread as s')", "hdpm_lib.spread"),
        ("run('-m', 'tests.spread_tasks')", "tests.spread_tasks"),
        ("import federation", "certificates"),
        ("page_functions('federated/regret', 'error')", "hdpm_book.datasets"),
    ],
)
def test_names_are_followed_wherever_they_stand(code: str, name: str) -> None:
    assert name in Sources(ROOT).reached(code)
    assert name not in Sources(ROOT).reached("x = 1")


def test_nothing_else_is_followed() -> None:
    code = "import numpy as np\nimport hdpm_lib\nnp.audit, audit, 'noise', hdpm_lib.__version__"
    assert Sources(ROOT).reached(code) == {"hdpm_lib"}


def test_every_module_can_be_looked_through() -> None:
    """Also its examples: a docstring that cannot be read would stop the next `make test`."""
    for path in files(ROOT):
        if path.suffix == ".py":
            source(path.read_text(encoding="utf8"))
    with pytest.raises(ValueError, match="inconsistent leading whitespace"):
        source('def f():\n    """Say.\n\n    >>> f("\n")\n    """')


@pytest.mark.parametrize("module", sorted(path.stem for path in (ROOT / "book/_ext").glob("*.py")))
def test_examples_of_the_machinery_are_right(module: str) -> None:
    """Pytest collects none of them: these modules are Sphinx's."""
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_the_texts_of_the_ledger_itself_name_no_entry() -> None:
    sources = Sources(ROOT)
    code = "from hdpm_book.ledger import decide\ndecide('pdp-table01', 'x', printed=True)"
    every = {name: source(sources.code(name)) for name in sources.reached(code)}
    found = sources._entries_named(ROOT / "data" / "claims", every | {"code": source(code)})
    assert "id: pdp-table01" in found and "id: khalili-" not in found


def test_a_change_is_planted_where_it_does_something() -> None:
    rng = random.Random(0)
    text = '"""Words 1."""\n\nx = 1  # 1\n'
    planted = reads.changed("some.py", text, rng)
    assert planted is not None and source(planted[0]).digest == source("x = 3").digest
    assert reads.changed("some.py", '"""Words 1."""', rng) is None
    assert reads.changed("data/some.csv", "a,9", rng) == ("a,0", "a,9")
    page = "3 words\n```{code-cell}\nx = 3\n```\n"
    planted = reads.changed("some.md", page, rng)
    assert planted is not None and planted[0] == page.replace("x = 3", "x = 4")


def test_what_is_read_and_not_seen_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that names nothing of what it reads is found by the first change."""
    unseen = {"tests/test_frozen.py": ["README.md", "hdpm_lib/noise.py"]}
    monkeypatch.setattr(reads, "fingerprints", lambda root, names: dict.fromkeys(names, "same"))
    stale = reads.plant(unseen, n_planted=2)
    assert len(stale) == 2 and all(line.startswith("tests/test_frozen.py: ") for line in stale)
