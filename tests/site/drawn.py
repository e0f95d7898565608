"""Formulas as browsers draw them: in the font that the site has cut, each has the boxes and the ink
of the whole font.

All that differ stand on one sheet, once with either font. What is compared is where each element
stands, and the pixels of a picture.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from html import unescape
from io import BytesIO
from pathlib import Path
from typing import Any

import formulas
from fontTools.ttLib import TTFont
from PIL import Image, ImageChops

from tests.site import check

FORMULA = re.compile(r"<math\b.*?</math>", re.DOTALL)
# outlines as they are: hints depend on the other letters of a font
SHEET = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Formulas</title>{styles}
<style>@font-face {{ font-family: Whole; src: url(data:font/ttf;base64,{whole}) }}
html, body {{ margin: 0; background: #fff; color: #000; font: 16px/1.65 sans-serif }}
math {{ text-rendering: geometricPrecision }}
main > div {{ position: absolute; padding: 8px; white-space: nowrap }}
.whole math {{ font-family: Whole, math }}</style></head>
<body><main>{formulas}</main></body></html>"""
# Stand in rows as wide as asked, by their sizes in the whole font. Returns the place of each.
PLACE = """async width => {
  for (const name of ['STIX Two Math', 'Whole'])
    if (!(await document.fonts.load(`16px "${name}"`, 'x')).length) throw new Error(`no font ${name}`);
  document.body.className = 'whole';
  const all = [...document.querySelectorAll('main > div')], places = [];
  const sizes = all.map(e => e.getBoundingClientRect()).map(({width, height}) => [width, height].map(Math.ceil));
  let left = 0, top = 0, below = 0;
  for (const [w, h] of sizes) {
    if (left && left + w > width) [left, top] = [0, below];
    places.push([left, top, w, h]);
    left += w;
    below = Math.max(below, top + h);
  }
  all.forEach((e, k) => Object.assign(e.style, {left: `${places[k][0]}px`, top: `${places[k][1]}px`}));
  document.querySelector('main').style.cssText = `display: block; width: ${width}px; height: ${below}px`;
  return places;
}"""
# Take one of the fonts, and return for each formula the boxes of its elements: name, and four
# numbers.
BOXES = """async name => {
  document.body.className = name;
  for (let k = 0; k < 2; k++) await new Promise(requestAnimationFrame);
  return [...document.querySelectorAll('main > div')].map(e => [...e.querySelectorAll('math, math *')].map(part => {
    const {x, y, width, height} = part.getBoundingClientRect();
    return [part.tagName.toLowerCase(), ...[x, y, width, height].map(n => Math.round(n * 50) / 50)];
  }));
}"""
WIDTH = 1800


def of_site(site: Path) -> dict[Path, list[str]]:
    """Return the formulas of each page, as MathML."""
    texts = {page: page.read_text(encoding="utf8") for page in check.pages(site)}
    return {
        page.relative_to(site): found
        for page, text in texts.items()
        if (found := FORMULA.findall(text))
    }


@cache
def _whole() -> str:
    formulas.whole().save(font := BytesIO())
    return b64encode(font.getvalue()).decode()


def sheet(maths: Sequence[str], *styles: str) -> str:
    """Write a page of formulas, in the font of a style sheet and in the whole one."""
    blocks = "".join(f"<div>{math}</div>" for math in maths)
    return SHEET.format(styles="".join(styles), whole=_whole(), formulas=blocks)


def differ(page: Any, file: Path, maths: Sequence[str], *styles: str) -> dict[str, str]:
    """Formulas that do not look as in the whole font, and what is different, seen on a sheet that
    is written first.
    """
    file.write_text(sheet(maths, *styles), encoding="utf8")
    page.goto(file.as_uri())
    page.set_viewport_size({"width": WIDTH, "height": 1000})
    places = page.evaluate(PLACE, WIDTH)
    boxes = page.evaluate(BOXES, "whole")
    ink = _picture(page)
    cut_boxes = page.evaluate(BOXES, "cut")
    cut_ink = _picture(page)
    assert len(places) == len(boxes) == len(maths)
    assert ink.getextrema() == (0, 255) and ink.height >= max(
        top + height for _, top, _, height in places
    )
    found = {}
    other = ImageChops.difference(ink, cut_ink)
    for math, (left, top, width, height), old, new in zip(
        maths, places, boxes, cut_boxes, strict=True
    ):
        moved = (
            f"<{name}> is {' x '.join(map(str, now[2:]))}, not {' x '.join(map(str, was[2:]))}"
            for (name, *was), (_, *now) in zip(old, new, strict=True)
            if was != now
        )
        pixels = other.crop((left, top, left + width, top + height)).getbbox() and "other ink"
        if complaint := next(moved, pixels):
            found[math] = complaint
    return found


def _picture(page: Any) -> Image.Image:
    return Image.open(BytesIO(page.screenshot(full_page=True))).convert("L")


def linked(style: Path) -> str:
    return f'<link rel="stylesheet" href="{style.as_uri()}">'


def words(math: str) -> str:
    """Return a formula's text, to find it by."""
    return unescape(re.sub("<[^>]*>", " ", math))


# --- fonts cut wrongly, to try the tests --------------------------------------------------------


def without(font: bytes, character: str) -> bytes:
    """Return a font that lacks a character, or has it in one size only (``tall (``)."""
    spoilt = TTFont(BytesIO(font))
    if character.startswith("tall "):
        variants = spoilt["MATH"].table.MathVariants
        name = spoilt.getBestCmap()[ord(character[-1])]
        k = variants.VertGlyphCoverage.glyphs.index(name)
        del variants.VertGlyphCoverage.glyphs[k], variants.VertGlyphConstruction[k]
        variants.VertGlyphCount -= 1
    else:
        for table in spoilt["cmap"].tables:
            table.cmap.pop(ord(character), None)
    spoilt.save(packed := BytesIO())
    return packed.getvalue()
