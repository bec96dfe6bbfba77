"""The host language: a small typed imperative language, on one screen.

Expressions are pure and hash-consed, so equality is identity. Whatever touches memory is a
statement: a load binds a variable, a cell is read by binding a variable. Constant folding lives
in the constructor functions of `construct.py` and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from finchlang.base.errors import Span
from finchlang.base.records import record
from finchlang.syntax.types import Bool, Float64, Int64, Type

# ------------------------------------------------------------------------------------ expressions


class Expr:
    """A pure expression with a `type`."""

    __slots__ = ("type", "__weakref__")
    type: Type

    def __str__(self) -> str:
        return written(self, str, inside=True)


class Const(Expr):
    """A constant; `value` is a Python bool, int or float that `type` holds."""

    __slots__ = ("value",)
    _table: ClassVar[WeakValueDictionary] = WeakValueDictionary()
    value: Any

    def __new__(cls, value: Any, type: Type) -> Const:
        value = type.wrap(value)
        key = (repr(value), type)  # tells 0.0 from -0.0, and finds NaN again
        found = cls._table.get(key)
        if found is None:
            found = object.__new__(cls)
            found.value, found.type = value, type
            cls._table[key] = found
        return found

    def __repr__(self) -> str:
        return f"{self.value}::{self.type}"


class Var(Expr):
    """A variable that is bound once; variables are compared by identity. `lower` and `upper` are known
    inclusive bounds (expressions of the same type), `definition` is the expression that it was bound to:
    facts for the prover, not part of the meaning. `held` is used by executing hosts only."""

    __slots__ = ("name", "lower", "upper", "definition", "held")
    held: Any

    def __init__(
        self,
        name: str,
        type: Type,
        lower: Expr | None = None,
        upper: Expr | None = None,
        definition: Expr | None = None,
    ):
        self.name, self.type = name, type
        self.lower, self.upper, self.definition = lower, upper, definition

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


class Op(Expr):
    """A primitive operation of OPS on `args`; integers wrap around at their width."""

    __slots__ = ("name", "args")
    _table: ClassVar[WeakValueDictionary] = WeakValueDictionary()
    name: str
    args: tuple[Expr, ...]

    def __new__(cls, name: str, args: tuple[Expr, ...], type: Type) -> Op:
        key = (name, args, type)
        found = cls._table.get(key)
        if found is None:
            found = object.__new__(cls)
            found.name, found.args, found.type = name, args, type
            cls._table[key] = found
        return found

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.args))})"


#: name → number of arguments, and the kinds of numbers that they may be, where
#: that matters. Arguments of arithmetic have the result's type; comparisons have
#: equal argument types and give Bool; `select` is (Bool, T, T); `cast` takes any type to `type`.
#: `and`/`or`/`xor`/`not` are logical on Bool and bitwise on integers. `idiv` truncates, `irem`
#: has the dividend's sign, and both give 0 for a divisor 0 (as NumPy does). `ipow` is integer
#: power by an Int64 exponent (a negative one gives the whole part: 0, but for 1 and -1). `shr`
#: keeps the sign of signed integers; a shift count of the width or more gives 0 (or all sign
#: bits). `min`/`max` let NaN win.
#: `pair` makes a pair of two numbers, which `first` and `second` take apart; there is no more to do
#: with pairs than to move them (`construct.py` takes a `select` of pairs apart).
#: `ldexp` is a float times 2 to the power of an Int64.
#: `add_times`, `mul_times` and `div_times` of (x, a, n) are what n steps x = x + a, x * a or x / a
#: of floats make of x, with the overflow, underflow and NaN that these have; n is an Int64.
#: `exact` is the float that it is given: the sum, difference, product or quotient that this is is rounded
#: by itself, where native code may else add in another order, and round it with what it is part of.
#: `muladd` is a * b + c of floats; whether the product is rounded first depends on the processor alone.
#: `reinterpret` is the float with the bits of an unsigned integer of its width, or these bits.
#: `bits` tells how many bits an integer has, 0 if it is not positive.
#: float → integer `cast` truncates and saturates; NaN gives 0.
OPS: dict[str, tuple[int, list[str]]] = {
    name: (count, kinds.split())
    for count, kinds, names in (
        (2, "int uint float", "add sub mul"),
        (1, "int uint float", "neg"),
        (1, "int float", "abs"),
        (2, "int uint float bool", "min max"),
        (2, "int uint bool", "and or xor"),
        (1, "int uint bool", "not"),
        (2, "int uint", "idiv irem ipow shl shr"),
        (1, "int uint", "bits"),
        (2, "float", "fdiv fpow fmod copysign atan2 hypot nextafter ldexp"),
        (1, "float", "floor ceil trunc round exact sqrt cbrt exp exp2 expm1 log log2 log10 log1p"),
        (1, "float", "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh isnan"),
        (3, "float", "muladd add_times mul_times div_times"),
        (2, "", "eq ne lt le gt ge pair"),
        (1, "", "cast reinterpret first second"),
        (3, "", "select"),
    )
    for name in names.split()
}
COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "isnan"))

_INFIX = {
    **{"add": "+", "sub": "-", "mul": "*", "fdiv": "/", "and": "&", "or": "|"},
    **{"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="},
    **{"shl": "<<", "shr": ">>"},
}
_PREFIX = {"neg": "-", "not": "!"}
_NAMES = {"idiv": "div", "irem": "rem", "select": "ifelse", "fpow": "pow", "ipow": "pow"}


def written(expr: Expr, name: Callable[[Var], str], inside: bool = False) -> str:
    """`expr` in Julia's notation; with `inside` an operation is put in parentheses. The type of a constant
    is written unless it is Bool, Int64 or Float64."""
    if isinstance(expr, Const):
        value = {"inf": "Inf", "-inf": "-Inf", "nan": "NaN"}.get(repr(expr.value), repr(expr.value))
        if expr.type == Bool:
            return value.lower()
        return value if expr.type in (Int64, Float64) else f"{expr.type}({value})"
    if isinstance(expr, Var):
        return name(expr)
    assert isinstance(expr, Op)
    if expr.name in _INFIX:
        left, right = (written(arg, name, True) for arg in expr.args)
        result = f"{left} {_INFIX[expr.name]} {right}"
        if expr.name == "add" and right.startswith("-"):
            result = f"{left} - {right[1:]}"
        return f"({result})" if inside else result
    if expr.name in _PREFIX:
        return f"{_PREFIX[expr.name]}{written(expr.args[0], name, True)}"
    called = str(expr.type) if expr.name == "cast" else _NAMES.get(expr.name, expr.name)
    return f"{called}({', '.join(written(arg, name) for arg in expr.args)})"


# -------------------------------------------------------------------------------- memory and cells


@record(eq=False, slots=True)
class Buffer:
    """A growable array of `type`, indexed from 0; buffers are compared by identity."""

    name: str
    type: Type

    def __repr__(self) -> str:
        return self.name


@record(eq=False, slots=True)
class Cell:
    """A mutable local variable; cells are compared by identity."""

    name: str
    type: Type

    def __repr__(self) -> str:
        return self.name


# ------------------------------------------------------------------------------------- statements


@record(slots=True)
class Stmt:
    """A statement."""


@record(slots=True)
class Code:
    """Statements in order. A variable is visible from its binding to the end of its Code, and in
    the Codes nested there."""

    statements: tuple[Stmt, ...]


@record(slots=True)
class Bind(Stmt):
    """`variable = expr`, bound once."""

    variable: Var
    expr: Expr


@record(slots=True)
class Load(Stmt):
    """`variable = buffer[index]`."""

    variable: Var
    buffer: Buffer
    index: Expr


@record(slots=True)
class Store(Stmt):
    """`buffer[index] = value`."""

    buffer: Buffer
    index: Expr
    value: Expr


@record(slots=True)
class Get(Stmt):
    """`variable = cell`, the cell's content now."""

    variable: Var
    cell: Cell


