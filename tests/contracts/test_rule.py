"""The contract of rules: the table has the order of Fig 15, and each rule states itself; what a base rule
relies on is asked (Fig 14), so that a program without the passes that breaks it is stuck, and says where;
with each derived rule and without it the results, errors and entries are the same, in no more steps, and
something is gained on what it is for. A new rule is tested by being listed in the table."""

from __future__ import annotations

import ast
import copy
import itertools
import random
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import finchlang
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
from finchlang.python.session import Session
from finchlang.rules.base.state import State
from finchlang.rules.table import OPTIONAL, RULES, rules
from finchlang.syntax.nodes import EMPTY, Block, Extent, Index, Literal, Loop, Sieve
from finchlang.tensors.bind import bind
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.text.parse import parse_kernel

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
    ("s .= 0.0\nlet v = t[]\n@freeze(s)\nend", "Freeze", "s ∈ d"),
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

DATA = """
l = [0.0, 1.0, 0.0, 2.0, 3.0, 0.0, 0.0, 4.0, 0.0, 5.0, 0.0, 6.0]
g = [1.0, 2.0, 0.0, 0.0, 3.0, 0.0, 4.0, 5.0, 0.0, 6.0, 0.0, 0.0]
b = [0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 2.0, 2.0, 0.0, 0.0, 0.0, 3.0]
m = Tensor(Dense(Dense(Element(0.0))), 12, 12)
@finch begin m .= 0; for j = 1:12, i = 1:12; if j % 3 != 0; m[i, j] = l[i] * g[j] end end end
V1 = Tensor(SparseList(Element(0.0)), l); V2 = Tensor(SparseList(Element(0.0)), g)
V5 = Tensor(SparseList(Element(0.0)), l); V6 = Tensor(SparseList(Element(0.0)), g)
V7 = Tensor(SparseList(Element(0.0)), b); V8 = Tensor(SparseList(Element(0.0)), l)
I = Tensor(SparseList(Element(0)), [0, 1, 2, 0, 0, 3, 0, 4, 5, 6, 0, 0]); c0 = 3
X = fsparse([3, 50, 51, 52, 140], [1.0, 2.0, 3.0, 4.0, 5.0], (144,))
V3 = Tensor(SparseList(Element(0.0)), b); V4 = Tensor(SparseList(Element(0.0)), l .+ b)
B1 = Tensor(SparseBlockList(Element(0.0)), b); B2 = Tensor(SparseBlockList(Element(0.0)), l)
R1 = Tensor(SparseRunList(Element(0.0)), b); R2 = Tensor(RunList(Element(0.0)), g)
H = Tensor(SparseByteMap(Element(0.0)), g); F = Tensor(SparseList(Element(1.0)), l .* g)
M1 = Tensor(Dense(SparseList(Element(0.0))), m); M2 = Tensor(SparseList(SparseList(Element(0.0))), m)
G = swizzle([1.0 0.0 0.0; 0.0 1.0 0.0], 2, 1); A = Tensor(SparseList(Element(0.0)), [0.0, 5.0, 0.0, 6.0])
N = Tensor(SparseHash(SparseList(Element(0.0))), m .+ 0.0)
Q = Tensor(SparseList(SparseList(SparseList(Element(0.0)))), 3, 3, 3)
P = Tensor(SparseList(SparseList(SparseList(Element(0.0)))), 3, 3, 3)
@finch begin Q .= 0; for k = 1:3, j = 1:3, i = 1:3; if i != j; Q[i, j, k] = i + k end end end
@finch begin P .= 0; for k = 1:3, j = 1:3, i = 1:3; if j != k; P[i, j, k] = i * j end end end
L = Tensor(SparseList(Element(0.0)), 0 .- [1.0, 1.0, 2.0, 3.0, 4.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
y = zeros(12); z = ones(12); c = Scalar(0); p = ShortCircuitScalar(0); s = Scalar(0.0)
C = Tensor(SparseList(Element(0.0)), 12); D = Tensor(Dense(SparseList(Element(0.0))), 12, 12)
E = Tensor(SparseList(SparseList(Element(0.0))), 12, 12); w = Tensor(SparseByteMap(Element(0.0)), 12)
T = Tensor(SparseList(SparseList(SparseList(Element(0.0)))), 3, 3, 3)
U = Tensor(SparseList(SparseList(SparseList(SparseList(Element(0))))), 3, 3, 3, 2)
O = Tensor(SparseList(SparseList(SparseList(SparseList(Element(0))))), 3, 3, 3, 2)
@finch begin U .= 0; for n = 1:2, k = 1:3, j = 1:3, i = 1:3; if i != k; U[i, j, k, n] = i + n end end end
@finch begin O .= 0; for n = 1:2, k = 1:3, j = 1:3, i = 1:3; if j != i; O[i, j, k, n] = j + n end end end
W = Tensor(SparseList(SparseList(SparseList(SparseList(Element(0))))), 3, 3, 3, 2)
"""
#: kernels, each of which is for some derived rule
KERNELS = [
    "s .= 0; for i = _; s[] += V1[i] end",
    "y .= 0; for i = _; y[i] += z[i] * 2 end",
    "s .= 0; for i = _; s[] += V1[gallop(i)] * V2[gallop(i)] end",
    "s .= 0; for i = _; s[] += V1[i] * V2[i] * V3[i] end",
    "C .= 0; for i = _; C[i] = V1[i] + V2[i] end",
    "C .= 0; for i = _; C[i] = V1[i] + V2[i] + V3[i] + V4[i] + F[i] end",
    "C .= 0; for i = _; C[i] = V1[i] * V2[i] * V3[i] * V4[i] * V5[i] * V6[i] * V7[i] * V8[i] end",
    "C .= 0; for i = _; C[i] = V1[i] / (V2[i] + 1) end",
    "C .= 0; for i = _; C[i] = V1[i] / V2[i] end",
    "C .= 0; for i = _; C[i] = H[i] / V2[i] end",
    "s .= 0; for i = _; s[] += B1[i] * z[i] end",
    "s .= 0; for i = _; s[] += B1[i] * B2[i] + R1[i] end",
    "s .= 0; for i = _; s[] += R1[i] * R2[i] end",
    "s .= 0; for i = _; s[] += R1[i] end",
    "s .= 0; for i = _; s[] += window(B1, 1:7)[i] end",
    "s .= 0; for i = _; s[] += window(R1, 3:7)[i] * window(l, 3:7)[i] end",
    "s .= -9; for i = _; s[] <<max>>= L[i] end",
    "s .= 0; for i = _; s[] += F[i] - 1 end",
    "s .= 0; for j = _, i = _; s[] += N[i, j] + M2[i, j] end",
    "s .= 0; for j = _, i = _; s[] += N[i, j] + N[i, j] + M2[i, j] end",
    "s .= 0; for j = _, i = _; s[] += max(N[i, j], 1) + M2[i, j] end",
    "E .= 0; for j = _; w .= 0; for i = _; w[i] += M2[i, j] end; for i = _; E[i, j] = w[i] end end",
    "D .= 0; for j = _, i = _; D[i, j] = slice(M1, 2, 1:12)[i, j] end",
    "D .= 0; for j = _, i = _; D[i, j] = M1[i, j] end",
    "C .= 0; for i = _; C[i] = V1[i] end",
    "T .= 0; for k = _, j = _, i = _; T[i, j, k] = Q[i, j, k] + P[i, j, k] end",
    "W .= 0; for n = _, k = _, j = _, i = _; W[i, j, k, n] = xor(U[i, j, k, n], O[i, j, k, n]) end",
    "p .= 0; for i = _; p[] <<choose(0)>>= ifelse(V1[i] > 0, i, 0) end",
    "s .= 0; for i = _; s[] += l[i] * z[i] end; for j = _; s[] += g[j] * l[j] end",
    "s .= 0; for k = 1:9; for i = _; s[] += V1[i] end end",
    "c .= 0; for i = _; c[] += (I[i] + c0) * 2 end",
    "s .= 0; for k = _; s[] += reshape(M1, 144)[k] * X[k] end",
    "s .= 0; for i = _; s[] += collapse(slice(G, 1, 2:3), 1, 2)[i] * A[i] end",
    "for i = _; y[i] += V1[i]; y[I[i] + 7] += V2[i] end",
]


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
        session.run(f"@finch begin {kernel} end")
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
    assert any(gains), f"no kernel of KERNELS is for {name}: add one"


