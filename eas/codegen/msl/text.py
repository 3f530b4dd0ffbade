"""Pieces of Metal text: expressions that know their precedence, names nobody else has, indented lines."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from eas.ir import Loc, Value

# C++ precedence, higher binds tighter.
ATOM, UNARY, MUL, ADD, SHIFT, ORDER, EQUAL, AND, XOR, OR, ALL, ANY, CHOICE = range(16, 3, -1)
_LEVELS = {
    "*": MUL, "/": MUL, "%": MUL, "+": ADD, "-": ADD, "<<": SHIFT, ">>": SHIFT,
    "<": ORDER, "<=": ORDER, ">": ORDER, ">=": ORDER, "==": EQUAL, "!=": EQUAL,
    "&": AND, "^": XOR, "|": OR, "&&": ALL, "||": ANY,
}  # fmt: skip
# What a compiler warns about when it stands bare inside of the other.
_SEPARATE = frozenset((("&&", "||"), ("&", "|"), ("&", "^"), ("^", "|"), ("+", "<<"), ("-", "<<"), ("+", ">>"), ("-", ">>")))


@dataclass(frozen=True, slots=True)
class Expr:
    """A C++ expression. `changing`: variables in it that are assigned later; `lanes`: of a vector."""

    text: str
    level: int = ATOM
    lanes: int = 1
    weight: int = 0
    reads: bool = False
    changing: frozenset[str] = frozenset()
    operator: str = ""
    sides: tuple[str, str] = ("", "")
    """The texts to the left and right of the operator."""
    wrapped: Expr | None = None
    """An unsigned expression of which this is the signed form."""
    guard: Value | None = None
    """The mask under which `bare` says the same."""
    bare: Expr | None = None

    def at(self, level: int) -> str:
        """The text, in parentheses unless it binds at least as tightly as `level`."""
        return self.text if self.level >= level else f"({self.text})"

    @property
    def is_leaf(self) -> bool:
        return self.level == ATOM and self.weight == 0

    def under(self, mask: Value | None) -> Expr:
        """What may be said where `mask` holds."""
        return self.bare if mask is not None and self.guard is mask and self.bare is not None else self


def gathered(text: str, level: int, parts: Sequence[Expr], operator: str = "", weight: int = 1) -> Expr:
    """An expression made of `parts`."""
    return Expr(
        text,
        level,
        max((p.lanes for p in parts), default=1),
        weight + sum(p.weight for p in parts),
        any(p.reads for p in parts),
        frozenset().union(*(p.changing for p in parts)),
        operator,
    )


def infix(operator: str, a: Expr, b: Expr) -> Expr:
    """a operator b; the left operand may be of the same level, the right one must bind tighter."""
    level = _LEVELS[operator]
    left, right = (
        f"({x.text})" if _needs_parentheses(operator, x) else x.at(level + side) for side, x in enumerate((a, b))
    )
    return replace(gathered(f"{left} {operator} {right}", level, (a, b), operator), sides=(left, right))


def _needs_parentheses(outer: str, inner: Expr) -> bool:
    pair = (inner.operator, outer)
    return bool(inner.operator) and (pair in _SEPARATE or (_LEVELS[outer] in (ORDER, EQUAL) and inner.level <= EQUAL))


def prefix(operator: str, a: Expr) -> Expr:
    text = a.at(UNARY)
    # `--x` is a decrement.
    return gathered(f"{operator}({text})" if text.startswith(operator) else f"{operator}{text}", UNARY, (a,))


def call(function: str, *args: Expr) -> Expr:
    return gathered(f"{function}({', '.join(a.text for a in args)})", ATOM, args)


def choose(condition: Expr, a: Expr, b: Expr) -> Expr:
    """condition ? a : b, lane by lane where the condition is a vector."""
    if condition.lanes > 1:
        return call("select", b, a, condition)
    parts = (condition, a, b)
    return gathered(f"{condition.at(ANY)} ? {a.at(ANY)} : {b.at(CHOICE)}", CHOICE, parts)


def index(pointer: Expr, offset: Expr) -> Expr:
    return gathered(f"{pointer.at(ATOM)}[{offset.text}]", ATOM, (pointer, offset))


def named(text: str, lanes: int = 1, changing: bool = False) -> Expr:
    return Expr(text, ATOM, lanes, changing=frozenset((text,)) if changing else frozenset())


# --- names ----------------------------------------------------------------------------------------

_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl const
constexpr const_cast continue decltype default delete do double dynamic_cast else enum explicit export extern false
float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
protected public register reinterpret_cast return short signed sizeof static static_assert static_cast struct switch
template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t
while xor xor_eq NULL assert main
kernel vertex fragment device constant thread threadgroup threadgroup_imageblock object_data ray_data coherent
half bfloat uchar ushort uint ulong size_t ptrdiff_t metal sampler texture patch_control_point visible intersection
visible_function_table intersection_function_table
half2 half3 half4 float2 float3 float4 int2 int3 int4 uint2 uint3 uint4 bool2 bool3 bool4 char2 char3 char4
uchar2 uchar3 uchar4 short2 short3 short4 ushort2 ushort3 ushort4 long2 long3 long4 ulong2 ulong3 ulong4
bfloat2 bfloat3 bfloat4 packed_float4 packed_half4 vec matrix array atomic imageblock
abs absdiff addsat clamp clz ctz extract_bits hadd insert_bits mad24 madhi madsat max max3 median3 min min3 mul24 mulhi
popcount reverse_bits rhadd rotate subsat acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh cospi divide
exp exp10 exp2 fabs fdim floor fma fmax fmax3 fmedian3 fmin fmin3 fmod fract frexp ilogb ldexp log log10 log2 modf
nextafter pow powr rint round rsqrt sin sincos sinh sinpi sqrt tan tanh tanpi trunc isfinite isinf isnan isnormal
isordered isunordered signbit select any all mix saturate sign smoothstep step cross distance distance_squared dot
faceforward length length_squared normalize reflect refract as_type precise fast transpose determinant
simd_all simd_any simd_ballot simd_sum simd_min simd_max simd_product simd_and simd_or simd_xor simd_broadcast simd_vote
simd_prefix_inclusive_sum simd_prefix_exclusive_sum simd_prefix_inclusive_product simd_prefix_exclusive_product
simd_shuffle simd_shuffle_xor simd_shuffle_up simd_shuffle_down simd_is_first simd_active_threads_mask
quad_all quad_any quad_broadcast quad_sum simdgroup_barrier threadgroup_barrier mem_flags simdgroup_matrix
simdgroup_float8x8 simdgroup_half8x8 simdgroup_bfloat8x8 simdgroup_load simdgroup_store simdgroup_multiply
simdgroup_multiply_accumulate make_filled_simdgroup_matrix atomic_int atomic_uint atomic_float atomic_ulong atomic_bool
memory_order memory_order_relaxed thread_scope numeric_limits os_log discard_fragment enable_if conditional
INFINITY NAN HUGE_VAL M_PI M_E INT_MAX INT_MIN UINT_MAX FLT_MAX FLT_MIN HALF_MAX CHAR_BIT
I complex y0 y1 j0 j1 gamma signgam unix linux
"""
RESERVED = frozenset(_WORDS.split()) | frozenset(keyword.kwlist)
# Names of these forms may be macros, types or ours, in this version of Metal or the next.
_TYPE = r"(?:bool|u?char|u?short|u?int|u?long|half|b?float|double|size|ptrdiff)\d*(?:x\d+)?(?:_t)?"
_RISKY = re.compile(rf"[A-Z][A-Z0-9_]+|eas_\w*|{_TYPE}|\w+_t|(?:packed|simdgroup|atomic|metal)_\w+")
# A kernel stands beside all that Metal's headers declare, where a variable would hide it.
_RISKY_KERNEL = re.compile(
    r"(?:std|mpp|simd|quad|quadgroup|threadgroup|thread|threads|texture|depth|sampler|mem|memory|mesh|object|vertex|fragment|intersection|intersect|raytracing|visible|imageblock|"
    r"numeric|tensor|cooperative|make|is|has|as|os|air|bias|level|gradient|min|max|lod|primitive|render|patch|indirect|command|ray|triangle|bounding|instance|curve|function|layout)(?:_\w+|\d\w*)?"
)
_PLAIN = re.compile(r"[^0-9A-Za-z_]+|__+")
_NOT_SHOWN = re.compile(r"[^ ->@-\[\]-~]")  # also `?`, of which trigraphs are made
_COPY = re.compile(r"\.\d+$")


