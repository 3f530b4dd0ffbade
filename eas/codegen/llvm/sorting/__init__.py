"""Sorting networks as LLVM text."""
