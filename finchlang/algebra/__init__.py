"""What is true of an expression: types, laws, simplification, bounds, absence, sparsity, index arithmetic.

An expression comes in; a fact, or a simpler expression, goes out. Passes, rules and the planner stand
above and ask the same questions here, so that none of them asks another; so they do for what things
cost (`costs.py`). The one idea: facts follow
from the rows of the operator table alone, an operator is never known by name.

>>> from finchlang.algebra.simplify import simplify
>>> from finchlang.text.parse import parse_kernel
>>> from finchlang.text.print import pretty
>>> print(pretty(simplify(parse_kernel("y[i] += max(x[i], x[i])"))))
y[i] += x[i]
"""
