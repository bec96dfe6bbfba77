"""Residual to residual: passes that make the code of the rules faster or safer. They change no result.

In: a residual program. Out: another one with the same results. Each pass is a function in a file of its
own, in the list PASSES of `pipeline.py`. A pass is right alone and in any choice with others;
`tests/contracts/test_residual_pass.py` checks this.

The one idea: LLVM does what LLVM does well. The passes here use facts that LLVM cannot know, such as
that nobody else writes a buffer, or that a sum may be reordered.

>>> from finchlang.optimize.pipeline import PASSES
>>> all(callable(change) for change in PASSES)
True
"""
