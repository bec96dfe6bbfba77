"""The grammar's rules and tokens as node constructors: what Lark calls while it parses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lark import Token

from finchlang.source import FinchError, Span
from finchlang.syntax import (
    MISSING,
    NOTHING,
    Annotated,
    Break,
    Call,
    Colon,
    Continue,
    For,
    Function,
    Group,
    If,
    KernelNode,
    KeywordCall,
    Let,
    Literal,
    Macro,
    Node,
    Parametric,
    Range,
    Return,
    Rows,
    Script,
    Subscript,
    Text,
    Typed,
    Variable,
    While,
)
from finchlang.text.annotation_builder import einsum_of
from finchlang.text.forms_builder import FormsBuilder
from finchlang.text.kernel_builder import nodes
from finchlang.text.literals import (
    SPELLINGS,
    STRING_PART,
    closing,
    escaped,
    number,
    pair,
    typed_literal,
)
from finchlang.types import named_type

CONSTANTS = {"true": True, "false": False, "missing": MISSING, "nothing": NOTHING}


class Builder(FormsBuilder):
    """One method a rule (or alias) of `grammar/finch.lark`, and a token where it is an operand.

    The rules of expressions and of the script stratum; those of the kernel stratum are inherited.
    """

    # ---------------------------------------------------------------- tokens

    def NAME(self, token: Token) -> Node:
        if token in CONSTANTS:
            return Literal(CONSTANTS[token], span=self.at(token))
        return Variable(str(token), span=self.at(token))

    def NUMBER(self, token: Token) -> Node:
        span = self.at(token)
        value, type_name = number(str(token), span)
        return Literal(value, type_name, span=span)

    def STRING(self, token: Token) -> Node:
        """A string's parts: stretches of text, with escapes resolved, and expressions."""
        parts: list[Any] = []
        inner, at, whole = str(token), 1, self.at(token)
        while at < len(inner) - 1:
            found = STRING_PART.match(inner, at, len(inner) - 1)
            assert found is not None
            piece = found[0]
            line = whole.line + inner.count("\n", 0, at)
            column = at - inner.rfind("\n", 0, at)
            column += whole.column - 1 if line == whole.line else 0
            at = found.end()
            if piece == "$(":
                stop = closing(inner, at)
                parts.append(self.expression_at(inner[at:stop], line, column + 2))
                at = stop + 1
            elif piece == "$":
                here = Span(self.source, line, column, line, column + 1)
                hint = "a dollar sign itself is written `\\$`"
                raise FinchError("syntax", "a name or `(` must follow `$` in a string", here, hint)
            elif piece[0] == "$":
                parts.append(self.expression_at(piece[1:], line, column + 1))
            else:
                here = Span(self.source, line, column, line, column + len(piece))
                text = escaped(piece, here) if piece[0] == "\\" else piece
                if parts and isinstance(parts[-1], str):
                    parts[-1] += text
                elif text:
                    parts.append(text)
        return Text(tuple(parts), span=whole)

    def UNDERSCORE(self, token: Token) -> Node:
        return Variable("_", span=self.at(token))

    # ---------------------------------------------------------------- expressions

    def conditional(self, parts: list) -> Node:
        op = Variable("ifelse", span=self.at(parts[1]))
        return Call(op, (parts[0], parts[2], parts[4]), span=self.over(parts))

    def binary(self, parts: list) -> Node:
        left, sign, right = parts
        if sign == "=>":
            return pair(self.operator(sign), (left, right), self.over(parts))
        if sign == "^" and _is_fraction(left, right):
            hint = f"write `{left.value}.0 ^ {right.value}`"
            message = "an integer to a negative power is a fraction, and no integer"
            raise FinchError("type", message, self.over(parts), hint)
        return Call(self.operator(sign), (left, right), span=self.over(parts))

    def compare(self, parts: list) -> Node:
        """`a < b <= c` is `a < b && b <= c`."""
        whole: Node | None = None
        for k in range(1, len(parts), 2):
            one = self.binary(parts[k - 1 : k + 2])
            joint = Variable("&&", span=self.at(parts[k]))
            whole = one if whole is None else Call(joint, (whole, one), span=self.over(parts))
        assert whole is not None
        return whole

    def range_(self, parts: list) -> Node:
        step = parts[2] if len(parts) == 5 else None
        return Range(parts[0], step, parts[-1], span=self.over(parts))

    def prefixed(self, parts: list) -> Node:
        return Call(self.operator(parts[0]), (parts[1],), span=self.over(parts))

    def negative(self, parts: list) -> Node:
        sign, literal = parts
        if literal.type is not None and literal.type.startswith("U"):
            return self.prefixed(parts)
        return Literal(-literal.value, literal.type, span=self.over(parts))

    def negated_power(self, parts: list) -> Node:
        return self.prefixed([parts[0], self.binary(parts[1:])])

    def directory(self, parts: list) -> Node:
        return Macro("__DIR__", (), span=self.over(parts))

    def parenthesised(self, parts: list) -> Node:
        inner = parts[1]
        if isinstance(inner, (Variable, Literal)):
            return inner
        return replace(inner, span=self.over(parts))

    def group(self, parts: list) -> Node:
        return Group(nodes(parts), span=self.over(parts))

    def vector(self, parts: list) -> Node:
        items = nodes(parts)
        return Rows((items,) if items else (), False, span=self.over(parts))

    def row(self, parts: list) -> tuple[Node, ...]:
        return nodes(parts)

    def matrix(self, parts: list) -> Node:
        rows = tuple(p for p in parts if isinstance(p, tuple))
        if all(len(row) == 1 for row in rows):  # `[1; 2]` is a vector, as in Julia
            return Rows((tuple(row[0] for row in rows),), False, span=self.over(parts))
        for row in rows:
            if len(row) != len(rows[0]):
                message = f"this row has {len(row)} elements, the first one has {len(rows[0])}"
                assert row[0].span is not None and row[-1].span is not None
                raise FinchError("syntax", message, row[0].span.to(row[-1].span))
        return Rows(rows, True, span=self.over(parts))

    def subscripted(self, parts: list) -> Node:
        return Subscript(parts[0], nodes(parts[1:]), span=self.over(parts))

    def colon(self, parts: list) -> Node:
        return Colon(span=self.over(parts))

    def parametric(self, parts: list) -> Node:
        return Parametric(parts[0].name, nodes(parts[1:]), span=self.over(parts))

    def keyword(self, parts: list) -> tuple[str, Node]:
        return self.name(parts[0]), parts[2]

    def call(self, parts: list) -> Node:
        span = self.over(parts)
        op, args = parts[0], nodes(parts[1:])
        keywords = tuple(p for p in parts if isinstance(p, tuple))
        if keywords:
            first = next(k for k, p in enumerate(parts) if isinstance(p, tuple))
            if any(isinstance(p, Node) for p in parts[first:]):
                raise FinchError("syntax", "an argument without a name follows one with", span)
            return KeywordCall(op, args, keywords, span=span)
        known = named_type(op.name) if isinstance(op, Variable) and len(args) == 1 else None
        if known is not None:
            return typed_literal(known, args[0], op, span)
        if isinstance(op, Variable) and op.name == "rem" and len(args) == 2:
            op = Variable("%", span=op.span)
        return Call(op, args, span=span)

    # ---------------------------------------------------------------- script statements

    def script(self, parts: list) -> Node:
        return Script(nodes(parts), span=self.over(parts))

    body = script

    def interpolation(self, parts: list) -> Node:
        return parts[0]

    def let(self, parts: list) -> Node:
        """Assignment, tuple assignment, and `f(x) = ...`."""
        targets, span = nodes(parts[:-1]), self.over(parts)
        target = targets[0]
        if len(targets) == 1:
            if isinstance(target, (Call, KeywordCall)) and isinstance(target.op, Variable):
                return self.defined(target.op.name, self.head(target), parts[-1], span)
            if isinstance(target, Group):
                targets = target.items
        for target in targets:
            self.settable(target)
        return Let(targets, None, parts[-1], span=span)

    def update(self, parts: list) -> Node:
        target, sign, value = parts
        self.settable(target)
        op = str(sign)[:-1]
        return Let((target,), SPELLINGS.get(op, op), value, span=self.over(parts))

    def settable(self, target: Node) -> None:
        if isinstance(target, Subscript):
            target = target.object
        if not isinstance(target, Variable):
            hint = "assign to a name or to an element, as in `x = 1` or `x[2] = 1`"
            raise FinchError("syntax", "this cannot be assigned to", target.span, hint)

    def function(self, parts: list) -> Node:
        parameters = [p for p in parts if isinstance(p, tuple)]
        return self.defined(self.name(parts[1]), parameters, parts[-2], self.over(parts))

    def parameter(self, parts: list) -> tuple[str, str | None, Node | None]:
        """A parameter's name, type and default."""
        kinds = [p for p in parts if isinstance(p, Token)]
        type = self.name(parts[2]) if kinds and kinds[0] == "::" else None
        return self.name(parts[0]), type, parts[-1] if kinds and kinds[-1] == "=" else None

    def defined(self, name: str, parameters: list, body: Node, span: Span | None) -> Node:
        names = tuple(n for n, _, _ in parameters)
        types = tuple((n, type) for n, type, _ in parameters if type is not None)
        defaults = tuple((n, given) for n, _, given in parameters if given is not None)
        return Function(name, names, body, defaults, types, span=span)

    def head(self, call: Call | KeywordCall) -> list[tuple[str, str | None, Node | None]]:
        """The parameters of `f(x, y::Int, z = 1) = ...`, which is read as a call."""
        found: list[tuple[str, str | None, Node | None]] = []
        for node in call.args:
            type = node.kind if isinstance(node, Typed) else None
            node = node.name if isinstance(node, Typed) else node
            found.append((self.name(node, "a parameter must be a name"), type, None))
        keywords = call.keywords if isinstance(call, KeywordCall) else ()
        return [*found, *((name, None, given) for name, given in keywords)]

    def while_(self, parts: list) -> Node:
        return While(parts[1], parts[2], span=self.over(parts))

    def binding(self, parts: list) -> tuple[tuple[str, ...], Node]:
        *names, iterable = nodes(parts)
        return tuple(self.name(n) for n in names), iterable

    def for_(self, parts: list) -> Node:
        span, body = self.over(parts), parts[-2]
        for names, iterable in reversed([p for p in parts if isinstance(p, tuple)]):
            inner = body if isinstance(body, Script) else Script((body,), span=span)
            whole = names[0] if len(names) == 1 else f"({', '.join(names)})"
            body = For(whole, iterable, inner, names if len(names) > 1 else (), span=span)
        return body

    def if_(self, parts: list) -> Node:
        rest = nodes(parts)
        if len(rest) % 2:
            rest = (*rest[:-1], Literal(True), rest[-1])
        branches = tuple(zip(rest[::2], rest[1::2], strict=True))
        return If(branches, span=self.over(parts))

    def return_(self, parts: list) -> Node:
        return Return(parts[1] if len(parts) > 1 else None, span=self.over(parts))

    def guarded(self, parts: list) -> Node:
        """`c && return x` is `if c ... end`, and `c || break` is `if !c ... end`."""
        condition, sign, leaving = parts
        if sign == "||":
            condition = Call(Variable("!"), (condition,), span=condition.span)
        body = Script((leaving,), span=leaving.span)
        return If(((condition, body),), span=self.over(parts))

    def break_(self, parts: list) -> Node:
        return Break(span=self.over(parts))

    def continue_(self, parts: list) -> Node:
        return Continue(span=self.over(parts))

    def begin(self, parts: list) -> Node:
        return Script(parts[1].statements, span=self.over(parts))

    def law(self, parts: list) -> Node:
        self.name(parts[0])
        given = nodes(parts[1:])
        return Call(parts[0], given, span=self.over(parts)) if given else parts[0]

    def properties(self, parts: list) -> Node:
        self.name(parts[1])
        found = nodes([Variable(p) if p == "where" else p for p in parts[1:]])
        return Macro("properties", found, span=self.over(parts))

    def law_of_call(self, parts: list) -> Node:
        word, call, value = parts[0], parts[1], parts[3]
        if not isinstance(call, Call) or not isinstance(call.op, Variable):
            hint = f"write `{word} f(x, y) = ...`"
            raise FinchError("syntax", f"`{word}` is about a call of a function", call.span, hint)
        return Macro(str(word)[1:], (call, value), span=self.over(parts))

    def time(self, parts: list) -> Node:
        return Macro(str(parts[0])[1:], (parts[1],), span=self.over(parts))

    def assert_(self, parts: list) -> Node:
        args = nodes(parts)
        if len(args) == 1 and isinstance(args[0], Group) and len(args[0].items) == 2:
            args = args[0].items  # `@assert(condition, "message")`
        return Macro("assert", args, span=self.over(parts))

    def array(self, parts: list) -> Node:
        """`@array C = value`, the same as `C = @array value`."""
        span = self.over(parts)
        value = Macro("array", (parts[-1],), span=span)
        if len(parts) == 2:
            return value
        self.name(parts[1], "`@array` makes an array of a name: `@array C = A .* B`")
        return Let((parts[1],), None, value, span=span)

    def einsum(self, parts: list) -> Node:
        """`@einsum C[i, j] += value`: the target's indices, the operator, and the value as in a kernel."""
        _, target, *sign, value = parts
        span = self.over(parts)
        hint = "`@einsum` makes an array of a name: `@einsum C[i] += A[i, j]`"
        if not isinstance(target, Subscript):
            raise FinchError("syntax", "this is no array with its indices", target.span, hint)
        self.name(target.object, hint)
        op = sign[0] if len(sign) == 2 else self.assign([target, sign[0], value]).op  # type: ignore[attr-defined]
        return Let((target.object,), None, einsum_of(target.indices, op, value, span), span=span)

    def kernel(self, parts: list) -> Node:
        *annotations, finch, program = parts
        span = self.at(finch).to(program.span)
        whole = self.finished(program)
        if annotations:
            given = [a for line in annotations if isinstance(line, tuple) for a in line]
            whole = Annotated(self.annotations(given, whole), whole, span=span)
        return KernelNode(whole, span=span)


def _is_fraction(base: Node, exponent: Node) -> bool:
    """Whether a power of two literals is of an integer, and no integer: that of 1 and -1 is."""
    if not (isinstance(base, Literal) and isinstance(exponent, Literal)):
        return False
    are_whole = type(base.value) is int and type(exponent.value) is int
    return are_whole and exponent.value < 0 and abs(base.value) != 1
