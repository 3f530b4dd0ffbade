"""Random kernels that put every op that looks across elements into branches and loops, most of which do not run.

What is computed inside is used inside, or carried out; behind the region the same inputs are used again. So whatever
a compiler remembers of a region that never ran, or ran in another program, shows in the results. Numbers are small
integers, so that sums are exact in any order.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PROGRAMS = 3
_HEAD = '''
def larger(a, b):
    return mk.maximum(a, b)


def affine(a, b, c, d):
    return a * c, b * c + d


def best(x, i, y, j):
    is_better = (y > x) | ((y == x) & (j < i))
    return mk.where(is_better, y, x), mk.where(is_better, j, i)


def fit(x):  # small numbers of the kernel's dtype
'''
FITS = ("    return (x.to(mk.int64) & 63).to(mk.{})\n", "    return mk.minimum(mk.maximum(x.to(mk.{}), -40), 40)\n")


@dataclass
class RegionKernel:
    """The text of a kernel named `kernel`, and one launch of it."""

    source: str
    args: list[Any]
    ops: set[str] = field(default_factory=set)  # names of `mk` that stand inside of a region


@dataclass(frozen=True)
class Made:
    """An expression that may be said again where its inputs are known."""

    kind: str
    text: str
    inputs: frozenset[str]


class Writer:
    """Statements at some depth; names are forgotten at the end of the region that they were made in."""

    kinds: tuple[str, ...] = ()

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.data = np.random.default_rng(seed)
        self.lines: list[str] = []
        self.depth = 1
        self.known: list[dict[str, str]] = [{}]  # per open region: name -> kind
        self.made: list[Made] = []
        self.count = 0
        self.slots = 0
        self.never = 0  # regions around that surely do not run
        self.ops: set[str] = set()

    # --- choices ------------------------------------------------------------------------------

    def pick(self, *options: Any) -> Any:
        return self.rng.choice(options)

    def chance(self, p: float = 0.5) -> bool:
        return self.rng.random() < p

    def names(self, kind: str) -> list[str]:
        return [name for level in self.known for name, k in level.items() if k == kind]

    def new(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    # --- statements -----------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)
        if len(self.known) > 1:
            self.ops.update(part.split("(")[0] for part in text.split("mk.")[1:])

    def say(self, made: Made) -> None:
        """Give an expression a name, or let an outer variable of its kind change."""
        outer = [n for level in self.known[:-1] for n, k in level.items() if k == made.kind]
        if outer and self.chance(0.35):
            name = self.pick(*outer)
        else:
            name = self.new(made.kind)
            self.known[-1][name] = made.kind
        self.line(f"{name} = {made.text}")

    def op(self) -> None:
        """A random op on random inputs."""
        kind = self.pick(*self.kinds)
        text, inputs = self.expression(kind)
        made = Made(kind, text, frozenset(inputs))
        self.made.append(made)
        self.say(made)

    def again(self) -> None:
        """An op of some region before, on the same inputs."""
        visible = {name for level in self.known for name in level}
        ready = [m for m in self.made if m.inputs <= visible]
        if ready:
            self.say(self.pick(*ready[-6:]))

    def expression(self, kind: str) -> tuple[str, set[str]]:
        """The text of an op that makes this kind of value, and the variables in it."""
        raise NotImplementedError

    def store(self) -> None:
        """Let some value be seen."""
        kind = self.pick(*self.kinds)
        self.show(self.pick(*self.names(kind)), kind)

    def show(self, name: str, kind: str) -> None:
        """Let a value be seen."""
        raise NotImplementedError

    def effect(self) -> None:
        """Change memory."""
        raise NotImplementedError

    def fault(self) -> None:
        """What must not happen: read far outside of a buffer, or fail."""
        raise NotImplementedError

    def block(self, size: int) -> None:
        """Statements of a region."""
        for _ in range(size):
            if len(self.known) < 4 and self.chance(0.3):
                self.region()
                for _ in range(self.pick(1, 2, 2)):
                    self.again()
            elif self.never and self.chance(0.3):
                self.fault()
            else:
                self.pick(self.op, self.op, self.op, self.op, self.store, self.effect, self.again)()

    # --- regions --------------------------------------------------------------------------------

    def number(self) -> str:
        """How often something happens, which only the launch knows: mostly never."""
        return self.pick("zero", "zero", "zero", "one", "two", "pid", "(pid & 1)", "(1 - (pid & 1))")

    def region(self) -> None:
        self.pick(self._branch, self._branch, self._for, self._while)()

    def inside(self, number: str) -> None:
        """The statements of a region that runs so often."""
        self.known.append({})
        self.depth += 1
        self.never += number == "zero"
        self.block(self.pick(1, 2, 2, 3))
        mine = [(name, kind) for name, kind in self.known[-1].items() if kind in self.kinds]
        for name, kind in mine[-2:]:
            self.show(name, kind)
        if not mine:
            self.store()
        self.never -= number == "zero"
        self.depth -= 1
        self.known.pop()

    def condition(self) -> tuple[str, str]:
        """A condition, and how often it holds."""
        number = self.number()
        return f"{number} > 0", number

    def _branch(self) -> None:
        condition, number = self.condition()
        self.line(f"if {condition}:")
        self.inside(number)
        if self.chance(0.3):
            self.line("else:")
            self.inside("")

    def _for(self) -> None:
        k, number = self.new("k"), self.number()
        self.line(f"for {k} in range({self.pick('', '', '1, ')}{number}):")
        self.inside(number)

    def _while(self) -> None:
        w, number = self.new("w"), self.number()
        self.line(f"{w} = 0")
        more = self.pick("", "", f" & ({self.condition()[0]})")
        self.line(f"while ({w} < {number}){more}:")
        self.depth += 1
        self.line(f"{w} += 1")
        self.depth -= 1
        self.inside(number)

    # --- the kernel -------------------------------------------------------------------------------

    def flags(self) -> list[str]:
        """The numbers 0, 1 and 2: arguments, or what nobody knows before it is loaded."""
        if self.chance(0.4):
            return []
        return [f"{name} = mk.load(flags + {k})" for k, name in enumerate(("zero", "one", "two"))]

    def values(self, size: int, dtype: str) -> np.ndarray:
        low = 0 if dtype.startswith("u") else -8
        return self.data.integers(low, 40, size).astype(dtype)


# --- kernels of blocks --------------------------------------------------------------------------------

_SUMMARIES = (  # block -> number
    "mk.sum({a})", "mk.max({a})", "mk.min({a})", "mk.argmax({a}, 0)", "mk.argmin({a}, 0)", "mk.any({a} > 30)", "mk.all({a} > 0)",
    "mk.max({a}, 0, return_indices=True)[1]", "mk.reduce(({a}, i), 0, best)[1]", "mk.reduce({a}, 0, larger)", "mk.sum(mk.topk({a}, 4)[1])",
    "mk.topk({a}, 1)[0].sum()", "mk.sum(mk.histogram({a}.to(mk.int32), 8) * mk.arange(0, 8))", "mk.xor_sum({a}.to(mk.int32))",
    "mk.reduce((({a}.to(mk.int32) & 1) + 1, {b}.to(mk.int32)), 0, affine)[1]",
)  # fmt: skip
_BLOCKS = (  # blocks -> block
    "mk.sort({a})", "mk.sort({a}, descending=True)", "mk.argsort({a})", "mk.argsort({a}, descending=True)", "mk.cumsum({a})",
    "mk.cumsum({a}, reverse=True)", "mk.flip({a})", "mk.gather({a}, (i * 5 + 3) & (N - 1), 0)", "mk.gather({a}, mk.argsort({b}), 0)",
    "mk.gather({a}, {b}.to(mk.int32) & (N - 1), 0)", "mk.ravel(mk.trans(mk.reshape({a}, [R, C])))", "mk.ravel(mk.trans(mk.reshape({a}, [2, R // 2, C]), 2, 0, 1))",
    "mk.cat(*mk.split(mk.reshape({a}, [N // 2, 2])))", "mk.interleave(*mk.split(mk.reshape({a}, [N // 2, 2])))",
    "mk.ravel(mk.join(*mk.split(mk.reshape({a} + {b}, [N // 2, 2]))[::-1]))", "mk.split(mk.join({a}, {b}))[1]",
    "mk.associative_scan({a}, 0, larger)", "mk.associative_scan({a}, 0, larger, reverse=True)", "mk.associative_scan(({a}, i), 0, best)[1]",
    "mk.associative_scan((({a}.to(mk.int32) & 1) + 1, {b}.to(mk.int32)), 0, affine)[1]", "mk.cumprod(mk.where({a} > 38, 2, 1))",
    "mk.ravel(mk.broadcast_to(mk.histogram({a}.to(mk.int32), 16)[None, :], [N // 16, 16]))",
    "mk.ravel(mk.reshape({a}, [N // 4, 4]) + mk.topk({b}, 4)[0][None, :])", "mk.ravel({m})", "{a} - mk.max({a})", "{a} * {b} + 1",
    "mk.where({a} > {b}, {a}, mk.sum({b}))", "mk.load(x + first + {at}, mask=i < n)", "mk.load(x + first + {at})", "mk.load(x + first + i, mask=i < n, other=3)",
    "mk.load(x + first + {at}, mask={a} > 3, other=1)", "mk.randint(7, i) & 15",
)  # fmt: skip
_TILES = (  # tiles -> tile
    "mk.reshape({a}, [R, C])", "{m} - mk.max({m}, axis={axis}, keep_dims=True)", "{m} + mk.argmin({m}, axis={axis}, keep_dims=True)",
    "{m} + mk.sum({m}, axis={axis}, keep_dims=True)", "mk.cumsum({m}, axis={axis})", "mk.sort({m}, axis={axis})", "mk.argsort({m}, axis={axis})",
    "mk.flip({m}, axis={axis})", "mk.gather({m}, {l}.to(mk.int32) & (R - 1), 0)", "mk.dot({m}, mk.dot(mk.trans({l}), {m}) & 7)",
    "mk.dot(mk.dot({m}, mk.trans({l})) & 7, {l})", "mk.trans(mk.trans({m}) + mk.trans({l}))", "mk.trans(mk.reshape({m}, [C, R]))",
    "mk.trans(mk.cumsum(mk.trans({m}), axis={axis}))", "{m} + mk.topk({l}, 1, axis=1)[0]", "{m} * {l}", "mk.cat(*mk.split(mk.reshape({m}, [R, C // 2, 2])), axis=1)",
    "mk.reduce(({m}, mk.broadcast_to(mk.arange(0, C)[None, :], [R, C])), 1, best, keep_dims=True)[1] + {l}",
    "mk.associative_scan({m}, {axis}, larger)", "mk.broadcast_to(mk.histogram({m}.to(mk.int32), R)[:, None], [R, C])",
    "mk.load(x + first + mk.arange(0, R)[:, None] * C + mk.arange(0, C)[None, :])", "mk.load(x + first + mk.arange(0, C)[None, :] * R + mk.arange(0, R)[:, None])",
    "mk.load(x + first + mk.arange(0, R)[:, None] * C + mk.arange(0, C)[None, :], mask=mk.arange(0, C)[None, :] < n)",
)  # fmt: skip
_PLACES = ("i", "N - 1 - i", "i // 2", "(i * 3 & (N - 1))", "i + pid", "(i & 7)")


class BlockWriter(Writer):
    """A kernel of blocks of one dtype: `v` of one axis, `m` of two, `s` numbers."""

    kinds = ("v", "v", "m", "s")

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.n = self.pick(32, 64, 64, 128, 128, 256, 256, 1024)
        self.dtype = self.pick("int32", "int32", "float32", "float32", "float32", "int64", "int16", "uint8")

    def fit(self, text: str) -> str:
        """As small numbers of the kernel's dtype."""
        return f"fit({text})"

    def operand(self, kind: str, used: set[str]) -> str:
        """A variable, something simple of it, or positions."""
        name = self.pick(*self.names(kind))
        used.add(name)
        if kind == "v":
            return self.pick(name, name, name, f"({name} + i)", f"({name} * 2 + 1)", "i", "(i // 3)")
        return self.pick(name, name, f"({name} + 1)")

    def expression(self, kind: str) -> tuple[str, set[str]]:
        form = self.pick(*{"s": _SUMMARIES, "v": _BLOCKS, "m": _TILES}[kind])
        used: set[str] = set()
        parts = {key: self.operand(k, used) for key, k in (("a", "v"), ("b", "v"), ("m", "m"), ("l", "m")) if f"{{{key}}}" in form}
        if self.dtype.startswith("float") and "mk.dot" in form:
            form = form.replace(" & 7", " * 0.125")
        text = form.format(**parts, axis=self.pick(0, 1), at=self.pick(*_PLACES))
        if kind == "s":
            return f"{text}.to(mk.int32) & 63", used
        return self.fit(text), used

    def condition(self) -> tuple[str, str]:
        if self.names("s") and self.chance(0.2):
            return f"{self.pick(*self.names('s'))} > {self.pick(5, 30, 63)}", ""
        if self.chance(0.1):
            return f"mk.max({self.pick(*self.names('v'))}) > {self.pick(0, 20, 63)}", ""
        return super().condition()

    def fault(self) -> None:
        a = self.pick(*self.names("v"))
        form = self.pick(f"mk.load(x + FAR + {a}.to(mk.int32))", "mk.load(x + FAR + i)", "mk.load(x + FAR * (i & 1))", f"mk.gather({a}, i + N, 0)", "mk.load(x + FAR) + i")
        name = self.new("v")
        self.line(f"{name} = fit({form})")
        self.known[-1][name] = "v"
        if self.chance():
            self.line(f"mk.device_assert({name} > 99, 'never')")

    def _place(self) -> str:
        self.slots += 1
        return f"out + (pid * SLOTS + {self.slots - 1}) * N"

    def show(self, name: str, kind: str) -> None:
        at = {"v": " + i", "m": " + mk.arange(0, R)[:, None] * C + mk.arange(0, C)[None, :]", "s": ""}[kind]
        mask = self.pick("", "", "", ", mask=i < n") if kind == "v" else ""
        self.line(f"mk.store({self._place()}{at}, {name}.to(mk.float32){mask})")

    def effect(self) -> None:
        used: set[str] = set()
        a, at = self.operand("v", used), self.pick("i", "N - 1 - i")
        if self.chance(0.4):  # what other lanes have stored
            place, name = self._place(), self.new("v")
            self.line(f"mk.store({place} + i, {self.fit(a)}.to(mk.float32))")
            self.line(f"{name} = {self.fit(f'mk.load({place} + {self.pick(*_PLACES[:4])})')}")
            self.known[-1][name] = "v"
            return
        atomic = self.pick("add", "max", "min", "xchg", "or", "and", "xor")
        if self.chance(0.5):  # elements meet, so nobody asks for old values
            form = self.pick("add", "max", "min", "or", "and", "xor")
            self.line(f"mk.atomic_{form}(counts + pid * N + i // 4, ({a}).to(mk.int32))")
            return
        name = self.new("v")
        place = f"counts + pid * N + {at}"
        if self.chance(0.2):
            text = f"mk.atomic_cas({place}, 0 * i, ({a}).to(mk.int32))"
        else:
            text = f"mk.atomic_{atomic}({place}, ({a}).to(mk.int32){self.pick('', ', mask=i < n')})"
        self.line(f"{name} = {self.fit(text)}")
        self.known[-1][name] = "v"

    def kernel(self) -> RegionKernel:
        rows = self.pick(4, 8, 8, 16)
        start = [
            "pid = mk.program_id(0)",
            "i = mk.arange(0, N)",
            "first = pid * N",
            *self.flags(),
            f"v0 = {self.pick('mk.load(x + first + i)', 'mk.load(x + first + i, mask=i < n)', 'mk.load(x + first + i, mask=i < n) + 2')}",
            f"v1 = {self.fit(self.pick('i', 'i * 3', 'v0 * 2 + i', '20 - v0'))}",
            f"m0 = {self.fit(self.pick('mk.reshape(v0, [R, C])', 'mk.load(x + first + mk.arange(0, R)[:, None] * C + mk.arange(0, C)[None, :])'))}",
            f"s0 = {self.pick('pid', 'mk.sum(v0).to(mk.int32) & 63', 'n')}",
        ]
        for text in start:
            self.line(text)
        self.known[0].update(v0="v", v1="v", m0="m", s0="s")
        for _ in range(self.pick(2, 2, 3)):
            self.op()
            self.region()
            for _ in range(self.pick(1, 2, 3)):
                self.again()
        for name, kind in self.known[0].items():
            self.show(name, kind)
        sizes = f"N, R, C, SLOTS, FAR = {self.n}, {rows}, {self.n // rows}, {self.slots}, 1 << 30\n"
        text = sizes + _HEAD + FITS[self.dtype == "float32"].format(self.dtype) + "\n\ndef kernel(x, counts, out, flags, n, zero, one, two):\n" + "\n".join(self.lines) + "\n"
        n = self.pick(0, 1, self.n // 3, self.n - 1, self.n)
        args = [
            self.values((PROGRAMS + 1) * self.n, self.dtype), self.values(PROGRAMS * self.n, "int32"), np.full(PROGRAMS * self.slots * self.n, -99, np.float32),
            np.array([0, 1, 2], np.int32), n, 0, 1, 2,
        ]  # fmt: skip
        return RegionKernel(text, args, self.ops)
