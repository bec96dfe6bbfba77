"""Values of scripts: ranges, operators on numbers and arrays, equality, truth and array literals."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial, reduce
from itertools import starmap
from typing import Any, ClassVar, NamedTuple

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.base.locks import cached_property
from finchlang.base.records import record
from finchlang.host.ir import Var
from finchlang.host.primitives import as_function
from finchlang.operators.operator import wrong_count
from finchlang.operators.operator_table import OPERATORS, Operator
from finchlang.script.show import check_depth, joined, kind_of, repeated, text
from finchlang.syntax.nodes import MISSING
from finchlang.syntax.types import (
    TYPES,
    Bool,
    Float64,
    Int64,
    Pair,
    Type,
    number,
    promote,
    type_of_value,
)
from finchlang.tensors.adopt import as_tensor, is_scipy
from finchlang.tensors.array_base import LazyTensor, is_whole
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor, body_of
from finchlang.text.meant import COMPARED, EXCHANGED, FORMATTED, JOINED, PARSED, REPEATED


@record
class NamedValue:
    """A value that is printed as its name."""

    name: str

    def __str__(self) -> str:
        return self.name


@record
class Builtin(NamedValue):
    """A built-in function. One that `calls` functions of the script, or prints, gets a `Caller` as its
    first argument. One that `is_lazy` is in the table of array functions, too, for arguments that are not
    computed yet; another `takes_lazy` if it needs no values of such arguments."""

    function: Callable[..., Any]
    calls: bool = False
    is_lazy: bool = False
    takes_lazy: bool = False

    kind: ClassVar[str] = "a function"

    usage = property(lambda self: self.told[0])
    doc = property(lambda self: self.told[1])

    @property
    def told(self) -> tuple[str, str]:
        """How it is called, and what it does, in the manual's words; a negation, `!f`, is not in it."""
        from finchlang.text import manual  # not needed where nothing is wrong

        if self.name[0] == "!":
            return f"{self.name}(x...)", "whether it is not so"
        said = manual.words()[self.name].text.rstrip(".").replace("\n", " ")
        said = f"A{said[3:]}" if said.startswith("`A` ") else said[0].lower() + said[1:]
        return manual.signature_of(self.name), said


class Builtins(dict[str, Builtin]):
    """Built-in functions by name; operators, levels and element types are in tables of their own."""

    def add(self, name: str, function: Any = None, **keywords: bool) -> Any:
        """Adds a function; without one it is a decorator. `keywords` as in Builtin."""
        if function is None:
            return partial(self.add, name, **keywords)
        self[name] = Builtin(name, function, **keywords)
        return function


