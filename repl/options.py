"""The options of `finch`: of each command, and of the command line without one."""

from __future__ import annotations

import re
from argparse import REMAINDER, ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from finchlang import __version__

BANNER = f"finchlang {__version__}"
#: the defaults of --engine and --rules
ENGINE, RULES = "native", "all"
#: the options that choose steps of a trace
STEPS = "--kernel --rule --steps --staged --all"
#: stands for no last step
MANY = 1 << 60
#: a trace of which no steps are chosen ends after so many lines
LINES = 200
_STAGE = "FILE ARGS --no-workspaces --rules --no-staging"
#: the operands and options of each command
COMMANDS = {
    "run": "FILE ARGS --no-workspaces --rules --engine --checked --no-staging --watch",
    "check": "FILE ARGS --no-workspaces --watch --staged",
    "bench": f"{_STAGE} --seconds --profile --against --watch",
    "normalize": "FILE ARGS --no-workspaces --no-staging",
    "explain": f"{_STAGE} --html",
    "trace": f"{_STAGE} {STEPS} --count",
    "residual": _STAGE,
    "llvm": _STAGE,
    "asm": _STAGE,
    "show": "FILE NAME ARGS --no-workspaces --rules --no-staging --png",
    "diff": "FILE ARGS --no-workspaces --checked --no-staging --tolerance --engines --rules --threads"
    " --seconds --save --cases --seed --formats --against --exhaustive --minutes --json --limit",
    "replay": "FILE ARGS --no-workspaces --json --limit",
    "fuzz": "--checked --rules --cases --minutes --seed --workers --coverage --metamorphic --stop"
    " --json --out",
    "fmt": "--check FILES",
    "lsp": "",
    "rules": "",
    "completion": "SHELL",
}
#: those of `finch`, `finch FILE` and `finch -e TEXT`
DIRECTLY = "-e -i --engine --rules --no-workspaces --checked --no-staging FILE ARGS"


def add_options(parser: ArgumentParser, command: str, names: str) -> None:
    """Give a parser options by their names; an option of a command goes before one of all commands."""
    for name in names.split():
        given = OPTIONS.get(f"{command} {name}") or OPTIONS[name]
        parser.add_argument(name.lower() if name.isupper() else name, **given)


def _listed(of: Callable[[str], str]) -> Callable[[str], tuple[str, ...]]:
    return lambda text: tuple(map(of, text.split(",")))


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
        said = f"{error.message} ({error.hint})" if error.hint else error.message
        raise ArgumentTypeError(said) from None
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


def _steps(text: str) -> tuple[int, int]:
    """A:B, of which one may be left out; A alone is one step."""
    match = re.fullmatch(r"(\d*)(:?)(\d*)", text)
    if match is None or not text.strip(":"):
        raise ArgumentTypeError(f"`{text}` is not A:B, the first step and the last")
    first, colon, last = match.groups()
    chosen = int(first or 1), int(last or MANY) if colon else int(first)
    if not 1 <= chosen[0] <= chosen[1]:
        raise ArgumentTypeError(f"`{text}` has no step in it: they count from 1")
    return chosen


COUNT, FROM_0, TIME = _number(int, 1), _number(int, 0), _number(float, 0.001)


def _option(help: str, type: Any = None, default: Any = None, **more: Any) -> dict[str, Any]:
    """An option with a value, or without one if it has no type."""
    kind = {"action": "store_true"} if type is None else {"type": type, "default": default}
    return {**kind, "help": help, **more}


def _without(help: str, what: str) -> dict[str, Any]:
    return {"dest": what, "action": "store_false", "help": help}


def _several(metavar: str, help: str) -> dict[str, Any]:
    return _option(f"{help} (more than once)", str, metavar=metavar, action="append")


def _by_default(default: Any, type: Any, help: str) -> dict[str, Any]:
    return _option(f"{help} (%(default)s)", type, default)


def _function(help: str) -> dict[str, Any]:
    return _option(help, str, "", metavar="FILE.py:NAME")


