"""What a built site must keep to. Each check returns its complaints, so an empty list is a pass.

The first half reads the files; the second half opens pages in a browser, from disk.
"""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import execution
import nbformat
import notebooks
from bs4 import BeautifulSoup, Tag

LIMIT_MB = 56  # five of them are what the notebooks carry from the last run
PAGE_MB = 2.0  # all that a page loads, as it lies on disk
LIMITS_MB = {"book/index.html": 0.5}  # the front page
SIZES = {"phone": (390, 844), "tablet": (820, 1180), "desktop": (1280, 800), "wide": (1440, 900)}
SCREENS = {screen: {"width": width, "height": height} for screen, (width, height) in SIZES.items()}
# screen, scheme, size of the text in percent; one change at a time, for each costs a layout
VIEWS = (
    ("phone", "light", 200),
    *((screen, "light", 100) for screen in SCREENS),
    ("wide", "dark", 100),
)
# of one page: the style sheets of all are the same
DARK = (("tablet", "dark", 100), ("phone", "dark", 100))
HERE = Path(__file__).resolve().parent
AXE = HERE / "node_modules" / "axe-core" / "axe.min.js"  # put there by `make book`
CHROMIUM_OPTIONS = """--no-sandbox --disable-gpu --disable-background-networking
--disable-component-update --disable-sync --no-first-run""".split()

# of <link rel>
NOT_LOADED = {
    "alternate",
    "author",
    "canonical",
    "help",
    "index",
    "license",
    "next",
    "prev",
    "search",
}
REFRESH = re.compile(r"""<meta[^>]+http-equiv=["']?refresh[^>]+url=([^"'>]+)""", re.IGNORECASE)
# ids that sphinx-proof and sphinx-exercise give to every box of a kind
BOXES = re.compile(r"[a-z]+-content|proof")
LOADING = ("src", "srcset", "poster", "xlink:href")
CSS_ADDRESS = re.compile(r"""(?:url\(|@import )\s*["']?([^"')\s]+)""")
SCRIPT_ADDRESS = re.compile(r"""["'`]((?:https?:)?//[\w.-]+\.\w+[^"'`\s]*)""")


# --- by reading the files -----------------------------------------------------------------------


# Two thirds of all tags, in which there is nothing to find: tokens of code in colours, and the
# inside of formulas.
INNER = re.compile(r'<span class="\w{1,3}">([^<]*)</span>|(?<=<math>).*?(?=</math>)', re.DOTALL)


@cache
def read(page: Path) -> BeautifulSoup:
    """Parse a page; to collect garbage among so many tags would take a third of the time."""
    gc.disable()
    try:
        return BeautifulSoup(INNER.sub(r"\1", page.read_text(encoding="utf8")), "html.parser")
    finally:
        gc.enable()


@cache
def tags(page: Path) -> list[Tag]:
    """All tags of a page: to go through this list is a hundred times as fast as a search of the
    tree.
    """
    return list(read(page).find_all(True))


def pages(site: Path) -> list[Path]:
    """Every page of the site, without the theme's templates."""
    aside = {"_static", "_sources"}
    return [
        path
        for path in sorted(site.rglob("*.html"))
        if path.relative_to(site).parts[0] not in aside
    ]


def is_redirect(page: Path) -> bool:
    """Whether a page only leads to another one, as the front page of a jupyter-book does."""
    return REFRESH.search(page.read_text(encoding="utf8")) is not None


def loads_from_outside(site: Path) -> list[str]:
    """Whatever a page or a style sheet loads from another place than the site, or that is not
    there.
    """
    found = []
    for file in [*pages(site), *sorted(site.rglob("*.css"))]:
        addresses = CSS_ADDRESS.findall(file.read_text(encoding="utf8"))
        if file.suffix == ".html":
            addresses += [
                str(tag[name]) for tag in tags(file) for name in LOADING if name in tag.attrs
            ]
            links = [tag for tag in tags(file) if tag.name == "link" and "href" in tag.attrs]
            addresses += [
                str(link["href"])
                for link in links
                if not {*link.get_attribute_list("rel")} <= NOT_LOADED
            ]
            scripts = [
                tag.get_text()
                for tag in tags(file)
                if tag.name == "script" and "src" not in tag.attrs
            ]
            addresses += SCRIPT_ADDRESS.findall("\n".join(scripts))
        complaints = filter(None, (_not_local(site, file, address) for address in addresses))
        found += [f"{file.relative_to(site)} loads {complaint}" for complaint in complaints]
    return found


