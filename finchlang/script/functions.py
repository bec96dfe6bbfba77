"""What scripts call besides built-in functions, and how faults of a call are told to the user."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

from finchlang.base.errors import FinchError, Span
from finchlang.calls.environment import Environment, Scope
from finchlang.operators.operator_table import OPERATORS
from finchlang.script.builtins import BUILTINS, Builtin
from finchlang.syntax.nodes import Function
from finchlang.syntax.types import ALIASES, TYPES
from finchlang.syntax.user_function import Laws
from finchlang.tensors.formats import LEVELS
from finchlang.wrappers.masks import MASKS


@dataclass(eq=False)
class FinchFunction:
    """A function of the script: its scope, the environment it was made in, and its body, ready to
    run in an environment of that scope. `closed` is what kernels made of it (`closing.Closed`),
    `laws` what is declared of it, `defaults` what parameters are that are left out."""

    definition: Function
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
        return self  # as functions are

    __deepcopy__ = __copy__

    def __reduce__(self) -> Any:
        message = f"`{self}` is a function of a script, which cannot be pickled"
        raise FinchError("type", message, hint="`finchlang.kernel(text)` makes one that can")


@dataclass(frozen=True)
class LevelName:
    """What makes levels: `Dense`, or with parameters `Element{0.0}`."""

    name: str
    parameters: tuple[Any, ...] = ()

    kind: ClassVar[str] = "a level's name"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class MaskName:
    """What makes masks: `UpTriMask`."""

    name: str

    kind: ClassVar[str] = "a mask's name"

    def __str__(self) -> str:
        return self.name


#: What names mean that a script has not bound.
PREDEFINED: dict[str, Any] = {
    **OPERATORS,
    **TYPES,
    **ALIASES,
    **{name: MaskName(name) for name in MASKS},
    **{name: LevelName(name) for name in LEVELS},
    **BUILTINS,
}


@cache
def signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def check_call(function: Builtin, args: list[Any], keywords: dict[str, Any]) -> None:
    """Raise FinchError "type" unless the function takes so many arguments of these names."""
    try:
        signature(function.function).bind(*args, **keywords)
    except TypeError:
        message = f"this is not how {function.name} is called"
        raise FinchError("type", message, hint=f"{function.usage}: {function.doc}") from None
    except ValueError:
        pass  # a function of C's without a signature


_KINDS: dict[type[Exception], str] = {
    IndexError: "bounds",
    OSError: "I/O",
    MemoryError: "resource",
    TypeError: "type",
    ValueError: "type",
    ArithmeticError: "type",
    AttributeError: "type",
}
#: what Python raises where a user's operands do not suit
PYTHON_FAULTS = tuple(_KINDS)


def fault(error: Exception, what: str, span: Span | None) -> FinchError:
    """What Python says about a user's operands as an error of the user's."""
    kind = next(name for type, name in _KINDS.items() if isinstance(error, type))
    return FinchError(kind, f"{what} does not take these: {error}", span)
