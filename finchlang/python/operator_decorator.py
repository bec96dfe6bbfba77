"""`@finchlang.operator`: functions of Python as operators, with the laws that scripts can declare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, TypeVar, overload

from finchlang.base.errors import FinchError
from finchlang.python.callables import from_callable, function_of, made, remember
from finchlang.script import law_declarations
from finchlang.syntax import nodes as ast, types
from finchlang.syntax.user_function import Operation
from finchlang.text.tree_cache import script_of

F = TypeVar("F", bound=Callable[..., Any])


@overload
def operator(function: F, /, **laws: Any) -> F: ...


@overload
def operator(**laws: Any) -> Callable[[F], F]: ...


def operator(function: Any = None, /, **laws: Any) -> Any:
    """Make a Python function an operator of kernels with these laws; it stays the same function of Python.

    `commutative`, `associative`, `idempotent`, `right_idempotent`, `involution` are True; `identity` and
    `annihilator` a number, or {argument from 0: number}; `distributes` and `inverse` a function, or the
    name of an operator of the language, and `distributes` also {operator: argument from 0}. `cases` is a
    dictionary as {(None, 0): lambda x: ...}, where None stands for any number, and a string for any number
    with a name; `iterate` is the region outside of which nothing is stored, as "(x | y) & ~(x & y)";
    `where` is a dictionary as {"x >= 0": {...}} of laws that hold if each argument is in a range
    (SparseArray'21 sections 4 and 5).

    Raises FinchError "type", with file and line, for Python that cannot be translated, or laws that are
    none or contradict each other.
    """
    if function is None:
        return lambda function: operator(function, **laws)
    if not isinstance(function, FunctionType):
        message = f"`operator` is about functions of Python, not {types.foreign(function)}"
        raise FinchError("type", message)
    value = function_of(function)
    span = value.definition.span
    try:
        remember(function, _with(value, function, laws))
    except FinchError as error:
        raise error.at(span) from None
    return function


def _with(value: Any, function: FunctionType, laws: dict[str, Any]) -> Any:
    """A function of the script with these laws, as `@properties`, `@case` and `@iterate` would add them."""
    name = ast.Variable(function.__name__)
    cases, region = laws.pop("cases", {}), laws.pop("iterate", None)
    ranges = laws.pop("where", {})
    known = law_declarations.declared(value, name)
    given: list[Any] = []
    for range, own in (("", laws), *ranges.items()):
        each = [_stated(law, what, given) for law, what in own.items() if what is not False]
        stated = [node for nodes in each for node in nodes]
        stated += [law_declarations.WHERE, _expression(range, "range")] if range else []
        known = law_declarations.with_properties(known, tuple(stated), lambda n: given[n.value])  # type: ignore[attr-defined]
    for arguments, result in cases.items():
        known = _case(known, arguments, result)
    if region is not None:
        code = function.__code__
        call = ast.Call(name, tuple(map(ast.Variable, code.co_varnames[: code.co_argcount])))
        known = law_declarations.with_region(known, call, _expression(region, "region"))
    return law_declarations.with_laws(value, known)


def _expression(text: str, what: str) -> ast.Node:
    statements = script_of(text, what).statements
    if len(statements) != 1:
        raise FinchError("syntax", f"a {what} is one expression")
    return statements[0]


def _stated(law: str, what: Any, given: list[Any]) -> list[ast.Node]:
    """A law as `@properties` states it, whose literals are places in `given`, where its values are put."""

    def argument(value: Any) -> ast.Literal:
        given.append(from_callable(value))
        return ast.Literal(len(given) - 1)

    properties = law_declarations.PROPERTIES
    others = *law_declarations.OF_VALUES, *law_declarations.OF_OPERATORS
    if law in properties and what is True:
        return [ast.Variable(law)]
    if law in others:
        if not isinstance(what, Mapping):
            return [ast.call(law, argument(what))]
        pairs = [pair if law == "distributes" else pair[::-1] for pair in what.items()]
        return [ast.call(law, argument(x), argument(at + 1)) for x, at in pairs]
    names = ", ".join((*properties, *others, "cases", "iterate", "where"))
    message = f"`{law}={what!r}` is no property of a function"
    raise FinchError("type", message, hint=f"there are {names}")


def _case(known: Operation, arguments: Any, result: Any) -> Any:
    if not isinstance(arguments, tuple):
        raise FinchError("type", "a case is about a tuple of arguments", hint="as in `(None, 0)`")
    nodes: list[ast.Node] = []
    for k, value in enumerate(arguments):
        if value is None or isinstance(value, str):
            nodes.append(ast.Variable(value or f"x_{k}"))
        elif types.type_of_value(value) is None:
            raise FinchError("type", f"a case is about numbers, not {types.foreign(value)}")
        else:
            nodes.append(ast.Literal(value))
    call = ast.call(known.name, *nodes)
    names = law_declarations.patterns(known, call)
    if isinstance(result, Callable):  # type: ignore[arg-type]
        body = from_callable(result)
        if len(body.definition.parameters) != len(names):
            message = f"this case of `{known.name}` leaves {len(names)} arguments"
            raise FinchError("type", message, body.definition.span)
    else:
        body = made(ast.Function(known.name, names, ast.Literal(result)))
    return law_declarations.with_case(known, call, body)
