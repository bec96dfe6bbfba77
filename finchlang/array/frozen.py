"""Arrays that are computed: each function of one gives another at once, so that they serve as chunks of
`dask.array`, whose tasks keep results and not expressions."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from finchlang.array.compute import compute, todense
from finchlang.array.expression import Array
from finchlang.array.operands import as_expression
from finchlang.tensors.array_base import ArrayMethods

__all__ = ["FrozenArray", "frozen"]


class FrozenArray(Array):
    """An array that is computed and never changed. Operators, methods and NumPy's functions of it give
    frozen arrays, and NumPy's numbers in place of arrays without dimensions; functions of
    `finchlang.array` give lazy ones. Pickled by the buffers of its tensor, once."""

    __slots__ = ()

    def __repr__(self) -> str:
        return super().__repr__().replace("lazy", "frozen", 1)

    def __reduce__(self) -> Any:
        return FrozenArray, (self.node,)

    def copy(self) -> FrozenArray:
        """The array itself, as it never changes."""
        return self


def frozen(x: Any, /) -> Any:
    """A tensor, array or matrix as a frozen array: a copy, or what is computed of a lazy one; a number of
    NumPy if it has no dimensions. `dask.array.from_array(frozen(T), chunks)` cuts it into chunks."""
    if isinstance(x, FrozenArray):
        return x
    node = as_expression(x)
    if not node.shape:
        return todense(Array(node))[()]
    return FrozenArray(as_expression(compute(Array(node))))


def _results(found: Any) -> Any:
    if isinstance(found, (tuple, list)):
        parts = map(_results, found)
        return type(found)(*parts) if hasattr(found, "_fields") else type(found)(parts)
    return frozen(found) if type(found) is Array else found


def _at_once(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def own(self: Any, *args: Any, **keywords: Any) -> Any:
        return _results(method(self, *args, **keywords))

    return own


for _name, _method in vars(ArrayMethods).items():
    if isinstance(_method, property) and _method.fget is not None:
        setattr(FrozenArray, _name, property(_at_once(_method.fget)))
    elif callable(_method) and _name not in {
        *vars(FrozenArray),
        "__dask_tokenize__",
        "__getattr__",
        "__hash__",
    }:
        setattr(FrozenArray, _name, _at_once(_method))
