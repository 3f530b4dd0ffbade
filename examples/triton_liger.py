"""A small model trained on a CPU with Liger's Triton kernels, unchanged, beside the same model in plain torch."""

from __future__ import annotations

import importlib.util

import eas.triton

from .command_line import parse

MISSING = "liger-kernel is not installed: pip install --no-deps liger-kernel"


def train(torch, ops, steps: int, width: int = 64, words: int = 256) -> list[float]:
    """The losses of a model that learns which word follows which; `ops` are norm, gate and loss."""
    norm, gate, loss_of = ops
    torch.manual_seed(0)
    shapes = {"embed": (words, width), "scale": (width,), "up": (2 * width, width), "down": (width, width), "head": (words, width)}
    weights = {name: torch.nn.Parameter(torch.ones(shape) if name == "scale" else torch.randn(shape) / shape[-1] ** 0.5) for name, shape in shapes.items()}
    optimiser = torch.optim.Adam(weights.values(), 3e-3)
    losses = []
    for _ in range(steps):
        asked = torch.randint(0, words, (128,))
        x = weights["embed"][asked]
        hidden = norm(x, weights["scale"])
        a, b = (hidden @ weights["up"].t()).chunk(2, -1)
        logits = (x + gate(a, b) @ weights["down"].t()) @ weights["head"].t()
        loss = loss_of(logits, (asked * 7 + 3) % words)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def liger_ops():
    """Norm, gate and loss by Liger's kernels."""
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction

    return (
        lambda x, w: LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, "llama", False),
        lambda a, b: LigerSiLUMulFunction.apply(a.contiguous(), b.contiguous()),
        lambda logits, target: LigerCrossEntropyFunction.apply(logits, target, None)[0],
    )


def torch_ops(torch):
    """The same by torch's own operators."""
    functional = torch.nn.functional
    return (
        lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w,
        lambda a, b: functional.silu(a) * b,
        functional.cross_entropy,
    )


def main() -> None:
    options = parse(__doc__, steps=60)
    if importlib.util.find_spec("liger_kernel") is None:
        print(MISSING)
        return
    eas.triton.install(replace=True)
    import torch

    ours, theirs = train(torch, liger_ops(), options.steps), train(torch, torch_ops(torch), options.steps)
    apart = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    print(f"loss {ours[0]:.3f} -> {ours[-1]:.3f} with Liger's kernels, {theirs[-1]:.3f} with torch; largest difference {apart:.2g}: {'ok' if apart < 1e-3 and ours[-1] < ours[0] else 'WRONG'}")


if __name__ == "__main__":
    main()
