"""Small Metal texts around one expression or body, run on the software Metal."""

from __future__ import annotations

import numpy as np

from eas.metal_sim import Library

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
BUFFERS = "abcdefghjklmnopq"  # i is the thread
METAL = {"float32": "float", "float16": "half", "int8": "char", "uint8": "uchar", "int16": "short", "uint16": "ushort", "int32": "int", "uint32": "uint", "int64": "long", "uint64": "ulong"}


def run(body: str, *arrays: np.ndarray, threads: int = 32, parameters: str = "", before: str = "", **options: object) -> None:
    """One threadgroup of a kernel whose buffers a, b, c, ... have the arrays' types."""
    buffers = ", ".join(f"device {METAL[a.dtype.name]}* {name} [[buffer({k})]]" for k, (name, a) in enumerate(zip(BUFFERS, arrays, strict=False)))
    more = f", {parameters}" if parameters else ""
    text = f"{HEAD}{before}\nkernel void k({buffers}, uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]{more}) {{ {body} }}"
    language = str(options.pop("language", "3.1"))
    Library(text, language=language).kernel("k")(*arrays, threadgroups=1, threads=threads, **options)  # type: ignore[arg-type]


def tabulate(expressions: list[str], columns: dict[str, np.ndarray], made: str = "float", prelude: str = "", threads: int = 512) -> np.ndarray:
    """A row for each expression: its values at every row of the columns, which are its variables; `prelude` declares others."""
    count = len(next(iter(columns.values())))
    dtype = {of: name for name, of in METAL.items()}[made]
    got = np.zeros((len(expressions), count), dtype)
    names = list(columns)
    loads = "".join(f"{METAL[columns[n].dtype.name]} {n} = {buffer}[r];" for n, buffer in zip(names, BUFFERS, strict=False))
    stores = "".join(f"{BUFFERS[len(names)]}[{k * count} + r] = {text};" for k, text in enumerate(expressions))
    run(f"for (uint r = i; r < {count}; r += {threads}) {{ {loads} {prelude} {stores} }}", *columns.values(), got, threads=threads)
    return got
