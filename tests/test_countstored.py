"""`countstored`: the leaves that are stored, told without going through the coordinates of runs."""

from __future__ import annotations

import numpy as np
import pytest
from every_format import fits, nests

from finchlang import Session
from finchlang.tensors.packing import unpack
from finchlang.tensors.tensor import Tensor


@pytest.mark.parametrize("size", [0, 1, 5])
def test_every_format_counts_the_leaves_that_its_entries_are_kept_in(size: int) -> None:
    array = np.zeros((size, size))
    array[1:4, 1:4] = 2.5
    for format in nests("Element(0.0)", 2):
        tensor = fits(format, array)
        if tensor is not None:
            coordinates, positions = unpack(tensor._parts(), None)
            values = tensor.format.leaf.unpack_values(tensor.storage[-1], positions)
            own = positions[tensor._own(coordinates, values)]
            assert tensor.countstored() == len(np.unique(own)), format


@pytest.mark.parametrize("format", ["SparseRunList", "RunList", "SparseInterval"])
def test_runs_of_many_coordinates_are_not_unrolled(format: str) -> None:
    """10^11 coordinates, of which an array would take 745 GiB."""
    session = Session()
    session["A"] = Tensor(f"{format}(Element(0.0))", 10**11)
    session.run("@finch begin A .= 0; for i = 10:10^11-10 A[i] = 1.5 end end")
    # the run of fill at the end of a RunList is not stored
    assert session.run("countstored(A)") == (2 if format == "RunList" else 1)
