"""What a built site must keep to. Each check returns its complaints, so an empty list is a pass.

The first half reads the files; the second half opens pages in a browser, from disk.
"""

from __future__ import annotations

import re
import shutil
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import execution
import nbformat
import notebooks
from bs4 import BeautifulSoup, Tag

LIMIT_MB = 45  # five of them are what the notebooks carry from the last run
PAGE_MB = 2.0  # all that a page loads, as it lies on disk
LIMITS_MB = {"book/index.html": 0.5}  # the front page
OPEN = 2  # pages at a time: one is looked at while the next one loads
SCREENS = {
    "wide": {"width": 1440, "height": 900},
    "desktop": {"width": 1280, "height": 800},
    "tablet": {"width": 820, "height": 1180},
    "phone": {"width": 390, "height": 844},
}
VIEWS = (  # screen, scheme, size of the text in percent; one change at a time, for each costs a layout
    ("phone", "light", 200),
    ("phone", "light", 100),
    ("phone", "dark", 100),
    ("tablet", "dark", 100),
    ("tablet", "light", 100),
    ("desktop", "light", 100),
    ("wide", "light", 100),
    ("wide", "dark", 100),
)
AXE = Path(__file__).resolve().parent / "node_modules" / "axe-core" / "axe.min.js"  # put there by `make book`
CHROMIUM_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]

NOT_LOADED = {"alternate", "author", "canonical", "help", "index", "license", "next", "prev", "search"}  # of <link rel>
REFRESH = re.compile(r"""<meta[^>]+http-equiv=["']?refresh""", re.IGNORECASE)
BOXES = re.compile(r"[a-z]+-content|proof")  # ids that sphinx-proof and sphinx-exercise give to every box of a kind
LOADING = ("src", "srcset", "poster", "data", "background", "xlink:href")
CSS_ADDRESS = re.compile(r"""url\(\s*["']?([^"')]+)["']?\s*\)|@import\s+["']([^"']+)["']""")
SCRIPT_ADDRESS = re.compile(r"""["'`]((?:https?:)?//[\w.-]+\.\w+[^"'`\s]*)""")


# --- by reading the files ---------------------------------------------------------------------------------------------


@cache
def read(page: Path) -> BeautifulSoup:
    """Parse a page."""
    return BeautifulSoup(page.read_text(encoding="utf8"), "html.parser")


def pages(site: Path) -> list[Path]:
    """Every page of the site, without the theme's templates."""
    aside = {"_static", "_sources"}
    return [path for path in sorted(site.rglob("*.html")) if path.relative_to(site).parts[0] not in aside]


def is_redirect(page: Path) -> bool:
    """Whether a page only leads to another one, as the front page of a jupyter-book does."""
    return REFRESH.search(page.read_text(encoding="utf8")) is not None


def loads_from_outside(site: Path) -> list[str]:
    """Whatever a page or a style sheet loads from another place than the site, or that is not there."""
    found = []
    for page in pages(site):
        for address in _loaded(read(page)):
            if complaint := _not_local(site, page, address):
                found.append(f"{page.relative_to(site)} loads {complaint}")
        for script in read(page).find_all("script", src=False):
            for address in SCRIPT_ADDRESS.findall(script.get_text()):
                found.append(f"{page.relative_to(site)} has a script that names {address}")
    for sheet in sorted(site.rglob("*.css")):
        for address in _css_addresses(sheet.read_text(encoding="utf8")):
            if complaint := _not_local(site, sheet, address):
                found.append(f"{sheet.relative_to(site)} loads {complaint}")
    return found


def _loaded(soup: BeautifulSoup) -> Iterator[str]:
    for tag in soup.find_all(True):
        if tag.name == "style":
            yield from _css_addresses(tag.get_text())
        if tag.name == "link" and not {str(rel).lower() for rel in tag.get_attribute_list("rel")} <= NOT_LOADED:
            yield str(tag.get("href", ""))
        if tag.name in ("use", "image") and tag.has_attr("href"):
            yield str(tag["href"])
        yield from _css_addresses(str(tag.get("style", "")))
        for name in LOADING:
            if tag.has_attr(name) and not (name == "data" and tag.name != "object"):
                value = str(tag[name])
                yield from (part.split()[0] for part in value.split(", ")) if name == "srcset" else [value]


def _css_addresses(text: str) -> list[str]:
    return [first or second for first, second in CSS_ADDRESS.findall(text)]


