"""Metal text as something to call: `Library(source).kernel(name)(*arrays, grid=..., threads=...)`."""

from __future__ import annotations

import copy
import ctypes
import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from eas.base import config
from eas.base.aside import Aside
from eas.base.errors import ArgumentError, LaunchError, printable
from eas.base.locks import new_lock
from eas.metal_sim import binaries, native, toolchain
from eas.metal_sim.arguments import Binding, bind
from eas.metal_sim.errors import MetalSourceError, Places
from eas.metal_sim.grids import Extent, Shape, shape_of
from eas.metal_sim.loaded import KernelCode, LoadedKernel, LoadedLibrary, code_digest
from eas.metal_sim.prepass import POSITIONS, KernelSource, Source, read_source
from eas.metal_sim.reports import raise_error
from eas.metal_sim.sanitizer import library_nbytes, run_sanitized
from eas.metal_sim.strict import check as strict
from eas.metal_sim.tokens import OWN_LINES

_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?!pragma\b)(?!include[ \t]*<(?:metal_\w+|simd/simd.h)>)", re.MULTILINE)
_METAL_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<(?:metal_\w+|simd/simd.h)>", re.MULTILINE)
MAX_THREADGROUP_NBYTES = 32768
_SMALL = 8  # a text of this many kernels is compiled as a whole, a larger one kernel by kernel


class Library:
    """A Metal text; its kernels are compiled when they are first asked for.

    The text runs as native code of this process: use it on kernels that you trust.
    """

    def __init__(
        self,
        source: str,
        *,
        name: str = "kernel.metal",
        language: str = "3.1",
        math_mode: str = "safe",
        function_constants: Mapping[str | int, object] | None = None,
        sanitize: bool | None = None,
        include: Sequence[str] = (),
        places: Places | None = None,
    ) -> None:
        _require_text(source)
        self.text = source
        self.name = printable(name)
        self.language = language
        self.sanitize = config.sanitize() if sanitize is None else sanitize
        self._math_mode = math_mode
        self._flags = toolchain.kernel_flags(language, math_mode, self.sanitize)
        plain = source
        if include or _DIRECTIVE.search(source):
            plain = toolchain.preprocess(source, self.name, language, include)
        strict.check(plain, language, self.name)
        # The shim is precompiled: what Metal's own headers would add is there already.
        self._plain = plain = _METAL_INCLUDE.sub("//", plain)
        self._source: Source = read_source(plain, function_constants or {}, self.name)
        self.places = places
        self._kernels: dict[str, Kernel] = {}
        self._code: dict[str, KernelCode] = {}
        self._lock = new_lock()

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The kernels of the text, in its order; template kernels by their host names."""
        return tuple(k.name for k in self._source.kernels)

    @property
    def kernel_sources(self) -> tuple[KernelSource, ...]:
        """The kernels with their parameters, as the text declares them."""
        return tuple(self._source.kernels)

    @property
    def function_constants(self) -> tuple[str, ...]:
        """The function constants that the text declares."""
        return tuple(c.name for c in self._source.constants)

    @property
    def threadgroup_variables(self) -> tuple[tuple[str, str], ...]:
        """(name, type) of the threadgroup variables of all kernels."""
        return tuple(self._source.variables)

    def kernel(self, name: str) -> Kernel:
        """The kernel of that name, compiled."""
        found = next((k for k in self._source.kernels if k.name == name), None)
        if found is None:
            near = config.closest(name, self.kernel_names)
            known = ", ".join(self.kernel_names[:8]) or "none"
            raise ArgumentError(
                f"there is no kernel {name!r} in {self.name}; it has {known}",
                hint=f"did you mean {near!r}?" if near else "Library.kernel_names lists them",
            )
        missing = sorted(found.words & self._source.undefined)
        if missing:
            raise ArgumentError(
                f"kernel {name} needs a value of its function constant{'s' if missing[1:] else ''} {', '.join(missing)}",
                hint=f"Library(..., function_constants={{{missing[0]!r}: ...}})",
            )
        with self._lock:
            if name not in self._kernels:
                self._kernels[name] = Kernel(self, found, self._compiled(found))
            return self._kernels[name]

    def check(self) -> None:
        """Raise what Metal's compiler refuses in the text or in any of its kernels; no code is made."""
        toolchain.check_library(self._with_entries(self._source.kernels), self.name, self.text, self._flags)
        toolchain.check_spaces(self._plain, self.name, self.text)

    def register_twin(self) -> Library | None:
        """The same text, compiled to look for values that nobody has set; None where the compiler cannot."""
        flags = toolchain.register_flags(self.language, self._math_mode)
        if flags is None:
            return None
        twin = copy.copy(self)
        twin._flags, twin._kernels, twin._code, twin._lock = flags, {}, {}, new_lock()
        return twin

    def _with_entries(self, kernels: Sequence[KernelSource]) -> str:
        entries = "".join(_entry_text(i, k) for i, k in enumerate(kernels))
        return f'{OWN_LINES}{self._source.text}\n# 1 "<entries>"\n{entries}'

    def _compiled(self, kernel: KernelSource) -> KernelCode:
        if kernel.name not in self._code:
            together = self._source.kernels if len(self._source.kernels) <= _SMALL else [kernel]
            text = self._with_entries(together)
            spaces = Aside(functools.partial(toolchain.check_spaces, self._plain, self.name, self.text))  # side by side
            data = toolchain.compile_library(text, self.name, self.text, self._flags)
            spaces.result()
            # Few launches fail: the table of lines is made when the first line is asked for.
            line_flags = () if self.sanitize else toolchain.LINE_FLAGS
            lines = functools.partial(toolchain.compile_library, text, self.name, self.text, self._flags, line_flags)
            loaded = _load(data)
            for i, k in enumerate(together):
                entry = ctypes.cast(getattr(loaded.library, f"eas_kernel_{i}"), ctypes.c_void_p).value
                table = (native.ParameterInfo * len(k.parameters)).in_dll(loaded.library, f"eas_parameters_{i}") if k.parameters else ()
                assert entry is not None
                self._code[k.name] = KernelCode(loaded, lines, entry, tuple(table))
        return self._code[kernel.name]


