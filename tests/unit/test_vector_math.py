"""Vector functions against wider references: ulp bounds of the op rows, special values, targets.

As a script it prints the measured maxima: `python tests/unit/test_vector_math.py`.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import math
import re
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from eas import ops
from eas.base import dtypes
from eas.codegen.llvm.math import functions as vm
from eas.testing import ulp_distance

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()

NP: dict[str, Any] = {"f32": np.float32, "f64": np.float64}
BITS: dict[str, Any] = {"f32": np.uint32, "f64": np.uint64}
LANES = {"f32": 8, "f64": 4}
SAMPLES = {"f32": 1 << 21, "f64": 1 << 15}
HAS_LONG_DOUBLE = np.finfo(np.longdouble).nmant > 60
CASES = [(name, dtype) for name in vm.SUPPORTED for dtype in vm.SUPPORTED[name]]

LOOP = """
define void @run_{name}_{dtype}_{lanes}(i64 %n, ptr %xs, ptr %ys, ptr %out) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %px = getelementptr {elem}, ptr %xs, i64 %i
  %py = getelementptr {elem}, ptr %ys, i64 %i
  %po = getelementptr {elem}, ptr %out, i64 %i
  %x = load {ty}, ptr %px, align 4
  %y = load {ty}, ptr %py, align 4
  %r = call {ty} {symbol}({args})
  store {ty} %r, ptr %po, align 4
  %next = add i64 %i, {lanes}
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


def loop_text(name, dtype, lanes):
    """`run_<name>_<dtype>_<lanes>(n, xs, ys, out)`, for n a multiple of `lanes`."""
    elem = vm.ELEM[dtype]
    ty = elem if lanes == 1 else f"<{lanes} x {elem}>"
    args = f"{ty} %x, {ty} %y" if name in vm.TWO_OPERANDS else f"{ty} %x"
    return LOOP.format(name=name, dtype=dtype, lanes=lanes, elem=elem, ty=ty, args=args, symbol=vm.callee(name, dtype, lanes))


def module_text(requests):
    parts = [vm.declarations(requests)]
    for request in requests:
        parts += [vm.function(*request), loop_text(*request)]
    return "\n".join(parts)


def optimised(text, machine):
    module = llvm.parse_assembly(text)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    return module


def host_machine():
    features = llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=3, jit=True)


@functools.cache
def engine_of(name, dtype, lanes):
    machine = host_machine()
    engine = llvm.create_mcjit_compiler(optimised(module_text([(name, dtype, lanes)]), machine), machine)
    engine.finalize_object()
    return engine


