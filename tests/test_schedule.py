"""Schedules keep what a program means, in any number and order; the denotation, which ignores them, is
what they are compared with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finchlang.session import Observer, Session
from finchlang.source import FinchError
from finchlang.tensors.tensor import Scalar, Tensor

FORMATS = ("Dense(Dense(Element(0)))", "Dense(SparseList(Element(0)))", "SparseCOO{2}(Element(0))")
RESULTS = (*FORMATS, "SparseHash{2}(Element(0))", "SparseList(SparseList(Element(0)))")
PRODUCT = """begin
    A .= 0
    for i = _, k = _, j = _
        A[j, i] += B[i, k] * C[k, j]
    end
end"""


@st.composite
def schedules(draw) -> str:
    """A few schedules of a nest of loops over i, k and j, most of which apply."""
    loops, made, lines = ["i", "k", "j"], 0, []
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(("reorder", "split", "fuse")))
        if kind == "reorder":
            chosen = draw(st.permutations(loops))[: draw(st.integers(1, len(loops)))]
            left = iter(chosen)
            loops = [next(left) if name in chosen else name for name in loops]
            lines.append(f"reorder({', '.join(chosen)})")
            continue
        made += 1
        at = draw(st.integers(0, len(loops) - 1))
        if kind == "split":
            new = [f"a{made}", f"b{made}"]
            lines.append(f"split({loops[at]}, {', '.join(new)}, {draw(st.integers(1, 5))})")
            loops[at : at + 1] = new
        elif at + 1 < len(loops):
            lines.append(f"fuse({loops[at]}, {loops[at + 1]}, f{made})")
            fused, name = loops[at : at + 2], f"f{made}"
            access = {"ik": "B[i, k]", "jk": "C[k, j]"}.get("".join(sorted(fused)))
            if access is not None and draw(st.booleans()):
                lines.append(f"pos({name}, p{made}, {access})")
                name = f"p{made}"
            loops[at : at + 2] = [name]
    return "\n".join(f"@schedule {line}" for line in lines)


@st.composite
def matrices(draw, rows: int, columns: int) -> np.ndarray:
    cells = draw(st.lists(st.integers(-1, 2), min_size=rows * columns, max_size=rows * columns))
    return np.array(cells, dtype=np.int64).reshape(rows, columns).clip(0)


def product(engine: str, text: str, format: str, b: Tensor, c: Tensor) -> np.ndarray:
    session = Session(engine)
    session["B"], session["C"] = b, c
    session["A"] = Tensor.from_numpy(np.zeros((1, 1), dtype=np.int64), format)
    session.run(text)
    return np.asarray(session["A"].to_numpy() if isinstance(session["A"], Tensor) else session["A"])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_schedules_keep_the_meaning(data):
    m, n, o = (data.draw(st.integers(0, 5)) for _ in range(3))
    b, c = data.draw(matrices(m, n)), data.draw(matrices(n, o))
    stored = [Tensor.from_numpy(x, data.draw(st.sampled_from(FORMATS))) for x in (b, c)]
    schedule, format = data.draw(schedules()), data.draw(st.sampled_from(RESULTS))
    if data.draw(st.booleans()):
        schedule += "\n@schedule precompute(B[i, k] * C[k, j], (i, j), W)"
    text = f"{schedule}\n@finch {PRODUCT}"
    engine = data.draw(st.sampled_from(("interpret", "residual", "native")))
    assert np.array_equal(product(engine, text, format, *stored), (b @ c).T)
    assert np.array_equal(product("denote", text, format, *stored), (b @ c).T)


@pytest.mark.parametrize(
    ("schedule", "is_in_order"),
    [
        ("split(i, i0, i1, 3)", True),
        ("split(k, k0, k1, 3), split(k0, a, b, 2), split(i, i0, i1, 1)", True),
        ("fuse(k, i, f)", True),
        ("fuse(k, i, f), split(f, f0, f1, 4)", True),
        ("split(i, i0, i1, 3), fuse(k, i0, f)", True),
        ("split(i, i0, i1, 3), reorder(i1, i0)", False),
        ("reorder(i, k), fuse(i, k, f)", False),
        ("fuse(k, i, f), split(f, f0, f1, 4), reorder(f1, f0)", False),
    ],
)
def test_a_list_is_written_in_the_order_of_the_original_indices(schedule, is_in_order):
    """Workspaces'24 section 6.2: the loops' order is traced back."""
    session = Session("interpret", workspaces=False)
    session["B"] = b = np.arange(12).reshape(4, 3)
    session["A"] = Tensor.from_numpy(0 * b, "Dense(SparseList(Element(0)))")
    text = (
        f"@schedule {schedule}\n@finch begin A .= 0; for k = _, i = _; A[i, k] = B[i, k]; end end"
    )
    if is_in_order:
        session.run(text)
        assert np.array_equal(session["A"].to_numpy(), b)
    else:
        with pytest.raises(FinchError) as caught:
            session.run(text)
        assert caught.value.kind == "access order"


def test_positions_visit_what_is_stored_alone():
    """Also of a hypersparse matrix, without a step for each of its columns."""

    def steps(columns: int) -> int:
        counted: list[int] = []
        session = Session("interpret", observer=_Counter(counted))
        rows, places = np.array([2, 0, 1]), np.array([1, 5, 9]) * (columns // 10)
        format = "SparseCOO{2}(Element(0.0))"
        session["B"] = Tensor.from_coo(format, (3, columns), (rows, places), np.ones(3))
        session["s"] = Scalar(0.0)
        session.run(
            "@schedule fuse(k, i, f), pos(f, p, B[i, k])\n"
            "@finch begin s .= 0; for k = _, i = _; s[] += B[i, k] * i; end end"
        )
        assert session["s"].value == 6.0
        return counted[0]

    assert steps(10) == steps(10**6)


class _Counter(Observer):
    def __init__(self, counted: list[int]):
        self.counted = counted

    def finished(self, event, steps):
        self.counted.append(sum(steps.values()))