def _spelt(name: str) -> str:
    """A name that nobody else gives a meaning: Metal, its headers and our own functions have none that ends in an underscore."""
    return f"{name}_" if name in RESERVED or _RISKY.fullmatch(name) else name


def kernel_name(wish: str) -> str:
    """The name of a kernel's function: that of the user, with `_kernel` behind what Metal's headers may declare; nothing there ends so."""
    name = Scope().claim(wish)
    is_risky = name.endswith("_") or (_RISKY_KERNEL.fullmatch(name) and not name.endswith("_kernel"))
    return f"{name.rstrip('_')}_kernel" if is_risky else name


class Scope:
    """Names that are taken, and the next free one like a wish."""

    def __init__(self, taken: Sequence[str] = ()) -> None:
        self._taken = set(taken)
        self._blocks: list[list[str]] = [[]]
        self._next: dict[str, int] = {}  # smaller numbers of a name are taken

    def claim(self, wish: str) -> str:
        """A valid, unused identifier as near to the wish as possible."""
        # `x.1` is how the printed IR tells a second x apart; a module from the cache has such names.
        base = _PLAIN.sub("_", _COPY.sub("", wish)).strip("_") or "v"  # two underscores in a row belong to compilers
        base = f"v{base}" if base[0].isdigit() else base
        number = self._next.get(base, 0)
        name = _spelt(f"{base}_{number}" if number else base)
        while name in self._taken:
            number += 1
            name = _spelt(f"{base}_{number}")
        self._next[base] = number + 1
        self._taken.add(name)
        self._blocks[-1].append(name)
        return name

    @contextmanager
    def block(self) -> Iterator[None]:
        """Names that are claimed inside are free again afterwards."""
        self._blocks.append([])
        yield
        freed = self._blocks.pop()
        self._taken.difference_update(freed)
        for name in freed:
            base = name.rstrip("_")
            self._next.pop(base, None)
            self._next.pop(base.rpartition("_")[0], None)


