"""The command as a process, and what no transcript has: that it starts at once, that others talk to it, how
it ends when it is stopped, when nobody reads it, and when it is to blame."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest

import finchlang
from finchlang import Session
from finchlang.base.errors import Bug, FinchError
from finchlang.calls.runner import Observer
from finchlang.repl.__main__ import main

ROOT = Path(__file__).parents[2]
FINCH = [sys.executable, "-m", "finchlang.repl"]

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A function that writes a program to a file and gives its path."""

    def writing(text: str) -> str:
        path = tmp_path / "program.finch"
        path.write_text(text, "utf-8")
        return str(path)

    return writing


def test_line_ends_stay_in_formatted_files(write: Write) -> None:
    path = write("")
    Path(path).write_bytes(b"x=1\r\ny=2\r\n")
    assert main(["fmt", path]) == main(["fmt", "--check", path]) == 0
    assert Path(path).read_bytes() == b"x = 1\r\ny = 2\r\n"
    code = "import sys; from finchlang.repl.__main__ import main; sys.exit(main(['fmt', '-']))"
    done = subprocess.run([sys.executable, "-c", code], input=b"x=1\r\n", capture_output=True)
    assert done.stdout == b"x = 1\r\n"


def start(*arguments: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([*FINCH, *arguments], text=True, stdin=pipe, stdout=pipe, stderr=pipe)


@pytest.mark.parametrize(
    "what",
    [
        "from finchlang.repl.__main__ import main; main(['--version'])",
        "from finchlang.repl.__main__ import parse; parse([])",
        "import finchlang.repl.commands, finchlang.repl.terminal",
    ],
)
def test_what_must_be_quick_imports_little(what: str) -> None:
    """The version, and the prompt before it is there: the language takes half a second."""
    ask = "import sys; print(*{'numpy', 'lark', 'llvmlite'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", f"{what}; {ask}"], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "", done


def test_the_version_is_that_of_the_package() -> None:
    assert version("finchlang") == finchlang.__version__


def test_a_file_is_a_program(tmp_path: Path) -> None:
    finch, program = tmp_path / "finch", tmp_path / "program"
    finch.write_text(f'#!/bin/sh\nexec {shlex.join(FINCH)} "$@"\n')
    program.write_text(f"#!{finch}\nprintln(6 * 7, ARGS[1])\n")
    finch.chmod(0o755)
    program.chmod(0o755)
    assert subprocess.run([program, "x"], capture_output=True, text=True).stdout == "42x\n"


def test_bash_completes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    ask = 'COMP_WORDS=(finch nor); COMP_CWORD=1; _finch; echo "${COMPREPLY[@]}"'
    command = ["bash", "-c", f"{capsys.readouterr().out}\n{ask}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split() == ["normalize"]


def test_bytes_that_are_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "binary.finch"
    path.write_bytes(b"\xff\xfe\x00")
    for command in ("run", "diff"):
        assert main([command, str(path)]) == 1
        assert "I/O error" in capsys.readouterr().err
    for own in ({"PYTHONIOENCODING": "utf-8:strict"}, {"LC_ALL": "C"}):
        env = {**os.environ, **own}
        command = [*FINCH, *(["fmt", "-"] if "LC_ALL" in own else [])]
        done = subprocess.run(command, input=b"\xff\xfe", env=env, capture_output=True)
        assert done.returncode == 1 and b"standard input is not UTF-8" in done.stderr


@pytest.mark.parametrize(
    ("stop", "status", "says"),
    [
        *((fault, 70, "This is a bug in finchlang") for fault in (Bug("a term"), KeyError("a"))),
        *((e, 130, "interrupted") for e in (KeyboardInterrupt(), FinchError("interrupted", ""))),
    ],
)
def test_a_fault_of_ours_is_called_one_and_an_interrupt_is_none(
    stop: BaseException, status: int, says: str, write: Write, capsys: Any, monkeypatch: Any
) -> None:
    def fail(*_: object) -> None:
        raise stop

    monkeypatch.setattr(Session, "run_file", fail)
    assert main(["run", write("x = 1")]) == status
    err = capsys.readouterr().err
    assert says in err and ("Traceback" in err) == (status == 70)


def test_an_interrupt_that_python_ignores_comes_again(write: Write, monkeypatch) -> None:
    class Interrupted:
        def __del__(self) -> None:
            raise KeyboardInterrupt

    def run(*_: object) -> None:
        Interrupted()
        for _round in range(6000):
            sleep(0.01)
        raise AssertionError("it is lost")

    monkeypatch.setattr(Session, "run_file", run)
    assert main(["run", write("x = 1")]) == 130


def test_an_interrupted_program_ends_at_once(write: Write) -> None:
    """By the time it says so its kernel is compiled, and all that is left to do is to run it."""
    text = (
        "s = Scalar(0.0)\nfunction f(n)\n@finch for i = 1:n, j = 1:n; s[] += sin(i + j) end\nend\n"
    )
    process = start("run", write(f'{text}f(1)\nprintln("go")\nf(10^9)\n'))
    assert process.stdout is not None and process.stdout.readline() == "go\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "interrupted" in err and "Traceback" not in err


def test_nobody_reads_the_output(write: Write) -> None:
    process = start("run", write("for k = 1:100000\n    println(k)\nend"))
    assert process.stdout is not None and process.stdout.readline() == "1\n"
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr is not None and process.stderr.read() == ""


def test_an_output_that_is_closed_in_an_expression_is_no_fault_of_its_operands() -> None:
    class Closed(Observer):
        def kernel(self, event: Any) -> None:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        Session(observer=Closed()).run("A = sparse([1.0 0.0; 0.0 2.0]); y = collect(A * A)")


def test_output_in_another_encoding_is_an_error() -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*FINCH, "-e", 'println("é")'], env=env, capture_output=True, text=True)
    assert done.returncode == 1 and "whose encoding is ascii" in done.stderr


