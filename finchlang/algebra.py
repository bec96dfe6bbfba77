"""The operator table: what each operator computes, on which types, and the algebraic properties the
Simplify rule goes by (SparseArray'21 section 4, Finch'25 section 5.6).

A new operator is one more row of `OPERATORS`, or of `FAMILIES` if it has parameters (`choose(z)`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from finchlang.host.fold import cast, const, op
from finchlang.host.ir import Expr
from finchlang.operations import (
    Build,
    arithmetic,
    bitwise,
    comparison,
    conversion,
    floats,
    ifelse,
    int_or_float,
    isnan,
    logical,
    minus,
    number,
    on_floats,
    power,
    promoted,
    rounding,
    shift,
    sign,
)
from finchlang.source import FinchError
from finchlang.syntax import MISSING, Call, Literal, Node, Variable
from finchlang.types import ALIASES, TYPES, Bool, Type, type_of_value

ByType = Callable[[Type], Any]


@dataclass(frozen=True, eq=False)
class Operator:
    """A row of the table. `build(*exprs)` makes the host expression and thereby fixes the type of
    the result. Properties that depend on the type are functions of it; None: has no such property.

    Laws, for all a, b, c (Finch'25 section 5.6, Looplets'23 Fig 5):
    `associative`, `commutative`; `idempotent`: f(f(a, b), b) = f(a, b); `identity` e: f(a, e) = a,
    and f(e, a) = a unless `right_only`; `annihilator` z: f(z, a) = f(a, z) = z; `overrides`: whether
    a static left argument decides the result, f(l, a) = l; `settled(x, y)`: the result where an
    infinite static argument (the other is None) settles it whatever finite value the other has,
    else None; `repeated(a, n)`: f applied n times,
    f(...f(f(x, a), a)..., a) = f(x, repeated(a, n)), as a Node builder over (value, count);
    `inverse` g: f(a, g(a)) = e; `distributes_over` names.
    """

    name: str
    arity: tuple[int, int]
    build: Build
    associative: bool = False
    commutative: bool = False
    idempotent: bool = False
    right_only: bool = False
    identity: ByType | None = None
    annihilator: ByType | None = None
    overrides: Callable[[Any], bool] | None = None
    decided: Build | None = None
    settled: Callable[..., Any] | None = None
    repeated: str | None = None
    inverse: str | None = None
    distributes_over: tuple[str, ...] = ()
    lazy_missing: bool = False  # handles `missing` itself instead of giving missing
    keeps_old: bool = True  # as a reduction: whether the old value matters
    selects: bool = False  # the first argument decides which of the others is the result


def is_infinite(value: Any) -> bool:
    return isinstance(value, float) and value in (inf, -inf)


def _beyond(name: str) -> Callable[[Any, Any], Any]:
    """Nothing is less than -Inf nor greater than Inf."""
    low, high = (inf, -inf) if name == "lt" else (-inf, inf)
    return lambda a, b: False if a == low or b == high else None


def _constant(value: Any) -> ByType:
    return lambda type: value


def _all_ones(type: Type) -> Any:
    return type.wrap(-1) if type != Bool else True


_ROWS = (
    Operator(
        "+",
        (1, 2),
        lambda a, b=None: cast(a, number(a.type)) if b is None else arithmetic("add")(a, b),
        associative=True,
        commutative=True,
        identity=_constant(0),
        settled=lambda a, b=None: next((x for x in (a, b) if is_infinite(x)), None),
        repeated="*",
        inverse="-",
    ),
    Operator("-", (1, 2), minus, identity=_constant(0), right_only=True, repeated="*"),
    Operator(
        "*",
        (2, 2),
        arithmetic("mul", bools=True),
        associative=True,
        commutative=True,
        identity=_constant(1),
        annihilator=_constant(0),
        repeated="^",
        inverse="inv",
        distributes_over=("+", "-"),
    ),
    Operator("/", (2, 2), on_floats("fdiv"), identity=_constant(1), right_only=True),
    Operator("div", (2, 2), int_or_float("idiv", "fdiv", "trunc")),
    Operator("%", (2, 2), int_or_float("irem", "fmod")),
    Operator(
        "^",
        (2, 2),
        power,
        identity=_constant(1),
        right_only=True,
        overrides=lambda value: value == 1,
    ),
    Operator(
        "min",
        (2, 2),
        arithmetic("min", bools=True),
        associative=True,
        commutative=True,
        idempotent=True,
        identity=lambda t: t.highest,
        annihilator=lambda t: t.lowest,
    ),
    Operator(
        "max",
        (2, 2),
        arithmetic("max", bools=True),
        associative=True,
        commutative=True,
        idempotent=True,
        identity=lambda t: t.lowest,
        annihilator=lambda t: t.highest,
    ),
    *(
        Operator(
            sign,
            (2, 2),
            comparison(name),
            commutative=name in ("eq", "ne"),
            settled=_beyond(name) if name in ("lt", "gt") else None,
        )
        for sign, name in (
            *(("==", "eq"), ("!=", "ne"), ("<", "lt")),
            *(("<=", "le"), (">", "gt"), (">=", "ge")),
        )
    ),
    *(
        Operator(
            name,
            (2, 2),
            build(primitive),
            associative=True,
            commutative=True,
            idempotent=True,
            identity=unit,
            annihilator=zero,
            distributes_over=(other,),
        )
        for name, primitive, build, unit, zero, other in (
            ("&&", "and", logical, _constant(True), _constant(False), "||"),
            ("||", "or", logical, _constant(False), _constant(True), "&&"),
            ("&", "and", bitwise, _all_ones, _constant(0), "|"),
            ("|", "or", bitwise, _constant(0), _all_ones, "&"),
        )
    ),
    Operator(
        "xor", (2, 2), bitwise("xor"), associative=True, commutative=True, identity=_constant(0)
    ),
    Operator("!", (1, 1), logical("not"), inverse="!"),
    Operator("~", (1, 1), bitwise("not"), inverse="~"),
    Operator("<<", (2, 2), shift("shl"), identity=_constant(0), right_only=True),
    Operator(">>", (2, 2), shift("shr"), identity=_constant(0), right_only=True),
    Operator("ifelse", (3, 3), ifelse, lazy_missing=True, selects=True),
    Operator(
        "coalesce",
        (1, 9),
        lambda a, *rest: a,  # a value that is not statically missing is there
        associative=True,
        identity=_constant(MISSING),
        overrides=lambda value: value is not MISSING,
        lazy_missing=True,
    ),
    Operator("identity", (1, 1), lambda a: a),
    Operator("inv", (1, 1), lambda a: op("fdiv", const(1.0, floats((a,))[0].type), *floats((a,)))),
    Operator("sign", (1, 1), sign),
    Operator("isnan", (1, 1), isnan),
    Operator("abs", (1, 1), lambda a: a if a.type == Bool else op("abs", a)),
    *(Operator(n, (1, 1), rounding(n)) for n in ("floor", "ceil", "trunc", "round")),
    *(
        Operator(n, (1, 1), on_floats(n))
        for n in (
            *("sqrt", "exp", "log", "log2", "log10", "expm1", "log1p", "sin", "cos", "tan"),
            *("asin", "acos", "atan", "sinh", "cosh", "tanh"),
        )
    ),
    # what `=` and `:=` mean as reductions: the new value, whatever was there
    Operator("initwrite", (2, 2), lambda a, b: b, idempotent=True, keeps_old=False),
    Operator("overwrite", (2, 2), lambda a, b: b, idempotent=True, keeps_old=False),
    *(Operator(name, (1, 1), conversion(type)) for name, type in TYPES.items()),
)

OPERATORS: dict[str, Operator] = {row.name: row for row in _ROWS}
#: the other spellings
OPERATORS |= {"and": OPERATORS["&&"], "or": OPERATORS["||"]}
OPERATORS |= {alias: OPERATORS[type.name] for alias, type in ALIASES.items()}


def _choose(z: Literal) -> Operator:
    """`choose(z)(a, b)` is a if a is not z, else b (Finch'25 section 7.3)."""

    def build(a: Expr, b: Expr) -> Expr:
        exprs, type = promoted((a, b))
        return op("select", op("ne", exprs[0], const(z.value, type)), *exprs)

    return Operator(
        f"choose({z.value})",
        (2, 2),
        build,
        associative=True,
        idempotent=True,
        identity=_constant(z.value),
        overrides=lambda value: value != z.value,
        decided=lambda a: op("ne", a, const(z.value, a.type)),
    )


def _initwrite(z: Literal) -> Operator:
    """`initwrite(z)(a, b)` is b: what `=` means where a is known to be z still, so that writing z
    is no write at all."""
    return Operator(
        f"initwrite({z.value})",
        (2, 2),
        lambda a, b: b,
        idempotent=True,
        right_only=True,
        identity=_constant(z.value),
        keeps_old=False,
    )


#: operators with parameters, given as literals
FAMILIES: dict[str, Callable[..., Operator]] = {"choose": _choose, "initwrite": _initwrite}
_members: dict[Node, Operator] = {}


def operator(node: Node) -> Operator | None:
    """The operator a Variable or a Call with literal arguments (`choose(0)`) names, or None."""
    if isinstance(node, Variable):
        return OPERATORS.get(node.name)
    if isinstance(node, Call) and isinstance(node.op, Variable) and node.op.name in FAMILIES:
        if node not in _members:
            if len(node.args) != 1 or not isinstance(node.args[0], Literal):
                raise FinchError("type", f"{node.op.name} takes one literal", node.span)
            _members[node] = FAMILIES[node.op.name](*node.args)
        return _members[node]
    return None


def literal_type(literal: Literal) -> Type | None:
    """The element type of a literal; None for `missing` and `nothing`."""
    return TYPES[literal.type] if literal.type else type_of_value(literal.value)
