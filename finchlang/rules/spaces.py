"""Iteration spaces (SparseArray'21 section 5): what an expression is where nothing is stored, and where
it may differ from that.

Which regions of its arguments an operator needs follows from the laws in the operator table, as
Simplify applies them to fills. What is here besides is for rows that state their space: it becomes a
condition around an assignment, so that nothing is computed or stored outside of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

from finchlang.algebra import AND, DIFFERS, EQUAL, NOT, OR, literal_type, operator
from finchlang.normalize.context import PLAIN, root
from finchlang.normalize.types import type_of
from finchlang.properties import Space
from finchlang.rules.laws import is_value
from finchlang.rules.simplify import simplify
from finchlang.source import FinchError, Note
from finchlang.syntax import (
    Access,
    Assign,
    Call,
    Declare,
    Define,
    Index,
    Literal,
    Node,
    Sieve,
    Variable,
    is_empty,
    is_missing,
)
from finchlang.tensors.level import Level
from finchlang.text.print import pretty
from finchlang.types import Bool, Type
from finchlang.walk import children, map_children, replace, rewrite_bottom_up, substitute, walk

Formats = Mapping[str, Level | Type]

_TRUE, _FALSE = Literal(True), Literal(False)


def with_spaces(program: Node, formats: Formats) -> Node:
    """`program` with the assignments of what has a space of its own made in that alone."""
    spaces = Spaces(formats)

    def visit(node: Node) -> Node:
        if isinstance(node, Assign):
            return spaces.within_space(node)
        return node if isinstance(node, (Access, Call)) else map_children(visit, node)

    return visit(program)


@dataclass(frozen=True)
class Operand:
    """An argument of an operator that states its space: its `fill`, None of what has none, as a number
    has not; whether it is that where nothing is stored (`is_filled`), as a dense one need not be; and
    whether it is never another value (`is_constant`)."""

    fill: Literal | None = None
    is_filled: bool = False
    is_constant: bool = False


class Spaces:
    """The fills and the spaces of expressions over tensors of given formats."""

    def __init__(self, formats: Formats):
        self.formats = formats

    def at_fills(self, node: Node, is_everywhere: bool = False) -> Node:
        """An expression where none of its operands is stored: a literal, if it is the same there
        whatever else it depends on. `is_everywhere`: where those that are stored everywhere are their
        fills, too."""

        def change(node: Node) -> Node:
            fill = self.fill(node, is_everywhere) if isinstance(node, Access) else None
            return fill or node

        return simplify(rewrite_bottom_up(change, node))

    def fill(self, access: Access, is_everywhere: bool = False) -> Literal | None:
        """The value of an access where nothing is stored; None of what has a value everywhere, unless
        that is asked for, too."""
        level = self.formats.get(root(access.tensor) or "")
        if not isinstance(level, Level) or not (has_gaps(level) or is_everywhere and level.order):
            return None
        return level.fill

    def operand(self, arg: Node) -> Operand:
        """What is known of an argument."""
        is_constant = not any(isinstance(n, Access) for n in walk(arg))
        for is_everywhere in (False, True):
            fill = self.at_fills(arg, is_everywhere)
            if isinstance(fill, Literal) and not is_missing(fill):
                return Operand(fill, not is_everywhere, is_constant)
        return Operand()

    def within_space(self, assign: Assign) -> Node:
        """An assignment in the space of its value, if the value is made by an operator that states
        one and nothing is to be done where that is its fill."""
        value, calls = assign.value, list(self._stating(assign.value))
        fill = self.at_fills(value) if calls else None
        if not isinstance(fill, Literal) or not is_empty(simplify(replace(assign, value=fill))):
            return assign
        if all(space.is_exact for space in calls) and type_of(value) == Bool:
            # where it is not its fill it is the other value, and only storing it can be left out
            level = self.formats[root(assign.target.tensor) or ""]
            if not isinstance(level, Level) or not has_gaps(level):
                return assign
            other = Literal(not fill.value, span=value.span)
            return Sieve(self.differs(value), replace(assign, value=other), span=assign.span)
        return Sieve(self.region(value), assign, span=assign.span)

    def _stating(self, node: Node) -> Iterator[Space]:
        """The spaces that operators in an expression state."""
        for call in walk(node):
            space = self._space(call) if isinstance(call, Call) else None
            if space is not None:
                yield space

    def _space(self, call: Call) -> Space | None:
        row = operator(call.op)
        space = row.space if row is not None else None
        types = [type_of(arg) for arg in call.args]
        known = tuple(t for t in types if t is not None)
        return space if space and len(known) == len(types) and space.holds(known) else None

    def region(self, node: Node) -> Node:
        """A condition that holds wherever an expression differs from its fill (section 5.2)."""
        row = operator(node.op) if isinstance(node, Call) else None
        if row is None or row.lazy_missing or not isinstance(node, Call):
            return self.differs(node)
        if type_of(node) == Bool and all(space.is_exact for space in self._stating(node)):
            return self.differs(node)
        space = self._space(node)
        if space is not None:
            if not isinstance(self.at_fills(node), Literal):  # it has no fill outside of it
                return _TRUE
            names = zip(space.parameters, map(self._outside_fill, node.args), strict=True)
            return condition(space.region, dict(names)) or _TRUE
        deciding = [arg for k, arg in enumerate(node.args) if self._decides(node, k)]
        if deciding:  # case 1, of the arguments for which it holds (case 4)
            return reduce(_both, map(self.region, deciding))
        parts = [_FALSE, *map(self.region, node.args)]
        return reduce(_either, parts)  # cases 2, 3 and the last one

    def _decides(self, node: Call, k: int) -> bool:
        """Whether the fill of an argument alone makes a call what it is at all fills."""
        fill = self.at_fills(node.args[k])
        args = (*node.args[:k], fill, *node.args[k + 1 :])
        found = simplify(replace(node, args=args)) if isinstance(fill, Literal) else None
        whole = self.at_fills(node)
        return (
            isinstance(whole, Literal)
            and found is not None
            and is_value(found, whole.value, type_of(node))
        )

    def _outside_fill(self, arg: Node) -> Conditions:
        """Under which conditions an argument is not its fill, stored or not."""
        operand = self.operand(arg)
        if operand.fill is None or operand.is_constant:
            return None
        exact = differs_from(arg, operand.fill)
        return self.region(arg) if operand.is_filled else exact, exact

    def differs(self, node: Node) -> Node:
        """The condition that an expression is not its fill."""
        fill = self.at_fills(node)
        if not isinstance(fill, Literal) or is_missing(fill):
            return _TRUE
        if isinstance(node, Literal):
            return _FALSE
        return differs_from(node, fill)


#: a condition that holds wherever an argument is not its fill, and one that does only there; None of
#: what has no fill
Conditions = tuple[Node, Node] | None


def condition(region: Node, names: Mapping[str, Conditions], is_exact: bool = False) -> Node | None:
    """A region of a row as a condition. Under a complement the arguments must be exact. What has no fill
    is left out of `|` and `&` (None if nothing is left), and is nowhere under a complement."""
    match region:
        case Variable(name):
            own = names[name]
            return own[is_exact] if own is not None else _FALSE if is_exact else None
        case Call(_, (one,)):
            inner = condition(one, names, not is_exact)
            return inner and _negated(inner)
        case Call(op, parts):
            found = [p for p in (condition(x, names, is_exact) for x in parts) if p is not None]
            return reduce(_both if op == Variable("&") else _either, found) if found else None
    raise TypeError(f"{region!r} is no region")


def differs_from(node: Node, fill: Literal) -> Node:
    """The condition that an expression is not this value."""
    if type_of(node) == Bool:
        return _negated(node) if fill.value else node
    if fill.value != fill.value:  # NaN is not equal to itself
        return Call(EQUAL, (node, node))
    return Call(DIFFERS, (node, fill))


def _both(a: Node, b: Node) -> Node:
    return Call(AND, (a, b))


def _either(a: Node, b: Node) -> Node:
    return b if a is _FALSE else Call(OR, (a, b))


def _negated(a: Node) -> Node:
    return Call(NOT, (a,))


def _is(node: Node, value: bool) -> bool:
    return isinstance(node, Literal) and node.value is value


def has_gaps(level: Level) -> bool:
    """Whether a tensor of this format may have places without an entry."""
    return level.is_structured or any(part.has_gaps for part in level.levels() if not part.is_leaf)


# ------------------------------------------------------------------------------- fills of results


def results(
    node: Node, spaces: Spaces, given: Mapping[Node, Node] = {}
) -> Iterator[tuple[Assign, Node, bool]]:
    """The assignments of a program that are made where nothing is stored, each with its value there,
    and whether it is certain that they are made."""
    match node:
        case Assign(_, _, value):
            yield node, spaces.at_fills(substitute(value, dict(given))), True
        case Define(variable, value, body):
            value = substitute(value, dict(given))
            yield from results(body, spaces, {**given, variable: value})
        case Sieve(condition, body):
            found = spaces.at_fills(substitute(condition, dict(given)))
            if not _is(found, False):
                for assign, value, is_certain in results(body, spaces, given):
                    yield assign, value, is_certain and _is(found, True)
        case _:
            for child in children(node):
                yield from results(child, spaces, given)


def wrong_fills(program: Node, formats: Formats, shown: Mapping[str, str]) -> list[Note]:
    """Notes of the tensors that are declared with another fill than what is assigned where nothing is
    stored, so that they store everything."""
    spaces, notes = Spaces(formats), []
    declared = {n.tensor.name: n for n in walk(program) if isinstance(n, Declare)}
    for assign, value, is_certain in results(program, spaces):
        name = root(assign.target.tensor) or ""
        level = formats.get(name)
        if not is_certain or name not in declared or name not in shown or _is_update(assign):
            continue
        assert isinstance(level, Level)
        reads = any(isinstance(n, Access) and spaces.fill(n) for n in walk(assign.value))
        if not reads or not isinstance(value, Literal) or literal_type(value) is None:
            continue
        if has_gaps(level) and not is_value(level.fill, value.value, level.element_type):
            own = _shown(level.fill)
            right = _shown(Literal(level.element_type.wrap(value.value)))
            message = (
                f"`{shown[name]}` has the fill {own}, but is assigned {right} where nothing is stored, "
                f"and stores it in all such places: `{shown[name]} .= _` gives it the fill {right}"
            )
            notes.append(Note(message, declared[name].span))
            del declared[name]
    return notes


def _shown(literal: Literal) -> str:
    return pretty(Literal(literal.value))


def _is_update(assign: Assign) -> bool:
    """Whether an assignment is a reduction."""
    op = assign.op.op if isinstance(assign.op, Call) else assign.op
    return op not in PLAIN


def inferred_fill(program: Node, formats: Formats, declared: Declare) -> Literal:
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
        row = operator(assign.op)
        if _is_update(assign) and row is not None:
            unit = row.identity.value(type) if row.identity is not None else None
            value = value if unit is None else Literal(type.wrap(unit), type.name)
        if is_missing(value):
            continue
        if not isinstance(value, Literal):
            if not has_gaps(level):
                return level.fill  # which no place is left to
            raise _varying(name, value, assign)
        new = Literal(type.wrap(value.value), type.name)
        if found is not None and not is_value(found, new.value, type):
            values = f"{_shown(found)} and {_shown(new)}"
            message = f"`{name}` is assigned {values} where nothing is stored"
            raise FinchError("type", message, assign.span, f"declare the fill: `{name} .= 0`")
        found = new
    return level.fill if found is None else found


def _varying(name: str, value: Node, assign: Assign) -> FinchError:
    """What is wrong with an expression that is not the same wherever nothing is stored."""
    whys: dict[type, str] = {
        Access: "has a value everywhere",
        Index: "differs from place to place",
        Variable: "is a number that is known at the call only",
    }
    is_operand = [n for n in walk(value) if type(n) in whys and operator(n) is None]
    culprit = is_operand[0] if is_operand else value
    what = pretty(culprit.tensor if isinstance(culprit, Access) else culprit)
    why = whys.get(type(culprit), "is not the same everywhere")
    message = f"`{name} .= _` finds no fill for where nothing is stored: `{what}` {why}"
    hint = f"declare the fill: `{name} .= 0`"
    return FinchError("type", message, culprit.span or assign.span, hint)
