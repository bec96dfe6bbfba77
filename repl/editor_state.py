"""The state of `finch lsp`: the open texts, and what is known of them."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import unquote, urlparse

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.workspace import TextDocument

from finchlang import __version__

from .glances import Glances
from .outline import Binding, Outline, outline_of

#: what ends a line of the protocol
_LINE_END = re.compile(r"\r\n|\r|\n")
#: a text is checked when no key has been pressed for so many seconds
PAUSE = 0.2
#: the diagnostic for a text that takes longer
TOO_LONG = {
    "kind": "resource",
    "message": "this takes too long to be looked over while it is typed",
    "hint": "`finch check` does that",
    "place": (1, 1, 1, 1),
}


class Protocol(LanguageServerProtocol):
    def structure_message(self, data: dict[str, Any]) -> Any:
        """A message as an object. A request with wrong parameters is answered, too."""
        try:
            return super().structure_message(data)
        except JsonRpcInvalidParams as error:
            if "id" in data and "method" in data:
                self._send_response(data["id"], error=error.to_response_error())
            raise


class Server(LanguageServer):
    """The language server, with what it knows of the open texts."""

    def __init__(self, glances: Glances) -> None:
        whole = lsp.TextDocumentSyncKind.Full
        super().__init__("finch", __version__, whole, protocol_cls=Protocol)
        self.glances = glances
        self.waiting: dict[str, asyncio.Task] = {}
        self.names: dict[str, dict[str, str | None]] = {}  # by text, descriptions of its variables
        self.hints: dict[str, tuple[int | None, list[Any]]] = {}  # by text, of its version

    def changed(self, uri: str, pause: float = PAUSE) -> None:
        """Check a text once no key has been pressed for a while."""
        if uri in self.waiting:
            self.waiting[uri].cancel()
        self.waiting[uri] = asyncio.ensure_future(self._look(uri, pause))

    def closed(self, uri: str) -> None:
        if uri in self.waiting:
            self.waiting.pop(uri).cancel()
        self.names.pop(uri, None)
        self.hints.pop(uri, None)
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    async def _look(self, uri: str, pause: float) -> None:
        await asyncio.sleep(pause)
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
            found = {"faults": [TOO_LONG], "names": {}, "hints": []}
        if found["names"] or not found["faults"]:  # if it does not parse, the old names are kept
            self.names[uri] = found["names"]
        self.hints[uri] = version, found["hints"]
        diagnostics = [self.diagnostic(document, fault) for fault in found["faults"]]
        params = lsp.PublishDiagnosticsParams(uri, diagnostics, version)
        self.text_document_publish_diagnostics(params)
        workspace = self.client_capabilities.workspace
        if workspace and workspace.inlay_hint and workspace.inlay_hint.refresh_support:
            self.workspace_inlay_hint_refresh(None)

    def diagnostic(self, document: TextDocument, fault: dict[str, Any]) -> lsp.Diagnostic:
        line, column, end_line, end_column = fault["place"]
        at = place_of(document.source, line, column)
        end = max(place_of(document.source, end_line, end_column), at + 1)
        hint = f"\nhint: {fault['hint']}" if fault["hint"] else ""
        is_outside = fault["kind"] in ("I/O", "resource")  # it may work where the script is run
        kinds, place, said = lsp.DiagnosticSeverity, range_of(document, at, end), fault["message"]
        severity = kinds.Warning if is_outside else kinds.Error
        return lsp.Diagnostic(place, said + hint, severity, code=fault["kind"], source="finch")

    def outline(self, uri: str) -> tuple[TextDocument, Outline]:
        document = self.workspace.get_text_document(uri)
        return document, outline_of(document.source)

    def place(self, params: Any) -> tuple[TextDocument, Outline, int]:
        """The text that a message is about, and the place in it."""
        document, outline = self.outline(params.text_document.uri)
        return document, outline, offset_of(document, params.position)

    def told(self, uri: str, binding: Binding, outline: Outline) -> str:
        """A line about a name: a function's signature, or a variable's value or kind."""
        line = outline.text.count("\n", 0, binding.at) + 1
        if binding.kind == "function":
            return signature(outline.text, binding)
        known = self.names.get(uri, {}).get(binding.name) if binding.scope.parent is None else None
        return f"{binding.name}: {known or f'{binding.kind}, line {line}'}"


def range_of(document: TextDocument, at: int, end: int) -> lsp.Range:
    """A stretch of a text as a range of the protocol, in the units that the editor counts."""
    return lsp.Range(position_of(document, at), position_of(document, end))


def position_of(document: TextDocument, offset: int) -> lsp.Position:
    ends = [found.end() for found in _LINE_END.finditer(document.source, 0, offset)]
    before = document.source[ends[-1] if ends else 0 : offset]
    return lsp.Position(len(ends), document.position_codec.client_num_units(before))


def offset_of(document: TextDocument, position: lsp.Position) -> int:
    """The place in a text; the end of the line, or of the text, if the position lies beyond it."""
    text = document.source
    ends = [found.span() for found in _LINE_END.finditer(text)]
    if position.line > len(ends):
        return len(text)
    at = ends[position.line - 1][1] if position.line else 0
    stop = ends[position.line][0] if position.line < len(ends) else len(text)
    units = 0
    while at < stop:
        units += document.position_codec.client_num_units(text[at])
        if units > position.character:
            break
        at += 1
    return at


def place_of(text: str, line: int, column: int) -> int:
    """The place of a line and column of the language, whose lines end with "\\n" alone."""
    before = text.split("\n")[: line - 1]
    return min(sum(map(len, before)) + len(before) + column - 1, len(text))


def path_of(uri: str) -> str:
    """The path of a file's URI, for messages and for files that are included; another URI itself."""
    parts = urlparse(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri


def signature(text: str, binding: Binding) -> str:
    """A function's definition up to the bracket after its parameters."""
    found = re.compile(r"[^()\n]*\((?:[^()]|\([^()]*\))*\)").match(text, binding.at)
    return re.sub(r"\s+", " ", found[0]) if found else binding.name
