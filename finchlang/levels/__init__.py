"""Looplets, the level interface, and one level a file."""
