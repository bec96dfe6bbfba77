"""A kernel or unit for tensors of given formats, found on disk or compiled, and run by any engine."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from finchlang.algebra.program_context import Format
from finchlang.base.disk_cache import default_cache
from finchlang.base.errors import FinchError
from finchlang.base.locks import cached_property
from finchlang.calls import arguments as args, substitute
from finchlang.calls.arguments import FORMAT, Argument
from finchlang.calls.call import (
    Made,
    NativeCall,
    Outcome,
    OwnTensors,
    Values,
    check_outputs,
    handing_out,
    taken_over,
)
from finchlang.calls.compile_cache import CacheEntry, cache_key
from finchlang.calls.environment import Environment
from finchlang.calls.lazy_shape import Template
from finchlang.calls.workspace_exchange import to_exchange
from finchlang.native.compiled_kernel import NativeKernel
from finchlang.native.link import load_kernel
from finchlang.operators.operator_table import node_of
from finchlang.syntax.nodes import Assign, Call, KernelNode, Literal, Node, Variable
from finchlang.syntax.traversal import walk
from finchlang.tensors.memory import Memory
from finchlang.wrappers.masks import MaskValue, is_bare

if TYPE_CHECKING:
    from finchlang.calls.staging import Staged
    from finchlang.functions.unit import Unit
    from finchlang.host.engine import Tracer
    from finchlang.host.executing import ExecutingHost

#: for each name of a kernel its value as an argument, and the format of that; None for a value that
#: kernels do not take
Given = list[Argument | None]
Formats = list[Any]
#: gives the node that a value is where it is called, or None
NodeOf = Callable[[Any], Node | None]
_NO_STEPS: Counter[str] = Counter()

#: how many compiled kernels a call site keeps, one for each combination of formats
KERNELS = 8


class SpecializedKernel:
    """A program compiled for formats. `tensors` are the script's names of the tensors it takes, in order,
    `written` the numbers of those that it changes, `numbers` the names of its numbers; `yields` are the
    names it hands back, `notes` remarks for the user. Native code checks memory if `checked`, or if
    FINCH_CHECKED is 1.

    A kernel that was compiled before is found on disk, and staged only if that is asked for. Raises
    FinchError of kind unknown name, type, dimension, life cycle or access order.
    """

    def __init__(
        self,
        program: Node,
        formats: dict[str, Format],
        which_rules: str = "all",
        workspaces: bool = True,
        checked: bool = False,
        exchanged: frozenset[str] = frozenset(),
    ):
        self.source, self.formats, self.exchanged = program, formats, exchanged
        self._choices = which_rules, workspaces, exchanged
        self.checked = checked or os.environ.get("FINCH_CHECKED") == "1"
        self._cache = default_cache()
        choices = which_rules, workspaces, self.checked, tuple(sorted(exchanged))
        self._key = cache_key(program, formats, choices, self._cache)
        self._entry = entry = self._key.recall() if self._key is not None else None
        self.was_found = entry is not None  # it was compiled before
        self.signature = signature = entry.signature if entry else self.staged.signature
        self.bounds = signature.bounds(formats) if entry else self.staged.bounds
        self.tensors, self.numbers = tuple(signature.tensors.values()), signature.numbers
        given = self.bounds[: len(self.tensors)]
        self.written = [at for at, bound in enumerate(given) if bound.written]
        self.yields, self.notes = signature.yields, signature.notes
        self.own = OwnTensors(self.bounds[len(self.tensors) :], signature.handed)

    @cached_property
    def staged(self) -> Staged:
        """The program staged; made only if something is needed that is not on disk."""
        # late: only kernels that are not on disk need it
        from finchlang.calls.staging import staged

        known = self._entry.signature if self._entry else None
        return staged(self.source, self.formats, self._choices, known, self._stages())

    @staticmethod
    def _stages() -> type[Staged]:
        from finchlang.calls.staging import Staged

        return Staged

    def all_of(self, arguments: Values) -> Values:
        """The arguments, and the kernel's own tensors."""
        return [*arguments, *self.own.arguments()]

    def run(
        self,
        engine: str,
        arguments: Values,
        numbers: Values,
        tracer: Tracer | None = None,
        host: ExecutingHost | None = None,
    ) -> Outcome:
        """Run by the engine of this name, on `host` if given. Gives the outputs with their new memory,
        and the host steps. Raises FinchError; all arrays are then as before."""
        if engine == "native":  # on the arguments' own memory, restored if it fails
            return self.native_call.run(arguments, numbers), _NO_STEPS
        found = self.staged.run(engine, self.all_of(arguments), numbers, tracer, host)
        self.own.take(found[0], len(self.tensors))
        return found

    def call(
        self,
        bind: Callable[[dict[str, Any]], None],
        engine: str,
        arguments: Values,
        numbers: Values,
        tracer: Tracer | None = None,
    ) -> Counter[str]:
        """Run on the arguments by an engine, and have `bind` bind the results by their names. Gives the
        host's steps. Raises FinchError; all is then as before. An interrupt leaves all as before, or all
        results taken over and bound."""
        made, steps = self.run(engine, arguments, numbers, tracer)
        try:  # here, since an interrupt may come where a function begins; to finish twice is as once
            bind(self._handed(made, arguments))
        except BaseException:
            bind(self._handed(made, arguments))
            raise
        return steps

    def _handed(self, made: Made, arguments: Values) -> dict[str, Any]:
        """Take over the results. Gives the objects that replace arguments."""
        return taken_over(self.tensors, arguments, made)

    def prepare(self) -> None:
        """Compile the program now."""
        assert self.native_call

    @cached_property
    def native_call(self) -> NativeCall:
        return NativeCall(self.native, self.bounds, self.signature, self.checked, self.own)

    @cached_property
    def native(self) -> NativeKernel:
        key, entry, cache = self._key, self._entry, self._cache
        if entry is not None and cache is not None:
            found = load_kernel(entry.layout, entry.object_name, cache)
            if found is not None:
                return found
        native = self.staged.compile(cache, self.checked)
        if key is not None and native.object_name is not None:
            key.keep(CacheEntry(self.signature, native.layout, native.object_name))
        return native


