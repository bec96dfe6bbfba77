"""Facts about an expression: its type, laws, bounds, sparsity, and a simpler form of it.

In: an expression. Out: a fact about it, or a simpler expression. Passes, rules and the planner ask here
and do not import each other. `costs.py` has the costs that all three use.

The one idea: facts follow from the rows of the operator table. No operator is known by its name.

>>> from finchlang.algebra.simplify import simplify
>>> from finchlang.text.parse import parse_kernel
>>> from finchlang.text.print import pretty
>>> print(pretty(simplify(parse_kernel("y[i] += max(x[i], x[i])"))))
y[i] += x[i]
"""
