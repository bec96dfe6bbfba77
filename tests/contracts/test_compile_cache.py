"""What is kept on disk between runs: a kernel that was compiled before is ready without being normalised
and staged again, and does the same; whatever determines it tells it from others; and what others may
have written, or what is damaged, is not believed."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from finchlang import FinchError, Session
from finchlang.base.disk_cache import DiskCache, _seal, default_cache
from finchlang.calls import staging
from finchlang.calls.compile_cache import cache_key
from finchlang.calls.runner import KernelEvent, Observer
from finchlang.host.ir import Var
from finchlang.native import jit, target
from finchlang.syntax.nodes import Literal, Value, Variable
from finchlang.syntax.types import Float32, Int64
from finchlang.tensors.formats import parse_format
from finchlang.text.parse import parse_kernel, parse_script

pytestmark = pytest.mark.optimised

ROOT = Path(__file__).parents[2]
SPMV = "@finch begin\ny .= 0\nfor j = _, i = _; y[i] += A[i, j] * x[j]; end\nend"
HEAD = len(_seal("", b""))  # what stands before the text of an entry
ANEW = {"normalize", "ResidualHost", "object_code"}


@pytest.fixture
def work(
    monkeypatch: pytest.MonkeyPatch, nothing_staged: None, tmp_path: Path
) -> Callable[[], set[str]]:
    """What was done to make kernels ready since it was asked last; they are kept in a new folder."""
    monkeypatch.setenv("FINCH_CACHE_DIR", str(tmp_path / "cache"))
    done: set[str] = set()

    def told(module: Any, name: str) -> None:
        function = getattr(module, name)

        def call(*args: Any) -> Any:
            done.add(name)
            return function(*args)

        monkeypatch.setattr(module, name, call)

    told(staging, "normalize")
    told(staging, "ResidualHost")
    told(jit, "object_code")

    def take() -> set[str]:
        found = set(done)
        done.clear()
        return found

    return take


def spmv(text: str = SPMV, dtype: Any = float, **settings: Any) -> np.ndarray:
    session = Session(**settings)
    session["A"] = sp.csc_array(np.array([[1, 0, 2], [0, 0, 3]], dtype))
    session["x"], session["y"] = np.array([1, 2, 3], dtype), np.zeros(2, dtype)
    session.run(text)
    return session["y"].tolist()


def entries(folder: Path) -> list[Path]:
    """The files that say how kernels are called."""
    return [
        path for path in sorted((folder / "cache").iterdir()) if b'"Signature"' in path.read_bytes()
    ]


def test_what_is_found_again_and_what_is_not(work: Callable, monkeypatch: Any) -> None:
    for given, first in (
        ({}, ANEW),
        ({"text": "\n\n" + SPMV}, {"normalize", "ResidualHost"}),  # it only moved: not compiled
        ({"dtype": np.float32}, ANEW),
        ({"rules": "paper"}, ANEW),
        ({"workspaces": False}, {"normalize", "ResidualHost"}),
    ):
        assert spmv(**given) == [7, 9] and work() >= first - ({"object_code"} & set(given))
        assert spmv(**given) == [7, 9] and work() == set()
    for engine in ("interpret", "residual", "check"):
        assert spmv(engine=engine) == ([0, 0] if engine == "check" else [7, 9])
    makers = (*target._makers(), "changed")  # other sources of the package
    monkeypatch.setattr(target, "_makers", lambda: makers)
    work()
    assert spmv() == [7, 9] and work() == ANEW


def test_a_function_that_a_kernel_calls_is_part_of_its_key(work: Callable) -> None:
    """Also what that calls, and a number that it takes from around it."""
    for expected_work in (ANEW, set()):
        for t, body, expected in (
            (0.0, "x + 1", [2, 3]),
            (0.0, "x * 2", [2, 4]),
            (5.0, "x * 2", [7, 9]),
        ):
            session = Session()
            session["x"], session["y"], session["t"] = np.array([1.0, 2.0]), np.zeros(2), t
            session.run(f"g(x) = {body}\nfunction f(x)\n    s = g(x) + t\n    s\nend")
            session.run("@finch for i = _; y[i] = f(x[i]); end")
            assert session["y"].tolist() == expected and work() == expected_work


def test_errors_are_placed_in_the_text_of_today(work: Callable) -> None:
    found = []
    for name in ("the first", "the other"):
        session = Session()
        session["x"], session["y"], session["I"] = np.ones(2), np.zeros(2), np.array([1, 3])
        with pytest.raises(FinchError) as caught:
            session.run(f"# {name}\n@finch for i = _; y[i] = x[I[i]] end", name)
        assert caught.value.kind == "bounds" and caught.value.span.text == "x[I[i]]"
        found.append(caught.value.render())
    assert work() == ANEW and found[1] == found[0].replace("the first", "the other")
    for _ in range(2):  # and those of compiling come each time
        with pytest.raises(FinchError, match="1 index"):
            spmv("@finch for j = _, i = _; y[i] += A[i] end")


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").glob("*.finch"))[::5], ids=lambda p: p.stem
)
def test_programs_do_the_same_from_the_cache(path: Path, work: Callable) -> None:
    said = []
    for _ in range(2):
        parse_script.cache_clear()
        lines: list[str] = []
        Session(output=lines.append).run_file(path)
        said.append([line for line in lines if "seconds" not in line])
        compiled = work()
    assert said[0] == said[1] and not compiled


def test_what_is_not_needed_to_run_is_made_when_it_is_asked_for(work: Callable) -> None:
    class Events(Observer):
        def kernel(self, event: KernelEvent) -> None:
            shown.append((event.passes, jit.text(event.residual), jit.llvm_text(event.residual)))

    shown: list[Any] = []
    for _ in range(2):
        spmv(observer=Events())
    assert shown[0] == shown[1]


# ---------------------------------------------------------------------------- what goes wrong on disk

DAMAGES: dict[str, Callable[[str, bytes], bytes]] = {
    "empty": lambda key, content: b"",
    "cut off": lambda key, content: content[:-3],
    "longer": lambda key, content: content + b" ",
    "zeros": lambda key, content: content[:-100] + bytes(100),
    "of another kernel": lambda key, content: _seal(key[::-1], content[HEAD:]),
}
#: what is in order but for what it says, of entries
SEALED: dict[str, Callable[[str, bytes], bytes]] = {
    "another text": lambda key, content: _seal(key, b"no entry"),
    "no object": lambda key, content: _seal(key, b"[1, 2]"),
    "other fields": lambda key, content: _seal(key, b'{"CacheEntry": [{}, {}, ""]}'),
    "an unknown type": lambda key, content: _seal(
        key, content[HEAD:].replace(b'"Float64"', b'"Float65"')
    ),
}


@pytest.mark.parametrize("damage", DAMAGES | SEALED)
def test_what_is_damaged_is_a_miss_and_is_replaced(
    damage: str, work: Callable, tmp_path: Path
) -> None:
    """Entries and object code, which may also be missing, or stand in the places of others."""
    other = SPMV.replace("*", "+")
    kernels = {SPMV: spmv(), other: spmv(other)}
    entry, files = entries(tmp_path)[0], sorted((tmp_path / "cache").iterdir())
    signature = json.loads(entry.read_bytes()[HEAD:])["CacheEntry"][0]["Signature"]
    assert signature[0] == {"dict": {"y": "y", "A": "A", "x": "x"}}
    contents = [file.read_bytes() for file in files]
    objects = [file for file in files if b'"tensors"' not in file.read_bytes()]
    for damaged in ([entry], objects, files) if damage in DAMAGES else ([entry],):
        for file in damaged:
            file.write_bytes((DAMAGES | SEALED)[damage](file.name, file.read_bytes()))
        work()
        assert all(spmv(text) == found for text, found in kernels.items()) and work()
        assert all(spmv(text) == found for text, found in kernels.items()) and not work()
    for turn in range(1, len(files)):
        for file, content in zip(files, contents[turn:] + contents[:turn], strict=True):
            file.write_bytes(content)
        assert all(spmv(text) == found for text, found in kernels.items())
    for file in objects:
        file.unlink()
    work()
    assert all(spmv(text) == found for text, found in kernels.items()) and work() == ANEW


def test_an_unusable_folder_is_no_error(work: Callable, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "file").write_text("not a directory")
    for folder in (tmp_path / "file", "/proc/no/such"):
        monkeypatch.setenv("FINCH_CACHE_DIR", str(folder))
        assert spmv() == spmv() == [7, 9] and work() == ANEW
    monkeypatch.setenv("FINCH_CACHE_DIR", str(tmp_path / "cache"))
    spmv()
    for file in (tmp_path / "cache").iterdir():
        (file.unlink(), file.mkdir())  # cannot be read, nor replaced
    assert spmv() == [7, 9] and all(file.is_dir() for file in (tmp_path / "cache").iterdir())


def test_least_recently_used_files_go_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit=5000)
    for age, key in ((3, "old"), (2, "used")):
        cache.put(key, bytes(1000))
        os.utime(tmp_path / key, ns=(time.time_ns() - age * 10**9,) * 2)
    assert cache.get("old") == bytes(1000)  # now it is the more recent one
    for number in range(12):
        cache.put(f"new{number}", bytes(900))
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) <= 5000 + 950
    assert cache.get("used") is None and cache.get("new11") == bytes(900)


@pytest.mark.parametrize("mode", [0o002, 0o020, None])
@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_others_may_have_written_is_not_used(
    tmp_path: Path, what: str, mode: int | None
) -> None:
    """Nor is a link followed, or a pipe waited for; but the folder may be a link to one of ours."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    cache = DiskCache(tmp_path / "link")
    cache.put("key", b"content")
    assert cache.get("key") == b"content"
    (cache.directory / "other").symlink_to(cache.directory / "key")
    os.mkfifo(cache.directory / "pipe")
    assert cache.get("other") is None is cache.get("pipe")
    path = tmp_path / "real" / ("key" if what == "file" else "")
    if mode is not None:
        path.chmod(path.stat().st_mode | mode)
    elif os.geteuid() == 0:  # only root gives files away
        os.chown(path, 65_534, -1)
    else:
        return
    assert cache.get("key") is None
    cache.put(
        "key", b"new"
    )  # a file of ours takes the place of theirs; into their folder goes none
    assert cache.get("key") == (b"new" if what == "file" else None)


