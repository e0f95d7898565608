"""Theorems that Rocq has checked: what the files of ``proofs/`` say, and how pages show them.

A page shows a formal statement, folded, after its own::

    ```{proved} fl-allin-thm-repair
    ```

with the definitions that it needs, the axioms that its proof rests on, and the file. The directive
``{proofs}`` is the table of all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from docutils.statemachine import StringList
from pages import parts
from sphinx.util.docutils import SphinxDirective

from hdpm_book import ledger

FOLDER = Path(__file__).resolve().parents[2] / "proofs"
READ = "(* What has to be read"
PROOFS = "(* The proofs, which need not be read"
BEARS_ON = re.compile(r"(?:Claims?:|[Bb]ears\s+on\s+the\s+claims?)\s([^.]*)")
SHOWN = re.compile(r"(?m)^`{3}\{proved\} (\S+)$")
# Axioms of the standard library that a proof may rest on, in words
AXIOMS = {
    "sig_forall_dec": "of a property that can be decided for each whole number, it is decided "
    "whether all have it",
    "sig_not_dec": "of each statement it is decided whether it can be refuted",
    "functional_extensionality_dep": "functions with equal values are equal",
    "classic": "each statement is true or false",
}


@dataclass(frozen=True)
class Proof:
    """A file of ``proofs/``."""

    name: str
    text: str

    @property
    def label(self) -> str:
        """The label of the theorem, or the claim, that a file is about."""
        return self.name.replace("_", "-")

    @property
    def is_result(self) -> bool:
        """Whether the file is about one statement; others hold what several files need."""
        return re.match(rf"\(\*+\s+{self.label}\b(?!-)", self.text) is not None

    @cached_property
    def header(self) -> str:
        """The comment at the top."""
        return self.text.partition("*)")[0]

    @cached_property
    def statement(self) -> str:
        """What has to be read: definitions, and what is proved."""
        after = self.text.partition(READ)[2].partition("*)")[2]
        return after.partition(PROOFS)[0].strip()

    @cached_property
    def proof(self) -> str:
        """What need not be read."""
        return self.text.partition(PROOFS)[2].partition("\n")[2].strip()

    @cached_property
    def needs(self) -> list[str]:
        """Names that the file loads, also of the standard library."""
        loads = re.findall(r"(?m)^Require (?:Import|Export) ([^.]+)\.", self.text)
        return " ".join(loads).split()

    @cached_property
    def theorems(self) -> list[str]:
        """Theorems whose axioms the file prints."""
        return re.findall(r"Print Assumptions (\w+)\.", self.text)

    @cached_property
    def claims(self) -> list[str]:
        """Claims of the ledger that the header says the file bears on."""
        known = {claim.id for claim in ledger.load()}
        said = BEARS_ON.findall(self.header)
        return [word for word in re.findall(r"[\w-]+", " ".join(said)) if word in known]


def lines(text: str) -> int:
    """Count the lines that are not empty.

    Examples
    --------
    >>> lines("Lemma one.\\n\\nProof.")
    2
    """
    return sum(bool(line.strip()) for line in text.splitlines())


def read(folder: Path = FOLDER) -> dict[str, Proof]:
    """All files, by name."""
    return {
        path.stem: Proof(path.stem, path.read_text(encoding="utf8"))
        for path in sorted(folder.glob("*.v"))
    }


def needed(proof: Proof, proofs: dict[str, Proof]) -> list[Proof]:
    """Files that a file needs, each after those that it needs itself."""
    found: list[Proof] = []
    for name in proof.needs:
        if name not in proofs:
            continue  # of the standard library
        for other in (*needed(proofs[name], proofs), proofs[name]):
            if other not in found:
                found.append(other)
    return found


def to_read(proof: Proof, proofs: dict[str, Proof]) -> list[Proof]:
    """Files whose statements a reader needs: the shared ones, and this one."""
    shared = [other for other in needed(proof, proofs) if not other.is_result and other.statement]
    return [*shared, proof]


def axioms(folder: Path = FOLDER) -> dict[str, list[str]]:
    """Read what each file rests on, as ``axioms.txt`` has it: Rocq printed it."""
    found = {}
    for line in (folder / "axioms.txt").read_text(encoding="utf8").splitlines():
        if line and not line.startswith("#"):
            name, _, names = line.partition(":")
            found[name] = names.split()
    return found


def in_words(names: list[str]) -> str:
    """Say what a proof rests on.

    Examples
    --------
    >>> print(in_words([]))
    It rests on no axiom.
    >>> print(in_words(["classic", "functional_extensionality_dep"]))
    It rests on 2 axioms of Rocq's standard library and on nothing else: each statement is true or false (`classic`); functions with equal values are equal (`functional_extensionality_dep`).
    """  # noqa: E501
    if not names:
        return "It rests on no axiom."
    listed = "; ".join(f"{AXIOMS[name]} (`{name}`)" for name in names)
    some = f"{len(names)} axioms" if len(names) > 1 else "one axiom"
    return f"It rests on {some} of Rocq's standard library and on nothing else: {listed}."


class Written(SphinxDirective):
    """What is written as text of a page."""

    def text(self, proofs: dict[str, Proof]) -> str:
        """Return what stands on the page."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        for path in (*FOLDER.glob("*.v"), FOLDER / "axioms.txt"):
            self.env.note_dependency(str(path))
        source, line = self.get_source_info()
        place = nodes.Element()
        content = StringList(self.text(read()).splitlines(), source)
        self.state.nested_parse(content, line, place)
        return place.children


