"""Fourier transforms (`fft` of the array API standard) by NumPy, of dense arrays. Their results are NumPy's
arrays where they are complex, since there are no complex arrays here; a large sparse array is refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from finchlang.array.creation import asarray
from finchlang.array.expression import Array
from finchlang.array.linalg import by_numpy

__all__ = ["fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn"]
__all__ += ["ifftshift", "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn"]

fft, fft2, fftn, fftshift, hfft, ifft, ifft2, ifftn = (
    by_numpy(np.fft, name) for name in __all__[:9] if name != "fftfreq"
)
ifftshift, ihfft, irfft, irfft2, irfftn, rfft, rfft2, rfftn = (
    by_numpy(np.fft, name) for name in __all__[9:] if name != "rfftfreq"
)


def fftfreq(n: int, /, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of a transform of `n` numbers at distances `d`."""
    return asarray(np.fft.fftfreq(n, d), dtype=dtype)


def rfftfreq(n: int, /, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of a transform of `n` real numbers at distances `d`."""
    return asarray(np.fft.rfftfreq(n, d), dtype=dtype)
