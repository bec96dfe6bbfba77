"""The contract of rules: the table has the order of Fig 15, and each rule states itself; what a base rule
relies on is asked (Fig 14), so that a program without the passes that breaks it is stuck, and says where;
with each derived rule and without it the results, errors and entries are the same, in no more steps, and
something is gained on what it is for. A new rule is tested by being listed in the table."""

from __future__ import annotations

import ast
import copy
import itertools
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import finchlang
from finchlang import Session
from finchlang.algebra.expression_types import annotate
from finchlang.algebra.simplify import with_fills
from finchlang.base.errors import Bug, FinchError
from finchlang.calls.arguments import ARRAYS, COUNTERS, SHAPE, describe
from finchlang.calls.kernel import SpecializedKernel
from finchlang.calls.runner import KernelEvent, Observer
from finchlang.functions.unit_rules import ALL
from finchlang.host.engine import Machine, Stuck
from finchlang.host.executing import ExecutingHost
from finchlang.host.interface import Host
from finchlang.host.listing import text as listing
from finchlang.host.recording import ResidualHost
from finchlang.operators.operator_table import OPERATORS
from finchlang.rules.base.state import State
from finchlang.rules.table import OPTIONAL, RULES, rules
from finchlang.syntax.nodes import EMPTY, Block, Extent, Index, Literal, Loop, Sieve
from finchlang.tensors.bind import bind
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.text.parse import parse_kernel
from tests.programs.program import PROGRAMS

# --------------------------------------------------------------------------------------- the table

#: Fig 15's order, in the paper's words, with Looplets'23 section 6.2
PRIORITY = (
    *("Thunk", "Phase", "Switch", "Simplify", "Run", "Spike", "Sequence", "Jumper"),
    *("StepperSeek", "StepperNext", "Lookup", "AcceptRun", "Unfurl", "Loop", "Access"),
)


def test_the_table_is_in_the_order_of_figure_15() -> None:
    names = [rule.name for rule in RULES]
    assert len({*names}) == len(names)
    assert [name for name in names if name in PRIORITY] == [*PRIORITY]
    assert [rule for rule in RULES if not rule.is_derived] == [*rules("paper")]
    assert all({"→", "⟹", "⇒"} & {*rule.statement} for rule in RULES)


def test_each_rule_says_what_it_does_in_a_sentence() -> None:
    for rule in ALL:
        kinds = rule.says.split(" | ")
        assert all(kind.endswith((".", "({law}).")) for kind in kinds), rule.name
        assert len(rule.steps) < 2 or len(kinds) == len(rule.steps), rule.name


def test_rules_are_left_out_by_name() -> None:
    for name in OPTIONAL:
        assert {*RULES} - {*rules(f"all-{name}")} == {r for r in RULES if r.name == name}
    for wrong in ("some", "all-Nothing", "all-Loop", "all-"):
        with pytest.raises(FinchError) as fault:
            rules(wrong)
        assert fault.value.kind == "unknown name"


# ---------------------------------------------------------------------------------------- premises

FORMATS = {
    "x": "Dense(Element(0.0))",
    "y": "Dense(Element(0.0))",
    "A": "SparseList(Element(0.0))",
    "C": "SparseHash{2}(Element(0.0))",
    "D": "UpperTriangular(Element(0.0))",
    "s": "Scalar(0.0)",
    "t": "Scalar(0.0)",
}


def made(name: str) -> Tensor | Scalar:
    level = parse_format(FORMATS[name])
    if level.order == 0:
        return Scalar(level)
    array = np.triu(np.ones((4,) * level.order)) if level.order == 2 else np.ones(4)
    return Tensor.from_numpy(array, level)


def run(program: str, host: Host, which: str = "all") -> State:
    """Run the rules alone on what is parsed, with every tensor of FORMATS bound."""
    levels: dict[str, Any] = {name: parse_format(format) for name, format in FORMATS.items()}
    bounds = {name: bind(name, level, True) for name, level in levels.items()}
    for name, bound in bounds.items():
        given = describe(made(name))
        if isinstance(host, ExecutingHost):
            host.arrays |= dict(zip(bound.buffers, given[ARRAYS], strict=True))
        inputs = bound.given(given[SHAPE], given[COUNTERS])
        for variable, value in zip(bound.inputs, inputs, strict=True):
            variable.held = value
        bound.enter(host)
    state = State.before(host, {name: bound.fiber for name, bound in bounds.items()})
    node = with_fills(annotate(parse_kernel(f"begin\n{program}\nend"), levels), levels)
    return Machine(rules(which)).run(node, state)