class Proved(Written):
    """``{proved} label``: the formal statement of a theorem, folded."""

    required_arguments = 1

    def text(self, proofs: dict[str, Proof]) -> str:
        label = self.arguments[0]
        name = label.replace("-", "_")
        if name not in proofs:
            raise self.error(f"proved: there is no proofs/{name}.v")
        proof = proofs[name]
        parts = []
        for other in to_read(proof, proofs):
            said = "The statement" if other is proof else "What it uses"
            parts.append(f"{said}, {link(other)}:\n\n```coq\n{other.statement}\n```")
        shown = "\n\n".join(parts)
        return (
            "::::{dropdown} Checked by a machine: the formal statement\n"
            ":class-container: hide hdpm-proved\n\n"
            f"{shown}\n\n{in_words(axioms()[name])} {{doc}}`What that means </book/use/proofs>`.\n"
            "::::"
        )


class Proofs(Written):
    """``{proofs}``: the table of all that is checked, in the order of the book."""

    def shown(self) -> list[str]:
        """Labels that pages show a formal statement of."""
        root = Path(self.env.srcdir)
        contents = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf8"))
        found = []
        for part in parts(contents, "Front page"):
            path = root / f"{part.name}.md"
            self.env.note_dependency(str(path))
            found += SHOWN.findall(path.read_text(encoding="utf8"))
        return found

    def text(self, proofs: dict[str, Proof]) -> str:
        rests = axioms()
        known = {claim.id for claim in ledger.load()}
        rows = [
            "| Statement | Claims | File | Lines to read | Lines of proof | Axioms |",
            "|---|---|---|---|---|---|",
        ]
        for label in self.shown():
            proof = proofs[label.replace("-", "_")]
            kind = "claim" if proof.label in known else "prf:ref"
            others = [claim for claim in proof.claims if claim != proof.label]
            claims = ", ".join(f"{{claim}}`{claim}`" for claim in others)
            to_be_read = sum(lines(other.statement) for other in to_read(proof, proofs))
            cells = [
                f"{{{kind}}}`{proof.label}`",
                claims,
                link(proof),
                str(to_be_read),
                str(lines(proof.proof)),
                str(len(rests[proof.name])),
            ]
            rows.append(f"| {' | '.join(cells)} |")
        return "\n".join(rows)


def link(proof: Proof) -> str:
    """Return a link to the file, which the site has."""
    return f"{{download}}`{proof.name}.v </proofs/{proof.name}.v>`"


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("proved", Proved)
    app.add_directive("proofs", Proofs)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
