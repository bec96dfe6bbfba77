"""The commands of `finch`, a function for each."""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from importlib.resources import files
from textwrap import dedent, indent
from typing import TYPE_CHECKING, Any

from finchlang.base.errors import FinchError
from finchlang.base.paths import read_script, replace_text

from .options import BANNER, COMMANDS, DIRECTLY
from .progress import told, watched
from .prompt_session import Conversation
from .report import (
    BROKEN_PIPE,
    INTERRUPTED,
    SUCCESS,
    USER_ERROR,
    NobodyReads,
    flush,
    paged,
    report,
    tell,
    unwritten,
    write,
)

if TYPE_CHECKING:
    from finchlang.calls.runner import Observer
    from finchlang.python.session import Session
    from finchlang.testing.apart import Comparer
    from finchlang.testing.compare_engines import Comparison, Way

#: how often a file that is watched is looked at, in seconds
EVERY = 0.2
#: commands that print by `write` alone, which first clears the line of progress
QUIET = ("run", "show", "diff", "replay")
GREETING = f"{BANNER}\n:help helps, Ctrl-D leaves."


def perform(options: Namespace) -> int:
    """Perform the command of a command line and return the exit status."""
    try:
        status = _status(options)
        flush()
        return status
    except (OSError, NobodyReads) as error:
        return unwritable(error)


def _status(options: Namespace) -> int:
    try:
        if options.command == "directly":
            return directly(options)
        with watched() if options.command in QUIET else nullcontext():
            return FUNCTIONS[options.command](options)
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, OSError) and error.filename is None:  # of the output
            raise
        return report(error)


