"""From values to a call of a kernel and back. A call that fails changes nothing.

In: the text of a kernel, and values of a script or of Python. Out: the results, handed to their owners.
Each call describes its arguments anew (`arguments.py`). Their formats choose a compiled kernel
(`kernel.py`), from memory, from disk (`compile_cache.py`), or staged now (`staging.py`). `undo.py` keeps
the old state of outputs. `runner.py` does all this for one text.

The one idea: facts about the user's memory are checked at every call. Only facts that follow from
formats are kept.

>>> from finchlang import Session
>>> s = Session()
>>> _ = s.run("x = [1, 2]; @finch for i = _; x[i] *= 2 end")
>>> s["x"].tolist()
[2, 4]
"""
