"""The rules for statements of functions on numbers, in one ordered table: kernels run the bodies of
functions of the script by them, and `functions/` loops and functions as wholes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from finchlang.base.errors import Bug, FinchError, Span
from finchlang.base.records import record
from finchlang.host.construct import TRUE, ZERO, add, compare, const, exactly, op, sub
from finchlang.host.engine import Arm, Machine, Rule, Step, rule
from finchlang.host.interface import Host
from finchlang.host.ir import Cell, Const, Expr
from finchlang.operators.build import modulus
from finchlang.operators.operator import Operator, called
from finchlang.syntax import control_flow, nodes as ast
from finchlang.syntax.control_flow import BREAK, CONTINUE, NEXT, RETURN, Ways, arms, flat, ways
from finchlang.syntax.types import TYPES, Bool, Int64, Type, type_of_value

#: the name of the result, which no name of a script is
RESULT = "return"
#: gives the row of the operator that a node names
Lookup = Callable[[ast.Node], Operator | None]


@dataclass(eq=False)
class BodyNames:
    """What staging a body for argument types finds: the types of its names and of the result, and whether
    a cell must hold how the last statement ended (`is_marked`)."""

    types: dict[str, Type] = field(default_factory=dict)
    is_marked: bool = False


@dataclass(eq=False)
class FunctionBody:
    """What is static of a function's body while it runs: its name, its parameters, the names that have a
    cell (`changing`), the rows of its operators, and the rules for its expressions. In the first run, which
    finds the types of `names`, a cell is made where its name is first assigned."""

    name: str
    parameters: tuple[str, ...]
    changing: set[str]
    lookup: Lookup
    names: BodyNames
    cells: dict[str, Cell] = field(default_factory=dict)

    @property
    def expressions(self) -> Mapping[type, Rule]:
        """The rules for expressions, by the kinds of nodes."""
        return EXPRESSIONS

    def make_cells(self, host: Host, values: Mapping[str, Expr]) -> None:
        """The cells of names that change: of parameters with their values, of others with any."""
        for name, type in self.names.types.items():
            if name in self.changing and name not in values:
                self.cells[name] = host.cell(any_of(type), name)
        for name in self.parameters:
            if name in self.changing:
                self.cells[name] = host.cell(values[name], name)

    def differs(self, what: str, one: Type, other: Type, span: Span | None) -> FinchError:
        message = f"{what} is {one} on one way through `{self.name}`, {other} on another"
        wide = other if one == Bool or other.is_float else one
        hint = f"an operator has one type on all ways: convert one, as in `{wide}(...)`"
        return FinchError("type", message, span, hint)


@record(slots=True)
class BodyState:
    """The state in which a statement of a function runs: the host, what is static (`body`), the `values` of
    names that never change, the cell with how the last statement ended (`mark`), where that is asked for,
    and of a unit's own loop, until it begins, how many rounds it takes at most."""

    host: Host
    body: Any  # a FunctionBody, or what is derived of it
    values: Mapping[str, Expr]
    mark: Cell | None = None
    limit: Expr | None = None

    def marked(self) -> Expr:
        self.body.names.is_marked = True
        assert self.mark is not None
        return self.host.get(self.mark)

    def forget(self, way: int, ends: Ways) -> None:
        """Reset the mark of this way to NEXT: what it leaves ends here."""
        if way in ends and self.mark is not None:
            mark = self.host.get(self.mark)
            self.host.set(self.mark, op("select", compare("eq", mark, way), ZERO, mark))

    def assigned(self, name: str, value: Expr, span: Span | None) -> BodyState:
        """The state after a value was assigned to a name. Raises FinchError "type"."""
        body, known = self.body, self.body.names.types.get(name)
        if name in body.parameters:
            known = self.values[name].type
        if known is not None and known != value.type:
            what = "the result" if name == RESULT else f"`{name}`"
            raise body.differs(what, known, value.type, span)
        body.names.types[name] = value.type
        if name in body.cells:
            self.host.set(body.cells[name], value)
        elif name == RESULT or name in body.changing:
            body.cells[name] = self.host.cell(value, name)
        else:
            return replace(self, values={**self.values, name: value})
        return self


