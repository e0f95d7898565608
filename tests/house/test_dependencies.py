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
from dependencies import Sources

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
        "print([part.digest for part in dependencies.taken_apart(source).parts.values()])"
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
