"""What the laws of an operator make of a call (Looplets'23 Fig 5, SparseArray'21 section 4): each
rewriting is licensed by a property in the operator table, and none knows an operator by its name."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, reduce
from itertools import product
from math import isfinite
from typing import Any, TypeGuard

from finchlang.algebra.expression_types import apart, is_there, optional, type_of
from finchlang.algebra.inline import inlined
from finchlang.base.errors import FinchError
from finchlang.host.construct import const
from finchlang.levels.element import typed_literal
from finchlang.levels.level import Fiber
from finchlang.operators import operator_table as table
from finchlang.operators.operator import value_in
from finchlang.syntax.nodes import MISSING, Access, Call, Literal, Node, Variable, is_missing
from finchlang.syntax.traversal import remembered, replace, rewrite_bottom_up
from finchlang.syntax.types import Pair, PairType, Type, promote

MISSING_LITERAL = Literal(MISSING)


#: a law: given the row of an operator and a call of it, what the call becomes, or None
Rewriting = Callable[[table.Operator, Call], Node | None]


def rewrite_call(node: Call) -> tuple[Rewriting, Node] | None:
    """A simpler equal of a call whose arguments are simplified, with the law that gives it, or None."""
    row = table.operator(node.op)
    if row is None or table.operator(node) is not None:  # `choose(0)` is an operator, not a value
        return None
    for law in _laws_of(row, node.args):
        if (better := law(row, node)) is not None:
            return law, better
    return None


def _laws_of(row: table.Operator, args: tuple[Node, ...]) -> tuple[Rewriting, ...]:
    """The laws that may apply to a call, in order; annihilators come before folding, since 0 * NaN is 0."""
    laws: tuple[Rewriting, ...] = ()
    if any([isinstance(a, Literal) for a in args]):
        if all([isinstance(a, Literal) and table.literal_type(a) is not None for a in args]):
            return (*OF_LITERALS, definition, folding)
        laws = OF_SOME
    if any([apart(a) is not None for a in args]):
        laws = (*laws, *OF_PAIRS)
    if len(args) > 1 and all([a == args[0] for a in args]):
        laws = (*laws, case, idempotence)
    elif any([isinstance(a, Call) for a in args]):
        laws = (*laws, case)
    else:
        return (*laws, case, inverse_of_second, definition)
    return (*laws, *OF_NESTS.get(len(args), ()), definition)


def _settled(node: Node) -> Node:
    """A call after all that can be done at its root."""
    while isinstance(node, Call) and (step := rewrite_call(node)) is not None:
        node = step[1]
    return node


def is_value(node: Node, value: Any, type: Type | None) -> bool:
    """Whether a node is a literal of this value, compared in `type`; of a pair, each part."""
    if isinstance(type, PairType) and isinstance(value, Pair):  # in which None stands for any part
        parts = node.args if table.is_pair(node) else None
        if isinstance(node, Literal) and isinstance(node.value, Pair):
            parts = tuple(map(Literal, node.value, (type.first.name, type.second.name)))
        wanted = zip(value, parts or (), (type.first, type.second), strict=False)
        return parts is not None and all(v is None or is_value(n, v, t) for v, n, t in wanted)
    if not isinstance(node, Literal):
        return False
    if node.value is MISSING or value is MISSING or type is None:
        return node.value is value
    if value is None or table.literal_type(node) is None:
        return False
    wrapped = type.wrap(value)
    return node.value == wrapped or (node.value != node.value and wrapped != wrapped)


def _is_same(one: Node, other: Node) -> bool:
    """Whether both are literals of the same value and type."""
    if not isinstance(one, Literal) or not isinstance(other, Literal):
        return False
    type = table.literal_type(one)
    return type == table.literal_type(other) and is_value(one, other.value, type)


def typed(node: Node, call: Call) -> Node:
    """`node` in the place of `call`, converted if the types differ."""
    wanted, found = type_of(call), type_of(node)
    if wanted is None or found is None or wanted == found:
        return node
    is_literal = isinstance(node, Literal)
    return in_type(node, wanted) if is_literal else Call(Variable(wanted.cut), (node,))


def in_type(node: Node, type: Type) -> Node:
    """A literal number as one of `type`; others, and what an integer type cannot hold, unchanged."""
    if not isinstance(node, Literal) or table.literal_type(node) is None:
        return node
    value: Any = node.value
    if type.kind in ("int", "uint") and value % 1 != 0:  # also of Inf and NaN
        return node
    return Literal(type.wrap(value), type.name)


# --------------------------------------------------------------------------- laws of one argument


def _operand_type(node: Call) -> Type | None:
    """The type that the arguments of a call promote to."""
    types = [type_of(a) for a in node.args]
    known = [t for t in types if t is not None]
    return reduce(promote, known) if known and len(known) == len(types) else None


def missing_argument(row: table.Operator, node: Call) -> Node | None:
    """f(missing, a) = missing. If f skips missing arguments, as coalesce: f(missing, missing) = missing."""
    is_certain = all if row.lazy_missing else any
    return MISSING_LITERAL if is_certain(map(is_missing, node.args)) else None


def selection(row: table.Operator, node: Call) -> Node | None:
    """ifelse(true, a, b) = a, ifelse(c, 1, 1) = 1, ifelse(c, missing, b) = ifelse(!c, b, missing)."""
    if not row.selects:
        return None
    condition, one, other = node.args
    if is_missing(condition):
        return MISSING_LITERAL
    if isinstance(condition, Literal):
        return typed(one if condition.value else other, node)
    if is_missing(one):
        return other if is_missing(other) else optional(Call(table.NOT, (condition,)), other, node)
    return typed(one, node) if _is_same(one, other) and is_there(condition) else None


def presence(row: table.Operator, node: Call) -> Node | None:
    """f(ifelse(c, a, missing), b) = ifelse(c, f(a, b), missing), and if the first that is there counts
    ifelse(c, a, f(b)); ifelse(d, ifelse(c, a, missing), b) = ifelse(!d || c, ifelse(d, a, b), missing)."""
    k, (there, value) = next((k, p) for k, a in enumerate(node.args) if (p := apart(a)))
    of_value = Call(node.op, (*node.args[:k], value, *node.args[k + 1 :]), span=node.span)
    if k and row.selects:
        condition, *_, other = node.args
        if k == 1 and is_missing(other):
            return optional(Call(table.AND, (condition, there)), value, node)
        needed = Call(table.NOT, (condition,)) if k == 1 else condition
        return optional(Call(table.OR, (needed, there)), of_value, node)
    if row.selects or not row.lazy_missing:
        return optional(there, of_value, node)
    if k or not is_there(there) or not is_there(value):
        return None
    rest = node.args[1:]
    other = rest[0] if len(rest) == 1 else Call(node.op, rest)
    return Call(table.SELECT, (there, value, other), span=node.span) if rest else node.args[0]


@lru_cache(None)
def identity_of(op: Any, type: Type) -> Literal:
    """The identity of an operator, by its node or name, with which a reduction starts. Raises TypeError if
    it has none."""
    row = table.operator(Variable(op) if isinstance(op, str) else op)
    start = None if row is None or row.identity is None else row.identity.value(type)
    if isinstance(start, Pair):
        start = Pair(start.first, 0)
    if start is None:
        name = getattr(op, "name", op)
        raise TypeError(f"`{name}` cannot reduce arrays: it has no identity")
    return typed_literal(type.wrap(start), type)


def annihilator(row: table.Operator, node: Call) -> Node | None:
    """f(z, a) = z. If two arguments decide differently, as in Inf - Inf, none does. While another argument
    may still decide by structure, none does yet."""
    if not row.annihilators or len(node.args) < 2:
        return None
    type, results = type_of(node), _decided(row, node, [[arg] for arg in node.args])
    if type is None or not results or not is_there(node) or is_contested(node):
        return None
    return Literal(results[0], type.name)


def _decided(row: table.Operator, node: Call, args: list[list[Node]]) -> list[Any]:
    """The results that the literals among what each argument of a call may be decide alone."""
    operands, type = _operand_type(node), type_of(node)
    if operands is None or type is None:
        return []
    return [
        type.wrap((law.result or law.value)(operands))
        for k, nodes in enumerate(args, 1)
        for arg in nodes
        if isinstance(arg, Literal)
        for law in row.annihilators
        if law.is_about(k) and is_value(arg, law.value(operands), operands)
    ]


@remembered
def by_structure(node: Node) -> list[Node]:
    """The literals that an expression may be, as some of its operands are at their fills."""
    if isinstance(node, (Access, Variable)):
        is_stored = isinstance(node, Access) and not node.indices and isinstance(node.tensor, Fiber)
        return [] if is_stored else [*node.fills, *([MISSING_LITERAL] if node.may_miss else ())]
    if not isinstance(node, Call):
        return [node] if isinstance(node, Literal) else []
    found = dict[Node, None]()
    for args in product(*([*by_structure(arg), arg] for arg in node.args)):
        made = _settled(replace(node, args=args))
        found |= {made: None} if isinstance(made, Literal) else {}
    return list(found)


def is_contested(node: Call, literals: Callable[[Node], list[Node]] = by_structure) -> bool:
    """Whether arguments of a call may decide it by structure, and not alike: which do is known only where
    it is known of each of them whether it is at its fill. `literals` gives what an argument may be."""
    row = table.row_of(node)
    if len(row.annihilators) < 2 or len(node.args) < 2:
        return False
    results = _decided(row, node, [*map(literals, node.args)])
    return any(result != results[0] for result in results)


def folding(row: table.Operator, node: Call) -> Literal | None:
    """f(1, 2) becomes its value. If it has no value, it is an error where it is needed."""
    args = [const(a.value, table.literal_type(a)) for a in node.args]  # type: ignore
    try:
        result = row.folded(args)
    except FinchError as error:
        raise error.at(node.span) from None
    return None if result is None else Literal(result.value, result.type.name)


def definition(row: table.Operator, node: Call) -> Node | None:
    """f(0, a) = e for a function of the script, if its body is e then, and simpler than it is written:
    structure decides in it."""
    if row.node is None or (body := inlined(node)) is node:
        return None
    found: Node = rewrite_bottom_up(_settled, body)
    return None if found is body else found


def identity(row: table.Operator, node: Call) -> Node | None:
    """f(a, e) = a."""
    args, type = node.args, type_of(node)
    if row.identity is None or len(args) < 2:
        return None
    unit = row.identity.value(type) if type is not None else MISSING
    is_about = row.identity.is_about
    keep = [a for k, a in enumerate(args, 1) if not (is_about(k) and is_value(a, unit, type))]
    if row.lazy_missing:
        keep = [a for a in keep if not is_missing(a)] or [MISSING_LITERAL]
    if len(keep) == len(args):
        return None
    if len(keep) < 2:
        return typed((keep or args)[0], node)
    return Call(node.op, tuple(keep), span=node.span)


def override(row: table.Operator, node: Call) -> Node | None:
    """f(1, a) = 1, if the first argument counts whatever follows it, as one that is there may."""
    first = node.args[0]
    if row.lazy_missing and row.overrides:
        return first if is_there(first) else None
    if not row.overrides or not isinstance(first, Literal) or not is_there(node):
        return None
    assert row.identity is not None
    operands = _operand_type(node)
    unit = row.identity.value(operands) if operands else first.value
    return None if is_value(first, unit, operands) else typed(first, node)


def case(row: table.Operator, node: Call) -> Node | None:
    """f(1, a) = g(a), by the first case of the operator's row that matches."""
    operands = _operand_type(node) if row.cases else None
    for case in row.cases:
        bound: dict[str, Node] = {}
        for pattern, arg in zip(case.patterns, node.args, strict=True):
            if isinstance(pattern, Literal):
                known = None if operands is None else value_in(pattern.value, operands)
                if not is_value(arg, known, operands):
                    break
            elif bound.setdefault(pattern.name, arg) != arg:  # type: ignore[attr-defined]
                break
        else:
            whole = Call(case.result, tuple(bound.values()), span=node.span)
            return typed(whole, node) if is_there(node) else None
    return None


