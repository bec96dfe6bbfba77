"""What must be known of a kernel's program to call the compiled kernel: its names, and what it does
to its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from finchlang.normalize import Format, Normalized
from finchlang.run.renewal import renewed
from finchlang.syntax import Declare, Node, Thaw, Variable
from finchlang.tensors.level import Level, Swizzled
from finchlang.types import Type
from finchlang.walk import walk


@dataclass(frozen=True)
class Signature:
    """`tensors` and `workspaces` as in `Normalized`, in the order the kernel takes them; `yields`
    the script names that it hands back, `numbers` those of the numbers it takes; `changed` the
    tensors and workspaces that it writes, and `renewed` those of them that it makes anew."""

    tensors: dict[str, str]
    workspaces: dict[str, Level]
    yields: tuple[str, ...]
    numbers: tuple[str, ...]
    changed: frozenset[str]
    renewed: frozenset[str]

    def levels(self, formats: Mapping[str, Format]) -> dict[str, Level]:
        """The tensors' and the workspaces' formats, given those of the script's names."""
        return {n: _level(formats[own]) for n, own in self.tensors.items()} | self.workspaces


def _level(format: Format) -> Level:
    level = format.level if isinstance(format, Swizzled) else format
    assert isinstance(level, Level)
    return level


def signature_of(normalized: Normalized, program: Node, formats: dict[str, Format]) -> Signature:
    """The signature of `program`, which is `normalized` with its types noted."""
    used = {n.name for n in walk(program) if isinstance(n, Variable)}
    known = normalized.formats
    signature = Signature(
        dict(normalized.tensors),
        dict(normalized.workspaces),
        normalized.yields,
        tuple(n for n, t in known.items() if isinstance(t, Type) and n in used),
        frozenset(n.tensor.name for n in walk(program) if isinstance(n, (Declare, Thaw))),
        frozenset(),
    )
    anew = renewed(program, signature.levels(formats))
    return Signature(**{**vars(signature), "renewed": frozenset(anew)})
