"""The passes, each program to program."""
