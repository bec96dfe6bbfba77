"""The derived rule CommonSize: of sizes found equal, the one that most tensors have stands for all."""

from __future__ import annotations

import pytest

from finchlang.host.ir import For
from finchlang.host.walk import walk
from finchlang.run.kernel import Kernel
from finchlang.tensors.formats import parse_format
from finchlang.text.parse import parse_kernel

TEXT = "begin for i=_ s[] += x[i] * y[i] end; for j=_ s[] += z[j] * x[j] end end"


@pytest.mark.parametrize(
    ("rules", "stops"),
    [
        ("all", ["x_size1", "x_size1"]),
        ("all-CommonSize", ["x_size1", "z_size1"]),
        ("paper", ["x_size1", "z_size1"]),
    ],
)
def test_a_size_that_more_tensors_have_ends_the_loop(rules: str, stops: list[str]) -> None:
    """x and y have one size when the second loop comes, which goes over z too."""
    formats = {name: parse_format("Dense(Element(0.0))") for name in "xyz"}
    formats["s"] = parse_format("Scalar(0.0)")
    residual = Kernel(parse_kernel(TEXT), formats, rules).residual
    loops = [statement for statement in walk(residual.body) if isinstance(statement, For)]
    assert [str(loop.stop) for loop in loops] == stops
