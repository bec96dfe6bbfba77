"""`precompute(B[i, k] * C[k, j], (i, j), W)`: an expression goes through a tensor of its own first, the
`where` of concrete index notation (Workspaces'24 sections 2 and 6.1)."""

from __future__ import annotations

from typing import Any

from finchlang.algebra.expression_types import annotate, type_of
from finchlang.algebra.program_context import INIT, ONE, ProgramContext, names_in, root
from finchlang.base.errors import FinchError
from finchlang.levels.element import Element, typed_literal
from finchlang.levels.level import Level, level_of
from finchlang.levels.sparse_bytemap import SparseByteMap
from finchlang.levels.workspace.workspace import Workspace
from finchlang.normalize.schedule import nest_headers as nests
from finchlang.operators.operator_table import Operator, literal_type, named, referred, row_of
from finchlang.syntax import nodes as ast, traversal as trees, types
from finchlang.text.print import pretty

FORM = "precompute(B[i, k] * C[k, j], (i, j), W)"


def precompute(program: ast.Node, command: ast.Schedule, context: ProgramContext) -> ast.Node:
    """`program` with a statement `C op= f(expression)` divided in two: `W[i, j] op= expression`, and then
    `C op= f(W[i, j])`. Both stand within the loops over what else C and f use.

    Raises FinchError where that would change the meaning."""
    expression, listed, name = command.args
    if not isinstance(listed, (ast.Group, ast.Index)) or not isinstance(name, ast.Variable):
        message = "an expression, its indices in parentheses and a name are expected"
        raise FinchError("type", message, command.span, f"write `{FORM}`")
    found = nests.occurrences(expression, program, context)

    def visit(node: ast.Node) -> Any:
        if isinstance(node, ast.Loop):
            nest = nests.nest_of(node)
            read = list(trees.walk(nest.body.value)) if isinstance(nest.body, ast.Assign) else []
            for part in found:
                if any(node is part for node in read):
                    return _Division(nest, part, command, context).divided(program)
        if isinstance(node, ast.Block):
            whole = trees.block(*map(visit, node.statements))
            return whole if isinstance(whole, ast.Block) else ast.Block((whole,), span=node.span)
        return trees.map_children(visit, node)

    done = visit(program)
    if done == program:
        message = f"`{pretty(expression)}` does not stand in the one update of a nest of loops"
        raise FinchError("type", message, expression.span)
    return done


