"""A swizzle that stays in a program, of a tensor that is looked up in any order; all others are resolved
by the pass wrapperize."""

from __future__ import annotations

from dataclasses import dataclass

from finchlang.host import construct as code, ir
from finchlang.host.interface import Host
from finchlang.levels.looplets import Lookup, at_point, delayed, map_payloads, set_end
from finchlang.syntax import nodes as ast, types
from finchlang.wrappers.broadcast import Around


@dataclass(frozen=True, slots=True)
class Swizzle(Around):
    """`swizzle(A, p..., x...)`: mode m of A takes index p[m]. The coordinates x of the last indices are
    known, the very last one first."""

    @property
    def _permutation(self) -> tuple[int, ...]:
        modes = self.call.args[1 : self.body.order + 1]
        return tuple(p.value for p in modes if isinstance(p, ast.Literal))

    @property
    def _known(self) -> tuple[ir.Expr, ...]:
        return tuple(map(_coordinate, self.call.args[self.body.order + 1 :]))

    @property
    def order(self) -> int:
        return self.body.order - len(self._known)

    def extent(self, back: int = 0) -> tuple[ir.Expr, ir.Expr] | None:
        mode = self._permutation.index(self.order - back)
        return self.body.extent(self.body.order - 1 - mode)

    def located(self, in_a_row: bool) -> int:
        return 0 if in_a_row else self.order

    def unfurl(self, host: Host, stop: ir.Expr | None, protocol: str | None) -> ast.Node:
        def at(host: Host, i: ir.Expr) -> ast.Node:
            call = ast.Call(self.call.op, (*self.call.args, ast.Value(i)), span=self.call.span)
            if self.order > 1:
                return call
            first_to_last = self._known[::-1]
            given = (i, *first_to_last)
            return self._at(host, self.call.args[0], [given[p - 1] for p in self._permutation])

        return Lookup(at, may_miss=True)

    def _at(self, host: Host, node: ast.Node, given: list[ir.Expr]) -> ast.Node:
        """The value of a tensor at coordinates, first mode first."""
        if not given or isinstance(node, ast.Literal):
            return node
        *others, last = given
        tensor = self.resolve(node)
        nest, extent = tensor.unfurl(host, None, "follow"), tensor.extent()
        if extent is not None:
            nest = set_end(nest, extent[1])

        def inside(payload: ast.Node) -> ast.Node:
            return delayed(lambda host: self._at(host, payload, others))

        found = at_point(host, nest, host.let(last, "n"))
        return map_payloads(inside, found) if others else found


def _coordinate(node: ast.Node) -> ir.Expr:
    assert isinstance(node, (ast.Literal, ast.Value))
    return code.const(node.value, types.Int64) if isinstance(node, ast.Literal) else node.expr
