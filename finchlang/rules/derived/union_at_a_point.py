"""The rule Union where operands are looked at in one coordinate."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial, reduce
from typing import Any

from finchlang.algebra.expression_types import may_fail, type_of
from finchlang.algebra.simplify import simplify
from finchlang.host import construct as code, ir
from finchlang.host.engine import Machine, Step
from finchlang.host.guarding import guarded
from finchlang.host.inspecting import scratch
from finchlang.levels.level import READ, Fiber, TensorLike
from finchlang.levels.looplets import Choice, Lookup, Run, Spike, Thunk
from finchlang.operators.operator_table import LAWLESS, row_of
from finchlang.rules.base.context import accesses_in, point_of, put
from finchlang.rules.base.expressions import evaluate
from finchlang.rules.base.state import State
from finchlang.rules.derived.joint_cases import Arm, Joint, Outcome, Outcomes, outcome_of, replaced
from finchlang.rules.derived.operand_choice import gives_tensors, one_of
from finchlang.rules.derived.pieces import are_alike, choose, selected
from finchlang.syntax import nodes as ast, traversal as trees

#: what an operand is under each condition (no two of them hold), and otherwise
Options = tuple[list[tuple[ir.Expr, ast.Node]], ast.Node]


class Point(Joint):
    """The rule where operands are looked at in one coordinate."""

    def __init__(self, machine: Machine, term: ast.Node, state: State, choices: list[Choice]):
        super().__init__(machine, term, state, choices)
        self.at = point_of(term)
        self.index = term.index if isinstance(term, ast.Loop) else None
        self.known: dict[int, tuple[ast.Node, Options | None]] = {}
        self.values: dict[int, ast.Node] = {}

    def step(self) -> Step | None:
        together = self._as_tensors()
        if together is not None:
            return together, self.state
        in_place = self._lets_in_place(self.term)
        if in_place is not self.term:
            return in_place, self.state
        if self.choices:
            found: list[Any] = [a for a in accesses_in(self.term) if isinstance(a.tensor, Lookup)]
            if any(isinstance(a.indices[-1], (ast.Literal, ast.Value)) for a in found):
                return None  # what they give may be a choice, too
            waiting = [a for a in found if self._is_here(a) and self._options(a) is None]
            there = {id(a.tensor): a.tensor.body(self.host, self.at) for a in waiting}
            if there:
                return put(self.term, there, consume=True), self.state
        candidates = list(self._candidates(self.term))
        sizes = [len(self._operands_of(parts)) for _, parts in candidates]
        if candidates and max(sizes) >= (1 if self.choices else 2):
            return self._tell_apart(*candidates[sizes.index(max(sizes))])
        return self.one_by_one() if self.choices else None

    def _is_here(self, access: ast.Access) -> bool:
        return self.at is not None and self.index in access.indices[-1:]

    def _as_tensors(self) -> ast.Node | None:
        """The term with operands that are a fiber or fill made tensors of the loops within, so that no loop
        is there twice; None if there are none. Not among them is an operand of one tensor without which
        nothing is left to do: whether it is there is asked."""
        payload: dict[int, ast.Node] = {}
        rest: dict[int, ast.Node] = {}
        for access in accesses_in(self.term):
            tensor = access.tensor
            if len(access.indices) < 2 - gives_tensors(tensor) or access.captured:
                continue
            if isinstance(tensor, (Spike, Choice)) and id(tensor) not in payload | rest:
                is_payload = gives_tensors(tensor)
                at = None if is_payload else self._coordinate(access)
                options = self._leaves(tensor, at) if is_payload or at is not None else None
                found = options and one_of(self.host, *options, at)
                if not found or not options:
                    continue
                nodes = [*(n for _, n in options[0]), options[1]]
                many = [n for n in nodes if not isinstance(n, ast.Literal)]
                without = put(self.term, {id(tensor): found[1]}, not is_payload)
                if len(many) > 1 or not ast.is_empty(simplify(without)):
                    (payload if is_payload else rest)[id(tensor)] = found[0]
        if not payload and not rest:
            return None
        term: ast.Node = put(put(self.term, payload), rest, consume=True)
        return term

    def _lets_in_place(self, term: ast.Node) -> ast.Node:
        """The term with what is bound to a name that is used once in the place of the name, if it has
        cases: they are told with those of the expression around it."""
        if not isinstance(term, ast.Loop | ast.Define | ast.Sieve):
            return term
        body: ast.Node = term.body
        if isinstance(term, ast.Define) and self._can_move(term):
            return self._lets_in_place(trees.substitute(body, {term.variable: term.value}))
        inner = self._lets_in_place(body)
        return term if inner is body else trees.replace(term, body=inner)

    def _can_move(self, let: ast.Define) -> bool:
        """Whether what is bound has cases, and may be computed later, or not at all: it never fails, and
        nothing is written before it is used."""
        has_cases = self._operands_of([let.value]) and self.is_known(let.value)
        return bool(has_cases) and not may_fail(let.value) and _is_used_once(let)

    # what operands are

    def outcomes(self, access: ast.Access) -> Outcomes | None:
        options = self._options(access)
        if options is not None:
            return [(when, outcome_of(node)) for when, node in options[0]], outcome_of(options[1])
        return ([], None) if not access.indices and self._is_plain(access.tensor) else None

    def _is_plain(self, tensor: ast.Node) -> bool:
        """Whether a tensor without dimensions is one value."""
        if isinstance(tensor, ast.Variable):
            tensor = self.state.tensors.get(tensor.name, tensor)
        return isinstance(tensor, Fiber) and tensor.level.is_leaf and not tensor.level.is_structured

    def _options(self, access: ast.Access) -> Options | None:
        """The options of an operand; None if the access is no operand, or they are not known yet."""
        if id(access) not in self.known:
            at = self._coordinate(access)
            is_scalar = len(access.indices) == (at is not None) and not access.captured
            found = self._leaves(access.tensor, at) if is_scalar else None
            self.known[id(access)] = (access, found)
        return self.known[id(access)][1]

    def _coordinate(self, access: ast.Access) -> ir.Expr | None:
        """The coordinate of an access in its last index, if that has a value."""
        match access.indices:
            case (*_, ast.Literal() | ast.Value() as index):
                return evaluate(index, self.state)
            case (*_, index) if index == self.index:
                return self.at
        return None

    def _leaves(self, node: ast.Node, at: ir.Expr | None) -> Options | None:
        match node:
            case Choice(options, otherwise):
                parts = [(when, self._leaves(n, at)) for when, n in options]
                return _joined(parts, self._leaves(otherwise, at))
            case Spike(body, tail, end) if at is not None and end is not None:
                tails = self._leaves(tail, None)
                return _joined([(code.compare("eq", end, at), tails)], self._leaves(body, None))
            case Run(body) if at is not None:
                return self._leaves(body, None)
            case ast.Literal() | ast.Value() if at is None:
                return [], node
            case Lookup() if at is not None:
                return _leaf(node, at)
            case TensorLike() if at is None and not (
                isinstance(node, Fiber) and node.level.is_leaf
            ):
                return [], node
            case ast.Call() if at is None:
                return [], node  # a wrapper of a tensor
            case Thunk() | Fiber() if at is None:
                return _leaf(node, at)
        return None

    # expressions

    def _candidates(self, node: ast.Node) -> Iterator[tuple[ast.Node, list[ast.Node]]]:
        """The largest expressions whose cases are known and that no argument decides, each with its parts:
        itself, or, if its operator is associative and commutative, those of its operands that are so."""
        if isinstance(node, (ast.Call, ast.Access)) and self._is_joint(node):
            yield node, [node]
            return
        row = row_of(node) if isinstance(node, ast.Call) else LAWLESS
        parts = _chain(node, node) if row.associative and row.commutative else []
        # two that are converted may have another common type if they are taken together
        if parts and sum(type_of(part) != type_of(node) for part in parts) < 2:
            known = [p for p in parts if self.is_known(p)]
            if known and self._is_joint(_chained(node, known)):
                yield node, known
                parts = [p for p in parts if p not in known]
            for part in parts:
                yield from self._candidates(part)
            return
        for child in [node.value] if isinstance(node, ast.Assign) else trees.children(node):
            yield from self._candidates(child)

    def _is_joint(self, node: ast.Node) -> bool:
        """Whether the cases of an expression are known, and no argument alone decides it: such arguments
        are better asked one after the other."""
        return self.is_known(node) and not self.is_decided(node)

    def _operands_of(self, parts: list[ast.Node]) -> set[int]:
        """The spikes and choices among the operands of expressions."""
        accesses = (a for part in parts for a in accesses_in(part))
        choices = (a for a in accesses if isinstance(a.tensor, (Spike, Choice)))
        return {id(a.tensor) for a in choices if self._options(a) is not None}

    # telling cases apart

    def _tell_apart(self, root: ast.Node, parts: list[ast.Node]) -> Step:
        given, otherwise = self.cases(_chained(root, parts))
        arms: list[tuple[ir.Expr, Arm]] = [
            (self.certain(when), partial(self._in_case, root, parts, outcome))
            for when, outcome in given
        ]
        return self.in_arms(arms, partial(self._in_case, root, parts, otherwise))

    def _in_case(self, root: ast.Node, parts: list[ast.Node], outcome: Outcome) -> ast.Node:
        if outcome is None:
            self.values = {}
            return replaced(self.term, root, self._evaluated(root, parts, root))
        others = [n for n in _chain(root, root) if n not in parts] if parts[0] is not root else []
        return replaced(self.term, root, _chained(root, [outcome, *others]))

    def _evaluated(self, node: ast.Node, parts: list[ast.Node], root: Any) -> ast.Node:
        """`root` with parts of it as values; elsewhere a part may be a literal by its structure."""
        if node in parts:
            return self.evaluated(node, self.value)
        if not isinstance(node, ast.Call) or node.op != root.op:
            return node
        args = tuple(self._evaluated(n, parts, root) for n in node.args)
        return trees.replace(node, args=args)

    def value(self, access: ast.Access) -> ast.Node:
        """What an operand is, as a value in all its cases."""
        options = self._options(access)
        if options is None or not options[0]:
            return access
        key = id(access.tensor)
        if key not in self.values:
            value = self._chosen(access, *options)
            self.values[key] = ast.Value(value)
        return self.values[key]

    def _chosen(
        self, access: ast.Access, given: list[tuple[ir.Expr, ast.Node]], otherwise: ast.Node
    ) -> ir.Expr:
        """The value of an operand; where it is missing, any value."""
        given, otherwise = self._as_fibers(access, *self._left(given, otherwise))
        if not given:
            return self._read(access, otherwise)
        is_stored = isinstance(access.tensor, (Spike, Choice)) and access.tensor.is_stored
        if isinstance(otherwise, ast.Literal) and (
            is_stored or all(isinstance(n, (ast.Literal, ast.Value)) for _, n in given)
        ):
            values = [(when, self._read(access, n)) for when, n in given]
            rest = code.cast(self._read(access, otherwise), values[0][1].type)
            return selected(self.host, values, rest, "v")
        read = partial(self._read, access)
        value = partial(read, otherwise)
        for when, node in reversed(given):
            value = partial(
                self.host.only_if, when, partial(read, node), "v", value, type=access.type
            )
        return value()

    def _left(self, given: list[tuple[ir.Expr, ast.Node]], otherwise: ast.Node) -> Options:
        """The options that are possible where this is asked."""
        found: list[tuple[ir.Expr, ast.Node]] = []
        for when, node in given:
            when = self.host.reduced(when)
            if when is code.TRUE:
                return found, node
            if when is not code.FALSE:
                found.append((when, node))
        return found, otherwise

    def _as_fibers(
        self, access: ast.Access, given: list[tuple[ir.Expr, ast.Node]], otherwise: ast.Node
    ) -> Options:
        """The options with fibers of one level, of which some may be looked up, as one of them."""
        at = self._coordinate(access)
        nodes = [*(node for _, node in given), otherwise]
        there = [_payload(scratch(), node, at) for node in nodes]
        if not all(are_alike(node, there[-1]) for node in there):
            return given, otherwise
        conditions = [when for when, _ in given]
        conditions.append(code.op("not", code.disjunction(*conditions)))
        found = [
            _payload(guarded(self.host, when), node, at)
            for when, node in zip(conditions, nodes, strict=True)
        ]
        return [], choose(list(zip(conditions, found[:-1], strict=False)), found[-1])

    def _read(self, access: ast.Access, node: ast.Node) -> ir.Expr:
        node = _payload(self.host, node, self._coordinate(access))
        if isinstance(node, Thunk):
            node, _ = node.preamble(self.host)
        if isinstance(node, Fiber):
            node = node.level.read(self.host, node)
        if isinstance(node, ast.Literal) and node.value is ast.MISSING:
            assert access.type is not None
            return code.const(0, access.type)
        return evaluate(node, self.state)


def _payload(host: Any, node: ast.Node, at: ir.Expr | None) -> ast.Node:
    """What a lookup has at a coordinate; any other node is itself."""
    if not isinstance(node, Lookup):
        return node
    assert at is not None
    return node.body(host, at)


def _joined(parts: list[tuple[ir.Expr, Options | None]], rest: Options | None) -> Options | None:
    """The options of what is one of `parts` where its condition holds (no two do), else `rest`."""
    if rest is None:
        return None
    if rest[0]:
        none = code.op("not", code.disjunction(*(when for when, _ in parts)))
        parts = [*parts, (none, rest)]
    found: list[tuple[ir.Expr, ast.Node]] = []
    for when, options in parts:
        if options is None:
            return None
        found += [(code.op("and", when, also), node) for also, node in options[0]]
        also = code.op("not", code.disjunction(*(c for c, _ in options[0])))
        found.append((code.op("and", when, also), options[1]))
    return found, rest[1]


def _is_used_once(define: ast.Define) -> bool:
    """Whether the name that is bound stands in one place, which is not behind another statement."""
    body: ast.Node = define.body
    while isinstance(body, ast.Define | ast.Sieve) and trees.mentions(body.body, define.variable):
        body = body.body
    is_statement = isinstance(body, ast.Define | ast.Sieve | ast.Assign)
    return is_statement and [*trees.walk(define.body)].count(define.variable) == 1


def _leaf(node: ast.Node, at: ir.Expr | None) -> Options | None:
    """The only option of a scalar that is always there: its value, if that is a literal, else the node."""
    host = scratch()  # only the result matters, not the code that finds it
    if isinstance(node, Lookup):
        assert at is not None
        there = node.body(host, at)
    else:
        there = node.preamble(host)[0] if isinstance(node, Thunk) else node
    if isinstance(there, ast.Call) or (
        isinstance(there, TensorLike) and not (isinstance(there, Fiber) and there.level.is_leaf)
    ):
        return [], node  # for the loops within
    if not isinstance(there, Fiber) or there.mode != READ:
        return None
    value = there.level.read(host, there)
    return [], value if isinstance(value, ast.Literal) else node


def _chain(node: ast.Node, root: ast.Node) -> list[ast.Node]:
    """The operands of the operator of `root`, through calls of the same operator."""
    found, stack = [], [node]
    while stack:
        top = stack.pop()
        if isinstance(top, ast.Call) and isinstance(root, ast.Call) and top.op == root.op:
            stack += reversed(top.args)
        else:
            found.append(top)
    return found


def _chained(root: ast.Node, parts: list[ast.Node]) -> ast.Node:
    if len(parts) == 1:
        return parts[0]
    assert isinstance(root, ast.Call)
    return reduce(lambda a, b: ast.Call(root.op, (a, b), span=root.span), parts)
