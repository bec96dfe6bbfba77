"""Compiling takes time that grows near to linearly with a program, from its tree to LLVM's text: counted
in calls of functions, since seconds say little on a machine that has other things to do."""

from __future__ import annotations

import cProfile
import pstats
import re
import sys
from collections.abc import Callable, Iterator

import pytest
from every_format import nests

from finchlang import FinchError
from finchlang.calls.kernel import SpecializedKernel
from finchlang.host.rewrite import everything
from finchlang.native.emit import emit
from finchlang.optimize.pipeline import transform
from finchlang.optimize.undo_log import with_undo_log
from finchlang.tensors.formats import parse_format
from finchlang.text.parse import parse_kernel

#: a kernel of so many parts: its text, and the formats of its tensors
Make = Callable[[int], tuple[str, dict[str, str]]]
CSC, COO = "Dense(SparseList(Element(0.0)))", "SparseCOO{2}(Element(0.0))"
LIST, DENSE = "SparseList(Element(0.0))", "Dense(Element(0.0))"
RUNS = f"SparseRunList({LIST})"
#: every level over lists, and a list over some
NESTED = [
    *(f for f in nests("Element(0.0)", 2) if f.endswith("(SparseList(Element(0.0)))")),
    *(f"SparseList({level}(Element(0.0)))" for level in ("Dense", "RunList", "SparseBlockList")),
]


@pytest.fixture(autouse=True)
def as_scripts(monkeypatch: pytest.MonkeyPatch, nothing_staged: None) -> Iterator[None]:
    """No checks between passes, and room for nests and chains as deep as they are long."""
    monkeypatch.delenv("FINCH_CHECK", raising=False)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    yield
    sys.setrecursionlimit(limit)


def kernel(text: str, formats: dict[str, str]) -> SpecializedKernel:
    return SpecializedKernel(
        parse_kernel(f"begin\n{text}\nend"), {n: parse_format(f) for n, f in formats.items()}
    )


def calls(text: str, formats: dict[str, str]) -> int:
    """How many calls it takes to compile a kernel, LLVM's part apart."""
    return counted(lambda: emit(with_undo_log(transform(kernel(text, formats).staged.residual))[0]))


def counted(run: Callable[[], object]) -> int:
    """How many functions a call calls."""
    profile = cProfile.Profile()
    profile.enable()
    run()
    profile.disable()
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def over(value: str, join: str, format: str, target: str, loops: str = "i = _") -> Make:
    """Many operands, each `value` with its name for `@`, in one loop."""

    def make(count: int) -> tuple[str, dict[str, str]]:
        names = [f"A{k}" for k in range(count)]
        text = f"{target} {join.join(value.replace('@', n) for n in names)}"
        names += [f"{n}b" for n in names] if "@b" in value else []
        written = CSC if "j" in loops else LIST
        targets = {"C": written, "D": f"Dense(Dense({DENSE}))", "s": "Scalar(0.0)"}
        given = {n: f for n, f in targets.items() if re.search(rf"\b{n}[\[,]", target)}
        declared = "C .= 0; " if target.startswith("C") else ""
        return f"{declared}for {loops} {text} end", given | dict.fromkeys(names, format)

    return make


def of(part: str, around: str = "{}", ends: int = 0) -> Make:
    """Many times `part`, each with its number for `@`, and as many `end`s for each."""

    def make(count: int) -> tuple[str, dict[str, str]]:
        parts = "\n".join(part.replace("@", str(k)) for k in range(count)) + "\nend" * ends * count
        tensors = {f"Y{k}": DENSE for k in range(count)} if "Y@" in part else {}
        return around.replace("{}", parts), {"A": LIST, "x": DENSE, "y": DENSE, **tensors}

    return make


def to(level: str) -> Make:
    """Many statements that write to one tensor."""
    make = over("@[i]", "\nC[i] += ", LIST, "C[i] +=", "i = _\n")
    return lambda count: (make(count)[0], make(count)[1] | {"C": f"{level}(Element(0.0))"})


