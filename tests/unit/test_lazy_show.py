"""What is told of lazy tensors: seed 004's log level by level, and `tensor.explain()`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import eas
from eas.explain import plan_page
from eas.explain.machine import Roof
from eas.runtime import debug
from tests.unit.test_explain import Tags

ROOT = Path(__file__).parents[2]
SCRIPT = """
from eas import Tensor
a = Tensor([1, 2])
b = Tensor([3, 4])
res = a.dot(b).numpy()
print(res)
"""


@pytest.fixture(autouse=True)
def _known_roof(monkeypatch):
    monkeypatch.setattr(plan_page, "roof_of", lambda runtime, seen=0.0: Roof(20e9, 200e9, "a machine"))


def run(tmp_path, name, level):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    env = {**os.environ, "EAS_DEBUG": str(level), "EAS_NOOPT": "1", "EAS_BACKEND": name, "PYTHONPATH": str(ROOT), "EAS_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "11\n"
    return done.stderr


@pytest.mark.parametrize(("name", "text"), [("interp", ""), ("cpu", "LLVM"), ("sim", "MSL")])
def test_seed_004_prints_what_its_log_prints_in_that_order(tmp_path, name, text):
    if not eas.runtime.get_runtime(name).is_available():
        pytest.skip(f"needs the {name} backend")
    if name == "cpu":
        run(tmp_path, name, 5)  # what an earlier process compiled is told as well
    told = run(tmp_path, name, 5)
    kinds = [
        r"^opened device CPU from pid:\d+$", r"^\*\*\* CPU +1 copy +8, +CPU <- PYTHON .* tm ", r"^\*\*\* CPU +2 copy +8, ",
        r"^\*\*\* realise .* in 1 kernel: numpy\(\) at script\.py:5$", r"^\*\*\* graph of \d+ nodes$", r"^ +%\d+ mul +: i32", r"^ +%\d+ sum +: i32", r"^\*\*\* IR of r_sum_mul",
        *([rf"^\*\*\* {text} of r_sum_mul"] if text else []),
        rf"^\*\*\* {name.upper()} +3 r_2_sum_mul +grid \(1,1,1\) +mem +[\d.]+ GB tm +[\d.]+us/ +[\d.]+ms \( +[\d.]+ GFLOPS +[\d.]+ GB/s\)$",
        r"^avg: +[\d.]+ GFLOPS +[\d.]+ GB/s +total: +1 kernels +2 copies ",
    ]  # fmt: skip
    at = 0
    for kind in kinds:
        found = re.compile(kind, re.MULTILINE).search(told, at)
        assert found, f"{kind} is missing after:\n{told[:at][-400:]}"
        at = found.end()


@pytest.fixture
def told(monkeypatch, capsys):
    """What `EAS_DEBUG` prints of realising a tensor, at a level."""
    monkeypatch.setenv("EAS_BACKEND", "interp")
    monkeypatch.setattr(debug, "atexit", types.SimpleNamespace(register=lambda _: None))

    def realise(make, level):
        monkeypatch.setattr(debug, "_ledger", debug.Ledger())
        monkeypatch.setenv("EAS_DEBUG", str(level))
        make().tolist()
        return capsys.readouterr().err

    return realise


def test_each_level_adds_to_the_one_below(told):
    texts = [told(lambda: eas.Tensor([1, 2]).dot(eas.Tensor([3, 4])), level) for level in (0, 1, 2, 3)]
    assert [[word in text for word in ("opened", "copy", "realise", "graph of", "IR of")] for text in texts] == [
        [False, False, False, False, False], [True, False, False, False, False], [True, True, True, False, False], [True, True, True, True, False],
    ]  # fmt: skip


def test_cuts_are_told_with_their_reasons(told):
    x = eas.tensor(np.ones((4, 4), np.float32))
    text = told(lambda: (x @ x) @ x, 3)
    assert "tolist() at test_lazy_show.py:" in text
    assert re.search(r"^     cut %\d+ -> %\d+: ", text, re.MULTILINE)


def test_a_mask_that_is_computed_for_an_index_is_told(told):
    x = eas.tensor(np.ones((4, 4), np.float32))
    text = told(lambda: x[x > 0], 2)
    assert "the mask bool[4, 4] of an index is computed now: the shape of the result depends on it" in text
    assert re.search(r"realise gt bool\[4, 4\] in 1 kernel: __getitem__\(\) at test_lazy_show.py:", text)


def test_tensor_explains_itself_and_stays_lazy():
    x = eas.tensor(np.arange(64, dtype=np.float32).reshape(8, 8))
    y = ((x @ x) * 2 - 1).softmax(1)
    page = y.explain()
    assert not y._is_realised
    words = " ".join(Tags(page.html).words)
    for expected in ("matmul f32[8,8]", "As it was written", "As it runs", "Why it is not one kernel", "y = ((x @ x) * 2 - 1).softmax(1)", "until it has run"):
        assert expected in words, expected
    assert eas.explain(y).title == page.title
    np.testing.assert_allclose(y.numpy().sum(1), 1, rtol=1e-6)


def test_pages_of_tensors_without_work():
    assert "nothing will run" in eas.ones(3).explain().html
    assert "nothing will run" in (eas.empty(0) + 1).explain().html


def test_calls_of_the_library_have_a_place():
    x = eas.tensor(np.random.default_rng(0).random((4, 32), dtype=np.float32))
    made = x.topk(3)
    values = made[0] if isinstance(made, tuple) else made
    assert "A function of eas.lib computes this" in (values * 2).explain().html
