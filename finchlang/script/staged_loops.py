"""Loops of a script that are compiled whole: when, for which values, and what is done if one cannot be."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import prod
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.base.locks import keep
from finchlang.calls import arguments as args
from finchlang.calls.call import check_outputs, is_calling, one_call_at_a_time
from finchlang.calls.environment import Environment, Scope
from finchlang.calls.kernel import UnitKernel
from finchlang.calls.runner import UNITS, Runner
from finchlang.operators.operator_table import Operator
from finchlang.script import unit_names as un
from finchlang.script.evaluate_expressions import Leave
from finchlang.script.functions import FinchFunction, reached
from finchlang.script.values import Builtin, FinchRange, columns, entries
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.types import PairType, Type

if TYPE_CHECKING:
    from finchlang.functions.unit import Unit
    from finchlang.script.as_unit import Units
    from finchlang.script.unit_tensors import Evaluate

#: how many units a loop keeps, for values of different formats
VARIANTS = 8
#: how many rounds of a loop, or calls of a function, one by one take about as long as making a unit of it:
#: measured 1,000 to 1,900 on numbers, of 1 to 9 us, and 140, OFTEN times less, with a kernel, of 19 us
PRICE, OFTEN = 1_000, 8
#: what statements are made of that compute nothing
_IDLE = ast.Let, ast.Return, ast.Group, ast.Variable, ast.Literal
#: so many loops are told of, those that were run last
KNOWN = 256
#: so often it is tried again whether names have got values
PATIENCE = 6
#: all rounds of a loop, and so many that there are never more
OVER, MOST = -1, 2**63 - 1

_FORMAT_OF: Callable[[Any], Any] = itemgetter(args.FORMAT)
_NUMBER_OF: Callable[[Any], Any] = itemgetter(args.OWNER)

#: a `return` that left a loop or a function, with its value
Left = tuple[ast.Return, Any]
#: gives a value by what a unit gave back (`UnitKernel.call`)
Telling = Callable[[dict[str, Any]], Any]


@dataclass(eq=False)
class Variant:
    """A loop for values of certain formats: its unit compiled, or, without one, the reason that there is
    none. What its names stand for is found once, their values at each call."""

    #: names whose values are arguments of the unit, tensors first, each few of one dictionary together, and
    #: the formats of these; names that are to mean the same as before; those that the unit may change
    taken: list[tuple[Any, list[str]]] = field(default_factory=list)
    formats: list[Any] = field(default_factory=list)
    known: list[un.GivenName] = field(default_factory=list)
    changed: list[un.GivenName] = field(default_factory=list)
    unbound: frozenset[str] = frozenset()  # names that the file or prompt may not bind
    uses: list[tuple[dict[str, Any], str, Any]] = field(default_factory=list)  # as of UnitNames
    step: int | None = 1  # of a range, None for any
    kernel: UnitKernel | None = None
    leave: tuple[ast.Return, Telling] | None = None  # a `return` in it, and what tells its value
    refusal: FinchError | None = None

    def arguments(self, environment: Environment) -> list[Any] | None:
        """What the names of the unit are bound to now; None if it is for others."""
        if not environment.outermost.keys().isdisjoint(self.unbound):
            return None
        for values, name, value in self.uses:
            if values.get(name) is not value:
                return None
        for given in self.known:
            value, meaning = given.where(environment).get(given.name), given.meaning
            if value is not meaning.value and (
                value is None or meaning is un.ABSENT or not meaning.is_same(type(meaning)(value))
            ):
                return None
        makers = args.MAKERS
        bound: list[Any] = []
        for where, names in self.taken:
            bound += map(where(environment).get, names)
        found = [makers[type(value)](value) for value in bound]
        if not all(found) or (formats := [*map(_FORMAT_OF, found)]) != self.formats:
            return None
        self.formats = formats  # identical objects compare fastest at the next call
        return found

    def given_to(
        self, unit: Unit, arguments: list[Any], left: FinchRange | None, limit: int
    ) -> tuple[list[Any], list[Any]]:
        """The tensors and numbers that its unit is called with."""
        own = [limit] if unit.is_loop else []
        if left is not None:
            own += left[0], left[len(left) - 1], *([left.step] if self.step is None else [])
        count = len(unit.tensors)
        return arguments[:count], [*own, *map(_NUMBER_OF, arguments[count:])]

    def take(self, names: un.UnitNames) -> None:
        """Have what a unit is given looked at."""
        found, self.uses = names.told(), names.uses
        slots = [given for given in found if isinstance(given.meaning, un.SlotName)]
        taken = slots + [given for given in found if isinstance(given.meaning, ast.Variable)]
        by_place = groupby(taken, lambda given: id(given.where(names.environment)))
        groups = [[*group] for _, group in by_place]
        self.taken = [(group[0].where, [given.name for given in group]) for group in groups]
        self.formats = [names.formats[given.meaning.name] for given in taken]
        others = [g for g in found if g not in taken and g.key not in names.own]
        self.known = [given for given in others if given.meaning is not un.ABSENT or given.is_local]
        self.unbound = frozenset(given.name for given in others if given not in self.known)
        if (kernel := self.kernel) is not None:
            told = {*kernel.source.results, *(name for _, name, _ in kernel.told)}
            self.changed = [given for given in found if given.result in told]


@dataclass(eq=False)
class StagedLoop:
    """A loop of a script, or a function when called, to be staged: its variants, the last used first."""

    node: ast.While | ast.For | ast.Function | ast.Comprehension
    variants: list[Variant] = field(default_factory=list)
    #: whether it has kernels, as was found when it was first run
    has_kernels: bool | None = None
    rounds: int = 0  # that were run one by one, in all its runs; of a function its calls
    made: int = 0  # variants, also those that are not kept any more
    late: int = 0  # how often names had no values yet
    calls: int | None = None  # of a function: how many are run one by one first
    #: the types of the values of comprehensions in it, as they were found the last time
    types: list[Type] = field(default_factory=list)
    kept: Any = None  # what its identity is known by
    #: what prevented that its unit was run the last time
    apart: str = ""

    @property
    def said(self) -> tuple[tuple[int, int], str]:
        """Where it begins, and what is told of it."""
        node, span = self.node, self.node.span
        assert span is not None
        line, column = span.line, span.column
        what = type(node).__name__.lower()
        what = f"{what} {node.name}" if isinstance(node, ast.Function) else what
        where, why = f"{span.source.name}:{line}:{column}: {what}", "names have no values yet"
        if not self.variants and not self.late:
            why = "it has few rounds"
        if self.apart:
            why = self.apart
        elif any(variant.kernel for variant in self.variants):
            return (line, column), f"{where} is staged"
        elif self.variants and (refusal := self.variants[0].refusal):
            place = refusal.span
            why = refusal.message + (f" ({place.line}:{place.column})" if place else "")
        return (line, column), f"{where} is not staged: {why}"

    def is_tried(self, environment: Environment) -> bool:
        """Whether a body of a function is staged: it has loops, with kernels in them; or it is called
        often, and has kernels beside other statements, or calls itself."""
        if self.calls is None:
            loops = [*trees.find_all(self.node, ast.While, ast.For)]
            body = getattr(self.node, "body", None)
            parts = [*trees.children(body)] if isinstance(body, ast.Script) else []
            parts = [p for p in parts if not all(isinstance(n, _IDLE) for n in trees.walk(p))]
            self.has_kernels = has_kernels(self.node, environment)
            if any(has_kernels(loop, environment) for loop in loops):
                self.calls = 0
            elif len(parts) > 1 and self.has_kernels:
                self.calls = OFTEN
            else:
                self.calls = PRICE if self.calls_itself else MOST
        return self.rounds >= self.calls

    @property
    def calls_itself(self) -> bool:
        op = ast.Variable(self.node.name) if isinstance(self.node, ast.Function) else None
        return any(isinstance(n, ast.Call) and n.op == op for n in trees.walk(self.node))

    def went_on(self) -> None:
        """A call was tried and is not run whole, as it fails: calls in it are not tried one by one."""
        if self.calls_itself:
            self.rounds, self.calls = 0, PRICE

    def given(self, found: Any, environment: Environment) -> tuple[FinchRange | None, Environment]:
        """The range that it counts over, None for no numbers, and the environment in which it does: with
        the entries of what was `found`, unless that is a range of integers."""
        node = self.node
        bounds = (found.start, found.step, found.stop) if isinstance(found, FinchRange) else (None,)
        if not isinstance(node, ast.For) or all(type(bound) is int for bound in bounds):
            return found, environment
        count = len(node.names) or 1
        parts = columns(found, count)[:count]
        if not parts:
            return None, environment
        return FinchRange(1, 1, min(map(len, parts))), holding(parts, environment)

    def pays(self, behind: int = 0, ahead: int = OFTEN) -> bool:
        """Whether making a unit pays, for a run with so many rounds behind it, with those of loops in it,
        and ahead (of `while` as many as entering a unit costs): if they cost as much, or all that were run
        one by one OFTEN as much, as a loop around is staged rather, or as the units made. Kernels would be
        compiled anyway, and functions wait for their calls: the first units of these are made at once."""
        is_due = self.has_kernels or self.calls is not None
        if is_due and self.made < VARIANTS:
            return True
        price = PRICE // OFTEN if self.has_kernels else PRICE
        is_worn = self.rounds >= price * max(OFTEN, self.made)
        return behind + ahead >= price or ahead >= OFTEN and is_worn


def _is_ours(error: BaseException) -> bool:
    """Whether an error was raised by this package, not by a signal's handler."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return place is not None and place.tb_frame.f_globals["__name__"].startswith("finchlang.")


