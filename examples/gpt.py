"""A small GPT trained with eas kernels inside torch autograd, beside the same network in plain torch.

    python -m examples.gpt --steps 50
    python -m examples.gpt --compare    # both losses and the time of a step, measured in turns
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eas import lib


@dataclass(frozen=True)
class Sizes:
    """What the network looks like."""

    layers: int = 4
    width: int = 256
    heads: int = 4
    vocabulary: int = 512
    context: int = 128


SIZES = Sizes()


class EasOps:
    """The parts that eas computes, forward and backward."""

    layer_norm = staticmethod(lib.layer_norm)
    bias_gelu = staticmethod(lib.bias_gelu)
    cross_entropy = staticmethod(lib.cross_entropy)

    @staticmethod
    def attention(qkv: Tensor) -> Tensor:
        return lib.attention_qkv(qkv, causal=True).flatten(-2)


class TorchOps:
    """The same parts by torch."""

    cross_entropy = staticmethod(F.cross_entropy)

    @staticmethod
    def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.layer_norm(x, weight.shape, weight, bias)

    @staticmethod
    def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
        return F.gelu(x + bias)

    @staticmethod
    def attention(qkv: Tensor) -> Tensor:
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2)


class Norm(nn.Module):
    """Layer norm over the last axis."""

    def __init__(self, width: int, ops: Any) -> None:
        super().__init__()
        self.ops = ops
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.ops.layer_norm(x, self.weight, self.bias)


class Layer(nn.Module):
    """Attention, then an MLP, each behind a norm and added to its input."""

    def __init__(self, sizes: Sizes, ops: Any) -> None:
        super().__init__()
        self.ops, self.heads = ops, sizes.heads
        self.norm1, self.norm2 = Norm(sizes.width, ops), Norm(sizes.width, ops)
        self.qkv = nn.Linear(sizes.width, 3 * sizes.width)
        self.join = nn.Linear(sizes.width, sizes.width)
        # Torch adds the bias of `up` inside of its product; with eas it is part of the GELU kernel.
        self.up = nn.Linear(sizes.width, 4 * sizes.width)
        self.down = nn.Linear(4 * sizes.width, sizes.width)

    def attend(self, x: Tensor) -> Tensor:
        batch, n, width = x.shape
        return self.join(self.ops.attention(self.qkv(x).view(batch, n, 3, self.heads, width // self.heads)))

    def mlp(self, x: Tensor) -> Tensor:
        if self.ops is TorchOps:
            return self.down(F.gelu(self.up(x)))
        return self.down(self.ops.bias_gelu(F.linear(x, self.up.weight), self.up.bias))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A decoder; `ops` says who computes norms, attention, GELU and the loss."""

    def __init__(self, sizes: Sizes = SIZES, ops: Any = EasOps) -> None:
        super().__init__()
        self.ops = ops
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.width)
        self.places = nn.Embedding(sizes.context, sizes.width)
        self.layers = nn.ModuleList(Layer(sizes, ops) for _ in range(sizes.layers))
        self.norm = Norm(sizes.width, ops)
        self.head = nn.Linear(sizes.width, sizes.vocabulary, bias=False)

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        return self.ops.cross_entropy(logits.flatten(0, 1), target.flatten())


def batches(sizes: Sizes, batch: int, seed: int = 0) -> Any:
    """Endless sequences in which the next token mostly follows from the last one."""
    rng = torch.Generator().manual_seed(seed)
    successor = torch.randperm(sizes.vocabulary, generator=rng)
    while True:
        ids = torch.randint(sizes.vocabulary, (batch, sizes.context + 1), generator=rng)
        for i in range(1, sizes.context + 1):
            follows = torch.rand(batch, generator=rng) < 0.9
            ids[:, i] = torch.where(follows, successor[ids[:, i - 1]], ids[:, i])
        yield ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


class Training:
    """One network with its optimiser; networks with equal seeds start equal."""

    def __init__(self, ops: Any, sizes: Sizes = SIZES, compiled: bool = False) -> None:
        torch.manual_seed(0)
        self.network = GPT(sizes, ops)
        self.call = torch.compile(self.network, fullgraph=True) if compiled else self.network
        self.optimiser = torch.optim.AdamW(self.network.parameters(), lr=1e-3)
        self.losses: list[float] = []
        self.seconds: list[float] = []

    def step(self, ids: Tensor, target: Tensor) -> None:
        start = time.perf_counter()
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.call(ids, target)
        loss.backward()
        self.optimiser.step()
        self.seconds.append(time.perf_counter() - start)
        self.losses.append(loss.item())


def train(runs: list[Training], steps: int, batch: int = 8, sizes: Sizes = SIZES) -> None:
    """Train all of them on the same data, step by step in turns."""
    data = batches(sizes, batch)
    for i in range(steps):
        ids, target = next(data)
        for run in runs if i % 2 else reversed(runs):
            run.step(ids, target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--compare", action="store_true", help="train plain torch, too")
    parser.add_argument("--compile", action="store_true", help="through torch.compile(fullgraph=True)")
    given = parser.parse_args()
    runs = [Training(EasOps, compiled=given.compile)]
    if given.compare:
        runs.append(Training(TorchOps, compiled=given.compile))
    train(runs, given.steps, given.batch)
    for run, name in zip(runs, ("eas", "torch"), strict=False):
        steady = sorted(run.seconds[len(run.seconds) // 5 :])
        print(f"{name:6} loss {run.losses[0]:.4f} -> {run.losses[-1]:.4f}   step {1e3 * steady[len(steady) // 2]:.1f} ms median, {1e3 * steady[0]:.1f} ms best")
    if given.compare:
        warm = len(runs[0].seconds) // 5  # the first steps compile kernels
        ratio = sorted(a / b for a, b in zip(runs[0].seconds[warm:], runs[1].seconds[warm:], strict=True))
        far = max(abs(a - b) for a, b in zip(runs[0].losses, runs[1].losses, strict=True))
        print(f"time of a step, eas / torch: {ratio[len(ratio) // 2]:.3f} median; largest difference of losses {far:.2e}")


if __name__ == "__main__":
    main()