def comment(text: str) -> str:
    """One line that no text can leave: printable ASCII, and no backslash or trigraph that would join the next line to it."""
    return "// " + _NOT_SHOWN.sub("_", text)


# --- lines ----------------------------------------------------------------------------------------


class Lines:
    """Indented text; every line knows the place in the kernel that it came from."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, Loc | None]] = []
        self.loc: Loc | None = None
        self._depth = 0

    def add(self, text: str) -> None:
        indent = "" if text.startswith("#") else "    " * self._depth
        self.lines.append((f"{indent}{text}", self.loc))

    def blank(self) -> None:
        self.lines.append(("", None))

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """`head {` ... `}`, what is added meanwhile one step further in."""
        self.add(f"{head} {{" if head else "{")
        self._depth += 1
        loc = self.loc
        yield
        self._depth -= 1
        self.loc = loc
        self.add(tail)

    @contextmanager
    def aside(self) -> Iterator[list[tuple[str, Loc | None]]]:
        """Collect what is added meanwhile instead of appending it; `replay` appends it."""
        outer, self.lines = self.lines, []
        collected = self.lines
        try:
            yield collected
        finally:
            self.lines = outer

    def replay(self, collected: Sequence[tuple[str, Loc | None]]) -> None:
        self.lines += collected


def with_guard(expr: Expr, guard: Value, bare: Expr) -> Expr:
    return replace(expr, guard=guard, bare=bare)
