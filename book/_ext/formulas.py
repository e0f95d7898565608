"""Formulas, which the build writes into the pages as MathML: a browser sets them as it sets words,
without a script.

What is written in TeX, in the text or in the ledger, comes out of Sphinx as it would for MathJax
and is replaced in the finished pages. A formula that cannot be read stays as it is, with a warning,
which ends a build under ``-W``. Pages with formulas load a style sheet that holds their font, cut
down to the characters in use.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from copy import deepcopy
from html import unescape
from importlib.metadata import files
from io import BytesIO
from pathlib import Path
from typing import Any
from unicodedata import normalize
from xml.etree import ElementTree

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont
from math_core import LatexError, LatexToMathML
from sphinx.ext.mathjax import html_visit_displaymath, html_visit_math
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
TEX = LatexToMathML(fancy_error=False)
FORMULA = re.compile(
    r'(<(?:span|div) class="math [^>]*>\s*(?:<span'
    r' class="eqno">.*?</span>\s*)?)\\([(\[])(.*?)\\[)\]]',
    re.DOTALL,
)
# grows in Chromium within a row alone
BRACKET = re.compile(r"(<m(?:sub|sup|subsup)>)(<mo minsize[^>]*>[^<]*</mo>)")
# a mark after a formula of the text, before which a browser may end the line
MARKED = re.compile(r"(<math>(?:(?!</?math\b).)*</math>)</span>([.,;:!?)]+)", re.DOTALL)
# letters, numbers and signs of a formula that is set in parts, and of a part
LONG = 32
SHORT = 10
SIGNS = "=≤≥<>≠≈∼∝→↦⇒⇔∈+−"  # after which a line may end
# What a browser draws in place of what the text says, or without it.
ITALICS = [
    chr(code)
    for code in (
        0x210E,
        *range(0x1D434, 0x1D468),
        *range(0x1D6A4, 0x1D6A6),
        *range(0x1D6E2, 0x1D71C),
    )
]
DRAWN = {"-": "\N{MINUS SIGN}", "'": "\N{PRIME}"}
ROOT = "\N{SQUARE ROOT}"
SPACE = " "  # Firefox takes the height of an x, and spaces by it, from the first font with a space
# dotless letters and flat accents; small forms in scripts
FEATURES = ["ccmp", "dtls", "flac", "ssty"]
LICENCE = [0, 13, 14]  # whose the font is, and that it may be cut and copied


def with_formulas(page: str, complain: Callable[[str], None]) -> str:
    r"""Set the formulas of a page.

    Examples
    --------
    >>> with_formulas(r'<span class="math a">\(x&lt;1\)</span>', print)
    '<span class="math a"><math><mi>x</mi><mo>&lt;</mo><mn>1</mn></math></span>'
    >>> with_formulas(r'<span class="math a">\(x\)</span>, so', print)
    '<span class="math a"><span class="hdpm-kept"><math><mi>x</mi></math>,</span></span> so'
    >>> with_formulas(r'<span class="math a">\(\norm x\)</span>', print)
    0: Unknown command "\norm". in \norm x
    '<span class="math a">\\(\\norm x\\)</span>'
    """

    def mathml(found: re.Match[str]) -> str:
        tex = unescape(found[3]).replace("{split}", "{aligned}")
        try:
            made = TEX.convert_with_local_state(tex, displaystyle=found[2] == "[")
            made = BRACKET.sub(r"\1<mrow>\2</mrow>", made)
            return found[1] + (made if found[2] == "[" else in_parts(made))
        except LatexError as error:
            complain(f"{error} in {tex}")
            return found[0]

    return MARKED.sub(r'<span class="hdpm-kept">\1\2</span></span>', FORMULA.sub(mathml, page))


def in_parts(math: str) -> str:
    """Set a formula of a line, if it is long in parts, between which a line may end: after signs
    that are in no bracket.

    Examples
    --------
    >>> in_parts("<math><mi>x</mi></math>")
    '<math><mi>x</mi></math>'
    >>> parts = in_parts(f"<math>{'<mi>x</mi><mo>+</mo>' * 20}</math>").split("</math>")
    >>> [part.count("<mi>") for part in parts]
    [5, 5, 5, 5, 0]
    """

    def size(element: ElementTree.Element) -> int:
        return sum(not len(part) for part in element.iter())

    named = re.sub(r"&(?!lt;|gt;|amp;|quot;)\w+;", lambda found: unescape(found[0]), math)
    if size(formula := ElementTree.fromstring(named)) < LONG:
        return math
    parts = [ElementTree.Element("math", formula.attrib)]
    depth = 0
    for part in formula:
        parts[-1].append(part)
        sign = (part.text or "") if part.tag == "mo" else ""
        depth += bool(sign) and (sign in "([{⌊⌈" or part.get("form") == "prefix")
        depth -= bool(sign) and (sign in ")]}⌋⌉" or part.get("form") == "postfix")
        if sign and sign in SIGNS and depth == 0 and size(parts[-1]) >= SHORT:
            part.set("form", "infix")
            parts.append(ElementTree.Element("math", formula.attrib))
    return "".join(ElementTree.tostring(part, encoding="unicode") for part in parts if len(part))


def whole() -> TTFont:
    """Return the font of formulas, uncut, as the site's style sheets need it."""
    (path,) = [file for file in files("ziamath") or () if file.name == "STIXTwoMath-Regular.ttf"]
    font = TTFont(path.locate())
    # a browser also moves the script of a lone y or ] by these
    heights = font["MATH"].table.MathConstants
    heights.SubscriptBaselineDropMin.Value, heights.SuperscriptBaselineDropMax.Value = -100, 400
    scripts = font["GSUB"].table.ScriptList.ScriptRecord
    (of_formulas,) = [record.Script for record in scripts if record.ScriptTag == "math"]
    for record in scripts:  # for a style sheet, which names no script
        record.Script = deepcopy(of_formulas)
    signs = font["MATH"].table.MathVariants
    root = font.getBestCmap()[ord(ROOT)]
    forms = signs.VertGlyphConstruction[signs.VertGlyphCoverage.glyphs.index(root)]
    parts = {part.glyph for part in forms.GlyphAssembly.PartRecords}
    width, _ = font["hmtx"][root]
    for name in {form.VariantGlyph for form in forms.MathGlyphVariantRecord} | parts:
        # Chromium gives each root the room of the widest: all are as wide as the first
        was, left = font["hmtx"][name]
        font["glyf"][name].coordinates.scale((width / was, 1))
        font["hmtx"][name] = width, round(left * width / was)
    del font["GPOS"]  # in formulas letters stand where they are
    for hints in ("fpgm", "prep", "cvt "):  # for coarse screens
        del font[hints]
    for glyph in font["glyf"].glyphs.values():
        glyph.trim(remove_hinting=True)
    return font


