"""Have Rocq check the theorems of ``proofs/``: ``make proofs``.

``python -m tests.proofs`` compiles what has changed since, in ``_build/proofs``, and compares the
axioms that Rocq prints with ``proofs/axioms.txt`` (``--update`` writes that file). Nothing may be
admitted or assumed. ``--nightly`` runs the independent checker as well, and each wrong statement of
``proofs/wrong.toml``: it must be possible to read, and impossible to prove.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import time
import tomllib
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
from proved import AXIOMS, FOLDER, PROOFS, Proof, needed, read  # noqa: E402

BUILD = ROOT / "_build" / "proofs"
INSTALL = "Rocq is not installed: apt-get install coq libcoq-coquelicot (Debian, Ubuntu; 1 minute)."
# Words that let something pass without a proof, and those that assume what they name
UNPROVED = re.compile(
    r"\b(Admitted|admit|give_up|Axioms?|Parameters?|Conjecture|bypass_check|Unset\s+\w+\s+Checking)\b"
)
COMMENT = re.compile(r"\(\*(?:(?!\(\*|\*\)).)*\*\)", re.DOTALL)


class Broken(Exception):
    """Rocq does not accept a file."""


def unproved(text: str) -> list[str]:
    """Find words by which a file assumes what it ought to prove."""
    before = ""
    while text != before:  # comments may stand in comments
        before = text
        text = COMMENT.sub(" ", text)
    return [found[0] for found in UNPROVED.finditer(text)]


def compile_file(name: str, folder: Path) -> str:
    """Compile one file of a folder and return what Rocq prints."""
    command = ["coqc", f"{name}.v"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Broken(f"{name}.v: {done.stderr.strip()}")
    return done.stdout


def digest(proof: Proof, proofs: dict[str, Proof]) -> str:
    """Return a mark of a file with all that it needs."""
    texts = [other.text for other in needed(proof, proofs)] + [proof.text]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def compiled(proof: Proof, proofs: dict[str, Proof], folder: Path) -> float | None:
    """Compile a file unless that is done; return the seconds it took."""
    mark = folder / f"{proof.name}.digest"
    now = digest(proof, proofs)
    if mark.exists() and mark.read_text(encoding="utf8") == now:
        return None
    mark.unlink(missing_ok=True)
    (folder / f"{proof.name}.v").write_text(proof.text, encoding="utf8")
    started = time.perf_counter()
    printed = compile_file(proof.name, folder)
    (folder / f"{proof.name}.out").write_text(printed, encoding="utf8")
    mark.write_text(now, encoding="utf8")
    return time.perf_counter() - started


def build(names: list[str], proofs: dict[str, Proof], folder: Path = BUILD) -> dict[str, float]:
    """Compile files and what they need, two at a time; return the seconds of each."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {other.name for name in names for other in needed(proofs[name], proofs)} | {*names}
    order = TopologicalSorter(
        {name: {other for other in proofs[name].needs if other in proofs} for name in wanted}
    )
    order.prepare()
    seconds = {}
    running: dict[Future[float | None], str] = {}
    with ThreadPoolExecutor(2) as pool:
        while order.is_active():
            for name in order.get_ready():
                running[pool.submit(compiled, proofs[name], proofs, folder)] = name
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for job in done:
                name = running.pop(job)
                took = job.result()
                if took is not None:
                    seconds[name] = took
                order.done(name)
    return seconds


def printed_axioms(printed: str) -> list[str]:
    """Return the axioms in what ``Print Assumptions`` prints, without the modules they are of.

    Examples
    --------
    >>> printed_axioms("Axioms:\\nClassicalDedekindReals.sig_not_dec : forall P : Prop,\\n  {P}\\n")
    ['sig_not_dec']
    >>> printed_axioms("Closed under the global context\\n")
    []
    """
    found = re.findall(r"(?m)^(?:\w+\.)*(\w+)(?:\n)?\s+:", printed.replace("Axioms:\n", ""))
    return sorted(set(found))


def rests_on(proof: Proof, folder: Path = BUILD) -> list[str]:
    """Return the axioms that Rocq has printed for a file."""
    return printed_axioms((folder / f"{proof.name}.out").read_text(encoding="utf8"))


