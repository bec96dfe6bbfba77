"""Expressions to Finch programs: one kernel for all results, in which each result, and each reduction
within an expression, is a loop nest of its own; where nests are equal, a kernel for each, compiled once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from finchlang.algebra import index_map
from finchlang.algebra.absence import NEVER, Where
from finchlang.algebra.laws import identity_of
from finchlang.algebra.program_context import ONE, PERMISSIVE
from finchlang.array import expression as lazy
from finchlang.array.expression import plain
from finchlang.array.inferred_values import op_node, values_of
from finchlang.array.logical.fills import with_numbers
from finchlang.array.logical.form import Place
from finchlang.array.logical.rebuild import Graph, LogicalPlanner
from finchlang.array.logical.stats import entries_of
from finchlang.array.plan import LoopNest, Plan, Read, absence_of, is_path, loops_of, planned
from finchlang.base.records import record
from finchlang.levels.level import level_of
from finchlang.operators.operator_table import NOT, operator
from finchlang.syntax import nodes as ast, traversal as trees, types
from finchlang.tensors.formats import Format

#: where an expression is read, one for each of its modes
Indices = tuple[ast.Node, ...]
#: names of the indices of loops, by mode
_NAMES = "ijklmnop"


@record
class Program:
    """A kernel and its names, to be bound at each call, and `steps` that do the same one after the other,
    each with its names for them. Nodes are given by their numbers. `operands` name the values of leaves,
    `numbers` and `sizes` one number (with its place in `numbers`) or size (with its mode) of a node,
    `tensors` are made anew, empty or of `shapes`, and `results` are those that were asked for."""

    kernel: ast.KernelNode
    steps: tuple[tuple[ast.KernelNode, dict[str, str]], ...]
    operands: dict[int, str]
    numbers: dict[tuple[int, int], str]
    sizes: dict[Place, str]
    tensors: tuple[tuple[str, Format], ...]
    shapes: dict[str, tuple[Place, ...]]  # of tensors that are written through slices
    results: tuple[str, ...]
    dense_of_sparse: tuple[int, ...]  # the nodes of results that are dense though an operand is not
    is_counted: bool  # whether the plan depends on how many entries operands store
    fills: dict[str, ast.Literal]  # of results that are computed with another one, by name
    #: how many entries the arrays of small results had the last time
    rooms: dict[str, list[int] | None] = field(default_factory=dict)

    @property
    def can_change_fills(self) -> bool:
        """Whether results that are computed with another fill store only what is written, so that no value
        is taken for that fill."""
        parts = [[*level_of(form).levels()] for name, form in self.tensors if name in self.fills]
        return all(level.lists_entries for *_, level, _ in parts)


@dataclass
class _Nest:
    """A loop nest, or several in one: what it declares, the statements in it, and what these read."""

    declares: list[ast.Node]
    loops: tuple[tuple[ast.Index, ast.Node], ...]
    body: list[ast.Node]
    reads: frozenset[ast.Access]

    @property
    def statements(self) -> list[ast.Node]:
        made: ast.Node = trees.block(*self.body)
        for index, extent in reversed(self.loops):
            made = ast.Loop(index, extent, made)
        return [*self.declares, made]


@dataclass
class _Loops:
    """The accesses in the expression of a loop nest, the indices they give extents (`covered`), and the
    sizes of these."""

    sizes: dict[ast.Index, int] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    accesses: list[ast.Access] = field(default_factory=list)
    covered: set[ast.Node] = field(default_factory=set)


class Lowering:
    """A program being made for the nodes of a graph. Products and sums are reordered first, as far as
    `reorder` allows. Lists have indices of 64 bits if it `is_wide`."""

    def __init__(
        self, graph: Graph, is_dense: bool, reorder: str, is_wide: bool = False, frees: bool = True
    ):
        self.number_of, self.is_dense, self.is_wide = graph.add, is_dense, is_wide
        self.frees = frees  # whether results may be computed with other fills
        self.planner = LogicalPlanner(graph, reorder)
        self.nests: list[_Nest] = []
        self.operands: dict[int, str] = {}
        self.numbers: dict[tuple[int, int], str] = {}
        self.sizes: dict[tuple[int, int], str] = {}
        self.tensors: dict[int, tuple[str, Format]] = {}
        self.shapes: dict[str, tuple[Place, ...]] = {}
        self.given: dict[int, Format] = {}  # formats of results, by number
        self.decisions: list[str] = []
        self.copies: dict[tuple[str, Format], str] = {}  # names of copies of tensors in formats
        self.types: dict[str, types.Type] = {}  # of numbers and sizes
        self.expected: dict[str, float] = {}  # numbers of entries of tensors
        self.is_counted = False
        self.fills: dict[int, ast.Literal] = {}  # of nodes that are computed with another one
        self.results, self.shared = set[int](), set[int]()
        self._loops, self.has_sparse = _Loops(), False

    # ------------------------------------------------------------------------------ expressions

    def value(self, node: lazy.Expression, indices: Indices) -> ast.Node:
        """The element of a node at these indices, one for each of its modes, as an expression of the
        language: an access if the node is stored, else lowered by its class."""
        number = self.number_of(node)
        if number in self.shared:
            self.tensor(node)
        if number in self.tensors:
            name, format = self.tensors[number]
            return self.read(name, format, self.expected[name], indices)
        return node.lower(self, indices)

    def read(self, name: str, format: Any, stored: float, indices: Indices) -> ast.Node:
        """An access of a tensor of the kernel, noted for the planner; its fill if out of range."""
        own = tuple([index if is_path(index) else loops_of(index)[0] for index in indices])
        found = accessed(ast.Variable(name), indices)
        is_bare = isinstance(found.tensor, ast.Variable)
        self._loops.reads.append(Read(format, own, stored, name, is_bare))
        self._loops.accesses.append(found)
        if is_bare:
            self._loops.covered |= {index for index in indices if isinstance(index, ast.Index)}
        if not any([any(index_map.permissive(index)) for index in indices]):
            return found
        return ast.call("coalesce", found, plain(level_of(format).fill))

    def operand(self, node: lazy.Leaf, indices: Indices) -> ast.Node:
        """The element of an operand."""
        self.has_sparse = self.has_sparse or node.values.is_fill
        name = self.operands.setdefault(self.number_of(node), f"x{len(self.operands)}")
        return self.read(name, node.static.format, entries_of(node.value), indices)

    def name_of(self, node: lazy.Expression) -> str | None:
        """The name of an operand or a number, if the program has it."""
        number = self.planner.source(node)
        is_number = isinstance(node, lazy.NumberOperand)
        return self.numbers.get((number, 0)) if is_number else self.operands.get(number)

    def number(self, node: lazy.Expression, k: int = 0) -> ast.Variable:
        name = self.numbers.setdefault((self.planner.source(node), k), f"n{len(self.numbers)}")
        self.types[name] = node.values.type if isinstance(node, lazy.NumberOperand) else types.Int64
        return ast.Variable(name)

    def size(self, node: lazy.Expression, mode: int) -> ast.Variable:
        return self.size_at(self.planner.place(node, mode))

    def size_at(self, place: Place) -> ast.Variable:
        name = self.sizes.setdefault(place, f"s{len(self.sizes)}")
        self.types[name] = types.Int64
        return ast.Variable(name)

    # ------------------------------------------------------------------------------- statements

    def tensor(self, node: lazy.Expression) -> str:
        """The name of the tensor that holds a node, written by a loop nest of its own before the present
        one."""
        known = self.tensors.get(self.number_of(node))
        if known is not None:
            return known[0]
        outer, self._loops = self._loops, _Loops()
        if isinstance(node, lazy.Reduce):
            (arg,) = node.args
            reduced, op, start = node.axes, op_node(node.op), identity_of(node.op, node.values.type)
        else:
            arg = node.args[0] if isinstance(node, lazy.Reversed) else node
            reduced, op, start = (), ast.Variable("initwrite"), node.values.fill
        letters = [_NAMES[k] if k < len(_NAMES) else f"i{k + 1}" for k in range(len(arg.shape))]
        own = tuple(map(ast.Index, letters))
        # not by `value`, which would read the tensor being made
        value = self.value(arg, own) if arg is not node else node.lower(self, own)
        trees.check_depth(value)  # before functions that recurse into it
        # lowering may have dropped an access, and with it the extent of an index
        self._loops.covered &= {*trees.find_all(value, ast.Index)}
        kept = tuple([i for k, i in enumerate(own) if k not in reduced])
        # the tensor is declared with `start`, which thereby is its fill
        values = values_of(start, node.values.is_fill)
        self._loops.sizes = extents = dict(zip(own, arg.shape, strict=True))
        others = tuple([own[k] for k in reduced])
        reads = tuple(self._loops.reads)
        read_at = dict(zip(self._loops.accesses, reads, strict=True)).get
        absent: Where = NEVER  # a dense result is stored everywhere
        if values.is_fill:
            names = {**self.types, **{read.name: read.format for read in reads}}
            absent = absence_of(value, values.fill, reads, read_at, names)
        nest = LoopNest(kept, others, values, reads, extents, absent)
        is_dense = self.is_dense and self.number_of(node) in self.results
        plan, name = planned(nest, is_dense, self.is_wide), f"t{len(self.tensors)}"
        target: ast.Access = ast.Access(ast.Variable(name), kept)
        if isinstance(node, lazy.Reversed):
            target = accessed(target.tensor, self.reversed(node, name, kept))
        order, format = plan.order, self.given.get(self.number_of(node)) or plan.format
        self.is_counted = self.is_counted or plan.is_counted
        if order:
            self.decisions.append(f"loops of {name}: {plan.told}")
        self.expected[name] = plan.entries
        value = self.arranged(value, plan, read_at)
        body: ast.Node = ast.Assign(target, op, value)
        if arg is node and not level_of(format).is_all_dense:
            body = _without_fills(node, value, target, op)
        loops = tuple([(index, self._extent(arg, own, index)) for index in order])
        self._add(name, plain(start), loops, body)
        self.tensors[self.number_of(node)] = name, format
        self._loops = outer
        return name

    def reversed(self, node: lazy.Reversed, name: str, indices: Indices) -> list[ast.Node]:
        """The index maps by which a reversed node is written to the tensor of this name."""
        self.shapes[name] = tuple([self.planner.place(node, k) for k in range(len(indices))])
        found = [*indices]
        for k in node.axes:
            down = ast.Extent(self.size(node, k), ONE, ast.Literal(-1))
            found[k] = index_map.Wrapped("window", down, indices[k])
        return found

    def arranged(
        self, value: ast.Node, plan: Plan, read_at: Callable[[ast.Access], Read | None]
    ) -> ast.Node:
        """An expression with its accesses as planned: of copies in the loops' order, with protocols."""
        found = trees.accesses(value)
        for access in dict.fromkeys(found):
            read = read_at(access)
            if read is None or not read.can_be_copied:
                continue
            new = access
            if not read.follows(plan.order) and read not in plan.followed:
                new = self.copied(access, read, plan.order)
            is_found = read in plan.followed and found.count(access) == 1
            if is_found and access.indices == read.indices:
                looked_up = {i for i in read.own if not read.is_dense_at(i)}
                follow = ast.Variable("follow")
                calls = [ast.Call(follow, (i,)) if i in looked_up else i for i in new.indices]
                new = ast.Access(new.tensor, tuple(calls))
            value = value if new is access else trees.replace_equal(value, access, new)
        return value

    def copied(self, access: ast.Access, read: Read, order: tuple[ast.Index, ...]) -> ast.Access:
        """An access of a copy of an operand that is stored in the order of the loops."""
        key = read.name, read.copied(order, self._loops.sizes, self.is_wide)
        if key not in self.copies:
            name = self.copies[key] = f"c{len(self.copies)}"
            own = tuple([loops_of(index)[0] for index in read.indices])
            target, source = (ast.Access(t, own) for t in (ast.Variable(name), access.tensor))
            loops = tuple([(index, ast.Dimensionless()) for index in read.own])
            body = ast.Assign(target, ast.Variable("initwrite"), source)
            self._add(name, plain(level_of(read.format).fill), loops, body)
        return ast.Access(ast.Variable(self.copies[key]), access.indices)

    def _add(self, name: str, start: ast.Node, loops: Any, body: ast.Node) -> None:
        """Add the nest that makes a tensor, to one with the same loops that reads the same if there is one:
        it is read once then (mean and variance of columns take 0.8 of the time)."""
        declare, reads = ast.Declare(ast.Variable(name), start), _reads(body)
        for nest in self.nests:
            if reads and nest.loops == loops and nest.reads == reads:
                nest.declares.append(declare)
                nest.body.append(body)
                return
        self.nests.append(_Nest([declare], loops, [body], reads))

    def _extent(self, node: lazy.Expression, own: Indices, index: ast.Index) -> ast.Node:
        """The extent of a loop: inferred from an access at its index, else the size of the node's mode."""
        if index in self._loops.covered:
            return ast.Dimensionless()
        return ast.Extent(ONE, self.size(node, own.index(index)))

    def program(
        self, roots: tuple[lazy.Expression, ...], given: Sequence[Format | None]
    ) -> Program:
        """The program that computes these results, some of them in `given` formats."""
        planned = [self.planner.with_fills_apart(self.planner.plan(root)) for root in roots]
        pairs = zip(planned, given, strict=True)
        results = [self.freed(node) if format is None else node for node, format in pairs]
        numbers = list(map(self.number_of, results))
        self.given = {n: f for n, f in zip(numbers, given, strict=True) if f is not None}
        self.results, self.shared = {*numbers}, self.planner.shared(numbers)
        self.is_counted = self.planner.is_choice
        names = tuple(map(self.tensor, results))
        forms = [told.text(self.name_of) for told in self.planner.told_of(numbers)]
        formats = [level_of(self.tensors[number][1]) for number in numbers]
        pairs_of = zip(map(self.number_of, roots), formats, strict=True)
        dense = tuple([number for number, format in pairs_of if format.is_all_dense])
        decisions = tuple([("plan", told) for told in dict.fromkeys([*forms, *self.decisions])])
        named = zip(names, numbers, strict=True)
        statements = tuple([statement for nest in self.nests for statement in nest.statements])
        kernel = ast.KernelNode(ast.Block(statements), decisions=decisions)
        copies = [(name, format) for (_, format), name in self.copies.items()]
        return Program(
            kernel,
            self.steps(kernel) if len(roots) == 1 else ((kernel, {}),),
            *(self.operands, self.numbers, self.sizes),
            (*copies, *self.tensors.values()),
            self.shapes,
            names,
            dense if self.has_sparse else (),
            self.is_counted,
            {name: self.fills[number] for name, number in named if number in self.fills},
        )

    def steps(self, kernel: ast.KernelNode) -> tuple[tuple[ast.KernelNode, dict[str, str]], ...]:
        """A kernel for each loop nest, where some are equal but for names: these are compiled once. The
        whole kernel if all are different."""
        names = {*self.operands.values(), *self.numbers.values(), *self.sizes.values()}
        names |= {*self.copies.values(), *[name for name, _ in self.tensors.values()]}
        found = []
        for part in self.nests:
            nest = ast.Block(tuple(part.statements))
            nodes = [n for n in trees.find_all(nest, ast.Variable) if n.name in names]
            own = {f"x{k}": n for k, n in enumerate(dict.fromkeys(nodes))}
            renamed = trees.substitute(nest, {n: ast.Variable(name) for name, n in own.items()})
            step = replace(kernel, program=renamed)
            found.append((step, {name: n.name for name, n in own.items()}))
        is_some_equal = len({step for step, _ in found}) < len(found)
        return tuple(found) if is_some_equal else ((kernel, {}),)

    def freed(self, node: lazy.Expression) -> lazy.Expression:
        """A result with its numbers as arguments."""
        if not self.frees or not isinstance(node, lazy.Map) or not node.shape:
            return node
        found, is_other = with_numbers(self.planner, node, self.is_dense)
        if is_other:
            self.fills[self.number_of(found)] = node.values.fill
        return found


