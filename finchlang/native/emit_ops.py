"""How each primitive operation of the host language becomes LLVM instructions."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from finchlang.base.errors import Bug
from finchlang.host.ir import COMPARISONS, Const, Op
from finchlang.native import library
from finchlang.native.target import has_fused
from finchlang.operators.build import QUICK_POWERS
from finchlang.syntax.types import Int64, PairType, Type

#: Contraction is allowed. Products and quotients may not be reordered: a part of them may overflow, or
#: become 0, though the whole does not. Nor is a quotient a product with the reciprocal, which is rounded
#: once more and may be Inf. NaN and infinities are honoured (for min-plus).
FAST = "nsz contract"
#: Without `nsz`: with both, LLVM takes x - x within a sum for 0, also where x is NaN or Inf.
SUMS = "reassoc contract"


class Body(ABC):
    """What this module needs of the function being emitted. While it `is_exact` LLVM may not change what is
    written. What is added to a total may be added in any order: these are its `sums`."""

    is_exact: bool
    sums: set[Op]

    @abstractmethod
    def new(self, instruction: str) -> str:
        """Append `instruction`; the name of its result."""

    @abstractmethod
    def call(self, result: str, name: str, args: Sequence[str], *, flags: str = "") -> str:
        """Declare an external function, and call it with arguments, each with its type."""

    @abstractmethod
    def use(self, name: str, type: Type) -> str:
        """The name of the library's function for an operation on a type."""

    @abstractmethod
    def far(self, op: Op, value: str) -> str:
        """The call of the C library's function of a Float64 for what its sequence does not do, or "" where
        the sequence is to be called."""


def llvm_type(type: Type) -> str:
    if type.kind == "bool":
        return "i1"
    if isinstance(type, PairType):
        return f"{{ {llvm_type(type.first)}, {llvm_type(type.second)} }}"
    if type.kind == "float":
        return "double" if type.bits == 64 else "float"
    return f"i{type.bits}"


def memory_type(type: Type) -> str:
    """The LLVM type of a value of `type` in memory: a Bool is a byte there."""
    return "i8" if type.kind == "bool" else llvm_type(type)


def constant(value: Any, type: Type) -> str:
    """A literal of LLVM; floats are written as the bits of a double, and so are exact."""
    if isinstance(type, PairType):
        parts = zip((type.first, type.second), value, strict=True)
        return f"{{ {', '.join(f'{llvm_type(t)} {constant(v, t)}' for t, v in parts)} }}"
    if type.kind == "float":
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if type.kind == "bool":
        return "true" if value else "false"
    return str(value)


def emit_op(body: Body, op: Op, args: list[str]) -> str:
    """Append the instructions of `op` applied to the values `args`; the name of the result."""
    if op.name in _INTRINSICS:
        return _call(body, f"llvm.{_INTRINSICS[op.name]}", op.type, args)
    emit = _EMITTERS.get(op.name)
    if emit is None:
        raise Bug(f"no native code for the operation {op.name}")
    if not isinstance(emit, str):
        return emit(body, op, args)
    flags = SUMS if op in body.sums else FAST
    fast = f"{flags} " if op.type.is_float and not body.is_exact else ""
    kinds = {"s": llvm_type(op.args[0].type), "t": llvm_type(op.type)}
    return body.new(emit.format(*args, f="f" * op.type.is_float, fast=fast, **kinds))


# ------------------------------------------------------------------------------------- arithmetic


def _divide(body: Body, op: Op, args: list[str]) -> str:
    """Never traps: the divisor is replaced by 1 where it is 0, and where lowest / -1 overflows: the
    dividend is then the wrapped quotient, and the remainder is 0."""
    kind = llvm_type(op.type)
    dividend, divisor = args
    zero = body.new(f"icmp eq {kind} {divisor}, 0")
    unsafe = zero
    if op.type.kind == "int":
        lowest = body.new(f"icmp eq {kind} {dividend}, {op.type.lowest}")
        minus_one = body.new(f"icmp eq {kind} {divisor}, -1")
        overflow = body.new(f"and i1 {lowest}, {minus_one}")
        unsafe = body.new(f"or i1 {zero}, {overflow}")
    safe = body.new(f"select i1 {unsafe}, {kind} 1, {kind} {divisor}")
    sign = "s" if op.type.kind == "int" else "u"
    if op.name == "irem":
        return body.new(f"{sign}rem {kind} {dividend}, {safe}")
    quotient = body.new(f"{sign}div {kind} {dividend}, {safe}")
    return body.new(f"select i1 {zero}, {kind} 0, {kind} {quotient}")


