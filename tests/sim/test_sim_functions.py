"""Every function of the software Metal's headers, at the edges of its types, against NumPy and Python's integers."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest

from eas.metal_sim import Library, toolchain
from tests.sim.metal_texts import HEAD, METAL, run, tabulate

pytestmark = pytest.mark.skipif(toolchain.why_unavailable() is not None, reason=str(toolchain.why_unavailable()))

RNG = np.random.default_rng(11)
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def holds(assertions: list[str], before: str = "") -> None:
    """The Metal compiler finds them true."""
    text = "\n".join(f'static_assert({a}, "");' for a in assertions)
    Library(f"{HEAD}{before}\n{text}\nkernel void k(device int* a [[buffer(0)]]) {{ a[0] = 1; }}").check()


# --- integers -------------------------------------------------------------------------------------


def _clip(value, lo, hi):
    return min(max(value, lo), hi)


def _reversed_bits(x, w):
    return int(f"{x % (1 << w):0{w}b}"[::-1], 2)


def _rotated(x, y, w):
    bits, turn = x % (1 << w), y % w
    return bits << turn | bits >> (w - turn)


def _extracted(x, offset, bits, is_signed):
    found = x >> offset & ((1 << bits) - 1)
    return found - (1 << bits) if is_signed and bits and found >> (bits - 1) else found


def _low24(x, lo):
    return _extracted(x, 0, 24, lo < 0)


def _inserted(x, y, offset, bits):
    mask = ((1 << bits) - 1) << offset
    return (x & ~mask) | (y << offset & mask)


# What each gives, as an integer of any size; w bits from lo to hi.
INTEGER = {
    "abs(x)": lambda x, y, z, w, lo, hi: abs(x), "absdiff(x, y)": lambda x, y, z, w, lo, hi: abs(x - y), "addsat(x, y)": lambda x, y, z, w, lo, hi: _clip(x + y, lo, hi),
    "subsat(x, y)": lambda x, y, z, w, lo, hi: _clip(x - y, lo, hi), "clz(x)": lambda x, y, z, w, lo, hi: w - (x % (1 << w)).bit_length(),
    "ctz(x)": lambda x, y, z, w, lo, hi: (x & -x).bit_length() - 1 if x else w, "popcount(x)": lambda x, y, z, w, lo, hi: (x % (1 << w)).bit_count(),
    "reverse_bits(x)": lambda x, y, z, w, lo, hi: _reversed_bits(x, w), "hadd(x, y)": lambda x, y, z, w, lo, hi: (x + y) >> 1,
    "rhadd(x, y)": lambda x, y, z, w, lo, hi: (x + y + 1) >> 1, "mulhi(x, y)": lambda x, y, z, w, lo, hi: (x * y) >> w,
    "madhi(x, y, z)": lambda x, y, z, w, lo, hi: ((x * y) >> w) + z, "madsat(x, y, z)": lambda x, y, z, w, lo, hi: _clip(x * y + z, lo, hi),
    "max(x, y)": lambda x, y, z, w, lo, hi: max(x, y), "min(x, y)": lambda x, y, z, w, lo, hi: min(x, y), "max3(x, y, z)": lambda x, y, z, w, lo, hi: max(x, y, z),
    "min3(x, y, z)": lambda x, y, z, w, lo, hi: min(x, y, z), "median3(x, y, z)": lambda x, y, z, w, lo, hi: sorted((x, y, z))[1],
    "clamp(x, min(y, z), max(y, z))": lambda x, y, z, w, lo, hi: _clip(x, min(y, z), max(y, z)), "rotate(x, y)": lambda x, y, z, w, lo, hi: _rotated(x, y, w),
    "extract_bits(x, 2u, 5u)": lambda x, y, z, w, lo, hi: _extracted(x, 2, 5, lo < 0), "extract_bits(x, 0u, 0u)": lambda x, y, z, w, lo, hi: 0,
    "extract_bits(x, 0u, uint(sizeof(x) * 8))": lambda x, y, z, w, lo, hi: x, "insert_bits(x, y, 3u, 4u)": lambda x, y, z, w, lo, hi: _inserted(x, y, 3, 4),
    "insert_bits(x, y, 0u, uint(sizeof(x) * 8))": lambda x, y, z, w, lo, hi: y, "insert_bits(x, y, 1u, 0u)": lambda x, y, z, w, lo, hi: x,
    "select(x, y, z > x)": lambda x, y, z, w, lo, hi: y if z > x else x,
}  # fmt: skip
# Vectors by their last component, whose neighbours are others.
VECTORS = {
    "madsat(vec<T, {n}>({a}, x), vec<T, {n}>({a}, y), vec<T, {n}>({a}, z)).{last}": "madsat(x, y, z)", "subsat(vec<T, {n}>({a}, x), vec<T, {n}>({a}, y)).{last}": "subsat(x, y)",
    "ctz(vec<T, {n}>({a}, x)).{last}": "ctz(x)", "extract_bits(vec<T, {n}>({a}, x), 2u, 5u).{last}": "extract_bits(x, 2u, 5u)",
    "insert_bits(vec<T, {n}>({a}, x), vec<T, {n}>({a}, y), 3u, 4u).{last}": "insert_bits(x, y, 3u, 4u)",
    "select(vec<T, {n}>({a}, x), vec<T, {n}>({a}, y), vec<T, {n}>({a}, z) > vec<T, {n}>({a}, x)).{last}": "select(x, y, z > x)",
}  # fmt: skip


def _edges(dtype):
    info = np.iinfo(dtype)
    return [info.min, info.min + 1, info.max // 2 + 1, info.max - 1, info.max, 0, 1, 3, int(RNG.integers(info.min, info.max, dtype=dtype)), *((-1, -2) if info.min else (2,))]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_functions(dtype):
    info = np.iinfo(dtype)
    triples = list(itertools.product(_edges(dtype), repeat=3))
    columns = {name: np.array([t[k] for t in triples], dtype) for k, name in enumerate("xyz")}
    cases = dict(INTEGER)
    if dtype in ("int8", "uint16", "int32"):
        for (text, scalar), n in itertools.product(VECTORS.items(), (2, 3, 4)):
            cases[text.format(n=n, a=", ".join("yzx"[: n - 1]), last="xyzw"[n - 1]).replace("<T", f"<{METAL[dtype]}")] = INTEGER[scalar]
    if dtype in ("int32", "uint32"):
        cases |= {"mul24(x, y)": lambda x, y, z, w, lo, hi: _low24(x, lo) * _low24(y, lo), "mad24(x, y, z)": lambda x, y, z, w, lo, hi: _low24(x, lo) * _low24(y, lo) + z}
    got = tabulate(list(cases), columns, METAL[dtype])
    for row, (text, want) in zip(got, cases.items(), strict=True):
        wanted = np.array([want(*t, info.bits, info.min, info.max) % (1 << info.bits) for t in triples], f"u{info.dtype.itemsize}")
        wrong = np.flatnonzero(row.view(wanted.dtype) != wanted)
        assert not len(wrong), (text, triples[wrong[0]], row[wrong[0]], wanted[wrong[0]])


# --- floats ---------------------------------------------------------------------------------------


def _where_finite(function):
    return lambda x: np.where(np.isfinite(x), function(np.where(np.isfinite(x), x, 0)), x)


def _fract(x):
    below_one = np.float64(1) - 2.0**-24
    return np.where(np.isinf(x), 0, np.minimum(x - np.floor(x), below_one))


def _fdim(x, y):
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x - y, 0))


def _median(x, y, z):
    return np.fmax(np.fmin(x, y), np.fmin(np.fmax(x, y), z))


def _ilogb(x):
    exponent = np.frexp(np.where(np.isfinite(x), x, 1))[1] - 1
    return np.where(np.isnan(x) | np.isinf(x), 2147483647, np.where(x == 0, -2147483648, exponent))


# Exact: what NumPy gives, of the values as doubles. By number of operands.
EXACT = {
    "ceil": np.ceil, "floor": np.floor, "rint": np.rint, "trunc": np.trunc, "fabs": np.fabs, "abs": np.fabs, "fract": _fract, "sqrt": np.sqrt,
    "round": _where_finite(lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)), "sign": lambda x: np.where(np.isnan(x), 0, np.where(x == 0, x, np.sign(x))),
    "saturate": lambda x: np.fmin(np.fmax(x, 0), 1), "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "signbit": np.signbit, "ilogb": _ilogb,
    "copysign": np.copysign, "fdim": _fdim, "fmax": np.fmax, "fmin": np.fmin, "max": np.fmax, "min": np.fmin, "fmod": np.fmod, "step": lambda x, y: ~(y < x),
    "divide": np.divide, "isordered": lambda x, y: ~(np.isnan(x) | np.isnan(y)), "isunordered": lambda x, y: np.isnan(x) | np.isnan(y),
    "fmax3": lambda x, y, z: np.fmax(x, np.fmax(y, z)), "fmin3": lambda x, y, z: np.fmin(x, np.fmin(y, z)), "fmedian3": _median,
    "max3": lambda x, y, z: np.fmax(x, np.fmax(y, z)), "min3": lambda x, y, z: np.fmin(x, np.fmin(y, z)), "median3": _median,
    "clamp": lambda x, y, z: np.fmin(np.fmax(x, y), z),
}  # fmt: skip
# Within a few units of the last place, infinite and NaN where NumPy is.
CLOSE = {
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(10.0, x), "log": np.log, "log2": np.log2, "log10": np.log10, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sinpi": lambda x: np.sin(np.pi * np.fmod(x, 2)), "cospi": lambda x: np.cos(np.pi * np.fmod(x, 2)),
    "tanpi": lambda x: np.tan(np.pi * (x - np.rint(x))), "atan2": np.arctan2, "pow": np.power, "powr": lambda x, y: np.where(x < 0, np.nan, np.power(x, y)),
    "fma": lambda x, y, z: x * y + z, "mix": lambda x, y, z: x + (y - x) * z,
}  # fmt: skip
NOT_BFLOAT = {"abs", "max", "min", "max3", "min3", "median3", "clamp", "ilogb"}  # integers have them too, and the call is ambiguous
ARITY = {
    **dict.fromkeys(("copysign", "fdim", "fmax", "fmin", "max", "min", "fmod", "step", "divide", "isordered", "isunordered", "atan2", "pow", "powr"), 2),
    **dict.fromkeys(("fmax3", "fmin3", "fmedian3", "max3", "min3", "median3", "clamp", "fma", "mix"), 3),
}  # fmt: skip
FLOATS = {1: (0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, -0.25, 0.75, 3.25, 100, -100, 9e-8, 600, 40000, -7e4, math.inf, -math.inf, math.nan), 2: (0.0, -0.0, 1, -1.5, 2.5, 7, -0.125, 80, math.inf, -math.inf, math.nan), 3: (0.0, 1, -1.5, 2.5, 40, -math.inf, math.nan)}  # fmt: skip


@pytest.mark.parametrize("type_", ["float", "half", "bfloat"])
@pytest.mark.parametrize("arity", [1, 2, 3])
def test_float_functions(type_, arity):
    names = [name for name in (*EXACT, *CLOSE) if ARITY.get(name, 1) == arity and not (type_ == "bfloat" and name in NOT_BFLOAT)]
    points = list(itertools.product(FLOATS[arity], repeat=arity))
    columns = {name: np.array([p[k] for p in points], np.float32) for k, name in enumerate("xyz"[:arity])}
    if type_ != "float":
        columns = {name: _rounded(x, type_).astype(np.float32) for name, x in columns.items()}
    spaces = ("", "precise::", "fast::") if type_ == "float" else ("",)
    operands = ", ".join(f"{type_}({name})" for name in columns)
    calls = {f"{space}{name}({operands})": name for name in names for space in spaces if not (space and name.startswith(("is", "signbit")))}
    got = tabulate(list(calls), columns)
    exact = [x.astype(np.float64) for x in columns.values()]
    with np.errstate(all="ignore"):
        for row, (text, name) in zip(got, calls.items(), strict=True):
            want = np.asarray((EXACT | CLOSE)[name](*exact), np.float64)
            want = want.astype(np.float16).astype(np.float32) if type_ == "half" and name != "ilogb" else want.astype(np.float32)
            if name in EXACT:
                np.testing.assert_array_equal(row, want, text)
                if arity == 1 and name not in ("saturate", "fract"):
                    np.testing.assert_array_equal(np.signbit(row)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)], f"sign of {text}")
            else:
                np.testing.assert_allclose(row, want, rtol=1.5e-3 if type_ == "half" else 3e-6, atol=1e-4 if type_ == "half" else 2e-6, err_msg=text)


def _rounded(x, type_):
    if type_ == "half":
        with np.errstate(over="ignore"):
            return x.astype(np.float16)
    bits = x.view(np.uint32).astype(np.uint64)
    made = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), x, made)


@pytest.mark.parametrize("type_", ["float", "half"])
def test_functions_with_integers_and_second_results(type_):
    x = np.array([p for p in FLOATS[1] if math.isfinite(p)] + [math.inf, -math.inf, 2.0**-20, 3e-6], np.float32)
    x = _rounded(x, type_).astype(np.float32) if type_ == "half" else x
    calls = [
        f"ldexp({type_}(x), 3)", f"ldexp({type_}(x), -2)", f"frexp({type_}(x), e)", f"(frexp({type_}(x), e), e)", f"modf({type_}(x), w)", f"(modf({type_}(x), w), w)",
        f"nextafter({type_}(x), {type_}(1))", f"nextafter({type_}(x), {type_}(-1))", f"isnormal({type_}(x))", f"smoothstep({type_}(-1), {type_}(3), {type_}(x))",
        f"sincos({type_}(x), w)", f"(sincos({type_}(x), w), w)", f"ldexp(vec<{type_}, 3>(x), int3(0, 1, 2)).z", f"modf(vec<{type_}, 2>(1, x), v).y", f"(modf(vec<{type_}, 2>(1, x), v), v.y)",
    ]  # fmt: skip
    got = tabulate(calls, {"x": x}, prelude=f"int e; {type_} w; vec<{type_}, 2> v;")
    dtype = np.float32 if type_ == "float" else np.float16
    s = x.astype(dtype)
    with np.errstate(all="ignore"):
        mantissa, exponent = np.frexp(s)
        fraction, whole = np.modf(s)
        t = np.clip((s.astype(np.float64) + 1) / 4, 0, 1)
        want = [
            np.ldexp(s, 3), np.ldexp(s, -2), mantissa, np.where(np.isfinite(s), exponent, 0), fraction, whole, np.nextafter(s, dtype(1)), np.nextafter(s, dtype(-1)),
            np.isfinite(s) & (np.abs(s) >= np.finfo(dtype).tiny), t * t * (3 - 2 * t), np.sin(s.astype(np.float64)), np.cos(s.astype(np.float64)), np.ldexp(s, 2), fraction, whole,
        ]  # fmt: skip
    for row, text, wanted in zip(got, calls, want, strict=True):
        is_exact = not any(word in text for word in ("smoothstep", "sincos"))
        np.testing.assert_allclose(row, np.asarray(wanted, np.float64).astype(dtype).astype(np.float32), rtol=0 if is_exact else 2e-3 if type_ == "half" else 3e-6, atol=0 if is_exact else 1e-3 if type_ == "half" else 1e-6, err_msg=text)


# --- vectors, matrices, constants -----------------------------------------------------------------


def _geometry(x, y, z, eta=0.75):
    dot, length = (x * y).sum(), math.sqrt((x * x).sum())
    k = 1 - eta * eta * (1 - dot * dot)
    bent = np.zeros(len(x)) if k < 0 else x * eta - y * (eta * dot + math.sqrt(k))
    return [dot, length * length, length, ((x - y) ** 2).sum(), math.sqrt(((x - y) ** 2).sum()), *x / length, *(x if (z * y).sum() < 0 else -x), *x - y * (2 * dot), *bent]


@pytest.mark.parametrize("type_", ["float", "half"])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_geometry(type_, n):
    v = RNG.uniform(-1, 1, (40, 3, 4)).astype(np.float32).astype(np.float16).astype(np.float32)
    columns = {f"x{k}": np.ascontiguousarray(v[:, k // 4, k % 4]) for k in range(12)}
    x, y, z = (f"vec<{type_}, {n}>({', '.join(f'x{k}' for k in range(first, first + n))})" for first in (0, 4, 8))
    scalars = [f"dot({x}, {y})", f"length_squared({x})", f"length({x})", f"distance_squared({x}, {y})", f"distance({x}, {y})"]
    vectors = [f"normalize({x})", f"faceforward({x}, {y}, {z})", f"reflect({x}, {y})", f"refract({x}, {y}, {type_}(0.75))"]
    cross = [f"cross({x}, {y})"] if n == 3 else []
    got = tabulate([*scalars, *(f"({text}).{c}" for text in vectors + cross for c in "xyzw"[:n])], columns)
    for k in range(40):
        a, b, c = v[k, :, :n].astype(np.float64)
        want = _geometry(a, b, c) + ([*np.cross(a, b)] if cross else [])
        np.testing.assert_allclose(got[:, k], want, rtol=2e-5 if type_ == "float" else 2e-2, atol=1e-6 if type_ == "float" else 1.2e-2, err_msg=str(k))


def test_total_reflection_bends_to_nothing():
    assert tabulate(["refract(float2(1, 0), float2(0.1, 0), 2.0f).x"], {"x": np.ones(1, np.float32)})[0, 0] == 0


@pytest.mark.parametrize(("columns", "rows"), list(itertools.product((2, 3, 4), repeat=2)))
def test_matrices(columns, rows):
    a, b = RNG.integers(-5, 6, (2, columns, rows)).astype(np.float32)  # column by column, as Metal
    v, w = RNG.integers(-5, 6, 4).astype(np.float32), RNG.integers(-5, 6, (rows, 4)).astype(np.float32)
    square = RNG.integers(-3, 4, (4, 4)).astype(np.float32)
    c = np.zeros((9, 16), np.float32)
    name, turned = f"float{columns}x{rows}", f"float{rows}x{columns}"
    lists = [", ".join(f"{p}[{k}]" for k in range(columns * rows)) for p in "ab"]
    vectors = [f"vec<float, {n}>({', '.join(f'c[{k}]' for k in range(n))})" for n in (columns, rows)]
    other = ", ".join(f"vec<float, {rows}>({', '.join(f'd[{i * rows + k}]' for k in range(rows))})" for i in range(4)) if rows > 1 else ""
    stores = [f"for (int i = 0; i < {columns}; i++) for (int k = 0; k < {rows}; k++) f[{16 * at} + i * {rows} + k] = ({e})[i][k];" for at, e in enumerate(["x + y", "x - y", "-x", "2.0f * x", "x / 2.0f"])]
    body = f"""if (i) return; {name} x = {name}({lists[0]}), y = {name}({lists[1]});
    {' '.join(stores).replace('int i = 0; i <', 'int j = 0; j <').replace('i++', 'j++').replace('+ i *', '+ j *').replace('[i]', '[j]')}
    {turned} t = transpose(x); for (int j = 0; j < {rows}; j++) for (int k = 0; k < {columns}; k++) f[80 + j * {columns} + k] = t[j][k];
    vec<float, {rows}> p = x * {vectors[0]}; for (int k = 0; k < {rows}; k++) f[96 + k] = p[k];
    vec<float, {columns}> q = {vectors[1]} * x; for (int k = 0; k < {columns}; k++) f[100 + k] = q[k];
    matrix<float, 4, {rows}> o = matrix<float, 4, {rows}>({other}); matrix<float, 4, {columns}> z = transpose(x) * o;
    for (int j = 0; j < 4; j++) for (int k = 0; k < {columns}; k++) f[112 + j * {columns} + k] = z[j][k];
    f[128] = determinant(float2x2(e[0], e[1], e[4], e[5])); f[129] = determinant(float3x3(e[0], e[1], e[2], e[4], e[5], e[6], e[8], e[9], e[10]));
    f[130] = determinant(float4x4({', '.join(f'e[{k}]' for k in range(16))})); {name} g = {name}(3.0f); f[131] = g[1][1]; f[132] = g[1][0]; f[133] = x == y; f[134] = x != y; f[135] = x == x;"""
    run(body, a, b, v, np.ascontiguousarray(w.T), square, c)
    size = columns * rows
    for row, want in zip(c, [a + b, a - b, -a, 2 * a, a / 2, a.T], strict=False):
        np.testing.assert_array_equal(row[:size], np.ravel(want))
    np.testing.assert_array_equal(c[6][:rows], a.T @ v[:columns])
    np.testing.assert_array_equal(c[6][4 : 4 + columns], a @ v[:rows])
    np.testing.assert_array_equal(c[7][: 4 * columns], np.ravel((a @ w).T))
    exact = square.astype(np.float64)
    np.testing.assert_allclose(c[8][:8], [*(np.linalg.det(exact[:n, :n]) for n in (2, 3, 4)), 3, 0, (a == b).all(), (a != b).any(), 1], rtol=1e-5, atol=1e-5)


C_OPERATORS = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": lambda x, y: np.trunc(x / y).astype(np.int32), "%": np.fmod, "&": np.bitwise_and, "|": np.bitwise_or,
    "^": np.bitwise_xor, "<<": np.left_shift, ">>": np.right_shift, "<": np.less, ">": np.greater, "<=": np.less_equal, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


@pytest.mark.parametrize("n", [2, 3, 4])
def test_operators_of_vectors(n):
    """Every operator between vectors, packed vectors and numbers, and in place; each component has numbers of its own."""
    found, functions = [], ["template <typename V> constexpr bool same(V a, V b) { bool r = true; for (int i = 0; i < vec_elements<V>::value; i++) r = r && a[i] == b[i]; return r; }"]
    for seed in range(3):
        x, y = RNG.integers(-3, 6, n).astype(np.int32), RNG.integers(1, 5, n).astype(np.int32)
        x[seed % n] = y[seed % n]
        b = ", ".join(map(str, y))
        for number, (op, of) in enumerate(C_OPERATORS.items()):
            x = np.abs(x) if op == "<<" else x  # of negative numbers the compiler refuses it as a constant
            a = ", ".join(map(str, x))
            is_compare = op[0] in "=!" or op in ("<", ">", "<=", ">=")
            made = f"{'bool' if is_compare else 'int'}{n}"
            shown = {k: f"{made}({', '.join(str(v).lower() for v in np.broadcast_to(r, n).tolist())})" for k, r in {"vv": of(x, y), "vs": of(x, y[0]), "sv": of(x[0], y)}.items()}
            for left, right in itertools.product((f"int{n}", f"packed_int{n}"), repeat=2):
                found.append(f"same<{made}>({left}({a}) {op} {right}({b}), {shown['vv']})")
            for kind in (f"int{n}", f"packed_int{n}"):
                found += [f"same<{made}>({kind}({a}) {op} {y[0]}, {shown['vs']})", f"same<{made}>({x[0]} {op} {kind}({b}), {shown['sv']})"]
                if not is_compare:
                    functions += [f"constexpr int{n} assign_{kind}_{number}({kind} a, int{n} b) {{ a {op}= b; return a; }}"] * (seed == 0)
                    found.append(f"same(assign_{kind}_{number}({kind}({a}), int{n}({b})), {shown['vv']})")
        whole = {"-x": -x, "~x": ~x, "+x": x, "!(x > 0)": x <= 0, "x > 0 && x < 2": (x > 0) & (x < 2), "x < 0 || x > 1": (x < 0) | (x > 1)}
        steps = {"x++": x, "++x": x + 1, "x--": x, "--x": x - 1, "(x++, x)": x + 1, "(x--, x)": x - 1}
        for number, (text, want) in enumerate((whole | steps).items()):
            made = f"{'bool' if want.dtype == bool else 'int'}{n}"
            functions += [f"constexpr {made} step_{number}(int{n} x) {{ return {text}; }}"] * (seed == 0)
            found.append(f"same<{made}>(step_{number}(int{n}({a})), {made}({', '.join(str(v).lower() for v in want.tolist())}))")
    holds(found, "\n".join(functions))


def test_components_by_name():
    """Each name of components says where they stand, in both alphabets, and can be written where no component is named twice."""
    text = (toolchain.INCLUDE / "eas_msl" / "swizzle.h").read_text()
    for n in (2, 3, 4):
        table = re.search(rf"#define EAS_SWIZZLES_{n} ((?:.*\\\n)*.*)", text)[1]
        rows = re.findall(r"EAS_R([DOW])(\d)\(([^)]*)\)", table)
        names = [r[2].replace(" ", "").split(",") for r in rows]
        assert sorted(tuple(r[: len(r) // 2]) for r in names) == sorted(p for k in (1, 2, 3, 4) for p in itertools.product("xyzw"[:n], repeat=k))
        for (kind, count, _), name in zip(rows, names, strict=True):
            first, second = name[: int(count)], name[int(count) :]
            assert second == [dict(zip("xyzw", "rgba", strict=True))[c] for c in first]
            assert kind == ("D" if count == "1" else "W" if len(set(first)) == int(count) else "O")
    numbers = {"wxzy": 4132, "abgr": 4321, "wzx": 431, "bga": 324, "wy": 42, "zz": 33, "yyw": 224, "xwwz": 1443, "w": 4, "g": 2}
    holds(
        [*(f"code(char4(1, 2, 3, 4).{name}) == {number}" for name, number in numbers.items()), *(f"written({k}) == {number}" for k, number in enumerate((9278, 8972, 8792, 1239)))],
        """constexpr int code(char v) { return v; }
