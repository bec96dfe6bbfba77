"""Residuals and traces kept as files: what is left to do of each kernel of `kernels.txt`, one for each rule
of the table and two for each level, and Fig 17's program through the steps of Figs 17 and 18."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from finchlang import Session
from finchlang.calls.runner import KernelEvent, Observer
from finchlang.host.construct import const
from finchlang.host.engine import Applied, EventKind
from finchlang.host.executing import ExecutingHost
from finchlang.host.ir import Const
from finchlang.host.listing import text
from finchlang.host.recording import ResidualHost
from finchlang.repl.live_listing import GrowingHost
from finchlang.repl.trace_printer import changed, shown, spans_of
from finchlang.rules.table import ALL, RULES
from finchlang.syntax.nodes import EMPTY
from finchlang.tensors.formats import LEVELS
from finchlang.testing.compare_engines import compare, ways_of
from finchlang.text.print import pretty

Golden = Callable[[str, str], None]
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Script:
    """A script with one kernel, and the rules it is for."""

    text: str
    rules: str

    @property
    def head(self) -> str:
        """Its functions and the kernel's body."""
        functions = re.findall(r"^function .*?^end\n", self.text, re.MULTILINE | re.DOTALL)
        body = self.text.partition("@finch begin\n")[2].rpartition("\nend\n")[0]
        return "".join(functions) + body


def scripts() -> dict[str, Script]:
    """Those of `kernels.txt`, by the file that has their residual."""
    found = {}
    for part in re.split(r"^== ", (HERE / "kernels.txt").read_text("utf-8"), flags=re.MULTILINE)[
        1:
    ]:
        name, _, body = part.partition("\n")
        name, _, rules = name.partition(" --rules ")
        found[name] = Script(body, rules or "all")
    return found


SCRIPTS = scripts()
UPPER = SCRIPTS["upper_triangle"].text
#: rules whose steps others take with their own: these substitute what a name stands for
TAKEN_BY = {"Variable": ("Define",), "Index": ("Loop",)}


class Watch(Observer):
    """The last kernel of a session, and all that a tracer is told while it is interpreted; iterations
    with the coordinate that they begin at, as a constant."""

    traces = one_by_one = True

    def __init__(self) -> None:
        self.told: list[Applied] = []
        self.host = ExecutingHost()

    def kernel(self, event: KernelEvent) -> None:
        self.event = event

    def rule(self, applied: Applied) -> None:
        at = None if applied.at is None else const(self.host.evaluate(applied.at))
        self.told.append(replace(applied, at=at))


def watched(script: str, rules: str = "all") -> Watch:
    """What is told while a script is interpreted."""
    watch = Watch()
    Session("interpret", rules, observer=watch).run(script)
    return watch


def staged(event: KernelEvent) -> list[Applied]:
    """What a tracer is told while a kernel is staged anew, which must leave the residual as it is: looplets
    do all through the host they are given, and looking at them leaves no trace."""
    host, told, seen = ResidualHost(), list[Applied](), list[str]()

    def tracer(applied: Applied) -> None:
        told.append(applied)
        seen.append(shown(applied.before))

    event.stage(host, tracer)
    assert text(event.compiled.staged.recorded(host)) == text(event.residual)
    return told


@pytest.mark.parametrize("name", SCRIPTS)
def test_residuals(name: str, golden: Golden) -> None:
    """The listing, that what is listed is right, and that a rule's kernel applies it."""
    script = SCRIPTS[name]
    event = watched(script.text, script.rules).event
    listing = text(event.residual)
    folder, _, rest = name.rpartition("/")
    has_head = folder or "function" in script.text
    golden(f"residual/{name}.txt", f"{script.head}\n\n{listing}" if has_head else listing)
    told = staged(event)
    for rule in ALL:
        if folder == "rule" and rest == rule.name:
            steps = TAKEN_BY.get(rule.name) or rule.steps or (rule.name,)
            kind = EventKind.STEP if rule in RULES else EventKind.EXPRESSION
            assert {*steps} <= {applied.name for applied in told if applied.kind == kind}
    found = compare(script.text, ways=ways_of(("denote", "interpret", "residual")))
    assert found.agrees and not found.errors, found.report


