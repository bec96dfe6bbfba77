"""Iteration spaces (SparseArray'21 section 5): what an expression is where nothing is stored, and where
it may differ from that.

Which regions of its arguments an operator needs follows from the laws in the operator table, as
Simplify applies them to fills. What is here besides is for rows that state their space: it becomes a
condition around an assignment, so that nothing is computed or stored outside of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce

from finchlang.algebra.expression_types import has_gaps, type_of
from finchlang.algebra.laws import is_value
from finchlang.algebra.program_context import is_plain, root
from finchlang.algebra.simplify import simplify
from finchlang.base.errors import FinchError, Note
from finchlang.base.records import record
from finchlang.levels.level import Level
from finchlang.operators import operator_table as table
from finchlang.operators.operator import Space
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.types import Bool, Type
from finchlang.text.print import pretty

Formats = Mapping[str, Level | Type]

_TRUE, _FALSE = ast.Literal(True), ast.Literal(False)


def with_spaces(program: ast.Node, formats: Formats) -> ast.Node:
    """`program` with each assignment whose value has a stated space under the condition of that space."""
    spaces = Spaces(formats)

    def visit(node: ast.Node) -> ast.Node:
        if isinstance(node, ast.Assign):
            return spaces.within_space(node)
        return node if isinstance(node, (ast.Access, ast.Call)) else trees.map_children(visit, node)

    return visit(program)


@record
class SpaceOperand:
    """An argument of an operator that states its space: its `fill`, whether it `is_filled`, that is its
    fill wherever nothing is stored, as a dense tensor need not be, and whether it reads no tensor."""

    fill: ast.Literal | None = None
    is_filled: bool = False
    is_constant: bool = False


class Spaces:
    """The fills and the spaces of expressions over tensors of given formats."""

    def __init__(self, formats: Formats):
        self.formats = formats

    def at_fills(
        self, node: ast.Node, is_everywhere: bool = False, given: Mapping[ast.Node, ast.Node] = {}
    ) -> ast.Node:
        """An expression where none of its operands is stored: a literal, if it depends on nothing else
        there. `is_everywhere`: tensors that store all places are at their fills, too. `given`: what names
        are there; it is put in last, and not looked at once more, as names of names grow exponentially."""

        def change(node: ast.Node) -> ast.Node:
            fill = self.fill(node, is_everywhere) if isinstance(node, ast.Access) else None
            return fill or node

        return simplify(trees.substitute(trees.rewrite_bottom_up(change, node), dict(given)))

    def fill(self, access: ast.Access, is_everywhere: bool = False) -> ast.Literal | None:
        """What an access is where nothing is stored; None if all is, unless `is_everywhere`."""
        level = self.formats.get(root(access.tensor) or "")
        if not isinstance(level, Level) or not (has_gaps(level) or is_everywhere and level.order):
            return None
        return level.fill

    def operand(self, arg: ast.Node) -> SpaceOperand:
        is_constant = not any(trees.find_all(arg, ast.Access))
        for is_everywhere in (False, True):
            fill = self.at_fills(arg, is_everywhere)
            if isinstance(fill, ast.Literal) and not ast.is_missing(fill):
                return SpaceOperand(fill, not is_everywhere, is_constant)
        return SpaceOperand()

    def within_space(self, assign: ast.Assign) -> ast.Node:
        """An assignment under the condition of its value's space, if its fill does nothing."""
        value, calls = assign.value, self._stating(assign.value)
        fill = self.at_fills(value) if calls else None
        if not isinstance(fill, ast.Literal):
            return assign
        if not ast.is_empty(simplify(trees.replace(assign, value=fill))):
            return assign
        if all(space.is_exact for space in calls) and type_of(value) == Bool:
            # such a Bool is the other value wherever it is not its fill: there is nothing to compute,
            # so that a condition pays only where it keeps something from being stored
            level = self.formats[root(assign.target.tensor) or ""]
            if not isinstance(level, Level) or not has_gaps(level):
                return assign
            other = ast.Literal(not fill.value, span=value.span)
            differs, assign = self.differs(value), trees.replace(assign, value=other)
            return ast.Sieve(differs, assign, span=assign.span)
        return ast.Sieve(self.region(value), assign, span=assign.span)

    def _stating(self, node: ast.Node) -> list[Space]:
        calls = trees.find_all(node, ast.Call)
        return [space for call in calls if (space := self._space(call)) is not None]

    def _space(self, call: ast.Call) -> Space | None:
        space = table.row_of(call).space
        types = [type_of(arg) for arg in call.args]
        known = tuple(t for t in types if t is not None)
        return space if space and len(known) == len(types) and space.holds(known) else None

    def region(self, node: ast.Node) -> ast.Node:
        """A condition that holds wherever an expression differs from its fill (section 5.2)."""
        row = table.operator(node.op) if isinstance(node, ast.Call) else None
        if row is None or row.lazy_missing or not isinstance(node, ast.Call):
            return self.differs(node)
        if type_of(node) == Bool and all(space.is_exact for space in self._stating(node)):
            return self.differs(node)
        space = self._space(node)
        if space is not None:
            if not isinstance(self.at_fills(node), ast.Literal):  # it has no fill outside of it
                return _TRUE
            names = zip(space.parameters, map(self._outside_fill, node.args), strict=True)
            return condition(space.region, dict(names)) or _TRUE
        deciding = [arg for k, arg in enumerate(node.args) if self._decides(node, k)]
        if deciding:  # case 1, of the arguments for which it holds (case 4)
            return reduce(_both, map(self.region, deciding))
        parts = [_FALSE, *map(self.region, node.args)]
        return reduce(_either, parts)  # cases 2, 3 and the last one

    def _decides(self, node: ast.Call, k: int) -> bool:
        """Whether the fill of an argument alone makes a call what it is at all fills."""
        fill = self.at_fills(node.args[k])
        args = (*node.args[:k], fill, *node.args[k + 1 :])
        whole = self.at_fills(node)
        if not isinstance(fill, ast.Literal) or not isinstance(whole, ast.Literal):
            return False
        return is_value(simplify(trees.replace(node, args=args)), whole.value, type_of(node))

    def _outside_fill(self, arg: ast.Node) -> Conditions:
        """The conditions that an argument is not its fill, stored or not."""
        operand = self.operand(arg)
        if operand.fill is None or operand.is_constant:
            return None
        exact = differs_from(arg, operand.fill)
        return self.region(arg) if operand.is_filled else exact, exact

    def differs(self, node: ast.Node) -> ast.Node:
        """The condition that an expression is not its fill."""
        fill = self.at_fills(node)
        if not isinstance(fill, ast.Literal) or ast.is_missing(fill):
            return _TRUE
        if isinstance(node, ast.Literal):
            return _FALSE
        return differs_from(node, fill)


