"""Random kernels of threads whose branches and loops hold what threads do together, and mostly do not run."""

from __future__ import annotations

import numpy as np

from tests.fuzz.random_regions import FITS, PROGRAMS, RegionKernel, Writer

_ALONE = (  # what a thread does for itself
    "{a} * 2 + {b}", "{a} - {b} + t", "mk.where({a} > {b}, {a}, t)", "mk.maximum({a}, {b} & 31)", "mk.load(x + first + t)", "mk.load(x + first + B - 1 - t, mask={a} > 3, other=1)",
    "mk.load(x + first + (t ^ 5))", "mk.atomic_add(counts + first + t, {i})", "mk.atomic_max(counts + first + t, {i})", "mk.atomic_xchg(counts + first + t, {i})",
)  # fmt: skip
_TOGETHER = (  # in control flow that all threads agree on
    "mk.simd_sum({a})", "mk.simd_max({a})", "mk.simd_min({a} + t)", "mk.simd_and({i})", "mk.simd_or({i})", "mk.simd_xor({i})", "mk.simd_all({a} > 0)",
    "mk.simd_any({a} > 38)", "mk.simd_ballot({a} > 20)", "mk.simd_product(mk.where({a} > 38, 2, 1))", "mk.simd_prefix_inclusive_sum({a})", "mk.simd_prefix_exclusive_sum({a})",
    "mk.simd_prefix_inclusive_product(mk.where({a} > 38, 2, 1))", "mk.simd_prefix_exclusive_product(mk.where({a} > 38, 2, 1))", "mk.simd_broadcast({a}, 3)",
    "mk.simd_broadcast({a}, pid)", "mk.simd_shuffle({a}, {i} & 31)", "mk.simd_shuffle_xor({a}, 5)", "mk.simd_shuffle_up({a}, 1 + pid)", "mk.simd_shuffle_down({a}, 2)",
    "mk.simd_shuffle_down(t, 1)", "mk.simd_shuffle(t * 3 + 1, 31 - mk.lane_id())",
)  # fmt: skip


class ThreadWriter(Writer):
    """A kernel of threads: `v` are numbers of each, `f` matrices of each simdgroup."""

    kinds = ("v",)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.threads = self.pick(32, 64, 64, 96, 128)
        self.dtype = self.pick("int32", "int32", "float32", "float32", "int16")
        self.is_alone = 0  # regions around that threads do not agree on
        self.has_matrices = self.dtype == "float32" and self.chance(0.3)

    def operand(self, used: set[str]) -> str:
        name = self.pick(*self.names("v"))
        used.add(name)
        return self.pick(name, name, name, f"({name} + t)", f"({name} * 2 + 1)", "t")

    def expression(self, kind: str) -> tuple[str, set[str]]:
        form = self.pick(*(_ALONE if self.is_alone or self.chance(0.25) else _TOGETHER))
        used: set[str] = set()
        a, b = self.operand(used), self.operand(used)
        form = form.replace("{b} & 31", "{b}")
        return f"fit({form.format(a=a, b=b, i=f'{a}.to(mk.int32)')})", used

    def again(self) -> None:
        if not self.is_alone:
            super().again()

    def condition(self) -> tuple[str, str]:
        return (self.pick("t % 3 == 1", "t < 7"), "") if self.is_alone else super().condition()

    def fault(self) -> None:
        name = self.new("v")
        self.line(f"{name} = fit({self.pick('mk.load(x + FAR + t)', 'mk.load(x + FAR * t)', 'mk.load(x + FAR)')})")
        self.known[-1][name] = "v"
        if self.chance():
            self.line(f"mk.device_assert({name} > 99, 'never')")

    def region(self) -> None:
        if len(self.known) > 1 and self.chance(0.2):
            self.is_alone += 1
            self.pick(self._branch, self._for)()
            self.is_alone -= 1
        else:
            super().region()

    def number(self) -> str:
        return self.pick("(t & 3)", "zero", "two") if self.is_alone else super().number()

    def _place(self) -> str:
        self.slots += 1
        return f"out + (pid * SLOTS + {self.slots - 1}) * 2 * B"

    def show(self, name: str, kind: str) -> None:
        self.line(f"mk.store({self._place()} + t, {name}.to(mk.float32))")

    def effect(self) -> None:
        """Threads meet in memory."""
        used: set[str] = set()
        a = self.operand(used)
        if self.is_alone:
            self.line(f"mk.atomic_add(counts + first + t // 4, {a}.to(mk.int32))")
            return
        if self.has_matrices and self.chance():
            self.line(f"f = mk.mma(x, {self.pick('0', 'pid * 3')}, 8, x, {self.pick('2', 'first')}, 8, f)")
            if self.chance():
                self.line(f"mk.mma_store({self._place()}, mk.sg_id() * 64, 8, f)")
            return
        name = self.new("v")
        if self.chance():
            swap = [f"mk.store(shared + t, {a}.to(mk.int32))", "mk.barrier()", f"{name} = fit(mk.load(shared + {self.pick('B - 1 - t', '(t ^ 3)', 't // 2')}))"]
        else:
            swap = [f"mk.atomic_{self.pick('add', 'max', 'xor')}(cells + (t & 7), {a}.to(mk.int32))", "mk.barrier()", f"{name} = fit(mk.load(cells + (t & 7)))"]
        for text in [*swap, "mk.barrier()"]:
            self.line(text)
        self.known[-1][name] = "v"

    def kernel(self) -> RegionKernel:
        start = [
            "pid = mk.program_id(0)",
            "t = mk.tid(0, B)",
            "first = pid * B",
            "shared, cells = mk.alloc_tg(B, mk.int32), mk.alloc_tg(8, mk.int32)",
            *self.flags(),
            "v0 = mk.load(x + first + t, mask=t < n)",
            f"v1 = fit({self.pick('t', 't * 3', 'v0 * 2 + t')})",
            *(["f = mk.mma_zero()"] if self.has_matrices else []),
            "if t < 8:",
            "    mk.store(cells + t, t)",
            "mk.barrier()",
        ]
        for text in start:
            self.line(text)
        self.known[0].update(v0="v", v1="v")
        for _ in range(self.pick(2, 3, 4)):
            self.op()
            self.region()
            for _ in range(self.pick(1, 2, 3)):
                self.again()
        for name in self.names("v"):
            self.show(name, "v")
        if self.has_matrices:
            self.line(f"mk.mma_store({self._place()}, mk.sg_id() * 64, 8, f)")
        head = f"B, SLOTS, FAR = {self.threads}, {self.slots}, 1 << 30\n\n\ndef fit(x):\n" + FITS[self.dtype == "float32"].format(self.dtype)
        text = head + "\n\ndef kernel(x, counts, out, flags, n, zero, one, two):\n" + "\n".join(self.lines) + "\n"
        size, n = PROGRAMS * self.threads, self.pick(0, 5, self.threads - 1, self.threads)
        args = [
            self.values(size + 96, self.dtype), self.values(size, "int32"), np.full(2 * size * self.slots, -99, np.float32),
            np.array([0, 1, 2], np.int32), n, 0, 1, 2,
        ]  # fmt: skip
        return RegionKernel(text, args, self.ops)