#: what argparse is told of each operand and option
OPTIONS: dict[str, dict[str, Any]] = {
    "FILE": dict(help="a .finch file, `-` for input", metavar="FILE"),
    "directly FILE": dict(help="a .finch file to run, `-` for input", metavar="FILE", nargs="?"),
    "ARGS": dict(help="what the script finds in ARGS", metavar="ARGS", nargs="*", default=[]),
    "directly ARGS": dict(help="what it finds in ARGS", metavar="ARGS", nargs=REMAINDER),
    "NAME": dict(help="the variable the tensor is bound to in the end", metavar="NAME"),
    "FILES": dict(help="a .finch file, `-` for input", metavar="FILE", nargs="+"),
    "SHELL": {"choices": ("bash", "zsh", "fish")},
    "-e": _several("TEXT", "run a text and show its values"),
    "-i": _option("go on at the prompt"),
    "--engine": _by_default(ENGINE, _engine, "runs kernels: native, residual, interpret or denote"),
    "--rules": _by_default(
        RULES, _rules, "`all`, or `paper` without derived rules; `all-Break` leaves one out"
    ),
    "--no-workspaces": _without("make updates across the order of loops errors", "workspaces"),
    "--no-staging": _without("run loops of the script kernel by kernel", "staging"),
    "--checked": _option("check each access to memory in native code"),
    "--watch": _option("do it again whenever the file is saved"),
    "--staged": _option("run it; tell which functions and loops were compiled whole, or why not"),
    "--kernel": _option("the N-th kernel of the file only", int, metavar="N"),
    "--rule": _several("NAME", "steps of this rule only"),
    "--steps": _option(
        f"only steps A to B, after which the program stops; `1:` is all (the first {LINES} lines)",
        _steps,
        metavar="A:B",
    ),
    "trace --staged": _option("stage the kernels, and show their residuals grow"),
    "--all": _option("the rules for expressions too"),
    "--html": _option("write a page to step through instead", str, metavar="OUT"),
    "--png": _option("write a picture of its entries too", str, metavar="OUT"),
    "--count": _option("only totals, and the host's steps (of --staged, the statements)"),
    "--check": _option("write nothing, name such files"),
    # ------------------------------------------------------------------------------------- times
    "bench --seconds": _by_default(1.0, TIME, "how long each kernel is timed"),
    "--profile": _option(
        "by lines, the time in each loop without those in it (a clock is read where loops begin and"
        " end), and how often it goes round"
    ),
    "bench --against": _function("your function to time and compare"),
    # -------------------------------------------------------------------------------- comparisons
    "--tolerance": _option("how far apart, relatively, floats may be", _number(float, 0)),
    "--engines": _option("those to compare, as in `interpret,native` (all)", _listed(_engine)),
    "diff --rules": _option(
        "sets of rules to compare, as in `paper,all,all-Break` (all)", _listed(_rules), (RULES,)
    ),
    "--threads": _option("run the file on so many threads at once (1)", COUNT, 1),
    "--seconds": _option("time to reduce what differs (60)", _number(float, 0), 60.0),
    "--save": _option("where a file for `finch replay` is written", str, metavar="OUT"),
    "diff --cases": _option("compare on generated data, so many times", COUNT, 0),
    "diff --seed": _by_default(0, FROM_0, "of the first such case"),
    "--formats": _option("those tensors may have", str, "declared", choices=("declared", "any")),
    "--against": _function("your function for what is right"),
    "--exhaustive": _option(
        "run each kernel on all patterns up to size K, with symbols for values",
        int,
        choices=(1, 2, 3),
        metavar="K",
    ),
    "diff --minutes": _option(
        "how long that, or generated data and formats may take (1; with --cases no limit)",
        TIME,
        0.0,
    ),
    "--json": _option("print what was found as JSON"),
    "--limit": _by_default(300.0, TIME, "processor seconds for all engines"),
    # ---------------------------------------------------------------------------------- campaigns
    "--cases": _option("how many scripts (1000 if no time is given)", COUNT, 0),
    "--minutes": _option("how long", TIME, 0.0),
    "--seed": _option("of the first script", FROM_0, 0),
    "--workers": _by_default(1, COUNT, "how many processes"),
    "--coverage": _option("tell what was reached, and what was not"),
    "--metamorphic": _option("scripts and variants that must give the same"),
    "--stop": _option("end at the first finding"),
    "fuzz --json": _option("print what came of it as JSON"),
    "--out": _option("write each finding as a script", str, "", metavar="FOLDER"),
}
