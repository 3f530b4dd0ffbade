"""Random programs give the same result and the same effects before and after the rewrite."""

import random

import pytest

from eas.frontend.syntax.rewrite import rewrite
from tests.unit.plain_hooks import PlainHooks, load_source

NAMES = ["a", "b", "c", "d", "e"]  # d and e start unbound


class OutOfFuel(Exception):
    """A random loop ran long enough."""


class Effects:
    def __init__(self):
        self.log = []

    def emit(self, value):
        self.log.append(repr(value))
        if len(self.log) > 300:
            raise OutOfFuel
        return value


class Program:
    """Writes one random function."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = ["def f(a, b, c):"]
        self.block(1, 0, False, self.random.randint(2, 5))

    def source(self):
        return "\n".join(self.lines) + "\n"

    def add(self, indent, text):
        self.lines.append("    " * indent + text)

    def name(self):
        return self.random.choices(NAMES, [4, 4, 4, 2, 1])[0]

    def expr(self, depth=2):
        kind = self.random.randrange(10 if depth else 3)
        sub = lambda: self.expr(depth - 1)  # noqa: E731
        match kind:
            case 0:
                return str(self.random.randint(-2, 5))
            case 1 | 2:
                return self.name()
            case 3 | 4:
                return f"({sub()} {self.random.choice('+-*')} {sub()}) % 7"
            case 5:
                return f"emit({sub()})"
            case 6:
                return f"({sub()} {self.random.choice(['and', 'or'])} {sub()})"
            case 7:
                return f"({sub()} if {sub()} else {sub()})"
            case 8:
                return f"({sub()} < {sub()} <= {sub()})"
        return self.random.choice(
            ["(not {})", "sum(i for i in range({} % 4) if i)", "g({})"]
        ).format(sub())

    def block(self, indent, depth, in_loop, count):
        if indent == 1 and self.random.random() < 0.7:
            self.add(1, f"def g(x): return x + {self.name()}")
        else:
            self.add(indent, f"emit({self.name()})")
        for _ in range(count):
            self.stmt(indent, depth, in_loop)

    def stmt(self, indent, depth, in_loop):
        kinds = ["assign"] * 3 + ["return"] + (["break", "continue"] * 2 if in_loop else [])
        if depth < 3:
            kinds += ["if"] * 3 + ["for", "while"]
        getattr(self, f"write_{self.random.choice(kinds)}")(indent, depth, in_loop)

    def body(self, indent, depth, in_loop):
        self.block(indent + 1, depth + 1, in_loop, self.random.randint(0, 3))

    def write_assign(self, indent, depth, in_loop):
        form = self.random.choice(["{n} = {e}", "{n} += {e}", "{n}, {m} = {e}, {f}", "emit({e})"])
        names = {"n": self.name(), "m": self.name(), "e": self.expr(), "f": self.expr(1)}
        self.add(indent, form.format(**names))

    def write_return(self, indent, depth, in_loop):
        value = self.random.choice(["", f" {self.expr(1)}", f" {self.expr()}"])
        guard = "" if self.random.random() < 0.1 else f"if {self.expr()}: "
        self.add(indent, f"{guard}return{value}")

    def write_break(self, indent, depth, in_loop):
        guard = "" if self.random.random() < 0.1 else f"if {self.expr()}: "
        self.add(indent, f"{guard}break")

    def write_continue(self, indent, depth, in_loop):
        guard = "" if self.random.random() < 0.1 else f"if {self.expr()}: "
        self.add(indent, f"{guard}continue")

    def write_if(self, indent, depth, in_loop):
        self.add(indent, f"if {self.expr()}:")
        self.body(indent, depth, in_loop)
        if self.random.random() < 0.3:
            self.add(indent, f"elif {self.expr()}:")
            self.body(indent, depth, in_loop)
        if self.random.random() < 0.5:
            self.add(indent, "else:")
            self.body(indent, depth, in_loop)

    def write_for(self, indent, depth, in_loop):
        target = self.random.choice([self.name(), f"{self.name()}, {self.name()}"])
        items = f"range({self.expr(1)} % 5)"
        self.add(indent, f"for {target} in {f'enumerate({items})' if ',' in target else items}:")
        self.end_loop(indent, depth, in_loop)

    def write_while(self, indent, depth, in_loop):
        self.add(indent, f"while {self.random.choice(['True', self.expr(), self.expr()])}:")
        self.end_loop(indent, depth, in_loop)

    def end_loop(self, indent, depth, in_loop):
        self.body(indent, depth, True)
        if self.random.random() < 0.3:
            self.add(indent, "else:")
            self.body(indent, depth, in_loop)


def outcome(fn, effects, args):
    effects.log.clear()
    try:
        result = repr(fn(*args))
    except OutOfFuel:
        result = "out of fuel"
    except NameError:
        result = "NameError"
    return result, tuple(effects.log)


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_random_programs(first):
    for seed in range(first, first + 50):
        effects = Effects()
        source = Program(seed).source()
        fn = load_source(source, emit=effects.emit)["f"]
        new = rewrite(fn, PlainHooks())
        assert new.rewritten, new.reason
        for args in [(0, 1, 2), (3, 3, 0), (-1, 5, 1), (2, 0, 4)]:
            want, got = outcome(fn, effects, args), outcome(new.fn, effects, args)
            if want[0] == "NameError":  # Python notices a missing operand before the next one runs
                got = got[0], got[1][: len(want[1])]
            assert got == want, f"seed {seed} {args}\n{source}"
