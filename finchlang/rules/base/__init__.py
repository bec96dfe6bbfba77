"""The rules of Finch'25 Figs 14 and 15, with their state and the evaluation context E."""
