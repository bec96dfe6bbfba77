"""The kernel stratum's rules as node constructors, those of annotations (Workspaces'24 section 6.1) and
`@einsum` with them, and the walk that finishes a kernel.

While a kernel is parsed its expressions are those of the script stratum, with which it shares the grammar.
The walk turns them into those of Fig 8a: subscripts become accesses, ranges extents, and names bound by an
enclosing `for` indices; anything that a kernel cannot have is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import isfunction
from typing import Any, TypeVar

from lark import Token

from finchlang.base.errors import FinchError, Hint, Source, Span, write
from finchlang.base.late import late
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.types import Type, named_type
from finchlang.text.lines import span_of
from finchlang.text.literals import ASSIGNMENTS, SPELLINGS, pair
from finchlang.text.print import pretty

PROTOCOLS = frozenset(("walk", "gallop", "follow"))

#: functions of scripts that make a tensor
_MAKERS = ("zeros", "ones", "fill", "rand", "similar", "copy", "collect", "Tensor", "Scalar")
_SETTINGS = ("policy", "capacity")
_SIGN = re.compile(r"[-+*/&|%^~!÷⊻<>≤≥≠]|&&|\|\||[=!<>]=|<<|>>")
_NO_PLACE = {
    ast.Text: "a string",
    ast.Rows: "an array literal",
    ast.Numbers: "an array literal",
    ast.Group: "a tuple",
    ast.Splat: "`...`",
    ast.KeywordCall: "a keyword argument",
    ast.Parametric: "a parametrised constructor",
    ast.Colon: "`:`",
    ast.Lambda: "a function without a name",
    ast.Broadcast: "a call with a dot",
    ast.Comprehension: "a comprehension",
}


def _is_of_elements(node: Any) -> bool:
    is_call = isinstance(node, ast.Call) and isinstance(node.op, ast.Variable)
    return is_call and late("is_of_elements")(node.op.name)


def _of_entries(node: Any, indices: tuple[ast.Node, ...]) -> Any:
    """An expression of whole tensors as one of their entries: `sqrt(x[i])` for `sqrt(x)`."""
    if _is_of_elements(node):
        return trees.replace(node, args=tuple(_of_entries(arg, indices) for arg in node.args))
    is_tensor = isinstance(node, (ast.Variable, ast.Call))
    return ast.Access(node, indices) if is_tensor else node


def nodes(parts: list) -> tuple[ast.Node, ...]:
    return tuple(p for p in parts if isinstance(p, ast.Node))


B = TypeVar("B", bound=type)


def placed(builder: B) -> B:
    """The class; nodes that its callbacks for rules make without a place have that of their parts."""
    for name, make in [*vars(builder).items()]:
        if isfunction(make) and make.__code__.co_varnames[:2] == ("self", "parts"):
            setattr(builder, name, _placing(make))
    return builder


def _placing(make: Callable[[Any, list], Any]) -> Callable[[Any, list], Any]:
    def callback(self: Any, parts: list) -> Any:
        made = make(self, parts)
        if isinstance(made, ast.Node) and made.span is None:
            object.__setattr__(made, "span", self.over(parts))
        return made

    return callback


def tuples(parts: list) -> tuple[Any, ...]:
    return tuple(p for p in parts if isinstance(p, tuple))


def syntax_error(message: str, at: Any, hint: str | None = None) -> FinchError:
    """An error at a node or span."""
    return FinchError("syntax", message, at.span if isinstance(at, ast.Node) else at, hint)


@placed
class KernelBuilder:
    """The callbacks of the grammar's rules for kernels.

    `source` is the text being parsed; `expression_at(text, line, column)` parses an expression that is at
    that place, inside a string or an operator.
    """

    source = Source("", "")
    expression_at: Callable[[str, int, int], ast.Node]

    # ---------------------------------------------------------------- helpers

    def at(self, token: Token) -> Span:
        return span_of(self.source, token)

    def over(self, given: list) -> Span | None:
        """The place from the first to the last of these parts."""
        ends = [p for p in (given[:1] + given[-1:]) if isinstance(p, (Token, ast.Node))]
        spans = [self.at(p) if isinstance(p, Token) else p.span for p in ends]
        present = [s for s in spans if s is not None]
        return present[0].to(present[-1]) if present else None

    def name(self, node: ast.Node, message: str = "a name is expected here") -> str:
        word = node.span.text if isinstance(node, ast.Literal) and node.span is not None else ""
        if word.isalpha():
            told = f"`{word}` is a constant of the language, and no name for another value"
            raise syntax_error(told, node, "choose another name")
        if not isinstance(node, ast.Variable):
            raise syntax_error(message, node)
        return node.name

    def operator(self, token: Token) -> ast.Variable:
        return ast.Variable(SPELLINGS.get(token, str(token)), span=self.at(token))

    # ---------------------------------------------------------------- statements (Fig 8a)

    def sequence(self, parts: list) -> ast.Node:
        """Statements one after the other; nested blocks are flattened, and one statement is no block."""
        return trees.block(*nodes(parts))

    kernel_body = sequence
    kernel_begin = sequence

    def program(self, parts: list) -> ast.Node:
        return self.finished(parts[0])

    def loop(self, parts: list) -> ast.Node:
        span, body = self.over(parts), parts[-2]
        bindings = tuples(parts)
        names = [index.name for index, _ in bindings]
        for n, name in enumerate(names):
            if name in names[:n]:
                hint = f"each loop has an index of its own: `for {name} = _, {name}2 = _`"
                message = f"`{name}` is the index of two of these loops"
                raise syntax_error(message, bindings[n][0].span, hint)
        for index, extent in reversed(bindings):
            body = ast.Loop(index, extent, body, span=span)
        return body

    def kernel_binding(self, parts: list) -> tuple[ast.Index, ast.Node]:
        return ast.Index(self.name(parts[0]), span=parts[0].span), _found_later(parts[2])

    def define(self, parts: list) -> ast.Node:
        span, body = self.over(parts), parts[-2]
        for variable, value in reversed(tuples(parts)):
            body = ast.Define(variable, value, body, span=span)
        return body

    def definition(self, parts: list) -> tuple[ast.Variable, ast.Node]:
        """A name with its value, which is a Formula for `T[i, j] = e`."""
        target, _, value = parts
        if not isinstance(target, ast.Access):
            self.name(target)
            return target, value
        self.name(target.tensor)
        message = "`let T[i, j] = e` names indices here"
        indices = tuple(ast.Index(self.name(i, message), span=i.span) for i in target.indices)
        if len(set(indices)) < len(indices):
            raise syntax_error("each of its indices has a name of its own", target)
        return target.tensor, ast.Formula(indices, value, span=self.over(parts))  # type: ignore[return-value]

    def sieve(self, parts: list) -> ast.Node:
        """`else` is a sieve on `!condition` with the rest of the chain, so that a chain does not grow."""
        rest, span = nodes(parts), self.over(parts)
        whole: Any = rest[-1] if len(rest) % 2 else None
        for condition, body in reversed([*zip(rest[::2], rest[1::2], strict=False)]):
            arm: ast.Node = ast.Sieve(condition, body, span=span)
            if whole is not None:
                negation = ast.Call(ast.Variable("!"), (condition,), span=condition.span)
                arm = ast.Block((arm, ast.Sieve(negation, whole, span=span)), span=span)
            whole = arm
        return whole

    def assign(self, parts: list) -> ast.Node:
        target, sign, value = parts
        if isinstance(target, ast.Variable) and sign.type == "COLON_EQ":
            return self._declaration(target, value)  # as in Fig 11
        if not isinstance(target, ast.Access):
            raise self._no_target(target, sign, value)
        if sign.type == "USER_ASSIGN":
            op = self._user_operator(sign)
        elif sign in ASSIGNMENTS:
            op = ast.Variable(ASSIGNMENTS[sign], span=self.at(sign))
        else:
            hint = write(f"<<{sign[:-1]}>>=")
            raise syntax_error(f"`{sign}` is not an assignment of kernels", self.at(sign), hint)
        return ast.Assign(target, op, value)

    def _no_target(self, target: ast.Node, sign: Token, value: Any) -> FinchError:
        hint: str | None = None
        if not isinstance(target, ast.Variable):
            if isinstance(target, ast.Call) and isinstance(target.op, ast.Variable):
                hint = write(pretty(ast.Access(target.op, target.args)))
            return syntax_error("a kernel assigns to accesses like `x[i]` or `x[]`", target, hint)
        name = target.name
        told = f"write `{name}[]`, where `{name} = Scalar(0.0)` is made before the kernel"
        is_scalar = re.search(rf"\b{name}\s*=\s*\w*Scalar\(", self.source.text) is not None
        hint = Hint(told, f"{name}[]") if is_scalar else told
        before = self.source.line(target.span.line)[: target.span.column - 1] if target.span else ""
        if re.search(r"\bfor\b[^;]*[\w)\]]\s+$", before):
            told = "the loops of one `for` have commas between them"
            return syntax_error(told, target, write(f", {name}"))
        if sign == "=":
            hint = f"`let {name} = ... end` names a value, `{name}[] = ...` sets a scalar, "
            hint += f"`{name} .= 0` resets a tensor"
            if isinstance(value, ast.Call) and getattr(value.op, "name", "") in _MAKERS:
                hint = f"a kernel makes no tensors: write `{name} = {value.op.name}(...)` before it"  # type: ignore[attr-defined]
        return syntax_error(f"a kernel assigns to accesses like `{name}[]`", target, hint)

    def _user_operator(self, sign: Any) -> ast.Node:
        inner = str(sign)[2:-3]
        text = inner.strip()
        if _SIGN.fullmatch(text):
            return ast.Variable(SPELLINGS.get(text, text), span=self.at(sign))
        op = self.expression_at(inner, sign.line, sign.column + 2)
        if not isinstance(op, (ast.Variable, ast.Call)):
            hint = "write `<<min>>=`, `<<choose(0)>>=` or `<<+>>=`"
            raise syntax_error(f"`{text}` is not an operator", op, hint)
        return op

    def declare(self, parts: list) -> ast.Node:
        if not isinstance(parts[0], ast.Variable):
            hint = "a whole tensor is declared: `A .= 0`"
            raise syntax_error("`.=` declares a tensor by its name", parts[0], hint)
        return ast.Declare(parts[0], _found_later(parts[2]))

    def _declaration(self, tensor: ast.Variable, value: ast.Node) -> ast.Declare:
        """`C := init`, or with its dimensions `C := init(1:m, 1:n)`."""
        args = value.args if isinstance(value, ast.Call) else ()
        if args and all(isinstance(arg, ast.Extent) for arg in args):
            return ast.Declare(tensor, value.op, args)  # type: ignore[attr-defined]
        return ast.Declare(tensor, value)

    def declare_called(self, parts: list) -> ast.Node:
        """`C := 0(1:m, 1:n)`: what is called is a number."""
        tensor, init, *dims = nodes(parts)
        if not isinstance(tensor, ast.Variable):
            hint = "a whole tensor is declared: `A := 0(1:n)`"
            raise syntax_error("a tensor is declared by its name", tensor, hint)
        if any(isinstance(p, Token) and p.type == "NEG" for p in parts):
            init = ast.Literal(-init.value, init.type, span=init.span)  # type: ignore[attr-defined]
        return ast.Declare(tensor, init, tuple(dims))

    def declare_sized(self, parts: list) -> ast.Node:
        self.name(parts[2])
        return self.declare_called(parts)

    def freeze(self, parts: list) -> ast.Node:
        self.name(parts[2])
        made = ast.Freeze if parts[0] == "@freeze" else ast.Thaw
        return made(parts[2])

    thaw = freeze

    def yield_(self, parts: list) -> ast.Node:
        results = nodes(parts)
        if len(results) == 1 and isinstance(results[0], ast.Group):
            results = results[0].items
        for result in results:
            if isinstance(result, ast.Access) and isinstance(result.tensor, ast.Variable):
                hint = write(result.tensor.name)
                raise syntax_error("a kernel returns whole tensors", result, hint)
            self.name(result, "a kernel returns tensors by name")
        return ast.Yield(results)  # type: ignore[arg-type]

    # ---------------------------------------------------------------- expressions (Fig 8a)

    def typed(self, parts: list) -> ast.Node:
        name, _, kind = parts
        type, given = named_type(self.name(kind)), kind.name
        self.name(name)
        return ast.Typed(name, given if type is None else type.name)

    def mode(self, parts: list) -> ast.Node:
        self.name(parts[2], "`@mode` takes a tensor's name")
        return ast.Mode(parts[2])

    # ---------------------------------------------------------------- annotations: tuples of nodes

    def workspace(self, parts: list) -> tuple[ast.Node, ...]:
        tensor, settings = parts[1], tuples(parts)
        self.name(tensor)
        given: dict[str, Any] = {}
        for name, value in settings:
            if name.name not in _SETTINGS or name.name in given:
                what = "there twice" if name.name in given else "unknown"
                hint = "write `@workspace C policy=hash capacity=4096`"
                raise syntax_error(f"the setting `{name.name}` is {what}", name, hint)
            given[name.name] = self.setting_of(name.name, value)
        span = self.at(parts[0]).to(settings[-1][1].span)
        return (ast.Policy(tensor, span=span, **given),)

    def setting(self, parts: list) -> tuple[ast.Node, ast.Node]:
        self.name(parts[0])
        return parts[0], parts[2]

    def setting_of(self, name: str, value: ast.Node) -> str | int:
        if name == "policy":
            return self.name(value, "a policy is a name")
        number = value.value if isinstance(value, ast.Literal) else None
        if type(number) is not int or number < 1:
            raise syntax_error("a capacity is a whole number of at least 1", value)
        return number

    def schedule(self, parts: list) -> tuple[ast.Node, ...]:
        return nodes(parts)

    row = schedule

    def command(self, parts: list) -> ast.Schedule:
        return ast.Schedule(self.name(parts[0]), nodes(parts[1:]))

    def annotations(self, given: list[ast.Node], program: ast.Node) -> tuple[ast.Node, ...]:
        """`given` with expressions finished: indices are names of loops, and those of schedules."""
        commands = [a for a in given if isinstance(a, ast.Schedule)]
        bound = {n.index.name for n in trees.find_all(program, ast.Loop)}
        for command in commands:
            names = command.args[:-1] if command.name == "precompute" else command.args
            bound |= {a.name for a in names if isinstance(a, ast.Variable)}

        def finished(node: ast.Node) -> Any:
            if isinstance(node, (ast.Schedule, ast.Group)):
                return trees.map_children(finished, node)
            return expression(node, frozenset(bound))

        return tuple(a if isinstance(a, ast.Policy) else finished(a) for a in given)

    def einsum_of(
        self, indices: tuple[ast.Node, ...], op: ast.Node, value: ast.Node, span: Span | None
    ) -> ast.Macro:
        """`@einsum`: the names within brackets are its indices, and no names of the script. Arrays that are
        read may also be indexed by numbers and windows: `A[(2:3)(i), 1]`.

        Raises FinchError of kind syntax for other indices, and for an index of the result that is named
        twice."""
        bound: set[str] = set()
        for access in trees.find_all(value, ast.Access):
            for index in access.indices:
                match index:
                    case ast.Variable(name) | ast.Call(ast.Extent(), (ast.Variable(name),)):
                        bound.add(name)
                    case ast.Literal():
                        pass
                    case _:
                        hint = "a slice is a window of a name: `A[(2:3)(i), j]`"
                        message = "an index of `@einsum` is a name, a number or a window"
                        raise syntax_error(message, index, hint)
        for index in indices:
            if not isinstance(index, ast.Variable):
                raise syntax_error("an index of the array that `@einsum` makes is a name", index)
            bound.add(index.name)
        names = frozenset(bound)
        kept = tuple([expression(index, names) for index in indices])
        for k, index in enumerate(kept):
            if index in kept[:k]:
                raise syntax_error(f"the index `{index.name}` is there twice", index)
        return ast.Macro("einsum", (ast.Group(kept), op, expression(value, names)), span=span)

    # ---------------------------------------------------------------- the walk

    def finished(self, program: ast.Node) -> ast.Node:
        """A parsed kernel in the kernel stratum's expressions. Raises FinchError of kind syntax."""
        trees.check_depth(program)
        statements = program.statements if isinstance(program, ast.Block) else (program,)
        for node in trees.walk(program):
            if isinstance(node, ast.Yield) and not any(node is s for s in statements[-1:]):
                hint = "it hands back tensors when all loops are done"
                raise syntax_error("`return` is the last statement of a kernel", node, hint)
        return _statement(program, frozenset())


