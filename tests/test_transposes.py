"""The transposes pass: reads across the order of storage go to transposed copies where that pays."""

from __future__ import annotations

import copy
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from every_format import LEAVES, TEXTS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernels import kernel, run_congruent, run_staged

from finchlang import Session
from finchlang.normalize import normalize
from finchlang.source import FinchError
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.text.parse import parse_kernel
from finchlang.text.print import pretty

CSC, LIST, DENSE = (
    "Dense(SparseList(Element(0.0)))",
    "SparseList(Element(0.0))",
    "Dense(Element(0.0))",
)
FORMATS = {
    **{"A": CSC, "B": CSC, "C": CSC, "M": "Dense(Dense(Element(0.0)))"},
    **{"R": "Dense(RunList(Element(0.0)))", "S": "Dense(SparseByteMap(Element(0.0)))"},
    **{"x": DENSE, "y": DENSE, "v": LIST, "s": "ShortCircuitScalar(false)"},
    **{
        "H": "SparseHash{2}(Element(0.0))",
        "T": f"Dense({CSC})",
        "L": "SparseList(SparseList(Element(0.0)))",
    },
}


def normal(text: str) -> Any:
    return normalize(
        parse_kernel(f"begin {text} end"), {n: parse_format(f) for n, f in FORMATS.items()}
    )


ACROSS = [
    "for i=_, j=_ y[i] += A[i, j] end",
    "for i=_, j=_ y[i] += A[i, j] * x[j] end",
    "for i=_, j=_ y[i] += H[i, j] end",
    "for r=1:3, i=_, j=_ y[i] += A[i, j] end",
    "C .= 0; for j=_, i=_ C[i, j] = A[i, j] + A[j, i] end",
    "for i=_, j=_ y[i] += max(A[i, j], v[j] + 1) end",
    "for i=_, j=_ y[i] += A[i, j] + B[j, i] end",
    "for i=_, j=_ if A[i, j] > 0 y[i] += x[j] end end",
    "for i=_, j=_ let t = A[i, j]; y[i] += t * t end end",
    "for k=_, j=_, i=_ M[i, j] += B[i, k] * A[k, j] end",
    "for k=_, j=_, i=_ M[i, j] += L[i, k] * A[k, j] end",
    "for i=_, k=_, j=_ y[i] += T[i, j, k] end",
]


@pytest.mark.parametrize("text", ACROSS)
def test_a_copy_is_made_once_before_the_loops(text: str) -> None:
    found = normal(text)
    assert len(found.workspaces) == 1
    (note,) = found.notes
    (name,) = {"A": "A", "H": "H", "T": "T"}.keys() & {note.message[1]}
    assert note.message == f"`{name}` is read across its order: it goes through a transposed copy"
    lines = pretty(found.program).splitlines()
    declared = next(line for line in lines if f"@declare({name}_work" in line)
    assert lines.index(declared) < min(k for k, line in enumerate(lines) if "for " in line)
    reads = [line for line in lines if f"{name}_work[" in line and f"{name}_work[" not in line[:20]]
    assert reads or f"if {name}_work[" in pretty(found.program)


LEFT = {
    "in order": "for j=_, i=_ y[i] += A[i, j] end",
    "dense": "for i=_, j=_ y[i] += M[i, j] end",
    "has a place for each": "for i=_, j=_ y[i] += S[i, j] end",
    "runs": "for i=_, j=_ y[i] += R[i, j] end",
    "as often as is read": "for i=_, j=_, k=1:Int64(x[i]) y[i] += A[j, k] * A[k, i] end",
    "at read places": "for i=_, j=_ y[i] += A[Int64(x[i]), j] end",
    "rows of a list": "for i=_, j=_ y[i] += v[i] * A[i, j] end",
    "columns of a list": "for i=_, j=_ y[i] += A[i, j] * v[j] end",
    "entries of another": "for i=_, j=_ y[i] += A[i, j] * B[j, i] end",
    "entries of another, outside": "for i=_, k=_, j=_ M[k, j] += L[k, i] * A[i, j] end",
    "entries of its own": "C .= 0; for j=_, i=_ C[i, j] = A[i, j] * A[j, i] end",
    "in a product that is all": "for i=_, j=_ y[i] += (A[i, j] + 1) * (2 * v[i]) end",
    "under a condition": "for i=_ if i == 2 for j=_ y[i] += A[i, j] end end end",
    "on the diagonal": "for i=_, j=_ if DiagMask()[i, j] y[i] += A[i, j] end end",
    "of a condition on a list": "for i=_, j=_ if A[i, j] > v[j] y[i] += 1 end end",
    "until one is found": "for i=_, j=_ s[] |= A[i, j] > 0 end",
    "shifted": "for i=_, j=_ y[i] += coalesce(A[~(i + 1), j], 0) end",
    "written here": "A .= 0; for j=_, i=_ A[i, j] = M[i, j] end; for i=_, j=_ y[i] += A[i, j] end",
}


@pytest.mark.parametrize("why", LEFT)
def test_what_does_not_pay_is_left_alone(why: str) -> None:
    found = normal(LEFT[why])
    assert not found.workspaces and not found.notes
    without = normalize(
        parse_kernel(f"begin {LEFT[why]} end"),
        {n: parse_format(f) for n, f in FORMATS.items()},
        False,
    )
    assert pretty(found.program) == pretty(without.program)


