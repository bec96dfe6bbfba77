"""The command `finch`: run a file, look at what becomes of its kernels, or talk at the prompt."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from textwrap import dedent, indent

from finchlang import __version__, agreement
from finchlang.agreement import SEMANTICS
from finchlang.rules import table
from finchlang.script.display import display_text, save_picture
from finchlang.session import Observer, Session, read_script
from finchlang.source import FinchError

from . import views
from .report import (
    BROKEN_PIPE,
    SUCCESS,
    USAGE,
    USER_ERROR,
    NobodyReads,
    flush,
    report,
    tell,
    unwritten,
    write,
)
from .session import converse, read_all

BANNER = f"finchlang {__version__}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: the process's); the exit status.

    0: success; 1: the user's program or data is at fault, or engines differ; 2: wrong usage;
    70: a bug of ours; 130: interrupted; 141: nobody reads the output any more.
    """
    try:
        options = _parser().parse_args(argv)
    except SystemExit as leave:  # after --help, --version (0) or a wrong usage (2)
        return leave.code if isinstance(leave.code, int) else USAGE
    try:
        status = _status(options)
        flush()
        return status
    except (BrokenPipeError, NobodyReads):
        _let_go_of_output()
        return BROKEN_PIPE
    except OSError as error:  # a full disk, say
        _let_go_of_output()
        return report(unwritten(error))


def _status(options: Namespace) -> int:
    try:
        return options.command(options)
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        return report(error)


