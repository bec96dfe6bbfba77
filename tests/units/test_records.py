"""Records are frozen dataclasses: each row is an object made both ways, which nothing can tell apart."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pytest

from finchlang.base.records import record


def _classes(decorate: Callable[..., Any], slots: bool) -> dict[str, type]:
    @decorate(slots=slots)
    class Spanned:
        """With a field that takes no part in comparison, and is given by its name alone."""

        span: Any = field(default=None, compare=False, repr=False, kw_only=True)

    @decorate(slots=slots)
    class Heir(Spanned):
        a: int
        made: list = field(default_factory=list)

    @decorate(slots=slots, eq=False)
    class Same(Spanned):
        a: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Same) and self.a % 10 == other.a % 10

        def __hash__(self) -> int:
            return self.a % 10

    @decorate(slots=slots)
    class Checked:
        a: int
        b: Any = ()

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError("less than 0")

    return {c.__name__: c for c in (Spanned, Heir, Same, Checked)}


def _dataclass(slots: bool, eq: bool = True) -> Any:
    return dataclass(frozen=True, slots=slots, eq=eq)


#: a class, its positional arguments and those by name
CASES: list[tuple[str, tuple, dict[str, Any]]] = [
    *(("Checked", given, {}) for given in ((), (1,), (1, 2), (1, 2, 3), (-1,))),
    *(("Checked", (), given) for given in ({"b": 3, "a": 4}, {"a": 1, "c": 2})),
    *(("Spanned", (), {"span": 5}), ("Spanned", (5,), {})),
    *(("Heir", (1,), {"span": 2}), ("Heir", (1, [2]), {})),
    *(("Same", (11,), {}), ("Same", (21,), {"span": 1})),
]


def _told(attempt: Callable[[], Any]) -> Any:
    try:
        return attempt()
    except Exception as error:
        return type(error), str(error).replace("_classes.<locals>.", "")


def _seen(made: Any, cls: type) -> Any:
    """All that can be seen of an object."""
    if not isinstance(made, cls):
        return made
    values = {f.name: getattr(made, f.name) for f in fields(made)}
    told = [_told(lambda: repr(made)), _told(lambda: hash(made)), values, cls.__match_args__]
    told += [made == copy.copy(made), made == replace(made), made == 1, hasattr(cls, "__slots__")]
    for name in values:
        told.append(_told(lambda name=name: setattr(made, name, 1))[0])  # type: ignore[misc]
        told.append(_told(lambda name=name: delattr(made, name))[0])  # type: ignore[misc]
    return told


@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize(("name", "values", "named"), CASES)
def test_a_record_is_a_frozen_dataclass(
    name: str, values: tuple, named: dict[str, Any], slots: bool
) -> None:
    one, other = (_classes(d, slots)[name] for d in (record, _dataclass))
    seen = [_seen(_told(lambda c=c: c(*values, **named)), c) for c in (one, other)]  # type: ignore
    assert seen[0] == seen[1]
    assert [f.name for f in fields(one)] == [f.name for f in fields(other)]


@record(slots=True)
class Kept:
    a: int
    b: list = field(default_factory=list)


def test_pickles_and_copies() -> None:
    made = Kept(1, [2])
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(made, protocol)) == made != Kept(2, [2])
    assert (deep := copy.deepcopy(made)) == made and deep.b is not made.b