def any_of(type: Type) -> Const:
    return const(type.wrap((0, 0) if type.kind == "pair" else 0), type)


# ------------------------------------------------------------------------------------ expressions


def evaluate(machine: Machine, node: ast.Node, state: BodyState, given: Expr = TRUE) -> Expr:
    """The value of an expression; it matters only where `given` holds."""
    found = state.body.expressions.get(type(node))
    if found is None:
        raise Bug(f"{node!r} is no expression of a function")
    expr: Expr = found.apply(machine, node, state, given)
    machine.tell_expression(found.name, lambda: (node, ast.Value(expr)))
    return expr


@rule("Literal", says="A literal has its own value.")
def literal(machine: Machine, term: ast.Literal, state: BodyState, given: Expr) -> Expr:
    """⟨literal(val), s⟩ → val"""
    type = TYPES[term.type] if term.type else type_of_value(term.value)
    assert type is not None
    return const(term.value, type)


@rule("Variable", says="The name has the value that was given to it last.")
def variable(machine: Machine, term: ast.Variable, state: BodyState, given: Expr) -> Expr:
    """⟨name, s⟩ → s(name)"""
    cell = state.body.cells.get(term.name)
    return state.values[term.name] if cell is None else state.host.get(cell)


@rule("Call", says="The operator is applied to the values of its arguments.")
def call(machine: Machine, term: ast.Call, state: BodyState, given: Expr) -> Expr:
    """⟨args, s⟩ ⇒ vals  ⟹  ⟨call(f, args...), s⟩ → ⟨⟨f(vals...)⟩⟩"""
    row = state.body.lookup(term.op)
    if row is None:
        raise Bug(f"{term.op!r} is no operator")
    found: list[Expr] = []

    def argument(arg: ast.Node, needed: Expr) -> Expr:
        found.append(evaluate(machine, arg, state, needed))
        return found[-1]

    result = called(row, term.args, argument, state.host, term.span, given)
    if state.host.is_exact:
        result = exactly(result)
    if row.selects and found[1].type != found[2].type:
        raise state.body.differs("this", found[1].type, found[2].type, term.args[2].span)
    return result


EXPRESSIONS: dict[type, Rule] = {ast.Literal: literal, ast.Variable: variable, ast.Call: call}


def condition(machine: Machine, node: ast.Node, state: BodyState) -> Expr:
    found = evaluate(machine, node, state)
    if found.type != Bool:
        message = f"a condition must be a Bool, not {found.type}"
        raise FinchError("type", message, node.span, "compare it, as in `x != 0`")
    return found


# ------------------------------------------------------------------------------------- statements


@rule("Script", steps=("Script",), says="The first statement runs, then the others.")
def script(machine: Machine, term: ast.Node, state: BodyState) -> Step | None:
    """⟨first, s⟩ → s'  ⟹  ⟨(first, rest...), s⟩ → ⟨(rest...), s'⟩

    The rest is run where the first statement did not leave what both stand in. If that is an `if` of which
    one arm alone goes on, the rest belongs to that arm."""
    if not isinstance(term, ast.Script):
        return None
    nodes = flat(term.statements)
    for k, node in enumerate(nodes):
        rest, ends = ast.Script(nodes[k + 1 :]), ways(node)
        leaves = NEXT in ends and len(ends) > 1 and bool(rest.statements)
        longer = _with_rest(node, rest) if leaves and isinstance(node, ast.If) else None
        if longer is not None:
            return longer, state
        state = machine.run(node, state)
        machine.tell("Script", lambda k=k: (ast.Script(nodes[k:]), ast.Script(nodes[k + 1 :])))  # type: ignore[misc]
        if leaves:
            is_next = compare("eq", state.marked(), NEXT)
            state.host.branch(is_next, partial(perform, machine, rest, state))
        if leaves or NEXT not in ends:
            break
    return ast.EMPTY, state


def perform(machine: Machine, term: ast.Node, state: BodyState) -> None:
    """Run a statement as an arm of a branch: the state after it is not passed on."""
    machine.run(term, state)


