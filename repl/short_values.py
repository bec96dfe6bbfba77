"""Faults and variables of a script that is being typed, found in a process that can be killed."""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from typing import Any

from finchlang.base.errors import FinchError, located
from finchlang.calls.environment import Environment, Scope, assigned_names
from finchlang.calls.runner import KernelEvent, Observer
from finchlang.python.session import Session
from finchlang.script.checker import Checker
from finchlang.script.evaluate_expressions import Closure
from finchlang.script.functions import FinchFunction
from finchlang.syntax.nodes import Declare, KernelNode, Macro, Node, Variable
from finchlang.syntax.traversal import find_all
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor

from .fit_to_screen import described
from .kernel_hints import Hint, check_sizes, hints

#: looked at before the first text, since much is imported with the first kernel
FIRST = "x = [1.0]; y = zeros(1)\n@finch begin y .= 0; for i = _; y[i] += 2 * x[i] end end\n"
#: the most memory of the process, in bytes
MOST = 4 << 30


class Seen(Observer):
    """Keeps the last kernel, and the hints of all that stand in the text of a name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.event: KernelEvent | None = None
        self.hints: list[Hint] = []

    def kernel(self, event: KernelEvent) -> None:
        self.event = event
        if event.source.span is not None and event.source.span.source.name == self.name:
            self.hints += hints(event)


class Glance(Checker):
    """A Checker that runs each loop once, and goes on after a fault."""

    seen: Seen

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.faults: list[FinchError] = []
        self.unsure: set[str] = set()  # names that could have other values if everything was run
        self.left_out = 0  # how many kernels were not run, and loops run only once

    def _pass_over(self, kernel: KernelNode, environment: Environment) -> Any:
        declared = {n.tensor.name for n in find_all(kernel.program, Declare)}
        has_sizes = not (names_in(kernel) - declared) & (self.unsure | self._lost)
        self.unsure |= declared
        self.left_out += 1
        self.seen.event = None
        try:
            found = super()._pass_over(kernel, environment)
            if has_sizes and self.seen.event is not None:
                check_sizes(self.seen.event)
        except FinchError as error:
            self.faults.append(error.at(kernel.span))
            return None
        return found

    def Script(self, node: Any, scope: Scope) -> Closure:
        statements = list(zip(self.closures(node.statements, scope), node.statements, strict=True))

        def run(env: Environment) -> Any:
            result = None
            for statement, written in statements:
                names, used, before = assigned_names(written), names_in(written), self.left_out
                try:
                    result = statement(env)
                    self._lost -= names
                except FinchError as error:
                    if error.kind == "interrupted":
                        raise
                    is_sure = not self.left_out or scope.parent is None
                    if is_sure and not used & (self._lost | self.unsure):
                        self.faults.append(error.at(written.span))
                    self._lost |= names
                if self.left_out > before or used & self.unsure:
                    self.unsure |= names
            return result

        return run

    def body(self, node: Node, scope: Scope) -> Callable[[Environment], bool]:
        goes_on, used = super().body(node, scope), names_in(node)

        def once(env: Environment) -> bool:
            goes_on(env)
            self.left_out += 1
            self.unsure |= used
            return False

        return once

    def assertion(self, node: Macro, scope: Scope) -> Closure:
        check = super().assertion(node, scope)
        return lambda env: None if self.left_out else check(env)


def names_in(node: Node) -> set[str]:
    return {n.name for n in find_all(node, Variable)}


class _Session(Session):
    checker = Glance


def look_at(text: str, name: str) -> dict[str, Any]:
    """The faults of a script, and descriptions of its variables, for JSON."""
    session = _Session("check", output=lambda text: None, observer=(seen := Seen(name)))
    glance = session._evaluator
    assert isinstance(glance, Glance)
    glance.seen = seen
    try:
        session.run(text, name)
    except FinchError as error:
        glance.faults += (error, *error.others)
    faults = {(f.span.line, f.span.column) if f.span else str(f): f for f in glance.faults}
    names = {n: session[n] for n in session.names() if n != "ARGS"}
    return {
        "faults": [_fault(fault, name) for fault in faults.values()],
        "names": {n: _said(v, n in glance.unsure) for n, v in names.items()},
        "hints": list(dict.fromkeys(seen.hints)),
    }


def _fault(error: FinchError, name: str) -> dict[str, Any]:
    span, message = error.span, error.message
    place = 1, 1, 1, 1
    if span is not None and span.source.name == name:
        place = span.line, span.column, *span.end
    elif span is not None:  # in a file that is included
        message = located(span) + message
    return {"kind": error.kind, "message": message, "hint": error.hint, "place": place}


def _said(value: Any, is_unsure: bool) -> str | None:
    """A description of a variable's value: of an unsure tensor without its size, of a function or another
    unsure value None."""
    if isinstance(value, FinchFunction):
        return None
    if is_unsure and isinstance(value, (Tensor, SwizzledTensor)):
        return described(value).partition(" ")[2]
    return None if is_unsure and not isinstance(value, Scalar) else described(value)


def main() -> None:
    """Answer each line of standard input, a text and its name as JSON, with a line."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST, resource.getrlimit(resource.RLIMIT_AS)[1]))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    look_at(FIRST, "first")
    for line in sys.stdin:
        try:
            found = look_at(**json.loads(line))
        except Exception:  # a bug of ours: the editor goes on without diagnostics
            found = {"faults": [], "names": {}, "hints": []}
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()
