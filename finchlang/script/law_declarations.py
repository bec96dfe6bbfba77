"""Declarations of laws in scripts: `@properties`, `@case` and `@iterate` (SparseArray'21 sections 4 and
5). A declaration binds the name to a new function with the laws; the old one stays without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from finchlang.base.errors import FinchError, number_of
from finchlang.operators.operator_table import OPERATORS, Operator, operator
from finchlang.script.as_operator import operation
from finchlang.script.functions import FinchFunction
from finchlang.script.show import kind_of
from finchlang.script.values import plain
from finchlang.syntax import traversal as trees, types
from finchlang.syntax.nodes import Call, Literal, Node, Variable, call
from finchlang.syntax.user_function import COMPARISONS, Case, Laws, Operation, Ranged

#: properties that are declared by name alone, and the least and greatest number of arguments of functions
#: that have them
PROPERTIES = {
    **dict.fromkeys(("commutative", "associative", "right_idempotent"), (2, 2)),
    **{"idempotent": (2, 99), "involution": (1, 1)},
}
#: laws about a value; laws about an operator, with the numbers of arguments they may be written with
OF_VALUES = ("identity", "annihilator")
OF_OPERATORS = {"distributes": (1, 2), "inverse": (1,)}
#: stands between laws and their range
WHERE = Variable("where")
#: the operators of regions
SETS = ("|", "&", "~")

#: evaluates an expression, or an argument of a law
Evaluate = Callable[[Node], Any]


def declared(value: Any, name: Variable) -> Operation:
    """A function of the script, or an operator of one or two arguments, with its laws so far."""
    if isinstance(value, FinchFunction):
        definition = value.definition
        return Operation(name.name, definition.parameters, definition.body, value.laws)
    if isinstance(value, Operator) and value.arity[0] <= 2:  # as `-`, of one or two arguments
        parameters = ("x", "y")[: value.arity[1]]
        laws = Laws() if value.node is None else value.node.laws
        body = call(value.name, *map(Variable, parameters))
        return Operation(name.name, parameters, body, laws)
    raise _error(f"laws are declared of functions, and `{name.name}` is {kind_of(value)}", name)


def with_laws(value: Any, known: Operation) -> Any:
    """The function with the laws that are known. An operator becomes a function that calls it."""
    if isinstance(value, FinchFunction):
        return replace(value, laws=known.laws, closed=None)
    row = operator(replace(known, name=value.name))
    assert row is not None
    return row


# -------------------------------------------------------------------------------------- properties


def with_properties(known: Operation, stated: tuple[Node, ...], evaluate: Evaluate) -> Operation:
    """The function with the laws of a line `@properties`. Raises FinchError "type" for what contradicts."""
    if WHERE in stated:
        return replace(known, laws=_with_range(known, stated[:-2], stated[-1], evaluate))
    for law in stated:
        known = replace(known, laws=_with_law(known, law, evaluate))
        message = next(_contradictions(known.laws), None)
        if message is not None:
            raise _error(f"the laws of `{known.name}` contradict: {message}", law)
    return known


def _with_range(
    known: Operation, stated: tuple[Node, ...], condition: Node, evaluate: Evaluate
) -> Laws:
    """The laws with some that hold if the comparisons of a condition are true of each argument."""
    bounds, ranged = tuple(_bounds(condition)), known.laws.ranged
    if len({arg for bound in bounds for arg in bound.args if isinstance(arg, Variable)}) > 1:
        raise _no_range(condition)
    old = next((r for r in ranged if r.bounds == bounds), Ranged(bounds, Laws()))
    own = with_properties(replace(known, laws=old.laws), stated, evaluate)
    others = (r for r in ranged if r is not old)
    return replace(known.laws, ranged=(*others, replace(old, laws=own.laws)))


def _bounds(condition: Node) -> Iterator[Call]:
    match condition:
        case Call(Variable("&&"), parts):
            for part in parts:
                yield from _bounds(part)
        case Call(Variable(name), args) if name in COMPARISONS:
            if {*map(type, args)} != {Literal, Variable}:
                raise _no_range(condition)
            yield call(name, *args)
        case _:
            raise _no_range(condition)


def _no_range(node: Node) -> FinchError:
    hint = "one name stands for each argument, as in `where 0 <= x && x < 1`"
    return FinchError("type", "a range compares a name with numbers", node.span, hint)


def _with_law(known: Operation, law: Node, evaluate: Evaluate) -> Laws:
    laws = known.laws
    name, args = (law.op, law.args) if isinstance(law, Call) else (law, ())
    assert isinstance(name, Variable)
    count = len(known.parameters)
    if name.name in PROPERTIES and not args:
        least, most = PROPERTIES[name.name]
        if not least <= count <= most:
            what = number_of(least, "argument") + " or more" * (most > least)
            raise _error(f"`{name.name}` is a property of functions of {what}", law)
        return replace(laws, properties=tuple(sorted({*laws.properties, name.name})))
    if name.name in OF_VALUES and 1 <= len(args) <= 2:
        value = _literal(evaluate(args[0]), args[0])
        at = _argument(args[1], count, evaluate) if len(args) > 1 else None
        if name.name == "annihilator":
            return replace(laws, annihilators=(*laws.annihilators, (value, at)))
        if count != 2:
            raise _error("an identity is a property of functions of 2 arguments", law)
        if laws.identity is not None and laws.identity != (value, at):
            raise _error(f"`{known.name}` has an identity already", law)
        return replace(laws, identity=(value, at))
    if len(args) in OF_OPERATORS.get(name.name, ()):
        node = _operator(args[0], 1 if name.name == "inverse" else 2, evaluate)
        if count != 2:
            raise _error(f"`{name.name}` is a property of functions of 2 arguments", law)
        if name.name == "inverse":
            return replace(laws, inverse=node)
        at = _argument(args[1], count, evaluate) if len(args) > 1 else None
        return replace(laws, distributes=(*laws.distributes, (node, at)))
    forms = *PROPERTIES, "identity(0)", "annihilator(0, 1)", "distributes(g)", "inverse(h)"
    raise _error("this is no property of a function", law, f"there are {', '.join(forms)}")


def _error(message: str, node: Node, hint: str | None = None) -> FinchError:
    return FinchError("type", message, node.span, hint)


def _literal(value: Any, node: Node) -> Literal:
    value = plain(value)
    type = types.type_of_value(value)
    if type is None or type.kind == "pair":
        raise _error("a law is about a number", node)
    return Literal(value, span=node.span)


def _argument(node: Node, count: int, evaluate: Evaluate) -> int:
    value = evaluate(node)
    if type(value) is not int or not 1 <= value <= count:
        raise _error(f"this is none of the arguments 1 to {count}", node)
    return value


def _operator(node: Node, count: int, evaluate: Evaluate) -> Node:
    """The function or operator that a law names, which must take `count` arguments."""
    value = evaluate(node)
    made = Variable(value) if isinstance(value, str) and value in OPERATORS else operation(value)
    row = None if made is None else operator(made)
    if made is None or row is None:
        raise _error(f"a law names a function of {count} arguments", node)
    if not row.arity[0] <= count <= row.arity[1]:
        raise _error(f"`{row.name}` is no function of {number_of(count, 'argument')}", node)
    return made


def _contradictions(laws: Laws) -> Iterator[str]:
    """Messages for laws that cannot hold together in a type of more than one value."""
    for k, (zero, at) in enumerate(laws.annihilators):
        if laws.identity is not None:
            unit, where = laws.identity
            if unit.value == zero.value and (at is None or where is None or at == where):
                yield f"{zero.value} is an identity and an annihilator"
        for other, place in laws.annihilators[:k]:
            if other.value != zero.value and (at != place or at is None):
                yield f"of {other.value} and {zero.value} each would be the result"
            if other.value == zero.value and at == place:
                yield f"that {zero.value} is an annihilator is there twice"
    if laws.inverse is not None and laws.identity is None:
        yield "an inverse needs an identity"
    if laws.inverse is not None and "right_idempotent" in laws.properties:
        yield "what is right_idempotent has no inverse"


# --------------------------------------------------------------------------------- cases and regions


def patterns(known: Operation, call: Call) -> tuple[str, ...]:
    """The names in the pattern of a case, each once, in order of first use. Raises FinchError "type" for
    another number of arguments, an argument that is no number or name, or if all are different names."""
    if len(call.args) != len(known.parameters):
        count = len(known.parameters)
        raise _error(f"`{known.name}` takes {number_of(count, 'argument')}", call)
    for pattern in call.args:
        if not isinstance(pattern, (Literal, Variable)):
            raise _error("an argument of a case is a number or a name", pattern)
    names = dict.fromkeys(p.name for p in call.args if isinstance(p, Variable))
    if len(names) == len(call.args):
        hint = f"write a number in the place of an argument, as in `@case {known.name}(x, 0) = x`"
        raise _error("a case is about an argument that is known", call, hint)
    return tuple(names)


def with_case(known: Operation, call: Call, body: FinchFunction) -> Operation:
    """The function with a case, which replaces one of the same pattern."""
    case = Case(call.args, operation(body))  # type: ignore[arg-type]
    others = tuple(c for c in known.laws.cases if c.patterns != case.patterns)
    return replace(known, laws=replace(known.laws, cases=(*others, case)))


def with_region(known: Operation, call: Call, region: Node) -> Operation:
    """The function with the region in which a result may differ from the result for the fills. Raises
    FinchError "type" for what is no region of the arguments."""
    names = [a.name if isinstance(a, Variable) else "" for a in call.args]
    if len(names) != len(known.parameters) or "" in names or len(set(names)) < len(names):
        raise _error(f"`@iterate` names each argument of `{known.name}` once", call)
    for node in trees.walk(region):
        match node:
            case Variable(name) if name in names or name in SETS:
                pass
            case Call(Variable(name)) if name in SETS:
                pass
            case Variable(name):
                hint = f"the arguments are {', '.join(names)}"
                raise _error(f"`{name}` names no argument", node, hint)
            case _:
                hint = "as in `@iterate f(x, y) = x | y`"
                raise _error("a region is made of arguments by `|`, `&` and `~`", node, hint)
    return replace(known, laws=replace(known.laws, region=(tuple(map(Variable, names)), region)))
