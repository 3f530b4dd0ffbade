"""Compilation gives the same texts and the same cache keys in every process, whatever its hash seed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEEDS = ("0", "1", "2", "3", "random")
KERNELS = ("softmax_kernel", "matmul_kernel", "attention_kernel", "tree_sum_kernel", "histogram_kernel", "layer_norm_kernel")

# Prints a JSON object: kernel -> {what: text}.
SCRIPT = '''
import json
import numpy as np
from eas.ir.text import print_module
from eas.runtime.disk_cache import DiskCache
from examples import flash_attention, histogram, layer_norm, matmul, softmax, thread_reduction

f, i = np.zeros(64, np.float32), np.zeros(64, np.int32)
CALLS = [
    (softmax.softmax_kernel, (f, f.copy(), 8, 8), dict(BLOCK=8)),
    (matmul.matmul_kernel, (f, f, f.copy(), 8, 8, 8, 8, 1, 8, 1, 8, 1), dict(BM=16, BN=16, BK=16, GROUP=8)),
    (flash_attention.attention_kernel, (f, f, f, f.copy(), 4, 0.5), dict(D=16, BM=16, BN=16, CAUSAL=True)),
    (thread_reduction.tree_sum_kernel, (f, f.copy(), 64), dict(BLOCK=64)),
    (histogram.histogram_kernel, (i, i.copy(), 64), dict(BINS=64, BLOCK=32)),
    (layer_norm.layer_norm_kernel, (f, f.copy(), f, f, 64, 1e-5), dict(BLOCK=32)),
]
keys = []
DiskCache.get = lambda self, key: keys.append(key)
DiskCache.put = lambda self, key, data: None

results = {}
for kernel, args, meta in CALLS:
    keys.clear()
    k = kernel.compile(*args, **meta)
    every = k.variant(frozenset(k.facts))
    codes = [v.native.llvm for v in (k.variant(frozenset()), every)]
    results[k.name] = {
        "traced": print_module(k.traced), "optimised": print_module(k.ir), "specialised": print_module(every.module),
        "facts": [str(fact) for fact in k.facts], "index": k.index_analysis.dump(), "keys": sorted(keys), "codes": codes,
        "order": [k.arg_names, k.reads, k.writes], "metal": [every.metal.text, k.msl, every.metal.layouts],
    }
print(json.dumps(results))
'''


@pytest.fixture(scope="module")
def compiled():
    """What each process found; they run side by side."""
    env = {n: v for n, v in os.environ.items() if not n.startswith("EAS_")}
    processes = [
        subprocess.Popen([sys.executable, "-c", SCRIPT], cwd=ROOT, env={**env, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE, text=True)
        for seed in SEEDS
    ]
    outputs = [p.communicate()[0] for p in processes]
    assert [p.returncode for p in processes] == [0] * len(SEEDS)
    return [json.loads(out) for out in outputs]


@pytest.mark.parametrize("name", KERNELS)
def test_all_processes_agree(compiled, name):
    first, *others = (result[name] for result in compiled)
    for what, text in first.items():
        assert all(other[what] == text for other in others), what


@pytest.mark.parametrize("name", KERNELS)
def test_texts_are_about_something(compiled, name):
    result = compiled[0][name]
    assert result["traced"].startswith(f"kernel {name}(")
    assert result["optimised"].startswith(f"kernel {name}(")
    keys = [key for key in result["keys"] if not key.startswith("summary")]  # of kernels of earlier processes
    assert len(keys) == len(set(keys)) == (2 if result["facts"] else 1)


def test_kernels_have_keys_of_their_own(compiled):
    keys = [key for result in compiled[0].values() for key in result["keys"]]
    assert len(set(keys)) == len(keys)