def _found_later(node: ast.Node) -> ast.Node:
    """An extent or a fill, which may be `_`."""
    return ast.Dimensionless(span=node.span) if node == ast.Variable("_") else node


def _statement(node: ast.Node, bound: frozenset[str]) -> Any:
    """`node` with its expressions finished; `bound` has the names of the loops around it."""
    match node:
        case ast.Loop(index, extent, body):
            if isinstance(extent, ast.Extent) and extent.step is not None:
                raise _no_step(node)
            inner = _statement(body, bound | {index.name})
            return ast.Loop(index, _extent(extent, bound), inner, span=node.span)
        case ast.Define() | ast.Sieve():
            inner = _statement(node.body, bound.difference(trees.binds(node)))
            value = trees.head(node)
            if isinstance(value, ast.Formula):
                element = expression(value.value, bound | {i.name for i in value.indices})
                return trees.headed(node, trees.replace(value, value=element), inner)
            return trees.headed(node, expression(value, bound), inner)
        case ast.Block():
            return trees.map_children(lambda s: _statement(s, bound), node)
        case ast.Assign():
            return trees.map_children(lambda part: expression(part, bound), node)
        case ast.Declare(tensor, init, dims):
            extents = tuple(_extent(d, bound) for d in dims)
            init = init if isinstance(init, ast.Dimensionless) else expression(init, bound)
            return ast.Declare(tensor, init, extents, span=node.span)
        case _:
            return node  # freeze, thaw, return


