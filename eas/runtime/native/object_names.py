"""The functions that an object file takes from elsewhere, in the two formats that LLVM writes for us: ELF and Mach-O."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

# System V ABI, "Object Files": the header's e_shoff and e_shnum, sections, symbols.
_ELF_HEADER: Final = struct.Struct("<40xQ12xH2x")
_ELF_SECTION: Final = struct.Struct("<4xI16xQQI20x")
_ELF_SYMBOL: Final = struct.Struct("<I2xH16x")
_SYMTAB: Final = 2
# <mach-o/loader.h>, <mach-o/nlist.h>
_MACH_HEADER: Final = struct.Struct("<16xI12x")
_MACH_SYMTAB: Final = struct.Struct("<8xIIII")
_MACH_SYMBOL: Final = struct.Struct("<IB11x")
_LC_SYMTAB: Final = 2
_MACH_64: Final = b"\xcf\xfa\xed\xfe"
_UNDEFINED_EXTERNAL: Final = 1  # N_UNDF | N_EXT


def names_from_elsewhere(blob: bytes) -> list[str]:
    """The C names of what the file uses and does not define, in its order."""
    if blob[:4] == b"\x7fELF":
        names = _of_elf(blob)
    elif blob[:4] == _MACH_64:
        names = (name.removeprefix("_") for name in _of_mach(blob))
    else:
        raise ValueError("neither an ELF nor a 64-bit Mach-O object file")
    return [name for name in names if name and name != "_GLOBAL_OFFSET_TABLE_"]


def _of_elf(blob: bytes) -> Iterator[str]:
    offset, count = _ELF_HEADER.unpack_from(blob)
    sections = [_ELF_SECTION.unpack_from(blob, offset + i * _ELF_SECTION.size) for i in range(count)]
    for kind, start, nbytes, link in sections:
        if kind == _SYMTAB:
            names = sections[link][1]
            for place, section in _ELF_SYMBOL.iter_unpack(blob[start : start + nbytes]):
                if section == 0:
                    yield _text(blob, names + place)


def _of_mach(blob: bytes) -> Iterator[str]:
    (count,) = _MACH_HEADER.unpack_from(blob)
    at = _MACH_HEADER.size
    for _ in range(count):
        command, nbytes = struct.unpack_from("<II", blob, at)
        if command == _LC_SYMTAB:
            symbols, n_symbols, names, _ = _MACH_SYMTAB.unpack_from(blob, at)
            for place, kind in _MACH_SYMBOL.iter_unpack(blob[symbols : symbols + n_symbols * _MACH_SYMBOL.size]):
                if kind & 0x0F == _UNDEFINED_EXTERNAL:
                    yield _text(blob, names + place)
        at += nbytes


def _text(blob: bytes, start: int) -> str:
    return blob[start : blob.index(b"\0", start)].decode()