# ------------------------------------------------------------------------------- other processes, keys

KERNEL = """
import os, pickle, sys
os.umask(0)
def refuse(*args, **keywords): raise AssertionError
pickle.load = pickle.loads = pickle.Unpickler = pickle.dump = pickle.dumps = refuse
from finchlang import Session
if sys.argv[1] == "again":  # neither the grammar nor LLVM is needed
    import lark
    from finchlang.native import compiler
    lark.lark.load_grammar = compiler.machine_code = refuse
session = Session(output=print)
session.run("x = [1, 2, 3]; s = Scalar(0.0); y = Tensor(SparseList(Element(0.0)), 0)")
session.run("@finch begin y .= 0; for i = _ y[i] = log1p(x[i]) ^ 0 end end")
session.run("@finch for i = _ s[] += y[i] end; println(s[])")
"""


FOLDERS = {
    "FINCH_CACHE_DIR": "own",
    "XDG_CACHE_HOME": "xdg/finchlang",
    "HOME": "home/.cache/finchlang",
}


@pytest.mark.parametrize("where", FOLDERS)
def test_the_folder_is_the_first_that_there_is(where: str, monkeypatch: Any) -> None:
    given = {"HOME": "/home", "XDG_CACHE_HOME": "/xdg", "FINCH_CACHE_DIR": "/own"}
    for name in FOLDERS:
        monkeypatch.delenv(name, raising=False)
    for name in [*FOLDERS][[*FOLDERS].index(where) :]:
        monkeypatch.setenv(name, given[name])
    cache = default_cache()
    assert cache is not None and cache.directory == Path("/") / FOLDERS[where]


