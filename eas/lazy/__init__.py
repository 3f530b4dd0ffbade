"""Lazy tensors: arithmetic builds a graph of nodes, realising it runs as few kernels as possible."""