def _let_go_of_output() -> None:
    """Send what is left in the buffer nowhere, or Python complains about it while it ends."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


# -------------------------------------------------------------------------------- the command line


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="finch",
        description="A language for sparse and structured tensors. Without a command: the prompt.",
    )
    parser.add_argument("--version", action="version", version=BANNER)
    parser.set_defaults(command=prompt)
    commands = parser.add_subparsers(metavar="COMMAND")

    def command(
        name: str, function, help: str, operands: Sequence[tuple[str, str]] = ()
    ) -> ArgumentParser:
        sub = commands.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
        sub.add_argument("file", metavar="FILE", help="a .finch file")
        for operand, what in operands:
            sub.add_argument(operand, metavar=operand.upper(), help=what)
        sub.add_argument("args", metavar="ARGS", nargs="*", help="what the script finds in ARGS")
        sub.add_argument(
            "--no-workspaces",
            dest="workspaces",
            action="store_false",
            help="make updates across the order of their loops errors",
        )
        sub.set_defaults(command=function)
        return sub

    run_ = command("run", run, "run a file")
    run_.add_argument(
        "--engine",
        choices=SEMANTICS[::-1],
        default="native",
        help="what runs its kernels (%(default)s)",
    )
    command("check", check, "check a file's syntax and its kernels without running a kernel")
    normalize_ = command("normalize", look, "show each kernel after each pass of normalisation")
    normalize_.set_defaults(view=views.Passes)
    explain_ = command("explain", look, "show what each pass decided for each kernel, and why")
    explain_.set_defaults(view=views.Explanations)
    trace_ = command("trace", trace, "show each rule the interpreter applies, by its name")
    trace_.add_argument("--count", action="store_true", help="only totals, and the host's steps")
    trace_.add_argument(
        "--staged", action="store_true", help="stage the kernels, and show their residuals grow"
    )
    trace_.add_argument(
        "--all",
        action="store_true",
        help="the rules for expressions too, and each Define of a loop",
    )
    residual_ = command("residual", look, "show the residual program of each kernel")
    residual_.set_defaults(view=views.Residuals)
    llvm_ = command("llvm", look, "show the LLVM IR of each kernel")
    llvm_.set_defaults(view=views.Llvm)
    asm_ = command("asm", look, "show the machine code of each kernel")
    asm_.set_defaults(view=views.Assembly)
    show_ = command(
        "show",
        show,
        "run a file and show a tensor it made: its levels, and its entries or a picture",
        [("name", "the variable the tensor is bound to in the end")],
    )
    show_.add_argument("--png", metavar="OUT", help="write where it has entries as a picture too")
    rules_ = commands.add_parser("rules", help="list the rules of the semantics, first to last")
    rules_.set_defaults(command=list_rules)
    diff_ = command("diff", diff, "run a file in all four semantics and compare the results")
    diff_.add_argument(
        "--tolerance", type=_tolerance, help="how far apart, relatively, floats may be"
    )
    for sub in (run_, explain_, trace_, residual_, llvm_, asm_, show_):
        sub.add_argument(
            "--rules",
            type=_rules,
            default="all",
            metavar="RULES",
            help="`all`, or `paper` without derived rules; `all-Break` leaves one out (%(default)s)",
        )
    return parser


def _rules(text: str) -> str:
    try:
        table.rules(text)
    except FinchError as error:
        raise ArgumentTypeError(
            f"{error.message} ({error.hint})" if error.hint else error.message
        ) from None
    return text


def _tolerance(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError(text)
    return value


# ------------------------------------------------------------------------------------ the commands


def prompt(options: Namespace) -> int:
    """`finch`: the prompt at a terminal, or whatever standard input holds."""
    session = Session(output=write, observer=views.Notes())
    if sys.stdin is None:
        return SUCCESS
    return converse(session, BANNER) if sys.stdin.isatty() else read_all(session, sys.stdin)


def run(options: Namespace) -> int:
    """`finch run FILE`."""
    choices = options.engine, options.rules, write, options.args, views.Notes()
    Session(*choices, options.workspaces).run_file(options.file)
    return SUCCESS


def check(options: Namespace) -> int:
    """`finch check FILE`: silent if all is well and every kernel was reached."""
    for span in _look(options, "check", views.Notes()).unchecked:
        place = f"{options.file}:{span.line}:{span.column}" if span else options.file
        print(f"{place}: this kernel is not reached without running others", file=sys.stderr)
    return SUCCESS


def look(options: Namespace) -> int:
    """`finch normalize`, `explain`, `residual`, `llvm` or `asm`: each kernel when it first runs."""
    _look(options, "native", options.view())
    return SUCCESS


def trace(options: Namespace) -> int:
    """`finch trace FILE`: every rule applied, or with --count how often which."""
    if options.staged:
        _look(options, "native", views.StagedTrace(options.all))
    elif options.count:
        counts = views.Counts(options.all)
        _look(options, "interpret", counts)
        print(counts.report())
    else:
        _look(options, "interpret", views.Trace(options.all))
    return SUCCESS


def list_rules(options: Namespace) -> int:
    """`finch rules`: each rule with its name and statement, in their order of priority."""
    for number, rule in enumerate(table.RULES, 1):
        print(f"{number} {rule.name}{' (derived)' if rule.is_derived else ''}")
        print(indent(dedent("    " + rule.statement).strip(), "    "), end="\n\n")
    return SUCCESS


def show(options: Namespace) -> int:
    """`finch show FILE NAME`: what `display(NAME)` prints at the end of the file."""
    session = _look(options, "native")
    if options.name not in session:
        raise FinchError("unknown name", f"{options.file} binds no {options.name}")
    value = session[options.name]
    if options.png is not None:
        save_picture(options.png, value)
    write(display_text(value) + "\n")
    return SUCCESS


def diff(options: Namespace) -> int:
    """`finch diff FILE`: which of the four semantics agree on the file's data."""
    chosen = {} if options.tolerance is None else {"tolerance": options.tolerance}
    text = read_script(options.file)
    choices = {"args": options.args, "workspaces": options.workspaces}
    comparison = agreement.compare(text, options.file, **chosen, **choices)
    for note in comparison.notes:
        tell(note)
    if comparison.agrees and comparison.errors:  # the program is wrong, and all say so
        raise comparison.errors[comparison.engines[-1]]
    print(comparison.report)
    return SUCCESS if comparison.agrees else USER_ERROR


def _look(options: Namespace, engine: str, observer: Observer | None = None) -> Session:
    """Run the file with an observer; what the script itself prints is left out."""
    rules = getattr(options, "rules", "all")
    choices = engine, rules, lambda text: None, options.args, observer, options.workspaces
    session = Session(*choices)
    session.run_file(options.file)
    return session


if __name__ == "__main__":
    sys.exit(main())