def test_every_rule_and_level_has_its_goldens() -> None:
    levels = {kind.__name__ for kind in LEVELS.values()}
    names = {f"level/{name}_{how}" for name in levels for how in ("read", "written")}
    names |= {f"rule/{rule.name}" for rule in ALL}
    files = (HERE / "residual").rglob("*.txt")
    found = {path.relative_to(HERE / "residual").with_suffix("").as_posix() for path in files}
    of_parts = {name for name in found if name.startswith(("rule/", "level/"))}
    assert found == {*SCRIPTS} and of_parts == names


def test_staging_is_deterministic() -> None:
    script = SCRIPTS["spgemm_gustavson"].text
    assert len({text(watched(script).event.residual) for _ in range(2)}) == 1


# ------------------------------------------------------------------------- Finch'25 Figs 17 and 18

NORMALISED = """\
s .= 0
for j = 1:size(A, 2)
    for i = 1:size(A, 1)
        if UpTriMask()[i, j]
            s[] += A[i, j]
        end
    end
end
@freeze(s)"""

#: step of Fig 18: the rule (`its premise:` where what stands above it begins), and what is left
STEPS = [
    (2, "Declare", r"\A\Z"),
    (3, "Unfurl", r"if lookup\(.*\)\[i, j\]\n +s\[\] \+= A\[i, j\]"),
    (3, "Unfurl", r"if lookup\(.*\)\[i, j\]\n +s\[\] \+= lookup\(A@\(j - 1\)\)\[i, j\]"),
    # "We insert a for-loop"
    (4, "Loop", r"\Alet j = J\n(.*\n)+if J < A_size2\n +for j = .*:A_size2"),
    (4, "Lookup", r"if UpTriMaskCol\(J\)\[i\]\n +s\[\] \+= lookup\(A@P\)\[i, J\]"),
    (4, "Lookup", r"if UpTriMaskCol\(J\)\[i\]\n +s\[\] \+= A@P\[i\]"),
    (5, "Unfurl", r"if sequence\(.*\)\[i\]\n +s\[\] \+= A@P\[i\]"),
    (5, "Unfurl", r"if sequence\(.*\)\[i\]\n +s\[\] \+= thunk\(sequence\(.*\)\)\[i\]"),
    (6, "Thunk", r"if sequence\(.*\)\[i\]\n +s\[\] \+= sequence\(.*\)\[i\]"),
    (7, "Sequence, its premise:", r"if sequence\(.*\)\[i\]"),
    (7, "Phase", r"for i = \S+:stop_\d\n +if run\(true\)\[i\]"),
    (8, "Run", r"if true\n"),
    (9, "Simplify (decided sieve)", r"\Afor i = \S+:stop_\d\n +s\[\] \+= sequence\(.*\)\[i\]\nend"),
    (10, "StepperSeek", r"s\[\] \+= stepper\(.*\)\[i\]"),
    (10, "StepperNext, its premise:", r"\Afor i = I:stop_\d\n +s\[\] \+= stepper"),
    (11, "Thunk", r"for i = I:stop_\d\n +s\[\] \+= spike\(.*\)\[i\]"),
    (11, "Spike", r"\[\] \+= run\(.*\)\[i\]\nend\n(.*\n)*.*s\[\] \+= spike\(.*\)\[i\]"),
    (11, "Run", r"for i = I:\(stop_\d - 1\)\n +s\[\] \+= 0.0"),
    # adding 0 does nothing
    (12, "Simplify (identity update)", r"\Afor i = I:\(stop_\d - 1\)\nend\Z"),
    (12, "Simplify (empty body)", r"\A\Z"),
    (11, "Spike", r"\Afor i = stop_\d:stop_\d\n +s\[\] \+= A_val\[q_\d\]"),
    (12, "Simplify (decided sieve)", r"\As\[\] \+= A_val\[q_\d\]\Z"),
    (12, "Assign", r"\A\Z"),  # the spike's end: A.lvl.lvl.val[q] is added
    (10, "StepperNext", r"\Afor i = \(stop_\d \+ 1\):stop_\d\n"),
    (7, "Sequence", r"\[i\]"),
    (8, "Run", r"if false\n"),
    (9, "Simplify (decided sieve)", r"\Afor i = \S+:A_size1\nend\Z"),
    (9, "Simplify (empty body)", r"\A\Z"),  # the part below the diagonal is gone
    (13, "Freeze", r"\A\Z"),
]
#: what stands for a column, its position and a row: interpreted it is the second column
NAMES = {
    "J": (r"j_\d", "j_1"),
    "P": (r"\(j_\d - 1\)", r"\(j_1 - 1\)"),
    "I": (r"(?:\d+|at_\d)", r"at_\d"),
}


