"""Early break: loops that reduce into short-circuit scalars end once nothing can change any more
(Finch'25 3.3.3, Fig 7, Fig 24), and mean the same as without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from level_kernels import run

from finchlang.host.print import text as listing
from finchlang.run.kernel import Kernel
from finchlang.tensors.formats import construct
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.text.parse import parse_kernel

TABLES = pytest.mark.parametrize("which", ["all", "paper"])


def scalar(fill: Any, kind: str = "ShortCircuitScalar") -> Scalar:
    return Scalar(construct(kind, (), (fill,)))  # type: ignore[arg-type]


def steps(
    text: str, values: dict[str, Any], which: str = "all", native: bool = False
) -> tuple[int, dict[str, Any]]:
    """How many host steps a kernel takes, interpreted and staged, and what it leaves."""
    tensors = {
        name: Tensor.from_numpy(value) if isinstance(value, np.ndarray) else value
        for name, value in values.items()
    }
    found, counted = run(text, tensors, which, native)
    results = {name: tensor.to_numpy() for name, tensor in found.items()}
    return counted.total(), results


def sparse(places: list[int], values: list[float], size: int, fill: float = 0.0) -> Tensor:
    format = f"SparseList(Element({fill}))"
    return Tensor.from_coo(format, (size,), [np.array(places)], np.array(values))


# ------------------------------------------------------------------------------- where a loop ends

SIZE = 100


#: any two of three scalars at any two of three times
LATIN = tuple((5 + 10 * a, 5 + 10 * b, 5 + 10 * ((a + b) % 3)) for a in range(3) for b in range(3))
THREE = "for j = _\np[] *= A[j]\nq[] <<max>>= B[j]\nr[] <<choose(1)>>= C[j]\nend"


@TABLES
@pytest.mark.parametrize("level", ["Dense", "SparseList", "RunList"])
def test_each_of_three_scalars_stops_at_its_own_time(level: str, which: str) -> None:
    """What is left out from where a scalar is decided is the same at every time and in every order,
    and the loop ends with the last. (Any two of the scalars at any two times.)"""
    totals = {}
    for places in ((5, 5, 15), *LATIN):
        arrays = [np.ones(SIZE) for _ in places]
        for array, place, value in zip(arrays, places, (0.0, np.inf, 7.0), strict=True):
            array[place - 1] = value
        fill = 3.0 if level == "SparseList" else 1.0  # then all entries are stored
        given = {
            name: Tensor.from_numpy(array, f"{level}(Element({fill}))")
            for name, array in zip("ABC", arrays, strict=True)
        }
        given |= {"p": scalar(1.0), "q": scalar(0.0), "r": scalar(1.0)}  # type: ignore[dict-item]
        totals[places], ran = steps(THREE, given, which)
        assert (ran["p"], ran["q"], ran["r"]) == (0.0, np.inf, 7.0)
    if level == "RunList":  # three runs each, wherever they are
        return
    per_place = totals[5, 5, 15] - totals[5, 5, 5]  # ten more steps of the loop and of one scalar
    both = totals[5, 15, 15] - totals[5, 5, 15]  # ten more of one scalar
    assert 0 < both < per_place
    for places, total in totals.items():
        a, b, c = (p // 10 for p in sorted(places))
        assert abs(total - totals[5, 5, 5] - both * (a + b + c) - (per_place - both) * c) <= 9


def test_three_scalars_of_one_operand() -> None:
    text = "for j = _\np[] <<min>>= -A[j]\nq[] <<max>>= A[j]\nr[] <<choose(1)>>= A[j]\nend"
    A = np.ones(SIZE)
    A[3], A[7] = 0.5, np.inf
    given = {"A": A, "q": scalar(0.0), "r": scalar(1.0)}
    total, ran = steps(text, {**given, "p": scalar(0.0)}, native=True)
    assert (ran["p"], ran["q"], ran["r"]) == (-np.inf, np.inf, 0.5)
    plain = {"p": Scalar(0.0), "q": Scalar(0.0), "r": Scalar(1.0)}
    assert total * 2 < steps(text, {**given, **plain})[0]


@TABLES
def test_many_scalars_in_nested_loops(which: str) -> None:
    text = """
    s .= 0
    for j = _
        for i = _
            p[] *= A[i, j]
            q[] |= A[i, j] > 2
            r[] <<choose(0)>>= ifelse(A[i, j] > 1, i, 0)
            m[] <<max>>= A[i, j]
            s[] += 1
        end
    end
    """
    A = np.ones((8, 9))
    A[3, 2], A[5, 4], A[1, 6] = 0.0, 2.0, 3.0
    kinds = {"p": 1.0, "q": False, "r": 0, "m": 0.0}
    for given in (A, Tensor.from_numpy(A, "Dense(SparseList(Element(1.0)))")):
        breaking = {name: scalar(fill) for name, fill in kinds.items()}
        _, ran = steps(text, {"A": given, **breaking, "s": Scalar(0)}, which, native=True)
        assert [ran[n] for n in "pqrms"] == [0.0, True, 6, 3.0, 72]


def test_code_grows_with_the_number_of_scalars() -> None:
    """There is no loop for every order in which they may be decided."""
    lengths = []
    for count in range(3, 9):
        names = [f"p{k}" for k in range(count)]
        body = "\n".join(f"{name}[] *= A[j] + {k}" for k, name in enumerate(names))
        formats = {"A": Tensor("SparseList(Element(1.0))", 3).format}
        formats |= {name: scalar(1.0).format for name in names}  # type: ignore[misc]
        kernel = Kernel(parse_kernel(f"for j = _\n{body}\nend"), formats)
        lengths.append(len(str(listing(kernel.residual)).splitlines()))
    growth = np.diff(lengths)
    assert growth.max() <= 1.5 * growth.min()


@TABLES
def test_what_else_a_loop_does_goes_on(which: str) -> None:
    text = "p .= 1\ns .= 0\nfor j = _\np[] *= A[j]\ns[] += A[j]\nend"
    A = np.arange(1.0, 41.0)
    A[2] = 0.0
    for given in (A, Tensor.from_numpy(A, "SparseList(Element(1.0))")):
        total, ran = steps(text, {"A": given, "p": scalar(1.0), "s": Scalar(0.0)}, which)
        assert ran["p"] == 0.0 and ran["s"] == A.sum()


def test_other_kernels_are_as_before() -> None:
    text = "begin p .= 1; for j = _; p[] *= A[j] end end"
    for format in ("Dense", "SparseList"):
        formats = {"A": Tensor(f"{format}(Element(1.0))", 3).format}
        plain = Kernel(parse_kernel(text), {**formats, "p": Scalar(1.0).format})
        breaking = Kernel(parse_kernel(text), {**formats, "p": scalar(1.0).format})
        assert "while" not in str(listing(plain.residual))
        assert "while" in str(listing(breaking.residual))


# ------------------------------------------------------------------------------- the same meaning

FORMATS = ("Dense", "SparseList", "RunList")
#: reductions, and the fill and entries of what they reduce
REDUCTIONS = (
    ("*=", "1.0", [1.0, 2.0, 0.0, 3.0]),
    ("<<min>>=", "5", [5, 3, -(2**63), 1]),
    ("<<max>>=", "0.0", [0.0, 2.0, np.inf, 1.0]),
    ("|=", "false", [False, True]),
    ("&=", "true", [True, False]),
    ("<<choose(0)>>=", "0", [0, 4, 7]),
    ("|=", "0", [0, 1, 6, -1]),
    ("+=", "0.0", [0.0, 1.5, 2.0]),  # is never decided
)


def literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "typemin(Int64)" if value == -(2**63) else repr(value).replace("inf", "Inf")


@TABLES
@pytest.mark.parametrize("operator, fill, entries", REDUCTIONS, ids=lambda x: str(x))
def test_results_are_those_of_plain_scalars(
    operator: str, fill: str, entries: list[Any], which: str
) -> None:
    rng = np.random.default_rng(len(operator) + len(entries))
    for k, format in enumerate(FORMATS):
        kind = ("ShortCircuitScalar", "SparseShortCircuitScalar")[k % 2]
        array = np.array(entries)[rng.integers(0, len(entries), 12)]
        for own_fill in (literal(entries[k % 2]),):
            level = f"{format}(Element({own_fill}))"
            values = {
                "A": Tensor.from_numpy(array, level),
                "p": scalar(np.array(entries)[0].item(), kind),
                "n": Scalar(0),
            }
            text = f"p .= {fill}\nfor j = _\np[] {operator} A[j]\nn[] += 1\nend"
            _, ran = steps(text, values, which, native=which == "all")
            values["p"] = Scalar(np.array(entries)[0].item())
            _, plain = steps(text, values, which)
            assert ran["p"] == plain["p"] and ran["n"] == 12


PULL = """_F .= false
for k = _
    if !V[k]
        p .= 0
        for j = _
            if F[follow(j)] && AT[j, k]
                p[] <<choose(0)>>= j
            end
        end
        if p[] != 0
            _F[k] |= true
            P[k] = p[]
        end
    end
end"""


@TABLES
def test_the_pull_step_looks_at_neighbours_up_to_the_first_in_the_frontier(which: str) -> None:
    n = 60
    totals = []
    for place in (5, 10, 15):
        neighbours = np.zeros((n, n), bool)
        neighbours[:, 0] = True
        frontier = np.zeros(n, bool)
        frontier[place - 1 :] = True
        visited = np.ones(n, bool)
        visited[0] = False
        values = {
            "AT": Tensor.from_numpy(neighbours, "Dense(SparseList(Pattern()))"),
            "F": Tensor.from_numpy(frontier, "SparseByteMap(Pattern())"),
            "V": visited,
            "P": np.zeros(n, int),
            "_F": Tensor("SparseByteMap(Pattern())", n),
            "p": scalar(0),
        }
        total, ran = steps(PULL, values, which)
        assert ran["P"][0] == place
        totals.append(total)
    assert totals[2] - totals[1] == totals[1] - totals[0]
    plain, _ = steps(PULL, {**values, "p": Scalar(0)}, f"{which}-Break")
    assert plain - totals[2] > 3 * (n - 15)
