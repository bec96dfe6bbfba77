"""The language as data: element types, nodes of both strata, traversal, control flow, user functions.

All other rooms read and make these nodes: immutable trees of kernels (Finch'25 Fig 8a) and of scripts.
There is one dataclass for each construct. Nodes are compared by structure and have a place in the text.

The one idea: nodes have no behaviour. `rules/` and `denote/` have their meaning, `text/` their spelling;
here are functions that walk over nodes and rewrite them. Import the nodes as `ast`, and the functions as
`trees`:

>>> from finchlang.syntax import nodes as ast, traversal as trees
>>> i, j = ast.Index("i"), ast.Index("j")
>>> access = ast.Access(ast.Variable("A"), (i, j))
>>> trees.substitute(access, {j: i}) == ast.Access(ast.Variable("A"), (i, i))
True
"""
