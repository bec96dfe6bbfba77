"""Values: format, shape and arrays; from and to NumPy and SciPy; formats by name; binding to a kernel.

In: NumPy arrays, SciPy matrices or coordinates. Out: the same kinds. A `Tensor` has a format (its levels)
and a `Memory` (the arrays and counters that the levels declare).

The one idea: data of NumPy is used in place if the format has the same layout (`adopt.py`). Other data
is packed from sorted coordinates, level by level (`pack.py`).

>>> import numpy as np
>>> from finchlang import Tensor
>>> t = Tensor("SparseList(Element(0.0))", np.array([0.0, 2.0, 0.0, 3.0]))
>>> print(t.shape, t.countstored(), t.storage[0]["idx"])
(4,) 2 [1 3]
"""