def _of_library(body: Body, op: Op, args: list[str]) -> str:
    if far := body.far(op, args[0]):
        return far
    kind, name = llvm_type(op.type), body.use(op.name, op.type)
    given = (f"{llvm_type(arg.type)} {value}" for arg, value in zip(op.args, args, strict=True))
    return body.new(f"call {kind} @{name}({', '.join(given)})")


def _power(body: Body, op: Op, args: list[str]) -> str:
    exponent = op.args[1]
    if isinstance(exponent, Const) and exponent.value in QUICK_POWERS or not has_fused():
        return _call(body, "llvm.pow", op.type, args)
    return _of_library(body, op, args)


def _extremum(body: Body, op: Op, args: list[str]) -> str:
    if op.type.is_float:
        return _call(body, f"llvm.{op.name}imum", op.type, args, "nsz ")
    sign = "s" if op.type.kind == "int" else "u"
    return _call(body, f"llvm.{sign}{op.name}", op.type, args)


def _negate(body: Body, op: Op, args: list[str]) -> str:
    kind = llvm_type(op.type)
    return body.new(f"fneg {kind} {args[0]}" if op.type.is_float else f"sub {kind} 0, {args[0]}")


def _absolute(body: Body, op: Op, args: list[str]) -> str:
    kind = llvm_type(op.type)
    if op.type.is_float:
        return _call(body, "llvm.fabs", op.type, args)
    return body.call(kind, f"llvm.abs.{kind}", [f"{kind} {args[0]}", "i1 false"])


# ------------------------------------------------------------------------ bits, choices, functions


def _bits(body: Body, op: Op, args: list[str]) -> str:
    kind, width = llvm_type(op.type), op.type.bits
    some = args[0]
    if op.type.kind == "int":
        some = _call(body, "llvm.smax", op.type, [some, "0"])
    zeros = body.call(kind, f"llvm.ctlz.{kind}", [f"{kind} {some}", "i1 false"])
    return body.new(f"sub {kind} {width}, {zeros}")


def _shift(body: Body, op: Op, args: list[str]) -> str:
    """A count of the width or more shifts everything out; a negative one shifts the other way."""
    count = args[1]
    wide = op.args[1].type
    if wide.bits < 64:
        extend = "sext" if wide.kind == "int" else "zext"
        count = body.new(f"{extend} {llvm_type(wide)} {count} to i64")
    forth = _shift_by(body, op.name, op.type, args[0], count)
    if wide.kind == "uint":
        return forth
    opposite = body.new(f"sub i64 0, {count}")
    back = _shift_by(body, "shr" if op.name == "shl" else "shl", op.type, args[0], opposite)
    negative = body.new(f"icmp slt i64 {count}, 0")
    kind = llvm_type(op.type)
    return body.new(f"select i1 {negative}, {kind} {back}, {kind} {forth}")


def _shift_by(body: Body, name: str, type: Type, value: str, count: str) -> str:
    """`value` shifted by the i64 `count`, taken as unsigned."""
    kind, bits = llvm_type(type), type.bits
    arithmetic = name == "shr" and type.kind == "int"
    inside = body.new(f"icmp ult i64 {count}, {bits}")
    near = body.new(f"select i1 {inside}, i64 {count}, i64 {bits - 1}")
    if bits < 64:
        near = body.new(f"trunc i64 {near} to {kind}")
    how = "shl" if name == "shl" else "ashr" if arithmetic else "lshr"
    shifted = body.new(f"{how} {kind} {value}, {near}")
    if arithmetic:
        return shifted
    return body.new(f"select i1 {inside}, {kind} {shifted}, {kind} 0")


def _compare(body: Body, op: Op, args: list[str]) -> str:
    type = op.args[0].type
    return body.new(f"{comparison(op.name, type)} {llvm_type(type)} {args[0]}, {args[1]}")


def comparison(name: str, type: Type) -> str:
    """The LLVM instruction that compares values of `type` by `name` (NaN is unequal to all)."""
    if type.is_float:
        return "fcmp une" if name == "ne" else f"fcmp o{name}"
    if name in ("eq", "ne"):
        return f"icmp {name}"
    return f"icmp {'s' if type.kind == 'int' else 'u'}{name}"


def _pair(body: Body, op: Op, args: list[str]) -> str:
    pair = "undef"
    for k, arg in enumerate(args):
        part = f"{llvm_type(op.args[k].type)} {arg}"
        pair = body.new(f"insertvalue {llvm_type(op.type)} {pair}, {part}, {k}")
    return pair


