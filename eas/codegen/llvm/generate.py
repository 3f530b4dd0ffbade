"""Scheduled IR to LLVM text, one instruction at a time. What each op is called is in `ops`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from eas.base.errors import Unsupported
from eas.codegen.llvm.divide_by_scalar import can_divide_by_scalar, divide_by_scalar
from eas.codegen.llvm.emitter import LlvmEmitter, LogFormat
from eas.codegen.llvm.find_lane import find
from eas.codegen.llvm.first_lanes import lane_numbers
from eas.codegen.llvm.memory import MEMORY
from eas.codegen.llvm.ops import OPS
from eas.codegen.llvm.outline import MOST, Outliner, TooLong
from eas.codegen.llvm.private_copies import PrivateBuffer, choose_copies
from eas.codegen.llvm.text import LOOP_FUNCTION, Reg, Text, bits_of, register_type, scratch_type
from eas.ir import Inst, IRModule, Loc, Region
from eas.ir.text import LocTable
from eas.schedule.target import CpuTarget

ENTRY = "eas_kernel"
_ALIGN = 64
_WHILE_WEIGHT = 500  # lines: LLVM takes seconds to express what fifty of them compute, one after the other, in closed form


@dataclass(eq=False)
class NativeCode:
    """What the CPU runtime needs: the text, its entry, scratch per thread, and the places of errors."""

    llvm: str
    entry: str
    scratch_nbytes: int
    target: CpuTarget
    places: list[tuple[str, Loc | None]] = field(default_factory=list)
    logs: list[LogFormat] = field(default_factory=list)
    nbytes_per_program: int | None = None  # estimates for `EAS_DEBUG=2`, None where unknown
    flops_per_program: int | None = None
    work_per_program: int | None = None  # at most: `eas.analysis.cost.most_work`
    num_functions: int = 1  # of a long kernel several
    num_repeats: int = 0  # loops that call the function of another one
    object: bytes | None = None  # of what an earlier process compiled


def generate(module: IRModule, target: CpuTarget, check_bounds: bool = False, marks: LocTable | None = None) -> NativeCode:
    """LLVM text of a kernel: `void entry(ptr args, i64 begin, i64 end, ptr scratch)`.

    With `marks` lines end with ` ;@ place`: a text for readers, which is otherwise the same.
    """
    try:
        emitter, functions = _functions(module, target, check_bounds, False, marks)
    except TooLong:
        emitter, functions = _functions(module, target, check_bounds, True, marks)
    t = emitter.t
    text = "\n".join([*t.helpers.values(), *t.declarations.values(), *functions, "!0 = !{i32 1}"]) + "\n"
    native = NativeCode(text, ENTRY, emitter.scratch_nbytes, target, emitter.places, emitter.logs)
    if emitter.outliner is not None:
        native.num_functions, native.num_repeats = text.count("\ndefine ") + text.startswith("define "), emitter.outliner.repeats.num_repeated
    return native


def _functions(module: IRModule, target: CpuTarget, check_bounds: bool, is_long: bool, marks: LocTable | None) -> tuple[_Kernel, list[str]]:
    """The entry of a kernel and what it calls; long ones in pieces."""
    emitter = _Kernel(module, target, check_bounds)
    emitter.marks = marks
    private: tuple[PrivateBuffer, ...] = module.attr("private", ())
    if not private:
        return emitter, [emitter.kernel(ENTRY, "", is_long)]
    functions = [emitter.kernel("shared", "internal ", is_long), choose_copies(emitter, ENTRY, private)]
    other = _Kernel(module, target, check_bounds)
    other.marks = marks
    other.private = {index for index, _, _ in private}
    other.t.share(emitter.t)
    functions.insert(1, other.kernel("private", "internal ", is_long))
    emitter.scratch_nbytes += len(private) * target.copy_nbytes
    return emitter, functions


class _Kernel(LlvmEmitter):
    """The function of a kernel: its programs, its control flow, and the tables of spellings."""

    outliner: Outliner | None = None  # of a long kernel
    marks: LocTable | None = None  # places of instructions, for a text whose lines say where they are from

    # --- the function ---------------------------------------------------------------------------

    def kernel(self, symbol: str, linkage: str, is_long: bool) -> str:
        """The function that runs programs one after another."""
        t, self.outliner = self.t, Outliner(self, symbol) if is_long else None
        t.inlines_all = not is_long
        self._arguments()
        if self.module.attr("rows"):
            self._rows_of_programs()
        else:
            self._programs()
        t.label("done")
        if self.uses_streams:
            t.line("fence seq_cst")  # whoever waits for this thread sees what bypassed the cache
        t.line("ret void")
        head = f"define {linkage}void @{symbol}(ptr noalias %args, i64 %begin, i64 %end, ptr noalias align {_ALIGN} %scratch) {LOOP_FUNCTION} {{\nentry:"
        return "\n".join([head, *t.lines, "}"])

    def _programs(self) -> None:
        """One program after another, along the axis that changes most often; the other ids change between two rows of it."""
        t = self.t
        (first, size), (second, other), (third, _) = self._axes()
        _, count = self.module.attr("joined") or (0, 1)
        t.write(
            f"%row = sdiv i64 %begin, %{size}",
            f"%first0 = srem i64 %begin, %{size}",
            f"%second0 = srem i64 %row, %{other}",
            f"%third0 = sdiv i64 %row, %{other}",
            "%any = icmp slt i64 %begin, %end",
            "br i1 %any, label %groups, label %done",
            "groups:",
            "%group = phi i64 [ %begin, %entry ], [ %next_group, %group_end ]",
            "%start = phi i64 [ %first0, %entry ], [ 0, %group_end ]",
            f"%{second} = phi i64 [ %second0, %entry ], [ %second1, %group_end ]",
            f"%{third} = phi i64 [ %third0, %entry ], [ %third1, %group_end ]",
            "%row_start = sub nsw i64 %group, %start",
            "%left = sub nsw i64 %end, %row_start",
            f"%is_cut = icmp slt i64 %left, %{size}",
            f"%stop = select i1 %is_cut, i64 %left, i64 %{size}",
            "br label %programs",
            "programs:",
            "%id = phi i64 [ %start, %groups ], [ %first1, %program_end ]",
            # Opaque, so that LLVM does not carry what is computed of it from program to program, in memory if registers are few.
            f'%{first} = call i64 asm "", "=r,0"(i64 %id)',
            f"%program = add nsw i64 %row_start, %{first}",
            f"%last_id = add nsw i64 %id, {count - 1}",
            "%is_joined = icmp slt i64 %last_id, %stop",
            f"%step = select i1 %is_joined, i64 {count}, i64 1",
        )
        self.region(self.module.body)
        t.write(
            "br label %program_end",
            "program_end:",
            "%first1 = add nsw i64 %id, %step",
            "%more = icmp slt i64 %first1, %stop",
            "br i1 %more, label %programs, label %group_end",
            "group_end:",
            "%next_group = add nsw i64 %row_start, %stop",
            f"%second_up = add nsw i64 %{second}, 1",
            f"%second_over = icmp eq i64 %second_up, %{other}",
            "%second1 = select i1 %second_over, i64 0, i64 %second_up",
            "%carry = zext i1 %second_over to i64",
            f"%third1 = add nsw i64 %{third}, %carry",
            "%more_groups = icmp slt i64 %next_group, %end",
            "br i1 %more_groups, label %groups, label %done",
        )

    def _rows_of_programs(self) -> None:
        """One row after another, each through all programs side by side.

        Of tiles a thread takes as many rows, all along the grid, as it was given programs: they are whole rows of memory.
        """
        t = self.t
        (first, size), (second, other), (third, _) = self._axes()
        rows = self.module.attr("rows")
        t.write(
            "br label %groups",
            "groups:",
            "%group = phi i64 [ %begin, %entry ], [ %group_end, %rows ]",
            "%more = icmp slt i64 %group, %end",
            "br i1 %more, label %run, label %done",
            "run:",
            f"%row = sdiv i64 %group, %{size}",
            f"%start = srem i64 %group, %{size}",
            f"%{second} = srem i64 %row, %{other}",
            f"%{third} = sdiv i64 %row, %{other}",
            f"%room = sub i64 %{size}, %start",
            "%row_end = add i64 %group, %room",
            "%is_cut = icmp slt i64 %row_end, %end",
            "%group_end = select i1 %is_cut, i64 %row_end, i64 %end",
            "%row_start = sub i64 %group, %start",
            f"%to = add i64 {'%row_end' if rows > 1 else '%group_end'}, 0",
            *self._share("first_i", "%start", rows, size),
            "%stop = sub i64 %group_end, %row_start",
            *self._share("last_i", "%stop", rows, size),
            "br label %rows",
            "rows:",
            "%i = phi i32 [ %first_i, %run ], [ %next_i, %row_done ]",
            "%in_tile = icmp slt i32 %i, %last_i",
            "br i1 %in_tile, label %programs, label %groups",
            "programs:",
            f"%program = phi i64 [ {'%row_start' if rows > 1 else '%group'}, %rows ], [ %next_program, %program_end ]",
            "%in_group = icmp slt i64 %program, %to",
            "br i1 %in_group, label %piece, label %row_done",
            "piece:",
            f"%{first} = sub i64 %program, %row_start",
        )
        assert rows == 1 or any(inst.op.name == "loop" and inst["of_rows"] for inst in self.module.body.body)
        self.region(self.module.body)
        t.write(
            "br label %program_end",
            "program_end:",
            f"%next_program = add nsw i64 %program, {self.module.attr('walk')}",
            "br label %programs",
            "row_done:",
            "%next_i = add i32 %i, 1",
            "br label %rows",
        )

    def _share(self, name: str, programs: str, rows: int, size: str) -> tuple[str, ...]:
        """The rows of tiles that are the share of so many of the programs of an axis; all without rows."""
        if rows == 1:
            return (f"%{name} = add i32 0, {int(name == 'last_i')}",)
        return f"%{name}_all = mul i64 {programs}, {rows}", f"%{name}_part = sdiv i64 %{name}_all, %{size}", f"%{name} = trunc i64 %{name}_part to i32"

    def _axes(self) -> list[tuple[str, str]]:
        """The program ids and the sizes of their axes, those first that change most often."""
        axes = [("pid0", "gx"), ("pid1", "gy"), ("pid2", "gz")]
        first, _ = self.module.attr("joined") or (int(bool(self.module.attr("axis_1_first"))), 1)
        return [axes[first], *(axis for k, axis in enumerate(axes) if k != first)]

    def _arguments(self) -> None:
        t = self.t
        for i, arg in enumerate(self.module.args):
            element = "ptr" if arg.is_buffer else register_type(arg.type.dtype)
            at = t.let(f"getelementptr i64, ptr %args, i64 {i}", "ptr", 1)
            if element == "i1":
                byte = t.let(f"load i8, {at}", "i8", 1)
                self.regs[arg.value] = t.convert("trunc", byte, "i1")
            else:
                self.regs[arg.value] = t.let(f"load {element}, {at}", element, 1, "arg")
        for k, (name, kind) in enumerate(
            (("gx", "i64"), ("gy", "i64"), ("gz", "i64"), ("err", "ptr"), ("log", "ptr"))
        ):
            at = t.let(f"getelementptr i64, ptr %args, i64 {len(self.module.args) + k}", "ptr", 1)
            t.line(f"%{name} = load {kind}, {at}")

    # --- instructions ---------------------------------------------------------------------------

    def region(self, region: Region) -> list[Reg]:
        """Emit a region; returns what it yields."""
        if self.outliner is not None:
            self.outliner.region(region)
        else:
            for inst in region.body[:-1]:
                self.inst(inst)
                if self.t.weight > MOST:
                    raise TooLong
        return [self.regs[v] for v in region.yields]

    def inst(self, inst: Inst) -> None:
        """Emit an instruction; its results are in `regs`."""
        if self.marks is None or inst.loc is None:
            self._spell(inst)
            return
        outer, self.t.mark = self.t.mark, f" ;@{self.marks.index(inst.loc)}"
        self._spell(inst)
        self.t.mark = outer

    def _spell(self, inst: Inst) -> None:
        name = inst.op.name
        if name in _STRUCTURAL:
            getattr(self, f"_{name}")(inst)
            return
        operands = [self.regs[v] for v in inst.operands]
        if name in MEMORY:
            results = MEMORY[name](self, inst, operands)
        elif name in ("floordiv", "mod") and can_divide_by_scalar(inst, operands):
            results = divide_by_scalar(self.t, inst, operands)
        else:
            spell = OPS.get(name)
            if spell is None:
                raise Unsupported(f"the CPU code generator has no spelling of {name}", loc=inst.loc)
            lanes = max((r.lanes for r in operands), default=1)
            wide = [self.t.splat(r, lanes) for r in operands]
            results = spell(self.t, inst, wide) if self.outliner is None else self.outliner.spell(inst, spell, wide)
            if isinstance(results, Reg) and self.outliner is None:
                self.first_lanes.note(inst, operands, results)
        self.regs.update(
            zip(
                inst.outs,
                results if isinstance(results, (list, tuple)) else (results,),
                strict=True,
            )
        )

    # --- structure ------------------------------------------------------------------------------

    def _program_id(self, inst: Inst) -> None:
        self.regs[inst.out] = self.t.let(f"trunc i64 %pid{inst['axis']} to i32", "i32", 1)

    def _is_joined(self, inst: Inst) -> None:
        self.regs[inst.out] = Reg("%is_joined", "i1")

    def _num_programs(self, inst: Inst) -> None:
        self.regs[inst.out] = self.t.let(f"trunc i64 %g{'xyz'[inst['axis']]} to i32", "i32", 1)

    def _programs_left(self, inst: Inst) -> None:
        self.regs[inst.out] = self.t.let("sub i64 %to, %program", "i64", 1)

    def _const(self, inst: Inst) -> None:
        self.regs[inst.out] = self.given.get(inst.out) or self.t.number(inst["value"], register_type(inst.out.dtype))

    def _lane(self, inst: Inst) -> None:
        count = inst["lanes"] or self.lanes
        self.regs[inst.out] = lane_numbers(count)

    def _scratch(self, inst: Inst) -> None:
        at = self.scratch_nbytes
        nbytes = inst["size"] * bits_of(scratch_type(inst["dtype"])) // 8
        self.scratch_nbytes = (at + nbytes + _ALIGN - 1) // _ALIGN * _ALIGN
        address = f"getelementptr inbounds i8, ptr %scratch, i64 {at}"
        slot = self.t.let(address, "ptr", 1, "slot")
        self.regs[inst.out], self.slots[slot.text] = slot, address

    def _alloc_tg(self, inst: Inst) -> None:
        """Threads run in lockstep on one thread: its memory is a slot like any other, but users index it."""
        self._scratch(inst)
        self.bases[inst.out] = len(self.module.args) + len(self.shared)
        self.shared.append(inst)

    def _loop(self, inst: Inst) -> None:
        """start <= i < end in steps of `lanes`; carried values are vectors."""
        start, end = (self.regs[v] for v in inst.operands[:2])
        outer, self.lanes = self.lanes, inst["lanes"]
        carried = [self.t.splat(self.regs[v], self.lanes) for v in inst.operands[2:]]
        if inst["once"] or inst["of_rows"]:
            first = Reg("%i", "i32") if inst["of_rows"] else start  # the loop over rows is around that over programs
            self.regs.update(zip(inst.regions[0].params, [first, *carried], strict=True))
            self.regs.update(zip(inst.outs, self.region(inst.regions[0]), strict=True))
        else:
            self._counted(inst, start, end, self.t.number(self.lanes, start.element), carried)
        self.lanes = outer

    def _find(self, inst: Inst) -> None:
        """A loop that ends with the first vector of which a lane is on."""
        outer, self.lanes = self.lanes, inst["lanes"]

        def test(i: Reg) -> Reg:
            self.regs[inst.regions[0].params[0]] = i
            return self.region(inst.regions[0])[0]

        self.regs[inst.out] = find(self.t, self.regs[inst.operands[0]], self.regs[inst.operands[1]], self.lanes, test)
        self.lanes = outer

    def _for(self, inst: Inst) -> None:
        """Python's trip count, so that steps of either sign and a step of 0 are right."""
        t = self.t
        start, end, step = (self.regs[v] for v in inst.operands[:3])
        zero, one = t.like(0, start), t.like(1, start)
        less = "icmp slt" if inst.operands[0].dtype.is_signed else "icmp ult"
        up, down = t.compare(less, zero, step), t.compare(less, step, zero)
        span = t.select(up, t.op("sub", end, start), t.op("sub", start, end))
        size = t.select(up, step, t.op("sub", zero, step))
        safe = t.select(t.compare("icmp eq", size, zero), one, size)
        rounded = t.op("add", t.op("udiv", t.op("sub", span, one), safe), one)  # `span + safe` may be too long
        runs_up = t.op("and", up, t.compare(less, start, end))
        runs_down = t.op("and", down, t.compare(less, end, start))
        trips = t.select(t.op("or", runs_up, runs_down), rounded, zero)
        carried = self._varying([self.regs[v] for v in inst.operands[3:]])
        self._counted(inst, zero, trips, one, carried, (start, step))

    def _varying(self, carried: Sequence[Reg]) -> list[Reg]:
        """What control flow inside a vector loop carries may differ per lane.

        Outside of one, vectors are the lanes of reductions on their way between two loops.
        """
        stays = [r.element == "ptr" or r.lanes > 1 for r in carried]
        return [r if keep else self.t.splat(r, self.lanes) for r, keep in zip(carried, stays, strict=True)]

    def _counted(
        self,
        inst: Inst,
        start: Reg,
        end: Reg,
        step: Reg,
        carried: Sequence[Reg],
        affine: tuple[Reg, Reg] | None = None,
    ) -> None:
        t = self.t
        before, head, body, done = (
            t.block,
            t.new_label("head"),
            t.new_label("body"),
            t.new_label("done"),
        )
        t.line(f"br label %{head}")
        t.label(head)
        counter = Reg(t.name("i"), start.element)
        phis = [Reg(t.name("c"), r.element, r.lanes) for r in carried]
        at = len(t.lines)
        t.line("")  # the phis, once the end of the body is known
        order = "icmp ult" if affine is not None else "icmp slt"
        t.line(f"br {t.compare(order, counter, end)}, label %{body}, label %{done}")
        t.label(body)
        region = inst.regions[0]
        if inst.op.name == "loop":
            self.first_lanes.count(counter)
        iv = counter if affine is None else t.op("add", affine[0], t.op("mul", counter, affine[1]))
        self.regs.update(zip(region.params, [iv, *phis], strict=True))
        self.same_bases(
            inst.operands[len(inst.operands) - len(phis) :], region.params[1:], inst.outs
        )
        yields = [t.splat(r, p.lanes) for r, p in zip(self.region(region), phis, strict=True)]
        following = t.op("add", counter, step)
        t.line(f"br label %{head}")
        edges = [(counter, start, following), *zip(phis, carried, yields, strict=True)]
        t.lines[at] = "\n".join(_phi(p, a, before, b, t.block) for p, a, b in edges)
        t.label(done)
        self.regs.update(zip(inst.outs, phis, strict=True))

    def _while(self, inst: Inst) -> None:
        t = self.t
        carried = self._varying([self.regs[v] for v in inst.operands])
        before, head, body, done = (
            t.block,
            t.new_label("head"),
            t.new_label("body"),
            t.new_label("done"),
        )
        t.line(f"br label %{head}")
        t.label(head)
        phis = [Reg(t.name("c"), r.element, r.lanes) for r in carried]
        at = len(t.lines)
        t.line("")
        t.weight += _WHILE_WEIGHT
        test, region = inst.regions
        self.regs.update(zip(test.params, phis, strict=True))
        self.same_bases(inst.operands, test.params, region.params, inst.outs)
        (condition,) = self.region(test)
        t.line(f"br {t.extract(condition, 0)}, label %{body}, label %{done}")
        t.label(body)
        self.regs.update(zip(region.params, phis, strict=True))
        yields = [t.splat(r, p.lanes) for r, p in zip(self.region(region), phis, strict=True)]
        t.line(f"br label %{head}")
        t.lines[at] = "\n".join(
            _phi(p, a, before, b, t.block) for p, a, b in zip(phis, carried, yields, strict=True)
        )
        t.label(done)
        self.regs.update(zip(inst.outs, phis, strict=True))

    def _if(self, inst: Inst) -> None:
        t = self.t
        condition = t.extract(self.regs[inst.operands[0]], 0)
        then, other, done = t.new_label("then"), t.new_label("else"), t.new_label("endif")
        t.line(f"br {condition}, label %{then}, label %{other}")
        sides = []
        for label, region in zip((then, other), inst.regions, strict=True):
            t.label(label)
            yields = self._varying(self.region(region))
            sides.append((t.block, yields))
            t.line(f"br label %{done}")
        t.label(done)
        (a, left), (b, right) = sides
        for out, x, y in zip(inst.outs, left, right, strict=True):
            merged = Reg(t.name("m"), x.element, x.lanes)
            t.lines.append(_phi(merged, x, a, y, b))
            self.regs[out] = merged

    def _hreduce(self, inst: Inst) -> None:
        """Fold the upper half of the lanes onto the lower half until one is left."""
        t, region = self.t, inst.regions[0]
        lanes, outer = inst["lanes"], self.lanes
        values = [t.splat(self.regs[v], lanes) for v in inst.operands]  # no loop ran: still the neutral element
        in_vectors = all(i.op.name in _IN_VECTORS for i in region.body[:-1]) and all(v.dtype.name not in _HALVES for v in inst.operands)
        while lanes > 1:
            lanes //= 2
            halves = [_half(t, v, first, lanes, in_vectors) for first in (0, lanes) for v in values]
            self.regs.update(zip(region.params, halves, strict=True))
            self.lanes = halves[0].lanes
            values = [t.splat(r, self.lanes) for r in self.region(region)]
        self.lanes = outer
        self.regs.update(zip(inst.outs, (t.extract(v, 0) for v in values), strict=True))

    def _barrier(self, inst: Inst) -> None:
        """Threads run in lockstep: everybody is here."""

    def _fence(self, inst: Inst) -> None:
        self.t.line('fence syncscope("singlethread") acq_rel' if inst["order"] == "volatile" else f"fence {inst['order']}")

    def _assume(self, inst: Inst) -> None:
        self.t.declare("@llvm.assume", "declare void @llvm.assume(i1)")
        self.t.line(f"call void @llvm.assume({self.regs[inst.operands[0]]})")


def _phi(out: Reg, a: Reg, from_a: str, b: Reg, from_b: str) -> str:
    return f"  {out.text} = phi {out.type} [ {a.text}, %{from_a} ], [ {b.text}, %{from_b} ]"


def _half(t: Text, value: Reg, first: int, lanes: int, in_vectors: bool) -> Reg:
    """Some lanes of a vector; a single one with any other beside it where that is asked for."""
    if lanes > 1:
        return t.shuffle(value, None, range(first, first + lanes))
    if not in_vectors:
        return t.extract(value, first)
    return t.shuffle(value, None, (1, 1)) if first else value


_IN_VECTORS = frozenset({"add", "min", "max", "and", "or", "xor", "gt", "ge", "lt", "le", "select"})
"""What combines the last two lanes as a vector: elements that leave the vector registers, often to come back, take longer."""
_HALVES = frozenset({"f16", "bf16", "bool"})

_STRUCTURAL = frozenset(
    {
        "program_id",
        "num_programs",
        "is_joined",
        "programs_left",
        "const",
        "lane",
        "scratch",
        "alloc_tg",
        "loop",
        "find",
        "for",
        "while",
        "if",
        "hreduce",
        "barrier",
        "fence",
        "assume",
    }
)
