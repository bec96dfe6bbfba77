"""The array API standard (2024.12) over tensors of any format, lazily. There are no complex and no half
types.

In: arrays of any library. A function makes an expression (`expression.py`): it knows its shape, type and
fill, and computes nothing. Out: a tensor, made by `compute`. The logical planner (`logical/`) divides an
expression into loop nests, which are planned one by one (`plan.py`, with the costs of `cost.py`) and become
a program of the language (`to_program.py`). `calls/runner.py` runs it.

The one idea (SparseArray'21): any function works over any fill. A result stores the entries that differ
from its own fill, and several functions become one kernel without a temporary array.

>>> import numpy as np
>>> import finchlang.array as xp
>>> a = xp.asarray(np.array([0.0, 2.0, 0.0]), format="SparseList(Element(0.0))")
>>> total = xp.sum(xp.exp(a) - 1)
>>> print(type(total).__name__, round(float(total), 3))
Array 6.389
"""

from __future__ import annotations

from math import e, inf, nan, pi

from finchlang.array import (
    concatenation,
    creation,
    elementwise,
    fft,
    indexing,
    linalg,
    namespace_info,
    numpy_functions,
    ordering,
    products,
    reductions,
    reshaping,
)
from finchlang.array.compute import compute, plan, todense
from finchlang.array.concatenation import *
from finchlang.array.creation import *
from finchlang.array.elementwise import *
from finchlang.array.expression import Array
from finchlang.array.frozen import FrozenArray, frozen
from finchlang.array.indexing import *
from finchlang.array.namespace_info import *
from finchlang.array.numpy_functions import *
from finchlang.array.ordering import *
from finchlang.array.products import *
from finchlang.array.reductions import *
from finchlang.array.reshaping import *

__array_api_version__ = "2024.12"
__array_namespace_info__ = namespace_info.Info
bool = namespace_info.bool_
newaxis = None

__all__ = ["Array", "FrozenArray", "__array_api_version__", "__array_namespace_info__", "bool"]
__all__ += ["compute", "e", "fft", "frozen", "inf", "linalg", "nan", "newaxis", "pi", "plan"]
__all__ += ["todense"]
for _room in (concatenation, creation, elementwise, indexing, namespace_info, numpy_functions):
    __all__ += _room.__all__
for _room in (ordering, products, reductions, reshaping):
    __all__ += _room.__all__
