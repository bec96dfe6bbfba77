"""Values: format, shape and arrays; from and to NumPy and SciPy; formats by name; binding to a kernel.

Data comes in as NumPy arrays, SciPy matrices or coordinates, and goes out the same ways. A `Tensor` is
a format (levels) and a `Memory`: the arrays and counters that its levels declare. The one idea: what
NumPy gave is used where it lies when a format has that layout (`adopt.py`), and packed from sorted
coordinates otherwise (`pack.py`), level by level.

>>> import numpy as np
>>> from finchlang import Tensor
>>> t = Tensor("SparseList(Element(0.0))", np.array([0.0, 2.0, 0.0, 3.0]))
>>> print(t.shape, t.countstored(), t.storage[0]["idx"])
(4,) 2 [1 3]
"""
