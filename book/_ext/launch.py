"""Buttons of a page that open its notebook on the web, where ``addresses`` in ``_config.yml`` says
from where: Binder makes the notebooks from the ``repository`` (``.binder/postBuild``), and Colab
takes them from a folder on GitHub, ``notebooks``, that holds those of the site.

The theme has such buttons as well: they would open the page itself, whose text is not Markdown
alone. With an empty address there is no button. A button is a link: it loads nothing.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import notebooks
from sphinx.errors import ConfigError

GITHUB = "https://github.com/"


def binder(repository: str, docname: str) -> str:
    """Return the address at which Binder opens the notebook of a page.

    Examples
    --------
    >>> binder("https://github.com/us/book", "book/market")
    'https://mybinder.org/v2/gh/us/book/HEAD?urlpath=lab/tree/_build/notebooks/book/market.ipynb'
    >>> binder("https://git.example.org/book", "a")
    'https://mybinder.org/v2/git/https%3A%2F%2Fgit.example.org%2Fbook/HEAD?urlpath=lab/tree/_build/notebooks/a.ipynb'
    """
    repository = repository.rstrip("/").removesuffix(".git")
    if repository.startswith(GITHUB):
        source = f"gh/{repository.removeprefix(GITHUB)}"
    else:
        source = f"git/{quote(repository, safe='')}"
    file = quote(f"_build/notebooks/{docname}.ipynb")
    return f"https://mybinder.org/v2/{source}/HEAD?urlpath=lab/tree/{file}"


def colab(folder: str, docname: str) -> str:
    """Return the address at which Colab opens the notebook of a page.

    Examples
    --------
    >>> colab("https://github.com/us/book/tree/gh-pages/_sources", "book/market")
    'https://colab.research.google.com/github/us/book/blob/gh-pages/_sources/book/market.ipynb'
    """
    place = folder.rstrip("/").removeprefix(GITHUB).replace("/tree/", "/blob/", 1)
    return f"https://colab.research.google.com/github/{place}/{quote(docname)}.ipynb"


def check(app: Any, config: Any) -> None:
    """Refuse addresses from which nothing could be opened."""
    addresses = config.addresses
    repository = addresses["repository"]
    if repository and not repository.startswith("https://"):
        raise ConfigError(
            f"addresses: repository must be the https:// address of a repository, got {repository}"
        )
    folder = addresses["notebooks"]
    if folder and not re.match(rf"{GITHUB}[^/]+/[^/]+/tree/.", folder):
        raise ConfigError(
            "addresses: notebooks must be a folder on GitHub, https://github.com/"
            f"<owner>/<repository>/tree/<branch>/<folder>: Colab opens no other; got {folder}"
        )
    if folder and not addresses["site"]:
        raise ConfigError(
            "addresses: notebooks needs site: in Colab a notebook installs the library from there"
        )


def buttons(addresses: dict[str, str], docname: str) -> list[dict[str, str]]:
    """Return the buttons of a page, as the theme draws them."""
    links = {}
    if addresses["repository"]:
        links["Binder"] = binder(addresses["repository"], docname), "logo_binder.svg"
    if addresses["notebooks"]:
        links["Colab"] = colab(addresses["notebooks"], docname), "logo_colab.png"
    return [
        {
            "type": "link",
            "text": name,
            "tooltip": f"Open this page as a notebook in {name}",
            "icon": f"_static/images/{logo}",
            "url": url,
        }
        for name, (url, logo) in links.items()
    ]


def offer(app: Any, pagename: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Put the buttons of a page with code before those of the theme."""
    links = buttons(app.config.addresses, pagename)
    if links and pagename in notebooks.with_code(Path(app.srcdir)):
        group = {
            "type": "group",
            "tooltip": "Run this page on the web",
            "icon": "fas fa-rocket",
            "buttons": links,
            "label": "launch-buttons",
        }
        context["header_buttons"].insert(0, group)


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("config-inited", check)
    app.connect("html-page-context", offer, priority=502)  # the theme makes its buttons at 501
    return {"parallel_read_safe": True, "parallel_write_safe": True}
