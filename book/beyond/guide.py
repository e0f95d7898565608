"""What the page :doc:`/book/beyond/guide` runs: every design in many markets, a page to explore them, and a guide.

``python -m hdpm_book.beyond.guide`` buys by every design in 176 markets and stores errors, money and privacy losses in
``data/studies``, to three digits; the page shows them. Costs are uniform on [1, `spread`]. Records are numbers in
[0, 1], skewed like medical charges, of the law ``RECORDS``; the buyer guesses :class:`hdpm_lib.designs.rules.Task`.
"""

from __future__ import annotations

import html
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize, stats

from hdpm_book import plots
from hdpm_book.beyond.tied import mean_record, tied_error
from hdpm_book.ledger import MODE
from hdpm_book.records import provenance
from hdpm_lib.designs.comparison import compare_markets, errors, law_of
from hdpm_lib.designs.rules import DESIGNS, Deal, Market, Task
from hdpm_lib.learners.weighted_mean import sampling_error
from hdpm_lib.spread import each
from hdpm_lib.validation import extra

with extra("book"):
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

Array = NDArray[np.float64]
STUDY = Path(str(resources.files("hdpm_book.data") / "studies" / "market-explorer.json"))

_MEAN, _VARIANCE = 0.20735, 0.035777  # of the medical charges over 64,000
_TOTAL = _MEAN * (1 - _MEAN) / _VARIANCE - 1
RECORDS = stats.beta(_MEAN * _TOTAL, (1 - _MEAN) * _TOTAL)
_GRID = np.linspace(0, 1, 20_001)
_TABLE = RECORDS.ppf(_GRID)
TASK = Task()
TRUTH = Task(_VARIANCE, (_MEAN - 0.5) ** 2)

DRAWS = {100: 300, 300: 150, 1000: 60, 3000: 30}  # of all costs, by the number of sellers
BUDGETS = (3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000)
SPREADS = (1.5, 2, 5, 20)
CORRELATIONS = (0, 0.1, 0.3, 0.6, 1)
DEFAULT: dict[str, Any] = {"sellers": 1000, "spread": 5, "budget": 100, "correlation": 0, "yardstick": "population"}
KNOWN, NOTHING = "costs known", "nothing is bought"  # two rows that are no markets
COLUMNS = ("money", "rents", "sellers", "mean_epsilon", "largest_epsilon")
HEADINGS = dict(zip(COLUMNS, ("money", "rents", "sellers", "mean ε", "largest ε"), strict=True))
HINTS = {
    "population": "At correlations above 0, dearer sellers have larger records. Full bar: as bad as no market.",
    "worst": "The worst data may be tied to the costs in any way: here the correlation does not matter.",
}

# --- the frames -------------------------------------------------------------------------------------------------------


def skewed(u: Array) -> Array:
    """Quantiles of ``RECORDS``, from a table."""
    return np.interp(u, _GRID, _TABLE)


def quantiles(sellers: int) -> Array:
    """Ranks of the costs, shape (draws, sellers): in all frames of so many sellers the same."""
    return np.random.default_rng(0).random((DRAWS[sellers], sellers))


def population(deal: Deal, costs: Array, law: Any, correlation: float) -> Array:
    """Population error of each draw, as a mean square, for ``RECORDS`` that are tied to the costs."""
    if correlation == 0:
        return errors(deal, TASK, TRUTH)[0]
    return tied_error(deal, costs, law, skewed, 0.5, correlation, TASK)


def deals(market: Market, costs: Array, designs: Sequence[str] = tuple(DESIGNS)) -> dict[str, Deal]:
    """The deals of some designs, and that of nothing at all."""
    found = {name: DESIGNS[name](market, costs) for name in designs}
    none, draws = np.zeros_like(costs), len(costs)
    return found | {NOTHING: Deal(none, weights=none, noise=np.full(draws, np.inf), money=np.zeros(draws))}


