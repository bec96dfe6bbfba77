"""The command `finch`: each subcommand, what it prints, and its exit status."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import finchlang
from finchlang import session
from finchlang.repl.__main__ import COMMANDS, main
from finchlang.repl.conversation import Conversation
from finchlang.repl.directives import obey
from finchlang.repl.views import Watching
from finchlang.rules.table import RULES
from finchlang.source import Bug, FinchError
from finchlang.testing import compare
from finchlang.testing.compare import SEMANTICS as ENGINES
from finchlang.testing.compare import ways_of
from finchlang.text.parse import parse_script

pytestmark = pytest.mark.optimised

SPMV = """\
A = Tensor(Dense(SparseList(Element(0.0))), [1.0 0.0 2.0; 0.0 3.0 0.0])
x = [1.0, 2.0, 3.0]
y = Tensor(Dense(Element(0.0)))
@finch begin
    y .= 0
    for j = _, i = _
        y[i] += A[i, j] * x[j]
    end
end
@assert y == [7.0, 6.0]
println("done")
"""
LOOKING = ("normalize", "trace", "residual", "llvm", "asm")


@pytest.fixture
def write(tmp_path: Path):
    """A function that writes a program to a file and gives its path."""

    def writing(text: str, name: str = "program.finch") -> str:
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return str(path)

    return writing


@pytest.fixture
def spmv(write) -> str:
    return write(SPMV)


# ---------------------------------------------------------------------------------------- running


@pytest.mark.parametrize("engine", ENGINES)
def test_run_on_every_engine(engine: str, spmv: str, capsys) -> None:
    assert main(["run", spmv, "--engine", engine]) == 0
    assert capsys.readouterr() == ("done\n", "")


@pytest.mark.parametrize("engine", ENGINES)
def test_run_with_the_papers_rules_only(engine: str, spmv: str, capsys) -> None:
    assert main(["run", "--engine", engine, "--rules", "paper", spmv]) == 0
    assert capsys.readouterr().out == "done\n"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_wrong_result_is_noticed_on_every_engine(engine: str, write, capsys) -> None:
    """That the assertion in the program above can fail at all."""
    assert main(["run", write(SPMV.replace("[7.0, 6.0]", "[7.0, 5.0]")), "--engine", engine]) == 1
    out, err = capsys.readouterr()
    assert out == "" and "assertion failed" in err


def test_arguments_reach_the_script(write, capsys) -> None:
    path = write('println(ARGS[1], "+", ARGS[2], "+", length(ARGS))')
    assert main(["run", path, "one", "two"]) == 0
    assert capsys.readouterr().out == "one+two+2\n"


def test_arguments_that_look_like_options(write, capsys) -> None:
    assert main(["run", write("println(ARGS[1])"), "--", "--engine"]) == 0
    assert capsys.readouterr().out == "--engine\n"


@pytest.mark.parametrize(
    "what",
    (
        "from finchlang.repl.__main__ import main; main(['--version'])",
        "from finchlang.repl.__main__ import parse; parse([])",
        "import finchlang.repl.commands, finchlang.repl.terminal",
    ),
)
def test_what_must_be_quick_imports_little(what: str) -> None:
    """The version, and the prompt before it is there: the language takes half a second."""
    ask = "import sys; print(*{'numpy', 'lark', 'llvmlite'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", f"{what}; {ask}"], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "", done


# ------------------------------------------------------------------------- without naming a command


def test_a_file_alone_is_run(write, capsys) -> None:
    path = write('#!/usr/bin/env finch\nprintln(ARGS[1], "+", ARGS[2])')
    assert main([path, "-e", "--rules"]) == 0
    assert capsys.readouterr().out == "-e+--rules\n"
    assert main(["--engine", "interpret", path, "one", "two"]) == 0
    assert capsys.readouterr().out == "one+two\n"


def test_a_file_is_a_program(tmp_path: Path) -> None:
    finch = tmp_path / "finch"
    finch.write_text(f'#!/bin/sh\nexec {sys.executable} -m finchlang.repl "$@"\n')
    program = tmp_path / "program"
    program.write_text(f"#!{finch}\nprintln(6 * 7, ARGS[1])\n")
    finch.chmod(0o755)
    program.chmod(0o755)
    assert subprocess.run([program, "x"], capture_output=True, text=True).stdout == "42x\n"


def test_a_text_is_run_and_its_values_shown(capsys) -> None:
    assert main(["-e", "x = 6; 7 * x"]) == 0
    assert capsys.readouterr().out == "42\n"
    assert main(["-e", "ARGS", "one", "two"]) == 0
    assert capsys.readouterr().out == '["one", "two"]\n'
    assert main(["-e", "1 +* 2"]) == 1
    assert "<-e>:1:4: syntax error" in capsys.readouterr().err


def test_what_is_neither_a_command_nor_a_file(capsys) -> None:
    assert main(["nromalize"]) == 2
    assert "did you mean `finch normalize`" in capsys.readouterr().err
    assert main(["absent.finch"]) == 1
    assert "cannot read absent.finch" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ("bash", "zsh", "fish"))
def test_shells_complete(shell: str, capsys) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(command in script for command in COMMANDS)
    if shell == "bash":
        ask = 'COMP_WORDS=(finch nor); COMP_CWORD=1; _finch; echo "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True)
        assert done.stdout.split() == ["normalize"]


# ----------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("command", ("run", "check", *LOOKING, "diff"))
def test_a_syntax_error_has_a_place_and_a_caret(command: str, write, capsys) -> None:
    path = write("x = 1\ny = x +* 2\n")
    assert main([command, path]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[:3] == [
        f"{path}:2:8: syntax error: an expression is expected after `+`",
        "2 | y = x +* 2",
        "           ^",
    ]
    assert "Traceback" not in err


@pytest.mark.parametrize("command", ("run", "check", *LOOKING, "diff"))
def test_a_file_that_is_not_there(command: str, tmp_path: Path, capsys) -> None:
    assert main([command, str(tmp_path / "absent.finch")]) == 1
    out, err = capsys.readouterr()
    assert out == "" and "I/O error" in err and "absent.finch" in err and "Traceback" not in err


@pytest.mark.parametrize("command", ("run", "diff"))
def test_a_file_that_is_no_text(command: str, tmp_path: Path, capsys) -> None:
    path = tmp_path / "binary.finch"
    path.write_bytes(b"\xff\xfe\x00")
    assert main([command, str(path)]) == 1
    assert "I/O error" in capsys.readouterr().err


@pytest.mark.parametrize("command", ("run", "diff"))
def test_a_folder_is_no_file(command: str, tmp_path: Path, capsys) -> None:
    assert main([command, str(tmp_path)]) == 1
    assert "I/O error" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    (
        ["fly"],
        ["run"],
        ["run", "a.finch", "--engine", "steam"],
        ["run", "a.finch", "--rules", "none"],
        ["check", "a.finch", "--rules", "paper"],
        ["diff", "a.finch", "--tolerance", "-1"],
        ["diff", "a.finch", "--tolerance", "wide"],
        ["diff", "a.finch", "--tolerance", "inf"],
    ),
)
def test_wrong_usage(arguments: list[str], capsys) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("usage: finch")


@pytest.mark.parametrize("fault", (Bug("lost a term"), KeyError("lost")))
def test_a_fault_of_ours_is_called_one(fault: Exception, spmv: str, capsys, monkeypatch) -> None:
    def fail(*_):
        raise fault

    monkeypatch.setattr(session.Session, "run_file", fail)
    assert main(["run", spmv]) == 70
    err = capsys.readouterr().err
    assert "Traceback" in err and "lost" in err and "This is a bug in finchlang" in err


@pytest.mark.parametrize("stop", (KeyboardInterrupt(), FinchError("interrupted", "stopped")))
def test_an_interrupt_is_no_bug(stop: BaseException, spmv: str, capsys, monkeypatch) -> None:
    def fail(*_):
        raise stop

    monkeypatch.setattr(session.Session, "run_file", fail)
    assert main(["run", spmv]) == 130
    err = capsys.readouterr().err
    assert "interrupted" in err and "Traceback" not in err


# ---------------------------------------------------------------------------------------- looking


def test_check_is_silent_on_a_right_program(spmv: str, capsys) -> None:
    assert main(["check", spmv]) == 0
    assert capsys.readouterr() == ("", "")


def test_check_finds_what_is_wrong_in_a_kernel(write, capsys) -> None:
    path = write(SPMV.replace("x[j]", "z[j]"))
    assert main(["check", path]) == 1
    err = capsys.readouterr().err
    assert f"{path}:7:" in err and "unknown name error" in err and "`z`" in err


def test_check_goes_on_where_results_are_missing(write, capsys) -> None:
    """What the script does with results that are not there is no fault of the user's."""
    start = "s = Scalar(0)\nx = [5, 6]\n@finch s[] += 1\nprintln(x[s[]])\n"
    assert main(["check", write(start + "@finch s[] += 2\n")]) == 0
    assert capsys.readouterr() == ("", "")
    path = write(start + "@finch s[] += absent\n")
    assert main(["check", path]) == 1
    assert f"{path}:5:15: unknown name error" in capsys.readouterr().err


