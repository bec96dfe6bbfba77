"""What is broken on purpose is seen, and the report names the part: operators have an oracle of their
own, and what the semantics that differ do not share is to blame."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from finchlang.algebra import simplify
from finchlang.base.errors import Bug, FinchError
from finchlang.calls import staging
from finchlang.denote import numpy_operators as denoted
from finchlang.host import primitives
from finchlang.host.engine import Rule
from finchlang.host.executing import ExecutingHost
from finchlang.host.ir import Op
from finchlang.host.recording import ResidualHost
from finchlang.native import emit_ops, jit
from finchlang.normalize import pass_list
from finchlang.operators.build import arithmetic
from finchlang.operators.operator_table import OPERATORS, law
from finchlang.repl.__main__ import main
from finchlang.rules import table
from finchlang.syntax.nodes import Node, Variable
from finchlang.syntax.traversal import map_children
from finchlang.testing import apart as apart_module, fuzz as fuzz_module
from finchlang.testing.apart import DIED, DONE, HUNG, Apart, Comparer
from finchlang.testing.blame import Blame, blame
from finchlang.testing.compare_engines import Comparison, compare, suspects, ways_of
from finchlang.testing.compare_stored import same
from finchlang.testing.fuzz import small_text
from finchlang.testing.reduce import reduce
from finchlang.testing.replay import way_of

PROGRAM = """
A = Tensor(SparseList(Element(0.0)), [0.0, 2.0, 0.0, -3.0])
P = [3, 1, 4, 2]
B = Tensor(SparseHash(Element(0.0)), 4)
x = [1.0, 5.0, -2.0, 4.0]
y = zeros(4)
@finch begin
    B .= 0
    for i = _
        B[P[i]] += max(A[i], x[i])
    end
    y .= 0
    for i = _
        y[i] = B[i] - min(A[i], 1.0)
    end
