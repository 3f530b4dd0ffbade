"""The C++ compiler of the software Metal: finding it, its flags, and what it builds: engine, shim, kernels."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eas.base.errors import ArgumentError, BackendUnavailable, printable
from eas.base.locks import new_lock
from eas.metal_sim import binaries
from eas.metal_sim.errors import MetalSourceError
from eas.metal_sim.strict import messages as strict_messages
from eas.metal_sim.strict import spaces as strict_spaces
from eas.metal_sim.tokens import OWN_LINES
from eas.runtime.native.host_cpu import host_cpu

HERE = Path(__file__).parent
INCLUDE, ENGINE = HERE / "include", HERE / "engine"
PRELUDE = INCLUDE / "eas_prelude.h"
MIN_CLANG = 19  # older ones lack _Float16 and __bf16 on all targets
NEWEST_CLANG = 40

LANGUAGES = ("2.0", "2.1", "2.2", "2.3", "2.4", "3.0", "3.1", "3.2", "4.0", "4.1")
MATH_MODES = {
    "safe": ("-ffp-contract=off",),
    "relaxed": ("-ffp-contract=fast", "-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-freciprocal-math"),
    "fast": ("-ffast-math", "-ffp-contract=fast"),
}
# The sanitizer's callbacks are the engine's own: accesses, memory functions, alignment and array bounds.
SANITIZE = (
    "-fsanitize=thread,alignment,array-bounds",
    "-fstrict-flex-arrays=3",  # the last array of a struct has its length, too
    "-fno-sanitize-trap=all",
    "-DEAS_SANITIZE=1",
    *("-mllvm", "-tsan-instrument-func-entry-exit=0"),
    *("-mllvm", "-tsan-instrument-atomics=0"),
)
# For values that nobody has set: without optimisation, which would choose them. x86-64 only; very large frames do not fit a fiber's stack.
MAX_FRAME_NBYTES = 131072
REGISTERS = ("-O0", "-fsanitize=kernel-memory", "-fno-sanitize-memory-param-retval", "-DEAS_SANITIZE=1", "-DEAS_REGISTERS=1", f"-Wframe-larger-than={MAX_FRAME_NBYTES}", "-Werror=frame-larger-than")
# A barrier is known by where it is called, so no pass may make two calls of one, one of two, or a jump of a last one.
KERNEL_FLAGS = (
    "-std=c++17", "-O1", "-fPIC", "-fdeclspec", "-fsigned-char", "-nostdinc", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics",
    "-fno-math-errno", "-fno-strict-aliasing", "-fno-stack-protector", "-fno-omit-frame-pointer", "-fwrapv",
    "-fno-optimize-sibling-calls", "-fconvergent-functions", "-fvisibility=hidden", "-Xclang", "-cl-single-precision-constant", "-fno-caret-diagnostics", "-Wno-unknown-attributes",
    "-mllvm", "-disable-tail-duplicate", "-mllvm", "-disable-early-taildup", "-mllvm", "-tail-dup-placement=0",
    "-mllvm", "-enable-tail-merge=0",
    # Each half operation rounds; a float out of range becomes the nearest integer on every machine.
    "-Xclang", "-ffloat16-excess-precision=none", "-fno-strict-float-cast-overflow", "-fno-elide-type",
    "-Werror=vla",
)  # fmt: skip
# Of no effect on the code: added for the sanitizer, and when a line of the text is asked for.
LINE_FLAGS = ("-gline-tables-only", "-gdwarf-4")
ENGINE_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-nostdinc", "-fno-exceptions", "-fno-rtti", "-fno-stack-protector", "-fno-builtin", "-w")


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler and a linker that work together."""

    compile: tuple[str, ...]
    link: tuple[str, ...]
    version: str

    def run(self, command: Sequence[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
        # Assembly holds bytes of strings as they are: what is no text must come through unchanged.
        try:
            return subprocess.run(
                command, input=text, capture_output=True, encoding="utf-8", errors="surrogateescape", check=False
            )
        except OSError as error:
            raise BackendUnavailable(f"the C++ compiler does not start: {error}", hint="pip install ziglang") from None


def why_unavailable() -> str | None:
    """What the software Metal is missing on this machine, or None."""
    if host_cpu().arch not in ("x86_64", "aarch64"):
        return f"the software Metal runs on x86-64 and aarch64, this is {host_cpu().arch}"
    platform: str = sys.platform
    if platform != "linux":
        return f"the software Metal runs on Linux, this is {platform}"
    if find_compiler() is None:
        return f"it needs a C++ compiler: pip install ziglang, or clang {MIN_CLANG} or newer"
    return None


@functools.cache
def find_compiler() -> Compiler | None:
    """ziglang if it is installed, else the newest clang on the path that is new enough."""
    return _ziglang() or _clang()


def compiler() -> Compiler:
    """The compiler, or `BackendUnavailable` with what to install."""
    reason = why_unavailable()
    found = find_compiler()
    if reason is not None or found is None:
        raise BackendUnavailable(f"the software Metal is not available: {reason}", hint="pip install ziglang")
    return found


def _ziglang() -> Compiler | None:
    spec = importlib.util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        return None
    zig = Path(spec.submodule_search_locations[0]) / "zig"
    if not os.access(zig, os.X_OK):
        return None
    target = f"--target={host_cpu().arch}-linux-gnu"
    return Compiler((str(zig), "clang", target), (str(zig), "ld.lld"), f"zig {zig.stat().st_size} {zig.stat().st_mtime_ns}")


def _clang() -> Compiler | None:
    names = ["clang++", *(f"clang++-{n}" for n in range(NEWEST_CLANG, MIN_CLANG - 1, -1))]
    for path in filter(None, map(shutil.which, names)):
        told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
        match = re.search(r"clang version (\d+)", told)
        linker = shutil.which("ld.lld") or shutil.which("ld")
        if match and int(match[1]) >= MIN_CLANG and linker:
            return Compiler((path,), (linker,), told)
    return None


# --- flags ----------------------------------------------------------------------------------------


def _machine_flags() -> tuple[str, ...]:
    """f16c makes half conversions one instruction; without it the engine's own functions are called."""
    flags = host_cpu().flags
    if host_cpu().arch == "x86_64" and {"avx2", "f16c", "fma"} <= flags:
        return ("-march=x86-64-v3",)
    return ()


def kernel_flags(language: str, math_mode: str, sanitize: bool) -> tuple[str, ...]:
    """The flags of a kernel and of the precompiled shim that it is compiled with."""
    if language not in LANGUAGES:
        raise ValueError(f"there is no Metal language {language!r}; the languages are {', '.join(LANGUAGES)}")
    if math_mode not in MATH_MODES:
        raise ValueError(f"there is no math mode {math_mode!r}; the modes are {', '.join(MATH_MODES)}")
    version = int(language.replace(".", "")) * 10
    return (
        *KERNEL_FLAGS, *_machine_flags(), *MATH_MODES[math_mode], f"-D__METAL_VERSION__={version}", "-D__METAL__=1",
        "-D__METAL_MACOS__=1", *((*SANITIZE, *LINE_FLAGS) if sanitize else ()), "-I", str(INCLUDE),
    )  # fmt: skip


def register_flags(language: str, math_mode: str) -> tuple[str, ...] | None:
    """The flags of a kernel whose unset values are looked for; None on machines whose compiler cannot."""
    if host_cpu().arch != "x86_64":
        return None
    return (*kernel_flags(language, math_mode, sanitize=False), *REGISTERS, *LINE_FLAGS)


def define_flags(language: str) -> tuple[str, ...]:
    """What the preprocessor alone needs."""
    version = int(language.replace(".", "")) * 10
    return ("-std=c++17", "-nostdinc", f"-D__METAL_VERSION__={version}", "-D__METAL__=1", "-D__METAL_MACOS__=1")


# --- keys -----------------------------------------------------------------------------------------


@functools.cache
def _sources_digest() -> str:
    """Changes whenever a header or a file of the engine does."""
    digest = hashlib.sha256()
    for path in sorted([*INCLUDE.rglob("*"), *ENGINE.rglob("*")]):
        if path.is_file():
            digest.update(str(path.relative_to(HERE)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _key(*parts: object) -> str:
    text = "\0".join(map(str, (compiler().version, _sources_digest(), *parts)))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


# --- engine and precompiled shim ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Engine:
    """The engine as a file to link with, and loaded."""

    data: bytes
    library: ctypes.CDLL


_build_lock = new_lock()
_engines: dict[str, _Engine] = {}


def _engine_key() -> str:
    return _key("engine", *ENGINE_FLAGS, *_machine_flags())


def _build_engine() -> bytes:
    with binaries.scratch() as folder:
        objects = []
        for source in sorted(ENGINE.glob("*.cpp")):
            objects.append(f"{folder}/{source.stem}.o")
            _checked([*compiler().compile, *ENGINE_FLAGS, *_machine_flags(), "-I", str(INCLUDE), "-c", str(source), "-o", objects[-1]])
        made = folder / "engine.so"
        # Kernels find the loaded engine by this name; no path is searched for it.
        _checked([*compiler().link, "-shared", "-soname", f"eas-engine-{_engine_key()}", *objects, "-o", str(made)])
        return made.read_bytes()


def _the_engine() -> _Engine:
    key = _engine_key()
    with _build_lock:
        if key not in _engines:
            # Kernels call the mathematical functions of C; Python need not be linked with them.
            ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
            data = binaries.built(key, _build_engine)
            _engines[key] = _Engine(data, binaries.load(data, "engine"))
        return _engines[key]


def engine() -> ctypes.CDLL:
    """The loaded engine; one per process."""
    return _the_engine().library


def shim_headers() -> list[str]:
    """The headers of Metal that a text may include."""
    return [*sorted(p.name for p in INCLUDE.iterdir() if p.is_file() and p.name.startswith("metal_")), "simd/simd.h"]


def _build_shim(flags: tuple[str, ...]) -> bytes:
    with binaries.scratch() as folder:
        made = folder / "shim.pch"
        _checked([*compiler().compile, *flags, "-fpch-instantiate-templates", "-x", "c++-header", "-Xclang", "-fno-pch-timestamp", str(PRELUDE), "-o", str(made)])
        return made.read_bytes()


def _precompiled(flags: tuple[str, ...]) -> Path:
    """Every header of the shim, compiled; the compiler reads it as a file."""
    key = _key("shim", *flags)
    with _build_lock:
        return binaries.private_file(f"{key}.pch", lambda: binaries.built(key, lambda: _build_shim(flags)))


def _checked(command: Sequence[str], text: str | None = None) -> None:
    """Run a build step of our own files; it works, or the compiler is not one we know, or the disk is full."""
    done = compiler().run(command, text)
    if done.returncode != 0:
        raise BackendUnavailable(
            f"the C++ compiler cannot build the software Metal: {done.stderr.strip()[:2000]}",
            hint="pip install -U ziglang",
        )


# --- kernels --------------------------------------------------------------------------------------


def preprocess(text: str, name: str, language: str, include: Sequence[str] = ()) -> str:
    """The text with includes and macros resolved; Metal's own headers stay unread."""
    paths = [flag for path in include for flag in ("-I", _include_path(path))]
    command = [*compiler().compile, *define_flags(language), "-I", str(_stubs()), *paths, "-x", "c++", "-E", "-w", "-"]
    done = compiler().run(command, OWN_LINES + text)
    if done.returncode != 0:
        raise _refusal(done.stderr, name, text)
    return done.stdout


def _include_path(path: str) -> str:
    """An absolute path, for the compiler takes `@file` as a file of options."""
    try:
        usable = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        usable = False
    if not usable:
        raise ArgumentError(f"include {printable(path)} is no path")
    return os.path.abspath(path)


def _stubs() -> Path:
    """A folder of the shim's headers with what #if can ask: other macros are the compiler's, later."""
    features = (INCLUDE / "eas_msl" / "features.h").read_bytes()
    for name in shim_headers():
        binaries.private_file(f"stubs/{name}", lambda: features)
    return binaries.private_folder() / "stubs"


def check_spaces(plain: str, name: str, metal: str) -> None:
    """Refuse preprocessed Metal text in which a pointer changes its address space; asked once per text."""

    def said(text: str, flags: Sequence[str]) -> str:
        return compiler().run([*compiler().compile, *flags, "-I", str(INCLUDE), "-"], text).stderr

    def check() -> bytes:
        strict_spaces.check(plain, name, metal, said)
        return b""

    binaries.built(_key("spaces", *strict_spaces.FLAGS, Path(strict_spaces.__file__).read_text(encoding="utf-8"), plain), check)


# Apple GPUs read vectors at any multiple of an element; x86 traps on its aligned moves. The sanitizer reports such accesses.
_ALIGNED_MOVE = re.compile(r"^\tv?mov(?:ap[sd]|dqa)(?=\t)", re.MULTILINE)


def _unaligned_move(move: re.Match[str]) -> str:
    return move[0].replace("movap", "movup").replace("movdqa", "movdqu")


def compile_library(cxx: str, name: str, metal: str, flags: tuple[str, ...], line_flags: tuple[str, ...] = ()) -> bytes:
    """The shared library of a rewritten text; errors tell the line of the Metal text."""
    key = _key("library", _engine_key(), _ALIGNED_MOVE.pattern, *flags, *line_flags, cxx)
    return binaries.built(key, lambda: _build_library(cxx, name, metal, flags, line_flags))


def check_library(cxx: str, name: str, metal: str, flags: tuple[str, ...]) -> None:
    """Refuse a rewritten text that does not compile; no code is made."""
    done = compiler().run([*_with_shim(flags), "-fsyntax-only", "-"], cxx)
    if done.returncode != 0:
        raise _refusal(done.stderr, name, metal)


def _with_shim(flags: tuple[str, ...]) -> list[str]:
    return [*compiler().compile, *flags, "-Xclang", "-include-pch", "-Xclang", str(_precompiled(flags)), "-Xclang", "-fno-validate-pch", "-x", "c++"]


def _build_library(cxx: str, name: str, metal: str, flags: tuple[str, ...], line_flags: tuple[str, ...]) -> bytes:
    done = compiler().run([*_with_shim(flags), *line_flags, "-S", "-", "-o", "-"], cxx)
    if done.returncode != 0:
        raise _refusal(done.stderr, name, metal)
    with binaries.scratch() as folder:
        made, linked, engine_file = folder / "k.o", folder / "k.so", folder / "engine.so"
        assemble = [*compiler().compile, *_machine_flags(), "-gdwarf-4", "-x", "assembler", "-c", "-", "-o", str(made)]
        _checked(assemble, _ALIGNED_MOVE.sub(_unaligned_move, done.stdout))
        engine_file.write_bytes(_the_engine().data)
        _checked([*compiler().link, "-shared", "--build-id=none", str(made), str(engine_file), "-o", str(linked)])
        return linked.read_bytes()


def _refusal(stderr: str, name: str, metal: str) -> MetalSourceError:
    """The compiler's first error in the Metal text."""
    return strict_messages.refusal(stderr, name, metal, INCLUDE)
