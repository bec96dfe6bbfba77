"""How the kernels of a session were called, so that calling one again on the same values, or on others
of the same formats, costs little."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from finchlang.native.abi import OK
from finchlang.native.call import CHANGED, UNKNOWN
from finchlang.run.caller import Caller
from finchlang.run.handles import Handle, Handles
from finchlang.run.kernel import Kernel
from finchlang.run.repeat import PATIENCE, Repeat
from finchlang.script.environment import Environment, Scope
from finchlang.source import FinchError
from finchlang.syntax import Kernel as KernelNode
from finchlang.syntax import Node, Variable
from finchlang.tensors.masks import MaskValue
from finchlang.tensors.tensor import Scalar
from finchlang.walk import substitute, walk

#: how many ways to call a kernel are remembered: loops often swap two tensors or three
PLANS = 4

#: what comes of a kernel that is called in a new way
MISSED = object()

#: the values of an environment that names belong to
Owner = Callable[[Environment], dict[str, Any]]

#: the masks that names of a kernel are bound to
Masks = dict[str, MaskValue]


def yielded(names: tuple[str, ...], environment: Environment) -> Any:
    """What a kernel that returns `names` hands back."""
    if not names:
        return None
    values = tuple([environment.get(name) for name in names])
    return values[0] if len(values) == 1 else values


class Plan:
    """A call of a kernel on certain tensors, and on any scalars and numbers of certain types, whose
    names are `names`, in this order."""

    __slots__ = (
        *("_copies", "_formats", "_kinds", "_known", "_masks", "_matrices", "_numbers"),
        *("_numbers_at", "_published", "_scalars", "_scalars_at", "_tensors", "yields"),
        *("caller", "handles", "kernel", "names", "owned", "parts"),
    )

    def __init__(
        self,
        kernel: Kernel,
        handles: dict[str, Handle],
        numbers: dict[str, Any],
        masks: Masks,
        known: Handles,
    ):
        self.kernel, self._known, self._masks = kernel, known, masks
        scalars = [name for name, handle in handles.items() if isinstance(handle.stored, Scalar)]
        self.handles = {name: handles[name] for name in handles if name not in scalars}
        self.names = (*self.handles, *scalars, *numbers)
        #: which of the values are tensors, scalars and numbers
        first = len(handles) - len(scalars)
        self.parts = slice(first), slice(first, len(handles)), slice(len(handles), None)
        self.owned = tuple([handles[name].is_owned for name in kernel.tensors])
        self.caller: Caller | None = None
        self._copies = not self.is_in_place
        self._published = [
            (name, handles[name])
            for name, written in zip(kernel.tensors, kernel.written, strict=True)
            if written and handles[name].value is not handles[name].tensor
        ]
        self._tensors = kernel.with_workspaces([handles[name].stored for name in kernel.tensors])
        self._matrices = [handle for handle in handles.values() if handle.has_parts]
        self._scalars = tuple([handles[name].value for name in scalars])
        self._formats = [handles[name].format for name in scalars]
        places = {name: at for at, name in enumerate(kernel.tensors)}
        self._scalars_at = [(places[n], at) for at, n in enumerate(scalars) if n in places]
        self._numbers = tuple(numbers.values())
        self._kinds = tuple(map(type, self._numbers))
        self._numbers_at = [list(numbers).index(name) for name in kernel.numbers]
        self.yields = kernel.yields

    @property
    def is_in_place(self) -> bool:
        """Whether the kernel works in the values' own memory, so that the plan serves again."""
        return all([handle.in_place for handle in self.handles.values()])

    def takes(self, values: tuple[Any, ...], environment: Environment) -> bool:
        """Whether it can be followed for these values, of which the tensors are its own; it is then
        ready to run on them."""
        for handle in self._matrices:
            if not handle.is_current():
                return False
        _, scalars, numbers = self.parts
        if self._kinds:
            self._numbers = values[numbers]
            if tuple(map(type, self._numbers)) != self._kinds:
                return False
        given = values[scalars]
        if given and given != self._scalars and not self._takes_scalars(given):
            return False
        return not self._masks or all(environment.get(n) == m for n, m in self._masks.items())

    def _takes_scalars(self, scalars: tuple[Any, ...]) -> bool:
        if len(set(map(id, scalars))) < len(scalars):
            return False
        for scalar, format in zip(scalars, self._formats, strict=True):
            if type(scalar) is not Scalar or scalar.format != format:
                return False
        self._scalars = scalars
        self._tensors = [*self._tensors]  # others than those of the last call
        for place, at in self._scalars_at:
            self._tensors[place] = scalars[at]
        return True

    def run(self, environment: Environment) -> None:
        """Call the kernel. Raises FinchError."""
        assert self.caller is not None
        numbers = [self._numbers[at] for at in self._numbers_at] if self._numbers_at else ()
        if self.caller.call(self._tensors, numbers) or self._copies:
            self._publish(environment)

    def finish(self, environment: Environment) -> None:
        """Take over what a call did that `repeat` has made."""
        assert self.caller is not None
        if self.caller.leave():
            self._publish(environment)

    def _publish(self, environment: Environment) -> None:
        for name, handle in self._published:
            self._known.publish(name, handle, environment)

    def repeat(self, values: dict[str, Any]) -> Repeat | None:
        """What makes the last call once more, as long as `values`, which all names are bound to, are
        the same; None if it was not like those before it."""
        caller = self.caller
        if caller is None or caller.quiet_calls < PATIENCE or self._masks:
            return None
        parts = [part for handle in self._matrices for part in handle.parts()]
        return Repeat(caller, {name: values[name] for name in self.names}, parts)