class UnitKernel(SpecializedKernel):
    """A unit compiled for formats."""

    source: Unit

    @staticmethod
    def _stages() -> type[Staged]:
        from finchlang.calls.staged_unit import StagedUnit

        return StagedUnit

    def _handed(self, made: Made, arguments: Values) -> dict[str, Any]:
        """Take over the results. Gives the objects that the slots given to it now hold, as far as these
        were written, those returned, and the numbers that are results."""
        found: dict[str, Any] = dict(zip(self.source.results, made.results, strict=True))
        values: dict[int, Any] = {}  # `dict[int, Any]()` takes eight times as long
        homes = made.homes
        for at, memory in made:
            if at < len(arguments):
                values[at] = arguments[at][args.KIND].commit(arguments[at], memory)
            elif memory is not None:
                values[at] = self._own[at](memory)
        for at, name, is_returned in self.told:
            home = homes.get(at, at)
            if home in values:
                found[name] = values[home]
            elif is_returned:
                found[name] = arguments[home][args.VALUE]
        return found

    @cached_property
    def _own(self) -> list[Callable[[Memory], Any]]:
        """What makes the objects for its slots."""
        arrays = self.source.arrays
        return [handing_out(bound.level, bound.name in arrays) for bound in self.bounds]

    @cached_property
    def told(self) -> list[tuple[int, str, bool]]:
        """The slots whose tensors the caller is told of: their numbers, names, and whether a `return` gives
        them."""
        unit = self.source
        changed = {bound.name for bound in self.bounds if bound.written} | {*unit.exchanging}
        told = {*unit.tensors} & changed | {*unit.returned}
        names = enumerate(bound.name for bound in self.bounds)
        return [(at, n, n in unit.returned) for at, n in names if n in told]


class CallSite:
    """A kernel at its place in a script, and the kernels compiled for it there, with these choices: the
    rules, whether workspaces are inserted, and whether memory is checked."""

    def __init__(
        self, node: KernelNode, choices: tuple[str, bool, bool], operation: NodeOf = node_of
    ):
        self.node, self.choices, self._operation = node, choices, operation
        nodes = list(walk(node.program))
        # by identity: nodes compare by structure, and a name may be called and be a value, too
        called = {id(n.op): n.op for n in nodes if isinstance(n, (Call, Assign))}
        variables = [n for n in nodes if isinstance(n, Variable) and id(n) not in called]
        self.variables = {n.name: n for n in variables}
        #: the names that may be functions of the script
        self.called = substitute.functions_called(nodes)
        self._names = tuple(self.variables)
        self._masks = [MaskValue(n) if is_bare(n) else None for n in self._names]
        self._infers = bool(substitute.inferring(node.program))
        self._known: list[KernelAtSite] = []  # most recently used first
        #: by the templates of views that its names are bound to: the kernel rewritten for their tensors
        self._seen_through: dict[Any, tuple[KernelNode, substitute.Places]] = {}

    def describe(self, environment: Environment) -> tuple[Given, Formats]:
        """What the names of the kernel are bound to now (None for a value that kernels do not take), and
        their formats, followed by the functions that it calls. Raises FinchError at a name."""
        found: Given = []
        names, makers = self._names, args.MAKERS
        if environment.parent is None:
            values: Iterable[Any] = map(environment.values.get, names, self._masks)
        else:
            pairs, owner = zip(names, self._masks, strict=True), environment.owner
            values = [owner(name).values.get(name, mask) for name, mask in pairs]
        try:
            for value in values:
                found.append(makers[type(value)](value))
        except FinchError as error:
            raise error.at(self.variables[names[len(found)]].span) from None
        formats: Formats = [argument and argument[FORMAT] for argument in found]
        for name, node in self.called.items():
            value = environment.owner(name).values.get(name)
            try:
                function = None if value is None else self._operation(value)
                named = zip(self._names, found, strict=True)
                formats.append(substitute.in_ranges(function, self.node.program, named))
            except FinchError as error:
                raise error.at(node.span) from None
        for tensor, fill in self.fills(formats).items() if self._infers else ():
            at = self._names.index(tensor.name)
            given = found[at]
            if given is not None:
                found[at] = new = substitute.refilled(given, fill, tensor)
                formats[at] = new[FORMAT]
        return found, formats

    def through_views(self, formats: Formats) -> tuple[KernelNode, substitute.Places]:
        """The kernel rewritten for the tensors of its views, and the places of these."""
        named = self.named(formats).items()
        views = {name: found for name, found in named if type(found) is Template}
        key = tuple(views.items())
        if key not in self._seen_through:
            self._seen_through[key] = substitute.with_views(self.node, views)
        return self._seen_through[key]

    def named(self, formats: Formats) -> dict[str, Any]:
        """The formats by name, without those that are None."""
        found = zip(self._names, formats, strict=False)
        return {name: format for name, format in found if format is not None}

    def operations(self, formats: Formats) -> dict[str, Node]:
        found = zip(self.called, formats[len(self.variables) :], strict=True)
        return {name: function for name, function in found if function is not None}

    def fills(self, formats: Formats) -> dict[Variable, Literal]:
        """The inferred fill of each tensor that is declared by `_`."""
        # with views the kernel is first rewritten for their tensors
        if not self._infers or Template in map(type, formats):
            return {}
        named = self.named(formats)
        node = substitute.specialized(self.node, named, self.operations(formats))
        return substitute.inferred_fills(node.program, substitute.stored_formats(named))

    def find(self, formats: Formats) -> KernelAtSite | None:
        """The kernel compiled for these formats; None if there is none."""
        for at, kernel in enumerate(self._known):
            if kernel.formats == formats:
                kernel.formats = formats  # identical objects compare fastest at the next call
                if at > 0:
                    self._known.insert(0, self._known.pop(at))
                return kernel
        return None

    def add(self, kernel: KernelAtSite) -> None:
        self._known.insert(0, kernel)
        del self._known[KERNELS:]


