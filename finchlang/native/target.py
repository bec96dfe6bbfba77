"""LLVM's library, the processor that code is compiled for (the one that runs this), and names in the disk
cache of what is compiled for it."""

from __future__ import annotations

import _thread
import hashlib
import sys
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import numpy as np

from finchlang.base.disk_cache import package_digest
from finchlang.base.locks import free_at_fork

T = TypeVar("T")

#: what LLVM is to free at the next call of `uninterrupted`
discarded: list[Any] = []


def uninterrupted(work: Callable[[], T]) -> T:
    """The result of `work`, which calls LLVM. What a signal's handler raises would leave llvmlite's objects
    half freed, so that they are freed twice, or its lock taken. Handlers run in the main thread, so there
    `work` is done by another thread, which ends its work even if an interrupt ends the wait for it."""
    if threading.get_ident() != threading.main_thread().ident:
        return work()
    results: list[T] = []
    errors: list[BaseException] = []
    running = threading.Lock()
    running.acquire()

    def run() -> None:
        try:
            discarded.clear()
            results.append(work())
        except BaseException as error:
            errors.append(error)
        running.release()

    try:
        _thread.start_new_thread(run, ())  # an interrupt may break `Thread.start`
    except RuntimeError:  # no thread can start while Python ends
        return work()
    running.acquire()
    if errors:
        raise errors.pop()
    return results.pop()


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
def _processor() -> tuple[str, str, Any]:
    """LLVM's names of the machine and its processor, and the processor's features."""
    return uninterrupted(
        lambda: (
            llvm().get_default_triple(),
            llvm().get_host_cpu_name(),
            llvm().get_host_cpu_features(),
        )
    )


@cache
def target_machine(level: int = 2) -> Any:
    """LLVM's description of this processor; `level` is how much its code generator optimises (0 to 3).
    Initialises LLVM."""
    triple, name, _ = _processor()

    def work() -> Any:
        llvm().initialize_native_target()
        llvm().initialize_native_asmprinter()
        target = llvm().Target.from_triple(triple)
        return target.create_target_machine(cpu=name, features=_features(), opt=level, jit=True)

    return uninterrupted(work)


def _features() -> str:
    """The features of this processor that LLVM is to use. On AMD's (up to Zen 5) a gather takes longer than
    a load for each entry, unless the time is spent waiting for memory."""
    _, name, features = _processor()
    is_amd = name.startswith("znver")
    return f"{features.flatten()},+prefer-no-gather" if is_amd else features.flatten()


@cache
def has_masks() -> bool:
    """Whether all vector instructions take masks (AVX-512)."""
    features = _processor()[2]
    return bool(features.get("avx512f") and features.get("avx512vl"))


@cache
def has_fused() -> bool:
    """Whether a product is added to something without being rounded first, in one instruction."""
    triple, _, features = _processor()
    return bool(features.get("fma")) or triple.startswith(("aarch64", "arm64"))


def lanes() -> int:
    """How many Float64 a vector has."""
    return 8 if has_masks() else 4 if _processor()[2].get("avx2") else 2


def key_of(*parts: str) -> str:
    """The name under which something made of `parts` is kept: a hash of these, of the versions of the
    package and of libraries, and of the processor."""
    return hashlib.sha256(repr((*parts, _makers())).encode()).hexdigest()


@cache
def _makers() -> tuple[str, ...]:
    """What object code depends on besides its source."""
    import llvmlite

    versions = package_digest(), llvmlite.__version__, np.__version__, llvm().llvm_version_info
    return (*map(str, versions), *_processor()[:2], _features())