class _Division:
    """The statement that is divided; `listed` are the indices that the command lists."""

    def __init__(
        self, nest: nests.NestHeaders, found: ast.Node, command: Any, context: ProgramContext
    ):
        assert isinstance(nest.body, ast.Assign)
        self.nest, self.update, self.found = nest, nest.body, found
        self.command, self.context = command, context
        _, listed, name = command.args
        self.base = name.name
        items = listed.items if isinstance(listed, ast.Group) else (listed,)
        self.listed = tuple(map(self.index, items))
        if not items:
            raise self.error(f"`{self.base}` has one index at least", f"write `{FORM}`")
        self.op, self.fill = self.reduction()

    def error(self, message: str, hint: str | None = None) -> FinchError:
        return FinchError("type", message, self.command.span, hint)

    def index(self, node: ast.Node) -> ast.Index:
        name = nests.index_name(node)
        bound = [n for h in self.nest.headers if isinstance(h, ast.Loop) for n in trees.binds(h)]
        names = {n: self.context.renewed.get(n, self.context.written(n)) for n in bound}
        found = [n for n in bound if names[n] == name]
        if len(found) != 1:
            hint = f"there are {', '.join(f'`{n}`' for n in names.values())}"
            raise FinchError("unknown name", f"there is no index `{name}` here", node.span, hint)
        return ast.Index(found[0], span=node.span)

    def reduction(self) -> tuple[ast.Node, ast.Literal]:
        """The operator that W is updated by, and the fill of W, which is its identity."""
        op, row = self.update.op, row_of(self.update)
        if op == ast.Variable(INIT) and self.found is self.update.value:
            name = root(self.update.target.tensor)
            assert name is not None
            return op, self.context.level(name).fill
        group = referred(row.group) or row
        # the type that the result is reduced in, so that W rounds and wraps no earlier
        type = type_of(ast.Call(named(group.reference), (self.update.target, self.found)))
        unit = group.identity.value(type) if group.identity and type is not None else None
        if not (group.associative and group.commutative) or unit is None:
            raise self.error(f"`{pretty(self.update)}` does not take its operands in any order")
        self.check_distributes(self.update.value, group)
        return named(group.reference), typed_literal(unit, type)

    def check_distributes(self, value: ast.Node, group: Operator) -> None:
        """Check that f(a op b) = f(a) op f(b), where f is what stands around the expression."""
        while value is not self.found:
            assert isinstance(value, (ast.Call, ast.Access))
            operands = value.args if isinstance(value, ast.Call) else value.indices
            holds = [any(n is self.found for n in trees.walk(operand)) for operand in operands]
            at = holds.index(True)
            if row_of(value).distributes_over.get(group.reference, 0) not in (None, at + 1):
                message = f"`{pretty(value)}` cannot be divided: what stands around the expression"
                raise self.error(f"{message} does not distribute over `{group.name}`")
            value = operands[at]

    def divided(self, program: ast.Node) -> ast.Node:
        name, span = self.context.fresh(self.base), self.command.span
        order, level = self.modes()
        self.context.formats[name] = self.context.workspaces[name] = level
        tensor, extents = ast.Variable(name, span=span), [self.extent(i, program) for i in order]
        entry: Any = annotate(ast.Access(tensor, order, span=self.found.span), {name: level})
        value = nests.exchanged(self.update.value, self.found, entry)
        consumer = trees.replace(self.update, value=value)
        cut = self.cut(consumer)
        fresh = [ast.Index(self.context.fresh(i.name), span=i.span) for i in order]
        consumer = trees.substitute(consumer, dict(zip(order, fresh, strict=True)))
        for index, old in zip(fresh, order, strict=True):
            self.context.renewed[index.name] = self.context.written(old.name)
        for index, extent in zip(fresh, extents, strict=True):
            consumer = ast.Loop(index, extent, consumer, span=span)
        outer, inner = self.nest.headers[:cut], self.nest.headers[cut:]
        stored = ast.Assign(entry, self.op, self.found, span=self.update.span)
        producer = nests.within(inner, stored)
        ends = ((e, e.stop if isinstance(e, ast.Extent) else None) for e in extents)
        dims = tuple(ast.Extent(ONE, n, span=e.span) if n is not None else e for e, n in ends)
        declared = ast.Declare(tensor, self.fill, dims, span=span)
        frozen = ast.Freeze(tensor, span=span)
        return nests.within(outer, ast.Block((declared, producer, frozen, consumer)))

    def modes(self) -> tuple[tuple[ast.Index, ...], Level]:
        """The indices of W, and its format: that of the script's tensor of this name, if there is one;
        else with modes in the order of the result's, so that the result is written in order."""
        given = level_of(self.context.formats.get(self.base))
        if isinstance(given, Level):
            type = literal_type(self.fill)
            is_like = given.order == len(self.listed) and given.fill.value == self.fill.value
            if not is_like or type is None or not types.can_store(type, given.element_type):
                message = f"`{self.base}` has {given.order} modes, the type {given.element_type}"
                hint = f"{len(self.listed)} modes, {type} and {self.fill.value} are needed"
                raise self.error(f"{message} and the fill {given.fill.value}", hint)
            return self.listed, given
        target = list(self.update.target.indices)
        order = sorted(self.listed, key=lambda i: target.index(i) if i in target else -1)
        leaf, count, policies = Element(self.fill), len(order), self.context.policies
        if count == 1 and self.base not in policies:
            return tuple(order), SparseByteMap(leaf, types.Int64)
        policy, capacity = policies.pop(self.base, ("", 0))
        return tuple(order), Workspace(leaf, types.Int64, count, policy, capacity)

    def cut(self, consumer: ast.Node) -> int:
        """How many headers are around both statements: those of unlisted names in the second."""
        used = names_in(consumer) - {i.name for i in self.listed}
        names = [used.intersection(trees.binds(h)) for h in self.nest.headers]
        cut = max((at + 1 for at, found in enumerate(names) if found), default=0)
        for header in self.nest.headers[:cut]:
            for index in self.listed:
                if index.name in trees.binds(header):
                    inner, outer = map(self.context.written, (min(names[cut - 1]), index.name))
                    why = f"both statements: the second uses `{inner}`, too"
                    message = f"the loop over `{outer}` would stand around {why}"
                    raise self.error(message, f"list `{inner}`, or reorder the loops before")
        return cut

    def extent(self, index: ast.Index, program: ast.Node) -> ast.Node:
        loops = (h for h in self.nest.headers if isinstance(h, ast.Loop) and h.index == index)
        extent = self.context.ranges.get(index.name) or next(loops).extent
        found = nests.bounds(extent, program)
        own = {n for h in self.nest.headers for n in trees.binds(h)}
        is_number = isinstance(found.start, ast.Literal) and found.start.value >= 1
        if not is_number or any(n.name in own for n in trees.find_all(found, ast.Index)):
            extent_of = f"the extent of `{self.context.written(index.name)}`, {pretty(found)}"
            raise self.error(f"{extent_of}, is no dimension of a tensor")
        return extent if found.start == ONE else found
