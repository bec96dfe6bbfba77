"""Terms as tracers show them: looplets with their parts, whose functions are called with an inspecting
host, subtensors by the name of their tensor, plain literals; and what a step changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import cache, lru_cache
from typing import Any

from finchlang.base.errors import FinchError, Span
from finchlang.base.records import record
from finchlang.functions.unit import as_script
from finchlang.host import construct as code, ir
from finchlang.host.inspecting import looking, plain
from finchlang.host.interface import Cells, Exprs, Fact, Host, Shared
from finchlang.host.recording import ResidualHost
from finchlang.levels import looplets as lp
from finchlang.levels.level import Fiber
from finchlang.syntax import nodes as ast, traversal as trees, types
from finchlang.text.print import pretty

#: the type that a literal has if none is written, by the class of its value
_OWN_TYPES = {bool: "Bool", int: "Int64", float: "Float64"}


def shown(term: ast.Node) -> str:
    return pretty(spelled(term))


def spelled(node: Any) -> Any:
    """`node` with looplets, fibers and typed literals replaced by what `pretty` is to print for them."""
    if type(node) is ast.Access:
        return _access(node)
    if type(node) is ast.Literal and node.type == _OWN_TYPES.get(type(node.value)):
        return ast.Literal(node.value)
    own = as_script(node)  # of what stands around kernels
    if own is not node:
        return spelled(own)
    return node if isinstance(node, Fiber) else trees.map_children(spelled, node)


def _access(node: ast.Access) -> ast.Node:
    tensor: Any = node.tensor
    if not node.indices:
        if isinstance(tensor, (ast.Literal, ast.Value)):
            return spelled(tensor)
        if isinstance(tensor, Fiber):
            return ast.Variable(payload(tensor))
    if isinstance(tensor, lp.Looplet):
        tensor = part_of(tensor, index_of(node))
    elif isinstance(tensor, Fiber):
        tensor = ast.Variable(payload(tensor))
    return trees.replace(node, tensor=tensor, indices=tuple(map(spelled, node.indices)))


def index_of(access: ast.Access) -> ir.Expr:
    last = access.indices[-1] if access.indices else None
    if isinstance(last, ast.Value):
        return last.expr
    if isinstance(last, ast.Literal):
        return code.const(last.value, types.Int64)
    return _coordinate(last.name if isinstance(last, ast.Index) else "i")


@cache
def _coordinate(name: str) -> ir.Var:
    return ir.Var(name, types.Int64)


def payload(node: Any) -> str:
    """A payload as text: `A_val[q]` is an element, `A@p` the subtensor of A at position p."""
    if not isinstance(node, Fiber):
        return shown(node)
    if node.level.is_leaf and "val" in node.store.buffers:
        return f"{node.store.val}[{plain(node.position)}]"
    stores = list(node.store.stores())
    named = [buffer.name.rpartition(f"_{n}")[0] for s in stores for n, buffer in s.buffers.items()]
    return f"{named[0] if named else node.level}@{node.position}"


# ------------------------------------------------------------------------------------ the looplets


@record
class Part:
    """A looplet, or a payload, in printable form. `text` is the payload, the condition of a switch, the
    distance of a shift, or the stride of a stepper, which may still have to seek (`seeks`); `start` and
    `stop` are given as far as the looplet says them."""

    kind: str
    text: str = ""
    parts: tuple[Part, ...] = ()
    start: str = ""
    stop: str = ""
    seeks: bool = False

    def __str__(self) -> str:
        inside = [str(part) for part in self.parts]
        match self.kind:
            case "payload":
                return self.text
            case "phase":
                inside.insert(0, f"{self.start or '_'}:{self.stop or '_'}")
            case "switch":
                inside.insert(0, self.text)
            case "shift":
                inside.append(self.text)
            case "choice":
                conditions = self.text.split("; ")
                inside = [f"{c} => {x}" for c, x in zip(conditions, inside, strict=False)]
                inside.append(str(self.parts[-1]))
            case "stepper" | "jumper" | "blocks":
                inside[:0] = ["seek"] * self.seeks + [f"stride = {self.text}"]
        return f"{self.kind}({', '.join(inside)})"


class LookingHost(ResidualHost):
    """Runs functions of looplets to see what they give. What they read is shown in place, as `A_ptr[p]`."""

    def fresh(self, name: str) -> str:
        self._names[name] += 1
        return name + "'" * (self._names[name] - 1)

    def let(self, expr: ir.Expr, name: str = "t", **known: Fact) -> ir.Expr:
        return expr

    def load(
        self,
        buffer: ir.Buffer,
        index: ir.Expr,
        name: str = "v",
        type: types.Type | None = None,
        **known: Fact,
    ) -> ir.Expr:
        return ir.Var(f"{buffer}[{plain(index)}]", type or buffer.type, **known)

    def get(self, cell: ir.Cell, **known: Fact) -> ir.Expr:
        return ir.Var(cell.name, cell.type, **known)

    def search(
        self, buffer: ir.Buffer, start: ir.Expr, stop: ir.Expr, key: ir.Expr, name: str = "q"
    ) -> ir.Var:
        return ir.Var(f"search({buffer}, {plain(key)})", types.Int64, start, stop)

    def share(
        self, key: Hashable, values: Exprs, cells: Cells, body: Shared, is_closed: bool = False
    ) -> None:
        body(values, cells)


@lru_cache(512)
def part_of(looplet: lp.Looplet, i: ir.Expr) -> Part:
    """A looplet with its parts; parts that depend on the coordinate are those of coordinate i."""
    with looking(LookingHost()) as host:
        return _part(looplet, host, i)


def _part(node: Any, host: Host, i: ir.Expr) -> Part:
    def inside(given: ast.Node) -> Part:
        return _part(given, host, i)

    def given(ask: Callable[[Host], ast.Node]) -> Part:
        try:
            return inside(ask(host))
        except FinchError:  # it refuses this access, which no rule makes
            return Part("payload", "...")

    def end(coordinate: ir.Expr | None) -> str:
        return "" if coordinate is None else str(coordinate)

    kind, text, start, stop, seeks = type(node).__name__.lower(), "", "", "", False
    parts: tuple[Part, ...] = ()
    match node:
        case lp.Lookup(at):
            parts = (given(lambda host: at(host, i)),)
        case lp.Run(body):
            parts = (inside(body),)
        case lp.Spike(body, tail, last):
            parts, stop = (inside(body), inside(tail)), end(last)
        case lp.Phase(body, first, last):
            parts, start, stop = (inside(body),), end(first), end(last)
        case lp.Sequence(phases):
            parts = tuple(map(inside, phases))
        case lp.Switch(condition, head, tail):
            text, parts = plain(condition), (inside(head), inside(tail))
        case lp.Choice(options, otherwise):
            text = "; ".join(plain(condition) for condition, _ in options)
            parts = (*(inside(body) for _, body in options), inside(otherwise))
        case lp.Thunk(preamble):
            parts = (given(lambda host: preamble(host)[0]),)
        case lp.Shift(body, delta):
            text, parts = str(delta), (inside(body),)
        case lp.AcceptRun(accept):
            parts = (given(lambda host: accept(host, i, i)),)
        case lp.Steps():
            node = lp.apart(node)
            text, seeks, stop = plain(node.stride(host)), node.seek is not None, end(node.last)
            parts = (given(node.body),)
        case _:
            kind, text = "payload", payload(node)
    return Part(kind, text, parts, start, stop, seeks)


# ---------------------------------------------------------------------------------------- the steps


def changed(before: Any, after: Any) -> list[ast.Node]:
    """The smallest parts of a term that a step replaced, or all of it."""
    if before is after:
        return []
    if isinstance(before, ast.Block):
        kept = {id(s) for s in (after.statements if isinstance(after, ast.Block) else (after,))}
        gone = [s for s in before.statements if id(s) not in kept]
        if len(gone) < len(before.statements):
            return gone
    if type(before) is type(after) and type(before) is not ast.Access:
        pairs = list(zip(trees.children(before), trees.children(after), strict=False))
        if pairs and len(trees.children(before)) == len(trees.children(after)):
            return [x for pair in pairs for x in changed(*pair)] or [before]
    return [] if type(before) in (ast.Index, ast.Variable) and before == after else [before]


def spans_of(node: ast.Node) -> Iterator[Span]:
    if node.span is not None:
        yield node.span
    elif not isinstance(node, (lp.Looplet, Fiber)):
        for child in trees.children(node):
            yield from spans_of(child)