def _not_local(site: Path, base: Path, address: str) -> str | None:
    """Why an address does not serve offline, if it does not."""
    parts = urlsplit(address)
    if parts.scheme in ("data", "blob", "about") or not (
        parts.path or parts.scheme or parts.netloc
    ):
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
        links = [
            str(tag["href"])
            for tag in tags(page)
            if tag.name in ("a", "area") and "href" in tag.attrs
        ]
        for link in dict.fromkeys(links + REFRESH.findall(page.read_text(encoding="utf8"))):
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto"):
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if complaint := _not_local(site, page, link):
                found.append(f"{page.relative_to(site)} links to {complaint}")
            elif (
                parts.fragment
                and target.suffix == ".html"
                and unquote(parts.fragment) not in _places(target)
            ):
                found.append(
                    f"{page.relative_to(site)} links to {link}, but there is no such place in that"
                    " page"
                )
    return found


@cache
def _places(page: Path) -> frozenset[str]:
    names = {str(tag["name"]) for tag in tags(page) if tag.name == "a" and "name" in tag.attrs}
    return frozenset(names | {str(tag["id"]) for tag in tags(page) if "id" in tag.attrs})


def images_without_words(site: Path) -> list[str]:
    """Pictures without an alternative text; a file name, which Sphinx puts in when there is none,
    is not one.
    """
    wordless = re.compile(r"\s*(\S+\.(png|svg|jpe?g|gif|webp)\s*)?", re.IGNORECASE)
    return [
        f"{page.relative_to(site)}: {str(image.get('src', ''))[:100]} has no alt text"
        for page in pages(site)
        for image in tags(page)
        if image.name == "img" and wordless.fullmatch(str(image.get("alt", "")))
    ]


def white_figures(site: Path) -> list[str]:
    """Figures with something white in them, on which text of the page's colour cannot be read in
    the dark.
    """
    return [
        f"{page.relative_to(site)}: {str(figure.get('aria-label', ''))[:90]} has a white ground"
        for page in pages(site)
        for figure in tags(page)
        if figure.name == "svg"
        and "hdpm-figure" in figure.get_attribute_list("class")
        and re.search(r"fill: ?(#fff(fff)?|white)\b", str(figure))
    ]


def misshapen_pages(site: Path) -> list[str]:
    """Pages without exactly one first heading, and ids that stand for two places; language and
    title axe looks for.
    """
    found = []
    for page in pages(site):
        name = page.relative_to(site)
        headings = [
            tag
            for tag in tags(page)
            if tag.name == "h1" and not tag.find_parent(class_="onlyprint")
        ]
        if len(headings) != 1 and not is_redirect(page):
            found.append(f"{name}: {len(headings)} <h1>")
        ids = Counter(
            str(tag["id"]) for tag in (read(page).find("main") or read(page)).find_all(id=True)
        )
        found += [
            f"{name}: id {i} is there twice" for i in ids if ids[i] > 1 and not BOXES.fullmatch(i)
        ]
    return found


def folds_in_a_row(site: Path) -> list[str]:
    """Folded code that shows nothing, and then folded code again: two words *Code*, one below the
    other.
    """
    folded = (
        "div.cell.tag_hide-input:has(> details:only-child) + div.cell.tag_hide-input >"
        " details:first-child"
    )
    found = [page for page in pages(site) if "tag_hide-input" in page.read_text(encoding="utf8")]
    return [
        f"{page.relative_to(site)}: two folds in a row"
        for page in found
        for _ in read(page).select(folded)
    ]


def too_large(site: Path, limit_mb: float = LIMIT_MB) -> list[str]:
    """Return the size of the site if it is above the limit."""
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
        made = nbformat.read(path, as_version=4)
        # the first chooses the mode; those for answers to exercises are the notebook's own
        _, *code = [
            cell.source
            for cell in execution.code_cells(made)
            if "answer" not in cell.metadata.get("tags", ())
        ]
        written = execution.code_cells(execution.read(root / f"{page}.md"))
        if code != [cell.source for cell in written]:
            found.append(f"{page}: other code than its page")
        text = "\n\n".join(cell.source for cell in made.cells if cell.cell_type == "markdown")
        found += [f"{page}: MyST: {words}" for words in dict.fromkeys(RAW.findall(text))]
        found += [
            f"{page}: a placeholder: {words}"
            for words in dict.fromkeys(re.findall("‹[^›]*›?", text))
        ]
    return found


