"""`finch bench` where times tell, and `finch run --watch`; its tables are in `transcripts/bench.txt`."""

from __future__ import annotations

import re
from pathlib import Path

from finchlang.repl.__main__ import main


def test_a_saved_file_is_run_again_until_an_interrupt(tmp_path: Path, capsys, monkeypatch) -> None:
    script = tmp_path / "script.finch"
    script.write_text("println(1)")
    texts = ["println(1)", 'println("two")', "println(1"]

    def save(_: float) -> None:
        if not texts:
            raise KeyboardInterrupt
        script.write_text(texts.pop(0))

    monkeypatch.setattr("time.sleep", save)
    assert main(["run", str(script), "--watch"]) == 1
    shown = capsys.readouterr()
    assert shown.out.split()[0] == "1" and shown.out.split()[-1] == "two"
    assert "has changed" in shown.err and "syntax error" in shown.err


def test_time_is_told_where_it_is_spent(tmp_path: Path, capsys) -> None:
    """The inner loop of 200,000 rounds takes more than the other one of 2."""
    path = tmp_path / "two.finch"
    path.write_text(
        "x = rand(200000); y = zeros(200000); s = Scalar(0.0)\n"
        "@finch begin\n"
        "    for j = 1:2\n"
        "        for i = _; y[i] += sqrt(x[i]) * j end\n"
        "    end\n"
        "    for k = 1:2; s[] += k end\n"
        "end\n"
    )
    assert main(["bench", str(path), "--seconds", "0.001", "--profile"]) == 0
    said = capsys.readouterr().out
    shares = {line: int(s) for line, s in re.findall(r"^(\d) +for \w +(\d+)% .*\d$", said, re.M)}
    assert shares["4"] == max(shares.values()) and {*shares} >= {"3", "4", "6"}
