"""Writes random kernels of scalars, loads, stores and nested control flow, and a plain-Python `mk` to judge them."""

from __future__ import annotations

import random

import numpy as np

SIZE = 16  # of every buffer; a power of two, so that offsets wrap with &
INTS, FLOATS = ["i0", "i1", "i2", "n"], ["f0", "f1", "s"]


class PlainMk:
    """The few words of `mk` that random kernels use, as ordinary Python over NumPy scalars."""

    range = range

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.work = 0

    def program_id(self, axis):
        return self.pid

    def load(self, buffer, offset):
        assert 0 <= offset < SIZE, "a load that Python would not have executed"
        self.work += 1
        return buffer[offset].item()

    def store(self, buffer, offset, value):
        assert 0 <= offset < SIZE
        buffer[offset] = value


class RandomKernel:
    """One kernel source: `def kernel(x, z, y, n, s)` over i32 x, f32 z and f32 y."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.loops = 0
        self.in_helper = False
        self.lines: list[str] = []
        if self.random.random() < 0.6:
            self.write_helper()
        self.add(0, "def kernel(x, z, y, n, s):")
        self.add(1, "pid = mk.program_id(0)")
        self.add(1, "i0 = n + pid")
        self.add(1, "i1 = 0")  # a Python number that may become a runtime value
        self.add(1, "i2 = mk.load(x, pid & 15)")
        self.add(1, "f0 = 0.5")
        self.add(1, "f1 = mk.load(z, pid & 15)")
        self.block(1, 0, False, self.random.randint(3, 6))
        for at, name in enumerate(["i0", "i1", "i2", "f0", "f1"]):
            self.add(1, f"mk.store(y, (pid * 5 + {at}) & 15, {name} + 0.0)")

    def source(self) -> str:
        return "\n".join(self.lines) + "\n"

    def add(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def write_helper(self) -> None:
        self.in_helper = True
        self.add(0, "def helper(x, z, y, n, s, i0, i1):")
        for line in ["i2 = 1", "pid = mk.program_id(0)", "f0 = s * 0.5", "f1 = 1.5"]:
            self.add(1, line)
        self.block(1, 1, False, self.random.randint(1, 3))
        self.add(1, f"return {self.int_expr(1)}")
        self.in_helper = False

    # --- expressions: ints stay small, floats exact in f32 ------------------------------------------

    def int_expr(self, depth: int = 2) -> str:
        pick = self.random.randrange(9 if depth else 3)
        sub = lambda: self.int_expr(depth - 1)  # noqa: E731
        match pick:
            case 0:
                return str(self.random.randint(-3, 6))
            case 1 | 2:
                return self.random.choice(INTS)
            case 3:
                return f"(({sub()} {self.random.choice('+-*')} {sub()}) % 7)"
            case 4:
                return f"({sub()} // {self.random.choice([2, 3, -2])})"
            case 5:
                return f"mk.load(x, ({sub()}) & 15)"
            case 6:
                return f"({sub()} if {self.cond(depth - 1)} else {sub()})"
            case 7:
                return f"{self.random.choice(['min', 'max'])}({sub()}, {sub()})"
        if self.random.random() < 0.5 or self.in_helper or self.lines[0].startswith("def kernel"):
            return f"abs({sub()})"
        return f"helper(x, z, y, n, s, {sub()}, {self.int_expr(0)})"

    def float_expr(self, depth: int = 2) -> str:
        pick = self.random.randrange(7 if depth else 2)
        sub = lambda: self.float_expr(depth - 1)  # noqa: E731
        match pick:
            case 0:
                return self.random.choice(["0.25", "1.5", "-2.0", "3.0"])
            case 1:
                return self.random.choice(FLOATS)
            case 2 | 3:  # halved so often that no sum needs more bits than f32 has
                return f"({sub()} {self.random.choice('+-')} {sub()}) * 0.5"
            case 4:
                return f"mk.load(z, ({self.int_expr(1)}) & 15)"
            case 5:
                return f"({sub()} if {self.cond(depth - 1)} else {sub()})"
        return f"({self.int_expr(1)} + 0.5)"

    def cond(self, depth: int = 2) -> str:
        pick = self.random.randrange(8 if depth > 0 else 2)
        sub = lambda: self.cond(depth - 1)  # noqa: E731
        match pick:
            case 0 | 1:
                return f"{self.int_expr(1)} {self.random.choice(['<', '<=', '>', '==', '!='])} {self.int_expr(1)}"
            case 2:
                return f"{self.float_expr(1)} < {self.float_expr(1)}"
            case 3:
                return f"({sub()} {self.random.choice(['and', 'or'])} {sub()})"
            case 4:
                return f"(not {sub()})"
            case 5:
                return f"({self.int_expr(0)} < {self.int_expr(1)} <= {self.int_expr(1)})"
            case 6:  # the right side is out of bounds unless the left one allows it
                index = self.int_expr(0)
                return f"(0 <= {index} < {SIZE} and mk.load(x, {index}) > {self.int_expr(0)})"
        index = self.int_expr(0)
        return f"({index} < 0 or {index} >= {SIZE} or mk.load(x, {index}) < {self.int_expr(0)})"

    # --- statements ---------------------------------------------------------------------------------

    def block(self, indent: int, depth: int, in_loop: bool, count: int) -> None:
        for _ in range(max(1, count)):
            kinds = ["assign"] * 4 + ["store"] + (["leave"] * 2 if in_loop else [])
            kinds += ["exit"] if self.random.random() < 0.15 else []
            if depth < 3:
                kinds += ["if"] * 3 + ["for", "for", "while"]
            getattr(self, f"write_{self.random.choice(kinds)}")(indent, depth, in_loop)

    def write_assign(self, indent: int, depth: int, in_loop: bool) -> None:
        if self.random.random() < 0.6:
            forms = ["{n} = {e}", "{n} += {e}", "{n}, {m} = {e}, {f}"]
            names = {"n": self.random.choice(INTS[:3]), "m": self.random.choice(INTS[:3])}
            form, e, f = self.random.choice(forms), self.int_expr(), self.int_expr(1)
            if form == forms[2] and names["n"] == names["m"]:
                form = "{n} = {f}"  # Python 3.11.2 stores a pair of equal names in the wrong order
            text = form.format(**names, e=e, f=f)
            self.add(indent, text)
            if "+=" in text:  # keep away from overflow, where Python's ints differ
                self.add(indent, f"{names['n']} = {names['n']} % 11")
        else:
            self.add(indent, f"{self.random.choice(FLOATS[:2])} = {self.float_expr()}")

    def write_store(self, indent: int, depth: int, in_loop: bool) -> None:
        self.add(indent, f"mk.store(y, ({self.int_expr(1)}) & 15, {self.float_expr(1)})")

    def write_exit(self, indent: int, depth: int, in_loop: bool) -> None:
        value = f" {self.int_expr(1)}" if self.in_helper else ""
        self.add(indent, f"if {self.cond()}:")
        self.add(indent + 1, f"return{value}")

    def write_leave(self, indent: int, depth: int, in_loop: bool) -> None:
        self.add(indent, f"if {self.cond()}:")
        self.add(indent + 1, self.random.choice(["break", "continue"]))

    def body(self, indent: int, depth: int, in_loop: bool) -> None:
        self.block(indent + 1, depth + 1, in_loop, self.random.randint(1, 2))

    def write_if(self, indent: int, depth: int, in_loop: bool) -> None:
        self.add(indent, f"if {self.cond()}:")
        self.body(indent, depth, in_loop)
        if self.random.random() < 0.3:
            self.add(indent, f"elif {self.cond()}:")
            self.body(indent, depth, in_loop)
        if self.random.random() < 0.5:
            self.add(indent, "else:")
            self.body(indent, depth, in_loop)

    def write_for(self, indent: int, depth: int, in_loop: bool) -> None:
        self.loops += 1
        bound = f"({self.int_expr(1)}) & 3"
        items = self.random.choice(
            ["range({b})", "mk.range({b})", "range(2)", "range(1, {b})", "range({b}, -1, -1)", "range(0, 4, 1 + (n & 1))"]
        ).format(b=bound)
        self.add(indent, f"for t{self.loops} in {items}:")
        self.add(indent + 1, f"i0 = (i0 + t{self.loops}) % 13")
        self.end_loop(indent, depth, in_loop)

    def write_while(self, indent: int, depth: int, in_loop: bool) -> None:
        self.loops += 1
        count = f"w{self.loops}"
        self.add(indent, f"{count} = {self.random.choice(['0', 'n & 1'])}")
        test = self.random.choice(["{c} < 3", "True", "{c} < 3 and {x}", "{x} and {c} < 4"])
        self.add(indent, f"while {test.format(c=count, x=self.cond(1))}:")
        self.add(indent + 1, f"{count} += 1")
        if test == "True":
            self.add(indent + 1, f"if {count} > 3:")
            self.add(indent + 2, "break")
        self.end_loop(indent, depth, in_loop)

    def end_loop(self, indent: int, depth: int, in_loop: bool) -> None:
        self.body(indent, depth, True)
        if self.random.random() < 0.25:
            self.add(indent, "else:")
            self.body(indent, depth, in_loop)


def inputs(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(-4, 9, SIZE).astype(np.int32), (rng.integers(-8, 8, SIZE) / 4).astype(np.float32)
