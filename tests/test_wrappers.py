"""Wrappers (Finch'25 Table 5): every one on operands of each kind, read and written, by the meaning,
the interpreter, the residual program and native code."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from finchlang.denote.denotation import denote
from finchlang.host.verify import check
from finchlang.normalize import normalize
from finchlang.run.kernel import Kernel
from finchlang.source import FinchError
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.text.parse import parse_kernel
from finchlang.text.print import pretty
from finchlang.types import Int64

pytestmark = pytest.mark.checked

DENSE, LIST, BYTES = (f"{kind}(Element(0.0))" for kind in ("Dense", "SparseList", "SparseByteMap"))
KINDS = (DENSE, LIST, BYTES)
MATRICES = (f"Dense({DENSE})", f"Dense({LIST})", f"SparseList({LIST})", f"Dense({BYTES})")
VECTOR = np.array([1.0, 0, 0, 2, 0, 3, 4])
MATRIX = np.array([[1.0, 0, 0, 2], [0, 0, 3, 0], [5, 0, 0, 6], [0, 0, 8, 0], [9, 0, 1, 2]])


def tensor(array: Any, format: str) -> Tensor:
    return Tensor.from_numpy(np.asarray(array, float), format)


def kernel(text: str, given: dict[str, Any]) -> Kernel:
    formats = {n: getattr(v, "format", Int64) for n, v in given.items()}
    return Kernel(parse_kernel(text), formats)


def run(text: str, **given: Any) -> tuple[dict[str, Any], Counter[str]]:
    """What a kernel leaves, the same in all four semantics, and the steps it takes."""
    compiled = kernel(text, given)
    check(compiled.residual)
    expected = denote(parse_kernel(text), copy.deepcopy(given))
    steps = []
    for engine in ("interpret", "run_residual", "run_native"):
        own = copy.deepcopy(given)
        compiled._workspaces[:] = [Tensor(work.format) for work in compiled._workspaces]
        tensors = [own[n] for n in compiled.tensors]
        steps.append(getattr(compiled, engine)(tensors, [own[n] for n in compiled.numbers]))
        for name, written in zip(compiled.tensors, compiled.written, strict=True):
            if written:
                np.testing.assert_array_equal(own[name].to_numpy(), expected[name], engine)
                if isinstance(own[name], Tensor):
                    own[name].checked = False
                    own[name].validate()
    assert steps[0] == steps[1]
    return expected, steps[0]


def failure(text: str, engine: str, **given: Any) -> FinchError:
    with pytest.raises(FinchError) as caught:
        compiled = kernel(text, given)
        tensors = [given[n] for n in compiled.tensors]
        getattr(compiled, engine)(tensors, [given[n] for n in compiled.numbers])
    return caught.value


def normal(text: str, **formats: Any) -> str:
    known = {n: parse_format(f) if isinstance(f, str) else f for n, f in formats.items()}
    return pretty(normalize(parse_kernel(text), known).program)


#: kernels over a vector x of size 7, a vector v of size 3 and n = 2
READS = {
    "shift": "y .= 0; for i=_; y[i + 2] = x[i + 2] end",
    "shift over an extent": "@declare(y, 0, 1:7); for i=-1:5; y[i + 2] += x[i + 2] end",
    "shift by a number": "y .= 0; for i=0:6; y[i + 1] = x[n - 1 + i] end",
    "sum of indices": "y .= 0; for j=1:3, i=1:3; y[j] += x[i + j - 1] * i end",
    "sum out of range": "y .= 0; for j=1:3, i=1:7; y[i] += coalesce(x[i + j - n], 0) * j end",
    "difference": "y .= 0; for j=_, i=1:7; y[i] += coalesce(x[j - i + 3], 0) * v[j] end",
    "permissive": "y .= 0; for i=1:9; y[i] = coalesce(x[~(i - 2)], 9.0) end",
    "window": "y .= 0; for i=_; y[i] = x[(2:5)(i)] end",
    "empty window": "y .= 0; for i=_; y[i] = x[(n:n - 1)(i)] end",
    "shifted window": "y .= 0; for i=2:5; y[i] = x[(3:6)(i - 1)] end",
    "permissive window": (
        "y .= 0; for i=1:6; y[i] = coalesce(permissive(window(x, 2:4), true)[i - 1], 7.0) end"
    ),
    "window of the permissive": (
        "y .= 0; for i=_; y[i] = coalesce(window(permissive(x, true), 6:9)[i], 5) end"
    ),
    "toeplitz": "y .= 0; for j=1:3, i=1:7; y[i] += coalesce(toeplitz(x, 1)[i, j], 0) * j end",
    "offset twice": "y .= 0; for i=0:6; y[i + 1] = offset(offset(x, 2), -1)[i] end",
    "protocol": "y .= 0; for i=0:6; y[i + 1] = x[walk(i + 1)] end",
    "permissive protocol": "y .= 0; for i=1:7; y[i] = x[walk(~(i + 1))] end",
    "with itself": "y .= 0; for i=_; y[i] = x[i] * coalesce(x[~(i + 3)], 0) end",
}


@pytest.mark.parametrize("format", KINDS)
@pytest.mark.parametrize("name", READS)
def test_reads_of_vectors(name: str, format: str) -> None:
    given = {"x": tensor(VECTOR, format), "y": tensor([], DENSE), "n": 2}
    run(READS[name], **given, v=tensor([1, 0, 2.0], format))


MATRIX_READS = (
    "for j=_, i=0:4; y[i + 1] += A[i + 1, j] end",
    "for j=0:3, i=_; y[i] += A[i, j + 1] end",
    "for j=_, i=1:5; y[i] += coalesce(A[~(i - 1), j], 3) + coalesce(A[~(i + 1), ~(j + 1)], 5) end",
    "for j=_, i=_; y[i] += A[(2:4)(i), (2:3)(j)] end",
    "for j=_, k=1:2, i=1:5; y[i] += coalesce(A[i + k, j], 0) * k end",
    "for k=1:2, j=_, i=1:5; y[i] += coalesce(A[i - k, j], 1) end",
    "for j=_, i=1:4; y[i] += coalesce(toeplitz(A, 1)[i, 2, j], 1) end",
    "for j=_, i=0:3; y[i + 1] += offset(swizzle(A, 2, 1), 1, 0)[i, j] end",
    "for j=_, i=1:3; y[i] += swizzle(window(A, 2:4, nothing), 2, 1)[j, i] end",
    "for i=_; y[i] += A[(2:5)(i), i] end",
)


@pytest.mark.parametrize("format", MATRICES)
@pytest.mark.parametrize("text", MATRIX_READS)
def test_reads_of_matrices(text: str, format: str) -> None:
    run(f"y .= 0\n{text}", A=tensor(MATRIX, format), y=tensor([], DENSE))


WRITES = (
    "y .= 0; for i=_; y[i + 1] = x[i] end",
    "y .= 0; for i=_; y[i - 2 + 2] = x[i] end",
    "y .= 0; for i=1:5; y[i] = x[(3:7)(i)] end",
    "@declare(y, 0, 1:9); for i=_; y[(2:8)(i)] = x[i] end",
    "@declare(y, 0, 1:5); for i=_; y[~(i - 2)] = x[i] end",
    "@declare(y, 0, 1:5); for i=_; offset(permissive(y, true), 1)[i] = x[i] end",
)


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("text", WRITES)
def test_writes(text: str, target: str) -> None:
    for format in KINDS:
        run(text, x=tensor(VECTOR, format), y=tensor([], target))


def test_the_extent_of_a_shifted_write_sizes_the_tensor() -> None:
    given = {"x": tensor(VECTOR, LIST), "y": tensor([], LIST)}
    found, _ = run("y .= 0; for i=_; y[i + 1] = x[i] end", **given)
    np.testing.assert_array_equal(found["y"], [0, *VECTOR])


@pytest.mark.parametrize("format", KINDS)
def test_convolution(format: str) -> None:
    text = "y .= 0; for j=_, i=1:7; y[i] += coalesce(x[i + j - 2], 0) * F[j] end"
    weights = np.array([1.0, 10, 3])
    given = {"x": tensor(VECTOR, format), "F": tensor(weights, DENSE), "y": tensor([], DENSE)}
    found, _ = run(text, **given)
    np.testing.assert_array_equal(found["y"], np.convolve(VECTOR, weights[::-1], "same"))


def test_wrapped_tensors_of_the_normal_form() -> None:
    matrix, scalar = f"Dense({DENSE})", "Scalar(0.0)"
    out = normal("for j=_, i=_; s[] += A[i - 1, j] end", A=matrix, s=scalar)
    assert "offset(A, -1, 0)[i, j]" in out and "for i = 2:size(A, 1) + 1" in out
    out = normal("for i=_; s[] += x[(2:4)(i)] end", x=DENSE, s=scalar)
    assert "window(x, 2:4)[i]" in out and "for i = 1:3" in out
    out = normal("for j=1:2, i=1:2; s[] += x[i + j - 1] end", x=DENSE, s=scalar)
    assert "offset(permissive(x, true), j - 1)[i]" in out


def test_a_shift_takes_part_in_dimension_checks() -> None:
    given = {"x": tensor(VECTOR, DENSE), "s": Scalar(0.0)}
    fault = failure("for i=1:4; s[] += x[i + 2] end", "interpret", **given)
    assert fault.kind == "dimension" and "1:4" in fault.message and "window" in str(fault.hint)
    for engine in ("interpret", "run_residual", "run_native"):
        fault = failure("for i=-1:4; s[] += x[i + 2] end", engine, **copy.deepcopy(given))
        assert fault.kind == "dimension" and "-1:5" in fault.message and "-1:4" in fault.message
        assert "dimension 1 of x shifted" in fault.message
    fault = failure("for i=_; s[] += x[(5:8)(i)] end", "interpret", **given)
    assert fault.kind == "bounds" and "5:8" in fault.message and "1:7" in fault.message


def test_bad_wrappers_are_told() -> None:
    names = {"x": DENSE, "s": "Scalar(0.0)"}
    for text, kind in (
        ("for i=_; s[] += toeplitz(x, 2)[i, 1] end", "type"),
        ("for i=_; s[] += offset(x)[i] end", "dimension"),
        ("for i=_; s[] += window(x, 3)[i] end", "type"),
        ("for i=_; s[] += offset(x, q)[i] end", "unknown name"),
    ):
        with pytest.raises(FinchError) as caught:
            normal(text, **names)
        assert caught.value.kind == kind


def test_a_shifted_list_keeps_its_structure() -> None:
    shifted = "s[] += a[i] * coalesce(b[~(i + 5)], 0)"
    windows = "s[] += b[(6:50005)(i)] * a[(1:50000)(i)]"
    for text in (shifted, windows):
        totals = []
        for size in (100_000, 200_000):
            a, b = np.zeros(size), np.zeros(size)
            a[[10, 500, 49_000]], b[[15, 700, 49_005]] = 1, 2
            given = {"a": tensor(a, LIST), "b": tensor(b, LIST), "s": Scalar(0.0)}
            compiled = kernel(f"for i=_; {text} end", given)
            steps = compiled.run_residual([given[n] for n in compiled.tensors], [])
            assert given["s"].value == 4
            totals.append(steps.total())
        assert totals[0] == totals[1] < 150


# ------------------------------------------------------------------------- wrappers in each other

Range = tuple[int, int]
#: the extent of each mode; None: it has none
Extents = tuple[Range | None, ...]


def sliced(extents: Extents, *parts: Callable[[int, int], str | None]) -> tuple[str, Extents]:
    """The settings that take part of each mode, and the extents of what is left."""
    settings, left = list[str](), list[Range | None]()
    for extent, part in zip(extents, parts, strict=False):
        first, last = extent or (0, 4)
        found = part(first, last)
        settings.append(found or "nothing")
        if found is not None:
            start, step, stop = (int(x) for x in found.replace("n", "2").split(":"))
            extent = 1, len(range(start, stop + step // abs(step), step))
        left.append(extent)
    return ", ".join(settings), tuple(left)


def up(first: int, last: int) -> str:
    return f"{first}:2:{last}"


def down(first: int, last: int) -> str:
    return f"{last}:-1:{first}"


def by_number(first: int, last: int) -> str:
    return f"{first}:n:{last}"


def middle(first: int, last: int) -> str:
    return f"{first + 1}:1:{last}"


def whole(first: int, last: int) -> None:
    return None


def slicing(*parts: Callable[[int, int], str | None]) -> Callable[..., tuple[str, Extents]]:
    def wrap(tensor: str, extents: Extents) -> tuple[str, Extents]:
        settings, left = sliced(extents, *parts)
        return f"window({tensor}, {settings.replace(':1:', ':')})", left

    return wrap


def permissive(*free: bool) -> Callable[..., tuple[str, Extents]]:
    def wrap(tensor: str, extents: Extents) -> tuple[str, Extents]:
        settings = ", ".join(str(f).lower() for f, _ in zip(free, extents, strict=False))
        left = tuple(None if f else e for f, e in zip(free, extents, strict=False))
        return f"permissive({tensor}, {settings})", left

    return wrap


def offset(tensor: str, extents: Extents) -> tuple[str, Extents]:
    by = (1, -2, 1)[: len(extents)]
    left = tuple(e and (e[0] - d, e[1] - d) for e, d in zip(extents, by, strict=True))
    return f"offset({tensor}, {', '.join(map(str, by))})", left


def protocolize(tensor: str, extents: Extents) -> tuple[str, Extents]:
    settings = ("gallop", "walk", "nothing")[: len(extents)]
    return f"protocolize({tensor}, {', '.join(settings)})", extents


def swizzle(tensor: str, extents: Extents) -> tuple[str, Extents]:
    first, *others = extents
    modes = (len(extents), *range(1, len(extents)))
    return f"swizzle({tensor}, {', '.join(map(str, modes))})", (*others, first)


#: wrappers around a tensor of two or three modes: the text, and the extents of its modes
NESTED: dict[str, Callable[[str, Extents], tuple[str, Extents]]] = {
    "offset": offset,
    "toeplitz": lambda tensor, e: (f"toeplitz({tensor}, 1)", (None, None, *e[1:])),
    "permissive": permissive(True, False, True),
    "permissive in the second": permissive(False, True, False),
    "protocolize": protocolize,
    "swizzle": swizzle,
    "window": slicing(middle, whole, middle),
    "slice": slicing(up, down, up),
    "slice by a number": slicing(whole, by_number, by_number),
}
READ_FORMATS = (
    f"Dense({LIST})",
    "SparseList(SparseByteMap(Element(0.0)))",
    "SparseHash{2}(Element(0.0))",
    "Dense(RunList(Element(0.0)))",
    f"SparseBlockList({DENSE})",
    "SparseByteMap(SparseRunList(Element(0.0)))",
    "SparseCOO{2}(Element(0.0))",
)
WRITE_FORMATS = (
    f"Dense({DENSE})",
    f"Dense({BYTES})",
    f"SparseByteMap({BYTES})",
    "SparseHash{2}(Element(0.0))",
    f"Dense({LIST})",
)
SMALL = MATRIX[1:5, :3]


def pairs(formats: tuple[str, ...]) -> Any:
    """Each pair of wrappers with one of the formats; in turn, all are used."""
    cases = [
        (outer, inner, formats[(7 * m + n) % len(formats)])
        for m, outer in enumerate(NESTED)
        for n, inner in enumerate(NESTED)
    ]
    return pytest.mark.parametrize("outer, inner, format", cases)


def nest(outer: str, inner: str, size: tuple[int, int]) -> tuple[str, str, str]:
    """The access of two wrappers around A, loops over all of it (and, where it has no bounds,
    around that), and a number that is another one in each place."""
    text, extents = "A", tuple((1, n) for n in size)
    for name in (inner, outer):
        text, extents = NESTED[name](text, extents)
    indices = "ijkl"[: len(extents)]
    loops = [f"{i} = {'_' if e else '-1:4'}" for i, e in zip(indices, extents, strict=True)]
    number = " + ".join(f"{n} * {i}" for n, i in zip((1, 10, 100, 1000), indices, strict=False))
    return f"{text}[{', '.join(indices)}]", ", ".join(reversed(loops)), number


@pairs(READ_FORMATS)
def test_nested_wrappers_are_read(outer: str, inner: str, format: str) -> None:
    access, loops, number = nest(outer, inner, SMALL.shape)
    given = {"A": tensor(SMALL, format), "s": Scalar(0.0), "n": 2}
    text = f"for {loops}; s[] += coalesce({access}, 3) * ({number} + n - 2) end"
    found, _ = run(text, **given)
    assert found["s"] != 0


@pairs(WRITE_FORMATS)
def test_nested_wrappers_are_written(outer: str, inner: str, format: str) -> None:
    access, loops, number = nest(outer, inner, SMALL.shape)
    given = {"A": tensor(SMALL, format), "n": 2}
    text = f"@declare(A, 0, 1:4, 1:3); for {loops}; {access} += {number} + n - 2 end"
    found, _ = run(text, **given)
    assert found["A"].any()
