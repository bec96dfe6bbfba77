"""The passes of normalisation. Each takes a program and gives a program."""
