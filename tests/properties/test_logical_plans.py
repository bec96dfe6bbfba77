"""Products and sums of arrays give what NumPy gives, planned and as they are written.

`PLANS=2000 pytest tests/properties/test_logical_plans.py` tries so many.
"""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, Phase, given, note, settings, strategies as st

import finchlang.array as xp

#: sizes at which it pays to plan
SIZES = (1, 24, 30, 36)
TYPES = ("f8", "f8", "i8", "f4", "?")
FORMATS = {
    1: ("NumPy", "SparseList(%)", "Dense(%)", "SparseBand(%)"),
    2: (
        "NumPy",
        "csr",
        "csc",
        "Dense(SparseList(%))",
        "SparseList(SparseList(%))",
        "SparseCOO{2}(%)",
    ),
}
#: steps, of x, y with the same shape or one that broadcasts, m and n to multiply with from both sides
STEPS = (
    """
x @ m ; n @ x ; x @ m ; n @ x ; x * (n @ o) ; (n @ o) * x ; (n @ o) @ x
x * y ; y * x ; x + y ; x - y ; x.T ; x.T @ x ; x @ x.T ; x - xp.sum(x @ m) ; xp.sum(x) - xp.sum(y)
xp.sum(x, axis=0) ; xp.sum(x, axis=1) ; xp.sum(x) ; xp.sum(x, axis=0, keepdims=True)
xp.mean(x, axis=1, keepdims=True) * y ; x - xp.mean(x, axis=0) ; x / 4 ; 2 * x ; -x
xp.max(x, axis=0) ; xp.min(xp.max(x, axis=1)) ; x * xp.exp((n @ o) / 64) ; x / (1 + y * y)
xp.max(xp.minimum(x, y), axis=1) ; xp.min(x[:, :, None] + m[None], axis=1) ; x + 1 ; x[:, None, :] * y
xp.concat([x, y], axis=1) @ xp.concat([m, m]) ; xp.concat([x, y], axis=1) @ xp.concat([m[1:], m, m[:1]])
((n @ o) @ x)[1:] ; (xp.exp((n @ o) / 64) @ x)[0, ::2] ; xp.sum(xp.concat([x, y, x], axis=1), axis=1)
xp.einsum("ij,ik,jl->kl", x, x, x) ; xp.einsum("ij,ij->", x, x) ; xp.astype(x, xp.float64)
""".replace("\n", " ; ")
    .strip(" ;")
    .split(" ; ")
)


class Operands:
    """Expressions drawn step by step, with what NumPy makes of them."""

    def __init__(self, draw: Any):
        self.draw, self.ours, self.numpy = draw, dict[str, Any](), dict[str, Any]()
        self.seed, self.text = np.random.default_rng(draw(st.integers(0, 9999))), list[str]()

    def operand(self, shape: tuple[int, ...], type: str) -> str:
        """A new operand of small integers, in any layout, by its name."""
        name, values = f"a{len(self.numpy)}", self.seed.integers(0 if type == "?" else -2, 3, shape)
        part = self.draw(st.sampled_from((0.05, 0.2, 1.0)))
        array = np.where(self.seed.random(shape) < part, values, 0).astype(type)
        format = self.draw(st.sampled_from(FORMATS.get(len(shape), ("NumPy",))))
        self.numpy[name] = array
        if format == "NumPy":
            self.ours[name] = xp.asarray(np.asarray(array, order=self.draw(st.sampled_from("CF"))))
        elif format in ("csr", "csc"):
            self.ours[name] = xp.asarray(sp.csr_array(array).asformat(format))
        else:
            whole, fill = format.replace("%", "Element(0.0)"), np.zeros((), type).item()
            self.ours[name] = xp.asarray(array, format=whole, fill_value=fill)
        self.text.append(f"{name} = {format} of {type}{shape}")
        return name

    def step(self, x: str) -> str | None:
        """The name of one more step of `x`; None if NumPy does not take it, or values become too great."""
        array, sizes = self.numpy[x], st.sampled_from(SIZES)
        text, names = self.draw(st.sampled_from(STEPS)), {"x": x, "xp": "xp"}
        k, type = self.draw(sizes), self.draw(st.sampled_from((array.dtype.str, *TYPES)))
        rows, columns = array.shape if array.ndim == 2 else (k, *array.shape, 1, 1)[:2]
        shapes = {"y": array.shape, "m": (array.shape[-1] if array.ndim else 1, k)}
        shapes |= {"n": (k if "n @ x" in text else rows, rows if "n @ x" in text else k)}
        shapes |= {"o": (k, rows if "(n @ o) @ x" in text else columns)}
        if not array.ndim and "axis" in text:
            return None
        if array.ndim != 2 and any(word in text for word in ("einsum", "o)", "axis=1", "[:, ")):
            return None
        words = re.findall(r"\b[ymno]\b", text)
        for word in dict.fromkeys(words):
            names[word] = self.operand(shapes[word], type)
        name = f"a{len(self.numpy)}"
        text = re.sub(r"\b(x|y|m|n|o)\b", lambda m: names[m[0]], text)
        self.text.append(f"{name} = {text}")
        try:
            with np.errstate(all="ignore"):
                wanted = np.asarray(eval(text, {"xp": np, **self.numpy}))
            made = eval(text, {"xp": xp, **self.ours})
        except (ValueError, TypeError, AttributeError):
            return None
        if wanted.size > 60_000 or not np.all(np.abs(wanted.astype(float)) < 2.0**50):
            return None
        self.ours[name], self.numpy[name] = made, wanted
        return name


def check_case(draw: Any, steps: int, say: Any) -> None:
    found = Operands(draw)
    shape = draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=2))
    last = found.operand((*shape, *shape)[:2], draw(st.sampled_from(TYPES)))
    for _ in range(steps):
        last = found.step(last) or last
    say("\n".join(found.text))
    wanted = found.numpy[last]
    for reorder in ("exact", "any", "none"):
        result = xp.compute(found.ours[last], reorder=reorder)
        dense = np.asarray(result.to_numpy() if hasattr(result, "to_numpy") else result.value)
        if wanted.dtype.kind in "bi":
            np.testing.assert_array_equal(dense, wanted)
        else:
            scale = max(float(np.max(np.abs(wanted), initial=1)), 1.0)
            near = 2e-3 if any(a.dtype == np.float32 for a in found.numpy.values()) else 1e-8
            np.testing.assert_allclose(dense, wanted, rtol=near, atol=near * scale)


@pytest.mark.filterwarnings("ignore")
@settings(
    max_examples=int(os.environ.get("PLANS", "12")),
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data())
def test_plans_give_what_numpy_gives(data: st.DataObject) -> None:
    check_case(data.draw, data.draw(st.integers(1, 4)), note)
