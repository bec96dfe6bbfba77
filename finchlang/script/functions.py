"""Values that scripts can call: functions of the script, names of levels and masks; the predefined names;
and Python's exceptions in a call as FinchErrors."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count, repeat
from typing import Any, ClassVar

import numpy as np

from finchlang.base.errors import FinchError, Span, number_of
from finchlang.base.late import late
from finchlang.base.records import record
from finchlang.calls.environment import Environment, Scope
from finchlang.operators.operator_table import OPERATORS
from finchlang.script.builtins import BUILTINS
from finchlang.script.lazy_values import Identity
from finchlang.script.linear_algebra import MATRIX
from finchlang.script.show import kind_of
from finchlang.script.values import Builtin, FinchRange, NamedValue, is_array, is_number
from finchlang.syntax import nodes as ast, traversal as trees, types
from finchlang.syntax.user_function import Laws
from finchlang.tensors.formats import LEVELS
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor
from finchlang.wrappers.masks import MASKS, MaskValue, is_bare


@dataclass(eq=False, repr=False)
class FinchFunction:
    """A function of the script: its scope, the environment in which it was defined, and its body, to be
    run in an environment of that scope. `closed` caches the operator made of it (`as_operator.Closed`),
    `whole` the units for its calls, if it may be staged (`is_staged`); `laws` are declared of it, and
    `defaults` give the values of parameters that a call leaves out. From Python it is called by the
    evaluator that made it (`call`), on values as scripts have them."""

    definition: ast.Function
    scope: Scope
    parent: Environment
    body: Callable[[Environment], Any]
    closed: Any = None
    whole: Any = None
    laws: Laws = Laws()
    defaults: Mapping[str, Callable[[Environment], Any]] = field(default_factory=dict)
    call: Callable[..., Any] | None = None
    is_staged: bool = True

    kind: ClassVar[str] = "a function"

    def __str__(self) -> str:
        return f"{self.definition.name}({', '.join(self.definition.parameters)})"

    def __repr__(self) -> str:
        return f"<Finch function {self}>"

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """The function's value, None for `nothing`, of values as names may have. Raises FinchError."""
        if self.call is None:
            raise FinchError("type", f"`{self}` belongs to no script")
        take = late("taken")
        given = [*map(take, repeat(self), count(), args)]
        own = in_python(self.definition.parameters) if keywords else {}
        pairs = [(own.get(name, name), value) for name, value in keywords.items()]
        named = {name: take(self, name, value) for name, value in pairs}
        value = self.call(self, given, named, None)
        return None if value is ast.NOTHING else value

    @property
    def __signature__(self) -> inspect.Signature:
        """Its parameters; a default that is no literal is shown as `...`."""
        one, more = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
        several = {name for name, kind in self.definition.types if kind == "Vararg"}
        given, empty = self.definition.defaults, inspect.Parameter.empty
        shown = {name: n.value if isinstance(n, ast.Literal) else ... for name, n in given}
        names, made = in_python(self.definition.parameters).items(), inspect.Parameter
        kinds = dict.fromkeys(several, more)
        parts = [made(to, kinds.get(n, one), default=shown.get(n, empty)) for to, n in names]
        return inspect.Signature(parts)

    def __copy__(self, memo: object = None) -> FinchFunction:
        return self  # as copies of Python functions are

    __deepcopy__ = __copy__

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickled by its definition, and by the names around it that it uses, with their values; what is
        unpickled has a session of its own. Raises FinchError "type" that names what cannot be pickled."""
        return late("reduced_function")(self, protocol)


def in_python(names: Iterable[str]) -> dict[str, str]:
    """Names of parameters by those that Python can have for them: no `x!`, and none of its keywords."""
    found: dict[str, str] = {}
    for name in names:
        own = "".join([sign if f"_{sign}".isidentifier() else "_" for sign in name])
        while keyword.iskeyword(own) or own in found:
            own += "_"
        found[own] = name
    return found


def reached(node: ast.Node, environment: Environment) -> Iterator[ast.Node]:
    """A node, and the bodies of the script's functions that it names, transitively."""
    left, known = [(node, environment)], set[int]()
    while left:
        node, environment = left.pop()
        yield node
        for name in {n.name for n in trees.find_all(node, ast.Variable)}:
            value = environment.owner(name).values.get(name)
            if isinstance(value, FinchFunction) and id(value) not in known:
                known.add(id(value))
                left.append((value.definition.body, value.parent))


