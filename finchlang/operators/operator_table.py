"""The operator table: what each operator computes, and its laws (SparseArray'21 section 4, Finch'25
section 5.6). A new operator is one more row, or one of `FAMILIES` if it has parameters (`choose(z)`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from math import inf, nan
from operator import attrgetter
from typing import Any, TypeGuard

from finchlang.base.errors import FinchError, Span
from finchlang.host.construct import const, op
from finchlang.operators import build
from finchlang.operators.operator import (
    ByType,
    Law,
    Operator,
    Reference,
    Space,
    fields_of,
    having,
    law,
)
from finchlang.syntax.nodes import MISSING, Call, Literal, Node, Value, Variable, call
from finchlang.syntax.traversal import remembered, walk
from finchlang.syntax.types import ALIASES, TYPES, Bool, Pair, Type, type_of_value
from finchlang.syntax.user_function import Operation

#: f(a, a) = a, and f(f(a, b), b) = f(a, b)
ONCE = ("idempotent", "right_idempotent")


def _of_floats(value: float) -> ByType:
    return lambda type: value if type.is_float else None


def _whole_one(type: Type) -> Any:
    """1, in types whose division has no fraction."""
    return 1 if type.is_integer else None


def _from_narrower(to: Type) -> Callable[[Type], bool]:
    return lambda type: type.is_float and type.bits <= to.bits


def _all_ones(type: Type) -> Any:
    return type.wrap(-1) if type != Bool else True


_ABOVE, _BELOW, _NAN = _of_floats(inf), _of_floats(-inf), _of_floats(nan)
_highest, _lowest = attrgetter("highest"), attrgetter("lowest")


def _at_ends(less: int, is_strict: bool) -> tuple[Law, ...]:
    """Laws of a comparison that asks whether the argument `less` (1 or 2) is less than the other: strict,
    it is false if that is the greatest value or the other the least; not strict, true if that is the
    least or the other the greatest, but not of floats, since NaN compares false. Unsigned integers are
    left out: they may be compared with signed ones, which go beyond their ends."""
    kinds = ("bool", "int", "float") if is_strict else ("bool", "int")
    low, high = "lowest", "highest"
    ends = (high, low) if is_strict else (low, high)
    return tuple(
        law(
            lambda type, end=end: getattr(type, end) if type.kind in kinds else None,
            at,
            not is_strict,
        )
        for end, at in zip(ends, (less, 3 - less), strict=True)
    )


#: 0 divided by anything, and its remainder, is 0; so is what is divided by an infinity
_OF_NOTHING = law(0, at=1)
_OVER_INFINITY = law(_ABOVE, at=2, result=0), law(_BELOW, at=2, result=0)

_EITHER, _BOTH = (call(name, Variable("x"), Variable("y")) for name in "|&")
#: (x | y) & ~(x & y), of Bools alone: only there is what differs from a fill one certain value
_ONE_ALONE = Space(
    ("x", "y"),
    call("&", _EITHER, call("~", _BOTH)),
    lambda types: set(types) == {Bool},
    is_exact=True,
)

_unary = partial(Operator, arity=(1, 1))

_ROWS = (
    Operator(
        "+",
        build.plus,
        (1, 2),
        **having("associative", "commutative", "translates", "is_modular"),
        identity=law(0),
        annihilators=(law(_ABOVE), law(_BELOW)),
        repeated="*",
        stepped="add_times",
        distributes_over={"min": None, "max": None},
        sizing=build.IN_A_ROW,
        group="+",
        inverse="-",
        undone_by="-",
    ),
    Operator(
        "-",
        build.minus,
        (1, 2),
        involution=True,
        identity=law(0, at=2),
        annihilators=(
            *(law(_ABOVE, at=1), law(_BELOW, at=1)),
            *(law(_ABOVE, at=2, result=_BELOW), law(_BELOW, at=2, result=_ABOVE)),
        ),
        repeated="*",
        stepped="sub_times",
        translates=True,
        group="+",
    ),
    Operator(
        "*",
        build.arithmetic("mul", bools=True),
        **having("associative", "commutative", "is_modular"),
        identity=law(1),
        annihilators=(law(0),),  # of NaN and Inf, too: a literal zero is structure
        repeated="^",
        stepped="mul_times",
        sizing=build.PLACES,
        distributes_over={"+": None},
        group="*",
        inverse="inv",
        undone_by="/",
    ),
    Operator(
        "/",
        build.on_floats("fdiv"),
        identity=law(1, at=2),
        annihilators=(_OF_NOTHING, *_OVER_INFINITY),
        distributes_over={"+": 1},
        stepped="div_times",
        group="*",
    ),
    *(
        Operator(
            name,
            build.rounded_quotient(way),
            identity=law(_whole_one, at=2),
            annihilators=(_OF_NOTHING, *more),
            undefined=build.divides_by_zero,
        )
        for name, way, more in (
            ("div", "trunc", _OVER_INFINITY),
            *(("fld", "floor", ()), ("cld", "ceil", ())),  # fld(-1, Inf) is -1, cld(1, Inf) is 1
        )
    ),
    *(
        Operator(
            name,
            made,
            annihilators=(
                _OF_NOTHING,
                law(_whole_one, at=2, result=0),
                law(lambda type: -1 if type.kind == "int" else None, at=2, result=0),
            ),
            right_idempotent=name == "%",  # `mod` of floats may round to the divisor itself
            undefined=build.divides_by_zero,
        )
        for name, made in (("%", build.remainder), ("mod", build.modulus))
    ),
    Operator(
        "^",
        build.power,
        quick=build.QUICK_POWERS,
        identity=law(1, at=2),
        annihilators=(law(1, at=1), law(0, at=2, result=1)),
    ),
    *(
        Operator(f"{name}_times", build.times(f"{name}_times"), (3, 3))
        for name in ("add", "mul", "div")
    ),
    Operator("sub_times", build.times("add_times", negated=True), (3, 3)),
    Operator("=>", lambda a, b: op("pair", a, b), makes_pair=True),
    _unary("first", lambda a: op("first", a)),
    _unary("last", lambda a: op("second", a)),
    *(
        Operator(
            name,
            build.by_first(worse),
            **having("first_counts", *ONCE),
            identity=law(lambda type, unit=unit: Pair(unit(type.first), None), at=2),
        )
        for name, worse, unit in (("minby", "gt", _highest), ("maxby", "lt", _lowest))
    ),
    *(
        Operator(
            spelling,
            build.comparison(name),
            commutative=name in ("eq", "ne"),
            converse=converse,
            mask=mask,
            annihilators=(*ends, law(_NAN, result=name == "ne")),
            space=_ONE_ALONE if name in ("eq", "ne") else None,
        )
        for spelling, name, converse, mask, ends in (
            ("==", "eq", "==", ("DiagMask", False), ()),
            ("!=", "ne", "!=", ("DiagMask", True), ()),
            ("<", "lt", ">", ("LoTriMask", True), _at_ends(1, True)),
            ("<=", "le", ">=", ("UpTriMask", False), _at_ends(1, False)),
            (">", "gt", "<", ("UpTriMask", True), _at_ends(2, True)),
            (">=", "ge", "<=", ("LoTriMask", False), _at_ends(2, False)),
        )
    ),
    *(
        Operator(
            name,
            made,
            **having("associative", "commutative", *ONCE),
            identity=law(unit),
            annihilators=(law(zero),),
            distributes_over={other: None},
            short_circuits=is_lazy,
            is_greatest=name == "max",
            is_modular=name in ("&", "|"),
        )
        for name, made, unit, zero, other, is_lazy in (
            ("min", build.arithmetic("min", bools=True), _highest, _lowest, "max", False),
            ("max", build.arithmetic("max", bools=True), _lowest, _highest, "min", False),
            ("&&", build.logical("and"), True, False, "||", True),
            ("||", build.logical("or"), False, True, "&&", True),
            ("&", build.bitwise("and"), _all_ones, 0, "|", False),
            ("|", build.bitwise("or"), 0, _all_ones, "&", False),
        )
    ),
    Operator(
        "xor",
        build.bitwise("xor"),
        associative=True,
        commutative=True,
        is_modular=True,
        identity=law(0),
        space=_ONE_ALONE,
    ),
    _unary("!", build.logical("not"), involution=True),
    _unary("~", build.bitwise("not"), involution=True),
    *(
        Operator(name, build.shift(how), identity=law(0, at=2), annihilators=(law(0, at=1),))
        for name, how in (("<<", "shl"), (">>", "shr"))
    ),
    Operator("ifelse", build.ifelse, (3, 3), lazy_missing=True, selects=True),
    Operator(
        "coalesce",
        lambda a, *rest: a,  # a value that is not statically missing is there
        (1, 9),
        **having("associative", "overrides", "lazy_missing"),
        identity=law(MISSING),
    ),
    _unary("identity", lambda a: a),
    _unary("inv", build.inverse, involution=True, group="*"),
    _unary("sign", build.sign),
    _unary("isnan", build.isnan),
    _unary("iszero", lambda a: build.comparison("eq")(a, const(False))),
    *(_unary(n, build.finite(c)) for n, c in (("isfinite", "lt"), ("isinf", "eq"))),
    _unary("abs", lambda a: a if a.type == Bool else op("abs", a)),
    _unary("abs2", lambda a: build.arithmetic("mul")(a, a)),
    *(_unary(n, build.parity(n == "isodd")) for n in ("iseven", "isodd")),
    Operator("clamp", lambda *args: build.clamped(*build.promoted(args)[0]), (3, 3)),
    *(_unary(n, build.rounding(n)) for n in ("floor", "ceil", "trunc", "round")),
    *(
        _unary(n, build.on_floats(n))
        for n in (
            *("sqrt", "exp", "log", "log2", "log10", "expm1", "log1p", "sin", "cos", "tan"),
            *("asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
            *("exp2", "cbrt"),
        )
    ),
    *(
        Operator(n, build.on_floats(n), commutative=n == "hypot")
        for n in ("atan2", "copysign", "hypot", "nextafter")
    ),
    Operator("ldexp", build.scaled, identity=law(0, at=2), annihilators=(law(0, at=1),)),
    # what `=` and `:=` mean as reductions: the new value, whatever was there
    *(
        Operator(n, lambda a, b: b, **having("is_modular", *ONCE), keeps_old=False)
        for n in ("initwrite", "overwrite")
    ),
    *(
        _unary(
            n,
            build.conversion(t),
            undefined=build.cannot_hold(t) if t.is_integer else None,
            homomorphic=_from_narrower(t) if t.is_float else None,
            fault=f"{n} cannot hold {{}}",
        )
        for n, t in TYPES.items()
    ),
    # what arrays convert by, as NumPy does: a value that does not fit is cut, and nothing fails
    *(_unary(t.cut, build.conversion(t)) for t in TYPES.values() if t.is_integer),
)

OPERATORS: dict[str, Operator] = {row.name: row for row in _ROWS}
#: the operator that selects one of two values
SELECT = Variable("ifelse")
#: the operators that conditions are made of
AND, OR, NOT, EQUAL, DIFFERS = map(Variable, ("&&", "||", "!", "==", "!="))
#: other spellings of operators and types
OPERATORS |= {"and": OPERATORS["&&"], "or": OPERATORS["||"], "rem": OPERATORS["%"]}
OPERATORS |= {alias: OPERATORS[type.name] for alias, type in ALIASES.items()}


def _steps(row: Operator, n: Any) -> Operator:
    """`h(n)(x, a)` is h(x, a, n), where h is the row's `stepped`: x after n >= 1 steps with a."""
    count, h = const(n.value) if isinstance(n, Literal) else n.expr, OPERATORS[row.stepped or ""]
    # a step with the identity changes nothing, nor do n of them
    unit = row.identity and replace(row.identity, at=2)
    laws: Any = {"identity": unit, "annihilators": row.annihilators, "count": count}
    return Operator(h.name, lambda x, a: h.build(x, a, count), **laws)


