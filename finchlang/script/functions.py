"""Values that scripts can call: functions of the script, names of levels and masks; the predefined names;
and Python's exceptions in a call as FinchErrors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from finchlang.base.errors import FinchError, Span
from finchlang.calls.environment import Environment, Scope
from finchlang.operators.operator_table import OPERATORS
from finchlang.script.builtins import BUILTINS
from finchlang.script.values import Builtin
from finchlang.syntax import nodes as ast, types
from finchlang.syntax.user_function import Laws
from finchlang.tensors.formats import LEVELS
from finchlang.wrappers.masks import MASKS


@dataclass(eq=False)
class FinchFunction:
    """A function of the script: its scope, the environment in which it was defined, and its body, to be
    run in an environment of that scope. `closed` caches the operator made of it (`as_operator.Closed`),
    `laws` are declared of it, `defaults` give the values of parameters that a call leaves out."""

    definition: ast.Function
    scope: Scope
    parent: Environment
    body: Callable[[Environment], Any]
    closed: Any = None
    laws: Laws = Laws()
    defaults: Mapping[str, Callable[[Environment], Any]] = field(default_factory=dict)

    kind: ClassVar[str] = "a function"

    def __str__(self) -> str:
        return f"{self.definition.name}({', '.join(self.definition.parameters)})"

    def __copy__(self, memo: object = None) -> FinchFunction:
        return self  # as copies of Python functions are

    __deepcopy__ = __copy__

    def __reduce__(self) -> Any:
        message = f"`{self}` is a function of a script, which cannot be pickled"
        raise FinchError("type", message, hint="`finchlang.kernel(text)` makes one that can")


@dataclass(frozen=True)
class LevelName:
    """The name of a level, perhaps with parameters, as a value that makes levels: `Dense`,
    `Element{0.0}`."""

    name: str
    parameters: tuple[Any, ...] = ()

    kind: ClassVar[str] = "a level's name"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class MaskName:
    """The name of a mask as a value that makes masks: `UpTriMask`."""

    name: str

    kind: ClassVar[str] = "a mask's name"

    def __str__(self) -> str:
        return self.name


#: the values of names that a script has not bound
PREDEFINED: dict[str, Any] = {
    **OPERATORS,
    **types.TYPES,
    **types.ALIASES,
    **{name: MaskName(name) for name in MASKS},
    **{name: LevelName(name) for name in LEVELS},
    **BUILTINS,
}


def check_call(function: Builtin, args: list[Any], keywords: dict[str, Any]) -> None:
    """Raises FinchError "type" if the arguments do not fit the function's signature."""
    try:
        inspect.signature(function.function).bind(*args, **keywords)
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
    kind = next(name for type, name in _KINDS.items() if isinstance(error, type))
    is_memory = kind == "resource"
    told = "there is no memory for it" if is_memory else f"{what} does not take these: {error}"
    return FinchError(kind, told, span)
