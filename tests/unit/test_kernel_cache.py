"""Kernels and the disk cache: what a second process reuses, what it refuses to trust, and what makes a new key."""

from __future__ import annotations

import errno
import importlib.util
import os
import random
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import eas
from eas import lowering, mk
from eas.runtime.disk_cache import DiskCache, default_cache

ROOT = Path(__file__).parents[2]


@eas.kernel
def double_kernel(x, y, N, BLOCK: eas.constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, offs, mk.load(x, offs, offs < N) * 2, offs < N)


class Compilations:
    """How often the passes ran, and which keys the disk was asked for."""

    def __init__(self, monkeypatch):
        self.count = 0
        self.keys = []
        self.facts = []
        optimise, specialise, get = lowering.optimise, lowering.specialise, DiskCache.get

        def specialised(module, facts):
            self.facts.append(facts)
            return specialise(module, facts)

        def counted(module, **options):
            self.count += 1
            return optimise(module, **options)

        def asked(cache, key):
            self.keys.append(key)
            return get(cache, key)

        monkeypatch.setattr(lowering, "specialise", specialised)
        monkeypatch.setattr(lowering, "optimise", counted)
        monkeypatch.setattr(DiskCache, "get", asked)


@pytest.fixture
def compilations(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")
    return Compilations(monkeypatch)


def aligned(values):
    """An f32 array at a multiple of 64 bytes: alignment is a launch fact, and facts choose the variant."""
    memory = np.zeros(len(values) + 16, np.float32)
    start = -memory.ctypes.data % 64 // 4
    array = memory[start : start + len(values)]
    array[:] = values
    return array


def launch(fn=double_kernel.fn):
    """What a new process does: nothing is in memory."""
    x, y = aligned(range(100)), aligned([0] * 100)
    eas.Kernel(fn)(x, y, 100, BLOCK=32)
    return y


def is_right(y):
    return np.array_equal(y, np.arange(100) * 2)


def entries():
    root = default_cache().root
    return sorted(root.rglob("*.eas")) if root and root.exists() else []


# --- hits ---------------------------------------------------------------------------------------


def test_second_process_reuses_the_entry(compilations):
    assert is_right(launch())
    assert (compilations.count, len(entries())) == (1, 1)
    assert is_right(launch())
    assert (compilations.count, len(entries())) == (1, 1)
    assert compilations.keys[0] == compilations.keys[1]


def test_cached_module_is_the_compiled_one():
    x = np.zeros(100, np.float32)
    first, second = (eas.Kernel(double_kernel.fn).compile(x, x, 100, BLOCK=32) for _ in range(2))
    assert str(first.ir) == str(second.ir)
    assert [i.loc.place for i in first.ir.body.body if i.loc] == [i.loc.place for i in second.ir.body.body if i.loc]


def test_unoptimised_code_has_entries_of_its_own(compilations, monkeypatch):
    launch()
    monkeypatch.setenv("EAS_NOOPT", "1")
    assert is_right(launch())
    assert (compilations.count, len(entries())) == (2, 2)


def test_other_version_does_not_read_our_entries(compilations, monkeypatch):
    launch()
    monkeypatch.setattr(lowering, "__version__", "0.0.0")
    assert is_right(launch())
    assert compilations.count == 2


# --- entries that cannot be trusted -------------------------------------------------------------


def _flip_a_bit(path):
    blob = bytearray(path.read_bytes())
    blob[-5] ^= 1
    path.write_bytes(blob)


def _entry_of_another_key(path):
    default_cache().put("another", default_cache().get("another") or b"kernel other() spmd {\n  yield\n}\n")
    other = next(p for p in entries() if p != path)
    path.write_bytes(other.read_bytes())


DAMAGE = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-7]),
    "header only": lambda path: path.write_bytes(path.read_bytes()[:20]),
    "empty": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(random.Random(0).randbytes(500)),
    "flipped bit": _flip_a_bit,
    "entry of another key": _entry_of_another_key,
    "writable by others": lambda path: path.chmod(0o666),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_untrusted_entry_is_compiled_again(compilations, damage):
    launch()
    (path,) = entries()
    damage(path)
    assert is_right(launch())
    assert compilations.count == 2
    assert is_right(launch())  # the entry was replaced by a good one
    assert compilations.count == 2


