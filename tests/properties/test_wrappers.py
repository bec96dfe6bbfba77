"""Wrappers (Finch'25 Table 5) in each other, each pair around a tensor of another format, read and written:
the semantics agree."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from finchlang.testing.compare_engines import compare

pytestmark = pytest.mark.checked

#: the extent of each mode; None: it has none
Extents = tuple[tuple[int, int] | None, ...]
Wrapper = Callable[[str, Extents], tuple[str, Extents]]


def slicing(*forms: str) -> Wrapper:
    """A window of each mode: what it is of the first and last index; "" takes all of it."""

    def wrap(tensor: str, extents: Extents) -> tuple[str, Extents]:
        settings, left = [], []
        for extent, form in zip(extents, forms, strict=False):
            first, last = extent or (0, 4)
            part = form.format(first, last, first + 1)
            settings.append(part or "nothing")
            if part:
                ends = [int(x) for x in part.replace("n", "2").split(":")]
                start, stop, step = ends[0], ends[-1], ends[1] if len(ends) > 2 else 1
                extent = 1, len(range(start, stop + step // abs(step), step))
            left.append(extent)
        return f"window({tensor}, {', '.join(settings)})", tuple(left)

    return wrap


def permissive(*free: bool) -> Wrapper:
    def wrap(tensor: str, extents: Extents) -> tuple[str, Extents]:
        settings = ", ".join(str(f).lower() for f, _ in zip(free, extents, strict=False))
        left = (None if f else e for f, e in zip(free, extents, strict=False))
        return f"permissive({tensor}, {settings})", tuple(left)

    return wrap


def offset(tensor: str, extents: Extents) -> tuple[str, Extents]:
    by = (1, -2, 1)[: len(extents)]
    left = (e and (e[0] - d, e[1] - d) for e, d in zip(extents, by, strict=True))
    return f"offset({tensor}, {', '.join(map(str, by))})", tuple(left)


def protocolize(tensor: str, extents: Extents) -> tuple[str, Extents]:
    settings = ("gallop", "walk", "nothing")[: len(extents)]
    return f"protocolize({tensor}, {', '.join(settings)})", extents


def swizzle(tensor: str, extents: Extents) -> tuple[str, Extents]:
    modes = (len(extents), *range(1, len(extents)))
    return f"swizzle({tensor}, {', '.join(map(str, modes))})", (*extents[1:], extents[0])


WRAPPERS: dict[str, Wrapper] = {
    "offset": offset,
    "toeplitz": lambda tensor, e: (f"toeplitz({tensor}, 1)", (None, None, *e[1:])),
    "permissive": permissive(True, False, True),
    "permissive in the second": permissive(False, True, False),
    "protocolize": protocolize,
    "swizzle": swizzle,
    "window": slicing("{2}:{1}", "", "{2}:{1}"),
    "slice": slicing("{0}:2:{1}", "{1}:-1:{0}", "{0}:2:{1}"),
    "slice by a number": slicing("", "{0}:n:{1}", "{0}:n:{1}"),
}
READ = (
    *("Dense(SparseList({}))", "SparseList(SparseByteMap({}))", "SparseHash{{2}}({})"),
    *("Dense(RunList({}))", "SparseBlockList(Dense({}))", "SparseByteMap(SparseRunList({}))"),
    "SparseCOO{{2}}({})",
)
WRITTEN = (
    *("Dense(Dense({}))", "Dense(SparseByteMap({}))", "SparseByteMap(SparseByteMap({}))"),
    *("SparseHash{{2}}({})", "Dense(SparseList({}))"),
)


def access(outer: str, inner: str) -> tuple[str, str, str]:
    """The access of two wrappers around A, of 4 x 3, loops over all of it (and, where it has no
    bounds, around that), and a number that is another one in each place."""
    text, extents = WRAPPERS[inner]("A", ((1, 4), (1, 3)))
    text, extents = WRAPPERS[outer](text, extents)
    indices = "ijkl"[: len(extents)]
    loops = [f"{i} = {'_' if e else '-1:4'}" for i, e in zip(indices, extents, strict=True)]
    number = " + ".join(f"{n} * {i}" for n, i in zip((1, 10, 100, 1000), indices, strict=False))
    return f"{text}[{', '.join(indices)}]", ", ".join(reversed(loops)), f"({number} + n - 2)"


@pytest.mark.parametrize("outer", WRAPPERS)
def test_wrappers_in_each_other(outer: str) -> None:
    data = "n = 2; s = Scalar(0.0)\nA = Tensor({}, [0.0 0 3; 5 0 0; 0 0 8; 9 0 1])\n"
    for k, inner in enumerate(WRAPPERS):
        at, loops, number = access(outer, inner)
        turn = 7 * list(WRAPPERS).index(outer) + k
        read, written = (t[turn % len(t)].format("Element(0.0)") for t in (READ, WRITTEN))
        kernels = (
            (read, f"@finch for {loops}; s[] += coalesce({at}, 3) * {number} end"),
            (
                written,
                f"@finch begin @declare(A, 0, 1:4, 1:3); for {loops}; {at} += {number} end end",
            ),
        )
        for format, kernel in kernels:
            found = compare(data.format(format) + kernel)
            assert found.agrees and not found.errors, f"{kernel}\n{found.report}"
            results = found.results["native"]
            assert results["s"].value or results["A"].to_numpy().any()
