"""Base classes of tensors, with their operators and methods, and checks of formats and shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from finchlang.base.errors import Bug, FinchError
from finchlang.base.late import late
from finchlang.levels.dense import Dense
from finchlang.levels.element import Element, typed_literal
from finchlang.levels.level import Level, Swizzled
from finchlang.syntax.types import Type, foreign, type_of_dtype
from finchlang.tensors.formats import nest_of, parse_format

#: a method of arrays
Method = Callable[..., Any]

#: names that other libraries use, with ours in their place
ELSEWHERE = {
    **dict.fromkeys(("numpy", "values", "A"), "`todense()`"),
    **dict.fromkeys(("to_coo", "asformat"), "`tocoo()`"),
    **dict.fromkeys(("coords", "data", "indices", "row", "col"), "`entries()` of a tensor"),
    **dict.fromkeys(("to_numpy", "to_scipy", "entries", "nnz"), "of `x.compute()`"),
    "getnnz": "`nnz`",
    **dict.fromkeys(("flags", "flat", "strides", "tobytes", "view"), "of `todense()`"),
    "sort": "`finchlang.array.sort(x)`, which gives another array",
}


class NotAnArray(TypeError):
    """An operand is neither an array nor a number."""


def _operator(name: str, is_reflected: bool = False) -> Method:
    """The method of a binary operator, or its reflected one."""

    def method(self: Any, other: Any) -> Any:
        try:
            return late(name)(other, self) if is_reflected else late(name)(self, other)
        except NotAnArray:
            # Python would take NotImplemented of `==` for False
            if isinstance(other, (list, tuple)) and not is_reflected:
                raise
            return NotImplemented

    return method


def _binary(name: str) -> tuple[Method, Method]:
    return _operator(name), _operator(name, True)


def _method(name: str) -> Method:
    def method(self: Any, *args: Any, **keywords: Any) -> Any:
        return late(name)(self, *args, **keywords)

    method.__name__ = name
    method.__doc__ = f"`{name}` of this array, as in `finchlang.array`."
    return method


def _methods(*names: str) -> Iterator[Method]:
    return map(_method, names)


class ArrayMethods:
    """The operators and methods of arrays. As far as a class does not define them itself, they are the
    functions of `finchlang.array`, and so lazy. Raises AttributeError for other names, with ours if there
    is one."""

    __slots__ = ()

    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("subtract")
    __mul__, __rmul__ = _binary("times")
    __truediv__, __rtruediv__ = _binary("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide")
    __mod__, __rmod__ = _binary("remainder")
    __divmod__, __rdivmod__ = _binary("divmod")
    __pow__, __rpow__ = _binary("pow")
    __matmul__, __rmatmul__ = _binary("matmul")
    __and__, __rand__ = _binary("bitwise_and")
    __or__, __ror__ = _binary("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor")
    __lshift__, __rlshift__ = _binary("bitwise_left_shift")
    __rshift__, __rrshift__ = _binary("bitwise_right_shift")
    __eq__, __ne__ = map(_operator, ("equal", "not_equal"))
    __lt__, __le__ = map(_operator, ("less", "less_equal"))
    __gt__, __ge__ = map(_operator, ("greater", "greater_equal"))
    __hash__ = object.__hash__
    __neg__, __pos__, __abs__ = _methods("negative", "positive", "abs")
    __invert__, __getitem__, __setitem__ = _methods("bitwise_invert", "getitem", "setitem")
    __bool__, __int__, __float__ = _methods("to_bool", "to_int", "to_float")
    __complex__, __index__ = _methods("to_complex", "to_index")
    __len__, __iter__, __contains__ = _methods("length", "iterate", "contains")
    __round__, __format__ = _methods("to_round", "to_format")
    __array__, __array_ufunc__ = _methods("array", "array_ufunc")
    __array_function__, __dlpack_device__ = _methods("array_function", "dlpack_device")
    __sizeof__, __dask_tokenize__, _repr_html_ = _methods("sizeof", "dask_token", "html")
    #: above that of SciPy's matrices
    __array_priority__ = 11.0

    sum, prod, mean, var, std = _methods("sum", "prod", "mean", "var", "std")
    min, max, any, all = _methods("min", "max", "any", "all")
    argmin, argmax, argsort, nonzero = _methods("argmin", "argmax", "argsort", "nonzero")
    astype, clip, round, dot = _methods("astype", "clip", "round", "dot")
    take, ravel, repeat, squeeze = _methods("take", "ravel", "repeat", "squeeze")
    reshape, flatten, transpose = _methods("reshaped", "ravel", "transposed")
    diagonal, swapaxes, cumsum, cumprod = _methods("diagonal", "swapaxes", "cumsum", "cumprod")
    multiply, power, maximum, minimum = _methods("multiply", "pow", "maximum", "minimum")
    conj, conjugate, trace, item = _methods("conj", "conj", "trace", "item")
    copy, tolist = _methods("copied", "tolist")
    compute, plan, todense = _methods("compute", "plan", "todense")
    toarray, tocsc, tocsr, tocoo = _methods("toarray", "tocsc", "tocsr", "tocoo")
    matvec, rmatvec = _methods("matvec", "rmatvec")
    T, mT, real, imag = map(property, _methods("transpose", "matrix_transpose", "real", "imag"))
    size, device, nbytes = map(property, _methods("size_of", "device_of", "nbytes"))
    itemsize = property(lambda self: self.dtype.itemsize)

    # with the signatures of the array API standard, which others look at

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """`finchlang.array`. Raises ValueError for a version that it has not."""
        return late("array_namespace")(self, api_version=api_version)

    def __dlpack__(
        self,
        /,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: Any = None,
    ) -> Any:
        """A capsule of a dense copy, as NumPy's."""
        given = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        return late("dlpack")(self, **given)

    def to_device(self, device: str, /, *, stream: Any = None) -> Any:
        """The array itself. Raises ValueError for another device than "cpu"."""
        if device != "cpu":
            raise ValueError(f"there is no device {device!r}")
        return self

    if not TYPE_CHECKING:  # or the type checker would accept every name

        def __getattr__(self, name: str) -> Any:
            kind, known = type(self).__name__, ELSEWHERE.get(name)
            hint = f"; here it is {known}" if known else ""
            raise AttributeError(f"{kind} has no attribute {name!r}{hint}", name=name, obj=self)


