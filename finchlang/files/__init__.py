"""Tensors in files, one format a file."""
