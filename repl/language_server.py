"""`finch lsp`: a language server with diagnostics of the checker, and completion and hover of the
manual."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Callable
from typing import Any, BinaryIO
from urllib.parse import unquote, urlparse

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from finchlang import __version__
from finchlang.base.errors import FinchError
from finchlang.text.formatter import formatted

from .highlight import KEYWORDS
from .manual import Entry, entries, words
from .outline import Binding, Outline

#: in seconds: a text is checked when no key has been pressed for PAUSE, and that may take ENOUGH
PAUSE, ENOUGH = 0.2, 10.0
#: the most bytes of a message
LARGEST = 1 << 27
_LENGTH = re.compile(rb"Content-Length: (\d+)\r\n$")
#: the diagnostic for a text that takes longer
TOO_LONG = {
    "kind": "resource",
    "message": "this takes too long to be looked over while it is typed",
    "hint": "`finch check` does that",
    "place": (1, 1, 1, 1),
}
KINDS = {
    "function": (lsp.CompletionItemKind.Function, lsp.SymbolKind.Function),
    "variable": (lsp.CompletionItemKind.Variable, lsp.SymbolKind.Variable),
    "parameter": (lsp.CompletionItemKind.Variable, lsp.SymbolKind.Variable),
    "index": (lsp.CompletionItemKind.Variable, lsp.SymbolKind.Variable),
}


class Glances:
    """The process that checks texts, one at a time; it is started again after one that takes too long."""

    def __init__(self) -> None:
        self.process: asyncio.subprocess.Process | None = None
        self.turn = asyncio.Lock()

    async def at(
        self, text: str, name: str, is_wanted: Callable[[], bool]
    ) -> dict[str, Any] | None:
        """The result of `short_values.look_at`; None if it takes too long, or is not wanted any more when
        its turn comes."""
        async with self.turn:
            if not is_wanted():
                return None
            if self.process is None:
                pipe = asyncio.subprocess.PIPE
                command = sys.executable, "-m", "finchlang.repl.short_values"
                self.process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=pipe,
                    stdout=pipe,
                    stderr=asyncio.subprocess.DEVNULL,
                    limit=1 << 24,
                )
            process = self.process
            assert process.stdin is not None and process.stdout is not None
            try:
                process.stdin.write(json.dumps({"text": text, "name": name}).encode() + b"\n")
                return json.loads(await asyncio.wait_for(process.stdout.readline(), ENOUGH))
            except (TimeoutError, OSError, ValueError):
                self.stop()
                return None

    def stop(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
        self.process = None


class Server(LanguageServer):
    """The language server, with what it knows of the open texts."""

    def __init__(self) -> None:
        super().__init__("finch", __version__)
        self.glances = Glances()
        self.waiting: dict[str, asyncio.Task] = {}
        self.names: dict[str, dict[str, str | None]] = {}  # by text, descriptions of its variables

    def changed(self, uri: str) -> None:
        """Check a text once no key has been pressed for a while."""
        if uri in self.waiting:
            self.waiting[uri].cancel()
        self.waiting[uri] = asyncio.ensure_future(self._look(uri))

    async def _look(self, uri: str) -> None:
        await asyncio.sleep(PAUSE)
        document = self.workspace.get_text_document(uri)
        version = document.version

        def is_wanted() -> bool:
            return self.workspace.get_text_document(uri).version == version

        # a check that has begun is not cancelled by a key: its answer must be read before the next one's
        looking = self.glances.at(document.source, path_of(uri), is_wanted)
        found = await asyncio.shield(looking)
        if not is_wanted():
            return
        if found is None:
            found = {"faults": [TOO_LONG], "names": {}}
        if found["names"] or not found["faults"]:  # if it does not parse, the old names are kept
            self.names[uri] = found["names"]
        diagnostics = [self.diagnostic(document, fault) for fault in found["faults"]]
        self.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(uri, diagnostics, version)
        )

    def diagnostic(self, document: TextDocument, fault: dict[str, Any]) -> lsp.Diagnostic:
        line, column, end_line, end_column = fault["place"]
        found = lsp.Range(
            lsp.Position(line - 1, column - 1),
            lsp.Position(end_line - 1, max(end_column - 1, column * (line == end_line))),
        )
        hint = f"\nhint: {fault['hint']}" if fault["hint"] else ""
        is_outside = fault["kind"] in ("I/O", "resource")  # it may work where the script is run
        severities = lsp.DiagnosticSeverity
        return lsp.Diagnostic(
            document.position_codec.range_to_client_units(document.lines, found),
            fault["message"] + hint,
            severities.Warning if is_outside else severities.Error,
            code=fault["kind"],
            source="finch",
        )

    def outline(self, uri: str) -> tuple[TextDocument, Outline]:
        document = self.workspace.get_text_document(uri)
        return document, Outline(document.source)

    def told(self, uri: str, binding: Binding, outline: Outline) -> str:
        """A line about a name: a function's signature, or a variable's value or kind."""
        line = outline.text.count("\n", 0, binding.at) + 1
        if binding.kind == "function":
            return signature(outline.text, binding)
        known = self.names.get(uri, {}).get(binding.name) if binding.scope.parent is None else None
        return (
            f"{binding.name}: {known}" if known else f"{binding.name}: {binding.kind}, line {line}"
        )


def path_of(uri: str) -> str:
    """The path of a file's URI, for messages and for files that are included; another URI itself."""
    parts = urlparse(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri


def signature(text: str, binding: Binding) -> str:
    """A function's definition up to the bracket after its parameters."""
    found = re.compile(r"[^()\n]*\((?:[^()]|\([^()]*\))*\)").match(text, binding.at)
    return re.sub(r"\s+", " ", found[0]) if found else binding.name


def range_of(document: TextDocument, at: int, end: int) -> lsp.Range:
    """A stretch of a text as a range of the protocol, in the units that the editor counts."""

    def position(offset: int) -> lsp.Position:
        line = document.source.count("\n", 0, offset)
        return lsp.Position(line, offset - document.source.rfind("\n", 0, offset) - 1)

    found = lsp.Range(position(at), position(end))
    return document.position_codec.range_to_client_units(document.lines, found)


def page_of(entry: Entry) -> str:
    example = entry.example + "".join(
        f"\n#> {line}" for line in (entry.output or "").split("\n") if line
    )
    return f"{coded(chr(10).join(entry.signatures))}\n{entry.text}\n\n{coded(example)}"


def coded(text: str) -> str:
    return f"```finch\n{text}\n```"


def completions(server: Server, uri: str, position: lsp.Position) -> list[lsp.CompletionItem]:
    """Completions at a place: the names that are visible there and the words of the language."""
    document, outline = server.outline(uri)
    offset = document.offset_at_position(position)
    word = re.search(r"@?\w*!?$", outline.text[:offset])
    start = word[0] if word else ""
    inside = outline.word_at(offset - 1)
    if inside is not None and inside.is_silent:
        return []
    found = {}
    for entry in entries():
        for name, written in zip(entry.names, entry.signatures, strict=True):
            if re.fullmatch(r"@?\w\w+!?", name) and name.startswith(start):
                kind = lsp.CompletionItemKind.Function
                if name in KEYWORDS or name.startswith("@"):
                    kind = lsp.CompletionItemKind.Keyword
                elif name[0].isupper():
                    kind = lsp.CompletionItemKind.Class
                found[name] = lsp.CompletionItem(
                    name, kind=kind, detail=written, documentation=entry.text
                )
    for name, binding in outline.visible(offset).items():
        if name.startswith(start) and binding.at + len(name) != offset:
            told = server.told(uri, binding, outline)
            found[name] = lsp.CompletionItem(name, kind=KINDS[binding.kind][0], detail=told)
    if start.startswith("@"):  # editors differ in whether `@` is part of the word
        place = range_of(document, offset - len(start), offset)
        for name, item in found.items():
            item.text_edit = lsp.TextEdit(place, name)
    return [found[name] for name in sorted(found)]


def hover(server: Server, uri: str, position: lsp.Position) -> lsp.Hover | None:
    """Text about the word at a place: a variable's value, a function's signature and comment, or the
    manual's entry."""
    document, outline = server.outline(uri)
    offset = document.offset_at_position(position)
    word = outline.word_at(offset)
    if word is None or word.is_silent:
        return None
    binding = outline.visible(offset).get(word.text) if word.is_name else None
    if binding is not None:
        comment = outline.comment_before(binding.at) if binding.kind == "function" else ""
        page = f"{coded(server.told(uri, binding, outline))}\n{comment}"
    elif word.text in words():
        page = page_of(words()[word.text])
    elif word.text.startswith("<<") and "<<op>>=" in words():
        page = page_of(words()["<<op>>="])
    else:
        return None
    content = lsp.MarkupContent(lsp.MarkupKind.Markdown, page.strip())
    return lsp.Hover(content, range_of(document, word.at, word.end))


def definition(server: Server, uri: str, position: lsp.Position) -> lsp.Location | None:
    document, outline = server.outline(uri)
    offset = document.offset_at_position(position)
    word = outline.word_at(offset)
    binding = outline.visible(offset).get(word.text) if word is not None and word.is_name else None
    if binding is None:
        return None
    return lsp.Location(uri, range_of(document, binding.at, binding.at + len(binding.name)))


def symbols(server: Server, uri: str) -> list[lsp.DocumentSymbol]:
    """The functions and variables of a text, each at its first binding."""
    document, outline = server.outline(uri)
    found: dict[str, lsp.DocumentSymbol] = {}
    for binding in sorted(outline.bindings, key=lambda b: b.at):
        if binding.scope.parent is None and binding.name not in found:
            place = range_of(document, binding.at, binding.at + len(binding.name))
            detail = server.told(uri, binding, outline)
            kind = KINDS[binding.kind][1]
            found[binding.name] = lsp.DocumentSymbol(binding.name, kind, place, place, detail)
    return list(found.values())


def formatting(server: Server, uri: str) -> list[lsp.TextEdit] | None:
    """An edit that formats the text as `finch fmt` does; None if it does not parse."""
    document = server.workspace.get_text_document(uri)
    try:
        done = formatted(document.source)
    except FinchError:
        return None
    return [lsp.TextEdit(range_of(document, 0, len(document.source)), done)]


class Messages:
    """The editor's stream of messages. A message whose header tells of more than LARGEST bytes is skipped
    up to the header of the next: no memory is allocated for it, and its end is not waited for."""

    def __init__(self, stream: BinaryIO):
        self.stream = stream
        self.read, self.close = stream.read, stream.close

    def readline(self) -> bytes:
        line = self.stream.readline(LARGEST)
        header = _LENGTH.search(line)  # it may follow the rest of a skipped message
        if header is None:
            return line
        is_too_large = len(header[1]) > 18 or int(header[1]) > LARGEST
        return b"Content-Length: -\r\n" if is_too_large else header[0]


def serve() -> None:
    """Serve the editor on standard input and output until it leaves."""
    server = Server()

    @server.feature(lsp.INITIALIZE)
    def initialize(params: lsp.InitializeParams) -> None:
        root = path_of(params.root_uri) if params.root_uri else ""
        if os.path.isdir(root):  # scripts find their data relative to the project's folder
            os.chdir(root)

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        server.changed(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        server.changed(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        if uri in server.waiting:
            server.waiting.pop(uri).cancel()
        server.names.pop(uri, None)
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=["@"]))
    def complete(params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        return completions(server, params.text_document.uri, params.position)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hovered(params: lsp.HoverParams) -> lsp.Hover | None:
        return hover(server, params.text_document.uri, params.position)

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def defined(params: lsp.DefinitionParams) -> lsp.Location | None:
        return definition(server, params.text_document.uri, params.position)

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def listed(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        return symbols(server, params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def format(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit] | None:
        return formatting(server, params.text_document.uri)

    # copies of the streams, which the server closes; anything else that is printed goes to standard error
    own, out = Messages(os.fdopen(os.dup(0), "rb")), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        server.start_io(own, out)  # type: ignore[arg-type]
    finally:
        server.glances.stop()
