"""The denotation: what a program means on dense arrays (Finch'25 Fig 8b), the oracle of differential
testing.

A program and its bindings come in, NumPy arrays go out. The one idea: it shares nothing with what it
checks. It has its own operators (NumPy's), its own way to find extents, no levels, no looplets, no
passes; the layout test forbids it to import them, and only the comparison of engines and tests import
it.

>>> import numpy as np
>>> from finchlang.denote.denotation import denote
>>> from finchlang.text.parse import parse_kernel
>>> program = parse_kernel("for i = _; y[i] = x[i] + 1 end")
>>> print(denote(program, {"x": np.array([1, 2]), "y": np.array([0, 0])})["y"])
[2 3]
"""
