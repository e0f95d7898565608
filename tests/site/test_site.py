"""The built site: complete in itself, all links alive, legible in a browser from disk on two screens and in the dark.

`make book` runs this on what it built. The checks themselves are in ``check.py``, and are tried here on bad pages.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

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
PARTS = 12  # of the pages, which are looked at side by side
Look = Callable[[Path], list[str]]


def complaints(found: list[str]) -> str:
    return "\n".join([f"{len(found)} complaints", *found[:40]])


@pytest.mark.xdist_group("files")  # they share what they have parsed
@pytest.mark.parametrize("looks_for", [*STATIC, check.too_large, check.lost_words])
def test_site(site: Path, looks_for: Look) -> None:
    found = looks_for(site)
    assert not found, complaints(found)


def test_notebooks(site: Path) -> None:
    found = check.broken_notebooks(site / "_sources", ROOT)
    assert not found, complaints(found)
    for page in notebooks.with_code(ROOT):
        assert f"_sources/{page}.ipynb" in (site / f"{page}.html").read_text(encoding="utf8")  # its download button


@pytest.mark.parametrize("part", range(PARTS))
def test_pages_in_a_browser(site: Path, browser: Any, part: int) -> None:
    found = check.browse(browser, shares(site, PARTS)[part])
    assert not found, complaints(found)


def test_a_page_on_paper(site: Path, browser: Any) -> None:
    found = check.printed(browser, site / "book" / "contracts" / "idea.html")
    assert not found, complaints(found)


@pytest.mark.parametrize(
    ("page", "limit_s"), [("contracts/idea", 1), ("federated/networks", 1), ("logistic/guarantee", 1), ("ledger", 2)]
)
def test_formulas_stand_at_once(site: Path, browser: Any, page: str, limit_s: float) -> None:
    found = check.slow(browser, site / "book" / f"{page}.html", BUSY * limit_s)
    assert not found, complaints(found)


def test_a_handout_is_one_sheet(site: Path, browser: Any) -> None:
    handouts = sorted((site / "book" / "teach").glob("*.html"))
    counts = {file.stem: check.sheets(browser, file) for file in handouts}
    assert counts.pop("index") > 1 and set(counts.values()) == {1}, counts


def test_links_in_cards_can_be_clicked(site: Path, browser: Any) -> None:
    found = check.covered(browser, site / "book" / "index.html")
    assert not found, complaints(found)


def test_axe_is_there(site: Path) -> None:
    if not check.AXE.exists():
        pytest.skip("axe-core is not installed (npm ci --prefix tests/site): pages are not tested for accessibility")


def shares(site: Path, parts: int) -> list[list[Path]]:
    """The pages in so many parts, of which each has long and short ones; of listings of code one stands for all."""
    files = [page for page in check.pages(site) if not check.is_redirect(page)]
    files.sort(key=lambda page: -page.stat().st_size)
    listings = [page for page in files if "_modules" in page.relative_to(site).parts]
    files = [page for page in files if page not in listings[1:]]
    return [files[part::parts] for part in range(parts)]


# --- the checks can fail ----------------------------------------------------------------------------------------------

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
    check.read.cache_clear()
    check.tags.cache_clear()
    check._places.cache_clear()
    return folder


BAD: dict[str, tuple[Look, str]] = {
    "script": (check.loads_from_outside, '<script src="//cdn.example.org/a.js"></script>'),
    "style": (check.loads_from_outside, '<link rel="stylesheet" href="https://example.org/a.css">'),
    "picture": (check.loads_from_outside, '<img src="https://example.org/a.png" alt="A picture">'),
    "ground": (check.loads_from_outside, '<p style="background: url(https://example.org/a.png)">a</p>'),
    "import": (check.loads_from_outside, '<style>@import "https://example.org/a.css";</style>'),
    "named": (check.loads_from_outside, '<script>const thebe = "https://unpkg.com/thebe@0.8.2/index.js"</script>'),
    "missing": (check.loads_from_outside, '<script src="missing.js"></script>'),
    "root": (check.loads_from_outside, '<img src="/dot.svg" alt="From the root of the disk">'),
    "place": (check.dead_links, '<a href="#nowhere">dead</a>'),
    "place in a page": (check.dead_links, '<a href="good.html#nowhere">dead</a>'),
    "page": (check.dead_links, '<a href="nowhere.html">dead</a>'),
    "redirect": (check.dead_links, '<meta http-equiv="refresh" content="0; url=nowhere.html">'),
    "no alt": (check.images_without_words, '<img src="dot.svg">'),
    "file as alt": (check.images_without_words, '<img src="dot.svg" alt="../_images/dot.svg">'),
    "white": (check.white_figures, '<svg class="hdpm-figure"><path style="fill: #ffffff; opacity: 0.8"/></svg>'),
    "folds": (check.folds_in_a_row, 2 * '<div class="cell tag_hide-input"><details>x = 1</details></div>'),
    "titles": (check.misshapen_pages, "<h1>Another</h1>"),
    "ids": (check.misshapen_pages, '<p id="top">Another</p>'),
}


def test_good_page_passes(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site")
    assert [complaint for looks_for in STATIC for complaint in looks_for(site)] == []


@pytest.mark.parametrize("bad", BAD)
def test_bad_page_is_found(tmp_path: Path, bad: str) -> None:
    looks_for, added = BAD[bad]
    site = make_site(tmp_path / "site", added)
    assert [found for found in STATIC if found(site)] == [looks_for]


def test_bad_style_sheet_and_large_site_are_found(tmp_path: Path) -> None:
    site = make_site(tmp_path / "css", css="a { background: url('https://example.org/a.png') }")
    assert check.loads_from_outside(site) == ["good.css loads https://example.org/a.png from outside"]
    assert check.too_large(make_site(tmp_path / "size", "x" * 2_000_000), limit_mb=1)


def test_lost_words_are_found(tmp_path: Path) -> None:
    (tmp_path / "_toc.yml").write_text("root: good\n", encoding="utf8")
    cell = "```{code-cell}\n:tags: [a, b, c]\nx = 1 + 2 + 3\n```"
    note = ":::{note} On what it costs\n:class: one two three\nIt costs *five* dollars in all,\n%s and four cents\n:::"
    source = f"---\na: header that nobody sees\n---\n# Good\n\n{cell}\n\n{note}\n"
    for mark, count in ((" ", 0), ("%", 1)):
        (tmp_path / "good.md").write_text(source.replace("%s", mark), encoding="utf8")
        shown = "<p>On what it costs</p> It costs five dollars in all, " + ("and four cents" if mark == " " else "")
        assert len(check.lost_words(make_site(tmp_path, shown), tmp_path)) == count


def test_parts_have_every_page_once(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d", "e", "_modules"):
        make_site(tmp_path / name)
    (tmp_path / "_modules" / "small.html").write_text("<html></html>", encoding="utf8")  # a listing stands for it
    (tmp_path / "index.html").write_text('<meta http-equiv="Refresh" content="0; url=a/good.html">', encoding="utf8")
    parts = shares(tmp_path, 3)
    assert sorted(map(len, parts)) == [2, 2, 2]
    assert sorted(page for part in parts for page in part) == sorted(tmp_path.glob("*/good.html"))


def test_bad_page_is_seen_in_the_browser(tmp_path: Path, browser: Any) -> None:
    white = "body { background: #fff !important }"
    wide = "<table style='width: 2000px'><td>allocation</table>"
    faded = "overflow-x: auto; mask-image: linear-gradient(red, red)"
    pale = "<p style='color: #999; background: #eee'>pale</p>"
    bad = {  # what is added to a page, and what is said of it
        "<script>fetch('https://example.org/a').catch(() => 0); console.error('look out')</script>"
        "<script>throw new Error('no market')</script><span class='math'>y</span>"
        "<math><merror><mtext>bad</mtext></merror><mtext>\\foo</mtext></math><p>$$x</p><p>or $<i>x</i>$</p>": [
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
        f"<div style='overflow-x: auto'>{wide}</div><table style='width: 4rem; overflow-wrap: anywhere'>"
        "<td>allocation</table><figure><figcaption style='font-weight: 300'>figure</figcaption></figure>"
        "<pre tabindex='0' style='overflow-x: auto; width: 6rem'>x = 1 + 2 + 3 + 4 + 5</pre>": [
            "(phone, light, 100 %): a table is cut without a sign",
            "a word is broken: allocation",
            "a caption is faint: normal, 300",
            "code is cut: x = 1",
        ],
        f"<div style='{faded}'>{wide}</div><div style='{faded}'><table><td>owner</table></div>"
        "<figure><figcaption style='font-style: italic'>a figure</figcaption></figure>": [
            "a wide table is no region",
            "a table fades",
            "a caption is faint: italic",
        ],
        f"<style>{white}</style>": ["(wide, dark, 100 %): not dark"],
        "<style>body { background: #111 !important }</style>": ["not light"],
    }
    if check.AXE.exists():
        bad["<button></button><button aria-label='Go'>Stop</button><script>document.title = ''</script>"] = [
            "axe: button-name (critical)",
            "axe: document-title (serious)",
            "axe: label-content-name-mismatch (serious)",
        ]
        bad[f"<script>document.documentElement.removeAttribute('lang')</script>{pale}"] = [
            "axe: html-has-lang (serious)",
            "(wide, light, 100 %): axe: color-contrast (serious)",
            "(wide, dark, 100 %): axe: color-contrast (serious)",
        ]
    good = make_site(tmp_path / "good") / "good.html"
    pages = [make_site(tmp_path / str(number), added) / "good.html" for number, added in enumerate(bad)]
    found = check.browse(browser, [good, *pages])
    assert not any(line.startswith("good/") for line in found), found
    for number, complaint in [(k, complaint) for k, said in enumerate(bad.values()) for complaint in said]:
        assert any(line.startswith(f"{number}/") and complaint in line for line in found), (complaint, found)
    for screen in ("phone", "tablet"):  # where only the first page is looked at in the dark
        page = make_site(
            tmp_path / screen, f"<style>@media (width: {check.SCREENS[screen]['width']}px) {{ {white} }}</style>"
        )
        assert any(f"({screen}, dark, 100 %): not dark" in line for line in check.browse(browser, [page / "good.html"]))


def test_a_link_behind_another_is_found(tmp_path: Path, browser: Any) -> None:
    card = "<p style='position: relative'><a href='#top'>in</a><a href='#top' class='sd-stretched-link'>card</a></p>"
    for rule, count in (("", 1), ("a:not(.sd-stretched-link) { position: relative; z-index: 2 }", 0)):
        cover = ".sd-stretched-link::after { content: ''; position: absolute; inset: 0; z-index: 1 }"
        site = make_site(tmp_path / str(count), f"{card}<style>{cover}{rule}</style>")
        assert len(check.covered(browser, site / "good.html")) == count


def test_a_broken_formula_stays_and_is_found(tmp_path: Path, browser: Any) -> None:
    heard: list[str] = []
    page = (
        make_site(tmp_path, r'<span class="math x">\(\eps\)</span><span class="math x">\(\norm x\)</span>')
        / "good.html"
    )
    page.write_text(formulas.with_formulas(page.read_text(encoding="utf8"), heard.append), encoding="utf8")
    assert len(heard) == 2 and r"\norm x" in heard[1]
    assert [r"formula not set: \(\eps\)" in line for line in check.browse(browser, [page])].count(True) == 1


def test_slow_formulas_are_found(tmp_path: Path, browser: Any) -> None:
    wait = "<script>for (const start = Date.now(); Date.now() < start + 500;);</script>"
    for name, added, limit_s, count in (("good", "", 20, 0), ("bad", wait, 0.5, 1)):
        assert len(check.slow(browser, make_site(tmp_path / name, added) / "good.html", limit_s)) == count


def test_heavy_page_is_found(tmp_path: Path, browser: Any) -> None:
    for name in ("book", "index"):  # one of them with the address of the front page
        site = make_site(tmp_path / name, f"<img src='big.svg' alt='Big'><!-- {'x' * 300_000} -->")
        (site / "big.svg").write_text(f'<svg xmlns="http://www.w3.org/2000/svg"><!-- {"x" * 300_000} --></svg>')
    front = (tmp_path / "book" / "good.html").rename(tmp_path / "book" / "index.html")
    (found,) = check.browse(browser, [front, tmp_path / "index" / "good.html"])
    assert found.startswith("book/index.html: loads 0.60 MB, more than 0.5: ") and "big.svg 0.30" in found


def test_bad_print_is_found(tmp_path: Path, browser: Any) -> None:
    paper = "<style>@media print { body { background: #fff; color: #000 } }</style>"
    good = make_site(tmp_path / "good", f"{paper}<details open><p>proof</p></details>")
    assert check.printed(browser, good / "good.html") == []
    bad = {
        "prints <button": f"{paper}<button>Go</button>",
        "prints it folded": f"{paper}<details><p>proof</p></details>",
        "prints 2 titles": f"{paper}<h1>Another</h1>",
        "prints no line under": f"{paper}<a href='#top' style='text-decoration: none'>up</a>",
        "prints pale text": "<style>body { background: #111 !important; color: #eee !important }</style>",
    }
    for number, (complaint, added) in enumerate(bad.items()):
        (found,) = check.printed(browser, make_site(tmp_path / str(number), added) / "good.html")
        assert complaint in found
