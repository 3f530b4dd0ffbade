"""Stage "torch": torch tensors as arguments, on the CPU and, where torch has MPS, through layers A and B."""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any

import numpy as np

import eas
from eas import lib
from eas.base import config
from eas.runtime import get_runtime
from eas.torch.mps_stand_in import guard_device, stand_in
from eas.torch.mps_stand_in import why_unavailable as no_stand_in
from eas.verify import switching
from eas.verify.events import Recorder
from eas.verify.stages.build import add_kernel

N = 5000


def run(record: Recorder, _: str) -> None:
    """Sharing, launches, operators and gradients; what needs a torch with MPS says so where there is none."""
    if importlib.util.find_spec("torch") is None:
        record.skipped("torch", "not installed; pip install 'easy-as[torch]'")
        return
    torch = importlib.import_module("torch")
    why = get_runtime("mps").why_unavailable()
    has_mps, missing = torch.backends.mps.is_available(), no_stand_in()
    needs_stand_in = config.metal() == "software" and why is None and not has_mps
    if needs_stand_in and missing is None:
        guard_device()  # before the first `backward()`
    with switching.backend("cpu"):
        for check in (_shares_cpu_memory, _launches_on, _gradient_on):
            with record.checking(f"cpu: {check.__name__.strip('_').replace('_', ' ').removesuffix(' on')}"):
                check(torch, "cpu")
    if has_mps and why is None:
        _check_layers(record, torch, "")
    elif needs_stand_in and missing is not None:
        for layer in "AB":
            record.skipped(f"layer {layer}", f"this torch has no MPS, and there is no stand-in for it: {missing}")
    elif needs_stand_in:
        record.fact("torch.mps", "a stand-in on the software Metal, not torch's own")
        with stand_in(get_runtime("mps")):
            _check_layers(record, torch, ", on a stand-in for torch's MPS")
    else:
        for layer in "AB":
            record.skipped(f"layer {layer}", "this torch has no MPS: a Mac is needed" if why is None else why)


def _check_layers(record: Recorder, torch: Any, remark: str) -> None:
    with switching.backend("auto"):
        for layer in ("a", "b"):
            os.environ["EAS_TORCH_LAYER"] = layer
            for check in (_launches_on, _views_on, _ordered_on, _gradient_on):
                with record.checking(f"layer {layer.upper()}: {check.__name__.strip('_').replace('_', ' ').removesuffix(' on')}{remark}"):
                    check(torch, "mps")
        os.environ.pop("EAS_TORCH_LAYER")
        with record.checking(f"layer A: tensors are shared both ways{remark}"):
            _shares_metal_memory(torch)


def _shares_cpu_memory(torch: Any, device: str) -> None:
    x = torch.arange(16, dtype=torch.float32)
    y = eas.tensor(x, device="cpu")
    x += 1
    np.testing.assert_array_equal(y.numpy(), np.arange(1, 17, dtype=np.float32))


def _shares_metal_memory(torch: Any) -> None:
    x = torch.arange(4096, dtype=torch.float32, device="mps")
    shared = eas.tensor(x, device="mps")
    add_kernel(shared, shared, shared, 4096, BLOCK=256)
    np.testing.assert_array_equal(x.cpu().numpy(), 2.0 * np.arange(4096, dtype=np.float32))
    back = shared.to_torch("mps")
    back += 1
    torch.mps.synchronize()
    np.testing.assert_array_equal(shared.numpy(), 2.0 * np.arange(4096, dtype=np.float32) + 1)


def _launches_on(torch: Any, device: str) -> None:
    for dtype in (torch.float32, torch.float16, torch.int32, torch.int64, torch.uint8):
        a = torch.arange(N, device=device).remainder(60).to(dtype)
        b, c = a.flip(0).contiguous(), torch.zeros_like(a)
        add_kernel(a, b, c, N, BLOCK=256)
        assert torch.equal(c, a + b), f"{dtype} differs"


def _views_on(torch: Any, device: str) -> None:
    whole = torch.arange(3 * N, dtype=torch.float32, device=device)
    a, b, c = whole[1 : N + 1], whole[N + 3 : 2 * N + 3], torch.zeros(N + 7, device=device)[7:]
    add_kernel(a, b, c, N, BLOCK=256)
    assert torch.equal(c, a + b), "views with offsets differ"
    add_kernel(a, a, a, N, BLOCK=256)
    assert whole[:2].tolist() == [0, 2], "an output in place differs"


def _ordered_on(torch: Any, device: str) -> None:
    """Launches between operations of torch see their results, and those see ours, without a synchronisation by the user."""
    x = torch.zeros(1 << 20, device=device)
    for _ in range(50):
        x = x + 1
        add_kernel(x, x, x, x.numel(), BLOCK=1024)
        x = x / 2
    assert float(x.min()) == float(x.max()) == 50, f"between {float(x.min())} and {float(x.max())}, not 50"


def _gradient_on(torch: Any, device: str) -> None:
    x = torch.randn(8, 100, device=device, requires_grad=True)
    w = torch.randn(8, 100, device=device)
    (lib.softmax(x) * w).sum().backward()
    ours, x.grad = x.grad, None
    (torch.softmax(x, 1) * w).sum().backward()
    torch.testing.assert_close(ours, x.grad, rtol=1e-4, atol=1e-5)
