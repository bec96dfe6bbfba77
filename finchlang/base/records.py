"""`@record`: a frozen dataclass whose methods are compiled when the first of them is called.

A dataclass compiles up to seven methods when its class is made, and a program has 200 such classes, most of
which make no object in one run: half of the time of an import. `fields`, `replace`, `match`, pickling and
copying of records are those of dataclasses. What users derive classes from stays a dataclass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from functools import partial
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform, overload

C = TypeVar("C", bound=type)


@overload
def record(cls: C) -> C: ...
@overload
def record(*, eq: bool = ..., slots: bool = ..., weakref_slot: bool = ...) -> Callable[[C], C]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(
    cls: Any = None, *, eq: bool = True, slots: bool = False, weakref_slot: bool = False
) -> Any:
    """The class as a frozen dataclass; `eq=False` leaves equality and hash as they are inherited."""
    if cls is None:
        return partial(record, eq=eq, slots=slots, weakref_slot=weakref_slot)
    own = {name for name, value in vars(cls).items() if value is not None}
    made = dataclass(init=False, repr=False, eq=False, slots=slots, weakref_slot=weakref_slot)(cls)
    compiled = [n for n in ("__init__", *(("__eq__", "__hash__") if eq else ())) if n not in own]
    methods: dict[str, Any] = {name: _compiled_later(made, name, compiled) for name in compiled}
    methods |= {"__repr__": _repr, "__setattr__": _refuse, "__delattr__": _refuse}
    if slots:
        methods["__setstate__"] = _set_state
    for name in methods.keys() - own:
        setattr(made, name, methods[name])
    return made


def _compiled_later(cls: type, name: str, compiled: list[str]) -> Callable[..., Any]:
    def method(self: object, *values: Any, **named: Any) -> Any:
        known: dict[str, Any] = {"put": object.__setattr__, "MISSING": MISSING}
        exec("\n".join(_text(cls, known)), known)
        for each in compiled:
            known[each].__qualname__ = f"{cls.__qualname__}.{each}"
            setattr(cls, each, known[each])
        return known[name](self, *values, **named)

    return method


def _text(cls: type, known: dict[str, Any]) -> Iterator[str]:
    """The lines of the methods; the values they use are added to `known`."""
    parameters: dict[bool, list[str]] = {False: ["self"], True: []}  # the latter by keyword only
    body = []
    for f in fields(cls):
        default, value = "", f.name
        if f.default is not MISSING:
            known[f"default_{f.name}"] = f.default
            default = f"=default_{f.name}"
        elif f.default_factory is not MISSING:
            known[f"make_{f.name}"] = f.default_factory
            default, value = "=MISSING", f"make_{f.name}() if {f.name} is MISSING else {f.name}"
        parameters[bool(f.kw_only)].append(f.name + default)
        body.append(f" put(self, '{f.name}', {value})")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    given = [*parameters[False], *(["*", *parameters[True]] if parameters[True] else [])]
    yield f"def __init__({', '.join(given)}):"
    yield from body or [" pass"]
    own, other = (
        "".join(f"{one}.{f.name}, " for f in fields(cls) if f.compare) for one in ("self", "other")
    )
    yield "def __eq__(self, other):"
    yield f" return ({own}) == ({other}) if other.__class__ is self.__class__ else NotImplemented"
    yield "def __hash__(self):"
    yield f" return hash(({own}))"


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse(self: object, name: str, *value: Any) -> None:
    raise FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")


def _set_state(self: object, state: Any) -> None:
    """Restore from a pickle or a copy what slots, and the dictionary of a base class, hold."""
    for part in state if isinstance(state, tuple) else (state,):
        for name, value in (part or {}).items():
            object.__setattr__(self, name, value)
