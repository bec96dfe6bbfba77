"""How many bits numbers have, and shifts by counts of bits."""

from __future__ import annotations

from finchlang.host.fold import ZERO, add, cast, compare, op
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.types import Int64


def bit_length(host: Host, number: Expr) -> Expr:
    """How many bits `number` (Int64) has, 0 if it is not positive; in as many steps whatever it is."""
    rest, bits = number, cast(ZERO, Int64)
    for width in (32, 16, 8, 4, 2, 1):
        is_longer = host.let(compare("gt", op("shr", rest, width), 0), "longer")
        bits = host.let(add(bits, op("select", is_longer, width, 0)), "bits")
        rest = host.let(op("select", is_longer, op("shr", rest, width), rest), "rest")
    return host.let(add(bits, cast(compare("gt", rest, 0), Int64)), "bits", lower=ZERO)


def below_64(bits: Expr) -> Expr:
    """`bits`, which are fewer than 64, as LLVM is to know: else a shift by them takes ten instructions."""
    return op("and", bits, 63)
