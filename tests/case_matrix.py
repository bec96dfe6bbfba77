"""The matrix of cases: every level over every level, read, written and updated in place, with each
operator, in each context, under the four semantics (a command of its own).

`python -m tests.case_matrix [--part K/N] [--jobs J]` runs all cases, prints what disagrees, and says
at the end how many cases there were, which errors by which reason, and which took too long, or
longest, to stage and compile.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

if __package__:
    from tests.campaign import Case, Difference, compare_meaning, compare_storage, run_engine
    from tests.case_matrix_kernels import (
        ACTIONS,
        ALONE,
        CONTEXTS,
        LIMITED,
        ONE_MODE,
        OPERATIONS,
        TWO_MODES,
        MatrixCase,
        order,
    )
    from tests.case_matrix_shapes import FORMS
    from tests.quick_native import compile_quickly
else:
    from campaign import Case, Difference, compare_meaning, compare_storage, run_engine
    from case_matrix_kernels import (
        ACTIONS,
        ALONE,
        CONTEXTS,
        LIMITED,
        ONE_MODE,
        OPERATIONS,
        TWO_MODES,
        MatrixCase,
        order,
    )
    from case_matrix_shapes import FORMS
    from quick_native import compile_quickly

from finchlang.denote.denotation import denote
from finchlang.host.verify import check
from finchlang.run.kernel import Kernel
from finchlang.source import FinchError
from finchlang.tensors.adopted import as_tensor
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.text.parse import parse_kernel
from finchlang.types import type_of_value

# ------------------------------------------------------------------------------ what is an error


@dataclass(frozen=True)
class Reason:
    """Why a combination is an error: of which kind, found when (making the format, compiling the
    kernel, running it), and the sentence the reference has."""

    name: str
    holds: Callable[[MatrixCase], bool]
    kind: str
    when: str
    sentence: str


def _stores_fill(case: MatrixCase) -> bool:
    return case.leaf == "Pattern()" and case.nest[-1] in STORE_FILL


STORE_FILL = (
    *("Dense", "RunList", "PackBits", "Ragged", "SparseBand"),
    *("LowerTriangular", "UpperTriangular", "Symmetric"),
)
SEQUENTIAL = (
    *("RunList", "PackBits", "Ragged", "SparseList", "SparseCOO{1}", "SparseCOO{2}", "SparseBand"),
    *("SparseBlockList", "SparseRunList", "SparseInterval"),
)

REASONS = (
    Reason(
        "a workspace over a Pattern",
        lambda case: case.leaf == "Pattern()" and case.nest[-1] in ALONE,
        "type",
        "making the format",
        "A Workspace stands below another level, or over anything but an `Element`",
    ),
    Reason(
        "a Pattern of fill",
        _stores_fill,
        "type",
        "making the format",
        "A level that stores what is not written (Dense, RunList, PackBits, SparseBand, Ragged, packed "
        "ones) stands directly above `Pattern()`, which is true wherever something is stored",
    ),
    Reason(
        "out of order",
        lambda case: (
            case.context == "transposed"
            and case.action == "write"
            and not case.workspaces
            and any(level in SEQUENTIAL for level in case.nest)
        ),
        "access order",
        "compiling",
        "A tensor with a level that is written in order is written with its modes in another order, and "
        "no workspace may be inserted, or none helps",
    ),
    Reason(
        "too many entries",
        lambda case: case.context == "overfull",
        "access order",
        "running",
        "A second entry comes into a fiber of SparsePinpoint, a second run into one of SparseInterval, "
        "or an entry outside of the half that a packed level stores",
    ),
)


def reason(case: MatrixCase) -> Reason | None:
    """Why this case is an error, if it is one."""
    return next((r for r in REASONS if r.holds(case)), None)


# ------------------------------------------------------------------------------------- the cases


def nests() -> Iterator[tuple[str, ...]]:
    """The nests of levels, outermost first: every level alone and over every level, which comes to
    order 4 with levels of two modes, and levels of one mode in threes."""
    every = ONE_MODE + TWO_MODES
    yield from ((level,) for level in every)
    yield from itertools.product(every, repeat=2)
    count = len(ONE_MODE)
    for k, level in enumerate(ONE_MODE):
        yield level, ONE_MODE[(k + 5) % count], ONE_MODE[(2 * k + 1) % count]
    yield from ((level,) for level in ALONE)


def is_in(nest: tuple[str, ...], operator: str, context: str) -> bool:
    """Whether a context is part of the matrix here: two, which mostly end in errors, are for one
    operator, shape operators for two, and only where they mean something."""
    if context == "transposed":
        return operator == "+" and order(nest) > 1
    if context == "overfull":
        return operator == "+" and any(level in LIMITED for level in nest)
    if context == "collapse" and order(nest) < 2:
        return False
    if context in FORMS:
        return operator in ("+", "|")
    return True


def _is_written(nest: tuple[str, ...], context: str) -> bool:
    """Whether what is written in a context may come to each element, and fits there."""
    is_part = context == "slice" and any(level in LIMITED for level in nest)
    return context != "broadcast" and not is_part


def cases() -> Iterator[MatrixCase]:
    """All cases, in order. Nests of order 3 and 4 take every 29th combination of the rest."""
    turn = 0
    numbers = itertools.count()
    for nest in nests():
        for operator, context, action in itertools.product(OPERATIONS, CONTEXTS, ACTIONS):
            if not is_in(nest, operator, context):
                continue
            is_read = action.startswith("read")
            if is_read if context == "overfull" else not (is_read or _is_written(nest, context)):
                continue
            turn += 1
            if order(nest) > 2 and turn % 29:
                continue
            leaves = OPERATIONS[operator].leaves
            leaf = leaves[turn % len(leaves)]
            yield MatrixCase(next(numbers), nest, leaf, action, operator, context)


def covering() -> tuple[list[MatrixCase], list[MatrixCase]]:
    """Cases that have every nest, and every two values of the other factors together, in two lists:
    what the latter needs, and a case for each nest that is left. Levels meet the values of the
    other factors as far as that goes."""
    by_nest: dict[tuple[str, ...], list[MatrixCase]] = {}
    for case in cases():
        by_nest.setdefault(case.nest, []).append(case)
    pairs = {pair for each in by_nest.values() for case in each for pair in _pairs(case)}
    meetings: Counter[tuple[str, str]] = Counter()
    needed, rest = [], []

    def gain(case: MatrixCase) -> tuple[int, bool, int]:
        seen = sum(meetings[m] for m in _meetings(case))
        return len(pairs.intersection(_pairs(case))), reason(case) is None, -seen

    def take(case: MatrixCase) -> None:
        (needed if pairs.intersection(_pairs(case)) else rest).append(case)
        pairs.difference_update(_pairs(case))
        meetings.update(_meetings(case))

    for nest in sorted(by_nest, key=order):
        take(max(by_nest[nest], key=gain))
    for case in itertools.chain(*by_nest.values()):
        if pairs.intersection(_pairs(case)):
            take(case)
    return needed, rest


def _factors(case: MatrixCase) -> tuple[str, ...]:
    """Those other than the nest, and the reason why the case is an error."""
    why = reason(case)
    return case.action, case.operator, case.context, case.leaf, why.name if why else ""


def _pairs(case: MatrixCase) -> Iterator[tuple[str, str]]:
    yield from itertools.combinations(_factors(case), 2)


def _meetings(case: MatrixCase) -> Iterator[tuple[str, str]]:
    yield from itertools.product(case.nest, _factors(case))


# -------------------------------------------------------------------------------------- running

#: how long a case may take to be staged and compiled, in seconds of processor time
LIMIT = 2.0


@dataclass
class Outcome:
    """What came of a case: the kind of error it ended with, what is wrong (two semantics disagree,
    an error without a reason, none where there should be one), the seconds it took to stage and
    compile."""

    kind: str = "none"
    difference: str = ""
    seconds: float = 0.0


def run_case(case: MatrixCase, native: bool = True, thorough: bool = True) -> Outcome:
    """Run a case under all semantics (unless `thorough`, the interpreter has the first of its data
    only); nothing that goes wrong is let through."""
    outcome, expected = Outcome(), reason(case)
    message = ""
    try:
        _run_all(case, native, thorough, outcome)
    except Difference as found:
        outcome.difference = str(found)
    except FinchError as error:
        outcome.kind, message = error.kind, str(error)
    except Exception as error:  # a Bug, or a crash of the tested code
        outcome.difference = f"{type(error).__name__}: {error}"
    wanted = expected.kind if expected else "none"
    if outcome.kind != wanted and not outcome.difference:
        outcome.difference = f"an error of kind {wanted} is expected, not {outcome.kind}: {message}"
    return outcome


def _run_all(case: MatrixCase, native: bool, thorough: bool, outcome: Outcome) -> None:
    """Run a case's data, one after the other. Raises Difference, and the FinchError all end with."""
    case.level  # noqa: B018  which may be an error
    program = parse_kernel(f"begin\n{case.text}\nend")
    kernel: Kernel | None = None
    for number, data in enumerate(case.data()):
        formats = {n: type_of_value(v) or as_tensor(v).format for n, v in data.items()}  # type: ignore
        if kernel is None:
            start = time.process_time()
            kernel = Kernel(program, formats, workspaces=case.workspaces)
            check(kernel.residual)
            if native:
                kernel.native  # noqa: B018  compiled when asked for
            outcome.seconds = time.process_time() - start
        engines: dict[str, Any] = {"residual": kernel.run_residual}
        if thorough or number == 0:
            engines = {"interpret": kernel.interpret, **engines}
        if native:
            engines["native"] = kernel.run_native
        _run_on(kernel, engines, program, Case((case.text,), data))


