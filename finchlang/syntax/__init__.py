"""The language as data: element types, nodes of both strata, traversal, control flow, user functions."""