FULL = "run {}", "llvm {}", "--version", "--help"


@pytest.mark.parametrize("where", ["run {} >&-", *(f"{x} > /dev/full" for x in FULL)])
def test_output_that_takes_nothing_is_an_error(where: str, write: Write) -> None:
    """Standard output is closed, or its disk is full."""
    path = write("s = Scalar(0); @finch s[] = 1; println(3)")
    command = f"{shlex.join(FINCH)} {where.format(path)}"
    done = subprocess.run(command, shell=True, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "I/O error" in done.stderr and "standard output" in done.stderr
    for status, quiet in enumerate(
        [f"run {write('x = 1')} >&-", "run - <&-", "fmt none.finch 2>&-"]
    ):
        command = f"{shlex.join(FINCH)} {quiet}"
        assert subprocess.run(command, shell=True, cwd=ROOT).returncode == (status > 0)


def test_a_kernel_found_on_disk_gives_its_notes(
    tmp_path: Path, write: Write, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    monkeypatch.setenv("FINCH_CACHE_DIR", str(tmp_path / "cache"))
    definitions = "A = [0.0 5.0; 7.0 0.0]\nC = Tensor(Dense(SparseList(Element(0.0))))\n"
    path = write(f"{definitions}@finch begin; C .= 0; for i = _, j = _; C[i, j] = A[i, j] end; end")
    found = []
    for _ in range(2):
        assert main(["run", path]) == 0
        found.append(capsys.readouterr().err)
    assert found[0] == found[1] and "note: `C` is written across" in found[0]


DEFINITIONS = """\
A = fsparse([1, 2, 3], [1, 2, 2], [1.0, 2.0, 3.0], (3, 4))
C = fsparse([2, 3], [1, 4], [5.0, 7.0], (3, 4))
B = fsparse([1, 2, 4], [1, 2, 2], [1.0, 2.0, 3.0], (4, 2))
D = Tensor(Dense(SparseList(Element(0.0))))
x = Tensor(Dense(Element(0.0)), [1.0, 2.0, 0.0, 4.0])
y = Tensor(Dense(Element(0.0)), 3)
s = Scalar(0.0)
p = [4, 6, 9]; q = [6, 9, 30]; r = [0, 0, 0]
"""
GCD = """
function mygcd(a, b)
    while b != 0
        a, b = b, a % b
    end
    return abs(a)
end
"""
#: functions and a kernel
KERNELS = [
    ("", "begin; y .= 0; for j = _, i = _; y[i] += A[i, j] * x[j] end end"),
    ("", "for j = _, i = _; C[i, j] += 2 * A[i, j] end"),
    ("", "begin; s .= 0; for i = _, j = _; s[] += A[i, j] * x[~(j + 1)] end end"),
    ("", "begin; D .= 0; for k = _, j = _, i = _; D[i, j] += A[i, k] * B[k, j] end end"),
    ("", "begin; D .= 0; for j = _, i = _; D[j, i] = A[i, j] end end"),
    (GCD, "for i = _; r[i] = mygcd(p[i], q[i]) end"),
    (GCD, "for i = _; r[i] <<mygcd>>= q[i] end"),
    (
        GCD + "t = 6\ng(a) = a > t ? mygcd(a, t) : t\nfunction k(a)\n"
        "    s = 0\n    for i = 3:-1:a\n        s += g(a)\n    end\n    s\nend",
        "for i = _; r[i] = k(p[i]) + g(q[i]) end",
    ),
    (
        "max(a, b) = a < b ? b * 2 : a * 2\nfunction x_2(a)\n"
        "    if a > 1\n        a -= 1\n    end\n    max(a, a)\nend",
        "for i = _; r[i] = max(x_2(p[i]), q[i]) end",
    ),
]


@pytest.mark.parametrize(("functions", "kernel"), KERNELS)
def test_what_normalize_prints_runs_after_the_definitions(
    functions: str, kernel: str, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program after each pass, which has all functions that it calls."""
    text = f"{DEFINITIONS}{functions}\n@finch {kernel}\n"
    assert main(["normalize", write(text)]) == 0
    passes = re.split(r"^# .*\n", capsys.readouterr().out, flags=re.MULTILINE)
    written, programs = Session(), [program for program in passes if program.strip()]
    written.run(text)
    assert programs
    for program in programs:
        rewritten = Session()
        rewritten.run(DEFINITIONS + program)
        for name in ("C", "D", "y", "s", "r"):
            assert plain(rewritten[name]) == plain(written[name]), program


def plain(value: Any) -> Any:
    """A tensor, an array or a scalar as numbers in lists."""
    array = value.to_numpy() if hasattr(value, "to_numpy") else np.asarray(value)
    return array.tolist()


def test_a_trace_of_all_steps_ends_after_200_lines(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(Path(__file__).parents[2] / "examples" / "spmv.finch")
    assert main(["trace", path]) == 0
    lines = capsys.readouterr().out.rstrip("\n").split("\n")
    assert 200 <= len(lines) < 240 and "`--steps 1:` shows all steps" in lines[-1]
    assert main(["trace", "--steps", "1:120", path]) == 0
    assert len(capsys.readouterr().out.split("\n")) > 240


def test_ctrl_c_while_modules_are_imported_ends_without_a_traceback() -> None:
    text = (
        "import os, signal; from finchlang.repl import __main__ as m;"
        "m.parse = lambda given: os.kill(os.getpid(), signal.SIGINT); m.main(['-e', '1'])"
    )
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")