class Site:
    """A kernel where it stands in a script: what its names have been bound to there."""

    def __init__(self, node: KernelNode):
        self.node = node
        self.variables = {n.name: n for n in walk(node.program) if isinstance(n, Variable)}
        self.kernel: Kernel | None = None  # compiled for the formats of the last call
        self._masked: dict[tuple[tuple[str, MaskValue], ...], KernelNode] = {}
        self._names: tuple[str, ...] = ()  # of the values, as the plans have them
        self._values: Callable[[Environment], tuple[Any, ...]] = lambda environment: ()
        self._tensors = slice(0)  # which of the values are tensors, in some way
        self._plans: dict[tuple[int, ...], Plan] = {}  # by the identities of those
        self._owner: Owner | None = None  # of all names, if they have the same
        #: the last calls of plans that made many alike
        self._repeats: list[tuple[Plan, Repeat]] = []

    def bound(self, environment: Environment) -> dict[str, Any]:
        """What the free names are bound to; those of operators are not."""
        found = [(name, environment.owner(name).values) for name in self.variables]
        return {name: values[name] for name, values in found if name in values}

    def with_masks(self, masks: Masks) -> KernelNode:
        """The kernel with masks in the places of the names that are bound to them."""
        if not masks:
            return self.node
        key = tuple(masks.items())
        if key not in self._masked:
            calls: dict[Node, Node] = {Variable(name): mask.call for name, mask in masks.items()}
            program = substitute(self.node.program, calls)
            self._masked[key] = KernelNode(program, span=self.node.span)
        return self._masked[key]

    def run(self, environment: Environment) -> Any:
        """Run the kernel as it was run before on what its names are bound to now, and give what it
        returns; MISSED if it was not. Raises FinchError."""
        if self._repeats:
            assert self._owner is not None
            values = self._owner(environment)
            for plan, repeat in self._repeats:
                try:
                    status = repeat.run(values)
                except BaseException as error:
                    self._fail(plan, repeat, error)
                    raise
                if status == CHANGED:
                    plan.finish(environment)
                elif status == UNKNOWN:
                    continue
                elif status != OK:
                    self._fail(plan, repeat, status)
                return yielded(plan.yields, environment) if plan.yields else None
        found = self._plan(environment)
        return MISSED if found is None else self.follow(found, environment)

    def _fail(self, plan: Plan, repeat: Repeat, outcome: int | BaseException) -> None:
        """A repeated call has failed; it is not made again. Raises FinchError."""
        self._drop(plan)
        try:
            repeat.failed(outcome)
        except FinchError as error:
            raise error.at(self.node.span) from None

    def follow(self, plan: Plan, environment: Environment) -> Any:
        """Run the kernel as planned, and give what it returns. Raises FinchError."""
        self._drop(plan)
        try:
            plan.run(environment)
        except FinchError as error:
            raise error.at(self.node.span) from None
        except KeyboardInterrupt:
            raise FinchError("interrupted", "stopped", self.node.span) from None
        if self._owner is not None:
            repeat = plan.repeat(self._owner(environment))
            if repeat is not None:
                self._repeats.append((plan, repeat))
        return yielded(plan.yields, environment) if plan.yields else None

    def _drop(self, plan: Plan) -> None:
        """Have no call repeated that was made as `plan` says."""
        if self._repeats:
            self._repeats = [one for one in self._repeats if one[0].caller is not plan.caller]

    def _plan(self, environment: Environment) -> Plan | None:
        """How the kernel was called on what its names are bound to now."""
        try:
            values = self._values(environment)
            plan = self._plans.get(tuple(map(id, values[self._tensors])))
            return plan if plan is not None and plan.takes(values, environment) else None
        except KeyError:  # a name has no value
            return None

    def add(self, plan: Plan, environment: Environment) -> None:
        """Give a plan what it calls the kernel with, and remember it if it may serve again."""
        kernel = plan.kernel
        if not plan.is_in_place:
            plan.caller = kernel.passing_caller
            return
        if plan.names != self._names:
            self._plans.clear()
            self._repeats.clear()
            self._names, self._owner = plan.names, owner(plan.names, environment.scope)
            self._values = reader(plan.names, environment.scope, self._owner)
            self._tensors = plan.parts[0]
        if len(self._plans) >= PLANS:
            oldest = self._plans.pop(next(iter(self._plans)))
            self._drop(oldest)
            if oldest.kernel is kernel and oldest.owned == plan.owned:
                plan.caller = oldest.caller
        plan.caller = plan.caller or kernel.caller(plan.owned)
        # the plan refers to the values: no others get their identities
        self._plans[tuple([id(handle.value) for handle in plan.handles.values()])] = plan


def owner(names: tuple[str, ...], scope: Scope) -> Owner | None:
    """What gives the values of all `names`, and perhaps of others, in an environment of `scope`; None
    if several scopes own them."""
    owners = {scope.owner(name) for name in names}
    return scope.values_with(names[0]) if len(owners) == 1 else None


def reader(
    names: tuple[str, ...], scope: Scope, owner: Owner | None
) -> Callable[[Environment], tuple[Any, ...]]:
    """What gives the values of `names` in an environment of `scope`; KeyError if one has none."""
    if owner is not None and len(names) > 1:
        values, get = owner, itemgetter(*names)
        return lambda env: get(values(env))
    places = [(scope.values_with(name), name) for name in names]
    return lambda env: tuple([values(env)[name] for values, name in places])
