"""What the page :doc:`/book/reference/costs` shows: the stored record of what the library costs.

``make bench`` measures and stores it (``tests/bench``); nothing is timed while the page is built.
Times are seconds of the processor, on one thread, the median of five.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from hdpm_book import plots
from hdpm_book.records import recorded
from hdpm_lib.validation import extra

with extra("book"):
    from matplotlib.figure import Figure

CURVES = len(plots.STYLES)  # of a panel
Row = dict[str, Any]


@cache
def record() -> Row:
    """Tell where and when it was measured, and the `cases`."""
    return recorded("costs")


def where() -> str:
    """Return the machine, date, versions and commit."""
    made = record()
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    return f"{made['hardware']}; {made['date']}; commit {made['commit']}; {versions}"


def rows(wing: str) -> list[Row]:
    """Return what was measured of a wing, or of the ground floor."""
    return [row for row in record()["cases"] if row["wing"] == wing]


def short(name: str) -> str:
    """Return a function without its module, with what it is used for."""
    place, comma, variant = name.partition(",")
    return place.rpartition(".")[2] + comma + variant


def growth(sizes: list[Row]) -> float:
    """Return the exponent of the time in n, fitted to the sizes from a hundredth of the largest on.

    Examples
    --------
    >>> growth([{"n": n, "seconds": 1e-6 * n**2} for n in (10, 100, 1000)])
    2.0
    """
    upper = [row for row in sizes if 100 * row["n"] >= sizes[-1]["n"]]
    if len(upper) < 2:
        return float("nan")
    n, seconds = np.log([[row["n"], row["seconds"]] for row in upper]).T
    return round(float(np.polyfit(n, seconds, 1)[0]), 2)


def duration(seconds: float) -> str:
    """Write two digits and a unit.

    Examples
    --------
    >>> duration(0.0123), duration(2e-6), duration(34.2)
    ('12 ms', '2 µs', '34 s')
    """
    units = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
    unit, name = next(((unit, name) for unit, name in units if seconds >= unit), units[-1])
    value = seconds / unit
    return f"{value:.0f} {name}" if value >= 10 else f"{value:.2g} {name}"


def times(ratio: float) -> str:
    """Write a ratio to two digits, with separators.

    Examples
    --------
    >>> times(12345.0), times(0.0123)
    ('12,000', '0.012')
    """
    value = float(f"{ratio:.2g}")
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"


def instead(peer: Row) -> str:
    """Return a peer, its time, and how many times that of the library on the same input."""
    ratio = times(peer["seconds"] / peer["library"])
    return f"{peer['name']}: {duration(peer['seconds'])} at {peer['n']:,}, {ratio} times ours"


def table(wing: str) -> pd.DataFrame:
    """Return a row for each function of a wing: its growth, what the largest size takes and why no
    size is larger, and what else one would call.
    """
    found = {}
    for row in rows(wing):
        last = row["sizes"][-1]
        bytes_ = row["memory"]
        exponent = growth(row["sizes"])
        ends = f"; {row['ends']}" if row.get("ends") else ""
        found[short(row["name"])] = {
            "largest n": f"{last['n']:,} {row['counts']}{ends}",
            "time": duration(last["seconds"]),
            "growth": "" if np.isnan(exponent) else f"{exponent:.2f}",
            "argsorts": times(last["seconds"] / last["argsort"]),
            "memory": f"{bytes_ / 1e6:.3g} MB",
            "instead": instead(row["peer"]) if "peer" in row else "",
        }
    return pd.DataFrame(found).T.rename_axis("function")


def accuracy() -> pd.DataFrame:
    """Tell how far off the peers are whose answer can be compared."""
    peers = {
        short(row["name"]): row["peer"] for row in record()["cases"] if "off" in row.get("peer", {})
    }
    found = [
        {"function": name, "instead": peer["name"], "what": peer["measure"]}
        | {"n": f"{peer['n']:,}", "off": f"{peer['off']:.2g}"}
        for name, peer in peers.items()
    ]
    return pd.DataFrame(found).set_index("function")


def figure(wing: str) -> Figure:
    """Draw time over n of the functions of a wing, a few a panel, and of one sort of as many
    floats.
    """
    there = rows(wing)
    panels = [there[k : k + CURVES] for k in range(0, len(there), CURVES)]
    size = (5.2, 0.4 + 3.9 * len(panels))
    drawn, axes = plots.subplots(len(panels), sharex=True, sharey=True, squeeze=False, figsize=size)
    for panel, some in zip(axes[:, 0], panels, strict=True):
        for style, row in zip(plots.STYLES, some, strict=False):
            n, seconds = np.array([[size["n"], size["seconds"]] for size in row["sizes"]]).T
            panel.plot(n, seconds, label=short(row["name"]), **style)
        sorts = {size["n"]: size["argsort"] for row in some for size in row["sizes"]}
        n, seconds = np.array(sorted(sorts.items())).T
        panel.plot(n, seconds, label="one argsort", color="#808080", linestyle="--", linewidth=1.2)
        panel.set(xscale="log", yscale="log", ylabel="seconds")
        panel.legend(loc="lower left", bbox_to_anchor=(0, 1), fontsize=8)
    axes[-1, 0].set_xlabel("n")
    return drawn
