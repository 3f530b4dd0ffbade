"""Functions that our text brings along, each only where it is used: what Metal lacks or leaves undefined."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from eas.base.dtypes import DType
from eas.codegen.msl.types import type_name, unsigned_name

AXES = "xyzw"
PREFIX = "eas_"  # `Scope` gives it to nobody


@dataclass(frozen=True, slots=True)
class Helper:
    """One inline function; `needs` names the helpers that its body calls."""

    returns: str
    name: str
    params: tuple[tuple[str, str], ...]  # type, name
    body: str
    needs: tuple[str, ...] = ()

    def text(self) -> str:
        params = ", ".join(f"{t} {n}" for t, n in self.params)
        return f"inline {self.returns} {self.name}({params}) {{\n{_indented(self.body)}\n}}"

    def spread(self, lanes: int) -> str:
        """The same function lane by lane, for vectors."""
        params = ", ".join(f"{t}{lanes} {n}" for t, n in self.params)
        calls = ", ".join(
            f"{self.name}({', '.join(f'{n}.{AXES[i]}' for _, n in self.params)})" for i in range(lanes)
        )
        return f"inline {self.returns}{lanes} {self.name}({params}) {{\n    return {self.returns}{lanes}({calls});\n}}"


def _indented(body: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in body.strip("\n").split("\n"))


Maker = Callable[[str, DType], Helper]
MAKERS: dict[str, Maker] = {}
FUNCTIONS: dict[str, str] = {}  # whole texts that are not of one type


def maker(name: str) -> Callable[[Maker], Maker]:
    def enter(function: Maker) -> Maker:
        assert name not in MAKERS, f"helper {name} has two makers"
        MAKERS[name] = function
        return function

    return enter


class Library:
    """The helpers that a kernel uses, in order of first use, what they call before them."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str, int], str] = {}

    def use(self, name: str, dtype: DType, lanes: int = 1) -> str:
        """Ask for a helper of a type; its name in the text."""
        t = type_name(dtype)
        made = MAKERS[name](t, dtype)
        if (name, t, 1) not in self._texts:
            for needed in made.needs:
                self.use(needed, dtype)
            self._texts[name, t, 1] = made.text()
        if lanes > 1:
            self._texts.setdefault((name, t, lanes), made.spread(lanes))
        return own(made.name)

    def text(self, name: str) -> str:
        """Ask for a helper that stands for itself; its name in the text."""
        return self.add(name, FUNCTIONS[name])

    def add(self, key: str, text: str) -> str:
        """A helper that its user wrote for this kernel; what stands before a colon in `key` is its name. Its name in the text."""
        self._texts.setdefault((key, "", 1), text)
        return own(key.partition(":")[0])

    def texts(self) -> Iterable[str]:
        """The texts, in which helpers and what they call carry our prefix."""
        names = {name for text in self._texts.values() for name in _DEFINED.findall(text)}
        if not names:
            return []
        ours = re.compile(rf"(?<![\w.])({'|'.join(sorted(names))})(?=\()")
        return [ours.sub(lambda found: own(found[1]), text) for text in self._texts.values()]


_DEFINED = re.compile(r"^inline [^(\n]*?(\w+)\(", re.M)


def own(name: str) -> str:
    """A name of ours in the text: no name of a user starts so, and none of Metal."""
    return f"{PREFIX}{name}"


def _two(t: str) -> tuple[tuple[str, str], ...]:
    return ((t, "a"), (t, "b"))


def _as(t: str, text: str) -> str:
    """An integer expression as type `t`: C++ computes narrow ones as int."""
    return text if t in ("int", "uint", "long", "ulong") else f"{t}({text})"


# --- integers -------------------------------------------------------------------------------------


@maker("wrapping_neg")
def _wrapping_neg(t: str, dtype: DType) -> Helper:
    u = unsigned_name(dtype)
    return Helper(t, "wrapping_neg", ((t, "a"),), f"return {t}({u}(0) - {u}(a));")


@maker("wrapping_abs")
def _wrapping_abs(t: str, dtype: DType) -> Helper:
    return Helper(t, "wrapping_abs", ((t, "a"),), "return a < 0 ? wrapping_neg(a) : a;", ("wrapping_neg",))


@maker("trunc_div")
def _trunc_div(t: str, dtype: DType) -> Helper:
    """x / 0 is 0, and INT_MIN / -1 wraps."""
    edges = "if (b == -1) return wrapping_neg(a);\n" if dtype.is_signed else ""
    needs = ("wrapping_neg",) if dtype.is_signed else ()
    return Helper(t, "trunc_div", _two(t), f"if (b == 0) return 0;\n{edges}return a / b;", needs)