def _with_rest(node: ast.If, rest: ast.Script) -> ast.Node | None:
    """An `if` with what follows it in the one arm that goes on; None if there are more."""
    found = arms(node.branches)
    going = [at for at, (_, body) in enumerate(found) if NEXT in ways(body)]
    if len(going) != 1:
        return None
    at, (holds, body) = going[0], found[going[0]]
    longer = holds, ast.Script((body, *rest.statements))
    return ast.If((*found[:at], longer, *found[at + 1 :]), span=node.span)


@rule("LetNumber", says="The values on the right are computed, then the names get them.")
def let_number(machine: Machine, term: ast.Node, state: BodyState) -> Step | None:
    """⟨values, s⟩ ⇒ v...  ⟹  ⟨names... = values..., s⟩ → s[names ↦ v...]

    All values are there before the first name gets one."""
    if not isinstance(term, ast.Let):
        return None
    several: Any = term.value
    values = several.items if len(term.targets) > 1 else (term.value,)
    found = [state.host.let(evaluate(machine, v, state)) for v in values]
    for target, expr in zip(term.targets, found, strict=True):
        state = state.assigned(target.name, expr, target.span)  # type: ignore[attr-defined]
    return ast.EMPTY, state


@rule(
    "If",
    steps=("IfTrue", "IfFalse"),
    says="The condition holds: the first arm runs. | The condition does not hold: the other arm runs.",
)
def if_(machine: Machine, term: ast.Node, state: BodyState) -> Step | None:
    """⟨c, s⟩ ⇒ true   ⟹  ⟨if(c, body, other), s⟩ → ⟨body, s⟩    (IfTrue)
    ⟨c, s⟩ ⇒ false  ⟹  ⟨if(c, body, other), s⟩ → ⟨other, s⟩   (IfFalse)"""
    if not isinstance(term, ast.If):
        return None
    (holds, body), *others = arms(term.branches)
    if not others:
        return body, state
    other = others[0][1] if len(others) == 1 else ast.If(tuple(others), span=term.span)
    both = Arm("IfTrue", term, body, state), Arm("IfFalse", term, other, state)
    return machine.branch(condition(machine, holds, state), *both)


@rule("While", steps=("While",), says="The loop goes on while its condition holds.")
def while_(machine: Machine, term: ast.Node, state: BodyState) -> Step | None:
    """⟨c, s⟩ ⇒ true   ⟹  ⟨while(c, body), s⟩ → ⟨(body, while(c, body)), s⟩
    ⟨c, s⟩ ⇒ false  ⟹  ⟨while(c, body), s⟩ → ⟨∅, s⟩

    `break` leaves the loop, and `continue` its round."""
    if not isinstance(term, ast.While):
        return None
    is_endless = term.condition == ast.Literal(True)
    holds = partial(condition, machine, term.condition, state)
    return _loop(machine, term, state, holds, is_endless)


@rule("For", steps=("For",), says="The loop runs once for each number of its range.")
def for_(machine: Machine, term: ast.Node, state: BodyState) -> Step | None:
    """⟨a, s⟩ ⇒ i, ⟨b, s⟩ ⇒ j, i ≤ j  ⟹
    ⟨for(k, a:b, body), s⟩ → ⟨(body, for(k, i+1:j, body)), s[k ↦ i]⟩
    ⟨a, s⟩ ⇒ i, ⟨b, s⟩ ⇒ j, i > j  ⟹  ⟨for(k, a:b, body), s⟩ → ⟨∅, s⟩"""
    if not isinstance(term, ast.For):
        return None
    host, range, name = state.host, term.iterable, term.variable
    assert isinstance(range, ast.Extent)
    given = (range.start, range.stop, range.step or ast.Literal(1))
    start, stop, step = (_bound(machine, part, state) for part in given)
    last = stop  # it is known before: behind the greatest integer counting would begin anew
    if not isinstance(step, Const) or abs(step.value) > 1:
        rest = modulus(sub(modulus(stop, step), modulus(start, step)), step)
        last = host.let(sub(stop, rest), "last")
    at = host.cell(start, name)
    goes_up, goes_down = compare("le", start, stop), compare("ge", start, stop)
    is_left = host.cell(op("select", compare("gt", step, 0), goes_up, goes_down), "is_left")

    def begin(now: BodyState) -> tuple[BodyState, Expr]:
        value = host.get(at)
        host.set(is_left, compare("ne", value, last))
        host.set(at, add(value, step))
        now = replace(now, values={**now.values, name: value})
        return now.assigned(name, value, None) if name in now.body.changing else now, value

    return _loop(machine, term, state, lambda: host.get(is_left), False, begin)


