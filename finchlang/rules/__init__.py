"""The semantics, written once: Finch'25 Figs 14 and 15 as rules over a host.

A program in normal form comes in, what it does goes to the host. `base/` has the machine (`engine.py`),
the evaluation context E (`context.py`) and the rules of the paper; `derived/` those that do several of
their steps in one, which `--rules=paper` leaves out and which never change what is stored; `table.py`
puts both in order. The one idea: a rule looks only at what is static for every host (syntax, formats,
looplets), and never asks which host it has; so the interpreter and the compiler cannot disagree on the
meaning.

>>> from finchlang.rules.table import rules
>>> [rule.name for rule in rules("paper")][:6]
['Extent', 'Thunk', 'Shift', 'Phase', 'Switch', 'Simplify']
"""
