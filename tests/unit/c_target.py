"""A backend from outside of eas, after CONTRIBUTING's recipe: the scheduled IR of a CPU without vectors, printed as C."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
import tempfile
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from eas.base.errors import Unsupported
from eas.ir import Inst, IRModule, Region, Value
from eas.runtime import Runtime, require
from eas.schedule.cpu_steps import schedule
from eas.schedule.target import SSE

SCALAR = replace(SSE, name="c", vector_nbytes=1)
TYPES = {"bool": "uint8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t", "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t", "f32": "float", "f64": "double"}
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
CALLS = {"exp": "exp", "exp_of_negative": "exp", "log": "log", "sqrt": "sqrt", "fma": "fma", "abs": "fabs"}


class Printer:
    """The C function of a scheduled module: it runs all programs of a grid, one after another."""

    def __init__(self) -> None:
        self.names: dict[Value, str] = {}
        self.numbers = itertools.count()

    def name(self, value: Value) -> str:
        return self.names.setdefault(value, f"v{next(self.numbers)}")

    def kernel(self, module: IRModule) -> str:
        args = [f"void *{self.name(a.value)}" if a.is_buffer else f"{self.type(a.value)} {self.name(a.value)}" for a in module.args]
        loops = "\n".join(f"for (int32_t pid{axis} = 0; pid{axis} < grid{axis}; ++pid{axis})" for axis in (2, 1, 0))
        params = ", ".join([*args, *(f"int32_t grid{axis}" for axis in range(3))])
        return f"#include <math.h>\n#include <stdint.h>\nvoid kernel({params}) {{\n{loops} {{\n{self.region(module.body)}}}\n}}\n"

    def type(self, value: Value) -> str:
        if value.type.is_pointer:
            return f"{TYPES[value.dtype.name]} *"
        if value.dtype.name not in TYPES:
            raise Unsupported(f"C has no {value.dtype}")
        return TYPES[value.dtype.name]

    def region(self, region: Region, outs: tuple[Value, ...] = ()) -> str:
        """The statements; what it yields is put into `outs`, all at once."""
        lines = "".join(self.inst(inst) for inst in region.body[:-1])
        moves = [f"{self.type(o)} n{self.name(o)} = {self.name(v)};\n" for o, v in zip(outs, region.yields, strict=bool(outs))] if outs else []
        return lines + "".join(moves) + "".join(f"{self.name(o)} = n{self.name(o)};\n" for o in outs)

    def inst(self, inst: Inst) -> str:
        if inst.regions:
            return self.control(inst)
        xs = [self.name(v) for v in inst.operands]
        match inst.op.name, xs:
            case ("scratch", _):
                return f"static {TYPES[inst['dtype'].name]} m{self.name(inst.out)}[{inst['size']}], *{self.name(inst.out)} = m{self.name(inst.out)};\n"
            case ("store" | "vstore", [pointer, value]):
                return f"*({self.type(inst.operands[0])}){pointer} = {value};\n"
            case ("store" | "vstore", [pointer, value, mask]):
                return f"if ({mask}) *({self.type(inst.operands[0])}){pointer} = {value};\n"
        return f"{self.type(inst.out)} {self.name(inst.out)} = {self.expression(inst, xs)};\n"

    def expression(self, inst: Inst, xs: list[str]) -> str:
        name = inst.op.name
        match name, xs:
            case ("const", _):
                number = inst["value"]
                return {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN"}.get(str(number), repr(float(number)) if inst.out.dtype.is_float else str(int(number)))
            case ("program_id" | "num_programs", _):
                return f"{'pid' if name == 'program_id' else 'grid'}{inst['axis']}"
            case ("can_stream" | "is_joined", _):
                return "0"
            case ("programs_left", _):
                return "1"
            case ("addptr", [pointer, offset]):
                return f"({self.type(inst.out)}){pointer} + {offset}"
            case ("load" | "vload", [pointer, *masked]):
                read = f"*({self.type(inst.operands[0])}){pointer}"
                return f"{masked[0]} ? {read} : {masked[1] if len(masked) > 1 else 0}" if masked else read
            case ("select", [condition, a, b]):
                return f"{condition} ? {a} : {b}"
            case ("min" | "max", [a, b]):
                order = "<" if name == "min" else ">"
                return f"{a} {order} {b} || {a} != {a} ? {a} : {b}"
            case ("not", [a]):
                return f"!{a}" if inst.out.dtype.is_bool else f"~{a}"
            case ("neg", [a]):
                return f"-{a}"
            case ("cast", [a]):
                return f"{a} != 0" if inst.out.dtype.is_bool else f"({self.type(inst.out)}){a}"
        if name in INFIX:
            return f"{xs[0]} {INFIX[name]} {xs[1]}"
        if name in CALLS and inst.out.dtype.is_float:
            return f"{CALLS[name]}{'f' if inst.out.dtype.bits == 32 else ''}({', '.join(xs)})"
        raise Unsupported(f"the C target has no spelling of {name}", loc=inst.loc)

    def control(self, inst: Inst) -> str:
        outs = "".join(f"{self.type(o)} {self.name(o)};\n" for o in inst.outs)
        match inst.op.name:
            case "if":
                then, other = (self.region(r, inst.outs) for r in inst.regions)
                return f"{outs}if ({self.name(inst.operands[0])}) {{\n{then}}} else {{\n{other}}}\n"
            case "loop" | "for":
                first, end, *rest = inst.operands
                step = "1" if inst.op.name == "loop" else self.name(rest.pop(0))
                counter, *params = inst.regions[0].params
                starts = "".join(f"{self.name(o)} = {self.name(v)};\n" for o, v in zip(inst.outs, rest, strict=True))
                self.names.update(zip(params, map(self.name, inst.outs), strict=True))
                i = self.name(counter)
                return f"{outs}{starts}for ({self.type(counter)} {i} = {self.name(first)}; {i} < {self.name(end)}; {i} += {step}) {{\n{self.region(inst.regions[0], inst.outs)}}}\n"
            case "hreduce":  # one lane has nothing to combine
                return "".join(f"{self.type(o)} {self.name(o)} = {self.name(v)};\n" for o, v in zip(inst.outs, inst.operands, strict=True))
        raise Unsupported(f"the C target has no spelling of {inst.op.name}", loc=inst.loc)


class CRuntime(Runtime):
    """Compiles with the C compiler of the system, and calls by ctypes."""

    name = "c"

    @cached_property
    def compiler(self) -> str | None:
        return shutil.which("cc") or shutil.which("clang") or shutil.which("gcc")

    def why_unavailable(self):
        return None if self.compiler else "there is no C compiler"

    def run(self, executable, args, grid, *, sync=True, lane=None):
        require(self)
        function = self.load(Printer().kernel(schedule(executable.module, SCALAR)))
        numbers = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_float, "f64": ctypes.c_double}
        given = [ctypes.c_void_p(x.ctypes.data) if a.is_buffer else numbers[a.type.dtype.name](x) for a, x in zip(executable.module.args, args, strict=True)]
        function(*given, *map(ctypes.c_int32, grid))

    def load(self, text):
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder) / "kernel.c", Path(folder) / "kernel.so"
            source.write_text(text)
            subprocess.run([self.compiler, "-O1", "-fwrapv", "-ffp-contract=off", "-shared", "-fPIC", "-o", library, source, "-lm"], check=True)
            return ctypes.CDLL(str(library)).kernel
