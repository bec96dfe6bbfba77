"""Tensors in files, one format a file: Matrix Market, FROSTT's `.tns`, `.ttx`, `.npy`, Binsparse.

In: a path, and a tensor to write. Out: a tensor that was read, or a file. A file is written whole or not
at all (`base/paths.py`). `suffixes.py` chooses the format by the end of the name.

The one idea: a file is not trusted. Its sizes are compared with its length and with the memory before
anything is allocated, and its coordinates are compared with its shape.

>>> import os, tempfile
>>> import numpy as np
>>> from finchlang.files.suffixes import fread, fwrite
>>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
>>> fwrite(path, np.array([1.0, 2.0]))
>>> print(np.asarray(fread(path)))
[1. 2.]
"""
