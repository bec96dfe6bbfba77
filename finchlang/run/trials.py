"""Declared laws of functions, tried: a kernel compares the two sides of a law for many operands, and a
wrong law is told with a counterexample.

Of Bool and integers of 8 bits these are all values there are; else some small numbers, so that no sum
or product of them overflows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from itertools import product
from typing import Any

import numpy as np

from finchlang.algebra import operator
from finchlang.host.fold import const
from finchlang.host.ir import Const
from finchlang.normalize.types import type_of
from finchlang.operation import Laws, Operation
from finchlang.properties import value_in
from finchlang.run.call import one_call_at_a_time
from finchlang.run.kernel import CallSite, KernelAtSite
from finchlang.script.environment import OUTERMOST, Environment
from finchlang.source import Bug, FinchError
from finchlang.syntax import (
    Assign,
    Break,
    Call,
    For,
    If,
    KernelNode,
    Let,
    Literal,
    Node,
    Script,
    Variable,
    While,
)
from finchlang.text.parse import parse_script
from finchlang.text.print import pretty
from finchlang.types import TYPES, Bool, PairType, Type, promote
from finchlang.walk import rewrite_bottom_up, walk

#: how many steps of a loop a function takes in a trial, and how many apparent counterexamples that
#: came of this are passed over
STEPS, PASSED_OVER = 1000, 8
#: how many values are tried where the kernel fails
FEW = 6
_NAMES = ("x", "y", "z")
_NONE = 1 << 60
#: how much the results of floats may differ, of the greater one
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Trial:
    """A law as it is written: two sides that are equal for all `names`. `what` the function is said to
    be."""

    what: str
    names: tuple[str, ...]
    sides: tuple[Node, Node]


def check_laws(program: Node) -> None:
    """Raise FinchError "type", with a counterexample, for a function in a program of known types whose
    laws are wrong for the types that it is called with."""
    for node in walk(program):
        match node:
            case Call(Operation() as function, args):
                operands = args
            case Assign(target, Operation() as function, value):
                operands = (target, value)
            case _:
                continue
        types = [t for t in map(type_of, operands) if t is not None]
        if function.laws == Laws() or len(types) < len(operands):
            continue
        type = reduce(promote, types)
        # in a kernel it may have another name, which nobody wrote
        name = function.span.text if function.span is not None else function.name
        message = _fault(replace(function, name=name, span=None), type)
        if message is not None:
            hint = f"correct what is declared of `{name}`"
            raise FinchError("type", message, node.span, hint)


@lru_cache(maxsize=1024)
def _fault(function: Operation, type: Type) -> str | None:
    """What is wrong with the laws of a function for operands of a type."""
    if isinstance(type, PairType):
        return None
    for trial in _trials(function, type):
        found = _counterexample(trial, type)
        if found is not None:
            values, *results = found
            given = [f"{n} = {_shown(v)}" for n, v in zip(trial.names, values, strict=True)]
            sides = [
                f"{pretty(rewrite_bottom_up(_untyped, side))} is {_shown(result)}"
                for side, result in zip(trial.sides, results, strict=True)
                if not isinstance(side, Literal)
            ]
            where = f"with {', '.join(given)}, " if given else ""
            return (
                f"`{function.name}` is not {trial.what} for {type}: {where}{', but '.join(sides)}"
            )
    return None


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _untyped(node: Node) -> Node:
    return replace(node, type=None) if isinstance(node, Literal) else node


# -------------------------------------------------------------------------------------------- laws


def _trials(function: Operation, type: Type) -> Iterator[Trial]:
    laws, x, y, z = function.laws, *map(Variable, _NAMES)
    plain = replace(function, laws=Laws())

    def f(*args: Node) -> Node:
        return Call(plain, args)

    if "commutative" in laws.properties:
        yield Trial("commutative", ("x", "y"), (f(x, y), f(y, x)))
    if "associative" in laws.properties:
        yield Trial("associative", _NAMES, (f(f(x, y), z), f(x, f(y, z))))
    if "idempotent" in laws.properties:
        yield Trial("idempotent", ("x",), (f(*(x for _ in function.parameters)), x))
    if "right_idempotent" in laws.properties:
        yield Trial("right idempotent", ("x", "y"), (f(f(x, y), y), f(x, y)))
    if "involution" in laws.properties:
        yield Trial("an involution", ("x",), (f(f(x)), x))
    for law, given in (
        ("identity", laws.identity),
        *(("annihilator", a) for a in laws.annihilators),
    ):
        value = given and _in(type, given[0])
        if given is None or value is None:
            continue
        for k in range(len(function.parameters)):
            if given[1] not in (None, k + 1):
                continue
            names = [*_many(len(function.parameters) - 1)]
            args = [*map(Variable, names[:k]), value, *map(Variable, names[k:])]
            what = f"a function with the {law} {pretty(given[0])} as argument {k + 1}"
            yield Trial(what, tuple(names), (f(*args), value if law == "annihilator" else x))
    if laws.inverse is not None and laws.identity is not None:
        unit = _in(type, laws.identity[0])
        if unit is not None:
            what = f"undone by `{_name(laws.inverse)}`"
            yield Trial(what, ("x",), (f(x, Call(laws.inverse, (x,))), unit))
    for g, at in laws.distributes:
        what, sum = f"distributive over `{_name(g)}`", Call(g, (y, z))
        if at in (None, 2):
            yield Trial(what, _NAMES, (f(x, sum), Call(g, (f(x, y), f(x, z)))))
        if at in (None, 1):
            yield Trial(what, _NAMES, (f(sum, x), Call(g, (f(y, x), f(z, x)))))
    for case in laws.cases:
        patterns = [_in(type, p) if isinstance(p, Literal) else p for p in case.patterns]
        names = list(dict.fromkeys(p.name for p in patterns if isinstance(p, Variable)))
        known = [p for p in patterns if p is not None]
        if len(known) == len(patterns):
            shown = ", ".join(map(pretty, case.patterns))
            result = Call(case.result, tuple(map(Variable, names)))
            yield Trial(f"what its case ({shown}) says", tuple(names), (f(*known), result))


def _many(count: int) -> Iterator[str]:
    yield from (_NAMES[k] if k < len(_NAMES) else f"x{k}" for k in range(count))


def _name(function: Node) -> str:
    return function.name if isinstance(function, (Variable, Operation)) else pretty(function)


def _in(type: Type, literal: Literal) -> Literal | None:
    """A literal as one of a type; None if it is no value of that."""
    value = value_in(literal.value, type)
    return None if value is None else Literal(value, type.name)


# ------------------------------------------------------------------------------------------ trials


def samples(type: Type) -> np.ndarray:
    """The values that each variable is given."""
    if type == Bool:
        return np.array([False, True])
    if type.bits == 8:
        return np.arange(type.lowest, type.highest + 1, dtype=type.dtype)
    source = np.random.default_rng(0)
    few = [0, 1, 2, 3, 5, 12] if type.kind == "uint" else [0, 1, -1, 2, -2, 3, 5, -15]
    more = source.integers(0 if type.kind == "uint" else -100, 101, size=24)
    found = np.unique(np.concatenate([few, more]))
    if type.is_float:
        found = np.concatenate([found, source.standard_normal(12) * 10])
    found = found.astype(type.dtype)
    return found[np.argsort(np.abs(found), kind="stable")]  # the simplest counterexample first


#: operands for which the sides of a law differ, and what they are
Found = tuple[list[Any], Any, Any]


def _counterexample(trial: Trial, type: Type) -> Found | None:
    count, start = len(trial.names), 0
    values = samples(type)
    try:
        search = _Search(trial, values)
        for _ in range(PASSED_OVER):
            code = search.first(start)
            if code == _NONE:
                return None
            found = [values[code // len(values) ** k % len(values)].item() for k in range(count)]
            differing = _differing(trial, type, found)
            if differing is not None:
                return differing
            start = code + 1
    except FinchError as error:
        if error.kind in ("interrupted", "resource"):
            raise
    # for some operands it has no result: those that are left, one by one
    few = [value.item() for value in values[np.argsort(np.abs(values), kind="stable")][:FEW]]
    each = (_differing(trial, type, list(found)) for found in product(few, repeat=count))
    return next((found for found in each if found is not None), None)


def _differing(trial: Trial, type: Type, values: list[Any]) -> Found | None:
    given = {n: const(v, type) for n, v in zip(trial.names, values, strict=True)}
    try:
        one, other = (_value(side, given) for side in trial.sides)
    except FinchError:
        return None
    if one is None or other is None or _is_equal(one, other):
        return None
    return values, one.value, other.value


def _value(side: Node, given: dict[str, Const]) -> Const | None:
    """The value of a side; None if there is none, or after too many steps."""
    match side:
        case Literal(value, type):
            return const(value, TYPES[type or ""])
        case Variable(name):
            return given[name]
        case Call(op, args):
            row, values = operator(op), [_value(arg, given) for arg in args]
            known = [value for value in values if value is not None]
            return None if row is None or len(known) < len(values) else row.folded(known)
    raise Bug(f"{side!r} is no side of a law")


def _is_equal(one: Const, other: Const) -> bool:
    a, b = one.value, other.value
    if a == b or (a != a and b != b):
        return True
    return one.type.is_float and abs(a - b) <= TOLERANCE * max(abs(a), abs(b), 1)


class _Search:
    """The kernel that looks for operands for which the sides of a law differ."""

    def __init__(self, trial: Trial, values: np.ndarray):
        self.functions: dict[Node, str] = {}
        one, other = (pretty(rewrite_bottom_up(self._by_name, side)) for side in trial.sides)
        indices = [f"i{k}" for k in range(len(trial.names))]
        names = [f"{n} = values[{i}]" for n, i in zip(trial.names, indices, strict=True)]
        code = " + ".join(f"({i} - 1) * {len(values) ** k}" for k, i in enumerate(indices))
        differ = f"one != other && abs(one - other) > {TOLERANCE} * max(abs(one), abs(other), 1)"
        names = [*names, f"one = {one}", f"other = {other}", f"code = {code or 0}"]
        loops = ", ".join(f"{i} = _" for i in ("o", *reversed(indices)))
        if not np.issubdtype(values.dtype, np.floating):
            differ = "one != other"
        opened = "\n".join(f"let {name}" for name in names)
        closed = "end\n" * len(names)
        text = (
            f"@finch for {loops}\n{opened}\nif code >= start && {differ}\n"
            f"first[o] <<min>>= code\nend\n{closed}end"
        )
        node = parse_script(text, "<laws>").statements[0]
        assert isinstance(node, KernelNode)
        self.first_found = np.zeros(1, np.int64)
        rows = {name: operator(_limited(function)) for function, name in self.functions.items()}
        bound = {"values": values, "first": self.first_found, "start": 0, **rows}
        self.environment = Environment(OUTERMOST, None, bound)
        self.site = CallSite(node, "all", True)
        self.found: KernelAtSite | None = None

    def _by_name(self, node: Node) -> Node:
        if isinstance(node, Call) and isinstance(node.op, Operation):
            name = self.functions.setdefault(node.op, f"f{len(self.functions)}")
            return replace(node, op=Variable(name))
        return node

    def first(self, start: int) -> int:
        """The first operands from `start` on for which they differ, as a number; _NONE if none."""
        self.first_found[0] = _NONE
        self.environment.set("start", start)
        with one_call_at_a_time:
            arguments, formats = self.site.describe(self.environment)
            if self.found is None:
                self.found = KernelAtSite(self.site, formats)
            self.found.run(arguments, self.environment, "native")
        return int(self.first_found[0])


# ------------------------------------------------------------------------- functions that come to an end


def _limited(function: Node) -> Node:
    """A function that gives any value after many steps of its loops."""
    if not isinstance(function, Operation):
        return function
    taken = Variable("steps taken")
    more = Let((taken,), None, Call(Variable("+"), (taken, Literal(1))))
    is_few = Call(Variable("<"), (taken, Literal(STEPS)))

    def change(node: Any) -> Any:
        match node:
            case While(condition, body):
                return replace(
                    node,
                    condition=Call(Variable("&&"), (is_few, condition)),
                    body=Script((more, body)),
                )
            case For(_, _, body):
                left = If(((is_few, Script(())), (Literal(True), Script((Break(),)))))
                return replace(node, body=Script((more, left, body)))
            case Call(Operation() as inner):
                return replace(node, op=_limited(inner))
        return node

    body = rewrite_bottom_up(change, function.body)
    if isinstance(body, Script) and body != function.body:
        body = Script((Let((taken,), None, Literal(0)), *body.statements))
    return replace(function, body=body)