def _choose(z: Literal) -> Operator:
    """`choose(z)(a, b)` is a if a is not z, else b (Finch'25 section 7.3)."""
    name, laws = f"choose({z.value})", having("associative", "overrides", *ONCE)
    return Operator(name, build.chosen(z.value), identity=law(z.value), **laws)


def _initwrite(z: Literal) -> Operator:
    """`initwrite(z)(a, b)` is b: what `=` means where a is known to be z, so that writing z is no write."""
    name, laws = f"initwrite({z.value})", {**having(*ONCE), "keeps_old": False}
    return Operator(name, lambda a, b: b, identity=law(z.value, at=2), **laws)


#: operators with parameters, given as literals, or values
FAMILIES: dict[str, Callable[..., Operator]] = {"choose": _choose, "initwrite": _initwrite}
FAMILIES |= {row.stepped: partial(_steps, row) for row in _ROWS if row.stepped}


def operator(node: Node) -> Operator | None:
    """The row of the operator that a node names: a Variable, a Call with a literal (`choose(0)`), or a
    function of the script (Operation); None for other nodes. Raises FinchError "type" for `choose(x)`."""
    if isinstance(node, Variable):
        return OPERATORS.get(node.name)
    if isinstance(node, Operation):
        return _row_of(node)
    name = node.op.name if isinstance(node, Call) and isinstance(node.op, Variable) else ""
    if name in FAMILIES and (len(node.args) == 1 or name not in OPERATORS):  # type: ignore[attr-defined]
        return _member(node)
    return None