template <int N> constexpr int code(vec<char, N> v) { int r = 0; for (int i = 0; i < N; i++) r = r * 10 + v[i]; return r; }
constexpr int written(int k) { char4 v(1, 2, 3, 4); if (k == 0) v.zwx = char3(7, 8, 9); if (k == 1) v.yzxw = char4(9, 7, 8, 2); if (k == 2) v.rb = char2(8, 9), v.yz = char2(7, 9), v.a = 2; if (k == 3) v.w = 9; return code(v); }""",
    )


def _exact(x):
    return "INFINITY" if x == math.inf else f"{float(x).hex()}f"


def test_limits_and_constants():
    names = {"char": ("SCHAR", "int8"), "uchar": ("UCHAR", "uint8"), "short": ("SHRT", "int16"), "ushort": ("USHRT", "uint16"), "int": ("INT", "int32"), "uint": ("UINT", "uint32"), "long": ("LONG", "int64"), "ulong": ("ULONG", "uint64")}
    found = []
    for type_, (macro, dtype) in names.items():
        info, limits = np.iinfo(dtype), f"numeric_limits<{type_}>"
        low, high = f"{type_}({info.min + bool(info.min)}{'ul' * (not info.min)}) - {int(bool(info.min))}", f"{type_}({info.max}{'ul' * (not info.min)})"
        found += [f"{limits}::min() == {low}", f"{limits}::lowest() == {low}", f"{limits}::max() == {high}", f"{macro}_MAX == {high}", *([f"{macro}_MIN == {low}"] if info.min else [])]
        digits = info.bits - bool(info.min)
        found += [f"{limits}::digits == {digits}", f"{limits}::digits10 == {int(digits * math.log10(2))}", f"{limits}::is_signed == {str(bool(info.min)).lower()}", f"{limits}::is_integer"]
    floats = {"float": (23, 8, 6, 38, "FLT"), "half": (10, 5, 3, 4, "HALF"), "bfloat": (7, 8, 2, 38, "")}
    for type_, (mantissa, exponent, digits10, exponent10, macro) in floats.items():
        limits, most = f"numeric_limits<{type_}>", 1 << (exponent - 1)
        numbers = {"max": (2 - 2.0**-mantissa) * 2.0 ** (most - 1), "min": 2.0 ** (2 - most), "epsilon": 2.0**-mantissa, "denorm_min": 2.0 ** (2 - most - mantissa), "infinity": math.inf, "round_error": 0.5}
        numbers["lowest"] = -numbers["max"]
        found += [f"float({limits}::{name}()) == {_exact(value)}" for name, value in numbers.items()] + [f"float({limits}::quiet_NaN()) != float({limits}::quiet_NaN())"]
        found += [f"{limits}::digits == {mantissa + 1}", f"{limits}::digits10 == {digits10}", f"{limits}::max_exponent == {most}", f"{limits}::min_exponent == {3 - most}", f"!{limits}::is_integer", f"{limits}::is_signed"]
        if macro:
            found += [f"float({macro}_{name}) == {_exact(numbers[of])}" for name, of in (("MAX", "max"), ("MIN", "min"), ("EPSILON", "epsilon"))]
            whole = {"DIG": digits10, "MANT_DIG": mantissa + 1, "MAX_EXP": most, "MIN_EXP": 3 - most, "MAX_10_EXP": exponent10, "MIN_10_EXP": -exponent10 + (macro == "FLT"), "RADIX": 2}
            found += [f"{macro}_{name} == {value}" for name, value in whole.items()]
    constants = {"E": math.e, "LOG2E": math.log2(math.e), "LOG10E": math.log10(math.e), "LN2": math.log(2), "LN10": math.log(10), "PI": math.pi, "PI_2": math.pi / 2, "PI_4": math.pi / 4}
    constants |= {"1_PI": 1 / math.pi, "2_PI": 2 / math.pi, "2_SQRTPI": 2 / math.sqrt(math.pi), "SQRT2": math.sqrt(2), "SQRT1_2": math.sqrt(0.5)}
    for name, value in constants.items():
        found += [f"M_{name}_F == {_exact(np.float32(value))}", f"float(M_{name}_H) == {_exact(np.float16(np.float32(value)))}"]
    found += ["INFINITY > MAXFLOAT", "NAN != NAN", f"MAXFLOAT == {_exact(np.finfo(np.float32).max)}", "HUGE_VALF == INFINITY", "float(HUGE_VALH) == INFINITY", "float(MAXHALF) == 65504.0f", "CHAR_BIT == 8"]
    holds(found)


def test_pack_and_unpack():
    x = np.array([0, 0.25, 0.5, 1, -1, -0.3, 2, -3, 0.501, 0.0039, 0.002, -0.998, math.nan], np.float32)
    v = np.array([RNG.permutation(x)[:4] for _ in range(60)])
    columns = {f"x{k}": np.ascontiguousarray(v[:, k]) for k in range(4)} | {"n": RNG.integers(0, 1 << 32, 60, dtype=np.uint32)}
    columns["n"][:4] = 0, 0xFFFFFFFF, 0x80808080, 0x80008001
    unsigned, signed = (lambda c, top: np.rint(np.fmin(np.fmax(c, 0), 1) * top)), (lambda c, top: np.rint(np.fmin(np.fmax(c, -1), 1) * top))

    def packed(columns_, widths, convert, tops):
        at, total = 0, np.zeros(60, np.uint64)
        for c, width, top in zip(columns_, widths, tops, strict=True):
            total |= (convert(c.astype(np.float32), np.float32(top)).astype(np.int64) & ((1 << width) - 1)).astype(np.uint64) << np.uint64(at)
            at += width
        return total

    f = [columns[f"x{k}"] for k in range(4)]
    h = [c.astype(np.float16) for c in f]
    forms = {"unorm4x8": (4, [8] * 4, unsigned, [255] * 4), "snorm4x8": (4, [8] * 4, signed, [127] * 4), "unorm2x16": (2, [16] * 2, unsigned, [65535] * 2), "snorm2x16": (2, [16] * 2, signed, [32767] * 2)}
    cases = {}
    for name, (count, widths, convert, tops) in forms.items():
        elements = ", ".join(f"x{k}" for k in range(count))
        for type_, of in (("float", f), ("half", h)):
            cases[f"pack_{type_}_to_{name}({type_}{count}({elements}))"] = packed(of[:count], widths, convert, tops)
    cases["pack_float_to_unorm10a2(float4(x0, x1, x2, x3))"] = packed(f, [10, 10, 10, 2], unsigned, [1023, 1023, 1023, 3])
    cases["uint(pack_float_to_unorm565(float3(x0, x1, x2)))"] = packed(f[2::-1], [5, 6, 5], unsigned, [31, 63, 31])
    bits = {k: v for k, v in columns.items() if not np.isnan(v.astype(np.float64)).any()} and columns
    is_number = ~np.isnan(v).any(1)
    for row, (text, want) in zip(tabulate(list(cases), bits, "uint"), cases.items(), strict=True):
        np.testing.assert_array_equal(row[is_number], want[is_number], text)
    n, unpacked = columns["n"], {}
    parts = {"unorm4x8": [(8 * k, 8, 255) for k in range(4)], "snorm4x8": [(8 * k, 8, -127) for k in range(4)], "unorm2x16": [(0, 16, 65535), (16, 16, 65535)], "snorm2x16": [(0, 16, -32767), (16, 16, -32767)]}
    parts |= {"unorm10a2": [(0, 10, 1023), (10, 10, 1023), (20, 10, 1023), (30, 2, 3)], "unorm565": [(11, 5, 31), (5, 6, 63), (0, 5, 31)]}
    for name, fields in parts.items():
        for type_ in ("float", "half") if name in forms else ("float",):
            for c, (at, width, top) in zip("xyzw", fields, strict=False):
                field = (n.astype(np.int64) >> at) & ((1 << width) - 1)
                field = np.where(field >> (width - 1), field - (1 << width), field) if top < 0 else field
                unpacked[f"unpack_{name}_to_{type_}({'ushort(n)' if name == 'unorm565' else 'n'}).{c}"] = np.fmax(field / abs(top), -1)
    for row, (text, want) in zip(tabulate(list(unpacked), {"n": n}), unpacked.items(), strict=True):
        np.testing.assert_allclose(row, want, rtol=1e-3 if "half" in text else 3e-7, atol=1e-7, err_msg=text)


# --- simdgroups and atomics -----------------------------------------------------------------------


def _model(kind, x, lane, d, has):
    """What a lane gets; `has` says which lanes are there."""
    scope, _, name = kind.partition("_")
    size = 32 if scope == "simd" else 4
    group, at = lane & ~(size - 1), lane & (size - 1)

    def pick(source, own=None):
        return x[source] if source < 32 and has[source] else x[lane] if own is None else own

    match name:
        case "shuffle" | "broadcast":
            return pick(group + (d & 3) if size == 4 else d)
        case "shuffle_xor":
            return pick(lane ^ (d & 3) if size == 4 else lane ^ d)
        case "shuffle_up":
            return pick(lane - d) if at >= d else x[lane]
        case "shuffle_down":
            return pick(lane + d) if at + d < size else x[lane]
        case "shuffle_rotate_up":
            return pick(group + ((at - d) & (size - 1)))
        case "shuffle_rotate_down":
            return pick(group + ((at + d) & (size - 1)))
    _, _, modulo = name.rpartition("_")
    modulo, way = int(modulo), -1 if "_up_" in name else 1
    group, at = lane & ~(modulo - 1), lane & (modulo - 1)
    source = at + way * d
    if 0 <= source < modulo:
        return pick(group + source)
    source = group + (source & (modulo - 1))
    return 1000 + x[source] if has[source] else 1000 + x[lane]


MOVES = [f"{s}_{m}" for s in ("simd", "quad") for m in ("shuffle", "broadcast", "shuffle_xor", "shuffle_up", "shuffle_down", "shuffle_rotate_up", "shuffle_rotate_down")]
FILLS = [f"{s}_shuffle_and_fill_{way}_{modulo}" for s, sizes in (("simd", (32, 16, 8, 4, 2)), ("quad", (4, 2))) for way in ("up", "down") for modulo in sizes]


@pytest.mark.parametrize("mask", [0xFFFFFFFF, 0x0F0F3351, 0xFFFEFFFF])
def test_lanes_move_by_every_distance(mask):
    x = RNG.permutation(900)[:32].astype(np.int32)
    has = [bool(mask >> k & 1) for k in range(32)]
    kinds, got = MOVES + FILLS, np.full((len(MOVES + FILLS), 32, 32), -7, np.int32)
    calls = [f"{k}(x, d)" for k in MOVES] + [f"{k.rpartition('_')[0]}(x, x + 1000, d, ushort({k.rpartition('_')[2]}))" for k in FILLS]
    stores = "".join(f"b[{1024 * k} + d * 32 + i] = {text};" for k, text in enumerate(calls))
    run(f"int x = a[i]; if ({mask}u >> i & 1) for (ushort d = 0; d < 32; d++) {{ {stores} }}", x, got)
    for k, kind in enumerate(kinds):
        size = int(kind.rpartition("_")[2]) if kind in FILLS else 32 if kind.startswith("simd") else 4
        for d in range(size):
            want = [int(_model(kind, x, lane, d, has)) if has[lane] else -7 for lane in range(32)]
            assert got[k, d].tolist() == want, (kind, d)


def test_shifts_stop_at_the_last_thread():
    x, b = np.arange(100, 120, dtype=np.int32), np.zeros((4, 20), np.int32)
    run("b[i] = simd_shuffle_down(a[i], ushort(3)); b[20 + i] = simd_shuffle_up(a[i], ushort(3)); b[40 + i] = quad_shuffle_down(a[i], ushort(1)); b[60 + i] = simd_sum(a[i]);", x, b, threads=20)
    at = np.arange(20)
    np.testing.assert_array_equal(b, [np.where(at + 3 < 20, x + 3, x), np.where(at >= 3, x - 3, x), np.where(at % 4 < 3, x + 1, x), np.full(20, x.sum())])


def test_votes():
    b = np.zeros((9, 32), np.int32)
    texts = ["simd_ballot(true).all()", "simd_ballot(lane != 31).all()", "simd_ballot(lane == 31).any()", "simd_ballot(false).any()"]
    texts += ["quad_ballot(true).all()", "quad_ballot((lane & 3) != 3).all()", "quad_ballot(lane == 6).any()", "int(quad_vote::vote_t(quad_active_threads_mask()))", "int(quad_vote::vote_t(quad_ballot(lane % 3 == 0)))"]
    run("".join(f"a[{32 * k} + i] = {text};" for k, text in enumerate(texts)), b)
    ballots = [sum((q * 4 + k) % 3 == 0 and 1 << k for k in range(4)) for q in range(8)]
    np.testing.assert_array_equal(b, [np.broadcast_to(v, 32) for v in (1, 0, 1, 0, 1, 0, np.arange(32) // 4 == 1, 15, np.repeat(ballots, 4))])


ATOMIC = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "min": min, "max": max, "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "exchange": lambda a, b: b}


@pytest.mark.parametrize("dtype", ["int32", "uint32", "uint64", "float32"])
@pytest.mark.parametrize("space", ["device", "threadgroup"])
@pytest.mark.left_out(lambda dtype, space: dtype == "float32" and space == "threadgroup")
def test_atomic_functions(dtype, space):
    """Each gives what was there and leaves what it should, at the edges; memory that a number is compared with changes only if it is equal."""
    names = [n for n in ATOMIC if dtype != "float32" or n in ("add", "sub", "exchange")]
    pairs = list(itertools.product(_edges(dtype) if dtype != "float32" else [0.0, -1.5, 2.25, 1e10], repeat=2))
    a, b = (np.array([p[k] for p in pairs], dtype) for k in (0, 1))
    cells, olds = np.stack([a] * (len(names) + 1)), np.zeros((len(names) + 1, len(a)), dtype)
    type_, count = METAL[dtype], len(a)
    local = f"threadgroup atomic<{type_}> t[{count}];" if space == "threadgroup" else ""
    body = "".join(_atomic_step(name, k * count, type_, space) for k, name in enumerate(names))
    last = len(names) * count
    same = f"""{type_} seen = b[i] + {type_}(i % 2); device atomic<{type_}>* p = (device atomic<{type_}>*)(c + {last} + i);
    bool done = atomic_compare_exchange_weak_explicit(p, &seen, b[i], memory_order_relaxed, memory_order_relaxed); d[{last} + i] = {type_}(done) + seen;"""
    run(f"{local} {body} {same.replace('b[i] + ', 'a[i] + ')}", a, b, cells, olds, threads=count)
    bits = 0 if dtype == "float32" else np.dtype(dtype).itemsize * 8
    for k, name in enumerate(names):
        want = [ATOMIC[name](x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        want = np.array([w % (1 << bits) for w in want], f"u{bits // 8}").view(dtype) if bits else np.array(want, dtype)
        np.testing.assert_array_equal(cells[k], want, name)
        np.testing.assert_array_equal(olds[k], a, name)
    is_equal = np.arange(count) % 2 == 0 if bits else np.array([x + np.float32(i % 2) == x for i, x in enumerate(a)])
    np.testing.assert_array_equal(cells[-1], np.where(is_equal, b, a))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(olds[-1], a + is_equal.astype(dtype))


def _atomic_step(name, at, type_, space):
    call = f"atomic_{'fetch_' * (name != 'exchange')}{name}_explicit"
    if space == "device":
        return f"d[{at} + i] = {call}((device atomic<{type_}>*)(c + {at} + i), b[i], memory_order_relaxed);"
    return f"""atomic_store_explicit(t + i, a[i], memory_order_relaxed); d[{at} + i] = {call}(t + i, b[i], memory_order_relaxed);
    c[{at} + i] = atomic_load_explicit(t + i, memory_order_relaxed);"""


# --- conversions and builtins ---------------------------------------------------------------------


def test_vectors_convert_component_by_component():
    """Between all types, of vectors and packed ones, alone and out of parts."""
    types = [*METAL.values(), "bfloat"]
    number = {"half": 2.5, "float": 2.5, "bfloat": 2.5}
    found = []
    for source, to in itertools.product(types, repeat=2):
        want = number.get(source, 2) if to in number else 2
        packed = "packed_" if source != to and (types.index(source) + types.index(to)) % 2 else ""
        found.append(f"float(vec<{to}, 3>({packed}{source}3({source}(1), {source}({number.get(source, 2)}), {source}(7))).y) == {want}")
        found.append(f"float(vec<{to}, 4>({source}(9), {source}2({source}(3), {source}({number.get(source, 2)})), {source}(8)).z) == {want}")
    found += ["float4(1, float2(2, 3), 4).z == 3", "float4(float3(1, 2, 3), 4).w == 4", "float4(1, float3(2, 3, 4)).w == 4", "float4(float2(1, 2), float2(3, 4)).z == 3", "int3(7).z == 7"]
    found += ["uchar4(float4(1, 2, 3, 4)).w == 4", "as_type<uint>(1.0f) == 0x3f800000", "as_type<short>(half(-2)) == short(0xc000)", "as_type<float>(0xbf800000u) == -1.0f"]
    holds(found)


def test_arrays():
    body = """array<int, 5> v; v.fill(3); v[1] = 7; v.back() = 9; v.front() = 1; int sum = 0; for (int k = 0; k < int(v.size()); k++) sum += v[k];
    if (i == 0) { a[0] = sum; a[1] = v.size(); a[2] = v.empty(); a[3] = *v.begin(); a[4] = *(v.end() - 1); a[5] = v.data()[1]; a[6] = v.at(2); a[7] = v.end() - v.begin(); }"""
    a = np.zeros(8, np.int32)
    run(body, a)
    assert a.tolist() == [1 + 7 + 3 + 3 + 9, 5, 0, 1, 9, 7, 3, 5]


def test_traits():
    numbers = {"char": "is", "uchar": "iu", "int": "is", "uint": "iu", "long": "is", "ulong": "iu", "bool": "iu", "float": "fs", "half": "fs", "bfloat": "fs", "float4": "vfs", "uint2": "viu"}
    found = []
    for type_, what in numbers.items():
        scalar = "v" not in what
        truths = {"is_integral": "i" in what, "is_floating_point": "f" in what, "is_arithmetic": True, "is_scalar": scalar, "is_vector": not scalar, "is_void": False, "is_pointer": False, "is_const": False}
        truths |= {"is_signed": "s" in what, "is_unsigned": "u" in what, "is_fundamental": scalar} if scalar else {}
        found += [f"{'' if truth else '!'}{name}_v<{type_}>" for name, truth in truths.items()]
    found += ["is_void_v<void>", "is_const_v<const int>", "is_same_v<remove_cv_t<const volatile int>, int>", "is_same_v<make_unsigned_t<short>, ushort>"]
    found += ["is_same_v<make_signed_t<uchar>, signed char>", "is_same_v<conditional_t<true, int, float>, int>", "is_same_v<conditional_t<false, int, float>, float>", "is_same_v<common_type_t<int, float>, float>"]
    found += ["is_convertible_v<int, float>", "!is_convertible_v<float4, int>", "is_same_v<remove_extent_t<int[3]>, int>", "is_same_v<add_const_t<int>, const int>", "vec_elements<half3>::value == 3"]
    holds(found)


def test_internal_names_are_the_functions():
    """What public Metal calls by its internal name."""
    x = RNG.uniform(0.1, 0.9, 32).astype(np.float32)
    names = {1: [n for n in (*EXACT, *CLOSE) if ARITY.get(n, 1) == 1 and not n.startswith(("is", "signbit", "ilogb", "saturate", "sign"))]}
    names[2] = ["atan2", "copysign", "fdim", "fmax", "fmin", "fmod", "pow", "powr", "max", "min", "divide", "nextafter"]
    names[3] = ["fmax3", "fmin3", "fmedian3", "max3", "min3", "median3"]
    texts = [(f"{n}({', '.join('xyz'[:k])}", ", false)") for k, of in names.items() for n in of]
    lanes = ["simd_sum(x)", "simd_product(x)", "simd_min(x)", "simd_max(x)", "simd_prefix_inclusive_sum(x)", "simd_prefix_exclusive_sum(x)", "simd_prefix_inclusive_product(x)", "simd_prefix_exclusive_product(x)"]
    lanes += ["simd_broadcast_first(x)", *(f"simd_{n}(x, ushort(5))" for n in ("broadcast", "shuffle", "shuffle_xor", "shuffle_up", "shuffle_down", "shuffle_rotate_up", "shuffle_rotate_down"))]
    lanes += ["simd_shuffle_and_fill_up(x, y, ushort(3), ushort(8))", "simd_shuffle_and_fill_down(x, y, ushort(3), ushort(8))", "float(simd_and(int(x * 99)))", "float(simd_or(int(x * 99)))", "float(simd_xor(int(x * 99)))"]
    plain = [a + ")" for a, _ in texts] + lanes
    internal = [f"__metal_{a}{b}" for a, b in texts] + [t.replace("simd_", "__metal_simd_", 1) for t in lanes]
    got = tabulate(plain + internal, {"x": x, "y": x[::-1].copy(), "z": np.roll(x, 7)}, threads=32)
    for text, a, b in zip(plain, got[: len(plain)], got[len(plain) :], strict=True):
        np.testing.assert_array_equal(a, b, text)
