"""The order check: whether a format that must be written in order is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Any

from finchlang.algebra import program_context as ctx
from finchlang.algebra.index_arithmetic import MAPS, below
from finchlang.base.errors import FinchError
from finchlang.base.records import record
from finchlang.levels.level import Level
from finchlang.operators.operator_table import row_of
from finchlang.syntax import nodes as ast
from finchlang.syntax.traversal import statements, walk


def phases(
    scope: Sequence[ast.Node], context: ctx.ProgramContext
) -> Iterator[tuple[str, int, int]]:
    """The update phases of tensors that need an order: (name, start, stop), from declaration to freeze."""
    begun: dict[str, int] = {}
    for n, s in enumerate(scope):
        if isinstance(s, ast.Declare) and ordered_modes(context.level(s.tensor.name)):
            begun[s.tensor.name] = n + 1
        elif isinstance(s, ast.Freeze) and s.tensor.name in begun:
            yield s.tensor.name, begun.pop(s.tensor.name), n


@record
class OrderFault:
    """An update out of order: `message` says how."""

    message: str
    access: ast.Access
    level: Level
    way: str | None = None  # a hint on an order of loops that would do

    def error(self, context: ctx.ProgramContext) -> FinchError:
        kind = next(type(lv).__name__ for lv in self.level.levels() if lv.is_sequential)
        message = f"{self.message}: {kind} is written in order, fiber by fiber, each once"
        way = "" if self.way is None else f"{self.way}, or "
        hint = f"{way}use a format that takes any order: {self.level.random_access()}"
        return FinchError("access order", message, self.access.span, hint)


def fault(name: str, phase: Sequence[ast.Node], context: ctx.ProgramContext) -> OrderFault | None:
    """What is wrong with the order in which an update phase updates the tensor `name`.

    Let L be its innermost sequential level. Between the scope of the tensor and the loop over L stand the
    loops of the modes from the outermost to L, in that order, and no others, so that coordinates come in
    order and each fiber is written once. Expects a concordant program with its life cycle."""
    order = _Order(context, name)
    if not order.modes:
        return None
    found = (order.check(assign.target, loops) for assign, loops in updates(name, phase))
    return next(filter(None, found), None)


def updates(
    name: str, phase: Sequence[ast.Node]
) -> Iterator[tuple[ast.Assign, tuple[ast.Loop, ...]]]:
    """The updates of the tensor `name` in the statements of a phase, with the loops around them."""
    for s, around in chain.from_iterable(map(statements, phase)):
        if isinstance(s, ast.Assign) and ctx.root(s.target.tensor) == name:
            yield s, tuple(h for h in around if isinstance(h, ast.Loop))


class _Order:
    def __init__(self, context: ctx.ProgramContext, name: str):
        self.context, self.name = context, name
        self.level = context.level(name)
        self.modes = ordered_modes(self.level)
        self.free = _free_modes(self.level)
        self.first: ast.Access | None = None

    def check(self, access: ast.Access, loops: tuple[ast.Loop, ...]) -> OrderFault | None:
        outermost_first = self.own_indices(access)
        shown = self.context.written(self.name)
        if self.first is None:
            self.first = access
        elif self.own_indices(self.first) != outermost_first or self.first.tensor != access.tensor:
            first = self.first.span
            where = f", which is written at {ctx.place(first)} already" if first is not None else ""
            return OrderFault(f"a second pass over `{shown}`{where}", access, self.level)
        if self.goes_down(access.tensor):
            message = f"`{shown}` is written through a slice that goes down"
            return OrderFault(message, access, self.level)
        by_index: dict[ast.Node, int] = {loop.index: n for n, loop in enumerate(loops)}
        last = by_index[outermost_first[-1]]
        followed = [follows(loops[by_index[i]], self.context) for i in outermost_first]
        names = [i.name if i in by_index else None for i in followed]
        around = (n for n in loops[: last + 1] if is_repeated(n, self.context))
        repeated = self.context.original(loop.index.name for loop in around)
        ordered = [name for name in repeated if name not in names[: self.free]]
        wanted = list(dict.fromkeys(name for name in names if name in ordered))
        is_all = {*repeated} == {*names} - {None}
        # a mode's loop inside of that which an inner mode's index follows would begin its fiber anew
        is_nested = not any(
            by_index[inner] < by_index[index]
            for mode, index in enumerate(outermost_first[self.free :], self.free)
            for inner in followed[mode + 1 :]
            if inner in by_index
        )
        if is_all and wanted == ordered and is_nested:
            return None
        extra = [name for name in repeated if name not in wanted]
        how = f"once for each `{self.context.written(extra[0])}`" if extra else ""
        message = f"`{shown}` is written {how or 'across the order of its loops'}"
        return OrderFault(message, access, self.level, self.in_order(access, loops))

    def in_order(self, access: ast.Access, loops: tuple[ast.Loop, ...]) -> str | None:
        """A hint on an order of loops that would do, if they are simply nested and independent."""
        own: dict[ast.Node, ast.Loop] = {loop.index: loop for loop in loops}

        def within(body: ast.Node) -> ast.Node:
            while isinstance(body, ast.Define) and not {*walk(body.value)} & {*own}:
                body = body.body
            return body

        is_nest = all(within(outer.body) is inner for outer, inner in pairwise(loops))
        outermost_first = reversed(access.indices)
        followed = [follows(own[i], self.context) if i in own else None for i in outermost_first]
        derived = {n for n in loops if ctx.is_single(n.extent) and {*walk(n.extent)} & {*own}}
        loops = tuple(n for n in loops if n not in derived)
        wanted = sorted(loops, key=lambda n: n.index not in followed)
        wanted[: len(followed)] = [own[i] for i in followed if i in own and own[i] in loops]
        is_split = all(ctx.is_call(w, "split") for w in ctx.wrapped(access.tensor)[0])
        is_simple = is_nest and len(wanted) == len(loops) and is_split
        if not is_simple or any({*walk(loop.extent)} & {*own} for loop in loops):
            return None
        names = [f"`{self.context.written(loop.index.name)}`" for loop in wanted]
        if len({*names}) < len(names):  # two loops of one index in the program, by `collapse`
            return "let `collapse` name the dimensions in the order of the storage, the innermost first"
        return f"loop over {', '.join(names)}, outermost first" if wanted != [*loops] else None

    def own_indices(self, access: ast.Access) -> tuple[ast.Node, ...]:
        """The indices, from the outermost, of the modes that need an order: of two modes that `toeplitz`
        makes of one not the outer, whose loop goes over the inner again and again as any other would."""
        modes = [{mode} for mode in range(len(access.indices))]
        for wrapper in ctx.wrapped(access.tensor)[0]:
            if ctx.is_call(wrapper, *MAPS):
                outer = wrapper.args[1].value if ctx.is_call(wrapper, "toeplitz") else None
                modes = [{n for m in ms if m != outer for n in below(wrapper, m)} for ms in modes]
        least = self.level.order - self.modes
        pairs = zip(access.indices, modes, strict=True)
        return tuple([i for i, ms in pairs if any(m >= least for m in ms)][::-1])

    def goes_down(self, tensor: ast.Node) -> bool:
        """Whether a slice of a mode that needs an order has a step below 0, a literal."""
        order = self.level.order
        windows = [w for w in ctx.wrapped(tensor)[0] if ctx.is_call(w, "window")]
        own = (w.args[1 + order - self.modes :] for w in windows if len(w.args) == 1 + order)
        steps = [s.step for settings in own for s in settings if isinstance(s, ast.Extent)]
        return any(isinstance(step, ast.Literal) and step.value < 0 for step in steps)


def ordered_modes(level: Level) -> int:
    """How many modes, counted from the outermost, end in the innermost sequential level."""
    modes = ordered = 0
    for part in level.levels():
        modes += part.modes
        if part.is_sequential:
            ordered = modes
    return ordered


def _free_modes(level: Level) -> int:
    """How many outer modes, of levels above one that takes any fiber, may have their loops anywhere."""
    parts = list(level.levels())
    above = parts[: next((k for k, part in enumerate(parts) if part.takes_any_fiber), 0)]
    return 0 if any(part.is_sequential for part in above) else sum(part.modes for part in above)


def is_repeated(loop: ast.Loop, context: ctx.ProgramContext) -> bool:
    """Whether a loop may run more than once; one that a schedule made may, also over blocks of length 1."""
    name, derived = loop.index.name, context.derived
    is_made = any(name in made for made, _ in derived)
    is_taken_apart = any(name in given for _, given in derived)
    return not ctx.is_single(loop.extent) or (is_made and not is_taken_apart)


def follows(loop: ast.Loop, context: ctx.ProgramContext) -> ast.Index | None:
    """The index whose order a loop's index follows: its own, i for a loop over `i + c`, or None."""
    is_derived = any(loop.index.name in given for _, given in context.derived)
    if is_derived or not ctx.is_single(loop.extent):
        return loop.index
    x: Any = loop.extent.start
    row = row_of(x)
    if row.translates and len(x.args) == 2:
        first, second = x.args
        if isinstance(second, ast.Literal):
            x = first
        elif isinstance(first, ast.Literal) and row.commutative:
            x = second
    return x if isinstance(x, ast.Index) else None
