"""The semantics, written once: Finch'25 Figs 14 and 15 as rules over a host.

In: a program in normal form. Out: its operations, given to the host. `base/` has the rules of the paper,
the state and the evaluation context E (`context.py`). `derived/` has rules that take several of these
steps at once; `--rules=paper` leaves them out, and they never change what is stored. `table.py` puts all
in order, and `host/engine.py` applies them.

The one idea: a rule looks only at facts that every host has (syntax, formats, looplets). It never asks
which host runs it, so interpreter and compiler cannot disagree on the meaning.

>>> from finchlang.rules.table import rules
>>> [rule.name for rule in rules("paper")][:6]
['Extent', 'Thunk', 'Shift', 'Phase', 'Switch', 'Simplify']
"""
