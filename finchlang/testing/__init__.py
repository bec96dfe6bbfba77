"""Differential testing: a script run in several ways, compared, reduced and replayed.

In: the text of a script, from a file or from the generator (`generate.py`, with the tables of
`tables.toml`). Out: the differences (`compare_engines.py`), reduced (`reduce.py`), as a
file that shows one (`replay.py`).

The one idea: a case is always the text of a script. So generating, comparing, reducing and replaying
need nothing of each other.

>>> from finchlang.testing.compare_engines import compare
>>> found = compare("x = [1, 2]; y = Scalar(0); @finch for i = _; y[] += x[i] end")
>>> found.differences
[]
"""
