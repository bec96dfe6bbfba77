"""Functions of the script as operators of kernels: a function with the values of all names that it uses
from around it (`syntax.Operation`). What an operator cannot have is refused here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError, Span, did_you_mean
from finchlang.base.records import record
from finchlang.calls.environment import Environment, Scope, assigned_names
from finchlang.operators.operator import wrong_count
from finchlang.operators.operator_table import Operator, node_of, operator
from finchlang.script import unit_names as un
from finchlang.script.as_unit import Units
from finchlang.script.functions import PREDEFINED, FinchFunction
from finchlang.script.show import kind_of
from finchlang.script.unit_expressions import WORDS, row_of
from finchlang.script.values import plain
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.control_flow import RETURN, as_expression, flat, ways
from finchlang.syntax.types import PairType, Type, type_of_value
from finchlang.syntax.user_function import Itself, Operation
from finchlang.text.meant import explained

#: a name that a closed function uses: the dictionary that binds it, the name, and its value at the time
Use = tuple[dict[str, Any], str, Any]


@record(eq=False)
class Closed:
    """The operator made of a function, valid as long as the names that it uses have the same values.
    `functions` are the functions that it calls, and itself, each with its operator."""

    operation: Operation
    uses: tuple[Use, ...]
    functions: tuple[tuple[Operation, FinchFunction | Operator], ...]
    #: where it, or one of these, calls itself, as an error: kernels cannot have that
    recursion: FinchError | None = None

    @property
    def is_current(self) -> bool:
        return all([values.get(name) is value for values, name, value in self.uses])


def operation(value: Any, may_recur: bool = False) -> ast.Node | None:
    """The node of a value as an operator of a kernel, with the present values of names; None if it is no
    function. Raises FinchError of kind "type" or "unknown name" at what an operator cannot have; a function
    that calls itself is one where it `may_recur`."""
    if isinstance(value, FinchFunction):
        return _closed(value, may_recur).operation
    return node_of(row_of(value))


def _closed(function: FinchFunction, may_recur: bool = False) -> Closed:
    found = closed(function, ())
    if found.recursion is not None and not may_recur:
        raise found.recursion
    return found


@record(eq=False)
class Denoted:
    """A function of the script for the denotation: it is run by the script's evaluator (`apply`)."""

    apply: Callable[..., Any]
    function: FinchFunction | Operator
    operation: Operation

    def __call__(self, values: Sequence[Any]) -> Any:
        return self.apply(self.function, [plain(value) for value in values], {}, None)

    def type(self, types: Sequence[Type]) -> Type:
        row = operator(self.operation)
        assert row is not None
        if len(types) != row.arity[0]:
            raise wrong_count(row.name, row.arity, len(types), None)
        return row.result_type(tuple(types))


#: the functions that kernels of arrays have as operators, those that were used last
CALLED: dict[Operation, FinchFunction | Operator] = {}
KNOWN = 1024


def denoted(apply: Callable[..., Any], values: Iterable[Any]) -> dict[Operation, Denoted]:
    """For the denotation: functions among the values, or in CALLED for them, and those that they call."""
    found: set[tuple[Operation, FinchFunction | Operator]] = set()
    for value in values:
        value = CALLED.get(value) if isinstance(value, Operation) else value
        if isinstance(value, FinchFunction):
            found |= {*_closed(value).functions}
        elif isinstance(value, Operator) and value.node is not None:
            found.add((value.node, value))
    return {operation: Denoted(apply, function, operation) for operation, function in found}