def _bound(machine: Machine, node: ast.Node, state: BodyState) -> Expr:
    found = state.host.let(evaluate(machine, node, state), "n")
    if found.type != Int64:
        message = f"a bound of a range in an operator is an Int64, not {found.type}"
        raise FinchError("type", message, node.span, "convert it, as in `Int64(...)`")
    return found


def _loop(
    machine: Machine,
    term: ast.While | ast.For,
    state: BodyState,
    condition: Callable[[], Expr],
    is_endless: bool,
    begin: Callable[[BodyState], tuple[BodyState, Expr | None]] = lambda now: (now, None),
) -> Step:
    """A loop whose rounds do `begin` first. The mark of a break or return is looked at before the
    condition. The own loop of a unit counts its rounds, of which it takes so many at most."""
    host, body, limit = state.host, term.body, state.limit
    ends, inner = ways(body), replace(state, limit=None)
    count = None if limit is None else host.cell(ZERO, "round")

    def test() -> Expr:
        if count is None or limit is None:
            return condition()
        host.note = (host.get(count),)
        return host.only_if(compare("lt", host.note[0], limit), condition, "goes_on")

    def goes_on() -> Expr:
        if not ends & {BREAK, RETURN}:
            return test()
        is_next = compare("eq", inner.marked(), NEXT)
        if is_endless and count is None:
            return is_next
        return host.only_if(is_next, test, "holds")

    def round() -> None:
        if count is not None:
            host.note = (host.get(count),)
            host.set(count, add(host.note[0], 1))
        now, at = begin(inner)
        name = type(term).__name__
        machine.tell(name, lambda: (term, ast.Script((body, term))), at)
        machine.run(body, now)
        inner.forget(CONTINUE, ends)

    host.loop(goes_on, round, is_endless=True)
    if not (isinstance(term, ast.For) and term.joined):
        inner.forget(BREAK, ends)
    if count is not None:
        host.note = ()
    machine.tell(type(term).__name__, lambda: (term, ast.EMPTY))
    return ast.EMPTY, inner


@rule("Leave", says="The loop or the function is left here.")
def leave(machine: Machine, term: ast.Node, state: BodyState) -> Step | None:
    """⟨v, s⟩ ⇒ v'  ⟹  ⟨return(v), s⟩ → s[result ↦ v'], and what the statement leaves is left

    `break` and `continue` leave a loop or its round. The mark tells those around it."""
    if not isinstance(term, (ast.Return, ast.Break, ast.Continue)):
        return None
    if isinstance(term, ast.Return) and term.value is not None:
        found = evaluate(machine, term.value, state)
        state = state.assigned(RESULT, found, term.value.span)
    if state.mark is not None:
        (way,) = ways(term)
        state.host.set(state.mark, const(way))
    return ast.EMPTY, state


@rule("CallFunction", says="The body of the function runs in place of its call.")
def call_function(machine: Machine, term: ast.Node, state: BodyState) -> Step | None:
    """⟨body, s⟩ → s'  ⟹  ⟨call(f), s⟩ → s': `return` in the body of f leaves that alone"""
    if not isinstance(term, control_flow.Called):
        return None
    marks = RETURN in ways(term.body)
    mark = state.host.cell(ZERO, "mark") if marks else state.mark
    machine.run(term.body, replace(state, mark=mark))
    return ast.EMPTY, state


@rule("Evaluate", says="The expression is evaluated, and its value is not used.")
def evaluated(machine: Machine, term: ast.Node, state: BodyState) -> Step | None:
    """⟨e, s⟩ ⇒ v  ⟹  ⟨e, s⟩ → s: an expression alone may fail"""
    if type(term) not in state.body.expressions:
        return None
    evaluate(machine, term, state)
    return ast.EMPTY, state


#: no two apply to the same term
STATEMENTS: tuple[Rule, ...] = (
    *(script, let_number, if_, while_, for_),
    *(leave, call_function, evaluated),
)