def lets(count: int) -> tuple[str, dict[str, str]]:
    """Each adds what a list has to the one before."""
    named = [f"let t{k} = A{k}[i] + t{k - 1}" for k in range(1, count)]
    text = "\n".join(["let t0 = A0[i] * 2", *named, f"C[i] += t{count - 1}", "end\n" * count])
    names = ["C", *(f"A{k}" for k in range(count))]
    return f"C .= 0; for i = _\n{text}end", dict.fromkeys(names, LIST)


IN_LOOP, IF = "for i = _\n{}\nend", "for i = _\nif x[i] > 9\ny[i] = 1\n{}\nend\nend"
#: kernels, each with half of its parts, and by how much twice as many may take longer
KERNELS: dict[str, tuple[Make, int, float]] = {
    "operands of a product": (over("@[i]", " * ", LIST, "C[i] +="), 30, 2.1),
    "operands of a sum": (over("@[i]", " + ", LIST, "C[i] +="), 30, 2.1),
    "loops": (of("for i = _; y[i] += A[i] end"), 30, 2.1),
    "loops with a tensor each": (of("Y@ .= 0; for i = _; Y@[i] += A[i] end"), 30, 2.1),
    "statements": (of("y[i] += A[i] * @.5", IN_LOOP), 30, 2.1),
    "sieves": (of("if x[i] != @\ny[i] += 1 end", IN_LOOP), 30, 2.1),
    "nested sieves": (of("if x[i] != @\ny[i] += @\n", IN_LOOP, 1), 30, 2.1),
    "nested definitions": (of("let t@ = x[i] + @\ny[i] += t@", IN_LOOP, 1), 30, 2.1),
    "lets of what is stored": (lets, 4, 2.1),
    "elseif": (of("elseif x[i] == @\ny[i] = @", IF), 30, 2.1),
    "parts, each stored by a loop of its own": (over("@", ", ", COO, "s[] += vcat("), 8, 3),
    **{f: (over("@[i, j]", " + ", f, "C[i, j] +=", "j = _, i = _"), 4, 3) for f in NESTED},
    **{
        f: (to(f), 4, 2.5) for f in ("SparseList", "SparseHash", "SparseRunList", "SparseBlockList")
    },
}


@pytest.mark.parametrize("what", KERNELS)
def test_twice_as_many_take_twice_as_long(what: str) -> None:
    """What is a fiber or nothing at a coordinate goes on into the loop within, undecided."""
    make, count, most = KERNELS[what]

    def of(count: int) -> int:
        text, formats = make(count)
        if "vcat" in text:
            text = text.replace(" end", ")[i, i] end")
        return calls(text, {n: f for n, f in formats.items() if n in text})

    of(min(count, 6))  # what is kept is there
    assert of(2 * count) <= most * of(count)


def test_dimensions_that_meet_are_compared_in_linear_time() -> None:
    def of(count: int) -> int:
        text, formats = over("@[i]", " + ", LIST, "s[] +=")(count)
        given = {n: f for n, f in formats.items() if n != "C"}
        return counted(lambda: kernel(text, given).staged.normalized)

    assert of(200) <= 2.1 * of(100)


def statements(text: str, formats: dict[str, str]) -> int:
    """How many statements the residual program has."""
    return len(list(everything(kernel(text, formats).staged.residual)))


def shaped(
    shape: str, format: str, order: int, written: str, between: str = ""
) -> tuple[str, dict[str, str]]:
    """A kernel that stores an expression of shape operators on tensors A0, A1, ... of one format, and B0,
    B1, ... of lists of columns; `between` are the names of loops around the innermost, over more modes of
    what is written."""
    inner = "lmn"[: order - 1]
    loops = ", ".join(
        [*(f"{i} = _" for i in inner[::-1]), *(f"{i} = 1:2" for i in between), "i = _"]
    )
    target, at = (", ".join(["i", *found, *inner]) for found in (between[::-1], ""))
    names = {
        n: format if n[0] == "A" else f"SparseList({LIST})" for n in re.findall(r"[AB]\d+", shape)
    }
    return f"C .= 0; for {loops}; C[{target}] = {shape}[{at}] end", {"C": written, **names}


