"""The checker: goes through a script with every kernel it comes to checked, and none run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from finchlang.script.builtins import BUILTINS
from finchlang.script.callables import FinchFunction
from finchlang.script.environment import Environment, Scope, assigned_names
from finchlang.script.evaluate import Evaluator, RunKernel
from finchlang.script.evaluate_expressions import Closure
from finchlang.source import FinchError, Span
from finchlang.syntax import NOTHING, KernelNode, Macro, Node, Script, Variable
from finchlang.walk import children, walk


class Checker(Evaluator):
    """An Evaluator whose `run_kernel` looks a kernel over without running it.

    From the first kernel on its results are missing: assertions are taken to hold and loops go
    round once. What a script does with them may fail; such a statement is left out, and kernels
    that use the names it would have assigned are not looked over. No file is written.
    """

    def __init__(self, run_kernel: RunKernel, output: Callable[[str], Any] | None = None):
        super().__init__(self._pass_over, output)
        self._look_over = run_kernel
        self._lost: set[str] = set()  # names whose values are not known
        self._fault: FinchError | None = None
        self._kernels: dict[int, KernelNode] = {}
        self._checked: set[int] = set()

    @property
    def unchecked(self) -> tuple[Span | None, ...]:
        """The places of the kernels which were not reached, or not with what they use."""
        return tuple(k.span for key, k in self._kernels.items() if key not in self._checked)

    def evaluate(self, script: Node, environment: Environment) -> Any:
        self._kernels.update((id(kernel), kernel) for kernel in _kernels(script))
        return super().evaluate(script, environment)

    def _pass_over(self, kernel: KernelNode, environment: Environment) -> Any:
        if self._lost & _names(kernel.program, environment):
            return None
        self._checked.add(id(kernel))
        try:
            return self._look_over(kernel, environment)
        except FinchError as error:
            self._fault = error
            raise

    def script(self, node: Script, scope: Scope) -> Closure:
        statements = list(zip(self.closures(node.statements, scope), node.statements, strict=True))

        def run(env: Environment) -> Any:
            result = None
            for statement, written in statements:
                try:
                    result = statement(env)
                    if self._lost:
                        self._lost -= assigned_names(written)
                except FinchError as error:
                    if error is self._fault or error.kind == "interrupted" or not self._checked:
                        raise
                    self._lost |= assigned_names(written)
            return result

        return run

    def body(self, node: Node, scope: Scope) -> Callable[[Environment], bool]:
        goes_on = super().body(node, scope)
        return lambda env: goes_on(env) and not self._checked

    def assertion(self, node: Macro, scope: Scope) -> Closure:
        check = super().assertion(node, scope)
        return lambda env: None if self._checked else check(env)

    def apply(
        self, function: Any, args: list[Any], keywords: dict[str, Any], span: Span | None
    ) -> Any:
        if function is BUILTINS["fwrite"]:
            return NOTHING
        return super().apply(function, args, keywords, span)


def _names(program: Node, environment: Environment) -> set[str]:
    """The names in a kernel, and in the functions that it may call."""
    found: set[str] = set()
    left = [program]
    while left:
        new = {n.name for n in walk(left.pop()) if isinstance(n, Variable)} - found
        found |= new
        values = [environment.owner(name).values.get(name) for name in new]
        left += [v.definition.body for v in values if isinstance(v, FinchFunction)]
    return found


def _kernels(script: Node) -> Iterator[KernelNode]:
    """The kernels in a script, in their order; however deeply it is nested."""
    left = [script]
    while left:
        node = left.pop()
        if isinstance(node, KernelNode):
            yield node
        else:
            left += reversed(children(node))