@maker("trunc_mod")
def _trunc_mod(t: str, dtype: DType) -> Helper:
    edges = "b == 0 || b == -1" if dtype.is_signed else "b == 0"
    return Helper(t, "trunc_mod", _two(t), f"return {edges} ? {_as(t, '0')} : {_as(t, 'a % b')};")


@maker("floor_div")
def _floor_div(t: str, dtype: DType) -> Helper:
    if not dtype.is_signed:
        return Helper(t, "floor_div", _two(t), f"return b == 0 ? {_as(t, '0')} : {_as(t, 'a / b')};")
    body = f"{t} q = trunc_div(a, b);\nreturn (a < 0) != (b < 0) && trunc_mod(a, b) != 0 ? {_as(t, 'q - 1')} : q;"
    return Helper(t, "floor_div", _two(t), body, ("trunc_div", "trunc_mod"))


@maker("floor_mod")
def _floor_mod(t: str, dtype: DType) -> Helper:
    if not dtype.is_signed:
        return Helper(t, "floor_mod", _two(t), f"return b == 0 ? {_as(t, '0')} : {_as(t, 'a % b')};")
    body = f"{t} r = trunc_mod(a, b);\nreturn r != 0 && (r < 0) != (b < 0) ? {_as(t, 'r + b')} : r;"
    return Helper(t, "floor_mod", _two(t), body, ("trunc_mod",))


@maker("shift_left")
def _shift_left(t: str, dtype: DType) -> Helper:
    u, width = unsigned_name(dtype), dtype.bits
    return Helper(t, "shift_left", ((t, "a"), (t, "n")), f"return {u}(n) >= {width} ? {t}(0) : {t}({u}(a) << {u}(n));")


@maker("shift_right")
def _shift_right(t: str, dtype: DType) -> Helper:
    u, width = unsigned_name(dtype), dtype.bits
    body = f"return {t}(a >> ({u}(n) >= {width} ? {u}({width - 1}) : {u}(n)));"
    if not dtype.is_signed:
        body = f"return n >= {width} ? {t}(0) : {t}(a >> n);"
    return Helper(t, "shift_right", ((t, "a"), (t, "n")), body)


@maker("sign_of")
def _sign_of(t: str, dtype: DType) -> Helper:
    if dtype.is_float:
        return Helper(t, "sign_of", ((t, "x"),), f"return isnan(x) ? x : {t}({t}(x > 0) - {t}(x < 0));")
    below = f" - {t}(a < 0)" if dtype.is_signed else ""
    return Helper(t, "sign_of", ((t, "a"),), f"return {t}({t}(a > 0){below});")


FUNCTIONS["philox"] = """\
inline uint4 philox(uint4 counter, uint2 key) {
    for (int round = 0; round < 10; ++round) {
        uint2 high = mulhi(uint2(0xD2511F53u, 0xCD9E8D57u), counter.xz);
        uint2 low = uint2(0xD2511F53u, 0xCD9E8D57u) * counter.xz;
        counter = uint4(high.y ^ counter.y ^ key.x, low.y, high.x ^ counter.w ^ key.y, low.x);
        key += uint2(0x9E3779B9u, 0xBB67AE85u);
    }
    return counter;
}"""


# --- floats ---------------------------------------------------------------------------------------


@maker("nan_min")
def _nan_min(t: str, dtype: DType) -> Helper:
    return Helper(t, "nan_min", _two(t), "return isnan(a) || a < b ? a : b;")


@maker("nan_max")
def _nan_max(t: str, dtype: DType) -> Helper:
    return Helper(t, "nan_max", _two(t), "return isnan(a) || a > b ? a : b;")


@maker("float_floor_mod")
def _float_floor_mod(t: str, dtype: DType) -> Helper:
    body = """
float r = fmod(a, b);
if (r == 0.0f) return copysign(0.0f, b);
return (r < 0.0f) != (b < 0.0f) ? r + b : r;"""
    return Helper(t, "float_floor_mod", _two(t), body)


@maker("float_floor_div")
def _float_floor_div(t: str, dtype: DType) -> Helper:
    body = """
if (b == 0.0f) return a / b;
float r = fmod(a, b);
float q = (a - r) / b;
if (r != 0.0f && (r < 0.0f) != (b < 0.0f)) q -= 1.0f;
if (q == 0.0f) return copysign(0.0f, a / b);
float whole = floor(q);
return q - whole > 0.5f ? whole + 1.0f : whole;"""
    return Helper(t, "float_floor_div", _two(t), body)
