"""LLVM text to code in memory: compiling, the disk cache, the ELF loader, and what it refuses."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from eas.lib.elementwise import gelu_kernel
from eas.runtime.disk_cache import default_cache
from eas.runtime.native import elf, jit
from eas.runtime.native.host_cpu import HostCpu, host_cpu
from eas.runtime.native.object_names import names_from_elsewhere
from tests.unit.fixed_target import llvm_text
from tests.unit.native_kernels import ADD, COUNT

pytest.importorskip("llvmlite")
needs_elf = pytest.mark.skipif(not elf.is_supported(host_cpu().arch), reason="LLVM loads code here")

SQUARE = "define i64 @square(i64 %x) {\n  %y = mul i64 %x, %x\n  ret i64 %y\n}\n"

# Every kind of reference: libm and libc by call and by address, constants, variables, own functions.
REFERENCES = """
@table = private unnamed_addr constant [4 x double] [double 1.0, double 2.0, double 4.0, double 8.0]
@counter = internal global i64 40
@zeros = internal global [8 x i64] zeroinitializer
@pointer = internal global ptr @table
@environ = external global ptr
declare double @cos(double)
declare i64 @strlen(ptr)
define internal i64 @bump(i64 %by) noinline {
  %old = load i64, ptr @counter
  %new = add i64 %old, %by
  store i64 %new, ptr @counter
  ret i64 %new
}
define i64 @count() {
  %r = call i64 @bump(i64 1)
  ret i64 %r
}
define double @cosine_plus(double %x, i64 %i) {
  %t = load volatile ptr, ptr @pointer
  %p = getelementptr double, ptr %t, i64 %i
  %v = load double, ptr %p
  %c = call double @cos(double %x)
  %r = fadd double %c, %v
  ret double %r
}
define ptr @address_of_strlen() {
  ret ptr @strlen
}
define ptr @address_of_environ() {
  ret ptr @environ
}
define i64 @zero(i64 %i) {
  %p = getelementptr i64, ptr @zeros, i64 %i
  %v = load i64, ptr %p
  ret i64 %v
}
define float @constant(float %x) {
  %y = fmul float %x, 0x400921FB60000000
  ret float %y
}
"""


def function(code, name, result, *types):
    made = ctypes.CFUNCTYPE(result, *types)(code.address(name))
    made.code = code  # type: ignore[attr-defined]  # keeps the code
    return made


def square(code):
    return function(code, "square", ctypes.c_int64, ctypes.c_int64)


def check_references(code):
    count = function(code, "count", ctypes.c_int64)
    assert [count(), count()] == [41, 42]
    cosine_plus = function(code, "cosine_plus", ctypes.c_double, ctypes.c_double, ctypes.c_int64)
    assert cosine_plus(0.5, 2) == pytest.approx(np.cos(0.5) + 4.0, abs=1e-15)
    strlen = ctypes.cast(ctypes.CDLL(None).strlen, ctypes.c_void_p).value
    assert function(code, "address_of_strlen", ctypes.c_void_p)() == strlen
    assert function(code, "zero", ctypes.c_int64, ctypes.c_int64)(7) == 0
    assert function(code, "constant", ctypes.c_float, ctypes.c_float)(2.0) == pytest.approx(
        2 * np.pi
    )


@needs_elf
@pytest.mark.parametrize("pipeline", ["plain", "quick", "full"])
def test_own_loader_resolves_every_reference(pipeline):
    image = elf.Image(jit.compile_object(REFERENCES, pipeline), jit.resolve)
    check_references(jit.LoadedCode(image.symbols, image, image.nbytes))


@pytest.mark.parametrize("pipeline", ["plain", "quick", "full"])
def test_equal_texts_give_equal_bytes(pipeline):
    first = jit.compile_object(REFERENCES, pipeline)
    jit.compile_object(ADD, pipeline)
    assert jit.compile_object(REFERENCES, pipeline) == first


def test_llvm_loader_resolves_every_reference():
    check_references(jit._loaded_by_llvm(jit.compile_object(REFERENCES), False))


def test_second_load_comes_from_the_cache(monkeypatch):
    assert square(jit.load(SQUARE))(12) == 144
    monkeypatch.setattr(jit, "compile_object", lambda *a: pytest.fail("compiled again"))
    assert square(jit.load(SQUARE))(13) == 169


def entries():
    root = default_cache().root
    assert root is not None
    return [p for p in root.rglob("*.eas") if p.is_file()]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "garbage"])
def test_damaged_cache_entries_are_compiled_again(damage):
    assert square(jit.load(SQUARE))(3) == 9
    (path,) = entries()
    blob = bytearray(path.read_bytes())
    if damage == "flip":
        blob[-100] ^= 4
    path.write_bytes(
        {"cut": blob[: len(blob) // 2], "flip": blob, "empty": b"", "garbage": b"x" * 999}[damage]
    )
    assert square(jit.load(SQUARE))(4) == 16


@needs_elf
def test_warm_start_does_not_import_llvmlite():
    script = textwrap.dedent("""
        import ctypes, sys
        from eas.runtime.native import jit
        from tests.unit.test_jit import SQUARE
        code = jit.load(SQUARE)
        print(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address("square"))(5), "llvmlite.binding" in sys.modules)
    """).replace("from tests.unit.test_jit import SQUARE", f"SQUARE = {SQUARE!r}")
    root = Path(__file__).parents[2]
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    assert outputs == [["25", "True"], ["25", "False"]]


@needs_elf
@pytest.mark.parametrize("cut", [0, 10, 63, 64, 200, 400, -1])
def test_loader_refuses_damaged_objects(cut):
    blob = jit.compile_object(REFERENCES)
    with pytest.raises(elf.CannotLoad):
        elf.Image(blob[:cut], jit.resolve)


@needs_elf
def test_loader_never_crashes_on_noise():
    blob = jit.compile_object(REFERENCES)
    noise = np.random.default_rng(1)
    for _ in range(300):
        changed = bytearray(blob)
        for place in noise.integers(0, len(blob), 4):
            changed[place] ^= int(noise.integers(1, 256))
        try:
            elf.Image(bytes(changed), jit.resolve)
        except (elf.CannotLoad, MemoryError):
            continue


@needs_elf
def test_unknown_functions_are_an_error():
    text = "declare void @eas_no_such_function()\ndefine void @f() {\n  call void @eas_no_such_function()\n  ret void\n}"
    with pytest.raises(elf.CannotLoad, match="eas_no_such_function"):
        elf.Image(jit.compile_object(text), jit.resolve)


@pytest.mark.parametrize("in_memory", [jit._in_memory, jit._loaded_by_llvm])
def test_code_that_calls_an_unknown_function_is_refused(in_memory):
    text = "declare i32 @eas_no_such_function(i32)\ndefine i32 @f(i32 %a) {\n  %r = call i32 @eas_no_such_function(i32 %a)\n  ret i32 %r\n}"
    with pytest.raises(jit.CodeError, match="this process has no function 'eas_no_such_function', which compiled code calls"):
        in_memory(jit.compile_object(text), False)


FOREIGN = ("x86_64-linux-gnu", "aarch64-linux-gnu", "arm64-apple-macosx14.0", "x86_64-apple-macosx14.0")  # ELF and Mach-O


@pytest.mark.parametrize("triple", FOREIGN)
def test_names_from_elsewhere_are_those_that_the_code_calls(triple):
    llvm = jit._llvm()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(reloc="pic")
    module = llvm.parse_assembly(REFERENCES, llvm.create_context())
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    assert sorted(names_from_elsewhere(machine.emit_object(module))) == ["cos", "environ", "strlen"]


def test_names_of_no_object_file_are_an_error():
    with pytest.raises(ValueError, match="neither an ELF nor"):
        names_from_elsewhere(b"MZ" + bytes(100))


def test_unknown_symbol_and_bad_text_are_errors():
    with pytest.raises(jit.CodeError, match="no symbol 'cube'"):
        jit.load(SQUARE).address("cube")
    with pytest.raises(jit.CodeError, match="LLVM refuses the text"):
        jit.load("define i32 @f() { ret i64 0 }")


def executable_nbytes():
    lines = Path("/proc/self/maps").read_text().splitlines()
    ranges = [line.split()[0].split("-") for line in lines if " r-xp " in line]
    return sum(int(hi, 16) - int(lo, 16) for lo, hi in ranges)


@needs_elf
def test_code_is_unmapped_with_its_owner():
    blob = jit.compile_object(SQUARE)
    gc.collect()
    before = executable_nbytes()
    images = [elf.Image(blob, jit.resolve) for _ in range(500)]
    assert executable_nbytes() - before >= 500 * 4096
    images.clear()
    gc.collect()
    assert executable_nbytes() == before


@needs_elf
def test_no_page_is_writable_and_executable():
    code = jit.load(REFERENCES)
    assert {name: protection(code.address(name)) for name in ("count", "counter")} == {
        "count": "r-xp",
        "counter": "rw-p",
    }


def protection(address):
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, flags, *_ = line.split()
        lo, hi = (int(end, 16) for end in place.split("-"))
        if lo <= address < hi:
            return flags
    return "none"


def test_assembly_is_shown_for_this_and_other_machines():
    assert "count:" in jit.asm(COUNT)
    vector = "define <16 x float> @f(<16 x float> %a, <16 x float> %b) {\n  %c = fadd <16 x float> %a, %b\n  ret <16 x float> %c\n}"
    assert "zmm" in jit.compile_for(vector, "x86_64-unknown-linux-gnu", "skylake-avx512")
    assert "fadd\tv0.4s" in jit.compile_for(vector, "aarch64-unknown-linux-gnu", "neoverse-n1")
    with pytest.raises(jit.CodeError, match="no target"):
        jit.compile_for(ADD, "pdp11-dec-unix")


def test_host_knows_its_vectors():
    assert host_cpu().vector_nbytes in (16, 32, 64)
    assert host_cpu() is host_cpu()
    wide = HostCpu("x86_64", frozenset(["avx2", "avx512f", "avx512dq", "avx512bw", "avx512vl"]), "")
    assert wide.vector_nbytes == 64
    assert HostCpu("aarch64", frozenset(), "").vector_nbytes == 16


def test_registers_that_are_put_aside_cross_no_line():
    """Where one crossed into another page, a loop with stores past the cache took 4 times as long."""
    x = np.zeros(1 << 12, np.float32)
    text = llvm_text(gelu_kernel, x, 1.0, 0.0, x.copy(), x.size, facts=(), TANH=False, BLOCK=1024)
    lines = jit.compile_for(text, "x86_64-unknown-linux-gnu", "haswell").splitlines()
    aside = [line for line in lines if "%ymm" in line and "(%rsp)" in line and "vmov" in line]
    assert aside
    assert not [line for line in aside if "vmovaps" not in line and "vmovdqa" not in line]
