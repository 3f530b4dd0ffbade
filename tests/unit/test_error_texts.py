"""What new users ran into: the texts name what they wrote, and what works."""

import ast
import linecache
import re

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


def _refused(kernel):
    x = np.ones(8, np.float32)
    with pytest.raises(Exception) as error:  # noqa: PT011
        kernel[1](x, np.zeros_like(x), 4)
    return "\n".join([str(error.value), *getattr(error.value, "__notes__", [])])


def test_calls_without_an_argument_say_which():
    @eas.kernel
    def no_value(x, y, n):
        mk.store(y + mk.arange(0, 8))

    @eas.kernel
    def one_side(x, y, n):
        mk.store(y, mk.arange(0, 8), mk.where(n > 2, 1.0))

    assert "store got an address only: its value is missing" in _refused(no_value)
    text = _refused(one_side)
    assert "mk.where is called without b" in text
    assert "hint: mk.where(cond, a, b)" in text


def test_names_of_other_languages_get_a_hint():
    @eas.kernel
    def cuda(x, y, n):
        mk.store(y, mk.threadIdx.x, 1.0)

    @eas.kernel
    def numpys(x, y, n):
        mk.store(y, mk.arange(0, 8), mk.arange(0, 8).astype(np.float32))

    @eas.kernel
    def parameter(x, y, n):
        mk.store(y, mk.arange(0, 8), mk.arange(0, 8, dtype=mk.f32))

    @eas.kernel
    def axes(x, y, n):
        mk.store(y, mk.tid(0), mk.tid(1))

    assert "hint: mk.tid(0, BLOCK) is the position of a thread, mk.tid(0, 8, axis=1)" in _refused(cuda)
    assert "hint: x.to(mk.f32)" in _refused(numpys)
    assert "hint: convert the result: .to(mk.f32)" in _refused(parameter)
    assert "hint: tid(n) counts n threads: mk.tid(0, BLOCK) are those of axis 0, mk.tid(0, 8, axis=1) those of axis 1" in _refused(axes)


def test_hints_name_functions_that_exist():
    from eas.frontend.spellings import NO_SUCH_METHOD, NO_SUCH_NAME
    from eas.frontend.tracebacks import _ELSEWHERE

    said = [word for hint in (*NO_SUCH_NAME.values(), *NO_SUCH_METHOD.values()) for word in re.findall(r"mk\.(\w+)", hint)]
    for word in (*_ELSEWHERE.values(), *said):
        assert hasattr(mk, word), word


def test_shapes_that_are_too_short_say_whose():
    @eas.kernel
    def of_number(x, y, n):
        mk.store(y, mk.arange(0, 8), n.shape[0])

    text = _refused(of_number)
    assert "hint: x.shape has one extent per axis of a block, and none of a scalar" in text
