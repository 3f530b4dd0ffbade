"""What the software Metal keeps on disk: used when it is ours and whole, else built again; never a reason to fail."""

from __future__ import annotations

import errno
import os
import random
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from eas.base.errors import BackendUnavailable
from eas.metal_sim import Library, binaries, toolchain
from eas.metal_sim.old_files import remove_old_files
from eas.runtime import disk_cache

pytestmark = pytest.mark.skipif(toolchain.why_unavailable() is not None, reason=str(toolchain.why_unavailable()))
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
REPO = Path(__file__).resolve().parents[2]
NOBODY = 65534
FLIPS = int(os.environ.get("SIM_CACHE_FLIPS", "48"))  # thousands, once: see docs/software-metal.md


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cold cache of its own; engine and shim of this process are there already."""
    toolchain.engine()
    toolchain._precompiled(toolchain.kernel_flags("3.1", "safe", False))
    monkeypatch.setenv("EAS_SIM_CACHE_DIR", str(tmp_path / "sim"))
    return tmp_path / "sim"


def stored(number: int) -> int:
    """What a kernel that stores this number has stored."""
    x = np.zeros(1, np.int32)
    Library(f"#include <metal_stdlib>\nkernel void f(device int* x) {{ x[0] = {number}; }}").kernel("f")(x, grid=1)
    return int(x[0])


def entries(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() or p.is_symlink())


def library_entry(folder: Path) -> Path:
    """The largest entry: the other one says that the address spaces are right."""
    return max(entries(folder), key=lambda p: p.stat().st_size)


@pytest.fixture
def builds(monkeypatch):
    """The texts that were compiled, in order."""
    build, seen = toolchain._build_library, []

    def counted(cxx, *rest):
        seen.append(cxx)
        return build(cxx, *rest)

    monkeypatch.setattr(toolchain, "_build_library", counted)
    return seen


def test_a_kernel_is_built_once(folder, builds):
    assert [stored(7), stored(7), len(builds)] == [7, 7, 1]
    assert [stat.S_IMODE(p.stat().st_mode) for p in [folder, *entries(folder)]] == [0o700, 0o600, 0o600]


def test_code_runs_from_memory_and_not_from_a_path(folder):
    assert stored(7) == 7
    maps = Path("/proc/self/maps").read_text()
    assert "/memfd:eas-engine" in maps
    assert "/memfd:eas-kernels" in maps
    assert str(folder) not in maps


# --- planted and damaged entries ------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o777])
def test_an_entry_that_others_can_write_is_built_again(folder, builds, mode):
    assert stored(7) == 7
    library_entry(folder).chmod(mode)
    assert [stored(7), len(builds)] == [7, 2]
    assert stat.S_IMODE(library_entry(folder).stat().st_mode) == 0o600


@needs_root
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o666])
def test_an_entry_of_another_user_is_built_again(folder, builds, mode):
    assert stored(7) == 7
    planted = library_entry(folder)
    planted.chmod(mode)
    os.chown(planted, NOBODY, NOBODY)
    assert [stored(7), len(builds)] == [7, 2]
    assert library_entry(folder).stat().st_uid == 0


@needs_root
def test_an_entry_of_another_user_in_a_sticky_folder_of_everybody_is_not_used(folder, builds):
    assert stored(7) == 7
    planted = library_entry(folder)
    os.chown(planted, NOBODY, NOBODY)
    planted.parent.chmod(0o1777)
    assert [stored(7), len(builds)] == [7, 2]


def test_the_entry_of_another_kernel_is_not_used(folder, builds):
    assert stored(8) == 8
    evil = library_entry(folder).read_bytes()
    for path in entries(folder):
        path.unlink()
    assert stored(7) == 7
    library_entry(folder).write_bytes(evil)
    assert [stored(7), len(builds)] == [7, 3]


def test_swapped_entries_are_not_used(folder):
    want = [11, 12, 13]
    assert [stored(n) for n in want] == want
    paths = [p for p in entries(folder) if p.stat().st_size > 1000]
    contents = [p.read_bytes() for p in paths]
    for path, content in zip(paths, [*contents[1:], contents[0]], strict=True):
        path.write_bytes(content)
    assert [stored(n) for n in want] == want


def test_links_are_not_followed_and_the_file_behind_them_stays(folder, tmp_path, builds):
    assert stored(7) == 7
    entry = library_entry(folder)
    elsewhere = tmp_path / "elsewhere"
    entry.rename(elsewhere)
    whole = elsewhere.read_bytes()
    entry.symlink_to(elsewhere)
    assert [stored(7), len(builds)] == [7, 2]
    assert not entry.is_symlink()
    assert elsewhere.read_bytes() == whole


@needs_root
def test_a_hard_link_to_a_file_of_another_user_is_not_used(folder, tmp_path, builds):
    assert stored(7) == 7
    entry, elsewhere = library_entry(folder), tmp_path / "elsewhere"
    elsewhere.write_bytes(entry.read_bytes())
    os.chown(elsewhere, NOBODY, NOBODY)
    entry.unlink()
    os.link(elsewhere, entry)
    assert [stored(7), len(builds)] == [7, 2]


def test_a_folder_in_the_place_of_an_entry_is_no_error(folder, builds):
    assert stored(22) == 22
    entry = library_entry(folder)
    entry.unlink()
    entry.mkdir()
    assert [stored(22), stored(22), len(builds)] == [22, 22, 2]


@pytest.mark.parametrize("keep", [0, 1, 51, 52, 53, 1000])
def test_a_part_of_an_entry_is_not_used(folder, builds, keep):
    assert stored(7) == 7
    entry = library_entry(folder)
    entry.write_bytes(entry.read_bytes()[:keep])
    assert [stored(7), len(builds)] == [7, 2]


def test_flipped_bits_are_never_run(folder, monkeypatch):
    """Every flip is seen: the library is asked for again, and the text answers with the same bytes."""
    text, flags = 'extern "C" void eas_kernel_0() {}', toolchain.kernel_flags("3.1", "safe", False)
    whole = toolchain.compile_library(text, "x", text, flags)
    entry, rebuilt = library_entry(folder), []
    monkeypatch.setattr(toolchain, "_build_library", lambda *rest: rebuilt.append(1) or whole)
    blob = entry.read_bytes()
    for bit in random.Random(0).sample(range(8 * len(blob)), min(FLIPS, 8 * len(blob))):
        damaged = bytearray(blob)
        damaged[bit // 8] ^= 1 << bit % 8
        entry.write_bytes(damaged)
        rebuilt.clear()
        assert toolchain.compile_library(text, "x", text, flags) == whole, bit
        assert rebuilt, f"bit {bit} was accepted"
        assert entry.read_bytes() == blob, bit


ONE_KERNEL = (
    "import numpy as np; from eas.metal_sim import Library; x = np.zeros(1, np.int32);"
    "Library('#include <metal_stdlib>\\n#define N 7\\nkernel void f(device int* x) { x[0] = N; }').kernel('f')(x, grid=1); print(x[0])"
)


def run_alone(cache: Path, **more: str) -> str:
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPO), "EAS_SIM_CACHE_DIR": str(cache), "HOME": str(cache), **more}
    done = subprocess.run([sys.executable, "-c", ONE_KERNEL], env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.stderr == ""
    return done.stdout.strip()


def test_engine_shim_and_kernels_are_all_checked(tmp_path):
    """A new process meets damaged entries only, builds each again, and leaves nothing behind."""
    cache, temporary = tmp_path / "sim", tmp_path / "tmp"
    temporary.mkdir()
    assert run_alone(cache, TMPDIR=str(temporary)) == "7"
    before = {p: p.read_bytes() for p in entries(cache)}
    assert len(before) == 4  # engine, shim, kernel, and that its address spaces are right
    rng = random.Random(1)
    for path, blob in before.items():
        damaged = bytearray(blob)
        damaged[rng.randrange(len(blob))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
    assert run_alone(cache, TMPDIR=str(temporary)) == "7"
    for path in before:
        payload = path.read_bytes()[disk_cache._HEADER.size :]
        assert len(payload) == len(before[path]) - disk_cache._HEADER.size
    assert list(temporary.iterdir()) == []


# --- folders that do not cooperate ----------------------------------------------------------------


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path, monkeypatch, builds):
    blocker = tmp_path / "file"
    blocker.write_text("no folder")
    monkeypatch.setenv("EAS_SIM_CACHE_DIR", str(blocker / "sim"))
    assert [stored(21), stored(21), len(builds)] == [21, 21, 1]  # the process keeps what it has built
    assert str(blocker) in (binaries.disk().problem or "")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_full_or_read_only_disk_is_no_error(folder, monkeypatch, builds, code):
    real = disk_cache.write_atomically

    def write(path, blob):
        if path.is_relative_to(folder):
            raise OSError(code, os.strerror(code))
        real(path, blob)

    monkeypatch.setattr(disk_cache, "write_atomically", write)
    assert [stored(code), stored(code), len(builds)] == [code, code, 1]
    assert entries(folder) == []


def test_without_a_home_and_without_a_cache_it_works(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("no folder")
    assert run_alone(tmp_path, EAS_SIM_CACHE_DIR="", HOME=str(blocker / "home")) == "7"
    assert run_alone(tmp_path, EAS_CACHE="0") == "7"
    assert entries(tmp_path) == [blocker]


def test_a_folder_without_meaning_is_refused(monkeypatch):
    monkeypatch.setenv("EAS_SIM_CACHE_DIR", "~nobody-of-this-name/x")
    with pytest.raises(Exception, match="EAS_SIM_CACHE_DIR='~nobody-of-this-name/x' gives the disk cache no place"):
        stored(7)


def test_without_memory_files_a_private_file_is_loaded_and_removed(monkeypatch):
    def fail(*args):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(os, "memfd_create", fail)
    assert stored(31) == 31
    assert not list(binaries.private_folder().glob("*.so"))


def test_private_folder_is_private_and_comes_back(monkeypatch):
    monkeypatch.setattr(binaries, "_folders", {})
    first = binaries.private_folder()
    assert stat.S_IMODE(first.stat().st_mode) == 0o700
    first.rmdir()
    second = binaries.private_folder()
    assert second.is_dir()
    assert second != first


def test_folders_that_killed_processes_left_go(tmp_path):
    old, young, link, other = (tmp_path / name for name in ("eas-sim-old", "eas-sim-young", "eas-sim-link", "other"))
    for folder in (old, young, other):
        folder.mkdir()
        (folder / "shim.pch").touch()
    link.symlink_to(other)
    for folder in (old, other):
        os.utime(folder, (1, 1))
    binaries._remove_left_folders(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["eas-sim-link", "eas-sim-young", "other"]
    assert (other / "shim.pch").exists()


@needs_root
def test_folders_of_other_users_stay(tmp_path):
    theirs = tmp_path / "eas-sim-theirs"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    os.utime(theirs, (1, 1))
    binaries._remove_left_folders(tmp_path)
    assert theirs.exists()


def test_the_copy_of_a_fork_leaves_the_folder_of_its_parent(tmp_path):
    binaries._remove(os.getpid() + 1, tmp_path)
    assert tmp_path.exists()
    binaries._remove(os.getpid(), tmp_path)
    assert not tmp_path.exists()


def test_no_temporary_folder_is_told_with_the_next_step(monkeypatch):
    def fail(**given):
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(binaries, "_folders", {})
    monkeypatch.setattr(binaries.tempfile, "mkdtemp", fail)
    with pytest.raises(BackendUnavailable, match=r"cannot write temporary files: .*No usable(.|\n)*set TMPDIR"):
        binaries.private_folder()


def test_a_number_of_a_file_that_comes_again_loads_the_new_library(folder):
    """The loader knows libraries by their path: two that came by the same file number are two."""
    assert [stored(n) for n in range(40, 48)] == list(range(40, 48))


def test_files_of_the_old_layout_go_when_something_is_built(folder, tmp_path):
    key = "0123456789abcdef" * 2
    old = [f"engine-{key}.so", f"shim-{key}.pch", f"stubs-{key}/metal_stdlib", f"01/{key}.so", f"01/{key}.spaces"]
    strange = [f"engine-{key}.txt", f"01/{key}.eas.so", "01/notes", "README", f"02/ab/{key}.so"]
    for name in (*old, *strange):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("planted")
    (tmp_path / "mine.so").write_text("mine")
    (folder / f"shim-{key[::-1]}.pch").symlink_to(tmp_path / "mine.so")
    assert stored(77) == 77
    assert [name for name in old if (folder / name).exists()] == []
    assert not (folder / f"stubs-{key}").exists()
    assert all((folder / name).read_text() == "planted" for name in strange)
    assert (tmp_path / "mine.so").read_text() == "mine"


@needs_root
def test_old_files_of_other_users_stay(tmp_path):
    theirs = tmp_path / f"engine-{'0' * 32}.so"
    theirs.touch()
    os.chown(theirs, NOBODY, NOBODY)
    remove_old_files(tmp_path)
    assert theirs.exists()


def test_the_prelude_has_every_header():
    text = toolchain.PRELUDE.read_text()
    assert [n for n in toolchain.shim_headers() if n.startswith("metal_") and f"#include <{n}>" not in text] == []