@record
class FinchRange:
    """`start:stop` or `start:step:stop`: the numbers from start by step up to and including stop. Raises
    FinchError "type" for a step of 0, or bounds that are no finite numbers."""

    start: Any
    step: Any
    stop: Any

    kind: ClassVar[str] = "a range"

    def __post_init__(self) -> None:
        for part in (self.start, self.step, self.stop):
            if isinstance(part, (bool, np.bool_)) or type_of_value(part) is None:
                hint = 'a pair is written `"a" => 1`' if isinstance(part, str) else None
                raise FinchError("type", f"a range is of numbers, not {kind_of(part)}", hint=hint)
        if self.step == 0:
            raise FinchError("type", "the step of a range cannot be 0")
        if not all(math.isfinite(part) for part in (self.start, self.step, self.stop)):
            raise FinchError("type", "a range must be finite")

    def __str__(self) -> str:
        parts = (self.start, self.stop) if self.step == 1 else (self.start, self.step, self.stop)
        return ":".join(map(text, parts))

    @cached_property
    def _exact(self) -> tuple[Any, Any, Any]:
        """Start, step and stop, with integers as Python's, which do not overflow."""
        parts = (self.start, self.step, self.stop)
        start, step, stop = (p.item() if isinstance(p, np.integer) else p for p in parts)
        return start, step, stop

    @cached_property
    def _parts(self) -> tuple[int, int, int] | None:
        """Start and step in parts of a whole, and the whole, of a range such as 0:0.1:1, whose third
        element is 0.2 and whose fourth is 0.3; None if they are no simple fractions."""
        from fractions import Fraction  # late: few ranges are of floats

        start, step, _ = self._exact
        are_plain = type(start) in (int, float) and type(step) in (int, float)
        if not are_plain or type(start) is type(step) is int:
            return None
        first, by = (Fraction(part).limit_denominator(1_000_000) for part in (start, step))
        if float(first) != start or float(by) != step:
            return None
        whole = math.lcm(first.denominator, by.denominator)
        return int(first * whole), int(by * whole), whole

    def __len__(self) -> int:
        return self._length

    @cached_property
    def _length(self) -> int:
        start, step, stop = self._exact
        if all(isinstance(part, int) for part in (start, step, stop)):
            count = (stop - start) // step + 1
        else:  # a stop that is missed only by rounding is included
            steps = (stop - start) / step + 1e-9
            count = math.floor(steps) + 1 if math.isfinite(steps) else sys.maxsize + 1
        if count > sys.maxsize:
            raise FinchError("resource", f"the range {self} has too many elements")
        return max(0, count)

    def after(self, count: int) -> FinchRange:
        """The range without its first elements."""
        return FinchRange(self[count], self.step, self.stop) if count else self

    def __getitem__(self, k: int) -> Any:
        if not 0 <= k < len(self):
            raise IndexError(k)
        return self._element(k)

    def __iter__(self) -> Iterator[Any]:
        return map(self._element, range(len(self)))

    @property
    def slice(self) -> slice:
        """The indices that a range of integers stands for, counted from 0."""
        if not len(self):
            return slice(0, 0)
        start, step, _ = self._exact
        after = start + (len(self) - 1) * step - 1 + (1 if step > 0 else -1)
        return slice(start - 1, None if after < 0 else after, step)

    @property
    def numbers(self) -> np.ndarray | None:
        """The elements as an array, if its numbers are Python's."""
        count = np.arange(len(self))
        if self._parts is not None:
            first, by, whole = self._parts
            is_exact = abs(first) + abs(by) * len(self) < 1 << 53
            return (first + count * by) / whole if is_exact else None
        start, step, _ = self._exact
        are_integers = type(self.start) is type(self.step) is int
        return start + count * step if are_integers else None

    def _element(self, k: int) -> Any:
        start, step, _ = self._exact
        if self._parts is not None:
            first, by, whole = self._parts
            return (first + k * by) / whole
        is_narrow = isinstance(self.start, np.integer) and type(self.start) is type(self.stop)
        return type(self.start)(start + k * step) if is_narrow else start + k * step


# ---------------------------------------------------------------------------------------- numbers


def is_number(value: Any) -> bool:
    return type_of_value(value) is not None


#: the types whose numbers scripts keep as Python's
PYTHONS = (np.int64, np.float64, np.bool_)


def plain(value: Any) -> Any:
    """A number as scripts keep it: Int64, Float64 and Bool as Python's numbers, other types as NumPy's."""
    if isinstance(value, np.generic) and value.dtype in PYTHONS:
        return value.item()
    return Pair(*value.item()) if isinstance(value, np.void) else value


def held(scalar: Scalar) -> Any:
    """The value of a Scalar as scripts keep numbers."""
    return number(scalar.value, scalar.format.element_type)


def is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, Tensor, SwizzledTensor, LazyTensor)) or is_scipy(value)


def dense(value: Any) -> np.ndarray:
    """An array or tensor as a NumPy array; a NumPy array itself (np.matrix without its own rules)."""
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    tensor: Any = as_tensor(value) if is_scipy(value) else value
    return tensor.to_numpy()


def as_array(value: Any) -> Any:
    """A value with entries as an array (NumPy would take pairs apart); if not of numbers as a vector."""
    if is_array(value):
        return dense(value)
    items = [*entries(value)]
    return shaped(items) if items else np.empty(0)


