"""Differential testing: random kernels under all semantics, compared (a command of its own).

`python -m tests.campaign --cases 100000 --seed 0` runs the cases of that many seeds, prints a
minimal reproducer for each difference, and says at the end how many cases there were of which kind.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

if __package__:
    from tests.generate import Case, generate
    from tests.generate_shapes import generate_shapes
else:
    from generate import Case, generate
    from generate_shapes import generate_shapes

from finchlang.denote.denotation import denote
from finchlang.host.verify import check
from finchlang.normalize import normalize
from finchlang.rules.spaces import has_gaps
from finchlang.run import resolved
from finchlang.run.kernel import Kernel
from finchlang.run.resolved import inferred_fills, with_operations
from finchlang.script.closing import Denoted, denoted, operation
from finchlang.script.tensors import over
from finchlang.session import Session
from finchlang.source import FinchError
from finchlang.syntax import Annotated, KernelNode, Literal, Node, Policy, Variable
from finchlang.tensors.adopted import as_tensor
from finchlang.tensors.element import Element
from finchlang.tensors.level import Swizzled
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor
from finchlang.testing.stored import same
from finchlang.text.parse import parse_kernel
from finchlang.types import type_of_value

TOLERANCE = 1e-9
#: levels that have no place for some entries, or are square: what is written to them may end in an
#: error that the denotation, which knows no levels, does not have
PARTIAL = ("Pinpoint", "Interval", "UpperTriangular", "LowerTriangular", "Symmetric")
#: errors a generated program may run into before it runs: all engines refuse it
REFUSALS = ("access order", "life cycle", "type", "dimension")


@dataclass
class Outcome:
    """What came of one case: `refused` is the error's kind if it was not run, `difference` what
    the semantics disagree about, or nothing."""

    refused: FinchError | None = None
    difference: str = ""


class Difference(Exception):
    """The semantics disagree."""


def run_case(case: Case, rules: str = "all", native: bool = True) -> Outcome:
    """Run a case under all semantics; nothing that goes wrong is let through."""
    try:
        return Outcome(refused=_compare(case, rules, native))
    except Difference as found:
        return Outcome(difference=str(found))
    except Exception as error:  # a Bug, or a crash of the tested code
        return Outcome(difference=f"{type(error).__name__}: {error}")


def _compare(case: Case, rules: str, native: bool) -> FinchError | None:
    """The refusal, if the kernel is refused; raises Difference."""
    program, functions = with_functions(parse_kernel(case.text), case)
    formats, numbers = {}, {}
    for name, value in case.bindings().items():
        number = type_of_value(value)
        if number is not None:
            formats[name], numbers[name] = number, value
        else:
            formats[name] = as_tensor(value).format  # type: ignore[union-attr]
    try:
        fills = inferred_fills(program, formats)
    except FinchError as error:
        return error
    if fills:
        case, program = with_inferred(case, program, formats, fills)
    program = with_policy(program, formats, case)
    try:
        kernel = Kernel(program, formats, rules)
        residual = kernel.residual
    except FinchError as error:
        return error
    check(residual)
    engines = {"interpret": kernel.interpret, "residual": kernel.run_residual}
    if native:
        engines["native"] = kernel.run_native  # type: ignore[dict-item]
    bindings = case.bindings()
    try:
        meaning: Any = denote(program, bindings, functions)
    except FinchError as error:
        meaning = error.kind
    results = {}
    for name, run in engines.items():
        if name != "native":  # which gets them as the run before left them
            kernel._workspaces = [Tensor(w.format) for w in kernel._workspaces]  # type: ignore
        results[name] = run_engine(kernel, run, case, numbers)
    written = [n for n, w in zip(kernel.tensors, kernel.written, strict=True) if w]
    is_partial = any(level in str(formats[name]) for name in written for level in PARTIAL)
    if not is_partial or results["interpret"]["error"] not in ("access order", "dimension"):
        compare_meaning(meaning, results["interpret"], bindings)
    names = list(results)
    for one, other in zip(names, names[1:], strict=False):
        compare_storage(one, results[one], other, results[other])
    steps = [results[n]["steps"] for n in ("interpret", "residual")]
    if steps[0] != steps[1]:
        raise Difference(f"not congruent: {steps[0] - steps[1]} and {steps[1] - steps[0]}")
    if rules != "paper":
        paper = Kernel(program, formats, "paper")
        result = run_engine(paper, paper.interpret, case, numbers)
        compare_entries(rules, results["interpret"], "paper", result)
    return None


def with_functions(program: Node, case: Case) -> tuple[Node, dict[Node, Denoted]]:
    """The program with the functions that it calls, and these for the denotation."""
    session = Session()
    session.run("\n".join(case.functions))
    functions = {name: session[name] for name in session.names() if name != "ARGS"}
    operations: Any = {name: operation(value) for name, value in functions.items()}
    program = with_operations(KernelNode(program), operations).program
    return program, denoted(session._evaluator.apply, functions.values())


def with_inferred(
    case: Case, program: Node, formats: dict[str, Any], fills: dict[Variable, Literal]
) -> tuple[Case, Node]:
    """The case and its program with the fills that have been found in the places of `_`: in new
    tensors, as these are declared. `formats` are changed."""
    data = dict(case.data)
    for name, fill in ((name.name, fill) for name, fill in fills.items()):
        format, value = formats[name], data[name]
        level = format.level if isinstance(format, Swizzled) else format
        if not has_gaps(level) or level.fill == fill or not level.order:
            continue
        stale = value.body if isinstance(value, SwizzledTensor) else as_tensor(value)
        data[name] = Tensor(over(level, Element(fill)), *stale.shape)
        if isinstance(format, Swizzled):
            data[name] = SwizzledTensor(data[name], format.permutation)
        formats[name] = data[name].format
    return replace(case, data=data), resolved.with_inferred(KernelNode(program), fills).program


def with_policy(program: Node, formats: dict[str, Any], case: Case) -> Node:
    """The program with the policy of the case for all workspaces that can have it."""
    annotations: tuple[Node, ...] = ()
    for name in case.data if case.policy else ():
        assert case.policy is not None
        more = (*annotations, Policy(Variable(name), *case.policy))
        try:
            normalize(Annotated(more, program), formats)
        except FinchError:  # it has none, or one that cannot be merged
            continue
        annotations = more
    return Annotated(annotations, program) if annotations else program


def run_engine(kernel: Kernel, run: Any, case: Case, numbers: dict[str, Any]) -> dict[str, Any]:
    """What an engine makes of the case: `error`, a kind, or `values`, the tensors; and its steps."""
    bindings = case.bindings()
    tensors = {n: as_tensor(bindings[n]) for n in kernel.tensors}
    stored = [t.body if isinstance(t, SwizzledTensor) else t for t in tensors.values()]
    before = [_storage(t) for t in stored]
    try:
        steps = run(stored, [numbers[n] for n in kernel.numbers])
    except FinchError as error:
        for name, old, tensor in zip(kernel.tensors, before, stored, strict=True):
            if not _identical(old, _storage(tensor)):
                raise Difference(f"{name} was changed though there was an error") from None
        return {"error": error.kind, "values": {}, "steps": None}
    for name, tensor, written in zip(kernel.tensors, stored, kernel.written, strict=True):
        if isinstance(tensor, Tensor):
            tensor.checked = False
            try:
                tensor.validate()
            except FinchError as error:
                raise Difference(f"the storage of {name} is corrupt: {error}") from None
        if not written and not _identical(before[kernel.tensors.index(name)], _storage(tensor)):
            raise Difference(f"{name} is not written but was changed")
    return {"error": None, "values": tensors, "steps": steps}


def _storage(tensor: Any) -> list[Any]:
    """All that a tensor holds, with arrays copied."""
    if isinstance(tensor, Scalar):
        return [tensor.value]
    parts: list[Any] = [tensor.shape]
    for level in tensor.storage:
        parts += [v.copy() if isinstance(v, np.ndarray) else int(v) for v in level.values()]
    return parts


def _identical(one: list[Any], other: list[Any]) -> bool:
    """Whether storages are equal, floats up to rounding (native code may reorder sums)."""
    if len(one) != len(other):
        return False
    return all(
        type(a) is type(b)
        and (same(a, b, TOLERANCE) if isinstance(a, (np.ndarray, float)) else a == b)
        for a, b in zip(one, other, strict=True)
    )


def compare_meaning(meaning: Any, result: dict[str, Any], bindings: dict[str, Any]) -> None:
    if isinstance(meaning, str) or result["error"]:
        # what an index of the wrong size is called depends on when it is noticed
        late = ("bounds", "dimension")
        both_late = result["error"] in late and isinstance(meaning, str) and meaning in late
        if meaning != result["error"] and not both_late:
            raise Difference(f"denote gives {_shown(meaning)}, interpret {_shown(result['error'])}")
        return
    for name, tensor in result["values"].items():
        value = meaning.get(name)
        expected = as_tensor(bindings[name]).to_numpy() if value is None else np.asarray(value)  # type: ignore[union-attr]
        found = tensor.to_numpy()
        if not same(expected.astype(found.dtype), found, TOLERANCE):
            raise Difference(
                f"denote and interpret differ in {name}:\n{expected.tolist()}\n{found.tolist()}"
            )


def _shown(value: Any) -> str:
    return f"a {value} error" if isinstance(value, str) else "a result"


def compare_storage(one: str, a: dict[str, Any], other: str, b: dict[str, Any]) -> None:
    if a["error"] != b["error"]:
        raise Difference(f"{one} gives {_shown(a['error'])}, {other} {_shown(b['error'])}")
    for name in a["values"]:
        left, right = a["values"][name], b["values"][name]
        left, right = (t.body if isinstance(t, SwizzledTensor) else t for t in (left, right))
        first, second = _storage(left), _storage(right)
        if not _identical(first, second):
            raise Difference(f"{one} and {other} store {name} differently:\n{first}\n{second}")


def compare_entries(one: str, a: dict[str, Any], other: str, b: dict[str, Any]) -> None:
    """Whether sets of rules end alike, and store the same entries."""
    if a["error"] != b["error"]:
        raise Difference(f"rules {one} give {_shown(a['error'])}, {other} {_shown(b['error'])}")
    for name, tensor in a["values"].items():
        first, second = _entries(tensor), _entries(b["values"][name])
        if not _identical(first, second):
            raise Difference(f"rules {one} and {other} store {name} otherwise:\n{first}\n{second}")


def _entries(tensor: Any) -> list[Any]:
    """What a tensor stores, in the order of coordinates."""
    if isinstance(tensor, Scalar):
        return [tensor.value]
    coordinates, values = tensor.entries()
    order = np.lexsort(coordinates) if len(coordinates) else slice(None)
    return [tensor.shape, coordinates[:, order], values[order]]


# --------------------------------------------------------------------------------------- shrinking


def shrink(case: Case, rules: str = "all", native: bool = True, seconds: float = 10.0) -> Case:
    """A smaller case that shows the same kind of difference: fewer lines, sparser data."""
    deadline = time.monotonic() + seconds
    kind = run_case(case, rules, native).difference[:30]
    changed = True
    while changed:
        changed = False
        for smaller in _smaller(case):
            if time.monotonic() > deadline:
                return case
            if kind and run_case(smaller, rules, native).difference.startswith(kind):
                case, changed = smaller, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Cases a little smaller than `case`."""
    for k in range(len(case.statements)):
        if len(case.statements) > 1:
            yield _only_used(case, case.statements[:k] + case.statements[k + 1 :], case.data)
    for k, statement in enumerate(case.statements):
        lines = statement.split("\n")
        for n, line in enumerate(lines):
            if "=" in line and not line.startswith(("for", "let", "if")) and len(lines) > 1:
                less = "\n".join(lines[:n] + lines[n + 1 :])
                changed = case.statements[:k] + (less,) + case.statements[k + 1 :]
                yield _only_used(case, changed, case.data)
    for name, value in case.data.items():
        if isinstance(value, Tensor):
            yield from (replace(case, data={**case.data, name: v}) for v in _sparser(value))