@record
class LevelName(NamedValue):
    """The name of a level, perhaps with parameters, as a value that makes levels: `Element{0.0}`."""

    parameters: tuple[Any, ...] = ()

    kind: ClassVar[str] = "a level's name"


@record
class MaskName(NamedValue):
    """The name of a mask as a value that makes masks: `UpTriMask`."""

    kind: ClassVar[str] = "a mask's name"


#: the values of names that a script has not bound
PREDEFINED: dict[str, Any] = {
    **OPERATORS,
    **types.TYPES,
    **types.ALIASES,
    **{name: MaskValue(name) if is_bare(name) else MaskName(name) for name in MASKS},
    **{name: LevelName(name) for name in LEVELS},
    **BUILTINS,
    "I": Identity(),
}


def is_of_elements(name: str) -> bool:
    """Whether a name is an operator, which of arrays is written with a dot (for messages of the parser)."""
    return name in OPERATORS and name not in MATRIX


def is_of_wholes(name: str) -> bool:
    return name in BUILTINS and name not in OPERATORS


def check_call(function: Builtin, args: list[Any], keywords: dict[str, Any]) -> None:
    """Raises FinchError "type" if arguments do not fit the signature; of any number one is needed."""
    if isinstance(axis := keywords.get("axis"), int):
        message = f"`{function.name}` takes `dims`, which count from 1, not `axis`"
        hint = f"write `{function.name}(A, dims = {axis + 1 if axis >= 0 else 'ndims(A)'})`"
        raise FinchError("type", message, hint=hint)
    try:
        bound = inspect.signature(function.function).bind(*args, **keywords)
        if len(args) == function.calls and not bound.kwargs and "()" not in function.usage:
            raise TypeError
    except TypeError:
        message = f"this is not how {function.name} is called"
        raise FinchError("type", message, hint=f"{function.usage}: {function.doc}") from None
    except ValueError:
        pass  # a function in C without a signature


_KINDS: dict[type[Exception], str] = {
    IndexError: "bounds",
    OSError: "I/O",
    MemoryError: "resource",
    TypeError: "type",
    ValueError: "type",
    ArithmeticError: "type",
    AttributeError: "type",
}
#: the exceptions that Python and NumPy raise for a user's operands
PYTHON_FAULTS = tuple(_KINDS)


def fault(error: Exception, what: str, span: Span | None) -> FinchError:
    """The error of a user's operands. Raises BrokenPipeError again: an output was closed by its reader."""
    if isinstance(error, BrokenPipeError):
        raise error
    kind = next(name for type, name in _KINDS.items() if isinstance(error, type))
    told = f"{what} does not take these"
    if not isinstance(error, (TypeError, LookupError)):  # which name what is inside
        told = f"{told}: {error}"
    return FinchError(kind, "there is no memory for it" if kind == "resource" else told, span)


# --------------------------------------------------------- types, defaults and names of parameters


def _is_array(order: int | None, value: Any) -> bool:
    if isinstance(value, (list, FinchRange)):
        return order in (None, 1)
    return is_array(value) and order in (None, len(value.shape))


def _is_numeric(kinds: tuple[str, ...], value: Any) -> bool:
    found = types.type_of_value(value)
    return found is not None and found.kind in kinds