LEVELS = ("SparseList", "SparseBlockList", "SparseRunList", "PackBits")


def listed(statement: str, level: str, loops: str = "i = _") -> Make:
    """Many times `statement`, with its number for `@` and the next one for `#`."""

    def make(count: int) -> tuple[str, dict[str, str]]:
        numbered = (statement.replace("@", str(k)).replace("#", str(k + 1)) for k in range(count))
        text = f"for {loops}\n" + "\n".join(numbered) + "\nend"
        element = f"Dense({level}(Element(0.0)))" if "j" in loops else f"{level}(Element(0.0))"
        formats = {"A": element, "s": "Scalar(0.0)", "y": DENSE}
        return text, {n: formats[n[0]] for n in re.findall(r"\b[Asy]\d*(?=\[)", text)}

    return make


def numbered(count: int, name: str = "A") -> str:
    return ", ".join(f"{name}{k}" for k in range(count))


def rows(count: int) -> str:
    """Rows of two blocks, of which one is a list of columns."""
    return ", ".join(f"A{k}, B{k}" for k in range(count))


#: shapes of so many parts, each with its kernel
SHAPES: dict[str, tuple[Make, int]] = {
    "parts of a vector": (lambda k: shaped(f"vcat({numbered(k)})", LIST, 1, LIST), 4),
    "rows of two blocks": (lambda k: shaped(f"block(2, {numbered(2 * k)})", CSC, 2, CSC), 2),
    "rows of two sparse blocks": (
        lambda k: shaped(f"block(2, {numbered(2 * k)})", f"SparseList({LIST})", 2, CSC),
        2,
    ),
    "rows of two sparse blocks, written in runs": (
        lambda k: shaped(f"block(2, {numbered(2 * k)})", f"SparseList({LIST})", 2, RUNS),
        2,
    ),
    "sparse rows": (lambda k: shaped(f"vcat({numbered(k, 'B')})", "", 2, CSC), 2),
    "rows of two kinds of blocks": (lambda k: shaped(f"block(2, {rows(k)})", CSC, 2, CSC), 2),
    "rows of two kinds of blocks, above one row": (
        lambda k: shaped(f"vcat(block(2, {rows(k)}), B{k})", CSC, 2, CSC),
        2,
    ),
    "rows of two blocks, with a loop between": (
        lambda k: shaped(f"block(2, {rows(k)})", CSC, 2, f"Dense(Dense({DENSE}))", "k"),
        2,
    ),
    "rows of two blocks, with packed modes between": (
        lambda k: shaped(
            f"block(2, {rows(k)})", CSC, 2, "Dense(LowerTriangular(PackBits(Element(0.0))))", "kj"
        ),
        2,
    ),
}


def split_often(count: int) -> tuple[str, dict[str, str]]:
    """One coordinate of a vector that was rolled, with so many splits above each other."""
    shape = "roll(A, 1, 3)"
    for mode in range(1, count + 1):
        shape = f"split({shape}, {mode}, 2)"
    return f"for i = _; y[i] += {shape}[{', '.join('i' * (count + 1))}] end", {
        "A": LIST,
        "y": DENSE,
    }


def below_parts(count: int) -> tuple[str, dict[str, str]]:
    """A nest over a window below so many parts of a matrix."""
    formats = dict.fromkeys((f"A{k}" for k in range(count)), CSC)
    parts = f"vcat({numbered(count)})[i, j] + window(D, 2:3, 1:2)[k, l]"
    return f"for j = _, i = _, l = _, k = _; y[j] += {parts} end", {**formats, "D": CSC, "y": DENSE}


SHAPES |= {"splits of a split": (split_often, 4), "nests below parts": (below_parts, 4)}

