"""The state of a kernel that its rules pass on, and premises about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from finchlang.algebra.bounds import at_most, less_than
from finchlang.base.records import record
from finchlang.host.construct import compare
from finchlang.host.engine import Stuck
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels.level import TensorLike
from finchlang.syntax.nodes import Node
from finchlang.text.print import pretty


@record(slots=True)
class State:
    """The state (e, t, d) of Fig 14. `tensors` is e for tensor names, with mode and sizes in the fiber
    (other names are substituted); t is in the host; `declared` is d, the tensors of this scope, in which
    alone they change their mode. `own` are the tensors that are not seen outside of the blocks that declare
    them, `sizes` the sums and products that have been checked to be sizes."""

    host: Host
    tensors: Mapping[str, TensorLike]
    declared: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    sizes: frozenset[Expr] = frozenset()

    @staticmethod
    def before(host: Host, tensors: Mapping[str, TensorLike], own: Iterable[str] = ()) -> State:
        """The state in which a program begins: all tensors that it is given belong to its scope."""
        return State(host, tensors, frozenset(tensors), frozenset(own))

    def with_tensors(self, changes: Mapping[str, TensorLike]) -> State:
        return replace(self, tensors={**self.tensors, **changes})

    def with_sizes(self, sizes: Iterable[Expr]) -> State:
        return replace(self, sizes=frozenset(sizes))

    def inside(self) -> State:
        """(e, t, {}): the state in which a scope within this one begins."""
        return replace(self, declared=frozenset()) if self.declared else self


def expect_mode(node: Node, tensor: TensorLike, mode: str, term: Node) -> None:
    """The premise e(mode(tns)) = mode, of the tensor that `node` stands for."""
    if tensor.mode != mode:
        name = pretty(node)
        raise Stuck(f"e(mode({name})) = {mode}", term, f"{name} is in {tensor.mode} mode")


def expect_declared(name: str, state: State, term: Node) -> None:
    """The premise tns ∈ d."""
    if name not in state.declared:
        raise Stuck(f"{name} ∈ d", term, f"{name} does not belong to this scope")


def drop(_: object) -> None:
    """Discard a result: functions given to the host return None."""


def branches(
    host: Host, arms: Sequence[tuple[Expr, Callable[[], None]]], last: Callable[[], None] | None
) -> None:
    """Do the first of `arms` whose condition holds, or `last`, if there is one."""
    if arms:
        (condition, arm), *rest = arms
        host.branch(condition, arm, partial(branches, host, rest, last) if rest or last else None)
    elif last:
        last()


def if_not_empty(host: Host, start: Expr, stop: Expr, body: Any) -> None:
    if at_most(start, stop):
        body()
    elif not less_than(stop, start):
        host.branch(compare("le", start, stop), body)
