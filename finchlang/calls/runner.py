"""Runs kernels, each compiled once for the formats it is called with, and reports them to an observer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from finchlang.base.errors import Bug, FinchError, Note
from finchlang.base.locks import keep
from finchlang.calls import substitute
from finchlang.calls.arguments import KIND, NUMBER, VALUE, Argument, describe, memory_of
from finchlang.calls.call import Values, check_outputs, is_calling, one_call_at_a_time, taken_over
from finchlang.calls.environment import Environment
from finchlang.calls.kernel import CallSite, Formats, Given, KernelAtSite, NodeOf, SpecializedKernel
from finchlang.calls.lazy_shape import Template
from finchlang.levels.level import Level
from finchlang.operators.operator_table import node_of
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.types import foreign
from finchlang.syntax.user_function import Laws, Operation

if TYPE_CHECKING:
    import numpy as np

    from finchlang.calls.kernel import UnitKernel
    from finchlang.host.engine import Applied, Rule, Tracer
    from finchlang.host.executing import ExecutingHost
    from finchlang.host.interface import Host

#: how many call sites are kept, the last used
SITES = 256
#: how many notes are kept, the last ones
NOTES = 256
ENGINES = ("native", "interpret", "residual", "denote", "check")
#: those that run loops of scripts as wholes
UNITS = ENGINES[:3]

#: a kernel's node, what its names are bound to, and its functions, as the denotation has them
Meaning = tuple[ast.KernelNode, dict[str, Any], dict[Any, Any]]


class Situation(NamedTuple):
    """A call site in a call: what the names of its kernel are bound to, and where."""

    site: CallSite
    arguments: Given
    formats: Formats
    environment: Environment


class Observer:
    """Receives events about kernels; every method may be overridden."""

    #: whether `rule` wants to be called (it makes the interpreter slower), and loops step one by one
    traces = one_by_one = False
    #: whether loops may be compiled whole, so that it is not told of the kernels in them
    stages: ClassVar[bool] = False

    def kernel(self, event: KernelEvent) -> None:
        """A kernel was compiled, or found on disk, for formats it had not been run on before."""

    def note(self, note: Note) -> None:
        """A compiled kernel has a note that was not reported before."""

    def started(self, event: KernelEvent) -> None:
        """A kernel is run by the interpreter or the evaluator of residuals."""

    def rule(self, applied: Applied) -> None:
        """The interpreter applied a rule."""

    def finished(self, event: KernelEvent, steps: Counter[str]) -> None:
        """A kernel ran under the interpreter or the evaluator of residuals."""


@dataclass(eq=False)
class KernelEvent:
    """A compiled kernel, or a unit, for inspection; `source` is its node, `given` are the tensors and the
    numbers of its first run, and `meaning` gives the kernel, values and functions for the denotation."""

    source: Any
    compiled: SpecializedKernel
    given: Any = None
    meaning: Callable[[], Meaning] | None = None

    @property
    def passes(self) -> list[tuple[str, ast.Node]]:
        """The program after each pass of normalisation, with the pass's name."""
        return self.compiled.staged.passes()

    @property
    def workspaces(self) -> dict[str, Level]:
        """The tensors that the kernel makes for itself."""
        return self.compiled.signature.workspaces

    @property
    def decisions(self) -> tuple[tuple[str, str], ...]:
        """What the planner and each pass of normalisation decided and why, with the pass's name first."""
        own = getattr(self.source, "decisions", ())
        return own + self.compiled.staged.decisions

    @property
    def residual(self) -> Any:
        return self.compiled.staged.residual

    def stage(
        self, host: Host, tracer: Tracer | None, noted: Callable[[Rule], Rule] = lambda rule: rule
    ) -> tuple[Any, ...]:
        """Run the rules, each wrapped by `noted`, on a host that records, and tell the tracer of steps.
        Gives outputs that are not of tensors."""
        return self.compiled.staged.run_rules(host, tracer, noted)

    @contextmanager
    def memory(self) -> Iterator[tuple[list[np.ndarray], list[Any]]]:
        """The arrays and inputs of the first run, copies of those that are written, to run a residual of
        the kernel on. Meanwhile no other runs: variables, which other sessions may share, hold values."""
        arguments, numbers = self.given
        with one_call_at_a_time:
            yield self.compiled.staged.copied(self.compiled.all_of(arguments), numbers)

    def run(
        self, engine: str, tracer: Tracer | None = None, host: ExecutingHost | None = None
    ) -> list[tuple[Any, Argument, Any]]:
        """Run by an engine, on a host if given, on the arguments of the first run. Gives each output as
        bound to the kernel, its argument and its new memory; nothing is committed."""
        tensors, numbers = self.given
        if engine == "native":  # which would change them in place
            tensors = [describe(deepcopy(argument[VALUE])) for argument in tensors]
        with one_call_at_a_time:
            made, _ = self.compiled.run(engine, tensors, numbers, tracer, host)
        known = [(at, memory) for at, memory in made if at < len(tensors)]
        return [(self.compiled.bounds[at], tensors[at], memory) for at, memory in known]