def lines_of(told: list[Applied]) -> str:
    """A trace for people."""
    lines = []
    for applied in told:
        if applied.kind == EventKind.STEP:
            pad = "  " * (applied.depth - 1)
            lines.append(f"{pad}{applied.name} {applied.law}".rstrip())
            lines.extend(f"{pad}  | {line}" for line in shown(applied.after).splitlines())
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def upper() -> Watch:
    return watched(UPPER, "paper")


def test_the_upper_triangle_is_normalised_as_in_figure_17(upper: Watch, golden: Golden) -> None:
    passes = [("input", upper.event.source.program), *upper.event.passes]
    texts = [(name, pretty(program)) for name, program in passes]
    new = [texts[0], *(two for one, two in itertools.pairwise(texts) if one[1] != two[1])]
    assert new[-1][1] == NORMALISED
    golden("trace/figure_17.txt", "\n\n".join(f"{name}\n{text}" for name, text in new) + "\n")


@pytest.mark.parametrize("is_staged", [False, True])
def test_the_upper_triangle_goes_through_the_steps_of_figure_18(
    is_staged: bool, upper: Watch, golden: Golden
) -> None:
    """Interpreted it does so for each column; staged once, with what the steps add to the residual."""
    grown, told = list[str](), list[tuple[str, str, list[str]]]()

    def tell(applied: Applied) -> None:
        if applied.kind != EventKind.EXPRESSION:
            law = f" ({applied.law})" * bool(applied.law)
            premise = ", its premise:" * (applied.kind == EventKind.PREMISE)
            told.append((applied.name + law + premise, shown(applied.after), []))
        told[-1][2].extend(grown)
        grown.clear()

    if is_staged:
        upper.event.stage(GrowingHost(grown.append), tell)
    else:
        for applied in upper.told:
            tell(applied)
    rest, lines = iter(told), [f"step 1: normalisation\n{NORMALISED}"]
    for step, name, after in STEPS:
        pattern, more = re.sub(r"\b[JPI]\b", lambda n: NAMES[n[0]][is_staged], after), list[str]()
        for found, term, added in rest:
            more += [f"| {line}" for line in added]
            if found == name and re.search(pattern, term):
                break
        else:
            raise AssertionError(f"step {step}: {name} giving {after}")
        lines.append("\n".join([f"step {step}: {name}", *filter(None, [term]), *more]))
    assert next(rest, None) is None  # Freeze is the last
    golden(f"trace/figure_18{'_staged' * is_staged}.txt", "\n\n".join(lines) + "\n")


def test_traces_of_the_upper_triangle(upper: Watch, golden: Golden) -> None:
    golden("trace/upper_triangle.txt", lines_of(upper.told))
    golden("trace/upper_triangle_derived.txt", lines_of(watched(UPPER).told))


