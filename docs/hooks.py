"""Pages of the site that are made when it is built: from the grammar's folder, the operator table, the
texts of errors, and pictures that programs of the gallery draw. Nothing of them is written twice."""

from __future__ import annotations

import inspect
import re
import runpy
import sys
from collections.abc import Iterator
from itertools import takewhile
from os.path import normpath
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # a build without an installation
COPIED = ("CHANGELOG.md", "examples/README.md", "grammar/REFERENCE.md", "grammar/MANUAL.md")


def on_files(files: Files, config: Any) -> Files:
    """MkDocs asks for this once the files of `docs/` are found."""
    made: dict[str, str | bytes] = {name: (ROOT / name).read_text("utf-8") for name in COPIED}
    made |= {"operators.md": operators(), "errors.md": errors(), "api.md": api()}
    made |= gallery() | lowerings()
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links to what is in the project and not on the site become names; pictures are drawn."""
    markdown = with_pictures(markdown)

    def kept(found: re.Match[str]) -> str:
        path = found[2].partition("#")[0]
        target = normpath(Path(page.file.src_uri).parent / path) if path else page.file.src_uri
        is_there = "://" in path or not path or files.get_file_from_path(target) is not None
        return found[0] if is_there else found[1]

    markdown = re.sub(r"^\|.*\|$", bare_bars, markdown, flags=re.MULTILINE)
    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", kept, markdown)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Short code in tables stays in one line; longer code goes on after a sign, and not within a word."""

    def laid(code: re.Match[str]) -> str:
        if len(code[1]) <= 12:
            return f'<code class="whole">{code[1]}</code>'
        return (
            "<code>" + re.sub(r"(?<=[(,_/])(?=\w)|(?<=\.)(?=[a-z])", "<wbr>", code[1]) + "</code>"
        )

    def row(cell: re.Match[str]) -> str:
        return re.sub(r"<code>([^<]+)</code>", laid, cell[0])

    return re.sub(r"<td\b.*?</td>", row, html, flags=re.DOTALL)


def bare_bars(row: re.Match[str]) -> str:
    """A row of a table without escapes before bars in code, which GitHub needs and MkDocs shows."""
    return re.sub(r"`[^`]+`", lambda code: code[0].replace("\\|", "|"), row[0])


# ---------------------------------------------------------------------------------------- pictures


def with_pictures(markdown: str) -> str:
    """A page with a picture in place of each `<!-- picture: NAME TENSOR... -->`: the tensor itself if NAME
    is `tensor`, else a picture of `pictures.py`. The programs of the page before it bind the tensors."""
    parts = re.split(r"^<!-- picture: ([\w ]+) -->$", markdown, flags=re.MULTILINE)
    if len(parts) == 1:
        return markdown
    from finchlang import Session
    from finchlang.repl.tensor_picture import tensor_svg

    pictures = runpy.run_path(str(ROOT / "docs/pictures.py"))["PICTURES"] | {"tensor": tensor_svg}
    session, made = Session(output=lambda text: None), [parts[0]]
    for before, wanted, after in zip(parts[::2], parts[1::2], parts[2::2], strict=False):
        for program in re.findall(r"^```finch\n(.*?)^```$", before, re.MULTILINE | re.DOTALL):
            session.run(program)
        name, *tensors = wanted.split()
        drawn = pictures[name](*[session[tensor] for tensor in tensors])
        made += [f'\n<div class="drawn">{drawn}</div>\n', after]
    return "".join(made)


# --------------------------------------------------------------------------------------- operators


