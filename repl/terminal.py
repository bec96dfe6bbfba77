"""The prompt at a terminal, by prompt_toolkit: reads inputs with keys, history, completion and colours, and
prints values or errors, until the input ends."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from threading import Thread

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.processors import HighlightMatchingBracketProcessor
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.utils import is_dumb_terminal

from .completion import Completions
from .highlight import STYLE, FinchLexer, depth, in_string
from .progress import watched
from .prompt_session import CONTINUED, JULIA, PROMPT, Conversation
from .report import report

INDENT = "    "
LEAVE = ("exit", "quit")
#: as other prompts have it
ALSO_LEAVE = (*(f":{word}" for word in LEAVE), ":q")
_CLOSES = re.compile(r"\s*(end|else|elseif)\b")
#: commands, and a name with a question mark, which IPython would take for one
_ONE_LINE = re.compile(r"\s*([:?]|\w+\?\s*$)")


def converse(conversation: Conversation, banner: str) -> int:
    """Run the prompt on a terminal until it is left; the exit status is 0 whatever failed.

    Enter runs the input, or goes on to the next line while a block or bracket is open. Ctrl-C drops the
    input, or stops what runs; Ctrl-D on an empty line leaves.
    """
    # importing the language takes longer than the prompt: it is done in a thread while the user types
    loading = Thread(target=conversation.load)
    ask = asking(conversation, loading.start)
    if banner:
        print(banner)
    while True:
        try:
            text = ask()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        try:
            with watched():
                answer(conversation, text)
        except EOFError:
            return 0
        except (Exception, KeyboardInterrupt) as error:
            report(error)


def answer(conversation: Conversation, text: str) -> None:
    """Run an input: a command, or statements. Raises EOFError to leave, FinchError for a fault."""
    text = text.strip()
    word, _, rest = text.partition(" ")
    name = word.removesuffix("()")
    is_own = name in conversation.session
    if text in ALSO_LEAVE or (name in LEAVE and not rest and not is_own):
        raise EOFError
    if text.startswith((":", "?")) or (name == "help" and not is_own):
        from .directives import obey

        obey(conversation, text if text[0] in ":?" else f":help {rest}")
        return
    try:
        conversation.run(text, "<input>")
    except Exception as error:
        from .directives import meant

        if is_own or (told := meant(text, error)) is None:
            raise
        raise told from None


def asking(conversation: Conversation, begin: Callable[[], object]) -> Callable[[], str]:
    """A function that reads one complete input from the terminal, and raises KeyboardInterrupt for Ctrl-C,
    EOFError for Ctrl-D. `begin` is called once the prompt is displayed."""
    if is_dumb_terminal():
        begin()
        return ask_plainly
    line: PromptSession[str] = PromptSession(
        message=[("class:prompt", PROMPT)],
        prompt_continuation=[("class:prompt.continued", CONTINUED)],
        multiline=True,  # the key binding `enter` decides where an input ends
        history=history(),
        enable_history_search=True,
        enable_open_in_editor=True,
        enable_suspend=True,
        tempfile_suffix=".finch",
        lexer=PygmentsLexer(FinchLexer),
        style=STYLE,
        include_default_pygments_style=False,
        input_processors=[HighlightMatchingBracketProcessor()],
        completer=Completions(conversation),
        complete_while_typing=False,
        key_bindings=keys(),
    )

    def begun(_: object) -> None:
        line.app.after_render -= begun
        begin()

    line.app.after_render += begun

    def ask() -> str:
        line.editing_mode = EditingMode.VI if conversation.has_vi_keys else EditingMode.EMACS
        return line.prompt()

    return ask


def ask_plainly() -> str:
    text = input(PROMPT)
    while is_open(text):
        text += "\n" + input(CONTINUED)
    return text


def is_open(text: str) -> bool:
    """Whether an input is incomplete, and goes on in the next line."""
    from finchlang.text.parse import is_incomplete

    return not _ONE_LINE.match(text) and is_incomplete(text)


# ------------------------------------------------------------------------------------------- keys


def keys() -> KeyBindings:
    """Key bindings for Enter, Alt-Enter and pasting; others are prompt_toolkit's."""
    bound = KeyBindings()

    @Condition
    def is_typing() -> bool:
        return get_app().current_buffer.complete_state is None

    @bound.add("enter", filter=Condition(lambda: get_app().layout.has_focus("DEFAULT_BUFFER")))
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None:  # accepts the completion that Tab has chosen
            buffer.complete_state = None
            return
        close(buffer)
        if is_open(buffer.text):
            new_line(buffer)
        else:
            buffer.validate_and_handle()

    @bound.add("escape", "enter", filter=is_typing)
    def alt_enter(event: KeyPressEvent) -> None:
        close(event.current_buffer)
        new_line(event.current_buffer)

    @bound.add(Keys.BracketedPaste)
    def paste(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(without_prompts(event.data))

    return bound


def without_prompts(text: str) -> str:
    """A pasted text; of one that was copied from a prompt only the inputs, without prompts and output."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = textwrap.dedent(text).lstrip("\n").split("\n")
    prompt = next((p for p in (PROMPT, JULIA) if lines[0].startswith(p)), None)
    if prompt is None:
        return text
    typed = [n for n in lines if n.startswith((prompt, CONTINUED, " " * len(prompt)))]
    return "\n".join(line[len(prompt) :] for line in typed)


def new_line(buffer: Buffer) -> None:
    before = buffer.document.text_before_cursor
    buffer.insert_text("\n" + INDENT * (0 if in_string(before) else depth(before)))


def close(buffer: Buffer) -> None:
    """Unindent the current line if it begins with `end` or `else`, to align with its block."""
    document = buffer.document
    line = document.current_line
    if not _CLOSES.match(line) or document.cursor_position_row == 0:
        return
    above = "\n".join(document.lines[: document.cursor_position_row])
    wanted = INDENT * max(depth(above) - 1, 0)
    surplus = len(line) - len(line.lstrip()) - len(wanted)
    if surplus > 0 and line[:surplus].isspace() and document.cursor_position_col >= surplus:
        start = document.cursor_position - document.cursor_position_col
        buffer.text = document.text[:start] + document.text[start + surplus :]
        buffer.cursor_position = document.cursor_position - surplus


# ---------------------------------------------------------------------------------------- history


def history() -> History:
    path = history_file()
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def history_file() -> Path | None:
    """The file of the environment variable `FINCH_HISTORY` (None if that is empty), else
    `finchlang/history` in the user's state folder."""
    chosen = os.environ.get("FINCH_HISTORY")
    if chosen is not None:
        return Path(chosen).expanduser() if chosen else None
    state = os.environ.get("XDG_STATE_HOME")
    try:
        base = Path(state) if state else Path.home() / ".local" / "state"
    except RuntimeError:  # no home folder
        return None
    return base / "finchlang" / "history"
