"""The interface for Python programs: sessions, kernels, operators.

In: texts and functions of Python. Out: functions that run kernels. `session.py` keeps names between runs
of scripts; `kernel_decorator.py` makes a kernel of a text or a Python function; `operator_decorator.py`
makes an operator with laws; `translate_source.py` reads the source of Python functions.

The one idea: a Python function becomes nodes of the language, and then goes the way of any script.

>>> import finchlang, numpy as np
>>> @finchlang.kernel
... def double(x):
...     "@finch for i = _; x[i] *= 2 end"
>>> x = np.array([1, 2])
>>> double(x)
array([2, 4])
"""
