"""What is kept on disk between runs: where it is, and who may have written what is believed."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from finchlang.disk_cache import DiskCache, default_cache

ROOT = Path(__file__).parents[2]
OTHER = 65_534  # a user who is not us


def test_least_recently_used_files_go_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit=5000)
    cache.put("old", bytes(1000))
    cache.put("used", bytes(1000))
    for age, key in ((3, "old"), (2, "used")):
        os.utime(tmp_path / key, ns=(time.time_ns() - age * 10**9,) * 2)
    assert cache.get("old") == bytes(1000)  # now it is the more recent one
    for number in range(12):
        cache.put(f"new{number}", bytes(900))
    total = sum(p.stat().st_size for p in tmp_path.iterdir())
    assert total <= 5000 + 950
    assert cache.get("used") is None and cache.get("new11") == bytes(900)


def test_where_the_default_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def directory() -> Path | None:
        cache = default_cache()
        return cache.directory if cache else None

    monkeypatch.delenv("FINCH_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert directory() == tmp_path / "xdg" / "finchlang"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert directory() == tmp_path / "home" / ".cache" / "finchlang"
    monkeypatch.setenv("FINCH_CACHE_DIR", str(tmp_path / "mine"))
    assert directory() == tmp_path / "mine"
    monkeypatch.setenv("FINCH_CACHE_DIR", "")
    assert directory() is None


def run(program: str, timeout: float = 60, **environment: str) -> str:
    """What a program prints in a process of its own, without an error."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


KERNEL = """
from finchlang import Session
session = Session(output=print)
session.run("x = [1, 2, 3]; s = Scalar(0)")
session.run("@finch for i = _ s[] += x[i] end; println(s[])")
"""


def test_nothing_is_kept_where_the_folder_is_empty(tmp_path: Path) -> None:
    """Neither parser tables nor kernels."""
    homes = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "xdg")}
    assert "6" in run(KERNEL, FINCH_CACHE_DIR="", **homes)
    assert list(tmp_path.iterdir()) == []


def test_tables_and_kernels_are_in_one_folder(tmp_path: Path) -> None:
    """Which is found by the XDG base directories too, and is for us alone whatever the umask."""
    environment = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "xdg" / "deep")}
    program = "import os; os.umask(0); del os.environ['FINCH_CACHE_DIR']\n" + KERNEL
    assert "6" in run(program, FINCH_CACHE_DIR="unset", **environment)
    folder = tmp_path / "xdg" / "deep" / "finchlang"
    assert not (tmp_path / "home").exists()
    names = [file.name for file in folder.iterdir()]
    assert len([n for n in names if n.startswith("grammar-")]) == 1 < len(names)
    for made in (folder, *folder.parents[:2]):
        assert made.stat().st_mode & 0o777 == 0o700
    for file in folder.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600


def test_parser_tables_are_no_pickle(tmp_path: Path) -> None:
    """They are read without a pickle, and read again without the grammar."""
    program = """
import pickle, lark
def refuse(*args, **keywords): raise AssertionError
pickle.load = pickle.loads = pickle.Unpickler = pickle.dump = pickle.dumps = refuse
if {again}: lark.lark.load_grammar = refuse
from finchlang.text.parse import parse_script
print(parse_script("f(x) = x < 1 ? 2 : -x^2"))
"""
    kept = {"FINCH_CACHE_DIR": str(tmp_path)}
    first = run(program.format(again=False), **kept)
    assert run(program.format(again=True), **kept) == first
    (file,) = tmp_path.iterdir()
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(file.read_bytes())


def _others_may_write(path: Path) -> None:
    path.chmod(path.stat().st_mode | 0o002)


def _group_may_write(path: Path) -> None:
    path.chmod(path.stat().st_mode | 0o020)


def _is_not_ours(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(path, OTHER, -1)


@pytest.mark.parametrize("whose", [_others_may_write, _group_may_write, _is_not_ours])
@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_others_may_have_written_is_not_used(
    tmp_path: Path, what: str, whose: Callable[[Path], None]
) -> None:
    cache = DiskCache(tmp_path / "cache")
    cache.put("key", b"content")
    assert cache.get("key") == b"content"
    whose(cache.directory / "key" if what == "file" else cache.directory)
    assert cache.get("key") is None
    cache.put(
        "key", b"new"
    )  # a file of ours takes the place of theirs; into their folder goes none
    assert cache.get("key") == (b"new" if what == "file" else None)
    assert len(list(cache.directory.iterdir())) == 1


def test_links_are_not_followed_and_pipes_not_opened(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache")
    cache.put("key", b"content")
    (cache.directory / "link").symlink_to(cache.directory / "key")
    assert cache.get("link") is None
    os.mkfifo(cache.directory / "pipe")
    program = f"""
from finchlang.disk_cache import DiskCache
print(DiskCache({str(cache.directory)!r}).get("pipe"))
"""
    assert run(program, timeout=20) == "None\n"


def test_a_folder_may_be_a_link_to_one_of_ours(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    cache = DiskCache(tmp_path / "link")
    cache.put("key", b"content")
    assert cache.get("key") == b"content" and (tmp_path / "real" / "key").exists()
