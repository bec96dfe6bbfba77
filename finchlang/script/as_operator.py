"""Functions of the script as operators of kernels: a function with the values of all names that it uses
from around it (`syntax.Operation`). What an operator cannot have is refused here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError, Span, did_you_mean
from finchlang.base.records import record
from finchlang.calls.environment import Environment, Scope, assigned_names
from finchlang.operators.operator import wrong_count
from finchlang.operators.operator_table import OPERATORS, Operator, node_of, operator
from finchlang.script.functions import PREDEFINED, FinchFunction
from finchlang.script.show import kind_of
from finchlang.script.values import Builtin, plain
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.control_flow import NEXT, RETURN, arms, as_expression, flat, ways
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
    return node_of(_operator(value))


def _closed(function: FinchFunction, may_recur: bool = False) -> Closed:
    found = closed(function, ())
    if found.recursion is not None and not may_recur:
        raise found.recursion
    return found


def _operator(value: Any) -> Operator | None:
    """The operator that a value is in a kernel: also a type, or a built-in function named as one is."""
    if isinstance(value, (Type, Builtin)):
        return OPERATORS.get(value.name)
    return value if isinstance(value, Operator) else None


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


def denoted(apply: Callable[..., Any], values: Iterable[Any]) -> dict[Operation, Denoted]:
    """The script's functions among the values, and those that they call, for the denotation."""
    found: set[tuple[Operation, FinchFunction | Operator]] = set()
    for value in values:
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
    found = trees.replace(closing.operation(), laws=function.laws)
    if known is not None and known.operation == found:
        found = known.operation  # comparing one object with itself is quick
    functions = tuple(dict.fromkeys((*closing.functions, (found, function))))
    uses = {(id(use[0]), use[1]): use for use in closing.uses}  # each once
    made = Closed(found, tuple(uses.values()), functions, closing.recursion)
    function.closed = made
    return made


