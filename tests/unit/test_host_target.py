"""The CPU that code is made for: what the system reports, the levels of EAS_CPU, and the keys that know them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import config
from eas.base.errors import InvalidSetting
from eas.frontend.reads.globals_read import Dependencies
from eas.launch import warm_start
from eas.runtime import get_runtime
from eas.runtime.keys import Form, Settings
from eas.runtime.native import host_target, jit
from eas.runtime.native.host_cpu import HostCpu
from eas.runtime.native.host_target import (
    _V2,
    _V3,
    _V4,
    _apple_caches,
    _linux_caches,
    host_key,
    target_of,
)
from eas.schedule.target import AVX2, AVX512, LEVELS, NEON, SSE, Caches
from tests.unit.fixed_target import possible_levels

needs_cpu = pytest.mark.skipif(not get_runtime("cpu").is_available(), reason="needs the CPU backend")
HASWELL = HostCpu("x86_64", _V3, "haswell")
SKYLAKE = HostCpu("x86_64", _V4, "skylake")
M1 = HostCpu("aarch64", frozenset({"asimd"}), "m1")


# --- levels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "level", "name", "cpu"),
    [
        (SKYLAKE, "native", "avx512", ""),
        (SKYLAKE, "x86-64-v4", "avx512", "x86-64-v4"),
        (SKYLAKE, "x86-64-v3", "avx2", "x86-64-v3"),
        (SKYLAKE, "x86-64-v2", "sse4.2", "x86-64-v2"),
        (HASWELL, "native", "avx2", ""),
        (HostCpu("x86_64", _V3 - {"f16c"}, ""), "native", "avx2", ""),
        (HostCpu("x86_64", _V2, ""), "native", "sse4.2", ""),
        (HostCpu("x86_64", frozenset(), ""), "native", "sse4.2", ""),
        (M1, "native", "neon", ""),
    ],
)
def test_targets_of_machines(host, level, name, cpu):
    target = target_of(host, level, Caches(l2=1 << 19))
    assert (target.name, target.cpu, target.triple, target.caches.l2) == (name, cpu, "", 1 << 19)
    assert target.has_f16 == (name == "neon" or (name != "sse4.2" and "f16c" in host.flags))


def test_levels_have_the_names_of_the_setting_and_their_widths():
    assert ["native", *LEVELS] == list(config.cpu.kind.choices)
    assert [t.vector_nbytes for t in LEVELS.values()] == [16, 32, 64]


def test_more_than_the_machine_has_is_refused():
    with pytest.raises(InvalidSetting) as caught:
        target_of(HASWELL, "x86-64-v4", Caches())
    missing = "avx512bw, avx512cd, avx512dq, avx512f, avx512vl"
    assert str(caught.value) == f"EAS_CPU=x86-64-v4 is more than this machine can run: its processor has no {missing}\n  hint: set EAS_CPU=x86-64-v3"
    with pytest.raises(InvalidSetting) as caught:
        target_of(M1, "x86-64-v2", Caches())
    assert str(caught.value) == "EAS_CPU=x86-64-v2 is more than this machine can run: its processor is aarch64\n  hint: set EAS_CPU=native"


def test_fixed_targets_do_not_depend_on_this_machine():
    assert {t.caches for t in (SSE, AVX2, AVX512, NEON)} == {Caches()}
    assert (AVX2.stream_nbytes, AVX2.row_nbytes, AVX2.copy_nbytes, AVX2.memo_nbytes) == (1 << 24, 1 << 17, 1 << 18, 1 << 20)
    assert (AVX2.panel_steps(2), AVX512.panel_steps(4), AVX2.unpacked_nbytes) == (256, 128, 3 << 13)
    assert [t.most_lanes for t in (SSE, AVX2, AVX512)] == [32, 64, 128]


# --- caches ---------------------------------------------------------------------------------------


def sysfs(folder, rows):
    for i, row in enumerate(rows):
        (folder / f"index{i}").mkdir()
        for name, text in zip(("level", "type", "size", "shared_cpu_list", "coherency_line_size"), row, strict=True):
            (folder / f"index{i}" / name).write_text(text + "\n")
    return folder


def test_caches_of_linux(tmp_path):
    rows = [
        ("1", "Data", "48K", "0,32", "64"),
        ("1", "Instruction", "32K", "0,32", "64"),
        ("2", "Unified", "2048K", "0,32", "64"),
        ("3", "Unified", "105M", "0-15,32-47", "64"),
    ]
    assert _linux_caches(sysfs(tmp_path, rows)) == {"l1": 48 << 10, "l2": 1 << 20, "last": 105 << 20, "line": 64}


def test_caches_of_linux_without_a_third(tmp_path):
    rows = [("1", "Data", "64K", "0", "64"), ("2", "Unified", "512K", "0-3", "64")]
    assert _linux_caches(sysfs(tmp_path, rows)) == {"l1": 64 << 10, "l2": 128 << 10, "last": 512 << 10, "line": 64}


def test_caches_of_a_system_that_tells_nothing(tmp_path, monkeypatch):
    def sysconf(name):
        return {"SC_LEVEL1_DCACHE_SIZE": 16384, "SC_LEVEL2_CACHE_SIZE": 0}[name] if "LINE" not in name else 0

    def unknown(name):
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(host_target.os, "sysconf", lambda name: sysconf(name) if "LEVEL3" not in name else unknown(name))
    assert _linux_caches(tmp_path) == {"l1": 16384, "l2": 0, "line": 0}
    monkeypatch.setattr(host_target, "_linux_caches", lambda folder: _linux_caches(tmp_path))
    monkeypatch.setattr(host_target.sys, "platform", "linux")
    assert host_target.host_caches.__wrapped__() == dataclasses.replace(Caches(), l1=16384)


def test_caches_of_apple():
    m2 = {"hw.perflevel0.l1dcachesize": 128 << 10, "hw.l1dcachesize": 64 << 10, "hw.perflevel0.l2cachesize": 16 << 20, "hw.l2cachesize": 4 << 20}
    m2 |= {"hw.perflevel0.cpusperl2": 4, "hw.cachelinesize": 128}
    assert _apple_caches(lambda name: m2.get(name, 0)) == {"l1": 128 << 10, "l2": 4 << 20, "last": 16 << 20, "line": 128}
    intel = {"hw.l1dcachesize": 32 << 10, "hw.l2cachesize": 256 << 10, "hw.l3cachesize": 12 << 20, "hw.cachelinesize": 64}
    assert _apple_caches(lambda name: intel.get(name, 0)) == {"l1": 32 << 10, "l2": 256 << 10, "last": 12 << 20, "line": 64}


def test_caches_of_this_machine_are_plausible():
    caches = host_target.host_caches()
    assert 4 << 10 <= caches.l1 <= caches.last
    assert 16 << 10 <= caches.l2 <= caches.last
    assert caches.line in (32, 64, 128, 256)


# --- keys -----------------------------------------------------------------------------------------


@eas.kernel
def add_one(x, y, n, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, i, mk.load(x, i, i < n) + 1.0, i < n)


def test_every_field_of_a_target_is_in_the_keys():
    changed = [dataclasses.replace(AVX2, **{f.name: "other" if isinstance(getattr(AVX2, f.name), str) else 99}) for f in dataclasses.fields(AVX2) if f.name != "caches"]
    changed += [dataclasses.replace(AVX2, caches=dataclasses.replace(Caches(), **{f.name: 99})) for f in dataclasses.fields(Caches)]
    identity = warm_start.Identity("key", "file", Dependencies())
    assert len({jit.object_key("text", "quick", t) for t in (AVX2, *changed)}) == 1 + len(changed)
    form = Form(frozenset(), Settings(False, False, "native"))
    assert len({warm_start._variant_key(identity, form, t) for t in (AVX2, *changed)}) == 1 + len(changed)


@needs_cpu
def test_levels_have_code_of_their_own(monkeypatch):
    """In memory, on disk, and where launches are repeated natively."""
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    monkeypatch.setenv("EAS_VERIFY", "0")
    levels = list(possible_levels())
    x, seen, keys = np.arange(100, dtype=np.float32), set(), set()
    for level in levels * 2:
        monkeypatch.setenv("EAS_CPU", level)
        for _ in range(4):
            y = np.zeros_like(x)
            add_one(x, y, 100, BLOCK=64, _grid=2)
            assert np.array_equal(y, x + 1)
        variant = add_one.compile(x, y, 100, BLOCK=64).variant()
        assert variant.target is host_target.host_target()
        seen.add(variant)
        keys.add(host_key())
    assert len(seen) == len(keys) == len(levels)


@needs_cpu
@pytest.mark.parametrize("level", [level for level in possible_levels() if level != "native"])
def test_instructions_of_a_level(monkeypatch, level):
    monkeypatch.setenv("EAS_CPU", level)
    x = np.zeros(64, np.float32)
    text = add_one.compile(x, x, 64, BLOCK=64).asm
    widest = next(name for name in ("zmm", "ymm", "xmm") if f"%{name}" in text)
    assert widest == {"x86-64-v2": "xmm", "x86-64-v3": "ymm", "x86-64-v4": "zmm"}[level]
    assert ("vaddps" in text) == (level != "x86-64-v2")


@needs_cpu
def test_a_level_that_this_machine_lacks_fails_the_launch(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    monkeypatch.setattr(host_target, "host_cpu", lambda: HASWELL)
    monkeypatch.setattr(host_target, "_target", host_target._target.__wrapped__)
    monkeypatch.setenv("EAS_CPU", "x86-64-v4")
    x = np.zeros(64, np.float32)
    with pytest.raises(InvalidSetting, match="EAS_CPU=x86-64-v4 is more than this machine can run"):
        add_one(x, x.copy(), 64, BLOCK=64, _grid=1)
