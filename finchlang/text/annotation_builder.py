"""What stands before a kernel as nodes, `@workspace` and `@schedule` (Workspaces'24 section 6.1), and what
stands in the place of one, `@einsum`."""

from __future__ import annotations

from typing import Any

from finchlang.source import Span
from finchlang.syntax import (
    Call,
    Group,
    Literal,
    Loop,
    Macro,
    Node,
    Policy,
    Range,
    Schedule,
    Subscript,
    Variable,
)
from finchlang.text.kernel_builder import KernelBuilder, expression, nodes, syntax_error
from finchlang.walk import walk

_SETTINGS = ("policy", "capacity")


class AnnotationBuilder(KernelBuilder):
    """The callbacks of the rules of annotations: each annotation is a tuple of nodes."""

    def workspace(self, parts: list) -> tuple[Node, ...]:
        tensor, settings = parts[1], [p for p in parts if isinstance(p, tuple)]
        self.name(tensor)
        given: dict[str, Any] = {}
        for name, value in settings:
            if name.name not in _SETTINGS or name.name in given:
                what = "there twice" if name.name in given else "unknown"
                hint = "write `@workspace C policy=hash capacity=4096`"
                raise syntax_error(f"the setting `{name.name}` is {what}", name.span, hint)
            given[name.name] = self.setting_of(name.name, value)
        span = self.at(parts[0]).to(settings[-1][1].span)
        return (Policy(tensor, span=span, **given),)

    def setting(self, parts: list) -> tuple[Node, Node]:
        self.name(parts[0])
        return parts[0], parts[2]

    def setting_of(self, name: str, value: Node) -> str | int:
        if name == "policy":
            return self.name(value, "a policy is a name")
        number = value.value if isinstance(value, Literal) else None
        if type(number) is not int or number < 1:
            raise syntax_error("a capacity is a whole number of at least 1", value.span)
        return number

    def schedule(self, parts: list) -> tuple[Node, ...]:
        return nodes(parts)

    def command(self, parts: list) -> Schedule:
        return Schedule(self.name(parts[0]), nodes(parts[1:]), span=self.over(parts))

    def annotations(self, given: list[Node], program: Node) -> tuple[Node, ...]:
        """`given` with their expressions finished: names of the program's loops, and other names that
        schedules are given, are indices."""
        commands = [a for a in given if isinstance(a, Schedule)]
        bound = {n.index.name for n in walk(program) if isinstance(n, Loop)}
        for command in commands:
            names = command.args[:-1] if command.name == "precompute" else command.args
            bound |= {a.name for a in names if isinstance(a, Variable)}

        def finished(node: Node) -> Node:
            if isinstance(node, Group):
                return Group(tuple(map(finished, node.items)), span=node.span)
            return expression(node, frozenset(bound))

        return tuple(
            Schedule(a.name, tuple(map(finished, a.args)), span=a.span)
            if isinstance(a, Schedule)
            else a
            for a in given
        )


def einsum_of(indices: tuple[Node, ...], op: Node, value: Node, span: Span | None) -> Macro:
    """`@einsum`: its indices are the names within brackets, and no names of the script. What is read may
    also have numbers in their places, and windows: `A[(2:3)(i), 1]`."""
    bound: set[str] = set()
    for access in (n for n in walk(value) if isinstance(n, Subscript)):
        for index in access.indices:
            match index:
                case Variable(name) | Call(Range(), (Variable(name),)):
                    bound.add(name)
                case Literal():
                    pass
                case _:
                    hint = "a slice is a window of a name: `A[(2:3)(i), j]`"
                    message = "an index of `@einsum` is a name, a number or a window"
                    raise syntax_error(message, index.span, hint)
    for index in indices:
        if not isinstance(index, Variable):
            raise syntax_error("an index of the array that `@einsum` makes is a name", index.span)
        bound.add(index.name)
    names = frozenset(bound)
    kept = tuple([expression(index, names) for index in indices])
    for k, index in enumerate(kept):
        if index in kept[:k]:
            raise syntax_error(f"the index `{index.name}` is there twice", index.span)
    return Macro("einsum", (Group(kept), op, expression(value, names)), span=span)
