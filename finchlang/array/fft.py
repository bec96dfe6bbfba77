"""Fourier transforms (`fft` of the array API standard) by NumPy, of dense arrays. Their results are NumPy's
arrays where they are complex, since there are no complex arrays here; a large sparse array is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from finchlang.array.linalg import dense_operands

__all__ = ["fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn"]
__all__ += ["ifftshift", "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn"]


def _by_numpy(name: str) -> Callable[..., Any]:
    def function(x: Any, /, *others: Any, **keywords: Any) -> Any:
        return getattr(np.fft, name)(*dense_operands(name, (x, *others)), **keywords)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"NumPy's `fft.{name}`, as a NumPy array. Raises TypeError for a large sparse array."
    )
    return function


fft, fft2, fftfreq, fftn, fftshift, hfft, ifft, ifft2, ifftn = map(_by_numpy, __all__[:9])
ifftshift, ihfft, irfft, irfft2, irfftn, rfft, rfft2, rfftfreq, rfftn = map(_by_numpy, __all__[9:])