# --------------------------------------------------------------------------- laws of several calls


def idempotence(row: table.Operator, node: Call) -> Node | None:
    """f(a, a) = a."""
    return typed(node.args[0], node) if row.idempotent else None


def repetition(row: table.Operator, node: Call) -> Node | None:
    """f(f(a, b), b) = f(a, b), and the like."""
    if row.right_idempotent and row.associative and row.commutative:
        for one, other in (node.args, node.args[::-1]):
            if isinstance(other, Call) and other.op == node.op and one in other.args:
                return typed(other, node)
    return None


def involution(row: table.Operator, node: Call) -> Node | None:
    """f(f(a)) = a; n(d(a, b)) = d(b, a) for an inverse."""
    inner = node.args[0]
    assert isinstance(inner, Call)
    if row.involution and inner.op == node.op and len(inner.args) == 1:
        return typed(inner.args[0], node) if type_of(inner) == type_of(node) else None
    group = table.referred(row.group)
    if group is not None and table.referred(group.inverse) is row and is_undoing(inner, group):
        return _if_same_type(Call(inner.op, inner.args[::-1], span=node.span), node)
    return None


def is_inverse(node: Node, group: table.Operator) -> TypeGuard[Call]:
    return isinstance(node, Call) and len(node.args) == 1 and is_named(node, group.inverse)


