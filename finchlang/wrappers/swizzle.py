"""A swizzle that stays in a program, of a tensor that is looked up in any order; all others are resolved
by the pass wrapperize."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from finchlang.host.construct import const
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels.level import TensorLike
from finchlang.levels.looplets import Lookup, Thunk, at_point, map_payloads, set_end
from finchlang.syntax.nodes import Call, Literal, Node, Value
from finchlang.syntax.types import Int64
from finchlang.wrappers.broadcast import Around


@dataclass(frozen=True, slots=True)
class Swizzle(Around):
    """`swizzle(A, p..., x...)`: mode m of A takes index p[m]. The coordinates x of the last indices are
    known, the very last one first."""

    resolve: Callable[[Node], TensorLike]

    @property
    def _permutation(self) -> tuple[int, ...]:
        modes = self.call.args[1 : self.body.order + 1]
        return tuple(p.value for p in modes if isinstance(p, Literal))

    @property
    def _known(self) -> tuple[Expr, ...]:
        return tuple(map(_coordinate, self.call.args[self.body.order + 1 :]))

    @property
    def order(self) -> int:
        return self.body.order - len(self._known)

    def extent(self, back: int = 0) -> tuple[Expr, Expr] | None:
        mode = self._permutation.index(self.order - back)
        return self.body.extent(self.body.order - 1 - mode)

    def located(self, in_a_row: bool) -> int:
        return 0 if in_a_row else self.order

    def unfurl(self, host: Host, stop: Expr | None, mode: str, protocol: str | None) -> Node:
        def at(host: Host, i: Expr) -> Node:
            call = Call(self.call.op, (*self.call.args, Value(i)), span=self.call.span)
            if self.order > 1:
                return call
            first_to_last = self._known[::-1]
            given = (i, *first_to_last)
            return self._at(host, self.call.args[0], [given[p - 1] for p in self._permutation])

        return Lookup(at, may_miss=True)

    def _at(self, host: Host, node: Node, given: list[Expr]) -> Node:
        """The value of a tensor at coordinates, first mode first."""
        if not given or isinstance(node, Literal):
            return node
        *others, last = given
        tensor = self.resolve(node)
        nest, extent = tensor.unfurl(host, None, tensor.mode, "follow"), tensor.extent()
        if extent is not None:
            nest = set_end(nest, extent[1])

        def inside(payload: Node) -> Node:
            return Thunk(lambda host: (self._at(host, payload, others), None))

        return map_payloads(
            inside if others else lambda p: p, at_point(host, nest, host.let(last, "n"))
        )


def _coordinate(node: Node) -> Expr:
    assert isinstance(node, (Literal, Value))
    return const(node.value, Int64) if isinstance(node, Literal) else node.expr
