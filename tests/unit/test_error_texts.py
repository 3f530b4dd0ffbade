"""What new users ran into: the texts name what they wrote, and what works."""

import ast
import linecache

import numpy as np
import pytest

import eas
from eas import mk


def test_operators_need_type_hints():
    torch = pytest.importorskip("torch")

    def untyped(x, scale: float):
        return x

    def backward(grad, x: torch.Tensor) -> torch.Tensor:
        return grad

    def odd(x: np.ndarray) -> torch.Tensor:
        return x

    def square(x: torch.Tensor) -> torch.Tensor:
        return x * x

    with pytest.raises(eas.ArgumentError, match="untyped becomes an operator of torch by its type hints, which are missing for parameter `x` and its result") as error:
        eas.torch_op("test_error_texts::untyped")(untyped)
    assert "def untyped(x, scale: float):" in str(error.value)
    assert "torch.Tensor, torch.Tensor | None, int, float" in str(error.value)
    with pytest.raises(eas.ArgumentError, match="backward becomes an operator of torch by its type hints, which are missing for parameter `grad`"):
        eas.torch_op("test_error_texts::square", backward=backward)(square)
    with pytest.raises(eas.ArgumentError, match="odd cannot become an operator of torch: Parameter x has unsupported type") as error:
        eas.torch_op("test_error_texts::odd")(odd)
    assert "dict_keys" not in str(error.value)
    with pytest.raises(eas.ArgumentError, match="missing for parameter `x` and its result"):
        eas.torch_op("test_error_texts::writes", mutates_args=["x"])(lambda x: None)


def test_torch_compile_names_what_a_kernel_needs():
    torch = pytest.importorskip("torch")

    @eas.kernel
    def copy(x, y, N, BLOCK: eas.constexpr):
        i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
        mk.store(y, i, mk.load(x, i, i < N), i < N)

    def copied(x):
        y = torch.empty_like(x)
        copy(x, y, x.numel(), BLOCK=64)
        return y

    with pytest.raises(Exception, match=r"eas\.torch_op"):
        torch.compile(copied, fullgraph=True, backend="eager")(torch.ones(4))
    assert copied(torch.ones(4)).tolist() == [1, 1, 1, 1]


CELL = """import eas
from eas import mk

@eas.kernel
def counted(x, N):
    for i in range(N):
        mk.store(x, i, float(mk.cdiv(7, 2)))
"""


def test_cells_whose_statements_are_compiled_one_by_one():
    """As IPython does: an import in the same cell then changes how CPython compiles calls."""
    name, namespace = "<ipython-input-3-test>", {"__name__": "__main__"}
    linecache.cache[name] = (len(CELL), None, CELL.splitlines(keepends=True), name)
    for statement in ast.parse(CELL).body:
        exec(compile(ast.Module([statement], []), name, "exec"), namespace)
    x = np.zeros(4, np.float32)
    namespace["counted"](x, 3)
    assert x.tolist() == [4, 4, 4, 0]


def test_names_that_nobody_has():
    with pytest.raises(AttributeError) as error:
        eas.kernal  # noqa: B018
    assert (error.value.name, error.value.obj) == ("kernal", eas)  # Python then asks: Did you mean: 'kernel'?