LOOP = "for i = 1:4\n{}\nend"
UPDATE, READ, KNOWN = "e(mode({})) = update", "e(mode({})) = read", "e(variable(z))"
#: a program, the rule that is stuck, and the premise
STUCK = [
    ("s .= 0.0\ns .= 0.0", "Declare", READ.format("s")),
    ("@thaw(x)\n@declare(x, 0.0, 1:4)", "Declare", READ.format("x")),
    ("@freeze(A)", "Freeze", UPDATE.format("A")),
    ("s .= 0.0\n@freeze(s)\n@freeze(s)", "Freeze", UPDATE.format("s")),
    ("s .= 0.0\n" + LOOP.format("@freeze(s)"), "Freeze", "s ∈ d"),
    ("s .= 0.0\nif t[] == 0\n@freeze(s)\nend", "Freeze", "s ∈ d"),
    ("s .= 0.0\nif true\n@freeze(s)\nend", "Freeze", "s ∈ d"),
    ("s .= 0.0\nlet v = t[]\n@freeze(s)\nend\nt .= 0.0", "Freeze", "s ∈ d"),
    ("let v = 1\n@freeze(x)\nend", "Freeze", UPDATE.format("x")),
    ("s .= 0.0\n@thaw(s)", "Thaw", READ.format("s")),
    ("@thaw(x)\n@thaw(x)", "Thaw", READ.format("x")),
    (LOOP.format("@thaw(x)"), "Thaw", "x ∈ d"),
    ("for i = 2:2\n@thaw(x)\nend", "Thaw", "x ∈ d"),
    (LOOP.format("@thaw(y)\ny[i] += x[i]\n@freeze(y)"), "Unfurl", UPDATE.format("y")),
    (
        "t .= 0.0\n" + LOOP.format("let v = A[i]\n@thaw(s)\ns[] += v\n@freeze(s)\nend"),
        *("Thaw", "s ∈ d"),
    ),
    (LOOP.format("s .= 0.0") + "\n@freeze(s)", "Freeze", UPDATE.format("s")),
    ("s[] += 1.0", "Assign", UPDATE.format("s")),
    ("s .= 0.0\n@freeze(s)\ns[] += 1.0", "Assign", UPDATE.format("s")),
    (LOOP.format("y[i] += x[i]"), "Unfurl", UPDATE.format("y")),
    (LOOP.format("A[i] = x[i]"), "Unfurl", UPDATE.format("A")),
    ("for i = 1:2\noffset(A, 1)[i] = 1.0\nend", "Unfurl", UPDATE.format("offset(A, 1)")),
    ("s .= 0.0\nt .= 0.0\nt[] += s[]", "Access", READ.format("s")),
    ("s .= 0.0\nt .= 0.0\nif s[] == 0\nt[] += 1.0\nend", "Access", READ.format("s")),
    ("s .= 0.0\n@thaw(x)\n" + LOOP.format("s[] += x[i]"), "Unfurl", READ.format("x")),
    (
        "s .= 0.0\n@thaw(C)\nfor j = 1:4, i = 1:4\ns[] += C[i, j]\nend",
        *("Unfurl", READ.format("C")),
    ),
    (
        "s .= 0.0\n@thaw(D)\nfor j = 1:4, i = 1:j\ns[] += permissive(D, true, false)[i, j]\nend",
        *("Unfurl", READ.format("permissive(D, true, false)")),
    ),
    ("@freeze(z)", "Freeze", "e(tns) = tns'"),
    ("@thaw(z)", "Thaw", "e(tns) = tns'"),
    ("z .= 0.0", "Declare", "e(tns) = tns'"),
    ("s .= 0.0\ns[] += z[]", "Access", "e(tns) = tns'"),
    ("s .= 0.0\n" + LOOP.format("s[] += z[i]"), "Unfurl", "e(tns) = tns'"),
    *(
        (program, "Variable", KNOWN)
        for program in (
            *("s .= 0.0\ns[] += z", "if z\ns .= 0.0\nend", "s .= z", "@declare(x, 0.0, 1:z)"),
            *("s .= 0.0\nlet v = 2 * z\ns[] += v\nend", "s .= 0.0\nfor i = z\ns[] += i\nend"),
            "s .= 0.0\nfor i = 1:z\ns[] += i\nend",
        )
    ),
    ("let x = t[]\ns .= x\nend", "Define", "x ∉ d"),
]
#: programs that no pass has looked at, with every premise kept
FINE = [
    "s .= 0.0\ns[] += 1.0\n@freeze(s)",
    "@thaw(x)\n" + LOOP.format("x[i] += 1.0") + "\n@freeze(x)",
    "s .= 0.0\n@freeze(s)\n@thaw(s)\ns[] += 1.0\n@freeze(s)",
    "s .= 0.0\n@freeze(s)\ns .= 0.0\n@freeze(s)",
    "t .= 0.0\n" + LOOP.format("s .= 0.0\ns[] += x[i]\n@freeze(s)\nt[] += s[]") + "\n@freeze(t)",
    "t .= 0.0\n" + LOOP.format("s .= 0.0\ns[] += A[i]\n@freeze(s)\nt[] += s[]") + "\n@freeze(t)",
    "if t[] == 1\ns .= 0.0\n@freeze(s)\nend",
    "let v = t[]\nbegin\n@thaw(s)\ns[] += v\n@freeze(s)\nend\nend",
    "t .= 0.0\nlet v = 1.0\nbegin\ns .= v\n@freeze(s)\nend\nend\n@freeze(t)",
]
WAYS = [*itertools.product((ExecutingHost, ResidualHost), ("all", "paper"))]


