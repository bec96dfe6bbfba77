"""Calls of units: what their names mean afterwards, and the tensors that they make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from finchlang.base.locks import cached_property
from finchlang.calls.arguments import KIND, VALUE
from finchlang.calls.call import Values
from finchlang.calls.kernel import SpecializedKernel
from finchlang.calls.own_tensors import handed_out
from finchlang.functions.unit import Unit

if TYPE_CHECKING:
    from finchlang.host.engine import Tracer


class UnitKernel(SpecializedKernel):
    """A unit compiled for formats."""

    source: Unit

    @staticmethod
    def stage(*args: Any) -> Any:
        from finchlang.calls.staged_unit import StagedUnit
        from finchlang.calls.staging import staged

        program, formats, choices, signature = args
        return staged(program, formats, choices, signature, StagedUnit)

    def call(
        self, engine: str, arguments: Values, numbers: Values, tracer: Tracer | None = None
    ) -> tuple[dict[str, Any], Sequence[Any], Counter[str]]:
        """Run on the arguments by an engine. Gives the objects that the slots given to it hold now, as far
        as these were written, and those returned; the results; and the host's steps. Raises FinchError; all
        is then as before."""
        made, steps = self.run(engine, arguments, numbers, tracer)
        values, found = dict[int, Any](), dict[str, Any]()
        for at, memory in made:
            if at < len(arguments):
                values[at] = arguments[at][KIND].commit(arguments[at], memory)
            elif memory is not None:
                values[at] = handed_out(self.bounds[at].level, memory)
        for at, name, is_returned in self._told:
            home = made.homes.get(at, at)
            if home in values:
                found[name] = values[home]
            elif is_returned:
                found[name] = arguments[home][VALUE]
        return found, made.results, steps

    @cached_property
    def _told(self) -> list[tuple[int, str, bool]]:
        """The slots whose tensors the caller is told of: their numbers, names, and whether a `return` gives
        them."""
        unit, names = self.source, [bound.name for bound in self.bounds]
        told = {*unit.tensors, *unit.returned}
        return [(at, n, n in unit.returned) for at, n in enumerate(names) if n in told]
