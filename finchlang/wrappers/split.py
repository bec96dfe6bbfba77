"""`split(A, k, m)`, a mode of a tensor as two, the first of which, of size m, runs fastest."""

from __future__ import annotations

from dataclasses import replace

from finchlang.base.errors import FinchError
from finchlang.base.records import record
from finchlang.host import construct as code, ir
from finchlang.host.interface import Host, fail_unless
from finchlang.levels.level import UPDATE, TensorLike, Uniform
from finchlang.levels.looplets import map_payloads, set_end
from finchlang.syntax.nodes import Call, Literal, Node, Value, Variable
from finchlang.syntax.traversal import substitute, walk
from finchlang.wrappers.block_projection import Looplets, Projection
from finchlang.wrappers.broadcast import Around, Evaluate, Resolve

#: the names of placeholders for settings begin with this
PLACEHOLDER = "setting "


@record(slots=True)
class LoopletNest(TensorLike):
    """The rest of a tensor, with the looplets that `make` gives in its last mode, of `size`. The
    placeholders `names` in them stand for the settings beside this in `nest(this, setting...)`."""

    body: TensorLike
    modes: int
    size: ir.Expr
    make: Looplets
    names: tuple[Node, ...] = ()

    def __str__(self) -> str:
        return f"{self.body}[...]"

    @property
    def order(self) -> int:
        return self.modes

    @property
    def mode(self) -> str:
        return self.body.mode

    def extent(self, back: int = 0) -> tuple[ir.Expr, ir.Expr] | None:
        return self.body.extent(back) if back else (code.ONE, self.size)

    def fill_value(self) -> Literal | None:
        return self.body.fill_value()

    def located(self, in_a_row: bool) -> int:
        return self.body.located(in_a_row)

    def uniform(self, value: Node) -> Node:
        return self.body.uniform(value)

    def unfurl(self, host: Host, stop: ir.Expr | None, protocol: str | None) -> Node:
        return self.make(host, protocol)


class NestCall(Around):
    """The call of a nest."""

    @classmethod
    def made(cls, call: Call, resolve: Resolve, evaluate: Evaluate) -> LoopletNest:
        """The nest of a call, with its settings put in place of the placeholders."""
        found, *settings = call.args
        assert isinstance(found, LoopletNest)
        bindings = dict(zip(found.names, settings, strict=True))

        def make(host: Host, protocol: str | None) -> Node:
            return map_payloads(lambda p: substitute(p, bindings), found.make(host, protocol))

        names = tuple(n for setting in settings for n in placeholders(setting))
        return replace(found, make=make, names=names)


def placeholders(node: Node) -> list[Node]:
    found = (n for n in walk(node) if isinstance(n, Variable) and n.name.startswith(PLACEHOLDER))
    return list(dict.fromkeys(found))


@record(slots=True)
class Split(Around):
    """`split(A, k, m)`: modes k and k + 1 stand for mode k of A, k running fastest, with the size m. With
    both sizes, `split(A, k, m, n)`, either may be 0."""

    def located(self, in_a_row: bool) -> int:
        within = self.body.located(in_a_row)
        return within + 1 if within > self.body.order - self.at else within

    def extent(self, back: int = 0) -> tuple[ir.Expr, ir.Expr] | None:
        mode = self.order - back
        if mode == self.at:
            return code.ONE, self._size()
        if mode == self.at + 1:
            if len(self.call.args) > 3:
                return code.ONE, self.evaluate(self.call.args[3])
            return code.ONE, code.op("idiv", self._whole(), self._size())
        return self.body.extent(back - (mode < self.at))

    def _size(self) -> ir.Expr:
        return self.evaluate(self.call.args[2])

    def _whole(self) -> ir.Expr:
        found = self.body.extent(self.body.order - self.at)
        if found is None or found[0] is not code.ONE:
            message = "a mode that is split begins at 1 and has an end"
            raise FinchError("dimension", message, self.call.span)
        return found[1]

    def uniform(self, value: Node) -> Node:
        within, size = self.body.uniform(value), self._size()
        if self.order > self.at + 1:
            return self.rest(within)
        if self.order == 2:
            return Uniform(value, (size,), self.mode)
        return Call(Variable("broadcast"), (within, Literal(self.at), Value(size)))

    def unfurl(self, host: Host, stop: ir.Expr | None, protocol: str | None) -> Node:
        if self.order > self.at + 1:
            return map_payloads(self.rest, self.body.unfurl(host, None, protocol))
        own, whole = self._size(), self._whole()
        size = own
        if len(self.call.args) > 3:  # the program has checked the product of the sizes
            size = code.op("max", own, code.ONE)
            # a size of 0 is taken as 1: there are n blocks nevertheless
            if self.mode != UPDATE and size is not own:
                whole = code.op("max", whole, self.evaluate(self.call.args[3]))
        else:
            parts = code.compare("eq", code.op("irem", whole, size), code.ZERO)
            fits = code.op("and", code.compare("gt", size, code.ZERO), parts)
            message = "a dimension of size {} does not split into parts of size {}"
            fail_unless(host, fits, "dimension", message, (whole, size), self.call.span)

        def looplets(host: Host, asked: str | None) -> Node:
            return set_end(self.body.unfurl(host, None, asked or protocol), whole)

        def block(make: Looplets) -> Node:
            names = tuple(placeholders(self.call))
            nest = LoopletNest(self.body, self.order - 1, own, make, names)
            return Call(Variable("nest"), (nest, *names)) if names else nest

        projection = Projection(size, looplets, block)
        if self.mode == UPDATE:
            return projection.written(looplets(host, protocol))
        return projection.of(looplets(host, protocol))
