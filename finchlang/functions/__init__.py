"""Loops and functions of scripts as wholes: the statements around kernels, run over a host.

In: a `Unit`, which `script/as_unit.py` makes of a loop and of the functions that it calls. A unit has
numbers with names of their own, and tensors in slots; a slot is the memory of one tensor. Out: the
operations of the unit on a host, which performs or records them. The rules of kernels run its kernels,
in the same state.

The one idea: a name stands for a slot. `a, b = b, a` exchanges the memory of two slots (`ir.Exchange`),
so the meaning of every name is known before anything runs. No rule gives a tensor a name: whether a loop
can be a unit at all depends on what its names mean at the joins of all ways (`script/unit_names.py`).

>>> from finchlang import Session
>>> session = Session()
>>> session.run("total = 0; for k = 1:2000; total += k; end; total")
2001000
>>> session.staged
['<input>:1:12: for is staged']
"""
