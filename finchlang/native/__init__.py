"""Residual programs to LLVM IR, machine code, and a callable. All uses of `ctypes` are here.

In: a residual program. Out: a `NativeKernel`, which is called with the addresses of arrays. `emit.py`
writes LLVM IR, `compiler.py` has LLVM optimise it, `link.py` puts object code into memory, `abi.py`
describes the arguments, and `compiled_kernel.py` calls.

The one idea: native code gets pointers and sizes that were checked in this very call. It asks for one
thing only, more room for arrays that grow (`procedure_texts.py`).

>>> from finchlang.native.jit import llvm_text
>>> from finchlang.host import ir
>>> empty = ir.Residual("kernel", (), (), (), ir.Code(()))
>>> "define" in llvm_text(empty)
True
"""