@pytest.mark.parametrize("where", ["FINCH_CACHE_DIR", "nowhere"])
def test_where_parser_tables_and_kernels_are(tmp_path: Path, where: str) -> None:
    """In one folder, for us alone whatever the umask; another process needs no more."""
    given = {"HOME": "home", "XDG_CACHE_HOME": "xdg", "FINCH_CACHE_DIR": "own"}
    environment = os.environ | {name: str(tmp_path / folder) for name, folder in given.items()}
    if where == "nowhere":
        environment["FINCH_CACHE_DIR"] = ""
    for turn in ("first", "again")[: 1 if where == "nowhere" else 2]:
        command = [sys.executable, "-c", KERNEL, turn]
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "3.0\n\n", "")
    made = [*tmp_path.rglob("*")]
    folders = {tmp_path / FOLDERS[where]} if where in FOLDERS else set()
    assert {p.parent for p in made if p.is_file()} == folders
    assert all(p.stat().st_mode & 0o777 == (0o700 if p.is_dir() else 0o600) for p in made)
    for tables in tmp_path.rglob("grammar-*"):
        with pytest.raises(pickle.UnpicklingError):
            pickle.loads(tables.read_bytes())


def key(program: Any, formats: Any = (), rules: str = "all") -> str | None:
    node = parse_kernel(program) if isinstance(program, str) else program
    found = cache_key(node, dict(formats), (rules,), DiskCache("/nowhere"))
    return found and found.name


def test_keys_tell_apart_what_differs() -> None:
    """Programs, values, formats with their fills, rules; what no key tells has none."""
    vector, sparse = parse_format("Dense(Element(0.0))"), parse_format("SparseList(Element(0.0))")
    texts = ["x[i] = {}", "x[i] += {}", "x[j] = {}", "x[~i] = {}", "\nx[i] = {}"]
    values = ["0", "0.0", "-0.0", "1", "true", "Float32(0)", "UInt8(0)", "missing", "y"]
    programs = [f"for i = _; {text.format(value)} end" for text in texts for value in values]
    keys = [key(p, {"x": vector}) for p in programs]
    keys += [key(programs[0], formats) for formats in ({"x": sparse}, {"y": vector}, {})]
    keys += [key(programs[0], {"x": vector, "n": type}) for type in (Int64, Float32)]
    keys += [key(programs[0], {"x": vector}, "paper")]
    fills = ["-0.0", "Inf", "-Inf", "NaN", "Float32(0.0)", "0", "false", "Int32(0)"]
    formats = [f"Dense(Element({fill}))" for fill in fills]
    formats += [f"SparseList{t}(Element(0.0))" for t in ("{Int32}", "{UInt8}")]
    keys += [key(programs[0], {"x": parse_format(format)}) for format in formats]
    assert len(set(keys)) == len(keys) and None not in keys
    assert key(programs[0], {"x": vector}) == keys[0]
    assert key(Value(Var("x", Int64))) is None is key(Literal(np.float64(1.0)))
    assert key(Variable("x")) is not None
