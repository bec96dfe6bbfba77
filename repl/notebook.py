"""IPython and notebooks (`%load_ext finchlang`): `%%finch` runs a cell on the notebook's variables, and
`%finch` performs commands of the prompt, such as `%finch residual` for the last kernel."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from IPython.core.magic import Magics, line_cell_magic, magics_class
from prompt_toolkit.lexers import PygmentsLexer

from finchlang.base.errors import FinchError
from finchlang.python.kernel_decorator import Kernel, kernel_of
from finchlang.python.session import Session
from finchlang.script.checker import own_names
from finchlang.script.functions import PREDEFINED, FinchFunction
from finchlang.syntax.nodes import NOTHING, Node, Variable
from finchlang.syntax.traversal import walk
from finchlang.text.parse import parse_whole

from .directives import obey
from .highlight import FinchLexer
from .notes import Watching
from .prompt_session import Conversation, is_quiet

#: names of the session that the notebook does not get
OWN = ("ARGS", "ans")


@magics_class
class FinchMagics(Magics):
    """`%finch` and `%%finch`, over one session that shares its variables with the notebook."""

    def __init__(self, shell: Any):
        super().__init__(shell)
        self.shell: Any = shell
        self.conversation = Conversation(_session)
        #: by name, the notebook's value when notebook and session last agreed
        self.shared: dict[str, Any] = {}

    @line_cell_magic
    def finch(self, line: str, cell: str | None = None) -> Any:
        """`%%finch` runs the cell as a script on the notebook's variables, and returns the value of its
        last statement. `%finch help`, `%finch residual` and others are the commands of the prompt, also for
        a `finchlang.kernel`: `%finch residual spmv`. A command after `%%finch` follows the cell's run."""
        value = None if cell is None else self.run(cell)
        if line or cell is None:
            *words, last = line.split() or ["help"]
            named = self.shell.user_ns.get(last)
            if words and isinstance(named, Kernel) and named.compiled is not None:
                self.conversation.kernel, line = named.compiled, " ".join(words)
            obey(self.conversation, line if line.startswith("?") else f":{line or last}")
        return value

    def run(self, cell: str) -> Any:
        """Run a script and return the value of its last statement, None if a semicolon follows it."""
        script = parse_whole("\n" + cell, f"In[{self.shell.displayhook.prompt_count}]")
        session = self.conversation.session
        self.take(script)
        before = dict(session.environment.values)
        try:
            value = session.execute(script)
        finally:
            self.give(before)
        last = script.statements[-1:]
        if value is None or value is NOTHING or (last[0].span and is_quiet(last[0].span)):
            return None
        session.environment.bind({"ans": value})
        return value

    def take(self, script: Node) -> None:
        """Copy variables from the notebook to the session: those that the script uses, or that were shared
        before. Raises FinchError, at the name, for a value that the script uses and scripts cannot have."""
        session, found = self.conversation.session, self.shell.user_ns
        spans = {n.name: n.span for n in reversed([*walk(script)]) if isinstance(n, Variable)}
        own = own_names(script)
        for name in {**spans, **self.shared}:
            if name not in found:
                if self.shared.pop(name, None) is not None:  # deleted in the notebook
                    session.environment.values.pop(name, None)
                continue
            value = found[name]
            is_known = name in self.shared and self.shared[name] is value
            if is_known and session.environment.values.get(name) is value:  # not a converted copy
                continue
            if isinstance(value, ModuleType) or (name in PREDEFINED and callable(value)):
                continue  # `sum` stays the language's, even after `from numpy import *`
            try:
                session[name] = value
            except FinchError as error:
                if name not in spans or name in own:
                    continue
                raise error.at(spans[name]) from None
            self.shared[name] = value

    def give(self, before: dict[str, Any]) -> None:
        """Copy variables to the notebook that the session has bound to other values than `before`."""
        session = self.conversation.session
        for name, value in session.environment.values.items():
            if name in OWN or (name in before and before[name] is value):
                continue
            if isinstance(value, FinchFunction):
                value = kernel_of(value, session)
            self.shared[name] = self.shell.user_ns[name] = None if value is NOTHING else value


def _session(conversation: Conversation) -> Session:
    return Session(output=lambda text: sys.stdout.write(text), observer=Watching(conversation))


def load_ipython_extension(shell: Any) -> None:
    """Performs `%load_ext finchlang`."""
    shell.register_magics(FinchMagics(shell))
    if hasattr(shell, "pt_app"):  # in a terminal, `%%finch` cells get our colours
        from IPython.terminal import interactiveshell

        class Colours(interactiveshell.IPythonPTLexer):
            def __init__(self) -> None:
                super().__init__()
                lexers: dict[str, Any] = self.magic_lexers
                lexers["finch"] = PygmentsLexer(FinchLexer)

        vars(interactiveshell)["IPythonPTLexer"] = Colours