def run(name, dtype, lanes, *operands):
    """The function of arrays, padded to whole vectors."""
    size = operands[0].size
    padded = [np.ascontiguousarray(np.resize(v, -(-size // lanes) * lanes)) for v in operands]
    assert all(v.dtype == NP[dtype] for v in padded)
    out = np.empty_like(padded[0])
    address = engine_of(name, dtype, lanes).get_function_address(f"run_{name}_{dtype}_{lanes}")
    call = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * 3)(address)
    call(out.size, padded[0].ctypes.data, padded[-1].ctypes.data, out.ctypes.data)
    return out[:size]


# --- references -------------------------------------------------------------------------------


def _from_libm(name):
    """libm's long double function of a double, rounded once."""
    fn = getattr(ctypes.CDLL(ctypes.util.find_library("m")), f"{name}l")
    fn.restype, fn.argtypes = ctypes.c_longdouble, [ctypes.c_longdouble]
    each = np.frompyfunc(fn, 1, 1)
    return lambda x: np.asarray(each(np.asarray(x, np.float64)), np.float64)


def _sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, np.ones_like(e)) / (1 + e)


REFERENCES = {
    "exp_of_negative": np.exp, "exp2_of_negative": np.exp2, "exp10": lambda x: np.power(x.dtype.type(10), x), "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": _sigmoid,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "pow": np.power, "atan2": np.arctan2, "erf": _from_libm("erf"), "erfc": _from_libm("erfc"), "lgamma": _from_libm("lgamma"),
}  # fmt: skip
SLOW_REFERENCES = ("erf", "erfc", "lgamma")


@np.errstate(all="ignore")
def reference(name, dtype, *operands):
    """Computed wider than `dtype` and rounded once."""
    wide = np.float64 if dtype == "f32" else np.longdouble
    fn = REFERENCES[name] if name in REFERENCES else getattr(np, name)
    return np.asarray(fn(*(v.astype(wide) for v in operands))).astype(NP[dtype])


# --- operands ---------------------------------------------------------------------------------

RANGES = ((-1, 1), (-4, 4), (-20, 20), (-110, 110), (0.25, 4), (-1e-3, 1e-3), (0.999, 1.001), (-1e5, 1e5), (-750, 750))


def _special(dtype):
    info = np.finfo(NP[dtype])
    sizes = [0, 0.5, 1, 1.5, 2, 2.5, 3, 100, 1e5, 1e10, 1e-30, 16777215, 16777217, 1 / 3, math.pi, 88.72284, 103.97, np.inf]
    sizes += [float(v) for v in (info.max, info.tiny, info.smallest_subnormal, info.tiny * 0.3, info.eps, 1 - info.epsneg)]
    values = np.array(sizes).astype(NP[dtype])
    return np.concatenate([values, -values, [NP[dtype](np.nan)]])


def _of_domain(name, x):
    return np.copysign(x, x.dtype.type(-1)) if name.endswith("_of_negative") else x


def operands(name, dtype, samples):
    """All bit patterns at random, ranges where functions are interesting, multiples of pi/2, specials."""
    rng = np.random.default_rng(len(name))
    dense = [rng.uniform(low, high, samples // 32).astype(NP[dtype]) for low, high in RANGES]
    count = min(samples // 8, 1 << 16)
    turns = (np.arange(count) * (math.pi / 2)).astype(NP[dtype])
    bits = rng.integers(0, np.iinfo(BITS[dtype]).max, samples, BITS[dtype], endpoint=True)
    x = np.concatenate([bits.view(NP[dtype]), *dense, turns, -turns])
    if name not in vm.TWO_OPERANDS:
        return (_of_domain(name, np.concatenate([x, _special(dtype)])),)
    grid = np.meshgrid(_special(dtype), _special(dtype))
    return tuple(np.concatenate([v, g.ravel()]) for v, g in zip((x, rng.permutation(x)), grid, strict=True))


@np.errstate(invalid="ignore")  # signalling NaNs are among the operands
def measured_ulps(name, dtype):
    samples = SAMPLES[dtype] // (8 if name in SLOW_REFERENCES else 4 if name in vm.TWO_OPERANDS else 1)
    args = operands(name, dtype, samples)
    got, want = run(name, dtype, LANES[dtype], *args), reference(name, dtype, *args)
    return float(ulp_distance(got, want, dtypes.parse(dtype)).max())


# --- tests ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_distance_stays_within_the_op_row(name, dtype):
    bound = ops.TABLE[name].accuracy.bound(dtypes.parse(dtype))
    slack = 0 if dtype == "f32" or HAS_LONG_DOUBLE or bound == 0 else 1  # the reference itself is rounded twice
    worst = measured_ulps(name, dtype)
    assert worst <= bound + slack
    if dtype not in vm.SCALARISED.get(name, ()):
        assert worst <= vm.MEASURED_ULPS[name][dtype] + slack


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_special_values_and_signs_of_zero_in_every_width(name, dtype):
    special = _of_domain(name, _special(dtype))
    args = (special,)
    if name in vm.TWO_OPERANDS:
        args = tuple(v.ravel().copy() for v in np.meshgrid(special, special))
    want = reference(name, dtype, *args)
    one = run(name, dtype, 1, *args)
    for lanes in (1, 3, 4, 8, 16):
        got = run(name, dtype, lanes, *args)
        np.testing.assert_array_equal(got.view(BITS[dtype])[~np.isnan(want)], one.view(BITS[dtype])[~np.isnan(want)])
        for has in (np.isnan, np.isinf, lambda v: v == 0):
            np.testing.assert_array_equal(has(got), has(want))
        plain = (want == 0) | np.isinf(want)
        np.testing.assert_array_equal(np.signbit(got[plain]), np.signbit(want[plain]))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_exact_cases_are_exact(dtype):
    def f(name, *args):
        return run(name, dtype, 4, *(np.asarray(v, NP[dtype]) for v in args))

    top = 127 if dtype == "f32" else 1023
    whole = np.arange(-top - (22 if dtype == "f32" else 51), top + 1)
    powers = np.ldexp(NP[dtype](1), whole.astype(np.int32))
    np.testing.assert_array_equal(f("exp2", whole), powers)
    np.testing.assert_array_equal(f("log2", powers), whole)
    np.testing.assert_array_equal(f("pow", np.full(whole.size, 2.0), whole), powers)
    small = np.arange(-40, 41)
    np.testing.assert_array_equal(f("cbrt", small**3), small)
    for name in ("cos", "exp", "cosh", "exp10"):
        assert f(name, [0.0])[0] == 1


def test_saturating_functions_do_not_pass_one():
    x = np.linspace(-12, 12, 1 << 18).astype(np.float32)
    for name in ("tanh", "erf", "sin", "cos", "sigmoid"):
        assert np.abs(run(name, "f32", 8, x)).max() <= 1
    far = np.array([9.02, 20, 3e38, np.inf, -9.02, -20, -3e38, -np.inf], np.float32)
    for name in ("tanh", "erf"):
        np.testing.assert_array_equal(run(name, "f32", 8, far), np.sign(far))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_huge_angles_mixed_with_small_ones_reduce_per_lane(name):
    x = np.ldexp(np.linspace(1, 2, 1 << 12, endpoint=False, dtype=np.float32), np.arange(1 << 12, dtype=np.int32) % 128)
    distance = ulp_distance(run(name, "f32", 8, x), reference(name, "f32", x), dtypes.f32)
    assert distance.max() <= ops.TABLE[name].accuracy.bound(dtypes.f32)


FOREIGN = {
    "avx512": ("x86_64-unknown-linux-gnu", "skylake-avx512", "", {"f32": 16, "f64": 8}),
    "aarch64": ("aarch64-linux-gnu", "generic", "+neon", {"f32": 4, "f64": 2}),
}


@pytest.mark.parametrize("target", FOREIGN)
def test_other_targets_compile_without_library_calls(target):
    triple, cpu, features, lanes = FOREIGN[target]
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, opt=2)
    requests = [(name, dtype, lanes[dtype]) for name, dtype in CASES]
    text = f'target triple = "{triple}"\n' + module_text(requests)
    assembly = machine.emit_assembly(optimised(text, machine))
    called = set(re.findall(r"^\s+(?:callq?|bl|jmp|b)\s+\*?([A-Za-z_][\w.@]*)", assembly, re.MULTILINE))
    outside = {symbol.removesuffix("@PLT") for symbol in called if not symbol.startswith("eas_")}
    assert outside <= {*vm.SCALARISED, "sin", "cos", "tan"}
    assert ("zmm" if target == "avx512" else "v0.4s") in assembly


if __name__ == "__main__":
    for name in vm.SUPPORTED:
        row = ", ".join(f'"{dtype}": {measured_ulps(name, dtype):g}' for dtype in vm.SUPPORTED[name])
        print(f'    "{name}": {{{row}}},', flush=True)