def closed(function: FinchFunction, within: tuple[FinchFunction, ...]) -> Closed:
    """A function closed over the names it uses. `within` are those being closed that call it."""
    known = function.closed
    if known is not None and known.is_current:
        return known
    closing = _Closing(function.definition, function.scope, function.parent, (*within, function))
    try:
        found = trees.replace(closing.operation(), laws=function.laws)
    except un.NotStaged as refusal:
        raise FinchError("type", refusal.message, refusal.span, _ALLOWED) from None
    if known is not None and known.operation == found:
        found = known.operation  # comparing one object with itself is quick
    functions = tuple(dict.fromkeys((*closing.functions, (found, function))))
    uses = {(id(use[0]), use[1]): use for use in closing.uses}  # each once
    made = Closed(found, tuple(uses.values()), functions, closing.recursion)
    function.closed = made
    return made


class _Names(un.UnitNames):
    """What names mean in a function that becomes an operator: numbers of its own, known values around."""

    def __init__(self, closing: _Closing, environment: Environment):
        super().__init__(environment)
        self.closing = closing

    def take(self, name: str, key: un.Key, owner: Environment, around: Environment | None) -> None:
        value = owner.values.get(name)
        self.given[key] = un.GivenName(name, lambda _: owner.values, key, un.ABSENT)

        self.closing.uses.append((owner.values, name, value))
        type, held = type_of_value(value), value
        if type is not None and not isinstance(type, PairType):
            held = value.item() if isinstance(value, np.generic) else value
            named = None if type_of_value(held) is type else type.name
            self.values[key] = self.given[key].meaning = ast.Literal(held, named)
        elif value is not None:
            self.values[key] = self.given[key].meaning = un.Static(value)

    def unset(self, key: un.Key, span: Span | None) -> FinchError:
        if key not in self.given:
            return super().unset(key, span)
        guess = did_you_mean(key[1], {*self.closing.own, *PREDEFINED})
        return explained(FinchError("unknown name", f"`{key[1]}` is not defined", span, guess))

    def bound(self, key: un.Key, span: Span | None) -> ast.Variable:
        if key in self.given:
            message = f"`{key[1]}` belongs to the function around `{self.closing.name}`"
            raise FinchError("type", message, span, "an operator assigns to names of its own alone")
        return super().bound(key, span)


