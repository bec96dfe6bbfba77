"""Scopes and environments: the names a script binds, and which scope an assignment goes to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any

from finchlang.syntax import nodes as ast, traversal as trees


class Scope:
    """A scope as known before anything runs: the names it owns, and its parent.

    A function owns its parameters and the names it assigns to, a `for` its variable. An assignment goes
    to the nearest scope that owns the name, else to the outermost one, so that a loop at top level
    changes global variables.
    """

    def __init__(self, parent: Scope | None = None, owned: Iterable[str] = ()):
        self.parent, self.owned = parent, frozenset(owned)

    def owner(self, name: str) -> Scope:
        scope = self
        while scope.parent is not None and name not in scope.owned:
            scope = scope.parent
        return scope

    def is_local(self, name: str) -> bool:
        """Whether a scope other than the outermost owns `name`."""
        return self.owner(name).parent is not None

    def values_with(self, name: str) -> Callable[[Environment], dict[str, Any]]:
        """A function from this scope's environment to the dict that holds the value of `name`."""
        owner, scope, path = self.owner(name), self, "values"
        if owner.parent is None:
            return attrgetter("outermost")
        while scope is not owner:
            assert scope.parent is not None
            scope, path = scope.parent, f"parent.{path}"
        return attrgetter(path)


#: the scope of a file or the prompt
OUTERMOST = Scope()


class Environment:
    """The values of a scope's names while it runs, with the environment of the scope around it as
    `parent`. `outermost` are the values of the file or the prompt, and not their environment: that would
    be a reference cycle, which is freed only by the garbage collector."""

    __slots__ = ("outermost", "parent", "scope", "values")

    def __init__(
        self,
        scope: Scope = OUTERMOST,
        parent: Environment | None = None,
        values: dict[str, Any] | None = None,
    ):
        self.scope, self.parent = scope, parent
        self.values: dict[str, Any] = {} if values is None else values
        self.outermost: dict[str, Any] = self.values if parent is None else parent.outermost

    def owner(self, name: str) -> Environment:
        found = self
        while found.parent is not None and name not in found.scope.owned:
            found = found.parent
        return found

    def has(self, name: str) -> bool:
        return name in self.owner(name).values

    def get(self, name: str) -> Any:
        """The value of `name`. Raises KeyError if it has none."""
        return self.owner(name).values[name]

    def bind(self, found: dict[str, Any]) -> None:
        for name, value in found.items():
            self.owner(name).values[name] = value

    def names(self) -> Iterator[str]:
        """The names that have a value as seen from here."""
        found: Environment | None = self
        while found is not None:
            yield from filter(self.has, found.values)
            found = found.parent


def assigned_names(node: ast.Node) -> set[str]:
    """The names a function's body assigns to, which are local to it. Those of a nested function or the
    variables of a `for` are not among them."""
    match node:
        case ast.Function(name):
            return {name}
        case ast.Lambda() | ast.Comprehension() | ast.Local():
            return set()
        case ast.For(variable, iterable, body, names):
            return assigned_names(iterable) | (assigned_names(body) - {variable, *names})
        case ast.Macro("properties" | "case" | "iterate", (target, *_)):
            declared = target.op if isinstance(target, ast.Call) else target
            return {declared.name} if isinstance(declared, ast.Variable) else set()
        case ast.Let(targets):
            own = {t.name for t in targets if isinstance(t, ast.Variable)}
            return own | assigned_names(node.value)
    return {name for child in trees.children(node) for name in assigned_names(child)}
