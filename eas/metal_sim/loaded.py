"""A kernel in memory: its parameters, its code, and the lines of the Metal text that addresses of the code belong to."""

from __future__ import annotations

import ctypes
import functools
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from eas.metal_sim import native
from eas.metal_sim.debug_lines import CodeLine, LineTable, code_of
from eas.metal_sim.errors import Places
from eas.metal_sim.prepass import KernelSource, Parameter


@dataclass(frozen=True, slots=True)
class LoadedLibrary:
    """A shared library in memory, and what is to be known of its file."""

    library: ctypes.CDLL
    nbytes: int
    """How much memory it takes."""
    code_digest: bytes


@dataclass(frozen=True, eq=False)
class KernelCode:
    """A loaded kernel."""

    loaded: LoadedLibrary
    with_lines: Callable[[], bytes]
    """Compiles the same text again, with its line table."""
    entry: int
    infos: tuple[native.ParameterInfo, ...]

    @functools.cached_property
    def lines(self) -> LineTable | None:
        """From a library that has the same code; None if its code differs."""
        data = self.with_lines()
        return LineTable(data) if code_digest(data) == self.loaded.code_digest else None


class MetalText(Protocol):
    """The text that a kernel is from; `Library` is the implementation."""

    name: str
    text: str
    places: Places | None

    @property
    def threadgroup_variables(self) -> tuple[tuple[str, str], ...]: ...


class LoadedKernel(ABC):
    """One kernel: what its launches, and reports of them, have to know."""

    library: MetalText

    def __init__(self, library: MetalText, source: KernelSource, code: KernelCode) -> None:
        self.library = library
        self.name = source.name
        self.parameters: tuple[Parameter, ...] = source.parameters
        self.max_total_threads = source.max_threads or 1024
        self.static_threadgroup_nbytes = 0
        """Of the variables that the kernel declares; known after its first launch."""
        self.has_checked_registers = False
        self._code = code

    @property
    @abstractmethod
    def register_twin(self) -> LoadedKernel | None:
        """This kernel, compiled to look for values that nobody has set; None if that is not possible."""

    @property
    def entry(self) -> int:
        """The address of its code."""
        return self._code.entry

    @property
    def buffers(self) -> tuple[Parameter, ...]:
        """The parameters that a call passes, in the order of the call."""
        return tuple(p for p in self.parameters if p.kind == "buffer")

    def info(self, parameter: Parameter) -> native.ParameterInfo:
        """Size, alignment and kind of what the parameter points to."""
        return self._code.infos[self.parameters.index(parameter)]

    def line_at(self, address: int | None) -> CodeLine | None:
        """The line of the Metal text that a code address belongs to."""
        if not address:
            return None
        table = self._code.lines
        # A return address is that of the next instruction.
        return None if table is None else table.find(address - self.code_start - 1)

    @property
    def code_nbytes(self) -> int:
        """How much memory the library takes, from `code_start` on."""
        return self._code.loaded.nbytes

    @property
    def code_start(self) -> int:
        """Where the library lies in memory: the address of what its file calls address 0."""
        return load_address(self._code.entry)


def code_digest(data: bytes) -> bytes:
    address, code = code_of(data)
    return hashlib.sha256(b"%d:%b" % (address, code)).digest()


class _DlInfo(ctypes.Structure):
    _fields_ = (("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("address", ctypes.c_void_p))


@functools.cache
def load_address(inside: int) -> int:
    """The base of the shared library that holds an address."""
    found = _DlInfo()
    ctypes.CDLL(None).dladdr(ctypes.c_void_p(inside), ctypes.byref(found))
    return int(found.base or 0)
