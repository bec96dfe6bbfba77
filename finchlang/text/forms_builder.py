"""The rules of scripts that are forms of Julia's around expressions, as node constructors."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from lark import Token

from finchlang.forms import Broadcast, Comprehension, Lambda, Local, Try
from finchlang.source import FinchError, Span
from finchlang.syntax import Call, Group, KeywordCall, Node, Range, Script, Variable
from finchlang.text.annotation_builder import AnnotationBuilder
from finchlang.text.kernel_builder import nodes

#: packages of Julia that `using` may name, since what is here of them is there from the start
PACKAGES = frozenset(("Finch", "LinearAlgebra", "SparseArrays", "Statistics", "Random", "Test"))


class FormsBuilder(AnnotationBuilder):
    """The callbacks of these rules."""

    @abstractmethod
    def call(self, parts: list) -> Node:
        """A call."""

    @abstractmethod
    def negative(self, parts: list) -> Node:
        """A number with its minus."""

    def product(self, parts: list) -> Node:
        """`2x`, where a name stands right after a number."""
        if isinstance(parts[2], Range):
            raise FinchError("syntax", "a range is no factor", parts[2].span)
        return Call(Variable("*", span=parts[2].span), (parts[0], parts[2]), span=self.over(parts))

    def negated_product(self, parts: list) -> Node:
        return self.product([self.negative(parts[:2]), *parts[2:]])

    def piped(self, parts: list) -> Node:
        return Call(parts[2], (parts[0],), span=self.over(parts))

    def transposed(self, parts: list) -> Node:
        return Call(Variable("adjoint", span=self.at(parts[1])), (parts[0],), span=self.over(parts))

    def last(self, parts: list) -> Node:
        return Variable("end", span=self.at(parts[0]))

    def broadcast(self, parts: list) -> Node:
        return Broadcast(parts[0], nodes(parts[1:]), span=self.over(parts))

    def lambda_(self, parts: list) -> Node:
        left = parts[0]
        names = left.items if isinstance(left, Group) else (left,)
        message = "the parameters of a function are names, as in `(x, y) -> x + y`"
        parameters = tuple(self.name(name, message) for name in names)
        return Lambda(parameters, parts[2], span=self.over(parts))

    def do_call(self, parts: list) -> Node:
        """`f(args) do x ... end`: a function that is the first argument."""
        at = next(k for k, p in enumerate(parts) if isinstance(p, Token) and p.type == "DO")
        start = next(k for k, p in enumerate(parts) if isinstance(p, Token) and p.type == "_SEP")
        names = tuple(self.name(n) for n in nodes(parts[at:start]))
        body = Script(nodes(parts[start:]), span=self.over(parts[start + 1 :]))
        function = Lambda(names, body, span=self.over(parts[at:]))
        call = self.call(parts[:at])
        assert isinstance(call, (Call, KeywordCall))
        return replace(call, args=(function, *call.args), span=self.over(parts))

    def comprehension(self, parts: list) -> Node:
        return self.each(parts[1], parts[2:], self.over(parts))

    def call_of_each(self, parts: list) -> Node:
        each = self.each(parts[2], parts[3:], self.over(parts[2:-1]))
        return Call(parts[0], (each,), span=self.over(parts))

    def each(self, value: Node, parts: list, span: Span | None) -> Node:
        loops = [p for p in parts if isinstance(p, tuple)]
        words = [p.type for p in parts if isinstance(p, Token)]
        conditions = nodes(parts)
        names, iterables = zip(*loops, strict=True)
        is_grid = words.count("EACH") == 1 and not conditions
        return Comprehension(
            value, names, iterables, conditions[0] if conditions else None, is_grid, span=span
        )

    def local(self, parts: list) -> Node:
        values = tuple(p for p in parts if isinstance(p, tuple))
        return Local(values, parts[-2], span=self.over(parts))

    def try_(self, parts: list) -> Node:
        """The parts up to `catch`, up to `finally` and after it; a statement after `catch` on its line
        is no name."""
        words = [p if isinstance(p, Token) else "" for p in parts] + ["finally"]
        last = words.index("finally")
        caught = words.index("catch") if "catch" in words else last
        name, handler = "", None
        if caught < last:
            given = parts[caught + 1 : last]
            if given and isinstance(given[0], Variable):
                name, given = given[0].name, given[1:]
            handler = Script(nodes(given), span=self.over(parts[caught:last]))
        final = parts[last + 1] if last < len(parts) else None
        if handler is None and final is None:
            hint = "write `catch` and what is then to be done before its `end`"
            raise FinchError("syntax", "this `try` catches nothing", self.at(parts[0]), hint)
        return Try(parts[1], name, handler, final, span=self.over(parts))

    def using(self, parts: list) -> Node:
        """A package whose functions are there: nothing is to be done."""
        for package in nodes(parts):
            if self.name(package) not in PACKAGES:
                message = "there are no packages: the language has what is there from the start"
                hint = "take the line out; the text of another file is read by `include`"
                raise FinchError("syntax", message, self.at(parts[0]), hint)
        return Script((), span=self.over(parts))

    def operator_argument(self, parts: list) -> Node:
        return self.operator(parts[0])
