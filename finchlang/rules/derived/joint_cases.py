"""One term in which operands are told apart together: what `Point` and `Region` have in common.

From the literals that operands may be, `Absence` finds in which cases an expression is which literal. These
are the cases that the base rules would tell apart, at a cost that is linear in the expression.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from finchlang.algebra.absence import ALWAYS, Absence, Where, fold, given, implies, key_of
from finchlang.algebra.expression_types import type_of
from finchlang.algebra.laws import is_contested
from finchlang.algebra.simplify import simplify
from finchlang.host import construct as code, ir
from finchlang.host.engine import Machine, Step
from finchlang.levels.looplets import Choice
from finchlang.operators.operator_table import SELECT, operator, row_of
from finchlang.rules.base.context import put
from finchlang.rules.base.state import State, branches
from finchlang.syntax import nodes as ast, traversal as trees

#: a term, made where it is known to be needed
Arm = Callable[[], ast.Node]
#: what an expression is in one case: a literal, or None for a value that only the data knows
Outcome = ast.Literal | None
#: what an expression is under each condition (the first that holds counts), and otherwise
Outcomes = tuple[list[tuple[ir.Expr, Outcome]], Outcome]


class Joint(ABC):
    """The rule Union on one term."""

    def __init__(self, machine: Machine, term: ast.Node, state: State, choices: list[Choice]):
        self.machine, self.term, self.state = machine, term, state
        self.host, self.choices = state.host, choices
        self.absence = Absence(self._literals)
        self.are_known: dict[int, tuple[ast.Node, bool]] = {}
        #: for each number in formulas: where the operand is not the literal that the number stands for
        self.conditions: list[ir.Expr] = []
        #: the numbers that stand for what operands are otherwise
        self.usual: set[int] = set()

    @abstractmethod
    def outcomes(self, access: ast.Access) -> Outcomes | None:
        """What an operand is in which cases; None if it takes no part."""

    # the cases of expressions

    def _literals(self, access: ast.Access) -> Iterator[tuple[int, ast.Node]]:
        """The literals that an operand may be, each with the number that stands for it in formulas."""
        options, otherwise = self.outcomes(access) or ([], None)
        others = [(when, o) for when, o in options if key_of(o) != key_of(otherwise)]
        for when, outcome in others:
            if outcome is not None:
                yield self._number(code.op("not", when)), outcome
        if otherwise is not None:
            number = self._number(code.disjunction(*(when for when, _ in others)))
            self.usual.add(number)
            yield number, otherwise

    def _number(self, condition: ir.Expr) -> int:
        if condition not in self.conditions:
            self.conditions.append(condition)
        return self.conditions.index(condition)

    def _fails(self, where: Where) -> ir.Expr:
        return fold(where, self.conditions.__getitem__, code.disjunction, code.conjunction)

    def is_known(self, node: ast.Node) -> bool:
        """Whether it is known in which cases an expression is a literal: nothing in it has to be read
        first, and it makes no value of a missing operand, which host expressions cannot represent."""
        if id(node) not in self.are_known:
            self.are_known[id(node)] = node, self._is_known(node)
        return self.are_known[id(node)][1]

    def _is_known(self, node: ast.Node) -> bool:
        match node:
            case ast.Literal() | ast.Value() | ast.Index():
                return True
            case ast.Access():
                return self.outcomes(node) is not None
            case ast.Call(_, args) if operator(node.op) is not None and operator(node) is None:
                if not all(map(self.is_known, args)) or type_of(node) is None:
                    return False
                if is_contested(node, lambda arg: [literal for literal, _ in self._cases(arg)]):
                    return False
                missing = [w for a in args for x, w in self._cases(a) if ast.is_missing(x)]
                return all(any(implies(m, w) for _, w in self._cases(node)) for m in missing)
        return False

    def _cases(self, node: ast.Node) -> list[tuple[ast.Literal, Where]]:
        """The literals that an expression may be, and where it is each of them; `missing` comes first."""
        if isinstance(node, ast.Literal):
            return [(node, ALWAYS)]
        found = [(case.literal, where) for case, where in self.absence.value(node).values()]
        return sorted(found, key=lambda case: not ast.is_missing(case[0]))

    def _usual(self, node: ast.Node) -> list[tuple[ast.Literal, Where]]:
        """The literal that an expression is where all operands are what they are otherwise, in a list that
        is empty if there is none."""
        return [case for case in self._cases(node) if given(case[1], self.usual) == ALWAYS][:1]

    def cases(self, node: ast.Node) -> Outcomes:
        """The cases of a known expression. What it usually is comes last, even `missing`, although that is
        the first case of any other expression."""
        cases, usual = self._cases(node), self._usual(node)
        last = [self._fails(where) for literal, where in usual if ast.is_missing(literal)]
        arms: list[tuple[ir.Expr, Outcome]] = []
        for literal, where in [case for case in cases if case not in usual]:
            holds = code.conjunction(code.op("not", self._fails(where)), *last)
            arms.append((holds, literal))
        if not usual:
            return arms, None
        if not self._is_literal(node):
            arms.insert(0, (self._varies(node), None))
        return arms, usual[0][0]

    def _varies(self, node: ast.Node) -> ir.Expr:
        """Where a known expression is no literal."""
        if isinstance(node, ast.Access) and (outcomes := self.outcomes(node)) is not None:
            return code.disjunction(*(when for when, outcome in outcomes[0] if outcome is None))
        return code.conjunction(*(self._fails(where) for _, where in self._cases(node)))

    def _is_literal(self, node: ast.Node) -> bool:
        if isinstance(node, ast.Call):
            return all(map(self._is_literal, node.args))
        if not isinstance(node, ast.Access):
            return isinstance(node, ast.Literal)
        options, otherwise = self.outcomes(node) or ([], None)
        return None not in (otherwise, *(outcome for _, outcome in options))

    def is_decided(self, node: ast.Node) -> bool:
        """Whether one argument of a call decides the call where it is its usual literal; or, of a function
        of the script, simplifies it."""
        if not isinstance(node, ast.Call):
            return False
        own = [(k, arg) for k, arg in enumerate(node.args) if not isinstance(arg, ast.Literal)]
        usual = ((k, *case) for k, arg in own for case in self._usual(arg))
        return len(own) > 1 and any(self._is_settled(node, *case) for case in usual)

    def _is_settled(self, node: ast.Call, k: int, literal: ast.Literal, where: Where) -> bool:
        """Whether a call is decided where its k-th argument is `literal`."""
        if not row_of(node).is_staged:
            return any(implies(where, there) for _, there in self._cases(node))
        args = (*node.args[:k], literal, *node.args[k + 1 :])
        result = simplify(trees.replace(node, args=args))
        return not isinstance(result, ast.Call) or result.op != node.op

    def evaluated(self, node: ast.Node, values: Callable[[ast.Access], ast.Node]) -> ast.Node:
        """A known expression with its operands given by `values`: equal to `node` in all of its cases, but
        a literal in none. Literals that do not follow from the values are selected by their conditions."""
        if isinstance(node, ast.Access):
            return values(node)
        if not isinstance(node, ast.Call):
            return node
        args = tuple(self.evaluated(a, values) for a in node.args)
        result: ast.Node = trees.replace(node, args=args)
        for literal, where in self._cases(node):
            of_args = ([w for x, w in self._cases(a) if not ast.is_missing(x)] for a in node.args)
            are_values = all(any(implies(where, w) for w in found) for found in of_args)
            if not (ast.is_missing(literal) or are_values):  # the values do not give this literal
                holds = ast.Value(code.op("not", self._fails(where)))
                result = ast.Call(SELECT, (holds, literal, result))
        return result

    # telling them apart

    def in_arms(self, arms: Sequence[tuple[ir.Expr, Arm]], last: Arm) -> Step:
        """What is left to do: the first arm whose condition holds, or the last if none does."""
        if not arms:
            return last(), self.state
        runs = [(condition, partial(self._run, arm)) for condition, arm in arms]
        branches(self.host, runs, partial(self._run, last))
        return ast.EMPTY, self.state

    def certain(self, condition: ir.Expr) -> ir.Expr:
        """`condition`, or true if it is sure to hold: it asks whether the least of several coordinates is
        one of them, or beyond one of them."""
        ends: dict[ir.Expr, set[ir.Expr]] = {}
        for asked in _alternatives(condition):
            match asked:
                case ir.Op(name="eq", args=(a, b)):
                    ends.setdefault(a, set()).add(b)
                    ends.setdefault(b, set()).add(a)
                case ir.Op(name="le", args=(a, b)):
                    ends.setdefault(b, set()).add(a)
        return code.TRUE if any(_is_one_of(at, found) for at, found in ends.items()) else condition

    def _run(self, arm: Arm) -> None:
        self.machine.run(arm(), self.state)

    def one_by_one(self) -> Step:
        """Each option of the first choice in an arm of its own."""
        first = self.choices[0]
        arms = [(when, partial(put, self.term, {id(first): n})) for when, n in first.options]
        return self.in_arms(arms, partial(put, self.term, {id(first): first.otherwise}))


def outcome_of(node: ast.Node) -> Outcome:
    return node if isinstance(node, ast.Literal) else None


def replaced(term: ast.Node, old: ast.Node, new: ast.Node) -> ast.Node:
    """`term` with an expression replaced wherever it is read, so not in targets of assignments."""

    def visit(node: ast.Node) -> ast.Node:
        if node == old:
            return new
        if isinstance(node, ast.Assign):
            return ast.Assign(node.target, node.op, visit(node.value), span=node.span)
        changed: ast.Node = trees.map_children(visit, node)
        return changed

    return visit(term)


def _alternatives(condition: ir.Expr) -> Iterator[ir.Expr]:
    stack = [condition]
    while stack:
        top = stack.pop()
        if isinstance(top, ir.Op) and top.name == "or":
            stack += reversed(top.args)
        else:
            yield top


def _is_one_of(at: ir.Expr, ends: set[ir.Expr]) -> bool:
    """Whether `at` is certain to be one of `ends`: it is one, or the least of some of them."""
    if at in ends:
        return True
    if isinstance(at, ir.Var) and at.definition is not None:
        return _is_one_of(at.definition, ends)
    return isinstance(at, ir.Op) and at.name == "min" and all(_is_one_of(a, ends) for a in at.args)
