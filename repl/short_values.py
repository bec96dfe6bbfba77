"""What can be said of a script while it is typed, in a process of its own: that may hang, and be ended."""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from typing import Any

from finchlang.base.errors import FinchError
from finchlang.calls.environment import Environment, Scope, assigned_names
from finchlang.python.session import Session
from finchlang.script.checker import Checker
from finchlang.script.evaluate_expressions import Closure
from finchlang.script.functions import FinchFunction
from finchlang.syntax.nodes import Declare, KernelNode, Macro, Node, Variable
from finchlang.syntax.traversal import walk
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor

from .fit_to_screen import described

#: how much memory a script may take for this, in bytes
MOST = 4 << 30


class Glance(Checker):
    """A Checker that goes round each loop once only, and goes on after what is wrong."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.faults: list[FinchError] = []
        self.unsure: set[str] = set()  # names whose values would be others if all was run
        self.left_out = 0  # how many kernels and rounds of loops

    def _pass_over(self, kernel: KernelNode, environment: Environment) -> Any:
        self.unsure |= {n.tensor.name for n in walk(kernel.program) if isinstance(n, Declare)}
        self.left_out += 1
        try:
            return super()._pass_over(kernel, environment)
        except FinchError as error:
            self.faults.append(error.at(kernel.span))
            return None

    def script(self, node: Any, scope: Scope) -> Closure:
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
    return {n.name for n in walk(node) if isinstance(n, Variable)}


class _Session(Session):
    checker = Glance


def look_at(text: str, name: str) -> dict[str, Any]:
    """What is wrong with a script, and what its variables are: as JSON has it."""
    session = _Session("check", output=lambda text: None)
    glance = session._evaluator
    assert isinstance(glance, Glance)
    try:
        session.run(text, name)
    except FinchError as error:
        glance.faults += (error, *error.others)
    faults = {(f.span.line, f.span.column) if f.span else str(f): f for f in glance.faults}
    names = {n: session[n] for n in session.names() if n != "ARGS"}
    return {
        "faults": [_fault(fault, name) for fault in faults.values()],
        "names": {n: _said(v, n in glance.unsure) for n, v in names.items()},
    }


def _fault(error: FinchError, name: str) -> dict[str, Any]:
    span = error.span if error.span is not None and error.span.source.name == name else None
    place = (1, 1, 1, 1) if span is None else (span.line, span.column, *span.end)
    return {"kind": error.kind, "message": error.message, "hint": error.hint, "place": place}


def _said(value: Any, is_unsure: bool) -> str | None:
    """What a variable is bound to: the format, and the size where that is known."""
    if isinstance(value, FinchFunction):
        return None
    if is_unsure and isinstance(value, (Tensor, SwizzledTensor)):
        return described(value).partition(" ")[2]
    return None if is_unsure and not isinstance(value, Scalar) else described(value)


def main() -> None:
    """Answer each line of standard input, a text with its name, by a line."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST, resource.getrlimit(resource.RLIMIT_AS)[1]))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            found = look_at(**json.loads(line))
        except Exception:  # a bug of ours, which editing need not stop for
            found = {"faults": [], "names": {}}
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()
