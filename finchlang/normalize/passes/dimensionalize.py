"""The dimensionalise pass (Finch'25 section 4 and 5.3): every loop gets an extent and every
declaration its dimensions.

An index is found the extents that meet in it: its loop's own, and those of the modes it stands in.
A declared mode is found the extents of the indices that write it. Sizes are known only when the
program runs, so where several extents meet, `let dim = meet(a, b)` checks that they agree, as far
outside as all of them can be evaluated.
"""

from __future__ import annotations

from typing import Any

from finchlang.algebra import program_context as ctx
from finchlang.base.errors import FinchError, Hint, write
from finchlang.normalize.passes.dimensions import DeclaredTensor, Facts, Parts, Resolve
from finchlang.normalize.schedule.nest_headers import within
from finchlang.syntax import nodes as ast
from finchlang.syntax.traversal import find_all, map_children, replace, walk
from finchlang.text.meant import from_one, indices_as_typed
from finchlang.text.print import pretty


def dimensionalize(program: ast.Node, context: ctx.ProgramContext) -> ast.Node:
    """`program` with all its dimensions.

    Expects what the life cycle pass gives. Raises FinchError of kind "dimension" for an index
    without a dimension, for literal extents that differ, and for a declared tensor whose dimensions
    cannot be known where it is declared.
    """
    context.reserve(program)
    facts = Facts(context)
    facts.program(program)
    rebuild = _Rebuild(context, facts)
    return rebuild.within_checks(rebuild.statement(program))


