"""Array expressions (`finchlang.array`) beside the peers, as their users write them: planned, looked up
and called each time."""

from __future__ import annotations

import numpy as np
import peers
import pytest
import scipy.sparse as sp
from test_functions import matrices

import finchlang.array as xp

sparse = peers.pydata_sparse
#: the same text for NumPy's dialect of PyData/Sparse, and for ours
PYDATA = {
    "(A * v + A).sum(axis=0)": lambda np, A, v: np.sum(A * v + A, axis=0),
    "where(A > .5, A, 0)": lambda np, A, v: np.where(A > 0.5, A, 0),
}
SCIPY = {
    "A * v": (lambda A, B, v: A * v, lambda A, B, v: A.multiply(v).tocsc()),
    "A + B": (lambda A, B, v: A + B, lambda A, B, v: A + B),
    "sums of columns": (lambda A, B, v: xp.sum(A, axis=0), lambda A, B, v: A.sum(axis=0)),
    "sums of rows": (lambda A, B, v: xp.sum(A, axis=1), lambda A, B, v: A.sum(axis=1)),
    "maxima of columns": (lambda A, B, v: xp.max(A, axis=0), lambda A, B, v: A.max(axis=0)),
    "maxima of rows": (lambda A, B, v: xp.max(A, axis=1), lambda A, B, v: A.max(axis=1)),
    "stride 2": (
        lambda A, B, v: A[::2, ::2] + B[::2, ::2],
        lambda A, B, v: A[::2, ::2] + B[::2, ::2],
    ),
    "stride 8": (
        lambda A, B, v: A[::8, ::8] + B[::8, ::8],
        lambda A, B, v: A[::8, ::8] + B[::8, ::8],
    ),
}


def same(found, expected):
    if found.ndim == 2:
        assert abs(sp.csc_array(found.to_scipy()) - sp.csc_array(expected)).max() < 1e-12
        return
    expected = expected.todense() if hasattr(expected, "todense") else expected
    assert np.allclose(found.to_numpy(), np.asarray(expected).ravel())


@pytest.mark.skipif(sparse is None, reason="needs PyData/Sparse")
@pytest.mark.parametrize("operation", PYDATA)
def test_pydata(meter, operation):
    A = matrices("100 in a column")[0].copy()
    A.data -= 0.5
    column, theirs = np.random.default_rng(1).random((A.shape[0], 1)), sparse.COO(A.tocoo())
    value, ours = PYDATA[operation], xp.asarray(A)
    expected = value(sparse, theirs, column)
    same(xp.compute(value(xp, ours, column)), expected.tocsc() if expected.ndim == 2 else expected)
    others = {"PyData/Sparse": lambda: value(sparse, theirs, column)}
    ours_now = {"same": lambda: xp.compute(value(xp, ours, column))}
    meter.race(f"{operation}, array", "100 in a column", ours_now, others)


@pytest.mark.parametrize("operation", SCIPY)
def test_scipy(meter, operation):
    name = "100 in a column"
    A, B = matrices(name)
    column = np.random.default_rng(1).random((A.shape[0], 1))
    value, theirs = SCIPY[operation]
    left, right = xp.asarray(A), xp.asarray(B)
    same(xp.compute(value(left, right, column)), theirs(A, B, column))
    ours = {"same": lambda: xp.compute(value(left, right, column))}
    others = {"SciPy": lambda: theirs(A, B, column)}
    meter.race(f"{operation}, array", name, ours, others)


def test_small_sum(meter):
    A = sp.random_array((50, 50), density=0.1, rng=1, format="csr")
    ours = xp.asarray(A)
    same(xp.compute(ours + ours), 2 * A)
    call = {"same": lambda: xp.compute(ours + ours)}
    meter.race("A + A of 50 x 50, array", "density 0.1", call, {"SciPy": lambda: A + A})


# ------------------------------------------------------------------- as written, and factored by hand