@dataclass(eq=False)
class _Closing:
    """A function being closed. One within others (`around`, the nearest first) gets the names of theirs
    that it uses (`free`) as further arguments. `own` are the names that it binds, `names` what these are
    called in the operator, `taken` those that no loop's variable is renamed to, `local` the functions
    within it."""

    definition: ast.Function
    scope: Scope
    environment: Environment
    within: tuple[FinchFunction, ...]
    around: tuple[_Closing, ...] = ()
    free: list[str] = field(default_factory=list)
    local: dict[str, tuple[Operation, list[str]]] = field(default_factory=dict)
    uses: list[Use] = field(default_factory=list)
    functions: list[tuple[Operation, FinchFunction | Operator]] = field(default_factory=list)
    recursion: FinchError | None = None

    def __post_init__(self) -> None:
        self.name, self.parameters = self.definition.name, self.definition.parameters
        self.own, self.names = self.scope.owned, {name: name for name in self.scope.owned}
        self.taken: set[str] = set(self.own).union(*[closing.taken for closing in self.around])

    def operation(self) -> Operation:
        definition = self.definition
        if definition.types:
            message = f"`{self.name}` has parameters with types, which kernels do not check"
            raise FinchError("type", message, definition.span, "leave the types out")
        body = definition.body
        if isinstance(body, ast.Script):
            body = self.block(body, is_last=True)
            if RETURN not in ways(body):  # an endless loop
                raise self.without_value(definition.span)
            found = None if self.local else as_expression(body)
            body = body if found is None else found
        else:
            body = self.expression(body)
        return Operation(self.name, (*self.parameters, *self.free), body, span=definition.span)

    def define(self, node: ast.Function) -> None:
        if node.name in self.local:
            message = f"`{node.name}` is defined twice in `{self.name}`"
            raise FinchError("type", message, node.span, _ALLOWED)
        own = {n for n in assigned_names(node.body) if not self.scope.is_local(n)}
        scope = Scope(self.scope, own | {*node.parameters})
        inner = _Closing(node, scope, self.environment, self.within, (self, *self.around))
        found = inner.operation()
        self.local[node.name] = found, inner.free
        self.take(inner)

    def take(self, inner: Closed | _Closing) -> None:
        """Note what a function that it defines or calls is made of."""
        self.uses += inner.uses
        self.functions += inner.functions
        self.recursion = self.recursion or inner.recursion

    # ---------------------------------------------------------------- statements

    def block(self, node: ast.Node, is_last: bool = False, span: Span | None = None) -> ast.Script:
        """Statements. If the block `is_last` in the function, it must return a value on every path."""
        statements = flat(node.statements if isinstance(node, ast.Script) else (node,))
        span = node.span or span
        if is_last and not statements:
            raise self.without_value(span)
        done: list[ast.Node] = []
        for k, statement in enumerate(statements):
            if isinstance(statement, ast.Function) and node is self.definition.body:
                self.define(statement)
            else:
                done += self.each(statement, is_last and k == len(statements) - 1)
        if is_last and isinstance(statements[-1], ast.Function):
            raise self.without_value(statements[-1].span)
        return ast.Script(tuple(done), span=span)

    def each(self, node: ast.Node, is_last: bool) -> Iterator[ast.Node]:
        """A statement, and if it is the function's last the `return` of its value."""
        done = self.statement(node, is_last)
        if not is_last:
            yield done
        elif isinstance(done, (ast.Literal, ast.Variable, ast.Call)):
            yield ast.Return(done, span=done.span)
        else:
            yield done
            if isinstance(done, ast.Let) and len(done.targets) == 1:
                yield ast.Return(done.targets[0], span=done.span)
            elif NEXT in ways(done):
                raise self.without_value(node.span)

    def without_value(self, span: Span | None) -> FinchError:
        message = f"`{self.name}` has no value on the way that ends here"
        return FinchError("type", message, span, "return a number on every way")

    def statement(self, node: ast.Node, is_last: bool) -> ast.Node:
        match node:
            case ast.Let():
                return self.let(node)
            case ast.If(branches):
                done = []
                for condition, body in arms(branches) if is_last else branches:
                    holds = self.expression(condition)
                    done.append((holds, self.block(body, is_last, node.span)))
                return ast.If(tuple(done), span=node.span)
            case ast.While(condition, body):
                condition = self.expression(condition)
                return ast.While(condition, self.block(body), span=node.span)
            case ast.For():
                return self.iterate(node)
            case ast.Return(value):
                if value is None:
                    raise self.without_value(node.span)
                return ast.Return(self.expression(value), span=node.span)
            case ast.Break() | ast.Continue():
                return node
        return self.expression(node)

    def let(self, node: ast.Let) -> ast.Node:
        targets, op, value = node.targets, node.op, node.value
        for target in targets:
            if not isinstance(target, ast.Variable):
                message = "an operator assigns to names of its own alone"
                raise FinchError("type", message, target.span, f"`{self.name}` is used in a kernel")
            if target.name in self.local:
                message = f"`{target.name}` is a function and a number in `{self.name}`"
                raise FinchError("type", message, target.span, _ALLOWED)
            if target.name not in self.names:
                message = f"`{target.name}` belongs to the function around `{self.name}`"
                hint = "an operator assigns to names of its own alone"
                raise FinchError("type", message, target.span, hint)
        new = tuple([ast.Variable(self.names[t.name], span=t.span) for t in targets])  # type: ignore
        if op is not None:
            value = ast.Call(ast.Variable(op, span=node.span), (targets[0], value), span=node.span)
        if len(targets) == 1:
            return ast.Let(new, None, self.expression(value), span=node.span)
        if not isinstance(value, ast.Group) or len(value.items) != len(targets):
            message = f"{len(targets)} names of an operator are given {len(targets)} values"
            raise FinchError("type", message, value.span, "as in `a, b = b, a`")
        items = tuple([self.expression(v) for v in value.items])
        return ast.Let(new, None, ast.Group(items, span=value.span), span=node.span)

    def iterate(self, node: ast.For) -> ast.Node:
        variable, iterable = node.variable, node.iterable
        if not isinstance(iterable, ast.Range):
            message = "a loop of an operator is over a range of integers"
            raise FinchError("type", message, iterable.span, "as in `for k = 1:n`")
        step = iterable.step
        if step is not None:
            step = self.expression(step)
            if not isinstance(step, ast.Literal) or type(step.value) is not int or not step.value:
                message = "the step of a range in an operator is an integer, and not 0"
                raise FinchError("type", message, iterable.span)
        ends = [self.expression(e) for e in (iterable.start, iterable.stop)]
        new, count = variable, 1
        while new in self.taken:
            count += 1
            new = f"{variable}_{count}"
        self.taken.add(new)
        range = ast.Range(ends[0], step, ends[1], span=iterable.span)
        around, self.names = self.names, {**self.names, variable: new}
        body = self.block(node.body)
        self.names = around
        return trees.replace(node, variable=new, iterable=range, body=body)

    # ---------------------------------------------------------------- expressions

    def expression(self, node: ast.Node) -> ast.Node:
        match node:
            case ast.Literal(value):
                if type_of_value(value) is None:
                    raise FinchError("type", f"`{value!r}` is no number", node.span)
                return node
            case ast.Variable(name):
                if name in self.names:
                    return ast.Variable(self.names[name], span=node.span)
                return self.number(name, node.span)
            case ast.Call(ast.Variable() as op, args):
                return self.call(node, op, tuple([self.expression(a) for a in args]))
        what = WORDS.get(type(node), "this")
        message = f"{what} has no place in `{self.name}`, which is used in a kernel"
        raise FinchError("type", message, node.span, _ALLOWED)

    def number(self, name: str, span: Span | None) -> ast.Node:
        """A name of a function around this one, or a literal of the script's present value."""
        if any(name in closing.own and name not in closing.local for closing in self.around):
            self.free += [name] * (name not in self.free)
            return ast.Variable(name, span=span)
        value = self.bound(name, span)
        found = type_of_value(value)
        if found is None or isinstance(found, PairType):
            what = kind_of(value)
            message = f"`{name}` is {what}; what `{self.name}` takes from around it are numbers"
            raise FinchError("type", message, span, _ALLOWED)
        held = value.item() if isinstance(value, np.generic) else value
        type = None if type_of_value(held) is found else found.name
        return ast.Literal(held, type, span=span)

    def bound(self, name: str, span: Span | None) -> Any:
        """The value of a name around the function, noted as used. Raises FinchError "unknown name"."""
        values = self.environment.owner(name).values
        value = values.get(name)
        self.uses.append((values, name, value))
        if value is None and name not in PREDEFINED:
            guess = did_you_mean(name, {*self.own, *PREDEFINED})
            raise explained(FinchError("unknown name", f"`{name}` is not defined", span, guess))
        return PREDEFINED[name] if value is None else value

    def call(self, node: ast.Node, op: ast.Variable, args: tuple[ast.Node, ...]) -> ast.Node:
        name, span = op.name, op.span
        for closing in (self, *self.around):
            if name in closing.local:
                found, free = closing.local[name]
                check_count(name, found.parameters[: -len(free) or None], args, node.span)
                more = tuple([self.expression(ast.Variable(n, span=span)) for n in free])
                return ast.Call(trees.replace(found, span=span), (*args, *more), span=node.span)
            if name == closing.name and closing.around:
                raise self.recursive(name, node.span)
        if name in self.names:
            message = f"`{name}` is a value here: an operator calls functions of the script by name"
            raise FinchError("type", message, span)
        value = self.bound(name, span)
        if isinstance(value, FinchFunction):
            if value in self.within:
                if value is not self.within[-1] or self.around:
                    raise self.recursive(name, node.span)
                self.recursion = self.recursion or self.recursive(name, node.span)
                check_count(name, self.parameters, args, node.span)
                return ast.Call(Itself(name, span=span), args, span=node.span)
            inner = closed(value, self.within)
            self.take(inner)
            found = inner.operation
            check_count(name, found.parameters, args, node.span)
            return ast.Call(trees.replace(found, span=span), args, span=node.span)
        row = _operator(value)
        if row is None:
            message = f"`{name}` is {kind_of(value)}, which `{self.name}` cannot call in a kernel"
            raise FinchError("type", message, span, _ALLOWED)
        if row.node is not None:  # an operator of the language with declared laws
            self.functions.append((row.node, row))
        return applied(row, op, args, node.span)

    def recursive(self, name: str, span: Span | None) -> FinchError:
        message = f"`{name}` calls itself, which an operator cannot do"
        return FinchError("type", message, span, "write it as a loop")