class _Closing(Units):
    """A function being closed: a unit that has numbers alone. The bodies of functions that are defined in
    it stand where these are called. `own` are the names that it binds, `callers` the functions being closed
    that call it, and itself."""

    def __init__(
        self,
        definition: ast.Function,
        scope: Scope,
        environment: Environment,
        within: tuple[FinchFunction, ...],
    ):
        super().__init__(_Names(self, environment), None, None, operation)
        self.definition, self.callers = definition, within
        self.name, self.own = definition.name, scope.owned
        self.uses: list[Use] = []
        self.functions: list[tuple[Operation, FinchFunction | Operator]] = []
        self.recursion: FinchError | None = None
        self.names.taken = set(self.own)
        self.frame = self.root = frame = un.CallFrame(self.own, environment, True)
        self.names.numbers = {(id(frame), name): name for name in self.own}
        self.names.values = {(id(frame), n): ast.Variable(n) for n in definition.parameters}

    def operation(self) -> Operation:
        definition = self.definition
        if definition.types:
            message = f"`{self.name}` has parameters with types, which kernels do not check"
            raise FinchError("type", message, definition.span, "leave the types out")
        body = definition.body
        if isinstance(body, ast.Script):
            if not flat(body.statements):
                raise self.without_value(body.span or definition.span)
            self.statement(body, True)
            body = ast.Script(tuple(self.names.out), span=body.span)
            if RETURN not in ways(body):  # an endless loop
                raise self.without_value(definition.span)
            found = as_expression(body)
            body = body if found is None else found
        else:
            body = self.expression_of(self.value(body), body.span)
        return Operation(self.name, definition.parameters, body, span=definition.span)

    # ---------------------------------------------------------------- statements

    def statement(self, node: ast.Node, is_last: bool = False) -> None:
        if not isinstance(node, ast.Function):
            super().statement(node, is_last)
            return
        own = {n for n in assigned_names(node.body) if not un.is_local(n, self.frame)}
        unused: Any = None  # an operator never runs it
        parent: Any = self.frame
        inner = FinchFunction(node, Scope(None, own | {*node.parameters}), parent, unused)
        key = self.names.key(node.name, self.frame)
        self.names.assign(key, un.Static(inner), node.span)
        if is_last:
            raise self.without_value(node.span)

    def leave(self, value: Any, span: Span | None, is_return: bool = False) -> None:
        if value is None:
            raise self.without_value(span)
        if self.within:
            super().leave(value, span, is_return)
            return
        self.names.emit(ast.Return(self.expression_of(value, span), span=span))

    def without_value(self, span: Span | None) -> FinchError:
        message = f"`{self.name}` has no value on the way that ends here"
        return FinchError("type", message, span, "return a number on every way")

    # ---------------------------------------------------------------- expressions

    def value(self, node: ast.Node) -> Any:
        if type(node) in WORDS and not isinstance(node, ast.Group):
            raise self.refused(node)
        return super().value(node)

    def is_known(self, node: ast.Node) -> bool:
        return False

    def fail(self, message: str, span: Span | None) -> None:
        raise self.refused(ast.Text((), span=span))

    def refused(self, node: ast.Node) -> FinchError:
        what = WORDS.get(type(node), "this")
        message = f"{what} has no place in `{self.name}`, which is used in a kernel"
        return FinchError("type", message, node.span, _ALLOWED)

    def named(self, name: str, span: Span | None) -> Any:
        found = super().named(name, span)
        if isinstance(found, un.Static) and not isinstance(found.value, Type):
            what = f"`{name}` is {kind_of(found.value)}"
            message = f"{what}; what `{self.name}` takes from around it are numbers"
            raise FinchError("type", message, span, _ALLOWED)
        return found

    def built_in(self, node: Any, op: ast.Variable, function: Any, given: Any) -> Any:
        if row_of(function) is None:
            what = "a value" if function is None else kind_of(function)
            message = f"`{op.name}` is {what}, which `{self.name}` cannot call in a kernel"
            raise FinchError("type", message, op.span, _ALLOWED)
        return super().built_in(node, op, function, given)

    def operator(self, row: Operator, op: ast.Variable) -> ast.Node:
        if row.node is None:
            return ast.Variable(row.name)
        self.functions.append((row.node, row))  # of the language, with declared laws
        return row.node

    def as_operator(self, function: FinchFunction, given: list[Any], span: Span | None) -> None:
        return None

    def call(
        self, function: FinchFunction, given: list[Any], keywords: dict[str, Any], span: Span | None
    ) -> ast.Node:
        definition = function.definition
        name, parameters = definition.name, definition.parameters
        found: Operation | Itself
        if keywords:
            raise un.NotStaged(f"`{name}` is called with named arguments", span)
        if len(given) != len(parameters):
            hint = f"it is defined as `{name}({', '.join(parameters)})`"
            raise wrong_count(name, (len(parameters),) * 2, len(given), span, hint)
        if definition in self.within:
            raise self.recursive(name, span)
        if isinstance(function.parent, un.CallFrame):
            return super().call(function, given, keywords, span)
        if function in self.callers:
            if function is not self.callers[-1]:
                raise self.recursive(name, span)
            self.recursion = self.recursion or self.recursive(name, span)
            found = Itself(name)
        else:
            made = closed(function, self.callers)
            self.uses += made.uses
            self.functions += made.functions
            self.recursion = self.recursion or made.recursion
            found = made.operation
        args = tuple([self.expression_of(value, span) for value in given])
        return ast.Call(trees.replace(found, span=span), args, span=span)

    def recursive(self, name: str, span: Span | None) -> FinchError:
        message = f"`{name}` calls itself, which an operator cannot do"
        return FinchError("type", message, span, "write it as a loop")


_ALLOWED = (
    "an operator has numbers, operators, functions that are operators, `if`, `while`, `for` over a "
    "range, names of its own and `return`"
)
