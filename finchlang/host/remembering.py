"""An executing host that has each piece of code derived once: what rules do for the body of a loop, or an
arm of a branch, is noted while it is performed for the first time, and from then on performed as it was
noted. Rules see no values, so that they would do the same again, with other names for variables."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np

from finchlang.host.executing import ExecutingHost
from finchlang.host.ir import Buffer, Cell, Const, Expr, Var

Action = Callable[[], object]


def _noted(perform: Callable[..., None]) -> Callable[..., None]:
    """An operation that is noted and performed."""

    def note(self: RememberingHost, *args: Any) -> None:
        self._do(partial(perform, self, *args))

    return note


class RememberingHost(ExecutingHost):
    """Takes the steps that an ExecutingHost takes. What it keeps is bounded by the size of the program,
    as a residual is: an arm that is never reached is never derived."""

    def __init__(self, arrays: dict[Buffer, np.ndarray] | None = None):
        super().__init__(arrays)
        self._noted: list[Action] = []

    def _do(self, action: Action) -> None:
        self._noted.append(action)
        action()

    def _once(self, derive: Callable[[], Any]) -> Callable[[], Any]:
        """What does as `derive` does, and gives what that gives, but calls it the first time only."""
        noted: list[Action] | None = None
        answer: Any = None

        def run() -> Any:
            nonlocal noted, answer
            if noted is not None:
                for action in noted:
                    action()
                return answer
            around, self._noted = self._noted, []
            answer = derive()
            noted, self._noted = self._noted, around
            return answer

        return run

    def branch(
        self,
        condition: Expr,
        then: Callable[[], None],
        otherwise: Callable[[], None] | None = None,
        is_rare: bool = False,
    ) -> None:
        if isinstance(condition, Const):
            super().branch(condition, then, otherwise)
        else:
            arms = self._once(then), otherwise and self._once(otherwise)
            self._do(partial(super().branch, condition, *arms))

    def loop(
        self, condition: Callable[[], Expr], body: Callable[[], None], is_endless: bool = False
    ) -> None:
        self._do(partial(super().loop, self._once(condition), self._once(body)))

    def perform_count(
        self, variable: Var, start: Expr, stop: Expr, body: Callable[[Expr], None]
    ) -> None:
        once = self._once(partial(body, variable))
        self._do(partial(super().perform_count, variable, start, stop, lambda _: once()))

    def share(
        self,
        key: Hashable,
        values: tuple[Expr, ...],
        cells: tuple[Cell, ...],
        body: Callable[[tuple[Expr, ...], tuple[Cell, ...]], None],
    ) -> None:
        own = tuple([Var("p", value.type) for value in values])
        for variable, value in zip(own, values, strict=True):
            self._do(partial(self._hold, variable, value))
        body(own, cells)

    def _hold(self, variable: Var, value: Expr) -> None:
        variable.held = self.evaluate(value)

    perform_let = _noted(ExecutingHost.perform_let)
    perform_load = _noted(ExecutingHost.perform_load)
    perform_get = _noted(ExecutingHost.perform_get)
    perform_search = _noted(ExecutingHost.perform_search)
    perform_disjoint = _noted(ExecutingHost.perform_disjoint)
    store = _noted(ExecutingHost.store)
    set = _noted(ExecutingHost.set)
    grow = _noted(ExecutingHost.grow)
    fill = _noted(ExecutingHost.fill)
    sort = _noted(ExecutingHost.sort)
    sort_by = _noted(ExecutingHost.sort_by)
    sort_bits = _noted(ExecutingHost.sort_bits)
    fail = _noted(ExecutingHost.fail)
