"""The disk cache: what it gives back is what was put, or nothing; and it never raises."""

import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path

import pytest

from eas.base import config
from eas.runtime import disk_cache
from eas.runtime.disk_cache import CacheStats, DiskCache, default_cache

REPO = Path(__file__).resolve().parents[2]
NOBODY = 65534
needs_posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path / "a" / "cache")


def entry_of(cache):
    """The one file in the cache."""
    (path,) = [p for p in cache.root.rglob("*") if p.is_file()]
    return path


# --- get and put --------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"x", b"\0" * 1000, bytes(range(256)) * 300])
def test_get_returns_what_was_put(cache, data):
    cache.put("key", data)
    assert cache.get("key") == data
    assert cache.problem is None


def test_unknown_key_is_none(cache):
    assert cache.get("nothing") is None
    assert cache.problem is None
    assert not cache.root.exists()


def test_put_replaces_the_old_entry(cache):
    cache.put("key", b"old")
    cache.put("key", b"new")
    assert cache.get("key") == b"new"
    assert cache.stats().entries == 1


@pytest.mark.parametrize("key", ["", "../../etc/passwd", "k" * 5000, "ключ\0\n", "\ud800"])
def test_any_string_is_a_key(cache, key):
    cache.put(key, b"data")
    assert cache.get(key) == b"data"
    assert entry_of(cache).is_relative_to(cache.root)


def test_entries_fan_out_over_two_levels(cache):
    cache.put("key", b"data")
    first, second, name = entry_of(cache).relative_to(cache.root).parts
    assert (len(first), len(second)) == (2, 2)
    assert name.endswith(".eas")


def test_another_instance_sees_the_entry(cache):
    cache.put("key", b"data")
    assert DiskCache(cache.root).get("key") == b"data"


def test_null_cache_is_always_empty():
    cache = DiskCache(None)
    cache.put("key", b"data")
    assert cache.get("key") is None
    assert cache.stats() == CacheStats(0, 0)
    cache.clear()


def test_no_temporary_files_remain(cache):
    for i in range(5):
        cache.put(f"key{i}", b"data")
    assert all(p.suffix == ".eas" for p in cache.root.rglob("*") if p.is_file())


# --- damaged and foreign entries ----------------------------------------------------------------


def test_truncated_entry_is_refused_at_every_length(cache):
    cache.put("key", b"payload!")
    path = entry_of(cache)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        path.chmod(0o600)
        assert cache.get("key") is None, length
        assert not path.exists(), length
    path.write_bytes(whole)
    path.chmod(0o600)
    assert cache.get("key") == b"payload!"


def test_every_flipped_bit_is_noticed(cache):
    cache.put("key", b"data")
    path = entry_of(cache)
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        path.chmod(0o600)
        assert cache.get("key") is None, bit


def test_appended_bytes_are_noticed(cache):
    cache.put("key", b"data")
    with entry_of(cache).open("ab") as file:
        file.write(b"!")
    assert cache.get("key") is None


def test_entry_of_another_key_is_refused(cache):
    cache.put("one", b"data of one")
    one = entry_of(cache).read_bytes()
    cache.clear()
    cache.put("two", b"data of two")
    entry_of(cache).write_bytes(one)
    assert cache.get("two") is None
    assert cache.stats().entries == 0


def test_key_and_payload_do_not_run_into_each_other():
    packed = disk_cache._pack("ab", b"c")
    assert disk_cache._unpack("ab", packed) == b"c"
    header = disk_cache._HEADER.size
    other = disk_cache._pack("a", b"bc")
    assert packed[header - 32 : header] != other[header - 32 : header]


def test_entry_of_another_format_version_is_refused(cache, monkeypatch):
    cache.put("key", b"data")
    monkeypatch.setattr(disk_cache, "FORMAT_VERSION", 2)
    assert cache.get("key") is None
    cache.put("key", b"new data")
    assert cache.get("key") == b"new data"


def test_entry_that_is_a_directory_is_none(cache):
    cache.put("key", b"data")
    path = entry_of(cache)
    path.unlink()
    path.mkdir()
    assert cache.get("key") is None
    assert str(path) in cache.problem
    cache.put("key", b"data")
    assert "cannot write" in cache.problem


@needs_posix
def test_entry_that_is_a_symlink_or_pipe_is_not_read(cache, tmp_path):
    cache.put("key", b"data")
    path = entry_of(cache)
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert cache.get("key") is None
    path.unlink()
    os.mkfifo(path, 0o600)
    assert cache.get("key") is None  # and does not wait for a writer
    cache.put("key", b"fresh")
    assert cache.get("key") == b"fresh"


