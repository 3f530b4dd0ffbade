"""Kernels as operators of torch."""
