"""What knows nothing of the language: errors with spans, locks, the disk cache, aligned memory."""
