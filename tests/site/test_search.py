"""The site's search: what visitors look for is among the first things found.

Searched in the built site, in a browser, by the theme's own search.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    "gradients noise": "book/use/gradients.html",
    "classifier": "book/use/classifier.html",
    "cheat sheet": "book/use/cheatsheet.html",
    "glossary": "book/use/glossary.html",
    "PersonalizedRidge": "book/reference/learners.html",
    "opt_aggr": "book/reference/ground.html",
    "posted prices": "book/federated/allin.html",
    "breast cancer": "book/logistic/cancer.html",
    "regret": "book/federated/regret.html",
    "menus": "book/federated/menus.html",
    "errata": "book/errata.html",
    "what it costs": "book/reference/costs.html",
    "limits": "book/privacy/limits.html",
}
RESULTS = """async words => {
  Search.performSearch(words);
  const list = () => [...document.querySelectorAll('#search-results ul.search li > a')];
  const end = Date.now() + 10000;
  while (!/found|did not match/.test(document.querySelector('#search-results').textContent) && Date.now() < end)
    await new Promise(done => setTimeout(done, 20));
  return list().map(a => a.getAttribute('href'));
}"""


@pytest.fixture(scope="module")
def search(site: Path, browser: Any) -> Iterator[Any]:
    page = browser.new_page()
    page.goto((site / "search.html").as_uri())
    page.wait_for_function("window.Search && Search._index")
    yield lambda words: page.evaluate(RESULTS, words)
    page.close()


@pytest.mark.parametrize("words", FINDS)
def test_a_visitor_finds(search: Any, words: str) -> None:
    found = [address.split("?")[0] for address in search(words)[:FIRST]]
    assert any(address.startswith(FINDS[words]) for address in found), found


def test_nonsense_is_not_found(search: Any) -> None:
    assert search("qwertzuiop") == []
