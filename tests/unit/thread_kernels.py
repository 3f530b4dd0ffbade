"""Random thread-mode kernels without races, as IR text."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

UNIFORM, SIMD, VARYING = range(3)
SLOTS, INPUT, BINS, SHARED = 12, 37, 5, 6  # cells per thread of `out`, sizes of `x`, `bins`, `uni`
_BINARY = ("add", "sub", "mul", "xor", "and", "min", "max", "floordiv", "mod")
_COMPARE = ("lt", "le", "eq", "ne", "gt")
_FOLDS = ("simd_sum", "simd_max", "simd_min", "simd_xor", "simd_prefix_exclusive_sum")
_SHUFFLES = ("simd_shuffle", "simd_shuffle_xor", "simd_shuffle_up", "simd_shuffle_down")


@dataclass
class Pool:
    """What can be named here: (name, on whom it depends)."""

    ints: list[tuple[str, int]] = field(default_factory=list)
    bools: list[tuple[str, int]] = field(default_factory=list)

    def copy(self) -> Pool:
        return Pool(list(self.ints), list(self.bools))


class KernelWriter:
    def __init__(self, seed: int, one_writer: bool = False) -> None:
        self.random = random.Random(seed)
        self.one_writer = one_writer  # what all threads would write to one place, the first one writes
        self.threads = self.random.choice((1, 7, 32, 40, 64))
        self.lines: list[str] = []
        self.pool = Pool()
        self.control = UNIFORM
        self.depth = 1
        self.names = 0
        self.slot = 0
        self.shared = 0

    def text(self) -> str:
        args = "%x: ptr<i32>, %out: ptr<i32>, %bins: ptr<i32>, %uni: ptr<i32>, %n: i32, %m: i32"
        self.say(f'%tg = alloc_tg {{dtype=i32, name="tg", size={self.threads}}} : tg_ptr<i32>')
        self.pool.ints = [("%n", UNIFORM), ("%m", UNIFORM)]
        pid = self.number("program_id {axis=0}", UNIFORM)
        tid = self.number(f"tid {{start=0, end={self.threads}}}", VARYING)
        self.number("lane_id", VARYING)
        self.number("sg_id", SIMD)
        self.number("local_id {axis=1}", UNIFORM)
        gid = self.number(
            f"add {self.number(f'mul {pid}, {self.const(self.threads)}', UNIFORM)}, {tid}", VARYING
        )
        self.tid, self.pid = tid, pid
        self.own = self.number(f"mul {gid}, {self.const(SLOTS)}", VARYING)
        self.statements(self.random.randint(5, 9))
        for name, _ in self.random.sample(self.pool.ints, min(SLOTS, len(self.pool.ints))):
            self.store_own(name)
        return "\n".join(
            [
                f"kernel random({args}) thread {{threads={self.threads}}} {{",
                *self.lines,
                "  yield",
                "}",
            ]
        )

    # --- lines ------------------------------------------------------------------------------------

    def say(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    def fresh(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def number(self, text: str, level: int) -> str:
        name = self.fresh()
        self.say(f"{name} = {text} : i32")
        self.pool.ints.append((name, level))
        return name

    def truth(self, text: str, level: int) -> str:
        name = self.fresh()
        self.say(f"{name} = {text} : bool")
        self.pool.bools.append((name, level))
        return name

    def const(self, value: int) -> str:
        name = self.fresh()
        self.say(f"{name} = const {value} : i32")
        return name

    def any_int(self, most: int = VARYING) -> tuple[str, int]:
        # Recent values are more interesting.
        allowed = [v for v in self.pool.ints if v[1] <= most]
        return self.random.choice(allowed[-6:] if self.random.random() < 0.6 else allowed)

    def below(self, limit: int, most: int = VARYING) -> tuple[str, int]:
        """A value from 0 to limit - 1."""
        v, level = self.any_int(most)
        return self.number(f"mod {v}, {self.const(limit)}", level), level

    def any_cond(self, most: int = VARYING) -> tuple[str, int]:
        (a, x), (b, y) = self.below(7, most), self.below(7, most)
        return self.truth(f"{self.random.choice(_COMPARE)} {a}, {b}", max(x, y)), max(x, y)

    def address(self, base: str, offset: str) -> str:
        name = self.fresh()
        space = "tg_ptr" if base == "%tg" else "ptr"
        self.say(f"{name} = addptr {base}, {offset} : {space}<i32>")
        return name

    # --- statements -------------------------------------------------------------------------------

    def statements(self, count: int) -> None:
        kinds = [self.arithmetic] * 3 + [self.load, self.guarded_load, self.store, self.atomic]
        if self.depth < 4:
            kinds += [self.branch, self.branch, self.range_loop, self.while_loop]
        if self.control <= SIMD:
            kinds += [self.simd, self.simd]
        if self.control == UNIFORM:
            kinds += [self.exchange, self.exchange, self.uniform_store]
        for _ in range(count):
            self.random.choice(kinds)()

    def arithmetic(self) -> None:
        (a, x), (b, y) = self.any_int(), self.any_int()
        if self.random.random() < 0.3:
            cond, z = self.any_cond()
            self.number(f"select {cond}, {a}, {b}", max(x, y, z))
        else:
            self.number(f"{self.random.choice(_BINARY)} {a}, {b}", max(x, y))

    def load(self) -> None:
        at, level = self.below(INPUT)
        if self.random.random() < 0.5:
            self.number(f"load {self.address('%x', at)}", level)
            return
        cond, z = self.any_cond()
        self.number(f"load {self.address('%x', at)}, {cond}, {self.const(-3)}", max(level, z))

    def guarded_load(self) -> None:
        """A branch keeps the address inside: an unmasked load would leave the buffer."""
        at, level = self.any_int()
        lo, hi = (
            self.truth(f"ge {at}, {self.const(0)}", level),
            self.truth(f"lt {at}, {self.const(INPUT)}", level),
        )
        self.if_else(
            self.truth(f"and {lo}, {hi}", level),
            level,
            lambda: self.number(f"load {self.address('%x', at)}", level),
        )

    def store_own(self, value: str) -> None:
        at = self.number(f"add {self.own}, {self.const(self.slot % SLOTS)}", VARYING)
        self.slot += 1
        where = self.address("%out", at)
        self.say(f"store {where}, {value}")
        if self.random.random() < 0.3:
            self.number(f"load {where}", VARYING)

    def store(self) -> None:
        self.store_own(self.any_int()[0])

    def uniform_store(self) -> None:
        """All threads write one number to one place, which is written nowhere else."""
        if self.shared == SHARED:
            return
        at = self.number(
            f"add {self.number(f'mul {self.pid}, {self.const(SHARED)}', UNIFORM)}, {self.const(self.shared)}",
            UNIFORM,
        )
        self.shared += 1
        mask = f", {self.truth(f'eq {self.tid}, {self.const(0)}', VARYING)}" if self.one_writer else ""
        self.say(f"store {self.address('%uni', at)}, {self.any_int(UNIFORM)[0]}{mask}")

    def atomic(self) -> None:
        where = self.address("%bins", self.below(BINS)[0])
        self.say(f"{self.fresh()} = atomic_add {where}, {self.any_int()[0]} : i32")

    def simd(self) -> None:
        v, _ = self.any_int()
        match self.random.randrange(4):
            case 0:
                name = self.random.choice(_FOLDS)
                self.number(f"{name} {v}", VARYING if "prefix" in name else SIMD)
            case 1:
                n = (
                    self.below(40)[0]
                    if self.random.random() < 0.5
                    else self.const(self.random.randrange(34))
                )
                self.number(f"{self.random.choice(_SHUFFLES)} {v}, {n}", VARYING)
            case 2:
                cond, level = self.any_cond()
                name = self.fresh()
                self.say(f"{name} = simd_ballot {cond} : u32")
                self.number(f"cast {name}", SIMD)
                self.truth(f"simd_any {cond}", min(level, SIMD))
            case 3:
                self.number(f"simd_broadcast {v}, {self.const(0)}", SIMD)

    def exchange(self) -> None:
        """Give a value to other threads; a place that all read makes it uniform."""
        mine = self.address("%tg", self.tid)
        self.say(f"store {mine}, {self.any_int()[0]}")
        self.say("barrier")
        at, level = self.below(self.threads, self.random.choice((UNIFORM, VARYING)))
        self.number(f"load {self.address('%tg', at)}", level)
        self.say("barrier")

    # --- control ----------------------------------------------------------------------------------

    def branch(self) -> None:
        cond, level = self.any_cond(self.random.choice((UNIFORM, SIMD, VARYING)))
        self.if_else(cond, level, lambda: self.statements(self.random.randint(0, 3)))

    def if_else(self, cond: str, level: int, then: Callable[[], object]) -> None:
        outs = [self.fresh() for _ in range(self.random.randint(0, 2))]
        self.say(
            f"{', '.join(outs)}{' = ' if outs else ''}if {cond}{' : ' if outs else ''}{', '.join(['i32'] * len(outs))} () {{"
        )
        a = self.nested(level, then, len(outs), VARYING)
        self.say("} () {")
        b = self.nested(
            level, lambda: self.statements(self.random.randint(0, 2)), len(outs), VARYING
        )
        self.say("}")
        self.pool.ints += [(out, max(level, x, y)) for out, x, y in zip(outs, a, b, strict=True)]

    def nested(
        self,
        level: int,
        emit: Callable[[], object],
        count: int,
        most: int,
        params: Sequence[tuple[str, int]] = (),
        fixed: Callable[[], str] | None = None,
    ) -> list[int]:
        """A region that yields `count` values (after what `fixed` says); returns their levels."""
        pool, control = self.pool, self.control
        self.pool, self.control = pool.copy(), max(control, level)
        self.pool.ints += params
        self.depth += 1
        emit()
        first = [fixed()] if fixed else []
        chosen = [self.any_int(most) for _ in range(count)]
        self.say(
            "yield"
            + ("" if not count and not first else " ")
            + ", ".join([*first, *(v for v, _ in chosen)])
        )
        self.depth -= 1
        self.pool, self.control = pool, control
        return [level for _, level in chosen]

    def range_loop(self) -> None:
        start, x = self.below(3, most := self.random.choice((UNIFORM, SIMD, VARYING)))
        end, y = self.below(5, most)
        by = self.const(self.random.choice((1, 2, -1, 3)))
        level = max(x, y)
        inits = [self.any_int(most) for _ in range(self.random.randint(1, 2))]
        outs, params, iv = (
            [self.fresh() for _ in inits],
            [self.fresh() for _ in inits],
            self.fresh(),
        )
        most = max(level, *(v for _, v in inits))
        types = ", ".join(["i32"] * len(outs))
        taken = ", ".join(f"{p}: i32" for p in (iv, *params))
        self.say(
            f"{', '.join(outs)} = for {start}, {end}, {by}, {', '.join(v for v, _ in inits)} : {types} ({taken}) {{"
        )
        self.nested(
            level,
            lambda: self.statements(self.random.randint(1, 3)),
            len(outs),
            most,
            [(iv, level), *((p, most) for p in params)],
        )
        self.say("}")
        self.pool.ints += [(out, most) for out in outs]

    def while_loop(self) -> None:
        count, level = self.below(5, self.random.choice((UNIFORM, SIMD, VARYING)))
        value, _ = self.any_int(level)
        left, other, a, b, c, d = (self.fresh() for _ in range(6))
        zero, one = self.const(0), self.const(1)
        self.say(f"{left}, {other} = while {count}, {value} : i32, i32 ({a}: i32, {b}: i32) {{")
        pool, control, self.control = self.pool.copy(), self.control, max(self.control, level)
        self.depth += 1
        self.pool.ints += [(a, level), (b, level)]
        self.statements_of_test()
        more = self.truth(f"gt {a}, {zero}", level)
        stop = self.truth(f"ne {b}, {self.const(3)}", level)
        self.say(f"yield {self.truth(f'and {more}, {stop}', level)}")
        self.depth -= 1
        self.pool, self.control = pool, control
        self.say(f"}} ({c}: i32, {d}: i32) {{")
        self.nested(
            level,
            lambda: self.statements(self.random.randint(1, 2)),
            1,
            level,
            [(c, level), (d, level)],
            lambda: self.number(f"sub {c}, {one}", level),
        )
        self.say("}")
        self.pool.ints += [(left, level), (other, level)]

    def statements_of_test(self) -> None:
        self.random.choice((self.arithmetic, self.load, self.atomic))()


def random_kernel(seed: int, one_writer: bool = False) -> str:
    return KernelWriter(seed, one_writer).text()
