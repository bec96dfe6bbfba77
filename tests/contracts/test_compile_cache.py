"""The compile cache, compiled kernels on disk: a kernel that was compiled before is ready without being
normalised and staged, and does the same; whatever determines a kernel tells it from another."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
import scipy.sparse

from finchlang.disk_cache import DiskCache, _seal
from finchlang.host.ir import Residual, Var
from finchlang.host.residual import no_collection
from finchlang.native import cache as cache_module
from finchlang.native import jit
from finchlang.native.link import joined
from finchlang.run import kernel as kernel_module
from finchlang.run.compile_cache import cache_key
from finchlang.run.kernel import Kernel
from finchlang.session import KernelEvent, Observer, Session
from finchlang.source import FinchError
from finchlang.syntax import Literal, Value, Variable
from finchlang.tensors.formats import parse_format
from finchlang.text.parse import parse_kernel, parse_script
from finchlang.types import Float32, Int64

pytestmark = pytest.mark.optimised

PROGRAMS = sorted((Path(__file__).parents[1] / "programs").rglob("*.finch"))
SPMV = """
@finch begin
    y .= 0
    for j = _, i = _
        y[i] += A[i, j] * x[j]
    end
end
"""
#: what stands before the text of an entry
HEAD = len(_seal("", b""))
GATHER = "@finch for i = _; y[i] = x[I[i]] end"


class Work:
    """What was done to make kernels ready."""

    def __init__(self) -> None:
        self.done: set[str] = set()

    def take(self) -> set[str]:
        done, self.done = self.done, set()
        return done


ANEW = {"normalised", "staged", "compiled"}


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Work:
    """Kernels are kept in a directory of their own, and compiled without LLVM's passes."""
    monkeypatch.setenv("FINCH_CACHE_DIR", str(tmp_path / "cache"))
    work = Work()

    def told(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            work.done.add(name)
            return function(*args)

        return call

    def object_code(residual: Residual, cache: Any) -> bytes:
        machine = jit.target_machine(0)
        modules = map(llvm.parse_assembly, jit.emit(residual))
        return joined(map(machine.emit_object, modules))

    monkeypatch.setattr(kernel_module, "normalize", told("normalised", kernel_module.normalize))
    monkeypatch.setattr(kernel_module, "ResidualHost", told("staged", kernel_module.ResidualHost))
    monkeypatch.setattr(jit, "object_code", told("compiled", object_code))
    return work


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache").iterdir())


def spmv(text: str = SPMV, dtype: Any = float) -> np.ndarray:
    session = Session()
    session["A"] = scipy.sparse.csc_array(np.array([[1, 0, 2], [0, 0, 3]], dtype))
    session["x"], session["y"] = np.array([1, 2, 3], dtype), np.zeros(2, dtype)
    session.run(text)
    return session["y"].tolist()


def test_the_second_time_nothing_is_normalised_staged_or_compiled(work: Work) -> None:
    assert spmv() == [7, 9] and work.take() == ANEW
    assert spmv() == [7, 9] and work.take() == set()


@pytest.mark.parametrize("path", PROGRAMS[::3], ids=lambda path: path.stem)
def test_programs_do_the_same_from_the_cache(path: Path, work: Work, capsys: Any) -> None:
    def run() -> tuple[str, str | None]:
        parse_script.cache_clear()
        lines: list[str] = []
        try:
            Session(output=lines.append).run_file(path)
        except FinchError as error:
            return "".join(lines), error.render()
        return "".join(lines), None

    first = run()
    work.take()
    assert run() == first
    assert "compiled" not in work.done
    if first[1] is None:
        assert not work.done


def test_a_function_that_a_kernel_calls_is_part_of_its_key(work: Work) -> None:
    """Also what that calls, and a number that it takes from around it."""

    def run(t: float, body: str) -> list[float]:
        session = Session()
        session["x"], session["y"], session["t"] = np.array([1.0, 2.0]), np.zeros(2), t
        session.run(f"g(x) = {body}\nfunction f(x)\n    s = g(x) + t\n    s\nend")
        session.run("@finch for i = _; y[i] = f(x[i]); end")
        return session["y"].tolist()

    for t, body, expected in (
        (0.0, "x + 1", [2, 3]),
        (0.0, "x * 2", [2, 4]),
        (5.0, "x * 2", [7, 9]),
    ):
        assert run(t, body) == expected and work.take() == ANEW
    for t, body, expected in (
        (0.0, "x + 1", [2, 3]),
        (0.0, "x * 2", [2, 4]),
        (5.0, "x * 2", [7, 9]),
    ):
        assert run(t, body) == expected and work.take() == set()


def test_an_error_is_placed_in_the_text_of_today(work: Work) -> None:
    def fail(name: str) -> FinchError:
        session = Session()
        session["x"], session["y"] = np.ones(2), np.zeros(2)
        session["I"] = np.array([1, 3])
        with pytest.raises(FinchError) as caught:
            session.run("# " + name + "\n" + GATHER, name)
        return caught.value

    first, again = fail("the first"), fail("the other")
    assert work.take() == ANEW
    assert again.kind == first.kind == "bounds" and again.message == first.message
    assert again.span is not None and first.span is not None
    assert again.span.source.name == "the other" and again.span.source.line(1) == "# the other"
    assert again.span.text == first.span.text == "x[I[i]]"
    assert again.render() == first.render().replace("the first", "the other")


def test_a_kernel_that_only_moved_is_staged_but_not_compiled(work: Work) -> None:
    spmv()
    work.take()
    assert spmv("\n\n" + SPMV) == [7, 9] and work.take() == {"normalised", "staged"}
    assert spmv("\n\n" + SPMV) == [7, 9] and work.take() == set()


def test_what_is_not_needed_to_run_is_made_when_it_is_asked_for(work: Work) -> None:
    class Events(Observer):
        def kernel(self, event: KernelEvent) -> None:
            events.append(event)

    shown = []
    for _ in range(2):
        events: list[KernelEvent] = []
        session = Session(observer=Events())
        session["A"] = scipy.sparse.csc_array(np.eye(2))
        session["x"], session["y"] = np.ones(2), np.zeros(2)
        session.run(SPMV)
        assert work.take() == (set() if shown else ANEW)
        [event] = events
        shown.append((event.passes, jit.text(event.residual), event.llvm()))
    assert shown[0] == shown[1]


@pytest.mark.parametrize("engine", ["interpret", "residual", "check"])
def test_other_engines_run_a_kernel_that_is_known(engine: str, work: Work) -> None:
    spmv()
    session = Session(engine=engine)
    session["A"] = scipy.sparse.csc_array(np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]]))
    session["x"], session["y"] = np.array([1.0, 2.0, 3.0]), np.zeros(2)
    session.run(SPMV)
    assert session["y"].tolist() == ([0, 0] if engine == "check" else [7, 9])


