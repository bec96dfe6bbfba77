"""The trees of scripts, kept on disk as data, from which only nodes can be made. A script that is run again
needs neither grammar nor parser, which took a third of the time of `finch run` with compiled kernels."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

from finchlang.base.disk_cache import Coding, Others, default_cache, package_digest
from finchlang.base.errors import source_of
from finchlang.syntax import nodes as ast, traversal as trees, types
from finchlang.text.terminals import grammar

_CLASSES = [kind for kind in vars(ast).values() if isinstance(kind, type)]
KINDS: dict[str, Any] = {c.__name__: c for c in _CLASSES if issubclass(c, ast.Node)}
VALUES: Others = {
    "Nothing": (ast.Nothing, repr, {repr(v): v for v in (ast.MISSING, ast.NOTHING)}.__getitem__),
    "Pair": (types.Pair, list, lambda parts: types.Pair(*parts)),
}


@lru_cache(maxsize=256)
def script_of(text: str, name: str = "<input>") -> ast.Script:
    """The tree of a script that is to be run, as `parse_whole` gives it."""
    disk, key = default_cache(), _key(text)
    coding = Coding(KINDS, VALUES, [source_of(text, name)])
    with trees.EnoughFrames():
        found = coding.recall(disk, key) if disk and key else None
        if isinstance(found, ast.Script):
            return found
        from finchlang.text.parse import parse_whole

        script = parse_whole(text, name)
        if disk and key:
            coding.keep(disk, key, script)
    return script


def _key(text: str) -> str | None:
    try:
        whole = repr((text, grammar(), package_digest())).encode()
    except UnicodeEncodeError:
        return None
    return f"script-{hashlib.sha256(whole).hexdigest()}"
