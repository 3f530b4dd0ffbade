"""Lane IR to Metal text, one instruction at a time. How each op is spelled is in `ops`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from eas.base.dtypes import DType
from eas.base.errors import Unsupported
from eas.codegen.msl import checks as msl_checks
from eas.codegen.msl.control import CONTROL
from eas.codegen.msl.emitter import BUILTINS, LogFormat, MslEmitter
from eas.codegen.msl.memory import MEMORY
from eas.codegen.msl.ops import OPS
from eas.codegen.msl.text import Expr, Lines, Scope, comment, kernel_name, named, with_guard
from eas.codegen.msl.types import type_name
from eas.ir import Arg, Inst, IRModule, Loc, Region, Trait, walk
from eas.schedule.gpu.target import NEEDED_MACOS, MetalTarget


@dataclass(frozen=True)
class MetalCode:
    """What a Metal runtime needs: the text, its function, what is bound where, and the places of its lines."""

    text: str
    name: str
    threads: int  # physical threads per threadgroup
    buffers: tuple[tuple[str, int, bool], ...]  # argument, buffer index, whether it is written
    scalars: tuple[tuple[str, DType, int], ...]  # argument, type, offset in bytes in the struct
    scalars_index: int | None
    scalars_nbytes: int
    log_index: int | None
    threadgroup_nbytes: int
    lines: tuple[Loc | None, ...]  # lines[k] belongs to line k + 1 of the text
    math_mode: str
    language: str
    places: tuple[tuple[str, Loc | None], ...] = ()  # messages of device_assert
    logs: tuple[LogFormat, ...] = ()  # formats of device_print
    layouts: str = ""  # which thread holds which elements of each block


def generate_msl(module: IRModule, target: MetalTarget) -> MetalCode:
    """The Metal text of a kernel in lane IR."""
    msl_checks.check(module, target)
    return _Kernel(module, target).kernel()


# Without this word a threadgroup need not see what others write in the same launch, whatever fences say.
_DEVICE_POINTER = re.compile(r"\bdevice (?=(?:const )?\w+ \*)")


class _Kernel(MslEmitter):
    """The function of a kernel: its arguments, and the tables of spellings."""

    # --- the function ---------------------------------------------------------------------------

    def kernel(self) -> MetalCode:
        module = self.module
        name = kernel_name(module.name)
        self.is_ordered = any(inst.op.name == "fence" for inst in walk(module.body))
        buffers, scalars, offset = self._arguments()
        self.lines._depth = 1
        self.region(module.body)
        body, self.lines = self.lines.lines, Lines()
        self._head(name, scalars)
        signature = self._signature(buffers, bool(scalars), name)
        self.lines.add(f"[[max_total_threads_per_threadgroup({self.threads})]]")
        self.lines.add(f"kernel void {name}({'' if signature else ') {'}")
        for i, line in enumerate(signature):
            self.lines.add(f"    {line}{',' if i + 1 < len(signature) else ') {'}")
        self.lines.replay(body)
        self.lines.add("}")
        made = self.lines.lines
        text = "\n".join(text for text, _ in made) + "\n"
        language = self.target.language
        if self.is_ordered:
            text, language = _DEVICE_POINTER.sub(r"coherent(device) \g<0>", text), max(language, "3.2", key=NEEDED_MACOS.__getitem__)
        return MetalCode(
            text,
            name,
            self.threads,
            tuple((arg.name, i, arg.name in self.written) for i, arg in enumerate(buffers)),
            scalars,
            len(buffers) if scalars else None,
            offset,
            self.log_index,
            msl_checks.threadgroup_nbytes(module),
            tuple(loc for _, loc in made),
            self.math,
            language,
            tuple(self.places),
            tuple(self.logs),
        )

    def _arguments(self) -> tuple[list[Arg], tuple[tuple[str, DType, int], ...], int]:
        """Scalars lie in one struct, each at a multiple of its size."""
        buffers, scalars, offset, widest = [], [], 0, 1
        fields = Scope()
        for arg in self.module.args:
            if arg.is_buffer:
                buffers.append(arg)
                self.exprs[arg.value] = named(self.buffer_names[arg.name])
                continue
            nbytes = arg.type.dtype.nbytes
            offset = -(-offset // nbytes) * nbytes
            scalars.append((arg.name, arg.type.dtype, offset))
            self.exprs[arg.value] = named(f"args.{fields.claim(arg.name)}")
            offset, widest = offset + nbytes, max(widest, nbytes)
        return buffers, tuple(scalars), -(-offset // widest) * widest

    def _head(self, name: str, scalars: Sequence[tuple[str, DType, int]]) -> None:
        lines, module = self.lines, self.module
        shown = ", ".join(f"{a.name}: {a.type}" for a in module.args)
        lines.add(comment(f"{module.name}({shown})"))
        count = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        lines.add(f"// One threadgroup of {count} per program; {self.math} math, {self.target.name}.")
        lines.add("#include <metal_stdlib>")
        lines.add("using namespace metal;")
        lines.add("#pragma METAL fp contract(off)")
        lines.blank()
        if scalars:
            with lines.block(f"struct {name}_args", "};"):
                for arg in module.args:
                    if not arg.is_buffer:
                        field = self.exprs[arg.value].text.removeprefix("args.")
                        lines.add(f"{type_name(arg.type.dtype)} {field};")
            lines.blank()
        for text in self.library.texts():
            for line in text.split("\n"):
                lines.add(line)
            lines.blank()

    def _signature(self, buffers: Sequence[Arg], has_scalars: bool, name: str) -> list[str]:
        entries = []
        is_disjoint = all(a.attr("noalias") for a in buffers if a.name in self.written) or len(buffers) == 1
        for i, arg in enumerate(buffers):
            is_written = arg.name in self.written
            const = "" if is_written or not is_disjoint else "const "
            # Metal's compiler might think that no call, and so no fence, changes what only this pointer points to.
            restrict = "__restrict " if is_written and arg.attr("noalias") and not self.is_ordered else ""
            entries.append(f"device {const}{type_name(arg.type.dtype)} *{restrict}{self.buffer_names[arg.name]} [[buffer({i})]]")
        if has_scalars:
            entries.append(f"constant {name}_args &args [[buffer({len(buffers)})]]")
        if self.log_index is not None:
            entries.append(f"device uint *log [[buffer({self.log_index})]]")
        return entries + [BUILTINS[k] for k in BUILTINS if k in self.builtins]

    # --- instructions ---------------------------------------------------------------------------

    def region(self, region: Region) -> list[Expr]:
        """Emit a region; returns what it yields, nothing of it pending any more."""
        outer, self.pending = self.pending, {}
        for inst in region.body[:-1]:
            self.inst(inst)
        self.flush(region.yields)
        self.pending = outer
        return [self.use(v) for v in region.yields]

    def inst(self, inst: Inst) -> None:
        name = inst.op.name
        self.lines.loc = inst.loc or self.lines.loc
        if name == "addptr":  # said where memory is touched, unless it has come far
            if inst in self.resting:
                self.declare(inst.out, self.address(inst.out), inst)
            return
        if name in CONTROL:
            self.flush(inst.operands if name == "if" else ())  # reads above must stay above
            CONTROL[name](self, inst)
            return
        if not inst.op.is_pure and not (inst.op.has(Trait.READS) and not inst.op.has(Trait.WRITES)) and not inst.op.has(Trait.ALLOCATES):
            self.flush(inst.operands)
        if name in MEMORY:
            MEMORY[name](self, inst)
            return
        if name not in OPS:
            raise Unsupported(f"the Metal code generator has no spelling of {name}", loc=inst.loc)
        self.define(inst, self.spell(inst, [self.use(v) for v in inst.operands]))

    def spell(self, inst: Inst, xs: list[Expr]) -> Expr:
        expr = OPS[inst.op.name](self, inst, xs)
        guards = list(dict.fromkeys(x.guard for x in xs if x.guard is not None))
        if len(guards) != 1 or guards[0] is None:
            return expr
        return with_guard(expr, guards[0], OPS[inst.op.name](self, inst, [x.under(guards[0]) for x in xs]))
