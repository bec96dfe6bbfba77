"""How many bits numbers have, and shifts by counts of bits."""

from __future__ import annotations

from finchlang.host.fold import ZERO, op
from finchlang.host.interface import Host
from finchlang.host.ir import Expr


def bit_length(host: Host, number: Expr) -> Expr:
    """How many bits `number` (Int64) has, 0 if it is not positive; in as many steps whatever it is."""
    return host.let(op("bits", number), "bits", lower=ZERO)


def below_64(bits: Expr) -> Expr:
    """`bits`, which are fewer than 64, as LLVM is to know: else a shift by them takes ten instructions."""
    return op("and", bits, 63)
