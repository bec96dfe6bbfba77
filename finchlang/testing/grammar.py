"""The tables that random programs are made of: levels, operators, functions with laws, masks. A token in
braces is filled in, as `templates.py` says."""

from __future__ import annotations

import re

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


LEVELS = {
    "Dense": Row(weight=6, complete=True),
    "SparseList": Row(weight=6),
    "SparseByteMap": Row(weight=3),
    "SparseHash": Row(modes=0, weight=1.5),
    "SparseCOO": Row(modes=0, weight=1.5),
    "RunList": Row("runs", complete=True),
    "SparseRunList": Row("runs"),
    "PackBits": Row("runs", complete=True),
    "SparseBlockList": Row(),
    "SparseBand": Row("block", complete=True),
    "SparsePinpoint": Row("one", weight=0.6),
    "SparseInterval": Row("run", weight=0.6),
    "Ragged": Row("first", weight=0.6, complete=True),
    "UpperTriangular": Row("<=", 2, complete=True),
    "LowerTriangular": Row(">=", 2, complete=True),
    "Symmetric": Row("<=", 2, complete=True),
    "Interleaved": Row(modes=0, weight=0.6),
    "Workspace": Row(modes=0, weight=0),
}
#: the levels that may be above another level
UPPER = tuple(name for name in LEVELS if name not in ("Interleaved", "Workspace"))
LOWER = (*UPPER, "Interleaved")
PAIRS = tuple((a, b) for a in UPPER for b in LOWER)
TRIPLES = tuple((a, b, c) for a in UPPER for b in UPPER for c in LOWER)
#: strides of the walks, prime to the sizes of the tables, so that each row comes once before any comes
#: again
STRIDES = 89, 1999


def stack_of(seed: int) -> tuple[str, ...]:
    """The levels, outermost first, of one tensor in the program of a seed: pairs and triples in turn."""
    half, odd = divmod(seed, 2)
    table = (PAIRS, TRIPLES)[odd]
    return table[half * STRIDES[odd] % len(table)]


@record
class Form:
    """A row of a table: the kinds of programs that it is for (f: float, i: int, b: bool, m: minplus), its
    weight, and the text."""

    kinds: str
    weight: float
    text: str


def forms(text: str, between: str = " // |\n") -> tuple[Form, ...]:
    """The rows of a text: `KINDS WEIGHT TEXT`."""
    rows = (re.sub(r"\n +", " ", row).split(None, 2) for row in re.split(between, text.strip()))
    return tuple(Form(kinds, float(weight), form) for kinds, weight, form in rows)


