"""The denotational semantics (Finch'25 Fig 8b) on dense arrays, and its dimensions."""