class RunOfLoop:
    """A run of a loop: before its rounds it is seen whether the rest can be done whole, each time when
    twice as many are behind it, as names may have other values then."""

    def __init__(self, loops: StagedLoops, loop: StagedLoop, found: Any, count: int | None):
        self.loops, self.loop, self.begin = loops, loop, loops.rounds_begun
        self.found, self.count = found, count
        #: so many rounds come before the entries are made an array, as that is not for nothing
        self.next = 0 if count is None or type(found) in (FinchRange, np.ndarray) else count // 16

    def rest(self, environment: Environment, round: int) -> int | None:
        """How many rounds from this one on were done now, OVER for all of them, None if none can be."""
        loops, loop, count = self.loops, self.loop, self.count
        behind, done = loops.rounds_begun - self.begin, None
        if behind >= self.next and round != count:
            self.next = behind * 2 or 1
            loops.met(loop)
            if loop.has_kernels is None:
                loop.has_kernels = has_kernels(loop.node, environment)
            pays = loop.pays(behind, *([] if count is None else [count - round]))
            if pays or loop.variants:
                range, within = loop.given(self.found, environment)
                if range is not None or count is None:
                    done = loops.rounds(loop, within, range and range.after(round), pays)
        if isinstance(done, tuple):
            raise Leave(*done)
        if done is None:
            loop.rounds += 1
            loops.rounds_begun += 1
        return done


