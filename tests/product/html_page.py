"""A page of HTML as tests look at it."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

#: tags without an end, and attributes that would load something
VOID, LOADING = {"meta", "input", "link", "img", "br"}, {"src", "href", "action", "data"}


class Page(HTMLParser):
    """The tags of a page, which must be closed in order and load nothing, its text, and its scripts, each
    with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.open, self.ids = list[str](), list[str](), list[str]()
        self.scripts: list[tuple[dict[str, Any], str]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.handle_startendtag(tag, attrs)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        loaded = {name for name, value in attrs if not value.startswith("data:")} & LOADING
        assert not loaded
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] == "script":
            attrs, text = self.scripts[-1]
            self.scripts[-1] = attrs, text + data
