"""The kinds of loops that one nest becomes on a CPU."""
