"""What users see of eas outside of kernels: commands, notebooks, tables, types."""

import linecache
import re
from pathlib import Path

import numpy as np
import pytest

import eas
import eas.__main__ as cli
from eas import mk
from eas.tools.autotune_report import Tried, table

ROOT = Path(__file__).parents[2]

SCRIPT = """import numpy as np
import eas
from eas import mk
from beside import FACTOR

@eas.kernel
def scale(x, y, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, i, mk.load(x, i, i < N) * FACTOR, i < N)

@eas.kernel
def idle(x):
    mk.store(x, 0, 1.0)

if __name__ == "__main__":
    x = np.ones(1000, np.float32)
    scale[4](x, x, 1000, BLOCK=256)
    print("the script ran")
    raise SystemExit(0)
"""


@pytest.fixture
def script(tmp_path):
    (tmp_path / "beside.py").write_text("FACTOR = 3.0\n")
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_no_command_prints_the_help(capsys):
    assert cli.main([]) == 0
    told = capsys.readouterr().out
    assert all(re.search(rf"^    {word} ", told, re.M) for word in ("demo", "show", "msl", "bench", "doctor", "env", "sim", "verify"))


def test_kernels_of_any_file(script, capsys):
    assert cli.main(["show", f"{script}:scale"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(f"kernel scale(x, y, N, BLOCK: constexpr) at {script}:6")
    assert "reads x; writes y" in shown.out
    assert "kernel scale(%x: ptr<f32>" in shown.out
    assert "the script ran" in shown.err
    assert cli.main(["msl", str(script)]) == 0
    assert "kernel void scale(" in capsys.readouterr().out
    assert cli.main(["bench", f"{script}:scale", "--seconds", "0.01"]) == 0
    assert re.match(r"scale on \w+: best [\d.]+ us, median [\d.]+ us of \d+ launches, [\d.]+ GB/s", capsys.readouterr().out)


def test_kernels_that_are_not_there(script, capsys):
    for place, said in ((f"{script}:scal", f"did you mean {script}:scale?"), (f"{script}:frob", "it has scale, idle"), (f"{script}:idle", f"give its arguments, as in {script}:idle x=f32[1000]"), ("nowhere.py:k", "there is no file nowhere.py")):
        assert cli.main(["show", place]) == 1
        assert said in capsys.readouterr().err


def test_kernels_that_the_file_only_defines_get_arguments_by_text(script, capsys):
    assert cli.main(["show", f"{script}:idle", "x=f16[4,2]"]) == 0
    assert "kernel idle(%x: ptr<f16>)" in capsys.readouterr().out
    assert cli.main(["bench", f"{script}:idle", "x=i32[4]", "_grid=2", "--seconds", "0.01"]) == 0
    assert capsys.readouterr().out.startswith("idle on ")
    assert cli.main(["show", f"{script}:scale", "BLOCK=128"]) == 0  # the rest as the script launches it
    assert "block 128" in capsys.readouterr().out
    for text, said in (("x=f32[", "is no argument of a kernel"), ("x=foo[3]", "there is no dtype named 'foo'"), ("y=3", "idle has no argument `y`")):
        assert cli.main(["show", f"{script}:idle", text]) == 1
        assert said in capsys.readouterr().err


def test_demo(capsys):
    assert cli.main(["demo"]) == 0
    told = capsys.readouterr().out
    assert "softmax of 4096 x 1000 on" in told
    assert "kernel void softmax(" in told
    assert "mk.store(y, mk.exp(mk.load(x, i)))\n        ^^^" in told  # the error shows the line


@eas.kernel
def shown(x, N, BLOCK: eas.constexpr):
    mk.store(x, mk.arange(0, BLOCK), 1.0 if N < 3 else 2.0)


def test_kernels_in_a_notebook():
    assert str(shown).startswith(f"kernel shown(x, N, BLOCK: constexpr) at {__file__}:")
    assert "<em>not compiled yet</em>" in shown._repr_html_()
    shown.compile(np.zeros(8, np.float32), 1, BLOCK=8)
    html = shown._repr_html_()
    assert "1.0 if N &lt; 3 else 2.0" in html
    assert "x: ptr&lt;f32&gt;, N: i32" in html


def test_tensors_in_a_notebook():
    html = eas.tensor(np.arange(600, dtype=np.float32).reshape(2, 3, 100))._repr_html_()
    assert "2 x 3 x 100, f32, cpu" in html
    assert html.count("<tr>") == 3
    assert "<td>...</td><td>95</td>" in html
    assert "<td>7</td>" in eas.tensor(np.full(3, 7, np.int32))._repr_html_()
    assert "a scalar" in eas.tensor(np.float32(2))._repr_html_()


def test_the_table_of_autotune():
    rows = [Tried("Config({'BLOCK': 64})", 2e-5, ""), Tried("Config({'BLOCK': 256})", 1e-5, ""), Tried("Config({'BLOCK': 9})", None, "ShapeMismatch: no")]
    assert table("halve", "cpu", rows, 1, "/cache").splitlines() == [
        "autotune halve on cpu: 3 configs",
        "    Config({'BLOCK': 64})         20.00 us   2.00x",
        "  > Config({'BLOCK': 256})        10.00 us   1.00x",
        "    Config({'BLOCK': 9})              -    ShapeMismatch: no",
        "  chosen: Config({'BLOCK': 256}), kept in /cache",
    ]


def test_autotune_tells_under_debug(monkeypatch, capsys):
    monkeypatch.setenv("EAS_DEBUG", "1")

    @eas.autotune(configs=[eas.Config({"BLOCK": n}) for n in (64, 128)], key=["N"], warmup=0, repeat=1)
    @eas.kernel
    def halve(x, N, BLOCK: eas.constexpr):
        i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
        mk.store(x, i, mk.load(x, i, i < N) * 0.5, i < N)

    halve(np.ones(100, np.float32), 100)
    told = capsys.readouterr().err
    assert "autotune halve on cpu: 2 configs" in told
    assert "kept in " in told


CELL = """
@eas.kernel
def times(x, y, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, i, mk.load(x, i, i < N) * FACTOR, i < N)

def back(grad: torch.Tensor) -> torch.Tensor:
    return grad * FACTOR

@eas.torch_op("test_tools::scaled", backward=back)
def scaled(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    times(x, y, x.numel(), BLOCK=64)
    return y

@eas.torch_op("test_tools::changed", mutates_args=["x"])
def changed(x: torch.Tensor) -> None:
    times(x, x, x.numel(), BLOCK=64)
"""


def test_autotuned_kernels_show_their_configs_in_notebooks():
    @eas.autotune(configs=[eas.Config({"BLOCK": n}) for n in (8, 16)], key=["N"], warmup=1, repeat=1)
    @eas.kernel
    def filled(x, N, BLOCK: eas.constexpr):
        i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
        mk.store(x, i, 1.0, i < N)

    html = filled._repr_html_()
    assert "def filled(x, N, BLOCK: eas.constexpr):" in html
    assert "<td>Config({&#x27;BLOCK&#x27;: 8})</td><td></td>" in html
    filled(np.zeros(16, np.float32), 16)
    assert filled._repr_html_().count("<td>chosen</td>") == 1


def test_a_cell_with_an_operator_runs_twice():
    torch = pytest.importorskip("torch")
    for number, factor in enumerate((2.0, 3.0)):
        name = f"<ipython-input-{number}-tools>"
        linecache.cache[name] = (len(CELL), None, CELL.splitlines(keepends=True), name)
        cell = {"__name__": "__main__", "FACTOR": factor, "torch": torch, "eas": eas, "mk": mk}
        exec(compile(CELL, name, "exec"), cell)
        x, y = torch.ones(3, requires_grad=True), torch.ones(2)
        out = cell["scaled"](x)
        out.sum().backward()
        cell["changed"](y)
        assert out.tolist() == x.grad.tolist() == [factor] * 3
        assert y.tolist() == [factor] * 2
        assert torch.compile(cell["scaled"], backend="eager", fullgraph=True)(torch.ones(2)).tolist() == [factor] * 2


def test_the_name_of_another_operator_is_not_taken():
    torch = pytest.importorskip("torch")

    def first(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    def second(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    eas.torch_op("test_tools::taken")(first)
    with pytest.raises(RuntimeError, match="taken"):
        eas.torch_op("test_tools::taken")(second)


CONSTANTS = """import eas
from eas import mk


def half(n: eas.constexpr) -> int:
    return n // 2


@eas.kernel
def kernel(x: mk.Buffer, BLOCK: eas.constexpr = 128, fn: eas.constexpr = None, dtype: eas.constexpr = mk.f32) -> None:
    i = mk.arange(0, BLOCK) + half(BLOCK) + [1, 2][BLOCK - 1]
    for j in range(BLOCK):
        i = i + j if fn is None else fn(i)
    mk.store(x, i, mk.zeros([BLOCK], dtype) + i.to(dtype))
"""


def test_the_quick_start_is_typed_and_misspellings_are_not(tmp_path):
    api = pytest.importorskip("mypy.api")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    good, first = tmp_path / "quick_start.py", tmp_path / "first.py"
    good.write_text(next(b for b in blocks if "def add_kernel" in b))
    first.write_text(blocks[0])
    bad = tmp_path / "misspelt.py"
    bad.write_text("import eas\nfrom eas import mk\n\nmk.nonsense\neas.nonsense\n\n\ndef f(n: eas.constexpr) -> int:\n    return n + len(mk.f32)\n")
    constants = tmp_path / "constants.py"
    constants.write_text(CONSTANTS)
    told, errors, _ = api.run(["--strict", "--no-error-summary", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache"), str(good), str(first), str(bad), str(constants)])
    assert not errors
    lines = [re.sub(r".*misspelt.py:(\d+): .*\[(.*)\]$", r"\1 \2", line) for line in told.splitlines()]
    assert lines == ["4 attr-defined", "5 attr-defined", "9 arg-type"], told
