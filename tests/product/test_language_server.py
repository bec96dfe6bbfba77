"""`finch lsp`, as an editor talks to it: one server, and all that is asked of it while a text is typed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from finchlang import FinchError
from finchlang.repl.outline import Outline, renamed

TEXT = """\
# The sum of each row.
function sums(M, n)
    y = Tensor(Dense(Element(0.0)), n)
    @finch begin
        y .= 0
        for j = _, i = _
            y[i] += M[i, j]
        end
    end
    return y
end
ρ = "ρ 🙂"; A = Tensor(Dense(SparseList(Element(0.0))), [1.0 0.0 2.0; 0.0 3.0 0.0])
r = sums(A, 2)
println(sqrt(r[1]))
"""


class Client:
    """An editor: asks, and keeps what it is told meanwhile."""

    def __init__(self, root: Path):
        command = [sys.executable, "-m", "finchlang.repl", "lsp"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.uri = (root / "sums.finch").as_uri()
        self.numbers = count(1)
        self.version = 0
        capabilities = {"general": {"positionEncodings": ["utf-16"]}}
        params = {"processId": None, "rootUri": root.as_uri(), "capabilities": capabilities}
        self.capabilities = self.ask("initialize", params)["capabilities"]
        self.say("initialized", {})

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        out = self.process.stdout
        assert out is not None
        size = 0
        while line := out.readline().strip():
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        return json.loads(out.read(size))

    def say(self, method: str, params: Any) -> None:
        self.send({"method": method, "params": params})

    def ask(self, method: str, params: Any) -> Any:
        answer = self.answer(method, params)
        assert "error" not in answer, answer
        return answer["result"]

    def answer(self, method: str, params: Any) -> dict[str, Any]:
        number = next(self.numbers)
        self.send({"id": number, "method": method, "params": params})
        while (answer := self.receive()).get("id") != number or "method" in answer:
            pass
        return answer

    def places(self, line: int, character: int) -> list[tuple[int, int]]:
        place = {"line": line - 1, "character": character - 1}
        params = {"textDocument": {"uri": self.uri}, "position": place}
        context = {"context": {"includeDeclaration": True}}
        found = self.ask("textDocument/references", params | context)
        starts = [f["range"]["start"] for f in found]
        return [(s["line"] + 1, s["character"] + 1) for s in starts]

    def rename(self, line: int, character: int, name: str) -> int | str:
        """How many places are changed, or why none."""
        place = {"line": line - 1, "character": character - 1}
        params = {"textDocument": {"uri": self.uri}, "position": place, "newName": name}
        answer = self.answer("textDocument/rename", params)
        if "error" in answer:
            return answer["error"]["message"]
        return len(answer["result"]["changes"][self.uri])

    def at(self, method: str, line: int, character: int) -> Any:
        place = {"line": line - 1, "character": character - 1}
        options = {"tabSize": 4, "insertSpaces": True}
        params = {"textDocument": {"uri": self.uri}, "position": place, "options": options}
        return self.ask(f"textDocument/{method}", params)

    def open(self, text: str) -> None:
        document = {"uri": self.uri, "languageId": "finch", "version": 0, "text": text}
        self.say("textDocument/didOpen", {"textDocument": document})

    def type(self, text: str) -> None:
        self.version += 1
        document = {"uri": self.uri, "version": self.version}
        changes = [{"text": text}]
        params = {"textDocument": document, "contentChanges": changes}
        self.say("textDocument/didChange", params)

    def faults(self) -> list[tuple[int, int, str]]:
        """What is wrong with the text as it is now: lines, columns and messages."""
        while True:
            told = self.receive()
            if told.get("method") == "textDocument/publishDiagnostics":
                params = told["params"]
                if params.get("version", self.version) == self.version:
                    break
        found = [(d["range"]["start"], d["message"]) for d in params["diagnostics"]]
        return [(p["line"] + 1, p["character"] + 1, message) for p, message in found]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    yield from talking(tmp_path)


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """One for several tests, with a text that each replaces by its own."""
    for client in talking(tmp_path_factory.mktemp("editor")):
        client.open("")
        yield client


def talking(root: Path) -> Iterator[Client]:
    client = Client(root)
    yield client
    client.ask("shutdown", None)
    client.say("exit", None)
    assert client.process.wait(120) == 0
    client.process.communicate()


def test_an_editor(client: Client) -> None:
    client.open(TEXT)
    assert client.faults() == []

    def hover(line: int, column: int) -> str:
        found = client.at("hover", line, column)
        return found["contents"]["value"] if found else ""

    # of variables size and format, as far as they are known without running kernels
    column = TEXT.split("\n")[11].index("A = ") + 2  # a smiley is two of what editors count
    assert "A: 2x3 Tensor(Dense(SparseList(Element(0.0))))" in hover(12, column)
    assert "r: Tensor(Dense(Element(0.0)))" in hover(13, 1)
    assert hover(13, 5) == "```finch\nsums(M, n)\n```\nThe sum of each row."
    assert "sqrt(x)" in hover(14, 10) and "#>" in hover(14, 10)
    assert "A kernel" in hover(4, 7) and "for" in hover(6, 9)
    assert "y: variable, line 3" in hover(7, 13) and "j: index, line 6" in hover(7, 26)
    assert hover(1, 5) == hover(12, 6) == ""

    assert client.at("definition", 13, 5)["range"]["start"] == {"line": 1, "character": 9}
    assert client.at("definition", 7, 23)["range"]["start"] == {"line": 5, "character": 19}
    assert client.at("definition", 13, 10)["range"]["start"] == {
        "line": 11,
        "character": column - 1,
    }
    assert client.at("definition", 14, 10) is None

    symbols = client.at("documentSymbol", 1, 1)
    assert [s["name"] for s in symbols] == ["sums", "ρ", "A", "r"]

    # several faults at once, each where it is; what follows from one is none
    wrong = 'x = zeros(3)\ny = sqqrt(2)\nz = y + 1\n"🙂"; v = nothere\n'
    wrong += "@finch for i = _; x[i, i] += 1 end\nfor i = 1:1000000000000 w = i end\n"
    wrong += "@finch for i = _; x[i] += unknown[i] end\n"
    client.type(wrong)
    faults = client.faults()
    assert [fault[:2] for fault in faults] == [(2, 5), (4, 11), (5, 19), (7, 27)]
    assert "did you mean" in faults[0][2]

    client.type("x = 1 +* 2\ny = 3\nfor z in 1:2\n    x y\nend\n")
    assert [fault[:2] for fault in client.faults()] == [(1, 8), (4, 7)]

    # while a word is typed
    client.type(TEXT + "sq")
    assert [item["label"] for item in client.at("completion", 15, 3)][:1] == ["sqrt"]
    client.type(TEXT + "@fi")
    (item,) = client.at("completion", 15, 4)
    assert item["label"] == "@finch" and item["textEdit"]["range"]["start"]["character"] == 0
    client.type(TEXT.replace("return y", "M"))
    inside = {item["label"]: item["detail"] for item in client.at("completion", 10, 6)}
    assert "parameter" in inside["M"]
    client.type(TEXT)
    assert client.faults() == []
    client.type(TEXT + "f(x) = (x")
    assert client.faults()[0][:2] == (15, 8)
    assert "A: 2x3 Tensor" in hover(12, column)  # of what was last in order

    client.type("x=1\nwhile true\nx+=1 end # for ever\n")
    assert client.faults() == []
    (edit,) = client.at("formatting", 1, 1)
    assert edit["newText"] == "x = 1\nwhile true\n    x += 1 end  # for ever\n"


@pytest.mark.parametrize("length", ["99999999999", "9" * 30, "9" * 5000])
def test_a_message_of_any_length_is_survived(client: Client, length: str) -> None:
    sent = client.process.stdin
    assert sent is not None
    sent.write(b"Content-Length: " + length.encode() + b"\r\n\r\n{}")
    client.open("x = 1 +* 2")
    assert client.faults()
    wrong = {"textDocument": 3, "position": "here"}
    assert client.answer("textDocument/hover", wrong)["error"]["message"] == "Invalid Params"


def test_what_a_loop_would_have_made_is_not_judged(client: Client) -> None:
    text = "x = [1]\nfor k = 1:3\n    x = vcat(x, x)\nend\ny = x[8]\n@assert y == 1\nz = nosuch\n"
    client.open(text)
    assert [line for line, *_ in client.faults()] == [7]


NAMES = """\
n = 3
k = 2
function f(x, y; scale = 1)
    s = x + y
    for k = 1:k
        s += k * scale
    end
    return s
