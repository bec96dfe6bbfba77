"""The command `finch` and its prompt: everything a person at a terminal meets."""
