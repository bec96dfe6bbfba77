"""The SparseList level over somebody else's arrays, which may change at any time: SciPy's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from finchlang.tensors.sparse_list import SparseList


@dataclass(frozen=True)
class BorrowedList(SparseList):
    """A SparseList whose `ptr` and `idx` are not the tensor's own: whatever they hold when a kernel
    reads them, positions stay within the arrays and coordinates within the dimension.

    What is out of range is taken for the nearest that is in it, and noted in the cell `fault`; so
    is a coordinate that does not ascend. A kernel that noted a fault fails in the end.
    """

    is_borrowed: ClassVar[bool] = True

    def __str__(self) -> str:
        return str(SparseList(self.lvl, self.index))
