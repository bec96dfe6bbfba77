"""Residual programs to LLVM IR, machine code, and a callable; all there is of `ctypes`.

A residual program comes in; a `NativeKernel` goes out, which is called with the addresses of arrays.
`emit.py` writes LLVM IR, `compiler.py` has LLVM optimise it, `link.py` puts object code into memory,
`abi.py` says how arguments lie, `compiled_kernel.py` calls. The one idea: native code is given pointers
and sizes that were looked at in this very call, and asks nothing back but room for arrays that grow
(`procedure_texts.py`).

>>> from finchlang.native.jit import llvm_text
>>> from finchlang.host import ir
>>> empty = ir.Residual("kernel", (), (), (), ir.Code(()))
>>> "define" in llvm_text(empty)
True
"""
