"""Annotations of kernels as nodes, `@workspace` and `@schedule` (Workspaces'24 section 6.1), and `@einsum`,
which stands in place of a kernel."""

from __future__ import annotations

from typing import Any

from finchlang.base.errors import Span
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.text.build_kernel import KernelBuilder, expression, nodes, syntax_error

_SETTINGS = ("policy", "capacity")


class AnnotationBuilder(KernelBuilder):
    """The callbacks of the grammar's rules for annotations: each annotation is a tuple of nodes."""

    def workspace(self, parts: list) -> tuple[ast.Node, ...]:
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
        return (ast.Policy(tensor, span=span, **given),)

    def setting(self, parts: list) -> tuple[ast.Node, ast.Node]:
        self.name(parts[0])
        return parts[0], parts[2]

    def setting_of(self, name: str, value: ast.Node) -> str | int:
        if name == "policy":
            return self.name(value, "a policy is a name")
        number = value.value if isinstance(value, ast.Literal) else None
        if type(number) is not int or number < 1:
            raise syntax_error("a capacity is a whole number of at least 1", value.span)
        return number

    def schedule(self, parts: list) -> tuple[ast.Node, ...]:
        return nodes(parts)

    def command(self, parts: list) -> ast.Schedule:
        return ast.Schedule(self.name(parts[0]), nodes(parts[1:]), span=self.over(parts))

    def annotations(self, given: list[ast.Node], program: ast.Node) -> tuple[ast.Node, ...]:
        """`given` with their expressions finished: indices are the names of the program's loops, and the
        names that schedules introduce."""
        commands = [a for a in given if isinstance(a, ast.Schedule)]
        bound = {n.index.name for n in trees.walk(program) if isinstance(n, ast.Loop)}
        for command in commands:
            names = command.args[:-1] if command.name == "precompute" else command.args
            bound |= {a.name for a in names if isinstance(a, ast.Variable)}

        def finished(node: ast.Node) -> ast.Node:
            if isinstance(node, ast.Group):
                return ast.Group(tuple(map(finished, node.items)), span=node.span)
            return expression(node, frozenset(bound))

        return tuple(
            ast.Schedule(a.name, tuple(map(finished, a.args)), span=a.span)
            if isinstance(a, ast.Schedule)
            else a
            for a in given
        )


def einsum_of(
    indices: tuple[ast.Node, ...], op: ast.Node, value: ast.Node, span: Span | None
) -> ast.Macro:
    """`@einsum`: the names within brackets are its indices, and no names of the script. Arrays that are
    read may also be indexed by numbers and windows: `A[(2:3)(i), 1]`.

    Raises FinchError of kind syntax for other indices, and for an index of the result that is named
    twice."""
    bound: set[str] = set()
    for access in (n for n in trees.walk(value) if isinstance(n, ast.Subscript)):
        for index in access.indices:
            match index:
                case ast.Variable(name) | ast.Call(ast.Range(), (ast.Variable(name),)):
                    bound.add(name)
                case ast.Literal():
                    pass
                case _:
                    hint = "a slice is a window of a name: `A[(2:3)(i), j]`"
                    message = "an index of `@einsum` is a name, a number or a window"
                    raise syntax_error(message, index.span, hint)
    for index in indices:
        if not isinstance(index, ast.Variable):
            raise syntax_error("an index of the array that `@einsum` makes is a name", index.span)
        bound.add(index.name)
    names = frozenset(bound)
    kept = tuple([expression(index, names) for index in indices])
    for k, index in enumerate(kept):
        if index in kept[:k]:
            raise syntax_error(f"the index `{index.name}` is there twice", index.span)
    return ast.Macro("einsum", (ast.Group(kept), op, expression(value, names)), span=span)