#: expressions
VALUES = forms("""
fi 8 {n} * {n} // fim 6 ({n} + {n}) // fi 4 ({n} - {n}) // fimb 1 min({n}, {n}) // fimb 1 max({n}, {n})
fim 0.3 max({n}, {n}, {n}) // fi 0.6 abs({n}) // fi 0.6 (-{n}) // fi 0.4 ({n})^2 // fi 0.2 1 ^ ({k})
fi 0.3 ({n} + 2) - {l} // fi 0.3 2 * ({n}) * 4 // fi 0.3 -(2 * -({n})) // fib 0.8 ifelse({b}, {n}, {n})
fib 0.3 (({b}) ? {n} : {l}) // fi 0.5 ({b}) * {n} // fi 0.3 sign({n}) // fi 0.2 identity({n})
f 0.2 add_times({n}, {n}, {k}) // f 0.2 sub_times({n}, {n}, {k}) // f 0.1 mul_times({n}, {l}, {k})
f 0.1 div_times({n}, 2.0, {k}) // fi 0.2 choose(0)({n}, {n}) // fi 0.3 {i} // f 0.4 ({n}) / 2
f 0.3 ({n}) / (2.0 + 2.0 * Float64({b})) // f 0.2 ({n}) * inv(2.0 + 2.0 * Float64({b}))
f 0.2 ({n}) * (1 / 4.0) // f 0.1 floor({n}) // f 0.1 ceil({n}) // f 0.1 trunc({n}) // f 0.1 round({n})
f 0.1 sqrt(({n})^2) // f 0.1 copysign({n}, {l} + 1.0) // f 0.1 ldexp({n}, 2) // f 0.1 Float64(isnan({n}))
f 0.1 mod({n}, 4.0) // f 0.1 fld({n}, 2.0) // i 0.4 ({n} & {n}) // i 0.4 ({n} | {n})
i 0.4 xor({n}, {n}) // i 0.2 (~{n}) // i 0.2 div({n}, {k}) // i 0.2 div({n}, ({n} & 3) + 1)
i 0.2 fld({n}, ({n} & 3) + 1) // i 0.2 cld({n}, ({n} & 3) + 1) // i 0.2 ({n}) % {k}
i 0.2 ({n} % (({n} & 3) + 1)) // i 0.2 mod({n}, ({n} & 3) + 1) // i 0.2 ({n} << {k}) // i 0.2 ({n} >> {k})
i 0.2 ({n} ⊻ {k}) // i 0.3 Int64({n}) // i 0.2 cut_Int8({n}) // i 0.2 UInt16({n}) // i 0.1 floor({n})
b 3 ({n} & {n}) // b 3 ({n} | {n}) // b 1 ({n} && {n}) // b 1 ({n} || {n}) // b 1 xor({n}, {n})
b 0.7 ({n} != {n}) // b 0.7 ({n} == {n}) // b 0.4 ({n} < {n}) // b 0.4 ({n} <= {n}) // b 0.6 !({n})
b 0.5 {b}
""")
#: conditions
CONDITIONS = forms("""
fimb 3 {i} <= {i} // fimb 1 {i} < {i} + 1 // fimb 1 {i} >= {k} // fimb 1 {i} == {i} // fimb 1 {i} != {k}
fimb 1 {i} > {i} - 1 // fimb 0.4 1 <= {i} <= 3 // fimb 1 ({b}) && ({b}) // fimb 1 ({b}) || ({b})
fimb 1 !({b}) // fimb 0.5 UpTriMask()[{i}, {i}] // fimb 0.5 LoTriMask()[{i}, {i}]
fimb 0.5 diagmask()[{i}, {i}] // fimb 0.5 BandMask()[{i}, {i}, {i}] // fim 2 {a} != {l} // fim 1 {a} > {l}
fim 1 {a} <= {l} // fim 0.5 {a} == {a} // b 3 {a} // b 1 {a} == true
""")
#: functions with rounded results: they are used once and outermost, and their results are not reduced
ROUNDED = forms("""
f 1 sqrt(abs({n})) // f 1 cbrt({n}) // f 1 exp({n}) // f 1 exp2({n}) // f 1 expm1({n})
f 1 log(abs({n}) + 1) // f 1 log2(abs({n}) + 1) // f 1 log10(abs({n}) + 1) // f 1 log1p(abs({n}))
f 1 sin({n}) // f 1 cos({n}) // f 1 tan({n}) // f 1 asin(sign({n})) // f 1 acos(sign({n}))
f 1 atan({n}) // f 1 atan2({n}, abs({n}) + 1.0) // f 1 sinh({n}) // f 1 cosh({n}) // f 1 tanh({n})
f 1 asinh({n}) // f 1 acosh(abs({n}) + 1) // f 1 atanh(sign({n}) / 2) // f 1 hypot({n}, {n})
f 1 nextafter({n}, 100.0) // f 1 ({n}) / 3 // f 1 (abs({n}) + 1) ^ 0.5 // f 1 inv(abs({n}) + 1)
""")
#: assignments
SIGNS = forms("""
fimb 3 = // fimb 0.7 := // fi 6 += // fi 1.5 -= // fi 1 *= // fim 1 <<min>>= // fim 1 <<max>>=
m 3 <<min>>= // b 2 |= // b 1 &= // b 1 <<||>>= // b 1 <<&&>>= // b 0.5 <<xor>>= // i 1 |= // i 1 &=
i 0.5 <<xor>>= // fi 0.6 <<choose(0)>>= // b 0.5 <<choose(false)>>= // f 0.4 /=
""")


@record
class Known:
    """A function of p, q (and r): its body, and what is true of it. Outside of its `region` its result is
    that for the `fills`, or, without these, for any fills."""

    kinds: str
    body: str
    laws: str = ""
    cases: tuple[str, ...] = ()
    region: str = ""
    fills: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return 3 if re.search(r"\br\b", self.body + self.region) else 2