MAX_DIMENSION = 2**62
EXAMPLE = 'Tensor("Dense(SparseList(Element(0.0)))", 3, 4)'


class TensorBase(ArrayMethods):
    """The base of tensors, with the operators and methods of NumPy's arrays, as in `finchlang.array`."""

    __slots__ = ()

    format: Any
    shape: Any

    @property
    def order(self) -> int:
        """The number of modes; `ndim` is the same."""
        return self.format.order

    @property
    def fill(self) -> Any:
        """The value of what is not stored; `fill_value` is the same."""
        return self.format.fill.value

    @property
    def dtype(self) -> np.dtype:
        """The NumPy type of the elements."""
        return self.format.element_type.dtype

    ndim = order
    fill_value = property(lambda self: self.fill)

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

    def __repr__(self) -> str:
        size, is_swizzled = "x".join(map(str, self.shape)), isinstance(self.format, Swizzled)
        return f"{size} {self.format}" if is_swizzled else f"{size} Tensor({self.format})"

    def __str__(self) -> str:
        """As `println` prints it: with its elements, if it is small."""
        return late("show")(self)

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
        message = f"{format} has {format.order} modes, {len(shape)} sizes given"
        hint = "a level is one mode: give a size for each, or make a level for each size"
        raise FinchError("dimension", message, hint=hint)
    for size in shape:
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
            way = "a matrix is written `[1 2; 3 4]`" if isinstance(size, list) else None
            raise FinchError("type", f"a size must be an integer, not {foreign(size)}", hint=way)
        if not 0 <= size <= MAX_DIMENSION:
            raise FinchError("dimension", f"a size must be in 0..{MAX_DIMENSION}, not {size}")
    return tuple(int(size) for size in shape)


def size_text(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "()"


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
    """The format of a NumPy array as it is: Dense in every mode, fill 0. Raises FinchError "type" for what
    no tensor holds."""
    element = element_of("arrays", dtype)
    leaf = Element(typed_literal(element.wrap(np.zeros((), element.dtype)[()]), element))
    return nest_of([True] * order, leaf)