def _run_on(kernel: Kernel, engines: dict[str, Any], program: Any, given: Case) -> None:
    numbers = {n: v for n, v in given.data.items() if isinstance(v, int)}
    results = {}
    for name, run in engines.items():
        if name != "native":  # which gets its workspaces as the run before left them
            kernel._workspaces = [Tensor(w.format) for w in kernel._workspaces]  # type: ignore
        results[name] = run_engine(kernel, run, given, numbers)
        for tensor in results[name]["values"].values():
            _trim(tensor)
    for one, other in itertools.pairwise(results):
        compare_storage(one, results[one], other, results[other])
    first = next(iter(results.values()))
    if first["steps"] != results["residual"]["steps"]:
        raise Difference("interpreter and residual program take other steps")
    if first["error"] == "access order":
        raise FinchError("access order", "while running")  # of which the meaning knows nothing
    try:
        meaning: Any = denote(program, given.bindings())
    except FinchError as error:
        meaning = error.kind
    compare_meaning(meaning, first, given.bindings())


def _trim(tensor: Tensor | Scalar) -> None:
    """Forget what arrays hold beyond what is in use: compiled code may leave some there."""
    if isinstance(tensor, Scalar):
        return
    count, sizes = 1, tensor.format.sizes(tensor.shape)
    for level, storage, size in zip(tensor.format.levels(), tensor.storage, sizes, strict=True):
        for name, used in level.used(storage, count, size).items():
            storage[name] = storage[name][:used]
        if not level.is_leaf:
            count = level.child_count(storage, count, size)


