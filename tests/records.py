"""Which records are of other code than today's, and whether their first row comes out again.

``python -m tests.records`` lists the records with the code that has changed since; of studies that
are made row by row it makes the first row once more. If that is equal, the record takes today's
digests, so that code may be rewritten which still does the same. Nothing here is a failure: a
record that does not come out again is made anew, or its page says so.

``python -m tests.records NAME`` looks at one record: each has a process of its own, whose modules
are those that its run has loaded.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from importlib import import_module

from hdpm_book import records
from hdpm_book.records import Row, Study

STUDIES = {  # the modules of those that are made row by row
    "accuracy": "hdpm_book.federated.accuracy",
    "audit-benchmark": "hdpm_book.privacy.benchmark",
    "guide": "hdpm_book.beyond.guide",
    "levels": "hdpm_book.federated.levels",
    "published": "hdpm_book.federated.study",
}
TIMED = ("seconds",)  # parts of a row that are another each time


def comes_out(name: str, study: Study) -> bool:
    """Whether the first row of a record comes out again."""
    jobs, row, _ = study
    then = records.recorded(name)["rows"][0]
    now = row(*jobs[0])
    return all(now[part] == then[part] for part in then if part not in TIMED)


def renewed(record: Row) -> Row:
    """Return a record whose first row has come out again, with the digests of today."""
    now = records.code()
    if "code" in record:
        now = record["code"] | {name: now[name] for name in record["code"] if name in now}
    again = {"date": date.today().isoformat(), "commit": records.commit()}
    return record | {"code": now, "again": again}


def look_at(name: str) -> None:
    """Say what has changed behind a record, and try its first row if anything has."""
    record = records.recorded(name)
    if "code" not in record:
        print(f"{name}: does not say which code it ran")
    elif changed := records.changed(record):
        print(f"{name}: changed since: {', '.join(changed)}")
    else:
        print(f"{name}: of today's code")
        return
    if name not in STUDIES:
        return
    equal = comes_out(name, import_module(STUDIES[name]).study())
    print(f"  its first row comes out {'equal' if equal else 'DIFFERENT'}")
    if equal:
        records.store(records.record_file(name), renewed(record))


def main() -> None:
    """Look at the records that are named, or at each in a process of its own."""
    if names := sys.argv[1:]:
        for name in names:
            look_at(name)
        return
    for folder in records.RESULTS:
        for file in sorted((records.ROOT / folder).glob("*.json")):
            subprocess.run([sys.executable, "-m", "tests.records", file.stem], check=True)


if __name__ == "__main__":
    main()
