"""What Python programs call: sessions, kernels, operators.

`session.py` keeps names bound between runs of scripts; `kernel_decorator.py` makes a kernel of a Python
function or of a text; `operator_decorator.py` a user operator with laws; `translate_source.py` reads
the Python source of both. The one idea: Python functions become nodes of the language and then go the
way of any script.

>>> import finchlang, numpy as np
>>> @finchlang.kernel
... def double(x):
...     "@finch for i = _; x[i] *= 2 end"
>>> x = np.array([1, 2])
>>> double(x)
array([2, 4])
"""
