"""The tables that random programs are made of, read from `tables.toml`: levels, expressions, functions with
laws, templates of statements."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from importlib.resources import files

from finchlang.base.records import record

#: the kinds of programs, and how often each is chosen
KINDS = {"float": 5, "int": 5, "bool": 2, "minplus": 2}
#: the types of tensors in each kind of program; the first is that of tensors that are written
TYPES = {
    "float": ("Float64", "Float64", "Float64", "Float32"),
    "int": ("Int64", "Int64", "Int32", "Int16", "Int8", "UInt8", "UInt16", "UInt32", "UInt64"),
    "bool": ("Bool",),
    "minplus": ("Float64",),
}


@record
class Row:
    """A level: which entries a fiber takes, how many modes it has (0: 1 or 2), how often it is chosen, and
    whether it is `complete`: it stores what is not written, so that no Pattern may be below it."""

    takes: str = "any"
    modes: int = 1
    weight: float = 1.0
    complete: bool = False


TABLES = tomllib.loads(files(__package__).joinpath("tables.toml").read_text("utf-8"))
LEVELS = {name: Row(**row) for name, row in TABLES["levels"].items()}
#: the levels that may be above another level
UPPER = tuple(name for name in LEVELS if name not in ("Interleaved", "Workspace"))
LOWER = (*UPPER, "Interleaved")
PAIRS = tuple((a, b) for a in UPPER for b in LOWER)
TRIPLES = tuple((a, b, c) for a in UPPER for b in UPPER for c in LOWER)
#: strides of the walks, prime to the sizes of the tables, so that each row comes once before any comes
#: again
STRIDES = 89, 1999


def stack_of(seed: int, count: int = 1) -> tuple[tuple[str, ...], int]:
    """The levels, outermost first, of one tensor in the program of a seed: pairs and triples in turn; and a
    number below `count` that comes in turn with each of them."""
    half, odd = divmod(seed, 2)
    table = (PAIRS, TRIPLES)[odd]
    return table[half * STRIDES[odd] % len(table)], (half + 5 * (half // len(table))) % count


@record
class Form:
    """A row of a table: the kinds of programs that it is for (f: float, i: int, b: bool, m: minplus), its
    weight, and the text."""

    kinds: str
    weight: float
    text: str


def _forms(name: str) -> tuple[Form, ...]:
    rows = re.split(r"\n(?! )", TABLES["forms"][name].strip())
    split = (re.sub(r"\n +", " ", row).split(None, 2) for row in rows)
    return tuple(Form(kinds, float(weight), text) for kinds, weight, text in split)


VALUES, CONDITIONS, ROUNDED, SIGNS = map(_forms, ("values", "conditions", "rounded", "signs"))
#: statements of functions, comparisons and expressions in them
STEPS, COMPARED, COMPUTED = map(_forms, ("steps", "compared", "computed"))
#: statements in loops of scripts, and tokens that stand for text
ROUNDS, WORDS = _forms("rounds"), TABLES["words"]
#: templates within kernels, of a kernel around a tensor of given levels, of scripts
KERNELS, WALKED, SCRIPTS = map(_forms, ("kernels", "walked", "scripts"))


@record
class Known:
    """A function of p, q (and r): its body, and what is true of it. Outside of its `region` its result is
    that for the `fills`, or, without these, for any fills."""

    kinds: str
    body: str
    laws: str = ""
    cases: Sequence[str] = ()
    region: str = ""
    fills: Sequence[str] = ()

    @property
    def count(self) -> int:
        return 3 if re.search(r"\br\b", self.body + self.region) else 2


FUNCTIONS = tuple(Known(**row) for row in TABLES["functions"])
