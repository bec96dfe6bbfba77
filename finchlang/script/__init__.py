r"""The script around kernels: what stands in a file or at the prompt.

Nodes of the script stratum come in, values go out. `evaluate.py` turns each statement into a Python
closure once; a kernel in it becomes a call site of `calls/`, `@array` and `@einsum` become expressions
of `array/`. The one idea: scripts are for what is static to a kernel (formats, sizes, data from files,
loops around kernels) and have no semantics of tensors of their own.

>>> from finchlang import Session
>>> s = Session()
>>> _ = s.run("n = 0; while n < 3 n += 1 end; s = \"n is $n\"")
>>> s["s"]
'n is 3'
"""
