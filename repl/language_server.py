"""`finch lsp`: a language server with the checker's diagnostics, and the manual's completion and hover."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

from finchlang.base.errors import FinchError
from finchlang.text.manual import Entry, named, words

from .editor_state import Server, path_of, place_of, position_of, range_of, signature
from .glances import Glances
from .highlight import KEYWORDS
from .outline import Binding, nameable, renamed

#: the most bytes of a message
LARGEST = 1 << 27
_LENGTH = re.compile(rb"Content-Length: (\d+)\r\n$")


def kind_in(kinds: Any, binding: Binding) -> Any:
    """What the protocol's list of kinds calls a function, or a variable, parameter or index."""
    return kinds.Function if binding.kind == "function" else kinds.Variable


def page_of(entry: Entry) -> str:
    shown = [f"#> {line}" for line in (entry.output or "").split("\n") if line]
    example = "\n".join([entry.example, *shown])
    return f"{coded(chr(10).join(entry.signatures))}\n{entry.text}\n\n{coded(example)}"


def coded(text: str) -> str:
    return f"```finch\n{text}\n```"


def completions(server: Server, params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
    """The names that are visible at a place and the words of the language."""
    document, outline, offset = server.place(params)
    word = re.search(r"@?\w*!?$", outline.text[:offset])
    start = word[0] if word else ""
    inside = outline.word_at(offset - 1)
    if inside is not None and inside.is_silent:
        return []
    found, kinds = {}, lsp.CompletionItemKind
    for name, entry, written in named():
        if name.startswith(start):
            kind = kinds.Class if name[0].isupper() else kinds.Function
            kind = kinds.Keyword if name in KEYWORDS or name.startswith("@") else kind
            found[name] = lsp.CompletionItem(name, kind=kind, detail=written)
            found[name].documentation = entry.text
    for name, binding in outline.visible(offset).items():
        if name.startswith(start) and binding.end != offset:
            told = server.told(document.uri, binding, outline)
            found[name] = lsp.CompletionItem(name, kind=kind_in(kinds, binding), detail=told)
    if start.startswith("@"):  # editors differ in whether `@` is part of the word
        place = range_of(document, offset - len(start), offset)
        for name, item in found.items():
            item.text_edit = lsp.TextEdit(place, name)
    return [found[name] for name in sorted(found)]


def hover(server: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    """Text about the word at a place: a variable's value, a function's head, the manual's entry."""
    document, outline, offset = server.place(params)
    word, binding = outline.bound_at(offset)
    if word is None or word.is_silent:
        return None
    if binding is not None:
        comment = outline.comment_before(binding.at) if binding.kind == "function" else ""
        page = f"{coded(server.told(document.uri, binding, outline))}\n{comment}"
    elif word.text in words():
        page = page_of(words()[word.text])
    elif word.text.startswith("<<") and "<<op>>=" in words():
        page = page_of(words()["<<op>>="])
    else:
        return None
    content = lsp.MarkupContent(lsp.MarkupKind.Markdown, page.strip())
    return lsp.Hover(content, range_of(document, word.at, word.end))


def definition(server: Server, params: lsp.DefinitionParams) -> lsp.Location | None:
    document, outline, offset = server.place(params)
    binding = outline.bound_at(offset)[1]
    if binding is None:
        return None
    return lsp.Location(document.uri, range_of(document, binding.at, binding.end))


def references(server: Server, params: lsp.ReferenceParams) -> list[lsp.Location]:
    """The places of the name at a place; without those that bind it, unless they are asked for."""
    document, outline, offset = server.place(params)
    word = outline.name_at(offset)
    found = [] if word is None else outline.references(word)
    binds = set() if params.context.include_declaration else {b.at for b in outline.bindings}
    places = [range_of(document, w.at, w.end) for w in found if w.at not in binds]
    return [lsp.Location(document.uri, place) for place in places]


def prepare_rename(server: Server, params: lsp.PrepareRenameParams) -> lsp.Range:
    """The place of the name that can be given another. Raises the protocol's error if none can."""
    document, outline, offset = server.place(params)
    with _refusals():
        word = nameable(outline, offset)
    return range_of(document, word.at, word.end)


def rename(server: Server, params: lsp.RenameParams) -> lsp.WorkspaceEdit:
    """The edits that give the name at a place another. Raises the protocol's error if that cannot be."""
    document, outline, offset = server.place(params)
    with _refusals():
        found = renamed(outline, offset, params.new_name)
    edits = [lsp.TextEdit(range_of(document, w.at, w.end), params.new_name) for w in found]
    return lsp.WorkspaceEdit(changes={document.uri: edits})


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except FinchError as error:
        hint = f" ({error.hint})" if error.hint else ""
        code = lsp.LSPErrorCodes.RequestFailed.value
        raise JsonRpcException(error.message + hint, code) from None


def signature_help(server: Server, params: lsp.SignatureHelpParams) -> lsp.SignatureHelp | None:
    """The signatures of the function whose arguments are typed, with the argument at hand."""
    document, outline, offset = server.place(params)
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


def inlay_hints(server: Server, params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
    """Kinds of variables where first bound, and what was found of kernels, if the text is the same."""
    document, outline = server.outline(uri := params.text_document.uri)
    lines = range(params.range.start.line, params.range.end.line + 1)
    version, of_kernels = server.hints.get(uri, (None, []))
    if version != document.version:
        return []
    text = outline.text
    placed = [(place_of(text, *at), label, tip) for *at, label, tip in of_kernels]
    first = {b.name: b for b in reversed(outline.bindings) if b.scope.parent is None}
    for name, told in server.names.get(uri, {}).items():
        if told and name in first and first[name].kind == "variable":
            said = re.sub(r"(\w+) \(.*\)", r"\1", told)  # of a number without its value
            placed.append((first[name].end, f": {said}", told))
    found = []
    for at, label, tip in sorted(placed):
        place = position_of(document, at)
        kind = lsp.InlayHintKind.Type if label.startswith(":") else None
        if place.line in lines:
            pads = kind is None
            found.append(lsp.InlayHint(place, label, kind, None, tip or None, pads, pads))
    return found


def symbols(server: Server, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
    """The functions and variables of a text, each at its first binding."""
    document, outline = server.outline(uri := params.text_document.uri)
    found: dict[str, lsp.DocumentSymbol] = {}
    for binding in sorted(outline.bindings, key=lambda b: b.at):
        if binding.scope.parent is None and binding.name not in found:
            place = range_of(document, binding.at, binding.end)
            kind = kind_in(lsp.SymbolKind, binding)
            detail = server.told(uri, binding, outline)
            found[binding.name] = lsp.DocumentSymbol(binding.name, kind, place, place, detail)
    return list(found.values())


def formatting(server: Server, params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit] | None:
    """An edit that formats the text as `finch fmt` does; None if it does not parse."""
    from finchlang.text.formatter import formatted

    document = server.workspace.get_text_document(params.text_document.uri)
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


def initialize(server: Server, params: lsp.InitializeParams) -> None:
    root = path_of(params.root_uri) if params.root_uri else ""
    if os.path.isdir(root):  # scripts find their data relative to the project's folder
        os.chdir(root)


def _of_text(do: Callable[..., None], *more: Any) -> Any:
    async def told(server: Server, params: Any) -> None:
        do(server, params.text_document.uri, *more)

    return told


#: what is done for each message of the protocol, and what the editor is told of that
FEATURES: dict[str, tuple[Callable[..., Any], Any]] = {
    lsp.INITIALIZE: (initialize, None),
    lsp.TEXT_DOCUMENT_DID_OPEN: (_of_text(Server.changed, 0.0), None),
    lsp.TEXT_DOCUMENT_DID_CHANGE: (_of_text(Server.changed), None),
    lsp.TEXT_DOCUMENT_DID_CLOSE: (_of_text(Server.closed), None),
    lsp.TEXT_DOCUMENT_COMPLETION: (completions, lsp.CompletionOptions(trigger_characters=["@"])),
    lsp.TEXT_DOCUMENT_HOVER: (hover, None),
    lsp.TEXT_DOCUMENT_DEFINITION: (definition, None),
    lsp.TEXT_DOCUMENT_REFERENCES: (references, None),
    lsp.TEXT_DOCUMENT_PREPARE_RENAME: (prepare_rename, None),
    lsp.TEXT_DOCUMENT_RENAME: (rename, lsp.RenameOptions(prepare_provider=True)),
    lsp.TEXT_DOCUMENT_SIGNATURE_HELP: (signature_help, lsp.SignatureHelpOptions(["(", ","])),
    lsp.TEXT_DOCUMENT_INLAY_HINT: (inlay_hints, None),
    lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL: (symbols, None),
    lsp.TEXT_DOCUMENT_FORMATTING: (formatting, None),
}


def serve(glances: Glances) -> None:
    """Serve the editor on standard input and output until it leaves."""
    server = Server(glances)
    for name, (function, options) in FEATURES.items():
        server.feature(name, options)(function)
    # copies of the streams, which the server closes; anything else that is printed goes to standard error
    own, out = Messages(os.fdopen(os.dup(0), "rb")), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        server.start_io(own, out)  # type: ignore[arg-type]
    finally:
        glances.stop()
