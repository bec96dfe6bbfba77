"""Residual to residual: what makes the code of the rules quicker, or safer, and is no part of their
meaning.

A residual program comes in, another one goes out that does the same. Each pass is a function in a file
of its own, in the list PASSES of `pipeline.py`, and right alone and in any choice with others, as
`tests/contracts/test_residual_pass.py` holds. The one idea: what LLVM does well is left to LLVM; here
is what it cannot know, that a buffer is written by nobody else or that a sum may be reordered.

>>> from finchlang.optimize.pipeline import PASSES
>>> all(callable(change) for change in PASSES)
True
"""
