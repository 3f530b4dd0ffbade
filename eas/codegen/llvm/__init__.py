"""Scheduled IR -> LLVM text."""
