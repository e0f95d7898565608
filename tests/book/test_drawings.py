"""No line of the drawings in ``book/_static`` crosses a word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from hdpm_book.play.explorers import contract
from hdpm_lib.markets.contracts import least_cost_contract

LOOKS_AT = ["book/_static", "book/market.md"]
STATIC = Path(__file__).resolve().parents[2] / "book" / "_static"
Box = tuple[float, float, float, float]  # left, top, right, bottom


def elements(
    one: ElementTree.Element, around: dict[str, str]
) -> Iterator[tuple[str, dict[str, str], str]]:
    """Name, attributes, also those of the groups around it, and words of each element."""
    given = around | one.attrib
    yield one.tag.rpartition("}")[2], given, one.text or ""
    for part in one:
        yield from elements(part, given)


def letters(said: str, given: dict[str, str]) -> Box:
    """The box of a text, in a font that is wider than those of browsers."""
    x, y, size = (float(given[name]) for name in ("x", "y", "font-size"))
    box = TextPath(
        (0, 0), said, size, prop=FontProperties(weight=given.get("font-weight", "normal"))
    ).get_extents()
    left = x - box.width / 2 if given.get("text-anchor") == "middle" else x
    return left, y - box.y1, left + box.width, y - box.y0


def corners(path: str) -> list[tuple[float, float]]:
    """The points of a path of straight lines."""
    found: list[tuple[float, float]] = []
    x = 0.0
    y = 0.0
    start = (0.0, 0.0)
    for command, numbers in re.findall(r"([a-zA-Z])([-\d\s.]*)", path):
        given = [float(one) for one in re.findall(r"-?[\d.]+", numbers)]
        if command in "hvHV" and len(given) == 1:
            along, up = (given[0], None) if command in "hH" else (None, given[0])
        elif command in "mlML" and len(given) == 2:
            along, up = given
        elif command == "z" and not given:
            command, (along, up) = "L", start
        else:
            raise NotImplementedError(f"{command} {numbers} of {path}")
        near = command.islower()
        x = x if along is None else near * x + along
        y = y if up is None else near * y + up
        start = (x, y) if command in "mM" else start
        found.append((x, y))
    return found


def edges(name: str, given: dict[str, str]) -> Iterator[Box]:
    """The lines of a path or a rectangle, as wide as they are drawn."""
    if name == "rect":
        x = float(given.get("x", 0))
        y = float(given.get("y", 0))
        points = corners(f"M{x} {y}h{given['width']}v{given['height']}h-{given['width']}z")
    else:
        points = corners(given["d"]) if name == "path" else []
    wide = float(given.get("stroke-width", 1)) / 2 if given.get("stroke") else 0.0
    for (x0, y0), (x1, y1) in pairwise(points):
        yield min(x0, x1) - wide, min(y0, y1) - wide, max(x0, x1) + wide, max(y0, y1) + wide


def crossed(drawing: str) -> list[str]:
    """The texts of a drawing that some line crosses."""
    found = list(elements(ElementTree.fromstring(drawing), {}))
    lines = [line for name, given, _ in found for line in edges(name, given)]
    return [
        said
        for name, given, said in found
        if name == "text"
        for left, top, right, bottom in [letters(said, given)]
        if any(x0 < right and left < x1 and y0 < bottom and top < y1 for x0, y0, x1, y1 in lines)
    ]


@pytest.mark.parametrize("file", sorted(STATIC.glob("*.svg")), ids=lambda file: file.name)
def test_no_line_crosses_a_word(file: Path) -> None:
    drawing = file.read_text(encoding="utf8")
    assert len(list(elements(ElementTree.fromstring(drawing), {}))) > 1
    assert crossed(drawing) == []


@pytest.mark.parametrize(("x", "found"), [(472, []), (510, ["counts 18 %"])])
def test_a_word_on_the_edge_of_a_box_is_seen(x: int, found: list[str]) -> None:
    drawing = (STATIC / "market.svg").read_text(encoding="utf8")
    moved, count = re.subn(r'(<text x=")472("[^>]*>counts 18)', rf"\g<1>{x}\2", drawing)
    assert count == 1 and crossed(moved) == found


def test_the_numbers_of_the_first_picture_are_those_of_the_library() -> None:
    drawing = (STATIC / "market.svg").read_text(encoding="utf8")
    said = re.findall(r">(?:asks|loses|gets|counts) ([\d.]+)[ <]", drawing)
    bought = contract("1, 2, 4", "1", "error", "0.2", "0").rows
    shares = [f"{100 * float(share):.0f}" for _, share, *_ in bought]
    expected = [
        [valuation, loss, paid, share]
        for (valuation, _, loss, _, paid), share in zip(bought, shares, strict=True)
    ]
    assert [said[k : k + 4] for k in range(0, 12, 4)] == expected


def test_the_first_seller_is_paid_her_cost_and_what_she_saves_as_the_caption_says() -> None:
    page = (STATIC.parent / "market.md").read_text(encoding="utf8")
    caption = " ".join(page.partition(":name: fig-market\n")[2].partition("```")[0].split())
    paid, lost, cost, most, saved = (
        float(number) for number in re.findall(r"([\d.]+) (?:euros|units)", caption)
    )
    now, asked = (least_cost_contract([first, 2, 4], 9 * 0.2**2, power=1) for first in (1, most))
    assert f"{now.privacy_loss[0]:.2f}" == f"{lost:g}" == f"{cost:g}"
    assert f"{asked.cost - now.cost:.1f}" == f"{saved:.1f}"
    assert f"{now.privacy_loss[0] + asked.cost - now.cost:.1f}" == f"{paid:g}"