@needs_posix
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_entry_that_others_can_write_is_refused(cache, mode):
    cache.put("key", b"data")
    entry_of(cache).chmod(mode)
    assert cache.get("key") is None
    assert cache.stats().entries == 0


@needs_posix
def test_entry_of_another_user_is_refused(cache, monkeypatch):
    cache.put("key", b"data")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert cache.get("key") is None


# --- file systems that do not cooperate ---------------------------------------------------------


@needs_posix
def test_directories_and_entries_are_private(cache):
    cache.put("key", b"data")
    path = entry_of(cache)
    made = [cache.root.parent, cache.root, path.parent.parent, path.parent]
    assert [stat.S_IMODE(p.stat().st_mode) for p in made] == [0o700] * 4
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@needs_posix
def test_fan_out_through_a_symlink_is_refused(cache, tmp_path):
    cache.put("key", b"data")
    folder = entry_of(cache).parent
    cache.clear()
    folder.rmdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    folder.symlink_to(outside)
    cache.put("key", b"data")
    assert "cannot write" in cache.problem
    assert list(outside.iterdir()) == []


def test_root_below_a_file_is_a_problem_and_no_error(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("not a directory")
    cache = DiskCache(blocker / "cache")
    cache.put("key", b"data")
    assert cache.get("key") is None
    assert cache.stats() == CacheStats(0, 0)
    cache.clear()
    assert str(blocker) in (cache.problem or "")


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["mkdir", "open", "replace"])
def test_failing_write_is_remembered_and_leaves_nothing(cache, monkeypatch, code, call):
    def fail(*args, **kwargs):
        raise OSError(code, os.strerror(code))

    if call == "open":
        monkeypatch.setattr(disk_cache, "_new_file", fail)
    else:
        monkeypatch.setattr(os, call, fail)
    cache.put("key", b"data")
    monkeypatch.undo()
    assert cache.problem.startswith("cannot write ")
    assert cache.problem.endswith(os.strerror(code))
    assert cache.get("key") is None
    assert not [p for p in cache.root.parent.rglob("*") if p.is_file()]


@pytest.fixture
def folder_of_nobody():
    """A folder of an ordinary user, who this process is meanwhile: root ignores permissions."""
    folder = Path(tempfile.mkdtemp(prefix="eas-test-"))
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(folder, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    yield folder
    if is_root:
        os.seteuid(0)
    shutil.rmtree(folder)


@needs_posix
def test_read_only_directory_still_reads(folder_of_nobody):
    cache = DiskCache(folder_of_nobody / "cache")
    cache.put("key", b"data")
    folders = [cache.root, *(p for p in cache.root.rglob("*") if p.is_dir())]
    for folder in folders:
        folder.chmod(0o500)
    assert cache.get("key") == b"data"
    cache.put("key", b"new")
    cache.put("other", b"new")
    assert cache.problem is not None
    assert cache.get("key") == b"data"
    for folder in folders:
        folder.chmod(0o700)


def test_read_only_file_system_still_reads(cache, monkeypatch):
    cache.put("key", b"data")

    def fail(*args, **kwargs):
        raise OSError(errno.EROFS, "Read-only file system")

    for call in ("utime", "mkdir", "unlink", "replace"):
        monkeypatch.setattr(os, call, fail)
    monkeypatch.setattr(disk_cache, "_new_file", fail)
    assert cache.get("key") == b"data"
    cache.put("key", b"new")
    cache.clear()
    assert cache.get("key") == b"data"
    assert "Read-only file system" in cache.problem


def test_failing_read_is_remembered(cache, monkeypatch):
    cache.put("key", b"data")

    def fail(*args, **kwargs):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "open", fail)
    assert cache.get("key") is None
    assert cache.problem.startswith("cannot read ")


def test_cache_removed_while_in_use_comes_back(cache):
    cache.put("key", b"data")
    entry_of(cache).unlink()
    for folder in sorted(cache.root.rglob("*"), reverse=True):
        folder.rmdir()
    cache.root.rmdir()
    assert cache.get("key") is None
    cache.put("key", b"data")
    assert cache.get("key") == b"data"


# --- size ---------------------------------------------------------------------------------------


def test_stats_and_clear(cache):
    for i in range(4):
        cache.put(f"key{i}", bytes(100))
    stranger = cache.root / "notes.txt"
    stranger.write_text("mine")
    stats = cache.stats()
    assert stats.entries == 4
    assert stats.nbytes == 4 * (100 + disk_cache._HEADER.size)
    cache.clear()
    assert cache.stats() == CacheStats(0, 0)
    assert stranger.read_text() == "mine"


