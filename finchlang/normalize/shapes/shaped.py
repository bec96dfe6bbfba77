"""A tensor within shape operators (Burrito'24 section 4), and the primitive ones that all others are made
of: collapse, split, broadcast, concat and windows."""

from __future__ import annotations

from typing import Any

from finchlang.algebra import index_arithmetic as affine, program_context as ctx
from finchlang.algebra.index_map import in_mode
from finchlang.base.errors import FinchError, Span
from finchlang.syntax import nodes as ast
from finchlang.syntax.traversal import replace
from finchlang.text.print import pretty

WHOLE = ast.Literal(ast.NOTHING)  # the setting of a mode that has no window


class Shaped:
    """A tensor by primitive operators (`node`) and as `written`; modes count from 1 here."""

    def __init__(self, node: ast.Node, order: int, written: ast.Node | None = None):
        self.node, self.order, self.written = node, order, node if written is None else written

    def size(self, mode: int) -> ast.Node:
        """The size of a mode. Raises FinchError "dimension" where it does not count from 1 to an end."""
        if (found := affine.size(self.node, mode - 1)) is not None:
            return found
        message = f"dimension {mode} of `{pretty(self.node)}` does not count from 1 to an end"
        hint = "a shape operator takes dimensions that do: without `~` and `offset`, or in a window"
        raise FinchError("dimension", message, self.node.span, hint)


