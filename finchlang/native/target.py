"""The processor that code is compiled for, the one that runs this, and names in the disk cache of what is
compiled for it."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from typing import Any

import numpy as np

from finchlang.base.disk_cache import package_digest
from finchlang.base.locks import free_at_fork


@cache
def llvm() -> Any:
    """LLVM's library, imported when a kernel is first looked for: that takes a third of the time in which
    the rest of the package is imported."""
    from llvmlite import binding

    return binding


def _lock_of_llvm() -> Any:
    ffi: Any = sys.modules.get("llvmlite.binding.ffi")
    library = getattr(ffi, "lib", None)
    return library and library._lock._lock


free_at_fork(_lock_of_llvm)  # llvmlite takes it for what is freed outside of our locks


@cache
def target_machine(level: int = 2) -> Any:
    """LLVM's description of this processor; `level` is how much its code generator optimises (0 to 3).
    Initialises LLVM."""
    llvm().initialize_native_target()
    llvm().initialize_native_asmprinter()
    target = llvm().Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm().get_host_cpu_name(),
        features=_features(),
        opt=level,
        jit=True,
    )


def _features() -> str:
    """The features of this processor that LLVM is to use. On AMD's (up to Zen 5) a gather takes longer than
    a load for each entry, unless the time is spent waiting for memory."""
    features = llvm().get_host_cpu_features().flatten()
    is_amd = llvm().get_host_cpu_name().startswith("znver")
    return f"{features},+prefer-no-gather" if is_amd else features


@cache
def has_masks() -> bool:
    """Whether all vector instructions take masks (AVX-512)."""
    features = llvm().get_host_cpu_features()
    return bool(features.get("avx512f") and features.get("avx512vl"))


@cache
def has_fused() -> bool:
    """Whether a product is added to something without being rounded first, in one instruction."""
    features = llvm().get_host_cpu_features()
    return bool(features.get("fma")) or llvm().get_default_triple().startswith(("aarch64", "arm64"))


def lanes() -> int:
    """How many Float64 a vector has."""
    return 8 if has_masks() else 4 if llvm().get_host_cpu_features().get("avx2") else 2


def key_of(*parts: str) -> str:
    """The name under which something made of `parts` is kept: a hash of these, of the versions of the
    package and of libraries, and of the processor."""
    return hashlib.sha256(repr((*parts, _makers())).encode()).hexdigest()


@cache
def _makers() -> tuple[str, ...]:
    """What object code depends on besides its source."""
    import llvmlite

    versions = package_digest(), llvmlite.__version__, np.__version__, llvm().llvm_version_info
    processor = llvm().get_default_triple(), llvm().get_host_cpu_name(), _features()
    return (*map(str, versions), *processor)
