"""Colours for those who read a terminal; everything else gets plain text."""

from __future__ import annotations

import os
import sys

_CODES = {"dim": "2", "bold": "1", "yellow": "33", "cyan": "36", "green": "32", "magenta": "35"}


def paint(text: str, colour: str) -> str:
    """The text in a colour if stderr is a terminal that shows colours; see https://no-color.org."""
    return f"\033[{_CODES[colour]}m{text}\033[0m" if _has_colours() else text


def _has_colours() -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return bool(sys.stderr.isatty())
    except (AttributeError, ValueError):  # replaced by something else, or closed
        return False
