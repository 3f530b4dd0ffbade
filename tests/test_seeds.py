"""The user's documents: quick start, launch modes, grids, compilation, runtimes; by unittest alone.

Runs without pytest and without torch: python -m unittest discover -s tests -p "test*.py" -v
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import eas
from eas import mk
from examples.add import add_kernel
from tests.seed_kernels import WHY_NO_METAL, backend, operands, python

_scratch = tempfile.TemporaryDirectory(prefix="eas-seeds-")
_own_cache = mock.patch.dict(os.environ, {"EAS_CACHE_DIR": _scratch.name})


def setUpModule() -> None:
    _own_cache.start()


def tearDownModule() -> None:
    _own_cache.stop()
    _scratch.cleanup()


@eas.kernel
def thread_add_kernel(a, b, c, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.tid(0, BLOCK)
    mk.store(c, i, mk.load(a, i, i < N) + mk.load(b, i, i < N), i < N)


# Seed 000, "快速开始", as written.
QUICK_START = '''
import numpy as np
import eas
from eas import mk


@eas.kernel
def add_kernel(a, b, c, N, BLOCK: eas.constexpr):
    pid = mk.program_id(0)
    offs = pid * BLOCK + mk.arange(0, BLOCK)
    mask = offs < N
    mk.store(c, offs, mk.load(a, offs, mask) + mk.load(b, offs, mask), mask)


n = 1024 + 7
a = np.random.randn(n).astype(np.float32)
b = np.random.randn(n).astype(np.float32)
c = np.zeros_like(a)

add_kernel(a, b, c, n, BLOCK=256)
'''


class QuickStart(unittest.TestCase):
    def test_runs_as_written(self):
        script = Path(_scratch.name) / "quick_start.py"
        script.write_text(QUICK_START + "assert np.array_equal(c, a + b)\nprint('same as NumPy')\n")
        done = python(str(script), EAS_BACKEND="interp")
        self.assertEqual((done.returncode, done.stdout), (0, "same as NumPy\n"), done.stderr)

    def test_runs_on_the_backend_that_auto_chooses(self):
        a, b, c = operands()
        with backend("auto"):
            add_kernel(a, b, c, a.size, BLOCK=256)
        np.testing.assert_array_equal(c, a + b)

    def test_to_msl_gives_a_metal_kernel(self):
        a, b, c = operands()
        text = add_kernel.to_msl(a, b, c, a.size, BLOCK=256)
        self.assertFalse(c.any(), "to_msl must not launch")
        self.assertIn("kernel void", text)
        self.assertIn("#include <metal_stdlib>", text)

    def test_example_runs_as_a_module(self):
        done = python("-m", "examples.add", EAS_BACKEND="interp")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "add of 1031: largest error 0 against NumPy on interp: ok\n")

    @unittest.skipIf(WHY_NO_METAL, WHY_NO_METAL or "")
    def test_example_runs_on_metal(self):
        done = python("-m", "examples.add", EAS_BACKEND="mps")
        self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(WHY_NO_METAL, "Metal is available")
    def test_example_says_why_metal_is_missing(self):
        done = python("-m", "examples.add", EAS_BACKEND="mps")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"the mps backend is not available: {WHY_NO_METAL}", done.stderr)
        self.assertIn("hint: set EAS_BACKEND=cpu to run here", done.stderr)


class LaunchModes(unittest.TestCase):
    def setUp(self):
        self.enterContext(backend("interp"))

    def test_arange_is_spmd_with_one_thread(self):
        compiled = add_kernel.compile(*operands(), 1031, BLOCK=256)
        self.assertEqual((compiled.launch_mode, compiled.tptg, compiled.block_size), ("spmd", (1, 1, 1), 256))

    def test_tid_is_thread_mode_with_a_thread_per_element(self):
        a, b, c = operands()
        compiled = thread_add_kernel.compile(a, b, c, a.size, BLOCK=128)
        self.assertEqual((compiled.launch_mode, compiled.tptg, compiled.block_size), ("thread", (128, 1, 1), 128))
        thread_add_kernel(a, b, c, a.size, BLOCK=128)
        np.testing.assert_array_equal(c, a + b)

    def test_mixing_the_modes_is_refused(self):
        @eas.kernel
        def mixed(x, BLOCK: eas.constexpr):
            mk.store(x, mk.arange(0, BLOCK), mk.tid(0, BLOCK))

        with self.assertRaises(eas.ModeMismatch):
            mixed.compile(np.zeros(4, np.int32), BLOCK=4)

    def test_a_contradicting_tptg_is_refused(self):
        with self.assertRaisesRegex(ValueError, r"_tptg=\(256, 1, 1\) contradicts"):
            add_kernel(*operands(), 1031, BLOCK=256, _tptg=(256, 1, 1))
        with self.assertRaisesRegex(ValueError, "contradicts"):
            thread_add_kernel(*operands(), 1031, BLOCK=128, _tptg=64)

    def test_threads_cooperate_through_threadgroup_memory(self):
        @eas.kernel
        def reverse(x, BLOCK: eas.constexpr):
            t = mk.tid(0, BLOCK)
            tile = mk.alloc_tg(BLOCK, mk.f32)
            mk.store(tile, t, mk.load(x, t))
            mk.barrier()
            mk.store(x, t, mk.load(tile, BLOCK - 1 - t))

        x = np.arange(64, dtype=np.float32)
        reverse(x, BLOCK=64)
        np.testing.assert_array_equal(x, np.arange(64)[::-1])

    def test_simdgroup_matrices_multiply(self):
        @eas.kernel
        def multiply(a, b, c, BLOCK: eas.constexpr):
            mk.tid(0, BLOCK)
            mk.mma_store(c, 0, 8, mk.mma(a, 0, 8, b, 0, 8, mk.mma_zero()))

        a, b = np.random.randint(-9, 9, (2, 8, 8)).astype(np.float32)
        c = np.zeros((8, 8), np.float32)
        multiply(a, b, c, BLOCK=32)
        np.testing.assert_array_equal(c, a @ b)


class Grid(unittest.TestCase):
    def setUp(self):
        self.enterContext(backend("interp"))

    def test_axis_0_is_n_over_block(self):
        @eas.kernel
        def count(y, N, BLOCK: eas.constexpr):
            mk.atomic_add(y, 0 * mk.arange(0, BLOCK), 1)
            mk.store(y, 1, mk.num_programs(0))

        for n, programs in ((0, 0), (1, 1), (256, 1), (257, 2), (1031, 5)):
            y = np.zeros(2, np.int32)
            count(y, n, BLOCK=256)
            self.assertEqual(y.tolist(), [programs * 256, programs])

    def test_without_n_the_error_says_what_to_pass(self):
        @eas.kernel
        def nameless(y, size, BLOCK: eas.constexpr):
            mk.store(y, mk.program_id(0) * BLOCK + mk.arange(0, BLOCK), 1.0)

        with self.assertRaisesRegex(ValueError, "_grid"):
            nameless(np.zeros(8, np.float32), 8, BLOCK=8)
        for options in ({"_grid": 2}, {"_grid": (2, 1, 1)}, {"_grid": lambda meta, args: args["size"] // meta["BLOCK"]}, {"_nthreads": 16}):
            y = np.zeros(16, np.float32)
            nameless(y, 16, BLOCK=8, **options)
            self.assertTrue(y.all(), options)

    def test_tritons_form(self):
        a, b, c = operands(100)
        add_kernel[2](a, b, c, 100, BLOCK=64)
        np.testing.assert_array_equal(c, a + b)


class Compilation(unittest.TestCase):
    def test_scalar_values_and_sizes_share_a_compiled_kernel(self):
        first = add_kernel.compile(*operands(100), 100, BLOCK=64)
        self.assertIs(first, add_kernel.compile(*operands(100), 7, BLOCK=64))
        self.assertIs(first, add_kernel.compile(*operands(3000), 3000, BLOCK=64))
        self.assertIsNot(first, add_kernel.compile(*operands(100), 100, BLOCK=128))
        narrow = [x.astype(np.float16) for x in operands(100)]
        self.assertIsNot(first, add_kernel.compile(*narrow, 100, BLOCK=64))

    def test_meta_and_runtime_parameters_are_told_apart(self):
        compiled = add_kernel.compile(*operands(), 1031, BLOCK=256)
        self.assertEqual(compiled.arg_names, ("a", "b", "c", "N"))
        self.assertEqual(set(compiled.writes), {"c"})
        self.assertEqual(set(compiled.reads), {"a", "b"})

    def test_the_ir_has_the_documented_classes(self):
        from eas.ir import Arg, DType, Inst, IRModule

        module = add_kernel.compile(*operands(), 1031, BLOCK=256).ir
        self.assertIsInstance(module, IRModule)
        self.assertTrue(all(isinstance(a, Arg) and isinstance(a.type.dtype, DType) for a in module.args))
        self.assertTrue(all(isinstance(i, Inst) for i in module.body.body))

    def test_compilation_is_reproducible(self):
        code = "import numpy as np; from examples.add import add_kernel; x = np.zeros(8, np.float32); print(add_kernel.compile(x, x, x, 8, BLOCK=8).ir)"
        texts = {python("-c", code, PYTHONHASHSEED=str(seed), EAS_CACHE="0").stdout for seed in (0, 1, 2)}
        self.assertEqual(len(texts), 1)
        self.assertIn("kernel add_kernel", texts.pop())

    def test_mk_only_traces(self):
        with self.assertRaises(eas.OutsideKernel):
            mk.arange(0, 8)

    def test_buffers_of_other_dtypes_than_f32_work(self):
        for dtype in (np.float64, np.float16, np.int32, np.uint8):
            a, b, c = (x.astype(dtype) for x in (np.arange(100), np.arange(100), np.zeros(100)))
            with backend("interp"):
                add_kernel(a, b, c, 100, BLOCK=64)
            np.testing.assert_array_equal(c, a + b)


class KernelModule(unittest.TestCase):
    def test_the_decorator_survives_the_import_of_its_module(self):
        import eas.kernel

        self.assertIs(eas.kernel, sys.modules["eas.kernel"].kernel)
        done = python("-c", "import eas.kernel\nprint(repr(eas.kernel(lambda x: None)))")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("eas.kernel", done.stdout)

    def test_launches_go_through_the_module_level_get_runtime(self):
        real = eas.runtime.get_runtime
        with mock.patch.object(sys.modules["eas.kernel"], "get_runtime", side_effect=lambda *a: real("interp")) as spy:
            a, b, c = operands(10)
            add_kernel(a, b, c, 10, BLOCK=16)
        self.assertTrue(spy.called)
        np.testing.assert_array_equal(c, a + b)


class Runtimes(unittest.TestCase):
    def test_backends_are_selected_by_name_and_environment(self):
        for name, runtime in (("interp", "interp"), ("cpu", "cpu"), ("mps", "mps"), ("metal", "mps"), ("sim", "sim")):
            with backend(name):
                self.assertEqual(eas.runtime.get_runtime().name, runtime)
            self.assertIs(eas.runtime.get_runtime(name), eas.runtime.get_runtime(runtime))
            self.assertIsInstance(eas.runtime.get_runtime(name).is_available(), bool)
        with backend("auto"):
            self.assertTrue(eas.runtime.get_runtime().is_available())

    def test_unknown_backends_are_refused(self):
        with backend("cuda"), self.assertRaisesRegex(ValueError, "EAS_BACKEND='cuda' is not one of auto, cpu, mps"):
            eas.runtime.get_runtime()

    def test_asynchronous_launches_are_complete_after_synchronize(self):
        with backend("interp"), mock.patch.dict(os.environ, {"EAS_MAX_IN_FLIGHT": "2"}):
            outs = []
            for _ in range(5):
                a, b, c = operands(100)
                add_kernel(a, b, c, 100, BLOCK=64, _sync=False)
                outs.append((a, b, c))
            eas.runtime.get_runtime().synchronize()
        for a, b, c in outs:
            np.testing.assert_array_equal(c, a + b)

    def test_max_in_flight_is_checked(self):
        with mock.patch.dict(os.environ, {"EAS_MAX_IN_FLIGHT": "none"}), self.assertRaisesRegex(ValueError, "EAS_MAX_IN_FLIGHT"):
            eas.runtime.config.max_in_flight()


class DocumentedFiles(unittest.TestCase):
    def test_the_documented_layers_are_where_the_documents_say(self):
        names = {"mk": "load", "kernel": "Kernel", "ir": "IRModule", "compiler": "CompiledKernel", "analysis": "writes", "tensor": "Tensor", "runtime": "get_runtime", "runtime.metal": "MetalRuntime", "runtime.cpu": "CpuRuntime", "codegen.msl": "generate_msl"}
        for module, name in names.items():
            self.assertTrue(hasattr(importlib.import_module(f"eas.{module}"), name), module)

    def test_doctor_and_env_answer(self):
        for command, word in (("doctor", "interp"), ("env", "EAS_MAX_IN_FLIGHT")):
            done = python("-m", "eas", command)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(word, done.stdout)

    def test_importing_eas_imports_neither_torch_nor_llvmlite(self):
        code = "import sys, eas; print([m for m in ('torch', 'llvmlite') if m in sys.modules])"
        self.assertEqual(python("-c", code).stdout, "[]\n")


if __name__ == "__main__":
    unittest.main()
