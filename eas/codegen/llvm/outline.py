"""Long kernels as several functions: some of LLVM's passes take time with the square of a function.

A piece is a row of instructions of a region. Its text stays as it is: what it reads of what is around it are
parameters of the same names, and what is read after it is returned and gets its name back.
"""

from __future__ import annotations

from collections.abc import Sequence

from eas.codegen.llvm.emitter import LlvmEmitter
from eas.codegen.llvm.free_names import AROUND, defined_names, free_names
from eas.codegen.llvm.ops import LOOK_AT_NUMBERS, Spelling
from eas.codegen.llvm.repeats import Repeats
from eas.codegen.llvm.text import LOOP_FUNCTION, Reg, function
from eas.ir import Inst, Region, Trait, Value, walk

MOST = 15_000  # weight of a kernel that is one function
_PIECE = 3000  # weight of one of several functions, at least
_MOST_RESULTS = 64  # values that a function returns: to hand on more takes longer than a longer function does



class TooLong(Exception):
    """A kernel has to be several functions."""


class Outliner:
    """Moves what an emitter has written into a function as soon as it is long enough."""

    def __init__(self, emitter: LlvmEmitter, symbol: str) -> None:
        self.emitter, self.t = emitter, emitter.t
        self.symbol, self.count = symbol, 0
        self.repeats = Repeats(emitter, symbol)

    def region(self, region: Region) -> None:
        """Emit the instructions of a region."""
        t, body, first = self.t, region.body[:-1], 0
        line, block, weight = len(t.lines), t.block, t.weight
        last_use, enough = dict[Value, int](), weight + _PIECE
        for at, inst in enumerate(body):
            if not self.repeats.emit(inst):
                self.emitter.inst(inst)
            if at == first and inst.op.has(Trait.ALLOCATES):  # stays where it is: a piece that needs it computes its address again
                first, line, weight, enough = at + 1, len(t.lines), t.weight, t.weight + _PIECE
            if t.weight < enough:
                continue
            last_use = last_use or _last_uses(region)
            piece = body[first : at + 1]
            used_later = [v for made in piece for v in made.outs if last_use.get(v, 0) > at]
            if len(used_later) > _MOST_RESULTS:
                enough = t.weight + _PIECE // 2
                continue
            written = "\n".join(t.lines[line:]).replace(f" %{block} ]", " %entry ]")  # in phis
            del t.lines[line:]
            t.block, t.weight = block, weight
            self._call(piece, written, used_later)
            first, line, enough = at + 1, len(t.lines), weight + _PIECE

    def spell(self, inst: Inst, spell: Spelling, operands: list[Reg]) -> Reg | Sequence[Reg]:
        """Write an instruction on lanes, or call a function of it where it takes many lines and is one of many."""
        if not inst.op.has(Trait.ELEMENTWISE):
            made: Reg | Sequence[Reg] = spell(self.t, inst, operands)
            return made
        fixed = {i: r for i, r in enumerate(operands) if inst.op.name in LOOK_AT_NUMBERS and r.is_literal}

        def write(*xs: Reg) -> Sequence[Reg]:
            given = iter(xs)
            made = spell(self.t, inst, [fixed.get(i) or next(given) for i in range(len(operands))])
            return [made] if isinstance(made, Reg) else made

        dtypes = (*(v.dtype for v in inst.operands), *(v.dtype for v in inst.outs))
        key = (inst.op, inst.attrs, dtypes, tuple(r.type for r in operands), tuple(fixed.items()))
        return self.t.call_or_write(inst.op.name, key, [r for i, r in enumerate(operands) if i not in fixed], write)

    def _call(self, piece: Sequence[Inst], written: str, used_later: Sequence[Value]) -> None:
        """Call a new function of what was written."""
        self.count += 1
        symbol = f"{self.symbol}_part{self.count}"
        slots = [f"  {name} = {self.emitter.slots[name]}" for name in free_names(written) if name in self.emitter.slots]
        written = "\n".join([*slots, written])
        arguments, results = self._arguments(piece, written), self._results(used_later, written)
        self.t.helpers[symbol] = function(symbol, f"noinline {LOOP_FUNCTION}", arguments, [written], results)
        self.t.call_function(symbol, arguments, results)

    def _arguments(self, piece: Sequence[Inst], written: str) -> list[Reg]:
        """What a piece reads and does not define."""
        regs = (self.emitter.regs.get(v) for v in (*(a.value for a in self.emitter.module.args), *_used(piece)))
        kinds = AROUND | {r.text: r for r in regs if r is not None}
        return [kinds[name] for name in free_names(written)]

    def _results(self, values: Sequence[Value], written: str) -> list[Reg]:
        """The registers of values that were written here."""
        defined = defined_names(written)
        regs = (self.emitter.regs[v] for v in values)
        return list({r.text: r for r in regs if r.text in defined}.values())

def _used(piece: Sequence[Inst]) -> list[Value]:
    return [v for inst in piece for part in (inst, *(p for r in inst.regions for p in walk(r))) for v in part.operands]


def _last_uses(region: Region) -> dict[Value, int]:
    """The place in a region of the last instruction that uses a value."""
    return {v: at for at, inst in enumerate(region.body) for v in _used([inst])}


__all__ = ["MOST", "Outliner", "TooLong"]
