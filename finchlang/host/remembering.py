"""An executing host that derives each piece of code once: what rules do for the body of a loop or an arm
of a branch is noted when it is first performed, and performed from the notes afterwards. Rules see no
values (law 2), so that they would do the same again, with other names for variables: a product of 13 x 11 x
12 in CSC takes 0.02 s in place of 0.76."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from finchlang.host.executing import Deferred, ExecutingHost
from finchlang.host.interface import Body
from finchlang.host.ir import Buffer, Code, Expr, Var


class RememberingHost(ExecutingHost):
    """Takes the same steps as an ExecutingHost. What it notes is bounded by the size of the program, as a
    residual is: an arm that is never reached is never derived."""

    def __init__(self, arrays: dict[Buffer, np.ndarray] | None = None):
        super().__init__(arrays)
        self._noted: list[Body] = []

    def do(self, statement: Any) -> None:
        self._do(partial(self.performer(statement), statement))

    def _do(self, action: Body) -> None:
        self._noted.append(action)
        action()

    def _once(self, derive: Callable[[], Any]) -> Callable[[], Any]:
        """A function that does and returns what `derive` does, but calls it the first time only; failures
        and floats are then as they are where this is asked for, which may be rounds before."""
        noted: list[Body] | None = None
        answer: Any = None
        here = self.note, self.is_exact, self.depth

        def run() -> Any:
            nonlocal noted, answer
            if noted is not None:
                for action in noted:
                    action()
                return answer
            around, self._noted = self._noted, []
            now, (self.note, self.is_exact, self.depth) = (
                (self.note, self.is_exact, self.depth),
                here,
            )
            answer = derive()
            self.note, self.is_exact, self.depth = now
            noted, self._noted = self._noted, around
            return answer

        return run

    def block(self, body: Body, *variables: Var) -> Code:
        return Deferred((), self._once(body))

    def loop(self, condition: Callable[[], Expr], body: Body, is_endless: bool = False) -> None:
        self._do(partial(super().loop, self._once(condition), self._once(body)))

    def hold(self, variable: Var, value: Expr) -> None:
        self._do(partial(super().hold, variable, value))