# Of a page's source: header and blocks without prose, and a fence with the options of its
# directive.
CODE = re.compile(
    r"\A---\n.*?\n---\n|^(`{3,}|:{3,})(?:\{(?:code-cell|eval-rst|holds)\}.*?|\w[^\n]*\n.*?)^\1 *$",
    re.DOTALL | re.MULTILINE,
)
FENCE = re.compile(r"^ *(?:`{3,}|:{3,})(?:\{[\w:-]+\})?(.*)\n(?: *:[\w-]+:.*\n)*", re.MULTILINE)
# What ends a run of words: numbers of lists, labels, roles, code, formulas, addresses and other
# marks.
MARKS = re.compile(
    r"^ *\d+\.|\(eq-[\w-]+\)|\([\w-]+\)=|\{[\w:-]+\}`[^`]*`|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\]\([^)]*\)|\{[^}]*\}|<[^>]*>"
    r"|[][*_|#\\+=@]|---?|\.\.\.",
    re.DOTALL | re.MULTILINE,
)


def lost_words(site: Path, root: Path = HERE.parents[1]) -> list[str]:
    """Words of a page's source that are not in the page: six in a row, or three to five between
    marks.
    """

    def words(text: str) -> list[str]:
        return re.findall(r"[^\W_]+", text.lower())

    def title(fence: re.Match[str]) -> str:
        return f"\n{fence[1] if re.search('[a-z] ', fence[1]) else ''}\n\n"

    found = []
    for path in execution.pages(root):
        main = read(site / path.relative_to(root).with_suffix(".html")).find("main")
        assert isinstance(main, Tag)
        there = f" {' '.join(words(main.get_text(' ')))} "
        text = FENCE.sub(title, CODE.sub("", path.read_text(encoding="utf8")) + "\n")
        for run in [
            words(part) for block in re.split(r"\n\s*\n", text) for part in MARKS.split(block)
        ]:
            parts = (
                [" ".join(run[k : k + 6]) for k in range(max(len(run) - 5, 1))]
                if len(run) > 2
                else []
            )
            found += [
                f"{path.relative_to(root)} loses: {part}"
                for part in parts
                if f" {part} " not in there
            ]
    return found


# --- in a browser -------------------------------------------------------------------------------


