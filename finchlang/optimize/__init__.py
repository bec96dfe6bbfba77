"""Passes over residual programs: each a function from residual to residual, usable alone."""
