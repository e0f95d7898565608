"""Whether all that reads a file is run again when the file changes, by 200 planted changes.

``python -m tests.reads [PATH ...]`` runs pages and files of tests, all or those named, each in a
process of its own, and notes which files of the checkout they open, they and the processes that
they start. Then it changes a constant in one file after the other, in a copy of the checkout, and
looks whether each page and each file of tests that has read it would be run again. What pytest
compares anew in each run, references and the table of contents, is left out.
"""

from __future__ import annotations

import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
import execution  # noqa: E402

N_PLANTED = 200
SEED = 0
COMPARED_ANEW = ("_toc.yml", "tests/refs/")
TEXT = (".py", ".md", ".yaml", ".json", ".csv", ".toml", ".txt", "Makefile")
STORED = ROOT / "_build" / "reads.json"
# Each process that starts with this notes which files it opens; a compiled module stands for its
# source.
NOTE = """
import os, sys

noted = os.open(os.environ["NOTED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
seen = set()

def note(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, os.PathLike)):
        path = os.path.abspath(os.fspath(arguments[0]))
        folder, name = os.path.split(path)
        if os.path.basename(folder) == "__pycache__":
            path = os.path.join(os.path.dirname(folder), name.partition(".")[0] + ".py")
        if path not in seen:
            seen.add(path)
            os.write(noted, (path + "\\n").encode())

# of a page what its kernel opens counts: pytest looks at the other pages of its folder, too
if not (os.environ["RUN"].endswith(".md") and "pytest" in sys.orig_argv):
    sys.addaudithook(note)
"""


def sources_of_runs() -> list[str]:
    """Return pages with code, files of tests, and modules with examples."""
    chapters = [path for path in execution.pages() if execution.is_chapter(path)]
    tests = [path for path in ROOT.glob("tests/**/test_*.py") if "site" not in path.parts]
    modules = [path for folder in ("hdpm_lib", "book") for path in (ROOT / folder).rglob("*.py")]
    with_examples = [path for path in modules if ">>>" in path.read_text(encoding="utf8")]
    found = [path for path in chapters + tests + with_examples if "_ext" not in path.parts]
    return [path.relative_to(ROOT).as_posix() for path in found]


def tracked() -> list[str]:
    """Return the files of the checkout."""
    listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True)
    return [name for name in listed.splitlines() if (ROOT / name).is_file()]


def read_by(name: str, *options: str) -> list[str]:
    """Run a page or a file of tests, and return the files of the checkout that were opened."""
    with tempfile.TemporaryDirectory() as folder:
        noted = Path(folder) / "noted"
        (Path(folder) / "sitecustomize.py").write_text(NOTE, encoding="utf8")
        places = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *options, name],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": places, "NOTED": str(noted), "RUN": name},
            stdout=subprocess.DEVNULL,
            check=False,  # what fails has read what it read
        )
        opened = set(noted.read_text(encoding="utf8").splitlines())
    if name.startswith("book/") and name.endswith(".py"):  # as pytest looks at the pages beside it
        opened = {path for path in opened if not path.endswith(".md")}
    return [file for file in tracked() if str(ROOT / file) in opened]


def changed(name: str, text: str, rng: random.Random) -> tuple[str, str] | None:
    """Return a file with another constant in it, and the line or number that is another; nothing if
    there is none.
    """
    if name.endswith(".py"):
        tree = ast.parse(text)
        alone = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]  # docstrings
        constants = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and type(node.value) in (int, float, str)
        ]
        constants = [node for node in constants if node not in alone]
        if not constants:
            return None
        node = rng.choice(constants)
        node.value = f"{node.value}x" if isinstance(node.value, str) else 2 * node.value + 1
        return ast.unparse(tree), repr(node.value)
    start = text.find("```{code-cell}") if name.endswith(".md") else 0
    digits = [found.start() for found in re.finditer(r"\d", text) if found.start() > start]
    if not digits:
        return None
    place = rng.choice(digits)
    digit = str((int(text[place]) + 1) % 10)
    return text[:place] + digit + text[place + 1 :], text[max(place - 20, 0) : place + 20]


def readers_of(name: str, before: str, after: str, reads: dict[str, list[str]]) -> list[str]:
    """Return who has to be run again when a file changes: who has read it; of the ledger and of
    exercises, the pages that name the entry.
    """
    if not name.startswith(("data/claims/", "data/exercises")):
        return [source for source, files in reads.items() if name in files]
    entries = zip(before.split("\n- "), after.split("\n- "), strict=True)
    for old, new in entries:
        if old != new and (found := re.match(r"id: *([\w-]+)", old)):
            return [
                source
                for source in reads
                if source.endswith(".md") and f'"{found[1]}"' in (ROOT / source).read_text("utf8")
            ]
    return []


def plant(reads: dict[str, list[str]], n_planted: int = N_PLANTED, seed: int = SEED) -> list[str]:
    """Change one file after the other, and return who would not be run again, and why."""
    rng = random.Random(seed)
    stale = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in tracked():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
        before = fingerprints(copy, reads)
        candidates = sorted(
            {
                name
                for files in reads.values()
                for name in files
                if not name.startswith(COMPARED_ANEW) and name.endswith(TEXT)
            }
        )
        planted = 0
        while planted < n_planted:
            name = rng.choice(candidates)
            text = (copy / name).read_text(encoding="utf8")
            change = changed(name, text, rng)
            if change is None:
                continue
            planted += 1
            new, where = change
            readers = readers_of(name, text, new, reads)
            (copy / name).write_text(new, encoding="utf8")
            after = fingerprints(copy, readers)
            stale += [
                f"{source}: {name}: {where!r}"
                for source in readers
                if after[source] == before[source]
            ]
            (copy / name).write_text(text, encoding="utf8")
    return stale


def fingerprints(root: Path, names: Iterable[str]) -> dict[str, str]:
    """Return what pages and files of tests are known by, in a copy of the checkout."""
    sources = execution.Sources(root)
    found = {}
    for name in names:
        of = execution.fingerprint if name.endswith(".md") else execution.fingerprint_of_tests
        found[name] = of(root / name, root, sources)
    return found


def main(names: list[str]) -> int:
    """Run pages and tests, plant changes, and print for whom nothing would be run again."""
    names = names or sources_of_runs()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        reads = dict(zip(names, pool.map(read_by, names), strict=True))
    STORED.parent.mkdir(exist_ok=True)
    STORED.write_text(json.dumps(reads, indent=1), encoding="utf8")
    stale = plant(reads)
    print(f"{N_PLANTED} changes in files that {len(reads)} pages and files of tests read")
    for line in stale:
        print(f"not run again: {line}")
    return len(stale) > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
