"""The rules for statements (Finch'25 Fig 14)."""

from __future__ import annotations

from dataclasses import replace

from finchlang.algebra.bounds import as_node, at_most, greater
from finchlang.algebra.expression_types import optional
from finchlang.base.errors import Bug, FinchError
from finchlang.host import construct as code, ir
from finchlang.host.engine import Arm, Machine, Step, Stuck, rule
from finchlang.host.interface import Host, fail_unless
from finchlang.levels.level import READ, UPDATE, Fiber
from finchlang.operators.build import LARGEST
from finchlang.operators.operator_table import operator
from finchlang.rules.base import expressions
from finchlang.rules.base.state import State, expect_declared, expect_mode
from finchlang.syntax import nodes as ast, traversal as trees, types


@rule("Block", steps=("Block",), says="That statement is done; what follows is next.")
def block(machine: Machine, term: ast.Node, state: State) -> Step | None:
    """⟨body, s⟩ → s'  ⟹  ⟨block(body, tail...), s⟩ → ⟨block(tail...), s'⟩

    Loops, sieves and lets among the statements are scopes of their own, with a d of their own. All
    are run one after the other here: of a block of thousands, what is left is not made each time."""
    if not isinstance(term, ast.Block):
        return None
    statements = term.statements
    for k, body in enumerate(statements[:-1]):
        after = machine.run(body, _within(body, state))
        is_of_scope = isinstance(body, _OF_THE_SCOPE)
        state = after if is_of_scope else replace(after, declared=state.declared)
        machine.tell("Block", lambda k=k: (_left(statements, k), _left(statements, k + 1)))  # type: ignore
    last = statements[-1]
    return last, state if isinstance(last, ast.Define) else _within(last, state)


def _left(statements: tuple[ast.Node, ...], k: int) -> ast.Node:
    return statements[k] if k == len(statements) - 1 else ast.Block(statements[k:])


#: statements that change e and d of the scope in which they stand
_OF_THE_SCOPE = (ast.Declare, ast.Freeze, ast.Thaw, ast.Block)


def _within(statement: ast.Node, state: State) -> State:
    """The state in which a statement of a block begins: a scope of its own begins with an empty d."""
    return state if isinstance(statement, _OF_THE_SCOPE) else state.inside()


@rule("Define", says="The name {name} gets its value; sizes that have to agree are compared.")
def define(machine: Machine, term: ast.Node, state: State) -> Step | None:
    """⟨val, s⟩ → val', var ∉ d  ⟹  ⟨define(var, val, body), (e, t, d)⟩ → ⟨body, (e[var ↦ val'], t, {})⟩

    The environment is a substitution: `body` gets the value in the variable's place, so that no
    step Variable is left to take. A let that is all that is left of a scope goes on with it: only
    before other statements of a block has d been emptied (Block). A variable may stand for an extent;
    then the sizes that its `meet` has compared are known to be equal."""
    if not isinstance(term, ast.Define):
        return None
    if term.variable.name in state.declared:
        raise Stuck(f"{term.variable.name} ∉ d", term, "a tensor of this scope has this name")
    if isinstance(term.value, ast.Extent) or ast.is_meet(term.value):
        return _with_extent(machine, term, state)
    if not expressions.is_ready(term.value):
        return None
    if isinstance(term.value, ast.Literal):
        return trees.substitute(term.body, {term.variable: term.value}), state
    there, value = expressions.presence(term.value, state, machine)
    is_there = ast.Value(state.host.let(there, "there"))
    found = ast.Value(state.host.let(value, term.variable.name))
    whole = found if there is code.TRUE else optional(is_there, found, term.value)
    return trees.substitute(term.body, {term.variable: whole}), state


def _with_extent(machine: Machine, term: ast.Define, state: State) -> Step:
    """Define, where the variable stands for an extent. Sizes that its `meet` has found equal become the
    same expression, in tensors and in extents that are known already."""
    state = expressions.with_sizes(term.value, state)
    start, stop, others = expressions.evaluate_extent(term.value, state, machine)
    tensors = {
        name: tensor.with_dims(tuple(stop if d in others else d for d in tensor.dims))
        for name, tensor in state.tensors.items()
        if others and isinstance(tensor, Fiber)
    }
    last, again = as_node(stop), {as_node(d) for d in others if isinstance(d, ir.Var)}

    def one(node: ast.Node) -> ast.Node:
        return last if isinstance(node, ast.Value) and node in again else node

    body = trees.rewrite_bottom_up(one, term.body) if again else term.body
    extent = ast.Extent(as_node(start), as_node(stop))
    return trees.substitute(body, {term.variable: extent}), state.with_tensors(tensors)