def _chooser(positions: list[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    if len(positions) > 1:  # of one position itemgetter gives no sequence
        return itemgetter(*positions)
    return lambda items: [items[at] for at in positions]


class KernelAtSite:
    """A kernel compiled for the formats of its site's names. `is_ready` once it was reported to the
    observer and, if it is to be native, compiled. Where sizes ask for other workspaces a variant is made;
    if that has no memory, the `usual` kernel runs."""

    def __init__(
        self,
        site: CallSite,
        formats: Formats,
        exchanged: frozenset[str] = frozenset(),
        usual: KernelAtSite | None = None,
    ):
        self.site, self.formats, self.usual, self.is_ready = site, formats, usual, False
        self._others: dict[frozenset[str], KernelAtSite] = {}
        named = site.named(formats)
        operations = substitute.apart(site.operations(formats), site.node)
        self.node = substitute.specialized(site.node, named, operations, site.fills(formats))
        stored = substitute.stored_formats(named)
        kernel = SpecializedKernel(self.node.program, stored, *site.choices, exchanged)
        self.kernel = kernel
        names = list(site.variables)
        self._tensors = _chooser([names.index(name) for name in kernel.tensors])
        self._numbers = _chooser([names.index(name) for name in kernel.numbers])
        self.is_choice = bool(kernel.signature.spans)

    def fitting(self, arguments: Given) -> KernelAtSite:
        """This kernel, or the variant whose workspace formats suit the sizes of these arguments."""
        kernel = self.kernel
        tensors, values = self.given(arguments)
        numbers = dict(zip(kernel.numbers, values, strict=True))
        read = (a for at, a in enumerate(tensors) if at not in kernel.written)
        stored = (array for argument in read for array in argument[args.ARRAYS])
        given = dict(zip(kernel.signature.tensors, tensors, strict=True))
        exchanged = to_exchange(kernel.signature.spans, given, numbers, stored)
        if not exchanged:
            return self
        if exchanged not in self._others:
            self._others[exchanged] = KernelAtSite(self.site, self.formats, exchanged, self)
        return self._others[exchanged]

    def given(self, arguments: Values) -> tuple[Values, Values]:
        """The tensors and the numbers among the arguments of the site."""
        if not self.kernel.numbers:
            return self._tensors(arguments), ()
        return self._tensors(arguments), [a[args.OWNER] for a in self._numbers(arguments)]

    def run(
        self, arguments: Given, environment: Environment, engine: str, tracer: Tracer | None = None
    ) -> Counter[str]:
        """Run on the arguments and bind the results. Gives the host steps. Raises FinchError."""
        kernel = self.kernel
        tensors, numbers = self.given(arguments)
        check_outputs(kernel.tensors, tensors, kernel.written)
        try:
            return kernel.call(environment.bind, engine, tensors, numbers, tracer)
        except FinchError as error:
            if self.usual is None or error.kind != "resource":
                raise
            return self.usual.run(arguments, environment, engine, tracer)