class StagedLoops:
    """The loops that are run whole. `runner` runs their units, `evaluate` gives values of nodes."""

    def __init__(self, runner: Runner, evaluate: Evaluate):
        self.runner, self.evaluate = runner, evaluate
        self.choices = runner.rules, runner.workspaces, runner.checked
        self.known: dict[int, StagedLoop] = {}  # those that were run, by identity
        self.rounds_begun = 0  # by all loops, one by one
        self.maps: dict[int, StagedLoop] = {}  # of functions that were mapped, by identity

    def begin(self, loop: StagedLoop, found: Any) -> RunOfLoop | None:
        """A run of the loop over what was `found`, nothing for `while`; None if it is not staged."""
        if isinstance(loop.node, ast.While):
            return RunOfLoop(self, loop, None, None)
        count = count_of(found)
        return None if count is None else RunOfLoop(self, loop, found, count)

    def collected(
        self, loop: StagedLoop, environment: Environment, sources: Sequence[Any]
    ) -> np.ndarray | None:
        """The values of a comprehension (`collecting`) over `sources`; None, nothing done, if not whole."""
        counts = [*map(count_of, sources)]
        total = prod(count or 0 for count in counts)
        if total < PRICE:
            return None
        assert isinstance(loop.node, ast.Comprehension)
        names = loop.node.names
        parts = [columns(source, len(own)) for source, own in zip(sources, names, strict=True)]
        if any({*map(len, own)} != {n} for own, n in zip(parts, counts, strict=True)):
            return None
        flat = [part for all, own in zip(parts, names, strict=True) for part in all[: len(own)]]
        done = self.rounds(loop, holding(flat, environment), None, True)
        return done[1] if isinstance(done, tuple) else None

    def mapped(self, function: Any, values: Sequence[Any]) -> np.ndarray | None:
        """The results of a function for the entries of values, as of `collected`."""
        counts = {*map(count_of, values)}
        if len(counts) != 1 or (counts.pop() or 0) < PRICE:
            return None
        known, span, around = function, None, Environment()
        names = tuple([f"entry {k}" for k in range(len(values))])
        given = tuple(map(ast.Variable, names))
        value: ast.Node = ast.call(un.MAPPED, *given)
        if isinstance(function, FinchFunction):
            known = definition = function.definition
            is_plain = function.is_staged and not (definition.types or definition.defaults)
            if not is_plain or len(definition.parameters) != len(values):
                return None
            span, around = definition.span, function.parent
            if not isinstance(definition.body, ast.Script):
                names, value = definition.parameters, definition.body
        elif not isinstance(function, (Operator, Builtin)):
            return None
        loop = self.maps.get(id(known))
        if loop is None:
            loop = replace(collecting(value, (names,), None, span), kept=known)
            keep(self.maps, id(known), loop, KNOWN)
        within = Environment(Scope(around.scope, (un.MAPPED,)), around, {un.MAPPED: function})
        source = values[0] if len(values) == 1 else [*zip(*map(entries, values), strict=True)]
        return self.collected(loop, within, [source])

    def met(self, loop: StagedLoop) -> None:
        """The loop is one that was run, for `report`."""
        if id(loop) not in self.known:
            keep(self.known, id(loop), loop, KNOWN)

    def report(self) -> list[str]:
        """A line for each loop and function that was run, in the order of their places."""
        told = {loop.said for loop in self.known.values() if loop.node.span is not None}
        return [line for _, line in sorted(told)]

    def rounds(
        self,
        loop: StagedLoop,
        environment: Environment,
        left: FinchRange | None = None,
        may_make: bool | None = None,
    ) -> int | Left | None:
        """How many rounds of the loop were done now, OVER for all of them, or the `return` that left it; of
        one over a range what is `left` of it. None if none can be, or only by a new variant that is not to
        be made, by default if it does not pay. If fewer are done, the next one fails, or cannot be done
        whole. Raises FinchError of kind interrupted; all is then as before this call."""
        if is_calling() or self.runner.engine not in UNITS:
            return None
        self.met(loop)
        step = 1 if left is None else step_of(loop, left)
        for is_new in False, True:
            with one_call_at_a_time:
                for at, variant in enumerate(loop.variants):
                    try:
                        arguments = variant.arguments(environment) if variant.step == step else None
                    except FinchError:  # a value is not sound, which a round that uses it tells
                        return None
                    if arguments is None:
                        continue
                    if at:
                        loop.variants.insert(0, loop.variants.pop(at))
                    kernel = variant.kernel
                    loop.apart = why_not(kernel, arguments) if kernel and kernel.written else ""
                    if kernel is None or loop.apart:
                        return None
                    return self.run(variant, arguments, environment, left)
            if may_make is None:
                may_make = loop.pays()
            # outside of the lock, as kernels are
            if is_new or not may_make or not self.compiled(loop, environment, left, step):
                break
        return None

    def compiled(
        self, loop: StagedLoop, environment: Environment, left: FinchRange | None, step: int | None
    ) -> bool:
        """Make a variant for the present values; False if there is none, perhaps not yet."""
        # late: few scripts have loops to be staged
        from finchlang.script.as_operator import operation
        from finchlang.script.as_unit import Units

        variant = Variant(step=step)
        try:
            for _ in range(PATIENCE):
                names = un.UnitNames(environment)
                units = Units(names, self.evaluate, self.choices, operation, loop.types)
                unit = replace(units.unit(loop.node, variant.step), span=loop.node.span)
                if units.collected and (found := types_collected(unit, units)) != units.types:
                    loop.types = found
                    names.errors.append(un.NotStaged("types of values change", loop.node.span))
                else:
                    break
            for error in names.errors:
                raise error
            kernel = UnitKernel(unit, units.names.formats, *self.choices)
            if isinstance(loop.node, ast.Comprehension) and kernel.written:
                raise un.NotStaged("it changes other tensors", loop.node.span)
            variant.take(units.names)
            arguments = variant.arguments(environment)
            if arguments is not None and not why_not(kernel, arguments):
                self.runner.prepare_unit(kernel, *variant.given_to(unit, arguments, left, MOST))
            node = ast.Return(None, span=units.root.left)
            variant.kernel, variant.leave = kernel, (node, telling(units.root.result))
        except FinchError as refusal:  # an error is what the loop itself will find
            if refusal.kind == "interrupted":
                raise
            if isinstance(refusal, un.NotStaged) and refusal.is_late:
                loop.late += 1
                if not isinstance(loop.node, ast.Function) and loop.late <= PATIENCE:
                    return False
            variant.refusal = refusal.with_traceback(None)
        except Exception as error:  # a fault of staging is none of the loop
            if os.environ.get("FINCH_CHECK") == "1" or not _is_ours(error):
                raise
            variant.refusal = un.NotStaged(f"{type(error).__name__}: {error}", None)
        variant.take(units.names)  # also what a refusal was due to
        loop.variants.insert(0, variant)
        loop.made += 1
        del loop.variants[VARIANTS:]
        return True

    def run(
        self,
        variant: Variant,
        arguments: list[Any],
        environment: Environment,
        left: FinchRange | None,
    ) -> int | Left:
        """Run the unit. If a round fails, those before it are done once more, and it is left to the loop:
        an error is then what it is in the script, and what was done before it stays."""
        kernel, limit, done = variant.kernel, MOST, OVER
        assert kernel is not None
        results: dict[str, Any] = {}

        def bind(found: dict[str, Any]) -> None:
            nonlocal results
            results = found
            for name in variant.changed:
                if name.result in found and found.get(name.flag, True):
                    name.where(environment)[name.name] = found[name.result]

        while limit:
            given = variant.given_to(kernel.source, arguments, left, limit)
            try:
                self.runner.run_unit(kernel, *given, limit < MOST, bind)
            except FinchError as error:
                if error.kind == "interrupted":
                    raise
                limit = done = error.note[0] if error.note else 0
                continue
            if variant.leave is not None and results.get(un.RETURNED):
                node, tell = variant.leave
                return node, tell(results)
            return done
        return 0