#: a condition that holds wherever an argument is not its fill, and one that holds there only; None for
#: an argument without a fill, or a constant one
Conditions = tuple[ast.Node, ast.Node] | None


def condition(
    region: ast.Node, names: Mapping[str, Conditions], is_exact: bool = False
) -> ast.Node | None:
    """A region of a row as a condition, with exact conditions of arguments under a complement. One without
    a fill is left out (None if nothing is left), and counts as nowhere under a complement."""
    match region:
        case ast.Variable(name):
            own = names[name]
            return own[is_exact] if own is not None else _FALSE if is_exact else None
        case ast.Call(_, (one,)):
            inner = condition(one, names, not is_exact)
            return inner and ast.Call(table.NOT, (inner,))
        case ast.Call(op, parts):
            found = [p for p in (condition(x, names, is_exact) for x in parts) if p is not None]
            return reduce(_both if op == ast.Variable("&") else _either, found) if found else None
    raise TypeError(f"{region!r} is no region")


def differs_from(node: ast.Node, fill: ast.Literal) -> ast.Node:
    """The condition that an expression is not this value."""
    if type_of(node) == Bool:
        return ast.Call(table.NOT, (node,)) if fill.value else node
    if fill.value != fill.value:  # NaN is not equal to itself
        return ast.Call(table.EQUAL, (node, node))
    return ast.Call(table.DIFFERS, (node, fill))


def _both(a: ast.Node, b: ast.Node) -> ast.Node:
    return ast.Call(table.AND, (a, b))


def _either(a: ast.Node, b: ast.Node) -> ast.Node:
    return b if a is _FALSE else ast.Call(table.OR, (a, b))


def _is(node: ast.Node, value: bool) -> bool:
    return isinstance(node, ast.Literal) and node.value is value


