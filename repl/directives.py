"""The commands of the prompt (`:help` and others), a function for each; the manual describes them."""

from __future__ import annotations

import io
import os
import re
import sys
import textwrap
import time
from argparse import ArgumentError, ArgumentParser
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from functools import partial
from typing import Any

from finchlang.base.errors import FinchError, did_you_mean
from finchlang.base.paths import read_script, replace_text
from finchlang.functions.unit import Unit
from finchlang.python.session import Session
from finchlang.script.display import display_text
from finchlang.script.make_tensors import tensor_of
from finchlang.script.show import Format
from finchlang.tensors.adopt import as_tensor
from finchlang.tensors.convert import copy_of
from finchlang.testing.compare_engines import SEMANTICS
from finchlang.text.manual import Entry, entries, near, other_words, words

from . import views
from .fit_to_screen import described, screen
from .options import STEPS, add_options
from .prompt_session import PROMPT, Conversation
from .report import duration, has_colours, page, write
from .trace import Chosen, Enough, StagedTrace, Trace

#: how `:help` begins: lines that run as they are
FIRST_STEPS = (
    "x = [1.0, 0.0, 2.0]                                    # an array",
    "A = Tensor(Dense(SparseList(Element(0.0))), 3, 3)      # a sparse matrix",
    "@finch for j = _, i = _; A[i, j] = i == j ? 2.0 : 0.0 end  # a kernel fills it",
    "y = zeros(3)",
    "@finch for j = _, i = _; y[i] += A[i, j] * x[j] end    # and multiplies",
    "s = Scalar(0.0)",
    "@finch for i = _; s[] += y[i] end                      # and sums up",
    "println(s[], sum(x))",
)
#: `:time` repeats a statement for so many seconds
ENOUGH = 1.0


def obey(conversation: Conversation, text: str) -> None:
    """Perform a command of the prompt. Raises FinchError."""
    word, _, argument = text[1:].partition(" ")
    if text.startswith("?"):
        word, argument = "help", text[1:]
    command = _COMMANDS.get(word)
    if command is None:
        near = did_you_mean(word, _COMMANDS)
        names = ", ".join(f":{name}" for name in _COMMANDS)
        hint = f"did you mean `:{near.code}`?" if near else f"there are {names}"
        hint = other_words("prompt").get(word, hint)
        raise FinchError("unknown name", f"there is no command `:{word}`", hint=hint)
    command(conversation, argument.strip())


def meant(text: str, error: Exception) -> FinchError | None:
    """What is told of an input that is no program, but a command of the prompt; None of others."""
    if not isinstance(error, FinchError) or error.kind not in ("syntax", "unknown name"):
        return None
    word, _, rest = text.lstrip("%!;]\\").partition(" ")
    word = word.removesuffix("()")
    if text.endswith("?") and text[:-1].isidentifier():
        hint = f"write `?{text[:-1]}`"
    elif not re.match(r"$|(?!in\b)[\w./~]", rest):  # a statement: `names = f(x)`
        return None
    elif word in _COMMANDS:
        hint = f"write `:{word}{' ' * bool(rest)}{rest}`"
    elif (hint := other_words("prompt").get(word, "")) == "":
        return None
    return FinchError(error.kind, "commands of the prompt begin with `:` or `?`", hint=hint)


# ------------------------------------------------------------------------------------------- help


def _help(conversation: Conversation, name: str) -> None:
    name = name.strip("`").removesuffix("()")
    session, known = conversation.session, words()
    entry = next((known[n] for n in (name, f":{name}", f"@{name}") if n in known), None)
    section = [e for e in entries() if e.section.lower() == name.lower()]
    if not name:
        page(overview())
    elif section:
        page("\n".join(line for e in section for line in told(e)))
    elif name in session:
        write(f"`{name}` is a variable: {described(session[name])}\n")
    elif entry is None:
        similar = near(name)
        hint = f"`?{similar[0]}`" if similar else "`:help` lists all words"
        raise FinchError("unknown name", f"there is no word `{name}`", hint=hint)
    else:
        page(text_of(entry))


def overview() -> str:
    """All words of the manual by section, in lines that fit the screen."""
    sections: dict[str, list[str]] = {}
    for entry in entries():
        sections.setdefault(entry.section, []).extend(entry.names)
    lines = [*FIRST_STEPS, "", "`?sqrt` explains one word, `?levels` lists the levels.", ""]
    for section, names in sections.items():
        whole = [name.replace(" ", "\xa0") for name in dict.fromkeys(names)]  # kept in one line
        lines += [section, filled(" ".join(whole)).replace("\xa0", " ")]
    return "\n".join(lines)


def filled(text: str) -> str:
    """A text in indented lines that fit the screen."""
    fill = partial(textwrap.fill, initial_indent="    ", subsequent_indent="    ")
    return fill(text, screen()[0], break_on_hyphens=False)


def text_of(entry: Entry) -> str:
    """An entry as `:help` shows it, with its example as typed at the prompt."""
    example = [PROMPT + entry.example.replace("\n", "\n" + " " * len(PROMPT))]
    shown = [] if entry.output is None else [entry.output]
    return "\n".join([*told(entry), "", *example, *shown])


def told(entry: Entry) -> list[str]:
    """The signatures and the text of an entry, in lines that fit the screen."""
    return [textwrap.fill(", ".join(entry.signatures), screen()[0]), filled(entry.text)]


# --------------------------------------------------------------------------------- the variables


