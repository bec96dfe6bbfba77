"""Tensors that store nothing: windows, swizzles, masks, and what shape operators make."""