def _only_used(case: Case, statements: tuple[str, ...], data: dict[str, Any]) -> Case:
    text = "\n".join(statements)
    return replace(case, statements=statements, data={n: v for n, v in data.items() if n in text})


def _sparser(tensor: Tensor) -> Iterator[Tensor]:
    coordinates, values = tensor.entries()
    for k in range(len(values) if len(values) <= 12 else 0):
        if values[k] != tensor.fill:
            keep = np.arange(len(values)) != k
            kept = coordinates[:, keep]
            yield Tensor.from_coo(tensor.format, tensor.shape, list(kept), values[keep])


# ------------------------------------------------------------------------------------ the command


def campaign(
    seeds: range,
    rules: str = "all",
    native: bool = True,
    any_order: bool = False,
    functions: bool = False,
    shapes: bool = False,
) -> Iterator[tuple[int, Case, Outcome]]:
    """The cases of `seeds` with what came of them."""
    for seed in seeds:
        case = generate_shapes(seed) if shapes else generate(seed, any_order, functions)
        yield seed, case, run_case(case, rules, native)


def report(seed: int, case: Case, outcome: Outcome, rules: str = "all") -> str:
    """A difference for people: the seed, and a minimal program that shows it."""
    native = "native" in outcome.difference
    small = shrink(case, rules, native)
    found = run_case(small, rules, native).difference or outcome.difference
    return f"seed {seed} (rules {rules}):\n{small}\n{found}"


