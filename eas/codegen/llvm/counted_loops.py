"""Functions written as LLVM text around counted loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eas.codegen.llvm.text import Reg, Text


class Loops:
    """Counted loops in a function body."""

    def __init__(self, has_f16: bool = True) -> None:
        self.t = Text(has_f16)

    def loop(
        self,
        hint: str,
        start: Reg,
        end: Reg,
        step: Reg,
        carried: Sequence[Reg],
        body: Callable[[Reg, Sequence[Reg]], Sequence[Reg]],
    ) -> list[Reg]:
        """for i in range(start, end, step); returns what the last step returned, or `carried`."""
        t = self.t
        before, inside, done = t.block, t.new_label(hint), t.new_label(f"{hint}_done")
        t.line(f"br {t.compare('icmp slt', start, end)}, label %{inside}, label %{done}")
        t.label(inside)
        index, following = Reg(t.name("i"), "i64"), Reg(t.name("i"), "i64")
        phis = [Reg(t.name("acc"), r.element, r.lanes) for r in carried]
        at = len(t.lines)
        t.line("")
        new = body(index, phis)
        t.line(f"{following.text} = add nsw {index}, {step.text}")
        t.line(f"br {t.compare('icmp slt', following, end)}, label %{inside}, label %{done}")
        edges = [(index, start, following), *zip(phis, carried, new, strict=True)]
        t.lines[at] = "\n".join(f"  {p.text} = {_phi(p, a, before, b, t.block)}" for p, a, b in edges)
        after = t.block
        t.label(done)
        return [
            t.let(_phi(c, c, before, n, after), c.element, c.lanes)
            for c, n in zip(carried, new, strict=True)
        ]

    def when(self, condition: Reg, yes: Callable[[], None], no: Callable[[], None]) -> None:
        t = self.t
        labels = [t.new_label(hint) for hint in ("then", "else", "endif")]
        t.line(f"br {condition}, label %{labels[0]}, label %{labels[1]}")
        for label, side in zip(labels, (yes, no), strict=False):
            t.label(label)
            side()
            t.line(f"br label %{labels[2]}")
        t.label(labels[2])

    def at(self, base: Reg, offset: Reg, element: str) -> Reg:
        return self.t.let(f"getelementptr inbounds {element}, {base}, {offset}", "ptr", 1)

    def times(self, a: Reg, b: Reg) -> Reg:
        for x, y in ((a, b), (b, a)):
            if x.text == "1":
                return y
        return self.t.op("mul nsw", a, b)

    def less(self, a: Reg, b: Reg) -> Reg:
        return self.t.select(self.t.compare("icmp slt", a, b), a, b)


def _phi(kind: Reg, a: Reg, before: str, b: Reg, after: str) -> str:
    return f"phi {kind.type} [ {a.text}, %{before} ], [ {b.text}, %{after} ]"


def number(value: int) -> Reg:
    return Reg(str(value), "i64")
