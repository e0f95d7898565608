"""The reader's test: what a reader may change on a page, changed one thing at a time as she would
explore it.

May be changed whatever stands in a visible cell as a number, a law or a name: assigned as it is, in
a tuple, a list or an array; in a call of a function of the page, or by keyword; the seed of a
generator. A page passes if it runs on to its end or stops in one sentence of ours that names what
was changed or its new value: no other error, no warning, no NaN in what it prints, and no claim
refuted that the ledger does not call refuted.

What does not depend on the change is not run again: a change costs the statements that rest on it,
and those that they rest on. ``python -m tests.book.readers book/ridge/idea.md`` tries all changes
of a page, ``--one`` one for each number, ``--only WORD`` those that have a word in their line.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import io
import itertools
import math
import multiprocessing
import os
import re
import resource
import sys
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "book" / "_ext"))
import execution
from slices import changes, rests_on, sets

BOOK = Path(execution.__file__).parents[1]

SECONDS = 120  # of one core, after which a change counts as a hang
DRAWS = 30  # numbers from which on a tenth is tried in place of one more and one less
NOT_NUMBERS = {
    "axis",
    "ddof",
    "keepdims",
    "ndmin",
    "decimals",
    "figsize",
    "columns",
    "index",
    "dtype",
    "sep",
    "end",
}
LIBRARIES = {
    "np",
    "pd",
    "plots",
    "plt",
    "stats",
    "optimize",
    "integrate",
    "special",
    "linalg",
    "fig",
    "ax",
    "axes",
}
GRIDS = {"np.array", "np.geomspace", "np.logspace", "np.linspace", "np.arange", "range", "np.r_"}
LAWS = {
    "uniform": "beta(2, 2, {0}, {1})",
    "beta": "uniform({2}, {3})",
    "expon": "gamma(2)",
    "gamma": "expon()",
}


@dataclass(frozen=True)
class Change:
    """One thing changed: the statement by its number, the name that it sets, what stood there and
    what does now.
    """

    page: str
    place: int
    target: str
    name: str
    was: str
    now: str
    statement: str

    def __str__(self) -> str:
        return f"{self.page}: {self.name} {self.was} -> {self.now}"


@dataclass(frozen=True)
class Result:
    """How a page took a change: what is wrong, if anything, and its processor time in seconds."""

    change: Change
    wrong: str
    seconds: float


@dataclass(frozen=True)
class Step:
    """A statement of a page, whether it stands in a visible cell, and whether it is the last one of
    its cell.
    """

    node: ast.stmt
    visible: bool
    last: bool


def steps(page: str) -> list[Step]:
    """Return the statements of a page, in order."""
    found = []
    for cell in execution.code_cells(execution.read(BOOK / f"{page}.md")):
        body = ast.parse(cell.source).body
        visible = not {"hide-input", "remove-input", "raises-exception"} & {
            *cell.metadata.get("tags", ())
        }
        found += [
            Step(node, visible, node is body[-1] and not cell.source.rstrip().endswith(";"))
            for node in body
        ]
    return found


def numbers(value: float) -> list[Any]:
    """Return what a reader tries in place of a number."""
    if isinstance(value, int):
        tries = [value // 2, 2 * value]
        tries += [value // 10] if value >= DRAWS else [value + 1, value - 1]
    else:
        tries = [value / 2, value * 2, *([value + 1, value - 1] if abs(value) >= 2 else [])]
    return [x for x in dict.fromkeys(tries) if x != value]


def other_law(call: ast.Call) -> ast.expr | None:
    """Another law of about the same support, for a frozen one of ``scipy.stats``."""
    name = ast.unparse(call.func).removeprefix("stats.")
    given = [ast.unparse(argument) for argument in call.args]
    if name not in LAWS or call.keywords:
        return None
    form = LAWS[name].format(*given, *["0", "1", "0", "1"][len(given) :])
    return ast.parse(f"stats.{form}", mode="eval").body


def may_change(
    node: ast.expr, name: str, functions: dict[str, list[str]], inside: bool = False
) -> Iterator[tuple[ast.expr, str, list[ast.expr]]]:
    """Literals of an expression that a reader may change, each with its name and what she tries."""
    constant = ast.unparse(node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        node = node.operand
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, (int, float))
        and not isinstance(node.value, bool)
    ):
        tries = (
            [node.value + 1] if "seed" in name or name == "random_state" else numbers(node.value)
        )
        yield node, name, [ast.Constant(x) for x in tries]
    elif (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and not inside
        and " " not in constant
    ):
        yield node, name, [ast.Constant(f"{node.value}s")]
    elif isinstance(node, (ast.Tuple, ast.List)):
        yield from _of_list(node, name, functions)
    elif isinstance(node, ast.Dict):
        arguments = {argument for names in functions.values() for argument in names}
        for key, value in zip(node.keys, node.values, strict=True):
            found = list(may_change(value, name, functions, inside=True))
            # a label, and not an argument that ``**`` passes on
            if (
                isinstance(key, ast.Constant)
                and isinstance(key.value, str)
                and key.value not in arguments
                and found
            ):
                yield key, name, [ast.Constant(f"{key.value}, renamed")]
            yield from found
    elif isinstance(node, ast.Call):
        yield from _of_call(node, name, functions)


def _of_list(
    node: ast.Tuple | ast.List, name: str, functions: dict[str, list[str]]
) -> Iterator[tuple[ast.expr, str, list[ast.expr]]]:
    """Of a list of settings: its ends, and the list cut short."""
    for part in dict.fromkeys([*node.elts[:1], *node.elts[-1:]]):
        yield from _in_order(node.elts, part, name, functions)
    if len(node.elts) > 2 and _numbers(node.elts):
        yield (
            node,
            name,
            [type(node)(node.elts[:-1], ast.Load()), type(node)(node.elts[::3], ast.Load())],
        )


def _in_order(
    parts: list[ast.expr], part: ast.expr, name: str, functions: dict[str, list[str]]
) -> Iterator[tuple[ast.expr, str, list[ast.expr]]]:
    """Return what may be tried for one part of a list: numbers that rise go on rising."""
    found = _numbers(parts)
    rises = found is not None and all(a < b for a, b in itertools.pairwise(found))
    place = parts.index(part)
    for literal, _, tries in may_change(part, name, functions, inside=True):
        if rises and found is not None and literal in (part, getattr(part, "operand", None)):
            sign = -1 if literal is not part else 1
            others = [
                [*found[:place], sign * ast.literal_eval(now), *found[place + 1 :]] for now in tries
            ]
            tries = [now for now, row in zip(tries, others, strict=True) if row == sorted(set(row))]
        if tries:
            yield literal, name, tries


def _numbers(parts: list[ast.expr]) -> list[float] | None:
    """Return the numbers of a list, if it holds nothing else."""
    with contextlib.suppress(ValueError):
        found = [ast.literal_eval(part) for part in parts]
        if found and all(isinstance(x, (int, float)) for x in found):
            return found
    return None


def _of_call(
    node: ast.Call, name: str, functions: dict[str, list[str]]
) -> Iterator[tuple[ast.expr, str, list[ast.expr]]]:
    """Of a call: the seed, the ends of a grid, a law, and arguments that have a name."""
    called = ast.unparse(node.func)
    if called.endswith("default_rng"):
        if node.args and isinstance(node.args[0], ast.Constant):
            yield node.args[0], "seed", [ast.Constant(node.args[0].value + 1)]
    elif called in GRIDS:
        for place, argument in enumerate(node.args):
            ends = node.args[:2] if place < 2 else [argument]
            yield from _in_order(ends, argument, name, functions)
    elif called.startswith("stats."):
        if (law := other_law(node)) is not None:
            yield node, name, [law]
    elif called.partition(".")[0] not in LIBRARIES:
        arguments = zip(functions.get(called, ()), node.args, strict=False)
        for key, value in [*arguments, *((word.arg or "", word.value) for word in node.keywords)]:
            if key not in NOT_NUMBERS and isinstance(value, ast.Constant):
                yield from may_change(value, key, functions, inside=isinstance(value.value, str))


def all_changes(page: str) -> list[Change]:
    """Everything that a reader may change on a page, one thing at a time."""
    found = []
    functions = dict[str, list[str]]()
    for place, step in enumerate(steps(page)):
        node = step.node
        if isinstance(node, ast.FunctionDef):
            functions[node.name] = [argument.arg for argument in node.args.args]
        if not step.visible or not isinstance(node, ast.Assign) or len(node.targets) > 1:
            continue
        (target,), value = node.targets, node.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            parts = list(zip(target.elts, value.elts, strict=True))
        else:
            parts = [(target, value)]
        for left, right in parts:
            if not isinstance(left, ast.Name):
                continue
            for literal, name, tries in may_change(right, left.id, functions):
                for now in tries:
                    changed = _replaced(node, literal, now)
                    found.append(
                        Change(
                            page,
                            place,
                            left.id,
                            name,
                            ast.unparse(literal),
                            ast.unparse(now),
                            changed,
                        )
                    )
    return list(dict.fromkeys(found))


def _replaced(statement: ast.stmt, literal: ast.expr, now: ast.expr) -> str:
    """Source of a statement with one of its literals replaced."""
    other: ast.stmt = copy.deepcopy(statement)
    (place,) = [k for k, node in enumerate(ast.walk(statement)) if node is literal]
    there = list(ast.walk(other))[place]

    class Swap(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return now if node is there else self.generic_visit(node)

    return ast.unparse(ast.fix_missing_locations(Swap().visit(other)))


def affected(page: list[Step], place: int, target: str) -> list[int]:
    """Numbers of the statements that rest on a name set by one of them, and of those that these
    need.
    """
    alone = {
        k for k, step in enumerate(page) if isinstance(step.node, (ast.Import, ast.ImportFrom))
    }
    dirty = {place}
    names = {target} | changes(page[place].node)
    imported = set().union(*(sets(page[k].node) for k in alone))
    names -= imported
    for k in range(place + 1, len(page)):
        node = page[k].node
        if k in alone:
            continue
        if rests_on(node) & names:
            dirty.add(k)
            names |= (sets(node) | changes(node)) - imported
        else:
            names -= _only_sets(node)
    kept = set(dirty)
    wanted = set[str]()
    for k in reversed(range(len(page))):
        node = page[k].node
        bound = sets(node)
        if k in dirty or (bound | (changes(node) - imported)) & wanted:
            kept.add(k)
            wanted = (wanted - _only_sets(node)) | rests_on(node)
    return sorted(kept)


def _only_sets(node: ast.stmt) -> set[str]:
    """Names that a statement binds anew whatever they were."""
    plain = isinstance(node, (ast.Assign, ast.FunctionDef, ast.Import, ast.ImportFrom))
    return sets(node) - rests_on(node) if plain else set()


def wrong_in(
    change: Change,
    decisions: list[Any],
    printed: str,
    warned: list[str],
    error: BaseException | None,
) -> str:
    """Return what a reader must not meet, in what a page did; nothing if all is well."""
    from hdpm_book.notebook import refused

    if error is not None:
        known = [change.name, *re.findall(r"[\w.]+", change.now)]
        if refused(error) and any(
            re.search(rf"(?<![\w.]){re.escape(_short(word))}(?!\w)", str(error)) for word in known
        ):
            return ""
        where = traceback.extract_tb(error.__traceback__)
        lines = [
            f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
            for frame in where
            if frame.filename != __file__
        ]
        return f"{type(error).__name__}: {str(error)[:300]} ({', '.join(lines[:1] + lines[-1:])})"
    if warned:
        return f"a warning: {warned[0]}"
    if found := re.search(r".{0,60}(?<![\w'])(?:nan|NaN|NaT)(?![\w']).{0,40}", printed):
        return f"NaN is shown: {found[0].strip()}"
    for run in decisions:
        if run.verdict == "refuted" and not run.undecided and run.claim.verdict != "refuted":
            return f"{run.claim.id} is refuted: {run.evidence}"
    return ""


def _short(word: str) -> str:
    """Write a number as messages do; any other word as it is."""
    with contextlib.suppress(ValueError):
        return f"{float(word):g}"
    return word


def carry_out(change: Change) -> tuple[str, float]:
    """Run in this process what a change needs: what is wrong with it, and seconds."""
    os.environ["HDPM_MODE"] = "explore"
    import matplotlib

    from hdpm_book import ledger
    from hdpm_book.retrieval import StandInWarning

    matplotlib.use("agg")
    page = steps(change.page)
    decisions = list[Any]()
    vars(ledger)["display"] = decisions.append
    space: dict[str, Any] = {"__name__": "__main__"}
    printed = io.StringIO()
    error = None
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", StandInWarning)
        try:
            for k in affected(page, change.place, change.target):
                node = page[k].node
                body = ast.parse(change.statement).body if k == change.place else [node]
                (last,) = body
                if isinstance(last, ast.Expr) and page[k].last:
                    value = eval(compile(ast.Expression(last.value), change.page, "eval"), space)
                    print("" if value is None else value)
                else:
                    exec(compile(ast.Module([last], type_ignores=[]), change.page, "exec"), space)
        except Exception as stop:
            error = stop
    warned = [f"{entry.category.__name__}: {entry.message} ({entry.filename})" for entry in caught]
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return wrong_in(
        change, decisions, printed.getvalue(), warned, error
    ), usage.ru_utime + usage.ru_stime


def _child(change: Change, seconds: int, pipe: Any) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    pipe.send(carry_out(change))


def attempt(change: Change, seconds: int = SECONDS) -> Result:
    """Carry out a change in a process of its own, for so many seconds of one core at most."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["slices", "hdpm_book.plots", "scipy.stats"])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(change, seconds, sender))
    process.start()
    sender.close()
    try:
        wrong, taken = receiver.recv()
    except EOFError:
        wrong = f"not done within {seconds} seconds of one core, or killed"
        taken = math.inf
    process.join()
    return Result(change, wrong, taken)


def main() -> int:
    """Try changes of pages, and say what fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--only", default="", help="changes whose line holds this")
    parser.add_argument(
        "--one", action="store_true", help="one change of each number, the one that comes last"
    )
    options = parser.parse_args()
    bad = 0
    for path in options.pages:
        page = path.resolve().relative_to(BOOK).with_suffix("").as_posix()
        tried = [change for change in all_changes(page) if options.only in str(change)]
        if options.one:
            tried = list(
                {(change.place, change.name, change.was): change for change in tried}.values()
            )
        for change in tried:
            result = attempt(change)
            bad += bool(result.wrong)
            print(
                f"{'FAIL' if result.wrong else 'ok  '} {result.seconds:5.1f} s  {change}",
                flush=True,
            )
            if result.wrong:
                print(f"            {result.wrong}", flush=True)
        print(f"{page}: {len(tried)} changes", flush=True)
    print(f"{bad} failed")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
