"""What random loops and functions are made of (`random_functions.py`): tables of rows.

A row is a weight, and lines between `//`. In these are
    {i} {x} {b}     an expression of an Int64, of any number, of a Bool
    {I1} {i1} {V1}  a name of a kind, the same for the same number; V is one of I, F and D in a statement
    {v} {w} {c}     in a kernel over i, a value that V1 takes, an integer, a condition
    {l} {l+} {m}    literals from 0 and from 1, an integer from 0 to 3
    {n} {at}        the size of all modes, an integer from 1 to it
    {+V}            a format of a tensor of this kind
    $               a fresh number
    <f> <if> <loop> a function's call, a condition with statements, a loop
    <kernel> ...    a kernel, and what fails
"""

from __future__ import annotations

#: The kinds of names: tensors of Int64, Float64 and Bool in any format, those of which elements are
#: assigned, matrices, scalars; numbers of Int64, of any type, and Bools. Each with names and a leaf.
KINDS = {
    "I": ("A B C", "Element(0)"),
    "F": ("F G H", "Element(0.0)"),
    "B": ("P Q", "Element(false)"),
    "D": ("D E", "Element(0)"),
    "M": ("M N", "Element(0)"),
    "S": ("s t", ""),
    "i": ("a b i", ""),
    "x": ("x y", ""),
    "b": ("p q", ""),
}
_VECTORS = """Dense(%) SparseList(%) SparseList(%) SparseByteMap(%) SparseRunList(%) SparseBand(%)
SparseHash(%) SparseCOO{1}(%) RunList(%) SparseBlockList(%)"""
_MATRICES = """Dense(Dense(%)) Dense(SparseList(%)) Dense(SparseList(%)) SparseList(SparseList(%))
SparseCOO{2}(%) SparseHash{2}(%) Dense(SparseByteMap(%)) Dense(SparseRunList(%))"""
#: formats over a leaf
VECTORS, MATRICES = _VECTORS.split(), _MATRICES.split()
#: first values of names of any number
NUMBERS = ("0", "1", "2", "0.5", "2.5", "true", "Int32(3)", "Int32(2147483647)", "Float32(1.5)")

Rows = list[tuple[float, list[str]]]


def rows(text: str) -> Rows:
    """The rows of a table, one a line."""
    parts = (line.strip().partition(" ") for line in text.strip().splitlines())
    return [(float(weight), rest.strip().split(" // ")) for weight, _, rest in parts]


KERNELS = rows("""
5   {V1} .= 0 // for i = 1:{n} // {V1}[i] = {v} // end
4   for i = _ // {V1}[i] += {v} // end
2   for i = _ // if {c} // {V1}[i] += {v} // end // end
1   for i = _ // {V1}[i] <<max>>= {v} // end
1   for i = _ // {V1}[i] <<min>>= {v} // end
3   {S1} .= 0 // for i = _ // {S1}[] += {I1}[i] * {w} // end
2   for i = _ // {S1}[] <<max>>= {D1}[i] + {w} // end
3   {V1} .= 0 // for j = _, i = _ // {V1}[i] += {M1}[i, j] * {I2}[j] // end
1   {V1} .= 0 // for j = 1:{n}, i = 1:{n} // {V1}[i] += ifelse(i <= j, {I2}[j], {i1}) // end
3   {B1} .= false // for j = _, i = _ // if {B2}[j] && {M1}[i, j] != 0 // {B1}[i] |= true // end // end
2   {B1} .= false // for i = 1:{n} // {B1}[i] |= {c} // end
2   {V1}[mod({i1}, {n}) + 1] += {i2}
1   {M1} .= 0 // for j = 1:{n}, i = 1:{n} // {M1}[i, j] = {M2}[i, j] + {i1} // end
1   for j = _, i = _ // {M1}[i, j] += {I1}[i] * {l} // end
1   {S1} .= 0 // for i = mod({i1}, 3):mod({i2}, 5) // {S1}[] += i * {i1} // end
1   {S1} .= 0 // for i = 1:{n} // let u$ = {w} // {S1}[] += u$ * u$ // end // end
""")

