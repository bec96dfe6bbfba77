r"""The script around kernels: the text of a file, or of the prompt.

In: nodes of scripts. Out: values. `evaluate.py` turns each statement into a Python closure once. A kernel
becomes a call site of `calls/`; `@array` and `@einsum` become expressions of `array/`.

The one idea: scripts compute what is static to a kernel: formats, sizes, data from files, loops around
kernels. They have no semantics of tensors of their own.

>>> from finchlang import Session
>>> s = Session()
>>> _ = s.run("n = 0; while n < 3 n += 1 end; s = \"n is $n\"")
>>> s["s"]
'n is 3'
"""