@rule(
    "Sieve",
    steps=("SieveTrue", "SieveFalse"),
    says="The condition {condition} is tested. Here it holds, and the statement is run."
    " | The condition {condition} does not hold here: nothing is done.",
)
def sieve(machine: Machine, term: ast.Node, state: State) -> Step | None:
    """⟨cond, s⟩ ⇒ true   ⟹  ⟨sieve(cond, body), s⟩ → ⟨body, s⟩   (SieveTrue)
    ⟨cond, s⟩ ⇒ false  ⟹  ⟨sieve(cond, body), s⟩ → s           (SieveFalse)

    `body` is a scope of its own, since e and d are static: they are the same after either."""
    if not isinstance(term, ast.Sieve) or not expressions.is_ready(term.condition):
        return None
    there, condition = expressions.presence(term.condition, state, machine)
    if condition.type.kind != "bool":
        message = f"a condition must be a Bool, not {condition.type}"
        raise FinchError("type", message, term.condition.span)
    true = Arm("SieveTrue", term, term.body, state.inside())
    holds = code.conjunction(there, condition)
    return machine.branch(holds, true, Arm("SieveFalse", term, ast.EMPTY, state))


@rule("Assign", says="{statement} is done: the result is stored.")
def assign(machine: Machine, term: ast.Node, state: State) -> Step | None:
    """e(tns) = tns', e(mode(tns)) = update, ⟨op, s⟩ → op', ⟨rhs, s⟩ → rhs'  ⟹
    ⟨assign(access(tns), op, rhs), s⟩ → ⟨⟨unwrap(tns', update, op', rhs'), t⟩⟩

    where rhs' is there: of `missing` nothing is stored."""
    if (
        not isinstance(term, ast.Assign)
        or term.target.indices
        or not expressions.is_ready(term.value)
    ):
        return None
    fiber = expressions.resolve(term.target.tensor, state)
    row = operator(term.op)
    if not isinstance(fiber, Fiber) or row is None:
        raise Bug(f"cannot assign to {term.target!r}")
    expect_mode(term.target.tensor, fiber, UPDATE, term)
    host, (there, value) = state.host, expressions.presence(term.value, state, machine)

    def store() -> None:
        new = value
        if row.keeps_old:
            old = expressions.evaluate(fiber.level.read(host, fiber), state)
            new = row.applied((old, value), host, term.span)
        write(host, fiber, new, term)

    host.branch(there, store)
    return ast.EMPTY, state


def write(host: Host, fiber: Fiber, value: ir.Expr, term: ast.Assign) -> None:
    """Store `value` in a leaf, converted to its type. Raises FinchError of kind type."""
    target = fiber.level.element_type
    if not types.can_store(value.type, target):
        message = f"a value of type {value.type} cannot be kept as {target}"
        raise FinchError("type", message, term.span, f"convert it: {target}(...)")
    fiber.level.write(host, fiber, host.let(code.cast(value, target)))


@rule("Declare", says="{tensor} is set to its start value, and may be updated from here.")
def declare(machine: Machine, term: ast.Node, state: State) -> Step | None:
    """e(mode(tns)) = read, ⟨init, s⟩ ⇒ init', ⟨dims_i, s⟩ ⇒ dims'_i,
    ⟨⟨declare(tns', init', dims'...), t⟩⟩ → t'  ⟹
    ⟨declare(tns, init, dims), s⟩ → (e[mode(tns) ↦ update], t', d ∪ {tns})

    The first premise is not in Fig 14: what is being updated has no storage to begin anew with."""
    if not isinstance(term, ast.Declare) or not all(
        expressions.is_ready(d) or ast.is_meet(d) for d in term.dims
    ):
        return None
    if not expressions.is_ready(term.init):
        return None
    fiber = _root(term.tensor, state)
    expect_mode(term.tensor, fiber, READ, term)
    host, level = state.host, fiber.level
    for dim in term.dims:
        state = expressions.with_sizes(dim, state)
    # an extent that is empty makes a dimension of size 0
    dims = tuple(
        host.let(greater(expressions.evaluate_extent(d, state, machine)[1], code.ZERO))
        for d in term.dims
    )
    _check_room(fiber, dims, term, state)
    new = replace(fiber.with_dims(dims), mode=UPDATE)
    store = new.store
    level.declare(host, store)
    level.assemble(host, store, code.ZERO, code.ZERO)
    for cell, size in zip(store.size_cells, dims, strict=True):
        host.set(cell, size)
    if is_refill(term, fiber):
        level.refill(host, store, code.ONE, _init(term, fiber, state))
    after = state.with_tensors({term.tensor.name: new})
    return ast.EMPTY, replace(after, declared=state.declared | {term.tensor.name})


