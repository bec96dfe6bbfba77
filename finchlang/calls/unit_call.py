"""Calls of units: what their names mean afterwards, and the tensors that they make."""

from __future__ import annotations

from collections import Counter
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
    ) -> tuple[dict[str, Any], Counter[str]]:
        """Run on the arguments by an engine. Gives, by names, the objects that the slots given to it now
        hold, as far as these were written, those returned, and the numbers that are results; and the host's
        steps. Raises FinchError; all is then as before."""
        made, steps = self.run(engine, arguments, numbers, tracer)
        found: dict[str, Any] = dict(zip(self.source.results, made.results, strict=True))
        values: dict[int, Any] = {}  # `dict[int, Any]()` takes eight times as long
        homes = made.homes
        for at, memory in made:
            if at < len(arguments):
                values[at] = arguments[at][KIND].commit(arguments[at], memory)
            elif memory is not None:
                values[at] = handed_out(self.bounds[at].level, memory)
        for at, name, is_returned in self._told:
            home = homes.get(at, at)
            if home in values:
                found[name] = values[home]
            elif is_returned:
                found[name] = arguments[home][VALUE]
        return found, steps

    @cached_property
    def _told(self) -> list[tuple[int, str, bool]]:
        """The slots whose tensors the caller is told of: their numbers, names, and whether a `return` gives
        them."""
        unit = self.source
        changed = {bound.name for bound in self.bounds if bound.written} | {*unit.exchanging}
        told = {*unit.tensors} & changed | {*unit.returned}
        names = enumerate(bound.name for bound in self.bounds)
        return [(at, n, n in unit.returned) for at, n in names if n in told]
