"""The partition of a program into loop nests, which all targets share, and the analyses behind it."""
