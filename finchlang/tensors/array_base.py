"""Base classes of tensors, with their operators and methods, and checks of formats and shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from finchlang.base.errors import Bug, FinchError
from finchlang.base.late import late
from finchlang.levels.dense import Dense
from finchlang.levels.element import Element, typed_literal
from finchlang.levels.level import Level
from finchlang.syntax.types import Type, foreign, type_of_dtype
from finchlang.tensors.formats import parse_format

#: a method of arrays
Method = Callable[..., Any]

#: names that other libraries use, with ours in their place
ELSEWHERE = {
    **dict.fromkeys(
        ("toarray", "numpy", "values", "A"), "`todense()`, or `to_numpy()` of a tensor"
    ),
    **dict.fromkeys(("tocsc", "tocsr", "tocoo", "to_coo", "asformat"), "`to_scipy()` of a tensor"),
    **dict.fromkeys(("coords", "data", "indices", "row", "col"), "`entries()` of a tensor"),
    "multiply": "`*`",
    **dict.fromkeys(("to_numpy", "to_scipy", "entries", "nnz", "copy"), "of `x.compute()`"),
    "item": "`float(x)` or `int(x)`",
    "getnnz": "`nnz`",
}


class NotAnArray(TypeError):
    """An operand is neither an array nor a number."""


def _binary(name: str) -> tuple[Method, Method]:
    """The method of a binary operator, and its reflected one."""

    def method(self: Any, other: Any) -> Any:
        try:
            return late(name)(self, other)
        except NotAnArray:
            # Python would take NotImplemented of `==` for False
            if isinstance(other, (list, tuple)):
                raise
            return NotImplemented

    def reflected(self: Any, other: Any) -> Any:
        try:
            return late(name)(other, self)
        except NotAnArray:
            return NotImplemented

    return method, reflected


def _method(name: str) -> Method:
    def method(self: Any, *args: Any, **keywords: Any) -> Any:
        return late(name)(self, *args, **keywords)

    method.__name__ = name
    method.__doc__ = f"`{name}` of this array, as in `finchlang.array`."
    return method


class ArrayMethods:
    """The operators and methods of arrays. As far as a class does not define them itself, they are the
    functions of `finchlang.array`, and so lazy. Raises AttributeError for other names, with ours if there
    is one."""

    __slots__ = ()

    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("subtract")
    __mul__, __rmul__ = _binary("multiply")
    __truediv__, __rtruediv__ = _binary("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide")
    __mod__, __rmod__ = _binary("remainder")
    __pow__, __rpow__ = _binary("pow")
    __matmul__, __rmatmul__ = _binary("matmul")
    __and__, __rand__ = _binary("bitwise_and")
    __or__, __ror__ = _binary("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor")
    __lshift__, __rlshift__ = _binary("bitwise_left_shift")
    __rshift__, __rrshift__ = _binary("bitwise_right_shift")
    __eq__ = _binary("equal")[0]
    __ne__ = _binary("not_equal")[0]
    __lt__ = _binary("less")[0]
    __le__ = _binary("less_equal")[0]
    __gt__ = _binary("greater")[0]
    __ge__ = _binary("greater_equal")[0]
    __hash__ = object.__hash__
    __neg__, __pos__ = _method("negative"), _method("positive")
    __abs__, __invert__ = _method("abs"), _method("bitwise_invert")

    sum, prod, mean = _method("sum"), _method("prod"), _method("mean")
    min, max, any, all = _method("min"), _method("max"), _method("any"), _method("all")
    var, std = _method("var"), _method("std")
    argmin, argmax, take = _method("argmin"), _method("argmax"), _method("take")
    astype, clip, round = _method("astype"), _method("clip"), _method("round")
    compute, plan, todense = _method("compute"), _method("plan"), _method("todense")
    ravel, repeat, squeeze = _method("ravel"), _method("repeat"), _method("squeeze")
    diagonal, swapaxes = _method("diagonal"), _method("swapaxes")
    dot, argsort, nonzero = _method("dot"), _method("argsort"), _method("nonzero")
    cumsum, cumprod = _method("cumsum"), _method("cumprod")
    T, mT = property(_method("transpose")), property(_method("matrix_transpose"))
    size, device = property(_method("size_of")), property(_method("device_of"))

    __getitem__ = _method("getitem")
    __setitem__ = _method("setitem")
    __array_ufunc__ = _method("array_ufunc")
    __array_function__ = _method("array_function")
    __array__ = _method("array")
    __array_namespace__ = _method("array_namespace")
    __bool__, __int__ = _method("to_bool"), _method("to_int")
    __float__, __index__ = _method("to_float"), _method("to_index")
    __complex__ = _method("to_complex")
    __len__, __iter__ = _method("length"), _method("iterate")
    to_device, transpose = _method("to_device"), _method("transposed")
    reshape, flatten = _method("reshaped"), _method("flattened")
    __dlpack__, __dlpack_device__ = _method("dlpack"), _method("dlpack_device")
    _repr_html_ = _method("html")

    if not TYPE_CHECKING:  # or the type checker would accept every name

        def __getattr__(self, name: str) -> Any:
            kind, known = type(self).__name__, ELSEWHERE.get(name)
            hint = f"; here it is {known}" if known else ""
            message = f"{kind} has no attribute {name!r}{hint}"
            raise AttributeError(message, name=name, obj=self)


MAX_DIMENSION = 2**62
EXAMPLE = 'Tensor("Dense(SparseList(Element(0.0)))", 3, 4)'


class TensorBase(ArrayMethods):
    """The base of all tensors. Operators and methods that NumPy's arrays have too are those of
    `finchlang.array`."""

    __slots__ = ()

    shape: Any
    fill: Any
    dtype: Any

    @property
    def fill_value(self) -> Any:
        """The value of what is not stored: `fill`."""
        return self.fill

    @property
    def size(self) -> int:
        """How many elements there are, stored or not."""
        return math.prod(self.shape)

    @property
    def nnz(self) -> int:
        """How many leaves are stored, also those that equal the fill; of a run, one."""
        return self.countstored()

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays that it is stored in, as far as they are in use."""
        return self.dtype.itemsize

    def countstored(self) -> int:
        """The number of stored leaves: of a run, one."""
        return 1

    def copy(self) -> Self:
        """A tensor of the same format that shares no memory with this one."""
        raise Bug(f"{type(self).__name__} lacks an operation of tensors")