PAYLOADS = {
    "no text": b"\xff\xfe",
    "no IR": b"hello",
    "half a module": b"kernel double_kernel(%x: ptr<f32>) spmd {\n",
    "unknown op": b"kernel double_kernel() spmd {\n  %0 = frobnicate : i32\n  yield\n}\n",
    "other arguments": b"kernel double_kernel() spmd {\n  yield\n}\n",
    "other kernel": b"kernel other(%x: ptr<f32>, %y: ptr<f32>, %N: i32) spmd {\n  yield\n}\n",
    "wrong types": b"kernel double_kernel(%x: ptr<f32>) spmd {\n  %0 = add %x, %x : f32\n  yield\n}\n",
}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS.keys())
def test_well_packed_nonsense_is_compiled_again(compilations, payload):
    launch()
    default_cache().put(compilations.keys[0], payload)
    assert is_right(launch())
    assert compilations.count == 2


def test_text_with_random_damage_never_escapes_as_an_error(compilations):
    launch()
    (facts,) = compilations.facts
    good = default_cache().get(compilations.keys[0])
    rng = random.Random(0)
    for _ in range(40):
        text = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(text))
            text[at : at + rng.randint(0, 6)] = rng.choice([b"", b"%", b"{", b"}", b"9", b" ", b"f32", b"\n"])
        default_cache().put(compilations.keys[0], bytes(text))
        compiled = eas.Kernel(double_kernel.fn).compile(aligned([0]), aligned([0]), 100, BLOCK=32)
        lowering.compile_module(compiled.traced, facts, noopt=False)
    assert set(compilations.keys) == {compilations.keys[0]}


# --- no cache, or one that cannot be written ----------------------------------------------------


def test_without_cache_kernels_run_and_write_nothing(compilations, monkeypatch, tmp_path):
    monkeypatch.setenv("EAS_CACHE", "0")
    assert is_right(launch())
    assert is_right(launch())
    assert compilations.count == 2
    assert not Path(os.environ["EAS_CACHE_DIR"]).exists()


@pytest.mark.parametrize("place", ["a file", "below a file", "/proc/no-such-directory"])
def test_directory_that_cannot_be_used_is_no_error(compilations, monkeypatch, tmp_path, place):
    file = tmp_path / "file"
    file.write_text("not a directory")
    folder = {"a file": file, "below a file": file / "cache"}.get(place, Path(place))
    monkeypatch.setenv("EAS_CACHE_DIR", str(folder))
    assert is_right(launch())
    assert is_right(launch())
    assert compilations.count == 2
    assert default_cache().problem
    assert file.read_text() == "not a directory"


def test_read_only_directory_is_no_error(compilations, monkeypatch, tmp_path):
    def refuse(*args, **kwargs):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setenv("EAS_CACHE_DIR", str(tmp_path / "locked"))
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert is_right(launch())
    assert "cannot write" in default_cache().problem


# --- real processes -----------------------------------------------------------------------------

SCRIPT = """
import sys
import numpy as np
from eas import lowering
from examples import softmax

count, optimise = 0, lowering.optimise

def counted(module, **options):
    global count
    count += 1
    return optimise(module, **options)

lowering.optimise = counted
sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()  # all processes compile at the same moment
memory = np.zeros(1024, np.float32)
start = -memory.ctypes.data % 64 // 4
x, y = memory[start : start + 185].reshape(5, 37), memory[start + 512 : start + 512 + 185].reshape(5, 37)
x[:] = np.random.default_rng(0).standard_normal((5, 37), dtype=np.float32)
softmax.softmax_kernel[5](x, y, 37, 37, BLOCK=64)
assert np.abs(y - softmax.reference(x)).max() < 1e-6
print(count)
"""