@pytest.mark.parametrize(("program", "rule", "premise"), STUCK)
def test_a_broken_premise_is_stuck(program: str, rule: str, premise: str) -> None:
    for host, which in WAYS:
        with pytest.raises(Stuck) as fault:
            run(program, host(), which)
        assert (fault.value.rule, fault.value.premise) == (rule, premise)
        assert f"{rule} is stuck at `" in str(fault.value)
        assert f"{premise} does not hold" in str(fault.value)


@pytest.mark.parametrize("program", FINE)
def test_kept_premises_are_not(program: str) -> None:
    for host, which in WAYS:
        state = run(program, host(), which)
        assert all(tensor.mode == "read" for tensor in state.tensors.values())
        assert state.declared == {*FORMATS}


def test_the_tracer_is_told_every_step() -> None:
    """Each rule's result is what the next rule gets, at the same depth."""
    told: list[Any] = []
    loop = Loop(Index("i"), Extent(Literal(1), Literal(3)), EMPTY)
    program, state = Block((Sieve(Literal(True), EMPTY), loop)), State(ExecutingHost(), {})
    Machine(rules(), told.append).run(program, state)
    assert told[0].before is program and told[-1].after == EMPTY
    for one, other in itertools.pairwise(told):
        assert one.depth != other.depth or one.after is other.before
    assert Machine(rules()).run(EMPTY, state).tensors == {}
    with pytest.raises(Bug, match="no rule applies"):
        Machine(rules()).run(Literal(1), state)


# ----------------------------------------------------------------------------------- derived rules

#: kernels, each of which is for some derived rule, and the data above them
PROGRAM = next(program for program in PROGRAMS if program.name == "kernels_of_derived_rules")
DATA, _, TEXTS = PROGRAM.text.partition("# the kernels\n")
KERNELS = [line for line in TEXTS.splitlines() if line.startswith("@finch")]


class Watch(Observer):
    """Keeps what a session's last kernel was, and its steps."""

    def __init__(self) -> None:
        self.steps = Counter[str]()

    def kernel(self, event: KernelEvent) -> None:
        self.compiled = event.compiled

    def finished(self, event: KernelEvent, steps: Counter[str]) -> None:
        self.steps = steps

    def code(self, which: str) -> str:
        """The residual of the last kernel by other rules."""
        return str(
            listing(
                SpecializedKernel(
                    self.compiled.source, self.compiled.formats, which
                ).staged.residual
            )
        )


