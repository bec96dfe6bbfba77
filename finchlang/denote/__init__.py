"""The denotation: the meaning of a program on dense arrays (Finch'25 Fig 8b). Tests compare with it.

In: a program and its bindings. Out: NumPy arrays.

The one idea: it shares nothing with the code that it checks. It has its own operators (those of NumPy)
and its own way to find extents; it has no levels, looplets or passes. The layout test forbids it to
import them, and only the comparison of engines and tests may import it.

>>> import numpy as np
>>> from finchlang.denote.denote import denote
>>> from finchlang.text.parse import parse_kernel
>>> program = parse_kernel("for i = _; y[i] = x[i] + 1 end")
>>> print(denote(program, {"x": np.array([1, 2]), "y": np.array([0, 0])})["y"])
[2 3]
"""
