"""Laws that scripts declare of functions: true ones are accepted and change no result, wrong ones are
refused."""

from __future__ import annotations

import re

from finchlang.base.errors import FinchError
from finchlang.python.session import Session
from finchlang.testing.compare_engines import Way
from finchlang.testing.compare_stored import same
from finchlang.testing.generate import Maker
from finchlang.testing.grammar import FUNCTIONS

#: the values that laws are tried with here
VALUES = {"float": "0.0 1.0 2.0 -1.0 -2.5", "int": "0 1 2 -1 3", "bool": "false true"}
#: Declarations about f: for which kinds, the declaration, and two expressions that are then equal for any
#: x, y, z. `v` is a value, and the fill of all operands.
LAWS = """
fib @properties f commutative ; f(x, y) ; f(y, x)
fib @properties f associative ; f(f(x, y), z) ; f(x, f(y, z))
fib @properties f idempotent ; f(x, x) ; x
fib @properties f right_idempotent ; f(f(x, y), y) ; f(x, y)
fib @properties f identity(v, 1) ; f(v, x) ; x
fib @properties f identity(v, 2) ; f(x, v) ; x
fib @properties f annihilator(v, 1) ; f(v, x) ; v
fib @properties f annihilator(v, 2) ; f(x, v) ; v
fi @properties f distributes("+", 2) ; f(x, y + z) ; f(x, y) + f(x, z)
fi @properties f distributes(max, 2) ; f(x, max(y, z)) ; max(f(x, y), f(x, z))
b @properties f distributes("&", 2) ; f(x, y & z) ; f(x, y) & f(x, z)
fib @case f(v, x) = x ; f(v, x) ; x
fib @case f(x, x) = x ; f(x, x) ; x
fib @iterate f(x, y) = x & y ; x == v || y == v ? f(x, y) : f(v, v) ; f(v, v)
fib @iterate f(x, y) = x & ~y ; x == v || y != v ? f(x, y) : f(v, v) ; f(v, v)
fib @iterate f(x, y) = x ; x == v ? f(x, y) : f(v, v) ; f(v, v)
""".strip().splitlines()
RANGES = {"": "true", " where x >= 0": "0 <= {0}", " where -1 <= x <= 1": "-1 <= {0} <= 1"}
#: uses of f in a kernel
USES = (
    *("C[i] = f(A[i], B[i])", "C[i] = f(A[i], A[i])", "C[i] = f(f(A[i], B[i]), B[i])"),
    *("s[] <<f>>= A[i]", "C[i] = f(A[i], d[i])", "C[i] = f(d[i], B[i])"),
)
LEVELS = "SparseList", "SparseByteMap", "Dense", "RunList"


def law_difference(seed: int) -> str:
    """What goes wrong with a declaration, true or wrong, on random data; "" if nothing does."""
    maker = Maker(seed)
    maker.kind = maker.random.choice(list(VALUES))
    values = VALUES[maker.kind].split()
    fits = [k for k in FUNCTIONS if maker.kind[0] in k.kinds and k.count == 2]
    known, is_true = maker.random.choice(fits), maker.chance(0.4)
    maker.function_of(known, not known.fills)
    function, *own = [re.sub(r"\bf0\b", "f", text) for text in maker.before]
    v = maker.random.choice(values)
    declared, is_wrong = "\n".join(own), False
    if not is_true:
        declared, is_wrong = _lie(maker, function, values, v)
    data = []
    for name in "ABd":
        entries = ", ".join(maker.random.choice((v, *values)) for _ in range(6))
        level = maker.random.choice(LEVELS)
        data.append(
            f"{name} = "
            + (f"[{entries}]" if name == "d" else f"Tensor({level}(Element({v})), [{entries}])")
        )
    zero, use = values[0], maker.random.choice(USES)
    data += [f"C = Tensor(SparseByteMap(Element({zero})), 6)", f"s = Scalar({zero})"]
    kernel = [f"@finch begin C .= {zero}; for i = _; {use}; end; end"]
    text = "\n".join([function, *data, *kernel])
    plain = Session("denote", "all", lambda _: None)
    plain.run(text)
    for way in (Way("interpret"), Way("interpret", "paper"), Way("native")):
        session = way.session()
        shown = f"{way}\n{function}\n{declared}\n" + "\n".join([*data, *kernel])
        try:
            session.run(f"{function}\n{declared}\n" + "\n".join([*data, *kernel]))
        except FinchError as error:
            if is_true or error.kind != "type" or " is not " not in error.message:
                return f"{error}: {shown}"
            continue
        # declarations about fills or a range are checked only where they are used
        if is_wrong and "where" not in declared and "@iterate" not in declared:
            return f"a lie is not told: {shown}"
        if not all(same(session[n], plain[n], 1e-6) for n in "Cs"):
            return f"otherwise than without laws: {shown}"
    return ""


def _lie(maker: Maker, function: str, values: list[str], v: str) -> tuple[str, bool]:
    """A declaration that may be wrong, and whether some operands contradict it."""
    law = maker.random.choice([law for law in LAWS if maker.kind[0] in law.split()[0]])
    declared, left, right = re.sub(r"\bv\b", v, law.split(" ", 1)[1]).split(" ; ")
    over = maker.random.choice(list(RANGES)) if "@prop" in declared and maker.kind != "bool" else ""
    inside = " && ".join(f"({RANGES[over].format(n)})" for n in "xyz")
    loops = "; ".join(f"for {n} = [{', '.join(values)}]" for n in "xyz")
    session = Session("interpret", "all", lambda _: None)
    session.run(
        f"{function}\nwrong = false\n{loops}; if {inside} && ({left}) != ({right})\nwrong = true\nend"
        "\nend\nend\nend"
    )
    return declared + over, bool(session["wrong"])