def _not_local(site: Path, base: Path, address: str) -> str | None:
    """Why an address does not serve offline, if it does not."""
    address = address.strip()
    parts = urlsplit(address)
    if parts.scheme in ("data", "blob", "about") or not (parts.path or parts.scheme or parts.netloc):
        return None
    if parts.scheme or parts.netloc:
        return f"{address} from outside"
    if parts.path.startswith("/"):
        return f"{address}, which does not work from disk"
    target = (base.parent / unquote(parts.path)).resolve()
    if not target.is_file() or not target.is_relative_to(site.resolve()):
        return f"{address}, which is not there"
    return None


def dead_links(site: Path) -> list[str]:
    """Links inside the site that lead to no file, or to no such place in a page."""
    found = []
    for page in pages(site):
        links = [str(tag.get("href", "")) for tag in read(page).find_all(["a", "area"])]
        if is_redirect(page):
            meta = read(page).find("meta", attrs={"http-equiv": re.compile("refresh", re.IGNORECASE)})
            assert isinstance(meta, Tag)
            links.append(str(meta["content"]).split("url=")[-1])
        for link in dict.fromkeys(links):
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto") or link in ("", "#"):
                continue
            if complaint := _not_local(site, page, link):
                found.append(f"{page.relative_to(site)} links to {complaint}")
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in _places(target):
                found.append(f"{page.relative_to(site)} links to {link}, but there is no such place in that page")
    return found


@cache
def _places(page: Path) -> frozenset[str]:
    soup = read(page)
    ids = {str(tag["id"]) for tag in soup.find_all(id=True)}
    return frozenset(ids | {str(tag["name"]) for tag in soup.find_all("a", attrs={"name": True})})


def images_without_words(site: Path) -> list[str]:
    """Pictures without an alternative text; a file name, which Sphinx puts in when there is none, is not one."""
    found = []
    for page in pages(site):
        for image in read(page).find_all("img"):
            text = str(image.get("alt", "")).strip()
            if not text or re.fullmatch(r"\S+\.(png|svg|jpe?g|gif|webp)", text, flags=re.IGNORECASE):
                found.append(f"{page.relative_to(site)}: {str(image.get('src', ''))[:100]} has no alt text")
    return found


def white_figures(site: Path) -> list[str]:
    """Figures with something white in them, on which text of the page's colour cannot be read in the dark."""
    return [
        f"{page.relative_to(site)}: {str(figure.get('aria-label', ''))[:90]} has a white ground"
        for page in pages(site)
        for figure in read(page).select("svg.hdpm-figure")
        if re.search(r"fill: ?(#fff(fff)?|white)\b", str(figure))
    ]


def misshapen_pages(site: Path) -> list[str]:
    """Pages without a language, a title or exactly one first heading, and ids that stand for two places."""
    found = []
    for page in pages(site):
        if is_redirect(page):
            continue
        soup, name = read(page), page.relative_to(site)
        if not (soup.html and str(soup.html.get("lang", "")).strip()):
            found.append(f"{name}: <html> has no lang")
        if not (soup.title and soup.title.get_text(strip=True)):
            found.append(f"{name}: no <title>")
        headings = [heading for heading in soup.find_all("h1") if not heading.find_parent(class_="onlyprint")]
        if len(headings) != 1:
            found.append(f"{name}: {len(headings)} <h1>")
        ids = [str(tag["id"]) for tag in (soup.find("main") or soup).find_all(id=True)]
        doubles = sorted({i for i in ids if ids.count(i) > 1 and not BOXES.fullmatch(i)})
        found += [f"{name}: id {double} is there twice" for double in doubles]
    return found


def folds_in_a_row(site: Path) -> list[str]:
    """Folded code that shows nothing, and then folded code again: two words *Code*, one below the other."""
    folded = "div.cell.tag_hide-input:has(> details:only-child) + div.cell.tag_hide-input > details:first-child"
    return [f"{page.relative_to(site)}: two folds in a row" for page in pages(site) for _ in read(page).select(folded)]


def too_large(site: Path, limit_mb: float = LIMIT_MB) -> list[str]:
    """The size of the site if it is above the limit."""
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) / 1e6
    return [f"the site has {size:.0f} MB, more than {limit_mb:g}"] if size > limit_mb else []


RAW = re.compile(r":::|```\{|\{(?:prf|cite|doc|eq|numref|ref|func|mod|class|meth|glue)(?::\w+)?\}`")


