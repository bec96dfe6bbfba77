"""What knows nothing of the language: errors and their places, files, locks, the cache, aligned memory.

Nothing comes in but texts, arrays and bytes, and every other room may use what is here. The one idea: a
user's fault is a `FinchError`, which has a kind (one of ten) and the place in the user's text, and
shows the line it speaks of; whatever else goes wrong is a `Bug`, ours.

>>> from finchlang.base.errors import FinchError, Source, Span
>>> place = Span(Source("y[i] = 1", "<input>"), 1, 3, 1, 4)
>>> print(FinchError("bounds", "there is no coordinate 9", place))
<input>:1:3: bounds error: there is no coordinate 9
1 | y[i] = 1
      ^
"""