def test_other_types_formats_and_rules_are_other_kernels(work: Work) -> None:
    spmv()
    work.take()
    assert spmv(dtype=np.float32) == [7, 9] and work.take() == ANEW
    formats = {"x": parse_format("Dense(Element(0.0))"), "s": parse_format("Scalar(0.0)")}
    program = parse_kernel("for i = _; s[] += x[i] end")
    for rules in ("all", "paper"):
        assert Kernel(program, formats, rules).native and "normalised" in work.take()  # type: ignore
        assert Kernel(program, formats, rules).native and not work.take()  # type: ignore


# --------------------------------------------------------------------------- what goes wrong on disk


def sealed(content: bytes) -> Callable[[str, bytes], bytes]:
    return lambda key, _: _seal(key, content)


#: what becomes of an entry of some key
DAMAGES: dict[str, Callable[[str, bytes], bytes]] = {
    "empty": lambda key, content: b"",
    "cut off": lambda key, content: content[:-3],
    "longer": lambda key, content: content + b" ",
    "another text": sealed(b"no entry"),
    "no object": sealed(b"[1, 2]"),
    "other fields": sealed(b'{"tensors": {}, "object": ""}'),
    "an unknown type": lambda key, content: _seal(
        key, content[HEAD:].replace(b'"Float64"', b'"Float65"')
    ),
    "of another kernel": lambda key, content: _seal(key[::-1], content[HEAD:]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_a_miss_and_is_replaced(damage: str, work: Work, tmp_path: Path) -> None:
    spmv()
    [entry] = [path for path in files(tmp_path) if b'"tensors"' in path.read_bytes()]
    entry.write_bytes(DAMAGES[damage](entry.name, entry.read_bytes()))
    work.take()
    assert spmv() == [7, 9] and work.take() == {"normalised", "staged"}
    assert spmv() == [7, 9] and work.take() == set()


def test_entries_in_the_places_of_others_are_misses(work: Work, tmp_path: Path) -> None:
    """Files that were renamed or restored by hand: two programs' entries and object code."""
    other = SPMV.replace("*", "+")
    kernels = {SPMV: spmv(), other: spmv(other)}
    paths = files(tmp_path)
    contents = [path.read_bytes() for path in paths]
    for turn in range(1, len(paths)):
        for path, content in zip(paths, contents[turn:] + contents[:turn], strict=True):
            path.write_bytes(content)
        for text, found in kernels.items():
            assert spmv(text) == found


def test_without_the_object_code_an_entry_is_a_miss(work: Work, tmp_path: Path) -> None:
    spmv()
    for path in files(tmp_path):
        if b'"tensors"' not in path.read_bytes():
            path.unlink()
    work.take()
    assert spmv() == [7, 9] and work.take() == ANEW
    assert spmv() == [7, 9] and work.take() == set()


def test_other_sources_of_the_package_are_a_miss(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    spmv()
    work.take()
    makers = (*cache_module._makers(), "changed")
    monkeypatch.setattr(cache_module, "_makers", lambda: makers)
    assert spmv() == [7, 9] and work.take() == ANEW


def test_an_error_of_compiling_comes_each_time(work: Work) -> None:
    errors = []
    for _ in range(2):
        with pytest.raises(FinchError) as caught:
            spmv("@finch for j = _, i = _; y[i] += A[i] end")
        errors.append(caught.value.render())
    assert errors[0] == errors[1] and "compiled" not in work.done


# --------------------------------------------------------------------------------------- the keys


def key(program: Any, formats: Any = (), rules: str = "all") -> str | None:
    node = parse_kernel(program) if isinstance(program, str) else program
    found = cache_key(node, dict(formats), (rules,), DiskCache("/nowhere"))
    return found and found.name


def test_keys_tell_apart_what_differs() -> None:
    vector, sparse = parse_format("Dense(Element(0.0))"), parse_format("SparseList(Element(0.0))")
    texts = ["x[i] = {}", "x[i] += {}", "x[j] = {}", "x[~i] = {}", "\nx[i] = {}"]
    values = ["0", "0.0", "-0.0", "1", "true", "Float32(0)", "UInt8(0)", "missing", "y"]
    programs = [f"for i = _; {text.format(value)} end" for text in texts for value in values]
    keys = [key(p, {"x": vector}) for p in programs]
    keys += [key(programs[0], formats) for formats in ({"x": sparse}, {"y": vector}, {})]
    keys += [key(programs[0], {"x": vector, "n": type}) for type in (Int64, Float32)]
    keys += [key(programs[0], {"x": vector}, "paper")]
    assert len(set(keys)) == len(keys) and None not in keys
    assert key(programs[0], {"x": vector}) == keys[0]


def test_fill_values_tell_formats_apart() -> None:
    fills = ["0.0", "-0.0", "Inf", "-Inf", "NaN", "Float32(0.0)", "0", "false", "Int32(0)"]
    formats = [parse_format(f"Dense(Element({fill}))") for fill in fills]
    formats += [parse_format(f"SparseList{t}(Element(0.0))") for t in ("", "{Int32}", "{UInt8}")]
    assert len({key("x[1] = 1", {"x": format}) for format in formats}) == len(formats)


def test_what_no_key_tells_is_not_kept() -> None:
    """An expression of the host language, and a value of a class that is not ours."""
    assert key(Value(Var("x", Int64))) is None
    assert key(Literal(np.float64(1.0))) is None
    assert key(Variable("x")) is not None


def test_an_entry_is_plain_text(work: Work, tmp_path: Path) -> None:
    spmv()
    [entry] = [path for path in files(tmp_path) if b'"tensors"' in path.read_bytes()]
    assert json.loads(entry.read_bytes()[HEAD:])["tensors"] == {"y": "y", "A": "A", "x": "x"}


def test_staging_leaves_garbage_collection_as_it_was(work: Work) -> None:
    for is_enabled in (True, False):
        (gc.enable if is_enabled else gc.disable)()
        try:
            spmv("\n" * is_enabled + SPMV)
            assert "staged" in work.take() and gc.isenabled() == is_enabled
            with pytest.raises(FinchError), no_collection():
                raise FinchError("type", "found while staging")
            assert gc.isenabled() == is_enabled
        finally:
            gc.enable()
