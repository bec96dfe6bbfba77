"""The rules for expressions (Finch'25 Fig 14: Literal, Value, Variable, Index, Call, Access)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from finchlang.algebra.bounds import as_node
from finchlang.algebra.expression_types import apart
from finchlang.algebra.program_context import evaluated
from finchlang.base.errors import Bug, FinchError
from finchlang.host.construct import FALSE, TRUE, ZERO, cast, compare, conjunction, const, op
from finchlang.host.engine import Machine, Rule, Step, Stuck, rule
from finchlang.host.interface import Host, fail_unless
from finchlang.host.ir import Expr, Op
from finchlang.levels.level import READ, Fiber, TensorLike
from finchlang.levels.positions import coordinate, entry, positions
from finchlang.operators.operator import called
from finchlang.operators.operator_table import literal_type, operator, row_of
from finchlang.rules.base.state import State, expect_mode
from finchlang.syntax import nodes as ast, traversal as trees, types
from finchlang.text.print import pretty
from finchlang.wrappers.masks import MASKS, Mask
from finchlang.wrappers.wrappers import WRAPPERS


def evaluate(
    node: ast.Node, state: State, machine: Machine | None = None, given: Expr = TRUE
) -> Expr:
    """The host expression of an expression whose accesses have been read, by the rules in EXPRESSIONS.
    `machine`, if given, is told of them; the value matters only where `given` holds. Raises FinchError of
    kind type where an operator does not take its arguments.
    """
    found = EXPRESSIONS.get(type(node))
    if found is None:
        raise Bug(f"cannot evaluate {node!r}")
    expr = found.apply(machine, node, state, given)
    if machine is not None:
        machine.tell_expression(found.name, lambda: (node, ast.Value(expr)))
    return expr


def presence(node: ast.Node, state: State, machine: Machine | None = None) -> tuple[Expr, Expr]:
    """Whether an expression has a value, and the value, which matters only where it has one."""
    if ast.is_missing(node):
        return FALSE, FALSE
    pair = apart(node)
    if pair is None:
        return TRUE, evaluate(node, state, machine)
    there = evaluate(pair[0], state, machine)
    return there, evaluate(pair[1], state, machine, there)


def present(node: ast.Node, state: State, machine: Machine | None = None) -> Expr:
    """The value of an expression that must have one: where it is `missing`, an error of kind type."""
    there, value = presence(node, state, machine)
    message = "a number is needed here, which is `missing`"
    fail_unless(state.host, there, "type", message, (), node.span)
    return ZERO if there is FALSE else value


def by_cases(node: ast.Node, term: ast.Node, state: State, machine: Machine) -> Step:
    """A term with an expression that may be missing as a coordinate or extent, in two cases:
    block(sieve(c, term[v]), sieve(!c, term[missing]))."""
    there, value = presence(node, state, machine)
    there, value = state.host.let(there, "there"), state.host.let(value, "value")

    def case(condition: Expr, known: ast.Node) -> ast.Sieve:
        body = trees.replace_equal(term, node, known)
        return ast.Sieve(as_node(condition), body, span=term.span)

    arms = case(there, ast.Value(value)), case(op("not", there), ast.Literal(ast.MISSING))
    return ast.Block(arms), state


@rule("Literal", says="A literal is its own value.")
def literal(machine: Machine | None, term: ast.Literal, state: State, given: Expr) -> Expr:
    """⟨literal(val), s⟩ → val"""
    type = literal_type(term)
    if type is None:
        raise FinchError("type", f"{term.value!r} is no number here", term.span)
    return const(term.value, type)


@rule("Value", says="The value is known to the host.")
def value(machine: Machine | None, term: ast.Value, state: State, given: Expr) -> Expr:
    """⟨value(ex, type), (e, t, d)⟩ ⇒ ⟨⟨ex, t⟩⟩"""
    return term.expr


@rule("Mode", says="The mode of the tensor is looked up.")
def mode(machine: Machine | None, term: ast.Mode, state: State, given: Expr) -> Expr:
    """⟨mode(tns), (e, t, d)⟩ → e(mode(tns))"""
    return const(ast.MODES.index(resolve(term.tensor, state).mode), types.UInt8)


@rule("Call", says="The arguments have values, and the operator is applied to them.")
def call(machine: Machine | None, term: ast.Call, state: State, given: Expr) -> Expr:
    """⟨args, s⟩ ⇒ vals, ⟨f, s⟩ ⇒ g  ⟹  ⟨call(f, args...), (e, t, d)⟩ → ⟨⟨g(vals...), t⟩⟩

    Of a function of tensors (size, positions, coordinate) e gives the first argument."""
    match term:
        case ast.Call(ast.Variable("size"), (ast.Variable() as tensor, ast.Literal(mode))):
            return size(resolve(tensor, state), mode)
        case ast.Call(ast.Variable("positions"), (ast.Variable() as tensor,)):
            return positions(state.host, _whole_fiber(tensor, state))
        case ast.Call(ast.Variable("coordinate"), (ast.Variable() as tensor, ast.Literal(mode), p)):
            at = evaluate(p, state, machine, given)
            return coordinate(state.host, _whole_fiber(tensor, state), mode, at)
    row = operator(term.op)
    if row is None:
        raise FinchError("unknown name", "this is no operator", term.op.span)

    def argument(arg: ast.Node, needed: Expr) -> Expr:
        return evaluate(arg, state, machine, needed)

    return called(row, term.args, argument, state.host, term.span, given)


#: the rules for expressions (Finch'25 Fig 14), by the kinds of nodes
EXPRESSIONS: dict[type, Rule] = {
    ast.Literal: literal,
    ast.Value: value,
    ast.Mode: mode,
    ast.Call: call,
}


def resolve(node: ast.Node, state: State, host: Host | None = None) -> TensorLike:
    """The tensor a name, a wrapper call or a mask call stands for (Fig 14: Variable). Its arguments are
    computed on `host`, if given."""
    if host is not None and host is not state.host:
        state = replace(state, host=host)
    match node:
        case TensorLike():
            return node
        case ast.Variable(name) if name in state.tensors:
            return state.tensors[name]
        case ast.Call(ast.Variable("entry"), (tensor, p)):
            return entry(_whole_fiber(tensor, state), evaluate(p, state))
        case ast.Call(ast.Variable(name), args) if name in MASKS:
            kind = MASKS[name]
            sizes = (None if s is None else _whole(s, state) for s in kind.shape(args))
            return Mask(kind, tuple(_whole(a, state) for a in args), tuple(sizes))
        case ast.Call(ast.Variable(name)) if name in WRAPPERS:
            parts = partial(resolve, state=state), partial(_whole, state=state)
            return WRAPPERS[name].made(node, *parts)
    raise Stuck("e(tns) = tns'", node, "this is no tensor")


def _whole(node: ast.Node, state: State) -> Expr:
    """An integer argument of a mask or wrapper, which has to be known before the first loop over it. Raises
    FinchError of kind type."""
    expr = evaluate(node, state) if is_ready(node) else None
    if expr is None or not expr.type.is_integer:
        message = (
            "the arguments of masks and wrappers are integers that are known before their loops"
        )
        raise FinchError("type", message, node.span)
    return _with_names(_as_index(expr, node, state), state.host)


def _with_names(expr: Expr, host: Host) -> Expr:
    """`expr` with its operands bound to names, except that sums and products stay expressions: what is
    added to them later can then be simplified with them."""
    if isinstance(expr, Op) and expr.name in ("add", "sub", "mul"):
        return op(expr.name, *(_with_names(arg, host) for arg in expr.args))
    return host.let(expr, "n")


def _whole_fiber(tensor: ast.Node, state: State) -> Fiber:
    found = resolve(tensor, state)
    assert isinstance(found, Fiber)
    return found


def size(tensor: TensorLike, mode: int) -> Expr:
    """The size of a mode; modes count from 1."""
    found = tensor.sizes()[mode - 1]
    if found is None:
        raise Bug("this mode has no size")
    return found


def evaluate_extent(
    node: ast.Node, state: State, machine: Machine | None = None
) -> tuple[Expr, Expr, tuple[Expr, ...]]:
    """First and last value of an extent, and the other last values that a `meet` has checked to be equal.

    Raises FinchError of kind dimension (at run time unless it is certain), naming both extents.
    """
    match node:
        case ast.Extent(first, last):
            start = _bound(first, state, machine)
            # one expression for ends that are written alike: rules know a point by `start is stop`
            return start, start if first == last else _bound(last, state, machine), ()
        case ast.Call(_, parts) if ast.is_meet(node):
            (start, stop, _), *others = [evaluate_extent(p, state, machine) for p in parts]
            for part, (a, b, _) in zip(parts[1:], others, strict=True):
                same = conjunction(compare("eq", a, start), compare("eq", b, stop))
                message = f"{_origin(parts[0])} is {{}}:{{}}, but {_origin(part)} is {{}}:{{}}"
                given: tuple[Expr, ...] = start, stop, a, b
                if (found := _of_sizes(parts[0], part)) is not None:
                    message, sizes = found
                    given = tuple(evaluate(size, state) for size in sizes)
                span = part.span or node.span
                fail_unless(state.host, same, "dimension", message, given, span)
            return start, stop, tuple([b for _, b, _ in others])
    raise FinchError("type", "a loop runs over an extent like 1:n", node.span)


def with_sizes(node: ast.Node, state: State) -> State:
    """The state after checking that sums and products of sizes in an extent are sizes themselves, and do
    not wrap around. Those in `state.sizes` have been checked before: checked in each extent, the sizes of k
    concatenated vectors took k^2 checks."""
    known, host = set(state.sizes), state.host
    for extent in trees.find_all(node, ast.Extent):
        parts = (n for end in (extent.start, extent.stop) for n in trees.walk(end))
        for call in [n for n in parts if isinstance(n, ast.Call)][::-1]:  # inner calls first
            row = row_of(call)
            sizing = row.sizing
            if sizing is None or len(call.args) < 2:
                continue
            are_sizes = (any(n == SIZE for n in trees.walk(arg)) for arg in call.args)
            if sizing.of_sizes and not all(are_sizes):
                continue
            sizes = [evaluate(arg, state) for arg in call.args]
            if not all(s.type.is_integer for s in sizes):
                continue
            before, *others = [cast(s, types.Int64) for s in sizes]
            for size in others:
                whole = row.build(before, size)
                if whole not in known:
                    fits, given = sizing.fits(before, size), (before, size)
                    values = given if "{}" in sizing.message else ()
                    fail_unless(host, fits, "dimension", sizing.message, values, extent.span)
                known.add(whole)
                before = whole
    return state if len(known) == len(state.sizes) else state.with_sizes(known)


def _bound(node: ast.Node, state: State, machine: Machine | None) -> Expr:
    expr = state.host.let(present(node, state, machine), "n")
    return state.host.let(_as_index(expr, node, state), "n")


def _as_index(expr: Expr, node: ast.Node, state: State) -> Expr:
    index = cast(expr, types.Int64)
    if expr.type is types.UInt64:  # of which half become negative
        message, fits = "{} is too large for an index", compare("le", ZERO, index)
        fail_unless(state.host, fits, "bounds", message, (expr,), node.span)
    return index


def _of_sizes(extent: ast.Node, other: ast.Node) -> tuple[str, tuple[ast.Node, ...]] | None:
    """The message where 1:n meets 1:max(n, least), or 1:(n - n % m), and the sizes in it; else None."""
    match extent, other:
        case ast.Extent(_, n), ast.Extent(_, ast.Call(_, (m, ast.Literal(least))) as end) if m == n:
            if row_of(end).is_greatest:
                return f"a size is {least} or more, not {{}}", (n,)
        case ast.Extent(_, n), ast.Extent(_, ast.Call(_, (k, ast.Call(_, (_, m)) as rest))) if (
            k == n
        ):
            if row_of(rest).right_idempotent and row_of(rest).undefined:
                return "a dimension of size {} does not split into parts of size {}", (n, m)
    return None


SIZE = ast.Variable("size")


def _origin(node: ast.Node) -> str:
    """Where an extent comes from, in the user's terms."""
    match node:
        case ast.Extent(
            ast.Literal(1), ast.Call(ast.Variable("size"), (ast.Variable(name), ast.Literal(mode)))
        ):
            return f"dimension {mode} of {name.removesuffix('_stored')}"
        case ast.Extent(_, stop):
            calls = list(trees.find_all(stop, ast.Call))
            sizes = [n for n in calls if n.op == SIZE]
            if not all(n.op == SIZE or row_of(n).translates for n in calls) or len(sizes) > 1:
                is_shown = not any(trees.find_all(node, ast.Value))
                return f"`{pretty(node)}`" if is_shown else "the extent given"
            for size in sizes:
                tensor, mode = size.args
                name = tensor.name.removesuffix("_stored")  # type: ignore[attr-defined]
                where = f"dimension {mode.value} of {name} shifted"  # type: ignore[attr-defined]
                return (
                    f"{where} (a window reads a part of it; with `~` what is outside is `missing`)"
                )
    return "the extent given"


