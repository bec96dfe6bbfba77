"""Text to nodes and back, and messages about wrong texts.

In: a text. `lines.py` divides it into lines, Lark parses it by `grammar/finch.lark` (`parse.py`), and two
builders make nodes (`build_script.py`, `build_kernel.py`). Out: nodes; the printer turns nodes to text
again. `diagnostics.py` and `mend.py` explain a text that does not parse, in the words of its
author.

The one idea: printing and parsing are inverse to each other. So a program in any stage of normalisation
can be read as text.

>>> from finchlang.text.parse import parse_kernel
>>> from finchlang.text.print import pretty
>>> print(pretty(parse_kernel("for i=_; y[i]+=x[i]*2 end")))
for i = _
    y[i] += x[i] * 2
end
"""
