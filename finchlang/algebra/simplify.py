"""Simplification: algebra on terms, written against the properties in the operator table
(Finch'25 section 5.6, Looplets'23 Fig 5). No operator is known here by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from finchlang.algebra.bounds import as_node, at_most, bounds, less_than
from finchlang.algebra.expression_types import Names, is_there, level_in, type_of
from finchlang.algebra.laws import OF_CALLS, by_structure, is_value, rewrite_call, typed
from finchlang.algebra.program_context import INIT, statements_of
from finchlang.host import construct as code, ir
from finchlang.levels.level import Fiber
from finchlang.operators.operator_table import EQUAL, Operator, is_pair, named, row_of
from finchlang.syntax import nodes as ast, traversal as trees, types

#: what a law makes of a term at its root, or None
Law = Callable[..., ast.Node | None]

#: terms known to be as simple as they get, by identity
_simple = trees.memo()


def simplify(node: ast.Node) -> Any:
    """The simplest equal term; the very same object if there is nothing to do."""
    if id(node) in _simple:
        return node
    result = trees.map_children(simplify, node)
    while (better := _once(result)) is not None:
        result = trees.map_children(simplify, better[1])
    trees.remember(_simple, result, result)
    return result


def first_rewriting(node: ast.Node) -> tuple[str, ast.Node] | None:
    """The first step of `simplify`: the name of its law, and the whole term after it; else None."""
    found = None

    def visit(child: ast.Node) -> ast.Node:
        nonlocal found
        if found is not None or id(child) in _simple:
            return child
        found = first_rewriting(child)
        return child if found is None else found[1]

    whole = trees.map_children(visit, node)
    if found is not None:
        return found[0], whole
    better = _once(node)
    if better is None:
        trees.remember(_simple, node, node)
    return better and (name_of(better[0]), better[1])


def _once(node: ast.Node) -> tuple[Law, Any] | None:
    """One rewriting at the root of a term whose parts are simple, with its law, or None."""
    if type(node) is ast.Call:
        return rewrite_call(node)
    for law in LAWS.get(type(node), ()):
        if (better := law(node)) is not None:
            return law, better
    return None


def name_of(law: Law) -> str:
    """How a trace calls a law."""
    return law.__name__.replace("_", " ")


def missing_index(node: ast.Access) -> ast.Node | None:
    """access(tns, missing) = missing, access(offset(tns, missing), i) = missing."""
    return next(filter(ast.is_missing, (*node.indices, *settings(node.tensor))), None)


def settings(tensor: ast.Node) -> Iterator[ast.Node]:
    """The arguments of wrappers around a tensor, of extents the ends."""
    while isinstance(tensor, ast.Call) and tensor.args:
        tensor, *own = tensor.args
        for setting in own:
            yield from trees.children(setting) if isinstance(setting, ast.Extent) else (setting,)


def missing_update(node: ast.Assign) -> ast.Node | None:
    """assign(a, op, missing) = block(), assign(missing, op, a) = block()."""
    return ast.EMPTY if ast.is_missing(node.target) or ast.is_missing(node.value) else None


def identity_update(node: ast.Assign) -> ast.Node | None:
    """assign(a, op, e) = block()."""
    identity, type = row_of(node).identity, node.target.type
    if identity is None or not identity.is_about(2) or type is None:
        return None
    # a missing value does nothing either, so only the value where it is there counts
    return ast.EMPTY if is_value(if_there(node.value), identity.value(type), type) else None


def if_there(node: ast.Node) -> Any:
    """What an expression is if nothing in it is missing, simplified."""
    if is_there(node):
        return node
    return simplify(_there(node))


@trees.remembered
def _there(node: ast.Node) -> ast.Node:
    node = trees.map_children(_there, node)
    is_unsure = isinstance(node, (ast.Access, ast.Variable, ast.Index)) and node.may_miss
    return trees.replace(node, may_miss=False) if is_unsure else node


def empty_body(node: ast.Sieve | ast.Loop) -> ast.Node | None:
    """sieve(cond, block()) = block(), loop(i, ext, block()) = block()."""
    return ast.EMPTY if ast.is_empty(node.body) else None


def decided_sieve(node: ast.Sieve) -> ast.Node | None:
    """sieve(false, body) = block(), sieve(true, body) = body."""
    condition = if_there(node.condition)
    if not isinstance(condition, ast.Literal):
        return None
    if condition.value is not True:
        return ast.EMPTY
    is_sure = condition is node.condition and not is_scope(node.body)
    return node.body if is_sure else None


def with_fills(node: ast.Node, names: Names, bound: Mapping[str, dict[str, Any]] = {}) -> Any:
    """`node` with each `=` as `initwrite(fill)`, by which writing the fill again is no write, and with what
    is known of the names that it binds or that are `bound`: whether they may be `missing`, and what they
    may be by structure. `names` has the formats of free names."""
    if isinstance(node, (ast.Index, ast.Variable)):
        return trees.replace(node, **bound[node.name]) if node.name in bound else node
    if isinstance(node, (ast.Define, ast.Loop)):
        head, is_loop = with_fills(trees.head(node), names, bound), isinstance(node, ast.Loop)
        value = head.start if is_loop and isinstance(head, ast.Extent) else head
        known: dict[str, Any] = {"may_miss": not is_there(value)}
        known |= {} if is_loop else {"fills": by_structure(value)}
        inside = {**bound, trees.binds(node)[0]: known} if any(known.values()) else bound
        return trees.headed(node, head, with_fills(node.body, names, inside))
    node = trees.map_children(lambda child: with_fills(child, names, bound), node)
    if not isinstance(node, ast.Assign) or node.op != ast.Variable(INIT):
        return node
    level = level_in(node.target.tensor, names)
    assert level is not None
    return trees.replace(node, op=ast.Call(node.op, (level.fill,)))


def is_scope(body: ast.Node) -> bool:
    """Whether tensors change their modes directly in a body: then it must remain a scope of its own."""
    changes = (ast.Declare, ast.Freeze, ast.Thaw)
    return any([isinstance(s, changes) for s in statements_of(body)])


def nested_block(node: ast.Block) -> ast.Node | None:
    """block(a, block(b, c)) = block(a, b, c), block(a) = a."""
    if not any(isinstance(s, ast.Block) for s in node.statements) and len(node.statements) != 1:
        return None
    return trees.block(*node.statements)


def known_variable(node: ast.Define) -> ast.Node | None:
    """define(var, 1, body) = body[var ↦ 1], and for a value or an index."""
    if is_scope(node.body) or not isinstance(node.value, (ast.Literal, ast.Value, ast.Index)):
        return None
    return trees.substitute(node.body, {node.variable: node.value})


def unused_variable(node: ast.Define) -> ast.Node | None:
    """define(var, val, body) = body if body has no var; but sizes must agree, whatever is done."""
    if is_scope(node.body) or ast.is_meet(node.value) or trees.mentions(node.body, node.variable):
        return None
    return node.body


def missing_extent(node: ast.Loop) -> ast.Node | None:
    """loop(i, extent(missing, missing), body) = body[i ↦ missing]."""
    match node.extent:
        case ast.Extent(start, stop) if ast.is_missing(start) and ast.is_missing(stop):
            return trees.substitute(node.body, {node.index: start})  # `for k = x:x` binds k
    return None


def empty_extent(node: ast.Loop) -> ast.Node | None:
    """loop(i, extent(a, b), body) = block() if b < a."""
    region = bounds(node)
    return ast.EMPTY if region is not None and less_than(region[1], region[0]) else None


def repeated_body(loop: ast.Loop) -> ast.Sieve | None:
    """loop(i, extent(a, b), body) = sieve(a <= b, body') if body has no i. body' has the effect of
    b - a + 1 repetitions: it is body where one is enough, else it uses the operator of repetition,
    `*` for `+`. A statement in sieve(i == a) runs once."""
    region, body = bounds(loop), loop.body
    if region is None:
        return None
    start, stop = region
    firsts: list[ast.Node] = []
    if trees.mentions(body, loop.index):
        body = _at_first(body, loop.index, start, firsts)
        if body is loop.body or trees.mentions(body, loop.index):
            return None
    own = [n.tensor for n in trees.find_all(body, ast.Declare)]
    if any(n.tensor not in own for n in trees.find_all(body, ast.Freeze, ast.Thaw)):
        return None  # it may read what it has written

    def is_apart(update: ast.Assign) -> bool:
        return update.target.tensor in own or any(update is n for n in firsts)

    repeated = _repeat(body, ast.Value(code.add(code.sub(stop, start), code.ONE)), is_apart)
    if repeated is None:
        return None
    is_some = code.TRUE if at_most(start, stop) else code.compare("le", start, stop)
    return ast.Sieve(as_node(is_some), repeated, span=loop.span)


def counts_once(update: ast.Assign) -> bool:
    """Whether it makes no difference how often, and in which order, an update takes a value in."""
    row = row_of(update)
    return row.right_idempotent and row.associative and row.commutative


def is_first(index: ast.Index, start: ir.Expr) -> ast.Call:
    """The condition that a loop is at its first coordinate."""
    return ast.Call(EQUAL, (index, as_node(start)))


def _at_first(node: ast.Node, index: ast.Index, start: ir.Expr, firsts: list[ast.Node]) -> ast.Node:
    """A statement with the first coordinate in place of the index where only that matters: in updates
    by a pair `v => index` of which the first one counts, and by leaving out sieves on `is_first`, whose
    updates are added to `firsts`."""
    if not _has_first(node):
        return node
    if isinstance(node, ast.Sieve) and node.condition == is_first(index, start):
        firsts += list(trees.find_all(node.body, ast.Assign))
        return node.body
    if isinstance(node, trees.COMPOUND):
        return trees.map_children(lambda child: _at_first(child, index, start, firsts), node)
    pair: Any = node.value  # type: ignore[attr-defined]
    value, place = pair.args
    first = trees.substitute(place, {index: as_node(start)})
    return trees.replace(node, value=trees.replace(pair, args=(value, first)))


@trees.remembered
def _has_first(node: ast.Node) -> bool:
    """Whether there are updates by pairs of which the first one counts, or sieves on an index."""
    if isinstance(node, trees.COMPOUND):
        parts = trees.children(node.condition) if isinstance(node, ast.Sieve) else ()
        is_sieved = any(isinstance(x, ast.Index) for x in parts)
        return is_sieved or any(map(_has_first, trees.children(node)))
    return isinstance(node, ast.Assign) and is_pair(node.value) and row_of(node).first_counts


#: whether an assignment is not to be repeated: each run of the body makes its tensor anew, or it runs once
IsApart = Callable[[ast.Assign], bool]


def _repeat(node: ast.Node, times: ast.Value, is_apart: IsApart) -> ast.Node | None:
    """A statement that does what `node` does when it is run `times` times (at least once), or None."""
    if times.expr is code.ONE or _is_once(node, is_apart):
        return node
    match node:
        case ast.Assign(target, op, value):
            row, step = row_of(node), step_of(node)
            if row.right_idempotent:
                return node
            if not is_exact(node):
                return _steps(node, row, times)
            if row.repeated is None:
                return None
            product = ast.Call(named(row.repeated), (_in_type_of(step, value), as_node(times.expr)))
            return ast.Assign(target, op, typed(product, step), span=node.span)
        case ast.Loop() if not _keeps_order(node, is_apart):
            return None
        case ast.Sieve(body=body) | ast.Define(body=body) | ast.Loop(body=body):
            inner = _repeat(body, times, is_apart)
            return inner and trees.replace(node, body=inner)
        case ast.Block(statements) if _write_apart(statements, is_apart):
            parts = [_repeat(s, times, is_apart) for s in statements]
            if all(p is not None for p in parts):
                return ast.Block(tuple(p for p in parts if p is not None))
    return None


def step_of(node: ast.Assign) -> ast.Call:
    """The value that an assignment stores, as a call of its operator."""
    return ast.Call(node.op, (node.target, node.value))


def is_exact(update: ast.Assign) -> bool:
    """Whether steps may be taken in any order, or at once: integers wrap around, floats are rounded."""
    type = type_of(step_of(update))
    return type is not None and not type.is_float


def _steps(node: ast.Assign, row: Operator, times: ast.Value) -> ast.Node | None:
    """The assignment that takes so many steps of floats, if there is an operator for that."""
    if row.stepped is not None:
        return trees.replace(node, op=ast.call(row.stepped, times))
    if row.count is None:
        return None
    # floats, since the product of integers would wrap around
    counts = [code.cast(count, types.Float64) for count in (row.count, times.expr)]
    count = as_node(code.cast(code.mul(*counts), types.Int64))
    return trees.replace(node, op=ast.Call(node.op.op, (count,)))  # type: ignore[attr-defined]


def _keeps_order(loop: ast.Loop, is_apart: IsApart) -> bool:
    """Whether repeating each step of a loop by itself updates each place by the same steps in the same
    order as repeating the loop, or the order makes no difference."""
    return all(
        loop.index in n.target.indices or is_apart(n) or counts_once(n) or is_exact(n)
        for n in trees.find_all(loop.body, ast.Assign)
    )


def _in_type_of(step: ast.Call, value: ast.Node) -> ast.Node:
    """A value that steps take, in their type: integers that are added up as floats do not wrap around.
    Converted in any case if `coalesce` is in it: what stands in for a missing argument has another type."""
    wanted = type_of(step)
    if wanted is not None and any(row_of(n).overrides for n in trees.walk(value)):
        return ast.call(wanted.cut, value)
    return typed(value, step)


def _is_once(node: ast.Node, is_apart: IsApart) -> bool:
    """Whether running a statement twice does what running it once does."""
    return all(is_apart(n) or counts_once(n) for n in trees.find_all(node, ast.Assign))


def _write_apart(statements: tuple[ast.Node, ...], is_apart: IsApart) -> bool:
    """Whether statements write different tensors, so that each may be repeated by itself; one that does
    more when repeated must be a single assignment, perhaps under sieves."""
    stores: list[object] = []
    for statement in statements:
        updates = trees.find_all(statement, ast.Assign)
        tensors: list[Any] = [n.target.tensor for n in updates if not is_apart(n)]
        stores += {id(t.store.buffers) if isinstance(t, Fiber) else t for t in tensors}
        is_once = _is_once(statement, is_apart)
        while isinstance(statement, ast.Sieve):
            statement = statement.body
        if not is_once and not isinstance(statement, ast.Assign):
            return False
    # a name and a store cannot be told apart: they may be one tensor
    kinds = {isinstance(s, ast.Variable) for s in stores}
    return len(kinds) < 2 and len(set(stores)) == len(stores)


#: the laws of each kind of term, first to last
LAWS: dict[type, tuple[Law, ...]] = {
    ast.Call: OF_CALLS,
    ast.Access: (missing_index,),
    ast.Assign: (missing_update, identity_update),
    ast.Sieve: (empty_body, decided_sieve),
    ast.Block: (nested_block,),
    ast.Define: (known_variable, unused_variable),
    ast.Loop: (empty_body, missing_extent, empty_extent, repeated_body),
}
