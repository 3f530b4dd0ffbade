"""The checked-in LLVM text of eas/native: of its sources, of no machine, and code on every platform."""

from __future__ import annotations

import re

import pytest

from eas.runtime.cpu import CpuRuntime
from eas.runtime.native import jit, native_code
from tools import build_native

pytest.importorskip("llvmlite")
TRIPLES = {
    "linux-x86_64": "x86_64-unknown-linux-gnu",
    "linux-aarch64": "aarch64-unknown-linux-gnu",
    "macos-x86_64": "x86_64-apple-macosx11.0.0",
    "macos-aarch64": "arm64-apple-macosx11.0.0",
}
every_platform = pytest.mark.parametrize("platform", TRIPLES)


def text_of(platform):
    return build_native.path_of(platform).read_text()


@every_platform
def test_text_is_of_these_sources(platform):
    assert text_of(platform).startswith(build_native.origin()), "run tools/build_native.py"


@every_platform
def test_text_is_what_the_compiler_gives(platform):
    reason = build_native.why_not()
    if reason is not None:
        pytest.skip(reason)
    if build_native.compiler() not in text_of(platform):
        pytest.skip(f"another release than the installed one: {text_of(platform).splitlines()[1]}")
    assert build_native.text_of(platform) == text_of(platform), "run tools/build_native.py"


@every_platform
@pytest.mark.parametrize("pipeline", ["plain", "full"])
def test_llvm_takes_the_text_everywhere(platform, pipeline):
    """Parsed, verified, and compiled by the LLVM of llvmlite, whatever release the compiler has."""
    assembly = jit.compile_for(text_of(platform), TRIPLES[platform], pipeline=pipeline)
    assert "eas_replay:" in assembly


@every_platform
def test_text_says_nothing_of_the_machine_that_made_it(platform):
    assert not re.search(r"target-|tune-cpu|attributes|source_filename|/|!\w", text_of(platform).split("\n", 2)[2])


def test_stale_text_is_told(tmp_path, monkeypatch, capsys):
    reason = build_native.why_not()
    if reason is not None:
        pytest.skip(reason)
    (tmp_path / "text").mkdir()
    (tmp_path / "one.c").write_text("int one(void) { return 1; }\n")
    monkeypatch.setattr(build_native, "NATIVE", tmp_path)
    assert build_native.main([]) == 0
    assert build_native.main(["--check"]) == 0
    (tmp_path / "one.c").write_text("int one(void) { return 2; }\n")
    assert build_native.main(["--check"]) == 1
    assert "linux-x86_64, linux-aarch64, macos-x86_64, macos-aarch64" in capsys.readouterr().err


def test_what_has_no_text_is_refused_with_the_reason(monkeypatch):
    monkeypatch.setattr(native_code.sys, "platform", "plan9")
    monkeypatch.setattr(native_code, "_loaded", [])
    with pytest.raises(jit.CodeError, match=r"no native code for plan9-.*Linux and macOS"):
        native_code.native_code()
    assert "no native code for plan9-" in (CpuRuntime().why_unavailable() or "")