def test_check_says_which_kernels_it_did_not_reach(write, capsys) -> None:
    path = write("""\
s = Scalar(0)
x = [5, 6]
@finch s[] += 1
y = x[s[]]
@finch s[] += y
y = 1
@finch s[] += y
if s[] > 1
    @finch s[] += 2
end
""")
    assert main(["check", path]) == 0
    said = "this kernel is not reached without running others"
    assert capsys.readouterr() == ("", f"{path}:5:1: {said}\n{path}:9:5: {said}\n")


def test_check_goes_round_once_and_writes_nothing(write, tmp_path: Path, capsys) -> None:
    path = write(f"""\
n = 0
while n < 3
    n += 1
end
@assert n == 3
A = Tensor(Dense(Element(0.0)), 3)
s = Scalar(0)
while s[] < 10
    @finch s[] += 1
end
fwrite("{tmp_path}/result.npy", A)
""")
    assert main(["check", path]) == 0
    assert capsys.readouterr() == ("", "")
    assert not (tmp_path / "result.npy").exists()


def test_check_notices_what_is_wrong_before_the_first_kernel(write, capsys) -> None:
    assert main(["check", write("x = 1\n@assert x == 2\n")]) == 1
    assert "assertion failed" in capsys.readouterr().err


def test_normalize_shows_programs_that_parse(spmv: str, capsys) -> None:
    assert main(["normalize", spmv]) == 0
    title, *passes = re.split(r"^# (.*)\n", capsys.readouterr().out, flags=re.MULTILINE)[1:]
    assert title == f"kernel at {spmv}:4"
    names, programs = passes[1::2], passes[2::2]
    assert len(names) == len(set(names)) >= 5
    for name, program in zip(names, programs, strict=True):
        assert name.endswith(": the same") == (not program.strip())
        parse_script(program)
    shown = [program for program in programs if program.strip()]
    assert "@freeze(y)" not in shown[0] and "@freeze(y)" in shown[-1]


