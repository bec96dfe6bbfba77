"""The commands of `finch` by name, for the parser of command lines and for `commands.py`."""

from __future__ import annotations

from collections.abc import Sequence

from finchlang import __version__

BANNER = f"finchlang {__version__}"
#: the commands that take a file, with their other operands
OF_FILES: dict[str, Sequence[tuple[str, str]]] = {
    **dict.fromkeys(
        ("run", "check", "bench", "normalize", "explain", "trace", "residual", "llvm", "asm"), ()
    ),
    "show": [("name", "the variable the tensor is bound to in the end")],
    **dict.fromkeys(("diff", "replay"), ()),
}
#: the commands that `--watch` repeats when the file is saved
WATCHED = ("run", "check", "bench")
COMMANDS = (*OF_FILES, "fuzz", "fmt", "lsp", "rules", "completion")
