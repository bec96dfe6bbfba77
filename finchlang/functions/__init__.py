"""Loops and functions of scripts as wholes: the statements around kernels, run over a host.

In: a `Unit`, which `script/as_unit.py` makes of a loop and of the functions that are called in it: numbers
that have names of their own, and tensors in slots. Out: what it does, by a host, which executes or records
it; its kernels are run by the kernel's rules in the same state.

The one idea: a name is a slot, and tensors that change places exchange their memory (`ir.Exchange`), so
that it is known before anything runs what each name means.

>>> from finchlang import Session
>>> session = Session()
>>> session.run("total = 0; for k = 1:2000; total += k; end; total")
2001000
>>> session.staged
['<input>:1:12: for is staged']
"""
