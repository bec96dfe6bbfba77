"""Services that do not know the language: errors with places, files, locks, the cache, aligned memory.

In: texts, arrays and bytes. Every other room may use this one; this one uses no other.

The one idea: a fault of the user is a `FinchError`. It has one of ten kinds and a place in the user's
text, and it shows that line. Any other fault is a `Bug`, which is ours.

>>> from finchlang.base.errors import FinchError, Source, Span
>>> place = Span(Source("y[i] = 1", "<input>"), 1, 3, 1, 4)
>>> print(FinchError("bounds", "there is no coordinate 9", place))
<input>:1:3: bounds error: there is no coordinate 9
1 | y[i] = 1
      ^
"""