def age(cache, key, seconds):
    path = disk_cache._entry_path(cache.root, key)
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))


def test_eviction_removes_the_least_recently_used(tmp_path):
    nbytes = 100 + disk_cache._HEADER.size
    cache = DiskCache(tmp_path, max_nbytes=4 * nbytes, check_every=1)
    for i, key in enumerate("abcd"):
        cache.put(key, bytes(100))
        age(cache, key, 1000 - i)
    assert cache.stats().entries == 4
    assert cache.get("a") is not None  # now the most recent of the four
    cache.put("e", bytes(100))
    assert [key for key in "abcde" if cache.get(key) is not None] == ["a", "d", "e"]
    assert cache.stats().nbytes <= cache.max_nbytes


def test_eviction_is_checked_once_in_a_while(tmp_path, monkeypatch):
    cache = DiskCache(tmp_path, max_nbytes=1000, check_every=8)
    calls = []
    monkeypatch.setattr(cache, "_evict", lambda: calls.append(1))
    for i in range(32):
        cache.put(str(i), b"data")
    assert len(calls) == 4


def test_short_processes_check_too(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(DiskCache, "_evict", lambda self: calls.append(1))
    for i in range(400):
        DiskCache(tmp_path, check_every=4).put(f"{i % 3}", b"data")
    assert 50 < len(calls) < 150


def test_the_check_needs_no_memory_for_each_entry(tmp_path):
    cache = DiskCache(tmp_path, check_every=10_000)
    for i in range(1000):
        cache.put(str(i), b"data")
    tracemalloc.start()
    try:
        cache._evict()
        assert tracemalloc.get_traced_memory()[1] < 150_000
    finally:
        tracemalloc.stop()


def test_entry_larger_than_the_cache_is_not_stored(tmp_path):
    cache = DiskCache(tmp_path, max_nbytes=10)
    cache.put("key", bytes(11))
    assert cache.stats().entries == 0


def test_old_temporary_files_go_and_young_ones_stay(cache):
    cache.put("key", b"data")
    folder = entry_of(cache).parent
    old, young = folder / ".tmp-old", folder / ".tmp-young"
    for path in (old, young):
        path.write_bytes(b"part")
    os.utime(old, (1, 1))
    cache._evict()
    assert (old.exists(), young.exists()) == (False, True)
    assert cache.stats().entries == 1
    os.utime(young, (1, 1))
    cache.clear()
    assert not young.exists()


# --- the default --------------------------------------------------------------------------------


def test_default_cache_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("EAS_CACHE", raising=False)
    monkeypatch.setenv("EAS_CACHE_DIR", str(tmp_path / "one"))
    assert default_cache().root == tmp_path / "one"
    assert default_cache() is default_cache()
    monkeypatch.setenv("EAS_CACHE_DIR", str(tmp_path / "two"))
    assert default_cache().root == tmp_path / "two"
    monkeypatch.setenv("EAS_CACHE", "0")
    assert default_cache().root is None


def test_default_cache_without_a_home_is_empty(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("EAS_CACHE", raising=False)
    monkeypatch.delenv("EAS_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    cache = default_cache()
    assert cache.root is None
    assert "home directory" in (cache.problem or "")


def test_default_cache_refuses_a_setting_without_meaning(monkeypatch):
    monkeypatch.setenv("EAS_CACHE", "maybe")
    with pytest.raises(config.InvalidSetting, match="EAS_CACHE='maybe'"):
        default_cache()


# --- two processes ------------------------------------------------------------------------------

_HAMMER = """
import random, sys
from pathlib import Path
from eas.runtime.disk_cache import DiskCache
cache = DiskCache(Path(sys.argv[1]), max_nbytes=200_000, check_every=5)
rng = random.Random(int(sys.argv[2]))
for i in range(400):
    cache.put("key", bytes([rng.randrange(256)]) * rng.randrange(1, 50_000))
    cache.put(f"key{i % 7}", b"z" * 30_000)
    got = cache.get("key")
    assert got is None or len(set(got)) == 1, "torn entry"
    if i % 50 == 49:
        cache.clear()
print(cache.problem)
"""


def test_two_processes_on_one_key_never_see_a_torn_entry(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(REPO)}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", _HAMMER, str(tmp_path), str(seed)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(2)
    ]
    for worker in workers:
        out, err = worker.communicate(timeout=60)
        assert worker.returncode == 0, err
        assert out.strip() == "None"