def test_kernels_are_shown_in_the_order_of_their_first_execution(write, capsys) -> None:
    path = write("""\
s = Scalar(0)
function second()
    @finch s[] += 2
end
for k = 1:3
    @finch s[] += 1
    second()
end
@assert s[] == 9
""")
    for command in LOOKING:
        assert main([command, path]) == 0
        titles = re.findall(
            r"^[#;] kernel (?:\d )?at .*:(\d+)$", capsys.readouterr().out, re.MULTILINE
        )
        assert list(dict.fromkeys(titles)) == ["6", "3"], command


def test_trace_numbers_and_names_the_rules(spmv: str, capsys) -> None:
    assert main(["trace", spmv]) == 0
    rules = re.findall(r"^ *(\d+) (\w+)(?: \[\w = \d+\])?$", capsys.readouterr().out, re.MULTILINE)
    assert [int(number) for number, _ in rules] == list(range(1, len(rules) + 1))
    assert {"Block", "Declare", "Loop", "Unfurl", "Assign", "Freeze"} <= {name for _, name in rules}


def test_trace_shows_the_steps_that_are_asked_for(spmv: str, capsys) -> None:
    def steps(*options: str) -> list[tuple[str, str]]:
        assert main(["trace", *options, spmv]) == 0
        shown = capsys.readouterr().out
        return re.findall(r"^ *(\d+) (\w+)(?: \[.*\])?$", shown, re.MULTILINE)

    all_of = steps()
    assert steps("--steps", "3:5") == all_of[2:5] and steps("--steps", "4") == all_of[3:4]
    assert steps("--steps", ":2") == all_of[:2] and steps("--kernel", "2") == []
    assert steps("--kernel", "1", "--steps", "6:") == all_of[5:]
    assert steps("--steps", f":{len(all_of) + 1}") == all_of
    loops = steps("--rule", "Loop", "--rule", "Access")
    assert loops == [s for s in all_of if s[1] in ("Loop", "Access")] and loops
    assert steps("--staged", "--rule", "Freeze")[0][1] == "Freeze"
    for wrong, told in (("--steps", "is not A:B"), ("--rule", "there is no rule `x`")):
        assert main(["trace", wrong, "x", spmv]) != 0
        assert told in capsys.readouterr().err


