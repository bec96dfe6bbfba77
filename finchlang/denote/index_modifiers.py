"""How tensors are accessed through wrappers (Finch'25 Table 5), and what masks mean, for the denotation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from finchlang.base.errors import FinchError
from finchlang.base.records import record
from finchlang.syntax.nodes import Access, Call, Extent, Index, Literal, Node, Variable, call
from finchlang.syntax.traversal import accesses, walk


@record
class MaskMeaning:
    """A mask (Finch'25 Table 5): whether it holds, and its sizes (None for a mode without bounds)."""

    holds: Callable[..., bool]
    shape: Callable[..., tuple[int | None, ...]] = lambda: (None, None)


MASKS = {
    "uptrimask": MaskMeaning(lambda i, j: i <= j),
    "lotrimask": MaskMeaning(lambda i, j: i >= j),
    "diagmask": MaskMeaning(lambda i, j: i == j),
    "bandmask": MaskMeaning(lambda i, j, k: j <= i <= k, lambda: (None, None, None)),
    "splitmask": MaskMeaning(
        lambda n, p, i, j: n * (j - 1) // p < i <= n * j // p, lambda n, p: (n, p)
    ),
    "chunkmask": MaskMeaning(
        lambda n, b, i, j: b * (j - 1) < i <= b * j, lambda n, b: (n, -(-n // b) if b else 0)
    ),
}


def called(node: Node) -> str:
    """The name that a node calls; "" if it calls none."""
    return node.op.name if isinstance(node, Call) and isinstance(node.op, Variable) else ""


def is_mask(tensor: Node) -> bool:
    return called(tensor).lower() in MASKS


@record
class AccessedMode:
    """How one mode of a tensor is accessed through its wrappers: at `index`, which may be out of range if
    it is `permissive`. `windows` are the windows around it, each with its own index (from 1), its extent,
    whether it is permissive, and whether its index is one of the access."""

    index: Node
    permissive: bool
    windows: tuple[tuple[Node, Extent, bool, bool], ...] = ()

    def shifted(self, by: Node) -> AccessedMode:
        return replace(self, index=Call(Variable("+"), (self.index, by), span=self.index.span))

    def within(self, window: Extent) -> AccessedMode:
        windows = (*self.windows, (self.index, window, self.permissive, not self.windows))
        past = Call(Variable("-"), (self.index, Literal(1)), span=self.index.span)
        if window.step is not None:
            past = call("*", past, window.step)
        index = Call(Variable("+"), (window.start, past), span=self.index.span)
        return AccessedMode(index, False, windows)


def unwrap(access: Access) -> tuple[Any, list[AccessedMode]]:
    """The tensor of an access without its wrappers (Finch'25 Table 5), and how each mode is accessed."""
    modes = [_modifiers(index) for index in access.indices]
    tensor = access.tensor
    while isinstance(tensor, Call):
        name = called(tensor)
        if name not in _WRAPPERS or not tensor.args:
            return tensor, modes
        settings = tensor.args[1:]
        if len(settings) != (1 if name == "toeplitz" else len(modes)):
            message = f"{name} has {len(settings)} settings for {len(modes)} indices"
            raise FinchError("dimension", message, access.span)
        modes = _WRAPPERS[name](modes, settings)
        tensor = tensor.args[0]
    return tensor, modes


def check_count(root: Any, sizes: Sequence[Any], modes: list[AccessedMode], access: Access) -> None:
    """Raises FinchError of kind dimension unless an access has an index for each dimension."""
    if len(modes) != len(sizes):
        name = called(root) or root.name
        message = f"{name} has {len(sizes)} dimensions, {len(modes)} indices given"
        raise FinchError("dimension", message, access.span)


def is_bare(index: Node) -> bool:
    """Whether an index is one of a loop, perhaps moved or in a window."""
    match index:
        case Call(Extent(), (inner,)) | Call(
            Variable("~" | "walk" | "gallop" | "follow"), (inner,)
        ):
            return is_bare(inner)
    return any(sign > 0 and isinstance(n, Index) for sign, n in summands(index))


def _modifiers(index: Node) -> AccessedMode:
    """How an index accesses its mode, with its `~`, protocols and windows taken off."""
    match index:
        case Call(Extent() as window, (inner,)):
            return _modifiers(inner).within(window)
        case Call(Variable("~"), (inner,)):
            return replace(_modifiers(inner), permissive=True)
        case Call(Variable("walk" | "gallop" | "follow"), (inner,)):
            return _modifiers(inner)
    indices = {n.name for _, n in summands(index) if isinstance(n, Index)}
    if indices and not accesses(index):
        indices |= {n.name for n in walk(index) if isinstance(n, Index)}
    return AccessedMode(index, len(indices) > 1)


def _swizzle(modes: list[AccessedMode], settings: tuple[Any, ...]) -> list[AccessedMode]:
    order: list[Any] = [getattr(s, "value", None) for s in settings]
    if sorted(map(str, order)) != sorted(str(k + 1) for k in range(len(modes))):
        raise FinchError("dimension", "swizzle takes a permutation", settings[0].span)
    return [modes[p - 1] for p in order]


def _toeplitz(modes: list[AccessedMode], settings: tuple[Any, ...]) -> list[AccessedMode]:
    k: Any = getattr(settings[0], "value", None)
    if k not in range(1, len(modes)):
        raise FinchError("dimension", "toeplitz takes the mode to divide", settings[0].span)
    first, second = modes[k - 1 : k + 1]
    windows = first.windows + second.windows
    both = AccessedMode(first.shifted(second.index).index, True, windows)
    return [*modes[: k - 1], both, *modes[k + 1 :]]


def _each(change: Callable[[AccessedMode, Any], AccessedMode]) -> Any:
    return lambda modes, settings: list(map(change, modes, settings))


_WRAPPERS = {
    "swizzle": _swizzle,
    "permissive": _each(lambda m, s: replace(m, permissive=m.permissive or s == Literal(True))),
    "protocolize": _each(lambda m, s: m),
    "offset": _each(lambda m, s: m if s == Literal(0) else m.shifted(s)),
    "window": _each(lambda m, s: m.within(s) if isinstance(s, Extent) else m),
    "toeplitz": _toeplitz,
}


def is_wrapper(tensor: Node) -> bool:
    return called(tensor) in _WRAPPERS


def summands(node: Node, sign: int = 1) -> Iterator[tuple[int, Node]]:
    """The terms of a sum, each with its sign."""
    match node:
        case Call(Variable("+"), args):
            for arg in args:
                yield from summands(arg, sign)
        case Call(Variable("-"), (a, b)):
            yield from summands(a, sign)
            yield from summands(b, -sign)
        case _:
            yield sign, node
