"""Kernels to read and to start from; each runs as `python -m examples.<name>`."""