@cache
def data() -> dict[str, Any]:
    session = Session("native")
    session.run(DATA)
    return {name: session[name] for name in session.names()}


@cache
def ran(kernel: str, which: str) -> tuple[Watch, str, dict[str, Any]]:
    """What a kernel took, how it failed, and what all tensors store after it."""
    watch = Watch()
    session = Session("interpret", which, lambda _: None, observer=watch)
    for name, value in data().items():
        session[name] = copy.deepcopy(value)
    error = ""
    try:
        session.run(kernel)
    except FinchError as fault:
        error = str(fault)
    left = {name: session[name] for name in session.names()}
    tensors = {name: tensor for name, tensor in left.items() if isinstance(tensor, Tensor)}
    stored = {
        n: [*map(np.ndarray.tolist, (*t.entries()[0], t.entries()[1]))] for n, t in tensors.items()
    }
    return watch, error, stored | {n: repr(v) for n, v in left.items() if n not in tensors}


@pytest.mark.parametrize("name", sorted(OPTIONAL))
def test_a_rule_changes_how_much_is_done_alone(name: str) -> None:
    gains = []
    for kernel in KERNELS:
        watch, error, left = ran(kernel, "all")
        before, after = watch.code(f"all-{name}"), watch.code("all")
        if before == after:  # it does not apply
            continue
        without, other_error, other = ran(kernel, f"all-{name}")
        assert error == other_error and left == other, kernel
        assert watch.steps.total() <= 2 * without.steps.total(), kernel
        fewer = any(watch.steps[kind] < count for kind, count in without.steps.items())
        gains.append(fewer or len(after.splitlines()) < len(before.splitlines()))
    assert any(gains), f"no kernel of {PROGRAM.name} is for {name}: add one"


# ------------------------------------------------------------------------------- laws of the source

PACKAGE = Path(finchlang.__path__[0])
#: what is written once and runs under both hosts
SHARED = [
    path
    for room in ("algebra", "levels", "rules", "wrappers")
    for path in PACKAGE.glob(f"{room}/**/*.py")
]
HOSTS = {"ExecutingHost", "ResidualHost", "run_code", "run_residual"}
#: what only one of the hosts has, and what a variable holds (law 2)
PRIVATE = {*("arrays", "cells", "steps", "evaluate", "do", "code", "_blocks")}
#: modules in which no operator is known by its name
NAMELESS = ("algebra/simplify", "algebra/laws", "rules/base/loops")


def is_host(node: ast.AST) -> bool:
    """Whether an expression is called like a host: `host`, `state.host`."""
    return getattr(node, "id", getattr(node, "attr", "")) == "host"


@pytest.mark.parametrize("path", sorted(SHARED), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_rules_and_levels_know_no_host(path: Path) -> None:
    """Laws 1, 2 and 4: they ask for none, use what every host has, and fold nothing themselves."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        where = f"{path}:{getattr(node, 'lineno', 0)}"
        match node:
            case ast.Name(name):
                assert name not in HOSTS, where
            case ast.ImportFrom(module):
                assert module not in {
                    f"finchlang.host.{m}" for m in ("executing", "recording", "primitives")
                }
            case ast.Call(
                ast.Name("isinstance" | "type" | "hasattr" | "getattr" | "id"), [first, *_]
            ):
                assert not is_host(first), where
            case ast.Attribute(value, name):
                assert name != "held" or id(node) in called, where
                assert not (is_host(value) and name in PRIVATE), where


@pytest.mark.parametrize("name", NAMELESS)
def test_no_operator_is_known_by_name(name: str) -> None:
    tree = ast.parse((PACKAGE / f"{name}.py").read_text(encoding="utf-8"))
    compared = [node for node in ast.walk(tree) if isinstance(node, (ast.Compare, ast.MatchValue))]
    texts = {n.value for node in compared for n in ast.walk(node) if isinstance(n, ast.Constant)}
    assert not texts & {*OPERATORS}
