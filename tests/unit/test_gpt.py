"""The small GPT: its losses with eas kernels equal those of plain torch, compiled or not."""

from __future__ import annotations

import shutil

import pytest

torch = pytest.importorskip("torch")

from examples.gpt import EasOps, Sizes, TorchOps, Training, train  # noqa: E402

SMALL = Sizes(layers=2, width=64, heads=2, vocabulary=96, context=40)


def test_losses_equal_those_of_torch():
    runs = [Training(EasOps, SMALL), Training(TorchOps, SMALL)]
    train(runs, 10, batch=2, sizes=SMALL)
    assert runs[0].losses == pytest.approx(runs[1].losses, abs=1e-4)
    assert runs[0].losses[-1] < runs[0].losses[0]


@pytest.mark.slow
def test_fifty_steps_of_the_whole_network():
    """All layers at full width; short sequences, so that it takes seconds."""
    sizes = Sizes(context=24)
    assert (sizes.layers, sizes.width, sizes.vocabulary) == (4, 256, 512)
    runs = [Training(EasOps, sizes), Training(TorchOps, sizes)]
    train(runs, 50, batch=2, sizes=sizes)
    assert runs[0].losses == pytest.approx(runs[1].losses, rel=2e-3)


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler (g++)")
def test_compiled_without_a_graph_break():
    runs = [Training(EasOps, SMALL, compiled=True), Training(TorchOps, SMALL)]
    train(runs, 3, batch=2, sizes=SMALL)
    assert runs[0].losses == pytest.approx(runs[1].losses, abs=1e-4)
