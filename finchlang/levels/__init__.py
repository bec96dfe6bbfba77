"""Looplets, the level interface, and one level a file; `workspace/` has workspaces and their policies.

A tensor is a tree of fibers, with one level for each mode (Finch'25 section 4). In: a fiber of a level.
Out: its looplets (`looplets.py`, Finch'25 Table 2), which name the regions of the fiber; `unfurl` makes
them, and rules lower them. `declare`, `assemble`, `freeze` and `thaw` tell a level when writing begins
and ends (Table 3). Its `layout` (`layout.py`) names its arrays; operations on whole arrays (check, move,
list) follow from the layout.

The one idea: a level describes its own structure and never sees another level. The rules know how to
walk two levels together.

>>> from finchlang.levels.element import Element
>>> from finchlang.levels.dense import Dense
>>> from finchlang.levels.sparse_list import SparseList
>>> csr = Dense(SparseList(Element(0.0)))
>>> print(csr, csr.order)
Dense(SparseList(Element(0.0))) 2
"""
