"""Calling compiled kernels on tensors, quickly, and so that a call that fails changes nothing."""
