"""The names that a text of LLVM reads from around it: what becomes parameters where the text becomes a function."""

from __future__ import annotations

import re

from eas.codegen.llvm.text import Reg

_NAME = re.compile(r"%(?!type\.)[A-Za-z_][\w.]*")
_DEFINED = re.compile(r"^  (%[\w.]+) = |^([\w.]+):$", re.MULTILINE)

AROUND = {
    **{name: Reg(name, "ptr") for name in ("%args", "%scratch", "%err", "%log")},
    **{name: Reg(name, "i64") for name in ("%pid0", "%pid1", "%pid2", "%gx", "%gy", "%gz", "%program", "%to")},
    "%is_joined": Reg("%is_joined", "i1"),
}
"""What the function around all programs defines."""


def defined_names(written: str) -> set[str]:
    """The names of results and blocks."""
    return {"%entry", *(name or f"%{label}" for name, label in _DEFINED.findall(written))}


def free_names(written: str) -> list[str]:
    """The names that lines read and do not define, in the order of their first use."""
    defined = defined_names(written)
    return [name for name in dict.fromkeys(_NAME.findall(written)) if name not in defined]


__all__ = ["AROUND", "defined_names", "free_names"]
