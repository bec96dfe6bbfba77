"""The small imperative language that rules speak (DESIGN section 3): its terms, who performs it, who
records it.

Rules come with operations (`let`, `load`, `store`, `set`, `branch`, `loop`, `grow`); each is a statement
of `ir.py` (`interface.py`), and what becomes of that is up to the host. `executing.py` performs it at
once, on arrays: that is the interpreter. `recording.py` writes it down: the result, a residual
program, is what staging leaves. The
one idea, of the whole project: one semantics, two hosts. Constants are folded where terms are made
(`construct.py`) and nowhere else, and `verify.py` says what a well-formed residual is.

>>> from finchlang.host.construct import add, mul
>>> from finchlang.host.ir import Var
>>> from finchlang.syntax.types import Int64
>>> n = Var("n", Int64)
>>> add(add(n, 1), 2), mul(n, 0)
(add(n, 3::Int64), 0::Int64)
"""