def main() -> int:
    """Run the command; 1 if there was a difference, or a case took too long."""
    parser = argparse.ArgumentParser(prog="case_matrix", description=__doc__)
    parser.add_argument("--part", default="1/1", help="K/N: the K-th of N parts")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--match", default="", help="only cases with this text in their names")
    parser.add_argument("--no-native", action="store_true")
    parser.add_argument("--unoptimised", action="store_true", help="compile without LLVM's passes")
    options = parser.parse_args()
    os.environ["FINCH_CACHE_DIR"] = ""  # all that is compiled here is met once
    if options.unoptimised:
        compile_quickly()
    part, parts = map(int, options.part.split("/"))
    chosen = [c for c in list(cases())[part - 1 :: parts] if options.match in c.name]
    counts: Counter[str] = Counter(cases=len(chosen))
    slowest: list[tuple[float, str]] = []
    start = time.monotonic()
    run = partial(run_case, native=not options.no_native)
    with multiprocessing.Pool(options.jobs) as pool:
        found = pool.imap(run, chosen, 8) if options.jobs > 1 else map(run, chosen)
        for case, outcome in zip(chosen, found, strict=True):
            why = reason(case)
            counts[f"error: {why.name}" if why else "agree"] += not outcome.difference
            if outcome.difference:
                counts["differences"] += 1
                print(f"{case.number} {case.name}\n{case.text}\n{outcome.difference}\n", flush=True)
            slowest.append((outcome.seconds, case.name))
    slowest.sort(reverse=True)
    counts["too slow"] = sum(seconds > LIMIT for seconds, _ in slowest)
    for seconds, name in slowest[: max(10, counts["too slow"])]:
        print(f"{seconds:.2f} s {name}")
    print(f"{dict(counts)} in {time.monotonic() - start:.0f} s", end=", ")
    print(f"{sum(seconds for seconds, _ in slowest):.0f} s of them staging and compiling")
    return 1 if counts["differences"] or counts["too slow"] else 0


if __name__ == "__main__":
    sys.exit(main())