def _row(deal: Deal, costs: Array, law: Any) -> list[float]:
    """Error at each correlation and worst error, then the columns, then what the errors are off in percent."""
    squares = [population(deal, costs, law, r) for r in CORRELATIONS] + [errors(deal, TASK, TRUTH)[1]]
    roots = [float(np.sqrt(square.mean())) for square in squares]
    off = [50 * square.std(ddof=1) / np.sqrt(len(square)) / square.mean() for square in squares]  # half the squares'
    bought = deal.privacy_loss > 0
    rest = [
        deal.money.mean(),
        (deal.money - (costs * deal.privacy_loss).sum(-1)).mean(),
        bought.sum(-1).mean(),
        deal.privacy_loss.mean(),
        deal.privacy_loss.max(-1).mean(),
    ]
    return [digits(x) for x in [*roots, *rest]] + [round(x, 2) for x in off]


def digits(x: float, count: int = 3) -> float:
    """A number rounded to so many digits; what rounding errors leave of a zero is one."""
    return float(f"{x:.{count}g}") if abs(x) > 1e-9 else 0.0


def frame(sellers: int, spread: float, budget: float) -> dict[str, list[float]]:
    """What the study stores of one market: a row for each design, and one for buying nothing."""
    law = stats.uniform(1, spread - 1)
    costs = np.asarray(law.ppf(quantiles(sellers)))
    return {name: _row(deal, costs, law) for name, deal in deals(Market(TASK, law, budget), costs).items()}


def _stored(market: tuple[int, float, float]) -> list[list[float]]:
    """The numbers of one market."""
    return list(frame(*market).values())


def main() -> None:
    """Store all frames."""
    began = time.process_time()
    frames = each(_stored, product(DRAWS, SPREADS, BUDGETS))
    about = {
        "draws": list(DRAWS.values()),
        "sellers": list(DRAWS),
        "spreads": SPREADS,
        "budgets": BUDGETS,
        "correlations": CORRELATIONS,
        "designs": [*DESIGNS, NOTHING],
        "columns": [*(f"error, r = {r:g}" for r in CORRELATIONS), "worst", *COLUMNS]
        + [f"{name}, % off" for name in (*(f"r = {r:g}" for r in CORRELATIONS), "worst")],
        "cpu_seconds": round(time.process_time() - began),
    }
    text = json.dumps(provenance("numpy", "scipy") | about | {"frames": frames}, separators=(",", ":"))
    part = STUDY.with_suffix(".part")
    part.write_text(text.replace("]],", "]],\n") + "\n", encoding="utf8")
    os.replace(part, STUDY)


# --- the explorer -----------------------------------------------------------------------------------------------------


def study() -> dict[str, Any]:
    """What :func:`main` stored: lists of the choices, and in their order `frames`, each with a row for every design."""
    return _study(STUDY)


