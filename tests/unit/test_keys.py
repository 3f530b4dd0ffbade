"""Every field of every key of a cache: two situations that differ in it alone are two entries."""

import importlib
import inspect
import sys
from typing import NamedTuple

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import config, dtypes
from eas.base.facts import Fact
from eas.base.types import Space, Type
from eas.frontend.constexpr import Static
from eas.launch import warm_start
from eas.runtime import keys, sim
from eas.runtime.native import jit
from eas.runtime.native.host_cpu import HostCpu
from eas.schedule.target import AVX2, AVX512

autotune = importlib.import_module("eas.tools.autotune")  # the package gives the decorator under this name
X = Type(dtypes.f32, (), Space.DEVICE)
FIELDS = [(kind, field) for kind in vars(keys).values() if inspect.isclass(kind) and issubclass(kind, tuple) and kind is not NamedTuple for field in getattr(kind, "_fields", ())]


def body(x, N, BLOCK: eas.constexpr = 4):
    offs = mk.arange(BLOCK)
    mk.store(x + offs, mk.load(x + offs) * 2.0)


def other_body(x, N, BLOCK: eas.constexpr = 4):
    offs = mk.arange(BLOCK)
    mk.store(x + offs, mk.load(x + offs) * 3.0)


class Held:
    def __init__(self, factor):
        self.factor = factor

    def method(self, x):
        mk.store(x, self.factor)


A, B = Held(1.0), Held(2.0)


class Situation:
    """What the caches are asked with, as `monkeypatch` has arranged the world."""

    def __init__(self, monkeypatch):
        self.patch = monkeypatch
        self.compiled = eas.Kernel(body).compile(np.zeros(4, np.float32), 4)
        self.runtime = sim.SimRuntime()
        monkeypatch.setattr(sim, "Library", lambda *given, **options: FakeLibrary())

    # --- what may differ --------------------------------------------------------------------

    def cpu(self):
        """Another processor, as everybody who makes a key sees it."""
        for module in (warm_start, jit):
            self.patch.setattr(module, "host_cpu", lambda: HostCpu("x86_64", frozenset({"avx2"}), "another processor"))
        self.patch.setattr(autotune, "host_key", lambda: "another processor")
        self.patch.setattr(keys, "setting_now", lambda setting: "another level" if setting is config.cpu else setting())

    def version(self):
        for module in (warm_start, jit, autotune):
            self.patch.setattr(module, "__version__", "9.9")

    def set(self, name, value):
        self.patch.setenv(name, value)

    # --- what is asked for ------------------------------------------------------------------

    def kernel(self, fn=body, arguments=None, math="safe", num_warps=None):
        warm_start._machine.cache_clear()
        found = warm_start.identify(fn, {"x": X, "BLOCK": Static(4)} if arguments is None else arguments, math, num_warps)
        warm_start._machine.cache_clear()
        return found.key

    def file(self, name="a.py"):
        warm_start._machine.cache_clear()
        found = warm_start._file_key(name)
        warm_start._machine.cache_clear()
        return found

    def variant(self, facts=frozenset(), kernel="k", target=AVX2):
        return warm_start._variant_key(warm_start.Identity(kernel, "a.py", None), keys.Form(facts, keys.settings_now()), target)

    def object(self, text="define void @f() { ret void }", pipeline="quick", target=AVX2):
        return jit.object_key(text, pipeline, target)

    def form(self, facts=frozenset()):
        """The variant in memory: of one compiled kernel, found or made anew."""
        return self.compiled.variant(facts)

    def call(self, fn=A.method, dtype=np.float32):
        kernel = eas.Kernel(fn)
        return kernel._key(kernel._bind((np.zeros(4, dtype),), {}))

    def metal(self, **changes):
        """What the software Metal has loaded."""
        return self.runtime.kernel(FakeCode(**changes))

    def tuning(self, kernel=body, n=4, configs=(4, 8), backend="cpu"):
        tuned = self._tuned(kernel, configs)
        call = autotune._call((np.zeros(n, np.float32), n), {})
        trials = [tuned._trial(call, c) for c in tuned._candidates(call)]
        return tuned._disk_key(backend, trials)

    def kind(self, n=4, dtype=np.float32, num_warps=None):
        tuned = self._tuned(body, (4, 8))
        options = {} if num_warps is None else {"num_warps": num_warps}
        return tuned._kind(autotune._call((np.zeros(n, dtype), n), options))

    def _tuned(self, fn, configs):
        return eas.autotune(configs=[eas.Config({"BLOCK": n}) for n in configs], key=["N"])(eas.Kernel(fn))