def _run_together(number):
    """How often each of `number` simultaneous processes ran the passes."""
    processes = [
        subprocess.Popen([sys.executable, "-c", SCRIPT], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(number)
    ]
    for p in processes:
        assert p.stdout.readline() == "ready\n"
    outputs = [None] * number
    for p in processes:
        p.stdin.write("go\n")
        p.stdin.flush()
    for i, p in enumerate(processes):
        outputs[i] = p.communicate()[0]
    assert [p.returncode for p in processes] == [0] * number
    return [int(out) for out in outputs]


def test_processes_share_the_cache_safely(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")
    assert all(count in (0, 1) for count in _run_together(3))
    assert len(entries()) == 1
    assert list(default_cache().root.rglob(".tmp-*")) == []
    assert _run_together(1) == [0]


# --- keys ---------------------------------------------------------------------------------------

SOURCE = """
import eas
from eas import mk

def scaled(v):
    return v * 2

@eas.kernel
def kernel(x, y, N, BLOCK: eas.constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    values = mk.load(x, offs, offs < N)
    mk.store(y, offs, scaled(values), offs < N)
"""


def imported(path, source):
    """The kernel of a module with this source; `SOURCE` loads on its 11th line."""
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def test_edited_helper_has_another_key(compilations, tmp_path):
    assert is_right(launch(imported(tmp_path / "one.py", SOURCE).fn))
    y = launch(imported(tmp_path / "two.py", SOURCE.replace("v * 2", "v * 3")).fn)
    np.testing.assert_array_equal(y, np.arange(100) * 3)
    assert compilations.count == 2
    assert compilations.keys[0] != compilations.keys[1]


def test_rebound_global_helper_never_returns_old_numbers(compilations, tmp_path):
    kernel = imported(tmp_path / "one.py", SOURCE)
    x, y = aligned(range(100)), aligned([0] * 100)
    kernel(x, y, 100, BLOCK=32)
    assert is_right(y)
    kernel.fn.__globals__["scaled"] = lambda v: v + 7
    kernel(x, y, 100, BLOCK=32)
    np.testing.assert_array_equal(y, x + 7)
    assert compilations.keys[0] != compilations.keys[1]


@pytest.mark.parametrize("shift", [0, 10])
def test_moved_source_keeps_its_key_and_its_lines(compilations, tmp_path, shift):
    launch(imported(tmp_path / "before.py", SOURCE).fn)
    moved = imported(tmp_path / "after.py", "# a comment\n" * shift + SOURCE)
    assert is_right(launch(moved.fn))
    assert compilations.count == 1
    assert compilations.keys[0] == compilations.keys[1]
    with pytest.raises(eas.OutOfBounds) as caught:
        moved(aligned([0] * 50), aligned([0] * 100), 100, BLOCK=32)
    assert f"at after.py:{11 + shift}\n    values = mk.load(x, offs, offs < N)" in str(caught.value)
    assert compilations.count == 1


def test_comment_inside_the_kernel_keeps_the_key(compilations, tmp_path):
    launch(imported(tmp_path / "before.py", SOURCE).fn)
    commented = SOURCE.replace("    values =", "    # a comment inside\n    values =")
    assert is_right(launch(imported(tmp_path / "after.py", commented).fn))
    assert compilations.count == 1


@eas.kernel
def applied(x, y, f: eas.constexpr, N: eas.constexpr):
    i = mk.arange(0, N)
    mk.store(y, i, f(mk.load(x, i)))


def scaled(value, factor):
    return value * factor


def test_functions_made_anew_by_each_call_share_a_compiled_kernel():
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)

    def times(factor):
        def multiply(a, bias=0.0):
            return a * factor + bias

        return multiply

    def compiled(f):
        applied[1](x, y, f=f, N=4)
        return applied.compile(x, y, f=f, N=4), float(y[0])

    same = [compiled(times(3.0)) for _ in range(3)]
    assert len({k for k, _ in same}) == 1
    assert [value for _, value in same] == [3.0] * 3
    assert compiled(times(4.0)) != same[0]
    assert compiled(times(3))[0] is not same[0][0]  # an int is another constant
    assert len({compiled(partial(scaled, factor=2.0))[0] for _ in range(2)}) == 1
    assert compiled(partial(scaled, factor=5.0))[1] == 5.0
    changed = times(3.0)
    changed.__defaults__ = (1.0,)
    assert compiled(changed)[1] == 4.0
    assert compiled(times(3.0))[1] == 3.0


def test_a_closure_that_changes_is_traced_anew_and_back():
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    factor = 2.0

    def multiply(a):
        return a * factor

    seen = []
    for now in (2.0, 3.0, 2.0):
        factor = now
        applied[1](x, y, f=multiply, N=4)
        seen.append(float(y[0]))
    assert seen == [2.0, 3.0, 2.0]