@pytest.mark.parametrize("kernel", KERNELS)
def test_base_rules_lower_everything(kernel: str) -> None:
    assert ran(kernel, "all")[1:] == ran(kernel, "paper")[1:]


LEVELS = (
    *("SparseList", "SparseByteMap", "SparseHash", "SparseCOO{1}", "SparsePinpoint", "SparseBand"),
    *("SparseBlockList", "RunList", "PackBits", "SparseRunList", "SparseInterval"),
)


def lines(level: str, body: str) -> int:
    """The lines of code of a loop over `body`."""
    formats = {name: parse_format(f"{level}(Element(0.0))") for name in "ABDEFGHIJKLM"}
    formats["C"] = parse_format("SparseList(Element(0.0))")
    kernel = SpecializedKernel(
        parse_kernel(f"begin C .= 0; for i=_; C[i] = {body} end end"), formats
    )
    return len(listing(kernel.staged.residual).splitlines())


def is_linear(lengths: list[int]) -> bool:
    """Whether each operand more adds as much code as the one before (law 6 of the design)."""
    steps = [after - before for before, after in itertools.pairwise(lengths)]
    return max(steps) <= 1.2 * min(steps)


@pytest.mark.parametrize("join", [" + ", " * ", " - "])
@pytest.mark.parametrize("level", LEVELS)
def test_code_grows_linearly(level: str, join: str) -> None:
    operands = [f"{name}[i]" for name in "ABDEFGHI"]
    assert is_linear([lines(level, join.join(operands[:k])) for k in range(3, 9)])


@pytest.mark.parametrize("level", ["SparseList", "SparseBlockList", "SparseRunList", "RunList"])
def test_code_of_sums_of_products_grows_linearly(level: str) -> None:
    terms = [f"{a}[i] * {b}[i]" for a, b in ("AB", "DE", "FG", "HI", "JK", "LM")]
    assert is_linear([lines(level, " + ".join(terms[:k])) for k in range(3, 7)])


def random_expression(rng: random.Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(["V1[i]", "V2[i]", "V3[i]", "V4[gallop(i)]", "z[i]"])
    join = rng.choice(["({} + {})", "({} * {})", "({} - {})", "max({}, {})", "min({}, {})"])
    return join.format(*(random_expression(rng, depth - 1) for _ in "ab"))


@pytest.mark.parametrize("seed", range(12))
def test_lists_that_meet_take_no_more_steps_than_by_the_rules_of_the_paper(seed: int) -> None:
    rng = random.Random(seed)
    kernel = f"s .= 0; for i = _; s[] += {random_expression(rng, rng.randint(1, 3))} end"
    (watch, *found), (other, *wanted) = ran(kernel, "all"), ran(kernel, "paper")
    assert found == wanted
    assert watch.steps.total() <= 1.05 * other.steps.total() + 20


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
