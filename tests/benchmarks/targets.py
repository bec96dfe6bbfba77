"""What the benchmarks are held against: ratios of time, ours / theirs, and times in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log

from meter import Row


@dataclass(frozen=True)
class Target:
    """`limit` holds for the geometric mean over the data sets, or for `each` of them; none may be
    above `worst`."""

    limit: float
    each: bool = False
    worst: float = inf

    def figure(self, values: list[float]) -> float:
        """The figure that `limit` is for."""
        return max(values) if self.each else geometric_mean(values)

    def is_met(self, values: list[float]) -> bool:
        return self.figure(values) <= self.limit and max(values) <= self.worst

    def __str__(self) -> str:
        none = "" if self.worst == inf else f", none above {self.worst:g}"
        return f"<= {self.limit:.3g}" + (" each" if self.each else "") + none


def geometric_mean(values: list[float]) -> float:
    return exp(sum(map(log, values)) / len(values))


EACH = True
RATIOS = {
    ("SpMV", "expert C"): Target(1.1, EACH),
    ("SpMV", "MKL"): Target(1.1, EACH),
    ("SpMV", "SciPy"): Target(0.8),
    ("SpMV band", "best plain CSR"): Target(0.45),
    ("SpMV triangle", "best plain CSR"): Target(0.45),
    ("SpMV blocks", "best plain CSR"): Target(0.7),
    ("SpMV symmetric", "best plain CSR"): Target(0.7),
    ("SpMV permutation", "best plain CSR"): Target(0.6),
    ("SpMV band", "expert C"): Target(1.1, EACH),
    ("SpMV triangle", "expert C"): Target(1.1, EACH),
    ("SpMV blocks", "expert C"): Target(1.1, EACH),
    ("SpMV symmetric", "expert C"): Target(1.1, EACH),
    ("SpMV permutation", "expert C"): Target(1.1, EACH),
    ("SpMV band, by columns", "expert C"): Target(1.1, EACH),
    ("SpMV triangle, by columns", "expert C"): Target(1.1, EACH),
    ("SpMV blocks, by columns", "expert C"): Target(1.1, EACH),
    ("SpMV permutation, by columns", "expert C"): Target(1.1, EACH),
    ("SpGEMM", "SciPy and sort"): Target(0.55),
    ("SpGEMM", "GraphBLAS"): Target(0.6),
    ("add", "SciPy"): Target(0.7),
    ("multiply", "SciPy"): Target(0.5),
    ("triangles", "GraphBLAS"): Target(0.5),
    ("triangles", "expert C merge"): Target(0.3),
    ("triangles", "expert C"): Target(1.1),
    ("SpMSpV scatter", "expert C"): Target(1.1),
    ("SpMSpV gallop", "expert C merge"): Target(0.2),
    ("BFS", "GraphBLAS"): Target(0.5),
    ("BFS", "SciPy, on RMAT"): Target(0.5),
    ("Bellman-Ford", "GraphBLAS"): Target(0.3),
    ("Bellman-Ford", "SciPy, on RMAT"): Target(1.0),
    ("erosion bits", "OpenCV"): Target(0.2),
    ("erosion runs, Omniglot", "OpenCV"): Target(0.5),
    ("erosion runs, magnified", "OpenCV"): Target(0.15),
    ("histogram", "OpenCV"): Target(0.25),
    ("histogram, magnified", "OpenCV"): Target(0.12),
    ("convolution", "OpenCV"): Target(0.2),
    ("blend", "OpenCV"): Target(0.5),
    ("SDDMM", "expert C"): Target(1.1),
    ("MTTKRP", "expert C"): Target(1.1),
    ("TTV", "expert C"): Target(1.1),
    ("outer product", "SciPy and sort"): Target(1.0, EACH),
    ("outer product, hypersparse", "SciPy and sort"): Target(0.6, EACH),
    ("Gustavson, inserted", "by hand"): Target(1.05),
    ("Gustavson, inserted", "SciPy and sort"): Target(0.5),
    ("collisions, by columns", "the better by hand"): Target(1.1, EACH),
    ("collisions, outer", "the better by hand"): Target(1.1, EACH),
    ("transpose", "SciPy"): Target(1.0, EACH),
    ("conversion", "SciPy"): Target(1.0),
    ("histogram into a list", "np.unique"): Target(0.3),
    ("one map or vector", "the better of map and vector"): Target(0.9, EACH),
    ("SpMTTKRP", "the best policy in C"): Target(1.15, EACH),
    ("SpMTTKRP, dense", "C"): Target(1.05),
    ("SpTTM, middle mode", "PyData/Sparse"): Target(0.1),
    ("xor", "PyData/Sparse"): Target(0.03),
    (">>", "PyData/Sparse"): Target(0.05),
    ("ldexp", "PyData/Sparse"): Target(0.015),
    ("power", "PyData/Sparse"): Target(0.02),
    ("xor-and", "PyData/Sparse"): Target(0.015),
    ("three-way xor", "PyData/Sparse"): Target(0.02),
    ("and-or", "PyData/Sparse"): Target(0.06),
    ("peak memory", "PyData/Sparse"): Target(1 / 6),
    ("memory of what is fused", "its result"): Target(1.1, EACH),
    ("(A * v + A).sum(axis=0)", "PyData/Sparse"): Target(0.02),
    ("where(A > .5, A, 0)", "PyData/Sparse"): Target(0.05),
    ("A * v, A + B, by axis", "SciPy"): Target(0.8, worst=1.1),
    ("A * v, A + B, by axis", "finch-tensor"): Target(0.01),
    ("A + A of 50 x 50", "SciPy"): Target(0.6),
    ("A + A of 50 x 50", "finch-tensor"): Target(0.01),
    ("gcd by a user's function", "expert C"): Target(1.1),
    ("A + A of 50 x 50, array", "SciPy"): Target(0.6),
    ("(A * v + A).sum(axis=0), array", "PyData/Sparse"): Target(0.02),
    ("join", "DuckDB"): Target(0.2, EACH),
    ("counts, normalised", "Numba"): Target(1.1, EACH),
    ("counts, by genes", "Numba"): Target(1.1, EACH),
    ("where(A > .5, A, 0), array", "PyData/Sparse"): Target(0.05),
    ("windows, then add", "SciPy"): Target(0.45),
    ("strides, then add", "SciPy"): Target(0.7),
    ("masked mxv, min-plus", "GraphBLAS"): Target(0.4),
    ("masked mxv, or-and", "GraphBLAS"): Target(0.4),
    ("masked mxv, any", "GraphBLAS"): Target(1.0),
    ("masked mxm", "GraphBLAS"): Target(0.6),
    ("MRI edges", "NumPy"): Target(0.4),
    ("MRI edges", "PyData/Sparse"): Target(0.1),
    ("minimax, order 3", "PyData/Sparse"): Target(0.05),
    ("minimax, order 5", "PyData/Sparse"): Target(0.05),
    ("minimax, order 7", "PyData/Sparse"): Target(0.1),
    ("loop: BFS", "expert C"): Target(2.0),
    ("loop: BFS", "SciPy"): Target(1.5),
    ("loop: BFS", "SciPy, on RMAT"): Target(0.8),
    ("loop: Bellman-Ford", "expert C"): Target(2.0),
    ("loop: Bellman-Ford", "C of the same rounds"): Target(2.0),
    ("loop: Bellman-Ford", "SciPy, on RMAT"): Target(1.0),
    ("loop: PageRank", "loop over SciPy"): Target(0.1),
    ("loop: components", "loop over SciPy"): Target(0.1),
    ("loop: k-core", "loop over SciPy"): Target(0.1),
    ("loop: CG, 100 x 100", "SciPy"): Target(1.0),
    ("loop: CG, 30 x 30", "SciPy"): Target(0.3),
    ("loop: Collatz", "expert C"): Target(1.2),
    ("loop: sum", "expert C"): Target(1.5),
}
#: shape operators: limits by peer, for a uniform matrix and for the mean of real ones
SHAPES = {
    "flatten": {"SciPy": 0.35, "PyData/Sparse": 0.2},
    "split to CSR": {"SciPy": 0.15, "PyData/Sparse": 0.05},
    "split to COO": {"SciPy": 0.3, "PyData/Sparse": 0.2},
    "stack rows, CSR": {"SciPy": 1.0, "PyData/Sparse": 0.2},
    "stack rows, CSR to COO": {"SciPy": 0.4},
    "stack rows, COO to CSR": {"SciPy": 0.15},
    "stack columns, CSR": {"SciPy": 0.2, "PyData/Sparse": 0.01},
    "stack columns, COO to CSR": {"SciPy": 0.15},
    "rows [:n/2]": {"SciPy": 0.9, "PyData/Sparse": 0.1},
    "rows [:n/2:2]": {"SciPy": 1.1, "PyData/Sparse": 0.1},
    "rows [:n/2] to COO": {"SciPy": 0.3},
    "rows [:n/2:2] to COO": {"SciPy": 0.3},
    "columns [:, :n/2]": {"SciPy": 0.6, "PyData/Sparse": 0.1},
    "kron": {"SciPy": 0.5},
    "fused flatten(A) .* v": {"SciPy": 0.15, "PyData/Sparse": 0.05, "ours, unfused": 0.7},
    "fused vcat(A, B) * x": {"SciPy": 0.16, "ours, unfused": 0.45},
    "fused A[:n/2, :] .* B[:n/2, :]": {"SciPy": 0.35, "ours, unfused": 0.8},
}
for _workload, _limits in SHAPES.items():
    for _peer, _limit in _limits.items():
        for _data in ("", ", real matrices"):
            RATIOS[_workload + _data, _peer] = Target(_limit)
#: in seconds
TIMES = {
    ("compile, cold", "SpMV"): 0.040,
    ("compile, cold", "Gustavson"): 0.100,
    ("compile, cold", "the largest example"): 0.500,
    ("compile, cold", "xor of 2, five modes"): 0.3,
    ("compile, cold", "xor of 3, five modes"): 0.8,
    ("compile, from the disk cache", "SpMV"): 0.005,
    ("compile, from the disk cache", "Gustavson"): 0.005,
    ("call, SpMV of 10 x 10", "the same arrays"): 5e-6,
    ("call, SpMV of 10 x 10", "an array not seen before"): 12e-6,
    ("call, SpMV of 10 x 10", "a SciPy matrix not seen before"): 12e-6,
    ("call, SpMV of 10 x 10", "a tensor made anew"): 5e-6,
    ("compile a shape, cold", "four nested operators"): 0.5,
}
TIMES |= {("compile a shape, cold", workload): 0.15 for workload in SHAPES}


@dataclass(frozen=True)
class Verdict:
    """What came of one line of the targets; `met` is None where there is no target."""

    workload: str
    peer: str
    runs: int
    mean: float
    worst: float
    target: str
    met: bool | None


def verdicts(rows: list[Row]) -> list[Verdict]:
    """For each workload and peer its ratios (for the rows without one, see `timed`)."""
    groups: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row.ratio is not None:
            groups.setdefault((row.workload, row.peer), []).append(row.ratio)
    found = []
    for (workload, peer), ratios in groups.items():
        target = RATIOS.get((workload, peer))
        met = None if target is None else target.is_met(ratios)
        mean, worst = geometric_mean(ratios), max(ratios)
        name = "" if target is None else str(target)
        found.append(Verdict(workload, peer, len(ratios), mean, worst, name, met))
    return found
