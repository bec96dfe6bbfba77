"""The command line of `finch`: its options are parsed here, and commands performed by `commands.py`."""

from __future__ import annotations

import os
import signal
import sys
from argparse import (
    REMAINDER,
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread
from types import ModuleType

from .command_table import BANNER, COMMANDS, OF_FILES, WATCHED

#: the defaults of --engine and --rules
ENGINE, RULES = "native", "all"
#: commands that run no script, and so need no session (`finch fmt` takes half the time without one)
_OF_TEXT = ("fmt", "lsp", "rules", "completion")
#: commands with the option --rules
_WITH_RULES = ("run", "bench", "explain", "trace", "residual", "llvm", "asm", "show")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (by default the process's) and return the exit status.

    0: success; 1: a fault of the user's program or data, or engines differ; 2: wrong usage;
    70: a bug of ours; 130: interrupted; 141: the reader of the output has closed it.
    """
    arguments = [*(sys.argv[1:] if argv is None else argv)]
    if arguments == ["--version"]:  # answered before slow imports
        print(BANNER)
        return 0
    try:
        with _plain_ctrl_c():
            options = parse(arguments)
            talks = options.command == "directly" and options.file is None and options.e is None
            perform = _commands(not talks and options.command not in _OF_TEXT).perform
    except SystemExit as leave:  # after --help (0) or a wrong usage (2)
        return leave.code if isinstance(leave.code, int) else 2
    if getattr(options, "watch", False):
        from .watch import watched_file

        return watched_file(options.file, lambda: perform(options))
    return perform(options)


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


def _commands(needs_session: bool) -> ModuleType:
    """The module `commands`; the prompt imports the language while its user types."""
    if needs_session:
        from .prompt_session import import_language

        import_language()
    from . import commands

    return commands


# -------------------------------------------------------------------------------- the command line


def parse(arguments: list[str]) -> Namespace:
    """The options of a command line. Raises SystemExit after --help, or if they are wrong."""
    if arguments and arguments[0] in COMMANDS:
        return _parser_of(arguments[0]).parse_args(arguments[1:])
    parser = _parser()
    options = parser.parse_args(arguments)
    name = options.file
    is_word = name is not None and not os.path.splitext(name)[1]
    if options.e is None and is_word and not os.path.exists(name):
        from difflib import get_close_matches

        near = get_close_matches(name, COMMANDS, 1)
        parser.error(
            f"`{name}` is neither a command nor a file"
            + (f"; did you mean `finch {near[0]}`?" if near else "")
        )
    return options


def _parser() -> ArgumentParser:
    """The parser of `finch`, `finch FILE` and `finch -e TEXT`."""
    parser = ArgumentParser(
        prog="finch",
        usage="finch [-i] [-e TEXT | FILE [ARGS ...]]\n       finch COMMAND ...",
        description="A language for sparse and structured tensors. Without a file: the prompt.",
        epilog="\n".join(["commands:", *(f"  {n:<11} {said_of(n)}" for n in COMMANDS)]),
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=BANNER)
    parser.add_argument("-e", metavar="TEXT", help="run a text and show its values")
    parser.add_argument("-i", action="store_true", help="go on at the prompt")
    _add_engine(parser)
    _add_rules(parser)
    _add_workspaces(parser)
    _add_checked(parser)
    _add_staging(parser)
    parser.add_argument("file", metavar="FILE", nargs="?", help="a .finch file to run")
    parser.add_argument("args", metavar="ARGS", nargs=REMAINDER, help="what it finds in ARGS")
    parser.set_defaults(command="directly")
    return parser


def _parser_of(command: str) -> ArgumentParser:
    parser = ArgumentParser(prog=f"finch {command}", description=said_of(command))
    parser.set_defaults(command=command)
    if command == "completion":
        parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    if command == "fmt":
        parser.add_argument("--check", action="store_true", help="write nothing, name such files")
        parser.add_argument("files", metavar="FILE", nargs="+", help="a .finch file, `-` for input")
    if command in OF_FILES:
        parser.add_argument("file", metavar="FILE", help="a .finch file")
        for operand, what in OF_FILES[command]:
            parser.add_argument(operand, metavar=operand.upper(), help=what)
        parser.add_argument("args", metavar="ARGS", nargs="*", help="what the script finds in ARGS")
        _add_workspaces(parser)
    if command in _WITH_RULES:
        _add_rules(parser)
    if command == "run":
        _add_engine(parser)
    if command in ("run", "diff", "fuzz"):
        _add_checked(parser)
    if command in (*_WITH_RULES, "diff", "normalize"):
        _add_staging(parser)
    if command == "bench":
        _add_bench(parser)
    if command in WATCHED:
        parser.add_argument(
            "--watch", action="store_true", help="do it again whenever the file is saved"
        )
    if command == "check":
        parser.add_argument(
            "--staged",
            action="store_true",
            help="run it, and tell which functions and loops were compiled whole, or why not",
        )
    if command == "fuzz":
        _add_campaign(parser)
    if command == "diff":
        _add_comparison(parser)
        _add_data(parser)
        parser.add_argument(
            "--exhaustive",
            type=int,
            choices=(1, 2, 3),
            metavar="K",
            help="run each kernel on all patterns up to size K, with symbols for values",
        )
        parser.add_argument(
            "--minutes",
            type=_number(float, 0.001),
            default=1.0,
            help="how long that may take (%(default)s)",
        )
    if command in ("diff", "replay"):
        parser.add_argument("--json", action="store_true", help="print what was found as JSON")
        parser.add_argument(
            "--limit",
            type=_number(float, 0.001),
            default=300.0,
            help="processor seconds for all engines (%(default)s)",
        )
    if command == "show":
        parser.add_argument("--png", metavar="OUT", help="write a picture of its entries too")
    if command == "explain":
        parser.add_argument("--html", metavar="OUT", help="write a page to step through instead")
    if command == "trace":
        from .trace import add_options

        add_options(parser)
        parser.add_argument(
            "--count",
            action="store_true",
            help="only totals, and the host's steps (of --staged, the statements)",
        )
    return parser


def _add_campaign(parser: ArgumentParser) -> None:
    _add_rules(parser)
    add = parser.add_argument
    add(
        "--cases",
        type=_number(int, 1),
        default=0,
        help="how many scripts (1000 if no time is given)",
    )
    add("--minutes", type=_number(float, 0.001), default=0.0, help="how long")
    add("--seed", type=_number(int, 0), default=0, help="of the first script")
    add("--workers", type=_number(int, 1), default=1, help="how many processes (%(default)s)")
    add("--coverage", action="store_true", help="tell what was reached, and what was not")
    add("--metamorphic", action="store_true", help="scripts and variants that must give the same")
    add("--stop", action="store_true", help="end at the first finding")
    add("--json", action="store_true", help="print what came of it as JSON")
    add("--out", metavar="FOLDER", default="", help="write each finding as a script")


def _add_comparison(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--tolerance", type=_number(float, 0), help="how far apart, relatively, floats may be"
    )
    parser.add_argument(
        "--engines", type=_listed(_engine), help="those to compare, as in `interpret,native` (all)"
    )
    parser.add_argument(
        "--rules",
        type=_listed(_rules),
        default=(RULES,),
        help="sets of rules to compare, as in `paper,all,all-Break` (all)",
    )
    parser.add_argument(
        "--threads",
        type=_number(int, 1),
        default=1,
        help="run the file on so many threads at once (1)",
    )
    parser.add_argument(
        "--seconds", type=_number(float, 0), default=60.0, help="time to reduce what differs (60)"
    )
    parser.add_argument("--save", metavar="OUT", help="where a file for `finch replay` is written")


def _add_bench(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--seconds",
        type=_number(float, 0.001),
        default=1.0,
        help="how long each kernel is timed (%(default)s)",
    )
    add(
        "--profile",
        action="store_true",
        help="by lines, the time in each loop without those in it (a clock is read where loops begin and"
        " end), and how often it goes round",
    )
    add("--against", metavar="FILE.py:NAME", default="", help="your function to time and compare")


def _add_data(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--cases", type=_number(int, 1), default=0, help="compare on generated data, so many times")
    add("--seed", type=_number(int, 0), default=0, help="of the first such case (%(default)s)")
    add("--formats", choices=("declared", "any"), default="declared", help="those tensors may have")
    add("--against", metavar="FILE.py:NAME", default="", help="your function for what is right")


def _listed(of: Callable[[str], str]) -> Callable[[str], tuple[str, ...]]:
    return lambda text: tuple(map(of, text.split(",")))


def said_of(command: str) -> str:
    from .manual import words

    return words()[f"finch {command}"].text


def _add_engine(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        type=_engine,
        default=ENGINE,
        help="what runs kernels: native, residual, interpret or denote (%(default)s)",
    )


def _add_workspaces(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--no-workspaces",
        dest="workspaces",
        action="store_false",
        help="make updates across the order of their loops errors",
    )


def _add_staging(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--no-staging",
        dest="staging",
        action="store_false",
        help="run loops of the script kernel by kernel",
    )


def _add_checked(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--checked", action="store_true", help="check each access to memory in native code"
    )


def _add_rules(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--rules",
        type=_rules,
        default=RULES,
        help="`all`, or `paper` without derived rules; `all-Break` leaves one out (%(default)s)",
    )


# Modules of the language are imported when an option needs them, since importing takes long.


def _engine(text: str) -> str:
    if text == ENGINE:
        return text
    from finchlang.testing.compare_engines import SEMANTICS

    if text not in SEMANTICS:
        raise ArgumentTypeError(f"`{text}` is none of {', '.join(SEMANTICS[::-1])}")
    return text


def _rules(text: str) -> str:
    if text == RULES:
        return text
    from finchlang.base.errors import FinchError
    from finchlang.rules import table

    try:
        table.rules(text)
    except FinchError as error:
        raise ArgumentTypeError(
            f"{error.message} ({error.hint})" if error.hint else error.message
        ) from None
    return text


def _number(of: Callable[[str], float], least: float) -> Callable[[str], float]:
    kind = "whole" if of is int else "finite"

    def number(text: str) -> float:
        with suppress(ValueError):
            value = of(text)
            if least <= value < float("inf"):
                return value
        raise ArgumentTypeError(f"`{text}` is no {kind} number of at least {least}")

    return number


if __name__ == "__main__":
    sys.exit(main())