def broken_notebooks(folder: Path, root: Path) -> list[str]:
    """Pages with code that have no notebook, with other code, or with MyST."""
    found = []
    for page in sorted(notebooks.with_code(root)):
        if not (path := folder / f"{page}.ipynb").exists():
            found.append(f"{page}: no notebook")
            continue
        first, *cells = nbformat.read(path, as_version=4).cells
        code = [cell.source for cell in cells if cell.cell_type == "code"][1:]  # the first chooses the mode
        if code != [cell.source for cell in execution.read(root / f"{page}.md").cells if cell.cell_type == "code"]:
            found.append(f"{page}: other code than its page")
        text = "\n\n".join(cell.source for cell in (first, *cells) if cell.cell_type == "markdown")
        found += [f"{page}: MyST: {words}" for words in dict.fromkeys(RAW.findall(text))]
    return found


UNSEEN = ("code-cell", "eval-rst", "holds")  # directives whose content is no prose
# What ends a run of words: numbers of lists, labels, roles, code, formulas, addresses and other marks.
MARKS = re.compile(
    r"^ *\d+\.|\(eq-[\w-]+\)|\([\w-]+\)=|\{[\w:-]+\}`[^`]*`|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\]\([^)]*\)|\{[^}]*\}|<[^>]*>"
    r"|[][*_|#\\+=@]|---?|\.\.\.",
    re.DOTALL | re.MULTILINE,
)


def prose(text: str) -> list[str]:
    """Paragraphs and titles of a page's source: without header, code and options of directives."""
    found, lines, fence, options = list[str](), list[str](), "", False
    for line in [*re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL).splitlines(), ""]:
        mark = re.match(r"\s*(`{3,}|:{3,})(?:\{([\w:-]+)\})?\s*(.*)", line)
        if fence:
            fence = "" if mark and mark[1] == fence and not mark[3] else fence
        elif mark:
            fence = mark[1] if mark[2] in UNSEEN or (mark[3] and not mark[2]) else ""
            found += [mark[3]] if re.search("[a-z] ", mark[3]) and not fence else []
            options = True
        elif line.strip() and not (options and re.match(r"\s*:[\w-]+:", line)):
            lines.append(line)
            options = False
            continue
        if lines:
            found.append("\n".join(lines))
            lines = []
    return found


def lost_words(site: Path, root: Path) -> list[str]:
    """Words of a page's source that are not in the page: six in a row, or three to five between marks."""

    def words(text: str) -> list[str]:
        return re.findall(r"[^\W_]+", text.lower())

    found = []
    for path in execution.pages(root):
        main = read(site / path.relative_to(root).with_suffix(".html")).find("main")
        assert isinstance(main, Tag)
        there = f" {' '.join(words(main.get_text(' ')))} "
        for run in [run for block in prose(path.read_text(encoding="utf8")) for run in map(words, MARKS.split(block))]:
            parts = [" ".join(run[k : k + 6]) for k in range(max(len(run) - 5, 1))] if len(run) > 2 else []
            found += [f"{path.relative_to(root)} loses: {part}" for part in parts if f" {part} " not in there]
    return found


# --- in a browser -----------------------------------------------------------------------------------------------------


