"""Calling compiled kernels on tensors, quickly, and so that a call that fails changes nothing; and
finding on disk those that were compiled before."""