def main() -> int:
    """Run the command; 1 if there was a difference."""
    parser = argparse.ArgumentParser(prog="campaign", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rules", default="all", help="`all`, `paper`, or as in `all-Union`")
    parser.add_argument("--any-order", action="store_true", help="loops in any order")
    parser.add_argument("--functions", action="store_true", help="programs call random functions")
    parser.add_argument("--shapes", action="store_true", help="programs of shape operators")
    parser.add_argument("--no-native", action="store_true")
    parser.add_argument("--stop-after", type=int, default=20, help="differences to stop after")
    options = parser.parse_args()
    os.environ["FINCH_CACHE_DIR"] = ""  # all that is compiled here is met once
    counts: Counter[str] = Counter()
    start, seeds = time.monotonic(), range(options.seed, options.seed + options.cases)
    native, kinds = not options.no_native, (options.any_order, options.functions, options.shapes)
    cases = campaign(seeds, options.rules, native, *kinds)
    for seed, case, outcome in cases:
        if outcome.difference:
            counts["differences"] += 1
            print(report(seed, case, outcome, options.rules), end="\n\n", flush=True)
            if counts["differences"] == options.stop_after:
                break
        counts[f"refused: {outcome.refused.kind}" if outcome.refused else "run"] += 1
    print(f"{dict(counts)} in {time.monotonic() - start:.0f} s")
    return 1 if counts["differences"] else 0


if __name__ == "__main__":
    sys.exit(main())