def unwritable(error: OSError | NobodyReads) -> int:
    """The exit status where nobody reads the output, or its disk is full. What is left in its buffer is
    discarded: Python would fail to write it at exit, and complain."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
    if isinstance(error, (BrokenPipeError, NobodyReads)):
        return BROKEN_PIPE
    return report(unwritten(error))


def watched_file(path: str, do: Callable[[], int]) -> int:
    """Do it, and again at each change of the file, until Ctrl-C; returns the last status."""
    status, seen = do(), _mark(path)
    try:
        while True:
            time.sleep(EVERY)
            now = _mark(path)
            if now is not None and now != seen:
                seen = now
                print(f"-- {path} has changed", file=sys.stderr, flush=True)
                status = do()
    except KeyboardInterrupt:
        return status


def _mark(path: str) -> tuple[int, int] | None:
    """By which a changed file is told; None while it is being replaced."""
    with suppress(OSError):
        found = os.stat(path)
        return found.st_mtime_ns, found.st_size
    return None


# ------------------------------------------------------------------------------- running, talking


def _tell_of_options(options: Namespace) -> None:
    """Notes on stderr that an option after the file is left to a script that does not look at it."""
    stray = next((arg for arg in options.args if arg.partition("=")[0] in DIRECTLY.split()), None)
    if stray is not None and "ARGS" not in read_script(options.file):
        place = "stands after the file, and is left to the script; options stand before the file"
        print(f"note: `{stray}` {place}", file=sys.stderr)


def directly(options: Namespace) -> int:
    """`finch`, `finch FILE`, `finch -e TEXT`: run the file or text. Without one, or with `-i`, go on with
    the prompt, or with standard input if that is no terminal."""
    if options.e is not None and options.file is not None:  # no file is run: it is an argument
        options.args.insert(0, options.file)
    conversation = Conversation(partial(_session_of, options))
    status = SUCCESS
    if options.e is not None or options.file is not None:
        try:
            with watched():
                if options.e is not None:
                    conversation.run("\n".join(options.e), "<-e>")
                else:
                    _tell_of_options(options)
                    conversation.session.run_file(options.file)
        except (Exception, KeyboardInterrupt) as error:
            if not options.i:
                raise
            status = report(error)
        if not options.i:
            return status
    if sys.stdin is None:
        return SUCCESS
    if sys.stdin.isatty():
        from .terminal import converse

        return converse(conversation, GREETING)
    with watched():
        conversation.run(read_script("-"), "<stdin>")
    return SUCCESS


def _session(
    options: Namespace,
    engine: str,
    observer: Observer | None,
    output: Callable[[str], Any] = lambda text: None,
) -> Session:
    """A session with the options of a command line; without `output` scripts print nothing."""
    from finchlang.python.session import Session

    rules, checked = getattr(options, "rules", "all"), getattr(options, "checked", False)
    choices = engine, rules, output, options.args, observer, options.workspaces, checked
    return Session(*choices, getattr(options, "staging", True))


def _session_of(options: Namespace, conversation: Conversation) -> Session:
    from .notes import Watching

    return _session(options, options.engine, Watching(conversation), write)


#: the options of a way to run a script that are named as its fields
_CHOICES = "workspaces", "checked", "threads", "staging"


def run(options: Namespace) -> int:
    from .notes import Notes

    _session(options, options.engine, Notes(), write).run_file(options.file)
    return SUCCESS


def check(options: Namespace) -> int:
    """`finch check FILE`: prints nothing if there are no faults and every kernel was reached. With
    `--staged` it runs the file, and prints what was compiled whole."""
    from .notes import Notes

    if options.staged:
        session = _session(options, "native", Notes())
        try:
            session.run_file(options.file)
        finally:  # after an error, what ran before it
            write("".join(f"{line}\n" for line in session.staged))
        return SUCCESS
    for span in _look(options, "check", Notes()).unchecked:
        place = f"{options.file}:{span.line}:{span.column}" if span else options.file
        print(f"{place}: this kernel is not reached without running others", file=sys.stderr)
    return SUCCESS


# ---------------------------------------------------------------------------------------- looking


def look(options: Namespace) -> int:
    """`finch normalize`, `explain`, `residual`, `llvm`, `asm`: a stage of kernels when they first run."""
    from .views import LOOKS

    if getattr(options, "html", None) is not None:
        from .recording import Page

        page = Page()
        _look(options, "native", page)
        if not page.kernels:
            message = f"{options.file} runs no kernel that could be explained"
            raise FinchError("unknown name", message)
        page.write(os.path.basename(options.file), options.html)
    else:
        _look(options, "native", LOOKS[options.command]())
    return SUCCESS


def bench(options: Namespace) -> int:
    """`finch bench FILE`: how long its kernels take. The status is 1 if a reference has other results."""
    from finchlang.testing.compare_engines import compare, ways_of
    from finchlang.testing.data import Reference

    from .bench import Bench, report as bench_report, timed

    text, against, made, status = read_script(options.file), None, 0, SUCCESS
    seen = Bench(options.seconds, options.rules, options.profile)
    _look(options, "native", seen)
    if options.against:
        own = Reference(options.against, text, options.file, options.args)

        def once() -> float:
            start = time.perf_counter()
            own.call()
            return time.perf_counter() - start

        once()
        against, made = timed(once, options.seconds), own.made
        ways = ways_of(("native",), rules=options.rules)
        found = compare(text, options.file, args=options.args, ways=ways, against=options.against)
        if not found.agrees:
            write(found.report + "\n")
            status = USER_ERROR
    write(bench_report(seen, against, made) + "\n")
    return status


def trace(options: Namespace) -> int:
    """`finch trace FILE`: every rule that is applied, or with --count how often each."""
    from . import views
    from .trace import Chosen, Enough, StagedTrace, Trace

    if options.count:
        counts = (views.StagedCounts if options.staged else views.Counts)(options.all)
        _look(options, counts.engine, counts)
        print(counts.report())
        return SUCCESS
    with paged() as colours, suppress(Enough):
        chosen = Chosen.by(options, colours)
        if options.staged:
            _look(options, "native", StagedTrace(chosen))
        else:
            _look(options, "interpret", Trace(chosen))
        chosen.check_ran()
    return SUCCESS


def rules(options: Namespace) -> int:
    """`finch rules`: the names and statements of all rules, in order of priority."""
    from finchlang.functions.unit_rules import ALL

    for number, rule in enumerate(ALL, 1):
        print(f"{number} {rule.name}{' (derived)' if rule.is_derived else ''}")
        print(indent(dedent("    " + rule.statement).strip(), "    "), end="\n\n")
    return SUCCESS


def show(options: Namespace) -> int:
    """`finch show FILE NAME`: run the file, then print what `display(NAME)` does."""
    from finchlang.script.display import display_text, save_picture

    session = _look(options, "native")
    if options.name not in session:
        raise FinchError("unknown name", f"{options.file} binds no {options.name}")
    value = session[options.name]
    if options.png is not None:
        save_picture(options.png, value)
    write(display_text(value) + "\n")
    return SUCCESS


def diff(options: Namespace) -> int:
    """`finch diff FILE`: whether semantics and sets of rules agree on the file's data. A script on which
    they differ is reduced, with the stage to blame."""
    from finchlang.testing import compare_engines
    from finchlang.testing.apart import Comparer

    chosen: dict[str, Any] = {} if options.tolerance is None else {"tolerance": options.tolerance}
    text = read_script(options.file)
    if options.exhaustive is not None:
        from finchlang.testing.exhaustive import exhaustive

        seconds, done = 60 * (options.minutes or 1), []
        for covered in exhaustive(text, options.file, options.exhaustive, seconds, options.args):
            done.append(covered)
            if not options.json:
                write(f"{covered}\n")
                flush()
        if options.json:
            write(json.dumps([covered.json for covered in done]) + "\n")
        wrong = [covered for covered in done if covered.wrong]
        with Comparer(options.limit) as apart:
            for shown in [covered for covered in wrong if covered.text][:1]:
                _reduced(options, shown.text, shown.ways, apart, {})
        return USER_ERROR if wrong else SUCCESS
    choices = {name: getattr(options, name) for name in _CHOICES}
    engines, rules = options.engines or compare_engines.SEMANTICS, options.rules
    every = (w for r in rules for w in compare_engines.ways_of(engines, rules=r, **choices))
    ways = tuple(w for w in every if w.engine != "denote" or w.rules == rules[0])  # it has no rules
    chosen |= {"file": options.file, "args": options.args, "against": options.against}
    with Comparer(options.limit) as apart:
        if options.cases or options.formats == "any":
            return _cases(options, text, ways, apart, chosen)
        found = apart.compare(text, ways, **chosen)
        status = _compared(options, found)
        if status != SUCCESS and (options.seconds > 0 or options.save):
            _reduced(options, text, ways, apart, chosen)
        return status


def _cases(
    options: Namespace, text: str, ways: Sequence[Way], apart: Comparer, chosen: dict[str, Any]
) -> int:
    """Compare a script on generated data and formats; the shortest case that differs is reduced."""
    from finchlang.testing.cases import compare_cases

    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        if not options.json:
            write(f"{line}\n")
            flush()

    own = {name: getattr(options, name) for name in ("cases", "seed", "minutes")}
    is_any = options.formats == "any"
    counts, first = compare_cases(text, ways, apart, chosen, say, told, is_any=is_any, **own)
    if options.json:
        write(json.dumps({"cases": counts.total(), "counts": counts, "told": lines}) + "\n")
    else:
        said = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        write(f"{counts.total()} cases: {said}\n")
    if first is None:
        return SUCCESS
    if options.seconds > 0 or options.save:
        _reduced(options, *first, apart, chosen)
    return USER_ERROR


def replay(options: Namespace) -> int:
    """`finch replay FILE`: whether a saved script still differs, in the ways that its comments name."""
    from finchlang.testing.apart import Comparer
    from finchlang.testing.replay import against_in, ways_in

    text = read_script(options.file)
    given = {"file": options.file, "args": options.args, "against": against_in(text)}
    with Comparer(options.limit) as apart:
        return _compared(options, apart.compare(text, ways_in(text), **given))


def _compared(options: Namespace, found: Comparison) -> int:
    """Print a comparison and return the exit status. Raises the FinchError that all ways agree on."""
    for note in found.notes:
        tell(note)
    if options.json:
        errors = {way: str(error) for way, error in found.errors.items()}
        told = {"ways": found.engines, "agrees": found.agrees, "differences": found.differences}
        write(json.dumps({**told, "errors": errors, "allowed": dict(found.allowed)}) + "\n")
    elif found.agrees and found.errors:  # all ways agree that the program is wrong
        raise found.errors[found.engines[-1]]
    else:
        write(found.report + "\n")
    return USER_ERROR if found.errors or not found.agrees else SUCCESS


def _reduced(
    options: Namespace, text: str, ways: Sequence[Way], apart: Comparer, chosen: dict[str, Any]
) -> None:
    """Print or save, for `finch replay`, a script on which ways differ, reduced, with what is to blame."""
    from finchlang.testing.fuzz import small_text
    from finchlang.testing.replay import replay_text

    small, why = small_text(text, tuple(ways), options.seconds, apart, **chosen)
    if not str(why):
        return
    shown = replay_text(small, ways, str(why), options.against)
    if options.save:
        replace_text(options.save, shown)
    elif not options.json:
        write("\n" + shown)


def fuzz(options: Namespace) -> int:
    """`finch fuzz`: compare ways on generated scripts, until Ctrl-C; the status is 1 if any is found."""
    from finchlang.testing import fuzz as campaign

    names = ("minutes", "seed", "rules", "checked", "coverage", "metamorphic", "stop")
    chosen = {name: getattr(options, name) for name in (*names, "workers", "out")}
    cases = options.cases or (0 if options.minutes else 1000)
    is_shown = sys.stderr.isatty()

    def progress(text: str) -> None:
        if is_shown:
            print(f"\r{text}", end="", file=sys.stderr, flush=True)

    summary = campaign.fuzz(campaign.Options(cases=cases, **chosen), progress)
    progress("\n")
    write((summary.json if options.json else summary.report) + "\n")
    if summary.is_interrupted:
        return INTERRUPTED
    return USER_ERROR if summary.findings else SUCCESS


def _look(options: Namespace, engine: str, observer: Observer | None = None) -> Session:
    session = _session(options, engine, observer)
    session.run_file(options.file)
    return session


def fmt(options: Namespace) -> int:
    """`finch fmt FILE...`: format files, or with `--check` print the names of those that are not."""
    from finchlang.text.formatter import formatted

    status = SUCCESS
    for path in options.files:
        try:
            text = read_script(path, newline="")
            done = formatted(text, path)
            if "\r\n" in text:
                done = done.replace("\n", "\r\n")
            if options.check and done != text:
                write(f"{path}\n")
                status = USER_ERROR
            elif path == "-" and not options.check:
                write(done)
            elif done != text:
                replace_text(path, done)
        except FinchError as error:
            status = report(error)
    return status


def lsp(options: Namespace) -> int:
    from .glances import Glances

    glances = Glances()  # it imports the language while this process imports the protocol
    try:
        from .language_server import serve
    except ModuleNotFoundError as error:
        glances.stop()
        message = f"`finch lsp` needs {error.name}"
        raise FinchError("I/O", message, hint="pip install finchlang[editor]") from None
    serve(glances)
    return SUCCESS


def completion(options: Namespace) -> int:
    """`finch completion SHELL`: the shell's definitions, as in `eval "$(finch completion bash)"`."""
    script = files(__package__).joinpath(f"completion.{options.shell}").read_text("utf-8")
    print(script.replace("@COMMANDS@", " ".join(COMMANDS)), end="")
    return SUCCESS


_OWN = run, check, bench, trace, rules, show, diff, replay, fuzz, fmt, lsp, completion
FUNCTIONS: dict[str, Callable[[Namespace], int]] = {
    **dict.fromkeys(("normalize", "explain", "residual", "llvm", "asm"), look),
    **{function.__name__: function for function in _OWN},
}
