"""A launch plan read by Python and by native code: the same words, facts and grid for every call, or both refuse it."""

from __future__ import annotations

import os
import random
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

import eas
from eas import mk
from eas.launch.plan import interpret

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.usefixtures("learns_soon")

SCALE = 2.0
N_CALLS = int(os.environ.get("FUZZ_LAUNCHES", "300"))  # of each kernel


@eas.kernel
def flat(x, y, out, N, BLOCK: eas.constexpr = 64):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i, mk.load(x, i, i < N) + mk.load(y, i, i < N) * SCALE, i < N)


@eas.kernel
def rows(x, out, W, H, BLOCK: eas.constexpr):
    i, row = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK), mk.program_id(1)
    inside = (i < W) & (i < x.shape[1]) & (row < H)
    mk.store(out, row * out.stride(0) + i * out.stride(-1), mk.load(x, row * x.stride(0) + i * x.stride(1), inside), inside)


@eas.kernel
def numbers(out, small, large, real, flag, extra=None, MODE: eas.constexpr = "plain", FACTOR: eas.constexpr = 1.5):
    v = real * FACTOR
    if MODE == "twice":
        v = v * 2
    mk.store(out, 0, mk.where(flag, v, v + small + large))


def plan_of(kernel, *args, **kwargs):
    known = eas.Kernel(kernel.fn)
    for _ in range(3):
        known(*args, **kwargs)
    (learner,) = known._table
    eas.zeros(1)  # from now on there are tensors
    if find_spec("torch"):
        import_module("torch")
    learner.native.see_tensors()
    return learner.native


class SubArray(np.ndarray):
    pass