def reduced(ufunc: Callable[[np.ndarray], Any], value: Any) -> Any:
    """np.sum, np.max or np.min of an array or tensor, with the fill once for each place not stored."""
    body = body_of(value)
    if not isinstance(body, Tensor) or is_whole(body.format):
        return ufunc(dense(value))
    values = body.entries()[1]
    fill, others = np.full(1, body.fill, body.dtype), math.prod(body.shape) - len(values)
    if ufunc is not np.sum:
        return ufunc(np.concatenate([values, fill[: others > 0]]))
    if not others or not fill[0]:
        return ufunc(values)
    total, rest = np.array([ufunc(values), ufunc(fill)])[:, None]  # arrays overflow without warning
    return (total + rest * rest.dtype.type(others))[0]


class Scattered(NamedTuple):
    """Entries that have all values of a tensor: those that it stores, and the first other one, which is
    the one numbered `fill`, or None. `places` are column-major, from 0, and ascend."""

    places: np.ndarray
    values: np.ndarray
    fill: int | None


def scattered(value: Any) -> Scattered | None:
    """What there is to look at of a tensor whose entries are not all stored; None for another value."""
    tensor = as_tensor(value) if is_scipy(value) or isinstance(value, LazyTensor) else value
    if not isinstance(tensor, (Tensor, SwizzledTensor)) or is_whole(body_of(tensor).format):
        return None
    if (size := math.prod(tensor.shape)) >= 1 << 62:
        return None
    coordinates, values = tensor.entries()
    places = np.ravel_multi_index(tuple(coordinates), tensor.shape, order="F")
    order = np.argsort(places)
    places, values = places[order], values[order]
    gaps = np.flatnonzero(places != np.arange(len(places)))
    first = int(gaps[0]) if len(gaps) else len(places)
    if first == size:
        return Scattered(places, values, None)
    places, values = (np.insert(x, first, y) for x, y in ((places, first), (values, tensor.fill)))
    return Scattered(places, values, first)


def shape_of(value: Any) -> tuple[int, ...] | None:
    """The sizes of an array or Scalar, also of one that is not computed, or the length of a vector, tuple,
    range, string or dictionary; None for others."""
    if is_array(value) or isinstance(value, Scalar) or hasattr(value, "is_kept"):
        return tuple(value.shape)
    return (len(value),) if isinstance(value, (list, tuple, FinchRange, str, dict)) else None


def sizes(value: Any, fault: str = "has no size") -> tuple[int, ...]:
    """As `shape_of`. Raises FinchError "type", with what is wrong, for another value."""
    shape = shape_of(value)
    if shape is None:
        raise FinchError("type", f"{kind_of(value)} {fault}")
    return shape


def entries(value: Any) -> Iterable[Any]:
    """The entries of a value, in order: of an array column-major, of a dictionary its pairs, of a string
    its characters. Raises FinchError "type" for a value without entries."""
    if isinstance(value, (list, tuple, FinchRange, str)):
        return value
    if is_array(value):
        flat = dense(value).flatten(order="F")
        return flat.tolist() if flat.dtype in PYTHONS else map(plain, flat)
    if type(value) is dict:
        return [*starmap(Pair, value.items())]
    kind = kind_of(value)
    hint = "a range is written `1:3`" if is_number(value) else None
    hint = EXCHANGED if kind == "a function" else hint
    raise FinchError("type", f"{kind} has no entries", hint=hint)


def entries_now(value: Any) -> Iterable[Any]:
    """As `entries`, each as it is when it is taken: what a loop does to an array is seen in it."""
    if isinstance(value, np.ndarray) and value.dtype in PYTHONS:
        return map(value.T.item, range(value.size))
    return entries(value)


#: a range of so many numbers is made an array for a loop
MOST_NUMBERS = 1 << 24


def columns(value: Any, count: int) -> list[np.ndarray]:
    """The entries of a value, each taken apart into `count` numbers, as arrays; the array itself if it is
    one. None if they are no numbers of one type each."""
    if isinstance(value, np.ndarray) and value.dtype in PYTHONS and count == 1:
        flat = np.asarray(value).T.reshape(-1)
        return [flat] if value.ndim == 1 or flat.base is not None else []
    if isinstance(value, FinchRange):
        value = value.numbers if len(value) <= MOST_NUMBERS else None
        return [] if value is None or count > 1 else [value]
    if type(value) is dict:
        value = entries(value)
    if not isinstance(value, (list, tuple)) or not value:
        return []
    parts: list[Any] = [value]
    if count > 1:
        kinds = {*map(type, value)}
        if not kinds <= {tuple, Pair} or len({*map(len, value)}) > 1:
            return []
        parts = [*zip(*value, strict=True)]
    types = [{*map(type, part)} for part in parts]
    if len(parts) < count or any(len(kind) > 1 or not kind <= {*PLAIN} for kind in types):
        return []
    pairs = zip(parts, types, strict=True)
    return [np.array(part, PLAIN[kind.pop()].dtype) for part, kind in pairs]


