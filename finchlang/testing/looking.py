"""The denotation looks at places out of range that it does not need, and keeps where they are."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from finchlang.base.errors import FinchError, Span
from finchlang.denote.denotation import Denotation
from finchlang.denote.denote import denote
from finchlang.denote.extents import Environment, Late
from finchlang.denote.typed_values import Number
from finchlang.python.session import Session
from finchlang.syntax import nodes as ast, traversal as trees


class Looking(Denotation):
    """A denotation that extends `places` by accesses out of range, by None for those of array expressions.
    It also looks at those in loops over nothing and under masks that do not hold, if their indices are
    known outside; and under other conditions that do not hold, if their indices are literals."""

    def __init__(self, places: list[Span | None], *given: Any):
        self.places = places
        super().__init__(*given)

    def locate(self, access: ast.Access, env: Environment) -> Any:
        try:
            return super().locate(access, env)
        except FinchError as error:
            if error.kind == "bounds":
                self.places.append(access.span or error.span)
            raise

    def run(self, node: ast.Node, env: Environment, rest: tuple[ast.Node, ...]) -> None:
        super().run(node, env, rest)
        if isinstance(node, ast.Loop):
            with suppress(FinchError, Late):
                start, stop = self.extent_of(node, env)
                if start > stop:
                    self.look(node, env)
        if isinstance(node, ast.Sieve):
            with suppress(FinchError, Late):
                holds = self.value(node.condition, env)
                if isinstance(holds, Number) and not holds.value:
                    is_mask = holds.is_structural
                    self.look(node.body, env if is_mask else dict.fromkeys(env, ast.MISSING))

    def look(self, node: ast.Node, env: Environment) -> None:
        inside = [*trees.walk(node)]
        own = {n.index.name for n in inside if isinstance(n, ast.Loop)}
        own |= {n.variable.name for n in inside if isinstance(n, ast.Define)}
        unknown = env | dict.fromkeys(own, ast.MISSING)
        for access in (n for n in inside if isinstance(n, ast.Access)):
            with suppress(FinchError, Late):
                self.locate(access, unknown)


class LookingSession(Session):
    """A session whose denotation keeps in `places` where it saw an access out of range."""

    def __init__(self, *given: Any):
        super().__init__(*given)
        self.places: list[Span | None] = []

    def denote(self, *args: Any, **named: Any) -> dict[str, Any]:
        return denote(*args, **named | {"semantics": partial(Looking, self.places)})


def tells_of(error: FinchError, places: list[Span | None]) -> bool:
    """Whether an error is about an access at one of these places."""
    return error.kind == "bounds" and any(
        error.span is not None
        and place is not None
        and place.source.name == error.span.source.name
        and (place.line, place.column) < error.span.end
        and (error.span.line, error.span.column) < place.end
        for place in places
    )
