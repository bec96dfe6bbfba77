"""The checker: goes through a script with every kernel it comes to checked, and none run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from finchlang.script.builtins import BUILTINS
from finchlang.script.environment import Environment
from finchlang.script.evaluate import Evaluator, RunKernel
from finchlang.source import FinchError, Span
from finchlang.syntax import NOTHING, Kernel, Macro, Node


class Checker(Evaluator):
    """An Evaluator whose `run_kernel` looks a kernel over without running it.

    Once a kernel was passed over its results are missing, so from there on assertions are taken to
    hold and loops go round once. A fault of the script may then come from what is missing: it is
    not the user's, and ends the check (`unchecked_from`). No file is written.
    """

    def __init__(self, run_kernel: RunKernel, output: Callable[[str], Any] | None = None):
        super().__init__(self._pass_over, output)
        self._look_over = run_kernel
        self._has_passed_over = False
        self._fault: FinchError | None = None
        #: where a script could not go on without the results of its kernels
        self.unchecked_from: Span | None = None

    def _pass_over(self, kernel: Kernel, environment: Environment) -> Any:
        self._has_passed_over = True
        try:
            return self._look_over(kernel, environment)
        except FinchError as error:
            self._fault = error
            raise

    def evaluate(self, script: Node, environment: Environment) -> Any:
        try:
            return super().evaluate(script, environment)
        except FinchError as error:
            if error is self._fault or error.kind == "interrupted" or not self._has_passed_over:
                raise
            self.unchecked_from = error.span
            return None

    def body(self, node: Node, env: Environment) -> bool:
        return super().body(node, env) and not self._has_passed_over

    def macro(self, node: Macro, env: Environment) -> Any:
        if node.name == "assert" and self._has_passed_over:
            return None
        return super().macro(node, env)

    def apply(
        self, function: Any, args: list[Any], keywords: dict[str, Any], span: Span | None
    ) -> Any:
        if function is BUILTINS["fwrite"]:
            return NOTHING
        return super().apply(function, args, keywords, span)
