"""Text to nodes and back, and what is wrong with a text.

A text comes in; lines are told apart (`lines.py`), Lark parses by `grammar/finch.lark` (`parse.py`),
two builders make nodes of its trees (`build_script.py`, `build_kernel.py`); the printer turns nodes to
text again. The one idea: printing and parsing are inverse to each other, so a program in any stage of
normalisation is a program that can be read. What does not parse is told in the words of whoever wrote
it (`diagnostics.py`, `other_languages.py`).

>>> from finchlang.text.parse import parse_kernel
>>> from finchlang.text.print import pretty
>>> print(pretty(parse_kernel("for i=_; y[i]+=x[i]*2 end")))
for i = _
    y[i] += x[i] * 2
end
"""
