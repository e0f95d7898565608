"""The built site: complete in itself, all links alive, legible in a browser from disk on two
screens and in the dark.

`make book` runs this on what it built. The checks themselves are in ``check.py``, and are tried
here on bad pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import colophon
import formulas
import notebooks
import pytest

from tests.site import check

ROOT = Path(__file__).resolve().parents[2]
STATIC = (
    check.loads_from_outside,
    check.dead_links,
    check.images_without_words,
    check.white_figures,
    check.misshapen_pages,
    check.folds_in_a_row,
)
BUSY = 4  # times slower than alone is a machine that does other work beside a test
PARTS = 6  # of the pages, which are looked at side by side
Look = Callable[[Path], list[str]]


def passes(found: list[str]) -> None:
    assert not found, "\n".join([f"{len(found)} complaints", *found[:40]])


def test_files(site: Path) -> None:  # one test, for what is parsed is shared
    passes(
        [
            found
            for looks_for in (*STATIC, check.too_large, check.lost_words)
            for found in looks_for(site)
        ]
    )


def test_notebooks(site: Path) -> None:
    passes(check.broken_notebooks(site / "_sources", ROOT))
    for page in notebooks.with_code(ROOT):
        # its download button
        assert f"_sources/{page}.ipynb" in (site / f"{page}.html").read_text(encoding="utf8")


@pytest.mark.parametrize("part", range(PARTS))
def test_pages_in_a_browser(site: Path, browser: Any, part: int) -> None:
    passes(check.browse(browser, shares(site, PARTS)[part]))


@pytest.mark.parametrize(
    ("looks_for", "page"),
    [
        (check.printed, "contracts/idea"),
        (check.covered, "index"),
        (partial(check.slow, limit_s=1 * BUSY), "contracts/idea"),
        (partial(check.slow, limit_s=1 * BUSY), "federated/networks"),
        (partial(check.slow, limit_s=1 * BUSY), "logistic/guarantee"),
        (partial(check.slow, limit_s=2 * BUSY), "ledger"),
    ],
)
def test_a_page_in_a_browser(
    site: Path, browser: Any, looks_for: Callable[..., list[str]], page: str
) -> None:
    passes(looks_for(browser, site / "book" / f"{page}.html"))


def test_a_handout_is_one_sheet(site: Path, browser: Any) -> None:
    margin = dict.fromkeys(("top", "right", "bottom", "left"), "15mm")
    counts = {}
    with browser.new_page() as page:
        for file in (site / "book" / "teach").glob("*.html"):
            page.goto(file.as_uri())
            counts[file.stem] = len(
                re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4", margin=margin))
            )
    for several in ("sheets", "solutions"):  # a sheet for each subject
        counts.pop(several, None)
    assert counts.pop("index") > 1 and set(counts.values()) == {1}, counts


def test_every_page_says_whose_it_is_and_on_paper_too(site: Path, browser: Any) -> None:
    version = f"version {colophon.citation()['version']}, "
    for page in check.pages(site):
        if not check.is_redirect(page):
            foot = check.read(page).select_one(".hdpm-colophon")
            assert foot and version in foot.text, page
            assert foot.find("a", href=re.compile(r"LICENSE\.txt$")), page
    with browser.new_page() as page:
        page.emulate_media(media="print")
        for file in (site / "book" / "teach").glob("*.html"):
            page.goto(file.as_uri())
            said = page.locator(".hdpm-colophon").inner_text()
            assert version in said and f"teach/{file.stem}" in said, (file, said)


def shares(site: Path, parts: int) -> list[list[Path]]:
    """The pages in so many parts, of which each has long and short ones; of listings of code one
    stands for all, of the pages of claims a few.
    """
    files = [page for page in check.pages(site) if not check.is_redirect(page)]
    files.sort(key=lambda page: -page.stat().st_size)
    for folder, shown in (("_modules", 1), ("claims", 8)):  # among them those of the papers
        alike = [page for page in files if folder in page.relative_to(site).parts]
        files = [page for page in files if page not in alike[shown:]]
    return [files[part::parts] for part in range(parts)]


# --- the checks can fail ------------------------------------------------------------------------

GOOD = """<!DOCTYPE html>
<html lang="en"><head><title>Good</title><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="good.css"><link rel="canonical" href="https://example.org/good.html">
<style>body { background: #fff }
@media (prefers-color-scheme: dark) { body { background: #111; color: #eee } a { color: #9cf } }</style>
</head>
<body><main><h1 id="top">Good</h1> <p>It costs $5. <code>$$x$$</code></p>
<a href="#top">up</a> <a href="good.html#top">up</a> <a href="https://example.org/">out</a>
<img src="dot.svg" alt="A dot"> <span class="math"><math><mi>x</mi></math></span>
<!-- here --></main></body></html>
"""


def make_site(folder: Path, added: str = "", css: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "good.html").write_text(GOOD.replace("<!-- here -->", added), encoding="utf8")
    (folder / "good.css").write_text(f"p {{ background: url(dot.svg) }}\n{css}", encoding="utf8")
    (folder / "dot.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>', encoding="utf8")
    return folder


BAD: dict[str, tuple[Look, str]] = {
    "script": (check.loads_from_outside, '<script src="//cdn.example.org/a.js"></script>'),
    "style": (check.loads_from_outside, '<link rel="stylesheet" href="https://example.org/a.css">'),
    "picture": (check.loads_from_outside, '<img src="https://example.org/a.png" alt="A picture">'),
    "ground": (
        check.loads_from_outside,
        '<p style="background: url(https://example.org/a.png)">a</p>',
    ),
    "import": (check.loads_from_outside, '<style>@import "https://example.org/a.css";</style>'),
    "named": (
        check.loads_from_outside,
        '<script>const thebe = "https://unpkg.com/thebe@0.8.2/index.js"</script>',
    ),
    "missing": (check.loads_from_outside, '<script src="missing.js"></script>'),
    "root": (check.loads_from_outside, '<img src="/dot.svg" alt="From the root of the disk">'),
    "place": (check.dead_links, '<a href="#nowhere">dead</a>'),
    "place in a page": (check.dead_links, '<a href="good.html#nowhere">dead</a>'),
    "page": (check.dead_links, '<a href="nowhere.html">dead</a>'),
    "redirect": (check.dead_links, '<meta http-equiv="refresh" content="0; url=nowhere.html">'),
    "no alt": (check.images_without_words, '<img src="dot.svg">'),
    "file as alt": (check.images_without_words, '<img src="dot.svg" alt="../_images/dot.svg">'),
    "white": (
        check.white_figures,
        '<svg class="hdpm-figure"><path style="fill: #ffffff; opacity: 0.8"/></svg>',
    ),
    "folds": (
        check.folds_in_a_row,
        2 * '<div class="cell tag_hide-input"><details>x = 1</details></div>',
    ),
    "titles": (check.misshapen_pages, "<h1>Another</h1>"),
    "ids": (check.misshapen_pages, '<p id="top">Another</p>'),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_page_is_found(tmp_path: Path, bad: str) -> None:
    looks_for, added = BAD[bad]
    site = make_site(tmp_path / "site", added)
    assert [found for found in STATIC if found(site)] == [looks_for]


def test_good_page_passes_and_bad_style_sheet_and_large_site_are_found(tmp_path: Path) -> None:
    site = make_site(tmp_path / "good")
    assert [complaint for looks_for in STATIC for complaint in looks_for(site)] == []
    site = make_site(tmp_path / "css", css="a { background: url('https://example.org/a.png') }")
    assert check.loads_from_outside(site) == [
        "good.css loads https://example.org/a.png from outside"
    ]
    assert check.too_large(make_site(tmp_path / "size", "x" * 2_000_000), limit_mb=1)


@pytest.mark.parametrize(("mark", "shown", "count"), [(" ", "and four cents", 0), ("%", "", 1)])
def test_lost_words_are_found(tmp_path: Path, mark: str, shown: str, count: int) -> None:
    cell = "```{code-cell}\n:tags: [a, b, c]\nx = 1 + 2 + 3\n```"
    costs = f"It costs *five* dollars in all,\n{mark} and four cents"
    note = f":::{{note}} On what it costs\n:class: one two three\n{costs}\n:::"
    source = f"---\na: header that nobody sees\n---\n# Good\n\n{cell}\n\n{note}\n"
    site = make_site(tmp_path, f"<p>On what it costs</p> It costs five dollars in all, {shown}")
    (site / "_toc.yml").write_text("root: good\n", encoding="utf8")
    (site / "good.md").write_text(source, encoding="utf8")
    assert len(check.lost_words(site, site)) == count


def test_parts_have_every_page_once(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d", "e", "_modules"):
        make_site(tmp_path / name)
    # a listing stands for it
    (tmp_path / "_modules" / "small.html").write_text("<html></html>", encoding="utf8")
    (tmp_path / "index.html").write_text(
        '<meta http-equiv="Refresh" content="0; url=a/good.html">', encoding="utf8"
    )
    parts = shares(tmp_path, 3)
    assert sorted(map(len, parts)) == [2, 2, 2]
    assert sorted(page for part in parts for page in part) == sorted(tmp_path.glob("*/good.html"))


WIDE = "<table style='width: 2000px'><td>allocation</table>"
FADED = "overflow-x: auto; mask-image: linear-gradient(red, red)"
WHITE = "body { background: #fff !important }"
SEEN: dict[str, list[str]] = {  # what is added to a page, and what is said of it
    "": [],
    "<script>fetch('https://example.org/a').catch(() => 0); console.error('look out')</script><script>throw new Error('no market')</script><span class='math'>y</span><math><merror><mtext>bad</mtext></merror><mtext>\\foo</mtext></math><p>$$x</p><p>or $<i>x</i>$</p>": [
        "asks for https://example.org/a",
        "console: look out",
        "error in a script: no market",
        "formula not set: y",
        "error in a formula: bad",
        "bare TeX in the text: \\foo",
        "bare TeX in the text: $$x",
        "bare TeX in the text: or $",
    ],
    "<div style='width: 1460px; height: 1px'></div>": ["(wide, light, 100 %): scrolls sideways"],
    "<div style='width: 900px; height: 1px'></div>": ["(tablet, light, 100 %): scrolls"],
    "<div style='width: 500px; height: 1px'></div>": ["(phone, light, 100 %): scrolls"],
    "<div style='width: 20rem; height: 1px'></div>": ["(phone, light, 200 %): scrolls"],
    f"<div style='overflow-x: auto'>{WIDE}</div><table style='width: 4rem; overflow-wrap: anywhere'><td>allocation</table><figure><figcaption style='font-weight: 300'>figure</figcaption></figure><pre tabindex='0' style='overflow-x: auto; width: 6rem'>x = 1 + 2 + 3 + 4 + 5</pre><p><span class='math' style='display: inline-block; overflow-x: auto; width: 1rem'><math><mi>long</mi></math>": [
        "(phone, light, 100 %): a table is cut without a sign",
        "a word is broken: allocation",
        "a caption is faint: normal, 300",
        "code is cut: x = 1",
        "scrolls without a name or the keyboard: x = 1",
        "(wide, light, 100 %): a formula is cut: long",
    ],
    f"<div style='{FADED}'>{WIDE}</div><div style='{FADED}'><table><td>owner</table></div><figure><figcaption style='font-style: italic'>a figure</figcaption></figure>": [
        "a wide table is no region",
        "a table fades",
        "a caption is faint: italic",
    ],
    f"<style>{WHITE}</style>": ["(wide, dark, 100 %): not dark"],
    f"<style>@media (width: 390px) {{ {WHITE} }}</style>": ["(phone, dark, 100 %): not dark"],
    f"<style>@media (width: 820px) {{ {WHITE} }}</style>": ["(tablet, dark, 100 %): not dark"],
    "<style>body { background: #111 !important }</style>": ["not light"],
    "<button></button><button aria-label='Go'>Stop</button><script>document.title = ''</script><svg role='img'><path/></svg>": [
        "axe: button-name (critical)",
        "axe: svg-img-alt (serious)",
        "axe: document-title (serious)",
        "axe: label-content-name-mismatch (serious)",
    ],
    "<script>document.documentElement.removeAttribute('lang')</script><p style='color: #999; background: #eee'>pale</p>": [
        "axe: html-has-lang (serious)",
        "(wide, light, 100 %): axe: color-contrast (serious)",
        "(wide, dark, 100 %): axe: color-contrast (serious)",
    ],
}


@pytest.mark.parametrize("added", SEEN)
def test_bad_page_is_seen_in_the_browser(tmp_path: Path, browser: Any, added: str) -> None:
    if "axe" in str(SEEN[added]) and not check.AXE.exists():
        pytest.skip(
            "axe-core is not installed (npm ci --prefix tests/site): pages are not tested for"
            " accessibility"
        )
    before = [make_site(tmp_path / "first") / "good.html"] if "axe" in str(SEEN[added]) else []
    found = check.browse(browser, [*before, make_site(tmp_path / "site", added) / "good.html"])
    assert bool(found) == bool(SEEN[added]), found
    for complaint in SEEN[added]:
        assert any(complaint in line for line in found), (complaint, found)


def test_a_broken_formula_stays_and_is_found(tmp_path: Path, browser: Any) -> None:
    heard: list[str] = []
    set_in = r'<span class="math x">\(\eps\)</span><span class="math x">\(\norm x\)</span>'
    page = make_site(tmp_path, set_in) / "good.html"
    page.write_text(
        formulas.with_formulas(page.read_text(encoding="utf8"), heard.append), encoding="utf8"
    )
    assert len(heard) == 2 and r"\norm x" in heard[1]
    assert [r"formula not set: \(\eps\)" in line for line in check.browse(browser, [page])].count(
        True
    ) == 1


def test_heavy_page_is_found(tmp_path: Path, browser: Any) -> None:
    for name in ("book", "index"):  # one of them with the address of the front page
        site = make_site(tmp_path / name, f"<img src='big.svg' alt='Big'><!-- {'x' * 300_000} -->")
        (site / "big.svg").write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg"><!-- {"x" * 300_000} --></svg>'
        )
    front = (tmp_path / "book" / "good.html").rename(tmp_path / "book" / "index.html")
    (found,) = check.browse(browser, [front, tmp_path / "index" / "good.html"])
    assert (
        found.startswith("book/index.html: loads 0.60 MB, more than 0.5: ")
        and "big.svg 0.30" in found
    )


PAPER = "<style>@media print { body { background: #fff; color: #000 } }</style>"
CARD = """<p style="position: relative"><a href="#top">in</a><a href="#top" class="sd-stretched-link">card</a></p>
<style>.sd-stretched-link::after { content: ''; position: absolute; inset: 0; z-index: 1 }</style>"""
ABOVE = "<style>a:not(.sd-stretched-link) { position: relative; z-index: 2 }</style>"
WAIT = "<script>for (const start = Date.now(); Date.now() < start + 500;);</script>"


@pytest.mark.parametrize(
    ("looks_for", "added", "said"),
    [
        (check.printed, f"{PAPER}<details open><p>proof</p></details>", ""),
        (check.printed, f"{PAPER}<button>Go</button>", "prints <button"),
        (check.printed, f"{PAPER}<details><p>proof</p></details>", "prints it folded"),
        (check.printed, f"{PAPER}<h1>Another</h1>", "prints 2 titles"),
        (
            check.printed,
            f"{PAPER}<a href='#top' style='text-decoration: none'>up</a>",
            "prints no line under",
        ),
        (
            check.printed,
            "<style>body { background: #111 !important; color: #eee !important }</style>",
            "pale text",
        ),
        (check.covered, CARD + ABOVE, ""),
        (check.covered, CARD, "a click goes elsewhere"),
        (partial(check.slow, limit_s=20), "", ""),
        (partial(check.slow, limit_s=0.5), WAIT, "formulas stand after"),
    ],
)
def test_bad_page_is_seen_by_a_look_of_its_own(
    tmp_path: Path, browser: Any, looks_for: Callable[..., list[str]], added: str, said: str
) -> None:
    found = looks_for(browser, make_site(tmp_path / "site", added) / "good.html")
    assert len(found) == bool(said) and said in "".join(found), found
