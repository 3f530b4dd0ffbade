"""Kernels of thousands of statements: no walk of the compiler needs Python's stack, and no work grows with their square."""

from __future__ import annotations

import ast
import re

import numpy as np
import pytest

import eas
from benchmarks.long_kernels import SHAPES, load
from eas import mk
from eas.base.errors import CompileError
from eas.base.trampoline import evaluate, every, reached
from eas.codegen.llvm import generate as llvm
from eas.codegen.llvm import outline, repeats
from eas.codegen.llvm import text as llvm_text
from eas.codegen.llvm.text import Reg, function
from eas.codegen.msl.text import Scope
from eas.frontend.syntax.jumps import straighten
from eas.frontend.syntax.nodes import HiddenNames
from eas.ir import inst
from eas.metal_sim import toolchain
from eas.runtime.native import jit
from eas.schedule.nest import partition as nests
from tests.unit.fixed_target import possible_levels

X = np.linspace(0, 1, 1 << 14, dtype=np.float32)
needs_sim = pytest.mark.skipif(toolchain.why_unavailable() is not None, reason=str(toolchain.why_unavailable()))


def _traced(shape, n, tmp_path):
    kernel = load(shape, n, tmp_path)
    return kernel.compile(X, np.zeros_like(X), 100, BLOCK=64)


def test_evaluate_needs_no_stack():
    def depth(n):
        return 0 if n == 0 else 1 + (yield n - 1)

    assert evaluate(depth, 100_000) == 100_000


def test_evaluate_defines_each_key_once():
    asked = []

    def fibonacci(n):
        asked.append(n)
        return n if n < 2 else sum((yield from every((n - 1, n - 2))))

    assert evaluate(fibonacci, 90) == 2880067194370816120
    assert len(asked) == 91


def test_reached_goes_depth_first_and_once():
    graph = {1: [2, 3], 2: [4], 3: [4], 4: [1]}
    assert list(reached([1], graph.__getitem__)) == [1, 2, 4, 3]


def test_places_of_few_codes_are_decoded_once():
    codes = [compile(f"x = {i}", "<code>", "exec") for i in range(20)]
    first = inst._positions(codes[0])
    for code in codes[1:]:
        inst._positions(code)
        assert inst._positions(codes[0]) is first
    assert len(inst._decoded) <= inst._MOST_DECODED
    assert inst._positions(codes[1]) == list(codes[1].co_positions())


@pytest.mark.parametrize("shape", ["chain", "where", "integers", "masks", "scalars", "threads", "in a loop"])
def test_chains_of_thousands_have_texts(shape, tmp_path):
    compiled = _traced(shape, 700, tmp_path)
    variant = compiled.variant()
    assert variant.llvm
    assert variant.msl


def test_pointers_that_come_far_have_variables(tmp_path):
    texts = [_traced("pointers", n, tmp_path).variant().msl for n in (60, 640, 2560)]
    assert "float * p" not in texts[0]
    assert texts[1].count("float * p") == 320 // 32
    assert max(map(len, texts[2].splitlines())) < 1000
    assert len(texts[2]) < 4.5 * len(texts[1])