# ------------------------------------------------------------------------------- steps and premises


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("rules", ["all", "paper"])
def test_premises_come_before_conclusions(name: str, rules: str) -> None:
    """What is told deeper belongs to the next step that is less deep; every announced premise is
    followed by its step, and of two steps of one run the second begins with what the first left."""
    announced: list[tuple[str, int]] = []
    left: dict[int, Any] = {}
    for applied in watched(SCRIPTS[name].text, rules).told:
        if applied.kind == EventKind.EXPRESSION:
            assert applied.depth > 1
        elif applied.kind == EventKind.PREMISE:
            announced.append((applied.name, applied.depth))
        else:
            if announced and (applied.name, applied.depth) == announced[-1]:
                announced.pop()
            assert not announced or applied.depth > announced[-1][1]
            before = left.get(applied.depth)
            if applied.at is None and before is not None and before != EMPTY:
                assert applied.before == before, applied.name
            left[applied.depth] = applied.after
            left = {depth: term for depth, term in left.items() if depth <= applied.depth}
            if applied.at is not None:  # the loop in hand goes on at its own depth
                del left[applied.depth]
    assert not announced


def started(told: list[Applied], name: str) -> list[int]:
    """Where the iterations of a rule began."""
    steps = [a.at for a in told if a.name == name and a.kind == EventKind.STEP]
    return [at.value for at in steps if isinstance(at, Const)]


def test_there_is_a_loop_for_each_iteration_and_a_stepper_next_for_each_step() -> None:
    script = "x = Tensor(SparseList(Element(0.0)), [0.0, 1, 0, 0, 1, 1, 0, 0, 0]); d = ones(4)\n"
    script += "s = Scalar(0.0)\n@finch "
    told = watched(f"{script} for j = _, i = _; s[] += d[j] * x[i] end", "paper").told
    assert started(told, "Loop") == [1, 2, 3, 4]
    assert started(told, "StepperNext") == [1, 3, 6] * 4
    told = watched(f"{script} for i = 3:2; s[] += i end", "paper").told
    assert started(told, "Loop") == []


def test_expressions_are_told_apart_and_what_a_loop_leaves_step_by_step(upper: Watch) -> None:
    told = Counter(a.name for a in upper.told if a.kind == EventKind.EXPRESSION)
    assert told.keys() == {"Literal", "Value", "Call"}
    at = [k for k, a in enumerate(upper.told) if a.name == "Loop"]
    assert len(at) == 2 and all(upper.told[k + 1].law == "known variable" for k in at)
    deep = upper.told[at[0]].depth
    names = [a.name for a in upper.told if a.depth == deep and a.kind == EventKind.STEP]
    assert names == [
        "Declare",
        "Extent",
        "Unfurl",
        "Unfurl",
        "Loop",
        "Block",
        "SieveTrue",
        "Loop",
        "Block",
        "SieveFalse",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_residual_grows_to_what_it_is(name: str) -> None:
    """The lines told while staging are the residual program, whatever it is made of."""

    def without_numbers(lines: list[str]) -> list[str]:
        return [
            re.sub(r"(_\d+)+\b", "", line) for line in lines
        ]  # a listing numbers in its own way

    for rules in ("all", "paper"):
        event = watched(SCRIPTS[name].text, rules).event
        grown, seen = list[str](), list[str]()
        event.stage(GrowingHost(grown.append), lambda a, to=seen: to.append(shown(a.after)))
        body = text(event.residual).splitlines()[1:-1]
        lines = [line[4:] for line in body if not line.startswith("    return")]
        assert without_numbers(grown) == without_numbers(lines)
        assert seen and not any(re.search(r"value=|(?<!\[)\.\.\.", term) for term in seen)


def test_what_a_step_replaced_is_known_with_its_place() -> None:
    script = "y = Tensor(SparseList(Element(0.0)), [0.0, 2.0]); s = Scalar(0.0)\n"
    event = watched(script + "@finch begin\ns .= 0\nfor i = _\ns[] += y[i]\nend\nend").event
    places = {
        a.name: [span.text for node in changed(a.before, a.after) for span in spans_of(node)]
        for a in staged(event)
    }
    assert places["Unfurl"] == places["Thunk"] == ["y[i]"]
    assert places["Assign"] == ["s[] += y[i]"] and places["Declare"] == ["s .= 0"]
