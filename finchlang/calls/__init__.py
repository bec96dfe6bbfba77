"""From values to a call and back, so that a call that fails changes nothing.

Values of a script or of Python come in, and the text of a kernel; what the kernel wrote goes out to its
owners. At each call arguments are described afresh (`arguments.py`); their formats choose a compiled
kernel (`kernel.py`: CallSite, SpecializedKernel), which is found in memory, on disk
(`compile_cache.py`) or staged (`staging.py`); `undo.py` keeps what is written safe; `runner.py` is all
of that for one kernel text. The one idea: nothing about the user's memory is believed twice; only what
depends on formats is kept.

>>> from finchlang import Session
>>> s = Session()
>>> _ = s.run("x = [1, 2]; @finch for i = _; x[i] *= 2 end")
>>> s["x"].tolist()
[2, 4]
"""