def entries(rows, columns, count, seed, skew=0.0):
    """About `count` entries anywhere; with a `skew`, their coordinates have a power law."""
    random = np.random.default_rng(seed)

    def places(size):
        weights = np.arange(1.0, size + 1) ** -skew
        return random.choice(size, count, p=weights / weights.sum())

    where = np.unique(places(rows) * columns + places(columns))
    made = sp.coo_array((random.random(len(where)), (where // columns, where % columns)))
    made.resize((rows, columns))
    return xp.asarray(made.tocsr())


def dense(*shape):
    return xp.asarray(np.random.default_rng(len(shape)).random(shape))


def operands():
    """What the expressions below are of, by name."""
    found = {f"t{k}": entries(20_000, 20_000, 160_000, k) for k in (1, 2, 3)}
    found |= {
        f"D{k}": dense(*shape)
        for k, shape in enumerate([(20, 900), (900, 900), (900, 900), (900, 1)])
    }
    found |= {"s": entries(3000, 3000, 45_000, 4), "x": entries(20_000, 200, 40_000, 5)}
    found |= {"g": entries(4000, 4000, 36_000, 6), "power": entries(4000, 4000, 36_000, 7, 0.8)}
    found |= {"p": dense(3000, 24), "q": dense(24, 3000), "w": dense(3000), "z": dense(20_000)}
    found |= {
        "f": dense(3000, 16),
        "b": dense(200),
        "c": dense(20_000),
        "v": dense(3000),
        "a": dense(700, 700),
    }
    found |= {"xp": xp, "sums": lambda x, axis: xp.sum(x, axis=axis)}
    found["outer"] = lambda x: x[:, None] * x[None, :]
    found["triangles"] = lambda x: xp.sum(x[:, :, None] * x[None, :, :] * x[:, None, :])
    found["y"] = xp.compute(found["z"] > 0.5)
    found["half"] = xp.asarray(np.random.default_rng(9).random((3000, 24)).astype("f4"))
    left, right = found["p"], found["q"].T[None, :, :]
    found["masked"] = lambda x, p=left: xp.sum(x[:, :, None] * p[:, None, :] * right, axis=2)
    return found


#: expressions as their users write them, and factored by hand
FACTORED = """
s * (p @ q) :: masked(s)
xp.sum((p @ q) * s, axis=0) :: xp.sum((s.T @ p) * q.T, axis=1)
(p @ q) @ w :: p @ (q @ w)
xp.sum(p @ q) :: xp.sum(p, axis=0) @ xp.sum(q, axis=1)
t1 @ t2 @ t3 @ z :: t1 @ (t2 @ (t3 @ z))
s @ p @ q @ s @ w :: s @ (p @ (q @ (s @ w)))
D0 @ D1 @ D2 @ D3 :: D0 @ (D1 @ (D2 @ D3))
xp.einsum("ij,jk,kl,l->i", t1, t2, t3, z) :: t1 @ (t2 @ (t3 @ z))
x.T @ (1 / (1 + xp.exp(-(x @ b))) - y) :: x.T @ (1 / (1 + xp.exp(-(x @ b))) - y)
xp.sum((g @ g) * g) :: triangles(g)
xp.sum((power @ power) * power) :: triangles(power)
xp.einsum("ij,jk,kl,li->", g, g, g, g) :: xp.sum((h := g @ g) * h.T)
xp.einsum("ia,ib,ic->", t1, t2, t3) :: xp.sum(sums(t1, 1) * sums(t2, 1) * sums(t3, 1))
xp.einsum("ia,ab,bj->j", t1, t2, t3) :: (xp.sum(t1, axis=0) @ t2) @ t3
xp.einsum("ia,ab,bj->", t1, t2, t3) :: (xp.sum(t1, axis=0) @ t2) @ xp.sum(t3, axis=1)
xp.einsum("ia,ab,bc,cd->", t1, t2, t3, t1) :: ((sums(t1, 0) @ t2) @ t3) @ sums(t1, 1)
xp.einsum("ia,ib,ic,id,ie->", t1, t2, t3, t1, t2) :: xp.sum(sums(t1, 1)**2 * sums(t2, 1)**2 * sums(t3, 1))
s * (half @ q) :: masked(s, half)
s * (p @ q) / 24 :: masked(s) / 24
xp.mean(p @ q) :: (xp.sum(p, axis=0) @ xp.sum(q, axis=1)) / 9000000
xp.sum((s * (p @ q))**2) :: xp.sum(masked(s)**2)
((p @ q) * s) @ f :: masked(s) @ f
xp.sum(p.T @ s @ p) :: xp.sum(p, axis=1) @ (s @ xp.sum(p, axis=1))
xp.einsum("ij,ik,jk->", s, p, p) :: xp.sum((s @ p) * p)
xp.sum((v[:, None] * s) @ (s * w[None, :]), axis=1) :: v * (s @ (s @ w))
a @ (a @ (a @ a[0])) :: a @ (a @ (a @ a[0]))
xp.max(xp.min(xp.asarray([1.])[None] + v[:, None], axis=1)) :: xp.max(v + 1.)
s * xp.exp(p @ q / 24) :: s * xp.exp(masked(s != 0) / 24)
(s * xp.exp(p @ q / 24)) @ f :: (s * xp.exp(masked(s != 0) / 24)) @ f
xp.sum((s - (s != 0) * (p @ q))**2) :: xp.sum((s - masked(s != 0))**2)
(.85 * s + 0.1) @ w :: .85 * (s @ w) + 0.1 * xp.sum(w)
(s + v[:, None] * w[None, :]) @ w :: s @ w + v * (w @ w)
"""
#: those that are multiplied out, which `reorder="any"` allows
MULTIPLIED_OUT = """
(x - xp.mean(x, axis=0)).T @ (x - xp.mean(x, axis=0)) :: x.T @ x - 20000 * outer(xp.mean(x, axis=0))
(x - xp.mean(x, axis=0)) @ b :: x @ b - xp.mean(x, axis=0) @ b
"""


def pairs(text):
    return [line.split(" :: ") for line in text.strip().splitlines()]


@pytest.mark.parametrize("written, by_hand", pairs(FACTORED) + pairs(MULTIPLIED_OUT))
def test_as_written(meter, written, by_hand):
    names = operands()
    reorder = "any" if [written, by_hand] in pairs(MULTIPLIED_OUT) else "exact"

    def as_written():
        return xp.compute(eval(written, names), reorder=reorder)

    def factored():
        return xp.compute(eval(by_hand, names), reorder="none")

    np.testing.assert_allclose(
        xp.todense(as_written()), xp.todense(factored()), rtol=1e-6, atol=1e-9
    )
    meter.race(written, "as written", {"same": as_written}, {"factored by hand": factored})


# ------------------------------------------------------------ joins beside a database, counts beside Numba

#: as an einsum, and of tables with columns named by its indices
JOINS = {
    "triangles": ("ij,jk,ik->", "gij, gjk, gik"),
    "4-cycles": ("ij,jk,kl,li->", "gij, gjk, gkl, gli"),
    "star of 3": ("ia,ib,ic->", "t1ia, t2ib, t3ic"),
    "star of 4": ("ia,ib,ic,id->", "t1ia, t2ib, t3ic, gid"),
    "path of 3": ("ia,ab,bj->j", "t1ia, t2ab, t3bj"),
    "path of 4": ("ia,ab,bc,cd->", "t1ia, t2ab, t3bc, gcd"),
    "path of 5": ("ia,ab,bc,cd,de->i", "t1ia, t2ab, t3bc, t1cd, gde"),
}


def query(tables, kept):
    """The same in SQL: each table joined with those before it where its columns have their names."""
    known, lines = {}, []
    for n, table in enumerate(tables):
        on = []
        for column, index in zip("ij", table[-2:], strict=True):
            place = f"x{n}.{column}"
            on += [f"{known[index]} = {place}"] if index in known else []
            known.setdefault(index, place)
        lines.append(
            f"JOIN {table[:-2]} x{n} ON {' AND '.join(on)}" if n else f"FROM {table[:-2]} x0"
        )
    total = f"SUM({' * '.join(f'x{n}.v' for n in range(len(tables)))}) total"
    by = f" GROUP BY {known[kept]}" if kept else ""
    return f"SELECT {f'{known[kept]}, ' if kept else ''}{total} {' '.join(lines)}{by}"


@pytest.mark.skipif(peers.duckdb is None, reason="needs DuckDB")
@pytest.mark.parametrize("name", JOINS)
def test_join(meter, name):
    text, tables = JOINS[name]
    tables, kept = tables.split(", "), text.split("->")[1]
    given = {f"t{k}": entries(4000, 4000, 24_000, k) for k in (1, 2, 3)}
    given["g"] = entries(4000, 4000, 36_000, 6)
    database = peers.duckdb.connect(config={"threads": 1})
    for table, array in given.items():
        made = sp.coo_array(xp.compute(array).to_scipy())
        database.register("made", {"i": made.row, "j": made.col, "v": made.data})
        database.execute(f"CREATE TABLE {table} AS SELECT * FROM made")
    sql = query(tables, kept)

    def ours():
        return xp.compute(xp.einsum(text, *(given[table[:-2]] for table in tables)))

    def theirs():
        return database.execute(sql).fetchnumpy()["total"]

    assert np.isclose(np.sum(xp.todense(ours())), np.sum(theirs()))
    meter.race("join", name, {"same": ours}, {"DuckDB": theirs})


def normalised(data, indices, indptr):
    """Of counts by cells: each cell's scaled to 10,000 in all, and their log1p."""
    result = np.empty(len(data))
    for i in range(len(indptr) - 1):
        total = 0.0
        for q in range(indptr[i], indptr[i + 1]):
            total += data[q]
        for q in range(indptr[i], indptr[i + 1]):
            result[q] = np.log1p(data[q] * (1e4 / total))
    return result


def mean_and_variance(data, indices, indptr, genes):
    """Of each gene, in two passes, as NumPy's are."""
    cells = len(indptr) - 1
    mean, variance, count = np.zeros(genes), np.zeros(genes), np.zeros(genes)
    for q in range(len(data)):
        mean[indices[q]] += data[q]
        count[indices[q]] += 1
    mean /= cells
    for q in range(len(data)):
        variance[indices[q]] += (data[q] - mean[indices[q]]) ** 2
    return mean, (variance + (cells - count) * mean**2) / cells


@pytest.mark.skipif(peers.numba is None, reason="needs Numba")
@pytest.mark.parametrize("cells, genes", [(2_000, 1_000), (20_000, 2_000)])
def test_counts(meter, cells, genes):
    """Counts of genes by cells, 5 % of them stored, with the loops that their users compile by Numba."""
    random, name = np.random.default_rng(1), f"{cells:,} x {genes:,}"
    counts = sp.random_array((cells, genes), density=0.05, rng=random, format="csr")
    counts.data = np.ceil(counts.data * 20)
    by_cells = normalised, mean_and_variance
    scale, describe = (peers.numba.njit(function, error_model="numpy") for function in by_cells)
    ours, parts = xp.asarray(counts), (counts.data, counts.indices, counts.indptr)

    def scaled():
        return xp.compute(xp.log1p(ours * (1e4 / xp.sum(ours, axis=1, keepdims=True))))

    def described():
        return xp.compute(xp.mean(ours, axis=0), xp.var(ours, axis=0))

    made = sp.csr_array((scale(*parts), counts.indices, counts.indptr), counts.shape)
    assert abs(sp.csr_array(scaled().to_scipy()) - made).max() < 1e-12
    for found, expected in zip(described(), describe(*parts, genes), strict=True):
        np.testing.assert_allclose(xp.todense(found), expected, rtol=1e-10)
    race = meter.race
    race("counts, normalised", name, {"same": scaled}, {"Numba": lambda: scale(*parts)})
    race("counts, by genes", name, {"same": described}, {"Numba": lambda: describe(*parts, genes)})
