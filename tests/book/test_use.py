"""The recipes: what they promise in prose, the reference's table, and a ledger of one's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy import stats

from hdpm_book import ledger
from hdpm_book.ledger import LedgerMismatch, decide, get, judge, load
from hdpm_book.play.explorers import COSTS
from hdpm_lib.auctions.allin import all_or_nothing
from hdpm_lib.designs.comparison import compare_markets, law_of
from hdpm_lib.designs.rules import Task
from hdpm_lib.learners.weighted_mean import weighted_mean
from hdpm_lib.validation import FALSE_ALARM
from tests.book.dataflow import CELL
from tests.book.test_ledger import GOOD
from tests.public import public_names
from tests.support import generator

LOOKS_AT = ["book/reference/index.md", "book/use"]
BOOK = Path(__file__).resolve().parents[2] / "book"


# --- the survey ---------------------------------------------------------------------------------

DESIGN = "hard budget, All-in repaired"
MONEY = 100.0
PEOPLE = 200
LAW = stats.uniform(1, 4)


def planned(law: Any, money: float, **options: Any) -> tuple[float, float]:
    """Privacy loss to ask for, and the error to expect."""
    plan = compare_markets(law, Task(), money, designs=[DESIGN], **options).loc[DESIGN]
    return plan["largest_epsilon"], plan["error"]


def sold(quotes: Any, loss: float, money: float) -> tuple[Any, Any]:
    """Privacy losses and payments of the recipe, for a batch of quotes."""
    sale = all_or_nothing(loss * quotes, np.full(quotes.shape, loss), money)
    return sale.privacy_loss, sale.payments


def test_the_error_of_a_survey_is_the_one_promised() -> None:
    """2000 surveys with answers uniform on [0, 1]; a false alarm has the probability FALSE_ALARM,
    as for a normal mean.

    The plan counts with a shrunk release, of the mean square XB^2/(B^2 + X); the recipe does not
    shrink.
    """
    rng = generator(7)
    loss, promised = planned(LAW, MONEY, sellers=PEOPLE)
    squares = []
    for _ in range(2000):
        wins = sold(LAW.rvs(PEOPLE, random_state=rng), loss, MONEY)[0] > 0
        mean = weighted_mean(loss * wins, [0.5], 0.5)
        assert (
            mean.privacy_loss[wins].max() == pytest.approx(loss)
            and mean.privacy_loss[~wins].sum() == 0
        )
        squares.append((mean.release(rng.random((PEOPLE, 1)), rng=rng)[0] - 0.5) ** 2)
    unshrunk = promised**2 / (1 - promised**2 * 12)
    allowed = -stats.norm.ppf(FALSE_ALARM / 2) * np.std(squares) / np.sqrt(len(squares))
    assert abs(np.mean(squares) - unshrunk) < allowed < unshrunk / 4


def test_the_laws_of_the_calculator_are_those_of_the_code_and_can_be_used() -> None:
    """What a visitor chooses in the form stands in the cell below it, with the same plan but for
    the draws of costs.
    """
    (cell,) = [
        code
        for code in CELL.findall((BOOK / "use" / "survey.md").read_text(encoding="utf8"))
        if "laws =" in code
    ]
    space: dict[str, Any] = {"stats": stats, "law_of": law_of, "law": LAW}
    exec(cell[: cell.index("for name")], space)
    assert len(space["laws"]) == len(COSTS)
    for chosen, law in zip(COSTS, space["laws"].values(), strict=True):
        shares, ends = COSTS[chosen][1]
        theirs = stats.rv_histogram((np.array(shares), np.array(ends)), density=False)
        middle = np.linspace(0.05, 0.95, 19)
        np.testing.assert_allclose(law.ppf(middle), theirs.ppf(middle), rtol=0.1)
        assert planned(law, MONEY, sellers=PEOPLE)[1] == pytest.approx(
            planned(theirs, MONEY, sellers=PEOPLE)[1], rel=0.05
        )
    with pytest.raises(ValueError, match=r"bounded support .* law_of\(law.rvs"):
        planned(stats.lognorm(1, scale=2), MONEY, sellers=PEOPLE)


def test_a_plan_from_the_quotes_themselves_rewards_lies() -> None:
    costs = np.random.default_rng(0).uniform(1, 5, 12)

    def utility(report: float) -> float:
        quotes = costs.copy()
        quotes[3] = report
        epsilon, payments = sold(quotes, planned(quotes, 20.0)[0], 20.0)
        return float(payments[3] - costs[3] * epsilon[3])

    assert utility(0.7 * costs[3]) > utility(costs[3]) + 0.1


# --- the table of the reference -----------------------------------------------------------------


def test_the_table_of_the_reference_has_all_public_names() -> None:
    text = (BOOK / "reference" / "index.md").read_text(encoding="utf8")
    listed = re.findall(r"\{(?:func|class)\}`~hdpm_lib\.[\w.]+\.(\w+)`", text)
    assert sorted(listed) == sorted(public_names())


# --- a ledger of one's own ----------------------------------------------------------------------

CLAIM = GOOD | {"id": "mine-thm1", "paper": "mine", "page": "checks"}


def write(folder: Path, *changes: dict[str, Any], name: str = "mine") -> Path:
    (folder / f"{name}.yaml").write_text(
        yaml.safe_dump([CLAIM | change for change in changes]), encoding="utf8"
    )
    return folder


def test_papers_of_another_folder(tmp_path: Path) -> None:
    folder = write(
        tmp_path, {}, {"id": "mine-thm2", "verdict": "pending", "page": None, "note": None}
    )
    with pytest.raises(
        LedgerMismatch, match=f"write it with page and note into {re.escape(str(folder))}/mine.yaml"
    ):
        judge("mine-thm2", "7 of 7", printed=True, folder=str(folder))
    write(folder, {"id": "ours-thm1", "paper": "ours"}, name="ours")
    assert [claim.id for claim in load(folder=folder)] == ["mine-thm1", "mine-thm2", "ours-thm1"]
    assert [claim.place for claim in load("ours", folder=folder)] == ["ours, Theorem 1"]
    with pytest.raises(
        LookupError, match=r"no paper 'khalili' in the ledger, only \['mine', 'ours'\]"
    ):
        load("khalili", folder=folder)
    with pytest.raises(
        LookupError, match="no claim 'mine-thm3' in the ledger; did you mean mine-thm"
    ):
        get("mine-thm3", folder=folder)
    with pytest.raises(LookupError, match="no claim 'mine-thm1'"):
        get("mine-thm1")  # this book's ledger is another
    with pytest.raises(
        LookupError, match=r"folder must hold claims, in files <paper>\.yaml, got .*nothing"
    ):
        load(folder=tmp_path / "nothing")


def test_a_decision_of_one_s_own_shows_itself_anywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path, {})
    decide("mine-thm1", "7 of 7", printed=True, folder=folder)
    assert capsys.readouterr().out == "mine-thm1  reproduced  7 of 7\n"
    box = judge("mine-thm1", "7 of 7", printed=True, folder=folder)._repr_html_()
    # its style with it, and no link to this book's ledger
    assert ledger.BOX in box and "<a " not in box
    first = load()[0]
    box = ledger.Decision(first, first.verdict, "7 of 7")._repr_html_()
    assert ledger.BOX not in box and f'claims/{first.id}.html"' in box