SHAPES |= {
    f"{what}, of modes that are split": (
        lambda k, value=value, join=join, format=format: over(
            value, join, format, "collapse(D, 1, 2)[i, j] +=", "j = _, i = _"
        )(k),
        2,
    )
    for what, value, join, format in (
        ("products of runs", "@[i]", " * ", "SparseRunList(Element(0.0))"),
        ("sums of what may be missing", "coalesce(@[~(i + 2)], 0)", " + ", LIST),
        ("products of what may be missing", "coalesce(@[~(i + 2)], 0)", " * ", LIST),
    )
}

SHAPES |= {
    f"{what} of {level}": (listed(statement, level, loops), 8)
    for what, statement, loops in (
        ("statements under masks", "if i == @ + 2; y[i] += A[i] end", "i = _"),
        ("statements under masks, each", "if i == @ + 2; y@[i] += A@[i] end", "i = _"),
        ("statements with operands in common", "s@[] += A@[i] * A#[i]", "i = _"),
    )
    for level in LEVELS
}

#: levels of one mode
MANY = (
    *("SparseList", "SparseByteMap", "SparseHash", "SparseCOO{1}", "SparsePinpoint", "SparseBand"),
    *("SparseBlockList", "RunList", "PackBits", "SparseRunList", "SparseInterval"),
)
SHAPES |= {
    f"`{value}` of {level} with `{join}`": (
        over(value, join, f"{level}(Element(0.0))", "C[i] ="),
        4,
    )
    for level in MANY
    for value, join in (("@[i]", " + "), ("@[i]", " * "), ("@[i]", " - "), ("@[i] * @b[i]", " + "))
}

BAND = "if uptrimask()[i, j + @]; s[] += A@[i, j] end"
SHAPES |= {
    f"{what} of {level}": (listed(statement, level, "j = _, i = _"), 8)
    for what, statement in (("sums", "s[] += A@[i, j]"), ("sums under bands", BAND))
    for level in LEVELS
}


@pytest.mark.parametrize("what", SHAPES)
def test_code_of_shapes_grows_linearly(what: str) -> None:
    make, count = SHAPES[what]
    first, second, third = (statements(*make(count + k)) for k in (0, count // 2, count))
    assert third - second <= 1.2 * (second - first)


def test_code_that_has_no_end_is_an_error_with_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("finchlang.calls.staging.LEAST", 20)
    monkeypatch.setattr("finchlang.calls.staging.EACH", 0)
    with pytest.raises(FinchError) as caught:
        statements(*SHAPES["rows of two blocks"][0](2))
    assert caught.value.kind == "resource" and caught.value.span and caught.value.hint


@pytest.mark.parametrize("count, orders", [(2, (4, 5, 6)), (3, (3, 4, 5))])
def test_unions_of_many_modes_grow_linearly(count: int, orders: tuple[int, int, int]) -> None:
    """Whatever operands are left over at some coordinate, the rest of their nest is staged once."""

    def size(order: int) -> int:
        loops, at = ", ".join(f"{i} = _" for i in "nmlkji"[-order:]), ", ".join("ijklmn"[:order])
        names = [f"A{k}" for k in range(count)]
        text = f"R .= 0; for {loops}; R[{at}] = {' + '.join(f'{n}[{at}]' for n in names)} end"
        format = "SparseList(" * order + "Element(0)" + ")" * order
        return statements(text, dict.fromkeys(["R", *names], format))

    first, second, third = map(size, orders)
    assert third - second <= 1.05 * (second - first)


def test_a_workspace_is_merged_in_one_place() -> None:
    """A further write has its own entry, but not the code for a batch that is full."""

    def size(count: int) -> int:
        writes = "\n".join(f"if x[j] == {k}; B[i, j] += x[i] end" for k in range(count))
        formats = {"x": DENSE, "B": f"SparseList({LIST})"}
        return statements(f"B .= 0.0; for i = _, j = _\n{writes}\nend", formats)

    assert size(4) - size(3) < 60