def is_undoing(node: Node, group: table.Operator) -> TypeGuard[Call]:
    return isinstance(node, Call) and len(node.args) == 2 and is_named(node, group.undone_by)


def is_named(node: Call, reference: table.Reference | None) -> bool:
    return table.row_of(node) is table.referred(reference)


def _if_same_type(new: Node, old: Node) -> Node | None:
    return new if type_of(new) == type_of(old) else None


def inverse(group: table.Operator, node: Node) -> Call:
    assert group.inverse is not None
    return Call(table.named(group.inverse), (node,), span=node.span)


def _is_exact(undone: Node, call: Call) -> bool:
    """Whether an inverse may be taken in the type of a call around it, which rounds at its width."""
    return type_of(undone) is not None and type_of(undone) == type_of(call)


def joining(row: table.Operator, node: Call) -> Node | None:
    """g(a, n(b)) = d(a, b), g(n(a), b) = d(b, a), d(a, n(b)) = g(a, b)."""
    group = table.referred(row.group)
    if group is None or group.undone_by is None:
        return None
    a, b = node.args
    undoing = is_undoing(node, group)
    other = table.named(group.reference if undoing else group.undone_by)
    for one, undone in ((a, b),) if undoing else ((a, b), (b, a)):
        if is_inverse(undone, group) and _is_exact(undone, node):
            return _if_same_type(Call(other, (one, *undone.args), span=node.span), node)
    return None


