"""The processor that code is compiled for: this very one."""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as llvm


@cache
def target_machine(level: int = 2) -> Any:
    """LLVM's description of this processor, and how much its code generator optimises (0 to 3);
    initialises LLVM."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=level,
        jit=True,
    )


@cache
def environment() -> str:
    """What object code depends on besides what is compiled and our own sources."""
    host = llvm.get_host_cpu_features().flatten()
    version = ".".join(map(str, llvm.llvm_version_info))
    return f"LLVM {version} {llvm.get_default_triple()} {llvm.get_host_cpu_name()} {host}"


@cache
def has_masks() -> bool:
    """Whether every vector instruction can be told which lanes to leave out (AVX-512)."""
    features = llvm.get_host_cpu_features()
    return bool(features.get("avx512f") and features.get("avx512vl"))
