"""Puts an x86-64 ELF object file into memory, ready to run: the part of a linker that JIT code needs."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import weakref
from collections.abc import Callable
from typing import Final, NamedTuple

# System V ABI, "Object Files", and its AMD64 supplement, "Relocation Types".
_HEADER: Final = struct.Struct("<4sBBB9xHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QQq")
_RELOCATABLE, _X86_64 = 1, 62
_SYMTAB, _RELA, _NOBITS, _PROGBITS = 2, 4, 8, 1
_WRITE, _ALLOC, _TLS = 1, 2, 0x400
_UNDEFINED = 0
_ABS64, _PC32, _PLT32, _GOTPCREL, _PC64 = 1, 2, 4, 9, 24
_GOTPCRELX, _REX_GOTPCRELX = 41, 42

_STUB: Final = b"\xff\x25\xf2\xff\xff\xff\x0f\x0b"  # jmp *-14(%rip): the 8 bytes before it; ud2
_ENTRY_NBYTES = 16  # of the table of externals: an address, and a jump to it
_PAGE = 4096
_MAX_NBYTES = 1 << 26  # a size beyond it is damage, not code
_PROT_READ, _PROT_WRITE, _PROT_EXEC = 1, 2, 4
_MAP_PRIVATE, _MAP_ANONYMOUS = 2, 0x20

Resolve = Callable[[str], int]


class CannotLoad(Exception):
    """The object uses something that this loader does not know; LLVM's own loader may."""


class MissingFunction(CannotLoad):
    """The object calls a function that this process does not have: no loader can help."""


def is_supported(arch: str) -> bool:
    return sys.platform == "linux" and arch == "x86_64" and ctypes.sizeof(ctypes.c_void_p) == 8


class Image:
    """An object file in memory. Its code lives as long as this object, or for ever."""

    def __init__(self, blob: bytes, resolve: Resolve, *, keep_for_ever: bool = False) -> None:
        try:
            parts = _parse(blob)
            memory, symbols = _Layout(parts, resolve).build()
        except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
            raise CannotLoad(f"the object file is damaged: {error}") from error
        self.symbols = symbols
        self.nbytes, self.start = memory.nbytes, memory.address
        if not keep_for_ever:
            # At exit other threads may still run code: nothing is unmapped then.
            weakref.finalize(self, memory.unmap).atexit = False


class _Section(NamedTuple):
    kind: int
    flags: int
    data: bytes
    nbytes: int
    align: int
    link: int
    info: int


class _Symbol(NamedTuple):
    name: str
    section: int
    value: int


class _Object(NamedTuple):
    sections: list[_Section]
    symbols: list[_Symbol]


def _parse(blob: bytes) -> _Object:
    magic, bits, order, _, kind, machine, *rest = _HEADER.unpack_from(blob)
    if (magic, bits, order, kind, machine) != (b"\x7fELF", 2, 1, _RELOCATABLE, _X86_64):
        raise CannotLoad("not a relocatable x86-64 object file")
    offset, count = rest[3], rest[9]
    sections = []
    for i in range(count):
        _, kind, flags, _, start, nbytes, link, info, align, _ = _SECTION.unpack_from(
            blob, offset + i * _SECTION.size
        )
        data = b"" if kind == _NOBITS else blob[start : start + nbytes]
        if kind not in (0, _NOBITS) and len(data) != nbytes:
            raise CannotLoad("the object file is cut off")
        sections.append(_Section(kind, flags, data, nbytes, max(align, 1), link, info))
    return _Object(
        sections,
        [s for table in sections if table.kind == _SYMTAB for s in _symbols(table, sections)],
    )


def _symbols(table: _Section, sections: list[_Section]) -> list[_Symbol]:
    names = sections[table.link].data
    found = []
    for start, _, _, index, value, _ in _SYMBOL.iter_unpack(table.data):
        found.append(_Symbol(names[start : names.index(b"\0", start)].decode(), index, value))
    return found


