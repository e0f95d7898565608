"""Studies in several places: what is audited, what is recorded, what dies, and the studies of pages that are spread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from hdpm_book.beyond import machines
from hdpm_book.beyond.machines import STEPS, Audit, guessed_share, on_processes, right_guesses
from hdpm_book.privacy import faults
from hdpm_book.privacy.mutation import drawn
from hdpm_book.ridge.study import Split, cells, fresh_draws, linear_population, published, table
from hdpm_lib import spread
from hdpm_lib.designs.comparison import compare_markets
from hdpm_lib.designs.rules import Task
from hdpm_lib.learners.integer_answers import integer_gradients
from hdpm_lib.validation import FALSE_ALARM
from tests.support import generator

# --- the audit --------------------------------------------------------------------------------------------------------


def test_what_is_audited_is_what_an_owner_sends() -> None:
    """One release by `integer_gradients` and by the audit, from the same stream."""
    for seed in range(20):
        one, other = generator(1810, seed), generator(1810, seed)
        bit = int(one.integers(0, 2, 1)[0])
        gradient = np.zeros((1, 5, 4))
        gradient[0, 0, 0] = 2 * bit - 1
        sent = integer_gradients(gradient, [1.0], 1.0, spacing=1 / STEPS, rng=one)[0, 0, 0]
        made, right = right_guesses(other, 1)
        assert made == (abs(sent) >= 1) and right == (abs(sent) >= 1 and (sent > 0) == bit)


@pytest.mark.parametrize(("loss", "steps"), [(1.0, STEPS), (1.0, 2), (0.1, 8), (2.0, 3)])
def test_share_of_guesses(loss: float, steps: int) -> None:
    """Against sums over the law of the noise, written anew."""
    reach = round(80 * steps / loss)
    k = np.arange(-reach, reach + 1)
    law = np.exp(-np.abs(k) * loss / (2 * steps))
    law /= law.sum()
    high, low = law[k >= 0].sum(), law[k <= -2 * steps].sum()  # from the centre at the upper end
    share, right = guessed_share(loss, steps)
    assert share == pytest.approx(high + low, rel=1e-9) and right == pytest.approx(high / (high + low), rel=1e-9)
    assert np.log(right / (1 - right)) == pytest.approx(loss, rel=1e-9)


@pytest.mark.parametrize("loss", [1.0, 16 / 15])
def test_counts_follow_the_law(loss: float) -> None:
    """400,000 runs, exact binomials; false alarms: 4e-6."""
    made, right = right_guesses(generator(1811), 400_000, (1, 2), 8, loss)
    share, likely = guessed_share(loss, 8)
    for count, total, p in ((made, 400_000, share), (right, made, likely)):
        assert stats.binomtest(int(count), int(total), p).pvalue > FALSE_ALARM
    wrong = guessed_share(1.1 * loss, 8)[1]  # broken on purpose: another loss is seen
    assert stats.binomtest(int(right), int(made), wrong).pvalue < FALSE_ALARM


def test_bounds_add_up() -> None:
    blocks = [right_guesses(generator(1812, k), 2000, (1, 1), 8) for k in range(10)]
    made, right = np.transpose(blocks)
    audit = Audit(made, right, np.ones(10))
    unit = machines.IN_BLOCK
    assert audit.runs.tolist() == [unit * k for k in range(1, 11)]
    last = machines.bound_of(right.sum(), made.sum(), 10 * unit)
    assert audit.bounds()[-1] == last < 1 and audit.hours()["mean"] == pytest.approx(1000 / 3600)


@pytest.mark.parametrize("runs", [10**5, 10**7, 10**9])
def test_the_expected_bound_climbs_as_the_formula_says(runs: int) -> None:
    share = guessed_share()[0]
    gap = 2 * stats.norm.isf(FALSE_ALARM) * np.cosh(0.5) / np.sqrt(share * runs)
    assert 1 - machines.expected_bound(runs) == pytest.approx(gap, rel=10 / np.sqrt(np.sqrt(runs)))


def test_runs_that_expose_a_scale_of_a_step_less() -> None:
    for steps in (8, STEPS):
        runs = machines.runs_needed(steps)
        wrong = 2 * steps / (2 * steps - 1)
        assert machines.exposed(runs) == pytest.approx(wrong, rel=0.02 * (wrong - 1))
    assert 0 < machines.runs_needed(8, 0.5) < machines.runs_needed(8)


# --- the record -------------------------------------------------------------------------------------------------------


def test_record_is_complete() -> None:
    assert set(machines.record()) == set(machines.PARTS)
    for part in machines.record().values():
        assert {"commit", "date", "hardware", "versions", "cpu_seconds", "found"} == set(part)
        assert {"numpy", "joblib", "dask", "distributed", "python"} <= set(part["versions"])
    found = pd.DataFrame(machines.recorded("bits"))
    assert len(found) == 12 and found["place"].nunique() == 4 and set(found["study"]) == set(machines.STUDIES)
    assert (found.groupby("study")["digest"].nunique() == 1).all() and found["digest"].nunique() == 3
    assert (found["seconds"] > 0).all()
    overhead = pd.DataFrame(machines.recorded("overhead"))
    assert overhead.groupby("place")["runs"].agg(list).tolist() == [[0, *machines.SIZES]] * 2 + [[*machines.SIZES]]
    assert (overhead["seconds"] > 0).all()
    loop, _, spread_out, other = machines.recorded("threads").values()
    assert loop == spread_out == other  # and two threads in a loop need not agree


def test_recorded_digest_of_integers_is_that_of_this_machine() -> None:
    stored = {row["digest"] for row in machines.recorded("bits") if row["study"] == machines.AUDIT}
    assert stored == {machines.digest(machines.run(machines.AUDIT))}


def test_recorded_kills() -> None:
    rows = machines.recorded("kills")
    assert len(rows) == 9 and all(row["same"] for row in rows)
    for row in rows:
        if row["happened"] in ("finished", "resumed"):
            assert row["kept"] == row["tasks"] or row["happened"] == "resumed"
        else:
            assert row["kept"] < row["tasks"]


def test_recorded_audit() -> None:
    audit = machines.recorded_audit()
    assert len(audit.made) >= 20 and (audit.right < audit.made).all() and (audit.seconds > 0).all()
    share, right = guessed_share()
    assert stats.binomtest(int(audit.made.sum()), int(audit.runs[-1]), share).pvalue > FALSE_ALARM
    assert stats.binomtest(int(audit.right.sum()), int(audit.made.sum()), right).pvalue > FALSE_ALARM
    assert machines.timed_guesses(0)[:2] == (audit.made[0], audit.right[0])


# --- what dies --------------------------------------------------------------------------------------------------------


def test_a_killed_study_goes_on() -> None:
    found = machines.resumed(tasks=30, blocks=3)
    assert found.same and 3 <= found.kept < 30 and found.again <= 1


def test_workers_die() -> None:
    with on_processes(2):
        once = machines.attempt("a worker", 12, doomed=3)
        always = machines.attempt("every worker", 12, doomed=3, deaths=99)
    assert once.happened == "finished" and once.kept == 12 and once.again >= 1 and once.same
    assert "workers died 3 times without finishing a block" in always.happened
    assert always.same and 0 < always.kept < 12


def test_other_bits_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison of kept blocks fails if one is another."""
    plain = machines._undisturbed(12)
    monkeypatch.setattr(machines, "_undisturbed", lambda tasks: [plain[0] + 1, *plain[1:]])
    assert not machines.attempt("nobody", 12).same


