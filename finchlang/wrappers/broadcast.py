"""The base of wrappers, and those with one mode more than the tensor within: toeplitz and broadcast."""

from __future__ import annotations

from collections.abc import Callable

from finchlang.base.errors import Bug
from finchlang.base.records import record
from finchlang.host import construct as code, ir
from finchlang.host.interface import Host
from finchlang.levels.level import TensorLike, Within
from finchlang.levels.looplets import Lookup, Run, map_payloads
from finchlang.syntax.nodes import MISSING, NOTHING, Call, Literal, Node, Value, Variable
from finchlang.text.print import pretty

_MISSING = Literal(MISSING)
_TRUE, _FALSE = Literal(True), Literal(False)
_PERMISSIVE, _OFFSET = Variable("permissive"), Variable("offset")


#: gives the tensor that an argument of a wrapper stands for; its settings are computed on the host that is
#: given, too, if this is not the rule's own
Resolve = Callable[..., TensorLike]
#: evaluates an integer argument
Evaluate = Callable[[Node], ir.Expr]


@record(slots=True)
class Around(Within):
    """The base of wrappers: the `call` that makes one, and the tensor `body` within; it has `more` modes
    than that. The wrapper makes `own` modes, from the mode `at` on; the others are those of the body.
    `neutral` is the setting that changes nothing of a mode."""

    call: Call
    resolve: Resolve
    evaluate: Evaluate

    more = own = 1
    neutral = Literal(NOTHING)

    @classmethod
    def made(cls, call: Call, resolve: Resolve, evaluate: Evaluate) -> TensorLike:
        """The wrapper for its call."""
        return cls(resolve(call.args[0]), call, resolve, evaluate)

    @property
    def at(self) -> int:
        """The mode that is the second argument of the call."""
        mode = self.call.args[1]
        assert isinstance(mode, Literal)
        return int(mode.value)

    def __str__(self) -> str:
        return pretty(self.call)

    @property
    def order(self) -> int:
        return self.body.order + self.more

    def extent(self, back: int = 0) -> tuple[ir.Expr, ir.Expr] | None:
        mode = self.order - back
        if 0 <= mode - self.at < self.own:
            return self.own_extent(mode - self.at)
        return self.body.extent(back - self.more * (mode < self.at))

    def own_extent(self, number: int) -> tuple[ir.Expr, ir.Expr] | None:
        """As `extent`, for the mode of this number, from 0, among its own; by default without bounds."""
        return None

    @property
    def is_own(self) -> bool:
        """Whether the last mode is one that the wrapper makes."""
        return self.order < self.at + self.own

    def unfurl(self, host: Host, stop: ir.Expr | None, protocol: str | None) -> Node:
        if self.is_own:
            return self.nest(host, protocol)
        return map_payloads(self.rest, self.body.unfurl(host, stop, protocol))

    def nest(self, host: Host, protocol: str | None) -> Node:
        """The looplet nest over the last mode, which is its own."""
        raise Bug(f"{type(self).__name__} lacks an operation of wrappers")

    def rest(self, payload: Node) -> Node:
        """The wrapper around a payload: the rest of the tensor at a coordinate of its last mode."""
        if isinstance(payload, (Literal, Value)):
            return payload
        return Call(self.call.op, (payload, *self.call.args[1:]), span=self.call.span)


@record(slots=True)
class Toeplitz(Around):
    """`toeplitz(A, k)[..., i, j, ...]`, with i at k, is `A[..., i + j, ...]`; `missing` out of range."""

    own = 2

    def rest(self, payload: Node) -> Node:
        is_value = isinstance(payload, (Literal, Value)) and payload != _MISSING
        return Around.rest(self, self.body.uniform(payload) if is_value else payload)

    def nest(self, host: Host, protocol: str | None) -> Node:
        outer, tensor = self.at - 1, self.call.args[0]
        inner = Call(_PERMISSIVE, (tensor, *(_FALSE,) * outer, _TRUE), span=self.call.span)
        zeros = (Literal(0),) * outer
        return Lookup(lambda host, j: Call(_OFFSET, (inner, *zeros, Value(j)), span=self.call.span))


@record(slots=True)
class AddedMode(Around):
    """`broadcast(A, k, n)`: A with a mode k of size n more, on which it does not depend."""

    def own_extent(self, number: int) -> tuple[ir.Expr, ir.Expr]:
        return code.ONE, self.evaluate(self.call.args[2])

    def located(self, in_a_row: bool) -> int:
        within, behind = self.body.located(in_a_row), self.order - self.at
        if within < behind:
            return within
        return behind if in_a_row else within + 1

    def uniform(self, value: Node) -> Node:
        return self.body if self.is_own else self.rest(self.body.uniform(value))

    def nest(self, host: Host, protocol: str | None) -> Node:
        return Run(self.call.args[0])