class FakeLibrary:
    def kernel(self, name):
        return object()


class FakeCode:
    def __init__(self, **changes):
        self.text, self.name, self.language, self.math_mode, self.lines = "kernel void f() {}", "f", "metal3.0", "safe", ()
        vars(self).update(changes)


FACT = frozenset({Fact("divisible_16", "N")})
# (key, field) -> what is asked for, what changes in the world, how the question changes.
DIFFERENT = {
    ("MachineKey", "format"): ("kernel", lambda s: s.patch.setattr(warm_start, "_FORMAT", "kernel-2")),
    ("MachineKey", "version"): ("kernel", Situation.version),
    ("MachineKey", "sources"): ("kernel", lambda s: s.patch.setattr(warm_start, "source_stamp", lambda: "edited")),
    ("MachineKey", "python"): ("kernel", lambda s: s.patch.setattr(sys, "version", "4.0")),
    ("MachineKey", "numpy"): ("kernel", lambda s: s.patch.setattr(np, "__version__", "9.0")),
    ("MachineKey", "llvm"): ("kernel", lambda s: s.patch.setattr(jit, "llvm_version", lambda: "99")),
    ("MachineKey", "cpu"): ("kernel", Situation.cpu),
    ("KernelKey", "machine"): ("kernel", Situation.cpu),
    ("KernelKey", "math"): ("kernel", None, {"math": "fast"}),
    ("KernelKey", "num_warps"): ("kernel", None, {"num_warps": 4}),
    ("KernelKey", "arguments"): ("kernel", None, {"arguments": {"x": X, "BLOCK": Static(8)}}),
    ("KernelKey", "code"): ("kernel", None, {"fn": other_body}),
    ("VariantKey", "kernel"): ("variant", None, {"kernel": "l"}),
    ("VariantKey", "facts"): ("variant", None, {"facts": FACT}),
    ("VariantKey", "noopt"): ("variant", lambda s: s.set("EAS_NOOPT", "1")),
    ("VariantKey", "check_bounds"): ("variant", lambda s: s.set("EAS_CHECK_BOUNDS", "1")),
    ("VariantKey", "without"): ("variant", lambda s: s.set("EAS_WITHOUT", "merge_common")),
    ("VariantKey", "target"): ("variant", None, {"target": AVX512}),
    ("FileKey", "machine"): ("file", Situation.cpu),
    ("FileKey", "filename"): ("file", None, {"name": "b.py"}),
    ("ObjectKey", "format"): ("object", lambda s: s.patch.setattr(jit, "_CACHE_FORMAT", "object-2")),
    ("ObjectKey", "version"): ("object", Situation.version),
    ("ObjectKey", "llvm"): ("object", lambda s: s.patch.setattr(jit, "llvm_version", lambda: "99")),
    ("ObjectKey", "cpu"): ("object", Situation.cpu),
    ("ObjectKey", "target"): ("object", None, {"target": AVX512}),
    ("ObjectKey", "pipeline"): ("object", None, {"pipeline": "full"}),
    ("ObjectKey", "text"): ("object", None, {"text": "define void @g() { ret void }"}),
    ("TuningKey", "version"): ("tuning", Situation.version),
    ("TuningKey", "machine"): ("tuning", lambda s: s.patch.setattr(autotune.os, "cpu_count", lambda: 999)),
    ("TuningKey", "cpu"): ("tuning", Situation.cpu),
    ("TuningKey", "backend"): ("tuning", None, {"backend": "sim"}),
    ("TuningKey", "noopt"): ("tuning", lambda s: s.set("EAS_NOOPT", "1")),
    ("TuningKey", "check_bounds"): ("tuning", lambda s: s.set("EAS_CHECK_BOUNDS", "1")),
    ("TuningKey", "named"): ("tuning", None, {"n": 8}),
    ("TuningKey", "trials"): ("tuning", None, {"configs": (4, 16)}),
    ("Settings", "noopt"): ("form", lambda s: s.set("EAS_NOOPT", "1")),
    ("Settings", "check_bounds"): ("form", lambda s: s.set("EAS_CHECK_BOUNDS", "1")),
    ("Settings", "cpu"): ("form", Situation.cpu),
    ("Settings", "without"): ("form", lambda s: s.set("EAS_WITHOUT", "merge_common")),
    ("Form", "facts"): ("form", None, {"facts": FACT}),
    ("Form", "settings"): ("form", lambda s: s.set("EAS_NOOPT", "1")),
    ("CallKey", "receiver"): ("call", None, {"fn": B.method}),
    ("CallKey", "arguments"): ("call", None, {"dtype": np.float16}),
    ("TuningKind", "backend"): ("kind", lambda s: s.set("EAS_BACKEND", "interp")),
    ("TuningKind", "settings"): ("kind", lambda s: s.set("EAS_CHECK_BOUNDS", "1")),
    ("TuningKind", "num_warps"): ("kind", None, {"num_warps": 4}),
    ("TuningKind", "types"): ("kind", None, {"dtype": np.int32}),
    ("TuningKind", "named"): ("kind", None, {"n": 8}),
    ("MetalKey", "text"): ("metal", None, {"text": "kernel void g() {}"}),
    ("MetalKey", "name"): ("metal", None, {"name": "g"}),
    ("MetalKey", "language"): ("metal", None, {"language": "metal3.1"}),
    ("MetalKey", "math_mode"): ("metal", None, {"math_mode": "fast"}),
    ("MetalKey", "sanitize"): ("metal", lambda s: s.set("EAS_SANITIZE", "1")),
    ("MetalKey", "lines"): ("metal", None, {"lines": (None, None)}),
}


