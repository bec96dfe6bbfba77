"""Derived rules: each takes several steps of other rules at once, for speed."""