class Arguments:
    """The arguments of a shape operator, taken and checked one after the other: `left` are still to be
    taken, `written` those that were, with names resolved. `reader` is a Reader."""

    def __init__(self, node: ast.Call, reader: Any, form: str):
        self.node, self.reader, self.form, self.left = node, reader, form, list(node.args)
        self.written: list[ast.Node] = []

    @property
    def name(self) -> str:
        return self.node.op.name  # type: ignore[attr-defined]

    @property
    def span(self) -> Span | None:
        return self.node.span

    def next(self, what: str) -> ast.Node:
        if not self.left:
            raise self.wrong(f"`{self.name}` takes {what} here", self.span)
        return self.left.pop(0)

    def wrong(self, message: str, span: Span | None) -> FinchError:
        return FinchError("type", message, span, f"write `{self.form}`")

    def tensor(self) -> Shaped:
        found = self.reader.shaped(self.next("a tensor"))
        self.written.append(found.written)
        return found

    def tensors(self) -> list[Shaped]:
        """All arguments that are left, at least one."""
        found = [self.tensor()]
        while self.left:
            found.append(self.tensor())
        return found

    def matrix(self) -> Shaped:
        found = self.tensor()
        if found.order != 2:
            message = f"`{self.name}` takes a tensor of 2 dimensions, not {found.order}"
            raise FinchError("dimension", message, self.written[-1].span)
        return found

    def whole(self, what: str) -> int:
        """An integer literal."""
        node = self.next(what)
        if not isinstance(node, ast.Literal) or type(node.value) is not int:
            raise FinchError("type", f"`{self.name}` takes {what} as an integer literal", node.span)
        self.written.append(node)
        return node.value

    def mode(self, order: int, *others: int) -> int:
        """A literal mode from 1 to `order`, none of the `others`."""
        mode, span = self.whole("a dimension"), self.written[-1].span
        self.check_mode(mode, order, span)
        if mode in others:
            raise FinchError("dimension", f"`{self.name}` is given dimension {mode} twice", span)
        return mode

    def check_mode(self, mode: int, order: int, span: Span | None) -> None:
        if not 1 <= mode <= order:
            message = f"`{self.name}` takes a dimension from 1 to {order} here, not {mode}"
            raise FinchError("dimension", message, span)

    def mode_of_tensor(self) -> tuple[Shaped, int]:
        """A tensor, and one of its modes."""
        t = self.tensor()
        return t, self.mode(t.order)

    def tensors_at(self, more: int = 0) -> tuple[int, list[Shaped]]:
        """A mode, and all tensors that are left, of one order: the mode is one of theirs, or of `more`."""
        mode, span = self.whole("a dimension"), self.written[-1].span
        parts = self.tensors()
        self.check_mode(mode, parts[0].order + more, span)
        check_orders(parts, self.span)
        return mode, parts

    def number(self) -> ast.Node:
        """An integer that is known before the loops."""
        node = self.reader.value(self.next("an integer"))
        if isinstance(node, ast.Literal) and type(node.value) is not int:
            raise self.wrong(f"`{self.name}` takes an integer here, not {pretty(node)}", node.span)
        self.written.append(node)
        return node

    def size(self, least: int = 0) -> ast.Node:
        """An integer that is known before the loops, at least `least`: checked here or at run time."""
        n = self.number()
        if isinstance(n, ast.Literal):
            if n.value < least:
                message = f"`{self.name}` takes a size of {least} or more here, not {n.value}"
                raise FinchError("dimension", message, n.span)
        elif not ctx.is_call(n, "size"):
            self.agree(n, ast.call("max", n, ast.Literal(least)))
        return n

    def extent(self) -> ast.Node:
        node = self.next("a range")
        self.written.append(WHOLE if node == WHOLE else self.reader.extent(node))
        return WHOLE if isinstance(self.written[-1], ast.Dimensionless) else self.written[-1]

    def flag(self) -> bool:
        """`true` or `false`, if that is given."""
        if not self.left:
            return False
        node = self.left.pop(0)
        if not isinstance(node, ast.Literal) or type(node.value) is not bool:
            raise self.wrong(f"`{self.name}` takes true or false here", node.span)
        self.written.append(node)
        return node.value

    def divide(self, whole: ast.Node, size: ast.Node) -> None:
        """Require that parts of a size make up the whole."""
        n, m = getattr(whole, "value", None), getattr(size, "value", None)
        if n is None or m is None:
            self.agree(whole, ast.call("-", whole, ast.call("%", whole, size)))
        elif n % m:
            message = f"a dimension of size {n} does not split into parts of size {m}"
            raise FinchError("dimension", message, self.span)

    def agree(self, a: ast.Node, b: ast.Node) -> None:
        self.reader.agree(*(ast.Extent(ctx.ONE, n, span=self.span) for n in (a, b)))

    # the primitives

    def made(self, name: str, order: int, *args: ast.Node) -> Shaped:
        return Shaped(ast.call(name, *args, span=self.span), order)

    def collapse(self, t: Shaped, p: int, q: int) -> Shaped:
        """Modes p (fast) and q as one, which stands where the first of them stood."""
        for mode in (p, q):
            t.size(mode)  # raises if it has none
        return self.made("collapse", t.order - 1, t.node, ast.Literal(p), ast.Literal(q))

    def split(self, t: Shaped, p: int, m: ast.Node, *last: ast.Node) -> Shaped:
        """Mode p as two, one of size m, which is fast, and one of what is left, or of the size that is
        given last; if that is true in place of a size, with the slow one first."""
        t.size(p)
        return self.made("split", t.order + 1, t.node, ast.Literal(p), m, *last)

    def broadcast(self, t: Shaped, p: int, n: ast.Node) -> Shaped:
        """A new mode p of size n, along which nothing changes."""
        return self.made("broadcast", t.order + 1, t.node, ast.Literal(p), n)

    def window(self, t: Shaped, p: int, part: ast.Node) -> Shaped:
        """A range of mode p."""
        if part == WHOLE:
            return t
        t.size(p)
        if isinstance(part, ast.Extent) and part.span is None:
            part = replace(part, span=self.span)
        return Shaped(in_mode("window", t.node, p - 1, part, t.order, self.span), t.order)

    def concat(self, parts: list[Shaped], p: int) -> Shaped:
        """Tensors one after the other along mode p."""
        check_orders(parts, self.span)
        for t in parts:
            t.size(p)
        nodes = (t.node for t in parts)
        whole = self.made("concat", parts[0].order, ast.Literal(p), *nodes)
        return whole if len(parts) > 1 else parts[0]


def check_orders(parts: list[Shaped], span: Span | None) -> None:
    for t in parts:
        if t.order != parts[0].order:
            message = f"a tensor of {t.order} dimensions is put beside one of {parts[0].order}"
            raise FinchError("dimension", message, t.written.span or span)