@record(slots=True)
class Set(Stmt):
    """`cell = value`."""

    cell: Cell
    value: Expr


@record(slots=True)
class Branch(Stmt):
    """Run `then` or `otherwise`. If there is a `variable`, it is bound from here on to what the arm gave.
    `is_rare` says that `then` is long and seldom run: a fact for native code, which makes it a function of
    its own; not part of the meaning."""

    condition: Expr
    then: Code
    otherwise: Code = Code(())
    is_rare: bool = False
    variable: Var | None = None


@record(slots=True)
class Give(Stmt):
    """The end of an arm: `value` is what the branch around binds its variable to, which is `target`."""

    target: Var
    value: Expr


@record(slots=True)
class WhileLoop(Stmt):
    """Run `test`, leave if `condition` (which may use what `test` binds) is false, run `body`, and again.
    `is_endless` says that the number of steps has no bound: a fact for native code, which then polls for
    interrupts; not part of the meaning."""

    test: Code
    condition: Expr
    body: Code
    is_endless: bool = False


@record(slots=True)
class ForLoop(Stmt):
    """Run `body` for `variable` from `start` to `stop`, both included (Int64). `is_plain` says that it is
    best neither vectorised nor unrolled: a fact for native code, not part of the meaning."""

    variable: Var
    start: Expr
    stop: Expr
    body: Code
    is_plain: bool = False


