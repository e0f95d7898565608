"""What a page loads, made light: a site is copied and opened from disk, where nothing is
compressed.

The theme loads all of FontAwesome as a script, all of Bootstrap's styles and the index of the
search on every page. After a build this leaves each page what it uses: a font with the icons that
are somewhere on the site; of the theme's style sheets the rules that can apply; the index where one
searches.

The same pass mends what the theme gets wrong for a reader who hears the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import tinycss2
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

WORD = re.compile(r"[\w-]+")
NAMES = re.compile(r"""\b(?:class|id)=["']([^"']*)["']""")
SCRIPTS = {  # loaded on every page, and of use on those with such elements
    "design-tabs.js": re.compile(r'class="[^"]*sd-tab-set'),
    "togglebutton.js": re.compile(
        r'class="[^"]*(?:toggle\b(?!-)|admonition[^"]* dropdown|dropdown[^"]* admonition)'
    ),
}
SEARCH_SCRIPTS = re.compile(
    r"\s*<script"
    r' src="[^"]*(?:_static/(?:searchtools|language_data)|searchindex)\.js[^"]*"></script>'
)
ICON_SCRIPT = re.compile(r'\s*<script defer src="[^"]*scripts/fontawesome\.js[^"]*"></script>')
PACKED_FONT = re.compile(r'url\([^)]*\.woff2\) format\("woff2"\),')
# what has no name gets one; a name that says other than what is seen goes, and what is seen is the
# name
SPOKEN = (
    (
        '<summary><span class="toctree-toggle"',
        '<summary aria-label="Subpages"><span class="toctree-toggle"',
    ),
    ('<summary aria-label="Toggle hidden content">', "<summary>"),
    (
        'search-button-field search-button__button pst-js-only" title="Search" aria-label="Search"',
        'search-button-field search-button__button pst-js-only"',
    ),
    # its entries are no list items
    ('<div role="list" class="citation-list">', '<div class="citation-list">'),
    ('<i class="theme-switch ', '<i aria-hidden="true" class="theme-switch '),
)
OWN = ("book.css", "ledger.css")  # short as they are, and legible


# --- icons --------------------------------------------------------------------------------------


def symbols(css: str) -> set[int]:
    r"""Characters of private use, which are the icons of a font, that a style sheet names.

    Examples
    --------
    >>> symbols(r'.fa-sun:before{content:"\f185"}.a{content:"x"}') == {0xF185}
    True
    """
    escaped = (int(code, 16) for code in re.findall(r"\\([ef][0-9a-f]{3})\b", css))
    return {*escaped, *(ord(c) for c in css if "\ue000" <= c <= "\uf8ff")}


def shrink_font(path: Path, characters: Iterable[int]) -> None:
    """Leave in a font what draws certain characters."""
    font = TTFont(path)
    subsetter = Subsetter(Options(layout_features=[], notdef_outline=True))
    subsetter.populate(unicodes=characters)
    subsetter.subset(font)
    font.save(path)


# --- style sheets -------------------------------------------------------------------------------


def used(css: str, words: set[str]) -> str:
    """Return the rules of a style sheet that can apply where only certain names are in use.

    Examples
    --------
    >>> used(".a,.b .c{color:red}.b{top:0}@media print{.b{top:0}.a:not(.b){top:0}}p{top:0}", {"a"})
    '.a{color:red}@media print{.a:not(.b){top:0}}p{top:0}'
    """
    return "".join(
        _kept(tinycss2.parse_stylesheet(css, skip_comments=True, skip_whitespace=True), words)
    )


def without_properties(css: str, asked: set[str]) -> str:
    """Remove from a style sheet the values of its own that nobody asks for.

    Examples
    --------
    >>> without_properties(":root{--a:1px;--b:url(x;y);color:var(--a)}", {"--a"})
    ':root{--a:1px;color:var(--a)}'
    """
    value = r"""(?:[^;{}()"']|"[^"]*"|'[^']*'|\((?:[^()]|\([^()]*\))*\))*"""
    return re.sub(
        rf"(?<=[{{;])(--[\w-]+):{value}(?:;|(?=}}))", lambda m: m[0] if m[1] in asked else "", css
    )


def _kept(rules: list[Any], words: set[str]) -> Iterator[str]:
    for rule in rules:
        if rule.type == "qualified-rule":
            if selectors := [s for s in _split(rule.prelude) if _applies(s, words)]:
                yield f"{','.join(map(_text, selectors))}{{{_text(rule.content)}}}"
        elif (
            rule.type == "at-rule"
            and rule.lower_at_keyword in ("media", "supports", "container")
            and rule.content
        ):
            inner = tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True)
            if body := "".join(_kept(inner, words)):
                yield f"@{rule.at_keyword} {_text(rule.prelude)}{{{body}}}"
        else:
            yield rule.serialize()


def _text(tokens: list[Any]) -> str:
    return str(tinycss2.serialize(tokens)).strip()


def _split(prelude: list[Any]) -> list[list[Any]]:
    """Selectors of a list; commas within brackets are inside one token."""
    parts: list[list[Any]] = [[]]
    for token in prelude:
        if token == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _applies(selector: list[Any], words: set[str]) -> bool:
    """Whether all classes and ids that a selector asks for are in use; what is in brackets may also
    say *not*.
    """
    for before, token in zip([None, *selector], selector, strict=False):
        if token.type == "hash" and token.value not in words:
            return False
        # Bootstrap's scripts put these names together
        if (
            token.type == "ident"
            and before == "."
            and not token.value.startswith("bs-")
            and token.value not in words
        ):
            return False
    return True


# --- pages --------------------------------------------------------------------------------------


def lighten(page: str, searches: bool = False) -> str:
    """Remove from a page of the theme what it does not use, and name what has no name.

    Examples
    --------
    >>> lighten('<script defer src="_static/scripts/fontawesome.js?digest=5"></script>')
    ''
    >>> lighten('<summary><span class="toctree-toggle"></span></summary>')
    '<summary aria-label="Subpages"><span class="toctree-toggle"></span></summary>'
    """
    page = ICON_SCRIPT.sub("", page)
    if not searches:
        page = SEARCH_SCRIPTS.sub("", page)
    for script, needed in SCRIPTS.items():
        if not needed.search(page):
            page = re.sub(
                rf'\s*<script[^>]*src="[^"]*/{re.escape(script)}[^"]*"></script>', "", page
            )
    for old, new in SPOKEN:
        page = page.replace(old, new)
    return page


def lighten_site(app: Any, error: Exception | None) -> None:
    """Go over what was built."""
    if error or app.builder.name != "html":
        return
    site = Path(app.outdir)
    static = site / "_static"
    words = set[str]()
    texts = list[str]()
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf8")
        light = lighten(text, searches=path.name == "search.html")
        if light != text:
            path.write_text(light, encoding="utf8")
        words |= {word for found in NAMES.findall(light) for word in found.split()}
        texts.append(light)
    (static / "scripts" / "fontawesome.js").unlink(missing_ok=True)
    for path in static.rglob("*.js"):
        words |= set(WORD.findall(path.read_text(encoding="utf8")))
    sheets = {path: path.read_text(encoding="utf8") for path in static.rglob("*.css")}
    sheets |= {path: used(css, words) for path, css in sheets.items() if path.name not in OWN}
    asked = words | set(re.findall(r"var\(\s*(--[\w-]+)", "".join([*sheets.values(), *texts])))
    for path, css in sheets.items():
        if path.name not in OWN:
            path.write_text(PACKED_FONT.sub("", without_properties(css, asked)), encoding="utf8")
    icons = symbols("".join(sheets.values()))
    for path in (static / "vendor" / "fontawesome").rglob("*.ttf"):
        shrink_font(path, icons)
        path.with_suffix(".woff2").unlink(missing_ok=True)
    for path in static.rglob("*.map"):
        path.unlink()


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("build-finished", lighten_site)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
