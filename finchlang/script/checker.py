"""The checker: evaluates a script, but checks its kernels instead of running them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from finchlang.algebra.program_context import RESERVED
from finchlang.base.errors import FinchError, Span, together
from finchlang.calls.environment import Environment, Scope, assigned_names
from finchlang.levels.workspace import POLICIES
from finchlang.script.builtins import BUILTINS
from finchlang.script.evaluate import Evaluator, RunKernel
from finchlang.script.evaluate_expressions import Closure, unknown_name
from finchlang.script.functions import PREDEFINED, reached
from finchlang.script.values import Builtin
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.text.literals import is_word


class Checker(Evaluator):
    """An Evaluator whose `run_kernel` checks a kernel without running it.

    From the first kernel on results of kernels are missing: assertions are taken to hold and loops run
    once. A statement may fail for want of a result; it is skipped, and kernels that use the names it
    would have assigned are not checked. No file is written.
    """

    def __init__(
        self,
        run_kernel: RunKernel,
        output: Callable[[str], Any] | None = None,
        staging: Any = None,  # nothing is run
    ):
        super().__init__(self._pass_over, output)
        self._look_over = run_kernel
        self._lost: set[str] = set()  # names whose values are not known
        self._fault: FinchError | None = None  # the last one that a kernel's check found
        self._whole: ast.Node | None = None  # the script that is being evaluated
        self._faults: list[FinchError] = []  # at most one for each of its statements
        self._kernels: dict[int, ast.KernelNode] = {}
        self._checked: set[int] = set()

    @property
    def unchecked(self) -> tuple[Span | None, ...]:
        """The places of kernels that were not reached, or not with values for the names they use."""
        return tuple(k.span for key, k in self._kernels.items() if key not in self._checked)

    def evaluate(self, script: ast.Node, environment: Environment) -> Any:
        """Check a script. Raises the first fault found, with the others in its `others`."""
        kernels = trees.find_all(script, ast.KernelNode)
        self._kernels.update((id(kernel), kernel) for kernel in kernels)
        outer = self._whole, self._faults
        self._whole, self._faults = script, []
        result = None
        try:
            result = super().evaluate(script, environment)
        except FinchError as error:
            if error.kind == "interrupted":
                raise
            self._faults.append(error)
        finally:
            faults = [*self._faults, *unbound_names(script, environment)]
            self._whole, self._faults = outer
        if faults:
            raise together(faults)
        return result

    def _pass_over(self, kernel: ast.KernelNode, environment: Environment) -> Any:
        if self._lost & _names(kernel.program, environment):
            return None
        self._checked.add(id(kernel))
        try:
            return self._look_over(kernel, environment)
        except FinchError as error:
            self._fault = error
            raise

    def Script(self, node: ast.Script, scope: Scope) -> Closure:
        statements = list(zip(self.closures(node.statements, scope), node.statements, strict=True))
        is_whole = node is self._whole

        def run(env: Environment) -> Any:
            result = None
            for statement, written in statements:
                try:
                    result = statement(env)
                    if self._lost:
                        self._lost -= assigned_names(written)
                except FinchError as error:
                    # another error, after a kernel was not run, may be for want of its result
                    is_sure = error is self._fault or not self._checked
                    if error.kind == "interrupted" or (is_sure and not is_whole):
                        raise
                    if is_sure and not self._lost & _names(written, env):
                        self._faults.append(error.at(written.span))
                    self._lost |= assigned_names(written)
            return result

        return run

    def body(self, node: ast.Node, scope: Scope) -> Callable[[Environment], bool]:
        goes_on = super().body(node, scope)
        return lambda env: goes_on(env) and not self._checked

    def assertion(self, node: ast.Macro, scope: Scope) -> Closure:
        check = super().assertion(node, scope)
        return lambda env: None if self._checked else check(env)

    def apply_builtin(self, function: Builtin, *call: Any) -> Any:
        is_writing = function is BUILTINS["fwrite"]
        return ast.NOTHING if is_writing else super().apply_builtin(function, *call)


def unbound_names(script: ast.Node, environment: Environment) -> list[FinchError]:
    """Errors "unknown name" for names that nothing in a script binds, at their first use, also in what does
    not run. There are none if the script includes files, which may bind any name."""
    if ast.Variable("include") in trees.walk(script):
        return []
    known = {*RESERVED, *ast.MODES, *POLICIES, "_", "end", *environment.names()}
    wrong = [node for name, node in free_names(script).items() if name not in known]
    bound = own_names(script) | known if wrong else known
    return [unknown_name(node.name, node.span, bound) for node in wrong]


def own_names(script: ast.Node) -> set[str]:
    """The names that a script binds somewhere itself, and the predefined names, but for those that have
    indices, as in `y[I[i]]`: no function has."""
    own, indexed = set[str](), set[str]()
    for node in trees.walk(script):
        match node:
            case ast.Access(ast.Variable(name)):
                indexed.add(name)
            case ast.Function(name, parameters):
                own |= {name, *parameters}
            case ast.Lambda(parameters):
                own |= {*parameters}
            case ast.For(variable, _, _, names):
                own |= {variable, *names}
            case ast.Comprehension(names=names):
                own |= {name for each in names for name in each}
            case ast.Local(values):
                own |= {name for name, _ in values}
            case ast.Try(name=name) | ast.Index(name):
                own.add(name)
            case ast.Loop() | ast.Define():
                own.update(trees.binds(node))
            case ast.Macro("properties" | "case" | "iterate", (_, *parts)) | ast.Annotated(parts):
                inside = (n for part in parts for n in trees.walk(part))
                own |= {n.name for n in inside if type(n) is ast.Variable} | assigned_names(node)
            case ast.Let():
                own |= assigned_names(node)
    return own | PREDEFINED.keys() - indexed


def free_names(script: ast.Node) -> dict[str, ast.Variable]:
    """The free names of a script, each with its first use, in the order of these."""
    with trees.EnoughFrames():
        nodes, own = list(trees.walk(script)), own_names(script)
    found: dict[str, ast.Variable] = {}
    for node in sorted(nodes, key=lambda n: (n.span.line, n.span.column) if n.span else (0, 0)):
        if isinstance(node, ast.Variable) and node.name not in own and is_word(node.name):
            found.setdefault(node.name, node)
    return found


def _names(program: ast.Node, environment: Environment) -> set[str]:
    """The names in a kernel and in the functions that it may call, transitively."""
    parts = (part for whole in reached(program, environment) for part in trees.walk(whole))
    return {part.name for part in parts if isinstance(part, ast.Variable)}
