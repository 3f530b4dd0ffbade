"""Settings that every launch asks for, parsed again only after somebody has changed them."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from eas.base.config import Setting

T = TypeVar("T")

_parsed: dict[tuple[str, object], Any] = {}
_encode = getattr(os.environ, "encodekey", str)
_keys: dict[str, Any] = {}


def setting_now(setting: Setting[T]) -> T:
    """`setting()`, at a tenth of its time: `os.environ` encodes and decodes each time it is asked."""
    raw = _raw(setting.name)
    value: T = _parsed.get((setting.name, raw), _parsed)
    if value is not _parsed:
        return value
    value = setting()
    if _raw(setting.name) == raw:  # else another thread has changed it meanwhile
        _parsed[setting.name, raw] = value
    return value


def _raw(name: str) -> object:
    """The variable as the environment keeps it: bytes on POSIX."""
    table = getattr(os.environ, "_data", None)
    if type(table) is not dict:
        return os.environ.get(name)
    key = _keys.get(name)
    if key is None:
        key = _keys[name] = _encode(name)
    return table.get(key)
