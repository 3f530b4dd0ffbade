"""Compiled code on disk: checked when read, atomic when written, and never a reason to fail."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import stat
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from eas.base import config

DEFAULT_MAX_NBYTES = 1 << 30
FORMAT_VERSION = 1

_MAGIC = b"EASCACHE"
_HEADER = struct.Struct("<8sIQ32s")  # magic, format version, payload length, digest
_SUFFIX = ".eas"
_TEMP_PREFIX = ".tmp-"
_TEMP_LIFETIME_S = 3600
_EVICT_TO = 0.75  # of the bound, so that the next puts need no eviction
# Never follow a planted symlink, never block on a planted pipe. Windows has neither flag.
_OPEN_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)

_WRITE_FLAGS = (
    os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)


@dataclass(frozen=True, slots=True)
class CacheStats:
    """How much a cache holds."""

    entries: int
    nbytes: int


class DiskCache:
    """Bytes by key below `root`; without a root it is always empty."""

    def __init__(
        self,
        root: Path | None,
        *,
        max_nbytes: int = DEFAULT_MAX_NBYTES,
        check_every: int = 64,
    ) -> None:
        self.root = root
        self.max_nbytes = max_nbytes
        self.problem: str | None = None
        """Why the last failed read or write failed; for `python -m eas doctor`."""
        self._check_every = check_every
        # Most processes put a few entries only: a random start makes their checks add up.
        self._puts = int.from_bytes(os.urandom(2), "little") % check_every

    def get(self, key: str) -> bytes | None:
        """The bytes last put under `key`, or None if there are none that can be trusted."""
        if self.root is None:
            return None
        path = _entry_path(self.root, key)
        try:
            blob = read_own_file(path)
            payload = None if blob is None else _unpack(key, blob)
            if payload is None:
                path.unlink()
                return None
        except FileNotFoundError:
            return None
        except OSError as error:
            self.problem = f"cannot read {path}: {error.strerror or error}"
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # marks the entry as recently used
        return payload

    def put(self, key: str, data: bytes) -> bool:
        """Whether `data` is stored under `key` now; `problem` says why it is not."""
        if self.root is None or len(data) > self.max_nbytes:
            return False
        path = _entry_path(self.root, key)
        try:
            _make_private_dirs(self.root, path.parent)
            write_atomically(path, _pack(key, data))
        except OSError as error:
            self.problem = f"cannot write {path}: {error.strerror or error}"
            return False
        self._puts += 1
        if self._puts % self._check_every == 0:
            self._evict()
        return True

    def stats(self) -> CacheStats:
        """Number and size of the entries on disk."""
        entries = nbytes = 0
        for _, size, _ in self._entries():
            entries, nbytes = entries + 1, nbytes + size
        return CacheStats(entries, nbytes)

    def clear(self) -> None:
        """Remove every entry; files that are not ours stay, as do those being written now."""
        for _, _, path in self._entries():
            self._remove(path)

    def _evict(self) -> None:
        """Bring the cache below its bound by removing the least recently used entries."""
        nbytes = self.stats().nbytes
        if nbytes <= self.max_nbytes:
            return
        for _, size, path in sorted(self._entries()):
            if nbytes <= self.max_nbytes * _EVICT_TO:
                break
            self._remove(path)
            nbytes -= size

    def _entries(self) -> Iterator[tuple[int, int, str]]:
        """(time of last use, size, path) of each entry; what killed processes left is removed."""
        now = time.time()
        for entry in self._files():
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:  # another process has removed it
                continue
            if entry.name.endswith(_SUFFIX):
                yield status.st_mtime_ns, status.st_size, entry.path
            elif entry.name.startswith(_TEMP_PREFIX) and now - status.st_mtime > _TEMP_LIFETIME_S:
                self._remove(entry.path)

    def _remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            self.problem = f"cannot remove {path}: {error.strerror or error}"

    def _files(self) -> Iterator[os.DirEntry[str]]:
        """What lies where entries are kept; strings, and one folder at a time, for a full cache is large."""
        if self.root is None:
            return
        for first in _fan_out(str(self.root)):
            for second in _fan_out(first):
                yield from _scan(second)


def default_cache() -> DiskCache:
    """The cache of the CPU backend that the environment asks for now."""
    return cache_at(config.cache_dir)


def cache_at(folder: config.Setting[Path]) -> DiskCache:
    """The cache in the folder of a setting; `EAS_CACHE=0` gives one that is always empty."""
    if not config.cache_enabled():
        return DiskCache(None)
    try:
        return _cache_in(folder())
    except config.InvalidSetting as error:
        if folder.is_set or config.cache_dir.is_set:
            raise
        homeless = DiskCache(None)
        homeless.problem = error.message
        return homeless


@functools.cache
def _cache_in(root: Path) -> DiskCache:
    return DiskCache(root)


# --- one entry ----------------------------------------------------------------------------------


def _digest(key: bytes, payload: bytes) -> bytes:
    # The length of the key keeps (key "ab", payload "c") apart from (key "a", payload "bc").
    return hashlib.sha256(b"%d:%b%b" % (len(key), key, payload)).digest()


def _encoded(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _pack(key: str, payload: bytes) -> bytes:
    header = _HEADER.pack(_MAGIC, FORMAT_VERSION, len(payload), _digest(_encoded(key), payload))
    return header + payload


def _unpack(key: str, blob: bytes) -> bytes | None:
    """The payload, or None if one bit of the entry is not what `_pack` wrote for this key."""
    if len(blob) < _HEADER.size:
        return None
    magic, version, length, digest = _HEADER.unpack_from(blob)
    payload = blob[_HEADER.size :]
    if (magic, version, length) != (_MAGIC, FORMAT_VERSION, len(payload)):
        return None
    return payload if digest == _digest(_encoded(key), payload) else None


# --- the file system ----------------------------------------------------------------------------


def _entry_path(root: Path, key: str) -> Path:
    name = hashlib.sha256(_encoded(key)).hexdigest()
    return root / name[:2] / name[2:4] / (name[4:] + _SUFFIX)


def read_own_file(path: Path) -> bytes | None:
    """The bytes of a regular file that nobody but this user can have written, else None."""
    fd = os.open(path, _OPEN_FLAGS)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or not _is_private(status):
            return None
        with open(fd, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(fd)


def _is_private(status: os.stat_result) -> bool:
    if os.name != "posix":
        return True
    # A cached entry is machine code that we will run: other people's entries are not for us.
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _make_private_dirs(root: Path, leaf: Path) -> None:
    if leaf.is_dir() and not leaf.is_symlink() and not leaf.parent.is_symlink():
        return
    # mkdir(parents=True) gives parents the umask's mode, so each level is made on its own.
    missing = [root, *root.parents]
    while missing and missing[-1].exists():
        missing.pop()
    for folder in [*reversed(missing), leaf.parent, leaf]:
        folder.mkdir(mode=0o700, exist_ok=True)
    for folder in (leaf.parent, leaf):
        if folder.is_symlink():
            raise NotADirectoryError(f"{folder} is a symbolic link")


def _new_file(folder: Path) -> tuple[int, Path]:
    """An open temporary file; by hand, since importing tempfile takes longer than a warm start."""
    temp = folder / f"{_TEMP_PREFIX}{os.urandom(8).hex()}"
    return os.open(temp, _WRITE_FLAGS, 0o600), temp


def write_atomically(path: Path, blob: bytes) -> None:
    """Other processes see the old entry or the new one, never a part; a crash leaves a bad digest."""
    fd, temp = _new_file(path.parent)
    try:
        with open(fd, "wb") as file:
            file.write(blob)
        os.replace(temp, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temp)
        raise


def _scan(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _fan_out(folder: str) -> list[str]:
    return [
        entry.path
        for entry in _scan(folder)
        if len(entry.name) == 2 and entry.is_dir(follow_symlinks=False)
    ]
