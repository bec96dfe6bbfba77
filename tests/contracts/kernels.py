"""Kernels run by the interpreter and by staging, watched: the results, the steps, the rules."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass
from typing import Any

from finchlang.base.errors import FinchError
from finchlang.calls.runner import KernelEvent, Observer
from finchlang.host.engine import Applied, EventKind
from finchlang.host.ir import Residual
from finchlang.python.session import Session
from finchlang.script.functions import FinchFunction
from finchlang.tensors.tensor import Scalar


class Watch(Observer):
    """Keeps what a session's kernels did."""

    traces = True

    def __init__(self) -> None:
        self.events: list[KernelEvent] = []
        self.rules: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()

    def kernel(self, event: KernelEvent) -> None:
        self.events.append(event)

    def rule(self, applied: Applied) -> None:
        if applied.kind != EventKind.STEP:
            return
        self.rules[applied.name] += 1

    def finished(self, event: KernelEvent, steps: Counter[str]) -> None:
        self.steps.update(steps)


@dataclass
class Ran:
    """The session after the interpreter ran the script, and what was watched."""

    session: Session
    watch: Watch
    error: FinchError | None

    def __getitem__(self, name: str) -> Any:
        return dense(self.session[name])

    @property
    def steps(self) -> Counter[str]:
        return self.watch.steps

    @property
    def total(self) -> int:
        return self.watch.steps.total()

    @property
    def rules(self) -> Counter[str]:
        return self.watch.rules

    @property
    def residual(self) -> Residual:
        """The residual of the script's only kernel."""
        (event,) = self.watch.events
        return event.residual


def dense(value: Any) -> Any:
    """A script value as something to compare."""
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, FinchFunction):
        return str(value)
    if hasattr(value, "to_numpy"):
        return value.to_numpy()
    return value.toarray() if hasattr(value, "toarray") else value


def run_script(text: str, values: dict[str, Any], engine: str, which: str = "all") -> Ran:
    """Run a script on copies of `values`."""
    watch = Watch()
    session = Session(engine, which, output=lambda _: None, observer=watch)
    for name, value in values.items():
        session[name] = copy.deepcopy(value)
    error = None
    try:
        session.run(text)
    except FinchError as fault:
        error = fault
    return Ran(session, watch, error)


def run_staged(text: str, values: dict[str, Any], which: str = "all") -> Ran:
    """Run a script as residuals, which is quicker, and by congruence takes the same steps."""
    return run_script(text, values, "residual", which)


def kernel(body: str) -> str:
    """A script that is one kernel."""
    return f"@finch begin\n{body}\nend"
