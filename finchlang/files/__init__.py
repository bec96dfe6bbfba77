"""Tensors in files, one format a file: Matrix Market, FROSTT's `.tns`, `.ttx`, `.npy`, Binsparse.

A path comes in, and for writing a tensor; a tensor goes out, or a file that is there whole or not at
all (`base/paths.py`). `suffixes.py` chooses by the name's end. The one idea: a file is not trusted. Its
sizes are held against its length and the memory before anything is made, and its coordinates against
its shape.

>>> import os, tempfile
>>> import numpy as np
>>> from finchlang.files.suffixes import fread, fwrite
>>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
>>> fwrite(path, np.array([1.0, 2.0]))
>>> print(np.asarray(fread(path)))
[1. 2.]
"""
