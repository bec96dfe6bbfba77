"""The command line of `finch`: its options are parsed here, and commands performed by `commands.py`."""

from __future__ import annotations

import os
import signal
import sys
from _thread import interrupt_main, start_new_thread
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import current_thread, main_thread
from time import sleep
from typing import Any

from .options import BANNER, COMMANDS, DIRECTLY, add_options

#: commands that run no script, and so need no session (`finch fmt` takes half the time without one)
_OF_TEXT = ("fmt", "lsp", "rules", "completion")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (by default the process's) and return the exit status.

    0: success; 1: a fault of the user's program or data, or engines differ; 2: wrong usage;
    70: a bug of ours; 130: interrupted; 141: the reader of the output has closed it.
    """
    arguments = [*(sys.argv[1:] if argv is None else argv)]
    if sys.stderr is None:  # it is closed: what is told is lost
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:
        if arguments == ["--version"]:  # answered before slow imports
            print(BANNER, flush=True)
            return 0
        with _plain_ctrl_c():
            try:
                options = parse(arguments)
            except SystemExit:
                print(end="", flush=True)
                raise
            talks = options.command == "directly" and options.file is None and options.e is None
            if not talks and options.command not in _OF_TEXT:  # the prompt imports it meanwhile
                from .prompt_session import import_language

                import_language()
            from . import commands
    except SystemExit as leave:  # after --help (0) or a wrong usage (2)
        return leave.code if isinstance(leave.code, int) else 2
    except OSError as error:
        from . import commands

        return commands.unwritable(error)
    if getattr(options, "watch", False):
        return commands.watched_file(options.file, lambda: commands.perform(options))
    with _ctrl_c_again():
        return commands.perform(options)


@contextmanager
def _ctrl_c_again() -> Iterator[None]:
    """Ctrl-C comes again where Python ignores it: in a finaliser or a callback of a weak reference."""
    usual = sys.unraisablehook

    def interrupt() -> None:
        sleep(0.01)  # it is raised as soon as the main thread goes on
        interrupt_main()

    def again(lost: Any) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            start_new_thread(interrupt, ())
        else:
            usual(lost)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = usual


@contextmanager
def _plain_ctrl_c() -> Iterator[None]:
    """Ctrl-C ends the process at once, without the traceback of an import."""
    usual = signal.getsignal(signal.SIGINT)
    if current_thread() is not main_thread() or usual is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


# -------------------------------------------------------------------------------- the command line


def parse(arguments: list[str]) -> Namespace:
    """The options of a command line. Raises SystemExit after --help, or if they are wrong."""
    if arguments and arguments[0] in COMMANDS:
        return _parser_of(arguments[0]).parse_args(arguments[1:])
    parser = _parser()
    if arguments and not os.path.exists(arguments[0]):
        from finchlang.text.manual import other_words

        if ours := other_words("command").get(arguments[0]):
            parser.error(f"there is no `{arguments[0]}`: {ours}")
    options = parser.parse_args(arguments)
    name = options.file
    is_word = name not in (None, "-") and not os.path.splitext(name)[1]
    if options.e is None and is_word and not os.path.exists(name):
        from finchlang.base.errors import did_you_mean

        near = did_you_mean(name, COMMANDS)
        guess = f"; did you mean `finch {near.code}`?" if near else ""
        parser.error(f"`{name}` is neither a command nor a file{guess}")
    return options


def _parser() -> ArgumentParser:
    """The parser of `finch`, `finch FILE` and `finch -e TEXT`."""
    told = (f"  {n:<11} {said_of(n).partition('. ')[0]}" for n in COMMANDS)
    parser = ArgumentParser(
        prog="finch",
        usage="finch [-i] [-e TEXT | FILE [ARGS ...]]\n       finch COMMAND ...",
        description="A language for sparse and structured tensors. Without a file: the prompt.",
        epilog="\n".join(["commands:", *told]),
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=BANNER)
    add_options(parser, "directly", DIRECTLY)
    parser.set_defaults(command="directly")
    return parser


def _parser_of(command: str) -> ArgumentParser:
    parser = ArgumentParser(prog=f"finch {command}", description=said_of(command))
    parser.set_defaults(command=command)
    add_options(parser, command, COMMANDS[command])
    return parser


def said_of(command: str) -> str:
    from finchlang.text.manual import words

    return words()[f"finch {command}"].text.replace("\n", " ").rstrip(".")


if __name__ == "__main__":
    sys.exit(main())
