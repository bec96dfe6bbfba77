"""Sparse arrays on a cluster, in chunks of dask.array: products with a vector, PageRank, and normalising a
count matrix that lies in a folder of files and is never in one place; each compared with one process.

    python examples/cluster.py --size 100000 --workers 4
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from distributed import Client, LocalCluster

import finchlang.array as xp

ROWS = 4  # chunks of rows


def told(what: str, found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    print(what)


def pagerank(links: Any, out: np.ndarray, rounds: int = 20, damping: float = 0.85) -> Any:
    """The ranks of pages. `links` are chunks or an array: row i has what links to page i."""
    rank = np.full(len(out), 1 / len(out))
    for _ in range(rounds):
        new = links @ np.where(out > 0, rank / np.maximum(out, 1), 0)
        new = np.asarray(new.compute() if isinstance(new, da.Array) else new.todense())
        rank = (1 - damping) / len(out) + damping * (new + rank[out == 0].sum() / len(out))
    return rank


def load(path: str) -> Any:
    return xp.frozen(sp.load_npz(path))


def normalised(counts: Any) -> Any:
    """Counts of cells (rows) by genes, each cell scaled to 10,000, as logarithms."""
    return np.log1p(counts * (1e4 / np.maximum(counts.sum(axis=1, keepdims=True), 1)))


def main(size: int, workers: int, folder: str) -> None:
    rng = np.random.default_rng(1)
    A = sp.random_array((size, size), density=min(1, 8 / size), rng=rng, format="csr")
    A.data[:] = 1
    local = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    with local as cluster, Client(cluster) as client:
        links = da.from_array(xp.frozen(A), chunks=(-(-size // ROWS), size)).persist()
        x = rng.random(size)
        told("SpMV equals that of one process", (links @ x).compute().todense(), A @ x)
        out = np.asarray(A.sum(axis=0))
        ranks = pagerank(links, out), pagerank(xp.asarray(A), out)
        told("PageRank equals that of one process", *ranks)

        parts = [rng.poisson(0.3, (size, 20)).astype(float) for _ in range(2 * workers)]
        paths = [str(Path(folder) / f"counts{k}.npz") for k in range(len(parts))]
        for path, part in zip(paths, parts, strict=True):
            sp.save_npz(path, sp.csr_array(part))
        meta, read = xp.frozen(sp.csr_array((0, 0))), dask.delayed(load)
        chunks = [da.from_delayed(read(p), (size, 20), float, meta=meta) for p in paths]
        means = normalised(da.concatenate(chunks)).mean(axis=0)
        future = client.compute(means)
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        whole = np.concatenate(parts)
        scaled = np.log1p(whole * (1e4 / np.maximum(whole.sum(axis=1, keepdims=True), 1)))
        what = "normalised counts equal those of one process, with a worker killed"
        told(what, future.result().todense(), scaled.mean(axis=0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", help="where the files of counts are written")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as own:
        main(options.size, options.workers, options.folder or own)