@pytest.mark.parametrize("runtime", ["interp", "cpu", pytest.param("sim", marks=needs_sim)])
def test_pointers_that_come_far_point_to_the_same(runtime, tmp_path, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", runtime)
    y = np.zeros_like(X)
    load("pointers", 200, tmp_path)(X, y, 100, BLOCK=64, _grid=2)
    moved = [np.full(64, X[0], np.float64) * 100, np.full(64, X[1:101].sum(dtype=np.float64))]
    np.testing.assert_allclose(y[:100], (X[:128] + np.concatenate(moved))[:100], rtol=1e-5)


def _kernel_of(lines, tmp_path, monkeypatch):
    monkeypatch.setitem(SHAPES, "lines", lambda n: lines)
    return load("lines", abs(hash(tuple(lines))), tmp_path)


def _ran(lines, runtime, tmp_path, monkeypatch, *numbers):
    """y[0] after a run for each number."""
    monkeypatch.setenv("EAS_BACKEND", runtime)
    kernel, found = _kernel_of(lines, tmp_path, monkeypatch), []
    for n in numbers:
        y = np.zeros(2, np.float32)
        kernel(np.arange(1, 500, dtype=np.float32), y, n, BLOCK=1, _grid=1)
        found.append(y[0])
    return found


def _chain(n, test, body, end=()):
    return [line for j in range(n) for line in (f"{'elif' if j else 'if'} {test.format(j=j)}:", f"    {body.format(j=j)}")] + list(end)


RUNTIMES = ["interp", "cpu", pytest.param("sim", marks=needs_sim)]


@pytest.mark.parametrize("head", ["if", "elif"])
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_long_chains_of_branches_run(head, runtime, tmp_path, monkeypatch):
    lines = ["v = mk.load(x, 0)", "if n == 0:", "    v = v", *(line for j in range(1, 300) for line in (f"{head} n == {j}:", f"    v = v + {j}.0"))]
    assert _ran([*lines, "mk.store(y, 0, v)"], runtime, tmp_path, monkeypatch, 7, 0, 299, 300) == [8, 1, 300, 1]


def test_first_test_that_holds_decides(tmp_path, monkeypatch):
    lines = [*_chain(100, "n < 10 * {j}", "w = {j}.0", ["else:", "    w = -1.0"]), "mk.store(y, 0, w)"]
    assert _ran(lines, "cpu", tmp_path, monkeypatch, -5, 0, 9, 10, 985, 990) == [0, 1, 1, 2, 99, -1]


def test_tests_behind_one_that_holds_do_not_run(tmp_path, monkeypatch):
    """A load outside of the buffer would be refused."""
    monkeypatch.setenv("EAS_CHECK_BOUNDS", "1")
    tests = ["n < 3", *(f"mk.load(x, n + {j}) == {2 * j}.0" for j in range(80))]
    lines = ["w = 500.0", *(line for j, test in enumerate(tests) for line in (f"{'elif' if j else 'if'} {test}:", f"    w = {j}.0")), "mk.store(y, 0, w)"]
    assert _ran(lines, "cpu", tmp_path, monkeypatch, -(10**9), 10, 30, 400) == [0, 12, 32, 500]


def test_trace_time_tests_of_long_chains_choose_what_is_traced(tmp_path, monkeypatch):
    lines = [*_chain(70, "BLOCK == {j} + 2", "w = undefined_{j}"), *_chain(70, "n == {j}", "w = {j}.5")]
    lines = [*lines[:140], *(line.replace("if n == 0", "elif n == 0", 1) for line in lines[140:]), "elif BLOCK == 1:", "    w = 7.0", "else:", "    w = undefined", "mk.store(y, 0, w)"]
    assert _ran(lines, "interp", tmp_path, monkeypatch, 3, 69, 70) == [3.5, 69.5, 7]


@pytest.mark.parametrize("runtime", ["interp", "cpu"])
def test_jumps_leave_long_chains(runtime, tmp_path, monkeypatch):
    chain = _chain(70, "n + t == {j}", "break")
    chain[1], chain[3] = "    continue", "    v = v + 100.0"
    lines = ["v = mk.load(x, 0)", "for t in range(5):", *(f"    {line}" for line in [*chain, "v = v + 1.0"]), "if n == 90:", "    return", "mk.store(y, 0, v)"]
    assert _ran(lines, runtime, tmp_path, monkeypatch, 0, -1, -3, 90, 66, 68) == [102, 103, 105, 0, 1, 1]


def test_returns_leave_long_chains(tmp_path, monkeypatch):
    lines = [*_chain(70, "n == {j}", "mk.store(y, 0, {j}.0)"), "else:", "    mk.store(y, 0, -1.0)", "mk.store(y, 0, mk.load(y, 0) * 2.0)"]
    for j in (3, 66):
        lines.insert(lines.index(f"    mk.store(y, 0, {j}.0)") + 1, "    return")
    assert _ran(lines, "cpu", tmp_path, monkeypatch, 3, 4, 66, 100) == [3, 8, 66, -2]


def test_nesting_too_deep_names_the_line(tmp_path, monkeypatch):
    """:= in a test keeps a chain nested."""
    lines = ["v = 1.0", *_chain(300, "(w := n + {j}) == 0", "v = v + w"), "mk.store(y, 0, v)"]
    with pytest.raises(CompileError, match="nested too deeply here for Python's stack") as caught:
        _ran(lines, "interp", tmp_path, monkeypatch, 7)
    assert "299) == 0:" in str(caught.value) or "v = v + w" in str(caught.value)
    assert "ifs that follow each other" in str(caught.value)


def test_names_are_the_smallest_free_ones():
    scope = Scope(("x",))
    assert [scope.claim("x") for _ in range(3)] == ["x_1", "x_2", "x_3"]
    with scope.block():
        assert [scope.claim("x"), scope.claim("x_5"), scope.claim("exp")] == ["x_4", "x_5", "exp_"]
        assert scope.claim("x") == "x_6"
    assert [scope.claim("x"), scope.claim("x"), scope.claim("exp")] == ["x_4", "x_5", "exp_"]


@pytest.mark.parametrize(("shape", "n", "runtime"), [("chain", 5000, "interp"), ("expression", 2500, "cpu")])  # about what CPython compiles
def test_thousands_of_statements_run(shape, n, runtime, tmp_path, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", runtime)
    y = np.zeros_like(X)
    load(shape, n, tmp_path)(X, y, 100, BLOCK=64, _grid=2)
    want = X[:100].copy()
    if shape == "expression":
        start, want = want, want * np.float32(0)
        for j in range(1, n):
            want = want + start * np.float32(j % 7)
    for j in range(n if shape != "expression" else 0):
        want = want * np.float32(0.5) + np.float32(j % 7)
    np.testing.assert_allclose(y[:100], want, rtol=1e-5)


def _lines(shape, n, tmp_path):
    return _traced(shape, n, tmp_path).variant().llvm.count("\n")


@pytest.mark.parametrize("shape", sorted(set(SHAPES) - {"range", "expression", "reductions"}))
def test_text_grows_with_the_statements(shape, tmp_path):
    assert _lines(shape, 120, tmp_path) <= 4.5 * _lines(shape, 30, tmp_path)


def test_members_of_a_nest_are_compared_with_few_accesses(tmp_path, monkeypatch):
    counts = []
    for n in (40, 160):
        calls = 0
        plain = nests._Facts.may_meet

        def counted(self, p, q, plain=plain):
            nonlocal calls
            calls += 1
            return plain(self, p, q)

        with monkeypatch.context() as patch:
            patch.setattr(nests._Facts, "may_meet", counted)
            _ = _traced("loads and stores", n, tmp_path).variant().llvm
        counts.append(calls)
    assert counts[1] <= 5 * counts[0]


@pytest.mark.parametrize("shape", ["masked stores", "stores of tiles", "stores of other rows", "stores of columns", "scattered stores"])
def test_masked_stores_of_many_nests_are_short(shape, tmp_path):
    texts = [_traced(shape, n, tmp_path).variant().llvm for n in (40, 41)]
    assert texts[1].count("br ") - texts[0].count("br ") < 16
    assert texts[1].count("\n") - texts[0].count("\n") < 120


@pytest.mark.parametrize("shape", ["masked stores", "stores of tiles"])
def test_many_nests_end_with_their_masks(shape, tmp_path, monkeypatch):
    kernel = load(shape, 40, tmp_path)
    for n in (0, 1, 7, 16, 17, 31, 63, 64, 65):
        results = []
        for backend in ("interp", "cpu"):
            monkeypatch.setenv("EAS_BACKEND", backend)
            y = np.zeros_like(X)
            kernel(X, y, n, BLOCK=64, _grid=1)
            results.append(y)
        np.testing.assert_array_equal(*results)


@eas.kernel
def nearest(x, centroids, y, n, K: eas.constexpr, D: eas.constexpr, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    m = i < n
    best = mk.full([BLOCK], 1e30, mk.f32)
    which = mk.full([BLOCK], 0, mk.i32)
    for c in range(K):
        d = mk.zeros([BLOCK])
        for j in range(D):
            t = mk.load(x, i * D + j, mask=m) - mk.load(centroids, c * D + j)
            d += t * t
        closer = d < best
        best = mk.where(closer, d, best)
        which = mk.where(closer, c, which)
    mk.store(y, i, which, mask=m)


@pytest.mark.parametrize("runtime", ["interp", "cpu"])
def test_long_range_with_a_plain_body_is_a_loop(runtime, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", runtime)
    rng = np.random.default_rng(0)
    x, centroids = rng.random((300, 3), dtype=np.float32), rng.random((64, 3), dtype=np.float32)
    y = np.zeros(300, np.int32)
    nearest(x, centroids, y, 300, K=64, D=3, BLOCK=128, _grid=3)
    np.testing.assert_array_equal(y, ((x[:, None] - centroids) ** 2).sum(-1).argmin(1))
    text = str(nearest.compile(x, centroids, y, 300, K=64, D=3, BLOCK=128).traced)
    assert " for " in text
    assert len(text.splitlines()) < 100


@eas.kernel
def unrolls(x, y, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    v = mk.load(x, i)
    total, seen, table = 0.0, [], (1.0, 2.0) * 10
    for _ in range(20):  # Python's own numbers stay Python's
        total = total + 0.1
    for c in range(20):
        seen.append(c)
    for c in range(20):
        v = v + table[c]
    for c in range(20):
        if c % 2 == 0:
            v = v + c
    short = (v.to(mk.i32) & 7).to(mk.u8)
    for c in range(20):  # u8 * c wraps in 8 bits
        v = v + (short * c).to(mk.f32)
    for c in range(20):
        last = c
    mk.store(y, i, v + total + len(seen) + last)


@pytest.mark.parametrize("runtime", ["interp", "cpu"])
def test_bodies_that_need_trace_time_values_unroll(runtime, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", runtime)
    x, y = np.linspace(0, 9, 32, dtype=np.float32), np.zeros(32, np.float32)
    unrolls(x, y, BLOCK=32, _grid=1)
    v = x.copy()
    for c in range(20):
        v = v + np.float32(1 + c % 2)
    for c in range(0, 20, 2):
        v = v + np.float32(c)
    short = (v.astype(np.int32) & 7).astype(np.uint8)
    for c in range(20):
        v = v + (short * np.uint8(c)).astype(np.float32)
    np.testing.assert_allclose(y, v + np.float32(sum([0.1] * 20)) + 20 + 19, rtol=1e-6)
    assert " for " not in str(unrolls.compile(x, y, BLOCK=32).traced)


@eas.kernel
def static_loop(y):
    v = mk.load(y, 0)
    for c in mk.static_range(40):
        v = v + c
    mk.store(y, 0, v)


def test_static_range_unrolls():
    text = str(static_loop.compile(np.zeros(1, np.float32)).traced)
    assert " for " not in text
    assert text.count(" add ") == 40


def _functions(text):
    """The bodies of the functions of a text, by their names."""
    return dict(re.findall(r"^define .*?@(\w+)\(.*?\{$(.*?)^\}$", text, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("shape", ["masked stores", "loads and stores", "stores in a loop"])
def test_functions_of_long_kernels_are_short(shape, tmp_path, monkeypatch):
    monkeypatch.setattr(repeats, "_FEWEST", 10**9)
    functions = _functions(_traced(shape, 130, tmp_path).variant().llvm)
    assert len(functions) > 4
    assert max(body.count(":\n") for body in functions.values()) < 200


def _launched(shape, n, tmp_path):
    """The text for a launch of which all facts hold."""
    compiled = _traced(shape, n, tmp_path)
    return compiled.variant(frozenset(compiled.facts)).llvm


@pytest.mark.parametrize("shape", ["dots", "masks", "blocks of pointers"])
def test_texts_of_several_functions_grow_with_the_statements(shape, tmp_path):
    sizes = [len(_launched(shape, n, tmp_path)) for n in (100, 400)]
    assert sizes[1] <= 4.5 * sizes[0]


def test_slots_are_no_results_of_functions(tmp_path, monkeypatch):
    monkeypatch.setattr(repeats, "_FEWEST", 10**9)
    text = _launched("dots", 100, tmp_path)
    assert "_part2(" in text
    assert max(map(len, text.splitlines())) < 2000


def test_straight_lines_are_several_functions_too(tmp_path, monkeypatch):
    monkeypatch.setattr(llvm_text, "_MOST_INLINED", 10**9)
    sizes = [[body.count("\n") for body in _functions(_traced("functions", n, tmp_path).variant().llvm).values()] for n in (60, 180)]
    assert max(sizes[1]) <= max(sizes[0])
    assert len(sizes[1]) > 2 * len(sizes[0])


def test_branches_of_lanes_are_written_a_few_times(tmp_path):
    texts = [_traced("atomics", n, tmp_path).variant().llvm for n in (40, 41)]
    assert texts[1].count("cmpxchg") == texts[0].count("cmpxchg")
    assert texts[1].count("br ") - texts[0].count("br ") < 20


def test_nests_carry_few_numbers(tmp_path):
    module = nests.partition(_traced("scans", 40, tmp_path).variant().module, lambda inst: inst.op.name == "scan")
    counts = [sum(i.op.name == "scan" for i in nest.regions[0].body) for nest in module.body.body if nest.op.name == "nest"]
    assert counts == [nests._MOST_CARRIED, nests._MOST_CARRIED, 8]


def test_masks_are_returned_as_numbers_of_their_own():
    lines = ["  %m.bits = add i4 0, 5", "  %m = bitcast i4 %m.bits to <4 x i1>"]  # what a call in them has left
    text = function("f", "nounwind", [Reg("%k", "i1", 4)], lines, [Reg("%m", "i1", 4), Reg("%k", "i1", 4)])
    jit.compile_object(text.replace("define internal", "define"))


def test_short_kernels_are_one_function(tmp_path):
    assert list(_functions(_traced("masked stores", 8, tmp_path).variant().llvm)) == ["eas_kernel"]


@eas.kernel
def pieces(x, y, z, n, BLOCK: eas.constexpr):
    """Numbers, carried blocks and pointers, and what branches make are read by later pieces."""
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    m = i < n
    v = mk.load(x, i, mask=m)
    total, p = mk.sum(v), x
    for t in range(n // 16):
        v = v + mk.load(p + i, mask=i + 1 < n) * total
        mk.store(y, i, v, mask=m)
        if n > 40:
            total = total * 0.5
            total = total + mk.max(v)
        else:
            total = total + t
        p = p + 1
        mk.atomic_add(z, i % 7, mk.where(m, 1.0, 0.0))
    mk.store(y, i, v - mk.sum(v) + total, mask=m)


@pytest.mark.parametrize("n", [20, 50])
def test_pieces_compute_the_same(n, monkeypatch):
    results = []
    for backend, many in (("interp", 10**9), ("cpu", 10**9), ("cpu", 0)):
        monkeypatch.setenv("EAS_BACKEND", backend)
        monkeypatch.setattr(llvm, "MOST", many)
        monkeypatch.setattr(outline, "_PIECE", 1)
        monkeypatch.setenv("EAS_CACHE", "0")
        kernel, y, z = eas.kernel(pieces.fn), np.zeros(64, np.float32), np.zeros(8, np.float32)
        kernel(X, y, z, n, BLOCK=16, _grid=4)
        results.append((y, z))
        text = kernel.compile(X, y, z, n, BLOCK=16).variant().llvm
        assert ("_part1(" in text) == (many == 0)
    for y, z in results[1:]:
        np.testing.assert_allclose(y, results[0][0], rtol=1e-5)
        np.testing.assert_array_equal(z, results[0][1])


def test_kernels_of_very_many_blocks_run(tmp_path, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    y, want = np.zeros_like(X), np.zeros_like(X)
    load("masked stores", 60, tmp_path)(X, y, 150, BLOCK=256, _grid=1)
    for j in range(60):
        want[2 * j + 1 : 150 + j] = X[j + 1 : 150]
    np.testing.assert_array_equal(y, want)


@eas.kernel
def quotients(x, y, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    mk.store(y, i, mk.load(x, i) // 7)


def test_numbers_in_all_lanes_are_known_to_divisions():
    text = quotients.compile(*(np.ones(64, np.int32) for _ in range(2)), BLOCK=64).variant().llvm
    assert "x i32> %t" in text
    assert "splat (i32 7)" in text
    assert "sitofp" not in text, "which is how lanes are divided by numbers that differ"


@pytest.fixture
def every_kernel_is_long(monkeypatch):
    """As far as the code generator is concerned; two loops are enough to be one function."""
    monkeypatch.setenv("EAS_CACHE", "0")
    monkeypatch.setattr(llvm, "MOST", 0)
    monkeypatch.setattr(repeats, "_FEWEST", 2)
    monkeypatch.setattr(llvm_text, "_MOST_INLINED", 1)


@pytest.mark.parametrize("shape", ["masked stores", "scattered stores", "atomics", "stores in a loop", "reductions side by side", "transposes", "while"])
def test_repeated_loops_are_one_function(shape, tmp_path, every_kernel_is_long):
    texts = [_traced(shape, n, tmp_path).variant().llvm for n in (72, 108)]
    assert "_loop" in texts[0]
    assert texts[1].count(" phi ") <= texts[0].count(" phi ") + 2


@pytest.mark.parametrize("shape", ["stores of tiles", "ifs with stores"])
@pytest.mark.parametrize("cpu", possible_levels())
def test_equal_numbers_of_two_dtypes_are_two_parameters(shape, cpu, tmp_path, monkeypatch, every_kernel_is_long):
    monkeypatch.setenv("EAS_CPU", cpu)
    kernel, results = load(shape, 14, tmp_path), []
    for backend in ("interp", "cpu"):
        monkeypatch.setenv("EAS_BACKEND", backend)
        results.append(np.zeros_like(X))
        kernel(X, results[-1], 50, BLOCK=64, _grid=1)
    np.testing.assert_array_equal(*results)


@eas.kernel
def repeating(x, y, z, n, BLOCK: eas.constexpr):
    """Loops that differ in a number, in a divisor, in a buffer, in -0.0, and in what they carry."""
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    m = i < n
    for j in mk.static_range(3):
        mk.store(y, i + 100 * j, mk.load(x, i + j, mask=m), mask=m & (i > j))
        mk.store(z, i + 100 * j, mk.load(x, i + j, mask=m), mask=m & (i > j))
    for j in mk.static_range(3):
        mk.store(y, i // (j + 2) * (j + 2) + i % (j + 2) + 300, mk.load(x, i // (j + 2), mask=m))
    for zero in (0.0, -0.0):
        mk.store(z, i + 300, mk.load(z, i + 300) + zero, mask=m)
        mk.store(z, i + 400, mk.where(m, zero, 1.0))
    t, total = n, 0.0
    for j in mk.static_range(3):
        while t > 3 * j:
            t = t - 7 + j
        total = total + mk.sum(mk.load(x, i + j, mask=m)) * t
    mk.store(y, 500 + mk.program_id(0), total)
    for j in mk.static_range(3):
        mk.atomic_add(z, i % (j + 3) + 600 + 10 * j, mk.where(m, 1.0, 0.0))


@pytest.mark.parametrize("n", [7, 61])
def test_repeated_loops_compute_the_same(n, monkeypatch, every_kernel_is_long):
    results = []
    for backend in ("interp", "cpu"):
        monkeypatch.setenv("EAS_BACKEND", backend)
        y, z = np.zeros(700, np.float32), np.full(700, -0.0, np.float32)
        eas.kernel(repeating.fn)(X, y, z, n, BLOCK=32, _grid=2)
        results.append((y, z))
    text = eas.kernel(repeating.fn).compile(X, *results[0], n, BLOCK=32).variant().llvm
    assert len(re.findall(r"^define .*_loop\d+\(", text, re.MULTILINE)) > 3
    for got, want in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("shape", ["functions", "random numbers", "bf16"])
def test_functions_of_long_kernels_are_called(shape, tmp_path, monkeypatch, every_kernel_is_long):
    kernel, results = load(shape, 6, tmp_path), []
    for backend in ("interp", "cpu"):
        monkeypatch.setenv("EAS_BACKEND", backend)
        y = np.zeros_like(X)
        kernel(X, y, 50, BLOCK=64, _grid=1)
        results.append(y)
    np.testing.assert_allclose(*results, rtol=1e-5)
    text = kernel.compile(X, X, 50, BLOCK=64).variant().llvm
    name = {"functions": "eas_sin", "random numbers": "eas_philox", "bf16": "eas_add"}[shape]
    assert len(re.findall(rf"call .*@{name}\w*\(", text)) >= 5
    assert shape != "functions" or len(re.findall(r"call .*@eas_exp\w*\(.*\) noinline", text)) >= 5


def test_short_kernels_inline_functions(tmp_path):
    text = _traced("functions", 20, tmp_path).variant().llvm
    assert "noinline" not in re.sub(r"(?s)define internal .*?\n}", "", text)


def test_long_kernels_have_one_loop_per_nest(tmp_path):
    few, many = (_lines("masked stores", n, tmp_path) / n for n in (120, 240))
    assert many < 0.7 * few


def test_many_whiles_in_a_row_are_several_functions(tmp_path):
    assert len(_functions(_traced("while", 80, tmp_path).variant().llvm)) > 1


def test_debug_says_which_kernels_are_long(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("EAS_DEBUG", "1")
    for n in (8, 240):
        _ = _traced("masked stores", n, tmp_path).variant().llvm
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "is long" in line]
    assert re.fullmatch(r"long_kernel is long: \d+ functions, 23\d loops repeat others; its loops have no copies for special cases", line)


def test_jumps_out_of_many_loops_need_no_stack():
    tree = ast.parse("for t in n:\n    if t:\n        break\n" * 1500)
    assert len(straighten(tree.body, HiddenNames()).stops) == 1500