def find_chromium() -> str | None:
    """Where an installed Chromium is."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


WIDTH = """() => {
  const root = document.documentElement, found = [], width = root.clientWidth;
  if (root.scrollWidth > width) {
    const right = e => {                        // of what is in it, if it spills over
      const box = e.getBoundingClientRect(), spills = getComputedStyle(e).overflowX === 'visible';
      return window.scrollX + (spills ? Math.max(box.right, box.left + e.scrollWidth) : box.right);
    };
    const held = e => {                         // does something that fits scroll it or cut it off?
      for (let p = e.parentElement; p && p !== document.body; p = p.parentElement)
        if (getComputedStyle(p).overflowX !== 'visible' && right(p) <= width + 1) return true;
      return false;
    };
    const all = [...(document.querySelector('article') || document.body).querySelectorAll('*')];
    const wide = all.filter(e => right(e) > width + 1 && !held(e));
    const most = Math.max(...wide.map(right));
    const names = wide.filter(e => right(e) > most - 1).slice(-2).map(e => e.outerHTML.slice(0, 90));
    found.push(`scrolls sideways: ${root.scrollWidth} px wide on ${width} px, by ${names.join(' and ')}`);
  }
  if (window.innerWidth === 1280)
    for (const e of document.querySelectorAll('pre'))
      if (e.clientWidth && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== 'visible')
        found.push(`code is cut: ${e.textContent.split('\\n').sort((a, b) => b.length - a.length)[0].slice(0, 90)}`);
  return found;
}"""
LOOK = """() => {
  const found = [];
  const brief = text => text.trim().slice(0, 60), name = e => brief(e.textContent);
  for (const e of document.querySelectorAll('.math'))
    if (!e.querySelector('mjx-container')) found.push(`formula not rendered: ${name(e)}`);
  // an unknown macro is no error to MathJax: it is shown in red
  const wrong = 'mjx-merror, [data-mml-node=merror], [data-mjx-error], mjx-container [fill=red]';
  for (const e of document.querySelectorAll(wrong))
    found.push(`error in a formula: ${e.getAttribute('data-mjx-error') || name(e.closest('mjx-container') || e)}`);
  const main = document.querySelector('main') || document.body;
  const walker = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    if (node.parentElement.closest('pre, code, script, style, textarea, mjx-container')) continue;
    if (/Math input error|\\\\\\(|\\\\\\[|\\$(?!\\s?\\d)/.test(node.data))  // $5 is fine
      found.push(`bare TeX in the text: ${brief(node.data)}`);
  }
  return found;
}"""
# What is there but can hardly be read: words broken in a table, tables that are cut and do not say so, faint captions.
LEGIBLE = """async () => {
  for (let k = 0; k < 2; k++) await new Promise(requestAnimationFrame);  // scripts that follow a new size have run
  const found = [], brief = e => e.textContent.trim().slice(0, 60);
  const shown = selector => [...document.querySelectorAll(selector)].filter(e => e.checkVisibility());
  const lines = (node, from, to) => {
    const range = document.createRange();
    range.setStart(node, from);
    range.setEnd(node, to);
    return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size;
  };
  for (const table of shown('main table')) {
    const walker = document.createTreeWalker(table, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode());) {
      const part = node.parentElement.closest('thead, caption');
      if (part && getComputedStyle(part).clipPath !== 'none') continue;  // it is for those who hear the page
      if (node.parentElement.closest('mjx-container') || lines(node, 0, node.length) < 2) continue;
      for (const { 0: word, index } of node.data.matchAll(/[\\p{L}\\p{N}]+/gu))
        if (lines(node, index, index + word.length) > 1) found.push(`a word is broken: ${word}`);
    }
    let box = table;
    while (box && !['auto', 'scroll'].includes(getComputedStyle(box).overflowX)) box = box.parentElement;
    if (!box) continue;
    const wide = box.scrollWidth > box.clientWidth + 1, faded = getComputedStyle(box).maskImage !== 'none';
    const wrong = wide ? 'is cut without a sign' : 'fades and does not scroll';
    if (wide !== faded) found.push(`a table ${wrong}: ${brief(table)}`);
    if (wide && !(box.tabIndex === 0 && box.role === 'region' && box.ariaLabel))
      found.push(`a wide table is no region with a name: ${brief(table)}`);
  }
  const linear = part => part <= 10.3 ? part / 3295 : ((part / 255 + 0.055) / 1.055) ** 2.4;
  const light = colour => {
    const [red, green, blue] = colour.match(/[\\d.]+/g).map(linear);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  for (const text of shown('figcaption :is(.caption-text, p:not(:has(.caption-text))), figcaption:not(:has(p))')) {
    const style = getComputedStyle(text);
    const ground = e => getComputedStyle(e).backgroundColor;
    let behind = text;
    while (behind.parentElement && /, 0\\)$/.test(ground(behind))) behind = behind.parentElement;
    const [dark, pale] = [style.color, ground(behind)].map(light).sort((a, b) => a - b);
    const contrast = (pale + 0.05) / (dark + 0.05), { fontStyle, fontWeight } = style;
    if (fontWeight < 400 || fontStyle !== 'normal' || contrast < 4.5)
      found.push(`a caption is faint: ${fontStyle}, weight ${fontWeight}, contrast ${contrast.toFixed(1)}`);
  }
  return found;
}"""
# A script of the theme follows a change of the scheme a little later. This waits for it, ten seconds at most.
THEME_FOLLOWS = """scheme => new Promise(done => {
  const root = document.documentElement, follows = () => (root.dataset.theme || scheme) === scheme;
  if (follows()) return done();
  const watch = new MutationObserver(() => { if (follows()) { watch.disconnect(); done(); } });
  watch.observe(root, {attributes: true, attributeFilter: ['data-theme']});
  setTimeout(done, 10_000);
})"""
# Lightness of what lies behind the text and of the text, 0 to 1.
LIGHTNESS = """() => {
  const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number); return (0.3 * r + 0.6 * g + 0.1 * b) / 255; };
  const clear = c => c === 'transparent' || /, 0\\)$/.test(c);
  const main = document.querySelector('main') || document.body;
  let e = main;
  while (e && clear(getComputedStyle(e).backgroundColor)) e = e.parentElement;
  return [e ? light(getComputedStyle(e).backgroundColor) : 1, light(getComputedStyle(main).color)];
}"""


# What axe need not see: the inside of formulas, which is MathJax's own, and code whose kinds of tokens it has seen.
THIN = """() => {
  for (const e of document.querySelectorAll('mjx-container')) e.replaceChildren('x');
  const seen = new Set();
  for (const pre of document.querySelectorAll('.highlight pre')) {
    const kinds = [...pre.querySelectorAll('*')].map(e => `${e.tagName}.${e.className}`);
    if (kinds.every(kind => seen.has(kind))) pre.textContent = pre.textContent;
    else kinds.forEach(kind => seen.add(kind));
  }
}"""
# Rules of axe whose breach is serious or critical; of these only contrast depends on the scheme. It is measured twice
# for each style of text that a page has.
RULES = """async scheme => {
  const serious = result => result.violations.filter(v => ['serious', 'critical'].includes(v.impact)).flatMap(v =>
    v.nodes.map(n => `axe: ${v.id} (${v.impact}): ${n.html.slice(0, 120)}`));
  const options = {resultTypes: ['violations'], preload: false, elementRef: false};
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), seen = new Map(), include = [];
  for (let node; (node = walker.nextNode());) {
    const e = node.parentElement;
    if (!node.data.trim() || e.closest('script, style')) continue;
    let kind = '';
    for (let p = e, k = 0; p && k < 4; p = p.parentElement, k++) kind += `${p.tagName}.${p.className} `;
    const count = (seen.get(kind) || 0) + 1;
    seen.set(kind, count);
    if (count <= 2 && e.checkVisibility({visibilityProperty: true})) include.push(e);
  }
  const contrast = await axe.run({include}, {...options, runOnly: ['color-contrast']});
  if (scheme === 'dark') return serious(contrast);
  const rules = Object.fromEntries(['color-contrast', 'region', 'hidden-content', 'heading-order'].map(
    name => [name, {enabled: false}]));
  return [...serious(contrast), ...serious(await axe.run(document, {...options, rules}))];
}"""


def browse(browser: Any, files: Iterable[Path], pictures: Path | None = None) -> list[str]:
    """Open pages from disk, look at each on all screens, in light and dark, and complain about what is seen.

    A few are open at a time: while one is looked at, the others load and set their formulas.

    Parameters
    ----------
    browser : playwright.sync_api.Browser
    files : iterable of Path
    pictures : Path, optional
        Folder for pictures of the whole pages.
    """
    context = browser.new_context(reduced_motion="reduce")
    context.set_default_timeout(60_000)
    context.route(re.compile(r"^(?!file:|data:|blob:)"), lambda route: route.abort())
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
    axe = AXE.read_text(encoding="utf8") if AXE.exists() else ""
    found, ahead, opened = [], iter(files), deque[Opened]()
    while True:
        opened += [_open(context, file) for file in islice(ahead, OPEN - len(opened))]
        if not opened:
            break
        file, page, heard, loaded = opened.popleft()
        page.bring_to_front()  # a page behind another draws no frames, and waits for them
        page.wait_for_load_state("load")
        page.evaluate("async () => { if (window.MathJax?.startup) await MathJax.startup.promise; }")
        page.add_style_tag(
            content="*, ::before, ::after { transition: none !important; }"
        )  # colours under way are none
        if axe:
            page.evaluate(axe)
        name = "/".join(file.parts[-2:])
        for screen, scheme, percent in VIEWS:
            page.set_viewport_size(SCREENS[screen])
            page.emulate_media(color_scheme=scheme)
            page.evaluate(THEME_FOLLOWS, scheme)
            page.evaluate("percent => { document.documentElement.style.fontSize = `${percent}%`; }", percent)
            seen = page.evaluate(WIDTH)
            behind, text = page.evaluate(LIGHTNESS)
            if (behind < 0.25) != (scheme == "dark") or (behind < text) != (scheme == "dark"):
                seen.append(f"not {scheme}: lightness {behind:.2f} behind text of {text:.2f}")
            if screen in ("phone", "wide") and percent == 100:
                seen += page.evaluate(LEGIBLE)
            if screen == "wide":
                if scheme == "light":
                    seen += page.evaluate(LOOK)
                if axe:
                    page.evaluate(THIN)
                    seen += page.evaluate(RULES, scheme)
            found += [f"{name} ({screen}, {scheme}, {percent} %): {complaint}" for complaint in seen]
            if pictures:
                picture = f"{file.parent.name}-{file.stem}-{screen}-{scheme}-{percent}.png"
                page.screenshot(path=pictures / picture, full_page=True)
        heard += too_heavy(loaded, LIMITS_MB.get(name, PAGE_MB))
        found += [f"{name}: {complaint}" for complaint in dict.fromkeys(heard)]
        page.close()
    context.close()
    return found


COVERED = """() => [...document.querySelectorAll('main a[href]:not(.sd-stretched-link)')].filter(a => {
  if (!a.checkVisibility({visibilityProperty: true, opacityProperty: true})) return false;
  a.scrollIntoView({block: 'center', behavior: 'instant'});
  const {left, top, width, height} = a.getClientRects()[0];
  return !a.contains(document.elementFromPoint(left + width / 2, top + height / 2));
}).map(a => `a click goes elsewhere: ${a.outerHTML.slice(0, 90)}`)"""


def covered(browser: Any, file: Path) -> list[str]:
    """Links of a page that lie behind something, such as a link that covers a card."""
    page = browser.new_page()
    page.goto(file.resolve().as_uri())
    found = list(page.evaluate(COVERED))
    page.close()
    return found


PRINTED = """() => {
  const shown = selector => [...document.querySelectorAll(selector)].filter(e => e.checkVisibility());
  const brief = e => e.outerHTML.slice(0, 90), found = [];
  const aside = 'button, input, select, .bd-sidebar, .bd-header, .headerlink';
  for (const e of shown(aside)) found.push(`prints ${brief(e)}`);
  for (const e of shown('details:not([open], .hide)')) found.push(`prints it folded: ${brief(e)}`);
  if (shown('h1').length !== 1) found.push(`prints ${shown('h1').length} titles`);
  for (const e of shown('main a[href]'))
    if (!getComputedStyle(e).textDecorationLine.includes('underline')) found.push(`prints no line under ${brief(e)}`);
  return found;
}"""


def printed(browser: Any, file: Path) -> list[str]:
    """What is wrong with a page on paper, printed by a reader who has chosen the dark colours."""
    page = browser.new_page(color_scheme="dark")
    page.goto(file.resolve().as_uri())
    page.emulate_media(media="print")
    page.evaluate("() => new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    page.evaluate(THEME_FOLLOWS, "light")
    found = page.evaluate(PRINTED)
    behind, text = page.evaluate(LIGHTNESS)
    page.close()
    return [*found, *([] if behind > text else ["prints pale text"])]


class Opened(NamedTuple):
    """A page on its way, what is heard of it, and the files that it has loaded."""

    file: Path
    page: Any
    heard: list[str]
    loaded: set[Path]


def _open(context: Any, file: Path) -> Opened:
    page, heard, loaded = context.new_page(), [], set()

    def asked(request: Any) -> None:
        heard.extend(_outside(request.url))
        if (parts := urlsplit(request.url)).scheme == "file":
            loaded.add(Path(unquote(parts.path)))

    page.on("request", asked)
    page.on("console", lambda said: heard.append(f"console: {said.text}") if said.type == "error" else None)
    page.on("pageerror", lambda error: heard.append(f"error in a script: {error}"))
    page.set_viewport_size(SCREENS["phone"])
    page.emulate_media(color_scheme="light")
    page.goto(file.resolve().as_uri(), wait_until="commit")
    return Opened(file, page, heard, loaded)


def too_heavy(loaded: Iterable[Path], limit_mb: float) -> list[str]:
    """What a page weighs, if that is above the limit, and by what."""
    sizes = {path.name: path.stat().st_size / 1e6 for path in loaded if path.is_file()}
    if (total := sum(sizes.values())) <= limit_mb:
        return []
    most = ", ".join(f"{name} {sizes[name]:.2f}" for name in sorted(sizes, key=lambda name: -sizes[name])[:3])
    return [f"loads {total:.2f} MB, more than {limit_mb:g}: {most}"]


def _outside(address: str) -> list[str]:
    return [] if urlsplit(address).scheme in ("file", "data", "blob") else [f"asks for {address}"]
