"""The built site, and a browser to look at it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.site import check

HERE = Path(__file__).resolve().parent
SITE = HERE.parents[1] / "_build" / "html"


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest) -> Path:
    asked = [Path(argument.split("::")[0]).resolve() for argument in request.config.args]
    if not any(path.is_relative_to(HERE) for path in asked):
        pytest.skip("the site is looked at after it is built, by `make book`")
    if not check.pages(SITE):
        pytest.skip(f"no site in {SITE}: run `make book`")
    return SITE


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: no browser tests"
    )
    installed = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    if (chromium := next(filter(None, installed), None)) is None:
        pytest.skip("no Chromium is installed: no browser tests")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=chromium, args=check.CHROMIUM_OPTIONS)
        yield found
        found.close()
