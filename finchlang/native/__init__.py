"""Native code: residual programs become LLVM IR, object code and callable kernels."""