def inverse_of_second(row: table.Operator, node: Call) -> Node | None:
    """d(e, b) = n(b)."""
    group = table.referred(row.group)
    if group is None or not is_undoing(node, group) or not isinstance(node.args[0], Literal):
        return None
    type = type_of(node)
    unit = group.identity.value(type) if type is not None and group.identity is not None else None
    if unit is None or not is_value(node.args[0], unit, type):
        return None
    return _if_same_type(inverse(group, node.args[1]), node)


def inverse_outwards(row: table.Operator, node: Call) -> Node | None:
    """f(a, n(b)) = n(f(a, b)) where f distributes over g: inverses meet further out."""
    for reference, at in row.distributes_over.items():
        group = table.referred(reference)
        if group is None or group.inverse is None:
            continue
        for k, arg in enumerate(node.args):
            if at in (None, k + 1) and is_inverse(arg, group) and _is_exact(arg, node):
                args = (*node.args[:k], *arg.args, *node.args[k + 1 :])
                inner = Call(node.op, args, span=node.span)
                if type_of(inner) == type_of(node):
                    return inverse(group, inner)
    return None


# ------------------------------------------------------------------- literals in a nest of one operator


def merging(row: table.Operator, node: Call) -> Node | None:
    """A literal joined with another one of the same nest: g(g(a, 2), 3) = g(a, 5)."""
    group, (a, b) = table.referred(row.group or row.reference), node.args
    if group is None or not (group.associative and group.commutative):
        return None
    if not isinstance(a, Literal) and not isinstance(b, Literal):
        return None
    undoing, type = is_undoing(node, group), type_of(node)
    if type is None:
        return None
    if isinstance(b, Literal):
        extra = _inverted(group, b, type) if undoing else b
        return extra and _absorbed(group, a, extra, type)
    assert isinstance(a, Literal)
    return _absorbed(group, inverse(group, b) if undoing else b, a, type)


