"""Session: the one place that joins the script, the rules, the hosts and native code."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from finchlang.calling.caller import Caller
from finchlang.denote import denote
from finchlang.handles import Handle, Handles, check_memory
from finchlang.kernel import Kernel
from finchlang.native.jit import assembly_text, llvm_text
from finchlang.normalize import Format
from finchlang.parse import parse_script
from finchlang.rewrite import substitute, walk
from finchlang.script.check import Checker
from finchlang.script.environment import Environment
from finchlang.script.evaluate import Evaluator
from finchlang.source import FinchError, Span
from finchlang.syntax import Kernel as KernelNode
from finchlang.syntax import Node, Variable, Yield
from finchlang.tensors.masks import MaskValue
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor
from finchlang.types import type_of_value

ENGINES = ("native", "interpret", "residual", "denote", "check")


class Observer:
    """Is told what a session does with its kernels; every method may be overridden."""

    #: whether `rule` wants to be called (it makes the interpreter slower)
    traces = False

    def kernel(self, event: KernelEvent) -> None:
        """A kernel was compiled, or found on disk, for formats it had not been run on before."""

    def rule(self, name: str, before: Node, after: Node | None, depth: int) -> None:
        """The interpreter applied a rule."""

    def finished(self, event: KernelEvent, steps: Counter[str]) -> None:
        """A kernel ran under the interpreter or the evaluator of residuals."""


class KernelEvent:
    """A compiled kernel, for those who want to look at it."""

    def __init__(self, source: KernelNode, kernel: Kernel):
        self.source, self.compiled = source, kernel

    @property
    def passes(self) -> list[tuple[str, Node]]:
        """The program after each pass of normalisation, with the pass's name."""
        return self.compiled.passes()

    @property
    def residual(self) -> Any:
        """The residual program."""
        return self.compiled.residual

    def llvm(self) -> str:
        """The optimised LLVM IR."""
        return llvm_text(self.compiled.residual)

    def asm(self) -> str:
        """The machine's assembly."""
        return assembly_text(self.compiled.residual)


#: how many ways to call a kernel are remembered: loops often swap two tensors or three
_PLANS = 4


#: the masks that names of a kernel are bound to
Masks = tuple[tuple[str, MaskValue], ...]


class _Plan:
    """How a kernel was called, so that calling it again on the same tensors costs little."""

    __slots__ = (
        *("_caller", "_matrices", "_types", "_values", "copies", "handles", "kernel"),
        *("masks", "node", "tensors", "written"),
    )

    def __init__(
        self,
        node: KernelNode,
        kernel: Kernel,
        handles: dict[str, Handle],
        types: dict[str, type],
        masks: Masks,
    ):
        self.node, self.kernel, self.handles = node, kernel, handles
        self.masks = masks
        self.tensors = [handles[name].stored for name in kernel.tensors]
        self._caller: Caller | None = None
        pairs = zip(kernel.tensors, kernel.written, strict=True)
        self.written = [name for name, written in pairs if written]
        self.copies = not all(h.in_place for h in handles.values())
        self._values = [(name, handle.value) for name, handle in handles.items()]
        self._matrices = [handle for handle in handles.values() if handle.has_parts]
        self._types = list(types.items())

    @property
    def caller(self) -> Caller:
        """What calls the kernel on these tensors: most plans are never followed."""
        if self._caller is None:
            owned = [self.handles[name].is_owned for name in self.kernel.tensors]
            self._caller = self.kernel.caller(owned)
        return self._caller

    def fits(self, environment: Environment) -> bool:
        """Whether every name is still bound to the very same tensor, or a number of the same type."""
        if self.copies:
            return False
        get = environment.get
        for name, value in self._values:
            if get(name) is not value:
                return False
        for handle in self._matrices:
            if not handle.is_current():
                return False
        for name, kind in self._types:
            if type(get(name)) is not kind:
                return False
        return not self.masks or all(get(name) == mask for name, mask in self.masks)