class Exported:
    """An array of another library."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def in_form(rng, values):
    """The values, or some of them, as arrays come."""
    kind = rng.choice(["plain"] * 6 + ["offset", "part", "matrix", "turned", "columns", "reversed", "frozen", "subclass", "misaligned", "repeated", "empty", "number", "flat", "swapped"])
    match kind:
        case "offset":
            return values.reshape(-1)[rng.randrange(20) :]
        case "part":
            return values[1:, :5]
        case "matrix":
            return values[:8, :8].copy()
        case "turned":
            return values.T
        case "columns":
            return values[:, :: rng.choice([2, 3])]
        case "reversed":
            return values[::-1]
        case "frozen":
            values.flags.writeable = False
        case "subclass":
            return values.view(SubArray)
        case "misaligned":
            return np.frombuffer(bytearray(values.nbytes + 1), np.uint8)[1:].view(values.dtype)
        case "repeated":
            return np.lib.stride_tricks.as_strided(values, (4, 6), rng.choice([(8, 4), (24, 4), (4, 4), (0, 4), (20, 4)]))
        case "empty":
            return values[:0]
        case "number":
            return values[0, 0, ...]
        case "flat":
            return values.reshape(-1)
        case "swapped":
            return values.astype(values.dtype.newbyteorder())
    return values


def as_torch(rng, array):
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(np.array(array, subok=False))
    kind = rng.choice(["plain"] * 6 + ["turned", "columns", "negated", "leaf", "parameter", "inference", "sparse", "shrunk", "gone", "own", "bf16", "meta", "expanded"])
    match kind:
        case "turned":
            return tensor.t() if tensor.dim() == 2 else tensor
        case "columns":
            return tensor[..., ::2] if tensor.dim() else tensor
        case "negated":
            return torch._neg_view(tensor)
        case "leaf":
            return tensor.requires_grad_() if tensor.is_floating_point() else tensor
        case "parameter":
            return torch.nn.Parameter(tensor, requires_grad=rng.random() < 0.5 and tensor.is_floating_point())
        case "inference":
            with torch.inference_mode():
                return tensor.clone()
        case "sparse":
            return tensor.float().to_sparse()
        case "shrunk" | "gone":
            tensor = tensor.clone()
            tensor.untyped_storage().resize_(0 if kind == "gone" else tensor.untyped_storage().nbytes() // 2)
            return tensor
        case "own":
            return tensor.as_subclass(type("Own", (torch.Tensor,), {}))
        case "bf16":
            return tensor.to(torch.bfloat16)
        case "meta":
            return tensor.to("meta")
        case "expanded":
            return tensor.reshape(-1)[:1].expand(8) if tensor.numel() else tensor
    return tensor


def as_eas(rng, array):
    plain = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("="))
    tensor = eas.tensor(plain if rng.random() < 0.5 else plain.copy())
    kind = rng.choice(["plain"] * 6 + ["lazy", "other", "bf16", "turned", "torch", "class"])
    match kind:
        case "lazy":
            return tensor + 1
        case "other":
            return tensor.to("i16")
        case "bf16":
            return tensor.to("bf16")
        case "turned":
            return tensor.T if tensor.ndim == 2 else tensor
        case "torch":
            return eas.from_torch(pytest.importorskip("torch").from_numpy(plain.copy()))
        case "class":
            return type("Own", (eas.Tensor,), {})(tensor._array, tensor.dtype) if tensor.size else tensor
    return tensor


def buffer(rng, dtype, others):
    if others and rng.random() < 0.15:  # the memory of another argument, or some of it
        other = rng.choice(others)
        return other if type(other) is not np.ndarray or rng.random() < 0.5 else other.reshape(-1)[rng.randrange(3) :] if other.ndim else other
    dtype = dtype if rng.random() < 0.95 else rng.choice([np.float64, np.uint16, np.float16, np.longlong])
    memory = np.zeros((16, 12), dtype)
    array = in_form(rng, memory)
    match rng.choice(["numpy"] * 5 + ["torch"] * 3 + ["eas"] * 3 + ["other"]):
        case "torch" if array.dtype.isnative and array.dtype != np.longlong:
            return as_torch(rng, array)
        case "eas" if array.dtype.isnative and array.dtype != np.longlong:
            return as_eas(rng, array)
        case "other":
            return rng.choice([None, 3, [1.0], (1, 2), "x", Exported(memory), memoryview(memory), np.float32(3)])
    return array


def number(rng, usual):
    return rng.choice(usual) if rng.random() < 0.85 else rng.choice([0, -1, 2**31 - 1, 2**31, -(2**31) - 1, 2**63 - 1, 2**63, -(2**63), 2**100, True, False, 1.0, float("nan"), -0.0, 1e39, None, np.int32(4), np.float32(1), np.True_, "x"])


def random_grid(rng):
    return None if rng.random() < 0.7 else rng.choice([4, (4,), (2, 3), (1, 2, 3), (0, 5), (), (1, 1, 1, 1), (-1,), -1, 2**31, (2**31 - 1,) * 2, (2**31 - 1,) * 3, (2**31 - 1, 2**31 - 1, 0), 1.5, (1.0,), (True,), True, [1], lambda meta: 1, np.int64(3), (2**100,)])


def spread(rng, values):
    """Values by position and by name, sometimes too few, too many, or of other names."""
    names = list(values)
    if rng.random() < 0.05:
        del values[names.pop(rng.randrange(len(names)))]
    split = rng.randrange(len(names) + 1) if rng.random() < 0.5 else len(names)
    args = [values[name] for name in names[:split]]
    kwargs = {name: values[name] for name in rng.sample(names[split:], len(names) - split)}
    if rng.random() < 0.03:
        kwargs[rng.choice(["M", "x", "small", *names])] = 1
    if rng.random() < 0.02:
        args += [1] * rng.randrange(1, 4)
    return tuple(args), kwargs


def flat_call(rng):
    found = []
    for _ in range(3):
        found.append(buffer(rng, np.float32, found))
    values = dict(zip(("x", "y", "out"), found, strict=True)) | {"N": number(rng, [0, 1, 16, 100, 64])}
    return values | ({"BLOCK": rng.choice([64, 64, int("64"), 32, 64.0, np.int64(64)])} if rng.random() < 0.5 else {})


def bf16_call(rng):
    values = flat_call(rng)
    for name in [name for name in ("x", "y", "out") if rng.random() < 0.8]:
        tensor = eas.zeros(16, 12, dtype="bf16")
        values[name] = tensor.to_torch() if find_spec("torch") and rng.random() < 0.5 else tensor
    return values


def rows_call(rng):
    found = []
    for _ in range(2):
        found.append(buffer(rng, np.float32, found))
    return {"x": found[0], "out": found[1], "W": number(rng, [12, 16, 6]), "H": number(rng, [16, 4, 0]), "BLOCK": rng.choice([16, 16, 16, 8])}


def numbers_call(rng):
    values = {
        "out": buffer(rng, np.float32, []), "small": number(rng, [1, 5, -7]), "large": number(rng, [2**40, -(2**40)]),
        "real": number(rng, [1.5, -0.0, float("inf"), 1e-46]), "flag": number(rng, [True, False]),
    }  # fmt: skip
    if rng.random() < 0.3:
        values["extra"] = rng.choice([None, 1])
        if rng.random() < 0.5:
            values["MODE"] = rng.choice(["plain", "".join(["pl", "ain"]), "twice"])
    return values


def x(*shape):
    return np.zeros(shape, np.float32)


CASES = {
    "flat": (lambda: plan_of(flat, x(99), x(99), x(99), 99), flat_call),
    "flat bf16": (lambda: plan_of(flat, *(eas.zeros(64, dtype="bf16") for _ in range(3)), 64), bf16_call),
    "rows": (lambda: plan_of(rows, x(16, 12), x(16, 12), 12, 16, BLOCK=16), rows_call),
    "numbers": (lambda: plan_of(numbers, x(4), 1, 2**40, 1.5, True), numbers_call),
}


@pytest.mark.parametrize("case", CASES)
def test_native_code_reads_what_python_reads(case, monkeypatch):
    make, call = CASES[case]
    native, rng, n_good, n_bad = make(), random.Random(case), 0, 0
    for turn in range(N_CALLS):
        args, kwargs = spread(rng, call(rng))
        grid = random_grid(rng)
        with monkeypatch.context() as patch:
            if turn % 50 == 49:
                patch.setitem(globals(), "SCALE", 3.0)
            data, reading = native.read(args, kwargs, grid), interpret(native.plan, args, kwargs, grid)
        assert (data is NotImplemented) == (reading is None), (list(map(type, args)), args, kwargs, grid, reading)
        if reading is None:
            n_bad += 1
            continue
        n_good += 1
        words, sizes, ends, found_grid, facts = native.frame_words(data)
        assert [(bits, size, end) for bits, size, end in zip(words, sizes, ends, strict=True)] == list(reading.words), (args, kwargs)
        assert (found_grid, facts) == (reading.grid, frozenset(reading.facts)), (args, kwargs, grid)
    assert n_good > N_CALLS / 20
    assert n_bad > N_CALLS / 20


def test_a_changed_global_is_refused_by_both(monkeypatch):
    native, call = CASES["flat"][0](), (x(99), x(99), x(99), 99)
    assert native.read(call, {}, None) is not NotImplemented
    assert interpret(native.plan, call, {}, None) is not None
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert native.read(call, {}, None) is NotImplemented
    assert interpret(native.plan, call, {}, None) is None
