"""From code addresses to lines of the Metal text: reads the DWARF 4 line table of a shared library."""

from __future__ import annotations

import bisect
import struct
from dataclasses import dataclass

_SECTION = struct.Struct("<IIQQQQIIQQ")


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A place in the text that was compiled."""

    file: str
    line: int
    column: int


class LineTable:
    """The line table of one library; addresses are those of the file, from 0."""

    def __init__(self, blob: bytes) -> None:
        rows: list[tuple[int, CodeLine | None]] = []
        table = _section(blob, b".debug_line")
        at = 0
        while at + 4 <= len(table):
            length, version = struct.unpack_from("<IH", table, at)
            if version == 4:  # what we ask the compiler for
                rows += _Unit(table, at).rows()
            at += 4 + length
        rows.sort(key=lambda row: row[0])
        self._addresses = [address for address, _ in rows]
        self._lines = [line for _, line in rows]

    def find(self, address: int) -> CodeLine | None:
        """The line whose code holds the address."""
        at = bisect.bisect_right(self._addresses, address) - 1
        return self._lines[at] if at >= 0 else None


def code_of(blob: bytes) -> tuple[int, bytes]:
    """Address and bytes of the machine code of a shared library."""
    header = _header(blob, b".text")
    return (header[3], _bytes(blob, header)) if header else (0, b"")


def _section(blob: bytes, name: bytes) -> bytes:
    return _bytes(blob, _header(blob, name))


def _bytes(blob: bytes, header: tuple[int, ...] | None) -> bytes:
    return blob[header[4] : header[4] + header[5]] if header else b""


def _header(blob: bytes, name: bytes) -> tuple[int, ...] | None:
    start, = struct.unpack_from("<Q", blob, 40)
    count, names = struct.unpack_from("<HH", blob, 60)
    headers = [_SECTION.unpack_from(blob, start + i * _SECTION.size) for i in range(count)]
    strings = headers[names][4]
    for header in headers:
        at = strings + header[0]
        if blob[at : at + len(name) + 1] == name + b"\0":
            return header
    return None


class _Unit:
    """One line number program (DWARF 4, section 6.2)."""

    def __init__(self, table: bytes, at: int) -> None:
        self.data = table
        length, = struct.unpack_from("<I", table, at)
        self.end = at + 4 + length
        header, = struct.unpack_from("<I", table, at + 6)
        self.program = at + 10 + header
        self.min_step, _, _, self.line_base, self.line_range, self.opcode_base = struct.unpack_from("<BBBbBB", table, at + 10)
        self.at = at + 16
        self.lengths = table[self.at : self.at + self.opcode_base - 1]
        self.at += self.opcode_base - 1
        self.files = self._files()

    def _files(self) -> list[str]:
        while self.data[self.at]:
            self._string()  # an include directory
        self.at += 1
        files = [""]
        while self.data[self.at]:
            files.append(self._string())
            for _ in range(3):
                self._unsigned()
        return files

    def rows(self) -> list[tuple[int, CodeLine | None]]:
        """(first address, line) of each stretch of code; None where a stretch ends."""
        rows: list[tuple[int, CodeLine | None]] = []
        self.at = self.program
        self._reset()
        while self.at < self.end:
            opcode = self.data[self.at]
            self.at += 1
            if opcode >= self.opcode_base:
                step = opcode - self.opcode_base
                self.address += step // self.line_range * self.min_step
                self.line += self.line_base + step % self.line_range
                rows.append(self._row())
            elif opcode == 0:
                self._extended(rows)
            elif self._standard(opcode):
                rows.append(self._row())
        return rows

    def _reset(self) -> None:
        self.address, self.file, self.line, self.column = 0, 1, 1, 0

    def _row(self) -> tuple[int, CodeLine | None]:
        name = self.files[self.file] if self.file < len(self.files) else ""
        return self.address, CodeLine(name, self.line, self.column)

    def _extended(self, rows: list[tuple[int, CodeLine | None]]) -> None:
        length = self._unsigned()
        start = self.at
        match self.data[self.at]:
            case 1:
                rows.append((self.address, None))
                self._reset()
            case 2:
                self.address, = struct.unpack_from("<Q", self.data, self.at + 1)
        self.at = start + length

    def _standard(self, opcode: int) -> bool:
        """Whether the operation adds a row."""
        match opcode:
            case 1:
                return True
            case 2:
                self.address += self._unsigned() * self.min_step
            case 3:
                self.line += self._signed()
            case 4:
                self.file = self._unsigned()
            case 5:
                self.column = self._unsigned()
            case 8:
                self.address += (255 - self.opcode_base) // self.line_range * self.min_step
            case 9:
                self.address += struct.unpack_from("<H", self.data, self.at)[0]
                self.at += 2
            case _:
                for _ in range(self.lengths[opcode - 1]):
                    self._unsigned()
        return False

    def _string(self) -> str:
        end = self.data.index(b"\0", self.at)
        text = self.data[self.at : end].decode(errors="surrogateescape")
        self.at = end + 1
        return text

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _signed(self) -> int:
        start = self.at
        value = self._unsigned()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) else value