end
"""

Patch = pytest.MonkeyPatch


def _max_is_min_in_the_table(patch: Patch) -> None:
    row = replace(OPERATORS["max"], build=arithmetic("min", bools=True))
    patch.setitem(OPERATORS, "max", row)


def _max_has_a_wrong_annihilator(patch: Patch) -> None:
    patch.setitem(OPERATORS, "max", replace(OPERATORS["max"], annihilators=(law(0),)))


def _max_is_min_in_the_denotation(patch: Patch) -> None:
    patch.setitem(denoted.MEANINGS, ("max", 2), lambda a, b: np.minimum(a, b))


def _nothing_is_sorted_when_staged(patch: Patch) -> None:
    patch.setattr(ResidualHost, "sort", lambda host, buffer, start, stop: None)


def _max_is_min_natively(patch: Patch) -> None:
    def swapped(body: Any, op: Any, args: list[str]) -> str:
        return emit_ops._extremum(body, SimpleNamespace(name="min", type=op.type), args)

    patch.setitem(emit_ops._EMITTERS, "max", swapped)


def _max_is_min_where_it_is_executed(patch: Patch) -> None:
    patch.setattr(ExecutingHost, "compute", _min_for_max)


def _min_for_max(host: ExecutingHost, op: Op, args: list[Any]) -> Any:
    name = "min" if op.name == "max" else op.name
    return primitives.function_of(name, op.type, op.args[0].type)(*args)


SHARED = {"normalisation", "the operator table", "the rules"}
WRITES = r"Assign, writes \w+\["
#: a fault, the parts that may be to blame for what differs, and the first step at which semantics part, if
#: that is to be told with the one part
FAULTS: dict[str, tuple[Callable[[Patch], None], set[str], str]] = {
    "max is min in the table": (_max_is_min_in_the_table, {"the denotation", *SHARED}, ""),
    "a wrong annihilator": (_max_has_a_wrong_annihilator, {"the denotation", *SHARED}, ""),
    "max is min by NumPy": (_max_is_min_in_the_denotation, {"the denotation", *SHARED}, ""),
    "nothing is sorted": (_nothing_is_sorted_when_staged, {"staging"}, "the residual: "),
    "max is min natively": (_max_is_min_natively, {"native code"}, WRITES),
    "max is min executed": (_max_is_min_where_it_is_executed, {"the executing host"}, WRITES),
}


@pytest.fixture
def forgetful(monkeypatch: Patch, nothing_staged: None) -> Iterator[None]:
    """No cached or staged kernel, and no term remembered as simple."""
    monkeypatch.setenv("FINCH_CACHE_DIR", "")
    simplify._simple.clear()
    yield
    simplify._simple.clear()


def blamed(report: str) -> set[str]:
    return set(report.partition("(look at ")[2].partition(")")[0].split(" or "))


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_seen_and_blamed(name: str, monkeypatch: Patch, forgetful: None) -> None:
    plant, parts, step = FAULTS[name]
    plant(monkeypatch)
    found = compare(PROGRAM)
    assert not found.agrees
    told = [blamed(line) for line in found.differences if "(look at" in line]
    assert told and all(named == parts for named in told), found.report
    if step:
        why = blame(PROGRAM, ways_of())
        assert {why.part} == parts
        assert re.search(rf"^kernel at line 7: step \d+, .*{step}", why.step), why


def test_without_a_fault_there_is_nothing_to_blame(forgetful: None) -> None:
    assert compare(PROGRAM).agrees


def test_a_difference_is_reduced(monkeypatch: Patch, forgetful: None) -> None:
    _max_is_min_natively(monkeypatch)
    ways = ways_of(("residual", "native"))
    small = reduce(PROGRAM, lambda text: not compare(text, ways=ways).agrees, 600)
    assert len(small.splitlines()) <= 6 and "max" in small and not compare(small, ways=ways).agrees


def test_what_differs_is_saved_and_replayed(
    monkeypatch: Patch, forgetful: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, saved = tmp_path / "program.finch", tmp_path / "saved.finch"
    program.write_text(PROGRAM, "utf-8")
    with monkeypatch.context() as patch:
        _max_is_min_natively(patch)
        command = ["diff", str(program), "--engines", "interpret,native", "--save", str(saved)]
        assert main(command) == 1
        assert main(["replay", str(saved)]) == 1
        assert "(look at" in capsys.readouterr().out
    assert "# replay: interpret\n# replay: native\n# found: " in saved.read_text("utf-8")
    assert main(["replay", str(saved), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agrees"]


@pytest.mark.parametrize(
    "line", ["interpret", "native --rules=paper --no-workspaces --checked --threads=2"]
)
def test_a_way_is_read_as_it_is_written(line: str) -> None:
    assert str(way_of(line)) == line


@pytest.mark.parametrize("line", ["", "fast", "native --quick", "native --threads=none"])
def test_what_is_no_way_is_an_error(line: str) -> None:
    with pytest.raises(FinchError, match="says no way to run"):
        way_of(line)


def test_a_bug_is_a_difference_whoever_else_has_it(monkeypatch: Patch, forgetful: None) -> None:
    def broken(*args: Any) -> None:
        raise Bug("on purpose")

    monkeypatch.setattr(ResidualHost, "sort", broken)
    found = compare(PROGRAM, ways=ways_of(("residual", "native")))
    assert [line.partition(":")[0] for line in found.differences] == [
        "residual breaks",
        "native breaks",
    ]


@pytest.mark.parametrize(
    ("groups", "parts"),
    [
        ([("denote",), ("interpret", "residual", "native")], {"the denotation", *SHARED}),
        ([("denote", "interpret"), ("residual", "native")], {"staging"}),
        ([("denote", "interpret", "residual"), ("native",)], {"native code"}),
        ([("denote", "native"), ("interpret", "residual")], {"the executing host"}),
        ([("denote", "residual", "native"), ("interpret",)], {"the executing host"}),
        ([("denote",), ("interpret",), ("residual",), ("native",)], SHARED),
        ([("interpret",), ("native",)], {"staging", "native code", "the executing host"}),
    ],
)
def test_suspects(groups: list[tuple[str, ...]], parts: set[str]) -> None:
    assert set(suspects(groups)) == parts


def test_statements_and_sizes_are_reduced() -> None:
    """Uses go before what they use, and sizes at once with indices that are within them."""

    def differs(text: str) -> bool:
        known = set(re.findall(r"^(\w+) = ", text, re.MULTILINE))
        size, at = (re.search(before + r"(\d+)", text) for before in ("n = ", r"y\["))
        is_within = size is not None and at is not None and int(at[1]) <= int(size[1])
        return is_within and known >= set(re.findall(r"= (v\d+)", text))

    rest = "".join(f"v{k} = zeros(n)\nw{k} = v{k}\n" for k in range(20))
    assert reduce(f"n = 1009\n{rest}y = zeros(n)\ny[700] = NaN\n", differs) == "n = 0\ny[0]"


def test_a_call_on_no_entries_is_reduced() -> None:
    assert (
        reduce("x = fsparse([], [], (3,))\ny = 1", lambda text: "fsparse" in text, 10) == "fsparse"
    )


def test_an_order_that_a_format_does_not_take_is_no_difference() -> None:
    """The denotation, which knows no formats, runs such a program."""
    text = "A = [1 2; 3 4]; C = Tensor(Dense(SparseList(Element(0))), 2, 2)\n"
    text += "@finch begin; C .= 0; for j = _, i = _; C[j, i] = A[i, j] end end"
    found = compare(text, ways=ways_of(workspaces=False))
    assert found.agrees and found.errors["native"].kind == "access order"
    assert compare(text).agrees and not compare(text).errors


@pytest.mark.parametrize("place, kind", [("i", None), ("A[i] + 1", "bounds")])
def test_code_that_is_too_long_is_no_difference(
    place: str, kind: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interpreter needs none; it stores what the code would, and tells its errors."""
    monkeypatch.setattr(staging, "LEAST", 3)
    monkeypatch.setattr(staging, "EACH", 0)
    text = "A = [1, 2]; C = Tensor(Interleaved(Element(0)), 2)\n"
    found = compare(text + f"@finch begin C .= 0; for i = 1:2; C[i] += A[{place}] - A[i] end end")
    assert found.agrees and found.allowed == {"code that is too long": 2}
    assert {e.kind for e in found.errors.values()} == ({kind} if kind else set())


