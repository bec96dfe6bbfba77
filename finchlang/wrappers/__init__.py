"""Tensors that store nothing: windows, offsets, swizzles, masks, collapse, split, strided slices.

A wrapper stands where a tensor stands in an access; what it makes of the looplets of the tensor in it
goes out as looplets again (Finch'25 section 5.4, Burrito'24 section 4). The one idea: an index
expression such as `A[2:5][i]` or `A[i - 1]` costs no copy and keeps the structure, since ends of runs
and steps are moved, not coordinates one by one. Masks (`i == j`, `i < j`) are tensors of this kind,
too, which is how triangles come in.

>>> from finchlang import Session
>>> s = Session()
>>> _ = s.run("x = [1, 2, 3, 4]; y = Scalar(0); @finch for i = _; y[] += window(x, 2:3)[i] end")
>>> s["y"].value
5
"""