STATEMENTS = rows("""
12  <kernel>
3   <if>
4   <loop>
5   <f>
2   {i1} = {i}
3   {i1} += {i}
1   {i1} *= 3
2   {x1} = {x}
0.5 r0({i} % 7)
2   {x1} += {x}
1   {b1} = {b}
1   {b1} = !{b1}
2   {i1}, {i2} = {i2}, {i1}
1   {x1}, {x2} = {x2}, {x1} + {l}
6   {V1}, {V2} = {V2}, {V1}
2   {V1}, {V2}, {V3} = {V2}, {V3}, {V1}
1   {B1}, {B2} = {B2}, {B1}
1   {M1}, {M2} = {M2}, {M1}
1   {S1}, {S2} = {S2}, {S1}
1   q$ = {V1} // {V1} = {V2} // {V2} = q$
2   if {b} // {V1}, {V2} = {V2}, {V1} // end
1   {S1}[] = {i}
2   {i1} = {S1}[]
2   {D1}[{at}] = {i}
1   {D1}[{at}] += {l}
1   {i1} = {V1}[{at}] > {l} ? {i} : {l}
1   {i1} = sum({I1})
1   {x1} = sum({F1}) + maximum({F2})
1   {i1} = maximum({I1}) - minimum({D1}) + prod({D1})
1   {i1} = sum(abs, {I1}) + count({B1})
1   {D1}[end] = {D1}[end] + {i}
1   {i1} = size({M1}, 1) + length({V1})
2   {V1} = Tensor({+V}, {n})
1   {V1} = copy({V2})
1   let u$ = {i} // {S1}[] = u$ + {l} // end
1   let Q$ = copy({V1}), v$ = {i1} // @finch for i = _ // {V1}[i] += Q$[i] * v$ // end // end
1   {V1} = Tensor({+V}, {V2})
1   {S1} = Scalar(0)
1   r$ = {V1}
0.5 <trouble>
""")

#: what fails now and then
TROUBLE = rows("""
3   @finch {V1}[{i1} + 3] += 1
2   {i1} = 7 ÷ ({i2} - {l})
1   {i1} = 7 % {i2}
2   {i1} = {D1}[{i2}]
1   {D1}[{i1} + 2] = 1
2   @finch begin // {V1} .= 0 // for i = 1:{n} + 1 // {V1}[i] = i // end // end
1   {V1} = Tensor({+V}, {n} + 1)
1   {V1} = {V2}
1   {i1} = Int64({x1})
1   @finch for i = _ // {I1}[i] += {x1} // end
1   @finch for i = _ // {I1}[i] += {i1} ÷ ({i2} - i) // end
1   {i1} = size({V1}, 2)
1   {b} || error("not ", {i1}, ", ", {x1})
1   {i1} = round(Int64, {x1} * 1.5)
0.3 {i1} = {x1} ? 1 : 2
""")
#: what only the interpreter of scripts does
PRINTED = rows("""
3   println({i}, " ", {x})
1   println({b})
1   word$ = "$({i}),"
""")

#: functions of numbers that call themselves
RECURSIVE = rows("""
3 r0(n) = n < 1 ? {l} : {l+} + r0(n - {l+})
2 r0(n) = n < 2 ? n : r0(n - 1) - r0(n - 2)
2 function r0(n) // if n < 1 // return {l} // end // m = r0(n ÷ 2) // m % 2 == 0 ? m : m + r0(n - 2) // end
1 function r0(n) // n > 0 && return r0(n - 1) + 7 ÷ (n - {l}) // {l} // end
1 function r0(n) // for k = 1:{l} // n < k && return k // n -= k // end // n > 9 ? r0(9) : r0(n) + 1 // end
0.3 r0(n) = n < -99 ? 0 : r0(n - 1)
""")
EXPRESSIONS = {
    "i": rows("""
1 r0({i} % 9)
6 {i1}
4 {l}
3 {i} + {i}
2 {i} - {i}
1 {i} * {l}
1 {i} % 5
1 mod({i}, 7)
1 {i} ÷ 2
1 -{i1}
1 min({i}, {i})
1 ifelse({b}, {i}, {i})
1 ({b} ? {i} : {l})
2 {S1}[]
1 {D1}[{at}]
1 size({M1}, 2)
0.3 {i} * 4611686018427387904
"""),
    "x": rows("""
4 {x1}
2 {i}
2 {x1} + {x}
1 {x1} - {i}
1 {x1} / 2
0.5 r0({x1} / 2)
1 {l} * 0.5
1 max({x1}, {x})
1 Float32({l})
1 Int32({l}) + {x1}
1 ({b} ? {i} : {x1})
1 {F1}[{at}]
1 {b}
"""),
    "b": rows("""
4 {i} < {i}
2 {i} == {l}
2 {i1} % 2 == 0
2 {b1}
1 !{b1}
1 ({b} && {b})
1 ({b} || {i} != {l})
1 {x1} <= {x}
1 {l} < {i1} <= {i}
1 {S1}[] > {i}
1 {B1}[{at}]
1 countstored({V1}) > {l}
1 any({B1})
1 all({B1})
"""),
    "w": rows("""
4 {I1}[i]
2 {D1}[i]
2 i
2 {i1}
2 {l}
2 {w} + {w}
1 {w} * {l}
1 min({w}, {w})
1 ifelse({c}, {w}, {l})
1 {S1}[]
"""),
    "c": rows("""
3 i == {i1}
2 i <= {l}
2 {I1}[i] > {l}
2 {B1}[i]
1 {w} != {w}
1 {i1} > {l}
1 {b1}
1 !({c})
1 ({c} && {c})
"""),
    "f": rows("""
4 {F1}[i]
2 {w}
2 {x1}
2 {f} + {f}
1 {f} * 0.5
1 max({f}, {l})
"""),
    "m": rows("3 {l}\n2 mod({i1}, 4)"),
    "at": rows("2 mod({i}, {n}) + 1\n1 {l+}\n1 {n}"),
}
