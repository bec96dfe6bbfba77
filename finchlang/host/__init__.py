"""The small imperative language that rules write: its terms, a host that runs it, a host that records it.

In: the operations of rules (`let`, `load`, `store`, `set`, `branch`, `loop`, `grow`; `interface.py`). Each
is a statement of `ir.py`. Out: with `executing.py` each statement is performed at once, on arrays; this
is the interpreter. With `recording.py` it is written down; the text is the residual program.

The one idea, of the whole project: one semantics, two hosts. Constants are folded where terms are made
(`construct.py`) and nowhere else. `verify.py` checks that a residual is well formed.

>>> from finchlang.host.construct import add, mul
>>> from finchlang.host.ir import Var
>>> from finchlang.syntax.types import Int64
>>> n = Var("n", Int64)
>>> add(add(n, 1), 2), mul(n, 0)
(add(n, 3::Int64), 0::Int64)
"""