def count_of(value: Any) -> int | None:
    """How many entries a value has that may be numbers; None for other values."""
    if isinstance(value, np.ndarray):
        return value.size
    return len(value) if isinstance(value, (FinchRange, list, tuple, dict)) else None


def holding(parts: list[Any], environment: Environment) -> Environment:
    """An environment with names for entries of arrays, which scripts cannot have."""
    hidden: dict[str, Any] = dict(zip(un.entry_names(len(parts)), parts, strict=True))
    return Environment(Scope(environment.scope, hidden), environment, hidden)


def collecting(
    value: ast.Node, names: Sequence[tuple[str, ...]], condition: ast.Node | None, span: Any
) -> StagedLoop:
    """A comprehension over arrays, whose entries have these names."""
    left, over = [*map(ast.Variable, un.entry_names(sum(map(len, names))))], list[ast.Node]()
    for own in names:
        parts, left = tuple(left[: len(own)]), left[len(own) :]
        over.append(parts[0] if len(own) == 1 else ast.call("zip", *parts))
    node = ast.Comprehension(value, tuple(names), tuple(over), condition, False, span=span)
    return StagedLoop(node)


def types_collected(unit: Unit, units: Units) -> list[Type]:
    """The types of the values of all comprehensions of a unit, which was made for `units.types`. Raises
    FinchError if they are as expected, and what is on numbers is wrong."""
    from finchlang.functions.unit_rules import types_of
    from finchlang.operators.body_rules import BodyNames

    names, fault = BodyNames(), None
    try:
        types_of(unit, units.names.formats, names)
    except FinchError as error:  # perhaps since another type was expected
        fault = error
    pairs = zip(units.collected, units.types, strict=False)
    found = [names.types.get(number, type) for number, type in pairs]
    if any(isinstance(type, PairType) for type in found):
        raise un.NotStaged("the values are no numbers", unit.span)
    if fault is not None and found == units.types:
        raise fault
    return found