def _extent(node: ast.Node, bound: frozenset[str], is_slice: bool = False) -> ast.Node:
    """An expression that may be a range; only the range of a slice may have a step."""
    if not isinstance(node, ast.Extent):
        return node if isinstance(node, ast.Dimensionless) else expression(node, bound)
    if node.step is not None and not is_slice:
        raise syntax_error("a range in a kernel has no step", node)
    start, stop = expression(node.start, bound), expression(node.stop, bound)
    step = None if node.step is None else expression(node.step, bound)
    return ast.Extent(start, stop, step, span=node.span)


def _no_step(loop: ast.Loop) -> FinchError:
    """The error of a loop with a step: a slice does the same, where the loop first uses its index."""
    i, steps = loop.index.name, loop.extent
    places = trees.find_all(loop.body, ast.Access)
    used = next((p for p in places if ast.Variable(i) in p.indices), None)
    used = used or ast.Access(ast.Variable("A"), (ast.Variable(i),))
    stepped, own = f"({pretty(steps)})({i})", ast.Variable(i)
    sliced = [stepped if n == own else pretty(n) for n in used.indices]
    hint = f"a slice has one: loop over `_`, with `{pretty(used.tensor)}[{', '.join(sliced)}]`"
    return syntax_error("a range in a kernel has no step", steps, hint)


