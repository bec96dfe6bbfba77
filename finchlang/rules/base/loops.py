"""The rules for loops and for looplets of any region: Extent, Thunk, Switch, Lookup, AcceptRun, Unfurl,
Loop (Finch'25 Fig 15, Looplets'23 section 6).

In these docstrings E[x] is a loop body in which the access with looplet x stands; a looplet that
stands in several accesses is one looplet, and is lowered once for all of them.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from finchlang.algebra.bounds import as_node, at_most, bounds
from finchlang.algebra.expression_types import apart
from finchlang.algebra.simplify import is_first, name_of, repeated_body, settings, simplify
from finchlang.host import construct as code, ir
from finchlang.host.engine import Arm, Machine, Step, rule
from finchlang.host.interface import fail_unless
from finchlang.levels import looplets as lp
from finchlang.levels.level import READ, UPDATE, Fiber
from finchlang.operators.build import LARGEST
from finchlang.rules.base import context, expressions
from finchlang.rules.base.early_exit import Exit, count, first_step
from finchlang.rules.base.state import State, drop, expect_mode, if_not_empty
from finchlang.rules.derived.shared_rests import shared
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.wrappers.masks import Mask
from finchlang.wrappers.wrappers import capture


@rule("Extent", says="The loop over {index} runs over {region}.")
def extent(machine: Machine, term: ast.Node, state: State) -> Step | None:
    """⟨a, s⟩ ⇒ a', ⟨b, s⟩ ⇒ b'  ⟹  ⟨loop(i, extent(a, b), body), s⟩ → ⟨loop(i, extent(a', b'), body), s⟩

    An index that `missing` binds is left to Simplify; where data decides that, both may be."""
    if not isinstance(term, ast.Loop) or bounds(term) is not None or not _is_extent(term.extent):
        return None
    if any(map(ast.is_missing, trees.walk(term.extent))) and simplify(term) is not term:
        return None
    match term.extent:
        case ast.Extent(at, last) if at == last and apart(at):
            return expressions.by_cases(at, term, state, machine)
    state = expressions.with_sizes(term.extent, state)
    start, stop, _ = expressions.evaluate_extent(term.extent, state, machine)
    return context.with_bounds(term, start, stop), state


def _is_extent(node: Any) -> bool:
    if isinstance(node, ast.Extent):
        return expressions.is_ready(node)
    return isinstance(node, ast.Call) and all(map(_is_extent, node.args))


@context.looplet_rule(
    "Thunk",
    lp.Thunk,
    every=True,
    steps=("Thunk",),
    says="First load what {access} needs to know. Then it is {is}."
    " | First load what {access} needs to know. Then it is {is}. | {access} is left; its end is noted.",
)
def thunk(machine: Machine, E: context.Context, state: State) -> Step:
    """⟨⟨preamble, t⟩⟩ → t', ⟨E[body], (e, t', d)⟩ → (e', t'', d), ⟨⟨epilogue, t''⟩⟩ → t'''  ⟹
    ⟨E[thunk(preamble, body, epilogue)], (e, t, d)⟩ → (e', t''', d)

    Where there is no epilogue, E[body] is what is left."""
    bodies: list[ast.Node] = []
    for found in E.holes:
        body, epilogue = found.preamble(state.host)
        if epilogue is None:
            bodies.append(body)
            continue
        before = context.Context(E.term, E.holes[: len(bodies)]).each(machine, "Thunk", bodies)
        state = machine.premise("Thunk", before, context.put(before, {id(found): body}), state)
        epilogue(state.host)
        machine.tell("Thunk", lambda before=before: (before, ast.EMPTY))  # type: ignore[misc]
        return ast.EMPTY, state
    return E.each(machine, "Thunk", bodies), state


@context.looplet_rule(
    "Switch",
    lp.Switch,
    steps=("SwitchTrue", "SwitchFalse"),
    says="Where {condition} holds, {access} is {is}."
    " | Where {condition} does not hold, {access} is {is}.",
)
def switch(machine: Machine, E: context.Context, state: State) -> Step:
    """⟨⟨cond, t⟩⟩ ⇒ true   ⟹  ⟨E[access(switch(cond, head, tail), i...)], s⟩ → ⟨E[access(head, i...)], s⟩
    ⟨⟨cond, t⟩⟩ ⇒ false  ⟹  ⟨E[access(switch(cond, head, tail), i...)], s⟩ → ⟨E[access(tail, i...)], s⟩
    (SwitchTrue, SwitchFalse)"""
    found = E.hole
    true = Arm("SwitchTrue", E.term, E[found.head], state)
    false = Arm("SwitchFalse", E.term, E[found.tail], state)
    return machine.branch(found.condition, true, false)


@rule("Lookup", steps=("Lookup",), says="{access} is reached directly: its element is {is}.")
def lookup(machine: Machine, term: ast.Node, state: State) -> Step | None:
    """e(i) = i', ⟨⟨seek(i'), t⟩⟩ → t'  ⟹
    ⟨E[access(lookup(seek, body), j..., i)], (e, t, d)⟩ → ⟨E[access(body(i'), j...)], (e, t', d)⟩

    All are looked up at once, up to a literal or a looplet, to which other rules apply first."""
    E, indices = context.at_values(term, lp.Lookup)
    elements: list[ast.Node] = []
    for hole, i in zip(E.holes, indices, strict=True):
        elements.append(hole.body(state.host, expressions.evaluate(i, state, machine)))
        if isinstance(elements[-1], (ast.Literal, lp.Looplet)):
            break
    if not elements:
        return None
    E = context.Context(term, E.holes[: len(elements)])
    return E.each(machine, "Lookup", elements, consume=True), state


@context.looplet_rule(
    "Choice", lp.Choice, steps=("Choice",), says="{access} has several cases; here it is {is}."
)
def choice(machine: Machine, E: context.Context, state: State) -> Step:
    """⟨⟨c, t⟩⟩ ⇒ true   ⟹  ⟨E[access(choice((c, x), y), i...)], s⟩ → ⟨E[access(x, i...)], s⟩
    ⟨⟨c, t⟩⟩ ⇒ false  ⟹  ⟨E[access(choice((c, x), y), i...)], s⟩ → ⟨E[access(y, i...)], s⟩

    y being the other options, in turn, and what it is otherwise: a switch of several arms, which the
    derived rule Union tells apart only as far as it makes a difference."""
    (condition, first), *others = E.hole.options
    rest = trees.replace(E.hole, options=tuple(others)) if others else E.hole.otherwise
    arms = [Arm("Choice", E.term, E[x], state) for x in (first, rest)]
    return machine.branch(condition, *arms)


@rule(
    "AcceptRun",
    steps=("AcceptRun",),
    says="The value does not depend on {index}, so {access} is written once for the whole range.",
)
def accept_run(machine: Machine, term: ast.Node, state: State) -> Step | None:
    """⟨loop(i, extent(a, b), E[assign(access(run(body), j..., i), op, rhs)]), s⟩ →
    ⟨loop(i, extent(a, b), E[sieve(i == a, assign(access(body, j..., i), op, rhs))]), s⟩

    where nothing else depends on i, so that Simplify makes the loop its repeated body; this step is
    taken with it, where the region is not empty. `body` writes all of a..b. Several writers accept
    together. With an index that has a value, the run is that one coordinate."""
    host = state.host
    E, indices = context.at_values(term, lp.AcceptRun)
    if indices:
        at = expressions.evaluate(indices[0], state, machine)
        rest = context.put(term, {id(E.hole): E.hole.body(host, at, at)}, consume=True)
        machine.tell("AcceptRun", lambda: (term, rest))
        return rest, state
    if context.bounded(term) is None:
        return None
    assert isinstance(term, ast.Loop)
    here = [a.tensor for a in context.accesses_in(term.body) if context.is_at(a, term.index)]
    found: tuple[Any, ...] = tuple(dict.fromkeys(here))
    if not found or not all(isinstance(x, lp.AcceptRun) for x in found):
        return None
    start, stop = context.Context(term, ()).region
    condition = is_first(term.index, start)

    def accepted(node: ast.Node) -> ast.Node:
        is_run = isinstance(node, ast.Assign) and node.target.tensor in found
        return ast.Sieve(condition, node) if is_run else node

    body = trees.rewrite_bottom_up(accepted, context.Context(term, found).payload(*found).body)
    left = repeated_body(context.with_bounds(term, start, stop, body))
    if left is None:
        return None

    def whole() -> None:
        values = [x.body(host, start, stop) for x in found]
        first, once = (context.Context(x, found).fill(*values) for x in (body, left.body))
        loop = context.with_bounds(term, start, stop, first)
        machine.tell("AcceptRun", lambda: (term, loop))
        machine.tell("Simplify", lambda: (loop, once), law=name_of(repeated_body))
        machine.go_on(once, state.inside())

    if_not_empty(state.host, start, stop, whole)
    return ast.EMPTY, state


@rule(
    "Unfurl",
    steps=("Unfurl",),
    says="{access} is replaced by what is known of it along {index}: {is}.",
)
def unfurl(machine: Machine, term: ast.Node, state: State) -> Step | None:
    """e(tns) ↦ tns', e(mode(tns)) ↦ m, ⟨⟨unfurl(tns', ext, m), t⟩⟩ ↦ tns''  ⟹
    ⟨loop(i, ext, E[access(tns, j..., i)]), s⟩ → ⟨loop(i, ext, E[access(tns'', j..., i)]), s⟩

    The extent must lie within the tensor's dimension; what cannot be proved is checked. A scalar that
    has structure is unfurled by the first loop it does not change in. Equal rests of a nest are the
    host's to share."""
    if not isinstance(term, ast.Loop) or bounds(term) is None:
        return None
    sites = unfurlable(term)
    for setting in chain(*map(settings, sites)):
        if apart(setting) and expressions.is_ready(setting):
            return expressions.by_cases(setting, term, state, machine)
    if not sites and _unfurl_scalars(term, state) is term:
        return None

    def step(own: ast.Loop) -> Step:
        return _unfurled(machine, term, own, state), state

    if sites and shared(term, state, lambda own: machine.go_on(*step(own))):
        return ast.EMPTY, state
    return step(term)


def _unfurled(machine: Machine, term: ast.Loop, own: ast.Loop, state: State) -> ast.Node:
    """The loop `own` with the tensors that are accessed at its index made looplets: a step for each tensor,
    in all its accesses. `own` is `term`, or stands for it in shared code."""
    rest: Any = _unfurl_scalars(own, state)
    targets = [n.target for n in trees.find_all(rest, ast.Assign)]
    made = [
        (tensor, _unfurl_site(rest, site, UPDATE if site in targets else READ, state))
        for tensor, site in unfurlable(rest).items()
    ]

    def after(k: int) -> Any:
        looplets = dict(made[:k])

        def change(access: ast.Access) -> ast.Access:
            if not context.is_at(access, term.index) or access.tensor not in looplets:
                return access
            looplet, captured = looplets[access.tensor]
            return trees.replace(access, tensor=looplet, captured=captured)

        return context.rewrite_accesses(change, rest)

    if rest is not own:
        machine.tell("Unfurl", lambda: (term, rest))
    for k in range(len(made)):
        before = term if k == 0 and rest is own else None
        machine.tell("Unfurl", lambda k=k, before=before: (before or after(k), after(k + 1)))  # type: ignore[misc]
    return after(len(made))


def _unfurl_scalars(term: ast.Loop, state: State) -> Any:
    """`term` with structured scalars read, if the loop does not change them."""
    structured = {
        a.tensor: fiber
        for a in context.accesses_in(term.body)
        if isinstance(a.tensor, ast.Variable)
        if isinstance(fiber := state.tensors.get(a.tensor.name), Fiber)
        if fiber.level.is_structured and fiber.mode == READ
    }
    if not structured:
        return term
    changing = {n.tensor for n in trees.find_all(term.body, ast.Declare, ast.Thaw)}
    kept = [(tensor, fiber) for tensor, fiber in structured.items() if tensor not in changing]
    values: dict[ast.Node, ast.Node] = {t: f.level.read(state.host, f) for t, f in kept}
    return context.rewrite_accesses(lambda a: values.get(a.tensor, a), term) if values else term


def _unfurl_site(term: ast.Loop, site: ast.Access, mode: str, state: State) -> tuple[ast.Node, Any]:
    """The looplet of the tensor that is accessed at the loop's index, and the captured expressions that its
    payloads depend on."""
    region = bounds(term)
    assert region is not None
    closed, captured = capture(site.tensor, expressions.is_ready)
    tensor = expressions.resolve(closed, state)
    extent, stop = tensor.extent(), region[1]
    if extent is None or extent[0] is not code.ONE:
        _check_is_near(term, site, tensor, region, state)
    if extent is not None:
        _check_range(term, site, extent, region, state)
        if region[0] is not code.ONE or not at_most(extent[1], stop):
            stop = extent[1]
    # also a premise of Assign and Access, but here the tensor still has its name
    expect_mode(site.tensor, tensor, mode, term)
    is_followed = region[0] is region[1] and mode == READ and tensor.is_split
    protocol = "follow" if is_followed else None
    looplet = tensor.unfurl(state.host, stop if extent is not None else None, protocol)
    return looplet, captured


def unfurlable(term: ast.Loop) -> dict[ast.Node, ast.Access]:
    """The tensors that are accessed at the loop's index, each with its first access."""
    found: dict[ast.Node, ast.Access] = {}
    for access in context.accesses_in(term.body):
        if context.is_at(access, term.index) and not isinstance(access.tensor, lp.Looplet):
            found.setdefault(access.tensor, access)
    return found


def _check_is_near(
    term: ast.Loop, site: ast.Access, tensor: Any, loop: tuple[ir.Expr, ir.Expr], state: State
) -> None:
    """Check that a loop over a tensor that is shifted, or has no bounds, ends where coordinates and what
    comes after them are integers."""
    while not isinstance(tensor, Mask) and (body := getattr(tensor, "body", None)) is not None:
        tensor = body
    (start, stop), most = loop, code.const(LARGEST)
    if not isinstance(tensor, Mask) and not at_most(stop, most):
        is_near = code.op("or", code.compare("gt", start, stop), code.compare("le", stop, most))
        message = "the extent {}:{} ends beyond 2^62, where no tensor is read"
        values, span = (start, stop), site.span or term.span
        fail_unless(state.host, is_near, "bounds", message, values, span)


def _check_range(
    term: ast.Loop,
    site: ast.Access,
    extent: tuple[ir.Expr, ir.Expr],
    loop: tuple[ir.Expr, ir.Expr],
    state: State,
) -> None:
    (first, last), (start, stop) = extent, loop
    if at_most(first, start) and at_most(stop, last):
        return
    inside = code.op("and", code.compare("le", first, start), code.compare("le", stop, last))
    if start is not stop:  # an empty extent is never outside
        inside = code.op("or", code.compare("gt", start, stop), inside)
    mode = len(site.indices)
    whole, values = ("1:{}", (last,)) if first is code.ONE else ("{}:{}", (first, last))
    if start is stop:
        message, values = f"index {{}} of dimension {mode} is not in {whole}", (start, *values)
    else:
        message = f"the extent {{}}:{{}} is not within dimension {mode}, which is {whole}"
        values = (start, stop, *values)
    fail_unless(state.host, inside, "bounds", message, values, site.span or term.span)


@rule("Loop", steps=("Loop",), says="The loop over {index} stays a loop; its body is next.")
def loop(machine: Machine, term: ast.Node, state: State) -> Step | None:
    """⟨loop(i, extent(a, b), body), s⟩ →
    ⟨block(define(i, a, body), sieve(a < b, loop(i, extent(a + 1, b), body))), s⟩

    A loop over an empty extent is block(). At once, all these steps are taken in a loop of the host, with
    the Define, Block and SieveTrue that lead to the next. The body of define is a scope of its own."""
    if context.bounded(term) is None:
        return None
    assert isinstance(term, ast.Loop)
    E = context.Context(term, ())
    start, stop = E.region

    def step(i: ir.Expr, before: ast.Node | None = None) -> ast.Node:
        define, left = ast.Define(E.term.index, ast.Value(i), term.body), _left(E, i, stop)
        whole = trees.block(define, left)
        machine.tell("Loop", lambda: (before or E.over(i, stop).term, whole), i)
        machine.run(define, state.inside())
        if left != ast.EMPTY:
            machine.tell("Block", lambda: (whole, left))
        return left

    def at(i: ir.Expr) -> ir.Expr:
        step(i)
        return i

    if machine.one_by_one:
        return first_step(machine, term, state, term.index.name, step), state
    if at_most(stop, start):  # at most one iteration
        if_not_empty(state.host, start, stop, lambda: drop(step(start)))
    else:
        exit = Exit(machine, term, state, start)
        count(exit, start, stop, at, term.index.name)
        exit.finish(stop)
    return ast.EMPTY, state


def _left(E: context.Context, i: ir.Expr, stop: ir.Expr) -> ast.Node:
    """The loop over the coordinates after i, under the condition that there are any."""
    if i is stop:
        return ast.EMPTY
    is_left = ast.call("<", as_node(i), as_node(stop))
    return ast.Sieve(is_left, E.over(code.add(i, code.ONE), stop).term)
