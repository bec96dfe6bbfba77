"""The disk cache of object code: hits, misses, and every way in which a file can be bad."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import host_programs as programs
import numpy as np
import pytest
from hosts import Program, Sample, run

from finchlang.disk_cache import DiskCache
from finchlang.host.fold import ONE, const, op
from finchlang.host.ir import Residual
from finchlang.native import jit
from finchlang.native.cache import key_of

pytestmark = pytest.mark.optimised


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the residuals that LLVM had to compile."""
    names: list[str] = []
    original = jit.object_code

    def object_code(residual: Residual, cache: DiskCache) -> bytes:
        names.append(residual.name)
        return original(residual, cache)

    monkeypatch.setattr(jit, "object_code", object_code)
    return names


def product(cache: DiskCache) -> float:
    kernel = jit.compile_residual(Program(programs.inner_product).residual, cache)
    return run(kernel, [np.array([1.0, 2.0]), np.array([3.0, 4.0])], [2])[1][0]


def test_second_time_is_a_hit(tmp_path: Path, emitted: list[str]) -> None:
    cache = DiskCache(tmp_path / "new" / "deep")
    assert product(cache) == product(cache) == product(DiskCache(cache.directory)) == 11.0
    assert emitted == ["inner_product"]
    assert all(file.stat().st_size < 20_000 for file in cache.directory.iterdir())


def test_a_hit_links_calls_into_the_interpreter_and_libm(tmp_path: Path, emitted: list) -> None:
    """What a loaded kernel calls is found again: growth, and mathematics of the C library."""

    def make() -> Residual:
        s = Sample()
        data, n = s.buffer("data"), s.input("n")
        s.host.grow(data, n)

        def entry(i):
            s.host.store(
                data, i, op("log1p", op("fpow", s.host.load(data, op("sub", i, 1)), const(0.3)))
            )

        s.host.count(ONE, op("sub", n, 1), entry)
        return s.residual("growing")

    results = []
    for _ in range(2):
        kernel = jit.compile_residual(make(), DiskCache(tmp_path))
        (data,), _ = run(kernel, [np.array([2.0])], [2_000_000])
        results.append(data[:2_000_000].sum())
    assert results[0] == results[1] > 0 and emitted == ["growing"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:40],
        lambda content: content[:-1],
        lambda content: content + b"x",
        lambda content: content[:-100] + bytes(100),
        lambda content: b"something else entirely",
    ],
)
def test_a_damaged_file_is_a_miss_and_is_replaced(tmp_path: Path, emitted: list, damage) -> None:
    cache = DiskCache(tmp_path)
    product(cache)
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert product(cache) == 11.0
    assert product(cache) == 11.0
    assert len(emitted) == 2


def test_an_unusable_directory_is_no_error(tmp_path: Path, emitted: list) -> None:
    (tmp_path / "file").write_text("not a directory")
    assert product(DiskCache(tmp_path / "file")) == 11.0
    assert product(DiskCache("/proc/no/such")) == 11.0
    (tmp_path / "d").mkdir()
    cache = DiskCache(tmp_path / "d")
    product(cache)
    (file,) = cache.directory.iterdir()
    file.unlink()
    file.mkdir()  # cannot be read, nor replaced
    assert product(cache) == 11.0
    assert [p.name for p in cache.directory.iterdir()] == [file.name]
    assert len(emitted) == 4


SORTS = """
import sys
import numpy as np
import host_programs as programs
from hosts import Program, Sample, run
from finchlang.native import jit
from finchlang.disk_cache import default_cache
from finchlang.types import Int32

if sys.argv[1] == "again":
    jit.machine_code = None  # a miss would call it
def sort(s):
    s.host.sort(s.buffer('data', Int32), s.input('low'), s.input('high'))

kernel = jit.compile_residual(Program(sort).residual, default_cache())
data = np.arange(100, dtype=np.int32)[::-1].copy()
run(kernel, [data], [0, 100])
assert (data == np.arange(100)).all()
"""


def test_another_process_needs_no_compiler(tmp_path: Path) -> None:
    """Not for the kernel, nor for the procedures that it calls and is called by."""
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(here.parents[1])])
    environment = {**os.environ, "FINCH_CACHE_DIR": str(tmp_path), "PYTHONPATH": paths}
    for turn in ("first", "again"):
        subprocess.run([sys.executable, "-c", SORTS, turn], env=environment, check=True)
    assert len(list(tmp_path.iterdir())) == 3


def test_keys_tell_apart_what_differs() -> None:
    assert key_of("a", "b") == key_of("a", "b")
    assert len({key_of("a", "b"), key_of("a", "c"), key_of("ab", ""), key_of("", "ab")}) == 4