#: more positions than any machine has memory for, and well below where Int64 wraps around
_MOST_POSITIONS = 2.0**48


def _check_room(fiber: Fiber, dims: tuple[ir.Expr, ...], term: ast.Declare, state: State) -> None:
    """Check that sizes are at most 2^62, as of tensors that are bound, and that those of consecutive levels
    with a position for every coordinate can be multiplied, by a product in Float64, which does not wrap
    around. (What only exceeds the memory is noticed when storage grows.)"""
    run: list[ir.Expr] = []
    rest, most = dims, code.const(LARGEST)
    message = f"no memory for a {' x '.join('{}' for _ in dims)} tensor"
    far = [] if fiber.level.is_all_dense else [d for d in dims if not at_most(d, most)]
    fits = code.conjunction(*(code.compare("le", d, most) for d in far))
    fail_unless(state.host, fits, "resource", message, dims, term.span)
    for level in fiber.level.levels():
        own, rest = rest[len(rest) - level.modes :], rest[: len(rest) - level.modes]
        level.check_sizes(state.host, own, term.span)
        if level.has_all_positions:
            run += own
            continue
        if len(run) > 1 or (run and own):
            room = code.cast(run[0], types.Float64)
            for size in run[1:]:
                room = code.op("mul", room, code.cast(size, types.Float64))
            fits = code.compare("le", room, code.const(_MOST_POSITIONS, types.Float64))
            fail_unless(state.host, fits, "resource", message, dims, term.span)
        run = []


def is_refill(term: ast.Declare, fiber: Fiber) -> bool:
    """Whether `tns .= init` gives another value than the fill, which only Dense tensors can take."""
    init, fill = term.init, fiber.level.fill
    if isinstance(init, ast.Literal):
        return not (init.value == fill.value or init.value != init.value != fill.value)
    return True


def _init(term: ast.Declare, fiber: Fiber, state: State) -> ir.Expr:
    level, value = fiber.level, expressions.present(term.init, state)
    if not level.is_all_dense:
        message = f"{term.tensor.name} has fill {level.fill.value}; it cannot be declared otherwise"
        hint = "give the format that fill, as in Element(1.0), or make every level Dense"
        if not isinstance(term.init, ast.Literal):  # data, which may equal the fill
            hint = f"write `{term.tensor.name} .= {level.fill.value}`, or make every level Dense"
            raise FinchError("type", message, term.span, hint)
        raise FinchError("type", message, term.init.span or term.span, hint)
    if not types.can_store(value.type, level.element_type):
        message = f"a value of type {value.type} cannot be kept as {level.element_type}"
        raise FinchError("type", message, term.init.span or term.span)
    return code.cast(value, level.element_type)


def _root(name: ast.Variable, state: State) -> Fiber:
    fiber = expressions.resolve(name, state)
    assert isinstance(fiber, Fiber)
    return fiber


def _changeable(name: ast.Variable, mode: str, term: ast.Node, state: State) -> Fiber:
    """The tensor that a statement takes out of `mode`: one of this scope, as the premises say."""
    fiber = _root(name, state)
    expect_mode(name, fiber, mode, term)
    expect_declared(name.name, state, term)
    return fiber


@rule("Freeze", says="{tensor} is complete, and may be read from here.")
def freeze(machine: Machine, term: ast.Node, state: State) -> Step | None:
    """e(mode(tns)) = update, tns ∈ d, e(tns) = tns'  ⟹
    ⟨freeze(tns), s⟩ → (e[mode(tns) ↦ read], ⟨⟨freeze(tns'), t⟩⟩, d)"""
    if not isinstance(term, ast.Freeze):
        return None
    fiber = _changeable(term.tensor, UPDATE, term, state)
    fiber.level.freeze(state.host, fiber.store, code.ONE)
    return ast.EMPTY, state.with_tensors({term.tensor.name: replace(fiber, mode=READ)})


@rule("Thaw", says="{tensor} may be updated again from here.")
def thaw(machine: Machine, term: ast.Node, state: State) -> Step | None:
    """e(mode(tns)) = read, tns ∈ d, e(tns) = tns'  ⟹
    ⟨thaw(tns), s⟩ → (e[mode(tns) ↦ update], ⟨⟨thaw(tns'), t⟩⟩, d)"""
    if not isinstance(term, ast.Thaw):
        return None
    fiber = _changeable(term.tensor, READ, term, state)
    fiber.level.thaw(state.host, fiber.store, code.ONE)
    return ast.EMPTY, state.with_tensors({term.tensor.name: replace(fiber, mode=UPDATE)})