@record(slots=True)
class Room(Stmt):
    """`variable` = the capacity of `buffer` in entries (Int64)."""

    variable: Var
    buffer: Buffer


@record(slots=True)
class Clock(Stmt):
    """`variable` = what a clock of the machine says (Int64), in a unit of its own."""

    variable: Var


@record(slots=True)
class Grow(Stmt):
    """Make room for at least `size` entries in `buffer`; new entries are undefined."""

    buffer: Buffer
    size: Expr


@record(slots=True)
class Exchange(Stmt):
    """`buffer` and `other`, of one type, exchange their memory: entries and capacities."""

    buffer: Buffer
    other: Buffer


@record(slots=True)
class Fill(Stmt):
    """`buffer[start], ..., buffer[stop - 1] = value`; nothing if stop <= start."""

    buffer: Buffer
    start: Expr
    stop: Expr
    value: Expr


@record(slots=True)
class Search(Stmt):
    """`variable` = the least position p in start..stop with p == stop or buffer[p] >= key, for
    entries sorted from start to stop - 1; steps grow with the logarithm of p - start."""

    variable: Var
    buffer: Buffer
    start: Expr
    stop: Expr
    key: Expr


#: how many entries `Disjoint` compares with as many others
BLOCK = 8


@record(slots=True)
class Disjoint(Stmt):
    """`variable` (Bool) = whether none of buffer[index .. index + BLOCK - 1] + shift is one of
    other[place .. place + BLOCK - 1], all integers. Only the bits that both types have are compared, so
    that different numbers may count as equal."""

    variable: Var
    buffer: Buffer
    index: Expr
    shift: Expr
    other: Buffer
    place: Expr


@record(slots=True)
class Sort(Stmt):
    """Sort buffer[start .. stop - 1] (integers) in ascending order."""

    buffer: Buffer
    start: Expr
    stop: Expr


@record(slots=True)
class SortBits(Stmt):
    """Sort buffer[start .. stop - 1] (Int64) by the bits low .. high - 1, with high < 64; the sort is
    stable. `scratch` (Int64), with room for `stop` entries, is undefined afterwards."""

    buffer: Buffer
    scratch: Buffer
    start: Expr
    stop: Expr
    low: Expr
    high: Expr


AnySort = Sort | SortBits


@record(slots=True)
class CallProcedure(Stmt):
    """Run the procedure `name` of the program with `values` as its inputs and `cells` as its cells, which
    it may change. It reads the buffers `used`; those in `changed` it writes to, or lets grow."""

    name: str
    values: tuple[Expr, ...]
    cells: tuple[Cell, ...]
    used: tuple[Buffer, ...]
    changed: tuple[Buffer, ...]


@record(slots=True)
class Fail(Stmt):
    """Stop with an error of `kind`, or a Bug; `message` has a `{}` for each of `values`. `note` are
    values for who runs the program."""

    kind: str
    message: str
    values: tuple[Expr, ...]
    span: Span | None = field(default=None, compare=False, repr=False)
    note: tuple[Expr, ...] = ()


@record(eq=False, slots=True)
class Procedure:
    """Code that is called with values and cells. Except for buffers it uses nothing of the code around the
    call. Values are passed by value, cells by reference."""

    name: str
    inputs: tuple[Var, ...]
    cells: tuple[Cell, ...]
    body: Code


@record(eq=False, slots=True, weakref_slot=True)
class Residual:
    """A residual program: what a kernel became. `inputs` are variables given from outside (sizes, counts,
    script numbers), `buffers` the arrays it works on, `outputs` the cells whose final contents are
    returned. A buffer that no statement stores to, fills, sorts or grows is frozen. `scratch` are buffers
    of its own, each with its number of entries, undefined at first. Procedures may call themselves.
    """

    name: str
    buffers: tuple[Buffer, ...]
    inputs: tuple[Var, ...]
    outputs: tuple[Cell, ...]
    body: Code
    scratch: tuple[tuple[Buffer, int], ...] = ()
    procedures: tuple[Procedure, ...] = ()