def _absorbed(group: table.Operator, node: Node, extra: Literal, type: Type) -> Node | None:
    """g(node, extra) with `extra` joined with a literal in `node`, a nest of `group` in `type`, or None."""
    if not isinstance(node, Call):
        return None
    if is_inverse(node, group):
        less = _inverted(group, extra, type)
        inner = less and _absorbed(group, node.args[0], less, type)
        return inner and inverse(group, inner)
    undoing = is_undoing(node, group)
    if len(node.args) != 2 or not (undoing or table.operator(node.op) is group):
        return None
    for k, (arg, other) in enumerate((node.args, node.args[::-1])):
        if type_of(other) != type and not isinstance(other, Literal):
            continue
        change = _inverted(group, extra, type) if undoing and k == 1 else extra
        if change is None:
            continue
        join: Any = _combined if isinstance(arg, Literal) else _absorbed
        if (new := join(group, arg, change, type)) is not None:
            args = (new, other) if k == 0 else (other, new)
            return Call(node.op, args, span=node.span)
    return None


def _inverted(group: table.Operator, literal: Literal, type: Type) -> Literal | None:
    return _folded(table.referred(group.inverse), type, literal)


def _combined(group: table.Operator, one: Literal, other: Literal, type: Type) -> Literal | None:
    """The two literals as one, unless small numbers have a product of 0, or great ones an infinite one."""
    result = _folded(group, type, one, other)
    if result is None or result.value in (type.wrap(one.value), type.wrap(other.value)):
        return result
    is_special = any(result.value == law.value(type) for law in group.annihilators)
    return None if is_special else result


def _folded(row: table.Operator | None, type: Type, *literals: Literal) -> Literal | None:
    """What an operator computes of literals in `type`; None if it is not finite, or of another type."""
    if row is None or any(table.literal_type(x) is None for x in literals):
        return None
    result = row.folded([const(type.wrap(x.value), type) for x in literals])
    if result is None or result.type != type or (type.is_float and not isfinite(result.value)):
        return None
    return Literal(result.value, type.name)


#: the laws of calls with literals only, with some literals, with arguments that may be missing, and with
#: calls as arguments, by the number of arguments
OF_LITERALS: tuple[Rewriting, ...] = (missing_argument, selection, annihilator)
OF_SOME: tuple[Rewriting, ...] = (*OF_LITERALS, identity, override)
OF_PAIRS: tuple[Rewriting, ...] = (override, presence)
OF_NESTS: dict[int, tuple[Rewriting, ...]] = {
    1: (involution,),
    2: (repetition, joining, inverse_of_second, inverse_outwards, merging),
}
OF_CALLS = (*OF_SOME, presence, definition, folding, case, idempotence, *OF_NESTS[1], *OF_NESTS[2])
