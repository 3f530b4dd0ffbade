"""One kernel while its Metal text is written: the state and the questions of every spelling."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from eas.analysis import PointerBases, producers, reads, writes
from eas.analysis.ranges import Range, value_ranges
from eas.analysis.uniformity import Levels, Uniformity, uniformity
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.types import Space
from eas.codegen.llvm.vector_lanes import vector_lanes
from eas.codegen.msl.helpers import Library
from eas.codegen.msl.text import Expr, Lines, Scope, call, infix, named
from eas.codegen.msl.types import SPACES, type_name
from eas.ir import Arg, Inst, IRModule, Loc, Region, Trait, Value, walk
from eas.schedule.gpu.target import MetalTarget

_MAX_WEIGHT = 9  # operators of one statement
_MAX_STEPS = 32  # of a pointer, before it gets a variable: compilers take at most 256 nested brackets
BUILTINS = {
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
class LogFormat:
    """What a record of `device_print` holds; `shapes` are () for values that a threadgroup shares."""

    prefix: str
    dtypes: tuple[DType, ...]
    shapes: tuple[tuple[int, ...], ...]
    is_whole: bool = False
    """One record has all elements; else each thread wrote its own."""


class MslEmitter(ABC):
    """One kernel. `exprs` says what each value is called, or the expression that stands for it.

    Spellings get it; `generate`, which knows all of them, makes the whole of it.
    """

    def __init__(self, module: IRModule, target: MetalTarget) -> None:
        self.module, self.target = module, target
        self.math: str = module.attr("math", "safe")
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
        self.resting = _resting_places(module)  # moves of pointers that get a variable
        self._sites = _sites(module, self.resting)
        self.builtins: set[str] = set()  # attributes of the thread that are parameters
        self._levels: Levels | None = None
        buffers = [a.name for a in module.args if a.is_buffer]
        self.scope = Scope((*BUILTINS, "args", "log"))
        self.buffer_names = {name: self.scope.claim(name) for name in buffers}

    @abstractmethod
    def region(self, region: Region) -> list[Expr]:
        """Emit a region; returns what it yields, nothing of it pending any more."""

    @abstractmethod
    def inst(self, inst: Inst) -> None:
        """Emit an instruction."""

    @abstractmethod
    def spell(self, inst: Inst, xs: list[Expr]) -> Expr:
        """The expression of a pure instruction with these operands."""

    # --- what spellings ask ---------------------------------------------------------------------

    def builtin(self, name: str) -> str:
        """An attribute of the thread; asking makes it a parameter."""
        self.builtins.add(name)
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

    # --- values -----------------------------------------------------------------------------------

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
        if inst.op.has(Trait.COMPARE) and expr.weight <= 1 and not value.hint and not expr.reads:
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