def test_a_batch_that_cannot_be_merged_is_no_difference() -> None:
    """Two statements that overwrite have no operator by which a full batch of a workspace is merged."""
    text = "C = Tensor(Workspace{2, 1}(Element(0)))"
    found = compare(text + "; @finch for i = 1:0; C[0, 0] = 1; C[0, 0] = 2 end")
    assert found.agrees and found.errors["native"].kind == "type"
    assert found.allowed == {"a format that would have to merge what is written": 1}


@pytest.mark.parametrize("places, is_forgotten", [("7, 8", False), ("2, 8", False), ("2, 8", True)])
def test_a_place_out_of_range_may_be_told_if_it_is_not_needed(
    places: str, is_forgotten: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is needed of two fibers without entries; of an element beside one that is stored, it is."""
    stored = "[0.0 3.0]" if is_forgotten else "[0.0 0.0]"
    text = f"A = Tensor(SparseList(SparseList(Element(0.0))), {stored}); I = [{places}]; y = [0.0, 0.0]\n"
    text += "@finch for i = _, j = _; y[i] += A[j, I[i]] end"
    if is_forgotten:
        monkeypatch.setattr("finchlang.rules.base.loops._check_range", lambda *given: None)
    with Comparer(60) as apart:
        found = apart.compare(text, ways_of(("denote", "interpret")))
    assert found.agrees is not is_forgotten
    assert found.allowed == ({} if is_forgotten else {"a place out of range that is not needed": 1})


@pytest.mark.parametrize("condition", ["i > 2", "A[i, 1] > 5"])
def test_a_place_that_is_a_literal_may_be_told_under_conditions(condition: str) -> None:
    text = "A = [0 3.0; 1.0 2.0]; s = Scalar(0.0)\n"
    found = compare(text + f"@finch for i = 1:2; if {condition}; s[] += A[i, 0] end end")
    assert found.agrees and found.allowed == {"a place out of range that is not needed": 1}


# -------------------------------------------------------------------------------- in another process


def _does(task: str, tell: Callable[[str], None]) -> str:
    tell("begun")
    if task == "dies":
        os.kill(os.getpid(), signal.SIGSEGV)
    while task == "hangs":
        time.sleep(1)
    while task == "works on":
        pass
    if task == "fails":
        raise FinchError("type", "on purpose")
    return task


@pytest.mark.parametrize("used", [[5.0, 5.5, 6.5, 8.0], [5.0, 5.5, 5.5, 5.5]])
def test_a_process_that_waits_for_a_processor_gets_more_time(
    used: list[float], monkeypatch: Patch
) -> None:
    uses, clock = iter(used), count(0.0, 0.9)
    monkeypatch.setattr(apart_module, "processor_time", lambda _: next(uses))
    monkeypatch.setattr(apart_module.time, "monotonic", lambda: next(clock))
    limit = apart_module.Limit(1)
    assert [limit.is_over(2.0) for _ in range(3)] == [False, False, True]


def test_work_that_dies_or_hangs_is_an_answer() -> None:
    apart = Apart(_does)
    assert apart.call("ends", 60) == (DONE, "ends")
    assert apart.call("dies", 60) == (DIED, "the process ended with SIGSEGV")
    assert apart.told == ["begun"]
    assert apart.call("hangs", 0.2) == (HUNG, "no end after 0.2 s")
    assert apart.call("works on", 0.2) == (HUNG, "no end after 0.2 s")
    with pytest.raises(FinchError, match="on purpose"):
        apart.call("fails", 60)
    assert apart.call("ends", 60) == (DONE, "ends")
    apart.end()


@pytest.mark.parametrize(("fault", "said"), [("dies", "SIGSEGV"), ("hangs", "no end after 10 s")])
def test_an_engine_that_dies_or_hangs_differs(fault: str, said: str, monkeypatch: Patch) -> None:
    def broken(*_: Any) -> Any:
        return _does(fault, lambda _: None)

    monkeypatch.setattr(jit, "compile_residual", broken)
    monkeypatch.setattr(staging, "compile_residual", broken)
    with Comparer(10) as apart:
        found = apart.compare(PROGRAM)
        assert found.differences and said in found.differences[0]
        assert found.differences[0].startswith("native: ")
        assert apart.compare(PROGRAM, ways_of(("interpret", "residual"))).agrees
        if fault == "hangs":
            with pytest.raises(FinchError, match="native: no end"):
                apart.compare(PROGRAM, ways_of(("native",)))


def test_a_smaller_text_without_an_end_is_given_up(monkeypatch: Patch) -> None:
    """It takes a few seconds of those for reducing, not as long as a comparison may take."""
    text, limits = "x = 0\nwhile x < 3\nx += 1\nend", list[float]()

    def called(self: Comparer, task: Any, seconds: float, end: float) -> tuple[str, Any]:
        limits.append(seconds)
        if "x += 1" not in task[0]:
            return HUNG, "no end"
        found = Comparison(("native",))
        found.differ("native: corrupt", "corrupt", "native")
        return DONE, found

    monkeypatch.setattr(Comparer, "call", called)
    monkeypatch.setattr(fuzz_module, "blame", lambda *_: Blame(("why",)))
    with Comparer(300) as apart:
        small, why = small_text(text, ways_of(("native",)), 60, apart)
    assert small == "x += 1" and str(why) == "why"
    assert limits[0] == 300 and {*limits[1:]} == {fuzz_module.LEAST}


def test_when_there_is_no_time_left_nothing_is_compared() -> None:
    one = ways_of(("interpret",))
    with Comparer(300) as apart:
        with apart.within(60, 0.2), pytest.raises(FinchError, match="no end after 0.2 s"):
            apart.compare("while true; end", one)
        with apart.within(0), pytest.raises(FinchError, match="no time left"):
            apart.compare("x = 1", one)
        assert apart.compare("x = 1", one).agrees


def test_the_reducer_keeps_to_the_fault(monkeypatch: Patch, forgetful: None) -> None:
    """Of two faults it keeps the one that was there, though the other is reached by a shorter text."""

    def broken(*args: Any) -> None:
        raise Bug("on purpose")

    _max_is_min_natively(monkeypatch)
    monkeypatch.setattr(ResidualHost, "sort_bits", broken)
    ways = ways_of(("residual", "native"))
    found = compare(PROGRAM, ways=ways)
    assert not compare("y = absent", ways=ways).shows(found)
    small = reduce(PROGRAM, lambda text: compare(text, ways=ways).shows(found), 600)
    assert compare(small, ways=ways).faults == found.faults and "max" in small


@pytest.mark.parametrize("value, is_same", [("i + j", True), ("i + 2j", False), ("i * j", False)])
def test_what_no_dense_array_can_hold_is_compared_by_entries(value: str, is_same: bool) -> None:
    """The denotation, which has no memory for it, is left out."""
    text = "A = Tensor(SparseList(SparseList(Element(0.0))), 2^32, 2^32)\n@finch begin\nA .= 0\n"
    text += "for j = 3:5, i = 7:7\nA[i, j] = {}\nend\nend"
    one, other = compare(text.format("i + j")), compare(text.format(value))
    assert one.agrees and one.allowed["a tensor that is too large to be dense"] == 1
    assert same(one.results["native"]["A"], other.results["native"]["A"], 1e-9) is is_same


# ------------------------------------------------------------------------------------ what is to blame


def test_a_pass_is_named(monkeypatch: Patch, forgetful: None) -> None:
    def swapped(node: Node) -> Node:
        return Variable("min") if node == Variable("max") else map_children(swapped, node)

    (name, first, says), *others = pass_list.PASSES
    passes = ((name, lambda program, context: swapped(first(program, context)), says), *others)
    monkeypatch.setattr(pass_list, "PASSES", passes)
    assert blame(PROGRAM, ways_of()).part == f"normalisation: {name}"


def test_a_derived_rule_is_named(monkeypatch: Patch, forgetful: None) -> None:
    """Whichever it is that reads two lists: it does so twice."""
    text = "".join(f"{n} = Tensor(SparseList(Element(0)), [0, 2, 0, 3])\n" for n in "AB")
    text += "s = Scalar(0)\n@finch for i = _; s[] += A[i] + B[i] end"

    def broken(rule: Rule) -> Rule:
        def twice(*args: Any) -> Any:
            return rule.apply(*args) and rule.apply(*args)

        return Rule(rule.name, twice, rule.is_derived, rule.steps)

    for name in sorted(rule.name for rule in table.RULES if rule.is_derived):
        rules = tuple(broken(r) if r.name == name else r for r in table.RULES)
        with monkeypatch.context() as patch:
            patch.setattr(table, "RULES", rules)
            if not compare(text, ways=ways_of(("denote", "interpret"))).agrees:
                found = blame(text, ways_of(("denote", "interpret", "residual")))
                assert found.part == f"the derived rule {name}" and f"all-{name}" in found.rules
                return
    raise AssertionError("no derived rule is applied")
