"""The script stratum: the language around the kernels, in a file or at the prompt."""
