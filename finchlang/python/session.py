"""A session: names bound between scripts, and an engine that runs the kernels of these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from finchlang.base.errors import FinchError, Span
from finchlang.base.late import late
from finchlang.base.locks import keep
from finchlang.base.paths import read_script
from finchlang.calls.environment import Environment, Scope
from finchlang.calls.runner import SITES, UNITS, Observer, Runner
from finchlang.python.callables import from_callable
from finchlang.python.from_python import check_name, from_python, refuse
from finchlang.script.as_operator import denoted, operation
from finchlang.script.checker import Checker
from finchlang.script.evaluate import Evaluator
from finchlang.script.functions import FinchFunction
from finchlang.syntax.nodes import Function, KernelNode, Node
from finchlang.syntax.traversal import EnoughFrames
from finchlang.syntax.types import foreign
from finchlang.text.doubtful import SIGNS, doubtful
from finchlang.text.literals import name_of
from finchlang.text.meant import called_otherwise
from finchlang.text.tree_cache import script_of

#: the name of a script without a file
INPUT = "<input>"


class Session(Runner):
    """Variables, and the kernels compiled so far, for scripts that run one after the other.

    `engine` is one of ENGINES (`check` normalises kernels without running them); `rules` is "all"
    or "paper" (no derived rules); `output` is called with printed text; `args` is bound to `ARGS`. With
    `workspaces=False` an update across the order of its loops is an error, where otherwise a workspace
    is inserted. With `checked` native code checks each access to memory, and a wrong one raises Bug.
    `notes` are the latest notes about compiled kernels, in order. Without `staging` loops of scripts are
    run kernel by kernel; otherwise a loop is run whole where that is possible.
    """

    #: the evaluator of scripts with the engine `check`
    checker: type[Evaluator] = Checker

    def __init__(
        self,
        engine: str = "native",
        rules: str = "all",
        output: Callable[[str], Any] | None = None,
        args: Sequence[str] = (),
        observer: Observer | None = None,
        workspaces: bool = True,
        checked: bool = False,
        staging: bool = True,
    ):
        super().__init__(engine, rules, observer, workspaces, checked)
        self.environment = Environment()
        self.environment.bind({"ARGS": list(args)})
        self.output = output
        evaluator = self.checker if engine == "check" else Evaluator
        is_staged = staging and engine in UNITS and (observer is None or observer.stages)
        runner = self if is_staged else None
        self._evaluator = evaluator(self._run_kernel, output, runner)
        self._known: dict[str, Node] = {}  # unnamed scripts, or their one kernel, by their text

    def __setattr__(self, name: str, value: Any) -> None:
        if type(self) is Session and "_known" in self.__dict__ and not hasattr(self, name):
            message = f"`session.{name} = value` binds no name: write `session[{name!r}] = value`"
            raise AttributeError(message)
        super().__setattr__(name, value)

    # ------------------------------------------------------------------------------------ variables

    def __getitem__(self, name: str) -> Any:
        """The object that was bound, unless a kernel or script has bound another. Raises KeyError."""
        if name not in self:
            raise KeyError(name)
        return self.environment.get(name_of(name))

    def __setitem__(self, name: str, value: Any) -> None:
        """Bind a number, a NumPy array, a SciPy matrix, a Tensor or a Scalar, without copying; lists of
        numbers become arrays, None becomes `nothing`, and functions of Python and NumPy become operators.
        Raises FinchError, of kind "syntax" if `name` cannot be a name, "type" for another value."""
        self.environment.bind({check_name(name): from_python(from_callable(value), name)})

    def __contains__(self, name: str) -> bool:
        return isinstance(name, str) and self.environment.has(name_of(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def names(self) -> list[str]:
        """The names that are bound, sorted."""
        return sorted(self.environment.names())

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Copied and pickled by its options, without the observer, and its names and their values. Raises
        FinchError "type" that names a value which cannot be pickled."""
        return late("reduced_session")(self, protocol)

    # ---------------------------------------------------------------------------------------- scripts

    def run(self, text: str, name: str = INPUT, **values: Any) -> Any:
        """Run a script. Returns the value of its last statement, None if that has none. `name` is the
        script's in messages. Raises FinchError; TypeError for other arguments, as values of names."""
        for given in values:
            raise TypeError(f"`run` takes no {given!r}: `session[{given!r}] = value` binds a name")
        if not isinstance(text, str):
            raise FinchError("type", f"a script is a text, not a {type(text).__name__}")
        known = self._known.get(text) if name is INPUT else None  # loops run a text again
        if isinstance(known, KernelNode):
            return self._run_kernel(known, self.environment)
        if known is not None:
            return self.execute(known)
        script = script_of(text, name)
        if SIGNS.search(text):
            for note in doubtful(script):
                self.noted(note)
        alone = script.statements[0] if len(script.statements) == 1 else None
        if name is INPUT:
            keep(self._known, text, alone if isinstance(alone, KernelNode) else script, SITES)
        return self.execute(script)

    def execute(self, script: Node) -> Any:
        """Run a parsed script, or one statement of it. Raises FinchError."""
        if not isinstance(script, Node):
            message = f"what is run is a script that is parsed, not a {type(script).__name__}"
            raise FinchError("type", message, hint="`parse_script(text)` makes one of a text")
        try:
            return self._evaluator.evaluate(script, self.environment)
        except FinchError as error:
            raise called_otherwise(error) if error.kind == "type" else error from None

    def run_file(self, path: str | Path) -> Any:
        """Run a script file. Raises FinchError, of kind "I/O" if it cannot be read."""
        return self.run(read_script(path), str(path))

    def function(self, node: Function) -> FinchFunction:
        """The function of a parsed definition, without binding its name. Raises FinchError "type"."""
        if not isinstance(node, Function):
            message = f"a function is made of a parsed definition, not of {foreign(node)}"
            raise FinchError("type", message, hint="`session[name]` is a function of the session")
        own = Environment(Scope(self.environment.scope, {node.name}), self.environment)
        with EnoughFrames():
            self._evaluator.closure(node, own.scope)(own)
        return own.get(node.name)

    @property
    def unchecked(self) -> tuple[Span | None, ...]:
        """The places of kernels that the engine `check` did not reach; none with other engines."""
        return getattr(self._evaluator, "unchecked", ())

    @property
    def staged(self) -> list[str]:
        """A line for each function with loops, and for each loop, that was run: whether native code has it
        whole, or what prevents that, with its place."""
        loops = self._evaluator.loops
        return [] if loops is None else loops.report()

    # ------------------------------------------------------------------- what kernels need of scripts

    operation = staticmethod(operation)
    refuse = staticmethod(refuse)

    def denoted(self, values: Iterable[Any]) -> dict[Any, Any]:
        return denoted(self._evaluator.apply, values)

    def denote(self, *args: Any, **named: Any) -> dict[str, Any]:
        # imported for the engine `denote` alone: other engines must not depend on the denotation
        from finchlang.denote.denote import denote

        return denote(*args, **named)