def _who(conversation: Conversation, _: str) -> None:
    session = conversation.session
    names = [name for name in session.names() if name != "ARGS"]
    width = max(map(len, names), default=0)
    for name in names:
        value = session[name]
        is_array = as_tensor(value) is not None
        size = f", {tensor_of(value).nbytes} bytes" if is_array else ""
        write(f"{name:<{width}}  {described(value)}{size}\n"[: screen()[0]].rstrip() + "\n")


def _show(conversation: Conversation, name: str) -> None:
    session = conversation.session
    if name not in session:
        raise FinchError("unknown name", f"no variable is called `{name}`", hint="`:who` has all")
    page(display_text(session[name]))


# -------------------------------------------------------------------------------- files, settings


def _load(conversation: Conversation, path: str) -> None:
    path = _path(path)
    conversation.session.run(read_script(path), path)
    conversation.typed.append(read_script(path))


def _save(conversation: Conversation, path: str) -> None:
    path = _path(path)
    text = "\n".join(conversation.typed) + "\n"
    replace_text(path, text)
    write(f"{text.count(chr(10))} lines in {path}\n")


def _path(path: str) -> str:
    path = os.path.expanduser(path.strip('"'))
    if not path:
        raise FinchError("I/O", "the name of a file is missing")
    return path


def _cd(conversation: Conversation, path: str) -> None:
    try:
        if path:
            os.chdir(_path(path))
        write(f"{os.getcwd()}\n")
    except OSError as error:
        raise FinchError("I/O", f"cannot go to {path}: {error.strerror}") from None


def _engine(conversation: Conversation, name: str) -> None:
    if name:
        _one_of(name, SEMANTICS[::-1], "engine")
        conversation.session.engine = name
    write(f"{conversation.session.engine}\n")


def _keys(conversation: Conversation, name: str) -> None:
    if name:
        _one_of(name, ("emacs", "vi"), "keys")
        conversation.has_vi_keys = name == "vi"
    write("vi\n" if conversation.has_vi_keys else "emacs\n")


def _digits(conversation: Conversation, number: str) -> None:
    if number:
        if not (number.isascii() and number.isdigit() and 1 <= int(number[:3]) <= 17):
            message = f"`{number}` is no number of digits"
            raise FinchError("type", message, hint="`:digits 17` shows all digits, `:digits 6` six")
        Format.digits = int(number)
    write(f"{Format.digits}\n")


def _one_of(name: str, names: tuple[str, ...], what: str) -> None:
    if name not in names:
        hint = f"there are {', '.join(names)}"
        raise FinchError("unknown name", f"`{name}` is no {what}", hint=hint)


def _time(conversation: Conversation, text: str) -> None:
    """`:time`: the time of a statement's first run, which compiles, and the least time of further runs."""
    from finchlang.text.parse import parse_script

    script = parse_script(text)
    if not script.statements:
        raise FinchError("syntax", "there is nothing to run", hint="`:time sum(ones(1000))`")
    times: list[float] = []
    begin = time.perf_counter()
    while not times or time.perf_counter() - begin < ENOUGH:
        start = time.perf_counter()
        conversation.session.execute(script)
        times.append(time.perf_counter() - start)
    rest = f", then {duration(min(times[1:]))} (least of {len(times) - 1})" if times[1:] else ""
    write(f"{duration(times[0])}{rest}\n")


# -------------------------------------------------------------------------------- the last kernel


def _look(name: str) -> Callable[[Conversation, str], None]:
    def look(conversation: Conversation, _: str) -> None:
        observer = views.LOOKS[name]()
        observer.reads_data = False  # since its run the arguments may hold something else
        page(_printed(lambda: observer.kernel(_last(conversation))))

    return look


def _trace(conversation: Conversation, text: str) -> None:
    """`:trace`: interprets the last kernel again, on copies of the variables' present values, or the last
    loop that is run as a whole, on copies of its first ones."""
    parser = ArgumentParser(prog=":trace", add_help=False, exit_on_error=False)
    add_options(parser, "trace", STEPS)
    try:
        options, others = parser.parse_known_args(text.split())
    except ArgumentError as error:
        raise FinchError("syntax", str(error), hint="`:trace --steps 3:9 --rule Loop`") from None
    if others:
        hint = "`--rule NAME`, `--steps A:B`, `--staged` and `--all`"
        raise FinchError("unknown name", f"`{others[0]}` is no option of `:trace`", hint=hint)
    event = _last(conversation)
    chosen = Chosen.by(options, has_colours(sys.stdout))
    if options.staged:
        page(_printed(lambda: StagedTrace(chosen).kernel(event)))
        return
    observer = Trace(chosen)
    if isinstance(event.source, Unit):
        page(_printed(lambda: observer.whole(event)))
        chosen.check_ran()
        return
    session = Session("interpret", output=lambda text: None, observer=observer)
    for name in conversation.session.names():
        session.environment.bind({name: copy_of(conversation.session[name])})
    page(_printed(lambda: session.execute(event.source)))
    chosen.check_ran()


def _last(conversation: Conversation) -> Any:
    if conversation.kernel is None:
        hint = "`?@finch` has one"
        raise FinchError("unknown name", "no kernel was compiled yet", hint=hint)
    return conversation.kernel


def _printed(run: Callable[[], Any]) -> str:
    out = io.StringIO()
    with redirect_stdout(out), suppress(Enough):
        run()
    return out.getvalue().rstrip("\n")


_COMMANDS: dict[str, Callable[[Conversation, str], None]] = {
    "help": _help,
    "load": _load,
    "save": _save,
    "who": _who,
    "time": _time,
    "show": _show,
    "cd": _cd,
    "engine": _engine,
    "keys": _keys,
    "digits": _digits,
    "trace": _trace,
    **{name: _look(name) for name in views.LOOKS},
}
