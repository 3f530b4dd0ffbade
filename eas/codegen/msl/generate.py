"""Lane IR to Metal text, one instruction at a time. How each op is spelled is in `ops`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from eas.analysis import PointerBases, producers, reads, writes
from eas.analysis.ranges import Range, value_ranges
from eas.analysis.uniformity import Levels, Uniformity, uniformity
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.errors import Unsupported
from eas.base.types import Space
from eas.codegen.llvm.vector_lanes import vector_lanes
from eas.codegen.msl import checks as msl_checks
from eas.codegen.msl import math as msl_math
from eas.codegen.msl import vectors as msl_vectors
from eas.codegen.msl.control import CONTROL
from eas.codegen.msl.fragments import element as matrix_element
from eas.codegen.msl.fragments import holds_matrices
from eas.codegen.msl.helpers import Library
from eas.codegen.msl.log import LogFormat
from eas.codegen.msl.memory import MEMORY
from eas.codegen.msl.ops import OPS
from eas.codegen.msl.text import (
    ATOM,
    Expr,
    Lines,
    Scope,
    call,
    comment,
    gathered,
    infix,
    kernel_name,
    named,
    with_guard,
)
from eas.codegen.msl.types import SPACES, type_name
from eas.ir import Arg, Inst, IRModule, Loc, Region, Trait, Value, walk
from eas.schedule.gpu.target import MetalTarget

_MAX_WEIGHT = 9  # operators of one statement
_MAX_STEPS = 32  # of a pointer, before it gets a variable: compilers take at most 256 nested brackets
_DECLARES = frozenset(("scratch", "fragments", "alloc_tg"))
_COMPARES = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_BUILTINS = {
    "gid": "uint3 gid [[threadgroup_position_in_grid]]",
    "groups": "uint3 groups [[threadgroups_per_grid]]",
    "tid": "uint tid [[thread_index_in_threadgroup]]",
    "lane": "uint lane [[thread_index_in_simdgroup]]",
    "sgid": "uint sgid [[simdgroup_index_in_threadgroup]]",
}
_NAMES = {
    "add": "sum", "sub": "difference", "mul": "product", "div": "ratio", "cast": "converted", "select": "chosen",
    "hreduce": "folded", "vextract": "element", "shr": "high", "and": "low", "min": "smaller", "max": "larger", "simd_shuffle_xor": "other", "simd_shuffle_up": "earlier",
    "simd_sum": "group_sum", "simd_max": "group_max", "simd_min": "group_min", "simd_product": "group_product",
}  # fmt: skip


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
    return Emitter(module, target).kernel()


class Emitter:
    """One kernel. `exprs` says what each value is called, or the expression that stands for it."""

    def __init__(self, module: IRModule, target: MetalTarget) -> None:
        self.module, self.target = module, target
        self.math: str = module.attr("math", "safe")
        self.math_namespace = msl_math.namespace(self.math)
        self.threads: int = module.attr("threads", 1)
        self.lines, self.library = Lines(), Library()
        self.exprs: dict[Value, Expr] = {}
        self.pending: dict[Value, Inst] = {}
        self.held: list[Value] = []  # masks that hold here
        self.owned: set[Value] = set()  # values that have a variable of their own
        self.singles: set[Value | Arg] = set()  # arrays of one element, which are plain variables
        self.lanes = 1
        self.lanes_of = vector_lanes(module)
        self.origin, self.bases = producers(module), PointerBases(module)
        self.written, self.read = set(writes(module)), set(reads(module))
        self.places: list[tuple[str, Loc | None]] = []
        self.logs: list[LogFormat] = []
        self.log_index: int | None = None
        self._ranges = value_ranges(module)
        self._resting = _resting_places(module)
        self._sites = _sites(module, self._resting)
        self._used: dict[str, str] = {}
        self._levels: Levels | None = None
        buffers = [a.name for a in module.args if a.is_buffer]
        self.scope = Scope((*_BUILTINS, "args", "log"))
        self.buffer_names = {name: self.scope.claim(name) for name in buffers}

    # --- the function ---------------------------------------------------------------------------

    def kernel(self) -> MetalCode:
        module = self.module
        name = kernel_name(module.name)
        buffers, scalars, offset = self._arguments()
        self.lines._depth = 1
        self.region(module.body)
        body, self.lines = self.lines.lines, Lines()
        self._head(name, scalars)
        signature = self._signature(buffers, bool(scalars), name)
        self.lines.add(f"[[max_total_threads_per_threadgroup({self.threads})]]")
        self.lines.add(f"kernel void {name}(")
        for i, line in enumerate(signature):
            self.lines.add(f"    {line}{',' if i + 1 < len(signature) else ') {'}")
        self.lines.replay(body)
        self.lines.add("}")
        made = self.lines.lines
        return MetalCode(
            "\n".join(text for text, _ in made) + "\n",
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
            self.target.language,
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
            restrict = "__restrict " if is_written and arg.attr("noalias") else ""
            entries.append(f"device {const}{type_name(arg.type.dtype)} *{restrict}{self.buffer_names[arg.name]} [[buffer({i})]]")
        if has_scalars:
            entries.append(f"constant {name}_args &args [[buffer({len(buffers)})]]")
        if self.log_index is not None:
            entries.append(f"device uint *log [[buffer({self.log_index})]]")
        return entries + [_BUILTINS[k] for k in _BUILTINS if k in self._used]

    # --- what spellings ask ---------------------------------------------------------------------

    def builtin(self, name: str) -> str:
        """An attribute of the thread; asking makes it a parameter."""
        self._used[name] = name
        return name

    def helper(self, name: str, dtype: DType, *xs: Expr) -> Expr:
        """A call of one of our own functions, which the text then brings along."""
        return call(self.library.use(name, dtype, max(x.lanes for x in xs)), *xs)

    def nan_aware(self, function: str, text: str, t: str) -> str:
        """Metal's function, or ours that lets NaN through unless fast math promises that there is none."""
        if self.math == "fast":
            return function
        return self.library.add(f"nan_{function}:{t}", text)

    def range_of(self, value: Value) -> Range:
        return self._ranges[value]

    def is_exact(self, value: Value) -> bool:
        """Whether signed arithmetic cannot overflow here, which C++ does not define."""
        return self._ranges.is_exact(value)

    def is_used(self, value: Value) -> bool:
        return bool(self._sites[value])

    def is_last_use(self, value: Value, inst: Inst) -> bool:
        """Whether only this instruction, in the region of the value, ever looks at it."""
        sites = self._sites[value]
        made = self.origin.get(value)
        home = self._sites.homes[inst]
        here = home is self._sites.homes[made] if made is not None else value in home.params
        return here and len(sites) == 1 and sites[0][0] is inst

    def has_atomics(self, base: Value) -> bool:
        """Whether an atomic works on this memory."""
        atomics = (i for i in walk(self.module.body) if i.op.has(Trait.ATOMIC))
        return any(self.bases[i.operands[0]] is base for i in atomics)

    def varies(self, value: Value) -> bool:
        """Whether the threads of a threadgroup may differ on a value."""
        if self._levels is None:
            self._levels = uniformity(self.module)
        return self._levels[value] > Uniformity.PROGRAM

    def log(self) -> str:
        """The buffer that the host reads for messages; asking makes it a parameter."""
        if self.log_index is None:
            n_scalars = any(not a.is_buffer for a in self.module.args)
            self.log_index = sum(a.is_buffer for a in self.module.args) + n_scalars
        return "log"

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
            if inst in self._resting:
                self.declare(inst.out, self.address(inst.out), inst)
            return
        if name in CONTROL:
            self.flush(inst.operands if name == "if" else ())  # reads above must stay above
            CONTROL[name](self, inst)
            return
        if not inst.op.is_pure and not (inst.op.has(Trait.READS) and not inst.op.has(Trait.WRITES)) and name not in _DECLARES:
            self.flush(inst.operands)
        if name in MEMORY:
            MEMORY[name](self, inst)
            return
        if name not in OPS:
            raise Unsupported(f"the Metal code generator has no spelling of {name}", loc=inst.loc)
        self.define(inst, self._spell(inst, [self.use(v) for v in inst.operands]))

    def _spell(self, inst: Inst, xs: list[Expr]) -> Expr:
        expr = OPS[inst.op.name](self, inst, xs)
        guards = list(dict.fromkeys(x.guard for x in xs if x.guard is not None))
        if len(guards) != 1 or guards[0] is None:
            return expr
        return with_guard(expr, guards[0], OPS[inst.op.name](self, inst, [x.under(guards[0]) for x in xs]))

    def use(self, value: Value) -> Expr:
        """The expression of an operand; a pending one is spoken for."""
        self.pending.pop(value, None)
        return self.exprs[value]

    def flush(self, kept: Sequence[Value]) -> None:
        """Give names to reads that must not move past what comes next, unless it uses them."""
        spared = {v for pointer in kept for v in self._parts(pointer)}
        for value, inst in list(self.pending.items()):
            if value not in spared:
                del self.pending[value]
                self.declare(value, self.exprs[value], inst)

    def _parts(self, value: Value) -> list[Value]:
        """A value, or the offsets that a pointer is made of."""
        inst = self.origin.get(value)
        if inst is None or inst.op.name != "addptr" or value in self.owned:
            return [value]
        return self._parts(inst.operands[0]) + self._parts(inst.operands[1])

    def define(self, inst: Inst, expr: Expr) -> None:
        """The result of an instruction: an expression for its one use, or a variable."""
        value = inst.out
        if not self._stays_inline(inst, expr):
            self.declare(value, expr, inst)
            return
        self.exprs[value] = expr
        if expr.reads:
            self.pending[value] = inst

    def _stays_inline(self, inst: Inst, expr: Expr) -> bool:
        value, sites = inst.out, self._sites[inst.out]
        if not sites and not inst.op.has(Trait.ATOMIC):
            return True  # nobody looks at it
        if inst.op.has(Trait.CONVERGENT) or inst.op.has(Trait.ATOMIC):
            return False
        if inst.op.name == "const" or (expr.is_leaf and not expr.reads):
            return True
        if inst.op.name in _COMPARES and expr.weight <= 1 and not value.hint and not expr.reads:
            return True
        if len(sites) > 1 or expr.weight > _MAX_WEIGHT:
            return False
        user, home = sites[0]
        if home is not self._home(inst):
            return False
        return not value.hint or user.op.has(Trait.TERMINATOR) or (user.op.name == "cast" and user.out.hint == value.hint)

    def _home(self, inst: Inst) -> Region:
        return self._sites.homes[inst]

    def declare(self, value: Value, expr: Expr, inst: Inst | None = None) -> None:
        """A variable that holds the value."""
        name = self.scope.claim(value.hint or self._wish(value, inst))
        self.lines.add(f"{self.type_of(value, expr.lanes)} {name} = {expr.text};")
        self.exprs[value] = named(name, expr.lanes)
        self.owned.add(value)

    def _wish(self, value: Value, inst: Inst | None) -> str:
        if inst is None:
            return "value"
        if inst.op.name in ("load", "vload"):
            base = self.bases[inst.operands[0]]
            return f"{base.name if isinstance(base, Arg) else self.exprs[base].text}_value"
        if value.type.is_value and value.dtype.is_bool:
            return "mask"
        if inst.op.name == "mul":  # where the blocks of a program start
            position = self.origin.get(inst.operands[0])
            if position is not None and position.op.name == "program_id":
                return f"start_{'xyz'[position['axis']]}"
        return _NAMES.get(inst.op.name, inst.op.name)

    def type_of(self, value: Value, lanes: int = 1) -> str:
        t = value.type
        if t.space is Space.SIMDGROUP:
            return f"simdgroup_{type_name(t.dtype)}8x8"
        if t.is_pointer:
            base = self.bases[value]
            const = "const " if isinstance(base, Arg) and base.name not in self.written and self._is_const() else ""
            return f"{SPACES[t.space]} {const}{type_name(t.dtype)} *"
        return type_name(t.dtype, lanes)

    def _is_const(self) -> bool:
        """Whether nothing that is written can be what another argument only reads."""
        buffers = [a for a in self.module.args if a.is_buffer]
        return len(buffers) == 1 or all(a.attr("noalias") for a in buffers if a.name in self.written)

    # --- pointers -------------------------------------------------------------------------------

    def pointer(self, value: Value, mask: Value | None = None) -> tuple[Expr, Expr | None]:
        """The base of a pointer and the offset from it, as said where `mask` holds."""
        inst = self.origin.get(value)
        if inst is None or inst.op.name != "addptr" or value in self.owned:
            return self.exprs[value], None
        base, offset = self.pointer(inst.operands[0], mask)
        step = self.use(inst.operands[1]).under(mask)
        if offset is None:
            return base, step
        # One 32-bit sum only where it cannot overflow; a pointer takes steps of 64 bits.
        whole = self._ranges[value]
        if (dtypes.i32.min <= whole.lo and whole.hi <= dtypes.i32.max) or self.module.attr("offsets32"):
            return base, infix("+", offset, step)
        return infix("+", base, offset), step

    def address(self, value: Value, mask: Value | None = None) -> Expr:
        """A pointer as an expression."""
        base, offset = self.pointer(value, mask)
        return base if offset is None else infix("+", base, offset)

    def element(self, value: Value, mask: Value | None = None) -> Expr:
        """What a pointer points to, as an expression that reads it or can be assigned."""
        base, offset = self.pointer(value, mask)
        if self.bases[value] in self.singles:
            return replace(base, reads=True)
        parts = (base,) if offset is None else (base, offset)
        if holds_matrices(self, value):
            text = matrix_element(base, offset)
        elif msl_vectors.array_of_vectors(self, value)[0] > 1:
            text = msl_vectors.lane_in_array(self, value, base, offset)
        else:
            text = f"{base.at(ATOM)}[{'0' if offset is None else offset.text}]"
        return replace(gathered(text, ATOM, parts), reads=True)


