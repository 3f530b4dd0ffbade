"""LLVM text to machine code in memory; LLVM itself is imported only when there is something to compile."""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import importlib.util
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from eas._version import __version__
from eas.base.aside import Aside
from eas.base.errors import EasError
from eas.base.loading import load as load_modules
from eas.base.locks import is_held_here, new_lock
from eas.runtime import keys
from eas.runtime.disk_cache import default_cache
from eas.runtime.native import elf
from eas.runtime.native.host_cpu import host_cpu
from eas.runtime.native.host_target import host_target
from eas.runtime.native.object_names import names_from_elsewhere
from eas.schedule.target import CpuTarget

Pipeline = Literal["plain", "quick", "full"]
"""plain: no optimisation, a tenth of the time; quick: for explicit SIMD text; full: LLVM's -O2."""

DEFAULT_PIPELINE: Pipeline = "quick"

_CACHE_FORMAT = "object-1"

lock = new_lock(stops_fork=True)
"""Held while something is compiled or loaded once; nobody forks in the middle of that."""
_llvm_lock = new_lock(stops_fork=True)
"""Held by the thread that is inside of LLVM; a thread may have taken `lock` before, never after."""
_LONG_TEXT = 20_000  # characters: LLVM takes a tenth of a second


class CodeError(EasError):
    """LLVM refuses a text, or code names a function that this process does not have; a bug of eas."""


class LoadedCode:
    """Machine code in memory, which stays there as long as this object."""

    __slots__ = ("__weakref__", "_owner", "nbytes", "start", "symbols")

    def __init__(self, symbols: Mapping[str, int], owner: object, nbytes: int, start: int = 0) -> None:
        self.symbols = symbols
        self.nbytes = nbytes
        self.start = start
        """The first address; 0 if nobody knows."""
        self._owner = owner

    def address(self, name: str) -> int:
        """Where a function or variable of the text starts."""
        try:
            return self.symbols[name]
        except KeyError:
            raise CodeError(f"the code has no symbol {name!r}") from None


def why_unavailable() -> str | None:
    """What is missing to compile, as the end of a sentence, or None."""
    return None if _llvmlite_folder() else "llvmlite is not installed (pip install llvmlite)"


def load(
    text: str,
    *,
    pipeline: Pipeline = DEFAULT_PIPELINE,
    target: CpuTarget | None = None,
    keep_for_ever: bool = False,
) -> LoadedCode:
    """Code that this processor runs; from the disk cache if it was ever compiled on this machine."""
    target = target or host_target()
    cache, key = default_cache(), object_key(text, pipeline, target)
    known = cache.get(key)
    if known is not None:
        return _in_memory(known, keep_for_ever)
    blob = compile_object(text, pipeline, target)
    cache.put(key, blob)
    return _in_memory(blob, keep_for_ever)


def load_object(blob: bytes) -> LoadedCode:
    """The code of an object file that was made for this machine."""
    return _in_memory(blob, keep_for_ever=False)


def compile_object(
    text: str, pipeline: Pipeline = DEFAULT_PIPELINE, target: CpuTarget | None = None
) -> bytes:
    """The object file for this processor; always compiles."""
    work = functools.partial(_object_file, text, pipeline, target or host_target())
    is_main = threading.current_thread() is threading.main_thread()
    is_inside = is_held_here(_llvm_lock)  # a signal handler in the middle of a compilation: another thread could not enter
    return _interruptible(work) if is_main and len(text) > _LONG_TEXT and not is_inside else work()


def _object_file(text: str, pipeline: Pipeline, target: CpuTarget) -> bytes:
    with _llvm_lock:
        compiler = _host_compiler(pipeline, *_llvm_names(target))
        return bytes(compiler.machine.emit_object(compiler.optimised(text)))


def _interruptible(work: Callable[[], bytes]) -> bytes:
    """`work()` on another thread, since LLVM cannot be stopped: this one waits, and its signal handlers may raise.

    What is left alone then ends before the next compilation begins, and before the process does.
    """
    aside = Aside(work)
    try:
        return aside.result()
    except BaseException:
        atexit.register(aside.finish)
        raise


def asm(
    text: str, *, pipeline: Pipeline = DEFAULT_PIPELINE, target: CpuTarget | None = None
) -> str:
    """The assembly that `load` would run."""
    with _llvm_lock:
        compiler = _host_compiler(pipeline, *_llvm_names(target or host_target()))
        return str(compiler.machine.emit_assembly(compiler.optimised(text)))


def compile_for(
    text: str, triple: str, cpu: str = "", features: str = "", pipeline: Pipeline = DEFAULT_PIPELINE
) -> str:
    """Assembly of another processor, to be read: `compile_for(text, "aarch64-linux-gnu", "neoverse-n1")`."""
    with _llvm_lock:
        llvm = _llvm()
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        try:
            target = llvm.Target.from_triple(triple)
        except RuntimeError as error:
            raise CodeError(f"LLVM has no target {triple!r}: {error}") from None
        compiler = _Compiler(_machine(target, cpu, features, pipeline), pipeline)
        return str(compiler.machine.emit_assembly(compiler.optimised(text)))


# --- compiling ------------------------------------------------------------------------------------


@functools.cache
def _llvm() -> Any:
    """`llvmlite.binding`, ready for this machine; importing it takes 40 to 90 ms."""
    reason = why_unavailable()
    if reason is not None:
        raise CodeError(reason)
    load_modules("llvmlite.binding")
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    return llvm


