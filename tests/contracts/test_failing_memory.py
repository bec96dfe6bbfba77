"""The contract of units whose memory fails: with each of their allocations failing in turn, all is left as
if the unit had not been begun, and the loop is run kernel by kernel."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from typing import Any

import pytest

from finchlang import FinchError, Session
from finchlang.native import link
from finchlang.testing.compare_stored import as_array

_MALLOC = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)
_REALLOC = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Memory:
    """The allocators that kernels call: of those that are counted the one numbered `failing` fails, and
    with `from_there` all after it, too."""

    def __init__(self) -> None:
        self.count, self.failing, self.from_there = 0, 0, False
        malloc = _MALLOC(link.SYMBOLS["PyMem_RawMalloc"])
        realloc = _REALLOC(link.SYMBOLS["PyMem_RawRealloc"])
        self.malloc = _MALLOC(lambda size: None if self.fails() else malloc(size))
        self.realloc = _REALLOC(lambda old, size: None if self.fails() else realloc(old, size))

    def fails(self) -> bool:
        self.count += 1
        is_behind = self.from_there and 0 < self.failing < self.count
        return self.count == self.failing or is_behind


#: kernels that were linked with it may be called later
MEMORY = Memory()


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Memory]:
    monkeypatch.setenv("FINCH_CACHE_DIR", str(tmp_path))
    for name, function in ("Malloc", MEMORY.malloc), ("Realloc", MEMORY.realloc):
        address = ctypes.cast(function, ctypes.c_void_p).value
        monkeypatch.setitem(link.SYMBOLS, f"PyMem_Raw{name}", address)
    monkeypatch.setattr(link, "_procedures", {})
    monkeypatch.setattr(link, "_library", link.Linker())
    yield MEMORY
    MEMORY.failing = 0


BEFORE = """
x = Tensor(SparseList(Element(0)), [0, 2, 0, 4, 0, 0, 1, 0])
y = Tensor(SparseList(Element(0)), [3, 0, 0, 0, 0, 0, 0, 0])
d = Tensor(Dense(Element(1)), [1, 2, 3, 1, 1, 1, 1, 5])
n = 0
function grown(x, y, d, m)
    for k = 1:m
        made = Tensor(SparseByteMap(Element(0)), 8)
        @finch for i = _; made[i] += x[i] + k * d[i]; end
        @finch begin
            y .= 0
            for i = _; y[i] = made[i] - 4k; end
        end
        @finch for i = _; d[i] += y[i]; end
        x, y = y, x
    end
    return x, y
end
"""
LOOP = """
for k = 1:3
    @finch begin
        y .= 0
        for i = _; y[i] = x[i] + k * d[i] - 3; end
    end
    @finch for i = _; d[i] += y[i] + k; end
    x, y = y, x
    n += k
end
"""
CALL = "x, y = grown(x, y, d, 3); n = 1"


def left(session: Session) -> dict[str, Any]:
    """What names are bound to; tensors as what they store, and which they are."""
    tensors = {id(session[name]): name for name in ("z", "w", "d")}
    found: dict[str, Any] = {name: tensors.get(id(session[name])) for name in "xyd"}
    arrays = {f"{name}[]": as_array(session[name]).tolist() for name in "xyd"}
    counts = {f"{name}#": session[name].nnz for name in "xy"}
    return {**found, **arrays, **counts, "n": session["n"]}


def ran(memory: Memory, text: str, staging: bool, failing: int, from_there: bool = False) -> Any:
    """What is left of a script whose allocation of this number fails, and the kind of its error."""
    session, kind = Session(staging=staging), ""
    session.run(f"{BEFORE}z = x; w = y", "script")
    memory.count, memory.failing, memory.from_there = 0, failing, from_there
    try:
        session.run(text, "script")
    except FinchError as error:
        kind = error.kind
    memory.failing = 0
    assert not staging or any("is staged" in line for line in session.staged)
    return left(session), kind


@pytest.mark.parametrize("text", [LOOP, CALL])
def test_each_allocation_may_fail(text: str, memory: Memory) -> None:
    expected = ran(memory, text, False, 0)
    assert ran(memory, text, True, 0) == expected and not expected[1]
    count = memory.count
    assert count >= 4
    for number in range(1, count + 1):
        assert ran(memory, text, True, number) == expected, number
    for number in (1, (count + 1) // 2, count):  # then kernel by kernel there is no memory either
        found, kind = ran(memory, text, True, number, True)
        assert (found, kind) == ran(memory, text, False, 1, True) and kind == "resource", number


def test_a_failure_is_there_at_all(memory: Memory) -> None:
    assert ran(memory, LOOP, False, 1)[1] == "resource"


@pytest.mark.parametrize("engine", ["native", "residual"])
@pytest.mark.parametrize(
    "kilobytes, promised", [(50_000, 0), (500_000, 440_000), (500_000, 400_000)]
)
def test_what_the_system_would_only_promise_is_not_taken(
    engine: str,
    kilobytes: int,
    promised: int,
    memory: Memory,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
) -> None:
    place, own = tmp_path / "meminfo", tmp_path / "statm"
    place.write_text(f"MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable:  {kilobytes} kB\n")
    own.write_text(f"99999 9000 8000 7 0 {1000 + promised * 1024 // mmap.PAGESIZE} 0\n")
    monkeypatch.setattr("finchlang.base.memory_limit.PLACE", str(place))
    monkeypatch.setattr("finchlang.base.memory_limit.OWN", str(own))
    session = Session(engine=engine)
    session.run("y = Tensor(Dense(Element(Int8(3))), 2); n = 70_000_000")
    kernel = "@finch begin\ny .= 3\nfor i = 1:n\nif i > n - 1\ny[i] = 4\nend\nend\nend"
    if kilobytes - promised < 70_000:
        with pytest.raises(FinchError) as caught:
            session.run(kernel)
        assert caught.value.kind == "resource" and session["y"].to_numpy().tolist() == [3, 3]
    elif engine == "native":
        session.run(kernel)
        assert session["y"].shape == (70_000_000,)
