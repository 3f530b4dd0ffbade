"""Which frames are code of eas, and which are a kernel's author's."""

from __future__ import annotations

import contextlib
import os
from types import CodeType, FrameType

import numpy as np

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_KERNEL_CODE = tuple(_PACKAGE + part.replace("/", os.sep) for part in ("lib/", "examples/", "command_line/demo"))  # kernels that eas ships read like a user's
_BETWEEN = (contextlib.__file__, os.path.dirname(np.__file__) + os.sep)  # stand between a kernel and us
_internal: dict[str, bool] = {}
_inside: dict[int, tuple[CodeType, frozenset[int]]] = {}  # with the code, so that its id stays its own
_MOST_KEPT = 64


def is_internal(filename: str) -> bool:
    """Whether a file is part of eas itself (or carries its calls) and so never shown to the kernel's author."""
    known = _internal.get(filename)
    if known is None:
        ours = filename.startswith(_PACKAGE) and not filename.startswith(_KERNEL_CODE)
        known = _internal[filename] = ours or filename.startswith(_BETWEEN)
    return known


def is_our_frame(frame: FrameType) -> bool:
    """Whether a frame runs code of eas, the methods that `dataclass` writes for it included."""
    code = frame.f_code.co_filename
    return is_internal(code) or (code == "<string>" and str(frame.f_globals.get("__name__")).startswith("eas."))


def is_body_of(inner: CodeType, outer: CodeType) -> bool:
    """Whether a frame only encloses the next one lexically: a loop body that the rewrite made, a comprehension."""
    return (inner.co_name == outer.co_name or inner.co_name.startswith("<")) and id(inner) in _codes_in(outer)


def _codes_in(code: CodeType) -> frozenset[int]:
    """The ids of the codes of functions inside of a function, which may be thousands; kept for those asked about last."""
    known = _inside.get(id(code))
    if known is None:
        if len(_inside) >= _MOST_KEPT:
            _inside.clear()
        known = _inside[id(code)] = code, frozenset([id(const) for const in code.co_consts if isinstance(const, CodeType)])
    return known[1]
