"""What is known of an operator: its row in the operator table, with its laws; and how it is applied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from math import isinf
from typing import Any, ClassVar

from finchlang.base.errors import FinchError, Span, number_of
from finchlang.base.records import record
from finchlang.host.construct import FALSE, TRUE, conjunction, op
from finchlang.host.interface import Host
from finchlang.host.ir import Const, Expr, Var
from finchlang.operators.build import Build, Sizing
from finchlang.syntax.nodes import Literal, Node, Variable
from finchlang.syntax.types import Bool, PairType, Type
from finchlang.syntax.user_function import Case, Operation

ByType = Callable[[Type], Any]
#: how a law names another operator: by its name in the table, or by its node
Reference = str | Node


@record
class Law:
    """What the value of one argument alone says of a result (SparseArray'21 section 4): where the
    argument `at`, counted from 1, is `value` (whichever it is, if `at` is None), the result is
    `result`; if that is None, `value` for an annihilator and the other argument for an identity.

    Both are functions of the operands' type; a value None means that there is none in that type."""

    value: ByType
    at: int | None = None
    result: ByType | None = None

    def is_about(self, argument: int) -> bool:
        """Whether this holds for an argument, counted from 1."""
        return self.at is None or self.at == argument


def law(value: Any, at: int | None = None, result: Any = None) -> Law:
    """A law about `value`, which may be a constant or a function of the type, as `result` may."""
    given = None if result is None else _by_type(result)
    return Law(_by_type(value), at, given)


def _by_type(value: Any) -> ByType:
    return value if callable(value) else lambda type: value


@record
class Space:
    """Where a result may differ from that of the fills (SparseArray'21 section 5.1): `region` is made
    of the parameters' names by `|`, `&` and `~`, a name standing for where that argument is not its
    fill. `holds` tells for which types of operands; `is_exact`: everywhere in the region the result is
    another one, so that a Bool result tells where it is."""

    parameters: tuple[str, ...]
    region: Node
    holds: Callable[[tuple[Type, ...]], bool] = lambda types: True
    is_exact: bool = False


@record(eq=False)
class Operator:
    """A row of the table. `build(*exprs)` makes the host expression and fixes the type of the result.

    Laws, for all a, b, c (Finch'25 section 5.6, Looplets'23 Fig 5), each of which rules read:

    - `associative`, `commutative`;
    - `idempotent`: f(a, ..., a) = a; `right_idempotent`, which is not the same: f(f(a, b), b) = f(a, b);
    - `involution`: f(f(a)) = a;
    - `identity` e: f(a, e) = a and f(e, a) = a, or one of them; `annihilators`: see Law;
    - `overrides`: f(a, b) = a for every a but the identity;
    - `repeated`, of integers: the operator with f(...f(f(x, a), a)..., a) = f(x, repeated(a, n)) for n
      steps; `stepped`, of floats: the operator h with f(...f(f(x, a), a)..., a) = h(x, a, n);
    - `translates`: f(x, a) - x does not depend on x; `is_greatest`: f(a, b) is the greater one;
    - `is_modular`: the low bits of the result depend on those of the arguments alone;
    - `converse`: f(a, b) = converse(b, a);
    - `mask`: of integers, f(a, b) is what this mask has at (a, b), or the contrary, if it is `negated`;
    - `distributes_over`: the operators g with f(a, g(b, c)) = g(f(a, b), f(a, c)), and the one argument
      that this holds for (None: each);
    - `homomorphic`: for which types, rounding apart, f(g(a, b)) = g(f(a), f(b)) for all arithmetic g.

    A `group` is an associative and commutative operator g that can be undone: it names its `inverse`
    n, g(a, n(a)) = e, and by which operator d it is `undone_by`, d(a, b) = g(a, n(b)). All three name
    g as their group.
    """

    name: str
    build: Build
    arity: tuple[int, int] = (2, 2)  # the least and the most arguments
    associative: bool = False
    commutative: bool = False
    idempotent: bool = False
    right_idempotent: bool = False
    involution: bool = False
    identity: Law | None = None
    annihilators: tuple[Law, ...] = ()
    overrides: bool = False
    repeated: Reference | None = None
    stepped: str | None = None
    translates: bool = False
    is_greatest: bool = False
    is_modular: bool = False
    converse: Reference | None = None
    mask: tuple[str, bool] | None = None  # its name, negated
    sizing: Sizing | None = None  # when a result for two sizes is a size
    distributes_over: Mapping[Reference, int | None] = field(default_factory=dict)
    homomorphic: Callable[[Type], bool] | None = None
    group: Reference | None = None
    inverse: Reference | None = None
    undone_by: Reference | None = None
    lazy_missing: bool = False  # handles `missing` itself instead of giving missing
    keeps_old: bool = True  # as a reduction: whether the old value matters
    quick: tuple[float, ...] = ()  # last arguments with which it is quicker if they are known
    selects: bool = False  # the first argument decides which of the others is the result
    short_circuits: bool = False  # the second argument is not needed if the first annihilates
    makes_pair: bool = False  # f(a, b) is the pair of both
    first_counts: bool = False  # of pairs: f(f(a, v => i), v => j) = f(a, v => i)
    count: Expr | None = None  # of an operator `h(n)` of many steps: n
    space: Space | None = None
    undefined: Build | None = None  # the condition under which there is no result, but an error
    fault: str = "an integer is divided by 0"  # its message, with {} for the first argument
    cases: Sequence[Case] = ()  # declared special cases
    node: Operation | None = None  # the function of the script that this is

    kind: ClassVar[str] = "a function"
    is_staged: ClassVar[bool] = False  # whether it is not built but staged: see `StagedOperator`

    @property
    def reference(self) -> Reference:
        """How laws of other operators name this one."""
        return self.node or self.name

    def may_fail(self, types: Sequence[Type | None]) -> bool:
        """Whether there may be an error for arguments of these types."""
        if self.undefined is None or None in types:
            return self.undefined is not None
        return self.undefined(*(Var("probe", t) for t in types if t is not None)) is not FALSE

    def result_type(self, types: tuple[Type, ...]) -> Type:
        """The type of the result for arguments of these types. Raises FinchError "type"."""
        return _type_of_result(self.build, *types)

    def folded(self, args: Sequence[Const]) -> Const | None:
        """The result for constants; None if there is none. Raises FinchError "type"."""
        if self.undefined is not None and self.undefined(*args) is TRUE:
            return None
        result = self.build(*args)
        return result if isinstance(result, Const) else None  # else it would take too many steps

    def applied(
        self, args: Sequence[Expr], host: Host, span: Span | None, given: Expr = TRUE
    ) -> Expr:
        """The value on arguments; the host fails where there is none and `given` holds."""
        result = self.build(*args)
        if self.undefined is not None:
            undefined = conjunction(given, self.undefined(*args))
            values = tuple(args[: self.fault.count("{}")])
            host.branch(undefined, lambda: host.fail("bounds", self.fault, values, span))
        return result


def having(*laws: str) -> Any:
    """The fields of a row for laws without a value."""
    return dict.fromkeys(laws, True)


@lru_cache(maxsize=1024)
def _type_of_result(build: Build, *types: Type) -> Type:
    return build(*(Var("probe", t) for t in types)).type


def fields_of(function: Operation) -> dict[str, Any]:
    """The declared laws of a function as fields of its row."""
    laws = function.laws.known
    found: dict[str, Any] = having(*laws.properties)
    found["annihilators"] = tuple(_of_literal(*given) for given in laws.annihilators)
    if laws.identity is not None:
        found["identity"] = _of_literal(*laws.identity)
    if laws.inverse is not None:
        found |= {"group": function, "inverse": laws.inverse}
    if laws.distributes:
        named = ((g.name if isinstance(g, Variable) else g, at) for g, at in laws.distributes)
        found["distributes_over"] = dict(named)
    if laws.region is not None:
        parameters, region = laws.region
        found["space"] = Space(tuple(p.name for p in parameters), region)  # type: ignore[attr-defined]
    # cases with fewer free names are more special; of equals the first declared comes first
    found["cases"] = sorted(
        laws.cases, key=lambda case: len({p for p in case.patterns if isinstance(p, Variable)})
    )
    return {name: value for name, value in found.items() if value}


def _of_literal(literal: Literal, at: int | None) -> Law:
    return Law(lambda type: value_in(literal.value, type), at)


def value_in(value: Any, type: Type) -> Any:
    """A number as a value of a type; None if the type does not have exactly this one."""
    if isinstance(type, PairType) or (value != value or isinf(value)) and not type.is_float:
        return None
    wrapped = type.wrap(value)
    return wrapped if wrapped == value or value != value else None


# ------------------------------------------------------------------------------------ application

Evaluate = Callable[[Node, Expr], Expr]


def called(
    row: Operator,
    args: Sequence[Node],
    evaluate: Evaluate,
    host: Host,
    span: Span | None,
    given: Expr,
) -> Expr:
    """The value of a call where `given` holds; `evaluate(arg, needed)` gives that of an argument, which
    is used only where `needed` holds. Errors get the place `span`."""
    exprs: list[Expr] = []
    try:
        for arg in args:
            exprs.append(evaluate(arg, _needed(row, exprs, given)))
        return row.applied(exprs, host, span, given)
    except FinchError as error:
        raise error.at(span) from None


def _needed(row: Operator, before: list[Expr], given: Expr) -> Expr:
    """The condition under which the next argument is needed, by those before it."""
    if not before or before[0].type != Bool or not (row.selects or row.short_circuits):
        return given
    first = before[0]
    if row.selects:
        return conjunction(given, first if len(before) == 1 else op("not", first))
    zero = row.annihilators[0].value(Bool)
    return conjunction(given, op("not", first) if zero else first)


def wrong_count(
    name: str, arity: tuple[int, int], given: int, span: Span | None, hint: str | None = None
) -> FinchError:
    least, most = arity
    one = number_of(least, "argument")
    count = one if least == most else f"{least} to {most} arguments"
    return FinchError("type", f"`{name}` takes {count}, not {given}", span, hint)
