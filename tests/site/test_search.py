"""The site's search: what visitors look for is found first, with a sentence.

Searched in the built site, in a browser.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

FINDS = {  # the words of a visitor, and the address that is found first
    "survey budget respondents": "book/use/survey.html",
    "what is epsilon": "book/privacy/idea.html",
    "truthful auction": "book/federated/allin.html",
    "is FL-Market truthful": "book/federated/idea.html",
    "scikit-learn pipeline": "book/use/pipeline.html",
    "audit my mechanism": "book/use/audit.html",
    "personal privacy ridge": "book/ridge/idea.html",
    "who is paid what": "book/market.html",
    "floating point": "book/privacy/arithmetic.html",
    "Personalized Differential Privacy for Ridge Regression": "book/ridge/idea.html",
    "Designing Contracts for Trading Private and Heterogeneous Data": "book/contracts/idea.html",
    "Striking a Balance": "book/logistic/joint.html",
    "Mechanism Design for Heterogenous Differentially Private Data Acquisition": (
        "book/logistic/idea.html"
    ),
    "FL-Market": "book/federated/idea.html",
    "khalili-thm5": "book/claims/khalili-thm5.html",
    "flm-fig7": "book/claims/flm-fig7.html",
    "survey": "book/use/survey.html",
    "lognormal costs": "book/use/survey.html",
    "noise label": "book/use/label.html",
    "classifier": "book/use/classifier.html",
    "glossary": "book/use/glossary.html",
    "breast cancer": "book/logistic/cancer.html",
    "errata": "book/ledger.html",
    "what it costs": "book/reference/costs.html",
    "last digits": "book/privacy/arithmetic.html",
    "licence": "book/about.html",
    "license": "book/about.html",
    "how to cite": "book/about.html",
    "report an error": "book/about.html",
    "index of theorems": "book/indexes.html",
    "list of symbols": "book/indexes.html",
    "the book as PDF": "book/about.html",
    "confidence interval": "book/use/pipeline.html",
    "missing values": "book/use/pipeline.html",
    "correlated costs": "book/beyond/data.html",
    "hospital": "book/use/owner.html",
}
AMONG = {  # the same, among the first five
    "Theorem 5": "book/claims/khalili-thm5.html",
    "Table 1": "book/claims/pdp-table01.html",
    "grid search": "book/use/pipeline.html",
    "gradients noise": "book/use/gradients.html",
    "PersonalizedRidge": "book/reference/learners.html",
    "least_error_weights": "book/reference/ground.html",
    "posted prices": "book/federated/allin.html",
    "regret": "book/federated/regret.html",
    "menus": "book/federated/menus.html",
    "verdicts that changed": "book/ledger.html",
    "withdraw": "book/use/owner.html",
}
# questions to the ledger, and a claim that answers, among the first three
ANSWERS = {
    "is FL-Market truthful": "flm-prop2",
    "auction truthful": "flm-prop2",
    "is the objective convex?": "anjarlekar-j-thmVIII1",
    "does the privacy loss grow logarithmically": "khalili-thm1-log-growth",
    "regret of DM-RegretNet": "flm-claim-dm-universal",
    "is Algorithm 0 private?": "anjarlekar-t-prop1",
}
READY = """() => /found|did not match/.test(document.querySelector('.search-summary')?.textContent ?? '')"""
SEARCH = """words => {
  document.querySelector('#search-results').replaceChildren();
  Search.performSearch(words);
}"""

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
    page.goto(f"{(site / 'search.html').as_uri()}?q={quote(next(iter(FINDS)))}")

    def found(words: str) -> list[str]:
        page.wait_for_function(READY)
        page.evaluate(SEARCH, words)  # as the page does on loading, with the words of its address
        page.wait_for_function(READY)
        links = page.eval_on_selector_all(
            "ul.search li > a", "all => all.map(a => a.getAttribute('href'))"
        )
        return [re.sub(r"\?[^#]*", "", link) for link in links]

    yield found
    page.close()


@pytest.mark.parametrize("words", [*FINDS, *AMONG])
def test_a_visitor_finds(search: Any, words: str) -> None:
    found = search(words)[:5]
    if words in FINDS:
        assert found[0] == FINDS[words], found
    else:
        assert any(address.startswith(AMONG[words]) for address in found), found


@pytest.mark.parametrize("width", [390, 1400])
def test_a_page_of_hits(site: Path, browser: Any, width: int) -> None:
    """The words are not behind the icon, and each hit has a sentence."""
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.goto(f"{(site / 'search.html').as_uri()}?q=truthful")
    icon, text = page.evaluate(TEXT_BEGINS)
    assert 0 < icon <= text
    page.wait_for_function(READY)
    words = page.eval_on_selector_all(
        "ul.search li", "all => all.map(a => a.querySelector('p').textContent)"
    )
    assert len(words) > 5 and all(len(one) > 10 for one in words)
    page.close()


def test_the_ledger_answers_before_it_defines(site: Path, browser: Any) -> None:
    page = browser.new_page()
    page.goto((site / "book" / "ledger.html").as_uri())
    for words, answer in ANSWERS.items():
        page.get_by_label("Words").fill(words)
        rows = page.locator(".hdpm-claims tbody tr:visible")
        first = [rows.nth(k) for k in range(min(3, rows.count()))]
        assert answer in [row.get_attribute("id") for row in first], words
        assert first[0].get_attribute("data-verdict") != "not testable", words
    page.close()


def test_nonsense_is_not_found(search: Any) -> None:
    assert search("qwertzuiop") == []
