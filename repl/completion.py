"""Completion by Tab: words of the manual, variables with their values, arguments, commands and paths."""

from __future__ import annotations

import re
from collections.abc import Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from finchlang.text.manual import named, signature_of, words

from .outline import Outline
from .prompt_session import Conversation

#: commands of the prompt whose argument is a path, a word of the manual, a variable
OF_PATHS, OF_WORDS, OF_NAMES = (":load", ":save", ":cd"), (":help", "?"), (":show",)
#: a line up to a string that is not closed, and the string
_STRING = re.compile(r'^(?:[^"\\]|\\.|"(?:[^"\\]|\\.)*")*"((?:[^"\\]|\\.)*)$')


class Completions(Completer):
    def __init__(self, conversation: Conversation):
        self.conversation = conversation

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterator[Completion]:
        line = document.current_line_before_cursor
        command, space, argument = line.partition(" ")
        if line.startswith("?"):
            command, space, argument = "?", " ", line[1:].lstrip()
        string = _STRING.match(line)
        if command in OF_PATHS and space:
            yield from paths(argument, event)
        elif command == ":engine" and space:
            from finchlang.testing.compare_engines import SEMANTICS

            yield from starting(argument, dict.fromkeys(SEMANTICS, ""))
        elif command in OF_WORDS and space:
            yield from starting(argument, {name: written for name, _, written in named()})
        elif command in OF_NAMES and space:
            yield from starting(argument, self.variables())
        elif line.startswith(":") and not space:
            of_prompt = {n: signature_of(n) for n in words() if n.startswith(":") and n != ":"}
            yield from starting(line, of_prompt)
        elif string is not None:
            yield from paths(string[1], event)
        else:
            yield from self.in_text(document.text_before_cursor)

    def in_text(self, text: str) -> Iterator[Completion]:
        found = re.search(r"@?\w*!?$", text)
        word = found[0] if found else ""
        called = Outline(text).call_around(len(text) - len(word))
        if called is not None:
            yield from self.arguments(called[0], word)
        if word:
            known = {name: written for name, _, written in named()} | self.variables()
            yield from starting(word, known, but=word)

    def variables(self) -> dict[str, str]:
        from .fit_to_screen import described

        session = self.conversation.session
        return {name: described(session[name]) for name in session.names()}

    def arguments(self, function: str, word: str) -> Iterator[Completion]:
        """The keyword arguments of a function, or its signature if there are none."""
        if function in self.conversation.session:
            signature = str(self.conversation.session[function])
        elif function in words():
            signature = signature_of(function)
        else:
            return
        keywords = re.findall(r"\w+", signature.partition(";")[2])
        yield from starting(word, {f"{k} = ": signature for k in keywords})
        if not word and not keywords:
            yield Completion("", display=signature)


def starting(word: str, known: dict[str, str], but: str = "") -> Iterator[Completion]:
    for name in sorted(known):
        if name.startswith(word) and name != but:
            yield Completion(name, start_position=-len(word), display_meta=known[name])


def paths(start: str, event: CompleteEvent) -> Iterator[Completion]:
    yield from PathCompleter(expanduser=True).get_completions(Document(start), event)