@cache
def _study(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
    return found


def shown(x: float) -> str:
    """Three digits, as the explorer prints them.

    Examples
    --------
    >>> [shown(x) for x in (0.0272, 0.27, 27.2, 1250.0, 5e-5, 0.0)]
    ['0.0272', '0.270', '27.2', '1250', '0.0000500', '0']
    """
    return format(Decimal(f"{x:.2e}"), "f") if x else "0"


def stored_frame(sellers: int, spread: float, budget: float) -> pd.DataFrame:
    """The stored numbers of one market, a row for each design."""
    found = study()
    places = [found[key].index(x) for key, x in (("sellers", sellers), ("spreads", spread), ("budgets", budget))]
    place = (places[0] * len(found["spreads"]) + places[1]) * len(found["budgets"]) + places[2]
    return pd.DataFrame(found["frames"][place], index=found["designs"], columns=found["columns"])


def explorer_table(
    sellers: int, spread: float, budget: float, correlation: float = 0, yardstick: str = "population"
) -> pd.DataFrame:
    """What the explorer shows of one market, as text, from the least error on."""
    rows = stored_frame(sellers, spread, budget)
    error = "worst" if yardstick == "worst" else f"error, r = {correlation:g}"
    off = "worst, % off" if yardstick == "worst" else f"r = {correlation:g}, % off"
    rows = rows.sort_values(error, kind="stable")
    columns = {"error": rows[error].map(shown), "± %": rows[off].map("{:.2f}".format)}
    return pd.DataFrame(columns | {HEADINGS[name]: rows[name].map(shown) for name in COLUMNS})


def winner(rows: pd.DataFrame) -> str:
    """The sentence on a table of the explorer: which market has the least error, and which are as good."""
    errors, off = (rows[name].astype(float).drop(KNOWN) for name in ("error", "± %"))
    best, least = errors.index[0], errors.iloc[0]
    if best == NOTHING:
        return f"No market is better than buying nothing, error {rows['error'][best]}."
    gap = 2 * np.hypot(errors * off, least * off.iloc[0]) / 100
    close = [name for name in errors.index[1:] if errors[name] - least <= gap[name]]
    words = f"Least error of all markets: {best}, {rows['error'][best]}."
    if len(close) > 2:
        return f"{words} Within two standard errors of it: {len(close)} others."
    return f"{words} Within two standard errors of it: {' and '.join(close)}." if close else words


class Explorer:
    """The table of all designs: of one market in plain text, of all markets in a browser that runs scripts."""

    def __init__(self) -> None:
        self.rows = explorer_table(**DEFAULT)

    def __repr__(self) -> str:
        """Plain text of the table with which the explorer opens, and its sentence."""
        return f"{winner(self.rows)}\n{self.rows.to_string()}"

    def _repr_html_(self) -> str:
        """The explorer; for those who explore in a notebook its table alone."""
        table = f'<p class="hdpm-winner" role="status">{html.escape(winner(self.rows))}</p>{self._table()}'
        if os.environ.get(MODE) == "explore":
            return table
        found = study()
        kept = {key: found[key] for key in ("sellers", "spreads", "budgets", "correlations", "designs", "frames")}
        data = json.dumps(kept | {"known": KNOWN, "nothing": NOTHING}, separators=(",", ":"), ensure_ascii=False)
        scripts = f'<script type="application/json">{data}</script>' + "".join(
            f'<script defer src="../../_static/{name}.js"></script>' for name in ("explore", "explorer")
        )
        return f'<div class="hdpm-explorer">{_form(found)}{table}{scripts}</div>'

    def _table(self) -> str:
        head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in ("design", *self.rows.columns))
        nothing = float(self.rows["error"][NOTHING])
        best = next(name for name in self.rows.index if name != KNOWN)
        body = ""
        for name, row in self.rows.iterrows():
            mark = "best" if name == best else "benchmark" if name == KNOWN else ""
            words = html.escape(str(name)) + (f' <span class="hdpm-mark">{mark}</span>' if mark else "")
            share = min(1.0, float(row["error"]) / nothing)
            bar = f'<span class="hdpm-bar" style="width: {100 * share:.1f}%"></span>'
            cells = [f"<td>{row['error']}{bar}</td>", *(f"<td>{cell}</td>" for cell in row.iloc[1:])]
            chosen = ' class="hdpm-best"' if name == best else ""
            body += f'<tr{chosen}><th scope="row">{words}</th>{"".join(cells)}</tr>'
        caption = caption_of(**DEFAULT)
        return (
            f'<div class="hdpm-scroll" role="region" aria-label="All designs in one market" tabindex="0">'
            f'<table class="hdpm-table hdpm-designs"><caption>{caption}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )


def caption_of(sellers: int, spread: float, budget: float, correlation: float, yardstick: str) -> str:
    """What a table of the explorer is of."""
    error = "error on the worst data" if yardstick == "worst" else f"population error at correlation {correlation:g}"
    return f"{sellers} sellers, costs from 1 to {spread:g}, budget {budget:g}: {error}"


def _form(found: dict[str, Any]) -> str:
    """Controls: a script shows them, and without one they would do nothing."""

    def select(name: str, label: str, values: Sequence[float]) -> str:
        options = "".join(
            f'<option value="{place}"{" selected" if value == DEFAULT[name] else ""}>{value:g}</option>'
            for place, value in enumerate(values)
        )
        label = f'<label for="hdpm-{name}">{label}</label>'
        return f'<div>{label}<select id="hdpm-{name}" name="{name}">{options}</select></div>'

    def slider(name: str, label: str, values: Sequence[float]) -> str:
        start = DEFAULT[name]
        return (
            f'<div><label for="hdpm-{name}">{label}</label>'
            f'<output for="hdpm-{name}" aria-live="off">{start:g}</output><input id="hdpm-{name}" name="{name}" '
            f'type="range" min="0" max="{len(values) - 1}" value="{values.index(start)}" aria-valuetext="{start:g}" '
            f'aria-describedby="hdpm-hint"></div>'
        )

    def radio(value: str, words: str) -> str:
        checked = " checked" if value == DEFAULT["yardstick"] else ""
        return f'<label><input type="radio" name="yardstick" value="{value}"{checked}> {words}</label>'

    hints = " ".join(f'data-{name}="{words}"' for name, words in HINTS.items())
    return (
        '<form class="hdpm-market" aria-label="The market" autocomplete="off" hidden>'
        + select("sellers", "Sellers", found["sellers"])
        + select("spread", "Costs, from 1 up to", found["spreads"])
        + slider("budget", "Expected budget", found["budgets"])
        + slider("correlation", "Correlation of cost and record", found["correlations"])
        + "<fieldset><legend>Yardstick</legend>"
        + radio("population", "population error")
        + radio("worst", "worst data")
        + f'</fieldset><p id="hdpm-hint" {hints}>{HINTS["population"]}</p></form>'
    )


# --- the guide --------------------------------------------------------------------------------------------------------

AUCTION, ALIKE = "error-minimising auction", "everyone at the highest cost, shrunk"
SHRUNK = "contracts, M2 shrunk by the reader"
LIMIT = 2 / 3  # of |r| alpha: above it cheap sellers mislead more than they save
QUARTER = float(stats.norm.pdf(stats.norm.ppf(0.25)) / 0.25)  # how far below 0 the cheapest quarter's mean score is


def reach(budget: float, spread: float, deviation: float, task: Task = TASK) -> float:
    """The number alpha: standard deviation of a record over that of the noise, if all are paid alike."""
    return float(budget * deviation / (spread * np.sqrt(task.noise)))


def all_frames() -> pd.DataFrame:
    """Everything that is stored: a row by design and market, with `alpha` and, over the root of n, `level`."""
    found, parts = study(), []
    markets = product(found["sellers"], found["spreads"], found["budgets"])
    for (sellers, spread, budget), rows in zip(markets, found["frames"], strict=True):
        part = pd.DataFrame(rows, columns=found["columns"])
        part.insert(0, "design", found["designs"])
        alpha = reach(budget, spread, np.sqrt(_VARIANCE))
        place = {"n": sellers, "spread": spread, "budget": budget, "alpha": alpha, "level": alpha / np.sqrt(sellers)}
        parts.append(part.assign(**place))
    return pd.concat(parts, ignore_index=True)


def _by_design(column: str) -> pd.DataFrame:
    """A stored column, markets by designs."""
    return all_frames().pivot(index=["n", "spread", "budget", "alpha", "level"], columns="design", values=column)


@dataclass(frozen=True)
class Accuracy:
    """How far off the stored errors are, two standard errors in percent."""

    markets: int
    noisy: dict[str, float]  # the largest, of the designs whose spending varies most from draw to draw
    others: float  # of all other designs: population error without correlation, and worst error


def accuracy() -> Accuracy:
    """Standard errors of the stored errors."""
    rows = all_frames()
    off = 2 * rows.groupby("design")[["r = 0, % off", "worst, % off"]].max().max(axis=1)
    noisy = {name: float(off[name]) for name in ("one posted price", "local menu")}
    return Accuracy(len(rows) // len(off), noisy, float(off.drop(list(noisy)).max()))


def errors_of(markets: dict[str, dict[str, Any]], designs: Sequence[str]) -> pd.DataFrame:
    """Errors that the explorer shows for some designs, in markets given by what differs from the first one."""
    rows = {name: explorer_table(**(DEFAULT | chosen))["error"][list(designs)] for name, chosen in markets.items()}
    return pd.DataFrame(rows).T


def local_menu_by_money(correlation: float) -> dict[int, float]:
    """Error of the local menu in the first market, at four budgets."""
    column = f"error, r = {correlation:g}"
    return {P: float(stored_frame(1000, 5, P)[column]["local menu"]) for P in (30, 50, 100, 300)}


def rounded(table: pd.DataFrame) -> pd.DataFrame:
    """A table of `compare_markets` as text of three digits, without standard errors."""
    kept = table[["error", "worst", *COLUMNS]].rename(columns=HEADINGS)
    return kept.map(lambda x: shown(digits(x)))


def both_errors(table: pd.DataFrame) -> Figure:
    """Both errors of each design in a table of `compare_markets`, on a logarithmic axis."""
    rows = table.iloc[::-1]
    figure = Figure(figsize=(6.4, 0.32 * len(rows) + 1.4), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(rows))
    for name, label, marker, shift in (("error", "population", "o", 0.12), ("worst", "worst data", "s", -0.12)):
        axes.errorbar(rows[name], places + shift, xerr=2 * rows[f"{name}_se"], fmt=marker, markersize=5, label=label)
    axes.set_yticks(places, rows.index)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("error, ± two standard errors")
    axes.grid(axis="x", which="both", alpha=0.3)
    figure.legend(loc="outside upper right", ncols=2)
    return figure


@dataclass(frozen=True)
class Evidence:
    """What the stored markets say for each line of the guide: ratios of errors, and in how many markets."""

    local: tuple[float, float]  # local menu over the auction, least and largest, where the auction has N >= 10
    roots: tuple[float, float]  # the same over the fourth root of N
    local_markets: int
    auction_worst: float  # median ratio of the worst errors, auction over M2
    m2_worst: float  # largest ratio of the worst errors, M2 over the best market
    rich: float  # everyone at the highest cost over the auction, largest where level >= 1
    rich_markets: int
    gain: tuple[float, float]  # the same where level < 1/3 and alpha > 1, least and largest
    posted: tuple[float, float, float]  # one posted price over the auction, median, largest, two errors of the largest
    hard: tuple[float, float]  # All-in repaired over the auction, median and largest
    fair: tuple[float, float]  # FairQuery over everyone at the highest cost, least and largest, alpha > 1 and level < 1
    exposed: float  # median ratio of the largest losses, auction over M2


def evidence() -> Evidence:
    """The numbers of the guide."""
    error, worst, loss = (_by_design(name) for name in ("error, r = 0", "worst", "largest_epsilon"))
    alpha, level = (error.index.get_level_values(name).to_numpy() for name in ("alpha", "level"))
    m2 = "contracts, M2 as released"
    effective = _VARIANCE / error[AUCTION].to_numpy() ** 2
    some = (effective >= 10) & (level < 1)
    local = (error["local menu"] / error[AUCTION]).to_numpy()[some]
    roots, alike = local / effective[some] ** 0.25, (error[ALIKE] / error[AUCTION]).to_numpy()
    fair = (error["FairQuery as released"] / error[ALIKE]).to_numpy()[(alpha > 1) & (level < 1)]
    poor = alike[(level < 1 / 3) & (alpha > 1)]

    def middle_and_most(ratio: pd.Series) -> tuple[float, float]:
        return float(ratio.median()), float(ratio.max())

    posted, off = error["one posted price"] / error[AUCTION], _by_design("r = 0, % off")
    most = int(posted.to_numpy().argmax())
    errors_of_it = off[["one posted price", AUCTION]].to_numpy()[most] / 100

    return Evidence(
        local=(float(local.min()), float(local.max())),
        roots=(float(roots.min()), float(roots.max())),
        local_markets=int(some.sum()),
        auction_worst=float((worst[AUCTION] / worst[m2]).median()),
        m2_worst=float((worst[m2] / worst.drop(columns=KNOWN).min(axis=1)).max()),
        rich=float(alike[level >= 1].max()),
        rich_markets=int((level >= 1).sum()),
        gain=(float(poor.min()), float(poor.max())),
        posted=(*middle_and_most(posted), float(2 * posted.max() * np.hypot(*errors_of_it))),
        hard=middle_and_most(error["hard budget, All-in repaired"] / error[AUCTION]),
        fair=(float(fair.min()), float(fair.max())),
        exposed=float((loss[AUCTION] / loss[m2]).median()),
    )


@dataclass(frozen=True)
class RuleCheck:
    """How good the choice by level and alpha times the correlation is between the auction and paying all alike."""

    markets: int
    near: float  # share in which the error of the chosen one is at most 5 % above that of the other
    regret: float  # error of the chosen one over that of the better one, largest
    stake: float  # error of the worse one over that of the better one, mean
    hurt: float  # share in which the auction is worse than buying nothing


def _judged(auction: Array, alike: Array, nothing: Array, level: Array, r: Array, alpha: Array) -> dict[str, RuleCheck]:
    """For markets that the rule is made for, for others, and for all together."""
    chosen = np.where((level >= 1) | (np.abs(r) * alpha > LIMIT), alike, auction)
    best, worse = np.minimum(auction, alike), np.maximum(auction, alike)
    regret, range_ = chosen / best, (alpha >= 1) | (np.abs(r) < 0.5)
    return {
        name: RuleCheck(
            int(some.sum()),
            float((regret[some] <= 1.05).mean()),
            float(regret[some].max()),
            float((worse / best)[some].mean()),
            float((auction > nothing)[some].mean()),
        )
        for name, some in (("in its range", range_), ("alpha < 1 and |r| > 1/2", ~range_), ("all", level >= 0))
    }


def rule_on_frames() -> dict[str, RuleCheck]:
    """In all stored markets and at all correlations."""
    found = [_by_design(f"error, r = {r:g}") for r in CORRELATIONS]
    auction, alike, nothing = (np.concatenate([rows[name] for rows in found]) for name in (AUCTION, ALIKE, NOTHING))
    alpha, level = (np.tile(found[0].index.get_level_values(name), len(found)) for name in ("alpha", "level"))
    return _judged(auction, alike, nothing, level, np.repeat(CORRELATIONS, len(found[0])), alpha)


OTHERS: dict[str, Callable[[Array], Array]] = {
    "skewed": skewed,
    "skewed the other way": lambda u: 1 - skewed(1 - u),
    "uniform on [0, 0.6]": lambda u: 0.6 * u,
}


def rule_on_fresh_markets(count: int, seed: int = 10, draws: int = 30) -> dict[str, RuleCheck]:
    """In markets that are not stored: any spread, budget and correlation, also below 0, and three laws of records."""
    rng, found = np.random.default_rng(seed), []
    for k in range(count):
        sellers = int(rng.choice([150, 600]))
        spread, budget = np.exp(rng.uniform(np.log([1.3, 5]), np.log([30, 1000])))
        r, quantile = rng.uniform(-1, 1), list(OTHERS.values())[k % len(OTHERS)]
        law, x = stats.uniform(1, spread - 1), quantile((np.arange(4000) + 0.5) / 4000)
        costs = np.asarray(law.ppf(rng.random((draws, sellers))))
        bought = deals(Market(TASK, law, budget), costs, (AUCTION, ALIKE))
        squares = [tied_error(bought[name], costs, law, quantile, 0.5, r, TASK) for name in (AUCTION, ALIKE)]
        roots = [np.sqrt(square.mean()) for square in squares]
        alpha = reach(budget, spread, x.std())
        found.append([*roots, abs(mean_record(quantile) - 0.5), alpha / np.sqrt(sellers), r, alpha])
    return _judged(*np.array(found).T)


COSTS: dict[str, Callable[[np.random.Generator], Any]] = {
    "uniform": lambda rng: stats.uniform(1, np.exp(rng.uniform(np.log(1.3), np.log(30))) - 1),
    "two groups": lambda rng: stats.rv_histogram(
        (np.array([10.0, 1.0, 9.0]), np.cumsum([1.0, 0.5, rng.uniform(2, 15), 1.0])), density=False
    ),
    "lognormal": lambda rng: law_of(rng.lognormal(np.log(3), rng.uniform(0.4, 1.2), 200)),
}


def rule_on_other_costs(count: int = 20, seed: int = 11, sellers: int = 150, draws: int = 10) -> pd.DataFrame:
    """What the guide names in fresh markets of three kinds of costs, against the best of four; a row for each kind.

    The four are the auction, paying all alike, M2 shrunk and buying nothing. Lines 3 to 5 choose between the first two;
    the whole guide buys nothing by line 0, where the mean is known to be as close to the middle, and M2 by line 4.
    """
    rng, rows = np.random.default_rng(seed), {}
    records = [*OTHERS.values(), lambda u: 0.3 + 0.5 * u]  # the last has its mean near the middle
    for kind, drawn in COSTS.items():
        found = []
        for k in range(count):
            law, quantile, r = drawn(rng), records[k % len(records)], rng.uniform(-1, 1)
            budget = float(law.mean() * np.exp(rng.uniform(np.log(10), np.log(300))))
            costs, x = np.asarray(law.ppf(rng.random((draws, sellers)))), quantile((np.arange(4000) + 0.5) / 4000)
            bought = deals(Market(TASK, law, budget), costs, (AUCTION, ALIKE, SHRUNK))
            squares = [tied_error(deal, costs, law, quantile, 0.5, r, TASK).mean() for deal in bought.values()]
            alpha = reach(budget, law.support()[1], x.std())
            alike = alpha >= np.sqrt(sellers) or abs(r) * alpha > LIMIT
            promised = errors(bought[ALIKE if alike else AUCTION], TASK, TASK)[0].mean()
            promised += 0 if alike else (QUARTER * r * x.std()) ** 2
            found.append([*np.sqrt(squares), alike, np.sqrt(promised) > abs(x.mean() - 0.5)])
        auction, same, shrunk, nothing = (table := np.array(found)).T[:4]
        alike, known = table.T[4:] > 0
        best = table[:, :4].min(axis=1)
        named = np.where(alike, same, auction)
        guided = np.where(known, nothing, np.where(alike, shrunk, auction))
        rows[kind] = {
            "lines 3 to 5 within 5 % of the best": f"{np.mean(named <= 1.05 * best):.0%}",
            "at most": f"{(named / best).max():.1f}",
            "lines 0 to 5, with M2": f"{np.mean(guided <= 1.05 * best):.0%}",
            "at most ": f"{(guided / best).max():.1f}",
            "buying nothing is best": f"{(nothing <= best).sum()} of {count}",
            "line 0 says so": f"{(known & (nothing <= best)).sum()}",
            "alike / M2 in line 4, at most": f"{(same / shrunk)[alike].max(initial=0):.2f}",
        }
    return pd.DataFrame(rows).T


@dataclass(frozen=True)
class Flip:
    """The correlation from which on paying all alike has the smaller error than the auction."""

    predicted: float  # for normal records, before shrinking
    found: float  # for skewed records, shrunk
    times_alpha: float  # the found one times alpha


def flip(budget: float, sellers: int = 1000, spread: float = 5, draws: int = 30) -> Flip:
    """Where the errors of the two designs cross, and where the proposition says so."""
    ranks, law = np.random.default_rng(2).random((draws, sellers)), stats.uniform(1, spread - 1)
    costs = np.asarray(law.ppf(ranks))
    bought = deals(Market(TASK, law, budget), costs, (AUCTION, ALIKE))
    auction, alike = bought[AUCTION], bought[ALIKE]
    z = stats.norm.ppf(ranks)
    pull = ((auction.weights * z).sum(-1) ** 2 - (auction.weights**2).sum(-1)).mean()
    gap = [sampling_error(deal.weights, deal.noise, _VARIANCE).mean() for deal in (alike, auction)]

    found = _crossing(auction, alike, costs, law, skewed)
    predicted = float(np.sqrt((gap[0] - gap[1]) / (_VARIANCE * pull)))
    return Flip(predicted, found, found * reach(budget, spread, np.sqrt(_VARIANCE)))


def _crossing(
    deal: Deal, rival: Deal, costs: Array, law: Any, quantile: Callable[[Array], Array], sign: int = 1
) -> float:
    """Size of the correlation of this sign from which on the rival has the smaller error; NaN if it never has."""

    def excess(size: float) -> float:
        one, other = (tied_error(d, costs, law, quantile, 0.5, sign * size, TASK) for d in (deal, rival))
        return float((one - other).mean())

    return float(optimize.brentq(excess, 0.0, 0.99, xtol=1e-3)) if excess(0.99) > 0 else float("nan")


def crossings(answers: Array, budget: float, draws: int = 40) -> pd.DataFrame:
    """Size of the correlation from which on the auction loses to two rivals, for the costs of a survey."""
    law = law_of(answers)
    costs = np.asarray(law.ppf(np.random.default_rng(0).random((draws, len(answers)))))
    bought = deals(Market(TASK, law, budget), costs, (AUCTION, ALIKE, SHRUNK))
    records = {"uniform on [0, 1]": lambda u: u, "skewed": skewed}
    rows = {
        f"{name}, large ones {'dear' if sign > 0 else 'cheap'}": {
            rival: _crossing(bought[AUCTION], bought[rival], costs, law, quantile, sign) for rival in (SHRUNK, ALIKE)
        }
        for name, quantile in records.items()
        for sign in (1, -1)
    }
    return pd.DataFrame(rows).T


def seeds(answers: Array, budget: float, count: int = 12) -> pd.DataFrame:
    """How much the errors in the table of a survey vary over seeds, and the standard errors that it states."""
    names = {"auction": AUCTION, "M2": "contracts, M2 as released"}
    designs = tuple(names.values())
    tables = [
        compare_markets(answers, TASK, budget, designs=designs, rng=np.random.default_rng(k)).loc[list(designs)]
        for k in range(count)
    ]
    found = {}
    for column in ("error", "worst"):
        found[f"{column}, over seeds"] = np.std([table[column] for table in tables], axis=0, ddof=1)
        found[f"{column}, stated"] = np.mean([table[f"{column}_se"] for table in tables], axis=0)
    return pd.DataFrame(found, index=list(names))


def decision_tree() -> Figure:
    """The guide as a picture: questions in boxes, from top to bottom, and what to use beside them."""
    questions = (
        ("Does anybody hold\nthe raw records?", "no", "local menu"),
        ("Must the answer hold\nfor any records?", "yes", "M2"),
        ("Is the mean known\nto the promised error?", "yes", "buy nothing"),
        ("Is $\\alpha\\geq\\sqrt{n}$?", "yes", "pay all alike:\nthe highest cost"),
        ("Is $|r|\\,\\alpha>2/3$?", "yes", "M2, shrunk,\nor pay all alike"),
    )
    figure, axes = plots.subplots(figsize=(5.2, 6.5))
    axes.set(xlim=(0, 10), ylim=(-2.8, 9.6))
    axes.axis("off")
    ink = axes.xaxis.label.get_color()
    box: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 12}
    arrow = {"arrowstyle": "-|>", "color": ink, "shrinkA": 0, "shrinkB": 0}
    for k, (question, answer, design) in enumerate(questions):
        y = 9 - 2.2 * k
        axes.text(2.6, y, question, bbox={"boxstyle": "round,pad=0.5", "fc": "none", "ec": ink}, **box)
        style = {"boxstyle": "square,pad=0.5", "fc": "none", "ec": plots.STYLES[0]["color"], "lw": 2}
        axes.text(8.1, y, design, bbox=style, **box)
        axes.annotate("", (6.3, y), (5.2, y), arrowprops=arrow)
        axes.text(5.7, y + 0.15, answer, ha="center", va="bottom", fontsize=11)
        axes.annotate("", (2.6, y - 1.5), (2.6, y - 0.75), arrowprops=arrow)
        axes.text(2.8, y - 1.1, "yes" if answer == "no" else "no", ha="left", va="center", fontsize=11)
    style = {"boxstyle": "square,pad=0.5", "fc": "none", "ec": plots.STYLES[0]["color"], "lw": 2}
    last = "error-minimising auction,\none posted price; hard budget: All-in, repaired"
    axes.text(4.6, -2.2, last, bbox=style, **box)
    return figure


def survey() -> Array:
    """An example of what a buyer may know: what 200 people said they want for a unit of privacy loss."""
    return np.random.default_rng(0).lognormal(np.log(3), 0.8, 200).round(1)


if __name__ == "__main__":
    main()
