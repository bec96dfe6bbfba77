"""Tensors: levels, scalars, masks and wrappers, each written once as looplets over host operations."""
