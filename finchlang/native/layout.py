"""Where a native kernel finds its arrays and numbers: the slots it is called with."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from finchlang.host.ir import Buffer, Fail, Fill, For, Grow, Residual, Sort, Stmt, Store, While
from finchlang.native.analysis import walk
from finchlang.types import Type

#: What a kernel returns.
OK, FAILED, NO_MEMORY, INTERRUPTED = range(4)


@dataclass(frozen=True)
class Layout:
    """The slots (64-bit words) of a kernel, in this order:

    - three for each buffer: address, capacity in entries, and 1 if the memory was allocated by the
      kernel (0 when it is called);
    - one for each input and then one for each output: the bits of the number, integers extended
      to 64 bits, Float32 in the low half;
    - the failure area: which Fail statement (counted in textual order), then its values.
    """

    residual: Residual

    @cached_property
    def statements(self) -> tuple[Stmt, ...]:
        return tuple(walk(self.residual.body))

    @cached_property
    def failures(self) -> tuple[Fail, ...]:
        """The Fail statements, in the order they are numbered."""
        return tuple(s for s in self.statements if isinstance(s, Fail))

    @cached_property
    def written(self) -> tuple[int, ...]:
        """Numbers of the buffers a kernel may change the contents of."""
        return self._touched(Store, Fill, Sort)

    @cached_property
    def grown(self) -> tuple[int, ...]:
        """Numbers of the buffers a kernel may move to larger memory."""
        return self._touched(Grow)

    def _touched(self, *kinds: type[Store | Fill | Sort | Grow]) -> tuple:
        touched: set[Buffer] = {s.buffer for s in self.statements if isinstance(s, kinds)}
        return tuple(k for k, b in enumerate(self.residual.buffers) if b in touched)

    @cached_property
    def can_fail(self) -> bool:
        """Whether a call may end early: by a Fail, for want of memory, or interrupted in a loop."""
        stops = (Fail, Grow, While, For, Sort)
        return any(isinstance(s, stops) for s in self.statements)

    def is_frozen(self, number: int) -> bool:
        """Whether nothing stores to, fills, sorts or grows the buffer of this number."""
        return number not in self.written and number not in self.grown

    @property
    def first_input(self) -> int:
        return 3 * len(self.residual.buffers)

    @property
    def first_output(self) -> int:
        return self.first_input + len(self.residual.inputs)

    @property
    def failure(self) -> int:
        return self.first_output + len(self.residual.outputs)

    @cached_property
    def size(self) -> int:
        return self.failure + 1 + max((len(f.values) for f in self.failures), default=0)


def packer(type: Type) -> Callable[[Any], int]:
    """The function from a number of `type` to the content of its slot."""
    if type.kind != "float":
        return int
    code, word = ("<d", "<q") if type.bits == 64 else ("<f", "<i")
    return lambda value: struct.unpack(word, struct.pack(code, value))[0]


def unpacker(type: Type) -> Callable[[int], Any]:
    """The function from the content of a slot to the number of `type` in it."""
    if type.kind == "bool":
        return bool
    if type.kind == "int":
        return int
    if type.kind == "uint":
        return lambda word: word & ((1 << type.bits) - 1)
    if type.bits == 64:
        return lambda word: struct.unpack("<d", struct.pack("<q", word))[0]
    return lambda word: struct.unpack("<f", struct.pack("<I", word & 0xFFFFFFFF))[0]
