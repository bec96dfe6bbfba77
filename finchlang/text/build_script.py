"""The grammar's rules and tokens as node constructors: what Lark calls while it parses."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from itertools import count, islice
from typing import Any

from lark import Token

from finchlang.base.errors import FinchError, Span, write
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.types import named_type
from finchlang.text import literals
from finchlang.text.build_kernel import KernelBuilder, nodes, placed, syntax_error, tuples
from finchlang.text.print import pretty

#: packages of Julia that `using` may name; what we have of them needs no import
PACKAGES = frozenset(("Finch", "LinearAlgebra", "SparseArrays", "Statistics", "Random", "Test"))

#: a parameter's name, type and default
Parameter = tuple[str, str | None, ast.Node | None]
CONSTANTS = {"true": True, "false": False, "missing": ast.MISSING, "nothing": ast.NOTHING}
CONSTANTS |= {"pi": math.pi, "π": math.pi, "ℯ": math.e}
ALL, REST = slice(None), slice(1, None)


def _made(kind: Any, *picks: int | slice) -> Any:
    """A callback that makes a node of some parts of its rule, those of a slice as a tuple of nodes."""

    def make(self: Builder, parts: list) -> ast.Node:
        return kind(*(nodes(parts[p]) if isinstance(p, slice) else parts[p] for p in picks))

    return make


def _calls(name: str) -> Any:
    """A callback for an operator, its second part, that calls the function `name` of the other parts."""

    def make(self: Builder, parts: list) -> ast.Node:
        return ast.Call(ast.Variable(name, span=self.at(parts[1])), nodes(parts))

    return make


def unused_names(size: int, parts: list) -> tuple[str, ...]:
    """So many names that none of these expressions has."""
    used = {n.name for part in parts for n in trees.find_all(part, ast.Variable)}
    names = (f"x{n}" for n in count(1))
    return tuple(islice((name for name in names if name not in used), size))


@placed
class Builder(KernelBuilder):
    """One method for each rule (or alias) of `grammar/finch.lark`, and for each token that is an operand.

    The rules of expressions and of the script stratum are here, the less common ones first; those of the
    kernel stratum are inherited.
    """

    subscripted = _made(ast.Access, 0, REST)
    group = _made(ast.Group, ALL)
    colon = _made(ast.Colon)
    splat = _made(ast.Splat, 0)
    script = body = _made(ast.Script, ALL)
    while_ = _made(ast.While, 1, 2)
    break_ = _made(ast.Break)
    continue_ = _made(ast.Continue)
    piped = _made(ast.Call, 2, slice(1))
    begin = _made(lambda inner: ast.Script(inner.statements), 1)
    directory = _made(lambda: ast.Macro("__DIR__", ()))
    last = _made(lambda: ast.Variable("end"))
    interpolation = _made(lambda expression: expression, 0)
    parametric = _made(lambda name, given: ast.Parametric(name.name, given), 0, REST)
    vector = _made(lambda items: ast.Rows((items,) if items else (), False), ALL)
    return_ = _made(lambda given: ast.Return(*given or (None,)), REST)
    time = _made(lambda word, value: ast.Macro(word[1:], (value,)), 0, 1)
    transposed = _calls("adjoint")
    conditional = _calls("ifelse")

    def product(self, parts: list) -> ast.Node:
        """`2x`: a number directly before a name."""
        if isinstance(parts[2], ast.Extent):
            raise syntax_error("a range is no factor", parts[2])
        return ast.Call(ast.Variable("*", span=parts[2].span), (parts[0], parts[2]))

    def negated_product(self, parts: list) -> ast.Node:
        return self.product([self.negative(parts[:2]), *parts[2:]])

    def lambda_(self, parts: list) -> ast.Node:
        left = parts[0]
        names = left.items if isinstance(left, ast.Group) else (left,)
        if isinstance(left, ast.Call) and left.op == ast.Variable("fun"):
            code = f"({', '.join(map(pretty, left.args))})"
            raise syntax_error("a function without a name has none", left, write(code))
        message = "the parameters of a function are names, as in `(x, y) -> x + y`"
        parameters = tuple(self.name(name, message) for name in names)
        return ast.Lambda(parameters, parts[2])

    def do_call(self, parts: list) -> ast.Node:
        """`f(args) do x ... end`: the block is a function, and the first argument."""
        kinds = [getattr(p, "type", None) for p in parts]
        at, start = kinds.index("DO"), kinds.index("_SEP" if "_SEP" in kinds else "END")
        names = tuple(self.name(n) for n in nodes(parts[at:start]))
        body = ast.Script(nodes(parts[start:]), span=self.over(parts[start + 1 :] or parts[-1:]))
        function = ast.Lambda(names, body, span=self.over(parts[at:]))
        call = self.call(parts[:at])
        assert isinstance(call, (ast.Call, ast.KeywordCall))
        return replace(call, args=(function, *call.args), span=self.over(parts))

    def comprehension(self, parts: list) -> ast.Node:
        return self.each(parts[1], parts[2:])

    def call_of_each(self, parts: list) -> ast.Node:
        end = -3 if parts[-3].type == "SEMI" else -1
        each = self.each(parts[2], parts[3:end])
        args = (replace(each, span=self.over(parts[2:end])),)
        call = ast.Call(parts[0], args)
        return call if end == -1 else ast.KeywordCall(parts[0], args, (parts[-2],))

    def typed_each(self, parts: list) -> ast.Node:
        return self.typed_array(parts, self.each(parts[2], parts[3:]))

    def typed_matrix(self, parts: list) -> ast.Node:
        rows = parts[1:] if tuples(parts) else [parts[1], nodes(parts[2:]), parts[-1]]
        return self.typed_array(parts, self.matrix(rows))

    def typed_array(self, given: list, array: ast.Node) -> ast.Node:
        """`Int[1 2; 3 4]` is `Int.([1 2; 3 4])`."""
        if named_type(getattr(given[0], "name", "")) is None:
            raise syntax_error("a type stands before the brackets of an array", given[0])
        return ast.Broadcast(given[0], (replace(array, span=self.over(given[1:])),))

    def each(self, value: ast.Node, parts: list) -> ast.Node:
        names, iterables = zip(*tuples(parts), strict=True)
        condition = next(iter(nodes(parts)), None)
        words = [p.type for p in parts if isinstance(p, Token)]
        is_grid = words.count("EACH") == 1 and condition is None
        return ast.Comprehension(value, names, iterables, condition, is_grid)

    def local(self, parts: list) -> ast.Node:
        return ast.Local(tuples(parts), parts[-2])

    def try_(self, parts: list) -> ast.Node:
        """The parts up to `catch`, up to `finally` and after it. A name stands in the line of `catch`."""
        words = [p if isinstance(p, Token) else "" for p in parts] + ["finally"]
        last = words.index("finally")
        caught = words.index("catch") if "catch" in words else last
        name, handler = "", None
        if caught < last:
            given = parts[caught + 1 : last]
            if given and isinstance(given[0], ast.Variable):
                name, given = given[0].name, given[1:]
            handler = ast.Script(nodes(given), span=self.over(parts[caught:last]))
        final = parts[last + 1] if last < len(parts) else None
        if handler is None and final is None:
            hint = "write `catch` and what is then to be done before its `end`"
            raise syntax_error("this `try` catches nothing", self.at(parts[0]), hint)
        return ast.Try(parts[1], name, handler, final)

    def using(self, parts: list) -> ast.Node:
        for package in nodes(parts):
            if self.name(package) not in PACKAGES:
                message = "there are no packages: all names are built in"
                hint = "take the line out; the text of another file is read by `include`"
                raise syntax_error(message, self.at(parts[0]), hint)
        return ast.Script(())

    def operator_argument(self, parts: list) -> ast.Node:
        return self.operator(parts[0])

    def partly_applied(self, parts: list) -> ast.Node:
        """`>(a)`, the function `x -> x > a`."""
        (name,) = unused_names(1, [parts[2]])
        args = ast.Variable(name), parts[2]
        return ast.Lambda((name,), ast.Call(self.operator(parts[0]), args, span=self.over(parts)))

    # ---------------------------------------------------------------- tokens

    def NAME(self, token: Token) -> ast.Node:
        if token in CONSTANTS:
            return ast.Literal(CONSTANTS[token], span=self.at(token))
        return ast.Variable(literals.name_of(str(token)), span=self.at(token))

    def NUMBER(self, token: Token) -> ast.Node:
        span = self.at(token)
        text = "1" if token == "begin" else str(token)  # `x[begin]` is `x[1]`
        return ast.Literal(*literals.number(text, span), span=span)

    def NUMBERS(self, token: Token) -> ast.Node:
        """A list with commas; or a matrix, whose rows end with a line or `;`."""
        inner, is_list = token[1:-1].strip(), "," in token
        lines = [inner.rstrip(",")] if is_list else filter(None, re.split(r"\s*[;\n]\s*", inner))
        rows = [json.loads(f"[{line if is_list else ','.join(line.split())}]") for line in lines]
        for k, row in enumerate(rows):
            if len(row) != len(rows[0]):
                message = f"row {k + 1} has {len(row)} elements, the first one has {len(rows[0])}"
                raise syntax_error(message, self.at(token))
        is_matrix = not is_list and len(rows[0]) > 1
        rows = rows if is_matrix else [[value for row in rows for value in row]]
        return ast.Numbers(tuple(map(tuple, rows)), is_matrix, span=self.at(token))

    def STRING(self, token: Token) -> ast.Node:
        """A string's parts: text with escapes resolved, and expressions."""
        parts: list[Any] = []
        inner, at, whole = str(token), 1, self.at(token)
        while at < len(inner) - 1:
            found: Any = literals.STRING_PART.match(inner, at, len(inner) - 1)
            piece = found[0]
            line = whole.line + inner.count("\n", 0, at)
            column = at - inner.rfind("\n", 0, at)
            column += whole.column - 1 if line == whole.line else 0
            at = found.end()
            if piece == "$(":
                stop = literals.closing(inner, at)
                parts.append(self.expression_at(inner[at:stop], line, column + 2))
                at = stop + 1
            elif piece == "$":
                here = Span(self.source, line, column, line, column + 1)
                hint = "a dollar sign itself is written `\\$`"
                raise syntax_error("a name or `(` must follow `$` in a string", here, hint)
            elif piece[0] == "$":
                parts.append(self.expression_at(piece[1:], line, column + 1))
            else:
                here = Span(self.source, line, column, line, column + len(piece))
                text = literals.escaped(piece, here) if piece[0] == "\\" else piece
                before = parts.pop() if parts and isinstance(parts[-1], str) else ""
                parts += [before + text] if before + text else []
        return ast.Text(tuple(parts), span=whole)

    def UNDERSCORE(self, token: Token) -> ast.Node:
        return ast.Variable("_", span=self.at(token))

    # ---------------------------------------------------------------- expressions

    def binary(self, parts: list) -> ast.Node:
        left, sign, right = parts
        if sign == "=>":
            return literals.pair(self.operator(sign), (left, right))
        if sign == "^" and _is_fraction(left, right):
            message = "an integer to a negative power is a fraction, and no integer"
            hint = write(f"{left.value}.0 ^ {right.value}")
            raise FinchError("type", message, self.over(parts), hint)
        return ast.Call(self.operator(sign), (left, right))

    def compare(self, parts: list) -> ast.Node:
        """`a < b <= c` is `a < b && b <= c`."""
        whole = self.binary(parts[:3])
        sign = ".&&" if any(str(sign)[0] == "." for sign in parts[1::2]) else "&&"
        for k in range(3, len(parts), 2):
            joint, one = ast.Variable(sign, span=self.at(parts[k])), parts[k - 1 : k + 2]
            whole = ast.Call(joint, (whole, self.binary(one)), span=self.over(parts))
        return whole

    def range_(self, parts: list) -> ast.Node:
        step = parts[2] if len(parts) == 5 else None
        return ast.Extent(parts[0], parts[-1], step)

    def prefixed(self, parts: list) -> ast.Node:
        return ast.Call(self.operator(parts[0]), (parts[1],))

    def negative(self, parts: list) -> ast.Node:
        sign, literal = parts
        if isinstance(literal, Token):  # LEAST, whose negative alone is an Int64
            literal = ast.Literal(int(literal))
        if literal.type is not None and literal.type.startswith("U"):
            return self.prefixed(parts)
        return ast.Literal(-literal.value, literal.type)

    def negated_power(self, parts: list) -> ast.Node:
        return self.prefixed([parts[0], self.binary(parts[1:])])

    def parenthesised(self, parts: list) -> ast.Node:
        inner = parts[1]
        if isinstance(inner, (ast.Variable, ast.Literal)):
            return inner
        return replace(inner, span=self.over(parts))

    def matrix(self, parts: list) -> ast.Node:
        rows, span = tuples(parts), self.over(parts)
        if len(rows) == len(rows[0]) == 1 and span is not None and span.text.endswith(";]"):
            return ast.call("vcat", *rows[0])  # `[1:3;]`, as in Julia
        if all(len(row) == 1 for row in rows):  # `[1; 2]` is a vector, as in Julia
            return ast.Rows(rows, False)
        are_numbers = all(isinstance(entry, ast.Literal) for row in rows for entry in row)
        for row in rows:
            if len(row) != len(rows[0]) and are_numbers:  # others may be arrays of any size
                message = f"this row has {len(row)} elements, the first one has {len(rows[0])}"
                assert row[0].span is not None and row[-1].span is not None
                raise syntax_error(message, row[0].span.to(row[-1].span))
        return ast.Rows(rows, True)

    def keyword(self, parts: list) -> tuple[str, ast.Node]:
        return self.name(parts[0]), parts[2]

    def keywords(self, parts: list) -> tuple[tuple[str, ast.Node], ...]:
        """The named arguments of a call, which are the last ones."""
        found = tuples(parts)
        if found and nodes(parts[parts.index(found[0]) :]):
            raise syntax_error("an argument without a name follows one with", self.over(parts))
        return found

    def broadcast(self, parts: list) -> ast.Node:
        """`op.(args...; k = v)`, which is `((x1, ...) -> op(x1, ...; k = v)).(args...)`."""
        span, op, args = self.over(parts), parts[0], nodes(parts[1:])
        if keywords := self.keywords(parts):
            names = unused_names(len(args), [op, *(value for _, value in keywords)])
            call = ast.KeywordCall(op, tuple(map(ast.Variable, names)), keywords, span=span)
            op = ast.Lambda(names, call, span=span)
        return ast.Broadcast(op, args)

    def call(self, parts: list) -> ast.Node:
        op, args = parts[0], nodes(parts[1:])
        if keywords := self.keywords(parts):
            return ast.KeywordCall(op, args, keywords)
        known = named_type(op.name) if isinstance(op, ast.Variable) and len(args) == 1 else None
        if known is not None:
            return literals.typed_literal(known, args[0], op, self.over(parts))
        if isinstance(op, ast.Variable) and op.name == "rem" and len(args) == 2:
            op = ast.Variable("%", span=op.span)
        return ast.Call(op, args)

    # ---------------------------------------------------------------- script statements

    def let(self, parts: list) -> ast.Node:
        """Assignment, tuple assignment, and `f(x) = ...`."""
        targets = nodes(parts[:-1])
        match targets:
            case (ast.Call(ast.Variable(name)) | ast.KeywordCall(ast.Variable(name)) as head,):
                parameters = self.head(head, parts[-1], self.over(parts))
                return self.defined(name, parameters, parts[-1])
            case (ast.Group(items),):
                targets = items
        for target in targets:
            self.settable(target)
        return ast.Let(targets, None, parts[-1])

    def update(self, parts: list) -> ast.Node:
        target, sign, value = parts
        self.settable(target)
        op = str(sign)[:-1]
        return ast.Let((target,), literals.SPELLINGS.get(op, op), value)

    def fill_in(self, parts: list) -> ast.Node:
        """`x .= e`, and `x .+= e` as `x .= x .+ e`: a call that sets the elements."""
        target, sign, value = parts
        self.settable(target)
        span, op = self.over(parts), str(sign)[:-1]
        if op != ".":
            value = ast.Call(ast.Variable(op, span=self.at(sign)), (target, value), span=span)
        return ast.Call(ast.Variable(".=", span=self.at(sign)), (target, value))

    def settable(self, target: ast.Node) -> None:
        while isinstance(target, ast.Access):
            target = target.tensor
        if not isinstance(target, ast.Variable):
            hint: str = "assign to a name or to an element, as in `x = 1` or `x[2] = 1`"
            if isinstance(target, ast.Rows) and len(target.rows) == 1:
                hint = write(", ".join(map(pretty, target.rows[0])))
            elif isinstance(target, ast.Typed):
                hint = write(target.name.name)
            elif target.span is not None and target.span.text in CONSTANTS:
                hint = f"`{target.span.text}` is a constant: take the line out"
            elif isinstance(target, ast.Group):
                hint = "take the parts in two steps: `p, c = (1, 2), 3; a, b = p`"
            raise syntax_error("this cannot be assigned to", target, hint)

    def function(self, parts: list) -> ast.Node:
        return self.defined(self.name(parts[1]), tuples(parts), parts[-2])

    def parameter(self, parts: list) -> Parameter:
        kinds = [p for p in parts if isinstance(p, Token)]
        type = self.name(parts[2]) if kinds and kinds[0] == "::" else None
        type = "Vararg" if kinds and kinds[0] == "..." else type
        return self.name(parts[0]), type, parts[-1] if kinds and kinds[-1] == "=" else None

    def defined(self, name: str, parameters: Any, body: ast.Node) -> ast.Node:
        names = tuple(n for n, _, _ in parameters)
        types = tuple((n, type) for n, type, _ in parameters if type is not None)
        defaults = tuple((n, given) for n, _, given in parameters if given is not None)
        return ast.Function(name, names, body, defaults, types)

    def head(
        self, call: ast.Call | ast.KeywordCall, body: ast.Node, span: Span | None
    ) -> list[Parameter]:
        """The parameters of `f(x, y::Int, z = 1) = ...`, which has been parsed as a call."""
        found: list[Parameter] = []
        for node in call.args:
            type = node.kind if isinstance(node, ast.Typed) else None
            node = node.name if isinstance(node, ast.Typed) else node
            if isinstance(node, ast.Splat):
                type, node = "Vararg", node.value
            if isinstance(node, ast.Literal) and node.span is not None and node.span.text.isalpha():
                self.name(node)
            if not isinstance(node, ast.Variable):
                at = pretty(ast.Access(call.op, call.args))
                hint = write(f"{at} = {pretty(body)}", span)
                if isinstance(body, ast.Rows) and not any(body.rows):  # MATLAB's deletion
                    name, index = pretty(call.op), pretty(node)
                    hint = write(f"{name} = {name}[(1:length({name})) .!= {index}]", span)
                message = "a function's parameters are names, and an entry is in brackets"
                raise syntax_error(message, call, hint)
            found.append((node.name, type, None))
        keywords = call.keywords if isinstance(call, ast.KeywordCall) else ()
        return [*found, *((name, None, given) for name, given in keywords)]

    def binding(self, parts: list) -> tuple[tuple[str, ...], ast.Node]:
        *names, iterable = nodes(parts)
        return tuple(self.name(n) for n in names), iterable

    def for_(self, parts: list) -> ast.Node:
        span, body = self.over(parts), parts[-2]
        bindings = tuples(parts)
        for k, (names, iterable) in reversed([*enumerate(bindings)]):
            inner = body if isinstance(body, ast.Script) else ast.Script((body,), span=span)
            whole = names[0] if len(names) == 1 else f"({', '.join(names)})"
            own = names if len(names) > 1 else ()
            body = ast.For(whole, iterable, inner, own, k > 0, span=span)
        return body

    def if_(self, parts: list) -> ast.Node:
        rest = nodes(parts)
        if len(rest) % 2:
            rest = (*rest[:-1], ast.Literal(True), rest[-1])
        return ast.If(tuple(zip(rest[::2], rest[1::2], strict=True)))

    def guarded(self, parts: list) -> ast.Node:
        """`c && return x` is `if c ... end`, and `c || break` is `if !c ... end`."""
        condition, sign, leaving = parts
        if sign == "||":
            condition = ast.Call(ast.Variable("!"), (condition,), span=condition.span)
        body = ast.Script((leaving,), span=leaving.span)
        return ast.If(((condition, body),))

    def law(self, parts: list) -> ast.Node:
        self.name(parts[0])
        given = nodes(parts[1:])
        return ast.Call(parts[0], given) if given else parts[0]

    def properties(self, parts: list) -> ast.Node:
        self.name(parts[1])
        found = nodes([ast.Variable(p) if p == "where" else p for p in parts[1:]])
        return ast.Macro("properties", found)

    def law_of_call(self, parts: list) -> ast.Node:
        word, call, value = parts[0], parts[1], parts[3]
        if not isinstance(call, ast.Call) or not isinstance(call.op, ast.Variable):
            hint = f"write `{word} f(x, y) = ...`"
            raise syntax_error(f"`{word}` is about a call of a function", call, hint)
        return ast.Macro(str(word)[1:], (call, value))

    def staged(self, parts: list) -> ast.Node:
        if parts[1] not in (ast.Literal(True), ast.Literal(False)):
            hint = "`@staged false` before a function or loop has it run kernel by kernel"
            raise syntax_error("`@staged` is true or false", parts[1], hint)
        return ast.Macro("staged", (parts[1],))

    def assert_(self, parts: list) -> ast.Node:
        args = nodes(parts)
        if len(args) == 1 and isinstance(args[0], ast.Group) and len(args[0].items) == 2:
            args = args[0].items  # `@assert(condition, "message")`
        return ast.Macro("assert", args)

    def array(self, parts: list) -> ast.Node:
        """`@array C = value`, the same as `C = @array value`."""
        value = ast.Macro("array", (parts[-1],), span=self.over(parts))
        if len(parts) == 2:
            return value
        self.name(parts[1], "`@array` makes an array of a name: `@array C = A .* B`")
        return ast.Let((parts[1],), None, value)

    def einsum(self, parts: list) -> ast.Node:
        """`@einsum C[i, j] += value`: the target's indices, the operator, and the value as in a kernel."""
        _, target, *sign, value = parts
        hint = "`@einsum` makes an array of a name: `@einsum C[i] += A[i, j]`"
        if isinstance(target, ast.Variable):
            hint = write(f"{target.name}[]")
        if not isinstance(target, ast.Access):
            raise syntax_error("this is no array with its indices", target, hint)
        self.name(target.tensor, hint)
        op = sign[0] if len(sign) == 2 else self.assign([target, sign[0], value]).op  # type: ignore[attr-defined]
        made = self.einsum_of(target.indices, op, value, self.over(parts))
        return ast.Let((target.tensor,), None, made)

    def kernel(self, parts: list) -> ast.Node:
        *annotations, finch, program = parts
        span = self.at(finch).to(program.span)
        whole = self.finished(program)
        if annotations:
            given = [a for line in annotations if isinstance(line, tuple) for a in line]
            whole = ast.Annotated(self.annotations(given, whole), whole, span=span)
        return ast.KernelNode(whole, span=span)


def _is_fraction(base: ast.Node, exponent: ast.Node) -> bool:
    """Whether a power of integer literals is a fraction: a negative one, unless of 1 or -1."""
    values = [n.value for n in (base, exponent) if isinstance(n, ast.Literal)]
    if [type(value) for value in values] != [int, int]:
        return False
    return values[1] < 0 and abs(values[0]) != 1
