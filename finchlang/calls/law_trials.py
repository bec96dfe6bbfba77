"""Trials of declared laws: a kernel compares the two sides of a law for many operands, and a wrong law is
reported with a counterexample.

Operands of type Bool and 8-bit integers take all values; those of other types some small numbers, so that
no sum or product overflows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, reduce
from itertools import accumulate, product
from operator import mul
from typing import Any

import numpy as np

from finchlang.algebra import sparsity_pattern
from finchlang.algebra.expression_types import type_of
from finchlang.base.errors import FinchError
from finchlang.base.records import record
from finchlang.calls.call import one_call_at_a_time
from finchlang.calls.environment import OUTERMOST, Environment
from finchlang.calls.kernel import CallSite, KernelAtSite
from finchlang.host.construct import const
from finchlang.host.ir import Const
from finchlang.operators.operator import value_in
from finchlang.operators.operator_table import NOT, Operator, operator
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.types import Bool, PairType, Type, promote
from finchlang.syntax.user_function import Laws, Operation, Ranged
from finchlang.text.parse import parse_script
from finchlang.text.print import pretty

#: how many steps a loop of a function takes in a trial before it is cut off, and how many counterexamples
#: found in the kernel are passed over because they came from that
STEPS, PASSED_OVER = 1000, 8
#: how many values of each operand are tried one by one if the kernel fails
FEW = 6
#: how many combinations of values are tried; one more than 2^24, whose cube root in floats is below 256
MOST = 2**24 + 1
_NAMES = ("x", "y", "z")
_NONE = 1 << 60
_TRUE, _FALSE = ast.Literal(True), ast.Literal(False)
#: by how much results of floats may differ, relative to the greater one, taken as from 1 to LARGEST
TOLERANCE, LARGEST = 1e-4, 1e300
Types = tuple[Type, ...]
Operands = tuple[sparsity_pattern.SpaceOperand, ...]


@record
class Trial:
    """A law: two `sides` that are equal for all values of `names`, of these types, for which `where`
    holds and that lie in `range`. `what` names the law in messages; `near` are values around which it is
    likely to fail."""

    what: str
    names: Mapping[str, Type]
    sides: tuple[ast.Node, ast.Node]
    where: ast.Node = _TRUE
    near: tuple[Any, ...] = ()
    range: Ranged | None = None

    @property
    def functions(self) -> dict[str, Operation]:
        """Whether operands are meant, and the sides, as functions of the operands."""
        parts = {"is_meant": self.where, "one_side": self.sides[0], "other_side": self.sides[1]}
        return {name: Operation(name, (*self.names,), part) for name, part in parts.items()}


def check_laws(program: ast.Node, formats: sparsity_pattern.Formats) -> None:
    """Raise FinchError "type", with a counterexample, for a function in a typed program whose laws are
    wrong for the types, or whose region is wrong for the fills, that it is called with."""
    spaces = sparsity_pattern.Spaces(formats)
    for node in trees.walk(program):
        match node:
            case ast.Call(Operation() as function, args):
                operands = args
            case ast.Assign(target, Operation() as function, value):
                operands = (target, value)
            case _:
                continue
        types = tuple(t for t in map(type_of, operands) if t is not None)
        if function.laws == Laws() or len(types) < len(operands):
            continue
        # in a kernel it may have been renamed
        name = function.span.text if function.span is not None else function.name
        states = function.laws.region is not None and isinstance(node, ast.Call)
        fill = spaces.at_fills(node) if states else None
        known = tuple(map(spaces.operand, operands)) if isinstance(fill, ast.Literal) else ()
        message = _fault(replace(function, name=name, span=None), types, known, fill)
        if message is not None:
            raise FinchError("type", message, node.span, f"correct what is declared of `{name}`")


@lru_cache(maxsize=1024)
def _fault(
    function: Operation, types: Types, operands: Operands, fill: ast.Node | None
) -> str | None:
    """The message for the first wrong law of a function for operands of these types and fills, or None.
    `fill` is its value at the fills, if that is a literal."""
    if any(isinstance(type, PairType) for type in types):
        return None
    trials = [*_trials(function, types)]
    for ranged in function.laws.ranged:
        where = f" where {' && '.join(map(pretty, ranged.bounds))}"
        for trial in _trials(replace(function, laws=ranged.laws), types):
            what = trial.what + where
            trials.append(replace(trial, what=what, near=ranged.near, range=ranged))
    if isinstance(fill, ast.Literal) and not ast.is_missing(fill):
        trials.append(_outside(function, types, operands, fill))
    for trial in trials:
        found = _counterexample(trial)
        if found is not None:
            values, *results = found
            given = [f"{n} = {_shown(v)}" for n, v in zip(trial.names, values, strict=True)]
            pairs = zip(trial.sides, results, strict=True)
            calls = [(side, value) for side, value in pairs if not isinstance(side, ast.Literal)]
            plain = [(trees.rewrite_bottom_up(_untyped, side), value) for side, value in calls]
            sides = [f"{pretty(side)} is {_shown(value)}" for side, value in plain]
            where = f"with {', '.join(given)}, " if given else ""
            of = " and ".join(dict.fromkeys(map(str, types)))
            return f"`{function.name}` is not {trial.what} for {of}: {where}{', but '.join(sides)}"
    return None


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _untyped(node: ast.Node) -> ast.Node:
    return replace(node, type=None) if isinstance(node, ast.Literal) else node


# -------------------------------------------------------------------------------------------- laws


def _trials(function: Operation, types: tuple[Type, ...]) -> Iterator[Trial]:
    """The trials of a function's laws, except its region. A law that exchanges arguments is tried for
    their promoted type, the others for the types they have."""
    laws, x, y, z = function.laws, *map(ast.Variable, _NAMES)
    plain, type = replace(function, laws=Laws()), reduce(promote, types)

    def f(*args: ast.Node) -> ast.Node:
        return ast.Call(plain, args)

    def trial(what: str, count: int, *sides: ast.Node) -> Trial:
        return Trial(what, dict.fromkeys(_NAMES[:count], type), sides)  # type: ignore[arg-type]

    if "commutative" in laws.properties:
        yield trial("commutative", 2, f(x, y), f(y, x))
    if "associative" in laws.properties:
        yield trial("associative", 3, f(f(x, y), z), f(x, f(y, z)))
    if "idempotent" in laws.properties:
        yield trial("idempotent", 1, f(*(x for _ in types)), x)
    if "right_idempotent" in laws.properties:
        yield trial("right idempotent", 2, f(f(x, y), y), f(x, y))
    if "involution" in laws.properties:
        yield trial("an involution", 1, f(f(x)), x)
    identities = [] if laws.identity is None else [("identity", *laws.identity)]
    for law, literal, at in (*identities, *(("annihilator", *a) for a in laws.annihilators)):
        for k, own in enumerate(types):
            value = _in(own, literal)
            if value is None or at not in (None, k + 1):
                continue
            names = dict(zip(_many(len(types) - 1), (*types[:k], *types[k + 1 :]), strict=True))
            args = [*map(ast.Variable, names)]
            what = f"a function with the {law} {pretty(literal)} as argument {k + 1}"
            sides = f(*args[:k], value, *args[k:]), value if law == "annihilator" else x
            yield Trial(what, names, sides)
    if laws.inverse is not None and laws.identity is not None:
        unit, undone = _in(type, laws.identity[0]), f(x, ast.Call(laws.inverse, (x,)))
        if unit is not None:
            yield trial(f"undone by `{_name(laws.inverse)}`", 1, undone, unit)
    for g, at in laws.distributes:
        what, sum = f"distributive over `{_name(g)}`", ast.Call(g, (y, z))
        if at in (None, 2):
            yield trial(what, 3, f(x, sum), ast.Call(g, (f(x, y), f(x, z))))
        if at in (None, 1):
            yield trial(what, 3, f(sum, x), ast.Call(g, (f(y, x), f(z, x))))
    for case in laws.cases:
        pairs = [*zip(case.patterns, types, strict=True)]
        patterns = [_in(type, p) if isinstance(p, ast.Literal) else p for p, type in pairs]
        names = {p.name: type for p, type in pairs[::-1] if isinstance(p, ast.Variable)}
        known = [p for p in patterns if p is not None]
        if len(known) == len(patterns):
            shown = ", ".join(map(pretty, case.patterns))
            bound = dict.fromkeys(p.name for p in case.patterns if isinstance(p, ast.Variable))
            result = ast.Call(case.result, tuple(map(ast.Variable, bound)))
            yield Trial(f"what its case ({shown}) says", names, (f(*known), result))


def _outside(function: Operation, types: Types, operands: Operands, fill: ast.Literal) -> Trial:
    """The trial that a function gives the result's fill outside of its region (SparseArray'21, 5.1)."""
    assert function.laws.region is not None
    parameters, region = function.laws.region
    plain, args = replace(function, laws=Laws()), [*map(ast.Variable, _many(len(types)))]
    differing: dict[str, sparsity_pattern.Conditions] = {}
    given: list[ast.Node] = []
    for arg, type, operand in zip(args, types, operands, strict=True):
        differing[arg.name] = None
        if operand.fill is not None and not operand.is_constant:
            exact = sparsity_pattern.differs_from(replace(arg, type=type), operand.fill)
            differing[arg.name] = exact, exact
        given.append(operand.fill if operand.is_constant and operand.fill else arg)
    named: ast.Node = trees.substitute(region, dict(zip(parameters, args, strict=True)))
    inside = sparsity_pattern.condition(named, differing)
    fills = tuple(o.fill for o in operands if o.fill is not None)
    is_filled = all(o.is_filled for o in operands)
    return Trial(
        f"the result's fill outside of `{pretty(named)}`",
        {a.name: t for a, t in zip(args, types, strict=True) if a in given},
        (ast.Call(plain, tuple(given)), ast.Call(plain, fills) if is_filled else fill),
        _FALSE if inside is None else ast.Call(NOT, (inside,)),
        tuple(f.value for f in fills),
    )


def _many(count: int) -> Iterator[str]:
    yield from (_NAMES[k] if k < len(_NAMES) else f"x{k}" for k in range(count))


def _name(function: ast.Node) -> str:
    return function.name if isinstance(function, (ast.Variable, Operation)) else pretty(function)


def _in(type: Type, literal: ast.Literal) -> ast.Literal | None:
    value = value_in(literal.value, type)
    return None if value is None else ast.Literal(value, type.name)


# ------------------------------------------------------------------------------------------ trials


def samples(type: Type, near: tuple[Any, ...] = ()) -> np.ndarray:
    """The values tried for a variable of this type, simplest first; some are close to `near`."""
    if type == Bool:
        return np.array([False, True])
    if type.bits == 8:
        found = np.arange(type.lowest, type.highest + 1)
    else:
        source = np.random.default_rng(0)
        few = [0, 1, 2, 3, 5, 12] if type.kind == "uint" else [0, 1, -1, 2, -2, 3, 5, -15]
        more = source.integers(0 if type.kind == "uint" else -100, 101, size=24)
        found = np.concatenate([few, more])
        if type.is_float:
            found = np.concatenate([found, source.standard_normal(12) * 10])
        about = [n + step for n in near for step in (0, 1, -1)]
        found = np.unique([*found, *(v for v in about if value_in(v, type) is not None)])
    return found[np.lexsort((found < 0, np.abs(found)))].astype(type.dtype)


#: operands for which the sides of a law differ, and the values of the two sides
Found = tuple[list[Any], Any, Any]


def _counterexample(trial: Trial) -> Found | None:
    count, start = len(trial.names), 0
    most = int(MOST ** (1 / max(count, 1)))
    values = [samples(type, trial.near) for type in trial.names.values()]
    if trial.range is not None:
        within = trial.range.holds
        values = [each[[within(value.item()) for value in each]] for each in values]
    values = [each[:most] for each in values]
    if not all(map(len, values)):
        return None
    try:
        first = _search(trial, values)
        for _ in range(PASSED_OVER):
            code = first(start)
            if code == _NONE:
                return None
            start, found = code + 1, []
            for each in values:
                code, at = divmod(code, len(each))
                found.append(each[at].item())
            differing = _differing(trial, found)
            if differing is not None:
                return differing
    except FinchError as error:
        if error.kind in ("interrupted", "resource"):
            raise
    # the kernel failed, as for some operands there is no result: try a few operands one by one
    few = [[value.item() for value in each[:FEW]] for each in values]
    found_each = (_differing(trial, list(found)) for found in product(*few))
    return next((found for found in found_each if found is not None), None)


def _differing(trial: Trial, values: list[Any]) -> Found | None:
    given = [const(v, t) for v, t in zip(values, trial.names.values(), strict=True)]
    try:
        is_meant, one, other = (_row(f).folded(given) for f in trial.functions.values())
    except FinchError:
        return None
    if is_meant is None or not is_meant.value:
        return None
    if one is None or other is None or _is_equal(one, other):
        return None
    return values, one.value, other.value


def _row(function: ast.Node) -> Operator:
    row = operator(function)
    assert row is not None
    return row


def _is_equal(one: Const, other: Const) -> bool:
    a, b = one.value, other.value
    if a == b or (a != a and b != b):
        return True
    return one.type.is_float and abs(a - b) <= TOLERANCE * min(max(abs(a), abs(b), 1), LARGEST)


def _search(trial: Trial, values: list[np.ndarray]) -> Callable[[int], int]:
    """A kernel that gives the number of the first operands, from a number on, for which the two sides of a
    law differ, or _NONE."""
    indices = [f"i{k}" for k in range(len(values))]
    args = ", ".join(f"values{k}[{i}]" for k, i in enumerate(indices))
    steps = accumulate(map(len, values), mul, initial=1)
    code = [f"({i} - 1) * {s}" for i, s in zip(indices, steps, strict=False)]
    differ = "one != other"
    if any(type.is_float for type in trial.names.values()):
        # an infinity or NaN equals only itself, and no tolerance applies
        size = f"min(max(abs(one), abs(other), 1), {LARGEST})"
        is_near = f"abs(one - other) <= {TOLERANCE} * {size}"
        differ += f" && (one == one || other == other) && !({is_near})"
    text = f"""@finch for {", ".join(f"{i} = _" for i in ("o", *reversed(indices)))}
        let one = one_side({args}), other = other_side({args}), code = {" + ".join(code) or 0}
            if code >= start && is_meant({args}) && {differ}
                first[o] <<min>>= code
            end
        end
    end"""
    node = parse_script(text, "<laws>").statements[0]
    assert isinstance(node, ast.KernelNode)
    bound: dict[str, Any] = {"first": np.zeros(1, np.int64), "start": 0}
    bound |= {f"values{k}": each for k, each in enumerate(values)}
    bound |= {name: _row(_limited(function)) for name, function in trial.functions.items()}
    environment, site = Environment(OUTERMOST, None, bound), CallSite(node, ("all", True, False))

    def first(start: int) -> int:
        bound["first"][0], bound["start"] = _NONE, start
        with one_call_at_a_time:
            arguments, formats = site.describe(environment)
            if (kernel := site.find(formats)) is None:
                site.add(kernel := KernelAtSite(site, formats))
            kernel.run(arguments, environment, "native")
        return int(bound["first"][0])

    return first


# ------------------------------------------------------------------------- functions that come to an end


def _limited(function: ast.Node) -> ast.Node:
    """The function with its loops cut off after STEPS steps, when its value is arbitrary."""
    if not isinstance(function, Operation):
        return function
    taken = ast.Variable("steps taken")
    more = ast.Let((taken,), None, ast.call("+", taken, ast.Literal(1)))
    is_few = ast.call("<", taken, ast.Literal(STEPS))
    otherwise_break = (is_few, ast.Script(())), (_TRUE, ast.Script((ast.Break(),)))

    def change(node: Any) -> Any:
        match node:
            case ast.While(condition, body):
                both = ast.call("&&", is_few, condition)
                return replace(node, condition=both, body=ast.Script((more, body)))
            case ast.For(_, _, body):
                return replace(node, body=ast.Script((more, ast.If(otherwise_break), body)))
            case ast.Call(Operation() as inner):
                return replace(node, op=_limited(inner))
        return node

    body = trees.rewrite_bottom_up(change, function.body)
    if isinstance(body, ast.Script) and body != function.body:
        body = ast.Script((ast.Let((taken,), None, ast.Literal(0)), *body.statements))
    return replace(function, body=body)
