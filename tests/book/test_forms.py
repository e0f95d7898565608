"""What an explorer's figure says of itself is so in every setting, or the page that holds it cannot
be made.
"""

from __future__ import annotations

import pytest

from hdpm_book.play.explorers import EXPLORERS
from hdpm_book.play.forms import Found

FIGURE = {"alt": "Two curves; the upper one rises.", "curves": []}


def test_what_a_figure_says_stands_there_and_is_so() -> None:
    assert Found("A sentence.", figure=FIGURE, says={"the upper one rises": True}).figure == FIGURE
    with pytest.raises(
        AssertionError, match="said of the figure, and not so: the upper one rises; A sentence"
    ):
        Found("A sentence.", figure=FIGURE, says={"the upper one rises": False})
    with pytest.raises(ValueError, match="'it falls' does not stand in the alt text 'Two curves"):
        Found("A sentence.", figure=FIGURE, says={"it falls": True})


@pytest.mark.parametrize("name", [name for name, one in EXPLORERS.items() if not one.script])
def test_all_settings_of_a_page_are_checked(name: str) -> None:
    found = EXPLORERS[name].found
    assert found.says and all(truth is True for truth in found.says.values())
    assert len(EXPLORERS[name].held()["states"]) == len(EXPLORERS[name].settings())