def applied(
    row: Operator, op: ast.Variable, args: tuple[ast.Node, ...], span: Span | None
) -> ast.Node:
    """The call of an operator of the table by this name; one that is associative takes more arguments.
    Raises FinchError "type" for another number of arguments."""
    meant = ast.Variable(row.name) if row.node is None else row.node
    meant = trees.replace(meant, span=op.span)
    if row.associative and len(args) > row.arity[1]:
        return reduce(lambda a, b: ast.Call(meant, (a, b), span=span), args)
    if not row.arity[0] <= len(args) <= row.arity[1]:
        raise wrong_count(op.name, row.arity, len(args), span)
    return ast.Call(meant, args, span=span)


def check_count(
    name: str, parameters: tuple[str, ...], args: tuple[ast.Node, ...], span: Span | None
) -> None:
    """Raises FinchError "type" if a call of a function has too few or too many arguments."""
    if len(args) != len(parameters):
        hint = f"it is defined as `{name}({', '.join(parameters)})`"
        raise wrong_count(name, (len(parameters),) * 2, len(args), span, hint)


_ALLOWED = (
    "an operator has numbers, operators, functions that are operators, `if`, `while`, `for` over a "
    "range, names of its own and `return`"
)
#: what messages call nodes that have no place in an operator, or in a loop that is staged
WORDS: dict[type, str] = {
    ast.Text: "a text with values in it",
    ast.KernelNode: "a kernel",
    ast.Rows: "an array",
    ast.Splat: "`...`",
    ast.Subscript: "an entry of an array",
    ast.Group: "a tuple",
    ast.Range: "a range",
    ast.Function: "a definition of a function",
    ast.Macro: "a macro",
    ast.Comprehension: "a comprehension",
    ast.Broadcast: "a call for each element",
    ast.Lambda: "a function without a name",
    ast.Typed: "a declared type",
    ast.Try: "`try`",
}
