"""Looplets, the level interface, and one level a file; `workspace/` has workspaces and their policies.

A tensor is a tree of fibers, one level for each mode (Finch'25 section 4). A level is asked to `unfurl`
a fiber: it answers with looplets (`looplets.py`, Finch'25 Table 2), data that say of what regions the
fiber consists, and rules lower those. It is told when writing begins and ends (`declare`, `assemble`,
`freeze`, `thaw`: Table 3). How its arrays lie it says in its `layout` (`layout.py`): from that follows
what is done with them as a whole, such as to freeze, move, check and list them. The one idea: a level
describes its structure and never meets another level; how two of them are walked together is a matter
of rules.

>>> from finchlang.levels.element import Element
>>> from finchlang.levels.dense import Dense
>>> from finchlang.levels.sparse_list import SparseList
>>> csr = Dense(SparseList(Element(0.0)))
>>> print(csr, csr.order)
Dense(SparseList(Element(0.0))) 2
"""
