"""The site's search: what visitors look for is among the first things found.

Searched in the built site, in a browser, by the theme's own search.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

FIRST = 5
FINDS = {  # the words of a visitor, and an address that is among the first ones found
    "khalili-thm5": "book/ledger.html#khalili-thm5",
    "flm-fig7": "book/ledger.html#flm-fig7",
    "Theorem 5": "book/ledger.html#khalili-thm5",
    "Table 1": "book/ledger.html#pdp-table01",
    "survey": "book/use/survey.html",
    "survey budget": "book/use/survey.html",
    "pipeline": "book/use/pipeline.html",
    "grid search": "book/use/pipeline.html",
    "audit my mechanism": "book/use/audit.html",
    "noise label": "book/use/label.html",
    "gradients noise": "book/use/gradients.html",
    "classifier": "book/use/classifier.html",
    "glossary": "book/use/glossary.html",
    "PersonalizedRidge": "book/reference/learners.html",
    "least_error_weights": "book/reference/ground.html",
    "posted prices": "book/federated/allin.html",
    "breast cancer": "book/logistic/cancer.html",
    "regret": "book/use/glossary.html#term-regret",
    "menus": "book/federated/menus.html",
    "errata": "book/errata.html",
    "what it costs": "book/reference/costs.html",
    "last digits": "book/privacy/arithmetic.html",
}
READY = """() => /found|did not match/.test(document.querySelector('.search-summary')?.textContent ?? '')"""

# Right end of the icon in the field of the page, and where the text begins.
TEXT_BEGINS = """() => {
  const form = document.querySelector('main form.bd-search'), input = form.querySelector('input');
  const style = getComputedStyle(input), left = input.getBoundingClientRect().left;
  const begins = left + parseFloat(style.borderLeftWidth) + parseFloat(style.paddingLeft);
  return [form.querySelector('.fa-magnifying-glass').getBoundingClientRect().right, begins];
}"""


@pytest.fixture(scope="module")
def search(site: Path, browser: Any) -> Iterator[Callable[[str], list[str]]]:
    """A function from words to the addresses that the site's search shows, in its order."""
    page = browser.new_page()

    def found(words: str) -> list[str]:
        page.goto(f"{(site / 'search.html').as_uri()}?q={quote(words)}")
        page.wait_for_function(READY)
        links = page.eval_on_selector_all("ul.search li > a", "all => all.map(a => a.getAttribute('href'))")
        return [re.sub(r"\?[^#]*", "", link) for link in links]

    yield found
    page.close()


@pytest.mark.parametrize("words", FINDS)
def test_a_visitor_finds(search: Any, words: str) -> None:
    found = search(words)[:FIRST]
    assert any(address.startswith(FINDS[words]) for address in found), found


@pytest.mark.parametrize("width", [390, 1400])
def test_the_words_are_not_behind_the_icon(site: Path, browser: Any, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.goto(f"{(site / 'search.html').as_uri()}?q=survey")
    icon, text = page.evaluate(TEXT_BEGINS)
    page.close()
    assert 0 < icon <= text


def test_nonsense_is_not_found(search: Any) -> None:
    assert search("qwertzuiop") == []