#: statements of functions of p and q, comparisons and expressions in them
STEPS = forms("""
fimb 1 {p} = {x} // fimb 1 p, q = q, {x} // fimb 1 if {c}; {p} = {x}; else; {p} = {x}; end
fimb 1 if {c}; return {x}; end // fimb 1 for k = 2:-1:1; if {c}; continue; end; {p} = {x}; end
fimb 1 for k = 1:2:4; {p} = {x}; if {c}; break; end; {p} = {x}; end
fimb 1 n = 0; while n < 2 && {c}; n += 1; {p} = {x}; end
""")
COMPARED = forms("fim 1 p < q // fim 1 p <= q // fimb 1 p != q // b 1 p == q")
COMPUTED = forms("""
fim 1 ({x}) + ({x}) // fi 1 ({x}) - ({x}) // fi 1 ({x}) * ({x}) // fm 1 min({x}, {x})
fim 1 max({x}, {x}) // f 1 abs({x}) // i 1 ({x}) & ({x}) // i 1 div({x}, abs({x}) + 1)
b 1 ({x}) && ({x}) // b 1 ({x}) || ({x}) // b 1 !({x}) // b 1 xor({x}, {x}) // b 1 ({x}) == ({x})
""")
_ONCE = "associative idempotent right_idempotent"
_GCD = "while q != 0; p, q = q, p % q; end; return abs(p)"
FUNCTIONS = (
    Known("fi", "p > q ? p : q", f"commutative {_ONCE}", ("p, p = p",), "p | q"),
    Known("fi", "-max(-q, -p)", f"commutative {_ONCE}", (), "p | q"),
    Known("m", "p > q ? p : q", f"commutative {_ONCE} identity(-Inf)", ("p, p = p",), "p | q"),
    Known("m", "p < q ? p : q", f"commutative {_ONCE} identity(Inf)", (), "p | q"),
    Known("fi", "p != 0 ? p : q", f"{_ONCE} identity(0)", ("p, 0 = p", "0, q = q"), "p | q"),
    Known("fi", "q + p", 'commutative associative identity(0) inverse("-")', ("p, 0 = p",), "p | q"),
    Known("fi", "q * p", 'commutative associative identity(1) annihilator(0) distributes("+")',
          ("p, 0 = 0", "p, 1 = p"), "p & q", ("0", "0")),
    Known("fi", "abs(p - q)", "commutative", ("p, p = 0",), "p | q"),
    Known("fi", "p + 2 * q", "identity(0, 2)", ("p, 0 = p", "0, q = q + q"), "p | q"),
    Known("fi", "q != 0 ? p : 0", "annihilator(0)", ("p, 0 = 0",), "p & q", ("0", "0")),
    Known("fi", "q == 0 ? p : 0", "", ("p, 0 = p",), "p & ~q", ("0", "0")),
    Known("fi", "p * q", "", ("0, q = 0",), "p", ("0", "1")),
    Known("fi", "max(p, q) - 1", "", (), "p | q", ("1", "0")),
    Known("fi", "p * q + r", "", (), "(p & q) | r", ("0", "0", "0")),
    Known("fi", "p * (q - r)", "annihilator(0, 1)", (), "p & (q | r)", ("0", "1", "1")),
    Known("fi", "max(min(p, q), min(max(p, q), r))", "idempotent", ("p, p, q = p",), "p | q | r"),
    Known("i", _GCD, "commutative associative annihilator(1)", ("p, 0 = abs(p)",), "p | q"),
    Known("i", "(p | q) - xor(p, q)", f"commutative {_ONCE} identity(-1) annihilator(0)"),
    Known("i", "(p & q) + xor(p, q)", f"commutative {_ONCE} identity(0) annihilator(-1)"),
    Known("m", "p + q", "annihilator(Inf)", (), "p & q", ("Inf", "Inf")),
    Known("b", "p ? q : false", f"commutative {_ONCE} identity(true) annihilator(false)",
          ("p, true = p",), "p & q", ("false", "false")),
    Known("b", "p ? true : q", f"commutative {_ONCE} identity(false) annihilator(true)", (), "p | q"),
    Known("b", "(p || q) && !(p && q)", "commutative associative identity(false)",
          ("p, p = false", "p, true = !p"), "(p | q) & ~(p & q)", ("false", "false")),
    Known("b", "p && !q", "annihilator(false, 1) identity(false, 2)", ("p, p = false",), "p & ~q",
          ("false", "false")),
    Known("b", "p == q ? p : r", "", ("p, p, r = p",), "(p & q) | (q & r) | (p & r)",
          ("false", "false", "false")),
    Known("fi", "s = p; for k = 1:2; s = s > q ? q : s; end; return s", f"commutative {_ONCE}"),
    Known("fi", "p < q ? p : q", "annihilator(0) idempotent associative where x >= 0"),
    Known("fi", "p > q ? p : q", "annihilator(0) commutative where 0 >= x"),
    Known("fi", "abs(p) + abs(q)", "identity(0) commutative associative where x >= 0"),
    Known("fi", "p * q < 0 ? 2 : p * q", "annihilator(0) identity(1) commutative where 0 <= x <= 4"),
    Known("fi", "q > 0 ? p : 0 - q", "idempotent associative where x > 0"),
    Known("fi", "if p > q; return p - q; elseif p < q; return q - p; end; return p - p",
          "commutative", (), "p | q"),
)  # fmt: skip
