"""The trees of scripts, kept on disk as data, from which only nodes can be made. A script that is run again
needs neither the grammar nor its parser, which took a third of the time of `finch run` with compiled
kernels."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from functools import lru_cache
from typing import Any

from finchlang.base.disk_cache import DAMAGED, Coding, Others, default_cache, package_digest
from finchlang.base.errors import Source, source_of
from finchlang.syntax import nodes as ast, traversal as trees, types
from finchlang.text.terminals import grammar

KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.Node)
}
VALUES: Others = {
    "Nothing": (ast.Nothing, repr, {repr(v): v for v in (ast.MISSING, ast.NOTHING)}.__getitem__),
    "Pair": (types.Pair, list, lambda parts: types.Pair(*parts)),
}


@lru_cache(maxsize=256)
def script_of(text: str, name: str = "<input>") -> ast.Script:
    """The tree of a script that is to be run, as `parse_whole` gives it."""
    disk, source = default_cache(), source_of(text, name)
    key = None if disk is None else _key(text)
    if disk is not None and key is not None and (content := disk.get(key)) is not None:
        with suppress(*DAMAGED):
            return _script(content, source)
    from finchlang.text.parse import parse_whole

    script = parse_whole(text, name)
    if disk is not None and key is not None:
        with suppress(*DAMAGED):
            content = _content(script, source)
            found = _script(content, source)
            if found == script and _content(found, source) == content:
                disk.put(key, content)
    return script


def _key(text: str) -> str | None:
    try:
        whole = repr((text, grammar(), package_digest())).encode()
    except UnicodeEncodeError:
        return None
    return f"script-{hashlib.sha256(whole).hexdigest()}"


def _content(script: ast.Script, source: Source) -> bytes:
    """A script as JSON. Raises TypeError for a tree that no parser makes."""
    with trees.EnoughFrames():
        return json.dumps(_coding(source).plain(script), separators=(",", ":")).encode()


def _script(content: bytes, source: Source) -> ast.Script:
    """The script of some JSON. Raises one of many errors for other content."""
    with trees.EnoughFrames():
        return _coding(source).whole(json.loads(content))


def _coding(source: Source) -> Coding:
    return Coding(KINDS, VALUES, [source])