class _Compiler:
    """A machine and a list of passes, used for many texts: llvmlite never frees a list."""

    def __init__(self, machine: Any, pipeline: Pipeline) -> None:
        self.machine = machine
        llvm = _llvm()
        tuning = llvm.create_pipeline_tuning_options(speed_level=2)
        # The text is explicit SIMD, unrolled as the schedule decided.
        tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_unrolling = False
        self._builder = llvm.create_pass_builder(machine, tuning)
        self._pipeline = pipeline
        self._quick = _quick_passes(llvm)

    def optimised(self, text: str) -> Any:
        """The LLVM module of a text after the passes."""
        llvm = _llvm()
        try:
            # A context of its own: types and constants of this text are freed with the module.
            module = llvm.parse_assembly(text, llvm.create_context())
            module.triple = self.machine.triple
            module.data_layout = str(self.machine.target_data)
            module.verify()
        except RuntimeError as error:
            raise CodeError(f"LLVM refuses the text: {error}") from None
        if self._pipeline == "quick":
            self._quick.run(module, self._builder)
        elif self._pipeline == "full":
            # LLVM's own list holds an inliner that runs once only.
            self._builder.getModulePassManager().run(module, self._builder)
        return module


def _machine(target: Any, cpu: str, features: str, pipeline: Pipeline) -> Any:
    level = 0 if pipeline == "plain" else 2
    return target.create_target_machine(
        cpu=cpu, features=features, opt=level, reloc="pic", codemodel="small"
    )


def _host_machine(pipeline: Pipeline, cpu: str, features: str) -> Any:
    llvm = _llvm()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return _machine(target, cpu, features, pipeline)


def _llvm_names(target: CpuTarget) -> tuple[str, str]:
    """The processor and its extensions; of one without a name, those that LLVM finds in this machine."""
    if target.cpu:
        return target.cpu, target.features
    llvm = _llvm()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@functools.cache
def _host_compiler(pipeline: Pipeline, cpu: str, features: str) -> _Compiler:
    return _Compiler(_host_machine(pipeline, cpu, features), pipeline)


def _quick_passes(llvm: Any) -> Any:
    """What explicit SIMD text needs; a quarter of the time of LLVM's own -O2 list.

    Common subexpressions and invariants are gone already (eas/passes), so this only inlines, puts
    allocas into registers, folds addresses and turns loops so that their test is at the end. Not NewGVN:
    it found nothing that later stages of LLVM do not, and aborts the process on some kernels.
    """
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_loop_simplify_pass()
    passes.add_loop_rotate_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    return passes


# --- the cache ------------------------------------------------------------------------------------


def object_key(text: str, pipeline: Pipeline, target: CpuTarget) -> str:
    """Where the disk cache keeps the object file of a text."""
    machine = (host_cpu().fingerprint, str(target))
    return "object " + keys.disk_key(keys.ObjectKey(_CACHE_FORMAT, __version__, llvm_version(), *machine, pipeline, text))


@functools.cache
def _llvmlite_folder() -> Path | None:
    spec = importlib.util.find_spec("llvmlite")  # finds the package without importing it
    places = (spec.submodule_search_locations if spec else None) or ()
    return next((Path(place) for place in places), None)


@functools.cache
def llvm_version() -> str:
    """Changes when another LLVM is installed; importlib.metadata would cost more than loading code."""
    folder = _llvmlite_folder()
    if folder is None:
        return "none"
    parts = []
    for path in [folder / "_version.py", *sorted((folder / "binding").glob("*llvmlite.*"))]:
        try:
            is_text = path.suffix == ".py"
            parts.append(
                path.read_text(encoding="utf-8")
                if is_text
                else f"{path.name} {path.stat().st_size}"
            )
        except OSError:
            parts.append(f"{path.name} ?")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


# --- loading --------------------------------------------------------------------------------------


def _in_memory(blob: bytes, keep_for_ever: bool) -> LoadedCode:
    if elf.is_supported(host_cpu().arch):
        try:
            image = elf.Image(blob, resolve, keep_for_ever=keep_for_ever)
            return LoadedCode(image.symbols, image, image.nbytes, image.start)
        except elf.MissingFunction as error:
            raise CodeError(str(error)) from None
        except elf.CannotLoad:
            pass  # LLVM's loader knows every relocation
    return _loaded_by_llvm(blob, keep_for_ever)


def _loaded_by_llvm(blob: bytes, keep_for_ever: bool) -> LoadedCode:
    try:
        functions = {name: resolve(name) for name in names_from_elsewhere(blob)}
    except elf.MissingFunction as error:
        raise CodeError(str(error)) from None
    with _llvm_lock:
        llvm = _llvm()
        for name, address in functions.items():  # what it does not find itself it lets jump to 0
            llvm.add_symbol(name, address)
        # The engine takes the machine and an empty module for its own.
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _host_machine("quick", *_llvm_names(host_target())))
        engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(blob))
        engine.finalize_object()
    if keep_for_ever:
        _kept.append(engine)
    return LoadedCode(_EngineSymbols(engine), engine, len(blob))


_kept: list[object] = []


class _EngineSymbols(dict[str, int]):
    """Addresses that LLVM's loader is asked for when somebody wants them."""

    def __init__(self, engine: Any) -> None:
        super().__init__()
        self._engine = engine

    def __missing__(self, name: str) -> int:
        address = int(self._engine.get_function_address(name))
        if not address:
            raise KeyError(name)
        self[name] = address
        return address


def resolve(name: str) -> int:
    """The address of a C function of this process: libc, libm, pthreads, CPython."""
    for library in _libraries():
        try:
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
        except AttributeError:
            continue
    raise elf.MissingFunction(f"this process has no function {name!r}, which compiled code calls")


@functools.cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    """The process, CPython, and libm, which Python does not always load."""
    found = [ctypes.CDLL(None), ctypes.pythonapi]
    for name in ("libm.so.6", "libm.so"):
        try:
            found.append(ctypes.CDLL(name))
            break
        except OSError:
            continue
    return tuple(found)
