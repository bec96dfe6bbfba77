"""The machine, the context E, and the rules of Finch'25 Figs 14 and 15."""