@pytest.mark.parametrize("staged", [(), ("--staged",)])
def test_nothing_runs_after_the_last_step_that_is_asked_for(
    staged: tuple[str, ...], write, capsys
) -> None:
    path = write("""\
x = Scalar(0.0)
for k = 1:3
    @finch x[] += 1.0
end
@finch x[] *= 2.0
error("nothing comes here")
""")
    for options, line in (("--steps", ":1"), "3"), (("--kernel", "2", "--steps", ":1"), "5"):
        assert main(["trace", *options, *staged, path]) == 0
        out = capsys.readouterr().out
        assert re.findall(r"^# kernel .*:(\d)", out, re.MULTILINE) == [line], out


def test_trace_at_the_prompt_takes_the_same_options(capsys) -> None:
    conversation = Conversation(lambda own: session.Session(observer=Watching(own)))
    conversation.run("s = Scalar(0); @finch for i = 1:3; s[] += i end", "<test>")
    for options, steps in (("--steps 2:3", ["2", "3"]), ("--staged --rule Loop", ["3"])):
        capsys.readouterr()
        obey(conversation, f":trace {options}")
        shown = capsys.readouterr().out
        assert re.findall(r"^ *(\d+) [A-Z]\w+", shown, re.MULTILINE) == steps, shown
    for wrong in ("--rule X", "--steps 1-2", "--kernels 2"):
        with pytest.raises(FinchError):
            obey(conversation, f":trace {wrong}")


