"""Commands of other tools, at the prompt and on the command line, with our way."""

from __future__ import annotations

import re

_LOAD = "`:load FILE` runs a file"
_NAMES = "`:who` lists the names"
_ANEW = "names keep their values until Ctrl-D leaves; `x = nothing` lets one go"
_TIMES = "`:time f(x)` measures a statement"
_EXPLAINS = "`?sum` explains a word, `:help` lists them"
_RUNS = "kernels are compiled when `finch FILE` runs them; `finch llvm FILE` shows the code"
#: words of the prompt
AT_PROMPT = {
    **dict.fromkeys(("h", "doc", "man", "info", "lookfor"), _EXPLAINS),
    **dict.fromkeys(("ls", "dir", "vars", "whos", "names", "workspace", "locals"), _NAMES),
    **dict.fromkeys(("run", "source", "include", "open", "l"), _LOAD),
    **dict.fromkeys(("clear", "reset", "restart", "clc", "del", "close"), _ANEW),
    **dict.fromkeys(("timeit", "benchmark", "btime", "prun", "tic"), _TIMES),
    **dict.fromkeys(("type", "typeof"), "`typeof(x)` is the type of a value, `?x` describes it"),
    **dict.fromkeys(
        ("history", "hist"), "the arrow keys go through it; `:save FILE` writes the inputs"
    ),
    **dict.fromkeys(("edit", "e", "ed"), "edit the file elsewhere, and `:load FILE` it"),
    **dict.fromkeys(("format", "precision"), "`:digits 6` sets the digits of numbers"),
    **dict.fromkeys(
        ("pwd", "sh", "shell", "add", "pkg", "pip"),
        "commands of the shell are typed elsewhere, and packages are not needed",
    ),
}
#: commands and options of the command line
COMMANDS = {
    "help": "`finch --help` lists the commands, `finch run --help` explains one",
    **dict.fromkeys(("version", "-v", "-V"), "`finch --version` tells it"),
    "lint": "`finch check FILE` finds mistakes without running anything",
    "test": "`finch diff FILE` compares the engines, `@assert` checks a condition in a script",
    "profile": "`finch bench FILE --profile` has the times of lines",
    **dict.fromkeys(("compile", "build", "make"), _RUNS),
    **dict.fromkeys(("repl", "shell", "prompt", "console", "start"), "`finch` alone is the prompt"),
    "convert": 'write `finch -e \'fwrite("b.npy", fread("a.mtx"))\'`',
    "ir": "`finch residual FILE` and `finch llvm FILE` show it",
    **dict.fromkeys(("eval", "exec", "-c"), "write `finch -e 'println(1)'`"),
    "debug": "`finch trace FILE` shows each step",
    "watch": "write `finch run FILE --watch`",
    "time": "write `finch bench FILE`",
    "format": "write `finch fmt FILE`",
    **dict.fromkeys(("doc", "docs", "man"), "`?sum` at the prompt explains a word"),
}


def at_prompt(text: str, known: tuple[str, ...]) -> str | None:
    """Our way for an input that begins with a command, ours (`known`) without its colon or another's."""
    word, _, rest = text.lstrip("%!;]\\").partition(" ")
    word = word.removesuffix("()")
    if not re.match(r"$|(?!in\b)[\w./~]", rest):  # a statement: `names = f(x)`
        return None
    return f"write `:{word}{' ' * bool(rest)}{rest}`" if word in known else AT_PROMPT.get(word)
