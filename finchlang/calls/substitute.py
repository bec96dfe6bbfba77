"""Masks, views, functions and inferred fills put into a kernel in place of the names bound to them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from finchlang.algebra.program_context import RESERVED, WORDS, Format, ProgramContext
from finchlang.base.errors import FinchError
from finchlang.calls import arguments as args
from finchlang.calls.environment import Environment, Scope
from finchlang.calls.lazy_shape import Template, TensorView
from finchlang.levels.element import Element
from finchlang.levels.level import Level, Swizzled, level_of
from finchlang.normalize.shapes.shape_table import operators_in
from finchlang.syntax import nodes as ast
from finchlang.syntax.traversal import binds, children, replace, rewrite_bottom_up, substitute, walk
from finchlang.syntax.user_function import Operation, Ranged
from finchlang.tensors.memory import Memory
from finchlang.tensors.tensor import body_of
from finchlang.text.literals import is_word
from finchlang.wrappers.masks import MaskValue


def stored_formats(formats: dict[str, Any]) -> dict[str, Format]:
    """The formats without those of masks."""
    return {n: f for n, f in formats.items() if not isinstance(f, MaskValue)}


def specialized(
    node: ast.KernelNode,
    values: Mapping[str, Any],
    operations: Mapping[str, ast.Node],
    fills: Mapping[ast.Variable, ast.Literal] | None = None,
) -> ast.KernelNode:
    """The kernel with the masks among the values, with functions, and with fills in place of `_`."""

    def change(node: Any) -> ast.Node:
        if not isinstance(node, (ast.Call, ast.Assign)) or not isinstance(node.op, ast.Variable):
            return node
        found = operations.get(node.op.name)
        if isinstance(found, Operation) and found.laws.ranged:
            ranged = tuple(_of_call(r, node) for r in found.laws.ranged)
            found = replace(found, laws=replace(found.laws, ranged=ranged))
        return node if found is None else replace(node, op=replace(found, span=node.op.span))

    given = [(name, v) for name, v in values.items() if isinstance(v, MaskValue)]
    masks: dict[Any, Any] = {ast.Variable(name): v.call for name, v in given}
    program = substitute(node.program, masks) if masks else node.program
    if called := {ast.Call(mask, ()) for mask in masks.values()}:  # `m()` is `m` for a bare name
        program = rewrite_bottom_up(lambda n: n.op if n in called else n, program)
    if operations:
        program = rewrite_bottom_up(change, program)
    if fills:
        program = with_fills(program, fills)
    return node if program is node.program else replace(node, program=program)


#: for each new name in a kernel: the name of the view, and the name in that view's template
Places = dict[str, tuple[str, str]]


def with_views(
    node: ast.KernelNode, templates: Mapping[str, Template]
) -> tuple[ast.KernelNode, Places]:
    """The kernel with shape operators in place of the names bound to views, and the new names of their
    tensors and numbers. Raises FinchError "type" where a view is declared or returned."""
    calls: dict[ast.Node, ast.Node] = {}
    places: Places = {}
    taken = {n.name for n in walk(node.program) if isinstance(n, (ast.Index, ast.Variable))}
    for name, template in templates.items():
        inner: dict[ast.Node, ast.Node] = {}
        for own in template.names:
            new = f"{name}_{own}"
            while new in taken:
                new += "_"
            taken.add(new)
            inner[ast.Variable(own)], places[new] = ast.Variable(new), (name, own)
        calls[ast.Variable(name)] = substitute(template.call, inner)
    for found in walk(node.program):
        names = found.names if isinstance(found, ast.Yield) else (getattr(found, "tensor", None),)
        whole = [n for n in names if n in calls and not isinstance(found, ast.Access)]
        if whole:
            name = whole[0].name
            message = f"`{name}` is a view of other tensors: a kernel reads and updates these"
            hint = f"make a tensor of it: `{name} = copy({name})`"
            raise FinchError("type", message, whole[0].span, hint)
    return ast.KernelNode(substitute(node.program, calls), span=node.span), places


def through_views(places: Places, environment: Environment) -> Environment:
    """The environment for the kernel of `with_views`: an output that is rebound is rebound in its view."""
    found = {new: (environment.get(view), own) for new, (view, own) in places.items()}
    return Environment(Scope(environment.scope, found), environment, _Places(found))


class _Places(dict[str, Any]):
    """The values of the tensors and numbers of views, by their new names; a view gets new values, too."""

    def __init__(self, places: dict[str, tuple[TensorView, str]]):
        super().__init__({name: view.values[own] for name, (view, own) in places.items()})
        self.places = places

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        view, own = self.places[name]
        view.values[own] = value


def _of_call(ranged: Ranged, node: ast.Call | ast.Assign) -> Ranged:
    """The laws over a range for one call: known to hold if all its operands lie in it."""
    # an Assign is a reduction, whose running value may be anything
    are_known = isinstance(node, ast.Call) and all(
        ranged.holds(arg.value) if isinstance(arg, ast.Literal) else _name(arg) in ranged.known
        for arg in node.args
    )
    return ranged if are_known else replace(ranged, known=())


def _name(operand: ast.Node) -> str:
    """The name of an operand that is a number or an entry of a tensor; "" for others."""
    of = operand.tensor if isinstance(operand, ast.Access) else operand
    return of.name if isinstance(of, ast.Variable) else ""


def in_ranges(
    function: ast.Node | None, program: ast.Node, named: Iterable[tuple[str, args.Argument | None]]
) -> ast.Node | None:
    """The function with `known` of each range set: the names of operands whose present values lie in it.
    Names that the program itself assigns, declares or defines are left out."""
    if not isinstance(function, Operation) or not function.laws.ranged:
        return function
    nodes = list(walk(program))
    made = [children(n)[0] for n in nodes if isinstance(n, (ast.Assign, ast.Declare, ast.Define))]
    own = {v.name for node in made for v in walk(node) if isinstance(v, ast.Variable)}
    read = {_name(arg) for n in nodes if isinstance(n, ast.Call) for arg in n.args} - own
    found = [(name, a) for name, a in named if name in read and a is not None]
    ranged = tuple(
        replace(r, known=tuple(name for name, argument in found if args.lies_in(argument, r)))
        for r in function.laws.ranged
    )
    return replace(function, laws=replace(function.laws, ranged=ranged))


def functions_called(nodes: Collection[ast.Node]) -> dict[str, ast.Variable]:
    """The names called in a kernel that have no other meaning there: perhaps functions of the script."""
    around = {id(op) for node in nodes for op in operators_in(node)}
    own = WORDS.union(*map(binds, nodes))
    called = (n.op for n in nodes if isinstance(n, (ast.Call, ast.Assign)))
    names = (op for op in called if isinstance(op, ast.Variable) and id(op) not in around)
    return {op.name: op for op in names if op.name not in own and is_word(op.name)}


def apart(operations: Mapping[str, ast.Node], node: ast.KernelNode) -> Mapping[str, ast.Node]:
    """The functions that a kernel calls, and those that they call, renamed apart from each other and from
    what a name means in the kernel."""
    if not operations:
        return operations
    nodes = walk(node.program)
    others = {n.name for n in nodes if isinstance(n, (ast.Index, ast.Variable))}
    taken = RESERVED | (others - operations.keys())
    chosen: dict[str, Operation] = {}

    def rename(node: ast.Node) -> ast.Node:
        if not isinstance(node, ast.Call) or not isinstance(node.op, Operation):
            return node
        return replace(node, op=named(node.op))

    def named(found: Operation) -> Operation:
        body = rewrite_bottom_up(rename, found.body)
        name, count = found.name, 1
        while name in taken or chosen.setdefault(name, found) != found:
            count += 1
            name = f"{found.name}_{count}"
        is_same = name == found.name and body is found.body
        return found if is_same else replace(found, name=name, body=body)

    return {k: named(f) if isinstance(f, Operation) else f for k, f in operations.items()}


def inferring(program: ast.Node) -> list[ast.Declare]:
    """The declarations `A .= _` in a program."""
    found = [n for n in walk(program) if isinstance(n, ast.Declare)]
    return [n for n in found if isinstance(n.init, ast.Dimensionless)]


def with_fills(program: ast.Node, fills: Mapping[ast.Variable, ast.Literal]) -> ast.Node:
    """The program with these fills in place of `_`."""

    def change(node: ast.Node) -> ast.Node:
        if isinstance(node, ast.Declare) and isinstance(node.init, ast.Dimensionless):
            return replace(node, init=fills[node.tensor])
        return node

    return rewrite_bottom_up(change, program)


def inferred_fills(program: ast.Node, formats: dict[str, Any]) -> dict[ast.Variable, ast.Literal]:
    """The fill of each tensor that `program` declares by `_`. Raises FinchError "type" if there is none."""
    from finchlang.algebra.sparsity_pattern import inferred_fill  # late: few kernels need them
    from finchlang.normalize.pass_list import stages

    declared = {n.tensor: n for n in inferring(program)}
    levels = {n: level_of(f) for n, f in formats.items()}
    known = {n: levels.get(n.name) for n in declared}
    fills = {n: f.fill if isinstance(f, Level) else ast.Literal(0) for n, f in known.items()}
    named, context = with_fills(program, fills), ProgramContext(dict(formats))
    typed = next(stage for name, stage in stages(named, context) if name == "types")
    return {name: inferred_fill(typed, levels, node) for name, node in declared.items()}


def refilled(argument: args.Argument, fill: ast.Literal, name: ast.Variable) -> args.Argument:
    """The argument for a tensor that a kernel may declare with another fill: its arrays are empty, as
    before any declaration. A tensor that is Dense in every mode keeps its own. Raises FinchError "type"
    for a value that cannot take the fill."""
    format = argument[args.FORMAT]
    level = level_of(format)
    if level.is_all_dense or level.order == 0 or level.fill == fill:
        return argument
    if argument[args.KIND] is not args.TENSOR or not isinstance(level.leaf, Element):
        message = f"`{name.name} .= _` finds the fill {fill.value}, which it cannot have"
        hint = f"bind {name.name} to a Tensor over an Element"
        raise FinchError("type", message, name.span, hint)
    new: Any = level.with_leaf(Element(fill))
    storage = [part.empty() for part in new.levels()]
    memory = Memory.of(new, argument[args.SHAPE], storage, copied=False)
    if isinstance(format, Swizzled):
        new = Swizzled(new, format.permutation)
    body = memory.shape, memory.arrays, memory.counters
    return (argument[args.VALUE], new, *body, *argument[args.OWNER : args.KIND], REFILLED)


class _OfRefilled(args.Kind):
    """A tensor that takes the new format and memory if the kernel declared it: then some array has
    entries, unless the tensor has no elements."""

    takes_memory = True
    is_undeclared = True

    def commit(self, argument: args.Argument, made: Memory | None) -> Any:
        value, format = argument[args.VALUE], argument[args.FORMAT]
        is_stored = made is not None and any(array.size for array in made.arrays)
        if made is None or (made.shape == argument[args.SHAPE] and not is_stored):
            return value  # the declaration was not reached
        tensor = body_of(value)
        tensor.format = level_of(format)
        tensor.memory = made
        tensor.back_buffer, tensor.checked = None, True
        return value


REFILLED = _OfRefilled()
