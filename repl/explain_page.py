"""`finch explain FILE --html OUT`: the lowering of a file's kernels as one page to step through."""

from __future__ import annotations

import json
from importlib.resources import files
from inspect import cleandoc
from typing import Any

from finchlang.base.paths import replace_text
from finchlang.calls.runner import KernelEvent

from .notes import Notes
from .recording import BY_STEP, Recording
from .sentences import LOOPLETS

#: the most kernels of a page
KERNELS = 40


class Page(Notes):
    """Records each kernel when it first runs."""

    def __init__(self) -> None:
        self.kernels: list[dict[str, Any]] = []

    def kernel(self, event: KernelEvent) -> None:
        if len(self.kernels) < KERNELS:
            self.kernels.append(Recording(event).data())

    def text(self, name: str) -> str:
        used = {step["rule"] for kernel in self.kernels for step in kernel["steps"]}
        laws = {
            name: {"law": cleandoc(rule.statement), "derived": rule.is_derived}
            for name, rule in BY_STEP.items()
            if name in used
        }
        data = {"name": name, "kernels": self.kernels, "rules": laws, "looplets": LOOPLETS}
        # no `<` in the data, which could end the script element
        packed = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
        template, script = (files(__package__) / f"explain.{kind}" for kind in ("html", "js"))
        page = template.read_text("utf-8").replace("@SCRIPT@", script.read_text("utf-8"))
        return page.replace("@DATA@", packed)

    def write(self, name: str, path: str) -> None:
        """Write the page to a file, which is replaced as a whole. Raises FinchError "I/O"."""
        replace_text(path, self.text(name))