class _Memory:
    """Anonymous pages, writable until the first part of them is sealed."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        address = _libc().mmap(
            None, nbytes, _PROT_READ | _PROT_WRITE, _MAP_PRIVATE | _MAP_ANONYMOUS, -1, 0
        )
        if address in (None, ctypes.c_void_p(-1).value):
            raise MemoryError(f"no {nbytes} bytes for code: {_reason()}")
        self.address: int = address
        self._munmap = _libc().munmap  # at the end of the process the names of this module go first

    def seal(self, nbytes: int) -> None:
        """Make the first pages executable and read-only: no page is ever both."""
        if _libc().mprotect(self.address, nbytes, _PROT_READ | _PROT_EXEC) != 0:
            self.unmap()
            raise CannotLoad(f"the system refuses executable memory: {_reason()}")

    def unmap(self) -> None:
        self._munmap(self.address, self.nbytes)


class _Layout:
    """Where each section goes: code and constants, table of externals | whole pages | variables."""

    def __init__(self, parts: _Object, resolve: Resolve) -> None:
        self.parts = parts
        self.resolve = resolve
        self.offset: dict[int, int] = {}
        self.externals: dict[int, int] = {}
        top = self._place(0, writable=False)
        self.table = _align(top, _ENTRY_NBYTES)
        self.sealed = _align(self.table + _ENTRY_NBYTES * len(parts.symbols), _PAGE)
        self.nbytes = _align(self._place(self.sealed, writable=True), _PAGE)
        if self.nbytes > _MAX_NBYTES:
            raise CannotLoad(f"{self.nbytes} bytes of code")

    def _place(self, top: int, *, writable: bool) -> int:
        for i, section in enumerate(self.parts.sections):
            if not section.flags & _ALLOC or bool(section.flags & _WRITE) is not writable:
                continue
            if section.flags & _TLS:
                raise CannotLoad("thread-local variables")
            if section.kind not in (_PROGBITS, _NOBITS):
                continue  # unwind tables: nothing unwinds through a kernel
            self.offset[i] = _align(top, section.align)
            top = self.offset[i] + section.nbytes
        return top

    def build(self) -> tuple[_Memory, dict[str, int]]:
        image = bytearray(self.nbytes)
        for i, start in self.offset.items():
            section = self.parts.sections[i]
            image[start : start + len(section.data)] = section.data
        memory = _Memory(self.nbytes)
        try:
            for table in self.parts.sections:
                if table.kind == _RELA and table.info in self.offset:
                    self._relocate(image, table, memory.address)
            ctypes.memmove(memory.address, bytes(image), self.nbytes)
        except BaseException:
            memory.unmap()
            raise
        memory.seal(self.sealed)
        symbols = {
            s.name: memory.address + self.offset[s.section] + s.value
            for s in self.parts.symbols
            if s.name and s.section in self.offset
        }
        return memory, symbols

    def _relocate(self, image: bytearray, table: _Section, base: int) -> None:
        start = self.offset[table.info]
        for offset, info, addend in _RELOCATION.iter_unpack(table.data):
            kind, index = info & 0xFFFFFFFF, info >> 32
            place = start + offset
            if kind in (_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX):
                value = self._entry(image, index, base) + addend - place
            elif kind == _PLT32 and self.parts.symbols[index].section == _UNDEFINED:
                value = self._entry(image, index, base) + 8 + addend - place
            elif kind in (_PC32, _PLT32, _PC64):
                value = self._target(index, base) - base + addend - place
            elif kind == _ABS64:
                value = self._target(index, base) + addend
            else:
                raise CannotLoad(f"relocation type {kind}")
            struct.pack_into("<q" if kind in (_ABS64, _PC64) else "<i", image, place, value)

    def _target(self, index: int, base: int) -> int:
        """The address of a symbol."""
        symbol = self.parts.symbols[index]
        if symbol.section == _UNDEFINED:
            return self.resolve(symbol.name)
        if symbol.section not in self.offset:
            raise CannotLoad(f"symbol {symbol.name!r} lies in section {symbol.section:#x}")
        return base + self.offset[symbol.section] + symbol.value

    def _entry(self, image: bytearray, index: int, base: int) -> int:
        """The place of a symbol's row in the table, relative to the image: address, then a jump."""
        if index not in self.externals:
            place = self.table + _ENTRY_NBYTES * len(self.externals)
            struct.pack_into("<Q8s", image, place, self._target(index, base), _STUB)
            self.externals[index] = place
        return self.externals[index]


def _align(n: int, step: int) -> int:
    return -(-n // step) * step


_loaded_libc: list[ctypes.CDLL] = []


def _libc() -> ctypes.CDLL:
    if not _loaded_libc:
        libc = ctypes.CDLL(None, use_errno=True)
        size, address = ctypes.c_size_t, ctypes.c_void_p
        libc.mmap.restype = address
        libc.mmap.argtypes = (
            address,
            size,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_long,
        )
        libc.mprotect.argtypes = (address, size, ctypes.c_int)
        libc.munmap.argtypes = (address, size)
        _loaded_libc.append(libc)
    return _loaded_libc[0]


def _reason() -> str:
    return os.strerror(ctypes.get_errno())
