"""Files that are written in the place of others: what they keep, and what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from finchlang.script.files import fread, fwrite
from finchlang.script.paths import replace_file
from finchlang.source import FinchError


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    fwrite(str(path), np.ones(2))
    usual = path.stat().st_mode
    for mode in (0o600, 0o664, 0o640):
        path.chmod(mode)
        fwrite(str(path), np.zeros(2))
        assert path.stat().st_mode & 0o777 == mode
    path.unlink()
    fwrite(str(path), np.ones(2))
    assert path.stat().st_mode == usual
    assert [p.name for p in tmp_path.iterdir()] == ["a.npy"]


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link, real = tmp_path / "a.npy", tmp_path / "real" / "b.npy"
    link.symlink_to(real)
    for value in (1.0, 2.0):  # what it leads to is made, and then replaced
        fwrite(str(link), np.full(2, value))
        assert link.is_symlink() and np.load(real).tolist() == [value, value]
    (tmp_path / "c.npy").symlink_to(tmp_path / "c.npy")
    with pytest.raises(FinchError) as caught:
        fwrite(str(tmp_path / "c.npy"), np.ones(1))
    assert caught.value.kind == "I/O"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_that_is_ended_leaves_no_file_behind(tmp_path: Path, number: int) -> None:
    try:
        os.close(os.open(tmp_path, os.O_TMPFILE | os.O_RDWR))
    except OSError:
        pytest.skip("this file system has no files without names")
    program = f"""
import time
from pathlib import Path
from finchlang.script.paths import replace_file
def write(out):
    out.write(b"half of it")
    out.flush()
    print("begun", flush=True)
    time.sleep(60)
path = {str(tmp_path / "a.npy")!r}
replace_file(Path(path), path, write)
"""
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"begun\n"
        process.send_signal(number)
        assert process.wait(30) == -number
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_is_told_to_end_leaves_no_folder_behind(tmp_path: Path) -> None:
    """Folders have names from the start, so the process ends once they are complete."""
    program = f"""
import time
from pathlib import Path
from finchlang.script.paths import replace_folder
def write(folder):
    (folder / "zarr.json").write_text("half of it")
    print("begun", flush=True)
    time.sleep(1)
path = {str(tmp_path / "a.bsp.zarr")!r}
replace_folder(Path(path), path, write)
print("goes on", flush=True)
time.sleep(60)
"""
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == -signal.SIGTERM and process.stdout.read() == b""
    assert [p.name for p in tmp_path.iterdir()] == ["a.bsp.zarr"]


def test_where_files_must_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is made under another name, and is removed if it is not completed."""
    monkeypatch.setattr(os, "O_TMPFILE", os.O_CREAT | os.O_EXCL)  # of a folder: refused
    path = tmp_path / "a.npy"
    fwrite(str(path), np.ones(2))
    assert fread(str(path)).tolist() == [1, 1]

    def fail(out: BinaryIO) -> None:
        assert len(list(tmp_path.iterdir())) == 2
        raise OSError(28, "No space left on device")

    with pytest.raises(FinchError):
        replace_file(path, str(path), fail)
    assert [p.name for p in tmp_path.iterdir()] == ["a.npy"]
