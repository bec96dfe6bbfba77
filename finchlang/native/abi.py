"""Where a native kernel finds its arrays and numbers: the slots that it is called with."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import field

from finchlang.base.errors import Span
from finchlang.base.records import record
from finchlang.host.noted import UndoLog
from finchlang.syntax.types import Type

#: the statuses that a kernel returns
OK, FAILED, NO_MEMORY, INTERRUPTED = range(4)


NO_LOG = UndoLog()


@record
class Failure:
    """A Fail statement, as far as the caller of a kernel must know it; `values` are the types of the values
    in the failure area, `noted` how many of them, the last, are a note."""

    kind: str
    message: str
    values: tuple[Type, ...]
    span: Span | None = field(default=None, compare=False)
    noted: int = 0


@record
class Layout:
    """What must be known of a compiled kernel to call it, and its slots (64-bit words), in this order:

    - three for each buffer: address, capacity in entries, and where the memory begins if it was
      allocated by the kernel (0 when it is called);
    - one for each input and then one for each output: the bits of the number, at the beginning;
    - the failure area: which Fail statement (counted in textual order), then its values.

    `buffers`, `inputs` and `outputs` are their types. `written` numbers the buffers whose contents a call
    may change, `grown` those that it may move to larger memory; `procedures` names the procedures of
    `library.py` that it calls; `undo_log` says which buffers and inputs, after the program's own, make up
    the log of what the call overwrites.
    """

    name: str
    buffers: tuple[Type, ...]
    inputs: tuple[Type, ...]
    outputs: tuple[Type, ...]
    written: tuple[int, ...]
    grown: tuple[int, ...]
    failures: tuple[Failure, ...]
    procedures: tuple[str, ...]
    undo_log: UndoLog = NO_LOG

    def is_frozen(self, number: int) -> bool:
        """Whether nothing stores to, fills, sorts or grows the buffer of this number."""
        return number not in self.written and number not in self.grown

    @property
    def first_input(self) -> int:
        return 3 * len(self.buffers)

    @property
    def first_output(self) -> int:
        return self.first_input + len(self.inputs)

    @property
    def failure(self) -> int:
        return self.first_output + len(self.outputs)

    @property
    def size(self) -> int:
        return self.failure + 1 + max((len(f.values) for f in self.failures), default=0)


def words(types: Iterable[Type]) -> struct.Struct:
    """How numbers of these types stand in slots that follow each other."""
    return struct.Struct("=" + "".join([_CODES[t.kind, t.bits] for t in types]))


#: the contents of slots as of `struct`
_CODES = {("float", 64): "d", ("float", 32): "f4x", ("bool", 8): "?7x"}
for bits, code in ((8, "b7x"), (16, "h6x"), (32, "i4x"), (64, "q")):
    _CODES |= {("int", bits): code, ("uint", bits): code.replace(code[0], code[0].upper())}