def test_sums_of_counts_do_not_depend_on_the_order() -> None:
    found = machines.sums_by_order(100)
    assert found["counts"] == 1 < found["losses"]


# --- studies of pages -------------------------------------------------------------------------------------------------


def table_of_designs() -> Any:
    return compare_markets([1.0, 1.5, 2.0, 3.0, 5.0] * 10, Task(), 20.0, draws=3).to_numpy()


def fresh_tables(seed: int, medical: Split) -> list[Any]:
    """Four tables of the ridge paper for fresh people, and cells of the sampling baseline."""
    rng = generator(1814, seed)
    found = [table(published(k), fresh_draws(published(k), rng, medical)).to_numpy() for k in (1, 2, 9, 10)]
    draw = fresh_draws(published(12), rng, medical)[0]
    return [*found, *(cell.mean for cell in cells(draw, 1.0, masks=30, rng=rng).values())]


def blind() -> Any:
    split = linear_population(80, 20, 12, rng=generator(1813))
    return [part for found in spread.each(fresh_tables, range(2), split) for part in found]


@pytest.mark.parametrize("study", [table_of_designs, blind])
def test_studies_have_the_same_bits_on_two_processes(study: Callable[[], Any]) -> None:
    found = study()
    with on_processes(2):
        again = study()
    assert len(found) == len(again) and bits(found) == bits(again)


def bits(found: Any) -> list[bytes]:
    return [np.ascontiguousarray(x, dtype=float).tobytes() for x in found]


def test_faults_are_planted_in_other_processes(tmp_path: Path) -> None:
    some = drawn(1)[:3]
    with on_processes(2):
        faults.collect(some, "releases", tmp_path)
    found = faults._stored(tmp_path / "faults-releases.part")
    alone = faults.again([one.name for one in some], ["releases"])
    assert found == {name: said["releases"] for name, said in alone.items()}
    assert [path.name for path in tmp_path.iterdir()] == ["faults-releases.part"]
