"""Schedules keep what a program means, in any number and order; the denotation, which ignores them, is
what they are compared with."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from finchlang import Session, Tensor

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


@settings(max_examples=40)
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