class _Rebuild:
    def __init__(self, context: ctx.ProgramContext, facts: Facts):
        self.context = context
        self.facts = facts
        self.resolve = Resolve()
        #: headers that bind dimensions, by the binder within which (None: around the whole program)
        self.pending: dict[str | None, list[ast.Node]] = {}
        self.meets: dict[tuple[str | None, frozenset[ast.Extent]], ast.Variable] = {}
        #: tensors that the program declares with another size
        modes = [(d, mode) for d in facts.declared.values() for mode in range(len(d.user))]
        sizes = [(ctx.size_extent(d.name, mode + 1),) for d, mode in modes]
        found = [self.resolve.declared(*own, None) for own in modes]
        self.resized = {d.name for (d, _), a, b in zip(modes, sizes, found, strict=True) if a != b}

    def within_checks(self, program: ast.Node) -> ast.Node:
        """The whole program with the dimensions around it, within what shape operators check."""
        if isinstance(program, ast.Define) and program.variable.name in self.context.checks:
            return replace(program, body=self.within_checks(program.body))
        return self.with_dimensions(None, program)

    def statement(self, node: ast.Node) -> Any:
        match node:
            case ast.Loop():
                return self.loop(node)
            case ast.Define(variable, _, body):
                inner = self.with_dimensions(variable.name, self.statement(body))
                return replace(node, body=inner)
            case ast.Declare():
                return self.declare(node)
            case ast.Block() | ast.Sieve():
                return map_children(self.statement, node)
        return node

    def with_dimensions(self, name: str | None, body: ast.Node) -> ast.Node:
        return within(self.pending.pop(name, []), body)

    def loop(self, node: ast.Loop) -> ast.Node:
        index, facts = node.index, self.facts.loops[node.index.name]
        parts, shown = self.resolve.loop(facts), self.context.written(index.name)
        if not parts:
            message = f"could not resolve the dimension of index `{shown}`"
            raise FinchError("dimension", message, index.span, f"write `for {shown} = 1:n`")
        self.check_agreement(f"`{shown}` runs over", parts, node)
        self.decide(f"`{shown}` runs over", node.extent, parts)
        for part in parts:
            for name in sorted(self.unseen(part, facts.visible)):
                what = f"the dimension {pretty(part)} of index `{shown}` ({ctx.place(part.span)})"
                inner = f"`{self.context.written(name)}`, which is bound inside of its loop"
                raise FinchError("dimension", f"{what} depends on {inner}", index.span)
        around: ast.Variable | None = None
        extent: ast.Node = parts[0]
        if all(self.is_stable(p) for p in parts):
            extent = self.meet(parts, facts.visible, f"dim_{index.name}")
        elif len(parts) > 1:
            extent = around = ast.Variable(self.context.fresh(f"dim_{index.name}"), span=index.span)
        body = self.with_dimensions(index.name, self.statement(node.body))
        loop = replace(node, extent=extent, body=body)
        if around is None:
            return loop
        return ast.Define(around, ast.call(ast.MEET, *parts, span=index.span), loop, span=node.span)

    def declare(self, node: ast.Declare) -> ast.Node:
        facts = self.facts.declared[id(node)]
        dims: list[ast.Node] = []
        for mode in range(self.context.level(node.tensor.name).order):
            parts = self.resolve.declared(facts, mode, node.tensor.span)
            what = f"dimension {mode + 1} of `{self.context.written(facts.name)}`"
            self.check_agreement(f"{what} is", parts)
            self.decide(f"{what} is", node.dims[mode] if node.dims else None, parts)
            stable = filter(self.is_stable, parts)
            usable = tuple(p for p in stable if not self.unseen(p, facts.visible))
            writers = facts.writers[mode]
            name = f"dim_{writers[0][0].name if writers else facts.name}"
            known = usable and self.meet(usable, facts.visible, name)
            dims.append(known or self.late_dimension(what, parts, facts))
        return replace(node, dims=tuple(dims))

    def decide(self, what: str, written: ast.Node | None, parts: Parts) -> None:
        """Note which extents meet in `what`, unless the program says so itself."""
        first, *others = map(pretty, parts)
        agreeing = f", which must agree with {' and '.join(others)}" if others else ""
        if parts != (written,):
            self.context.decide("dimensionalize", f"{what} {first}{agreeing}")

    def late_dimension(self, what: str, parts: Parts, facts: DeclaredTensor) -> ast.Extent:
        """One of `parts` that can be evaluated where the tensor is declared: it reads only scalars, and
        sizes of tensors, that are not changed after that. (The loop checks that all parts agree.)"""
        for part in parts:
            used = (*ctx.reads(part), *ctx.sized(part))
            known = all(self.facts.last_changed.get(n, 0) < facts.time for n in used)
            elements = any(n.indices for n in find_all(part, ast.Access))
            if known and not elements and not self.unseen(part, facts.visible):
                return part
        message = f"{what} would be {pretty(parts[0])} ({ctx.place(parts[0].span)})"
        message += ", which is not known where the tensor is declared"
        hint = "loop over `_` with a condition, or declare the size, `@declare(C, 0, 1:n)`"
        hint += ", and keep the index out of it, `C[~i]`"
        raise FinchError("dimension", message, facts.span, hint)

    def meet(self, parts: Parts, visible: frozenset[str], base: str) -> ast.Node:
        """The meet of `parts`: the only part, if it is the same everywhere; a visible `let` of the user's
        for these parts; else one variable for them, bound as far outside as can be."""
        if len(parts) == 1 and self.resized.isdisjoint(ctx.sized(parts[0])):
            return parts[0]
        for name, source in self.facts.lets.items():
            if name in visible and set(self.resolve.dimension(source)) == set(parts):
                return ast.Variable(name)
        names = {n for p in parts for n in self.names(p)}
        binder = max(names, key=self.facts.depths.__getitem__, default=None)
        key = binder, frozenset(parts)
        if key not in self.meets:
            variable = ast.Variable(self.context.fresh(base), span=parts[0].span)
            self.meets[key] = variable
            meet = ast.call(ast.MEET, *parts, span=parts[0].span)
            header = ast.Define(variable, meet, ast.EMPTY, span=meet.span)
            self.pending.setdefault(binder, []).append(header)
        return self.meets[key]

    def names(self, part: ast.Extent) -> set[str]:
        """The names in `part` that the program binds."""
        return ctx.names_in(part) & self.facts.depths.keys()

    def unseen(self, part: ast.Extent, visible: frozenset[str]) -> set[str]:
        return self.names(part) - visible

    def is_stable(self, part: ast.Extent) -> bool:
        """Whether `part` has one value wherever its names are bound: nothing in it is changed."""
        for node in walk(part):
            if isinstance(node, ast.Access) and node.indices:
                return False
            if ctx.is_call(node, "size"):
                name = node.args[0].name
                if name in self.facts.current and part != ctx.size_extent(name, node.args[1].value):
                    return False
        return not any(name in self.facts.last_changed for name in ctx.reads(part))

    def check_agreement(self, what: str, parts: Parts, loop: ast.Loop | None = None) -> None:
        if conflicts := [*_conflicts(parts, "start"), *_conflicts(parts, "stop")]:
            a, b = (parts[k] for k in min(conflicts))
            first, second = (f"{pretty(part)} ({ctx.place(part.span)})" for part in (a, b))
            zero = None if loop is None else _from_zero(loop, (a, b))
            hint = zero or (self.shifted(loop, (a, b)) if loop is not None else None)
            told = ", but indices count from 1" * (zero is not None)
            at = (hint.span if hint is not None else None) or b.span
            raise FinchError("dimension", f"{what} {first} and also {second}{told}", at, hint)

    def shifted(self, loop: ast.Loop, parts: Parts) -> Hint | None:
        """The statement in which the extents `parts` differ, written so that what is outside of a tensor is
        its fill: `coalesce(x[~(i - 1)], 0.0)` for `x[i - 1]`."""
        spans = [part.span for part in parts]
        for node in walk(loop.body):
            accesses = list(find_all(node, ast.Access))
            found = [a for a in accesses if any(i.span in spans for i in a.indices)]
            if not isinstance(node, ast.Assign) or not found or node.span is None:
                continue
            is_given = not isinstance(loop.extent, ast.Dimensionless)
            each = [self.permissive(a, loop, is_given, a is node.target) for a in accesses]
            if not (changes := sum(each, [])):
                continue
            text, whole = node.span.source.text, node.span.offsets
            for (start, stop), code in sorted(dict(changes).items(), reverse=True):
                text = text[:start] + code + text[stop:]
            more = len(text) - len(node.span.source.text)
            return write(text[whole[0] : whole[1] + more], node.span)
        return None

    def permissive(
        self, access: ast.Access, loop: ast.Loop, is_given: bool, is_target: bool
    ) -> list[tuple[tuple[int, int], str]]:
        """What changes in the text of an access that may be outside of its tensor."""
        changes, shown = list[tuple[tuple[int, int], str]](), self.context.written(loop.index.name)
        own, root = ast.Variable(shown), ctx.root(access.tensor)
        is_sized = not is_target or root not in self.facts.current
        if access.span is None:
            return changes
        for index in indices_as_typed(access.span.text):
            if index.span is None:
                continue
            start, stop = (access.span.offsets[0] + at for at in index.span.offsets)
            is_marked = ctx.is_call(index, ctx.PERMISSIVE, *ctx.PROTOCOLS)
            is_shifted = isinstance(index, ast.Call) and not is_marked and own in walk(index)
            if is_shifted or (is_given and is_sized and index == own):
                code = f"~({index.span.text})" if is_shifted else f"~{shown}"
                changes.append(((start, stop), code))
        if changes and not is_target and root is not None:
            start, stop = access.span.offsets
            fill = pretty(ast.Literal(self.context.level(root).fill.value))
            changes += [((start, start), "coalesce("), ((stop, stop), f", {fill})")]
        return changes


def _conflicts(parts: Parts, side: str) -> list[tuple[int, int]]:
    """The extents, by position, whose literals on one side differ from the first one there, with that."""
    ends = [(k, getattr(part, side)) for k, part in enumerate(parts)]
    literals = [(k, end.value) for k, end in ends if isinstance(end, ast.Literal)]
    return [(literals[0][0], k) for k, value in literals if value != literals[0][1]]


def _from_zero(loop: ast.Loop, parts: Parts) -> Hint | None:
    """The extents of a loop, and of those directly in it, that count from 0, counted from 1."""
    if loop.extent not in parts or (first := from_one(loop.extent)) is None:
        return None
    span, code, inner = loop.extent.span, first, loop.body
    while span is not None and isinstance(inner, ast.Loop) and inner.span == loop.span:
        own = inner.extent.span
        if (more := from_one(inner.extent)) is not None and own is not None:
            code += span.source.text[span.offsets[1] : own.offsets[0]] + more
            span = span.to(own)
        inner = inner.body
    return Hint(f"write `{code}`, or `_` for all of a dimension", code, span)
