"""Rules that do in one step what several of the others do."""
