"""Session: the one place that joins the script, the rules, the hosts and native code."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from finchlang.denote.denotation import denote
from finchlang.host.interface import Host
from finchlang.native.jit import assembly_text, llvm_text
from finchlang.normalize import Format
from finchlang.rules.engine import Applied, Tracer
from finchlang.run.handles import Handle, Handles, check_memory
from finchlang.run.kernel import Kernel
from finchlang.run.plans import MISSED, Plan, Site, yielded
from finchlang.script.check import Checker
from finchlang.script.environment import Environment
from finchlang.script.evaluate import Evaluator
from finchlang.source import FinchError, Span
from finchlang.syntax import Kernel as KernelNode
from finchlang.syntax import Node, Yield
from finchlang.tensors.masks import MaskValue
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor
from finchlang.text.parse import parse_script
from finchlang.types import type_of_value
from finchlang.walk import walk

#: the name of a script that has none
INPUT = "<input>"

#: how many scripts that are one kernel are known by their text
ALONE = 256

ENGINES = ("native", "interpret", "residual", "denote", "check")


class Observer:
    """Is told what a session does with its kernels; every method may be overridden."""

    #: whether `rule` wants to be called (it makes the interpreter slower)
    traces = False

    def kernel(self, event: KernelEvent) -> None:
        """A kernel was compiled, or found on disk, for formats it had not been run on before."""

    def rule(self, applied: Applied) -> None:
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

    def stage(self, host: Host, tracer: Tracer) -> None:
        """Run the rules on a recording host, telling of each step."""
        self.compiled.run_rules(host, tracer)

    def llvm(self) -> str:
        """The optimised LLVM IR."""
        return llvm_text(self.compiled.residual)

    def asm(self) -> str:
        """The machine's assembly."""
        return assembly_text(self.compiled.residual)


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
        self._sites: dict[int, Site] = {}  # by the identity of their nodes
        self._alone: dict[str, Site] = {}  # nameless scripts of one kernel, by their text

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

    def run(self, text: str, name: str = INPUT) -> Any:
        """Run a script; gives the value of its last statement. Raises FinchError."""
        site = self._alone.get(text) if name is INPUT else None  # loops run it again and again
        if site is not None:
            result = site.run(self.environment)
            if result is not MISSED:
                return result
        script = parse_script(text, name)
        alone = script.statements[0] if len(script.statements) == 1 else None
        if isinstance(alone, KernelNode) and name is INPUT:
            if len(self._alone) >= ALONE:
                del self._alone[next(iter(self._alone))]
            self._alone[text] = self._site(alone)
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

    def _site(self, node: KernelNode) -> Site:
        site = self._sites.get(id(node))
        if site is None:
            site = self._sites[id(node)] = Site(node)
        return site

    def _run_kernel(self, node: KernelNode, environment: Environment) -> Any:
        site = self._site(node)
        result = site.run(environment)
        return self._run_anew(site, environment) if result is MISSED else result

    def _run_anew(self, site: Site, environment: Environment) -> Any:
        """Run a kernel on values it was not run on last time."""
        bound = site.bound(environment)
        masks = {name: value for name, value in bound.items() if isinstance(value, MaskValue)}
        node = site.with_masks(masks)
        handles, numbers = self._bind(site, bound)
        if self.engine == "denote":
            return self._denote(node, environment, handles, bound)
        kernel = self._compiled(site, node, handles, numbers)
        if self.engine == "check":
            return yielded(kernel.yields, environment)
        names = kernel.tensors
        tensors = [handles[name].stored for name in names]
        written = [n for n, w in zip(names, kernel.written, strict=True) if w]
        check_memory({name: handles[name] for name in names}, written)
        for tensor in tensors:
            if isinstance(tensor, Tensor):
                tensor.validate()
        if self.engine == "native":
            plan = Plan(kernel, handles, numbers, masks, self._handles)
            site.add(plan, environment)
            return site.follow(plan, environment)
        self._execute(node, kernel, tensors, [numbers[name] for name in kernel.numbers])
        for name in written:
            self._handles.publish(name, handles[name], environment)
        return yielded(kernel.yields, environment)

    def _execute(
        self, node: KernelNode, kernel: Kernel, tensors: list[Any], values: list[Any]
    ) -> None:
        tracer = self.observer.rule if self.observer.traces else None
        if self.engine == "interpret":
            steps = kernel.interpret(tensors, values, tracer)
        else:
            steps = kernel.run_residual(tensors, values)
        self.observer.finished(KernelEvent(node, kernel), steps)

    def _bind(self, site: Site, bound: dict[str, Any]) -> tuple[dict[str, Handle], dict[str, Any]]:
        """The tensors and numbers among what the free names of a kernel are bound to."""
        handles: dict[str, Handle] = {}
        numbers: dict[str, Any] = {}
        for name, value in bound.items():
            try:
                handle = self._handles.of(value)
            except FinchError as error:
                raise error.at(site.variables[name].span) from None
            if handle is not None:
                handles[name] = handle
            elif type_of_value(value) is not None:
                numbers[name] = value
        return handles, numbers

    def _compiled(
        self, site: Site, node: KernelNode, handles: dict[str, Handle], numbers: dict[str, Any]
    ) -> Kernel:
        formats: dict[str, Format] = {name: h.format for name, h in handles.items()}
        for name, value in numbers.items():
            formats[name] = type_of_value(value)  # type: ignore[assignment]
        last = site.kernel
        if last is not None and last.source is node.program and last.formats == formats:
            return last
        key = (id(node), tuple(formats.items()))
        found = self._kernels.get(key)
        if found is None:
            found = self._kernels[key] = (node, Kernel(node.program, formats, self.rules))
            self.observer.kernel(KernelEvent(node, found[1]))
        site.kernel = found[1]
        return found[1]

    def _denote(
        self,
        node: KernelNode,
        environment: Environment,
        handles: dict[str, Handle],
        bound: dict[str, Any],
    ) -> Any:
        """Run a kernel by its denotation, on dense arrays."""
        yields = [n for n in walk(node.program) if isinstance(n, Yield)]
        results = denote(node.program, bound)
        check_memory(handles, results)
        for name, result in results.items():
            handle = handles[name]
            _store_dense(handle, result)
            self._handles.publish(name, handle, environment)
        return yielded(tuple(v.name for y in yields for v in y.names), environment)


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