#: Julia's names of abstract types, and of types of values that are no numbers
ABSTRACT: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("Any", "Vararg"), lambda value: True),
    "Number": is_number,
    "Real": is_number,
    "Integer": partial(_is_numeric, ("int", "uint", "bool")),
    "AbstractFloat": partial(_is_numeric, ("float",)),
    **dict.fromkeys(("String", "AbstractString"), lambda value: isinstance(value, str)),
    "Tuple": lambda value: isinstance(value, tuple),
    "Dict": lambda value: type(value) is dict,
    "Function": lambda value: isinstance(value, (FinchFunction, Builtin)),
    **dict.fromkeys(("AbstractArray", "Array", "AbstractTensor"), partial(_is_array, None)),
    **dict.fromkeys(("AbstractVector", "Vector"), partial(_is_array, 1)),
    **dict.fromkeys(("AbstractMatrix", "Matrix"), partial(_is_array, 2)),
    "Tensor": lambda value: isinstance(value, (Tensor, SwizzledTensor)),
    "Scalar": lambda value: isinstance(value, Scalar),
}


def check_types(definition: ast.Function) -> None:
    """Raises FinchError "unknown name" for a type that there is not, "type" for equal parameters."""
    names = definition.parameters
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise FinchError("type", f"`{twice}` is a parameter twice", definition.span)
    for _, type in definition.types:
        if type not in ABSTRACT and types.named_type(type) is None:
            hint = "leave it out, or write `Int`, `Float64`, `Number`, `AbstractVector` ..."
            raise FinchError("unknown name", f"there is no type {type}", definition.span, hint)


def refuse_methods(definition: ast.Function, known: Any) -> None:
    """Raises FinchError "type" if a text defines a function again for other types, as methods in Julia."""
    old = known.definition if isinstance(known, FinchFunction) else None
    if old is None or old.span is None or definition.span is None or old is definition:
        return
    if old.span.source is definition.span.source and old.types != definition.types:
        message = f"`{definition.name}` is defined twice: a function has no methods by types"
        hint = f"give one another name, as in `{definition.name}2`"
        raise FinchError("type", message, definition.span, hint)


def arguments(
    function: FinchFunction, args: list[Any], keywords: dict[str, Any], span: Span | None
) -> Environment:
    """The environment of a call, with arguments given in order or by name, and defaults for others, which
    may use earlier parameters. Raises FinchError "type" if they do not fit the parameters."""
    definition = function.definition
    parameters, count = definition.parameters, len(args)
    values = dict(zip(parameters, args, strict=False))
    environment = Environment(function.scope, function.parent, values)
    if count == len(parameters) and not (keywords or definition.types):
        return environment
    kinds = dict(definition.types)
    if kinds and definition.types[-1] == (parameters[-1], "Vararg"):
        values[parameters[-1]] = tuple(args[len(parameters) - 1 :])
        count = min(count, len(parameters))
    for given in keywords:
        if given in values or given not in parameters:
            is_known = given in parameters
            what = f"is given `{given}` twice" if is_known else f"has no parameter `{given}`"
            raise FinchError("type", f"{function} {what}", span)
    is_short = count < len(parameters) and not (keywords or definition.defaults or kinds)
    if is_short or count > len(parameters):
        message = f"{function} takes {number_of(len(parameters), 'argument')}, not {len(args)}"
        raise FinchError("type", message, span)
    values |= keywords
    for parameter in parameters if kinds else parameters[count:]:
        if parameter not in values:
            default = function.defaults.get(parameter)
            if default is None:
                raise FinchError("type", f"{function} is called without `{parameter}`", span)
            values[parameter] = default(environment)
        kind = kinds.get(parameter)
        if kind is not None and not _is(values[parameter], kind):
            what, found = f"`{parameter}` of `{definition.name}`", kind_of(values[parameter])
            raise FinchError("type", f"{what} must be {kind}, not {found}", span)
    return environment


def _is(value: Any, kind: str) -> bool:
    if (check := ABSTRACT.get(kind)) is not None:
        return check(value)
    is_number = isinstance(value, (bool, int, float, np.generic))
    return is_number and types.type_of_value(value) == types.named_type(kind)