end
println("$n and $(f(n, k)) 🙂 $k")
z = f(n, k; scale = n)
g(n) = n + k
w = [k * n for k in 1:n if k > 1]
A = Tensor(Dense(SparseList(Element(0.0))), 3, 3)
t = zeros(3)
@finch begin
    for j = _, i = _
        let n2 = A[i, j]
            t[i] += n2 * w[1]
        end
    end
end
"""


def test_names_and_their_scopes(editor: Client) -> None:
    editor.type(NAMES)
    assert editor.faults() == []
    # a parameter, an index, and a range of a loop are apart from a variable of the same name
    n = [(1, 1), (10, 11), (10, 21), (11, 7), (11, 21), (13, 10), (13, 23)]
    assert editor.places(1, 1) == editor.places(11, 21) == n
    k = [(2, 1), (5, 15), (10, 24), (10, 32), (11, 10), (12, 12)]
    assert editor.places(2, 1) == editor.places(5, 15) == k
    assert editor.places(5, 9) == [(5, 9), (6, 14)]
    assert editor.places(13, 6) == [(13, 6), (13, 16), (13, 28)]
    assert editor.places(12, 8) == [(12, 3), (12, 8)]
    assert editor.places(3, 10) == [(3, 10), (10, 19), (11, 5)]  # a function
    assert editor.places(17, 9) == [(17, 9), (18, 23)]  # an index of a kernel, and its names
    assert editor.places(18, 13) == [(18, 13), (19, 21)]
    assert editor.places(14, 1) == [(14, 1), (18, 18)]
    assert editor.places(15, 1) == [(15, 1), (19, 13)]
    assert editor.places(10, 15) == []  # a word in a string

    assert editor.rename(1, 1, "amount") == 7
    assert editor.rename(17, 16, "row") == 3
    assert editor.rename(14, 1, "matrix") == 2
    for line, column, name, why in [
        (1, 1, "while", "a word of the language"),
        (1, 1, "sum", "a word of the language"),
        (1, 1, "2n", "is no name"),
        (1, 1, "k", "`k` is taken"),
        (2, 1, "x", "`x` is taken"),  # where f has a parameter of that name
        (17, 9, "i", "`i` is taken"),
        (18, 13, "A", "`A` is taken"),
        (3, 18, "factor", "a keyword argument in line 11"),
        (10, 1, "say", "`println` is a word of the language"),
        (10, 15, "x", "no name"),
    ]:
        assert why in str(editor.rename(line, column, name)), (name, why)
    assert editor.at("prepareRename", 17, 9)["start"]["character"] == 8


def test_the_call_at_hand(editor: Client) -> None:
    editor.type(NAMES + "f(1, sum([2, 3]), sc")
    shown = editor.at("signatureHelp", 23, 21)
    assert shown["signatures"][0]["label"] == "f(x, y; scale = 1)"
    assert shown["activeParameter"] == 2
    inner = editor.at("signatureHelp", 23, 10)
    assert inner["signatures"][0]["label"].startswith("sum(")
    assert editor.at("signatureHelp", 1, 2) is None


def test_what_is_shown_of_kernels(editor: Client) -> None:
    text = (
        NAMES
        + "x = zeros(4)\n@finch for i = _; x[i] += t[i] end\n@finch for i = 1:3; t[i] += 1 end\n"
    )
    editor.type(text + "@finch begin t .= 0; for i = 1:9; t[i] += 1 end end\nt = zeros(9)\n")
    ((line, _, message),) = editor.faults()
    assert line == 24 and "dimension 1 of t is 1:3" in message
    end = {"line": 30, "character": 0}
    params = {
        "textDocument": {"uri": editor.uri},
        "range": {"start": {"line": 0, "character": 0}, "end": end},
    }
    hints = editor.ask("textDocument/inlayHint", params)
    shown = {(h["position"]["line"] + 1, h["position"]["character"] + 1): h["label"] for h in hints}
    assert shown[14, 2] == ": 3x3 Tensor(Dense(SparseList(Element(0.0))))"
    assert shown[17, 14] == "1:size(A, 2)" and shown[18, 15] == "::Float64"
    assert shown[18, 25] == "sparse i"
    labels = [h["label"] for h in hints]
    assert "order j → i" in labels and "sparse" not in str(shown.get((19, 17)))
    editor.type("\n" + text)  # until the text is checked again there are none
    assert editor.ask("textDocument/inlayHint", params) == []


def test_a_kernel_in_a_function_has_its_result(editor: Client) -> None:
    """It is looked at, not run; the function's result is then the tensor as it was."""
    editor.type((Path(__file__).parents[2] / "examples/erosion.finch").read_text("utf-8"))
    assert editor.faults() == []