#: the element types of Python's own numbers
PLAIN = {int: Int64, float: Float64, bool: Bool}


class PlainFunctions(dict[tuple[type, ...], Callable[..., Any] | None]):
    """By the types of arguments, all Python's own numbers or strings, the function that applies an operator
    to them directly; None if their values must be looked at first."""

    def __init__(self, op: Operator):
        self.op = op

    def __missing__(self, kinds: tuple[type, ...]) -> Callable[..., Any] | None:
        types, (low, high) = tuple(PLAIN[kind] for kind in kinds if kind in PLAIN), self.op.arity
        found: Callable[..., Any] | None = None
        if kinds == (str, str):
            found = {"==": operator.eq, "!=": operator.ne}.get(self.op.name)
        elif len(types) == len(kinds) and low <= len(kinds) <= high:
            with suppress(FinchError):  # reported when the operator is applied, with its place
                function, result = on_types(self.op, types)
                found = function if result in PLAIN.values() else None
        self[kinds] = found
        return found


#: the PlainFunctions of an operator, one object for each
plain_functions = cache(PlainFunctions)


def operate(op: Operator, args: list[Any]) -> Any:
    """An operator of the table on values: numbers by the table, arithmetic of arrays by NumPy, comparisons
    of any values, `*` of strings, pairs. Raises FinchError "type" for values that it does not take."""
    if op.name == "coalesce":
        return next((a for a in args if a is not MISSING), MISSING)
    if any(a is MISSING for a in args):
        return MISSING
    if all(is_number(a) for a in args):
        return _on_numbers(op, args)
    if op.name in ("==", "!=") and len(args) == 2:
        return equal(*args) == (op.name == "==")
    if all(isinstance(a, str) for a in args):
        if op.name == "*":
            return joined(args)
        if op.name in ("<", "<=", ">", ">="):
            order = (args[0] > args[1]) - (args[0] < args[1])
            return operate(op, [order, 0])
    if op.name == "^" and len(args) == 2 and isinstance(args[0], str):
        return repeated(args[0], whole(args[1], "how often"))
    if op.name == "=>" and len(args) == 2:
        return Pair(*args)
    if op.name in ("first", "last") and len(args) == 2 and not is_number(args[0]):
        found, n = [*entries(args[0])], whole(args[1], "how many")
        part = found[: max(0, n)] if op.name == "first" else found[max(0, len(found) - n) :]
        if isinstance(args[0], str):
            return joined(part)
        return tuple(part) if isinstance(args[0], tuple) else shaped(part)
    if op.name in ("first", "last") and len(args) == 1 and not isinstance(args[0], Pair):
        if found := [*entries(args[0])]:
            return found[0 if op.name == "first" else -1]
        raise FinchError("bounds", f"{op.name} of nothing")
    others = " and ".join(kind_of(a) for a in args)
    hint = WITH_DOT if any(is_array(arg) or is_vector(arg) for arg in args) else None
    if hint is None and str in map(type, args):
        hint = {"+": JOINED, "*": REPEATED, "%": FORMATTED}.get(op.name)
        if hint is None and op.name in ARITHMETIC and any(map(is_number, args)):
            hint = "`parse(Float64, s)` is the number that a string spells"
        hint = PARSED if op.name in TYPES and len(args) == 1 else hint
    if hint is None and any(isinstance(arg, Scalar) for arg in args):
        hint = "`s[]` is the value of a Scalar `s`"
    raise FinchError("type", f"`{op.name}` does not take {others}", hint=hint)


def binary(name: str) -> Callable[[Any, Any], Any]:
    """An operator of the table as a function of two values."""
    op = OPERATORS[name]
    return lambda a, b: directly(op, [a, b])


