"""What versions before 2026-11 kept in the software Metal's cache folder, which nothing reads any more."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

_KEY = "[0-9a-f]{32}"
_AT_TOP = re.compile(rf"engine-{_KEY}\.so|shim-{_KEY}\.pch|stubs-{_KEY}")
_BELOW = re.compile(rf"{_KEY}\.(so|spaces)")


@functools.cache
def remove_old_files(root: Path) -> None:
    """Remove them, once per process and folder; files of other users and names of others stay."""
    for entry in _old_files(root):
        with contextlib.suppress(OSError):
            if entry.stat(follow_symlinks=False).st_uid != os.geteuid():
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)


def _old_files(root: Path) -> Iterator[os.DirEntry[str]]:
    for entry in _scan(root):
        if _AT_TOP.fullmatch(entry.name):
            yield entry
        elif re.fullmatch("[0-9a-f]{2}", entry.name) and entry.is_dir(follow_symlinks=False):
            yield from (file for file in _scan(entry.path) if _BELOW.fullmatch(file.name))


def _scan(folder: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