class Runner:
    """Runs kernels. The arguments are those of Session, a subclass that adds names and scripts, and
    overrides what only values of scripts need."""

    def __init__(
        self, engine: str, rules: str, observer: Observer | None, workspaces: bool, checked: bool
    ):
        if engine not in ENGINES:
            raise FinchError("unknown name", f"no engine {engine}; there are {', '.join(ENGINES)}")
        if observer is not None and not isinstance(observer, Observer):
            message = f"an observer is an Observer of `calls.runner`, not {foreign(observer)}"
            raise FinchError("type", message)
        if rules not in ("all", "paper"):  # else the table would be imported for nothing
            from finchlang.rules.table import rules as rules_of

            rules_of(str(rules))  # raises if there are none
        self.engine, self.rules, self.workspaces = engine, rules, workspaces
        self.checked = checked
        self.observer = observer or Observer()
        self.notes: list[Note] = []
        #: by the identity of their nodes, which sites keep alive, so that no other node gets it
        self._sites: dict[int, CallSite] = {}

    #: the function or operator that a value is now; None if it cannot be called
    operation: NodeOf = staticmethod(node_of)

    def denoted(self, values: Iterable[Any]) -> dict[Any, Any]:
        """The functions among the values as the denotation takes them."""
        return {}

    def refuse(self, name: ast.Variable, value: Any) -> None:
        """Raise FinchError "type" for a name in a kernel with a value that kernels do not take."""

    def denote(self, *args: Any, **named: Any) -> dict[str, Any]:
        """Run a program by the denotation."""
        raise Bug("only sessions have the denotation")

    def run_kernel(self, kernel: ast.KernelNode, values: dict[str, Any]) -> Any:
        """Run a kernel on the values of its names. A result that cannot be changed in place replaces its
        entry in `values`. Raises FinchError."""
        if not isinstance(kernel, ast.KernelNode):
            message = f"a kernel is the node of a script's `@finch`, not a {type(kernel).__name__}"
            raise FinchError("type", message)
        return self._run_kernel(kernel, Environment(values=values))

    def _run_kernel(self, node: ast.KernelNode, environment: Environment) -> Any:
        is_first = False
        try:
            # Each round finds the arguments anew under the lock. Compiling happens outside of it,
            # and after it the values may have changed.
            while True:
                site = self._sites.get(id(node))
                if site is None:
                    choices = self.rules, self.workspaces, self.checked
                    site = CallSite(node, choices, self.operation)
                    keep(self._sites, id(node), site, SITES)
                if is_calling():
                    what = "a kernel is run while another one runs in the same thread"
                    hint = (
                        "a signal's handler can note what happened, and leave the kernel for later"
                    )
                    raise FinchError("life cycle", what, None, hint)
                with one_call_at_a_time:
                    arguments, formats = site.describe(environment)
                    if Template in map(type, formats):
                        node, places = site.through_views(formats)
                        environment = substitute.through_views(places, environment)
                        continue
                    found = site.find(formats)
                    if found is not None and found.is_choice:
                        found = found.fitting(arguments)
                    if found is not None and found.is_ready:
                        if self.engine == "native":
                            found.run(arguments, environment, "native")
                        elif self.engine != "check":
                            given = arguments, environment, self.engine
                            event = KernelEvent(found.node, found.kernel)
                            self._observed(self.observer, event, partial(found.run, *given))
                        if is_first and (empty := _without_size(site.node.program, environment)):
                            message = f"`{empty}` has size 0, so that nothing is assigned to it"
                            self.noted(Note(message, site.node.span))
                        names = found.kernel.yields
                        return yielded(names, environment) if names else None
                    now = Situation(site, arguments, formats, environment)
                    if found is None:
                        self._check_values(now)
                    if self.engine == "denote":
                        return self._denote(now)
                # compiled without the lock, so that other threads can call kernels
                if found is None:
                    site.add(_with_right_laws(KernelAtSite(site, formats)))
                else:
                    event = KernelEvent(found.node, found.kernel, found.given(arguments))
                    event.meaning = partial(self._meaning, now)
                    self._prepare(event)
                    is_first = found.is_ready = True
        except FinchError as error:
            if error.kind == "dimension" and error.hint is None:
                empty = _without_size(node.program, environment)
                hint = f"`{empty}` has no size yet: `{empty} .= 0` before the loops gives it theirs"
                error.hint = empty and hint
            raise error.at(node.span) from None

    def _check_values(self, now: Situation) -> None:
        """Raise FinchError "type", at the name, for a value that is used and that kernels do not take."""
        site, arguments, _, environment = now
        nodes = [*trees.walk(site.node.program)]
        own = {getattr(n.op, "name", "") for n in nodes if isinstance(n, ast.Call)}
        own.update(*map(trees.binds, nodes))
        for name, argument in zip(site.variables, arguments, strict=True):
            if argument is None and name not in own and environment.has(name):
                variables = trees.find_all(site.node.program, ast.Variable)
                first = next(n for n in variables if n.name == name)
                self.refuse(first, environment.get(name))

    def _prepare(self, event: KernelEvent) -> None:
        self.observer.kernel(event)
        for note in event.compiled.notes:
            self.noted(note)
        if self.engine == "native":
            event.compiled.prepare()

    def noted(self, note: Note) -> None:
        """Keep a note, and tell the observer, unless that was done for other formats."""
        if note not in self.notes:
            self.notes = [*self.notes[1 - NOTES :], note]
            self.observer.note(note)

    @staticmethod
    def _observed(
        observer: Observer, event: KernelEvent, run: Callable[[Tracer | None], Counter[str]]
    ) -> None:
        """Run a kernel or a unit with the tracer that the observer wants, and tell that of it."""
        tracer: Tracer | None = observer.rule if observer.traces else None
        if tracer and observer.one_by_one:
            tracer = event.compiled.staged.one_by_one(tracer)
        observer.started(event)
        observer.finished(event, run(tracer))

    def prepare_unit(self, unit: UnitKernel, arguments: Values, numbers: Values) -> None:
        """Have a unit, which is to be run on these arguments first, ready to run."""
        self._prepare(KernelEvent(unit.source, unit, (arguments, numbers)))

    def run_unit(
        self,
        unit: UnitKernel,
        arguments: Values,
        numbers: Values,
        is_again: bool,
        bind: Callable[[dict[str, Any]], None],
    ) -> None:
        """As `SpecializedKernel.call` of a unit. The observer is not told of rounds that are done again."""
        if self.engine == "native":
            unit.call(bind, "native", arguments, numbers)
        else:
            run = partial(unit.call, bind, self.engine, arguments, numbers)
            observer = Observer() if is_again else self.observer
            self._observed(observer, KernelEvent(unit.source, unit), run)

    def _meaning(self, now: Situation) -> Meaning:
        site, arguments, formats, environment = now
        named = zip(site.variables, arguments, strict=True)
        bound = {name: a[VALUE] for name, a in named if a is not None}
        # without what was found of the values, which the denotation does not use
        known = site.operations(formats)
        operations = {n: self.operation(environment.get(n)) or f for n, f in known.items()}
        nodes = trees.find_all(site.node.program, ast.Call, ast.Assign)
        inside = [n.op for n in nodes if isinstance(n.op, Operation)]
        functions = self.denoted((*map(environment.get, operations), *inside))
        node = substitute.specialized(site.node, bound, operations, site.fills(formats))
        return node, bound, functions

    def _denote(self, now: Situation) -> Any:
        site, arguments, formats, environment = now
        node, bound, functions = self._meaning(now)
        named = dict(zip(site.variables, arguments, strict=True))
        tensors = {n: a for n, a in named.items() if a is not None and a[KIND] is not NUMBER}
        is_annotated = isinstance(node.program, ast.Annotated)  # compiling may refuse an annotation
        if is_annotated or any(function.laws != Laws() for function in functions):
            _with_right_laws(KernelAtSite(site, formats))
        yields = [*trees.find_all(node.program, ast.Yield)]
        returned = [variable for found in yields for variable in found.names]
        for variable in returned:
            if variable.name not in bound:
                raise FinchError("unknown name", f"{variable.name} is not defined", variable.span)
        declared, stored = set[str](), dict[str, Any]()
        results = self.denote(node.program, bound, functions, declared=declared, stored=stored)
        names, given = [*tensors], [*tensors.values()]
        written = [at for at, name in enumerate(names) if name in results]
        check_outputs(names, given, written)
        # all of them, before one is changed: a format may refuse its values
        made: list[tuple[int, Any]] = []
        for at in written:
            name = names[at]
            is_made = name in declared or not given[at][KIND].is_undeclared
            memory = memory_of(results[name], given[at], stored[name]) if is_made else None
            made.append((at, memory))
        try:  # as in `SpecializedKernel.call`
            environment.bind(taken_over(names, given, made))
        except BaseException:
            environment.bind(taken_over(names, given, made))
            raise
        return yielded(tuple([variable.name for variable in returned]), environment)


