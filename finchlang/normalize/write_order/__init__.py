"""What is written out of order, and the workspaces it goes through."""
