"""A stamp of eas' own files: whoever changes a pass must not get code that the old pass made."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@functools.cache
def source_stamp() -> str:
    """Changes with the name, size or time of any file of the package; of one in an archive it is empty."""
    return hashlib.sha256("\0".join(sorted(_files(_PACKAGE))).encode()).hexdigest()[:32]


def _files(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    yield f"{entry.path[len(_PACKAGE) :]} {status.st_size} {status.st_mtime_ns}"
                elif "." not in entry.name and not entry.name.startswith("_") and entry.is_dir():
                    yield from _files(entry.path)
    except OSError:
        return
