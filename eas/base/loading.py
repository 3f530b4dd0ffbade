"""Modules that are imported when they are first used, while a signal handler or `__del__` may need them, too.

Who comes in the middle of an import on its own thread sees half a module, and cannot wait for the rest. So
another thread imports, and everybody waits for that one.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from importlib import import_module

from eas.base.aside import Aside

_going_on: dict[Aside[None], None] = {}
_importers: set[int] = set()


def load(*names: str) -> None:
    """Afterwards these modules are there, whole."""
    missing = [name for name in names if not _is_whole(name)]
    if not missing:
        return
    if sys.is_finalizing() or threading.get_ident() in _importers:
        _import(missing)
        return
    aside = Aside(functools.partial(_import_aside, missing))
    _going_on[aside] = None
    try:
        aside.result()
    finally:
        _going_on.pop(aside, None)


def _is_whole(name: str) -> bool:
    module = sys.modules.get(name)
    return module is not None and not getattr(module.__spec__, "_initializing", False)


def _import(names: list[str]) -> None:
    for name in names:
        import_module(name)


def _import_aside(names: list[str]) -> None:
    here = threading.get_ident()
    _importers.add(here)
    try:
        _import(names)
    finally:
        _importers.discard(here)


def _finish() -> None:
    """Nobody forks in the middle: the child would wait for a thread that it does not have."""
    if threading.get_ident() not in _importers:
        for aside in list(_going_on):
            aside.finish()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_finish)
