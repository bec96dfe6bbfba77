"""The derived rule DeadWorkspace: where nothing is added to a workspace, it is its fill."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernels import Ran, kernel, run_congruent, run_staged

from finchlang import Session
from finchlang.host.residual import ResidualHost
from finchlang.normalize import normalize
from finchlang.normalize.types import with_fills
from finchlang.rules.dead_workspace import is_nothing
from finchlang.rules.engine import Machine, State
from finchlang.rules.table import rules
from finchlang.tensors.bind import bind
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Tensor
from finchlang.text.parse import parse_kernel

TWICE = "SparseList(SparseList(Element(0.0)))"
GUSTAVSON = """
C .= 0
for j = _
    w .= 0
    for k = _, i = _
        w[i] += A[i, k] * B[k, j]
    end
    for i = _
        C[i, j] = w[i]
    end
end
"""


def product(
    columns: int, which: str = "all", workspace: str = "SparseByteMap", body: str = GUSTAVSON
) -> Ran:
    """Gustavson's product, of matrices with entries in few columns."""
    a, b = ([1, 3, 4, 3], [2, 2, 2, 5]), ([2, 5, 4, 2], [3, 3, 3, 5])
    values = {
        "A": Tensor.from_coo(TWICE, (9, 9), [*map(np.array, a)], np.arange(1.0, 5)),
        "B": Tensor.from_coo(TWICE, (9, columns), [*map(np.array, b)], np.arange(1.0, 5)),
        "C": Tensor(TWICE),
        "w": Tensor(f"{workspace}(Element(0.0))"),
    }
    return run_staged(kernel(body), values, which)


def entries(tensor: Any) -> Any:
    places, values = tensor.entries()
    return tensor.shape, np.array(places).tolist(), np.asarray(values).tolist()


@pytest.mark.parametrize("workspace", ["SparseByteMap", "SparseHash"])
def test_no_steps_are_taken_for_empty_columns(workspace: str) -> None:
    few, many = product(1_000, "all", workspace), product(10**9, "all", workspace)
    assert few.total == many.total
    assert entries(few.session["C"])[1:] == entries(many.session["C"])[1:]
    assert few.total < product(1_000, "all-DeadWorkspace", workspace).total / 5


def test_inserted_workspaces_take_none_either() -> None:
    body = "C .= 0\nfor j = _, k = _, i = _\n    C[i, j] += A[i, k] * B[k, j]\nend"
    steps = [product(columns, body=body).total for columns in (1_000, 10**9)]
    assert steps[0] == steps[1]


def test_a_tensor_of_the_script_is_left_as_the_last_iteration_leaves_it() -> None:
    for columns in (6, 7):  # the last column has entries, or it has none
        left = [entries(product(columns, which).session["w"]) for which in ("all", "paper")]
        assert left[0] == left[1]
        assert bool(left[0][2]) == (columns == 6)


def test_what_the_kernel_alone_has_is_not_made() -> None:
    formats = {n: parse_format("SparseByteMap(Element(0.0))") for n in "wC"}
    body = "@declare(C, 0, 1:5); @declare(w, 0, 1:{}); for i = 1:5 C[i] = {} end"

    def is_left(size: str, value: str, own: str) -> bool:
        node = parse_kernel(f"begin {body.format(size, value)} end")
        program = with_fills(normalize(node, dict(formats)).program, formats)
        bounds = {name: bind(name, level, True) for name, level in formats.items()}
        fibers = {name: bound.fiber for name, bound in bounds.items()}
        state = State.before(ResidualHost(), fibers, own)
        return not is_nothing(Machine(rules("all")), program, state)

    assert not is_left("5", "w[i]", "wC")
    assert not is_left("5", "w[i] * 3", "wC")
    assert is_left("5", "w[i]", "w") and is_left("5", "w[i]", "")
    assert is_left("5", "w[i] + i", "wC")


#: what may be done with a workspace once it is frozen, and what comes before it
USES = (
    "for i = _\n        C[i, j] = w[i]\n    end",
    "for i = _\n        C[i, j] = w[i] + x[i]\n    end",
    "for i = 1:size(w, 1)\n        C[i, j] = w[i] * x[i]\n    end",
    "for i = _\n        C[i, j] = max(w[i], v[i])\n    end",
    "for i = 1:4\n        y[j] += w[~(i + 1)]\n    end",
    "for i = _\n        y[j] += w[i]\n    end\n    w .= 0\n    w[2] += B[1, j]",
    "for i = _\n        if w[i] == 0\n            y[j] += x[i]\n        end\n    end",
    "for i = _\n        y[j] += coalesce(w[~(i - 1)], 7)\n    end",
)
WORKSPACES = (
    *("SparseByteMap", "SparseHash", "SparseList", "SparseRunList", "RunList", "Dense"),
    *("SparseBlockList", "SparseCOO{1}", "SparseBand"),
)
X = np.array([0.0, 2.0, -1.0, np.inf])


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(USES), st.sampled_from(WORKSPACES), st.sampled_from(WORKSPACES[:4]), st.data()
)
def test_all_tensors_are_left_as_without_it(use: str, work: str, outer: str, data: Any) -> None:
    columns = data.draw(st.lists(st.booleans(), min_size=1, max_size=5))
    values = {
        "B": Tensor.from_numpy(
            np.outer([0, 3.0, 0, 4.0], columns), f"{outer}({outer}(Element(0.0)))"
        ),
        "x": X,
        "y": np.zeros(len(columns)),
        "v": Tensor.from_numpy(np.array([0, 1.0, 0, -1.0]), "SparseList(Element(0.0))"),
        "C": Tensor(TWICE),
        "w": Tensor(f"{work}(Element(0.0))", 4),
    }
    body = f"C .= 0\nfor j = _\n    w .= 0\n    for i = _\n        w[i] += B[i, j]\n    end\n    {use}\nend"
    if " C[" not in use:
        body = body.removeprefix("C .= 0\n")
    found, base = run_congruent(kernel(body), values), run_staged(kernel(body), values, "paper")
    assert str(found.error) == str(base.error)
    for name in values:
        new, old = found.session[name], base.session[name]
        if isinstance(new, Tensor):
            assert repr(entries(new)) == repr(entries(old)), name
        else:
            np.testing.assert_array_equal(new, old)


def test_a_literal_fill_is_no_more_than_what_the_paper_has_there() -> None:
    """What a dense workspace holds is data, of which 0 times infinity is no number."""
    session = Session("residual")
    for work, expected in (("Dense", [np.nan]), ("SparseByteMap", [0.0])):
        session["B"] = Tensor("SparseList(Element(0.0))", 1)
        session["w"], session["y"] = Tensor(f"{work}(Element(0.0))", 1), np.zeros(1)
        session["x"] = np.array([np.inf])
        session.run(
            kernel(
                "for j=_\nw .= 0\nfor i=1:1 w[i] += B[j] end\nfor i=_ y[j] += w[i] * x[i] end\nend"
            )
        )
        np.testing.assert_array_equal(session["y"], expected)
