"""Lazy expressions of arrays compute what NumPy does step by step: values, types, shapes, and refusals.

`ARRAYS=2000 pytest tests/properties/test_array_expressions.py` tries so many.
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
from finchlang import FinchError, Session, Tensor

TYPES = ("float64", "int64", "bool", "float32", "int8", "uint8", "int32", "uint64")
FORMATS = {
    1: "Dense(%) SparseList(%) SparseBand(%) RunList(%) SparseByteMap(%) SparseHash{1}(%)",
    2: "Dense(SparseList(%)) SparseList(SparseList(%)) SparseCOO{2}(%) SparseList(Dense(%))"
    " Dense(SparseRunList(%)) RunList(SparseList(%)) Dense(SparseByteMap(%)) SparseHash{2}(%)",
    3: "SparseCOO{3}(%) Dense(SparseList(SparseList(%))) SparseList(Dense(SparseRunList(%)))",
}
#: steps by what they are of: `x` any value, `y` one that broadcasts with it, `w` another of its shape,
#: `p` one to be multiplied with; {a} an axis, {b} another, {k} a small integer, {n} one of any sign, {keep}
EXACT = """
square(x * 1) ; x * 1 ; x * y ; x * {k} ; prod(x, axis={a}) ; x // (y * y + 1) ; x % (y * y + 1)
pow(x * 1, 2) ; x @ p ; p.T @ x.T ; tensordot(x[None], w[..., None], axes=1) ; vecdot(x, y) ; x @ x.T
x.T @ w ; x[None] @ p ; inner(x, w) ; outer(x, y) ; vdot(x, w) ; dot(x, p) ; kron(x, w)
einsum("ij,ij->j", x, w) ; einsum("ij,jk", x, p) ; einsum("...i,...i->...", x, w)
einsum("ii->i", x.T @ x) ; einsum("ii", x @ x.T) ; einsum("iij->ij", x[None, None])
einsum("i...->...", x) ; einsum("ii,ij->j", x @ x.T, x) ; einsum("ij,ik,il->kl", x, w, x)
tensordot(x, w, axes=([{a}], [{a}])) ; tensordot(x, w.T, axes=([0, -1], [-1, 0]))
einsum("ij,kj->", x, w) ; tensordot(x, w, axes=({a}, {b})) ; tensordot(x, y, axes=0)
cumulative_prod(x, axis={a})
"""
#: steps that hold for NaN and infinities, too: a fill of 0 times any of these is 0
SPECIAL = """
abs(x) ; negative(x) ; sign(x) ; floor(x) ; trunc(x) ; logical_not(x) ; ceil(x) ; positive(x)
isfinite(x) ; isnan(x) ; isinf(x) ; nan_to_num(x, nan=1) ; signbit(abs(x)) ; astype(x != {k}, "int8")
x + y ; x - y ; y - x ; maximum(x, y) ; minimum(y, x) ; x == y ; x != y ; x < y ; x <= y ; x >= y
x & y ; x | y ; x ^ y ; logical_and(x, y) ; logical_xor(y, x) ; x + {n} ; {k} - x ; maximum(x, {n})
x == {n} ; x > {n} ; x <= {k} ; isclose(x, w) ; astype(x, "float32") ; astype(x, "bool")
where(x, y, w) ; where(x != 0, w, y) ; where(y > 0, x, {k}) ; clip(x * 1, 0, 2) ; clip(x * 1, None, y)
sum(x, axis={a}) ; sum(x) ; max(x, axis={a}) ; min(x) ; any(x, axis={a}) ; all(x, axis={a})
max(x, axis={a}, keepdims={keep}) ; sum(x, axis=({a}, {b})) ; count_nonzero(x, axis={a})
min(x, axis={a}) ; any(x, axis=({a}, {b}), keepdims={keep}) ; min(x, axis=({a}, {b})) ; ptp(x, axis={a})
argmax(x, axis={a}) ; argmin(x, axis={a}, keepdims={keep}) ; argmax(x) ; argmin(x) ; nansum(x, axis={a})
cumulative_sum(x, axis={a}) ; cumulative_sum(x, axis={a}, include_initial=True) ; cumsum(x)
permute_dims(x, range(x.ndim)[::-1]) ; moveaxis(x, {a}, {b}) ; swapaxes(x, {a}, {b}) ; x.T
squeeze(x) ; expand_dims(x, axis={a}) ; expand_dims(x, axis=(0, -1)) ; x[..., None] ; x[None]
x + {k} - sum(w) ; broadcast_to(x, (2, *x.shape)) ; broadcast_to(sum(x, axis={a}, keepdims=True), x.shape)
diagonal(x, {n}) ; trace(x, {n}) ; diagonal(x[None], {n}, -1, 0)
x[{k}:] ; x[::-1] ; x[..., ::2] ; x[..., {k}::-1] ; x[:-1] ; x[0] ; x[..., -1] ; x[[0, -1, 0]]
x[::-2] ; x[..., {n}:{k}] ; x[-1:{n}:-2, ...] ; x[{k}:{k}] ; x[..., :0:-1] ; x[1:3, ::-2] ; x[{n}]
x[[[0, -1], [-1, 0]]] ; x[..., [0, 0, -1]] ; x[[0, -1], [-1, 0]] ; x[[0, -1], :, [-1, 0]]
x[[[0], [-1]], [0, -1]] ; x[0, ..., [0, 0]] ; x[[0, -1], None, ..., ::-1] ; x[x > {k}] ; x[x == x]
x[w > 0] ; x[any(x[..., None], axis=-1)] ; x[None][any(x[None], axis=-1)] ; take(x, [0, -1], axis={a})
take_along_axis(x, argsort(x, axis={a}), axis={a}) ; unstack(x, axis={a})[0]
flip(x, axis={a}) ; flip(x) ; flip(x, axis=({a}, {b})) ; roll(x, {n}, axis={a}) ; roll(x, {n})
roll(x, ({k}, {n}), axis=({a}, {b})) ; repeat(x, 2, axis={a}) ; repeat(x, {k}) ; tile(x, (2, 1))
tile(x, {k}) ; repeat(x, [{k}] * x.shape[{a}], axis={a})
reshape(x, -1) ; reshape(x, (-1, x.shape[0])) ; reshape(x, (x.shape[-1], -1))
reshape(x, (1, -1, 1)) ; reshape(x, -1, order="F") ; reshape(x, x.shape[::-1])
concat([x, w], axis={a}) ; concat([x, w, x], axis={a}) ; stack([x, w], axis={a}) ; vstack([x, w])
concat([x, y], axis=None) ; hstack([w, x]) ; dstack([x, w]) ; column_stack([x, w]) ; block([[x, w], [w, x]])
concat([x[1:], w[:1]]) ; tril(x[None, None], {n}) ; triu(x[..., None, None], {n})
sort(x, axis={a}) ; sort(abs(x), axis={a}) ; argsort(x, axis={a}, stable=True) ; unique_values(x)
unique_counts(x).counts ; searchsorted(sort(ravel(x)), ravel(w)) ; stack(nonzero(x)) ; argwhere(x[None])
diff(x, axis={a}) ; diff(x, n=2) ; diff(x, axis={a}, prepend=0) ; diff(x, append=w)
"""
ROUNDED = """
exp(x * 0.25) ; sqrt(x * 1.0 * x) ; tanh(x * 1.0) ; x / (y * y + 1) ; mean(x, axis={a})
var(x, axis={a}) ; std(x)
mean(x, axis=({a}, {b}), keepdims={keep}) ; x * 0.1
"""
#: steps that keep small differences small
SMOOTH = """
negative(x) ; x + y ; x * y ; where(y > 0, x, w) ; sum(x, axis={a}) ; x.T ; reshape(x, -1)
concat([x, w], axis={a})
x[::-1] ; x[..., 1:] ; tanh(x) ; mean(x, axis={a}) ; max(x, axis={a}) ; x @ p ; roll(x, {k})
triu(x[None, None]) ; repeat(x, 2)
"""


def steps(text: str) -> list[str]:
    lines = filter(None, text.splitlines())
    return [step for line in lines for step in line.split(" ; ")]


class Program:
    """Steps that are drawn one by one, each of earlier results and new operands, in both libraries."""

    def __init__(self, draw: Any):
        self.draw = draw
        self.numpy, self.ours, self.text = dict[str, Any](), dict[str, Any](), list[str]()
        self.rounded = set[str]()
        self.is_special = draw(st.sampled_from((False, False, True)))

    def operand(self, shape: tuple[int, ...], dtype: str) -> str:
        """A new operand, by its name."""
        draw, type = self.draw, np.dtype(dtype)
        rng = np.random.default_rng(draw(st.integers(0, 1000)))
        low, high = (0, 2) if dtype == "bool" else (0 if type.kind == "u" else -3, 4)
        values = rng.integers(low, high, shape).astype(type)
        values = values / np.array(2, type) if type.kind == "f" else values
        fills = (0, 0, 1, *(np.inf, np.nan, -0.5) * (type.kind == "f" and self.is_special))
        fill = np.array(draw(st.sampled_from(fills))).astype(type)
        if type.kind == "f" and self.is_special:
            values.flat[::3] = rng.choice(
                (np.nan, np.inf, -np.inf, -0.0), values[...].flat[::3].size
            )
        array = np.where(rng.random(shape) < draw(st.sampled_from((0.7, 0.3, 1))), fill, values)
        kinds = ["NumPy", *FORMATS.get(len(shape), "").split(), *["csr", "csc"] * (len(shape) == 2)]
        kind, name = draw(st.sampled_from(kinds)), f"a{len(self.numpy)}"
        self.numpy[name] = array = array.astype(type)
        if kind in ("csr", "csc"):
            self.ours[name] = xp.asarray(sp.csr_array(array).asformat(kind))
        elif kind == "NumPy":
            self.ours[name] = xp.asarray(np.asarray(array, order=draw(st.sampled_from("CF"))))
        else:
            format = kind.replace("%", "Element(0.0)")
            self.ours[name] = xp.asarray(array, format=format, fill_value=fill.item())
        self.text.append(f"{name} = {kind} of {fill}: {dtype}({array.tolist()}, shape={shape})")
        return name

    def step(self) -> bool:
        """One more step; whether NumPy takes it."""
        draw = self.draw
        x = draw(st.sampled_from([*self.numpy][-3:]))
        array, names = np.asarray(self.numpy[x]), {"x": x}
        kinds = steps(SMOOTH if x in self.rounded else EXACT * 2 + SPECIAL + ROUNDED)
        kinds = steps(SPECIAL) if self.is_special else kinds
        kinds = kinds if array.ndim else [s for s in kinds if not re.search("{a}|@", s)]
        step = draw(st.sampled_from(kinds))
        for name in sorted({*re.findall(r"\b[ywp]\b", step)}):
            dtype = array.dtype.name if draw(st.booleans()) else draw(st.sampled_from(TYPES))
            names[name] = self.operand(self.shape(name, array.shape), dtype)
        axes = st.integers(-array.ndim, max(array.ndim - 1, 0))
        numbers = {"a": draw(axes), "b": draw(axes), "k": draw(st.integers(0, 3))}
        numbers["n"] = draw(st.integers(-4, 4))
        text = step.format(**numbers, keep=draw(st.booleans()))
        text = re.sub(r"\b[xywp]\b", lambda found: names[found[0]], text)
        name = f"a{len(self.numpy)}"
        self.text.append(f"{name} = {text}")
        wanted, found = value(np, text, self.numpy), value(xp, text, self.ours)
        if isinstance(wanted, Exception) or isinstance(found, Exception):
            kinds_of = [isinstance(wanted, k) and isinstance(found, k) for k in REFUSALS]
            assert any(kinds_of), (wanted, found)
            return False
        self.numpy[name], self.ours[name] = wanted, found
        if step in steps(ROUNDED) or self.rounded & {*names.values()}:
            self.rounded.add(name)
        return wanted.dtype != np.float16 and wanted.size < 5000

    def shape(self, name: str, of: tuple[int, ...]) -> tuple[int, ...]:
        if name == "p":
            return (of[-1] if of else 2, self.draw(st.integers(0, 3)))
        if name == "w":
            return of
        keeps = self.draw(st.lists(st.booleans(), min_size=len(of), max_size=len(of)))
        shape = tuple(size if keep else 1 for size, keep in zip(of, keeps, strict=True))
        return shape[self.draw(st.integers(0, len(of))) :]


REFUSALS = (ValueError, IndexError, TypeError, OverflowError)


def value(module: Any, text: str, names: dict[str, Any]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return eval(text, {**vars(module), **names})
    except REFUSALS as error:
        return error


def check(found: Any, wanted: Any) -> None:
    dense = found.to_numpy() if hasattr(found, "to_numpy") else np.asarray(found.value, found.dtype)
    assert (found.shape, dense.dtype) == (np.shape(wanted), wanted.dtype)
    scale = float(np.max(np.abs(wanted), initial=1, where=np.isfinite(wanted)))
    near = (1e-4 if wanted.dtype == np.float32 else 1e-9) * scale
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(dense, wanted)
    else:
        np.testing.assert_allclose(dense, wanted, rtol=near / scale, atol=near)


@pytest.mark.filterwarnings("ignore")
@settings(
    max_examples=int(os.environ.get("ARRAYS", "60")),
    report_multiple_bugs=False,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data())
def test_expressions_give_what_numpy_gives(data: st.DataObject) -> None:
    program = Program(data.draw)
    try:
        shape = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
        program.operand(tuple(shape), data.draw(st.sampled_from(TYPES)))
        for _ in range(data.draw(st.integers(1, 12))):
            if not program.step():
                break
        last = [*program.numpy][-2:]
        arrays = [program.ours[name] for name in last]
        for array, name in zip(arrays, last, strict=True):
            wanted = np.asarray(program.numpy[name])
            assert array.shape == wanted.shape
            assert array.dtype == wanted.dtype or wanted.dtype == np.float16
        reorder = data.draw(st.sampled_from(("exact", "none", "any")))
        results = xp.compute(*arrays, reorder=reorder)
        results = results if len(arrays) > 1 else [results]
        for result, name in zip(results, last, strict=True):
            wanted = np.asarray(program.numpy[name])
            if wanted.dtype != np.float16:
                check(result, wanted)
    finally:
        note("\n".join(program.text))


#: what `@array` makes of x and y, which broadcasts with it, and NumPy of them transposed
STATEMENTS = """
x .+ y :: x + y ; y .* x :: y * x ; x .- y :: x - y ; min(x, y) :: minimum(x, y)
max(y, x) :: maximum(y, x)
y .> x ? y : x :: where(y > x, y, x) ; x .<= y || x .== 1 :: logical_or(x <= y, x == 1)
abs(x) :: abs(x)
2 - x :: 2 - x ; x .^ 2 :: x ** 2 ; sum(x; dims = 1) :: sum(x, axis=-1, keepdims=True)
x .!= y :: x != y
maximum(x; dims = 2) :: max(x, axis=0, keepdims=True)
prod(x; dims = (1, 2)) :: prod(x, keepdims=True)
transpose(x) :: x.T ; x * transpose(x) :: x.T @ x
permutedims(x, (2, 1)) :: x.T
x[:, 2:-1:1] :: x[1::-1] ; x[1:1, :] :: x[:, :1]
dropdims(sum(x; dims = 2); dims = 2) :: sum(x, axis=0)
"""


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=int(os.environ.get("ARRAYS", "40")))
@given(st.data())
def test_statements_give_what_numpy_gives(data: st.DataObject) -> None:
    """Modes count, and broadcast, from the first on: as NumPy's of what is transposed."""
    draw, session, names = data.draw, Session(), dict[str, Any]()

    def operand(name: str, shape: tuple[int, ...]) -> None:
        values = np.random.default_rng(draw(st.integers(0, 999))).integers(-2, 3, shape)
        names[name] = values.T.astype(draw(st.sampled_from((float, int))))
        format = draw(st.sampled_from([*FORMATS[len(shape)].split(), "NumPy"]))
        fill = "0.0" if names[name].dtype == float else "0"
        given = format.replace("%", f"Element({fill})")
        session[name] = names[name].T if format == "NumPy" else Tensor(given, names[name].T)

    operand("x0", (3, draw(st.integers(2, 4))))
    for k in range(draw(st.integers(1, 3))):
        text, meant = draw(st.sampled_from(steps(STATEMENTS))).split(" :: ")
        shape = names[f"x{k}"].T.shape
        operand(f"y{k}", draw(st.sampled_from([shape, shape[:1], (shape[0], 1), (1, shape[1])])))
        number = re.compile(r"\b[xy]\b")
        statement = f"@array x{k + 1} = {number.sub(lambda found: f'{found[0]}{k}', text)}"  # noqa: B023
        note(f"{statement}, {names}")
        found = value(np, number.sub(lambda found: f"{found[0]}{k}", meant), names)  # noqa: B023
        if isinstance(found, Exception):
            with pytest.raises(FinchError):
                session.run(statement)
            return
        check(session.run(statement), found.T)
        if found.ndim < 2 or min(found.shape) < 2 or found.dtype == bool:
            return
        names[f"x{k + 1}"] = found