def _require_text(source: str) -> None:
    try:
        source.encode()
    except UnicodeEncodeError as error:
        raise MetalSourceError(
            "the Metal text has half of a character", line=source.count("\n", 0, error.start) + 1, hint="read the file as UTF-8"
        ) from None


_loaded: dict[bytes, LoadedLibrary] = {}  # by the digest of the file: equal texts are in memory once


def _load(data: bytes) -> LoadedLibrary:
    key = hashlib.sha256(data).digest()
    if key not in _loaded:
        toolchain.engine()
        try:
            library = binaries.load(data, "kernels")
        except OSError as error:
            symbol = re.search(r"undefined symbol: (\w+)", str(error))
            if symbol is None:
                raise
            raise MetalSourceError(f"function {_unmangled(symbol[1])} is called, and never defined", hint="every function of a Metal text has a body") from None
        _loaded.setdefault(key, LoadedLibrary(library, library_nbytes(data), code_digest(data)))
    return _loaded[key]


def _unmangled(symbol: str) -> str:
    """The name of a C++ function, with its namespaces."""
    names, rest = [], re.sub(r"^_ZN?K?", "", symbol)
    while (length := re.match(r"\d+", rest)) is not None:
        end = length.end() + int(length[0])
        names.append(rest[length.end() : end])
        rest = rest[end:]
    return "::".join(names) or symbol