def _call(body: Body, name: str, type: Type, args: list[str], flags: str = "") -> str:
    """A call of an intrinsic that is overloaded on one type, that of its arguments and result."""
    kind = llvm_type(type)
    full = f"{name}.f{type.bits}" if type.is_float else f"{name}.{kind}"
    return body.call(kind, full, [f"{kind} {arg}" for arg in args], flags=flags)


def _libm(body: Body, op: Op, args: list[str]) -> str:
    """A function of the C library that LLVM has no intrinsic for."""
    kind, name = llvm_type(op.type), op.name if op.type.bits == 64 else op.name + "f"
    return body.call(kind, name, [f"{kind} {arg}" for arg in args])


def _scale(body: Body, op: Op, args: list[str]) -> str:
    """Times a power of 2; exponents beyond 32 bits are clamped, which does not change the result."""
    kind, name = llvm_type(op.type), f"llvm.ldexp.f{op.type.bits}.i32"
    clamped = args[1]
    for end, bound in (("smin", 1 << 16), ("smax", -(1 << 16))):  # beyond these nothing changes
        clamped = _call(body, f"llvm.{end}", Int64, [clamped, str(bound)])
    exponent = body.new(f"trunc i64 {clamped} to i32")
    return body.call(kind, name, [f"{kind} {args[0]}", f"i32 {exponent}"])


# ------------------------------------------------------------------------------------ conversions


def _cast(body: Body, op: Op, args: list[str]) -> str:
    source, target, value = op.args[0].type, op.type, args[0]
    if source == target:
        return value
    kinds = llvm_type(source), llvm_type(target)
    if target.kind == "bool":
        zero = constant(0.0, source) if source.is_float else "0"
        return body.new(f"{comparison('ne', source)} {kinds[0]} {value}, {zero}")
    if source.is_float and target.is_float:
        name = "fpext" if target.bits > source.bits else "fptrunc"
    elif source.is_float:
        sign = "si" if target.kind == "int" else "ui"
        name = f"llvm.fpto{sign}.sat.{kinds[1]}.f{source.bits}"
        return body.call(kinds[1], name, [f"{kinds[0]} {value}"])
    elif target.is_float:
        name = "sitofp" if source.kind == "int" else "uitofp"
    elif source.kind != "bool" and target.bits == source.bits:
        return value
    elif source.kind != "bool" and target.bits < source.bits:
        name = "trunc"
    else:
        name = "sext" if source.kind == "int" else "zext"
    return body.new(f"{name} {kinds[0]} {value} to {kinds[1]}")


#: LLVM's intrinsics of one type, that of their arguments and result
_INTRINSICS = {"muladd": "fmuladd", "round": "rint"}
for _names in (
    ("floor", "ceil", "trunc", "copysign", "sqrt", "log2", "log10", "tan"),
    ("asin", "acos", "atan", "sinh", "cosh", "atan2", "exp2"),
):
    _INTRINSICS |= zip(_names, _names, strict=True)
#: Functions that emit, or an instruction: {0} and so on are the arguments, {s} is the type of the first,
#: {t} that of the result, {f} the letter of those on floats, and {fast} what LLVM may change of these.
_EMITTERS: dict[str, str | Callable[[Body, Op, list[str]], str]] = {
    **{name: f"{{f}}{name} {{fast}}{{t}} {{0}}, {{1}}" for name in ("add", "sub", "mul")},
    "fdiv": "fdiv {fast}{t} {0}, {1}",
    "idiv": _divide,
    "irem": _divide,
    **dict.fromkeys(library.OPERATIONS, _of_library),
    "fpow": _power,
    "fmod": "frem {t} {0}, {1}",
    "min": _extremum,
    "max": _extremum,
    **{name: f"{name} {{t}} {{0}}, {{1}}" for name in ("and", "or", "xor")},
    "shl": _shift,
    "shr": _shift,
    **dict.fromkeys(COMPARISONS, _compare),
    "isnan": "fcmp uno {s} {0}, {0}",
    "neg": _negate,
    "not": "xor {t} {0}, -1",
    "abs": _absolute,
    "bits": _bits,
    "cast": _cast,
    "select": "select i1 {0}, {t} {1}, {t} {2}",
    "pair": _pair,
    "reinterpret": "bitcast {s} {0} to {t}",
    "first": "extractvalue {s} {0}, 0",
    "second": "extractvalue {s} {0}, 1",
    "ldexp": _scale,
    **dict.fromkeys(("asinh", "acosh", "atanh", "cbrt", "hypot", "nextafter"), _libm),
}
