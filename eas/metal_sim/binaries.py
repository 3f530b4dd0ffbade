"""What the software Metal has built: kept in the disk cache, checked when read, loaded from memory of this process."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from eas.base import config
from eas.base.errors import BackendUnavailable
from eas.metal_sim.old_files import remove_old_files
from eas.runtime.disk_cache import DiskCache, cache_at, write_atomically

_folders: dict[int, Path] = {}  # process id -> its private folder: a fork makes its own
_numbers = itertools.count()
_PREFIX = "eas-sim-"
_LEFT_AFTER_S = 24 * 3600


def disk() -> DiskCache:
    """The cache that outlives the process; the same checks as for the code of the CPU backend."""
    return cache_at(config.sim_cache_dir)


def built(key: str, build: Callable[[], bytes]) -> bytes:
    """The binary of that key: one that can be trusted, else a new one. What no disk takes stays with the process."""
    caches = disk(), _own_cache()
    for cache in caches:
        data = cache.get(key)
        if data is not None:
            return data
    if caches[0].root is not None:
        remove_old_files(caches[0].root)
    data = build()
    if not caches[0].put(key, data):
        DiskCache(private_folder() / "cache").put(key, data)
    return data


def _own_cache() -> DiskCache:
    folder = _folders.get(os.getpid())
    return DiskCache(None if folder is None else folder / "cache")


# --- temporary files ------------------------------------------------------------------------------


def private_folder() -> Path:
    """A folder of this process that no other user can enter; a new one if somebody cleaned it away."""
    folder = _folders.get(os.getpid())
    if folder is None or not folder.is_dir():
        with _told_as_unavailable():
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        _remove_left_folders(folder.parent)
        _folders[os.getpid()] = folder
        atexit.register(_remove, os.getpid(), folder)
    return folder


def _remove_left_folders(parent: Path) -> None:
    """What killed processes of this user left there; a process that lives still makes itself a new one."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if not entry.name.startswith(_PREFIX) or not entry.is_dir(follow_symlinks=False):
                continue
            status = entry.stat(follow_symlinks=False)
            if status.st_uid == os.geteuid() and time.time() - status.st_mtime > _LEFT_AFTER_S:
                shutil.rmtree(entry.path, ignore_errors=True)


def _remove(process: int, folder: Path) -> None:
    if process == os.getpid():  # the copy of a fork must not remove what its parent uses
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder for the files of one build."""
    with _told_as_unavailable(), tempfile.TemporaryDirectory(dir=private_folder()) as folder:
        yield Path(folder)


def private_file(name: str, data: Callable[[], bytes]) -> Path:
    """A file of that name in the private folder, written whole when it is not there."""
    path = private_folder() / name
    if not path.exists():
        content = data()
        with _told_as_unavailable():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(path, content)
    return path


@contextlib.contextmanager
def _told_as_unavailable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackendUnavailable(
            f"the software Metal cannot write temporary files: {error}", hint="set TMPDIR to a folder with free space"
        ) from None


# --- loading --------------------------------------------------------------------------------------


def load(data: bytes, label: str) -> ctypes.CDLL:
    """The shared library of these bytes: what was checked is what runs, for no path leads to it."""
    try:
        return _load_from_memory(data, label)
    except OSError:  # no memfd or no /proc in this sandbox
        path = private_file(f"{label}-{next(_numbers)}.so", lambda: data)
        try:
            return ctypes.CDLL(str(path))
        finally:
            path.unlink()


def _load_from_memory(data: bytes, label: str) -> ctypes.CDLL:
    fd = os.memfd_create(f"eas-{label}")
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(data)
        return ctypes.CDLL(_unique_path(fd))
    finally:
        os.close(fd)


def _unique_path(fd: int) -> str:
    """A path of an open file that was never used before: the loader knows libraries by path, and numbers of files come again."""
    digits = f"{next(_numbers):b}".replace("0", "/").replace("1", "./")
    return f"/proc/self/fd/{digits}{fd}"