def expression(node: ast.Node, bound: frozenset[str]) -> Any:
    match node:
        case ast.Literal():
            return node
        case ast.Variable("end"):
            hint = "give the size, as in `x[size(x, 1)]`"
            raise syntax_error("`end` is not an index in a kernel", node, hint)
        case ast.Variable(name):
            return ast.Index(name, span=node.span) if name in bound else node
        case ast.Typed(ast.Variable(name)) | ast.Mode(ast.Variable(name)):
            if name in bound:
                is_mode = isinstance(node, ast.Mode)
                what = "a tensor has a mode" if is_mode else "`::` types a number"
                hint = f"how it is walked is written as `gallop({name})` or `walk({name})`"
                message = f"{what}, and `{name}` is a loop's index here"
                raise syntax_error(message, node, None if is_mode else hint)
            if isinstance(node, ast.Typed) and named_type(node.kind) is None:
                raise syntax_error(f"there is no type {node.kind}", node)
            return node
        case ast.Access():
            return _access(node, bound)
        case ast.Call(op, args):
            if op in _TABLE_5:
                return expression(_wrapper(node, _TABLE_5[op]), bound)
            known = named_type(args[0].name) if args and isinstance(args[0], ast.Variable) else None
            if known is not None:
                return expression(_of_type(node, known), bound)
            sign = "(a:b)" if isinstance(op, ast.Extent) else getattr(op, "name", "")
            if isinstance(op, ast.Variable) and sign[0] == ".":
                code = pretty(ast.call(sign[1:], *args))
                raise syntax_error(f"`{sign}` is of whole arrays", node, write(code))
            if len(args) != 1 and sign in (*PROTOCOLS, "(a:b)"):
                message = f"the index modifier `{sign}` takes one index"
                raise syntax_error(message, node, f"write `{sign}(i)`")
            is_window = op in (ast.Variable("window"), ast.Variable("slice"))
            args = tuple(_extent(a, bound, is_window) for a in args)
            if isinstance(op, ast.Extent):
                op = _extent(op, bound, is_slice=True)
            elif not isinstance(op, ast.Variable):
                op = expression(op, bound)
            return ast.Call(op, args, span=node.span)
        case ast.Group((_, _) as parts):  # as in Finch.jl
            finished = tuple(expression(part, bound) for part in parts)
            return trees.replace(pair(ast.Variable("=>", span=node.span), finished), span=node.span)
        case ast.Extent():
            hint = "a range is the extent of a loop, an argument, or a window `(a:b)(i)`"
            raise syntax_error("a range has no place here", node, hint)
        case ast.Broadcast(op, args):
            code = pretty(ast.Call(op, args))
            raise syntax_error("a call with a dot is of whole arrays", node, write(code))
        case _:
            what = _NO_PLACE.get(type(node), "this")
            hint = "compute it in the script and use its name in the kernel"
            raise syntax_error(f"{what} has no place in a kernel", node, hint)