def step_of(loop: StagedLoop, left: FinchRange | None) -> int | None:
    """The step of the range that a loop is staged for; None if it may be another one in the next run."""
    range = loop.node.iterable if isinstance(loop.node, ast.For) else None
    is_known = isinstance(range, ast.Extent) and isinstance(range.step, ast.Literal)
    return 1 if left is None or left.step == 1 else left.step if is_known else None


def telling(what: Any) -> Telling:
    """What tells the value that a `return` in a unit gives."""
    match what:
        case tuple((_, _, *_) as items) if {*map(type, items)} <= {ast.Variable, un.SlotName}:
            return itemgetter(*[item.name for item in items])
        case tuple(items):
            parts = [*map(telling, items)]
            return lambda found: tuple([part(found) for part in parts])
        case ast.Variable(name) | un.SlotName(name):
            return itemgetter(name)
        case un.Static(value):
            return lambda found: value
    return lambda found: what


def why_not(kernel: UnitKernel, arguments: list[Any]) -> str:
    """Why tensors of a unit may not be written, or are not apart from each other: then the loop is run
    kernel by kernel, which tells the kernel at fault. "" if nothing prevents it."""
    tensors = arguments[: len(kernel.tensors)]
    try:
        check_outputs(kernel.tensors, tensors, kernel.written)
    except FinchError as error:
        return error.message
    if any([tensors[at][args.KIND] is args.CONVERTED for at in kernel.written]):
        return "an array of SciPy that is converted takes its results as another one"
    return ""


def has_kernels(node: ast.Node, environment: Environment) -> bool:
    """Whether a loop has kernels, also in functions that it calls."""
    parts = (part for whole in reached(node, environment) for part in trees.walk(whole))
    return any(isinstance(part, ast.KernelNode) for part in parts)
