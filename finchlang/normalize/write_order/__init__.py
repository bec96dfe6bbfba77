"""Updates out of the order of a format, and the workspaces that they go through."""