WIDTH = """() => {
  const root = document.documentElement, width = root.clientWidth, found = [];
  if (root.scrollWidth > width) {
    const wide = [...document.querySelectorAll('article *, body > main *')].filter(
      e => window.scrollX + e.getBoundingClientRect().left + e.scrollWidth > width + 1);
    const names = wide.slice(-2).map(e => e.outerHTML.slice(0, 90));
    found.push(`scrolls sideways: ${root.scrollWidth} px wide on ${width} px, perhaps by ${names.join(' and ')}`);
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
    if (!e.querySelector('math')) found.push(`formula not set: ${name(e)}`);
  for (const e of document.querySelectorAll('merror')) found.push(`error in a formula: ${name(e.closest('math'))}`);
  const main = document.querySelector('main') || document.body;
  const walker = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    if (node.parentElement.closest('pre, code, script, style, textarea')) continue;
    if (/\\\\[(\\[a-z]|\\$(?!\\s?\\d)/i.test(node.data))  // $5 is fine
      found.push(`bare TeX in the text: ${brief(node.data)}`);
  }
  return found;
}"""
# What is there but can hardly be read: words broken in a table, tables that are cut and do not say
# so, thin captions.
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
      if (node.parentElement.closest('math') || lines(node, 0, node.length) < 2) continue;
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
  for (const e of shown('main :is(div, pre, span.math, table)')) {
    if (!e.clientWidth || e.scrollWidth <= e.clientWidth + 1 || e.closest('.bd-sidebar-secondary')) continue;
    if (!['auto', 'scroll'].includes(getComputedStyle(e).overflowX)) continue;
    if (window.innerWidth === 1440 && e.matches('.math')) found.push(`a formula is cut: ${brief(e)}`);
    if (!(e.tabIndex === 0 && e.role && e.ariaLabel)) found.push(`scrolls without a name or the keyboard: ${brief(e)}`);
  }
  for (const text of shown('figcaption :is(.caption-text, p:not(:has(.caption-text))), figcaption:not(:has(p))')) {
    const { fontStyle, fontWeight } = getComputedStyle(text);
    if (fontWeight < 400 || fontStyle !== 'normal') found.push(`a caption is faint: ${fontStyle}, ${fontWeight}`);
  }
  return found;
}"""
# Lightness of what lies behind the text and of the text, 0 to 1.
LIGHTNESS = """() => {
  const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number); return (0.3 * r + 0.6 * g + 0.1 * b) / 255; };
  const clear = c => c === 'transparent' || /, 0\\)$/.test(c);
  const main = document.querySelector('main') || document.body;
  let e = main;
  while (e && clear(getComputedStyle(e).backgroundColor)) e = e.parentElement;
  return [e ? light(getComputedStyle(e).backgroundColor) : 1, light(getComputedStyle(main).color)];
}"""
VIEW = f"""async ([scheme, percent]) => {{
  document.documentElement.style.fontSize = `${{percent}}%`;
  for (let k = 0; k < 600; k++) {{  // a script of the theme follows a little later
    await new Promise(requestAnimationFrame);
    if ([scheme, undefined].includes(document.documentElement.dataset.theme)) break;
  }}
  return [({WIDTH})(), ({LIGHTNESS})()];
}}"""


# What axe need not see: the inside of formulas and figures, which it does not judge, and code whose
# kinds of tokens it has seen. Contrast it measures twice for each style of text that pages have:
# ``known`` is how often it has.
THIN = """known => {
  for (const e of document.querySelectorAll('math')) e.replaceChildren();
  for (const e of document.querySelectorAll('svg[role=img] > :not(title, desc)')) e.remove();
  const seen = new Set();
  for (const pre of document.querySelectorAll('.highlight pre, dt.sig')) {
    const kinds = [...pre.querySelectorAll('*')].map(e => `${e.tagName}.${e.className}`);
    if (kinds.every(kind => seen.has(kind))) pre.textContent = pre.textContent;
    else kinds.forEach(kind => seen.add(kind));
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const e = node.parentElement;
    if (!node.data.trim() || e.dataset.contrast || e.closest('script, style')) continue;
    let kind = '';
    for (let p = e, k = 0; p && k < 4; p = p.parentElement, k++)
      kind += `${p.tagName}.${p.className}.${p.getAttribute('style')} `;
    if (known[kind] === 2 || !e.checkVisibility({visibilityProperty: true})) continue;
    known[kind] = (known[kind] || 0) + 1;
    e.dataset.contrast = 'measured';
  }
  return known;
}"""
# Rules of axe whose breach is serious or critical; of these only contrast depends on the scheme.
RULES = """async scheme => {
  axe.configure({rules: [{id: 'color-contrast', selector: '[data-contrast]'}]});
  const aside = axe._audit.rules.filter(rule => !['serious', 'critical'].includes(rule.impact));
  const asked = scheme === 'dark' ? {runOnly: ['color-contrast']} :
    {rules: Object.fromEntries(aside.map(rule => [rule.id, {enabled: false}]))};
  const result = await axe.run(document, {resultTypes: ['violations'], preload: false, elementRef: false, ...asked});
  return result.violations.filter(v => ['serious', 'critical'].includes(v.impact)).flatMap(v =>
    v.nodes.map(n => `axe: ${v.id} (${v.impact}): ${n.html.slice(0, 120)}`));
}"""


# colours under way are none
STILL = """document.head.append(Object.assign(document.createElement('style'),
  {textContent: '*, ::before, ::after { transition: none !important; }'}));"""


def browse(browser: Any, files: Iterable[Path]) -> list[str]:
    """Open pages from disk, look at each on all screens, in light and dark, and complain about what
    is seen.
    """
    page = browser.new_page(reduced_motion="reduce")
    page.set_default_timeout(60_000)
    page.route(re.compile(r"^(?!file:|data:|blob:)"), lambda route: route.abort())
    heard = list[str]()
    loaded = set[Path]()

    def asked(request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme == "file":
            loaded.add(Path(unquote(parts.path)))
        elif parts.scheme not in ("data", "blob"):
            heard.append(f"asks for {request.url}")

    page.on("request", asked)
    page.on(
        "console",
        lambda said: heard.append(f"console: {said.text}") if said.type == "error" else None,
    )
    page.on("pageerror", lambda error: heard.append(f"error in a script: {error}"))
    axe = AXE.read_text(encoding="utf8") if AXE.exists() else ""
    known: dict[str, int] = {}
    found = list[str]()
    views = VIEWS + DARK
    for file in files:
        heard.clear()
        loaded.clear()
        page.set_viewport_size(SCREENS["phone"])
        page.emulate_media(color_scheme=(now := "light"))
        page.goto(file.resolve().as_uri())
        page.evaluate(STILL + axe)
        name = "/".join(file.parts[-2:])
        for screen, scheme, percent in views:
            if page.viewport_size != SCREENS[screen]:
                page.set_viewport_size(SCREENS[screen])
            if scheme != now:
                page.emulate_media(color_scheme=(now := scheme))
            place = f"{name} ({screen}, {scheme}, {percent} %)"
            found += [f"{place}: {seen}" for seen in _seen(page, known, screen, scheme, percent)]
        views = VIEWS
        sizes = {path.name: path.stat().st_size / 1e6 for path in loaded if path.is_file()}
        if (total := sum(sizes.values())) > (limit_mb := LIMITS_MB.get(name, PAGE_MB)):
            most = ", ".join(
                f"{one} {sizes[one]:.2f}" for one in sorted(sizes, key=lambda one: -sizes[one])[:3]
            )
            heard.append(f"loads {total:.2f} MB, more than {limit_mb:g}: {most}")
        found += [f"{name}: {complaint}" for complaint in dict.fromkeys(heard)]
    page.close()
    return found


def _seen(page: Any, known: dict[str, int], screen: str, scheme: str, percent: int) -> list[str]:
    seen, (behind, text) = page.evaluate(VIEW, [scheme, percent])
    if (behind < 0.25) != (scheme == "dark") or (behind < text) != (scheme == "dark"):
        seen.append(f"not {scheme}: lightness {behind:.2f} behind text of {text:.2f}")
    if screen in ("phone", "wide") and percent == 100:
        seen += page.evaluate(LEGIBLE)
    if screen == "wide":
        if scheme == "light":
            seen += page.evaluate(LOOK)
        if AXE.exists():
            known.update(page.evaluate(THIN, known))
            seen += page.evaluate(RULES, scheme)
    return list(seen)


STANDING = """async () => {
  await document.fonts.ready;
  for (let k = 0; k < 2; k++) await new Promise(requestAnimationFrame);
  return performance.now() / 1000;
}"""


def slow(browser: Any, file: Path, limit_s: float) -> list[str]:
    """How long it takes until the formulas of a page stand, if three times in a row that is above
    the limit.
    """
    for _ in range(3):
        with browser.new_page() as page:
            page.goto(file.resolve().as_uri())
            if (time := page.evaluate(STANDING)) < limit_s:
                return []
    return [f"formulas stand after {time:.1f} s, not {limit_s:g}"]


COVERED = """() => [...document.querySelectorAll('main a[href]:not(.sd-stretched-link)')].filter(a => {
  if (!a.checkVisibility({visibilityProperty: true, opacityProperty: true})) return false;
  a.scrollIntoView({block: 'center', behavior: 'instant'});
  const {left, top, width, height} = a.getClientRects()[0];
  return !a.contains(document.elementFromPoint(left + width / 2, top + height / 2));
}).map(a => `a click goes elsewhere: ${a.outerHTML.slice(0, 90)}`)"""


def covered(browser: Any, file: Path) -> list[str]:
    """Links of a page that lie behind something, such as a link that covers a card."""
    with browser.new_page() as page:
        page.goto(file.resolve().as_uri())
        return list(page.evaluate(COVERED))


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
    """Return what is wrong with a page on paper, printed by a reader who has chosen the dark colours."""
    with browser.new_page(color_scheme="dark") as page:
        page.goto(file.resolve().as_uri())
        page.emulate_media(media="print")
        _, (behind, text) = page.evaluate(VIEW, ["light", 100])
        return [*page.evaluate(PRINTED), *([] if behind > text else ["prints pale text"])]
