"""The page of fourteen tables shows beside each printed cell the same statistic of ours."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hdpm_book.ridge.study import published
from tests.book.dataflow import statements


def fresh(number: int) -> pd.DataFrame:
    """What the page's first cells compute for a table that a reader chooses."""
    space: dict[str, Any] = {}
    for statement in statements("ridge/tables"):
        if ast.unparse(statement).startswith("chosen_table ="):
            statement = ast.parse(f"chosen_table = {number}").body[0]
        exec(compile(ast.Module([statement], []), "ridge/tables", "exec"), space)
        if "fresh_cells" in space:
            frame: pd.DataFrame = space["fresh_cells"]
            return frame
    raise AssertionError("the page does not compute a table of its own")


@pytest.mark.filterwarnings("ignore::hdpm_book.retrieval.StandInWarning")
@pytest.mark.parametrize(("means", "spreads"), [(11, 13), (12, 14)])
def test_spreads_stand_beside_spreads(means: int, spreads: int) -> None:
    """For one draw, spread over mean is nearly a number of its own where noise is all, whoever the
    people are.
    """
    ours = fresh(spreads)["reg_pdp_op"] / fresh(means)["reg_pdp_op"]
    printed = published(spreads).printed["reg_pdp_op"]
    rows = printed.index[: len(printed) // 2]
    theirs = (printed / published(means).printed["reg_pdp_op"]).loc[rows]
    np.testing.assert_allclose(ours.loc[rows], theirs, rtol=0.05)
