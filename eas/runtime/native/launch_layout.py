"""Where runtimes find what a native launch has read: words of `struct frame` in eas/native/plan.h."""

from __future__ import annotations

_MAX_ARGS = 64
ENDS = 2 * _MAX_ARGS + 8
"""The address behind each buffer, by slot; the slots themselves come first."""
RECORD = ENDS + _MAX_ARGS
"""What a program that fails writes: 5 words."""
FACTS = RECORD + 5
"""Bit k: fact k of the plan holds. The three extents of the grid follow."""
OBJECTS = FACTS + 4
"""The objects of buffers, by slot, for those who keep them after the call."""