def font(characters: set[str]) -> bytes:
    """Cut the font of formulas to certain characters and all that a browser may draw for them.

    That is more than these characters. A browser shows letters as italics, and a hyphen as a minus;
    the sign of a root is markup, not text. Their larger and stretched forms, small forms in scripts
    and letters without a dot below an accent follow from the font's own tables.
    """
    plain = {normalize("NFKC", c) for c in characters}
    drawn = {DRAWN[c] for c in DRAWN if c in characters} | {
        c for c in ITALICS if normalize("NFKC", c) in plain
    }
    subsetter = Subsetter(
        Options(layout_features=FEATURES, layout_scripts=["*"], name_IDs=[*LICENCE, 1, 2])
    )
    subsetter.populate(text="".join(characters | drawn | {ROOT, SPACE}))
    subsetter.subset(cut := whole())
    cut.flavor = "woff"
    cut.save(packed := BytesIO())
    return packed.getvalue()


def face(font: bytes) -> str:
    """Write a style sheet with a font in it, which is then at hand at once, and from disk in every
    browser.
    """
    return (
        '@font-face { font-family: "STIX Two Math"; src:'
        f" url(data:font/woff;base64,{b64encode(font).decode()}) }}\n"
    )


def set_formulas(app: Any, error: Exception | None) -> None:
    """Go over what was built."""
    if error or app.builder.name != "html":
        return
    site = Path(app.outdir)
    characters = set[str]()
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf8")
        name = path.relative_to(site)
        page = with_formulas(
            text, lambda words, name=name: LOGGER.warning("formula: %s", words, location=str(name))
        )
        if page != text:
            style = (
                '<link rel="stylesheet"'
                f' href="{"../" * (len(name.parts) - 1)}_static/formulas.css">'
            )
            path.write_text(page.replace("</head>", f"{style}</head>", 1), encoding="utf8")
        for formula in re.findall("<math.*?</math>", page, re.DOTALL):
            characters |= set(unescape(re.sub("<[^>]*>", "", formula)))
    (site / "_static" / "formulas.css").write_text(face(font(characters)), encoding="utf8")


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_html_math_renderer("mathml", (html_visit_math, None), (html_visit_displaymath, None))
    # before light.py, which looks at what pages use
    app.connect("build-finished", set_formulas, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
