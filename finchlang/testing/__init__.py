"""Differential testing: a script run in several ways, compared, reduced and replayed.

A text comes in, from a user's file or from the generator (`generate.py`, by the tables of `grammar.py`
and `templates.py`); what differs goes out (`compare_engines.py`: `compare`), made small (`reduce.py`),
as one file that shows it (`replay.py`). The one idea: a case is always the text of a script, whoever
made it, so that generating, comparing, reducing and replaying need nothing of each other.

>>> from finchlang.testing.compare_engines import compare
>>> found = compare("x = [1, 2]; y = Scalar(0); @finch for i = _; y[] += x[i] end")
>>> found.differences
[]
"""
