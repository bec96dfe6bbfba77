"""The command `finch`: run a file, look at what becomes of its kernels, or talk at the prompt."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from finchlang import __version__

from .report import BROKEN_PIPE, SUCCESS, USAGE, NobodyReads, report, write

ENGINES = ("native", "interpret", "residual", "denote")
RULES = ("all", "paper")
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
        status = options.command(options)
        sys.stdout.flush()
        return status
    except (BrokenPipeError, NobodyReads):
        _let_go_of_output()
        return BROKEN_PIPE
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

    def command(name: str, function, help: str) -> ArgumentParser:
        sub = commands.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
        sub.add_argument("file", metavar="FILE", help="a .finch file")
        sub.add_argument("args", metavar="ARGS", nargs="*", help="what the script finds in ARGS")
        sub.set_defaults(command=function)
        return sub

    run_ = command("run", run, "run a file")
    run_.add_argument(
        "--engine", choices=ENGINES, default="native", help="what runs its kernels (%(default)s)"
    )
    command("check", check, "check a file's syntax and its kernels without running a kernel")
    command("normalize", normalize, "show each kernel after each pass of normalisation")
    trace_ = command("trace", trace, "show each rule the interpreter applies, by its name")
    trace_.add_argument("--count", action="store_true", help="only totals, and the host's steps")
    residual_ = command("residual", residual, "show the residual program of each kernel")
    llvm_ = command("llvm", llvm, "show the LLVM IR of each kernel")
    asm_ = command("asm", asm, "show the machine code of each kernel")
    diff_ = command("diff", diff, "run a file in all four semantics and compare the results")
    diff_.add_argument(
        "--tolerance", type=_tolerance, help="how far apart, relatively, floats may be"
    )
    for sub in (run_, trace_, residual_, llvm_, asm_):
        sub.add_argument(
            "--rules",
            choices=RULES,
            default="all",
            help="with or without derived rules (%(default)s)",
        )
    return parser


def _tolerance(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError(text)
    return value


# ------------------------------------------------------------------------------------ the commands
# Each imports what it needs itself, so that `finch --help` need not wait for LLVM.


def prompt(options: Namespace) -> int:
    """`finch`: the prompt at a terminal, or whatever standard input holds."""
    from finchlang.driver import Session

    from .session import converse, read_all

    session = Session(output=write)
    if sys.stdin is not None and sys.stdin.isatty():
        return converse(session, BANNER)
    return read_all(session, sys.stdin) if sys.stdin is not None else SUCCESS


def run(options: Namespace) -> int:
    """`finch run FILE`."""
    from finchlang.driver import Session

    session = Session(options.engine, options.rules, output=write, args=options.args)
    session.run_file(options.file)
    return SUCCESS


def check(options: Namespace) -> int:
    """`finch check FILE`: silent if all is well."""
    return _look(options, "check", None)


def normalize(options: Namespace) -> int:
    """`finch normalize FILE`: every kernel after every pass."""
    from .views import Passes

    return _look(options, "native", Passes())


def trace(options: Namespace) -> int:
    """`finch trace FILE`: every rule applied, or with --count how often which."""
    from .views import Counts, Trace

    if not options.count:
        return _look(options, "interpret", Trace())
    counts = Counts()
    status = _look(options, "interpret", counts)
    print(counts.report())
    return status


def residual(options: Namespace) -> int:
    """`finch residual FILE`: the residual programs, in order of first execution."""
    from .views import Residuals

    return _look(options, "native", Residuals())


def llvm(options: Namespace) -> int:
    """`finch llvm FILE`: the LLVM IR of each kernel."""
    from .views import Llvm

    return _look(options, "native", Llvm())


def asm(options: Namespace) -> int:
    """`finch asm FILE`: the machine code of each kernel, as assembly."""
    from .views import Assembly

    return _look(options, "native", Assembly())


def diff(options: Namespace) -> int:
    """`finch diff FILE`: which of the four semantics agree on the file's data."""
    from finchlang.driver import compare, read_script

    chosen = {} if options.tolerance is None else {"tolerance": options.tolerance}
    comparison = compare(read_script(options.file), options.file, args=options.args, **chosen)
    print(comparison.report)
    return SUCCESS if comparison.agrees else 1


def _look(options: Namespace, engine: str, observer) -> int:
    """Run the file with an observer; what the script itself prints is left out."""
    from finchlang.driver import Session

    session = Session(
        engine=engine,
        rules=getattr(options, "rules", "all"),
        output=lambda text: None,
        args=options.args,
        observer=observer,
    )
    session.run_file(options.file)
    return SUCCESS


if __name__ == "__main__":
    sys.exit(main())
