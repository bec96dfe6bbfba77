"""Values of scripts and of arrays in Python beside NumPy's, of literals, statements and functions of whole
arrays, where all semantics share the code: rows of `tables.toml`, on random operands."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import finchlang.array as xp
from finchlang.base.errors import FinchError
from finchlang.python.session import Session
from finchlang.tensors.tensor import Tensor
from finchlang.testing.compare_engines import SEMANTICS, Way
from finchlang.testing.compare_stored import same
from finchlang.testing.data import plain
from finchlang.testing.generate import Maker, typed
from finchlang.testing.grammar import TABLES
from finchlang.text.parse import parse_script
from finchlang.text.print import pretty

#: what is run, and by Python the same; for arrays in Python both are one text
ROWS = [row.rpartition(" ; ")[::2] for row in TABLES["forms"]["expected"].strip().splitlines()]
#: how many rows a case takes
EACH = 24
#: operands by name, with their dimensions
OPERANDS = {"A": "mn", "B": "mn", "S": "nn", "u": "m", "x": "n", "y": "n"}


def expected_difference(seed: int) -> str:
    """The rows whose values are not as expected, with their operands; "" if there are none."""
    maker = Maker(seed, kind=("float", "int")[seed // 2 % 2])
    draw = maker.random.randint
    m, n = draw(1, 4), draw(2, 4)
    first, last = sorted((draw(1, n), draw(1, n)))
    known: dict[str, Any] = {"m": m, "n": n, "d": draw(1, 2), "k": draw(-3, 3), "c": draw(-1, 2)}
    known |= {"i": draw(1, m), "j": draw(1, n), "a": first, "b": last}
    maker.sizes = known
    for name, dims in OPERANDS.items():
        maker.names = iter(name)
        fill = 0 if name == "A" else maker.random.choice((0, 0, 1, 2))  # which a file may not take
        maker.new((*dims,), fill=typed(fill, f"{maker.kind.title()}64"))
    lines = [*maker.before, *(f"{name} = {value}" for name, value in known.items() if name != "c")]
    lines += [f"c = {typed(known['c'], f'{maker.kind.title()}64')}", "f(p, q) = 2p - q"]
    session, found = Way(maker.random.choice(SEMANTICS)).session(), list[str]()
    with TemporaryDirectory() as folder:
        session.run("\n".join([*lines, f'path(name) = string("{folder}/", name)']))
        ours = known | {name: xp.asarray(session[name]) for name in OPERANDS} | {"xp": xp}
        known |= {name: plain(session[name]) for name in (*OPERANDS, "c")} | {"np": np}
        scope = _around(session, Path(folder)) | known
        for count in range(EACH):
            text, python = ROWS[(seed // 4 * EACH + count) % len(ROWS)]
            wanted = None if python[0] == "!" else eval(python, known | {"xp": np})
            try:
                if text.startswith("> "):
                    exec(text[2:].replace(" // ", "\n"), scope)
                    value = scope.pop("r", None)
                else:
                    value = _left(session, text, count % 2 > 0) if text else eval(python, ours)
                is_right = wanted is not None and _is(plain(value), wanted)
            except FinchError as error:
                value, is_right = error, python == f"!{error.kind}"
            if not is_right:
                found.append(f"{text}\nis {value!r}, and {wanted!r} by `{python}`\n")
    return "\n".join([*found, *lines]) if found else ""


def _around(session: Session, folder: Path) -> dict[str, Any]:
    """The names that Python has in rows beside the operands."""

    def fails(text: str) -> str:
        """The kind of the error with which a script ends."""
        try:
            session.run(text)
        except FinchError as error:
            return error.kind
        return ""

    def stored(format: str, shape: tuple[int, ...], level: dict[str, Any]) -> Tensor:
        """A tensor with these arrays in its inner level, which may be unsound, and values of 1."""
        arrays: Any = {name: np.array(a) if isinstance(a, list) else a for name, a in level.items()}
        storage = [*({} for _ in shape[1:]), arrays, {"val": np.ones(level["stored"])}]
        return Tensor.from_storage(Tensor(format, *shape).format, shape, storage, False)

    return {"s": session, "run": session.run, "Tensor": Tensor} | locals()


def _left(session: Session, text: str, is_printed: bool) -> Any:
    """The value of an expression, or of r after statements; of what is printed of it, if `is_printed`."""
    text = text.replace(" // ", "\n")
    text = text if re.search(r"^@|^r\W.*=", text, re.M) else f"r = {text}"
    session.run(pretty(parse_script(text)) if is_printed else text)
    return session["r"]


def _is(value: Any, wanted: Any) -> bool:
    value, wanted = np.asarray(value), np.asarray(wanted)
    return value.dtype == wanted.dtype and same(value, wanted, 1e-9)