def _of_type(node: ast.Call, type: Type) -> ast.Node:
    """`round(UInt8, x)` as `UInt8(round(x))`, and `sizeof(UInt8)` as 1."""
    name, (where, *args) = getattr(node.op, "name", ""), node.args
    if name in ("round", "floor", "ceil", "trunc") and len(args) == 1:
        op = ast.Variable(type.name, span=where.span)
        return ast.Call(op, (ast.Call(node.op, (args[0],), span=node.span),), span=node.span)
    if name == "sizeof" and not args:
        return ast.Literal(type.bits // 8, span=node.span)
    hint = f"`round({type}, x)` and `sizeof({type})` take one"
    if name in ("convert", "typemax", "typemin"):
        hint = f"write `{type}(x)`" if args else f"name it in the script: `m = {name}({type})`"
    raise syntax_error(f"a type has no place in `{name}`", where, hint)


#: our names of the wrappers in Finch'25 Table 5, where their settings are a tuple
_TABLE_5: dict[ast.Node, str] = {
    **{
        ast.Variable(f"{n}Tensor"): n.lower()
        for n in ("Offset", "Toeplitz", "Permissive", "Swizzle")
    },
    **{ast.Variable("ProtocolizedTensor"): "protocolize", ast.Variable("WindowedTensor"): "window"},
}


def _wrapper(node: ast.Call, name: str) -> ast.Call:
    """`OffsetTensor(A, (0, 1))` as `offset(A, 0, 1)`."""
    tensor, *settings = node.args or (node,)
    if len(settings) == 1 and isinstance(settings[0], ast.Group):
        settings = list(settings[0].items)
    return ast.Call(ast.Variable(name, span=node.op.span), (tensor, *settings), span=node.span)


def _access(node: ast.Access, bound: frozenset[str]) -> ast.Access:
    tensor, indices = node.tensor, node.indices
    if isinstance(tensor, ast.Variable):
        if tensor.name in bound:
            raise syntax_error(f"`{tensor.name}` is a loop's index here, not a tensor", tensor)
    elif isinstance(tensor, ast.Call):
        if tensor.op == ast.Variable("adjoint") and len(indices) == 2:
            turned = ast.Access(tensor.args[0], indices[::-1])
            raise syntax_error("`'` is of whole matrices", node, write(pretty(turned)))
        if _is_of_elements(tensor):
            code = pretty(_of_entries(tensor, indices))
            code = f"({code})" if _SIGN.match(getattr(tensor.op, "name", "")) else code
            message = "an operator takes entries of tensors, and its value has no indices"
            raise syntax_error(message, node, write(code))
        tensor = expression(tensor, bound)
    elif isinstance(tensor, ast.Access):
        code = pretty(ast.Access(tensor.tensor, (*tensor.indices, *indices)))
        raise syntax_error("all indices of an access stand together", node, write(code))
    else:
        hint = "an access is written `A[i, j]`"
        if isinstance(tensor, (ast.Rows, ast.Numbers)):
            hint = "before the kernel give it a name, `w = [1.0, 2.0]`, and write `w[i]`"
        raise syntax_error("only tensors and wrappers can be accessed", tensor, hint)
    for index in indices:
        if isinstance(index, ast.Colon):
            hint = "a kernel computes element by element: write a loop over an index"
            raise syntax_error("`:` is not an index of kernels", index, hint)
    return ast.Access(tensor, tuple(expression(i, bound) for i in indices), span=node.span)