class _Sites(dict[Value, list[tuple[Inst, Region]]]):
    """The instructions that say each value, and the region of each; pointers are said where memory is touched."""

    homes: dict[Inst, Region]

    def __missing__(self, value: Value) -> list[tuple[Inst, Region]]:
        return []


def _resting_places(module: IRModule) -> frozenset[Inst]:
    """The last one of every so many moves of a pointer."""
    steps: dict[Value, int] = {}
    for inst in walk(module.body):
        if inst.op.name == "addptr":
            steps[inst.out] = steps.get(inst.operands[0], 0) + 1
    return frozenset(inst for inst in walk(module.body) if inst.op.name == "addptr" and steps[inst.out] % _MAX_STEPS == 0)


def _sites(module: IRModule, resting: frozenset[Inst]) -> _Sites:
    found: defaultdict[Value, list[tuple[Inst, Region]]] = defaultdict(list)
    sites = _Sites()
    sites.homes = {}
    moves: list[Inst] = []

    def visit(region: Region) -> None:
        for inst in region.body:
            sites.homes[inst] = region
            if inst.op.name == "addptr" and inst not in resting:
                moves.append(inst)
            else:
                for operand in inst.operands:
                    found[operand].append((inst, region))
            for inner in inst.regions:
                visit(inner)

    visit(module.body)
    for inst in reversed(moves):  # what follows a pointer is said where the last pointer is used
        for operand in inst.operands:
            found[operand] += found[inst.out]
    sites.update(found)
    return sites
