"""Graph algorithms over python-graphblas, as LAGraph (Mattson et al., IPDPSW'19) has them."""

from __future__ import annotations

from typing import Any

import peers

gb = peers.graphblas


def triangles(lower: Any) -> int:
    """How many triangles: the lower triangle times its transpose, where the lower triangle is."""
    C = gb.Matrix(int, *_shape(lower))
    C(lower.S) << gb.semiring.plus_pair(lower @ lower.T)
    return int(C.reduce_scalar(gb.monoid.plus).new() or 0)


def bfs(A: Any, AT: Any, degree: Any, source: int) -> Any:
    """Each vertex's parent, in the direction that suits the frontier: pull if many edges leave it
    and it grows, push if it is small and shrinks (LAGraph's alpha = 8, beta = 512)."""
    n = A.nrows
    parent = gb.Vector(gb.dtypes.INT64, n)
    frontier = gb.Vector(gb.dtypes.INT64, n)
    parent[source] = source
    frontier[source] = source
    unexplored, count, pulling = A.nvals, 1, False
    semiring = gb.semiring.ss.any_secondi
    while count > 0:
        if not pulling:
            leaving = gb.Vector(gb.dtypes.INT64, n)
            leaving(frontier.S) << degree
            edges = leaving.reduce(gb.monoid.plus).new().value or 0
            unexplored -= edges
            pulling = edges * 8 > unexplored and unexplored > 0
        elif count < n / 512:
            pulling = False
        if pulling:
            frontier.ss.config["sparsity_control"] = "bitmap"
            frontier(~parent.S, replace=True) << AT.mxv(frontier, semiring)
        else:
            frontier.ss.config["sparsity_control"] = "sparse"
            frontier(~parent.S, replace=True) << frontier.vxm(A, semiring)
        parent(frontier.S) << frontier
        count = frontier.nvals
    return parent


def bellman_ford(A: Any, source: int) -> tuple[Any, Any]:
    """Distances along edges from row to column, and a tree of shortest paths. Only vertices whose
    distance has just changed are looked at."""
    n = A.nrows
    distance = gb.Vector(float, n)
    distance[source] = 0.0
    frontier = distance.dup()
    while frontier.nvals > 0:
        reached = frontier.vxm(A, gb.semiring.min_plus).new()
        known = reached.ewise_mult(distance, gb.binary.ge).new()
        worse = known.select("==", True).new()
        frontier = gb.Vector(float, n)
        frontier(~worse.S) << reached
        distance(gb.binary.min) << frontier
    return distance, tree(A, distance, source)


def tree(A: Any, distance: Any, source: int) -> Any:
    """For each vertex one that it is reached from at its distance; the source is its own."""
    by_row, by_column = gb.semiring.any_plus, gb.semiring.any_second
    diagonal = distance.diag()
    through = by_row(diagonal @ A).new()
    tight = through.ewise_mult(by_column(A @ diagonal).new(), gb.binary.eq).new()
    tight = tight.select("==", True).new()
    ones = gb.Vector(bool, A.nrows)
    ones(distance.S) << True
    parent = gb.semiring.ss.min_secondi(ones @ tight).new(gb.dtypes.INT64)
    parent[source] = source
    return parent


def _shape(matrix: Any) -> tuple[int, int]:
    return matrix.nrows, matrix.ncols
