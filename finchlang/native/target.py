"""The processor that code is compiled for, this very one, and the names that what is made for it has in the
cache on disk."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from finchlang.base.disk_cache import package_digest


@cache
def target_machine(level: int = 2) -> Any:
    """LLVM's description of this processor, and how much its code generator optimises (0 to 3);
    initialises LLVM."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=_features(),
        opt=level,
        jit=True,
    )


def _features() -> str:
    """What this processor can do, and is quick at: on AMD's (to Zen 5) a gather takes longer than a
    load for each entry, unless there are so many that memory is what is waited for."""
    features = llvm.get_host_cpu_features().flatten()
    return f"{features},+prefer-no-gather" if _is_amd() else features


def _is_amd() -> bool:
    return llvm.get_host_cpu_name().startswith("znver")


@cache
def _environment() -> str:
    """What object code depends on besides what is compiled and our own sources."""
    host = _features()
    version = ".".join(map(str, llvm.llvm_version_info))
    return f"LLVM {version} {llvm.get_default_triple()} {llvm.get_host_cpu_name()} {host}"


@cache
def has_masks() -> bool:
    """Whether every vector instruction can be told which lanes to leave out (AVX-512)."""
    features = llvm.get_host_cpu_features()
    return bool(features.get("avx512f") and features.get("avx512vl"))


def key_of(*parts: str) -> str:
    """The name of what is kept for `parts`, as it is made by this version of the package and of the
    libraries, for this processor."""
    return hashlib.sha256(repr((*parts, _makers())).encode()).hexdigest()


@cache
def _makers() -> tuple[str, ...]:
    return package_digest(), llvmlite.__version__, np.__version__, _environment()
