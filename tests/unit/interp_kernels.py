"""Kernels as IR text that the interpreter tests share."""

from __future__ import annotations

from eas.ir.text import parse_module
from eas.runtime.interp import execute


def run(text, *args, grid=(1, 1, 1), out=print):
    execute(parse_module(text), args, grid, out)


def block_kernel(n, args, lines, offsets="%i"):
    """A kernel over 0..n-1; `{p:x}` is the pointer block of buffer x."""
    names = [a.split(":")[0].strip() for a in args.split(", ") if "ptr" in a]
    head = [f"%i = arange {{start=0, end={n}}} : i32[{n}]"]
    for arg in args.split(", "):
        name, kind = (part.strip() for part in arg.split(":"))
        if name in names:
            head.append(f"%{name[1:]}.b = broadcast {name} {{shape=({n},)}} : {kind}[{n}]")
            head.append(f"%{name[1:]}.p = addptr %{name[1:]}.b, {offsets} : {kind}[{n}]")
    body = "\n  ".join([*head, *lines.strip().splitlines(), "yield"])
    return f"kernel k({args}) spmd {{\n  {body}\n}}"


ADD = """kernel add(%a: ptr<f32>, %b: ptr<f32>, %c: ptr<f32>, %N: i32) spmd {
  %pid = program_id {axis=0} : i32
  %size = const 16 : i32
  %base = mul %pid, %size : i32
  %i = arange {start=0, end=16} : i32[16]
  %base.b = broadcast %base {shape=(16,)} : i32[16]
  %offs = add %base.b, %i : i32[16]
  %N.b = broadcast %N {shape=(16,)} : i32[16]
  %mask = lt %offs, %N.b : bool[16]
  %a.b = broadcast %a {shape=(16,)} : ptr<f32>[16]
  %a.p = addptr %a.b, %offs : ptr<f32>[16]
  %b.b = broadcast %b {shape=(16,)} : ptr<f32>[16]
  %b.p = addptr %b.b, %offs : ptr<f32>[16]
  %c.b = broadcast %c {shape=(16,)} : ptr<f32>[16]
  %c.p = addptr %c.b, %offs : ptr<f32>[16]
  %x = load %a.p, %mask : f32[16]
  %y = load %b.p, %mask : f32[16]
  %z = add %x, %y : f32[16]
  store %c.p, %z, %mask
  yield
}"""


def two_d(rows, cols, dtype, lines, out_dtype=None, out_size=None):
    """Loads x as [rows, cols]; `lines` ends with %r, a flat block that is stored to y."""
    n, size, out = rows * cols, out_size or rows, out_dtype or dtype
    return f"""kernel k(%x: ptr<{dtype}>, %y: ptr<{out}>) spmd {{
      %i = arange {{start=0, end={n}}} : i32[{n}]
      %x.b = broadcast %x {{shape=({n},)}} : ptr<{dtype}>[{n}]
      %x.p = addptr %x.b, %i : ptr<{dtype}>[{n}]
      %flat = load %x.p : {dtype}[{n}]
      %v = reshape %flat {{shape=({rows}, {cols})}} : {dtype}[{rows},{cols}]
      {lines}
      %j = arange {{start=0, end={size}}} : i32[{size}]
      %y.b = broadcast %y {{shape=({size},)}} : ptr<{out}>[{size}]
      %y.p = addptr %y.b, %j : ptr<{out}>[{size}]
      store %y.p, %r
      yield
    }}"""