class LazyTensor(ArrayMethods):
    """A tensor that is not computed yet; other attributes are those of the computed tensor."""

    def materialized(self, format: Level | None = None) -> Any:
        """The computed tensor, in `format` if that is given."""
        raise Bug(f"{type(self).__name__} lacks an operation of tensors")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.materialized(), name)


def format_of(format: Any) -> Level:
    """A format, given as a Level or as text. Raises FinchError as `parse_format`, "type" for another
    value."""
    if isinstance(format, str):
        return parse_format(format)
    if isinstance(format, Level):
        return format
    message = f"a format is a text or a Level, not a {type(format).__name__}"
    raise FinchError("type", message, None, EXAMPLE)


def checked_shape(format: Level, shape: tuple[Any, ...]) -> tuple[int, ...]:
    if len(shape) != format.order:
        raise FinchError(
            "dimension", f"{format} has {format.order} modes, {len(shape)} sizes given"
        )
    for size in shape:
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
            raise FinchError("type", f"a size must be an integer, not {foreign(size)}")
        if not 0 <= size <= MAX_DIMENSION:
            raise FinchError("dimension", f"a size must be in 0..{MAX_DIMENSION}, not {size}")
    return tuple(int(size) for size in shape)


def size_text(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "0"


def is_whole(format: Level) -> bool:
    """Whether a format is Dense in every mode over an Element."""
    *levels, leaf = format.levels()
    return isinstance(leaf, Element) and all(isinstance(level, Dense) for level in levels)


def element_of(what: str, dtype: np.dtype) -> Type:
    """The element type of `what` of this type. Raises FinchError "type" if tensors have none."""
    element = type_of_dtype(dtype)
    if element is None:
        raise FinchError("type", f"{what} of {dtype} have no element type here")
    return element


def dense_format(dtype: np.dtype, order: int) -> Level:
    """The format of a NumPy array as it is: Dense in every mode, fill 0.

    Raises FinchError "type" for what no tensor holds.
    """
    element = element_of("arrays", dtype)
    level: Level = Element(typed_literal(element.wrap(np.zeros((), element.dtype)[()]), element))
    for _ in range(order):
        level = Dense(level)
    return level