def test_two_reads_share_a_copy_and_two_orders_have_two() -> None:
    twice = normal("for i=_, j=_ y[i] += A[i, j] end; for k=_, l=_ x[k] += A[k, l] end")
    assert len(twice.workspaces) == len(twice.notes) == 1
    orders = normal("for i=_, j=_, k=_ y[i] += T[i, j, k] + T[j, i, k] end")
    assert len(orders.workspaces) == 2


def test_without_workspaces_programs_are_as_they_were() -> None:
    found = normalize(
        parse_kernel(f"begin {ACROSS[0]} end"),
        {n: parse_format(f) for n, f in FORMATS.items()},
        False,
    )
    assert not found.workspaces and "A_work" not in pretty(found.program)


def steps(n: int) -> int:
    places = np.arange(n)
    tensor = Tensor.from_coo(CSC, (n, n), [places[::-1], places], np.ones(n))
    found = run_staged(
        kernel("y .= 0\nfor i = _, j = _\n    y[i] += A[i, j]\nend"), {"A": tensor, "y": DENSES}
    )
    np.testing.assert_array_equal(found["y"], np.ones(n))
    return found.total


DENSES = np.zeros(1)


def test_steps_are_in_proportion_to_the_entries() -> None:
    small, large = steps(500), steps(4_000)
    assert large <= small * 8 * np.log2(4_000) / np.log2(500) * 1.1


# ------------------------------------------------------------------------------------------ values

#: what is computed of A[{}], whose loops may stand in any order
BODIES = (
    "y[i] += A[{}]",
    "y[j] <<min>>= A[{}] + x[i]",
    "y[i] += A[{}] * x[j]",
    "if A[{}] != 0\n    y[j] += x[i]\nend",
    "let t = A[{}]\n    y[i] += t\nend",
    "D[i, j] = A[{}]",
    "C[i, j] += A[{}] * 2",
    "s[] += A[{}] * A[{}]",
)


def tensor(format: str, kind: Any, fill: Any, other: Any, shape: tuple[int, ...], seed: int) -> Any:
    rng = np.random.default_rng(seed)
    places = [np.ravel(c) for c in np.indices(shape)]
    chosen = rng.random(places[0].size) < 0.4
    values = np.where(rng.random(chosen.sum()) < 0.7, other, fill).astype(kind)
    return Tensor.from_coo(format, shape, [c[chosen] for c in places], values)


def run(
    text: str, values: dict[str, Any], engine: str, workspaces: bool, which: str = "all"
) -> Any:
    session = Session(engine, which, workspaces=workspaces)
    for name, value in values.items():
        session[name] = copy.deepcopy(value)
    session.run(text)
    return session


def stored(value: Any) -> Any:
    if isinstance(value, Tensor):
        places, entries = value.entries()
        return value.shape, np.asarray(places).tolist(), np.asarray(entries).tobytes()
    return np.asarray(value.value if isinstance(value, Scalar) else value).tobytes()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_values_are_what_they_were(data: Any) -> None:
    leaf = data.draw(
        st.sampled_from([name for name, (kind, *_) in LEAVES.items() if kind != np.bool_])
    )
    kind, fill, other = LEAVES[leaf]
    outer, inner = data.draw(st.sampled_from(TEXTS)), data.draw(st.sampled_from(TEXTS))
    shape = (data.draw(st.integers(0, 4)),) * 2
    try:
        format = outer.format(inner.format(leaf))
        if parse_format(format).order != 2:
            format = inner.format(leaf)
        made = tensor(format, kind, fill, other, shape, data.draw(st.integers(0, 9)))
    except FinchError:  # it cannot hold these, or has other modes
        return
    if made.format.order != 2:
        return
    body = data.draw(st.sampled_from(BODIES)).format(*data.draw(st.permutations(("i, j", "j, i"))))
    loops = data.draw(st.sampled_from(["for i = _, j = _", "for j = _, i = _"]))
    zero = f"{np.dtype(kind).name.title().replace('Ui', 'UI')}(0)"
    values = {
        **{"A": made, "x": np.arange(4).astype(kind)[: shape[0]], "y": np.zeros(shape[0], kind)},
        **{
            "s": Scalar(parse_format(f"Scalar({zero})")),
            "D": Tensor(f"Dense(Dense(Element({zero})))", *shape),
        },
        "C": Tensor(f"SparseHash{{2}}(Element({zero}))", *shape),
    }
    text = kernel(f"{loops}\n{body}\nend")
    runs = [run(text, values, "residual", workspaces) for workspaces in (True, False)]
    runs.append(run(text, values, "interpret", True, "paper"))
    for name in values:
        found, *others = (stored(r[name]) for r in runs)
        assert all(other == found for other in others), name


@pytest.mark.parametrize("order", list(permutations("ijk")))
@pytest.mark.parametrize("read", ["i, j, k", "k, i, j"])
@pytest.mark.parametrize("format", [f"Dense({CSC})", "SparseList(SparseCOO{2}(Element(0.0)))"])
def test_three_modes_in_any_order(order: tuple[str, ...], read: str, format: str) -> None:
    array = np.random.default_rng(0).integers(-2, 3, (3, 3, 3)) * 1.0
    values = {"A": Tensor.from_numpy(array, format), "y": np.zeros(3)}
    loops = ", ".join(f"{name} = _" for name in order)
    found = run_congruent(kernel(f"for {loops}\n    y[i] += A[{read}] * j\nend"), values)
    letters = read.replace(", ", "")
    np.testing.assert_array_equal(
        found["y"], np.einsum(f"{letters},j->i", array, np.arange(1.0, 4))
    )