def is_ready(node: ast.Node) -> bool:
    """Whether an expression can be evaluated: no access or index is left in it."""
    if isinstance(node, (ast.Access, ast.Index)):
        return False
    if isinstance(node, ast.Variable):
        return operator(node) is not None
    if isinstance(node, ast.Call):
        if getattr(node.op, "name", "") in ast.OF_TENSORS:
            return all(map(is_ready, node.args[1:]))
        return all(is_ready(a) for a in node.args)
    if isinstance(node, ast.Extent):
        return is_ready(node.start) and is_ready(node.stop)
    return isinstance(node, (ast.Literal, ast.Value, ast.Mode))


# --------------------------------------------------------------------------------------- rules


@rule("Access", steps=("Access",), says="{access} is read.")
def access(machine: Machine, term: ast.Node, state: State) -> Step | None:
    """e(tns) ↦ tns', e(mode(tns)) ↦ read, ⟨⟨unwrap(tns', read), t⟩⟩ → tns''  ⟹
    ⟨E[access(tns)], s⟩ → ⟨E[tns''], s⟩

    E goes to what a statement evaluates before anything else. A repeated read of the same element
    is one read. All are read at once, up to a literal, with which Simplify may need no other."""
    values: dict[ast.Node, ast.Node] = {}
    for found in (found for head in evaluated(term) for found in _readable(head)):
        if found in values:
            continue
        fiber = resolve(found.tensor, state)
        assert isinstance(fiber, Fiber)
        expect_mode(found.tensor, fiber, READ, term)
        values[found] = fiber.level.read(state.host, fiber)
        if isinstance(values[found], ast.Literal):
            break
    if not values:
        return None

    def after(count: int) -> ast.Node:
        known = dict(list(values.items())[:count])

        def read(node: ast.Node) -> ast.Node:
            return known.get(node, node) if type(node) is ast.Access else node

        return _map_heads(partial(trees.rewrite_bottom_up, read), term) if known else term

    for k in range(len(values)):
        machine.tell("Access", lambda k=k: (after(k), after(k + 1)))  # type: ignore[misc]
    return after(len(values)), state