def test_trace_marks_what_changed(spmv: str, capsys) -> None:
    assert main(["trace", "--rule", "Unfurl", "--steps", "1:6", spmv]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    marks = [line.strip()[0] for line in lines]
    assert marks.count("-") == marks.count("+") == 1 and "f" in marks and "e" in marks


@pytest.mark.parametrize("rules", ("all", "paper"))
def test_trace_counts_what_it_shows(rules: str, spmv: str, capsys) -> None:
    assert main(["trace", spmv, "--rules", rules]) == 0
    shown = re.findall(r"^ *\d+ (\w+)(?: \[\w = \d+\])?$", capsys.readouterr().out, re.MULTILINE)
    assert main(["trace", spmv, "--count", "--rules", rules]) == 0
    tables = capsys.readouterr().out.split("\n\n")
    counted = dict(line.split() for line in tables[0].splitlines()[1:])
    total = int(counted.pop("total"))
    assert {name: int(n) for name, n in counted.items()} == {n: shown.count(n) for n in shown}
    assert total == len(shown) > 0
    assert tables[1].startswith("host step") and int(tables[1].split()[-1]) > 0


def test_residual_shows_the_residual_program(spmv: str, capsys) -> None:
    assert main(["residual", spmv]) == 0
    derived = capsys.readouterr().out
    assert re.search(r"^kernel .*\n(.*\n)+end$", derived, re.MULTILINE)
    assert main(["residual", spmv, "--rules", "paper"]) == 0
    paper = capsys.readouterr().out
    assert paper != derived and len(paper) > len(derived)


def test_llvm_and_asm_show_code(spmv: str, capsys) -> None:
    assert main(["llvm", spmv]) == 0
    assert re.search(r"^define .*@", capsys.readouterr().out, re.MULTILINE)
    assert main(["asm", spmv]) == 0
    assert re.search(r"^\s+ret", capsys.readouterr().out, re.MULTILINE)


def test_diff_agrees(spmv: str, capsys) -> None:
    assert main(["diff", spmv]) == 0
    assert main(["diff", spmv, "--tolerance", "0"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and all(name in out for name in ENGINES)


def test_diff_of_a_program_all_find_wrong(write, capsys) -> None:
    path = write("x = absent")
    assert main(["diff", path]) == 1
    out, err = capsys.readouterr()
    assert out == "" and f"{path}:1:5: unknown name error" in err


def test_diff_reports_a_difference(spmv: str, capsys, monkeypatch) -> None:
    class Differs:
        agrees = False
        errors = ()
        report, notes = "native differs", ()

    seen = []
    monkeypatch.setattr(compare, "compare", lambda *a, **k: seen.append((a, k)) or Differs())
    assert main(["diff", spmv, "one", "--tolerance", "0.5", "--seconds", "0"]) == 1
    assert capsys.readouterr().out == "native differs\n"
    options = {"args": ["one"], "ways": ways_of(), "tolerance": 0.5}
    assert seen == [((SPMV, spmv), options)]


# ------------------------------------------------------------------------------------ the process


def test_version_and_help(capsys) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"finchlang {version('finchlang')}\n"
    assert version("finchlang") == finchlang.__version__
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("run", "check", "diff", *LOOKING))


def start(*arguments: str, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "finchlang.repl", *arguments]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, text=True, **(pipes | options))


def test_the_process_itself(spmv: str) -> None:
    process = start("run", spmv)
    assert process.communicate() == ("done\n", "") and process.returncode == 0
    process = start("run", "/")
    out, err = process.communicate()
    assert out == "" and "I/O error" in err and process.returncode == 1


def test_nobody_reads_the_output(write) -> None:
    process = start("run", write("for k = 1:100000\n    println(k)\nend"))
    assert process.stdout is not None and process.stdout.readline() == "1\n"
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr is not None and process.stderr.read() == ""


@pytest.mark.parametrize("closed", (True, False))
def test_output_that_takes_nothing_is_an_error(closed: bool, write) -> None:
    """Standard output is closed, or its disk is full."""
    command = [sys.executable, "-m", "finchlang.repl", "run", write('println("text")')]
    shell = f"{shlex.join(command)} {'>&-' if closed else '> /dev/full'}"
    root = Path(__file__).parent.parent
    done = subprocess.run(shell, shell=True, cwd=root, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "I/O error" in done.stderr and "standard output" in done.stderr
    quiet = [*command[:-1], write("x = 1")]
    assert subprocess.run(f"{shlex.join(quiet)} >&-", shell=True, cwd=root).returncode == 0


# ----------------------------------------------------------------------------- the semantics' steps

UPPER_TRIANGLE = str(Path(__file__).parent.parent / "examples" / "upper_triangle.finch")
#: the rules of Finch'25 Fig 18, in the order of its steps
FIGURE_18 = (
    *("Declare", "Unfurl", "Loop", "Lookup", "Unfurl", "Thunk", "Sequence", "Run", "Simplify"),
    *("StepperSeek", "StepperNext", "Spike", "Simplify", "Assign", "Freeze"),
)


@pytest.mark.parametrize("options", [(), ("--staged",), ("--all",), ("--staged", "--all")])
def test_trace_goes_through_the_steps_of_the_paper(options: tuple[str, ...], capsys) -> None:
    assert main(["trace", "--rules", "paper", *options, UPPER_TRIANGLE]) == 0
    shown = capsys.readouterr().out
    names = iter(re.findall(r"^ *(?:\d+ )?([A-Z]\w+)(?: \[.*\])?(?:: its premise)?$", shown, re.M))
    assert all(name in names for name in FIGURE_18)
    assert bool(re.search(r"^ *\d+ Call$", shown, re.M)) == ("--all" in options)
    assert len(re.findall(r"^ *\d+ Loop \[j = ", shown, re.M)) == (
        1 if "--staged" in options else 4
    )
    residual = re.findall(r"^ *\| (.*)", shown, re.M)
    assert bool(residual) == ("--staged" in options)
    assert not residual or residual[-1] == "end"


def test_rules_lists_the_table(capsys) -> None:
    assert main(["rules"]) == 0
    shown = re.findall(r"^(\d+) (\w+)(?: \(derived\))?$", capsys.readouterr().out, re.M)
    assert [name for _, name in shown] == [rule.name for rule in RULES]
    assert main(["trace", "--rules", "all-Loop", UPPER_TRIANGLE]) == 2
    assert "Loop is no rule that can be left out" in capsys.readouterr().err
