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
from kernels import kernel, run_congruent

from finchlang import Session
from finchlang.source import FinchError
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Scalar, Tensor

CSC, LIST, DENSE = (
    "Dense(SparseList(Element(0.0)))",
    "SparseList(Element(0.0))",
    "Dense(Element(0.0))",
)
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