def complaints(proofs: dict[str, Proof], folder: Path = BUILD) -> list[str]:
    """Compare what compiled files rest on with what is allowed."""
    found = []
    for proof in proofs.values():
        rests = rests_on(proof, folder)
        found += [f"{proof.name}.v rests on {axiom}" for axiom in rests if axiom not in AXIOMS]
        found += [f"{proof.name}.v has the word {word}" for word in unproved(proof.text)]
    return found


def as_table(proofs: dict[str, Proof]) -> str:
    """Return the text of ``axioms.txt``."""
    lines = ["# What each file rests on, as Rocq printed it: python -m tests.proofs --update"]
    for proof in proofs.values():
        if proof.theorems:
            lines.append(f"{proof.name}: {' '.join(rests_on(proof))}".rstrip())
    return "\n".join(lines) + "\n"


def wrong_statements(folder: Path = FOLDER) -> list[dict[str, str]]:
    """Return what ``wrong.toml`` plants: file, text, wrong text, and the file that must break."""
    planted = tomllib.loads((folder / "wrong.toml").read_text(encoding="utf8"))["wrong"]
    return [{"breaks": fault["file"], **fault} for fault in planted]


def survives(fault: dict[str, str], proofs: dict[str, Proof], folder: Path = BUILD) -> str | None:
    """Plant a wrong text in a copy; say what is amiss unless just the proof breaks."""
    name = fault["file"].removesuffix(".v")
    target = fault["breaks"].removesuffix(".v")
    text = proofs[name].text.replace(fault["from"], fault["to"])
    planted = proofs | {name: Proof(name, text)}
    copy = folder.with_name("proofs-wrong")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    # what is read must be possible to read: its definitions and statement are accepted
    read_part = planted[target].text.partition(PROOFS)[0]
    part = Proof(f"{target}_read", read_part)
    try:
        build([part.name], planted | {part.name: part}, copy)
    except Broken as error:
        return f"{target}: {fault['to']!r} is no statement: {error}"
    try:
        build([target], planted, copy)
    except Broken:
        return None
    return f"{target} is proved with {fault['to']!r}"


def check_independently(proofs: dict[str, Proof]) -> None:
    """Have the independent checker go over all compiled files."""
    command = ["coqchk", "-silent", *proofs]
    done = subprocess.run(command, cwd=BUILD, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Broken(done.stderr)


def nightly(proofs: dict[str, Proof]) -> list[str]:
    """Run the independent checker and the wrong statements."""
    started = time.perf_counter()
    check_independently(proofs)
    print(f"coqchk: {len(proofs)} files in {time.perf_counter() - started:.0f} s")
    started = time.perf_counter()
    faults = wrong_statements()
    found = [amiss for fault in faults if (amiss := survives(fault, proofs)) is not None]
    broken = len(faults) - len(found)
    print(
        f"{broken} of {len(faults)} wrong statements break: {time.perf_counter() - started:.0f} s"
    )
    return found


def main(arguments: list[str]) -> int:
    """Check all files; say how long each took and what it rests on."""
    if shutil.which("coqc") is None:
        print(INSTALL)
        return 1
    proofs = read()
    started = time.perf_counter()
    try:
        seconds = build([*proofs], proofs)
    except Broken as error:
        print(error)
        return 1
    if "--update" in arguments:
        (FOLDER / "axioms.txt").write_text(as_table(proofs), encoding="utf8")
    for proof in proofs.values():
        took = f"{seconds[proof.name]:.1f} s" if proof.name in seconds else "done before"
        if proof.theorems:
            print(f"{proof.name}: {took}; axioms: {' '.join(rests_on(proof)) or 'none'}")
    print(f"{len(proofs)} files in {time.perf_counter() - started:.0f} s")
    found = complaints(proofs)
    if (FOLDER / "axioms.txt").read_text(encoding="utf8") != as_table(proofs):
        found.append("proofs/axioms.txt is not what Rocq prints: python -m tests.proofs --update")
    if "--nightly" in arguments:
        found += nightly(proofs)
    print("\n".join(found), end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
