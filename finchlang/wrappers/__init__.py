"""Tensors that store nothing: windows, offsets, swizzles, masks, collapse, split, strided slices.

A wrapper stands in an access in place of a tensor. In: the looplets of the tensor inside it. Out:
looplets again (Finch'25 section 5.4, Burrito'24 section 4). Masks (`i == j`, `i < j`) are wrappers too;
triangles come in through them.

The one idea: an index expression such as `A[2:5][i]` or `A[i - 1]` copies nothing and keeps the
structure. The ends of runs and steps are moved, and not single coordinates.

>>> from finchlang import Session
>>> s = Session()
>>> _ = s.run("x = [1, 2, 3, 4]; y = Scalar(0); @finch for i = _; y[] += window(x, 2:3)[i] end")
>>> s["y"].value
5
"""