def directly(op: Operator, args: list[Any]) -> Any:
    """As `operate`, at once for Python's own numbers."""
    function = plain_functions(op)[tuple(map(type, args))]
    return operate(op, args) if function is None else function(*args)


def _on_numbers(op: Operator, args: list[Any]) -> Any:
    low, high = op.arity
    if op.associative and len(args) > high:
        return reduce(lambda a, b: _on_numbers(op, [a, b]), args)
    if not low <= len(args) <= high:
        raise wrong_count(op.name, op.arity, len(args), None)
    types: Any = tuple([type_of_value(a) for a in args])
    function, result = on_types(op, types)
    return number(function(*[t.wrap(a) for t, a in zip(types, args, strict=True)]), result)


@lru_cache(maxsize=1024)
def on_types(op: Operator, types: tuple[Type, ...]) -> tuple[Callable[..., Any], Type]:
    """An operator on numbers of these types as a Python function, and the type of its result. The
    function raises FinchError "bounds" for arguments for which the operator is not defined."""
    variables = [Var("x", type) for type in types]
    expr = op.build(*variables)
    function = as_function(expr, variables)
    if op.undefined is None:
        return function, expr.type
    is_undefined = as_function(op.undefined(*variables), variables)

    def checked(*args: Any) -> Any:
        if is_undefined(*args):
            raise FinchError("bounds", op.fault.format(*args))
        return function(*args)

    return checked, expr.type


#: the hint where an operator of elements is given arrays; it is replaced by the code where that is known
WITH_DOT = "an operator of elements is written with a dot, as in `a .+ b` or `f.(a)`"
#: the operators that take arrays, by NumPy
ARITHMETIC = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
#: those that NumPy computes of the elements of arrays of floats
BY_NUMPY = ARITHMETIC | {"<": np.less, "<=": np.less_equal, ">": np.greater}
BY_NUMPY |= {">=": np.greater_equal, "==": np.equal, "!=": np.not_equal}
#: those that round, also to a type
ROUNDING = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint}


def equal(a: Any, b: Any, alike: Callable[[Any, Any], Any] = operator.eq, depth: int = 0) -> bool:
    """Whether two values are equal, as in Julia: arrays, tensors, growing vectors and ranges by their sizes
    and entries, tuples, pairs and dictionaries by theirs, and numbers if they are `alike`. Raises
    FinchError "resource" if they are nested too deeply."""
    if isinstance(a, Scalar) and isinstance(b, Scalar):
        return equal(a.value, b.value, alike, depth + 1)
    if is_array(a) and is_array(b):
        if a.shape == b.shape and (x := scattered(a)) and (y := scattered(b)):
            both = [(z.values, z.values[z.fill]) for z in (x, y) if z.fill is not None]
            if len(both) == 2 and alike(both[0][1], both[1][1]):
                kept = [~np.asarray(alike(values, fill)) for values, fill in both]
                if not np.array_equal(x.places[kept[0]], y.places[kept[1]]):
                    return False
                return bool(np.all(alike(x.values[kept[0]], y.values[kept[1]])))
        return a.shape == b.shape and bool(np.all(alike(dense(a), dense(b))))
    if isinstance(a, FinchRange) and isinstance(b, FinchRange):
        count = len(a)
        return count == len(b) and all([a[k] == b[k] for k in (0, count - 1)[:count]])
    if is_vector(a) and is_vector(b):
        a, b = [*entries(a)], [*entries(b)]
        if is_plain(a) and is_plain(b):
            return len(a) == len(b) and all(map(alike, a, b))
    elif type(a) is dict and type(b) is dict and a.keys() == b.keys():
        a, b = [*a.values()], [b[key] for key in a]
    if isinstance(a, (tuple, list)) and type(a) is type(b):
        check_depth(depth)
        # no `all` of a generator, which would recurse on the C stack
        for x, y in zip(a, b, strict=False):
            if not equal(x, y, alike, depth + 1):
                return False
        return len(a) == len(b)
    are_parts = any([isinstance(x, (tuple, list, dict)) or is_array(x) for x in (a, b)])
    return not are_parts and bool(alike(a, b))


def is_plain(values: Collection[Any]) -> bool:
    """Whether all values are strings or Python's own numbers, which Python compares as scripts do."""
    return {*map(type, values)} <= _COMPARED


