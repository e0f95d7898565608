"""What the code of pages comes to (``book/_ext/dependencies.py``), held against Python itself."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import dependencies
import execution
import pytest
from dependencies import Module, Sources

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
        assert loaded <= execution.closure(code, ROOT, sources), page


def test_parts_come_in_one_order_in_every_process() -> None:
    code = (
        "import dependencies; names = 'one, two, three, four, five, six';"
        "source = f'{names} = range(6)\\none = two = 1\\nsix = 2';"
        "print([part.digest for part in dependencies.Module(source).parts.values()])"
    )
    place = str(Path(dependencies.__file__).parent)
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": place, "PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
        ).stdout
        for seed in range(5)
    }
    assert len(found) == 1


def test_what_was_taken_apart_is_kept_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests").mkdir()
    helper = tmp_path / "tests" / "helper.py"
    helper.write_text("def one(): return 1")
    source = "from tests.helper import one\none()"
    first = Sources(tmp_path)
    found = first.reached(source)
    first.keep()
    taken = []
    take_apart = Module.__init__

    def counted(self: Module, text: str) -> None:
        taken.append(text)
        take_apart(self, text)

    monkeypatch.setattr(Module, "__init__", counted)
    again = Sources(tmp_path)
    assert again.reached(source) == found and not taken
    helper.write_text("def one(): return 2")
    changed = Sources(tmp_path)
    assert changed.reached(source) != found and taken == ["def one(): return 2"]
    changed.keep()
    monkeypatch.setattr(dependencies, "KEPT", 1)
    last = Sources(tmp_path)
    last.taken_apart("x = 1")
    last.keep()
    Sources(tmp_path).taken_apart("x = 1")
    assert taken == ["def one(): return 2", "x = 1"]
    Sources(tmp_path).reached(source)
    assert len(taken) == 4  # the oldest are forgotten