class Session:
    """A running script world: variables, and kernels compiled so far.

    `engine` is one of ENGINES (`check` normalises kernels without running them); `rules` is "all"
    or "paper" (no derived rules); `output` is what printing writes to.
    """

    def __init__(
        self,
        engine: str = "native",
        rules: str = "all",
        output: Callable[[str], Any] | None = None,
        args: Sequence[str] = (),
        observer: Observer | None = None,
    ):
        if engine not in ENGINES:
            raise FinchError("unknown name", f"no engine {engine}; there are {', '.join(ENGINES)}")
        self.engine, self.rules = engine, rules
        self.observer = observer or Observer()
        self.environment = Environment()
        self.environment.set("ARGS", list(args))
        evaluator = Checker if engine == "check" else Evaluator
        self._evaluator = evaluator(self._run_kernel, output or sys.stdout.write)
        self._handles = Handles()
        self._kernels: dict[Any, tuple[KernelNode, Kernel]] = {}
        self._plans: dict[int, list[_Plan]] = {}
        self._masked: dict[Any, tuple[KernelNode, KernelNode]] = {}
        self._free: dict[int, tuple[KernelNode, tuple[Variable, ...]]] = {}

    # ------------------------------------------------------------------------------------ variables

    def __getitem__(self, name: str) -> Any:
        """What `name` is bound to: the very object that was bound, as far as kernels kept it."""
        if not self.environment.has(name):
            raise KeyError(name)
        return self.environment.get(name)

    def __setitem__(self, name: str, value: Any) -> None:
        """Bind a number, a NumPy array, a SciPy matrix, a Tensor or a Scalar (arrays in place)."""
        self.environment.set(name, value)

    def __contains__(self, name: str) -> bool:
        return self.environment.has(name)

    def names(self) -> list[str]:
        """The names that are bound."""
        return sorted(self.environment.names())

    # ---------------------------------------------------------------------------------------- scripts

    def run(self, text: str, name: str = "<input>") -> Any:
        """Run a script; gives the value of its last statement. Raises FinchError."""
        script = parse_script(text, name)
        alone = script.statements[0] if len(script.statements) == 1 else None
        if isinstance(alone, KernelNode):  # as loops of Python run it again and again
            plan = self._plan(alone, self.environment)
            if plan is not None:
                return self._run_planned(plan, self.environment)
        return self.execute(script)

    def execute(self, script: Node) -> Any:
        """Run a script, or one statement of it, that is parsed already. Raises FinchError."""
        return self._evaluator.evaluate(script, self.environment)

    def run_file(self, path: str | Path) -> Any:
        """Run a script file. Raises FinchError, of kind I/O if it cannot be read."""
        return self.run(read_script(path), str(path))

    @property
    def unchecked(self) -> tuple[Span | None, ...]:
        """The places of the kernels that the engine `check` did not reach."""
        return getattr(self._evaluator, "unchecked", ())

    # ---------------------------------------------------------------------------------------- kernels

    def _run_kernel(self, node: KernelNode, environment: Environment) -> Any:
        plan = self._plan(node, environment)
        if plan is None:
            return self._run_anew(node, environment)
        return self._run_planned(plan, environment)

    def _plan(self, node: KernelNode, environment: Environment) -> _Plan | None:
        """How a kernel was called on what its names are bound to now."""
        for plan in self._plans.get(id(node), ()):
            if plan.fits(environment):
                return plan
        return None

    def _run_planned(self, plan: _Plan, environment: Environment) -> Any:
        """Run a kernel on the very values it was run on before."""
        values = [environment.get(name) for name in plan.kernel.numbers]
        try:
            changed = plan.kernel.run_native(plan.tensors, values, plan.caller)
        except FinchError as error:
            raise error.at(plan.node.span) from None
        except KeyboardInterrupt:
            raise FinchError("interrupted", "stopped", plan.node.span) from None
        if changed:
            for name in plan.written:
                self._publish(name, plan.handles[name], environment)
        return self._yielded(plan.kernel.yields, environment)

    def _run_anew(self, node: KernelNode, environment: Environment) -> Any:
        """Run a kernel on values it was not run on last time."""
        original = node
        node, masks = self._with_masks(node, environment)
        handles, numbers = self._bind(node, environment)
        if self.engine == "denote":
            return self._denote(node, environment, handles)
        kernel = self._compiled(node, handles, numbers)
        if self.engine == "check":
            return self._yielded(kernel.yields, environment)
        names = kernel.tensors
        tensors = [handles[name].stored for name in names]
        written = [n for n, w in zip(names, kernel.written, strict=True) if w]
        check_memory({name: handles[name] for name in names}, written)
        for tensor in tensors:
            if isinstance(tensor, Tensor):
                tensor.validate()
        values = [numbers[name] for name in kernel.numbers]
        try:
            self._execute(node, kernel, tensors, values)
        except FinchError as error:
            raise error.at(node.span) from None
        for name in written:
            self._publish(name, handles[name], environment)
        if self.engine == "native":
            types = {name: type(value) for name, value in numbers.items()}
            plans = self._plans.setdefault(id(original), [])
            plans.insert(0, _Plan(original, kernel, handles, types, masks))
            del plans[_PLANS:]
        return self._yielded(kernel.yields, environment)

    def _execute(
        self, node: KernelNode, kernel: Kernel, tensors: list[Any], values: list[Any]
    ) -> None:
        if self.engine == "native":
            kernel.run_native(tensors, values)
            return
        tracer = self.observer.rule if self.observer.traces else None
        if self.engine == "interpret":
            steps = kernel.interpret(tensors, values, tracer)
        else:
            steps = kernel.run_residual(tensors, values)
        self.observer.finished(KernelEvent(node, kernel), steps)

    def _with_masks(self, node: KernelNode, environment: Environment) -> tuple[KernelNode, Masks]:
        """A kernel with the masks that names are bound to in the names' places."""
        names = [v.name for v in self._free_names(node) if environment.has(v.name)]
        bound = ((name, environment.get(name)) for name in names)
        masks = tuple((name, value) for name, value in bound if isinstance(value, MaskValue))
        if not masks:
            return node, ()
        key = (id(node), masks)
        if key not in self._masked:
            calls: dict[Node, Node] = {Variable(name): mask.call for name, mask in masks}
            program = substitute(node.program, calls)
            self._masked[key] = (node, KernelNode(program, span=node.span))
        return self._masked[key][1], masks

    def _bind(
        self, node: KernelNode, environment: Environment
    ) -> tuple[dict[str, Handle], dict[str, Any]]:
        """The tensors and numbers that the free names of a kernel are bound to."""
        handles: dict[str, Handle] = {}
        numbers: dict[str, Any] = {}
        for variable in self._free_names(node):
            name = variable.name
            if not environment.has(name):
                continue  # an operator, or unknown: normalisation knows
            value = environment.get(name)
            try:
                handle = self._handles.of(value)
            except FinchError as error:
                raise error.at(variable.span) from None
            if handle is not None:
                handles[name] = handle
            elif type_of_value(value) is not None:
                numbers[name] = value
        return handles, numbers

    def _free_names(self, node: KernelNode) -> tuple[Variable, ...]:
        known = self._free.get(id(node))
        if known is None or known[0] is not node:
            names = {n.name: n for n in walk(node.program) if isinstance(n, Variable)}
            known = self._free[id(node)] = (node, tuple(names.values()))
        return known[1]

    def _compiled(
        self, node: KernelNode, handles: dict[str, Handle], numbers: dict[str, Any]
    ) -> Kernel:
        formats: dict[str, Format] = {name: h.format for name, h in handles.items()}
        for name, value in numbers.items():
            formats[name] = type_of_value(value)  # type: ignore[assignment]
        key = (id(node), tuple(formats.items()))
        found = self._kernels.get(key)
        if found is None:
            found = self._kernels[key] = (node, Kernel(node.program, formats, self.rules))
            self.observer.kernel(KernelEvent(node, found[1]))
        return found[1]

    def _publish(self, name: str, handle: Handle, environment: Environment) -> None:
        value = handle.publish()
        if value is not handle.value:
            self._handles.forget(handle.value)
            environment.set(name, value)

    def _yielded(self, names: tuple[str, ...], environment: Environment) -> Any:
        if not names:
            return None
        values = tuple(environment.get(name) for name in names)
        return values[0] if len(values) == 1 else values

    def _denote(
        self, node: KernelNode, environment: Environment, handles: dict[str, Handle]
    ) -> Any:
        """Run a kernel by its denotation, on dense arrays."""
        bindings = {
            v.name: environment.get(v.name)
            for v in self._free_names(node)
            if environment.has(v.name)
        }
        yields = [n for n in walk(node.program) if isinstance(n, Yield)]
        results = denote(node.program, bindings)
        check_memory(handles, results)
        for name, result in results.items():
            handle = handles[name]
            _store_dense(handle, result)
            self._publish(name, handle, environment)
        return self._yielded(tuple(v.name for y in yields for v in y.names), environment)


def _store_dense(handle: Handle, dense: Any) -> None:
    """Put a dense result into a tensor, in the tensor's format."""
    tensor = handle.tensor
    if isinstance(tensor, Scalar):
        tensor.value = tensor.format.element_type.wrap(dense)
        return
    stored = handle.stored
    assert isinstance(stored, Tensor)
    if isinstance(tensor, SwizzledTensor):
        dense = dense.transpose([p - 1 for p in tensor.permutation])
    new = Tensor.from_numpy(dense, stored.format)
    stored.shape, stored.storage = new.shape, new.storage


def read_script(path: str | Path) -> str:
    """The text of a script file. Raises FinchError "I/O"."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FinchError("I/O", f"{path} is not UTF-8 text") from None
    except OSError as error:
        raise FinchError("I/O", f"cannot read {path}: {error.strerror}") from None
