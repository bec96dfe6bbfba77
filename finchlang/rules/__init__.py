"""The semantics, written once: Finch'25 Figs 14 and 15 as rules over a host (DESIGN section 3)."""