def _map_heads(function: Any, term: Any) -> ast.Node:
    """A statement with `function` applied to what it evaluates before anything else of it."""
    match term:
        case ast.Assign(_, _, value):
            return trees.replace(term, value=function(value))
        case ast.Declare(_, init, dims):
            return trees.replace(term, init=function(init), dims=tuple(map(function, dims)))
    return trees.headed(term, function(trees.head(term)), term.body)


def _readable(node: ast.Node) -> list[ast.Access]:
    bare = [n for n in trees.walk(node) if type(n) is ast.Access and not n.indices]
    return [n for n in bare if _is_tensor(n.tensor)]


def _is_tensor(node: ast.Node) -> bool:
    """Whether a node stands for a tensor: by name, as a fiber, or as an entry at a known position."""
    if isinstance(node, ast.Call):
        return node.op == ast.Variable("entry") and is_ready(node.args[1])
    return isinstance(node, (ast.Variable, Fiber))


@rule("Variable", says="A name stands for the value that it was given.")
def variable(machine: Machine, term: ast.Node, state: State) -> Step | None:
    """⟨variable(name), (e, t, d)⟩ → e(variable(name))

    e is a substitution, and Define takes this step wherever the name stands: one that is still to
    be evaluated stands for nothing."""
    _check_known(term, ast.Variable, partial(_is_known, state=state))
    return None


@rule("Index", says="An index stands for the place that the loop is at.")
def index(machine: Machine, term: ast.Node, state: State) -> Step | None:
    """⟨index(name), (e, t, d)⟩ → e(index(name))

    As for a variable, Define takes this step, in Loop."""
    _check_known(term, ast.Index, lambda index: False)
    return None


def _check_known(term: ast.Node, kind: type[Any], is_known: Callable[[Any], bool]) -> None:
    for node in (n for head in evaluated(term) for n in trees.find_all(head, kind)):
        if not is_known(node):
            name = f"{kind.__name__.lower()}({node.name})"
            raise Stuck(f"e({name})", term, f"{node.name} stands for nothing")


def _is_known(name: ast.Variable, state: State) -> bool:
    """Whether a name is a tensor's, an operator's, a wrapper's or a mask's."""
    known = (*WRAPPERS, *MASKS, *ast.OF_TENSORS, "entry", ast.MEET)
    return name.name in state.tensors or operator(name) is not None or name.name in known