#: the row of all that is no operator: it obeys no laws
LAWLESS = Operator("", lambda *args: args[0])


def row_of(node: Any) -> Operator:
    """The row of the operator that a call or an assignment has; LAWLESS for other nodes."""
    op = getattr(node, "op", None)
    return (op is not None and operator(op)) or LAWLESS


def node_of(value: Any) -> Node | None:
    """The node of an operator, or of a type as a conversion; None for another value."""
    if isinstance(value, Operator) and value.node is not None:
        return value.node
    return Variable(value.name) if isinstance(value, (Operator, Type)) else None


@remembered
def _member(node: Any) -> Operator:
    if len(node.args) != 1 or not isinstance(node.args[0], (Literal, Value)):
        raise FinchError("type", f"{node.op.name} takes one literal", node.span)
    return FAMILIES[node.op.name](*node.args)


def is_pair(node: Node) -> TypeGuard[Call]:
    """Whether an expression is a pair of two others."""
    return row_of(node).makes_pair


def referred(reference: Reference | None) -> Operator | None:
    """The row that a law of another operator names; None if it names none."""
    if isinstance(reference, str):
        return OPERATORS.get(reference)
    return None if reference is None else operator(reference)


def named(reference: Reference | None) -> Node:
    """The node by which calls name the operator of a reference."""
    assert reference is not None
    return Variable(reference) if isinstance(reference, str) else reference


@remembered
def _row_of(node: Operation) -> Operator:
    return _row(node, _places(node))


@remembered
def _places(node: Operation) -> tuple[Span | None, ...]:
    """Where a function and those that it calls are written, each once."""
    inside = [p for part in walk(node.body) if isinstance(part, Operation) for p in _places(part)]
    return tuple(dict.fromkeys((node.body.span, *inside)))


@lru_cache(maxsize=1024)
def _row(node: Operation, places: tuple[Span | None, ...]) -> Operator:
    """Equal functions share a row only if written in the same places, which errors in them have."""
    fields, parameters = fields_of(node), tuple(map(Variable, node.parameters))
    count = len(parameters)
    fields |= {"name": node.name, "arity": (count, count), "node": node}
    match node.body:
        case Call(Variable(name), args) if args == parameters:  # an operator by another name
            return replace(OPERATORS[name], **fields)
    from finchlang.operators.staged_body import StagedOperator  # few programs need its rules

    return StagedOperator(lookup=operator, **fields)


def literal_type(literal: Literal) -> Type | None:
    """The element type of a literal; None for `missing` and `nothing`."""
    return TYPES[literal.type] if literal.type else type_of_value(literal.value)