def yielded(names: tuple[str, ...], environment: Environment) -> Any:
    """The value that a kernel returns for `names`: one value, or a tuple."""
    if not names:
        return None
    values = tuple([environment.get(name) for name in names])
    return values[0] if len(values) == 1 else values


def _with_right_laws(made: KernelAtSite) -> KernelAtSite:
    """A new kernel, after its functions' laws were tried. Raises FinchError "type" for a wrong law."""
    if not made.kernel.was_found:  # a kernel from disk was tried when it was compiled
        from finchlang.calls.law_trials import check_laws

        normalized = made.kernel.staged.normalized
        check_laws(normalized.program, normalized.formats)
    return made


def _without_size(program: ast.Node, environment: Environment) -> str | None:
    """The first tensor of size 0 that a kernel writes and does not declare."""
    declared = {n.tensor.name for n in trees.find_all(program, ast.Declare)}
    targets = [n.target.tensor for n in trees.find_all(program, ast.Assign)]
    for name in [t.name for t in targets if isinstance(t, ast.Variable) and t.name not in declared]:
        if environment.has(name) and 0 in getattr(environment.get(name), "shape", ()):
            return name
    return None


#: the runner of kernels of arrays and views
OWN = Runner("native", "all", None, True, False)
run_kernel = OWN.run_kernel