_COMPARED = {*PLAIN, str}


def is_ordered(values: Sequence[Any]) -> bool:
    """Whether Python orders values as scripts do: numbers but NaN, strings, tuples of as many of these."""
    kinds = {*map(type, values)}
    if kinds == {tuple}:
        return len({*map(len, values)}) == 1 and all(map(is_ordered, zip(*values, strict=True)))
    return kinds <= {*PLAIN} and not any(map(operator.ne, values, values)) or kinds == {str}


def identical(a: Any, b: Any) -> Any:
    """Equality of numbers or entries as of Julia's `isequal`: NaN is equal to itself, -0.0 not to 0.0."""
    if type(a) is type(b) is int or isinstance(a, str) or isinstance(b, str):
        return a == b
    if any(np.asarray(x).dtype.kind not in "biuf" for x in (a, b)):
        return a == b
    return (a == b) & (np.signbit(a) == np.signbit(b)) | (a != a) & (b != b)


def is_vector(value: Any) -> bool:
    """Whether a value is a growing vector, a range, or an array of one dimension."""
    return isinstance(value, (list, FinchRange)) or is_array(value) and len(value.shape) == 1


def truth(value: Any) -> bool:
    """The value of a condition. Raises FinchError "type" unless it is a Bool."""
    if value is True or value is False:
        return value
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    hint = COMPARED if is_number(value) else None
    if is_array(value):
        hint = "`any(c)` is true if one of its entries is, `all(c)` if each is"
    raise FinchError("type", f"a condition must be a Bool, not {kind_of(value)}", hint=hint)


def whole(value: Any, what: str) -> int:
    """An integer as Python's. Raises FinchError "type", naming `what`, for another value."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        made = "`zeros`, `ones`, `fill`, `rand` and `similar` take a type, as in `zeros(Int64, 3)`"
        hint = made if isinstance(value, Type) else None
        if isinstance(value, str) and what == "an index":
            hint = '`Dict("a" => 1)` has values by names'
        if isinstance(value, (float, np.floating)):
            hint = "`trunc(Int64, x)` makes one of a fraction, and `÷` divides whole numbers"
        raise FinchError("type", f"{what} must be an integer, not {kind_of(value)}", hint=hint)
    return int(value)


def shaped(found: list[Any] | np.ndarray, shape: tuple[int, ...] | None = None) -> Any:
    """Values computed for many elements: numbers as an array of this shape, column-major, others as a
    vector. Raises FinchError "type" if the shape has several dimensions and a value is no number."""
    if isinstance(found, np.ndarray):
        return found if shape is None else found.reshape(shape, order="F")
    if found and all(map(is_number, found)):
        array = array_literal([found], False)
        return array if shape is None else array.reshape(shape, order="F")
    if shape is not None and len(shape) != 1:
        if not found:
            return np.zeros(shape, order="F")
        message = "an array of several dimensions holds numbers alone"
        raise FinchError("type", message, hint="go through `vec(A)` for a vector of other values")
    return found


def array_literal(rows: list[list[Any]], is_matrix: bool) -> Any:
    """`[1, 2.0]` as a vector, `[1 2; 3 4]` as a matrix, of the entries' common type; others as a list.
    Raises FinchError "type" for a matrix of these, "dimension" for rows that differ in length."""
    entries = [entry for row in rows for entry in row]
    if not entries:
        return []  # a list: a vector that can grow
    if is_matrix and len(counts := {*map(len, rows)}) > 1:
        raise FinchError("dimension", f"rows have {min(counts)} and {max(counts)} elements")
    if all(is_number(e) for e in entries):
        element: Any = reduce(promote, map(type_of_value, entries))  # type: ignore[arg-type]
        array = np.array(rows if is_matrix else entries, element.dtype)
        return np.asfortranarray(array)
    if is_matrix:
        hint = "vectors hold numbers or strings; fill a matrix entry by entry"
        if all(is_array(e) for e in entries):
            hint = "arrays stand side by side in `[A B]`, and one below the other in `[A; B]`"
        raise FinchError("type", "an array literal cannot hold these", hint=hint)
    return entries
