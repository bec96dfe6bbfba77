"""The language as data: element types, nodes of both strata, traversal, control flow, user functions.

What every other room reads and makes: immutable trees of the kernel language (Finch'25 Fig 8a) and of
the script around it, one dataclass for a construct, compared by structure, each with its place in the
text. The one idea: nodes have no behaviour. What they mean is in `rules/` and `denote/`, how they are
written is in `text/`; here is only how one walks over them and rewrites them. Import the nodes as
`ast`, what walks over them as `trees`:

>>> from finchlang.syntax import nodes as ast, traversal as trees
>>> i, j = ast.Index("i"), ast.Index("j")
>>> access = ast.Access(ast.Variable("A"), (i, j))
>>> trees.substitute(access, {j: i}) == ast.Access(ast.Variable("A"), (i, i))
True
"""