def _entry_text(number: int, kernel: KernelSource) -> str:
    """The C++ function that the engine calls for each thread, and the table of its parameters."""
    call = f"static_cast<void (*)({kernel.types})>(::{kernel.call})" if kernel.types else f"::{kernel.call}"
    function = f"void (*)({kernel.types})" if kernel.types else f"decltype(&{call})"
    arguments, infos = [], []
    for i, p in enumerate(kernel.parameters):
        type_ = f"eas_sim::parameter<F, {i}>"
        if p.kind == "position":
            arguments.append(f"eas_sim::position<{type_}>(t->{POSITIONS[p.attribute]})")
        else:
            slot = p.index + (native.MAX_SLOTS if p.kind == "threadgroup" else 0)
            arguments.append(f"eas_sim::pointee<{type_}>::bind(s[{slot}])")
        infos.append(f"eas_sim::info<eas_sim::parameter<{function}, {i}>>()")
    exported = '__attribute__((visibility("default"), used))'
    text = (
        f'extern "C" {exported} void eas_kernel_{number}(const eas_sim::Thread* t, void* const* s) '
        f"{{ using F = {function}; {call}({', '.join(arguments)}); }}\n"
    )
    if infos:
        text += f'extern "C" {exported} constexpr eas_sim::ParameterInfo eas_parameters_{number}[] = {{{", ".join(infos)}}};\n'
    return text


class Kernel(LoadedKernel):
    """One kernel, ready to run on NumPy arrays, tensors, numbers and bytes."""

    library: Library

    @functools.cached_property
    def register_twin(self) -> Kernel | None:
        """This kernel, compiled to look for values that nobody has set; None if that is not possible."""
        library = self.library.register_twin()
        try:
            return None if library is None else library.kernel(self.name)
        except MetalSourceError as error:
            if "stack frame size" in str(error):  # unoptimised, it needs more stack than a thread has
                return None
            raise

    def __call__(
        self,
        *args: Any,
        grid: Extent | None = None,
        threadgroups: Extent | None = None,
        grid_threads: Extent | None = None,
        threads: Extent = 1,
        threadgroup_memory: Mapping[int | str, int] | None = None,
        fragment_map: int = 0,
        flush_subnormals: bool = False,
        allow_exited: bool = False,
        stop_word: ctypes.c_int32 | None = None,
        **named: Any,
    ) -> None:
        """Run the kernel: one argument per buffer, in the order of its parameters, or by name.

        `grid` counts threadgroups (so does `threadgroups`), `grid_threads` counts threads: its last
        threadgroups may be smaller. `threads` is the size of a threadgroup. Another thread that puts a 1
        into `stop_word` ends the launch between two threadgroups.
        """
        shape = shape_of(self.name, grid if threadgroups is None else threadgroups, grid_threads, threads, self.max_total_threads)
        bindings = bind(self, args, named)
        launch = self._launch(shape, bindings, threadgroup_memory or {})
        launch.config = native.Config(fragment_map, int(flush_subnormals), int(self.library.sanitize))
        launch.allow_exited = int(allow_exited)
        if shape.is_empty:
            return
        if self.library.sanitize:
            run_sanitized(self, launch, bindings)
        else:
            native.run(launch, stop_word)
        self.static_threadgroup_nbytes = launch.static_nbytes
        if launch.error.kind != native.Kind.NONE:
            raise_error(self, launch, [launch.error])

    def _launch(self, shape: Shape, bindings: Sequence[Binding], memory: Mapping[int | str, int]) -> native.Launch:
        launch = native.Launch(entry=self._code.entry, name=printable(self.name).encode())
        launch.threads, launch.groups, launch.grid_threads = shape.threads, shape.groups, shape.grid_threads
        launch.held = bindings
        for b in bindings:
            launch.buffers[b.parameter.index] = b.address
        for p in self.parameters:
            if p.kind == "threadgroup":
                nbytes = memory.get(p.index, memory.get(p.name, 0))
                if not nbytes:
                    raise ArgumentError(
                        f"kernel {self.name} needs the size of its threadgroup memory {p.name}",
                        hint=f"threadgroup_memory={{{p.name!r}: nbytes}}",
                    )
                launch.threadgroup_nbytes[p.index] = nbytes
        total = sum(-(-n // 16) * 16 for n in launch.threadgroup_nbytes)
        if total > MAX_THREADGROUP_NBYTES:
            raise LaunchError(
                f"kernel {self.name} is given {total} bytes of threadgroup memory; Metal has {MAX_THREADGROUP_NBYTES}",
                hint="use smaller tiles or a narrower type",
            )
        return launch
