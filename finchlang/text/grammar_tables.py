"""The parser's LALR tables, kept between runs as JSON, which cannot run code when it is read."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

from finchlang.base.disk_cache import default_cache

#: options that are our own objects, and are passed again
_OWN = ("postlex", "transformer")


def parser_of(grammar: str, **options: Any) -> lark.Lark:
    """The LALR parser of a grammar. Its tables take about 200 ms to make, and 10 ms to read."""
    own = {name: options[name] for name in _OWN}
    rest = {name: value for name, value in options.items() if name not in _OWN}
    text = repr((grammar, sorted(rest.items()), lark.__version__))
    key = f"grammar-{hashlib.sha256(text.encode()).hexdigest()}"
    cache = default_cache()
    content = None if cache is None else cache.get(key)
    if content is not None:
        try:
            tables = json.loads(content, object_pairs_hook=_numbered)
            return lark.Lark._load_from_dict(tables["data"], tables["memo"], **own)
        except (ValueError, LookupError, TypeError, AttributeError):
            pass  # damaged or of another version: a miss
    parser = lark.Lark(grammar, parser="lalr", **options)
    if cache is not None:
        data, memo = parser.memo_serialize([TerminalDef, Rule])
        data["options"] = {k: v for k, v in data["options"].items() if k not in _OWN}
        cache.put(key, json.dumps({"data": data, "memo": memo}).encode())
    return parser


def _numbered(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
    """A JSON object with integer keys again: tables are by states and tokens, JSON's keys are strings."""
    return {int(k) if k.isdigit() else k: value for k, value in pairs}
