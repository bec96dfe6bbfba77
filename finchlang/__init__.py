"""finchlang: sparse and structured tensors in Finch syntax, by one set of rules in every engine."""

from finchlang.protocols import join
from finchlang.script.python_laws import operator
from finchlang.session import Session
from finchlang.source import FinchError
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor

__version__ = "0.1.0"
__all__ = [
    "FinchError",
    "Scalar",
    "Session",
    "SwizzledTensor",
    "Tensor",
    "__version__",
    "operator",
]

for _kind in (Tensor, SwizzledTensor, Scalar):
    join(_kind)  # they are arrays, too: `finchlang.array`
