"""Which records are of other code than today's, and whether their first row comes out again.

``python -m tests.records`` lists the records with the code that has changed since; of studies that
are made row by row it makes the first row once more. If that is equal, the record takes today's
digests, so that code may be rewritten which still does the same. Nothing here is a failure: a
record that does not come out again is made anew, or its page says so.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from hdpm_book import records
from hdpm_book.beyond import guide
from hdpm_book.federated import accuracy, levels
from hdpm_book.federated import study as published
from hdpm_book.privacy import benchmark
from hdpm_book.records import Row, Study

STUDIES: dict[str, Callable[[], Study]] = {
    "accuracy": accuracy.study,
    "audit-benchmark": benchmark.study,
    "guide": guide.study,
    "levels": levels.study,
    "published": published.study,
}
TIMED = ("seconds",)  # parts of a row that are another each time


def comes_out(name: str, study: Study) -> bool:
    """Whether the first row of a record comes out again."""
    jobs, row, _ = study
    then = records.recorded(name)["rows"][0]
    now = row(*jobs[0])
    return all(now[part] == then[part] for part in then if part not in TIMED)


def renewed(record: Row) -> Row:
    """A record whose first row has come out again, with the digests of today."""
    now = records.code()
    if "code" in record:
        now = record["code"] | {name: now[name] for name in record["code"] if name in now}
    again = {"date": date.today().isoformat(), "commit": records.commit()}
    return record | {"code": now, "again": again}


def main() -> None:
    """List all records, and try the first rows of those that changed."""
    for folder in records.RESULTS:
        for file in sorted((records.ROOT / folder).glob("*.json")):
            name = file.stem
            record = records.recorded(name)
            if "code" not in record:
                print(f"{name}: does not say which code it ran")
            elif changed := records.changed(record):
                print(f"{name}: changed since: {', '.join(changed)}")
            else:
                print(f"{name}: of today's code")
                continue
            if name in STUDIES:
                equal = comes_out(name, STUDIES[name]())
                print(f"  its first row comes out {'equal' if equal else 'DIFFERENT'}")
                if equal:
                    records.store(file, renewed(record))


if __name__ == "__main__":
    main()