def operators() -> str:
    """The operator table with its laws, by the types that they are asked for."""
    from finchlang.operators.operator_table import OPERATORS
    from finchlang.text.manual import entries

    words = {name: entry for entry in entries() for name in entry.names}
    lines = [
        "# Operators and their laws",
        "",
        "Simplification uses these laws (SparseArray'21 section 4, Finch'25 section 5.6). They stand in",
        "`operator_table.py`, in the row of each operator.",
        "",
        "| law | it says |",
        "|---|---|",
        "| annihilator | if an argument is this value, so is the result; nothing else is computed |",
        "| identity | if an argument is this value, the result is the other argument |",
        "| of argument 2 | the law holds for that argument only |",
        "",
        "[Spaces](grammar/REFERENCE.md#spaces) has what follows for unions and intersections.",
        "",
        "| operator | what it is | laws |",
        "|---|---|---|",
    ]
    seen: set[int] = set()
    for name, row in OPERATORS.items():
        if id(row) in seen:
            continue
        seen.add(id(row))
        others = [f"`{n}`" for n, r in OPERATORS.items() if r is row]
        entry = words.get(name)
        said = entry.text.replace("\n", " ") if entry else ""
        lines.append("| " + " | ".join(map(_cell, (" ".join(others), said, _laws(row)))) + " |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _laws(row: Any) -> str:
    flags = ("commutative", "associative", "idempotent", "right_idempotent", "involution")
    found = [flag for flag in flags if getattr(row, flag)]
    found += [
        f"identity {told}"
        for told in _told([row.identity] if row.identity else [], row.first_counts)
    ]
    found += [f"annihilator {told}" for told in _told(row.annihilators, row.first_counts)]
    found += [f"over `{other}`" for other in row.distributes_over or ()]
    return "; ".join(found)


def _told(laws: Any, of_pairs: bool) -> Iterator[str]:
    """Each law with the argument that it is about; of floats if there is one, else of integers or Bools."""
    from finchlang.script.show import text
    from finchlang.syntax.types import Bool, Float64, Int64, pair_of

    for law in laws:
        kinds = [pair_of(Float64, Int64)] if of_pairs else [Float64, Int64, Bool]
        kind = next((t for t in kinds if law.value(t) is not None), None)
        if kind is None:
            continue
        if kind is Float64 and law.value(kind) == law.value(Int64):
            kind = Int64  # bits have no value as a float
        result = None if law.result is None else law.result(kind)
        told = f"`{text(law.value(kind))}`" + (f" of argument {law.at}" if law.at else "")
        yield told + (f" (gives `{text(result)}`)" if result is not None else "")


# ------------------------------------------------------------------------------------------ errors


def errors() -> str:
    """Kinds of errors as the reference has them, and for each mistakes by what is said of them."""
    text = (ROOT / "grammar/REFERENCE.md").read_text("utf-8")
    kinds = text.split("\n## Errors\n", 1)[1].split("\n## ")[0].strip()
    lines = ["# Errors", "", kinds, ""]
    lines += ["Below, each mistake is run by the tests; the caret stands under the culprit.", ""]
    for kind, when in re.findall(r"^\| (.+) \| (.+) \|$", kinds, re.MULTILINE)[1:]:
        found = sorted((said, *mistake) for said, *mistake in mistakes() if mistake[0] == kind)
        lines += [f"## {kind}", "", f"{when[0].upper()}{when[1:]}.", ""] if found else []
        before = None
        for said, _, program, message in found:
            lines += ["", f"### {said}", ""] if said != before else []
            lines += ["```finch", program, "```", "```text", message, "```", ""]
            before = said
    return "\n".join(lines)


def mistakes() -> Iterator[tuple[str, str, str, str]]:
    """The mistakes of the tests: what is said in short, the kind, the program, and the whole message."""
    for path in sorted((ROOT / "tests/golden/mistakes").glob("*.txt")):
        program, *messages = path.read_text("utf-8").rstrip("\n").split("\n-----\n")
        for rest in messages:
            message, _, following = rest.partition("\n\n")
            found = re.split(r":\d+:\d+: | error: ", message.split("\n")[0], maxsplit=2)
            if len(found) == 3:  # others are notes
                yield found[2], found[1], program, message
            program = following


# --------------------------------------------------------------------------------------------- api


def api() -> str:
    """The public names of the packages, whose docstrings are shown."""
    import finchlang
    import finchlang.array

    lines = ["# Python", "", inspect.getdoc(finchlang) or "", "", "## `finchlang`", ""]
    for name in finchlang.__all__:
        if not name.startswith("__"):
            lines += [f"::: {_path(getattr(finchlang, name))}", ""]
    lines += ["## `finchlang.array`", "", inspect.getdoc(finchlang.array) or "", ""]
    lines += ["| function | |", "|---|---|"]
    for name in sorted(finchlang.array.__all__):
        function = getattr(finchlang.array, name)
        if inspect.isfunction(function) and not name.startswith("__"):
            said = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
            call = f"{name}{inspect.signature(function)}"
            call = re.sub(r": ('?[\w.\[\], |]+'?)(?= =|,|\))|( ->.*)", "", call)
            lines.append(f"| `{_cell(call)}` | {_cell(said)} |")
    return "\n".join(lines) + "\n"


def _path(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


# ----------------------------------------------------------------------------------------- gallery


#: examples that are in the gallery, too: their titles, and the tensors that are drawn
EXAMPLES = {
    "spgemm": (
        "Friends of friends",
        {"A": "who is friends with whom", "C": "who shares a friend: the product"},
    ),
    "erosion": (
        "Erosion and dilation",
        {"image": "the image", "eroded": "eroded", "dilated": "dilated"},
    ),
    "convolution": (
        "A convolution where there is something",
        {"A": "where the image has entries, as has the result", "F": "the filter"},
    ),
}


def gallery() -> dict[str, str | bytes]:
    """The page of pictures, and these: each `# picture:` of a program in `docs/gallery` names a tensor
    that is drawn when it has run, by its values if it is dense, else where it stores something."""
    from finchlang import Session

    made: dict[str, str | bytes] = {}
    lines = [
        "# Gallery",
        "",
        "Each picture is made by the program beside it when this page is built.",
    ]
    for path, title, said, shown in shows():
        session = Session(output=lambda text: None)
        session.run_file(path)
        lines += ["", f"## {title}", "", *said, "", '<div class="gallery" markdown>', ""]
        for name, caption in shown.items():
            picture = f"gallery/{path.stem}_{name}.png"
            made[picture] = drawn(session[name])
            lines += [
                f"<figure markdown>![{caption}]({picture})<figcaption>{caption}</figcaption></figure>"
            ]
            lines += [""]
        program = path.read_text("utf-8").split("\n")
        while program[0].startswith("#"):
            del program[0]
        lines += ["</div>", "", "```finch", "\n".join(program).strip(), "```"]
    return made | {"gallery.md": "\n".join(lines) + "\n"}


def shows() -> Iterator[tuple[Path, str, list[str], dict[str, str]]]:
    """Each program of the gallery, its title, what its first lines say, and what is drawn, with words."""
    paths = [*sorted((ROOT / "docs/gallery").glob("*.finch"))]
    for path in [*paths, *(ROOT / f"examples/{name}.finch" for name in EXAMPLES)]:
        header = [*takewhile(lambda line: line[:1] == "#", path.read_text("utf-8").split("\n"))]
        said = [line[2:] for line in header if not line.startswith("#  ")]
        if path.stem in EXAMPLES:
            yield path, EXAMPLES[path.stem][0], said, EXAMPLES[path.stem][1]
            continue
        pictures = [line[9:].split(", ", 1) for line in said if line.startswith("picture: ")]
        said = [line for line in said if not line.startswith("picture: ")]
        yield path, said[0], said[1:], {name: caption for name, caption in pictures}


def lowerings() -> dict[str, str | bytes]:
    """Examples as pages to step through, which `howto/step.md` shows."""
    from finchlang import Session
    from finchlang.repl.recording import Page

    made: dict[str, str | bytes] = {}
    for name, rules in (("upper_triangle", "paper"), ("spmv", "all"), ("spgemm", "all")):
        page = Page()
        session = Session(rules=rules, output=lambda text: None, observer=page)
        session.run_file(ROOT / f"examples/{name}.finch")
        made[f"lowering/{name}.html"] = page.text(f"{name}.finch")
    return made


def drawn(value: Any) -> bytes:
    """A PNG file: of a dense array its values, from least to greatest; else where something is stored."""
    import numpy as np

    from finchlang.script.display import grey_png, png

    if isinstance(value, np.ndarray) or value.dense_view() is not None:
        array = np.asarray(value if isinstance(value, np.ndarray) else value.to_numpy(), float)
        finite = array[np.isfinite(array)]
        low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
        scaled = np.nan_to_num((array - low) / max(high - low, 1e-300), posinf=1.0) * 255
        return grey_png(np.kron(scaled, np.ones((6, 6))).astype(np.uint8))
    return png(value)