def results(
    node: ast.Node, spaces: Spaces, given: Mapping[ast.Node, ast.Node] = {}
) -> Iterator[tuple[ast.Assign, ast.Node, bool]]:
    """The assignments made where nothing is stored, with their values, and whether that is certain."""
    match node:
        case ast.Assign(_, _, value):
            yield node, spaces.at_fills(value, given=given), True
        case ast.Define(variable, value, body):
            value = spaces.at_fills(value, given=given)
            yield from results(body, spaces, {**given, variable: value})
        case ast.Sieve(condition, body):
            found = spaces.at_fills(condition, given=given)
            if not _is(found, False):
                for assign, value, is_certain in results(body, spaces, given):
                    yield assign, value, is_certain and _is(found, True)
        case _:
            for child in trees.children(node):
                yield from results(child, spaces, given)


def wrong_fills(program: ast.Node, formats: Formats, shown: Mapping[str, str]) -> list[Note]:
    """Notes for tensors whose declared fill is not what is assigned where nothing is stored."""
    spaces, notes = Spaces(formats), []
    declared = {n.tensor.name: n for n in trees.find_all(program, ast.Declare)}
    for assign, value, is_certain in results(program, spaces):
        name = root(assign.target.tensor) or ""
        level = formats.get(name)
        if not is_certain or name not in declared or name not in shown or not is_plain(assign.op):
            continue
        assert isinstance(level, Level)
        reads = any(spaces.fill(n) for n in trees.find_all(assign.value, ast.Access))
        if not reads or not isinstance(value, ast.Literal) or table.literal_type(value) is None:
            continue
        if has_gaps(level) and not is_value(level.fill, value.value, level.element_type):
            own = _shown(level.fill)
            right = _shown(ast.Literal(level.element_type.wrap(value.value)))
            what = f"`{shown[name]}` has the fill {own}, but is assigned {right} where nothing is stored"
            right = f"`{shown[name]} .= _` gives it the fill {right}"
            message = f"{what}, and stores it in all such places: {right}"
            notes.append(Note(message, declared[name].span))
            del declared[name]
    return notes


def _shown(literal: ast.Literal) -> str:
    return pretty(ast.Literal(literal.value))


def inferred_fill(program: ast.Node, formats: Formats, declared: ast.Declare) -> ast.Literal:
    """The fill of a tensor that is declared by `A .= _`: what is assigned to it where nothing is
    stored, or the identity of the reductions into it.

    Raises FinchError "type" naming the operand for which there is no such value, or both values.
    """
    name, found = declared.tensor.name, None
    level = formats[name]
    assert isinstance(level, Level)
    type = level.element_type
    for assign, value, _ in results(program, Spaces(formats)):
        if root(assign.target.tensor) != name:
            continue
        identity = None if is_plain(assign.op) else table.row_of(assign).identity
        if identity is not None and (unit := identity.value(type)) is not None:
            value = ast.Literal(type.wrap(unit), type.name)
        if ast.is_missing(value):
            continue
        if not isinstance(value, ast.Literal):
            if not has_gaps(level):
                return level.fill  # all places are stored: the fill is never read
            raise _varying(name, value, assign)
        new = ast.Literal(type.wrap(value.value), type.name)
        if found is not None and not is_value(found, new.value, type):
            values = f"{_shown(found)} and {_shown(new)}"
            message = f"`{name}` is assigned {values} where nothing is stored"
            raise FinchError("type", message, assign.span, f"declare the fill: `{name} .= 0`")
        found = new
    return level.fill if found is None else found


def _varying(name: str, value: ast.Node, assign: ast.Assign) -> FinchError:
    """The error for a value that is not the same wherever nothing is stored."""
    whys: dict[type, str] = {
        ast.Access: "has a value everywhere",
        ast.Index: "differs from place to place",
        ast.Variable: "is a number that is known at the call only",
    }
    parts = (n for n in trees.walk(value) if type(n) in whys and table.operator(n) is None)
    culprit = next(parts, value)
    what = pretty(culprit.tensor if isinstance(culprit, ast.Access) else culprit)
    why = whys.get(type(culprit), "is not the same everywhere")
    message = f"`{name} .= _` finds no fill for where nothing is stored: `{what}` {why}"
    hint = f"declare the fill: `{name} .= 0`"
    return FinchError("type", message, culprit.span or assign.span, hint)
