"""What a tensor in a program is: the reader of names, wrappers, masks and shape operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from finchlang.algebra.program_context import root
from finchlang.base.errors import FinchError, did_you_mean, number_of
from finchlang.normalize.shapes.shape_table import OPERATORS
from finchlang.normalize.shapes.shaped import WHOLE, Arguments, Shaped
from finchlang.syntax import nodes as ast
from finchlang.syntax.traversal import replace, rewrite_bottom_up
from finchlang.text.literals import is_word
from finchlang.wrappers.masks import MASKS
from finchlang.wrappers.wrappers import WRAPPERS


class Reader:
    """Finds what a tensor in a program is, with all its wrappers, masks and shape operators checked.
    `leaf` reads the name of a tensor, `value` and `extent` an argument; `agree` requires two extents to be
    the same. Raises FinchError "type", "dimension" or "unknown name"."""

    def __init__(
        self,
        leaf: Callable[[ast.Variable], Shaped],
        value: Callable[[ast.Node], ast.Node] = lambda node: node,
        extent: Callable[[ast.Node], ast.Node] = lambda node: node,
        agree: Callable[[ast.Extent, ast.Extent], None] = lambda a, b: None,
    ):
        self.leaf, self.value, self.extent, self.agree = leaf, value, extent, agree

    def shaped(self, node: ast.Node) -> Shaped:
        if isinstance(node, ast.Variable):
            return self.leaf(node)
        if isinstance(node, ast.Formula):
            return Shaped(node, len(node.indices))
        if not isinstance(node, ast.Call) or not isinstance(node.op, ast.Variable):
            raise FinchError("type", "a tensor is expected here", node.span)
        name = node.op.name
        if name in OPERATORS:
            given = Arguments(node, self, OPERATORS[name].form)
            result = OPERATORS[name].make(given)
            if given.left:
                raise given.wrong(f"`{name}` takes no more arguments", given.left[0].span)
            return Shaped(result.node, result.order, replace(node, args=tuple(given.written)))
        if name in MASKS:
            return self.mask(node, name)
        if name not in WRAPPERS and name != "swizzle":
            known = *MASKS, *WRAPPERS, *OPERATORS, "swizzle"
            hint = did_you_mean(name, known) or "compute it in the script and use its name here"
            raise FinchError("unknown name", f"there is no wrapper `{name}`", node.op.span, hint)
        return self.wrapper(node, name)

    def mask(self, node: ast.Call, name: str) -> Shaped:
        wanted = len(MASKS[name].parameters)
        if len(node.args) != wanted:
            message = f"`{MASKS[name]}` takes {wanted} arguments, not {len(node.args)}"
            raise FinchError("type", message, node.span)
        args = tuple(self.value(a) for a in node.args)
        return Shaped(replace(node, args=args), MASKS[name].order)

    def wrapper(self, node: ast.Call, name: str) -> Shaped:
        if not node.args:
            raise FinchError("type", f"`{name}` wraps a tensor", node.span)
        body, settings = self.shaped(node.args[0]), node.args[1:]
        order = body.order
        if name == "toeplitz":
            mode: Any = settings[0] if len(settings) == 1 else None
            if not isinstance(mode, ast.Literal) or mode.value not in range(1, order + 1):
                message = f"`toeplitz` takes a tensor and the mode to divide, from 1 to {order}"
                raise FinchError("type", message, node.span)
            order += 1
        elif len(settings) != order:
            shown = f"{name}({root(node.args[0])}, ...)"
            raise wrong_order(shown, order, settings, "settings", node)
        if name == "swizzle":
            modes = [s.value if isinstance(s, ast.Literal) else None for s in settings]
            if sorted(modes, key=repr) != sorted(range(1, order + 1), key=repr):
                message = f"the modes of a swizzle are 1 to {order}, each once"
                raise FinchError("type", message, node.span)
        elif name == "offset":
            settings = tuple(self.value(s) for s in settings)
        elif name == "window":
            settings = tuple(s if s == WHOLE else self.extent(s) for s in settings)
            settings = tuple(WHOLE if isinstance(s, ast.Dimensionless) else s for s in settings)
        made, written = (replace(node, args=(t, *settings)) for t in (body.node, body.written))
        return Shaped(made, order, written)


def with_primitives(node: Any, reader: Reader) -> Any:
    """An expression with the shape operators around its tensors reduced to primitives."""

    def change(node: ast.Node) -> ast.Node:
        if not isinstance(node, ast.Access):
            return node
        return replace(node, tensor=reader.shaped(node.tensor).node)

    return rewrite_bottom_up(change, node)


def wrong_order(
    name: str, order: int, given: tuple[ast.Node, ...], what: str, node: ast.Node
) -> FinchError:
    """The error for too many or too few of `what`, of "indices", "settings" or "dimensions"."""
    one = "index" if what == "indices" else what.removesuffix("s")
    counted = f"{number_of(len(given), one, what)} {'is' if len(given) == 1 else 'are'}"
    message = f"`{name}` has {number_of(order, 'dimension')}, but {counted} given"
    letters = ", ".join("ijklmnopq"[:order])
    is_named = what == "indices" and is_word(name)
    hint = f"write all of them, as in `{name}[{letters}]`" if is_named else None
    return FinchError("dimension", message, node.span, hint)
