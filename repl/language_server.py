"""`finch lsp`: a language server with diagnostics of the checker, and completion and hover of the
manual."""

from __future__ import annotations

import os
import re
from typing import Any, BinaryIO

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.workspace import TextDocument

from finchlang.base.errors import FinchError

from .editor_state import Server, path_of, signature
from .glances import Glances
from .highlight import KEYWORDS
from .manual import Entry, entries, words
from .renaming import nameable, renamed

#: the most bytes of a message
LARGEST = 1 << 27
_LENGTH = re.compile(rb"Content-Length: (\d+)\r\n$")
KINDS = {
    "function": (lsp.CompletionItemKind.Function, lsp.SymbolKind.Function),
    "variable": (lsp.CompletionItemKind.Variable, lsp.SymbolKind.Variable),
    "parameter": (lsp.CompletionItemKind.Variable, lsp.SymbolKind.Variable),
    "index": (lsp.CompletionItemKind.Variable, lsp.SymbolKind.Variable),
}


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


def references(
    server: Server, uri: str, position: lsp.Position, is_all: bool
) -> list[lsp.Location]:
    """The places of the name at a place; without those that bind it, unless `is_all`."""
    document, outline = server.outline(uri)
    word = outline.name_at(document.offset_at_position(position))
    found = [] if word is None else outline.references(word)
    binding = {b.at for b in outline.bindings} if not is_all else set()
    return [
        lsp.Location(uri, range_of(document, w.at, w.end)) for w in found if w.at not in binding
    ]


def rename(server: Server, uri: str, position: lsp.Position, name: str | None = None) -> Any:
    """The edits that give the name at a place another; without one, the place of the name. Raises the
    protocol's error if that cannot be."""
    document, outline = server.outline(uri)
    offset = document.offset_at_position(position)
    try:
        if name is None:
            word = nameable(outline, offset)
            return range_of(document, word.at, word.end)
        found = renamed(outline, offset, name)
    except FinchError as error:
        hint = f" ({error.hint})" if error.hint else ""
        code = lsp.LSPErrorCodes.RequestFailed.value
        raise JsonRpcException(error.message + hint, code) from None
    edits = [lsp.TextEdit(range_of(document, w.at, w.end), name) for w in found]
    return lsp.WorkspaceEdit(changes={uri: edits})


def signature_help(server: Server, uri: str, position: lsp.Position) -> lsp.SignatureHelp | None:
    """The signatures of the function whose arguments are typed, with the argument at hand."""
    document, outline = server.outline(uri)
    offset = document.offset_at_position(position)
    call = outline.call_around(offset)
    if call is None:
        return None
    binding, entry = outline.visible(offset).get(call[0]), words().get(call[0])
    if binding is not None:
        said = outline.comment_before(binding.at)
        shown = [signature(outline.text, binding)] if binding.kind == "function" else []
    else:
        said = entry.text if entry is not None else ""
        shown = [s for s in entry.signatures if s.startswith(f"{call[0]}(")] if entry else []
    found = []
    for text in shown:
        inside = text.partition("(")[2].rpartition(")")[0]
        arguments = [part.strip() for part in re.split(r"[,;]", inside) if part.strip()]
        parameters = [lsp.ParameterInformation(argument) for argument in arguments]
        found.append(lsp.SignatureInformation(text, said, parameters, call[1]))
    return lsp.SignatureHelp(found, 0, call[1]) if found else None


def inlay_hints(server: Server, uri: str, lines: range) -> list[lsp.InlayHint]:
    """Kinds of variables, at their first binding, and what was found of kernels, if the text has not
    changed since."""
    document, outline = server.outline(uri)
    version, of_kernels = server.hints.get(uri, (None, []))
    if version != document.version:
        return []
    placed: list[Any] = list(map(tuple, of_kernels))
    first = {b.name: b for b in reversed(outline.bindings) if b.scope.parent is None}
    for name, told in server.names.get(uri, {}).items():
        if told and name in first and first[name].kind == "variable":
            at = first[name].at + len(name)
            column = at - outline.text.rfind("\n", 0, at)
            said = re.sub(r"(\w+) \(.*\)", r"\1", told)  # of a number without its value
            placed.append((outline.text.count("\n", 0, at) + 1, column, f": {said}", told))
    found = []
    for line, column, label, tip in sorted(placed):
        place = lsp.Position(line - 1, column - 1)
        place = document.position_codec.position_to_client_units(document.lines, place)
        kind = lsp.InlayHintKind.Type if label.startswith(":") else None
        if line - 1 in lines:
            pads = kind is None
            found.append(lsp.InlayHint(place, label, kind, None, tip or None, pads, pads))
    return found


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
    from finchlang.text.formatter import formatted

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


def serve(glances: Glances) -> None:
    """Serve the editor on standard input and output until it leaves."""
    server = Server(glances)

    @server.feature(lsp.INITIALIZE)
    def initialize(params: lsp.InitializeParams) -> None:
        root = path_of(params.root_uri) if params.root_uri else ""
        if os.path.isdir(root):  # scripts find their data relative to the project's folder
            os.chdir(root)

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        server.changed(params.text_document.uri, 0.0)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        server.changed(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        if uri in server.waiting:
            server.waiting.pop(uri).cancel()
        server.names.pop(uri, None)
        server.hints.pop(uri, None)
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

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def referred(params: lsp.ReferenceParams) -> list[lsp.Location]:
        is_all = params.context.include_declaration
        return references(server, params.text_document.uri, params.position, is_all)

    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    def prepared(params: lsp.PrepareRenameParams) -> Any:
        return rename(server, params.text_document.uri, params.position)

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    def named(params: lsp.RenameParams) -> Any:
        return rename(server, params.text_document.uri, params.position, params.new_name)

    @server.feature(lsp.TEXT_DOCUMENT_SIGNATURE_HELP, lsp.SignatureHelpOptions(["(", ","]))
    def helped(params: lsp.SignatureHelpParams) -> lsp.SignatureHelp | None:
        return signature_help(server, params.text_document.uri, params.position)

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    def hinted(params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        lines = range(params.range.start.line, params.range.end.line + 1)
        return inlay_hints(server, params.text_document.uri, lines)

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
        glances.stop()
