"""`finch fmt`: the same program in the usual way of writing, whatever way it came in."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from strategies import scripts

from finchlang.repl.__main__ import main
from finchlang.source import FinchError
from finchlang.text.format import formatted
from finchlang.text.parse import parse_script
from finchlang.text.print import pretty

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.finch"))
#: every sixth of many
PROGRAMS = [*EXAMPLES, *sorted((ROOT / "tests/programs").rglob("*.finch"))[::6]]
COMMENT = re.compile(r"#[^\n]*")


def check(text: str, name: str = "<input>") -> str:
    """`text` formatted: the same program and comments; doing it again changes nothing."""
    done = formatted(text, name)
    assert parse_script(done, name) == parse_script(text, name)
    assert formatted(done, name) == done
    comments = [[c.rstrip() for c in COMMENT.findall(t)] for t in (text, done)]
    assert comments[0] == comments[1] or "#=" in text, name
    return done


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_programs_stay_what_they_are(path: Path) -> None:
    text = path.read_text("utf-8")
    try:
        parse_script(text, path.name)
    except FinchError:
        return
    done = check(text, path.name)
    if "#=" not in text and not re.search(r'"[^"\n]*\n[^"\n]*"', text):
        assert check(re.sub(r"\n[ \t]+", "\n", text), path.name) == done


def test_examples_are_formatted(capsys) -> None:
    assert main(["fmt", "--check", *map(str, EXAMPLES)]) == 0
    assert capsys.readouterr().out == ""


@settings(max_examples=8, deadline=None)
@given(scripts())
def test_generated_programs_stay_what_they_are(program) -> None:
    text = pretty(program)
    done = check(text)
    assert parse_script(done) == program
    if "\n" not in "".join(re.findall(r'"[^"]*"', text)):
        assert done == text.rstrip("\n") + "\n" * bool(text)  # the printer's ways are ours


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("x=1", "x = 1\n"),
        ("x = a+b * c", "x = a+b * c\n"),
        ("x = a +b", "x = a + b\n"),
        ("x = [1 -2; a - b c]", "x = [1 -2; a - b c]\n"),
        ("f( a ;k=1 , l = 2 )", "f(a; k=1, l = 2)\n"),
        ("x = c?a:b", "x = c ? a : b\n"),
        ("x = A[:,1:n+1]", "x = A[:, 1:n+1]\n"),
        ("x = + 3", "x = +3\n"),
        ("x = - y ^ 2", "x = -y ^ 2\n"),
        ("x=1 ;;y=2;\n", "x = 1; y = 2;\n"),
        ("\n\nx = 1\n\n\n\ny = 2\n\n", "x = 1\n\ny = 2\n"),
        ("x = f(a,\nb)", "x = f(a,\n      b)\n"),
        ("x = f(\na,\nb\n)", "x = f(\n    a,\n    b\n)\n"),
        ("x = [1 2\n3   4]", "x = [1 2\n     3   4]\n"),
        ("x = a +\nb", "x = a +\n    b\n"),
        ("x = 1 # one\n", "x = 1  # one\n"),
        ("#!/usr/bin/finch\n#=a\n  #=b=#\n=# x=#= c =#1",
         "#!/usr/bin/finch\n#=a\n  #=b=#\n=# x = #= c =# 1\n"),
        ("if a\n# yes\nb\n# no\nelse\nc\n# end\nend", "if a\n    # yes\n    b\n    # no\nelse\n"
         "    c\n    # end\nend\n"),
        ("@finch begin\nfor j=_,i=_\ny[i]+=A[i,j]\nend end", "@finch begin\n    for j = _, i = _\n"
         "        y[i] += A[i, j]\n    end end\n"),
        ("@finch let a=1,\nb=2\nx[]=a*b\nend", None),
        ("@finch (a[] = 1 ;b[]=2)", "@finch (a[] = 1; b[] = 2)\n"),
        ("x = @mode( A )", "x = @mode(A)\n"),
        ('s = "a  $( 1+1 )\n   b"', 's = "a  $( 1+1 )\n   b"\n'),
        ("", ""),
        ("# nothing else", "# nothing else\n"),
        ("x = 1\r\ny = 2\r\n", "x = 1\ny = 2\n"),
    ],
)  # fmt: skip
def test_ways_of_writing(text: str, done: str | None) -> None:
    found = check(text)
    assert done is None or found == done


def test_what_is_too_deep_to_be_run_is_formatted() -> None:
    """A sum of 20,000 terms, which nests as deep, and one that is wrong at its end."""
    terms = [f"x[{k}]" for k in range(20_000)]
    assert formatted("y=" + "+ ".join(terms)) == "y = " + " + ".join(terms) + "\n"
    with pytest.raises(FinchError) as caught:
        formatted("y=" + "+ ".join(terms) + " +")
    assert caught.value.kind == "syntax"


def test_the_command(tmp_path: Path, capsys, monkeypatch) -> None:
    good, bad, wrong = (tmp_path / f"{name}.finch" for name in ("good", "bad", "wrong"))
    good.write_text("x = 1\n")
    bad.write_text("x=1")
    wrong.write_text("x = (")
    files = list(map(str, (good, bad, wrong)))
    stamp = good.stat().st_mtime_ns
    assert main(["fmt", "--check", *files]) == 1
    out, err = capsys.readouterr()
    assert out == f"{bad}\n" and "wrong.finch:1:5" in err and bad.read_text() == "x=1"
    assert main(["fmt", *files[:2]]) == 0 and main(["fmt", *files]) == 1
    assert (bad.read_text(), wrong.read_text()) == ("x = 1\n", "x = (")
    assert good.stat().st_mtime_ns == stamp
    monkeypatch.setattr("sys.stdin", io.StringIO("y=2"))
    capsys.readouterr()
    assert main(["fmt", "-"]) == 0
    assert capsys.readouterr().out == "y = 2\n"
