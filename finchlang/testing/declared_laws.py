"""Laws that scripts declare of functions, some of them wrong: wrong ones are refused where they are relied
on, and others change no result. Scripts of `scripts.py` declare true ones."""

from __future__ import annotations

import random
import re

from finchlang.base.errors import FinchError
from finchlang.testing.compare_engines import Way
from finchlang.testing.compare_stored import same
from finchlang.testing.grammar import FUNCTIONS, TABLES
from finchlang.testing.random_expressions import ExpressionMaker

#: the values that laws are tried with here
VALUES = {"float": "0.0 1.0 2.0 -1.0 -2.5", "int": "0 1 2 -1 3", "bool": "false true"}
#: declarations about f, and its uses in kernels
LAWS, USES = (TABLES["forms"][name].strip().splitlines() for name in ("laws", "uses"))
RANGES = {"": "true", " where x >= 0": "0 <= {0}", " where -1 <= x <= 1": "-1 <= {0} <= 1"}
LEVELS = "SparseList", "SparseByteMap", "Dense", "RunList"


def law_difference(seed: int) -> str:
    """What goes wrong with a declaration that may be a lie, on random data; "" if nothing does."""
    maker = ExpressionMaker(seed, kind=random.Random(seed).choice(list(VALUES)))
    draw, values = maker.random.choice, VALUES[maker.kind].split()
    known = draw([k for k in FUNCTIONS if maker.kind[0] in k.kinds and k.count == 2])
    name, v = maker.defined(known), draw(values)
    function = re.sub(rf"\b{name}\b", "f", maker.before.pop())
    declared, is_wrong = _lie(maker, function, values, v)
    maker.sizes["m"] = 6
    for level, fill in (draw(LEVELS), v), (draw(LEVELS), v), ("SparseByteMap", ""), ("Dense", ""):
        maker.new(("m",), True, ((level, 1),), fill or maker.zero)
    maker.new((), fill=maker.zero)
    kernel = f"@finch begin C .= {maker.zero}; for i = _; {draw(USES)}; end; end"
    rest = "\n".join([*maker.before, kernel])
    plain = Way("denote").session()
    plain.run(f"{function}\n{rest}")
    for way in (Way("interpret"), Way("interpret", "paper"), Way("native")):
        session, text = way.session(), f"{function}\n{declared}\n{rest}"
        try:
            session.run(text)
        except FinchError as error:
            if error.kind != "type" or " is not " not in error.message:
                return f"{error}: {way}\n{text}"
            continue
        # declarations about fills or a range are checked only where they are used
        if is_wrong and "where" not in declared and "@iterate" not in declared:
            return f"a lie is not told: {way}\n{text}"
        if not all(same(session[n], plain[n], 1e-6) for n in "CE"):
            return f"otherwise than without laws: {way}\n{text}"
    return ""


def _lie(maker: ExpressionMaker, function: str, values: list[str], v: str) -> tuple[str, bool]:
    """A declaration that may be wrong, and whether some operands contradict it."""
    law = maker.random.choice([law for law in LAWS if maker.kind[0] in law.split()[0]])
    declared, left, right = re.sub(r"\bv\b", v, law.split(" ", 1)[1]).split(" ; ")
    over = maker.random.choice(list(RANGES)) if "@prop" in declared and maker.kind != "bool" else ""
    inside = " && ".join(f"({RANGES[over].format(n)})" for n in "xyz")
    loops = "; ".join(f"for {n} = [{', '.join(values)}]" for n in "xyz")
    test = f"if {inside} && ({left}) != ({right}); wrong = true; end"
    session = Way("interpret").session()
    session.run(f"{function}\nwrong = false\n{loops}; {test}; end; end; end")
    return declared + over, bool(session["wrong"])
