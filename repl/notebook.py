"""IPython and notebooks: `%%finch` runs a cell on the names of the notebook, `%finch` is a command of the
prompt, such as `%finch residual` for the last kernel (`%load_ext finchlang`)."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from IPython.core.magic import Magics, line_cell_magic, magics_class
from prompt_toolkit.lexers import PygmentsLexer

from finchlang.kernels import kernel_of
from finchlang.script.callables import PREDEFINED, FinchFunction
from finchlang.session import Session
from finchlang.source import FinchError
from finchlang.syntax import NOTHING, Node, Variable
from finchlang.text.parse import parse_script
from finchlang.walk import walk

from .conversation import Conversation, is_quiet
from .directives import obey
from .look import FinchLexer
from .views import Watching

#: names of the session that are not the notebook's
OWN = ("ARGS", "ans")


@magics_class
class FinchMagics(Magics):
    """`%finch` and `%%finch`, over one session whose names are those of the notebook."""

    def __init__(self, shell: Any):
        super().__init__(shell)
        self.shell: Any = shell
        self.conversation = Conversation(_session)
        #: what the names of the notebook were bound to when it and the session last had the same
        self.shared: dict[str, Any] = {}

    @line_cell_magic
    def finch(self, line: str, cell: str | None = None) -> Any:
        """`%%finch` runs the cell as a script on the names of the notebook, and gives the value of its last
        statement; `%finch help`, `%finch residual` and others do what the prompt's commands do."""
        if cell is None:
            obey(self.conversation, line if line.startswith("?") else f":{line or 'help'}")
            return None
        script = parse_script("\n" + cell, f"In[{self.shell.displayhook.prompt_count}]")
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
        session.environment.set("ans", value)
        return value

    def take(self, script: Node) -> None:
        """Bind those of its names that the notebook has to what they are there, unless that is as it was.
        Raises FinchError for a value that none can have, at the name."""
        session, found = self.conversation.session, self.shell.user_ns
        for node in walk(script):
            name = node.name if isinstance(node, Variable) else ""
            if name not in found or (name in self.shared and self.shared[name] is found[name]):
                continue
            value = found[name]
            if isinstance(value, ModuleType) or (name in PREDEFINED and callable(value)):
                continue  # `sum` is ours, after `from numpy import *` as well
            try:
                session[name] = value
            except FinchError as error:
                raise error.at(node.span) from None
            self.shared[name] = value

    def give(self, before: dict[str, Any]) -> None:
        """Bind the notebook's names to what the session's are now, if that is other than before."""
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
    """What `%load_ext finchlang` does."""
    shell.register_magics(FinchMagics(shell))
    if hasattr(shell, "pt_app"):  # in a terminal cells have our colours
        from IPython.terminal import interactiveshell

        class Colours(interactiveshell.IPythonPTLexer):
            def __init__(self) -> None:
                super().__init__()
                lexers: dict[str, Any] = self.magic_lexers
                lexers["finch"] = PygmentsLexer(FinchLexer)

        vars(interactiveshell)["IPythonPTLexer"] = Colours