#: texts in which the name that ‹› stand around is changed, there and nowhere else
RENAMED = (
    # parameters end with the function
    "‹x› = 1\ny = map(x -> x + 1, [‹x›, 2])\n",
    "‹x› = 1; f(x) = x; y = ‹x›\n",
    "‹x› = 1\nf(x) = begin\n    x\nend\n",
    "‹x› = 1\ng(x) = x +\n    x\n‹x›\n",
    "‹x› = 1\nf = (x, y) -> x * y\n",
    "(‹x›, y) = (1, 2)\n‹x›\n",
    "‹k› = 2\nv = map([‹k›]) do c; c * ‹k› end\n",
    "‹i› = 2\nfor i = 1:‹i› println(i) end\n",
    # an inner function assigns to the variable of the outer
    "function f(‹a›)\n    function g(b)\n        ‹a› = b\n    end\n    g(1)\nend\na = 5\n",
    # names in strings and behind numbers
    '‹x› = 1\n"$(a(b(c(d(‹x›))))) $‹x›! $(")" == ‹x›)"\n',
    "‹x› = 3\ny = 2‹x› + 1e5\n",
)


@pytest.mark.parametrize("marked", RENAMED)
def test_a_name_is_changed_where_it_means_the_same(marked: str) -> None:
    text = re.sub("[‹›]", "", marked)
    for word in reversed(renamed(Outline(text), marked.index("‹"), "n")):
        text = text[: word.at] + "n" + text[word.end :]
    assert text == re.sub("‹.›", "n", marked)


def test_a_let_hides_nothing() -> None:
    text = "x = 1\n@finch for i = _; let b = A[i]; y[i] += b end end\n"
    with pytest.raises(FinchError, match="is taken"):
        renamed(Outline(text), 0, "b")


def test_lines_end_as_the_protocol_says(editor: Client) -> None:
    """A form feed and U+2028 end no line for an editor; a carriage return alone does."""
    editor.type('x = "\x0c\u2028\r🙂"; z = x; nosuch\r\ny = x\n')
    assert editor.places(1, 1) == editor.places(2, 10) == [(1, 1), (2, 10), (3, 5)]
    assert editor.places(3, 1 << 30) == editor.places(1, 1)
    assert [fault[:2] for fault in editor.faults()] == [(2, 13)]