def _reads(body: ast.Node) -> frozenset[ast.Access]:
    """What a statement reads, in its conditions and its value."""
    written = [n.target for n in trees.find_all(body, ast.Assign)]
    return frozenset(trees.accesses(body)).difference(written)


def accessed(tensor: ast.Node, maps: Sequence[ast.Node]) -> ast.Access:
    """The access of an operand at these index maps."""
    return index_map.around(ast.Access(tensor, ()), list(map(_modifier, maps)))


def _modifier(m: ast.Node) -> ast.Node:
    """A slice or permissive offset of a loop's index as accesses have it, without a wrapper; or the map."""
    match m:
        case index_map.Wrapped("window", part, ast.Index() as index):
            return ast.Call(part, (index,))
        case index_map.Wrapped("permissive", _, index_map.Wrapped("offset", _, ast.Index())):
            return ast.call(PERMISSIVE, index_map.value(m))
    return m


def _without_fills(node: lazy.Expression, value: ast.Node, target: Any, op: ast.Node) -> ast.Node:
    """The assignment of an element, under a condition if one tells where it is the fill: of a Bool, or of a
    selection with the fill in one arm."""
    fill = plain(node.values.fill)
    if fill.value is False:
        return ast.Sieve(value, ast.Assign(target, op, ast.Literal(True)))
    if fill.value is True:
        return ast.Sieve(ast.Call(NOT, (value,)), ast.Assign(target, op, ast.Literal(False)))
    row = operator(value.op) if isinstance(value, ast.Call) else None
    if row is not None and row.selects and not getattr(node, "has_limits", False):
        condition, then, otherwise = cast(ast.Call, value).args
        if otherwise == fill:
            return ast.Sieve(condition, ast.Assign(target, op, then))
        if then == fill:
            return ast.Sieve(ast.Call(NOT, (condition,)), ast.Assign(target, op, otherwise))
    return ast.Assign(target, op, value)
