"""Claims of the two versions that are of one kind are judged by one measure."""

from __future__ import annotations

import pytest

from hdpm_book.ledger import get


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("t-obs2-mu", "t-obs3-gamma"),  # "proportional", in a remark on a direction
        ("j-alg4", "t-alg-iter"),  # a set that the pseudo-code leaves out and the text names
        ("j-thmVIII1", "t-thm41"),  # convexity holds, and the rate is over another infimum
        ("t-eq3", "t-eq8-10"),  # one objective, with payments and without
        ("j-eq6-ic", "j-assumptionIII1"),  # what is only asked for
    ],
)
def test_what_is_of_one_kind_has_one_verdict(one: str, other: str) -> None:
    assert get(f"anjarlekar-{one}").verdict == get(f"anjarlekar-{other}").verdict


@pytest.mark.parametrize("version", "jt")
def test_the_ball_is_where_print_has_it(version: str) -> None:
    claim = get({"j": "anjarlekar-j-eq17-surrogate", "t": "anjarlekar-t-eq3"}[version])
    named = "mentioned constraints" in (claim.note or "")
    assert named == (version == "t") and (claim.verdict == "corrected") == (version == "j")