def asked_twice(monkeypatch, key, field):
    what, change, *after = DIFFERENT[key, field]
    situation = Situation(monkeypatch)
    ask = getattr(situation, what)
    first = ask()
    assert ask() == first  # the same question, the same entry
    if change is not None:
        change(situation)
    return first, ask(**(after[0] if after else {}))


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    monkeypatch.setenv("EAS_VERIFY", "0")
    yield
    warm_start._machine.cache_clear()


def test_every_field_is_tested():
    assert {(kind.__name__, field) for kind, field in FIELDS} == set(DIFFERENT)


@pytest.mark.parametrize(("key", "field"), DIFFERENT)
def test_field_makes_another_entry(monkeypatch, key, field):
    first, second = asked_twice(monkeypatch, key, field)
    assert first != second


@pytest.mark.parametrize(("key", "field"), DIFFERENT)
def test_without_the_field_there_is_one_entry(monkeypatch, key, field):
    """The test above fails for a key that lacks the field: nothing else tells the two situations apart."""
    kind = getattr(keys, key)
    monkeypatch.setattr(keys, key, lambda *given: kind(*given)._replace(**{field: None}))
    first, second = asked_twice(monkeypatch, key, field)
    assert first == second


def test_math_modes_of_one_function_run_their_own_code_in_a_second_process(monkeypatch):
    """As a new process finds it: nothing in memory, both modes on disk."""

    def squared(x, y):
        mk.store(y, mk.load(x) * mk.load(x) + mk.load(y))

    x, y = np.full(1, 10.0, np.float32), np.zeros(1, np.float32)
    texts = {}
    for _ in range(2):
        for math in ("safe", "fast"):
            kernel = eas.Kernel(squared, math)
            kernel(x, y, _grid=1)
            texts.setdefault(math, set()).add(kernel.compile(x, y).llvm)
    assert len(texts["safe"]) == len(texts["fast"]) == 1
    assert texts["safe"] != texts["fast"]


def test_math_mode_of_a_kernel_cannot_be_changed():
    with pytest.raises(AttributeError):
        eas.Kernel(body).math_mode = "fast"
