"""The directive ``{recorded}``: when and how numbers came about that a page does not compute::

    ```{recorded} accuracy
    ```

It says the day, the commit, the command and the seconds of a record, and which of the code that it
ran is another in this build.
"""

from __future__ import annotations

from datetime import date

from colophon import in_words
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from hdpm_book import records
from hdpm_book.records import Row

SHOWN = 5  # names of changed modules; of more than these their number


def sentences(record: Row) -> str:
    """Return what a reader wants to know of a record.

    Examples
    --------
    >>> made = {"date": "2026-11-29", "commit": "0123456789", "cpu_seconds": 12.3}
    >>> for sentence in sentences(made | {"code": {"hdpm_lib.gone": "a"}}).split(". "):
    ...     print(sentence)
    Recorded on 29 November 2026 at commit 0123456 in 12 s of a processor
    Of the code that it ran this has changed since: hdpm_lib.gone.
    >>> sentences({"commit": "0123456-dirty"}).partition(". ")[0]
    'Recorded at commit 0123456, with changes'
    """
    text = "Recorded"
    if "date" in record:
        text += f" on {in_words(date.fromisoformat(record['date']))}"
    text += f" at commit {record['commit'][:7]}"
    if record["commit"].endswith("-dirty"):
        text += ", with changes"
    if "command" in record:
        text += f' by "{record["command"]}"'
    if "cpu_seconds" in record:
        text += f" in {record['cpu_seconds']:.0f} s of a processor"
    elif "seconds" in record:
        text += f" in {record['seconds']:.0f} s"
    text += ". "
    if "remark" in record:
        text += record["remark"] + " "
    if "again" in record:
        day = in_words(date.fromisoformat(record["again"]["date"]))
        text += (
            f"Its first row came out again on {day}, at commit {record['again']['commit'][:7]}. "
        )
    if "code" not in record:
        return text + "It does not say which code it ran, so it cannot be compared with today's."
    changed = records.changed(record)
    if not changed:
        return text + "The code that it ran is that of this build."
    if len(changed) > SHOWN:
        return (
            text
            + f"Of the {len(record['code'])} modules that it ran {len(changed)} have changed since."
        )
    return text + f"Of the code that it ran this has changed since: {', '.join(changed)}."


class RecordedDirective(SphinxDirective):
    """``{recorded} name``: where the numbers of a record come from."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        file = records.record_file(name)
        self.env.note_dependency(str(file))
        self.env.note_reread()  # the code it ran may change
        line = nodes.paragraph(classes=["hdpm-recorded"])
        line += nodes.Text(sentences(records.recorded(name)))
        return [line]


def setup(app: object) -> dict[str, object]:
    """Register with Sphinx."""
    app.add_directive("recorded", RecordedDirective)  # type: ignore[attr-defined]
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
