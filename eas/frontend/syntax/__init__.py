"""Rewrites a kernel's Python syntax into functional form."""
