"""finchlang: sparse and structured tensors in Finch syntax, by one set of rules in every engine."""

from __future__ import annotations

import gc
from importlib import import_module
from typing import TYPE_CHECKING, Any

from finchlang.base import late

if TYPE_CHECKING:
    from finchlang.base.errors import FinchError
    from finchlang.python.kernel_decorator import Kernel, function, kernel
    from finchlang.python.operator_decorator import operator
    from finchlang.python.session import Session
    from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor

__version__ = "0.1.0"
__all__ = [
    "FinchError",
    "Kernel",
    "Scalar",
    "Session",
    "SwizzledTensor",
    "Tensor",
    "__version__",
    "function",
    "kernel",
    "operator",
]

_MODULES = {
    "FinchError": "base.errors",
    "Kernel": "python.kernel_decorator",
    "Session": "python.session",
    **dict.fromkeys(("function", "kernel"), "python.kernel_decorator"),
    "load_ipython_extension": "repl.notebook",
    "operator": "python.operator_decorator",
    **dict.fromkeys(("Scalar", "SwizzledTensor", "Tensor"), "tensors.tensor"),
}
#: what messages of the parser ask, and what tensors and arrays have as methods that stands neither in
#: `finchlang.array` nor in its protocols
_ELSEWHERE = {
    "html": "script.display",
    **dict.fromkeys(("is_of_elements", "is_of_wholes"), "script.functions"),
    **dict.fromkeys(("preview", "show"), "script.show"),
    **dict.fromkeys(("reduced_function", "reduced_session"), "python.pickled"),
    "taken": "python.callables",
    "run_kernel": "calls.runner",
    "tensor_in_python": "python.from_python",
}


def _load(name: str) -> Any:
    """The function that a method of tensors and arrays stands for."""
    rooms = (_ELSEWHERE[name],) if name in _ELSEWHERE else ("array", "array.numpy_protocols")
    modules = [import_module(f"finchlang.{room}") for room in rooms]
    return getattr(next((m for m in modules if hasattr(m, name)), modules[-1]), name)


late.load = _load


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first used: `finch --version` needs none of them."""
    if name not in _MODULES:
        raise AttributeError(f"module 'finchlang' has no attribute '{name}'")
    collects = gc.isenabled()
    gc.disable()  # classes stay: Python would look among them for garbage, time and again, in vain
    try:
        value = globals()[name] = getattr(import_module(f"finchlang.{_MODULES[name]}"), name)
    finally:
        if collects:
            gc.enable()
    return value


def __dir__() -> list[str]:
    return __all__
